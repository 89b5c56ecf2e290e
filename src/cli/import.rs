//! `leaf import autofork`: what of a user's set-up for autofork leaf takes as it is, and what differs. It writes nothing: leaf reads
//! the same files.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::forks::{trust_words, warnings};
use super::install::client::{config_dir, on_path};
use super::{Run, output};
use crate::FORMAT;
use crate::place::Env;
use crate::schedule::definition::{Fork, Hook, HookMoment, Moment, Warning, shown};
use crate::schedule::{discovery, layers};
use crate::text::{count, one_line};
use crate::trust::{self, ProjectRecord, SourceTrust};

/// `leaf import`
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The tool
    tool: Tool,
}

/// A tool whose set-up leaf knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// autofork: forks and lifecycle hooks
    Autofork,
}

#[derive(Serialize)]
struct Report {
    format: u32,
    home: Option<PathBuf>,
    #[serde(serialize_with = "shown")]
    project: PathBuf,
    forks: Vec<Taken>,
    hooks: Vec<Taken>,
    settings: Vec<Setting>,
    differs: Vec<Difference>,
    installed: Vec<Installed>,
    warnings: Vec<Warning>,
    configuration: Vec<String>,
    waits_for_trust: usize,
}

/// A definition that leaf takes.
#[derive(Serialize)]
struct Taken {
    name: String,
    #[serde(serialize_with = "shown")]
    path: PathBuf,
    trust: SourceTrust,
    at: Vec<String>,
}

/// A key of a configuration that leaf takes.
#[derive(Serialize)]
struct Setting {
    file: PathBuf,
    key: String,
}

/// Something that leaf does otherwise.
#[derive(Serialize)]
struct Difference {
    what: &'static str,
    text: String,
}

/// A part of autofork that is still there.
#[derive(Serialize)]
pub struct Installed {
    /// What it is, and where.
    pub what: String,
    /// The command that takes it away.
    pub remove: String,
    /// Whether it is a plugin of the client's: its hooks run in every session.
    #[serde(skip)]
    pub is_plugin: bool,
}

/// Runs `leaf import`.
///
/// # Errors
/// Where the project's record can't be read.
pub fn run(run: &Run, args: &ImportArgs) -> Result<()> {
    match args.tool {
        Tool::Autofork => autofork(run),
    }
}

fn autofork(run: &Run) -> Result<()> {
    let env = &run.desk.env;
    let here = run.desk.here()?;
    let project = discovery::project_root(env, &here);
    let record = trust::of(&run.desk, &project)?;
    let (forks, hooks) = (discovery::forks(env, &here), discovery::hooks(env, &here));
    // What lies in leaf's own directories is no news.
    // leaf's own files are nobody's to import.
    let ours = crate::config::file(env).and_then(|file| file.parent().map(Path::to_path_buf));
    let theirs = |path: &Path| {
        !path.components().any(|part| part.as_os_str() == ".leaf")
            && !ours.as_ref().is_some_and(|ours| path.starts_with(ours))
    };
    let theirs_forks: Vec<&Fork> = forks.list.iter().filter(|fork| theirs(&fork.source.path)).collect();
    let theirs_hooks: Vec<&Hook> = hooks.list.iter().filter(|hook| theirs(&hook.source.path)).collect();
    let home = discovery::autofork_home(env);
    let mut files: Vec<PathBuf> = home.iter().map(|home| home.join("config.toml")).collect();
    files.push(project.join(".autofork/config.toml"));
    files.dedup();
    let (_, configuration) = run.desk.schedule(&here);
    // What can't be taken is told among the warnings.
    let is_taken = |file: &Path, key: &str| {
        let head = format!("{}: {key} ", file.display());
        !configuration.iter().any(|warning| warning.starts_with(&head))
    };
    let settings: Vec<Setting> = files
        .iter()
        .flat_map(|file| layers::known_keys(file).into_iter().map(|key| Setting { file: file.clone(), key }))
        .filter(|setting| is_taken(&setting.file, &setting.key))
        .collect();
    let taken_forks: Vec<Taken> = theirs_forks.iter().map(|fork| of_fork(fork, &record, &project)).collect();
    let taken_hooks: Vec<Taken> = theirs_hooks.iter().map(|hook| of_hook(hook, &record, &project)).collect();
    let waits_for_trust = taken_forks.iter().chain(&taken_hooks).filter(|taken| !taken.trust.may_run()).count();
    let report = Report {
        format: FORMAT,
        differs: differences(env, &theirs_forks, &theirs_hooks, &settings),
        installed: installed(env, &project),
        warnings: forks
            .warnings
            .iter()
            .chain(&hooks.warnings)
            .filter(|warning| theirs(&warning.file))
            .cloned()
            .collect(),
        configuration,
        home: home.filter(|home| home.is_dir()),
        project,
        forks: taken_forks,
        hooks: taken_hooks,
        settings,
        waits_for_trust,
    };
    if run.common.json {
        return output::print_json(&report);
    }
    output::print(&text(&report))
}

fn of_fork(fork: &Fork, record: &ProjectRecord, project: &Path) -> Taken {
    Taken {
        name: fork.name.clone(),
        path: fork.source.path.clone(),
        trust: trust::of_source(record, project, &fork.source),
        at: fork.run_on.iter().map(Moment::label).collect(),
    }
}

fn of_hook(hook: &Hook, record: &ProjectRecord, project: &Path) -> Taken {
    Taken {
        name: hook.name.clone(),
        path: hook.source.path.clone(),
        trust: trust::of_source(record, project, &hook.source),
        at: hook.on.iter().map(HookMoment::label).collect(),
    }
}

/// Returns what leaf does otherwise, as far as the set-up has to do with it.
fn differences(env: &Env, forks: &[&Fork], hooks: &[&Hook], settings: &[Setting]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut say = |what: &'static str, text: &str| found.push(Difference { what, text: text.to_owned() });
    if forks.is_empty() && hooks.is_empty() && settings.is_empty() {
        return found;
    }
    let set =
        |key: &str| settings.iter().any(|setting| setting.key == key || setting.key.starts_with(&format!("{key}.")));
    let idle = |fork: &&Fork| fork.run_on.iter().any(|moment| matches!(moment, Moment::Idle(_)));
    let context = |fork: &&Fork| {
        let gauge = |moment: &Moment| {
            matches!(moment, Moment::ContextTokens(_) | Moment::ContextUsed(_) | Moment::ContextLeft(_))
        };
        fork.run_on.iter().any(gauge)
    };
    say(
        "trust",
        "a project's forks and hooks run once they are trusted as they are: `leaf trust`; your own in your home need none",
    );
    say("daemon", "there is none, nor a socket or a database: what waits is the session's own Stop hook");
    if forks.iter().any(idle) && !set("flush_on_close") {
        say(
            "flush_on_close",
            "is off unless it is set: idle forks that a closing session still has due don't run; `flush_on_close = true` runs them",
        );
    }
    if forks.iter().any(|fork| fork.guard.is_some()) {
        say("guard", "is held to by the client's own permission rules; a guard that isn't understood stops its fork");
    }
    if forks.iter().any(|fork| idle(fork) && context(fork)) {
        say("run_on", "a context moment that has come once no longer keeps the same fork's idle moment from coming");
    }
    if forks.iter().any(|fork| fork.chain) {
        say("chain", "`<<autofork:continue>>` counts as `<<leaf:continue>>` does");
    }
    if forks.iter().any(|fork| fork.gate || fork.chain) {
        say("close", "a closing session runs one batch in one order, in which no goal fork holds the others");
    }
    let named = |text: &str| text.contains("AUTOFORK_");
    if forks.iter().any(|fork| named(&fork.body)) || hooks.iter().any(|hook| named(&hook.command)) {
        say("variables", "AUTOFORK_X are set beside their new names, LEAF_X; the recursion guard is LEAF_FORK alone");
    }
    if !hooks.is_empty() {
        say("hooks", "run in the environment of their session's own hooks, not in a daemon's");
    }
    if set("tag_throttles") {
        say(
            "tag_throttles",
            "count by project, and ~/.autofork doesn't make your home the project of all below it: the nearest .leaf, .autofork or .git does",
        );
    }
    let dead = [
        "SOCKET",
        "WAKE_GRACE_SECS",
        "CHAIN_GRACE_SECS",
        "GATE_GRACE_SECS",
        "POLL_LOSS_GRACE_MS",
        "OVERLAP_SPAWN_MAX_AGE_SECS",
        "LIVENESS_SWEEP_SECS",
        "SESSION_SWEEP_SECS",
        "FINAL_RUNNER_BIN",
    ];
    let dead: Vec<String> =
        dead.iter().map(|name| format!("AUTOFORK_{name}")).filter(|name| env.var(name).is_some()).collect();
    if !dead.is_empty() {
        say("variables", &format!("{} say nothing here: they were for the daemon", dead.join(", ")));
    }
    found
}

/// Returns what of autofork is still there, and would run beside leaf.
pub fn installed(env: &Env, project: &Path) -> Vec<Installed> {
    let mut found: Vec<Installed> = Vec::new();
    let user = config_dir(env).ok();
    let files = [
        user.map(|dir| dir.join("settings.json")),
        Some(project.join(".claude/settings.json")),
        Some(project.join(".claude/settings.local.json")),
    ];
    for file in files.into_iter().flatten() {
        let Some(settings) = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()) else {
            continue;
        };
        let settings: serde_json::Value = settings;
        for (name, on) in settings["enabledPlugins"].as_object().into_iter().flatten() {
            let known = found.iter().any(|installed| installed.what.contains(name.as_str()));
            if name.split('@').next() == Some("autofork") && on.as_bool() != Some(false) && !known {
                found.push(Installed {
                    what: format!("the plugin {name} ({})", file.display()),
                    remove: format!("claude plugin uninstall {name}"),
                    is_plugin: true,
                });
            }
        }
    }
    if let Some(program) = on_path(env, "autofork") {
        found.push(Installed {
            what: format!("the program {}, and its daemon where one runs", program.display()),
            remove: "autofork stop-daemon".to_owned(),
            is_plugin: false,
        });
    }
    found
}

fn text(report: &Report) -> String {
    let mut out = String::new();
    if report.forks.is_empty() && report.hooks.is_empty() && report.settings.is_empty() {
        out.push_str("there is nothing of autofork's here that leaf would take\n");
    } else {
        out.push_str("taken as it is (leaf reads the same files; nothing is copied):\n");
    }
    for (kind, list) in [("fork", &report.forks), ("hook", &report.hooks)] {
        for taken in list {
            let (name, at) = (one_line(&taken.name), one_line(&taken.at.join(", ")));
            let path = one_line(&taken.path.display().to_string());
            let _ = writeln!(out, "  {kind} {name} at {at}  [{}]  {path}", trust_words(taken.trust));
        }
    }
    for setting in &report.settings {
        let _ = writeln!(out, "  key {}  {}", one_line(&setting.key), one_line(&setting.file.display().to_string()));
    }
    if !report.differs.is_empty() {
        out.push_str("what differs:\n");
    }
    for difference in &report.differs {
        let _ = writeln!(out, "  {}: {}", difference.what, difference.text);
    }
    warnings(&report.warnings, &report.configuration, &mut out);
    if !report.installed.is_empty() {
        out.push_str("autofork is still there, and both would run:\n");
    }
    for installed in &report.installed {
        let _ = writeln!(out, "  {}: `{}`", one_line(&installed.what), one_line(&installed.remove));
    }
    if report.waits_for_trust > 0 {
        let _ = writeln!(
            out,
            "{} for trust: look at {}, then `leaf trust` in {}",
            match report.waits_for_trust {
                1 => "1 file waits".to_owned(),
                number => format!("{} wait", count(number, "file")),
            },
            if report.waits_for_trust == 1 { "it" } else { "them" },
            one_line(&report.project.display().to_string())
        );
    }
    out
}
