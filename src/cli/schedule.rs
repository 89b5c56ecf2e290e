//! `leaf schedule`: each scheduled fork of a session, due when, or held back by what.

use std::fmt::Write;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Run;
use super::output::{self, Style, styled};
use super::writer::Verb;
use crate::clock::Ts;
use crate::ids::SessionId;
use crate::refused::Refused;
use crate::schedule::issue::Known;
use crate::schedule::select::{self, Gauge, Held, Standing};
use crate::session::Session;
use crate::text;

/// `leaf schedule`
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// The session, by the client's id (default: as `--session`)
    session: Option<SessionId>,
}

#[derive(Serialize)]
struct Schedule {
    session: SessionId,
    /// Why it is closed; null: it is open.
    closed: Option<String>,
    /// Whether main is at work, or has not stopped yet.
    busy: bool,
    /// Since when it is idle.
    idle_since: Option<Ts>,
    /// What goes on in its background.
    background: Vec<String>,
    gauge: Option<Gauge>,
    forks: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    standing: Standing,
    /// When it was last issued in this session.
    issued: Option<Ts>,
    /// Why it doesn't run now, a sentence.
    why: Option<String>,
}

/// Runs `leaf schedule`.
///
/// # Errors
/// Where there is no session, or its files can't be read.
pub fn run(run: &Run, args: &ScheduleArgs) -> Result<()> {
    let session = match &args.session {
        Some(id) => run.desk.session(&run.speaker(Verb::Everyones)?, Some(id))?,
        None => run.session(&run.speaker(Verb::Everyones)?)?,
    };
    let Some(session) = session else {
        return Err(Refused::input(
            "no session of this directory is known: start one here, or name it (`leaf status` lists them)",
        )
        .into());
    };
    let schedule = look(run, &session)?;
    if run.common.json { output::print_json(&schedule) } else { output::print(&told(&schedule, run.desk.now())) }
}

fn look(run: &Run, session: &Session) -> Result<Schedule> {
    let now = run.desk.now();
    let state = session.state()?;
    let record = &state.schedule;
    let known = Known::read(&run.desk, &session.record, record)?;
    let forks = known.as_ref().map_or_else(Vec::new, |known| {
        let debounce = select::millis(known.settings.wake_debounce);
        select::select(&known.view(&state, false, now))
            .into_iter()
            .map(|standing| Row {
                issued: record.forks.get(&standing.fork).and_then(|stamps| stamps.issued),
                why: standing.held.as_ref().map(|held| sentence(held, &standing)),
                standing: match (&standing.held, standing.at) {
                    // It waits for others that are about to come due.
                    (None, Some(at)) => Standing { at: Some(at.plus(debounce)), ..standing },
                    _ => standing,
                },
            })
            .collect()
    });
    Ok(Schedule {
        session: session.record.id.clone(),
        closed: record.closed.as_ref().map(|closed| closed.reason.clone()),
        busy: record.stopped.is_none() || state.open_turn(now).is_some(),
        idle_since: record.since.filter(|_| record.stopped.is_some()),
        background: record.background.keys().cloned().collect(),
        gauge: known.and_then(|known| known.gauge),
        forks,
    })
}

fn told(schedule: &Schedule, now: Ts) -> String {
    let mut out = String::new();
    let session = text::one_line(schedule.session.as_str());
    let state = match (&schedule.closed, schedule.busy, schedule.idle_since) {
        (Some(reason), _, _) => format!("closed ({})", text::one_line(reason)),
        (None, true, _) => "main is at work, or has not stopped yet: nothing begins before its Stop".to_owned(),
        (None, false, Some(since)) => format!("idle since {}", since.brief()),
        (None, false, None) => {
            format!("idle, with {} in its background", text::count(schedule.background.len(), "task"))
        }
    };
    let _ = writeln!(out, "session {session}: {state}");
    if let Some(gauge) = schedule.gauge {
        let _ = writeln!(out, "context: {} of about {} tokens", gauge.tokens, gauge.window);
    }
    for row in &schedule.forks {
        let name = styled(Style::Bold, &text::one_line(&row.standing.fork));
        let moment = row.standing.moment.as_deref().map(text::one_line).unwrap_or_default();
        let said = match (&row.why, row.standing.at) {
            (None, Some(at)) if at > now => format!("due ({moment}), begins at {}", at.brief()),
            (None, _) => format!("due ({moment}), begins now"),
            (Some(why), Some(at)) => format!("{why}; next look at {}", at.brief()),
            (Some(why), None) => why.clone(),
        };
        let issued = row.issued.map(|at| format!("; last issued {}", at.brief())).unwrap_or_default();
        let _ = writeln!(out, "{name}  {said}{issued}");
    }
    if schedule.forks.is_empty() {
        let _ = writeln!(out, "no scheduled fork is known here: `leaf forks` says where they may lie");
    }
    out
}

/// Returns why a fork doesn't run now.
fn sentence(held: &Held, standing: &Standing) -> String {
    let moment = standing.moment.as_deref().map(text::one_line).unwrap_or_default();
    match held {
        Held::Stopped { why } => format!("never runs: {}", text::one_line(why)),
        Held::Trust => "waits for `leaf trust`: its file is the project's, and new or changed (R126)".to_owned(),
        Held::Disabled { tag } => format!("its tag {} is switched off", text::one_line(tag)),
        Held::NotEnabled => "none of its tags is among those that are switched on".to_owned(),
        Held::Moment => format!("{moment} has not come"),
        Held::Busy => format!("{moment}: main is at work, or has not stopped yet"),
        Held::Background => format!("{moment}: work in the session's background goes on"),
        Held::Latch { moment } if moment.starts_with("idle") => {
            format!("{}: it ran in this pause; the person's next prompt begins another", text::one_line(moment))
        }
        Held::Latch { moment } if moment.starts_with("every") => {
            format!("{}: it ran since the session went quiet", text::one_line(moment))
        }
        Held::Latch { moment } => format!("{}: it ran once in this session", text::one_line(moment)),
        Held::Throttle => format!("{moment} has come; its throttle holds it"),
        Held::TagThrottle { tag } => {
            format!("{moment} has come; the throttle of tag {} holds it in this project", text::one_line(tag))
        }
        Held::Overlap => format!("{moment} has come; a run of it goes on, and it doesn't overlap"),
        Held::Unread => format!("{moment} has come; the session has not read its last report, which asks for this run"),
        Held::Runaway => format!("{moment} has come; it was issued too often within an hour (runaway_limit)"),
        Held::Gate { fork } => {
            format!("{moment} has come; gate {} holds it until its goal is settled", text::one_line(fork))
        }
        Held::Close => "doesn't run at a close".to_owned(),
    }
}
