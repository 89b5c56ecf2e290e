//! `leaf lifecycle`: tells a session's lifecycle hooks what they are owed. A process of its own, that nobody waits for.

use anyhow::Result;
use clap::Args;

use super::Run;
use crate::errors;
use crate::schedule::close;
use crate::schedule::lifecycle::{self, Place};
use crate::session::Session;

/// `leaf lifecycle`
#[derive(Debug, Args)]
pub struct LifecycleArgs {
    /// The environment is another session's
    #[arg(long)]
    foreign: bool,
    /// Close the sessions whose clients are dead
    #[arg(long)]
    sweep: bool,
}

/// Runs `leaf lifecycle`. Nobody reads what it says: what fails is a line in errors.log.
///
/// # Errors
/// None.
pub fn run(run: &Run, args: &LifecycleArgs) -> Result<()> {
    // Whoever started it may be killed with all of its group. It fails for a leader, which is by itself already.
    let _ = rustix::process::setsid();
    let served = if args.sweep { sweep(run) } else { serve(run, args) };
    if let Err(error) = served {
        errors::note(&format!("lifecycle hooks: {error:#}"));
    }
    Ok(())
}

fn sweep(run: &Run) -> Result<()> {
    match run.desk.home()? {
        Some(home) => close::sweep(&run.desk, &home, None),
        None => Ok(()),
    }
}

fn serve(run: &Run, args: &LifecycleArgs) -> Result<()> {
    let Some(home) = run.desk.home()? else { return Ok(()) };
    let Some(id) = &run.common.session else { return Ok(()) };
    let Some(session) = Session::open(&home, id)? else { return Ok(()) };
    lifecycle::serve(&run.desk, session, if args.foreign { Place::Foreign } else { Place::Own })
}
