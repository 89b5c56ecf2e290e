//! The gate of main's boundary (`sessions/<key>/gate`): whatever happens between two boundaries, they say and write what they would
//! without it.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value;

use crate::support::desk::{Desk, Session, id};
use crate::support::forks::session_dir;

/// Longer than the system's times stand still: nothing that was just written is taken for settled.
fn rest() {
    std::thread::sleep(std::time::Duration::from_millis(25));
}

fn gate(desk: &Desk, session: &Session<'_>) -> PathBuf {
    session_dir(desk, session).join("gate")
}

/// A session that works, with its gate shut.
fn shut<'d>(desk: &'d Desk, name: &str) -> Session<'d> {
    let session = desk.session(name).working();
    desk.thread("which one?");
    session.reply(&session.boundary().reference(), "the first");
    rest();
    session.boundary().silent();
    assert!(gate(desk, &session).exists(), "the gate is shut");
    session
}

#[test]
fn a_silent_boundary_shuts_it_and_the_next_changes_nothing() {
    let desk = Desk::new();
    let session = shut(&desk, "s");
    let mode = fs::metadata(gate(&desk, &session)).expect("a gate").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = desk.files(&[]);
    session.boundary().silent();
    assert_eq!(desk.files(&[]), before);
}

#[test]
fn a_message_opens_it() {
    let desk = Desk::new();
    let session = shut(&desk, "s");
    desk.thread("and then?");
    assert!(session.boundary().says().contains("and then?"));
}

#[test]
fn r041_the_renewal_opens_it() {
    let desk = Desk::new();
    let session = shut(&desk, "s");
    let journal = session_dir(&desk, &session).join("journal.jsonl");
    let length = || fs::metadata(&journal).expect("a journal").len();
    let before = length();
    desk.advance(59);
    session.boundary().silent();
    assert_eq!(length(), before);
    desk.advance(1);
    session.boundary().silent();
    assert!(length() > before);
}

#[test]
fn r112_another_client_is_not_let_through_and_the_own_is() {
    let desk = Desk::new();
    let session = shut(&desk, "s");
    let other = desk.session("s");
    desk.thread("and then?");
    other.boundary().silent();
    assert!(session.boundary().says().contains("and then?"));
}

#[test]
fn a_page_that_comes_opens_it() {
    let desk = Desk::new();
    let session = shut(&desk, "s");
    desk.person(&["page", "new", "other", "--slug", "other"]).ok();
    desk.person(&["thread", "new", "over there", "--page", "other"]).ok();
    assert!(session.boundary().says().contains("over there"));
}

#[test]
fn r111_a_page_that_goes_opens_it() {
    let desk = Desk::new();
    let session = shut(&desk, "s");
    let other = desk.session("t").working();
    other.run(&["page", "claim", &desk.page_slug()]).ok();
    desk.person(&["thread", "new", "for whom?", "--page", &desk.page_slug()]).ok();
    assert!(session.boundary().says().contains("another session claimed"));
    session.boundary().silent();
    assert!(other.boundary().says().contains("for whom?"));
}

#[test]
fn what_is_no_gate_is_none() {
    let desk = Desk::new();
    let session = shut(&desk, "s");
    let gate = gate(&desk, &session);
    for wrong in [&b""[..], b"{", b"null", b"\xff", b"{\"leaf\":\"0.0.0\"}"] {
        fs::write(&gate, wrong).expect("a gate");
        desk.thread("again");
        assert!(session.boundary().says().contains("again"));
    }
    fs::remove_file(&gate).expect("a gate");
    std::os::unix::fs::symlink("/etc/hostname", &gate).expect("a symlink");
    desk.thread("once more");
    assert!(session.boundary().says().contains("once more"));
}

/// What may happen to a session.
#[derive(Clone, Debug)]
enum Step {
    Boundary,
    Pass(i64),
    New,
    Say,
    Withdraw,
    Resolve,
    Reply,
    Todo,
    Prompt,
    Stop,
    Compact,
    Resume,
    Claim,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => Just(Step::Boundary),
        2 => prop_oneof![Just(1_i64), Just(-30), Just(59), Just(60), Just(1000)].prop_map(Step::Pass),
        2 => Just(Step::New),
        2 => Just(Step::Say),
        1 => Just(Step::Withdraw),
        1 => Just(Step::Resolve),
        3 => Just(Step::Reply),
        1 => Just(Step::Todo),
        1 => Just(Step::Prompt),
        1 => Just(Step::Stop),
        1 => Just(Step::Compact),
        1 => Just(Step::Resume),
        1 => Just(Step::Claim),
    ];
    // Whatever follows, the gate is shut once.
    let first = vec![Step::New, Step::Boundary, Step::Reply, Step::Boundary, Step::Boundary];
    proptest::collection::vec(step, 4..24).prop_map(move |then| [first.clone(), then].concat())
}

/// Plays a story on a desk of its own; returns what every hook said and the journal, without what is random.
fn played(steps: &[Step], with_gate: bool) -> (Vec<String>, usize) {
    let desk = Desk::new();
    let session = desk.session("s").working();
    let said = RefCell::new(Vec::new());
    let names: RefCell<Vec<String>> = RefCell::default();
    // Ids are of no story: each is told by when it first came.
    let told = |text: &str| {
        let mut names = names.borrow_mut();
        let mut out = String::new();
        for word in text.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
            let (name, end) = match word.char_indices().last() {
                Some((at, c)) if !c.is_ascii_hexdigit() => word.split_at(at),
                _ => (word, ""),
            };
            if name.len() >= 6 && name.bytes().any(|b| b.is_ascii_digit() || name.len() >= 8) {
                let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
                    names.push(name.to_owned());
                    names.len() - 1
                });
                out.push_str(&format!("<{at}>{end}"));
            } else {
                out.push_str(word);
            }
        }
        out
    };
    let mut shut = 0;
    let (mut threads, mut messages, mut references): (Vec<String>, Vec<String>, Vec<String>) = Default::default();
    for (n, step) in steps.iter().enumerate() {
        rest();
        if !with_gate {
            let _ = fs::remove_file(gate(&desk, &session));
        }
        shut += usize::from(gate(&desk, &session).exists());
        let hook = match step {
            Step::Boundary => Some(session.boundary()),
            Step::Prompt => Some(session.prompt("go on")),
            Step::Stop => Some(session.stop()),
            Step::Compact => Some(session.start("compact")),
            Step::Resume => Some(session.start("resume")),
            Step::Pass(seconds) => {
                desk.advance(*seconds);
                None
            }
            Step::New => {
                let thread = desk.thread(&format!("message {n}"));
                messages.push(thread.clone());
                threads.push(thread);
                None
            }
            Step::Say => {
                if let Some(thread) = threads.last() {
                    messages.push(desk.say(thread, &format!("message {n}")));
                }
                None
            }
            Step::Withdraw => {
                if let Some(message) = messages.pop() {
                    desk.person(&["thread", "withdraw", &message]);
                }
                None
            }
            Step::Resolve => {
                if let Some(thread) = threads.last() {
                    desk.person(&["thread", "resolve", thread]);
                }
                None
            }
            Step::Reply => {
                if let Some(reference) = references.pop() {
                    session.run(&["thread", "reply", &reference, "so"]);
                }
                None
            }
            Step::Todo => {
                if let Some(thread) = threads.last() {
                    desk.person(&["task", "open", thread, &format!("to-do {n}")]);
                }
                None
            }
            Step::Claim => {
                let slug = format!("page{n}");
                desk.person(&["page", "new", &slug, "--slug", &slug]);
                let new = desk.person(&["thread", "new", &format!("message {n}"), "--page", &slug, "--json"]);
                if new.code == 0 {
                    messages.push(id(&new.json()));
                }
                session.run(&["page", "claim", &slug]);
                None
            }
        };
        let text = hook.and_then(|hook| hook.context()).unwrap_or_default();
        references.extend(crate::support::desk::references(&text));
        said.borrow_mut().push(format!("{step:?}: {}", told(&text)));
    }
    let journal = fs::read_to_string(session_dir(&desk, &session).join("journal.jsonl")).expect("a journal");
    for line in journal.lines() {
        let entry: Value = serde_json::from_str(line).expect("JSON");
        said.borrow_mut().push(told(&entry.to_string()));
    }
    (said.into_inner(), shut)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, max_shrink_iters: 30, ..ProptestConfig::default() })]

    #[test]
    fn with_it_and_without_every_hook_says_and_writes_the_same(steps in steps()) {
        let (with, shut) = played(&steps, true);
        let (without, never) = played(&steps, false);
        prop_assert!(shut > 0 && never == 0);
        prop_assert_eq!(with, without);
    }
}
