//! Forks of a run without a terminal: first words, an answer beside main, and above all an end.

use serde_json::{Value, json};

use crate::LIMIT;
use crate::cast::{Who, busy, let_go, until_in};
use crate::client::{Killed, Run, Sabotage, Step, until};
use crate::lives::{agent, by, kill};
use crate::story::{RULES, SESSION, Story};

/// An unattended run whose main sits in a call, its follower there.
fn busy_run(story: &Story) -> Run<'_> {
    story.cast.says(Who::Main, [busy("main")]);
    let run = story.client.print("Look around.", &["--session-id", SESSION, "--allowedTools", RULES]);
    until_in(&story.client, "main");
    story.until_followed();
    run
}

/// The run ends by itself, and well.
fn ended(run: Run<'_>) {
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.contains("that is all from Main"), "{outcome:?}");
}

/// A message is answered beside a busy main.
fn beside_main(story: &Story, run: Run<'_>, message: &Value) {
    story.until_answered(message);
    story.until_ended(message, &["answer"]);
    assert_eq!(story.asked(Who::Main), 1, "main sits in its call");
    assert_eq!(story.entries(message, "line").len(), 1, "{:#}", story.why(message));
    assert_eq!(story.answers(message), [by("fork", "From the fork.")]);
    let_go(&story.client, "main");
    ended(run);
    let heard = story.request(Who::Main, 1);
    assert_eq!(heard.text().matches("answered thread").count(), 1, "R82: {heard:?}");
    assert_eq!(story.heard("Which colour is the door?"), 0, "never main's input");
    story.quiet(2, 0);
    assert_eq!(story.open_turns(message), [json!(null); 0]);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r110_first_words_and_an_answer_beside_a_run_without_a_terminal() {
    let story = Story::new();
    let run = busy_run(&story);
    let message = story.write("Which colour is the door?");
    beside_main(&story, run, &message);
    story.settle();
}

/// Nobody heard what is to be done: the follower says it again.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r110_an_answer_beside_a_run_without_a_terminal_killed() {
    let story = Story::new();
    let run = busy_run(&story);
    let line = story.client.sabotage(Step::Command("fork line"), Killed::Unheard, 1);
    let message = story.write("Which colour is the door?");
    beside_main(&story, run, &message);
    assert_eq!(line.killed(), 1);
    story.settle();
}

/// A follower that dies hangs nothing, and the next one is there at once.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r019_a_follower_of_a_run_without_a_terminal_killed() {
    let story = Story::new();
    let run = busy_run(&story);
    let old = story.client.followers();
    kill(&old);
    until("another follower is there", LIMIT, || {
        let now = story.client.followers();
        (!now.is_empty() && now.iter().all(|pid| !old.contains(pid))).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    story.until_followed();
    let message = story.write("Which colour is the door?");
    beside_main(&story, run, &message);
    story.settle();
}

/// Main has nothing left to do while a fork is in a call: the client waits for the fork. `until_stopped` waits for what main's Stop
/// brings.
fn outlived(
    story: &Story,
    sabotage: impl FnOnce(&Story) -> Option<Sabotage>,
    until_stopped: impl FnOnce(&Value, Option<&Sabotage>),
) -> Value {
    let run = busy_run(story);
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.write("Is anyone in?");
    until_in(&story.client, "fork");
    agent(story, &message);
    let sabotage = sabotage(story);
    let_go(&story.client, "main");
    until_stopped(&message, sabotage.as_ref());
    assert!(story.client.processes().iter().any(|(_, line)| line.contains(" -p ")), "the client waits for its fork");
    let_go(&story.client, "fork");
    ended(run);
    assert_eq!(story.open_turns(&message), [json!(null); 0], "{:#}", story.why(&message));
    message
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r106_a_forks_thread_is_mains_at_the_last_stop_of_a_run_without_a_terminal() {
    let story = Story::new();
    let message = outlived(&story, |_| None, |message, _| drop(story.until_answered(message)));
    assert_eq!(story.answers(&message), [by("main", "From main.")], "{:#}", story.why(&message));
    assert_eq!(story.ends(&message), ["hand_back"]);
    let ended = &story.entries(&message, "ended")[0];
    assert_eq!(ended["evidence"], "client", "{ended}");
    let stopped = story.requests(Who::Main).into_iter().find(|request| request.text().contains("Is anyone in?"));
    assert!(stopped.is_some_and(|request| request.text().contains("Stop hook")), "delivered by that Stop");
    // What the fork says after that is refused.
    let (refused, why) = story.result(Who::Fork, 1);
    assert!(refused && why.contains("R68"), "{why}");
    story.settle();
}

/// The Stop that would have handed it over is killed: the client waits for the fork, which answers.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r106_a_forks_thread_at_the_last_stop_of_a_run_without_a_terminal_killed() {
    let story = Story::new();
    let message = outlived(
        &story,
        |story| Some(story.client.sabotage(Step::MainsHook("Stop"), Killed::Before, 0)),
        |_, stop| stop.expect("a sabotage").wait(1),
    );
    assert_eq!(story.answers(&message), [by("fork", "From the fork.")], "{:#}", story.why(&message));
    assert_eq!(story.ends(&message), ["answer"]);
    story.settle();
}
