//! The follower's part that `leaf follow` and, without a module, `leaf watch` share: which threads the line fork is asked about, and
//! for whom a fork is free now (R13, R33).

use std::borrow::Borrow;

use anyhow::Result;

use crate::clock::Ts;
use crate::context;
use crate::desk::Desk;
use crate::forks::take_thread;
use crate::ids::{MessageId, PageId, ThreadId};
use crate::page::Page;
use crate::page::view::View;
use crate::place::Dir;
use crate::rules::holding::{Reading, Seat};
use crate::rules::instants;
use crate::session::journal::Action;
use crate::session::record::SessionRecord;
use crate::transaction::{self, Transaction};

/// A thread of a session's pages.
pub type Key = (PageId, ThreadId);

/// A question for the line fork.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The thread.
    pub key: Key,
    /// The message that it is about.
    pub message: MessageId,
    /// The question.
    pub question: String,
}

/// Reads the pages that a session holds.
///
/// # Errors
/// Where one can't be read.
pub fn views(desk: &Desk, home: &Dir, record: &SessionRecord) -> Result<Vec<(Page, View)>> {
    let mut views = Vec::new();
    for page in desk.held(home, record)? {
        let view = page.hot_view()?;
        views.push((page, view));
    }
    Ok(views)
}

/// Returns how a page's view is found among these.
pub fn of<'v>(views: &'v [(Page, impl Borrow<View>)]) -> impl Fn(&PageId) -> Option<&'v View> {
    move |id: &PageId| views.iter().find(|(page, _)| page.id == *id).map(|(_, view)| view.borrow())
}

/// Does what time alone changed (R88). Returns whether there was something: then all is to be read again.
///
/// # Errors
/// Where a lock or a write fails.
pub fn settle(desk: &Desk, home: &Dir, views: &[(Page, View)], seat: &Seat) -> Result<bool> {
    let mut due = false;
    for (page, view) in views {
        if transaction::is_due(&Reading::new(&page.id, &page.record, view, seat, desk.now())) {
            due = true;
            if let Some(page) = Page::open(home, &page.id)? {
                Transaction::open(desk, page, desk.deadline())?.settle()?;
            }
        }
    }
    Ok(due)
}

/// Returns when time alone next changes something. `followed`: a module reports ends.
pub fn next(views: &[(Page, View)], seat: &Seat, followed: bool, now: Ts) -> Option<Ts> {
    let of =
        |(page, view): &(Page, View)| instants::next(&Reading::new(&page.id, &page.record, view, seat, now), followed);
    views.iter().filter_map(of).min()
}

/// Returns the questions that are to be asked now. `asked`: the message that a thread was asked about last.
///
/// # Errors
/// Where there is no randomness for a fence.
pub fn asks(
    views: &[(Page, View)],
    seat: &Seat,
    now: Ts,
    asked: impl Fn(&Key) -> Option<MessageId>,
) -> Result<Vec<Ask>> {
    let mut asks = Vec::new();
    for (page, view) in views {
        let reading = Reading::new(&page.id, &page.record, view, seat, now);
        for thread in view.in_order().filter(|thread| reading.kept_back(thread)) {
            let Some(newest) = thread.input().next_back() else { continue };
            let key = (page.id.clone(), thread.id);
            let queued = seat.state.queue.contains(&key);
            let last = asked(&key);
            // A thread in the queue is asked about anew only for a further message (R33).
            if last == Some(newest.id) || (queued && last.is_none()) {
                continue;
            }
            asks.push(Ask { key, message: newest.id, question: context::question(thread)? });
        }
    }
    Ok(asks)
}

/// Takes for the head of the queue where a fork is free (R33); what is no longer kept back leaves it.
///
/// # Errors
/// Where a lock or a write fails.
pub fn take_head(desk: &Desk, home: &Dir, record: &SessionRecord, seat: &Seat, now: Ts) -> Result<Option<Action>> {
    let Some((page, thread)) = seat.state.queue.first() else { return Ok(None) };
    let state = &seat.state;
    let running = state.forks.iter().filter(|turn| turn.stands(state.generation, seat.alive, true, now).runs());
    if running.count() >= desk.config(&record.cwd).max_running {
        return Ok(None);
    }
    let Some(page) = Page::open(home, page)? else { return Ok(None) };
    let mut tx = Transaction::open(desk, page, desk.deadline())?;
    if tx.page.page.record.session.as_ref() != Some(&record.id) {
        // Claimed meanwhile: a fork of its new session's is not this client's to start.
        return Ok(None);
    }
    let reading = tx.reading();
    if !reading.view.threads.get(thread).is_some_and(|thread| reading.kept_back(thread)) {
        tx.settle()?;
        return Ok(None);
    }
    take_thread(desk, &mut tx, *thread).map(Some)
}
