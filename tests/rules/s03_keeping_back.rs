//! The switches (R1–R4) and keeping back (R13–R19).

use std::fs;

use crate::support::desk::{Desk, Session, id, read_log, references};
use crate::support::forks::{Follower, forking, holder_kind, main_owes, session_dir, status, text, turns, why_of};
use serde_json::{Value, json};

/// The line fork has it, and nobody tells main.
#[track_caller]
fn kept_back(desk: &Desk, main: &Session<'_>, thread: &str) {
    let state = desk.thread_state(thread);
    assert_eq!(state["holder"]["kind"], "line_fork", "{state}");
    assert_eq!((&state["holder"]["turn"], &state["holder"]["state"]), (&Value::Null, &Value::Null), "{state}");
    assert_eq!(status(desk, thread), "on_it");
    assert_eq!(main_owes(desk), Vec::<String>::new());
    let told = main.boundary().context().unwrap_or_default();
    assert_eq!(references(&told), Vec::<String>::new(), "{told}");
}

/// Main owes it, and its next boundary delivers it.
#[track_caller]
fn is_mains(desk: &Desk, main: &Session<'_>, thread: &str) -> String {
    assert_ne!(holder_kind(desk, thread), "line_fork");
    assert_eq!(main_owes(desk), [thread.to_owned()]);
    let told = main.boundary().says();
    let found = references(&told);
    let newest = text(desk.thread_state(thread)["waiting"].as_array().expect("waiting").last().expect("a message"));
    found.into_iter().find(|r| r.ends_with(&newest)).unwrap_or_else(|| panic!("a reference of {newest}: {told}"))
}

#[test]
fn r001_off_nothing_is_kept_back_and_nothing_is_asked() {
    let desk = Desk::new();
    let main = desk.session("s");
    main.set_env("LEAF_FORK_REPLIES", "off");
    main.set_env("LEAF_FORK_WORK", "on");
    let main = main.working();
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    is_mains(&desk, &main, &thread);
    follower.quiet("ask", 300);
}

#[test]
fn r002_working_forks_are_on_by_the_environment() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    assert_eq!(action["action"], "spawn", "{action}");
}

#[test]
fn r002_working_forks_are_on_by_the_persons_configuration() {
    let desk = Desk::new();
    let dir = desk.home().join(".config/leaf");
    fs::create_dir_all(&dir).expect("a directory");
    fs::write(dir.join("config.toml"), "[forks]\nwork = true\n").expect("a configuration");
    let main = desk.session("s").working();
    let follower = Follower::start(&main);
    let (_, action) = follower.take("look it up");
    assert_eq!(action["action"], "spawn", "{action}");
}

#[test]
fn r002_an_untrusted_projects_file_cannot_switch_them_on() {
    let desk = Desk::new();
    fs::create_dir(desk.project().join(".leaf")).expect("a directory");
    fs::write(desk.project().join(".leaf/config.toml"), "[forks]\nwork = true\n").expect("a configuration");
    let main = desk.session("s").working();
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    assert_eq!(action["action"], "main", "{action}");
    assert_eq!(turns(&desk), Vec::<Value>::new());
    is_mains(&desk, &main, &thread);
}

#[test]
fn r002_the_switches_are_those_of_the_clients_environment_at_its_start() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    main.set_env("LEAF_FORK_WORK", "off");
    main.set_env("LEAF_FORK_REPLIES", "off");
    let (_, action) = follower.take("look it up");
    assert_eq!(action["action"], "spawn", "{action}");
    let other = desk.session("t").working();
    other.set_env("LEAF_FORK_WORK", "on");
    let second = Follower::start(&other);
    let thread = id(&desk.ask(&["thread", "new", "look it up", "--session", other.id()]));
    let action = second.sorted(&second.ask_about(&thread), "small");
    assert_eq!(action["action"], "main", "off at its start: {action}");
}

#[test]
fn r003_off_the_line_is_posted_the_sort_journalled_and_small_goes_to_main() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    assert_eq!(action["action"], "main", "{action}");
    let lines = desk.events("line");
    assert_eq!((lines.len(), &lines[0]["text"], &lines[0]["author"]), (1, &json!("On it."), &json!("leaf")));
    let sorts = why_of(&desk, &thread, "sort");
    assert_eq!((sorts.len(), &sorts[0]["sort"]), (1, &json!("small")), "{sorts:?}");
    assert_eq!(turns(&desk), Vec::<Value>::new());
    is_mains(&desk, &main, &thread);
}

#[test]
fn r003_off_significant_and_now_act_as_always() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let follower = Follower::start(&main);
    let thread = desk.thread("rebuild it all");
    let action = follower.sorted(&follower.ask_about(&thread), "significant");
    assert_eq!(action["action"], "todo", "{action}");
    assert_eq!(desk.thread_state(&thread)["todos"][0]["id"], action["todo"]);
    let thread = desk.thread("yes, the second one");
    let action = follower.sorted(&follower.ask_about(&thread), "now");
    assert_eq!(action["action"], "main", "{action}");
}

#[test]
fn r004_rules_about_turns_act_whatever_the_switches_say_now() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.set_env("LEAF_FORK_WORK", "off");
    main.set_env("LEAF_FORK_REPLIES", "off");
    main.start("compact").silent_or_context();
    assert_eq!(status(&desk, &thread), "on_it");
    assert_eq!(references(&main.boundary().context().unwrap_or_default()), Vec::<String>::new());
    fork.reply(&fork.reference(), "found it");
    let reply = &desk.events("reply")[0];
    assert_eq!((&reply["by"], &reply["turn"]), (&json!("fork"), &json!(fork.turn)));
    fork.denied("env leaf status");
}

#[test]
fn r013_a_message_is_kept_back_for_the_line_fork() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    kept_back(&desk, &main, &thread);
    main.stop().silent();
    let ask = follower.ask();
    assert_eq!((&ask.thread, &ask.through), (&thread, &thread));
    assert!(ask.question.contains("a question"), "{}", ask.question);
    let state = desk.state();
    assert_eq!(state["owed"][0]["owed_by"]["kind"], "line_fork", "R52: {state}");
    assert_eq!(state["follower"]["running"], true);
    assert!(state["follower"]["since"].is_string());
}

#[test]
fn r013_a_not_once_a_turn_picked_one_of_them_up() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let first = desk.thread("before there was a follower");
    let reference = main.boundary().reference();
    let follower = Follower::start(&main);
    desk.say(&first, "and this");
    is_mains(&desk, &main, &first);
    follower.quiet("ask", 200);
    main.reply(&reference, "one");
    assert_eq!(main_owes(&desk), [first], "R7: the later one waits, and is main's");
}

#[test]
fn r013_a_not_where_it_arrived_while_main_owed_the_thread() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    assert_eq!(follower.line(&follower.ask(), "not JSON")["action"], "main");
    let later = desk.say(&thread, "another");
    let events = desk.events("message");
    assert_eq!(events[1]["main_owed"], true, "{}", events[1]);
    // What it stood on is gone; the mark of how it arrived stays.
    desk.person(&["thread", "withdraw", &thread]).ok();
    assert_eq!(desk.thread_state(&thread)["waiting"], json!([later]));
    is_mains(&desk, &main, &thread);
    follower.quiet("ask", 200);
}

#[test]
fn r013_a_a_thread_that_main_answered_is_kept_back_again() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    assert_eq!(follower.line(&follower.ask(), "not JSON")["action"], "main");
    main.reply(&main.boundary().reference(), "an answer");
    desk.say(&thread, "a further question");
    kept_back(&desk, &main, &thread);
    assert_eq!(follower.ask().thread, thread);
}

#[test]
fn r013_b_not_once_handed_to_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    assert_eq!(follower.line(&follower.ask(), "")["action"], "main");
    assert_eq!(why_of(&desk, &thread, "handed").len(), 1);
    desk.advance(1);
    is_mains(&desk, &main, &thread);
    follower.quiet("ask", 200);
}

#[test]
fn r013_c_not_what_was_there_before_the_followers_lane() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let early = desk.thread("before");
    let follower = Follower::start(&main);
    follower.quiet("ask", 200);
    is_mains(&desk, &main, &early);
    let late = desk.thread("after");
    assert_eq!(holder_kind(&desk, &late), "line_fork");
    assert_eq!(follower.ask().thread, late);
}

#[test]
fn r013_c_not_what_was_there_before_the_page_came() {
    let desk = Desk::new();
    let early = desk.thread("nobody reads this yet");
    let slug = desk.page_slug();
    let main = desk.session("s");
    main.set_env("LEAF_FORK_WORK", "on");
    main.start("startup").silent_or_context();
    let follower = Follower::start(&main);
    main.prompt("go on").silent_or_context();
    if desk.state()["session"].is_null() {
        main.run(&["page", "claim", &slug]).ok();
    }
    assert_eq!(desk.state()["session"], main.id());
    assert_ne!(holder_kind(&desk, &early), "line_fork");
    follower.quiet("ask", 200);
    let late = desk.thread("after it came");
    assert_eq!(holder_kind(&desk, &late), "line_fork");
}

#[test]
fn r013_d_not_while_a_fork_that_took_the_thread_runs() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.reply(&thread, "I know it: 42");
    assert_eq!(turns(&desk)[0]["state"], "running");
    desk.say(&thread, "and the other?");
    is_mains(&desk, &main, &thread);
    follower.quiet("ask", 200);
    assert_eq!(follower.ended(&fork.turn, "never mind")["outcome"], "taken_over");
}

#[test]
fn r013_e_not_where_the_newest_owes_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    assert_eq!(follower.ask().thread, thread);
    desk.person(&["thread", "say", &thread, "for your information", "--no-reply"]).ok();
    assert_eq!(main_owes(&desk), [thread]);
    assert!(main.boundary().says().contains("for your information"));
}

#[test]
fn r013_f_not_without_a_living_follower() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let thread = desk.thread("without one");
    is_mains(&desk, &main, &thread);
    main.reply(&thread, "so be it");
    let follower = Follower::start(&main);
    let thread = desk.thread("with one");
    kept_back(&desk, &main, &thread);
    follower.kill();
    assert_eq!(desk.state()["follower"]["running"], false);
    is_mains(&desk, &main, &thread);
}

#[test]
fn r013_g_for_thirty_seconds_and_no_longer() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let _follower = Follower::start(&main);
    let thread = desk.thread("a question");
    desk.advance(29);
    kept_back(&desk, &main, &thread);
    desk.advance(1);
    is_mains(&desk, &main, &thread);
}

#[test]
fn r013_h_and_ninety_after_the_oldest_however_many_come() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let _follower = Follower::start(&main);
    let thread = desk.thread("first");
    for n in 0..3 {
        desk.advance(25);
        kept_back(&desk, &main, &thread);
        desk.say(&thread, &format!("further {n}"));
    }
    desk.advance(14);
    kept_back(&desk, &main, &thread);
    desk.advance(1);
    is_mains(&desk, &main, &thread);
}

#[test]
fn r013_i_not_what_ever_had_a_todo() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("rebuild it all");
    let action = follower.sorted(&follower.ask(), "significant");
    assert_eq!(status(&desk, &thread), "todo");
    main.run(&["task", "end", &text(&action["todo"]), "dropped", "not now"]).ok();
    is_mains(&desk, &main, &thread);
    follower.quiet("ask", 200);
}

#[test]
fn r013_a_message_beside_one_with_a_todo_is_kept_back_on_its_own() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("rebuild it all");
    assert_eq!(follower.sorted(&follower.ask(), "significant")["action"], "todo");
    let second = desk.say(&thread, "what is it called?");
    let ask = follower.ask();
    assert_eq!((&ask.thread, &ask.through), (&thread, &second), "R96: sorted on its own");
    assert_eq!(holder_kind(&desk, &thread), "line_fork");
    assert_eq!(references(&main.boundary().context().unwrap_or_default()), Vec::<String>::new());
}

#[test]
fn r014_it_is_no_event_of_the_log_and_every_reader_sees_the_same() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    follower.ask();
    let log = read_log(&desk.log_path());
    assert_eq!(log.len(), 1, "the message alone: {log:?}");
    let seen = desk.state();
    assert_eq!(main.ask(&["page", "state"]), seen);
    let _ = fs::remove_file(desk.page().join("view.json"));
    assert_eq!(desk.state(), seen);
    main.boundary().silent_or_context();
    main.stop().silent();
    main.watch().parked(200);
    assert_eq!(status(&desk, &thread), "on_it");
}

#[test]
fn r014_the_lane_decides_and_not_the_log() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    follower.ask();
    let log = fs::read(desk.log_path()).expect("the log");
    follower.kill();
    assert_eq!(status(&desk, &thread), "waiting", "read off the dead lane");
    assert_eq!(fs::read(desk.log_path()).expect("the log"), log);
}

#[test]
fn r015_a_further_message_restarts_the_thirty_seconds() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    follower.ask();
    desk.advance(25);
    let second = desk.say(&thread, "I mean the blue one");
    desk.advance(25);
    kept_back(&desk, &main, &thread);
    let mut ask = follower.ask();
    while ask.through != second {
        ask = follower.ask();
    }
    desk.advance(5);
    is_mains(&desk, &main, &thread);
}

#[test]
fn r016_past_the_bound_the_next_hook_writes_the_hand_over() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    follower.ask();
    follower.kill();
    let again = Follower::start(&main);
    desk.advance(30);
    assert_eq!(again.module(&["fork", "line", &thread, "--json"], "late").ok().json()["action"], "none");
    is_mains(&desk, &main, &thread);
    let handed = why_of(&desk, &thread, "handed");
    assert_eq!(handed.len(), 1, "{handed:?}");
    assert!(handed[0]["why"].as_str().is_some_and(|w| !w.is_empty()), "{}", handed[0]);
}

#[test]
fn r016_a_newest_that_owes_nothing_hands_over_as_it_is_written() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    follower.ask();
    desk.person(&["thread", "say", &thread, "never mind", "--no-reply"]).ok();
    assert_eq!(why_of(&desk, &thread, "handed").len(), 1, "the command that ends it writes it");
    desk.say(&thread, "or do");
    is_mains(&desk, &main, &thread);
}

#[test]
fn r016_a_follower_that_is_gone_hands_over() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    follower.ask();
    follower.kill();
    is_mains(&desk, &main, &thread);
    assert_eq!(why_of(&desk, &thread, "handed").len(), 1);
    let again = Follower::start(&main);
    assert_eq!(main_owes(&desk), [thread], "handed is handed (R13(b))");
    again.quiet("ask", 200);
}

#[test]
fn r016_the_switch_hands_over() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    follower.ask();
    main.set_env("LEAF_FORK_REPLIES", "off");
    main.start("resume").silent_or_context();
    main.prompt("go on").silent_or_context();
    assert_ne!(holder_kind(&desk, &thread), "line_fork");
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r016_an_idle_session_is_woken_for_it() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    main.stop().silent();
    let thread = desk.thread("a question");
    assert_eq!(follower.line(&follower.ask(), "no object")["action"], "main");
    let wake = follower.expect("wake");
    assert!(!text(&wake["text"]).is_empty());
    assert_eq!(desk.events("pickup").len(), 0, "waking writes no pickup (R105)");
    assert!(main.prompt(&text(&wake["text"])).says().contains(&thread));
}

#[test]
fn r017_losing_a_hand_over_makes_the_follower_hand_over_again() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("a question");
    assert_eq!(follower.line(&follower.ask(), "no object")["action"], "main");
    let dir = session_dir(&desk, &main);
    let journal = fs::read_to_string(dir.join("journal.jsonl")).expect("the journal");
    assert!(journal.contains("\"handed\""), "the hand-over is in the session's journal: {journal}");
    let rest: String = journal.lines().filter(|l| !l.contains("\"handed\"")).map(|l| format!("{l}\n")).collect();
    fs::write(dir.join("journal.jsonl"), rest).expect("the journal");
    let _ = fs::remove_file(dir.join("state.json"));
    desk.advance(31);
    is_mains(&desk, &main, &thread);
    assert_eq!(why_of(&desk, &thread, "handed").len(), 1);
}

#[test]
fn r018_on_it_while_kept_back_queued_held_or_a_line_stands() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (held, fork) = follower.fork("look it up");
    assert_eq!((status(&desk, &held), holder_kind(&desk, &held)), ("on_it".into(), "fork".into()));
    let kept = desk.thread("kept back");
    assert_eq!(status(&desk, &kept), "on_it");
    let lined = desk.thread("main's");
    let ask = follower.ask_about(&lined);
    assert_eq!(follower.sorted(&ask, "now")["action"], "main");
    assert_eq!(status(&desk, &lined), "on_it", "a line stands");
    main.boundary().says();
    assert_eq!(status(&desk, &lined), "on_it", "on_it comes before working");
    fork.reply(&fork.reference(), "done");
    assert_eq!(status(&desk, &held), "answered");
}

#[test]
fn r018_kept_back_messages_are_left_out_of_deliveries_stop_and_watch() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    desk.thread("a question");
    main.boundary().silent();
    main.prompt("more").silent();
    main.stop().silent();
    let watch = main.watch();
    watch.parked(300);
    assert_eq!(desk.events("pickup"), Vec::<Value>::new());
    assert_eq!(follower.line(&follower.ask(), "no object")["action"], "main");
    assert!(follower.find_wake() || !watch.woke().is_empty(), "now the session is woken");
}

#[test]
fn r019_the_lane_is_held_before_there_is_a_page() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    assert_eq!(desk.pages(), Vec::<std::path::PathBuf>::new());
    let thread = desk.thread("the first message of the first page");
    kept_back(&desk, &main, &thread);
    assert_eq!(follower.ask().thread, thread);
}

#[test]
fn r019_the_lanes_record_is_there_with_its_token_hashed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let early = desk.thread("before");
    let follower = Follower::start(&main);
    let lane = fs::read_to_string(session_dir(&desk, &main).join("lanes/follower")).expect("the lane's record");
    let record: Value = serde_json::from_str(lane.trim()).unwrap_or_else(|e| panic!("{e}: {lane}"));
    assert!(lane.contains(&follower.pid().to_string()), "its pid: {record}");
    assert!(record["since"].is_string(), "{record}");
    assert!(lane.contains(&desk.page_slug()), "the seq of each page: {record}");
    assert!(!lane.contains(follower.token()), "its SHA-256 alone");
    assert_ne!(holder_kind(&desk, &early), "line_fork");
    for (path, bytes) in desk.files(&[]) {
        let clear = bytes.windows(follower.token().len()).any(|w| w == follower.token().as_bytes());
        assert!(!clear, "the token is nowhere on disk: {}", path.display());
    }
}

#[test]
fn r019_it_goes_on_under_its_clients_new_session_after_clear() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let first = desk.thread("before");
    follower.line(&follower.ask(), "no object");
    main.reply(&first, "done");
    main.end("clear").silent();
    let next = desk.session_of(&main.client, "t");
    next.set_env("LEAF_FORK_WORK", "on");
    next.start("clear").silent_or_context();
    next.prompt("go on").silent_or_context();
    follower.lives(200);
    let thread = desk.thread("after");
    assert_eq!(desk.state()["session"], next.id());
    assert_eq!(follower.ask().thread, thread);
    kept_back(&desk, &next, &thread);
}
