//! A fork's boundary: R75–R77.

use crate::support::desk::{Desk, references};
use crate::support::forks::{Follower, Fork, forking, holder_kind, main_owes, outcome, status, text};
use serde_json::{Value, json};

#[test]
fn r075_it_hands_the_fork_its_threads_further_messages_with_a_pickup() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.boundary().silent();
    let second = desk.say(&thread, "and the marmot");
    let third = desk.say(&thread, "and the other");
    let hook = fork.boundary();
    let told = hook.says();
    assert!(told.contains("and the marmot") && told.contains("and the other"), "{told}");
    let pickup = desk.events("pickup").last().expect("a pickup").clone();
    assert_eq!((&pickup["turn"], &pickup["messages"]), (&json!(fork.turn), &json!([second, third])));
    assert_eq!(references(&told), [format!("{}:{third}", text(&pickup["delivery"]))]);
    fork.boundary().silent();
    fork.reply(&hook.reference(), "all of it");
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r075_nothing_of_mains_and_nothing_of_other_forks() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let (theirs, other) = follower.fork("and this");
    let mine = desk.thread("for main");
    follower.line(&follower.ask_about(&mine), "no");
    desk.say(&theirs, "for the other fork");
    fork.boundary().silent();
    assert!(other.boundary().says().contains("for the other fork"));
    let told = main.boundary().says();
    assert!(told.contains("for main") && !told.contains("for the other fork"), "{told}");
}

#[test]
fn r075_what_was_withdrawn_or_resolved_there() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let second = desk.say(&thread, "and the other");
    fork.boundary().says();
    desk.person(&["thread", "withdraw", &second]).ok();
    let told = fork.boundary().says();
    assert!(told.contains(&second) || told.contains(&thread), "{told}");
    fork.boundary().silent();
    desk.person(&["thread", "resolve", &thread]).ok();
    let told = fork.boundary().says();
    assert!(told.contains(&thread), "{told}");
    fork.boundary().silent();
    fork.reply(&fork.reference(), "R9: its reply is accepted");
    main.stop().silent_or_context();
}

#[test]
fn r075_an_agent_that_is_neither_gets_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    helper.marked("leaf thread list");
    let mine = desk.thread("mains");
    follower.line(&follower.ask_about(&mine), "no");
    desk.say(&thread, "and the other");
    for agent in [&helper, &Fork::worker(&main), &Fork::stranger(&main)] {
        agent.boundary().silent();
    }
    follower.ended(&fork.turn, "");
    fork.boundary().silent();
    let mut foreign = fork.payload("PostToolBatch.fork");
    foreign["agent_type"] = json!("");
    foreign["agent_id"] = json!("a1ab1603f2d822413");
    main.hook(&foreign).silent();
    assert_eq!(desk.events("pickup").len(), 1, "the take's alone");
}

#[test]
fn r076_inline_while_it_fits_else_by_pointer() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let long = "chinchilla ".repeat(2_000);
    let second =
        id_of(&desk.person_with_input(&["thread", "say", &thread, "-", "--json"], long.as_bytes()).ok().json());
    let told = fork.boundary().says();
    assert!(!told.contains(&"chinchilla ".repeat(1_000)), "a pointer");
    assert_eq!(desk.events("pickup").len(), 1, "it is no pickup");
    let at = told.find("delivery ").expect("a pointer names its delivery");
    let _ = at;
    let pointer = pointer_in(&told);
    assert!(fork.leaf(&["delivery", "read", &pointer]).ok().out().contains("chinchilla"));
    assert_eq!(desk.events("pickup").len(), 1);
    fork.leaf(&["delivery", "ack", &pointer]).ok();
    let pickup = desk.events("pickup").last().expect("a pickup").clone();
    assert_eq!(
        (&pickup["turn"], &pickup["delivery"], &pickup["messages"]),
        (&json!(fork.turn), &json!(pointer), &json!([second]))
    );
    fork.reply(&format!("{pointer}:{second}"), "all read");
    assert_eq!(status(&desk, &thread), "answered");
}

fn id_of(event: &Value) -> String {
    text(&event["id"])
}

/// The id after `delivery ack`.
#[track_caller]
fn pointer_in(told: &str) -> String {
    let at = told.find("delivery ack ").unwrap_or_else(|| panic!("a pointer's ack: {told}"));
    told[at + 13..].chars().take(8).collect()
}

#[test]
fn r077_a_message_after_the_last_boundary_is_kept_back_again_once_the_turn_ended() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    let late = desk.say(&thread, "and the other");
    assert_eq!(holder_kind(&desk, &thread), "fork");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer", "it was picked up by nobody");
    assert_eq!(holder_kind(&desk, &thread), "line_fork");
    let ask = follower.ask_about(&thread);
    assert_eq!(ask.through, late);
    assert_eq!(main_owes(&desk), Vec::<String>::new());
    assert_eq!(follower.sorted(&ask, "small")["action"], "resume", "R89");
}

#[test]
fn r077_else_it_is_mains() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    let late = desk.say(&thread, "and the other");
    desk.advance(30);
    follower.ended(&fork.turn, "done");
    assert_eq!(outcome(&desk, &fork.turn), ("ended".into(), json!("answer")));
    assert_eq!(main_owes(&desk), [thread]);
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&late)), "{told}");
    follower.quiet("ask", 200);
}
