//! Bad input: each gets a clear sentence and exit 1 or 2, or for a hook silence, exit 0 and a line in
//! errors.log; nothing is lost or half-written. What damages a log is with R127, what climbs out of a
//! directory with R125.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::desk::{Desk, LEAF, Ran, Session, recorded, signal_pid};
use serde_json::{Value, json};

/// A clear sentence and exit 1 or 2.
#[track_caller]
fn told(ran: Ran) {
    assert!(matches!(ran.code, 1 | 2), "exit 1 or 2: {ran:?}");
    let text = ran.err();
    assert!(text.split_whitespace().count() >= 3, "a sentence: {ran:?}");
    assert!(!text.contains("panicked") && !text.contains("RUST_BACKTRACE"), "{ran:?}");
    assert!(ran.stdout.is_empty(), "nothing on stdout: {ran:?}");
}

#[test]
fn unknown_ambiguous_and_withdrawn_ids() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("known");
    let gone = desk.say(&thread, "taken back");
    desk.ask(&["thread", "withdraw", &gone]);
    let lines = desk.log().len();
    for wrong in ["01234567", "0123", "abc", "zzzzzzzz", "", " ", "0123456789", "ABCDEF01"] {
        told(desk.person(&["thread", "say", wrong, "x"]));
        told(desk.person(&["thread", "show", wrong]));
        told(desk.person(&["thread", "withdraw", wrong]));
        told(desk.person(&["thread", "resolve", wrong]));
        told(desk.person(&["task", "open", wrong, "x"]));
        told(desk.person(&["task", "end", wrong, "done"]));
        told(main.run(&["thread", "reply", wrong, "x"]));
        told(main.run(&["thread", "line", wrong, "x"]));
        told(main.run(&["task", "start", wrong, "x"]));
        told(main.run(&["delivery", "read", wrong]));
        told(main.run(&["delivery", "ack", wrong]));
    }
    told(main.run(&["thread", "reply", &gone, "to what was taken back"]));
    told(main.run(&["task", "start", &gone, "on what was taken back"]));
    assert_eq!(desk.log().len(), lines, "nothing is written");
}

#[test]
fn a_reference_of_another_sessions_page() {
    let desk = Desk::new();
    let first = desk.session("s").working();
    desk.thread("for the first");
    let reference = first.boundary().reference();
    let second = desk.session("t").working();
    let lines = desk.log().len();
    told(second.run(&["thread", "reply", &reference, "not mine"]));
    assert_eq!(desk.log().len(), lines);
    first.reply(&reference, "mine");
}

#[test]
fn empty_huge_and_non_utf8_text() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("known");
    let lines = desk.log().len();
    for empty in ["", " ", "\n\t \n"] {
        told(desk.person(&["thread", "new", empty]));
        told(desk.person(&["thread", "say", &thread, empty]));
        told(desk.person_with_input(&["thread", "say", &thread], empty.as_bytes()));
        told(main.run(&["thread", "reply", &thread, empty]));
        told(main.run(&["thread", "line", &thread, empty]));
        told(desk.person(&["task", "open", &thread, empty]));
    }
    told(desk.person(&["thread", "say", &thread]));
    told(desk.person_with_input(&["thread", "say", &thread], b"caf\xe9 \xff\xfe"));
    told(desk.person_with_input(&["thread", "new", "-"], b"\xc3"));
    let wrong = [OsStr::new("thread"), OsStr::new("say"), OsStr::new(&thread), OsStr::from_bytes(b"caf\xe9")];
    told(desk.person(&wrong));
    let file = desk.path("latin");
    fs::write(&file, b"caf\xe9").expect("a file");
    told(desk.person(&["thread", "say", &thread, "--file", &file.to_string_lossy()]));
    told(desk.person(&["thread", "say", &thread, "--file", &desk.path("missing").to_string_lossy()]));
    told(desk.person(&["thread", "say", &thread, "--file", &desk.path("home").to_string_lossy()]));
    told(desk.person_with_input(&["thread", "say", &thread], "x".repeat(40 << 20).as_bytes()));
    let mut endless = desk.command(&["thread", "say", &thread, "--file", "/dev/zero"]);
    told(Ran::from(endless.output().expect("leaf runs")));
    assert_eq!(desk.log().len(), lines);
}

#[test]
fn control_characters_are_kept_and_never_break_a_line() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let text = "a\u{1b}[2Jb\r\nc\u{2028}d\u{85}e\u{1}f\u{7f}g\u{fffe}h\"\\\u{0}i";
    let ran = desk.person_with_input(&["thread", "new", "--json"], text.as_bytes());
    ran.ok();
    assert_eq!(desk.log()[0]["text"].as_str().map(|t| t.starts_with("a\u{1b}[2Jb")), Some(true));
    assert_eq!(fs::read_to_string(desk.log_path()).expect("the log").lines().count(), 1);
    main.boundary().says();
}

#[test]
fn a_payload_cut_off_anywhere() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("still there");
    let before = desk.files(&["errors.log"]);
    let whole = main.payload("PostToolBatch.main").to_string();
    let mut cuts = 0;
    for cut in (0..whole.len()).step_by(61) {
        if whole.is_char_boundary(cut) {
            main.hook_raw(&whole.as_bytes()[..cut]).silent();
            cuts += 1;
        }
    }
    assert!(cuts > 20);
    assert_eq!(desk.files(&["errors.log"]), before);
    assert!(!desk.errors().is_empty());
    assert!(main.boundary().says().contains("still there"));
}

#[test]
fn a_payload_of_wrong_types_everywhere() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("still there");
    let names = [
        "SessionStart.main.startup",
        "UserPromptSubmit.main",
        "PreToolUse.main.Bash",
        "PostToolBatch.main",
        "Stop.main.tui",
    ];
    for name in names {
        let payload = main.payload(name);
        for key in payload.as_object().expect("an object").keys() {
            if key == "session_id" {
                continue;
            }
            for wrong in [json!(null), json!(7), json!([[]]), json!({"a": 1}), json!("\u{1b}x")] {
                let mut payload = payload.clone();
                payload[key] = wrong;
                main.hook(&payload).silent_or_context();
            }
            let mut payload = payload.clone();
            payload.as_object_mut().expect("an object").remove(key);
            main.hook(&payload).silent_or_context();
        }
    }
    let deep = "[".repeat(20_000);
    main.hook_raw(format!("{{\"hook_event_name\":\"Stop\",\"session_id\":\"x\",\"deep\":{deep}").as_bytes()).silent();
}

#[test]
fn ten_mebibytes_of_tool_response() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("still delivered");
    let mut payload = main.payload("PostToolBatch.main");
    payload["tool_calls"][0]["tool_response"] = json!("line with \"quotes\" and \u{1F331}\n".repeat(400_000));
    assert!(payload.to_string().len() > 10 << 20);
    assert!(main.hook(&payload).says().contains("still delivered"));
    let mut payload = main.payload("PostToolUse.main.Bash");
    payload["tool_response"]["stdout"] = json!("x".repeat(10 << 20));
    main.hook(&payload).silent();
}

/// Runs a shell line where `$LEAF_HOME` is a mount of its own; nothing where the machine lets us not.
fn in_mount(desk: &Desk, options: &str, line: &str) -> Option<Ran> {
    let mount = desk.path("mount");
    fs::create_dir_all(&mount).expect("a mount point");
    let able = Command::new("unshare").args(["-rm", "sh", "-c", "mount -t tmpfs none \"$0\""]).arg(&mount).output();
    if !able.is_ok_and(|o| o.status.success()) {
        eprintln!("not checked on a mount of its own: no mount namespace on this machine");
        return None;
    }
    let script =
        format!("mount -t tmpfs -o {options} none \"$LEAF_HOME\" && chmod 700 \"$LEAF_HOME\" || exit 99\n{line}");
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script]).env_clear().envs(desk.env()).env("LEAF", LEAF);
    command.env("LEAF_HOME", &mount).current_dir(desk.project()).stdin(Stdio::null());
    Some(Ran::from(command.output().expect("unshare runs")))
}

#[test]
fn a_full_state_directory() {
    let desk = Desk::new();
    // Fills the mount to the last byte between two writes; what was acknowledged is there afterwards.
    let line = r#"
        T=$("$LEAF" thread new kept --json | tr -d ' \n' | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/') || exit 98
        dd if=/dev/zero of="$LEAF_HOME/fill" bs=1k 2>/dev/null
        dd if=/dev/zero of="$LEAF_HOME/fill2" bs=1 2>/dev/null
        n=0
        while [ $n -lt 300 ] && "$LEAF" thread say "$T" "a message that takes its room $n" >/dev/null 2>"$TMPDIR/err"; do n=$((n+1)); done
        echo "said $n"
        cat "$TMPDIR/err"
        "$LEAF" thread say "$T" "no room" >/dev/null 2>&1; echo "code $?"
        printf '{"hook_event_name":"PostToolBatch","session_id":"x","tool_calls":[]}' | "$LEAF" hook; echo "hook $?"
        printf 'not json' | "$LEAF" hook; echo "hook $?"
        rm "$LEAF_HOME/fill" "$LEAF_HOME/fill2"
        "$LEAF" thread say "$T" "room again" >/dev/null || echo "still refused"
        "$LEAF" page state --json
    "#;
    let Some(ran) = in_mount(&desk, "size=256k", line) else {
        return;
    };
    let out = ran.clone().ok().out();
    let said: usize =
        out.lines().next().and_then(|l| l.strip_prefix("said ")).and_then(|n| n.parse().ok()).expect("a count");
    assert!(said < 300, "the directory was full: {ran:?}");
    assert!(out.contains("code 1") && out.matches("hook 0").count() == 2, "{ran:?}");
    assert!(!out.contains("panicked") && !out.contains("still refused"), "{ran:?}");
    let sentence = out.lines().nth(1).expect("a sentence");
    assert!(sentence.split_whitespace().count() >= 3, "{ran:?}");
    let state: Value = serde_json::from_str(out.lines().last().expect("a state"))
        .or_else(|_| serde_json::from_str(&out[out.find("\n{").expect("a state")..]))
        .expect("page state is JSON");
    let messages = state["threads"][0]["messages"].as_array().expect("messages");
    let texts: Vec<&str> = messages.iter().map(|m| m["text"].as_str().expect("a text")).collect();
    assert_eq!(texts.first(), Some(&"kept"));
    assert_eq!(texts.last(), Some(&"room again"));
    assert_eq!(texts.len(), said + 2, "each acknowledged message once, no other: {texts:?}");
}

#[test]
fn a_file_that_may_not_grow() {
    let desk = Desk::new();
    let thread = desk.thread("kept");
    let log = fs::read(desk.log_path()).expect("the log");
    // The shell's limit on file sizes (in 512-byte blocks) stands in for a full disk without privileges.
    let text = "x".repeat(4_000);
    let line = format!("trap '' XFSZ; ulimit -f 1; exec \"$LEAF\" thread say {thread} {text}");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env_clear().envs(desk.env()).env("LEAF", LEAF).current_dir(desk.project());
    told(Ran::from(command.output().expect("sh runs")));
    let state = desk.thread_state(&thread);
    assert_eq!(state["messages"].as_array().map(Vec::len), Some(1), "half a message is none");
    desk.say(&thread, "after it");
    let state = desk.thread_state(&thread);
    let texts: Vec<&Value> = state["messages"].as_array().expect("messages").iter().map(|m| &m["text"]).collect();
    assert_eq!(texts, [&json!("kept"), &json!("after it")]);
    assert!(fs::read(desk.log_path()).expect("the log").starts_with(&log));
}

#[test]
fn a_read_only_state_directory() {
    let desk = Desk::new();
    let line = r#"
        T=$("$LEAF" thread new kept --json | tr -d ' \n' | sed 's/.*"id":"\([0-9a-f]*\)".*/\1/') || exit 98
        mount -o remount,bind,ro "$LEAF_HOME" || exit 97
        "$LEAF" thread say "$T" more; echo "code $?"
        "$LEAF" thread new more; echo "code $?"
        "$LEAF" thread show "$T"; echo "read $?"
        "$LEAF" page state --json >/dev/null; echo "read $?"
        printf '{"hook_event_name":"PostToolBatch","session_id":"x","tool_calls":[]}' | "$LEAF" hook; echo "hook $?"
        printf '{"hook_event_name":"SessionStart","session_id":"x","source":"startup","cwd":"/"}' | "$LEAF" hook; echo "hook $?"
    "#;
    let Some(ran) = in_mount(&desk, "size=1m", line) else {
        return;
    };
    let out = ran.clone().ok().out();
    assert_eq!(out.matches("code 1").count(), 2, "{ran:?}");
    assert_eq!(out.matches("read 0").count(), 2, "reading works: {ran:?}");
    assert!(out.contains("kept"), "{ran:?}");
    assert_eq!(out.matches("hook 0").count(), 2, "{ran:?}");
    assert_eq!(ran.err().lines().count(), 2, "one sentence a refusal, hooks silent: {ran:?}");
}

#[test]
fn a_state_directory_of_another_owner() {
    let desk = Desk::new();
    desk.thread("before");
    let root = fs::metadata("/").map(|m| std::os::unix::fs::MetadataExt::uid(&m)).expect("metadata");
    let mine = fs::metadata(desk.state_dir()).map(|m| std::os::unix::fs::MetadataExt::uid(&m)).expect("metadata");
    let foreign = if mine == 0 {
        std::os::unix::fs::chown(desk.state_dir(), Some(12_345), None).expect("root may give it away");
        desk.state_dir()
    } else {
        assert_eq!(root, 0);
        std::path::PathBuf::from("/")
    };
    let mut command = desk.command(&["thread", "new", "x"]);
    told(Ran::from(command.env("LEAF_HOME", &foreign).output().expect("leaf runs")));
    let mut command = desk.command(&["hook"]);
    command.env("LEAF_HOME", &foreign);
    let ran = crate::support::desk::feed(command, recorded("SessionStart.main.startup").to_string().as_bytes());
    assert!(ran.code == 0 && ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
    if mine == 0 {
        std::os::unix::fs::chown(desk.state_dir(), Some(0), None).expect("root may take it back");
        assert_eq!(desk.log().len(), 1);
    }
}

#[test]
fn a_file_system_without_locks() {
    let desk = Desk::new();
    let thread = desk.thread("before");
    let lines = desk.log().len();
    let trace = |args: &[&str]| {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=flock", "-e", "inject=flock:error=ENOLCK"]);
        command.arg(LEAF).args(args).env_clear().envs(desk.env()).current_dir(desk.project()).stdin(Stdio::null());
        command
    };
    if !trace(&["--version"]).output().is_ok_and(|o| o.status.success()) {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    told(Ran::from(trace(&["thread", "say", &thread, "x"]).output().expect("strace runs")));
    told(Ran::from(trace(&["thread", "new", "x"]).output().expect("strace runs")));
    let ran =
        crate::support::desk::feed(trace(&["hook"]), recorded("SessionStart.main.startup").to_string().as_bytes());
    assert!(ran.code == 0 && ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
    assert_eq!(desk.log().len(), lines);
}

#[test]
fn a_missing_home() {
    let desk = Desk::new();
    let mut command = desk.command(&["thread", "new", "x"]);
    Ran::from(command.env_remove("HOME").output().expect("leaf runs")).ok();
    for home in [None, Some("")] {
        // A reading command first: were it to find some other place, nothing would be written there.
        for args in [&["thread", "list"][..], &["thread", "new", "x"]] {
            let mut command = desk.command(args);
            command.env_remove("LEAF_HOME").env_remove("HOME");
            if let Some(home) = home {
                command.env("HOME", home);
            }
            told(Ran::from(command.output().expect("leaf runs")));
        }
        let mut command = desk.command(&["hook"]);
        command.env_remove("LEAF_HOME").env_remove("HOME");
        if let Some(home) = home {
            command.env("HOME", home);
        }
        let ran = crate::support::desk::feed(command, recorded("SessionStart.main.startup").to_string().as_bytes());
        assert!(ran.code == 0 && ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
    }
    assert_eq!(fs::read_dir(desk.project()).expect("the project").count(), 0);
}

/// A process that holds the page's lock and is stopped; killed when dropped.
struct Stopped(std::process::Child);

impl Stopped {
    fn holding(desk: &Desk) -> Stopped {
        let held = desk.path("held");
        let line = "exec 9>>\"$0\"; flock 9 || exit 1; echo yes >\"$1\"; read _";
        let mut command = Command::new("sh");
        command.args(["-c", line]).arg(desk.log_path()).arg(&held).stdin(Stdio::piped());
        let child = command.spawn().expect("sh runs");
        let start = Instant::now();
        while !held.exists() {
            assert!(start.elapsed() < Duration::from_secs(10), "the lock is taken");
            std::thread::sleep(Duration::from_millis(5));
        }
        signal_pid(child.id(), "STOP");
        Stopped(child)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_stopped_holder_of_the_lock() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("patience");
    let lines = desk.log().len();
    let stopped = Stopped::holding(&desk);
    let say = desk
        .command(&["thread", "say", &thread, "x"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("leaf runs");
    let asked = Instant::now();
    for hook in [Session::boundary, Session::stop] {
        let start = Instant::now();
        hook(&main).silent();
        assert!(start.elapsed() < Duration::from_secs(4), "a hook gives up: {:?}", start.elapsed());
    }
    main.pre_bash("ls").silent();
    let ran = Ran::from(say.wait_with_output().expect("leaf ends"));
    let waited = asked.elapsed();
    told(ran);
    assert!(
        waited > Duration::from_secs(8) && waited < Duration::from_secs(14),
        "a command refuses after 10 s: {waited:?}"
    );
    assert!(!desk.errors().is_empty());
    drop(stopped);
    assert_eq!(desk.log().len(), lines);
    assert!(main.boundary().says().contains("patience"), "nothing is lost");
}

#[test]
fn a_closed_stdout() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("known");
    let long = "long enough to fill a pipe ".repeat(6_000);
    desk.person_with_input(&["thread", "say", &thread], long.as_bytes()).ok();
    for sink in [">&-", ">/dev/full", "| :", "| head -c 1 >/dev/null", ">&- 2>&-"] {
        for read in
            ["page state --json", &format!("thread show {thread}"), "thread list", "page log", "status", "--help"]
        {
            // The command's own code, not that of what it is piped to.
            let ran = main.shell(&format!("{{ \"$LEAF\" {read}; echo $? >rc; }} {sink}; exit $(cat rc)"));
            assert!(matches!(ran.code, 0..=2), "{read} {sink}: {ran:?}");
            assert!(!ran.err().contains("panicked"), "{read} {sink}: {ran:?}");
        }
    }
    let full = main.shell("\"$LEAF\" page state --json >/dev/full");
    assert_eq!(full.code, 1, "what could not be printed is told: {full:?}");
    // The event is on disk, whatever became of the output.
    for (n, sink) in [">&-", ">/dev/full", "| :"].iter().enumerate() {
        let line = format!("\"$LEAF\" thread say {thread} 'unseen {n}' --json {sink}");
        let mut command = Command::new("sh");
        command.args(["-c", &line]).env_clear().envs(desk.env()).env("LEAF", LEAF).current_dir(desk.project());
        let ran = Ran::from(command.output().expect("sh runs"));
        assert!(!ran.err().contains("panicked"), "{sink}: {ran:?}");
        let texts: Vec<Value> = desk.events("message").iter().map(|m| m["text"].clone()).collect();
        assert_eq!(texts.iter().filter(|t| **t == json!(format!("unseen {n}"))).count(), 1, "{sink}");
    }
}

#[test]
fn corrupt_records_of_a_page() {
    for damage in ["", "garbage", "{", "[]", "{\"format\":\"one\"}"] {
        let desk = Desk::new();
        let main = desk.session("s").working();
        let thread = desk.thread("kept");
        let path = desk.page().join("page.json");
        let whole = fs::read(&path).expect("page.json");
        fs::write(&path, damage).expect("page.json");
        let log = fs::read(desk.log_path()).expect("the log");
        told(desk.person(&["thread", "say", &thread, "x"]));
        main.boundary().silent();
        assert_eq!(fs::read(desk.log_path()).expect("the log"), log, "{damage:?}");
        fs::write(&path, whole).expect("page.json");
        assert!(main.boundary().says().contains("kept"), "{damage:?}");
    }
}

#[test]
fn a_damaged_delivery_file() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.person_with_input(&["thread", "new"], crate::s12_boundary::long_text(30_000, "x").as_bytes()).ok();
    main.boundary().says();
    let delivery = crate::s12_boundary::pointers(&desk)[0].clone();
    let path = desk.page().join("deliveries").join(format!("{delivery}.json"));
    fs::write(&path, "garbage").expect("the delivery");
    told(main.run(&["delivery", "read", &delivery]));
    told(main.run(&["delivery", "ack", &delivery]));
    assert_eq!(desk.events("pickup"), Vec::<Value>::new());
    assert!(!main.prompt("next").says().is_empty(), "the message isn't lost");
}

#[test]
fn a_project_that_is_gone() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    desk.thread("kept");
    let lost = desk.path("lost");
    fs::create_dir(&lost).expect("a directory");
    let mut child = Command::new("sh");
    child.args(["-c", "cd \"$0\" && rmdir \"$0\" && exec \"$LEAF\" thread list"]).arg(&lost);
    child.env_clear().envs(desk.env()).env("LEAF", LEAF);
    let ran = Ran::from(child.output().expect("sh runs"));
    assert!(matches!(ran.code, 0..=2) && !ran.err().contains("panicked"), "{ran:?}");
    let mut payload = main.payload("PostToolBatch.main");
    payload["cwd"] = json!(lost.to_string_lossy());
    assert!(main.hook(&payload).says().contains("kept"));
}
