//! What a simple command runs: itself, its arguments, or its input; and which commands run none of them (R69).

use super::lexer::{Command, Piece, Word};
use super::spells;

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "csh", "tcsh", "rbash", "pwsh"];

const INTERPRETERS: &[&str] = &[
    "python",
    "perl",
    "ruby",
    "node",
    "php",
    "lua",
    "deno",
    "bun",
    "osascript",
    "tclsh",
    "ssh",
    "at",
    "batch",
    "parallel",
    "su",
];

/// A command that runs its arguments: which of its options take the next word, and how many words of its own come first.
struct Wrapper {
    name: &'static str,
    valued: &'static [&'static str],
    own: usize,
}

const fn wrapper(name: &'static str, valued: &'static [&'static str], own: usize) -> Wrapper {
    Wrapper { name, valued, own }
}

const WRAPPERS: &[Wrapper] = &[
    wrapper("env", &["-u", "--unset", "-C", "--chdir"], 0),
    wrapper("command", &[], 0),
    wrapper("builtin", &[], 0),
    wrapper("exec", &["-a"], 0),
    wrapper("nohup", &[], 0),
    wrapper("setsid", &[], 0),
    wrapper("timeout", &["-k", "--kill-after", "-s", "--signal"], 1),
    wrapper("time", &["-f", "--format", "-o", "--output"], 0),
    wrapper("nice", &["-n", "--adjustment"], 0),
    wrapper("ionice", &["-c", "--class", "-n", "--classdata"], 0),
    wrapper("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"], 0),
    wrapper("sudo", &["-u", "--user", "-g", "--group", "-C", "-h", "-p", "-D", "-R", "-T", "-r", "-t"], 0),
    wrapper("doas", &["-u", "-C"], 0),
    wrapper("xargs", XARGS_VALUED, 0),
    wrapper("noglob", &[], 0),
    wrapper("nocorrect", &[], 0),
];

const XARGS_VALUED: &[&str] =
    &["-a", "-d", "-E", "-I", "-L", "-n", "-P", "-s", "--max-args", "--max-procs", "--max-lines"];

/// The words that a simple command runs in the end, behind any wrappers.
#[derive(Clone, Copy)]
pub(in crate::rules) struct Run<'a> {
    pub words: &'a [Word],
    pub wrapped: bool,
    /// More words, or all of them, come from standard input.
    pub fed: bool,
    /// `xargs -I`'s mark; the words stand for whatever the input says where they have it.
    pub mark: Option<&'a str>,
    /// A wrapper's own words were not all literal: where its command begins is a guess.
    pub guessed: bool,
    /// `command -v`: names a command and runs none.
    pub asks: bool,
}

/// What runs: the command itself, behind its wrappers, and what `find` executes.
pub(in crate::rules) fn runs(command: &Command) -> Vec<Run<'_>> {
    let whole = Run { words: &command.words, wrapped: false, fed: false, mark: None, guessed: false, asks: false };
    let first = peel(whole);
    let mut all = vec![first];
    if first.words.first().and_then(Word::literal).map(base) == Some("find") {
        let words = first.words;
        let executes = |word: &Word| matches!(word.literal(), Some("-exec" | "-execdir" | "-ok" | "-okdir"));
        let starts: Vec<usize> = (0..words.len()).filter(|at| executes(&words[*at])).collect();
        for (n, start) in starts.iter().enumerate() {
            // What another `find` in it executes is the next one's.
            let rest = &words[start + 1..starts.get(n + 1).copied().unwrap_or(words.len())];
            let end = rest.iter().position(|w| matches!(w.literal(), Some(";" | "+"))).unwrap_or(rest.len());
            all.push(peel(Run { words: &rest[..end], wrapped: true, mark: Some("{}"), ..whole }));
        }
    }
    all
}

fn peel(mut run: Run<'_>) -> Run<'_> {
    loop {
        let Some(name) = run.words.first().and_then(Word::literal) else { return run };
        let Some(wrapper) = WRAPPERS.iter().find(|w| w.name == base(name)) else { return run };
        let mut rest = &run.words[1..];
        let mut own = wrapper.own;
        while let Some(word) = rest.first() {
            let Some(text) = word.literal() else {
                run.guessed |= own > 0;
                if own == 0 {
                    break;
                }
                own -= 1;
                rest = &rest[1..];
                continue;
            };
            let option = text.len() > 1 && text.starts_with('-');
            if option && wrapper.name == "command" && text.contains(['v', 'V']) {
                return Run { asks: true, ..run };
            }
            if option && wrapper.name == "env" && (text.starts_with("-S") || text.starts_with("--split")) {
                run.guessed = true;
            }
            if option && wrapper.name == "xargs" && text.starts_with("-I") {
                run.mark = if text.len() > 2 { Some(&text[2..]) } else { rest.get(1).and_then(Word::literal) };
            }
            let assigns = matches!(wrapper.name, "env" | "sudo") && !option && text.contains('=');
            if text == "--" {
                rest = &rest[1..];
                break;
            } else if option || assigns {
                let takes = usize::from(option && wrapper.valued.contains(&text));
                rest = rest.get(1 + takes..).unwrap_or_default();
            } else if own > 0 {
                own -= 1;
                rest = &rest[1..];
            } else {
                break;
            }
        }
        run.wrapped = true;
        run.fed |= wrapper.name == "xargs";
        run.words = rest;
    }
}

pub(in crate::rules) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Where a shell gets its program.
pub(in crate::rules) enum Program<'a> {
    Text(Vec<&'a Word>),
    File,
    Input,
}

/// The program of `sh`, `eval`, `trap`; none for other commands.
pub(in crate::rules) fn program<'a>(run: &Run<'a>) -> Option<Program<'a>> {
    let (name, args) = run.words.split_first()?;
    let name = base(name.literal()?);
    match name {
        "eval" => return Some(Program::Text(args.iter().filter(|w| w.literal() != Some("--")).collect())),
        "trap" => return Some(Program::Text(args.iter().find(|w| w.literal() != Some("--")).into_iter().collect())),
        _ if !SHELLS.contains(&name) => return None,
        _ => {}
    }
    let mut args = args.iter();
    let mut text = false;
    while let Some(word) = args.next() {
        let Some(option) = word.literal() else {
            return Some(if text { Program::Text(vec![word]) } else { Program::File });
        };
        match option {
            "--rcfile" | "--init-file" | "-o" | "+o" | "-O" | "+O" => {
                args.next();
            }
            "-s" | "-" | "/dev/stdin" => return Some(Program::Input),
            _ if option.starts_with("--") => {}
            _ if option.starts_with(['-', '+']) => text |= option.starts_with('-') && option.contains('c'),
            _ => return Some(if text { Program::Text(vec![word]) } else { Program::File }),
        }
    }
    Some(Program::Input)
}

/// What a command can do with texts that have the word in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Runs neither its arguments nor its input.
    Data,
    /// May run its arguments, but not its input, nor a file just written.
    Quiet,
    /// May run anything; every command that isn't known.
    Runner,
}

pub(super) fn only_xargs(command: &Command) -> bool {
    let mut words = command.words.iter().filter_map(Word::literal);
    words.next().map(base) == Some("xargs") && words.all(|w| !WRAPPERS.iter().any(|x| x.name == base(w)))
}

/// An interpreter without a program among its arguments reads it from its input; so does `source /dev/stdin`.
pub(super) fn reads_program(run: &Run<'_>) -> bool {
    let Some((name, args)) = named(run) else { return false };
    let stdin = |w: &Word| matches!(w.literal(), Some("/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0"));
    let input = |w: &Word| w.literal() == Some("-") || stdin(w);
    let bare = |w: &Word| w.literal().is_some_and(|t| t.starts_with('-') && t.len() < 3);
    match name {
        "." | "source" => args.iter().any(stdin),
        "at" | "batch" | "parallel" | "su" | "busybox" => true,
        _ => interprets(name) && (run.fed || args.iter().any(input) || args.iter().all(bare)),
    }
}

/// `source <(…)`, `python3 -c "$(…)"`: the program is what a substitution prints.
pub(super) fn is_fed_a_program(run: &Run<'_>) -> bool {
    let Some((name, args)) = named(run) else { return false };
    let sources = matches!(name, "." | "source");
    let text =
        |w: &[Word]| matches!(w[0].literal(), Some("-c" | "-e" | "-E" | "-r" | "--eval")) && !w[1].scripts.is_empty();
    (sources || interprets(name)) && args.iter().any(|w| w.feeds) || interprets(name) && args.windows(2).any(text)
}

fn named<'a>(run: &Run<'a>) -> Option<(&'a str, &'a [Word])> {
    let (name, args) = run.words.split_first()?;
    Some((base(name.literal()?), args))
}

/// By any version: `python3.12`.
fn interprets(name: &str) -> bool {
    let version = |v: &str| v.chars().all(|c| c.is_ascii_digit() || c == '.');
    INTERPRETERS.iter().any(|n| name.strip_prefix(n).is_some_and(version))
}

/// `s/x/leaf/e`, `qx/leaf/`: between slashes the word is no part of a path.
pub(super) fn quotes_by_slashes(name: Option<&str>, word: &Word) -> bool {
    let name = name.map(base).unwrap_or_default();
    ["sed", "gsed", "perl", "ruby"].iter().any(|n| name.starts_with(n))
        && word.literal().is_some_and(|t| spells(t.as_bytes()))
}

/// `-cleaf`: a short option with its value.
pub(super) fn option_says(word: &Word) -> bool {
    word.literal().is_some_and(|t| {
        let letters = t.strip_prefix('-').unwrap_or_default();
        letters.starts_with(|c: char| c.is_ascii_alphabetic()) && spells(letters.as_bytes())
    })
}

/// Keep their arguments, or their input, where later commands find them: a copy of `leaf` runs as `leaf`, a variable is
/// expanded, `exec <<<` is what the next shell reads.
pub(super) const KEEPS: &[&str] =
    &["cp", "mv", "ln", "install", "tee", "dd", "rsync", "export", "declare", "local", "readonly", "typeset", "exec"];

/// Whether it may make commands of its input; the prefilter asks this of every word of a line with a pipe.
pub(super) fn reads_input(name: &str) -> bool {
    SHELLS.contains(&name) || INTERPRETERS.contains(&name) || ["busybox", "xargs", "stdin", "fd"].contains(&name)
}

/// Evaluate what looks like an array index in an argument.
pub(super) const EVALUATES: &[&str] =
    &["test", "[", "[[", "printf", "unset", "read", "declare", "typeset", "local", "readonly", "export", "let"];

/// Run some of their arguments, by options that aren't read here: any of them may be the command.
pub(super) const LAUNCHERS: &[&str] = &[
    "strace",
    "ltrace",
    "gdb",
    "valgrind",
    "perf",
    "hyperfine",
    "flock",
    "taskset",
    "chrt",
    "numactl",
    "prlimit",
    "setpriv",
    "setarch",
    "linux32",
    "linux64",
    "unshare",
    "nsenter",
    "chroot",
    "script",
    "watch",
    "unbuffer",
    "rlwrap",
    "fakeroot",
    "runuser",
    "sg",
    "systemd-run",
    "xvfb-run",
    "entr",
    "busybox",
];

const DATA: &[&str] = &[
    ":",
    "true",
    "false",
    "echo",
    "printf",
    "test",
    "[",
    "[[",
    "cat",
    "tac",
    "nl",
    "head",
    "tail",
    "wc",
    "uniq",
    "cut",
    "tr",
    "ls",
    "cd",
    "pushd",
    "popd",
    "pwd",
    "grep",
    "egrep",
    "fgrep",
    "find",
    "diff",
    "cmp",
    "comm",
    "paste",
    "join",
    "column",
    "fold",
    "fmt",
    "rev",
    "stat",
    "file",
    "du",
    "df",
    "tree",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "mkdir",
    "rmdir",
    "touch",
    "rm",
    "cp",
    "mv",
    "ln",
    "install",
    "tee",
    "dd",
    "chmod",
    "chown",
    "date",
    "sleep",
    "which",
    "whereis",
    "type",
    "id",
    "whoami",
    "uname",
    "seq",
    "jq",
    "base64",
    "md5sum",
    "sha256sum",
    "sha1sum",
    "od",
    "xxd",
    "hexdump",
    "strings",
    "expr",
    "yes",
    "kill",
    "ps",
    "pgrep",
    "unset",
    "read",
    "curl",
];

const QUIET: &[&str] = &[
    "set", "shopt", "export", "declare", "local", "readonly", "typeset", "let", "wait", "exit", "return", "break",
    "continue", "shift", "umask", "ulimit", "jobs", "getopts", "((", "git", "gh", "cargo", "npm", "rustup", "rustfmt",
    "rustc", "tsc",
];

/// Commands whose listed subcommands run no argument, unless one begins with a listed option.
pub(super) const TOOLS: &[(&str, &[&str], &[&str])] = &[
    (
        "git",
        &[
            "add",
            "blame",
            "branch",
            "cat-file",
            "check-ignore",
            "checkout",
            "cherry-pick",
            "clean",
            "commit",
            "describe",
            "diff",
            "grep",
            "log",
            "ls-files",
            "ls-tree",
            "merge",
            "merge-base",
            "mv",
            "reset",
            "restore",
            "rev-list",
            "rev-parse",
            "revert",
            "rm",
            "shortlog",
            "show",
            "stash",
            "status",
            "switch",
            "tag",
            "worktree",
        ],
        &["-O", "--open-files", "--exec", "-x", "--ext-diff", "--config", "-c", "-S", "--gpg-sign", "--strategy", "-s"],
    ),
    ("gh", &["issue", "pr", "repo", "release", "search", "run", "label"], &[]),
    (
        "cargo",
        &["build", "check", "clippy", "test", "fmt", "doc", "add", "tree", "metadata", "search", "info"],
        &["--config"],
    ),
    ("pytest", &[], &["-p", "-o", "-c"]),
    ("rg", &[], &["--pre", "--hostname-bin"]),
    ("sort", &[], &["--compress"]),
];

pub(super) fn class(name: &str, args: &[Word]) -> Class {
    // By another path it may be another program.
    if name.contains('/') && !["/bin/", "/usr/bin/"].iter().any(|dir| name.strip_prefix(dir) == Some(base(name))) {
        return Class::Runner;
    }
    let name = base(name);
    if let Some((_, subcommands, options)) = TOOLS.iter().find(|(tool, ..)| *tool == name) {
        let words: Option<Vec<&str>> = args.iter().map(Word::literal).collect();
        // What git calls its own: where it stands, not what it runs.
        let mut rest = words.as_deref().unwrap_or_default();
        while let [option, tail @ ..] = rest
            && name == "git"
            && ["-C", "--no-pager", "-P"].contains(option)
        {
            rest = if *option == "-C" { tail.get(1..).unwrap_or_default() } else { tail };
        }
        let known = match subcommands {
            [] => true,
            known if words.is_some() => rest.first().is_some_and(|s| known.contains(s)),
            // An expansion somewhere: `git commit -m "$(cat …)"`.
            known => args.first().and_then(Word::literal).is_some_and(|s| known.contains(&s)),
        };
        // A commit's `-c` and `-s` are harmless and rare; a bisect's, a rebase's and an alias' are not.
        let runs = |w: &Word| match w.pieces.first() {
            Some(Piece::Text(t)) => options.iter().any(|o| t.starts_with(o)),
            None => false,
            Some(Piece::Var(_) | Piece::Hole) => w.aside.starts_with('-'),
        };
        return if known && !args.iter().any(runs) {
            Class::Data
        } else if QUIET.contains(&name) {
            Class::Quiet
        } else {
            Class::Runner
        };
    }
    match name {
        "awk" | "gawk" | "mawk" if args.iter().all(awk_is_data) => Class::Data,
        "sed" if sed_is_data(args) => Class::Data,
        _ if DATA.contains(&name) => Class::Data,
        _ if QUIET.contains(&name) => Class::Quiet,
        _ => Class::Runner,
    }
}

/// An awk program runs nothing without `system`, a pipe or a call by name.
fn awk_is_data(arg: &Word) -> bool {
    arg.literal().is_some_and(|t| {
        !t.contains("system") && !t.contains(['|', '@']) && !t.starts_with("-f") && !t.starts_with("--")
    })
}

/// A sed script of plain commands: addresses, `p`, `d`, `q`, `=`, and `s` without its `e`.
fn sed_is_data(args: &[Word]) -> bool {
    let Some(texts) = args.iter().map(Word::literal).collect::<Option<Vec<_>>>() else { return false };
    let mut scripts: Vec<&&str> = Vec::new();
    let mut words = texts.iter();
    let mut files = Vec::new();
    while let Some(word) = words.next() {
        match *word {
            "-e" => scripts.extend(words.next()),
            "-n" | "-E" | "-r" | "-i" | "-ne" | "-nE" | "-nr" | "-iE" | "-s" | "-z" => {
                if *word == "-ne" {
                    scripts.extend(words.next());
                }
            }
            w if w.starts_with('-') => return false,
            _ => files.push(word),
        }
    }
    if scripts.is_empty() {
        scripts.extend(files.first());
    }
    !scripts.is_empty() && scripts.iter().all(|s| s.split('\n').all(sed_line_is_data))
}

fn sed_line_is_data(line: &str) -> bool {
    // Addresses first: numbers, `$`, `/…/`, joined by commas.
    let mut rest = line.trim_start();
    while let Some(c) = rest.chars().next() {
        match c {
            '0'..='9' | '$' | ',' | ' ' | '!' | '+' | '~' => rest = &rest[1..],
            '/' => match after(&rest[1..], '/') {
                Some(tail) => rest = tail,
                None => return false,
            },
            _ => break,
        }
    }
    let mut chars = rest.chars();
    let tail = match chars.next() {
        None => return true,
        Some('p' | 'd' | 'q' | '=') => chars.as_str(),
        Some('s' | 'y') => {
            let Some(mark) = chars.next().filter(char::is_ascii_punctuation) else { return false };
            match after(chars.as_str(), mark).and_then(|tail| after(tail, mark)) {
                Some(tail) => {
                    tail.trim_start_matches(['g', 'p', 'i', 'I', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
                }
                None => return false,
            }
        }
        Some(_) => return false,
    };
    match tail.trim_start().strip_prefix(';') {
        Some(more) => sed_line_is_data(more),
        None => tail.trim().is_empty(),
    }
}

/// What follows the next unescaped `mark`.
fn after(text: &str, mark: char) -> Option<&str> {
    let mut escaped = false;
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return text.get(i + c.len_utf8()..),
            _ => {}
        }
    }
    None
}
