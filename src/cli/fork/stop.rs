//! `leaf fork stop NAME` (R122).

use anyhow::Result;

use super::super::writer::Verb;
use super::super::{Run, output};
use super::outcome_words;
use crate::desk::Speaker;
use crate::headless;
use crate::ids::{ThreadId, TurnId};
use crate::page::event::By;
use crate::refused::Refused;
use crate::rules::writes;
use crate::schedule::record::{self, Change, RunOutcome};
use crate::session::Session;
use crate::session::journal::{Cost, Entry, Evidence, Kind, Outcome};
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
    // A thread's fork of that name comes first: it was named for the person.
    let (session, turn) = match find(run, &speaker, wanted) {
        Ok(found) => found,
        Err(none) => match find_scheduled(run, &speaker, wanted)? {
            Some((session, id)) => return stop_scheduled(run, session, id),
            None => return Err(none),
        },
    };
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

/// Finds a scheduled run that is not over, by its fork, its name as a turn, or its id.
fn find_scheduled(run: &Run, speaker: &Speaker, wanted: &str) -> Result<Option<(Session, TurnId)>> {
    let mut sessions: Vec<Session> = run.session(speaker)?.into_iter().collect();
    if *speaker == Speaker::Person
        && run.common.session.is_none()
        && let Some(home) = run.desk.home()?
    {
        let own = sessions.first().map(|session| session.record.id.clone());
        sessions.extend(Session::all(&home)?.into_iter().filter(|session| Some(&session.record.id) != own.as_ref()));
    }
    for session in sessions {
        let record = session.state()?.schedule;
        let open: Vec<_> = record.runs.iter().filter(|run| run.over.is_none()).collect();
        let named = |run: &&&record::Run| run.issue.fork == wanted || run.name() == wanted;
        let mut found: Vec<_> = open.iter().filter(named).collect();
        if found.is_empty() && wanted.len() >= DIGITS {
            found = open.iter().filter(|run| run.issue.run.to_string().starts_with(wanted)).collect();
        }
        match found.as_slice() {
            [] => {}
            [one] => {
                let id = one.issue.run;
                return Ok(Some((session, id)));
            }
            more => {
                let all: Vec<String> = more.iter().map(|run| run.issue.run.to_string()).collect();
                let what = text::first_words(wanted, 60);
                return Err(
                    Refused::input(format!("{what} could be run {}: name one of them", all.join(" or "))).into()
                );
            }
        }
    }
    Ok(None)
}

/// Ends a scheduled run, and then its client.
fn stop_scheduled(run: &Run, session: Session, id: TurnId) -> Result<()> {
    let mut session = session.lock(run.desk.deadline())?;
    let found = session.state.schedule.run(id).filter(|found| found.over.is_none()).cloned();
    let Some(found) = found else {
        return Err(Refused::input("that run is over by now: `leaf runs` shows what runs").into());
    };
    let over = Change::Over {
        run: id,
        outcome: RunOutcome::Stopped,
        again: false,
        report: false,
        why: Some("it was stopped by leaf fork stop".to_owned()),
        model: None,
        cost: Cost::default(),
    };
    session.append(&[Entry::schedule(run.desk.now(), over)])?;
    drop(session);
    if let Some(attempt) = &found.attempt {
        headless::stop(attempt);
    }
    let name = found.name();
    if run.common.json {
        return output::print_json(&serde_json::json!({
            "turn": id, "name": name, "agent_id": found.agent, "outcome": RunOutcome::Stopped, "thread": null,
        }));
    }
    let was = if found.attempt.is_some() { " Its process is stopped." } else { "" };
    output::print(&format!("fork {} is stopped (run {id}).{was}\n", text::one_line(&name)))
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
