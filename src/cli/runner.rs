//! `leaf runner`: the process that carries out a batch of scheduled forks.

use anyhow::{Context, Result};
use clap::Args;

use super::Run;
use crate::errors;
use crate::ids::TurnId;
use crate::refused::Usage;
use crate::schedule::report::Report;
use crate::schedule::run::{self, Audience};
use crate::session::Session;

/// `leaf runner`
#[derive(Debug, Args)]
pub struct RunnerArgs {
    /// The runs, in the order of their batch
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<TurnId>,
    /// Only start the process that carries them out, and wait for its word
    #[arg(long)]
    detach: bool,
}

/// Main gets the reports with its next prompt.
struct Quiet;

impl Audience for Quiet {
    fn delivers(&self) -> bool {
        true
    }

    fn begun(&mut self) {
        run::say_begun();
    }

    fn over(&mut self, _: &Report) {}
}

/// Runs `leaf runner`. It belongs to nobody from here on: what ends its caller doesn't end it.
///
/// # Errors
/// Where the session can't be read or written.
pub fn run(run: &Run, args: &RunnerArgs) -> Result<()> {
    let Some(session) = &run.common.session else {
        return Err(Usage("leaf runner is leaf's own, and needs --session".to_owned()).into());
    };
    if args.detach {
        let home = run.desk.home()?.context("there is no state directory")?;
        let session = Session::open(&home, session)?.context("leaf knows no such session")?;
        return run::start(&session.record, &args.runs);
    }
    // One that leads its group already has been detached by its caller.
    let _ = rustix::process::setsid();
    let done = run::batch(&run.desk, session, &args.runs, &mut Quiet);
    if let Err(error) = &done {
        errors::note(&format!("runner: {error:#}"));
    }
    done
}
