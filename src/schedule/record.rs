//! A session's record of its schedule: pauses, latches, stamps, runs. Plain values, folded from the journal's `schedule` entries.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::clock::Ts;
use crate::ids::{AgentId, TurnId};
use crate::session::journal::Cost;
use crate::session::liveness::Process;

/// How long a fork's issues are remembered for the runaway breaker, milliseconds.
pub const HOUR: i64 = 3_600_000;
/// The label of a run that a person or an agent asked for: it stamps nothing.
pub const MANUAL: &str = "manual";
/// How many ended runs stay in the record.
const KEEP: usize = 50;
/// How much that happened lifecycle hooks may be owed.
const OWED: usize = 64;

/// What happened to a session's schedule; one journal entry each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// The person did something: the pause is over, what it held back is dropped. `idle`: main is idle and stays so, a new pause
    /// begins at once.
    Activity {
        /// Whether no Stop will come of it.
        idle: bool,
        /// What it was: `prompt`, `message`, `notification`.
        why: String,
    },
    /// Main stopped. The first Stop of a pause without work in the background begins it.
    Stopped {
        /// The session's work in the background, forks of ours left out.
        background: Vec<String>,
    },
    /// Main is at work: a turn of its own began that is no activity of the person's.
    Working,
    /// Forks were selected, and stamped.
    Issued {
        /// The batch.
        runs: Vec<Issue>,
        /// Who issued it: where it dies before a run begins, that run has failed.
        owner: Process,
        /// Whether the session was closing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        flush: bool,
    },
    /// A run's process or agent began; with neither, its work was put into the call that starts its agent.
    Begun {
        /// The run.
        run: TurnId,
        /// The process that runs it: `leaf runner`, or a command.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<Process>,
        /// Its agent, in the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<AgentId>,
    },
    /// A run's client is about to begin: whoever finds the run's process dead ends this one.
    Attempt {
        /// The run.
        run: TurnId,
        /// The client's process, the leader of its own group.
        process: Process,
    },
    /// A run is over.
    Over {
        /// The run.
        run: TurnId,
        /// How.
        outcome: RunOutcome,
        /// Whether its report asked for another run, and may have one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
        /// Whether there is a report to deliver.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        report: bool,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// The model that it ran on, where it isn't the session's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// What it cost.
        #[serde(default)]
        cost: Cost,
    },
    /// Reports are being printed by this process: nobody else prints them while it lives.
    Printing {
        /// The runs whose reports they are.
        runs: Vec<TurnId>,
        /// Who prints.
        by: Process,
    },
    /// A part of a report, or the rest of it, was printed.
    Printed {
        /// The run.
        run: TurnId,
        /// How far it was printed, bytes; `None`: all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<u64>,
    },
    /// The watch left to wake the session for a report.
    Woke,
    /// A lifecycle hook ran, or was begun.
    Hook {
        /// Its name.
        name: String,
        /// Its moment's label.
        label: String,
    },
    /// Something happened that the session's lifecycle hooks are owed: a process of leaf's is to tell them.
    Happened {
        /// What.
        event: Happening,
    },
    /// A process took on telling the hooks of all that happened up to this number: nobody else does.
    Told {
        /// The number of the last.
        to: u64,
    },
    /// A lifecycle hook said something that the session is to read: its report is there.
    Fed {
        /// What its report is filed under.
        run: TurnId,
        /// The hook.
        name: String,
        /// Its file.
        path: String,
        /// Its moment's label.
        label: String,
        /// Whether an idle session is woken for it.
        wake: bool,
    },
    /// The files that a `changed` moment's pattern matches were looked at.
    Looked {
        /// The pattern.
        pattern: String,
        /// What was seen: a hash of their names, sizes and times.
        seen: String,
    },
    /// Something outside of the session happened: a file changed, `leaf emit` named an event.
    Raised {
        /// The moment's label.
        label: String,
    },
    /// The session is closed: its end was reported or seen, once.
    Closed {
        /// Why: the client's word, or `gone`, `timeout`, `pruned`.
        reason: String,
    },
    /// The session is open (again). `source`: the client's word for how.
    Opened {
        /// The client's word, where it gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// The model, where it named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The tags that the client's environment switches on and off.
        #[serde(default)]
        tags: Filter,
    },
    /// The clock went back: what is stamped with a later time is stamped with this one.
    Clock {
        /// The time now.
        now: Ts,
    },
}

/// What lifecycle hooks are told of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Happening {
    /// The session opened.
    SessionStart {
        /// The client's word for how, where it gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// A genuine prompt.
    Activity,
    /// The session has been idle long enough for one of them.
    Idle,
    /// The session closed.
    SessionEnd {
        /// Why.
        reason: String,
    },
    /// A file changed that this pattern matches.
    Changed {
        /// The pattern.
        pattern: String,
    },
    /// `leaf emit` named this event.
    Event {
        /// Its name.
        name: String,
    },
}

/// Something that happened and that no hook was told of yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happened {
    /// Its number in the session.
    pub number: u64,
    /// When.
    pub at: Ts,
    /// What.
    pub what: Happening,
}

/// One fork of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Issue {
    /// The run, which is an agent turn.
    pub run: TurnId,
    /// The fork.
    pub fork: String,
    /// Its file.
    pub path: String,
    /// The moment's label.
    pub label: String,
    /// The runs of the batch that it waits for; none: it begins at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_for: Vec<TurnId>,
    /// Those of them whose reports it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports_of: Vec<TurnId>,
    /// Whether it is a gate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gate: bool,
    /// Whether it may ask for another run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub chain: bool,
    /// How it runs.
    pub runner: Runner,
}

/// How a scheduled fork runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// A process of its own: quiet, a cold cache.
    #[default]
    Headless,
    /// In the session, through the hooks module: quiet, a warm cache.
    Module,
    /// In the session, started by its model: visible, a warm cache.
    Subagent,
}

impl Runner {
    /// Returns the runner of a name.
    pub fn parse(name: &str) -> Option<Runner> {
        [Runner::Headless, Runner::Module, Runner::Subagent].into_iter().find(|runner| runner.word() == name)
    }

    /// Returns its name in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Runner::Headless => "headless",
            Runner::Module => "module",
            Runner::Subagent => "subagent",
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// It gave its report.
    Completed,
    /// It failed, or was killed.
    Failed,
    /// Somebody stopped it.
    Stopped,
    /// It waited for others, and the person came back, or the session closed.
    Dropped,
}

/// How often a chain may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Runs of the fork in an hour; 0: any number.
    pub hourly: u32,
    /// Runs of the fork in a pause.
    pub chain: u32,
}

/// A session's record of its schedule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The pause's number: activity counts it up.
    pub epoch: u64,
    /// Since when the session is idle: the first Stop of the pause without work in its background.
    pub since: Option<Ts>,
    /// The last Stop; `None` while main is at work, and before the first.
    pub stopped: Option<Ts>,
    /// What went on in the background then, each with when it was first seen.
    pub background: BTreeMap<String, Ts>,
    /// The first Stop of the pause, whatever went on in the background.
    pub first_stop: Option<Ts>,
    /// When a gate was last lifted in this pause: the idle moments that it held count from then.
    pub lifted: Option<Ts>,
    /// The model that the client last named.
    pub model: Option<String>,
    /// The tags that the client's environment switches on and off.
    pub tags: Filter,
    /// When the session began.
    pub began: Option<Ts>,
    /// Why it is closed; `None`: it is open.
    pub closed: Option<Closed>,
    /// The forks that were ever issued here.
    pub forks: BTreeMap<String, Stamps>,
    /// The fork whose run or chain holds the others back, and its last run.
    pub gate: Option<(String, TurnId)>,
    /// The runs: all that are not over, those whose reports are not delivered, and the last of the others.
    pub runs: Vec<Run>,
    /// When the watch last woke the session for a report.
    pub woke: Option<Ts>,
    /// Lifecycle hooks: when they last ran, and their latches.
    pub hooks: BTreeMap<String, HookStamps>,
    /// When something outside of the session last happened that a moment names, by its label.
    pub raised: BTreeMap<String, Ts>,
    /// The first of these since a fork was last issued for it: a flurry doesn't put off what it is to start.
    pub pending: BTreeMap<String, Ts>,
    /// What lifecycle hooks are owed, the oldest first.
    pub happened: Vec<Happened>,
    /// The number of the last thing that happened.
    pub happenings: u64,
    /// What was last seen of the files that a pattern matches.
    pub files: BTreeMap<String, String>,
}

/// Which forks a session's environment lets run; what it doesn't say the configuration says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filter {
    /// Only forks with one of these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<Vec<String>>,
    /// No fork with one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable: Option<Vec<String>>,
}

/// A closed session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// When.
    pub at: Ts,
    /// Why.
    pub reason: String,
}

/// What is stamped of a fork in a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stamps {
    /// Its last issue.
    pub issued: Option<Ts>,
    /// The pause that it ran in at an idle moment: once a pause, whatever its deadlines.
    pub idle: Option<u64>,
    /// When a run of it asked for another one in that pause: due since then.
    pub again: Option<Ts>,
    /// The labels of the context moments that it ran at: once a session.
    pub context: BTreeSet<String>,
    /// Its issues within the last hour, the oldest first; those of an `every` moment count, and are not held by them.
    pub recent: Vec<Ts>,
    /// How many issues the present pause had.
    pub in_pause: u32,
    /// That pause.
    pub pause: u64,
    /// For `changed` and `event` moments: when each last fired.
    pub outside: BTreeMap<String, Ts>,
}

/// What is stamped of a lifecycle hook in a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookStamps {
    /// When it last ran.
    pub ran: Option<Ts>,
    /// The idle labels that it ran at in the present pause.
    pub idle: BTreeSet<String>,
    /// That pause.
    pub pause: u64,
}

/// A run of a scheduled fork.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was issued.
    pub issue: Issue,
    /// Whether it is what a lifecycle hook said, and no run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub feed: bool,
    /// When.
    pub issued: Ts,
    /// In which pause.
    pub epoch: u64,
    /// Who issued it.
    pub owner: Process,
    /// Whether the session was closing.
    pub flush: bool,
    /// When it began.
    pub begun: Option<Ts>,
    /// The process that runs it.
    pub process: Option<Process>,
    /// The client that this process started last, the leader of its own group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Process>,
    /// Its agent.
    pub agent: Option<AgentId>,
    /// Whether its work was put into the call by which the session's model starts it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given: bool,
    /// When it was over.
    pub over: Option<Ts>,
    /// How.
    pub outcome: Option<RunOutcome>,
    /// Whether it asked for another run.
    pub again: bool,
    /// Why it failed.
    pub why: Option<String>,
    /// The model that it ran on.
    pub model: Option<String>,
    /// What it cost.
    pub cost: Cost,
    /// How far its report was printed, bytes; `None`: there is none left to deliver.
    pub report: Option<u64>,
    /// Who prints the report now.
    pub printing: Option<Process>,
}

impl Run {
    fn new(issue: Issue, issued: Ts, epoch: u64, owner: Process, flush: bool) -> Run {
        Run {
            issue,
            feed: false,
            given: false,
            issued,
            epoch,
            owner,
            flush,
            begun: None,
            process: None,
            attempt: None,
            agent: None,
            over: None,
            outcome: None,
            again: false,
            why: None,
            model: None,
            cost: Cost::default(),
            report: None,
            printing: None,
        }
    }

    /// Whether it waits for others of its batch.
    pub fn is_held(&self) -> bool {
        self.over.is_none() && self.begun.is_none() && !self.issue.waits_for.is_empty()
    }

    /// Whether it is to run in the session, and nobody said yet which agent it is.
    pub fn awaits_agent(&self) -> bool {
        self.over.is_none() && self.agent.is_none() && self.issue.runner != Runner::Headless
    }

    /// Returns its name as an agent turn.
    pub fn name(&self) -> String {
        format!("scheduled-{}", self.issue.fork)
    }
}

impl Record {
    /// Folds one change.
    pub fn apply(&mut self, ts: Ts, change: &Change) {
        match change {
            Change::Activity { idle, .. } => {
                self.epoch = self.epoch.saturating_add(1);
                self.since = idle.then_some(ts);
                self.first_stop = self.since;
                self.stopped = self.stopped.filter(|_| *idle);
                self.gate = None;
                self.lifted = None;
                self.woke = None;
                for run in self.runs.iter_mut().filter(|run| run.is_held() && !run.flush) {
                    run.over = Some(ts);
                    run.outcome = Some(RunOutcome::Dropped);
                }
                self.forget();
            }
            Change::Working => self.stopped = None,
            Change::Stopped { background } => {
                self.stopped = Some(ts);
                self.first_stop = self.first_stop.or(Some(ts));
                self.background = background
                    .iter()
                    .map(|task| (task.clone(), self.background.get(task).copied().unwrap_or(ts)))
                    .collect();
                if self.background.is_empty() {
                    self.since = self.since.or(Some(ts));
                }
            }
            Change::Issued { runs, owner, flush } => {
                for issue in runs {
                    self.issue(ts, issue, owner, *flush);
                }
            }
            Change::Begun { run, process, agent } => {
                if let Some(run) = self.run_mut(*run) {
                    run.begun = run.begun.or(Some(ts));
                    run.given |= process.is_none() && agent.is_none();
                    run.process = process.clone().or_else(|| run.process.take());
                    run.agent = agent.clone().or_else(|| run.agent.take());
                    if run.issue.gate && !run.flush {
                        self.gate = Some((run.issue.fork.clone(), run.issue.run));
                    }
                }
            }
            Change::Attempt { run, process } => {
                if let Some(run) = self.run_mut(*run) {
                    run.attempt = Some(process.clone());
                }
            }
            Change::Over { run, outcome, again, report, why, model, cost } => {
                let Some(run) = self.run_mut(*run).filter(|run| run.over.is_none()) else { return };
                run.over = Some(ts);
                run.outcome = Some(*outcome);
                run.again = *again;
                run.why.clone_from(why);
                run.model.clone_from(model);
                run.cost = *cost;
                run.report = report.then_some(0);
                let (fork, epoch, id) = (run.issue.fork.clone(), run.epoch, run.issue.run);
                self.settle(ts, &fork, epoch, id, *again);
                self.forget();
            }
            Change::Printing { runs, by } => {
                for run in self.runs.iter_mut().filter(|run| runs.contains(&run.issue.run)) {
                    run.printing = Some(by.clone());
                }
            }
            Change::Printed { run, to } => {
                if let Some(run) = self.run_mut(*run) {
                    run.report = *to;
                    run.printing = None;
                }
                self.forget();
            }
            Change::Woke => self.woke = Some(ts),
            Change::Hook { name, label } => {
                let epoch = self.epoch;
                let stamps = self.hooks.entry(name.clone()).or_default();
                if stamps.pause != epoch {
                    stamps.idle.clear();
                    stamps.pause = epoch;
                }
                stamps.ran = Some(ts);
                if label.starts_with("idle") {
                    stamps.idle.insert(label.clone());
                }
            }
            Change::Happened { event } => {
                self.happenings = self.happenings.saturating_add(1);
                // An event that comes again before anyone heard of it is one.
                let again = matches!(event, Happening::Changed { .. } | Happening::Event { .. } | Happening::Idle);
                if again {
                    self.happened.retain(|other| other.what != *event);
                }
                self.happened.push(Happened { number: self.happenings, at: ts, what: event.clone() });
                let spare = self.happened.len().saturating_sub(OWED);
                self.happened.drain(..spare);
            }
            Change::Fed { run, name, path, label, wake } => {
                // As a run that is over, under a name that no fork is likely to have.
                let issue = Issue {
                    run: *run,
                    fork: format!("hook {name}"),
                    path: path.clone(),
                    label: label.clone(),
                    waits_for: Vec::new(),
                    reports_of: Vec::new(),
                    gate: false,
                    chain: false,
                    runner: Runner::Headless,
                };
                let over = Run::new(issue, ts, self.epoch, Process { pid: 0, start: None }, false);
                self.runs.push(Run {
                    feed: true,
                    begun: Some(ts),
                    over: Some(ts),
                    outcome: Some(RunOutcome::Completed),
                    again: *wake,
                    report: Some(0),
                    ..over
                });
            }
            Change::Told { to } => self.happened.retain(|happened| happened.number > *to),
            Change::Looked { pattern, seen } => {
                self.files.insert(pattern.clone(), seen.clone());
            }
            Change::Raised { label } => {
                self.raised.insert(label.clone(), ts);
                self.pending.entry(label.clone()).or_insert(ts);
            }
            Change::Closed { reason } => {
                self.closed = Some(Closed { at: ts, reason: reason.clone() });
                self.stopped = None;
                self.lose_agents(ts);
                for run in self.runs.iter_mut().filter(|run| run.is_held() && !run.flush) {
                    run.over = Some(ts);
                    run.outcome = Some(RunOutcome::Dropped);
                }
                self.forget();
            }
            Change::Opened { model, tags, .. } => {
                self.tags.clone_from(tags);
                if model.is_some() {
                    self.model.clone_from(model);
                }
                self.closed = None;
                self.stopped = None;
                self.lose_agents(ts);
                self.background.clear();
                self.began = self.began.or(Some(ts));
            }
            Change::Clock { now } => self.set_back(*now),
        }
    }

    /// Whether the session is open: it opened, and nobody closed it since.
    pub fn is_open(&self) -> bool {
        self.began.is_some() && self.closed.is_none()
    }

    /// Returns a run.
    pub fn run(&self, id: TurnId) -> Option<&Run> {
        self.runs.iter().find(|run| run.issue.run == id)
    }

    fn run_mut(&mut self, id: TurnId) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.issue.run == id)
    }

    /// Whether a run asked for another one in this pause, and nothing of its report was read yet: the session reads it first. What a
    /// long report has more comes with later prompts.
    pub fn is_unread(&self, run: &Run) -> bool {
        run.again && run.report == Some(0) && run.epoch == self.epoch && !run.flush
    }

    /// Returns the runs of a batch: those that were issued together with this one.
    pub fn batch<'r>(&'r self, of: &'r Run) -> impl Iterator<Item = &'r Run> {
        self.runs.iter().filter(move |run| run.issued == of.issued && run.owner == of.owner)
    }

    /// Whether another fork's gate holds a run of a batch back.
    pub fn is_gated(&self, run: &Run) -> bool {
        let gate = self.gate.as_ref().and_then(|(_, gate)| self.run(*gate));
        !run.flush && gate.is_some_and(|gate| gate.issue.run != run.issue.run && gate.over.is_none())
    }

    /// Whether all that a run waits for is over; failed ones release it too.
    pub fn is_free(&self, run: &Run) -> bool {
        let over = |id: &TurnId| self.run(*id).is_none_or(|run| run.over.is_some());
        run.issue.waits_for.is_empty() || run.issue.waits_for.iter().all(over) && !self.is_gated(run)
    }

    /// Whether a run that asks for another one may have it: in its own pause, as long as neither the runaway breaker nor the chain's
    /// limit says no.
    pub fn may_run_again(&self, run: &Run, limits: Limits, now: Ts) -> bool {
        if !run.issue.chain || run.flush || run.issue.label == MANUAL || run.epoch != self.epoch {
            return false;
        }
        let Some(stamps) = self.forks.get(&run.issue.fork) else { return false };
        let hourly = stamps.recent.iter().filter(|at| now.since(**at) < HOUR).count();
        let in_pause = if stamps.pause == self.epoch { stamps.in_pause } else { 0 };
        (limits.hourly == 0 || hourly < limits.hourly as usize) && in_pause < limits.chain
    }

    /// Returns the run that an agent of the session is at, or was at last.
    pub fn run_of(&self, agent: &AgentId) -> Option<&Run> {
        self.runs.iter().rev().find(|run| run.agent.as_ref() == Some(agent))
    }

    fn issue(&mut self, ts: Ts, issue: &Issue, owner: &Process, flush: bool) {
        let epoch = self.epoch;
        if issue.label != MANUAL {
            self.stamp(ts, issue);
        }
        let run = Run::new(issue.clone(), ts, epoch, owner.clone(), flush);
        if issue.gate && !run.is_held() && !flush {
            self.gate = Some((issue.fork.clone(), issue.run));
        }
        self.runs.push(run);
    }

    fn stamp(&mut self, ts: Ts, issue: &Issue) {
        let epoch = self.epoch;
        let stamps = self.forks.entry(issue.fork.clone()).or_default();
        if stamps.pause != epoch {
            stamps.in_pause = 0;
            stamps.pause = epoch;
        }
        stamps.in_pause = stamps.in_pause.saturating_add(1);
        stamps.issued = Some(ts);
        stamps.again = None;
        stamps.recent.retain(|at| ts.since(*at) < HOUR);
        stamps.recent.push(ts);
        match issue.label.split(':').next() {
            Some("idle" | "idle (at close)") => stamps.idle = Some(epoch),
            Some("context_tokens" | "context_used" | "context_left") => {
                stamps.context.insert(issue.label.clone());
            }
            Some("changed" | "event") => {
                stamps.outside.insert(issue.label.clone(), ts);
                self.pending.remove(&issue.label);
            }
            Some(_) | None => {}
        }
    }

    /// What ran in the session's client is gone with it.
    fn lose_agents(&mut self, ts: Ts) {
        let lost = |run: &&mut Run| run.over.is_none() && run.issue.runner != Runner::Headless;
        for run in self.runs.iter_mut().filter(lost) {
            run.over = Some(ts);
            run.outcome = Some(RunOutcome::Failed);
            run.why = Some("its session's client went away".to_owned());
        }
    }

    /// A run is over: a chain that goes on is due again, a gate that settled is lifted, and what it held counts from now.
    fn settle(&mut self, ts: Ts, fork: &str, epoch: u64, run: TurnId, again: bool) {
        if again && epoch == self.epoch {
            let stamps = self.forks.entry(fork.to_owned()).or_default();
            stamps.idle = None;
            stamps.again = Some(ts);
            return;
        }
        if self.gate.as_ref().is_some_and(|(_, held)| *held == run) {
            self.gate = None;
            self.lifted = Some(ts);
        }
    }

    /// Forgets the oldest runs of which nothing is left to do.
    fn forget(&mut self) {
        let open: BTreeSet<TurnId> = self
            .runs
            .iter()
            .filter(|run| run.over.is_none())
            .flat_map(|run| run.issue.waits_for.iter().copied().chain([run.issue.run]))
            .collect();
        let done = |run: &Run| run.over.is_some() && run.report.is_none() && !open.contains(&run.issue.run);
        let mut spare = self.runs.iter().filter(|run| done(run)).count().saturating_sub(KEEP);
        self.runs.retain(|run| {
            let goes = spare > 0 && done(run);
            spare -= usize::from(goes);
            !goes
        });
    }

    /// Whether something is stamped with a time that is yet to come.
    pub fn is_ahead_of(&self, now: Ts) -> bool {
        let mut copy = self.clone();
        copy.set_back(now);
        copy != *self
    }

    fn set_back(&mut self, now: Ts) {
        let back = |at: &mut Option<Ts>| *at = at.map(|at| at.min(now));
        back(&mut self.since);
        back(&mut self.stopped);
        back(&mut self.first_stop);
        back(&mut self.lifted);
        back(&mut self.began);
        // A wake that is yet to come still is.
        if let Some(woke) = &mut self.woke {
            let over = self.runs.iter().filter_map(|run| run.over).filter(|over| *over > *woke).min();
            *woke = over.map_or((*woke).min(now), |over| (*woke).min(over.min(now).plus(-1)));
        }
        for at in self.background.values_mut() {
            *at = (*at).min(now);
        }
        for stamps in self.forks.values_mut() {
            back(&mut stamps.issued);
            back(&mut stamps.again);
            for at in &mut stamps.recent {
                *at = (*at).min(now);
            }
            for (label, at) in &mut stamps.outside {
                // What is yet to start something still is.
                let pending = self.raised.get(label).filter(|raised| *raised > at);
                *at = pending.map_or((*at).min(now), |raised| (*at).min((*raised).min(now).plus(-1)));
            }
        }
        for at in self.pending.values_mut().chain(self.raised.values_mut()) {
            *at = (*at).min(now);
        }
        for happened in &mut self.happened {
            happened.at = happened.at.min(now);
        }
        for stamps in self.hooks.values_mut() {
            back(&mut stamps.ran);
        }
        for run in &mut self.runs {
            run.issued = run.issued.min(now);
            back(&mut run.begun);
            back(&mut run.over);
        }
    }
}
