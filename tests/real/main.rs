//! The desk in the real Claude Code: offline, against a scripted model, as a person would use it.
//!
//! Each story drives the built binary through the client's own hooks, and reads what the model was sent
//! and what the page says then. `.ci/run` installs the client and runs these; where it is missing they fail.

#[path = "../support/cast.rs"]
mod cast;
#[path = "../support/client.rs"]
mod client;
#[path = "../support/model.rs"]
mod model;

mod answers;
mod asking;
mod eval;
mod forks;
mod headless_print;
mod killed;
mod lives;
mod print;
mod run_rights;
mod schedule;
mod sessions;
mod story;
mod terminal;
mod todos;
mod ways;
mod words;

use std::fs;

use client::{Client, LIMIT, until};
use model::{Reply, Request};
use serde_json::Value;

/// What the model may run without asking.
const ALLOWED: [&str; 2] = ["--allowedTools", "Bash(leaf:*),Bash(python3:*)"];

/// A call that keeps main busy until the test says [`go_on`]. The client refuses a bare `sleep`.
const BUSY: &str = r#"python3 -c 'import os,time;open("busy","w").close();[time.sleep(0.05) for _ in range(1000) if not os.path.exists("go")]'"#;

/// A model that keeps busy where it is told to, answers every message that it is handed, and then stops.
fn diligent(answer: &'static str) -> impl FnMut(&Request) -> Reply + Send + 'static {
    move |request| {
        let references = request.references();
        let replies = references.iter().map(|reference| format!("leaf thread reply {reference} '{answer}'"));
        let replies: Vec<_> = replies.collect();
        if !replies.is_empty() {
            Reply::bash(replies.join(" && "))
        } else if request.text().contains("KEEP BUSY") {
            Reply::bash(BUSY)
        } else {
            Reply::text("that is all")
        }
    }
}

/// A client in which no line fork is asked: what is written is main's (R1).
fn plain(script: impl FnMut(&Request) -> Reply + Send + 'static) -> Client {
    Client::new(script).with("LEAF_FORK_REPLIES", "off")
}

/// Waits until main sits in its [`BUSY`] call.
fn until_busy(client: &Client) {
    let busy = client.path("project/busy");
    until("main is busy", LIMIT, || busy.exists().then_some(())).unwrap_or_else(|late| panic!("{late}"));
}

/// Lets the [`BUSY`] call end.
fn go_on(client: &Client) {
    fs::write(client.path("project/go"), "").expect("a file");
}

/// A new message of the person's to a session: the message event.
fn write(client: &Client, text: &str, session: &str) -> Value {
    client.json(&["thread", "new", text, "--session", session])
}

/// The thread of that message as `leaf page state` shows it.
fn thread(client: &Client, message: &Value) -> Value {
    let id = message["thread"].as_str().expect("a thread");
    let state = client.json(&["page", "state", id]);
    let threads = state["threads"].as_array().expect("threads");
    let found = threads.iter().find(|thread| thread["id"] == id);
    found.unwrap_or_else(|| panic!("no thread {id} in {state}")).clone()
}

/// The slug of the page that the message is on.
fn page(client: &Client, message: &Value) -> String {
    let id = message["thread"].as_str().expect("a thread");
    let state = client.json(&["page", "state", id]);
    state["page"].as_str().expect("a page").to_owned()
}

/// Waits for the request that hands main this text with a reference to answer by: the reference.
fn delivered(client: &Client, text: &str) -> String {
    let request = client
        .model
        .wait_for(LIMIT, |request| request.text().contains(text) && !request.references().is_empty())
        .unwrap_or_else(|| panic!("never delivered: {text}"));
    request.references().remove(0)
}

/// Asserts that main's answer is on the page, once, as the answer to that message.
fn assert_answered(client: &Client, message: &Value, answer: &str) {
    let thread = thread(client, message);
    assert_eq!(thread["status"], "answered", "{thread}");
    assert_eq!(thread["waiting"], serde_json::json!([]), "{thread}");
    let messages = thread["messages"].as_array().expect("messages");
    let replies: Vec<_> = messages.iter().filter(|message| message["author"] == "agent").collect();
    assert_eq!(replies.len(), 1, "{thread}");
    assert_eq!(replies[0]["text"], answer, "{thread}");
    assert_eq!(replies[0]["responds"], message["id"], "{thread}");
    assert_eq!(replies[0]["by"], "main", "{thread}");
}

/// Waits until the thread reads `answered`.
fn until_answered(client: &Client, message: &Value) {
    until("the thread is answered", LIMIT, || (thread(client, message)["status"] == "answered").then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {}", thread(client, message)));
}

/// How often the model was handed this text.
fn handed(client: &Client, text: &str) -> usize {
    let requests = client.model.requests().into_iter();
    requests.filter(|request| request.text().contains(text)).count()
}

/// Every page's log, as it lies on disk.
fn logs(client: &Client) -> String {
    let pages = fs::read_dir(client.path("home/.local/state/leaf/pages"));
    let pages = pages.into_iter().flatten().flatten();
    pages.map(|page| fs::read_to_string(page.path().join("log.jsonl")).unwrap_or_default()).collect()
}
