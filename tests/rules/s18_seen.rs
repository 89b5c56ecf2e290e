//! What runs because of leaf can be seen, stopped and accounted for: R122, and R120's tree.

use std::fs;

use crate::support::desk::{Desk, Session};
use crate::support::forks::{
    Follower, Fork, forking, main_owes, outcome, session_dir, shell_task, task_stop, text, turns, why_of,
};
use serde_json::{Value, json};

const SAID: &str = r#"{"line":"On it.","sort":"small"}"#;

/// `leaf status` of the desk's one session.
#[track_caller]
fn session_of(desk: &Desk) -> Value {
    let status = desk.ask(&["status"]);
    assert_eq!(status["sessions"].as_array().map(Vec::len), Some(1), "{status:#}");
    status["sessions"][0].clone()
}

#[track_caller]
fn shown(desk: &Desk) -> String {
    desk.person(&["status"]).ok().out()
}

/// The line of a text that has this in it.
#[track_caller]
fn line_with<'t>(text: &'t str, part: &str) -> &'t str {
    text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"))
}

/// `leaf fork ended` with what the run cost.
#[track_caller]
fn ended_at(follower: &Follower<'_, '_>, turn: &str, tokens: u64, ms: u64) -> Value {
    let (tokens, ms) = (tokens.to_string(), ms.to_string());
    let args = ["fork", "ended", "--turn", turn, "--tokens", &tokens, "--ms", &ms, "--json"];
    follower.module(&args, "done").ok().json()
}

#[track_caller]
fn listed(desk: &Desk, turn: &str) -> Value {
    let all = desk.ask(&["fork", "list"]);
    let found = all.as_array().expect("an array").iter().find(|fork| fork["turn"] == turn).cloned();
    found.unwrap_or_else(|| panic!("{turn}: {all:#}"))
}

#[track_caller]
fn branch(desk: &Desk, turn: &str) -> Value {
    let all = desk.ask(&["fork", "tree"]);
    let found = all.as_array().expect("an array").iter().find(|run| run["turn"] == turn).cloned();
    found.unwrap_or_else(|| panic!("{turn}: {all:#}"))
}

#[test]
fn r122_what_a_run_cost_stands_wherever_it_is_seen() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    assert_eq!((&listed(&desk, &fork.turn)["tokens"], &listed(&desk, &fork.turn)["ms"]), (&Value::Null, &Value::Null));
    fork.reply(&fork.reference(), "found");
    assert_eq!(ended_at(&follower, &fork.turn, 12_345, 4_200)["outcome"], "answer");
    let ended = &why_of(&desk, &thread, "ended")[0];
    assert_eq!((&ended["tokens"], &ended["ms"]), (&json!(12_345), &json!(4_200)), "{ended}");
    for seen in [listed(&desk, &fork.turn), branch(&desk, &fork.turn), session_of(&desk)["spent"].clone()] {
        assert_eq!((&seen["tokens"], &seen["ms"]), (&json!(12_345), &json!(4_200)), "{seen}");
    }
    let story = desk.person(&["why", &thread]).ok().out();
    for text in [
        line_with(&story, "turn ended").to_owned(),
        line_with(&desk.person(&["fork", "list"]).ok().out(), &fork.name).to_owned(),
        line_with(&desk.person(&["fork", "tree"]).ok().out(), &fork.name).to_owned(),
        line_with(&shown(&desk), "run of forks").to_owned(),
    ] {
        assert!(text.contains("12,345 tokens, 4.2 s"), "{text}");
    }
}

#[test]
fn r122_what_a_line_cost_is_counted_posted_or_not() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let say = |thread: &str, through: &str, said: &str, tokens: &str| {
        let args = ["fork", "line", thread, "--through", through, "--tokens", tokens, "--ms", "80", "--json"];
        text(&follower.module(&args, said).ok().json()["action"])
    };
    let thread = desk.thread("look it up");
    let stale = follower.ask_about(&thread).through;
    let newest = desk.say(&thread, "the blue one");
    assert_eq!(say(&thread, &stale, SAID, "100"), "ask");
    assert_eq!(session_of(&desk)["spent"], json!({"forks": 0, "lines": 1, "tokens": 100, "ms": 80}));
    assert_eq!(say(&thread, &newest, SAID, "200"), "spawn");
    let failed = desk.thread("and this");
    assert_eq!(say(&failed, &follower.ask_about(&failed).through, "no object", "400"), "main");
    assert_eq!(session_of(&desk)["spent"], json!({"forks": 1, "lines": 3, "tokens": 700, "ms": 240}));
    assert_eq!(why_of(&desk, &thread, "line")[0]["tokens"], 200, "the posted one's own");
    assert_eq!(why_of(&desk, &failed, "line")[0]["tokens"], 400, "a failed one's too");
    let kinds: Vec<String> = why_of(&desk, &thread, "cost").iter().map(|e| text(&e["kind"])).collect();
    assert_eq!(kinds, [""; 0], "the contract's kinds alone");
}

#[test]
fn r122_a_cost_told_late_or_twice_counts_once() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    task_stop(&main, &fork.agent).silent_or_context();
    assert_eq!(outcome(&desk, &fork.turn).0, "ended");
    assert_eq!(why_of(&desk, &thread, "ended")[0]["tokens"], Value::Null);
    for _ in 0..3 {
        assert_eq!(ended_at(&follower, &fork.turn, 1_000, 90_000)["outcome"], "hand_back");
    }
    assert_eq!(session_of(&desk)["spent"]["tokens"], 1_000);
    let ended = why_of(&desk, &thread, "ended");
    assert_eq!((ended.len(), &ended[0]["tokens"], &ended[0]["ms"]), (1, &json!(1_000), &json!(90_000)), "{ended:?}");
    assert_eq!(listed(&desk, &fork.turn)["tokens"], 1_000);
    // One that tells nothing stays untold, and what the client didn't tell is no nought.
    let (_, other) = follower.fork("and this");
    follower.ended(&other.turn, "done");
    assert_eq!(listed(&desk, &other.turn)["tokens"], Value::Null);
    let line = desk.person(&["fork", "list"]).ok().out();
    assert!(!line_with(&line, &other.name).contains("tokens"), "{line}");
}

#[test]
fn r122_the_runs_of_a_turn_that_rested_are_one_sum() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.boundary_backgrounding("b1").silent_or_context();
    fork.stops_with("it runs on", &[shell_task("b1")]).silent_or_context();
    assert_eq!(ended_at(&follower, &fork.turn, 100, 1_000)["state"], "resting");
    let now = session_of(&desk);
    assert_eq!((&now["forks"][0]["state"], &now["forks"][0]["tokens"]), (&json!("resting"), &json!(100)), "{now:#}");
    assert!(line_with(&shown(&desk), &fork.name).contains("resting since"), "{}", shown(&desk));
    fork.begins().silent_or_context();
    fork.reply(&fork.reference(), "found");
    fork.stops("done").silent_or_context();
    assert_eq!(ended_at(&follower, &fork.turn, 50, 500)["outcome"], "answer");
    assert_eq!((&listed(&desk, &fork.turn)["tokens"], &listed(&desk, &fork.turn)["ms"]), (&json!(150), &json!(1_500)));
    assert_eq!(branch(&desk, &fork.turn)["tokens"], 150);
    assert_eq!(why_of(&desk, &thread, "resting")[0]["tokens"], 100, "each entry its own");
    assert_eq!(why_of(&desk, &thread, "ended")[0]["tokens"], 50);
}

#[test]
fn r122_the_sum_is_of_this_generation_and_survives_a_lost_cache() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    ended_at(&follower, &fork.turn, 700, 7_000);
    let spent = session_of(&desk)["spent"].clone();
    assert_eq!(spent, json!({"forks": 1, "lines": 1, "tokens": 700, "ms": 7_000}));
    let _ = fs::remove_file(session_dir(&desk, &main).join("state.json"));
    assert_eq!(session_of(&desk)["spent"], spent);
    main.start("resume").silent_or_context();
    assert_eq!(session_of(&desk)["spent"], json!({"forks": 0, "lines": 0}));
    assert!(!shown(&desk).contains("tokens"), "{}", shown(&desk));
}

#[test]
fn r122_status_shows_the_follower_the_watch_and_what_is_kept_back() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    assert_eq!(session_of(&desk)["follower"], false);
    assert_eq!(
        (session_of(&desk)["follower_pid"].clone(), session_of(&desk)["kept_back"].clone()),
        (Value::Null, json!([]))
    );
    let follower = Follower::start(&main);
    let since = desk.now();
    desk.advance(5);
    let now = session_of(&desk);
    assert_eq!((&now["follower"], &now["follower_pid"]), (&json!(true), &json!(follower.pid())), "{now:#}");
    assert_eq!(text(&now["follower_since"]), stamp(since));
    assert!(shown(&desk).contains(&format!("pid {}", follower.pid())), "{}", shown(&desk));
    let thread = desk.thread("a question");
    let asked = desk.now();
    desk.advance(10);
    let now = session_of(&desk);
    let kept = &now["kept_back"][0];
    assert_eq!((&kept["thread"], &kept["queued"]), (&json!(thread), &json!(false)), "{now:#}");
    assert_eq!(text(&kept["since"]), stamp(asked));
    assert_eq!(text(&kept["until"]), stamp(asked + chrono::TimeDelta::seconds(30)), "R13(g)");
    assert!(line_with(&shown(&desk), "kept back for a line fork").contains("main's in 20 seconds"), "{}", shown(&desk));
    desk.advance(20);
    assert_eq!(session_of(&desk)["kept_back"], json!([]));
    follower.kill();
    assert_eq!(session_of(&desk)["follower"], false);
    main.boundary().silent_or_context();
    main.stop().silent_or_context();
    let watch = main.watch();
    watch.parked(300);
    let now = session_of(&desk);
    assert_eq!((&now["watch"], now["watch_pid"].as_u64()), (&json!(true), Some(u64::from(watch.pid()))), "{now:#}");
    assert!(shown(&desk).contains(&format!("watch since {}", brief(desk.now()))), "{}", shown(&desk));
}

#[test]
fn r122_status_shows_the_queue_in_its_order() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    for n in 0..3 {
        follower.fork(&format!("look up {n}"));
    }
    let waiting: Vec<String> = (0..2).map(|n| follower.take(&format!("and {n}")).0).collect();
    let asked = desk.thread("not sorted yet");
    desk.advance(20);
    let now = session_of(&desk);
    let kept: Vec<(String, bool)> = now["kept_back"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|kept| (text(&kept["thread"]), kept["queued"] == true))
        .collect();
    assert_eq!(kept, [(waiting[0].clone(), true), (waiting[1].clone(), true), (asked, false)], "{now:#}");
    let line = shown(&desk);
    assert!(
        line_with(&line, &format!("thread {} waits for a fork", waiting[0])).contains("main's in 70 seconds"),
        "{line}"
    );
}

#[test]
fn r122_each_fork_is_shown_with_its_stop() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let opened = desk.now();
    desk.advance(120);
    fork.boundary().silent_or_context();
    let now = session_of(&desk);
    let shown_fork = &now["forks"][0];
    assert_eq!(
        (&shown_fork["name"], &shown_fork["turn"], &shown_fork["agent_id"], &shown_fork["thread"]),
        (&json!(fork.name), &json!(fork.turn), &json!(fork.agent), &json!(thread)),
        "{now:#}"
    );
    assert_eq!((text(&shown_fork["since"]), text(&shown_fork["renewed"])), (stamp(opened), stamp(desk.now())));
    let all = shown(&desk);
    let line = line_with(&all, &fork.name);
    for part in [
        format!("on thread {thread}"),
        format!("running since {}", brief(opened)),
        format!("last heard of {}", brief(desk.now())),
        format!("leaf fork stop {}", fork.name),
    ] {
        assert!(line.contains(&part), "{part}: {line}");
    }
    fork.stops("done").silent_or_context();
    assert!(line_with(&shown(&desk), &fork.name).contains("ending since"), "{}", shown(&desk));
    assert_ne!(session_of(&desk)["forks"][0]["ending"], Value::Null);
    fork.boundary().silent_or_context();
    desk.advance(15 * 60);
    assert!(line_with(&shown(&desk), &fork.name).contains("lapsed since"), "{}", shown(&desk));
    desk.person(&["fork", "stop", &fork.name]).ok();
    assert_eq!(session_of(&desk)["forks"], json!([]));
}

#[test]
fn r122_a_headless_run_is_shown_with_its_process_and_its_cap() {
    let desk = Desk::new();
    let config = desk.home().join(".config/leaf");
    fs::create_dir_all(&config).expect("a directory");
    fs::write(config.join("config.toml"), "[forks]\nheadless = true\nheadless_minutes = 3\n").expect("a configuration");
    // A client that is asked for a run of its own, and takes its time.
    let bin = desk.path("bin");
    fs::create_dir(&bin).expect("a directory");
    let program = bin.join("claude");
    fs::write(&program, "#!/bin/sh\nexec sleep 600\n").expect("a program");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let main = desk.session("s");
    main.set_env("LEAF_FORK_WORK", "on");
    main.set_env("LEAF_FORK_WAY", "headless");
    main.set_env("PATH", &format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default()));
    let main = main.working();
    // While main is idle the watch does the follower's part: one process, and one line.
    main.stop().silent_or_context();
    let watch = main.watch();
    watch.parked(300);
    // It takes the part once main has rested a moment.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while session_of(&desk)["follower_pid"].is_null() && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let idle = session_of(&desk);
    assert_eq!((&idle["watch_pid"], &idle["follower_pid"]), (&json!(watch.pid()), &json!(watch.pid())), "{idle:#}");
    assert!(line_with(&shown(&desk), "watch, which asks").contains(&format!("pid {}", watch.pid())));
    assert!(!shown(&desk).contains("follower since"), "{}", shown(&desk));
    main.prompt("go on").silent_or_context();
    let follower = Follower::start(&main);
    let (thread, _) = follower.take("look it up");
    let began = desk.now();
    let fork = session_of(&desk)["forks"][0].clone();
    assert_eq!((&fork["way"], &fork["thread"]), (&json!("headless"), &json!(thread)), "{fork}");
    let pid = fork["pid"].as_u64().unwrap_or_else(|| panic!("its process: {fork}"));
    let run = fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("it runs");
    assert!(run.contains("sleep"), "{run:?}");
    assert_eq!(text(&fork["until"]), stamp(began + chrono::TimeDelta::minutes(3)));
    let line = shown(&desk);
    let line = line_with(&line, &text(&fork["name"]));
    assert!(line.contains(&format!("pid {pid} until ")) && line.contains("leaf fork stop "), "{line}");
    desk.person(&["fork", "stop", &text(&fork["name"])]).ok();
    assert_eq!(session_of(&desk)["forks"], json!([]));
    assert!(main_owes(&desk).contains(&thread));
    let gone = |_: &u32| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().is_empty()
    };
    assert!((0..500).any(|n| gone(&n)), "and its process leaves");
}

#[test]
fn r122_a_fork_is_stopped_by_its_name_its_agent_its_turn_or_the_turns_beginning() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let by: [&dyn Fn(&Fork<'_, '_>) -> String; 5] = [
        &|fork| fork.name.clone(),
        &|fork| fork.agent.clone(),
        &|fork| fork.turn.clone(),
        &|fork| fork.turn[..4].to_owned(),
        &|fork| fork.turn[..11].to_owned(),
    ];
    for word in by {
        let (thread, fork) = follower.fork("look it up");
        desk.person(&["fork", "stop", &fork.turn[..3]]).refused();
        let stopped = desk.ask(&["fork", "stop", &word(&fork)]);
        assert_eq!(
            (&stopped["turn"], &stopped["name"], &stopped["agent_id"], &stopped["outcome"], &stopped["thread"]),
            (&json!(fork.turn), &json!(fork.name), &json!(fork.agent), &json!("hand_back"), &json!(thread)),
            "{stopped}"
        );
        assert_eq!(follower.expect("stop")["agent_id"], json!(fork.agent), "the client is told");
        assert!(main_owes(&desk).contains(&thread));
        let ended = &why_of(&desk, &thread, "ended")[0];
        assert_eq!((&ended["outcome"], &ended["evidence"]), (&json!("hand_back"), &json!("task_stop")), "{ended}");
    }
    desk.person(&["fork", "stop", "leaf-00000000"]).refused();
    desk.person(&["fork", "stop", "\u{1b}]0;x"]).refused();
}

#[test]
fn r122_a_stop_says_what_became_of_the_thread_and_who_tells_the_client() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let said = desk.person(&["fork", "stop", &fork.name]).ok().out();
    assert!(said.contains(&fork.turn) && said.contains(&format!("thread {thread} is main's again")), "{said}");
    assert!(said.contains("client is told"), "{said}");
    let (thread, fork) = follower.fork("and this");
    fork.reply(&fork.reference(), "found");
    let said = desk.person(&["fork", "stop", &fork.name]).ok().out();
    assert!(said.contains(&format!("it had answered thread {thread}")), "{said}");
    let (thread, fork) = follower.fork("and that");
    main.reply(&thread, "I know that one");
    let said = desk.person(&["fork", "stop", &fork.name]).ok().out();
    assert!(said.contains(&format!("another had thread {thread}")), "{said}");
    let (_, fork) = follower.fork("the last");
    follower.kill();
    let said = desk.person(&["fork", "stop", &fork.name]).ok().out();
    assert!(said.contains(&format!("stop agent {} there", fork.agent)), "nobody tells the client: {said}");
}

#[test]
fn r122_what_has_ended_is_not_stopped() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    let before = desk.files(&[]);
    for word in [&fork.name, &fork.agent, &fork.turn] {
        let why = desk.person(&["fork", "stop", word]).refused();
        assert!(why.contains("ended already") && why.contains("answered"), "{why}");
    }
    assert_eq!(desk.files(&[]), before, "and nothing is written");
    follower.quiet("stop", 200);
    // One that time ended, which nobody wrote yet.
    let (_, action) = follower.take("and this");
    follower.kill();
    desk.advance(60);
    let why = desk.person(&["fork", "stop", &text(&action["name"])]).refused();
    assert!(why.contains("ended already") && why.contains("handed back"), "{why}");
}

#[test]
fn r122_of_several_of_a_name_the_running_one_is_meant() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    desk.say(&thread, "and where?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    let again = follower.resume(&action);
    assert_eq!(turns(&desk).iter().filter(|turn| turn["name"] == json!(fork.name)).count(), 2);
    let stopped = desk.ask(&["fork", "stop", &fork.name]);
    assert_eq!(stopped["turn"], json!(again.turn), "{stopped}");
    assert_eq!(outcome(&desk, &fork.turn), ("ended".into(), json!("answer")), "the earlier stays as it was");
}

#[test]
fn r122_what_status_shows_is_stopped_from_anywhere_by_a_person_alone() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let (_, second) = follower.fork("and this");
    let other = forking(&desk, "t");
    other.run(&["fork", "stop", &fork.name]).refused();
    assert_eq!(outcome_in(&desk, &main, &fork.turn), "running", "another session's agent");
    let mut command = desk.command(&["fork", "stop", fork.name.as_str()]);
    let ran = command.current_dir(desk.home()).output().expect("leaf runs");
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(outcome_in(&desk, &main, &fork.turn), "ended");
    main.run(&["fork", "stop", &second.name]).ok();
}

/// How a turn of a session's page stands.
fn outcome_in(desk: &Desk, session: &Session<'_>, turn: &str) -> String {
    let listed = desk.ask(&["fork", "list", "--session", session.id()]);
    let found = listed.as_array().expect("an array").iter().find(|fork| fork["turn"] == turn).cloned();
    text(&found.unwrap_or_else(|| panic!("{turn}: {listed:#}"))["state"])
}

#[test]
fn r120_the_tree_has_main_its_prompts_their_runs_and_the_helpers() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (first, fork) = follower.fork("look it up");
    let helper = Fork::worker(&main);
    helper.begins().silent_or_context();
    helper.meta_below(&fork);
    helper.marked("leaf thread list");
    let deeper = Fork::worker(&main);
    deeper.meta_below(&helper);
    deeper.marked("leaf thread list");
    fork.reply(&fork.reference(), "found");
    ended_at(&follower, &fork.turn, 2_000, 3_000);
    main.stop().silent_or_context();
    main.prompt("the next thing").silent_or_context();
    let (second, later) = follower.fork("and this");
    let drawn = desk.person(&["fork", "tree"]).ok().out();
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(lines.len(), 7, "{drawn}");
    assert_eq!(lines[0], "main");
    assert!(lines[1].starts_with("├─ prompt "), "{drawn}");
    assert!(lines[2].starts_with(&format!("│  └─ leaf-{first}  turn {}", fork.turn)), "{drawn}");
    for part in [format!("thread {first}"), "answered (the client said so)".into(), "2,000 tokens, 3.0 s".into()] {
        assert!(lines[2].contains(&part), "{part}: {drawn}");
    }
    assert!(lines[2].contains(&fork.tool_use()), "{drawn}");
    assert_eq!(lines[3], format!("│     └─ helper {}", helper.agent));
    assert_eq!(lines[4], format!("│        └─ helper {}", deeper.agent));
    assert!(lines[5].starts_with("└─ prompt ") && lines[5] != lines[1].replace('├', "└"), "{drawn}");
    assert!(lines[6].starts_with(&format!("   └─ leaf-{second}  turn {}", later.turn)), "{drawn}");
    assert!(lines[6].contains("running"), "{drawn}");
    let run = branch(&desk, &fork.turn);
    assert_eq!(
        (&run["outcome"], &run["evidence"], &run["state"]),
        (&json!("answer"), &json!("module"), &json!("ended"))
    );
    assert_eq!(
        run["helpers"],
        json!([{"agent": helper.agent, "parent": fork.agent}, {"agent": deeper.agent, "parent": helper.agent}])
    );
    assert_eq!(branch(&desk, &later.turn)["state"], "running");
}

fn stamp(at: chrono::DateTime<chrono::Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

fn brief(at: chrono::DateTime<chrono::Utc>) -> String {
    at.format("%Y-%m-%d %H:%M UTC").to_string()
}
