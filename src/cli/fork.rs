//! `leaf fork …`: what forks there are, and the plumbing by which the hooks module starts and ends them.

mod list;
mod run;
mod stop;
mod tree;

use std::io::Read;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::thread::{knows_thread, pick_thread};
use super::{Run, output, runs};
use crate::desk::{Prefix, Speaker};
use crate::forks::name_turn;
use crate::ids::{AgentId, ThreadId, TurnId};
use crate::page::Page;
use crate::page::state::TurnOutcome;
use crate::refused::Refused;
use crate::schedule::in_session;
use crate::schedule::record::{Change, Run as ScheduledRun, RunOutcome, Runner};
use crate::session::Session;
use crate::session::journal::{Cost, Entry, Evidence, Naming, Outcome};
use crate::session::state::ForkTurn;
use crate::transaction::Transaction;

/// A run's final text is read up to this many bytes.
const TEXT_LIMIT: u64 = 1 << 20;

/// `leaf fork …`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the forks of the session's present generation, what they do and what they cost
    List,
    /// Stop a fork: its thread is handed back to main
    Stop {
        /// The fork's name, its agent, or its turn (4 or more digits of it)
        name: String,
    },
    /// Show which prompt each run came from, how it ended and what it cost
    Tree,
    /// Run a scheduled fork now, as a background copy of the session, and print its report
    Run(run::RunArgs),
    /// The line fork's text, on stdin (the module's)
    #[command(hide = true)]
    Line {
        /// The thread
        thread: String,
        /// The message that it was asked about
        #[arg(long)]
        through: Option<String>,
        /// What it cost.
        #[command(flatten)]
        cost: CostArgs,
    },
    /// A fork's run began (the module's)
    #[command(hide = true)]
    Started {
        /// The turn
        turn: TurnId,
        /// The agent
        agent: AgentId,
    },
    /// A fork's run ended, its final text on stdin (the module's)
    #[command(hide = true)]
    Ended {
        /// The turn
        #[arg(long, required_unless_present = "agent")]
        turn: Option<TurnId>,
        /// The agent
        #[arg(long, conflicts_with = "turn")]
        agent: Option<AgentId>,
        /// It failed
        #[arg(long)]
        failed: bool,
        /// What it cost.
        #[command(flatten)]
        cost: CostArgs,
    },
}

/// What the client tells of a run's cost (R122).
#[derive(Clone, Copy, Debug, Args)]
pub struct CostArgs {
    /// All its tokens: input, output and cache
    #[arg(long, hide = true)]
    tokens: Option<u64>,
    /// Its time, milliseconds
    #[arg(long, hide = true)]
    ms: Option<u64>,
}

impl From<CostArgs> for Cost {
    fn from(args: CostArgs) -> Cost {
        Cost { tokens: args.tokens, ms: args.ms }
    }
}

/// Runs `leaf fork …`.
///
/// # Errors
/// The refusal, or what failed.
pub fn run(run: &Run, command: Command) -> Result<()> {
    match command {
        Command::List => list::run(run),
        Command::Stop { name } => stop::run(run, &name),
        Command::Tree => tree::run(run),
        Command::Run(args) => self::run::run(run, &args),
        Command::Line { thread, through, cost } => line(run, &thread, through.as_deref(), cost.into()),
        Command::Started { turn, agent } => started(run, turn, &agent),
        Command::Ended { turn, agent, failed, cost } => ended(run, turn, agent.as_ref(), failed, cost.into()),
    }
}

/// Tells who speaks, and refuses what isn't the module's: below a client its follower's token proves it (R70, R71).
///
/// # Errors
/// The refusal.
pub fn modules(run: &Run) -> Result<Speaker> {
    let speaker = run.desk.by_ancestry()?;
    let proven = match &speaker {
        Speaker::Person => true,
        Speaker::Agent(id) => run.desk.has_token(id)?,
    };
    if !proven || run.acts_as_fork() {
        return Err(Refused::by(
            "R70",
            "this is for the client's hooks module alone: `leaf page state` shows what stands, `leaf thread reply` answers",
        )
        .into());
    }
    Ok(speaker)
}

fn stdin_text() -> Result<String> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(TEXT_LIMIT).read_to_end(&mut bytes).context("can't read standard input")?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn line(run: &Run, thread: &str, through: Option<&str>, cost: Cost) -> Result<()> {
    let speaker = modules(run)?;
    let prefix = Prefix::parse(thread)?;
    let through = through.map(Prefix::parse).transpose()?;
    let text = stdin_text()?;
    let page = run.page_of(&speaker, &format!("thread {prefix}"), &prefix, true, knows_thread(&prefix))?;
    let mut tx = Transaction::open(&run.desk, page, run.desk.deadline())?;
    tx.page.load(prefix.ids())?;
    let id = pick_thread(tx.page.view(), &prefix)?.id;
    output::print_json(&crate::line::answer(&run.desk, &mut tx, id, through.as_ref(), &text, cost)?)
}

/// Finds the session and the page of a fork's turn. A run without a page is judged on the page that its session got last.
fn of_turn(run: &Run, speaker: &Speaker, wanted: impl Fn(&ForkTurn) -> bool) -> Result<Option<(Page, ForkTurn)>> {
    let Some(home) = run.desk.home()? else { return Ok(None) };
    let mut sessions = Session::all(&home)?;
    if let Some(session) = run.session(speaker)? {
        // After /clear a run of before goes on in the same client.
        let own = |other: &Session| other.record.id == session.record.id;
        sessions.retain(|other| {
            own(other) || other.record.process.is_some() && other.record.process == session.record.process
        });
        sessions.sort_by_key(|other| !own(other));
    }
    for session in sessions {
        let state = session.state()?;
        let Some(turn) = state.forks.iter().rev().find(|turn| wanted(turn)).cloned() else { continue };
        let page = match &turn.thread {
            Some((page, _)) => Some(run.desk.page(&home, page)?),
            None => run.desk.held(&home, &session.record)?.into_iter().next(),
        };
        if let Some(page) = page {
            return Ok(Some((page, turn)));
        }
    }
    Ok(None)
}

/// Finds the session and the run of a scheduled fork that goes on in the client.
fn of_run(
    run: &Run,
    speaker: &Speaker,
    wanted: impl Fn(&ScheduledRun) -> bool,
) -> Result<Option<(Session, ScheduledRun)>> {
    let Some(session) = run.session(speaker)? else { return Ok(None) };
    let found = session.state()?.schedule.runs.iter().rev().find(|run| wanted(run)).cloned();
    Ok(found.map(|found| (session, found)))
}

fn no_turn(what: &str) -> Refused {
    Refused::input(format!("there is no turn of a fork for {what}: `leaf fork list` shows what there is"))
}

fn started(run: &Run, turn: TurnId, agent: &AgentId) -> Result<()> {
    let speaker = modules(run)?;
    if let Some((session, scheduled)) = of_run(run, &speaker, |other| other.issue.run == turn)? {
        let go = scheduled.over.is_none() && scheduled.agent.as_ref().is_none_or(|known| known == agent);
        if go && scheduled.agent.is_none() {
            let change = Change::Begun { run: turn, process: None, agent: Some(agent.clone()) };
            session.lock(run.desk.deadline())?.append(&[Entry::schedule(run.desk.now(), change)])?;
        }
        return output::print_json(&serde_json::json!({ "action": if go { "go" } else { "stop" } }));
    }
    let found = of_turn(run, &speaker, |other| other.id == turn)?;
    let (page, _) = found.ok_or_else(|| no_turn(&turn.to_string()))?;
    let mut tx = Transaction::open(&run.desk, page, run.desk.deadline())?;
    tx.settle()?;
    let go = name_turn(&mut tx, turn, agent, Naming::Module, None, None)?;
    let word = if go { "go" } else { "stop" };
    output::print_json(&serde_json::json!({ "action": word }))
}

#[derive(Serialize)]
struct EndedJson {
    outcome: Option<Outcome>,
    thread: Option<ThreadId>,
    wake: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

fn ended(run: &Run, turn: Option<TurnId>, agent: Option<&AgentId>, failed: bool, cost: Cost) -> Result<()> {
    let speaker = modules(run)?;
    let text = stdin_text()?;
    let scheduled = of_run(run, &speaker, |other| match (turn, agent) {
        (Some(turn), _) => other.issue.run == turn,
        (None, agent) => agent.is_some() && other.agent.as_ref() == agent,
    })?;
    if let Some((session, scheduled)) = scheduled {
        // What a module reports again, or tells the cost of, is over.
        if scheduled.over.is_none() {
            let outcome = if failed { RunOutcome::Failed } else { RunOutcome::Completed };
            let home = run.desk.make_home()?;
            in_session::end(&run.desk, &home, &session.record.id, scheduled.issue.run, outcome, &text, cost)?;
        }
        let quiet = scheduled.issue.runner == Runner::Module;
        return output::print_json(
            &serde_json::json!({ "outcome": null, "thread": null, "wake": false, "scheduled": quiet }),
        );
    }
    let wanted = |other: &ForkTurn| match (turn, agent) {
        (Some(turn), _) => other.id == turn,
        (None, agent) => agent.is_some() && other.agent.as_ref() == agent,
    };
    let found = of_turn(run, &speaker, |other| wanted(other) && other.ended.is_none())?;
    let found = match found {
        Some(found) => Some(found),
        None => of_turn(run, &speaker, wanted)?,
    };
    let what = turn.map_or_else(|| agent.map(ToString::to_string).unwrap_or_default(), |turn| turn.to_string());
    let (page, fork) = found.ok_or_else(|| no_turn(&what))?;
    let thread = fork.thread.as_ref().map(|(_, thread)| *thread);
    if fork.ended.is_some() {
        // Ended twice: the recorded outcome again, wherever its page is by now (R78).
        late(run, &fork, cost)?;
        let wake = matches!(fork.outcome, Some(Outcome::Todo | Outcome::HandBack));
        return output::print_json(&EndedJson { outcome: fork.outcome, thread, wake, state: None });
    }
    let mut tx = Transaction::open(&run.desk, page, run.desk.deadline())?;
    let fork = tx.state().fork(fork.id).cloned().unwrap_or(fork);
    if fork.ended.is_none() && !failed {
        let goes_on = match (fork.begun, fork.rests_on.is_empty()) {
            // Before its run began only a failed step ends it (R79).
            (None, _) => Some("running"),
            // Whatever report comes with it, it rests (R80).
            (Some(_), false) => Some("resting"),
            (Some(_), true) => None,
        };
        if goes_on.is_some() {
            tx.account(fork.id, cost)?;
            return output::print_json(&EndedJson { outcome: None, thread, wake: false, state: goes_on });
        }
    }
    let evidence = if failed && fork.begun.is_none() { Evidence::Failed } else { Evidence::Module };
    let outcome = tx.end_at(fork.id, evidence, &text, failed, cost)?;
    let wake = matches!(outcome, Some(Outcome::Todo | Outcome::HandBack));
    output::print_json(&EndedJson { outcome, thread, wake, state: None })
}

/// Writes what a run cost that ended before its client told: in the session whose turn it was, wherever the page is by now.
fn late(run: &Run, fork: &ForkTurn, cost: Cost) -> Result<()> {
    let Some(home) = run.desk.home()?.filter(|_| cost.is_told()) else { return Ok(()) };
    for session in Session::all(&home)? {
        if session.state()?.fork(fork.id).is_some() {
            let mut locked = session.lock(run.desk.deadline())?;
            let entry = locked.state.fork(fork.id).and_then(|turn| Entry::account(run.desk.now(), turn, cost));
            return locked.append(entry.as_slice());
        }
    }
    Ok(())
}

/// Returns for a person what became of a fork's turn.
pub fn turn_outcome_words(outcome: TurnOutcome) -> &'static str {
    match outcome {
        TurnOutcome::Judged(outcome) => outcome_words(outcome),
        TurnOutcome::Ran(outcome) => runs::outcome_words(outcome),
    }
}

/// Returns an outcome for a person.
pub fn outcome_words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answer => "answered",
        Outcome::Todo => "left a to-do",
        Outcome::HandBack => "handed back",
        Outcome::TakenOver => "taken over",
        Outcome::Void => "nothing to judge",
    }
}
