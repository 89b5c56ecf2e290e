//! What main gets, and when a Stop continues its turn (section 16).

use super::holding::{Reading, started_by_main};
use super::todos::{self, OpenTodo};
use crate::ids::{DeliveryId, MessageId, PageId, Reference, SessionId};
use crate::page::event::Author;
use crate::page::view::{Message, Thread, View};
use crate::session::journal::ClerkLine;
use crate::session::state::{Pointer, State};

/// The moments at which main gets something (R100).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A tool boundary.
    Boundary,
    /// A prompt.
    Prompt,
    /// A Stop; `again` where a hook continued this turn before (`stop_hook_active`).
    Stop {
        /// The client's `stop_hook_active`.
        again: bool,
    },
    /// The session was compacted or resumed: main is told what it owes (R54).
    Recovery,
}

/// Messages of one thread.
#[derive(Clone, Debug)]
pub struct Bundle<'a> {
    /// The thread.
    pub thread: &'a Thread,
    /// Some of its waiting messages, the oldest first.
    pub messages: Vec<&'a Message>,
}

impl<'a> Bundle<'a> {
    /// Returns what others wrote in it: what a fence's mark must not be in (R124).
    pub fn texts(&self) -> impl Iterator<Item = &'a str> + Clone {
        let thread = self.thread;
        let messages = self.messages.clone();
        std::iter::once(thread.title.as_str()).chain(messages.into_iter().map(|message| message.text.as_str()))
    }

    /// Returns the message that an answer is to name: the newest that owes (R6), else the newest.
    pub fn answers(&self) -> Option<MessageId> {
        let owing = self.messages.iter().rev().find(|message| message.owes);
        owing.or(self.messages.last()).map(|message| message.id)
    }
}

/// What main owes and has got: an old debt.
#[derive(Clone, Debug)]
pub struct Debt<'a> {
    /// The thread.
    pub thread: &'a Thread,
    /// The newest such message of it.
    pub message: &'a Message,
    /// How it is answered.
    pub reference: Reference,
    /// Whether it was said to main as an old debt already (R104).
    pub said: bool,
    /// Whether main picked it up in its open turn.
    pub of_this_turn: bool,
    /// Whether main started on it since (R11).
    pub started: bool,
}

/// A message that main had picked up and that is gone (R8), or a thread that the user resolved (R9).
#[derive(Clone, Debug)]
pub enum Gone<'a> {
    /// The user took the message back.
    Withdrawn(&'a Thread, &'a Message),
    /// The thread was settled.
    Resolved(&'a Thread),
}

/// What lies on one page for a session's main.
#[derive(Clone, Debug, Default)]
pub struct Inbox<'a> {
    /// Input that no turn of this main picked up, and that no pointer carries (R100).
    pub new: Vec<Bundle<'a>>,
    /// Whether some of it came after main was last interrupted: what was there then waits for the next prompt (R105).
    pub wakes: bool,
    /// Deliveries whose output may never have reached main (R101).
    pub unshown: Vec<(DeliveryId, Bundle<'a>)>,
    /// Pointers that main was told of and has not acknowledged, whose messages still wait.
    pub pointers: Vec<&'a Pointer>,
    /// What main owes and has got.
    pub debts: Vec<Debt<'a>>,
    /// What is gone since main last heard.
    pub gone: Vec<Gone<'a>>,
    /// The open to-dos, the most urgent first.
    pub todos: Vec<OpenTodo<'a>>,
}

/// Reads what lies on a page for the main of `session`.
pub fn inbox<'a>(reading: &Reading<'a>, session: &SessionId) -> Inbox<'a> {
    let (view, page, state) = (reading.view, reading.page, reading.state);
    let mut inbox = Inbox::default();
    let told = state.told.get(page).copied().unwrap_or(0);
    let open = state.main.as_ref().filter(|main| main.ended.is_none()).map(|main| main.id);
    let pointed: Vec<&Pointer> = state
        .pointers
        .iter()
        .filter(|pointer| pointer.page == *page)
        .filter(|pointer| {
            pointer.messages.iter().any(|id| {
                let found = view.message(*id);
                found.is_some_and(|(thread, message)| {
                    thread.input().any(|input| input.id == message.id) && message.got_by_main(session).is_none()
                })
            })
        })
        .collect();
    for thread in view.in_order() {
        gone(thread, session, told, &mut inbox);
        if thread.resolved.is_some() {
            continue;
        }
        let mut new = Vec::new();
        let mut unshown: Vec<(DeliveryId, Bundle<'a>)> = Vec::new();
        let mut debt: Option<(&Message, Reference)> = None;
        for message in reading.mains_input(thread) {
            let Some(pickup) = message.got_by_main(session) else {
                if !pointed.iter().any(|pointer| pointer.messages.contains(&message.id)) {
                    new.push(message);
                }
                continue;
            };
            if !state.was_shown(page, pickup.delivery, pickup.actor.turn) {
                match unshown.iter_mut().find(|(delivery, _)| *delivery == pickup.delivery) {
                    Some((_, bundle)) => bundle.messages.push(message),
                    None => unshown.push((pickup.delivery, Bundle { thread, messages: vec![message] })),
                }
            } else if message.owes {
                debt = Some((message, Reference { delivery: pickup.delivery, message: message.id }));
            }
        }
        let interrupted = state.interrupted.get(page).copied().unwrap_or(0);
        inbox.wakes |= new.iter().any(|message| message.seq > interrupted);
        if !new.is_empty() {
            inbox.new.push(Bundle { thread, messages: new });
        }
        inbox.unshown.extend(unshown);
        if let Some((message, reference)) = debt {
            inbox.debts.push(Debt {
                thread,
                message,
                reference,
                said: state.debts.contains(&(page.clone(), message.id)),
                of_this_turn: message.got_by_main(session).map(|pickup| pickup.actor.turn) == open,
                started: started_by_main(message, session),
            });
        }
    }
    inbox.pointers = pointed;
    inbox.todos = todos::open(reading);
    inbox
}

fn gone<'a>(thread: &'a Thread, session: &SessionId, told: u32, inbox: &mut Inbox<'a>) {
    for message in &thread.messages {
        if message.withdrawn.is_some_and(|seq| seq > told) && message.was_mains(session) {
            inbox.gone.push(Gone::Withdrawn(thread, message));
        }
    }
    if let Some((seq, Author::User)) = thread.resolved
        && seq > told
        && thread.messages.iter().any(|message| message.settled == Some(seq) && message.was_mains(session))
    {
        inbox.gone.push(Gone::Resolved(thread));
    }
}

impl Inbox<'_> {
    /// Whether there is input to deliver, or to deliver again.
    pub fn has_input(&self) -> bool {
        !self.new.is_empty() || !self.unshown.is_empty()
    }

    /// Returns the open to-dos that nobody started (R95).
    pub fn unstarted(&self) -> impl Iterator<Item = &OpenTodo<'_>> + Clone {
        self.todos.iter().filter(|open| open.started.is_none())
    }

    /// The pointers that are to be said now: once a turn (R101).
    pub fn pointers_to_say(&self, state: &State) -> Vec<&Pointer> {
        let turn = state.main.as_ref().map(|main| main.id);
        self.pointers.iter().filter(|pointer| pointer.turn != turn).copied().collect()
    }

    /// The debts that are said at a moment: at a Stop those that main has not started on (R104), at a prompt those that an
    /// ended turn left and that were not said yet, after a compaction or a resume all (R54).
    pub fn debts_to_say(&self, moment: Moment) -> Vec<&Debt<'_>> {
        let says = |debt: &&Debt<'_>| match moment {
            Moment::Boundary => false,
            Moment::Prompt => !debt.of_this_turn && !debt.said,
            Moment::Stop { .. } => !debt.started,
            Moment::Recovery => true,
        };
        self.debts.iter().filter(says).collect()
    }
}

/// Why a Stop continues main's turn (R104, R95).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continue {
    /// New input, or one whose delivery was never shown.
    Input,
    /// Old debt.
    Debt,
    /// An open to-do that nobody started.
    Todo,
}

/// Decides a Stop. `count` is how often Stop continued the turn since its last tool boundary, `cap` the client's cap on that
/// (`None`: none); one short of it the turn ends, whatever waits (R104).
pub fn stop(inboxes: &[Inbox<'_>], state: &State, again: bool, cap: Option<u32>) -> Option<Continue> {
    if cap.is_some_and(|cap| state.continued + 1 >= cap) {
        return None;
    }
    let any = |test: &dyn Fn(&Inbox<'_>) -> bool| inboxes.iter().any(test);
    if any(&|inbox| inbox.has_input() || !inbox.pointers_to_say(state).is_empty()) {
        return Some(Continue::Input);
    }
    let debt = |inbox: &Inbox<'_>| !inbox.debts_to_say(Moment::Stop { again }).is_empty() || !inbox.pointers.is_empty();
    if !again && any(&debt) {
        return Some(Continue::Debt);
    }
    let turn = state.main.as_ref().map(|main| main.id);
    if any(&|inbox| inbox.unstarted().next().is_some()) && state.todo_line != turn {
        return Some(Continue::Todo);
    }
    None
}

/// Returns the clerk's lines that are still true: one of a to-do that ended before main heard of it, or went to another session
/// with its page, is not. `view` gives the pages that the session holds.
pub fn lines<'s, 'v>(
    state: &'s State,
    view: impl Fn(&PageId) -> Option<&'v View>,
) -> impl Iterator<Item = &'s ClerkLine> {
    state.clerk.iter().filter(move |line| match &line.todo {
        Some((page, id)) => view(page).and_then(|view| view.todo(*id)).is_some_and(|(_, todo)| todo.is_open()),
        None => true,
    })
}

/// Whether an idle session is to be woken (R105): for new input that no turn of main has got or was pointed to, or for a
/// clerk's line that asks for it.
pub fn wakes<'l>(inboxes: &[Inbox<'_>], mut lines: impl Iterator<Item = &'l ClerkLine>) -> bool {
    inboxes.iter().any(|inbox| inbox.wakes) || lines.any(|line| line.wake)
}
