//! `leaf demo`: a first session, played with recorded events.

use anyhow::Result;
use clap::Args;

/// `leaf demo`
#[derive(Debug, Args)]
pub struct DemoArgs {}

/// Runs the demo.
///
/// # Errors
/// Where a step fails.
pub fn run(_args: &DemoArgs, _json: bool) -> Result<()> {
    Ok(())
}
