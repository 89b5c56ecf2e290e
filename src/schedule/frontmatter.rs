//! A definition's file: its frontmatter, read as YAML 1.2 with strict booleans, and its body.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Options, options};

/// A file that has a frontmatter, in its parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The YAML between the fences.
    pub yaml: &'a str,
    /// The number of the line that the YAML begins on.
    pub line: u64,
    /// What follows.
    pub body: &'a str,
    /// What is off with the fences and was read all the same, each the end of a sentence that begins with the file.
    pub odd: Vec<&'static str>,
    /// Whether the second fence is there; the YAML is the whole rest of the file where it isn't.
    pub closed: bool,
}

/// Takes a file apart; `None` where it doesn't begin with a fence (W15: what only looks odd still counts).
pub fn split(text: &str) -> Option<Parts<'_>> {
    let mut odd = Vec::new();
    let mut rest = text;
    if let Some(behind) = rest.strip_prefix('\u{feff}') {
        odd.push("begins with a byte order mark");
        rest = behind;
    }
    let mut line = 1;
    let fence = loop {
        let (first, behind) = rest.split_once('\n')?;
        if first.trim().is_empty() {
            line += 1;
            rest = behind;
            continue;
        }
        break (first, behind);
    };
    if line > 1 {
        odd.push("has blank lines before its frontmatter");
    }
    let is_fence = |line: &str| line.trim_end() == "---";
    let is_odd = |line: &str| line.strip_suffix('\r').unwrap_or(line) != "---";
    if !is_fence(fence.0) {
        return None;
    }
    let mut blanks = is_odd(fence.0);
    let rest = fence.1;
    let mut at = 0;
    for full in rest.split_inclusive('\n') {
        let one = full.strip_suffix('\n').unwrap_or(full);
        if is_fence(one) {
            blanks |= is_odd(one);
            if blanks {
                odd.push("has blanks behind a `---`");
            }
            let body = &rest[at + full.len()..];
            return Some(Parts { yaml: &rest[..at], line: line + 1, body, odd, closed: true });
        }
        at += full.len();
    }
    Some(Parts { yaml: rest, line: line + 1, body: "", odd, closed: false })
}

/// A YAML value, its keys in the file's order.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Any other number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Keys and values.
    Map(Vec<(String, Value)>),
}

impl fmt::Display for Value {
    /// For a sentence: short, in YAML's own words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("empty"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Text(text) => write!(f, "\"{}\"", crate::text::first_words(text, 40)),
            Value::List(_) => f.write_str("a list"),
            Value::Map(_) => f.write_str("a map"),
        }
    }
}

struct Seen;

impl<'de> Visitor<'de> for Seen {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        Value::deserialize(inner)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Value, Value>()? {
            let key = match key {
                Value::Text(text) => text,
                Value::Null => String::new(),
                other => other.to_string(),
            };
            entries.push((key, value));
        }
        Ok(Value::Map(entries))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Seen)
    }
}

/// How YAML is read. A definition is a few lines: the bounds only keep a bomb from going off.
fn rules() -> Options {
    options! {
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_nodes: 20_000,
            max_depth: 16,
            max_documents: 1,
            max_total_scalar_bytes: 1 << 20,
            max_recorded_anchor_events: 1_000,
            max_aliases: 100,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 5_000 },
    }
}

/// Reads a frontmatter's keys. `line` is the number of its first line in the file.
///
/// # Errors
/// Why it can't be read, with the line, as a clause.
pub fn read(yaml: &str, line: u64) -> Result<Vec<(String, Value)>, String> {
    match plainly(yaml) {
        Some(entries) => Ok(entries),
        None => fully(yaml, line),
    }
}

/// Reads any YAML.
fn fully(yaml: &str, line: u64) -> Result<Vec<(String, Value)>, String> {
    let text = with_commands_quoted(yaml);
    match serde_saphyr::from_str_with_options::<Value>(&text, rules()) {
        Ok(Value::Map(entries)) => Ok(entries),
        Ok(Value::Null) => Ok(Vec::new()),
        Ok(other) => Err(format!("the frontmatter holds {other} where keys with values should stand")),
        Err(error) => {
            let place = error.location().map(|at| at.line()).filter(|at| *at > 0);
            let mut why = plain(&error.render_with_options(serde_saphyr::RenderOptions::default()));
            if why.starts_with("mapping values are not allowed") {
                why.push_str(" (a text that holds `: ` wants quotes)");
            } else if why.starts_with("budget breached") {
                why = "it is too long, too deep, or more than one document".to_owned();
            }
            if let Some(place) = place {
                why = format!("line {}: {why}", line + place - 1);
            }
            // What nobody can see is what is looked for longest.
            let hidden = yaml.lines().zip(line..).find_map(|(text, number)| {
                if text.trim_start_matches(' ').starts_with('\t') {
                    return Some((number, "a tab".to_owned()));
                }
                text.chars().find(|c| is_hidden(*c)).map(|c| (number, hidden_name(c)))
            });
            if let Some((number, what)) = hidden {
                why = format!("{why} (line {number} holds {what} where YAML wants plain blanks)");
            }
            Err(why)
        }
    }
}

/// Reads what nearly every frontmatter is made of: keys with plain words, numbers and times, and lists of them. A few times as fast
/// as the whole of YAML, which counts where a thousand files are read; `None` where there is anything else, faults too.
fn plainly(yaml: &str) -> Option<Vec<(String, Value)>> {
    let mut entries: Vec<(String, Value)> = Vec::new();
    // The indent of the present key's list.
    let mut indent: Option<usize> = None;
    // Whether a list may follow.
    let mut open = false;
    for line in yaml.lines() {
        let line = line.trim_end_matches(' ');
        let text = line.trim_start_matches(' ');
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let depth = line.len() - text.len();
        if let Some(item) = text.strip_prefix("- ") {
            if !open || *indent.get_or_insert(depth) != depth {
                return None;
            }
            let item = item_of(item.trim_start_matches(' '))?;
            match &mut entries.last_mut()?.1 {
                Value::List(list) => list.push(item),
                place => *place = Value::List(vec![item]),
            }
            continue;
        }
        let (key, rest) = text.split_once(':')?;
        if depth > 0 || !is_word(key) || entries.iter().any(|(known, _)| known == key) {
            return None;
        }
        let value = rest.trim_start_matches(' ');
        indent = None;
        open = value.is_empty();
        let value = match value.strip_prefix('[') {
            _ if open => Value::Null,
            // What follows a key stands behind a blank.
            _ if value.len() == rest.len() => return None,
            None => scalar(value)?,
            Some(flow) => {
                let flow = flow.strip_suffix(']')?.trim_matches(' ');
                let items = flow.split(',').filter(|_| !flow.is_empty());
                Value::List(items.map(|item| item_of(item.trim_matches(' '))).collect::<Option<_>>()?)
            }
        };
        entries.push((key.to_owned(), value));
    }
    Some(entries)
}

/// Whether a text is a plain word that no number, truth or nothing is read from.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        && !matches!(text, "true" | "false" | "null")
}

fn item_of(text: &str) -> Option<Value> {
    match text.split_once(": ") {
        None => scalar(text),
        Some((key, value)) if is_word(key) => {
            Some(Value::Map(vec![(key.to_owned(), scalar(value.trim_matches(' '))?)]))
        }
        Some(_) => None,
    }
}

fn scalar(text: &str) -> Option<Value> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'_' | b'-' | b'.' | b'/' | b'%' | b'(' | b')');
    if text.is_empty() || !text.bytes().all(plain) {
        return None;
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        if !number.bytes().all(|b| b.is_ascii_digit())
            || number.len() > 18
            || (number.len() > 1 && number.starts_with('0'))
        {
            return None;
        }
        return match text[number.len()..].trim_start_matches(' ') {
            "" => number.parse().ok().map(Value::Int),
            "s" | "m" | "h" | "d" | "%" => Some(Value::Text(text.to_owned())),
            _ => None,
        };
    }
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ if !text.starts_with(|c: char| c.is_ascii_alphabetic()) => None,
        _ if ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word)) => None,
        _ => Some(Value::Text(text.to_owned())),
    }
}

/// Returns a parser's sentence without its own place and its later lines.
fn plain(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it is no YAML").trim();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let first = match first.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
        Some((place, rest)) if place.chars().all(|c| c.is_ascii_digit() || " column,".contains(c)) => rest,
        _ => first,
    };
    // What the parser's caller could set is nothing to a person.
    let first = first.split(", set DuplicateKeyPolicy").next().unwrap_or(first);
    let first = match first.rfind(" at line ") {
        Some(at) => &first[..at],
        None => first,
    };
    crate::text::first_words(first, 200)
}

/// Whether a character is a blank or nothing to the eye, and none to YAML.
pub fn is_hidden(c: char) -> bool {
    matches!(c, '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{2000}'..='\u{200f}' | '\u{202a}'..='\u{202f}'
        | '\u{205f}'..='\u{2069}' | '\u{3000}' | '\u{feff}')
}

/// Returns how a hidden character is named to a person.
pub fn hidden_name(c: char) -> String {
    match c {
        '\u{a0}' => "a no-break space (U+00A0)".to_owned(),
        other => format!("an invisible character (U+{:04X})", u32::from(other)),
    }
}

/// Quotes a `command:` that begins with `!`: a shell's "not" is a tag to YAML, and would be lost.
fn with_commands_quoted(yaml: &str) -> Cow<'_, str> {
    let is_not = |line: &str| {
        line.strip_prefix("command")
            .and_then(|rest| rest.trim_start_matches([' ', '\t']).strip_prefix(':'))
            .is_some_and(|rest| rest.starts_with([' ', '\t']) && rest.trim_start().starts_with('!'))
    };
    if !yaml.lines().any(is_not) {
        return Cow::Borrowed(yaml);
    }
    let mut out = String::with_capacity(yaml.len() + 16);
    let mut lines = yaml.lines().peekable();
    while let Some(line) = lines.next() {
        if !is_not(line) {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let mut command = line.split_once(':').map_or("", |(_, rest)| rest).trim().to_owned();
        let mut folded = 0;
        // A plain scalar goes on over deeper lines.
        while let Some(next) = lines.next_if(|next| next.starts_with([' ', '\t']) && !next.trim().is_empty()) {
            command.push(' ');
            command.push_str(next.trim());
            folded += 1;
        }
        out.push_str("command: '");
        out.push_str(&command.replace('\'', "''"));
        out.push_str("'\n");
        // The numbers of the lines below stay.
        (0..folded).for_each(|_| out.push('\n'));
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(yaml: &str) -> Vec<(String, Value)> {
        read(yaml, 2).unwrap()
    }

    #[test]
    fn a_frontmatter_stands_between_two_fences() {
        let parts = split("---\na: 1\n---\nbody\n").unwrap();
        assert_eq!((parts.yaml, parts.body, parts.line, parts.closed), ("a: 1\n", "body\n", 2, true));
        assert!(parts.odd.is_empty());
        assert_eq!(split("---\r\na: 1\r\n---\r\nbody").unwrap().odd, Vec::<&str>::new());
        assert_eq!(split("---\n---").unwrap().body, "");
        for text in ["", "---", "text\n---\n", "----\na\n", "\n\n", "# title\n"] {
            assert_eq!(split(text), None, "{text:?}");
        }
        assert!(!split("---\na: 1\n").unwrap().closed);
    }

    #[test]
    fn w15_what_only_looks_odd_is_read_and_told() {
        for text in
            ["\u{feff}---\na: 1\n---\nb", "\n \r\n---\na: 1\n---\nb", "--- \na: 1\n---\nb", "---\na: 1\n---\t\nb"]
        {
            let parts = split(text).unwrap();
            assert_eq!((parts.yaml, parts.body, parts.odd.len()), ("a: 1\n", "b", 1), "{text:?}");
        }
        assert_eq!(split("\n\n---\na: 1\n---\n").unwrap().line, 4);
    }

    #[test]
    fn booleans_are_strict() {
        let keys = get("a: true\nb: True\nc: yes\nd: \"true\"\ne: on\nf: 1\ng:\nh: 1.5\ni: -3\n");
        let values: Vec<Value> = keys.into_iter().map(|(_, value)| value).collect();
        let text = |text: &str| Value::Text(text.to_owned());
        let expected = [
            Value::Bool(true),
            Value::Bool(true),
            text("yes"),
            text("true"),
            text("on"),
            Value::Int(1),
            Value::Null,
            Value::Float(1.5),
            Value::Int(-3),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn a_command_keeps_its_not() {
        for (yaml, command) in [
            ("command: ! test -f lock\n", "! test -f lock"),
            ("command: !test\n", "!test"),
            ("command: ! grep -q \"it's\" x &&\n  echo 'no'\nhook: true\n", "! grep -q \"it's\" x && echo 'no'"),
            ("command: echo !\n", "echo !"),
        ] {
            let keys = get(yaml);
            assert_eq!(keys[0], ("command".to_owned(), Value::Text(command.to_owned())), "{yaml}");
        }
    }

    #[test]
    fn what_is_no_yaml_says_where() {
        for (yaml, line, word) in [
            ("a: 1\na: 2\n", "line 3", "uplicate"),
            ("a: [1\nb: 2\n", "line", ""),
            ("a:\n\t- b\n", "line", "tab"),
            ("a: 1\nrun_on:\u{a0}idle\n", "line", "no-break"),
            ("a: !!python x\n", "line 2", ""),
            ("- a\n", "", "a list"),
            ("just words\n", "", "\"just words\""),
            ("a: &x [1]\nb: *y\n", "line", ""),
        ] {
            let why = read(yaml, 2).unwrap_err();
            assert!(why.contains(line) && why.contains(word) && !why.contains('\n'), "{yaml:?}: {why}");
        }
        assert_eq!(get(""), Vec::new());
    }

    #[test]
    fn what_is_common_is_read_plainly() {
        let yaml = "fork: true\r\n# a word\nrun_on:\n  - idle: 10m\n  - idle\n\ntags: [a, b c, every: 5 m]\npriority: 3\n\
                    description: Keeps (nearly) all of it - 50% or so\nafter:\n- x\nempty:\nnone: [ ]\n";
        let plain = plainly(yaml).unwrap();
        assert_eq!(plain, fully(yaml, 1).unwrap());
        assert_eq!(plain.len(), 8);
    }

    /// Lines of which most are plain, and some only look so.
    const LINES: [&str; 48] = [
        "a: true",
        "b: 10m",
        "c: [x, y]",
        "d:",
        "e:",
        "  - idle",
        "  - idle: 5m",
        "  - every: 1h ",
        "- x",
        "- z: 3",
        "# word",
        "",
        "  # word",
        "f: a b - c",
        "g: 80%",
        "h: (x) y/z.w",
        "i: 007",
        "j: 1e5",
        "k: 0x1F",
        "l: Null",
        "m: yes",
        "n: x #y",
        "o: x: y",
        "p: [idle: 5m, every: 2 h]",
        "q: []",
        "r: [ ]",
        "s: [a,]",
        "t: [[a]]",
        "u: 1_000",
        "v: 12 m",
        "   - deeper",
        " - one",
        "  cont",
        "w: True",
        "x: 123456789012345678901",
        "on: no",
        "y: [true, 1, 1.5]",
        "null: x",
        "A: b",
        "z:x",
        "aa: -",
        "bb: a-b",
        "cc: nan",
        "dd: [a b , c: d e]",
        "-",
        "- - a",
        "a: again\r",
        "ee: 5\r",
    ];

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_is_read_plainly_is_what_yaml_says(lines in proptest::collection::vec(proptest::sample::select(&LINES[..]), 0..6)) {
            let yaml = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            if let Some(plain) = plainly(&yaml) {
                proptest::prop_assert_eq!(Ok(plain), fully(&yaml, 1), "{:?}", yaml);
            }
        }

        #[test]
        fn no_text_panics(text in "((---|\u{feff}|\\.\\.\\.)? {0,2}\r?\n?|\\PC{0,12}[:\\n]|(fork|hook|guard|run_on|command): ?([!&*|>{\\[\"'-]|true)?.{0,8}\n){0,12}") {
            if let Some(parts) = split(&text) {
                let _ = read(parts.yaml, parts.line);
            }
            let _ = read(&text, 1);
        }
    }

    #[test]
    fn any_two_lines_are_read_plainly_as_yaml_reads_them() {
        let mut plainly_read = 0;
        for one in LINES {
            for two in LINES {
                let yaml = format!("{one}\n{two}\n");
                if let Some(plain) = plainly(&yaml) {
                    plainly_read += 1;
                    assert_eq!(Ok(plain), fully(&yaml, 1), "{yaml:?}");
                }
            }
        }
        assert!(plainly_read > 300, "{plainly_read}");
    }

    #[test]
    fn a_bomb_of_aliases_does_not_go_off() {
        let mut yaml = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..9 {
            let before = n - 1;
            yaml.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{before}"); 9].join(",")));
        }
        assert!(read(&yaml, 2).is_err());
        assert!(read(&"[".repeat(100_000), 2).is_err());
    }
}
