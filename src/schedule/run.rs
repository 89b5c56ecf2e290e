//! Headless runs of scheduled forks: one process for a batch, which is nobody's child. What it does stands in the session's journal,
//! so that whoever finds it dead ends its runs; a report's file is written before its run is over, and goes once it was printed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::definition::{Client, Fork};
use super::lookup;
use super::prompt::{self, Brief};
use super::record::{Change, Limits, MANUAL, Record, Run, RunOutcome, Runner};
use super::report::{self, Report};
use super::rights;
use super::settings::Settings;
use crate::client::claude_code::print::{self, Output, Scheduled};
use crate::clock::Ts;
use crate::desk::Desk;
use crate::errors;
use crate::headless::{self, Gated};
use crate::ids::{SessionId, TurnId, sha256_hex};
use crate::place::{Dir, Env, open_plain};
use crate::scratch;
use crate::session::journal::{Cost, Entry};
use crate::session::liveness::{Life, Process};
use crate::session::record::SessionRecord;
use crate::session::{LockedSession, Session};
use crate::text;

/// The files of an attempt in its run's scratch directory.
const OUTPUT: &str = "output.json";
const ERRORS: &str = "errors.txt";
const PROMPT: &str = "prompt.txt";
/// What an attempt's output may be at most, bytes.
const LONGEST: u64 = 8 << 20;
/// The permission mode where nobody says another.
const MODE: &str = "acceptEdits";
/// How long whoever starts a runner waits for its word.
const WORD: Duration = Duration::from_secs(2);
/// How long a client that is asked to leave may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a runner looks whether another's run, or a gate, lets one of its own go.
const LOOK: Duration = Duration::from_millis(500);
/// After so many looks in vain a runner leaves.
const MISSES: u32 = 20;
/// The client sometimes finds a conversation only a moment later: how long to wait before each further try.
const TRIES: [u64; 3] = [100, 400, 1500];

/// Starts the process that carries out a batch, and waits until it has the runs in hand; one that says nothing for 2 s goes on all
/// the same. It keeps nothing of the caller's, and outlives it.
///
/// # Errors
/// Where it can't be started.
pub fn start(record: &SessionRecord, runs: &[TurnId]) -> Result<()> {
    start_within(record, runs, WORD)
}

/// As [`start`], with another time to wait for its word: a client that is about to end gives little.
///
/// # Errors
/// As [`start`].
pub fn start_within(record: &SessionRecord, runs: &[TurnId], at_most: Duration) -> Result<()> {
    let mut child = headless::detached()?
        .arg("runner")
        .arg(format!("--session={}", record.id))
        .args(runs.iter().map(ToString::to_string))
        .stdout(Stdio::piped())
        .spawn()
        .context("the runner can't be started")?;
    if let Some(mut out) = child.stdout.take() {
        let word =
            Timespec { tv_sec: at_most.as_secs().try_into().unwrap_or(1), tv_nsec: at_most.subsec_nanos().into() };
        let heard = poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&word));
        // Its word, or its end without one.
        if heard.is_ok_and(|ready| ready > 0) && out.read(&mut [0; 16]).is_ok_and(|read| read == 0) {
            anyhow::bail!("the runner ended before it had its runs in hand");
        }
    }
    headless::adopt(child);
    Ok(())
}

/// What comes of a batch, and where it is told.
pub trait Audience {
    /// Whether main is to get the reports with its next prompt.
    fn delivers(&self) -> bool;
    /// The runs that wait for nobody are in hand.
    fn begun(&mut self);
    /// A run is over.
    fn over(&mut self, report: &Report);
}

/// Carries out a batch: it returns once none of its runs is left to do.
///
/// # Errors
/// Where the session can't be read or written.
pub fn batch(desk: &Desk, session: &SessionId, runs: &[TurnId], audience: &mut dyn Audience) -> Result<()> {
    let (sender, receiver) = channel();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).context("signals can't be heard")?;
    let asked = sender.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if asked.send(Said::Leave).is_err() {
                return;
            }
        }
    });
    let hand = Hand {
        desk: desk.clone(),
        session: session.clone(),
        own: Process::own(),
        delivers: audience.delivers(),
        leave: Arc::default(),
        reports: Arc::default(),
    };
    let mut work =
        Work { hand, mine: runs.to_vec(), ready: VecDeque::new(), running: BTreeSet::new(), sender, receiver };
    work.go(audience)
}

/// What a runner's threads tell it.
enum Said {
    /// A run is over, with its report where it has one.
    Over(TurnId, Option<Box<Report>>),
    /// It is to leave.
    Leave,
}

/// What a run's thread needs.
#[derive(Clone)]
struct Hand {
    desk: Desk,
    session: SessionId,
    own: Process,
    delivers: bool,
    leave: Arc<(Mutex<bool>, Condvar)>,
    /// The reports of this batch: main may have got one, and its file be gone, before another run is to have it.
    reports: Arc<Mutex<BTreeMap<TurnId, (String, String)>>>,
}

struct Work {
    hand: Hand,
    mine: Vec<TurnId>,
    ready: VecDeque<Run>,
    running: BTreeSet<TurnId>,
    sender: Sender<Said>,
    receiver: Receiver<Said>,
}

impl Work {
    fn go(&mut self, audience: &mut dyn Audience) -> Result<()> {
        let session = self.hand.open()?;
        let most = lookup::settings(&self.hand.desk, &session.record).max_parallel.max(1);
        drop(session);
        let mut held = self.look()?;
        audience.begun();
        let mut misses = 0;
        loop {
            let flush = self.ready.front().is_some_and(|run| run.flush);
            while self.running.len() < if flush { 1 } else { most } {
                let Some(run) = self.ready.pop_front() else { break };
                self.begin(run);
            }
            if self.running.is_empty() && held.is_empty() {
                return Ok(());
            }
            // What waits for a run of this process is heard of; what waits for another's is looked for.
            let heard_of = held.iter().all(|run| run.issue.waits_for.iter().any(|id| self.running.contains(id)));
            let said = match heard_of {
                true => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => self.receiver.recv_timeout(LOOK),
            };
            match said {
                Ok(Said::Over(run, report)) => {
                    self.running.remove(&run);
                    if let Some(report) = report {
                        audience.over(&report);
                    }
                }
                Ok(Said::Leave) => return self.leave(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            // What runs goes on, though the journal can't be read or written for a while.
            match self.look() {
                Ok(waits) => (held, misses) = (waits, 0),
                Err(error) if misses < MISSES => {
                    errors::note(&format!("runner: {error:#}"));
                    misses += 1;
                    std::thread::sleep(LOOK);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the runs in hand that wait for nobody any more. Returns those that still wait.
    fn look(&mut self) -> Result<Vec<Run>> {
        let hand = &self.hand;
        let mut session = hand.lock()?;
        let now = hand.desk.now();
        harvest_but(&mut session, now, &self.mine)?;
        let (mut entries, mut held) = (Vec::new(), Vec::new());
        let record = &session.state.schedule;
        let taken = |run: TurnId| self.running.contains(&run) || self.ready.iter().any(|ready| ready.issue.run == run);
        let mut free = Vec::new();
        for run in self.mine.iter().filter_map(|id| record.run(*id)).filter(|run| run.over.is_none()) {
            if taken(run.issue.run) {
                continue;
            }
            if run.is_held() && !record.is_free(run) {
                held.push(run.clone());
                continue;
            }
            // Another runner has it.
            if run.process.as_ref().is_some_and(|process| *process != hand.own && process.life() != Life::Dead) {
                continue;
            }
            let begun = Change::Begun { run: run.issue.run, process: Some(hand.own.clone()), agent: None };
            entries.push(Entry::schedule(now, begun));
            free.push(run.clone());
        }
        session.append(&entries)?;
        self.ready.extend(free);
        let place = |run: &Run| self.mine.iter().position(|id| *id == run.issue.run);
        self.ready.make_contiguous().sort_by_key(place);
        Ok(held)
    }

    fn begin(&mut self, run: Run) {
        self.running.insert(run.issue.run);
        let (hand, sender) = (self.hand.clone(), self.sender.clone());
        std::thread::spawn(move || {
            let id = run.issue.run;
            let report = hand.carry(&run).unwrap_or_else(|error| {
                errors::note(&format!("runner: run {id} of fork {}: {error:#}", run.issue.fork));
                hand.give_up(&run, &format!("{error:#}"));
                None
            });
            scratch::remove(id);
            let _ = sender.send(Said::Over(id, report.map(Box::new)));
        });
    }

    /// Ends all runs of the batch as stopped, and the clients that are at them.
    fn leave(&self) -> Result<()> {
        let hand = &self.hand;
        hand.set_leave();
        let mut session = hand.lock()?;
        let record = &session.state.schedule;
        let open: Vec<Run> =
            self.mine.iter().filter_map(|id| record.run(*id)).filter(|run| run.over.is_none()).cloned().collect();
        let now = hand.desk.now();
        let entries: Vec<Entry> = open
            .iter()
            .map(|run| ended(now, run, RunOutcome::Stopped, Some("its runner was asked to leave".to_owned())))
            .collect();
        session.append(&entries)?;
        drop(session);
        let attempts: Vec<Process> = open.into_iter().filter_map(|run| run.attempt).collect();
        attempts.iter().for_each(headless::ask_to_leave);
        let until = Instant::now() + PATIENCE;
        let mut left = self.running.clone();
        while !left.is_empty() {
            match self.receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Said::Over(run, _)) => drop(left.remove(&run)),
                Ok(Said::Leave) => {}
                Err(_) => break,
            }
        }
        attempts.iter().for_each(headless::kill);
        Ok(())
    }
}

impl Hand {
    fn open(&self) -> Result<Session> {
        let home = self.desk.home()?.context("there is no state directory")?;
        Session::open(&home, &self.session)?.context("the session is gone")
    }

    fn lock(&self) -> Result<LockedSession> {
        self.open()?.lock(self.desk.deadline())
    }

    fn set_leave(&self) {
        let (leave, heard) = &*self.leave;
        *leave.lock().unwrap_or_else(PoisonError::into_inner) = true;
        heard.notify_all();
    }

    /// Waits, but for a runner that is to leave. Returns whether it is.
    fn leaves_within(&self, wait: Duration) -> bool {
        let (leave, heard) = &*self.leave;
        let leave = leave.lock().unwrap_or_else(PoisonError::into_inner);
        heard.wait_timeout_while(leave, wait, |leave| !*leave).map_or(true, |(leave, _)| *leave)
    }

    /// Carries out one run. `Ok(None)` where somebody else ended it.
    fn carry(&self, run: &Run) -> Result<Option<Report>> {
        let session = self.open()?;
        let record = session.record.clone();
        let settings = lookup::settings(&self.desk, &record);
        // Its file counts as it is now.
        let fork = match lookup::definition_of(&self.desk, &record, run) {
            Ok(fork) => fork,
            Err(error) => {
                let failed = Output { text: format!("{error:#}"), failed: true, ..Output::default() };
                return self.finish(run, Limits { hourly: 0, chain: 0 }, None, failed);
            }
        };
        let limits = Limits { hourly: settings.runaway_limit, chain: fork.chain_limit.unwrap_or(settings.chain_limit) };
        let state = session.state()?;
        let prompt = self.prompt(run, &fork, &session, state.schedule.epoch)?;
        let models = candidates(&fork, &settings, state.schedule.model.as_deref());
        let mode = mode(&fork, &settings, state.schedule.model.as_deref());
        let mut last = (None, Output { failed: true, ..Output::default() });
        for (at, model) in models.iter().enumerate() {
            let args = Scheduled {
                conversation: conversation(&record),
                model: model.clone(),
                mode: mode.clone(),
                hooks: twin(&self.desk.env, "FORK_HOOKS").is_some(),
                limits: fork.guard.as_ref().map_or_else(rights::unguarded, rights::args),
            };
            let Some(output) = self.tries(run, &record, &args, &prompt, cap(&self.desk.env, &settings))? else {
                return Ok(None);
            };
            let failed = output.failed;
            if failed && at + 1 < models.len() {
                let model = model.as_deref().unwrap_or("the session's model");
                let why = text::first_words(&output.text, 200);
                errors::note(&format!(
                    "runner: fork {} failed on {model} ({why}); the next model is tried",
                    run.issue.fork
                ));
            }
            last = (model.clone(), output);
            if !failed {
                break;
            }
        }
        let (model, output) = last;
        self.finish(run, limits, model, output)
    }

    fn prompt(&self, run: &Run, fork: &Fork, session: &Session, epoch: u64) -> Result<String> {
        let known = |id: TurnId| self.reports.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        told(&self.desk, session, run, fork, epoch, known)
    }

    /// One model's attempt, repeated where the client doesn't find the conversation yet (W22).
    fn tries(
        &self,
        run: &Run,
        record: &SessionRecord,
        args: &Scheduled,
        prompt: &str,
        cap: Duration,
    ) -> Result<Option<Output>> {
        let mut waits = TRIES.into_iter();
        loop {
            let Some(output) = self.attempt(run, record, args, prompt, cap)? else { return Ok(None) };
            if !output.failed || !output.text.contains("No conversation found") {
                return Ok(Some(output));
            }
            let Some(wait) = waits.next() else { return Ok(Some(output)) };
            if self.leaves_within(Duration::from_millis(wait)) {
                return Ok(None);
            }
        }
    }

    /// Starts the client once and waits for it, as long as it may take. `Ok(None)` where the run is over by somebody's word.
    fn attempt(
        &self,
        run: &Run,
        record: &SessionRecord,
        args: &Scheduled,
        prompt: &str,
        cap: Duration,
    ) -> Result<Option<Output>> {
        let failed = |text: String| Ok(Some(Output { text, failed: true, ..Output::default() }));
        let Some(program) = program(&self.desk.env) else { return failed("there is no `claude` on PATH".to_owned()) };
        let directory = scratch::make(run.issue.run)?;
        let (input, output, errors) = (directory.join(PROMPT), directory.join(OUTPUT), directory.join(ERRORS));
        std::fs::write(&input, prompt)?;
        let mut command = match headless::command(&self.desk.env, &program, record, &input, &args.args()) {
            Ok(command) => command,
            Err(error) => return failed(error.to_string()),
        };
        command.stdout(File::create(&output)?).stderr(File::create(&errors)?);
        for (name, value) in environment(run, record) {
            command.env(name, value);
        }
        let gated = match Gated::start(command) {
            Ok(gated) => gated,
            Err(error) => {
                return failed(format!(
                    "its client can't be started in {}: {}",
                    record.cwd,
                    crate::place::plain(&error)
                ));
            }
        };
        let process = Process::of(i32::try_from(gated.child.id()).unwrap_or(0));
        let mut session = self.lock()?;
        let over = session.state.schedule.run(run.issue.run).is_none_or(|run| run.over.is_some());
        if over || self.leaves_within(Duration::ZERO) {
            headless::kill(&process);
            headless::adopt(gated.child);
            return Ok(None);
        }
        let began = Change::Attempt { run: run.issue.run, process: process.clone() };
        session.append(&[Entry::schedule(self.desk.now(), began)])?;
        drop(session);
        let mut child = gated.go();
        let (tell, told) = channel();
        // Whatever else holds its output open by then is no matter: that is a file, and nobody waits for its end.
        std::thread::spawn(move || tell.send(child.wait().is_ok_and(|status| status.success())));
        let success = match told.recv_timeout(cap) {
            Ok(success) => success,
            Err(_) => {
                headless::kill(&process);
                let _ = told.recv_timeout(PATIENCE);
                return failed(format!("it took longer than {} s, and was stopped", cap.as_secs()));
            }
        };
        Ok(Some(left(&output, &errors, success)))
    }

    /// Ends a run: its report first, so that a kill between the two loses none.
    fn finish(&self, run: &Run, limits: Limits, model: Option<String>, output: Output) -> Result<Option<Report>> {
        let outcome = if output.failed { RunOutcome::Failed } else { RunOutcome::Completed };
        let (text, asks) = if output.failed { (output.text, false) } else { report::take_sentinel(&output.text) };
        let report = Report {
            format: crate::FORMAT,
            run: run.issue.run,
            fork: run.issue.fork.clone(),
            label: run.issue.label.clone(),
            ts: self.desk.now(),
            outcome,
            text,
            asks,
            feed: false,
            limits,
            model,
            cost: output.cost,
        };
        let session = self.open()?;
        if self.delivers {
            report::write(&session.dir, &report)?;
        }
        let mut locked = session.lock(self.desk.deadline())?;
        let record = &locked.state.schedule;
        let Some(known) = record.run(run.issue.run).filter(|run| run.over.is_none()) else {
            report::clear(&locked.session.dir, |id| id != run.issue.run);
            return Ok(None);
        };
        let known = known.clone();
        let over = over(record, &known, &report, self.delivers, self.desk.now());
        let again = matches!(&over, Change::Over { again: true, .. });
        if known.issue.chain {
            Last::write(&locked.session.dir, &known, again.then_some(report.text.as_str()));
        }
        self.reports
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(run.issue.run, (report.fork.clone(), report.text.clone()));
        locked.append(&[Entry::schedule(self.desk.now(), over)])?;
        Ok(Some(report))
    }

    /// A run that leaf itself could not carry out has failed.
    fn give_up(&self, run: &Run, why: &str) {
        let end = || -> Result<()> {
            let mut session = self.lock()?;
            let now = self.desk.now();
            let record = &session.state.schedule;
            let Some(open) = record.run(run.issue.run).filter(|run| run.over.is_none()) else { return Ok(()) };
            // It may have got as far as its report.
            let entry = match report::read(&session.session.dir, run.issue.run) {
                Ok(Some(report)) => Entry::schedule(now, over(record, open, &report, self.delivers, now)),
                Ok(None) | Err(_) => ended(now, run, RunOutcome::Failed, Some(text::clip(why, 300))),
            };
            session.append(&[entry])
        };
        if let Err(error) = end() {
            errors::note(&format!("runner: run {}: {error:#}", run.issue.run));
        }
    }
}

/// The last report of a chain, which its next run gets though main got it before.
#[derive(Serialize, Deserialize)]
struct Last {
    epoch: u64,
    text: String,
}

impl Last {
    fn file(fork: &str) -> String {
        format!("last-{}", &sha256_hex(fork.as_bytes())[..16])
    }

    fn read(session: &Dir, fork: &str, epoch: u64) -> Option<String> {
        let bytes = session.sub(report::DIRECTORY).ok()??.read(&Last::file(fork)).ok()??;
        let last: Last = serde_json::from_slice(&bytes).ok()?;
        (last.epoch == epoch).then_some(last.text)
    }

    /// Losing it costs the next run a look at the conversation.
    fn write(session: &Dir, run: &Run, text: Option<&str>) {
        let Ok(dir) = session.make(report::DIRECTORY) else { return };
        let name = Last::file(&run.issue.fork);
        let _ = match text {
            None => dir.remove(&name),
            Some(text) => {
                let last = Last { epoch: run.epoch, text: text.to_owned() };
                dir.replace(&name, &serde_json::to_vec(&last).unwrap_or_default(), false)
            }
        };
    }
}

/// Returns what a run is told. `known`: the reports of runs by this process, which may have no file any more.
fn told(
    desk: &Desk,
    session: &Session,
    run: &Run,
    fork: &Fork,
    epoch: u64,
    known: impl Fn(TurnId) -> Option<(String, String)>,
) -> Result<String> {
    let written = |id| report::read(&session.dir, id).ok().flatten().map(|report| (report.fork, report.text));
    let before: Vec<_> = run.issue.reports_of.iter().filter_map(|id| known(*id).or_else(|| written(*id))).collect();
    let last = if run.issue.chain && !run.flush { Last::read(&session.dir, &fork.name, epoch) } else { None };
    let project = super::discovery::project_root(&desk.env, Path::new(&session.record.cwd));
    let brief = Brief {
        fork,
        label: &run.issue.label,
        session: session.record.id.as_str(),
        project: &project.to_string_lossy(),
        chain: run.issue.chain && !run.flush,
        before: &before,
        last: last.as_deref(),
    };
    Ok(prompt::prompt(&brief)?)
}

/// Returns what a run in the session's own client is told.
///
/// # Errors
/// Where its file is gone, or may not run any more.
pub fn told_in_session(desk: &Desk, session: &Session, run: &Run, epoch: u64) -> Result<String> {
    let fork = lookup::definition_of(desk, &session.record, run)?;
    told(desk, session, run, &fork, epoch, |_| None)
}

/// Ends a run in the session's own client. What the session's model started reports to it by the client's own words.
///
/// # Errors
/// Where the report or the journal can't be written.
pub fn end_in_session(
    desk: &Desk,
    locked: &mut LockedSession,
    run: TurnId,
    outcome: RunOutcome,
    text: &str,
    cost: Cost,
) -> Result<()> {
    let Some(known) = locked.state.schedule.run(run).filter(|run| run.over.is_none()).cloned() else { return Ok(()) };
    let settings = lookup::settings(desk, &locked.session.record);
    let fork = lookup::definition_of(desk, &locked.session.record, &known).ok();
    let chain = fork.and_then(|fork| fork.chain_limit).unwrap_or(settings.chain_limit);
    // Without its work an agent ran for nothing, whatever it says.
    let idle = known.issue.runner == Runner::Subagent && !known.given && outcome == RunOutcome::Completed;
    let (outcome, text) = if idle { (RunOutcome::Failed, "its work never reached the agent") } else { (outcome, text) };
    let completed = outcome == RunOutcome::Completed;
    let (text, asks) = if completed { report::take_sentinel(text) } else { (text.trim().to_owned(), false) };
    let report = Report {
        format: crate::FORMAT,
        run,
        fork: known.issue.fork.clone(),
        label: known.issue.label.clone(),
        ts: desk.now(),
        outcome,
        text,
        asks,
        feed: false,
        limits: Limits { hourly: settings.runaway_limit, chain },
        model: None,
        cost,
    };
    let delivers = known.issue.runner == Runner::Module;
    if delivers {
        report::write(&locked.session.dir, &report)?;
    }
    let over = over(&locked.state.schedule, &known, &report, delivers, desk.now());
    if known.issue.chain {
        let again = matches!(&over, Change::Over { again: true, .. });
        Last::write(&locked.session.dir, &known, again.then_some(report.text.as_str()));
    }
    locked.append(&[Entry::schedule(desk.now(), over)])
}

/// Returns the end of a run by its report.
fn over(record: &Record, run: &Run, report: &Report, deliver: bool, now: Ts) -> Change {
    let completed = report.outcome == RunOutcome::Completed;
    Change::Over {
        run: run.issue.run,
        outcome: report.outcome,
        again: completed && report.asks && record.may_run_again(run, report.limits, now),
        report: deliver,
        why: (!completed).then(|| text::clip(&report.text, 300)),
        model: report.model.clone(),
        cost: report.cost,
    }
}

fn ended(now: Ts, run: &Run, outcome: RunOutcome, why: Option<String>) -> Entry {
    let over = Change::Over {
        run: run.issue.run,
        outcome,
        again: false,
        report: false,
        why,
        model: None,
        cost: Cost::default(),
    };
    Entry::schedule(now, over)
}

/// Ends the runs whose processes died (W10): with their reports where those were written, else as failed. What is left of their
/// clients is killed. Returns whether there were any.
///
/// # Errors
/// Where the journal can't be written.
pub fn harvest(session: &mut LockedSession, now: Ts) -> Result<bool> {
    harvest_but(session, now, &[])
}

fn harvest_but(session: &mut LockedSession, now: Ts, mine: &[TurnId]) -> Result<bool> {
    let record = &session.state.schedule;
    let dead: Vec<Run> = dead(record, |process| process.life() == Life::Dead)
        .filter(|run| !mine.contains(&run.issue.run))
        .cloned()
        .collect();
    if dead.is_empty() {
        return Ok(false);
    }
    let entries: Vec<Entry> = dead
        .iter()
        .map(|run| match report::read(&session.session.dir, run.issue.run) {
            Ok(Some(report)) => Entry::schedule(now, over(record, run, &report, true, now)),
            Ok(None) | Err(_) => lost(&session.session.dir, record, run, now),
        })
        .collect();
    session.append(&entries)?;
    for run in &dead {
        if let Some(attempt) = &run.attempt {
            headless::kill(attempt);
        }
        scratch::remove(run.issue.run);
    }
    Ok(true)
}

/// Ends runs that could not be started.
///
/// # Errors
/// Where the journal can't be written.
pub fn not_started(session: &mut LockedSession, runs: &[TurnId], why: &str, now: Ts) -> Result<()> {
    let record = &session.state.schedule;
    let waits = |run: &&Run| run.over.is_none() && run.begun.is_none();
    let entries: Vec<Entry> = runs
        .iter()
        .filter_map(|id| record.run(*id).filter(waits))
        .map(|run| ended(now, run, RunOutcome::Failed, Some(text::clip(why, 300))))
        .collect();
    session.append(&entries)
}

/// Ends a run that died without a word. Of one that had begun main hears that nothing comes of it, as of any that fails.
fn lost(session: &Dir, record: &Record, run: &Run, now: Ts) -> Entry {
    const WHY: &str = "its process died";
    let report = Report {
        format: crate::FORMAT,
        run: run.issue.run,
        feed: false,
        fork: run.issue.fork.clone(),
        label: run.issue.label.clone(),
        ts: now,
        outcome: RunOutcome::Failed,
        text: WHY.to_owned(),
        asks: false,
        limits: Limits { hourly: 0, chain: 0 },
        model: None,
        cost: Cost::default(),
    };
    let told = run.begun.is_some() && run.issue.label != MANUAL && report::write(session, &report).is_ok();
    if told {
        Entry::schedule(now, over(record, run, &report, true, now))
    } else {
        ended(now, run, RunOutcome::Failed, Some(WHY.to_owned()))
    }
}

/// Returns the runs that nobody will end any more: their runner is dead; or nobody began them and whoever issued them is.
fn dead<'r>(record: &'r Record, is_dead: impl Fn(&Process) -> bool + 'r) -> impl Iterator<Item = &'r Run> {
    record.runs.iter().filter(move |run| {
        if run.over.is_some() {
            return false;
        }
        if run.begun.is_some() {
            return run.process.as_ref().is_some_and(&is_dead);
        }
        if run.issue.runner != Runner::Headless {
            return false;
        }
        // A runner begins all of its batch: one that died begins no more of it.
        let mut runners = record.batch(run).filter_map(|other| other.process.as_ref()).peekable();
        match runners.peek() {
            Some(_) if run.is_held() => runners.all(&is_dead),
            Some(_) | None => is_dead(&run.owner),
        }
    })
}

/// Returns the models to try, in this order; `None` is the session's own.
fn candidates(fork: &Fork, settings: &Settings, session: Option<&str>) -> Vec<Option<String>> {
    let own = fork.models.of(Client::ClaudeCode);
    let general = settings.fork_models.get(&Client::ClaudeCode).map_or(&[][..], |models| models.of(session));
    let named = if own.is_empty() { general } else { own };
    // What begins so would be taken for a flag.
    let usable = named.iter().filter(|model| !model.starts_with('-') && !model.is_empty());
    let list: Vec<Option<String>> = usable.map(|model| Some(model.clone())).collect();
    if list.is_empty() { vec![None] } else { list }
}

/// Returns the permission mode of a run. A guard is never widened by one.
fn mode(fork: &Fork, settings: &Settings, session: Option<&str>) -> String {
    if fork.guard.is_some() {
        return rights::ASKS.to_owned();
    }
    let own = fork.modes.of(Client::ClaudeCode).first();
    let general = settings.fork_modes.get(&Client::ClaudeCode).and_then(|modes| modes.of(session).first());
    let is_word = |mode: &&String| !mode.is_empty() && mode.bytes().all(|byte| byte.is_ascii_alphanumeric());
    own.or(general).filter(is_word).cloned().unwrap_or_else(|| MODE.to_owned())
}

/// Returns the conversation that a run is a copy of: its transcript's name, which a resumed session's id need not be.
fn conversation(record: &SessionRecord) -> String {
    let stem = record.transcript.as_ref().and_then(|path| Some(Path::new(path).file_stem()?.to_str()?.to_owned()));
    // It becomes an argument.
    let is_id = |stem: &String| {
        !stem.is_empty()
            && !stem.starts_with('-')
            && stem.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    stem.filter(is_id).unwrap_or_else(|| record.id.as_str().to_owned())
}

/// Returns the client's program: the one that is named for forks, else as every headless run finds it.
fn program(env: &Env) -> Option<PathBuf> {
    twin(env, "CLAUDE_BIN").map(PathBuf::from).or_else(|| headless::program(env))
}

/// Returns how long a run may take.
fn cap(env: &Env, settings: &Settings) -> Duration {
    let named = twin(env, "CLAUDE_FORK_TIMEOUT_SECS").and_then(|seconds| seconds.trim().parse().ok());
    Duration::from_secs(named.filter(|seconds| *seconds > 0).unwrap_or(settings.run_timeout.max(1)))
}

/// Returns a variable of leaf's own, else the peer's of the same name.
fn twin(env: &Env, name: &str) -> Option<String> {
    env.text(&format!("LEAF_{name}")).or_else(|| env.text(&format!("AUTOFORK_{name}")))
}

/// Returns what a run's client has in its environment: who it is, under both names.
fn environment(run: &Run, record: &SessionRecord) -> [(&'static str, String); 9] {
    [
        ("LEAF_FORK", "1".to_owned()),
        ("AUTOFORK_FORK", "1".to_owned()),
        ("LEAF_TURN", run.issue.run.to_string()),
        ("LEAF_SESSION", record.id.to_string()),
        ("AUTOFORK_SESSION_ID", record.id.to_string()),
        ("LEAF_FORK_NAME", run.issue.fork.clone()),
        ("AUTOFORK_FORK_NAME", run.issue.fork.clone()),
        ("LEAF_TRIGGER", run.issue.label.clone()),
        ("AUTOFORK_TRIGGER", run.issue.label.clone()),
    ]
}

/// Returns what an attempt left: it completed only with a result that is none of an error. What it says on stderr stands in for a
/// missing word.
fn left(output: &Path, errors: &Path, success: bool) -> Output {
    let read = |file: &Path| {
        let mut bytes = Vec::new();
        let _ = open_plain(file).map(|file| file.take(LONGEST).read_to_end(&mut bytes));
        bytes
    };
    let bytes = read(output);
    let mut left = print::last_result(&bytes).unwrap_or_else(|| print::output(&bytes));
    left.failed |= !success;
    if left.failed && left.text.is_empty() {
        left.text = String::from_utf8_lossy(&read(errors)).trim().to_owned();
    }
    if left.failed {
        left.text =
            if left.text.is_empty() { "its client said nothing".to_owned() } else { text::clip(&left.text, 2000) };
    }
    left
}

/// Says on standard output that the runs are in hand, where somebody still listens.
pub fn say_begun() {
    if crate::cli::output::is_read() {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(b"begun\n").and_then(|()| out.flush());
    }
}
