//! What a lifecycle hook says, where its file wants it in the session's context: a report like a run's, delivered at the next prompt.

use anyhow::{Context, Result};

use super::definition::{Deliver, Hook};
use super::record::{Change, Limits, RunOutcome};
use super::report::{self, Report};
use crate::FORMAT;
use crate::desk::Desk;
use crate::ids::TurnId;
use crate::session::Session;
use crate::session::journal::{Cost, Entry};
use crate::session::record::SessionRecord;

/// Keeps what a hook said for the session's next prompt. Its file is there before the session is told of it, and both under its lock:
/// a file that no run waits for is removed.
///
/// # Errors
/// Where it can't be written.
pub fn put(desk: &Desk, record: &SessionRecord, hook: &Hook, label: &str, output: &str) -> Result<()> {
    let home = desk.home()?.context("the state directory is gone")?;
    let session = Session::open(&home, &record.id)?.context("the session is gone")?;
    let mut session = session.lock(desk.deadline())?;
    let (run, now) = (TurnId::new()?, desk.now());
    report::write(
        &session.session.dir,
        &Report {
            format: FORMAT,
            run,
            fork: format!("hook: {}", hook.name),
            label: label.to_owned(),
            ts: now,
            outcome: RunOutcome::Completed,
            text: output.to_owned(),
            asks: false,
            feed: true,
            limits: Limits { hourly: 0, chain: 0 },
            model: None,
            cost: Cost::default(),
        },
    )?;
    let fed = Change::Fed {
        run,
        name: hook.name.clone(),
        path: hook.source.path.to_string_lossy().into_owned(),
        label: label.to_owned(),
        wake: hook.deliver == Deliver::Wake,
    };
    session.append(&[Entry::schedule(now, fed)])
}
