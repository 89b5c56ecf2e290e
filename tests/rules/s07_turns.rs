//! Turns: R40 and R42 for main.

use crate::support::desk::{Desk, Session, is_hex};
use serde_json::{Value, json};

/// The turn into which main's next boundary picks something up.
fn turn_now(desk: &Desk, main: &Session<'_>) -> Value {
    desk.thread("which turn is this?");
    let reference = main.boundary().reference();
    let turn = desk.events("pickup").last().expect("a pickup")["turn"].clone();
    main.reply(&reference, "this one");
    turn
}

#[test]
fn r040_every_event_with_a_turn_says_whose() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("who is there?");
    let reference = main.boundary().reference();
    main.run(&["task", "start", &thread, "looking"]).ok();
    main.run(&["thread", "line", &thread, "nearly"]).ok();
    main.run(&["thread", "reply", &reference, "me", "--todo", "say more"]).ok();
    let turns: Vec<Value> = desk.log().into_iter().filter(|e| !e["turn"].is_null()).collect();
    let kinds: Vec<&str> = turns.iter().filter_map(|e| e["kind"].as_str()).collect();
    for kind in ["pickup", "start", "line", "reply", "todo"] {
        assert!(kinds.contains(&kind), "{kind} names its turn: {kinds:?}");
    }
    for event in &turns {
        assert!(is_hex(&event["turn"], 16), "a turn is 16 hex: {event}");
        assert!(is_hex(&event["generation"], 32), "a generation is 32 hex: {event}");
        assert_eq!(event["session"], json!(main.id()), "{event}");
        assert_eq!(event["by"], "main", "{event}");
        assert_eq!((event.get("name"), event.get("agent")), (None, None), "a fork's alone: {event}");
        assert_eq!(event["turn"], turns[0]["turn"], "one turn of main");
    }
}

#[test]
fn r042_a_prompt_opens_a_turn_and_the_same_prompt_renews_it() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = turn_now(&desk, &main);
    assert_eq!(turn_now(&desk, &main), first, "a boundary opens none");
    main.prompt_again("go on").silent_or_context();
    assert_eq!(turn_now(&desk, &main), first, "the same prompt id renews");
}

#[test]
fn r042_a_stop_that_lets_it_end_ends_it() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = turn_now(&desk, &main);
    main.stop().silent();
    main.prompt("more").silent_or_context();
    assert_ne!(turn_now(&desk, &main), first);
}

#[test]
fn r042_a_stop_that_continues_does_not_end_it() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = turn_now(&desk, &main);
    desk.thread("wait, one more");
    main.stop().reference();
    let pickups = desk.events("pickup");
    assert_eq!(pickups.last().expect("a pickup")["turn"], first);
    let owed = desk.state()["owed"][0]["ref"].as_str().expect("a reference").to_owned();
    main.reply(&owed, "here");
    assert_eq!(turn_now(&desk, &main), first);
}

#[test]
fn r042_a_prompt_with_a_new_id_ends_the_one_before() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = turn_now(&desk, &main);
    main.prompt("interrupted, something else").silent_or_context();
    assert_ne!(turn_now(&desk, &main), first);
}

#[test]
fn r042_an_api_error_of_main_ends_its_turn_and_an_agents_does_not() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("are you there?");
    main.boundary().reference();
    main.hook(&main.payload("StopFailure.fork.forkerr")).silent();
    assert_eq!(desk.thread_state(&thread)["status"], "working", "an agent's failure is not main's");
    main.stop_failure().silent();
    assert_eq!(desk.thread_state(&thread)["status"], "waiting", "picked up by a turn that has ended");
}

#[test]
fn r042_the_state_of_a_thread_follows_the_turn() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    assert_eq!(desk.thread_state(&thread)["status"], "waiting");
    main.boundary().reference();
    assert_eq!(desk.thread_state(&thread)["status"], "working");
    main.stop().says();
    assert_eq!(desk.thread_state(&thread)["status"], "working", "the Stop continued");
    main.stop_active().silent();
    assert_eq!(desk.thread_state(&thread)["status"], "waiting");
}

#[test]
fn r042_writes_after_the_turn_name_it_still() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    let reference = main.boundary().reference();
    main.stop().says();
    main.stop_active().silent();
    main.reply(&reference, "late, but here");
    let turn = &desk.events("pickup")[0]["turn"];
    assert_eq!(&desk.events("reply")[0]["turn"], turn, "its open turn, else its last");
    assert_eq!(desk.thread_state(&thread)["status"], "answered");
}

#[test]
fn r040_a_generation_begins_with_every_start_but_a_compaction() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let generation = |main: &Session<'_>| {
        let turn = turn_now(&desk, main);
        let pickup = desk.events("pickup").into_iter().find(|p| p["turn"] == turn);
        pickup.expect("a pickup")["generation"].clone()
    };
    let first = generation(&main);
    let turn = turn_now(&desk, &main);
    main.start("compact").silent_or_context();
    assert_eq!(generation(&main), first);
    assert_eq!(turn_now(&desk, &main), turn, "a compaction ends no turn");
    main.start("resume").silent_or_context();
    main.prompt("go on").silent_or_context();
    let second = generation(&main);
    assert_ne!(second, first);
    main.end("clear").silent();
    let next = desk.session_of(&main.client, "t");
    next.start("clear").silent_or_context();
    next.prompt("go on").silent_or_context();
    assert_ne!(generation(&next), second);
}

#[test]
fn r042_a_new_generation_ends_the_open_turn() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    main.boundary().reference();
    assert_eq!(desk.thread_state(&thread)["status"], "working");
    main.start("resume").silent_or_context();
    assert_eq!(desk.thread_state(&thread)["status"], "waiting");
}

#[test]
fn r040_a_write_before_any_turn_has_a_turn_of_its_own_that_closes_with_it() {
    let desk = Desk::new();
    let main = desk.session("s");
    main.start("startup").silent_or_context();
    let thread = desk.thread("early");
    main.ask(&["task", "start", &thread, "before any prompt"]);
    let start = desk.events("start")[0].clone();
    assert!(is_hex(&start["turn"], 16) && start["by"] == "main", "{start}");
    assert_eq!(desk.thread_state(&thread)["status"], "waiting", "its turn closed with the write");
    main.reply(&thread, "an answer");
    assert_eq!(desk.thread_state(&thread)["status"], "answered");
}

#[test]
fn r040_a_person_may_act_as_main_from_a_terminal() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("who answers?");
    main.boundary().reference();
    let event = desk.ask(&["thread", "reply", &thread, "typed by hand"]);
    assert_eq!((&event["author"], &event["by"]), (&json!("agent"), &json!("main")));
    assert!(is_hex(&event["turn"], 16));
    assert_eq!(event["session"], json!(main.id()));
    assert_eq!(desk.thread_state(&thread)["status"], "answered");
    main.stop().silent();
}

#[test]
fn r042_a_client_that_tells_no_prompt_id_is_served_all_the_same() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let without = |name: &str| {
        let mut payload = main.payload(name);
        payload.as_object_mut().expect("an object").remove("prompt_id");
        main.hook(&payload)
    };
    let thread = desk.thread("at the prompt");
    assert!(without("UserPromptSubmit.main").says().contains("at the prompt"));
    main.reply(&thread, "yes");
    let thread = desk.thread("at the boundary");
    assert!(without("PostToolBatch.main").says().contains("at the boundary"));
    main.reply(&thread, "yes");
    without("Stop.main.tui").silent();
}

#[test]
fn r040_mains_last_turn_keeps_its_generation_where_another_has_begun() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("which port?");
    let first = main.ask(&["thread", "reply", &thread, "A moment.", "--unasked"]);
    main.start("resume").silent_or_context();
    let second = main.ask(&["thread", "reply", &thread, "Still looking.", "--unasked"]);
    assert_eq!(second["turn"], first["turn"], "its last turn, as none is open");
    assert_eq!(second["generation"], first["generation"]);
}
