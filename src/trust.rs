//! Trust: a project's files run nothing before the user trusted them as they are (R126).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::clock::Ts;
use crate::desk::{Desk, project_key};
use crate::ids::sha256_hex;
use crate::place::{Dir, canonical};
use crate::refused::Refused;
use crate::text;

/// The directories of a project whose files could run something.
pub const DIRECTORIES: [&str; 2] = [".leaf", ".autofork"];
/// More files than this are no configuration.
const MOST: usize = 10_000;

/// `projects/<key>.json`: what the sessions of a project share.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ProjectRecord {
    /// The format of the record.
    pub format: u32,
    /// The project's directory.
    pub directory: String,
    /// What is trusted.
    pub trust: Option<Trusted>,
}

/// What was trusted: the files by their hashes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Trusted {
    /// Since when.
    pub since: Ts,
    /// Each file's SHA-256.
    pub files: BTreeMap<String, String>,
}

/// How a project's files stand.
#[derive(Debug, Serialize)]
pub struct Standing {
    /// The project's directory.
    pub project: String,
    /// Whether all files that could run something are trusted as they are.
    pub trusted: bool,
    /// Since when something is trusted.
    pub since: Option<Ts>,
    /// The files, those that are gone too.
    pub files: Vec<FileStanding>,
}

/// How a file stands.
#[derive(Debug, Serialize)]
pub struct FileStanding {
    /// Its path within the project.
    pub file: String,
    /// How it stands.
    pub state: FileState,
    /// Its SHA-256 now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// How a file stands against what was trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileState {
    /// It is as it was trusted.
    Trusted,
    /// It was never trusted.
    New,
    /// It changed since.
    Changed,
    /// It is gone since.
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

/// Returns the project's files that could run something, with their hashes. A symlink counts as what it points to.
///
/// # Errors
/// Where one can't be read.
pub fn files(project: &Path) -> Result<BTreeMap<String, String>> {
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

/// Returns a project's record, an empty one where there is none.
///
/// # Errors
/// Where it is damaged.
pub fn record(projects: Option<&Dir>, project: &Path) -> Result<ProjectRecord> {
    let Some(bytes) = projects.map(|dir| dir.read(&format!("{}.json", project_key(project)))).transpose()?.flatten()
    else {
        return Ok(ProjectRecord::default());
    };
    serde_json::from_slice(&bytes).context("the project's record is damaged: `leaf doctor` says more")
}

/// Returns how a project's files stand.
///
/// # Errors
/// Where they or the record can't be read.
pub fn standing(desk: &Desk, project: PathBuf) -> Result<Standing> {
    let projects = match desk.home()? {
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
