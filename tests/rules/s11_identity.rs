//! Who a command acts as, as far as main and workers go: R65, R70, R71 and R73.

use std::fs;
use std::process::Command;

use crate::support::desk::{Desk, LEAF, Ran, Session};
use crate::support::forks::{Follower, Verdict, forking, verdict};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const TOOLS: [&str; 3] = ["Bash", "PowerShell", "Monitor"];

#[test]
fn r065_mains_and_workers_calls_pass_as_they_are() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let passes = [
        "leaf thread reply 00000000:11111111 'done'",
        "leaf thread list",
        "leaf page state --json | jq .owed",
        "cd /src/leaf && leaf task list",
        "leaf fork list",
        "leaf delivery read 01234567 --part 2",
        "cargo test --package leaf-threads",
        "env leaf status",
        "ls -la",
        "",
    ];
    for command in passes {
        for tool in TOOLS {
            main.pre_tool(tool, json!({"command": command})).silent();
        }
        main.worker_bash(command).silent();
    }
    main.hook(&main.payload("PreToolUse.main.Edit")).silent();
    main.pre_bash("leaf thread new x").denied();
}

#[test]
fn r065_a_call_without_a_command_passes() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    for input in [json!({}), json!({"command": null}), json!({"command": 7}), json!("leaf thread new x")] {
        main.pre_tool("Bash", input).silent();
    }
    main.pre_bash("leaf thread new x").denied();
}

#[test]
fn r070_the_plumbing_and_the_users_verbs_are_denied_to_main_and_workers() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let denied = [
        "leaf --agent-id a2d3fa93fc9d30ff5 thread list",
        "leaf hook",
        "leaf watch",
        "leaf follow",
        "leaf turn ended",
        "leaf fork line 01234567",
        "leaf fork started 0123456789abcdef a1",
        "leaf fork ended --agent a1",
        "leaf thread new 'I am the user'",
        "leaf thread say 01234567 'I am the user'",
        "leaf thread withdraw 01234567",
        "leaf trust",
        "cd /tmp && leaf thread new x",
        "echo hi | leaf thread new -",
        "true; leaf trust",
        "l'ea'f thread \"new\" x",
        "le\\af thread ne\\w x",
        "leaf \\\n  thread new x",
        "/usr/local/bin/leaf thread say 01234567 x",
        "(leaf thread new x)",
        "if true; then leaf trust; fi",
    ];
    for command in denied {
        assert!(!main.pre_bash(command).denied().is_empty(), "{command}");
        assert!(!main.worker_bash(command).denied().is_empty(), "{command}");
    }
    for tool in TOOLS {
        main.pre_tool(tool, json!({"command": "leaf thread new x"})).denied();
    }
}

#[test]
fn r070_for_main_and_workers_doubt_passes() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let passes = [
        "echo leaf thread new x",
        "leaf thread reply 01234567 'the user runs leaf thread new'",
        "leaf thread reply 01234567 - <<'E'\nleaf thread new x\nE",
        "leaf thread show 01234567",
        "leaf fork stop leaf-01234567",
        "leaf page new 'thread new'",
        "git commit -m 'leaf trust'",
        "leafy thread new x",
        "cat src/leaf thread new",
        "# leaf thread new x",
    ];
    for command in passes {
        main.pre_bash(command).silent();
        main.worker_bash(command).silent();
    }
    main.pre_bash("leaf thread new x").denied();
}

#[test]
fn r071_below_a_live_sessions_client_nobody_is_the_user() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("mine");
    let lines = desk.log().len();
    main.run(&["thread", "new", "not mine"]).refused();
    main.run(&["thread", "say", &thread, "not mine"]).refused();
    main.run(&["thread", "withdraw", &thread]).refused();
    main.run(&["trust"]).refused();
    // Whatever its environment says.
    let bare = "unset CLAUDECODE CLAUDE_CODE_SESSION_ID CLAUDE_PID CLAUDE_CODE_CHILD_SESSION; \"$LEAF\" thread new x";
    main.shell(bare).refused();
    let deeper = "sh -c 'sh -c \"env -u CLAUDECODE -u CLAUDE_CODE_SESSION_ID -u CLAUDE_PID $LEAF thread new x; exit \\$?\"; exit $?'";
    main.shell(deeper).refused();
    main.shell("CLAUDECODE= CLAUDE_CODE_SESSION_ID= CLAUDE_PID=1 \"$LEAF\" thread new x").refused();
    assert_eq!(desk.log().len(), lines);
}

#[test]
fn r071_the_refusal_at_the_clients_own_prompt_says_what_to_type() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let why = main.run(&["thread", "new", "typed with a bang"]).refused();
    assert!(why.contains('!'), "it says that a `!` line is refused: {why}");
}

#[test]
fn r071_a_terminal_that_inherited_the_environment_is_the_persons() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let mut command = desk.command(&["thread", "new", "from a terminal", "--json"]);
    command
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", main.id())
        .env("CLAUDE_PID", main.client.pid().to_string());
    let event = Ran::from(command.output().expect("leaf runs")).ok().json();
    assert_eq!((&event["author"], &event["kind"]), (&json!("user"), &json!("message")));
}

#[test]
fn r071_below_a_client_without_a_session_it_is_the_persons() {
    let desk = Desk::new();
    // The client never started a session here: to leaf it is any terminal.
    let stranger = desk.session("unknown");
    let line = "unset CLAUDECODE CLAUDE_CODE_SESSION_ID CLAUDE_PID CLAUDE_CODE_CHILD_SESSION; \
                \"$LEAF\" thread new 'from a shell' --json";
    let event = stranger.shell(line).ok().json();
    assert_eq!(event["author"], "user");
}

#[test]
fn r071_what_a_dead_client_left_behind_is_the_persons_again() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.end("other").silent();
    main.client.kill();
    let mut command = desk.command(&["thread", "new", "after it all", "--json"]);
    command
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", main.id())
        .env("CLAUDE_PID", main.client.pid().to_string());
    assert_eq!(Ran::from(command.output().expect("leaf runs")).ok().json()["author"], "user");
}

#[test]
fn r071_turn_ended_needs_the_followers_token_below_a_client() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("held by the turn");
    main.boundary().reference();
    let ran = main.run(&["turn", "ended"]);
    assert_ne!(ran.code, 0, "refused without the token: {ran:?}");
    assert_eq!(desk.thread_state(&thread)["status"], "working", "the turn goes on");
}

/// Runs a command where /proc is empty, so that ancestry can't be read; nothing where the machine
/// doesn't let us.
fn without_proc(desk: &Desk, name: &str, value: &str) -> Option<Ran> {
    let line = "mount -t tmpfs none /proc && exec \"$LEAF\" thread new 'who am I?'";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", line]).env_clear().envs(desk.env()).env("LEAF", LEAF).env(name, value);
    command.current_dir(desk.project());
    let able = Command::new("unshare").args(["-rm", "sh", "-c", "mount -t tmpfs none /proc"]).output();
    if !able.is_ok_and(|o| o.status.success()) {
        eprintln!("not checked: no mount namespace on this machine");
        return None;
    }
    Some(Ran::from(command.output().expect("unshare runs")))
}

#[test]
fn r071_where_ancestry_cannot_be_read_the_environment_decides() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let Some(agent) = without_proc(&desk, "CLAUDE_CODE_SESSION_ID", main.id()) else {
        return;
    };
    agent.refused();
    if let Some(person) = without_proc(&desk, "CLAUDE_CODE_SESSION_ID", "") {
        person.ok();
    }
}

fn record_dir(desk: &Desk, main: &Session<'_>) -> std::path::PathBuf {
    let digest = Sha256::digest(main.id().as_bytes());
    let key: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
    desk.state_dir().join("sessions").join(key)
}

fn fork_bash(main: &Session<'_>, command: &str) -> Value {
    let mut payload = main.payload("PreToolUse.fork.Bash");
    payload["tool_input"]["command"] = json!(command);
    payload
}

#[test]
fn r073_identity_fails_closed_for_a_call_that_names_leaf_from_an_agent() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let dir = record_dir(&desk, &main);
    assert!(dir.join("session.json").is_file(), "the session's record is where the contract says");
    // An unknown agent of a session that can be read passes (R66).
    main.hook(&fork_bash(&main, "leaf thread list")).silent();
    for name in ["session.json", "journal.jsonl", "state.json"] {
        let _ = fs::remove_file(dir.join(name));
        fs::create_dir(dir.join(name)).expect("what can't be read");
    }
    let why = main.hook(&fork_bash(&main, "leaf thread list")).denied();
    assert!(!why.trim().is_empty());
    let compound = main.hook(&fork_bash(&main, "cd x && leaf thread reply 01234567 hi")).denied();
    assert!(!compound.trim().is_empty());
    // Every other failure is silent for the client.
    main.hook(&fork_bash(&main, "cargo test")).silent();
    main.pre_bash("leaf thread list").silent();
    main.boundary().silent();
    main.stop().silent();
    assert!(!desk.errors().is_empty(), "what was kept silent is in errors.log");
}

/// A model writes half an emoji as it is cut, and the client hands that on as JSON says it.
#[test]
fn r073_half_a_surrogate_pair_hides_no_call() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let raw = |command: &str, description: &str| {
        let mut payload = fork.payload("PreToolUse.fork.Bash");
        payload["tool_input"] = json!({"command": command, "description": description});
        main.hook_raw(payload.to_string().replace("HALF", "\\ud83d").as_bytes())
    };
    let marked = raw("leaf thread list --json # HALF", "HALF");
    let command = format!("leaf --agent-id {} thread list --json # \u{fffd}", fork.agent);
    let Verdict::Rewritten(written) = verdict(&marked) else { panic!("it is marked") };
    assert_eq!(written, command);
    raw("cd x && leaf thread reply 01234567 HALF", "x").denied();
    raw("rm notes # HALF", "x").denied();
    // Main's own is judged too (R70).
    let mut follow = main.payload("PreToolUse.main.Bash");
    follow["tool_input"]["command"] = json!("leaf follow HALF");
    main.hook_raw(follow.to_string().replace("HALF", "\\ud83d").as_bytes()).denied();
}

#[test]
fn r073_an_input_of_another_shape_hides_no_call() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    for input in [json!(["leaf thread list"]), json!({"command": ["leaf thread list"]}), json!("leaf thread list")] {
        let mut payload = fork.payload("PreToolUse.fork.Bash");
        payload["tool_input"] = input;
        main.hook(&payload).denied();
    }
}

#[test]
fn r073_the_entry_of_pre_tool_use_has_a_short_timeout() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("hooks.json");
    let text = fs::read_to_string(path).expect("hooks.json at the root");
    let file: Value = serde_json::from_str(&text).expect("hooks.json is JSON");
    let hooks = file["hooks"].as_object().expect("hooks by event");
    let seconds = |event: &str| -> Vec<(bool, u64)> {
        let entries = hooks.get(event).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let all = entries.iter().flat_map(|e| e["hooks"].as_array().expect("hooks of an entry"));
        all.map(|h| {
            assert_eq!(h["type"], "command", "{h}");
            let args = h["args"].as_array().unwrap_or_else(|| panic!("exec form: {h}"));
            let watch = args.iter().any(|a| a == "watch");
            assert_eq!(h["asyncRewake"] == json!(true), watch, "the watch alone parks: {h}");
            (watch, h["timeout"].as_u64().unwrap_or_else(|| panic!("a timeout: {h}")))
        })
        .collect()
    };
    for event in
        ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolBatch", "Stop", "StopFailure", "SessionEnd"]
    {
        let expected = match event {
            "PreToolUse" => 5,
            "SessionEnd" => 3,
            _ => 20,
        };
        let found = seconds(event);
        assert!(found.iter().any(|(watch, _)| !watch), "{event} has a hook");
        for (watch, timeout) in found {
            assert_eq!(timeout, if watch { 2_147_483 } else { expected }, "{event}");
        }
    }
    assert!(seconds("Stop").iter().any(|(watch, _)| *watch), "an idle session is watched");
}

#[test]
fn r071_a_client_below_a_client_is_its_own() {
    let desk = Desk::new();
    let outer = desk.session("s").working();
    let thread = desk.thread("for the outer one");
    outer.boundary().reference();
    // `claude -p` from the outer one's Bash tool: a client with a session of its own.
    let inner = desk.session_of(&outer.client, "inner");
    let payload = |name: &str, session: &Session<'_>| crate::support::desk::quoted(&session.payload(name).to_string());
    let inside = format!(
        "export CLAUDE_PID=$$ CLAUDE_CODE_SESSION_ID={} CLAUDE_CODE_SESSION_ATTENDED=0\n\
         printf %s {} | \"$LEAF\" hook\nprintf %s {} | \"$LEAF\" hook\n\
         \"$LEAF\" thread new 'from inside'; echo code $?\n\
         \"$LEAF\" thread line {thread} 'from inside' --json\necho code $?",
        inner.id(),
        payload("SessionStart.main.startup", &inner),
        payload("UserPromptSubmit.main", &inner),
    );
    let ran = outer.shell(&format!("sh -c {}", crate::support::desk::quoted(&inside)));
    assert!(ran.out().contains("code 1"), "nobody below a client is the user: {ran:?}");
    assert_eq!(desk.events("message").len(), 1);
    for line in desk.events("line") {
        assert_eq!(line["session"], json!(inner.id()), "never the outer one's: {line}");
    }
    assert_eq!(desk.state()["session"], json!(outer.id()));
    outer.reply(&thread, "mine still");
}
