//! Follow-ups: R89, R90, R92, R93 (and R91, as it ends).

use crate::support::desk::{Desk, id, references};
use crate::support::forks::{Follower, Fork, forking, holder_kind, main_owes, outcome, shell_task, status, text};
use crate::support::prompts::{HOSTILE, assert_harmless, common, fenced, own_words};
use serde_json::{Value, json};

#[track_caller]
fn answered<'s, 'd>(follower: &Follower<'s, 'd>, message: &str) -> (String, Fork<'s, 'd>) {
    let (thread, fork) = follower.fork(message);
    fork.reply(&fork.reference(), "found");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
    (thread, fork)
}

#[test]
fn r089_the_fork_that_answered_last_is_resumed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    let second = desk.say(&thread, "and where does the okapi live?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!((&action["action"], &action["agent_id"]), (&json!("resume"), &json!(fork.agent)), "{action}");
    assert_ne!(action["turn"], json!(fork.turn));
    let prompt = text(&action["prompt"]);
    assert!(prompt.contains("the okapi"), "{prompt}");
    assert!(references(&prompt).iter().any(|r| r.ends_with(&second)), "{prompt}");
    let again = follower.resume(&action);
    again.reply(&references(&prompt)[0], "in the forest");
    assert_eq!(follower.ended(&again.turn, "done")["outcome"], "answer");
    assert_eq!(status(&desk, &thread), "answered");
}

#[test]
fn r089_a_run_that_answered_nothing_is_not_resumed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    desk.person(&["thread", "withdraw", &thread]).ok();
    assert_eq!(follower.ended(&fork.turn, "oh")["outcome"], "void");
    desk.say(&thread, "another thing");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "spawn", "{action}");
}

#[test]
fn r090_if_main_answered_last_a_new_fork() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    desk.say(&thread, "and?");
    let ask = follower.ask_about(&thread);
    main.reply(&thread, "I know that one");
    assert_eq!(follower.sorted(&ask, "small")["action"], "none");
    desk.say(&thread, "and that?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "spawn", "{action}");
    let next = follower.launch(&action);
    assert_ne!(next.agent, fork.agent);
}

#[test]
fn r090_once_the_earlier_has_ended() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    main.reply(&thread, "42");
    desk.say(&thread, "and?");
    assert_eq!(main_owes(&desk), [thread.as_str()], "R13(d)");
    main.reply(&main.boundary().reference(), "43");
    follower.ended(&fork.turn, "oh");
    desk.say(&thread, "and that?");
    assert_eq!(follower.sorted(&follower.ask_about(&thread), "small")["action"], "spawn");
}

#[test]
fn r090_mains_unasked_message_changes_nothing() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    main.run(&["thread", "reply", &thread, "a correction", "--unasked"]).ok();
    desk.say(&thread, "and?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!((&action["action"], &action["agent_id"]), (&json!("resume"), &json!(fork.agent)), "{action}");
}

#[test]
fn r090_a_fork_of_an_earlier_generation_is_never_resumed() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = answered(&follower, "look it up");
    main.start("resume").silent_or_context();
    main.prompt("go on").silent_or_context();
    desk.say(&thread, "and?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "spawn", "{action}");
    assert_ne!(action["turn"], json!(fork.turn));
}

#[test]
fn r091_a_fork_that_cannot_be_resumed_leaves_the_thread_to_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, _) = answered(&follower, "look it up");
    let second = desk.say(&thread, "and?");
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    assert_eq!(action["action"], "resume");
    let id = text(&action["turn"]);
    assert_eq!(follower.failed(&id, "no such agent")["outcome"], "hand_back");
    assert_eq!(outcome(&desk, &id), ("ended".into(), json!("hand_back")));
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&second)), "{told}");
    follower.quiet("ask", 200);
}

#[test]
fn r093_a_message_in_a_thread_that_main_owes_goes_to_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    follower.ended(&fork.turn, "HAND BACK: no");
    let second = desk.say(&thread, "and?");
    assert_eq!(main_owes(&desk), [thread.as_str()]);
    assert_ne!(holder_kind(&desk, &thread), "line_fork");
    follower.quiet("ask", 300);
    let told = main.boundary().says();
    assert!(references(&told).iter().any(|r| r.ends_with(&second)), "{told}");
    let third = desk.say(&thread, "and more?");
    assert!(references(&main.boundary().says()).iter().any(|r| r.ends_with(&third)));
    assert_eq!(desk.events("line").len(), 1, "the first message's");
    assert_ne!(desk.events("message")[2]["main_owed"], Value::Null);
}

/// The fork answered, the user writes again, and its resume is found: the prompt.
#[track_caller]
fn resumed(follower: &Follower<'_, '_>, desk: &Desk, thread: &str) -> String {
    desk.say(thread, "and then?");
    let action = follower.sorted(&follower.ask_about(thread), "small");
    assert_eq!(action["action"], "resume", "{action}");
    text(&action["prompt"])
}

/// The lines that tell what changed.
fn changes(prompt: &str) -> Vec<String> {
    let Some((_, told)) = prompt.split_once("What changed since your last turn.") else { return Vec::new() };
    told.lines().skip(1).take_while(|line| line.starts_with("- ")).map(|line| line[2..].to_owned()).collect()
}

#[test]
fn r092_the_resume_prompt_carries_the_delivery_and_says_that_it_may_ask_main() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, _) = answered(&follower, "look it up");
    let prompt = resumed(&follower, &desk, &thread);
    assert_eq!(fenced(&prompt), ["and then?"]);
    assert_eq!(references(&prompt).len(), 1, "{prompt}");
    assert!(prompt.contains("You may ask main (SendMessage, to \"main\")"), "{prompt}");
    assert_eq!(changes(&prompt), [""; 0], "nothing changed: its own answer is none: {prompt}");
    assert!(!prompt.contains("What changed"), "{prompt}");
}

#[test]
fn r092_what_main_added_and_what_became_of_todos() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, _) = answered(&follower, "look it up");
    let added = id(&main.ask(&["thread", "reply", &thread, "a correction: it is a quagga", "--unasked"]));
    let todo = id(&main.ask(&["task", "open", &thread, "correct the label"]));
    let users = id(&desk.ask(&["task", "open", &thread, "feed it"]));
    main.ask(&["task", "end", &todo, "done"]);
    let prompt = resumed(&follower, &desk, &thread);
    assert_eq!(
        changes(&prompt),
        [
            format!("main added {added} to this thread"),
            format!("main opened to-do {todo} in this thread"),
            format!("the user opened to-do {users} in this thread"),
            format!("to-do {todo} of this thread is done"),
        ],
        "{prompt}"
    );
    let told = &fenced(&prompt)[0];
    for words in ["it is a quagga", "correct the label", "feed it"] {
        assert!(told.contains(words), "as data: {told}");
        assert!(!own_words(&prompt).contains(words), "{prompt}");
    }
}

#[test]
fn r092_what_the_user_took_back_and_what_was_resolved() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let thread = desk.thread("look it up");
    follower.ask_about(&thread);
    let second = desk.say(&thread, "and the other");
    let mut ask = follower.ask_about(&thread);
    while ask.through != second {
        ask = follower.ask_about(&thread);
    }
    let fork = follower.launch(&follower.sorted(&ask, "small"));
    let first = fork.reference().replace(&second, &thread);
    fork.reply(&first, "found the one");
    assert_eq!(follower.ended(&fork.turn, "HAND BACK: not the other")["outcome"], "hand_back");
    desk.person(&["thread", "withdraw", &second]).ok();
    desk.person(&["thread", "resolve", &thread]).ok();
    main.boundary().silent_or_context();
    let prompt = resumed(&follower, &desk, &thread);
    assert_eq!(
        changes(&prompt),
        [
            format!("the user took message {second} of this thread back; it needs no answer"),
            "the user resolved this thread before the new message".to_owned(),
        ],
        "{prompt}"
    );
}

#[test]
fn r092_what_a_boundary_told_is_not_told_again() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let second = desk.say(&thread, "and the other");
    fork.boundary().reference();
    fork.reply(&format!("{}:{thread}", fork.reference().split(':').next().expect("a delivery")), "found the one");
    desk.person(&["thread", "withdraw", &second]).ok();
    assert!(fork.boundary().says().contains(&second), "R75");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
    assert_eq!(changes(&resumed(&follower, &desk, &thread)), [""; 0]);
    let _ = main.id();
}

#[test]
fn r092_which_other_threads_were_answered_and_by_whom() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let before = desk.thread("before its turn");
    main.reply(&before, "answered before");
    let (thread, _) = answered(&follower, "look it up");
    let mains = desk.thread("what main knows");
    main.reply(&mains, "a secret answer");
    let (forks, _) = answered(&follower, "what another fork finds");
    desk.thread("what nobody answered yet");
    let prompt = resumed(&follower, &desk, &thread);
    assert_eq!(
        changes(&prompt),
        [format!("main answered in thread {mains}"), format!("fork leaf-{forks} answered in thread {forks}")],
        "{prompt}"
    );
    let told = &fenced(&prompt)[0];
    assert!(told.contains("what main knows") && told.contains("what another fork finds"), "their titles: {told}");
    assert!(!prompt.contains("a secret answer"), "the words are theirs: {prompt}");
}

#[test]
fn r092_what_changed_is_bounded() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, _) = answered(&follower, "look it up");
    let mut others = Vec::new();
    for n in 0..20 {
        main.ask(&["thread", "reply", &thread, &format!("addition {n}: {}", "word ".repeat(400)), "--unasked"]);
        let other = desk.thread(&format!("thread {n} {}", "title ".repeat(400)));
        main.reply(&other, "answered");
        others.push(other);
    }
    let prompt = resumed(&follower, &desk, &thread);
    let told = changes(&prompt);
    assert_eq!(told.len(), 8 + 1 + 8 + 1, "{told:#?}");
    assert!(told.contains(&"and 12 earlier ones in this thread: leaf thread show THREAD".to_owned()), "{told:#?}");
    assert!(told.contains(&"and 12 earlier ones in other threads: leaf thread list".to_owned()), "{told:#?}");
    assert!(told.iter().any(|line| line.contains(&others[19])) && !told.iter().any(|line| line.contains(&others[0])));
    assert!(fenced(&prompt)[0].contains("addition 19") && !prompt.contains("addition 3:"), "the newest: {prompt}");
    assert!(prompt.len() < 10_000, "{}", prompt.len());
}

#[test]
fn r092_a_rested_run_that_goes_on_is_told_too() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found so far");
    fork.boundary_backgrounding("b1").silent_or_context();
    fork.stops_with("it runs on", &[shell_task("b1")]).silent_or_context();
    let ended = follower.ended(&fork.turn, "it runs on");
    assert_eq!(ended["state"], "resting", "{ended}");
    let added = id(&main.ask(&["thread", "reply", &thread, "mind the gap", "--unasked"]));
    desk.say(&thread, "and then?");
    let start = follower.expect("start");
    assert_eq!((&start["action"], &start["turn"]), (&json!("resume"), &json!(fork.turn)), "{start}");
    let prompt = text(&start["prompt"]);
    assert_eq!(changes(&prompt), [format!("main added {added} to this thread")], "{prompt}");
    assert!(prompt.contains(&format!("{}\n", fork.turn)), "its scratch directory is its turn's: {prompt}");
}

#[test]
fn r121_two_resume_prompts_part_only_at_their_end() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (one, _) = answered(&follower, "look it up");
    let (two, _) = answered(&follower, "and this");
    main.ask(&["thread", "reply", &two, "a correction", "--unasked"]);
    let (one, two) = (resumed(&follower, &desk, &one), resumed(&follower, &desk, &two));
    let constant = one.find("Scratch directory:").expect("its directory");
    assert!(common(&one, &two) >= constant, "{one}\n{two}");
    assert!(constant > 300 && !changes(&two).is_empty());
}

#[test]
fn r124_what_others_wrote_cannot_leave_its_fence_in_a_resume_prompt() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, _) = answered(&follower, "look it up");
    main.ask(&["thread", "reply", &thread, HOSTILE, "--unasked"]);
    main.ask(&["task", "open", &thread, &HOSTILE.replace('\n', " ")]);
    let other = id(&desk.ask(&["thread", "new", "x", "--title", HOSTILE]));
    main.reply(&other, HOSTILE);
    desk.say(&thread, HOSTILE);
    let action = follower.sorted(&follower.ask_about(&thread), "small");
    let prompt = text(&action["prompt"]);
    assert_eq!(changes(&prompt).len(), 3, "{prompt}");
    assert_harmless(&prompt);
    assert_eq!(fenced(&prompt).len(), 2, "{prompt}");
}
