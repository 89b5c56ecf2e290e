//! `leaf prune`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf prune`
#[derive(Debug, Args)]
pub struct PruneArgs {}

/// Runs `leaf prune`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &PruneArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
