//! Forks' turns: R40–R45.

use std::fs;

use crate::support::desk::{Desk, Session, is_hex, references};
use crate::support::forks::{
    Follower, Fork, forking, main_owes, module_command, outcome, session_dir, status, text, turn, turns, why_of,
};
use serde_json::{Value, json};

/// A fork that answered, and whose run ended.
#[track_caller]
fn answered<'s, 'd>(follower: &Follower<'s, 'd>, message: &str) -> (String, Fork<'s, 'd>) {
    let (thread, fork) = follower.fork(message);
    fork.reply(&fork.reference(), "found");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
    (thread, fork)
}

/// The resume of a further message of its thread.
#[track_caller]
fn resumed<'s, 'd>(follower: &Follower<'s, 'd>, thread: &str) -> Fork<'s, 'd> {
    follower.session.desk().say(thread, "and more?");
    follower.resume(&follower.sorted(&follower.ask_about(thread), "small"))
}

#[test]
fn r040_every_event_of_a_forks_turn_says_whose() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.leaf(&["task", "start", &thread, "looking"]).ok();
    fork.leaf(&["thread", "line", &thread, "nearly"]).ok();
    fork.leaf(&["thread", "reply", &fork.reference(), "found", "--todo", "say more"]).ok();
    let mut kinds: Vec<String> = Vec::new();
    for event in desk.log().into_iter().filter(|e| !e["turn"].is_null()) {
        assert_eq!(event["turn"], json!(fork.turn), "{event}");
        assert!(is_hex(&event["generation"], 32), "{event}");
        assert_eq!((&event["session"], &event["by"]), (&json!(main.id()), &json!("fork")), "{event}");
        assert_eq!(event["name"], json!(format!("leaf-{thread}")), "{event}");
        if event["kind"] != "pickup" {
            assert_eq!(event["agent"], json!(fork.agent), "{event}");
        }
        kinds.push(text(&event["kind"]));
    }
    assert_eq!(kinds, ["pickup", "start", "line", "todo", "reply"]);
}

#[test]
fn r040_each_run_is_a_turn_of_its_own() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    let again = resumed(&follower, &thread);
    assert_eq!(again.agent, fork.agent);
    assert_ne!(again.turn, fork.turn);
    again.reply(&again.reference(), "here");
    let replies = desk.events("reply");
    assert_eq!((&replies[0]["turn"], &replies[1]["turn"]), (&json!(fork.turn), &json!(again.turn)));
    assert_eq!(replies[1]["name"], json!(format!("leaf-{thread}")));
    assert_eq!(turns(&desk)[0]["turn"], json!(again.turn), "newest first");
}

#[test]
fn r041_a_boundary_and_a_leaf_call_renew_but_not_within_sixty_seconds() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let opened = turn(&desk, &fork.turn);
    assert_eq!(opened["renewed"], opened["opened"], "its opening counts as one");
    desk.advance(59);
    fork.boundary().silent_or_context();
    assert_eq!(turn(&desk, &fork.turn)["renewed"], opened["opened"]);
    assert_eq!(why_of(&desk, &thread, "renewed"), Vec::<Value>::new());
    desk.advance(1);
    fork.boundary().silent_or_context();
    let renewed = turn(&desk, &fork.turn)["renewed"].clone();
    assert_ne!(renewed, opened["opened"]);
    assert_eq!(why_of(&desk, &thread, "renewed").len(), 1);
    desk.advance(60);
    fork.passes("cargo test");
    assert_eq!(turn(&desk, &fork.turn)["renewed"], renewed, "another call does not");
    fork.marked("leaf thread list");
    assert_ne!(turn(&desk, &fork.turn)["renewed"], renewed);
}

#[test]
fn r041_without_renewal_it_lapses_after_fifteen_minutes() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.advance(14 * 60);
    fork.boundary().silent_or_context();
    desk.advance(15 * 60 - 1);
    assert_eq!((outcome(&desk, &fork.turn).0.as_str(), status(&desk, &thread).as_str()), ("running", "on_it"));
    desk.advance(1);
    assert_eq!(outcome(&desk, &fork.turn).0, "lapsed");
    assert_eq!(desk.thread_state(&thread)["holder"]["state"], "lapsed");
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r042_turn_ended_ends_mains_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let thread = desk.thread("held by the turn");
    main.boundary().reference();
    let follower = Follower::start(&main);
    assert_eq!(status(&desk, &thread), "working");
    let ran = module_command(&main, None, &["turn", "ended"], "");
    assert_ne!(ran.code, 0, "without the token: {ran:?}");
    assert_ne!(module_command(&main, Some("guessed"), &["turn", "ended"], "").code, 0);
    assert_eq!(status(&desk, &thread), "working");
    follower.module(&["turn", "ended", "--interrupted"], "").ok();
    assert_eq!(status(&desk, &thread), "waiting", "the only sign of an interruption");
    follower.module(&["turn", "ended"], "").ok();
}

#[test]
fn r042_input_that_was_there_at_an_interruption_waits_for_the_next_prompt() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    assert_eq!(follower.sorted(&follower.ask(), "now")["action"], "main");
    follower.module(&["turn", "ended", "--interrupted"], "").ok();
    follower.quiet("wake", 400);
    assert!(references(&main.prompt("go on").says())[0].ends_with(&thread));
}

#[test]
fn r117_an_interruption_stands_until_the_person_prompts() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    // No turn of main's is known: a prompt that was typed while another turn ran has no hook of its own.
    main.stop().silent_or_context();
    follower.module(&["turn", "ended", "--interrupted"], "").ok();
    desk.thread("look it up");
    assert_eq!(follower.sorted(&follower.ask(), "small")["action"], "main", "the client would start no fork");
    // What woke the session was the client's own prompt.
    let woken = main.hook(&main.payload("UserPromptSubmit.main.task-notification.rewake"));
    woken.says();
    main.stop().silent_or_context();
    desk.thread("and this");
    assert_eq!(follower.sorted(&follower.ask(), "small")["action"], "main", "it stands on");
    main.prompt("go on").silent_or_context();
    desk.thread("and that");
    assert_eq!(follower.sorted(&follower.ask(), "small")["action"], "spawn");
}

#[test]
fn r042_an_agents_failure_or_stop_does_not_end_mains_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let mine = desk.thread("mains");
    main.boundary().reference();
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fork.stops("done").silent_or_context();
    fork.fails().silent_or_context();
    assert_eq!(status(&desk, &mine), "working");
}

#[test]
fn r043_a_lapsed_turn_renews_where_nobody_else_took_what_it_holds() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.advance(16 * 60);
    assert_eq!(outcome(&desk, &fork.turn).0, "lapsed");
    fork.boundary().silent_or_context();
    assert_eq!(outcome(&desk, &fork.turn).0, "running");
    assert_eq!((status(&desk, &thread), main_owes(&desk)), ("on_it".into(), vec![]));
}

#[test]
fn r043_else_it_stays_lapsed_and_its_writes_are_judged_by_holding() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.advance(16 * 60);
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&thread)), "R64: {told}");
    fork.boundary().silent_or_context();
    assert_eq!(outcome(&desk, &fork.turn).0, "lapsed");
    fork.refused(&["thread", "reply", &fork.reference(), "too late"]);
    assert_eq!(desk.events("reply"), Vec::<Value>::new());
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r043_a_lapsed_turn_that_still_holds_may_answer() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.advance(16 * 60);
    fork.reply(&fork.reference(), "late, but here");
    assert_eq!(status(&desk, &thread), "answered");
    assert_eq!(main.boundary().context().map(|t| references(&t)).unwrap_or_default(), Vec::<String>::new());
}

#[test]
fn r044_an_ended_turns_pickup_no_longer_keeps_main_off_but_counts_as_picked_up() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    assert_eq!(follower.ended(&fork.turn, "HAND BACK: I cannot")["outcome"], "hand_back");
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    assert_eq!(desk.thread_state(&thread)["holder"]["state"], "ended", "R51: it holds until another picks it up");
    follower.quiet("ask", 200);
    assert!(references(&main.boundary().says()).iter().any(|r| r.ends_with(&thread)));
    assert_eq!(desk.thread_state(&thread)["holder"]["kind"], "main");
}

#[test]
fn r045_a_run_that_leaf_did_not_start_opens_a_named_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    assert_eq!(turns(&desk).len(), 1);
    fork.begins().silent_or_context();
    let all = turns(&desk);
    assert_eq!(all.len(), 2);
    assert_eq!((&all[0]["agent_id"], &all[0]["state"]), (&json!(fork.agent), &json!("running")));
    assert_eq!(desk.events("pickup").len(), 1, "it picks up nothing");
    let event = fork.leaf(&["thread", "reply", &thread, "one thing more", "--unasked", "--json"]).ok().json();
    assert_eq!(event["turn"], all[0]["turn"], "a turn of the same agent is still the last taker");
    let ended = follower.ended(&text(&all[0]["turn"]), "done");
    assert_eq!(ended["outcome"], "void", "judged by what it wrote: {ended}");
}

#[test]
fn r045_it_may_not_write_where_another_took_the_thread_since() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    desk.say(&thread, "and more?");
    assert_eq!(follower.line(&follower.ask_about(&thread), "no")["action"], "main");
    main.boundary().says();
    fork.begins().silent_or_context();
    fork.refused(&["thread", "reply", &thread, "one thing more", "--unasked"]);
    let turn = text(&turns(&desk)[0]["turn"]);
    assert_eq!(follower.ended(&turn, "done")["outcome"], "void");
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r045_a_run_nobody_started_that_answers_is_an_answer() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    fork.begins().silent_or_context();
    let second = desk.say(&thread, "and more?");
    // R47: its turn never took the thread itself; it is given the message at its boundary only where
    // the thread is its own.
    let started = text(&turns(&desk)[0]["turn"]);
    let ask = follower.ask_about(&thread);
    assert_eq!(ask.through, second, "R13: no running turn took the thread");
    let action = follower.sorted(&ask, "small");
    assert_eq!(action["turn"], json!(started), "a take that would resume that agent picks up into this turn: {action}");
    assert_eq!(turns(&desk).len(), 2);
    let pickup = desk.events("pickup").last().expect("a pickup").clone();
    assert_eq!((&pickup["turn"], &pickup["messages"]), (&json!(started), &json!([second])));
    fork.reply(&format!("{}:{second}", text(&pickup["delivery"])), "here");
    assert_eq!(follower.ended(&started, "done")["outcome"], "answer");
}

#[test]
fn r045_an_unknown_agents_run_opens_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, _fork) = follower.fork("look it up");
    Fork::stranger(&main).begins().silent_or_context();
    Fork::worker(&main).begins().silent_or_context();
    assert_eq!(turns(&desk).len(), 1);
}

fn journal(desk: &Desk, main: &Session<'_>) -> Vec<u8> {
    fs::read(session_dir(desk, main).join("journal.jsonl")).expect("the journal")
}

#[test]
fn r041_a_young_renewal_writes_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fork.boundary().silent_or_context();
    let before = journal(&desk, &main);
    desk.advance(30);
    fork.boundary().silent();
    assert_eq!(journal(&desk, &main), before);
}

#[test]
fn r116_a_helpers_late_run_is_refused_as_its_forks() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    helper.marked("leaf thread list");
    helper.boundary().silent_or_context();
    follower.ended(&fork.turn, "HAND BACK: no");
    helper.begins().silent_or_context();
    assert_eq!(turns(&desk).len(), 1, "a helper's run opens no turn");
    helper.denied(&format!("leaf thread reply {} x", fork.reference()));
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r045_a_taker_that_answered_nothing_is_a_taker() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.person(&["thread", "resolve", &thread]).ok();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "void");
    let second = desk.say(&thread, "after all");
    desk.advance(30);
    fork.begins().silent_or_context();
    let run = text(&turns(&desk)[0]["turn"]);
    fork.leaf(&["task", "start", &second, "at it"]).ok();
    let started = desk.events("start").pop().expect("a start");
    assert_eq!(
        (&started["turn"], &started["item"]),
        (&json!(run), &json!(second)),
        "nobody holds it, and it took the thread"
    );
}
