//! Main's deliveries, Stop and watch: R100 to R108.

use std::fs::File;
use std::time::{Duration, Instant};

use crate::s12_boundary::{long_text, pointers};
use crate::support::desk::{Desk, Ran, references};
use serde_json::{Value, json};

#[test]
fn r100_a_boundary_a_prompt_and_a_stop_deliver_all_in_one() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    type Deliver = fn(&crate::support::desk::Session<'_>) -> crate::support::desk::HookRan;
    let ways: [(&str, Deliver); 3] =
        [("boundary", |main| main.boundary()), ("stop", |main| main.stop()), ("prompt", |main| main.prompt("go on"))];
    let mut deliveries = Vec::new();
    for (name, deliver) in ways {
        let first = desk.thread(&format!("{name} first"));
        let second = desk.thread(&format!("{name} second"));
        let more = desk.say(&second, &format!("{name} third"));
        let hook = deliver(&main);
        let told = hook.says();
        for n in ["first", "second", "third"] {
            assert!(told.contains(&format!("{name} {n}")), "{told}");
        }
        let refs = references(&told);
        assert_eq!(refs.len(), 2, "a reference for each thread: {told}");
        assert!(refs.iter().any(|r| r.ends_with(&first)) && refs.iter().any(|r| r.ends_with(&more)), "{told}");
        let ids: Vec<&str> = refs.iter().map(|r| &r[..8]).collect();
        assert_eq!(ids[0], ids[1], "one delivery");
        deliveries.push(ids[0].to_owned());
        for reference in refs {
            main.reply(&reference, "here");
        }
        let event = hook.answer.expect("an answer")["hookSpecificOutput"]["hookEventName"].clone();
        let expected = match name {
            "boundary" => "PostToolBatch",
            "stop" => "Stop",
            _ => "UserPromptSubmit",
        };
        assert_eq!(event, expected);
    }
    assert!(deliveries[0] != deliveries[1] && deliveries[1] != deliveries[2]);
    main.boundary().silent();
}

#[test]
fn r100_only_what_main_has_not_got() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("the first");
    main.boundary().reference();
    main.boundary().silent();
    desk.say(&thread, "the second");
    let told = main.boundary().says();
    assert!(told.contains("the second") && !told.contains("the first"), "{told}");
}

#[test]
fn r100_several_lines_become_a_digest() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let threads: Vec<String> = (0..3).map(|n| desk.thread(&format!("question {n}"))).collect();
    main.boundary().says();
    for thread in &threads {
        desk.person(&["thread", "withdraw", thread]).ok();
    }
    let told = main.boundary().says();
    for thread in &threads {
        assert!(told.contains(thread.as_str()), "all in one context: {told}");
    }
    main.boundary().silent();
}

#[test]
fn r101_the_pickup_is_on_disk_and_an_inline_delivery_is_its_pickup() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let first = desk.thread("one");
    let second = desk.thread("two");
    let refs = references(&main.boundary().says());
    let pickups = desk.events("pickup");
    let delivery = &refs[0][..8];
    assert!(pickups.iter().all(|p| p["delivery"] == json!(delivery)), "{pickups:?}");
    assert_eq!(pickups[0]["id"], json!(delivery), "an inline delivery's id is that of its first pickup");
    let mut picked: Vec<&Value> = pickups.iter().flat_map(|p| p["messages"].as_array().expect("messages")).collect();
    picked.sort_by_key(|m| m.as_str().map(str::to_owned));
    let mut expected = [json!(first), json!(second)];
    expected.sort_by_key(|m| m.as_str().map(str::to_owned));
    assert_eq!(picked, expected.iter().collect::<Vec<_>>());
}

#[test]
fn r101_what_was_not_shown_is_repeated_once_by_its_reference() {
    for closed in ["\"$LEAF\" hook >/dev/full", "{ sleep 0.2; \"$LEAF\" hook; } | :"] {
        let desk = Desk::new();
        let main = desk.session("s").working();
        let thread = desk.thread("did you see it?");
        main.shell_with_payload(closed, &main.payload("PostToolBatch.main"));
        let pickups = desk.events("pickup");
        assert_eq!(pickups.len(), 1, "the pickup is on disk before the output: {closed}");
        let reference = format!("{}:{thread}", pickups[0]["delivery"].as_str().expect("a delivery"));
        let told = main.boundary().says();
        assert_eq!(references(&told), vec![reference.clone()], "{closed}: {told}");
        assert_eq!(desk.events("pickup").len(), 1, "no second pickup: {closed}");
        main.boundary().silent();
        main.reply(&reference, "now I do");
    }
}

#[test]
fn r101_a_killed_hooks_delivery_is_repeated_not_lost() {
    for millis in [0, 1, 2, 3, 4, 6] {
        let desk = Desk::new();
        let main = desk.session("s").working();
        let thread = desk.thread("did you see it?");
        // Killed before, while or after it writes: main reads it in one of the two hooks.
        let payload = main.payload("PostToolBatch.main").to_string();
        let hook = main.job(&["hook"]).input(payload.as_bytes()).start();
        hook.pid();
        std::thread::sleep(Duration::from_millis(millis));
        hook.signal("KILL");
        let ran = hook.wait(Duration::from_secs(10)).expect("it ends");
        let next = main.boundary().context().unwrap_or_default();
        let told = ran.out() + &next;
        assert!(told.contains(&format!(":{thread}")), "killed after {millis} ms: {ran:?}\n{next}");
        assert_eq!(desk.events("pickup").len(), 1, "one pickup");
        main.boundary().silent();
    }
}

#[test]
fn r101_a_pointer_is_said_once_a_turn() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.person_with_input(&["thread", "new"], long_text(30_000, "long").as_bytes()).ok();
    let told = main.boundary().says();
    let delivery = pointers(&desk)[0].clone();
    assert!(told.contains(&delivery));
    main.boundary().silent();
    main.boundary().silent();
    let told = main.prompt("a new turn").says();
    assert!(pointers(&desk).iter().any(|d| told.contains(d.as_str())), "said again: {told}");
    main.boundary().silent();
}

#[test]
fn r102_every_message_is_picked_up_by_name() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let a = desk.thread("a");
    let b = desk.thread("b");
    let gone = desk.say(&a, "withdrawn");
    let last = desk.say(&a, "after it");
    desk.person(&["thread", "withdraw", &gone]).ok();
    main.boundary().says();
    let pickups = desk.events("pickup");
    for (thread, expected) in [(&a, json!([a, last])), (&b, json!([b]))] {
        let of: Vec<&Value> = pickups.iter().filter(|p| p["thread"] == json!(thread)).collect();
        assert_eq!(of.len(), 1, "{pickups:?}");
        assert_eq!(of[0]["messages"], expected);
    }
}

#[test]
fn r102_a_hook_that_gives_up_has_changed_nothing() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("patience");
    let before = desk.files(&["errors.log", "view.json", "state.json"]);
    let lock = File::options().read(true).write(true).open(desk.log_path()).expect("the log");
    lock.lock().expect("the page's lock");
    let started = Instant::now();
    main.boundary().silent();
    assert!(started.elapsed() < Duration::from_secs(4), "it waits at most 2 s: {:?}", started.elapsed());
    assert_eq!(desk.files(&["errors.log", "view.json", "state.json"]), before);
    lock.unlock().expect("the page's lock");
    assert!(main.boundary().says().contains("patience"));
}

#[test]
fn r103_a_receipt_is_refused_where_another_session_holds_the_page() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.person_with_input(&["thread", "new"], long_text(30_000, "long").as_bytes()).ok();
    main.boundary().says();
    let delivery = pointers(&desk)[0].clone();
    let other = desk.session("t").working();
    other.run(&["page", "claim", &desk.page_slug()]).ok();
    let lines = desk.events("pickup").len();
    main.run(&["delivery", "ack", &delivery]).refused();
    assert_eq!(desk.events("pickup").len(), lines);
}

#[test]
fn r103_a_receipt_is_refused_where_its_messages_are_gone() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let text = long_text(30_000, "long");
    let thread =
        crate::support::desk::id(&desk.person_with_input(&["thread", "new", "--json"], text.as_bytes()).ok().json());
    main.boundary().says();
    let delivery = pointers(&desk)[0].clone();
    desk.person(&["thread", "withdraw", &thread]).ok();
    main.run(&["delivery", "ack", &delivery]).refused();
    assert_eq!(desk.events("pickup"), Vec::<Value>::new());
}

#[test]
fn r104_stop_continues_once_for_new_input() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("before you go");
    let hook = main.stop();
    assert!(hook.says().contains("before you go"));
    assert_eq!(hook.answer.as_ref().expect("an answer").get("decision"), None, "it adds context rather than blocks");
    assert_eq!(main.stop_active().context(), None, "once for each, and no old debt while active");
    desk.thread("and another");
    main.prompt("next").says();
}

#[test]
fn r104_new_input_continues_an_active_stop_too() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("first");
    assert!(main.stop().says().contains("first"));
    desk.thread("second");
    let told = main.stop_active().says();
    assert!(told.contains("second"), "{told}");
    main.stop_active().silent();
}

#[test]
fn r104_old_debt_holds_only_a_first_stop() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("answer me");
    let reference = main.boundary().reference();
    let told = main.stop().says();
    assert_eq!(references(&told), vec![reference], "{told}");
    main.stop_active().silent();
}

#[test]
fn r104_a_first_stop_tells_old_debt_beside_new_input() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("got, not answered");
    let old = main.boundary().reference();
    let new = desk.thread("not got yet");
    let refs = references(&main.stop().says());
    assert!(refs.iter().any(|r| r.ends_with(&new)), "{refs:?}");
    assert!(refs.contains(&old), "the next Stop is an active one: {refs:?}");
}

#[test]
fn r104_never_for_what_main_started_since_its_pickup() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a long job");
    main.boundary().reference();
    main.ask(&["task", "start", &thread, "at it"]);
    main.stop().silent();
}

#[test]
fn r104_never_for_what_is_answered() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("quick");
    let reference = main.boundary().reference();
    main.reply(&reference, "done");
    main.stop().silent();
}

#[test]
fn r104_what_an_ended_turn_left_is_said_once_at_the_next_prompt() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("left over");
    let reference = main.boundary().reference();
    main.stop().says();
    main.stop_active().silent();
    let told = main.prompt("next").says();
    assert_eq!(references(&told), vec![reference.clone()], "by its reference: {told}");
    main.boundary().silent();
    main.reply(&reference, "at last");
    main.stop().silent();
    main.prompt("once more").silent();
}

#[test]
fn r104_one_short_of_the_clients_cap_it_lets_the_turn_end() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    for n in 0..7 {
        desk.thread(&format!("input {n}"));
        let hook = if n == 0 { main.stop() } else { main.stop_active() };
        assert!(hook.says().contains(&format!("input {n}")), "continuation {n}");
    }
    desk.thread("one too many");
    assert_eq!(main.stop_active().context(), None, "the eighth would be the client's last");
    assert!(main.prompt("next").says().contains("one too many"), "nothing is lost");
}

#[test]
fn r104_a_tool_boundary_starts_the_count_anew() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    for n in 0..20 {
        desk.thread(&format!("input {n}"));
        let hook = if n == 0 { main.stop() } else { main.stop_active() };
        assert!(hook.says().contains(&format!("input {n}")), "continuation {n}");
        main.boundary().silent_or_context();
    }
}

#[test]
fn r104_the_cap_is_the_clients_own() {
    let desk = Desk::new();
    let main = desk.session("s");
    main.set_env("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP", "3");
    let main = main.working();
    for n in 0..2 {
        desk.thread(&format!("input {n}"));
        let hook = if n == 0 { main.stop() } else { main.stop_active() };
        hook.says();
    }
    desk.thread("one too many");
    assert_eq!(main.stop_active().context(), None);
}

#[test]
fn r104_the_clerks_lines_alone_hold_no_stop() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("taken back");
    main.boundary().reference();
    desk.person(&["thread", "withdraw", &thread]).ok();
    main.stop().silent();
}

#[test]
fn r105_an_idle_session_is_woken_and_the_wake_picks_nothing_up() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    let watch = main.watch();
    watch.parked(300);
    let thread = desk.thread("are you asleep?");
    let told = watch.woke();
    assert!(!told.trim().is_empty());
    assert_eq!(desk.events("pickup"), Vec::<Value>::new(), "waking writes no pickup");
    assert_eq!(desk.thread_state(&thread)["status"], "waiting");
    let mut payload = main.payload("UserPromptSubmit.main.task-notification.rewake");
    payload["prompt_id"] = json!("b0000000-0000-4000-8000-000000000001");
    let delivered = main.hook(&payload).says();
    assert!(delivered.contains("are you asleep?"), "the prompt that it causes delivers: {delivered}");
}

#[test]
fn r105_input_that_is_there_before_the_watch_parks_wakes_too() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    desk.thread("between the Stop and the watch");
    main.watch().woke();
}

#[test]
fn r105_a_fresh_session_is_woken_where_its_start_parked_the_watch() {
    let desk = Desk::new();
    let main = desk.session("s");
    main.start("startup").silent_or_context();
    let watch = main.watch_with("SessionStart.main.startup");
    watch.parked(300);
    desk.thread("good morning");
    watch.woke();
    assert!(main.prompt("woken").says().contains("good morning"));
}

#[test]
fn r105_a_watch_that_a_prompt_parked_wakes_once_the_turn_ended() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let watch = main.watch_with("UserPromptSubmit.main");
    watch.parked(300);
    main.stop().silent();
    watch.parked(300);
    desk.thread("are you done?");
    watch.woke();
}

#[test]
fn r105_nobody_is_woken_while_main_has_an_open_turn() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    let watch = main.watch();
    watch.parked(200);
    main.prompt("at work again").silent();
    desk.thread("no hurry");
    watch.parked(1_500);
    assert!(main.boundary().says().contains("no hurry"));
}

#[test]
fn r105_a_lapsed_turn_counts_as_none() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let watch = main.watch();
    watch.parked(200);
    // Nothing renewed the turn for 15 minutes: an interrupted one has no other sign.
    desk.advance(15 * 60);
    desk.thread("hello?");
    watch.woke();
}

#[test]
fn r105_what_is_no_input_wakes_nobody() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("a question");
    let reference = main.boundary().reference();
    main.reply(&reference, "an answer");
    main.stop().silent();
    let watch = main.watch();
    desk.ask(&["thread", "resolve", &thread]);
    desk.ask(&["thread", "reopen", &thread]);
    watch.parked(1_000);
}

#[test]
fn r105_another_sessions_page_wakes_nobody_here() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    desk.thread("of the first");
    first.boundary().says();
    first.stop().says();
    first.stop_active().silent();
    let page = desk.page_slug();
    let second = desk.session("t").working();
    second.stop().silent();
    let watch = second.watch();
    desk.ask(&["thread", "new", "for the first again", "--page", &page]);
    watch.parked(1_200);
    first.watch().woke();
}

#[test]
fn r106_the_newer_watch_takes_the_lane() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    let older = main.watch();
    older.parked(300);
    let newer = main.watch();
    older.left();
    newer.parked(300);
    desk.thread("wake one");
    newer.woke();
}

#[test]
fn r106_a_watch_leaves_with_its_client() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    let watch = main.watch();
    watch.parked(300);
    main.client.kill();
    watch.left();
}

#[test]
fn r106_a_watch_follows_its_client_across_clear() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("before the clear");
    let reference = main.boundary().reference();
    main.reply(&reference, "fine");
    main.stop().silent();
    let watch = main.watch();
    watch.parked(300);
    main.end("clear").silent();
    let next = desk.session_of(&main.client, "t");
    next.start("clear").silent_or_context();
    watch.parked(300);
    desk.thread("after the clear");
    watch.woke();
    assert!(next.prompt("woken").says().contains("after the clear"));
}

#[test]
fn r106_in_an_unattended_session_the_watch_exits_at_once() {
    let desk = Desk::new();
    let main = desk.session("s").unattended().working();
    desk.ask(&["thread", "new", "waiting", "--session", main.id()]);
    main.stop().says();
    main.stop_active().silent();
    let ran = main.watch().wait(Duration::from_secs(5)).expect("it exits at once");
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn r107_a_printed_line_leaves_the_queue() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("taken back");
    main.boundary().reference();
    desk.person(&["thread", "withdraw", &thread]).ok();
    assert!(main.prompt("next").says().contains(&thread));
    main.boundary().silent();
    main.stop().silent();
    main.prompt("after").silent();
}

#[test]
fn r107_a_session_without_a_page_reads_none() {
    use rustix::fs::inotify;
    let desk = Desk::new();
    let holder = desk.session("s").working();
    desk.thread("of another session");
    let other = desk.session("t");
    // SessionStart looks for a page (R110); what a prompt or a tool call costs is without one.
    other.start("startup").silent_or_context();
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("inotify");
    let seen = inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS;
    inotify::add_watch(&watch, desk.page(), seen).expect("a watched page");
    other.prompt("hello").silent_or_context();
    other.pre_bash("ls").silent();
    other.boundary().silent();
    other.stop().silent();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&watch, &mut buffer);
    let mut opened = Vec::new();
    while let Ok(event) = reader.next() {
        opened.push(event.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned()));
    }
    assert_eq!(opened, Vec::<String>::new(), "no read of pages");
    assert!(holder.boundary().says().contains("of another session"));
}

#[test]
fn r108_a_command_waits_ten_seconds_for_a_lock_and_says_so() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("locked");
    let lines = desk.log().len();
    let lock = File::options().read(true).write(true).open(desk.log_path()).expect("the log");
    lock.lock().expect("the page's lock");
    let started = Instant::now();
    let say = main.job(&["thread", "line", &thread, "can't"]).start();
    let ran: Ran = desk.person(&["thread", "say", &thread, "too late"]);
    let waited = started.elapsed();
    ran.refused();
    assert!(waited > Duration::from_secs(8) && waited < Duration::from_secs(14), "{waited:?}");
    say.wait(Duration::from_secs(10)).expect("it ends").refused();
    drop(lock);
    assert_eq!(desk.log().len(), lines);
    desk.say(&thread, "in time");
}

#[test]
fn r108_a_command_gets_a_lock_that_is_freed_in_time() {
    let desk = Desk::new();
    let thread = desk.thread("locked");
    let lock = File::options().read(true).write(true).open(desk.log_path()).expect("the log");
    lock.lock().expect("the page's lock");
    let child = desk.command(&["thread", "say", &thread, "patient"]).spawn().expect("leaf runs");
    std::thread::sleep(Duration::from_millis(1_500));
    drop(lock);
    Ran::from(child.wait_with_output().expect("it ends")).ok();
    assert_eq!(desk.events("message").len(), 2);
}

#[test]
fn r108_a_hooks_own_failure_is_silent_with_one_line_in_errors_log() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("can't be read");
    let log = desk.log_path();
    std::fs::rename(&log, desk.path("log.aside")).expect("the log aside");
    std::fs::create_dir(&log).expect("a directory where the log was");
    let before = desk.errors().len();
    main.boundary().silent();
    assert_eq!(desk.errors().len(), before + 1, "one line: {:?}", desk.errors());
    std::fs::remove_dir(&log).expect("the directory away");
    std::fs::rename(desk.path("log.aside"), &log).expect("the log back");
    assert!(main.boundary().says().contains("can't be read"));
}

#[test]
fn r108_a_hook_waits_for_the_sessions_lock_no_longer_than_for_a_pages() {
    use sha2::{Digest, Sha256};
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("patience");
    let key: String = Sha256::digest(main.id().as_bytes()).iter().take(16).map(|b| format!("{b:02x}")).collect();
    let path = desk.state_dir().join("sessions").join(key).join("lock");
    let lock = File::options().read(true).write(true).open(path).expect("sessions/<key>/lock");
    lock.lock().expect("the session's lock");
    let started = Instant::now();
    main.boundary().silent();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(desk.events("pickup"), Vec::<Value>::new(), "a hook that gives up has changed nothing");
    drop(lock);
    assert!(main.boundary().says().contains("patience"));
}

#[test]
fn r101_hooks_at_the_same_moment_pick_up_once() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    for round in 0..4 {
        let thread = desk.thread(&format!("question {round}"));
        let payload = main.payload("PostToolBatch.main").to_string();
        let hooks: Vec<_> = (0..6).map(|_| main.job(&["hook"]).input(payload.as_bytes()).start()).collect();
        let told: Vec<String> =
            hooks.iter().map(|h| h.wait(Duration::from_secs(10)).expect("it ends").ok().out()).collect();
        assert!(told.iter().any(|t| t.contains(&format!("question {round}"))), "{told:?}");
        assert_eq!(desk.events("pickup").len(), round + 1, "one pickup");
        main.reply(&thread, "one answer");
    }
}

#[test]
fn r105_a_message_at_the_moment_of_a_stop_is_delivered_or_wakes() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let (mut delivered, mut woken) = (0, 0);
    for round in 0..12_u64 {
        // The client starts a Stop's hook and its watch together.
        let payload = main.payload("Stop.main.tui").to_string();
        let watch = main.watch();
        let stop = main.job(&["hook"]).input(payload.as_bytes()).start();
        std::thread::sleep(Duration::from_micros(700 * round));
        let thread = desk.thread(&format!("question {round}"));
        let told = stop.wait(Duration::from_secs(10)).expect("it ends").ok().out();
        if told.contains(&format!("question {round}")) {
            delivered += 1;
        } else {
            woken += 1;
            watch.woke();
            main.prompt("woken").says();
        }
        main.reply(&thread, "here");
        main.prompt("go on").silent_or_context();
    }
    assert_eq!(delivered + woken, 12);
}

#[test]
fn r101_the_next_hook_that_can_deliver_repeats_be_it_a_stop_or_a_prompt() {
    for by_stop in [true, false] {
        let desk = Desk::new();
        let main = desk.session("s").working();
        let thread = desk.thread("did you see it?");
        main.shell_with_payload("\"$LEAF\" hook >/dev/full", &main.payload("PostToolBatch.main"));
        let told = if by_stop { main.stop().says() } else { main.prompt("go on").says() };
        assert!(references(&told).iter().any(|r| r.ends_with(&thread)), "{told}");
        assert_eq!(desk.events("pickup").len(), 1);
        main.boundary().silent();
    }
}

#[test]
fn r106_a_killed_watch_frees_the_lane() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    let watch = main.watch();
    watch.parked(200);
    crate::support::desk::signal_pid(watch.pid(), "KILL");
    watch.wait(Duration::from_secs(5)).expect("it is killed");
    let next = main.watch();
    next.parked(200);
    desk.thread("still woken");
    next.woke();
}

#[test]
fn r108_deciding_takes_no_lock() {
    use sha2::{Digest, Sha256};
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("locked");
    let key: String = Sha256::digest(main.id().as_bytes()).iter().take(16).map(|b| format!("{b:02x}")).collect();
    let path = desk.state_dir().join("sessions").join(key).join("lock");
    let locks = [path, desk.log_path()].map(|p| File::options().read(true).write(true).open(p).expect("a lock"));
    locks.iter().for_each(|l| l.lock().expect("a lock"));
    let started = Instant::now();
    main.pre_bash("leaf thread list").silent();
    main.pre_bash("leaf thread new x").denied();
    main.worker_bash("cargo test").silent();
    main.hook(&main.payload("PreToolUse.fork.Bash")).silent();
    assert!(started.elapsed() < Duration::from_millis(1_500), "{:?}", started.elapsed());
}

#[test]
fn r108_a_hook_gives_up_in_time_for_the_client_however_many_pages_are_locked() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let mut locks = Vec::new();
    for n in 0..4 {
        desk.ask(&["page", "new", "P", "--slug", &format!("p{n}")]);
        main.run(&["page", "claim", &format!("p{n}")]).ok();
        desk.ask(&["thread", "new", "locked", "--page", &format!("p{n}")]);
    }
    for page in desk.pages() {
        let lock = File::options().read(true).write(true).open(page.join("log.jsonl")).expect("the log");
        lock.lock().expect("the page's lock");
        locks.push(lock);
    }
    assert!(locks.len() >= 4);
    let started = Instant::now();
    main.boundary().silent();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    drop(locks);
    let told = main.boundary().says();
    assert_eq!(told.matches("locked").count(), 4, "{told}");
}

#[test]
fn r101_a_pointer_that_does_not_fit_beside_the_others_waits_for_the_next_hook() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    for n in 0..4 {
        desk.ask(&["page", "new", "P", "--slug", &format!("p{n}")]);
        main.run(&["page", "claim", &format!("p{n}")]).ok();
        desk.ask(&["thread", "new", &"x".repeat(9_000), "--page", &format!("p{n}")]);
    }
    // One message and one pointer fill a hook's context.
    let told: Vec<String> = (0..2).map(|_| main.boundary().says()).collect();
    for n in 0..4 {
        let page = format!("from the user on page p{n},");
        assert_eq!(told.iter().filter(|told| told.contains(&page)).count(), 1, "{page} {told:?}");
    }
    main.boundary().silent();
}

#[test]
fn r105_after_an_api_error_a_new_message_wakes() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let watch = main.watch_with("UserPromptSubmit.main");
    watch.parked(200);
    main.stop_failure().silent();
    desk.thread("try again?");
    watch.woke();
}

#[test]
fn r105_one_wake_for_one_message() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    let watch = main.watch();
    watch.parked(200);
    desk.thread("wake up");
    watch.woke();
    assert!(main.prompt("woken").says().contains("wake up"));
    // Got and left unanswered: old debt, no input; the next watch stays parked for it.
    main.stop().says();
    main.stop_active().silent();
    let next = main.watch();
    next.parked(1_500);
}

#[test]
fn r106_the_lane_tells_its_holder() {
    use sha2::{Digest, Sha256};
    let desk = Desk::new();
    let main = desk.session("s").working();
    main.stop().silent();
    let watch = main.watch();
    watch.parked(300);
    let key: String = Sha256::digest(main.id().as_bytes()).iter().take(16).map(|b| format!("{b:02x}")).collect();
    let lane = desk.state_dir().join("sessions").join(key).join("lanes").join("watch");
    let record = std::fs::read_to_string(&lane).expect("lanes/watch");
    assert!(record.contains(&watch.pid().to_string()), "{record}");
    assert_eq!(crate::support::desk::mode(&lane), 0o600);
    let file = File::options().read(true).write(true).open(&lane).expect("the lane");
    assert!(file.try_lock().is_err(), "held while the watch lives");
    crate::support::desk::signal_pid(watch.pid(), "KILL");
    watch.wait(Duration::from_secs(5)).expect("it is killed");
    file.try_lock().expect("free once it is gone");
}
