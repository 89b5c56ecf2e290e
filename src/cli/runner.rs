//! `leaf runner`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf runner`
#[derive(Debug, Args)]
pub struct RunnerArgs {}

/// Runs `leaf runner`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &RunnerArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
