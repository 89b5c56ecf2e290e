//! Sessions and pages: R109 to R113.

use crate::support::desk::{Desk, id, notes, references};
use serde_json::{Value, json};

#[test]
fn r109_after_clear_the_page_goes_with_the_client() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("picked up, not answered");
    main.boundary().reference();
    desk.thread("not picked up");
    main.end("clear").silent();
    let next = desk.session_of(&main.client, "t");
    let told = next.start("clear").context().unwrap_or_default();
    assert_eq!(desk.state()["session"], json!(next.id()));
    let told = told + &next.prompt("go on").context().unwrap_or_default();
    assert!(told.contains("not picked up"), "what is unread comes along: {told}");
    assert_eq!(desk.pages().len(), 1);
    desk.thread("a new one");
    assert!(next.boundary().says().contains("a new one"));
    assert_eq!(desk.state()["owed"].as_array().map(Vec::len), Some(3), "what is owed comes along");
}

#[test]
fn r109_unread_lines_come_along() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("whose?");
    let slug = desk.page_slug();
    let other = desk.session("t").working();
    other.run(&["page", "claim", &slug]).ok();
    // The one that lost its page has a line about it, unread; then it is cleared.
    main.end("clear").silent();
    let next = desk.session_of(&main.client, "u");
    let mut told = next.start("clear").context().unwrap_or_default();
    told += &next.prompt("go on").context().unwrap_or_default();
    told += &next.boundary().context().unwrap_or_default();
    assert!(told.contains(&slug), "the line comes along: {told}");
    next.boundary().silent();
}

#[test]
fn r109_resume_in_the_same_client_takes_the_page_too() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("where were we?");
    main.end("resume").silent();
    let next = desk.session_of(&main.client, "t");
    next.start("resume").silent_or_context();
    assert!(next.prompt("go on").says().contains("where were we?"));
    assert_eq!(desk.state()["session"], json!(next.id()));
}

#[test]
fn r109_a_killed_session_end_keeps_nothing_from_the_next_session() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("where were we?");
    let next = desk.session_of(&main.client, "t");
    next.start("resume").silent_or_context();
    assert!(next.prompt("go on").says().contains("where were we?"));
    assert_eq!(desk.state()["session"], json!(next.id()));
    // A late hook of the one before brings nothing back.
    main.boundary().silent();
    assert_eq!(desk.state()["session"], json!(next.id()));
}

#[test]
fn r109_a_killed_session_start_is_made_up_for_by_the_first_prompt() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("where were we?");
    main.end("clear").silent();
    let next = desk.session_of(&main.client, "t");
    assert!(next.prompt("go on").says().contains("where were we?"));
    assert_eq!(desk.state()["session"], json!(next.id()));
}

#[test]
fn r109_another_clients_session_takes_nothing_of_a_live_one() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("mine");
    let other = desk.session("t");
    other.start("startup").silent_or_context();
    other.prompt("hello").silent_or_context();
    other.boundary().silent();
    let slug = desk.page_slug();
    assert_eq!(desk.ask(&["page", "state", "--page", &slug])["session"], json!(main.id()));
    assert!(main.boundary().says().contains("mine"));
}

#[test]
fn r110_the_first_need_takes_the_projects_newest_free_page_and_says_so() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    desk.thread("of the first session");
    first.end("other").silent();
    first.client.kill();
    let slug = desk.page_slug();
    let second = desk.session("t");
    let mut said = second.start("startup").context().unwrap_or_default();
    said += &second.prompt("go on").context().unwrap_or_default();
    let event = desk.ask(&["thread", "new", "of the second"]);
    said += &notes(&event).concat();
    assert_eq!(desk.pages().len(), 1, "no second page");
    assert!(said.contains(&slug), "whoever takes it says so: {said}");
    assert_eq!(desk.state()["session"], json!(second.id()));
    let told = second.boundary().says();
    assert!(told.contains("of the second"), "{told}");
}

#[test]
fn r110_else_it_makes_one() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    desk.thread("of the first session");
    let second = desk.session("t").working();
    // The attended session most recently active here is the second, and it has no page yet.
    desk.advance(60);
    second.prompt("active").silent_or_context();
    desk.ask(&["thread", "new", "of the second"]);
    assert_eq!(desk.pages().len(), 2, "the first page is held by a live session");
    assert!(second.boundary().says().contains("of the second"));
    let told = first.boundary().says();
    assert!(told.contains("of the first session") && !told.contains("of the second"), "{told}");
}

#[test]
fn r110_a_person_finds_the_attended_session_most_recently_active() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    desk.thread("one");
    first.boundary().says();
    desk.advance(10);
    let second = desk.session("t").working();
    desk.thread("two");
    assert!(second.boundary().says().contains("two"));
    desk.advance(10);
    first.prompt("back here").silent_or_context();
    desk.thread("three");
    assert!(first.boundary().says().contains("three"), "the most recently active");
    second.boundary().silent();
}

#[test]
fn r110_never_an_unattended_run() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("one");
    main.boundary().says();
    desk.advance(10);
    let run = desk.session("t").unattended().working();
    desk.thread("two");
    assert!(main.boundary().says().contains("two"));
    run.boundary().silent();
}

#[test]
fn r110_a_session_at_or_above_the_directory() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let below = desk.project().join("deep/er");
    std::fs::create_dir_all(&below).expect("a directory");
    let mut command = desk.command(&["thread", "new", "from below"]);
    crate::support::desk::Ran::from(command.current_dir(&below).output().expect("leaf runs")).ok();
    assert!(main.boundary().says().contains("from below"));
    let mut command = desk.command(&["thread", "new", "from elsewhere", "--json"]);
    let ran = crate::support::desk::Ran::from(command.current_dir(desk.home()).output().expect("leaf runs"));
    if ran.code == 0 {
        assert!(!notes(&ran.json()).is_empty(), "nobody reads it yet: {ran:?}");
    }
    main.boundary().silent();
}

#[test]
fn r110_without_a_session_it_writes_to_the_projects_page_and_says_that_nobody_reads_it() {
    let desk = Desk::new();
    let event = desk.ask(&["thread", "new", "is anybody there?"]);
    assert!(!notes(&event).is_empty(), "it says that nobody reads it yet: {event}");
    let thread = id(&event);
    let event = desk.ask(&["thread", "say", &thread, "hello?"]);
    assert!(!notes(&event).is_empty(), "{event}");
    let state = desk.state();
    assert_eq!(state["session"], json!(null));
    assert_eq!(state["threads"].as_array().map(Vec::len), Some(1));
    let later = desk.session("s");
    let mut told = later.start("startup").context().unwrap_or_default();
    told += &later.prompt("go on").context().unwrap_or_default();
    later.run(&["page", "claim", &desk.page_slug()]).ok();
    told += &later.boundary().context().unwrap_or_default();
    assert!(told.contains("is anybody there?") && told.contains("hello?"), "{told}");
}

#[test]
fn r110_a_session_can_be_named() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    desk.thread("one");
    first.boundary().says();
    desk.advance(10);
    let second = desk.session("t").working();
    desk.ask(&["thread", "new", "for the first", "--session", first.id()]);
    assert!(first.boundary().says().contains("for the first"));
    second.boundary().silent();
    desk.person(&["thread", "new", "for nobody", "--session", "no-such-session"]).refused();
}

#[test]
fn r111_a_claim_moves_the_page_and_what_is_owed() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    let old = desk.thread("picked up by the first");
    first.boundary().reference();
    let fresh = desk.thread("not picked up");
    let second = desk.session("t").working();
    second.run(&["page", "claim", &desk.page_slug()]).ok();
    let state = desk.state();
    assert_eq!(state["session"], json!(second.id()));
    assert_eq!(state["owed"].as_array().map(Vec::len), Some(2), "what is owed moves: {state:#}");
    let mut told = second.boundary().says();
    told += &second.prompt("go on").context().unwrap_or_default();
    assert!(told.contains("not picked up") && references(&told).iter().any(|r| r.ends_with(&fresh)), "{told}");
    // The new holder owes the other one too, and never got it (R100).
    assert!(references(&told).iter().any(|r| r.ends_with(&old)), "{told}");
    let heard = first.boundary().context().unwrap_or_default();
    assert_eq!(references(&heard), Vec::<String>::new(), "at most that the page is gone: {heard}");
    first.boundary().silent();
    assert_eq!(first.stop().context(), None, "the first owes nothing any more");
    desk.ask(&["thread", "new", "after the claim", "--session", second.id()]);
    assert!(second.boundary().says().contains("after the claim"));
}

#[test]
fn r111_the_page_file_is_the_authority() {
    let desk = Desk::new();
    let _first = desk.session("s").working();
    desk.thread("one");
    let page = std::fs::read_to_string(desk.page().join("page.json")).expect("page.json");
    assert!(page.contains(_first.id()), "the session that holds it: {page}");
    let second = desk.session("t").working();
    second.run(&["page", "claim", &desk.page_slug()]).ok();
    let page = std::fs::read_to_string(desk.page().join("page.json")).expect("page.json");
    assert!(page.contains(second.id()) && !page.contains(_first.id()), "{page}");
    second.run(&["page", "claim", "no-such-page"]).refused();
}

#[test]
fn r112_the_newest_session_starts_client_is_the_sessions() {
    let desk = Desk::new();
    let older = desk.session("s").working();
    desk.thread("for whom?");
    let newer = desk.session("s");
    assert_eq!(older.id(), newer.id());
    newer.start("resume").silent_or_context();
    older.boundary().silent();
    older.prompt("hello").silent();
    older.stop().silent();
    assert_eq!(desk.events("pickup"), Vec::<Value>::new(), "another client's hooks deliver nothing");
    let told = newer.prompt("go on").says();
    assert!(told.contains("for whom?"), "{told}");
}

#[test]
fn r112_another_clients_hooks_open_and_end_no_turn() {
    let desk = Desk::new();
    let older = desk.session("s").working();
    let newer = desk.session("s");
    newer.start("resume").silent_or_context();
    newer.prompt("go on").silent_or_context();
    let thread = desk.thread("held");
    newer.boundary().reference();
    older.prompt("not mine").silent();
    older.stop_active().silent();
    older.stop_failure().silent();
    assert_eq!(desk.thread_state(&thread)["status"], "working", "the newer client's turn goes on");
}

#[test]
fn r113_an_empty_or_missing_session_id_writes_and_matches_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("for a session with a name");
    let before = desk.files(&["errors.log"]);
    let names = [
        "SessionStart.main.startup",
        "SessionStart.main.compact",
        "UserPromptSubmit.main",
        "PreToolUse.main.Bash",
        "PostToolBatch.main",
        "Stop.main.tui",
        "StopFailure.main.tui",
        "SessionEnd.main.other",
    ];
    for name in names {
        for wrong in [json!(""), json!(null), json!(7), json!([])] {
            let mut payload = main.payload(name);
            payload["session_id"] = wrong;
            main.hook(&payload).silent();
        }
        let mut payload = main.payload(name);
        payload.as_object_mut().expect("an object").remove("session_id");
        main.hook(&payload).silent();
    }
    assert_eq!(desk.files(&["errors.log"]), before);
    assert!(main.boundary().says().contains("for a session with a name"));
}

#[test]
fn r113_a_session_id_of_more_than_256_bytes_is_none() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let sessions = || std::fs::read_dir(desk.state_dir().join("sessions")).map_or(0, |d| d.count());
    let before = sessions();
    let mut payload = main.payload("SessionStart.main.startup");
    payload["session_id"] = json!("x".repeat(257));
    main.hook(&payload).silent();
    assert_eq!(sessions(), before);
    payload["session_id"] = json!("x".repeat(256));
    main.hook(&payload).silent_or_context();
    assert_eq!(sessions(), before + 1);
}

#[test]
fn r111_a_person_may_claim_for_the_session_that_a_command_finds() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    desk.thread("moves");
    let slug = desk.page_slug();
    desk.advance(10);
    let second = desk.session("t").working();
    desk.person(&["page", "claim", &slug]).ok();
    assert_eq!(desk.ask(&["page", "state", "--page", &slug])["session"], json!(second.id()));
    assert!(second.boundary().says().contains("moves"));
    let heard = first.boundary().context().unwrap_or_default();
    assert!(!heard.contains("moves"), "{heard}");
}

#[test]
fn r112_the_older_clients_end_does_not_end_the_session() {
    let desk = Desk::new();
    let older = desk.session("s").working();
    let newer = desk.session("s");
    newer.start("resume").silent_or_context();
    newer.prompt("go on").silent_or_context();
    older.end("other").silent();
    older.client.kill();
    let event = desk.ask(&["thread", "new", "still alive?"]);
    assert_eq!(desk.state()["session"], json!(newer.id()), "somebody reads it: {event}");
    assert!(newer.boundary().says().contains("still alive?"));
}

#[test]
fn r110_inside_a_client_a_command_is_its_own_sessions() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    let thread = desk.thread("for the first");
    first.boundary().says();
    let second = desk.session("t").working();
    let ran = first.run(&["thread", "line", &thread, "at it", "--session", second.id()]);
    let lines = desk.events("line");
    if ran.code == 0 {
        assert_eq!(lines[0]["session"], json!(first.id()), "never another's");
    } else {
        assert_eq!(lines, Vec::<Value>::new());
    }
}

#[test]
fn r110_a_dead_session_is_not_found() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    desk.thread("one");
    first.boundary().says();
    desk.advance(10);
    let second = desk.session("t").working();
    // Killed without a SessionEnd: the kernel knows.
    second.client.kill();
    desk.thread("two");
    assert!(first.boundary().says().contains("two"));
}

#[test]
fn r113_a_watch_without_a_session_leaves_at_once() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    desk.thread("would wake");
    for payload in [json!({"hook_event_name": "Stop", "session_id": ""}), json!({"hook_event_name": "Stop"}), json!(7)]
    {
        let ran = main.job(&["watch"]).input(payload.to_string().as_bytes()).run();
        assert_eq!((ran.code, ran.err()), (0, String::new()), "{payload}");
    }
    let ran = main.job(&["watch"]).input(b"not json").run();
    assert_eq!((ran.code, ran.err()), (0, String::new()));
}

#[test]
fn r110_first_needs_at_the_same_moment_make_one_page() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let children: Vec<_> =
        (0..8).map(|n| desk.command(&["thread", "new", &format!("first-{n}")]).spawn().expect("leaf runs")).collect();
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(desk.pages().len(), 1, "{:?}", desk.pages());
    let told = main.boundary().says();
    for n in 0..8 {
        assert!(told.contains(&format!("first-{n}")), "{told}");
    }
}

#[test]
fn r110_without_a_session_first_needs_at_the_same_moment_make_one_page() {
    let desk = Desk::new();
    let children: Vec<_> =
        (0..8).map(|n| desk.command(&["thread", "new", &format!("first-{n}")]).spawn().expect("leaf runs")).collect();
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(desk.pages().len(), 1, "{:?}", desk.pages());
    assert_eq!(desk.events("message").len(), 8);
}

#[test]
fn r110_an_ended_session_reads_nothing_though_its_client_lives() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("one");
    main.boundary().says();
    main.end("other").silent();
    let event = desk.ask(&["thread", "new", "two"]);
    assert!(!notes(&event).is_empty(), "nobody reads it yet: {event}");
    main.start("resume").silent_or_context();
    assert!(main.prompt("go on").says().contains("two"));
}

#[test]
fn r111_claims_at_the_same_moment_leave_one_holder() {
    let desk = Desk::new();
    let sessions = [desk.session("s").working(), desk.session("t").working(), desk.session("u").working()];
    desk.ask(&["page", "new", "Contested", "--slug", "contested"]);
    for round in 0..5 {
        let running: Vec<_> = sessions.iter().map(|s| s.job(&["page", "claim", "contested"]).start()).collect();
        for claim in &running {
            claim.wait(std::time::Duration::from_secs(15)).expect("it ends").ok();
        }
        let text = format!("round {round}");
        let thread = id(&desk.ask(&["thread", "new", &text, "--page", "contested"]));
        let told: Vec<bool> =
            sessions.iter().map(|s| s.boundary().context().unwrap_or_default().contains(&text)).collect();
        assert_eq!(told.iter().filter(|t| **t).count(), 1, "one holder delivers: {told:?}");
        let holder = &sessions[told.iter().position(|t| *t).expect("one")];
        assert_eq!(desk.ask(&["page", "state", "--page", "contested"])["session"], json!(holder.id()));
        holder.reply(&thread, "mine");
    }
}

#[test]
fn r110_an_id_finds_its_page_from_anywhere() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("of the project");
    main.boundary().reference();
    let mut command = desk.command(&["thread", "say", &thread, "from elsewhere", "--json"]);
    let ran = crate::support::desk::Ran::from(command.current_dir(desk.home()).output().expect("leaf runs"));
    assert_eq!(ran.ok().json()["thread"], json!(thread));
    assert_eq!(desk.pages().len(), 1);
    assert!(main.boundary().says().contains("from elsewhere"));
}

#[test]
fn r110_a_page_whose_session_is_gone_has_no_reader() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("one");
    main.boundary().says();
    main.client.kill();
    let event = desk.ask(&["thread", "say", &thread, "two"]);
    assert!(!notes(&event).is_empty(), "nobody reads it yet: {event}");
}

#[test]
fn r110_a_session_whose_record_a_power_loss_left_empty_goes_on() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("before");
    let sessions = desk.state_dir().join("sessions");
    let key = std::fs::read_dir(&sessions).expect("sessions").next().expect("one").expect("an entry");
    std::fs::write(key.path().join("session.json"), "").expect("emptied");
    main.start("resume").silent_or_context();
    assert!(main.prompt("go on").says().contains("before"));
}
