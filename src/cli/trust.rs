//! `leaf trust`: the command; what trust is lies in `trust.rs` (R126).

use std::fmt::Write;

use anyhow::Result;
use clap::Args;

use super::writer::Verb;
use super::{Run, output};
use crate::FORMAT;
use crate::desk::project_key;
use crate::refused::Refused;
use crate::schedule::discovery::project_root;
use crate::text;
use crate::trust::{self, FileState, Standing, Trusted, all_files, record};

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

/// Returns how the files stand that a session in the present directory would take something from.
///
/// # Errors
/// Where they or the record can't be read.
pub fn standing(run: &Run) -> Result<Standing> {
    let here = run.desk.here()?;
    trust::standing_at(&run.desk, project_root(&run.desk.env, &here), &here)
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
    let here = run.desk.here()?;
    let project = project_root(&run.desk.env, &here);
    let mut files = all_files(&run.desk.env, &project, &here)?;
    if !args.revoke && files.is_empty() {
        return Err(Refused::by(
            "R126",
            format!(
                "{} has no .leaf files and no forks to trust: nothing of it could run",
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
    trust::keep_others(&record, &project, &mut files);
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
        let _ = writeln!(out, "{} has no .leaf files, no forks and no hooks", text::one_line(&standing.project));
    }
    output::print(&out)
}
