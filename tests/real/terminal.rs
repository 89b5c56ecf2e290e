//! The terminal client: idle sessions wake, /clear keeps the page, a person needs no session id.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::client::{Client, until};
use crate::model::Reply;
use crate::{
    ALLOWED, LIMIT, assert_answered, delivered, diligent, go_on, handed, logs, page, plain, thread, until_answered,
    until_busy, write,
};

const SESSION: &str = "0a9d7c35-51f2-4e0b-8b1c-7e6f5d4c3b2a";

fn session() -> Vec<&'static str> {
    [&["--session-id", SESSION], &ALLOWED[..]].concat()
}

/// Waits until a watch is parked and has the lane, which it takes once the session is on record: from now on input wakes it.
fn until_parked(client: &Client) {
    until("a watch is parked", LIMIT, || {
        let sessions = std::fs::read_dir(client.path("home/.local/state/leaf/sessions")).ok()?;
        let held = sessions.flatten().any(|session| session.path().join("lanes/watch").exists());
        (held && !client.watches().is_empty()).then_some(())
    })
    .unwrap_or_else(|late| panic!("{late}: {:?}", client.processes()));
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_an_idle_session_wakes_for_a_message() {
    let client = plain(diligent("Half past nine.")).without_module();
    let terminal = client.open(&session());
    terminal.say("hello there");
    terminal.wait("the reply", |screen| screen.contains("that is all"));
    until_parked(&client);
    let message = write(&client, "What time is it?", SESSION);
    delivered(&client, "What time is it?");
    until_answered(&client, &message);
    assert_answered(&client, &message, "Half past nine.");
    terminal.wait("the end of the turn", |screen| screen.matches("that is all").count() == 2);

    // One wake, one turn: the prompt's request, the wake's, and the one after the reply.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(client.model.requests().len(), 3);
    assert_eq!(handed(&client, "What time is it?"), 1);

    // It wakes as well the next time.
    let again = write(&client, "And now?", SESSION);
    until_answered(&client, &again);
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_a_fresh_session_wakes_before_its_first_prompt() {
    let client = plain(diligent("Good morning."));
    let terminal = client.open(&session());
    until_parked(&client);
    let message = write(&client, "Are you up?", SESSION);
    until_answered(&client, &message);
    assert_answered(&client, &message, "Good morning.");
    terminal.wait("the end of the turn", |screen| screen.contains("that is all"));
    assert_eq!(handed(&client, "Are you up?"), 1);
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_a_busy_session_is_not_woken_besides() {
    let client = plain(diligent("Soon."));
    let terminal = client.open(&session());
    terminal.say("KEEP BUSY please");
    until_busy(&client);
    let message = write(&client, "How long still?", SESSION);
    // Time enough for a watch that would wake a busy main.
    std::thread::sleep(Duration::from_secs(2));
    go_on(&client);
    until_answered(&client, &message);
    terminal.wait("the end of the turn", |screen| screen.contains("that is all"));
    std::thread::sleep(Duration::from_secs(3));
    let requests = client.model.requests();
    assert_eq!(requests.len(), 3, "the call, the delivery, the end: {requests:?}");
    assert_eq!(requests[1].results().len(), 1, "at the boundary: {requests:?}");
    assert_answered(&client, &message, "Soon.");
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_an_unanswered_message_wakes_nobody_twice() {
    let client = plain(|_| Reply::text("let me think")).without_module();
    let terminal = client.open(&session());
    until_parked(&client);
    let message = write(&client, "Well?", SESSION);
    delivered(&client, "Well?");
    terminal.wait("the end of the turn", |screen| screen.contains("let me think"));
    std::thread::sleep(Duration::from_secs(5));
    let woken = client.model.requests().len();
    // A Stop after a wake is an active one: R104 has no reminder there.
    assert_eq!(woken, 1, "{:?}", client.model.requests());

    // The next prompt says the old debt once, by its reference.
    terminal.say("any news");
    let asked = client.model.wait_for(LIMIT, |request| request.text().contains("any news"));
    let reference = delivered(&client, "Well?");
    let asked = asked.expect("the prompt's request");
    assert_eq!(asked.references(), [reference], "{asked:?}");
    assert_eq!(thread(&client, &message)["waiting"], json!([message["id"]]));
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_r104_the_modules_wake_is_one_and_its_stop_reminds_once() {
    let client = plain(|_| Reply::text("let me think"));
    let terminal = client.open(&session());
    until_parked(&client);
    let message = write(&client, "Well?", SESSION);
    let reference = delivered(&client, "Well?");
    // The module's wake is a prompt like any, whose Stop is not an active one.
    terminal.wait("the end of the turn", |screen| screen.matches("let me think").count() == 2);
    std::thread::sleep(Duration::from_secs(3));
    let requests = client.model.requests();
    assert_eq!(requests.len(), 2, "the wake, the reminder: {requests:?}");
    assert_eq!(requests[1].references(), [reference], "by its reference: {requests:?}");
    assert_eq!(thread(&client, &message)["waiting"], json!([message["id"]]));
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r106_the_newer_watch_takes_the_lane_and_every_older_leaves() {
    let client = plain(diligent("Still here.")).without_module();
    let terminal = client.open(&session());
    for (turn, line) in ["one more", "two more", "three more"].iter().enumerate() {
        terminal.say(line);
        terminal.wait("the reply", |screen| screen.matches("that is all").count() == turn + 1);
    }
    let one_left = || (client.watches().len() == 1).then_some(());
    until("one watch is left", Duration::from_secs(10), one_left)
        .unwrap_or_else(|late| panic!("{late}: {:?}", client.processes()));
    let message = write(&client, "Who is there?", SESSION);
    until_answered(&client, &message);
    assert_eq!(handed(&client, "Who is there?"), 1);
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r106_the_watch_leaves_with_a_killed_client() {
    let client = plain(diligent("unused")).without_module();
    let terminal = client.open(&session());
    terminal.say("hello there");
    terminal.wait("the reply", |screen| screen.contains("that is all"));
    until_parked(&client);
    let pid = Pid::from_raw(client.pid()).expect("a pid");
    kill_process(pid, Signal::KILL).expect("the client is killed");
    let gone = || client.watches().is_empty().then_some(());
    until("the watch has left", Duration::from_secs(15), gone).unwrap_or_else(|late| panic!("{late}"));
    drop(terminal);
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r105_a_killed_watch_costs_the_wake_and_nothing_else() {
    let client = plain(diligent("Not lost.")).without_module();
    let terminal = client.open(&session());
    until_parked(&client);
    for watch in client.watches() {
        let watch = Pid::from_raw(watch).expect("a pid");
        kill_process(watch, Signal::KILL).expect("the watch is killed");
    }
    let message = write(&client, "Did you lose this?", SESSION);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(client.model.requests().len(), 0, "nothing is left that could wake it");

    terminal.say("hello there");
    until_answered(&client, &message);
    assert_eq!(handed(&client, "Did you lose this?"), 1);
    terminal.wait("the end of the turn", |screen| screen.contains("that is all"));
    // The prompt and the Stop parked the next.
    let next = write(&client, "And this?", SESSION);
    until_answered(&client, &next);
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r109_clear_keeps_the_page_and_the_new_session_gets_what_comes() {
    let client = plain(diligent("Here."));
    let terminal = client.open(&session());
    until_parked(&client);
    let before = write(&client, "First of all?", SESSION);
    until_answered(&client, &before);
    terminal.wait("the end of the turn", |screen| screen.contains("that is all"));
    terminal.say("/clear");
    terminal.wait("an empty screen", |screen| !screen.contains("that is all"));

    let after = client.json(&["thread", "new", "After all?"]);
    until_answered(&client, &after);
    assert_answered(&client, &after, "Here.");
    let page = page(&client, &before);
    assert_eq!(page, crate::page(&client, &after), "one page, before and after");
    let state = client.json(&["page", "state", "--page", &page]);
    let holder = state["session"].as_str().expect("a session holds it");
    assert_ne!(holder, SESSION, "the new session holds it");
    let handing = client.model.requests();
    let handing = handing.iter().find(|request| request.text().contains("After all?"));
    let conversation = handing.expect("delivered").conversation();
    assert!(!conversation.contains("First of all?"), "in the cleared conversation: {conversation}");
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r109_a_debt_survives_clear() {
    let cleared = Arc::new(AtomicBool::new(false));
    let (now, mut obey) = (Arc::clone(&cleared), diligent("Paid."));
    let client = plain(move |request| if now.load(Ordering::SeqCst) { obey(request) } else { Reply::text("not now") });
    let terminal = client.open(&session());
    until_parked(&client);
    let message = write(&client, "Do you owe me something?", SESSION);
    delivered(&client, "Do you owe me something?");
    terminal.wait("the end of the turn", |screen| screen.contains("not now"));
    cleared.store(true, Ordering::SeqCst);
    terminal.say("/clear");
    terminal.wait("an empty screen", |screen| !screen.contains("not now"));
    // The new conversation never saw the message: by a wake or with this prompt, it is told of it.
    terminal.say("settle up");
    until_answered(&client, &message);
    assert_answered(&client, &message, "Paid.");
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r110_a_persons_command_finds_the_attended_session() {
    let client = plain(diligent("Found."));
    let terminal = client.open(&session());
    terminal.say("hello there");
    terminal.wait("the reply", |screen| screen.contains("that is all"));
    until_parked(&client);
    // A run that nobody attends is busier and younger, and is passed over.
    let run = client.print("KEEP BUSY", &ALLOWED);
    until_busy(&client);
    let here = client.json(&["thread", "new", "Do you find me?"]);
    let below = client.person_in("project/sub", &["thread", "new", "And from below?", "--json"]);
    assert_eq!(below.code, 0, "{below:?}");
    let below = serde_json::from_str(&below.stdout).expect("JSON");
    for message in [&here, &below] {
        until_answered(&client, message);
        let state = client.json(&["page", "state", "--page", &page(&client, message)]);
        assert_eq!(state["session"], SESSION, "{state}");
    }
    go_on(&client);
    let outcome = run.end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for request in client.model.requests() {
        let run = request.conversation().contains("KEEP BUSY");
        assert!(!run || request.references().is_empty(), "the run got nothing: {request:?}");
    }
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r054_after_compaction_main_is_told_once_what_it_owes() {
    let client = plain(|request| match request.references().first() {
        Some(reference) if request.text().contains("carry on") => {
            Reply::bash(format!("leaf thread reply {reference} 'Remembered.'"))
        }
        _ => Reply::text("later"),
    });
    let terminal = client.open(&session());
    until_parked(&client);
    let message = write(&client, "Will you remember this?", SESSION);
    let reference = delivered(&client, "Will you remember this?");
    terminal.wait("the end of the turn", |screen| screen.contains("later"));
    terminal.say("/compact");
    terminal.wait("the summary", |screen| screen.contains("Compacted"));
    terminal.say("carry on");
    let told = client.model.wait_for(LIMIT, |request| request.text().contains("carry on"));
    let told = told.expect("the prompt's request");
    assert_eq!(told.references(), [reference.as_str()], "{told:?}");
    until_answered(&client, &message);
    assert_answered(&client, &message, "Remembered.");
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r042_a_turn_that_dies_of_an_api_error_has_ended() {
    let mut obey = diligent("Recovered.");
    let client = plain(move |request| {
        if request.text().contains("BREAK DOWN") && request.references().is_empty() {
            Reply::failure(400, "scripted")
        } else {
            obey(request)
        }
    });
    let terminal = client.open(&session());
    terminal.say("BREAK DOWN");
    terminal.wait("the error", |screen| screen.contains("API Error"));
    // Were its turn still open, nothing could wake the session.
    let message = write(&client, "Are you well?", SESSION);
    until_answered(&client, &message);
    assert_answered(&client, &message, "Recovered.");
    terminal.exit();
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn r071_the_clients_own_prompt_is_no_way_to_write() {
    let client = plain(diligent("unused"));
    let terminal = client.open(&session());
    terminal.say("!leaf thread new forged; echo status $?");
    terminal.wait("the refusal", |screen| screen.contains("status 1"));
    let shown = terminal.screen();
    assert!(shown.contains("leaf:") || shown.matches("leaf").count() > 1, "it says why: {shown}");
    assert_eq!(logs(&client), "", "nothing was written");
    terminal.wait("the end of the turn", |screen| screen.contains("that is all"));
    terminal.exit();
    client.settle();
}
