//! `leaf import`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf import`
#[derive(Debug, Args)]
pub struct ImportArgs {}

/// Runs `leaf import`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &ImportArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
