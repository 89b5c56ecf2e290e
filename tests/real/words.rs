//! First words: a message written beside the session has a line in its thread at once, whatever main is at.

use serde_json::json;

use crate::cast::{Who, busy, let_go, until_in, words};
use crate::client::{Killed, Step};
use crate::model::{Gate, Reply};
use crate::story::{Story, id};

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
