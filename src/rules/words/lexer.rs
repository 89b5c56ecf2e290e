//! A small lexer for POSIX and bash command lines: what R69 calls "reading the words".
//!
//! It yields simple commands in the order they are written, those of groups, loops and functions flat among the others,
//! those of substitutions inside the word that holds them. It knows no grammar beyond what tells where a command can stand.

use std::cell::OnceCell;
use std::rc::Rc;

use super::Steps;

/// Deeper nesting than this is not read: the script is `broken`, and R69 denies it as uncertain.
const DEEPEST: usize = 40;

/// A pattern or a brace that closes farther off than this is none, bytes.
const FARTHEST: usize = 512;

/// A whole line, or the inside of a substitution.
#[derive(Debug, Default)]
pub(in crate::rules) struct Script {
    pub commands: Vec<Command>,
    /// An unclosed quote or group: what follows it was not understood.
    pub broken: bool,
    /// A `|` joins two of its commands.
    pub pipes: bool,
    /// Functions, coprocesses: the output of a command may go where the text doesn't show.
    pub diverts: bool,
}

/// One simple command with what stands around it. Words that no command gets (a `for` list, a `case` pattern, the inside of
/// `[[ ]]` and of arithmetic) are read as arguments of `:`.
#[derive(Debug, Default)]
pub(in crate::rules) struct Command {
    pub assigns: Vec<Assign>,
    pub words: Vec<Word>,
    pub inputs: Vec<Input>,
    /// Redirection targets, array elements: texts that are no arguments.
    pub targets: Vec<Word>,
    /// Its output goes to a pipe or a file.
    pub flows: bool,
    /// Nothing but blanks and comments stands before it in the line.
    pub leading: bool,
    /// Which of `targets` it opens for writing.
    pub writes: Vec<usize>,
    /// How it follows the command before it.
    pub joined: Joined,
    /// The subshells that it stands in, the innermost last, each with a number of its own.
    pub subshells: Vec<usize>,
    /// It stands in or behind an `if`, a loop, a `case` or a function: it may run or not, or more than once.
    pub conditional: bool,
    after_group: bool,
}

/// How a command follows the one before it in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::rules) enum Joined {
    /// It is the first, or comes after `;`, `&` or a newline.
    #[default]
    Then,
    /// After `&&`.
    And,
    /// After `||`.
    Or,
    /// After `|`.
    Pipe,
}

/// `NAME=value`; no value where one reading can't give it (`+=`, arrays, `for`).
#[derive(Debug)]
pub(in crate::rules) struct Assign {
    pub name: String,
    pub value: Option<Word>,
}

/// A heredoc or a here-string. The body of a heredoc comes after the rest of its line.
#[derive(Debug, Clone)]
pub(in crate::rules) struct Input {
    pub heredoc: bool,
    /// Nothing in the body is expanded.
    pub quoted: bool,
    pub body: Rc<OnceCell<Word>>,
}

/// A word after quotes, backslashes, `$'…'` and continuations are undone.
#[derive(Debug, Default)]
pub(in crate::rules) struct Word {
    pub pieces: Vec<Piece>,
    /// Text inside braces and `${…}`, which may or may not become part of the word.
    pub aside: String,
    pub scripts: Vec<Script>,
    /// Variables that `${NAME:=text}` in it sets.
    pub sets: Vec<String>,
    /// It is `<(…)` or `>(…)`: a file that a script of its own writes or reads.
    pub feeds: bool,
    /// Bytes in the source of the lexer that read it.
    pub start: usize,
    pub end: usize,
    braces: usize,
    /// Some of it is quoted.
    pub quotes: bool,
    /// Some of it by `$'…'`.
    pub dollar: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(in crate::rules) enum Piece {
    Text(String),
    /// `$NAME` or `${NAME}`.
    Var(String),
    /// What only running tells: a substitution, a glob, a brace, `${x…}` with an operator.
    Hole,
}

impl Word {
    /// The one text the word stands for, if it has no expansion.
    pub fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(t)] => Some(t),
            _ => None,
        }
    }

    fn text(text: &str) -> Self {
        Word { pieces: vec![Piece::Text(text.to_owned())], ..Word::default() }
    }

    /// Written without any quoting: only so it can be a reserved word.
    fn bare(&self) -> Option<&str> {
        if self.quotes { None } else { self.literal() }
    }

    fn push(&mut self, c: char) {
        if self.braces > 0 {
            self.aside.push(c);
        } else if let Some(Piece::Text(t)) = self.pieces.last_mut() {
            t.push(c);
        } else {
            self.pieces.push(Piece::Text(c.to_string()));
        }
    }

    fn push_str(&mut self, s: &str) {
        s.chars().for_each(|c| self.push(c));
    }

    fn hole(&mut self) {
        if self.pieces.last() != Some(&Piece::Hole) {
            self.pieces.push(Piece::Hole);
        }
    }

    /// Keeps what `other` says and runs, though it becomes no certain part of this word.
    fn absorb(&mut self, other: Word) {
        for piece in other.pieces {
            if let Piece::Text(t) = piece {
                self.aside.push_str(&t);
            }
        }
        self.aside.push_str(&other.aside);
        self.aside.push(' ');
        self.scripts.extend(other.scripts);
        self.sets.extend(other.sets);
    }
}

/// Reads a whole text as a script, as far as its line's steps go.
pub(in crate::rules) fn read(source: &str, steps: &Steps) -> Script {
    Lexer::new(source, 0, steps).script(false)
}

/// `$'…'`, and what `echo -e`, `printf` and interpreters make of the same escapes. A NUL ends the text, as in bash.
pub(super) fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>, radix: u32, most: usize| {
        let mut n: Option<u32> = None;
        for _ in 0..most {
            let Some(d) = rest.peek().and_then(|c| c.to_digit(radix)) else { break };
            n = Some(n.unwrap_or(0).wrapping_mul(radix).wrapping_add(d));
            rest.next();
        }
        n
    };
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let code = match rest.peek().copied() {
            None => break,
            Some('0'..='7') => number(&mut rest, 8, 3),
            Some(x @ ('x' | 'u' | 'U')) => {
                rest.next();
                number(
                    &mut rest,
                    16,
                    match x {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    },
                )
            }
            Some('c') => {
                rest.next();
                rest.next().map(|c| u32::from(c) & 0x1f)
            }
            Some(other) => {
                rest.next();
                out.push(match other {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'a' | 'b' | 'e' | 'E' | 'f' | 'v' => ' ',
                    other => other,
                });
                continue;
            }
        };
        match code.and_then(char::from_u32) {
            Some('\0') => break,
            Some(c) => out.push(c),
            None => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
    out
}

struct Pending {
    end: String,
    strip_tabs: bool,
    quoted: bool,
    body: Rc<OnceCell<Word>>,
}

struct Lexer<'a> {
    source: &'a str,
    steps: &'a Steps,
    at: usize,
    depth: usize,
    broken: bool,
    pipes: bool,
    diverts: bool,
    conditional: bool,
    opened: usize,
    pending: Vec<Pending>,
    /// Up to where no `]`, and no `}`, was found by a look ahead.
    looked: [usize; 2],
    /// It looks for the end of a `${ list; }`, whose list is read after.
    skims: bool,
}

impl<'a> Lexer<'a> {
    fn new(source: &'a str, depth: usize, steps: &'a Steps) -> Self {
        // Each byte is read once, so that it is paid for here; what is looked at again pays again.
        let paid = steps.take(source.len());
        Lexer {
            source,
            steps,
            at: if paid { 0 } else { source.len() },
            depth,
            broken: !paid,
            pipes: false,
            diverts: false,
            conditional: false,
            opened: 0,
            pending: Vec::new(),
            looked: [0; 2],
            skims: false,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.ahead(0)
    }

    fn ahead(&self, by: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + by).copied()
    }

    fn sees(&self, text: &str) -> bool {
        self.source.as_bytes()[self.at..].starts_with(text.as_bytes())
    }

    fn next(&mut self) -> Option<char> {
        let c = self.source[self.at..].chars().next()?;
        self.at += c.len_utf8();
        Some(c)
    }

    /// Goes one level down, or gives up.
    fn descend(&mut self) -> bool {
        if self.depth >= DEEPEST {
            self.give_up();
            return false;
        }
        self.depth += 1;
        true
    }

    /// What follows is not read.
    fn give_up(&mut self) {
        self.steps.give_up();
        self.broken = true;
        self.at = self.source.len();
    }

    fn script(&mut self, closing: bool) -> Script {
        if !self.descend() {
            return Script { broken: true, ..Script::default() };
        }
        let (pipes, diverts) = (self.pipes, self.diverts);
        (self.pipes, self.diverts) = (false, false);
        let pending = self.pending.len();
        let commands = self.list(closing);
        // A heredoc whose body doesn't come before the end of its substitution: shells differ in where they look for it.
        self.broken |= closing && self.pending.len() > pending;
        let script = Script { commands, broken: self.broken, pipes: self.pipes, diverts: self.diverts };
        (self.pipes, self.diverts) = (pipes, diverts);
        self.depth -= 1;
        script
    }

    /// Another text inside this one: backticks, arithmetic, a heredoc's body.
    fn inside<T>(&mut self, text: &str, read: impl FnOnce(&mut Lexer<'_>) -> T) -> T {
        let mut inner = Lexer::new(text, self.depth + 1, self.steps);
        inner.skims = self.skims;
        if self.depth >= DEEPEST {
            inner.give_up();
        }
        let out = read(&mut inner);
        self.broken |= inner.broken;
        out
    }

    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.ahead(1) == Some(b'\n') => self.at += 2,
                Some(b'#') => {
                    while self.peek().is_some_and(|b| b != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn blank_lines(&mut self) {
        self.blanks();
        while self.peek() == Some(b'\n') {
            self.newline();
            self.blanks();
        }
    }

    /// The bodies of the line's heredocs begin after its newline.
    fn newline(&mut self) {
        self.at += 1;
        for doc in std::mem::take(&mut self.pending) {
            let mut text = String::new();
            while self.at < self.source.len() {
                let rest = &self.source[self.at..];
                let line = rest.split('\n').next().unwrap_or(rest);
                self.at = (self.at + line.len() + 1).min(self.source.len());
                let line = if doc.strip_tabs { line.trim_start_matches('\t') } else { line };
                if line == doc.end {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            let body = if doc.quoted {
                Word::text(&text)
            } else {
                self.inside(&text, |inner| {
                    let mut word = Word::default();
                    inner.quoted(&mut word, None);
                    word
                })
            };
            // A body is read once: its heredoc was taken off the list.
            let _ = doc.body.set(body);
        }
    }

    fn list(&mut self, closing: bool) -> Vec<Command> {
        let mut out: Vec<Command> = Vec::new();
        let (mut groups, mut cases) = (0usize, 0usize);
        let mut leading = self.depth == 1;
        let mut after_group = false;
        let mut joined = Joined::Then;
        let mut subshells: Vec<usize> = Vec::new();
        // So many of the first commands are known to flow: a group's end doesn't tell which are its own.
        let mut flowing = 0;
        loop {
            self.blanks();
            let Some(b) = self.peek() else {
                self.broken |= closing || groups > 0;
                return out;
            };
            match b {
                b'\n' => {
                    self.newline();
                    after_group = false;
                    continue;
                }
                b';' if matches!(self.ahead(1), Some(b';' | b'&')) => {
                    while matches!(self.peek(), Some(b';' | b'&')) {
                        self.at += 1;
                    }
                    if cases > 0 {
                        self.pattern(&mut out, &mut cases);
                    }
                }
                b';' => self.at += 1,
                b'&' if self.sees("&&") => {
                    joined = Joined::And;
                    self.at += 2;
                }
                b'&' if self.ahead(1) != Some(b'>') => self.at += 1,
                b'|' if self.sees("||") => {
                    joined = Joined::Or;
                    self.at += 2;
                }
                b'|' => {
                    joined = Joined::Pipe;
                    self.pipes = true;
                    self.at += if self.sees("|&") { 2 } else { 1 };
                    let from = if after_group { flowing } else { out.len().saturating_sub(1) };
                    out[from..].iter_mut().for_each(|c| c.flows = true);
                    if after_group {
                        flowing = out.len();
                    }
                }
                b'(' => match self.arithmetic(0) {
                    Some(word) => out.push(arithmetic_command(word)),
                    None => {
                        self.at += 1;
                        groups += 1;
                        self.opened += 1;
                        subshells.push(self.opened);
                        if groups > DEEPEST {
                            self.give_up();
                        }
                    }
                },
                b')' => {
                    self.at += 1;
                    if groups > 0 {
                        groups -= 1;
                        subshells.pop();
                    } else if closing {
                        return out;
                    } else {
                        self.broken = true;
                    }
                    after_group = true;
                    continue;
                }
                _ => {
                    let before = out.len();
                    self.command(&mut out, &mut cases, leading, after_group);
                    leading = false;
                    for command in &mut out[before..] {
                        command.joined = std::mem::take(&mut joined);
                        command.subshells.clone_from(&subshells);
                        command.conditional = self.conditional;
                    }
                    after_group = out[before..].last().is_some_and(|c| c.after_group);
                    // A group's redirection is that of all in it.
                    if after_group && out[before..].iter().any(|c| c.flows) {
                        out[flowing..].iter_mut().for_each(|c| c.flows = true);
                        flowing = out.len();
                    }
                    continue;
                }
            }
            leading = false;
            after_group = false;
        }
    }

    fn command(&mut self, out: &mut Vec<Command>, cases: &mut usize, leading: bool, after_group: bool) {
        let mut c = Command { leading, after_group, ..Command::default() };
        loop {
            self.blanks();
            let word = match self.peek() {
                None | Some(b'\n' | b';' | b')' | b'|') => break,
                Some(b'&') if self.ahead(1) != Some(b'>') => break,
                Some(b'(') => {
                    let open = self.at;
                    self.at += 1;
                    self.blanks();
                    if c.words.len() == 1 && self.peek() == Some(b')') {
                        self.at += 1;
                        self.diverts = true;
                        self.conditional = true;
                        c.leading = false;
                        // The name stands where a command can: R69 hears of a function `leaf`, others do no harm.
                        if c.words[0].literal().is_some_and(super::is_leaf) {
                            break;
                        }
                        return;
                    }
                    self.at = open;
                    break;
                }
                Some(b'&') => {
                    self.redirect(&mut c);
                    continue;
                }
                Some(b'<' | b'>') if self.ahead(1) != Some(b'(') => {
                    self.redirect(&mut c);
                    continue;
                }
                Some(_) => self.word(),
            };
            if matches!(self.peek(), Some(b'<' | b'>'))
                && word.bare().is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()))
            {
                self.redirect(&mut c);
                continue;
            }
            if !c.words.is_empty() {
                c.words.push(word);
                continue;
            }
            let Some(word) = self.assignment(word, &mut c) else { continue };
            let reserved = if c.assigns.is_empty() { word.bare().map(str::to_owned) } else { None };
            const BRANCHES: [&str; 7] = ["if", "while", "until", "for", "select", "case", "function"];
            self.conditional |= reserved.as_deref().is_some_and(|word| BRANCHES.contains(&word));
            match reserved.as_deref() {
                Some("if" | "then" | "elif" | "else" | "do" | "while" | "until" | "!" | "{") => c.after_group = false,
                Some("time") => {
                    self.blanks();
                    if self.sees("-p ") {
                        self.at += 3;
                    }
                }
                Some("coproc") => {
                    self.diverts = true;
                    self.coproc_name();
                }
                Some("}" | "fi" | "done") => c.after_group = true,
                Some("esac") => {
                    *cases = cases.saturating_sub(1);
                    c.after_group = true;
                }
                Some("for" | "select") => return self.loop_head(out),
                Some("case") => {
                    self.blanks();
                    let subject = self.some_word();
                    out.push(loose(subject.into_iter().collect()));
                    self.blank_lines();
                    if self.some_word().is_some_and(|w| w.bare() == Some("in")) {
                        *cases += 1;
                        self.pattern(out, cases);
                    }
                    return;
                }
                Some("function") => {
                    self.diverts = true;
                    self.blanks();
                    if let Some(name) = self.some_word() {
                        if name.literal().is_some_and(super::is_leaf) {
                            out.push(Command { words: vec![name], ..Command::default() });
                        }
                        self.blanks();
                        if self.sees("()") {
                            self.at += 2;
                        }
                    }
                    return;
                }
                Some("[[") => {
                    let mut inside = Vec::new();
                    let mut separated = false;
                    loop {
                        match self.peek() {
                            None => {
                                self.broken = true;
                                break;
                            }
                            Some(b'<' | b'>') if self.ahead(1) != Some(b'(') => self.at += 1,
                            Some(b' ' | b'\t' | b')') => self.at += 1,
                            Some(b'\n' | b';' | b'&' | b'|' | b'(') => {
                                separated = true;
                                self.at += 1;
                            }
                            Some(_) => {
                                let word = self.word();
                                if word.bare() == Some("]]") {
                                    break;
                                }
                                // A shell without `[[ ]]` takes what follows for another command.
                                if std::mem::take(&mut separated) && word.literal().is_some_and(super::is_leaf) {
                                    out.push(Command { words: vec![Word::text("leaf")], ..Command::default() });
                                }
                                inside.push(word);
                            }
                        }
                    }
                    out.push(Command {
                        words: std::iter::once(Word::text("[[")).chain(inside).collect(),
                        ..Command::default()
                    });
                    return;
                }
                _ => {
                    c.words.push(word);
                    continue;
                }
            }
            c.leading = false;
        }
        if c.after_group || !(c.words.is_empty() && c.assigns.is_empty() && c.targets.is_empty() && c.inputs.is_empty())
        {
            out.push(c);
        }
    }

    /// A word where one may stand, none at an operator.
    fn some_word(&mut self) -> Option<Word> {
        match self.peek()? {
            b'\n' | b';' | b'&' | b'|' | b'(' | b')' => None,
            b'<' | b'>' if self.ahead(1) != Some(b'(') => None,
            _ => Some(self.word()),
        }
    }

    fn loop_head(&mut self, out: &mut Vec<Command>) {
        self.blanks();
        if let Some(word) = self.arithmetic(0) {
            return out.push(arithmetic_command(word));
        }
        let Some(name) = self.some_word() else { return };
        let name = name.literal().unwrap_or_default().to_owned();
        self.blank_lines();
        let mut list = Vec::new();
        if self.sees_in() {
            self.at += "in".len();
            self.blanks();
            while let Some(word) = self.some_word() {
                list.push(word);
                self.blanks();
            }
        }
        let mut head = loose(list);
        head.assigns.push(Assign { name, value: None });
        out.push(head);
    }

    /// Whether the next word is `in`: any other begins a command, and is left to it unread.
    fn sees_in(&self) -> bool {
        let ends = match self.ahead(2) {
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')') => true,
            Some(b'<' | b'>') => self.ahead(3) != Some(b'('),
            Some(_) => false,
        };
        self.sees("in") && ends
    }

    /// From after `in` or `;;` to the `)` of the next pattern, or past `esac`.
    fn pattern(&mut self, out: &mut Vec<Command>, cases: &mut usize) {
        self.blank_lines();
        if self.peek() == Some(b'(') {
            self.at += 1;
        }
        let mut words = Vec::new();
        loop {
            self.blanks();
            match self.peek() {
                None => return self.broken = true,
                Some(b')') => {
                    self.at += 1;
                    return out.push(loose(words));
                }
                Some(b'\n' | b';' | b'&' | b'|' | b'(' | b'<' | b'>') => self.at += 1,
                Some(_) => {
                    let word = self.word();
                    if words.is_empty() && word.bare() == Some("esac") {
                        *cases = cases.saturating_sub(1);
                        return out.push(Command { after_group: true, ..loose(Vec::new()) });
                    }
                    words.push(word);
                }
            }
        }
    }

    /// `coproc NAME { …; }`: only what runs a list has a name.
    fn coproc_name(&mut self) {
        self.blanks();
        let begin = self.at;
        let named = !self.name().is_empty();
        self.blanks();
        let lists = ["{", "(", "[[", "if ", "while ", "until ", "for ", "select ", "case "];
        if !named || !lists.iter().any(|word| self.sees(word)) {
            self.at = begin;
        }
    }

    fn redirect(&mut self, c: &mut Command) {
        c.leading = c.leading && !c.words.is_empty();
        let from = self.at;
        while matches!(self.peek(), Some(b'<' | b'>' | b'&' | b'|')) && self.at < from + 3 {
            // `>(` and `<(` after an operator begin its target.
            if self.at > from && self.ahead(1) == Some(b'(') {
                break;
            }
            self.at += 1;
        }
        let operator = &self.source[from..self.at];
        let heredoc = operator == "<<";
        let strip_tabs = heredoc && self.peek() == Some(b'-');
        if strip_tabs {
            self.at += 1;
        }
        self.blanks();
        let Some(target) = self.some_word() else { return };
        if heredoc {
            let body = Rc::new(OnceCell::new());
            let end = target.literal().unwrap_or(&self.source[target.start..target.end]).to_owned();
            self.pending.push(Pending { end, strip_tabs, quoted: target.quotes, body: Rc::clone(&body) });
            c.inputs.push(Input { heredoc, quoted: target.quotes, body });
        } else if operator == "<<<" {
            let quoted = target.literal().is_some();
            c.inputs.push(Input { heredoc, quoted, body: Rc::new(OnceCell::from(target)) });
        } else {
            let nowhere = matches!(target.literal(), Some("/dev/null" | "1" | "2" | "&1" | "&2"));
            c.flows |= operator.contains('>') && !nowhere;
            // `2>&1`, `>&-`: another name for a file that is open.
            let renames = operator.ends_with('&')
                && target.literal().is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit() || b == b'-'));
            if operator.contains('>') && !renames {
                c.writes.push(c.targets.len());
            }
            c.targets.push(target);
        }
    }

    /// Takes `NAME=…` before the command's first word; gives any other word back.
    fn assignment(&mut self, mut word: Word, c: &mut Command) -> Option<Word> {
        let raw = &self.source[word.start..word.end];
        let name: String = raw.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let tail = &raw[name.len()..];
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return Some(word);
        }
        let whole = tail.starts_with('=');
        let indexed = tail.starts_with('[') && tail.contains("]=") || tail.starts_with('[') && tail.contains("]+=");
        if !whole && !tail.starts_with("+=") && !indexed {
            return Some(word);
        }
        c.leading = false;
        if self.peek() == Some(b'(') && raw.ends_with('=') {
            self.at += 1;
            loop {
                self.blank_lines();
                match self.some_word() {
                    Some(word) => c.targets.push(word),
                    None => {
                        self.broken |= self.peek() != Some(b')');
                        self.at = (self.at + 1).min(self.source.len());
                        break;
                    }
                }
            }
        } else if whole {
            if let Some(Piece::Text(t)) = word.pieces.first_mut() {
                t.drain(..(name.len() + 1).min(t.len()));
            }
            c.assigns.push(Assign { name, value: Some(word) });
            return None;
        }
        c.targets.push(word);
        c.assigns.push(Assign { name, value: None });
        None
    }

    fn word(&mut self) -> Word {
        let mut w = Word { start: self.at, ..Word::default() };
        while let Some(b) = self.peek() {
            match b {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' => break,
                b'<' | b'>' if self.ahead(1) == Some(b'(') => {
                    self.at += 2;
                    let script = self.script(true);
                    w.scripts.push(script);
                    w.feeds = true;
                    w.hole();
                }
                b'<' | b'>' => break,
                b'\\' if self.ahead(1) == Some(b'\n') => {
                    self.at += 2;
                    w.quotes = true;
                }
                b'\\' => {
                    self.at += 1;
                    w.quotes = true;
                    let c = self.next().unwrap_or('\\');
                    w.push(c);
                }
                b'\'' => {
                    self.at += 1;
                    w.quotes = true;
                    let text = self.single();
                    w.push_str(text);
                }
                b'"' => {
                    self.at += 1;
                    w.quotes = true;
                    self.quoted(&mut w, Some(b'"'));
                }
                b'$' => self.dollar(&mut w, false),
                b'`' => self.backticks(&mut w, false),
                b'*' | b'?' => {
                    self.at += 1;
                    w.hole();
                }
                b'[' if self.closes(0, b']', b" \t\n;&|()<>'\"\\`$") => {
                    while self.peek() != Some(b']') && self.peek().is_some() {
                        if let Some(c) = self.next() {
                            w.aside.push(c);
                        }
                    }
                    self.at = (self.at + 1).min(self.source.len());
                    w.hole();
                }
                b'{' if w.braces > 0 || self.brace_expands() => {
                    self.at += 1;
                    w.hole();
                    w.braces += 1;
                }
                b'}' if w.braces > 0 => {
                    self.at += 1;
                    w.braces -= 1;
                    w.aside.push(' ');
                }
                b',' if w.braces > 0 => {
                    self.at += 1;
                    w.aside.push(' ');
                }
                _ => {
                    if let Some(c) = self.next() {
                        w.push(c);
                    }
                }
            }
        }
        w.end = self.at;
        w
    }

    /// Whether `close` comes before one of `stops`, and not far: a look ahead at each byte of a long word must stay cheap, and
    /// begins where the one before, of the same kind, found nothing.
    fn closes(&mut self, kind: usize, close: u8, stops: &[u8]) -> bool {
        let from = self.at.max(self.looked[kind]);
        let ahead = &self.source.as_bytes()[..self.source.len().min(self.at + FARTHEST)];
        let ahead = ahead.get(from..).unwrap_or_default();
        match ahead.iter().position(|b| *b == close || stops.contains(b)) {
            Some(at) if ahead[at] == close => true,
            found => {
                self.looked[kind] = from + found.unwrap_or(ahead.len());
                false
            }
        }
    }

    fn brace_expands(&mut self) -> bool {
        let stops = b" \t\n;&|<>";
        if !self.closes(1, b'}', stops) {
            return false;
        }
        let rest = &self.source.as_bytes()[self.at..];
        let rest = &rest[..rest.len().min(FARTHEST)];
        let rest = &rest[..rest.iter().position(|b| stops.contains(b)).unwrap_or(rest.len())];
        rest.contains(&b',') || rest.windows(2).any(|w| w == b"..")
    }

    /// From after `'` past its end.
    fn single(&mut self) -> &'a str {
        let rest = &self.source[self.at..];
        let len = rest.find('\'');
        self.broken |= len.is_none();
        let text = &rest[..len.unwrap_or(rest.len())];
        self.at = (self.at + text.len() + 1).min(self.source.len());
        text
    }

    /// Text in which only `$`, backticks and some backslashes mean anything, past its closing byte or to the end.
    fn quoted(&mut self, w: &mut Word, close: Option<u8>) {
        while let Some(b) = self.peek() {
            match b {
                b if Some(b) == close => {
                    self.at += 1;
                    return;
                }
                b'\\' if self.ahead(1) == Some(b'\n') => self.at += 2,
                b'\\'
                    if matches!(self.ahead(1), Some(b'$' | b'`' | b'\\'))
                        || self.ahead(1).is_some_and(|b| Some(b) == close) =>
                {
                    self.at += 1;
                    if let Some(c) = self.next() {
                        w.push(c);
                    }
                }
                b'$' => self.dollar(w, true),
                b'`' => self.backticks(w, close.is_some()),
                _ => {
                    if let Some(c) = self.next() {
                        w.push(c);
                    }
                }
            }
        }
        self.broken |= close.is_some();
    }

    fn dollar(&mut self, w: &mut Word, in_quotes: bool) {
        if let Some(inside) = self.arithmetic(1) {
            // It gives a number, which spells nothing.
            w.push('0');
            return w.absorb(inside);
        }
        self.at += 1;
        match self.peek() {
            Some(b'(') => {
                self.at += 1;
                let script = self.script(true);
                w.scripts.push(script);
                w.hole();
            }
            Some(b'{') => {
                self.at += 1;
                self.parameter(w, in_quotes);
            }
            Some(b'\'') if !in_quotes => {
                self.at += 1;
                w.quotes = true;
                w.dollar = true;
                let from = self.at;
                let mut to = self.source.len();
                loop {
                    match self.next() {
                        None => {
                            self.broken = true;
                            break;
                        }
                        Some('\\') => {
                            self.next();
                        }
                        Some('\'') => {
                            to = self.at - 1;
                            break;
                        }
                        Some(_) => {}
                    }
                }
                w.push_str(&unescape(&self.source[from..to]));
            }
            Some(b'"') if !in_quotes => {}
            Some(b) if b.is_ascii_alphabetic() || b == b'_' => {
                let name = self.name();
                w.pieces.push(Piece::Var(name));
            }
            Some(b) if b.is_ascii_digit() || b == b'@' || b == b'*' => {
                self.at += 1;
                w.pieces.push(Piece::Var(char::from(b).to_string()));
            }
            Some(b'?' | b'#' | b'$' | b'!' | b'-') => {
                self.at += 1;
                w.push('0');
            }
            _ => w.push('$'),
        }
    }

    fn name(&mut self) -> String {
        let from = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            self.at += 1;
        }
        self.source[from..self.at].to_owned()
    }

    /// From after `${` past its `}`.
    fn parameter(&mut self, w: &mut Word, in_quotes: bool) {
        // `${ list; }` and `${| list; }` run their inside.
        let runs = matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|'));
        let from = self.at;
        let name = self.name();
        if self.peek() == Some(b'}') && !name.is_empty() {
            self.at += 1;
            w.pieces.push(Piece::Var(name));
            return;
        }
        if !self.descend() {
            return;
        }
        let mut inside = Word::default();
        if self.sees("=") || self.sees(":=") {
            w.sets.push(name);
        }
        let skims = self.skims;
        self.skims |= runs;
        loop {
            match self.peek() {
                None => {
                    self.broken = true;
                    break;
                }
                Some(b'}') => break,
                Some(b'\\') => {
                    self.at += 1;
                    if let Some(c) = self.next() {
                        inside.push(c);
                    }
                }
                Some(b'\'') if !in_quotes => {
                    self.at += 1;
                    let text = self.single();
                    inside.push_str(text);
                }
                Some(b'"') => {
                    self.at += 1;
                    self.quoted(&mut inside, Some(b'"'));
                }
                Some(b'$') => self.dollar(&mut inside, in_quotes),
                Some(b'`') => self.backticks(&mut inside, in_quotes),
                Some(_) => {
                    if let Some(c) = self.next() {
                        inside.push(c);
                    }
                }
            }
        }
        self.skims = skims;
        if runs {
            inside.scripts.clear();
        }
        // Only now its end is known. Where an outer one's end is looked for, that one is read again, and this with it.
        if runs && !skims {
            let text = self.source[from..self.at].trim_start_matches('|').to_owned();
            let script = self.inside(&text, |inner| inner.script(false));
            w.scripts.push(script);
        }
        self.depth -= 1;
        self.at = (self.at + 1).min(self.source.len());
        w.hole();
        w.absorb(inside);
    }

    fn backticks(&mut self, w: &mut Word, in_quotes: bool) {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next() {
                None => {
                    self.broken = true;
                    break;
                }
                Some('`') => break,
                Some('\\') => match self.next() {
                    Some(c @ ('$' | '`' | '\\')) => text.push(c),
                    Some('"') if in_quotes => text.push('"'),
                    Some(c) => text.extend(['\\', c]),
                    None => text.push('\\'),
                },
                Some(c) => text.push(c),
            }
        }
        let script = self.inside(&text, |inner| inner.script(false));
        w.scripts.push(script);
        w.hole();
    }

    /// `((…))` at `skip` bytes ahead, if it closes as arithmetic; otherwise it is a group in a group.
    fn arithmetic(&mut self, skip: usize) -> Option<Word> {
        let bytes = self.source.as_bytes();
        let from = self.at + skip + 2;
        if bytes.get(self.at + skip..from) != Some(b"((") || self.steps.gave_up() {
            return None;
        }
        let (mut at, mut open) = (from, 0usize);
        let closed = loop {
            match bytes.get(at) {
                None => break false,
                Some(b'\\') => at += 1,
                Some(b'(') => open += 1,
                Some(b')') if open > 0 => open -= 1,
                Some(b')') => break bytes.get(at + 1) == Some(&b')'),
                Some(_) => {}
            }
            at += 1;
        };
        // From each `((` on it may look to the end.
        if !self.steps.take(at - from) || !closed {
            return None;
        }
        let text = self.source.get(from..at)?.to_owned();
        self.at = at + 2;
        Some(self.inside(&text, |inner| {
            let mut word = Word::default();
            inner.quoted(&mut word, None);
            word
        }))
    }
}

/// A shell without `(( ))` takes it for two groups, so its text is not `:`'s but that of a command nobody knows.
fn arithmetic_command(word: Word) -> Command {
    Command { words: vec![Word::text("((")], targets: vec![word], ..Command::default() }
}

/// Words that nothing runs.
fn loose(words: Vec<Word>) -> Command {
    let mut all = vec![Word::text(":")];
    all.extend(words);
    Command { words: all, ..Command::default() }
}
