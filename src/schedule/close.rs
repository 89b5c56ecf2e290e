//! A session's close: once for each time that it was open, whichever way it ends. What its pause did not run runs then, where the
//! configuration says so, and its lifecycle hooks hear of it.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::Result;

use super::issue::{self, Known};
use super::lifecycle::{self, Place};
use super::record::{Change, Happening};
use super::select::millis;
use super::{discovery, run};
use crate::clock::Ts;
use crate::desk::Desk;
use crate::errors;
use crate::ids::{SessionId, SessionKey, TurnId};
use crate::lock::Deadline;
use crate::place::Dir;
use crate::session::journal::{self, Entry};
use crate::session::lane::{self, Lane};
use crate::session::liveness::{Life, Process};
use crate::session::record::SessionRecord;
use crate::session::state::State;
use crate::session::{LockedSession, Session};

/// Its client is dead, and nobody said that it ended.
pub const GONE: &str = "gone";
/// Nothing was heard of it for too long, and no process of its is known.
pub const TIMEOUT: &str = "timeout";
/// `leaf prune` closed it.
pub const PRUNED: &str = "pruned";

/// A session whose client died longer ago than this runs nothing any more, milliseconds.
const RECENT: i64 = 10 * 60_000;
/// How long a close waits until a runner has its runs in hand: a client that ends gives all its hooks 1.5 s.
const WORD: Duration = Duration::from_millis(60);
/// After this long nobody tells hooks of a close any more, milliseconds.
const OWED: i64 = 24 * 3_600_000;
/// How many sessions a sweep looks at.
const MOST: usize = 50;
/// A session's lock that somebody holds is not waited for in a sweep.
const BRIEF: Duration = Duration::from_millis(200);

/// Closes a session. Returns whether it was open; of several that see its end one is told so.
///
/// # Errors
/// Where a lock or a write fails; it is open still, then.
pub fn close(desk: &Desk, home: &Dir, session: Session, reason: &str, place: Place) -> Result<bool> {
    close_where(desk, home, session, reason, place, |_| true, |_| Vec::new())
}

/// Closes a session whose client is dead, where that is so.
///
/// # Errors
/// As [`close`].
pub fn gone(desk: &Desk, home: &Dir, session: Session, place: Place) -> Result<bool> {
    close_where(desk, home, session, GONE, place, |locked| is_dead(&locked.session.record), |_| Vec::new())
}

/// Closes a session where `still` says yes under its lock. `more` is written in the same transaction, also of a session that was
/// closed before.
///
/// # Errors
/// As [`close`].
pub fn close_where(
    desk: &Desk,
    home: &Dir,
    session: Session,
    reason: &str,
    place: Place,
    still: impl Fn(&LockedSession) -> bool,
    more: impl Fn(&State) -> Vec<Entry>,
) -> Result<bool> {
    // What files say is read before the lock is taken, the project's lock before the session's.
    let mut known = known(desk, &session, reason);
    let _shared = known.as_mut().map(|known| known.lock_tags(desk, home)).transpose()?;
    let mut locked = session.lock(desk.deadline())?;
    if !still(&locked) {
        return Ok(false);
    }
    let now = desk.now();
    let active = locked.state.active;
    let is_open = locked.state.schedule.is_open();
    let mut entries = more(&locked.state);
    if is_open {
        let cwd = &locked.session.record.cwd;
        entries.push(Entry::schedule(now, Change::Closed { reason: reason.to_owned() }));
        entries.extend(lifecycle::entry(&desk.env, cwd, Happening::SessionEnd { reason: reason.to_owned() }, now));
    }
    let flush = known.as_ref().filter(|_| is_open && may_flush(reason, active, now));
    let flush = flush.and_then(|known| {
        let selected = issue::at_close(&locked, known, &entries, now);
        selected.unwrap_or_else(|error| {
            errors::note(&format!("close: what its pause did not run can't be run: {error:#}"));
            None
        })
    });
    entries.extend(flush.iter().flat_map(|flush| flush.entries.iter().cloned()));
    locked.append(&entries)?;
    if let (Some(flush), Some(known)) = (&flush, &known)
        && let Err(error) = issue::stamp_tags(home, known, &flush.runs, now)
    {
        errors::note(&format!("close: {error:#}"));
    }
    let runs: Vec<TurnId> = flush.into_iter().flat_map(|flush| flush.runs).map(|issue| issue.run).collect();
    let owes = !locked.state.schedule.happened.is_empty();
    let before = locked.session.record.clone();
    let record = SessionRecord { ended: before.ended.or(Some(now)), owes, ..before };
    locked.replace_record(record.clone())?;
    // What is started wants the lock.
    drop(locked);
    if !runs.is_empty()
        && let Err(error) = run::start_within(&record, &runs, WORD)
    {
        errors::note(&format!("close: the runner can't be started: {error:#}"));
    }
    if owes {
        lifecycle::start(&record, place);
    }
    Ok(is_open)
}

/// Whether what a pause did not run may run at this close.
fn may_flush(reason: &str, active: Ts, now: Ts) -> bool {
    match reason {
        TIMEOUT | PRUNED => false,
        GONE => now.since(active) < RECENT,
        _ => true,
    }
}

/// Reads what files say of a session's forks, where its close may run what its pause did not: it is off but for who asks for it.
fn known(desk: &Desk, session: &Session, reason: &str) -> Option<Known> {
    if matches!(reason, TIMEOUT | PRUNED) || discovery::fork_roots(&desk.env, Path::new(&session.record.cwd)).is_empty()
    {
        return None;
    }
    let (settings, _) = desk.schedule(Path::new(&session.record.cwd));
    if !settings.flush_on_close {
        return None;
    }
    let read = session.state().and_then(|state| Known::read(desk, &session.record, &state.schedule));
    read.unwrap_or_else(|error| {
        errors::note(&format!("close: what its pause did not run can't be told: {error:#}"));
        None
    })
}

fn is_dead(record: &SessionRecord) -> bool {
    record.process.as_ref().is_some_and(|process| process.life() == Life::Dead)
}

/// Returns why a session that nobody ended is to be closed, where it is.
///
/// # Errors
/// Where its state can't be read.
pub fn is_stale(desk: &Desk, session: &Session) -> Result<Option<&'static str>> {
    let record = &session.record;
    match record.process.as_ref().map(Process::life) {
        Some(Life::Dead) => return Ok(Some(GONE)),
        Some(Life::Alive) => return Ok(None),
        Some(Life::Unknown) | None => {}
    }
    let (settings, _) = desk.schedule(Path::new(&record.cwd));
    if settings.session_timeout == 0 {
        return Ok(None);
    }
    let active = session.state()?.active.max(record.started);
    Ok((desk.now().since(active) >= millis(settings.session_timeout)).then_some(TIMEOUT))
}

/// Whether an open session looks as if nobody would come back to it: its client is dead; or none is known, no watch is parked, and
/// nothing was heard of it for twice the time after which a session is idle.
///
/// # Errors
/// Where its state can't be read.
pub fn is_abandoned(desk: &Desk, session: &Session) -> Result<bool> {
    let record = &session.record;
    match record.process.as_ref().map(Process::life) {
        Some(Life::Dead) => return Ok(true),
        Some(Life::Alive) => return Ok(false),
        Some(Life::Unknown) | None => {}
    }
    let (settings, _) = desk.schedule(Path::new(&record.cwd));
    let patience = millis(settings.default_idle_deadline).saturating_mul(2);
    let active = session.state()?.active.max(record.started);
    Ok(patience > 0 && desk.now().since(active) > patience && lane::holder(session, Lane::Watch).is_none())
}

/// Returns the sessions whose journals were written last, the newest first, but for one.
fn newest(home: &Dir, but: Option<&SessionId>) -> Result<Vec<SessionKey>> {
    let Some(sessions) = home.sub("sessions")? else { return Ok(Vec::new()) };
    let but = but.map(SessionId::key);
    let mut found: Vec<(SystemTime, SessionKey)> = sessions
        .names()?
        .iter()
        .filter_map(|name| SessionKey::from_name(name))
        .filter(|key| Some(key) != but.as_ref())
        .filter_map(|key| {
            let journal = sessions.path().join(key.as_str()).join(journal::NAME);
            Some((std::fs::symlink_metadata(journal).ok()?.modified().ok()?, key))
        })
        .collect();
    found.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
    found.truncate(MOST);
    Ok(found.into_iter().map(|(_, key)| key).collect())
}

/// Whether a session's record says that there may be something to do for it: nobody ended it and its client is not known to live, or
/// its hooks may not have heard of its end.
fn is_candidate(record: &SessionRecord, now: Ts) -> bool {
    match record.ended {
        None => record.process.as_ref().is_none_or(|process| process.life() != Life::Alive),
        Some(ended) => record.owes && (0..OWED).contains(&(now.since(ended))),
    }
}

/// Returns those of the newest sessions for which a sweep may have something to do. It reads their records alone.
///
/// # Errors
/// Where the directory can't be read.
pub fn candidates(desk: &Desk, home: &Dir, but: Option<&SessionId>) -> Result<Vec<Session>> {
    let now = desk.now();
    let is_one = |key: &&SessionKey| SessionRecord::read(home, key).is_some_and(|record| is_candidate(&record, now));
    let open = |key: &SessionKey| Session::open_key(home, key).ok().flatten();
    Ok(newest(home, but)?.iter().filter(is_one).filter_map(open).collect())
}

/// Closes the sessions whose clients died with nobody to see it, and of which nothing was heard for too long; and tells the hooks of
/// those that closed lately and whose own process did not come to it.
///
/// # Errors
/// Where the directory can't be read.
pub fn sweep(desk: &Desk, home: &Dir, but: Option<&SessionId>) -> Result<()> {
    for session in candidates(desk, home, but)? {
        let id = session.record.id.clone();
        if let Err(error) = sweep_one(desk, home, session) {
            errors::note(&format!("sweep: session {id}: {error:#}"));
        }
    }
    Ok(())
}

fn sweep_one(desk: &Desk, home: &Dir, session: Session) -> Result<()> {
    let record = session.record.clone();
    if record.ended.is_some() {
        if !session.state()?.schedule.happened.is_empty() {
            lifecycle::start(&record, Place::Foreign);
        } else if session.is_free(Deadline::after(BRIEF))? {
            let mut locked = session.lock(desk.deadline())?;
            let record = SessionRecord { owes: false, ..locked.session.record.clone() };
            locked.replace_record(record)?;
        }
        return Ok(());
    }
    let Some(reason) = is_stale(desk, &session)? else { return Ok(()) };
    // Somebody who holds its lock does something for it.
    if !session.is_free(Deadline::after(BRIEF))? {
        return Ok(());
    }
    let still = |locked: &LockedSession| {
        locked.session.record.ended.is_none() && (reason != GONE || is_dead(&locked.session.record))
    };
    close_where(desk, home, session, reason, Place::Foreign, still, |_| Vec::new())?;
    Ok(())
}
