//! Guard and ways to run: R116, R118–R120.

use std::collections::BTreeSet;

use crate::support::desk::{Desk, id};
use crate::support::forks::{Follower, Fork, Verdict, forking, holder_kind, outcome, text, turns, verdict, why_of};
use serde_json::{Value, json};

#[test]
fn r116_a_known_agent_makes_no_forks() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let agent = |kind: &str| json!({"description": "d", "prompt": "p", "subagent_type": kind});
    let reason = fork.pre("Agent", agent("fork")).denied();
    assert!(!reason.is_empty());
    assert!(matches!(verdict(&fork.pre("Agent", agent("general-purpose"))), Verdict::Passed));
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    helper.marked("leaf thread list");
    helper.pre("Agent", agent("fork")).denied();
    follower.ended(&fork.turn, "");
    fork.pre("Agent", agent("fork")).denied();
    // Main's own, and an unknown agent's, are their own matter.
    main.hook(&main.payload("PreToolUse.main.Agent.spawn")).silent();
    assert!(matches!(verdict(&Fork::worker(&main).pre("Agent", agent("fork"))), Verdict::Passed));
}

#[test]
fn r116_a_helper_acts_in_its_forks_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let (other, theirs) = follower.fork("and this");
    let helper = Fork::worker(&main);
    helper.begins().silent_or_context();
    helper.meta_below(&fork);
    let command = format!("leaf thread reply {} 'from the helper'", fork.reference());
    assert_eq!(helper.marked(&command), format!("leaf --agent-id {} {}", helper.agent, &command[5..]));
    helper.call(&command).ok();
    let reply = &desk.events("reply")[0];
    assert_eq!((&reply["turn"], &reply["by"], &reply["thread"]), (&json!(fork.turn), &json!("fork"), &json!(thread)));
    helper.refused(&["thread", "reply", &theirs.reference(), "not mine"]);
    assert_eq!(turns(&desk).len(), 2, "it has no turn of its own");
    follower.ended(&fork.turn, "done");
    helper.denied("leaf thread list");
    assert_eq!(holder_kind(&desk, &other), "fork");
}

#[test]
fn r116_a_helper_is_guarded_the_same() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    for command in ["env leaf status", "cd x; leaf thread list", "leaf thread new x", "leaf fork ended --agent x"] {
        helper.denied(command);
    }
    helper.refused(&["thread", "resolve", &thread]);
    helper.refused(&["fork", "stop", &fork.name]);
}

#[test]
fn r118_a_headless_run_opens_no_session_of_its_own() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let before: BTreeSet<_> = sessions(&desk);
    let headless = desk.session("headless").unattended();
    headless.set_env("LEAF_TURN", &fork.turn);
    headless.set_env("LEAF_SESSION", main.id());
    headless.hook(&headless.payload("SessionStart.main.startup")).silent_or_context();
    headless.prompt("the question").silent_or_context();
    assert_eq!(sessions(&desk), before);
    desk.say(&thread, "a further message");
    assert_eq!(headless.boundary().context(), None, "it gets no further messages");
    headless.stop().silent();
    assert_eq!(desk.state()["session"], json!(main.id()));
}

#[test]
fn r118_a_headless_runs_commands_act_in_its_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let headless = desk.session("headless").unattended();
    headless.set_env("LEAF_TURN", &fork.turn);
    headless.set_env("LEAF_SESSION", main.id());
    headless.run(&["thread", "reply", &fork.reference(), "found"]).ok();
    let reply = desk.events("reply").pop().expect("a reply");
    assert_eq!(
        (&reply["turn"], &reply["by"], &reply["session"]),
        (&json!(fork.turn), &json!("fork"), &json!(main.id()))
    );
    assert_eq!(desk.thread_state(&thread)["status"], "answered");
    follower.ended(&fork.turn, "done");
    headless.run(&["thread", "reply", &thread, "more", "--unasked"]).refused();
}

#[test]
fn r118_a_turn_that_is_not_there_is_nobodys_and_never_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let thread = desk.thread("a question");
    let headless = desk.session("headless").unattended();
    headless.set_env("LEAF_TURN", "0123456789abcdef");
    headless.set_env("LEAF_SESSION", main.id());
    headless.run(&["thread", "reply", &thread, "x"]).refused();
    headless.run(&["thread", "new", "as the user"]).refused();
    assert_eq!(desk.log().len(), 1);
}

fn sessions(desk: &Desk) -> BTreeSet<String> {
    let entries = std::fs::read_dir(desk.state_dir().join("sessions")).expect("sessions");
    entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn r119_a_spawn_names_no_model_and_no_mode() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let keys: BTreeSet<&str> = action.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["action", "turn", "name", "description", "prompt"]));
}

#[test]
fn r119_a_turn_limit_that_cuts_it_is_a_hand_back_that_says_so() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    follower.failed(&fork.turn, "Reached max turns (40)");
    assert_eq!(outcome(&desk, &fork.turn), ("ended".into(), json!("hand_back")));
    assert!(main.boundary().says().contains("max turns"));
}

#[test]
fn r120_the_entry_that_names_a_run_records_what_caused_it() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    fork.begins().silent_or_context();
    fork.launched().silent_or_context();
    follower.started(&fork.turn, &fork.agent);
    let named = why_of(&desk, &thread, "named");
    assert_eq!(named.len(), 1, "{named:?}");
    assert_eq!((&named[0]["prompt"], &named[0]["tool_use"]), (&json!(main.prompt_id()), &json!(fork.tool_use())));
    let all = desk.ask(&["why", &thread]);
    for entry in all.as_array().expect("entries").iter().filter(|e| e["kind"] != "named") {
        assert_eq!((&entry["prompt"], &entry["tool_use"]), (&Value::Null, &Value::Null), "that alone: {entry}");
    }
}

#[test]
fn r120_where_not_given_it_records_none() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    assert_eq!(follower.started(&text(&action["turn"]), "a00000000000000f1"), "go");
    let named = why_of(&desk, &thread, "named");
    assert_eq!((&named[0]["prompt"], &named[0]["tool_use"]), (&Value::Null, &Value::Null));
}

#[test]
fn r120_the_tree_is_read_off_the_journal() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (first, fork) = follower.fork("look it up");
    let (second, _) = follower.fork("and this");
    follower.ended(&fork.turn, "done");
    let tree = desk.person(&["fork", "tree"]).ok().out();
    for name in [format!("leaf-{first}"), format!("leaf-{second}")] {
        assert!(tree.contains(&name), "{name}: {tree}");
    }
    let _ = std::fs::remove_file(crate::support::forks::session_dir(&desk, &main).join("state.json"));
    assert_eq!(desk.person(&["fork", "tree"]).ok().out(), tree);
    assert!(desk.ask(&["fork", "tree"]).is_array() || desk.ask(&["fork", "tree"]).is_object());
}

#[test]
fn r122_a_fork_is_seen_and_stopped_by_name() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    assert!(desk.person(&["fork", "list"]).ok().out().contains(&fork.name));
    assert!(desk.person(&["status"]).ok().out().contains(&fork.name));
    desk.person(&["fork", "stop", &fork.name]).ok();
    assert_eq!(follower.expect("stop")["agent_id"], json!(fork.agent));
    assert_eq!(follower.failed(&fork.turn, "stopped")["outcome"], "hand_back");
    desk.person(&["fork", "stop", "leaf-00000000"]).refused();
    let listed = desk.ask(&["fork", "list"]);
    assert!(listed.is_array() || listed.is_object());
    let _ = id(&desk.events("pickup")[0]);
}
