//! Naming: R36–R39.

use crate::support::desk::Desk;
use crate::support::forks::{Follower, Fork, Verdict, forking, main_owes, outcome, text, turn, why_of};
use serde_json::{Value, json};

#[test]
fn r036_started_names_the_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    assert_eq!(follower.started(&fork.turn, &fork.agent), "go");
    assert_eq!(turn(&desk, &fork.turn)["agent_id"], json!(fork.agent));
    let named = why_of(&desk, &thread, "named");
    assert_eq!((named.len(), &named[0]["agent"], &named[0]["turn"]), (1, &json!(fork.agent), &json!(fork.turn)));
    assert!(named[0]["by"].is_string(), "named and by what (R5): {}", named[0]);
}

#[test]
fn r036_post_tool_use_of_the_agent_tool_names_the_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    fork.launched().silent_or_context();
    assert_eq!(turn(&desk, &fork.turn)["agent_id"], json!(fork.agent));
    assert!(fork.marked("leaf thread list").contains(&fork.agent));
}

#[test]
fn r036_meta_json_names_the_turn_at_the_first_call_of_any_tool_that_is_read() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    fork.begins().silent_or_context();
    assert_eq!(turn(&desk, &fork.turn)["agent_id"], Value::Null, "SubagentStart names nothing");
    fork.meta();
    let marked = fork.marked("leaf thread list");
    assert_eq!(marked, format!("leaf --agent-id {} thread list", fork.agent));
    assert_eq!(turn(&desk, &fork.turn)["agent_id"], json!(fork.agent));
    fork.shell(&marked).ok();
}

#[test]
fn r036_neither_names_nor_being_the_only_one_name() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let mut other = Fork::stranger(&main);
    other.name = text(&action["name"]);
    other.begins().silent_or_context();
    other.meta();
    other.launched().silent_or_context();
    let _ = other.bash("leaf thread list");
    assert_eq!(turn(&desk, &text(&action["turn"]))["agent_id"], Value::Null);
    assert_eq!(why_of(&desk, &thread, "named"), Vec::<Value>::new());
    // A description in which the turn's id isn't last, or is cut, is none either.
    let turn_id = text(&action["turn"]);
    other.description = format!("{} and more", &turn_id[..15]);
    other.launched().silent_or_context();
    assert_eq!(turn(&desk, &turn_id)["agent_id"], Value::Null);
}

#[test]
fn r036_a_foreground_answer_or_a_failed_call_of_main_names_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    let mut payload = fork.launch_payload();
    payload["tool_response"] = json!({"status": "async_launched"});
    main.hook(&payload).silent_or_context();
    payload["tool_response"] = json!({"agentId": "../../etc"});
    main.hook(&payload).silent_or_context();
    assert_eq!(turn(&desk, &fork.turn)["agent_id"], Value::Null);
}

#[test]
fn r036_a_helper_is_known_by_its_parent_in_meta_json() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let helper = Fork::worker(&main);
    helper.begins().silent_or_context();
    helper.passes("ls");
    helper.meta_below(&fork);
    assert_eq!(helper.marked("leaf thread list"), format!("leaf --agent-id {} thread list", helper.agent));
    helper.denied("bash -c 'leaf thread list'");
    let below = Fork::worker(&main);
    below.meta_below(&helper);
    assert!(below.marked("leaf thread list").contains(&below.agent), "a helper of a helper");
}

#[test]
fn r036_a_helper_is_known_by_the_agent_call_of_a_known_agent() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let helper = Fork::worker(&main);
    let mut payload = helper.launch_payload();
    payload["agent_id"] = json!(fork.agent);
    payload["agent_type"] = json!("fork");
    main.hook(&payload).silent_or_context();
    assert!(helper.marked("leaf thread list").contains(&helper.agent));
    let worker = Fork::worker(&main);
    worker.launched().silent_or_context();
    worker.passes("leaf thread list");
}

#[test]
fn r037_naming_twice_with_the_same_agent_changes_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    assert_eq!(follower.started(&fork.turn, &fork.agent), "go");
    fork.launched().silent_or_context();
    fork.marked("leaf thread list");
    assert_eq!(why_of(&desk, &thread, "named").len(), 1);
    assert_eq!(turn(&desk, &fork.turn)["agent_id"], json!(fork.agent));
}

#[test]
fn r037_of_two_agents_the_one_with_tool_use_evidence_wins() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let real = Fork::spawned(&main, &action);
    let wrong = Fork::stranger(&main);
    assert_eq!(follower.started(&real.turn, &wrong.agent), "go");
    real.launched().silent_or_context();
    assert_eq!(turn(&desk, &real.turn)["agent_id"], json!(real.agent));
    let named: Vec<Value> = why_of(&desk, &thread, "named").into_iter().map(|n| n["agent"].clone()).collect();
    assert_eq!(named, [json!(wrong.agent), json!(real.agent)], "both are journalled");
    real.reply(&real.reference(), "found");
    wrong.denied("leaf thread list");
    assert_eq!(follower.started(&real.turn, &wrong.agent), "stop", "another agent has the turn (R38)");
    assert_eq!(turn(&desk, &real.turn)["agent_id"], json!(real.agent));
}

#[test]
fn r038_a_turn_unnamed_for_sixty_seconds_ends_as_failed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let id = text(&action["turn"]);
    desk.advance(59);
    main.boundary().silent_or_context();
    assert_eq!(outcome(&desk, &id).0, "running");
    desk.advance(1);
    assert!(main.boundary().says().contains(&thread));
    assert_eq!(outcome(&desk, &id), ("ended".into(), json!("hand_back")));
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r038_begun_but_unnamed_ends_as_well() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    fork.begins().silent_or_context();
    desk.advance(60);
    main.boundary().says();
    assert_eq!(outcome(&desk, &fork.turn).0, "ended");
}

#[test]
fn r038_started_for_an_ended_turn_stops_its_agent_which_is_known_from_then_on() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    desk.advance(60);
    main.boundary().says();
    assert_eq!(follower.started(&fork.turn, &fork.agent), "stop");
    fork.denied("leaf thread list");
    fork.passes("cargo test");
}

#[test]
fn r038_naming_an_ended_turn_by_meta_json_makes_its_agent_known() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    follower.failed(&fork.turn, "gone");
    fork.meta();
    fork.denied(&format!("leaf thread reply {thread} 'never mains'"));
    assert_eq!(outcome(&desk, &fork.turn).0, "ended");
    assert_eq!(desk.events("reply"), Vec::<Value>::new());
}

#[test]
fn r038_started_for_a_turn_that_does_not_exist_stops() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    desk.thread("a page");
    let ran = follower.module(&["fork", "started", "0123456789abcdef", "a2d3fa93fc9d30ff5", "--json"], "");
    if ran.code == 0 {
        assert_eq!(ran.json()["action"], "stop");
    }
    for agent in ["", "a b", "../x", &"a".repeat(129)] {
        assert_ne!(follower.module(&["fork", "started", "0123456789abcdef", agent], "").code, 0, "{agent:?}");
    }
}

#[test]
fn r039_while_a_turn_awaits_its_agent_a_fork_that_cannot_be_read_runs_it_again() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    fork.begins().silent_or_context();
    let reason = fork.denied("leaf thread list");
    assert!(reason.contains("again"), "{reason}");
    fork.denied("cd x && leaf thread list");
    fork.passes("cargo test");
    main.pre_bash("leaf thread list").silent();
    Fork::worker(&main).passes("leaf thread list");
    fork.meta();
    assert!(matches!(fork.bash("leaf thread list"), Verdict::Rewritten(_)));
}

#[test]
fn r039_a_broken_meta_json_cannot_be_read() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    fork.meta();
    std::fs::write(fork.record("meta.json"), "{\"agentType\":").expect("meta.json");
    let reason = fork.denied("leaf thread list");
    assert!(reason.contains("again"), "{reason}");
}

#[test]
fn r039_once_a_turn_ended_unnamed_its_late_agent_is_never_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    follower.failed(&fork.turn, "no answer from the client");
    fork.denied(&format!("leaf thread reply {thread} 'late'"));
    main.pre_bash("leaf thread list").silent();
}

#[test]
fn r039_where_no_turn_awaits_a_fork_of_mains_own_passes() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, _fork) = follower.fork("look it up");
    Fork::stranger(&main).passes("leaf thread list");
}

#[test]
fn r039_a_fork_with_a_meta_json_of_its_own_passes_while_one_is_awaited() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, _action) = follower.take("look it up");
    let other = Fork::stranger(&main);
    other.meta();
    other.passes("leaf thread list");
}
