//! Scheduled forks (issue 6): copies of the conversation that run at moments nobody has to think of, beside a session that never sees
//! them and gets their reports with its next prompt.

use std::fs;

use serde_json::{Value, json};

use crate::LIMIT;
use crate::cast::{Cast, Who, busy, let_go, until_in};
use crate::client::{Client, Killed, Step, Terminal, until};
use crate::lives::{Clock, in_background, kill, leave};
use crate::model::{Gate, Reply, Request};
use crate::story::{RULES, SESSION, Story, id};
use crate::ways::{asked_to_start, copies, kept_sessions};

/// How a report begins that main gets.
const REPORT: &str = "a background copy of this conversation reports";
/// What wakes a session for a report that asks for another run.
const ASKS: &str = "a scheduled fork asks to run again";
const FOUND: &str = "The door is still red.";

/// A story whose settings of the schedule are these, behind a debounce of none.
fn with_settings(story: Story, settings: &str) -> Story {
    let file = story.client.path("home/.config/leaf/config.toml");
    fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
    fs::write(file, format!("[schedule]\nwake_debounce = \"0s\"\n{settings}")).expect("a file");
    story
}

fn story() -> Story {
    with_settings(Story::new(), "")
}

/// A fork of the user's own, which needs no trust.
fn fork(story: &Story, name: &str, keys: &str) {
    let forks = story.client.path("home/.config/leaf/forks");
    fs::create_dir_all(&forks).expect("a directory");
    let text = format!("---\nfork: true\n{keys}\n---\nDo what is to be done of {name}.\n");
    fs::write(forks.join(format!("{name}.md")), text).expect("a file");
}

/// Takes the fork's file away.
fn forget(story: &Story, name: &str) {
    let file = story.client.path(&format!("home/.config/leaf/forks/{name}.md"));
    fs::remove_file(file).expect("a file");
}

/// A fork that runs a moment after a session went idle, and not again in this story.
fn idle_fork(story: &Story, name: &str) {
    fork(story, name, "run_on:\n  - idle: 1s\nthrottle: 1h");
}

/// How a fork is told apart from others.
fn about(name: &str) -> String {
    format!("scheduled fork '{name}'")
}

/// What that fork says next.
fn says(story: &Story, name: &str, replies: impl IntoIterator<Item = Reply>) {
    story.cast.says_about(Who::Scheduled, &about(name), replies);
}

/// What that fork asked the model.
fn asked(story: &Story, name: &str) -> Vec<Request> {
    let all = story.requests(Who::Scheduled).into_iter();
    all.filter(|request| request.conversation().contains(&about(name))).collect()
}

/// Waits for the n-th request of that fork, the first being 0: what it was told and said.
fn told(story: &Story, name: &str, n: usize) -> String {
    let request = until(&format!("request {n} of {name}"), LIMIT, || asked(story, name).into_iter().nth(n));
    let all = request.unwrap_or_else(|late| panic!("{late}: {:#?}\n{:#}", runs(story), schedule(story))).conversation();
    all[all.find("This is a background copy").unwrap_or_default()..].to_owned()
}

/// The session's runs, the oldest first.
fn runs(story: &Story) -> Vec<Value> {
    let runs = story.client.json(&["runs", "--session", SESSION]);
    runs.as_array().expect("runs").clone()
}

/// Each run's fork and how it stands.
fn states(runs: &[Value]) -> Vec<(String, String)> {
    let word = |run: &Value, key: &str| run[key].as_str().unwrap_or_default().to_owned();
    runs.iter().map(|run| (word(run, "fork"), word(run, "state"))).collect()
}

fn as_states(states: &[(&str, &str)]) -> Vec<(String, String)> {
    states.iter().map(|(fork, state)| ((*fork).to_owned(), (*state).to_owned())).collect()
}

/// Waits until the session's runs are these, in the order of their issue.
fn until_runs(story: &Story, wanted: &[(&str, &str)]) -> Vec<Value> {
    until(&format!("the runs are {wanted:?}"), LIMIT, || {
        Some(runs(story)).filter(|runs| states(runs) == as_states(wanted))
    })
    .unwrap_or_else(|late| panic!("{late}: {:#?}\n{:#}", runs(story), schedule(story)))
}

/// How each fork stands.
fn schedule(story: &Story) -> Value {
    story.client.json(&["schedule", SESSION])
}

/// The entries of the session's journals about the schedule, of that change.
fn changes(story: &Story, change: &str) -> Vec<Value> {
    let sessions = fs::read_dir(story.client.path("home/.local/state/leaf/sessions")).into_iter().flatten().flatten();
    let journals = sessions.map(|session| fs::read_to_string(session.path().join("journal.jsonl")).unwrap_or_default());
    let journals: String = journals.collect();
    let entries = journals.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found = Vec::new();
    for entry in entries.filter(|entry| entry["kind"] == "schedule") {
        let entry = if entry["schedule"].is_object() { entry["schedule"].clone() } else { entry };
        if entry["change"] == change {
            found.push(entry);
        }
    }
    found
}

/// The processes of leaf's that carry out runs.
fn runners(story: &Story) -> Vec<i32> {
    let all = story.client.processes().into_iter();
    all.filter(|(_, line)| line.contains("leaf runner")).map(|(pid, _)| pid).collect()
}

/// Waits until nothing of a run is left.
fn until_no_runner(story: &Story) {
    until("the runs' processes have left", LIMIT, || {
        (runners(story).is_empty() && copies(story).is_empty()).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
}

/// What a person and main could see of a run.
#[derive(Debug, PartialEq)]
struct Sight {
    screen: String,
    transcript: String,
    kept: usize,
    asked: usize,
    activity: usize,
}

impl Sight {
    fn of(story: &Story, terminal: &Terminal<'_>) -> Self {
        Self {
            screen: seen(terminal),
            transcript: transcript(&story.client),
            kept: kept_sessions(story),
            asked: story.asked(Who::Main),
            activity: changes(story, "activity").len(),
        }
    }
}

/// A screen without the client's own hints, which come and go at its right.
fn seen(terminal: &Terminal<'_>) -> String {
    let hint = " ".repeat(40);
    let screen = terminal.screen();
    let lines: Vec<_> = screen.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(&hint)).collect();
    lines.join("\n")
}

/// The conversation of a screen, without the prompt and what stands below it.
fn said(screen: &str) -> String {
    screen.lines().take_while(|line| !line.starts_with('─')).collect::<Vec<_>>().join("\n")
}

/// The session's conversation, as the client keeps it.
fn transcript(client: &Client) -> String {
    let projects = fs::read_dir(client.path("home/.claude/projects")).into_iter().flatten().flatten();
    let files = projects.map(|project| project.path().join(format!("{SESSION}.jsonl")));
    files.filter_map(|file| fs::read_to_string(file).ok()).collect()
}

/// Opens the session again.
fn again(story: &Story) -> Terminal<'_> {
    let terminal = story.client.open(&["--resume", SESSION, "--allowedTools", RULES]);
    story.until_followed();
    terminal
}

/// Says something, and waits until main has answered and rests: the request that it made.
fn turn(story: &Story, terminal: &Terminal<'_>, text: &str) -> Request {
    let n = story.asked(Who::Main);
    terminal.say(text);
    let request = story.request(Who::Main, n);
    assert!(request.text().contains(text), "{request:?}");
    until("its Stop is written", LIMIT, || (schedule(story)["busy"] == false).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", schedule(story)));
    request
}

/// How often a text stands in what main was told, over all its requests.
fn heard(story: &Story, text: &str) -> usize {
    story.requests(Who::Main).iter().map(|request| request.text().matches(text).count()).sum()
}

/// The next prompt brings this report, and no further one does.
fn reported_once(story: &Story, terminal: &Terminal<'_>, found: &str) {
    assert_eq!(heard(story, found), 0, "not before the next prompt");
    let request = turn(story, terminal, "anything new?");
    assert_eq!(request.text().matches(REPORT).count(), 1, "{request:?}");
    assert_eq!(request.text().matches(found).count(), 1, "{request:?}");
    turn(story, terminal, "and now?");
    assert_eq!((heard(story, REPORT), heard(story, found)), (1, 1), "{:?}", story.requests(Who::Main));
    assert!(runs(story).iter().all(|run| run["report"] == "delivered"), "{:#?}", runs(story));
}

/// A session that went idle, and the fork that runs then, up to its first question to the model.
fn gone_idle<'s>(story: &'s Story, gate: &Gate) -> Terminal<'s> {
    idle_fork(story, "journal");
    says(story, "journal", [Reply::text(FOUND).behind(gate)]);
    let terminal = story.open_after_a_turn();
    let told = told(story, "journal", 0);
    assert!(told.contains("Do what is to be done of journal.") && told.contains("Trigger: idle:1"), "{told}");
    terminal
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_an_idle_fork_runs_unseen_and_its_report_comes_with_the_next_prompt() {
    let story = story();
    let gate = Gate::default();
    let terminal = gone_idle(&story, &gate);
    let before = Sight::of(&story, &terminal);
    assert_eq!(states(&runs(&story)), as_states(&[("journal", "running")]));
    let request = asked(&story, "journal").remove(0);
    assert!(request.conversation().contains("hello there"), "it knows the session: {request:?}");
    gate.open();
    let ended = until_runs(&story, &[("journal", "completed")]);
    assert_eq!((&ended[0]["trigger"], &ended[0]["report"]), (&json!("idle:1"), &json!("waits")), "{ended:#?}");
    until_no_runner(&story);
    assert_eq!(Sight::of(&story, &terminal), before, "nothing shows");
    assert_eq!(story.client.watches().len(), 1, "one waiter: {:?}", story.client.processes());
    reported_once(&story, &terminal, FOUND);
    story.quiet(3, 0);
    assert_eq!(schedule(&story)["forks"][0]["held"]["by"], "throttle", "{:#}", schedule(&story));
    assert_eq!(asked(&story, "journal").len(), 1);
    terminal.exit();
    story.settle();
}

/// kill -9 of the process that carries it out: the run has failed, its client goes with it, and nothing waits for it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_an_idle_fork_runs_unseen_runner_killed() {
    let story = story();
    let gate = Gate::default();
    let terminal = gone_idle(&story, &gate);
    kill(&runners(&story));
    let failed = until_runs(&story, &[("journal", "failed")]);
    assert_eq!(failed[0]["why"], "its process died", "{failed:#?}");
    until_no_runner(&story);
    gate.open();
    // Main hears that nothing comes of it, as of any run that fails.
    let request = turn(&story, &terminal, "anything new?");
    assert!(request.conversation().contains("its process died"), "{request:#?}");
    story.quiet(2, 0);
    assert_eq!((heard(&story, FOUND), states(&runs(&story))), (0, as_states(&[("journal", "failed")])));
    terminal.exit();
    story.settle();
}

/// kill -9 of the waiter: the run is nobody's child, and ends by itself.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_an_idle_fork_runs_unseen_watch_killed() {
    let story = story();
    let gate = Gate::default();
    let terminal = gone_idle(&story, &gate);
    kill(&story.client.watches());
    gate.open();
    until_runs(&story, &[("journal", "completed")]);
    until_no_runner(&story);
    reported_once(&story, &terminal, FOUND);
    story.quiet(3, 0);
    terminal.exit();
    story.settle();
}

/// The hooks die that were to hand the report over, one before it did anything, one as it printed: nobody got it, and the next prompt
/// brings it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_report_comes_with_the_next_prompt_where_its_hooks_were_killed() {
    let story = story();
    let gate = Gate::default();
    gate.open();
    let terminal = gone_idle(&story, &gate);
    until_runs(&story, &[("journal", "completed")]);
    until_no_runner(&story);
    for (n, killed) in [Killed::Before, Killed::AtWrite(3)].into_iter().enumerate() {
        let hook = story.client.sabotage(Step::MainsHook("UserPromptSubmit"), killed, 1);
        terminal.say(&format!("are you there, {n}?"));
        hook.wait(1);
        story.request(Who::Main, n + 1);
        terminal.wait("the reply", |screen| screen.matches("that is all from Main").count() == n + 2);
        until("its Stop is written", LIMIT, || (schedule(&story)["busy"] == false).then_some(()))
            .unwrap_or_else(|late| panic!("{late}: {:#}", schedule(&story)));
    }
    reported_once(&story, &terminal, FOUND);
    story.quiet(5, 0);
    terminal.exit();
    story.settle();
}

/// The person leaves while it runs: its report waits for the session's next life.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_an_idle_fork_runs_on_as_its_client_exits_and_reports_to_the_resumed_session() {
    let story = story();
    let gate = Gate::default();
    let terminal = gone_idle(&story, &gate);
    terminal.exit();
    assert_eq!(states(&runs(&story)), as_states(&[("journal", "running")]));
    gate.open();
    until_runs(&story, &[("journal", "completed")]);
    until("every process has left", LIMIT, || story.client.processes().is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    let terminal = again(&story);
    assert_eq!(heard(&story, FOUND), 0);
    reported_once(&story, &terminal, FOUND);
    story.quiet(3, 0);
    terminal.exit();
    story.settle();
}

/// A fork that goes on towards a goal, as long as its report asks for it.
fn goal(story: &Story, keys: &str) {
    fork(story, "goal", &format!("run_on:\n  - idle: 0s\nchain: true\n{keys}"));
}

/// Waits until main was told so often of a chain's report, and rests.
fn until_read(story: &Story, wakes: usize) {
    until(&format!("main was woken {wakes} times and rests"), LIMIT, || {
        (heard(story, ASKS) == wakes && schedule(story)["busy"] == false).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:?}\n{:#?}", story.requests(Who::Main), runs(story)));
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_chain_of_three_wakes_the_session_for_each_report_and_ends() {
    let story = story();
    goal(&story, "");
    says(
        &story,
        "goal",
        [
            Reply::text("The first coat is on.\n<<leaf:continue>>"),
            Reply::text("The second coat is on. `<<autofork:continue>>`"),
            Reply::text("It is dry."),
        ],
    );
    let terminal = story.open_after_a_turn();
    let ended = until_runs(&story, &[("goal", "completed"); 3]);
    let again: Vec<_> = ended.iter().map(|run| run["again"] == true).collect();
    assert_eq!(again, [true, true, false], "{ended:#?}");
    until_no_runner(&story);
    // The prompt, and a wake for each report that asks; the last one's report wakes nobody.
    story.quiet(3, 2);
    for (n, coat) in ["The first coat is on.", "The second coat is on."].iter().enumerate() {
        let request = story.request(Who::Main, n + 1);
        let text = request.text();
        assert!(text.contains(ASKS) && text.contains(REPORT) && text.contains(coat), "{request:?}");
        assert!(!text.contains("continue>>"), "its sentinel is leaf's: {request:?}");
        assert_eq!(heard(&story, coat), 1);
        assert!(told(&story, "goal", n + 1).contains(coat), "the next run has it, too");
    }
    assert_eq!(changes(&story, "activity").len(), 1, "a wake of leaf's own is no activity");
    forget(&story, "goal");
    let request = turn(&story, &terminal, "anything new?");
    assert_eq!(request.text().matches("It is dry.").count(), 1, "{request:?}");
    story.quiet(4, 2);
    assert_eq!(runs(&story).len(), 3);
    terminal.exit();
    story.settle();
}

/// The person's prompt comes in the middle: the chain is over, and what they asked for comes first. Once main rests the fork begins
/// anew, as in any pause.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_chain_is_cut_by_the_persons_prompt() {
    let story = story();
    let gate = Gate::default();
    goal(&story, "");
    says(
        &story,
        "goal",
        [
            Reply::text("The first coat is on. <<leaf:continue>>"),
            Reply::text("The second coat is on. <<leaf:continue>>").behind(&gate),
            Reply::text("Nothing is left to do."),
        ],
    );
    let terminal = story.open_after_a_turn();
    told(&story, "goal", 1);
    until_read(&story, 1);
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("leave the door alone");
    until_in(&story.client, "one");
    gate.open();
    let over = until_runs(&story, &[("goal", "completed"), ("goal", "completed")]);
    assert_eq!((&over[1]["again"], &over[1]["report"]), (&json!(false), &json!("waits")), "{over:#?}");
    until_no_runner(&story);
    assert_eq!(heard(&story, ASKS), 1, "nobody is woken for it");
    let_go(&story.client, "one");
    until_runs(&story, &[("goal", "completed"); 3]);
    let fresh = told(&story, "goal", 2);
    assert!(!fresh.contains("second coat"), "a new pause is a new chain: {fresh}");
    assert!(
        fresh.contains("leave the door alone") || asked(&story, "goal")[2].conversation().contains("leave the door")
    );
    forget(&story, "goal");
    let request = turn(&story, &terminal, "anything new?");
    for report in ["The second coat is on.", "Nothing is left to do."] {
        assert_eq!(request.text().matches(report).count(), 1, "{request:?}");
    }
    // Three prompts, one with a call in it, and one wake.
    story.quiet(5, 1);
    terminal.exit();
    story.settle();
}

/// The runner is killed in the middle of a chain: the chain is over, and the session goes on.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_chain_killed_in_its_second_run_ends() {
    let story = story();
    let gate = Gate::default();
    goal(&story, "");
    says(
        &story,
        "goal",
        [
            Reply::text("The first coat is on. <<leaf:continue>>"),
            Reply::text("The second coat is on. <<leaf:continue>>").behind(&gate),
        ],
    );
    let terminal = story.open_after_a_turn();
    told(&story, "goal", 1);
    kill(&runners(&story));
    until_runs(&story, &[("goal", "completed"), ("goal", "failed")]);
    until_no_runner(&story);
    gate.open();
    story.quiet(2, 1);
    forget(&story, "goal");
    turn(&story, &terminal, "anything new?");
    assert_eq!((heard(&story, "second coat"), runs(&story).len()), (0, 2));
    terminal.exit();
    story.settle();
}

/// A goal's gate holds the other idle forks until its chain is over.
fn beside_a_gate(story: &Story, gate: &Gate) {
    goal(story, "gate: true");
    fork(story, "journal", "run_on:\n  - idle: 0s\nthrottle: 1h");
    says(
        story,
        "goal",
        [Reply::text("The first coat is on. <<leaf:continue>>"), Reply::text("The second coat is on.").behind(gate)],
    );
    says(story, "journal", [Reply::text(FOUND)]);
}

/// How a fork is held.
fn held(story: &Story, name: &str) -> Value {
    let schedule = schedule(story);
    let rows = schedule["forks"].as_array().expect("forks");
    let row = rows.iter().find(|row| row["fork"] == name);
    row.unwrap_or_else(|| panic!("no fork {name}: {schedule:#}"))["held"].clone()
}

/// Asserts that the last run was issued once all others were over.
fn last_alone(runs: &[Value]) {
    let time = |run: &Value, key: &str| run[key].as_str().expect("a time").to_owned();
    let (last, others) = runs.split_last().expect("runs");
    assert!(others.iter().all(|run| time(run, "over") <= time(last, "issued")), "{runs:#?}");
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_goals_gate_holds_another_fork_until_it_settled() {
    let story = story();
    let gate = Gate::default();
    beside_a_gate(&story, &gate);
    let terminal = story.open_after_a_turn();
    told(&story, "goal", 1);
    until_read(&story, 1);
    assert_eq!(held(&story, "journal"), json!({"by": "gate", "fork": "goal"}));
    assert_eq!(asked(&story, "journal").len(), 0);
    gate.open();
    let over = until_runs(&story, &[("goal", "completed"), ("goal", "completed"), ("journal", "completed")]);
    last_alone(&over);
    until_no_runner(&story);
    story.quiet(2, 1);
    forget(&story, "goal");
    let request = turn(&story, &terminal, "anything new?");
    for report in ["The second coat is on.", FOUND] {
        assert_eq!(request.text().matches(report).count(), 1, "{request:?}");
    }
    terminal.exit();
    story.settle();
}

/// The run that holds the gate dies: the gate is lifted.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_goals_gate_holds_another_fork_killed() {
    let story = story();
    let gate = Gate::default();
    beside_a_gate(&story, &gate);
    let terminal = story.open_after_a_turn();
    told(&story, "goal", 1);
    until_read(&story, 1);
    kill(&runners(&story));
    let over = until_runs(&story, &[("goal", "completed"), ("goal", "failed"), ("journal", "completed")]);
    last_alone(&over);
    until_no_runner(&story);
    gate.open();
    forget(&story, "goal");
    let request = turn(&story, &terminal, "anything new?");
    assert_eq!(request.text().matches(FOUND).count(), 1, "{request:?}");
    terminal.exit();
    story.settle();
}

/// One fork after another in one batch.
fn one_after_another(story: &Story) {
    idle_fork(story, "survey");
    fork(story, "paint", "run_on:\n  - idle: 1s\nthrottle: 1h\nafter: survey");
    says(story, "paint", [Reply::text("It is painted.")]);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_fork_after_another_gets_its_report() {
    let story = story();
    let gate = Gate::default();
    one_after_another(&story);
    says(&story, "survey", [Reply::text(FOUND).behind(&gate)]);
    let terminal = story.open_after_a_turn();
    told(&story, "survey", 0);
    until_runs(&story, &[("survey", "running"), ("paint", "waiting")]);
    assert_eq!(asked(&story, "paint").len(), 0);
    gate.open();
    let told = told(&story, "paint", 0);
    assert!(told.contains("The report of fork 'survey'") && told.contains(FOUND), "{told}");
    until_runs(&story, &[("survey", "completed"), ("paint", "completed")]);
    until_no_runner(&story);
    let request = turn(&story, &terminal, "anything new?");
    assert_eq!(request.text().matches(REPORT).count(), 2, "{request:?}");
    turn(&story, &terminal, "and now?");
    for report in [FOUND, "It is painted."] {
        assert_eq!(heard(&story, report), 1, "{:?}", story.requests(Who::Main));
    }
    story.quiet(3, 0);
    terminal.exit();
    story.settle();
}

/// kill -9 of the first one's client: the second runs without a report of it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_fork_after_another_runs_where_that_was_killed() {
    let story = story();
    let gate = Gate::default();
    one_after_another(&story);
    says(&story, "survey", [Reply::text(FOUND).behind(&gate)]);
    let terminal = story.open_after_a_turn();
    told(&story, "survey", 0);
    kill(&copies(&story));
    until_runs(&story, &[("survey", "failed"), ("paint", "completed")]);
    gate.open();
    until_no_runner(&story);
    let request = turn(&story, &terminal, "anything new?");
    assert!(request.text().contains("fork: survey; trigger: idle:1; failed"), "it is told of: {request:?}");
    assert_eq!((request.text().matches("It is painted.").count(), heard(&story, FOUND)), (1, 0), "{request:?}");
    terminal.exit();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_every_runs_across_turns_and_once_more_in_a_quiet_session() {
    let story = Clock::stopped(story());
    fork(&story, "journal", "run_on:\n  - every: 10m");
    says(&story, "journal", [Reply::text(FOUND), Reply::text("It is green.")]);
    let terminal = story.open_after_a_turn();
    assert_eq!(held(&story, "journal"), json!({"by": "moment"}));
    Clock::of(&story).set(11, 0);
    let over = until_runs(&story, &[("journal", "completed")]);
    assert_eq!(over[0]["trigger"], "every:600", "{over:#?}");
    until_no_runner(&story);
    // Its time comes again while main is at work: it waits for the Stop.
    story.cast.says(Who::Main, [busy("one")]);
    terminal.say("look around");
    until_in(&story.client, "one");
    Clock::of(&story).set(22, 0);
    assert_eq!(held(&story, "journal"), json!({"by": "busy"}));
    let_go(&story.client, "one");
    until_runs(&story, &[("journal", "completed"); 2]);
    until_no_runner(&story);
    Clock::of(&story).set(44, 0);
    story.quiet(3, 0);
    assert_eq!(held(&story, "journal"), json!({"by": "latch", "moment": "every:600"}), "the session stays quiet");
    assert_eq!(runs(&story).len(), 2);
    forget(&story, "journal");
    let request = turn(&story, &terminal, "anything new?");
    assert_eq!((heard(&story, FOUND), request.text().matches("It is green.").count()), (1, 1), "{request:?}");
    terminal.exit();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_context_threshold_is_crossed_once() {
    let story = story();
    fork(&story, "hand-over", "run_on:\n  - context_tokens: 50000");
    fork(&story, "narrow", "run_on:\n  - context_used: 30%\n  - context_left: 1000");
    says(&story, "hand-over", [Reply::text(FOUND)]);
    let terminal = story.open_after_a_turn();
    story.cast.says(Who::Main, [40_000, 52_000, 53_000].map(|tokens| Reply::text("I see.").with_context(tokens)));
    turn(&story, &terminal, "read a little");
    assert_eq!(runs(&story), [json!(null); 0]);
    turn(&story, &terminal, "read more");
    let over = until_runs(&story, &[("hand-over", "completed")]);
    assert_eq!(over[0]["trigger"], "context_tokens:50000", "{over:#?}");
    let gauge = schedule(&story)["gauge"].clone();
    assert_eq!(gauge["tokens"], 52_100, "the copy's own requests don't count: {gauge}");
    let request = turn(&story, &terminal, "and more");
    assert_eq!(request.text().matches(FOUND).count(), 1, "{request:?}");
    until("the larger context is seen", LIMIT, || (schedule(&story)["gauge"]["tokens"] == 53_100).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", schedule(&story)));
    story.quiet(4, 0);
    assert_eq!(states(&runs(&story)), as_states(&[("hand-over", "completed")]), "once a session");
    terminal.exit();
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_report_of_60_kb_comes_in_parts_over_several_prompts() {
    let story = story();
    idle_fork(&story, "journal");
    let lines: Vec<String> = (0..1000).map(|n| format!("line {n:04} {}", "äb☃d".repeat(12))).collect();
    let report = lines.join("\n");
    assert!(report.len() > 60_000, "{}", report.len());
    says(&story, "journal", [Reply::text(report)]);
    let terminal = story.open_after_a_turn();
    until_runs(&story, &[("journal", "completed")]);
    until_no_runner(&story);
    let mut prompts = 0;
    while runs(&story)[0]["report"] != "delivered" {
        prompts += 1;
        assert!(prompts < 15, "{:#?}", runs(&story));
        let request = turn(&story, &terminal, &format!("prompt {prompts}"));
        assert!(request.text().contains(REPORT), "{request:?}");
    }
    turn(&story, &terminal, "and now?");
    let told: Vec<String> = story.requests(Who::Main).iter().map(Request::text).collect();
    let got: Vec<&str> = told.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("line ")).collect();
    assert_eq!(got, lines, "each line once, in its order");
    assert!(prompts > 3, "{prompts}");
    assert!(told.iter().all(|text| !text.contains("persisted-output")), "nothing is spilled");
    story.quiet(2 + prompts, 0);
    terminal.exit();
    story.settle();
}

/// The session's runs in whatever session, as `leaf runs --all` tells them.
fn all_runs(story: &Story) -> Vec<Value> {
    story.client.json(&["runs", "--all"]).as_array().expect("runs").clone()
}

/// A second session beside the story's.
const OTHER: &str = "c3a4f1de-0b57-4d0a-9a46-71e8d2b5f093";

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_two_sessions_of_a_project_share_a_tags_throttle() {
    let story = with_settings(Story::new(), "tag_throttles = { upkeep = \"1h\" }\n");
    fork(&story, "journal", "run_on:\n  - idle: 1s\ntags: [upkeep]");
    says(&story, "journal", [Reply::text(FOUND)]);
    let first = story.open_after_a_turn();
    let second = story.client.open_on("other", &["--session-id", OTHER, "--allowedTools", RULES]);
    second.say("hello beside");
    second.wait("the reply", |screen| screen.contains("that is all from Main"));
    let throttled = |session: &str| {
        let schedule = story.client.json(&["schedule", session]);
        let fork = &schedule["forks"][0];
        (fork["held"] == json!({"by": "tag_throttle", "tag": "upkeep"}) || fork["held"]["by"] == "latch").then_some(())
    };
    until("the one's run holds the other's", LIMIT, || throttled(SESSION).and(throttled(OTHER))).unwrap_or_else(
        |late| {
            panic!("{late}: {:#}\n{:#}", schedule(&story), story.client.json(&["schedule", OTHER]));
        },
    );
    until("it is over", LIMIT, || (all_runs(&story).first()?["state"] == "completed").then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#?}", all_runs(&story)));
    story.quiet(2, 0);
    let ran = all_runs(&story);
    assert_eq!(states(&ran), as_states(&[("journal", "completed")]), "{ran:#?}");
    assert_eq!(story.asked(Who::Scheduled), 1);
    // Only the session that ran it gets the report.
    let (its, others) = if ran[0]["session"] == SESSION { (&first, &second) } else { (&second, &first) };
    others.say("anything here?");
    let request = story.request(Who::Main, 2);
    assert!(!request.text().contains(REPORT), "{request:?}");
    its.say("anything new?");
    let request = story.request(Who::Main, 3);
    assert_eq!(request.text().matches(FOUND).count(), 1, "{request:?}");
    first.say("/exit");
    second.exit();
    drop(first);
    story.settle();
}

fn in_the_session(runner: &str) -> Story {
    with_settings(Story::new(), &format!("fork_runner = \"{runner}\"\n"))
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_module_a_fork_runs_warm_in_the_session_and_unseen() {
    let story = in_the_session("module");
    let gate = Gate::default();
    idle_fork(&story, "journal");
    says(&story, "journal", [Reply::text(FOUND).behind(&gate)]);
    let terminal = story.open_after_a_turn();
    told(&story, "journal", 0);
    let running = Sight::of(&story, &terminal);
    let (fork, main) = (asked(&story, "journal").remove(0), story.request(Who::Main, 0));
    for part in ["/system/1", "/system/2", "/tools", "/messages/0"] {
        assert_eq!(fork.body.pointer(part), main.body.pointer(part), "warm: {part}");
    }
    gate.open();
    let over = until_runs(&story, &[("journal", "completed")]);
    assert_eq!(over[0]["runner"], "module", "{over:#?}");
    story.quiet(1, 0);
    let after = Sight::of(&story, &terminal);
    // The client lists its agents below the prompt while they run; the conversation is left alone.
    assert_eq!(said(&after.screen), said(&running.screen));
    let rows = after.transcript.strip_prefix(&running.transcript).expect("it only grows");
    assert!(rows.lines().all(|row| row.contains("\"type\":\"tools-used\"")), "no row of a turn: {rows}");
    assert_eq!((after.kept, after.activity), (running.kept, running.activity));
    assert_eq!(copies(&story), [0; 0]);
    reported_once(&story, &terminal, FOUND);
    story.quiet(3, 0);
    terminal.exit();
    story.settle();
}

/// The client is killed in the middle: the run has failed, and the session's next life isn't held by it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_module_a_fork_runs_warm_in_the_session_client_killed() {
    let story = in_the_session("module");
    let gate = Gate::default();
    fork(&story, "journal", "run_on:\n  - idle: 1s");
    says(&story, "journal", [Reply::text(FOUND).behind(&gate)]);
    let terminal = story.open_after_a_turn();
    told(&story, "journal", 0);
    until_runs(&story, &[("journal", "running")]);
    kill(&[story.client.pid()]);
    drop(terminal);
    until("everything of it has left", LIMIT, || story.client.processes().is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    gate.open();
    let terminal = again(&story);
    let failed = until_runs(&story, &[("journal", "failed")]);
    assert!(failed[0]["why"].as_str().is_some_and(|why| why.contains("client")), "{failed:#?}");
    says(&story, "journal", [Reply::text("It is green.")]);
    turn(&story, &terminal, "are you there?");
    until_runs(&story, &[("journal", "failed"), ("journal", "completed")]);
    forget(&story, "journal");
    let request = turn(&story, &terminal, "anything new?");
    assert_eq!((request.text().matches("It is green.").count(), heard(&story, FOUND)), (1, 0), "{request:?}");
    terminal.exit();
    story.settle();
}

/// A session whose model starts the agents that it is asked to start.
fn started_by_its_model() -> Story {
    let cast = Cast::default();
    let script = cast.clone();
    let client = Client::new(move |request| asked_to_start(request).unwrap_or_else(|| script.next(request)));
    let story = Story { client: client.with("LEAF_FORK_WORK", "on"), cast };
    with_settings(story, "fork_runner = \"subagent\"\n")
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_subagent_the_sessions_model_is_asked_and_starts_it() {
    let story = started_by_its_model();
    idle_fork(&story, "journal");
    says(&story, "journal", [Reply::text(FOUND)]);
    let terminal = story.open_after_a_turn();
    let over = until_runs(&story, &[("journal", "completed")]);
    assert_eq!(over[0]["runner"], "subagent", "{over:#?}");
    assert!(told(&story, "journal", 0).contains("Do what is to be done of journal."));
    // The prompt, the wake with the call, its result, and the client's own words on the end.
    story.quiet(4, 2);
    let woken = story.request(Who::Main, 1);
    assert!(woken.text().contains("scheduled forks are due"), "{woken:?}");
    let end = story.request(Who::Main, 3);
    assert_eq!((end.text().matches(FOUND).count(), heard(&story, REPORT)), (1, 0), "{end:?}");
    assert_eq!(changes(&story, "activity").len(), 1, "{:#?}", changes(&story, "activity"));
    assert_eq!(asked(&story, "journal").len(), 1);
    leave(terminal);
    story.settle();
}

/// The hook dies that was to put the work into the agent's prompt.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_subagent_the_sessions_model_is_asked_and_starts_it_killed() {
    let story = started_by_its_model();
    idle_fork(&story, "journal");
    let terminal = story.open_after_a_turn();
    let hook = story.client.sabotage(Step::MainsHook("PreToolUse"), Killed::Before, 1);
    hook.wait(1);
    story.quiet(4, 2);
    let over = runs(&story);
    assert_eq!(states(&over), as_states(&[("journal", "failed")]), "it is not asked for again and again: {over:#?}");
    leave(terminal);
    story.settle();
}

/// A fork that runs once a pause.
fn every_pause(story: &Story) {
    fork(story, "journal", "run_on:\n  - idle: 1s");
    says(story, "journal", [Reply::text(FOUND), Reply::text("It is green.")]);
}

fn why(changes: &[Value]) -> Vec<&str> {
    changes.iter().map(|change| change["why"].as_str().unwrap_or_default()).collect()
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_persons_message_begins_a_new_pause_and_a_forks_answer_none() {
    let story = story();
    every_pause(&story);
    let terminal = story.open_after_a_turn();
    until_runs(&story, &[("journal", "completed")]);
    let message = story.write("How far is it to the lighthouse?");
    story.until_answered(&message);
    until_runs(&story, &[("journal", "completed"); 2]);
    story.quiet(1, 0);
    assert_eq!(why(&changes(&story, "activity")), ["prompt", "message"]);
    assert_eq!(runs(&story).len(), 2, "once a pause");
    assert_eq!(held(&story, "journal"), json!({"by": "latch", "moment": "idle:1"}));
    forget(&story, "journal");
    let request = turn(&story, &terminal, "anything new?");
    for report in [FOUND, "It is green."] {
        assert_eq!(request.text().matches(report).count(), 1, "{request:?}");
    }
    leave(terminal);
    story.settle();
}

/// Nobody but main answers: the wake is the person's doing as well, and its turn's Stop the pause's beginning.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_persons_message_that_wakes_main_begins_a_new_pause() {
    let story = story().with("LEAF_FORK_REPLIES", "off");
    every_pause(&story);
    let terminal = story.client.open(&["--session-id", SESSION, "--allowedTools", RULES]);
    turn(&story, &terminal, "hello there");
    until_runs(&story, &[("journal", "completed")]);
    let message = story.write("How far is it to the lighthouse?");
    story.until_answered(&message);
    until_runs(&story, &[("journal", "completed"); 2]);
    let wake = story.request(Who::Main, 1);
    assert!(wake.text().contains("How far is it") && wake.text().contains(FOUND), "its report comes along: {wake:?}");
    story.quiet(3, 1);
    assert_eq!(runs(&story).len(), 2, "{:#?}", changes(&story, "activity"));
    forget(&story, "journal");
    let request = turn(&story, &terminal, "anything new?");
    assert_eq!((heard(&story, FOUND), request.text().matches("It is green.").count()), (1, 1), "{request:?}");
    terminal.exit();
    story.settle();
}

/// The plugin is installed, and a fork's file has its client run hooks: it is a copy all the same, and nothing comes of it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_forks_own_client_opens_no_session_runs_no_fork_and_writes_in_no_thread() {
    let story = story().with("LEAF_FORK_HOOKS", "1");
    fs::create_dir_all(story.client.path("home/.claude")).expect("a directory");
    let rules = json!({"permissions": {"allow": ["Bash(leaf:*)"]}});
    fs::write(story.client.path("home/.claude/settings.json"), rules.to_string()).expect("a file");
    let terminal = story.open_after_a_turn();
    let note = story.client.json(&["thread", "new", "The key is under the mat.", "--no-reply"]);
    let thread = id(&note, "thread").to_owned();
    let installed = story.client.person(&["install"]);
    assert_eq!(installed.code, 0, "{installed:?}");
    idle_fork(&story, "journal");
    let commands = [
        "leaf task list --json".to_owned(),
        format!("leaf thread reply {thread} 'From the copy.' --unasked"),
        format!("leaf thread line {thread} 'From the copy.'"),
        "leaf fork run journal".to_owned(),
        "leaf page list".to_owned(),
    ];
    says(&story, "journal", commands.map(Reply::bash));
    says(&story, "journal", [Reply::text(FOUND)]);
    turn(&story, &terminal, "go on");
    until_runs(&story, &[("journal", "completed")]);
    until_no_runner(&story);
    let results: Vec<_> = asked(&story, "journal").iter().flat_map(Request::results).collect();
    let failed: Vec<_> = results.iter().map(|(failed, _)| *failed).collect();
    assert_eq!(failed, [false, true, true, true, false], "{results:#?}");
    assert_eq!(sessions(&story), 1, "it opens no session");
    assert_eq!(states(&all_runs(&story)), as_states(&[("journal", "completed")]), "it runs no fork");
    let written = story.thread(&note);
    assert!(!written.to_string().contains("From the copy."), "{written:#}");
    // The same client without that sign does open one.
    assert_eq!(story.client.print_plain("hello beside", &[]).end().code, 0);
    assert_eq!(sessions(&story), 2, "the plugin is there");
    let errors = fs::read_to_string(story.client.path("home/.local/state/leaf/errors.log")).unwrap_or_default();
    assert_eq!(errors, "");
    terminal.exit();
    story.settle();
}

/// How many sessions leaf knows.
fn sessions(story: &Story) -> usize {
    fs::read_dir(story.client.path("home/.local/state/leaf/sessions")).into_iter().flatten().count()
}

/// A session whose pauses run at its close what they did not run, with a fork that comes to nothing else.
fn to_be_flushed(gate: &Gate) -> Story {
    let story = with_settings(Story::new(), "flush_on_close = true\n");
    fork(&story, "journal", "run_on:\n  - idle: 1h");
    says(&story, "journal", [Reply::text(FOUND).behind(gate)]);
    story
}

/// Waits until everything of the client's has left but what is at this session's runs.
fn until_client_gone(story: &Story) {
    let its = |line: &str| line.contains("--plugin-dir") || line.contains("leaf watch") || line.contains("leaf follow");
    until("the client is gone", LIMIT, || story.client.processes().iter().all(|(_, line)| !its(line)).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
}

/// The flushed run ends, and the resumed session gets its report.
fn flushed(story: &Story, gate: &Gate) {
    let told = told(story, "journal", 0);
    assert!(told.contains("Trigger: idle:3600 (at close)"), "{told}");
    until_client_gone(story);
    gate.open();
    let over = until_runs(story, &[("journal", "completed")]);
    assert_eq!(over[0]["trigger"], "idle:3600 (at close)", "{over:#?}");
    until("every process has left", LIMIT, || story.client.processes().is_empty().then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?}", story.client.processes()));
    let terminal = again(story);
    reported_once(story, &terminal, FOUND);
    story.quiet(3, 0);
    forget(story, "journal");
    terminal.exit();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_flush_what_a_pause_did_not_run_runs_at_exit_and_reports_to_the_resumed_session() {
    let gate = Gate::default();
    let story = to_be_flushed(&gate);
    let terminal = story.open_after_a_turn();
    terminal.exit();
    flushed(&story, &gate);
    story.settle();
}

/// Nobody reports the end: the waiter sees that its client is gone.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_flush_what_a_pause_did_not_run_runs_as_its_client_is_killed() {
    let gate = Gate::default();
    let story = to_be_flushed(&gate);
    let terminal = story.open_after_a_turn();
    kill(&[story.client.pid()]);
    drop(terminal);
    flushed(&story, &gate);
    story.settle();
}

/// The end's hook dies before it did anything, and the client takes the waiter along: whoever opens a session next sees it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_flush_what_a_pause_did_not_run_end_killed() {
    let gate = Gate::default();
    let story = to_be_flushed(&gate);
    let terminal = story.open_after_a_turn();
    let hook = story.client.sabotage(Step::MainsHook("SessionEnd"), Killed::Before, 1);
    terminal.exit();
    hook.wait(1);
    assert_eq!((runs(&story), changes(&story, "closed")), (vec![], vec![]));
    let terminal = story.client.open(&["--session-id", OTHER, "--allowedTools", RULES]);
    until("it is closed", LIMIT, || (changes(&story, "closed").len() == 1).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", schedule(&story)));
    terminal.exit();
    flushed(&story, &gate);
    story.settle();
}

/// The end's hook dies behind its first write, and what it started with it: the close and what was to run stand in that one write, so
/// that the run has failed, and neither is it lost without a word nor does anything wait for it.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_flush_what_a_pause_did_not_run_end_killed_late() {
    let gate = Gate::default();
    gate.open();
    let story = to_be_flushed(&gate);
    let terminal = story.open_after_a_turn();
    let hook = story.client.sabotage(Step::MainsHook("SessionEnd"), Killed::AtWrite(2), 1);
    terminal.exit();
    hook.wait(1);
    let terminal = again(&story);
    turn(&story, &terminal, "anything new?");
    let over = until_runs(&story, &[("journal", "failed")]);
    assert_eq!(over[0]["why"], "its process died", "{over:#?}");
    assert_eq!(changes(&story, "closed"), [json!({"change": "closed", "reason": "prompt_input_exit"})]);
    story.quiet(2, 0);
    forget(&story, "journal");
    terminal.exit();
    story.settle();
}

/// A lifecycle hook of the user's own that writes down what it is told.
fn lifecycle(story: &Story, name: &str, keys: &str, command: &str) {
    let hooks = story.client.path("home/.config/leaf/hooks");
    fs::create_dir_all(&hooks).expect("a directory");
    fs::write(hooks.join(format!("{name}.md")), format!("---\nhook: true\n{keys}\ncommand: |\n  {command}\n---\n"))
        .expect("a file");
}

/// The lines that lifecycle hooks wrote.
fn noted(story: &Story) -> Vec<String> {
    let notes = fs::read_to_string(story.client.path("home/noted")).unwrap_or_default();
    notes.lines().map(str::to_owned).collect()
}

fn until_noted(story: &Story, wanted: &[&str]) {
    until(&format!("the hooks noted {wanted:?}"), LIMIT, || (noted(story) == wanted).then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:?} {:#?}", noted(story), schedule(story)));
}

const NOTE: &str =
    "echo \"$LEAF_EVENT $LEAF_SESSION_ID$LEAF_SOURCE$LEAF_IDLE_SECS$LEAF_END_REASON ${AUTOFORK_EVENT}\" >> $HOME/noted";

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_lifecycle_hooks_hear_of_a_sessions_moments() {
    let story = story();
    lifecycle(&story, "note", "on: [session_start, resume, activity, 'idle: 1s', session_end]", NOTE);
    let line = |event: &str, more: &str| format!("{event} {SESSION}{more} {event}");
    let terminal = story.open();
    let start = line("session_start", "startup");
    until_noted(&story, &[&start]);
    turn(&story, &terminal, "hello there");
    let (activity, idle) = (line("activity", ""), line("idle", "1"));
    until_noted(&story, &[&start, &activity, &idle]);
    turn(&story, &terminal, "and now?");
    until_noted(&story, &[&start, &activity, &idle, &activity, &idle]);
    story.quiet(2, 0);
    terminal.exit();
    let end = line("session_end", "prompt_input_exit");
    until_noted(&story, &[&start, &activity, &idle, &activity, &idle, &end]);
    let terminal = again(&story);
    let resumed = line("session_start", "resume");
    until_noted(&story, &[&start, &activity, &idle, &activity, &idle, &end, &resumed]);
    lifecycle(&story, "note", "on: session_end", NOTE);
    terminal.exit();
    until_noted(&story, &[&start, &activity, &idle, &activity, &idle, &end, &resumed, &end]);
    story.settle();
}

/// A hook's command goes on as its client leaves: it is nobody's child, and ends by itself.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_lifecycle_a_command_outlives_its_client() {
    let story = story();
    let wait = "touch $HOME/began; while [ ! -e $HOME/go ]; do sleep 0.05; done; echo done >> $HOME/noted";
    lifecycle(&story, "long", "on: ['idle: 1s']", wait);
    let terminal = story.open_after_a_turn();
    until("it began", LIMIT, || story.client.path("home/began").exists().then_some(())).expect("a command");
    terminal.exit();
    fs::write(story.client.path("home/go"), "").expect("a file");
    until_noted(&story, &["done"]);
    story.settle();
}

/// A project's fork waits for trust, and does so again once its file was changed (R126).
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_projects_fork_runs_once_it_is_trusted_and_waits_again_once_it_changed() {
    let story = story();
    let forks = story.client.path("project/.autofork/forks");
    fs::create_dir_all(&forks).expect("a directory");
    let file = forks.join("journal.md");
    let text = "---\nfork: true\nrun_on:\n  - idle: 0s\nthrottle: 1h\n---\nDo what is to be done of journal.\n";
    fs::write(&file, text).expect("a file");
    says(&story, "journal", [Reply::text(FOUND)]);
    let terminal = story.open_after_a_turn();
    assert_eq!(held(&story, "journal"), json!({"by": "trust"}));
    turn(&story, &terminal, "and now?");
    assert_eq!((runs(&story), story.asked(Who::Scheduled)), (vec![], 0));
    let trusted = story.client.person(&["trust"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    turn(&story, &terminal, "and now, then?");
    until_runs(&story, &[("journal", "completed")]);
    fs::write(&file, text.replace("Do what", "Do all that")).expect("a file");
    assert_eq!(held(&story, "journal"), json!({"by": "trust"}));
    let request = turn(&story, &terminal, "anything new?");
    assert_eq!(request.text().matches(FOUND).count(), 1, "{request:?}");
    story.quiet(4, 0);
    assert_eq!(states(&runs(&story)), as_states(&[("journal", "completed")]));
    terminal.exit();
    story.settle();
}

/// Somebody stops a run: its client goes, its report with it, and the session hears nothing.
fn stopped(story: &Story) {
    let gate = Gate::default();
    let terminal = gone_idle(story, &gate);
    until_runs(story, &[("journal", "running")]);
    let outcome = story.client.person(&["fork", "stop", "scheduled-journal"]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    until_runs(story, &[("journal", "stopped")]);
    until_no_runner(story);
    gate.open();
    turn(story, &terminal, "anything new?");
    story.quiet(2, 0);
    assert_eq!((heard(story, FOUND), asked(story, "journal").len()), (0, 1));
    leave(terminal);
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_a_run_is_stopped_by_its_name() {
    let story = story();
    stopped(&story);
    story.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_module_a_run_is_stopped_by_its_name() {
    let story = in_the_session("module");
    stopped(&story);
    story.settle();
}

/// The client's own list says what goes on in the background: it holds an idle fork until it ended.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn w26_a_shell_in_the_background_holds_an_idle_fork_until_it_ended() {
    let story = story();
    idle_fork(&story, "journal");
    says(&story, "journal", [Reply::text(FOUND)]);
    story.cast.says(Who::Main, [in_background("shell")]);
    let terminal = story.open_after_a_turn();
    until_in(&story.client, "shell");
    assert_eq!(held(&story, "journal"), json!({"by": "background"}));
    let background = schedule(&story)["background"].clone();
    assert_eq!(background.as_array().map(Vec::len), Some(1), "{background}");
    story.quiet(2, 0);
    assert_eq!(runs(&story), [json!(null); 0]);
    let_go(&story.client, "shell");
    until_runs(&story, &[("journal", "completed")]);
    // The client tells main of its shell's end, and that is something new.
    assert_eq!(why(&changes(&story, "activity")), ["prompt", "notification"]);
    let request = turn(&story, &terminal, "anything new?");
    assert_eq!(request.text().matches(FOUND).count(), 1, "{request:?}");
    story.quiet(4, 1);
    terminal.exit();
    story.settle();
}

/// A cleared session is another one: what ran for the old conversation reports to nobody here, and the waiter goes along.
#[test]
#[ignore = "needs the real client: .ci/run"]
fn i6_clear_begins_another_session_with_a_schedule_of_its_own() {
    let story = story();
    let gate = Gate::default();
    let terminal = gone_idle(&story, &gate);
    terminal.say("/clear");
    until("the session is closed", LIMIT, || (schedule(&story)["closed"] == "clear").then_some(()))
        .unwrap_or_else(|late| panic!("{late}: {:#}", schedule(&story)));
    gate.open();
    until_runs(&story, &[("journal", "completed")]);
    says(&story, "journal", [Reply::text("It is green.")]);
    terminal.say("hello anew");
    until("it runs in the new session", LIMIT, || {
        let all = all_runs(&story);
        (states(&all) == as_states(&[("journal", "completed"); 2])).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:#?}", all_runs(&story)));
    assert_ne!(all_runs(&story)[1]["session"], SESSION);
    terminal.say("anything new?");
    let request = story.request(Who::Main, 2);
    assert_eq!(request.text().matches("It is green.").count(), 1, "{request:?}");
    story.quiet(3, 0);
    assert_eq!((heard(&story, FOUND), &all_runs(&story)[0]["report"]), (0, &json!("waits")), "it is the old one's");
    assert_eq!(story.client.watches().len(), 1, "{:?}", story.client.processes());
    terminal.exit();
    story.settle();
}
