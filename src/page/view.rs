//! A page's view: plain values, folded from its log one event at a time.

use std::collections::BTreeMap;
use std::convert::Infallible;

use serde::{Deserialize, Serialize};

use super::event::{Actor, Author, Body, By, Event, Names, TodoOutcome};
use super::log::{self, Piece};
use crate::clock::Ts;
use crate::ids::{DeliveryId, EventId, IdKey, MessageId, SessionId, ThreadId, TodoId, TurnId};

/// A page as its log tells it: all of it, or its hot part.
///
/// The hot part leaves out threads that lay cold as the snapshot was written ([`super::snapshot`]), and of others what is past.
/// Whoever names one by its id loads it first; whoever looks at all threads for what still matters finds it without them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The last event's `seq`.
    pub seq: u32,
    /// Whether the last event's line lacks its newline: it is a write in flight, or one that lost its last byte, and `offset`
    /// stands before it.
    pub loose: bool,
    /// Damaged lines since the last event: each may have had a `seq` that was given out.
    pub gap: u32,
    /// The last event's time.
    pub ts: Ts,
    /// The offset in the log behind the last line folded.
    pub offset: u64,
    /// Lines that could not be read (R127).
    pub damaged: u32,
    /// The threads.
    pub threads: BTreeMap<ThreadId, Thread>,
    /// The threads' order of their beginning.
    pub order: Vec<ThreadId>,
    /// Which thread an id belongs to: messages, replies, and to-dos.
    pub home: BTreeMap<EventId, ThreadId>,
    /// The `seq` up to which threads may be left out here; 0 for all of the view.
    pub cold_through: u32,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its id, that of its first message.
    pub id: ThreadId,
    /// Its title.
    pub title: String,
    /// The `seq` and author of the resolve that stands.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resolved: Option<(u32, Author)>,
    /// The `seq` and author of the newest resolve, though it may be undone (R92).
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_resolve: Option<(u32, Author)>,
    /// Its messages in the order of their `seq`, the user's and the agents'.
    pub messages: Vec<Message>,
    /// The working line that stands (R11).
    #[serde(default, skip_serializing_if = "is_default")]
    pub line: Option<String>,
    /// Its to-dos.
    #[serde(default, skip_serializing_if = "is_default")]
    pub todos: Vec<Todo>,
    /// Who took the thread, in order (Words: *take a thread*).
    #[serde(default, skip_serializing_if = "is_default")]
    pub takes: Vec<Take>,
    /// The `seq` of its last event.
    pub last: u32,
    /// Whether its past is left out here: messages that are settled, with their to-dos and takes ([`super::snapshot`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub cut: bool,
}

/// Fields that say nothing are left out of a cache.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A message of the user, or a reply of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its `seq`.
    pub seq: u32,
    /// Its time.
    pub ts: Ts,
    /// The user or an agent.
    pub author: Author,
    /// The text.
    pub text: String,
    /// Whether it owes a reply; false for an agent's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub owes: bool,
    /// The `seq` at which it was withdrawn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub withdrawn: Option<u32>,
    /// The `seq` of the resolve that settled it (R9).
    #[serde(default, skip_serializing_if = "is_default")]
    pub settled: Option<u32>,
    /// The reply that covers it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub answered: Option<MessageId>,
    /// What a reply answers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub responds: Option<MessageId>,
    /// A reply's turn.
    #[serde(default, skip_serializing_if = "is_default")]
    pub actor: Option<Actor>,
    /// Whether main owed an earlier message as this was written (R13(a)).
    #[serde(default, skip_serializing_if = "is_default")]
    pub main_owed: bool,
    /// The pickups that carried it, in order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pickups: Vec<Pickup>,
    /// The starts on it, in order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub starts: Vec<Start>,
    /// The `seq` at which a failed or dropped to-do made it input again (R97); earlier pickups are then void for delivery.
    #[serde(default, skip_serializing_if = "is_default")]
    pub again: u32,
}

/// A turn got a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pickup {
    /// The pickup's `seq`.
    pub seq: u32,
    /// Its time.
    pub ts: Ts,
    /// The delivery.
    pub delivery: DeliveryId,
    /// The turn.
    pub actor: Actor,
}

/// A turn took a thread: it picked up its messages, or answered in it without holding it (R49).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Take {
    /// The event's `seq`.
    pub seq: u32,
    /// The turn.
    pub actor: Actor,
    /// The event's time.
    pub ts: Ts,
    /// The turn that held the thread until then, where one did, and whether it held it by a pickup or an answer rather than
    /// by being a fork that took it last (R43).
    #[serde(default, skip_serializing_if = "is_default")]
    pub from: Option<(TurnId, bool)>,
    /// The messages that it holds by this: those picked up, or all that waited as it answered over the holder.
    /// Empty for an answer by the holder itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub holds: Vec<MessageId>,
}

/// A turn is at work on an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The start's `seq`.
    pub seq: u32,
    /// The turn.
    pub actor: Actor,
    /// What it does.
    pub text: String,
}

/// How a to-do stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TodoState {
    /// To be done.
    Open,
    /// Done.
    Done,
    /// Tried and failed.
    Failed,
    /// Not wanted any more.
    Dropped,
}

/// A to-do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Todo {
    /// Its id.
    pub id: TodoId,
    /// Its `seq`.
    pub seq: u32,
    /// Its time.
    pub ts: Ts,
    /// What is to be done.
    pub title: String,
    /// The message that it comes from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: Option<MessageId>,
    /// Who opened it.
    pub author: Author,
    /// The turn that opened it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub actor: Option<Actor>,
    /// How it stands.
    pub state: TodoState,
    /// The `seq` at which it ended, or its message was withdrawn (R92).
    #[serde(default, skip_serializing_if = "is_default")]
    pub ended: Option<u32>,
    /// The starts on it, in order.
    #[serde(default, skip_serializing_if = "is_default")]
    pub starts: Vec<Start>,
}

impl Message {
    /// Whether it is the user's and neither withdrawn, answered nor settled (Words: *waiting*).
    pub fn waits(&self) -> bool {
        self.author == Author::User && self.withdrawn.is_none() && self.answered.is_none() && self.settled.is_none()
    }

    /// Whether a failed or dropped to-do made it main's input again (R97).
    pub fn is_returned(&self) -> bool {
        self.again > 0
    }

    /// Whether a turn itself picked it up.
    pub fn picked_up_by(&self, turn: TurnId) -> bool {
        self.pickups.iter().any(|pickup| pickup.actor.turn == turn)
    }

    /// Whether some turn picked it up (R13(a)).
    pub fn was_picked_up(&self) -> bool {
        !self.pickups.is_empty()
    }

    /// Whether a delivery carried it.
    pub fn carried_by(&self, delivery: impl Fn(DeliveryId) -> bool) -> bool {
        self.pickups.iter().any(|pickup| delivery(pickup.delivery))
    }

    /// Whether a session's main ever had it.
    pub fn was_mains(&self, session: &SessionId) -> bool {
        self.pickups.iter().any(|pickup| pickup.actor.by == By::Main && pickup.actor.session.as_ref() == Some(session))
    }

    /// Returns the newest pickup by a turn of a session's main, since it last became input (R97, R104). Another session's
    /// main is nobody here: it had its own conversation, which this one never saw.
    pub fn got_by_main(&self, session: &SessionId) -> Option<&Pickup> {
        self.pickups.iter().rev().find(|pickup| {
            pickup.seq > self.again && pickup.actor.by == By::Main && pickup.actor.session.as_ref() == Some(session)
        })
    }
}

impl Todo {
    /// Whether it is to be done.
    pub fn is_open(&self) -> bool {
        self.state == TodoState::Open
    }
}

impl Thread {
    /// Returns the open to-do of a message.
    pub fn open_todo(&self, message: MessageId) -> Option<&Todo> {
        self.todos.iter().find(|todo| todo.is_open() && todo.source == Some(message))
    }

    /// Returns the waiting messages, those with an open to-do too.
    pub fn waiting(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages.iter().filter(|message| message.waits())
    }

    /// Returns the waiting messages without an open to-do: those that deliveries and keeping back see (R96).
    pub fn input(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.waiting().filter(|message| self.open_todo(message.id).is_none())
    }

    /// Returns the input that is main's alone: a to-do of it failed or was dropped (R97). As one with an open to-do it stands
    /// outside of who holds the thread.
    pub fn returned(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.input().filter(|message| message.is_returned())
    }

    /// Returns the input that whoever holds the thread has.
    pub fn shared(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.input().filter(|message| !message.is_returned())
    }

    /// Whether an answer to this message takes the thread from who holds it (R49): not one that covers only what stands outside
    /// of holding, a to-do's message (R96, R97).
    pub fn answer_takes(&self, responds: MessageId) -> bool {
        let Some(message) = self.message(responds) else { return true };
        let aside = message.is_returned() || self.open_todo(responds).is_some();
        !aside || self.shared().any(|other| other.seq <= message.seq)
    }

    /// Returns the newest waiting message that owes; it carries the reference (R6).
    pub fn owing(&self) -> Option<&Message> {
        self.waiting().rev().find(|message| message.owes)
    }

    /// Returns a message by its id.
    pub fn message(&self, id: MessageId) -> Option<&Message> {
        // What is named is seldom old.
        self.messages.iter().rev().find(|message| message.id == id)
    }

    fn message_mut(&mut self, id: MessageId) -> Option<&mut Message> {
        self.messages.iter_mut().rev().find(|message| message.id == id)
    }

    /// Returns the last turn that took the thread.
    pub fn last_take(&self) -> Option<&Take> {
        self.takes.last()
    }

    /// Returns the latest take that holds any waiting message (R46): it holds all of them.
    pub fn holding_take(&self) -> Option<&Take> {
        self.holding_take_of(None)
    }

    /// As [`Thread::holding_take`], with a message that counts though it has an open to-do.
    fn holding_take_of(&self, besides: Option<MessageId>) -> Option<&Take> {
        let besides = self.waiting().filter(|message| besides == Some(message.id));
        let counts: Vec<MessageId> = besides.chain(self.shared()).map(|message| message.id).collect();
        if counts.is_empty() {
            return None;
        }
        self.takes.iter().rev().find(|take| take.holds.iter().any(|id| counts.contains(id)))
    }

    /// Returns the turn that holds the thread as far as the log alone tells, and whether it does by a take of what waits.
    fn held_from(&self, besides: Option<MessageId>) -> Option<(TurnId, bool)> {
        let waits = self.waiting().any(|message| besides == Some(message.id)) || self.shared().next().is_some();
        match self.holding_take_of(besides) {
            Some(take) => Some((take.actor.turn, true)),
            // Where nothing is left to be held, nobody holds it.
            None if !waits => None,
            None => self.last_take().filter(|take| take.actor.by == By::Fork).map(|take| (take.actor.turn, false)),
        }
    }

    /// Whether a turn holds the thread as far as the log alone tells: it has the latest take of what waits, or, where nobody
    /// picked up what waits, it took the thread last.
    fn held_by(&self, turn: TurnId, besides: Option<MessageId>) -> bool {
        self.held_from(besides).is_some_and(|(holder, _)| holder == turn)
    }
}

impl View {
    /// Folds bytes of the log that begin where the view ends. A torn last line says nothing unless only its newline is
    /// missing; a damaged line is lost alone
    /// (R127), and keeps its place, so that no later event gets an id that was once given out.
    pub fn fold(&mut self, key: IdKey, bytes: &[u8]) {
        let all: Result<(), Infallible> = self.fold_by(key, bytes, |view, event, _| {
            view.apply(event);
            Ok(())
        });
        match all {
            Ok(()) => {}
        }
    }

    /// As [`View::fold`], with each event left to `each`, which gets the offset of its line and applies it.
    ///
    /// # Errors
    /// The first of `each`; the view then stands in the middle.
    pub fn fold_by<E>(
        &mut self,
        key: IdKey,
        bytes: &[u8],
        mut each: impl FnMut(&mut View, &Event, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        for piece in log::pieces(bytes) {
            let at = self.offset;
            let line = match piece {
                Piece::Line(line) => line,
                Piece::Torn(line) => {
                    if let Some(event) = log::parse(line).filter(|event| !self.loose && self.follows(key, event)) {
                        each(self, &event, at)?;
                        self.loose = true;
                    }
                    break;
                }
            };
            self.offset += line.len() as u64 + 1;
            if std::mem::take(&mut self.loose) {
                // It was read before its newline came.
                continue;
            }
            match log::parse(line).filter(|event| self.follows(key, event)) {
                Some(event) => each(self, &event, at)?,
                None => {
                    self.damaged = self.damaged.saturating_add(1);
                    self.gap = self.gap.saturating_add(1);
                }
            }
        }
        Ok(())
    }

    /// Puts a thread into its place among the others, or in the place of the one whose past was left out.
    pub fn admit(&mut self, thread: Thread) {
        let begins = |thread: &Thread| thread.messages.first().map_or(0, |message| message.seq);
        let (id, from) = (thread.id, begins(&thread));
        if !self.threads.contains_key(&id) {
            let at =
                self.order.partition_point(|other| self.threads.get(other).is_some_and(|other| begins(other) < from));
            self.order.insert(at, id);
        }
        self.home.extend(thread.messages.iter().map(|message| (message.id.into(), id)));
        self.home.extend(thread.todos.iter().map(|todo| (todo.id.into(), id)));
        self.threads.insert(id, thread);
    }

    /// Whether an event can be the next: its `seq` is among those that may come now, or proves itself by its id. A `seq` that
    /// a bad disk changed must not shut out what follows.
    fn follows(&self, key: IdKey, event: &Event) -> bool {
        event.seq > self.seq && (event.seq <= self.next_seq() || key.id(event.seq) == event.id)
    }

    /// Returns the `seq` of the next event.
    pub fn next_seq(&self) -> u32 {
        self.seq.saturating_add(self.gap).saturating_add(1)
    }

    /// Returns the thread that an id belongs to.
    pub fn thread_of(&self, id: EventId) -> Option<&Thread> {
        self.threads.get(self.home.get(&id)?)
    }

    /// Returns a message, with its thread.
    pub fn message(&self, id: MessageId) -> Option<(&Thread, &Message)> {
        let thread = self.thread_of(id.into())?;
        Some((thread, thread.message(id)?))
    }

    /// Returns a to-do, with its thread.
    pub fn todo(&self, id: TodoId) -> Option<(&Thread, &Todo)> {
        let thread = self.thread_of(id.into())?;
        Some((thread, thread.todos.iter().find(|todo| todo.id == id)?))
    }

    /// Returns the threads in the order of their beginning.
    pub fn in_order(&self) -> impl DoubleEndedIterator<Item = &Thread> {
        self.order.iter().filter_map(|id| self.threads.get(id))
    }

    /// Folds one event; returns the thread that it is of, with the `seq` of the thread's event before it, 0 for its first. What names
    /// an unknown thread, message or to-do (its line was damaged) says nothing.
    pub fn apply(&mut self, event: &Event) -> Option<(ThreadId, u32)> {
        self.fold_one(event);
        let id = match event.body.names() {
            Names::Thread(thread) => thread,
            Names::Item(item) => *self.home.get(&item)?,
            Names::Nothing => return None,
        };
        let before = std::mem::replace(&mut self.threads.get_mut(&id)?.last, event.seq);
        Some((id, before))
    }

    fn fold_one(&mut self, event: &Event) {
        self.seq = event.seq;
        self.gap = 0;
        self.ts = self.ts.max(event.ts);
        match &event.body {
            Body::Message { thread, text, owes, title, main_owed } => {
                let message = Message { owes: *owes, main_owed: *main_owed, ..Message::new(event, text) };
                if !self.threads.contains_key(thread) {
                    self.order.push(*thread);
                }
                let entry = self.threads.entry(*thread).or_insert_with(|| Thread {
                    id: *thread,
                    title: title.clone().unwrap_or_default(),
                    resolved: None,
                    last_resolve: None,
                    messages: Vec::new(),
                    line: None,
                    todos: Vec::new(),
                    takes: Vec::new(),
                    last: 0,
                    cut: false,
                });
                entry.resolved = None;
                entry.messages.push(message);
                self.home.insert(event.id, *thread);
            }
            Body::Withdraw { message } => {
                let Some(thread) = self.home_mut((*message).into()) else { return };
                if let Some(message) = thread.message_mut(*message) {
                    message.withdrawn = Some(event.seq);
                }
                // Withdrawing a message drops its to-do (R97).
                for todo in thread.todos.iter_mut().filter(|todo| todo.source == Some(*message)) {
                    if todo.state == TodoState::Open {
                        todo.state = TodoState::Dropped;
                        todo.ended = Some(event.seq);
                    }
                }
            }
            Body::Resolve { thread } => {
                let Some(thread) = self.threads.get_mut(thread) else { return };
                thread.resolved = Some((event.seq, event.author));
                thread.last_resolve = thread.resolved;
                for message in thread.messages.iter_mut().filter(|message| message.waits()) {
                    message.settled = Some(event.seq);
                }
            }
            Body::Reopen { thread } => {
                if let Some(thread) = self.threads.get_mut(thread) {
                    thread.resolved = None;
                }
            }
            Body::Reply { thread, text, responds, actor } => {
                let id = *thread;
                let Some(thread) = self.threads.get_mut(thread) else { return };
                if let Some(responds) = responds {
                    thread.answer(event, *responds, actor);
                }
                let message = Message { responds: *responds, actor: Some(actor.clone()), ..Message::new(event, text) };
                thread.messages.push(message);
                self.home.insert(event.id, id);
            }
            Body::Line { thread, text, actor } => {
                let Some(thread) = self.threads.get_mut(thread) else { return };
                thread.line = Some(text.clone());
                // An agent's line also counts as a start on the newest waiting message that it holds (R11).
                if let Some(actor) = actor {
                    let newest = match actor.by {
                        By::Main => thread.input().next_back(),
                        By::Fork => thread.shared().next_back().filter(|_| thread.held_by(actor.turn, None)),
                    };
                    if let Some(message) = newest.map(|message| message.id).and_then(|id| thread.message_mut(id)) {
                        message.starts.push(Start { seq: event.seq, actor: actor.clone(), text: text.clone() });
                    }
                }
            }
            Body::Pickup { thread, messages, delivery, actor } => {
                let Some(thread) = self.threads.get_mut(thread) else { return };
                let aside =
                    thread.returned().filter(|message| messages.contains(&message.id)).count() == messages.len();
                for id in messages {
                    if let Some(message) = thread.message_mut(*id) {
                        let pickup = Pickup { seq: event.seq, ts: event.ts, delivery: *delivery, actor: actor.clone() };
                        message.pickups.push(pickup);
                    }
                }
                if aside {
                    return;
                }
                let from = thread.held_from(None);
                thread.takes.push(Take {
                    seq: event.seq,
                    actor: actor.clone(),
                    ts: event.ts,
                    from,
                    holds: messages.clone(),
                });
            }
            Body::Start { item, text, actor } => {
                let start = Start { seq: event.seq, actor: actor.clone(), text: text.clone() };
                let Some(thread) = self.home_mut(*item) else { return };
                if let Some(todo) = thread.todos.iter_mut().find(|todo| EventId::from(todo.id) == *item) {
                    todo.starts.push(start);
                } else if let Some(message) = thread.message_mut((*item).into()) {
                    message.starts.push(start);
                }
            }
            Body::Todo { thread, title, source, actor } => {
                let id = *thread;
                let Some(thread) = self.threads.get_mut(thread) else { return };
                thread.todos.push(Todo {
                    id: event.id.into(),
                    seq: event.seq,
                    ts: event.ts,
                    title: title.clone(),
                    source: *source,
                    author: event.author,
                    actor: actor.clone(),
                    state: TodoState::Open,
                    ended: None,
                    starts: Vec::new(),
                });
                self.home.insert(event.id, id);
            }
            Body::TodoEnd { todo, outcome, .. } => {
                let Some(thread) = self.home_mut((*todo).into()) else { return };
                let Some(todo) = thread.todos.iter_mut().find(|other| other.id == *todo) else { return };
                todo.state = match outcome {
                    TodoOutcome::Done => TodoState::Done,
                    TodoOutcome::Failed => TodoState::Failed,
                    TodoOutcome::Dropped => TodoState::Dropped,
                };
                todo.ended = Some(event.seq);
                // Failed and dropped make the message main's input again (R97).
                let source = todo.source;
                if *outcome != TodoOutcome::Done
                    && let Some(message) = source.and_then(|id| thread.message_mut(id))
                {
                    message.again = event.seq;
                }
            }
            Body::Unknown => {}
        }
    }

    fn home_mut(&mut self, id: EventId) -> Option<&mut Thread> {
        let thread = *self.home.get(&id)?;
        self.threads.get_mut(&thread)
    }
}

impl Thread {
    /// An answer covers every user's message up to the one it names, but those with an open to-do, which an answer covers
    /// only by naming them (R96), and, where it is a fork's, those of a failed or dropped one (R97).
    fn answer(&mut self, event: &Event, responds: MessageId, actor: &Actor) {
        // The to-do of the same write comes before it, and is not there yet for who holds what.
        let same_write = |todo: &Todo| {
            let own = todo.actor.as_ref().is_some_and(|by| by.turn == actor.turn);
            own && todo.source == Some(responds) && todo.seq + 1 == event.seq
        };
        let opened = self.todos.iter().any(same_write);
        let returned = self.message(responds).is_some_and(Message::is_returned);
        let takes = (opened && !returned) || self.answer_takes(responds);
        let besides = (opened && !returned).then_some(responds);
        let held = self.held_by(actor.turn, besides);
        let from = self.held_from(besides);
        let Some(until) = self.message(responds).map(|message| message.seq) else { return };
        let covered: Vec<MessageId> = self
            .messages
            .iter()
            .filter(|message| message.seq <= until && message.author == Author::User)
            .filter(|message| message.withdrawn.is_none() && message.answered.is_none())
            .filter(|message| message.id == responds || self.open_todo(message.id).is_none())
            // What is main's alone a fork never saw (R97).
            .filter(|message| message.id == responds || !message.is_returned() || actor.by == By::Main)
            .map(|message| message.id)
            .collect();
        for id in covered {
            if let Some(message) = self.message_mut(id) {
                message.answered = Some(event.id.into());
            }
        }
        self.line = None;
        if !takes {
            return;
        }
        // An answer by a turn that doesn't hold the thread takes every message waiting then (R49).
        let holds = if held { Vec::new() } else { self.shared().map(|message| message.id).collect() };
        self.takes.push(Take { seq: event.seq, actor: actor.clone(), ts: event.ts, from, holds });
    }
}

impl Message {
    fn new(event: &Event, text: &str) -> Message {
        Message {
            id: event.id.into(),
            seq: event.seq,
            ts: event.ts,
            author: event.author,
            text: text.to_owned(),
            owes: false,
            withdrawn: None,
            settled: None,
            answered: None,
            responds: None,
            actor: None,
            main_owed: false,
            pickups: Vec::new(),
            starts: Vec::new(),
            again: 0,
        }
    }
}
