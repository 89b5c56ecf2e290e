//! Messages and answers: R6 to R12.

use crate::support::desk::{Desk, id, notes};
use serde_json::json;

#[test]
fn r006_a_thread_owes_while_one_of_its_waiting_messages_owes() {
    let desk = Desk::new();
    let _main = desk.session("s").working();
    let first = id(&desk.ask(&["thread", "new", "for your information", "--no-reply"]));
    assert_eq!(desk.state()["owed"], json!([]), "a message that owes nothing makes no debt");
    let asks = desk.say(&first, "and what do you think?");
    desk.ask(&["thread", "say", &first, "no hurry", "--no-reply"]);
    let owed = desk.state()["owed"].clone();
    assert_eq!(owed.as_array().map(Vec::len), Some(1), "one entry a thread: {owed}");
    assert_eq!(owed[0]["thread"], json!(first));
    assert_eq!(owed[0]["message"], json!(asks), "the newest that owes, not the newest: {owed}");
    assert_eq!(owed[0]["ref"], json!(null), "nothing was delivered yet");
    assert_eq!(owed[0]["owed_by"]["kind"], "main");
}

#[test]
fn r006_the_newest_message_that_owes_carries_the_reference() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("first question");
    let asks = desk.say(&thread, "second question");
    desk.ask(&["thread", "say", &thread, "an aside", "--no-reply"]);
    let reference = main.boundary().reference();
    assert!(reference.ends_with(&format!(":{asks}")), "{reference} names {asks}");
    assert_eq!(desk.state()["owed"][0]["ref"], json!(reference));
    main.reply(&reference, "both answered");
    assert_eq!(desk.state()["owed"], json!([]));
}

#[test]
fn r006_no_reply_is_delivered_and_holds_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.ask(&["thread", "new", "the build moved to the other machine", "--no-reply"]);
    assert!(main.boundary().says().contains("the build moved to the other machine"));
    assert_eq!(main.stop().context(), None, "nothing is owed, so nothing holds Stop");
}

#[test]
fn r007_a_message_between_delivery_and_answer_still_waits_and_the_writer_hears_it() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("how far are you?");
    let reference = main.boundary().reference();
    let later = desk.say(&thread, "and when will it be done?");
    let answer = main.reply(&reference, "half way");
    assert!(!notes(&answer).is_empty(), "the writer is told that something still waits: {answer}");
    assert!(notes(&answer).concat().contains(&later), "the note names what waits: {answer}");
    let state = desk.thread_state(&thread);
    assert_eq!(state["waiting"], json!([later]));
    let next = main.boundary();
    assert!(next.says().contains("and when will it be done?"));
    let answer = main.reply(&next.reference(), "at noon");
    assert_eq!(notes(&answer), Vec::<String>::new(), "nothing waits any more");
    assert_eq!(desk.thread_state(&thread)["waiting"], json!([]));
}

#[test]
fn r008_a_withdrawn_message_is_not_delivered_and_owes_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("keep this one");
    let gone = desk.say(&thread, "never mind this one");
    desk.person(&["thread", "withdraw", &gone]).ok();
    let text = main.boundary().says();
    assert!(text.contains("keep this one") && !text.contains("never mind this one"), "{text}");
    let alone = desk.thread("a thread that is taken back");
    desk.person(&["thread", "withdraw", &alone]).ok();
    let state = desk.state();
    assert!(state["owed"].as_array().expect("owed").iter().all(|o| o["thread"] != json!(alone)), "{state:#}");
    let text = main.boundary().context().unwrap_or_default();
    assert!(!text.contains("a thread that is taken back"), "{text}");
    assert_eq!(desk.thread_state(&alone)["messages"][0]["withdrawn"], json!(true));
}

#[test]
fn r008_withdrawing_an_answered_message_is_refused() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("is it green?");
    let reference = main.boundary().reference();
    main.reply(&reference, "it is");
    let lines = desk.log().len();
    desk.person(&["thread", "withdraw", &thread]).refused();
    assert_eq!(desk.log().len(), lines, "a refused withdrawal writes nothing");
}

#[test]
fn r008_an_answer_covers_the_earlier_messages_too_so_they_cannot_be_withdrawn() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("one");
    desk.say(&thread, "two");
    let reference = main.boundary().reference();
    main.reply(&reference, "both");
    desk.person(&["thread", "withdraw", &thread]).refused();
}

#[test]
fn r008_who_had_picked_it_up_hears_of_the_withdrawal_once() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("drop the table");
    main.boundary().reference();
    desk.person(&["thread", "withdraw", &thread]).ok();
    let text = main.boundary().says();
    assert!(text.contains(&thread), "it names what was withdrawn: {text}");
    assert_eq!(main.boundary().context(), None, "once");
    assert_eq!(main.stop().context(), None, "a withdrawn message holds nothing");
}

#[test]
fn r008_a_withdrawal_of_what_nobody_picked_up_costs_main_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("sent by mistake");
    desk.person(&["thread", "withdraw", &thread]).ok();
    main.boundary().silent();
}

#[test]
fn r009_resolving_settles_what_waits() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("no longer needed");
    desk.person(&["thread", "resolve", &thread]).ok();
    assert_eq!(desk.state()["owed"], json!([]));
    let state = desk.thread_state(&thread);
    assert_eq!((&state["resolved"], &state["status"]), (&json!(true), &json!("resolved")));
    assert_eq!(state["waiting"], json!([]));
    let text = main.boundary().context().unwrap_or_default();
    assert!(!text.contains("no longer needed"), "{text}");
    assert_eq!(main.stop().context(), None);
}

#[test]
fn r009_the_next_message_reopens_but_brings_nothing_back() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("settled by hand");
    desk.person(&["thread", "resolve", &thread]).ok();
    let next = desk.say(&thread, "one more thing");
    let state = desk.thread_state(&thread);
    assert_eq!(state["resolved"], json!(false));
    assert_eq!(state["waiting"], json!([next]), "what was settled stays settled");
    let text = main.boundary().says();
    assert!(text.contains("one more thing") && !text.contains("settled by hand"), "{text}");
}

#[test]
fn r009_reopening_by_hand_brings_nothing_back_either() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("settled by hand");
    desk.person(&["thread", "resolve", &thread]).ok();
    desk.person(&["thread", "reopen", &thread]).ok();
    let state = desk.thread_state(&thread);
    assert_eq!((&state["resolved"], &state["waiting"]), (&json!(false), &json!([])));
    assert_eq!(state["messages"].as_array().map(Vec::len), Some(1), "it is still there to read");
    assert!(!main.boundary().context().unwrap_or_default().contains("settled by hand"));
}

#[test]
fn r010_the_same_answer_again_is_the_earlier_event() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("what is six times seven?");
    let reference = main.boundary().reference();
    let first = main.reply(&reference, "42");
    let lines = desk.log().len();
    let again = main.reply(&reference, "42");
    assert_eq!(id(&again), id(&first));
    assert_eq!(again["seq"], first["seq"]);
    assert_eq!(desk.log().len(), lines, "nothing is appended");
}

#[test]
fn r010_another_text_for_the_same_reference_is_refused_with_the_way_out() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("what is six times seven?");
    let reference = main.boundary().reference();
    main.reply(&reference, "41");
    let lines = desk.log().len();
    let why = main.run(&["thread", "reply", &reference, "42"]).refused();
    assert!(why.contains("--unasked"), "the way out: {why}");
    assert_eq!(desk.log().len(), lines);
    let thread = reference.split_once(':').expect("a reference").1.to_owned();
    let more = main.ask(&["thread", "reply", &thread, "42, sorry", "--unasked"]);
    assert_eq!(more["responds"], json!(null));
}

#[test]
fn r010_an_answer_of_an_earlier_turn_of_main_counts_as_its_own() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("ready?");
    let reference = main.boundary().reference();
    let first = main.reply(&reference, "yes");
    main.stop().silent_or_context();
    main.prompt("next").silent_or_context();
    let lines = desk.log().len();
    assert_eq!(id(&main.reply(&reference, "yes")), id(&first));
    assert_eq!(desk.log().len(), lines);
}

#[test]
fn r010_a_repeat_appends_what_is_missing_and_no_more() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("can you look into the flake?");
    let reference = main.boundary().reference();
    main.reply(&reference, "I will");
    main.ask(&["thread", "reply", &reference, "I will", "--todo", "look into the flake"]);
    main.ask(&["thread", "reply", &reference, "I will", "--todo", "look into the flake"]);
    assert_eq!(desk.events("reply").len(), 1, "one answer");
    let todos = desk.events("todo");
    assert_eq!(todos.len(), 1, "one to-do: {todos:?}");
    assert_eq!(todos[0]["title"], "look into the flake");
}

#[test]
fn r010_a_repeat_of_an_answer_that_was_cut_off_appends_the_answer_alone() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("can you look into the flake?");
    let reference = main.boundary().reference();
    let answer = ["thread", "reply", &reference, "I will", "--todo", "look into the flake"];
    main.ask(&answer);
    // The to-do stands before the reply: what a crash can leave is the to-do without it.
    let log = std::fs::read_to_string(desk.log_path()).expect("the log");
    let cut = log.trim_end().rfind('\n').expect("several lines") + 1;
    std::fs::write(desk.log_path(), &log[..cut]).expect("the log");
    let _ = std::fs::remove_file(desk.page().join("view.json"));
    assert_eq!((desk.events("todo").len(), desk.events("reply").len()), (1, 0));
    main.ask(&answer);
    assert_eq!((desk.events("todo").len(), desk.events("reply").len()), (1, 1));
    main.ask(&answer);
    assert_eq!((desk.events("todo").len(), desk.events("reply").len()), (1, 1));
}

#[test]
fn r010_a_bare_id_repeats_an_answer_too() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    let message = desk.say(&thread, "and another");
    main.boundary().reference();
    let first = main.reply(&message, "an answer");
    assert_eq!(id(&main.reply(&message, "an answer")), id(&first));
    let other = desk.thread("a third");
    main.boundary().reference();
    let first = main.reply(&other, "short");
    assert_eq!(id(&main.reply(&other, "short")), id(&first));
    assert_eq!(desk.events("reply").len(), 2);
}

#[test]
fn r011_the_newest_line_stands_until_the_next_answer() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("how is the migration?");
    let reference = main.boundary().reference();
    main.run(&["thread", "line", &thread, "reading the schema"]).ok();
    main.run(&["thread", "line", &thread, "running it on a copy"]).ok();
    let state = desk.thread_state(&thread);
    assert_eq!(state["line"], "running it on a copy");
    assert_eq!(state["status"], "on_it", "a line stands");
    main.reply(&reference, "done");
    assert_eq!(desk.thread_state(&thread)["line"], json!(null));
}

#[test]
fn r011_a_line_counts_as_a_start() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("this takes a while");
    main.boundary().reference();
    main.run(&["thread", "line", &thread, "on it"]).ok();
    assert_eq!(main.stop().context(), None, "what main started never holds Stop (R104)");
}

#[test]
fn r012_equal_texts_are_two_messages() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = desk.thread("again");
    let second = desk.thread("again");
    let third = desk.say(&second, "again");
    assert!(first != second && second != third);
    let text = main.boundary().says();
    assert_eq!(text.matches("again").count(), 3, "{text}");
    let state = desk.state();
    assert_eq!(state["threads"].as_array().map(Vec::len), Some(2));
    main.reply(&first, "once");
    assert_eq!(desk.thread_state(&second)["waiting"].as_array().map(Vec::len), Some(2));
}

#[test]
fn r012_reading_changes_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("look, don't touch");
    main.boundary().reference();
    desk.thread("not delivered yet");
    desk.ask(&["task", "open", &thread, "look again"]);
    let caches = ["view.json", "state.json"];
    let before = desk.files(&caches);
    desk.advance(3600);
    let slug = desk.page_slug();
    let reads: [&[&str]; 12] = [
        &["thread", "list"],
        &["thread", "list", "--all"],
        &["thread", "show", &thread],
        &["task", "list"],
        &["page", "list"],
        &["page", "state"],
        &["page", "state", &thread],
        &["page", "log"],
        &["page", "log", "--after", "1"],
        &["page", "log", "--page", &slug],
        &["why", &thread],
        &["status"],
    ];
    for read in reads {
        desk.person(read).ok();
        main.run(read).ok();
        let json: Vec<&str> = read.iter().copied().chain(["--json"]).collect();
        desk.person(&json).ok().json();
    }
    assert_eq!(desk.files(&caches), before, "reading commands change nothing");
}

#[test]
fn r009_an_answer_to_what_was_resolved_is_accepted() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    let reference = main.boundary().reference();
    desk.person(&["thread", "resolve", &thread]).ok();
    main.reply(&reference, "an answer all the same");
    assert_eq!(desk.thread_state(&thread)["status"], "resolved");
    assert_eq!(desk.events("reply").len(), 1);
}
