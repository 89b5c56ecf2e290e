//! What stands beside leaf's schedule: a client that is too old for its runs, another tool that would run the same forks, a file that
//! takes the place of the client's own fork type, a state directory in a project.

use std::path::{Path, PathBuf};

use super::installed::numbers;
use super::{Check, Patient};
use crate::cli::import;
use crate::cli::install::client::config_dir;
use crate::schedule::discovery;
use crate::text::first_words;

/// Nobody saw forks run with an older client.
const OLDEST: &str = "2.1.117";
/// From this on forks need no switch of the client's.
const FREE: &str = "2.1.161";
/// An agent's file is looked at no further than this, bytes.
const HEAD: usize = 4_096;

/// Nothing where there is nothing to say.
pub fn checks(patient: &Patient<'_>, state: Option<&Path>) -> Vec<Check> {
    let project = discovery::project_root(patient.env, &patient.cwd);
    let mut checks = Vec::new();
    if !discovery::fork_roots(patient.env, &patient.cwd).is_empty() {
        checks.extend(runs(patient));
        checks.extend(others(patient, &project));
    }
    checks.extend(impostors(patient));
    checks.extend(state.and_then(|state| place(patient, state)));
    checks
}

/// Whether the client can run a fork as a process of its own.
fn runs(patient: &Patient<'_>) -> Option<Check> {
    const NAME: &str = "forks' runs";
    let Ok(client) = &patient.client else {
        return Some(Check::problem(
            NAME,
            "there is no `claude`: no scheduled fork runs",
            "install it, or put it on PATH",
        ));
    };
    let version = client.version().ok()?;
    let found = numbers(&version)?;
    if Some(&found) < numbers(OLDEST).as_ref() {
        let detail = format!("claude {version} is older than {OLDEST}: forks are not known to run with it");
        return Some(Check::problem(NAME, detail, "run `claude update`"));
    }
    if Some(&found) < numbers(FREE).as_ref() {
        let detail = format!(
            "claude {version} may start forks in the session only with CLAUDE_CODE_FORK_SUBAGENT=1; {FREE} needs no switch"
        );
        return Some(Check::note(NAME, detail).way_out("run `claude update`"));
    }
    None
}

/// Another tool that has the same fork files.
fn others(patient: &Patient<'_>, project: &Path) -> Option<Check> {
    const NAME: &str = "autofork";
    let found = import::installed(patient.env, project);
    let words = |found: &[&import::Installed]| {
        let what = found.iter().map(|one| one.what.as_str()).collect::<Vec<_>>().join("; ");
        let way_out = found.iter().map(|one| format!("`{}`", one.remove)).collect::<Vec<_>>().join(", ");
        (what, way_out)
    };
    let plugins: Vec<&import::Installed> = found.iter().filter(|one| one.is_plugin).collect();
    if !plugins.is_empty() {
        let (what, way_out) = words(&plugins);
        return Some(Check::problem(NAME, format!("{what}: both would run the same forks"), way_out));
    }
    let rest: Vec<&import::Installed> = found.iter().collect();
    let (what, way_out) = words(&rest);
    let detail = format!("{what}: a session that it still serves runs its forks twice");
    (!rest.is_empty()).then(|| Check::note(NAME, detail).way_out(way_out))
}

/// Agents' files that call themselves `fork`: the client then starts those in a fork's place.
fn impostors(patient: &Patient<'_>) -> Option<Check> {
    let user = config_dir(patient.env).ok();
    let above = patient.cwd.ancestors().map(|dir| dir.join(".claude"));
    let mut found: Vec<PathBuf> = Vec::new();
    for dir in user.into_iter().chain(above).map(|dir| dir.join("agents")) {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files.into_iter().filter(|file| is_impostor(file)) {
            if !found.contains(&file) {
                found.push(file);
            }
        }
    }
    let names: Vec<String> = found.iter().map(|file| first_words(&file.to_string_lossy(), 200)).collect();
    let detail = format!("{}: the client starts it in the place of a fork", names.join(", "));
    (!names.is_empty()).then(|| Check::problem("fork agents", detail, "give it another name"))
}

fn is_impostor(file: &Path) -> bool {
    if file.extension().is_none_or(|end| end != "md") || !file.is_file() {
        return false;
    }
    let bytes = std::fs::read(file).unwrap_or_default();
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]);
    let name =
        head.lines().find_map(|line| line.strip_prefix("name:")).map(|name| name.trim().trim_matches(['"', '\'']));
    match name {
        Some(name) => name == "fork",
        None => file.file_stem().is_some_and(|stem| stem == "fork"),
    }
}

/// A state directory within a project: it would be committed, or cleaned away.
fn place(patient: &Patient<'_>, state: &Path) -> Option<Check> {
    let project = discovery::project_root(patient.env, state);
    let own = crate::place::canonical(state);
    if project == own || !own.starts_with(&project) {
        return None;
    }
    let detail = format!(
        "the state directory {} lies in the project {}: what cleans or commits that takes it along",
        state.display(),
        project.display()
    );
    Some(Check::note("state's place", detail).way_out("set LEAF_HOME to a directory outside of any project"))
}
