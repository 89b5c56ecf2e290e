//! What becomes of a message once a fork has it: who answers, what main hears of it and how often, and what it costs main.

use serde_json::{Value, json};

use crate::cast::{Who, busy, let_go, reply, until_in};
use crate::client::{Killed, Step, Terminal, until};
use crate::model::{Reply, Request};
use crate::story::{Story, id};
use crate::{LIMIT, logs};

const LAST: &str = "that is all from Main";

fn forks(text: &str) -> (String, String) {
    ("fork".to_owned(), text.to_owned())
}

fn mains(text: &str) -> (String, String) {
    ("main".to_owned(), text.to_owned())
}

/// Waits for main's last words of its n-th turn in this terminal.
fn until_turns_ended(terminal: &Terminal<'_>, turns: usize) {
    terminal.wait("the end of the turn", |screen| screen.matches(LAST).count() == turns);
}

/// The fork answers an idle session's message; main hears of it with the next prompt, and never again.
fn heard_once(story: &Story) {
    let terminal = story.open_after_a_turn();
    let message = story.write("Which colour is the door?");
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    story.quiet(1, 0);
    terminal.say("any news");
    until_turns_ended(&terminal, 2);
    terminal.say("anything more");
    until_turns_ended(&terminal, 3);
    let told = story.requests(Who::Main);
    let thread = id(&message, "thread");
    let answered = format!("answered thread {thread}");
    assert_eq!(told[1].text().matches(&answered).count(), 1, "{told:?}");
    assert!(told[1].text().contains("It owes nothing."), "{told:?}");
    assert_eq!(story.heard(&answered), 1, "{told:?}");
    // The take's line left the queue with the end's (R86).
    assert_eq!(story.heard("took thread"), 0, "{told:?}");
    assert_eq!(story.heard("Which colour is the door?"), 0, "never main's input");
    story.quiet(3, 0);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r082_the_fork_answers_and_main_hears_it_once() {
    let story = Story::new();
    heard_once(&story);
    story.settle();
}

/// The end is recorded, and whoever reported it dies before it hears so.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r082_the_fork_answers_and_main_hears_it_once_killed() {
    let story = Story::new();
    let ended = story.client.sabotage(Step::Command("fork ended"), Killed::Unheard, 1);
    heard_once(&story);
    assert_eq!(ended.killed(), 1);
    story.settle();
}

/// The fork answers and ends while its session has no follower, whose token proves the module's report.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_an_end_while_the_follower_is_away_is_reported_once_it_is_back_killed() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.write("Which colour is the door?");
    until_in(&story.client, "fork");
    let follow = story.client.sabotage(Step::Command("follow"), Killed::Before, 0);
    for follower in story.client.followers() {
        story.client.kill(follower);
    }
    let_go(&story.client, "fork");
    story.until_answered(&message);
    until("it stopped", LIMIT, || (!story.entries(&message, "ending").is_empty()).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&message)));
    follow.wait(1);
    follow.end();
    story.until_ended(&message, &["answer"]);
    story.quiet(1, 0);
    terminal.exit();
    story.settle();
}

/// A fork is in a call, and a further message of its thread is written.
fn further(story: &Story) -> Value {
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.write("Is it raining?");
    until_in(&story.client, "fork");
    story.say(&message, "And the wind?");
    story.until("both wait, held by the fork", &message, |thread| {
        thread["waiting"].as_array().is_some_and(|waiting| waiting.len() == 2) && thread["holder"]["kind"] == "fork"
    });
    let_go(&story.client, "fork");
    message
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r075_a_further_message_comes_at_the_forks_boundary() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let message = further(&story);
    story.until_ended(&message, &["answer"]);
    assert_eq!(story.answers(&message), [forks("From the fork."), forks("From the fork.")]);
    let boundary = story.request(Who::Fork, 1);
    assert!(boundary.text().contains("And the wind?"), "behind its call: {boundary:?}");
    assert_eq!(boundary.results().len(), 1, "{boundary:?}");
    assert_eq!(story.asked(Who::LineFork), 1, "R48: it keeps its thread's further messages");
    assert_eq!(story.agents(&message).len(), 1);
    story.quiet(1, 0);
    terminal.exit();
    story.settle();
}

/// The boundary recorded the further message, and the fork never saw it: it is main's once the fork ended.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r075_a_further_message_comes_at_the_forks_boundary_killed() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let boundary = story.client.sabotage(Step::AgentsHook("PostToolBatch"), Killed::Unheard, 1);
    let message = further(&story);
    story.until_answered(&message);
    assert_eq!(boundary.killed(), 1);
    story.until_ended(&message, &["hand_back"]);
    assert_eq!(story.answers(&message), [forks("From the fork."), mains("From main.")]);
    assert_eq!(story.heard("And the wind?"), 1);
    until_turns_ended(&terminal, 2);
    story.quiet(3, 1);
    terminal.exit();
    story.settle();
}

/// A message that comes once the fork has answered and ended: the same agent goes on.
fn follow_up(story: &Story) -> Value {
    let message = story.write("Which colour is the door?");
    story.until_ended(&message, &["answer"]);
    story.say(&message, "And the window?");
    until("it is answered", LIMIT, || (story.answers(&message).len() == 2).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&message)));
    story.until_ended(&message, &["answer", "answer"]);
    let taken = story.entries(&message, "taken");
    assert_eq!(taken.len(), 2, "{taken:?}");
    let (first, second) = (&taken[0], &taken[1]);
    assert_ne!(first["turn"], second["turn"], "R40: a turn of its own");
    assert_eq!(story.agents(&message).len(), 1, "R89: {:#}", story.why(&message));
    assert_eq!(story.answers(&message), [forks("From the fork."), forks("From the fork.")]);
    let runs = story.requests(Who::Fork);
    let resumed = runs.iter().find(|request| request.text().contains("And the window?")).expect("it was told");
    assert!(resumed.conversation().contains("Which colour is the door?"), "R92: its whole history: {resumed:?}");
    assert!(resumed.text().contains("You may ask main"), "R92: {resumed:?}");
    message
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r087_r089_a_message_after_the_answer_goes_to_the_same_agent_and_its_end_costs_main_no_turn() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let message = follow_up(&story);
    assert_eq!(story.asked(Who::LineFork), 2);
    assert_eq!(story.entries(&message, "line").len(), 2);
    // The client's own notification of a resumed run is consumed (R87).
    story.quiet(1, 0);
    terminal.exit();
    story.settle();
}

/// The question about the follow-up dies before it did anything, and is put again.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r087_r089_a_message_after_the_answer_goes_to_the_same_agent_and_its_end_costs_main_no_turn_killed() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let message = story.write("Where is the ladder?");
    story.until_ended(&message, &["answer"]);
    let line = story.client.sabotage(Step::Command("fork line"), Killed::Before, 1);
    let message = follow_up(&story);
    assert_eq!(line.killed(), 1);
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    story.quiet(1, 0);
    terminal.exit();
    story.settle();
}

/// A fork is in a call when main answers over it.
fn answered_over(story: &Story, terminal: &Terminal<'_>) -> Value {
    story.cast.says(Who::Fork, [busy("fork"), reply("Late.")]);
    let message = story.write("Which colour is the door?");
    until_in(&story.client, "fork");
    let command = format!("leaf thread reply {} 'It is blue.'", id(&message, "id"));
    story.cast.says(Who::Main, [Reply::bash(command)]);
    terminal.say("tell them it is blue");
    until_turns_ended(terminal, 2);
    message
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r049_r058_main_answers_over_a_fork_and_its_late_reply_is_refused() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let message = answered_over(&story, &terminal);
    assert_eq!(story.answers(&message), [mains("It is blue.")]);
    let (error, said) = &story.results(Who::Main)[0];
    assert!(!error && said.contains("SendMessage") && said.contains("TaskStop"), "R63: how to stop it: {said}");
    let_go(&story.client, "fork");
    let (error, said) = story.result(Who::Fork, 1);
    assert!(error && said.contains("answered by another"), "{said}");
    let refused = story.entries(&message, "refused");
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(["R57", "R58"].contains(&id(&refused[0], "rule")), "{refused:?}");
    story.until_ended(&message, &["taken_over"]);
    assert_eq!(story.answers(&message), [mains("It is blue.")]);
    // Main's two prompts and its call; nothing for what the fork left (R85).
    story.quiet(3, 0);
    assert_eq!(story.heard("answered thread"), 0);
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    terminal.exit();
    story.settle();
}

/// Main's answer dies as it is made: the fork's stands.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r049_r058_main_answers_over_a_fork_and_its_late_reply_is_refused_killed() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let over = story.client.sabotage(Step::Command("thread reply"), Killed::Before, 1);
    let message = answered_over(&story, &terminal);
    assert_eq!(over.killed(), 1);
    let_go(&story.client, "fork");
    story.until_ended(&message, &["answer"]);
    assert_eq!(story.answers(&message), [forks("Late.")]);
    story.quiet(3, 0);
    terminal.exit();
    story.settle();
}

/// A fork hands back to an idle main.
fn handed_back(story: &Story) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [Reply::text("HAND BACK: the door is locked, and only main has the key.")]);
    let message = story.write("Which colour is the door inside?");
    story.until_answered(&message);
    until_turns_ended(&terminal, 2);
    story.until_ended(&message, &["hand_back"]);
    assert_eq!(story.answers(&message), [mains("From main.")]);
    let woken = story.request(Who::Main, 1);
    assert!(woken.text().contains("the door is locked, and only main has the key."), "{woken:?}");
    assert!(woken.text().contains("Which colour is the door inside?"), "as input: {woken:?}");
    assert_eq!(woken.references().len(), 1, "R64: {woken:?}");
    assert_eq!(story.heard("the door is locked"), 1);
    assert_eq!(story.heard("Which colour is the door inside?"), 1);
    story.quiet(3, 1);
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r084_a_hand_back_wakes_an_idle_main_once() {
    let story = Story::new();
    handed_back(&story);
    story.settle();
}

/// The end is recorded, and the module never hears what came of it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r084_a_hand_back_wakes_an_idle_main_once_killed() {
    let story = Story::new();
    let ended = story.client.sabotage(Step::Command("fork ended"), Killed::Unheard, 1);
    handed_back(&story);
    assert_eq!(ended.killed(), 1);
    story.settle();
}

/// A fork that finds the work bigger than a message answers and leaves a to-do.
fn left_a_todo(story: &Story) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [Reply::bash("leaf thread reply REF --todo 'Paint the door' 'It needs paint.'")]);
    let message = story.write("Is the door all right?");
    story.until_ended(&message, &["todo"]);
    until_turns_ended(&terminal, 2);
    assert_eq!(story.answers(&message), [forks("It needs paint.")]);
    let thread = story.thread(&message);
    assert_eq!(thread["status"], "todo", "{thread:#}");
    assert_eq!(thread["todos"][0]["title"], "Paint the door");
    assert_eq!(thread["todos"][0]["state"], "open");
    let woken = story.request(Who::Main, 1);
    assert!(woken.text().contains("Paint the door"), "{woken:?}");
    assert_eq!(story.heard("left to-do"), 1);
    // Woken once, and the Stop goes on once for what nobody started (R95).
    story.quiet(3, 1);
    assert_eq!(story.heard("Paint the door"), 2);
    assert_eq!(story.heard("that nobody started"), 1);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r083_a_to_do_of_a_fork_wakes_an_idle_main_once() {
    let story = Story::new();
    left_a_todo(&story);
    story.settle();
}

/// The provisional sign of the end is lost; the final one is enough.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r083_a_to_do_of_a_fork_wakes_an_idle_main_once_killed() {
    let story = Story::new();
    let stop = story.client.sabotage(Step::AgentsHook("SubagentStop"), Killed::Before, 1);
    left_a_todo(&story);
    assert_eq!(stop.killed(), 1);
    story.settle();
}

/// Two threads, two forks at the same time.
fn two_at_once(story: &Story) {
    let terminal = story.open_after_a_turn();
    story.cast.says_about(Who::Fork, "Where is the key?", [busy("key"), reply("Under the mat.")]);
    story.cast.says_about(Who::Fork, "Where is the ladder?", [busy("ladder"), reply("In the barn.")]);
    let key = story.write("Where is the key?");
    let ladder = story.write("Where is the ladder?");
    until_in(&story.client, "key");
    until_in(&story.client, "ladder");
    let running = story.open_turns(&key);
    assert_eq!(running.len(), 2, "{running:?}");
    // The younger ends first.
    let_go(&story.client, "ladder");
    story.until_answered(&ladder);
    story.until_ended(&ladder, &["answer"]);
    assert_eq!(story.thread(&key)["status"], "on_it");
    let_go(&story.client, "key");
    story.until_answered(&key);
    story.until_ended(&key, &["answer"]);
    assert_eq!(story.answers(&key), [forks("Under the mat.")]);
    assert_eq!(story.answers(&ladder), [forks("In the barn.")]);
    assert_ne!(story.agents(&key), story.agents(&ladder));
    assert_eq!(story.asked(Who::LineFork), 2);
    story.quiet(1, 0);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r074_two_threads_at_once_have_a_fork_each() {
    let story = Story::new();
    two_at_once(&story);
    story.settle();
}

/// The hook that says which agent was launched dies, for both: each is known by its meta.json or by the module.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r074_two_threads_at_once_have_a_fork_each_killed() {
    let story = Story::new();
    let launched = story.client.sabotage(Step::Hook("PostToolUse"), Killed::Before, 0);
    two_at_once(&story);
    assert!(launched.killed() >= 2, "{}", launched.killed());
    story.settle();
}

/// What the person writes in the client's own prompt, and what main's next request shows of it.
fn in_the_clients_prompt(story: &Story, busy_main: bool) {
    let terminal = story.open_after_a_turn();
    if busy_main {
        story.cast.says(Who::Main, [busy("one")]);
        terminal.say("look around");
        until_in(&story.client, "one");
    }
    terminal.say("/leaf Which colour is the 'door'?");
    let written = || events(story).into_iter().find(|event| event["kind"] == "message");
    let message = until("the message is written", LIMIT, written).unwrap_or_else(|late| panic!("{late}"));
    assert_eq!(message["text"], "Which colour is the 'door'?", "as it was typed: {message}");
    assert_eq!(message["author"], "user", "{message}");
    assert!(message["turn"].is_null(), "the person's: {message}");
    let thread = id(&message, "thread").to_owned();
    terminal.wait("the person is told the thread", |screen| screen.contains(&thread));
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    assert_eq!(story.asked(Who::Main), if busy_main { 2 } else { 1 }, "main was left alone");

    // A further message by the same way.
    terminal.say(&format!("/leaf @{thread} And the window?"));
    until("it is answered", LIMIT, || (story.answers(&message).len() == 2).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&message)));
    story.until_ended(&message, &["answer", "answer"]);
    assert_eq!(story.agents(&message).len(), 1);
    assert_eq!(story.asked(Who::Main), if busy_main { 2 } else { 1 }, "main was left alone");

    if busy_main {
        let_go(&story.client, "one");
        until_turns_ended(&terminal, 2);
        let said = story.requests(Who::Main).pop().expect("a request").conversation();
        assert!(
            !said.contains("Which colour is the 'door'?"),
            "nothing of it in the turn in which it was typed: {said}"
        );
    }
    terminal.say("any news");
    until_turns_ended(&terminal, if busy_main { 3 } else { 2 });
    let said = story.requests(Who::Main).pop().expect("a request").conversation();
    // With the next turn the client itself shows the model what was typed; leaf says that it isn't for main, each time once.
    for (text, args) in [
        ("Which colour is the 'door'?", "Which colour is the 'door'?".to_owned()),
        ("And the window?", format!("@{thread} And the window?")),
    ] {
        assert_eq!(said.matches(&format!("<command-args>{args}</command-args>")).count(), 1, "{said}");
        assert_eq!(said.matches(text).count(), 1, "{said}");
    }
    assert_eq!(said.matches("nothing of it is to be answered here").count(), 2, "{said}");
    story.quiet(if busy_main { 4 } else { 2 }, 0);
    terminal.exit();
}

/// The events of all pages' logs.
fn events(story: &Story) -> Vec<Value> {
    let logs = logs(&story.client);
    // A line that is being written isn't one yet.
    logs.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r071_the_person_writes_in_the_clients_own_prompt_while_main_is_idle() {
    let story = Story::new();
    in_the_clients_prompt(&story, false);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r071_the_person_writes_in_the_clients_own_prompt_while_main_is_busy() {
    let story = Story::new();
    in_the_clients_prompt(&story, true);
    story.settle();
}

/// The command that writes dies before it did anything: the person sees that nothing was written, and writes again.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r071_the_person_writes_in_the_clients_own_prompt_killed() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let new = story.client.sabotage(Step::Command("thread new"), Killed::Before, 1);
    terminal.say("/leaf Which colour is the door?");
    new.wait(1);
    terminal.wait("that it failed", |screen| screen.contains("leaf:") && screen.contains("not written"));
    assert_eq!(events(&story), [json!(null); 0]);
    terminal.say("/leaf Which colour is the door?");
    let written = || events(&story).into_iter().find(|event| event["kind"] == "message");
    let message = until("the message is written", LIMIT, written).unwrap_or_else(|late| panic!("{late}"));
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    story.quiet(1, 0);
    terminal.exit();
    story.settle();
}

/// What is the same in two requests up to their messages, and how many messages are.
fn common(one: &Request, other: &Request) -> usize {
    let without = |request: &Request| {
        let mut body = request.body.clone();
        body["messages"] = json!([]);
        body
    };
    assert_eq!(without(one), without(other), "tools, system and all else");
    let same = one.messages.iter().zip(&other.messages).take_while(|(one, other)| one == other);
    same.count()
}

/// How many bytes two texts begin with in common.
fn common_bytes(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// What two forks of each kind are sent, from a session whose conversation stands still.
fn requests_of_two(story: &Story, questions: usize) {
    let terminal = story.open_after_a_turn();
    story.cast.says_about(Who::Fork, "Where is the key?", [busy("key")]);
    story.cast.says_about(Who::Fork, "Where is the ladder?", [busy("ladder")]);
    let key = story.write("Where is the key?");
    until_in(&story.client, "key");
    let ladder = story.write("Where is the ladder?");
    until_in(&story.client, "ladder");

    let asked = story.requests(Who::LineFork);
    assert_eq!(asked.len(), questions, "{asked:?}");
    for other in &asked[1..] {
        let (first, last) = (&asked[0], asked[0].messages.len() - 1);
        assert_eq!(other.messages.len(), last + 1);
        assert_eq!(common(first, other), last, "but for their last message");
        let same = common_bytes(&first.last(), &other.last());
        assert!(first.last()[same..].len() < 600, "what differs comes last: {}", &first.last()[same..]);
    }

    let (one, other) = (story.request(Who::Fork, 0), story.request(Who::Fork, 1));
    let same = common(&one, &other);
    // The first that differs is the client's own Agent call, and all before it is main's conversation.
    let call = &one.messages[same];
    assert_eq!(call["role"], "assistant", "{call:#}");
    assert!(call.to_string().contains("\"name\":\"Agent\""), "{call:#}");
    let mains = story.request(Who::Main, 0).messages.len();
    assert!(same >= mains, "{same} of {mains}");
    let directive = |request: &Request| {
        let text = request.text();
        let at = text.rfind("You are a fork of this session").expect("leaf's prompt");
        text[at..].to_owned()
    };
    let (one, other) = (directive(&one), directive(&other));
    let same = common_bytes(&one, &other);
    assert!(one[..same].contains("Scratch directory:"), "what differs comes last: {}", &one[same..]);
    assert!(one.contains("Where is the key?") && other.contains("Where is the ladder?"));

    for (name, message) in [("key", &key), ("ladder", &ladder)] {
        let_go(&story.client, name);
        story.until_ended(message, &["answer"]);
    }
    story.quiet(1, 0);
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r121_what_differs_between_two_forks_comes_last() {
    let story = Story::new();
    requests_of_two(&story, 2);
    story.settle();
}

/// A question that is put again, because the first answer to it died, is the same up to there, too.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r121_what_differs_between_two_forks_comes_last_killed() {
    let story = Story::new();
    // As often as the module itself tries.
    let line = story.client.sabotage(Step::Command("fork line"), Killed::Before, 3);
    requests_of_two(&story, 3);
    assert_eq!(line.killed(), 3);
    story.settle();
}

/// The session's threads in one line under the prompt.
fn the_status_line(story: &Story, mid: impl FnOnce()) {
    let terminal = story.open_after_a_turn();
    let shows = |text: &str| {
        let shown = format!("leaf: {text}");
        terminal.wait(&shown, |screen| screen.contains(&shown));
    };
    story.cast.says_about(Who::Fork, "Where is the key?", [busy("key")]);
    story.cast.says_about(Who::Fork, "Where is the ladder?", [busy("ladder")]);
    let key = story.write("Where is the key?");
    until_in(&story.client, "key");
    shows("1 on it");
    mid();
    let ladder = story.write("Where is the ladder?");
    until_in(&story.client, "ladder");
    shows("2 on it");
    let_go(&story.client, "ladder");
    story.until_ended(&ladder, &["answer"]);
    shows("1 on it");
    let_go(&story.client, "key");
    story.until_ended(&key, &["answer"]);
    terminal.wait("the line says nothing of work", |screen| !screen.contains(" on it"));
    assert_eq!(story.asked(Who::Main), 1, "it costs main nothing");
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r018_one_line_under_the_prompt_shows_the_threads() {
    let story = Story::new();
    the_status_line(&story, || ());
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r018_one_line_under_the_prompt_shows_the_threads_killed() {
    let story = Story::new();
    the_status_line(&story, || {
        let dead = story.client.followers();
        assert_eq!(dead.len(), 1, "{:?}", story.client.processes());
        story.client.kill(dead[0]);
        let another = || story.client.followers().first().copied().filter(|pid| *pid != dead[0]);
        until("a follower is back", LIMIT, another).unwrap_or_else(|late| panic!("{late}"));
        story.until_followed();
    });
    story.settle();
}
