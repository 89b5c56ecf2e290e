//! Lifecycle hooks: which run at which moment of a session, what they are told, and that each moment is told once.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::killed_takes::killer;
use crate::support::desk::{Desk, LEAF, Session, quoted, read_log};

/// Longer than anything takes that is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes down what the hook is told, whole or not at all.
pub const TELL: &str = r#"env >"$HOME/fired/.$$"; mv "$HOME/fired/.$$" "$HOME/fired/$LEAF_HOOK_NAME.$$""#;

/// What the hooks of a desk were told.
pub struct Hooks<'d>(pub &'d Desk);

impl<'d> Hooks<'d> {
    pub fn new(desk: &'d Desk) -> Self {
        fs::create_dir_all(desk.home().join("fired")).expect("a directory");
        Hooks(desk)
    }

    /// The user's own hook, with these moments as YAML, that writes down what it is told.
    pub fn own(&self, name: &str, on: &str) -> &Self {
        self.file(&self.0.home().join(".leaf/hooks"), name, &format!("on: {on}\ncommand: |\n  {TELL}\n"));
        self
    }

    /// A hook of the project's.
    pub fn project(&self, name: &str, keys: &str) -> &Self {
        self.file(&self.0.project().join(".leaf/hooks"), name, keys);
        self
    }

    pub fn file(&self, dir: &std::path::Path, name: &str, keys: &str) {
        fs::create_dir_all(dir).expect("a directory");
        fs::write(dir.join(format!("{name}.md")), format!("---\nhook: true\n{keys}---\n")).expect("a hook's file");
    }

    /// What a hook was told, one environment a run, in no order.
    pub fn told(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.0.home().join("fired")).expect("a directory") {
            let path = entry.expect("an entry").path();
            let file = path.file_name().expect("a name").to_string_lossy().into_owned();
            if file.rsplit_once('.').is_some_and(|(hook, _)| hook == name) {
                let text = fs::read_to_string(&path).expect("an environment");
                let pairs = text.lines().filter_map(|line| line.split_once('='));
                found.push(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
            }
        }
        found
    }

    /// Waits until nothing of leaf's and no hook runs that this desk started.
    pub fn settle(&self) {
        until("the hooks come to an end", || !self.runs());
    }

    pub fn runs(&self) -> bool {
        let home = format!("LEAF_HOME={}", self.0.state_dir().display());
        let proc = fs::read_dir("/proc").expect("processes");
        proc.flatten().any(|entry| {
            let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
            let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let has = |name: &str| environ.split(|b| *b == 0).any(|pair| pair.starts_with(name.as_bytes()));
            // A shell stands before it for a moment.
            let is_leaf = words.split(|b| *b == 0).any(|word| word == b"lifecycle");
            has(&home) && (is_leaf || has("LEAF_HOOK_NAME="))
        })
    }

    /// The one run of a hook: what it was told.
    #[track_caller]
    pub fn once(&self, name: &str) -> BTreeMap<String, String> {
        until("the hook runs", || !self.told(name).is_empty());
        self.settle();
        let told = self.told(name);
        assert_eq!(told.len(), 1, "{name} runs once: {told:#?}");
        told[0].clone()
    }

    #[track_caller]
    pub fn never(&self, name: &str) {
        self.settle();
        assert_eq!(self.told(name), Vec::<BTreeMap<String, String>>::new(), "{name} doesn't run");
    }

    pub fn forget(&self) {
        self.settle();
        let dir = self.0.home().join("fired");
        fs::remove_dir_all(&dir).expect("a directory");
        fs::create_dir(dir).expect("a directory");
    }
}

#[track_caller]
pub fn until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the schedule of a session was told, from its journal.
pub fn changes(session: &Session<'_>) -> Vec<Value> {
    let journal = crate::support::forks::session_dir(session.desk(), session).join("journal.jsonl");
    read_log(&journal).into_iter().filter(|e| e["kind"] == "schedule").map(|e| e["schedule"].clone()).collect()
}

pub fn closes(session: &Session<'_>) -> Vec<String> {
    let closed = changes(session).into_iter().filter(|c| c["change"] == "closed");
    closed.map(|c| c["reason"].as_str().expect("a reason").to_owned()).collect()
}

#[track_caller]
fn is(told: &BTreeMap<String, String>, name: &str, value: &str) {
    for prefix in ["LEAF", "AUTOFORK"] {
        assert_eq!(
            told.get(&format!("{prefix}_{name}")).map(String::as_str),
            Some(value),
            "{prefix}_{name}: {told:#?}"
        );
    }
}

#[track_caller]
fn is_not(told: &BTreeMap<String, String>, name: &str) {
    for prefix in ["LEAF", "AUTOFORK"] {
        assert_eq!(told.get(&format!("{prefix}_{name}")), None, "{prefix}_{name}");
    }
}

#[test]
fn each_moment_of_a_session_is_told_with_its_environment() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    for (name, on) in [
        ("start", "session_start"),
        ("active", "[activity]"),
        ("idle", "\n  - idle: 30s"),
        ("end", "session_end"),
        ("deploy", "\n  - event: deployed"),
    ] {
        hooks.own(name, on);
    }
    let session = desk.session("s");
    session.set_env("VIRTUAL_ENV", "/venv/of/this/project");
    session.start("startup").silent();
    let told = hooks.once("start");
    is(&told, "HOOK_NAME", "start");
    is(&told, "EVENT", "session_start");
    is(&told, "SESSION_ID", session.id());
    is(&told, "PROJECT_ROOT", &desk.project().to_string_lossy());
    is(&told, "CWD", &desk.project().to_string_lossy());
    is(&told, "CLIENT", "claude-code");
    is(&told, "SOURCE", "startup");
    is_not(&told, "IDLE_SECS");
    is_not(&told, "END_REASON");
    // W30: it is the session's own environment, but for what would make a client take itself for the session.
    assert_eq!(told["VIRTUAL_ENV"], "/venv/of/this/project");
    for gone in ["CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PID", "LEAF_FORK", "AUTOFORK_FORK"] {
        assert!(!told.contains_key(gone), "{gone}");
    }
    assert_eq!(told["PWD"], desk.project().to_string_lossy());

    hooks.never("active");
    session.prompt("hello").silent();
    let told = hooks.once("active");
    is(&told, "EVENT", "activity");
    is_not(&told, "SOURCE");

    session.stop().silent();
    let watch = session.watch();
    desk.advance(29);
    hooks.never("idle");
    desk.advance(2);
    let told = hooks.once("idle");
    is(&told, "EVENT", "idle");
    is(&told, "IDLE_SECS", "30");
    desk.advance(600);

    desk.person(&["emit", "deployed"]).ok();
    let told = hooks.once("deploy");
    is(&told, "EVENT", "event");
    assert_eq!(told["LEAF_MOMENT"], "event:deployed");
    assert_eq!(told["VIRTUAL_ENV"], "/venv/of/this/project", "the watch's environment, not the emitter's");
    desk.person(&["emit", "other"]).ok();
    watch.parked(10);

    session.end("prompt_input_exit").silent();
    let told = hooks.once("end");
    is(&told, "EVENT", "session_end");
    is(&told, "END_REASON", "prompt_input_exit");
    for (name, runs) in [("start", 1), ("active", 1), ("idle", 1), ("deploy", 1), ("end", 1)] {
        assert_eq!(hooks.told(name).len(), runs, "{name}");
    }
    assert_eq!(desk.errors(), Vec::<String>::new());
}

#[test]
fn a_resume_is_told_to_those_who_wait_for_it_and_a_start_once() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("both", "[resume, session_start]").own("resume", "resume").own("start", "session_start");
    let session = desk.session("s");
    session.start("startup").silent();
    is(&hooks.once("both"), "EVENT", "session_start");
    hooks.never("resume");
    session.end("other").silent();
    hooks.forget();
    session.start("resume").silent();
    is(&hooks.once("both"), "EVENT", "session_start");
    is(&hooks.once("both"), "SOURCE", "resume");
    is(&hooks.once("resume"), "EVENT", "resume");
    hooks.once("start");
    // It is open: another SessionStart tells nobody.
    hooks.forget();
    session.start("resume").silent();
    session.start("compact").silent();
    for name in ["both", "resume", "start"] {
        hooks.never(name);
    }
}

#[test]
fn a_session_first_seen_at_a_prompt_starts_with_no_source() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("start", "session_start").own("active", "activity");
    desk.session("s").prompt("hello").silent();
    is_not(&hooks.once("start"), "SOURCE");
    hooks.once("active");
}

#[test]
fn only_a_genuine_prompt_is_activity() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("active", "activity");
    let session = desk.session("s").working();
    hooks.once("active");
    // Two copies of the plugin.
    session.prompt_again("go on").silent();
    hooks.settle();
    assert_eq!(hooks.told("active").len(), 1);
}

#[test]
fn idle_hooks_run_once_a_pause_at_each_of_their_deadlines() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("idle", "\n  - idle: 10s\n  - idle: 60s").own("bare", "idle");
    let session = desk.session("s").working();
    session.stop().silent();
    let watch = session.watch();
    let seconds = |n: usize| {
        until("idle hooks run", || hooks.told("idle").len() >= n);
        hooks.settle();
        let mut told: Vec<String> = hooks.told("idle").iter().map(|told| told["LEAF_IDLE_SECS"].clone()).collect();
        told.sort();
        told
    };
    desk.advance(11);
    assert_eq!(seconds(1), ["10"]);
    desk.advance(50);
    assert_eq!(seconds(2), ["10", "60"]);
    hooks.never("bare");
    desk.advance(600);
    is(&hooks.once("bare"), "IDLE_SECS", "600");
    // Another watch of the same pause, though the deadline has passed long since.
    let newer = session.watch();
    watch.left();
    newer.parked(50);
    hooks.settle();
    assert_eq!(hooks.told("idle").len(), 2);
    // W18: a close forgets nothing of the pause.
    session.end("other").silent();
    session.start("resume").silent();
    let resumed = session.watch_with("SessionStart.main.resume");
    resumed.parked(50);
    hooks.settle();
    assert_eq!(hooks.told("idle").len(), 2);
    session.stop().silent();
    let stopped = session.watch();
    stopped.parked(50);
    hooks.settle();
    assert_eq!((hooks.told("idle").len(), hooks.told("bare").len()), (2, 1));
    // The next pause is another.
    session.prompt("more").silent();
    session.stop().silent();
    let next = session.watch();
    desk.advance(11);
    until("the next pause's run", || hooks.told("idle").len() == 3);
    next.parked(10);
}

#[test]
fn work_in_the_background_holds_idle_hooks_for_a_while() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("idle", "\n  - idle: 10s");
    let session = desk.session("s").working();
    let mut stop = session.payload("Stop.main.tui");
    stop["background_tasks"] = serde_json::json!([{"id": "b1", "type": "shell", "status": "running"}]);
    session.hook(&stop).silent();
    let watch = session.watch();
    desk.advance(1700);
    watch.parked(50);
    hooks.never("idle");
    // W27: the hold ends by itself.
    desk.advance(111);
    hooks.once("idle");
}

#[test]
fn a_throttled_hook_runs_no_more_often() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("active", "activity\nthrottle: 60s");
    let session = desk.session("s").working();
    hooks.once("active");
    desk.advance(30);
    session.prompt("again").silent();
    hooks.once("active");
    desk.advance(31);
    session.prompt("and again").silent();
    until("it runs again", || hooks.told("active").len() == 2);
}

#[test]
fn files_that_change_are_told_of() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("changed", "\n  - changed: docs/**/*.md");
    fs::create_dir_all(desk.project().join("docs/deep")).expect("a directory");
    let session = desk.session("s").working();
    session.stop().silent();
    let watch = session.watch();
    until("the watch looks", || changes(&session).iter().any(|c| c["change"] == "looked"));
    hooks.never("changed");
    fs::write(desk.project().join("docs/deep/a.txt"), "no").expect("a file");
    fs::write(desk.project().join("docs/deep/a.md"), "yes").expect("a file");
    let told = hooks.once("changed");
    is(&told, "EVENT", "changed");
    assert_eq!(told["LEAF_MOMENT"], "changed:docs/**/*.md");
    watch.parked(10);
}

#[test]
fn r126_a_projects_hook_runs_once_it_is_trusted_and_as_it_was() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    let keys = format!("on: session_start\ncommand: |\n  {TELL}\n");
    hooks.project("start", &keys);
    hooks.own("own", "session_start");
    let session = desk.session("s");
    session.start("startup").silent();
    hooks.once("own");
    hooks.never("start");
    session.end("other").silent();
    desk.person(&["trust"]).ok();
    session.start("resume").silent();
    hooks.once("start");
    session.end("other").silent();
    hooks.forget();
    hooks.project("start", &format!("{keys}description: changed\n"));
    session.start("resume").silent();
    hooks.once("own");
    hooks.never("start");
}

#[test]
fn a_hook_that_takes_too_long_is_killed_with_all_that_it_started() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    let command = r#"echo almost >&2; sh -c 'echo $$ >"$HOME/child"; exec sleep 600' & wait"#;
    hooks.file(
        &desk.home().join(".leaf/hooks"),
        "slow",
        &format!("on: session_start\ntimeout: 1s\ncommand: |\n  {command}\n"),
    );
    desk.session("s").start("startup").silent();
    until("it is told of", || !desk.errors().is_empty());
    let errors = desk.errors();
    assert!(errors[0].contains("hook slow (session_start): stopped after 1 s: almost"), "{errors:?}");
    let child = fs::read_to_string(desk.home().join("child")).expect("it started");
    let state = || fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
    until("its child is dead", || state().is_empty() || state().contains(") Z "));
    hooks.settle();
}

#[test]
fn a_hook_that_fails_is_one_line_in_the_log() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    let own = desk.home().join(".leaf/hooks");
    let spew = "on: session_start\ncommand: yes failing | head -c 1000000 >&2; exit 3\n";
    hooks.file(&own, "bad", spew);
    hooks.file(&own, "quiet", "on: session_start\ncommand: echo out; echo err >&2\n");
    desk.session("s").start("startup").silent();
    until("it is told of", || !desk.errors().is_empty());
    hooks.settle();
    let errors = desk.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("hook bad (session_start): exit status: 3: ") && errors[0].len() < 700, "{errors:?}");
}

#[test]
fn a_hook_waits_for_nobody_and_nobody_for_it() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    let own = desk.home().join(".leaf/hooks");
    // It goes on as long as the file is there.
    fs::write(desk.home().join("go"), "").expect("a file");
    let waits = r#"while [ -e "$HOME/go" ]; do sleep 0.05; done"#;
    hooks.file(&own, "waits", &format!("on: [session_start, session_end]\ncommand: |\n  {waits}\n"));
    let session = desk.session("s");
    session.start("startup").silent();
    session.prompt("hello").silent();
    session.end("other").silent();
    assert!(hooks.runs(), "the hooks are still at it");
    fs::remove_file(desk.home().join("go")).expect("a file");
    hooks.settle();
}

#[test]
fn every_way_to_close_tells_the_end_once() {
    // The client's own word.
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("end", "session_end");
    let session = desk.session("said").working();
    session.end("clear").silent();
    session.end("clear").silent();
    is(&hooks.once("end"), "END_REASON", "clear");
    assert_eq!(closes(&session), ["clear"]);
    hooks.forget();

    // Its watch sees the client's end.
    let session = desk.session("seen").working();
    session.stop().silent();
    let watch = session.watch();
    until("it is parked", || changes(&session).len() > 2 && lane(&session));
    let pid = watch.pid();
    session.client.kill();
    until("the watch left", || !alive(pid));
    is(&hooks.once("end"), "END_REASON", "gone");
    assert_eq!(closes(&session), ["gone"]);
    hooks.forget();

    // Client and watch died together: another session's start finds it.
    let session = desk.session("unseen").working();
    session.client.kill();
    let other = desk.session("other");
    other.set_env("SECRET", "of another project");
    other.start("startup").silent();
    let told = hooks.once("end");
    is(&told, "END_REASON", "gone");
    is(&told, "SESSION_ID", session.id());
    // W30: not in another session's environment.
    assert_eq!(told.get("SECRET"), None);
    assert_eq!(closes(&session), ["gone"]);
    hooks.forget();

    // The same, found by a parked watch.
    let session = desk.session("unseen2").working();
    session.client.kill();
    other.prompt("x").silent();
    other.stop().silent();
    let watch = other.watch();
    is(&hooks.once("end"), "END_REASON", "gone");
    watch.parked(10);
    hooks.forget();

    // Nobody knows its process, and nothing was heard of it for long.
    let session = desk.session("silent");
    session.set_env("CLAUDE_PID", "");
    session.start("startup").silent();
    session.prompt("go").silent();
    hooks.settle();
    desk.advance(11 * 3600);
    let early = desk.session("early");
    early.start("startup").silent();
    hooks.never("end");
    desk.advance(3600);
    early.prompt("still here").silent();
    let late = desk.session("late");
    late.start("startup").silent();
    is(&hooks.once("end"), "END_REASON", "timeout");
    assert_eq!(closes(&session), ["timeout"]);
    // It was only silent: its next prompt opens it again.
    hooks.own("start", "session_start");
    session.prompt("here I am").silent();
    is(&hooks.once("start"), "SESSION_ID", session.id());
    assert_eq!(changes(&session).iter().filter(|c| c["change"] == "opened").count(), 2);
}

#[test]
fn complaint_10_a_reused_pid_makes_no_dead_session_live() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("end", "session_end");
    let session = desk.session("s").working();
    // As if its client had ended, and another process had its pid now.
    let record = crate::support::forks::session_dir(&desk, &session).join("session.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&record).expect("a record")).expect("JSON");
    json["process"]["start"] = "1".into();
    fs::write(&record, json.to_string()).expect("a record");
    let other = desk.session("other");
    other.start("startup").silent();
    is(&hooks.once("end"), "END_REASON", "gone");
    assert_eq!(closes(&session), ["gone"]);
}

#[test]
fn a_client_that_died_unseen_and_goes_on_ended_and_started() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("end", "session_end").own("start", "session_start");
    let session = desk.session("s").working();
    hooks.once("start");
    hooks.forget();
    session.client.kill();
    let again = desk.session("s");
    again.start("resume").silent();
    is(&hooks.once("end"), "END_REASON", "gone");
    is(&hooks.once("start"), "SOURCE", "resume");
    assert_eq!(closes(&again), ["gone"]);
}

fn lane(session: &Session<'_>) -> bool {
    let lane = crate::support::forks::session_dir(session.desk(), session).join("lanes/watch");
    fs::metadata(lane).is_ok_and(|meta| meta.len() > 0)
}

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A hook's process that is killed at the nth of such a call.
#[track_caller]
fn killed(session: &Session<'_>, payload: &Value, call: &str, n: usize) -> bool {
    let trace = session.desk().path("trace");
    let line = format!(
        "strace -qq -o {} -e trace={call} -e inject={call}:signal=KILL:when={n} \"$LEAF\" hook",
        quoted(&trace.to_string_lossy())
    );
    session.shell_with_payload(&line, payload).code == 137
}

#[test]
fn complaint_9_an_edge_is_told_once_wherever_a_hook_is_killed() {
    if !killer::can_trace() {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let mut kills = 0;
    for call in ["write", "rename,renameat,renameat2", "clone,clone3,vfork,fork"] {
        for n in 1.. {
            let desk = Desk::new();
            let hooks = Hooks::new(&desk);
            hooks.own("start", "session_start").own("end", "session_end");
            let session = desk.session("s");
            let at_start = killed(&session, &session.payload("SessionStart.main.startup"), call, n);
            // The session goes on.
            session.prompt("go").silent();
            hooks.once("start");
            let mut end = session.payload("SessionEnd.main.other");
            end["reason"] = "logout".into();
            let at_end = killed(&session, &end, call, n);
            session.client.kill();
            let other = desk.session("other");
            other.start("startup").silent();
            until("the end is told", || hooks.told("end").iter().any(|told| told["LEAF_SESSION_ID"] == session.id()));
            hooks.settle();
            assert_eq!(hooks.told("end").len(), 1, "{call} {n}");
            assert_eq!(closes(&session).len(), 1, "{call} {n}: {:?}", closes(&session));
            kills += u32::from(at_start) + u32::from(at_end);
            if !at_start && !at_end {
                break;
            }
            assert!(n < 40, "it comes to an end");
        }
    }
    assert!(kills > 6, "some were killed: {kills}");
}

#[test]
fn two_copies_of_the_plugin_tell_each_edge_once() {
    for _ in 0..5 {
        let desk = Desk::new();
        let hooks = Hooks::new(&desk);
        hooks.own("start", "session_start").own("active", "activity").own("end", "session_end");
        let session = desk.session("s");
        for name in ["SessionStart.main.startup", "UserPromptSubmit.main", "SessionEnd.main.other"] {
            let mut payload = session.payload(name);
            if name.starts_with("User") {
                payload["prompt_id"] = "c930326e-fe75-4057-a1fd-000000000001".into();
            }
            let line = "cat >\"$D/payload\"; \"$LEAF\" hook <\"$D/payload\" & \"$LEAF\" hook <\"$D/payload\" & wait";
            session.shell_with_payload(line, &payload).ok();
        }
        for name in ["start", "active", "end"] {
            hooks.once(name);
        }
        assert_eq!(closes(&session).len(), 1);
    }
}

#[test]
fn complaint_11_a_hook_that_starts_a_client_starts_no_next_hook() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    // Its client is a session of its own, with leaf's hooks.
    let mut payload = desk.session("inner").payload("SessionStart.main.startup");
    payload["session_id"] = "inner".into();
    fs::write(desk.home().join("payload"), payload.to_string()).expect("a payload");
    let client = format!("CLAUDE_PID=$$ CLAUDE_CODE_SESSION_ID=inner {} hook <\"$HOME/payload\"", quoted(LEAF));
    hooks.file(
        &desk.home().join(".leaf/hooks"),
        "start",
        &format!("on: session_start\ncommand: |\n  {TELL}; {client}\n"),
    );
    desk.session("outer").start("startup").silent();
    hooks.once("start");
    // It is an ordinary session but for that.
    let status = desk.ask(&["status", "--session", "inner"]);
    assert_eq!(status["sessions"][0]["id"], "inner");

    // A scheduled fork's client is none at all.
    let fork = desk.session("fork");
    fork.set_env("LEAF_FORK", "1");
    let before = desk.files(&[]);
    fork.start("startup").silent();
    fork.prompt("x").silent();
    fork.stop().silent();
    fork.end("other").silent();
    fork.watch().left();
    hooks.once("start");
    assert_eq!(before, desk.files(&[]), "nothing was written for it");
}

#[test]
fn complaint_1_and_2_whatever_fails_inside_breaks_no_session_and_wakes_nobody() {
    type Break = fn(&Desk, &Session<'_>);
    let break_it: [(&str, Break); 4] = [
        ("a damaged record", |desk, session| {
            let dir = crate::support::forks::session_dir(desk, session);
            fs::write(dir.join("session.json"), "{").expect("a file");
        }),
        ("a journal that is a directory", |desk, session| {
            let journal = crate::support::forks::session_dir(desk, session).join("journal.jsonl");
            fs::remove_file(&journal).expect("a file");
            fs::create_dir(&journal).expect("a directory");
        }),
        ("a state directory that is a file", |desk, _| {
            fs::remove_dir_all(desk.state_dir()).expect("a directory");
            fs::write(desk.state_dir(), "x").expect("a file");
        }),
        ("no state directory", |desk, _| fs::remove_dir_all(desk.state_dir()).expect("a directory")),
    ];
    for (what, break_it) in break_it {
        let desk = Desk::new();
        let hooks = Hooks::new(&desk);
        hooks.own("all", "[session_start, activity, idle, session_end]");
        let session = desk.session("s").working();
        session.stop().silent();
        hooks.settle();
        break_it(&desk, &session);
        for name in ["SessionStart.main.resume", "UserPromptSubmit.main", "Stop.main.tui", "SessionEnd.main.other"] {
            let ran = session.hook(&session.payload(name));
            assert!(ran.ran.stderr.is_empty(), "{what}: {:?}", ran.ran);
        }
        let watch = session.watch();
        let pid = watch.pid();
        session.client.kill();
        // It says nothing, and it is gone.
        until("the watch is gone", || !alive(pid));
        std::mem::forget(watch);
        hooks.settle();
    }
}

#[test]
fn an_event_is_told_to_the_open_sessions_of_its_project_alone() {
    let desk = Desk::new();
    let (one, two) = (desk.session("one").working(), desk.session("two").working());
    let elsewhere = desk.session("elsewhere");
    let other = desk.path("other");
    fs::create_dir(&other).expect("a directory");
    elsewhere.set_cwd(other);
    elsewhere.start("startup").silent();
    two.end("other").silent();
    let told = desk.ask(&["emit", "deployed"]);
    assert_eq!(told["sessions"], serde_json::json!([one.id()]));
    assert!(changes(&one).iter().any(|c| c["change"] == "raised" && c["label"] == "event:deployed"));
    let told = desk.ask(&["emit", "deployed", "--session", elsewhere.id()]);
    assert_eq!(told["sessions"], serde_json::json!([elsewhere.id()]));
    desk.person(&["emit", "x", "--session", two.id()]).refused();
    desk.person(&["emit", "a\nb"]).refused();
    desk.person(&["emit", "x", "--project", "--session", one.id()]).usage();
}

#[test]
fn complaint_6_a_close_waits_for_nothing_that_it_starts() {
    if !killer::can_trace() {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    for n in 0..100 {
        hooks.file(
            &desk.home().join(".leaf/hooks"),
            &format!("end{n}"),
            &format!("on: session_end\ncommand: |\n  {TELL}\n"),
        );
    }
    let session = desk.session("s").working();
    hooks.settle();
    let trace = desk.path("calls");
    let line = format!("strace -qq -o {} \"$LEAF\" hook", quoted(&trace.to_string_lossy()));
    session.shell_with_payload(&line, &session.payload("SessionEnd.main.other")).ok();
    let calls = fs::read_to_string(&trace).expect("a trace");
    let of = |name: &str| calls.lines().filter(|line| line.starts_with(&format!("{name}("))).count();
    assert_eq!(
        of("wait4") + of("waitid") + of("nanosleep") + of("clock_nanosleep"),
        0,
        "it waits for nothing:\n{calls}"
    );
    let started = of("clone") + of("clone3") + of("vfork") + of("fork");
    assert_eq!(started, 1, "one process for all of them");
    assert!(calls.lines().count() < 350, "few calls, whatever is due: {}", calls.lines().count());
    hooks.settle();
    assert_eq!((0..100).filter(|n| hooks.told(&format!("end{n}")).len() == 1).count(), 100);
}

/// A directory with a `claude` that reports at once, put before the others on a session's PATH; its runs are counted.
fn scripted(session: &Session<'_>) {
    let dir = session.desk().path("bin");
    let _ = fs::create_dir(&dir);
    let script = "#!/bin/sh\ncat >/dev/null\necho x >>\"$HOME/ran\"\n\
                  printf '{\"type\":\"result\",\"is_error\":false,\"result\":\"done\"}'\n";
    let file = dir.join("claude");
    fs::write(&file, script).expect("a script");
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a program");
    session.set_env("PATH", &format!("{}:{}", dir.display(), std::env::var("PATH").unwrap_or_default()));
}

fn forks(desk: &Desk, number: usize, flush: bool) {
    let dir = desk.home().join(".leaf/forks");
    fs::create_dir_all(&dir).expect("a directory");
    for n in 0..number {
        fs::write(dir.join(format!("fork{n}.md")), "---\nfork: true\nrun_on: [idle]\n---\nWrite it down.\n")
            .expect("a fork");
    }
    let config = desk.home().join(".config/leaf");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("config.toml"), format!("[schedule]\nflush_on_close = {flush}\n")).expect("a file");
}

fn issued(session: &Session<'_>) -> usize {
    let batches = changes(session).into_iter().filter(|c| c["change"] == "issued");
    batches.map(|c| c["runs"].as_array().expect("runs").len()).sum()
}

fn over(session: &Session<'_>) -> usize {
    changes(session).into_iter().filter(|c| c["change"] == "over").count()
}

#[test]
fn complaint_6_a_close_with_100_forks_due_starts_one_process_and_waits_for_none_of_them() {
    if !killer::can_trace() {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let desk = Desk::new();
    forks(&desk, 100, true);
    let session = desk.session("s");
    scripted(&session);
    let session = session.working();
    session.stop().silent();
    let trace = desk.path("calls");
    let line = format!("strace -qq -o {} \"$LEAF\" hook", quoted(&trace.to_string_lossy()));
    session.shell_with_payload(&line, &session.payload("SessionEnd.main.other")).ok();
    let calls = fs::read_to_string(&trace).expect("a trace");
    let of = |name: &str| calls.lines().filter(|line| line.starts_with(&format!("{name}("))).count();
    assert_eq!(
        of("wait4") + of("waitid") + of("nanosleep") + of("clock_nanosleep"),
        0,
        "it waits for nothing:\n{calls}"
    );
    assert_eq!(of("clone") + of("clone3") + of("vfork") + of("fork"), 1, "one process for all of them");
    assert_eq!(issued(&session), 100);
    // They run one after the other, with nobody there.
    session.client.kill();
    until("some ran", || over(&session) >= 3);
    let runner = changes(&session).into_iter().find(|c| c["change"] == "begun").expect("a runner");
    crate::support::desk::signal_pid(runner["process"]["pid"].as_u64().expect("a pid") as u32, "TERM");
    until("its runner left", || over(&session) == 100);
}

#[test]
fn what_a_pause_did_not_run_runs_at_its_close_where_that_is_asked_for() {
    let play = |flush: bool, close: &dyn Fn(&Desk, &Session<'_>)| {
        let desk = Desk::new();
        forks(&desk, 2, flush);
        let session = desk.session("s");
        scripted(&session);
        let session = session.working();
        session.stop().silent();
        close(&desk, &session);
        until("it is closed", || !closes(&session).is_empty());
        Hooks::new(&desk).settle();
        let number = issued(&session);
        until("its runs are over", || over(&session) == number);
        let labels = changes(&session).into_iter().filter(|c| c["change"] == "issued");
        for batch in labels {
            assert_eq!(batch["flush"], true);
            assert_eq!(batch["runs"][0]["label"], "idle (at close)");
        }
        number
    };
    let ends = |_: &Desk, session: &Session<'_>| session.end("other").silent();
    let dies = |desk: &Desk, session: &Session<'_>| {
        session.client.kill();
        let other = desk.session("other");
        scripted(&other);
        other.start("startup").silent();
        until("it is swept", || !closes(session).is_empty());
    };
    let died = |desk: &Desk, session: &Session<'_>| {
        session.client.kill();
        desk.advance(601);
        let other = desk.session("other");
        other.start("startup").silent();
        until("it is swept", || !closes(session).is_empty());
    };
    let pruned = |desk: &Desk, session: &Session<'_>| {
        session.client.kill();
        desk.person(&["prune"]).ok();
    };
    assert_eq!(play(false, &ends), 0, "it is off");
    assert_eq!(play(true, &ends), 2);
    assert_eq!(play(true, &dies), 2, "a death that is seen at once");
    assert_eq!(play(true, &died), 0, "a death of long ago");
    assert_eq!(play(true, &pruned), 0);
}

#[test]
fn what_a_hook_says_reaches_the_next_prompt_once() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    let own = desk.home().join(".leaf/hooks");
    hooks.file(&own, "tickets", "on: session_start\ndeliver: context\ncommand: echo 'two tickets <b>'\n");
    hooks.file(
        &own,
        "long",
        "on: session_start\ndeliver: context\nmax_bytes: 20\ncommand: yes 1234567890 | head -c 100000\n",
    );
    hooks.file(&own, "failing", "on: session_start\ndeliver: context\ncommand: echo no; exit 1\n");
    hooks.file(&own, "silent", "on: session_start\ndeliver: context\ncommand: 'true'\n");
    let session = desk.session("s");
    session.start("startup").silent();
    let fed = || changes(&session).iter().filter(|c| c["change"] == "fed").count();
    until("they spoke", || fed() == 2);
    hooks.settle();
    assert_eq!(desk.ask(&["status"])["sessions"][0]["schedule"]["reports"].as_array().map(Vec::len), Some(2));
    let said = session.prompt("hello").says();
    assert!(said.contains("two tickets") && said.contains("hook: tickets; moment: session_start"), "{said}");
    assert!(!said.contains("<b>"), "what stands in it is data: {said}");
    assert_eq!(said.matches("1234567890").count(), 1, "{said}");
    assert!(!said.contains("\nno\n"), "{said}");
    session.prompt("again").silent();
    let reports = crate::support::forks::session_dir(&desk, &session).join("reports");
    assert_eq!(fs::read_dir(reports).map(Iterator::count).unwrap_or(0), 0, "nothing is left of them");
}

#[test]
fn a_hook_may_wake_an_idle_session_with_what_it_says() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    let own = desk.home().join(".leaf/hooks");
    hooks.file(&own, "deployed", "on:\n  - event: deployed\ndeliver: wake\ncommand: echo it is live\n");
    let session = desk.session("s").working();
    session.stop().silent();
    let watch = session.watch();
    desk.person(&["emit", "deployed"]).ok();
    assert!(watch.woke().contains("a lifecycle hook has something"));
    let said = session.prompt("x").says();
    assert!(said.contains("it is live"), "{said}");
    session.stop().silent();
    session.watch().parked(300);
}

#[test]
fn w29_prune_closes_what_is_stale_and_clears_what_nobody_waits_for() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("end", "session_end");
    let session = desk.session("dead").working();
    let living = desk.session("living").working();
    session.client.kill();
    let stale = desk.ask(&["status"]);
    assert_eq!(stale["stale"][0]["id"], session.id());
    assert!(desk.person(&["status"]).ok().out().contains("stale"));
    // A report that nobody waits for.
    let reports = crate::support::forks::session_dir(&desk, &session).join("reports");
    fs::create_dir(&reports).expect("a directory");
    fs::write(reports.join("0123456789abcdef.json"), "{}").expect("a file");
    let said = desk.ask(&["prune", "--dry-run"]);
    assert_eq!((&said["closed"][0], &said["reports"]), (&session.id().into(), &1.into()), "{said}");
    assert_eq!(closes(&session), Vec::<String>::new(), "it was only said");
    hooks.never("end");
    let said = desk.ask(&["prune"]);
    assert_eq!((&said["closed"][0], &said["reports"]), (&session.id().into(), &1.into()), "{said}");
    is(&hooks.once("end"), "END_REASON", "pruned");
    assert_eq!((closes(&session), closes(&living).len()), (vec!["pruned".to_owned()], 0));
    assert!(desk.person(&["prune"]).ok().out().contains("nothing to clear away"));
    let status = desk.ask(&["status"]);
    assert_eq!((&status["closed"][0]["id"], &status["closed"][0]["reason"]), (&session.id().into(), &"pruned".into()));
    assert!(desk.person(&["status"]).ok().out().contains("pruned"));
    // A month later its directory goes, and no other.
    desk.advance(29 * 24 * 3600);
    assert_eq!(desk.ask(&["prune"])["sessions"], serde_json::json!([]));
    desk.advance(25 * 3600);
    let said = desk.ask(&["prune"]);
    assert_eq!(said["sessions"], serde_json::json!([session.id()]), "{said}");
    assert!(!crate::support::forks::session_dir(&desk, &session).exists());
    assert!(crate::support::forks::session_dir(&desk, &living).exists());
    living.prompt("still here").silent();
}

#[test]
fn w29_a_sessions_story_stays_as_long_as_its_page() {
    let desk = Desk::new();
    let session = desk.session("s").working();
    let thread = desk.thread("which colour?");
    let reference = session.boundary().reference();
    session.reply(&reference, "blue");
    session.end("other").silent();
    let other = desk.session("t").working();
    let page = desk.page_slug();
    other.run(&["page", "claim", &page]).ok();
    let before = desk.ask(&["why", &thread]);
    desk.advance(60 * 24 * 3600);
    assert_eq!(desk.ask(&["prune"])["sessions"], serde_json::json!([]));
    assert_eq!(before, desk.ask(&["why", &thread]));
}

#[test]
fn w17_a_reader_that_leaves_is_no_reason_to_panic() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("start", "session_start");
    let session = desk.session("s").working();
    desk.thread("hello");
    let listings: [&[&str]; 10] = [
        &["status"],
        &["status", "--json"],
        &["doctor"],
        &["forks"],
        &["hooks"],
        &["prune"],
        &["emit", "x"],
        &["trust", "--list"],
        &["page", "list"],
        &["--help"],
    ];
    for args in listings {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = desk.command(args).stdout(writer).output().expect("leaf runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked") && !said.contains("Broken pipe"), "{args:?}: {said}");
        assert!(output.status.code().is_some_and(|code| code < 2), "{args:?}: {:?} {said}", output.status);
    }
    // A watch whose words nobody reads wakes nobody.
    for args in [&["watch"][..], &["nonsense"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = desk.command(args);
        let status = command.stderr(writer).status().expect("leaf runs");
        assert!(status.code().is_some_and(|code| code != 101), "{args:?}: {status:?}");
    }
    drop(session);
}

#[test]
fn a_fork_that_waits_for_files_or_an_event_runs_once_for_each() {
    let desk = Desk::new();
    let dir = desk.home().join(".leaf/forks");
    fs::create_dir_all(&dir).expect("a directory");
    fs::write(
        dir.join("notes.md"),
        "---\nfork: true\nrun_on:\n  - changed: notes/*.md\n  - event: deployed\n---\nRead.\n",
    )
    .expect("a fork");
    let config = desk.home().join(".config/leaf");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("config.toml"), "[schedule]\nwake_debounce = 0\n").expect("a file");
    fs::create_dir(desk.project().join("notes")).expect("a directory");
    let session = desk.session("s");
    scripted(&session);
    let session = session.working();
    session.stop().silent();
    let watch = session.watch();
    until("the watch looks", || changes(&session).iter().any(|c| c["change"] == "looked"));
    assert_eq!(issued(&session), 0);
    desk.advance(1);
    fs::write(desk.project().join("notes/a.md"), "new").expect("a file");
    until("it runs", || over(&session) == 1);
    desk.advance(1);
    desk.person(&["emit", "deployed"]).ok();
    until("it runs again", || over(&session) == 2);
    desk.advance(1);
    watch.parked(300);
    assert_eq!(issued(&session), 2);
}

#[test]
fn w18_a_session_that_was_closed_and_goes_on_runs_nothing_twice_for_one_pause() {
    let desk = Desk::new();
    forks(&desk, 1, true);
    let session = desk.session("s");
    scripted(&session);
    let session = session.working();
    session.stop().silent();
    let watch = session.watch();
    desk.advance(606);
    until("it runs", || over(&session) == 1);
    session.end("other").silent();
    assert_eq!(issued(&session), 1, "the close runs it no second time");
    session.start("resume").silent_or_context();
    session.stop().silent_or_context();
    let resumed = session.watch();
    watch.left();
    desk.advance(2_000);
    resumed.parked(300);
    assert_eq!(issued(&session), 1);
    session.prompt("the next pause").silent_or_context();
    session.stop().silent_or_context();
    let next = session.watch();
    desk.advance(606);
    until("it runs in the next", || over(&session) == 2);
    next.parked(10);
}
