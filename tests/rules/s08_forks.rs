//! Who holds a message, with forks: R46–R54.

use crate::support::desk::{Desk, Session, references};
use crate::support::forks::{Follower, forking, holder_kind, main_owes, module_command, outcome, status, turn};
use serde_json::{Value, json};

#[track_caller]
fn holder(desk: &Desk, thread: &str) -> Value {
    desk.thread_state(thread)["holder"].clone()
}

/// What main would be given at its boundary, by message.
#[track_caller]
fn given(main: &Session<'_>) -> Vec<String> {
    let told = main.boundary().context().unwrap_or_default();
    references(&told).into_iter().map(|r| r[9..].to_owned()).collect()
}

#[test]
fn r046_the_latest_pickup_holds_all() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let second = desk.say(&thread, "and the other");
    assert_eq!(holder(&desk, &thread)["turn"], json!(fork.turn));
    fork.boundary().reference();
    assert_eq!(holder(&desk, &thread)["turn"], json!(fork.turn));
    assert_eq!(follower.ended(&fork.turn, "")["outcome"], "hand_back");
    assert_eq!(given(&main), [second.as_str()], "one reference a thread, the newest that owes");
    assert_eq!(holder_kind(&desk, &thread), "main");
    let pickup = desk.events("pickup").last().expect("a pickup").clone();
    assert_eq!(pickup["messages"], json!([thread, second]));
}

#[test]
fn r047_what_nobody_picked_up_is_the_running_forks_that_took_the_thread() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    let second = desk.say(&thread, "and the other");
    assert_eq!(holder(&desk, &thread)["turn"], json!(fork.turn));
    assert_eq!(given(&main), Vec::<String>::new());
    desk.advance(15 * 60);
    assert_eq!(holder(&desk, &thread), Value::Null, "else by none");
    assert_eq!(main_owes(&desk), [thread]);
    assert_eq!(given(&main), [second]);
}

#[test]
fn r048_a_running_fork_keeps_its_threads_further_messages_before_and_after_it_answers() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    for n in 0..3 {
        desk.say(&thread, &format!("further {n}"));
        assert_eq!(given(&main), Vec::<String>::new());
        assert_eq!((status(&desk, &thread), holder_kind(&desk, &thread)), ("on_it".into(), "fork".into()));
        let reference = fork.boundary().reference();
        fork.reply(&reference, &format!("answer {n}"));
        assert_eq!(status(&desk, &thread), "answered");
    }
    follower.quiet("ask", 200);
    main.stop().silent_or_context();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
}

#[test]
fn r049_mains_answer_over_a_fork_takes_every_message_waiting_then() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let second = desk.say(&thread, "and the other");
    fork.boundary().reference();
    let reply = main.reply(&thread, "both: 42 and 43");
    assert_eq!(reply["responds"], json!(second), "R63: the newest waiting one");
    assert_eq!(desk.thread_state(&thread)["waiting"], json!([]));
    assert_eq!(holder_kind(&desk, &thread), "main");
    fork.refused(&["thread", "reply", &fork.reference(), "mine"]);
    let third = desk.say(&thread, "a third");
    assert_eq!(given(&main), [third]);
    assert_eq!(turn(&desk, &fork.turn)["state"], "running");
}

#[test]
fn r049_an_answer_to_an_earlier_message_leaves_the_later_ones_to_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let second = desk.say(&thread, "and the other");
    fork.boundary().reference();
    // By the reference of the fork's own delivery main answers exactly that message.
    let event = main.reply(&fork.reference(), "the first is 42");
    assert_eq!(event["responds"], json!(thread));
    assert_eq!(desk.thread_state(&thread)["waiting"], json!([second]));
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    assert_ne!(holder_kind(&desk, &thread), "fork");
    assert_eq!(given(&main), [second.as_str()]);
    fork.refused(&["thread", "reply", &second, "mine after all"]);
    assert_eq!(follower.ended(&fork.turn, "oh")["outcome"], "taken_over");
}

#[test]
fn r050_an_answered_message_is_held_by_the_turn_that_its_answer_names() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    let held = holder(&desk, &thread);
    assert_eq!(
        (&held["turn"], &held["state"], &held["agent_id"]),
        (&json!(fork.turn), &json!("ended"), &json!(fork.agent))
    );
    assert_eq!(held["name"], json!(format!("leaf-{thread}")));
    let (other, _) = follower.fork("and this");
    main.reply(&other, "mine");
    assert_eq!(holder_kind(&desk, &other), "main");
}

#[test]
fn r051_an_ended_turn_holds_until_another_picks_up_and_main_owes_meanwhile() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    follower.ended(&fork.turn, "");
    let held = holder(&desk, &thread);
    assert_eq!((&held["turn"], &held["state"]), (&json!(fork.turn), &json!("ended")));
    let owed = desk.state()["owed"][0].clone();
    assert_eq!((&owed["owed_by"]["kind"], &owed["thread"]), (&json!("main"), &json!(thread)));
    let further = desk.say(&thread, "still there?");
    assert_eq!(holder(&desk, &thread)["turn"], json!(fork.turn));
    assert_eq!(given(&main), [further]);
    assert_eq!(holder_kind(&desk, &thread), "main");
}

#[test]
fn r052_who_owes() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let owed_by = |thread: &str| -> Value {
        let state = desk.state();
        let owed = state["owed"].as_array().expect("owed").clone();
        let entry = owed.into_iter().find(|o| o["thread"] == thread);
        entry.unwrap_or_else(|| panic!("{thread} is owed: {state:#}"))["owed_by"].clone()
    };
    let thread = desk.thread("look it up");
    assert_eq!(owed_by(&thread)["kind"], "line_fork");
    let action = follower.sorted(&follower.ask(), "small");
    assert_eq!((&owed_by(&thread)["kind"], &owed_by(&thread)["turn"]), (&json!("fork"), &action["turn"]));
    let fork = follower.launch(&action);
    assert_eq!(owed_by(&thread)["agent_id"], json!(fork.agent));
    desk.advance(15 * 60);
    assert_eq!(owed_by(&thread)["kind"], "main");
    fork.boundary().silent_or_context();
    assert_eq!(owed_by(&thread)["kind"], "fork");
    follower.ended(&fork.turn, "");
    assert_eq!(owed_by(&thread)["kind"], "main");
}

#[test]
fn r053_one_reading_for_state_deliveries_stop_watch_and_refusals() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (held, fork) = follower.fork("held by a running fork");
    let (back, second) = follower.fork("handed back");
    follower.ended(&second.turn, "HAND BACK: no");
    let (over, third) = follower.fork("answered over");
    main.reply(&over, "mine");
    let later = desk.say(&over, "then this");
    let kept = desk.thread("kept back");
    follower.ask_about(&kept);
    let from_person = desk.state();
    assert_eq!(main.ask(&["page", "state"]), from_person, "the same whoever asks");
    let as_fork = fork.leaf(&["page", "state", "--json"]).ok().json();
    assert_eq!(as_fork["owed"], from_person["owed"]);
    assert_eq!(as_fork["threads"], from_person["threads"]);
    let mut owes = main_owes(&desk);
    owes.sort();
    let mut expected = vec![back.clone(), over.clone()];
    expected.sort();
    assert_eq!(owes, expected);
    for (thread, writer) in [(&held, &third), (&kept, &fork), (&over, &third), (&back, &fork)] {
        writer.refused(&["thread", "reply", thread, "not mine"]);
    }
    let told = main.stop().says();
    let mut given: Vec<String> = references(&told).into_iter().map(|r| r[9..].to_owned()).collect();
    given.sort();
    let mut expected = vec![back, later];
    expected.sort();
    assert_eq!(given, expected, "{told}");
    fork.reply(&fork.reference(), "mine");
    assert_eq!(status(&desk, &held), "answered");
}

#[test]
fn r054_a_main_that_recovers_is_told_what_it_owes_and_forks_keep_theirs() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (held, fork) = follower.fork("held by a running fork");
    let mine = desk.thread("mains");
    assert_eq!(follower.line(&follower.ask_about(&mine), "no")["action"], "main");
    let reference = references(&main.boundary().says());
    assert_eq!(reference.len(), 1);
    let kept = desk.thread("kept back");
    follower.ask_about(&kept);
    let told = main.start("compact").says();
    assert_eq!(references(&told), reference, "{told}");
    assert!(main.boundary().context().is_none_or(|t| references(&t).is_empty()), "once");
    assert_eq!((outcome(&desk, &fork.turn).0.as_str(), holder_kind(&desk, &held).as_str()), ("running", "fork"));
    assert_eq!(holder_kind(&desk, &kept), "line_fork");
}

#[test]
fn r053_a_second_page_of_the_session_changes_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("on the first page");
    let slug = desk.page_slug();
    main.run(&["page", "new", "Another"]).ok();
    let state = desk.ask(&["page", "state", "--page", &slug]);
    assert_eq!(state["threads"][0]["id"], json!(thread));
    assert_eq!(state["threads"][0]["holder"]["turn"], json!(fork.turn));
    fork.reply(&fork.reference(), "found, by its reference");
    let state = desk.ask(&["page", "state", "--page", &slug]);
    assert_eq!(state["threads"][0]["status"], "answered");
    let ran = module_command(&main, Some(follower.token()), &["fork", "ended", "--turn", &fork.turn, "--json"], "x");
    assert_eq!(ran.ok().json()["outcome"], "answer");
}
