//! Scheduled forks in the real client: what a run is allowed, and how its report comes to main.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::model::{Reply, Request};
use crate::plain;

const SESSION: &str = "2b0d7c11-8a54-4f0e-9d3e-51c09f7ee001";

/// What the fork's calls came to: whether each failed, and its text.
type Results = Arc<Mutex<Vec<(bool, String)>>>;

/// A model whose main only stops, and whose fork makes these calls, one after the other, and then reports.
fn calls(list: Vec<(&'static str, Value)>) -> (impl FnMut(&Request) -> Reply + Send + 'static, Results) {
    let results: Results = Arc::default();
    let seen = Arc::clone(&results);
    let mut list = list.into_iter();
    let script = move |request: &Request| {
        if !request.conversation().contains("This is a background copy") {
            return Reply::text("that is all");
        }
        seen.lock().expect("the results").extend(request.results());
        match list.next() {
            Some((tool, input)) => Reply::call(tool, input),
            None => Reply::text("the report"),
        }
    };
    (script, results)
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn a_guarded_run_changes_what_its_guard_names_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let outside = dir.path().canonicalize().expect("a directory").join("outside.txt");
    let write = |path: String| json!({"file_path": path, "content": "written"});
    let list = vec![
        ("Write", write("notes/new.md".to_owned())),
        ("Write", write("other.md".to_owned())),
        ("Write", write("notes/../escaped.md".to_owned())),
        ("Write", write(outside.to_string_lossy().into_owned())),
        ("Bash", json!({"command": "touch by-shell"})),
        ("Bash", json!({"command": "echo x > notes/by-shell"})),
        ("Bash", json!({"command": "echo x > other-by-shell"})),
        ("Bash", json!({"command": "leaf task list; touch by-shell"})),
        ("Bash", json!({"command": "leaf status"})),
        ("Bash", json!({"command": "cat kept.txt"})),
        ("WebFetch", json!({"url": "http://127.0.0.1:9/", "prompt": "x"})),
    ];
    let (script, results) = calls(list);
    let client = plain(script);
    fs::write(client.path("project/kept.txt"), "kept").expect("a file");
    // What the person allows everywhere is no right of a guarded fork.
    fs::create_dir_all(client.path("home/.claude")).expect("a directory");
    let settings =
        json!({"permissions": {"allow": ["Bash(touch:*)", "Write", "Edit", "WebFetch"], "defaultMode": "acceptEdits"}});
    fs::write(client.path("home/.claude/settings.json"), settings.to_string()).expect("settings");
    let forks = client.path("home/.leaf/forks");
    fs::create_dir_all(&forks).expect("a directory");
    let file = "---\nfork: true\nmode: bypassPermissions\nguard:\n  write: [notes]\n---\nLook after the notes.\n";
    fs::write(forks.join("notes.md"), file).expect("a fork");
    let first = client.print("hello", &["--session-id", SESSION]).end();
    assert_eq!(first.code, 0, "{first:?}");
    let ran = client.person(&["fork", "run", "notes", "--session", SESSION]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "the report\n"), "{ran:?}");
    let results = results.lock().expect("the results").clone();
    let there = |name: &str| client.path("project").join(name).exists();
    assert!(there("notes/new.md"), "{results:#?}");
    for name in ["other.md", "escaped.md", "by-shell", "other-by-shell"] {
        assert!(!there(name), "{name}: {results:#?}");
    }
    assert!(!outside.exists(), "{results:#?}");
    // A redirection is held to the places that may be edited.
    let failed: Vec<bool> = results.iter().map(|(failed, _)| *failed).collect();
    assert_eq!(failed, [false, true, true, true, true, false, true, true, false, false, true], "{results:#?}");
    client.settle();
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn a_run_works_in_its_mode_says_what_it_cost_and_leaves_the_conversation_as_it_was() {
    let (script, results) = calls(vec![
        ("Write", json!({"file_path": "made.md", "content": "written"})),
        ("Bash", json!({"command": "leaf task list"})),
    ]);
    let client = plain(script);
    let forks = client.path("home/.leaf/forks");
    fs::create_dir_all(&forks).expect("a directory");
    fs::write(forks.join("make.md"), "---\nfork: true\n---\nMake it.\n").expect("a fork");
    let first = client.print("hello", &["--session-id", SESSION]).end();
    assert_eq!(first.code, 0, "{first:?}");
    let ran = client.person(&["fork", "run", "make", "--session", SESSION, "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(client.path("project/made.md").exists(), "its mode is acceptEdits: {results:#?}");
    let reports: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!((&reports[0]["text"], &reports[0]["outcome"]), (&json!("the report"), &json!("completed")));
    assert!(reports[0]["tokens"].is_u64() || reports[0]["cost"]["tokens"].is_u64(), "{reports}");
    let second = client.print("and now?", &["--resume", SESSION]).end();
    assert_eq!(second.code, 0, "{second:?}");
    let last = client.model.requests().pop().expect("a request");
    assert!(!last.conversation().contains("Make it."), "the copy leaves no trace");
    client.settle();
}
