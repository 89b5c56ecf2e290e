//! Claude Code without a terminal (`claude -p`): how a copy of a session is asked one question, how one works beside it, and what
//! such a run leaves as output. Measured on 2.1.332.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::ids::SessionId;
use crate::place::open_plain;
use crate::session::journal::Cost;

/// How many requests a working run may make: one that goes round in circles ends (R119).
const TURNS: &str = "60";
/// How much of a transcript's end is read for the session's permission mode, bytes.
const TAIL: u64 = 1 << 20;
/// What a run's output may be at most, bytes.
pub const OUTPUT: u64 = 8 << 20;

/// What the client puts into the environment of what it starts: a run of its own must not take them for its own.
const INHERITED: [&str; 14] = [
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_NOTES_DIR",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_EFFORT",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PID",
    "CLAUDE_PLUGIN_DATA",
    "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_PROJECT_DIR",
];

/// Returns the names of those variables.
pub fn inherited() -> impl Iterator<Item = &'static str> {
    INHERITED.into_iter()
}

/// Returns the arguments of a run that answers one question as a copy of the session: no tools, no hooks of anyone's, no trace
/// (R20).
pub fn question(session: &SessionId, question: &str) -> Vec<String> {
    let mut args = copy(session.as_str());
    args.insert(1, question.to_owned());
    args.extend(["--tools", "", "--settings", r#"{"disableAllHooks":true}"#].map(ToOwned::to_owned));
    args
}

/// Returns the arguments of a run that works as a copy of the session, its prompt on standard input: as an argument it could be longer
/// than the system takes. It takes over the session's model by itself; its permission
/// mode must be said (R119).
pub fn work(session: &SessionId, mode: Option<&str>) -> Vec<String> {
    let mut args = copy(session.as_str());
    args.extend(["--max-turns", TURNS, "--allowedTools", "Bash(leaf:*)"].map(ToOwned::to_owned));
    if let Some(mode) = mode {
        args.extend(["--permission-mode".to_owned(), mode.to_owned()]);
    }
    args
}

/// Returns the arguments of a run that answers one question with no session before it, the question on standard input: no tools, no
/// hooks and no servers of anyone's, no transcript.
pub fn alone(model: Option<&str>) -> Vec<String> {
    let fixed = [
        "-p",
        "--no-session-persistence",
        "--output-format",
        "json",
        "--tools",
        "",
        "--strict-mcp-config",
        "--setting-sources",
        "user",
        "--settings",
        r#"{"disableAllHooks":true}"#,
    ];
    let model = model.into_iter().flat_map(|model| ["--model", model]);
    fixed.into_iter().chain(model).map(ToOwned::to_owned).collect()
}

/// Returns the model that a run says it used; of several the one that wrote most: the client has small questions of its own.
pub fn model(bytes: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Whole {
        #[serde(rename = "modelUsage")]
        models: std::collections::BTreeMap<String, Used>,
    }
    #[derive(Deserialize)]
    struct Used {
        #[serde(rename = "outputTokens", default)]
        output: u64,
    }
    let whole: Whole = serde_json::from_slice(bytes).ok()?;
    whole.models.into_iter().max_by_key(|(_, used)| used.output).map(|(model, _)| model)
}

/// A scheduled run of a conversation, its prompt on standard input.
#[derive(Clone, Debug, Default)]
pub struct Scheduled {
    /// The conversation that it is a copy of.
    pub conversation: String,
    /// The model; `None`: the conversation's own.
    pub model: Option<String>,
    /// The permission mode.
    pub mode: String,
    /// Whether hooks run in it.
    pub hooks: bool,
    /// What limits its rights besides.
    pub limits: Vec<String>,
}

impl Scheduled {
    /// Returns the run's arguments.
    pub fn args(&self) -> Vec<String> {
        let mut args = copy(&self.conversation);
        if let Some(model) = &self.model {
            args.extend(["--model".to_owned(), model.clone()]);
        }
        args.extend(["--permission-mode".to_owned(), self.mode.clone()]);
        if !self.hooks {
            args.extend(["--settings", r#"{"disableAllHooks":true}"#].map(ToOwned::to_owned));
        }
        args.extend(self.limits.iter().cloned());
        args
    }
}

fn copy(conversation: &str) -> Vec<String> {
    ["-p", "--resume", conversation, "--fork-session", "--no-session-persistence", "--output-format", "json"]
        .map(ToOwned::to_owned)
        .to_vec()
}

/// Returns the permission mode that the session's transcript names last, where it can be read.
pub fn mode(transcript: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Row {
        #[serde(rename = "permissionMode")]
        mode: String,
    }
    let mut file = open_plain(transcript).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    let rows = bytes.split(|byte| *byte == b'\n').rev();
    let mode = rows.filter_map(|row| serde_json::from_slice::<Row>(row).ok()).next()?.mode;
    // It becomes an argument.
    let word = !mode.is_empty() && mode.len() <= 40 && mode.bytes().all(|byte| byte.is_ascii_alphanumeric());
    word.then_some(mode)
}

/// What a run left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its final text, or what it died of.
    pub text: String,
    /// Whether it failed, was cut or was killed.
    pub failed: bool,
    /// What it cost, where it tells (R122).
    pub cost: Cost,
}

/// Reads what a run wrote to its standard output. One that was killed wrote nothing, or not all.
pub fn output(bytes: &[u8]) -> Output {
    #[derive(Deserialize)]
    struct Whole {
        #[serde(default)]
        result: Option<String>,
        #[serde(default)]
        is_error: bool,
        #[serde(default)]
        errors: Vec<String>,
        #[serde(default)]
        usage: Usage,
        #[serde(default)]
        duration_ms: Option<u64>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Usage {
        input_tokens: u64,
        output_tokens: u64,
        cache_read_input_tokens: u64,
        cache_creation_input_tokens: u64,
    }
    match serde_json::from_slice::<Whole>(bytes) {
        Ok(whole) => {
            let used = &whole.usage;
            let parts =
                [used.input_tokens, used.output_tokens, used.cache_read_input_tokens, used.cache_creation_input_tokens];
            let tokens = parts.into_iter().fold(0, u64::saturating_add);
            let text = match whole.result {
                Some(result) if !result.is_empty() => result,
                _ => whole.errors.join("; "),
            };
            let cost = Cost { tokens: (tokens > 0).then_some(tokens), ms: whole.duration_ms };
            Output { text, failed: whole.is_error, cost }
        }
        // Before it knows a session the client says in plain text what is wrong.
        Err(_) => Output { text: String::from_utf8_lossy(bytes).trim().to_owned(), failed: true, ..Output::default() },
    }
}

/// Reads the result in what a run wrote to its standard output: the last that is there, whatever stands around it. `None`: there is
/// none. The model is the one that it says it used.
pub fn last_result(bytes: &[u8]) -> Option<Output> {
    let text = String::from_utf8_lossy(bytes);
    let starts = text.match_indices(['{', '[']).map(|(at, _)| at);
    let lines = starts.filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n').collect::<Vec<_>>();
    lines.into_iter().rev().find_map(|at| {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<serde_json::Value>();
        let value = values.next()?.ok()?;
        // A client that is told to be verbose writes all its messages as one list.
        let value = match value {
            serde_json::Value::Array(all) => all.into_iter().rev().find(is_result)?,
            other => other,
        };
        is_result(&value).then(|| output(value.to_string().as_bytes()))
    })
}

fn is_result(value: &serde_json::Value) -> bool {
    let named = value.get("type").is_some_and(|kind| kind == "result");
    named || (value.get("type").is_none() && value.get("result").is_some())
}

/// Reads the output file of a run.
pub fn read_output(file: &Path) -> Output {
    let mut bytes = Vec::new();
    let read = open_plain(file).map(|file| file.take(OUTPUT).read_to_end(&mut bytes));
    match read {
        Ok(Ok(_)) => output(&bytes),
        Ok(Err(_)) | Err(_) => Output { failed: true, ..Output::default() },
    }
}

/// Returns where the client's program is: `claude` on PATH, else the one that says itself that it is this session's.
pub fn program(on_path: Option<PathBuf>, execpath: Option<PathBuf>) -> Option<PathBuf> {
    // A client that a script runs names the interpreter there.
    let own =
        |path: &PathBuf| path.is_absolute() && path.file_stem().is_some_and(|stem| stem == "claude") && path.is_file();
    on_path.or_else(|| execpath.filter(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runs_output_is_its_final_text_with_what_it_cost() {
        let whole = br#"{"type":"result","subtype":"success","is_error":false,"result":"HAND BACK: no","duration_ms":358,
            "usage":{"input_tokens":200,"cache_creation_input_tokens":3,"cache_read_input_tokens":2000,"output_tokens":20}}"#;
        let read = output(whole);
        assert_eq!((read.text.as_str(), read.failed), ("HAND BACK: no", false));
        assert_eq!((read.cost.tokens, read.cost.ms), (Some(2223), Some(358)));
    }

    #[test]
    fn w14_a_line_beside_the_result_fails_no_run() {
        let text = |bytes: &[u8]| last_result(bytes).map(|output| (output.text, output.failed));
        let whole = r#"{"type":"result","is_error":false,"result":"fine"}"#;
        let fine = Some(("fine".to_owned(), false));
        assert_eq!(text(whole.as_bytes()), fine);
        assert_eq!(text(format!("warning: x {{y}}\n{whole}\na new version is there\n").as_bytes()), fine);
        assert_eq!(
            text(format!("{{\"type\":\"system\"}}\n{whole}\n{{\"type\":\"other\",\"result\":\"no\"}}\n").as_bytes()),
            fine
        );
        assert_eq!(text(format!("[{{\"type\":\"system\"}},{whole}]").as_bytes()), fine);
        assert_eq!(text(b"{\n  \"result\": \"fine\"\n}\n"), fine);
        assert_eq!(text(b"No conversation found with session ID: x\n"), None);
        assert_eq!(text(b"{\"result\":\"to"), None);
        assert_eq!(text(b"\xff\xfe{"), None);
        assert_eq!(text(b""), None);
    }

    #[test]
    fn r119_a_run_that_was_cut_says_so() {
        let cut = br#"{"subtype":"error_max_turns","is_error":true,"result":null,"errors":["Reached maximum number of turns (1)"]}"#;
        let read = output(cut);
        assert_eq!((read.text.as_str(), read.failed), ("Reached maximum number of turns (1)", true));
        assert_eq!(
            output(b"No conversation found with session ID: x\n").text,
            "No conversation found with session ID: x"
        );
        assert_eq!(output(b""), Output { failed: true, ..Output::default() });
        let endless = format!(r#"{{"result":"x","usage":{{"input_tokens":{0},"output_tokens":{0}}}}}"#, u64::MAX);
        assert_eq!(output(endless.as_bytes()).cost.tokens, Some(u64::MAX));
    }

    #[test]
    fn r119_the_permission_mode_is_the_last_that_the_transcript_names() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.jsonl");
        let rows = "{\"type\":\"user\",\"permissionMode\":\"default\"}\n{\"type\":\"user\",\"permissionMode\":\"acceptEdits\"}\n{\"type\":\"assistant\"}\n{\"torn";
        std::fs::write(&file, rows).unwrap();
        assert_eq!(mode(&file).as_deref(), Some("acceptEdits"));
        std::fs::write(&file, "{\"permissionMode\":\"--x\"}\n").unwrap();
        assert_eq!(mode(&file), None);
        assert_eq!(mode(&dir.path().join("none")), None);
    }
}
