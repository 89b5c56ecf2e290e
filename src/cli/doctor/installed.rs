//! The binary, the plugin's folder, the client, and what else hooks into it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{Check, Patient, json_file};
use crate::cli::install::client::{MEASURED, Plugin, config_dir, on_path};
use crate::cli::install::{BINARY, EMBEDDED, Folder, PLUGIN, VERSION, settings};
use crate::place::{canonical, plain};

const INSTALL: &str = "run `leaf install`";

/// The binary that runs, and whether `leaf` on PATH is the same.
pub fn binary(patient: &Patient) -> Check {
    let own = match std::env::current_exe() {
        Ok(path) => path,
        Err(error) => {
            return Check::note("binary", format!("leaf {VERSION}; its file can't be told ({})", plain(&error)));
        }
    };
    let found = format!("leaf {VERSION} at {}", own.display());
    match on_path(patient.env, "leaf") {
        Some(path) if canonical(&path) == canonical(&own) || same(&path, &own) => Check::ok("binary", found),
        Some(path) => Check::note("binary", format!("{found}; `leaf` on PATH is another file, {}", path.display()))
            .way_out("put this one's directory first on PATH, or remove the other: agents call what is on PATH"),
        // Inside the client the plugin's own bin directory is on PATH.
        None => Check::note("binary", format!("{found}; no `leaf` is on PATH"))
            .way_out("add its directory to PATH to write from a terminal"),
    }
}

fn same(one: &Path, other: &Path) -> bool {
    let size = |path: &Path| path.metadata().map(|m| m.len()).ok();
    size(one) == size(other) && matches!((std::fs::read(one), std::fs::read(other)), (Ok(a), Ok(b)) if a == b)
}

/// The plugin's folder: written, whole, runnable, and of this version.
pub fn plugin(patient: &Patient) -> Check {
    let Some(root) = patient.folder.as_ref().map(Folder::plugin) else {
        return Check::problem("plugin", "there is no place for the plugin's folder", "set HOME or XDG_DATA_HOME");
    };
    if !root.exists() {
        return Check::problem("plugin", format!("there is no plugin folder at {}", root.display()), INSTALL);
    }
    let stale: Vec<&str> = EMBEDDED
        .iter()
        .filter(|(name, text)| std::fs::read(root.join(name)).ok().as_deref() != Some(text.as_bytes()))
        .map(|(name, _)| *name)
        .collect();
    let version = match version_of(&root.join(BINARY)) {
        Ok(version) => version,
        Err(why) => return Check::problem("plugin", format!("{} {why}", root.join(BINARY).display()), INSTALL),
    };
    if version != VERSION {
        return Check::problem(
            "plugin",
            format!("{} holds leaf {version}, this is {VERSION}", root.display()),
            INSTALL,
        );
    }
    if !stale.is_empty() {
        return Check::problem(
            "plugin",
            format!("{} differs from this leaf in {}", root.display(), stale.join(", ")),
            INSTALL,
        );
    }
    Check::ok("plugin", format!("leaf {version} in {}", root.display()))
}

fn version_of(binary: &Path) -> Result<String, String> {
    let said = Command::new(binary).arg("--version").stdin(Stdio::null()).output();
    let said = said.map_err(|error| format!("can't be started ({})", plain(&error)))?;
    let text = String::from_utf8_lossy(&said.stdout);
    match (said.status.success(), text.trim().strip_prefix("leaf ")) {
        (true, Some(version)) => Ok(version.to_owned()),
        _ => Err("doesn't tell its version".to_owned()),
    }
}

/// The client's version, against the one that was measured.
pub fn client(patient: &Patient) -> Check {
    let client = match &patient.client {
        Ok(client) => client,
        Err(error) => {
            let (what, way_out) = match error.to_string().split_once(": ") {
                Some((what, way_out)) => (what.to_owned(), way_out.to_owned()),
                None => (error.to_string(), INSTALL.to_owned()),
            };
            return Check::problem("claude code", what, way_out);
        }
    };
    match client.version() {
        Err(error) => Check::problem("claude code", error.to_string(), "see that `claude --version` runs by hand"),
        Ok(version) => match (numbers(&version), numbers(MEASURED)) {
            (Some(found), Some(measured)) if found >= measured => {
                Check::ok("claude code", format!("{version} at {}", client.program().display()))
            }
            _ => {
                Check::note("claude code", format!("{version} is older than {MEASURED}, which leaf was measured with"))
                    .way_out("run `claude update`")
            }
        },
    }
}

/// A version as numbers that can be compared.
pub fn numbers(version: &str) -> Option<Vec<u64>> {
    version.split(['-', '+']).next()?.split('.').map(|n| n.parse().ok()).collect()
}

/// Whether the client runs the plugin's hooks.
pub fn hooks(patient: &Patient) -> Check {
    const NAME: &str = "hooks";
    match &patient.plugins {
        None => return Check::problem(NAME, "without the client no hook runs", "see `claude code`"),
        Some(Err(error)) => {
            return Check::problem(NAME, error.to_string(), "see that `claude plugin list` runs by hand");
        }
        Some(Ok(_)) => {}
    }
    let Some(found) = patient.plugins().iter().find(|p| p.id == PLUGIN) else {
        return Check::problem(NAME, "Claude Code doesn't have the plugin", INSTALL);
    };
    if !found.enabled {
        return Check::problem(
            NAME,
            format!("the plugin is disabled in Claude Code's {} settings", found.scope),
            format!("run `claude plugin enable {PLUGIN}`"),
        );
    }
    for (file, settings) in settings_files(patient) {
        if settings["disableAllHooks"] == true {
            return Check::problem(
                NAME,
                format!("{} has disableAllHooks: no hook runs", file.display()),
                "remove it there",
            );
        }
        if settings["allowManagedHooksOnly"] == true && file.ends_with(MANAGED_NAME) {
            return Check::problem(
                NAME,
                format!("{} has allowManagedHooksOnly: a plugin's hooks don't run", file.display()),
                "ask who manages this machine",
            );
        }
    }
    let read_from = found.folder().map(canonical);
    let ours = patient.folder.as_ref().map(|f| canonical(&f.plugin()));
    match (read_from, ours) {
        (Some(read), Some(ours)) if read != ours => {
            Check::note(NAME, format!("enabled, but read from {} instead of leaf's own folder", read.display()))
                .way_out("if that isn't meant, run `claude plugin marketplace remove leaf`, then `leaf install`")
        }
        _ => Check::ok(NAME, format!("{} is enabled ({} scope): {}", PLUGIN, found.scope, registered().join(", "))),
    }
}

/// The events that hooks.json registers.
fn registered() -> Vec<String> {
    let text = EMBEDDED.iter().find(|(name, _)| *name == "hooks.json").map_or("", |(_, text)| text);
    let hooks: Value = serde_json::from_str(text).unwrap_or_default();
    hooks["hooks"].as_object().map(|events| events.keys().cloned().collect()).unwrap_or_default()
}

const MANAGED_NAME: &str = "managed-settings.json";
#[cfg(target_os = "macos")]
const MANAGED: &str = "/Library/Application Support/ClaudeCode";
#[cfg(not(target_os = "macos"))]
const MANAGED: &str = "/etc/claude-code";

/// The settings files that the client reads here and that can be read.
fn settings_files(patient: &Patient) -> Vec<(PathBuf, Value)> {
    let project = patient.cwd.join(".claude");
    let user = config_dir(patient.env).ok().map(|dir| dir.join("settings.json"));
    user.into_iter()
        .chain([
            project.join("settings.json"),
            project.join("settings.local.json"),
            Path::new(MANAGED).join(MANAGED_NAME),
        ])
        .filter_map(|file| json_file(&file).map(|value| (file, value)))
        .collect()
}

/// Other hooks before Bash: one that rewrites the command can drop the mark that names the agent (R72).
pub fn other_hooks(patient: &Patient) -> Check {
    let mut found = Vec::new();
    for (file, settings) in settings_files(patient) {
        found.extend(before_bash(&settings["hooks"]).into_iter().map(|hook| format!("{} ({hook})", file.display())));
    }
    for plugin in patient.plugins().iter().filter(|p| p.enabled && p.id != PLUGIN) {
        found.extend(of_plugin(plugin).into_iter().map(|hook| format!("plugin {} ({hook})", plugin.id)));
    }
    if found.is_empty() {
        return Check::ok("other hooks", "no other hook stands before Bash");
    }
    Check::note("other hooks", format!("before Bash there also run: {}", found.join("; "))).way_out(
        "if one of them rewrites commands, let it pass those that begin with `leaf`: else a fork's mark can be lost",
    )
}

fn of_plugin(plugin: &Plugin) -> Vec<String> {
    let Some(root) = plugin.folder() else { return Vec::new() };
    let manifest = json_file(&root.join(".claude-plugin/plugin.json")).unwrap_or_default();
    let named = match &manifest["hooks"] {
        Value::Array(several) => several.clone(),
        one => vec![one.clone()],
    };
    let standard = Value::from("hooks/hooks.json");
    let mut found = Vec::new();
    for part in named.into_iter().chain([standard]) {
        let hooks = match &part {
            Value::String(file) => json_file(&root.join(file)).unwrap_or_default(),
            inline => inline.clone(),
        };
        let events = if hooks["hooks"].is_object() { &hooks["hooks"] } else { &hooks };
        found.extend(before_bash(events));
        if hooks["modules"].as_array().is_some_and(|modules| !modules.is_empty()) {
            found.push("a hooks module, which may rewrite calls".to_owned());
        }
    }
    found.dedup();
    found
}

/// Names the PreToolUse hooks of a settings object's `hooks` that may match Bash.
fn before_bash(events: &Value) -> Vec<String> {
    let Some(groups) = events["PreToolUse"].as_array() else { return Vec::new() };
    let mut found = Vec::new();
    for group in groups.iter().filter(|g| may_match_bash(g["matcher"].as_str())) {
        for hook in group["hooks"].as_array().into_iter().flatten() {
            let what = ["command", "url", "server", "prompt"].iter().find_map(|key| hook[*key].as_str());
            let kind = hook["type"].as_str().unwrap_or("hook");
            let what: String = what.unwrap_or("").chars().take(80).collect();
            found.push(format!("{kind} {what}").trim_end().to_owned());
        }
    }
    found
}

/// Whether the client may match Bash with this matcher: a list of names by name; a pattern as far as its plain beginning tells.
fn may_match_bash(matcher: Option<&str>) -> bool {
    let matcher = matcher.unwrap_or("").trim();
    if matcher.is_empty() || matcher == "*" {
        return true;
    }
    let plain = |c: char| c.is_alphanumeric() || "_-, ".contains(c);
    matcher.trim_matches(|c| "^$()".contains(c)).split('|').any(|word| {
        let word = word.trim().trim_matches(|c| "^$()".contains(c));
        match word.find(|c| !plain(c)) {
            None => word == "Bash",
            Some(end) => {
                // What a `?` or `*` follows may be missing.
                let end = if word[end..].starts_with(['?', '*']) { end.saturating_sub(1) } else { end };
                word.get(..end).is_none_or(|start| "Bash".contains(start))
            }
        }
    })
}

/// Whether the client may run `leaf` commands without asking.
pub fn permission(patient: &Patient) -> Check {
    const NAME: &str = "permission";
    let Ok(file) = config_dir(patient.env).map(|dir| dir.join("settings.json")) else {
        return Check::problem(NAME, "the client's settings have no place", "set HOME or CLAUDE_CONFIG_DIR");
    };
    let asks =
        format!("Claude Code asks before it runs a `leaf` command: {} has no {}", file.display(), settings::RULE);
    let asks = || Check::note(NAME, asks.clone()).way_out("run `leaf install --allow`");
    match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => asks(),
        Err(error) => {
            Check::problem(NAME, format!("can't read {} ({})", file.display(), plain(&error)), "see to its permissions")
        }
        Ok(text) => match settings::allows(&text) {
            Err(why) => Check::problem(NAME, format!("{} {why}", file.display()), "mend it: the client reads it too"),
            Ok(true) => Check::ok(NAME, format!("{} lets `leaf` commands run", file.display())),
            Ok(false) => asks(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_matcher_is_read_as_the_client_reads_it() {
        for matcher in
            ["", "*", "Bash", "Edit|Bash", ".*", "Ba.*", "^Bash$", "(Edit|Bash)", "B?sh", "Bash.*", "[A-Z].*"]
        {
            assert!(may_match_bash(Some(matcher)), "{matcher}");
        }
        assert!(may_match_bash(None));
        for matcher in ["Edit", "Bas", "BashOutput", "Edit|Write", "mcp__.*", "^Edit$", "Notebook.*|Edit"] {
            assert!(!may_match_bash(Some(matcher)), "{matcher}");
        }
    }

    #[test]
    fn hooks_are_named_by_what_they_run() {
        let events = json!({"PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "rtk hook"}, {"type": "http", "url": "http://x"}]},
            {"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]},
            {"hooks": [{"type": "agent"}]},
        ]});
        assert_eq!(before_bash(&events), ["command rtk hook", "http http://x", "agent"]);
        assert!(before_bash(&json!({"PostToolUse": [{"hooks": [{"type": "command"}]}]})).is_empty());
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(numbers("2.1.1000") > numbers("2.1.332"));
        assert_eq!(numbers("2.1.332-beta.1"), numbers("2.1.332"));
        assert_eq!(numbers("nightly"), None);
    }
}
