//! What changed on a page since an agent's last turn (R92).

use super::holding::Reading;
use crate::ids::AgentId;
use crate::page::event::{Actor, Author};
use crate::page::view::{Message, Thread, Todo, TodoState};

/// One change. What others wrote in it is data (R124).
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'a> {
    /// Somebody else answered, or added, in the thread.
    Wrote(&'a Message),
    /// The user took a message of the thread back.
    Withdrawn(&'a Message),
    /// The thread was resolved, whether or not it was opened again since.
    Resolved(Author),
    /// A to-do was opened in the thread.
    TodoOpened(&'a Todo),
    /// A to-do of the thread ended.
    TodoEnded(&'a Todo),
    /// Another thread was answered by somebody else: its newest answer.
    Elsewhere(&'a Thread, &'a Message),
}

impl Change<'_> {
    /// Returns what somebody else wrote in it.
    pub fn text(&self) -> Option<&str> {
        match self {
            Change::Wrote(reply) => Some(&reply.text),
            Change::Withdrawn(_) | Change::Resolved(_) => None,
            Change::TodoOpened(todo) | Change::TodoEnded(todo) => Some(&todo.title),
            Change::Elsewhere(thread, _) => Some(&thread.title),
        }
    }
}

/// Returns the `seq` at which the last turn of an agent that took something began, and up to which it was told what is gone.
pub fn began(reading: &Reading<'_>, agent: &AgentId) -> Option<(u32, u32)> {
    reading.state.forks.iter().rev().filter(|turn| turn.agent.as_ref() == Some(agent)).find_map(|turn| {
        let takes = reading.view.threads.values().flat_map(|thread| &thread.takes);
        let first = takes.filter(|take| take.actor.turn == turn.id).map(|take| take.seq).min()?;
        Some((first, turn.told))
    })
}

/// Returns what changed since the last turn of an agent that took something began: its knowledge of the page is of then, but for
/// what it wrote itself and what its boundaries told it. First the thread's own changes, then the other threads'; each in the
/// order of their `seq`. Empty where the agent had no turn.
pub fn since<'a>(reading: &Reading<'a>, thread: &'a Thread, agent: &AgentId) -> Vec<Change<'a>> {
    let of_agent = |actor: &Actor| {
        let named = reading.state.fork(actor.turn).and_then(|turn| turn.agent.as_ref());
        actor.agent.as_ref().or(named) == Some(agent)
    };
    let mine = |actor: Option<&Actor>| actor.is_some_and(of_agent);
    let Some((began, told)) = began(reading, agent) else { return Vec::new() };
    let mut here: Vec<(u32, Change<'a>)> = Vec::new();
    for message in &thread.messages {
        if message.author != Author::User && message.seq > began && !mine(message.actor.as_ref()) {
            here.push((message.seq, Change::Wrote(message)));
        }
        // What it never had, it need not hear of.
        let had = message.pickups.iter().any(|pickup| of_agent(&pickup.actor));
        if let Some(seq) = message.withdrawn.filter(|seq| *seq > began.max(told) && had) {
            here.push((seq, Change::Withdrawn(message)));
        }
    }
    if let Some((seq, author)) = thread.last_resolve.filter(|(seq, _)| *seq > began.max(told)) {
        here.push((seq, Change::Resolved(author)));
    }
    for todo in &thread.todos {
        if todo.seq > began && !mine(todo.actor.as_ref()) {
            here.push((todo.seq, Change::TodoOpened(todo)));
        }
        if let Some(seq) = todo.ended.filter(|seq| *seq > began && todo.state != TodoState::Open) {
            here.push((seq, Change::TodoEnded(todo)));
        }
    }
    let mut elsewhere: Vec<(u32, Change<'a>)> = reading
        .view
        .in_order()
        .filter(|other| other.id != thread.id)
        .filter_map(|other| {
            let answer = other.messages.iter().rev().find(|message| message.responds.is_some())?;
            let news = answer.seq > began && !mine(answer.actor.as_ref());
            news.then_some((answer.seq, Change::Elsewhere(other, answer)))
        })
        .collect();
    here.sort_by_key(|(seq, _)| *seq);
    elsewhere.sort_by_key(|(seq, _)| *seq);
    here.into_iter().chain(elsewhere).map(|(_, change)| change).collect()
}
