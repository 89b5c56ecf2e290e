//! `leaf trust`: a project's files run nothing before the user trusted them as they are (R126).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::writer::Verb;
use super::{Run, output};
use crate::FORMAT;
use crate::clock::Ts;
use crate::desk::project_key;
use crate::ids::sha256_hex;
use crate::place::{Dir, canonical};
use crate::refused::Refused;
use crate::text;

/// The directories of a project whose files could run something.
const DIRECTORIES: [&str; 2] = [".leaf", ".autofork"];
/// More files than this are no configuration.
const MOST: usize = 10_000;

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

/// `projects/<key>.json`: what the sessions of a project share.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ProjectRecord {
    format: u32,
    directory: String,
    trust: Option<Trusted>,
}

/// What was trusted: the files by their hashes.
#[derive(Debug, Serialize, Deserialize)]
struct Trusted {
    since: Ts,
    files: BTreeMap<String, String>,
}

/// How a project's files stand.
#[derive(Debug, Serialize)]
pub struct Standing {
    project: String,
    /// Whether all files that could run something are trusted as they are.
    pub trusted: bool,
    since: Option<Ts>,
    files: Vec<FileStanding>,
}

#[derive(Debug, Serialize)]
struct FileStanding {
    file: String,
    state: FileState,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum FileState {
    Trusted,
    New,
    Changed,
    Gone,
}

impl Standing {
    /// Returns what a person is to know of it, where there is something.
    pub fn sentence(&self) -> Option<String> {
        if self.trusted || self.files.is_empty() {
            return None;
        }
        let number = self.files.iter().filter(|file| file.state != FileState::Trusted).count();
        Some(format!(
            "{} of this project's .leaf not trusted as they are now, and run nothing: `leaf trust --list`, then `leaf trust`",
            text::count(number, "file")
        ))
    }
}

/// Returns the project of the present directory: the nearest one at or above it that has such files, else itself.
fn project(run: &Run) -> Result<PathBuf> {
    let here = run.desk.here()?;
    let found = here.ancestors().find(|dir| DIRECTORIES.iter().any(|name| dir.join(name).is_dir()));
    Ok(found.unwrap_or(&here).to_path_buf())
}

/// Returns the project's files that could run something, with their hashes. A symlink counts as what it points to.
fn files(project: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut todo: Vec<PathBuf> = DIRECTORIES.iter().map(|name| project.join(name)).filter(|dir| dir.is_dir()).collect();
    let mut seen: Vec<PathBuf> = Vec::new();
    while let Some(dir) = todo.pop() {
        let real = canonical(&dir);
        if seen.contains(&real) {
            continue;
        }
        seen.push(real);
        let entries = std::fs::read_dir(&dir).with_context(|| format!("can't read {}", dir.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("can't read {}", dir.display()))?.path();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            let name = path.strip_prefix(project).unwrap_or(&path).to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).with_context(|| format!("can't read {name}"))?;
            found.insert(name, sha256_hex(&bytes));
            if found.len() > MOST {
                return Err(
                    Refused::input(format!("there are over {MOST} files in .leaf: that is no configuration")).into()
                );
            }
        }
    }
    Ok(found)
}

fn record(projects: Option<&Dir>, project: &Path) -> Result<ProjectRecord> {
    let Some(bytes) = projects.map(|dir| dir.read(&format!("{}.json", project_key(project)))).transpose()?.flatten()
    else {
        return Ok(ProjectRecord::default());
    };
    serde_json::from_slice(&bytes).context("the project's record is damaged: `leaf doctor` says more")
}

/// Returns how the present project's files stand.
///
/// # Errors
/// Where they or the record can't be read.
pub fn standing(run: &Run) -> Result<Standing> {
    let project = project(run)?;
    let projects = match run.desk.home()? {
        Some(home) => home.sub("projects")?,
        None => None,
    };
    let trusted = record(projects.as_ref(), &project)?.trust;
    let now = files(&project)?;
    let since = trusted.as_ref().map(|trusted| trusted.since);
    let known = trusted.map(|trusted| trusted.files).unwrap_or_default();
    let mut standing: Vec<FileStanding> = now
        .iter()
        .map(|(file, hash)| FileStanding {
            file: file.clone(),
            state: match known.get(file) {
                Some(same) if same == hash => FileState::Trusted,
                Some(_) => FileState::Changed,
                None => FileState::New,
            },
            sha256: Some(hash.clone()),
        })
        .collect();
    let gone = known.keys().filter(|file| !now.contains_key(*file));
    standing.extend(gone.map(|file| FileStanding { file: file.clone(), state: FileState::Gone, sha256: None }));
    let trusted = since.is_some() && standing.iter().all(|file| file.state == FileState::Trusted);
    Ok(Standing { project: project.to_string_lossy().into_owned(), trusted, since, files: standing })
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
