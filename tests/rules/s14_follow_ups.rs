//! Follow-ups: R89, R90, R93 (and R91, as it ends).

use crate::support::desk::{Desk, references};
use crate::support::forks::{Follower, Fork, forking, holder_kind, main_owes, outcome, status, text};
use serde_json::{Value, json};

#[track_caller]
fn answered<'s, 'd>(follower: &Follower<'s, 'd>, message: &str) -> (String, Fork<'s, 'd>) {
    let (thread, fork) = follower.fork(message);
    fork.reply(&fork.reference(), "found");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
    (thread, fork)
}

#[test]
fn r089_the_fork_that_answered_last_is_resumed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    let second = desk.say(&thread, "and where does the okapi live?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!((&action["action"], &action["agent_id"]), (&json!("resume"), &json!(fork.agent)), "{action}");
    assert_ne!(action["turn"], json!(fork.turn));
    let prompt = text(&action["prompt"]);
    assert!(prompt.contains("the okapi"), "{prompt}");
    assert!(references(&prompt).iter().any(|r| r.ends_with(&second)), "{prompt}");
    let again = follower.resume(&action);
    again.reply(&references(&prompt)[0], "in the forest");
    assert_eq!(follower.ended(&again.turn, "done")["outcome"], "answer");
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r089_a_run_that_answered_nothing_is_not_resumed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.person(&["thread", "withdraw", &thread]).ok();
    assert_eq!(follower.ended(&fork.turn, "oh")["outcome"], "void");
    desk.say(&thread, "another thing");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "spawn", "{action}");
}

#[test]
fn r090_if_main_answered_last_a_new_fork() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    desk.say(&thread, "and?");
    let ask = follower.ask_about(&thread);
    main.reply(&thread, "I know that one");
    assert_eq!(follower.sorted(&ask, "small")["action"], "none");
    desk.say(&thread, "and that?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "spawn", "{action}");
    let next = follower.launch(&action);
    assert_ne!(next.agent, fork.agent);
}

#[test]
fn r090_once_the_earlier_has_ended() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.reply(&thread, "42");
    desk.say(&thread, "and?");
    assert_eq!(main_owes(&desk), [thread.as_str()], "R13(d)");
    main.reply(&main.boundary().reference(), "43");
    follower.ended(&fork.turn, "oh");
    desk.say(&thread, "and that?");
    assert_eq!(follower.sorted(&follower.ask_about(&thread), "small")["action"], "spawn");
}

#[test]
fn r090_mains_unasked_message_changes_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    main.run(&["thread", "reply", &thread, "a correction", "--unasked"]).ok();
    desk.say(&thread, "and?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!((&action["action"], &action["agent_id"]), (&json!("resume"), &json!(fork.agent)), "{action}");
}

#[test]
fn r090_a_fork_of_an_earlier_generation_is_never_resumed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    main.start("resume").silent_or_context();
    main.prompt("go on").silent_or_context();
    desk.say(&thread, "and?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "spawn", "{action}");
    assert_ne!(action["turn"], json!(fork.turn));
}

#[test]
fn r091_a_fork_that_cannot_be_resumed_leaves_the_thread_to_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, _) = answered(&follower, "look it up");
    let second = desk.say(&thread, "and?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "resume");
    let id = text(&action["turn"]);
    assert_eq!(follower.failed(&id, "no such agent")["outcome"], "hand_back");
    assert_eq!(outcome(&desk, &id), ("ended".into(), json!("hand_back")));
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&second)), "{told}");
    follower.quiet("ask", 200);
}

#[test]
fn r093_a_message_in_a_thread_that_main_owes_goes_to_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    follower.ended(&fork.turn, "HAND BACK: no");
    let second = desk.say(&thread, "and?");
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    assert_ne!(holder_kind(&desk, &thread), "line_fork");
    follower.quiet("ask", 300);
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&second)), "{told}");
    let third = desk.say(&thread, "and more?");
    assert!(references(&main.boundary().says()).iter().any(|r| r.ends_with(&third)));
    assert_eq!(desk.events("line").len(), 1, "the first message's");
    assert_ne!(desk.events("message")[2]["main_owed"], Value::Null);
}
