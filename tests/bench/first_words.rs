//! How soon the agent's first words stand in a thread, and its answer: from the start of `leaf thread new` to the line and to
//! the reply in the page's log, in the real Claude Code with a model that answers at once.
//!
//! `cargo bench --bench first_words [RUNS]`, after `.ci/run client`. It prints medians and tails and judges nothing.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "../support/client.rs"]
#[allow(dead_code)]
mod client;
#[path = "../support/model.rs"]
#[allow(dead_code)]
mod model;
#[path = "timing.rs"]
#[allow(dead_code)]
mod timing;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Client, LIMIT, until};
use model::{Reply, Request};
use serde_json::{Value, json};

const SESSION: &str = "5f0c2a44-9d1b-4c3e-8a77-2b6d1e9f0c55";
const RULES: &str = "Bash(leaf:*),Bash(python3:*)";

/// The model: a line and a small sort, an answer by each fork, and main in one long call where it is told to.
fn model(request: &Request) -> Reply {
    let text = request.text();
    if text.contains("\"sort\"") {
        return Reply::text(json!({"line": "One moment.", "sort": "small"}).to_string());
    }
    match request.references().first() {
        Some(reference) if !text.contains("answered message") => {
            Reply::bash(format!("leaf thread reply {reference} 'Done.'"))
        }
        _ if text.contains("KEEP BUSY") => Reply::bash(
            "python3 -c 'import os,time;open(\"busy\",\"w\").close();[time.sleep(0.05) for _ in range(11000) if not os.path.exists(\"go\")]'",
        ),
        _ => Reply::text("that is all"),
    }
}

fn main() {
    let runs = timing::runs(50);
    println!("from the start of `leaf thread new` to what stands in the page's log, ms, {runs} runs each");
    println!("{:<24}{:>8}{:>8}{:>8}{:>8}", "", "p50", "p90", "p99", "most");
    for busy in [false, true] {
        let (mut lines, mut answers) = measure(runs, busy);
        let main = if busy { "main in a tool call" } else { "main idle" };
        show(&format!("line, {main}"), &mut lines);
        show(&format!("answer, {main}"), &mut answers);
    }
}

fn measure(runs: usize, busy: bool) -> (Vec<Duration>, Vec<Duration>) {
    let client = Client::new(model).with("LEAF_FORK_WORK", "on");
    let terminal = client.open(&["--session-id", SESSION, "--allowedTools", RULES]);
    terminal.say("hello there");
    terminal.wait("the reply", |screen| screen.contains("that is all"));
    if busy {
        terminal.say("KEEP BUSY please");
        let sign = client.path("project/busy");
        until("main is busy", LIMIT, || sign.exists().then_some(())).unwrap();
    }
    let (mut lines, mut answers) = (Vec::new(), Vec::new());
    // The first makes the page, and is not counted.
    for n in 0..=runs {
        let since = Instant::now();
        let message = client.json(&["thread", "new", &format!("Question {n}?"), "--session", SESSION]);
        let line = stands(&client, &message, "line", since);
        let answer = stands(&client, &message, "reply", since);
        if n > 0 {
            lines.push(line);
            answers.push(answer);
        }
        // A fork's end comes after its answer; the next run is not to meet it.
        until("the fork has ended", LIMIT, || {
            let forks = client.json(&["fork", "list"]);
            forks.as_array().unwrap().iter().all(|fork| fork["state"] == "ended").then_some(())
        })
        .unwrap();
    }
    if busy {
        fs::write(client.path("project/go"), "").unwrap();
    }
    terminal.exit();
    client.settle();
    (lines, answers)
}

/// Waits for the thread's first event of this kind in the log: how long after `since` it stood there.
fn stands(client: &Client, message: &Value, kind: &str, since: Instant) -> Duration {
    let wanted = (format!("\"kind\":\"{kind}\""), format!("\"thread\":{}", message["thread"]));
    let log = log(client);
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        let text = fs::read_to_string(&log).unwrap_or_default();
        if text.lines().any(|line| line.contains(&wanted.0) && line.contains(&wanted.1)) {
            return since.elapsed();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no {kind} in thread {}", message["thread"]);
}

fn log(client: &Client) -> PathBuf {
    let pages = client.path("home/.local/state/leaf/pages");
    fs::read_dir(pages).unwrap().next().unwrap().unwrap().path().join("log.jsonl")
}

fn show(what: &str, times: &mut [Duration]) {
    let [half, nine, most, all] = [50, 90, 99, 100].map(|percent| timing::at(times, percent));
    println!("{what:<24}{half:>8.0}{nine:>8.0}{most:>8.0}{all:>8.0}");
}
