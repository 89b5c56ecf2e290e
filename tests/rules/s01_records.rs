//! Switches and records (R5), and what the contract promises of files, ids, events, commands and hooks.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::s12_boundary::{long_text, pointers};
use crate::support::desk::{Desk, Ran, Session, copy_tree, id, is_hex, is_id, mode, notes, read_log, references};
use crate::support::forks::{Follower, forking, text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

fn session_dir(desk: &Desk, session: &str) -> PathBuf {
    let key: String = Sha256::digest(session.as_bytes()).iter().take(16).map(|b| format!("{b:02x}")).collect();
    desk.state_dir().join("sessions").join(key)
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap_or_else(|| panic!("an object: {value}")).keys().map(String::as_str).collect()
}

/// Every key that must be there is, and no other but those that may.
#[track_caller]
fn has_exactly(value: &Value, must: &[&str], may: &[&str]) {
    let found = keys(value);
    for key in must {
        assert!(found.contains(key), "`{key}` is missing: {value}");
    }
    for key in found {
        assert!(must.contains(&key) || may.contains(&key), "`{key}` isn't in the contract: {value}");
    }
}

/// A page with every kind of event that needs no fork.
fn every_kind(desk: &Desk) -> Session<'_> {
    let main = desk.session("s").working();
    let thread = id(&desk.ask(&["thread", "new", "a question", "--title", "Titled"]));
    desk.say(&thread, "while main owes");
    let gone = desk.say(&thread, "taken back");
    desk.ask(&["thread", "withdraw", &gone]);
    let reference = main.boundary().reference();
    main.ask(&["task", "start", &thread, "at it"]);
    main.ask(&["thread", "line", &thread, "half way"]);
    main.ask(&["thread", "reply", &reference, "an answer", "--todo", "follow up"]);
    main.ask(&["thread", "reply", &thread, "by the way", "--unasked"]);
    let todo = id(&desk.ask(&["task", "open", &thread, "by the user"]));
    main.ask(&["task", "end", &todo, "done", "with a detail"]);
    let todo = id(&main.ask(&["task", "open", &thread, "by main"]));
    desk.ask(&["task", "end", &todo, "dropped"]);
    desk.ask(&["thread", "resolve", &thread]);
    main.ask(&["thread", "reopen", &thread]);
    main.ask(&["thread", "resolve", &thread]);
    desk.ask(&["thread", "reopen", &thread]);
    main
}

#[test]
fn r005_the_journal_is_the_truth_and_the_state_its_fold() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    main.boundary().reference();
    let before = desk.state();
    let dir = session_dir(&desk, main.id());
    assert!(fs::metadata(dir.join("journal.jsonl")).expect("the journal").len() > 0);
    for damage in [None, Some("garbage"), Some(""), Some("{}"), Some("[1,2]")] {
        match damage {
            None => drop(fs::remove_file(dir.join("state.json"))),
            Some(text) => fs::write(dir.join("state.json"), text).expect("the cache"),
        }
        assert_eq!(desk.state(), before, "{damage:?}");
        assert_eq!(desk.thread_state(&thread)["status"], "working");
        main.boundary().silent();
    }
    main.stop().says();
    main.stop_active().silent();
    fs::remove_file(dir.join("state.json")).ok();
    assert_eq!(desk.thread_state(&thread)["status"], "waiting", "the turn's end is in the journal");
}

#[test]
fn r005_every_line_of_the_journal_is_one_json_object() {
    let desk = Desk::new();
    let main = every_kind(&desk);
    let entries = read_log(&session_dir(&desk, main.id()).join("journal.jsonl"));
    assert!(entries.iter().all(Value::is_object), "{entries:?}");
}

#[test]
fn r005_why_tells_a_threads_story_with_refusals_by_their_rule() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    let reference = main.boundary().reference();
    main.reply(&reference, "one answer");
    main.run(&["thread", "reply", &reference, "another"]).refused();
    let story = desk.ask(&["why", &thread]);
    let entries = story.as_array().unwrap_or_else(|| panic!("the entries: {story}"));
    for entry in entries {
        assert!(entry["ts"].is_string() && entry["kind"].is_string(), "{entry}");
    }
    let refused: Vec<&Value> = entries.iter().filter(|e| e["kind"] == "refused").collect();
    assert_eq!(refused.len(), 1, "{story:#}");
    assert_eq!(refused[0]["rule"], "R10", "{story:#}");
    let told = desk.person(&["why", &thread]).ok().out();
    assert!(told.contains("R10"), "{told}");
}

/// What `leaf why` tells a person, without the times: the sentences, and how the thread stands now.
fn sentences(desk: &Desk, thread: &str) -> Vec<String> {
    let told = desk.person(&["why", thread]).ok().out();
    let cut = |line: &str| match line.split_once("  ") {
        Some((_, sentence)) => sentence.to_owned(),
        None => line.to_owned(),
    };
    told.lines().map(cut).collect()
}

#[test]
fn r005_why_tells_a_person_plain_sentences_each_with_its_rule() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("rebuild the search index");
    let tick = || desk.advance(1);
    tick();
    let ask = follower.ask_about(&thread);
    let todo = text(&follower.sorted(&ask, "significant")["todo"]);
    main.boundary().says();
    tick();
    let (small, fork) = follower.fork("which port?");
    fork.reply(&fork.reference(), "5173");
    follower.ended(&fork.turn, "done");
    tick();
    main.ask(&["task", "start", &todo, "at it"]);
    tick();
    main.reply(&thread, "it is rebuilt");
    tick();
    main.ask(&["task", "end", &todo, "done"]);
    tick();
    let withdrawn = desk.say(&thread, "never mind");
    tick();
    desk.person(&["thread", "withdraw", &withdrawn]).ok();
    tick();
    desk.ask(&["thread", "resolve", &thread]);
    let told = sentences(&desk, &thread);
    let expected = [
        format!("The user wrote message {thread}: rebuild the search index (R6)"),
        "The thread is kept back from main while a line fork is asked. (R13)".to_owned(),
        format!("It sorted message {thread} as significant: it is work of main's, in main's own order. (R23)"),
        format!("to-do {todo}, which main takes in its own order:"),
        format!("Main began on to-do {todo}: at it (R11)"),
        format!("Main answered message {thread}: it is rebuilt (R50)"),
        format!("Main ended to-do {todo} as done. (R97)"),
        format!("The user wrote message {withdrawn}: never mind (R6)"),
        format!("The user took message {withdrawn} back. (R8)"),
        "The user resolved the thread: nothing of it is owed any more. (R9)".to_owned(),
        "now: the thread is resolved, and owes nothing (R9)".to_owned(),
    ];
    let mut rest = told.iter();
    for sentence in &expected {
        assert!(rest.any(|line| line.contains(sentence)), "{sentence}, in this order, in: {told:#?}");
    }
    let rule = |line: &String| {
        let rule = line.strip_suffix(')').and_then(|line| line.rsplit_once('(')).map(|(_, rule)| rule);
        rule.and_then(|rule| rule.strip_prefix('R'))
            .is_some_and(|n| n.parse::<u8>().is_ok_and(|n| (1..=127).contains(&n)))
    };
    let told = [told, sentences(&desk, &small)].concat();
    for line in &told {
        assert!(rule(line), "each ends with its rule: {line}");
    }
    assert!(told.iter().any(|line| line.starts_with("Fork leaf-") && line.contains("answered message")), "{told:#?}");
    assert!(told.last().is_some_and(|line| line == "now: nothing is owed (R6)"), "{told:#?}");
}

#[test]
fn contract_files_are_where_it_says() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.person_with_input(&["thread", "new"], long_text(30_000, "x").as_bytes()).ok();
    main.boundary().says();
    main.hook_raw(b"{").silent();
    let page = desk.page();
    let read = |path: PathBuf| -> Value {
        serde_json::from_slice(&fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).expect("JSON")
    };
    let record = read(page.join("page.json"));
    assert_eq!(record["format"], 1);
    assert!(record.to_string().contains(main.id()), "the session that holds it");
    assert!(record.to_string().contains(&*desk.project().to_string_lossy()), "the project directory: {record}");
    assert!(page.join("log.jsonl").is_file());
    assert_eq!(pointers(&desk).len(), 1, "pages/<page>/deliveries/<id>.json");
    let session = session_dir(&desk, main.id());
    let record = read(session.join("session.json"));
    assert_eq!((&record["format"], &record["id"]), (&json!(1), &json!(main.id())));
    assert!(record.to_string().contains(&main.client.pid().to_string()), "the client's pid: {record}");
    assert!(session.join("journal.jsonl").is_file());
    assert!(desk.state_dir().join("errors.log").is_file());
    let top: BTreeSet<String> = fs::read_dir(desk.state_dir())
        .expect("the state directory")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let known: BTreeSet<String> =
        ["pages", "sessions", "projects", "errors.log"].iter().map(|s| (*s).to_owned()).collect();
    assert!(top.is_subset(&known), "nothing else: {top:?}");
    assert_eq!(mode(&page.join("log.jsonl")), 0o600);
    assert_eq!(mode(&session), 0o700);
}

#[test]
fn contract_nothing_is_written_elsewhere() {
    let desk = Desk::new();
    let main = every_kind(&desk);
    main.stop().silent_or_context();
    let mut found = Vec::new();
    for place in [desk.home(), desk.project(), desk.path("tmp")] {
        crate::support::desk::walk(&place, &mut |p| found.push(p.to_owned()));
    }
    assert_eq!(found, Vec::<PathBuf>::new());
}

#[test]
fn contract_state_lies_where_the_environment_says() {
    let desk = Desk::new();
    let run = |names: &[(&str, PathBuf)]| {
        let mut command = desk.command(&["thread", "new", "x"]);
        command.env_remove("LEAF_HOME");
        for (name, value) in names {
            command.env(name, value);
        }
        Ran::from(command.output().expect("leaf runs")).ok();
    };
    run(&[]);
    assert!(desk.home().join(".local/state/leaf/pages").is_dir());
    run(&[("XDG_STATE_HOME", desk.path("xdg"))]);
    assert!(desk.path("xdg/leaf/pages").is_dir());
    run(&[("XDG_STATE_HOME", desk.path("unused")), ("LEAF_HOME", desk.path("own"))]);
    assert!(desk.path("own/pages").is_dir() && !desk.path("unused").exists());
}

#[test]
fn contract_a_configuration_that_is_wrong_costs_its_key_alone() {
    let desk = Desk::new();
    fs::create_dir_all(desk.home().join(".config/leaf")).expect("a directory");
    fs::write(desk.home().join(".config/leaf/config.toml"), "nonsense = 1\n[forks]\nmax_running = \"three\"\n")
        .expect("a file");
    let main = desk.session("s").working();
    desk.thread("still works");
    assert!(main.boundary().says().contains("still works"));
    fs::write(desk.home().join(".config/leaf/config.toml"), "= not toml").expect("a file");
    desk.thread("still works");
    assert!(main.boundary().says().contains("still works"));
}

#[test]
fn contract_ids_are_the_image_of_seq() {
    let desk = Desk::new();
    let thread = desk.thread("first");
    desk.say(&thread, "second");
    let twin = desk.path("twin");
    copy_tree(&desk.state_dir(), &twin);
    let say = |home: &PathBuf, text: &str| {
        let mut command = desk.command(&["thread", "say", &thread, text, "--json"]);
        Ran::from(command.env("LEAF_HOME", home).output().expect("leaf runs")).ok().json()
    };
    for n in 0..20 {
        let one = say(&desk.state_dir(), &format!("here {n}"));
        desk.advance(7);
        let other = say(&twin, "there, another text at another time");
        assert_eq!(one["seq"], other["seq"]);
        assert_eq!(id(&one), id(&other), "the same seq of the same page has the same id");
    }
    // Another page has another key.
    desk.ask(&["page", "new", "Another", "--slug", "another"]);
    let first_there = desk.ask(&["thread", "new", "first", "--page", "another"]);
    assert_eq!(first_there["seq"], 1);
    assert_ne!(id(&first_there), thread);
}

#[test]
fn contract_ids_never_collide_and_prefixes_stand_for_them() {
    let desk = Desk::new();
    let thread = desk.thread("message 0");
    let mut twins: Option<(String, String)> = None;
    // Until two ids share their first four digits, and 500 at least.
    for round in 1..40 {
        let say =
            |n: u32| desk.command(&["thread", "say", &thread, &format!("message {n}")]).spawn().expect("leaf runs");
        for batch in 0..25 {
            let first = round * 50 + batch * 2;
            let children = [say(first), say(first + 1)];
            for mut child in children {
                assert!(child.wait().expect("it ends").success());
            }
        }
        let ids: Vec<String> = desk.log().iter().map(id).collect();
        let unique: BTreeSet<&String> = ids.iter().collect();
        assert_eq!(unique.len(), ids.len(), "ids never collide");
        let mut sorted: Vec<String> = ids.clone();
        sorted.sort();
        twins = sorted.windows(2).find(|w| w[0][..4] == w[1][..4]).map(|w| (w[0].clone(), w[1].clone()));
        if twins.is_some() && ids.len() > 500 {
            break;
        }
    }
    let log = desk.log();
    assert!(log.iter().all(|e| is_id(&e["id"])), "8 lowercase hex");
    assert!(log.iter().enumerate().all(|(n, e)| e["seq"] == json!(n + 1)), "seq counts from 1");
    assert_eq!(log[0]["thread"], log[0]["id"], "a thread's id is its first message's");
    let (one, other) = twins.expect("two ids with the same first four digits");
    let lines = log.len();
    let why = desk.person(&["thread", "withdraw", &one[..4]]).refused();
    assert!(!why.is_empty(), "an ambiguous prefix is refused");
    let apart = (5..=8).find(|n| one[..*n] != other[..*n]).expect("ids differ");
    desk.person(&["thread", "withdraw", &one[..apart]]).ok();
    let last = desk.log().last().cloned().expect("an event");
    assert_eq!((&last["kind"], &last["message"]), (&json!("withdraw"), &json!(one)));
    assert_eq!(desk.log().len(), lines + 1);
    assert_ne!(desk.person(&["thread", "withdraw", &other[..3]]).code, 0, "three digits are none");
    let start = Instant::now();
    desk.state();
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn contract_events_have_the_fields_of_their_kind() {
    let desk = Desk::new();
    every_kind(&desk);
    let common = ["seq", "id", "ts", "kind", "author"];
    let turn = ["turn", "session", "generation", "by"];
    let mut kinds = BTreeSet::new();
    for event in desk.log() {
        let kind = event["kind"].as_str().expect("a kind").to_owned();
        let (must, may, authors): (&[&str], &[&str], &[&str]) = match kind.as_str() {
            "message" => (&["thread", "text", "owes"], &["title", "main_owed"], &["user"]),
            "withdraw" => (&["message"], &[], &["user"]),
            "resolve" | "reopen" => (&["thread"], &["turn"], &["user", "agent"]),
            "reply" => (&["thread", "text", "turn", "responds"], &[], &["agent"]),
            "line" => (&["thread", "text"], &["turn"], &["agent", "leaf"]),
            "pickup" => (&["thread", "messages", "turn", "delivery"], &[], &["leaf"]),
            "start" => (&["item", "text", "turn"], &[], &["agent"]),
            "todo" => (&["thread", "title"], &["turn", "source"], &["user", "agent", "leaf"]),
            "todo_end" => (&["todo", "outcome"], &["detail", "turn"], &["user", "agent"]),
            other => panic!("an unknown kind: {other}"),
        };
        let mut must: Vec<&str> = common.iter().chain(must).copied().collect();
        if !event["turn"].is_null() {
            must.extend(turn);
        }
        has_exactly(&event, &must, may);
        assert!(authors.contains(&event["author"].as_str().expect("an author")), "{event}");
        assert!(is_id(&event["id"]), "{event}");
        let ts = event["ts"].as_str().expect("a time");
        assert!(ts.len() == 24 && ts.ends_with('Z') && ts.as_bytes()[19] == b'.', "RFC 3339 UTC, ms: {ts}");
        for name in ["thread", "message", "item", "todo", "delivery"] {
            assert!(event.get(name).is_none_or(is_id), "{name} is an id: {event}");
        }
        kinds.insert(kind);
    }
    let all = ["line", "message", "pickup", "reopen", "reply", "resolve", "start", "todo", "todo_end", "withdraw"];
    assert_eq!(kinds, all.iter().map(|k| (*k).to_owned()).collect());
}

#[test]
fn contract_events_say_what_happened() {
    let desk = Desk::new();
    every_kind(&desk);
    let messages = desk.events("message");
    assert_eq!(messages[0]["title"], "Titled");
    assert_eq!((&messages[0]["owes"], &messages[0]["text"]), (&json!(true), &json!("a question")));
    assert!(messages[0].get("main_owed").is_none_or(|v| v == &json!(false)), "nothing was owed before it");
    assert_eq!(messages[1]["main_owed"], json!(true), "main owed the first as the second was written");
    assert!(messages[1].get("title").is_none_or(Value::is_null), "a thread's first alone");
    let replies = desk.events("reply");
    assert_eq!(replies[0]["responds"], messages[1]["id"]);
    assert!(replies[1]["responds"].is_null() && replies[1].get("responds").is_some(), "null for an unasked one");
    let ends = desk.events("todo_end");
    assert_eq!(
        (&ends[0]["author"], &ends[0]["outcome"], &ends[0]["detail"]),
        (&json!("agent"), &json!("done"), &json!("with a detail"))
    );
    assert_eq!((&ends[1]["author"], &ends[1]["outcome"]), (&json!("user"), &json!("dropped")));
    let authors: Vec<Value> =
        desk.log().iter().filter(|e| e["kind"] == "resolve").map(|e| e["author"].clone()).collect();
    assert_eq!(authors, [json!("user"), json!("agent")]);
}

#[test]
fn contract_main_owed_is_not_said_after_an_answer() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    let reference = main.boundary().reference();
    main.reply(&reference, "an answer");
    desk.say(&thread, "another");
    let last = desk.events("message").last().cloned().expect("a message");
    assert!(last.get("main_owed").is_none_or(|v| v == &json!(false)), "{last}");
}

#[test]
fn contract_times_never_go_back() {
    let desk = Desk::new();
    let thread = desk.thread("at ten");
    let then = desk.now();
    desk.set_clock(then - chrono::TimeDelta::hours(3));
    desk.say(&thread, "the clock was set back");
    desk.set_clock(then + chrono::TimeDelta::hours(1));
    desk.say(&thread, "and forward");
    let times: Vec<String> = desk.log().iter().map(|e| e["ts"].as_str().expect("a time").to_owned()).collect();
    assert_eq!(times[0], "2027-03-01T10:00:00.000Z", "LEAF_NOW stands in for the clock");
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(times[2], "2027-03-01T11:00:00.000Z");
}

#[test]
fn contract_leaf_now_may_be_a_time_itself() {
    let desk = Desk::new();
    let mut command = desk.command(&["thread", "new", "x", "--json"]);
    command.env("LEAF_NOW", "2031-05-06T09:08:09+02:00");
    assert_eq!(Ran::from(command.output().expect("leaf runs")).ok().json()["ts"], "2031-05-06T07:08:09.000Z");
}

const HOLDER: [&str; 5] = ["kind", "turn", "name", "agent_id", "state"];

#[test]
fn contract_page_state_has_its_shape() {
    let desk = Desk::new();
    let main = every_kind(&desk);
    let waiting = desk.thread("waiting");
    desk.thread("picked up");
    main.boundary().says();
    desk.say(&waiting, "more");
    let state = desk.state();
    has_exactly(
        &state,
        &["format", "page", "title", "session", "seq", "follower", "threads", "owed", "todos", "turns"],
        &[],
    );
    assert_eq!(state["format"], 1);
    assert_eq!(state["page"], json!(desk.page_slug()));
    assert_eq!(state["session"], json!(main.id()));
    assert_eq!(state["seq"], desk.log().last().expect("an event")["seq"]);
    has_exactly(&state["follower"], &["running", "since"], &[]);
    assert_eq!(state["follower"], json!({"running": false, "since": null}));
    assert_eq!(state["turns"], json!([]), "fork turns alone");
    let holder = |holder: &Value| {
        if !holder.is_null() {
            has_exactly(holder, &HOLDER, &[]);
            assert_eq!((&holder["kind"], &holder["state"]), (&json!("main"), &json!(null)));
        }
    };
    let threads = state["threads"].as_array().expect("threads");
    assert_eq!(threads.len(), 3);
    for thread in threads {
        has_exactly(
            thread,
            &["id", "title", "resolved", "status", "line", "holder", "waiting", "messages", "todos"],
            &[],
        );
        holder(&thread["holder"]);
        assert!(thread["title"].is_string() && thread["resolved"].is_boolean(), "{thread}");
        for message in thread["messages"].as_array().expect("messages") {
            has_exactly(
                message,
                &["id", "seq", "ts", "author", "text", "owes", "withdrawn", "responds", "turn", "by"],
                &[],
            );
            assert!(message["withdrawn"].is_boolean(), "{message}");
        }
        for todo in thread["todos"].as_array().expect("todos") {
            has_exactly(todo, &["id", "title", "source", "author", "state"], &[]);
        }
    }
    for owed in state["owed"].as_array().expect("owed") {
        has_exactly(owed, &["thread", "message", "ref", "owed_by"], &[]);
        holder(&owed["owed_by"]);
    }
    for todo in state["todos"].as_array().expect("todos") {
        has_exactly(todo, &["id", "title", "source", "author", "state", "thread"], &[]);
        assert_eq!(todo["state"], "open");
    }
    assert_eq!(state["todos"].as_array().map(Vec::len), Some(1), "the page's open to-dos");
}

#[test]
fn contract_page_state_shows_messages_answers_and_todos() {
    let desk = Desk::new();
    every_kind(&desk);
    let thread = desk.state()["threads"][0].clone();
    assert_eq!(thread["title"], "Titled");
    let messages = thread["messages"].as_array().expect("messages");
    let texts: Vec<&str> = messages.iter().map(|m| m["text"].as_str().expect("a text")).collect();
    assert_eq!(texts, ["a question", "while main owes", "taken back", "an answer", "by the way"]);
    assert!(messages.iter().map(|m| m["seq"].as_u64()).is_sorted());
    assert_eq!(messages[2]["withdrawn"], json!(true));
    assert_eq!(messages[3]["responds"], messages[1]["id"]);
    assert_eq!((&messages[3]["author"], &messages[3]["by"]), (&json!("agent"), &json!("main")));
    assert!(is_hex(&messages[3]["turn"], 16));
    assert_eq!((&messages[0]["turn"], &messages[0]["by"]), (&json!(null), &json!(null)));
    let mut states: Vec<&str> =
        thread["todos"].as_array().expect("todos").iter().filter_map(|t| t["state"].as_str()).collect();
    states.sort_unstable();
    assert_eq!(states, ["done", "dropped", "open"]);
}

#[test]
fn contract_page_state_of_one_thread() {
    let desk = Desk::new();
    let _main = desk.session("s").working();
    let one = desk.thread("one");
    let other = desk.thread("other");
    let whole = desk.state();
    let part = desk.ask(&["page", "state", &one]);
    has_exactly(
        &part,
        &["format", "page", "title", "session", "seq", "follower", "threads", "owed", "todos", "turns"],
        &[],
    );
    let ids: Vec<&Value> = part["threads"].as_array().expect("threads").iter().map(|t| &t["id"]).collect();
    assert_eq!(ids, [&json!(one)]);
    let same = whole["threads"].as_array().expect("threads").iter().find(|t| t["id"] == json!(one));
    assert_eq!(Some(&part["threads"][0]), same);
    assert!(!part["threads"].to_string().contains(&other));
}

#[test]
fn contract_a_writers_json_is_the_event_with_notes() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let check = |printed: Value, kind: &str| -> Value {
        let mut event = printed.clone();
        notes(&event);
        event.as_object_mut().expect("an object").remove("notes");
        assert_eq!(event["kind"], json!(kind));
        let on_disk = desk.log().into_iter().find(|e| e["id"] == event["id"]);
        assert_eq!(Some(&event), on_disk.as_ref(), "the event as it was appended");
        printed
    };
    let thread = id(&check(desk.ask(&["thread", "new", "x", "--title", "T"]), "message"));
    let gone = id(&check(desk.ask(&["thread", "say", &thread, "y", "--no-reply"]), "message"));
    check(desk.ask(&["thread", "withdraw", &gone]), "withdraw");
    let reference = main.boundary().reference();
    check(main.ask(&["task", "start", &thread, "s"]), "start");
    check(main.ask(&["thread", "line", &thread, "l"]), "line");
    check(main.ask(&["thread", "reply", &reference, "r", "--todo", "t"]), "reply");
    check(main.ask(&["thread", "reply", &thread, "u", "--unasked"]), "reply");
    let todo = id(&check(desk.ask(&["task", "open", &thread, "o"]), "todo"));
    check(desk.ask(&["task", "end", &todo, "failed", "d"]), "todo_end");
    check(desk.ask(&["thread", "resolve", &thread]), "resolve");
    check(desk.ask(&["thread", "reopen", &thread]), "reopen");
    desk.person_with_input(&["thread", "new"], long_text(30_000, "x").as_bytes()).ok();
    main.boundary().says();
    let delivery = pointers(&desk)[0].clone();
    check(main.ask(&["delivery", "ack", &delivery]), "pickup");
}

#[test]
fn contract_json_everywhere_is_one_value() {
    let desk = Desk::new();
    let main = every_kind(&desk);
    let thread = desk.log()[0]["id"].as_str().expect("an id").to_owned();
    let reads: [&[&str]; 10] = [
        &["thread", "list"],
        &["thread", "list", "--all"],
        &["thread", "show", &thread],
        &["task", "list"],
        &["page", "list"],
        &["page", "state"],
        &["page", "log"],
        &["why", &thread],
        &["status"],
        &["trust", "--list"],
    ];
    for read in reads {
        let args: Vec<&str> = read.iter().copied().chain(["--json"]).collect();
        desk.person(&args).ok().json();
        if read[0] != "trust" {
            main.run(&args).ok().json();
        }
        let text = desk.person(read).ok().out();
        assert!(serde_json::from_str::<Value>(&text).is_err() || text.trim().is_empty(), "text for a person: {text}");
    }
    desk.ask(&["page", "new", "A page", "--slug", "a-page"]);
    assert!(desk.ask(&["page", "list"]).to_string().contains("a-page"));
    main.ask(&["page", "claim", "a-page"]);
}

#[test]
fn contract_page_log_after_a_seq() {
    let desk = Desk::new();
    let thread = desk.thread("first");
    desk.say(&thread, "second");
    desk.say(&thread, "third");
    let all = desk.ask(&["page", "log"]);
    assert_eq!(all.as_array(), Some(&desk.log()), "the events as they are");
    let later = desk.ask(&["page", "log", "--after", "2"]);
    assert_eq!(later.as_array().map(Vec::as_slice), Some(&desk.log()[2..]));
    let text = desk.person(&["page", "log", "--after", "2"]).ok().out();
    assert!(text.contains("third") && !text.contains("second"), "{text}");
}

#[test]
fn contract_page_log_follows() {
    let desk = Desk::new();
    let thread = desk.thread("first");
    let mut command = desk.command(&["page", "log", "--follow"]);
    let out = desk.path("followed");
    let mut child = command.stdout(fs::File::create(&out).expect("a file")).spawn().expect("leaf runs");
    let wait_for = |text: &str| {
        let start = Instant::now();
        while !fs::read_to_string(&out).unwrap_or_default().contains(text) {
            assert!(start.elapsed() < Duration::from_secs(10), "{text} is followed");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("first");
    desk.say(&thread, "second");
    wait_for("second");
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
}

#[test]
fn contract_exit_codes() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("x");
    for args in [
        &["nonsense"][..],
        &["thread"],
        &["thread", "nonsense"],
        &["thread", "show"],
        &["thread", "new", "x", "--nonsense"],
        &["task", "end", "01234567"],
        &["page", "log", "--after", "x"],
    ] {
        desk.person(args).usage();
        main.run(args).usage();
    }
    desk.person(&["thread", "show", "01234567"]).refused();
    desk.person(&["thread", "show", &thread]).ok();
    desk.person(&["--help"]).ok();
    assert!(desk.person(&["--version"]).ok().out().contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn contract_text_is_an_argument_or_standard_input_or_a_file() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let file = desk.path("text");
    fs::write(&file, "from a file\nin two lines").expect("a file");
    let file = file.to_string_lossy().into_owned();
    let last = || desk.log().last().expect("an event")["text"].as_str().expect("a text").trim_end().to_owned();
    let thread = desk.thread("from an argument");
    assert_eq!(last(), "from an argument");
    desk.person_with_input(&["thread", "say", &thread, "-"], b"from a dash").ok();
    assert_eq!(last(), "from a dash");
    desk.person_with_input(&["thread", "say", &thread], b"from nothing").ok();
    assert_eq!(last(), "from nothing");
    desk.person(&["thread", "say", &thread, "--file", &file]).ok();
    assert_eq!(last(), "from a file\nin two lines");
    desk.person_with_input(&["thread", "new"], "new, from nothing: ü \u{1F331}".as_bytes()).ok();
    assert_eq!(last(), "new, from nothing: ü \u{1F331}");
    let reference = references(&main.boundary().says()).into_iter().next().expect("a reference");
    let ran = main.job(&["thread", "reply", &reference]).input(b"a reply from nothing").run();
    ran.ok();
    assert_eq!(last(), "a reply from nothing");
    main.job(&["thread", "reply", &thread, "-", "--unasked"]).input(b"by a dash").run().ok();
    assert_eq!(last(), "by a dash");
    main.job(&["thread", "line", &thread, "-"]).input(b"a line").run().ok();
    assert_eq!(last(), "a line");
    main.run(&["thread", "reply", &thread, "--unasked", "--file", &file]).ok();
    assert_eq!(last(), "from a file\nin two lines");
    main.shell(&format!("\"$LEAF\" thread reply {thread} - --unasked <<'E'\n$(id) `id` \\n \"q\"\nE")).ok();
    assert_eq!(last(), "$(id) `id` \\n \"q\"");
}

#[test]
fn contract_a_reply_takes_a_reference_a_message_or_a_thread() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("one");
    let message = desk.say(&thread, "two");
    let reference = main.boundary().reference();
    let answered = |thread: &str| desk.thread_state(thread)["waiting"] == json!([]);
    main.reply(&message, "by the message");
    assert!(answered(&thread));
    let other = desk.thread("three");
    main.boundary().says();
    main.reply(&other, "by the thread");
    assert!(answered(&other));
    assert_eq!(desk.events("reply").last().expect("a reply")["responds"], json!(other));
    let (delivery, message) = reference.split_once(':').expect("a reference");
    main.run(&["thread", "reply", &format!("{delivery}:00000000"), "x"]).refused();
    main.run(&["thread", "reply", &format!("00000000:{message}"), "x"]).refused();
    main.run(&["thread", "reply", "nonsense", "x"]).refused();
}

#[test]
fn contract_an_answer_covers_what_came_before_it_and_no_more() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = desk.thread("one");
    let second = desk.say(&first, "two");
    let third = desk.say(&first, "three");
    main.boundary().reference();
    main.reply(&second, "the first two");
    assert_eq!(desk.thread_state(&first)["waiting"], json!([third]));
}

#[test]
fn contract_texts_have_a_limit() {
    let desk = Desk::new();
    let thread = desk.thread("x");
    let most = "a".repeat(256 * 1024);
    desk.person_with_input(&["thread", "say", &thread], most.as_bytes()).ok();
    let lines = desk.log().len();
    desk.person_with_input(&["thread", "say", &thread], format!("{most}b").as_bytes()).refused();
    let file = desk.path("big");
    fs::write(&file, format!("{most}b")).expect("a file");
    desk.person(&["thread", "new", "--file", &file.to_string_lossy()]).refused();
    desk.person_with_input(&["thread", "say", &thread], "é".repeat(128 * 1024 + 1).as_bytes()).refused();
    assert_eq!(desk.log().len(), lines);
    assert_eq!(desk.log()[1]["text"].as_str().map(str::len), Some(256 * 1024));
}

#[test]
fn contract_a_snapshot_may_be_deleted_or_damaged() {
    let desk = Desk::new();
    let main = every_kind(&desk);
    let before = desk.state();
    let view = desk.page().join("view.json");
    let whole = fs::read(&view).unwrap_or_default();
    let half = whole[..whole.len() / 2].to_vec();
    let other: &[&[u8]] = &[b"", b"garbage", b"[]", b"null", b"{\"offset\":999999999}", &half];
    for damage in other {
        fs::write(&view, damage).expect("a snapshot");
        assert_eq!(desk.state(), before, "{:?}", String::from_utf8_lossy(damage));
        fs::remove_file(&view).ok();
        assert_eq!(desk.state(), before);
    }
    fs::write(&view, "garbage").expect("a snapshot");
    desk.thread("after the damage");
    assert!(main.boundary().says().contains("after the damage"));
    assert_eq!(desk.state()["threads"].as_array().map(Vec::len), Some(2));
}

#[test]
fn contract_a_snapshot_of_another_log_is_not_believed() {
    let desk = Desk::new();
    let thread = desk.thread("kept");
    desk.say(&thread, "lost with a restored backup");
    desk.state();
    let log = fs::read_to_string(desk.log_path()).expect("the log");
    let first = log.lines().next().expect("a line").to_owned() + "\n";
    fs::write(desk.log_path(), first).expect("the log");
    let state = desk.thread_state(&thread);
    assert_eq!(state["messages"].as_array().map(Vec::len), Some(1), "{state:#}");
    desk.say(&thread, "goes on");
    let state = desk.thread_state(&thread);
    let texts: Vec<&Value> = state["messages"].as_array().expect("messages").iter().map(|m| &m["text"]).collect();
    assert_eq!(texts, [&json!("kept"), &json!("goes on")]);
}

#[test]
fn contract_hooks_print_one_object_or_nothing_for_all_that_is_recorded() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/support/payloads");
    let mut count = 0;
    for entry in fs::read_dir(dir).expect("payloads") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        let payload = main.payload(name.trim_end_matches(".json"));
        main.hook(&payload).silent_or_context();
        count += 1;
    }
    assert!(count > 15);
    assert_eq!(desk.errors(), Vec::<String>::new());
    main.start("resume").silent_or_context();
    desk.thread("after all of it");
    assert!(main.prompt("go on").says().contains("after all of it"));
}

#[test]
fn contract_unknown_events_tools_and_fields_pass_silently() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let mut payload = main.payload("PostToolBatch.main");
    payload["hook_event_name"] = json!("FromTheFuture");
    main.hook(&payload).silent();
    let mut payload = main.payload("PreToolUse.main.Bash");
    payload["tool_name"] = json!("Teleport");
    payload["tool_input"] = json!({"command": "leaf thread new x"});
    main.hook(&payload).silent();
    desk.thread("a question");
    let mut payload = main.payload("PostToolBatch.main");
    payload["from_the_future"] = json!({"deep": [1, {"er": null}]});
    payload["effort"] = json!("another type");
    assert!(main.hook(&payload).says().contains("a question"));
    assert_eq!(desk.errors(), Vec::<String>::new(), "passed by silently");
}

#[test]
fn contract_a_payload_that_is_not_json_is_one_line_in_errors_log() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let wrongs: [&[u8]; 5] =
        [b"not json", b"", b"{\"hook_event_name\":", b"\xff\xfe\x00{", b"{\"hook_event_name\":\"Stop\"} and more"];
    for (n, wrong) in wrongs.iter().enumerate() {
        main.hook_raw(wrong).silent();
        assert_eq!(desk.errors().len(), n + 1, "{wrong:?}: {:?}", desk.errors());
    }
    main.hook_raw(b"[1,2]").silent();
    main.hook_raw(b"\"Stop\"").silent();
}

#[test]
fn contract_errors_log_is_bounded() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.hook_raw(b"not json").silent();
    let path = desk.state_dir().join("errors.log");
    let line = fs::read_to_string(&path).expect("errors.log");
    let many = line.repeat((16 << 20) / line.len());
    fs::write(&path, many).expect("errors.log");
    for _ in 0..5 {
        main.hook_raw(b"not json").silent();
    }
    let mut size = 0;
    for entry in fs::read_dir(desk.state_dir()).expect("the state directory") {
        let entry = entry.expect("an entry");
        if entry.file_name().to_string_lossy().starts_with("errors.log") {
            size += entry.metadata().expect("metadata").len();
        }
    }
    assert!(size < 8 << 20, "{size} bytes");
    assert!(!desk.errors().is_empty());
}

#[test]
fn contract_a_payload_of_more_than_32_mib_is_one_line_in_errors_log() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("a question");
    let mut payload = main.payload("PostToolBatch.main");
    payload["tool_calls"][0]["tool_response"] = json!("x".repeat(33 << 20));
    main.hook(&payload).silent();
    assert_eq!(desk.errors().len(), 1);
    assert!(main.boundary().says().contains("a question"), "and nothing is lost");
}

#[test]
fn contract_titles_and_lists_for_a_person() {
    let desk = Desk::new();
    let _main = desk.session("s").working();
    let thread = id(&desk.ask(&["thread", "new", "a long question about the build", "--title", "Build"]));
    let settled = desk.thread("a settled one");
    desk.ask(&["thread", "resolve", &settled]);
    let list = desk.person(&["thread", "list"]).ok().out();
    assert!(list.contains("Build") && list.contains(&thread[..4]) && !list.contains("a settled one"), "{list}");
    let all = desk.person(&["thread", "list", "--all"]).ok().out();
    assert!(all.contains("Build") && all.contains("a settled one"), "{all}");
    let show = desk.person(&["thread", "show", &thread]).ok().out();
    assert!(show.contains("a long question about the build"), "{show}");
}

#[test]
fn contract_pages_have_slugs() {
    let desk = Desk::new();
    desk.ask(&["page", "new", "A Page: with signs!"]);
    desk.ask(&["page", "new", "Named", "--slug", "my-slug"]);
    desk.person(&["page", "new", "Named again", "--slug", "my-slug"]).refused();
    for page in desk.pages() {
        let slug = page.file_name().expect("a name").to_string_lossy().into_owned();
        let fine = slug.len() <= 64 && slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        assert!(fine && !slug.is_empty(), "{slug}");
    }
    assert!(desk.state_dir().join("pages/my-slug/page.json").is_file());
    let list = desk.person(&["page", "list"]).ok().out();
    assert!(list.contains("my-slug") && list.contains("A Page: with signs!"), "{list}");
}

#[test]
fn contract_thread_show_follows() {
    let desk = Desk::new();
    let thread = desk.thread("first words");
    let out = desk.path("followed");
    let mut command = desk.command(&["thread", "show", &thread, "--follow"]);
    let mut child = command.stdout(fs::File::create(&out).expect("a file")).spawn().expect("leaf runs");
    let wait_for = |text: &str| {
        let start = Instant::now();
        while !fs::read_to_string(&out).unwrap_or_default().contains(text) {
            assert!(start.elapsed() < Duration::from_secs(10), "{text} is followed");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait_for("first words");
    desk.say(&thread, "second words");
    wait_for("second words");
    child.kill().expect("it is killed");
    child.wait().expect("it ends");
    assert_eq!(fs::read_to_string(&out).expect("followed").matches("second words").count(), 1, "nothing twice");
}

#[test]
fn r005_a_rotated_journal_forgets_nothing_that_still_counts() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let held = desk.thread("picked up in this turn");
    main.boundary().reference();
    let dir = session_dir(&desk, main.id());
    let pieces = || -> Vec<PathBuf> {
        let names = fs::read_dir(&dir).expect("the session").map(|e| e.expect("an entry").path());
        names.filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("journal"))).collect()
    };
    // A damaged line costs itself alone (R127), and fills the journal as well as any.
    for round in 0..10 {
        let mut journal = fs::read(dir.join("journal.jsonl")).expect("the journal");
        journal.extend(std::iter::repeat_n(b'x', 600 << 10));
        journal.push(b'\n');
        fs::write(dir.join("journal.jsonl"), journal).expect("the journal");
        let thread = desk.thread(&format!("round {round}"));
        main.boundary().reference();
        main.reply(&thread, "seen");
        main.start("compact").silent_or_context();
    }
    assert!(pieces().len() > 1, "it was rotated: {:?}", pieces());
    let size: u64 = pieces().iter().map(|p| fs::metadata(p).expect("a piece").len()).sum();
    assert!(size < 5 << 20, "a few older pieces, not all: {size} bytes in {:?}", pieces());
    assert_eq!(desk.thread_state(&held)["status"], "working");
    let before = desk.state();
    fs::remove_file(dir.join("state.json")).ok();
    assert_eq!(desk.state(), before, "the state may be deleted at any time");
    main.stop().says();
    main.stop_active().silent();
    assert_eq!(desk.thread_state(&held)["status"], "waiting");
}

/// A damaged line (R127) of some length: it says nothing, and fills the journal as well as any.
fn filler(bytes: usize) -> Vec<u8> {
    let mut line = vec![b'x'; bytes];
    line.push(b'\n');
    line
}

/// A session whose main has a message in its open turn, and a journal so long that the state of it is cached.
fn with_a_cached_state(desk: &Desk) -> (Session<'_>, PathBuf, String) {
    let main = desk.session("s").working();
    let thread = desk.thread("picked up in this turn");
    main.boundary().reference();
    let dir = session_dir(desk, main.id());
    let mut journal = fs::OpenOptions::new().append(true).open(dir.join("journal.jsonl")).expect("the journal");
    std::io::Write::write_all(&mut journal, &filler(20 << 10)).expect("the journal");
    desk.advance(61);
    main.boundary().silent();
    assert!(dir.join("state.json").is_file(), "it is cached");
    assert_eq!(desk.thread_state(&thread)["status"], "working");
    (main, dir, thread)
}

#[test]
fn r005_a_state_that_the_disk_changed_is_not_believed() {
    let desk = Desk::new();
    let (_main, dir, thread) = with_a_cached_state(&desk);
    let turn = text(&desk.events("pickup")[0]["turn"]);
    let cached = fs::read_to_string(dir.join("state.json")).expect("the state");
    let places: Vec<usize> = cached.match_indices(&turn).map(|(at, _)| at).collect();
    assert!(!places.is_empty(), "the turn is in the state");
    for at in places {
        // One digit for another: it is JSON all the same.
        let digit = if cached.as_bytes()[at] == b'0' { "1" } else { "0" };
        let mut changed = cached.clone();
        changed.replace_range(at..=at, digit);
        fs::write(dir.join("state.json"), changed).expect("the state");
        assert_eq!(desk.thread_state(&thread)["status"], "working", "changed at {at}");
    }
}

#[test]
fn r005_a_state_of_a_journal_that_was_cut_is_not_believed() {
    let desk = Desk::new();
    let (main, dir, thread) = with_a_cached_state(&desk);
    let journal = fs::read(dir.join("journal.jsonl")).expect("the journal");
    main.stop().says();
    main.stop_active().silent();
    let mut longer = fs::read(dir.join("journal.jsonl")).expect("the journal");
    longer.extend(filler(20 << 10));
    fs::write(dir.join("journal.jsonl"), longer).expect("the journal");
    main.prompt("next").silent_or_context();
    main.stop_active().silent_or_context();
    assert_eq!(desk.thread_state(&thread)["status"], "waiting", "the turn ended");
    // Power went: what came after is lost, but for the cache; then the journal grew again beyond what that covers.
    fs::write(dir.join("journal.jsonl"), [journal, filler(60 << 10)].concat()).expect("the journal");
    assert_eq!(desk.thread_state(&thread)["status"], "working", "its end was lost with the rest");
}
