//! The end of a run: R78–R86, R88.

use crate::support::desk::{Desk, read_log, references};
use crate::support::forks::{
    Follower, Fork, forking, holder_kind, main_owes, notification, outcome, shell_task, status, stop_listing,
    task_stop, text, turn, turns, why_of,
};
use serde_json::{Value, json};

#[track_caller]
fn ended_as(desk: &Desk, fork: &Fork<'_, '_>, expected: &str) {
    assert_eq!(outcome(desk, &fork.turn), ("ended".into(), json!(expected)));
}

#[track_caller]
fn runs(desk: &Desk, fork: &Fork<'_, '_>) {
    assert_eq!(outcome(desk, &fork.turn), ("running".into(), Value::Null));
}

/// The evidence of the thread's only end.
#[track_caller]
fn evidence(desk: &Desk, thread: &str) -> String {
    let ended = why_of(desk, thread, "ended");
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert!(ended[0]["outcome"].is_string(), "{}", ended[0]);
    text(&ended[0]["evidence"])
}

#[test]
fn r078_the_modules_word_ends_a_run() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let ended = follower.ended(&fork.turn, "done nothing");
    assert_eq!((&ended["outcome"], &ended["thread"]), (&json!("hand_back"), &json!(thread)));
    assert!(!evidence(&desk, &thread).is_empty());
    let (thread, fork) = follower.fork("and this");
    fork.reply(&fork.reference(), "found");
    let ended = follower.ended_agent(&fork.agent, "done");
    assert_eq!(
        (&ended["outcome"], &ended["thread"], &ended["wake"]),
        (&json!("answer"), &json!(thread), &json!(false))
    );
}

#[test]
fn r078_ended_twice_is_the_recorded_outcome_again() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let first = follower.ended(&fork.turn, "HAND BACK: I cannot");
    main.reply(&thread, "then I");
    for again in
        [follower.ended(&fork.turn, "done"), follower.failed(&fork.turn, ""), follower.ended_agent(&fork.agent, "")]
    {
        assert_eq!((&again["outcome"], &again["thread"]), (&first["outcome"], &first["thread"]));
    }
    fork.fails().silent_or_context();
    task_stop(&main, &fork.agent).silent_or_context();
    ended_as(&desk, &fork, "hand_back");
    assert_eq!(why_of(&desk, &thread, "ended").len(), 1);
}

#[test]
fn r078_a_failure_with_its_agent_id_ends_a_run() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.fails().silent_or_context();
    ended_as(&desk, &fork, "hand_back");
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&thread)), "{told}");
    assert!(told.contains("API Error"), "R84: what failed: {told}");
}

#[test]
fn r078_a_task_stop_that_names_it_ends_a_run() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let (_, other) = follower.fork("and this");
    task_stop(&main, "b0000000000000000").silent_or_context();
    runs(&desk, &fork);
    task_stop(&main, &fork.agent).silent_or_context();
    ended_as(&desk, &fork, "hand_back");
    runs(&desk, &other);
}

#[test]
fn r078_a_notification_with_the_runs_tool_use_id_ends_it() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    main.hook(&notification(&main, &fork.agent, Some("toolu_other"), "completed", "x")).silent_or_context();
    runs(&desk, &fork);
    main.hook(&notification(&main, &fork.agent, Some(&fork.tool_use()), "completed", "x")).silent_or_context();
    ended_as(&desk, &fork, "answer");
}

#[test]
fn r079_a_notification_without_a_tool_use_id_ends_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    main.hook(&notification(&main, &fork.agent, None, "completed", "x")).silent_or_context();
    desk.advance(61);
    main.boundary().silent_or_context();
    runs(&desk, &fork);
}

#[test]
fn r078_a_new_generation_ends_a_run() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let (other, second) = follower.fork("and this");
    second.reply(&second.reference(), "found");
    main.start("compact").silent_or_context();
    runs(&desk, &fork);
    main.start("resume").silent_or_context();
    assert_eq!(evidence(&desk, &thread), "generation");
    assert_eq!(evidence(&desk, &other), "generation");
    assert_eq!(why_of(&desk, &thread, "ended")[0]["outcome"], "hand_back");
    assert_eq!(why_of(&desk, &other, "ended")[0]["outcome"], "answer");
    assert_eq!(turns(&desk), Vec::<Value>::new(), "turns of this generation");
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r078_the_clients_death_ends_a_run() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.client.kill();
    let log = read_log(&desk.log_path());
    ended_state(&desk, &fork);
    assert_eq!(read_log(&desk.log_path()), log);
    assert_eq!(desk.thread_state(&thread)["holder"]["state"], "ended");
    let again = forking_again(&desk);
    let told = again.boundary().context().unwrap_or_default();
    let _ = told;
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    assert_eq!(why_of(&desk, &thread, "ended").len(), 1);
}

#[track_caller]
fn ended_state(desk: &Desk, fork: &Fork<'_, '_>) {
    assert_eq!(outcome(desk, &fork.turn).0, "ended", "R88: a dead client's turn");
}

fn forking_again(desk: &Desk) -> crate::support::desk::Session<'_> {
    let again = desk.session("s");
    again.set_env("LEAF_FORK_WORK", "on");
    again.start("resume").silent_or_context();
    again.prompt("go on").silent_or_context();
    again
}

#[test]
fn r078_subagent_stop_is_provisional_and_any_later_hook_takes_it_back() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.stops("I think I am done").silent_or_context();
    runs(&desk, &fork);
    assert_eq!(holder_kind(&desk, &thread), "fork");
    // Another plugin's hook blocked: the fork goes on, and isn't ended however long that takes.
    fork.boundary().silent_or_context();
    follower.kill();
    desk.advance(120);
    main.boundary().silent_or_context();
    runs(&desk, &fork);
    fork.reply(&fork.reference(), "found after all");
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r078_ending_waits_for_the_final_word_while_a_follower_is_live() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fork.stops("done").silent_or_context();
    desk.advance(120);
    main.boundary().silent_or_context();
    runs(&desk, &fork);
    assert_eq!(follower.ended_agent(&fork.agent, "done")["outcome"], "hand_back");
}

#[test]
fn r078_where_no_follower_is_live_it_ends_after_sixty_seconds() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.kill();
    fork.stops("done").silent_or_context();
    desk.advance(59);
    main.boundary().silent_or_context();
    runs(&desk, &fork);
    desk.advance(1);
    main.boundary().silent_or_context();
    ended_as(&desk, &fork, "answer");
    assert_eq!(why_of(&desk, &thread, "ended").len(), 1);
}

#[test]
fn r078_a_stop_that_no_longer_lists_a_fork_is_provisional() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    stop_listing(&main, &[fork.task()]).silent_or_context();
    main.prompt("more").silent_or_context();
    follower.kill();
    stop_listing(&main, &[]).silent_or_context();
    runs(&desk, &fork);
    desk.advance(60);
    main.prompt("and more").silent_or_context();
    ended_as(&desk, &fork, "hand_back");
}

#[test]
fn r079_a_stop_counts_only_where_an_earlier_payload_of_this_run_listed_it() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    follower.kill();
    stop_listing(&main, &[]).silent_or_context();
    desk.advance(61);
    main.prompt("more").silent_or_context();
    runs(&desk, &fork);
}

#[test]
fn r079_before_a_run_has_begun_an_old_ones_evidence_ends_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    desk.say(&thread, "and?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "resume");
    let resumed = Fork::resumed(&main, &action);
    // Late hooks of the earlier run.
    let late: [&dyn Fn(); 5] = [
        &|| fork.fails().silent_or_context(),
        &|| fork.stops("done").silent_or_context(),
        &|| task_stop(&main, &fork.agent).silent_or_context(),
        &|| main.hook(&notification(&main, &fork.agent, Some(&fork.tool_use()), "completed", "x")).silent_or_context(),
        &|| stop_listing(&main, &[]).silent_or_context(),
    ];
    for (n, hook) in late.iter().enumerate() {
        hook();
        assert_eq!(outcome(&desk, &resumed.turn).0, "running", "late hook {n}");
    }
    assert_eq!(follower.failed(&resumed.turn, "cannot resume")["outcome"], "hand_back", "a failed step does");
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r079_an_earlier_runs_notification_does_not_end_the_next() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    desk.say(&thread, "and?");
    let resumed = follower.resume(&follower.sorted(&follower.ask_about(&thread), "small"));
    main.hook(&notification(&main, &fork.agent, Some(&fork.tool_use()), "completed", "x")).silent_or_context();
    runs(&desk, &resumed);
}

/// A fork that stopped with a shell of its own still running.
#[track_caller]
fn resting<'s, 'd>(follower: &Follower<'s, 'd>) -> (String, Fork<'s, 'd>) {
    let (thread, fork) = follower.fork("build it");
    fork.boundary_backgrounding("bnma97emx").silent_or_context();
    fork.stops_with("waiting", &[shell_task("bnma97emx")]).silent_or_context();
    (thread, fork)
}

#[test]
fn r080_a_run_whose_own_work_goes_on_rests_whatever_report_comes() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = resting(&follower);
    let ended = follower.ended(&fork.turn, "waiting");
    assert_eq!((&ended["outcome"], &ended["state"]), (&Value::Null, &json!("resting")), "{ended}");
    main.hook(&notification(&main, &fork.agent, Some(&fork.tool_use()), "completed", "x")).silent_or_context();
    assert_eq!(outcome(&desk, &fork.turn), ("resting".into(), Value::Null));
    let held = desk.thread_state(&thread)["holder"].clone();
    assert_eq!((&held["kind"], &held["state"]), (&json!("fork"), &json!("resting")), "it holds");
    assert_eq!(main_owes(&desk), Vec::<String>::new());
    stop_listing(&main, &[shell_task("bnma97emx")]).silent_or_context();
    assert_eq!(outcome(&desk, &fork.turn).0, "resting");
    // The client resumes it: it goes on in its turn (R40), and ends with its next end.
    fork.begins().silent_or_context();
    assert_eq!(turns(&desk).len(), 1);
    fork.reply(&fork.reference(), "built");
    fork.stops("done").silent_or_context();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
}

#[test]
fn r080_a_call_that_a_message_moved_to_the_background_is_its_own_work() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("build it");
    fork.boundary_moved("bcsuc9o2o").silent_or_context();
    fork.stops_with("waiting", &[shell_task("bcsuc9o2o")]).silent_or_context();
    assert_eq!(follower.ended(&fork.turn, "waiting")["state"], "resting");
}

#[test]
fn r080_somebody_elses_work_is_none_of_its_own() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("build it");
    let (_, other) = follower.fork("and that");
    fork.stops_with("done", &[shell_task("bmains"), other.task()]).silent_or_context();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "hand_back");
}

#[test]
fn r080_an_agent_that_it_started_is_its_own_work() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("build it");
    let helper = Fork::worker(&main);
    helper.begins().silent_or_context();
    helper.meta_below(&fork);
    helper.marked("leaf thread list");
    helper.boundary().silent_or_context();
    fork.stops_with("waiting", &[helper.task()]).silent_or_context();
    assert_eq!(follower.ended(&fork.turn, "waiting")["state"], "resting");
}

#[test]
fn r080_only_a_stop_a_failure_or_a_lapse_ends_it_at_once() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = resting(&follower);
    task_stop(&main, &fork.agent).silent_or_context();
    ended_as(&desk, &fork, "hand_back");
    let (_, fork) = resting(&follower);
    fork.fails().silent_or_context();
    ended_as(&desk, &fork, "hand_back");
    let (thread, fork) = resting(&follower);
    fork.reply(&fork.reference(), "interim");
    fork.stops_with("waiting", &[shell_task("bnma97emx")]).silent_or_context();
    follower.ended(&fork.turn, "waiting");
    desk.advance(15 * 60);
    assert_eq!(outcome(&desk, &fork.turn).0, "lapsed", "it is not renewed");
    desk.say(&thread, "and?");
    assert_eq!(follower.sorted(&follower.ask_about(&thread), "small")["action"], "spawn");
    ended_as(&desk, &fork, "answer");
}

#[test]
fn r080_it_ends_sixty_seconds_after_a_payload_first_no_longer_lists_that_work() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = resting(&follower);
    follower.ended(&fork.turn, "waiting");
    desk.advance(300);
    stop_listing(&main, &[shell_task("bnma97emx")]).silent_or_context();
    main.prompt("more").silent_or_context();
    assert_eq!(outcome(&desk, &fork.turn).0, "resting");
    stop_listing(&main, &[]).silent_or_context();
    desk.advance(59);
    main.prompt("more").silent_or_context();
    assert_eq!(outcome(&desk, &fork.turn).0, "resting");
    desk.advance(1);
    main.boundary().silent_or_context();
    ended_as(&desk, &fork, "hand_back");
    assert_eq!(main_owes(&desk), [thread]);
}

#[test]
fn r080_a_further_message_resumes_a_resting_run_in_its_turn() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = resting(&follower);
    follower.ended(&fork.turn, "waiting");
    desk.say(&thread, "and the other");
    let start = follower.expect("start");
    assert_eq!(
        (&start["action"], &start["turn"], &start["agent_id"]),
        (&json!("resume"), &json!(fork.turn), &json!(fork.agent)),
        "{start}"
    );
    assert_eq!(turns(&desk).len(), 1);
}

#[test]
fn r081_hand_back_wins_over_all() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "the first");
    desk.say(&thread, "and the other");
    fork.boundary().says();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "hand_back", "one it picked up still waits");
    let (thread, fork) = follower.fork("and this");
    fork.leaf(&["thread", "reply", &thread, "a note", "--unasked"]).ok();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "hand_back", "an unasked message answers nothing");
}

#[test]
fn r081_taken_over_where_another_answered_or_holds() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.reply(&thread, "42");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "taken_over");
    let (thread, fork) = follower.fork("and this");
    fork.reply(&fork.reference(), "the first");
    desk.say(&thread, "and the other");
    let told = fork.boundary().says();
    assert_eq!(references(&told).len(), 1);
    main.reply(&thread, "I have the other");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "taken_over", "never credited with another's answer");
}

#[test]
fn r081_todo_where_a_reply_of_its_own_opened_one_that_is_still_open() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.leaf(&["thread", "reply", &fork.reference(), "it is bigger", "--todo", "split the parser"]).ok();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "todo");
    let (_, fork) = follower.fork("and this");
    fork.leaf(&["thread", "reply", &fork.reference(), "it is bigger", "--todo", "split the lexer"]).ok();
    let todo = text(&desk.events("todo").last().expect("a to-do")["id"]);
    main.run(&["task", "end", &todo, "dropped"]).ok();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer", "no longer open");
    let (other, fork) = follower.fork("and that");
    fork.reply(&fork.reference(), "found");
    desk.ask(&["task", "open", &other, "the users own"]);
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer", "never credited with another's to-do");
    assert_eq!(desk.thread_state(&thread)["status"], "todo");
}

#[test]
fn r081_what_is_withdrawn_settled_or_not_owing_is_left_out() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.person(&["thread", "withdraw", &thread]).ok();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "void");
    let (thread, fork) = follower.fork("and this");
    desk.person(&["thread", "resolve", &thread]).ok();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "void");
    let (thread, fork) = follower.fork("and that");
    fork.reply(&fork.reference(), "found");
    desk.person(&["thread", "say", &thread, "thanks", "--no-reply"]).ok();
    fork.boundary().silent_or_context();
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
}

#[test]
fn r082_main_hears_that_the_fork_answered_and_is_not_woken() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.stop().silent_or_context();
    fork.reply(&fork.reference(), "found");
    assert_eq!(follower.ended(&fork.turn, "done")["wake"], false);
    follower.quiet("wake", 300);
    let told = main.prompt("go on").says();
    assert!(told.contains(&fork.name), "{told}");
    assert!(told.contains(&format!("leaf page state {thread}")) && told.contains("--unasked"), "{told}");
    assert_eq!(references(&told), Vec::<String>::new());
    main.boundary().silent();
}

#[test]
fn r083_main_hears_the_todos_text_and_an_idle_session_is_woken() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    main.stop().silent_or_context();
    fork.leaf(&["thread", "reply", &fork.reference(), "it is bigger", "--todo", "split the parser"]).ok();
    assert_eq!(follower.ended(&fork.turn, "done")["wake"], true);
    let wake = text(&follower.expect("wake")["text"]);
    let told = main.prompt(&wake).context().unwrap_or_default();
    assert!(told.contains("split the parser") || wake.contains("split the parser"), "{wake}\n{told}");
}

#[test]
fn r084_main_hears_the_reason_and_gets_the_messages_as_input_and_is_woken() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.stop().silent_or_context();
    let ended = follower.ended(&fork.turn, "HAND BACK: the capybara is yours to move");
    assert_eq!((&ended["outcome"], &ended["wake"]), (&json!("hand_back"), &json!(true)));
    let wake = text(&follower.expect("wake")["text"]);
    let told = main.prompt(&wake).says();
    assert!(told.contains("the capybara is yours to move"), "{told}");
    assert!(references(&told).iter().any(|r| r.ends_with(&thread)), "{told}");
}

#[test]
fn r084_the_reason_of_a_silent_or_failed_end() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    main.boundary().silent_or_context();
    let (_, silent) = follower.fork("look it up");
    main.boundary().says();
    follower.ended(&silent.turn, "   ");
    let told = main.boundary().says();
    assert!(told.contains(&silent.name), "{told}");
    let (_, talked) = follower.fork("and this");
    main.boundary().says();
    follower.ended(&talked.turn, "  \n HAND BACK:   the ferret is asleep \n");
    let said = main.boundary().says();
    assert!(said.contains("the ferret is asleep") && !said.contains("HAND BACK"), "the text after it: {said}");
    let (_, failed) = follower.fork("and that");
    main.boundary().says();
    follower.failed(&failed.turn, "the wombat refused");
    assert!(main.boundary().says().contains("the wombat refused"));
}

#[test]
fn r085_of_taken_over_and_void_main_hears_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.boundary().says();
    main.reply(&thread, "42");
    let ended = follower.ended(&fork.turn, "HAND BACK: oh");
    assert_eq!((&ended["outcome"], &ended["wake"]), (&json!("taken_over"), &json!(false)));
    main.boundary().silent();
    assert_eq!(why_of(&desk, &thread, "ended")[0]["outcome"], "taken_over");
    let (thread, fork) = follower.fork("and this");
    main.boundary().says();
    desk.person(&["thread", "withdraw", &thread]).ok();
    assert_eq!(follower.ended(&fork.turn, "HAND BACK: oh")["outcome"], "void");
    main.boundary().silent();
    main.stop().silent();
}

#[test]
fn r086_the_takes_line_leaves_the_queue_and_main_hears_once() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    let told = main.boundary().says();
    assert_eq!(told.matches(&fork.name).count(), 1, "one line, the end's: {told}");
    main.boundary().silent();
    let (thread, fork) = follower.fork("and this");
    main.reply(&thread, "42");
    follower.ended(&fork.turn, "done");
    main.boundary().silent();
}

#[test]
fn r088_what_time_alone_changes_a_reading_shows_as_done_and_writes_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (lapsing, fork) = follower.fork("look it up");
    follower.kill();
    desk.advance(15 * 60);
    let before = desk.files(&[]);
    assert_eq!(outcome(&desk, &fork.turn).0, "lapsed");
    assert_eq!(main_owes(&desk), [lapsing.as_str()]);
    desk.person(&["thread", "list"]).ok();
    desk.person(&["fork", "list"]).ok();
    desk.person(&["why", &lapsing]).ok();
    desk.person(&["status"]).ok();
    let caches = ["view.json", "state.json"];
    let strip = |files: std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>| -> Vec<_> {
        files.into_iter().filter(|(p, _)| !caches.iter().any(|c| p.ends_with(c))).collect()
    };
    assert_eq!(strip(desk.files(&[])), strip(before));
    main.client.kill();
    let before = desk.files(&[]);
    assert_eq!(outcome(&desk, &fork.turn).0, "ended", "a dead client's turn");
    assert_eq!(strip(desk.files(&[])), strip(before));
}

#[test]
fn r088_the_watch_acts_where_nobody_follows_and_wakes_for_what_comes_back() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.stop().silent_or_context();
    follower.kill();
    let watch = main.watch();
    watch.parked(300);
    fork.stops("I could not find it").silent();
    desk.advance(59);
    watch.parked(1500);
    assert_eq!(outcome(&desk, &fork.turn), ("running".into(), Value::Null));
    desk.advance(1);
    assert!(!watch.woke().trim().is_empty());
    assert_eq!(why_of(&desk, &thread, "ended")[0]["outcome"], "hand_back", "it is written, not only shown");
}

#[test]
fn r088_the_follower_acts_at_the_instant() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let id = text(&action["turn"]);
    main.stop().silent_or_context();
    desk.advance(60);
    assert!(!text(&follower.expect("wake")["text"]).is_empty(), "R38 hands back, an idle session is woken");
    assert_eq!(turn(&desk, &id)["state"], "ended");
    assert_eq!(why_of(&desk, &thread, "ended").len(), 1, "written, though no hook came");
}

#[test]
fn r088_the_follower_hands_over_and_wakes_at_thirty_seconds() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    main.stop().silent();
    let thread = desk.thread("a question");
    follower.ask();
    desk.advance(30);
    follower.expect("wake");
    assert_eq!(why_of(&desk, &thread, "handed").len(), 1);
    assert!(main.prompt("x").reference().ends_with(&thread));
}

#[test]
fn r086_killed_at_any_moment_of_an_end_main_hears_once() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let mut killed = 0;
    for n in 0..12 {
        let (thread, fork) = follower.fork("look it up");
        let answers = n % 2 == 0;
        if answers {
            fork.reply(&fork.reference(), "found");
        }
        let line = format!(
            "LEAF_TOKEN='{}' \"$LEAF\" fork ended --turn {} > /dev/null < /dev/null & p=$!\n\
             sleep 0.00{n:02}; kill -9 $p 2> /dev/null; wait $p",
            follower.token(),
            fork.turn
        );
        killed += usize::from(main.shell(&line).code == 137);
        let mut told = main.boundary().context().unwrap_or_default();
        let expected = if answers { "answer" } else { "hand_back" };
        assert_eq!(follower.ended(&fork.turn, "")["outcome"], expected, "round {n}");
        for _ in 0..2 {
            told.push_str(&main.boundary().context().unwrap_or_default());
        }
        let of_ends =
            told.lines().filter(|l| l.contains(&fork.name) && !l.contains("takes") && !l.contains("took")).count();
        assert_eq!(of_ends, 1, "round {n}: {told}");
        assert_eq!(why_of(&desk, &thread, "ended").len(), 1, "round {n}");
        if !answers {
            main.reply(&thread, "then I");
        }
        main.boundary().silent();
    }
    assert!(killed >= 2, "some were killed before their end: {killed}");
}
