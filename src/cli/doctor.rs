//! `leaf doctor`: one small function a check, each of which says what it found and the way out. It changes nothing.

mod beside;
mod cost;
mod installed;
mod schedule;
mod state;
mod ways;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::Serialize;

use crate::cli::install::client::{Client, ClientError, Plugin};
use crate::cli::install::{Folder, VERSION};
use crate::cli::output;
use crate::place::{self, Env};
use crate::text;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Worth knowing; leaf works.
    Note,
    /// Something doesn't work or was lost: exit 1.
    Problem,
}

/// One check's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at, one word or two.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found: leaf's own words, and harmless text of others (R124).
    pub detail: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, status: Status::Ok, detail: detail.into(), way_out: None }
    }

    fn note(name: &'static str, detail: impl Into<String>) -> Check {
        Check { status: Status::Note, ..Check::ok(name, detail) }
    }

    fn problem(name: &'static str, detail: impl Into<String>, way_out: impl Into<String>) -> Check {
        Check { status: Status::Problem, way_out: Some(way_out.into()), ..Check::ok(name, detail) }
    }

    fn way_out(self, way_out: impl Into<String>) -> Check {
        Check { way_out: Some(way_out.into()), ..self }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = match self.status {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Problem => "PROBLEM",
        };
        write!(f, "{status:<8} {:<13} {}", self.name, text::one_line(&self.detail))?;
        match &self.way_out {
            Some(way_out) => write!(f, "\n{:22} -> {}", "", text::one_line(way_out)),
            None => Ok(()),
        }
    }
}

/// What the checks look at.
struct Patient<'a> {
    env: &'a Env,
    cwd: PathBuf,
    folder: Option<Folder>,
    client: Result<Client, ClientError>,
    plugins: Option<Result<Vec<Plugin>, ClientError>>,
}

impl<'a> Patient<'a> {
    fn new(env: &'a Env) -> Patient<'a> {
        let client = Client::find(env);
        let plugins = client.as_ref().ok().map(Client::plugins);
        Patient {
            env,
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            folder: Folder::find(env).ok(),
            client,
            plugins,
        }
    }

    /// The client's plugins, as far as it told.
    fn plugins(&self) -> &[Plugin] {
        match &self.plugins {
            Some(Ok(plugins)) => plugins,
            Some(Err(_)) | None => &[],
        }
    }
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    state: Option<PathBuf>,
    problems: usize,
    checks: Vec<Check>,
}

/// Runs `leaf doctor`: prints every check, as text or one JSON value.
///
/// # Errors
/// One sentence where there is a problem, after all checks were printed.
pub fn doctor(json: bool) -> Result<()> {
    let env = &Env::default();
    let patient = Patient::new(env);
    let mut checks = vec![
        installed::binary(&patient),
        installed::plugin(&patient),
        installed::client(&patient),
        installed::hooks(&patient),
        installed::other_hooks(&patient),
        installed::permission(&patient),
    ];
    let path = place::state_path(env);
    checks.extend(state::checks(&path));
    checks.push(ways::check());
    checks.extend(schedule::checks(&patient));
    checks.extend(beside::checks(&patient, path.as_deref().ok()));
    checks.push(cost::check(&patient));
    let problems = checks.iter().filter(|c| c.status == Status::Problem).count();
    let report = Report { version: VERSION, state: path.ok(), problems, checks };
    if json {
        output::print_json(&report)?;
    } else {
        output::print(&report.checks.iter().map(|check| format!("{check}\n")).collect::<String>())?;
    }
    match problems {
        0 => Ok(()),
        n => bail!("{}, each with its way out beside it", text::count(n, "problem")),
    }
}

/// Reads a JSON file; `None` where it is missing or no JSON: other checks say so.
fn json_file(file: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}
