//! Lives of a fork that nobody planned: it rests, is steered, typed to, stopped, fails, never reports, has helpers, is refused.
//!
//! The forks are started by the real hooks module. Each story has twins in which the step that carries it is killed.

use std::fs;

use serde_json::{Value, json};

use crate::LIMIT;
use crate::cast::{Who, busy, let_go, until_in};
use crate::client::{Client, Killed, Sabotage, Step, Terminal, until};
use crate::model::{Gate, Reply};
use crate::story::{RULES, SESSION, Story, id};

/// An answer, as [`Story::answers`] tells it.
pub fn by(who: &str, text: &str) -> (String, String) {
    (who.to_owned(), text.to_owned())
}

/// Waits until the thread's fork is named: its agent.
pub fn agent(story: &Story, message: &Value) -> String {
    until("the fork is named", LIMIT, || story.agents(message).pop())
        .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(message)))
}

/// The page's turns of that agent, newest first.
pub fn turns(story: &Story, message: &Value, agent: &str) -> Vec<Value> {
    let state = story.client.json(&["page", "state", id(message, "thread")]);
    let turns = state["turns"].as_array().expect("turns").iter();
    turns.filter(|turn| turn["agent_id"] == agent).cloned().collect()
}

/// Leaves once the client says that no agent runs any more: else it asks what is to become of it.
pub fn leave(terminal: Terminal<'_>) {
    let over = |line: &str| ["stopped", "failed", "idle"].iter().any(|word| line.contains(word));
    terminal.wait("every agent has ended", |screen| {
        screen.lines().all(|line| !(line.contains("◯ leaf-") || line.contains("◯ fork")) || over(line))
    });
    terminal.exit();
}

/// Waits until the holder of the thread is in that state.
fn until_holder(story: &Story, message: &Value, state: &str) {
    story.until(&format!("its holder is {state}"), message, |thread| thread["holder"]["state"] == state);
}

/// A call in the background that goes on until the test lets it end.
pub fn in_background(name: &str) -> Reply {
    Reply::call(
        "Bash",
        json!({
            "command": format!(
                "python3 -c 'import os,time;open(\"{name}.busy\",\"w\").close();[time.sleep(0.05) for _ in range(1200) if not \
                 os.path.exists(\"{name}.go\")]'"
            ),
            "description": "scripted",
            "run_in_background": true,
        }),
    )
}

/// What main does to reach an agent: the tool is loaded first.
fn sends(to: &str, text: &str) -> [Reply; 2] {
    [
        Reply::call("ToolSearch", json!({"query": "select:SendMessage"})),
        Reply::call("SendMessage", json!({"to": to, "summary": "a word", "message": text})),
    ]
}

/// Asserts what the thread's answers are, that no turn is left open, and that the model's main was asked and woken so often.
fn ends(story: &Story, message: &Value, answers: &[(String, String)], asked: usize, wakes: usize) {
    story.quiet(asked, wakes);
    assert_eq!(story.answers(message), answers, "{:#}", story.why(message));
    assert_eq!(story.open_turns(message), [json!(null); 0], "{:#}", story.why(message));
    let thread = story.thread(message);
    assert_eq!((&thread["status"], &thread["waiting"]), (&json!("answered"), &json!([])), "{thread:#}");
}

/// A clock that the test moves; it stands still otherwise.
pub struct Clock<'c>(&'c Client);

impl<'c> Clock<'c> {
    const FILE: &'static str = "now";

    /// A story whose clock stands at the full hour.
    pub fn stopped(story: Story) -> Story {
        let now = format!("@{}", story.client.path(Self::FILE).display());
        Clock(&story.client).set(0, 0);
        story.with("LEAF_NOW", now)
    }

    pub fn of(story: &'c Story) -> Self {
        Self(&story.client)
    }

    pub fn set(&self, minutes: u32, seconds: u32) {
        let now = format!("2031-05-04T10:{minutes:02}:{seconds:02}Z");
        // A half-written time would be none.
        fs::write(self.0.path("next"), now).expect("a file");
        fs::rename(self.0.path("next"), self.0.path(Self::FILE)).expect("a clock");
    }
}

/// Opens a terminal in which a fork has a shell of its own, and stops once the gate is open.
fn with_a_shell<'s>(story: &'s Story, gate: &Gate) -> (Terminal<'s>, Value) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [in_background("shell"), Reply::text("It takes a while.").behind(gate)]);
    let message = story.write("How does the long run end?");
    until_in(&story.client, "shell");
    story.request(Who::Fork, 1);
    (terminal, message)
}

/// Opens a terminal in which a fork rests on a shell of its own.
fn at_rest(story: &Story) -> (Terminal<'_>, Value) {
    let gate = Gate::default();
    let (terminal, message) = with_a_shell(story, &gate);
    gate.open();
    until_holder(story, &message, "resting");
    (terminal, message)
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r080_a_fork_that_waits_for_its_own_shell_rests_and_goes_on_in_its_turn() {
    let story = Story::new();
    let (terminal, message) = at_rest(&story);
    assert_eq!(story.thread(&message)["status"], "on_it");
    let agent = agent(&story, &message);

    let_go(&story.client, "shell");
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    assert_eq!(turns(&story, &message, &agent).len(), 1, "it went on in its turn");
    let resumed = &story.requests(Who::Fork)[2];
    assert!(resumed.text().contains("Background command"), "the client resumed it: {resumed:?}");
    ends(&story, &message, &[by("fork", "From the fork.")], 1, 0);

    // Main hears of it once, with its next prompt, and not from the client besides (R82, R87).
    terminal.say("anything new");
    let heard = story.request(Who::Main, 1);
    assert_eq!(heard.text().matches("answered thread").count(), 1, "{heard:?}");
    assert!(!heard.text().contains("<task-notification>"), "{heard:?}");
    story.quiet(2, 0);
    leave(terminal);
    story.settle();
}

/// Nobody heard that it rests: its report ends its turn, main answers, and the fork that wakes later is refused.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r080_a_fork_that_waits_for_its_own_shell_killed() {
    let story = Story::new();
    let gate = Gate::default();
    let (terminal, message) = with_a_shell(&story, &gate);
    let stop = story.client.sabotage(Step::AgentsHook("SubagentStop"), Killed::Before, 1);
    gate.open();
    stop.wait(1);
    story.until_ended(&message, &["hand_back"]);
    story.until_answered(&message);
    let_go(&story.client, "shell");
    let (refused, why) = story.result(Who::Fork, 1);
    assert!(refused && why.contains("answered by another"), "{why}");
    until_told(&story);
    // A prompt, the thread and its answer, and what the client tells of a run that it started.
    ends(&story, &message, &[by("main", "From main.")], 4, 2);
    leave(terminal);
    story.settle();
}

/// Nobody heard that it goes on: its own call says so.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r080_a_fork_that_goes_on_after_its_rest_killed() {
    let story = Story::new();
    let (terminal, message) = at_rest(&story);
    let start = story.client.sabotage(Step::AgentsHook("SubagentStart"), Killed::Before, 1);
    let_go(&story.client, "shell");
    start.wait(1);
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    ends(&story, &message, &[by("fork", "From the fork.")], 1, 0);
    leave(terminal);
    story.settle();
}

/// Main sends a word to a fork that sits in a call.
fn steered(story: &Story, sabotage: impl FnOnce(&Story) -> Vec<Sabotage>) -> (Terminal<'_>, Value) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.write("How many stairs are there?");
    until_in(&story.client, "fork");
    let sabotage = sabotage(story);
    story.cast.says(Who::Main, sends(&agent(story, &message), "COUNT FROM BELOW"));
    terminal.say("tell it");
    story.until_answered(&message);
    let told = story.requests(Who::Fork);
    assert!(told[1].text().contains("COUNT FROM BELOW"), "with its next request: {told:?}");
    for sabotage in sabotage {
        sabotage.wait(1);
    }
    (terminal, message)
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r080_main_steers_a_running_fork_and_it_rests_on_the_call_that_it_was_in() {
    let story = Story::new();
    let (terminal, message) = steered(&story, |_| Vec::new());
    until_holder(&story, &message, "resting");
    assert_eq!(story.ends(&message), [""; 0], "its call still runs");
    let_go(&story.client, "fork");
    story.until_ended(&message, &["answer"]);
    // Its prompt, the two calls, and the end.
    ends(&story, &message, &[by("fork", "From the fork.")], 4, 0);
    leave(terminal);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r080_main_steers_a_running_fork_killed() {
    let story = Story::new();
    let (terminal, message) = steered(&story, |story| {
        vec![
            story.client.sabotage(Step::MainsHook("PostToolUse"), Killed::Before, 1),
            story.client.sabotage(Step::AgentsHook("SubagentStop"), Killed::Before, 1),
        ]
    });
    // Nobody heard that it rests.
    story.until_ended(&message, &["answer"]);
    let_go(&story.client, "fork");
    until_told(&story);
    ends(&story, &message, &[by("fork", "From the fork.")], 5, 1);
    leave(terminal);
    story.settle();
}

/// A fork has answered and ended.
fn answered(story: &Story) -> (Terminal<'_>, Value, String) {
    let terminal = story.open_after_a_turn();
    let message = story.write("Where is the well?");
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    let agent = agent(story, &message);
    (terminal, message, agent)
}

/// Waits until the client tells main of a run that leaf did not start.
fn until_told(story: &Story) {
    until("main is told", LIMIT, || (story.heard("<task-notification>") == 1).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.requests(Who::Main)));
}

/// Waits until a run that leaf did not start has ended, judged by what it wrote: no answer to a message (R45).
fn until_void(story: &Story, message: &Value, agent: &str) {
    until("its run has ended", LIMIT, || {
        let turns = turns(story, message, agent);
        (turns.len() == 2 && turns[0]["outcome"] == "void").then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:#?}", turns(story, message, agent)));
}

/// What a fork that somebody resumed says in the thread that it answered.
fn once_more(message: &Value) -> Reply {
    Reply::bash(format!("leaf thread reply {} 'Behind the barn.' --unasked", id(message, "thread")))
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r045_main_sends_to_a_fork_that_has_ended_and_it_writes_in_a_turn_of_its_own() {
    let story = Story::new();
    let (terminal, message, agent) = answered(&story);
    story.cast.says(Who::Main, sends(&agent, "SAY WHERE EXACTLY"));
    story.cast.says(Who::Fork, [once_more(&message)]);
    terminal.say("ask it");
    until_void(&story, &message, &agent);
    assert_eq!(story.answers(&message), [by("fork", "From the fork."), by("fork", "Behind the barn.")]);
    // Main started that run, and the client tells it of its end.
    until_told(&story);
    ends(&story, &message, &[by("fork", "From the fork."), by("fork", "Behind the barn.")], 5, 1);
    leave(terminal);
    story.settle();
}

/// Nobody heard of its run: it has no turn to write in, and says so.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r045_main_sends_to_a_fork_that_has_ended_killed() {
    let story = Story::new();
    let (terminal, message, agent) = answered(&story);
    let start = story.client.sabotage(Step::AgentsHook("SubagentStart"), Killed::Before, 1);
    story.cast.says(Who::Main, sends(&agent, "SAY WHERE EXACTLY"));
    story.cast.says(Who::Fork, [once_more(&message)]);
    terminal.say("ask it");
    start.wait(1);
    let (denied, why) = story.result(Who::Fork, 1);
    assert!(denied && why.contains("R68"), "{why}");
    terminal.wait("main's last words", |screen| screen.matches("that is all from Main").count() == 2);
    story.request(Who::Fork, 3);
    assert_eq!(story.answers(&message), [by("fork", "From the fork.")]);
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    leave(terminal);
    story.settle();
}

/// Opens the newest fork in the terminal: what is typed now goes to it.
fn view_fork(terminal: &Terminal<'_>) {
    terminal.press(&["Down", "Down"]);
    terminal.wait("the fork is chosen", |screen| screen.contains("enter to view"));
    terminal.press(&["Enter"]);
    terminal.wait("its own view", |screen| screen.contains("Message @leaf-"));
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r045_the_user_types_to_a_fork_while_it_runs_and_after_it_ended() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.write("Who has the ladder?");
    until_in(&story.client, "fork");
    view_fork(&terminal);
    terminal.say("LOOK IN THE SHED");
    terminal.wait("it is queued", |screen| screen.contains("1 queued"));
    let_go(&story.client, "fork");
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    let told = story.request(Who::Fork, 1);
    assert!(told.text().contains("LOOK IN THE SHED"), "{told:?}");
    story.quiet(1, 0);

    let agent = agent(&story, &message);
    story.cast.says(Who::Fork, [once_more(&message)]);
    terminal.say("SAY IT ONCE MORE");
    until_void(&story, &message, &agent);
    until_told(&story);
    ends(&story, &message, &[by("fork", "From the fork."), by("fork", "Behind the barn.")], 2, 1);
    // The user closes the window: `/exit` would be for the fork here.
    drop(terminal);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r045_the_user_types_to_a_fork_after_it_ended_killed() {
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.write("Who has the ladder?");
    until_in(&story.client, "fork");
    view_fork(&terminal);
    let_go(&story.client, "fork");
    story.until_ended(&message, &["answer"]);
    let start = story.client.sabotage(Step::AgentsHook("SubagentStart"), Killed::Before, 1);
    story.cast.says(Who::Fork, [once_more(&message)]);
    terminal.say("SAY IT ONCE MORE");
    start.wait(1);
    let (denied, why) = story.result(Who::Fork, 2);
    assert!(denied && why.contains("R68"), "{why}");
    assert_eq!(story.answers(&message), [by("fork", "From the fork.")]);
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    terminal.wait("the fork's last words", |screen| screen.matches("that is all from Fork").count() == 2);
    drop(terminal);
    story.settle();
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

/// Asserts that the fork was stopped, that its thread came back to main, which was woken for it once if it was idle, and answered.
fn came_back(story: &Story, message: &Value, asked: usize, wakes: usize) {
    story.until_ended(message, &["hand_back"]);
    story.until_answered(message);
    ends(story, message, &[by("main", "From main.")], asked, wakes);
    assert_eq!(story.asked(Who::Fork), 1, "the fork was asked no more: {:?}", story.requests(Who::Fork));
    assert_eq!(story.heard("handed thread"), 1, "R84: once");
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r084_the_user_stops_a_fork_in_the_terminal() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    stop_in_terminal(&terminal);
    came_back(&story, &message, 3, 1);
    leave(terminal);
    story.settle();
}

fn stop_in_terminal(terminal: &Terminal<'_>) {
    terminal.press(&["Down", "Down"]);
    terminal.wait("the fork is chosen", |screen| screen.contains("x to stop"));
    terminal.press(&["x"]);
    terminal.wait("it is stopped", |screen| screen.contains("stopped"));
    terminal.press(&["Escape"]);
}

/// The module's first report is lost.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r084_the_user_stops_a_fork_in_the_terminal_killed() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    let report = story.client.sabotage(Step::Command("fork ended"), Killed::Before, 1);
    stop_in_terminal(&terminal);
    report.wait(1);
    came_back(&story, &message, 3, 1);
    leave(terminal);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r122_a_person_stops_a_fork_from_another_terminal() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    let agent = agent(&story, &message);
    let name = format!("leaf-{}", id(&message, "thread"));
    let stopped = story.client.json(&["fork", "stop", &name]);
    assert_eq!((&stopped["outcome"], &stopped["agent_id"]), (&json!("hand_back"), &json!(agent)), "{stopped}");
    terminal.wait("the client stopped it", |screen| screen.contains("stopped"));
    came_back(&story, &message, 3, 1);
    let ended = &story.entries(&message, "ended")[0];
    assert_eq!((&ended["evidence"], &ended["why"]), (&json!("task_stop"), &json!("it was stopped")), "{ended}");
    leave(terminal);
    story.settle();
}

/// The follower that was to print the stop is killed: the next one does.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r122_a_person_stops_a_fork_from_another_terminal_killed() {
    let story = Story::new();
    let (terminal, message) = in_a_call(&story);
    kill(&story.client.followers());
    let name = format!("leaf-{}", id(&message, "thread"));
    story.client.json(&["fork", "stop", &name]);
    terminal.wait("the client stopped it", |screen| screen.contains("stopped"));
    came_back(&story, &message, 3, 1);
    leave(terminal);
    story.settle();
}

/// Kills processes as nothing can be caught.
pub fn kill(pids: &[i32]) {
    assert!(!pids.is_empty(), "there is something to kill");
    for pid in pids {
        let pid = rustix::process::Pid::from_raw(*pid).expect("a pid");
        // It may have left by itself meanwhile.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn stopped_by_main(story: &Story, step: Option<Step<'_>>) {
    let (terminal, message) = in_a_call(story);
    let sabotage = step.map(|step| story.client.sabotage(step, Killed::Before, 1));
    let agent = agent(story, &message);
    story.cast.says(Who::Main, [Reply::call("TaskStop", json!({"task_id": agent}))]);
    terminal.say("stop it");
    story.until_ended(&message, &["hand_back"]);
    story.until_answered(&message);
    // Handed to it in the same turn: its prompt, the call, the answer, the end. Without the hook the boundary may come before the
    // report: then the turn's Stop does it.
    let at_stop = story.heard("Stop hook additional context");
    assert!(at_stop == 0 || matches!(step, Some(Step::MainsHook(_))), "{:?}", story.requests(Who::Main));
    came_back(story, &message, 4 + at_stop, 0);
    let (error, said) = &story.results(Who::Main)[0];
    assert!(!error, "{said}");
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_main_stops_a_fork_and_has_its_message_in_the_same_turn() {
    let story = Story::new();
    stopped_by_main(&story, None);
    story.settle();
}

/// The hook tells what the report would have.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_main_stops_a_fork_report_killed() {
    let story = Story::new();
    stopped_by_main(&story, Some(Step::Command("fork ended")));
    story.settle();
}

/// The report tells what the hook would have.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_main_stops_a_fork_hook_killed() {
    let story = Story::new();
    stopped_by_main(&story, Some(Step::MainsHook("PostToolUse")));
    story.settle();
}

/// A fork whose requests all fail. The client tries a few times.
fn failing(story: &Story) -> (Terminal<'_>, Value) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, std::iter::repeat_with(|| Reply::failure(400, "scripted")).take(20));
    let message = story.write("What does the bell mean?");
    (terminal, message)
}

fn failed(story: &Story, message: &Value) -> Value {
    story.until_ended(message, &["hand_back"]);
    story.until_answered(message);
    ends(story, message, &[by("main", "From main.")], 3, 1);
    assert_eq!(story.heard("handed thread"), 1, "R84: once");
    story.entries(message, "ended").remove(0)
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_an_api_error_in_a_fork_hands_its_thread_back() {
    let story = Story::new();
    let (terminal, message) = failing(&story);
    let ended = failed(&story, &message);
    // The module's report may be there before the hook; it doesn't know what failed.
    let why = ended["why"].as_str().expect("a reason");
    assert!(
        ended["evidence"] == "module" || (ended["evidence"] == "stop_failure" && why.contains("scripted")),
        "{ended}"
    );
    leave(terminal);
    story.settle();
}

/// The module's report says what the hook would have.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_an_api_error_in_a_fork_killed() {
    let story = Story::new();
    let hook = story.client.sabotage(Step::AgentsHook("StopFailure"), Killed::Before, 1);
    let (terminal, message) = failing(&story);
    hook.wait(1);
    let ended = failed(&story, &message);
    assert_eq!(ended["evidence"], "module", "{ended}");
    leave(terminal);
    story.settle();
}

/// Each of its reports is lost. Its stop alone ends nothing while a follower could report (R78); fifteen minutes of silence do.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_a_fork_that_never_reports_loses_its_thread_after_fifteen_minutes_killed() {
    let story = Clock::stopped(Story::new());
    let report = story.client.sabotage(Step::Command("fork ended"), Killed::Before, 0);
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [Reply::text("I forgot what for.")]);
    let message = story.write("Is the bridge open?");
    report.wait(1);
    until_ending(&story, &message);
    Clock::of(&story).set(2, 0);
    story.quiet(1, 0);
    assert_eq!(story.thread(&message)["holder"]["state"], "running");

    Clock::of(&story).set(17, 0);
    story.until_answered(&message);
    story.quiet(3, 1);
    assert_eq!(story.answers(&message), [by("main", "From main.")]);
    leave(terminal);
    story.settle();
}

/// Waits until its stop was heard of.
fn until_ending(story: &Story, message: &Value) {
    let agent = agent(story, message);
    let heard = || {
        let sessions = fs::read_dir(story.client.path("home/.local/state/leaf/sessions")).ok()?;
        let journals =
            sessions.flatten().filter_map(|session| fs::read_to_string(session.path().join("journal.jsonl")).ok());
        journals
            .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
            .find(|line| line.contains("\"kind\":\"ending\"") && line.contains(&agent))
    };
    until("its stop was heard of", LIMIT, heard).unwrap_or_else(|late| panic!("{late}"));
}

/// Neither a report nor a follower that could bring one: a minute after its stop the turn ends, and the watch wakes main.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r078_a_fork_that_stopped_without_a_follower_ends_after_a_minute_killed() {
    let story = Clock::stopped(Story::new());
    let report = story.client.sabotage(Step::Command("fork ended"), Killed::Before, 0);
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [busy("fork"), Reply::text("I forgot what for.")]);
    let message = story.write("Is the bridge open?");
    until_in(&story.client, "fork");
    let follower = story.client.sabotage(Step::Command("follow"), Killed::Before, 0);
    kill(&story.client.followers());
    let_go(&story.client, "fork");
    report.wait(1);
    follower.wait(1);
    until_ending(&story, &message);
    Clock::of(&story).set(0, 50);
    story.quiet(1, 0);

    Clock::of(&story).set(1, 5);
    story.until_ended(&message, &["hand_back"]);
    story.until_answered(&message);
    ends(&story, &message, &[by("main", "From main.")], 3, 1);
    let ended = &story.entries(&message, "ended")[0];
    assert_eq!(ended["evidence"], "subagent_stop", "{ended}");
    leave(terminal);
    story.settle();
}

/// Plays a fork whose helper answers.
fn with_a_helper(story: &Story, sabotage: Option<Step<'_>>) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [busy("fork")]);
    let message = story.write("How far is it?");
    until_in(&story.client, "fork");
    let sabotage = sabotage.map(|step| story.client.sabotage(step, Killed::Before, 1));
    let reference = story.request(Who::Fork, 0).references().pop().expect("it was handed a message");
    let helper = format!("HELPER: answer by {reference}");
    story.cast.says(
        Who::Fork,
        [Reply::agent("general-purpose", "measure it", &helper, false), Reply::text("It says four miles.")],
    );
    story.cast.says(Who::Helper, [Reply::bash(format!("leaf thread reply {reference} 'Four miles.'"))]);
    let_go(&story.client, "fork");
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    let (error, said) = story.result(Who::Helper, 0);
    assert!(!error, "{said}");
    ends(story, &message, &[by("fork", "Four miles.")], 1, 0);
    let thread = story.thread(&message);
    let answer = thread["messages"].as_array().expect("messages").last().expect("an answer");
    let turn = &turns(story, &message, &agent(story, &message))[0]["turn"];
    assert_eq!(&answer["turn"], turn, "in the fork's own turn: {answer}");
    if let Some(sabotage) = sabotage {
        assert_eq!(sabotage.killed(), 1);
    }
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r116_a_helper_of_a_fork_answers_in_the_forks_turn() {
    let story = Story::new();
    with_a_helper(&story, None);
    story.settle();
}

/// Nobody heard that the helper began: its first call tells whose it is.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r116_a_helper_of_a_fork_killed() {
    let story = Story::new();
    with_a_helper(&story, Some(Step::AgentsHook("SubagentStart")));
    story.settle();
}

/// Two threads where the client lets one agent run.
fn refused(story: &Story) -> (Terminal<'_>, Value, Value) {
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Fork, [busy("fork")]);
    let first = story.write("Which door is it?");
    until_in(&story.client, "fork");
    let second = story.write("And which key?");
    (terminal, first, second)
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r031_a_start_that_the_client_refuses_hands_the_thread_back() {
    let story = Story::new().with("CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS", "1");
    let (terminal, first, second) = refused(&story);
    story.until_answered(&second);
    assert_eq!(story.answers(&second), [by("main", "From main.")]);
    let_go(&story.client, "fork");
    story.until_answered(&first);
    story.until_ended(&first, &["answer"]);
    ends(&story, &first, &[by("fork", "From the fork.")], 3, 1);
    assert_eq!(story.ends(&second), ["hand_back"]);
    let ended = &story.entries(&second, "ended")[0];
    assert_eq!(ended["evidence"], "failed", "{ended}");
    assert!(ended["why"].as_str().is_some_and(|why| why.contains("refused")), "it says why: {ended}");
    leave(terminal);
    story.settle();
}

/// Nobody heard that it was refused, and the follower says it again after ten seconds.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r031_a_start_that_the_client_refuses_killed() {
    let story = Story::new().with("CLAUDE_CODE_MAX_CONCURRENT_SUBAGENTS", "1");
    let report = story.client.sabotage(Step::Command("fork ended --turn"), Killed::Before, 1);
    let (terminal, first, second) = refused(&story);
    report.wait(1);
    story.until_answered(&second);
    let_go(&story.client, "fork");
    story.until_answered(&first);
    story.until_ended(&first, &["answer"]);
    story.quiet(3, 1);
    assert_eq!(story.answers(&second), [by("main", "From main.")]);
    leave(terminal);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r117_where_the_client_lets_nobody_fork_the_message_is_mains_at_once() {
    let story = Story::new().with("CLAUDE_CODE_FORK_SUBAGENT", "0");
    let terminal = story.open_after_a_turn();
    let message = story.write("Which colour is the roof?");
    story.until_answered(&message);
    assert_eq!(story.entries(&message, "line").len(), 1, "first words all the same: {:#}", story.why(&message));
    let handed = story.entries(&message, "handed");
    assert!(handed[0]["why"].is_string(), "the journal says why: {handed:?}");
    ends(&story, &message, &[by("main", "From main.")], 3, 1);
    assert_eq!(story.asked(Who::Fork), 0);
    leave(terminal);
    story.settle();
}

/// Another plugin, that lets nobody send to an agent: its directory.
fn another_plugin(client: &Client) -> String {
    let plugin = client.path("other");
    for dir in [".claude-plugin", "hooks"] {
        fs::create_dir_all(plugin.join(dir)).expect("a directory");
    }
    let manifest = json!({"name": "other", "version": "0.0.1", "description": "Lets nobody send."});
    fs::write(plugin.join(".claude-plugin/plugin.json"), manifest.to_string()).expect("a file");
    let denied = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "NOBODY SENDS"}});
    let hook = json!({"type": "command", "command": format!("echo '{denied}'")});
    let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "SendMessage", "hooks": [hook]}]}});
    fs::write(plugin.join("hooks/hooks.json"), hooks.to_string()).expect("a file");
    plugin.to_str().expect("UTF-8").to_owned()
}

/// A fork has answered, and the user writes again where the client does not resume it.
fn asked_again(story: &Story) -> (Terminal<'_>, Value) {
    let other = another_plugin(&story.client);
    let terminal = story.client.open(&["--session-id", SESSION, "--allowedTools", RULES, "--plugin-dir", &other]);
    story.until_followed();
    terminal.say("hello there");
    terminal.wait("the reply", |screen| screen.contains("that is all from Main"));
    let message = story.write("Where is the well?");
    story.until_answered(&message);
    story.until_ended(&message, &["answer"]);
    story.say(&message, "AND HOW DEEP IS IT?");
    (terminal, message)
}

fn left_to_main(story: &Story, terminal: Terminal<'_>, message: &Value) {
    story.until_ended(message, &["answer", "hand_back"]);
    story.until_answered(message);
    ends(story, message, &[by("fork", "From the fork."), by("main", "From main.")], 3, 1);
    let ended = &story.entries(message, "ended").into_iter().rfind(|end| end["by"] == "fork").expect("an end");
    assert_eq!(ended["evidence"], "failed", "{ended}");
    assert!(ended["why"].as_str().is_some_and(|why| why.contains("NOBODY SENDS")), "it says why: {ended}");
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r091_a_fork_that_the_client_does_not_resume_leaves_the_thread_to_main() {
    let story = Story::new();
    let (terminal, message) = asked_again(&story);
    left_to_main(&story, terminal, &message);
    story.settle();
}

/// Nobody heard that it was not resumed.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r091_a_fork_that_the_client_does_not_resume_killed() {
    let story = Story::new();
    let report = story.client.sabotage(Step::Command("fork ended --turn"), Killed::Before, 1);
    let (terminal, message) = asked_again(&story);
    report.wait(1);
    left_to_main(&story, terminal, &message);
    story.settle();
}

/// Nobody heard the line fork: it is asked again.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r117_where_the_client_lets_nobody_fork_killed() {
    let story = Story::new().with("CLAUDE_CODE_FORK_SUBAGENT", "0");
    let line = story.client.sabotage(Step::Command("fork line"), Killed::Before, 1);
    let terminal = story.open_after_a_turn();
    let message = story.write("Which colour is the roof?");
    line.wait(1);
    story.until_answered(&message);
    ends(&story, &message, &[by("main", "From main.")], 3, 1);
    assert_eq!((story.entries(&message, "line").len(), story.asked(Who::Fork)), (1, 0));
    leave(terminal);
    story.settle();
}

/// Main sends a word to a fork that has ended, and while that run is at it the user writes again in the thread.
fn taken_into_its_run(story: &Story) {
    let (terminal, message, agent) = answered(story);
    story.cast.says(Who::Fork, [busy("fork")]);
    story.cast.says(Who::Main, sends(&agent, "MEASURE IT"));
    terminal.say("send it");
    until_in(&story.client, "fork");
    let again = story.say(&message, "AND HOW DEEP IS IT?");
    story.until("the run has it", &message, |thread| {
        thread["holder"]["agent_id"] == agent.as_str() && thread["waiting"] == json!([again["id"]])
    });
    let_go(&story.client, "fork");
    story.until_answered(&message);
    until("its run has ended", LIMIT, || {
        let turns = turns(story, &message, &agent);
        (turns.len() == 2 && turns[0]["outcome"] == "answer").then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:#}", story.why(&message)));
    assert_eq!(story.answers(&message), [by("fork", "From the fork."), by("fork", "From the fork.")]);
    assert_eq!(story.open_turns(&message), [json!(null); 0]);
    assert_eq!(story.heard("AND HOW DEEP IS IT?"), 0, "never main's input");
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r045_a_take_goes_into_the_run_that_its_agent_is_at() {
    let story = Story::new();
    taken_into_its_run(&story);
    story.settle();
}

/// What is to be done was heard by nobody at first.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn r045_a_take_goes_into_the_run_that_its_agent_is_at_killed() {
    let story = Story::new();
    let line = story.client.sabotage(Step::Command("fork started"), Killed::Before, 2);
    taken_into_its_run(&story);
    line.wait(1);
    story.settle();
}
