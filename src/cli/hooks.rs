//! `leaf hooks`: the lifecycle hooks of a directory, and every warning.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::forks::{directory, trust_words, waiting, warnings};
use super::{Run, output};
use crate::FORMAT;
use crate::schedule::definition::{Deliver, Hook, HookMoment, Warning, shown};
use crate::schedule::{discovery, duration};
use crate::text::one_line;
use crate::trust::{self, SourceTrust};

/// `leaf hooks`
#[derive(Debug, Args)]
pub struct HooksArgs {
    /// The directory that a session would run in (default: this one)
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
}

#[derive(Serialize)]
struct Listing<'a> {
    format: u32,
    #[serde(serialize_with = "shown")]
    directory: &'a Path,
    #[serde(serialize_with = "shown")]
    project: &'a Path,
    hooks: Vec<HookJson<'a>>,
    warnings: &'a [Warning],
}

#[derive(Serialize)]
struct HookJson<'a> {
    name: &'a str,
    #[serde(serialize_with = "shown")]
    path: &'a Path,
    trust: SourceTrust,
    sha256: &'a str,
    description: Option<&'a str>,
    on: Vec<String>,
    command: &'a str,
    timeout: u64,
    deliver: Deliver,
    max_bytes: usize,
    throttle: Option<u64>,
}

/// Runs `leaf hooks`.
///
/// # Errors
/// Where the directory isn't there, or the project's record can't be read.
pub fn run(run: &Run, args: &HooksArgs) -> Result<()> {
    let directory = directory(run, args.project.as_deref())?;
    let project = discovery::project_root(&run.desk.env, &directory);
    let record = trust::of(&run.desk, &project)?;
    let found = discovery::hooks(&run.desk.env, &directory).settled(|source| trust::trusts(&record, &project, source));
    let trust_of = |hook: &Hook| trust::of_source(&record, &project, &hook.source);
    if run.common.json {
        let hooks = found.list.iter().map(|hook| json(hook, trust_of(hook))).collect();
        let (directory, project, warnings) = (&*directory, &*project, &*found.warnings);
        return output::print_json(&Listing { format: FORMAT, directory, project, hooks, warnings });
    }
    let mut out = String::new();
    for hook in &found.list {
        write_hook(hook, trust_of(hook), &mut out);
    }
    if found.list.is_empty() {
        out.push_str("no lifecycle hooks: a file below .leaf/hooks with `hook: true` in its frontmatter is one\n");
    }
    waiting(found.list.iter().map(trust_of), "hook", &mut out);
    warnings(&found.warnings, &[], &mut out);
    output::print(&out)
}

fn json(hook: &Hook, trust: SourceTrust) -> HookJson<'_> {
    HookJson {
        name: &hook.name,
        path: &hook.source.path,
        trust,
        sha256: &hook.source.sha256,
        description: hook.description.as_deref(),
        on: hook.on.iter().map(HookMoment::label).collect(),
        command: &hook.command,
        timeout: hook.timeout,
        deliver: hook.deliver,
        max_bytes: hook.max_bytes,
        throttle: hook.throttle,
    }
}

fn write_hook(hook: &Hook, trust: SourceTrust, out: &mut String) {
    let _ = writeln!(out, "{}  [{}]", one_line(&hook.name), trust_words(trust));
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "    {name:<12}{}", one_line(&text));
    };
    line("file", hook.source.path.display().to_string());
    if let Some(text) = &hook.description {
        line("for", text.clone());
    }
    if hook.on.is_empty() || hook.command.is_empty() {
        line("NEVER RUNS", if hook.command.is_empty() { "it has no command" } else { "it has no moment" }.to_owned());
    }
    line("runs at", hook.on.iter().map(HookMoment::label).collect::<Vec<_>>().join(", "));
    line("command", hook.command.clone());
    line("at most", duration::words(hook.timeout));
    if let Some(throttle) = hook.throttle {
        line("throttle", format!("once in {}", duration::words(throttle)));
    }
    match hook.deliver {
        Deliver::None => {}
        Deliver::Context => line("delivers", format!("up to {} bytes at the next prompt", hook.max_bytes)),
        Deliver::Wake => line("delivers", format!("up to {} bytes, and wakes the session", hook.max_bytes)),
    }
}
