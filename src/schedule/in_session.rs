//! Runs in the session's own client: what starts them, and their end.

use anyhow::{Context, Result};

use super::record::{Record, Run, RunOutcome, Runner};
use crate::clock::Ts;
use crate::desk::Desk;
use crate::ids::{SessionId, TurnId};
use crate::place::Dir;
use crate::rules::prompts;
use crate::session::Session;
use crate::session::journal::{Action, Cost};
use crate::session::state::State;
use crate::text::one_line;

/// A run that nobody started for this long, though the session was asked to, has failed, milliseconds.
const UNSTARTED: i64 = 180_000;

/// Whether a run in the session is to be started now: all that it waited for is over.
pub fn is_ready(record: &Record, run: &Run, runner: Runner) -> bool {
    run.over.is_none() && run.begun.is_none() && run.issue.runner == runner && record.is_free(run)
}

/// Returns the runs that the session was asked to start long enough ago.
pub fn unstarted(record: &Record, now: Ts) -> impl Iterator<Item = TurnId> {
    let late = move |run: &&Run| {
        let asked = record.woke.unwrap_or(run.issued).max(run.issued);
        let ready = is_ready(record, run, Runner::Module) || is_ready(record, run, Runner::Subagent);
        ready && now.since(asked) >= UNSTARTED
    };
    record.runs.iter().filter(late).map(|run| run.issue.run)
}

/// Returns the description of a run's Agent call: it ends with the turn's id, as every fork's does (R29).
pub fn description(run: &Run) -> String {
    format!("leaf scheduled fork {}, turn {}", one_line(&run.issue.fork), run.issue.run)
}

/// Returns the name of a run's agent, and what it is told; `None` where it is over or began.
///
/// # Errors
/// Where its file is gone, changed, or not trusted any more.
pub fn work(desk: &Desk, session: &Session, state: &State, run: &Run) -> Result<Option<(String, String)>> {
    if run.over.is_some() || run.begun.is_some() {
        return Ok(None);
    }
    let prompt = super::run::told_in_session(desk, session, run, state.schedule.epoch)?;
    Ok(Some((run.name(), prompt)))
}

/// Returns what the hooks module is to do for a run.
///
/// # Errors
/// As [`work`].
pub fn action(desk: &Desk, session: &Session, state: &State, run: &Run) -> Result<Option<Action>> {
    let work = work(desk, session, state, run)?;
    Ok(work.map(|(name, prompt)| Action::Spawn { turn: run.issue.run, name, description: description(run), prompt }))
}

/// Returns what asks the session's model to start runs.
pub fn request(record: &Record) -> Option<String> {
    let asked = |run: &&Run| record.woke.is_none_or(|woke| woke < run.issued);
    let ready: Vec<String> = record
        .runs
        .iter()
        .filter(|run| is_ready(record, run, Runner::Subagent))
        .filter(asked)
        .map(|run| {
            format!(
                "subagent_type \"fork\", name \"{}\", description \"{}\", run_in_background true, prompt \"{}\"",
                one_line(&run.name()),
                description(run),
                prompts::start_prompt(run.issue.run)
            )
        })
        .collect();
    (!ready.is_empty()).then(|| {
        format!(
            "scheduled forks are due, and only this session can start them. Call the Agent tool once for each, then end the turn \
             (leaf puts the work in the prompt's place; `fork` is a type of the client's own: where it is missing, leave it):\n{}",
            ready.join("\n")
        )
    })
}

/// Ends a run in the session. What a run that the session's model started says, the session hears from its client; what the module
/// started reports with the next prompt.
///
/// # Errors
/// Where the report or the journal can't be written.
pub fn end(
    desk: &Desk,
    home: &Dir,
    session: &SessionId,
    run: TurnId,
    outcome: RunOutcome,
    text: &str,
    cost: Cost,
) -> Result<()> {
    let session = Session::open(home, session)?.context("the session is gone")?;
    super::run::end_in_session(desk, &mut session.lock(desk.deadline())?, run, outcome, text, cost)
}
