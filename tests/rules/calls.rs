//! What each hook asks of the system, counted by strace: unlike times, calls are the same on every machine.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::desk::{Desk, HookRan, Session};
use crate::support::forks::{Follower, Fork, forking, notification};

/// Where no state is needed.
const NOTHING: usize = 30;
/// A silent boundary behind one that was silent.
const GATE: usize = 35;
/// A look at the state, or work.
const WORK: usize = 90;
/// Once a session: its directory is made, a page of it moved, the project's hooks and forks looked for in every directory above.
const ONCE: usize = 110;
/// A page and its session are written twice, under their locks.
const TWICE: usize = 130;
/// Forks and hooks are looked for in every directory above: so much more for each.
const LEVEL: usize = 10;
/// Two sessions and their pages change places, each under its lock, durably.
const MOVE: usize = 280;
/// Fifty other sessions' records are read.
const SWEEP: usize = 370;

/// A hook in a situation: what it does there, and the calls that it made.
struct Case {
    name: &'static str,
    most: usize,
    run: fn(&Desk) -> Traced,
}

struct Traced {
    calls: Vec<String>,
    hook: HookRan,
}

impl Traced {
    #[track_caller]
    fn silent(self) -> Self {
        self.hook.silent();
        self
    }

    #[track_caller]
    fn says(self, part: &str) -> Self {
        let told = self.hook.says();
        assert!(told.contains(part), "{told}");
        self
    }

    /// It wrote into the session's journal.
    #[track_caller]
    fn writes(self) -> Self {
        let wrote = self.calls.iter().any(|call| call.starts_with("write(") && call.contains("{\\\"ts\\\""));
        assert!(wrote, "it writes an entry: {:#?}", self.calls);
        self
    }
}

/// Runs a hook of the session under strace, at one time that costs no call.
#[track_caller]
fn traced(session: &Session<'_>, payload: &Value) -> Traced {
    let desk = session.desk();
    let trace = desk.path("trace");
    let line = format!(
        "LEAF_NOW={} strace -qq -o '{}' -s 64 \"$LEAF\" hook",
        desk.now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        trace.display()
    );
    let hook = HookRan::from(session.shell_with_payload(&line, payload));
    let text = fs::read_to_string(&trace).expect("a trace");
    // Lines of signals and ends are none of calls, and a build with debug assertions asks for each file that it closes.
    let call = |line: &&str| !["---", "+++"].iter().any(|mark| line.starts_with(mark)) && !line.contains(", F_GETFD)");
    Traced { calls: text.lines().filter(call).map(str::to_owned).collect(), hook }
}

/// Lets what was just written stand for a while, as between two hooks of a real client.
fn rest() {
    std::thread::sleep(std::time::Duration::from_millis(40));
}

fn pre_tool(session: &Session<'_>, tool: &str, input: Value) -> Value {
    let mut payload = session.payload("PreToolUse.main.Bash");
    payload["tool_name"] = json!(tool);
    payload["tool_input"] = input;
    payload
}

/// A session that works on a page where all is answered.
fn answered<'d>(desk: &'d Desk, name: &str) -> Session<'d> {
    let session = desk.session(name).working();
    desk.thread("which one?");
    let reference = session.boundary().reference();
    session.reply(&reference, "the first");
    session.boundary().silent();
    rest();
    session
}

fn prompt(session: &Session<'_>, text: &str) -> Value {
    let mut payload = session.payload("UserPromptSubmit.main");
    payload["prompt_id"] = json!("c930326e-fe75-4057-a1fd-999999999999");
    payload["prompt"] = json!(text);
    payload
}

fn bash_of(fork: &Fork<'_, '_>, command: &str) -> Value {
    let mut payload = fork.payload("PreToolUse.fork.Bash");
    payload["tool_input"] = json!({"command": command, "description": "x"});
    payload
}

const CASES: &[Case] = &[
    Case {
        name: "an unknown event",
        most: NOTHING,
        run: |desk| {
            let session = desk.session("s").working();
            traced(&session, &session.payload("Notification.main.permission_prompt.perm")).silent()
        },
    },
    Case {
        name: "main's Bash call that can't name leaf",
        most: NOTHING,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &pre_tool(&session, "Bash", json!({"command": "cargo build"}))).silent()
        },
    },
    Case {
        name: "main's Bash call with a variable",
        most: NOTHING,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &pre_tool(&session, "Bash", json!({"command": "echo $HOME | sort"}))).silent()
        },
    },
    Case {
        name: "main's Edit",
        most: NOTHING,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("PreToolUse.main.Edit")).silent()
        },
    },
    Case {
        name: "main's tool response",
        most: NOTHING,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("PostToolUse.main.Bash")).silent()
        },
    },
    Case {
        name: "main's boundary, no page held",
        most: WORK,
        run: |desk| {
            let session = desk.session("s").working();
            rest();
            traced(&session, &session.payload("PostToolBatch.main")).silent()
        },
    },
    Case {
        name: "main's boundary, a page held, the first after a write",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("PostToolBatch.main")).silent()
        },
    },
    Case {
        name: "main's boundary, a page held",
        most: GATE,
        run: |desk| {
            let session = answered(desk, "s");
            session.boundary().silent();
            traced(&session, &session.payload("PostToolBatch.main")).silent()
        },
    },
    Case {
        name: "main's boundary that renews",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            desk.advance(70);
            traced(&session, &session.payload("PostToolBatch.main")).silent().writes()
        },
    },
    Case {
        name: "main's boundary that delivers",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            desk.thread("and then?");
            traced(&session, &session.payload("PostToolBatch.main")).says("and then?").writes()
        },
    },
    Case {
        name: "main's leaf call",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &pre_tool(&session, "Bash", json!({"command": "leaf page state"}))).silent()
        },
    },
    Case {
        name: "a prompt",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &prompt(&session, "go on")).silent().writes()
        },
    },
    Case {
        name: "a prompt that delivers",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            desk.thread("and then?");
            traced(&session, &prompt(&session, "go on")).says("and then?").writes()
        },
    },
    Case {
        name: "a Stop",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("Stop.main.tui")).silent().writes()
        },
    },
    Case {
        name: "a Stop that continues",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            desk.thread("and then?");
            traced(&session, &session.payload("Stop.main.tui")).says("and then?").writes()
        },
    },
    Case {
        name: "a StopFailure",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("StopFailure.main.tui")).silent().writes()
        },
    },
    Case {
        name: "a first SessionStart",
        most: ONCE,
        run: |desk| {
            let session = desk.session("s");
            traced(&session, &session.payload("SessionStart.main.startup")).silent().writes()
        },
    },
    Case {
        name: "a SessionStart beside 60 sessions that ended",
        most: SWEEP,
        run: |desk| {
            for n in 0..60 {
                let session = desk.session(&format!("old{n}"));
                session.start("startup").silent_or_context();
                session.end("other").silent();
            }
            let session = desk.session("s");
            traced(&session, &session.payload("SessionStart.main.startup")).silent().writes()
        },
    },
    Case {
        name: "a compaction",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("SessionStart.main.compact")).silent()
        },
    },
    Case {
        name: "a resume",
        most: ONCE,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("SessionStart.main.resume")).silent().writes()
        },
    },
    Case {
        name: "a clear",
        most: MOVE,
        run: |desk| {
            let before = answered(desk, "s");
            before.end("clear").silent();
            let session = desk.session_of(&before.client, "t");
            traced(&session, &session.payload("SessionStart.main.clear")).silent().writes()
        },
    },
    Case {
        name: "a SessionEnd",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("SessionEnd.main.other")).silent().writes()
        },
    },
    Case {
        name: "a worker's Bash call that can't name leaf",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            let worker = Fork::worker(&session);
            traced(&session, &bash_of(&worker, "cargo build")).silent()
        },
    },
    Case {
        name: "a worker's start",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &Fork::worker(&session).payload("SubagentStart.general-purpose")).silent()
        },
    },
    Case {
        name: "a worker's boundary",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &Fork::worker(&session).payload("PostToolBatch.general-purpose")).silent()
        },
    },
    Case {
        name: "a worker's stop",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &Fork::worker(&session).payload("SubagentStop.general-purpose")).silent()
        },
    },
    Case {
        name: "main's Agent call",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            traced(&session, &session.payload("PreToolUse.main.Agent.spawn")).silent()
        },
    },
    Case {
        name: "a notification of an agent that is none of leaf's",
        most: WORK,
        run: |desk| {
            let session = answered(desk, "s");
            let told = notification(&session, "a2d3fa93fc9d30ff5", Some("toolu_1"), "completed", "done");
            traced(&session, &told).silent().writes()
        },
    },
    Case {
        name: "main's boundary beside a fork at work",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let _fork = follower.fork("look it up");
            session.boundary().silent_or_context();
            session.boundary().silent();
            traced(&session, &session.payload("PostToolBatch.main")).silent()
        },
    },
    Case {
        name: "a fork's launch",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, action) = follower.take("look it up");
            let fork = Fork::spawned(&session, &action);
            traced(&session, &fork.launch_payload()).silent().writes()
        },
    },
    Case {
        name: "a fork's start",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, action) = follower.take("look it up");
            let fork = Fork::spawned(&session, &action);
            fork.launched().silent();
            traced(&session, &fork.payload("SubagentStart.fork")).silent()
        },
    },
    Case {
        name: "a fork's Bash call that can't name leaf",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            traced(&session, &bash_of(&fork, "cargo build")).silent()
        },
    },
    Case {
        name: "a fork's marked call",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            let traced = traced(&session, &bash_of(&fork, "leaf thread list")).writes();
            let marked = &traced.hook.answer.as_ref().expect("it is marked")["hookSpecificOutput"]["updatedInput"];
            assert!(marked["command"].as_str().is_some_and(|line| line.starts_with("leaf --agent-id ")), "{marked}");
            traced
        },
    },
    Case {
        name: "a fork's Edit of the project",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            let mut payload = fork.payload("PreToolUse.main.Edit");
            payload["tool_input"]["file_path"] = json!(desk.project().join("a.rs"));
            let traced = traced(&session, &payload).writes();
            traced.hook.denied();
            traced
        },
    },
    Case {
        name: "a fork's boundary",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            fork.boundary().silent();
            traced(&session, &fork.payload("PostToolBatch.fork")).silent()
        },
    },
    Case {
        name: "a fork's boundary that renews",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            desk.advance(70);
            traced(&session, &fork.payload("PostToolBatch.fork")).silent().writes()
        },
    },
    Case {
        name: "a fork's boundary that delivers",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (thread, fork) = follower.fork("look it up");
            desk.say(&thread, "and the marmot");
            traced(&session, &fork.payload("PostToolBatch.fork")).says("and the marmot").writes()
        },
    },
    Case {
        name: "a fork's stop",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            let mut payload = fork.payload("SubagentStop.fork");
            payload["background_tasks"] = json!([fork.task()]);
            traced(&session, &payload).silent().writes()
        },
    },
    Case {
        name: "the notification that ends a fork, whose message it delivers",
        most: TWICE,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            let told = notification(&session, &fork.agent, Some(&fork.tool_use()), "completed", "done");
            traced(&session, &told).says("look it up").writes()
        },
    },
    Case {
        name: "the TaskStop of a fork",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            let mut payload = session.payload("PostToolUse.main.TaskStop");
            payload["tool_input"]["task_id"] = json!(fork.agent);
            payload["tool_response"]["task_id"] = json!(fork.agent);
            traced(&session, &payload).silent().writes()
        },
    },
    Case {
        name: "a fork's StopFailure",
        most: WORK,
        run: |desk| {
            let session = forking(desk, "s");
            let follower = Follower::start(&session);
            let (_, fork) = follower.fork("look it up");
            traced(&session, &fork.payload("StopFailure.fork.forkerr")).silent().writes()
        },
    },
];

#[test]
fn a_hook_makes_few_system_calls() {
    if !Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    // The bounds are those of a project three directories deep.
    let deeper = Desk::new().project().components().count().saturating_sub(4);
    let mut table = String::new();
    let mut over = Vec::new();
    for case in CASES {
        let traced = (case.run)(&Desk::new());
        let made = traced.calls.len();
        let looks = case.most > GATE;
        let most = case.most + if looks { deeper * LEVEL } else { 0 };
        writeln!(table, "{made:4} of {most:2}  {}", case.name).expect("a line");
        if made > most {
            over.push(format!("{}, {made} calls:\n{}", case.name, traced.calls.join("\n")));
        }
    }
    println!("{table}");
    assert!(over.is_empty(), "{}", over.join("\n\n"));
}
