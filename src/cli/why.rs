//! `leaf why THREAD`: the thread's story from the journal (R5).

use std::fmt::Write;

use anyhow::Result;
use clap::Args;

use super::{Run, output};
use crate::desk::Prefix;
use crate::page::event::By;
use crate::session::Session;
use crate::session::journal::{self, Entry, Kind};
use crate::text;

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
    let page = run.page_of(&speaker, &format!("thread {prefix}"), false, |view, _| {
        view.order.iter().any(|id| prefix.begins((*id).into()))
    })?;
    let view = page.view()?;
    let thread = super::thread::pick_thread(&view, &prefix)?;
    // A page has been several sessions': each took, answered or handed on in its own journal.
    let mut ids: Vec<_> = thread.takes.iter().filter_map(|take| take.actor.session.clone()).collect();
    ids.extend(page.record.session.clone());
    ids.sort();
    ids.dedup();
    let mut story: Vec<Entry> = Vec::new();
    if let Some(home) = run.desk.home()? {
        for id in ids {
            if let Some(session) = Session::open(&home, &id)? {
                story.extend(of_thread(journal::all(&session.dir)?.0, &page.id, thread.id));
            }
        }
    }
    story.sort_by_key(|entry| entry.ts);
    if run.common.json {
        return output::print_json(&story);
    }
    let mut out = String::new();
    for entry in &story {
        let rule = entry.rule.as_ref().map_or(String::new(), |rule| format!(" ({rule})"));
        let _ = writeln!(out, "{}  {}{rule}", entry.ts.brief(), sentence(entry));
    }
    if out.is_empty() {
        out = format!(
            "nobody has taken thread {} yet: it waits for the session's next tool boundary, prompt or Stop\n",
            thread.id
        );
    }
    output::print(&out)
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
            Kind::Handed | Kind::Refused => own,
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
            | Kind::Renewed
            | Kind::Shown
            | Kind::Told
            | Kind::Continued
            | Kind::Clerk
            | Kind::Printed
            | Kind::Checkpoint
            | Kind::Unknown => false,
        }
    })
}

fn sentence(entry: &Entry) -> String {
    let who = match entry.by {
        Some(By::Fork) => "A fork",
        Some(By::Main) | None => "The main thread",
    };
    match entry.kind {
        Kind::Taken => {
            let delivery = entry.delivery.map_or(String::new(), |delivery| format!(" by delivery {delivery}"));
            format!("{who} got {}{delivery}.", text::count(entry.messages.len(), "message"))
        }
        Kind::Handed => "The thread was handed to the main thread.".to_owned(),
        Kind::Refused => {
            format!("A write was refused: {}.", text::one_line(entry.why.as_deref().unwrap_or_default()))
        }
        Kind::Ended => {
            let why = match entry.evidence {
                Some(journal::Evidence::Stop) => "it stopped",
                Some(journal::Evidence::StopFailure) => "the model's service failed",
                Some(journal::Evidence::Prompt) => "the next prompt came",
                Some(journal::Evidence::Generation) => "the session started anew",
                Some(journal::Evidence::SessionEnd) => "the session ended",
                Some(journal::Evidence::Write) => "it was opened for one write",
                Some(journal::Evidence::Claim) => "the page was claimed",
                None => "it ended",
            };
            format!("{who}'s turn ended: {why}.")
        }
        Kind::Generation
        | Kind::Begun
        | Kind::Renewed
        | Kind::Shown
        | Kind::Told
        | Kind::Continued
        | Kind::Clerk
        | Kind::Printed
        | Kind::Checkpoint
        | Kind::Unknown => String::new(),
    }
}
