//! What a user would have instead of `leaf`: a hook of a few lines that reads its payload, takes a lock, finds what is new in a
//! JSON file, says that it was delivered, replaces the file, and prints it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use serde_json::json;

use crate::scene::Scene;
use crate::{Row, Says, on_path};

const PYTHON: &str = r#"
import fcntl, json, os, sys
payload = json.load(sys.stdin)
with open("state.lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open("state.json") as file:
        state = json.load(file)
    new = [message for message in state["messages"] if not message["delivered"]]
    for message in new:
        message["delivered"] = True
    with open("state.json.tmp", "w") as file:
        json.dump(state, file)
    os.replace("state.json.tmp", "state.json")
text = "\n".join(message["text"] for message in new)
print(json.dumps({"hookSpecificOutput": {"hookEventName": payload["hook_event_name"], "additionalContext": text}}))
"#;

const BASH: &str = r#"
payload=$(cat)
exec 9>state.lock
flock 9
jq -c --slurpfile state state.json '{hookSpecificOutput: {hookEventName: .hook_event_name, additionalContext:
  [$state[0].messages[] | select(.delivered | not) | .text] | join("\n")}}' <<<"$payload"
jq -c '.messages[].delivered = true' state.json >state.json.tmp && mv state.json.tmp state.json
"#;

// Node has no flock: a file that must not be there yet is its lock.
const NODE: &str = r#"
const fs = require("fs");
const payload = JSON.parse(fs.readFileSync(0));
for (;;) {
  try { fs.closeSync(fs.openSync("state.lock", "wx")); break; } catch (error) { if (error.code !== "EEXIST") throw error; }
}
const state = JSON.parse(fs.readFileSync("state.json"));
const fresh = state.messages.filter((message) => !message.delivered);
for (const message of fresh) message.delivered = true;
fs.writeFileSync("state.json.tmp", JSON.stringify(state));
fs.renameSync("state.json.tmp", "state.json");
fs.unlinkSync("state.lock");
const text = fresh.map((message) => message.text).join("\n");
console.log(JSON.stringify({ hookSpecificOutput: { hookEventName: payload.hook_event_name, additionalContext: text } }));
"#;

/// What is installed here, and of each that isn't a sentence.
pub fn rows() -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    let payload =
        json!({"session_id": "s", "cwd": "/", "hook_event_name": "PostToolBatch", "tool_calls": []}).to_string();
    for (name, programs, script, flag) in [
        ("instead: a Python hook, flock and JSON", vec!["python3"], PYTHON, "-c"),
        ("instead: bash, flock and jq twice", vec!["bash", "jq", "flock"], BASH, "-c"),
        ("instead: a Node hook, lock file and JSON", vec!["node"], NODE, "-e"),
    ] {
        let found: Option<Vec<PathBuf>> = programs.iter().map(|program| program_file(program)).collect();
        match found {
            Some(found) => {
                let scene = Rc::new(state());
                let spec = scene.spec(&found[0], &[flag, script], payload.as_bytes());
                rows.push(Row::new(name, &scene, spec, Says::Context, true));
            }
            None => missing.push(format!("{name}: left out, {} is not on PATH", programs.join(" or "))),
        }
    }
    match on_path("autofork") {
        Some(program) => rows.push(autofork(program)),
        None => missing.push("instead: autofork, its daemon warm: left out, autofork is not on PATH".to_owned()),
    }
    (rows, missing)
}

/// The program itself, not a shim that starts it: a pyenv's is a shell script.
fn program_file(program: &str) -> Option<PathBuf> {
    let found = on_path(program)?;
    if program != "python3" {
        return Some(found);
    }
    let output = Command::new(found).args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
    Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
}

/// 40 messages, about 10 KB, of which the last is new.
fn state() -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    let text = "which port does the dev server use, and where is that set? ".repeat(3);
    let messages: Vec<_> = (0..40).map(|n| json!({"id": n, "text": text, "delivered": n < 39})).collect();
    fs::write(state.join("state.json"), json!({"messages": messages}).to_string()).unwrap();
    Scene::of(state.clone(), state, environment(), Box::new(dir))
}

fn environment() -> BTreeMap<String, String> {
    let of = |name: &str| Some((name.to_owned(), std::env::var(name).ok()?));
    ["PATH", "HOME"].into_iter().filter_map(of).collect()
}

/// The peer's prompt hook. Its daemon is started by the first run, which is not counted.
fn autofork(program: PathBuf) -> Row {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    let mut env = environment();
    env.insert("HOME".into(), dir.path().to_string_lossy().into_owned());
    let scene = Rc::new(Scene::of(state.clone(), state, env, Box::new(dir)));
    let payload =
        json!({"session_id": "s", "cwd": "/", "hook_event_name": "UserPromptSubmit", "prompt": "go on"}).to_string();
    let spec = scene.spec(program, &["hook", "user-prompt-submit"], payload.as_bytes());
    Row::new("instead: autofork's prompt hook, its daemon warm", &scene, spec, Says::Anything, false)
}
