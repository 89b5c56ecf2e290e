//! To-dos: R94, R96 to R99, and R95's line at Stop.

use std::fs;

use crate::support::desk::{Desk, Session, id, references};
use crate::support::forks::{Follower, forking, main_owes, status};
use serde_json::{Value, json};

fn open_titles(desk: &Desk) -> Vec<String> {
    let state = desk.state();
    let todos = state["todos"].as_array().expect("todos is an array").clone();
    todos.iter().map(|t| t["title"].as_str().expect("a title").to_owned()).collect()
}

/// A message that waits with an open to-do, as the sort leaves it: a reply's to-do stands before the
/// reply in the log, so cutting the reply off leaves the to-do with the message as its source.
fn waiting_with_a_todo<'d>(desk: &'d Desk, text: &str) -> (Session<'d>, String, String) {
    let main = desk.session("s").working();
    let thread = desk.thread(text);
    main.run(&["thread", "reply", &thread, "cut off", "--todo", "see to it"]).ok();
    let log = fs::read_to_string(desk.log_path()).expect("the log");
    let mut lines: Vec<&str> = log.lines().collect();
    let last: Value = serde_json::from_str(lines.pop().expect("a line")).expect("JSON");
    assert_eq!(last["kind"], "reply", "the to-do stands before the reply");
    fs::write(desk.log_path(), lines.join("\n") + "\n").expect("the log");
    let _ = fs::remove_file(desk.page().join("view.json"));
    let todo = desk.events("todo").first().cloned().expect("a to-do");
    assert_eq!(todo["source"], json!(thread));
    (main, thread, id(&todo))
}

#[test]
fn r094_main_and_the_user_open_todos() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("three things, please");
    let reference = main.boundary().reference();
    main.ask(&["thread", "reply", &reference, "noted", "--todo", "by a reply"]);
    main.ask(&["task", "open", &thread, "by main"]);
    desk.ask(&["task", "open", &thread, "by the user"]);
    let mut titles = open_titles(&desk);
    titles.sort();
    assert_eq!(titles, ["by a reply", "by main", "by the user"]);
    let events = desk.events("todo");
    let of = |title: &str| events.iter().find(|e| e["title"] == title).expect("an event").clone();
    assert_eq!((&of("by a reply")["author"], &of("by a reply")["source"]), (&json!("agent"), &json!(thread)));
    assert_eq!(of("by main")["author"], "agent");
    assert_eq!(of("by the user")["author"], "user");
    assert!(of("by main")["source"].is_null() && of("by the user")["source"].is_null(), "task open's has no source");
    assert_eq!(desk.thread_state(&thread)["status"], "todo", "nothing waits, a to-do is open");
    assert_eq!(desk.thread_state(&thread)["todos"].as_array().map(Vec::len), Some(3));
}

#[test]
fn r094_a_replys_todo_stands_before_the_reply() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("please");
    let reference = main.boundary().reference();
    main.ask(&["thread", "reply", &reference, "later", "--todo", "do it"]);
    let kinds: Vec<String> = desk.log().iter().map(|e| e["kind"].as_str().expect("a kind").to_owned()).collect();
    assert_eq!(kinds, ["message", "pickup", "todo", "reply"]);
}

#[test]
fn r094_one_open_todo_a_message() {
    let desk = Desk::new();
    let (main, thread, _) = waiting_with_a_todo(&desk, "big");
    // Whether it is refused or the open one serves, there is one.
    main.run(&["thread", "reply", &thread, "noted", "--todo", "a second one"]);
    let open: Vec<Value> = desk.state()["todos"].as_array().expect("todos").clone();
    let of_message: Vec<&Value> = open.iter().filter(|t| t["source"] == json!(thread)).collect();
    assert_eq!(of_message.len(), 1, "{of_message:?}");
}

#[test]
fn r095_an_open_todo_that_nobody_started_continues_a_stop_once_a_turn() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("please");
    let reference = main.boundary().reference();
    main.reply(&reference, "noted");
    desk.ask(&["task", "open", &thread, "tidy the fixtures"]);
    let told = main.stop().says();
    assert!(told.contains("tidy the fixtures"), "{told}");
    assert_eq!(main.stop_active().context(), None, "once a turn");
    main.prompt("next").silent_or_context();
    assert!(main.stop().context().is_some_and(|c| c.contains("tidy the fixtures")), "once a turn, each turn");
    assert_eq!(main.stop_active().context(), None);
}

#[test]
fn r095_a_started_todo_holds_no_stop() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("please");
    let reference = main.boundary().reference();
    main.reply(&reference, "noted");
    let todo = id(&desk.ask(&["task", "open", &thread, "tidy the fixtures"]));
    main.ask(&["task", "start", &todo, "at it"]);
    assert_eq!(main.stop().context(), None);
}

#[test]
fn r095_an_ended_todo_holds_no_stop() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("please");
    let reference = main.boundary().reference();
    main.reply(&reference, "noted");
    let todo = id(&desk.ask(&["task", "open", &thread, "tidy the fixtures"]));
    main.ask(&["task", "end", &todo, "done", "tidied"]);
    assert_eq!(main.stop().context(), None);
    let end = &desk.events("todo_end")[0];
    assert_eq!((&end["outcome"], &end["detail"]), (&json!("done"), &json!("tidied")));
}

#[test]
fn r096_a_message_with_an_open_todo_is_not_delivered() {
    let desk = Desk::new();
    let (main, thread, _) = waiting_with_a_todo(&desk, "a big piece of work");
    assert_eq!(desk.thread_state(&thread)["status"], "todo");
    let told = main.boundary().context().unwrap_or_default();
    assert_eq!(references(&told), Vec::<String>::new(), "{told}");
    assert_eq!(desk.events("pickup"), Vec::<Value>::new());
}

#[test]
fn r096_a_further_message_is_dealt_with_on_its_own() {
    let desk = Desk::new();
    let (main, thread, todo) = waiting_with_a_todo(&desk, "a big piece of work");
    let further = desk.say(&thread, "and a small question");
    let hook = main.boundary();
    assert!(hook.says().contains("and a small question"));
    let reference = hook.reference();
    assert!(reference.ends_with(&format!(":{further}")));
    assert_eq!(desk.events("pickup")[0]["messages"], json!([further]));
    main.reply(&reference, "a small answer");
    // The answer named the further one: the message with the to-do still waits, so `done` is refused.
    main.run(&["task", "end", &todo, "done"]).refused();
    assert_eq!(desk.thread_state(&thread)["status"], "todo");
    main.reply(&thread, "the big one is done");
    main.ask(&["task", "end", &todo, "done"]);
    assert_eq!(desk.thread_state(&thread)["status"], "answered");
}

#[test]
fn r097_done_is_refused_until_the_source_is_answered() {
    let desk = Desk::new();
    let (main, thread, todo) = waiting_with_a_todo(&desk, "a big piece of work");
    let lines = desk.log().len();
    let why = main.run(&["task", "end", &todo, "done"]).refused();
    assert!(!why.is_empty());
    assert_eq!(desk.log().len(), lines);
    main.reply(&thread, "here it is");
    main.ask(&["task", "end", &todo, "done"]);
    assert_eq!(open_titles(&desk), Vec::<String>::new());
}

#[test]
fn r097_failed_and_dropped_make_it_input_again() {
    for outcome in ["failed", "dropped"] {
        let desk = Desk::new();
        let (main, thread, todo) = waiting_with_a_todo(&desk, "a big piece of work");
        main.boundary().silent_or_context();
        desk.ask(&["task", "end", &todo, outcome, "no time"]);
        assert_eq!(open_titles(&desk), Vec::<String>::new());
        let hook = main.boundary();
        assert!(hook.says().contains("a big piece of work"), "{outcome}: {}", hook.says());
        assert!(hook.reference().ends_with(&format!(":{thread}")));
    }
}

#[test]
fn r097_withdrawing_the_message_drops_its_todo() {
    let desk = Desk::new();
    let (main, thread, todo) = waiting_with_a_todo(&desk, "a big piece of work");
    desk.person(&["thread", "withdraw", &thread]).ok();
    assert_eq!(open_titles(&desk), Vec::<String>::new());
    let state = desk.thread_state(&thread);
    let entry = state["todos"].as_array().expect("todos").iter().find(|t| t["id"] == json!(todo)).cloned();
    assert_eq!(entry.expect("the to-do")["state"], "dropped");
    assert_eq!(main.stop().context(), None);
}

#[test]
fn r097_a_todo_ends_once() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("please");
    main.boundary().reference();
    main.reply(&thread, "noted");
    let todo = id(&desk.ask(&["task", "open", &thread, "tidy"]));
    desk.ask(&["task", "end", &todo, "dropped"]);
    desk.person(&["task", "end", &todo, "done"]).refused();
    assert_eq!(desk.events("todo_end").len(), 1);
    desk.person(&["task", "end", &todo, "finished"]).usage();
}

#[test]
fn r098_a_todo_outlives_a_reply_a_resolve_and_the_session() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("please");
    let reference = main.boundary().reference();
    main.ask(&["thread", "reply", &reference, "noted", "--todo", "tidy the fixtures"]);
    desk.say(&thread, "thanks");
    let reference = main.boundary().reference();
    main.reply(&reference, "welcome");
    assert_eq!(open_titles(&desk), ["tidy the fixtures"]);
    desk.ask(&["thread", "resolve", &thread]);
    assert_eq!(open_titles(&desk), ["tidy the fixtures"]);
    main.end("other").silent();
    main.client.kill();
    assert_eq!(open_titles(&desk), ["tidy the fixtures"]);
    let next = desk.session("t").working();
    next.run(&["page", "claim", &desk.page_slug()]).ok();
    assert!(next.run(&["task", "list"]).ok().out().contains("tidy the fixtures"));
}

#[test]
fn r098_a_start_stops_counting_when_its_turn_ends() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("please");
    let reference = main.boundary().reference();
    main.reply(&reference, "noted");
    let todo = id(&desk.ask(&["task", "open", &thread, "tidy the fixtures"]));
    main.ask(&["task", "start", &todo, "at it"]);
    main.stop().silent();
    main.prompt("next").silent_or_context();
    assert!(main.stop().says().contains("tidy the fixtures"));
}

#[test]
fn r097_a_failed_todo_wakes_an_idle_session_for_its_message() {
    let desk = Desk::new();
    let (main, _, todo) = waiting_with_a_todo(&desk, "a big piece of work");
    main.stop().silent_or_context();
    main.stop_active().silent();
    let watch = main.watch();
    watch.parked(500);
    desk.ask(&["task", "end", &todo, "failed"]);
    watch.woke();
    assert!(main.prompt("woken").says().contains("a big piece of work"));
}

#[test]
fn r099_a_fork_is_told_what_to_do_with_what_is_bigger_than_a_message() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("rebuild the index");
    let bigger = fork.prompt.split_once("bigger than a message").expect("what is bigger").1;
    let (todo, back) = bigger.split_once("If main itself must act").expect("what is main's now");
    for part in [
        "without changing anything",
        "answer with what you found",
        "open a to-do",
        "leaf thread reply REF --todo TITLE TEXT",
    ] {
        assert!(todo.contains(part), "{part}: {todo}");
    }
    let back = back.split("\n\n").next().unwrap_or_default();
    for part in ["on the message now", "do not answer", "`HAND BACK:`", "reason"] {
        assert!(back.contains(part), "{part}: {back}");
    }
    let own = "Nothing that main is changing or may be about to change is changed here";
    assert!(fork.prompt.contains(own), "R121: {}", fork.prompt);
}

#[test]
fn r099_an_answer_with_a_todo_goes_on_as_the_prompt_says() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("rebuild the index");
    // The very form that the prompt has.
    let command = format!("leaf thread reply {} --todo 'rebuild the index' 'it has 3 gaps'", fork.reference());
    fork.call(&command).ok();
    let ended = follower.ended(&fork.turn, "done");
    assert_eq!((&ended["outcome"], &ended["wake"]), (&json!("todo"), &json!(true)), "{ended}");
    assert_eq!((status(&desk, &thread), main_owes(&desk)), ("todo".to_owned(), Vec::new()));
    assert!(main.boundary().says().contains("rebuild the index"), "R83: main hears it");
}

#[test]
fn r094_a_title_that_is_cut_is_told() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("please");
    let reference = main.boundary().reference();
    let long = "word ".repeat(60);
    for event in [
        main.ask(&["thread", "reply", &reference, "later", "--todo", &long]),
        main.ask(&["task", "open", &reference[9..], &long]),
    ] {
        assert!(event["notes"].to_string().contains("cut after 200 characters"), "{event}");
    }
    let titles = open_titles(&desk);
    assert!(titles.iter().all(|title| (150..=200).contains(&title.chars().count())), "{titles:?}");
    let why = main.run(&["thread", "reply", &reference, "more", "--todo", " "]).refused();
    assert!(why.contains("say what is to be done"), "{why}");
}

#[test]
fn r098_who_resolves_a_thread_is_told_of_its_open_todos() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("please");
    main.reply(&main.boundary().reference(), "noted");
    let todo = id(&desk.ask(&["task", "open", &thread, "tidy the fixtures"]));
    let resolved = desk.ask(&["thread", "resolve", &thread]);
    assert!(resolved["notes"].to_string().contains("1 to-do of it stays open"), "{resolved}");
    assert!(desk.person(&["why", &thread]).ok().out().contains(&format!("open: to-do {todo}")));
    desk.ask(&["thread", "reopen", &thread]);
    desk.ask(&["task", "end", &todo, "dropped"]);
    assert_eq!(desk.ask(&["thread", "resolve", &thread])["notes"], json!([]));
}

#[test]
fn r097_dropping_what_came_with_an_answer_gives_nothing_back() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("please");
    let reference = main.boundary().reference();
    let reply = ["thread", "reply", &reference, "later", "--todo", "see to it"];
    main.ask(&reply);
    let todo = id(&desk.events("todo")[0]);
    let refused = desk.person(&["thread", "withdraw", &thread]).refused();
    assert!(refused.contains(&format!("leaf task end {todo} dropped")), "the way out: {refused}");
    assert_eq!(desk.ask(&["task", "end", &todo, "dropped"])["notes"], json!([]));
    let why = desk.person(&["why", &thread]).ok().out();
    assert!(!why.contains("input again") && !why.contains("R49"), "nobody was answered over: {why}");
}
