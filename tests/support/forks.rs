//! Forks on a desk: the hooks module's part and the forks themselves, played by hand.
//!
//! A [`Follower`] is `leaf follow` below the client with what the module would do with its lines; a
//! [`Fork`] is an agent of the client: its hooks carry its id, and its `leaf` calls go through
//! PreToolUse and run as the hook rewrote them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::desk::{Desk, HookRan, Ran, Running, Session, quoted, references};

/// Longer than a sleeper's slow poll, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A session that works, with working forks on.
#[track_caller]
pub fn forking<'d>(desk: &'d Desk, name: &str) -> Session<'d> {
    let session = desk.session(name);
    session.set_env("LEAF_FORK_WORK", "on");
    session.working()
}

/// The directory of a session's records.
pub fn session_dir(desk: &Desk, session: &Session<'_>) -> PathBuf {
    let digest = Sha256::digest(session.id().as_bytes());
    let key: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
    desk.state_dir().join("sessions").join(key)
}

/// The entries of `leaf why`.
#[track_caller]
pub fn why(desk: &Desk, thread: &str) -> Vec<Value> {
    match desk.ask(&["why", thread]) {
        Value::Array(entries) => entries,
        other => panic!("why is an array: {other}"),
    }
}

/// The entries of `leaf why` of one kind.
#[track_caller]
pub fn why_of(desk: &Desk, thread: &str, kind: &str) -> Vec<Value> {
    why(desk, thread).into_iter().filter(|e| e["kind"] == kind).collect()
}

/// The fork turns of the page state, newest first.
#[track_caller]
pub fn turns(desk: &Desk) -> Vec<Value> {
    desk.state()["turns"].as_array().expect("turns is an array").clone()
}

/// One fork turn of the page state.
#[track_caller]
pub fn turn(desk: &Desk, id: &str) -> Value {
    let all = turns(desk);
    match all.iter().find(|t| t["turn"] == id) {
        Some(found) => found.clone(),
        None => panic!("no turn {id} in {all:#?}"),
    }
}

/// The state and the outcome of a fork turn.
#[track_caller]
pub fn outcome(desk: &Desk, id: &str) -> (String, Value) {
    let turn = turn(desk, id);
    (turn["state"].as_str().expect("a state").to_owned(), turn["outcome"].clone())
}

/// The threads that main owes, by the page state.
#[track_caller]
pub fn main_owes(desk: &Desk) -> Vec<String> {
    let state = desk.state();
    let owed = state["owed"].as_array().expect("owed is an array");
    owed.iter().filter(|o| o["owed_by"]["kind"] == "main").map(|o| text(&o["thread"])).collect()
}

/// Who holds a thread by the page state: the kind, or "" for nobody.
#[track_caller]
pub fn holder_kind(desk: &Desk, thread: &str) -> String {
    desk.thread_state(thread)["holder"]["kind"].as_str().unwrap_or_default().to_owned()
}

/// The status of a thread by the page state.
#[track_caller]
pub fn status(desk: &Desk, thread: &str) -> String {
    text(&desk.thread_state(thread)["status"])
}

/// A string of a JSON value.
#[track_caller]
pub fn text(value: &Value) -> String {
    match value.as_str() {
        Some(s) => s.to_owned(),
        None => panic!("a string: {value}"),
    }
}

/// `leaf follow` and the module around it.
pub struct Follower<'s, 'd> {
    pub session: &'s Session<'d>,
    running: Running,
    out: PathBuf,
    seen: Cell<usize>,
    unread: RefCell<VecDeque<Value>>,
    token: String,
}

/// What a follower asks the line fork.
#[derive(Clone, Debug)]
pub struct Ask {
    pub thread: String,
    pub through: String,
    pub question: String,
}

impl<'s, 'd> Follower<'s, 'd> {
    /// Starts it and waits for its token: from then on its lane is live.
    #[track_caller]
    pub fn start(session: &'s Session<'d>) -> Self {
        let running = session.job(&["follow"]).start();
        let out = newest_job(session.desk()).join("out");
        let mut follower =
            Follower { session, running, out, seen: Cell::new(0), unread: RefCell::default(), token: String::new() };
        let first = follower.next_line(SOON).unwrap_or_else(|| {
            panic!("leaf follow prints its token first: {:?}", follower.running.wait(Duration::ZERO))
        });
        follower.token = text(&first["token"]);
        assert!(follower.token.len() >= 16, "a token is hard to guess: {first}");
        follower
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// The next line nobody read yet, in the order they were printed.
    pub fn next_line(&self, within: Duration) -> Option<Value> {
        let start = Instant::now();
        loop {
            self.read();
            if let Some(line) = self.unread.borrow_mut().pop_front() {
                return Some(line);
            }
            if start.elapsed() >= within {
                return None;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// The next line that has this key, whatever else was printed: its value.
    #[track_caller]
    pub fn expect(&self, key: &str) -> Value {
        match self.find(key, SOON) {
            Some(value) => value,
            None => panic!(
                "leaf follow prints {key}; unread: {:?}; it ended: {:?}",
                self.unread.borrow(),
                self.running.wait(Duration::ZERO)
            ),
        }
    }

    /// No line with this key comes for so long.
    #[track_caller]
    pub fn quiet(&self, key: &str, for_millis: u64) {
        if let Some(value) = self.find(key, Duration::from_millis(for_millis)) {
            panic!("leaf follow prints no {key}: {value}");
        }
    }

    /// A wake was printed or comes soon.
    pub fn find_wake(&self) -> bool {
        self.find("wake", Duration::from_secs(2)).is_some()
    }

    /// The next question to the line fork.
    #[track_caller]
    pub fn ask(&self) -> Ask {
        let ask = self.expect("ask");
        Ask { thread: text(&ask["thread"]), through: text(&ask["through"]), question: text(&ask["question"]) }
    }

    /// The next question about this thread; those about others stay unread.
    #[track_caller]
    pub fn ask_about(&self, thread: &str) -> Ask {
        let start = Instant::now();
        loop {
            let ask = self.ask();
            if ask.thread == thread {
                return ask;
            }
            assert!(start.elapsed() < SOON, "an ask about {thread}");
        }
    }

    /// A command of the module: below the client, with the token.
    #[track_caller]
    pub fn module(&self, args: &[&str], input: &str) -> Ran {
        module_command(self.session, Some(&self.token), args, input)
    }

    /// `leaf fork line` with the line fork's text: the action.
    #[track_caller]
    pub fn line(&self, ask: &Ask, said: &str) -> Value {
        self.module(&["fork", "line", &ask.thread, "--through", &ask.through, "--json"], said).ok().json()
    }

    /// The line fork says "On it." and this sort: the action.
    #[track_caller]
    pub fn sorted(&self, ask: &Ask, sort: &str) -> Value {
        self.line(ask, &json!({"line": "On it.", "sort": sort}).to_string())
    }

    /// The user writes, the line fork finds it small: the thread and the action.
    #[track_caller]
    pub fn take(&self, message: &str) -> (String, Value) {
        let thread = self.session.desk().thread(message);
        let action = self.sorted(&self.ask_about(&thread), "small");
        (thread, action)
    }

    /// A fork at work on a new thread: taken, launched, named, its run begun.
    #[track_caller]
    pub fn fork(&self, message: &str) -> (String, Fork<'s, 'd>) {
        let (thread, action) = self.take(message);
        (thread, self.launch(&action))
    }

    /// What the module and the client do with a `spawn`.
    #[track_caller]
    pub fn launch(&self, action: &Value) -> Fork<'s, 'd> {
        let fork = Fork::spawned(self.session, action);
        fork.begins().silent_or_context();
        fork.launched().silent_or_context();
        fork.meta();
        assert_eq!(self.started(&fork.turn, &fork.agent), "go");
        fork
    }

    /// What the module and the client do with a `resume`.
    #[track_caller]
    pub fn resume(&self, action: &Value) -> Fork<'s, 'd> {
        let fork = Fork::resumed(self.session, action);
        fork.begins().silent_or_context();
        assert_eq!(self.started(&fork.turn, &fork.agent), "go");
        fork
    }

    /// `leaf fork started`: `go` or `stop`.
    #[track_caller]
    pub fn started(&self, turn: &str, agent: &str) -> String {
        text(&self.module(&["fork", "started", turn, agent, "--json"], "").ok().json()["action"])
    }

    /// `leaf fork ended --turn` with the run's final text.
    #[track_caller]
    pub fn ended(&self, turn: &str, said: &str) -> Value {
        self.module(&["fork", "ended", "--turn", turn, "--json"], said).ok().json()
    }

    /// `leaf fork ended --turn … --failed`.
    #[track_caller]
    pub fn failed(&self, turn: &str, said: &str) -> Value {
        self.module(&["fork", "ended", "--turn", turn, "--failed", "--json"], said).ok().json()
    }

    /// `leaf fork ended --agent`.
    #[track_caller]
    pub fn ended_agent(&self, agent: &str, said: &str) -> Value {
        self.module(&["fork", "ended", "--agent", agent, "--json"], said).ok().json()
    }

    /// `kill -9`, and waits until it is gone.
    #[track_caller]
    pub fn kill(&self) {
        self.running.signal("KILL");
        self.running.wait(SOON).expect("it is gone");
    }

    /// It left by itself: exit 0.
    #[track_caller]
    pub fn left(&self) {
        let ran = self.running.wait(SOON).expect("leaf follow leaves");
        assert_eq!(ran.code, 0, "{ran:?}");
    }

    /// It still runs after so long.
    #[track_caller]
    pub fn lives(&self, for_millis: u64) {
        let ran = self.running.wait(Duration::from_millis(for_millis));
        assert!(ran.is_none(), "leaf follow runs on: {ran:?}");
    }

    fn find(&self, key: &str, within: Duration) -> Option<Value> {
        let start = Instant::now();
        loop {
            self.read();
            let mut unread = self.unread.borrow_mut();
            if let Some(at) = unread.iter().position(|l| l.get(key).is_some()) {
                return unread.remove(at).map(|mut l| l[key].take());
            }
            drop(unread);
            if start.elapsed() >= within {
                return None;
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    #[track_caller]
    fn read(&self) {
        let text = fs::read_to_string(&self.out).unwrap_or_default();
        let seen = self.seen.get();
        let Some(end) = text.rfind('\n').filter(|end| *end >= seen) else {
            return;
        };
        for line in text[seen..=end].lines() {
            let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("a JSON line ({e}): {line}"));
            self.unread.borrow_mut().push_back(value);
        }
        self.seen.set(end + 1);
    }
}

impl Drop for Follower<'_, '_> {
    fn drop(&mut self) {
        if self.running.wait(Duration::ZERO).is_none() {
            self.running.signal("KILL");
        }
    }
}

/// A command below a session's client with text on its standard input, with or without a token.
#[track_caller]
pub fn module_command(session: &Session<'_>, token: Option<&str>, args: &[&str], input: &str) -> Ran {
    let words: Vec<String> = args.iter().map(|a| quoted(a)).collect();
    let token = token.map(|t| format!("LEAF_TOKEN={} ", quoted(t))).unwrap_or_default();
    session.shell(&format!("printf %s {} | {token}\"$LEAF\" {}", quoted(input), words.join(" ")))
}

/// The job directory made last.
fn newest_job(desk: &Desk) -> PathBuf {
    let jobs = fs::read_dir(desk.path("jobs")).expect("the jobs");
    let number = |path: &PathBuf| -> u32 {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix("job").and_then(|n| n.parse().ok()).unwrap_or(0)
    };
    jobs.map(|j| j.expect("a job").path()).max_by_key(number).expect("a job")
}

/// Agent ids that nobody had before.
fn fresh_agent() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("a2d3fa93{:09x}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An agent of a client: one of our forks, or any other.
pub struct Fork<'s, 'd> {
    pub session: &'s Session<'d>,
    pub agent: String,
    /// Empty where `leaf` opened no turn for it.
    pub turn: String,
    pub name: String,
    pub description: String,
    pub prompt: String,
    kind: &'static str,
    calls: Rc<Cell<u32>>,
}

/// What PreToolUse made of a call.
#[derive(Debug)]
pub enum Verdict {
    /// It passes as it is.
    Passed,
    /// It becomes another command.
    Rewritten(String),
    /// It is denied, with a reason.
    Denied(String),
}

impl<'s, 'd> Fork<'s, 'd> {
    /// The agent that the client makes of a `spawn`; nothing has run yet.
    #[track_caller]
    pub fn spawned(session: &'s Session<'d>, action: &Value) -> Self {
        assert_eq!(action["action"], "spawn", "{action}");
        Fork {
            turn: text(&action["turn"]),
            name: text(&action["name"]),
            description: text(&action["description"]),
            prompt: text(&action["prompt"]),
            ..Fork::stranger(session)
        }
    }

    /// The agent that a `resume` names.
    #[track_caller]
    pub fn resumed(session: &'s Session<'d>, action: &Value) -> Self {
        assert_eq!(action["action"], "resume", "{action}");
        Fork {
            agent: text(&action["agent_id"]),
            turn: text(&action["turn"]),
            prompt: text(&action["prompt"]),
            ..Fork::stranger(session)
        }
    }

    /// A fork that main made for itself.
    pub fn stranger(session: &'s Session<'d>) -> Self {
        Fork {
            session,
            agent: fresh_agent(),
            turn: String::new(),
            name: "research".into(),
            description: "look around".into(),
            prompt: "look around".into(),
            kind: "fork",
            calls: Rc::default(),
        }
    }

    /// Any other agent.
    pub fn worker(session: &'s Session<'d>) -> Self {
        Fork { kind: "general-purpose", ..Fork::stranger(session) }
    }

    /// The same agent as another session's hooks name it (after /clear).
    pub fn under(&self, session: &'s Session<'d>) -> Self {
        Fork {
            session,
            agent: self.agent.clone(),
            turn: self.turn.clone(),
            name: self.name.clone(),
            description: self.description.clone(),
            prompt: self.prompt.clone(),
            kind: self.kind,
            calls: Rc::clone(&self.calls),
        }
    }

    /// A recorded payload made this agent's own.
    pub fn payload(&self, name: &str) -> Value {
        let mut payload = self.session.payload(name);
        payload["agent_id"] = json!(self.agent);
        payload["agent_type"] = json!(self.kind);
        if payload.get("agent_transcript_path").is_some() {
            payload["agent_transcript_path"] = json!(self.record("jsonl"));
        }
        payload
    }

    /// SubagentStart.
    #[track_caller]
    pub fn begins(&self) -> HookRan {
        self.session.hook(&self.payload("SubagentStart.fork"))
    }

    /// PostToolUse of the Agent call that launched it.
    #[track_caller]
    pub fn launched(&self) -> HookRan {
        self.session.hook(&self.launch_payload())
    }

    pub fn launch_payload(&self) -> Value {
        let mut payload = self.session.payload("PostToolUse.main.Agent.spawn");
        payload["tool_input"]["description"] = json!(self.description);
        payload["tool_input"]["prompt"] = json!(self.prompt);
        payload["tool_input"]["name"] = json!(self.name);
        payload["tool_input"]["subagent_type"] = json!(self.kind);
        payload["tool_response"]["agentId"] = json!(self.agent);
        payload["tool_response"]["description"] = json!(self.description);
        payload["tool_response"]["prompt"] = json!(self.prompt);
        payload["tool_use_id"] = json!(self.tool_use());
        payload
    }

    /// The id of the Agent call that launched it.
    pub fn tool_use(&self) -> String {
        format!("toolu_plugin_{}", self.agent)
    }

    /// Writes its `meta.json`, as the client does before its first call.
    pub fn meta(&self) {
        self.meta_with(&json!({
            "agentType": self.kind, "isFork": self.kind == "fork", "description": self.description,
            "name": self.name, "toolUseId": self.tool_use(), "spawnDepth": 1, "requestShape": "background",
        }));
    }

    /// Writes the `meta.json` of an agent that `parent` started.
    pub fn meta_below(&self, parent: &Fork<'_, '_>) {
        self.meta_with(&json!({
            "agentType": self.kind, "isFork": false, "description": self.description,
            "toolUseId": self.tool_use(), "spawnDepth": 2, "requestShape": "foreground",
            "parentAgentId": parent.agent,
        }));
    }

    pub fn meta_with(&self, meta: &Value) {
        let path = self.record("meta.json");
        fs::create_dir_all(path.parent().expect("a directory")).expect("the subagents' directory");
        fs::write(path, meta.to_string()).expect("meta.json");
    }

    /// A file of the agent in the client's records.
    pub fn record(&self, extension: &str) -> PathBuf {
        let transcript = text(&self.session.payload("Stop.main.tui")["transcript_path"]);
        let dir = PathBuf::from(transcript.strip_suffix(".jsonl").expect("a transcript"));
        dir.join("subagents").join(format!("agent-{}.{extension}", self.agent))
    }

    /// PreToolUse of a tool.
    #[track_caller]
    pub fn pre(&self, tool: &str, input: Value) -> HookRan {
        self.calls.set(self.calls.get() + 1);
        let mut payload = self.payload("PreToolUse.fork.Bash");
        payload["tool_name"] = json!(tool);
        payload["tool_input"] = input;
        payload["tool_use_id"] = json!(self.call_id());
        self.session.hook(&payload)
    }

    /// PreToolUse of a Bash call: what becomes of it.
    #[track_caller]
    pub fn bash(&self, command: &str) -> Verdict {
        verdict(&self.pre("Bash", json!({"command": command, "description": "x"})))
    }

    /// It becomes a marked command.
    #[track_caller]
    pub fn marked(&self, command: &str) -> String {
        match self.bash(command) {
            Verdict::Rewritten(marked) => marked,
            other => panic!("{command} is marked: {other:?}"),
        }
    }

    /// It is denied: the reason.
    #[track_caller]
    pub fn denied(&self, command: &str) -> String {
        match self.bash(command) {
            Verdict::Denied(reason) => reason,
            other => panic!("{command} is denied: {other:?}"),
        }
    }

    /// It passes as it is.
    #[track_caller]
    pub fn passes(&self, command: &str) {
        match self.bash(command) {
            Verdict::Passed => {}
            other => panic!("{command} passes: {other:?}"),
        }
    }

    /// Runs a line below the client as its Bash tool would, with `leaf` on the path.
    #[track_caller]
    pub fn shell(&self, line: &str) -> Ran {
        self.session.shell(&format!("leaf() {{ \"$LEAF\" \"$@\"; }}\n{line}"))
    }

    /// One whole call: PreToolUse, the marked command, PostToolBatch; the command's result.
    #[track_caller]
    pub fn call(&self, command: &str) -> Ran {
        self.call_and_boundary(command).0
    }

    /// One whole call: the command's result, and what its boundary said.
    #[track_caller]
    pub fn call_and_boundary(&self, command: &str) -> (Ran, HookRan) {
        let marked = self.marked(command);
        let ran = self.shell(&marked);
        (ran, self.boundary())
    }

    /// A `leaf` command of its Bash tool, word by word; not yet judged.
    #[track_caller]
    pub fn leaf(&self, args: &[&str]) -> Ran {
        let words: Vec<String> = args.iter().map(|a| quoted(a)).collect();
        self.call(&format!("leaf {}", words.join(" ")))
    }

    /// A `leaf` command that is refused, by the hook or by itself: the reason.
    #[track_caller]
    pub fn refused(&self, args: &[&str]) -> String {
        let words: Vec<String> = args.iter().map(|a| quoted(a)).collect();
        let command = format!("leaf {}", words.join(" "));
        let reason = match self.bash(&command) {
            Verdict::Denied(reason) => reason,
            Verdict::Rewritten(marked) => self.shell(&marked).refused(),
            Verdict::Passed => panic!("{command} is refused, it passed unmarked"),
        };
        self.boundary().silent_or_context();
        assert!(!reason.trim().is_empty(), "a refusal says why");
        reason
    }

    /// Its answer; the event with its notes.
    #[track_caller]
    pub fn reply(&self, reference: &str, said: &str) -> Value {
        self.leaf(&["thread", "reply", reference, said, "--json"]).ok().json()
    }

    /// PostToolBatch.
    #[track_caller]
    pub fn boundary(&self) -> HookRan {
        self.session.hook(&self.payload("PostToolBatch.fork"))
    }

    /// PostToolBatch of a call that runs on in the background as `task`, in the client's own words.
    #[track_caller]
    pub fn boundary_backgrounding(&self, task: &str) -> HookRan {
        let mut payload = self.payload("PostToolBatch.fork");
        payload["tool_calls"] = json!([{
            "tool_name": "Bash",
            "tool_input": {"command": "sleep 8; echo bgdone", "description": "x", "run_in_background": true},
            "tool_use_id": "toolu_62_0",
            "tool_response": format!(
                "Command running in background with ID: {task}. Output is being written to: /tmp/claude-0/x/tasks/\
                 {task}.output. You will be notified when it completes \u{2014} do not poll that file or sleep while waiting."
            ),
        }]);
        self.session.hook(&payload)
    }

    /// PostToolBatch of a call that a message to the fork moved to the background.
    #[track_caller]
    pub fn boundary_moved(&self, task: &str) -> HookRan {
        let mut payload = self.payload("PostToolBatch.fork");
        payload["tool_calls"] = json!([{
            "tool_name": "Bash",
            "tool_input": {"command": "python3 -c 'import time; time.sleep(8)'", "description": "x"},
            "tool_use_id": "toolu_76_0",
            "tool_response": format!(
                "Command was moved to the background (ID: {task}) so that a message that arrived while it was \
                 running can reach you; it was not interrupted. Output is being written to: /tmp/claude-0/x/tasks/{task}.output."
            ),
        }]);
        self.session.hook(&payload)
    }

    /// SubagentStop: nothing of its own goes on.
    #[track_caller]
    pub fn stops(&self, said: &str) -> HookRan {
        self.stops_with(said, &[])
    }

    /// SubagentStop that lists further tasks.
    #[track_caller]
    pub fn stops_with(&self, said: &str, tasks: &[Value]) -> HookRan {
        let mut payload = self.payload("SubagentStop.fork");
        payload["last_assistant_message"] = json!(said);
        let mut list = vec![self.task()];
        list.extend_from_slice(tasks);
        payload["background_tasks"] = json!(list);
        self.session.hook(&payload)
    }

    /// It as an entry of `background_tasks`.
    pub fn task(&self) -> Value {
        json!({"id": self.agent, "type": "subagent", "status": "running",
               "description": self.description, "agent_type": self.kind})
    }

    /// StopFailure with its agent id.
    #[track_caller]
    pub fn fails(&self) -> HookRan {
        self.session.hook(&self.payload("StopFailure.fork.forkerr"))
    }

    /// The references in its prompt.
    pub fn references(&self) -> Vec<String> {
        references(&self.prompt)
    }

    /// The one reference in its prompt.
    #[track_caller]
    pub fn reference(&self) -> String {
        let found = self.references();
        assert_eq!(found.len(), 1, "one reference: {}", self.prompt);
        found[0].clone()
    }

    fn call_id(&self) -> String {
        format!("toolu_{}_{}", self.agent, self.calls.get())
    }
}

/// What a PreToolUse hook decided.
#[track_caller]
pub fn verdict(hook: &HookRan) -> Verdict {
    let Some(answer) = &hook.answer else {
        return Verdict::Passed;
    };
    let output = &answer["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "PreToolUse", "{answer}");
    if let Some(command) = output["updatedInput"]["command"].as_str() {
        assert_eq!(output.get("permissionDecision"), None, "a mark grants no permission: {answer}");
        return Verdict::Rewritten(command.to_owned());
    }
    Verdict::Denied(hook.denied())
}

/// A shell as an entry of `background_tasks`.
pub fn shell_task(id: &str) -> Value {
    json!({"id": id, "type": "shell", "status": "running", "description": "x", "command": "sleep 8; echo bgdone"})
}

/// A Stop of main that lists these background tasks.
#[track_caller]
pub fn stop_listing(session: &Session<'_>, tasks: &[Value]) -> HookRan {
    let mut payload = session.payload("Stop.main");
    payload["background_tasks"] = json!(tasks);
    session.hook(&payload)
}

/// The client's notification at an agent's end, as a prompt of main.
pub fn notification(session: &Session<'_>, agent: &str, tool_use: Option<&str>, status: &str, said: &str) -> Value {
    let mut payload = session.payload("UserPromptSubmit.main.task-notification");
    let id = tool_use.map(|t| format!("<tool-use-id>{t}</tool-use-id>\n")).unwrap_or_default();
    payload["prompt"] = json!(format!(
        "<task-notification>\n<task-id>{agent}</task-id>\n{id}<output-file>/tmp/out</output-file>\n\
         <status>{status}</status>\n<summary>Agent \"x\" finished</summary>\n<result>{said}</result>\n\
         </task-notification>"
    ));
    payload
}

/// PostToolUse of main's TaskStop.
#[track_caller]
pub fn task_stop(session: &Session<'_>, agent: &str) -> HookRan {
    let mut payload = session.payload("PostToolUse.main.TaskStop");
    payload["tool_input"]["task_id"] = json!(agent);
    payload["tool_response"]["task_id"] = json!(agent);
    session.hook(&payload)
}
