//! Who holds a message, and who owes an answer now (section 8). The one reading that deliveries, hooks, Stop, watch and page
//! state share (R53).

use crate::ids::SessionId;
use crate::page::event::{Actor, By};
use crate::page::view::{Message, Thread};

/// Who holds a thread's waiting messages, or owes an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder<'a> {
    /// The session's own conversation, in a turn where one is known.
    Main(Option<&'a Actor>),
    /// A working fork.
    Fork(&'a Actor, TurnState),
}

/// How a fork's turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// Its run, if it had one, is over.
    Ended,
}

impl Holder<'_> {
    fn of(actor: &Actor) -> Holder<'_> {
        match actor.by {
            By::Main => Holder::Main(Some(actor)),
            By::Fork => Holder::Fork(actor, TurnState::Ended),
        }
    }
}

/// Returns who holds the thread: of the turns that picked up any waiting message, or took it by an answer, the latest holds
/// all of them (R46, R49); what no turn picked up is held by nobody but a running fork that took the thread last (R47);
/// where nothing waits, the turn of the last answer (R50). A message with an open to-do stands outside (R96).
pub fn holder(thread: &Thread) -> Option<Holder<'_>> {
    if thread.input().next().is_some() {
        return thread.holding_take().map(|take| Holder::of(&take.actor));
    }
    let answer = thread.messages.iter().rev().find(|message| message.responds.is_some())?;
    answer.actor.as_ref().map(Holder::of)
}

/// Returns who owes the thread's answer now (R52): the holder while it is a running fork, else main; what an ended turn
/// left, main owes (R51).
pub fn owed_by(thread: &Thread) -> Holder<'_> {
    match holder(thread) {
        Some(Holder::Main(actor)) if thread.input().next().is_some() => Holder::Main(actor),
        _ => Holder::Main(None),
    }
}

/// Returns the thread's messages that are main's input: waiting, without an open to-do (R96), in a thread that nobody but main
/// has (R61).
pub fn mains_input(thread: &Thread) -> impl DoubleEndedIterator<Item = &Message> {
    thread.input()
}

/// Whether main started on a message since it last picked it up (R11, R104).
pub fn started_by_main(message: &Message, session: &SessionId) -> bool {
    let Some(pickup) = message.got_by_main(session) else { return false };
    message.starts.iter().any(|start| start.seq > pickup.seq && start.actor.by == By::Main)
}

/// Whether main owes an earlier message of the thread, one without an open to-do (R13(a), `main_owed`).
pub fn main_owes(thread: &Thread) -> bool {
    matches!(owed_by(thread), Holder::Main(_)) && thread.input().any(|message| message.owes)
}
