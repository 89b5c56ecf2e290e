//! Who holds a message, as far as main alone goes: R53 and R54.

use crate::support::desk::{Desk, references};
use serde_json::{Value, json};

fn owed_threads(state: &Value) -> Vec<String> {
    let owed = state["owed"].as_array().expect("owed is an array");
    let mut threads: Vec<String> = owed.iter().map(|o| o["thread"].as_str().expect("a thread").to_owned()).collect();
    threads.sort();
    threads
}

#[test]
fn r053_state_deliveries_and_stop_tell_one_story() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let answered = desk.thread("answered");
    let picked = desk.thread("picked up");
    let refs = references(&main.boundary().says());
    assert_eq!(refs.len(), 2);
    main.reply(refs.iter().find(|r| r.ends_with(&answered)).expect("a reference"), "yes");
    let fresh = desk.thread("not yet seen");
    let withdrawn = desk.thread("taken back");
    desk.person(&["thread", "withdraw", &withdrawn]).ok();
    let settled = desk.thread("settled");
    desk.person(&["thread", "resolve", &settled]).ok();
    let mut expected = vec![picked.clone(), fresh.clone()];
    expected.sort();
    let from_person = desk.state();
    assert_eq!(owed_threads(&from_person), expected);
    assert_eq!(main.ask(&["page", "state"]), from_person, "the same whoever asks");
    for owed in from_person["owed"].as_array().expect("owed") {
        assert_eq!(owed["owed_by"]["kind"], "main");
        let delivered = owed["thread"] == json!(picked);
        assert_eq!(owed["ref"].is_string(), delivered, "{owed}");
    }
    let told = main.stop().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&fresh)), "Stop tells of {fresh}: {told}");
    for thread in [&answered, &withdrawn, &settled] {
        assert!(!told.contains(thread.as_str()), "Stop says nothing of {thread}: {told}");
    }
    assert_eq!(owed_threads(&desk.state()), expected, "delivered is not answered");
    for thread in &expected {
        main.reply(thread, "done");
    }
    assert_eq!(desk.state()["owed"], json!([]));
    assert_eq!(main.stop_active().context(), None);
}

#[test]
fn r053_the_holder_of_waiting_messages_is_the_turn_that_picked_them_up() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("whose is it?");
    assert_eq!(desk.thread_state(&thread)["holder"], json!(null), "nobody has it yet");
    let reference = main.boundary().reference();
    let turn = desk.events("pickup")[0]["turn"].clone();
    let holder = desk.thread_state(&thread)["holder"].clone();
    assert_eq!((&holder["kind"], &holder["turn"], &holder["state"]), (&json!("main"), &turn, &json!(null)));
    main.reply(&reference, "mine");
    let holder = desk.thread_state(&thread)["holder"].clone();
    assert_eq!((&holder["kind"], &holder["turn"]), (&json!("main"), &turn), "the answering turn where nothing waits");
}

#[test]
fn r054_after_compaction_main_hears_once_what_it_owes_by_reference() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("do you remember?");
    let done = desk.thread("this is dealt with");
    let refs = references(&main.boundary().says());
    let (settled, owed): (Vec<String>, Vec<String>) = refs.into_iter().partition(|r| r.ends_with(&done));
    main.reply(&settled[0], "yes");
    let told = main.start("compact").says();
    assert_eq!(references(&told), owed, "{told}");
    main.boundary().silent();
    main.reply(&owed[0], "I do");
    main.stop().silent();
}

#[test]
fn r054_after_resume_in_a_new_client_main_hears_what_it_owes() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("shall we go on?");
    let reference = main.boundary().reference();
    main.end("other").silent();
    main.client.kill();
    let again = desk.session("s");
    assert_eq!(again.id(), main.id());
    let told = again.start("resume").says();
    assert_eq!(references(&told), vec![reference.clone()], "{told}");
    again.prompt("go on").silent_or_context();
    again.boundary().silent();
    again.reply(&reference, "yes");
    assert_eq!(desk.state()["owed"], json!([]));
}

#[test]
fn r054_a_compaction_with_nothing_owed_says_nothing_of_threads() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("a question");
    let reference = main.boundary().reference();
    main.reply(&reference, "an answer");
    let told = main.start("compact").context().unwrap_or_default();
    assert_eq!(references(&told), Vec::<String>::new(), "{told}");
}
