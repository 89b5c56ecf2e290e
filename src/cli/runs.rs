//! `leaf runs`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf runs`
#[derive(Debug, Args)]
pub struct RunsArgs {}

/// Runs `leaf runs`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &RunsArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
