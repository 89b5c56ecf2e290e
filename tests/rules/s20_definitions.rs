//! Fork files, lifecycle hooks and the schedule's settings as the listings tell them: bad input costs its key or its file, is told
//! with file and key, and touches no other.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::desk::{Desk, Ran};

/// A good fork, which nothing that lies beside it may touch.
const GOOD: &str = "---\nfork: true\nrun_on: [idle: 5m]\n---\nDo it.\n";

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, text).expect("a file");
}

fn fork_file(desk: &Desk, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = desk.project().join(".leaf/forks").join(name);
    write(&path, text);
    path
}

fn hook_file(desk: &Desk, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = desk.project().join(".leaf/hooks").join(name);
    write(&path, text);
    path
}

#[track_caller]
fn listing(desk: &Desk, what: &str) -> Value {
    desk.ask(&[what])
}

#[track_caller]
fn named<'a>(listing: &'a Value, what: &str, name: &str) -> &'a Value {
    let list = listing[what].as_array().expect("a list");
    list.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name} in {listing:#}"))
}

fn names(listing: &Value, what: &str) -> Vec<String> {
    let list = listing[what].as_array().expect("a list");
    list.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
}

/// The warnings of a file: key and text.
fn warnings(listing: &Value, path: &Path) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = listing["warnings"].as_array().expect("warnings").iter();
    let of = all.filter(|warning| warning["file"] == json!(path.to_string_lossy()));
    of.map(|warning| (text(&warning["key"]), text(&warning["text"]))).collect()
}

/// Lists one fork file beside a good one; gives it, where it is a fork, and its warnings.
#[track_caller]
fn one(text: &str) -> (Option<Value>, Vec<(String, String)>) {
    let desk = Desk::new();
    let path = fork_file(&desk, "one.md", text);
    let good = fork_file(&desk, "good.md", GOOD);
    let listing = listing(&desk, "forks");
    assert_eq!(named(&listing, "forks", "good")["run_on"], json!(["idle:300"]), "the other is as it was: {text}");
    assert_eq!(warnings(&listing, &good), [], "{text}");
    let list = listing["forks"].as_array().expect("forks");
    (list.iter().find(|fork| fork["name"] == "one").cloned(), warnings(&listing, &path))
}

/// A fork whose frontmatter holds these lines.
#[track_caller]
fn with(lines: &str) -> (Value, Vec<(String, String)>) {
    let (fork, warnings) = one(&format!("---\nfork: true\n{lines}\n---\nbody\n"));
    (fork.unwrap_or_else(|| panic!("a fork: {lines}: {warnings:?}")), warnings)
}

/// Holds that a fork is listed with this value, and that each key here has a warning, and nothing else has.
#[track_caller]
fn is(lines: &str, key: &str, value: Value, warned: &[&str]) {
    let (fork, warnings) = with(lines);
    assert_eq!(fork[key], value, "{lines}: {warnings:?}");
    let keys: Vec<&str> = warnings.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, warned, "{lines}: {warnings:?}");
}

#[test]
fn v_moments_and_their_labels() {
    is("run_on: [idle]", "run_on", json!(["idle"]), &[]);
    is("", "run_on", json!(["idle"]), &[]);
    is("run_on:", "run_on", json!(["idle"]), &[]);
    is("run_on: []", "run_on", json!(["idle"]), &["run_on"]);
    is("run_on: [idle: 0s, idle: 90, {idle: '10 m'}]", "run_on", json!(["idle:0", "idle:90", "idle:600"]), &[]);
    is(
        "run_on:\n  - context_tokens: 120000\n  - context_used: 80%\n  - context_used: \"90 %\"\n  - context_used: 50\n  - context_left: 5000",
        "run_on",
        json!([
            "context_tokens:120000",
            "context_used:80%",
            "context_used:90%",
            "context_used:50%",
            "context_left:5000"
        ]),
        &[],
    );
    is("run_on: [every: 2h, every: 0s]", "run_on", json!(["every:7200"]), &["run_on"]);
    is("run_on: [changed: 'src/**/*.rs', event: built]", "run_on", json!(["changed:src/**/*.rs", "event:built"]), &[]);
    is("run_on: [idle, nonsense]", "run_on", json!(["idle"]), &["run_on"]);
    is("run_on: [nonsense]", "run_on", json!(["idle"]), &["run_on", "run_on"]);
    is("run_on: [{idle: 5m, every: 1h}, every: 3h]", "run_on", json!(["every:10800"]), &["run_on"]);
    is("run_on: [idle: 1h30m, idle: 1.5, idle: -5, idle: 10M, idle]", "run_on", json!(["idle"]), &["run_on"; 4]);
    is(
        "run_on: [context_used: 0, context_used: 101, context_left: -1, idle]",
        "run_on",
        json!(["idle"]),
        &["run_on"; 3],
    );
    for never in ["compact", "compaction", "session_start", "session_end", "manual_stop", "boot"] {
        let (fork, warnings) = with(&format!("run_on: [{never}]"));
        assert!(fork["stopped"].is_string() && fork["run_on"] == json!([]), "{never}: {fork}");
        assert_eq!(warnings.len(), 2, "{never}: {warnings:?}");
        is(&format!("run_on: [{never}, idle]"), "stopped", Value::Null, &["run_on"]);
    }
}

#[test]
fn w15_a_scalar_is_a_list_of_one() {
    is("run_on: idle", "run_on", json!(["idle"]), &["run_on"]);
    is("run_on: \"idle: 5m\"", "run_on", json!(["idle:300"]), &["run_on"]);
    is("run_on:\n  every: 1h", "run_on", json!(["every:3600"]), &["run_on"]);
    is("run_on: [\"idle: 5m\"]", "run_on", json!(["idle:300"]), &[]);
    is("run_on: 5", "run_on", json!(["idle"]), &["run_on"]);
}

#[test]
fn w15_what_only_looks_odd_is_a_fork_all_the_same() {
    let good = "---\nfork: true\nthrottle: 1m\n---\nbody\n";
    for (text, word) in [
        (format!("\u{feff}{good}"), "byte order mark"),
        (format!("\n\n{good}"), "blank lines"),
        (good.replacen("---\n", "---  \n", 1), "blanks"),
        ("---\nfork: true\nthrottle: 1m\n--- \nbody\n".to_owned(), "blanks"),
    ] {
        let (fork, warnings) = one(&text);
        assert_eq!(fork.expect("a fork")["throttle"], 60, "{text:?}");
        assert!(warnings.len() == 1 && warnings[0].1.contains(word), "{text:?}: {warnings:?}");
    }
    let (fork, warnings) = one(&good.replace('\n', "\r\n"));
    assert_eq!((fork.expect("a fork")["throttle"].clone(), warnings), (json!(60), vec![]), "CRLF is nothing odd");
}

#[test]
fn w15_warnings_are_told_also_where_nothing_is_a_fork() {
    let desk = Desk::new();
    let path = fork_file(&desk, "one.md", "---\nfork: yes\nrun_on: [idle]\n---\n");
    let said = desk.person(&["forks"]).ok().out();
    assert!(
        said.contains("no forks") && said.contains(&*path.to_string_lossy()) && said.contains("fork: true"),
        "{said}"
    );
    assert_eq!(names(&listing(&desk, "forks"), "forks"), Vec::<String>::new());
}

#[test]
fn v_only_a_true_marker_counts() {
    for marker in ["yes", "\"true\"", "1", "on", "", "[true]"] {
        let (fork, warnings) = one(&format!("---\nfork: {marker}\n---\n"));
        assert!(fork.is_none() && warnings.len() == 1 && warnings[0].0 == "fork", "{marker}: {warnings:?}");
    }
    assert!(one("---\nfork: True\n---\n").0.is_some());
    assert_eq!(one("---\nfork: false\nrun_on: [idle]\n---\n"), (None, vec![]));
    for silent in ["# A page\n", "---\ntitle: x\n---\n", "", "---\n", "---\nnot a frontmatter\n"] {
        assert_eq!(one(silent), (None, vec![]), "{silent:?}");
    }
    for like in ["run_on: [idle]", "description: x", "gate: true", "guard: {}", "chain_limit: 3"] {
        let (fork, warnings) = one(&format!("---\n{like}\n---\n"));
        assert!(fork.is_none() && warnings.len() == 1 && warnings[0].0 == "fork", "{like}: {warnings:?}");
    }
}

#[test]
fn malformed_yaml_costs_its_file_alone() {
    for (text, word) in [
        ("fork: true\nrun_on: [idle\n", "line"),
        ("fork: true\nrun_on:\n\t- idle\n", "tab"),
        ("fork: true\ntags: a\ntags: b\n", "line 4"),
        ("fork: true\nrun_on:\u{a0}[idle]\n", "no-break space"),
        ("fork: true\nx: *nothing\n", "line"),
        ("- fork\n- true\n", "list"),
        ("fork: true\nguard: {write: [docs\n", "line"),
        ("fork: true\ndescription: a: b\n", "line"),
    ] {
        let (fork, warnings) = one(&format!("---\n{text}---\nbody\n"));
        assert!(fork.is_none(), "{text}");
        assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
        assert!(warnings[0].1.contains(word), "{text}: {warnings:?}");
    }
    let (fork, warnings) = one("---\nfork: true\nrun_on: [idle]\n");
    assert!(fork.is_none() && warnings[0].1.contains("no `---` ends"), "{warnings:?}");
}

#[test]
fn every_key_that_is_off_is_told_and_costs_itself_alone() {
    is("throttle: 10m", "throttle", json!(600), &[]);
    for off in ["0", "0s", "-5", "1.5", "soon", "[1m]", "true", "300000000000000d", "18446744073709551615"] {
        is(&format!("throttle: {off}"), "throttle", Value::Null, &["throttle"]);
    }
    is("priority: -7", "priority", json!(-7), &[]);
    is("priority: \"9\"", "priority", json!(9), &[]);
    for off in ["1.5", "high", "[1]", "9223372036854775808", "true"] {
        is(&format!("priority: {off}"), "priority", json!(0), &["priority"]);
    }
    for flag in ["overlap", "chain", "gate"] {
        is(&format!("{flag}: true"), flag, json!(true), &[]);
        for off in ["\"true\"", "yes", "1", "[true]"] {
            is(&format!("{flag}: {off}"), flag, json!(false), &[flag]);
        }
    }
    is("background_hold: false", "background_hold", json!(false), &[]);
    is("background_hold: no", "background_hold", Value::Null, &["background_hold"]);
    is("tags: a, b,a ,", "tags", json!(["a", "b"]), &[]);
    is("tags: [a, 'b,c', 5, a]", "tags", json!(["a", "b", "c"]), &["tags"]);
    is("tags: {a: b}", "tags", json!([]), &["tags"]);
    is("chain: true\nchain_limit: \"12\"", "chain_limit", json!(12), &[]);
    is("chain_limit: 3", "chain_limit", Value::Null, &["chain_limit"]);
    for off in ["0", "-1", "1.5", "many", "99999999999"] {
        is(&format!("chain: true\nchain_limit: {off}"), "chain_limit", Value::Null, &["chain_limit"]);
    }
    is("description: 123", "description", json!("123"), &[]);
    is("description: '  '", "description", Value::Null, &[]);
    is("description: [a]", "description", Value::Null, &["description"]);
    for old in ["rag: x", "triggers: [a]", "delivery: now", "allowed_tools: [Bash]", "permission_mode: plan"] {
        is(old, "throttle", Value::Null, &[old.split(':').next().expect("a key")]);
    }
}

#[test]
fn unknown_keys_are_told_with_what_may_be_meant() {
    for (key, meant) in [("throtle", "throttle"), ("run-on", "run_on"), ("Tags", "tags"), ("prioritty", "priority")] {
        let (_, warnings) = with(&format!("{key}: x"));
        assert!(warnings.len() == 1 && warnings[0].0 == key && warnings[0].1.contains(meant), "{key}: {warnings:?}");
    }
    let (_, warnings) = with("colour: red");
    assert!(warnings.len() == 1 && warnings[0].0 == "colour", "{warnings:?}");
    let (_, warnings) = with("thrott\u{200b}le: 5m");
    assert!(
        warnings.len() == 1 && warnings[0].1.contains("U+200B") && warnings[0].1.contains("throttle"),
        "{warnings:?}"
    );
    let (fork, warnings) = one("---\nfo\u{a0}rk: true\n---\n");
    assert!(fork.is_none() && warnings.len() == 1 && warnings[0].1.contains("U+00A0"), "{warnings:?}");
}

#[test]
fn after_takes_names_and_tells_what_is_off() {
    is("after: good", "after", json!(["good"]), &[]);
    is("after: [{fork: good}, ' good ']", "after", json!(["good"]), &["after"]);
    is("after: {skill: good}", "after", json!(["good"]), &[]);
    is("after: [one, good, 7]", "after", json!(["good"]), &["after", "after"]);
    is("after: {context: good}", "after", json!(["good"]), &["after"]);
    is("after: nobody", "after", json!(["nobody"]), &["after"]);
}

#[test]
fn a_cycle_of_after_is_told() {
    let desk = Desk::new();
    for (name, after) in [("a", "c"), ("b", "a"), ("c", "b"), ("d", "a")] {
        fork_file(&desk, &format!("{name}.md"), format!("---\nfork: true\nafter: {after}\n---\nDo it.\n"));
    }
    let listing = listing(&desk, "forks");
    assert_eq!(names(&listing, "forks"), ["a", "b", "c", "d"]);
    let told = listing["warnings"].as_array().expect("warnings");
    assert!(told.len() == 1 && told[0]["text"].as_str().is_some_and(|text| text.contains("circle")), "{told:?}");
}

#[test]
fn models_and_modes_are_by_client() {
    let all = |list: Value| json!({"claude-code": list, "codex": list, "opencode": list});
    is("model: haiku", "model", all(json!(["haiku"])), &[]);
    is("model: [a, b]", "model", all(json!(["a", "b"])), &[]);
    is("mode: plan", "mode", all(json!(["plan"])), &[]);
    is("model: [a, '']", "model", json!({}), &["model"]);
    is("model: 5", "model", json!({}), &["model"]);
    is(
        "model: {claude-code: x, codex: [y, z], emacs: w, opencode: 4}",
        "model",
        json!({"claude-code": ["x"], "codex": ["y", "z"]}),
        &["model"; 2],
    );
}

#[test]
fn a_guard_limits_and_what_is_not_understood_stops_the_fork() {
    let desk = Desk::new();
    let text = "---\nfork: true\nguard:\n  write: [docs, ./a/../b, ~/notes, /abs]\n  tools: [read, bash, write]\n  network: true\n  deny: ['git push*']\n  message: No.\n---\n";
    fork_file(&desk, "g.md", text);
    fork_file(&desk, "readonly.md", "---\nfork: true\nguard: {}\n---\n");
    let found = listing(&desk, "forks");
    let guard = &named(&found, "forks", "g")["guard"];
    let project = desk.project().canonicalize().expect("the project");
    let home = desk.home().canonicalize().expect("the home");
    let places = [project.join("docs"), project.join("b"), home.join("notes"), PathBuf::from("/abs")];
    assert_eq!(guard["write"], json!(places));
    assert_eq!(guard["tools"], json!(["read", "shell", "edit"]));
    assert_eq!(
        (&guard["network"], &guard["deny"], &guard["message"]),
        (&json!(true), &json!(["git push*"]), &json!("No."))
    );
    let all = &named(&found, "forks", "readonly")["guard"];
    assert_eq!(*all, json!({"write": [], "tools": null, "network": false, "deny": [], "message": null}));
    for off in [
        "guard: true",
        "guard:",
        "guard: []",
        "guard: {writes: [a]}",
        "guard: {write: docs}",
        "guard: {write: [5]}",
        "guard: {write: ['']}",
        "guard: {write: ['docs/**']}",
        "guard: {tools: read}",
        "guard: {tools: [everything]}",
        "guard: {network: yes}",
        "guard: {deny: rm}",
        "guard: {deny: [5]}",
        "guard: {message: [a]}",
        "guard: {write: ['~nobody/x']}",
        "guard: {wri\u{a0}te: []}",
        "Guard: {}",
        "gaurd: {}",
        "gua\u{200b}rd: {}",
        "guards: {}",
    ] {
        let (fork, warnings) = with(off);
        assert!(fork["stopped"].is_string(), "{off}: {fork}");
        assert!(!warnings.is_empty(), "{off}");
    }
}

#[test]
fn v_hooks_and_their_keys() {
    let desk = Desk::new();
    let path =
        |name: &str, lines: &str| hook_file(&desk, &format!("{name}.md"), format!("---\nhook: true\n{lines}\n---\n"));
    path(
        "all",
        "on: [session_start, resume, activity, idle, idle: 5m, 'idle: 10m', session_end, changed: '*.md', event: x]\ncommand: echo\ntimeout: 5s\ndescription: d\ndeliver: wake\nmax_bytes: 10\nthrottle: 1m",
    );
    path("not", "on: idle\ncommand: ! test -f lock");
    path("map", "on:\n  idle: 1m\ncommand: 'true'");
    let off = path(
        "off",
        "on: [compact, idle: x, session_end: 5]\ncommand: '  '\ntimeout: 0\ndeliver: mail\nmax_bytes: 0\nthrottle: 0\ncolour: x",
    );
    let without = hook_file(&desk, "without.md", "---\non: idle\ncommand: x\n---\n");
    hook_file(&desk, "silent.md", "---\nhook: false\non: idle\n---\n");
    let folder = hook_file(&desk, "folder/HOOK.md", "---\nhook: true\non: activity\ncommand: x\n---\n");
    let found = listing(&desk, "hooks");
    assert_eq!(names(&found, "hooks"), ["all", "folder", "map", "not", "off"]);
    let all = named(&found, "hooks", "all");
    assert_eq!(
        all["on"],
        json!([
            "session_start",
            "resume",
            "activity",
            "idle",
            "idle:300",
            "idle:600",
            "session_end",
            "changed:*.md",
            "event:x"
        ])
    );
    assert_eq!(
        (&all["timeout"], &all["deliver"], &all["max_bytes"], &all["throttle"]),
        (&json!(5), &json!("wake"), &json!(10), &json!(60))
    );
    let not = named(&found, "hooks", "not");
    assert_eq!(
        (&not["command"], &not["timeout"], &not["deliver"], &not["max_bytes"]),
        (&json!("! test -f lock"), &json!(60), &json!("none"), &json!(8000))
    );
    assert_eq!(named(&found, "hooks", "map")["on"], json!(["idle:60"]));
    let bad = named(&found, "hooks", "off");
    assert_eq!((&bad["on"], &bad["command"], &bad["timeout"]), (&json!([]), &json!(""), &json!(60)));
    let keys: Vec<String> = warnings(&found, &off).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["on", "on", "on", "on", "command", "timeout", "throttle", "deliver", "max_bytes", "colour"]);
    assert_eq!(warnings(&found, &without).len(), 1);
    assert_eq!(warnings(&found, &folder), []);
}

#[test]
fn v_layouts_order_and_names() {
    let desk = Desk::new();
    let project = desk.project();
    let fork = "---\nfork: true\n---\nDo it.\n";
    for file in [
        ".leaf/forks/z.md",
        ".leaf/forks/b/FORK.md",
        ".leaf/forks/b/inner.md",
        ".leaf/forks/group/a.md",
        ".leaf/forks/FORK.md",
        ".leaf/forks/.hidden.md",
        ".leaf/forks/note.txt",
        ".autofork/forks/x.md",
        ".autofork/forks/z.md",
        ".claude/forks/y.md",
        ".claude/skills/s/FORK.md",
        ".claude/skills/s/SKILL.md",
        ".claude/skills/s/deep/FORK.md",
        ".claude/skills/s/deep/SKILL.md",
        ".claude/skills/only/SKILL.md",
        ".claude/skills/nope/FORK.md",
        ".claude/skills/group/t/FORK.md",
        ".claude/skills/group/t/SKILL.md",
        ".agents/skills/u/FORK.md",
        ".agents/skills/u/SKILL.md",
        ".leaf/forks/1/2/3/4/5/6/7/8/deepest.md",
        ".leaf/forks/1/2/3/4/5/6/7/8/9/toodeep.md",
    ] {
        write(&project.join(file), fork);
    }
    for own in [
        ".config/leaf/forks/own1.md",
        ".leaf/forks/own2.md",
        ".autofork/forks/own3.md",
        ".claude/forks/own4.md",
        ".claude/forks/x.md",
        ".claude/skills/own5/FORK.md",
        ".claude/skills/own5/SKILL.md",
        ".agents/skills/own6/FORK.md",
        ".agents/skills/own6/SKILL.md",
    ] {
        write(&desk.home().join(own), fork);
    }
    desk.person(&["trust"]).ok();
    let found = listing(&desk, "forks");
    let expected =
        ["deepest", "FORK", "b", "a", "z", "x", "y", "own1", "own2", "own3", "own4", "t", "s", "u", "own5", "own6"];
    assert_eq!(names(&found, "forks"), expected);
    assert_eq!(
        named(&found, "forks", "s")["skill"],
        json!(project.canonicalize().expect("the project").join(".claude/skills/s/SKILL.md"))
    );
    let own: Vec<String> =
        names(&found, "forks").into_iter().filter(|name| named(&found, "forks", name)["trust"] == "own").collect();
    assert_eq!(own, ["own1", "own2", "own3", "own4", "own5", "own6"]);
    let told: Vec<String> = found["warnings"].as_array().expect("warnings").iter().map(Value::to_string).collect();
    assert_eq!(told.len(), 3, "the two shadowed, and what lies too deep: {told:#?}");
    assert_eq!(told.iter().filter(|one| one.contains("shadowed")).count(), 2, "{told:#?}");
}

#[test]
fn names_links_and_files_that_cannot_be_taken_are_told() {
    let desk = Desk::new();
    fork_file(&desk, "good.md", GOOD);
    let root = desk.project().join(".leaf/forks");
    let mut told = Vec::new();
    fs::write(root.join(OsStr::from_bytes(b"\xff.md")), GOOD).expect("a name that is no UTF-8");
    told.push("isn't UTF-8");
    fork_file(&desk, "latin.md", b"---\nfork: true\ndescription: caf\xe9\n---\n");
    told.push("isn't UTF-8, and");
    symlink(".", root.join("round")).expect("a loop");
    told.push("leads back");
    symlink("self.md", root.join("self.md")).expect("a loop");
    told.push("self.md");
    symlink("nowhere", root.join("dangling.md")).expect("a link");
    told.push("dangling.md");
    fs::create_dir(root.join("dir.md")).expect("a directory with a file's name");
    let long = format!("---\nfork: true\n---\n{}", "x".repeat(1 << 20));
    fork_file(&desk, "long.md", long);
    told.push("longer than");
    rustix_fifo(&root.join("fifo.md"));
    told.push("no plain file");
    let unreadable = fork_file(&desk, "closed.md", GOOD);
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).expect("a mode");
    let can = fs::read(&unreadable).is_ok();
    symlink("good.md", root.join("link.md")).expect("a link");
    let found = listing(&desk, "forks");
    let expected: &[&str] = if can { &["closed", "good", "link"] } else { &["good", "link"] };
    assert_eq!(names(&found, "forks"), expected);
    let all = found["warnings"].to_string();
    for word in &told {
        assert!(all.contains(word), "{word} in {all}");
    }
    assert_eq!(found["warnings"].as_array().map(Vec::len), Some(told.len() + usize::from(!can)), "{all}");
    desk.person(&["forks"]).ok();
    desk.person(&["trust"]).ok();
    desk.person(&["status"]).ok();
}

fn rustix_fifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

#[test]
fn a_thousand_files_and_a_flood_of_entries() {
    let desk = Desk::new();
    for n in 0..1_000 {
        fork_file(&desk, &format!("f{n:04}.md"), GOOD);
    }
    let found = listing(&desk, "forks");
    assert_eq!(names(&found, "forks").len(), 1_000);
    assert_eq!(found["warnings"], json!([]));
    for n in 0..9_100 {
        fs::write(desk.project().join(format!(".leaf/forks/x{n}.txt")), "").expect("a file");
    }
    let found = listing(&desk, "forks");
    assert_eq!(names(&found, "forks").len(), 1_000, "those before the bound");
    assert_eq!(found["warnings"].as_array().map(Vec::len), Some(1), "{}", found["warnings"]);
}

#[track_caller]
fn listing_in(desk: &Desk, dir: &Path) -> Value {
    let mut command = desk.command(&["forks", "--json"]);
    Ran::from(command.current_dir(dir).output().expect("leaf runs")).ok().json()
}

#[test]
fn w09_the_home_is_no_project_for_what_lies_in_it() {
    let desk = Desk::new();
    let home = desk.home().canonicalize().expect("the home");
    write(&home.join(".autofork/forks/mine.md"), GOOD);
    write(&home.join(".leaf/forks/mine2.md"), GOOD);
    let repo = home.join("work/repo");
    fs::create_dir_all(repo.join(".git")).expect("a repository");
    fs::create_dir_all(repo.join("src/deep")).expect("a directory");
    fs::create_dir_all(home.join("plain/dir")).expect("a directory");
    fs::create_dir_all(home.join("marked/.leaf")).expect("a directory");
    fs::create_dir_all(home.join("marked/sub")).expect("a directory");
    for (dir, project) in [("work/repo/src/deep", "work/repo"), ("plain/dir", "plain/dir"), ("marked/sub", "marked")] {
        let found = listing_in(&desk, &home.join(dir));
        assert_eq!(found["project"], json!(home.join(project)), "{dir}");
        assert_eq!(names(&found, "forks"), ["mine2", "mine"], "{dir}");
        assert!(found["forks"].as_array().expect("forks").iter().all(|fork| fork["trust"] == "own"), "{dir}: {found}");
    }
    let given = desk.ask(&["forks", "--project", &repo.to_string_lossy()]);
    assert_eq!(given["project"], json!(repo));
    desk.person(&["forks", "--project", "/nowhere/at/all"]).refused();
}

#[test]
fn w09_autoforks_own_directory_waits_for_no_trust() {
    let desk = Desk::new();
    write(&desk.home().join(".autofork/logs/daemon.log"), "started\n");
    write(&desk.home().join(".autofork/forks/mine.md"), GOOD);
    let below = desk.home().join("work");
    fs::create_dir_all(&below).expect("a directory");
    for dir in [desk.home(), below] {
        let mut command = desk.command(&["trust", "--list", "--json"]);
        let list = Ran::from(command.current_dir(&dir).output().expect("leaf runs")).ok().json();
        assert_eq!((&list["files"], &list["project"]), (&json!([]), &json!(dir.canonicalize().expect("it"))));
    }
}

#[test]
fn r126_a_link_of_a_projects_does_not_make_the_users_own_forks_the_projects() {
    let desk = Desk::new();
    write(&desk.home().join(".config/leaf/forks/mine.md"), GOOD);
    fs::create_dir_all(desk.project().join(".leaf/forks")).expect("a directory");
    symlink(desk.home().join(".config/leaf/forks"), desk.project().join(".leaf/forks/all")).expect("a link");
    let found = listing(&desk, "forks");
    assert_eq!((names(&found, "forks"), &found["forks"][0]["trust"]), (vec!["mine".to_owned()], &json!("own")));
}

#[test]
fn r126_trust_is_by_file_and_covers_what_lies_outside_of_leafs_directory() {
    let desk = Desk::new();
    let project = desk.project();
    let sub = project.join("sub");
    fs::create_dir_all(project.join(".git")).expect("a repository");
    write(&project.join(".leaf/forks/a.md"), GOOD);
    write(&project.join(".claude/forks/b.md"), GOOD);
    write(&project.join(".claude/skills/c/FORK.md"), GOOD);
    write(&project.join(".claude/skills/c/SKILL.md"), "x");
    write(&sub.join(".claude/forks/d.md"), GOOD);
    // The directory above the project has some too.
    let above = desk.path(".leaf/forks/e.md");
    write(&above, GOOD);
    let trust = |dir: &Path| -> BTreeMap<String, String> {
        let found = listing_in(&desk, dir);
        let forks = found["forks"].as_array().expect("forks").iter();
        forks
            .map(|fork| {
                (fork["name"].as_str().expect("a name").to_owned(), fork["trust"].as_str().expect("trust").to_owned())
            })
            .collect()
    };
    let all =
        |dir: &Path, state: &str| assert!(trust(dir).values().all(|one| one == state), "{state}: {:?}", trust(dir));
    all(&sub, "new");
    let waits = desk.person(&["status"]).ok().out();
    assert!(waits.contains("leaf trust"), "{waits}");
    let mut command = desk.command(&["trust"]);
    Ran::from(command.current_dir(&sub).output().expect("leaf runs")).ok();
    all(&sub, "trusted");
    all(&project, "trusted");
    desk.person(&["trust"]).ok();
    all(&sub, "trusted");
    assert!(!desk.person(&["status"]).ok().out().contains("leaf trust"));
    write(&above, format!("{GOOD}more\n"));
    let now = trust(&sub);
    assert_eq!(
        now.iter().filter(|(_, state)| *state != "trusted").collect::<Vec<_>>(),
        [(&"e".to_owned(), &"changed".to_owned())]
    );
    let said = desk.person(&["trust", "--list"]).ok().out();
    assert!(said.lines().any(|line| line.contains("e.md") && line.contains("changed")), "{said}");
    let doctor = desk.person(&["doctor", "--json"]).json().to_string();
    assert!(doctor.contains("1 file of this project not trusted"), "{doctor}");
    desk.person(&["trust", "--revoke"]).ok();
    all(&sub, "new");
}

#[test]
fn r126_a_fork_that_asks_again_leaves_the_projects_settings_alone() {
    let desk = Desk::new();
    write(&desk.project().join(".leaf/config.toml"), "[schedule]\nflush_on_close = true\n");
    write(&desk.project().join(".leaf/forks/a.md"), GOOD);
    let off = |desk: &Desk| listing(desk, "forks")["configuration"].as_array().map_or(0, Vec::len);
    assert_eq!(off(&desk), 1, "it counts once trusted");
    desk.person(&["trust"]).ok();
    assert_eq!(off(&desk), 0);
    write(&desk.project().join(".leaf/forks/a.md"), format!("{GOOD}more\n"));
    assert_eq!(off(&desk), 0, "the fork alone asks again");
    write(&desk.project().join(".leaf/config.toml"), "[schedule]\nflush_on_close = true\n# more\n");
    assert_eq!(off(&desk), 1);
}

#[test]
fn r126_before_trust_a_projects_file_takes_no_name_from_the_users_own() {
    let desk = Desk::new();
    let (own, theirs) = (desk.home().join(".config/leaf/forks/mine.md"), desk.project().join(".leaf/forks/mine.md"));
    write(&own, GOOD);
    write(&theirs, GOOD);
    let trust = || named(&listing(&desk, "forks"), "forks", "mine")["trust"].clone();
    assert_eq!(trust(), "own");
    let told = warnings(&listing(&desk, "forks"), &theirs);
    assert!(told[0].1.contains("waits for `leaf trust`"), "{told:?}");
    desk.person(&["trust"]).ok();
    assert_eq!(trust(), "trusted", "then the nearest of a name counts");
    assert!(warnings(&listing(&desk, "forks"), &own)[0].1.contains("shadowed"));
}

#[test]
fn settings_are_layered_and_a_type_error_costs_its_key() {
    let desk = Desk::new();
    fork_file(&desk, "a.md", "---\nfork: true\n---\n");
    let says = |desk: &Desk| desk.person(&["forks"]).ok().out();
    assert!(says(&desk).contains("idle for 10m"));
    write(
        &desk.home().join(".autofork/config.toml"),
        "default_idle_deadline = \"1m\"\nquiet_period = \"20m\"\nenable_tags = \"ci\"\n",
    );
    let said = says(&desk);
    assert!(said.contains("idle for 1m") && said.contains("quiet_period") && said.contains("enable_tags"), "{said}");
    write(
        &desk.home().join(".config/leaf/config.toml"),
        "[forks]\nwork = false\n[schedule]\ndefault_idle_deadline = \"2m\"\n",
    );
    assert!(says(&desk).contains("idle for 2m"));
    write(&desk.project().join(".autofork/config.toml"), "default_idle_deadline = \"3m\"\n");
    assert!(says(&desk).contains("idle for 3m"), "later is less");
    write(&desk.project().join(".leaf/config.toml"), "[schedule]\ndefault_idle_deadline = 0\n");
    assert!(says(&desk).contains("never"));
    write(&desk.project().join(".leaf/config.toml"), "[schedule]\ndefault_idle_deadline = \"5s\"\n");
    let said = says(&desk);
    assert!(said.contains("idle for 3m") && said.contains("counts once the project is trusted"), "{said}");
    desk.person(&["trust"]).ok();
    assert!(says(&desk).contains("idle for 5s"));
}

#[test]
fn the_examples_are_listed_without_a_warning() {
    let desk = Desk::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for kind in ["forks", "hooks"] {
        for file in fs::read_dir(examples.join(kind)).expect("examples") {
            let file = file.expect("an example").path();
            write(
                &desk.project().join(".leaf").join(kind).join(file.file_name().expect("a name")),
                fs::read(&file).expect("an example"),
            );
        }
    }
    write(&desk.home().join(".config/leaf/config.toml"), fs::read(examples.join("config.toml")).expect("the example"));
    let forks = listing(&desk, "forks");
    assert_eq!(names(&forks, "forks"), ["goal", "hand-over", "journal", "todos"]);
    assert!(forks["forks"].as_array().expect("forks").iter().all(|fork| fork["stopped"].is_null()), "{forks}");
    assert_eq!((&forks["warnings"], &forks["configuration"]), (&json!([]), &json!([])));
    let hooks = listing(&desk, "hooks");
    assert_eq!((names(&hooks, "hooks"), &hooks["warnings"]), (vec!["where-we-are".to_owned()], &json!([])));
}

#[test]
fn import_tells_what_is_taken_and_what_differs_and_writes_nothing() {
    let desk = Desk::new();
    write(&desk.home().join(".config/leaf/forks/leafs-own.md"), GOOD);
    let said = desk.person(&["import", "autofork"]).ok().out();
    assert!(said.contains("nothing of autofork's"), "{said}");
    write(
        &desk.home().join(".autofork/forks/mine.md"),
        "---\nfork: true\nrun_on: [idle, context_used: 80%]\n---\n$AUTOFORK_FORK_NAME\n",
    );
    write(
        &desk.home().join(".autofork/config.toml"),
        "concurrency = 4\nchain_limit = 5\n[tag_throttles]\nci = \"1h\"\n",
    );
    write(
        &desk.project().join(".autofork/forks/ours.md"),
        "---\nfork: true\nguard: {write: [docs]}\nchain: true\n---\n",
    );
    write(&desk.project().join(".autofork/hooks/h.md"), "---\nhook: true\non: session_end\ncommand: 'true'\n---\n");
    write(&desk.project().join(".leaf/forks/leafs.md"), GOOD);
    write(
        &desk.home().join(".claude/settings.json"),
        "{\"enabledPlugins\": {\"autofork@autofork\": true, \"other@x\": true}}",
    );
    let before = desk.files(&[]);
    let told = desk.ask(&["import", "autofork"]);
    assert_eq!(
        (names(&told, "forks"), names(&told, "hooks")),
        (vec!["ours".to_owned(), "mine".to_owned()], vec!["h".to_owned()])
    );
    let keys: Vec<&str> =
        told["settings"].as_array().expect("settings").iter().filter_map(|one| one["key"].as_str()).collect();
    assert_eq!(keys, ["chain_limit", "tag_throttles.ci"]);
    assert_eq!((&told["waits_for_trust"], told["installed"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    assert!(told["configuration"].to_string().contains("concurrency"), "{told}");
    let differs: Vec<&str> =
        told["differs"].as_array().expect("differs").iter().filter_map(|one| one["what"].as_str()).collect();
    for what in [
        "trust",
        "daemon",
        "flush_on_close",
        "guard",
        "run_on",
        "chain",
        "close",
        "variables",
        "hooks",
        "tag_throttles",
    ] {
        assert!(differs.contains(&what), "{what}: {differs:?}");
    }
    let said = desk.person(&["import", "autofork"]).ok().out();
    assert!(said.contains("claude plugin uninstall autofork@autofork") && said.contains("leaf trust"), "{said}");
    assert_eq!(desk.files(&[]), before, "it writes nothing");
    assert_eq!(desk.person(&["import", "emacs"]).code, 2);
}
