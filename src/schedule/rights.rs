//! What a fork's guard means to the client: arguments that allow what it names and nothing else. Nobody can be asked in a background
//! run, so that what no rule allows is refused.

use std::path::Path;

use super::definition::{Guard, ToolKind};

/// The permission mode in which everything that no rule allows asks first, and is so refused.
pub const ASKS: &str = "default";
/// What a path may not hold to become a rule: it could mean more than itself there.
const WILD: [char; 13] = ['*', '?', '[', ']', '{', '}', '!', '\\', '(', ')', ',', '\n', '\r'];

/// leaf's own commands that only read.
const READING: [&str; 6] = ["task list", "thread list", "thread show", "page state", "status", "runs"];

/// Returns the arguments of a run without a guard: its mode says what it may do, and leaf's own commands know whose they are.
pub fn unguarded() -> Vec<String> {
    ["--allowedTools", "Bash(leaf:*)"].map(ToOwned::to_owned).to_vec()
}

/// Returns the arguments that hold a run to its guard. Settings of the user's and the project's could allow more, and servers have
/// tools that nobody knows: both are left out.
///
/// The shell is held to what the client itself knows to change nothing: a rule on a command says nothing of where it writes.
pub fn args(guard: &Guard) -> Vec<String> {
    let may = |kind: ToolKind| guard.tools.as_ref().is_none_or(|kinds| kinds.contains(&kind));
    let mut args: Vec<String> = ["--setting-sources", "", "--strict-mcp-config"].map(ToOwned::to_owned).to_vec();
    let mut allowed: Vec<String> = Vec::new();
    if may(ToolKind::Read) {
        allowed.extend(["Read", "Glob", "Grep"].map(ToOwned::to_owned));
    }
    if may(ToolKind::Edit) {
        for place in guard.write.iter().filter_map(|path| rule(path)) {
            // One rule for the file itself, one for all below a directory. They stand for every editing tool.
            allowed.extend([format!("Edit({place})"), format!("Edit({place}/**)")]);
        }
    }
    if may(ToolKind::Shell) {
        allowed.extend(READING.map(|command| format!("Bash(leaf {command}:*)")));
    }
    if may(ToolKind::Web) && guard.network {
        allowed.extend(["WebFetch", "WebSearch"].map(ToOwned::to_owned));
    }
    let mut refused: Vec<String> = Vec::new();
    if !may(ToolKind::Edit) || guard.write.is_empty() {
        refused.extend(["Edit", "Write", "MultiEdit", "NotebookEdit"].map(ToOwned::to_owned));
    }
    if !may(ToolKind::Web) || !guard.network {
        refused.extend(["WebFetch", "WebSearch"].map(ToOwned::to_owned));
    }
    for command in &guard.deny {
        // What can't be said as a rule takes the shell with it.
        let plain = !command.trim().is_empty() && !command.contains(['(', ')', ',', '\n', '\r']);
        refused.push(if plain {
            format!("Bash({}:*)", command.trim().trim_end_matches('*').trim_end())
        } else {
            "Bash".to_owned()
        });
    }
    if !allowed.is_empty() {
        args.push("--allowedTools".to_owned());
        args.extend(allowed);
    }
    if !refused.is_empty() {
        args.push("--disallowedTools".to_owned());
        args.extend(refused);
    }
    if let Some(kinds) = &guard.tools {
        args.extend([
            "--tools".to_owned(),
            kinds.iter().flat_map(|kind| names(*kind)).copied().collect::<Vec<_>>().join(","),
        ]);
    }
    args
}

fn rule(path: &Path) -> Option<String> {
    let path = path.to_str()?;
    // A rule with two slashes is about the whole file system.
    (path.starts_with('/') && !path.contains(WILD)).then(|| format!("/{}", path.trim_end_matches('/')))
}

fn names(kind: ToolKind) -> &'static [&'static str] {
    match kind {
        ToolKind::Read => &["Read", "Glob", "Grep"],
        ToolKind::Shell => &["Bash"],
        ToolKind::Edit => &["Edit", "Write", "MultiEdit", "NotebookEdit"],
        ToolKind::Web => &["WebFetch", "WebSearch"],
        ToolKind::Task => &["Agent"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(guard: &Guard) -> String {
        args(guard).join(" ")
    }

    #[test]
    fn a_guard_names_what_may_change_and_nothing_else() {
        let guard = Guard { write: vec!["/p/notes".into()], ..Guard::default() };
        let args = said(&guard);
        assert!(args.contains("Edit(//p/notes) Edit(//p/notes/**)"), "{args}");
        assert!(!args.contains("--tools") && args.contains("--disallowedTools WebFetch WebSearch"), "{args}");
        let nothing = said(&Guard::default());
        assert!(nothing.contains("--disallowedTools Edit Write MultiEdit NotebookEdit") && !nothing.contains("Edit("));
    }

    #[test]
    fn a_guard_is_never_wider_than_it_says() {
        for path in ["/p/*", "/p/a)", "/p/[ab]", "relative", "/p/a,Bash"] {
            let args = said(&Guard { write: vec![path.into()], ..Guard::default() });
            assert!(!args.contains("Edit("), "{path}: {args}");
        }
        let read = said(&Guard { tools: Some(vec![ToolKind::Read]), write: vec!["/p".into()], ..Guard::default() });
        assert!(read.ends_with("--tools Read,Glob,Grep") && !read.contains("Edit("), "{read}");
        assert!(said(&Guard { tools: Some(vec![]), ..Guard::default() }).ends_with("--tools "));
        let deny = said(&Guard { deny: vec!["git push".into(), "rm *".into(), "a(b".into()], ..Guard::default() });
        assert!(deny.contains("Bash(git push:*) Bash(rm:*) Bash"), "{deny}");
        let shell = said(&Guard { network: true, tools: Some(vec![ToolKind::Shell]), ..Guard::default() });
        assert!(shell.contains("Bash(leaf task list:*)") && !shell.contains("Bash(leaf:*)"), "{shell}");
        let allowed = shell.split("--disallowedTools").next().unwrap_or_default();
        assert!(!allowed.contains("Bash ") && !allowed.contains("Web"), "{shell}");
    }
}
