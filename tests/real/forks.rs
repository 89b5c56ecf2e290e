//! Working forks that the real client starts: whose their commands are, and when their turns end.
//!
//! The hooks module is played by a person's processes: `leaf follow` and `leaf fork …`. The forks are the
//! client's own, started by the scripted model's Agent call as the action of `leaf fork line` says.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::client::{Client, LEAF, Run, until};
use crate::model::{Gate, Reply, Request, references};
use crate::{LIMIT, logs, page, thread, until_answered, write};

const SESSION: &str = "3d2c9b60-7a1e-4f58-9c04-1b8e6a5f4d37";

/// What the client's own permission rules let run; a fork's mark has to pass them.
const RULES: &str = "Bash(leaf:*),Bash(python3:*),Bash(bash:*)";

/// Who asks the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Main,
    Fork,
    Helper,
}

fn who(request: &Request) -> Who {
    if request.opening().contains("HELPER:") {
        Who::Helper
    } else if request.conversation().contains("You are a worker fork") {
        Who::Fork
    } else {
        Who::Main
    }
}

/// What each actor says next. Whoever has nothing left to say ends its turn; main first answers what it
/// is handed.
#[derive(Clone, Default)]
struct Cast(Arc<Mutex<[VecDeque<Reply>; 3]>>);

impl Cast {
    fn says(&self, who: Who, replies: impl IntoIterator<Item = Reply>) {
        let mut cast = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cast[who as usize].extend(replies);
    }

    fn next(&self, request: &Request) -> Reply {
        let who = who(request);
        let mut cast = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cast[who as usize].pop_front().unwrap_or_else(|| match request.references().first() {
            Some(reference) if who == Who::Main => Reply::bash(format!("leaf thread reply {reference} 'From main.'")),
            _ => Reply::text(format!("that is all from {who:?}")),
        })
    }
}

/// A client whose model is this cast, with working forks on.
fn forking() -> (Client, Cast) {
    let cast = Cast::default();
    let script = cast.clone();
    (Client::new(move |request| script.next(request)).without_module().with("LEAF_FORK_WORK", "on"), cast)
}

/// A call that goes on until the test lets it end with [`let_go`].
fn busy(name: &str) -> Reply {
    Reply::bash(format!(
        "python3 -c 'import os,time;open(\"{name}.busy\",\"w\").close();[time.sleep(0.05) for _ in range(1000) if not \
         os.path.exists(\"{name}.go\")]'"
    ))
}

fn until_in(client: &Client, name: &str) {
    let sign = client.path(&format!("project/{name}.busy"));
    until(&format!("it is in the call {name}"), LIMIT, || sign.exists().then_some(()))
        .unwrap_or_else(|late| panic!("{late}"));
}

fn let_go(client: &Client, name: &str) {
    fs::write(client.path(&format!("project/{name}.go")), "").expect("a file");
}

/// An unattended run whose main is in the call `one`.
fn busy_run<'c>(client: &'c Client, cast: &Cast, rules: &str) -> Run<'c> {
    cast.says(Who::Main, [busy("one")]);
    let run = client.print("Look around.", &["--session-id", SESSION, "--allowedTools", rules]);
    until_in(client, "one");
    run
}

/// `leaf follow` and what the hooks module does with its lines, outside of the client.
struct Follower<'c> {
    client: &'c Client,
    child: Child,
    lines: Receiver<Value>,
}

/// A thread that a fork is to take.
struct Taken {
    message: Value,
    thread: String,
    turn: String,
    /// By which the fork answers.
    reference: String,
    action: Value,
}

impl<'c> Follower<'c> {
    /// Starts it, and waits until its lane is live.
    fn start(client: &'c Client) -> Self {
        let mut command = client.command(LEAF, "project");
        command.args(["follow", "--session", SESSION]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("leaf starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let follower = Self { client, child, lines };
        follower.expect("token");
        follower
    }

    /// The next line of this kind: its value.
    fn expect(&self, kind: &str) -> Value {
        loop {
            let line = self.lines.recv_timeout(LIMIT);
            let mut line = line.unwrap_or_else(|late| panic!("leaf follow prints no {kind}: {late}"));
            if !line[kind].is_null() {
                return line[kind].take();
            }
        }
    }

    /// The person writes, and the line fork finds it small.
    fn take(&self, text: &str) -> Taken {
        let message = write(self.client, text, SESSION);
        let id = |value: &Value| value.as_str().expect("an id").to_owned();
        let ask = self.expect("ask");
        let (thread, through) = (id(&ask["thread"]), id(&ask["through"]));
        assert_eq!(message["thread"], thread.as_str());
        let said = json!({"line": "On it.", "sort": "small"}).to_string();
        let action = self.client.json_of(&["fork", "line", &thread, "--through", &through], &said);
        assert_eq!(action["action"], "spawn", "{action}");
        let reference = references(action["prompt"].as_str().expect("a prompt")).remove(0);
        Taken { message, thread, turn: id(&action["turn"]), reference, action }
    }

    /// The module's report of a run's end: what came of it.
    fn ended(&self, taken: &Taken, text: &str) -> Value {
        self.client.json_of(&["fork", "ended", "--turn", &taken.turn], text)
    }

    /// It leaves with its client.
    fn left(mut self) {
        let left = until("the follower has left", LIMIT, || self.child.try_wait().expect("a child"));
        assert!(left.unwrap_or_else(|late| panic!("{late}")).success());
    }

    fn kill(mut self) {
        self.child.kill().expect("it is killed");
        self.child.wait().expect("it is gone");
    }
}

impl Drop for Follower<'_> {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Taken {
    /// Main's call that starts the fork.
    fn spawn(&self) -> Reply {
        let text = |key: &str| self.action[key].as_str().expect("text").to_owned();
        Reply::agent("fork", &text("description"), &text("prompt"), true)
    }

    fn reply(&self, text: &str) -> String {
        format!("leaf thread reply {} '{text}'", self.reference)
    }

    /// The turn as `leaf page state` shows it.
    fn turn(&self, client: &Client) -> Value {
        let state = client.json(&["page", "state", "--page", &page(client, &self.message)]);
        let turns = state["turns"].as_array().expect("turns").iter();
        let found = turns.clone().find(|turn| turn["turn"] == self.turn.as_str());
        found.unwrap_or_else(|| panic!("no turn {}: {state}", self.turn)).clone()
    }

    /// The entries of this kind of the thread's story.
    fn why(&self, client: &Client, kind: &str) -> Vec<Value> {
        let story = client.json(&["why", &self.thread]);
        let story = story.as_array().expect("entries").iter();
        story.filter(|entry| entry["kind"] == kind).cloned().collect()
    }

    /// The agent that the client gave the turn.
    fn agent(&self, client: &Client) -> String {
        let named = self.why(client, "named");
        named
            .first()
            .and_then(|entry| entry["agent"].as_str())
            .unwrap_or_else(|| panic!("unnamed: {named:?}"))
            .to_owned()
    }
}

/// The results of an actor's own calls, in their order, as (is an error, text).
fn results(client: &Client, actor: Who) -> Vec<(bool, String)> {
    let requests = client.model.requests().into_iter();
    // A fork's first request has the Agent call that started it as main's result.
    let own = requests.filter(|request| who(request) == actor && !request.text().contains("You are a worker fork"));
    own.flat_map(|request| request.results()).collect()
}

/// Waits for the result of an actor's call, the first being 0.
fn result(client: &Client, actor: Who, n: usize) -> (bool, String) {
    until(&format!("result {n} of {actor:?}"), LIMIT, || results(client, actor).into_iter().nth(n))
        .unwrap_or_else(|late| panic!("{late}"))
}

/// The replies in the pages' logs.
fn replies(client: &Client) -> Vec<Value> {
    let logs = logs(client);
    let events = logs.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    events.filter(|event| event["kind"] == "reply").collect()
}

/// Asserts that the only reply is this one, written in the fork's turn.
fn assert_the_forks(client: &Client, taken: &Taken, text: &str) {
    let replies = replies(client);
    assert_eq!(replies.len(), 1, "{replies:?}");
    let reply = &replies[0];
    assert_eq!(reply["text"], text, "{reply}");
    assert_eq!(reply["by"], "fork", "{reply}");
    assert_eq!(reply["turn"], taken.turn.as_str(), "{reply}");
    assert_eq!(reply["responds"], taken.message["id"], "{reply}");
    assert_eq!(reply["session"], SESSION, "{reply}");
    assert_eq!(thread(client, &taken.message)["status"], "answered");
}

/// How often main was handed this text.
fn handed_to_main(client: &Client, text: &str) -> usize {
    let requests = client.model.requests().into_iter();
    requests.filter(|request| who(request) == Who::Main && request.text().contains(text)).count()
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r067_a_forks_reply_runs_with_its_mark_and_asks_for_no_permission() {
    let (client, cast) = forking();
    let run = busy_run(&client, &cast, "Bash(leaf:*),Bash(python3:*)");
    let follower = Follower::start(&client);
    let taken = follower.take("Which colour is the door?");
    cast.says(Who::Main, [taken.spawn(), busy("two")]);
    cast.says(Who::Fork, [Reply::bash(taken.reply("It is blue."))]);
    let_go(&client, "one");

    let (error, said) = result(&client, Who::Fork, 0);
    assert!(!error, "{said}");
    assert_the_forks(&client, &taken, "It is blue.");
    let agent = taken.agent(&client);
    assert_eq!(replies(&client)[0]["agent"], agent.as_str());
    let named = taken.why(&client, "named");
    assert!(matches!(named[0]["naming"].as_str(), Some("agent_tool" | "meta")), "{named:?}");
    assert!(named[0]["tool_use"].as_str().is_some_and(|id| id.starts_with("toolu_")), "R120: {named:?}");
    for request in client.model.requests() {
        assert!(!request.conversation().contains("--agent-id"), "the model never meets the mark: {request:?}");
    }

    assert_eq!(taken.turn(&client)["state"], "running");
    until_in(&client, "two");
    let ended = follower.ended(&taken, "It is blue, I said.");
    assert_eq!(ended["outcome"], "answer", "{ended}");
    let_go(&client, "two");
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert_eq!(handed_to_main(&client, "Which colour is the door?"), 0, "the thread was the fork's");
    follower.left();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r067_the_mark_grants_no_permission() {
    let (client, cast) = forking();
    let run = busy_run(&client, &cast, "Bash(python3:*)");
    let follower = Follower::start(&client);
    let taken = follower.take("Which colour is the door?");
    cast.says(Who::Main, [taken.spawn(), busy("two")]);
    cast.says(Who::Fork, [Reply::bash(taken.reply("It is blue."))]);
    let_go(&client, "one");

    let (error, said) = result(&client, Who::Fork, 0);
    assert!(error && !said.contains("leaf:"), "the client's own rules stop it: {said}");
    assert_eq!(replies(&client), [] as [Value; 0]);
    until_in(&client, "two");
    let ended = follower.ended(&taken, "I may not.");
    assert_eq!(ended["outcome"], "hand_back", "{ended}");
    let_go(&client, "two");
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(handed_to_main(&client, "Which colour is the door?") > 0, "it is main's");
    follower.left();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r069_what_hides_leaf_is_denied_to_a_fork_with_the_reason() {
    let (client, cast) = forking();
    let run = busy_run(&client, &cast, RULES);
    let follower = Follower::start(&client);
    let taken = follower.take("Where is the key?");
    cast.says(Who::Main, [taken.spawn(), busy("two")]);
    let hidden = format!("bash -c \"{}\"", taken.reply("Under the mat."));
    cast.says(Who::Fork, [Reply::bash(hidden), Reply::bash(taken.reply("Under the stone."))]);
    let_go(&client, "one");

    let (error, said) = result(&client, Who::Fork, 0);
    assert!(error && said.contains("PreToolUse:Bash hook error") && said.contains("R69"), "{said}");
    assert!(said.contains("leaf thread reply REF <<"), "the way out first: {said}");
    // The client's rules would have let it run, and main's own runs.
    let (error, said) = result(&client, Who::Fork, 1);
    assert!(!error, "{said}");
    assert_the_forks(&client, &taken, "Under the stone.");
    assert_eq!(follower.ended(&taken, "")["outcome"], "answer");
    cast.says(Who::Main, [Reply::bash("bash -c 'leaf page list'")]);
    until_in(&client, "two");
    let_go(&client, "two");
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let mains = results(&client, Who::Main);
    assert!(!mains[3].0, "{mains:?}");
    follower.left();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r068_r109_a_fork_that_lives_on_after_clear_is_refused_and_never_main() {
    let (client, cast) = forking();
    let terminal = client.open(&["--session-id", SESSION, "--allowedTools", RULES]);
    terminal.say("hello there");
    terminal.wait("the reply", |screen| screen.contains("that is all from Main"));
    let follower = Follower::start(&client);
    let taken = follower.take("Who has the ladder?");
    let cleared = Gate::default();
    cast.says(Who::Main, [taken.spawn(), Reply::text("a copy is at it")]);
    cast.says(
        Who::Fork,
        [
            Reply::bash(taken.reply("The old life.")).behind(&cleared),
            Reply::bash("leaf page list"),
            Reply::bash("bash -c 'leaf page list'"),
            Reply::bash("python3 -c 'print(40+2)'"),
        ],
    );
    terminal.say("start it");
    terminal.wait("main's last words", |screen| screen.contains("a copy is at it"));
    let began = client.model.wait_for(LIMIT, |request| who(request) == Who::Fork);
    assert!(began.is_some(), "the fork runs");
    assert_eq!(taken.turn(&client)["state"], "running");
    terminal.say("/clear");
    terminal.wait("an empty screen", |screen| !screen.contains("a copy is at it"));

    // The thread is handed back: the module is told to wake main of the new session, which answers.
    follower.expect("wake");
    terminal.say("what is there to do");
    until_answered(&client, &taken.message);
    let state = client.json(&["page", "state", "--page", &page(&client, &taken.message)]);
    assert_ne!(state["session"], SESSION, "{state}");
    assert_eq!(state["follower"]["running"], true, "R19: {state}");
    let ended = taken.why(&client, "ended");
    assert_eq!(ended[0]["outcome"], "hand_back", "{ended:?}");
    assert_eq!(ended[0]["evidence"], "generation", "{ended:?}");

    cleared.open();
    for call in 0..3 {
        let (error, said) = result(&client, Who::Fork, call);
        assert!(error && said.contains("PreToolUse:Bash hook error") && said.contains("R68"), "{call}: {said}");
    }
    let (error, said) = result(&client, Who::Fork, 3);
    assert!(!error && said.contains("42"), "what isn't leaf's passes: {said}");
    let replies = replies(&client);
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert_eq!((&replies[0]["by"], &replies[0]["text"]), (&json!("main"), &json!("From main.")));
    terminal.exit();
    follower.left();
    client.settle();
}

/// Plays a fork whose first calls are agents: a copy, and a helper that answers.
fn with_a_helper(client: Client, cast: &Cast, naming: &[&str]) {
    let run = busy_run(&client, cast, "Bash(leaf:*),Bash(python3:*)");
    let follower = Follower::start(&client);
    let taken = follower.take("How far is it?");
    cast.says(Who::Main, [taken.spawn(), busy("two")]);
    cast.says(
        Who::Fork,
        [
            Reply::agent("fork", "another copy", "COPY: measure it", false),
            Reply::agent("general-purpose", "measure it", "HELPER: measure it", false),
        ],
    );
    cast.says(Who::Helper, [Reply::bash(taken.reply("Four miles."))]);
    let_go(&client, "one");

    let (error, said) = result(&client, Who::Fork, 0);
    assert!(error && said.contains("R116"), "a fork makes no forks: {said}");
    let (error, said) = result(&client, Who::Helper, 0);
    assert!(!error, "{said}");
    assert_the_forks(&client, &taken, "Four miles.");
    let named = taken.why(&client, "named");
    assert!(named[0]["naming"].as_str().is_some_and(|by| naming.contains(&by)), "{named:?}");
    let (error, said) = result(&client, Who::Fork, 1);
    assert!(!error && said.contains("that is all from Helper"), "{said}");
    // The helper's end is none of the fork's.
    assert_eq!(follower.ended(&taken, "It says four miles.")["outcome"], "answer");
    until_in(&client, "two");
    let_go(&client, "two");
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    follower.left();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r116_a_helper_that_a_fork_started_writes_in_the_forks_turn() {
    let (client, cast) = forking();
    with_a_helper(client, &cast, &["agent_tool", "meta"]);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r036_a_fork_and_its_helper_are_known_before_the_client_says_that_it_launched_them() {
    let (client, cast) = forking();
    // PostToolUse(Agent) may be as late as it likes: here it never comes.
    let file = client.path("plugin/hooks.json");
    let mut hooks: Value = serde_json::from_slice(&fs::read(&file).expect("hooks")).expect("JSON");
    assert!(hooks["hooks"].as_object_mut().expect("events").remove("PostToolUse").is_some());
    fs::write(&file, hooks.to_string()).expect("a file");
    with_a_helper(client, &cast, &["meta"]);
}

/// A clock that the test moves.
struct Clock<'c>(&'c Client);

impl Clock<'_> {
    const FILE: &'static str = "now";

    fn set(&self, minutes: u32, seconds: u32) {
        let now = format!("2031-05-04T10:{minutes:02}:{seconds:02}Z");
        // A half-written time would be none.
        fs::write(self.0.path("next"), now).expect("a file");
        fs::rename(self.0.path("next"), self.0.path(Self::FILE)).expect("a clock");
    }
}

/// Another plugin, whose SubagentStop hook blocks the first stop of all: its directory.
fn another_plugin(client: &Client) -> String {
    let plugin = client.path("other");
    fs::create_dir_all(plugin.join(".claude-plugin")).expect("a directory");
    fs::create_dir_all(plugin.join("hooks")).expect("a directory");
    let manifest = json!({"name": "other", "version": "0.0.1", "description": "Blocks the first stop."});
    fs::write(plugin.join(".claude-plugin/plugin.json"), manifest.to_string()).expect("a file");
    let script =
        r#"echo stop >> stops; [ "$(wc -l < stops)" -gt 1 ] || echo '{"decision":"block","reason":"LOOK ONCE MORE"}'"#;
    let hooks = json!({"hooks": {"SubagentStop": [{"hooks": [{"type": "command", "command": script}]}]}});
    fs::write(plugin.join("hooks/hooks.json"), hooks.to_string()).expect("a file");
    plugin.to_str().expect("UTF-8").to_owned()
}

/// Plays a fork whose first stop another plugin blocks, up to its second: its turn outlives more than
/// sixty seconds of its going on.
fn blocked_once<'c>(client: &'c Client, cast: &Cast, follows: bool) -> (Run<'c>, Option<Follower<'c>>, Taken) {
    let clock = Clock(client);
    clock.set(0, 0);
    cast.says(Who::Main, [busy("one")]);
    let other = another_plugin(client);
    let run = client.print(
        "Look around.",
        &["--session-id", SESSION, "--allowedTools", "Bash(leaf:*),Bash(python3:*)", "--plugin-dir", &other],
    );
    until_in(client, "one");
    let follower = Follower::start(client);
    let taken = follower.take("Is it raining?");
    cast.says(Who::Main, [taken.spawn(), busy("two"), busy("three")]);
    cast.says(
        Who::Fork,
        [
            Reply::bash(format!("leaf thread show {}", taken.thread)),
            Reply::text("a first last word"),
            busy("fork"),
            Reply::bash(taken.reply("Not any more.")),
            Reply::text("the last word"),
        ],
    );
    let follower = if follows {
        Some(follower)
    } else {
        follower.kill();
        None
    };
    let_go(client, "one");
    until_in(client, "fork");
    let again = client.model.requests();
    let again = again.iter().filter(|request| who(request) == Who::Fork && request.text().contains("LOOK ONCE MORE"));
    assert_eq!(again.count(), 1, "the other plugin's hook made it go on");

    // Whoever acts on time sees it now: main's boundary, and the follower.
    clock.set(1, 30);
    until_in(client, "two");
    let_go(client, "two");
    until_in(client, "three");
    assert_eq!(taken.turn(client)["state"], "running", "{:?}", client.json(&["why", &taken.thread]));
    let_go(client, "fork");
    let (error, said) = result(client, Who::Fork, 2);
    assert!(!error, "{said}");
    assert_the_forks(client, &taken, "Not any more.");
    let finished = || stops(client) == 2 && meta(client, &taken)["finished"] == true;
    until("the fork has ended", LIMIT, || finished().then_some(())).unwrap_or_else(|late| panic!("{late}"));
    assert_eq!(taken.turn(client)["state"], "running", "a stop alone is no end");
    clock.set(2, 45);
    (run, follower, taken)
}

fn stops(client: &Client) -> usize {
    fs::read_to_string(client.path("project/stops")).unwrap_or_default().lines().count()
}

/// What the client keeps of the fork.
fn meta(client: &Client, taken: &Taken) -> Value {
    let file = format!("{SESSION}/subagents/agent-{}.meta.json", taken.agent(client));
    let projects = fs::read_dir(client.path("home/.claude/projects")).expect("projects").flatten();
    let metas = projects.filter_map(|project| fs::read(project.path().join(&file)).ok());
    metas.filter_map(|meta| serde_json::from_slice(&meta).ok()).next().unwrap_or_default()
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_a_stop_that_another_plugin_blocks_ends_no_turn_and_the_second_does_after_a_minute() {
    let (client, cast) = forking();
    let now = format!("@{}", client.path(Clock::FILE).display());
    let client = client.with("LEAF_NOW", now);
    let (run, _, taken) = blocked_once(&client, &cast, false);
    assert_eq!(taken.turn(&client)["state"], "ended", "R88: a reading shows it");
    let_go(&client, "three");
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let ended = taken.why(&client, "ended");
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!((&ended[0]["outcome"], &ended[0]["evidence"]), (&json!("answer"), &json!("subagent_stop")));
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_with_a_live_follower_only_its_report_ends_the_turn() {
    let (client, cast) = forking();
    let now = format!("@{}", client.path(Clock::FILE).display());
    let client = client.with("LEAF_NOW", now);
    let (run, follower, taken) = blocked_once(&client, &cast, true);
    let follower = follower.expect("it lives");
    assert_eq!(taken.turn(&client)["state"], "running");
    let ended = follower.ended(&taken, "the last word");
    assert_eq!(ended["outcome"], "answer", "{ended}");
    assert_eq!(follower.ended(&taken, "the last word")["outcome"], "answer", "and again the same");
    let_go(&client, "three");
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    follower.left();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r106_a_thread_outlives_an_unattended_main_that_stops_before_its_fork() {
    let (client, cast) = forking();
    let run = busy_run(&client, &cast, "Bash(leaf:*),Bash(python3:*)");
    let follower = Follower::start(&client);
    let taken = follower.take("Is anyone in?");
    cast.says(Who::Main, [taken.spawn()]);
    cast.says(Who::Fork, [busy("fork"), Reply::bash(taken.reply("From the fork."))]);
    let_go(&client, "one");
    until_in(&client, "fork");
    // Main has nothing left to do, and its Stop comes; the client waits for the fork.
    let stopped = client.model.wait_for(LIMIT, |request| {
        who(request) == Who::Main && request.text().contains("Stop hook additional context")
    });
    let stopped = stopped.expect("the Stop goes on for what the fork left");
    assert!(stopped.text().contains("Is anyone in?"), "delivered by that Stop: {stopped:?}");
    until_answered(&client, &taken.message);
    let_go(&client, "fork");
    let (error, said) = result(&client, Who::Fork, 1);
    assert!(error && said.contains("R68"), "{said}");
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let replies = replies(&client);
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert_eq!(replies[0]["text"], "From main.", "{replies:?}");
    let ended = taken.why(&client, "ended");
    assert_eq!((&ended[0]["outcome"], &ended[0]["evidence"]), (&json!("hand_back"), &json!("client")));
    follower.left();
    client.settle();
}
