//! Many writers on one page, and many that are killed: every acknowledged message is there, once, in
//! one order for all readers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::desk::{Desk, Ran, id, signal_pid};
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
