//! Guard and ways to run: R116–R120, and R122 of a fork that is stopped.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::desk::{Desk, HookRan, Session, id, quoted};
use crate::support::forks::{
    Follower, Fork, Verdict, forking, holder_kind, main_owes, notification, outcome, status, text, turns, verdict, why,
    why_of,
};
use serde_json::{Value, json};

#[test]
fn r116_a_known_agent_makes_no_forks() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let agent = |kind: &str| json!({"description": "d", "prompt": "p", "subagent_type": kind});
    let reason = fork.pre("Agent", agent("fork")).denied();
    assert!(!reason.is_empty());
    assert!(matches!(verdict(&fork.pre("Agent", agent("general-purpose"))), Verdict::Passed));
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    helper.marked("leaf thread list");
    helper.pre("Agent", agent("fork")).denied();
    follower.ended(&fork.turn, "");
    fork.pre("Agent", agent("fork")).denied();
    // Main's own, and an unknown agent's, are their own matter.
    main.hook(&main.payload("PreToolUse.main.Agent.spawn")).silent();
    assert!(matches!(verdict(&Fork::worker(&main).pre("Agent", agent("fork"))), Verdict::Passed));
}

#[test]
fn r116_a_helper_acts_in_its_forks_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let (other, theirs) = follower.fork("and this");
    let helper = Fork::worker(&main);
    helper.begins().silent_or_context();
    helper.meta_below(&fork);
    let command = format!("leaf thread reply {} 'from the helper'", fork.reference());
    assert_eq!(helper.marked(&command), format!("leaf --agent-id {} {}", helper.agent, &command[5..]));
    helper.call(&command).ok();
    let reply = &desk.events("reply")[0];
    assert_eq!((&reply["turn"], &reply["by"], &reply["thread"]), (&json!(fork.turn), &json!("fork"), &json!(thread)));
    helper.refused(&["thread", "reply", &theirs.reference(), "not mine"]);
    assert_eq!(turns(&desk).len(), 2, "it has no turn of its own");
    follower.ended(&fork.turn, "done");
    helper.denied("leaf thread list");
    assert_eq!(holder_kind(&desk, &other), "fork");
}

#[test]
fn r116_a_helper_is_guarded_the_same() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    for command in ["env leaf status", "cd x; leaf thread list", "leaf thread new x", "leaf fork ended --agent x"] {
        helper.denied(command);
    }
    helper.refused(&["thread", "resolve", &thread]);
    helper.refused(&["fork", "stop", &fork.name]);
}

#[test]
fn r118_a_headless_run_opens_no_session_of_its_own() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let before: BTreeSet<_> = sessions(&desk);
    let headless = desk.session("headless").unattended();
    headless.set_env("LEAF_TURN", &fork.turn);
    headless.set_env("LEAF_SESSION", main.id());
    headless.hook(&headless.payload("SessionStart.main.startup")).silent_or_context();
    headless.prompt("the question").silent_or_context();
    assert_eq!(sessions(&desk), before);
    desk.say(&thread, "a further message");
    assert_eq!(headless.boundary().context(), None, "it gets no further messages");
    headless.stop().silent();
    assert_eq!(desk.state()["session"], json!(main.id()));
}

#[test]
fn r118_a_headless_runs_commands_act_in_its_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let headless = desk.session("headless").unattended();
    headless.set_env("LEAF_TURN", &fork.turn);
    headless.set_env("LEAF_SESSION", main.id());
    headless.run(&["thread", "reply", &fork.reference(), "found"]).ok();
    let reply = desk.events("reply").pop().expect("a reply");
    assert_eq!(
        (&reply["turn"], &reply["by"], &reply["session"]),
        (&json!(fork.turn), &json!("fork"), &json!(main.id()))
    );
    assert_eq!(desk.thread_state(&thread)["status"], "answered");
    follower.ended(&fork.turn, "done");
    headless.run(&["thread", "reply", &thread, "more", "--unasked"]).refused();
}

#[test]
fn r118_a_turn_that_is_not_there_is_nobodys_and_never_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let thread = desk.thread("a question");
    let headless = desk.session("headless").unattended();
    headless.set_env("LEAF_TURN", "0123456789abcdef");
    headless.set_env("LEAF_SESSION", main.id());
    headless.run(&["thread", "reply", &thread, "x"]).refused();
    headless.run(&["thread", "new", "as the user"]).refused();
    assert_eq!(desk.log().len(), 1);
}

fn sessions(desk: &Desk) -> BTreeSet<String> {
    let entries = std::fs::read_dir(desk.state_dir().join("sessions")).expect("sessions");
    entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn r119_a_spawn_names_no_model_and_no_mode() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    let keys: BTreeSet<&str> = action.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, BTreeSet::from(["action", "turn", "name", "description", "prompt"]));
}

#[test]
fn r119_a_turn_limit_that_cuts_it_is_a_hand_back_that_says_so() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    follower.failed(&fork.turn, "Reached max turns (40)");
    assert_eq!(outcome(&desk, &fork.turn), ("ended".into(), json!("hand_back")));
    assert!(main.boundary().says().contains("max turns"));
}

#[test]
fn r120_the_entry_that_names_a_run_records_what_caused_it() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    fork.begins().silent_or_context();
    fork.launched().silent_or_context();
    follower.started(&fork.turn, &fork.agent);
    let named = why_of(&desk, &thread, "named");
    assert_eq!(named.len(), 1, "{named:?}");
    assert_eq!((&named[0]["prompt"], &named[0]["tool_use"]), (&json!(main.prompt_id()), &json!(fork.tool_use())));
    let all = desk.ask(&["why", &thread]);
    for entry in all.as_array().expect("entries").iter().filter(|e| e["kind"] != "named") {
        assert_eq!((&entry["prompt"], &entry["tool_use"]), (&Value::Null, &Value::Null), "that alone: {entry}");
    }
}

#[test]
fn r120_where_not_given_it_records_none() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    assert_eq!(follower.started(&text(&action["turn"]), "a00000000000000f1"), "go");
    let named = why_of(&desk, &thread, "named");
    assert_eq!((&named[0]["prompt"], &named[0]["tool_use"]), (&Value::Null, &Value::Null));
}

#[test]
fn r120_the_tree_is_read_off_the_journal() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (first, fork) = follower.fork("look it up");
    let (second, _) = follower.fork("and this");
    follower.ended(&fork.turn, "done");
    let tree = desk.person(&["fork", "tree"]).ok().out();
    for name in [format!("leaf-{first}"), format!("leaf-{second}")] {
        assert!(tree.contains(&name), "{name}: {tree}");
    }
    let _ = std::fs::remove_file(crate::support::forks::session_dir(&desk, &main).join("state.json"));
    assert_eq!(desk.person(&["fork", "tree"]).ok().out(), tree);
    assert!(desk.ask(&["fork", "tree"]).is_array() || desk.ask(&["fork", "tree"]).is_object());
}

#[test]
fn r122_a_fork_is_seen_and_stopped_by_name() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    assert!(desk.person(&["fork", "list"]).ok().out().contains(&fork.name));
    assert!(desk.person(&["status"]).ok().out().contains(&fork.name));
    desk.person(&["fork", "stop", &fork.name]).ok();
    assert_eq!(follower.expect("stop")["agent_id"], json!(fork.agent));
    assert_eq!(follower.failed(&fork.turn, "stopped")["outcome"], "hand_back");
    desk.person(&["fork", "stop", "leaf-00000000"]).refused();
    let listed = desk.ask(&["fork", "list"]);
    assert!(listed.is_array() || listed.is_object());
    let _ = id(&desk.events("pickup")[0]);
}

/// A `claude` on PATH that plays the client without a terminal: it notes its arguments and environment, and does what the
/// test wrote down for a line fork and for a working fork.
struct Headless<'d> {
    desk: &'d Desk,
}

impl<'d> Headless<'d> {
    fn new(desk: &'d Desk) -> Self {
        let dir = desk.path("claude");
        fs::create_dir(&dir).expect("a directory");
        let script = format!(
            "#!/bin/sh\nD={dir}\ncase \"$*\" in *disableAllHooks*) K=line;; *) K=work;; esac\n\
             printf '%s\\0' \"$@\" > $D/$K.argv.part\nenv > $D/$K.env\ncat > $D/$K.in\necho $$ > $D/$K.pid\n\
             mv $D/$K.argv.part $D/$K.argv\necho >> $D/$K.times\n\
             REF=$(grep -oE '[0-9a-f]{{8}}:[0-9a-f]{{8}}' $D/$K.in | head -1)\n. $D/$K.sh\n",
            dir = dir.display()
        );
        let program = dir.join("claude");
        fs::write(&program, script).expect("a program");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        Headless { desk }
    }

    /// What a run of this kind (`line` or `work`) does: shell, with `$REF`.
    fn does(&self, kind: &str, shell: &str) {
        fs::write(self.desk.path("claude").join(format!("{kind}.sh")), shell).expect("a script");
    }

    /// A run's last words, as the client writes them.
    fn says(&self, kind: &str, text: &str, before: &str) {
        let out = json!({
            "type": "result", "subtype": "success", "is_error": false, "result": text, "duration_ms": 321,
            "usage": {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 3000},
        });
        self.does(kind, &format!("{before}\nprintf %s {}\n", quoted(&out.to_string())));
    }

    /// The line fork finds it small.
    fn finds_it_small(&self) {
        self.says("line", &json!({"line": "On it.", "sort": "small"}).to_string(), "");
    }

    /// The session whose client finds this program.
    fn session(&self, name: &str, way: &[(&str, &str)]) -> Session<'d> {
        let session = self.desk.session(name);
        session.set_env("LEAF_FORK_WORK", "on");
        let path = std::env::var("PATH").unwrap_or_default();
        session.set_env("PATH", &format!("{}:{path}", self.desk.path("claude").display()));
        for (name, value) in way {
            session.set_env(name, value);
        }
        session.working()
    }

    /// Waits until a run of this kind is there, and gives its arguments.
    #[track_caller]
    fn argv(&self, kind: &str) -> Vec<String> {
        let file = self.desk.path("claude").join(format!("{kind}.argv"));
        let bytes = until("the client is run", || fs::read(&file).ok());
        let text = String::from_utf8(bytes).expect("UTF-8");
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    /// What came on its standard input.
    fn input(&self, kind: &str) -> String {
        fs::read_to_string(self.desk.path("claude").join(format!("{kind}.in"))).expect("an input")
    }

    fn env(&self, kind: &str) -> String {
        fs::read_to_string(self.desk.path("claude").join(format!("{kind}.env"))).expect("an environment")
    }

    #[track_caller]
    fn pid(&self, kind: &str) -> u32 {
        self.argv(kind);
        let text = fs::read_to_string(self.desk.path("claude").join(format!("{kind}.pid"))).expect("a pid");
        text.trim().parse().expect("a pid")
    }

    fn times(&self, kind: &str) -> usize {
        fs::read_to_string(self.desk.path("claude").join(format!("{kind}.times"))).unwrap_or_default().lines().count()
    }
}

/// Work that goes on until the test lets it.
const WAITS: &str = "while [ ! -e $D/go ]; do sleep 0.02; done";

fn let_go(desk: &Desk) {
    fs::write(desk.path("claude").join("go"), "").expect("a file");
}

#[track_caller]
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process lives: a zombie doesn't.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// The only fork turn.
#[track_caller]
fn only_turn(desk: &Desk) -> Value {
    let turns = turns(desk);
    assert_eq!(turns.len(), 1, "{turns:?}");
    turns[0].clone()
}

#[track_caller]
fn until_ended(desk: &Desk, turn: &str) -> Value {
    // A reader shows it as over before it is judged (R88).
    until("the turn is judged", || Some(outcome(desk, turn).1).filter(|outcome| !outcome.is_null()))
}

/// The one entry of the thread's story that says how it was taken.
#[track_caller]
fn taken(desk: &Desk, thread: &str) -> Value {
    let taken = why_of(desk, thread, "taken");
    let by_fork: Vec<&Value> = taken.iter().filter(|entry| entry["by"] == "fork").collect();
    assert_eq!(by_fork.len(), 1, "{taken:?}");
    by_fork[0].clone()
}

/// The switches of the client that rule out what runs inside it.
const OFF: [(&str, &str); 3] = [
    ("CLAUDE_CODE_COORDINATOR_MODE", "1"),
    ("CLAUDE_CODE_FORK_SUBAGENT", "0"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "true"),
];

/// `forks.headless`, said by the person.
fn allow_headless(desk: &Desk, more: &str) {
    let dir = desk.home().join(".config/leaf");
    fs::create_dir_all(&dir).expect("a directory");
    fs::write(dir.join("config.toml"), format!("[forks]\nheadless = true\n{more}")).expect("a configuration");
}

#[test]
fn r117_the_module_is_the_first_choice_and_the_journal_says_why() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let entry = taken(&desk, &thread);
    assert_eq!((&entry["way"], &entry["turn"]), (&json!("module"), &json!(fork.turn)));
    assert!(text(&entry["why"]).contains("module"), "{entry}");
    assert!(desk.person(&["why", &thread]).ok().out().contains("module"));
}

#[test]
fn r117_what_is_switched_off_in_the_client_goes_to_main_at_once() {
    for (name, value) in OFF {
        let desk = Desk::new();
        let main = desk.session("s");
        main.set_env("LEAF_FORK_WORK", "on");
        main.set_env(name, value);
        let main = main.working();
        let follower = Follower::start(&main);
        let (thread, action) = follower.take("look it up");
        assert_eq!(action, json!({"action": "main"}), "{name}");
        assert_eq!(turns(&desk).len(), 0, "{name}");
        let handed = why_of(&desk, &thread, "handed");
        assert_eq!((handed.len(), &handed[0]["way"]), (1, &json!("main")), "{name}");
        assert!(text(&handed[0]["why"]).contains("client"), "{name}: {handed:?}");
        assert!(main.boundary().says().contains("look it up"), "{name}");
    }
}

#[test]
fn r117_the_session_start_records_the_clients_switches() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    // A later process's environment says nothing (R2).
    main.set_env("CLAUDE_CODE_COORDINATOR_MODE", "1");
    main.set_env("LEAF_FORK_WAY", "main");
    let (_, action) = follower.take("look it up");
    assert_eq!(action["action"], "spawn");
}

#[test]
fn r117_the_way_that_the_person_asks_for() {
    for (way, expected) in [("module", "spawn"), ("main", "main"), ("subagent", "none")] {
        let desk = Desk::new();
        let main = desk.session("s");
        main.set_env("LEAF_FORK_WORK", "on");
        main.set_env("LEAF_FORK_WAY", way);
        let main = main.working();
        let follower = Follower::start(&main);
        let (_, action) = follower.take("look it up");
        assert_eq!(action["action"], expected, "{way}");
    }
}

/// A session in which the module got no fork started, again and again: the next is main's to start.
#[track_caller]
fn refused<'s, 'd>(follower: &Follower<'s, 'd>) {
    for message in ["the first", "the second", "the third"] {
        let (_, action) = follower.take(message);
        // One refusal may be the client's limit of the moment.
        assert_eq!(action["action"], "spawn");
        let said = follower.failed(&text(&action["turn"]), "the client has no such agent");
        assert_eq!(said["outcome"], "hand_back");
    }
}

/// PreToolUse of main's Agent call with this prompt.
#[track_caller]
fn agent_call(main: &Session<'_>, prompt: &str) -> HookRan {
    let mut payload = main.payload("PreToolUse.main.Agent.spawn");
    payload["tool_input"] = json!({
        "description": "as I like", "prompt": prompt, "subagent_type": "general-purpose", "name": "mine", "model": "opus",
    });
    main.hook(&payload)
}

#[track_caller]
fn rewritten(hook: &HookRan) -> Value {
    let output = &hook.answer.as_ref().expect("an answer")["hookSpecificOutput"];
    assert_eq!(output.get("permissionDecision"), None, "no permission is granted with it: {output}");
    output["updatedInput"].clone()
}

/// What the line to main quotes as the call's prompt.
#[track_caller]
fn asked_prompt(said: &str, turn: &str) -> String {
    let prompt = format!("leaf fork {turn}");
    assert!(said.contains(&format!("\"{prompt}\"")), "{said}");
    prompt
}

#[test]
fn r117_a_subagent_is_main_s_to_start_and_the_hook_puts_the_work_in() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    refused(&follower);
    main.boundary().says();
    let (thread, action) = follower.take("look it up");
    assert_eq!(action, json!({"action": "none"}), "the module has no part in it");
    let entry = taken(&desk, &thread);
    assert_eq!(entry["way"], "subagent");
    assert!(text(&entry["why"]).contains("no fork started"), "{entry}");
    let turn = text(&entry["turn"]);
    // The same answer to the same question (R29).
    let again = follower.module(&["fork", "line", &thread, "--json"], "{}").ok().json();
    assert_eq!(again, json!({"action": "none"}));
    assert_eq!(holder_kind(&desk, &thread), "fork");
    let said = main.boundary().says();
    assert!(said.contains("Agent tool") && said.contains(&thread), "{said}");
    assert!(!said.contains("look it up"), "the message is the fork's: {said}");
    let input = rewritten(&agent_call(&main, &asked_prompt(&said, &turn)));
    assert_eq!(
        (&input["subagent_type"], &input["name"], &input["run_in_background"], &input["model"]),
        (&json!("fork"), &json!(format!("leaf-{thread}")), &json!(true), &json!("opus"))
    );
    assert!(text(&input["description"]).ends_with(&turn), "{input}");
    assert!(text(&input["prompt"]).contains("look it up"), "{input}");
    let fork = started_by_main(&main, &turn, &input);
    fork.begins().silent_or_context();
    fork.launched().silent_or_context();
    assert_eq!(turn_of(&desk, &turn)["agent_id"], json!(fork.agent));
    assert!(agent_call(&main, &format!("leaf fork {turn}")).denied().contains("runs already"));
    fork.reply(&fork.reference(), "found it");
    assert_eq!(follower.ended_agent(&fork.agent, "done")["outcome"], "answer");
    assert_eq!(status(&desk, &thread), "answered");
}

/// The fork that the client makes of main's call as the hook rewrote it.
fn started_by_main<'s, 'd>(main: &'s Session<'d>, turn: &str, input: &Value) -> Fork<'s, 'd> {
    let mut action = input.clone();
    action["action"] = json!("spawn");
    action["turn"] = json!(turn);
    Fork::spawned(main, &action)
}

fn turn_of(desk: &Desk, id: &str) -> Value {
    turns(desk).into_iter().find(|turn| turn["turn"] == id).expect("the turn")
}

#[test]
fn r117_without_the_module_the_notification_ends_a_subagents_run() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    refused(&follower);
    let (thread, _) = follower.take("look it up");
    let turn = text(&taken(&desk, &thread)["turn"]);
    let input = rewritten(&agent_call(&main, &format!("leaf fork {turn}")));
    let fork = started_by_main(&main, &turn, &input);
    fork.begins().silent_or_context();
    fork.launched().silent_or_context();
    follower.kill();
    fork.stops("HAND BACK: main has it already").silent_or_context();
    assert_eq!(outcome(&desk, &turn).0, "running", "a stop alone is provisional (R78)");
    let told = notification(&main, &fork.agent, Some(&fork.tool_use()), "completed", "HAND BACK: main has it already");
    assert!(main.hook(&told).says().contains("main has it already"));
    assert_eq!(outcome(&desk, &turn), ("ended".into(), json!("hand_back")));
}

#[test]
fn r117_an_idle_main_is_woken_to_start_a_subagent() {
    let desk = Desk::new();
    let main = desk.session("s");
    main.set_env("LEAF_FORK_WORK", "on");
    main.set_env("LEAF_FORK_WAY", "subagent");
    let main = main.working();
    let follower = Follower::start(&main);
    main.stop().silent();
    let (thread, _) = follower.take("look it up");
    assert!(follower.find_wake());
    let said = main.prompt("something waits").says();
    asked_prompt(&said, &text(&taken(&desk, &thread)["turn"]));
}

#[test]
fn r117_a_subagent_that_main_does_not_start_in_a_minute_is_main_s_again() {
    let desk = Desk::new();
    let main = desk.session("s");
    main.set_env("LEAF_FORK_WORK", "on");
    main.set_env("LEAF_FORK_WAY", "subagent");
    let main = main.working();
    let follower = Follower::start(&main);
    let (thread, _) = follower.take("look it up");
    let turn = text(&taken(&desk, &thread)["turn"]);
    desk.advance(60);
    // Read after the minute, the call is refused whoever wrote that down.
    let reason = agent_call(&main, &format!("leaf fork {turn}")).denied();
    assert!(reason.contains("over"), "{reason}");
    let said = main.boundary().says();
    assert!(said.contains("look it up") && !said.contains("Agent tool"), "{said}");
    assert_eq!(until_ended(&desk, &turn), json!("hand_back"));
    follower.quiet("start", 300);
    // Another's, or a made up one, is denied as well; any other call is main's own matter.
    assert!(agent_call(&main, "leaf fork 0123456789abcdef").denied().contains("over"));
    agent_call(&main, "look at the leaf fork").silent();
}

#[test]
fn r117_a_launch_that_the_client_refuses_main_is_not_asked_for_again() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    refused(&follower);
    for message in ["look it up", "and this", "and this too"] {
        let (thread, _) = follower.take(message);
        let input = rewritten(&agent_call(&main, &format!("leaf fork {}", text(&taken(&desk, &thread)["turn"]))));
        let mut failed = main.payload("PostToolUseFailure.main.Agent.conc");
        failed["tool_input"] = input;
        main.hook(&failed).silent_or_context();
    }
    assert_eq!(main_owes(&desk).len(), 6);
    let (thread, action) = follower.take("and that");
    assert_eq!(action, json!({"action": "main"}), "neither the module nor main can, and headless costs");
    let why = text(&why_of(&desk, &thread, "handed")[0]["why"]);
    assert!(why.contains("module") && why.contains("main got") && why.contains("headless"), "{why}");
}

#[test]
fn r117_a_run_that_began_proves_that_the_way_is_open() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    follower.ended(&fork.turn, "HAND BACK: no");
    refused(&follower);
    let (_, action) = follower.take("once more");
    assert_eq!(action["action"], "spawn");
}

#[test]
fn r117_a_client_without_a_module_still_delivers_to_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    desk.thread("no follower ever came");
    assert!(main.boundary().says().contains("no follower ever came"));
    main.stop().silent_or_context();
    main.stop_active().silent_or_context();
    let watch = main.watch();
    watch.parked(300);
    desk.thread("while idle");
    watch.woke();
    assert!(main.prompt("go on").says().contains("while idle"));
}

#[test]
fn r117_headless_costs_and_must_be_asked_for_by_the_person() {
    let desk = Desk::new();
    fs::create_dir(desk.project().join(".leaf")).expect("a directory");
    fs::write(desk.project().join(".leaf/config.toml"), "[forks]\nheadless = true\nway = \"headless\"\n")
        .expect("a file");
    let client = Headless::new(&desk);
    client.says("work", "done", "leaf thread reply $REF found");
    let main = client.session("s", &OFF[..1]);
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    assert_eq!(action, json!({"action": "main"}), "an untrusted project switches nothing on");
    assert!(text(&why_of(&desk, &thread, "handed")[0]["why"]).contains("forks.headless"));
    assert_eq!(client.times("work"), 0);
}

#[test]
fn r118_a_headless_run_answers_in_a_process_of_its_own() {
    let desk = Desk::new();
    allow_headless(&desk, "");
    let client = Headless::new(&desk);
    client.says("work", "all done", &format!("{WAITS}\nleaf thread reply $REF found > $D/reply 2>&1"));
    let main = client.session("s", &OFF[..1]);
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    assert_eq!(action, json!({"action": "none"}));
    let argv = client.argv("work");
    let after = |flag: &str| argv.iter().position(|arg| arg == flag).and_then(|at| argv.get(at + 1)).cloned();
    assert_eq!(after("--resume").as_deref(), Some(main.id()));
    assert!(argv.iter().any(|arg| arg == "--fork-session"), "{argv:?}");
    assert_eq!(after("--allowedTools").as_deref(), Some("Bash(leaf:*)"));
    let prompt = client.input("work");
    assert!(prompt.contains("look it up") && !prompt.contains("SendMessage"), "{prompt}");
    // It is named as it opens, and runs.
    let turn = only_turn(&desk);
    let id = text(&turn["turn"]);
    assert_eq!((&turn["agent_id"], &turn["state"]), (&json!(format!("headless-{id}")), &json!("running")));
    assert_eq!(taken(&desk, &thread)["way"], "headless");
    let env = client.env("work");
    assert!(
        env.contains(&format!("LEAF_TURN={id}\n")) && env.contains(&format!("LEAF_SESSION={}\n", main.id())),
        "{env}"
    );
    for name in ["LEAF_TOKEN=", "CLAUDE_CODE_SESSION_ID=", "CLAUDE_PID="] {
        assert!(!env.contains(name), "{name} is another's: {env}");
    }
    // A further message is none of its business (R118), and after its end waits for what comes then (R77).
    desk.say(&thread, "and one more thing");
    assert_eq!(holder_kind(&desk, &thread), "fork");
    let_go(&desk);
    until_ended(&desk, &id);
    let reply = &desk.events("reply")[0];
    assert_eq!((&reply["turn"], &reply["by"], &reply["text"]), (&json!(id), &json!("fork"), &json!("found")));
    let ended = why_of(&desk, &thread, "ended");
    assert_eq!(
        (&ended[0]["evidence"], &ended[0]["outcome"], &ended[0]["tokens"], &ended[0]["ms"]),
        (&json!("process"), &json!("answer"), &json!(3120), &json!(321))
    );
    assert!(follower.ask_about(&thread).question.contains("one more thing"));
    assert!(!lives(client.pid("work")));
    assert!(sessions(&desk).len() == 1, "it opens no session");
}

#[test]
fn r118_its_last_words_hand_back_or_its_silence_does() {
    for (said, reason) in
        [("HAND BACK: main is at it", "main is at it"), ("", "without a word"), ("I looked", "I looked")]
    {
        let desk = Desk::new();
        let client = Headless::new(&desk);
        client.says("work", said, "");
        let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
        let follower = Follower::start(&main);
        let (thread, _) = follower.take("look it up");
        let turn = text(&only_turn(&desk)["turn"]);
        assert_eq!(until_ended(&desk, &turn), json!("hand_back"));
        let why = text(&why_of(&desk, &thread, "ended")[0]["why"]);
        assert!(why.contains(reason), "{said}: {why}");
        let heard = main.boundary().says();
        assert!(heard.contains(reason) && heard.contains("look it up"), "{heard}");
    }
}

#[test]
fn r119_a_headless_run_that_fails_or_is_cut_says_so() {
    let cut = r#"printf '{"is_error":true,"subtype":"error_max_turns","result":null,"errors":["Reached maximum number of turns (60)"]}'; exit 1"#;
    let unknown = "echo 'No conversation found' >&2; exit 1";
    for (shell, reason) in
        [(cut, "maximum number of turns"), (unknown, "No conversation found"), ("kill -9 $$", "failed")]
    {
        let desk = Desk::new();
        let client = Headless::new(&desk);
        client.does("work", shell);
        let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
        let follower = Follower::start(&main);
        let (thread, _) = follower.take("look it up");
        assert_eq!(until_ended(&desk, &text(&only_turn(&desk)["turn"])), json!("hand_back"));
        let why = text(&why_of(&desk, &thread, "ended")[0]["why"]);
        assert!(why.contains(reason), "{why}");
        assert_eq!(main_owes(&desk), [thread]);
    }
}

#[test]
fn r119_a_headless_run_inherits_the_permission_mode() {
    let desk = Desk::new();
    let client = Headless::new(&desk);
    client.says("work", "", "");
    let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
    let transcript = text(&main.payload("Stop.main.tui")["transcript_path"]);
    fs::create_dir_all(std::path::Path::new(&transcript).parent().expect("a directory")).expect("a directory");
    fs::write(&transcript, "{\"type\":\"user\",\"permissionMode\":\"acceptEdits\"}\n{\"type\":\"assistant\"}\n")
        .expect("a file");
    let follower = Follower::start(&main);
    follower.take("look it up");
    let argv = client.argv("work");
    let at = argv.iter().position(|arg| arg == "--permission-mode").expect("a mode");
    assert_eq!(argv[at + 1], "acceptEdits");
}

#[test]
fn r119_a_headless_run_has_its_time() {
    let desk = Desk::new();
    allow_headless(&desk, "headless_minutes = 2\n");
    let client = Headless::new(&desk);
    client.does("work", "sleep 600 & echo $! > $D/child; wait");
    let main = client.session("s", &OFF[1..2]);
    let follower = Follower::start(&main);
    let (thread, _) = follower.take("look it up");
    let pid = client.pid("work");
    let turn = text(&only_turn(&desk)["turn"]);
    desk.advance(119);
    assert_eq!(outcome(&desk, &turn).0, "running");
    desk.advance(1);
    assert_eq!(until_ended(&desk, &turn), json!("hand_back"));
    until("it is stopped", || (!lives(pid)).then_some(()));
    let child: u32 = fs::read_to_string(desk.path("claude/child")).expect("a pid").trim().parse().expect("a pid");
    until("what it started is stopped", || (!lives(child)).then_some(()));
    assert!(text(&why_of(&desk, &thread, "ended")[0]["why"]).contains("longer"), "it says so");
}

#[test]
fn r118_it_lives_by_its_process_alone() {
    let desk = Desk::new();
    let client = Headless::new(&desk);
    client.says("work", "done", &format!("{WAITS}\nleaf thread reply $REF found"));
    let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
    let follower = Follower::start(&main);
    let (thread, _) = follower.take("look it up");
    client.argv("work");
    let turn = text(&only_turn(&desk)["turn"]);
    // Neither a minute without a sign (R38), nor the follower's death, nor the client's ends it.
    desk.advance(61);
    follower.kill();
    assert_eq!(outcome(&desk, &turn).0, "running");
    main.client.kill();
    assert_eq!(outcome(&desk, &turn).0, "running");
    let pid = client.pid("work");
    let_go(&desk);
    until("it is done", || (!lives(pid)).then_some(()));
    assert_eq!(outcome(&desk, &turn).0, "ended", "whoever looks sees it");
    assert_eq!(status(&desk, &thread), "answered");
    assert_eq!(why_of(&desk, &thread, "ended").len(), 0, "and a reading command writes nothing (R88)");
    desk.say(&thread, "thanks");
    let ended = why_of(&desk, &thread, "ended");
    assert_eq!((&ended[0]["outcome"], &ended[0]["evidence"]), (&json!("answer"), &json!("process")));
}

#[test]
fn r118_killed_in_the_middle_its_thread_is_main_s() {
    let desk = Desk::new();
    let client = Headless::new(&desk);
    client.does("work", "sleep 600");
    let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
    let follower = Follower::start(&main);
    main.stop().silent();
    let (thread, _) = follower.take("look it up");
    let turn = text(&only_turn(&desk)["turn"]);
    crate::support::desk::signal_pid(client.pid("work"), "KILL");
    assert!(follower.find_wake(), "the follower sees it at once, and wakes");
    assert_eq!(outcome(&desk, &turn), ("ended".into(), json!("hand_back")));
    assert_eq!(main_owes(&desk), [thread]);
    assert!(main.prompt("something waits").says().contains("look it up"));
}

#[test]
fn r118_a_run_that_is_stopped_takes_its_processes_with_it() {
    let desk = Desk::new();
    let client = Headless::new(&desk);
    // One that doesn't listen.
    client.does("work", "trap '' TERM; sleep 600 & echo $! > $D/child; while :; do sleep 1; done");
    let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
    let follower = Follower::start(&main);
    let (_, _) = follower.take("look it up");
    let pid = client.pid("work");
    let child = until("a child", || fs::read_to_string(desk.path("claude/child")).ok()?.trim().parse::<u32>().ok());
    let turn = only_turn(&desk);
    assert!(desk.person(&["status"]).ok().out().contains(&text(&turn["name"])));
    desk.person(&["fork", "stop", &text(&turn["name"])]).ok();
    assert_eq!(outcome(&desk, &text(&turn["turn"])), ("ended".into(), json!("hand_back")));
    until("it is gone", || (!lives(pid) && !lives(child)).then_some(()));
    follower.quiet("stop", 200);
}

#[test]
fn r118_no_follow_up_resumes_a_headless_run() {
    let desk = Desk::new();
    let client = Headless::new(&desk);
    client.says("work", "done", "leaf thread reply $REF found");
    let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
    let follower = Follower::start(&main);
    let (thread, _) = follower.take("look it up");
    let first = text(&only_turn(&desk)["turn"]);
    until_ended(&desk, &first);
    desk.say(&thread, "and then?");
    assert_eq!(follower.sorted(&follower.ask_about(&thread), "small"), json!({"action": "none"}));
    let second = text(&turns(&desk)[0]["turn"]);
    assert_ne!(second, first);
    until_ended(&desk, &second);
    assert_eq!((client.times("work"), status(&desk, &thread).as_str()), (2, "answered"));
}

#[test]
fn r118_without_the_clients_program_it_is_main_s_at_once() {
    let desk = Desk::new();
    let main = desk.session("s");
    main.set_env("LEAF_FORK_WORK", "on");
    main.set_env("LEAF_FORK_WAY", "headless");
    main.set_env("PATH", "/usr/bin:/bin");
    let main = main.working();
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    assert_eq!(action, json!({"action": "main"}));
    assert!(text(&why_of(&desk, &thread, "handed")[0]["why"]).contains("PATH"));
}

#[test]
fn r118_nothing_of_leaf_starts_in_a_headless_run() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let headless = desk.session("headless").unattended();
    headless.set_env("LEAF_TURN", "0123456789abcdef");
    headless.set_env("LEAF_SESSION", main.id());
    // Its module would keep a follower running: that one follows nothing, and the session's keeps its lane.
    let second = headless.job(&["follow"]).start();
    assert!(second.wait(Duration::from_millis(500)).is_none(), "it stays, so that it isn't started again");
    follower.lives(100);
    second.signal("TERM");
    headless.watch().left();
    let reason = headless.hook(&headless.payload("PreToolUse.main.Agent.spawn")).denied();
    assert!(reason.contains("R116"), "{reason}");
    headless.run(&["fork", "line", "12345678"]).refused();
}

/// A session at rest whose watch does the follower's part.
fn resting<'d>(client: &Headless<'d>) -> Session<'d> {
    let main = client.session("s", &[]);
    main.stop().silent_or_context();
    main
}

#[track_caller]
fn until_part(desk: &Desk) {
    until("the watch has the follower's part", || {
        desk.state_or_none().filter(|state| state["follower"]["running"] == true)
    });
}

#[test]
fn r117_without_a_module_the_watch_asks_and_a_headless_fork_answers() {
    let desk = Desk::new();
    allow_headless(&desk, "way = \"headless\"\n");
    let client = Headless::new(&desk);
    client.finds_it_small();
    client.says("work", "done", "leaf thread reply $REF found");
    desk.thread("there was a page before");
    let main = resting(&client);
    main.prompt("go on").silent_or_context();
    main.stop().silent_or_context();
    main.stop_active().silent_or_context();
    let watch = main.watch();
    until_part(&desk);
    let thread = desk.thread("look it up");
    let argv = client.argv("line");
    let after = |flag: &str| argv.iter().position(|arg| arg == flag).and_then(|at| argv.get(at + 1)).cloned();
    assert_eq!((after("--resume").as_deref(), after("--tools").as_deref()), (Some(main.id()), Some("")));
    assert!(after("-p").expect("a question").contains("look it up"));
    assert!(!client.env("line").contains("LEAF_T"), "nothing of leaf's is in it");
    until("it is answered", || Some(status(&desk, &thread)).filter(|status| status == "answered"));
    let story: Vec<String> = why(&desk, &thread).iter().map(|entry| text(&entry["kind"])).collect();
    assert!(story.contains(&"line".into()) && story.contains(&"sort".into()), "{story:?}");
    assert_eq!(taken(&desk, &thread)["way"], "headless");
    until_ended(&desk, &text(&turns(&desk)[0]["turn"]));
    watch.parked(400);
}

/// An idle session with a page, and a watch with the follower's part.
macro_rules! watched {
    ($desk:ident, $client:ident, $main:ident, $watch:ident) => {
        let $desk = Desk::new();
        allow_headless(&$desk, "way = \"headless\"\n");
        let $client = Headless::new(&$desk);
        $desk.thread("there was a page before");
        let $main = resting(&$client);
        $main.prompt("go on").silent_or_context();
        $main.stop().silent_or_context();
        $main.stop_active().silent_or_context();
        let $watch = $main.watch();
        until_part(&$desk);
    };
}

#[test]
fn r117_what_the_watch_can_not_have_done_beside_main_wakes_it() {
    let unposted =
        [(json!({"line": "Main looks.", "sort": "now"}).to_string(), true), ("no JSON at all".to_owned(), false)];
    for (said, posted) in unposted {
        watched!(desk, client, main, watch);
        client.says("line", &said, "");
        let thread = desk.thread("look it up");
        watch.woke();
        assert_eq!(why_of(&desk, &thread, "handed").len(), 1);
        assert_eq!(desk.events("line").len(), usize::from(posted), "{said}");
        assert!(main.prompt("woken").says().contains("look it up"));
    }
}

#[test]
fn r117_nothing_is_kept_back_while_main_is_busy_without_a_module() {
    watched!(desk, client, main, watch);
    client.does("line", "sleep 600");
    let thread = desk.thread("look it up");
    let pid = client.pid("line");
    assert_eq!(status(&desk, &thread), "on_it");
    // The user's own prompt: the watch lets go, and the question is given up.
    let said = main.prompt("by the way").context().unwrap_or_default();
    until("the lane is free", || (desk.state()["follower"]["running"] == false).then_some(()));
    until("the line fork is stopped", || (!lives(pid)).then_some(()));
    // Whether it was quick enough for the prompt itself is nobody's promise.
    let said = said + &main.boundary().context().unwrap_or_default();
    assert!(said.contains("look it up"), "{said}");
    watch.parked(200);
}

#[test]
fn r117_a_killed_watch_loses_nothing() {
    watched!(desk, client, main, watch);
    client.does("line", "sleep 5");
    let thread = desk.thread("look it up");
    client.argv("line");
    crate::support::desk::signal_pid(watch.pid(), "KILL");
    until("the lane is free", || (desk.state()["follower"]["running"] == false).then_some(()));
    assert!(main_owes(&desk).contains(&thread));
    let second = main.watch();
    second.woke();
    assert!(main.prompt("woken").says().contains("look it up"));
}

#[test]
fn r117_a_module_takes_the_part_over_from_the_watch() {
    watched!(desk, client, main, watch);
    client.does("line", "sleep 600");
    let follower = Follower::start(&main);
    let thread = desk.thread("look it up");
    assert_eq!(follower.ask().thread, thread);
    watch.parked(300);
    assert_eq!(client.times("line"), 0, "it asks no more");
}

#[test]
fn r117_a_flurry_is_asked_about_anew() {
    watched!(desk, client, main, watch);
    client.says("line", &json!({"line": "On it.", "sort": "small"}).to_string(), WAITS);
    client.says("work", "done", "leaf thread reply $REF found");
    let thread = desk.thread("one");
    client.argv("line");
    desk.say(&thread, "two");
    let_go(&desk);
    until("it is answered", || Some(status(&desk, &thread)).filter(|status| status == "answered"));
    assert_eq!((client.times("line"), client.times("work")), (2, 1));
    assert_eq!(desk.events("line").len(), 1, "an answer to an older message posts nothing (R24)");
    let prompt = client.input("work");
    assert!(prompt.contains("one") && prompt.contains("two"), "{prompt}");
    watch.parked(200);
    drop(main);
}

#[test]
fn r117_doctor_says_which_way_would_be_used_and_why() {
    let desk = Desk::new();
    let client = Headless::new(&desk);
    let main = client.session("s", &[]);
    let ways = |desk: &Desk| {
        let said = desk.person(&["doctor", "--json"]);
        let checks = said.json()["checks"].as_array().expect("checks").clone();
        let found = checks.into_iter().find(|check| check["name"] == "forks").expect("a check of the forks");
        text(&found["detail"])
    };
    assert!(ways(&desk).contains("main"), "{}", ways(&desk));
    let follower = Follower::start(&main);
    assert!(ways(&desk).contains("module"), "{}", ways(&desk));
    follower.kill();
    let off = desk.session("off");
    off.set_env("CLAUDE_CODE_COORDINATOR_MODE", "1");
    off.set_env("LEAF_FORK_WORK", "on");
    desk.advance(1);
    let off = off.working();
    let _follower = Follower::start(&off);
    assert!(ways(&desk).contains("coordinator"), "{}", ways(&desk));
}

#[test]
fn r117_the_watch_wakes_main_to_start_a_subagent() {
    let desk = Desk::new();
    allow_headless(&desk, "");
    let client = Headless::new(&desk);
    client.finds_it_small();
    desk.thread("there was a page before");
    let main = resting(&client);
    main.prompt("go on").silent_or_context();
    main.stop().silent_or_context();
    main.stop_active().silent_or_context();
    let watch = main.watch();
    until_part(&desk);
    let thread = desk.thread("look it up");
    watch.woke();
    let entry = taken(&desk, &thread);
    assert_eq!(entry["way"], "subagent");
    assert!(text(&entry["why"]).contains("no hooks module"), "{entry}");
    asked_prompt(&main.prompt("woken").says(), &text(&entry["turn"]));
}

#[test]
fn r118_a_new_generation_ends_a_headless_run_and_stops_it() {
    let desk = Desk::new();
    let client = Headless::new(&desk);
    client.does("work", "sleep 600");
    let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
    let follower = Follower::start(&main);
    let (thread, _) = follower.take("look it up");
    let pid = client.pid("work");
    main.start("resume").silent_or_context();
    until("it is stopped", || (!lives(pid)).then_some(()));
    let ended = why_of(&desk, &thread, "ended");
    assert_eq!((&ended[0]["outcome"], &ended[0]["evidence"]), (&json!("hand_back"), &json!("generation")));
    assert_eq!(main_owes(&desk), [thread]);
}

/// `leaf fork line` is killed at each of its writes in turn: there is never a second run, and the message ends answered or with main.
#[test]
fn r118_killed_at_any_write_of_its_start_there_is_one_run_or_none() {
    let able = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    if !able.is_ok_and(|output| output.status.success()) {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let mut answered = 0;
    for write in 1..=10 {
        let desk = Desk::new();
        let client = Headless::new(&desk);
        client.says("work", "done", "leaf thread reply $REF found");
        let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
        let follower = Follower::start(&main);
        let thread = desk.thread("look it up");
        let ask = follower.ask_about(&thread);
        let line = format!(
            "printf %s {} | LEAF_TOKEN={} strace -qq -o /dev/null -e trace=write,pwrite64 \
             -e inject=write,pwrite64:signal=KILL:when={write} \"$LEAF\" fork line {thread} --through {}",
            quoted(&json!({"line": "On it.", "sort": "small"}).to_string()),
            quoted(follower.token()),
            ask.through,
        );
        main.shell(&line);
        // The module hears nothing and asks again; what was opened and not begun is begun by the follower.
        until(&format!("write {write} loses nothing"), || {
            if holder_kind(&desk, &thread) == "line_fork" {
                follower.sorted(&ask, "small");
            }
            desk.advance(1);
            let open = turns(&desk).iter().any(|turn| turn["outcome"].is_null());
            (!open && holder_kind(&desk, &thread) != "line_fork").then_some(())
        });
        answered += usize::from(status(&desk, &thread) == "answered");
        assert!(client.times("work") <= 1, "write {write}: {} runs", client.times("work"));
        assert!(status(&desk, &thread) == "answered" || main_owes(&desk) == [thread.as_str()], "write {write}");
        assert!(desk.events("reply").len() <= 1);
    }
    assert!(answered >= 3, "most starts get through: {answered}");
}

#[test]
fn r118_a_message_may_be_longer_than_an_argument() {
    let desk = Desk::new();
    let client = Headless::new(&desk);
    client.says("work", "done", "leaf thread reply $REF found");
    let main = client.session("s", &[("LEAF_FORK_WAY", "headless")]);
    let follower = Follower::start(&main);
    let long = "all work and no play. ".repeat(10_000);
    let event = desk.person_with_input(&["thread", "new", "-", "--json"], long.as_bytes()).ok().json();
    let thread = text(&event["thread"]);
    follower.sorted(&follower.ask_about(&thread), "small");
    until_ended(&desk, &text(&only_turn(&desk)["turn"]));
    assert_eq!(status(&desk, &thread), "answered");
    assert!(client.input("work").contains(long.trim_end()));
}
