//! A session's state: plain values, folded from its journal one entry at a time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::journal::{Action, ClerkLine, Cost, Entry, Evidence, Kind, Naming, Outcome, Runner};
use super::liveness::Life;
use crate::clock::Ts;
use crate::ids::{AgentId, DeliveryId, Generation, MessageId, PageId, ThreadId, TurnId};
use crate::page::event::By;
use crate::rules::way::Way;
use crate::schedule::record::{Change, Record};

/// A turn that nothing renewed for this long is lapsed (Words: *turn*), milliseconds.
pub const LAPSE: i64 = 15 * 60 * 1000;
/// A run that has no agent, or has not begun, for this long ends as failed (R38), and provisional evidence counts after it
/// where no follower is live (R78, R80), milliseconds.
pub const WAIT: i64 = 60_000;
/// A renewal younger than this writes nothing (R41), milliseconds.
pub const RENEWAL: i64 = 60 * 1000;

/// After so many starts of which nothing came, and never a run, a way is no longer tried (R117).
const MISSES: u32 = 3;

/// A session as its journal tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The time of the last entry.
    pub active: Ts,
    /// Lines that could not be read (R127).
    pub damaged: u32,
    /// The present generation.
    pub generation: Option<Generation>,
    /// Main's newest turn, open or ended.
    pub main: Option<MainTurn>,
    /// Main's turn before that one.
    pub previous: Option<TurnId>,
    /// The deliveries of these two turns whose output was flushed (R101).
    pub shown: Vec<Shown>,
    /// A page's `seq` up to which main heard of withdrawals and resolves (R8, R9).
    pub told: BTreeMap<PageId, u32>,
    /// The old debts that were said, once each (R104).
    pub debts: BTreeSet<(PageId, MessageId)>,
    /// The pointers that main was told of and has not acknowledged.
    pub pointers: Vec<Pointer>,
    /// How often Stop continued main's turn since its last tool boundary (R104).
    pub continued: u32,
    /// The turn that was told of its open to-dos at a Stop (R95).
    pub todo_line: Option<TurnId>,
    /// The clerk's lines that are not printed yet.
    pub clerk: Vec<ClerkLine>,
    /// The number of the clerk's last line.
    pub next_line: u64,
    /// The forks' turns: those that are open, and the last that ended.
    pub forks: Vec<ForkTurn>,
    /// The agents that are known, with who started a helper.
    pub agents: BTreeMap<AgentId, Option<AgentId>>,
    /// The messages that were handed to main (R17).
    pub handed: BTreeSet<(PageId, MessageId)>,
    /// The threads that wait for a fork to be free, first come first (R33).
    pub queue: Vec<(PageId, ThreadId)>,
    /// The `leaf` calls in flight (R72).
    pub calls: Vec<Call>,
    /// Forks' turns that somebody asked to stop, which the follower has not told of yet.
    pub stops: Vec<TurnId>,
    /// Whether a turn of this client ended without ever having had an agent (R39).
    pub unnamed_ended: bool,
    /// The messages that were kept back, until it is written what became of them (R16).
    pub kept: BTreeSet<(PageId, MessageId)>,
    /// Whether the person interrupted main and has not prompted since: the client then refuses the module's forks and prompts.
    #[serde(default)]
    pub stopped: bool,
    /// The pages' `seq` as main was last interrupted: what was there then waits for the next prompt (R105).
    pub interrupted: BTreeMap<PageId, u32>,
    /// What ran because of leaf in this generation (R122).
    #[serde(default)]
    pub spent: Spent,
    /// The schedule of forks.
    #[serde(default)]
    pub schedule: Record,
}

/// What ran because of leaf in a generation, with what the client told of its cost (R122).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Runs of forks.
    pub forks: u32,
    /// Questions that a line fork answered.
    pub lines: u32,
    /// The sum of what the client told; some runs' it never does.
    #[serde(flatten)]
    pub cost: Cost,
}

/// A run of a fork.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForkTurn {
    /// The turn.
    pub id: TurnId,
    /// The page and thread that it was opened for; `None` for a run that leaf did not start (R45).
    pub thread: Option<(PageId, ThreadId)>,
    /// The fork's name.
    pub name: String,
    /// Its agent, once it is named.
    pub agent: Option<AgentId>,
    /// What named it.
    pub naming: Option<Naming>,
    /// The client's id of the tool use that started its run.
    pub tool_use: Option<String>,
    /// Whether the client began its run by itself: leaf did not start it (R45).
    #[serde(default)]
    pub by_itself: bool,
    /// Its generation.
    pub generation: Option<Generation>,
    /// When it opened.
    pub opened: Ts,
    /// When it was last renewed.
    pub renewed: Ts,
    /// The page's `seq` at its last renewal out of a lapse: until then nobody took what it held (R43).
    pub unrobbed: u32,
    /// When its run began (R79).
    pub begun: Option<Ts>,
    /// Since when there is provisional evidence of its end (R78), and which.
    pub ending: Option<(Ts, Evidence)>,
    /// The work of its own that goes on while it rests (R80).
    pub rests_on: Vec<String>,
    /// When a payload first no longer listed that work.
    pub rest_over: Option<Ts>,
    /// Tasks that its boundaries named as its own.
    pub own_tasks: Vec<String>,
    /// Whether a payload of this run listed it among the running ones (R78).
    pub listed: bool,
    /// The page's `seq` up to which it heard of withdrawals and resolves (R75).
    pub told: u32,
    /// When it ended.
    pub ended: Option<Ts>,
    /// How it was judged.
    pub outcome: Option<Outcome>,
    /// What it cost so far, where the client told (R122).
    #[serde(default)]
    pub cost: Cost,
    /// Whether its cost was told at its end or after it: a report that is repeated counts once.
    #[serde(default)]
    pub accounted: bool,
    /// What the module was told, until the run began (R29).
    pub action: Option<Action>,
    /// How it runs (R117).
    #[serde(default)]
    pub way: Option<Way>,
    /// A headless run's process (R118).
    #[serde(default)]
    pub runner: Option<Runner>,
    /// Whether it ended because it was never started: the client refused, or nobody did (R35, R38).
    #[serde(default)]
    pub missed: bool,
    /// Whether that process was dead as the state was read: what the system says, and no entry.
    #[serde(skip)]
    pub runner_gone: bool,
}

/// A `leaf` call that an actor makes (R72).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The actor; `None` for main.
    pub agent: Option<AgentId>,
    /// The client's id of the tool use.
    pub tool_use: String,
    /// Whether the hook marked it.
    pub marked: bool,
}

/// How a fork's turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// Its run goes on.
    Running,
    /// Only its own background work goes on.
    Resting,
    /// Nothing renewed it for 15 minutes.
    Lapsed,
    /// It is over.
    Ended,
}

impl TurnState {
    /// Whether the turn runs (Words: *running*).
    pub fn runs(self) -> bool {
        matches!(self, TurnState::Running | TurnState::Resting)
    }
}

impl ForkTurn {
    /// Tells what the turn's end rests on that time, a new generation or a client's death brought and that nobody wrote yet
    /// (R88). `alive` is whether the session's client lives, `generation` the session's present one, `followed` whether a
    /// follower is live.
    pub fn due(&self, generation: Option<Generation>, alive: bool, followed: bool, now: Ts) -> Option<Evidence> {
        let over = |since: Ts| now.since(since) >= WAIT;
        if self.ended.is_some() {
            return None;
        }
        if self.generation != generation {
            return Some(Evidence::Generation);
        }
        if let Some(runner) = &self.runner {
            // It lives by its own process, whatever became of the client (Words: *running*).
            return match (self.runner_gone, now >= runner.until) {
                (true, _) => Some(Evidence::Process),
                (false, true) => Some(Evidence::Limit),
                (false, false) => None,
            };
        }
        if !alive {
            return Some(Evidence::Client);
        }
        if (self.agent.is_none() || self.begun.is_none()) && over(self.opened) {
            return Some(Evidence::Unstarted);
        }
        if self.rest_over.is_some_and(over) {
            return Some(Evidence::Missing);
        }
        match self.ending {
            Some((since, evidence)) if over(since) && !followed => Some(evidence),
            _ => None,
        }
    }

    /// Tells how the turn stands, with what [`ForkTurn::due`] brought.
    pub fn stands(&self, generation: Option<Generation>, alive: bool, followed: bool, now: Ts) -> TurnState {
        if self.ended.is_some() || self.due(generation, alive, followed, now).is_some() {
            TurnState::Ended
        } else if now.since(self.renewed) >= LAPSE {
            TurnState::Lapsed
        } else if self.rests_on.is_empty() {
            TurnState::Running
        } else {
            TurnState::Resting
        }
    }
}

/// A turn of main.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MainTurn {
    /// The turn.
    pub id: TurnId,
    /// Its generation.
    pub generation: Option<Generation>,
    /// The client's prompt id.
    pub prompt: Option<String>,
    /// When it opened.
    pub opened: Ts,
    /// When it was last renewed.
    pub renewed: Ts,
    /// When it ended.
    pub ended: Option<Ts>,
}

/// A delivery that was shown, with the turn that it was for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The page.
    pub page: PageId,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Main's turn then.
    pub turn: Option<TurnId>,
}

/// A delivery by pointer that main was told of (R76).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pointer {
    /// The page.
    pub page: PageId,
    /// The delivery.
    pub delivery: DeliveryId,
    /// The messages that it carries.
    pub messages: Vec<MessageId>,
    /// The turn that was told of it last (R101: once a turn).
    pub turn: Option<TurnId>,
}

impl MainTurn {
    /// Whether the turn is open: not ended, and renewed within the last 15 minutes.
    pub fn open(&self, now: Ts) -> bool {
        self.ended.is_none() && now.since(self.renewed) < LAPSE
    }
}

impl State {
    /// Returns main's open turn.
    pub fn open_turn(&self, now: Ts) -> Option<&MainTurn> {
        self.main.as_ref().filter(|turn| turn.open(now))
    }

    /// Whether a delivery to main needs no repetition: it was shown, or it is of a turn long gone (R101).
    pub fn was_shown(&self, page: &PageId, delivery: DeliveryId, turn: TurnId) -> bool {
        let recent = self.main.as_ref().is_some_and(|main| main.id == turn) || self.previous == Some(turn);
        !recent || self.shown.iter().any(|shown| shown.delivery == delivery && shown.page == *page)
    }

    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        if let Some(state) = &entry.state {
            *self = (**state).clone();
            return;
        }
        self.active = self.active.max(entry.ts);
        match entry.kind {
            Kind::Generation => {
                self.generation = entry.generation;
                self.continued = 0;
                self.kept.clear();
                self.calls.clear();
                self.queue.clear();
                self.stops.clear();
                self.spent = Spent::default();
            }
            Kind::Begun => {
                let Some(turn) = entry.turn else { return };
                if entry.by == Some(By::Fork) {
                    return self.apply_begun(entry, turn);
                }
                self.interrupted.clear();
                self.stopped &= entry.clients;
                self.previous = self.main.as_ref().map(|main| main.id);
                let kept = self.previous;
                self.shown.retain(|shown| shown.turn == kept);
                self.main = Some(MainTurn {
                    id: turn,
                    generation: self.generation,
                    prompt: entry.prompt.clone(),
                    opened: entry.ts,
                    renewed: entry.ts,
                    ended: None,
                });
                self.continued = 0;
            }
            Kind::Renewed => {
                if let Some(turn) = self.fork_mut(entry.turn) {
                    turn.renewed = turn.renewed.max(entry.ts);
                    turn.unrobbed = turn.unrobbed.max(entry.seq.unwrap_or(0));
                    turn.ending = None;
                    turn.rests_on.clear();
                    turn.rest_over = None;
                    return;
                }
                if let Some(main) = self.main.as_mut().filter(|main| Some(main.id) == entry.turn) {
                    main.renewed = main.renewed.max(entry.ts);
                }
                if entry.boundary {
                    self.continued = 0;
                }
            }
            Kind::Ended => {
                if let Some(turn) = self.fork_mut(entry.turn) {
                    turn.ended = Some(entry.ts);
                    turn.outcome = entry.outcome;
                    let never = matches!(entry.evidence, Some(Evidence::Failed | Evidence::Unstarted));
                    turn.missed = never && turn.begun.is_none();
                    turn.cost = turn.cost.plus(entry.cost());
                    turn.accounted = entry.cost().is_told();
                    turn.action = None;
                    let agent = turn.agent.clone();
                    let unnamed = agent.is_none();
                    self.spent.cost = self.spent.cost.plus(entry.cost());
                    self.unnamed_ended |= unnamed;
                    // Its calls are over with its run, its helpers' too (R72).
                    let helpers = &self.agents;
                    self.calls.retain(|call| match &call.agent {
                        Some(caller) => {
                            agent.as_ref() != Some(caller)
                                && helpers.get(caller).is_none_or(|parent| parent.is_none() || *parent != agent)
                        }
                        None => true,
                    });
                    // The take's line, still unread, goes; the end's comes in the same append (R86).
                    self.clerk.retain(|line| line.turn.is_none() || line.turn != entry.turn);
                    if let Some(line) = &entry.line {
                        self.tell(line);
                    }
                    self.forget_old();
                    return;
                }
                if let Some(seqs) = &entry.interrupted {
                    self.interrupted.clone_from(seqs);
                    self.stopped = true;
                    // What was there then waits for the next prompt (R105).
                    for line in &mut self.clerk {
                        line.wake = false;
                    }
                }
                if let Some(main) = self.main.as_mut().filter(|main| Some(main.id) == entry.turn) {
                    main.ended = Some(entry.ts);
                }
            }
            Kind::Shown => {
                let (Some(page), Some(delivery)) = (entry.page.clone(), entry.delivery) else { return };
                self.pointers.retain(|pointer| pointer.delivery != delivery || pointer.page != page);
                self.shown.push(Shown { page, delivery, turn: self.main.as_ref().map(|main| main.id) });
            }
            Kind::Told => self.apply_told(entry),
            Kind::Continued => {
                self.continued = self.continued.saturating_add(1);
                if entry.rule.as_deref() == Some("R95") {
                    self.todo_line = entry.turn;
                }
            }
            Kind::Clerk => {
                let Some(line) = &entry.line else { return };
                self.tell(line);
                for (page, message) in entry.page.iter().flat_map(|page| entry.messages.iter().map(move |m| (page, m)))
                {
                    self.kept.remove(&(page.clone(), *message));
                }
            }
            Kind::Printed => self.clerk.retain(|line| !entry.lines.contains(&line.id)),
            Kind::Taken | Kind::Queued | Kind::Handed => self.apply_take(entry),
            Kind::Named | Kind::Resting | Kind::Ending | Kind::Lapsed => self.apply_fork(entry),
            Kind::Agent => match &entry.agent {
                Some(agent) => drop(self.agents.insert(agent.clone(), entry.parent.clone())),
                // One that a turn of this client awaited, under another session.
                None => self.unnamed_ended = true,
            },
            Kind::Background if entry.turn.is_some() => {
                if let Some(turn) = self.fork_mut(entry.turn) {
                    turn.listed = true;
                }
            }
            Kind::Background => {
                let agent = entry.agent.as_ref();
                if let Some(turn) =
                    self.forks.iter_mut().find(|turn| turn.ended.is_none() && turn.agent.as_ref() == agent)
                {
                    turn.own_tasks.extend(entry.tasks.iter().cloned());
                }
            }
            Kind::Call => match &entry.tool_use {
                Some(tool_use) => self.calls.push(Call {
                    agent: entry.agent.clone(),
                    tool_use: tool_use.clone(),
                    marked: entry.marked,
                }),
                None => self.calls.retain(|call| call.agent != entry.agent),
            },
            Kind::Stop => {
                if let Some(turn) = entry.turn {
                    self.stops.retain(|other| *other != turn);
                    // With evidence: the follower told of it.
                    if entry.evidence.is_none() {
                        self.stops.push(turn);
                    }
                }
            }
            Kind::KeptBack => {
                if let Some(page) = &entry.page {
                    self.kept.extend(entry.messages.iter().map(|message| (page.clone(), *message)));
                }
            }
            Kind::Line => {
                self.spent.lines = self.spent.lines.saturating_add(1);
                self.spent.cost = self.spent.cost.plus(entry.cost());
            }
            Kind::Cost => self.apply_cost(entry),
            Kind::Schedule => {
                if let Some(change) = &entry.schedule {
                    self.schedule.apply(entry.ts, change);
                    // A scheduled fork in the session is known like any other.
                    if let Change::Begun { agent: Some(agent), .. } = &**change {
                        self.agents.entry(agent.clone()).or_default();
                    }
                }
            }
            Kind::Sort | Kind::Refused | Kind::Checkpoint | Kind::Unknown => {}
        }
    }

    /// Whether a fork runs, or could begin to while a call is in flight (R72). `followed`: a follower is live.
    pub fn forks_may_run(&self, followed: bool) -> bool {
        followed || !self.agents.is_empty() || self.forks.iter().any(|turn| turn.ended.is_none())
    }

    /// Whether forks can't be started in this way, as far as it was seen in this generation: nothing came of it again and again, and
    /// never a run. One refusal may be the client's limit of the moment (R117).
    pub fn misses(&self, way: Way) -> bool {
        let of = |turn: &&ForkTurn| turn.generation == self.generation && turn.way == Some(way);
        let (mut missed, mut began) = (0, false);
        for turn in self.forks.iter().filter(of) {
            missed += u32::from(turn.missed);
            began |= turn.begun.is_some();
        }
        missed >= MISSES && !began
    }

    /// Looks which open headless runs' processes are dead (R118): the one thing of a turn that no entry tells.
    pub fn look_at_runners(&mut self) {
        for turn in self.forks.iter_mut().filter(|turn| turn.ended.is_none()) {
            if let Some(runner) = &turn.runner {
                turn.runner_gone = runner.process.life() == Life::Dead;
            }
        }
    }

    /// Returns a fork's turn.
    pub fn fork(&self, id: TurnId) -> Option<&ForkTurn> {
        self.forks.iter().find(|turn| turn.id == id)
    }

    fn fork_mut(&mut self, id: Option<TurnId>) -> Option<&mut ForkTurn> {
        self.forks.iter_mut().find(|turn| Some(turn.id) == id)
    }

    /// Returns the open turn that an agent acts in: its own, a helper's fork's (R67).
    pub fn open_fork(&self, agent: &AgentId) -> Option<&ForkTurn> {
        let mut agent = agent;
        // A helper may have been started by a helper.
        for _ in 0..16 {
            if let Some(turn) =
                self.forks.iter().rev().find(|turn| turn.ended.is_none() && turn.agent.as_ref() == Some(agent))
            {
                return Some(turn);
            }
            agent = self.agents.get(agent)?.as_ref()?;
        }
        None
    }

    fn apply_take(&mut self, entry: &Entry) {
        let (Some(page), Some(thread)) = (entry.page.clone(), entry.thread) else { return };
        if entry.kind != Kind::Queued {
            for message in &entry.messages {
                self.kept.remove(&(page.clone(), *message));
            }
        }
        match entry.kind {
            Kind::Queued => {
                if !self.queue.contains(&(page.clone(), thread)) {
                    self.queue.push((page, thread));
                }
                return;
            }
            Kind::Handed => {
                self.handed.extend(entry.messages.iter().map(|message| (page.clone(), *message)));
                self.queue.retain(|queued| *queued != (page.clone(), thread));
                return;
            }
            _ => {}
        }
        self.queue.retain(|queued| *queued != (page.clone(), thread));
        let (Some(By::Fork), Some(id)) = (entry.by, entry.turn) else { return };
        if let Some(turn) = self.fork_mut(Some(id)) {
            // A take into a run that leaf did not start (R45), or further messages.
            turn.thread.get_or_insert((page, thread));
            if entry.does.is_some() {
                turn.action.clone_from(&entry.does);
            }
            return;
        }
        self.spent.forks = self.spent.forks.saturating_add(1);
        self.forks.push(ForkTurn {
            id,
            thread: Some((page, thread)),
            name: entry.name.clone().unwrap_or_default(),
            agent: entry.agent.clone(),
            naming: entry.naming,
            tool_use: None,
            by_itself: false,
            generation: self.generation,
            opened: entry.ts,
            renewed: entry.ts,
            unrobbed: 0,
            begun: None,
            ending: None,
            rests_on: Vec::new(),
            rest_over: None,
            own_tasks: Vec::new(),
            listed: false,
            told: 0,
            ended: None,
            outcome: None,
            cost: Cost::default(),
            accounted: false,
            action: entry.does.clone(),
            way: entry.way,
            runner: None,
            missed: false,
            runner_gone: false,
        });
        self.know(entry.agent.as_ref());
        if let Some(line) = &entry.line {
            self.next_line = self.next_line.max(line.id);
            self.clerk.push(line.clone());
        }
    }

    /// A cost that came by itself: of a turn that rests or has ended, or of a line that was not posted (R122).
    fn apply_cost(&mut self, entry: &Entry) {
        match (entry.turn, self.fork_mut(entry.turn)) {
            (Some(_), Some(turn)) if turn.accounted => return,
            (Some(_), Some(turn)) => {
                turn.cost = turn.cost.plus(entry.cost());
                turn.accounted = turn.ended.is_some();
            }
            (Some(_), None) => return,
            (None, _) => self.spent.lines = self.spent.lines.saturating_add(1),
        }
        self.spent.cost = self.spent.cost.plus(entry.cost());
    }

    /// A fork's run began (R79); one that leaf did not start opens its turn with it, named (R45).
    fn apply_begun(&mut self, entry: &Entry, id: TurnId) {
        if let Some(turn) = self.fork_mut(Some(id)) {
            turn.begun.get_or_insert(entry.ts);
            if entry.runner.is_some() {
                turn.runner.clone_from(&entry.runner);
            }
            turn.renewed = turn.renewed.max(entry.ts);
            turn.ending = None;
            turn.rests_on.clear();
            turn.rest_over = None;
            turn.action = None;
            return;
        }
        self.spent.forks = self.spent.forks.saturating_add(1);
        self.forks.push(ForkTurn {
            id,
            thread: None,
            name: entry.name.clone().unwrap_or_default(),
            agent: entry.agent.clone(),
            naming: None,
            tool_use: None,
            by_itself: true,
            generation: self.generation,
            opened: entry.ts,
            renewed: entry.ts,
            unrobbed: 0,
            begun: Some(entry.ts),
            ending: None,
            rests_on: Vec::new(),
            rest_over: None,
            own_tasks: Vec::new(),
            listed: false,
            told: 0,
            ended: None,
            outcome: None,
            cost: Cost::default(),
            accounted: false,
            action: None,
            way: None,
            runner: None,
            missed: false,
            runner_gone: false,
        });
        self.know(entry.agent.as_ref());
    }

    /// A line for the clerk. Of a to-do the newest counts: an earlier one's write may have been killed before the to-do stood.
    fn tell(&mut self, line: &ClerkLine) {
        self.next_line = self.next_line.max(line.id);
        self.clerk.retain(|other| other.todo.is_none() || other.todo != line.todo);
        self.clerk.push(line.clone());
    }

    /// Ended turns are kept while they are of the present generation, and a few before.
    fn forget_old(&mut self) {
        const KEPT: usize = 256;
        while self.forks.len() > KEPT {
            match self.forks.iter().position(|turn| turn.ended.is_some()) {
                Some(oldest) => drop(self.forks.remove(oldest)),
                None => break,
            }
        }
    }

    fn know(&mut self, agent: Option<&AgentId>) {
        if let Some(agent) = agent {
            self.agents.entry(agent.clone()).or_insert(None);
        }
    }

    fn apply_fork(&mut self, entry: &Entry) {
        let (ts, kind) = (entry.ts, entry.kind);
        if kind == Kind::Named {
            self.know(entry.agent.as_ref());
        }
        let Some(turn) = self.fork_mut(entry.turn) else { return };
        match kind {
            Kind::Named => {
                // With another agent the one with tool-use evidence wins (R37).
                if turn.agent.is_none() || entry.naming >= turn.naming {
                    turn.agent.clone_from(&entry.agent);
                    turn.naming = entry.naming;
                }
                if entry.tool_use.is_some() {
                    turn.tool_use.clone_from(&entry.tool_use);
                }
                turn.begun.get_or_insert(ts);
                turn.renewed = turn.renewed.max(ts);
                turn.action = None;
            }
            Kind::Resting => {
                if entry.tasks.is_empty() {
                    turn.rest_over.get_or_insert(ts);
                } else {
                    turn.rests_on.clone_from(&entry.tasks);
                    turn.rest_over = None;
                    turn.ending = None;
                }
            }
            Kind::Ending => {
                if let Some(evidence) = entry.evidence {
                    turn.ending.get_or_insert((ts, evidence));
                }
            }
            _ => {}
        }
    }

    fn apply_told(&mut self, entry: &Entry) {
        let Some(page) = entry.page.clone() else { return };
        if entry.by == Some(By::Fork) {
            if let (Some(turn), Some(seq)) = (self.fork_mut(entry.turn), entry.seq) {
                turn.told = turn.told.max(seq);
            }
            return;
        }
        if let Some(seq) = entry.seq {
            let told = self.told.entry(page.clone()).or_default();
            *told = (*told).max(seq);
        }
        match entry.delivery {
            Some(delivery) => {
                self.pointers.retain(|pointer| pointer.delivery != delivery || pointer.page != page);
                let messages = entry.messages.clone();
                self.pointers.push(Pointer { page, delivery, messages, turn: entry.turn });
            }
            None => {
                for message in &entry.messages {
                    self.debts.insert((page.clone(), *message));
                }
            }
        }
    }
}
