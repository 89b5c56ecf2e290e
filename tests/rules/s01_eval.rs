//! `leaf eval` over the journals: R5 (the journal tells what became of what forks did), R12 (reading writes nothing).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::desk::{Desk, Ran, Session};
use crate::support::forks::{Follower, Fork, forking, session_dir};

#[track_caller]
fn outcome(desk: &Desk) -> Value {
    desk.ask(&["eval", "outcome"])
}

/// A message that a fork answered, its turn ended.
#[track_caller]
fn answered<'s, 'd>(follower: &Follower<'s, 'd>, message: &str) -> (String, Fork<'s, 'd>) {
    let (thread, fork) = follower.fork(message);
    fork.reply(&fork.reference(), "It is 8080.");
    assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "answer");
    (thread, fork)
}

/// What became of the one answer of a fork.
#[track_caller]
fn fate(desk: &Desk) -> String {
    let fates = outcome(desk)["answers"]["fates"].clone();
    let fates = fates.as_object().expect("fates");
    assert_eq!((fates.len(), fates.values().next()), (1, Some(&json!(1))), "{fates:?}");
    fates.keys().next().expect("one").clone()
}

fn desk_with<T>(story: impl FnOnce(&Desk, &Session<'_>, &Follower<'_, '_>) -> T) -> T {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    story(&desk, &main, &follower)
}

#[test]
fn r005_an_answer_that_nobody_said_more_to_stood() {
    desk_with(|desk, _, follower| {
        let (thread, _) = answered(follower, "Which port?");
        assert_eq!(fate(desk), "stood");
        desk.advance(11 * 60);
        desk.say(&thread, "And the other one?");
        assert_eq!(fate(desk), "stood", "a later question is another matter");
        let report = outcome(desk);
        assert_eq!(report["turns"]["outcomes"], json!({"answer": 1}));
        assert_eq!(report["turns"]["ways"], json!({"module": 1}));
        assert_eq!(report["answers"]["cases"], json!([]));
    });
}

#[test]
fn r082_an_answer_that_main_writes_beside_was_corrected() {
    desk_with(|desk, main, follower| {
        let (thread, fork) = answered(follower, "Which port?");
        main.run(&["thread", "reply", &thread, "It is 9090 by now.", "--unasked"]).ok();
        assert_eq!(fate(desk), "corrected");
        let case = outcome(desk)["answers"]["cases"][0].clone();
        assert_eq!((&case["thread"], &case["turn"]), (&json!(thread), &json!(fork.turn)));
    });
}

#[test]
fn r082_what_main_says_after_the_users_next_message_corrects_nothing() {
    desk_with(|desk, main, follower| {
        let (thread, _) = answered(follower, "Which port?");
        desk.advance(11 * 60);
        desk.say(&thread, "And the other one?");
        main.run(&["thread", "reply", &thread, "Hear, hear.", "--unasked"]).ok();
        assert_eq!(fate(desk), "stood");
    });
}

#[test]
fn r005_a_user_who_writes_at_once_or_reopens_asks_again() {
    desk_with(|desk, _, follower| {
        let (thread, _) = answered(follower, "Which port?");
        desk.advance(60);
        let again = desk.say(&thread, "That is not what I meant.");
        assert_eq!(fate(desk), "asked_again");
        desk.person(&["thread", "withdraw", &again]).ok();
        assert_eq!(fate(desk), "stood", "R8: a withdrawn message counts for nothing");
        desk.advance(20 * 60);
        desk.person(&["thread", "resolve", &thread]).ok();
        assert_eq!(fate(desk), "stood");
        desk.person(&["thread", "reopen", &thread]).ok();
        assert_eq!(fate(desk), "asked_again");
    });
}

#[test]
fn r099_what_main_says_of_a_forks_todo_corrects_nothing() {
    desk_with(|desk, main, follower| {
        let (thread, fork) = follower.fork("Please rename it.");
        fork.leaf(&["thread", "reply", &fork.reference(), "It is used in 3 places.", "--todo", "rename it"]).ok();
        assert_eq!(follower.ended(&fork.turn, "done")["outcome"], "todo");
        main.run(&["thread", "reply", &thread, "Renamed.", "--unasked"]).ok();
        assert_eq!(fate(desk), "carried_on");
        let report = outcome(desk);
        assert_eq!(report["turns"]["outcomes"], json!({"todo": 1}));
        assert_eq!(report["todos"]["opened"], json!({"fork": 1}));
    });
}

#[test]
fn r062_a_thread_that_main_answered_over_is_counted_apart_from_one_handed_back() {
    desk_with(|desk, main, follower| {
        let (thread, over) = follower.fork("Is the cache used?");
        main.reply(&thread, "No, it goes.");
        assert_eq!(follower.ended(&over.turn, "")["outcome"], "taken_over");
        let (other, back) = follower.fork("Rename the flag.");
        assert_eq!(follower.ended(&back.turn, "HAND BACK: main changes those files")["outcome"], "hand_back");
        let report = outcome(desk);
        assert_eq!(report["turns"]["outcomes"], json!({"taken_over": 1, "hand_back": 1}));
        assert_eq!((&report["turns"]["over_by_main"], &report["answers"]["count"]), (&json!(1), &json!(0)));
        let backs = &report["turns"]["hand_backs"];
        assert_eq!((&backs[0]["thread"], &backs[0]["turn"]), (&json!(other), &json!(back.turn)), "{backs}");
        assert!(backs[0]["why"].as_str().is_some_and(|why| why.contains("main changes those files")), "{backs}");
    });
}

#[test]
fn r095_lines_sorts_and_todos_are_counted_with_how_long_they_took() {
    desk_with(|desk, main, follower| {
        let thread = desk.thread("Please split the parser.");
        desk.advance(2);
        let ask = follower.ask_about(&thread);
        let action = follower.sorted(&ask, "significant");
        let todo = action["todo"].as_str().expect("a to-do").to_owned();
        let failed = desk.thread("hm");
        follower.line(&follower.ask_about(&failed), "no JSON");
        desk.advance(100);
        main.reply(&thread, "Split.");
        main.ask(&["task", "end", &todo, "done", "split"]);
        let report = outcome(desk);
        assert_eq!((&report["lines"]["posted"], &report["lines"]["failed"]), (&json!(1), &json!(1)), "R26");
        assert_eq!(report["lines"]["sorts"], json!({"significant": 1}));
        assert_eq!(report["handed"], json!({"the line fork's line failed (R26)": 1}));
        assert_eq!(report["todos"]["opened"], json!({"sort": 1}));
        assert_eq!(report["todos"]["states"], json!({"done": 1}));
        assert_eq!(report["todos"]["answered"], 1);
        assert_eq!(report["todos"]["open_for"]["median"], 100_000);
        let wait = &report["waits"]["significant"];
        assert_eq!((&wait["messages"], &wait["by_main"]), (&json!(1), &json!(1)), "{wait}");
        assert_eq!((&wait["line"]["median"], &wait["answer"]["median"]), (&json!(2000), &json!(102_000)));
        assert_eq!(report["waits"]["none"]["messages"], 1, "the other was never sorted");
        let text = desk.person(&["eval", "outcome"]).ok().out();
        for line in [
            "line forks: 1 line posted, 1 failed",
            "  sorted: significant 1",
            "  ended after: median 100 s, nine of ten within 100 s (1)",
            "significant: 1 message, 0 answered by a fork, 1 by main",
            "  to the line: median 2.0 s, nine of ten within 2.0 s (1)",
        ] {
            assert!(text.lines().any(|found| found.starts_with(line)), "{line} in {text}");
        }
    });
}

#[test]
fn r005_older_pieces_of_the_journal_count_too_and_their_loss_is_told() {
    desk_with(|desk, main, follower| {
        answered(follower, "Which port?");
        answered(follower, "Which host?");
        let before = outcome(desk);
        assert_eq!((&before["turns"]["ended"], &before["cut"]), (&json!(2), &json!(0)));
        let dir = session_dir(desk, main);
        let journal = fs::read_to_string(dir.join("journal.jsonl")).expect("the journal");
        let end = journal.match_indices("\"kind\":\"ended\"").next().expect("an end").0;
        let end = end + journal[end..].find('\n').expect("its line") + 1;
        fs::write(dir.join("journal.0.jsonl"), &journal[..end]).expect("a piece");
        let head = json!({"ts": "2027-03-01T10:00:00.000Z", "kind": "checkpoint", "piece": 1});
        fs::write(dir.join("journal.jsonl"), format!("{head}\n{}", &journal[end..])).expect("the journal");
        assert_eq!(outcome(desk), before, "a piece is as good as the whole");
        fs::remove_file(dir.join("journal.0.jsonl")).expect("the piece goes");
        let after = outcome(desk);
        assert_eq!((&after["turns"]["ended"], &after["cut"]), (&json!(1), &json!(1)));
        assert_eq!(after["answers"]["count"], 2, "the page's log has them all");
    });
}

#[test]
fn r127_a_page_that_cant_be_read_hides_no_other() {
    desk_with(|desk, _, follower| {
        answered(follower, "Which port?");
        desk.ask(&["page", "new", "Another", "--slug", "another"]);
        fs::write(desk.state_dir().join("pages/another/page.json"), "{").expect("a record");
        let report = outcome(desk);
        assert_eq!(report["answers"]["count"], 1);
        let unread = report["unread"].as_array().expect("unread");
        assert!(unread.len() == 1 && unread[0].as_str().is_some_and(|one| one.contains("another")), "{unread:?}");
        let text = desk.person(&["eval", "outcome"]).ok().out();
        assert!(text.contains("not counted: page another: "), "{text}");
    });
}

#[test]
fn r005_one_session_is_counted_alone() {
    desk_with(|desk, main, follower| {
        answered(follower, "Which port?");
        let other = desk.session("other").working();
        let all = outcome(desk);
        assert_eq!((&all["sessions"], &all["answers"]["count"]), (&json!(2), &json!(1)));
        let one = desk.ask(&["eval", "outcome", "--session", main.id()]);
        assert_eq!((&one["sessions"], &one["answers"]["count"]), (&json!(1), &json!(1)));
        assert_eq!(one["waits"], all["waits"]);
        let none = desk.ask(&["eval", "outcome", "--session", other.id()]);
        assert_eq!((&none["turns"]["ended"], &none["answers"]["count"]), (&json!(0), &json!(0)));
        let said = desk.person(&["eval", "outcome", "--session", "nobody"]).refused();
        assert!(said.contains("nobody"), "{said}");
    });
}

#[test]
fn r005_a_forks_answer_is_paired_with_what_main_says_later() {
    desk_with(|desk, main, follower| {
        let silent = desk.ask(&["eval", "coherence"]);
        assert_eq!((&silent["pairs"], &silent["silent"]), (&json!(0), &json!(0)));
        let other = desk.thread("And the host?");
        main.reply(&other, "Said before it.");
        desk.advance(1);
        answered(follower, "Which port?");
        let silent = desk.ask(&["eval", "coherence"]);
        assert_eq!((&silent["pairs"], &silent["silent"]), (&json!(0), &json!(1)));
        desk.advance(60);
        let next = desk.thread("Which port do the tests use?");
        main.reply(&next, "9090, as everything does.");
        let payload = main.payload("Stop.main.tui");
        let transcript = std::path::Path::new(payload["transcript_path"].as_str().expect("a path"));
        fs::create_dir_all(transcript.parent().expect("a directory")).expect("a directory");
        let said = |ts: &str, text: &str| {
            json!({"type": "assistant", "timestamp": ts, "message": {"content": [{"type": "text", "text": text}]}})
                .to_string()
        };
        let rows = [said("2027-03-01T09:00:00Z", "too early"), said("2027-03-01T10:30:00Z", "The port is 9090 now.")];
        fs::write(transcript, rows.join("\n")).expect("a transcript");
        let listed = desk.ask(&["eval", "coherence", "--pairs"]);
        assert_eq!((&listed["pairs"], &listed["judged_by"]), (&json!(1), &Value::Null));
        let later = listed["listed"][0]["later"].as_array().expect("statements");
        let texts: Vec<&str> = later.iter().filter_map(|one| one["text"].as_str()).collect();
        assert_eq!(texts, ["9090, as everything does.", "The port is 9090 now."]);
        let pair = listed["listed"][0]["id"].as_str().expect("an id").to_owned();
        let judged = |answer: &str| {
            let file = desk.path("judgments.jsonl");
            fs::write(&file, json!({"id": pair, "answer": answer}).to_string()).expect("a file");
            desk.ask(&["eval", "coherence", "--answers", file.to_str().expect("UTF-8")])
        };
        let wrong = judged(r#"{"verdict": "contradicts", "why": "it is 9090"}"#);
        assert_eq!(wrong["verdicts"], json!({"contradicts": 1}));
        assert_eq!(
            (&wrong["contradictions"][0]["id"], &wrong["contradictions"][0]["why"]),
            (&json!(pair), &json!("it is 9090"))
        );
        assert_eq!(judged("They agree.")["broken"], json!([pair]));
    });
}

#[test]
fn r005_the_clients_model_judges_pairs_and_its_judgments_can_be_replayed() {
    desk_with(|desk, main, follower| {
        for message in ["Which port?", "Which host?", "Which scheme?"] {
            answered(follower, message);
        }
        desk.advance(60);
        let next = desk.thread("What do the tests use?");
        main.reply(&next, "9090, as everything does.");
        let client = desk.path("claude");
        let script = r#"#!/bin/sh
[ "$1" = --version ] && { echo '2.1.332 (Claude Code)'; exit 0; }
asked=$(cat)
case $asked in
*"Which port?"*9090*) verdict='{\"verdict\": \"contradicts\", \"why\": \"it is 9090\"}' ;;
*"Which host?"*9090*) verdict='They are about other matters.' ;;
*) echo 'no such model'; exit 1 ;;
esac
printf '{"is_error":false,"result":"%s"}' "$verdict"
"#;
        fs::write(&client, script).expect("a client");
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).expect("a mode");
        let path = format!("{}:{}", desk.path("").display(), std::env::var("PATH").expect("PATH"));
        let saved = desk.path("saved.jsonl");
        let saved = saved.to_str().expect("UTF-8");
        let mut ask = desk.command(&["eval", "coherence", "--claude", "--save", saved, "--json"]);
        let report = Ran::from(ask.env("PATH", path).output().expect("leaf runs")).ok().json();
        assert_eq!((&report["pairs"], &report["verdicts"]), (&json!(3), &json!({"contradicts": 1})));
        assert_eq!(report["contradictions"][0]["why"], "it is 9090");
        assert_eq!(report["broken"].as_array().map(Vec::len), Some(1), "{report}");
        let failed = report["failed"].as_object().expect("failed");
        assert_eq!(failed.values().collect::<Vec<_>>(), ["no such model"]);
        assert_eq!(desk.ask(&["eval", "coherence", "--answers", saved]), report, "replayed");
        let text = desk.person(&["eval", "coherence", "--answers", saved]).ok().out();
        let told = "0 consistent, 1 contradicts, 0 unrelated, 1 not readable, 1 call failed, 0 missing";
        assert!(text.contains(told), "{text}");
    });
}

#[test]
fn r012_an_evaluation_writes_nothing() {
    desk_with(|desk, main, follower| {
        let (thread, _) = answered(follower, "Which port?");
        main.run(&["thread", "reply", &thread, "It is 9090.", "--unasked"]).ok();
        let before = (desk.files(&[]), fs::read_dir(desk.path("tmp")).expect("tmp").count());
        for args in [&["eval"][..], &["eval", "outcome"], &["eval", "coherence", "--pairs"], &["eval", "--json"]] {
            desk.person(args).ok();
        }
        assert!(before == (desk.files(&[]), fs::read_dir(desk.path("tmp")).expect("tmp").count()));
    });
}

#[test]
fn r116_a_fork_asks_no_model_of_its_own() {
    desk_with(|_, _, follower| {
        let (_, fork) = follower.fork("Which port?");
        fork.leaf(&["eval", "outcome"]).ok();
        let said = fork.refused(&["eval", "coherence", "--claude"]);
        assert!(said.contains("--claude"), "{said}");
    });
}
