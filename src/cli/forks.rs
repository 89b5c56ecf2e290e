//! `leaf forks`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf forks`
#[derive(Debug, Args)]
pub struct ForksArgs {}

/// Runs `leaf forks`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &ForksArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
