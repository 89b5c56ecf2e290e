//! What a fork may write: R55–R60.

use crate::support::desk::{Desk, Ran, references};
use crate::support::forks::{Follower, Fork, forking, holder_kind, status, text, turn};
use serde_json::{Value, json};

/// The ways to write on a message of another's.
const WAYS: [&[&str]; 5] = [
    &["thread", "reply", "REF", "mine"],
    &["thread", "reply", "THREAD", "mine"],
    &["thread", "reply", "THREAD", "mine", "--unasked"],
    &["thread", "line", "THREAD", "at it"],
    &["task", "start", "THREAD", "at it"],
];

#[track_caller]
fn all_refused(desk: &Desk, fork: &Fork<'_, '_>, thread: &str, reference: &str) {
    let before = desk.log();
    for way in WAYS {
        let args: Vec<&str> = way
            .iter()
            .map(|a| match *a {
                "REF" => reference,
                "THREAD" => thread,
                other => other,
            })
            .collect();
        fork.refused(&args);
        assert_eq!(desk.log(), before, "{args:?} appends nothing");
    }
}

#[test]
fn r055_what_its_turn_holds() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.leaf(&["task", "start", &thread, "looking"]).ok();
    fork.leaf(&["thread", "line", &thread, "nearly"]).ok();
    assert_eq!(desk.thread_state(&thread)["line"], "nearly");
    fork.reply(&fork.reference(), "found");
    assert_eq!(status(&desk, &thread), "answered");
    assert_eq!(desk.events("reply")[0]["turn"], json!(fork.turn));
}

#[test]
fn r055_not_another_forks_thread() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("mine");
    let (other, theirs) = follower.fork("theirs");
    all_refused(&desk, &fork, &other, &theirs.reference());
    theirs.reply(&theirs.reference(), "found");
}

#[test]
fn r055_not_what_is_kept_back_or_mains_or_untaken() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let early = desk.thread("nobody took this");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("mine");
    let kept = desk.thread("kept back");
    assert_eq!(holder_kind(&desk, &kept), "line_fork");
    all_refused(&desk, &fork, &kept, &format!("00000000:{kept}"));
    all_refused(&desk, &fork, &early, &format!("00000000:{early}"));
    let reference = references(&main.boundary().says()).into_iter().find(|r| r.ends_with(&early)).expect("a reference");
    all_refused(&desk, &fork, &early, &reference);
    main.reply(&reference, "mine");
}

#[test]
fn r055_a_further_message_that_nobody_picked_up_is_its_own() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let second = desk.say(&thread, "and the other");
    let reply = fork.leaf(&["thread", "reply", &fork.reference(), "both", "--json"]).ok().json();
    assert_eq!(reply["responds"], json!(thread));
    assert_eq!(desk.thread_state(&thread)["waiting"], json!([second]), "R7: it still waits");
    assert!(!reply["notes"].as_array().expect("notes").is_empty(), "and the writer is told: {reply}");
}

#[test]
fn r056_an_unasked_message_is_checked_as_an_answer_to_the_newest() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.leaf(&["thread", "reply", &thread, "a first find", "--unasked"]).ok();
    assert_eq!(status(&desk, &thread), "on_it", "it answers nothing");
    assert_eq!(desk.events("reply")[0]["responds"], Value::Null);
    main.reply(&thread, "mine");
    desk.say(&thread, "then this");
    fork.refused(&["thread", "reply", &thread, "a second find", "--unasked"]);
    assert_eq!(desk.events("reply").len(), 2);
}

#[test]
fn r057_it_may_repeat_its_own_answer_and_not_anothers() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let first = fork.reply(&fork.reference(), "found");
    let again = fork.reply(&fork.reference(), "found");
    assert_eq!(first["id"], again["id"]);
    fork.refused(&["thread", "reply", &fork.reference(), "found something else"]);
    assert_eq!(desk.events("reply").len(), 1);
    let (other, second) = follower.fork("and this");
    main.reply(&other, "mains answer");
    // With its own delivery's reference, and even with main's own words.
    second.refused(&["thread", "reply", &second.reference(), "mine"]);
    second.refused(&["thread", "reply", &second.reference(), "mains answer"]);
    assert_eq!(desk.events("reply").len(), 2);
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r057_a_later_run_of_the_same_agent_repeats_the_earlier_ones_answer() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let first = fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    desk.say(&thread, "and?");
    let again = follower.resume(&follower.sorted(&follower.ask_about(&thread), "small"));
    assert_eq!(again.reply(&fork.reference(), "found")["id"], first["id"], "R10: counts as its own");
    assert_eq!(desk.events("reply").len(), 1);
}

#[test]
fn r058_once_another_took_the_thread_all_of_it_is_refused() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.reply(&thread, "I know it");
    desk.say(&thread, "and the other");
    all_refused(&desk, &fork, &thread, &fork.reference());
    let told = fork.boundary().context().unwrap_or_default();
    assert_eq!(references(&told), Vec::<String>::new(), "nor a pickup: {told}");
    assert_eq!(desk.events("pickup").len(), 1);
}

#[test]
fn r058_also_where_main_picked_it_up_from_a_lapsed_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.advance(16 * 60);
    let reference = main.boundary().reference();
    all_refused(&desk, &fork, &thread, &fork.reference());
    all_refused(&desk, &fork, &thread, &reference);
}

#[test]
fn r059_it_acknowledges_only_deliveries_made_for_its_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("mine");
    let mut text = "long ".repeat(4_000);
    text.truncate(19_990);
    desk.person_with_input(&["thread", "new", "-"], text.as_bytes()).ok();
    desk.advance(31);
    let told = main.boundary().says();
    let pointer = pointer_in(&told);
    fork.refused(&["delivery", "ack", &pointer]);
    assert!(desk.events("pickup").iter().all(|p| p["by"] == "fork"), "nothing was picked up for main");
    main.run(&["delivery", "ack", &pointer]).ok();
    assert!(desk.events("pickup").iter().any(|p| p["by"] == "main"));
}

/// The id after `leaf delivery ack`.
#[track_caller]
fn pointer_in(told: &str) -> String {
    let at = told.find("delivery ack ").unwrap_or_else(|| panic!("a pointer: {told}"));
    told[at + 13..].chars().take(8).collect()
}

#[test]
fn r059_it_ends_only_todos_that_its_agent_opened_or_started() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let foreign = text(&desk.ask(&["task", "open", &thread, "the users own"])["id"]);
    fork.refused(&["task", "end", &foreign, "done"]);
    assert_eq!(desk.events("todo_end"), Vec::<Value>::new());
    fork.leaf(&["thread", "reply", &fork.reference(), "found", "--todo", "write it down"]).ok();
    let todos = desk.events("todo");
    let own = text(&todos.last().expect("a to-do")["id"]);
    fork.leaf(&["task", "end", &own, "dropped", "not needed"]).ok();
    assert_eq!(desk.events("todo_end").len(), 1);
}

#[test]
fn r060_the_desks_own_verbs_are_refused_to_it() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let (_, other) = follower.fork("and this");
    let slug = desk.page_slug();
    let before = desk.log();
    let files = desk.home();
    let listed = || std::fs::read_dir(&files).expect("home").count();
    let at_home = listed();
    for args in [
        vec!["page", "claim", &slug],
        vec!["thread", "resolve", &thread],
        vec!["trust"],
        vec!["install"],
        vec!["uninstall"],
        vec!["fork", "stop", &other.name],
        vec!["fork", "stop", &fork.name],
        vec!["thread", "new", "as the user"],
        vec!["thread", "say", &thread, "as the user"],
        vec!["thread", "withdraw", &thread],
    ] {
        fork.refused(&args);
    }
    assert_eq!(desk.log(), before);
    assert_eq!(listed(), at_home);
    follower.quiet("stop", 200);
    assert_eq!(turn(&desk, &other.turn)["state"], "running");
}

/// A headless run's commands bear no mark: its turn is in its environment (R118).
#[test]
fn r060_a_headless_run_installs_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let listed = || std::fs::read_dir(desk.home()).expect("home").count();
    let before = listed();
    for args in [["install"], ["uninstall"]] {
        let mut command = desk.command(&args);
        command.env("LEAF_TURN", "0123456789abcdef").env("LEAF_SESSION", main.id());
        let ran = Ran::from(command.output().expect("leaf runs"));
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err().contains("installing is the person's"), "{ran:?}");
    }
    assert_eq!(listed(), before);
}

#[test]
fn r060_reading_is_everyones() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    for args in [
        vec!["thread", "list"],
        vec!["thread", "show", &thread],
        vec!["page", "state", "--json"],
        vec!["page", "log"],
        vec!["page", "list"],
        vec!["task", "list"],
        vec!["fork", "list"],
        vec!["why", &thread],
        vec!["status"],
    ] {
        fork.leaf(&args).ok();
    }
}
