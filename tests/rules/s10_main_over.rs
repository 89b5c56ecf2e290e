//! Main over a fork: R61–R64.

use crate::support::desk::{Desk, notes, references};
use crate::support::forks::{Follower, forking, holder_kind, main_owes, outcome, status, text, turn};
use serde_json::{Value, json};

#[test]
fn r061_what_a_running_fork_holds_is_nothing_of_mains() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.boundary().says();
    desk.say(&thread, "and the other");
    main.boundary().silent();
    main.prompt("something else").silent();
    main.stop().silent();
    let watch = main.watch();
    watch.parked(300);
    follower.quiet("wake", 200);
    assert!(desk.events("pickup").iter().all(|p| p["turn"] == json!(fork.turn)));
}

#[test]
fn r062_main_may_answer_all_the_same_and_the_next_message_is_its_own() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.boundary().says();
    let reply = main.reply(&thread, "I know it: 42");
    assert_eq!((&reply["by"], &reply["responds"]), (&json!("main"), &json!(thread)));
    assert_eq!(status(&desk, &thread), "answered");
    assert_eq!(turn(&desk, &fork.turn)["state"], "running");
    let next = desk.say(&thread, "and 43?");
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    assert_eq!(references(&main.boundary().says())[0][9..], next);
    assert_eq!(references(&fork.boundary().context().unwrap_or_default()), Vec::<String>::new());
}

#[test]
fn r063_it_says_who_holds_the_thread_that_it_took_it_and_how_to_stop_the_fork() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let line = main.ask(&["thread", "line", &thread, "hm"]);
    let said = notes(&line).join(" ");
    assert!(said.contains(&fork.name), "{said}");
    let start = main.ask(&["task", "start", &thread, "hm"]);
    assert!(notes(&start).join(" ").contains(&fork.name), "{start}");
    assert_eq!(holder_kind(&desk, &thread), "fork", "neither takes it");
    let said = notes(&main.reply(&thread, "42")).join(" ");
    assert!(said.contains(&fork.name), "{said}");
    assert!(said.contains("SendMessage") || said.contains("TaskStop"), "how to stop it, for main: {said}");
    let (other, second) = follower.fork("and this");
    let said = notes(&desk.ask(&["thread", "reply", &other, "42"])).join(" ");
    assert!(said.contains(&format!("leaf fork stop {}", second.name)), "for a person: {said}");
    assert_eq!(desk.events("reply").len(), 2, "it goes through");
}

#[test]
fn r063_a_kept_back_thread_is_taken_by_an_answer_and_its_later_line_is_dropped() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    let ask = follower.ask();
    let reply = main.reply(&thread, "42");
    assert!(!notes(&reply).is_empty(), "it says who holds it: {reply}");
    assert_eq!(follower.sorted(&ask, "small")["action"], "none");
    assert_eq!(desk.events("line"), Vec::<Value>::new());
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r063_nothing_is_said_where_nobody_else_holds_it() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    assert_eq!(follower.line(&follower.ask(), "no")["action"], "main");
    let reply = main.reply(&main.boundary().reference(), "42");
    assert_eq!(notes(&reply), Vec::<String>::new());
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r063_for_main_a_threads_id_is_the_newest_it_picked_up() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let first = desk.thread("seen");
    main.boundary().reference();
    let second = desk.say(&first, "not seen");
    let reply = main.reply(&first, "42");
    assert_eq!(reply["responds"], json!(first), "an answer never covers what main hasn't seen");
    assert_eq!(desk.thread_state(&first)["waiting"], json!([second]));
    assert!(!notes(&reply).is_empty(), "R7");
}

#[test]
fn r063_else_the_newest_waiting_one_and_it_says_so() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, _fork) = follower.fork("look it up");
    let second = desk.say(&thread, "and the other");
    let reply = main.reply(&thread, "42");
    assert_eq!(reply["responds"], json!(second));
    assert!(!notes(&reply).is_empty());
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r063_a_worker_and_a_script_act_as_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.worker_bash(&format!("leaf thread reply {thread} 42")).silent();
    let reply = main.reply(&thread, "42");
    assert_eq!(reply["by"], "main");
    assert!(notes(&reply).join(" ").contains(&fork.name));
    let (other, second) = follower.fork("and this");
    let ran = main.shell(&format!("sh -c '\"$LEAF\" thread reply {other} 42 --json'")).ok();
    assert_eq!(ran.json()["by"], "main");
    assert!(notes(&ran.json()).join(" ").contains(&second.name));
}

#[test]
fn r064_what_an_ended_fork_left_waiting_is_delivered_to_main_with_a_reference_of_its_own() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.boundary().says();
    follower.ended(&fork.turn, "");
    let told = main.boundary().says();
    let reference = references(&told);
    assert_eq!(reference.len(), 1, "{told}");
    assert!(reference[0].ends_with(&thread) && reference[0] != fork.reference(), "{told}");
    assert_eq!(holder_kind(&desk, &thread), "main");
    main.reply(&reference[0], "then I do it");
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r064_also_once_it_lapsed_and_mains_pickup_takes_the_thread() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.boundary().says();
    desk.advance(15 * 60);
    let reference = main.boundary().reference();
    assert_ne!(reference, fork.reference());
    let further = desk.say(&thread, "hello?");
    assert_eq!(references(&main.boundary().says())[0][9..], further);
    fork.refused(&["thread", "reply", &fork.reference(), "late"]);
    let ended = follower.ended(&fork.turn, "late");
    assert_eq!(ended["outcome"], "taken_over");
    assert_eq!(outcome(&desk, &fork.turn), ("ended".into(), json!("taken_over")));
    assert_eq!(text(&desk.thread_state(&thread)["holder"]["kind"]), "main");
}
