//! What a page log says of messages and to-dos, folded by a second hand straight from the rules' words, and what
//! `leaf page state` has to say of it.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

/// R13(g) and (h), seconds.
const KEEP: i64 = 30;
const FLURRY: i64 = 90;

/// A user's message.
#[derive(Debug)]
pub struct Message {
    pub id: String,
    pub thread: String,
    pub text: String,
    pub owes: bool,
    pub withdrawn: bool,
    seq: u64,
    at: DateTime<Utc>,
    settled: bool,
    /// The turn and the agent (empty for main) whose answer covers it.
    answered: Option<(String, String)>,
    had_todo: bool,
    picked: bool,
    /// The session whose main picked it up since something last made it main's input.
    main_has: Option<String>,
}

impl Message {
    pub fn waits(&self) -> bool {
        !self.withdrawn && !self.settled && self.answered.is_none()
    }
}

#[derive(Debug)]
pub struct Todo {
    pub id: String,
    pub thread: String,
    pub title: String,
    pub source: Option<String>,
    pub state: String,
    pub author: String,
    /// The fork that opened it.
    pub agent: String,
    /// `failed` or `dropped` while its source waits, and main has not got that since.
    pub again: bool,
}

#[derive(Default, Debug)]
pub struct Fold {
    pub messages: Vec<Message>,
    pub todos: Vec<Todo>,
    pub resolved: BTreeSet<String>,
    pub ids: BTreeSet<String>,
    /// Promises that the log itself breaks.
    pub broken: Vec<String>,
    /// Agents that started a to-do.
    started: BTreeSet<(String, String)>,
    replies: BTreeMap<String, String>,
    seq: u64,
}

fn word(event: &Value, key: &str) -> String {
    event[key].as_str().unwrap_or_default().to_owned()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Fold {
    pub fn of(events: &[Value]) -> Self {
        let mut fold = Fold::default();
        for event in events {
            fold.apply(event);
        }
        fold
    }

    fn breaks(&mut self, what: &str, event: &Value) {
        self.broken.push(format!("{what}: {event}"));
    }

    pub fn message(&self, id: &str) -> Option<&Message> {
        self.messages.iter().find(|m| m.id == id)
    }

    pub fn todo(&self, id: &str) -> Option<&Todo> {
        self.todos.iter().find(|t| t.id == id)
    }

    pub fn has_open_todo(&self, message: &str) -> bool {
        self.todos.iter().any(|t| t.state == "open" && t.source.as_deref() == Some(message))
    }

    pub fn open(&self) -> impl Iterator<Item = &Todo> {
        self.todos.iter().filter(|t| t.state == "open")
    }

    pub fn source_waits(&self, todo: &Todo) -> bool {
        todo.source.as_ref().is_some_and(|s| self.message(s).is_some_and(Message::waits))
    }

    /// Messages that wait and stand inside the rules of deliveries: without an open to-do.
    pub fn input<'f>(&'f self, thread: &'f str) -> impl Iterator<Item = &'f Message> {
        self.messages.iter().filter(move |m| m.thread == thread && m.waits() && !self.has_open_todo(&m.id))
    }

    fn apply(&mut self, event: &Value) {
        let (id, seq) = (word(event, "id"), event["seq"].as_u64().unwrap_or_default());
        if !self.ids.insert(id.clone()) {
            self.breaks("an id is one event's", event);
        }
        // A torn line's is spent.
        if seq <= self.seq {
            self.breaks("seq goes up", event);
        }
        self.seq = seq;
        let (thread, source) = (word(event, "thread"), event["source"].as_str().map(str::to_owned));
        match event["kind"].as_str().unwrap_or_default() {
            "message" => {
                self.resolved.remove(&thread);
                let at = DateTime::parse_from_rfc3339(&word(event, "ts")).expect("a time").to_utc();
                self.messages.push(Message {
                    id,
                    thread,
                    text: word(event, "text"),
                    owes: event["owes"] == true,
                    withdrawn: false,
                    seq,
                    at,
                    settled: false,
                    answered: None,
                    had_todo: false,
                    picked: false,
                    main_has: None,
                });
            }
            "withdraw" => self.withdraw(event),
            "resolve" => {
                self.messages.iter_mut().filter(|m| m.thread == thread && m.waits()).for_each(|m| m.settled = true);
                self.resolved.insert(thread);
            }
            "reopen" => {
                self.resolved.remove(&thread);
            }
            "reply" => self.reply(event),
            "pickup" => self.pickup(event),
            "start" => {
                self.started.insert((word(event, "agent"), word(event, "item")));
            }
            "todo" => {
                if let Some(source) = &source {
                    if self.has_open_todo(source) {
                        self.breaks("R94: one open to-do a message", event);
                    }
                    match self.messages.iter_mut().find(|m| m.id == *source) {
                        Some(m) if m.withdrawn || m.thread != thread => self.breaks("a to-do's source", event),
                        Some(m) => m.had_todo = true,
                        None => self.breaks("a to-do's source is a message", event),
                    }
                }
                self.todos.push(Todo {
                    id,
                    thread,
                    title: word(event, "title"),
                    source,
                    state: "open".into(),
                    author: word(event, "author"),
                    agent: word(event, "agent"),
                    again: false,
                });
            }
            "todo_end" => self.todo_end(event),
            _ => {}
        }
    }

    fn withdraw(&mut self, event: &Value) {
        let message = word(event, "message");
        match self.messages.iter_mut().find(|m| m.id == message) {
            Some(m) if !m.withdrawn && m.answered.is_none() => m.withdrawn = true,
            _ => self.breaks("R8: what is withdrawn is not answered", event),
        }
        for todo in &mut self.todos {
            if todo.state == "open" && todo.source.as_deref() == Some(&message) {
                todo.state = "dropped".into();
            }
        }
    }

    fn reply(&mut self, event: &Value) {
        let (thread, turn, agent) = (word(event, "thread"), word(event, "turn"), word(event, "agent"));
        for m in self.messages.iter_mut().filter(|m| m.thread == thread) {
            // Whatever is answered or taken, what main left there is its input anew (R49).
            m.main_has = None;
        }
        let Some(named) = event["responds"].as_str() else { return };
        if self.replies.insert(named.to_owned(), word(event, "id")).is_some() {
            self.breaks("R10: a message is answered by one reply", event);
        }
        let Some((upto, covered)) = self.message(named).map(|m| (m.seq, m.answered.clone())) else {
            return self.breaks("a reply names a message", event);
        };
        if event["by"] == "fork" && covered.is_some_and(|(_, by)| by != agent) {
            self.breaks("R57: a fork answers what another answered", event);
        }
        let open: BTreeSet<String> = self.open().filter_map(|t| t.source.clone()).collect();
        // R97: what a failed or dropped to-do made main's again no fork has.
        let over = self.todos.iter().filter(|todo| matches!(todo.state.as_str(), "failed" | "dropped"));
        let mains: BTreeSet<String> = over.filter_map(|todo| todo.source.clone()).collect();
        let by_fork = event["by"] == "fork";
        for m in self.messages.iter_mut().filter(|m| m.thread == thread && m.seq <= upto) {
            // R96: with an open to-do only by naming it.
            let is_left = open.contains(&m.id) || by_fork && mains.contains(&m.id);
            if m.waits() && (m.id == named || !is_left) {
                m.answered = Some((turn.clone(), agent.clone()));
            }
        }
    }

    fn pickup(&mut self, event: &Value) {
        for id in event["messages"].as_array().into_iter().flatten().map(text) {
            if self.has_open_todo(&id) {
                self.breaks(&format!("R96: {id} has an open to-do"), event);
            }
            let Some(at) = self.messages.iter().position(|m| m.id == id) else {
                self.breaks("a pickup of a message", event);
                continue;
            };
            if !self.messages[at].waits() {
                self.breaks(&format!("{id} doesn't wait"), event);
            }
            self.messages[at].picked = true;
            if event["by"] == "main" {
                let session = Some(word(event, "session"));
                let had = std::mem::replace(&mut self.messages[at].main_has, session.clone());
                if had == session {
                    self.breaks(&format!("R101, R97: {id} is main's input once"), event);
                }
                self.todos.iter_mut().filter(|t| t.source.as_ref() == Some(&id)).for_each(|t| t.again = false);
            } else {
                if self.messages[at].had_todo {
                    self.breaks(&format!("R97, R13(i): {id} had a to-do and is main's"), event);
                }
                self.messages[at].main_has = None;
            }
        }
    }

    fn todo_end(&mut self, event: &Value) {
        let (id, outcome, agent) = (word(event, "todo"), word(event, "outcome"), word(event, "agent"));
        let Some(at) = self.todos.iter().position(|t| t.id == id) else {
            return self.breaks("an end of a to-do", event);
        };
        if self.todos[at].state != "open" {
            self.breaks("R97: a to-do ends once", event);
        }
        let source = self.todos[at].source.clone();
        let waits = self.source_waits(&self.todos[at]);
        if outcome == "done" && waits {
            self.breaks("R97: done while its source waits", event);
        }
        if event["by"] == "fork" && self.todos[at].agent != agent && !self.started.contains(&(agent, id)) {
            self.breaks("R59: a fork ends a to-do of its own", event);
        }
        self.todos[at].state = outcome;
        self.todos[at].again = waits && self.todos[at].state != "done";
        if let Some(m) = self.messages.iter_mut().find(|m| Some(&m.id) == source.as_ref()) {
            m.main_has = None;
        }
    }

    /// What `leaf page state` says otherwise, at this moment. `queues`: whether a take may have been queued.
    pub fn against(&self, state: &Value, now: DateTime<Utc>, queues: bool) -> Vec<String> {
        let mut found = Vec::new();
        let mut same = |what: &str, says: Value, expected: Value| {
            if says != expected {
                found.push(format!("{what}: the page state says {says}, the log {expected}"));
            }
        };
        let mut open: Vec<&str> =
            state["todos"].as_array().into_iter().flatten().filter_map(|t| t["id"].as_str()).collect();
        let mut expected: Vec<&str> = self.open().map(|t| t.id.as_str()).collect();
        open.sort_unstable();
        expected.sort_unstable();
        same("the open to-dos", json!(open), json!(expected));
        let threads: BTreeSet<&str> = self.messages.iter().map(|m| m.thread.as_str()).collect();
        let mut owing = Vec::new();
        for thread in threads {
            let Some(shown) = state["threads"].as_array().into_iter().flatten().find(|t| t["id"] == thread) else {
                same(&format!("thread {thread}"), Value::Null, json!(thread));
                continue;
            };
            let waiting: Vec<&Message> = self.messages.iter().filter(|m| m.thread == thread && m.waits()).collect();
            let ids: Vec<&str> = waiting.iter().map(|m| m.id.as_str()).collect();
            same(&format!("what waits in {thread}"), shown["waiting"].clone(), json!(ids));
            let todos: Vec<Value> = self
                .todos
                .iter()
                .filter(|t| t.thread == thread)
                .map(|t| json!([t.id, t.title, t.source, t.author, t.state]))
                .collect();
            let listed = shown["todos"].as_array().into_iter().flatten();
            let listed: Vec<Value> =
                listed.map(|t| json!([t["id"], t["title"], t["source"], t["author"], t["state"]])).collect();
            same(&format!("the to-dos of {thread}"), json!(listed), json!(todos));
            same(&format!("resolved {thread}"), shown["resolved"].clone(), json!(self.resolved.contains(thread)));
            let has_todo = self.open().any(|t| t.thread == thread);
            let owe: Vec<&&Message> = waiting.iter().filter(|m| m.owes).collect();
            let all_with = !owe.is_empty() && owe.iter().all(|m| self.has_open_todo(&m.id));
            let status = match () {
                () if self.resolved.contains(thread) => "resolved",
                () if waiting.is_empty() && has_todo => "todo",
                () if waiting.is_empty() => "answered",
                () if all_with => "todo",
                () => "",
            };
            let shown_status = shown["status"].as_str().unwrap_or_default();
            if !status.is_empty() {
                same(&format!("the status of {thread}"), json!(shown_status), json!(status));
            } else if !owe.is_empty() && !["on_it", "working", "waiting"].contains(&shown_status) {
                same(&format!("the status of {thread}"), json!(shown_status), json!("on_it, working or waiting"));
            }
            if let Some(newest) = owe.last() {
                owing.push((thread.to_owned(), newest.id.clone()));
            }
        }
        let owed = state["owed"].as_array().cloned().unwrap_or_default();
        let mut shown: Vec<(String, String)> = owed.iter().map(|o| (word(o, "thread"), word(o, "message"))).collect();
        shown.sort();
        owing.sort();
        same("what is owed", json!(shown), json!(owing));
        for entry in &owed {
            if let Some(why) = self.no_such_owner(entry, state, now, queues) {
                found.push(format!("R52: {entry}: {why}"));
            }
        }
        found
    }

    /// Why nobody stands behind an entry of `owed`.
    fn no_such_owner(&self, entry: &Value, state: &Value, now: DateTime<Utc>, queues: bool) -> Option<String> {
        let (thread, owner) = (word(entry, "thread"), &entry["owed_by"]);
        let input: Vec<&Message> = self.input(&thread).collect();
        let kind = owner["kind"].as_str().unwrap_or_default();
        if kind == "main" {
            return None;
        }
        if !input.iter().any(|m| m.owes) {
            return Some("R96: what has an open to-do is main's".into());
        }
        match kind {
            "fork" => {
                let turn = state["turns"].as_array().into_iter().flatten().find(|t| t["turn"] == owner["turn"]);
                let runs = turn.is_some_and(|t| t["state"] == "running" || t["state"] == "resting");
                (!runs).then(|| "the fork doesn't run".into())
            }
            "line_fork" => {
                let (oldest, newest) = (input.first()?, input.last()?);
                let past = |since: DateTime<Utc>, seconds: i64| (now - since).num_seconds() >= seconds;
                match () {
                    () if state["follower"]["running"] != true => Some("R13(f)".into()),
                    () if input.iter().any(|m| m.picked) => Some("R13(a), (b)".into()),
                    () if input.iter().any(|m| m.had_todo) => Some("R13(i)".into()),
                    () if !newest.owes => Some("R13(e)".into()),
                    () if past(newest.at, KEEP) && !queues => Some("R13(g)".into()),
                    () if past(oldest.at, FLURRY) => Some("R13(h)".into()),
                    () => None,
                }
            }
            other => Some(format!("an owner of kind {other:?}")),
        }
    }

    /// Whether a reference to this message also stands for that one: a later one of its thread (R6).
    pub fn stands_for(&self, later: &str, earlier: &Message) -> bool {
        self.message(later).is_some_and(|m| m.thread == earlier.thread && m.seq >= earlier.seq)
    }
}
