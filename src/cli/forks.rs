//! `leaf forks`: the scheduled forks of a directory, and every warning, also where no file is a fork (W15).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::{Run, output};
use crate::FORMAT;
use crate::place::canonical;
use crate::refused::Refused;
use crate::schedule::definition::{Fork, Guard, Moment, PerClient, ToolKind, Warning, shown};
use crate::schedule::{discovery, duration};
use crate::text::{count, one_line};
use crate::trust::{self, SourceTrust};

/// `leaf forks`
#[derive(Debug, Args)]
pub struct ForksArgs {
    /// The directory that a session would run in (default: this one)
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
}

/// Returns the directory that a listing is about.
///
/// # Errors
/// Where there is no such directory.
pub fn directory(run: &Run, given: Option<&Path>) -> Result<PathBuf> {
    match given {
        None => run.desk.here(),
        Some(dir) if dir.is_dir() => Ok(canonical(dir)),
        Some(dir) => {
            Err(Refused::input(format!("there is no directory {}", one_line(&dir.display().to_string()))).into())
        }
    }
}

#[derive(Serialize)]
struct Listing<'a> {
    format: u32,
    #[serde(serialize_with = "shown")]
    directory: &'a Path,
    #[serde(serialize_with = "shown")]
    project: &'a Path,
    forks: Vec<ForkJson<'a>>,
    warnings: &'a [Warning],
    configuration: &'a [String],
}

#[derive(Serialize)]
struct ForkJson<'a> {
    name: &'a str,
    #[serde(serialize_with = "shown")]
    path: &'a Path,
    trust: SourceTrust,
    sha256: &'a str,
    skill: Option<String>,
    description: Option<&'a str>,
    run_on: Vec<String>,
    throttle: Option<u64>,
    after: &'a [String],
    priority: i64,
    overlap: bool,
    tags: &'a [String],
    chain: bool,
    chain_limit: Option<u32>,
    gate: bool,
    background_hold: Option<bool>,
    model: BTreeMap<&'static str, &'a [String]>,
    mode: BTreeMap<&'static str, &'a [String]>,
    guard: Option<GuardJson<'a>>,
    stopped: Option<&'a str>,
}

#[derive(Serialize)]
struct GuardJson<'a> {
    write: Vec<String>,
    tools: Option<Vec<&'static str>>,
    network: bool,
    deny: &'a [String],
    message: Option<&'a str>,
}

/// Runs `leaf forks`.
///
/// # Errors
/// Where the directory isn't there, or the project's record can't be read.
pub fn run(run: &Run, args: &ForksArgs) -> Result<()> {
    let directory = directory(run, args.project.as_deref())?;
    let project = discovery::project_root(&run.desk.env, &directory);
    let (settings, configuration) = run.desk.schedule(&directory);
    let record = trust::of(&run.desk, &project)?;
    let found = discovery::forks(&run.desk.env, &directory).settled(|source| trust::trusts(&record, &project, source));
    let trust_of = |fork: &Fork| trust::of_source(&record, &project, &fork.source);
    if run.common.json {
        let forks = found.list.iter().map(|fork| json(fork, trust_of(fork))).collect();
        let (directory, project, warnings) = (&*directory, &*project, &*found.warnings);
        let configuration = &configuration;
        return output::print_json(&Listing { format: FORMAT, directory, project, forks, warnings, configuration });
    }
    let mut out = String::new();
    for fork in &found.list {
        write_fork(fork, trust_of(fork), settings.default_idle_deadline, &mut out);
    }
    if found.list.is_empty() {
        out.push_str("no forks: a file below .leaf/forks with `fork: true` in its frontmatter is one\n");
    }
    waiting(found.list.iter().map(trust_of), "fork", &mut out);
    warnings(&found.warnings, &configuration, &mut out);
    output::print(&out)
}

/// Says how many definitions wait for trust.
pub fn waiting(trust: impl Iterator<Item = SourceTrust>, what: &str, out: &mut String) {
    let number = trust.filter(|trust| !trust.may_run()).count();
    if number > 0 {
        let wait = if number == 1 { "waits" } else { "wait" };
        let _ = writeln!(
            out,
            "{} {wait} for trust: look at the files, then `leaf trust` in the project",
            count(number, what)
        );
    }
}

/// Tells all warnings, one a line.
pub fn warnings(warnings: &[Warning], configuration: &[String], out: &mut String) {
    for warning in warnings {
        let _ = writeln!(out, "warning: {}", one_line(&warning.sentence()));
    }
    for warning in configuration {
        let _ = writeln!(out, "warning: {}", one_line(warning));
    }
}

/// Returns how trust is told beside a definition; empty where there is nothing to say.
pub fn trust_words(trust: SourceTrust) -> &'static str {
    match trust {
        SourceTrust::Own => "yours",
        SourceTrust::Trusted => "trusted",
        SourceTrust::Changed => "changed since it was trusted",
        SourceTrust::New => "not trusted",
    }
}

fn json(fork: &Fork, trust: SourceTrust) -> ForkJson<'_> {
    ForkJson {
        name: &fork.name,
        path: &fork.source.path,
        trust,
        sha256: &fork.source.sha256,
        skill: fork.skill.as_ref().map(|skill| skill.display().to_string()),
        description: fork.description.as_deref(),
        run_on: fork.run_on.iter().map(Moment::label).collect(),
        throttle: fork.throttle,
        after: &fork.after,
        priority: fork.priority,
        overlap: fork.overlap,
        tags: &fork.tags,
        chain: fork.chain,
        chain_limit: fork.chain_limit,
        gate: fork.gate,
        background_hold: fork.background_hold,
        model: by_client(&fork.models),
        mode: by_client(&fork.modes),
        guard: fork.guard.as_ref().map(guard_json),
        stopped: fork.stopped.as_deref(),
    }
}

fn by_client(candidates: &PerClient) -> BTreeMap<&'static str, &[String]> {
    candidates.0.iter().map(|(client, list)| (client.word(), list.as_slice())).collect()
}

fn guard_json(guard: &Guard) -> GuardJson<'_> {
    GuardJson {
        write: guard.write.iter().map(|place| place.display().to_string()).collect(),
        tools: guard.tools.as_ref().map(|tools| tools.iter().map(|tool| tool_word(*tool)).collect()),
        network: guard.network,
        deny: &guard.deny,
        message: guard.message.as_deref(),
    }
}

fn tool_word(tool: ToolKind) -> &'static str {
    match tool {
        ToolKind::Read => "read",
        ToolKind::Shell => "shell",
        ToolKind::Edit => "edit",
        ToolKind::Web => "web",
        ToolKind::Task => "task",
    }
}

fn write_fork(fork: &Fork, trust: SourceTrust, idle: u64, out: &mut String) {
    let _ = writeln!(out, "{}  [{}]", one_line(&fork.name), trust_words(trust));
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "    {name:<12}{}", one_line(&text));
    };
    line("file", fork.source.path.display().to_string());
    if let Some(text) = &fork.description {
        line("for", text.clone());
    }
    if let Some(why) = &fork.stopped {
        line("NEVER RUNS", why.clone());
    }
    line("runs at", fork.run_on.iter().map(|moment| moment_words(moment, idle)).collect::<Vec<_>>().join(", "));
    if let Some(throttle) = fork.throttle {
        line("at most", format!("once in {}", duration::words(throttle)));
    }
    if !fork.after.is_empty() {
        line("after", fork.after.join(", "));
    }
    if fork.priority != 0 {
        line("priority", fork.priority.to_string());
    }
    if !fork.tags.is_empty() {
        line("tags", fork.tags.join(", "));
    }
    if fork.chain {
        line(
            "chain",
            fork.chain_limit.map_or_else(|| "yes".to_owned(), |limit| format!("at most {limit} runs a pause")),
        );
    }
    let flags: Vec<&str> = [
        (fork.gate, "holds other idle forks while it runs"),
        (fork.overlap, "may run twice at once"),
        (fork.background_hold == Some(false), "doesn't wait for work in the background"),
        (fork.background_hold == Some(true), "waits for work in the background"),
    ]
    .into_iter()
    .filter_map(|(is, words)| is.then_some(words))
    .collect();
    if !flags.is_empty() {
        line("also", flags.join("; "));
    }
    for (name, candidates) in [("model", &fork.models), ("mode", &fork.modes)] {
        if !candidates.0.is_empty() {
            let words: Vec<String> =
                candidates.0.iter().map(|(client, list)| format!("{}: {}", client.word(), list.join(", "))).collect();
            line(name, words.join("; "));
        }
    }
    if let Some(guard) = &fork.guard {
        line("guard", guard_words(guard));
    }
    if let Some(skill) = &fork.skill {
        line("skill", skill.display().to_string());
    }
}

fn guard_words(guard: &Guard) -> String {
    let mut words = vec![match guard.write.as_slice() {
        [] => "writes nothing".to_owned(),
        places => {
            let places: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
            format!("writes only below {}", places.join(", "))
        }
    }];
    if let Some(tools) = &guard.tools {
        let tools: Vec<&str> = tools.iter().map(|tool| tool_word(*tool)).collect();
        words.push(if tools.is_empty() { "no tools".to_owned() } else { format!("tools {}", tools.join(", ")) });
    }
    words.push(if guard.network { "network" } else { "no network" }.to_owned());
    if !guard.deny.is_empty() {
        words.push(format!("never {}", guard.deny.join(", ")));
    }
    words.join("; ")
}

/// Returns a moment for a person. `idle`: when a bare `idle` is due.
fn moment_words(moment: &Moment, idle: u64) -> String {
    match moment {
        Moment::Idle(None) if idle == 0 => "idle (never: default_idle_deadline is 0)".to_owned(),
        Moment::Idle(None) => format!("idle for {} (the default)", duration::words(idle)),
        Moment::Idle(Some(0)) => "each pause's first stop".to_owned(),
        Moment::Idle(Some(seconds)) => format!("idle for {}", duration::words(*seconds)),
        Moment::ContextTokens(tokens) => format!("{tokens} tokens of context"),
        Moment::ContextUsed(percent) => format!("{percent}% of the context used"),
        Moment::ContextLeft(tokens) => format!("{tokens} tokens of context left"),
        Moment::Every(seconds) => format!("every {}", duration::words(*seconds)),
        Moment::Changed(pattern) => format!("a change of {pattern}"),
        Moment::Event(name) => format!("the event {name}"),
    }
}
