//! `leaf lifecycle`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf lifecycle`
#[derive(Debug, Args)]
pub struct LifecycleArgs {}

/// Runs `leaf lifecycle`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &LifecycleArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
