//! The hooks of the contract and two commands, each with nothing to do and with work: what stood before, and what is run.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::scene::{Scene, Spec};
use crate::support::desk::{Desk, LEAF, Session};
use crate::support::forks::{Follower, Fork, Verdict, forking};
use crate::{Row, Says};

/// Past this a turn is renewed by a boundary, in seconds.
const MINUTE: i64 = 61;

/// A hook's run.
pub fn hook(scene: &Scene, payload: &Value) -> Spec {
    scene.spec(LEAF, &["hook"], payload.to_string().as_bytes())
}

/// A prompt that opens a turn of its own.
pub fn prompt(session: &Session<'_>) -> Value {
    let mut payload = session.payload("UserPromptSubmit.main");
    payload["prompt"] = json!("go on");
    payload["prompt_id"] = json!("c930326e-fe75-4057-a1fd-999999999999");
    payload
}

/// A Bash call of main's, or of a fork's.
pub fn bash(mut payload: Value, command: &str) -> Value {
    payload["tool_input"]["command"] = json!(command);
    payload
}

/// A page as a session has it: ten threads that it answered.
fn answered(desk: &Desk, session: &Session<'_>) {
    for n in 0..10 {
        desk.thread(&format!("Question {n}: which port does the dev server use, and where is that set?"));
        let reference = session.boundary().reference();
        session.reply(&reference, "5173; it is set in vite.config.ts, under server.port.");
    }
}

/// Moves a scene's standing clock.
fn later(mut spec: Spec, seconds: i64) -> Spec {
    let now =
        chrono::DateTime::parse_from_rfc3339(&spec.env["LEAF_NOW"]).unwrap() + chrono::TimeDelta::seconds(seconds);
    spec.env.insert("LEAF_NOW".into(), now.to_rfc3339());
    spec
}

/// Rows of one scene.
struct Rows(Rc<Scene>, Vec<Row>);

impl Rows {
    fn add(&mut self, name: &str, payload: &Value, says: Says, writes: bool) {
        let spec = hook(&self.0, payload);
        self.1.push(Row::new(name, &self.0, spec, says, writes));
    }

    fn add_later(&mut self, name: &str, payload: &Value, says: Says, writes: bool) {
        let spec = later(hook(&self.0, payload), MINUTE);
        self.1.push(Row::new(name, &self.0, spec, says, writes));
    }

    fn command(&mut self, name: &str, args: &[&str], writes: bool) {
        let spec = self.0.spec(LEAF, args, b"");
        self.1.push(Row::new(name, &self.0, spec, Says::Words, writes));
    }
}

/// All rows; `bare` is a scene without any state.
pub fn rows(bare: &Rc<Scene>) -> Vec<Row> {
    let mut rows = begin();
    rows.extend(without_page(bare));
    rows.extend(with_page());
    rows.extend(with_message());
    rows.extend(with_fork());
    rows.extend(with_launch());
    rows.extend(commands());
    // In the order of the contract's table, whatever scene each is of.
    let order = [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PostToolBatch",
        "SubagentStart",
        "SubagentStop",
        "Stop",
        "StopFailure",
        "SessionEnd",
        "an unknown",
        "leaf",
    ];
    let word = |row: &Row| {
        let first = row.name.split([',', ' ', ':']).next().unwrap_or_default();
        order.iter().position(|name| name.split(' ').next() == Some(first)).unwrap_or(order.len())
    };
    rows.sort_by_key(word);
    rows
}

/// How a session begins.
fn begin() -> Vec<Row> {
    let (scene, payload) = Scene::play(|desk| {
        let session = desk.session("new");
        (session.env(), session.payload("SessionStart.main.startup"))
    });
    let mut fresh = Rows(Rc::new(scene), Vec::new());
    fresh.add("SessionStart, the first of all", &payload, Says::Nothing, true);

    let (scene, payload) = Scene::play(|desk| {
        let before = desk.session("before").working();
        answered(desk, &before);
        before.end("clear").silent();
        let session = desk.session_of(&before.client, "after");
        (session.env(), session.payload("SessionStart.main.clear"))
    });
    let mut over = Rows(Rc::new(scene), Vec::new());
    over.add("SessionStart, after /clear: takes a page over", &payload, Says::Nothing, true);
    [fresh.1, over.1].concat()
}

/// A session that works, and nobody writes beside it.
fn without_page(bare: &Rc<Scene>) -> Vec<Row> {
    let (scene, payloads) = Scene::play(|desk| {
        let session = desk.session("alone").working();
        let mut payloads = BTreeMap::from([("prompt", prompt(&session))]);
        for name in [
            "PreToolUse.main.Bash",
            "PreToolUse.main.Edit",
            "PostToolUse.main.Agent.spawn",
            "PostToolBatch.main",
            "PostToolBatch.general-purpose",
            "SubagentStart.general-purpose",
            "SubagentStop.general-purpose",
            "Stop.main.tui",
            "StopFailure.main.tui",
            "SessionEnd.main.other",
            "SessionStart.main.compact",
            "Notification.main.permission_prompt.perm",
        ] {
            payloads.insert(name, session.payload(name));
        }
        (session.env(), payloads)
    });
    let mut rows = Rows(Rc::new(scene), Vec::new());
    let of = |name: &str| &payloads[name];
    let call = |command: &str| bash(of("PreToolUse.main.Bash").clone(), command);
    rows.add("SessionStart, compacted, no page", of("SessionStart.main.compact"), Says::Nothing, false);
    rows.add("UserPromptSubmit, no page: opens a turn", of("prompt"), Says::Nothing, true);
    rows.add("PreToolUse Bash", &call("cargo test --quiet"), Says::Nothing, false);
    rows.add("PreToolUse Bash names leaf", &call("leaf thread list"), Says::Nothing, false);
    rows.add("PreToolUse Bash speaks as the user: refused", &call("leaf thread new hello"), Says::Denies, false);
    rows.add("PreToolUse Edit", of("PreToolUse.main.Edit"), Says::Nothing, false);
    rows.add("PostToolUse Agent, not leaf's", of("PostToolUse.main.Agent.spawn"), Says::Nothing, false);
    rows.add("PostToolBatch, no page", of("PostToolBatch.main"), Says::Nothing, false);
    rows.add("PostToolBatch, of a worker", of("PostToolBatch.general-purpose"), Says::Nothing, false);
    rows.add("SubagentStart, of a worker", of("SubagentStart.general-purpose"), Says::Nothing, false);
    rows.add("SubagentStop, of a worker", of("SubagentStop.general-purpose"), Says::Nothing, false);
    rows.add("Stop, no page: ends the turn", of("Stop.main.tui"), Says::Nothing, true);
    rows.add("StopFailure: ends the turn", of("StopFailure.main.tui"), Says::Nothing, true);
    rows.add("SessionEnd, no page", of("SessionEnd.main.other"), Says::Nothing, true);
    rows.add("an unknown event", of("Notification.main.permission_prompt.perm"), Says::Nothing, false);
    let unknown = hook(bare, of("PostToolBatch.main"));
    rows.1.push(Row::new("PostToolBatch, an unknown session", bare, unknown, Says::Nothing, false));
    rows.1
}

/// A session that holds a page, on which everything is answered.
fn with_page() -> Vec<Row> {
    let (scene, (compact, prompt, batch, stop, end)) = Scene::play(|desk| {
        let session = desk.session("held").working();
        answered(desk, &session);
        let payloads = (
            session.payload("SessionStart.main.compact"),
            prompt(&session),
            session.payload("PostToolBatch.main"),
            session.payload("Stop.main.tui"),
            session.payload("SessionEnd.main.other"),
        );
        (session.env(), payloads)
    });
    let mut rows = Rows(Rc::new(scene), Vec::new());
    rows.add("SessionStart, compacted, a page held", &compact, Says::Nothing, false);
    rows.add("UserPromptSubmit, nothing new", &prompt, Says::Nothing, true);
    rows.add("PostToolBatch, nothing new", &batch, Says::Nothing, false);
    rows.add_later("PostToolBatch, renews", &batch, Says::Nothing, true);
    rows.add("Stop, nothing new: ends the turn", &stop, Says::Nothing, true);
    rows.add("SessionEnd, a page held", &end, Says::Nothing, true);
    rows.command("leaf page state", &["page", "state", "--json"], false);
    rows.1
}

/// The same, and a message waits.
fn with_message() -> Vec<Row> {
    let (scene, (prompt, batch, stop)) = Scene::play(|desk| {
        let session = desk.session("new").working();
        answered(desk, &session);
        desk.thread("And in production: which port is it there, and who sets it?");
        let payloads = (prompt(&session), session.payload("PostToolBatch.main"), session.payload("Stop.main.tui"));
        (session.env(), payloads)
    });
    let mut rows = Rows(Rc::new(scene), Vec::new());
    rows.add("UserPromptSubmit, delivers", &prompt, Says::Context, true);
    rows.add("PostToolBatch, delivers", &batch, Says::Context, true);
    rows.add("Stop, delivers and goes on", &stop, Says::Context, true);
    rows.1
}

/// A working fork runs beside main, and main had the line that says so.
fn with_fork() -> Vec<Row> {
    let mut rows = Vec::new();
    for further in [false, true] {
        let (scene, payloads) = Scene::play(|desk| {
            let session = forking(desk, "forking");
            answered(desk, &session);
            let follower = Follower::start(&session);
            let (thread, fork) = follower.fork("Look up which port it is in production.");
            session.boundary().silent_or_context();
            if further {
                desk.say(&thread, "And who sets it?");
            }
            follower.kill();
            let edit = |file: &str| json!({"file_path": desk.project().join(file), "content": "x"});
            let mut write = fork.payload("PreToolUse.fork.Bash");
            write["tool_name"] = json!("Write");
            write["tool_input"] = edit("notes.md");
            let payloads = BTreeMap::from([
                ("main", session.payload("PreToolUse.main.Bash")),
                ("bash", fork.payload("PreToolUse.fork.Bash")),
                ("write", write),
                ("batch", fork.payload("PostToolBatch.fork")),
                ("start", fork.payload("SubagentStart.fork")),
                ("stop", fork.payload("SubagentStop.fork")),
                ("failure", fork.payload("StopFailure.fork.forkerr")),
            ]);
            (session.env(), payloads)
        });
        let mut of = Rows(Rc::new(scene), Vec::new());
        if further {
            of.add("PostToolBatch, of a fork, delivers", &payloads["batch"], Says::Context, true);
            rows.extend(of.1);
            continue;
        }
        let call = |command: &str| bash(payloads["bash"].clone(), command);
        let mains = bash(payloads["main"].clone(), "leaf thread list");
        of.add("PreToolUse Bash names leaf, beside a fork: noted", &mains, Says::Nothing, true);
        of.add("PreToolUse Bash of a fork", &call("grep -rn port src"), Says::Nothing, false);
        of.add("PreToolUse Bash of a fork names leaf: marked", &call("leaf thread list"), Says::Rewrites, true);
        of.add("PreToolUse Bash of a fork, rm: refused", &call("rm -rf src"), Says::Denies, true);
        of.add("PreToolUse Write of a fork: refused", &payloads["write"], Says::Denies, true);
        of.add("PostToolBatch, of a fork, nothing new", &payloads["batch"], Says::Nothing, false);
        of.add_later("PostToolBatch, of a fork, renews", &payloads["batch"], Says::Nothing, true);
        of.add("SubagentStop, of a fork: is ending", &payloads["stop"], Says::Nothing, true);
        of.add("StopFailure, of a fork: hands back", &payloads["failure"], Says::Nothing, true);
        rows.extend(of.1);
    }
    rows
}

/// A fork was taken, and the client is about to launch it.
fn with_launch() -> Vec<Row> {
    let (scene, launched) = Scene::play(|desk| {
        let session = forking(desk, "launching");
        answered(desk, &session);
        let follower = Follower::start(&session);
        let (_, action) = follower.take("Look up which port it is in production.");
        follower.kill();
        (session.env(), Fork::spawned(&session, &action).launch_payload())
    });
    let mut rows = Rows(Rc::new(scene), Vec::new());
    rows.add("PostToolUse Agent, leaf's: names the fork", &launched, Says::Nothing, true);

    let (scene, start) = Scene::play(|desk| {
        let session = forking(desk, "launched");
        answered(desk, &session);
        let follower = Follower::start(&session);
        let (_, action) = follower.take("Look up which port it is in production.");
        follower.kill();
        let fork = Fork::spawned(&session, &action);
        fork.launched().silent_or_context();
        (session.env(), fork.payload("SubagentStart.fork"))
    });
    let mut begun = Rows(Rc::new(scene), Vec::new());
    begun.add("SubagentStart, of a fork: has begun", &start, Says::Nothing, true);
    [rows.1, begun.1].concat()
}

/// `leaf thread reply`, main's and a fork's.
fn commands() -> Vec<Row> {
    let (scene, reference) = Scene::play(|desk| {
        let session = desk.session("owing").working();
        answered(desk, &session);
        desk.thread("And in production: which port is it there, and who sets it?");
        let reference = session.boundary().reference();
        (session.env(), reference)
    });
    let mut main = Rows(Rc::new(scene), Vec::new());
    main.command("leaf thread reply", &["thread", "reply", &reference, "8080, set by the chart."], true);

    let (scene, (agent, reference)) = Scene::play(|desk| {
        let session = forking(desk, "answering");
        answered(desk, &session);
        let follower = Follower::start(&session);
        let (_, fork) = follower.fork("Look up which port it is in production.");
        session.boundary().silent_or_context();
        let reference = fork.reference();
        let marked = fork.bash(&format!("leaf thread reply {reference} x"));
        assert!(matches!(marked, Verdict::Rewritten(_)), "{marked:?}");
        follower.kill();
        (session.env(), (fork.agent.clone(), reference))
    });
    let mut fork = Rows(Rc::new(scene), Vec::new());
    let args = ["--agent-id", &agent, "thread", "reply", &reference, "8080, set by the chart."];
    fork.command("leaf thread reply, a fork's", &args, true);
    [main.1, fork.1].concat()
}

/// Boundaries whose tool response has so many bytes: plain text, and one that JSON escapes.
pub fn responses(bytes: usize) -> Vec<Row> {
    let (scene, batch) = Scene::play(|desk| {
        let session = desk.session("large").working();
        answered(desk, &session);
        (session.env(), session.payload("PostToolBatch.main"))
    });
    let scene = Rc::new(scene);
    [("text", "the quick brown fox jumps over the lazy dog. "), ("escaped", "\"a\\b\"\tc\n")]
        .map(|(name, words)| {
            let mut payload = batch.clone();
            payload["tool_calls"][0]["tool_response"] = json!(words.repeat(bytes / words.len()));
            Row::new(name, &scene, hook(&scene, &payload), Says::Nothing, false)
        })
        .into()
}
