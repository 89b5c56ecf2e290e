//! `leaf emit`

use anyhow::Result;
use clap::Args;

use super::Run;

/// `leaf emit`
#[derive(Debug, Args)]
pub struct EmitArgs {}

/// Runs `leaf emit`.
///
/// # Errors
/// Where something can't be read.
pub fn run(run: &Run, args: &EmitArgs) -> Result<()> {
    let _ = (run, args);
    anyhow::bail!("not built yet")
}
