//! The clients' dialects: the only code that knows a client's JSON. In: a payload becomes an [`Event`]. Out: a [`Decision`]
//! becomes the client's answer.

pub mod claude_code;

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::ids::{AgentId, SessionId};
use crate::rules::words::Shell;

/// A hook event, told in leaf's words. Texts are borrowed from the payload where they can be.
#[derive(Debug)]
pub struct Event<'a> {
    /// The session.
    pub session: SessionId,
    /// The agent that the event is of.
    pub agent: Agent,
    /// Where the session works.
    pub cwd: Cow<'a, str>,
    /// The client's transcript.
    pub transcript: Option<Cow<'a, str>>,
    /// The client's id of the prompt that the event belongs to.
    pub prompt: Option<Cow<'a, str>>,
    /// The client's id of the tool use that the event belongs to.
    pub tool_use: Option<Cow<'a, str>>,
    /// Whether the agent is a fork by the client's word.
    pub forked: bool,
    /// The session's model, where the client names it.
    pub model: Option<Cow<'a, str>>,
    /// What happened.
    pub what: What<'a>,
}

/// The agent that an event is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agent {
    /// The session's own conversation.
    Main,
    /// Another agent of the client.
    Other(AgentId),
    /// One whose id is none (R125).
    Nameless,
}

/// What happened.
#[derive(Debug)]
pub enum What<'a> {
    /// A session started.
    SessionStart(Source),
    /// A prompt was submitted; the client's notification of an agent's end is one (R78).
    Prompt(Prompted),
    /// A tool that takes a shell command is about to run.
    Shell {
        /// Which shell reads it.
        shell: Shell,
        /// The command.
        command: Cow<'a, str>,
        /// The call's whole input: a rewritten command takes the place of the one in it.
        input: &'a RawValue,
    },
    /// A tool that writes a file is about to run (R114).
    Edit {
        /// The tool, by the client's name.
        tool: &'static str,
        /// The call's input, which holds the whole text that is written: it is read once the agent matters.
        input: &'a RawValue,
    },
    /// An agent is about to be started.
    Launch {
        /// Whether it is to be a fork.
        fork: bool,
        /// What it is to be told.
        prompt: Cow<'a, str>,
        /// The call's whole input: a rewritten one takes its place.
        input: &'a RawValue,
    },
    /// An agent was started.
    Launched {
        /// The call's description.
        description: String,
        /// The agent.
        agent: AgentId,
    },
    /// An agent was not started.
    NotLaunched {
        /// The call's description.
        description: String,
    },
    /// A background task was stopped.
    TaskStopped(String),
    /// All tool calls of one message of the model are done.
    Boundary {
        /// The tasks that they began in the background.
        tasks: Vec<String>,
    },
    /// An agent's run began.
    AgentStarted,
    /// An agent stopped; the session's background work then.
    AgentStopped {
        /// What goes on in the session.
        background: Vec<Task>,
        /// Its last words.
        text: String,
    },
    /// The model stopped; `again` where a hook continued this turn before.
    Stop {
        /// The client's `stop_hook_active`.
        again: bool,
        /// What goes on in the session; `None` where the client doesn't tell.
        background: Option<Vec<Task>>,
    },
    /// The turn died of an API error, with these words.
    StopFailure(String),
    /// The session ended, for this reason in the client's words.
    SessionEnd(String),
    /// Nothing that leaf acts on.
    Other,
}

/// Work that goes on in a session's background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The client's id: an agent's for an agent.
    pub id: String,
    /// Whether it is an agent.
    pub agent: bool,
}

/// Where a prompt came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompted {
    /// The person typed it.
    Person,
    /// The client: an agent's run is over (R78).
    Notification(Notification),
    /// leaf woke the session (R105): its watch, or its module.
    Woken,
    /// The client, for something of its own.
    Client,
}

/// The client's notification that an agent's run is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The agent.
    pub agent: String,
    /// The tool use that started the run; without one it ends nothing (R79).
    pub tool_use: Option<String>,
    /// Whether the run failed or was killed.
    pub failed: bool,
    /// The run's last words.
    pub text: String,
}

/// How a session started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Anew.
    Startup,
    /// An earlier session goes on.
    Resume,
    /// The user cleared the conversation: a new session in the same process.
    Clear,
    /// The conversation was compacted: the same generation goes on.
    Compact,
    /// A copy of another session.
    Fork,
    /// A word of a newer client.
    Other,
}

impl Source {
    /// Returns the client's word.
    pub fn word(self) -> &'static str {
        match self {
            Source::Startup => "startup",
            Source::Resume => "resume",
            Source::Clear => "clear",
            Source::Compact => "compact",
            Source::Fork => "fork",
            Source::Other => "other",
        }
    }
}

/// What leaf answers to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: the client goes on as if there were no hook.
    Silent,
    /// Text is added to the conversation; at a Stop this continues the turn.
    Context(String),
    /// The tool call is denied, for this reason.
    Deny(String),
    /// The tool call runs with this input instead.
    Rewrite(serde_json::Value),
}

/// Why a payload could not be read.
#[derive(Debug)]
pub enum Unreadable {
    /// It is no JSON object of the client's shape.
    NotJson(String),
    /// It names no session, or one that is no id (R113).
    NoSession,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::NotJson(why) => write!(f, "the payload is no JSON of the client's: {why}"),
            Unreadable::NoSession => f.write_str("the payload names no session, or one of over 256 bytes"),
        }
    }
}
