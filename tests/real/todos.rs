//! To-dos from the sort to their end: main hears of one without being interrupted, does it in its own order, and the user's thread
//! gets the answer; what takes them from it, and what they outlive.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::LIMIT;
use crate::cast::{Who, busy, for_later, let_go, until_in, words};
use crate::client::{Killed, Run, Sabotage, Step, Terminal, until};
use crate::lives::{by, kill, leave};
use crate::model::{Gate, Reply};
use crate::story::{RULES, SESSION, Story, id};

const LINE: &str = "I will paint it after this.";
const TITLE: &str = "Paint the door green";
const ASKED: &str = "Please paint the door.";
const ANSWER: &str = "It is green now.";
const LAST: &str = "that is all from Main";

/// What main hears at a Stop of to-dos that nobody started.
const UNSTARTED: &str = "that nobody started";
/// What main hears of them as it begins or recovers.
const ON_THE_PAGE: &str = "on this session's page";

/// The line fork finds the next message to be work for later.
fn sorted_for_later(story: &Story) {
    story.cast.says(Who::LineFork, [for_later(LINE, TITLE)]);
}

/// What main does to be through with the to-do that it heard of.
fn does_it() -> [Reply; 3] {
    [
        Reply::bash("leaf task start TODO 'fetching the paint'"),
        Reply::bash(format!("leaf thread reply SOURCE '{ANSWER}'")),
        Reply::bash("leaf task end TODO done"),
    ]
}

/// A call of main's own work.
fn own_work(n: u32) -> Reply {
    Reply::bash(format!("python3 -c 'print({n})'"))
}

/// Waits until the message's to-do is open: its id. The line stands by then, for both are one write (R95).
fn until_opened(story: &Story, message: &Value) -> String {
    let open = |thread: &Value| thread["todos"][0]["state"] == "open";
    let thread = story.until("its to-do is open", message, open);
    assert_eq!(thread["line"], LINE, "{thread:#}");
    assert_eq!(thread["status"], "todo", "{thread:#}");
    let todos = thread["todos"].as_array().expect("to-dos");
    assert_eq!(todos.len(), 1, "{thread:#}");
    let todo = &todos[0];
    assert_eq!((&todo["title"], &todo["source"]), (&json!(TITLE), &message["id"]), "{thread:#}");
    assert_eq!(todo["author"], "leaf", "{thread:#}");
    id(todo, "id").to_owned()
}

/// How the to-do stands.
fn state_of(story: &Story, message: &Value, todo: &str) -> Value {
    let thread = story.thread(message);
    let todos = thread["todos"].as_array().expect("to-dos").iter();
    let found = todos.clone().find(|other| other["id"] == todo);
    found.unwrap_or_else(|| panic!("no to-do {todo}: {thread:#}"))["state"].clone()
}

fn until_done(story: &Story, message: &Value, todo: &str) {
    until("the to-do is done", LIMIT, || (state_of(story, message, todo) == "done").then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}\n{:?}", story.thread(message), story.results(Who::Main)));
}

/// Waits until main is through with the to-do: its answer names the message, the to-do is done, nothing else is open, and the
/// journal has the sort and nobody else's part in it.
fn done(story: &Story, message: &Value, todo: &str) {
    until_done(story, message, todo);
    let thread = story.thread(message);
    assert_eq!(thread["status"], "answered", "{thread:#}");
    assert_eq!(story.answers(message), [by("main", ANSWER)], "{thread:#}");
    let messages = thread["messages"].as_array().expect("messages");
    let answer = messages.iter().find(|other| other["author"] == "agent").expect("an answer");
    assert_eq!(answer["responds"], message["id"], "{thread:#}");
    nothing_open(story);
    assert_eq!(story.entries(message, "sort")[0]["sort"], "significant", "{:#}", story.why(message));
    for kind in ["handed", "queued", "refused"] {
        assert_eq!(story.entries(message, kind), [json!(null); 0], "{:#}", story.why(message));
    }
    assert_eq!(story.ends(message), [""; 0], "no fork had it: {:#}", story.why(message));
    assert_eq!(story.heard(ASKED), 0, "never main's input");
}

/// Asserts that the page has no open to-do.
fn nothing_open(story: &Story) {
    assert_eq!(story.client.json(&["task", "list"]), json!([]));
}

/// Asserts that main still owes the message, with its to-do open.
fn owed(story: &Story, message: &Value, todo: &str) {
    assert_eq!(state_of(story, message, todo), "open");
    let open = story.client.json(&["task", "list"]);
    assert_eq!((open.as_array().map(Vec::len), &open[0]["id"]), (Some(1), &json!(todo)), "{open:#}");
    assert_eq!(story.answers(message), [], "{:#}", story.thread(message));
    let state = story.client.json(&["page", "state", id(message, "thread")]);
    let owed = &state["owed"][0];
    assert_eq!((&owed["message"], &owed["owed_by"]["kind"]), (&message["id"], &json!("main")), "{state:#}");
}

/// Opens a terminal whose main sits in the call `one`.
fn open_busy(story: &Story) -> Terminal<'_> {
    let terminal = story.open();
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("look around");
    until_in(&story.client, "one");
    terminal
}

fn until_turns_ended(terminal: &Terminal<'_>, turns: usize) {
    terminal.wait("the end of the turn", |screen| screen.matches(LAST).count() == turns);
}

/// A message comes while main is in a call: main is left alone, hears of the to-do with its n-th request, the first being 0, and
/// does it behind `first`.
fn beside_a_busy_main(story: &Story, heard: usize, first: Vec<Reply>, step: Option<(Step<'_>, Killed)>) {
    let terminal = open_busy(story);
    let sabotage = step.map(|(step, killed)| story.client.sabotage(step, killed, 1));
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    assert_eq!(story.asked(Who::Main), 1, "main sits in its call");
    assert_eq!(story.asked(Who::LineFork), 1);

    let before = first.len();
    story.cast.says(Who::Main, first);
    story.cast.says(Who::Main, does_it());
    let_go(&story.client, "one");
    done(story, &message, &todo);
    terminal.wait("the end of the turn", |screen| screen.contains(LAST));
    let told = story.request(Who::Main, heard);
    let text = told.text();
    assert_eq!(text.matches("became to-do").count(), usize::from(!text.contains(UNSTARTED)), "{told:?}");
    for part in [&todo, TITLE, id(&message, "id"), id(&message, "thread")] {
        assert!(text.contains(part), "{part}: {told:?}");
    }
    assert_eq!((story.heard(&todo), story.heard(TITLE)), (1, 1), "once: {:?}", story.requests(Who::Main));
    let called = story.request(Who::Main, 1);
    let (error, said) = &called.results()[0];
    assert!(!error, "its call came to its own end: {said}");
    // The call, its own work, the to-do's three, and the end: none for the to-do.
    story.quiet(1 + before + 3 + 1, 0);
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_a_busy_main_hears_at_its_boundary_and_does_it_after_its_own_work() {
    let story = Story::new();
    beside_a_busy_main(&story, 1, vec![own_work(1), own_work(2)], None);
    story.settle();
}

/// The line and the to-do stand, and the module never hears what came of its question.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_a_busy_main_hears_at_its_boundary_sort_killed() {
    let story = Story::new();
    let line = (Step::Command("fork line"), Killed::Unheard);
    beside_a_busy_main(&story, 1, vec![own_work(1), own_work(2)], Some(line));
    story.settle();
}

/// The boundary dies before it did anything: the next one tells.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_a_busy_main_hears_at_its_boundary_killed() {
    let story = Story::new();
    let boundary = (Step::MainsHook("PostToolBatch"), Killed::Before);
    beside_a_busy_main(&story, 2, vec![own_work(1), own_work(2)], Some(boundary));
    story.settle();
}

/// The boundary took the line out of the queue, and main never saw it: its Stop tells.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_a_busy_main_hears_at_its_stop_boundary_killed() {
    let story = Story::new();
    let boundary = (Step::MainsHook("PostToolBatch"), Killed::Unheard);
    beside_a_busy_main(&story, 4, vec![own_work(1), own_work(2), Reply::text(LAST)], Some(boundary));
    story.settle();
}

/// The to-do comes while main says its last words: its Stop tells of it.
fn with_the_last_words(story: &Story, stop: Option<Killed>) {
    let terminal = story.open_after_a_turn();
    until_rests(story);
    let gate = Gate::default();
    story.cast.says(Who::Main, [Reply::text(LAST).behind(&gate)]);
    terminal.say("and then");
    story.request(Who::Main, 1);
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    let sabotage = stop.map(|killed| story.client.sabotage(Step::MainsHook("Stop"), killed, 1));
    story.cast.says(Who::Main, does_it());
    gate.open();
    if let Some(sabotage) = sabotage {
        sabotage.wait(1);
        // Nobody heard that its turn is over: the next prompt tells.
        story.quiet(2, 0);
        terminal.say("what else");
    }
    done(story, &message, &todo);
    let told = story.request(Who::Main, 2);
    assert!(told.text().contains(if stop.is_some() { "what else" } else { "Stop hook" }), "{told:?}");
    // Two prompts, the one that tells, and the to-do's three.
    story.quiet(6, 0);
    assert_eq!(story.heard(&todo), 1, "{:?}", story.requests(Who::Main));
    assert_eq!(told.text().matches(TITLE).count(), 1, "in one line: {told:?}");
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_a_to_do_that_comes_with_mains_last_words_is_said_by_its_stop() {
    let story = Story::new();
    with_the_last_words(&story, None);
    story.settle();
}

/// That Stop dies before it did anything.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_a_to_do_that_comes_with_mains_last_words_killed() {
    let story = Story::new();
    with_the_last_words(&story, Some(Killed::Before));
    story.settle();
}

/// An idle main is woken once, and does it.
fn beside_an_idle_main(story: &Story, step: Option<(Step<'_>, Killed)>, wakes: usize) {
    let terminal = story.open_after_a_turn();
    let sabotage = step.map(|(step, killed)| story.client.sabotage(step, killed, 1));
    sorted_for_later(story);
    story.cast.says_about(Who::Main, "became to-do", does_it());
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    done(story, &message, &todo);
    terminal.wait("the end of the turn", |screen| screen.matches(LAST).count() >= 2);
    if let Some(sabotage) = &sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    assert_eq!((story.heard(&todo), story.asked(Who::LineFork)), (1, 1), "{:?}", story.requests(Who::Main));
    // A prompt; the wake, the to-do's three; what a killed prompt cost.
    let lost = usize::from(matches!(step, Some((Step::MainsHook(_), _))));
    story.quiet(1 + 1 + 3 + lost, wakes);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_r105_an_idle_main_is_woken_once_and_does_it() {
    let story = Story::new();
    beside_an_idle_main(&story, None, 1);
    story.settle();
}

/// The module never hears what came of its question: the wake is the follower's.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_r105_an_idle_main_is_woken_once_sort_killed() {
    let story = Story::new();
    beside_an_idle_main(&story, Some((Step::Command("fork line"), Killed::Unheard)), 1);
    story.settle();
}

/// The woken prompt tells nothing: its Stop does.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_r105_an_idle_main_is_woken_once_prompt_killed() {
    let story = Story::new();
    beside_an_idle_main(&story, Some((Step::MainsHook("UserPromptSubmit"), Killed::Before)), 1);
    story.settle();
}

/// Waits until main's turn has ended for leaf, too: the screen shows its last words before its Stop.
fn until_rests(story: &Story) {
    let rests = || {
        let sessions = fs::read_dir(story.client.path("home/.local/state/leaf/sessions")).ok()?;
        let journals = sessions.flatten().map(|session| fs::read_to_string(session.path().join("journal.jsonl")));
        journals.flatten().any(|journal| journal.contains("\"evidence\":\"stop\"")).then_some(())
    };
    until("main rests", LIMIT, rests).unwrap_or_else(|late| panic!("{late}"));
}

/// Main ends its turns without it: each of them is continued once, and it stays open.
fn never_started(story: &Story, stop: Option<Killed>) {
    let terminal = story.open_after_a_turn();
    until_rests(story);
    let sabotage = stop.map(|killed| story.client.sabotage(Step::MainsHook("Stop"), killed, 1));
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    // A prompt, the wake, and the Stop that goes on; a killed one can't.
    let lost = usize::from(stop.is_some());
    story.quiet(3 - lost, 1);
    assert_eq!(story.heard(UNSTARTED), 1 - lost);
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    owed(story, &message, &todo);

    terminal.say("anything else");
    story.quiet(5 - lost, 1);
    let said = story.request(Who::Main, 3 - lost);
    assert!(said.text().contains("anything else") && !said.text().contains(&todo), "not with the prompt: {said:?}");
    let again = story.request(Who::Main, 4 - lost);
    assert_eq!(again.text().matches(UNSTARTED).count(), 1, "{again:?}");
    for part in [&todo, TITLE, id(&message, "id"), id(&message, "thread")] {
        assert!(again.text().contains(part), "{part}: {again:?}");
    }
    assert_eq!(story.heard(UNSTARTED), 2 - lost, "once a turn");
    assert_eq!(story.heard("became to-do"), 1);
    owed(story, &message, &todo);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_a_stop_goes_on_for_it_once_a_turn_and_it_stays_open() {
    let story = Story::new();
    never_started(&story, None);
    story.settle();
}

/// The Stop dies: the next turn's says it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_a_stop_goes_on_for_it_once_a_turn_killed() {
    let story = Story::new();
    never_started(&story, Some(Killed::Before));
    story.settle();
}

/// Main is interrupted after the to-do was opened and before it heard of it.
fn interrupted(story: &Story) -> (Terminal<'_>, Value, String) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("look around");
    until_in(&story.client, "one");
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    terminal.press(&["Escape"]);
    terminal.wait("the interruption", |screen| screen.contains("Interrupted"));
    (terminal, message, todo)
}

/// The person's next prompt tells of it, and nothing before.
fn told_by_the_next_prompt(story: &Story, terminal: &Terminal<'_>, message: &Value, todo: &str) {
    // What doesn't come can only be waited for; the watch would wake after a second.
    std::thread::sleep(Duration::from_secs(3));
    story.quiet(2, 0);
    owed(story, message, todo);
    story.cast.says(Who::Main, does_it());
    terminal.say("go on");
    done(story, message, todo);
    let told = story.request(Who::Main, 2);
    assert!(told.text().contains("go on") && told.text().contains(todo), "{told:?}");
    story.quiet(6, 0);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_a_to_do_that_was_there_at_an_interruption_waits_for_the_next_prompt() {
    let story = Story::new();
    let (terminal, message, todo) = interrupted(&story);
    told_by_the_next_prompt(&story, &terminal, &message, &todo);
    terminal.exit();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_a_to_do_at_an_interruption_that_nobody_heard_of_killed() {
    let story = Story::new();
    let ended = story.client.sabotage(Step::Command("turn ended"), Killed::Before, 0);
    let (terminal, message, todo) = interrupted(&story);
    ended.wait(1);
    told_by_the_next_prompt(&story, &terminal, &message, &todo);
    terminal.exit();
    story.settle();
}

/// A further message of the thread is small: a fork answers it, and the to-do stays main's.
fn further(story: &Story, sabotage: impl FnOnce() -> Option<Sabotage>) {
    let terminal = open_busy(story);
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    let sabotage = sabotage();
    let small = story.say(&message, "Where is the brush?");
    until("the fork answers", LIMIT, || (story.answers(&message).len() == 1).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&message)));
    story.until_ended(&message, &["answer"]);
    let told = story.request(Who::Fork, 0);
    assert_eq!(told.references().len(), 1, "{told:?}");
    assert!(told.references()[0].ends_with(id(&small, "id")), "the further one alone: {told:?}");
    let thread = story.thread(&message);
    assert_eq!((&thread["status"], &thread["todos"][0]["state"]), (&json!("todo"), &json!("open")), "{thread:#}");
    assert_eq!(story.asked(Who::Main), 1, "main sits in its call");

    story.cast.says(Who::Main, does_it());
    let_go(&story.client, "one");
    until_done(story, &message, &todo);
    until_turns_ended(&terminal, 1);
    assert_eq!(story.answers(&message), [by("fork", "From the fork."), by("main", ANSWER)]);
    let thread = story.thread(&message);
    assert_eq!(thread["status"], "answered", "{thread:#}");
    let messages = thread["messages"].as_array().expect("messages").iter();
    let responds: Vec<_> =
        messages.filter(|other| other["author"] == "agent").map(|reply| &reply["responds"]).collect();
    assert_eq!(responds, [&small["id"], &message["id"]], "{thread:#}");
    nothing_open(story);
    story.quiet(5, 0);
    assert_eq!((story.heard(&todo), story.heard("answered thread")), (1, 1));
    assert_eq!((story.heard(ASKED), story.heard("Where is the brush?")), (0, 0), "never main's input");
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r096_a_further_message_is_a_forks_and_the_to_do_stays_mains() {
    let story = Story::new();
    further(&story, || None);
    story.settle();
}

/// The fork's run is known by its own call alone.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r096_a_further_message_is_a_forks_and_the_to_do_stays_mains_killed() {
    let story = Story::new();
    further(&story, || Some(story.client.sabotage(Step::Command("fork started"), Killed::Before, 1)));
    story.settle();
}

/// The user takes the message back while main is in a call: main never hears of it.
fn withdrawn(story: &Story) {
    let terminal = open_busy(story);
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    story.client.json(&["thread", "withdraw", id(&message, "id")]);
    assert_eq!(state_of(story, &message, &todo), "dropped");
    nothing_open(story);
    let_go(&story.client, "one");
    until_turns_ended(&terminal, 1);
    story.quiet(2, 0);
    let main = story.requests(Who::Main);
    assert!(main.iter().all(|request| !request.conversation().contains(&todo)), "{main:?}");
    assert_eq!((story.heard(TITLE), story.heard(ASKED)), (0, 0), "{main:?}");

    // What wakes it later is that alone.
    story.cast.says(Who::LineFork, [words("Main has it.", "now")]);
    let other = story.write("Which colour is it now?");
    story.until_answered(&other);
    story.quiet(4, 1);
    assert_eq!((story.heard(&todo), story.heard(TITLE)), (0, 0), "{:?}", story.requests(Who::Main));
    assert_eq!(story.answers(&message), []);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r097_a_to_do_withdrawn_in_time_is_never_heard_of() {
    let story = Story::new();
    withdrawn(&story);
    story.settle();
}

/// The module never hears what came of its question, and the follower asks no more.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r097_a_to_do_withdrawn_in_time_is_never_heard_of_killed() {
    let story = Story::new();
    let line = story.client.sabotage(Step::Command("fork line"), Killed::Unheard, 1);
    withdrawn(&story);
    assert_eq!(line.killed(), 1);
    story.settle();
}

/// The line fork still thinks as the message is taken back: nothing is opened, and an idle main isn't woken.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r097_a_message_withdrawn_before_its_sort_opens_nothing() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let gate = Gate::default();
    story.cast.says(Who::LineFork, [for_later(LINE, TITLE).behind(&gate)]);
    let message = story.write(ASKED);
    story.request(Who::LineFork, 0);
    story.client.json(&["thread", "withdraw", id(&message, "id")]);
    gate.open();
    story.quiet(1, 0);
    let thread = story.thread(&message);
    assert_eq!((&thread["todos"], &thread["line"]), (&json!([]), &json!(null)), "{thread:#}");
    nothing_open(&story);
    terminal.exit();
    story.settle();
}

/// Main heard of the to-do and started it; then the user takes the message back.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r008_r097_main_hears_that_a_to_do_it_is_at_was_withdrawn() {
    let story = Story::new();
    let terminal = open_busy(&story);
    sorted_for_later(&story);
    let message = story.write(ASKED);
    let todo = until_opened(&story, &message);
    story.cast.says(Who::Main, [Reply::bash("leaf task start TODO 'fetching the paint'"), busy("two")]);
    let_go(&story.client, "one");
    until_in(&story.client, "two");
    story.client.json(&["thread", "withdraw", id(&message, "id")]);
    assert_eq!(state_of(&story, &message, &todo), "dropped");
    let_go(&story.client, "two");
    until_turns_ended(&terminal, 1);
    let told = story.request(Who::Main, 3);
    assert!(told.text().contains(id(&message, "id")) && told.text().contains("back"), "R8: {told:?}");
    story.quiet(4, 0);
    terminal.exit();
    story.settle();
}

/// Main finds the work quick: the message comes to it as any other, and it answers.
fn dropped_by_main(story: &Story, step: Option<(Step<'_>, Killed)>) {
    let terminal = open_busy(story);
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    let gate = Gate::default();
    story.cast.says(Who::Main, [Reply::bash("leaf task end TODO dropped 'it is quick'").behind(&gate)]);
    let_go(&story.client, "one");
    story.request(Who::Main, 1);
    let sabotage = step.map(|(step, killed)| story.client.sabotage(step, killed, 1));
    gate.open();
    story.until_answered(&message);
    assert_eq!(story.answers(&message), [by("main", "From main.")]);
    assert_eq!(state_of(story, &message, &todo), "dropped");
    nothing_open(story);
    let handed = story.requests(Who::Main).into_iter().find(|request| !request.references().is_empty());
    let handed = handed.expect("it was delivered");
    assert!(handed.references()[0].ends_with(id(&message, "id")), "{handed:?}");
    assert_eq!((story.heard(&todo), story.heard(UNSTARTED)), (1, 0), "{:?}", story.requests(Who::Main));
    until_turns_ended(&terminal, if matches!(step, Some((Step::MainsHook(_), _))) { 2 } else { 1 });
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    } else {
        let at = story.request(Who::Main, 2);
        assert!(at.text().contains(ASKED) && at.results().len() == 1, "at that call's boundary: {at:?}");
        assert_eq!(story.heard(ASKED), 1);
        story.quiet(4, 0);
    }
    assert_eq!(story.wakes(), 0);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r097_main_drops_a_to_do_and_answers_its_message_at_once() {
    let story = Story::new();
    dropped_by_main(&story, None);
    story.settle();
}

/// The command did its work, and main never hears so.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r097_main_drops_a_to_do_command_killed() {
    let story = Story::new();
    dropped_by_main(&story, Some((Step::Command("task end"), Killed::Unheard)));
    story.settle();
}

/// The boundary that would have delivered dies: the turn's Stop does.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r097_main_drops_a_to_do_boundary_killed() {
    let story = Story::new();
    dropped_by_main(&story, Some((Step::MainsHook("PostToolBatch"), Killed::Before)));
    story.settle();
}

/// A fork answers with what it found and leaves the rest; main, which is idle, does it and says so.
fn left_by_a_fork(story: &Story, sabotage: Option<Sabotage>) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [Reply::bash(format!("leaf thread reply REF --todo '{TITLE}' 'It needs paint.'"))]);
    let message = story.write("Is the door all right?");
    let says_so = format!("leaf thread reply {} '{ANSWER}' --unasked", id(&message, "thread"));
    let does_it = ["leaf task start TODO 'fetching the paint'", "leaf task end TODO done", &says_so];
    story.cast.says_about(Who::Main, "left to-do", does_it.map(Reply::bash));
    story.until_ended(&message, &["todo"]);
    let todo = story.thread(&message)["todos"][0].clone();
    assert_eq!((&todo["title"], &todo["source"]), (&json!(TITLE), &message["id"]), "{todo}");
    let todo = id(&todo, "id").to_owned();
    until_done(story, &message, &todo);
    until("main says so", LIMIT, || (story.answers(&message).len() == 2).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.results(Who::Main)));
    assert_eq!(story.answers(&message), [by("fork", "It needs paint."), by("main", ANSWER)]);
    assert_eq!(story.thread(&message)["status"], "answered");
    nothing_open(story);
    let woken = story.request(Who::Main, 1);
    assert!(woken.text().contains(&todo) && woken.text().contains(TITLE), "{woken:?}");
    // A prompt; the wake, its three calls. The end costs nothing else, and no Stop goes on.
    story.quiet(5, 1);
    assert_eq!((story.heard(&todo), story.heard(UNSTARTED)), (1, 0));
    assert_eq!(story.heard("Is the door all right?"), 0, "never main's input");
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r099_a_fork_answers_with_what_it_found_and_main_does_the_rest() {
    let story = Story::new();
    left_by_a_fork(&story, None);
    story.settle();
}

/// Its end is recorded, and whoever reported it dies before it hears so.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r099_a_fork_answers_with_what_it_found_and_main_does_the_rest_killed() {
    let story = Story::new();
    let ended = story.client.sabotage(Step::Command("fork ended"), Killed::Unheard, 1);
    left_by_a_fork(&story, Some(ended));
    story.settle();
}

/// Opens a terminal whose idle main left a to-do open.
fn with_one_open(story: &Story) -> (Terminal<'_>, Value, String) {
    let terminal = story.open_after_a_turn();
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    story.quiet(3, 1);
    owed(story, &message, &todo);
    story.cast.says_about(Who::Main, "carry on", does_it());
    (terminal, message, todo)
}

/// Main carries on after something that it forgot by, is told of the to-do in that request, and does it. A main that nobody told,
/// because the hook was killed, is told by its Stop.
fn carried_on(story: &Story, terminal: &Terminal<'_>, message: &Value, todo: &str) {
    terminal.say("carry on");
    done(story, message, todo);
    let main = story.requests(Who::Main);
    let asked = main.iter().find(|request| request.text().contains("carry on")).expect("the prompt's request");
    for part in [todo, TITLE, ON_THE_PAGE, id(message, "id"), "the user waits"] {
        assert!(asked.text().contains(part), "{part}: {asked:?}");
    }
    assert_eq!(asked.text().matches(TITLE).count(), 1, "once: {asked:?}");
    assert_eq!(story.heard(ON_THE_PAGE), 1, "{main:?}");
}

/// The same, told by nobody but the Stop.
fn carried_on_after_its_stop(story: &Story, terminal: &Terminal<'_>, message: &Value, todo: &str) {
    let stops = story.heard(UNSTARTED);
    // It knows of nothing to do.
    story.cast.says_first(Who::Main, "carry on", Reply::text(LAST));
    terminal.say("carry on");
    done(story, message, todo);
    let main = story.requests(Who::Main);
    assert_eq!(story.heard(ON_THE_PAGE), 0, "{main:?}");
    assert_eq!(story.heard(UNSTARTED), stops + 1, "{main:?}");
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r054_r098_a_compacted_main_hears_of_its_to_do_and_does_it() {
    let story = Story::new();
    let (terminal, message, todo) = with_one_open(&story);
    terminal.say("/compact");
    terminal.wait("the summary", |screen| screen.contains("Compacted"));
    carried_on(&story, &terminal, &message, &todo);
    assert_eq!(story.wakes(), 1);
    terminal.exit();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r054_r098_a_compacted_main_killed() {
    let story = Story::new();
    let (terminal, message, todo) = with_one_open(&story);
    let start = story.client.sabotage(Step::MainsHook("SessionStart"), Killed::Before, 1);
    terminal.say("/compact");
    start.wait(1);
    terminal.wait("the summary", |screen| screen.contains("Compacted"));
    carried_on_after_its_stop(&story, &terminal, &message, &todo);
    assert_eq!(story.wakes(), 1);
    terminal.exit();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r054_r098_a_resumed_main_hears_of_its_to_do_and_does_it_killed() {
    let story = Story::new();
    let (terminal, message, todo) = with_one_open(&story);
    kill(&[story.client.pid()]);
    drop(terminal);
    until("everything of it has left", LIMIT, || story.client.processes().is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    let terminal = story.client.open(&["--resume", SESSION, "--allowedTools", RULES]);
    story.until_followed();
    carried_on(&story, &terminal, &message, &todo);
    terminal.exit();
    story.settle();
}

/// The client dies before main heard of it: the next one is woken for it, and told in one line.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r098_r105_a_to_do_that_a_killed_client_never_told_of_wakes_the_next_killed() {
    let story = Story::new();
    let terminal = open_busy(&story);
    sorted_for_later(&story);
    let message = story.write(ASKED);
    let todo = until_opened(&story, &message);
    kill(&[story.client.pid()]);
    drop(terminal);
    let_go(&story.client, "one");
    until("everything of it has left", LIMIT, || story.client.processes().is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    story.cast.says(Who::Main, does_it());
    let terminal = story.client.open(&["--resume", SESSION, "--allowedTools", RULES]);
    done(&story, &message, &todo);
    // The call that it died in, the wake, the to-do's three.
    story.quiet(5, 1);
    assert_eq!(story.heard(&todo), 1, "{:?}", story.requests(Who::Main));
    let told = story.request(Who::Main, 1);
    assert_eq!(told.text().matches(TITLE).count(), 1, "in one line: {told:?}");
    terminal.exit();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r098_a_cleared_main_hears_of_its_to_do_and_does_it() {
    let story = Story::new();
    let (terminal, message, todo) = with_one_open(&story);
    terminal.say("/clear");
    terminal.wait("an empty screen", |screen| !screen.contains(LAST));
    carried_on(&story, &terminal, &message, &todo);
    assert_eq!(story.wakes(), 1);
    let state = story.client.json(&["page", "state", id(&message, "thread")]);
    assert_ne!(state["session"], SESSION, "{state:#}");
    terminal.exit();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r098_a_cleared_main_killed() {
    let story = Story::new();
    let (terminal, message, todo) = with_one_open(&story);
    let start = story.client.sabotage(Step::MainsHook("SessionStart"), Killed::Before, 1);
    terminal.say("/clear");
    start.wait(1);
    terminal.wait("an empty screen", |screen| !screen.contains(LAST));
    carried_on_after_its_stop(&story, &terminal, &message, &todo);
    terminal.exit();
    story.settle();
}

/// The session that comes after the first, in a client of its own.
const NEXT: &str = "8e40b1d7-6c25-4f93-a1b8-57d06e2c94fa";

/// Opens another client in the project, after the first was left.
fn another_client<'s>(story: &'s Story, first: Terminal<'s>) -> Terminal<'s> {
    first.exit();
    story.client.open(&["--session-id", NEXT, "--allowedTools", RULES])
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r098_r110_a_new_client_in_the_project_inherits_a_to_do_and_does_it() {
    let story = Story::new();
    let (first, message, todo) = with_one_open(&story);
    let terminal = another_client(&story, first);
    story.until_followed();
    carried_on(&story, &terminal, &message, &todo);
    let main = story.requests(Who::Main);
    assert_eq!(story.wakes(), 1, "{main:?}");
    let told = main.iter().find(|request| request.text().contains("carry on")).expect("the prompt's request");
    assert!(told.text().contains("1 thread with open messages or to-dos"), "R110: {told:?}");
    assert!(!told.conversation().contains("hello there"), "a conversation of its own: {told:?}");
    let state = story.client.json(&["page", "state", id(&message, "thread")]);
    assert_eq!(state["session"], NEXT, "{state:#}");
    terminal.exit();
    story.settle();
}

/// Nobody told the new client's main what it inherits: it does as soon as the person writes, and hears of the to-do at its next Stop.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r098_r110_a_new_client_in_the_project_killed() {
    let story = Story::new();
    let (first, message, todo) = with_one_open(&story);
    let start = story.client.sabotage(Step::MainsHook("SessionStart"), Killed::Before, 1);
    let terminal = another_client(&story, first);
    start.wait(1);
    // It knows of nothing to do.
    story.cast.says_first(Who::Main, "carry on", Reply::text(LAST));
    terminal.say("carry on");
    until_turns_ended(&terminal, 1);
    // Its Stop's hook runs behind the words on the screen: a page that came before it would be told of there.
    let idle = |session: &Value| session["id"] == NEXT && session["turn"].is_null();
    until("the turn is over", LIMIT, || {
        let status = story.client.json(&["status"]);
        status["sessions"].as_array().is_some_and(|sessions| sessions.iter().any(idle)).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}"));
    owed(&story, &message, &todo);
    story.until_followed();
    let other = story.client.json(&["thread", "new", "Is anyone in?"]);
    story.until_answered(&other);
    let state = story.client.json(&["page", "state", id(&message, "thread")]);
    assert_eq!(state["session"], NEXT, "{state:#}");
    carried_on_after_its_stop(&story, &terminal, &message, &todo);
    leave(terminal);
    story.settle();
}

/// Working forks are off: a small message is main's with its next boundary, work for later a to-do all the same.
fn without_forks(story: &Story, step: Option<(Step<'_>, Killed)>) {
    let terminal = open_busy(story);
    let sabotage = step.map(|(step, killed)| story.client.sabotage(step, killed, 1));
    story.cast.says_about(Who::LineFork, ASKED, [for_later(LINE, TITLE)]);
    story.cast.says_about(Who::LineFork, "Where is the brush?", [words("I will look.", "small")]);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    let small = story.write("Where is the brush?");
    story.until("its line stands", &small, |thread| thread["line"] == "I will look.");
    assert_eq!(story.asked(Who::Main), 1, "main sits in its call");
    let small_one = "leaf thread reply REF 'In the shed.'";
    story.cast.says(Who::Main, [Reply::bash(small_one)]);
    story.cast.says(Who::Main, does_it());
    let_go(&story.client, "one");
    story.until_answered(&small);
    assert_eq!(story.answers(&small), [by("main", "In the shed.")]);
    until_turns_ended(&terminal, 1);
    done(story, &message, &todo);
    let told = story.request(Who::Main, 1);
    assert!(told.text().contains(&todo) && told.text().contains("Where is the brush?"), "{told:?}");
    assert_eq!(told.references().len(), 1, "{told:?}");
    let sort = &story.entries(&small, "sort")[0];
    assert_eq!(sort["sort"], "small", "{sort}");
    let handed = story.entries(&small, "handed");
    assert_eq!((handed.len(), &handed[0]["rule"]), (1, &json!("R3")), "{handed:?}");
    assert_eq!(story.asked(Who::Fork), 0);
    story.quiet(6, 0);
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r003_without_working_forks_a_small_message_is_mains_and_work_for_later_a_to_do() {
    let story = Story::new().with("LEAF_FORK_WORK", "off");
    without_forks(&story, None);
    story.settle();
}

/// The first of the two sorts is heard by nobody.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r003_without_working_forks_killed() {
    let story = Story::new().with("LEAF_FORK_WORK", "off");
    without_forks(&story, Some((Step::Command("fork line"), Killed::Unheard)));
    story.settle();
}

/// A story in which one fork stands for all threads.
fn with_a_standing_fork() -> Story {
    let story = Story::new();
    let config = story.client.path("home/.config/leaf");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("config.toml"), "[forks]\nmax_running = 1\n").expect("a file");
    story
}

/// The name of the fork that a thread's turn was given.
fn fork_of(story: &Story, message: &Value) -> String {
    let taken = story.entries(message, "taken").into_iter().find(|entry| entry["by"] == "fork");
    let taken = taken.unwrap_or_else(|| panic!("a fork took it: {:#}", story.why(message)));
    id(&taken, "name").to_owned()
}

/// Two threads, one after the other.
fn one_after_the_other(story: &Story, sabotage: Option<Sabotage>) {
    let terminal = story.open_after_a_turn();
    let key = story.write("Where is the key?");
    story.until_answered(&key);
    story.until_ended(&key, &["answer"]);
    let ladder = story.write("Where is the ladder?");
    story.until_answered(&ladder);
    story.until_ended(&ladder, &["answer"]);
    assert_eq!(
        (fork_of(story, &key), fork_of(story, &ladder)),
        ("leaf-standing".to_owned(), "leaf-standing".to_owned())
    );
    let agents = story.agents(&key);
    assert_eq!((agents.len(), &agents), (1, &story.agents(&ladder)), "one agent: {:#}", story.why(&ladder));
    let told = story.requests(Who::Fork).into_iter().find(|request| request.text().contains("Where is the ladder?"));
    let told = told.expect("it was told");
    let said = told.conversation();
    assert!(said.contains("Where is the key?") && said.contains("From the fork."), "it goes on: {said}");
    assert!(told.text().contains("another thread than the one before"), "{told:?}");
    assert_eq!(story.answers(&ladder), [by("fork", "From the fork.")]);
    // Its ends cost main nothing.
    story.quiet(1, 0);
    assert_eq!(story.open_turns(&ladder), [json!(null); 0]);
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r034_the_standing_fork_takes_one_thread_after_the_other() {
    let story = with_a_standing_fork();
    one_after_the_other(&story, None);
    story.settle();
}

/// The first thread's end is recorded, and whoever reported it dies before it hears so.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r034_the_standing_fork_takes_one_thread_after_the_other_killed() {
    let story = with_a_standing_fork();
    let ended = story.client.sabotage(Step::Command("fork ended"), Killed::Unheard, 1);
    one_after_the_other(&story, Some(ended));
    story.settle();
}

/// Two threads at once: the second waits for the fork.
fn one_at_a_time(story: &Story, sabotage: impl FnOnce() -> Option<Sabotage>) {
    let terminal = story.open_after_a_turn();
    story.cast.says_about(Who::Fork, "Where is the key?", [busy("key")]);
    let key = story.write("Where is the key?");
    until_in(&story.client, "key");
    let ladder = story.write("Where is the ladder?");
    until("it is queued", LIMIT, || (!story.entries(&ladder, "queued").is_empty()).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&ladder)));
    let waits = story.thread(&ladder);
    assert_eq!((&waits["status"], &waits["waiting"]), (&json!("on_it"), &json!([ladder["id"]])), "{waits:#}");
    assert_eq!(waits["holder"]["kind"], "line_fork", "{waits:#}");
    assert_eq!(story.open_turns(&key).len(), 1);
    let sabotage = sabotage();
    let_go(&story.client, "key");
    for message in [&key, &ladder] {
        story.until_answered(message);
        story.until_ended(message, &["answer"]);
        assert_eq!(story.answers(message), [by("fork", "From the fork.")]);
        assert_eq!(fork_of(story, message), "leaf-standing");
    }
    assert_eq!(story.agents(&key), story.agents(&ladder), "resumed: {:#}", story.why(&ladder));
    assert_eq!(story.agents(&key).len(), 1);
    let told = story.requests(Who::Fork).into_iter().find(|request| request.text().contains("Where is the ladder?"));
    assert!(told.expect("it was told").conversation().contains("Where is the key?"));
    assert_eq!(story.asked(Who::LineFork), 2, "asked about once each");
    story.quiet(1, 0);
    assert_eq!(story.heard("Where is the ladder?"), 0, "never main's input");
    assert_eq!(story.open_turns(&ladder), [json!(null); 0]);
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r034_r033_a_second_thread_waits_for_the_standing_fork() {
    let story = with_a_standing_fork();
    one_at_a_time(&story, || None);
    story.settle();
}

/// The first's end is heard by nobody but the journal: the follower takes for the second all the same.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r034_r033_a_second_thread_waits_for_the_standing_fork_killed() {
    let story = with_a_standing_fork();
    one_at_a_time(&story, || Some(story.client.sabotage(Step::Command("fork ended"), Killed::Unheard, 1)));
    story.settle();
}

/// An unattended run whose main sits in a call as the to-do is opened.
fn busy_run(story: &Story) -> (Run<'_>, Value, String) {
    story.cast.says(Who::Main, [busy("one")]);
    let run = story.client.print("Look around.", &["--session-id", SESSION, "--allowedTools", RULES]);
    until_in(&story.client, "one");
    story.until_followed();
    sorted_for_later(story);
    let message = story.write(ASKED);
    let todo = until_opened(story, &message);
    assert_eq!(story.asked(Who::Main), 1, "main sits in its call");
    (run, message, todo)
}

/// The run ends by itself, and well.
fn ended(run: Run<'_>) {
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    assert!(outcome.stdout.contains(LAST), "{outcome:?}");
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_r106_a_run_without_a_terminal_does_its_to_do_before_it_ends() {
    let story = Story::new();
    let (run, message, todo) = busy_run(&story);
    story.cast.says(Who::Main, [own_work(1)]);
    story.cast.says(Who::Main, does_it());
    let_go(&story.client, "one");
    ended(run);
    done(&story, &message, &todo);
    assert_eq!(story.heard(&todo), 1);
    story.quiet(6, 0);
    story.settle();
}

/// The boundary that told of it was heard by nobody: the run's Stop tells.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_r106_a_run_without_a_terminal_does_its_to_do_killed() {
    let story = Story::new();
    let (run, message, todo) = busy_run(&story);
    let boundary = story.client.sabotage(Step::MainsHook("PostToolBatch"), Killed::Unheard, 1);
    story.cast.says(Who::Main, [own_work(1), Reply::text(LAST)]);
    story.cast.says(Who::Main, does_it());
    let_go(&story.client, "one");
    ended(run);
    assert_eq!(boundary.killed(), 1);
    done(&story, &message, &todo);
    assert_eq!((story.heard(&todo), story.heard(UNSTARTED)), (1, 1));
    story.quiet(7, 0);
    story.settle();
}

/// Main ends without it: said once more at its Stop, and left open on the page.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_r106_a_run_without_a_terminal_may_leave_its_to_do_open() {
    let story = Story::new();
    let (run, message, todo) = busy_run(&story);
    let_go(&story.client, "one");
    ended(run);
    story.quiet(3, 0);
    assert_eq!((story.heard("became to-do"), story.heard(UNSTARTED)), (1, 1));
    assert_eq!(state_of(&story, &message, &todo), "open");
    assert_eq!(story.answers(&message), []);
    story.settle();
}

/// Every Stop of it dies: the run ends, and the to-do stays.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r095_r106_a_run_without_a_terminal_may_leave_its_to_do_open_killed() {
    let story = Story::new();
    let (run, message, todo) = busy_run(&story);
    let stop = story.client.sabotage(Step::MainsHook("Stop"), Killed::Before, 0);
    let_go(&story.client, "one");
    ended(run);
    assert!(stop.killed() >= 1);
    story.quiet(2, 0);
    assert_eq!(state_of(&story, &message, &todo), "open");
    assert_eq!(story.answers(&message), []);
    story.settle();
}
