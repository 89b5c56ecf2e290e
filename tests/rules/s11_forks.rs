//! Who a command acts as, with forks: R65–R74.

use std::fs;

use crate::support::desk::{Desk, id};
use crate::support::forks::{
    Follower, Fork, Verdict, forking, main_owes, module_command, outcome, session_dir, text, turn, verdict,
};
use serde_json::{Value, json};

#[test]
fn r065_every_tool_that_takes_a_shell_command_is_read() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    for tool in ["Bash", "Monitor"] {
        let hook = fork.pre(tool, json!({"command": "leaf thread list", "description": "x", "timeout": 5}));
        assert!(matches!(verdict(&hook), Verdict::Rewritten(_)), "{tool}: {hook:?}", hook = hook.ran);
    }
    for tool in ["Bash", "PowerShell", "Monitor"] {
        fork.pre(tool, json!({"command": "cd x; leaf thread list"})).denied();
        fork.pre(tool, json!({"command": "leaf fork line 01234567"})).denied();
    }
    fork.pre("PowerShell", json!({"command": "leaf thread list"})).denied();
}

#[test]
fn r066_the_order_of_the_tests() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    // R70 first: an awaited fork is told that, not to run it again.
    let reason = fork.denied("leaf thread new x");
    assert!(!reason.contains("again"), "{reason}");
    // Naming next: the very call that names is marked.
    fork.meta();
    fork.marked("leaf thread list");
    // An unknown agent passes where none is awaited.
    Fork::stranger(&main).passes("leaf thread list");
    Fork::worker(&main).passes("leaf thread reply 01234567 x");
}

#[test]
fn r067_the_mark_and_the_rest_byte_for_byte() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let rests = [
        " thread list",
        "",
        "  thread   reply 00000000:11111111 'two  spaces'",
        " thread reply 00000000:11111111 \"it's $5\" ",
        " thread reply 00000000:11111111 - <<'E'\nline 1\n  line 2 with leaf in it\n$(not run)\nE",
        " thread reply 00000000:11111111 'ünïcödé 🦎'",
        " page state --json | jq .owed",
        " thread list > /tmp/out 2>&1",
        " thread list && echo done",
        "\tthread list",
        " thread reply 00000000:11111111 'leaf thread new is a command'",
    ];
    for rest in rests {
        let command = format!("leaf{rest}");
        assert_eq!(fork.marked(&command), format!("leaf --agent-id {}{rest}", fork.agent), "{command:?}");
    }
}

#[test]
fn r067_the_whole_input_is_kept_and_no_permission_is_granted() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let input = json!({"command": "leaf thread list", "description": "d", "timeout": 9000, "run_in_background": true, "new": [1]});
    let hook = fork.pre("Bash", input.clone());
    let output = &hook.answer.expect("an answer")["hookSpecificOutput"];
    let mut expected = input;
    expected["command"] = json!(format!("leaf --agent-id {} thread list", fork.agent));
    assert_eq!(output["updatedInput"], expected);
    assert_eq!(output.get("permissionDecision"), None);
}

#[test]
fn r067_it_acts_in_the_agents_open_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let (other, second) = follower.fork("and this");
    second.reply(&second.reference(), "b");
    fork.reply(&fork.reference(), "a");
    for (thread, fork) in [(thread, fork), (other, second)] {
        let reply = desk.events("reply").into_iter().find(|r| r["thread"] == json!(thread)).expect("a reply");
        assert_eq!((&reply["turn"], &reply["agent"]), (&json!(fork.turn), &json!(fork.agent)));
    }
}

#[test]
fn r068_a_known_agent_without_an_open_turn_is_never_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    for command in ["leaf thread list", "leaf page state --json", "env leaf status", "bash -c 'leaf thread list'"] {
        let reason = fork.denied(command);
        assert!(!reason.is_empty(), "{command}");
    }
    fork.denied(&format!("leaf thread reply {thread} x --unasked"));
    for command in ["cargo test", "cd /src/leaf && ls", "cat leaf-threads/leaf.rs"] {
        fork.passes(command);
    }
}

#[test]
fn r068_a_marked_command_whose_turn_ended_meanwhile_exits_1() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let marked = fork.marked(&format!("leaf thread reply {} 'too late'", fork.reference()));
    let reading = fork.marked("leaf page state --json");
    follower.failed(&fork.turn, "stopped");
    fork.shell(&marked).refused();
    assert_eq!(fork.shell(&reading).code, 1, "whatever it is");
    assert_eq!(desk.events("reply"), Vec::<Value>::new());
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r068_a_mark_that_no_hook_ever_gave_is_refused() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.run(&["--agent-id", "a0000000000000000", "thread", "reply", &thread, "x"]).refused();
    assert_ne!(main.run(&["--agent-id", "", "thread", "list"]).code, 0);
    assert_ne!(main.run(&["--agent-id", "../x", "thread", "list"]).code, 0);
    assert_eq!(desk.events("reply"), Vec::<Value>::new());
    assert_eq!(turn(&desk, &fork.turn)["state"], "running");
}

#[test]
fn r069_leaf_anywhere_but_as_the_one_leading_command_is_denied() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let denied = [
        "cd x && leaf thread list",
        "true; leaf thread list",
        "leaf thread list; leaf task list",
        "leaf thread list | leaf task list",
        "(leaf thread list)",
        "{ leaf thread list; }",
        "if true; then leaf thread list; fi",
        "for i in 1; do leaf thread list; done",
        "echo $(leaf thread list)",
        "echo `leaf thread list`",
        "cat <(leaf thread list)",
        "leaf thread reply 0:1 \"$(leaf thread list)\"",
        "env leaf thread list",
        "env A=1 leaf thread list",
        "A=1 leaf thread list",
        "command leaf thread list",
        "exec leaf thread list",
        "timeout 5 leaf thread list",
        "nohup leaf thread list",
        "nice -n 5 leaf thread list",
        "echo list | xargs leaf thread",
        "bash -c 'leaf thread list'",
        "sh -c \"leaf thread list\"",
        "eval leaf thread list",
        "eval 'leaf thread list'",
        "/usr/bin/leaf thread list",
        "./leaf thread list",
        "~/bin/leaf thread list",
        "l'ea'f thread list",
        "le\\af thread list",
        "\"leaf\" thread list",
        "$'leaf' thread list",
        "$'\\x6ceaf' thread list",
        "le\\\naf thread list",
        "bash <<'E'\nleaf thread list\nE",
        "bash <<E\nleaf thread list\nE",
        "python3 -c 'import os; os.system(\"leaf thread list\")'",
        "l=leaf; $l thread list",
        "l{ea,}f thread list",
        "find . -exec leaf thread list ';'",
        "echo 'leaf thread list' | sh",
        "alias x=leaf; x thread list",
        "f() { leaf thread list; }; f",
        "leaf thread list & leaf task list",
    ];
    for command in denied {
        let reason = fork.denied(command);
        assert!(reason.contains("<<"), "the denial first offers a quoted heredoc: {command}: {reason}");
    }
}

#[test]
fn r069_what_does_not_run_it_passes() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    for command in [
        "cd /src/leaf",
        "cd /src/leaf && cargo build",
        "cargo test -p leaf-threads",
        "rg -n x leaf.rs",
        "cat src/leaf.rs",
        "leafy thread list",
        "git log --oneline",
        "ls /src/leaflet",
        "",
    ] {
        fork.passes(command);
    }
}

#[test]
fn r070_a_known_agents_plumbing_and_users_verbs_are_denied_before_it_is_marked() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    for command in [
        format!("leaf --agent-id {} thread list", fork.agent),
        "leaf hook".into(),
        "leaf watch".into(),
        "leaf follow".into(),
        "leaf turn ended".into(),
        format!("leaf fork line {thread}"),
        format!("leaf fork started {} {}", fork.turn, fork.agent),
        format!("leaf fork ended --turn {}", fork.turn),
        format!("leaf fork ended --agent {}", fork.agent),
        "leaf thread new x".into(),
        format!("leaf thread say {thread} x"),
        format!("leaf thread withdraw {thread}"),
        "leaf trust".into(),
    ] {
        fork.denied(&command);
        main.pre_bash(&command).denied();
        Fork::worker(&main).denied(&command);
        // Behind the hook's back, too, nobody below the client may (a mark and the parked ones aside).
        if ["leaf --agent-id", "leaf hook", "leaf watch", "leaf follow"].iter().any(|p| command.starts_with(p)) {
            continue;
        }
        let ran = fork.shell(&command.replacen("leaf ", "\"$LEAF\" ", 1));
        assert_ne!(ran.code, 0, "{command}: {ran:?}");
    }
    assert_eq!(outcome(&desk, &fork.turn).0, "running");
    assert_eq!(desk.events("message").len(), 1);
}

#[test]
fn r071_the_followers_token_alone_speaks_as_the_user() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let event = follower.module(&["thread", "new", "typed as /leaf", "--json"], "").ok().json();
    assert_eq!((&event["author"], &event["kind"]), (&json!("user"), &json!("message")));
    let thread = id(&event);
    assert_eq!(follower.ask().thread, thread);
    follower.module(&["thread", "say", &thread, "and more"], "").ok();
    follower.module(&["thread", "withdraw", &thread], "").ok();
    let before = desk.log();
    for token in [None, Some(""), Some("guessed"), Some(&follower.token()[1..])] {
        let ran = module_command(&main, token, &["thread", "new", "not the user"], "");
        assert_eq!(ran.code, 1, "{token:?}: {ran:?}");
        assert_ne!(module_command(&main, token, &["fork", "line", &thread], "{}").code, 0, "{token:?}");
    }
    assert_eq!(desk.log(), before);
}

#[test]
fn r071_plumbing_below_a_client_needs_the_token() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let id = text(&action["turn"]);
    for args in [
        vec!["fork", "started", &id, "a2d3fa93fc9d30ff5"],
        vec!["fork", "ended", "--turn", &id],
        vec!["fork", "ended", "--turn", &id, "--failed"],
        vec!["turn", "ended"],
    ] {
        for token in [None, Some("guessed")] {
            assert_ne!(module_command(&main, token, &args, "").code, 0, "{args:?}");
        }
    }
    assert_eq!(outcome(&desk, &id).0, "running");
    assert_eq!(turn(&desk, &id)["agent_id"], Value::Null);
}

#[test]
fn r071_another_sessions_token_is_none_here() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let other = forking(&desk, "t");
    let second = Follower::start(&other);
    let ran = module_command(&main, Some(second.token()), &["fork", "ended", "--turn", &fork.turn], "");
    assert_ne!(ran.code, 0, "{ran:?}");
    assert_eq!(outcome(&desk, &fork.turn).0, "running");
}

#[test]
fn r072_a_mark_that_was_lost_is_refused() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let mine = desk.thread("mains");
    follower.line(&follower.ask_about(&mine), "no");
    let command = format!("leaf thread reply {mine} 'as whom?'");
    fork.marked(&command);
    let why = fork.shell(&command).refused();
    assert!(!why.is_empty());
    fork.shell(&format!("leaf thread reply {thread} x --unasked")).refused();
    fork.shell("leaf thread list").ok();
    desk.person(&["thread", "say", &mine, "a person is not inside the client"]).ok();
    // A call of main's own in flight: who it is can't be told, and main may.
    main.pre_bash(&format!("leaf thread line {mine} hm")).silent();
    main.run(&["thread", "line", &mine, "hm"]).ok();
    main.boundary().silent_or_context();
    main.run(&["thread", "line", &mine, "hm again"]).refused();
    fork.boundary().silent_or_context();
    main.run(&["thread", "line", &mine, "a script"]).ok();
}

#[test]
fn r072_a_workers_call_in_flight_counts_as_mains_and_stops_close_calls() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let mine = desk.thread("mains");
    follower.line(&follower.ask_about(&mine), "no");
    fork.marked("leaf thread list");
    let worker = Fork::worker(&main);
    worker.passes(&format!("leaf thread line {mine} hm"));
    main.run(&["thread", "line", &mine, "hm"]).ok();
    let mut payload = worker.payload("SubagentStop.general-purpose");
    payload["agent_id"] = json!(worker.agent);
    main.hook(&payload).silent_or_context();
    main.run(&["thread", "line", &mine, "hm again"]).refused();
    fork.stops("done").silent_or_context();
    main.run(&["thread", "line", &mine, "and again"]).ok();
}

#[test]
fn r073_what_cannot_be_read_denies_a_call_that_names_leaf() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let dir = session_dir(&desk, &main);
    for name in ["journal.jsonl", "state.json", "session.json"] {
        let _ = fs::remove_file(dir.join(name));
        fs::create_dir(dir.join(name)).expect("what can't be read");
    }
    let reason = fork.denied("leaf thread list");
    assert!(!reason.trim().is_empty());
    fork.denied("cd x && leaf thread list");
    fork.passes("cargo test");
    main.pre_bash("leaf thread list").silent();
    fork.boundary().silent();
    fork.stops("done").silent();
}

#[test]
fn r074_each_write_lands_in_its_agents_turn_however_they_interleave() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (a, first) = follower.fork("first");
    let (b, second) = follower.fork("second");
    let c = desk.thread("mains");
    follower.line(&follower.ask_about(&c), "no");
    let reference = main.boundary().says();
    let reference = crate::support::desk::references(&reference).pop().expect("a reference");
    let marked_first = first.marked(&format!("leaf thread reply {} 'a'", first.reference()));
    let marked_second = second.marked(&format!("leaf thread reply {} 'b'", second.reference()));
    main.pre_bash(&format!("leaf thread reply {reference} 'c'")).silent();
    second.shell(&marked_second).ok();
    main.run(&["thread", "reply", &reference, "c"]).ok();
    first.shell(&marked_first).ok();
    // Each other's commands, run with the other's mark, are refused.
    let crossed = second.marked(&format!("leaf thread reply {} 'x'", first.reference()));
    second.shell(&crossed).refused();
    for (thread, by, turn) in [(&a, "fork", Some(&first.turn)), (&b, "fork", Some(&second.turn)), (&c, "main", None)] {
        let replies: Vec<Value> = desk.events("reply").into_iter().filter(|r| r["thread"] == json!(thread)).collect();
        assert_eq!((replies.len(), &replies[0]["by"]), (1, &json!(by)));
        if let Some(turn) = turn {
            assert_eq!(replies[0]["turn"], json!(turn));
        }
    }
}

#[test]
fn r074_a_reading_is_the_same_whoever_asks() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("first");
    let (_, other) = follower.fork("second");
    fork.boundary().silent_or_context();
    let as_person = desk.state();
    assert_eq!(fork.leaf(&["page", "state", "--json"]).ok().json(), as_person);
    assert_eq!(other.leaf(&["page", "state", "--json"]).ok().json(), as_person);
    assert_eq!(main.ask(&["page", "state"]), as_person);
}
