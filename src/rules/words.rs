//! Reading a shell command line: does it run `leaf`, where, and as what (R67, R69, R70, R72).
//!
//! Three questions over one reading of the line (`lexer`): [`may_name_leaf`] before anything is allocated, [`plumbing`] for
//! every agent, [`judge`] for known ones. They look at the same words and differ in what doubt means: `plumbing` passes it,
//! `judge` denies it. Nothing here does I/O, and nothing is ever run or expanded.
//!
//! A parser from elsewhere would save little: of 3,000 generated lines (`tests/rules/words_shell.rs`) 643 were denied that run no
//! `leaf`, and 369 of these bash can't read; the others are denied for what a text or a variable could do, whoever reads them.
//! brush-parser 0.4.0 brings 50 crates to leaf's 66, yash-syntax is under the GPL, tree-sitter-bash is C and guesses at what it
//! can't read.

pub(super) mod commands;
pub(super) mod lexer;

use std::cell::Cell;
use std::collections::BTreeMap;

use commands::{
    Class, EVALUATES, KEEPS, LAUNCHERS, Program, Run, TOOLS, base, class, is_fed_a_program, only_xargs, option_says,
    program, quotes_by_slashes, reads_input, reads_program, runs,
};
use lexer::{Assign, Command, Piece, Script, Word, unescape};

/// Texts within texts (`bash -c "bash -c '…'"`) are read this deep; what lies deeper is in doubt.
pub(super) const DEEPEST_TEXT: usize = 6;

/// What one line's reading may cost, in bytes read or put together: the system's longest command, 128 KiB, 32 times.
const MOST_STEPS: usize = 4 << 20;

/// A word into which variables put more than this, bytes, is not put together: one alone is never longer.
pub(super) const LONGEST_VALUE: usize = 128 << 10;

/// What is left of a line's steps. All that read it, or texts in it, share them: a hook that takes too long is killed, and its
/// call passes unseen.
pub(super) struct Steps {
    left: Cell<usize>,
    gave_up: Cell<bool>,
}

impl Steps {
    pub fn of_a_line() -> Self {
        Steps { left: Cell::new(MOST_STEPS), gave_up: Cell::new(false) }
    }

    /// Pays for a piece of work and one step more. Where that is too much, it isn't to be done.
    pub fn take(&self, steps: usize) -> bool {
        match self.left.get().checked_sub(steps.saturating_add(1)) {
            Some(left) if !self.gave_up() => self.left.set(left),
            _ => self.give_up(),
        }
        !self.gave_up()
    }

    pub fn give_up(&self) {
        self.gave_up.set(true);
    }

    /// Something of the line was not read: it is nested too deep, or costs too much.
    pub fn gave_up(&self) -> bool {
        self.gave_up.get()
    }
}

/// Which shell the client gives the line to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// The Bash and Monitor tools: bash, zsh, dash or any that reads like them.
    Posix,
    /// The PowerShell tool.
    PowerShell,
}

/// What R69 makes of a known agent's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No reading of it runs `leaf`.
    Passes,
    /// It runs `leaf` once, as its one leading command (R67).
    Mark {
        /// Byte offset directly after the word `leaf`: there ` --agent-id <id>` goes in.
        insert_at: usize,
    },
    /// It may run `leaf` otherwise.
    Denied(Reason),
}

/// Why R69 denies: what the denial's first sentence names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// `leaf` runs, but not as the one leading command: after another, in a group or loop, behind an assignment, twice.
    NotLeading,
    /// `leaf` runs inside `$(…)`, backticks or `<(…)`.
    Substituted,
    /// `leaf` is named by a path.
    ByPath,
    /// The word is written with quotes, backslashes or escapes, or in other case.
    Spelled,
    /// `leaf` runs behind a command that runs its arguments.
    Wrapped,
    /// The word stands in a text, or a heredoc, that a shell or an interpreter may run.
    Interpreted,
    /// The leading command has an unquoted heredoc with the word in it, or a second one.
    Heredoc,
    /// A variable, glob, brace, substitution or encoding could spell it.
    Uncertain,
    /// PowerShell, and the word is in the line.
    PowerShell,
}

/// What no agent may run (R70); each carries the verb as it is documented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forbidden {
    /// `--agent-id`, which only the hook writes.
    AgentId,
    /// A command for hooks and the module alone: `hook`, `watch`, `follow`, `turn`, `fork line`, `fork started`, `fork ended`.
    Plumbing(&'static str),
    /// A verb of the user's: `thread new`, `thread say`, `thread withdraw`, `trust`.
    User(&'static str),
}

impl Forbidden {
    /// The verb, as a denial names it.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Forbidden::AgentId => "--agent-id",
            Forbidden::Plumbing(verb) | Forbidden::User(verb) => verb,
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------------
// The prefilter

/// Whether the line can name `leaf` at all: the gate of every shell call, without allocation.
///
/// False only where no reading of the line names it: its letters don't stand together even with quotes, backslashes and
/// continuations taken away, and it has nothing that could spell them otherwise. True says little: most lines with a `$` or
/// a glob are true. PowerShell's ways to spell are not told apart: always true.
#[must_use]
pub fn may_name_leaf(command: &str, shell: Shell) -> bool {
    shell == Shell::PowerShell || spells(command.as_bytes()) || has_tricks(command.as_bytes())
}

/// Whether the word `leaf` stands in the line, in any place and under any quoting (R72's "has the word"): as a word or at a
/// path's end, not as part of a longer word.
#[must_use]
pub fn has_word(command: &str) -> bool {
    spells_or_escapes(command.as_bytes()) && mentions(command)
}

/// The bytes that remain once quotes, backslashes, and what joins texts in any language are taken away: `'le'+"af"`,
/// `"le" . "af"`, `"le" "af"`.
fn undone(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let blank = |b: u8| b == b' ' || b == b'\t';
    // Bounded, so that a line of blanks stays linear.
    let before = move |i: usize| text[i.saturating_sub(8)..i].iter().rev().find(|b| !blank(**b)).copied();
    let after = move |i: usize| text[i + 1..text.len().min(i + 9)].iter().find(|b| !blank(**b)).copied();
    let quote = |b: Option<u8>| matches!(b, Some(b'\'' | b'"'));
    (0..text.len()).filter_map(move |i| match text[i] {
        b'\'' | b'"' | b'\\' | b'+' => None,
        b'\n' if i > 0 && text[i - 1] == b'\\' => None,
        b'$' if matches!(text.get(i + 1), Some(b'\'' | b'"')) => None,
        b'.' if quote(before(i)) && quote(after(i)) => None,
        b if blank(b) => {
            let (before, after) = (before(i), after(i));
            let joins = |b: Option<u8>| matches!(b, Some(b'+' | b'.'));
            let joined = joins(before) || joins(after) || quote(before) && quote(after);
            (!joined).then_some(b)
        }
        b => Some(b),
    })
}

/// The letters stand together in any case: some file systems fold it.
fn spells(text: &[u8]) -> bool {
    // Back from each `f`, over more than may stand between the letters: nearly every line ends here.
    let ends_word = |f: usize| {
        let between = |b: &&u8| !b"'\"\\+.$ \t\n".contains(b);
        text[..f].iter().rev().filter(between).take(3).map(u8::to_ascii_lowercase).eq(*b"ael")
    };
    let near = text.iter().enumerate().any(|(i, b)| b.eq_ignore_ascii_case(&b'f') && ends_word(i));
    let mut last = [0u8; 4];
    near && undone(text).any(|b| {
        last = [last[1], last[2], last[3], b.to_ascii_lowercase()];
        last == *b"leaf"
    })
}

/// `\x6c`, `\154`, `\u006c`: a text that some reader may decode.
fn has_escapes(text: &[u8]) -> bool {
    (0..text.len()).any(|i| is_escape(text, i))
}

fn is_escape(text: &[u8], at: usize) -> bool {
    text[at] == b'\\' && matches!(text.get(at + 1), Some(b'0'..=b'7' | b'x' | b'u' | b'U' | b'N' | b'c'))
}

fn spells_or_escapes(text: &[u8]) -> bool {
    spells(text) || has_escapes(text)
}

fn has_tricks(text: &[u8]) -> bool {
    let mut pipes = false;
    for (i, b) in text.iter().enumerate() {
        match b {
            b'$' | b'`' | b'*' | b'?' | b'[' | b'{' => return true,
            b'<' | b'>' if text.get(i + 1) == Some(&b'(') => return true,
            b'\\' if is_escape(text, i) => return true,
            b'|' => pipes = true,
            _ => {}
        }
    }
    // What runs its input: over a pipe it may be decoded from anything.
    let mut word = Short::default();
    pipes && undone(text).chain([b' ']).any(|b| word.ends_at(b) && word.reads_a_program())
}

/// A word of the line, kept as far as a name in `reads_input` is long.
#[derive(Default)]
struct Short {
    bytes: [u8; 10],
    len: usize,
    ended: bool,
}

impl Short {
    /// Takes the next byte; whether it ends a word.
    fn ends_at(&mut self, b: u8) -> bool {
        if std::mem::take(&mut self.ended) {
            self.len = 0;
        }
        if b.is_ascii_alphanumeric() || b == b'_' || b == b'-' {
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = b;
            }
            self.len += 1;
        } else {
            self.ended = true;
        }
        self.ended
    }

    fn reads_a_program(&self) -> bool {
        let Some(mut name) = self.bytes.get(..self.len) else { return false };
        while let [rest @ .., b'0'..=b'9'] = name {
            name = rest;
        }
        std::str::from_utf8(name).is_ok_and(reads_input)
    }
}

/// Whether `leaf` stands in a text as a word of its own, read as it is, with quotes undone, and with escapes decoded.
fn mentions(text: &str) -> bool {
    let text = text.as_bytes();
    word_in(text.iter().copied())
        || word_in(undone(text))
        || text.contains(&b'\\') && {
            let decoded = unescape_all(text);
            word_in(undone(decoded.as_bytes()))
        }
}

/// A NUL ends what one quote decodes to, not the rest of the text.
fn unescape_all(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.split_inclusive("\\0").map(unescape).collect::<Vec<_>>().concat()
}

/// R69: not as part of a longer word or file name (`leaf-threads`, `leaf.rs`, `src/leaf/x`), nor of a variable's.
fn word_in(text: impl Iterator<Item = u8>) -> bool {
    let longer = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b >= 0x80;
    let mut text = text.peekable();
    // The byte before the last four, then those.
    let mut last = [b' '; 5];
    while let Some(b) = text.next() {
        last = [last[1], last[2], last[3], last[4], b.to_ascii_lowercase()];
        if last[1..] == *b"leaf" && !longer(last[0]) && last[0] != b'.' && last[0] != b'$' {
            match text.peek() {
                Some(b'.') => {
                    text.next();
                    last = [last[1], last[2], last[3], last[4], b'.'];
                    if !text.peek().is_some_and(|b| longer(*b)) {
                        return true;
                    }
                }
                Some(b'/') => {}
                Some(b) if longer(*b) => {}
                _ => return true,
            }
        }
    }
    false
}

/// Whether the last command's argument, or its text, may be used again: `$_`, `BASH_COMMAND`.
fn recalls(text: &[u8]) -> bool {
    let name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let alone = |i: usize| {
        text[i] == b'_' && !i.checked_sub(1).is_some_and(|i| name(&text[i])) && !text.get(i + 1).is_some_and(name)
    };
    (0..text.len()).any(alone) || text.windows(5).any(|w| w == b"BASH_")
}

/// An array's index: where arithmetic reads a variable's text, it runs the substitutions in one.
fn indexes(text: &[u8]) -> bool {
    text.windows(2).any(|w| w[1] == b'[' && (w[0].is_ascii_alphanumeric() || w[0] == b'_'))
}

/// Arithmetic, or what is like it.
fn evaluates(text: &[u8]) -> bool {
    text.windows(2).any(|w| matches!(w, b"((" | b"[[" | b"$[" | b"${" | b"]="))
}

/// `${x@P}` and the prompts run the substitutions in any text.
fn expands_texts(text: &[u8]) -> bool {
    text.windows(2).any(|w| w == b"@P") || text.windows(3).any(|w| w[..2] == *b"PS" && w[2].is_ascii_digit())
}

// ---------------------------------------------------------------------------------------------------------------------------
// The commands of a line

/// The word, or a path that ends in it (R69).
fn is_leaf(text: &str) -> bool {
    text == "leaf" || text.ends_with("/leaf")
}

/// All simple commands of a script and of the substitutions in it, with whether one stands in a substitution.
fn flatten<'a>(script: &'a Script, nested: bool, out: &mut Vec<(&'a Command, bool)>) {
    for command in &script.commands {
        out.push((command, nested));
        for word in words_of(command) {
            word.scripts.iter().for_each(|s| flatten(s, true, out));
        }
    }
}

fn words_of(command: &Command) -> impl Iterator<Item = &Word> {
    let assigned = command.assigns.iter().filter_map(|a| a.value.as_ref());
    let bodies = command.inputs.iter().filter_map(|i| i.body.get());
    command.words.iter().chain(assigned).chain(&command.targets).chain(bodies)
}

// ---------------------------------------------------------------------------------------------------------------------------
// R70

/// R70: what no agent may run, where the line certainly runs it. Doubt passes.
#[must_use]
pub fn plumbing(command: &str, shell: Shell) -> Option<Forbidden> {
    // Only `$'…'` decodes escapes here: most lines end at this gate, before anything is allocated.
    let bytes = command.as_bytes();
    match shell {
        Shell::Posix if spells(bytes) || has_escapes(bytes) && bytes.windows(2).any(|w| w == b"$'") => {
            plumbing_in(command, 0, &Steps::of_a_line())
        }
        Shell::Posix => None,
        Shell::PowerShell => power_shell_commands(command).iter().find_map(|words| {
            let (name, args) = words.split_first()?;
            let name = name.as_deref()?.rsplit(['/', '\\']).next()?;
            (name == "leaf" || name.eq_ignore_ascii_case("leaf.exe"))
                .then(|| forbidden(args.iter().map(Option::as_deref)))
                .flatten()
        }),
    }
}

fn plumbing_in(text: &str, depth: usize, steps: &Steps) -> Option<Forbidden> {
    let script = lexer::read(text, steps);
    let mut commands = Vec::new();
    flatten(&script, false, &mut commands);
    commands.iter().find_map(|(command, _)| {
        runs(command).iter().find_map(|run| {
            if run.asks || run.guessed {
                return None;
            }
            let (name, args) = run.words.split_first()?;
            if name.literal().is_some_and(is_leaf) {
                return forbidden(args.iter().map(Word::literal));
            }
            if depth >= DEEPEST_TEXT {
                return None;
            }
            match program(run)? {
                Program::Text(words) => {
                    let texts: Option<Vec<&str>> = words.iter().map(|w| w.literal()).collect();
                    plumbing_in(&texts?.join(" "), depth + 1, steps)
                }
                Program::Input => plumbing_in(command.inputs.last()?.body.get()?.literal()?, depth + 1, steps),
                Program::File => None,
            }
        })
    })
}

/// What `leaf`'s arguments ask for, as far as they are literal. Its options for every command may stand before each noun and
/// verb.
fn forbidden<'a>(mut args: impl Iterator<Item = Option<&'a str>>) -> Option<Forbidden> {
    let mut noun = "";
    loop {
        let word = args.next()??;
        match (noun, word) {
            (_, "--json") => {}
            (_, "--page" | "--session") => {
                args.next()?;
            }
            (_, w) if w.starts_with("--page=") || w.starts_with("--session=") => {}
            (_, w) if w == "--agent-id" || w.starts_with("--agent-id=") => return Some(Forbidden::AgentId),
            ("", "hook") => return Some(Forbidden::Plumbing("hook")),
            ("", "watch") => return Some(Forbidden::Plumbing("watch")),
            ("", "follow") => return Some(Forbidden::Plumbing("follow")),
            ("", "runner") => return Some(Forbidden::Plumbing("runner")),
            ("", "lifecycle") => return Some(Forbidden::Plumbing("lifecycle")),
            ("", "turn") => return Some(Forbidden::Plumbing("turn")),
            ("", "trust") => return Some(Forbidden::User("trust")),
            ("", "thread") => noun = "thread",
            ("", "fork") => noun = "fork",
            ("thread", "new") => return Some(Forbidden::User("thread new")),
            ("thread", "say") => return Some(Forbidden::User("thread say")),
            ("thread", "withdraw") => return Some(Forbidden::User("thread withdraw")),
            ("fork", "line") => return Some(Forbidden::Plumbing("fork line")),
            ("fork", "started") => return Some(Forbidden::Plumbing("fork started")),
            ("fork", "ended") => return Some(Forbidden::Plumbing("fork ended")),
            _ => return None,
        }
    }
}

/// PowerShell's simple commands: their words, or none where one isn't literal. From a here-string on nothing is read.
pub(super) fn power_shell_commands(line: &str) -> Vec<Vec<Option<String>>> {
    let mut commands: Vec<Vec<Option<String>>> = vec![Vec::new()];
    let mut word: Option<Option<String>> = None;
    let mut chars = line.chars().peekable();
    let end = |word: &mut Option<Option<String>>, commands: &mut Vec<Vec<Option<String>>>| {
        if let (Some(word), Some(command)) = (word.take(), commands.last_mut()) {
            command.push(word);
        }
    };
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' => end(&mut word, &mut commands),
            '#' if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            '\n' | '\r' | ';' | '|' | '&' | '{' | '}' | '(' | ')' => {
                end(&mut word, &mut commands);
                commands.push(Vec::new());
            }
            '@' if word.is_none() => break,
            '\'' | '"' => {
                let mut text = String::new();
                let mut literal = true;
                loop {
                    match chars.next() {
                        None => literal = false,
                        Some(q) if q == c && chars.next_if_eq(&c).is_none() => {}
                        Some(x) => {
                            literal &= c == '\'' || !matches!(x, '$' | '`');
                            text.push(x);
                            continue;
                        }
                    }
                    break;
                }
                let before = word.take().unwrap_or_else(|| Some(String::new()));
                word = Some(before.filter(|_| literal).map(|b| b + &text));
            }
            '$' => word = Some(None),
            '`' => {
                let next = chars.next();
                word = Some(match (word.take(), next) {
                    (None, Some('\n')) => continue,
                    (Some(w), Some('\n')) => w,
                    (w, Some(x)) => w.unwrap_or_else(|| Some(String::new())).map(|mut w| {
                        w.push(x);
                        w
                    }),
                    (_, None) => None,
                });
            }
            c => {
                if let Some(text) = word.get_or_insert_with(|| Some(String::new())) {
                    text.push(c);
                }
            }
        }
    }
    end(&mut word, &mut commands);
    commands
}

// ---------------------------------------------------------------------------------------------------------------------------
// R69

/// R69 (and R67's place for the mark): what a known agent's line may do. In doubt it denies.
#[must_use]
pub fn judge(command: &str, shell: Shell) -> Verdict {
    match shell {
        Shell::Posix => {
            let steps = Steps::of_a_line();
            match Judge::of(command, None, &steps) {
                // What was not read may run anything, whether the word is spelled or not.
                _ if steps.gave_up() => Verdict::Denied(Reason::Uncertain),
                Ok(Some(insert_at)) => Verdict::Mark { insert_at },
                Ok(None) => Verdict::Passes,
                Err(reason) => Verdict::Denied(reason),
            }
        }
        Shell::PowerShell => {
            let plain = command.replace('`', "");
            let plain = plain.replace(".exe", "");
            let lower = plain.to_ascii_lowercase();
            if mentions(&plain) {
                Verdict::Denied(Reason::PowerShell)
            } else if spells(plain.as_bytes()) && lower.contains(['$', '(', '&'])
                || [
                    "iex",
                    "invoke-expression",
                    "-enc",
                    "frombase64",
                    "start-process",
                    "& $",
                    "&$",
                    "& (",
                    "&(",
                    ". $",
                    ". (",
                ]
                .iter()
                .any(|trick| lower.contains(trick))
            {
                Verdict::Denied(Reason::Uncertain)
            } else {
                Verdict::Passes
            }
        }
    }
}

/// The variables that a text gives: each one's own text where one reading gives it.
type Named = BTreeMap<String, Option<Vec<Part>>>;

/// A piece of a word once the line's own variables are put in.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    /// Something that the line itself makes.
    Made,
    /// Texts of the line, more than are put together.
    Long,
    /// A variable of the environment, which the line doesn't set.
    Given,
}

impl Part {
    fn len(&self) -> usize {
        if let Part::Text(text) = self { text.len() } else { 0 }
    }
}

/// How far a word can be the command `leaf`, the surest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    No,
    /// It is nothing but what the environment gives.
    Given,
    /// The line gives a part of it.
    Made,
    /// It reads so.
    Is,
}

struct Judge<'a> {
    /// What runs the text: it has its variables too.
    outer: Option<&'a Judge<'a>>,
    steps: &'a Steps,
    named: Named,
    /// The word is somewhere in the text.
    said: bool,
    /// A quoted text has a substitution with the word in it.
    later: bool,
    pipes: bool,
    depth: usize,
}

impl<'a> Judge<'a> {
    /// The place of the mark, nothing to do, or why not. `outer` runs the text: it has its variables and its input.
    fn of(text: &str, outer: Option<&'a Judge<'a>>, steps: &'a Steps) -> Result<Option<usize>, Reason> {
        let depth = outer.map_or(0, |outer| outer.depth + 1);
        if depth > DEEPEST_TEXT {
            return Err(Reason::Uncertain);
        }
        let script = lexer::read(text, steps);
        if steps.gave_up() {
            return Err(Reason::Uncertain);
        }
        let mut commands = Vec::new();
        flatten(&script, false, &mut commands);
        let pipes = script.pipes || outer.is_some_and(|outer| outer.pipes);
        let said = mentions(text) || outer.is_some_and(|outer| outer.said);
        let later = outer.is_some_and(|outer| outer.later);
        let mut judge = Judge { outer, steps, named: Named::new(), said, later, pipes, depth };
        judge.pipes |= commands.iter().any(|(c, _)| words_of(c).any(|w| w.scripts.iter().any(|s| s.pipes)));
        judge.learn(&commands);
        if script.broken && spells_or_escapes(text.as_bytes()) {
            return Err(Reason::Uncertain);
        }
        let plain: Vec<u8> = undone(text.as_bytes()).collect();
        let recalls = recalls(&plain);
        let mut mark = None;
        // A text with the word reaches a pipe, a file or a variable, and something may run what it finds there.
        let (mut talks, mut runner) = (false, false);
        for (command, nested) in &commands {
            let mut own = 0;
            for (n, run) in runs(command).into_iter().enumerate() {
                // Each run after the first, of a `find`, looks at its words again.
                if n > 0 {
                    steps.take(command.words.len());
                }
                if steps.gave_up() {
                    return Err(Reason::Uncertain);
                }
                if !judge.leads(command, &run, *nested)? {
                    runner |= judge.other(command, &run)? == Class::Runner;
                } else if depth > 0 {
                    return Err(Reason::Interpreted);
                } else {
                    judge.heredocs(command)?;
                    mark = Some(command.words[0].end);
                    own = 1;
                }
            }
            let name = command.words.first().and_then(Word::literal).map(base);
            let keeps = name.is_none_or(|n| KEEPS.contains(&n)) || command.flows || script.diverts;
            talks |= keeps && words_of(command).skip(own).any(|w| judge.says(w) || judge.hints(w));
            judge.later |= (own == 0 || recalls) && words_of(command).any(|w| judge.says_later(w));
        }
        let evaluates = || {
            let name =
                |c: &Command| c.words.first().and_then(Word::literal).is_some_and(|n| EVALUATES.contains(&base(n)));
            expands_texts(&plain) || indexes(&plain) && (evaluates(&plain) || commands.iter().any(|(c, _)| name(c)))
        };
        if talks && runner || judge.later && evaluates() { Err(Reason::Interpreted) } else { Ok(mark) }
    }

    /// Collects the line's variables. One that is set twice, or by other means than `NAME=text`, can be anything.
    fn learn(&mut self, commands: &[(&Command, bool)]) {
        for (command, _) in commands {
            let exported = command.words.iter().skip(1).filter_map(|w| match w.pieces.first() {
                Some(Piece::Text(t)) => t.split_once('=').map(|(name, _)| (name.to_owned(), None)),
                _ => None,
            });
            let read = command.words.iter().skip(1).filter_map(Word::literal).map(|t| (t.to_owned(), None));
            let set = |a: &Assign| (a.name.clone(), a.value.as_ref().map(|w| self.parts(w)));
            let inside = words_of(command).flat_map(|w| &w.sets).map(|name| (name.clone(), None));
            let all: Vec<_> = command.assigns.iter().map(set).chain(exported).chain(read).chain(inside).collect();
            for (name, value) in all {
                let again = self.variable(&name).is_some();
                self.named.insert(name, if again { None } else { value });
            }
        }
    }

    /// What the line, so far as it is read, sets the variable to.
    fn variable(&self, name: &str) -> Option<&Option<Vec<Part>>> {
        self.named.get(name).or_else(|| self.outer.and_then(|outer| outer.variable(name)))
    }

    fn parts(&self, word: &Word) -> Vec<Part> {
        self.parts_without(word, 0)
    }

    /// A variable may be empty where the word is read: `x=1 leaf$x` expands before it assigns. The bits of `empty` name the
    /// word's variables that are.
    fn parts_without(&self, word: &Word, empty: u32) -> Vec<Part> {
        let mut out: Vec<Part> = Vec::new();
        let mut variables = 0..u32::BITS;
        let mut room = LONGEST_VALUE;
        let mut put = |part: Part| match (out.last_mut(), part) {
            (Some(Part::Text(have)), Part::Text(more)) => have.push_str(&more),
            (_, part) => out.push(part),
        };
        for piece in &word.pieces {
            match piece {
                // `xargs` and `find` put their input there.
                Piece::Text(t) if t.contains("{}") => put(Part::Made),
                Piece::Text(t) => put(Part::Text(t.clone())),
                Piece::Hole => put(Part::Made),
                Piece::Var(_) if variables.next().is_some_and(|i| empty >> i & 1 == 1) => {}
                Piece::Var(name) => match self.variable(name) {
                    Some(Some(parts)) => {
                        let long = parts.iter().map(Part::len).sum();
                        match room.checked_sub(long) {
                            Some(left) if self.steps.take(long) => {
                                room = left;
                                parts.iter().cloned().for_each(&mut put);
                            }
                            _ => put(Part::Long),
                        }
                    }
                    Some(None) => put(Part::Made),
                    None if name.starts_with(|c: char| c.is_ascii_digit()) => put(Part::Made),
                    None if matches!(name.as_str(), "@" | "*" | "_" | "REPLY" | "MAPFILE" | "OPTARG") => {
                        put(Part::Made)
                    }
                    None => put(Part::Given),
                },
            }
        }
        out
    }

    /// Whether the word's text, or what is put into it, mentions `leaf`.
    fn says(&self, word: &Word) -> bool {
        let parts = self.parts(word);
        let text: String = parts.iter().map(|p| if let Part::Text(t) = p { t } else { "*" }).collect();
        mentions(&text)
            || parts.contains(&Part::Long)
            || mentions(&word.aside)
            || word.scripts.iter().flat_map(|script| &script.commands).any(|c| words_of(c).any(|w| self.says(w)))
    }

    /// Whether the word is a text with a substitution in it that was quoted, and that has the word: a variable may bring it
    /// where it is expanded after all.
    fn says_later(&self, word: &Word) -> bool {
        let quoted = |p: &Piece| matches!(p, Piece::Text(t) if t.contains(['$', '`']));
        (word.pieces.iter().any(quoted) || word.aside.contains(['$', '`'])) && self.says(word)
    }

    /// Whether the word is a pattern or the like that gives a part of the name itself, `le*`: a file of that name may be meant.
    fn hints(&self, word: &Word) -> bool {
        let head = match word.pieces.first() {
            Some(Piece::Text(text)) => base(text).to_ascii_lowercase(),
            _ => String::new(),
        };
        let begins = !head.is_empty() && "leaf".starts_with(&head) && self.fit(word) == Fit::Made;
        begins || self.partly(word)
    }

    /// How the word can be the command `leaf`: read from its end, as a path is.
    fn fit(&self, word: &Word) -> Fit {
        let variables = word.pieces.iter().filter(|p| matches!(p, Piece::Var(_))).count();
        if variables > 6 {
            return Fit::Made;
        }
        (0..1 << variables).map(|empty| self.fit_without(word, empty)).max().unwrap_or(Fit::No)
    }

    fn fit_without(&self, word: &Word, empty: u32) -> Fit {
        let parts = self.parts_without(word, empty);
        if let [Part::Text(text)] = parts.as_slice() {
            let is = base(text).eq_ignore_ascii_case("leaf") || text.eq_ignore_ascii_case("=leaf");
            // A variable's text splits into words, by blanks or as IFS says; zsh looks `=leaf` up.
            let splits = word.literal().is_none() && (mentions(text) || self.sets("IFS") && spells(text.as_bytes()));
            let is = is || splits;
            return if is { Fit::Is } else { Fit::No };
        }
        if let [Part::Text(text), _, ..] = parts.as_slice()
            && (base(text).eq_ignore_ascii_case("leaf") || mentions(text))
        {
            return Fit::Made;
        }
        let mut rest = "fael".chars();
        for part in parts.iter().rev() {
            match part {
                Part::Made | Part::Long => return Fit::Made,
                Part::Given if rest.as_str() == "fael" => {
                    return if self.made_by_line(&parts) { Fit::Made } else { Fit::Given };
                }
                Part::Given => return Fit::Made,
                Part::Text(text) => {
                    for c in text.chars().rev() {
                        match rest.next() {
                            Some(letter) if c.eq_ignore_ascii_case(&letter) => {}
                            None if c == '/' => return Fit::Is,
                            _ => return Fit::No,
                        }
                    }
                }
            }
        }
        if rest.next().is_none() { Fit::Is } else { Fit::No }
    }

    fn sets(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    fn made_by_line(&self, parts: &[Part]) -> bool {
        self.said || parts.iter().any(|part| matches!(part, Part::Made | Part::Long))
    }

    /// Whether this is `leaf` as the one leading command (R67). Where `leaf` runs otherwise, or may, the reason.
    fn leads(&self, command: &Command, run: &Run<'_>, nested: bool) -> Result<bool, Reason> {
        if run.asks {
            return Ok(false);
        }
        let Some(name) = run.words.first() else {
            // `xargs env`: the command itself is input.
            return if run.fed && run.wrapped && self.pipes && command.words.len() > 1 && !only_xargs(command) {
                Err(Reason::Uncertain)
            } else {
                Ok(false)
            };
        };
        // A variable that isn't set leaves its place to the next word.
        let gone = run.words.iter().take_while(|w| !w.quotes && self.fit(w) == Fit::Given).count();
        if gone > 0 && run.words.get(gone).is_some_and(|w| self.fit(w) >= Fit::Made) {
            return Err(Reason::Uncertain);
        }
        let marked = run.mark.is_some_and(|mark| !mark.is_empty() && name.literal().is_some_and(|t| t.contains(mark)));
        match self.fit(name) {
            _ if marked => Err(Reason::Uncertain),
            Fit::No => Ok(false),
            Fit::Given if self.said || run.guessed => Err(Reason::Uncertain),
            Fit::Given => Ok(false),
            Fit::Made => Err(Reason::Uncertain),
            Fit::Is if run.wrapped => Err(Reason::Wrapped),
            Fit::Is => match name.literal() {
                None => Err(Reason::Uncertain),
                Some(text) if text.contains('/') || text.starts_with('=') => Err(Reason::ByPath),
                Some(text) if text != "leaf" || name.end - name.start != "leaf".len() => Err(Reason::Spelled),
                Some(_) if nested => Err(Reason::Substituted),
                Some(_) if command.leading => Ok(true),
                Some(_) => Err(Reason::NotLeading),
            },
        }
    }

    /// R69 lets one quoted heredoc of the leading command have the word.
    fn heredocs(&self, command: &Command) -> Result<(), Reason> {
        let mut seen = 0;
        for input in command.inputs.iter().filter(|i| i.body.get().is_some_and(|body| self.says(body))) {
            seen += 1;
            if seen > 1 || input.heredoc && !input.quoted {
                return Err(Reason::Heredoc);
            }
        }
        Ok(())
    }

    /// A command that isn't `leaf`: its class, or why it may run `leaf` from what it is given.
    fn other(&self, command: &Command, run: &Run<'_>) -> Result<Class, Reason> {
        if let Some(program) = program(run) {
            self.program(command, run, program)?;
            return Ok(Class::Runner);
        }
        let name = run.words.first().and_then(Word::literal);
        let class = match name {
            _ if run.asks => Class::Data,
            // Nothing runs but what was peeled: `env` alone, an assignment, `xargs` alone.
            None if run.words.is_empty() && !run.guessed => Class::Data,
            None => Class::Runner,
            Some(name) if run.guessed && !name.is_empty() => Class::Runner,
            Some(name) => class(name, run.words.get(1..).unwrap_or_default()),
        };
        if class == Class::Runner && (self.pipes && reads_program(run) || is_fed_a_program(run)) {
            return Err(Reason::Uncertain);
        }
        if name.is_some_and(|n| LAUNCHERS.contains(&base(n))) && run.words.iter().any(|w| self.fit(w) == Fit::Made) {
            return Err(Reason::Uncertain);
        }
        // `a[$(leaf)]` as an array index, `PS4='$(leaf)'`: quoted here, expanded later.
        let later = |w: &Word| w.literal().is_some_and(|t| t.contains(['$', '`'])) && self.says(w);
        let set = || command.assigns.iter().filter_map(|a| a.value.as_ref());
        // `PAGER=leaf git log`: a tool runs what some variables name, though not its arguments.
        let before = &command.words[..command.words.len() - run.words.len().min(command.words.len())];
        let tool = name.is_some_and(|n| TOOLS.iter().any(|(t, ..)| *t == base(n)));
        let given = match class {
            Class::Data if tool => set().chain(before).any(|w| self.says(w)),
            Class::Data if name.is_some_and(|n| EVALUATES.contains(&n)) => command.words.iter().any(later),
            Class::Data => false,
            Class::Quiet if name.is_some_and(|n| KEEPS.contains(&n)) => command.words.iter().any(later),
            Class::Quiet | Class::Runner => words_of(command)
                .any(|w| self.says(w) || option_says(w) || self.partly(w) || quotes_by_slashes(name, w)),
        };
        if given || set().any(later) { Err(Reason::Interpreted) } else { Ok(class) }
    }

    /// An argument that a variable of the line completes to `leaf`: `strace le$x`.
    fn partly(&self, word: &Word) -> bool {
        let spelt = matches!(word.pieces.last(), Some(Piece::Text(t)) if !t.is_empty());
        spelt && word.literal().is_none() && matches!(self.fit(word), Fit::Made | Fit::Is)
    }

    fn program(&self, command: &Command, run: &Run<'_>, program: Program<'_>) -> Result<(), Reason> {
        let text_without = |words: &[&Word], empty: u32| {
            let mut text = String::new();
            for word in words {
                for part in self.parts_without(word, empty) {
                    match part {
                        Part::Text(t) => text.push_str(&t),
                        // Inherited, it says nothing; a name that the text doesn't set either.
                        Part::Given if !self.said => text.push_str("$LEAF_GIVEN"),
                        Part::Given | Part::Made | Part::Long => return Err(Reason::Uncertain),
                    }
                }
                text.push(' ');
            }
            Ok(text)
        };
        let judged = |text: &str| match Judge::of(text, Some(self), self.steps) {
            Ok(_) => Ok(()),
            Err(Reason::Uncertain) => Err(Reason::Uncertain),
            Err(_) => Err(Reason::Interpreted),
        };
        let read = |words: &[&Word]| {
            let text = text_without(words, 0)?;
            judged(&text)?;
            let without = text_without(words, u32::MAX)?;
            if without == text { Ok(()) } else { judged(&without) }
        };
        match &program {
            Program::Text(words) if words.is_empty() && run.fed && self.pipes => return Err(Reason::Uncertain),
            // `$'…'` is another text for a shell that doesn't know it.
            Program::Text(words) if self.said && words.iter().any(|w| w.dollar) => return Err(Reason::Uncertain),
            Program::Text(words) => read(words)?,
            Program::Input if self.pipes && (run.fed || command.inputs.is_empty()) => return Err(Reason::Uncertain),
            Program::File if run.words.iter().any(|w| w.feeds) => return Err(Reason::Uncertain),
            Program::Input | Program::File => {}
        }
        for input in &command.inputs {
            if let Some(body) = input.body.get() {
                read(&[body])?;
            }
        }
        let told = matches!(&program, Program::Text(_));
        let texts = run.words.iter().skip(1).filter(|w| !told || w.literal().is_none());
        let handed = command.assigns.iter().filter_map(|a| a.value.as_ref());
        // Positional arguments after the text: `sh -c '"$@"' sh leaf`.
        let positional =
            if told { run.words.iter().skip(2).filter(|w| w.literal().is_some_and(is_leaf)).count() } else { 0 };
        if positional > 0 || texts.chain(handed).chain(&command.targets).any(|w| self.says(w)) {
            return Err(Reason::Interpreted);
        }
        Ok(())
    }
}
