//! Headless runs of scheduled forks: the faults W10 to W14, W16, W22, W32 and what a batch promises.

use std::fs;
use std::process::Stdio;

use crate::killed_takes::killer::can_trace;
use crate::support::desk::{Desk, Ran, Session, mode, quoted, signal_pid};
use crate::support::schedule::{Issue, Schedule, finished, is_gone, until};
use serde_json::{Value, json};

fn idle(desk: &Desk) -> Session<'_> {
    let session = desk.session("s").working();
    session.stop().silent_or_context();
    session
}

fn why(state: &Value) -> String {
    state["why"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_run_is_a_copy_of_the_conversation_that_knows_who_it_is() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.reports("journal", "written");
    let ids = schedule.run(&[Issue::of("journal")]);
    let asked = &schedule.asked("journal")[0];
    let args = asked.args.join(" ");
    assert!(args.starts_with(&format!("-p --resume {} --fork-session", session.id())), "{args}");
    assert!(args.contains("--permission-mode acceptEdits") && !args.contains("--model"), "{args}");
    assert!(args.contains(r#"--settings {"disableAllHooks":true}"#), "{args}");
    assert!(asked.prompt.contains("The body of journal.") && asked.prompt.contains("'journal'"), "{}", asked.prompt);
    assert!(!asked.prompt.contains("leaf:continue"), "no chain: {}", asked.prompt);
    let has = |line: String| assert!(asked.env.contains(&line), "{line}: {:?}", asked.env);
    for (name, value) in [
        ("LEAF_FORK", "1"),
        ("AUTOFORK_FORK", "1"),
        ("LEAF_TURN", &ids[0]),
        ("LEAF_SESSION", session.id()),
        ("AUTOFORK_SESSION_ID", session.id()),
        ("LEAF_TRIGGER", "idle:0"),
        ("AUTOFORK_FORK_NAME", "journal"),
        ("AUTOFORK_TRIGGER", "idle:0"),
    ] {
        has(format!("{name}={value}"));
    }
    assert!(!asked.env.iter().any(|line| line.starts_with("CLAUDE_CODE_SESSION_ID=")), "{:?}", asked.env);
    let state = schedule.state_of(&ids[0]);
    assert_eq!((&state["state"], &state["report"]), (&json!("completed"), &json!("waits")));
    let text = Ran::from(schedule.command(&["runs"]).output().expect("leaf runs")).ok().out();
    assert!(text.contains("journal") && text.contains("completed") && text.contains("with the next prompt"), "{text}");
}

#[test]
fn a_run_of_a_fork_starts_no_session_and_fires_no_hook() {
    let desk = Desk::new();
    let session = idle(&desk);
    let copy = desk.session("copy");
    copy.set_env("LEAF_FORK", "1");
    let before = desk.files(&[]);
    copy.start("startup").silent();
    copy.prompt("the fork's prompt").silent();
    copy.stop().silent();
    assert_eq!(desk.files(&[]), before, "{}", session.id());
}

#[test]
fn models_are_tried_in_order_and_the_one_that_did_it_is_told() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("try", "model: [small, large, huge]\nmode: plan");
    schedule.play("try", r#"case "$*" in *--model\ small*) echo 'no such model' >&2; exit 1 ;; esac; result done"#);
    let ids = schedule.run(&[Issue::of("try")]);
    let state = schedule.state_of(&ids[0]);
    assert_eq!((&state["state"], &state["model"]), (&json!("completed"), &json!("large")));
    let asked = schedule.asked("try");
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|asked| asked.args.join(" ").contains("--permission-mode plan")));
    // W14: that another model was tried is for the log, not for main.
    let said = session.prompt("and now?").says();
    assert!(said.contains("done") && !said.contains("small"), "{said}");
    assert!(desk.errors().iter().any(|line| line.contains("failed on small (no such model)")), "{:?}", desk.errors());
}

#[test]
fn a_run_that_fails_on_every_model_says_why() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    for (name, script, why) in [
        ("exit", "result fine; exit 3", "fine"),
        ("error", r#"echo '{"type":"result","is_error":true,"result":"credit is out"}'"#, "credit is out"),
        ("silent", "exit 0", "said nothing"),
        ("junk", "echo this is no json", "this is no json"),
        ("stderr", "echo broken >&2; exit 1", "broken"),
    ] {
        schedule.fork(name, "");
        schedule.play(name, script);
        let ids = schedule.run(&[Issue { fork: name, ..Issue::of(name) }]);
        let state = schedule.state_of(&ids[0]);
        assert_eq!(state["state"], "failed", "{name}: {state}");
        assert!(state["why"].as_str().is_some_and(|text| text.contains(why)), "{name}: {state}");
    }
    let said = session.prompt("and now?").says();
    assert!(said.contains("trigger: idle:0; failed") && said.contains("credit is out"), "{said}");
}

#[test]
fn a_forks_hooks_run_where_they_are_asked_for() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.reports("journal", "done");
    let ids = schedule.issue(&[Issue::of("journal")]);
    finished(&mut schedule.runner(&ids).env("AUTOFORK_FORK_HOOKS", "1").spawn().expect("a runner"));
    assert!(!schedule.asked("journal")[0].args.join(" ").contains("disableAllHooks"));
}

#[test]
fn w14_lines_around_the_result_fail_no_run() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("noisy", "");
    schedule.play("noisy", "echo a warning; result fine; echo a new version is there");
    let ids = schedule.run(&[Issue::of("noisy")]);
    assert_eq!(schedule.state_of(&ids[0])["state"], "completed");
}

#[test]
fn w22_the_launch_directory_is_pinned_and_a_conversation_is_looked_for_again() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    // The session moved on to another directory.
    fs::create_dir(desk.path("elsewhere")).expect("a directory");
    session.set_cwd(desk.path("elsewhere"));
    session.prompt("go there").silent_or_context();
    session.stop().silent_or_context();
    schedule.fork("late", "");
    schedule.play(
        "late",
        r#"[ -e "$HOME/seen" ] || { touch "$HOME/seen"; echo 'No conversation found with session ID: x'; exit 1; }; result found"#,
    );
    let ids = schedule.run(&[Issue::of("late")]);
    assert_eq!(schedule.state_of(&ids[0])["state"], "completed");
    let asked = schedule.asked("late");
    assert_eq!(asked.len(), 2);
    let project = desk.project().canonicalize().expect("the project");
    assert!(asked.iter().all(|asked| asked.pwd.trim() == project.to_string_lossy()), "{}", asked[0].pwd);
}

#[test]
fn w11_the_cap_kills_the_group_and_waits_for_nobodys_output() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("slow", "");
    // What it starts holds its output open.
    schedule.play("slow", r#"sleep 600 & echo $! > "$HOME/grandchild"; sleep 600"#);
    let ids = schedule.issue(&[Issue::of("slow")]);
    let mut runner = schedule.runner(&ids).env("AUTOFORK_CLAUDE_FORK_TIMEOUT_SECS", "1").spawn().expect("a runner");
    finished(&mut runner);
    let state = schedule.state_of(&ids[0]);
    assert_eq!(state["state"], "failed");
    assert!(why(&state).contains("longer than 1 s"), "{state}");
    let grandchild = fs::read_to_string(desk.home().join("grandchild")).expect("a pid").trim().parse().expect("a pid");
    until("the whole group is gone", || is_gone(grandchild).then_some(()));
}

#[test]
fn w32_a_batch_runs_at_most_so_many_at_once() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    let config = desk.home().join(".config/leaf");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("config.toml"), "[schedule]\nmax_parallel = 2\n").expect("the configuration");
    let names = ["a", "b", "c", "d"];
    for name in names {
        schedule.fork(name, "");
        // How many are at it, each counts for itself.
        schedule.play(
            name,
            r#"touch "$HOME/at-$LEAF_FORK_NAME"; ls "$HOME" | grep -c '^at-' >> "$HOME/most"; until_there go; rm "$HOME/at-$LEAF_FORK_NAME"; result x"#,
        );
    }
    let ids = schedule.issue(&names.map(Issue::of));
    let mut runner = schedule.start(&ids);
    until("two run", || (schedule.order().len() == 2).then_some(()));
    schedule.touch("go");
    finished(&mut runner);
    assert_eq!(schedule.order().len(), 4);
    let most = fs::read_to_string(desk.home().join("most")).expect("counts");
    assert!(most.lines().all(|count| count.parse::<u32>().is_ok_and(|count| count <= 2)), "{most}");
    assert!(ids.iter().all(|id| schedule.state_of(id)["state"] == "completed"));
}

#[test]
fn w12_what_waited_is_begun_as_the_last_that_it_waited_for_ends() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.reports("first", "the findings");
    schedule.reports("second", "done too");
    let ids = schedule.run(&[Issue::of("first"), Issue::of("second").after(&["first"])]);
    let (first, second) = (schedule.state_of(&ids[0]), schedule.state_of(&ids[1]));
    // The clock stands still here; the journal tells the order, with nothing of others between.
    assert_eq!(first["over"], second["begun"]);
    let journal = fs::read_to_string(schedule.dir().join("journal.jsonl")).expect("the journal");
    let changes: Vec<Value> = journal
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|entry| entry["kind"] == "schedule")
        .map(|entry| json!([entry["schedule"]["change"], entry["schedule"]["run"]]))
        .collect();
    let at = changes.iter().position(|change| *change == json!(["over", ids[0]])).expect("the end of the first");
    assert_eq!(changes[at + 1], json!(["begun", ids[1]]), "{changes:?}");
    assert_eq!(schedule.order(), ["first", "second"]);
    let prompt = &schedule.asked("second")[0].prompt;
    assert!(prompt.contains("The report of fork 'first'") && prompt.contains("the findings"), "{prompt}");
}

#[test]
fn a_failed_predecessor_releases_what_waited_for_it() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("broken", "");
    schedule.play("broken", "echo the disk is full >&2; exit 1");
    schedule.reports("other", "fine");
    schedule.reports("last", "all done");
    let batch = [Issue::of("broken"), Issue::of("other"), Issue::of("last").after(&["broken", "other"])];
    let ids = schedule.run(&batch);
    let states: Vec<Value> = ids.iter().map(|id| schedule.state_of(id)["state"].clone()).collect();
    assert_eq!(states, ["failed", "completed", "completed"]);
    let prompt = &schedule.asked("last")[0].prompt;
    assert!(prompt.contains("the disk is full") && prompt.contains("fine"), "{prompt}");
}

#[test]
fn activity_drops_what_still_waits() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("first", "");
    schedule.play("first", "until_there go; result done");
    schedule.reports("second", "never");
    let ids = schedule.issue(&[Issue::of("first"), Issue::of("second").after(&["first"])]);
    let mut runner = schedule.start(&ids);
    schedule.client_pid("first");
    assert_eq!(schedule.state_of(&ids[1])["state"], "waiting");
    assert_eq!(schedule.state_of(&ids[1])["waits_for"], json!(["first"]));
    session.prompt("I am back").silent_or_context();
    schedule.touch("go");
    finished(&mut runner);
    assert_eq!(schedule.state_of(&ids[0])["state"], "completed");
    assert_eq!(schedule.state_of(&ids[1])["state"], "dropped");
    assert_eq!(schedule.order(), ["first"]);
}

#[test]
fn another_forks_gate_holds_what_waits_back() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("goal", "gate: true");
    schedule.play("goal", "until_there go; result reached");
    schedule.reports("first", "done");
    schedule.reports("second", "done");
    let ids = schedule.issue(&[Issue::of("goal").gate(), Issue::of("first"), Issue::of("second").after(&["first"])]);
    let mut runner = schedule.start(&ids);
    schedule.until_state(&ids[1], "completed");
    assert_eq!(schedule.state_of(&ids[1])["state"], "completed");
    assert_eq!(schedule.state_of(&ids[2])["state"], "waiting");
    schedule.touch("go");
    finished(&mut runner);
    assert_eq!(schedule.state_of(&ids[2])["state"], "completed");
    assert_eq!(schedule.order().last().map(String::as_str), Some("second"));
}

#[test]
fn a_flush_runs_one_after_the_other_whatever_gate_stands() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    let names = ["c", "a", "b"];
    for name in names {
        schedule.fork(name, "");
        schedule.play(name, r#"[ -e "$HOME/at" ] && echo "two at once" >> "$HOME/order"; touch "$HOME/at"; sleep 0.05; rm "$HOME/at"; result x"#);
    }
    let owner = json!({"pid": std::process::id(), "start": null});
    let batch = [Issue::of("c").gate(), Issue::of("a").after(&["c"]), Issue::of("b")];
    let ids = schedule.issue_by(&batch, owner, true);
    schedule.carry_out(&ids);
    assert_eq!(schedule.order(), names);
    assert!(ids.iter().all(|id| schedule.state_of(id)["state"] == "completed"));
}

#[test]
fn w10_a_killed_runner_blocks_nothing_and_leaves_no_client() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("first", "");
    schedule.play("first", "sleep 600");
    schedule.reports("second", "never");
    let ids = schedule.issue(&[Issue::of("first"), Issue::of("second").after(&["first"])]);
    let mut runner = schedule.start(&ids);
    let client = schedule.client_pid("first");
    runner.kill().expect("it is killed");
    runner.wait().expect("it is gone");
    assert!(!is_gone(client));
    session.prompt("I am back").silent_or_context();
    let state = schedule.state_of(&ids[0]);
    assert_eq!((&state["state"], &state["why"]), (&json!("failed"), &json!("its process died")));
    assert_eq!(schedule.state_of(&ids[1])["state"], "failed", "nobody would begin it any more");
    until("its client is gone", || is_gone(client).then_some(()));
    assert!(!desk.state_dir().join("reports").exists());
}

#[test]
fn w10_a_batch_whose_owner_died_before_it_began_has_failed() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.reports("lost", "never");
    let mut dead = std::process::Command::new("true").spawn().expect("a process");
    dead.wait().expect("it ends");
    let ids = schedule.issue_by(&[Issue::of("lost")], json!({"pid": dead.id(), "start": "1"}), false);
    session.prompt("I am back").silent();
    assert_eq!(schedule.state_of(&ids[0])["state"], "failed");
    // Whoever comes too late begins nothing.
    schedule.carry_out(&ids);
    assert!(schedule.order().is_empty());
}

#[test]
fn w10_a_runner_killed_at_any_moment_leaves_a_run_that_ends() {
    if !can_trace() {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.reports("short", "the report");
    let mut states = std::collections::BTreeMap::new();
    let moments =
        [("write", 5), ("flock", 4), ("renameat", 2), ("fsync", 2), ("unlinkat", 2), ("execve", 1), ("wait4", 1)];
    for (call, n) in moments.into_iter().flat_map(|(call, most)| (1..=most).map(move |n| (call, n))) {
        let ids = schedule.issue(&[Issue::of("short")]);
        let runner = schedule.runner(&ids);
        let inject = format!("inject={call}:signal=KILL:when={n}");
        let traced = std::process::Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject])
            .arg(runner.get_program())
            .args(runner.get_args())
            .env_clear()
            .envs(runner.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))))
            .current_dir(desk.project())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        finished(&mut traced.expect("strace runs"));
        // One that had not begun is its owner's still: another runner takes it.
        schedule.carry_out(&ids);
        let said = session.prompt("and now?").context().unwrap_or_default();
        let again = session.prompt("and now?").context();
        let state = schedule.state_of(&ids[0]);
        let word = state["state"].as_str().unwrap_or_default().to_owned();
        match word.as_str() {
            "completed" => assert_eq!(said.matches("the report").count(), 1, "{call} {n}: no report is lost: {state}"),
            "failed" => assert!(!why(&state).is_empty(), "{call} {n}: {state}"),
            other => panic!("{call} {n}: {other}: {state}"),
        }
        assert_eq!(again, None, "{call} {n}: none comes twice");
        assert!(schedule.report_files().is_empty(), "{call} {n}");
        *states.entry(word).or_insert(0) += 1;
    }
    assert_eq!(states.len(), 2, "some are killed before their report, some after: {states:?}");
}

#[test]
fn a_runner_that_is_asked_to_leave_stops_what_it_started() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("first", "model: [a, b]");
    schedule.play("first", "sleep 600");
    schedule.reports("second", "never");
    let ids = schedule.issue(&[Issue::of("first"), Issue::of("second").after(&["first"])]);
    let mut runner = schedule.start(&ids);
    let client = schedule.client_pid("first");
    signal_pid(runner.id(), "TERM");
    finished(&mut runner);
    until("its client is gone", || is_gone(client).then_some(()));
    let states: Vec<Value> = ids.iter().map(|id| schedule.state_of(id)["state"].clone()).collect();
    assert_eq!(states, ["stopped", "stopped"]);
    assert_eq!(schedule.order(), ["first"], "no other model is tried");
    session.prompt("I am back").silent();
}

#[test]
fn a_scheduled_run_is_stopped_by_its_name_and_listed_with_the_forks() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("journal", "model: [a, b]");
    schedule.play("journal", "sleep 600");
    schedule.reports("other", "after it");
    desk.thread("a page");
    let ids = schedule.issue(&[Issue::of("journal"), Issue::of("other").after(&["journal"])]);
    let mut runner = schedule.start(&ids);
    let client = schedule.client_pid("journal");
    let listed = desk.ask(&["fork", "list"]);
    assert_eq!(listed[0]["name"], "scheduled-other", "the newest first: {listed}");
    assert_eq!((&listed[1]["name"], &listed[1]["state"]), (&json!("scheduled-journal"), &json!("running")));
    assert_eq!((&listed[1]["agent_id"], &listed[1]["outcome"]), (&Value::Null, &Value::Null));
    let turns = desk.state()["turns"].clone();
    assert!(turns.as_array().expect("turns").iter().any(|turn| turn["turn"] == ids[0].as_str()), "{turns}");
    let tree = desk.person(&["fork", "tree"]).ok().out();
    assert!(tree.contains("the schedule") && tree.contains("scheduled-journal"), "{tree}");
    desk.person(&["fork", "stop", "scheduled-journal"]).ok();
    until("its client is gone", || is_gone(client).then_some(()));
    finished(&mut runner);
    assert_eq!(schedule.state_of(&ids[0])["state"], "stopped");
    assert_eq!(schedule.order(), ["journal", "other"], "no other model is tried, and what waited for it runs");
    desk.person(&["fork", "stop", "journal"]).refused();
}

#[test]
fn complaint_05_a_run_outlives_whoever_started_it_and_keeps_nothing_of_its() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("long", "");
    schedule.play("long", "until_there go; result 'still here'");
    let ids = schedule.issue(&[Issue::of("long")]);
    // All that the caller has open is a pipe, by several descriptors: it is at its end once the caller is gone.
    let path = format!("{}:{}", desk.home().join("bin").display(), desk.env()["PATH"]);
    let line = format!(
        "PATH={} \"$LEAF\" runner --detach --session {} {} 3>&1 4>&1",
        quoted(&path),
        quoted(session.id()),
        ids[0]
    );
    let mut shell = std::process::Command::new("/bin/sh")
        .args(["-c", &line])
        .env_clear()
        .envs(desk.env())
        .env("LEAF", crate::support::desk::LEAF)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a caller");
    let mut out = shell.stdout.take().expect("a pipe");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut out, &mut said).expect("the pipe ends");
    finished(&mut shell);
    // Its word was waited for.
    assert_eq!(schedule.state_of(&ids[0])["state"], "running");
    session.client.kill();
    schedule.touch("go");
    schedule.until_state(&ids[0], "completed");
    assert_eq!(schedule.state_of(&ids[0])["report"], "waits");
}

#[test]
fn a_forks_file_counts_as_it_is_when_its_run_begins() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("first", "");
    schedule.play("first", "until_there go; result done");
    schedule.reports("gone", "never");
    let file = schedule.fork("changed", "");
    schedule.play("changed", "result fine");
    let batch = [Issue::of("first"), Issue::of("gone").after(&["first"]), Issue::of("changed").after(&["first"])];
    let ids = schedule.issue(&batch);
    let mut runner = schedule.start(&ids);
    schedule.client_pid("first");
    fs::remove_file(desk.home().join(".leaf/forks/gone.md")).expect("the file");
    fs::write(file, "---\nfork: true\n---\nAnother body.\n").expect("the file");
    schedule.touch("go");
    finished(&mut runner);
    let gone = schedule.state_of(&ids[1]);
    assert_eq!(gone["state"], "failed");
    assert!(why(&gone).contains("is no fork any more"), "{gone}");
    assert!(schedule.asked("changed")[0].prompt.contains("Another body."));
}

#[test]
fn a_guard_is_the_clients_rules_and_no_mode_widens_it() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("held", "mode: bypassPermissions\nguard:\n  write: [notes]\n  tools: [read, edit]");
    schedule.play("held", "result fine");
    schedule.run(&[Issue::of("held")]);
    let args = schedule.asked("held")[0].args.join(" ");
    let notes = desk.project().canonicalize().expect("the project").join("notes");
    assert!(args.contains("--permission-mode default") && !args.contains("bypass"), "{args}");
    assert!(args.contains(&format!("Edit(/{}/**)", notes.display())), "{args}");
    assert!(args.contains("--tools Read,Glob,Grep,Edit,Write,MultiEdit,NotebookEdit"), "{args}");
}

#[test]
fn w23_the_client_is_the_one_that_is_named_else_the_one_on_the_path() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.reports("journal", "from the path");
    let other = desk.home().join("other");
    fs::write(&other, "#!/bin/sh\ncat > /dev/null\necho '{\"result\":\"from the other\"}'\n").expect("a client");
    fs::set_permissions(&other, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a client");
    for (name, report) in
        [("LEAF_CLAUDE_BIN", "from the other"), ("AUTOFORK_CLAUDE_BIN", "from the other"), ("X", "from the path")]
    {
        let ids = schedule.issue(&[Issue::of("journal")]);
        finished(&mut schedule.runner(&ids).env(name, &other).spawn().expect("a runner"));
        let said = session.prompt("and now?").says();
        assert!(said.contains(report), "{name}: {said}");
    }
}

#[test]
fn a_run_may_open_to_dos_in_its_own_name_and_holds_no_thread() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    let thread = desk.thread("a question");
    schedule.fork("groom", "");
    let leaf = |command: &str| format!("leaf {command} > \"$HOME/said\" 2>&1; cat \"$HOME/said\" >> \"$HOME/all\"");
    let script = [
        leaf("task list"),
        leaf(&format!("task open {thread} 'look again'")),
        leaf(&format!("thread reply {thread} 'not mine' --unasked")),
        leaf("trust"),
        "result groomed".to_owned(),
    ];
    schedule.play("groom", &script.join("\n"));
    let ids = schedule.run(&[Issue::of("groom")]);
    let said = fs::read_to_string(desk.home().join("all")).expect("its words");
    let todo = &desk.events("todo")[0];
    assert_eq!(
        (&todo["turn"], &todo["by"], &todo["name"]),
        (&json!(ids[0]), &json!("fork"), &json!("scheduled-groom")),
        "{said}"
    );
    assert!(desk.events("reply").is_empty() && said.matches("leaf: ").count() >= 2, "{said}");
    assert_eq!(desk.thread_state(&thread)["holder"], Value::Null, "the thread is nobody's for it");
    assert!(schedule.asked("groom")[0].args.join(" ").ends_with("--allowedTools Bash(leaf:*)"));
}

#[test]
fn a_manual_run_prints_its_report_stamps_nothing_and_tells_main_nothing() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("ask", "tags: [mine]");
    schedule.play("ask", "result 'as asked'");
    let run = |args: &[&str]| Ran::from(schedule.command(args).output().expect("leaf runs"));
    assert_eq!(run(&["fork", "run", "ask"]).ok().out(), "as asked\n");
    assert_eq!(run(&["fork", "run", "--tag", "mine", "--json"]).ok().json()[0]["text"], "as asked");
    let runs = schedule.runs();
    assert_eq!(
        (&runs[0]["trigger"], &runs[0]["state"], &runs[0]["report"]),
        (&json!("manual"), &json!("completed"), &Value::Null)
    );
    session.prompt("and now?").silent();
    let state = fs::read_to_string(schedule.dir().join("journal.jsonl")).expect("the journal");
    assert!(!state.contains("in_pause\":1"), "{state}");
    let told = run(&["fork", "run", "ask", "--print"]).ok().out();
    assert!(told.contains("subagent_type \"fork\"") && told.contains("The body of ask."), "{told}");
    run(&["fork", "run", "nobody"]).refused();
    schedule.fork("stopped", "run_on: [boot]");
    let refusal = run(&["fork", "run", "stopped"]).refused();
    assert!(refusal.contains("leaf forks"), "{refusal}");
    schedule.play("ask", "echo broken >&2; exit 1");
    assert!(run(&["fork", "run", "ask"]).refused().contains("broken"));
}

#[test]
fn r126_a_projects_fork_runs_only_as_it_was_trusted() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    let forks = desk.project().join(".leaf/forks");
    fs::create_dir_all(&forks).expect("a directory");
    fs::write(forks.join("theirs.md"), "---\nfork: true\n---\nDo it.\n").expect("a fork");
    schedule.play("theirs", "result 'done by trust'");
    let run = || Ran::from(schedule.command(&["fork", "run", "theirs"]).output().expect("leaf runs"));
    assert!(run().refused().contains("leaf trust"));
    desk.person(&["trust"]).ok();
    assert_eq!(run().ok().out(), "done by trust\n");
    fs::write(forks.join("theirs.md"), "---\nfork: true\n---\nDo more.\n").expect("a fork");
    assert!(run().refused().contains("leaf trust"));
}

#[test]
fn a_fork_runs_no_forks() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("deep", "");
    schedule.play(
        "deep",
        &format!("{} fork run deep > \"$HOME/nested\" 2>&1; result done", quoted(crate::support::desk::LEAF)),
    );
    schedule.run(&[Issue::of("deep")]);
    let nested = fs::read_to_string(desk.home().join("nested")).expect("its words");
    assert!(nested.starts_with("leaf: ") && schedule.order().len() == 1, "{nested}");
}

#[test]
fn leaf_runs_follows_until_nobody_reads() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.fork("long", "");
    schedule.play("long", "until_there go; result done");
    let ids = schedule.issue(&[Issue::of("long")]);
    let mut follow = schedule.command(&["runs", "-f"]).stdout(Stdio::piped()).spawn().expect("leaf runs");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(follow.stdout.take().expect("a pipe")));
    let mut next = || lines.next().expect("a line").expect("a line");
    assert!(next().contains("issued"));
    let mut runner = schedule.start(&ids);
    assert!(next().contains("running"));
    schedule.touch("go");
    assert!(next().contains("completed"));
    finished(&mut runner);
    drop(lines);
    finished(&mut follow);
}

#[test]
fn w16_reports_are_the_users_alone() {
    let desk = Desk::new();
    let session = idle(&desk);
    let schedule = Schedule::new(&session);
    schedule.reports("journal", "secret");
    schedule.run(&[Issue::of("journal")]);
    let files = schedule.report_files();
    assert_eq!(files.len(), 1);
    assert_eq!(mode(&files[0]), 0o600);
    assert_eq!(mode(&schedule.dir().join("reports")), 0o700);
}
