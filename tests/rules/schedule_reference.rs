//! Which forks are due now and what holds the others, the slow and obvious way: read off all that ever happened, anew at every look.
//!
//! Written from the specification of the schedule alone (pauses, moments, throttles, overlap, runaway, gates, the background's hold),
//! by somebody who had not read `src/schedule/select.rs` and `order.rs`. It knows the definitions as values and nothing of the record.

use std::collections::{BTreeMap, BTreeSet};

use leaf_threads::schedule::definition::{Fork, Moment};
use leaf_threads::schedule::settings::Settings;

/// Milliseconds.
pub type Ms = i64;
const HOUR: Ms = 3_600_000;
/// How long a gate waits for the next run of its chain.
const GATE: Ms = 180_000;

/// What happened in a session.
#[derive(Clone, Debug)]
pub enum Happened {
    Opened,
    Closed,
    /// The person did something; `idle`: main is idle, and stays so.
    Activity {
        idle: bool,
    },
    /// Main is at work, and the person had no part in it.
    Working,
    Stopped {
        background: Vec<String>,
    },
    Issued(Issued),
    Begun {
        run: u64,
    },
    Over {
        run: u64,
        again: bool,
        report: bool,
    },
    /// The session read a run's report.
    Read {
        run: u64,
    },
    /// An event or a change that a moment names.
    Raised {
        label: String,
    },
}

#[derive(Clone, Debug)]
pub struct Issued {
    pub run: u64,
    pub fork: String,
    /// Without what a close adds.
    pub label: String,
    pub flush: bool,
    pub waits: bool,
    pub gate: bool,
}

/// What happens outside of a session's own history.
#[derive(Clone, Copy)]
pub struct Now<'a> {
    pub forks: &'a [Fork],
    pub untrusted: &'a [String],
    pub settings: &'a Settings,
    /// Tag, last issue in the project.
    pub tags: &'a BTreeMap<String, Ms>,
    /// Tokens, window.
    pub gauge: Option<(u64, u64)>,
    pub idle: bool,
    pub close: bool,
}

/// Why a fork doesn't run: the names that the record of the schedule has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    Stopped,
    Trust,
    Disabled,
    NotEnabled,
    Moment,
    Busy,
    Background,
    Latch,
    Throttle,
    TagThrottle,
    Overlap,
    Unread,
    Runaway,
    Gate,
    Close,
}

/// How a fork stands.
#[derive(Clone, Debug)]
pub struct Verdict {
    pub fork: String,
    /// The moment that has come.
    pub label: Option<String>,
    /// Since when, at the earliest: nothing is issued before that and the debounce.
    pub since: Ms,
    /// All that holds it. None: it is due and free.
    pub held: BTreeSet<Why>,
}

/// A time, and its place in the history: two things of one millisecond have an order.
type Point = (Ms, usize);

/// What a look at the history finds.
#[derive(Clone, Debug, Default)]
struct Facts {
    began: Option<Ms>,
    /// Whether anybody did anything.
    active: bool,
    closed: bool,
    stopped: Option<Ms>,
    /// The pause's beginning for forks that no background holds, and for those that it does.
    plain: Option<Ms>,
    quiet: Option<Ms>,
    /// Where in the history the pause's number was counted up.
    epoch: usize,
    /// The last time that a gate was lifted in this pause: what it held counts from then.
    lifted: Option<Ms>,
    background: BTreeMap<String, Ms>,
    /// The fork, its run, and since when a next run of the chain may come.
    gate: Option<(String, u64, Option<Ms>)>,
    forks: BTreeMap<String, Fate>,
    /// The last, and the first since a fork was issued for it.
    raised: BTreeMap<String, Point>,
    pending: BTreeMap<String, Ms>,
}

#[derive(Clone, Debug, Default)]
struct Fate {
    issues: Vec<Point>,
    latched: bool,
    again: Option<Ms>,
    contexts: BTreeSet<String>,
    outside: BTreeMap<String, Point>,
    open: BTreeSet<u64>,
    unread: BTreeSet<u64>,
}

/// A session's history.
#[derive(Clone, Debug, Default)]
pub struct Past {
    told: Vec<(Ms, Happened)>,
}

impl Past {
    pub fn tell(&mut self, at: Ms, what: Happened) {
        self.told.push((at, what));
    }

    /// The clock went back: what is yet to come by it counts as of now.
    pub fn set_back(&mut self, now: Ms) {
        for (at, _) in &mut self.told {
            *at = (*at).min(now);
        }
    }

    /// The last lines of it, for a person.
    pub fn story(&self, lines: usize) -> String {
        let from = self.told.len().saturating_sub(lines);
        self.told[from..].iter().map(|(at, what)| format!("  {at:>12} {what:?}\n")).collect()
    }

    pub fn look(&self) -> Look {
        let mut facts = Facts::default();
        let mut runs: BTreeMap<u64, (Issued, usize)> = BTreeMap::new();
        let mut epoch = 0;
        for (place, (at, what)) in self.told.iter().enumerate() {
            let (at, point) = (*at, (*at, place));
            match what {
                Happened::Opened => {
                    facts.began = facts.began.or(Some(at));
                    facts.closed = false;
                    facts.stopped = None;
                    facts.background.clear();
                }
                Happened::Closed => {
                    facts.closed = true;
                    facts.stopped = None;
                    drop_held(&mut facts, &runs, |run| !run.flush);
                }
                Happened::Activity { idle } => {
                    epoch += 1;
                    facts.active = true;
                    facts.epoch = place;
                    let begins = idle.then_some(at);
                    (facts.plain, facts.quiet) = (begins, begins);
                    facts.lifted = None;
                    facts.stopped = facts.stopped.filter(|_| *idle);
                    facts.gate = None;
                    for fate in facts.forks.values_mut() {
                        fate.latched = false;
                        fate.again = None;
                        // What it says waits for a prompt; a new pause is a new beginning.
                        fate.unread.clear();
                    }
                    drop_held(&mut facts, &runs, |run| !run.flush);
                }
                Happened::Working => facts.stopped = None,
                Happened::Stopped { background } => {
                    facts.stopped = Some(at);
                    facts.plain = facts.plain.or(Some(at));
                    let before = std::mem::take(&mut facts.background);
                    for task in background {
                        facts.background.insert(task.clone(), before.get(task).copied().unwrap_or(at));
                    }
                    if background.is_empty() {
                        facts.quiet = facts.quiet.or(Some(at));
                    }
                }
                Happened::Issued(issued) => {
                    let fate = facts.forks.entry(issued.fork.clone()).or_default();
                    fate.issues.push(point);
                    fate.again = None;
                    fate.open.insert(issued.run);
                    if issued.label.starts_with("idle") {
                        fate.latched = true;
                    } else if issued.label.starts_with("context") {
                        fate.contexts.insert(issued.label.clone());
                    } else if !issued.label.starts_with("every") {
                        fate.outside.insert(issued.label.clone(), point);
                        facts.pending.remove(&issued.label);
                    }
                    if issued.gate && !issued.waits && !issued.flush {
                        facts.gate = Some((issued.fork.clone(), issued.run, None));
                    }
                    runs.insert(issued.run, (issued.clone(), epoch));
                }
                Happened::Begun { run } => {
                    let (issued, _) = &runs[run];
                    if issued.gate && !issued.flush {
                        facts.gate = Some((issued.fork.clone(), *run, None));
                    }
                    // What has begun waits no more.
                    runs.get_mut(run).expect("it was issued").0.waits = false;
                }
                Happened::Over { run, again, report } => {
                    let (issued, of) = &runs[run];
                    let fate = facts.forks.entry(issued.fork.clone()).or_default();
                    fate.open.remove(run);
                    if *again && *of == epoch {
                        fate.latched = false;
                        fate.again = Some(at);
                        if *report {
                            fate.unread.insert(*run);
                        }
                        if let Some((_, gate, waits)) = &mut facts.gate
                            && gate == run
                        {
                            *waits = Some(at);
                        }
                    } else if facts.gate.as_ref().is_some_and(|(_, gate, _)| gate == run) {
                        facts.gate = None;
                        facts.lifted = Some(at);
                    }
                }
                Happened::Read { run } => {
                    for fate in facts.forks.values_mut() {
                        fate.unread.remove(run);
                    }
                }
                Happened::Raised { label } => {
                    facts.raised.insert(label.clone(), point);
                    facts.pending.entry(label.clone()).or_insert(at);
                }
            }
        }
        Look { facts }
    }
}

fn drop_held(facts: &mut Facts, runs: &BTreeMap<u64, (Issued, usize)>, which: impl Fn(&Issued) -> bool) {
    for fate in facts.forks.values_mut() {
        fate.open.retain(|run| !runs[run].0.waits || !which(&runs[run].0));
    }
}

fn facts_stop(facts: &Facts, over: Ms) -> Ms {
    facts.stopped.map_or(over, |stopped| stopped.max(over))
}

/// A look at a history, from which a fork can be judged at any time up to the next thing that happens.
pub struct Look {
    facts: Facts,
}

impl Look {
    /// How each fork stands at a time.
    pub fn verdicts(&self, now: &Now<'_>, at: Ms) -> Vec<Verdict> {
        let mut verdicts: Vec<Verdict> = now.forks.iter().map(|fork| self.verdict(now, fork, at)).collect();
        if now.close {
            return verdicts;
        }
        let gate = |name: &str| now.forks.iter().any(|fork| fork.name == name && fork.gate);
        let selected = verdicts.iter().any(|verdict| verdict.held.is_empty() && gate(&verdict.fork));
        let active = match &self.facts.gate {
            None => false,
            Some((_, _, None)) => true,
            // Main reads what it said, and stops.
            Some((_, _, Some(over))) => !now.idle || at - facts_stop(&self.facts, *over) < GATE,
        };
        if selected || active {
            for verdict in &mut verdicts {
                let idle = verdict.label.as_deref().is_some_and(|label| label.starts_with("idle"));
                if idle && !gate(&verdict.fork) {
                    verdict.held.insert(Why::Gate);
                }
            }
        }
        verdicts
    }

    /// Those that are due and free.
    pub fn free(&self, now: &Now<'_>, at: Ms) -> Vec<Verdict> {
        self.verdicts(now, at).into_iter().filter(|verdict| verdict.held.is_empty()).collect()
    }

    /// The first time between these two, as far as time alone goes, at which something is due and free.
    pub fn first_free(&self, now: &Now<'_>, after: Ms, before: Ms) -> Option<Ms> {
        let mut instants = BTreeSet::new();
        let mut add = |at: Ms| {
            if at > after && at < before {
                instants.insert(at);
            }
        };
        let facts = &self.facts;
        let hold = ms(now.settings.background_hold_timeout);
        let expiries: Vec<Ms> = facts.background.values().map(|start| start.saturating_add(hold)).collect();
        for expiry in &expiries {
            add(*expiry);
        }
        if let Some((_, _, Some(over))) = facts.gate {
            add(facts_stop(facts, over) + GATE);
        }
        for fork in now.forks {
            let fate = facts.forks.get(&fork.name);
            for moment in &fork.run_on {
                match moment {
                    Moment::Idle(deadline) => {
                        let deadline = ms(deadline.unwrap_or(now.settings.default_idle_deadline));
                        let bases = [facts.plain, facts.quiet].into_iter().flatten();
                        for base in bases.chain(expiries.iter().copied()).chain(facts.lifted) {
                            add(base.saturating_add(deadline));
                        }
                    }
                    Moment::Every(every) => {
                        let last = fate.and_then(|fate| fate.issues.last()).map(|(at, _)| *at).or(facts.began);
                        add(last.unwrap_or(0).saturating_add(ms(*every)));
                    }
                    _ => {}
                }
            }
            if let Some(fate) = fate {
                for (at, _) in &fate.issues {
                    add(at + HOUR);
                }
                if let (Some((at, _)), Some(throttle)) = (fate.issues.last(), fork.throttle) {
                    add(at.saturating_add(ms(throttle)));
                }
            }
            for tag in &fork.tags {
                if let (Some(at), Some(window)) = (now.tags.get(tag), now.settings.tag_throttles.get(tag)) {
                    add(at.saturating_add(ms(*window)));
                }
            }
        }
        instants.into_iter().find(|at| !self.free(now, *at).is_empty())
    }

    /// The work in the background that a fork doesn't wait for any more.
    pub fn expired(&self, now: &Now<'_>, fork: &str, at: Ms) -> Vec<&String> {
        let holds = |fork: &&Fork| fork.background_hold.unwrap_or(now.settings.background_hold);
        let fork = now.forks.iter().find(|of| of.name == fork).filter(holds);
        let old = |start: Ms| at - start >= ms(now.settings.background_hold_timeout);
        let tasks = self.facts.background.iter().filter(|(_, start)| fork.is_some() && old(**start));
        tasks.map(|(task, _)| task).collect()
    }

    fn verdict(&self, now: &Now<'_>, fork: &Fork, at: Ms) -> Verdict {
        let facts = &self.facts;
        let fresh = Fate::default();
        let fate = facts.forks.get(&fork.name).unwrap_or(&fresh);
        let mut held = BTreeSet::new();
        if fork.stopped.is_some() {
            held.insert(Why::Stopped);
        }
        if now.untrusted.contains(&fork.name) {
            held.insert(Why::Trust);
        }
        if now.settings.disable_tags.iter().flatten().any(|tag| fork.tags.contains(tag)) {
            held.insert(Why::Disabled);
        }
        if let Some(on) = now.settings.enable_tags.as_ref().filter(|on| !on.is_empty())
            && !on.iter().any(|tag| fork.tags.contains(tag))
        {
            held.insert(Why::NotEnabled);
        }
        if !now.close && (!now.idle || facts.stopped.is_none() || facts.closed) {
            held.insert(Why::Busy);
        }
        if now.close && (fork.gate || fork.chain) {
            held.insert(Why::Close);
        }
        let (moment, missing) = self.moment(now, fork, fate, at);
        held.extend(missing);
        let every = moment.as_ref().is_some_and(|(label, _)| label.starts_with("every"));
        if let (Some((last, _)), Some(throttle)) = (fate.issues.last(), fork.throttle)
            && at - last < ms(throttle)
        {
            held.insert(Why::Throttle);
        }
        for tag in &fork.tags {
            if let (Some(last), Some(window)) = (now.tags.get(tag), now.settings.tag_throttles.get(tag))
                && at - last < ms(*window)
            {
                held.insert(Why::TagThrottle);
            }
        }
        if !fork.overlap && !fate.open.is_empty() {
            held.insert(Why::Overlap);
        }
        if !fate.unread.is_empty() {
            held.insert(Why::Unread);
        }
        let hourly = fate.issues.iter().filter(|(issue, _)| at - issue < HOUR).count();
        let limit = usize::try_from(now.settings.runaway_limit).unwrap_or(usize::MAX);
        if limit > 0 && hourly >= limit && !every {
            held.insert(Why::Runaway);
        }
        let (label, since) = moment.map_or((None, at), |(label, since)| (Some(label), since));
        Verdict { fork: fork.name.clone(), label, since, held }
    }

    /// The first moment of a fork that has come and isn't latched, in their order, and since when; else why there is none.
    fn moment(&self, now: &Now<'_>, fork: &Fork, fate: &Fate, at: Ms) -> (Option<(String, Ms)>, BTreeSet<Why>) {
        let facts = &self.facts;
        let stopped = facts.stopped.unwrap_or(at);
        let mut why = BTreeSet::new();
        let mut hits: Vec<(String, Ms)> = Vec::new();
        for moment in &fork.run_on {
            let hit = match (moment, now.gauge) {
                (Moment::ContextTokens(most), Some((tokens, _))) => tokens >= *most,
                (Moment::ContextUsed(part), Some((tokens, window))) => {
                    u128::from(tokens) * 100 >= u128::from(window) * u128::from(*part)
                }
                (Moment::ContextLeft(least), Some((tokens, window))) => window.saturating_sub(tokens) <= *least,
                _ => false,
            };
            if fate.contexts.contains(&moment.label()) {
                why.insert(Why::Latch);
            } else if hit && !now.close {
                hits.push((moment.label(), stopped));
            }
        }
        let mut deadlines: Vec<(u64, String)> = Vec::new();
        for moment in &fork.run_on {
            match moment {
                Moment::Idle(Some(deadline)) => deadlines.push((*deadline, moment.label())),
                Moment::Idle(None) if now.settings.default_idle_deadline > 0 => {
                    deadlines.push((now.settings.default_idle_deadline, moment.label()));
                }
                _ => {}
            }
        }
        deadlines.sort_by_key(|(deadline, _)| *deadline);
        if fate.latched && !deadlines.is_empty() {
            why.insert(Why::Latch);
        } else if now.close {
            if let Some((_, label)) = deadlines.into_iter().next()
                && facts.active
            {
                hits.push((label, at));
            }
        } else {
            let since = self.pause(now, fork, at);
            match since {
                Ok(since) => {
                    for (deadline, label) in deadlines {
                        let comes = since.saturating_add(ms(deadline));
                        if comes <= at {
                            hits.push((label, comes.max(fate.again.unwrap_or(comes)).max(stopped)));
                        }
                    }
                }
                Err(Why::Background) if !deadlines.is_empty() => {
                    why.insert(Why::Background);
                }
                Err(_) => {}
            }
        }
        for moment in &fork.run_on {
            match moment {
                _ if now.close => {}
                Moment::Idle(None) if now.settings.default_idle_deadline == 0 => {
                    why.insert(Why::Stopped);
                }
                Moment::Every(every) => {
                    let last = fate.issues.last();
                    let base = last.map(|(at, _)| *at).or(facts.began).unwrap_or(at);
                    let comes = base.saturating_add(ms(*every));
                    // Once in a quiet session, whatever gates are lifted in it.
                    let quiet = match (self.begins(now, fork, at), last) {
                        (Ok(begins), Some(last)) => last.1 >= facts.epoch && last.0 >= begins,
                        _ => false,
                    };
                    if quiet {
                        why.insert(Why::Latch);
                    } else if comes <= at {
                        hits.push((moment.label(), comes.max(stopped)));
                    }
                }
                Moment::Changed(_) | Moment::Event(_) => {
                    let raised = facts.raised.get(&moment.label());
                    let ran = fate.outside.get(&moment.label());
                    if let Some(raised) = raised
                        && ran.is_none_or(|ran| ran.1 < raised.1)
                    {
                        let first = facts.pending.get(&moment.label()).copied().unwrap_or(raised.0);
                        hits.push((moment.label(), first.max(stopped)));
                    }
                }
                _ => {}
            }
        }
        // The first names it; it is due since the earliest of them.
        if let Some(since) = hits.iter().map(|(_, since)| *since).min() {
            return (Some((hits.remove(0).0, since)), BTreeSet::new());
        }
        why.insert(Why::Moment);
        (None, why)
    }

    /// Since when a fork's idle deadlines count.
    fn pause(&self, now: &Now<'_>, fork: &Fork, at: Ms) -> Result<Ms, Why> {
        let begins = self.begins(now, fork, at)?;
        Ok(begins.max(self.facts.lifted.unwrap_or(begins)))
    }

    /// When a fork's pause began.
    fn begins(&self, now: &Now<'_>, fork: &Fork, at: Ms) -> Result<Ms, Why> {
        let facts = &self.facts;
        let first = facts.plain.ok_or(Why::Busy)?;
        if !fork.background_hold.unwrap_or(now.settings.background_hold) {
            return Ok(first);
        }
        let timeout = ms(now.settings.background_hold_timeout);
        if facts.background.values().any(|start| timeout == 0 || at - start < timeout) {
            return Err(Why::Background);
        }
        if let Some(quiet) = facts.quiet {
            return Ok(quiet);
        }
        // Work in the background went on for too long: from then on the session counts as idle.
        let expired = facts.background.values().map(|start| start.saturating_add(timeout)).max().ok_or(Why::Busy)?;
        Ok(first.max(expired))
    }
}

/// Seconds as milliseconds.
pub fn ms(seconds: u64) -> Ms {
    Ms::try_from(seconds).unwrap_or(Ms::MAX).saturating_mul(1_000)
}

/// What a fork of a batch waits for, and whose reports it gets, by name. `None` where its `after` are in a cycle: how that is cut is left
/// open.
pub fn waits(batch: &[&Fork], which: &Fork) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
    let deps = after(batch, which);
    let own = effective(batch, which, &mut Vec::new())?;
    let mut waits: BTreeSet<String> = deps.iter().map(|fork| fork.name.clone()).collect();
    let reports = waits.clone();
    for other in batch {
        if effective(batch, other, &mut Vec::new())? < own {
            waits.insert(other.name.clone());
        }
    }
    Some((waits, reports))
}

fn after<'f>(batch: &[&'f Fork], which: &Fork) -> Vec<&'f Fork> {
    let named = |name: &String| batch.iter().copied().find(|fork| fork.name == *name && fork.name != which.name);
    which.after.iter().filter_map(named).collect()
}

/// The larger of its own priority and those of all that it comes after; `None` in a cycle.
fn effective(batch: &[&Fork], which: &Fork, path: &mut Vec<String>) -> Option<i64> {
    if path.contains(&which.name) {
        return None;
    }
    path.push(which.name.clone());
    let mut most = which.priority;
    for fork in after(batch, which) {
        most = most.max(effective(batch, fork, path)?);
    }
    path.pop();
    Some(most)
}
