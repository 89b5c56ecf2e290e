//! Schedules of a session through the built binary: what is due when the watch is parked, what holds it, and that a pause has its forks
//! once, whatever is killed, closed or moved meanwhile. The peer's scenarios (scheduled-forks.md 1.10 to 1.13), its faults by number
//! (`w…`) and the public complaints (`c…`).
//!
//! The clock stands still until a test moves it. That nothing runs is shown by another fork that does, at a later moment.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::killed_takes::killer;
use super::s20_lifecycle::{Hooks, changes, closes};
use crate::support::desk::{Desk, Session, quoted, signal_pid};
use crate::support::schedule::{Schedule, is_gone, until};

/// A session whose watch finds the client that plays forks.
fn session<'d>(desk: &'d Desk, name: &str) -> Session<'d> {
    on_path(desk.session(name))
}

pub fn on_path(session: Session<'_>) -> Session<'_> {
    let desk = session.desk();
    Schedule::new(&session);
    session.set_env("PATH", &format!("{}:{}", desk.home().join("bin").display(), desk.env()["PATH"]));
    session
}

/// The user's settings of the schedule. Nothing waits for others unless a test asks for it.
pub fn settings(desk: &Desk, lines: &str) {
    let dir = desk.home().join(".config/leaf");
    fs::create_dir_all(&dir).expect("a directory");
    let debounce = if lines.contains("wake_debounce") { "" } else { "wake_debounce = 0\n" };
    fs::write(dir.join("config.toml"), format!("[schedule]\n{debounce}{lines}\n")).expect("the configuration");
}

/// What was issued in a session: fork and label, in its order.
fn issued(session: &Session<'_>) -> Vec<(String, String)> {
    batches(session).into_iter().flatten().collect()
}

fn batches(session: &Session<'_>) -> Vec<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let batches = changes(session).into_iter().filter(|change| change["change"] == "issued");
    let runs = |batch: Value| {
        let runs = batch["runs"].as_array().expect("runs").clone();
        runs.iter().map(|run| (text(&run["fork"]), text(&run["label"]))).collect()
    };
    batches.map(runs).collect()
}

fn names(session: &Session<'_>) -> Vec<String> {
    issued(session).into_iter().map(|(fork, _)| fork).collect()
}

fn over(session: &Session<'_>) -> usize {
    changes(session).into_iter().filter(|change| change["change"] == "over").count()
}

/// Waits until so many were issued, and are over.
#[track_caller]
fn ran(session: &Session<'_>, number: usize) {
    until(&format!("{number} runs"), || (issued(session).len() >= number).then_some(()));
    until("they are over", || (over(session) >= number).then_some(()));
    assert_eq!(issued(session).len(), number, "{:?}", issued(session));
}

/// How a fork stands, as `leaf schedule` says.
#[track_caller]
fn stands(session: &Session<'_>, fork: &str) -> Value {
    let schedule = session.desk().ask(&["schedule", session.id()]);
    let forks = schedule["forks"].as_array().expect("forks");
    forks.iter().find(|row| row["fork"] == fork).unwrap_or_else(|| panic!("{fork} in {schedule:#}")).clone()
}

#[track_caller]
fn held(session: &Session<'_>, fork: &str) -> String {
    let stands = stands(session, fork);
    stands["held"]["by"].as_str().unwrap_or_else(|| panic!("it is held: {stands}")).to_owned()
}

/// A Stop with work in the background.
fn stop_with(session: &Session<'_>, tasks: &[&str]) {
    let mut stop = session.payload("Stop.main.shell");
    let tasks = tasks.iter().map(|id| json!({"id": id, "type": "shell", "status": "running", "command": "sleep 9"}));
    stop["background_tasks"] = tasks.collect();
    session.hook(&stop).silent();
}

/// The prompt that the client makes of a wake.
fn woken(session: &Session<'_>) -> String {
    session.hook(&session.payload("UserPromptSubmit.main.task-notification.rewake")).says()
}

/// Writes what main's last request had, as the client's transcript tells it.
fn transcript(session: &Session<'_>, tokens: u64) {
    use std::io::Write;
    let payload = session.payload("Stop.main.tui");
    let file = std::path::PathBuf::from(payload["transcript_path"].as_str().expect("a path"));
    fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
    let row = json!({"type": "assistant", "isSidechain": false, "timestamp": "2027-03-01T10:00:00.000Z", "message":
        {"model": "claude-sonnet", "content": [{"type": "text", "text": "so"}],
         "usage": {"input_tokens": 7, "cache_read_input_tokens": tokens - 7, "cache_creation_input_tokens": 0}}});
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file).expect("the transcript");
    writeln!(file, "{row}").expect("the transcript");
}

/// The parked watches of a desk.
pub fn watches(desk: &Desk) -> Vec<u32> {
    let home = format!("LEAF_HOME={}", desk.state_dir().display());
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let words = fs::read(entry.path().join("cmdline")).ok()?;
            let environ = fs::read(entry.path().join("environ")).ok()?;
            let ours = environ.split(|byte| *byte == 0).any(|pair| pair == home.as_bytes());
            (ours && words.split(|byte| *byte == 0).nth(1) == Some(b"watch")).then_some(pid)
        })
        .collect()
}

#[test]
fn an_idle_fork_runs_once_a_pause_and_reports_at_the_next_prompt() {
    let desk = Desk::new();
    settings(&desk, "wake_debounce = 5");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.reports("journal", "two entries");
    schedule.fork("mark", "run_on: [idle: 20m]");
    schedule.play("mark", "result x");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(600);
    assert!(stands(&session, "journal").get("held").is_none(), "it waits for others");
    watch.parked(50);
    assert!(issued(&session).is_empty(), "within the debounce");
    desk.advance(5);
    ran(&session, 1);
    assert_eq!(issued(&session), [("journal".to_owned(), "idle".to_owned())]);
    // Another watch of the same pause runs it no more.
    let newer = session.watch();
    watch.left();
    desk.advance(700);
    ran(&session, 2);
    assert_eq!(names(&session), ["journal", "mark"]);
    newer.parked(20);
    assert_eq!(held(&session, "journal"), "latch");
    let said = session.prompt("and now?").says();
    assert!(said.contains("fork: journal; trigger: idle;") && said.contains("two entries"), "{said}");
    // The next pause is another.
    session.stop().silent();
    let next = session.watch();
    desk.advance(605);
    ran(&session, 3);
    next.parked(20);
}

#[test]
fn the_first_of_two_deadlines_is_the_pauses() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("two", "run_on: [idle: 2m, idle: 1m]");
    schedule.play("two", "result x");
    schedule.fork("mark", "run_on: [idle: 3m]");
    schedule.play("mark", "result x");
    session.stop().silent();
    let _watch = session.watch();
    for at in [60, 60, 60] {
        desk.advance(at);
        if at == 60 {
            until("the first", || (!issued(&session).is_empty()).then_some(()));
        }
    }
    ran(&session, 2);
    assert_eq!(
        issued(&session),
        [("two".to_owned(), "idle:60".to_owned()), ("mark".to_owned(), "idle:180".to_owned())]
    );
}

#[test]
fn every_comes_once_more_in_a_quiet_session() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("hourly", "run_on: [every: 15m]\ngate: true");
    schedule.play("hourly", "result x");
    schedule.fork("mark", "run_on: [idle: 60m]");
    schedule.play("mark", "result x");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(899);
    watch.parked(20);
    assert!(issued(&session).is_empty());
    desk.advance(1);
    ran(&session, 1);
    desk.advance(1_000);
    watch.parked(20);
    desk.advance(2_700);
    // What a gate held counts from its end.
    ran(&session, 2);
    assert_eq!(names(&session), ["hourly", "mark"], "quiet: once and no more");
    session.prompt("more").says();
    session.stop().silent();
    let _next = session.watch();
    ran(&session, 3);
    assert_eq!(issued(&session)[2], ("hourly".to_owned(), "every:900".to_owned()));
}

#[test]
fn w07_a_context_moment_comes_once_a_session_and_hides_no_idle_one() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("compacts", "run_on: [context_tokens: 50000, idle: 1m]");
    schedule.play("compacts", "result x");
    transcript(&session, 49_999);
    session.stop().silent();
    let watch = session.watch();
    watch.parked(50);
    assert!(issued(&session).is_empty(), "not yet");
    session.prompt("more").silent();
    transcript(&session, 50_000);
    session.stop().silent();
    let _next = session.watch();
    watch.left();
    ran(&session, 1);
    assert_eq!(issued(&session)[0].1, "context_tokens:50000");
    desk.advance(60);
    ran(&session, 2);
    assert_eq!(issued(&session)[1].1, "idle:60", "the same fork's idle moment");
    session.prompt("more").says();
    transcript(&session, 60_000);
    session.stop().silent();
    let _last = session.watch();
    desk.advance(60);
    ran(&session, 3);
    assert_eq!(issued(&session)[2].1, "idle:60", "the context's once a session");
}

#[test]
fn c12_what_the_client_writes_after_the_stop_counts_too() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("compacts", "run_on: [context_used: 50%]");
    schedule.play("compacts", "result x");
    transcript(&session, 1_000);
    session.stop().silent();
    let watch = session.watch();
    watch.parked(50);
    transcript(&session, 100_000);
    desk.advance(2);
    ran(&session, 1);
    assert_eq!(issued(&session)[0].1, "context_used:50%");
}

#[test]
fn a_batch_runs_in_the_order_of_after_and_of_priority() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    for (name, keys) in [
        ("d", "run_on: [idle: 1s]\npriority: 5"),
        ("c", "run_on: [idle: 1s]"),
        ("b", "run_on: [idle: 1s]\nafter: e\npriority: -1"),
        ("e", "run_on: [idle: 1s]\npriority: -3"),
    ] {
        schedule.fork(name, keys);
        schedule.play(name, &format!("result 'what {name} found'"));
    }
    session.stop().silent();
    let _watch = session.watch();
    desk.advance(1);
    ran(&session, 4);
    assert_eq!(batches(&session).len(), 1, "one batch");
    assert_eq!(schedule.order(), ["e", "b", "c", "d"]);
    assert!(schedule.asked("b")[0].prompt.contains("what e found"), "it gets what it comes after");
    assert!(!schedule.asked("c")[0].prompt.contains("what e found"), "a wave's order pipes nothing");
}

#[test]
fn a_gate_holds_idle_forks_until_it_settles() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("goal", "run_on: [idle: 1m]\ngate: true");
    schedule.play("goal", "until_there go; result reached");
    schedule.fork("other", "run_on: [idle: 1m]");
    schedule.play("other", "result x");
    schedule.fork("timer", "run_on: [every: 2m]");
    schedule.play("timer", "result x");
    session.stop().silent();
    let _watch = session.watch();
    desk.advance(60);
    until("the gate", || (names(&session) == ["goal"]).then_some(()));
    // No gate holds what comes every so often.
    desk.advance(60);
    until("the timer", || (names(&session) == ["goal", "timer"]).then_some(()));
    assert_eq!(held(&session, "other"), "gate");
    schedule.touch("go");
    until("the gate is over", || (over(&session) == 2).then_some(()));
    // What it held counts from its end.
    desk.advance(59);
    assert_eq!(held(&session, "other"), "moment");
    desk.advance(1);
    ran(&session, 3);
    assert_eq!(names(&session), ["goal", "timer", "other"]);
}

#[test]
fn a_chain_goes_on_through_a_wake_and_a_stop() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("goal", "run_on: [idle: 1m]\nchain: true");
    let goes_on = r#"if [ "$(ls "$HOME/runs" | wc -l)" -lt 3 ]; then result 'a step\n<<autofork:continue>>'; else result 'reached'; fi"#;
    schedule.play("goal", goes_on);
    session.stop().silent();
    // Each stays as long as it likes: one that is killed as it issues takes its runs along.
    let mut watches = vec![session.watch()];
    desk.advance(60);
    for step in 1..3 {
        let text = watches.last().expect("one").woke();
        assert!(!text.contains("threads"), "{text}");
        assert_eq!(issued(&session).len(), step);
        let said = woken(&session);
        assert!(said.contains("a step") && !said.contains("autofork:continue"), "{said}");
        desk.advance(1);
        // Main works on it: nothing runs now.
        let at_work = session.watch_with("UserPromptSubmit.main.task-notification.rewake");
        at_work.parked(30);
        assert_eq!(issued(&session).len(), step);
        session.stop().silent();
        watches.extend([at_work, session.watch()]);
    }
    ran(&session, 3);
    watches.last().expect("one").parked(50);
    assert_eq!(issued(&session).len(), 3, "it reached what it was to reach");
    assert!(session.prompt("and?").says().contains("reached"));
}

#[test]
fn a_chain_ends_with_the_persons_prompt() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("goal", "run_on: [idle: 1m]\nchain: true");
    schedule.play("goal", r"until_there go; result 'a step\n<<leaf:continue>>'");
    schedule.fork("mark", "run_on: [idle: 30s]");
    schedule.play("mark", "result x");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(60);
    until("it runs", || names(&session).contains(&"goal".to_owned()).then_some(()));
    session.prompt("stop that").silent_or_context();
    schedule.touch("go");
    until("they are over", || (over(&session) == 2).then_some(()));
    session.stop().silent();
    let _next = session.watch();
    watch.left();
    desk.advance(30);
    ran(&session, 3);
    assert_eq!(names(&session).iter().filter(|name| *name == "goal").count(), 1);
}

#[test]
fn w26_w27_work_in_the_background_holds_until_it_is_too_old() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    // A moment before it in the file that never comes doesn't hide the hold's end.
    schedule.fork("journal", "run_on: [context_used: 90%, idle: 0]");
    schedule.play("journal", "result x");
    schedule.fork("free", "run_on: [idle: 1m]\nbackground_hold: false");
    schedule.play("free", "result x");
    stop_with(&session, &["server"]);
    let watch = session.watch();
    desk.advance(60);
    ran(&session, 1);
    assert_eq!(names(&session), ["free"]);
    assert_eq!(held(&session, "journal"), "background");
    desk.advance(1_739);
    watch.parked(30);
    assert_eq!(issued(&session).len(), 1);
    desk.advance(1);
    ran(&session, 2);
    assert_eq!(names(&session), ["free", "journal"], "nobody stopped again");
}

#[test]
fn c14_what_the_background_held_runs_as_soon_as_that_ends() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.play("journal", "result x");
    stop_with(&session, &["build"]);
    let watch = session.watch();
    desk.advance(600);
    watch.parked(30);
    assert!(issued(&session).is_empty());
    // The task's end comes to main as a turn of its own; its Stop lists no work any more.
    session.hook(&session.payload("UserPromptSubmit.main.task-notification")).silent_or_context();
    session.stop().silent();
    let _next = session.watch();
    desk.advance(60);
    ran(&session, 1);
}

#[test]
fn a_debounce_gathers_what_comes_due_and_a_prompt_cancels_it() {
    let desk = Desk::new();
    settings(&desk, "wake_debounce = 5");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    for (name, idle) in [("a", 10), ("b", 13), ("c", 60)] {
        schedule.fork(name, &format!("run_on: [idle: {idle}s]"));
        schedule.play(name, "result x");
    }
    session.stop().silent();
    let cancelled = session.watch();
    desk.advance(12);
    cancelled.parked(50);
    session.prompt("wait").silent();
    desk.advance(10);
    cancelled.parked(50);
    assert!(issued(&session).is_empty(), "the person came back");
    session.stop().silent();
    let _watch = session.watch();
    desk.advance(14);
    desk.advance(1);
    ran(&session, 2);
    let label = |fork: &str, label: &str| (fork.to_owned(), label.to_owned());
    assert_eq!(batches(&session), [vec![label("a", "idle:10"), label("b", "idle:13")]], "one batch");
}

#[test]
fn a_throttle_spaces_a_forks_runs_over_pauses() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("rarely", "run_on: [idle: 1s]\nthrottle: 1h");
    schedule.fork("mark", "run_on: [idle: 2s]");
    schedule.play("rarely", "result x");
    schedule.play("mark", "result x");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(1);
    ran(&session, 1);
    desk.advance(1);
    ran(&session, 2);
    session.prompt("more").says();
    session.stop().silent();
    let _next = session.watch();
    watch.left();
    desk.advance(2);
    ran(&session, 3);
    assert_eq!(names(&session), ["rarely", "mark", "mark"]);
    assert_eq!(held(&session, "rarely"), "throttle");
    // Its time comes in the same pause.
    desk.advance(3_600);
    ran(&session, 4);
    assert_eq!(names(&session)[3], "rarely");
}

#[test]
fn w08_two_sessions_of_a_project_share_a_tags_throttle_by_one_stamp() {
    let desk = Desk::new();
    settings(&desk, "[schedule.tag_throttles]\nci = \"1h\"");
    let one = session(&desk, "one").working();
    let two = session(&desk, "two").working();
    let schedule = Schedule::new(&one);
    for name in ["lint", "audit"] {
        schedule.fork(name, "run_on: [idle: 1m]\ntags: ci");
        schedule.play(name, "result x");
    }
    schedule.fork("mark", "run_on: [idle: 2m]");
    schedule.play("mark", "result x");
    one.stop().silent();
    two.stop().silent();
    let _watches = [one.watch(), two.watch()];
    desk.advance(60);
    until("one of them ran its batch", || (issued(&one).len() + issued(&two).len() == 2).then_some(()));
    desk.advance(60);
    until("both had their mark", || (issued(&one).len() + issued(&two).len() == 4).then_some(()));
    let (first, other) = if issued(&one).len() == 3 { (&one, &two) } else { (&two, &one) };
    assert_eq!(names(first).len(), 3, "two of one tag in one batch");
    assert_eq!(names(other), ["mark"]);
    assert_eq!(held(other, "lint"), "tag_throttle");
    desk.advance(3_600);
    ran(other, 3);
    ran(first, 3);
    let projects: Vec<Value> = fs::read_dir(desk.state_dir().join("projects"))
        .expect("projects")
        .map(|entry| fs::read(entry.expect("an entry").path()).expect("a project"))
        .filter_map(|bytes| serde_json::from_slice(&bytes).ok())
        .collect();
    assert_eq!(projects.len(), 1);
    assert_eq!(projects[0]["tags"].as_object().expect("stamps").len(), 1, "one stamp a tag: {projects:?}");
}

#[test]
fn a_clients_environment_switches_tags_on_and_off() {
    let desk = Desk::new();
    settings(&desk, "enable_tags = [\"ci\"]");
    let one = session(&desk, "one");
    one.set_env("AUTOFORK_ENABLE_TAGS", "docs, notes");
    let one = one.working();
    let two = session(&desk, "two");
    two.set_env("LEAF_DISABLE_TAGS", "notes");
    let two = two.working();
    let schedule = Schedule::new(&one);
    for (name, tags) in [("lint", "ci"), ("docs", "docs"), ("both", "[ci, notes]"), ("none", "[]")] {
        schedule.fork(name, &format!("run_on: [idle: 1s]\ntags: {tags}"));
        schedule.play(name, "result x");
    }
    for session in [&one, &two] {
        session.stop().silent();
    }
    let _watches = [one.watch(), two.watch()];
    desk.advance(1);
    ran(&one, 2);
    ran(&two, 1);
    assert_eq!(names(&one), ["both", "docs"]);
    assert_eq!(names(&two), ["lint"]);
    assert_eq!((held(&one, "lint"), held(&two, "both")), ("not_enabled".to_owned(), "disabled".to_owned()));
}

#[test]
fn w18_a_close_and_a_resume_keep_what_a_pause_had() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m, context_tokens: 10]");
    schedule.play("journal", "result x");
    schedule.fork("mark", "run_on: [idle: 2m]");
    schedule.play("mark", "result x");
    transcript(&session, 5_000);
    session.stop().silent();
    let _watch = session.watch();
    ran(&session, 1);
    desk.advance(60);
    ran(&session, 2);
    session.end("other").silent();
    session.start("resume").silent_or_context();
    session.stop().silent();
    let _next = session.watch();
    desk.advance(60);
    ran(&session, 3);
    assert_eq!(names(&session), ["journal", "journal", "mark"], "{:?}", issued(&session));
    // A late end of a run of before the close is known for what it is: its report comes.
    assert!(session.prompt("and now?").says().contains("fork: journal"));
}

#[test]
fn w03_a_close_runs_one_batch_without_gates_and_chains() {
    let desk = Desk::new();
    settings(&desk, "flush_on_close = true");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    for (name, keys) in [
        ("goal", "run_on: [idle: 1m]\ngate: true\nchain: true"),
        ("steps", "run_on: [idle: 1m]\nchain: true"),
        ("last", "run_on: [idle: 2m]\npriority: 3"),
        ("first", "run_on: [idle: 3m]"),
        ("timer", "run_on: [every: 1s]"),
    ] {
        schedule.fork(name, keys);
        schedule.play(name, "result x");
    }
    session.stop().silent();
    let _watch = session.watch();
    session.end("other").silent();
    ran(&session, 2);
    let label = |fork: &str, label: &str| (fork.to_owned(), label.to_owned());
    let batch = vec![label("first", "idle:180 (at close)"), label("last", "idle:120 (at close)")];
    assert_eq!(batches(&session), [batch]);
    assert_eq!(schedule.order(), ["first", "last"]);
    session.start("resume").silent_or_context();
    let said = session.prompt("back again").says();
    assert!(said.contains("fork: first") && said.contains("fork: last"), "{said}");
}

#[test]
fn a_client_that_dies_while_it_is_idle_or_at_work_closes_its_session_once() {
    for at_work in [false, true] {
        let desk = Desk::new();
        settings(&desk, "flush_on_close = true");
        let session = session(&desk, "s").working();
        let schedule = Schedule::new(&session);
        schedule.fork("journal", "run_on: [idle: 10m]");
        schedule.play("journal", "result x");
        session.stop().silent();
        // As the client does, a watch is parked at a prompt too.
        let idle = session.watch();
        let watch = if at_work {
            session.prompt("more").silent();
            session.watch_with("UserPromptSubmit.main")
        } else {
            idle
        };
        let pid = watch.pid();
        until("it is parked", || watches(&desk).contains(&pid).then_some(()));
        watch.parked(50);
        session.client.kill();
        until("it is closed", || (closes(&session) == ["gone"]).then_some(()));
        ran(&session, 1);
        assert_eq!(issued(&session)[0].1, "idle:600 (at close)");
        until("the watch has left", || is_gone(pid).then_some(()));
    }
}

#[test]
fn c05_a_run_goes_on_where_its_watch_is_killed() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.play("journal", "until_there go; result 'all the same'");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(60);
    schedule.client_pid("journal");
    signal_pid(watch.pid(), "KILL");
    until("it is gone", || watch.wait(Duration::ZERO));
    schedule.touch("go");
    ran(&session, 1);
    assert!(session.prompt("and?").says().contains("all the same"));
    assert!(changes(&session).iter().any(|change| change["outcome"] == "completed"));
}

#[test]
fn w06_a_pause_whose_watch_was_killed_is_had_with_the_next_one() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.play("journal", "result x");
    session.stop().silent();
    let watch = session.watch();
    watch.parked(30);
    signal_pid(watch.pid(), "KILL");
    until("it is gone", || watch.wait(Duration::ZERO));
    desk.advance(300);
    // A turn that nobody of the outside began ends; the pause is the same.
    woken_quietly(&session);
    session.stop().silent();
    let _next = session.watch();
    ran(&session, 1);
}

/// A wake's prompt with nothing to deliver.
fn woken_quietly(session: &Session<'_>) {
    session.hook(&session.payload("UserPromptSubmit.main.task-notification.rewake")).silent_or_context();
}

/// Parks a watch of a leaf of its own at this path.
fn park_another(desk: &Desk, session: &Session<'_>, leaf: &Path) {
    fs::copy(crate::support::desk::LEAF, leaf).expect("a copy");
    let pid = desk.path("old-pid");
    let line = format!("'{}' watch <\"$D/in\" >/dev/null 2>&1 & echo $! >'{}'", leaf.display(), pid.display());
    session.shell_with_payload(&line, &session.payload("Stop.main.tui"));
    let pid = fs::read_to_string(&pid).expect("its pid");
    let lane = crate::support::forks::session_dir(desk, session).join("lanes/watch");
    until("it is parked", || fs::read_to_string(&lane).is_ok_and(|held| held.contains(pid.trim())).then_some(()));
}

#[test]
fn c03_a_watch_that_an_older_leaf_parked_gives_way_to_the_new_one() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.play("journal", "result x");
    session.stop().silent();
    let old = desk.path("old-leaf");
    park_another(&desk, &session, &old);
    // The update takes its file away under it.
    fs::remove_file(&old).expect("the old one goes");
    session.prompt("go on").silent();
    session.stop().silent();
    let new = session.watch();
    until("the old one has left", || (watches(&desk) == [new.pid()]).then_some(()));
    desk.advance(60);
    ran(&session, 1);
}

#[test]
fn c03_a_watch_whose_leaf_was_updated_under_it_goes_on_with_the_new_one() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.play("journal", "result x");
    session.stop().silent();
    let (leaf, update) = (desk.path("leaf"), desk.path("update"));
    park_another(&desk, &session, &leaf);
    fs::copy(crate::support::desk::LEAF, &update).expect("a copy");
    fs::rename(&update, &leaf).expect("the update");
    desk.advance(60);
    ran(&session, 1);
    assert!(desk.errors().is_empty(), "{:?}", desk.errors());
}

#[test]
fn c15_fifty_turns_leave_one_parked_watch_and_run_a_pauses_fork_once() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.play("journal", "result x");
    let mut parked = Vec::new();
    for _ in 0..50 {
        session.prompt("go on").silent();
        session.stop().silent();
        parked.push(session.watch());
    }
    let last = parked.pop().expect("a watch");
    until("the older ones have left", || (watches(&desk) == [last.pid()]).then_some(()));
    for watch in &parked {
        watch.left();
    }
    desk.advance(60);
    ran(&session, 1);
    assert_eq!(watches(&desk), [last.pid()]);
    // One report, once.
    assert_eq!(session.prompt("and?").says().matches("fork: journal").count(), 1);
    session.prompt("and?").silent();
}

#[test]
fn w21_a_machine_that_slept_runs_at_once_what_came_due_and_no_more() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.fork("hourly", "run_on: [every: 1h]");
    schedule.play("journal", "result x");
    schedule.play("hourly", "result x");
    session.stop().silent();
    let _watch = session.watch();
    desk.advance(9 * 3_600);
    ran(&session, 2);
    desk.advance(9 * 3_600);
    session.prompt("good morning").says();
    assert_eq!(issued(&session).len(), 2, "one for all the hours");
}

#[test]
fn w21_a_clock_that_goes_back_fires_nothing_early_and_holds_nothing_for_ever() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 10m]\nthrottle: 1h");
    schedule.play("journal", "result x");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(300);
    watch.parked(30);
    // It was wrong by a year.
    desk.advance(-365 * 86_400);
    until("it is noticed", || changes(&session).iter().any(|change| change["change"] == "clock").then_some(()));
    desk.advance(599);
    watch.parked(50);
    assert!(issued(&session).is_empty(), "not early");
    desk.advance(1);
    ran(&session, 1);
    session.prompt("more").says();
    desk.advance(-86_400);
    session.stop().silent();
    let _next = session.watch();
    // The journal's own times never go back: what is written is set right once it is read.
    until("it is noticed", || {
        let changes = changes(&session);
        let last = |kind: &str| changes.iter().rposition(|change| change["change"] == kind);
        (last("clock") > last("stopped")).then_some(())
    });
    desk.advance(3_600);
    ran(&session, 2);
}

#[test]
fn w01_what_comes_due_while_main_works_waits_for_its_stop() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("long", "run_on: [idle: 1s]");
    schedule.play("long", "until_there go; result x");
    schedule.fork("quick", "run_on: [idle: 3s]");
    schedule.play("quick", "result x");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(1);
    schedule.client_pid("long");
    // The person comes back while it runs, and it ends while main works.
    session.prompt("more").silent();
    schedule.touch("go");
    until("it is over", || (over(&session) == 1).then_some(()));
    desk.advance(60);
    watch.parked(50);
    assert_eq!(names(&session), ["long"], "nothing in the middle of a turn");
    assert_eq!(held(&session, "quick"), "busy");
    session.boundary().silent_or_context();
    session.stop().silent_or_context();
    let _next = session.watch();
    desk.advance(3);
    ran(&session, 3);
    assert_eq!(names(&session), ["long", "long", "quick"], "the new pause has both");
}

#[test]
fn w04_w05_hooks_of_any_environment_find_the_session() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s");
    session.set_env("XDG_RUNTIME_DIR", "/run/user/1");
    let session = session.working();
    let schedule = Schedule::new(&session);
    schedule.reports("journal", "found");
    schedule.fork("journal", "run_on: [idle: 1m]");
    session.stop().silent();
    session.set_env("XDG_RUNTIME_DIR", "/nowhere");
    let watch = session.watch();
    desk.advance(60);
    ran(&session, 1);
    // Nothing but files stands between two hooks: without any process of leaf's a prompt gets its report.
    signal_pid(watch.pid(), "KILL");
    until("it is gone", || watch.wait(Duration::ZERO));
    session.set_env("XDG_RUNTIME_DIR", "");
    assert!(session.prompt("and?").says().contains("found"));
}

#[test]
fn w19_forks_cost_a_start_nothing_that_is_written() {
    let lines = |forks: usize| {
        let desk = Desk::new();
        settings(&desk, "");
        let session = session(&desk, "s");
        let schedule = Schedule::new(&session);
        for n in 0..forks {
            schedule.fork(&format!("fork{n}"), "run_on: [idle: 1m]");
        }
        session.start("startup").silent();
        session.prompt("go").silent();
        session.stop().silent();
        fs::read_to_string(schedule.dir().join("journal.jsonl")).expect("a journal").lines().count()
    };
    assert_eq!(lines(0), lines(200), "no roster");
}

#[test]
fn w31_absurd_times_never_come() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork(
        "huge",
        "run_on:\n  - idle: 36500d\n  - every: 36500d\n  - context_left: 18446744073709551615\nthrottle: 36500d",
    );
    schedule.fork("wraps", "run_on:\n  - idle: 18446744073709551615\n  - every: 300000000000000d");
    schedule.fork("mark", "run_on: [idle: 1m]");
    for name in ["huge", "wraps", "mark"] {
        schedule.play(name, "result x");
    }
    session.stop().silent();
    let _watch = session.watch();
    desk.advance(60);
    ran(&session, 1);
    assert_eq!(names(&session), ["mark"]);
    // What is no time at all is the default's.
    desk.advance(540);
    ran(&session, 2);
    assert_eq!(issued(&session)[1], ("wraps".to_owned(), "idle".to_owned()));
    transcript(&session, 1_000);
    session.prompt("more").says();
    session.stop().silent();
    let _next = session.watch();
    ran(&session, 3);
    assert_eq!(names(&session)[2], "huge");
}

#[test]
fn a_persons_message_begins_a_new_pause() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.play("journal", "result x");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(60);
    ran(&session, 1);
    desk.thread("and one thing more");
    watch.woke();
    let said = woken(&session);
    assert!(said.contains("and one thing more"), "{said}");
    let reference = crate::support::desk::references(&said)[0].clone();
    session.reply(&reference, "done");
    session.stop().silent();
    let _next = session.watch();
    desk.advance(60);
    ran(&session, 2);
}

#[test]
fn a_runaway_is_stopped_for_an_hour() {
    let desk = Desk::new();
    settings(&desk, "runaway_limit = 2");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("often", "run_on: [idle: 1s]");
    schedule.play("often", "result x");
    schedule.fork("mark", "run_on: [idle: 2s]\nthrottle: 1s");
    schedule.play("mark", "result x");
    let mut watches = Vec::new();
    for pause in 1..=2 {
        session.stop().silent();
        watches.push(session.watch());
        desk.advance(2);
        ran(&session, 2 * pause);
        session.prompt("more").says();
    }
    session.stop().silent();
    watches.push(session.watch());
    desk.advance(2);
    watches[2].parked(50);
    assert_eq!(issued(&session).len(), 4);
    assert_eq!((held(&session, "often"), held(&session, "mark")), ("runaway".to_owned(), "runaway".to_owned()));
    desk.advance(3_600);
    ran(&session, 6);
}

#[test]
fn r126_a_projects_forks_run_once_they_are_trusted() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    let dir = desk.project().join(".autofork/forks");
    fs::create_dir_all(&dir).expect("a directory");
    fs::write(dir.join("theirs.md"), "---\nfork: true\nrun_on:\n  - idle: 1m\n---\nDo it.\n").expect("a fork");
    schedule.play("theirs", "result x");
    schedule.fork("own", "run_on: [idle: 2m]");
    schedule.play("own", "result x");
    session.stop().silent();
    let _watch = session.watch();
    desk.advance(120);
    ran(&session, 1);
    assert_eq!(names(&session), ["own"]);
    assert_eq!(held(&session, "theirs"), "trust");
    desk.person(&["trust"]).ok();
    session.prompt("more").says();
    session.stop().silent();
    let _next = session.watch();
    desk.advance(60);
    ran(&session, 2);
    assert_eq!(names(&session), ["own", "theirs"]);
}

#[test]
fn c07_c08_every_one_of_many_hooks_at_once_counts() {
    let desk = Desk::new();
    let session = session(&desk, "s").working();
    let before = changes(&session).iter().filter(|change| change["change"] == "activity").count();
    let payload = session.payload("UserPromptSubmit.main");
    let jobs: Vec<_> = (0..64)
        .map(|n| {
            let mut payload = payload.clone();
            payload["prompt"] = json!(format!("prompt {n}"));
            payload["prompt_id"] = json!(format!("c930326e-fe75-4057-a1fd-9{n:011}"));
            session.job(&["hook"]).input(payload.to_string().as_bytes()).start()
        })
        .collect();
    for job in jobs {
        job.wait(Duration::from_secs(30)).expect("the hook ends").ok();
    }
    let after = changes(&session).iter().filter(|change| change["change"] == "activity").count();
    assert_eq!(after - before, 64, "each its own, and none lost");
    assert!(desk.errors().is_empty(), "{:?}", desk.errors());
}

#[test]
fn w24_w25_c04_the_plugins_hooks_are_exec_form_for_every_source_and_only_a_watch_is_in_the_background() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("hooks.json");
    let hooks: Value = serde_json::from_slice(&fs::read(file).expect("hooks.json")).expect("JSON");
    for (event, entries) in hooks["hooks"].as_object().expect("events") {
        for entry in entries.as_array().expect("entries") {
            for hook in entry["hooks"].as_array().expect("hooks") {
                assert!(hook["args"].is_array(), "{event}: a path with a blank stays one word: {hook}");
                let waits = hook.get("asyncRewake").is_some();
                assert_eq!(waits, hook["args"] == json!(["watch"]), "{event}: {hook}");
            }
        }
    }
    for entry in hooks["hooks"]["SessionStart"].as_array().expect("entries") {
        assert!(entry.get("matcher").is_none(), "a fork's and every other source");
    }
}

#[test]
fn a_notification_of_nobody_known_begins_a_pause_unless_it_follows_a_wake() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "run_on: [idle: 1m]");
    schedule.play("journal", "result x");
    let notified = |session: &Session<'_>| {
        session.hook(&session.payload("UserPromptSubmit.main.task-notification")).silent_or_context();
        session.stop().silent_or_context();
        session.watch()
    };
    session.stop().silent();
    let mut watches = vec![session.watch()];
    desk.advance(60);
    ran(&session, 1);
    // Somebody else's work ended: the session does something that nobody of ours asked for.
    watches.push(notified(&session));
    desk.advance(60);
    ran(&session, 2);
    // A wake of ours, and a notification that may come of it.
    schedule.change(json!({"change": "woke"}));
    desk.advance(19);
    watches.push(notified(&session));
    let activities = || changes(&session).iter().filter(|change| change["change"] == "activity").count();
    assert_eq!(activities(), 2, "the same pause");
    schedule.change(json!({"change": "woke"}));
    desk.advance(21);
    watches.push(notified(&session));
    assert_eq!(activities(), 3, "that was too long ago");
    desk.advance(60);
    ran(&session, 3);
}

#[test]
fn a_gate_whose_next_run_doesnt_come_is_lifted() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("goal", "run_on: [idle: 1s]\nchain: true\ngate: true\nthrottle: 2h");
    schedule.play("goal", r"result 'a step\n<<leaf:continue>>'");
    schedule.fork("other", "run_on: [idle: 1m]");
    schedule.play("other", "result x");
    session.stop().silent();
    let watch = session.watch();
    desk.advance(1);
    watch.woke();
    woken(&session);
    desk.advance(60);
    session.stop().silent();
    let next = session.watch();
    next.parked(30);
    assert_eq!((held(&session, "goal"), held(&session, "other")), ("throttle".to_owned(), "gate".to_owned()));
    desk.advance(179);
    next.parked(30);
    assert_eq!(names(&session), ["goal"]);
    desk.advance(1);
    ran(&session, 2);
    assert_eq!(names(&session), ["goal", "other"]);
    // Its own time comes all the same.
    desk.advance(7_200);
    until("the chain goes on", || (names(&session).len() == 3).then_some(()));
}

#[test]
fn a_chains_limit_ends_it_in_its_pause() {
    let desk = Desk::new();
    settings(&desk, "chain_limit = 2");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("goal", "run_on: [idle: 1s]\nchain: true");
    schedule.play("goal", r"result 'a step\n<<leaf:continue>>'");
    session.stop().silent();
    let first = session.watch();
    desk.advance(1);
    first.woke();
    woken(&session);
    desk.advance(1);
    session.stop().silent();
    let second = session.watch();
    ran(&session, 2);
    second.parked(100);
    assert_eq!(held(&session, "goal"), "latch");
    // What it said last waits for the person, and wakes nobody.
    assert!(session.prompt("and?").says().contains("a step"));
    session.stop().silent();
    let third = session.watch();
    desk.advance(1);
    third.woke();
    assert_eq!(issued(&session).len(), 3, "the next pause has its own");
}

#[test]
fn a_window_is_known_by_the_models_name_and_by_what_fits_in_it() {
    let desk = Desk::new();
    settings(&desk, "");
    let fork = |session: &Session<'_>| {
        let schedule = Schedule::new(session);
        schedule.fork("half", "run_on: [context_used: 50%]");
        schedule.play("half", "result x");
    };
    let large = session(&desk, "large");
    fork(&large);
    let mut start = large.payload("SessionStart.main.startup");
    start["model"] = json!("claude-sonnet-5[1m]");
    large.hook(&start).silent_or_context();
    large.prompt("go").silent_or_context();
    transcript(&large, 150_000);
    large.stop().silent();
    let small = session(&desk, "small").working();
    transcript(&small, 150_000);
    small.stop().silent();
    let _watches = [large.watch(), small.watch()];
    ran(&small, 1);
    let gauge = |session: &Session<'_>| desk.ask(&["schedule", session.id()])["gauge"].clone();
    assert_eq!(gauge(&large), json!({"tokens": 150_000, "window": 1_000_000}));
    assert_eq!(gauge(&small), json!({"tokens": 150_000, "window": 200_000}));
    assert!(issued(&large).is_empty());
    // A context that is larger than its window proves that wrong.
    small.prompt("more").says();
    transcript(&small, 250_000);
    small.stop().silent();
    assert_eq!(gauge(&small), json!({"tokens": 250_000, "window": 1_000_000}));
}

#[test]
fn w20_a_look_reads_each_file_once() {
    if !killer::can_trace() {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let desk = Desk::new();
    settings(&desk, "[schedule.tag_throttles]\nci = \"1h\"");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    for n in 0..30 {
        schedule.fork(&format!("fork{n}"), "run_on: [idle: 1m, context_used: 50%, every: 1h]\ntags: ci\nafter: fork0");
        schedule.play(&format!("fork{n}"), "result x");
    }
    session.stop().silent();
    let trace = desk.path("calls");
    let line = format!("strace -f -qq -e trace=openat -o {} \"$LEAF\" schedule", quoted(&trace.to_string_lossy()));
    session.shell(&line).ok();
    let calls = fs::read_to_string(&trace).expect("a trace");
    for n in 0..30 {
        let opened = calls
            .lines()
            .filter(|line| line.contains(&format!("/fork{n}.md\"")) || line.contains(&format!("\"fork{n}.md\"")));
        assert_eq!(opened.count(), 1, "fork{n}:\n{calls}");
    }
}

#[test]
fn w30_a_hooks_command_has_the_environment_of_its_own_session() {
    let desk = Desk::new();
    let hooks = Hooks::new(&desk);
    hooks.own("active", "activity");
    let one = desk.session("one");
    one.set_env("VIRTUAL_ENV", "/of/one");
    let two = desk.session("two");
    two.set_env("VIRTUAL_ENV", "/of/two");
    let (one, two) = (one.working(), two.working());
    until("both ran", || (hooks.told("active").len() == 2).then_some(()));
    hooks.settle();
    for told in hooks.told("active") {
        let of = if told["LEAF_SESSION_ID"] == one.id() { "/of/one" } else { "/of/two" };
        assert_eq!(told["VIRTUAL_ENV"], of, "{}", two.id());
    }
}

#[test]
fn what_waits_for_others_is_dropped_by_a_close() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("first", "run_on: [idle: 1s]");
    schedule.play("first", "until_there go; result x");
    schedule.fork("second", "run_on: [idle: 1s]\nafter: first");
    schedule.play("second", "result x");
    session.stop().silent();
    let _watch = session.watch();
    desk.advance(1);
    schedule.client_pid("first");
    session.end("other").silent();
    schedule.touch("go");
    until("the first is over", || (over(&session) == 1).then_some(()));
    let state = |fork: &str| {
        let runs = schedule.runs();
        runs.iter().find(|run| run["fork"] == fork).map(|run| run["state"].clone()).expect("a run")
    };
    assert_eq!((state("first"), state("second")), (json!("completed"), json!("dropped")));
    assert_eq!(schedule.order(), ["first"]);
}

#[test]
fn a_fork_that_comes_or_changes_while_a_session_is_idle_is_seen() {
    let desk = Desk::new();
    settings(&desk, "");
    let session = session(&desk, "s").working();
    let schedule = Schedule::new(&session);
    schedule.fork("early", "run_on: [idle: 10m]");
    for name in ["early", "late"] {
        schedule.play(name, "result x");
    }
    session.stop().silent();
    let watch = session.watch();
    watch.parked(30);
    schedule.fork("late", "run_on: [idle: 2m]");
    schedule.fork("early", "run_on: [idle: 3m]");
    // The clock is what it sleeps for: its next look has them.
    desk.advance(120);
    ran(&session, 1);
    desk.advance(60);
    ran(&session, 2);
    assert_eq!(names(&session), ["late", "early"]);
}
