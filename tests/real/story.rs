//! What a story of forks is told with: a session whose forks are on, who said what to the model, and what the thread says of it.

use std::fs::{self, File};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use crate::LIMIT;
use crate::cast::{Cast, Who, who};
use crate::client::{Client, Terminal, until};
use crate::model::Request;
use crate::{page, thread, write};

/// The session of every story; each has a home of its own.
pub const SESSION: &str = "5b1e7c40-93d2-4a6f-8e17-2c9d4f60a8b3";

/// What the client's own permission rules let run; a fork's mark has to pass them.
pub const RULES: &str = "Bash(leaf:*),Bash(python3:*)";

/// How long a story watches that nothing more comes.
const QUIET: Duration = Duration::from_millis(1500);

/// A client whose working forks are on, and its cast.
pub struct Story {
    pub client: Client,
    pub cast: Cast,
}

impl Story {
    pub fn new() -> Self {
        let cast = Cast::default();
        let script = cast.clone();
        Self { client: Client::new(move |request| script.next(request)).with("LEAF_FORK_WORK", "on"), cast }
    }

    /// The same, with one more variable in its environment.
    pub fn with(self, name: &'static str, value: impl Into<String>) -> Self {
        Self { client: self.client.with(name, value), ..self }
    }

    /// The terminal of a session that never had a turn, its follower there.
    pub fn open(&self) -> Terminal<'_> {
        let terminal = self.client.open(&["--session-id", SESSION, "--allowedTools", RULES]);
        self.until_followed();
        terminal
    }

    /// The terminal of an idle session that has something to fork.
    pub fn open_after_a_turn(&self) -> Terminal<'_> {
        let terminal = self.open();
        terminal.say("hello there");
        terminal.wait("the reply", |screen| screen.contains("that is all from Main"));
        self.until_idle();
        terminal
    }

    /// Waits until main's turn has ended. Its Stop's hook runs behind the words on the screen: a message that came before it would be
    /// told of there.
    pub fn until_idle(&self) {
        let idle = |session: &Value| session["id"] == SESSION && session["turn"].is_null();
        until("main's turn is over", LIMIT, || {
            let status = self.client.json(&["status"]);
            status["sessions"].as_array().is_some_and(|sessions| sessions.iter().any(idle)).then_some(())
        })
        .unwrap_or_else(|late| panic!("{late}: {:#}", self.client.json(&["status"])));
    }

    /// Waits until a follower holds the lane: what is written from now on is kept back.
    pub fn until_followed(&self) {
        until("a follower has the lane", LIMIT, || self.is_followed().then_some(()))
            .unwrap_or_else(|late| panic!("{late}: {:?}", self.client.processes()));
    }

    fn is_followed(&self) -> bool {
        let sessions =
            fs::read_dir(self.client.path("home/.local/state/leaf/sessions")).into_iter().flatten().flatten();
        // Whoever can have it shared finds nobody in it.
        let held = |lane: File| flock(&lane, FlockOperation::NonBlockingLockShared).is_err();
        sessions.filter_map(|session| File::open(session.path().join("lanes/follower")).ok()).any(held)
    }

    /// A new message of the person's: its event.
    pub fn write(&self, text: &str) -> Value {
        write(&self.client, text, SESSION)
    }

    /// A further message in that message's thread.
    pub fn say(&self, message: &Value, text: &str) -> Value {
        self.client.json(&["thread", "say", id(message, "thread"), text])
    }

    /// The thread of the message as `leaf page state` shows it.
    pub fn thread(&self, message: &Value) -> Value {
        thread(&self.client, message)
    }

    /// Waits until that is true of the message's thread.
    pub fn until(&self, what: &str, message: &Value, holds: impl Fn(&Value) -> bool) -> Value {
        until(what, LIMIT, || Some(self.thread(message)).filter(&holds)).unwrap_or_else(|late| {
            panic!("{late}: {:#}\n{:#}", self.thread(message), self.why(message));
        })
    }

    /// Waits until nothing waits there any more.
    pub fn until_answered(&self, message: &Value) -> Value {
        self.until("it is answered", message, |thread| thread["status"] == "answered")
    }

    /// The thread's story, whole.
    pub fn why(&self, message: &Value) -> Value {
        self.client.json(&["why", id(message, "thread")])
    }

    /// The entries of this kind in the thread's story.
    pub fn entries(&self, message: &Value, kind: &str) -> Vec<Value> {
        let story = self.why(message);
        let story = story.as_array().expect("entries").iter();
        story.filter(|entry| entry["kind"] == kind).cloned().collect()
    }

    /// How the thread's turns of forks ended, in order.
    pub fn ends(&self, message: &Value) -> Vec<String> {
        let ends = self.entries(message, "ended").into_iter().filter(|entry| entry["by"] == "fork");
        ends.map(|entry| entry["outcome"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits for the thread's turns to have ended so, in order.
    pub fn until_ended(&self, message: &Value, outcomes: &[&str]) {
        until(&format!("the turns ended as {outcomes:?}"), LIMIT, || (self.ends(message) == outcomes).then_some(()))
            .unwrap_or_else(|late| panic!("{late}: {:#}", self.why(message)));
    }

    /// The agents that the thread's turns were given, in order.
    pub fn agents(&self, message: &Value) -> Vec<String> {
        let mut agents: Vec<String> = Vec::new();
        for entry in self.entries(message, "named") {
            agents.extend(entry["agent"].as_str().map(str::to_owned));
        }
        agents.dedup();
        agents
    }

    /// The texts of the thread's answers with who wrote each, in order.
    pub fn answers(&self, message: &Value) -> Vec<(String, String)> {
        let thread = self.thread(message);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let messages = thread["messages"].as_array().expect("messages").iter();
        messages
            .filter(|message| message["author"] == "agent")
            .map(|reply| (text(&reply["by"]), text(&reply["text"])))
            .collect()
    }

    /// What the model was asked by actors of this kind.
    pub fn requests(&self, actor: Who) -> Vec<Request> {
        self.client.model.requests().into_iter().filter(|request| who(request) == actor).collect()
    }

    /// How often.
    pub fn asked(&self, actor: Who) -> usize {
        self.requests(actor).len()
    }

    /// Waits for the n-th request of such an actor, the first being 0.
    pub fn request(&self, actor: Who, n: usize) -> Request {
        until(&format!("request {n} of {actor:?}"), LIMIT, || self.requests(actor).into_iter().nth(n))
            .unwrap_or_else(|late| panic!("{late}"))
    }

    /// The results of an actor's own calls, in their order, as (is an error, text).
    pub fn results(&self, actor: Who) -> Vec<(bool, String)> {
        // A fork's first request has the Agent call that started it as main's result.
        let own = self.requests(actor).into_iter().filter(|request| !request.text().contains("You are a worker fork"));
        own.flat_map(|request| request.results()).collect()
    }

    /// Waits for the result of an actor's call, the first being 0.
    pub fn result(&self, actor: Who, n: usize) -> (bool, String) {
        until(&format!("result {n} of {actor:?}"), LIMIT, || self.results(actor).into_iter().nth(n))
            .unwrap_or_else(|late| panic!("{late}"))
    }

    /// How often main was told this.
    pub fn heard(&self, text: &str) -> usize {
        self.requests(Who::Main).iter().filter(|request| request.text().contains(text)).count()
    }

    /// How often main was woken.
    pub fn wakes(&self) -> usize {
        self.heard("something waits beside this session") + self.heard("SYSTEM NOTIFICATION")
    }

    /// Asserts that main asked the model so often, woken so often, and that nothing more comes.
    pub fn quiet(&self, asked: usize, wakes: usize) {
        until("main was asked that often", LIMIT, || (self.asked(Who::Main) >= asked).then_some(()))
            .unwrap_or_else(|late| panic!("{late}: {:?}", self.requests(Who::Main)));
        // That something doesn't come can only be waited for.
        std::thread::sleep(QUIET);
        let requests = self.requests(Who::Main);
        assert_eq!(requests.len(), asked, "{requests:#?}");
        assert_eq!(self.wakes(), wakes, "{requests:#?}");
    }

    /// Asserts that every thread is answered, with main or with a fork that runs, and that no turn is open that nobody can end.
    pub fn accounted(&self) {
        let pages = self.client.json(&["page", "list"]);
        for page in pages.as_array().expect("pages") {
            let slug = ["page", "id", "slug"].iter().find_map(|key| page[key].as_str()).expect("a page's name");
            let state = self.client.json(&["page", "state", "--page", slug]);
            for owed in state["owed"].as_array().expect("owed") {
                assert!(!owed["owed_by"].is_null(), "owed by nobody: {state:#}");
            }
            let mut covered = Vec::new();
            for thread in state["threads"].as_array().expect("threads") {
                for message in thread["messages"].as_array().expect("messages") {
                    if message["author"] == "agent" && !message["responds"].is_null() {
                        covered.push(message["responds"].clone());
                    }
                }
            }
            let all = covered.len();
            covered.sort_by_key(Value::to_string);
            covered.dedup();
            assert_eq!(covered.len(), all, "answered twice: {state:#}");
        }
    }

    /// The page's turns of forks that have not ended.
    pub fn open_turns(&self, message: &Value) -> Vec<Value> {
        let state = self.client.json(&["page", "state", "--page", &page(&self.client, message)]);
        let turns = state["turns"].as_array().expect("turns").iter();
        turns.filter(|turn| turn["state"] != "ended").cloned().collect()
    }

    /// The end: every thread is accounted for, and nothing runs on.
    pub fn settle(self) {
        self.accounted();
        self.client.settle();
    }
}

/// A string of an event's.
pub fn id<'v>(event: &'v Value, key: &str) -> &'v str {
    event[key].as_str().unwrap_or_else(|| panic!("no {key} in {event}"))
}
