//! Trust: a project's files run nothing before the user trusted them as they are (R126).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::clock::Ts;
use crate::desk::{Desk, project_key};
use crate::ids::sha256_hex;
use crate::place::{Dir, Env, canonical, read_plain};
use crate::refused::Refused;
use crate::schedule::definition::Source;
use crate::schedule::discovery;
use crate::text;

/// The directories of a project whose files could run something.
pub const DIRECTORIES: [&str; 2] = [".leaf", ".autofork"];
/// More files and directories than this are no configuration.
const MOST: usize = 10_000;
/// Nor is a longer file, bytes: a link may lead to one that has no end.
const LONGEST: u64 = 16 << 20;
/// Nor are so many bytes together.
const ALL: u64 = 64 << 20;

/// `projects/<key>.json`: what the sessions of a project share.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ProjectRecord {
    /// The format of the record.
    pub format: u32,
    /// The project's directory.
    pub directory: String,
    /// What is trusted.
    pub trust: Option<Trusted>,
    /// When a scheduled fork with this tag was last issued, for the tags that have a throttle.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, Ts>,
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
#[derive(Debug, Default, Serialize)]
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
    /// Whether all of them are trusted, this one with these bytes.
    pub fn trusts(&self, file: &str, bytes: &[u8]) -> bool {
        self.trusted && self.files.iter().any(|known| known.file == file && known.sha256 == Some(sha256_hex(bytes)))
    }

    /// Returns what a person is to know of it, where there is something.
    pub fn sentence(&self) -> Option<String> {
        if self.trusted || self.files.is_empty() {
            return None;
        }
        let number = self.files.iter().filter(|file| file.state != FileState::Trusted).count();
        Some(format!(
            "{} of this project not trusted as they are now, and run nothing: `leaf trust --list`, then `leaf trust`",
            text::count(number, "file")
        ))
    }
}

/// Returns the project's files that could run something, with their hashes. A symlink counts as what it points to.
///
/// # Errors
/// Where there are too many, or they are too long: none of them is trusted then.
pub fn files(env: &Env, project: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let todo = DIRECTORIES.iter().map(|name| project.join(name));
    // autofork's own directory in the user's home holds its logs and its database.
    let own = discovery::autofork_home(env).map(|own| canonical(&own));
    let mut todo: Vec<PathBuf> =
        todo.filter(|dir| dir.is_dir() && own.as_deref() != Some(canonical(dir).as_path())).collect();
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let (mut entries_seen, mut left) = (0, ALL);
    while let Some(dir) = todo.pop() {
        if !seen.insert(canonical(&dir)) {
            continue;
        }
        // What can't be read can't run either, and is a new file once it can: it takes no trust from the others.
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            entries_seen += 1;
            if entries_seen > MOST {
                return Err(
                    Refused::input(format!("there are over {MOST} files in .leaf: that is no configuration")).into()
                );
            }
            let Ok(meta) = std::fs::metadata(&path) else { continue };
            if meta.is_dir() {
                todo.push(path);
                continue;
            }
            let bytes = match read_plain(&path, LONGEST.min(left)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                    let file = text::one_line(&key(project, &path));
                    return Err(Refused::input(format!(
                        "{file} is over {} MiB, or makes the files in .leaf over {}: that is no configuration",
                        LONGEST >> 20,
                        ALL >> 20
                    ))
                    .into());
                }
                Err(_) => continue,
            };
            left -= bytes.len() as u64;
            found.insert(key(project, &path), sha256_hex(&bytes));
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

/// Returns the project's record as it is now, an empty one where there is none: what is trusted of its forks and hooks.
///
/// # Errors
/// Where it can't be read.
pub fn of(desk: &Desk, project: &Path) -> Result<ProjectRecord> {
    let projects = match desk.home()? {
        Some(home) => home.sub("projects")?,
        None => None,
    };
    record(projects.as_ref(), project)
}

/// Returns the name that a file is trusted under: its path within the project, else its whole path.
fn key(project: &Path, file: &Path) -> String {
    file.strip_prefix(project).unwrap_or(file).to_string_lossy().into_owned()
}

/// Whether a name is one of the directories whose every file counts, and not one of a definition found elsewhere.
fn is_configuration(key: &str) -> bool {
    DIRECTORIES.iter().any(|dir| key.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/')))
}

/// How a definition's file stands (R126).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceTrust {
    /// It is the user's own, and needs none.
    Own,
    /// It is as it was trusted.
    Trusted,
    /// It changed since.
    Changed,
    /// It was never trusted.
    New,
}

impl SourceTrust {
    /// Whether it may run.
    pub fn may_run(self) -> bool {
        matches!(self, SourceTrust::Own | SourceTrust::Trusted)
    }
}

/// Tells how a definition's file stands: each file by itself, so that one that changed asks again alone (R126).
pub fn of_source(record: &ProjectRecord, project: &Path, source: &Source) -> SourceTrust {
    if source.own {
        return SourceTrust::Own;
    }
    match record.trust.as_ref().and_then(|trust| trust.files.get(&key(project, &source.path))) {
        Some(hash) if *hash == source.sha256 => SourceTrust::Trusted,
        Some(_) => SourceTrust::Changed,
        None => SourceTrust::New,
    }
}

/// Whether a definition may run: it is the user's own, or trusted as it was read (R126).
pub fn trusts(record: &ProjectRecord, project: &Path, source: &Source) -> bool {
    of_source(record, project, source).may_run()
}

/// Whether a file of the project's is trusted with these bytes: those that were read, for it may be another one by now.
pub fn trusts_bytes(record: &ProjectRecord, project: &Path, file: &Path, bytes: &[u8]) -> bool {
    let known = record.trust.as_ref().and_then(|trust| trust.files.get(&key(project, file)));
    known.is_some_and(|hash| sha256_hex(bytes) == *hash)
}

/// Returns the files of a project that `leaf trust` in a directory records: those of its `.leaf` and `.autofork`, and every fork
/// and hook that a session there would find elsewhere and that isn't the user's own.
///
/// # Errors
/// Where one can't be read.
pub fn all_files(env: &Env, project: &Path, dir: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = files(env, project)?;
    let (forks, hooks) = (discovery::forks(env, dir), discovery::hooks(env, dir));
    let forks = forks.list.into_iter().chain(forks.shadowed).map(|fork| fork.source);
    let hooks = hooks.list.into_iter().chain(hooks.shadowed).map(|hook| hook.source);
    for source in forks.chain(hooks) {
        let key = key(project, &source.path);
        if source.own {
            found.remove(&key);
        } else {
            found.entry(key).or_insert(source.sha256);
        }
    }
    Ok(found)
}

/// Adds to what is trusted what was found from another directory of the project before, as far as it is unchanged: trusting in one
/// directory takes no trust away in another.
pub fn keep_others(record: &ProjectRecord, project: &Path, files: &mut BTreeMap<String, String>) {
    for (key, hash) in record.trust.iter().flat_map(|trust| &trust.files) {
        if !is_configuration(key) && !files.contains_key(key) && hash_of(project, key).as_ref() == Some(hash) {
            files.insert(key.clone(), hash.clone());
        }
    }
}

fn hash_of(project: &Path, key: &str) -> Option<String> {
    Some(sha256_hex(&read_plain(&project.join(key), LONGEST).ok()?))
}

/// Returns how the files of a project's `.leaf` and `.autofork` stand: its configuration counts where all of them are trusted.
///
/// # Errors
/// Where they or the record can't be read.
pub fn standing(desk: &Desk, project: PathBuf) -> Result<Standing> {
    let mut record = of(desk, &project)?;
    if let Some(trust) = &mut record.trust {
        trust.files.retain(|key, _| is_configuration(key));
    }
    let now = files(&desk.env, &project)?;
    Ok(compare(record, project, now))
}

/// Returns how all files of a project stand that a session in a directory would take something from.
///
/// # Errors
/// Where they or the record can't be read.
pub fn standing_at(desk: &Desk, project: PathBuf, dir: &Path) -> Result<Standing> {
    let record = of(desk, &project)?;
    let mut now = all_files(&desk.env, &project, dir)?;
    // What was trusted from another directory of the project is still there.
    for key in record.trust.iter().flat_map(|trust| trust.files.keys()) {
        if !now.contains_key(key)
            && !is_configuration(key)
            && let Some(hash) = hash_of(&project, key)
        {
            now.insert(key.clone(), hash);
        }
    }
    Ok(compare(record, project, now))
}

fn compare(record: ProjectRecord, project: PathBuf, now: BTreeMap<String, String>) -> Standing {
    let trusted = record.trust;
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
    Standing { project: project.to_string_lossy().into_owned(), trusted, since, files: standing }
}
