//! `leaf trust`: the command; what trust is lies in `trust.rs` (R126).

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::writer::Verb;
use super::{Run, output};
use crate::FORMAT;
use crate::desk::project_key;
use crate::refused::Refused;
use crate::text;
use crate::trust::{self, DIRECTORIES, FileState, Standing, Trusted, files, record};

/// `leaf trust`
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Show what is trusted, and what changed since
    #[arg(long, conflicts_with = "revoke")]
    list: bool,
    /// Trust nothing of this project any more
    #[arg(long)]
    revoke: bool,
}

/// Returns the project of the present directory: the nearest one at or above it that has such files, else itself.
fn project(run: &Run) -> Result<PathBuf> {
    let here = run.desk.here()?;
    let found = here.ancestors().find(|dir| DIRECTORIES.iter().any(|name| dir.join(name).is_dir()));
    Ok(found.unwrap_or(&here).to_path_buf())
}

/// Returns how the present project's files stand.
///
/// # Errors
/// Where they or the record can't be read.
pub fn standing(run: &Run) -> Result<Standing> {
    trust::standing(&run.desk, project(run)?)
}

/// Runs `leaf trust`.
///
/// # Errors
/// Where an agent asks for it (R70), or a file can't be read or written.
pub fn run(run: &Run, args: &TrustArgs) -> Result<()> {
    run.speaker(Verb::Users)?;
    if args.list {
        return show(run, &standing(run)?, "");
    }
    let project = project(run)?;
    let files = files(&project)?;
    if !args.revoke && files.is_empty() {
        return Err(Refused::by(
            "R126",
            format!(
                "{} has no .leaf files to trust: nothing of it could run",
                text::one_line(&project.to_string_lossy())
            ),
        )
        .into());
    }
    let home = run.desk.make_home()?;
    let lock = run.desk.lock_project(&home, &project)?;
    let projects = home.make("projects")?;
    let mut record = record(Some(&projects), &project)?;
    if record.format > FORMAT {
        return Err(Refused::by("R127", "the project's record was written by a newer leaf: update leaf").into());
    }
    record.format = FORMAT;
    record.directory = project.to_string_lossy().into_owned();
    record.trust = (!args.revoke).then(|| Trusted { since: run.desk.now(), files });
    projects.replace(&format!("{}.json", project_key(&project)), &serde_json::to_vec(&record)?, true)?;
    drop(lock);
    let head = if args.revoke { "nothing of this project is trusted any more\n" } else { "trusted as they are now:\n" };
    show(run, &standing(run)?, head)
}

fn show(run: &Run, standing: &Standing, head: &str) -> Result<()> {
    if run.common.json {
        return output::print_json(standing);
    }
    let mut out = head.to_owned();
    for file in &standing.files {
        let state = match file.state {
            FileState::Trusted => "trusted",
            FileState::New => "not trusted",
            FileState::Changed => "changed since it was trusted",
            FileState::Gone => "gone since it was trusted",
        };
        let _ = writeln!(out, "{}  {state}", text::one_line(&file.file));
    }
    if standing.files.is_empty() {
        let _ = writeln!(out, "{} has no .leaf files", text::one_line(&standing.project));
    }
    output::print(&out)
}
