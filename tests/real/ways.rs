//! The other ways in which a fork runs (R117, R118), and the desk without a hooks module.

use std::fs;

use serde_json::{Value, json};

use crate::LIMIT;
use crate::cast::{Cast, Who, busy, let_go, until_in, who};
use crate::client::{Client, Killed, Step, Terminal, until};
use crate::model::{Gate, Reply, Request, references};
use crate::story::{RULES, SESSION, Story};

/// What a headless fork is told.
const COPY: &str = "You are a fork of this session, started by leaf";

/// A story whose forks run in this way. Main starts the forks that it is asked to start; a copy in a process of its own answers what
/// it was given once `gate` is open.
fn story(way: &str, gate: &Gate) -> Story {
    let cast = Cast::default();
    let (script, gate) = (cast.clone(), gate.clone());
    let client = Client::new(move |request| {
        if is_copy(request) {
            return copy(request, &gate);
        }
        asked_to_start(request).unwrap_or_else(|| script.next(request))
    });
    Story { client: client.with("LEAF_FORK_WORK", "on").with("LEAF_FORK_WAY", way), cast }
}

fn is_copy(request: &Request) -> bool {
    let said = request.conversation();
    said.contains(COPY) && !said.contains("You are a worker fork")
}

fn copy(request: &Request, gate: &Gate) -> Reply {
    if !request.results().is_empty() {
        return Reply::text("that is all from the copy");
    }
    let reference = references(&request.last()).pop().unwrap_or_default();
    Reply::bash(format!("leaf thread reply {reference} 'From the copy.'")).behind(gate)
}

fn open_gate() -> Gate {
    let gate = Gate::default();
    gate.open();
    gate
}

/// The Agent call that main is asked for, as a good model makes it.
pub fn asked_to_start(request: &Request) -> Option<Reply> {
    let text = request.text();
    if who(request) != Who::Main || !text.contains("Call the Agent tool") {
        return None;
    }
    let quoted = |key: &str| {
        let (_, after) = text.split_once(&format!("{key} \""))?;
        Some(after.split_once('"')?.0.to_owned())
    };
    Some(Reply::call(
        "Agent",
        json!({
            "subagent_type": quoted("subagent_type")?, "name": quoted("name")?, "description": quoted("description")?,
            "prompt": quoted("prompt")?, "run_in_background": true,
        }),
    ))
}

/// The entry that says how the thread was taken.
fn taken(story: &Story, message: &Value) -> Value {
    let taken = story.entries(message, "taken").into_iter().find(|entry| entry["by"] == "fork");
    taken.unwrap_or_else(|| panic!("a fork took it: {:#}", story.why(message)))
}

/// How many sessions the client keeps on disk.
pub fn kept_sessions(story: &Story) -> usize {
    let projects = fs::read_dir(story.client.path("home/.claude/projects")).into_iter().flatten().flatten();
    let files = projects.flat_map(|project| fs::read_dir(project.path()).into_iter().flatten().flatten());
    files.filter(|file| file.path().extension().is_some_and(|extension| extension == "jsonl")).count()
}

/// The headless runs that go on.
pub fn copies(story: &Story) -> Vec<i32> {
    let all = story.client.processes().into_iter();
    all.filter(|(_, line)| line.contains("--fork-session")).map(|(pid, _)| pid).collect()
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r117_subagent_main_starts_the_fork_that_it_was_asked_for() {
    let story = story("subagent", &open_gate());
    let terminal = story.open_after_a_turn();
    let message = story.write("How far is it to the lighthouse?");
    story.until_answered(&message);
    assert_eq!(story.answers(&message), [("fork".to_owned(), "From the fork.".to_owned())]);
    let entry = taken(&story, &message);
    assert_eq!(entry["way"], "subagent", "{entry}");
    // The work came by the hook, and the fork it was put into is the turn's.
    let directive = story.request(Who::Fork, 0).conversation();
    assert!(directive.contains(COPY) && directive.contains("How far is it"), "{directive}");
    story.until_ended(&message, &["answer"]);
    assert_eq!(story.agents(&message).len(), 1);
    assert_eq!(story.wakes(), 1, "woken once, to start it");
    assert_eq!(story.heard("How far is it"), 0, "main never got the message");
    terminal.exit();
    story.accounted();
    story.settle();
}

/// The hook that was to put the work in dies: the fork has nothing to do, and the thread is main's.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r117_subagent_main_starts_the_fork_that_it_was_asked_for_killed() {
    let story = story("subagent", &open_gate());
    let terminal = story.open_after_a_turn();
    let hook = story.client.sabotage(Step::MainsHook("PreToolUse"), Killed::Before, 1);
    let message = story.write("How far is it to the lighthouse?");
    story.until_answered(&message);
    assert_eq!(hook.killed(), 1);
    story.until_ended(&message, &["hand_back"]);
    assert_eq!(story.answers(&message), [("main".to_owned(), "From main.".to_owned())]);
    terminal.exit();
    story.accounted();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r118_headless_a_copy_answers_beside_a_busy_main() {
    let story = story("headless", &open_gate());
    let terminal = story.open_after_a_turn();
    let kept = kept_sessions(&story);
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("do some work");
    until_in(&story.client, "one");
    let message = story.write("How far is it to the lighthouse?");
    story.until_answered(&message);
    assert_eq!(story.answers(&message), [("fork".to_owned(), "From the copy.".to_owned())]);
    story.until_ended(&message, &["answer"]);
    let entry = taken(&story, &message);
    assert_eq!(entry["way"], "headless", "{entry}");
    let ended = story.entries(&message, "ended");
    assert_eq!(ended[0]["evidence"], "process", "{ended:#?}");
    assert!(ended[0]["tokens"].as_u64().is_some_and(|tokens| tokens > 0), "the client tells its cost: {ended:#?}");
    let request = story.client.model.requests().into_iter().find(is_copy).expect("it asked the model");
    assert!(request.conversation().contains("hello there"), "it knows the session");
    assert_eq!(kept_sessions(&story), kept, "it leaves no session of its own");
    assert_eq!(copies(&story), [0; 0]);
    let_go(&story.client, "one");
    until("main is done", LIMIT, || terminal.screen().matches("that is all from Main").nth(1).map(drop))
        .unwrap_or_else(|late| panic!("{late}:\n{}", terminal.screen()));
    assert_eq!(story.wakes(), 0);
    terminal.exit();
    story.accounted();
    story.settle();
}

/// kill -9 of the copy in the middle: main is woken and answers.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r118_headless_a_copy_answers_killed() {
    let gate = Gate::default();
    let story = story("headless", &gate);
    let terminal = story.open_after_a_turn();
    let message = story.write("How far is it to the lighthouse?");
    until("the copy asked the model", LIMIT, || story.client.model.requests().iter().any(is_copy).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&message)));
    let [copy] = copies(&story)[..] else { panic!("one runs: {:?}", story.client.processes()) };
    story.client.kill(copy);
    story.until_answered(&message);
    story.until_ended(&message, &["hand_back"]);
    assert_eq!(story.answers(&message), [("main".to_owned(), "From main.".to_owned())]);
    assert_eq!(story.wakes(), 1);
    gate.open();
    terminal.exit();
    story.accounted();
    story.settle();
}

/// A session whose client loads no module, at rest, its watch with the follower's part.
fn without_module(story: Story) -> Story {
    Story { client: story.client.without_module(), cast: story.cast }
}

fn at_rest(story: &Story) -> Terminal<'_> {
    let terminal = story.client.open(&["--session-id", SESSION, "--allowedTools", RULES]);
    terminal.say("hello there");
    terminal.wait("the reply", |screen| screen.contains("that is all from Main"));
    // The Stop's watch takes the place of the prompt's; what is written in between is main's.
    let alone = || (story.client.watches().len() == 1).then_some(());
    until("one watch is there", LIMIT, alone).unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    story.until_followed();
    terminal
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r117_without_a_module_the_watch_has_it_answered() {
    let story = without_module(story("headless", &open_gate()));
    let terminal = at_rest(&story);
    let kept = kept_sessions(&story);
    let message = story.write("How far is it to the lighthouse?");
    story.until_answered(&message);
    assert_eq!(story.answers(&message), [("fork".to_owned(), "From the copy.".to_owned())]);
    story.until_ended(&message, &["answer"]);
    let question = story.request(Who::LineFork, 0);
    assert_eq!(question.tools, [""; 0], "it has no tools (R20)");
    assert!(question.conversation().contains("hello there"), "it knows the session");
    assert_eq!(story.entries(&message, "line").len(), 1);
    assert_eq!((kept_sessions(&story), story.wakes()), (kept, 0));
    // Main hears of it at its next prompt, once.
    terminal.say("anything new?");
    until("main heard of it", LIMIT, || (story.heard("answered thread") == 1).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.requests(Who::Main)));
    terminal.exit();
    story.accounted();
    story.settle();
}

/// kill -9 of the watch while its line fork is asked: the message is main's at the next prompt.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r117_without_a_module_the_watch_has_it_answered_killed() {
    let story = without_module(story("headless", &open_gate()));
    let terminal = at_rest(&story);
    let gate = Gate::default();
    story.cast.says(Who::LineFork, [crate::cast::words("On it.", "small").behind(&gate)]);
    let message = story.write("How far is it to the lighthouse?");
    story.request(Who::LineFork, 0);
    for watch in story.client.watches() {
        story.client.kill(watch);
    }
    gate.open();
    story.until("it is main's", &message, |thread| thread["status"] == "waiting");
    terminal.say("anything new?");
    story.until_answered(&message);
    assert_eq!(story.answers(&message), [("main".to_owned(), "From main.".to_owned())]);
    terminal.exit();
    story.accounted();
    story.settle();
}

/// The plugin is loaded in a headless run where it is installed: none of it may act there but the hooks that guard.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r118_nothing_of_leaf_starts_in_a_headless_run() {
    let story = story("module", &open_gate());
    let client = story.client.with("LEAF_TURN", "0123456789abcdef").with("LEAF_SESSION", SESSION);
    let outcome = client.print("hello there", &["--allowedTools", RULES]).end();
    assert_eq!((outcome.code, outcome.stdout.trim()), (0, "that is all from Main"), "{outcome:?}");
    let sessions = fs::read_dir(client.path("home/.local/state/leaf/sessions")).into_iter().flatten().count();
    assert_eq!(sessions, 0, "it opens no session");
    let errors = fs::read_to_string(client.path("home/.local/state/leaf/errors.log")).unwrap_or_default();
    assert_eq!(errors, "");
    client.settle();
}
