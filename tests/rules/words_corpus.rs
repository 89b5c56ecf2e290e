//! R65, R67, R69, R70: the reading of command lines, held against what shells really do.
//!
//! Every line of `words_corpus.txt` is run by the machine's bash, and by dash where there is one, with a recording `leaf` first
//! on PATH. What it recorded is the truth; the lists of exceptions in the corpus are exact, so that none of them goes stale.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leaf_threads::rules::words::{Forbidden, Reason, Shell, Verdict, has_word, judge, may_name_leaf, plumbing};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getpid, kill_process};

const CORPUS: &str = include_str!("words_corpus.txt");

/// Longer than any line of the corpus takes on a busy machine, and any generated one that ends.
const PATIENCE: Duration = Duration::from_secs(100);
const PATIENCE_WITH_ANY: Duration = Duration::from_secs(5);

/// Runs a shell's line with bounds. Its output stays open as a file that no redirection of the line's closes, so that who waits
/// for its end waits for what runs in the background too.
const BOUNDED: &str = "exec 9>&1; ulimit -t 20 -f 4096; exec \"$0\" -c \"$1\"";

struct Case {
    judge: &'static str,
    plumbing: &'static str,
    note: &'static str,
    line: &'static str,
}

impl Case {
    fn noted(&self, list: &str) -> bool {
        self.note.starts_with(list)
    }
}

fn cases() -> Vec<Case> {
    let blocks = CORPUS.split("\n%%\n").skip(1);
    let cases: Vec<Case> = blocks
        .map(|block| {
            let (head, line) = block.split_once('\n').expect("a head and a line");
            let (expected, note) = head.split_once(" | ").unwrap_or((head, ""));
            let (judge, plumbing) = expected.split_once(' ').expect("two expectations");
            Case { judge, plumbing, note, line: line.trim_end_matches('\n') }
        })
        .collect();
    assert!(cases.len() >= 150, "the corpus lost its lines: {}", cases.len());
    cases
}

/// A place to run lines in: HOME, with `bin/leaf` the recorder and a few files that lines look at.
pub(super) struct Place {
    home: tempfile::TempDir,
    /// Writes `run`, then each argument, all ended by NUL, in one write.
    recorder: String,
    /// Who runs the lines, where it isn't who runs the tests: user and group.
    user: Option<u32>,
    patience: Duration,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        // As a program of its own it has the option; a shell that is given it to read can make nothing of it.
        let recorder = format!(
            "#!/bin/sh -f\ncase $- in *f*) ;; *) return 126 2>/dev/null || exit 126 ;; esac\n{{ printf 'run\\0'; for a in \"$@\"; do printf 'arg%s\\0' \"$a\"; done; }} >> '{}'\n",
            home.path().join("log").display()
        );
        Place { home, recorder, user: None, patience: PATIENCE }
    }

    /// For lines that nobody has read: root hands them to nobody, who can write in no other place and whose `~` is nowhere.
    pub(super) fn harmless() -> Self {
        let user = rustix::process::geteuid().is_root().then_some(65534);
        Place { user, patience: PATIENCE_WITH_ANY, ..Place::new() }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.home.path().join(path)
    }

    fn script(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
    }

    /// Everything as it was, whatever the line before did. A recorder that is still whole is left alone: one that another
    /// thread's child holds open for writing couldn't be run.
    fn fill(&self) {
        let whole = fs::read_to_string(self.at("bin/leaf")).is_ok_and(|text| text == self.recorder);
        for directory in [self.at(""), self.at("bin")] {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if whole && ["bin", "leaf"].iter().any(|name| entry.file_name() == *name) {
                    continue;
                }
                let gone = if directory { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
                gone.expect("an empty place");
            }
        }
        if !whole {
            self.script("bin/leaf", &self.recorder);
        }
        fs::write(self.at("log"), "").expect("an empty log");
        self.script("work/run.sh", "#!/bin/sh\nleaf page state\n");
        self.script("work/tree.sh", "#!/bin/sh\n$TREE page state\n");
        self.script("work/count.sh", "#!/bin/sh\nwc -l \"$1\"\n");
        for (path, text) in [
            ("run.mk", "all:\n\tleaf page state\n"),
            ("notes.md", "a leaf here\nuse leaf thread new\n"),
            ("leaf.rs", "// leaf\n"),
            ("src/leaf/mod.rs", "// mod\n"),
        ] {
            let path = self.at("work").join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
            fs::write(path, text).expect("a file");
        }
        if let Some(user) = self.user {
            for path in ["", "log", "work", "work/notes.md", "work/leaf.rs", "work/src", "work/src/leaf"] {
                std::os::unix::fs::chown(self.at(path), Some(user), Some(user)).expect("another owner");
            }
        }
    }

    fn line(&self, line: &str) -> String {
        line.replace("@BIN@", &self.at("bin").display().to_string())
    }

    /// The argument lists with which `leaf` ran; none where the line didn't end in time.
    pub(super) fn ran(&self, shell: &str, line: &str) -> Option<Vec<Vec<String>>> {
        self.fill();
        let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let mut child = command
            .args(["-c", BOUNDED, shell, line])
            .current_dir(self.at("work"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home.path())
            .env("LOG_OF_LEAF", self.at("log"))
            .env("COMMAND_OF_ENV", "leaf")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "n")
            .env("GIT_AUTHOR_EMAIL", "n@example.com")
            .env("GIT_COMMITTER_NAME", "n")
            .env("GIT_COMMITTER_EMAIL", "n@example.com")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the shell runs");
        let mut out = child.stdout.take().expect("its output");
        let ended = read_to_end(&mut out, self.patience);
        if !ended {
            kill_writers(&out);
            let _ = child.kill();
        }
        child.wait().expect("its end");
        ended.then(|| recorded(&self.at("log")))
    }

    fn run(&self, shell: &str, line: &str) -> Vec<Vec<String>> {
        self.ran(shell, line).expect("a line that ends")
    }
}

/// Reads all that is written, which isn't kept: a line may say the same without end. False where that takes too long.
fn read_to_end(out: &mut ChildStdout, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    let mut buffer = [0; 8192];
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).expect("a short time");
        match poll(&mut [PollFd::new(out, PollFlags::IN)], Some(&left)) {
            Ok(0) => return false,
            _ if left.tv_sec == 0 && left.tv_nsec == 0 => return false,
            _ => {}
        }
        if matches!(out.read(&mut buffer), Ok(0)) {
            return true;
        }
    }
}

/// Kills everything that a line left: what holds its output open, in whatever group or session it is.
fn kill_writers(out: &ChildStdout) {
    let pipe = fs::read_link(format!("/proc/self/fd/{}", out.as_raw_fd())).expect("the pipe's name");
    for _ in 0..100 {
        let mut found = false;
        for process in fs::read_dir("/proc").expect("the processes").flatten() {
            let pid = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let holds = fs::read_link(process.path().join("fd/9")).is_ok_and(|held| held == pipe);
            if let Some(pid) = pid.filter(|pid| holds && *pid != getpid()) {
                found = true;
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        if !found {
            return;
        }
    }
}

fn recorded(log: &Path) -> Vec<Vec<String>> {
    let text = fs::read(log).expect("the log");
    let mut runs: Vec<Vec<String>> = Vec::new();
    for entry in String::from_utf8_lossy(&text).split_terminator('\0') {
        match entry.strip_prefix("arg") {
            Some(arg) => runs.last_mut().expect("a run before its arguments").push(arg.to_owned()),
            None => runs.push(Vec::new()),
        }
    }
    runs
}

/// What each line really did, in the order of [`cases`]; the shells run them once for all tests.
struct Truth {
    place: Place,
    shells: Vec<&'static str>,
    runs: Vec<Vec<Vec<Vec<String>>>>,
}

fn truth() -> MutexGuard<'static, Truth> {
    static TRUTH: LazyLock<Mutex<Truth>> = LazyLock::new(|| {
        assert!(has("bash"), "the lines are held against a real bash");
        let shells: Vec<&str> = ["bash", "dash"].into_iter().filter(|s| has(s)).collect();
        let place = Place::new();
        let lines: Vec<String> = cases().iter().map(|c| place.line(c.line)).collect();
        let runs = lines.iter().map(|line| shells.iter().map(|shell| place.run(shell, line)).collect()).collect();
        Mutex::new(Truth { place, shells, runs })
    });
    TRUTH.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn has(shell: &str) -> bool {
    Command::new(shell).args(["-c", "true"]).status().is_ok_and(|s| s.success())
}

fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passes => "pass",
        Verdict::Mark { .. } => "mark",
        Verdict::Denied(_) => "deny",
    }
}

/// R70's list, read from what really ran.
fn forbidden_run(args: &[String]) -> Option<&'static str> {
    let mut words = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--agent-id" => return Some("--agent-id"),
            "--page" | "--session" => {
                args.next();
            }
            option if option.starts_with("--agent-id=") => return Some("--agent-id"),
            option if option.starts_with("--") => {}
            word => words.push(word),
        }
        if words.len() == 2 {
            break;
        }
    }
    let verbs = [
        "hook",
        "watch",
        "follow",
        "turn",
        "trust",
        "fork line",
        "fork started",
        "fork ended",
        "thread new",
        "thread say",
        "thread withdraw",
    ];
    let line = words.join(" ");
    verbs.into_iter().find(|verb| line == *verb || line.starts_with(&format!("{verb} ")))
}

#[test]
fn r069_nothing_that_runs_leaf_passes_and_each_mark_runs_it_once() {
    let truth = truth();
    let (place, shells) = (&truth.place, &truth.shells);
    let (mut wrong, mut harmless, mut ran, mut marks) = (String::new(), Vec::new(), 0, 0);
    let cases = cases();
    for (case, runs) in cases.iter().zip(&truth.runs) {
        let line = place.line(case.line);
        let verdict = judge(&line, Shell::Posix);
        let really = runs.iter().any(|r| !r.is_empty());
        ran += usize::from(really);
        let mut complain = |what: &str| {
            let _ = writeln!(wrong, "{what}: {verdict:?}, runs {runs:?}\n  {line}");
        };
        if said(verdict) != case.judge {
            complain(&format!("expected {}", case.judge));
        }
        let passes = verdict == Verdict::Passes;
        if passes && really != case.noted("out:") {
            complain(if really { "runs leaf and passes" } else { "listed as out of reach, but runs no leaf" });
        }
        if really && !case.noted("out:") && !may_name_leaf(&line, Shell::Posix) {
            complain("the prefilter misses it");
        }
        match verdict {
            Verdict::Denied(_) if !really => harmless.push(case.line),
            Verdict::Mark { insert_at } => {
                marks += 1;
                if !runs[0].is_empty() && runs[0].len() != 1 {
                    complain("marked, but runs more than once");
                }
                let (before, after) = line.split_at(insert_at);
                let marked = format!("{before} --agent-id a1{after}");
                for (shell, plain) in shells.iter().zip(runs) {
                    let with = place.run(shell, &marked);
                    // What the mark adds, and not one thing else. A shell that can't read the line runs neither.
                    let want: Vec<Vec<String>> = plain
                        .iter()
                        .map(|args| {
                            ["--agent-id".to_owned(), "a1".to_owned()].into_iter().chain(args.clone()).collect()
                        })
                        .collect();
                    if with != want && !varies(&line) {
                        complain(&format!("marked in {shell} it ran {with:?}"));
                    }
                }
                if runs[0].len() != 1 {
                    complain("marked, but bash doesn't run it once");
                }
            }
            Verdict::Denied(_) | Verdict::Passes => {}
        }
    }
    println!(
        "{} lines under {shells:?}: {ran} ran leaf, {marks} marked, {} harmless ones denied:",
        cases.len(),
        harmless.len()
    );
    for line in &harmless {
        println!("  {}", line.replace('\n', "⏎"));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A line whose arguments differ from run to run.
fn varies(line: &str) -> bool {
    line.contains("date +%s")
}

#[test]
fn r070_no_verb_that_certainly_runs_passes_and_doubt_does() {
    let truth = truth();
    let mut wrong = String::new();
    for (case, runs) in cases().iter().zip(&truth.runs) {
        let line = truth.place.line(case.line);
        let found = plumbing(&line, Shell::Posix).map(Forbidden::verb);
        let runs = &runs[0];
        let really = runs.iter().find_map(|args| forbidden_run(args));
        let mut complain = |what: &str| {
            let _ = writeln!(wrong, "{what}: {found:?}, really {really:?} of {runs:?}\n  {line}");
        };
        let expected = Some(case.plumbing).filter(|p| *p != "-").map(|p| p.replace('_', " "));
        if found != expected.as_deref() {
            complain(&format!("expected {expected:?}"));
        }
        match (found, really) {
            (None, Some(_)) if !case.noted("doubt:") => complain("runs it and passes"),
            (Some(_), None) if !case.noted("still:") => complain("denied, but runs none"),
            (Some(a), Some(b)) if a != b => complain("another verb"),
            (found, really) if case.noted("doubt:") && !(found.is_none() && really.is_some()) => {
                complain("needs no `doubt:`")
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn r065_most_plain_lines_end_at_the_prefilter() {
    for line in [
        "ls -la src",
        "cargo test --quiet 2>&1 | tail -20",
        "cd /work && git status --short && git diff --stat",
        "grep -rn 'fn main' src",
        "sed -n 1,80p src/main.rs",
        "python3 script.py > out.txt",
        "echo \"hello world\"",
    ] {
        assert!(!may_name_leaf(line, Shell::Posix), "{line}");
    }
    for line in
        ["leaf x", "l\\eaf x", "le''af x", "$'\\x6ceaf' x", "l\\\neaf x", "\"le\"af", "$a$b x", "/opt/l?af x", "Leaf x"]
    {
        assert!(may_name_leaf(line, Shell::Posix), "{line}");
    }
}

#[test]
fn r072_has_word_hears_the_word_wherever_it_stands() {
    for line in [
        "leaf x",
        "cd a && leaf x",
        "bash -c 'leaf x'",
        "l\\eaf x",
        "$'\\x6ceaf' x",
        "/opt/bin/leaf x",
        "echo leaf.",
        "(leaf)",
    ] {
        assert!(has_word(line), "{line}");
    }
    for line in
        ["cat leaf.rs", "leaf-threads x", "cd src/leaf/x", "leaflet", "$leaf", "overleaf", "my_leaf", "x.leaf()"]
    {
        assert!(!has_word(line), "{line}");
    }
}

#[test]
fn r069_each_reason_is_told_apart() {
    for (line, reason) in [
        ("cd x && leaf y", Reason::NotLeading),
        ("A=1 leaf y", Reason::NotLeading),
        ("echo $(leaf y)", Reason::Substituted),
        ("/opt/bin/leaf y", Reason::ByPath),
        ("./leaf y", Reason::ByPath),
        ("l\\eaf y", Reason::Spelled),
        ("LEAF y", Reason::Spelled),
        ("env leaf y", Reason::Wrapped),
        ("timeout 5 /opt/leaf y", Reason::Wrapped),
        ("bash -c 'leaf y'", Reason::Interpreted),
        ("python3 -c 'leaf'", Reason::Interpreted),
        ("leaf y <<E\nleaf\nE", Reason::Heredoc),
        ("$(echo leaf) y", Reason::Uncertain),
        ("l{e,}af y", Reason::Uncertain),
    ] {
        assert_eq!(judge(line, Shell::Posix), Verdict::Denied(reason), "{line}");
    }
}

#[test]
fn r067_the_mark_goes_directly_after_the_word() {
    for (line, at) in
        [("leaf", 4), ("leaf x", 4), ("  leaf x", 6), ("# ü\nleaf x", 9), ("leaf;true", 4), ("leaf>o x", 4)]
    {
        assert_eq!(judge(line, Shell::Posix), Verdict::Mark { insert_at: at }, "{line}");
    }
}

#[test]
fn r069_powershell_with_the_word_is_denied() {
    for line in [
        "leaf page state",
        "& leaf x",
        "& 'leaf' x",
        "l`eaf x",
        "Write-Output leaf",
        "leaf.exe x",
        "C:\\bin\\leaf.exe x",
        "iex $x",
        "& ('le'+'af') x",
    ] {
        assert!(matches!(judge(line, Shell::PowerShell), Verdict::Denied(_)), "{line}");
    }
    for line in ["Get-ChildItem", "cd C:\\src\\leaf-threads", "Get-Content leaf.rs", "$x = 1; Write-Output $x"] {
        assert_eq!(judge(line, Shell::PowerShell), Verdict::Passes, "{line}");
    }
}

#[test]
fn r070_powershell_denies_what_it_certainly_reads() {
    for line in [
        "leaf thread new x",
        "cd C:\\x; leaf thread new x",
        "& 'leaf' thread new x",
        "& \"C:\\Program Files\\leaf.exe\" thread new 'a b'",
        "if ($true) { leaf thread new x }",
        "l`eaf thread new x",
        "'x' | leaf --json thread new -",
    ] {
        assert_eq!(plumbing(line, Shell::PowerShell), Some(Forbidden::User("thread new")), "{line}");
    }
    for line in [
        "Write-Output 'leaf thread new x'",
        "# leaf thread new x",
        "leaf thread reply a 'leaf thread new'",
        "git commit -m \"leaf hook\"",
        "$x = @'\nleaf thread new x\n'@",
        "echo leaf thread new",
        "leaf $verb new",
    ] {
        assert_eq!(plumbing(line, Shell::PowerShell), None, "{line}");
    }
}

#[test]
fn r070_a_long_or_deep_line_is_read_in_bounded_time() {
    let started = std::time::Instant::now();
    for piece in [
        "(",
        "((",
        "$(",
        "$((",
        "`",
        "${x:-",
        "\"$(",
        "{a,",
        "[",
        "l*",
        "$'",
        "<<E ",
        "if ",
        "case x in ",
        " ",
        "\\",
        "a+ ",
    ] {
        let line = format!("leaf x; {}", piece.repeat(20_000));
        let _ = judge(&line, Shell::Posix);
        let _ = plumbing(&line, Shell::Posix);
        let _ = may_name_leaf(&line[5..], Shell::Posix);
        let _ = plumbing(&line, Shell::PowerShell);
    }
    // A doubling at each level would not end; what a loaded machine takes for linear work stays far below.
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

fn nest(open: &str, inside: &str, close: &str, n: usize) -> String {
    format!("{}{inside}{}", open.repeat(n), close.repeat(n))
}

/// `a` runs `b` so many times, and so on to `e`.
fn evals(times: usize, last: &str) -> String {
    let one = |c: u8| format!("{}='{}'; ", c as char, format!("eval \"${}\";", (c + 1) as char).repeat(times));
    (b'a'..=b'd').map(one).collect::<String>() + &format!("e='{last}'; eval \"$a\"")
}

/// Each variable ten times the one before it, `j` ten thousand million bytes.
fn longer() -> String {
    let next = |c: u8| format!("{}={}; ", c as char, format!("${}", (c - 1) as char).repeat(10));
    "a=0123456789; ".to_owned() + &(b'b'..=b'j').map(next).collect::<String>()
}

#[test]
fn r069_a_short_line_that_means_endless_work_is_read_once() {
    for line in [
        nest("echo $(", ":", ")", 28) + " | cat",
        nest("echo ${ ", ":", "; }", 10),
        nest("echo ${ echo $(", ":", "); }", 7),
        nest("for x in $(", ":", "); do :; done", 28),
        longer() + "echo $j",
        evals(2, "echo a"),
        "(echo a)|".repeat(14_000) + "cat",
    ] {
        assert_eq!(judge(&line, Shell::Posix), Verdict::Passes, "{line:.60}");
    }
    for (line, reason) in [
        (nest("for x $(", ":", ")", 30), Reason::Uncertain),
        (nest("echo $(", "leaf", ")", 28) + " | cat", Reason::Substituted),
        (nest("echo ${ ", "leaf", "; }", 10), Reason::Substituted),
        (nest("for x in $(", "leaf", "); do :; done", 28), Reason::Substituted),
        // What variables make beyond all bounds may be the word.
        (longer() + "foo $j", Reason::Interpreted),
        (longer() + "$j", Reason::Uncertain),
        (longer() + "eval \"$j\"", Reason::Uncertain),
    ] {
        assert_eq!(judge(&line, Shell::Posix), Verdict::Denied(reason), "{line:.60}");
    }
}

#[test]
fn r069_what_is_not_read_to_its_end_is_uncertain_though_the_word_is_not_in_it() {
    let spelled = "; x=le; $x\"af\" thread reply 1a2b3c4d a";
    for line in [
        nest("( ", "true", " )", 41),
        nest("( ", "true", " )", 41) + spelled,
        nest("echo $(", "true", ")", 41) + spelled,
        nest("echo ${ ", "echo a", "; }", 30) + spelled,
        nest("echo $((", "1", "))", 41),
        evals(40, "echo a"),
        evals(40, "echo a") + spelled,
        "(('((('));".repeat(12_000),
        format!("find . {}", "-exec foo a \\; ".repeat(7_000)),
        format!("a={}; foo {}", "b".repeat(10_000), "$a$a$a$a ".repeat(10_000)),
    ] {
        assert_eq!(judge(&line, Shell::Posix), Verdict::Denied(Reason::Uncertain), "{line:.60}");
        // Of main, doubt passes (R70).
        assert_eq!(plumbing(&line, Shell::Posix), None, "{line:.60}");
        assert_eq!(plumbing(&format!("leaf status; {line}"), Shell::Posix), None, "{line:.60}");
        assert!(plumbing(&format!("leaf hook; {line}"), Shell::Posix).is_some(), "{line:.60}");
    }
    // An open quote is no such end.
    for line in ["echo 'a", "echo \"a", "echo $(echo a", "( echo a"] {
        assert_eq!(judge(line, Shell::Posix), Verdict::Passes, "{line}");
    }
}

/// Lines made of the pieces that matter to the reading, and arbitrary ones.
fn lines() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "leaf",
        "le",
        "af",
        "l",
        "eaf",
        " ",
        " ",
        "\n",
        "'",
        "\"",
        "\\",
        "$",
        "`",
        "(",
        ")",
        "{",
        "}",
        ";",
        "|",
        "&",
        "<",
        ">",
        "<<E\n",
        "E\n",
        "<<'E'",
        "$(",
        "${",
        "}",
        "$'\\x6c",
        "#",
        "=",
        "x=",
        "$x",
        "*",
        "[",
        "]",
        ",",
        "thread new",
        " hook",
        "--agent-id",
        "sh -c ",
        "eval ",
        "xargs ",
        "env ",
        "if ",
        "case x in ",
        "esac",
        "for x in ",
        "do ",
        "done",
        "[[",
        "]]",
        "((",
        "))",
        "ü",
        "🍃",
        "\0",
        "\r",
        "-exec ",
        "find ",
        "sed ",
        "git ",
        "bash",
        "| sh",
        "+",
        "/",
        ".",
    ]);
    prop_oneof![
        4 => prop::collection::vec(piece, 0..24).prop_map(|p| p.concat()),
        1 => any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn r069_any_line_is_read_without_panic_and_alike(line in lines()) {
        let verdict = judge(&line, Shell::Posix);
        let forbidden = plumbing(&line, Shell::Posix);
        if !may_name_leaf(&line, Shell::Posix) {
            prop_assert_eq!(verdict, Verdict::Passes);
            prop_assert_eq!(forbidden, None);
            prop_assert!(!has_word(&line));
        }
        if let Verdict::Mark { insert_at } = verdict {
            prop_assert!(line.is_char_boundary(insert_at));
            prop_assert_eq!(&line[insert_at - 4..insert_at], "leaf");
            // The rest byte for byte, and the mark is then R70's to see: only the hook may write it.
            let marked = format!("{} --agent-id a1{}", &line[..insert_at], &line[insert_at..]);
            prop_assert_eq!(plumbing(&marked, Shell::Posix), Some(Forbidden::AgentId));
        }
        if forbidden.is_some() {
            prop_assert!(verdict != Verdict::Passes, "R70 sees a leaf that R69 passes");
            prop_assert!(has_word(&line));
        }
        let _ = judge(&line, Shell::PowerShell);
        let _ = plumbing(&line, Shell::PowerShell);
    }
}
