//! `leaf fork list`: the forks of the session's present generation (R122).

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::super::output::{self, Style, styled};
use super::super::{Run, status};
use super::turn_outcome_words;
use crate::ids::ThreadId;
use crate::page::state::{ForkState, scheduled};
use crate::session::Session;
use crate::session::journal::Cost;
use crate::session::state::{State, TurnState};
use crate::text;

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    turn: ForkState,
    thread: Option<ThreadId>,
    #[serde(flatten)]
    cost: Cost,
}

/// Runs `leaf fork list`.
///
/// # Errors
/// Where the records can't be read.
pub fn run(run: &Run) -> Result<()> {
    let (turns, state) = turns(run)?;
    let listed: Vec<Listed> = turns
        .into_iter()
        .map(|turn| {
            let fork = state.fork(turn.turn);
            let thread = fork.and_then(|fork| fork.thread.as_ref()).map(|(_, thread)| *thread);
            let cost = fork.map(|fork| fork.cost).or(state.schedule.run(turn.turn).map(|run| run.cost));
            Listed { thread, cost: cost.unwrap_or_default(), turn }
        })
        .collect();
    if run.common.json {
        return output::print_json(&listed);
    }
    let mut out = String::new();
    for fork in &listed {
        let open = |other: &&Listed| other.turn.name == fork.turn.name && other.turn.state != TurnState::Ended;
        let shared = listed.iter().filter(open).count() > 1;
        let _ = writeln!(out, "{}", line(fork, shared));
    }
    if out.is_empty() {
        "no fork has run in this session\n".clone_into(&mut out);
    }
    output::print(&out)
}

/// Returns the turns of a page's session, or of a session that has no page yet and ran what was scheduled.
fn turns(run: &Run) -> Result<(Vec<ForkState>, State)> {
    match run.page_to_read() {
        Ok(page) => {
            let view = page.view()?;
            let turns = status::page_state(run, &page, &view)?.turns;
            let session = match (run.desk.home()?, &page.record.session) {
                (Some(home), Some(id)) => Session::open(&home, id)?,
                _ => None,
            };
            Ok((turns, session.map(|session| session.state()).transpose()?.unwrap_or_default()))
        }
        Err(none) => {
            let session = run.session(&run.desk.speaker()?)?;
            let state = session.map(|session| session.state()).transpose()?.unwrap_or_default();
            let turns: Vec<ForkState> = scheduled(&state.schedule).collect();
            if turns.is_empty() { Err(none) } else { Ok((turns, state)) }
        }
    }
}

fn line(fork: &Listed, shared: bool) -> String {
    let turn = &fork.turn;
    let name = text::one_line(&turn.name);
    let thread = fork.thread.map_or(String::new(), |thread| format!("  thread {thread}"));
    let outcome = turn.outcome.map_or(String::new(), |outcome| format!(", {}", turn_outcome_words(outcome)));
    let cost = output::cost_words(fork.cost);
    let cost = if cost.is_empty() { cost } else { format!("  {cost}") };
    let stop = match turn.state {
        TurnState::Ended => String::new(),
        TurnState::Running | TurnState::Resting | TurnState::Lapsed => {
            let by = if name.is_empty() || shared { turn.turn.to_string() } else { name.clone() };
            format!("  last heard of {}  stop: leaf fork stop {by}", turn.renewed.brief())
        }
    };
    format!(
        "{}  turn {}{thread}  {}{outcome}  since {}{cost}{stop}",
        styled(Style::Bold, &name),
        turn.turn,
        status::stands(turn.state),
        turn.opened.brief()
    )
}
