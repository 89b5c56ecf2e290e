//! `leaf fork tree`: main, its prompts, the runs that came of them, and their helpers, read off the journal (R120, R122).

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::super::Run;
use super::super::output::{self, Style, styled};
use super::super::why::sentences;
use super::turn_outcome_words;
use crate::clock::Ts;
use crate::ids::{AgentId, ThreadId, TurnId};
use crate::page::event::By;
use crate::page::state::{ForkState, TurnOutcome, scheduled};
use crate::session::journal::{self, Cost, Entry, Evidence, Kind};
use crate::session::lane::{self, Lane};
use crate::session::state::{State, TurnState};
use crate::text;

/// A run.
#[derive(Serialize)]
struct Branch {
    turn: TurnId,
    name: Option<String>,
    agent: Option<AgentId>,
    parent: Option<AgentId>,
    thread: Option<ThreadId>,
    prompt: Option<String>,
    tool_use: Option<String>,
    began: Ts,
    state: TurnState,
    outcome: Option<TurnOutcome>,
    evidence: Option<Evidence>,
    /// The moment that a scheduled run was due at.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<String>,
    #[serde(flatten)]
    cost: Cost,
    helpers: Vec<Helper>,
}

/// An agent that a run, or a helper of it, started.
#[derive(Serialize)]
struct Helper {
    agent: AgentId,
    parent: AgentId,
}

/// What a run came of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin<'b> {
    Prompt(&'b str),
    Schedule,
    Unknown,
}

impl Branch {
    fn opened(entry: &Entry, turn: TurnId) -> Branch {
        Branch {
            turn,
            name: None,
            agent: None,
            parent: None,
            thread: None,
            prompt: None,
            tool_use: None,
            began: entry.ts,
            state: TurnState::Ended,
            outcome: None,
            evidence: None,
            trigger: None,
            cost: Cost::default(),
            helpers: Vec::new(),
        }
    }

    fn scheduled(turn: ForkState, state: &State) -> Branch {
        let run = state.schedule.run(turn.turn);
        Branch {
            turn: turn.turn,
            name: Some(turn.name),
            agent: turn.agent_id,
            parent: None,
            thread: None,
            prompt: None,
            tool_use: None,
            began: turn.opened,
            state: turn.state,
            outcome: turn.outcome,
            evidence: None,
            trigger: run.map(|run| run.issue.label.clone()),
            cost: run.map(|run| run.cost).unwrap_or_default(),
            helpers: Vec::new(),
        }
    }

    /// What it came of.
    fn origin(&self) -> Origin<'_> {
        match (&self.prompt, &self.trigger) {
            (Some(prompt), _) => Origin::Prompt(prompt),
            (None, Some(_)) => Origin::Schedule,
            (None, None) => Origin::Unknown,
        }
    }

    fn take(&mut self, entry: &Entry) {
        self.name = self.name.take().or_else(|| entry.name.clone());
        self.thread = self.thread.or(entry.thread);
        self.cost = self.cost.plus(entry.cost());
        if entry.kind == Kind::Named {
            self.prompt = self.prompt.take().or_else(|| entry.prompt.clone());
            self.tool_use = self.tool_use.take().or_else(|| entry.tool_use.clone());
        }
        if entry.agent.is_some() {
            self.agent.clone_from(&entry.agent);
        }
        if entry.kind == Kind::Ended {
            (self.outcome, self.evidence) = (entry.outcome.map(TurnOutcome::Judged), entry.evidence);
        }
    }
}

/// Runs `leaf fork tree`.
///
/// # Errors
/// Where the journal can't be read.
pub fn run(run: &Run) -> Result<()> {
    let speaker = run.desk.speaker()?;
    let mut branches = Vec::new();
    if let Some(session) = run.session(&speaker)? {
        branches = grown(&journal::all(&session.dir)?.0);
        let state: State = session.state()?;
        let followed = lane::holder(&session, Lane::Follower).is_some();
        for branch in &mut branches {
            branch.parent = branch.agent.as_ref().and_then(|agent| state.agents.get(agent).cloned().flatten());
            if let Some(turn) = state.fork(branch.turn) {
                let alive = session.record.client_lives();
                branch.state = turn.stands(state.generation, alive, followed, run.desk.now());
            }
        }
        branches.extend(scheduled(&state.schedule).map(|turn| Branch::scheduled(turn, &state)));
        branches.sort_by_key(|branch| branch.began);
    }
    if run.common.json {
        return output::print_json(&branches);
    }
    if branches.is_empty() {
        return output::print("no fork has run in this session\n");
    }
    output::print(&drawn(&branches))
}

/// Reads the runs off the journal, in the order of their opening.
fn grown(entries: &[Entry]) -> Vec<Branch> {
    let mut branches: Vec<Branch> = Vec::new();
    for entry in entries {
        if let (Kind::Agent, Some(agent), Some(parent)) = (entry.kind, &entry.agent, &entry.parent) {
            let starts = |branch: &Branch| {
                branch.agent.as_ref() == Some(parent) || branch.helpers.iter().any(|helper| helper.agent == *parent)
            };
            if let Some(branch) = branches.iter_mut().rev().find(|branch| starts(branch)) {
                branch.helpers.push(Helper { agent: agent.clone(), parent: parent.clone() });
            }
            continue;
        }
        let Some(turn) = entry.turn.filter(|_| entry.by == Some(By::Fork)) else { continue };
        match branches.iter_mut().find(|branch| branch.turn == turn) {
            Some(branch) => branch.take(entry),
            None => {
                let mut branch = Branch::opened(entry, turn);
                branch.take(entry);
                branches.push(branch);
            }
        }
    }
    branches
}

fn drawn(branches: &[Branch]) -> String {
    let mut prompts: Vec<Origin<'_>> = Vec::new();
    for branch in branches {
        let prompt = branch.origin();
        if !prompts.contains(&prompt) {
            prompts.push(prompt);
        }
    }
    let mut out = "main\n".to_owned();
    for (at, prompt) in prompts.iter().enumerate() {
        let (knot, stem) = knot(at + 1 == prompts.len());
        let head = match prompt {
            Origin::Prompt(prompt) => format!("prompt {}", text::one_line(prompt)),
            Origin::Schedule => "the schedule".to_owned(),
            Origin::Unknown => "no prompt known".to_owned(),
        };
        let _ = writeln!(out, "{knot}{head}");
        let runs: Vec<&Branch> = branches.iter().filter(|branch| branch.origin() == *prompt).collect();
        for (at, run) in runs.iter().enumerate() {
            let (knot, below) = self::knot(at + 1 == runs.len());
            let _ = writeln!(out, "{stem}{knot}{}", run_line(run));
            if let Some(agent) = &run.agent {
                helpers(run, agent, &format!("{stem}{below}"), &mut out);
            }
        }
    }
    out
}

/// What stands before a node, and before what is below it.
fn knot(last: bool) -> (&'static str, &'static str) {
    if last { ("└─ ", "   ") } else { ("├─ ", "│  ") }
}

fn helpers(run: &Branch, parent: &AgentId, stem: &str, out: &mut String) {
    let below: Vec<&Helper> = run.helpers.iter().filter(|helper| helper.parent == *parent).collect();
    for (at, helper) in below.iter().enumerate() {
        let (knot, deeper) = knot(at + 1 == below.len());
        let _ = writeln!(out, "{stem}{knot}helper {}", helper.agent);
        // An agent that is its own ancestor is no tree.
        if stem.len() < 200 {
            helpers(run, &helper.agent, &format!("{stem}{deeper}"), out);
        }
    }
}

fn run_line(run: &Branch) -> String {
    let name = text::one_line(run.name.as_deref().unwrap_or("a run that leaf did not start"));
    let of = run.thread.map_or(String::new(), |thread| format!("  thread {thread}"));
    let how = match (run.outcome, run.evidence) {
        (Some(outcome), Some(evidence)) => {
            format!("{} ({})", turn_outcome_words(outcome), sentences::evidence(evidence))
        }
        (Some(outcome), None) => turn_outcome_words(outcome).to_owned(),
        (None, _) => super::super::status::stands(run.state).to_owned(),
    };
    let cost = output::cost_words(run.cost);
    let cost = if cost.is_empty() { cost } else { format!("  {cost}") };
    let trigger = run.trigger.as_ref().map_or(String::new(), |label| format!("  {}", text::one_line(label)));
    let tool = run.tool_use.as_ref().map_or(String::new(), |tool| format!("  tool use {}", text::one_line(tool)));
    format!("{}  turn {}{of}{trigger}  {how}{cost}{tool}", styled(Style::Bold, &name), run.turn)
}
