//! `leaf fork stop NAME` (R122).

use anyhow::Result;

use super::super::writer::Verb;
use super::super::{Run, output};
use super::outcome_words;
use crate::desk::Speaker;
use crate::headless;
use crate::ids::ThreadId;
use crate::page::event::By;
use crate::refused::Refused;
use crate::rules::writes;
use crate::session::Session;
use crate::session::journal::{Entry, Evidence, Kind, Outcome};
use crate::session::lane::{self, Lane};
use crate::session::state::{ForkTurn, TurnState};
use crate::text;
use crate::transaction::Transaction;

/// A turn's id may be cut to this many digits.
const DIGITS: usize = 4;

/// Stops the fork of that name, agent or turn; of several of one name the one that runs.
///
/// # Errors
/// Where there is none, or several run, or it ended already.
pub fn run(run: &Run, wanted: &str) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    if run.acts_as_fork() {
        return Err(writes::never_a_forks("stopping a fork").into());
    }
    let (session, turn) = find(run, &speaker, wanted)?;
    let home = run.desk.make_home()?;
    let page = match &turn.thread {
        Some((page, _)) => Some(run.desk.page(&home, page)?),
        None => run.desk.held(&home, &session.record)?.into_iter().next(),
    };
    let page = page.ok_or_else(|| super::no_turn(&text::first_words(wanted, 60)))?;
    let mut tx = Transaction::open(&run.desk, page, run.desk.deadline())?;
    tx.settle()?;
    let turn = tx.state().fork(turn.id).cloned().unwrap_or(turn);
    if turn.ended.is_some() {
        return Err(over(&turn).into());
    }
    let followed = tx.lane.is_some();
    let asked = Entry { turn: Some(turn.id), by: Some(By::Fork), ..Entry::new(tx.now, Kind::Stop) };
    tx.journal(&[asked])?;
    let outcome = tx.end(turn.id, Evidence::TaskStop, "", true)?;
    // Others need not wait for a process that takes its time to leave.
    drop(tx);
    if let Some(runner) = &turn.runner {
        headless::stop(&runner.process);
    }
    let thread = turn.thread.as_ref().map(|(_, thread)| *thread);
    if run.common.json {
        return output::print_json(&serde_json::json!({
            "turn": turn.id, "name": turn.name, "agent_id": turn.agent, "outcome": outcome, "thread": thread,
        }));
    }
    let name = text::one_line(&turn.name);
    let became = became(outcome, thread);
    let run_of_it = match (&turn.agent, followed) {
        _ if turn.runner.is_some() => "\nIts process is stopped.".to_owned(),
        (None, _) => String::new(),
        (Some(_), true) => "\nThe client is told to stop its run.".to_owned(),
        (Some(agent), false) => {
            format!("\nNobody follows this session, so that its client isn't told: stop agent {agent} there.")
        }
    };
    output::print(&format!("fork {name} is stopped (turn {}): {became}{run_of_it}\n", turn.id))
}

/// Finds what is meant, first in the command's own session, for a person then in all: what `leaf status` shows can be stopped from
/// anywhere.
fn find(run: &Run, speaker: &Speaker, wanted: &str) -> Result<(Session, ForkTurn)> {
    let own = run.session(speaker)?;
    let own_id = own.as_ref().map(|session| session.record.id.clone());
    if let Some(session) = own
        && let Some(turn) = pick(run, &session, wanted)?
    {
        return Ok((session, turn));
    }
    let elsewhere = *speaker == Speaker::Person && run.common.session.is_none();
    let mut found: Option<(Session, ForkTurn)> = None;
    if let Some(home) = run.desk.home()?.filter(|_| elsewhere) {
        for session in Session::all(&home)? {
            if Some(&session.record.id) == own_id.as_ref() {
                continue;
            }
            let Some(turn) = pick(run, &session, wanted)? else { continue };
            // One that still runs comes before one that is over.
            if found.as_ref().is_none_or(|(_, other)| other.ended.is_some() && turn.ended.is_none()) {
                found = Some((session, turn));
            }
        }
    }
    found.ok_or_else(|| super::no_turn(&text::first_words(wanted, 60)).into())
}

fn pick(run: &Run, session: &Session, wanted: &str) -> Result<Option<ForkTurn>> {
    let state = session.state()?;
    let followed = lane::holder(session, Lane::Follower).is_some();
    let stands =
        |turn: &ForkTurn| turn.stands(state.generation, session.record.client_lives(), followed, run.desk.now());
    let named = |turn: &&ForkTurn| {
        turn.name == wanted
            || turn.id.to_string() == wanted
            || turn.agent.as_ref().is_some_and(|agent| agent.as_str() == wanted)
    };
    let mut found: Vec<&ForkTurn> = state.forks.iter().filter(named).collect();
    if found.is_empty() && wanted.len() >= DIGITS {
        found = state.forks.iter().filter(|turn| turn.id.to_string().starts_with(wanted)).collect();
        let open: Vec<_> = found.iter().filter(|turn| stands(turn) != TurnState::Ended).copied().collect();
        if !open.is_empty() {
            found = open;
        }
        if found.len() > 1 {
            return Err(several(wanted, &found).into());
        }
    }
    let running: Vec<_> = found.iter().filter(|turn| stands(turn).runs()).copied().collect();
    match running.as_slice() {
        [] => {}
        [one] => return Ok(Some((*one).clone())),
        more => return Err(several(wanted, more).into()),
    }
    // A lapsed one can still be stopped; else the newest is said to be over.
    let lapsed = found.iter().rev().find(|turn| stands(turn) == TurnState::Lapsed);
    Ok(lapsed.or(found.last()).map(|turn| (**turn).clone()))
}

fn several(wanted: &str, turns: &[&ForkTurn]) -> Refused {
    let all: Vec<String> = turns.iter().map(|turn| turn.id.to_string()).collect();
    Refused::input(format!("{} could be turn {}: name one of them", text::first_words(wanted, 60), all.join(" or ")))
}

fn over(turn: &ForkTurn) -> Refused {
    let when = turn.ended.map_or(String::new(), |ended| format!(" ({})", ended.brief()));
    let how = turn.outcome.map_or("it is over", outcome_words);
    Refused::input(format!(
        "fork {} has ended already{when}: {how}; `leaf fork list` shows what runs",
        text::one_line(&turn.name)
    ))
}

/// Says what became of its thread.
fn became(outcome: Option<Outcome>, thread: Option<ThreadId>) -> String {
    let Some(thread) = thread else { return "it had no thread.".to_owned() };
    match outcome {
        Some(Outcome::HandBack) => format!("thread {thread} is main's again."),
        Some(Outcome::Answer) => format!("it had answered thread {thread}."),
        Some(Outcome::Todo) => format!("it had answered thread {thread} and left a to-do there."),
        Some(Outcome::TakenOver) => format!("another had thread {thread} by then."),
        Some(Outcome::Void) | None => format!("nothing in thread {thread} was left to it."),
    }
}
