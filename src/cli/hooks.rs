//! `leaf hooks`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf hooks`
#[derive(Debug, Args)]
pub struct HooksArgs {}

/// Runs `leaf hooks`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &HooksArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
