//! Many writers on one page, and many that are killed: every acknowledged message is there, once, in
//! one order for all readers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::desk::{Desk, Ran, id, signal_pid};
use crate::support::forks::{Follower, forking};
use serde_json::{Value, json};

/// Small numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// The lines of the log that are events; what a killed writer left torn is none.
fn whole_events(desk: &Desk) -> Vec<Value> {
    let bytes = fs::read(desk.log_path()).expect("the log");
    let lines = bytes.split(|b| *b == b'\n');
    lines.filter_map(|l| serde_json::from_slice::<Value>(l).ok()).filter(|e| e["seq"].is_u64()).collect()
}

/// All readers see the log's order; gives each text with the id it has.
fn one_order(desk: &Desk, thread: &str) -> BTreeMap<String, Vec<String>> {
    let log = whole_events(desk);
    let seqs: Vec<u64> = log.iter().filter_map(|e| e["seq"].as_u64()).collect();
    assert!(seqs.windows(2).all(|w| w[0] < w[1]), "seq rises");
    let ids: BTreeSet<String> = log.iter().map(id).collect();
    assert_eq!(ids.len(), log.len(), "ids never collide");
    let order: Vec<String> = log.iter().filter(|e| e["kind"] == "message").map(id).collect();
    let of =
        |state: &Value| -> Vec<String> { state["messages"].as_array().expect("messages").iter().map(id).collect() };
    assert_eq!(of(&desk.thread_state(thread)), order, "page state");
    let _ = fs::remove_file(desk.page().join("view.json"));
    assert_eq!(of(&desk.thread_state(thread)), order, "page state without its snapshot");
    let printed = desk.ask(&["page", "log"]);
    let listed: Vec<String> =
        printed.as_array().expect("events").iter().filter(|e| e["kind"] == "message").map(id).collect();
    assert_eq!(listed, order, "page log");
    let shown = desk.person(&["thread", "show", thread]).ok().out();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut at = 0;
    for event in log.iter().filter(|e| e["kind"] == "message") {
        let text = event["text"].as_str().expect("a text").to_owned();
        let found = shown[at..].find(&text).unwrap_or_else(|| panic!("thread show tells {text} in its place"));
        at += found + text.len();
        texts.entry(text).or_default().push(id(event));
    }
    texts
}

fn writer(desk: &Desk, thread: &str, text: &str) -> Child {
    let mut command = desk.command(&["thread", "say", thread, text, "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("leaf runs")
}

#[test]
fn sixty_four_writers_at_once_then_four_hundred_with_random_kills() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("[first]");
    let began = Instant::now();

    let writers: Vec<(String, Child)> =
        (0..64).map(|n| format!("[at once {n:03}]")).map(|t| (t.clone(), writer(&desk, &thread, &t))).collect();
    let mut acknowledged: BTreeMap<String, String> = BTreeMap::new();
    for (text, child) in writers {
        let event = Ran::from(child.wait_with_output().expect("it ends")).ok().json();
        assert_eq!(event["text"], json!(text));
        acknowledged.insert(text, id(&event));
    }
    let texts = one_order(&desk, &thread);
    assert_eq!(texts.len(), 65);
    for (text, id) in &acknowledged {
        assert_eq!(&texts[text], std::slice::from_ref(id), "{text} is there, once");
    }

    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut killed = 0;
    for wave in 0..20 {
        let writers: Vec<(String, Child)> = (0..20)
            .map(|n| format!("[wave {wave:02} writer {n:02}]"))
            .map(|t| (t.clone(), writer(&desk, &thread, &t)))
            .collect();
        // A hook reads and picks up between them.
        if wave % 5 == 0 {
            main.boundary().silent_or_context();
        }
        std::thread::sleep(Duration::from_millis(dice.roll(12)));
        for (text, mut child) in writers {
            if dice.roll(2) == 0 {
                let _ = child.kill();
                std::thread::sleep(Duration::from_micros(dice.roll(1_500)));
            }
            let ran = Ran::from(child.wait_with_output().expect("it ends"));
            if ran.code == 0 {
                acknowledged.insert(text, id(&ran.json()));
            } else {
                assert_eq!(ran.code, 128 + 9, "killed, or it succeeds: {ran:?}");
                killed += 1;
            }
        }
    }
    assert!(killed > 20 && acknowledged.len() > 164, "{killed} killed, {} acknowledged", acknowledged.len());
    let texts = one_order(&desk, &thread);
    for (text, id) in &acknowledged {
        assert_eq!(texts.get(text), Some(&vec![id.clone()]), "{text} is there, once");
    }
    for (text, ids) in &texts {
        assert_eq!(ids.len(), 1, "{text} once");
    }
    desk.say(&thread, "[and on it goes]");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[test]
fn killed_hooks_and_replies_leave_whole_records() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    for round in 0..40 {
        let thread = desk.thread(&format!("[question {round}]"));
        let payload = main.payload("PostToolBatch.main").to_string();
        let hook = main.job(&["hook"]).input(payload.as_bytes()).start();
        let pid = hook.pid();
        std::thread::sleep(Duration::from_micros(dice.roll(4_000)));
        signal_pid(pid, "KILL");
        hook.wait(Duration::from_secs(10)).expect("it ends");
        let reply = main.job(&["thread", "reply", &thread, &format!("[answer {round}]"), "--json"]).start();
        let pid = reply.pid();
        std::thread::sleep(Duration::from_micros(dice.roll(5_000)));
        signal_pid(pid, "KILL");
        let first = reply.wait(Duration::from_secs(10)).expect("it ends");
        // R10: whatever became of it, the same answer again is one answer.
        let event = main.ask(&["thread", "reply", &thread, &format!("[answer {round}]")]);
        if first.code == 0 {
            assert_eq!(id(&event), id(&first.json()));
        }
        if round % 4 == 0 {
            main.stop().silent_or_context();
            main.prompt("go on").silent_or_context();
        }
    }
    let state = desk.state();
    for thread in state["threads"].as_array().expect("threads") {
        let answers =
            thread["messages"].as_array().expect("messages").iter().filter(|m| m["author"] == "agent").count();
        assert_eq!(answers, 1, "one answer each: {thread:#}");
    }
    assert_eq!(state["owed"], json!([]));
    let log = whole_events(&desk);
    let ids: BTreeSet<String> = log.iter().map(id).collect();
    assert_eq!(ids.len(), log.len());
}

#[test]
fn the_same_answer_from_many_at_once_is_one() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("who is first?");
    let reference = main.boundary().reference();
    let all: Vec<_> = (0..12)
        .map(|_| main.job(&["thread", "reply", &reference, "the same", "--todo", "one", "--json"]).start())
        .collect();
    let ids: BTreeSet<String> =
        all.iter().map(|r| id(&r.wait(Duration::from_secs(15)).expect("it ends").ok().json())).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!((desk.events("reply").len(), desk.events("todo").len()), (1, 1));
    desk.thread("and now?");
    let reference = main.boundary().reference();
    let all: Vec<_> =
        (0..8).map(|n| main.job(&["thread", "reply", &reference, &format!("answer {n}")]).start()).collect();
    let codes: Vec<i32> = all.iter().map(|r| r.wait(Duration::from_secs(15)).expect("it ends").code).collect();
    assert_eq!(codes.iter().filter(|c| **c == 0).count(), 1, "one wins, the others are told: {codes:?}");
    assert!(codes.iter().all(|c| matches!(c, 0 | 1)));
    assert_eq!(desk.events("reply").len(), 2);
}

/// Calls `story` with a strace prefix that meddles with the nth use of a system call, for every call and
/// every n, until a process runs without it. `story` tells whether it was meddled with. Nothing where
/// strace can't run.
fn at_every_call(calls: &[&str], meddling: &str, mut story: impl FnMut(&str, &str) -> bool) {
    let able = std::process::Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    if !able.is_ok_and(|o| o.status.success()) {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let mut meddled = 0;
    for call in calls {
        for n in 1..40 {
            let prefix = format!(
                "strace -f -qq -o \"$TMPDIR/trace\" -e trace={call} -e inject={call}:{meddling}:when={n} \"$LEAF\""
            );
            if !story(&prefix, &format!("{call} {n}")) {
                break;
            }
            meddled += 1;
        }
    }
    assert!(meddled > 2, "something was done to it: {meddled}");
}

/// Where a process may be killed.
const CALLS: [&str; 11] = [
    "write",
    "openat",
    "rename",
    "renameat",
    "renameat2",
    "fsync",
    "fdatasync",
    "ftruncate",
    "flock",
    "unlinkat",
    "mkdirat",
];

/// What a disk that is full or failing refuses.
const WRITES: [&str; 8] = ["write", "pwrite64", "rename", "renameat", "renameat2", "fsync", "fdatasync", "ftruncate"];

/// Whether the last process that `at_every_call` started had its call refused.
fn injected(desk: &Desk) -> bool {
    fs::read_to_string(desk.path("tmp").join("trace")).unwrap_or_default().contains("(INJECTED)")
}

#[test]
fn an_answer_killed_at_any_call_is_one_answer_after_all() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    at_every_call(&CALLS, "signal=KILL", |killer, at| {
        let thread = desk.thread(&format!("[question at {at}]"));
        let reference = main.boundary().reference();
        let ran = main.shell(&format!("{killer} thread reply {reference} '[answer at {at}]' --todo '[todo at {at}]'"));
        let event = main.ask(&[
            "thread",
            "reply",
            &reference,
            &format!("[answer at {at}]"),
            "--todo",
            &format!("[todo at {at}]"),
        ]);
        let state = desk.thread_state(&thread);
        let answers = state["messages"].as_array().expect("messages").iter().filter(|m| m["author"] == "agent");
        assert_eq!(answers.map(id).collect::<Vec<_>>(), [id(&event)], "{at}: {state:#}");
        assert_eq!(state["todos"].as_array().map(Vec::len), Some(1), "{at}: {state:#}");
        assert_eq!((&state["waiting"], &state["status"]), (&json!([]), &json!("todo")), "{at}");
        ran.code != 0
    });
    assert_eq!(desk.state()["owed"], json!([]));
}

#[test]
fn a_boundary_killed_at_any_call_delivers_after_all() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let payload = main.payload("PostToolBatch.main");
    at_every_call(&CALLS, "signal=KILL", |killer, at| {
        let thread = desk.thread(&format!("[question at {at}]"));
        let ran = main.shell_with_payload(&format!("{killer} hook"), &payload);
        let next = main.boundary().context().unwrap_or_default();
        let told = ran.out() + &next;
        assert!(told.contains(&format!(":{thread}")), "{at}: {ran:?}\n{next}");
        main.boundary().silent();
        let picked = desk.events("pickup").iter().filter(|p| p["thread"] == json!(thread)).count();
        assert_eq!(picked, 1, "{at}");
        main.reply(&thread, "here");
        ran.code != 0
    });
    assert_eq!(desk.state()["owed"], json!([]));
}

#[test]
fn a_message_killed_at_any_call_is_whole_or_not_there() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = desk.thread("[first]");
    let mut whole = 0;
    at_every_call(&CALLS, "signal=KILL", |killer, at| {
        let line = format!("{killer} thread say {first} '[killed at {at}]'");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]).env_clear().envs(desk.env()).env("LEAF", crate::support::desk::LEAF);
        let ran = Ran::from(command.current_dir(desk.project()).output().expect("sh runs"));
        desk.say(&first, &format!("[after {at}]"));
        let told = main.boundary().says();
        assert!(told.contains(&format!("[after {at}]")), "{at}: {told}");
        let there = told.matches(&format!("[killed at {at}]")).count();
        assert!(there == 1 || there == 0 && ran.code != 0, "{at}: {there} {ran:?}");
        whole += there;
        ran.code != 0
    });
    let texts = one_order(&desk, &first);
    assert!(texts.values().all(|ids| ids.len() == 1));
    assert_eq!(texts.keys().filter(|t| t.starts_with("[killed at")).count(), whole, "what main read is what is there");
}

#[test]
fn a_claim_killed_at_any_call_leaves_one_holder() {
    let desk = Desk::new();
    let sessions = [desk.session("s").working(), desk.session("t").working()];
    desk.ask(&["page", "new", "Contested", "--slug", "contested"]);
    sessions[0].run(&["page", "claim", "contested"]).ok();
    let mut turn = 0;
    at_every_call(&CALLS, "signal=KILL", |killer, at| {
        turn += 1;
        let ran = sessions[turn % 2].shell(&format!("{killer} page claim contested"));
        let text = format!("[question at {at}]");
        let thread = id(&desk.ask(&["thread", "new", &text, "--page", "contested"]));
        let told: Vec<bool> =
            sessions.iter().map(|s| s.boundary().context().unwrap_or_default().contains(&text)).collect();
        assert_eq!(told.iter().filter(|t| **t).count(), 1, "{at}: one holder delivers: {told:?} {ran:?}");
        let holder = &sessions[told.iter().position(|t| *t).expect("one")];
        holder.reply(&thread, "mine");
        sessions[turn % 2].run(&["page", "claim", "contested"]).ok();
        ran.code != 0
    });
}

#[test]
fn a_disk_that_refuses_any_write_is_told_and_loses_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = desk.thread("[first]");
    at_every_call(&WRITES, "error=ENOSPC", |prefix, at| {
        let line = format!("{prefix} thread say {first} '[refused at {at}]'");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]).env_clear().envs(desk.env()).env("LEAF", crate::support::desk::LEAF);
        let ran = Ran::from(command.current_dir(desk.project()).output().expect("sh runs"));
        let meddled = injected(&desk);
        assert!(matches!(ran.code, 0 | 1) && !ran.err().contains("panicked"), "{at}: {ran:?}");
        desk.say(&first, &format!("[after {at}]"));
        let told = main.boundary().says();
        let there = told.matches(&format!("[refused at {at}]")).count();
        assert!(there <= 1 && (ran.code == 1 || there == 1), "{at}: {there} {ran:?}");
        assert!(told.contains(&format!("[after {at}]")), "{at}: {told}");
        meddled
    });
    let texts = one_order(&desk, &first);
    assert!(texts.values().all(|ids| ids.len() == 1));
}

#[test]
fn a_disk_that_refuses_a_hooks_write_loses_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let payload = main.payload("PostToolBatch.main");
    at_every_call(&WRITES, "error=ENOSPC", |prefix, at| {
        let thread = desk.thread(&format!("[question at {at}]"));
        let ran = main.shell_with_payload(&format!("{prefix} hook"), &payload);
        let meddled = injected(&desk);
        assert!(ran.code == 0 && ran.stderr.is_empty(), "{at}: {ran:?}");
        let next = main.boundary().context().unwrap_or_default();
        let told = ran.out() + &next;
        assert!(told.contains(&format!(":{thread}")), "{at}: {ran:?}\n{next}");
        let picked = desk.events("pickup").iter().filter(|p| p["thread"] == json!(thread)).count();
        assert_eq!(picked, 1, "{at}");
        main.boundary().silent();
        main.reply(&thread, "here");
        meddled
    });
    assert_eq!(desk.state()["owed"], json!([]));
}

#[test]
fn a_disk_that_refuses_an_answers_write_leaves_one_answer() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    at_every_call(&WRITES, "error=EIO", |prefix, at| {
        desk.thread(&format!("[question at {at}]"));
        let reference = main.boundary().reference();
        let ran = main.shell(&format!("{prefix} thread reply {reference} '[answer at {at}]'"));
        let meddled = injected(&desk);
        assert!(matches!(ran.code, 0 | 1) && !ran.err().contains("panicked"), "{at}: {ran:?}");
        main.reply(&reference, &format!("[answer at {at}]"));
        let answers = desk.events("reply").iter().filter(|r| r["text"] == json!(format!("[answer at {at}]"))).count();
        assert_eq!(answers, 1, "{at}: {ran:?}");
        meddled
    });
    assert_eq!(desk.state()["owed"], json!([]));
}

#[test]
fn r017_a_message_that_stands_is_acknowledged_though_the_journal_is_full() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let first = desk.thread("[first]");
    let _follower = Follower::start(&main);
    at_every_call(&["write"], "error=ENOSPC", |prefix, at| {
        let text = format!("[refused at {at}]");
        let line = format!("{prefix} thread say {first} '{text}'");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]).env_clear().envs(desk.env()).env("LEAF", crate::support::desk::LEAF);
        let ran = Ran::from(command.current_dir(desk.project()).output().expect("sh runs"));
        let trace = fs::read_to_string(desk.path("tmp").join("trace")).unwrap_or_default();
        let unprinted = trace.lines().any(|l| l.contains("write(1,") && l.contains("(INJECTED)"));
        let there = whole_events(&desk).iter().filter(|e| e["text"] == json!(text)).count();
        assert_eq!(there, usize::from(ran.code == 0 || unprinted), "{at}: {ran:?}");
        trace.contains("(INJECTED)")
    });
}

#[test]
fn r099_a_take_that_could_not_be_written_leaves_no_scratch_directory() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    at_every_call(&["write"], "error=ENOSPC", |prefix, at| {
        let thread = desk.thread(&format!("[question at {at}]"));
        let ask = follower.ask_about(&thread);
        let said = r#"{"line": "On it.", "sort": "small"}"#;
        let token = follower.token();
        let words = format!("fork line {} --through {}", ask.thread, ask.through);
        main.shell(&format!("printf %s '{said}' | LEAF_TOKEN={token} {prefix} {words}"));
        let meddled = injected(&desk);
        let state = desk.state();
        let known: BTreeSet<&str> =
            state["turns"].as_array().expect("turns").iter().filter_map(|turn| turn["turn"].as_str()).collect();
        let tmp = fs::read_dir(desk.path("tmp")).expect("the temporary directory").flatten();
        for above in tmp.filter(|e| e.file_name().to_string_lossy().starts_with("leaf-")) {
            for turn in fs::read_dir(above.path()).expect("the scratch directories").flatten() {
                let turn = turn.file_name().to_string_lossy().into_owned();
                assert!(known.contains(turn.as_str()), "{at}: {turn} is none of {known:?}");
            }
        }
        // The next take is not to wait for this one.
        for turn in known {
            follower.failed(turn, "");
        }
        meddled
    });
}
