//! The kinds of the page log. A line is flat JSON; in the code an event is a typed value.

use serde::{Deserialize, Serialize};

use crate::clock::Ts;
use crate::ids::{AgentId, DeliveryId, EventId, Generation, IdKey, MessageId, SessionId, ThreadId, TodoId, TurnId};

/// Who an event is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Author {
    /// The person.
    User,
    /// An agent: main, or a fork.
    Agent,
    /// `leaf` itself.
    Leaf,
}

/// Whose turn an event was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The session's own conversation.
    Main,
    /// A working fork.
    Fork,
}

/// The turn that an event names, with all that R40 wants said beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The turn.
    pub turn: TurnId,
    /// The turn's session; `None` where a person acted as main on a page that no session holds.
    pub session: Option<SessionId>,
    /// The turn's generation, `None` as above.
    pub generation: Option<Generation>,
    /// Main or a fork.
    pub by: By,
    /// A fork's name.
    pub name: Option<String>,
    /// A fork's agent.
    pub agent: Option<AgentId>,
}

/// How a to-do ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TodoOutcome {
    /// It was done; its source message is answered (R97).
    Done,
    /// It was tried and failed.
    Failed,
    /// It isn't wanted any more.
    Dropped,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A message of the user.
    Message {
        /// Its thread; a thread's first message names it.
        thread: ThreadId,
        /// The text.
        text: String,
        /// Whether it owes a reply (R6).
        owes: bool,
        /// The thread's title, in its first message alone.
        title: Option<String>,
        /// Whether main owed an earlier message of the thread as this was written (R13(a)).
        main_owed: bool,
    },
    /// A message is taken back (R8).
    Withdraw {
        /// The message.
        message: MessageId,
    },
    /// A thread is settled (R9).
    Resolve {
        /// The thread.
        thread: ThreadId,
    },
    /// A settled thread is opened again (R9).
    Reopen {
        /// The thread.
        thread: ThreadId,
    },
    /// An agent's message.
    Reply {
        /// The thread.
        thread: ThreadId,
        /// The text.
        text: String,
        /// The message that it answers; `None` for an unasked one.
        responds: Option<MessageId>,
        /// The turn.
        actor: Actor,
    },
    /// The working line (R11).
    Line {
        /// The thread.
        thread: ThreadId,
        /// The text.
        text: String,
        /// The turn; `None` for a line fork's.
        actor: Option<Actor>,
    },
    /// A turn got messages (R101).
    Pickup {
        /// The thread.
        thread: ThreadId,
        /// The messages.
        messages: Vec<MessageId>,
        /// The delivery.
        delivery: DeliveryId,
        /// The turn.
        actor: Actor,
    },
    /// A turn is at work on a message or to-do.
    Start {
        /// The message or to-do.
        item: EventId,
        /// What it does.
        text: String,
        /// The turn.
        actor: Actor,
    },
    /// A to-do is opened (R94).
    Todo {
        /// The thread.
        thread: ThreadId,
        /// The title.
        title: String,
        /// The message that it comes from.
        source: Option<MessageId>,
        /// The turn.
        actor: Option<Actor>,
    },
    /// A to-do is ended (R97).
    TodoEnd {
        /// The to-do.
        todo: TodoId,
        /// How.
        outcome: TodoOutcome,
        /// What is to be said of it.
        detail: Option<String>,
        /// The turn.
        actor: Option<Actor>,
    },
    /// A kind of a newer format: it keeps its place and says nothing (R127).
    Unknown,
}

/// What an event is of: a thread by its id, or by that of a message or to-do in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The thread.
    Thread(ThreadId),
    /// A message or to-do.
    Item(EventId),
    /// An event of a newer format: leaf can't tell.
    Nothing,
}

impl Body {
    /// Returns what the event is of.
    pub fn names(&self) -> Names {
        match self {
            Body::Message { thread, .. }
            | Body::Resolve { thread }
            | Body::Reopen { thread }
            | Body::Reply { thread, .. }
            | Body::Line { thread, .. }
            | Body::Pickup { thread, .. }
            | Body::Todo { thread, .. } => Names::Thread(*thread),
            Body::Withdraw { message } => Names::Item((*message).into()),
            Body::Start { item, .. } => Names::Item(*item),
            Body::TodoEnd { todo, .. } => Names::Item((*todo).into()),
            Body::Unknown => Names::Nothing,
        }
    }

    /// Whether it speaks of a message that isn't among those that are `there`, beside what it is of.
    pub fn mentions_beyond(&self, there: impl Fn(MessageId) -> bool) -> bool {
        match self {
            Body::Reply { responds: Some(message), .. } | Body::Todo { source: Some(message), .. } => !there(*message),
            Body::Pickup { messages, .. } => messages.iter().any(|message| !there(*message)),
            _ => false,
        }
    }
}

/// One event of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its place in the page: 1, 2, …
    pub seq: u32,
    /// The image of `seq`.
    pub id: EventId,
    /// When it was written, never before an earlier event's.
    pub ts: Ts,
    /// Who it is from.
    pub author: Author,
    /// What it says.
    pub body: Body,
}

/// An event that gets its `seq` and id as it is appended; the slice is the same write's events before it.
pub type Draft = Box<dyn FnOnce(IdKey, u32, Ts, &[Event]) -> Event>;

/// Returns the draft of an event whose body doesn't depend on its own id.
pub fn draft(author: Author, body: Body) -> Draft {
    Box::new(move |key, seq, ts, _| Event { seq, id: key.id(seq), ts, author, body })
}

/// Returns the draft of a thread's first message, which names the thread.
pub fn first_message(text: String, owes: bool, title: String) -> Draft {
    Box::new(move |key, seq, ts, _| {
        let id = key.id(seq);
        let body = Body::Message { thread: id.into(), text, owes, title: Some(title), main_owed: false };
        Event { seq, id, ts, author: Author::User, body }
    })
}

/// Returns the draft of an inline delivery's pickup: the delivery's id is that of its first pickup.
pub fn pickup(thread: ThreadId, messages: Vec<MessageId>, delivery: Option<DeliveryId>, actor: Actor) -> Draft {
    Box::new(move |key, seq, ts, before| {
        let id = key.id(seq);
        let delivery = delivery.unwrap_or_else(|| match before.first() {
            Some(Event { body: Body::Pickup { delivery, .. }, .. }) => *delivery,
            _ => id.into(),
        });
        Event { seq, id, ts, author: Author::Leaf, body: Body::Pickup { thread, messages, delivery, actor } }
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Message,
    Withdraw,
    Resolve,
    Reopen,
    Reply,
    Line,
    Pickup,
    Start,
    Todo,
    TodoEnd,
    #[serde(other)]
    Unknown,
}

/// The flat line of the log, as in the contract's table. `notes` is of a writer's `--json` alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    seq: u32,
    id: EventId,
    ts: Ts,
    kind: Kind,
    author: Author,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thread: Option<ThreadId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<MessageId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<EventId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    todo: Option<TodoId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owes: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    main_owed: Option<bool>,
    /// `Some(None)` is the `null` of an unasked reply, which is written out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    responds: Option<Option<MessageId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<MessageId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<TodoOutcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delivery: Option<DeliveryId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<TurnId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<Generation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<By>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent: Option<AgentId>,
}

impl Line {
    fn new(event: &Event, kind: Kind) -> Line {
        Line {
            seq: event.seq,
            id: event.id,
            ts: event.ts,
            kind,
            author: event.author,
            thread: None,
            message: None,
            messages: None,
            item: None,
            todo: None,
            text: None,
            title: None,
            owes: None,
            main_owed: None,
            responds: None,
            source: None,
            outcome: None,
            detail: None,
            delivery: None,
            turn: None,
            session: None,
            generation: None,
            by: None,
            name: None,
            agent: None,
        }
    }

    fn acted(mut self, actor: Option<&Actor>) -> Line {
        if let Some(actor) = actor {
            self.turn = Some(actor.turn);
            self.session = actor.session.clone();
            self.generation = actor.generation;
            self.by = Some(actor.by);
            self.name = actor.name.clone();
            self.agent = actor.agent.clone();
        }
        self
    }

    fn actor(&mut self) -> Option<Actor> {
        Some(Actor {
            turn: self.turn?,
            session: self.session.take(),
            generation: self.generation,
            by: self.by?,
            name: self.name.take(),
            agent: self.agent.take(),
        })
    }

    /// Returns the event that the line tells, `None` where a field that its kind needs is missing (the line is damaged).
    pub fn into_event(mut self) -> Option<Event> {
        let actor = self.actor();
        let body = match self.kind {
            Kind::Message => Body::Message {
                thread: self.thread?,
                text: self.text?,
                owes: self.owes?,
                title: self.title,
                main_owed: self.main_owed.unwrap_or(false),
            },
            Kind::Withdraw => Body::Withdraw { message: self.message? },
            Kind::Resolve => Body::Resolve { thread: self.thread? },
            Kind::Reopen => Body::Reopen { thread: self.thread? },
            Kind::Reply => {
                Body::Reply { thread: self.thread?, text: self.text?, responds: self.responds.flatten(), actor: actor? }
            }
            Kind::Line => Body::Line { thread: self.thread?, text: self.text?, actor },
            Kind::Pickup => {
                Body::Pickup { thread: self.thread?, messages: self.messages?, delivery: self.delivery?, actor: actor? }
            }
            Kind::Start => Body::Start { item: self.item?, text: self.text?, actor: actor? },
            Kind::Todo => Body::Todo { thread: self.thread?, title: self.title?, source: self.source, actor },
            Kind::TodoEnd => Body::TodoEnd { todo: self.todo?, outcome: self.outcome?, detail: self.detail, actor },
            Kind::Unknown => Body::Unknown,
        };
        Some(Event { seq: self.seq, id: self.id, ts: self.ts, author: self.author, body })
    }
}

impl Event {
    /// Returns the event's line.
    pub fn to_line(&self) -> Line {
        match &self.body {
            Body::Message { thread, text, owes, title, main_owed } => Line {
                thread: Some(*thread),
                text: Some(text.clone()),
                owes: Some(*owes),
                title: title.clone(),
                main_owed: main_owed.then_some(true),
                ..Line::new(self, Kind::Message)
            },
            Body::Withdraw { message } => Line { message: Some(*message), ..Line::new(self, Kind::Withdraw) },
            Body::Resolve { thread } => Line { thread: Some(*thread), ..Line::new(self, Kind::Resolve) },
            Body::Reopen { thread } => Line { thread: Some(*thread), ..Line::new(self, Kind::Reopen) },
            Body::Reply { thread, text, responds, actor } => Line {
                thread: Some(*thread),
                text: Some(text.clone()),
                responds: Some(*responds),
                ..Line::new(self, Kind::Reply).acted(Some(actor))
            },
            Body::Line { thread, text, actor } => Line {
                thread: Some(*thread),
                text: Some(text.clone()),
                ..Line::new(self, Kind::Line).acted(actor.as_ref())
            },
            Body::Pickup { thread, messages, delivery, actor } => Line {
                thread: Some(*thread),
                messages: Some(messages.clone()),
                delivery: Some(*delivery),
                ..Line::new(self, Kind::Pickup).acted(Some(actor))
            },
            Body::Start { item, text, actor } => {
                Line { item: Some(*item), text: Some(text.clone()), ..Line::new(self, Kind::Start).acted(Some(actor)) }
            }
            Body::Todo { thread, title, source, actor } => Line {
                thread: Some(*thread),
                title: Some(title.clone()),
                source: *source,
                ..Line::new(self, Kind::Todo).acted(actor.as_ref())
            },
            Body::TodoEnd { todo, outcome, detail, actor } => Line {
                todo: Some(*todo),
                outcome: Some(*outcome),
                detail: detail.clone(),
                ..Line::new(self, Kind::TodoEnd).acted(actor.as_ref())
            },
            Body::Unknown => Line::new(self, Kind::Unknown),
        }
    }
}
