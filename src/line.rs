//! What a line fork said is posted and its thread routed (section 4): for the hooks module by `leaf fork line`, without one by the
//! watch. One transaction each.

use anyhow::Result;

use crate::desk::{Desk, Prefix};
use crate::forks::{entry_of, take_thread};
use crate::ids::{MessageId, ThreadId};
use crate::page::event::{Author, Body, draft};
use crate::rules::take::{self, LineAnswer};
use crate::rules::way::Way;
use crate::session::journal::{Action, ClerkLine, Cost, Entry, Kind, Sort};
use crate::session::state::ForkTurn;
use crate::text;
use crate::transaction::Transaction;

/// Takes what the line fork said of a thread, asked about the message `through`, at what cost: returns what is to be done now (R24 to
/// R26, R29).
///
/// # Errors
/// Where a write fails.
pub fn answer(
    desk: &Desk,
    tx: &mut Transaction,
    id: ThreadId,
    through: Option<&Prefix>,
    text: &str,
    cost: Cost,
) -> Result<Action> {
    // Called again while the turn's run has not begun, the same action (R29, before R24).
    if let Some(action) = standing_action(tx, id) {
        return Ok(action);
    }
    tx.settle()?;
    let reading = tx.reading();
    let Some(thread) = reading.view.threads.get(&id).filter(|thread| reading.kept_back(thread)) else {
        unposted(tx, id, cost)?;
        return Ok(Action::None);
    };
    let newest = thread.input().next_back().map(|message| message.id);
    let asked = through.is_none_or(|through| newest.is_some_and(|newest| through.begins(newest.into())));
    if !asked {
        unposted(tx, id, cost)?;
        return Ok(Action::Ask);
    }
    let Some(newest) = newest else { return Ok(Action::None) };
    match take::read_line(text) {
        None => failed_line(tx, id, newest, text, cost),
        Some(answer) => sorted(desk, tx, id, newest, &answer, cost),
    }
}

/// Returns the action of the thread's turn whose run has not begun.
fn standing_action(tx: &Transaction, thread: ThreadId) -> Option<Action> {
    let reading = tx.reading();
    let here = |turn: &&ForkTurn| {
        turn.thread.as_ref().is_some_and(|(page, id)| page == reading.page && *id == thread)
            && reading.stands(turn.id).runs()
    };
    let turn = reading.state.forks.iter().find(here)?;
    match turn.way {
        // Main starts it, or a process of its own is.
        Some(Way::Subagent | Way::Headless | Way::Main) => turn.action.as_ref().map(|_| Action::None),
        Some(Way::Module) | None => turn.action.clone(),
    }
}

/// Hands what waits in a thread to main (R16).
fn hand_over(tx: &mut Transaction, thread: ThreadId, newest: MessageId, why: &str, rule: &str) -> Result<Entry> {
    let messages = tx.page.view().threads.get(&thread).map(take::picks).unwrap_or_default();
    Ok(Entry {
        messages,
        why: Some(why.to_owned()),
        rule: Some(rule.to_owned()),
        ..entry_of(tx, Kind::Handed, thread, newest)
    })
}

/// A line that is not posted cost what it cost all the same (R122).
fn unposted(tx: &mut Transaction, thread: ThreadId, cost: Cost) -> Result<()> {
    if !cost.is_told() {
        return Ok(());
    }
    let entry = Entry {
        page: Some(tx.page.page.id.clone()),
        thread: Some(thread),
        rule: Some("R122".to_owned()),
        ..Entry::new(tx.now, Kind::Cost)
    };
    tx.journal(&[entry.at(cost)])
}

/// A failed line hands over at once; its text stays in the journal (R26).
fn failed_line(tx: &mut Transaction, thread: ThreadId, newest: MessageId, text: &str, cost: Cost) -> Result<Action> {
    let failed = Entry {
        text: Some(text::clip(text, 4000)),
        why: Some("it is not the one JSON object that was asked for".to_owned()),
        rule: Some("R21".to_owned()),
        ..entry_of(tx, Kind::Line, thread, newest)
    };
    let handed = hand_over(tx, thread, newest, "the line fork's line failed", "R26")?;
    tx.journal(&[failed.at(cost), handed])?;
    Ok(Action::Main)
}

/// Posts the line, then routes the message by its sort (R25).
fn sorted(
    desk: &Desk,
    tx: &mut Transaction,
    thread: ThreadId,
    newest: MessageId,
    answer: &LineAnswer,
    cost: Cost,
) -> Result<Action> {
    let posted = draft(Author::Leaf, Body::Line { thread, text: answer.line.clone(), actor: None });
    let line = Entry {
        text: Some(answer.line.clone()),
        rule: Some("R25".to_owned()),
        ..entry_of(tx, Kind::Line, thread, newest)
    }
    .at(cost);
    let sort =
        Entry { sort: Some(answer.sort), rule: Some("R21".to_owned()), ..entry_of(tx, Kind::Sort, thread, newest) };
    match answer.sort {
        Sort::Significant => {
            // The line and the to-do in one write (R95).
            let text = tx.page.view().message(newest).map(|(_, message)| message.text.clone()).unwrap_or_default();
            let title = take::todo_title(answer, &text);
            let todo =
                draft(Author::Leaf, Body::Todo { thread, title: title.clone(), source: Some(newest), actor: None });
            let kept = tx.page.view().threads.get(&thread).map(take::picks).unwrap_or_default();
            // Behind the line's. Main is told first: what is told of a to-do that a kill kept from being opened is told nobody.
            let id = tx.page.id_ahead(1)?.into();
            let told = ClerkLine {
                quote: Some(title),
                wake: true,
                todo: Some((tx.page.page.id.clone(), id)),
                ..ClerkLine::new(format!(
                    "message {newest} of the user became to-do {id} of thread {thread} (whole: leaf thread show {thread}). Do it in \
                     your own order, then leaf thread reply {newest} TEXT and leaf task end {id} done:"
                ))
            };
            // What else was kept back there stops being so by a to-do, which hands nothing over (R16).
            let told = Entry {
                page: Some(tx.page.page.id.clone()),
                messages: kept,
                ..Entry::clerk(tx.now, Some(thread), told)
            };
            tx.journal(&[line, sort, told])?;
            // A to-do is work that nobody else remembers: durable, as a message is.
            tx.page.append(tx.now, vec![posted, todo], true)?;
            Ok(Action::Todo { todo: id })
        }
        Sort::Now => {
            tx.page.append(tx.now, vec![posted], false)?;
            let handed = hand_over(tx, thread, newest, "it is for main now", "R25")?;
            tx.journal(&[line, sort, handed])?;
            Ok(Action::Main)
        }
        Sort::Small => {
            tx.page.append(tx.now, vec![posted], false)?;
            let works = tx.session.as_ref().is_some_and(|session| session.session.record.switches.fork_work);
            if !works {
                let handed = hand_over(tx, thread, newest, "working forks are off", "R3")?;
                tx.journal(&[line, sort, handed])?;
                return Ok(Action::Main);
            }
            tx.journal(&[line, sort])?;
            take_thread(desk, tx, thread)
        }
    }
}
