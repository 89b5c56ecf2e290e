//! A session's own turns of fate in the middle of a take: its follower, its client or `leaf` killed, an interruption, /clear,
//! compaction, another session, a reloaded module.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::LIMIT;
use crate::cast::{Who, busy, let_go, until_in, words};
use crate::client::{Killed, Step, Terminal, until};
use crate::lives::{agent, by, kill, leave};
use crate::model::{Gate, Reply};
use crate::story::{RULES, SESSION, Story, id};

/// Asserts that the thread was answered so, and that no turn is left open there.
fn answered_by(story: &Story, message: &Value, answers: &[(String, String)]) {
    story.until_answered(message);
    assert_eq!(story.answers(message), answers, "{:#}", story.why(message));
    until("no turn is open", LIMIT, || story.open_turns(message).is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(message)));
}

/// Opens a terminal in which a fork sits in a call.
fn in_a_call(story: &Story) -> (Terminal<'_>, Value) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.write("When does the mill open?");
    until_in(&story.client, "fork");
    agent(story, &message);
    (terminal, message)
}

/// Opens a terminal in which the line fork is being asked.
fn being_asked<'s>(story: &'s Story, gate: &Gate) -> (Terminal<'s>, Value) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::LineFork, [words("Presently.", "small").behind(gate)]);
    let message = story.write("Who rings the bell?");
    story.request(Who::LineFork, 0);
    (terminal, message)
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r019_a_killed_follower_is_back_within_a_second_killed() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let old = story.client.followers();
    kill(&old);
    let since = Instant::now();
    until("another follower is there", LIMIT, || {
        let now = story.client.followers();
        (!now.is_empty() && now.iter().all(|pid| !old.contains(pid))).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    story.until_followed();
    // A second, on a machine that does nothing else.
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
    let message = story.write("Is anyone listening?");
    answered_by(&story, &message, &[by("fork", "From the fork.")]);
    story.quiet(1, 0);
    leave(terminal);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r016_a_follower_dies_while_the_line_fork_is_asked_killed() {
    let story = Story::new();
    let gate = Gate::default();
    let (terminal, message) = being_asked(&story, &gate);
    kill(&story.client.followers());
    gate.open();
    main_has_it(&story, terminal, &message);
    story.settle();
}

/// The message is main's, for it came before the present follower (R13, R16), and the late answer of the line fork is nothing.
fn main_has_it(story: &Story, terminal: Terminal<'_>, message: &Value) {
    answered_by(story, message, &[by("main", "From main.")]);
    assert_eq!(story.entries(message, "handed").len(), 1, "{:#}", story.why(message));
    story.quiet(3, 1);
    assert_eq!(story.entries(message, "line"), [json!(null); 0], "{:#}", story.why(message));
    let next = story.write("Is all well again?");
    answered_by(story, &next, &[by("fork", "From the fork.")]);
    leave(terminal);
}

/// Opens the session again, after its client died.
fn again(story: &Story) -> Terminal<'_> {
    let terminal = story.client.open(&["--resume", SESSION, "--allowedTools", RULES]);
    story.until_followed();
    terminal
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_a_killed_client_leaves_a_forks_thread_to_main_killed() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    kill(&[story.client.pid()]);
    // A reading shows it at once (R88).
    let thread = story.until("it is main's", &message, |thread| thread["holder"]["state"] == "ended");
    assert_eq!((&thread["status"], &thread["waiting"]), (&json!("on_it"), &json!([message["id"]])), "{thread:#}");
    drop(terminal);
    let_go(&story.client, "fork");
    until("everything of it has left", LIMIT, || story.client.processes().is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));

    let terminal = again(&story);
    story.until_ended(&message, &["hand_back"]);
    answered_by(&story, &message, &[by("main", "From main.")]);
    assert_eq!(story.wakes(), 1);
    leave(terminal);
    story.settle();
}

/// Nobody had it yet but the line fork.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r016_a_client_killed_while_the_line_fork_is_asked_leaves_the_message_to_the_next_killed() {
    let story = Story::new();
    let gate = Gate::default();
    let (terminal, message) = being_asked(&story, &gate);
    kill(&[story.client.pid()]);
    until("everything of it has left", LIMIT, || {
        let left = story.client.processes();
        left.iter().all(|(_, line)| line.contains("tmux")).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    drop(terminal);
    gate.open();
    assert_eq!(story.thread(&message)["waiting"], json!([message["id"]]));

    let terminal = again(&story);
    answered_by(&story, &message, &[by("main", "From main.")]);
    assert_eq!(story.wakes(), 1);
    leave(terminal);
    story.settle();
}

/// `leaf fork line` is killed at each of its writes: what was written stands, the rest is made up for.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r027_leaf_is_killed_at_every_write_of_a_take_killed() {
    const WRITES: u32 = 8;
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let gate = Gate::default();
    story.cast.says(Who::LineFork, (0..WRITES).map(|_| words("Presently.", "small").behind(&gate)));
    let messages: Vec<_> = (1..=WRITES).map(|n| story.write(&format!("How many is {n}?"))).collect();
    let killed: Vec<_> = (1..)
        .zip(&messages)
        .map(|(n, message)| {
            let step = format!("fork line {}", id(message, "thread"));
            story.client.sabotage(Step::Command(&step), Killed::AtWrite(n), 1)
        })
        .collect();
    gate.open();
    for message in &messages {
        story.until_answered(message);
        assert_eq!(story.answers(message).len(), 1, "{:#}", story.why(message));
        until("no turn is open", LIMIT, || story.open_turns(message).is_empty().then_some(()))
            .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(message)));
    }
    let dead = killed.iter().filter(|step| step.killed() == 1).count();
    assert!(dead >= 3, "{dead}");
    terminal.wait("main's last words", |screen| screen.contains("❯"));
    leave(terminal);
    story.settle();
}

/// Main is interrupted after it was handed a message for its next boundary.
fn interrupted(story: &Story) -> (Terminal<'_>, Value) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Main, [busy("main")]);
    terminal.say("look around");
    until_in(&story.client, "main");
    story.cast.says(Who::LineFork, [words("Main has it.", "now")]);
    let before = story.write("Stop at the gate.");
    story.until("first words", &before, |thread| thread["line"] == "Main has it.");
    terminal.press(&["Escape"]);
    terminal.wait("the interruption", |screen| screen.contains("Interrupted"));
    (terminal, before)
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_input_that_was_there_at_an_interruption_waits_and_later_input_wakes() {
    let story = Story::new();
    let (terminal, before) = interrupted(&story);
    // What doesn't come can only be waited for; the watch would wake after a second.
    std::thread::sleep(Duration::from_secs(3));
    story.quiet(2, 0);
    assert_eq!(story.thread(&before)["waiting"], json!([before["id"]]));

    // The client lets nobody fork now: it is main's, which is woken for it once and gets both.
    let after = story.write("Which gate was that?");
    answered_by(&story, &after, &[by("main", "From main.")]);
    answered_by(&story, &before, &[by("main", "From main.")]);
    story.quiet(4, 1);
    terminal.say("go on");
    terminal.wait("its words", |screen| screen.matches("that is all from Main").count() == 3);
    let next = story.write("And the next gate?");
    answered_by(&story, &next, &[by("fork", "From the fork.")]);
    leave(terminal);
    story.settle();
}

/// A fork's thread came back to a busy main before that was interrupted: it waits for the next prompt as well.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_a_thread_handed_back_before_an_interruption_waits() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Main, [busy("main")]);
    terminal.say("look around");
    until_in(&story.client, "main");
    story.cast.says(Who::Fork, [Reply::text("HAND BACK: only main has the key.")]);
    let message = story.write("Which gate is locked?");
    story.until_ended(&message, &["hand_back"]);
    terminal.press(&["Escape"]);
    terminal.wait("the interruption", |screen| screen.contains("Interrupted"));
    // What doesn't come can only be waited for; the watch would wake after a second.
    std::thread::sleep(Duration::from_secs(3));
    story.quiet(2, 0);
    terminal.say("go on");
    answered_by(&story, &message, &[by("main", "From main.")]);
    let told = story.request(Who::Main, 2);
    assert!(told.text().contains("go on") && told.text().contains("only main has the key"), "{told:?}");
    leave(terminal);
    story.settle();
}

/// Nobody ever hears of the interruption: nothing wakes, and the next prompt delivers.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_an_interruption_that_nobody_heard_of_killed() {
    let story = Story::new();
    let ended = story.client.sabotage(Step::Command("turn ended"), Killed::Before, 0);
    let (terminal, before) = interrupted(&story);
    ended.wait(1);
    let after = story.write("Which gate was that?");
    story.until_ended(&after, &["hand_back"]);
    story.quiet(2, 0);
    terminal.say("go on");
    answered_by(&story, &after, &[by("main", "From main.")]);
    answered_by(&story, &before, &[by("main", "From main.")]);
    terminal.wait("its words", |screen| screen.matches("that is all from Main").count() == 2);
    leave(terminal);
    story.settle();
}

/// The session began anew under a fork: its thread is main's, and the fork is refused.
fn began_anew(story: &Story, message: &Value) {
    story.until_ended(message, &["hand_back"]);
    let ended = &story.entries(message, "ended")[0];
    assert_eq!(ended["evidence"], "generation", "{ended}");
    answered_by(story, message, &[by("main", "From main.")]);
    let_go(&story.client, "fork");
    let (refused, why) = story.result(Who::Fork, 1);
    assert!(refused && why.contains("R68"), "{why}");
    assert_eq!(story.answers(message), [by("main", "From main.")]);
    assert_eq!(story.wakes(), 1);
    // The next one is the new session's.
    let next = story.client.json(&["thread", "new", "Is all well again?"]);
    answered_by(story, &next, &[by("fork", "From the fork.")]);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r109_clear_under_a_fork_hands_its_thread_to_the_new_session() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    terminal.say("/clear");
    began_anew(&story, &message);
    leave(terminal);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r109_clear_under_a_fork_killed() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    let start = story.client.sabotage(Step::MainsHook("SessionStart"), Killed::Before, 1);
    terminal.say("/clear");
    start.wait(1);
    terminal.wait("an empty screen", |screen| !screen.contains("that is all"));
    let_go(&story.client, "fork");
    terminal.say("is anyone there");
    story.until_answered(&message);
    assert_eq!(story.answers(&message).len(), 1, "{:#}", story.why(&message));
    until("no turn is open", LIMIT, || story.open_turns(&message).is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&message)));
    terminal.wait("its words", |screen| screen.contains("that is all from Main"));
    leave(terminal);
    story.settle();
}

/// Opens a terminal whose session was cleared once, a fork at work in the second: the first can be resumed.
fn second_life(story: &Story) -> (Terminal<'_>, Value) {
    let terminal = story.open_after_a_turn();
    terminal.say("/clear");
    terminal.wait("an empty screen", |screen| !screen.contains("that is all"));
    terminal.say("a second life");
    terminal.wait("its words", |screen| screen.contains("that is all from Main"));
    story.until_followed();
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.client.json(&["thread", "new", "When does the mill open?"]);
    until_in(&story.client, "fork");
    agent(story, &message);
    (terminal, message)
}

fn resume_the_first(terminal: &Terminal<'_>) {
    terminal.say("/resume");
    terminal.wait("the list of sessions", |screen| screen.contains("Resume session") && screen.contains("hello there"));
    terminal.press(&["Enter"]);
    terminal.wait("the first session", |screen| screen.contains("hello there") && !screen.contains("Resume session"));
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r109_another_session_in_the_same_client_takes_a_forks_thread_along() {
    let story = Story::new();
    let (terminal, message) = second_life(&story);
    resume_the_first(&terminal);
    began_anew(&story, &message);
    let state = story.client.json(&["page", "state", id(&message, "thread")]);
    assert_eq!(state["session"], SESSION, "{state}");
    leave(terminal);
    story.settle();
}

/// Nobody heard that the second session ended.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r109_another_session_in_the_same_client_killed() {
    let story = Story::new();
    let (terminal, message) = second_life(&story);
    let end = story.client.sabotage(Step::MainsHook("SessionEnd"), Killed::Before, 1);
    resume_the_first(&terminal);
    end.wait(1);
    let_go(&story.client, "fork");
    story.until_answered(&message);
    assert_eq!(story.answers(&message).len(), 1, "{:#}", story.why(&message));
    until("no turn is open", LIMIT, || story.open_turns(&message).is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&message)));
    leave(terminal);
    story.settle();
}

/// A compaction changes nothing for a fork.
fn compacted(story: &Story, terminal: Terminal<'_>, message: &Value) {
    terminal.say("/compact");
    terminal.wait("the summary", |screen| screen.contains("Compacted"));
    assert_eq!(story.thread(message)["holder"]["state"], "running");
    let_go(&story.client, "fork");
    answered_by(story, message, &[by("fork", "From the fork.")]);
    story.until_ended(message, &["answer"]);
    terminal.say("anything new");
    until("main hears of it", LIMIT, || (story.heard("answered thread") == 1).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.requests(Who::Main)));
    assert_eq!((story.heard("When does the mill open?"), story.wakes()), (0, 0));
    let next = story.write("Is all well again?");
    answered_by(story, &next, &[by("fork", "From the fork.")]);
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r054_a_compaction_under_a_fork_leaves_its_thread_to_it() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    compacted(&story, terminal, &message);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r054_a_compaction_under_a_fork_killed() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    let start = story.client.sabotage(Step::MainsHook("SessionStart"), Killed::Before, 1);
    compacted(&story, terminal, &message);
    assert_eq!(start.killed(), 1);
    story.settle();
}

/// Changes the module, which the client then loads anew: what the old one knew is gone.
fn reload(story: &Story, terminal: &Terminal<'_>) {
    let old = story.client.followers();
    let module = story.client.path("plugin/src/client/claude_code/module.ts");
    let mut module = OpenOptions::new().append(true).open(module).expect("the module");
    writeln!(module, "// Saved once more.").expect("a line");
    drop(module);
    terminal.wait("the client's word for it", |screen| screen.contains("reloaded"));
    until("the new module's follower is there", LIMIT, || {
        let now = story.client.followers();
        (!now.is_empty() && now.iter().all(|pid| !old.contains(pid))).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    story.until_followed();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r019_a_module_reloaded_under_a_fork_hears_of_its_end() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    reload(&story, &terminal);
    let_go(&story.client, "fork");
    answered_by(&story, &message, &[by("fork", "From the fork.")]);
    assert_eq!(story.entries(&message, "ended")[0]["evidence"], "module", "{:#}", story.why(&message));
    let next = story.write("Is all well again?");
    answered_by(&story, &next, &[by("fork", "From the fork.")]);
    story.quiet(1, 0);
    leave(terminal);
    story.settle();
}

/// The question goes down with the module that asked it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r019_a_module_reloaded_under_a_question_killed() {
    let story = Story::new();
    let gate = Gate::default();
    let (terminal, message) = being_asked(&story, &gate);
    reload(&story, &terminal);
    gate.open();
    main_has_it(&story, terminal, &message);
    story.settle();
}
