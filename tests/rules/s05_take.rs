//! A fork takes a thread: R27–R33, R35.

use std::fs;
use std::path::PathBuf;

use crate::support::desk::{Desk, Session, id, is_hex, mode, read_log, references};
use crate::support::forks::{
    Follower, Fork, forking, holder_kind, main_owes, outcome, session_dir, status, text, turn, turns, why_of,
};
use crate::support::prompts::{HOSTILE, assert_harmless, common, fenced};
use serde_json::{Value, json};

fn limit(desk: &Desk, running: u32) {
    let dir = desk.home().join(".config/leaf");
    fs::create_dir_all(&dir).expect("a directory");
    fs::write(dir.join("config.toml"), format!("[forks]\nmax_running = {running}\n")).expect("a configuration");
}

#[test]
fn r027_the_turn_and_its_pickup_of_all_that_waits() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("look it up");
    follower.ask();
    let second = desk.say(&thread, "the blue one");
    let mut ask = follower.ask();
    while ask.through != second {
        ask = follower.ask();
    }
    let action = follower.sorted(&ask, "small");
    let pickup = &desk.events("pickup")[0];
    assert_eq!(pickup["messages"], json!([thread, second]));
    assert_eq!((&pickup["turn"], &pickup["by"]), (&action["turn"], &json!("fork")));
    let prompt = text(&action["prompt"]);
    let reference = format!("{}:{second}", text(&pickup["delivery"]));
    assert_eq!(references(&prompt), [reference], "{prompt}");
    assert!(prompt.contains("look it up") && prompt.contains("the blue one"), "{prompt}");
    assert_eq!(holder_kind(&desk, &thread), "fork");
    assert_eq!(why_of(&desk, &thread, "taken").len(), 1);
}

#[test]
fn r027_a_message_with_an_open_todo_is_not_picked_up() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("rebuild it all");
    assert_eq!(follower.sorted(&follower.ask(), "significant")["action"], "todo");
    let second = desk.say(&thread, "what is it called?");
    assert_eq!(follower.sorted(&follower.ask(), "small")["action"], "spawn");
    assert_eq!(desk.events("pickup")[0]["messages"], json!([second]));
    main.boundary().silent_or_context();
}

#[test]
fn r027_a_turn_whose_pickup_is_missing_is_ended_by_the_next_who_sees_it() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let log = fs::read_to_string(desk.log_path()).expect("the log");
    let rest: String = log.lines().filter(|l| !l.contains("\"pickup\"")).map(|l| format!("{l}\n")).collect();
    assert_ne!(rest, log, "the pickup was there");
    fs::write(desk.log_path(), rest).expect("the log");
    let _ = fs::remove_file(desk.page().join("view.json"));
    desk.advance(31);
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&thread)), "no moment in which nobody has it: {told}");
    assert_eq!(outcome(&desk, &text(&action["turn"])).0, "ended");
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r028_the_turn_opens_before_the_fork_starts_and_is_unnamed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let opened = turn(&desk, &text(&action["turn"]));
    assert_eq!((&opened["state"], &opened["agent_id"]), (&json!("running"), &Value::Null), "{opened}");
    assert_eq!(opened["name"], json!(format!("leaf-{thread}")));
    assert_eq!(why_of(&desk, &thread, "named"), Vec::<Value>::new());
    assert_eq!(desk.thread_state(&thread)["holder"]["turn"], action["turn"]);
}

#[test]
fn r028_a_resumes_turn_is_named_and_has_not_begun() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
    desk.say(&thread, "and where?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "resume", "{action}");
    let opened = turn(&desk, &text(&action["turn"]));
    assert_eq!((&opened["state"], &opened["agent_id"]), (&json!("running"), &json!(fork.agent)), "{opened}");
    desk.advance(60);
    main.boundary().silent_or_context();
    assert_eq!(outcome(&desk, &text(&action["turn"])), ("ended".into(), json!("hand_back")), "R38: not begun");
}

#[test]
fn r029_the_forks_name_and_description_and_the_same_action_again() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("look it up");
    let ask = follower.ask();
    let action = follower.sorted(&ask, "small");
    assert!(is_hex(&action["turn"], 16), "{action}");
    assert_eq!(action["name"], json!(format!("leaf-{thread}")));
    assert!(text(&action["description"]).ends_with(&text(&action["turn"])), "{action}");
    let before = read_log(&desk.log_path());
    assert_eq!(follower.sorted(&ask, "small"), action);
    desk.say(&thread, "one more");
    assert_eq!(follower.line(&ask, "no object"), action, "before R24, whatever was said");
    assert_eq!(read_log(&desk.log_path()).len(), before.len() + 1, "it posts nothing more");
    assert_eq!(turns(&desk).len(), 1);
    let fork = follower.launch(&action);
    assert_eq!(follower.sorted(&ask, "small")["action"], "none", "its run has begun");
    fork.boundary().says();
}

#[test]
fn r030_while_one_runs_no_take_opens_another() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let said = r#"{"line":"On it.","sort":"small"}"#;
    let second = desk.say(&thread, "and the other");
    let ran = follower.module(&["fork", "line", &thread, "--through", &second, "--json"], said).ok();
    assert_eq!(ran.json()["action"], "none");
    fork.boundary().reference();
    fork.reply(&desk.owed_ref(&thread), "both");
    desk.say(&thread, "and a third");
    let ran = follower.module(&["fork", "line", &thread, "--json"], said).ok();
    assert_eq!(ran.json()["action"], "none", "R48: it keeps its thread after it answered");
    assert_eq!(turns(&desk).len(), 1);
    follower.quiet("ask", 200);
}

#[test]
fn r030_a_take_ends_a_lapsed_turn_first_and_spawns_a_new_fork() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    desk.advance(15 * 60);
    assert_eq!(outcome(&desk, &fork.turn).0, "lapsed");
    desk.say(&thread, "and where?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "spawn", "not a resume (R89): {action}");
    assert_eq!(outcome(&desk, &fork.turn), ("ended".into(), json!("answer")));
    let ended = why_of(&desk, &thread, "ended");
    assert_eq!((ended.len(), &ended[0]["evidence"]), (1, &json!("superseded")), "{ended:?}");
}

#[test]
fn r031_a_failed_step_of_starting_hands_the_thread_back() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let ended = follower.failed(&text(&action["turn"]), "spawn refused: walrus");
    assert_eq!((&ended["outcome"], &ended["thread"]), (&json!("hand_back"), &json!(thread)));
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&thread)), "{told}");
    assert!(told.contains("walrus"), "R84: what failed: {told}");
}

#[test]
fn r032_main_hears_one_line_as_a_fork_takes_a_thread_and_is_not_woken() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let told = main.boundary().says();
    assert!(told.contains(&format!("leaf-{thread}")), "{told}");
    assert_eq!(references(&told), Vec::<String>::new(), "{told}");
    main.boundary().silent();
    main.stop().silent();
    let (_, other) = follower.fork("and this");
    follower.quiet("wake", 400);
    assert_ne!(fork.agent, other.agent);
}

#[test]
fn r033_beyond_three_a_thread_waits_in_the_queue() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let forks: Vec<(String, Fork<'_, '_>)> = (0..3).map(|n| follower.fork(&format!("look up {n}"))).collect();
    let (fourth, action) = follower.take("look up 4");
    assert_eq!(action["action"], "queued", "{action}");
    assert_eq!((status(&desk, &fourth), holder_kind(&desk, &fourth)), ("on_it".into(), "line_fork".into()));
    assert_eq!(desk.thread_state(&fourth)["line"], "On it.");
    assert_eq!(why_of(&desk, &fourth, "queued").len(), 1);
    let (fifth, action) = follower.take("look up 5");
    assert_eq!(action["action"], "queued");
    desk.advance(40);
    main.boundary().silent_or_context();
    assert_eq!(holder_kind(&desk, &fourth), "line_fork", "the queue outlasts the thirty seconds");
    forks[1].1.reply(&forks[1].1.reference(), "found");
    assert_eq!(follower.ended(&forks[1].1.turn, "done")["outcome"], "answer");
    let start = follower.expect("start");
    assert_eq!((&start["action"], &start["name"]), (&json!("spawn"), &json!(format!("leaf-{fourth}"))));
    assert_eq!(holder_kind(&desk, &fourth), "fork");
    assert_eq!(holder_kind(&desk, &fifth), "line_fork", "first come, first served");
    follower.quiet("start", 200);
}

#[test]
fn r033_the_queue_ends_ninety_seconds_after_the_oldest() {
    let desk = Desk::new();
    limit(&desk, 2);
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let forks = [follower.fork("look up 1"), follower.fork("look up 2")];
    let (third, action) = follower.take("look up 3");
    assert_eq!(action["action"], "queued", "{action}");
    desk.advance(89);
    assert_eq!(holder_kind(&desk, &third), "line_fork");
    desk.advance(1);
    assert_eq!(main_owes(&desk), [third.as_str()]);
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&third)), "{told}");
    follower.failed(&forks[0].1.turn, "");
    follower.quiet("start", 300);
}

#[test]
fn r033_a_further_message_keeps_the_place_and_is_asked_about_anew() {
    let desk = Desk::new();
    limit(&desk, 2);
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let forks = [follower.fork("look up 1"), follower.fork("look up 2")];
    let (third, action) = follower.take("look up 3");
    assert_eq!(action["action"], "queued", "{action}");
    let (fourth, _) = follower.take("look up 4");
    let further = desk.say(&third, "I mean 3b");
    let ask = follower.ask_about(&third);
    assert_eq!(ask.through, further);
    assert_eq!(follower.sorted(&ask, "small")["action"], "queued");
    follower.failed(&forks[0].1.turn, "");
    let start = follower.expect("start");
    assert_eq!(start["name"], json!(format!("leaf-{third}")), "before {fourth}");
    assert!(text(&start["prompt"]).contains("3b"));
    main.boundary().silent_or_context();
}

#[test]
fn r035_a_fork_is_spawned_only_for_the_pages_own_session() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("look it up");
    follower.ask();
    let other = forking(&desk, "t");
    let second = Follower::start(&other);
    let slug = desk.page_slug();
    let said = r#"{"line":"On it.","sort":"small"}"#;
    let ran = second.module(&["fork", "line", &thread, "--page", &slug, "--json"], said);
    if ran.code == 0 {
        assert_eq!(ran.json()["action"], "none", "{ran:?}");
    }
    assert_eq!(turns(&desk), Vec::<Value>::new());
    assert_eq!(desk.events("line"), Vec::<Value>::new());
    assert_eq!(holder_kind(&desk, &thread), "line_fork");
}

#[test]
fn r035_a_refused_launch_ends_the_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let mut payload = main.payload("PostToolUseFailure.main.Agent.conc");
    payload["tool_input"]["description"] = action["description"].clone();
    payload["tool_input"]["name"] = action["name"].clone();
    main.hook(&payload).silent_or_context();
    assert_eq!(outcome(&desk, &text(&action["turn"])), ("ended".into(), json!("hand_back")));
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    assert!(main.boundary().says().contains(&thread));
}

#[test]
fn r035_a_refused_launch_of_anything_else_ends_no_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    main.hook(&main.payload("PostToolUseFailure.main.Agent.conc")).silent_or_context();
    assert_eq!(outcome(&desk, &text(&action["turn"])).0, "running");
    let fork = follower.launch(&action);
    let mut payload = main.payload("PostToolUseFailure.main.Agent.conc");
    payload["agent_id"] = json!(fork.agent);
    payload["agent_type"] = json!("fork");
    main.hook(&payload).silent_or_context();
    assert_eq!(outcome(&desk, &fork.turn).0, "running");
}

trait Owed {
    fn owed_ref(&self, thread: &str) -> String;
}

impl Owed for Desk {
    #[track_caller]
    fn owed_ref(&self, thread: &str) -> String {
        let state = self.state();
        let owed = state["owed"].as_array().expect("owed");
        let entry = owed.iter().find(|o| o["thread"] == thread);
        text(&entry.unwrap_or_else(|| panic!("{thread} is owed: {state:#}"))["ref"])
    }
}

#[test]
fn r030_one_open_turn_a_thread_whatever_races() {
    let desk = Desk::new();
    let main: Session<'_> = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("look it up");
    let ask = follower.ask();
    let token = follower.token();
    let line = format!(
        "for i in 1 2 3 4; do printf %s '{{\"line\":\"On it.\",\"sort\":\"small\"}}' | LEAF_TOKEN='{token}' \
         \"$LEAF\" fork line {thread} --through {} --json > {}/race$i & done; wait",
        ask.through,
        desk.path("tmp").display()
    );
    main.shell(&line).ok();
    let actions: Vec<Value> = (1..=4)
        .map(|n| fs::read(desk.path("tmp").join(format!("race{n}"))).expect("an action"))
        .map(|bytes| serde_json::from_slice(&bytes).expect("JSON"))
        .collect();
    assert!(actions.iter().all(|a| a == &actions[0]), "R29: {actions:#?}");
    assert_eq!(actions[0]["action"], "spawn");
    assert_eq!(turns(&desk).len(), 1);
    assert_eq!(desk.events("line").len(), 1);
    let _ = id(&desk.events("pickup")[0]);
}

#[test]
fn r027_killed_at_any_moment_of_a_take_somebody_has_the_message() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let mut killed = 0;
    for n in 0..12 {
        let thread = desk.thread("look it up");
        let ask = follower.ask_about(&thread);
        let line = format!(
            "printf %s '{{\"line\":\"On it.\",\"sort\":\"small\"}}' > {dir}/said\n\
             LEAF_TOKEN='{token}' \"$LEAF\" fork line {thread} --through {through} --json < {dir}/said > /dev/null & p=$!\n\
             sleep 0.00{n:02}; kill -9 $p 2> /dev/null; wait $p",
            dir = desk.path("tmp").display(),
            token = follower.token(),
            through = ask.through,
        );
        killed += usize::from(main.shell(&line).code == 137);
        let kind = holder_kind(&desk, &thread);
        assert!(kind == "line_fork" || kind == "fork", "round {n}: {kind:?} has it");
        let told = main.boundary().context().unwrap_or_default();
        assert_eq!(references(&told), Vec::<String>::new(), "round {n}: it is not main's: {told}");
        // Whoever comes again takes it once.
        let action = follower.sorted(&ask, "small");
        assert_eq!(action["action"], "spawn", "round {n}: {action}");
        let open: Vec<Value> = turns(&desk).into_iter().filter(|t| t["state"] == "running").collect();
        assert_eq!((open.len(), &open[0]["turn"]), (1, &action["turn"]), "round {n}: {open:#?}");
        let fork = follower.launch(&action);
        fork.reply(&fork.reference(), "found");
        assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer", "round {n}");
        assert_eq!(status(&desk, &thread), "answered");
    }
    assert!(killed >= 2, "some were killed before their end: {killed}");
}

#[test]
fn r121_two_work_prompts_part_only_at_their_end() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, one) = follower.take("look it up");
    desk.advance(7);
    let (_, two) = follower.take(&"and this, which is longer: ".repeat(30));
    let (one, two) = (text(&one["prompt"]), text(&two["prompt"]));
    let constant = one.find("Scratch directory:").expect("its directory");
    assert!(common(&one, &two) >= constant, "the same up to there: {one}\n{two}");
    assert!(constant > 2000, "the constant part is the long one: {constant}");
    let head = &one[..constant];
    assert!(!head.contains("look it up") && !head.contains("2027") && !head.contains("leaf-"), "{head}");
}

#[test]
fn r121_every_command_that_a_work_prompt_names_is_a_real_one() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    // As they stand there: an indented line, what follows two blanks is about it.
    let lines: Vec<&str> = fork.prompt.lines().collect();
    let named: Vec<String> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("    leaf "))
        .map(|(at, line)| {
            let line = line.trim_start().split("  ").next().unwrap_or_default();
            let heredoc = line.ends_with("<<'END'");
            let body = if heredoc { format!("\n{}\nEND", lines[at + 1].trim()) } else { String::new() };
            format!("{line}{body}")
        })
        .collect();
    assert_eq!(named.len(), 5, "{named:?}");
    let answer = fork.prompt.rsplit("Answer: ").next().and_then(|line| line.lines().next()).expect("its command");
    let mut bodies = vec![answer.to_owned()];
    bodies.extend(named);
    for (n, command) in bodies.iter().enumerate() {
        // Each answers a message of its own, by that one's reference.
        let reference = if n == 0 {
            fork.reference()
        } else {
            desk.say(&thread, &format!("and {n}?"));
            fork.boundary().reference()
        };
        let command = command.replace("REF", &reference).replace("THREAD", &thread).replace("TITLE", "'see to it'");
        fork.call(&command.replace("TEXT", &format!("'answer {n}'"))).ok();
    }
    let said: Vec<String> = desk.events("reply").iter().map(|e| text(&e["text"])).collect();
    assert_eq!(said, ["answer 0", "answer 1", "...", "answer 5"]);
    assert_eq!(text(&desk.events("line").last().expect("a line")["text"]), "answer 3");
    assert_eq!(text(&desk.events("todo")[0]["title"]), "see to it");
    assert!(fork.prompt.contains("HAND BACK:") && fork.prompt.contains("SendMessage with to \"main\""));
}

#[test]
fn r121_the_scratch_directory_that_a_prompt_names_is_there() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let scratch = scratch(&fork.prompt);
    assert_eq!(scratch.file_name().expect("a name").to_string_lossy(), fork.turn);
    assert!(scratch.starts_with(desk.path("tmp")), "{}", scratch.display());
    for dir in [scratch.as_path(), scratch.parent().expect("a parent")] {
        assert!(dir.is_dir(), "{}", dir.display());
        assert_eq!(mode(dir) & 0o777, 0o700, "{}", dir.display());
    }
    // A resumed run's is its own turn's.
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    desk.say(&thread, "and where?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    let again = self::scratch(&text(&action["prompt"]));
    assert_eq!(again.file_name().expect("a name").to_string_lossy(), text(&action["turn"]));
    assert!(again.is_dir() && scratch.is_dir());
}

#[test]
fn r125_a_scratch_directory_in_a_place_of_others_is_not_offered() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let uid = own_uid(&desk);
    let elsewhere = desk.path("home/elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    std::os::unix::fs::symlink(&elsewhere, desk.path("tmp").join(format!("leaf-{uid}"))).expect("a link");
    let (thread, action) = follower.take("look it up");
    assert_eq!(action["action"], "spawn", "{action}");
    let prompt = text(&action["prompt"]);
    assert!(prompt.contains("Scratch directory: none"), "{prompt}");
    assert_eq!(fs::read_dir(&elsewhere).expect("a directory").count(), 0);
    assert_eq!(holder_kind(&desk, &thread), "fork");
    assert_eq!(desk.errors().len(), 1, "{:?}", desk.errors());
}

#[test]
fn contract_a_scratch_directory_goes_with_its_turns_record() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, first) = follower.fork("look it up");
    let oldest = scratch(&first.prompt);
    fs::write(oldest.join("notes"), "n").expect("a file of the fork's");
    first.reply(&first.reference(), "found");
    follower.ended(&first.turn, "done");
    // As many ended turns as a session's record holds, as its journal tells them.
    let journal = session_dir(&desk, &main).join("journal.jsonl");
    let mut lines = fs::read_to_string(&journal).expect("the journal");
    let taken: Value = serde_json::from_str(
        lines.lines().find(|line| line.contains("\"kind\":\"taken\"")).expect("the first turn's entry"),
    )
    .expect("JSON");
    for n in 0..255 {
        let mut entry = taken.clone();
        entry["turn"] = json!(format!("{n:016x}"));
        entry["name"] = json!("leaf-00000000");
        let ended = json!({"ts": entry["ts"], "kind": "ended", "turn": entry["turn"], "by": "fork", "outcome": "void"});
        entry.as_object_mut().expect("an object").remove("does");
        lines.push_str(&format!("{entry}\n{ended}\n"));
    }
    fs::write(&journal, lines).expect("the journal");
    let _ = fs::remove_file(session_dir(&desk, &main).join("state.json"));
    assert!(oldest.is_dir());
    let (_, second) = follower.fork("and this");
    let newest = scratch(&second.prompt);
    second.reply(&second.reference(), "found");
    assert_eq!(follower.ended(&second.turn, "done")["outcome"], "answer");
    assert!(turns(&desk).iter().all(|turn| turn["turn"] != json!(first.turn)), "its record went");
    assert!(!oldest.exists(), "and its directory");
    assert!(newest.is_dir());
    let _ = thread;
}

#[test]
fn r124_a_message_cannot_leave_its_fence_in_a_work_prompt() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = id(&desk.ask(&["thread", "new", HOSTILE, "--title", HOSTILE]));
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    let prompt = text(&action["prompt"]);
    assert_harmless(&prompt);
    assert_eq!(fenced(&prompt).len(), 1, "{prompt}");
    let last = prompt.trim_end().lines().next_back().expect("a last line").to_owned();
    assert!(last.starts_with("Answer: leaf thread reply "), "leaf's own words have the last line: {last}");
}

/// The directory that a prompt names.
#[track_caller]
fn scratch(prompt: &str) -> PathBuf {
    let line = prompt.lines().find_map(|line| line.strip_prefix("Scratch directory: "));
    PathBuf::from(line.unwrap_or_else(|| panic!("a scratch directory: {prompt}")))
}

fn own_uid(desk: &Desk) -> u32 {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata(desk.state_dir()).expect("the state directory"))
}
