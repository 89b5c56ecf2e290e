//! `leaf doctor` through the built binary: a sound desk, and each thing that can be wrong with one.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::install::{Home, Said};

const LEAF: &str = env!("CARGO_BIN_EXE_leaf");
const STATE: &str = ".local/state/leaf";

/// A home with leaf installed.
fn installed() -> Home {
    let home = Home::new();
    home.done(&["install", "--allow"]);
    home
}

/// The report, and the exit code that goes with it.
fn report(home: &Home) -> (Value, i32) {
    let said = home.leaf(&["doctor", "--json"]);
    let value: Value = serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    let problems = value["problems"].as_u64().expect("a count");
    assert_eq!(said.code, i32::from(problems > 0), "{said:?}");
    assert_eq!(said.stderr.lines().count(), usize::from(problems > 0), "{said:?}");
    let checks = value["checks"].as_array().expect("checks");
    assert_eq!(checks.iter().filter(|c| c["status"] == "problem").count() as u64, problems, "{value}");
    for check in checks.iter().filter(|c| c["status"] == "problem") {
        assert!(check["way_out"].is_string(), "a problem has a way out: {check}");
    }
    (value, said.code)
}

/// One check of the report.
fn check(home: &Home, name: &str) -> Value {
    let (report, _) = report(home);
    let found = report["checks"].as_array().expect("checks").iter().find(|c| c["name"] == name).cloned();
    found.unwrap_or_else(|| panic!("no check {name} in {report}"))
}

#[track_caller]
fn assert_check(home: &Home, name: &str, status: &str, words: &[&str]) {
    let found = check(home, name);
    assert_eq!(found["status"], status, "{found}");
    let text =
        format!("{} {}", found["detail"].as_str().expect("detail"), found["way_out"].as_str().unwrap_or_default());
    for word in words {
        assert!(text.contains(word), "{word} in {text}");
    }
}

/// A message on a page of the home: the page's directory.
fn page(home: &Home) -> PathBuf {
    home.done(&["thread", "new", "Which colour is the door?"]);
    let pages = fs::read_dir(home.path(STATE).join("pages")).expect("pages");
    pages.flatten().next().expect("a page").path()
}

fn append(file: &std::path::Path, text: &str) {
    OpenOptions::new().append(true).open(file).expect("a log").write_all(text.as_bytes()).expect("written");
}

#[test]
fn a_sound_desk_has_no_problem_and_looking_changes_nothing() {
    let home = installed();
    page(&home);
    let before = home.tree();
    let (value, code) = report(&home);
    assert_eq!(code, 0, "{value}");
    for name in [
        "binary",
        "plugin",
        "claude code",
        "hooks",
        "other hooks",
        "permission",
        "state",
        "file system",
        "locks",
        "records",
        "logs",
        "stray files",
        "errors.log",
        "forks",
        "cost",
    ] {
        assert_ne!(check(&home, name)["status"], "problem", "{name}");
    }
    for name in [
        "plugin",
        "claude code",
        "hooks",
        "other hooks",
        "permission",
        "state",
        "locks",
        "records",
        "logs",
        "stray files",
    ] {
        assert_check(&home, name, "ok", &[]);
    }
    assert_eq!(home.tree(), before);
    let text = home.done(&["doctor"]);
    assert_eq!(text.lines().filter(|line| !line.contains("->")).count(), 15, "{text}");
}

#[test]
fn a_home_where_leaf_never_ran_gets_no_state_directory() {
    let home = installed();
    assert_check(&home, "state", "note", &["not there yet"]);
    assert!(!home.path(STATE).exists());
}

#[test]
fn what_isnt_installed_is_told() {
    let home = Home::new();
    assert_check(&home, "plugin", "problem", &["leaf install"]);
    assert_check(&home, "hooks", "problem", &["leaf install"]);
    assert_check(&home, "permission", "note", &["leaf install --allow"]);
    fs::remove_file(home.path("tools/claude")).expect("removed");
    assert_check(&home, "claude code", "problem", &["no `claude` on PATH", "install Claude Code"]);
    assert_check(&home, "hooks", "problem", &[]);
}

#[test]
fn a_plugin_of_another_version_or_changed_by_hand_is_told() {
    let home = installed();
    let at = ".local/share/leaf/claude-code";
    let hooks = home.read(&format!("{at}/hooks.json"));
    home.write(&format!("{at}/hooks.json"), "{}");
    assert_check(&home, "plugin", "problem", &["hooks.json", "leaf install"]);
    home.write(&format!("{at}/hooks.json"), &hooks);
    assert_check(&home, "plugin", "ok", &[]);
    home.write(&format!("{at}/bin/leaf"), "#!/bin/sh\necho leaf 0.0.1\n");
    assert_check(&home, "plugin", "problem", &["0.0.1", "leaf install"]);
    fs::set_permissions(home.path(&format!("{at}/bin/leaf")), fs::Permissions::from_mode(0o644)).expect("a mode");
    assert_check(&home, "plugin", "problem", &["can't be started"]);
}

#[test]
fn hooks_that_dont_run_are_told() {
    let home = installed();
    home.write(".claude/plugins/enabled", "false");
    assert_check(&home, "hooks", "problem", &["claude plugin enable leaf@leaf"]);
    home.write(".claude/plugins/enabled", "true");
    home.write("project/.claude/settings.local.json", r#"{"disableAllHooks": true}"#);
    assert_check(&home, "hooks", "problem", &["settings.local.json", "disableAllHooks"]);
    home.write("project/.claude/settings.local.json", r#"{"disableAllHooks": false}"#);
    assert_check(&home, "hooks", "ok", &[]);
}

#[test]
fn an_older_client_is_told() {
    let home = installed();
    let client = home.read("tools/claude").replace("2.1.332 (", "2.1.99 (");
    home.write("tools/claude", &client);
    assert_check(&home, "claude code", "note", &["2.1.99", "claude update"]);
}

#[test]
fn r072_other_hooks_before_bash_are_named() {
    let home = installed();
    let group =
        |matcher: &str, command: &str| json!({"matcher": matcher, "hooks": [{"type": "command", "command": command}]});
    home.write(
        "project/.claude/settings.json",
        &json!({"hooks": {"PreToolUse": [group("Edit", "formatter"), group("Bash", "rewriter --all")]}}).to_string(),
    );
    assert_check(&home, "other hooks", "note", &["project/.claude/settings.json", "rewriter --all"]);
    let told = check(&home, "other hooks")["detail"].as_str().expect("detail").to_owned();
    assert!(!told.contains("formatter"), "{told}");
    fs::remove_file(home.path("project/.claude/settings.json")).expect("removed");
    assert_check(&home, "other hooks", "ok", &[]);

    let plugin = home.path("other-plugin");
    let entry = |enabled: bool| {
        json!({"id": "saver@shop", "version": "1.0.0", "scope": "user", "enabled": enabled, "installPath": plugin})
            .to_string()
    };
    home.write("other-plugin/hooks/hooks.json", &json!({"hooks": {"PreToolUse": [group("", "saver")]}}).to_string());
    home.write(".claude/plugins/others", &format!(",{}", entry(true)));
    assert_check(&home, "other hooks", "note", &["saver@shop"]);
    home.write(".claude/plugins/others", &format!(",{}", entry(false)));
    assert_check(&home, "other hooks", "ok", &[]);
    home.write("other-plugin/hooks/hooks.json", &json!({"modules": ["./mod.mjs"], "hooks": {}}).to_string());
    home.write(".claude/plugins/others", &format!(",{}", entry(true)));
    assert_check(&home, "other hooks", "note", &["saver@shop", "module"]);
}

#[test]
fn r125_a_state_directory_that_others_may_enter_is_told() {
    let home = installed();
    page(&home);
    let state = home.path(STATE);
    for (mode, status) in [(0o755, "note"), (0o777, "problem"), (0o720, "problem"), (0o700, "ok")] {
        fs::set_permissions(&state, fs::Permissions::from_mode(mode)).expect("a mode");
        assert_check(&home, "state", status, &[]);
    }
}

#[test]
fn r125_a_symlink_in_the_state_directory_is_a_problem_and_another_file_a_note() {
    let home = installed();
    let page = page(&home);
    home.write(&format!("{STATE}/notes.txt"), "mine");
    assert_check(&home, "stray files", "note", &["notes.txt"]);
    let tmp = page.join("view.json.tmp");
    fs::write(&tmp, "half").expect("a file");
    let told = check(&home, "stray files")["detail"].as_str().expect("detail").to_owned();
    assert!(!told.contains("view.json.tmp"), "its writer may live: {told}");
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    File::options().write(true).open(&tmp).expect("a file").set_modified(past).expect("a time");
    assert_check(&home, "stray files", "note", &["killed", "view.json.tmp"]);
    symlink("/etc", home.path(STATE).join("pages/linked")).expect("a link");
    assert_check(&home, "stray files", "problem", &["pages/linked"]);
}

#[test]
fn a_state_directory_in_memory_is_told() {
    let home = installed();
    let shm = tempfile::Builder::new().prefix("leaf-").tempdir_in("/dev/shm").expect("a directory in memory");
    let mut command = home.command(LEAF);
    let said: Said =
        command.args(["doctor", "--json"]).env("LEAF_HOME", shm.path()).output().expect("leaf starts").into();
    let value: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let found =
        value["checks"].as_array().expect("checks").iter().find(|c| c["name"] == "file system").expect("a check");
    assert_eq!(found["status"], "note", "{found}");
    assert!(found["detail"].as_str().expect("detail").contains("tmpfs"), "{found}");
}

#[test]
fn without_a_place_for_state_it_says_what_to_set() {
    let home = Home::new();
    let said: Said = home.command(LEAF).arg("doctor").env_remove("HOME").output().expect("leaf starts").into();
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains("set LEAF_HOME, XDG_STATE_HOME or HOME"), "{said:?}");
}

#[test]
fn r127_damaged_lines_and_a_torn_tail_are_counted() {
    let home = installed();
    let log = page(&home).join("log.jsonl");
    append(&log, "{\"seq\": 2, \"id\"\n\0\0\0\0\n");
    home.done(&["thread", "new", "And the roof?"]);
    assert_check(&home, "logs", "problem", &["2 places damaged", "line 2", "line 3"]);

    let home = installed();
    let log = page(&home).join("log.jsonl");
    append(&log, "{\"seq\": 2");
    assert_check(&home, "logs", "note", &["torn", "log.jsonl"]);
    home.done(&["thread", "new", "And the roof?"]);
    assert_check(&home, "logs", "problem", &["1 place damaged", "line 2"]);
}

#[test]
fn an_event_that_is_missing_or_there_twice_is_told() {
    let home = installed();
    let log = page(&home).join("log.jsonl");
    for text in ["And the roof?", "And the floor?"] {
        home.done(&["thread", "new", text]);
    }
    let whole = fs::read_to_string(&log).expect("a log");
    let lines: Vec<&str> = whole.lines().collect();
    assert_check(&home, "logs", "ok", &[]);
    fs::write(&log, format!("{}\n{}\n", lines[0], lines[2])).expect("written");
    assert_check(&home, "logs", "problem", &["seq 3 after 1"]);
    fs::write(&log, format!("{whole}{}\n", lines[1])).expect("written");
    assert_check(&home, "logs", "problem", &["seq 2 after 3"]);
    // A damaged line explains a gap, never a repetition.
    fs::write(&log, format!("{}\ndamaged\n{}\n", lines[0], lines[2])).expect("written");
    assert!(!check(&home, "logs")["detail"].as_str().expect("detail").contains("out of order"));
    fs::write(&log, format!("{whole}damaged\n{}\n", lines[1])).expect("written");
    assert_check(&home, "logs", "problem", &["seq 2 after 3"]);
}

#[test]
fn a_damaged_cache_is_only_a_note() {
    let home = installed();
    fs::write(page(&home).join("view.json"), "{").expect("written");
    assert_check(&home, "logs", "note", &["view.json"]);
}

#[test]
fn r127_a_newer_format_and_a_damaged_record_are_told() {
    let home = installed();
    let record = page(&home).join("page.json");
    let mut value: Value = serde_json::from_slice(&fs::read(&record).expect("read")).expect("JSON");
    value["format"] = 2.into();
    fs::write(&record, value.to_string()).expect("written");
    assert_check(&home, "records", "problem", &["page.json (format 2)", "update leaf"]);
    fs::write(&record, "{").expect("written");
    assert_check(&home, "records", "problem", &["damaged", "page.json"]);
}

#[test]
fn who_sits_on_a_lock_is_named() {
    let home = installed();
    let log = File::open(page(&home).join("log.jsonl")).expect("a log");
    fs2::FileExt::lock_exclusive(&log).expect("locked");
    assert_check(&home, "locks", "problem", &[&format!("process {}", std::process::id()), "log.jsonl"]);
    drop(log);
    assert_check(&home, "locks", "ok", &[]);
}

#[test]
fn what_hooks_kept_silent_about_is_shown_harmless() {
    let home = installed();
    page(&home);
    let mut hook = home.command(LEAF).arg("hook").stdin(Stdio::piped()).spawn().expect("leaf starts");
    hook.stdin.take().expect("stdin").write_all(b"this is no JSON").expect("written");
    assert!(hook.wait().expect("it ends").success());
    assert_check(&home, "errors.log", "note", &["1 line"]);
    append(&home.path(STATE).join("errors.log"), "\u{1b}[31mred\u{7}\n");
    let told = check(&home, "errors.log")["detail"].as_str().expect("detail").to_owned();
    assert!(told.contains("red") && !told.contains(['\u{1b}', '\u{7}']), "{told:?}");
}

#[test]
fn what_hooks_cost_is_read_from_the_clients_transcripts() {
    let home = installed();
    assert_check(&home, "cost", "ok", &["no row"]);
    // Rows as the client wrote them, cut to what tells of hooks.
    let rows = |ms: u64| {
        [
            json!({"type": "attachment", "attachment": {"type": "hook_success", "hookName": "PreToolUse:Bash", "hookEvent": "PreToolUse", "exitCode": 0, "command": "${CLAUDE_PLUGIN_ROOT}/bin/leaf hook", "durationMs": ms}}),
            json!({"type": "system", "subtype": "stop_hook_summary", "hookCount": 2, "hookInfos": [{"command": "${CLAUDE_PLUGIN_ROOT}/bin/leaf hook", "durationMs": 14}, {"command": "${CLAUDE_PLUGIN_ROOT}/bin/leaf watch", "durationMs": 9000}]}),
            json!({"type": "attachment", "attachment": {"type": "hook_success", "hookEvent": "PreToolUse", "command": "other", "durationMs": 5000}}),
        ]
        .map(|row| format!("{row}\n"))
        .concat()
    };
    let project: String = home
        .path("project")
        .display()
        .to_string()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let at = format!(".claude/projects/{project}");
    home.write(&format!("{at}/6f0c1a52.jsonl"), &[5, 19, 7].map(rows).concat());
    home.write(".claude/projects/-elsewhere/6f0c1a52.jsonl", &rows(77));
    assert_check(
        &home,
        "cost",
        "ok",
        &["PreToolUse 3 x, median 7 ms, most 19 ms", "Stop 3 x, median 14 ms, most 14 ms"],
    );
    home.write(&format!("{at}/7f0c1a52.jsonl"), &rows(2500));
    assert_check(&home, "cost", "note", &["2 transcripts", "most 2500 ms"]);
}

/// Whether there is such a check.
fn has(home: &Home, name: &str) -> bool {
    let (report, _) = report(home);
    report["checks"].as_array().expect("checks").iter().any(|c| c["name"] == name)
}

#[test]
fn what_would_run_the_same_forks_is_told_where_there_are_forks() {
    let home = installed();
    assert!(!has(&home, "autofork"));
    home.write(".claude/settings.json", r#"{"enabledPlugins": {"autofork@autofork": true}}"#);
    assert!(!has(&home, "autofork"), "without forks it is no matter");
    home.write(".leaf/forks/journal.md", "---\nfork: true\n---\nWrite it down.\n");
    assert_check(&home, "autofork", "problem", &["autofork@autofork", "claude plugin uninstall autofork@autofork"]);
    home.write(".claude/settings.json", r#"{"enabledPlugins": {"autofork@autofork": false}}"#);
    assert!(!has(&home, "autofork"));
    let program = home.write("tools/autofork", "#!/bin/sh\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    assert_check(&home, "autofork", "note", &["autofork stop-daemon"]);
}

#[test]
fn a_client_that_is_too_old_for_forks_is_told_where_there_are_forks() {
    let home = installed();
    home.write(".leaf/forks/journal.md", "---\nfork: true\n---\nWrite it down.\n");
    assert!(!has(&home, "forks' runs"));
    let script = home.read("tools/claude");
    for (version, status) in [("2.1.116", "problem"), ("2.1.117", "note"), ("2.1.160", "note")] {
        home.write("tools/claude", &script.replace("2.1.332", version));
        assert_check(&home, "forks' runs", status, &[version, "claude update"]);
    }
    home.write("tools/claude", &script.replace("2.1.332", "2.1.161"));
    assert!(!has(&home, "forks' runs"));
    fs::remove_file(home.path("tools/claude")).expect("removed");
    assert_check(&home, "forks' runs", "problem", &["no `claude`"]);
}

#[test]
fn an_agent_that_takes_a_forks_place_is_told() {
    let home = installed();
    home.write(".claude/agents/review.md", "---\nname: review\n---\n");
    assert!(!has(&home, "fork agents"));
    home.write(".claude/agents/mine.md", "---\nname: fork\n---\n");
    assert_check(&home, "fork agents", "problem", &["mine.md", "another name"]);
    fs::remove_file(home.path(".claude/agents/mine.md")).expect("removed");
    home.write(".claude/agents/fork.md", "Be a fork.\n");
    assert_check(&home, "fork agents", "problem", &["fork.md"]);
}

#[test]
fn a_state_directory_in_a_project_is_told() {
    let home = installed();
    page(&home);
    assert!(!has(&home, "state's place"));
    fs::create_dir(home.path(".local/.git")).expect("a project");
    assert_check(&home, "state's place", "note", &["LEAF_HOME"]);
}

#[test]
fn reports_that_nobody_waits_for_are_told_and_known() {
    let home = installed();
    page(&home);
    let key = "0123456789abcdef0123456789abcdef";
    let session = r#"{"format":1,"id":"x","client":"claude-code","generation":null,"process":null,"attended":true,
        "switches":{"fork_replies":true,"fork_work":false},"cwd":"/","transcript":null,"pages":[],"ended":null,"moved_to":null,
        "started":"2027-03-01T10:00:00.000Z"}"#;
    home.write(&format!("{STATE}/sessions/{key}/session.json"), session);
    home.write(&format!("{STATE}/sessions/{key}/journal.jsonl"), "");
    assert!(!has(&home, "schedule's rest"));
    home.write(&format!("{STATE}/sessions/{key}/reports/0123456789abcdef.json"), "{}");
    assert_check(&home, "schedule's rest", "note", &["1 report", "leaf prune"]);
    assert_check(&home, "stray files", "ok", &[]);
}
