//! First words: a message written beside the session has a line in its thread at once, whatever main is at.

use serde_json::{Value, json};

use crate::LIMIT;
use crate::cast::{Who, busy, let_go, until_in, words};
use crate::client::{Killed, Step, until};
use crate::model::Gate;
use crate::story::Story;

const LINE: &str = "On it, one moment.";

/// Main is in a call, and the message is answered beside it.
fn while_main_is_busy(story: &Story, sabotaged: bool) {
    let terminal = story.open();
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("look around");
    until_in(&story.client, "one");
    let message = story.write("Which colour is the door?");
    story.until("the line stands", &message, |thread| thread["line"] == LINE || thread["status"] == "answered");
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    assert_eq!(story.asked(Who::Main), 1, "main sits in its call");

    assert_eq!(story.answers(&message), [("fork".to_owned(), "From the fork.".to_owned())]);
    assert_eq!(story.entries(&message, "taken").len(), 1, "{}", story.why(&message));
    let line = &story.entries(&message, "line")[0];
    assert_eq!(line["text"], LINE, "{line}");
    assert_eq!(story.entries(&message, "sort")[0]["sort"], "small");
    let question = story.request(Who::LineFork, 0);
    assert!(question.last().contains("Which colour is the door?"), "{question:?}");
    assert!(question.conversation().contains("look around"), "it sees the conversation: {question:?}");
    if !sabotaged {
        assert_eq!(story.asked(Who::LineFork), 1);
    }

    let_go(&story.client, "one");
    terminal.wait("the end of the turn", |screen| screen.contains("that is all from Main"));
    let heard = story.request(Who::Main, 1);
    assert_eq!(heard.text().matches("answered thread").count(), 1, "R82: {heard:?}");
    assert!(!heard.conversation().contains("The answer is one JSON object"), "R20: no trace: {heard:?}");
    assert_eq!(story.heard("Which colour is the door?"), 0, "never main's input");
    story.quiet(2, 0);
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r025_first_words_while_main_is_busy() {
    let story = Story::new();
    while_main_is_busy(&story, false);
    story.settle();
}

/// The line was posted and the turn opened, but nobody heard what is to be done: `leaf follow` says it again.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r025_first_words_while_main_is_busy_killed() {
    let story = Story::new();
    let line = story.client.sabotage(Step::Command("fork line"), Killed::Unheard, 1);
    while_main_is_busy(&story, true);
    assert_eq!(line.killed(), 1);
    story.settle();
}

/// An idle session: the message is answered beside it, and main isn't woken for that.
fn while_main_is_idle(story: &Story) {
    let terminal = story.open_after_a_turn();
    let message = story.write("Who keeps the key?");
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    assert_eq!(story.entries(&message, "line")[0]["text"], LINE);
    assert_eq!(story.answers(&message), [("fork".to_owned(), "From the fork.".to_owned())]);
    assert_eq!(story.entries(&message, "taken").len(), 1, "{}", story.why(&message));
    assert_eq!(story.agents(&message).len(), 1, "{}", story.why(&message));
    let question = story.request(Who::LineFork, 0);
    assert!(question.conversation().contains("hello there"), "it sees the conversation: {question:?}");
    assert!(!question.tools.is_empty(), "as main's request was");
    // No wake, and no turn of main's for an answer (R82, R87).
    story.quiet(1, 0);
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r020_first_words_for_the_first_message_of_an_idle_session() {
    let story = Story::new();
    while_main_is_idle(&story);
    story.settle();
}

/// The module's report of the agent is lost: the turn is named all the same.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r020_first_words_for_the_first_message_of_an_idle_session_killed() {
    let story = Story::new();
    let started = story.client.sabotage(Step::Command("fork started"), Killed::Before, 0);
    while_main_is_idle(&story);
    assert!(started.killed() >= 1);
    story.settle();
}

/// A session that never had a turn has nothing to fork: main is woken, once.
fn before_the_first_turn(story: &Story) {
    let terminal = story.open();
    let message = story.write("Are you there?");
    story.until_answered(&message);
    assert_eq!(story.answers(&message), [("main".to_owned(), "From main.".to_owned())]);
    terminal.wait("the end of the turn", |screen| screen.contains("that is all from Main"));
    assert_eq!(story.asked(Who::LineFork), 0);
    assert_eq!(story.entries(&message, "taken").iter().filter(|taken| taken["by"] == "fork").count(), 0);
    let handed = story.entries(&message, "handed");
    assert_eq!(handed.len(), 1, "{}", story.why(&message));
    // The wake's request, and the one after the reply.
    story.quiet(2, 1);
    assert_eq!(story.heard("Are you there?"), 1, "delivered once");
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r026_a_session_that_never_had_a_turn_is_woken_for_its_first_message() {
    let story = Story::new();
    before_the_first_turn(&story);
    story.settle();
}

/// The failed line isn't heard of: it is asked for again.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r026_a_session_that_never_had_a_turn_is_woken_for_its_first_message_killed() {
    let story = Story::new();
    let line = story.client.sabotage(Step::Command("fork line"), Killed::Before, 1);
    before_the_first_turn(&story);
    assert_eq!(line.killed(), 1);
    story.settle();
}

const FLURRY: [&str; 5] =
    ["Is it raining?", "I mean in town.", "And the wind?", "Also tomorrow.", "That is all I ask."];

/// Five messages of one thread, written while main is busy and the first line fork still thinks.
fn flurry(story: &Story, gate: &Gate) -> Vec<Value> {
    story.cast.says(Who::LineFork, FLURRY.map(|_| words(LINE, "small").behind(gate)));
    let first = story.write(FLURRY[0]);
    story.request(Who::LineFork, 0);
    let mut all = vec![first.clone()];
    all.extend(FLURRY[1..].iter().map(|text| story.say(&first, text)));
    all
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r024_a_flurry_of_five_messages_makes_one_worker() {
    let story = Story::new();
    let terminal = story.open();
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("look around");
    let gate = Gate::default();
    until_in(&story.client, "one");
    let all = flurry(&story, &gate);
    let asked_about = |text: &str| story.requests(Who::LineFork).iter().any(|request| request.last().contains(text));
    until("the newest is asked about", LIMIT, || asked_about(FLURRY[4]).then_some(())).expect("it is");
    gate.open();
    story.until_answered(&all[0]);
    story.until_ended(&all[0], &["answer"]);

    assert_eq!(story.entries(&all[0], "taken").len(), 1, "{:#}", story.why(&all[0]));
    assert_eq!(story.agents(&all[0]).len(), 1);
    let fork = story.request(Who::Fork, 0);
    for text in FLURRY {
        assert!(fork.text().contains(text), "{text}: {fork:?}");
    }
    assert_eq!(story.answers(&all[0]).len(), 1, "one answer covers them");
    let answer = &story.thread(&all[0])["messages"][5];
    assert_eq!(answer["responds"], all[4]["id"], "to the newest: {answer}");
    assert_eq!(story.asked(Who::Main), 1);
    let_go(&story.client, "one");
    terminal.wait("the end of the turn", |screen| screen.contains("that is all from Main"));
    story.quiet(2, 0);
    terminal.exit();
    story.settle();
}

/// The follower dies in the middle: what it kept back is main's, once, and nothing is worked on twice.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r024_a_flurry_of_five_messages_makes_one_worker_killed() {
    let story = Story::new();
    let terminal = story.open();
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("look around");
    let gate = Gate::default();
    until_in(&story.client, "one");
    let all = flurry(&story, &gate);
    let dead = story.client.followers();
    assert_eq!(dead.len(), 1, "{:?}", story.client.processes());
    story.client.kill(dead[0]);
    until("a follower is back", LIMIT, || story.client.followers().first().copied().filter(|pid| *pid != dead[0]))
        .expect("it is");
    story.until_followed();
    gate.open();
    let_go(&story.client, "one");
    story.until_answered(&all[0]);
    terminal.wait("the end of the turn", |screen| screen.contains("that is all from Main"));
    let answers = story.answers(&all[0]);
    assert_eq!(answers, [("main".to_owned(), "From main.".to_owned())], "{:#}", story.why(&all[0]));
    assert_eq!(story.asked(Who::Fork), 0);
    for text in FLURRY {
        assert_eq!(story.heard(text), 1, "{text}");
    }
    story.quiet(3, 0);
    terminal.exit();
    story.settle();
}
