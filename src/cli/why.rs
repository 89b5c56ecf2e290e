//! `leaf why THREAD`: the thread's story from the journal (R5), for a person with the page's own events.

pub mod sentences;

use std::fmt::Write;

use anyhow::Result;
use clap::Args;

use super::{Run, output};
use crate::clock::Ts;
use crate::desk::Prefix;
use crate::page::Page;
use crate::page::event::{Body, By, Event};
use crate::page::log::{Log, Piece, parse, pieces};
use crate::session::Session;
use crate::session::journal::{self, Entry, Kind};
use sentences::Sentence;

/// `leaf why THREAD`
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The thread
    thread: String,
}

/// Runs `leaf why`.
///
/// # Errors
/// Where there is no such thread, or its journal can't be read.
pub fn run(run: &Run, args: &WhyArgs) -> Result<()> {
    let prefix = Prefix::parse(&args.thread)?;
    let speaker = run.desk.speaker()?;
    let page =
        run.page_of(&speaker, &format!("thread {prefix}"), &prefix, false, super::thread::knows_thread(&prefix))?;
    let view = page.view()?;
    let thread = super::thread::pick_thread(&view, &prefix)?;
    // A page has been several sessions': each asked, sorted, took, answered or handed on in its own journal, and only that tells.
    let mut story: Vec<Entry> = Vec::new();
    if let Some(home) = run.desk.home()? {
        for session in Session::all(&home)? {
            story.extend(of_thread(journal::all(&session.dir)?.0, &page.id, thread.id));
        }
    }
    story.sort_by_key(|entry| entry.ts);
    let story = accounted(story);
    if run.common.json {
        return output::print_json(&story);
    }
    // What stands in the page's log and what was judged, in one story. Of one moment are what one transaction wrote: a message comes
    // before what is judged of it, and what follows from a judgment after that.
    let mut told: Vec<((Ts, u8), Sentence)> = Vec::new();
    for event in events(&page)? {
        let place = if matches!(event.body, Body::Message { .. }) { 0 } else { 2 };
        told.extend(sentences::of_event(&event, thread).map(|sentence| ((event.ts, place), sentence)));
    }
    told.extend(story.iter().filter_map(|entry| Some(((entry.ts, 1), sentences::of_entry(entry)?))));
    told.sort_by_key(|(at, _)| *at);
    let mut out = String::new();
    for ((ts, _), sentence) in &told {
        let _ = writeln!(out, "{}  {} ({})", ts.brief(), sentence.text, sentence.rule);
    }
    let state = super::status::page_state(run, &page, &view)?;
    let last = story.iter().rev().find(|entry| matches!(entry.kind, Kind::Queued | Kind::Handed | Kind::Taken));
    let queued = last.is_some_and(|entry| entry.kind == Kind::Queued);
    let now = sentences::now(&state, thread.id, queued);
    let _ = writeln!(out, "now: {} ({})", now.text, now.rule);
    output::print(&out)
}

/// Reads a page's log.
fn events(page: &Page) -> Result<Vec<Event>> {
    let bytes = Log::open_to_read(&page.dir)?.read_from(0)?;
    let events = pieces(&bytes).filter_map(|piece| match piece {
        Piece::Line(line) => parse(line),
        Piece::Torn(_) => None,
    });
    Ok(events.collect())
}

/// Puts a cost that came by itself to the entry that it is of: the end of its turn, or its rest, whichever was last (R122).
fn accounted(story: Vec<Entry>) -> Vec<Entry> {
    let mut out: Vec<Entry> = Vec::with_capacity(story.len());
    for entry in story {
        if entry.kind != Kind::Cost {
            out.push(entry);
            continue;
        }
        let of = |other: &&mut Entry| {
            entry.turn.is_some() && other.turn == entry.turn && matches!(other.kind, Kind::Ended | Kind::Resting)
        };
        if let Some(other) = out.iter_mut().rev().find(of) {
            let sum = other.cost().plus(entry.cost());
            (other.tokens, other.ms) = (sum.tokens, sum.ms);
        }
    }
    out
}

/// Returns the entries that are a thread's: those that name it, and the ends of the turns that took it.
fn of_thread(
    entries: Vec<Entry>,
    page: &crate::ids::PageId,
    thread: crate::ids::ThreadId,
) -> impl Iterator<Item = Entry> {
    let mut turns = Vec::new();
    let page = page.clone();
    entries.into_iter().filter(move |entry| {
        let own = entry.thread == Some(thread) && entry.page.as_ref() == Some(&page);
        match entry.kind {
            Kind::Taken if own => {
                turns.extend(entry.turn);
                true
            }
            Kind::KeptBack | Kind::Line | Kind::Sort | Kind::Queued | Kind::Handed | Kind::Refused | Kind::Cost => own,
            Kind::Ended if own => true,
            Kind::Named | Kind::Renewed | Kind::Lapsed | Kind::Resting | Kind::Ending => {
                entry.by == Some(By::Fork) && entry.turn.is_some_and(|turn| turns.contains(&turn))
            }
            Kind::Ended => match entry.turn.and_then(|turn| turns.iter().position(|taken| *taken == turn)) {
                Some(at) => {
                    turns.remove(at);
                    true
                }
                None => false,
            },
            Kind::Taken
            | Kind::Generation
            | Kind::Begun
            | Kind::Agent
            | Kind::Background
            | Kind::Call
            | Kind::Stop
            | Kind::Shown
            | Kind::Told
            | Kind::Continued
            | Kind::Clerk
            | Kind::Printed
            | Kind::Schedule
            | Kind::Checkpoint
            | Kind::Unknown => false,
        }
    })
}
