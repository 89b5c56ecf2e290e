//! The dialect of Claude Code: hook payloads in, hook answers out. Measured on 2.1.332.

pub mod intake;
pub mod print;
pub mod transcript;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Agent, Decision, Event, Notification, Prompted, Source, Task, Unreadable, What};
use crate::ids::AgentId;
use crate::rules::words::Shell;

/// Added context stays under this many UTF-16 units: the client spills more than 10,000 into a file.
pub const CONTEXT_LIMIT: usize = 9_500;
/// What the module submits to an idle session.
pub const WAKE: &str = "something waits beside this session; it stands in this turn's context";
/// How the prompt of a watch's wake begins: the client puts `rewakeSummary` of hooks.json there.
const REWOKEN: &str = "\"<task-notification>\\n<summary>leaf: ";
/// So much of what a tool gave back is looked at, bytes: where a task began in the background, the client says it first.
const LOOKED_AT: usize = 512;
/// The client overrides a Stop hook after this many continuations in a row, unless its environment says otherwise.
const STOP_CAP: u32 = 8;

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    hook_event_name: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    session_id: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    agent_id: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    cwd: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    transcript_path: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    prompt_id: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    source: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    reason: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    model: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    tool_name: Option<Lossy<'a>>,
    // Kept as it came: it may be megabytes, and most events don't look into it.
    #[serde(borrow, default)]
    tool_input: Option<&'a RawValue>,
    #[serde(default)]
    stop_hook_active: bool,
    #[serde(borrow, default)]
    tool_response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_id: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    agent_type: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    background_tasks: Option<&'a RawValue>,
    #[serde(borrow, default)]
    last_assistant_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct LaunchInput<'a> {
    #[serde(borrow, default)]
    description: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    subagent_type: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    prompt: Option<Lossy<'a>>,
    #[serde(borrow, default)]
    task_id: Option<Lossy<'a>>,
}

#[derive(Deserialize)]
struct LaunchResponse {
    #[serde(default, rename = "agentId")]
    agent: Option<AgentId>,
}

#[derive(Deserialize)]
struct TaskLine {
    id: String,
    #[serde(default, rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    tool_response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TextPart<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ShellInput<'a> {
    #[serde(borrow, default)]
    command: Option<Lossy<'a>>,
}

#[derive(Deserialize)]
struct EditInput<'a> {
    #[serde(default, borrow)]
    file_path: Option<&'a RawValue>,
    #[serde(default, borrow)]
    notebook_path: Option<&'a RawValue>,
}

/// A text in which half a surrogate pair is replaced, as the client does before it uses one. A model writes such, and what it
/// stands in must not be unreadable for that: a fork's call would pass unmarked (R73).
#[derive(Default)]
struct Lossy<'a>(Cow<'a, str>);

impl std::ops::Deref for Lossy<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Lossy<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Lossy<'a>, D::Error> {
        struct Text;
        impl<'de> serde::de::Visitor<'de> for Text {
            type Value = Cow<'de, str>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Cow<'de, str>, E> {
                Ok(String::from_utf8_lossy(bytes))
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Cow<'de, str>, E> {
                let mut bytes = bytes.to_vec();
                if str::from_utf8(&bytes).is_err() {
                    // The half of a pair comes as the three bytes that UTF-8 would have for it, as long as those of U+FFFD.
                    for at in 0..bytes.len().saturating_sub(2) {
                        if bytes[at] == 0xED && bytes[at + 1] >= 0xA0 {
                            bytes[at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
                        }
                    }
                }
                Ok(String::from_utf8_lossy(&bytes).into_owned().into())
            }
        }
        deserializer.deserialize_bytes(Text).map(Lossy)
    }
}

/// Reads a text; `None` where it is none.
fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str::<Lossy<'_>>(raw.get()).ok().map(|text| text.0.into_owned())
}

/// Reads a tool's input, in which half a surrogate pair may stand anywhere; `None` where it is no object.
pub fn object(raw: &RawValue) -> Option<Map<String, Value>> {
    match value(raw)? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn value(raw: &RawValue) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(raw.get()) {
        return Some(value);
    }
    match raw.get().as_bytes().first()? {
        b'{' => {
            let object: BTreeMap<String, &RawValue> = serde_json::from_str(raw.get()).ok()?;
            object.into_iter().map(|(key, raw)| Some((key, value(raw)?))).collect()
        }
        b'[' => serde_json::from_str::<Vec<&RawValue>>(raw.get()).ok()?.into_iter().map(value).collect(),
        _ => text(raw).map(Value::String),
    }
}

/// Reads a payload.
///
/// # Errors
/// Where it is not JSON, or names no session or no right agent.
pub fn read(bytes: &[u8]) -> Result<Event<'_>, Unreadable> {
    let payload: Payload<'_> = serde_json::from_slice(bytes).map_err(|error| Unreadable::NotJson(error.to_string()))?;
    let what = what(&payload);
    if matches!(what, What::Other) {
        // An unknown event needs nothing, not even a session.
        let session = "unknown".parse().map_err(|_| Unreadable::NoSession)?;
        return Ok(Event {
            session,
            agent: Agent::Main,
            cwd: Cow::Borrowed(""),
            transcript: None,
            prompt: None,
            tool_use: None,
            forked: false,
            model: None,
            what,
        });
    }
    let session = payload.session_id.as_deref().unwrap_or_default().parse().map_err(|_| Unreadable::NoSession)?;
    let agent = match payload.agent_id.as_deref() {
        None | Some("") => Agent::Main,
        Some(id) => id.parse().map_or(Agent::Nameless, Agent::Other),
    };
    Ok(Event {
        session,
        agent,
        cwd: payload.cwd.unwrap_or_default().0,
        transcript: payload.transcript_path.map(|path| path.0),
        prompt: payload.prompt_id.map(|id| id.0),
        tool_use: payload.tool_use_id.map(|id| id.0),
        forked: payload.agent_type.as_deref() == Some("fork"),
        model: payload.model.map(|model| model.0),
        what,
    })
}

fn what<'a>(payload: &Payload<'a>) -> What<'a> {
    match payload.hook_event_name.as_deref() {
        Some("SessionStart") => What::SessionStart(match payload.source.as_deref() {
            Some("startup") => Source::Startup,
            Some("resume") => Source::Resume,
            Some("clear") => Source::Clear,
            Some("compact") => Source::Compact,
            Some("fork") => Source::Fork,
            _ => Source::Other,
        }),
        Some("UserPromptSubmit") => What::Prompt(prompted(payload.prompt)),
        Some("PreToolUse") => match payload.tool_name.as_deref() {
            Some("Bash" | "Monitor") => shell(payload, Shell::Posix),
            Some("PowerShell") => shell(payload, Shell::PowerShell),
            Some("Edit") => edit(payload, "Edit"),
            Some("Write") => edit(payload, "Write"),
            Some("MultiEdit") => edit(payload, "MultiEdit"),
            Some("NotebookEdit") => edit(payload, "NotebookEdit"),
            Some("Agent") => match payload.tool_input {
                Some(input) => {
                    let read = launch(payload);
                    let fork = read.subagent_type.as_deref() == Some("fork");
                    What::Launch { fork, prompt: read.prompt.unwrap_or_default().0, input }
                }
                None => What::Other,
            },
            _ => What::Other,
        },
        Some("PostToolUse") => match payload.tool_name.as_deref() {
            Some("Agent") => {
                let response: Option<LaunchResponse> =
                    payload.tool_response.and_then(|raw| serde_json::from_str(raw.get()).ok());
                match response.and_then(|response| response.agent) {
                    Some(agent) => What::Launched { description: described(payload), agent },
                    None => What::Other,
                }
            }
            Some("TaskStop") => match launch(payload).task_id {
                Some(task) => What::TaskStopped(task.0.into_owned()),
                None => What::Other,
            },
            _ => What::Other,
        },
        Some("PostToolUseFailure") => match payload.tool_name.as_deref() {
            Some("Agent") => What::NotLaunched { description: described(payload) },
            _ => What::Other,
        },
        Some("PostToolBatch") => What::Boundary { tasks: begun_tasks(payload) },
        Some("SubagentStart") => What::AgentStarted,
        Some("SubagentStop") => What::AgentStopped {
            background: tasks(payload.background_tasks).unwrap_or_default(),
            text: string(payload.last_assistant_message),
        },
        Some("Stop") => What::Stop { again: payload.stop_hook_active, background: tasks(payload.background_tasks) },
        Some("StopFailure") => What::StopFailure(string(payload.last_assistant_message)),
        Some("SessionEnd") => What::SessionEnd(payload.reason.as_deref().unwrap_or("other").to_owned()),
        _ => What::Other,
    }
}

fn shell<'a>(payload: &Payload<'a>, shell: Shell) -> What<'a> {
    let Some(raw) = payload.tool_input else { return What::Other };
    let command = match serde_json::from_str(raw.get()) {
        Ok(ShellInput { command: Some(command) }) => command.0,
        Ok(ShellInput { command: None }) => return What::Other,
        // Whatever it is, the client runs it or not: what it may say is judged (R73).
        Err(_) => Cow::Borrowed(raw.get()),
    };
    What::Shell { shell, command, input: raw }
}

fn edit<'a>(payload: &Payload<'a>, tool: &'static str) -> What<'a> {
    match payload.tool_input {
        Some(input) => What::Edit { tool, input },
        None => What::Other,
    }
}

/// Returns the path that an editing tool's input names; `None` where there is none, and the client refuses the call itself.
pub fn edited_path(tool: &str, input: &RawValue) -> Option<String> {
    let input: EditInput = serde_json::from_str(input.get()).ok()?;
    // The other key is no matter, whatever it holds.
    let path = if tool == "NotebookEdit" { input.notebook_path } else { input.file_path };
    text(path?)
}

fn launch<'a>(payload: &Payload<'a>) -> LaunchInput<'a> {
    payload.tool_input.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn described(payload: &Payload<'_>) -> String {
    launch(payload).description.unwrap_or_default().0.into_owned()
}

fn string(raw: Option<&RawValue>) -> String {
    raw.and_then(text).unwrap_or_default()
}

fn tasks(raw: Option<&RawValue>) -> Option<Vec<Task>> {
    let lines: Vec<TaskLine> = serde_json::from_str(raw?.get()).ok()?;
    Some(lines.into_iter().map(|line| Task { agent: line.kind == "subagent", id: line.id }).collect())
}

/// Returns the tasks that an agent's boundary names as begun in the background: the client says so in words alone.
fn begun_tasks(payload: &Payload<'_>) -> Vec<String> {
    const SAID: &str = "background";
    let Some(raw) = payload.tool_calls.filter(|raw| payload.agent_id.is_some() && raw.get().contains(SAID)) else {
        return Vec::new();
    };
    let calls: Vec<ToolCall<'_>> = serde_json::from_str(raw.get()).unwrap_or_default();
    calls
        .iter()
        .filter_map(|call| {
            let text = response_text(call.tool_response?)?;
            let text = &text[..text.floor_char_boundary(LOOKED_AT)];
            // "… in background with ID: x", "… moved to the background (ID: x)". What a command printed may say so too; the
            // client says it first.
            let at = text.find(SAID).filter(|at| *at < 120)? + SAID.len();
            let behind = text[at..].trim_start_matches(" with ").trim_start_matches(" (").strip_prefix("ID: ")?;
            Some(behind.chars().take_while(char::is_ascii_alphanumeric).collect())
        })
        .collect()
}

/// Returns what a tool gave back in words: a text, or the first of its parts.
fn response_text(raw: &RawValue) -> Option<String> {
    if raw.get().starts_with('[') {
        let parts: Vec<&RawValue> = serde_json::from_str(raw.get()).ok()?;
        text(serde_json::from_str::<TextPart<'_>>(parts.first()?.get()).ok()?.text?)
    } else {
        text(raw)
    }
}

/// Tells where a prompt came from: what the client has to say comes as one too.
fn prompted(raw: Option<&RawValue>) -> Prompted {
    match raw.filter(|raw| raw.get().starts_with("\"<task-notification>")) {
        Some(raw) => match notification(raw) {
            Some(notification) => Prompted::Notification(notification),
            None if raw.get().starts_with(REWOKEN) => Prompted::Woken,
            None => Prompted::Client,
        },
        None if raw.is_some_and(|raw| raw.get().trim_matches('"') == WAKE) => Prompted::Woken,
        None => Prompted::Person,
    }
}

fn notification(raw: &RawValue) -> Option<Notification> {
    let text = text(raw)?;
    let tag = |name: &str| {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let from = text.find(&open)? + open.len();
        Some(text[from..from + text[from..].find(&close)?].to_owned())
    };
    Some(Notification {
        agent: tag("task-id")?,
        tool_use: tag("tool-use-id"),
        failed: tag("status").is_some_and(|status| status != "completed"),
        text: tag("result").unwrap_or_default(),
    })
}

/// Returns the client's cap on continuations of a turn by Stop hooks; `None` where there is none.
pub fn stop_cap(environment: Option<&str>) -> Option<u32> {
    match environment.map(str::parse::<u32>) {
        Some(Ok(0)) => None,
        Some(Ok(cap)) => Some(cap),
        Some(Err(_)) | None => Some(STOP_CAP),
    }
}

/// Returns the client's answer: one JSON object, or nothing.
pub fn answer(what: &What<'_>, decision: &Decision) -> Option<String> {
    let event = match what {
        What::SessionStart(_) => "SessionStart",
        What::Prompt(_) => "UserPromptSubmit",
        What::Shell { .. } | What::Edit { .. } | What::Launch { .. } => "PreToolUse",
        What::Boundary { .. } => "PostToolBatch",
        What::Stop { .. } => "Stop",
        What::StopFailure(_)
        | What::SessionEnd(_)
        | What::Launched { .. }
        | What::NotLaunched { .. }
        | What::TaskStopped(_)
        | What::AgentStarted
        | What::AgentStopped { .. }
        | What::Other => return None,
    };
    let specific = match decision {
        Decision::Silent => return None,
        Decision::Context(text) => serde_json::json!({"hookEventName": event, "additionalContext": text}),
        // No permission is granted with it (R67).
        Decision::Rewrite(input) => serde_json::json!({"hookEventName": event, "updatedInput": input}),
        Decision::Deny(reason) => serde_json::json!({
            "hookEventName": event,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }),
    };
    Some(serde_json::json!({ "hookSpecificOutput": specific }).to_string())
}
