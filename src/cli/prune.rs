//! `leaf prune`: closes sessions that nobody ended, and clears away what is over and what nobody waits for (W29).

use std::collections::BTreeSet;
use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::{Run, output};
use crate::FORMAT;
use crate::ids::{PageId, SessionId, TurnId};
use crate::page::Page;
use crate::place::Dir;
use crate::schedule::lifecycle::Place;
use crate::schedule::{close, report};
use crate::scratch;
use crate::session::state::State;
use crate::session::{LockedSession, Session, journal};
use crate::text::{count, one_line};

/// A session that ended this long ago, and of which nothing is waited for, goes, milliseconds.
const OLD: i64 = 30 * 24 * 3_600_000;
/// What a session's directory is called while it goes: no session's name.
const GOING: &str = ".gone-";

/// `leaf prune`
#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

/// What was done, or would be.
#[derive(Debug, Default, Serialize)]
struct Pruned {
    format: u32,
    dry_run: bool,
    /// The sessions that were closed.
    closed: Vec<SessionId>,
    /// How many report files were removed that nobody waits for.
    reports: usize,
    /// How many directories of runs that are over.
    scratch: usize,
    /// The sessions that were removed.
    sessions: Vec<SessionId>,
    /// What could not be read or written, a sentence each.
    failed: Vec<String>,
}

/// Runs `leaf prune`. One session that can't be read or written keeps no other from it.
///
/// # Errors
/// Where the state directory can't be read.
pub fn run(run: &Run, args: &PruneArgs) -> Result<()> {
    let mut pruned = Pruned { format: FORMAT, dry_run: args.dry_run, ..Pruned::default() };
    if let Some(home) = run.desk.home()? {
        let held = pages(&home)?;
        for session in Session::all(&home)? {
            let id = session.record.id.clone();
            if let Err(error) = prune(run, &home, session, &held, &mut pruned) {
                pruned.failed.push(format!("session {}: {error:#}", one_line(id.as_str())));
            }
        }
        if !args.dry_run {
            clear_leftovers(&home)?;
        }
    }
    if run.common.json {
        return output::print_json(&pruned);
    }
    output::print(&text(&pruned))
}

/// The pages that are there, each with the session that holds it.
fn pages(home: &Dir) -> Result<Vec<(PageId, Option<SessionId>)>> {
    let mut found = Vec::new();
    for id in Page::all(home)? {
        // One that can't be read may be anyone's: what its story needs stays by its id.
        let session = Page::open(home, &id).ok().flatten().and_then(|page| page.record.session);
        found.push((id, session));
    }
    Ok(found)
}

fn prune(
    run: &Run,
    home: &Dir,
    session: Session,
    pages: &[(PageId, Option<SessionId>)],
    pruned: &mut Pruned,
) -> Result<()> {
    let id = session.record.id.clone();
    let mut closes = false;
    if session.state()?.schedule.is_open() && close::is_abandoned(&run.desk, &session)? {
        closes = true;
        if !pruned.dry_run {
            closes = close::close(&run.desk, home, session, close::PRUNED, Place::Foreign)?;
        }
        if closes {
            pruned.closed.push(id.clone());
        }
    }
    let Some(session) = Session::open(home, &id)? else { return Ok(()) };
    let session = session.lock(run.desk.deadline())?;
    pruned.reports += reports(&session, pruned.dry_run)?;
    pruned.scratch += directories(&session.state, pruned.dry_run);
    let is_old = session.session.record.ended.is_some_and(|ended| run.desk.now().since(ended) >= OLD);
    if is_old && !closes && !is_needed(&session, pages)? {
        pruned.sessions.push(id);
        if !pruned.dry_run {
            remove(home, &session)?;
        }
    }
    Ok(())
}

/// Removes the report files that no run of the session is to have: under its lock none is about to be written for another run.
fn reports(session: &LockedSession, dry_run: bool) -> Result<usize> {
    let runs = &session.state.schedule.runs;
    let needed: BTreeSet<String> = runs
        .iter()
        .filter(|run| run.over.is_none() || run.report.is_some())
        .map(|run| report::file(run.issue.run))
        .collect();
    let Some(dir) = session.session.dir.sub(report::DIRECTORY)? else { return Ok(0) };
    let mut removed = 0;
    for name in dir.names()? {
        let is_report = name.strip_suffix(".json").is_some_and(|stem| stem.parse::<TurnId>().is_ok());
        if is_report && !needed.contains(&name) {
            removed += 1;
            if !dry_run {
                dir.remove(&name)?;
            }
        }
    }
    Ok(removed)
}

/// Removes the scratch directories of turns and runs that are over. Others may be of another state directory.
fn directories(state: &State, dry_run: bool) -> usize {
    let turns = state.forks.iter().filter(|turn| turn.ended.is_some()).map(|turn| turn.id);
    let runs = state.schedule.runs.iter().filter(|run| run.over.is_some()).map(|run| run.issue.run);
    let over: Vec<TurnId> = turns.chain(runs).filter(|turn| scratch::path(*turn).is_dir()).collect();
    if !dry_run {
        over.iter().for_each(|turn| scratch::remove(*turn));
    }
    over.len()
}

/// Whether something of a session is still to come, or a page that is there has its story in the session's journal (`leaf why`).
fn is_needed(session: &LockedSession, pages: &[(PageId, Option<SessionId>)]) -> Result<bool> {
    let record = &session.session.record;
    let runs = &session.state.schedule.runs;
    if runs.iter().any(|run| run.over.is_none() || run.report.is_some())
        || pages.iter().any(|(_, holder)| holder.as_ref() == Some(&record.id))
    {
        return Ok(true);
    }
    let (entries, _) = journal::all(&session.session.dir)?;
    let is_there = |page: &PageId| pages.iter().any(|(id, _)| id == page);
    Ok(entries.iter().filter_map(|entry| entry.page.as_ref()).any(is_there))
}

/// Removes a session's directory: at once under another name, so that a kill leaves no half of a session.
fn remove(home: &Dir, session: &LockedSession) -> Result<()> {
    let Some(sessions) = home.sub("sessions")? else { return Ok(()) };
    let key = session.session.record.id.key();
    let going = format!("{GOING}{}", key.as_str());
    let _ = std::fs::remove_dir_all(sessions.path().join(&going));
    sessions.rename(key.as_str(), &going)?;
    std::fs::remove_dir_all(sessions.path().join(&going))?;
    Ok(())
}

/// Removes what a prune that was killed left.
fn clear_leftovers(home: &Dir) -> Result<()> {
    let Some(sessions) = home.sub("sessions")? else { return Ok(()) };
    for name in sessions.names()?.iter().filter(|name| name.starts_with(GOING)) {
        let _ = std::fs::remove_dir_all(sessions.path().join(name));
    }
    Ok(())
}

fn text(pruned: &Pruned) -> String {
    let mut out = String::new();
    let would = if pruned.dry_run { "would be " } else { "" };
    let named = |ids: &[SessionId]| ids.iter().map(|id| one_line(id.as_str())).collect::<Vec<_>>().join(", ");
    if !pruned.closed.is_empty() {
        let number = count(pruned.closed.len(), "session");
        let _ = writeln!(out, "{number} that nobody ended {would}closed: {}", named(&pruned.closed));
    }
    if pruned.reports > 0 {
        let _ = writeln!(out, "{} that nobody waits for {would}removed", count(pruned.reports, "report file"));
    }
    if pruned.scratch > 0 {
        let number = match pruned.scratch {
            1 => "1 scratch directory".to_owned(),
            n => format!("{n} scratch directories"),
        };
        let _ = writeln!(out, "{number} of runs that are over {would}removed");
    }
    if !pruned.sessions.is_empty() {
        let days = OLD / (24 * 3_600_000);
        let number = count(pruned.sessions.len(), "session");
        let _ = writeln!(out, "{number} that ended over {days} days ago {would}removed: {}", named(&pruned.sessions));
    }
    for line in &pruned.failed {
        let _ = writeln!(out, "{}", one_line(line));
    }
    if out.is_empty() {
        out.push_str("there is nothing to clear away\n");
    }
    out
}
