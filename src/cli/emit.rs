//! `leaf emit`: tells sessions of an event that forks and hooks wait for.

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::{Run, output};
use crate::FORMAT;
use crate::ids::SessionId;
use crate::place::Dir;
use crate::refused::Refused;
use crate::schedule::definition::Moment;
use crate::schedule::record::{Change, Happening};
use crate::schedule::{discovery, lifecycle};
use crate::session::Session;
use crate::session::journal::Entry;
use crate::text;

/// A longer name is none, bytes.
const LONGEST: usize = 200;

/// `leaf emit`
#[derive(Debug, Args)]
pub struct EmitArgs {
    /// The event's name: what stands behind `event:` in a fork or hook file
    name: String,
    /// Tell every open session of this project (it is what happens without --session)
    #[arg(long, conflicts_with = "session")]
    project: bool,
}

#[derive(Serialize)]
struct Emitted {
    format: u32,
    event: String,
    sessions: Vec<SessionId>,
}

/// Runs `leaf emit`. The sessions' own waiting processes act on it.
///
/// # Errors
/// Where the name is none, the session named is unknown or closed, or a journal can't be written.
pub fn run(run: &Run, args: &EmitArgs) -> Result<()> {
    let name = args.name.trim();
    if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        return Err(Refused::input(format!("an event's name is one line of at most {LONGEST} bytes")).into());
    }
    let mut told = Vec::new();
    if let Some(home) = run.desk.home()? {
        for session in sessions(run, &home)? {
            let id = session.record.id.clone();
            if tell(run, session, name)? {
                told.push(id);
            }
        }
    }
    if run.common.json {
        return output::print_json(&Emitted { format: FORMAT, event: name.to_owned(), sessions: told });
    }
    match told.len() {
        0 => output::print("no open session of this project: nobody was told"),
        n => output::print(&format!("told {}", text::count(n, "session"))),
    }
}

/// The sessions that are to be told: the one that is named, else those of this project that live.
fn sessions(run: &Run, home: &Dir) -> Result<Vec<Session>> {
    if let Some(id) = &run.common.session {
        let session = run.desk.session(&run.desk.speaker()?, Some(id))?;
        return match session {
            Some(session) if session.state()?.schedule.is_open() => Ok(vec![session]),
            _ => Err(Refused::input("that session is not open: `leaf status` lists those that are").into()),
        };
    }
    let env = &run.desk.env;
    let project = discovery::project_root(env, &run.desk.here()?);
    let of_project =
        |session: &Session| discovery::project_root(env, std::path::Path::new(&session.record.cwd)) == project;
    Ok(Session::all(home)?.into_iter().filter(|session| session.record.lives() && of_project(session)).collect())
}

fn tell(run: &Run, session: Session, name: &str) -> Result<bool> {
    let cwd = session.record.cwd.clone();
    let mut session = session.lock(run.desk.deadline())?;
    if !session.state.schedule.is_open() {
        return Ok(false);
    }
    let now = run.desk.now();
    let label = Moment::Event(name.to_owned()).label();
    let mut entries = vec![Entry::schedule(now, Change::Raised { label })];
    entries.extend(lifecycle::entry(&run.desk.env, &cwd, Happening::Event { name: name.to_owned() }, now));
    session.append(&entries)?;
    Ok(true)
}
