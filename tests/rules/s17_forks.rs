//! Sessions, lanes and pages, with forks: R106, R109, R111, R112.

use std::time::Duration;

use crate::support::desk::{Desk, Session, references};
use crate::support::forks::{
    Follower, Fork, Verdict, forking, holder_kind, main_owes, outcome, session_dir, status, text, turns, verdict,
    why_of,
};
use serde_json::{Value, json};

#[track_caller]
fn cleared<'d>(desk: &'d Desk, main: &Session<'d>) -> Session<'d> {
    main.end("clear").silent_or_context();
    let next = desk.session_of(&main.client, "t");
    next.set_env("LEAF_FORK_WORK", "on");
    next.start("clear").silent_or_context();
    next.prompt("go on").silent_or_context();
    next
}

#[test]
fn r106_the_newer_follower_takes_the_lane_and_the_older_leaves() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let older = Follower::start(&main);
    let newer = Follower::start(&main);
    older.left();
    let thread = desk.thread("a question");
    assert_eq!(newer.ask().thread, thread);
    assert_ne!(older.token(), newer.token());
    let said = r#"{"line":"On it.","sort":"now"}"#;
    let ran = crate::support::forks::module_command(&main, Some(older.token()), &["fork", "line", &thread], said);
    assert_ne!(ran.code, 0, "the older one's token is none: {ran:?}");
    assert_eq!(newer.module(&["fork", "line", &thread, "--json"], said).ok().json()["action"], "main");
}

#[test]
fn r106_it_leaves_with_its_client() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    follower.lives(100);
    main.client.kill();
    follower.left();
    assert_eq!(desk.ask(&["page", "list"]).as_array().map(Vec::len), Some(0));
}

#[test]
fn r106_it_leaves_as_its_output_closes() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    // The reader leaves after the token; the follower with it.
    let ran = main.shell("\"$LEAF\" follow | head -n 1");
    assert!(ran.ok().json()["token"].is_string());
    let thread = desk.thread("nobody follows");
    assert_ne!(holder_kind(&desk, &thread), "line_fork");
}

#[test]
fn r106_it_follows_its_client_across_clear_and_another_start_of_its_own_is_no_second() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let next = cleared(&desk, &main);
    let thread = desk.thread("after");
    assert_eq!(follower.ask().thread, thread);
    let second = Follower::start(&next);
    follower.left();
    second.lives(100);
}

#[test]
fn r106_an_unattended_sessions_watch_leaves_and_its_follower_runs() {
    let desk = Desk::new();
    let main = desk.session("s").unattended();
    main.set_env("LEAF_FORK_WORK", "on");
    let main = main.working();
    let watch = main.watch();
    watch.left();
    let follower = Follower::start(&main);
    follower.lives(200);
    let ran = desk.ask(&["thread", "new", "look it up", "--session", main.id()]);
    assert_eq!(follower.ask().thread, text(&ran["id"]));
}

#[test]
fn r106_at_the_stop_of_an_unattended_main_forks_hand_back_into_that_stop() {
    let desk = Desk::new();
    let main = desk.session("s").unattended();
    main.set_env("LEAF_FORK_WORK", "on");
    let main = main.working();
    let follower = Follower::start(&main);
    let new = |text: &str| -> String {
        let event = desk.ask(&["thread", "new", text, "--session", main.id()]);
        event["id"].as_str().expect("an id").to_owned()
    };
    let taken = new("look it up");
    let fork = follower.launch(&follower.sorted(&follower.ask_about(&taken), "small"));
    let kept = new("kept back");
    follower.ask_about(&kept);
    main.boundary().silent_or_context();
    let told = stop_unattended(&main).says();
    let mut given: Vec<String> = references(&told).into_iter().map(|r| r[9..].to_owned()).collect();
    given.sort();
    let mut expected = vec![taken.clone(), kept];
    expected.sort();
    assert_eq!(given, expected, "{told}");
    assert_eq!(outcome(&desk, &fork.turn), ("ended".into(), json!("hand_back")));
    assert_eq!(why_of(&desk, &taken, "ended")[0]["evidence"], "client");
}

#[track_caller]
fn stop_unattended(main: &Session<'_>) -> crate::support::desk::HookRan {
    main.hook(&main.payload("Stop.main"))
}

#[test]
fn r109_after_clear_a_fork_that_lives_on_is_refused_and_never_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let next = cleared(&desk, &main);
    let there = fork.under(&next);
    there.meta();
    // Its hooks carry the new session's id now.
    there.denied("leaf thread list");
    there.denied(&format!("leaf thread reply {} 'from the other side'", fork.reference()));
    there.denied("bash -c 'leaf thread list'");
    there.passes("cargo test");
    there.boundary().silent();
    there.stops("done").silent();
    assert_eq!(desk.events("reply"), Vec::<Value>::new());
    assert_eq!(main_owes(&desk), [thread.as_str()], "the pages came over, with what is owed");
    let pickup = desk.events("pickup").last().expect("a pickup").clone();
    assert_eq!((&pickup["by"], &pickup["session"]), (&json!("main"), &json!(next.id())), "the new prompt delivered it");
}

#[test]
fn r109_an_agent_first_seen_after_clear_that_a_turn_of_this_client_awaited_is_never_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    let next = cleared(&desk, &main);
    let there = fork.under(&next);
    there.denied("leaf thread list");
    there.meta();
    there.denied("leaf thread list");
}

#[test]
fn r109_unread_lines_come_over() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    main.end("clear").silent_or_context();
    let next = desk.session_of(&main.client, "t");
    next.set_env("LEAF_FORK_WORK", "on");
    let started = next.start("clear").context().unwrap_or_default();
    let prompted = next.prompt("go on").context().unwrap_or_default();
    let told = format!("{started}\n{prompted}\n{}", next.boundary().context().unwrap_or_default());
    assert_eq!(told.matches(&fork.name).count(), 1, "{told}");
}

#[test]
fn r109_its_ends_are_judged_under_the_new_session() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    let _next = cleared(&desk, &main);
    let said = follower.module(&["fork", "ended", "--turn", &fork.turn, "--json"], "done");
    if said.code == 0 {
        assert_eq!(said.json()["outcome"], "answer", "it had ended: {said:?}");
    }
    assert_eq!(status(&desk, &thread), "answered");
    assert_eq!(main_owes(&desk), Vec::<String>::new());
}

#[test]
fn r111_a_claim_moves_a_page_and_its_forks_hand_back() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let kept = desk.thread("kept back");
    follower.ask_about(&kept);
    let slug = desk.page_slug();
    let other = forking(&desk, "t");
    other.run(&["page", "claim", &slug]).ok();
    assert_eq!(desk.state()["session"], json!(other.id()));
    let mut owes = main_owes(&desk);
    owes.sort();
    let mut expected = vec![thread.clone(), kept.clone()];
    expected.sort();
    assert_eq!(owes, expected, "what is owed moves");
    let told = other.boundary().says();
    let mut given: Vec<String> = references(&told).into_iter().map(|r| r[9..].to_owned()).collect();
    given.sort();
    assert_eq!(given, expected, "{told}");
    fork.refused(&["thread", "reply", &fork.reference(), "too late"]);
    let again = follower.module(&["fork", "ended", "--turn", &fork.turn, "--json"], "x").ok().json();
    assert_eq!(again["outcome"], "hand_back", "ended as the page left: {again}");
    main.boundary().context().into_iter().for_each(|t| assert_eq!(references(&t), Vec::<String>::new(), "{t}"));
}

#[test]
fn r112_another_clients_hooks_on_the_same_session_deliver_nothing_and_open_no_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let thread = desk.thread("mains");
    follower.line(&follower.ask_about(&thread), "no");
    // The same session id in another process that never had a SessionStart: not the session's client.
    let stray = desk.session("s");
    assert_eq!(stray.id(), main.id());
    let journal = || std::fs::read(session_dir(&desk, &main).join("journal.jsonl")).expect("the journal");
    let before = journal();
    stray.boundary().silent();
    stray.prompt("hello").silent();
    stray.stop().silent();
    assert_eq!(journal(), before);
    // Its agents are still marked.
    let there = fork.under(&stray);
    assert!(matches!(verdict(&there.pre("Bash", json!({"command": "leaf thread list"}))), Verdict::Rewritten(_)));
    assert!(references(&main.boundary().says()).iter().any(|r| r.ends_with(&thread)));
}

#[test]
fn r112_the_newest_session_starts_client_is_the_sessions() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let again = desk.session("s");
    again.set_env("LEAF_FORK_WORK", "on");
    again.start("resume").silent_or_context();
    again.prompt("go on").silent_or_context();
    assert_eq!(why_of(&desk, &thread, "ended")[0]["evidence"], "generation");
    main.boundary().silent();
    assert!(turns(&desk).is_empty());
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    fork.refused(&["thread", "reply", &fork.reference(), "too late"]);
    assert_eq!(text(&desk.state()["session"]), again.id());
    std::thread::sleep(Duration::from_millis(10));
}
