//! Where a session's schedule meets its files: what is known of it is read, and what is due is selected and stamped in one critical
//! section, under the project's lock (for its tags) and the session's.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::definition::{Fork, Moment};
use super::record::{Change, Issue, Record, Runner};
use super::select::{self, Gauge, Standing, View};
use super::settings::Settings;
use super::{discovery, order};
use crate::client::claude_code::transcript;
use crate::clock::Ts;
use crate::desk::{Desk, project_key};
use crate::errors;
use crate::ids::TurnId;
use crate::place::Dir;
use crate::session::journal::Entry;
use crate::session::lane::{self, Lane};
use crate::session::liveness::Process;
use crate::session::record::SessionRecord;
use crate::session::state::State;
use crate::session::{LockedSession, Session};
use crate::trust;

/// A window is taken for this where nothing says more, tokens.
const WINDOW: u64 = 200_000;
/// What a model of the large kind has, tokens.
const LARGE: u64 = 1_000_000;

/// What files say of a session's schedule: definitions, settings, trust, stamps of its project, the context.
#[derive(Clone, Debug)]
pub struct Known {
    /// The project.
    pub project: PathBuf,
    /// The fork files.
    pub forks: Vec<Fork>,
    /// The names of those that wait for trust.
    pub untrusted: Vec<String>,
    /// The settings, with what the session's environment says of tags.
    pub settings: Settings,
    /// When a fork with this tag was last issued in the project.
    pub tags: BTreeMap<String, Ts>,
    /// How full the context is, where a fork asks.
    pub gauge: Option<Gauge>,
}

impl Known {
    /// Reads what is known for a session. `Ok(None)` where there is no fork: the price of that is a few system calls.
    ///
    /// # Errors
    /// Where the project's record can't be read.
    pub fn read(desk: &Desk, session: &SessionRecord, record: &Record) -> Result<Option<Known>> {
        let dir = Path::new(&session.cwd);
        if discovery::fork_roots(&desk.env, dir).is_empty() {
            return Ok(None);
        }
        let found = discovery::forks(&desk.env, dir);
        if found.list.is_empty() {
            return Ok(None);
        }
        let project = discovery::project_root(&desk.env, dir);
        let shared = trust::of(desk, &project)?;
        let forks = found.settled(|source| trust::trusts(&shared, &project, source)).list;
        let untrusted = forks
            .iter()
            .filter(|fork| !trust::trusts(&shared, &project, &fork.source))
            .map(|fork| fork.name.clone())
            .collect();
        let (mut settings, _) = desk.schedule(dir);
        if record.tags.enable.is_some() {
            settings.enable_tags.clone_from(&record.tags.enable);
        }
        if record.tags.disable.is_some() {
            settings.disable_tags.clone_from(&record.tags.disable);
        }
        let asks = forks.iter().any(|fork| fork.run_on.iter().any(select::is_context));
        let gauge = if asks { gauge(session, record) } else { None };
        Ok(Some(Known { project, forks, untrusted, settings, tags: shared.tags, gauge }))
    }

    /// Returns what selection looks at.
    pub fn view<'v>(&'v self, state: &'v State, close: bool, now: Ts) -> View<'v> {
        View {
            record: &state.schedule,
            forks: &self.forks,
            untrusted: &self.untrusted,
            settings: &self.settings,
            tags: &self.tags,
            gauge: self.gauge,
            idle: state.open_turn(now).is_none(),
            close,
            now,
        }
    }

    /// Returns what `changed` moments of forks that may run match.
    pub fn patterns(&self) -> Vec<String> {
        let may_run = |fork: &&Fork| fork.stopped.is_none() && !self.untrusted.contains(&fork.name);
        let moments = self.forks.iter().filter(may_run).flat_map(|fork| &fork.run_on);
        moments
            .filter_map(|moment| match moment {
                Moment::Changed(pattern) => Some(pattern.clone()),
                _ => None,
            })
            .collect()
    }

    /// Takes the project's lock where tags' stamps count, before the session's, and reads them as they then are.
    ///
    /// # Errors
    /// Where the lock isn't had, or they can't be read.
    pub fn lock_tags(&mut self, desk: &Desk, home: &Dir) -> Result<Option<File>> {
        if !self.shares_tags() {
            return Ok(None);
        }
        let lock = desk.lock_project(home, &self.project)?;
        self.tags = trust::of(desk, &self.project)?.tags;
        Ok(Some(lock))
    }

    /// Whether a tag of a fork has a throttle: then the project's stamps count, and are kept.
    fn shares_tags(&self) -> bool {
        self.forks.iter().flat_map(|fork| &fork.tags).any(|tag| self.settings.tag_throttles.contains_key(tag))
    }
}

/// Returns how full a session's context is. The window is not told to hooks: a model of the large kind is known by its name, and one
/// whose context is larger than that proves it wrong.
fn gauge(session: &SessionRecord, record: &Record) -> Option<Gauge> {
    let (tokens, model) = transcript::context(Path::new(session.transcript.as_deref()?))?;
    let model = record.model.as_deref().or(model.as_deref()).unwrap_or_default();
    let large = ["[1m]", "fable", "mythos"].iter().any(|word| model.contains(word));
    let window = if large { LARGE } else { WINDOW };
    Some(Gauge { tokens, window: if tokens > window { tokens.max(LARGE) } else { window } })
}

/// Selects what is due in a session's pause and stamps it, in one critical section; what is issued is the caller's to start. A batch that
/// another process issued meanwhile is seen under the lock, and not issued again.
///
/// # Errors
/// Where a lock or a write fails; nothing is stamped then.
pub fn in_pause(desk: &Desk, home: &Dir, session: &Session, known: &mut Known) -> Result<Vec<Issue>> {
    let _shared = known.lock_tags(desk, home)?;
    let mut locked = Session::open(home, &session.record.id)?.context("the session is gone")?.lock(desk.deadline())?;
    if locked.state.schedule.closed.is_some() || locked.session.record.ended.is_some() {
        return Ok(Vec::new());
    }
    stamp(desk, home, &mut locked, known)
}

/// What a closing session's pause did not run.
#[derive(Debug)]
pub struct Flush {
    /// The batch.
    pub runs: Vec<Issue>,
    /// What stamps it. It is written in one append with what closes the session: a close without it would be one for good.
    pub entries: Vec<Entry>,
}

/// Selects what a closing session's pause did not run, under the session's lock that the caller has. `closing`: what closes it.
/// `Ok(None)`: there is nothing.
///
/// # Errors
/// Where the system gives no random bytes.
pub fn at_close(locked: &LockedSession, known: &Known, closing: &[Entry], now: Ts) -> Result<Option<Flush>> {
    let mut state = locked.state.clone();
    let mut entries: Vec<Entry> = clock(&state.schedule, now).into_iter().collect();
    entries.iter().chain(closing).for_each(|entry| state.apply(entry));
    let view = known.view(&state, true, now);
    let standings = select::select(&view);
    let due = select::due(&view, &standings);
    if due.is_empty() {
        return Ok(None);
    }
    let runs = batch(known, &due, |_| Runner::Headless)?;
    let issued = Change::Issued { runs: runs.clone(), owner: Process::own(), flush: true };
    entries.push(Entry::schedule(now, issued));
    Ok(Some(Flush { runs, entries }))
}

fn stamp(desk: &Desk, home: &Dir, locked: &mut LockedSession, known: &Known) -> Result<Vec<Issue>> {
    let now = desk.now();
    if let Some(entry) = clock(&locked.state.schedule, now) {
        locked.append(&[entry])?;
    }
    let view = known.view(&locked.state, false, now);
    let standings = select::select(&view);
    let due = select::due(&view, &standings);
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let follower = lane::holder(&locked.session, Lane::Follower).is_some();
    let runs = batch(known, &due, |fork| runner(&known.settings, fork, follower))?;
    let issued = Change::Issued { runs: runs.clone(), owner: Process::own(), flush: false };
    locked.append(&[Entry::schedule(now, issued)])?;
    // What is issued runs, whatever becomes of that.
    if let Err(error) = stamp_tags(home, known, &runs, now) {
        errors::note(&format!("schedule: tags: {error:#}"));
    }
    Ok(runs)
}

/// Stamps the tags of what was issued in the project's record, of which the caller has the lock. It comes behind the session's own
/// stamp: where this one is killed, nothing ran that a tag's throttle was to space.
///
/// # Errors
/// Where the record can't be read or written.
pub fn stamp_tags(home: &Dir, known: &Known, runs: &[Issue], now: Ts) -> Result<()> {
    let tags = |run: &Issue| known.forks.iter().find(|fork| fork.name == run.fork).map(|fork| fork.tags.clone());
    let tags = runs.iter().filter_map(tags).flatten();
    let throttled: Vec<String> = tags.filter(|tag| known.settings.tag_throttles.contains_key(tag)).collect();
    if throttled.is_empty() {
        return Ok(());
    }
    let projects = home.make("projects")?;
    let mut record = trust::record(Some(&projects), &known.project)?;
    record.format = crate::FORMAT;
    record.directory = known.project.to_string_lossy().into_owned();
    record.tags.extend(throttled.into_iter().map(|tag| (tag, now)));
    projects.replace(&format!("{}.json", project_key(&known.project)), &serde_json::to_vec(&record)?, false)?;
    Ok(())
}

/// Makes the batch of what is due, in its order.
fn batch(known: &Known, due: &[&Standing], runner: impl Fn(&Fork) -> Runner) -> Result<Vec<Issue>> {
    let mut batch: Vec<(&Fork, &str)> = Vec::new();
    for standing in due {
        if let Some(fork) = known.forks.iter().find(|fork| fork.name == standing.fork) {
            batch.push((fork, standing.moment.as_deref().unwrap_or_default()));
        }
    }
    let forks: Vec<&Fork> = batch.iter().map(|(fork, _)| *fork).collect();
    let ids = forks.iter().map(|_| TurnId::new()).collect::<Result<Vec<_>, _>>()?;
    let of = |places: &[usize]| places.iter().map(|at| ids[*at]).collect();
    Ok(order::order(&forks)
        .iter()
        .map(|place| {
            let (fork, label) = batch[place.index];
            Issue {
                run: ids[place.index],
                fork: fork.name.clone(),
                path: fork.source.path.to_string_lossy().into_owned(),
                label: label.to_owned(),
                waits_for: of(&place.waits_for),
                reports_of: of(&place.reports_of),
                gate: fork.gate,
                chain: fork.chain,
                runner: runner(fork),
            }
        })
        .collect())
}

/// Returns how a fork runs: what names a model, a mode or a guard of its own needs a process of its own, and the session's own ways need
/// the hooks module, or a model that is asked.
fn runner(settings: &Settings, fork: &Fork, follower: bool) -> Runner {
    let own = !fork.models.0.is_empty() || !fork.modes.0.is_empty() || fork.guard.is_some();
    match settings.fork_runner {
        Runner::Headless => Runner::Headless,
        _ if own => Runner::Headless,
        Runner::Module if follower => Runner::Module,
        Runner::Module => Runner::Headless,
        Runner::Subagent => Runner::Subagent,
    }
}

/// Stamps of a time that is yet to come are of a clock that went back: from now on they are of now.
fn clock(record: &Record, now: Ts) -> Option<Entry> {
    record.is_ahead_of(now.plus(1_000)).then(|| Entry::schedule(now, Change::Clock { now }))
}
