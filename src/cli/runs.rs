//! `leaf runs`: the runs of scheduled forks, what came of them, and reports that main has not got yet.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Run;
use super::output::{self, Style, styled};
use crate::clock::Ts;
use crate::ids::{SessionId, TurnId};
use crate::place::canonical;
use crate::refused::Refused;
use crate::schedule::discovery::project_root;
use crate::schedule::record::{self, Change, MANUAL, Record, RunOutcome, Runner};
use crate::schedule::report;
use crate::session::Session;
use crate::session::journal::{self, Cost, Entry};
use crate::text;

/// How often the journals are looked at while they are followed.
const LOOK: Duration = Duration::from_millis(300);
/// A run's id may be cut to this many digits.
const DIGITS: usize = 4;

/// `leaf runs`
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Go on and print each run as it changes, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// The runs of all sessions of this project
    #[arg(long, conflicts_with = "report")]
    all: bool,
    /// Print the report of a run that is not delivered yet
    #[arg(long, value_name = "RUN", conflicts_with = "follow")]
    report: Option<String>,
    /// Deliver no more of a run's report
    #[arg(long, value_name = "RUN", conflicts_with_all = ["follow", "report", "all"])]
    drop: Option<String>,
}

/// A run as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunState {
    session: SessionId,
    run: TurnId,
    fork: String,
    trigger: String,
    path: String,
    runner: Runner,
    state: RunWord,
    /// The forks that it waits for.
    waits_for: Vec<String>,
    issued: Ts,
    begun: Option<Ts>,
    over: Option<Ts>,
    why: Option<String>,
    /// Whether its report asked for another run, and may have one.
    again: bool,
    model: Option<String>,
    #[serde(flatten)]
    cost: Cost,
    report: Option<ReportWord>,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum RunWord {
    /// It was issued, and no process has it yet.
    Issued,
    /// It waits for others of its batch.
    Waiting,
    Running,
    Completed,
    Failed,
    Stopped,
    Dropped,
}

/// Where a run's report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum ReportWord {
    /// It comes with the next prompt.
    Waits,
    /// A part of it was printed; the next comes with the next prompt.
    Part,
    Delivered,
}

/// Runs `leaf runs`.
///
/// # Errors
/// Where the records can't be read, or there is no such report.
pub fn run(run: &Run, args: &RunsArgs) -> Result<()> {
    if let Some(wanted) = &args.drop {
        return drop_report(run, wanted);
    }
    if let Some(wanted) = &args.report {
        return print_report(run, wanted);
    }
    let mut shown: BTreeMap<TurnId, String> = BTreeMap::new();
    let first = listed(run, args.all)?;
    if run.common.json && !args.follow {
        return output::print_json(&first);
    }
    if first.is_empty() && !args.follow {
        return output::print("no scheduled fork has run in this session\n");
    }
    show(run, &first, &mut shown)?;
    if !args.follow {
        return Ok(());
    }
    let mut seen = signature(&sessions(run, args.all)?);
    while output::is_read() {
        std::thread::sleep(LOOK);
        let sessions = sessions(run, args.all)?;
        let now = signature(&sessions);
        if now != seen {
            seen = now;
            show(run, &listed(run, args.all)?, &mut shown)?;
        }
    }
    Ok(())
}

/// Prints the runs whose lines are new.
fn show(run: &Run, runs: &[RunState], shown: &mut BTreeMap<TurnId, String>) -> Result<()> {
    for state in runs {
        let line = if run.common.json { serde_json::to_string(state)? } else { line(state) };
        if shown.get(&state.run) != Some(&line) {
            output::print(&line)?;
            shown.insert(state.run, line);
        }
    }
    Ok(())
}

fn signature(sessions: &[Session]) -> Vec<Option<(u64, Option<std::time::SystemTime>)>> {
    let of = |session: &Session| {
        let meta = std::fs::symlink_metadata(session.dir.path().join(journal::NAME)).ok()?;
        Some((meta.len(), meta.modified().ok()))
    };
    sessions.iter().map(of).collect()
}

fn sessions(run: &Run, all: bool) -> Result<Vec<Session>> {
    if !all {
        return Ok(run.session(&run.desk.speaker()?)?.into_iter().collect());
    }
    let Some(home) = run.desk.home()? else { return Ok(Vec::new()) };
    let project = project_root(&run.desk.env, &run.desk.here()?);
    let here = |session: &Session| project_root(&run.desk.env, &canonical(Path::new(&session.record.cwd))) == project;
    Ok(Session::all(&home)?.into_iter().filter(here).collect())
}

/// Returns the runs, the oldest first.
fn listed(run: &Run, all: bool) -> Result<Vec<RunState>> {
    let mut listed = Vec::new();
    for session in sessions(run, all)? {
        let record = session.state()?.schedule;
        listed.extend(record.runs.iter().map(|run| RunState::of(&session.record.id, &record, run)));
    }
    listed.sort_by_key(|run| run.issued);
    Ok(listed)
}

impl RunState {
    fn of(session: &SessionId, record: &Record, run: &record::Run) -> RunState {
        let waits = run.issue.waits_for.iter().filter_map(|id| record.run(*id)).filter(|other| other.over.is_none());
        RunState {
            session: session.clone(),
            run: run.issue.run,
            fork: run.issue.fork.clone(),
            trigger: run.issue.label.clone(),
            path: run.issue.path.clone(),
            runner: run.issue.runner,
            state: match run.outcome {
                Some(RunOutcome::Completed) => RunWord::Completed,
                Some(RunOutcome::Failed) => RunWord::Failed,
                Some(RunOutcome::Stopped) => RunWord::Stopped,
                Some(RunOutcome::Dropped) => RunWord::Dropped,
                None if run.begun.is_some() => RunWord::Running,
                None if run.is_held() => RunWord::Waiting,
                None => RunWord::Issued,
            },
            waits_for: if run.is_held() { waits.map(|run| run.issue.fork.clone()).collect() } else { Vec::new() },
            issued: run.issued,
            begun: run.begun,
            over: run.over,
            why: run.why.clone(),
            again: run.again,
            model: run.model.clone(),
            cost: Cost { ms: run.cost.ms.or_else(|| Some(lasted(run)?.unsigned_abs())), ..run.cost },
            report: match (run.report, run.outcome) {
                (Some(0), _) => Some(ReportWord::Waits),
                (Some(_), _) => Some(ReportWord::Part),
                (None, Some(RunOutcome::Completed)) if run.issue.label != MANUAL => Some(ReportWord::Delivered),
                (None, _) => None,
            },
        }
    }
}

fn lasted(run: &record::Run) -> Option<i64> {
    Some((run.over?.0 - run.begun?.0).max(0))
}

/// Returns for a person how a run ended.
pub fn outcome_words(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Completed => "completed",
        RunOutcome::Failed => "failed",
        RunOutcome::Stopped => "stopped",
        RunOutcome::Dropped => "dropped before it began",
    }
}

fn line(run: &RunState) -> String {
    let mut out = format!(
        "{}  {}  run {}  {}  ",
        run.issued.brief(),
        styled(Style::Bold, &text::one_line(&run.fork)),
        run.run,
        text::one_line(&run.trigger)
    );
    let waits: Vec<String> = run.waits_for.iter().map(|fork| text::one_line(fork)).collect();
    let state = match run.state {
        RunWord::Issued => "issued",
        RunWord::Waiting => "waiting",
        RunWord::Running => "running",
        RunWord::Completed => "completed",
        RunWord::Failed => "failed",
        RunWord::Stopped => "stopped",
        RunWord::Dropped => "dropped before it began",
    };
    out.push_str(state);
    match (run.state, waits.is_empty()) {
        (RunWord::Waiting, true) => out.push_str(" for a gate"),
        (RunWord::Waiting, false) => drop(write!(out, " for {}", waits.join(", "))),
        _ => {}
    }
    if let Some(why) = &run.why {
        let _ = write!(out, ": {}", text::first_words(why, 120));
    }
    if run.again {
        out.push_str(", asks for another run");
    }
    let model = run.model.as_ref().map(|model| text::one_line(model));
    let cost = output::cost_words(run.cost);
    for more in [model, (!cost.is_empty()).then_some(cost)].into_iter().flatten() {
        let _ = write!(out, "  {more}");
    }
    match run.report {
        Some(ReportWord::Waits) => out.push_str("  report: with the next prompt"),
        Some(ReportWord::Part) => out.push_str("  report: in part; the next part with the next prompt"),
        Some(ReportWord::Delivered) => out.push_str("  report: delivered"),
        None => {}
    }
    out
}

/// Finds a run by its id, or by digits that it begins with.
fn find(run: &Run, wanted: &str) -> Result<(Session, record::Run)> {
    let shown = text::first_words(wanted, 40);
    for session in sessions(run, false)? {
        let record = session.state()?.schedule;
        let begins =
            |id: &TurnId| id.to_string() == wanted || (wanted.len() >= DIGITS && id.to_string().starts_with(wanted));
        let mut found = record.runs.iter().filter(|run| begins(&run.issue.run));
        let Some(one) = found.next() else { continue };
        if found.next().is_some() {
            return Err(Refused::input(format!("{shown} could be several runs: give more digits")).into());
        }
        let one = one.clone();
        return Ok((session, one));
    }
    Err(Refused::input(format!("there is no run {shown}: `leaf runs` lists them")).into())
}

fn no_report(one: &record::Run) -> Refused {
    let why = if one.over.is_some() { "its report was delivered, or there was none" } else { "it is not over" };
    Refused::input(format!("run {} has no report here: {why}; `leaf runs` tells more", one.issue.run))
}

fn print_report(run: &Run, wanted: &str) -> Result<()> {
    let (session, one) = find(run, wanted)?;
    let report = report::read(&session.dir, one.issue.run)?.ok_or_else(|| no_report(&one))?;
    if run.common.json { output::print_json(&report) } else { output::print(&text::harmless(&report.text)) }
}

/// What is left of a report is delivered no more.
fn drop_report(run: &Run, wanted: &str) -> Result<()> {
    let (session, one) = find(run, wanted)?;
    let id = one.issue.run;
    let mut locked = session.lock(run.desk.deadline())?;
    if locked.state.schedule.run(id).is_none_or(|run| run.report.is_none()) {
        return Err(no_report(&one).into());
    }
    locked.append(&[Entry::schedule(run.desk.now(), Change::Printed { run: id, to: None })])?;
    report::clear(&locked.session.dir, |other| other != id);
    if run.common.json {
        return output::print_json(&serde_json::json!({ "run": id, "dropped": true }));
    }
    output::print(&format!("no more of the report of run {id} is delivered\n"))
}
