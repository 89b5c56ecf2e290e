//! What of a session's forks is due now, and what holds the others: a pure function of the record, the definitions and the time.

use std::collections::BTreeMap;

use serde::Serialize;

use super::definition::{Fork, Moment};
use super::pause;
use super::record::{HOUR, Record, Run, Stamps};
use super::settings::Settings;
use crate::clock::Ts;

/// A gate whose chain asked for another run is lifted where that isn't issued for this long, milliseconds.
const GATE_GRACE: i64 = 180_000;
/// The client writes the last message of a turn about when its Stop comes: the context is looked at again after this, milliseconds.
const LATE_ROWS: i64 = 2_000;
/// What a moment's label has where the session was closing.
pub const AT_CLOSE: &str = " (at close)";

/// How full the context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gauge {
    /// Tokens of the last request.
    pub tokens: u64,
    /// The model's window, tokens.
    pub window: u64,
}

/// What selection looks at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The session's record.
    pub record: &'a Record,
    /// The definitions, the nearest of each name.
    pub forks: &'a [Fork],
    /// The names of those that wait for trust (R126).
    pub untrusted: &'a [String],
    /// The settings.
    pub settings: &'a Settings,
    /// When a fork with this tag was last issued in the project.
    pub tags: &'a BTreeMap<String, Ts>,
    /// How full the context is; `None` where nothing tells, or nobody asks.
    pub gauge: Option<Gauge>,
    /// Whether main is idle: it has no open turn.
    pub idle: bool,
    /// Whether the session is closing: what its pause did not run is due at once.
    pub close: bool,
    /// The time.
    pub now: Ts,
}

/// How a fork stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Its name.
    pub fork: String,
    /// Why it doesn't run now; `None`: it is due and free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The moment that it is due at, by its label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moment: Option<String>,
    /// Since when it is due and free; else when time alone may next change how it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Ts>,
}

/// What holds a fork.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Held {
    /// It never runs.
    Stopped {
        /// Why.
        why: String,
    },
    /// Its file waits for `leaf trust` (R126).
    Trust,
    /// One of its tags is switched off.
    Disabled {
        /// The tag.
        tag: String,
    },
    /// None of its tags is among those that are switched on.
    NotEnabled,
    /// None of its moments has come.
    Moment,
    /// Main is at work, or has not stopped yet.
    Busy,
    /// Work in the session's background goes on.
    Background,
    /// It ran at this moment already: in this pause, or in this session.
    Latch {
        /// The moment's label.
        moment: String,
    },
    /// It was issued not long enough ago.
    Throttle,
    /// A fork with this tag was issued in the project not long enough ago.
    TagThrottle {
        /// The tag.
        tag: String,
    },
    /// A run of it goes on.
    Overlap,
    /// The session has not read its last report, which asked for another run.
    Unread,
    /// It was issued too often within an hour.
    Runaway,
    /// Another fork's run or chain holds the idle ones.
    Gate {
        /// That fork.
        fork: String,
    },
    /// At a close, gates and what they drive don't run.
    Close,
}

/// When a moment of a fork has come, or will, as things stand.
enum Comes {
    /// At this time, or it has come then.
    At(Ts),
    /// Only once something else happened.
    Not(Held),
}

/// Returns how every fork stands, in the order of the definitions.
pub fn select(view: &View<'_>) -> Vec<Standing> {
    let mut standings: Vec<Standing> = view.forks.iter().map(|fork| standing(view, fork)).collect();
    if view.close {
        return standings;
    }
    let gate = gate(view).or_else(|| {
        let free = standings.iter().zip(view.forks).find(|(standing, fork)| standing.held.is_none() && fork.gate);
        free.map(|(standing, _)| (standing.fork.clone(), None))
    });
    let Some((gate, until)) = gate else { return standings };
    for (standing, fork) in standings.iter_mut().zip(view.forks) {
        let idle = standing.moment.as_deref().is_some_and(|label| label.starts_with("idle"));
        if standing.held.is_none() && idle && !fork.gate {
            standing.held = Some(Held::Gate { fork: gate.clone() });
            standing.at = until;
        }
    }
    standings
}

/// Returns when the session is next to be looked at, as far as the schedule goes: when something due is to be issued, or when time
/// alone changes how a fork stands.
pub fn next(view: &View<'_>, standings: &[Standing]) -> Option<Ts> {
    let debounce = millis(view.settings.wake_debounce);
    let of = |standing: &Standing| {
        let at = standing.at?;
        let at = if standing.held.is_none() { at.plus(debounce) } else { at };
        (at > view.now).then_some(at)
    };
    let context = |fork: &Fork| fork.run_on.iter().any(is_context);
    let late = view.record.stopped.filter(|_| view.forks.iter().any(context)).map(|stopped| stopped.plus(LATE_ROWS));
    standings.iter().filter_map(of).chain(late.filter(|late| *late > view.now)).min()
}

/// Returns what is to be issued now: all that is due and free, once the first of them has waited for others to come due.
pub fn due<'s>(view: &View<'_>, standings: &'s [Standing]) -> Vec<&'s Standing> {
    let free: Vec<&Standing> = standings.iter().filter(|standing| standing.held.is_none()).collect();
    let debounce = if view.close { 0 } else { millis(view.settings.wake_debounce) };
    let ripe = free.iter().filter_map(|standing| standing.at).min().is_some_and(|at| view.now >= at.plus(debounce));
    if ripe { free } else { Vec::new() }
}

/// Returns the fork whose gate holds the others, and until when at most.
fn gate(view: &View<'_>) -> Option<(String, Option<Ts>)> {
    let (fork, run) = view.record.gate.as_ref()?;
    let run = view.record.run(*run)?;
    match run.over {
        None => Some((fork.clone(), None)),
        Some(over) => {
            // Main works on what it reported; once it stopped, the next run is about to come.
            let since = view.record.stopped.map_or(over, |stopped| stopped.max(over));
            let until = since.plus(GATE_GRACE);
            (!view.idle || view.now < until).then(|| (fork.clone(), Some(until)))
        }
    }
}

/// Since when a fork's idle deadlines count: its pause's beginning, or when the last gate was lifted in it.
fn baseline(view: &View<'_>, fork: &Fork) -> Result<Ts, Option<Ts>> {
    let began = began(view, fork)?;
    Ok(view.record.lifted.map_or(began, |lifted| lifted.max(began)))
}

/// When a fork's pause began: work in the background holds it for a while.
fn began(view: &View<'_>, fork: &Fork) -> Result<Ts, Option<Ts>> {
    let holds = fork.background_hold.unwrap_or(view.settings.background_hold);
    match pause::pause(view.record, holds, view.settings.background_hold_timeout) {
        Some(pause) if pause.held.is_some_and(|held| view.now < held) => Err(pause.held),
        Some(pause) => Ok(pause.from),
        None => Err(None),
    }
}

fn standing(view: &View<'_>, fork: &Fork) -> Standing {
    let nothing = Stamps::default();
    let stamps = view.record.forks.get(&fork.name).unwrap_or(&nothing);
    let held = |held: Held, moment: Option<String>, at: Option<Ts>| Standing {
        fork: fork.name.clone(),
        held: Some(held),
        moment,
        at: at.filter(|at| *at > view.now),
    };
    if let Some(why) = &fork.stopped {
        return held(Held::Stopped { why: why.clone() }, None, None);
    }
    if view.untrusted.contains(&fork.name) {
        return held(Held::Trust, None, None);
    }
    if let Some(switched_off) = filtered(view.settings, fork) {
        return held(switched_off, None, None);
    }
    if view.close && (fork.gate || fork.chain) {
        return held(Held::Close, None, None);
    }
    // The first moment that has come and that it did not run at yet; else what is nearest to it.
    let mut nearest: Option<(Held, Option<String>, Option<Ts>)> = None;
    let mut hit: Option<(String, Ts)> = None;
    let mut coming: Option<Ts> = None;
    for moment in in_order(fork, view.settings) {
        let label = moment.label();
        if latched(view, moment, stamps) {
            nearest.get_or_insert((Held::Latch { moment: label.clone() }, Some(label), None));
            continue;
        }
        match comes(view, fork, moment, stamps) {
            // The first names it; since when it is due may be another's.
            Comes::At(at) if at <= view.now => {
                hit = Some(hit.map_or((label, at), |(first, since)| (first, since.min(at))));
            }
            Comes::At(at) => {
                coming = coming.map_or(Some(at), |other| Some(other.min(at)));
                let sooner = nearest.as_ref().is_none_or(|(_, _, other)| other.is_none_or(|other| at < other));
                if sooner {
                    nearest = Some((Held::Moment, Some(label), Some(at)));
                }
            }
            Comes::Not(why) => {
                let until = match why {
                    Held::Background => baseline(view, fork).err().flatten(),
                    _ => None,
                };
                // What time alone changes goes first: the end of a hold is an instant to look at (W27).
                let nearer = until.is_some_and(|until| {
                    nearest.as_ref().is_none_or(|(_, _, other)| other.is_none_or(|other| until < other))
                });
                if nearer || nearest.as_ref().is_none_or(|(other, _, _)| matches!(other, Held::Latch { .. })) {
                    nearest = Some((why, Some(label), until));
                }
            }
        }
    }
    let Some((label, at)) = hit else {
        let (why, label, at) = nearest.unwrap_or((Held::Moment, None, None));
        return held(why, label, at);
    };
    let exempt = label.starts_with("every");
    let label = if view.close { format!("{label}{AT_CLOSE}") } else { label };
    let mut free = at;
    if let (Some(throttle), Some(issued)) = (fork.throttle, stamps.issued) {
        let until = issued.plus(millis(throttle));
        if view.now < until {
            return held(Held::Throttle, Some(label), Some(until));
        }
        free = free.max(until.min(view.now));
    }
    for tag in &fork.tags {
        let (Some(least), Some(last)) = (view.settings.tag_throttles.get(tag), view.tags.get(tag)) else { continue };
        let until = last.plus(millis(*least));
        // A stamp of the future is a clock that went back.
        if view.now < until && *last <= view.now {
            return held(Held::TagThrottle { tag: tag.clone() }, Some(label), Some(until));
        }
        free = free.max(until.min(view.now));
    }
    let own = |run: &&Run| run.issue.fork == fork.name && !run.feed;
    if !fork.overlap && view.record.runs.iter().filter(own).any(|run| run.over.is_none()) {
        return held(Held::Overlap, Some(label), None);
    }
    // What an earlier pause left waits for a prompt, and holds nothing.
    if !view.close && view.record.runs.iter().filter(own).any(|run| view.record.is_unread(run)) {
        return held(Held::Unread, Some(label), None);
    }
    let limit = view.settings.runaway_limit as usize;
    if limit > 0 && !exempt {
        let recent: Vec<Ts> = stamps.recent.iter().copied().filter(|at| view.now.since(*at) < HOUR).collect();
        if recent.len() >= limit {
            let until = recent[recent.len() - limit].plus(HOUR);
            // A moment that isn't held by it may come before.
            return held(Held::Runaway, Some(label), Some(coming.map_or(until, |coming| coming.min(until))));
        }
    }
    Standing { fork: fork.name.clone(), held: None, moment: Some(label), at: Some(free) }
}

/// A fork's moments in the order in which they are tried: context, idle by their deadlines, the others.
fn in_order<'f>(fork: &'f Fork, settings: &Settings) -> Vec<&'f Moment> {
    let mut moments: Vec<&Moment> = fork.run_on.iter().collect();
    moments.sort_by_key(|moment| match moment {
        Moment::ContextTokens(_) | Moment::ContextUsed(_) | Moment::ContextLeft(_) => (0, 0),
        Moment::Idle(seconds) => (1, seconds.unwrap_or(settings.default_idle_deadline)),
        Moment::Every(_) | Moment::Changed(_) | Moment::Event(_) => (2, 0),
    });
    moments
}

/// Whether a moment is one of the context.
pub fn is_context(moment: &Moment) -> bool {
    matches!(moment, Moment::ContextTokens(_) | Moment::ContextUsed(_) | Moment::ContextLeft(_))
}

fn latched(view: &View<'_>, moment: &Moment, stamps: &Stamps) -> bool {
    match moment {
        Moment::Idle(_) => stamps.idle == Some(view.record.epoch),
        Moment::ContextTokens(_) | Moment::ContextUsed(_) | Moment::ContextLeft(_) => {
            stamps.context.contains(&moment.label())
        }
        Moment::Every(_) | Moment::Changed(_) | Moment::Event(_) => false,
    }
}

fn comes(view: &View<'_>, fork: &Fork, moment: &Moment, stamps: &Stamps) -> Comes {
    let record = view.record;
    if view.close {
        return match moment {
            // A session in which nobody did anything has nothing to tell.
            Moment::Idle(seconds)
                if record.epoch > 0 && (seconds.is_some() || view.settings.default_idle_deadline > 0) =>
            {
                Comes::At(view.now)
            }
            _ => Comes::Not(Held::Moment),
        };
    }
    // Nothing is issued in the middle of a turn (W1).
    let Some(stopped) = record.stopped.filter(|_| view.idle) else { return Comes::Not(Held::Busy) };
    match moment {
        Moment::Idle(seconds) => {
            let Some(seconds) = seconds.or(Some(view.settings.default_idle_deadline).filter(|default| *default > 0))
            else {
                return Comes::Not(Held::Stopped { why: "default_idle_deadline is 0".to_owned() });
            };
            let from = match baseline(view, fork) {
                Ok(from) => from,
                Err(_) => return Comes::Not(Held::Background),
            };
            let again = stamps.again.unwrap_or(from);
            Comes::At(from.plus(millis(seconds)).max(stopped).max(again))
        }
        Moment::ContextTokens(_) | Moment::ContextUsed(_) | Moment::ContextLeft(_) => {
            if view.gauge.is_some_and(|gauge| is_full(gauge, moment)) {
                Comes::At(stopped)
            } else {
                Comes::Not(Held::Moment)
            }
        }
        Moment::Every(seconds) => {
            let base = stamps.issued.or(record.began).unwrap_or(stopped);
            // A session that stays quiet has it once more, and then no more.
            let quiet = stamps.pause == record.epoch
                && began(view, fork).is_ok_and(|from| stamps.issued.is_some_and(|issued| issued >= from));
            if quiet {
                return Comes::Not(Held::Latch { moment: moment.label() });
            }
            Comes::At(base.plus(millis(*seconds)).max(stopped))
        }
        Moment::Changed(_) | Moment::Event(_) => {
            let label = moment.label();
            let last = stamps.outside.get(&label);
            match record.raised.get(&label) {
                Some(raised) if last.is_none_or(|last| raised > last) => {
                    let first = record.pending.get(&label).filter(|first| last.is_none_or(|last| *first > last));
                    Comes::At(first.copied().unwrap_or(*raised).max(stopped))
                }
                _ => Comes::Not(Held::Moment),
            }
        }
    }
}

fn is_full(gauge: Gauge, moment: &Moment) -> bool {
    match moment {
        Moment::ContextTokens(tokens) => gauge.tokens >= *tokens,
        Moment::ContextUsed(percent) => {
            u128::from(gauge.tokens) * 100 >= u128::from(gauge.window) * u128::from(*percent)
        }
        Moment::ContextLeft(tokens) => gauge.window.saturating_sub(gauge.tokens) <= *tokens,
        Moment::Idle(_) | Moment::Every(_) | Moment::Changed(_) | Moment::Event(_) => false,
    }
}

/// Returns what of the tag filter keeps a fork from running: switched off wins over switched on.
fn filtered(settings: &Settings, fork: &Fork) -> Option<Held> {
    let off = settings.disable_tags.as_deref().unwrap_or_default();
    if let Some(tag) = fork.tags.iter().find(|tag| off.contains(tag)) {
        return Some(Held::Disabled { tag: tag.clone() });
    }
    let on = settings.enable_tags.as_deref().unwrap_or_default();
    (!on.is_empty() && !fork.tags.iter().any(|tag| on.contains(tag))).then_some(Held::NotEnabled)
}

/// Seconds as milliseconds; no sum of the clock's and of it runs over.
pub fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000)
}
