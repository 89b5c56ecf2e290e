//! `leaf fork …`: what forks there are, and the plumbing by which the hooks module starts and ends them.

use std::fmt::Write;
use std::io::Read;

use anyhow::{Context, Result};
use clap::Subcommand;
use serde::Serialize;

use super::output::{self, Style, styled};
use super::thread::pick_thread;
use super::writer::Verb;
use super::{Run, status};
use crate::desk::{Prefix, Speaker};
use crate::forks::name_turn;
use crate::ids::{AgentId, ThreadId, TurnId};
use crate::page::Page;
use crate::page::event::By;
use crate::refused::Refused;
use crate::rules::writes;
use crate::session::Session;
use crate::session::journal::{self, Entry, Evidence, Kind, Naming, Outcome};
use crate::session::state::ForkTurn;
use crate::text;
use crate::transaction::Transaction;

/// A run's final text is read up to this many bytes.
const TEXT_LIMIT: u64 = 1 << 20;

/// `leaf fork …`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the forks of the session's present generation
    List,
    /// Stop a fork: its thread is handed back to main
    Stop {
        /// The fork's name, agent or turn
        name: String,
    },
    /// Show which prompt and tool use each run came from
    Tree,
    /// The line fork's text, on stdin (the module's)
    #[command(hide = true)]
    Line {
        /// The thread
        thread: String,
        /// The message that it was asked about
        #[arg(long)]
        through: Option<String>,
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
    },
}

/// Runs `leaf fork …`.
///
/// # Errors
/// The refusal, or what failed.
pub fn run(run: &Run, command: Command) -> Result<()> {
    match command {
        Command::List => list(run),
        Command::Stop { name } => stop(run, &name),
        Command::Tree => tree(run),
        Command::Line { thread, through } => line(run, &thread, through.as_deref()),
        Command::Started { turn, agent } => started(run, turn, &agent),
        Command::Ended { turn, agent, failed } => ended(run, turn, agent.as_ref(), failed),
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

fn line(run: &Run, thread: &str, through: Option<&str>) -> Result<()> {
    let speaker = modules(run)?;
    let prefix = Prefix::parse(thread)?;
    let through = through.map(Prefix::parse).transpose()?;
    let text = stdin_text()?;
    let page = run.page_of(&speaker, &format!("thread {prefix}"), true, |view, _| {
        view.order.iter().any(|id| prefix.begins((*id).into()))
    })?;
    let mut tx = Transaction::open(&run.desk, page, run.desk.deadline())?;
    let id = pick_thread(&tx.page.view, &prefix)?.id;
    output::print_json(&crate::line::answer(&run.desk, &mut tx, id, through.as_ref(), &text)?)
}

/// Finds the session and the page of a fork's turn. A run without a page is judged on the page that its session got last.
fn of_turn(run: &Run, speaker: &Speaker, wanted: impl Fn(&ForkTurn) -> bool) -> Result<Option<(Page, ForkTurn)>> {
    let Some(home) = run.desk.home()? else { return Ok(None) };
    let sessions = match run.session(speaker)? {
        Some(session) => vec![session],
        None => Session::all(&home)?,
    };
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

fn no_turn(what: &str) -> Refused {
    Refused::input(format!("there is no turn of a fork for {what}: `leaf fork list` shows what there is"))
}

fn started(run: &Run, turn: TurnId, agent: &AgentId) -> Result<()> {
    let speaker = modules(run)?;
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

fn ended(run: &Run, turn: Option<TurnId>, agent: Option<&AgentId>, failed: bool) -> Result<()> {
    let speaker = modules(run)?;
    let text = stdin_text()?;
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
            return output::print_json(&EndedJson { outcome: None, thread, wake: false, state: goes_on });
        }
    }
    let evidence = if failed && fork.begun.is_none() { Evidence::Failed } else { Evidence::Module };
    let outcome = tx.end(fork.id, evidence, &text, failed)?;
    let wake = matches!(outcome, Some(Outcome::Todo | Outcome::HandBack));
    output::print_json(&EndedJson { outcome, thread, wake, state: None })
}

fn list(run: &Run) -> Result<()> {
    let page = run.page_to_read()?;
    let view = page.view()?;
    let turns = status::page_state(run, &page, &view)?.turns;
    if run.common.json {
        return output::print_json(&turns);
    }
    let mut out = String::new();
    for turn in &turns {
        let state = format!("{:?}", turn.state).to_lowercase();
        let outcome = turn.outcome.map_or(String::new(), |outcome| format!(", {}", outcome_words(outcome)));
        let _ = writeln!(
            out,
            "{}  {state}{outcome}  since {}",
            styled(Style::Bold, &text::one_line(&turn.name)),
            turn.opened.brief()
        );
    }
    if out.is_empty() {
        "no fork has run in this session\n".clone_into(&mut out);
    }
    output::print(&out)
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

fn stop(run: &Run, name: &str) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    if run.acts_as_fork() {
        return Err(writes::never_a_forks("stopping a fork").into());
    }
    let named = |turn: &ForkTurn| {
        turn.name == name
            || turn.id.to_string() == name
            || turn.agent.as_ref().is_some_and(|agent| agent.as_str() == name)
    };
    let found = of_turn(run, &speaker, |turn| turn.ended.is_none() && named(turn))?;
    let (page, turn) = found.ok_or_else(|| no_turn(&text::first_words(name, 60)))?;
    let mut tx = Transaction::open(&run.desk, page, run.desk.deadline())?;
    tx.settle()?;
    let asked = Entry { turn: Some(turn.id), by: Some(By::Fork), ..Entry::new(tx.now, Kind::Stop) };
    tx.journal(&[asked])?;
    let outcome = tx.end(turn.id, Evidence::TaskStop, "", true)?;
    let name = text::one_line(&turn.name);
    if run.common.json {
        return output::print_json(&serde_json::json!({
            "turn": turn.id, "name": turn.name, "agent_id": turn.agent, "outcome": outcome,
        }));
    }
    let words = outcome.map_or("", outcome_words);
    output::print(&format!("fork {name} is stopped: {words}\n"))
}

#[derive(Serialize)]
struct Branch {
    turn: TurnId,
    name: Option<String>,
    agent: Option<AgentId>,
    parent: Option<AgentId>,
    thread: Option<ThreadId>,
    prompt: Option<String>,
    tool_use: Option<String>,
    began: crate::clock::Ts,
    outcome: Option<Outcome>,
}

/// Reads the runs off the journal (R120).
fn tree(run: &Run) -> Result<()> {
    let speaker = run.desk.speaker()?;
    let mut branches: Vec<Branch> = Vec::new();
    if let Some(session) = run.session(&speaker)? {
        let (entries, _) = journal::all(&session.dir)?;
        for entry in &entries {
            let Some(turn) = entry.turn.filter(|_| entry.by == Some(By::Fork)) else { continue };
            if !branches.iter().any(|branch| branch.turn == turn) {
                branches.push(Branch {
                    turn,
                    name: entry.name.clone(),
                    agent: None,
                    parent: None,
                    thread: entry.thread,
                    prompt: None,
                    tool_use: None,
                    began: entry.ts,
                    outcome: None,
                });
            }
            let Some(branch) = branches.iter_mut().find(|branch| branch.turn == turn) else { continue };
            if entry.kind == Kind::Named {
                branch.prompt = branch.prompt.take().or_else(|| entry.prompt.clone());
                branch.tool_use = branch.tool_use.take().or_else(|| entry.tool_use.clone());
            }
            if entry.agent.is_some() {
                branch.agent.clone_from(&entry.agent);
            }
            if entry.kind == Kind::Ended {
                branch.outcome = entry.outcome;
            }
        }
        let parents = session.state()?.agents;
        for branch in &mut branches {
            branch.parent = branch.agent.as_ref().and_then(|agent| parents.get(agent).cloned().flatten());
        }
    }
    if run.common.json {
        return output::print_json(&branches);
    }
    let mut out = String::new();
    for branch in &branches {
        let name = text::one_line(branch.name.as_deref().unwrap_or("a run that leaf did not start"));
        let of = branch.thread.map_or(String::new(), |thread| format!("  thread {thread}"));
        let from = match (&branch.prompt, &branch.tool_use) {
            (Some(prompt), Some(tool)) => format!("  from prompt {prompt}, tool use {tool}"),
            (Some(prompt), None) => format!("  from prompt {prompt}"),
            (None, Some(tool)) => format!("  from tool use {tool}"),
            (None, None) => String::new(),
        };
        let outcome = branch.outcome.map_or("runs", outcome_words);
        let _ = writeln!(out, "{name}  turn {}{of}  {outcome}{}", branch.turn, text::harmless(&from));
    }
    if out.is_empty() {
        "no fork has run in this session\n".clone_into(&mut out);
    }
    output::print(&out)
}
