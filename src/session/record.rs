//! `session.json`: who a session is, and in which process it lives.

use serde::{Deserialize, Serialize};

use super::liveness::{Life, Process};
use crate::FORMAT;
use crate::clock::Ts;
use crate::ids::{Generation, PageId, SessionId, SessionKey};
use crate::place::Dir;
use crate::rules::way::{Limits, Way};

/// The client whose dialect a session speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// Claude Code.
    ClaudeCode,
}

/// What the client's environment switched at SessionStart (R2); later processes read this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// Line forks may answer (R1).
    pub fork_replies: bool,
    /// Working forks may take (R2).
    pub fork_work: bool,
    /// What the client can't do (R117).
    #[serde(default)]
    pub limits: Limits,
    /// Headless runs may be started at their cost (R117).
    #[serde(default)]
    pub headless: bool,
    /// The one way that forks are to run in (R117).
    #[serde(default)]
    pub way: Option<Way>,
    /// Forks may not change the project (R114, R115).
    #[serde(default = "on")]
    pub guard: bool,
}

/// What a record of an older leaf doesn't say.
fn on() -> bool {
    true
}

impl Switches {
    /// Whether headless runs may be started at their cost: they were allowed, or asked for.
    pub fn pays(&self) -> bool {
        self.headless || self.way == Some(Way::Headless)
    }
}

/// `session.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The format of the session's directory.
    pub format: u32,
    /// The client's id of the session.
    pub id: SessionId,
    /// The client.
    pub client: ClientKind,
    /// The present generation; `None` for a session that only a command told of so far.
    pub generation: Option<Generation>,
    /// The client's process, where it is known.
    pub process: Option<Process>,
    /// Whether a person sits before it.
    pub attended: bool,
    /// The switches of the client's environment.
    pub switches: Switches,
    /// Where the session works.
    pub cwd: String,
    /// The client's transcript.
    pub transcript: Option<String>,
    /// The client's PATH: what runs for the session where its client is gone looks for programs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The pages that it may hold, the newest last. A cache: page.json decides.
    pub pages: Vec<PageId>,
    /// When the client said that the session ended.
    pub ended: Option<Ts>,
    /// Whether its lifecycle hooks were still owed its end then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub owes: bool,
    /// The session that took over in the same process (R109).
    pub moved_to: Option<SessionId>,
    /// When it began.
    pub started: Ts,
}

impl SessionRecord {
    /// Returns the record of a session that was just heard of.
    pub fn new(id: SessionId, cwd: String, now: Ts) -> SessionRecord {
        SessionRecord {
            format: FORMAT,
            id,
            client: ClientKind::ClaudeCode,
            generation: None,
            process: None,
            attended: true,
            switches: Switches {
                fork_replies: true,
                fork_work: false,
                limits: Limits::default(),
                headless: false,
                way: None,
                guard: true,
            },
            cwd,
            transcript: None,
            path: None,
            pages: Vec::new(),
            ended: None,
            owes: false,
            moved_to: None,
            started: now,
        }
    }

    /// Reads a session's record alone, by its key; `None` where there is none that can be read.
    pub fn read(home: &Dir, key: &SessionKey) -> Option<SessionRecord> {
        let (bytes, _) = home.read_below(&["sessions", key.as_str(), super::RECORD]).ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Whether the session lives: it did not end, and its client's process, where known, runs.
    pub fn lives(&self) -> bool {
        self.ended.is_none() && self.client_lives()
    }

    /// Whether its client's process, where known, runs: `/clear` ends a session and not its client.
    pub fn client_lives(&self) -> bool {
        self.process.as_ref().is_none_or(|process| process.life() != Life::Dead)
    }

    /// Puts a page last: it came to the session just now.
    pub fn add_page(&mut self, page: &PageId) {
        self.pages.retain(|other| other != page);
        self.pages.push(page.clone());
    }
}
