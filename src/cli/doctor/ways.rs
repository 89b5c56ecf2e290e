//! How a working fork would run in this directory's session now, and why (R117).

use super::Check;
use crate::desk::{Desk, Speaker};
use crate::forks;
use crate::rules::way::Way;

const NAME: &str = "forks";

/// Which way a fork would take now, and why.
pub fn check() -> Check {
    match found() {
        Ok(check) => check,
        Err(error) => Check::note(NAME, format!("can't be told ({error:#})")),
    }
}

fn found() -> anyhow::Result<Check> {
    let desk = Desk::new(std::time::Duration::from_secs(2))?;
    let speaker = desk.speaker().unwrap_or(Speaker::Person);
    let Some(session) = desk.session(&speaker, None)? else {
        return Ok(Check::note(NAME, "no session lives here: how a fork would run is told once one does"));
    };
    let config = desk.config(&session.record.cwd);
    if !config.warnings.is_empty() {
        let warned = config.warnings.join("; ");
        return Ok(Check::note(NAME, warned).way_out("see to the configuration; the next session reads it"));
    }
    let switches = &session.record.switches;
    if !switches.fork_replies {
        let off = "line forks are off in this session (LEAF_FORK_REPLIES): every message goes to main (R1)";
        return Ok(Check::ok(NAME, off));
    }
    if !switches.fork_work {
        let off = "working forks are off in this session: what a fork could do goes to main (R3)";
        return Ok(Check::ok(NAME, off).way_out(if config.work {
            "they are switched on by now: the next session has them"
        } else {
            "forks.work = true in leaf's configuration switches them on for the next session"
        }));
    }
    let choice = forks::way(&desk, &session, &session.state()?);
    let guard = if switches.guard { "" } else { "; nothing keeps it from changing the project (forks.guard is off)" };
    let detail = format!("a fork would run as {} now: {}{guard}", choice.way.word(), choice.why);
    Ok(match choice.way {
        // Forks that are on and can't run are worth a look.
        Way::Main if session.record.switches.way != Some(Way::Main) => Check::note(NAME, detail),
        Way::Module | Way::Subagent | Way::Headless | Way::Main => Check::ok(NAME, detail),
    })
}
