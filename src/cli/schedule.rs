//! `leaf schedule`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf schedule`
#[derive(Debug, Args)]
pub struct ScheduleArgs {}

/// Runs `leaf schedule`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &ScheduleArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
