//! To-dos as main and the user see them (section 15): which are open, who waits for them, and in what order they are to be done.

use super::holding::Reading;
use crate::ids::TurnId;
use crate::page::event::Author;
use crate::page::view::{Message, Start, Thread, Todo};

/// How urgent a to-do is; the first is done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The user waits for an answer to the message that it came from.
    Awaited,
    /// The user asked for it, and waits for no answer.
    Asked,
    /// An agent's own, or what it came from is answered.
    Later,
}

/// An open to-do.
#[derive(Clone, Copy, Debug)]
pub struct OpenTodo<'a> {
    /// Its thread.
    pub thread: &'a Thread,
    /// The to-do.
    pub todo: &'a Todo,
    /// How urgent it is.
    pub urgency: Urgency,
    /// The message that it came from, while that waits for its answer (R97).
    pub waits: Option<&'a Message>,
    /// The newest start that counts: its turn goes on (R98).
    pub started: Option<&'a Start>,
}

/// Returns a page's open to-dos, the most urgent first, of these the oldest.
pub fn open<'a>(reading: &Reading<'a>) -> Vec<OpenTodo<'a>> {
    let main = reading.state.main.as_ref().filter(|main| main.ended.is_none() && reading.alive).map(|main| main.id);
    let goes_on = |turn: TurnId| Some(turn) == main || reading.stands(turn).runs();
    let of = |thread: &'a Thread| {
        let open = thread.todos.iter().filter(|todo| todo.is_open());
        open.map(move |todo| {
            let waits = todo.source.and_then(|source| thread.message(source)).filter(|message| message.waits());
            let urgency = match waits {
                Some(message) if message.owes => Urgency::Awaited,
                Some(_) => Urgency::Asked,
                None if todo.author == Author::User => Urgency::Asked,
                None => Urgency::Later,
            };
            let started = todo.starts.iter().rev().find(|start| goes_on(start.actor.turn));
            OpenTodo { thread, todo, urgency, waits, started }
        })
    };
    let mut open: Vec<OpenTodo<'a>> = reading.view.in_order().flat_map(of).collect();
    open.sort_by_key(|open| (open.urgency, open.todo.seq));
    open
}
