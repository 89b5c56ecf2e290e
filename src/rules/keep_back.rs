//! Keeping back: which threads wait for the line fork (section 3).

use super::holding::Reading;
use crate::page::event::By;
use crate::page::view::Thread;

/// A line fork has this long for the newest message (R13(g)), milliseconds.
pub const LINE: i64 = 30_000;
/// A thread is kept back at most this long from its oldest waiting message on (R13(h)), milliseconds.
pub const MOST: i64 = 90_000;

impl Reading<'_> {
    /// Whether the thread's waiting messages without an open to-do are kept back for the line fork: R13, all of it. One
    /// function decides it, for every reader (R14).
    pub fn kept_back(&self, thread: &Thread) -> bool {
        let Some(lane) = self.lane.filter(|_| self.replies && self.alive) else { return false };
        let (Some(oldest), Some(newest)) = (thread.input().next(), thread.input().next_back()) else { return false };
        let began = lane.get(self.page).copied().unwrap_or(0).max(self.held_from);
        let queued = self.state.queue.iter().any(|(page, id)| page == self.page && *id == thread.id);
        let untouched = thread.input().all(|message| {
            let taken = thread.takes.iter().any(|take| take.holds.contains(&message.id));
            let handed = self.state.handed.contains(&(self.page.clone(), message.id));
            let had_todo = thread.todos.iter().any(|todo| todo.source == Some(message.id));
            !message.was_picked_up() && !taken && !message.main_owed && !handed && !had_todo && message.seq > began
        });
        let forked = thread.takes.iter().any(|take| take.actor.by == By::Fork && self.stands(take.actor.turn).runs());
        untouched
            && !forked
            && newest.owes
            && (queued || self.now < newest.ts.plus(LINE))
            && self.now < oldest.ts.plus(MOST)
    }
}
