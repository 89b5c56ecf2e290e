//! The line fork's answer and what follows from it (sections 4 and 5).

use serde::Deserialize;

use super::holding::{Reading, took};
pub use super::prompts::turn_of;
use crate::ids::{AgentId, MessageId, ThreadId, TurnId};
use crate::page::event::By;
use crate::page::view::Thread;
use crate::rules::way::Way;
use crate::session::journal::Sort;
use crate::session::state::{ForkTurn, TurnState};
use crate::text;

/// A line's length at most, characters (R21).
pub const LINE: usize = 200;
/// A to-do's title's length at most, characters (R21).
const TITLE: usize = 80;

/// What a line fork answered (R21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineAnswer {
    /// The line.
    pub line: String,
    /// How it sorts the message.
    pub sort: Sort,
    /// The to-do's title, where it gives a right one.
    pub title: Option<String>,
}

/// Reads a line fork's answer: one JSON object, a single ```json fence around it tolerated. `None` is a failed line (R21).
pub fn read_line(text: &str) -> Option<LineAnswer> {
    #[derive(Deserialize)]
    struct Answer {
        line: String,
        sort: Sort,
        #[serde(default)]
        title: Option<serde_json::Value>,
    }
    let text = text.trim();
    let text = match text.strip_prefix("```json") {
        Some(inner) => inner.strip_suffix("```")?.trim(),
        None => text,
    };
    let answer: Answer = serde_json::from_str(text).ok()?;
    let line = answer.line.trim();
    let length = line.chars().count();
    if length == 0 || length > LINE || line.contains(['\n', '\r']) {
        return None;
    }
    // A title never fails a line.
    let title = answer.title.as_ref().and_then(serde_json::Value::as_str).map(str::trim);
    let title = title.filter(|title| (1..=TITLE).contains(&title.chars().count()) && !title.contains(['\n', '\r']));
    Some(LineAnswer { line: line.to_owned(), sort: answer.sort, title: title.map(ToOwned::to_owned) })
}

/// Returns a to-do's title: the answer's, else the message's first words (R21).
pub fn todo_title(answer: &LineAnswer, message: &str) -> String {
    answer.title.clone().unwrap_or_else(|| text::clip(message, TITLE))
}

/// How a thread is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// A fork is working on the thread, or the most forks run: wait in the queue (R33).
    Queue,
    /// The thread's last answer names an ended turn of a fork of this generation: that agent is resumed (R89).
    Resume {
        /// The agent.
        agent: AgentId,
        /// Its open turn, where the client runs it already (R45): the take picks up into that.
        into: Option<TurnId>,
        /// The fork's name.
        name: String,
    },
    /// A new fork is spawned.
    Spawn,
}

/// Decides how a thread is taken now. `most` is how many forks may run in the session (R33).
pub fn how(reading: &Reading<'_>, thread: &Thread, most: usize) -> Take {
    let state = reading.state;
    let running = state.forks.iter().filter(|turn| reading.stands(turn.id).runs()).count();
    let resumes = last_fork(reading, thread, most).and_then(|(agent, name)| resumable(reading, agent, name));
    // Picking up into a run that goes on starts nothing.
    if let Some(Take::Resume { into: Some(_), .. }) = &resumes {
        return resumes.unwrap_or(Take::Spawn);
    }
    if running >= most {
        return Take::Queue;
    }
    // A lapsed turn of the thread is ended by the take, which then spawns a new fork (R30).
    if !lapsed(reading, thread.id).is_empty() {
        return Take::Spawn;
    }
    resumes.unwrap_or(Take::Spawn)
}

/// The name of the fork that takes every thread, where one may run at a time (R34).
pub const STANDING: &str = "leaf-standing";

/// Returns the fork that a take would resume: the one of the thread's last answer (R89); where one may run at a time, the last
/// that ended, whatever its thread (R34).
fn last_fork<'a>(reading: &Reading<'a>, thread: &'a Thread, most: usize) -> Option<(&'a AgentId, &'a str)> {
    let state = reading.state;
    // A process that ended is not there to be resumed (R118).
    let ended = |turn: &&ForkTurn| {
        turn.ended.is_some() && turn.generation == state.generation && turn.way != Some(Way::Headless)
    };
    if most > 1 {
        let answer = thread.messages.iter().rev().find(|message| message.responds.is_some())?;
        let actor = answer.actor.as_ref().filter(|actor| actor.by == By::Fork)?;
        let turn = state.fork(actor.turn).filter(ended)?;
        return Some((actor.agent.as_ref().or(turn.agent.as_ref())?, &turn.name));
    }
    let of = |agent: &AgentId| state.forks.iter().rev().find(|turn| turn.agent.as_ref() == Some(agent));
    let ours = state.forks.iter().filter(ended).filter(|turn| turn.thread.is_some());
    // An agent whose last run never began can't be resumed (R91): another is spawned.
    let alive = |agent: &&AgentId| of(agent).is_some_and(|last| last.begun.is_some());
    let (_, agent, name) = ours
        .filter_map(|turn| Some((turn.ended, turn.agent.as_ref().filter(alive)?, turn.name.as_str())))
        .max_by_key(|(ended, ..)| *ended)?;
    Some((agent, name))
}

fn resumable(reading: &Reading<'_>, agent: &AgentId, name: &str) -> Option<Take> {
    let runs = |turn: &&ForkTurn| turn.agent.as_ref() == Some(agent) && reading.stands(turn.id).runs();
    let into = match reading.state.forks.iter().find(runs) {
        // It runs for another thread.
        Some(open) if open.thread.is_some() => return None,
        open => open.map(|open| open.id),
    };
    Some(Take::Resume { agent: agent.clone(), into, name: name.to_owned() })
}

/// Returns the lapsed turns of a thread, which a take ends first (R30): those opened for it, and those that took it.
pub fn lapsed(reading: &Reading<'_>, thread: ThreadId) -> Vec<TurnId> {
    let found = reading.view.threads.get(&thread);
    let of = |turn: &ForkTurn| {
        let opened = turn.thread.as_ref().is_some_and(|(page, id)| page == reading.page && *id == thread);
        opened || found.is_some_and(|found| took(found, turn.id))
    };
    let lapsed = |turn: &&ForkTurn| reading.stands(turn.id) == TurnState::Lapsed && of(turn);
    reading.state.forks.iter().filter(lapsed).map(|turn| turn.id).collect()
}

/// Returns the messages that a take picks up: every waiting one without an open to-do (R27).
pub fn picks(thread: &Thread) -> Vec<MessageId> {
    thread.input().map(|message| message.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r021_a_line_is_one_json_object() {
        let small = |line: &str| Some(LineAnswer { line: line.to_owned(), sort: Sort::Small, title: None });
        assert_eq!(read_line(r#"{"line": " on it ", "sort": "small"}"#), small("on it"));
        assert_eq!(read_line("```json\n{\"line\": \"on it\", \"sort\": \"small\", \"title\": 7}\n```"), small("on it"));
        assert_eq!(read_line(r#"{"line": "", "sort": "small"}"#), None);
        assert_eq!(read_line(r#"{"line": "a\nb", "sort": "small"}"#), None);
        assert_eq!(read_line(r#"{"line": "a", "sort": "later"}"#), None);
        assert_eq!(read_line(&format!(r#"{{"line": "{}", "sort": "now"}}"#, "é".repeat(201))), None);
        assert!(read_line(&format!(r#"{{"line": "{}", "sort": "now"}}"#, "é".repeat(200))).is_some());
        assert_eq!(read_line("on it"), None);
    }
}
