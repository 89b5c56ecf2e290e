//! What of a view is hot: what any rule can find by looking at all threads.
//!
//! Hot is a thread in which something waits or is to be done, that an open fork's turn had a part in, or of which main is still to
//! hear that something is gone; and of such a thread what is not past. Past are messages that nothing waits for any more, with their
//! to-dos and takes: a long thread costs what is going on in it. The others lie cold. Where an open fork's turn had a part in a
//! thread, nothing of it is past.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::event::{Actor, By};
use super::view::{Message, Take, Thread, Todo};
use crate::ids::{IdKey, MessageId, SessionId, TurnId};

/// So many messages are worth to be left out of a thread.
const WORTH: usize = 4;

/// What the session that holds a page may still ask of threads in which nothing waits.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The session.
    pub session: SessionId,
    /// Its forks' open turns.
    pub open: BTreeSet<TurnId>,
    /// The `seq` up to which its main heard of what is gone (R8, R9).
    pub told: u32,
}

/// Returns what of a thread is hot, `None` where it lies cold. `through` is the view's `seq`; `after` the one that the snapshot before
/// ends with, 0 where there is none: what happened since may be of a turn that has just opened, and stays.
pub fn part<'t>(
    thread: &'t Thread,
    key: IdKey,
    through: u32,
    keep: Option<&Keep>,
    after: u32,
) -> Option<Cow<'t, Thread>> {
    let is_new = after > 0 && thread.last > after;
    let is_found = is_found(thread, key, through);
    let is_asked_of = keep.map_or_else(|| is_asked_of(thread), |keep| keep.asks(thread));
    if is_new || !is_found || is_asked_of || matters(thread) {
        let stays_whole = !is_found || keep.map_or(is_asked_of, |keep| keep.acts(thread));
        let since = if after > 0 { after } else { u32::MAX };
        Some(if stays_whole { Cow::Borrowed(thread) } else { without_past(thread, key, keep, since) })
    } else {
        None
    }
}

/// Whether all of a thread can be found by its ids.
fn is_found(thread: &Thread, key: IdKey, through: u32) -> bool {
    (1..=through).contains(&key.seq(thread.id.into()))
        && thread.messages.iter().all(|message| key.id(message.seq) == message.id.into())
        && thread.todos.iter().all(|todo| key.id(todo.seq) == todo.id.into())
}

/// Whether something waits in a thread or is to be done, whoever holds the page.
fn matters(thread: &Thread) -> bool {
    thread.waiting().next().is_some() || thread.todos.iter().any(Todo::is_open)
}

/// Whether a session that isn't known may ask of a thread in which nothing waits.
fn is_asked_of(thread: &Thread) -> bool {
    let gone = |message: &Message| message.withdrawn.or(message.settled).is_some() && message.was_picked_up();
    thread.messages.iter().any(gone) || actors(thread).any(|actor| actor.by == By::Fork)
}

impl Keep {
    fn asks(&self, thread: &Thread) -> bool {
        thread.messages.iter().any(|message| self.is_to_hear_of(message)) || self.acts(thread)
    }

    /// Whether main is still to hear that a message is gone.
    fn is_to_hear_of(&self, message: &Message) -> bool {
        let is_new = |seq: Option<u32>| seq.is_some_and(|seq| seq > self.told);
        (is_new(message.withdrawn) || is_new(message.settled)) && message.was_mains(&self.session)
    }

    /// Whether an open fork's turn had a part in a thread.
    fn acts(&self, thread: &Thread) -> bool {
        actors(thread).any(|actor| self.open.contains(&actor.turn))
    }
}

/// Returns the turns that had a part in a thread.
fn actors(thread: &Thread) -> impl Iterator<Item = &Actor> {
    let messages = thread.messages.iter().flat_map(|message| {
        let picked = message.pickups.iter().map(|pickup| &pickup.actor);
        message.actor.iter().chain(picked).chain(message.starts.iter().map(|start| &start.actor))
    });
    let todos =
        thread.todos.iter().flat_map(|todo| todo.actor.iter().chain(todo.starts.iter().map(|start| &start.actor)));
    thread.takes.iter().map(|take| &take.actor).chain(messages).chain(todos)
}

/// Leaves out what is past in a thread, where that is worth it. What happened behind `since` stays.
fn without_past<'t>(thread: &'t Thread, key: IdKey, keep: Option<&Keep>, since: u32) -> Cow<'t, Thread> {
    let stands = |todo: &Todo| todo.is_open() || last_of_todo(todo) > since;
    let sources: BTreeSet<MessageId> =
        thread.todos.iter().filter(|todo| stands(todo)).filter_map(|todo| todo.source).collect();
    // How the thread stands where nothing waits (R50), and what a repeated answer repeats (R10).
    let answer = thread.messages.iter().rev().find(|message| message.responds.is_some());
    let kept = [Some(thread.id.into()), answer.map(|answer| answer.id), answer.and_then(|answer| answer.responds)];
    let stays = |message: &&Message| {
        message.waits()
            || kept.contains(&Some(message.id))
            || sources.contains(&message.id)
            || last_of(message, key) > since
            || keep.is_some_and(|keep| keep.is_to_hear_of(message))
    };
    // The first tells the thread's place among the others.
    let first = thread.messages.first().map(|message| message.id);
    let messages: Vec<&Message> =
        thread.messages.iter().filter(|message| Some(message.id) == first || stays(message)).collect();
    if thread.messages.len() - messages.len() < WORTH {
        return Cow::Borrowed(thread);
    }
    let ids: BTreeSet<MessageId> = messages.iter().map(|message| message.id).collect();
    let last = thread.last_take().map(|take| take.seq);
    let todo_stays = |todo: &&Todo| stands(todo) || todo.source.is_some_and(|source| ids.contains(&source));
    let take_stays = |take: &&Take| {
        Some(take.seq) == last || take.seq > since || take.holds.iter().any(|message| ids.contains(message))
    };
    Cow::Owned(Thread {
        id: thread.id,
        title: thread.title.clone(),
        resolved: thread.resolved,
        last_resolve: thread.last_resolve,
        messages: messages.into_iter().cloned().collect(),
        line: thread.line.clone(),
        todos: thread.todos.iter().filter(todo_stays).cloned().collect(),
        takes: thread.takes.iter().filter(take_stays).cloned().collect(),
        last: thread.last,
        cut: true,
    })
}

/// Returns the `seq` of the last event that changed a message.
fn last_of(message: &Message, key: IdKey) -> u32 {
    let answered = message.answered.map(|answer| key.seq(answer.into()));
    let pickup = message.pickups.last().map(|pickup| pickup.seq);
    let start = message.starts.last().map(|start| start.seq);
    let all = [answered, pickup, start, message.withdrawn, message.settled];
    all.into_iter().flatten().fold(message.seq.max(message.again), u32::max)
}

/// Returns the `seq` of the last event that changed a to-do.
fn last_of_todo(todo: &Todo) -> u32 {
    let start = todo.starts.last().map(|start| start.seq);
    [todo.ended, start].into_iter().flatten().fold(todo.seq, u32::max)
}
