//! Inline or by pointer: R76, and the contract's delivery files and parts.

use std::path::PathBuf;

use crate::support::desk::{Desk, Session, is_id, references};
use serde_json::json;

/// The pointer deliveries that lie on the disk, by id.
pub fn pointers(desk: &Desk) -> Vec<String> {
    let dir: PathBuf = desk.page().join("deliveries");
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut ids: Vec<String> = entries
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|x| x == "json"))
        .map(|p| p.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    ids.sort();
    ids
}

/// A text of that many characters in lines of 60, each with its number.
pub fn long_text(chars: usize, stem: &str) -> String {
    let mut text = String::new();
    for line in 0.. {
        text.push_str(&format!("{stem} {line:06} {}\n", "x".repeat(40)));
        if text.len() >= chars {
            break;
        }
    }
    text.truncate(chars);
    text
}

/// All parts of a delivery, read one by one.
pub fn read_whole(main: &Session<'_>, delivery: &str) -> String {
    let mut whole = main.run(&["delivery", "read", delivery]).ok().out();
    assert!(whole.trim_end().chars().count() <= 24_000, "a part is at most 24,000 characters");
    for part in 2..50 {
        let next = main.run(&["delivery", "read", delivery, "--part", &part.to_string()]);
        if next.code != 0 {
            assert!(matches!(next.code, 1 | 2) && !next.err().is_empty(), "{next:?}");
            return whole;
        }
        let text = next.out();
        assert!(text.trim_end().chars().count() <= 24_000, "a part is at most 24,000 characters");
        whole.push_str(&text);
    }
    panic!("a delivery of fewer than 50 parts");
}

#[test]
fn r076_what_fits_is_inline_and_is_picked_up_at_once() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread(&long_text(6_000, "fits"));
    let context = main.boundary().says();
    assert!(context.contains("fits 000000") && context.contains("fits 000090"));
    assert_eq!(desk.events("pickup").len(), 1);
    assert_eq!(pointers(&desk), Vec::<String>::new());
}

#[test]
fn r076_what_does_not_fit_goes_by_pointer_and_its_ack_is_the_pickup() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let text = long_text(60_000, "long");
    let thread =
        crate::support::desk::id(&desk.person_with_input(&["thread", "new", "--json"], text.as_bytes()).ok().json());
    let context = main.boundary().says();
    assert!(!context.contains("long 000200"), "the text isn't in the context");
    assert_eq!(desk.events("pickup"), Vec::<serde_json::Value>::new(), "saying it is no pickup");
    assert_eq!(desk.thread_state(&thread)["status"], "waiting");
    let ids = pointers(&desk);
    assert_eq!(ids.len(), 1);
    let delivery = ids[0].clone();
    assert!(is_id(&json!(delivery)));
    assert!(context.contains(&delivery), "the context names the delivery: {context}");
    let whole = read_whole(&main, &delivery);
    for line in text.lines().filter(|l| l.len() > 50) {
        assert!(whole.contains(line), "the parts hold the whole text: {line}");
    }
    assert_eq!(desk.events("pickup").len(), 0, "reading is no pickup");
    main.run(&["delivery", "ack", &delivery]).ok();
    let pickups = desk.events("pickup");
    assert_eq!(pickups.len(), 1);
    assert_eq!(pickups[0]["delivery"], json!(delivery));
    assert_eq!(pickups[0]["messages"], json!([thread]));
    assert_eq!(pointers(&desk), Vec::<String>::new(), "a pointer's file lies until it is acknowledged");
    let reference = format!("{delivery}:{thread}");
    assert!(references(&whole).contains(&reference), "the delivery carries its reference");
    assert_eq!(desk.state()["owed"][0]["ref"], json!(reference));
    main.reply(&reference, "read it all");
    assert_eq!(desk.thread_state(&thread)["status"], "answered");
}

#[test]
fn r076_the_ack_picks_up_into_the_acknowledging_turn() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.person_with_input(&["thread", "new"], long_text(30_000, "long").as_bytes()).ok();
    main.boundary().says();
    main.prompt("another turn").says();
    let delivery = pointers(&desk)[0].clone();
    main.run(&["delivery", "ack", &delivery]).ok();
    desk.thread("short");
    main.boundary().says();
    let pickups = desk.events("pickup");
    assert_eq!(pickups.len(), 2);
    assert_eq!(pickups[0]["turn"], pickups[1]["turn"], "the turn that acknowledged");
}

#[test]
fn r076_many_messages_stay_under_the_bound_and_none_is_lost() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread(&long_text(2_000, "part-00"));
    for n in 1..9 {
        desk.say(&thread, &long_text(2_000, &format!("part-{n:02}")));
    }
    let mut told = main.boundary().says();
    for delivery in pointers(&desk) {
        told.push_str(&read_whole(&main, &delivery));
        main.run(&["delivery", "ack", &delivery]).ok();
    }
    for n in 0..9 {
        assert!(told.contains(&format!("part-{n:02} 000010")), "message {n} arrives");
    }
    let picked: usize = desk.events("pickup").iter().map(|p| p["messages"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(picked, 9);
    assert_eq!(main.boundary().context(), None);
}

#[test]
fn r076_the_bound_is_counted_in_utf16_units() {
    // 5,000 characters of two units each: under the bound in characters, over it in units.
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread(&"\u{1F331}".repeat(5_000));
    main.boundary().says();
    assert_eq!(pointers(&desk).len(), 1, "10,000 units go by pointer");
    // 8,000 characters of two bytes each: over it in bytes, under it in units.
    let other = Desk::new();
    let main = other.session("s").working();
    other.thread(&"\u{e9}".repeat(8_000));
    main.boundary().says();
    assert_eq!(pointers(&other), Vec::<String>::new(), "8,000 units go inline");
}

#[test]
fn r076_acknowledging_twice_changes_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.person_with_input(&["thread", "new"], long_text(30_000, "long").as_bytes()).ok();
    main.boundary().says();
    let delivery = pointers(&desk)[0].clone();
    main.run(&["delivery", "ack", &delivery]).ok();
    let lines = desk.log().len();
    main.run(&["delivery", "ack", &delivery]);
    assert_eq!(desk.log().len(), lines, "one pickup");
}

#[test]
fn r076_the_ack_picks_up_only_what_still_waits() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let kept = desk.thread("kept");
    let gone = crate::support::desk::id(
        &desk.person_with_input(&["thread", "new", "--json"], long_text(30_000, "long").as_bytes()).ok().json(),
    );
    let answered = desk.thread("answered meanwhile");
    main.boundary().says();
    let delivery = pointers(&desk)[0].clone();
    desk.person(&["thread", "withdraw", &gone]).ok();
    main.reply(&answered, "by its id");
    main.run(&["delivery", "ack", &delivery]).ok();
    let picked: Vec<serde_json::Value> =
        desk.events("pickup").iter().flat_map(|p| p["messages"].as_array().expect("messages").clone()).collect();
    assert_eq!(picked, [json!(kept)]);
}

#[test]
fn r076_many_small_threads_go_by_pointer_together() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let threads: Vec<String> = (0..70).map(|n| desk.thread(&format!("small-{n:02} {}", "y".repeat(60)))).collect();
    main.boundary().says();
    let delivery = pointers(&desk)[0].clone();
    let whole = read_whole(&main, &delivery);
    main.run(&["delivery", "ack", &delivery]).ok();
    let refs = references(&whole);
    for (n, thread) in threads.iter().enumerate() {
        assert!(whole.contains(&format!("small-{n:02} ")), "{n}");
        assert!(refs.contains(&format!("{delivery}:{thread}")), "a reference for each thread: {n}");
    }
    main.boundary().silent();
}

#[test]
fn r076_parts_never_cut_a_character() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let text: String = (0..40_000_u32).map(|n| if n % 50 == 49 { '\n' } else { '\u{1F331}' }).collect();
    desk.person_with_input(&["thread", "new"], text.as_bytes()).ok();
    main.boundary().says();
    let whole = read_whole(&main, &pointers(&desk)[0]);
    assert!(!whole.contains('\u{fffd}'));
    let count = |text: &str| text.chars().filter(|c| *c == '\u{1F331}').count();
    assert!(count(&whole) >= count(&text), "{} of {}", count(&whole), count(&text));
}
