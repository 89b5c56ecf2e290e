//! The dialect of Claude Code: hook payloads in, hook answers out. Measured on 2.1.332.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Agent, Decision, Event, Source, Unreadable, What};
use crate::rules::words::Shell;

/// Added context stays under this many UTF-16 units: the client spills more than 10,000 into a file.
pub const CONTEXT_LIMIT: usize = 9_500;
/// The client overrides a Stop hook after this many continuations in a row, unless its environment says otherwise.
const STOP_CAP: u32 = 8;

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow, default)]
    hook_event_name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    agent_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    cwd: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    transcript_path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    prompt_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_name: Option<Cow<'a, str>>,
    // Kept as it came: it may be megabytes, and most events don't look into it.
    #[serde(borrow, default)]
    tool_input: Option<&'a RawValue>,
    #[serde(default)]
    stop_hook_active: bool,
    #[serde(default, rename = "tool_response")]
    _tool_response: IgnoredAny,
    #[serde(default, rename = "tool_calls")]
    _tool_calls: IgnoredAny,
}

#[derive(Deserialize)]
struct ShellInput<'a> {
    #[serde(borrow, default)]
    command: Option<Cow<'a, str>>,
}

/// Reads a payload.
///
/// # Errors
/// Where it is not JSON, or names no session or no right agent.
pub fn read(bytes: &[u8]) -> Result<Event<'_>, Unreadable> {
    let payload: Payload<'_> = serde_json::from_slice(bytes).map_err(|error| Unreadable::NotJson(error.to_string()))?;
    let what = what(&payload)?;
    if matches!(what, What::Other) {
        // An unknown event needs nothing, not even a session.
        let session = "unknown".parse().map_err(|_| Unreadable::NoSession)?;
        return Ok(Event { session, agent: Agent::Main, cwd: Cow::Borrowed(""), transcript: None, prompt: None, what });
    }
    let session = payload.session_id.as_deref().unwrap_or_default().parse().map_err(|_| Unreadable::NoSession)?;
    let agent = match payload.agent_id.as_deref() {
        None | Some("") => Agent::Main,
        Some(id) => id.parse().map_or(Agent::Nameless, Agent::Other),
    };
    Ok(Event {
        session,
        agent,
        cwd: payload.cwd.unwrap_or_default(),
        transcript: payload.transcript_path,
        prompt: payload.prompt_id,
        what,
    })
}

fn what<'a>(payload: &Payload<'a>) -> Result<What<'a>, Unreadable> {
    Ok(match payload.hook_event_name.as_deref() {
        Some("SessionStart") => What::SessionStart(match payload.source.as_deref() {
            Some("startup") => Source::Startup,
            Some("resume") => Source::Resume,
            Some("clear") => Source::Clear,
            Some("compact") => Source::Compact,
            Some("fork") => Source::Fork,
            _ => Source::Other,
        }),
        Some("UserPromptSubmit") => What::Prompt,
        Some("PreToolUse") => match payload.tool_name.as_deref() {
            Some("Bash" | "Monitor") => shell(payload, Shell::Posix)?,
            Some("PowerShell") => shell(payload, Shell::PowerShell)?,
            _ => What::Other,
        },
        Some("PostToolBatch") => What::Boundary,
        Some("Stop") => What::Stop { again: payload.stop_hook_active },
        Some("StopFailure") => What::StopFailure,
        Some("SessionEnd") => What::SessionEnd,
        _ => What::Other,
    })
}

fn shell<'a>(payload: &Payload<'a>, shell: Shell) -> Result<What<'a>, Unreadable> {
    let Some(raw) = payload.tool_input else { return Ok(What::Other) };
    let input: ShellInput<'a> =
        serde_json::from_str(raw.get()).map_err(|error| Unreadable::NotJson(error.to_string()))?;
    Ok(match input.command {
        Some(command) => What::Shell { shell, command },
        None => What::Other,
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
        What::Prompt => "UserPromptSubmit",
        What::Shell { .. } => "PreToolUse",
        What::Boundary => "PostToolBatch",
        What::Stop { .. } => "Stop",
        What::StopFailure | What::SessionEnd | What::Other => return None,
    };
    let specific = match decision {
        Decision::Silent => return None,
        Decision::Context(text) => serde_json::json!({"hookEventName": event, "additionalContext": text}),
        Decision::Deny(reason) => serde_json::json!({
            "hookEventName": event,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }),
    };
    Some(serde_json::json!({ "hookSpecificOutput": specific }).to_string())
}
