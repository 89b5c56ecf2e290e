//! `leaf why THREAD`: the thread's story from the journal (R5).

use std::fmt::Write;

use anyhow::Result;
use clap::Args;

use super::{Run, output};
use crate::desk::Prefix;
use crate::page::event::By;
use crate::session::Session;
use crate::session::journal::{self, Entry, Evidence, Kind, Outcome, Sort};
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
    let story = accounted(story);
    if run.common.json {
        return output::print_json(&story);
    }
    let mut out = String::new();
    for entry in &story {
        let rule = entry.rule.as_ref().map_or(String::new(), |rule| format!(" ({rule})"));
        let cost = output::cost_words(entry.cost());
        let cost = if cost.is_empty() { cost } else { format!(" It cost {cost}.") };
        let _ = writeln!(out, "{}  {}{cost}{rule}", entry.ts.brief(), sentence(entry));
    }
    if out.is_empty() {
        out = format!(
            "nobody has taken thread {} yet: it waits for the session's next tool boundary, prompt or Stop\n",
            thread.id
        );
    }
    output::print(&out)
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
            | Kind::Checkpoint
            | Kind::Unknown => false,
        }
    })
}

fn sentence(entry: &Entry) -> String {
    let who = match (entry.by, &entry.name) {
        (Some(By::Fork), Some(name)) => format!("Fork {}", text::one_line(name)),
        (Some(By::Fork), None) => "The fork".to_owned(),
        (Some(By::Main) | None, _) => "The main thread".to_owned(),
    };
    match entry.kind {
        Kind::Taken => {
            let delivery = entry.delivery.map_or(String::new(), |delivery| format!(" by delivery {delivery}"));
            let way = match (entry.way, &entry.why) {
                (Some(way), Some(why)) => format!(" It runs as {}: {}.", way.word(), text::one_line(why)),
                (Some(way), None) => format!(" It runs as {}.", way.word()),
                (None, _) => String::new(),
            };
            format!("{who} got {}{delivery}.{way}", text::count(entry.messages.len(), "message"))
        }
        Kind::KeptBack => "The thread is kept back for the line fork.".to_owned(),
        Kind::Line => match &entry.why {
            Some(why) => format!("The line fork's line failed: {}.", text::one_line(why)),
            None => format!("The line fork said: {}", text::one_line(entry.text.as_deref().unwrap_or_default())),
        },
        Kind::Sort => format!(
            "The message was sorted as {}.",
            match entry.sort {
                Some(Sort::Small) => "small",
                Some(Sort::Significant) => "significant",
                Some(Sort::Now) | None => "for the main thread now",
            }
        ),
        Kind::Queued => "The thread waits for a fork to be free.".to_owned(),
        Kind::Handed => {
            let why = entry.why.as_ref().map_or(String::new(), |why| format!(": {}", text::one_line(why)));
            format!("The thread was handed to the main thread{why}.")
        }
        Kind::Named => {
            let agent = entry.agent.as_ref().map_or(String::new(), |agent| format!(" It is agent {agent}."));
            format!("{who} has its agent.{agent}")
        }
        Kind::Renewed => format!("{who} goes on."),
        Kind::Lapsed => format!("Nothing was heard of {who} for 15 minutes."),
        Kind::Resting => format!("{who} rests while work of its own goes on."),
        Kind::Ending => format!("{who} seems to be over."),
        Kind::Refused => {
            format!("A write was refused: {}.", text::one_line(entry.why.as_deref().unwrap_or_default()))
        }
        Kind::Ended => {
            let why = entry.evidence.map_or("it ended", evidence);
            let outcome = match entry.outcome {
                Some(Outcome::Answer) => " It answered.",
                Some(Outcome::Todo) => " It left a to-do.",
                Some(Outcome::HandBack) => " The thread is the main thread's again.",
                Some(Outcome::TakenOver) => " Another had the thread by then.",
                Some(Outcome::Void) => " There was nothing to judge.",
                None => "",
            };
            format!("{who}'s turn ended: {why}.{outcome}")
        }
        Kind::Generation
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
        | Kind::Cost
        | Kind::Checkpoint
        | Kind::Unknown => String::new(),
    }
}

/// Returns what an end rests on, for a person.
pub fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Stop => "it stopped",
        Evidence::StopFailure => "the model's service failed",
        Evidence::Prompt => "the next prompt came",
        Evidence::Module => "the client said so",
        Evidence::Generation => "the session started anew",
        Evidence::SessionEnd => "the session ended",
        Evidence::Write => "it was opened for one write",
        Evidence::Claim => "the page was claimed",
        Evidence::Client => "its client is gone or doesn't wait for it",
        Evidence::TaskStop => "it was stopped",
        Evidence::Notification => "the client's notification came",
        Evidence::SubagentStop => "its agent stopped",
        Evidence::Missing => "the client no longer lists it",
        Evidence::Unstarted => "its run did not begin within a minute",
        Evidence::Superseded => "nothing was heard of it for 15 minutes, and its thread was taken anew",
        Evidence::Torn => "its pickup was never written",
        Evidence::Failed => "a step of starting it failed",
        Evidence::Process => "its process ended",
        Evidence::Limit => "it took longer than it may, and was stopped",
    }
}
