//! What a fork file and a lifecycle hook's file say, as values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A fork file that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Its name: the file's stem, or its folder's name.
    pub name: String,
    /// Where it lies, what it was read from, and how it may be run.
    pub source: Source,
    /// The skill that it is attached to: the `SKILL.md` beside a `FORK.md`.
    pub skill: Option<PathBuf>,
    /// What it is for, in a person's words; never sent to a model.
    pub description: Option<String>,
    /// The moments at which it runs, in the file's order. Never empty, but where `stopped` says why it never runs.
    pub run_on: Vec<Moment>,
    /// Least time between two issues of it in a session, seconds.
    pub throttle: Option<u64>,
    /// The forks of one batch that it runs after, with their reports.
    pub after: Vec<String>,
    /// Its place in a batch: lower runs earlier.
    pub priority: i64,
    /// Whether two runs of it may go on at once.
    pub overlap: bool,
    /// Its tags, for the filter and the tag throttles.
    pub tags: Vec<String>,
    /// Whether its report may ask for another run.
    pub chain: bool,
    /// How many of its runs one pause may have; `None`: the configuration's.
    pub chain_limit: Option<u32>,
    /// Whether it holds the other idle forks while its run or chain goes on.
    pub gate: bool,
    /// Whether work in the session's background holds it; `None`: the configuration's.
    pub background_hold: Option<bool>,
    /// The models to try, in this order, by client; empty: the configuration's, else the session's.
    pub models: PerClient,
    /// The permission mode, by client.
    pub modes: PerClient,
    /// What a run of it may touch.
    pub guard: Option<Guard>,
    /// Why it never runs, where that is so.
    pub stopped: Option<String>,
    /// What it is told.
    pub body: String,
}

/// Where a definition comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// Whether it is the user's own: it needs no trust (R126).
    pub own: bool,
    /// The SHA-256 of its bytes as they were read, hexadecimal.
    pub sha256: String,
}

/// A moment at which a fork runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The session has been idle for so many seconds; `None`: the configuration's `default_idle_deadline`.
    Idle(Option<u64>),
    /// The context has this many tokens.
    ContextTokens(u64),
    /// This part of the context window is used, per cent.
    ContextUsed(u8),
    /// At most this many tokens are left.
    ContextLeft(u64),
    /// This many seconds since its last issue, else since the session began.
    Every(u64),
    /// A file changed that this pattern matches.
    Changed(String),
    /// `leaf emit` named this event.
    Event(String),
}

impl Moment {
    /// Returns its name in latches, triggers and listings.
    pub fn label(&self) -> String {
        match self {
            Moment::Idle(None) => "idle".to_owned(),
            Moment::Idle(Some(seconds)) => format!("idle:{seconds}"),
            Moment::ContextTokens(tokens) => format!("context_tokens:{tokens}"),
            Moment::ContextUsed(percent) => format!("context_used:{percent}%"),
            Moment::ContextLeft(tokens) => format!("context_left:{tokens}"),
            Moment::Every(seconds) => format!("every:{seconds}"),
            Moment::Changed(pattern) => format!("changed:{pattern}"),
            Moment::Event(name) => format!("event:{name}"),
        }
    }
}

/// A client whose models and modes a definition may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Client {
    /// Claude Code.
    ClaudeCode,
    /// Codex CLI.
    Codex,
    /// opencode.
    Opencode,
}

impl Client {
    /// Every client.
    pub const ALL: [Client; 3] = [Client::ClaudeCode, Client::Codex, Client::Opencode];

    /// Returns the client of a name.
    pub fn parse(name: &str) -> Option<Client> {
        Client::ALL.into_iter().find(|client| client.word() == name)
    }

    /// Returns its name in definitions and in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Client::ClaudeCode => "claude-code",
            Client::Codex => "codex",
            Client::Opencode => "opencode",
        }
    }
}

/// Candidates by client: a scalar stands for every client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerClient(pub BTreeMap<Client, Vec<String>>);

impl PerClient {
    /// Returns a client's candidates, the first to be tried first; none where nothing is said.
    pub fn of(&self, client: Client) -> &[String] {
        self.0.get(&client).map_or(&[], Vec::as_slice)
    }
}

/// What a run may touch; everything that isn't named is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The only places that it may change, absolute.
    pub write: Vec<PathBuf>,
    /// The kinds of tools that it may use; `None`: all of them.
    pub tools: Option<Vec<ToolKind>>,
    /// Whether it may use the network.
    pub network: bool,
    /// Commands that are refused on sight.
    pub deny: Vec<String>,
    /// What it is told where it meets a refusal.
    pub message: Option<String>,
}

/// A kind of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// Reading and searching files.
    Read,
    /// The shell.
    Shell,
    /// Editing and writing files.
    Edit,
    /// The web.
    Web,
    /// Agents.
    Task,
}

/// A lifecycle hook's file that was understood: a command that runs at a session's moments, with no model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// Its name.
    pub name: String,
    /// Where it lies, what it was read from.
    pub source: Source,
    /// What it is for.
    pub description: Option<String>,
    /// When it runs.
    pub on: Vec<HookMoment>,
    /// The command, for `/bin/sh -c`; empty: it never runs.
    pub command: String,
    /// How long it may take, seconds.
    pub timeout: u64,
    /// Where its output goes.
    pub deliver: Deliver,
    /// How much of its output is delivered, bytes.
    pub max_bytes: usize,
    /// Least time between two runs of it in a session, seconds.
    pub throttle: Option<u64>,
}

/// A moment of a session's life at which a hook runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookMoment {
    /// A session opened.
    SessionStart,
    /// A session was resumed.
    Resume,
    /// A genuine prompt.
    Activity,
    /// The session has been idle for so many seconds, once a pause.
    Idle(Option<u64>),
    /// The session ended.
    SessionEnd,
    /// A file changed that this pattern matches.
    Changed(String),
    /// `leaf emit` named this event.
    Event(String),
}

impl HookMoment {
    /// Returns its name in listings, and in `LEAF_EVENT` up to a colon.
    pub fn label(&self) -> String {
        match self {
            HookMoment::SessionStart => "session_start".to_owned(),
            HookMoment::Resume => "resume".to_owned(),
            HookMoment::Activity => "activity".to_owned(),
            HookMoment::Idle(None) => "idle".to_owned(),
            HookMoment::Idle(Some(seconds)) => format!("idle:{seconds}"),
            HookMoment::SessionEnd => "session_end".to_owned(),
            HookMoment::Changed(pattern) => format!("changed:{pattern}"),
            HookMoment::Event(name) => format!("event:{name}"),
        }
    }
}

/// Where a lifecycle hook's output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deliver {
    /// Nowhere; what a failing one says on stderr goes to the errors' log.
    #[default]
    None,
    /// Into the session's context, at its next prompt.
    Context,
    /// Into the session's context, by waking it.
    Wake,
}

/// A file, and in it a key, that was not taken as it stands; and what was done instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The file.
    #[serde(serialize_with = "shown")]
    pub file: PathBuf,
    /// The key, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What is off, and what was done instead, one sentence.
    pub text: String,
}

/// A path as it can be shown: a name may be none of UTF-8.
pub fn shown<S: serde::Serializer>(path: &std::path::Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

impl Warning {
    /// Returns it as one sentence: the file, the key, what is off.
    pub fn sentence(&self) -> String {
        let file = self.file.display();
        match &self.key {
            Some(key) => format!("{file}: {} {}", crate::text::first_words(key, 60), self.text),
            None => format!("{file}: {}", self.text),
        }
    }
}

/// How a warning of a shadowed definition begins.
pub const SHADOWED: &str = "is shadowed";

/// All that was found for a session's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found<T> {
    /// The definitions: of two of one name the nearest.
    pub list: Vec<T>,
    /// Those that a nearer one of their name shadows.
    pub shadowed: Vec<T>,
    /// What was not taken as it stands.
    pub warnings: Vec<Warning>,
}

/// A definition of either kind.
pub trait Definition {
    /// Returns its name.
    fn name(&self) -> &str;
    /// Returns where it comes from.
    fn source(&self) -> &Source;
}

impl Definition for Fork {
    fn name(&self) -> &str {
        &self.name
    }

    fn source(&self) -> &Source {
        &self.source
    }
}

impl Definition for Hook {
    fn name(&self) -> &str {
        &self.name
    }

    fn source(&self) -> &Source {
        &self.source
    }
}

impl<T: Definition> Found<T> {
    /// Lets nothing that may not run shadow what may: before a project is trusted its files change nothing about the user's own (R126).
    #[must_use]
    pub fn settled(mut self, may_run: impl Fn(&Source) -> bool) -> Found<T> {
        for at in 0..self.list.len() {
            if may_run(self.list[at].source()) {
                continue;
            }
            let name = self.list[at].name();
            let other = self.shadowed.iter().position(|other| other.name() == name && may_run(other.source()));
            if let Some(other) = other {
                let untrusted = self.list[at].source().path.clone();
                let path = self.shadowed[other].source().path.clone();
                self.warnings.retain(|warning| warning.file != path || !warning.text.starts_with(SHADOWED));
                let text = format!("waits for `leaf trust`; until then {} goes by its name", path.display());
                self.warnings.push(Warning { file: untrusted, key: None, text });
                std::mem::swap(&mut self.list[at], &mut self.shadowed[other]);
            }
        }
        self
    }
}

#[cfg(test)]
impl Fork {
    /// A fork of this name with nothing else said, for tests.
    pub fn named(name: &str) -> Fork {
        Fork {
            name: name.to_owned(),
            source: Source { path: name.into(), own: true, sha256: String::new() },
            skill: None,
            description: None,
            run_on: Vec::new(),
            throttle: None,
            after: Vec::new(),
            priority: 0,
            overlap: false,
            tags: Vec::new(),
            chain: false,
            chain_limit: None,
            gate: false,
            background_hold: None,
            models: PerClient::default(),
            modes: PerClient::default(),
            guard: None,
            stopped: None,
            body: String::new(),
        }
    }
}
