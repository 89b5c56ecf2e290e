//! `leaf page state`: what stands on a page, for whoever asks.

use serde::Serialize;

use super::PageRecord;
use super::event::{Actor, Author, By};
use super::view::{Start, Thread, Todo, TodoState};
use crate::FORMAT;
use crate::clock::Ts;
use crate::ids::{AgentId, MessageId, PageId, Reference, SessionId, ThreadId, TodoId, TurnId};
use crate::rules::holding::{Holder, Reading};
use crate::rules::todos::{self, Urgency};
use crate::schedule::record::{Record, RunOutcome};
use crate::session::journal::Outcome;
use crate::session::state::TurnState;
use crate::text;

/// `leaf page state --json`, as in the contract.
#[derive(Debug, Serialize)]
pub struct PageState {
    format: u32,
    page: PageId,
    title: String,
    session: Option<SessionId>,
    seq: u32,
    follower: Follower,
    /// The threads, in the order of their beginning.
    pub threads: Vec<ThreadState>,
    /// One entry a thread that owes.
    pub owed: Vec<Owed>,
    /// The open to-dos of the page, the most urgent first, of these the oldest.
    pub todos: Vec<OpenTodo>,
    /// The forks' turns of this generation, the newest first.
    pub turns: Vec<ForkState>,
}

/// A fork's turn.
#[derive(Debug, Serialize)]
pub struct ForkState {
    /// The turn.
    pub turn: TurnId,
    /// The fork's name.
    pub name: String,
    /// Its agent.
    pub agent_id: Option<AgentId>,
    /// How it stands.
    pub state: TurnState,
    /// When it opened.
    pub opened: Ts,
    /// When it was last renewed.
    pub renewed: Ts,
    /// How it was judged, or, of a scheduled run, how it ended.
    pub outcome: Option<TurnOutcome>,
}

/// What became of a fork's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TurnOutcome {
    /// How a turn that had a thread was judged.
    Judged(Outcome),
    /// How a scheduled run ended.
    Ran(RunOutcome),
}

/// Returns the scheduled runs of a session as turns, the newest first. One that waits for others counts as resting.
pub fn scheduled(record: &Record) -> impl Iterator<Item = ForkState> {
    record.runs.iter().rev().filter(|run| !run.feed).map(|run| ForkState {
        turn: run.issue.run,
        name: run.name(),
        agent_id: run.agent.clone(),
        state: match run.over {
            Some(_) => TurnState::Ended,
            None if run.is_held() => TurnState::Resting,
            None => TurnState::Running,
        },
        opened: run.issued,
        renewed: run.over.or(run.begun).unwrap_or(run.issued),
        outcome: run.outcome.map(TurnOutcome::Ran),
    })
}

/// Whether the page's session is followed.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Follower {
    /// Whether the follower's lane is held.
    pub running: bool,
    /// Since when.
    pub since: Option<Ts>,
}

/// How a thread stands; the first that fits, in the contract's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was resolved.
    Resolved,
    /// There is an open to-do, and nothing else to do.
    Todo,
    /// Nothing waits.
    Answered,
    /// A line stands, or a fork is at it.
    OnIt,
    /// A turn that has not ended picked it up or started on it.
    Working,
    /// It waits.
    Waiting,
}

impl Status {
    /// Returns the status for a person.
    pub fn words(self) -> &'static str {
        match self {
            Status::Resolved => "resolved",
            Status::Todo => "to do",
            Status::Answered => "answered",
            Status::OnIt => "on it",
            Status::Working => "working",
            Status::Waiting => "waiting",
        }
    }
}

/// Returns how many threads stand how, in one line for a person; nothing where none is left open.
pub fn brief(statuses: &[Status]) -> String {
    let shown = [Status::Waiting, Status::Working, Status::OnIt, Status::Todo, Status::Answered];
    let counts = shown.iter().map(|shown| (statuses.iter().filter(|status| *status == shown).count(), shown.words()));
    let parts: Vec<String> = counts.filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}")).collect();
    parts.join(" · ")
}

/// A thread.
#[derive(Debug, Serialize)]
pub struct ThreadState {
    /// Its id.
    pub id: ThreadId,
    /// Its title.
    pub title: String,
    /// Whether it was resolved.
    pub resolved: bool,
    /// How it stands.
    pub status: Status,
    /// The working line that stands.
    pub line: Option<String>,
    /// Who holds it.
    pub holder: Option<HolderState>,
    /// The waiting messages.
    pub waiting: Vec<MessageId>,
    /// All messages.
    pub messages: Vec<MessageState>,
    /// All to-dos.
    pub todos: Vec<TodoJson>,
}

/// A message.
#[derive(Debug, Serialize)]
pub struct MessageState {
    /// Its id.
    pub id: MessageId,
    seq: u32,
    /// Its time.
    pub ts: Ts,
    /// Who it is from.
    pub author: Author,
    /// The text.
    pub text: String,
    owes: bool,
    /// Whether it was withdrawn.
    pub withdrawn: bool,
    responds: Option<MessageId>,
    turn: Option<TurnId>,
    by: Option<By>,
}

/// A to-do.
#[derive(Debug, Serialize)]
pub struct TodoJson {
    /// Its id.
    pub id: TodoId,
    /// What is to be done.
    pub title: String,
    source: Option<MessageId>,
    author: Author,
    /// How it stands.
    pub state: TodoState,
}

/// An open to-do, with its thread.
#[derive(Debug, Serialize)]
pub struct OpenTodo {
    /// Its thread.
    pub thread: ThreadId,
    /// The to-do.
    #[serde(flatten)]
    pub todo: TodoJson,
    /// When it was opened.
    #[serde(skip)]
    pub since: Ts,
    /// Who opened it, for a person.
    #[serde(skip)]
    pub opened_by: String,
    /// How urgent it is.
    #[serde(skip)]
    pub urgency: Urgency,
    /// The message that it came from, while that waits.
    #[serde(skip)]
    pub waits: Option<MessageId>,
    /// Who is at work on it, and what they said.
    #[serde(skip)]
    pub started: Option<(String, String)>,
}

/// What a thread owes.
#[derive(Debug, Serialize)]
pub struct Owed {
    /// The thread.
    pub thread: ThreadId,
    /// The newest waiting message that owes.
    pub message: MessageId,
    /// The reference of the newest delivery that carries it.
    #[serde(rename = "ref")]
    pub reference: Option<Reference>,
    /// Who owes the answer.
    pub owed_by: HolderState,
}

/// Who holds or owes.
#[derive(Debug, Serialize)]
pub struct HolderState {
    /// Who.
    pub kind: HolderKind,
    turn: Option<TurnId>,
    /// A fork's name.
    pub name: Option<String>,
    agent_id: Option<AgentId>,
    /// How a fork's turn stands.
    pub state: Option<TurnState>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderKind {
    /// The session's own conversation.
    Main,
    /// A working fork.
    Fork,
    /// The line fork, while the thread is kept back.
    LineFork,
}

impl HolderState {
    /// A fork's agent is that of its turn's record: a pickup was written before the turn had one.
    fn of(reading: &Reading<'_>, holder: &Holder<'_>) -> HolderState {
        match holder {
            Holder::Main(actor) => HolderState {
                kind: HolderKind::Main,
                turn: actor.map(|actor| actor.turn),
                name: None,
                agent_id: None,
                state: None,
            },
            Holder::Fork(actor, state) => HolderState {
                kind: HolderKind::Fork,
                turn: Some(actor.turn),
                name: actor.name.clone(),
                agent_id: reading
                    .state
                    .fork(actor.turn)
                    .and_then(|turn| turn.agent.clone())
                    .or_else(|| actor.agent.clone()),
                state: Some(*state),
            },
            Holder::LineFork => {
                HolderState { kind: HolderKind::LineFork, turn: None, name: None, agent_id: None, state: None }
            }
        }
    }
}

/// Returns the page's state. `open` is the turn of the page's session that has not ended, its client alive (R88).
pub fn state(reading: &Reading<'_>, record: &PageRecord, open: Option<TurnId>, follower: Follower) -> PageState {
    let view = reading.view;
    let threads = view.in_order().map(|thread| thread_state(reading, thread, open)).collect();
    let owed = view.in_order().filter_map(|thread| owed(reading, thread)).collect();
    let mut turns: Vec<ForkState> = reading
        .state
        .forks
        .iter()
        .rev()
        .filter(|turn| turn.generation == reading.state.generation)
        .map(|turn| ForkState {
            turn: turn.id,
            name: turn.name.clone(),
            agent_id: turn.agent.clone(),
            state: reading.stands(turn.id),
            opened: turn.opened,
            renewed: turn.renewed,
            outcome: turn.outcome.map(TurnOutcome::Judged),
        })
        .chain(scheduled(&reading.state.schedule))
        .collect();
    turns.sort_by_key(|turn| std::cmp::Reverse(turn.opened));
    PageState {
        format: FORMAT,
        page: reading.page.clone(),
        title: record.title.clone(),
        session: record.session.clone(),
        seq: view.seq,
        follower,
        threads,
        owed,
        todos: todos::open(reading).iter().map(open_todo).collect(),
        turns,
    }
}

fn owed(reading: &Reading<'_>, thread: &Thread) -> Option<Owed> {
    let message = thread.owing()?;
    Some(Owed {
        thread: thread.id,
        message: message.id,
        reference: message.pickups.last().map(|pickup| Reference { delivery: pickup.delivery, message: message.id }),
        // A to-do's message is main's, whoever holds the rest of the thread (R96, R97).
        owed_by: if thread.shared().any(|other| other.id == message.id) {
            HolderState::of(reading, &reading.owed_by(thread))
        } else {
            HolderState::of(reading, &Holder::Main(None))
        },
    })
}

/// Returns how a thread stands.
pub fn status(reading: &Reading<'_>, thread: &Thread, open: Option<TurnId>) -> Status {
    if thread.resolved.is_some() {
        return Status::Resolved;
    }
    let open_todo = thread.todos.iter().any(Todo::is_open);
    if thread.waiting().next().is_none() {
        return if open_todo { Status::Todo } else { Status::Answered };
    }
    let mut owing = thread.waiting().filter(|message| message.owes).peekable();
    if owing.peek().is_some() && owing.all(|message| thread.open_todo(message.id).is_some()) {
        return Status::Todo;
    }
    let with_fork = match reading.holder(thread) {
        Some(Holder::LineFork) => true,
        Some(Holder::Fork(_, state)) => state.runs(),
        Some(Holder::Main(_)) | None => false,
    };
    if thread.line.is_some() || with_fork {
        return Status::OnIt;
    }
    let goes_on = |turn: TurnId| Some(turn) == open || reading.stands(turn) != TurnState::Ended;
    let runs = |start: &Start| goes_on(start.actor.turn);
    let at_work = thread.waiting().any(|message| {
        message.starts.iter().any(runs) || message.pickups.iter().any(|pickup| goes_on(pickup.actor.turn))
    });
    if at_work { Status::Working } else { Status::Waiting }
}

fn thread_state(reading: &Reading<'_>, thread: &Thread, open: Option<TurnId>) -> ThreadState {
    ThreadState {
        id: thread.id,
        title: thread.title.clone(),
        resolved: thread.resolved.is_some(),
        status: status(reading, thread, open),
        line: thread.line.clone(),
        holder: reading.holder(thread).map(|holder| HolderState::of(reading, &holder)),
        waiting: thread.waiting().map(|message| message.id).collect(),
        messages: thread
            .messages
            .iter()
            .map(|message| MessageState {
                id: message.id,
                seq: message.seq,
                ts: message.ts,
                author: message.author,
                text: message.text.clone(),
                owes: message.owes,
                withdrawn: message.withdrawn.is_some(),
                responds: message.responds,
                turn: message.actor.as_ref().map(|actor| actor.turn),
                by: message.actor.as_ref().map(|actor| actor.by),
            })
            .collect(),
        todos: thread.todos.iter().map(todo_json).collect(),
    }
}

fn who(actor: &Actor) -> String {
    match actor.by {
        By::Fork => format!("fork {}", text::one_line(actor.name.as_deref().unwrap_or("without a name"))),
        By::Main => "main".to_owned(),
    }
}

fn open_todo(open: &todos::OpenTodo<'_>) -> OpenTodo {
    let todo = open.todo;
    let opened_by = match (todo.author, todo.actor.as_ref()) {
        (Author::User, _) => "opened by the user".to_owned(),
        (Author::Leaf, _) => "sorted as significant".to_owned(),
        (Author::Agent, Some(actor)) => format!("opened by {}", who(actor)),
        (Author::Agent, None) => "opened by main".to_owned(),
    };
    OpenTodo {
        thread: open.thread.id,
        todo: todo_json(todo),
        since: todo.ts,
        opened_by,
        urgency: open.urgency,
        waits: open.waits.map(|message| message.id),
        started: open.started.map(|start| (who(&start.actor), start.text.clone())),
    }
}

fn todo_json(todo: &Todo) -> TodoJson {
    TodoJson { id: todo.id, title: todo.title.clone(), source: todo.source, author: todo.author, state: todo.state }
}
