//! What a prompt offers is there: a fork asks main, and main's answer comes to it (R92, R121).

use serde_json::json;

use crate::cast::{Who, busy, let_go, reply, until_in};
use crate::model::Reply;
use crate::story::Story;

/// SendMessage is not loaded at first: both sides ask for it as the prompt says.
fn loaded() -> Reply {
    Reply::call("ToolSearch", json!({"query": "select:SendMessage", "max_results": 1}))
}

fn send(to: &str, text: &str) -> Reply {
    Reply::call("SendMessage", json!({"to": to, "summary": "a question of the thread", "message": text}))
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r121_a_fork_asks_main_and_hears_its_answer() {
    let story = Story::new();
    let terminal = story.open();
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("look around");
    until_in(&story.client, "one");
    story.cast.says(
        Who::Fork,
        [loaded(), send("main", "which of the two colours, walnut or teak?"), busy("two"), reply("It is walnut.")],
    );
    let message = story.write("Which colour is the door?");
    until_in(&story.client, "two");
    let (error, said) = story.result(Who::Fork, 1);
    eprintln!("the fork's SendMessage: {error} {said}");
    assert!(!error, "the fork's SendMessage: {said}");
    let name = format!("leaf-{}", message["thread"].as_str().expect("a thread"));
    story.cast.says(Who::Main, [loaded(), send(&name, "walnut, as ever"), busy("three")]);
    let_go(&story.client, "one");
    until_in(&story.client, "three");
    assert!(story.heard("walnut or teak?") > 0, "main got the question");
    let_go(&story.client, "two");
    story.until_answered(&message);
    let heard = story.requests(Who::Fork).iter().any(|request| request.text().contains("walnut, as ever"));
    assert!(heard, "the fork got the answer: {:?}", story.requests(Who::Fork));
    let_go(&story.client, "three");
    story.until_ended(&message, &["answer"]);
    terminal.wait("the end of the turn", |screen| screen.contains("that is all from Main"));
    terminal.exit();
    story.settle();
}
