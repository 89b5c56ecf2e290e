//! Hostile places (R125) and projects (R126): what lies at a name of leaf's that leaf didn't put there, a state directory that is
//! another's, a project that brings files of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::desk::{Desk, LEAF, Ran, copy_tree, feed, recorded, walk};
use crate::support::forks::{Follower, forking, session_dir, text};
use crate::support::schedule::{Issue, Schedule};
use serde_json::{Value, json};

/// Longer than anything of leaf's own waits, seconds: a process that hangs is killed, and told by its exit code.
const PATIENCE: &str = "40";
/// More memory than leaf needs, KiB: who reads what has no end dies of it instead of the machine.
const MEMORY: u32 = 2 << 20;

/// Runs leaf so that it can neither hang nor fill the machine.
fn bounded(desk: &Desk, args: &[&str], input: &[u8]) -> Ran {
    let line = format!("ulimit -v {MEMORY}; exec timeout {PATIENCE} \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &line, "sh", LEAF]).args(args).env_clear().envs(desk.env()).current_dir(desk.project());
    let ran = feed(command, input);
    assert!(!ran.err().contains("panicked") && (0..=2).contains(&ran.code), "{args:?}: {ran:?}");
    ran
}

fn own_uid(desk: &Desk) -> u32 {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata(desk.state_dir()).expect("the state directory"))
}

fn made(program: &str, args: &[&str], path: &Path) -> bool {
    Command::new(program).arg(path).args(args).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Every file of a directory and below, with its bytes.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    walk(dir, &mut |path| {
        if fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) {
            found.insert(path.to_owned(), fs::read(path).expect("a file"));
        }
    });
    found
}

/// What is planted at a name. What lay there lies in `aside` then.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Link,
    Fifo,
    Device,
    Directory,
    File,
}

/// Plants it; `false` where this machine doesn't let us.
fn plant(what: Planted, at: &Path, aside: &Path) -> bool {
    if at.exists() {
        fs::rename(at, aside).expect("aside");
    } else {
        fs::write(aside, "the victim's").expect("a victim");
    }
    match what {
        Planted::Link => symlink(aside, at).is_ok(),
        Planted::Fifo => made("mkfifo", &[], at),
        Planted::Device => made("mknod", &["c", "1", "5"], at),
        Planted::Directory => fs::create_dir(at).and_then(|()| fs::write(at.join("x"), "x")).is_ok(),
        Planted::File => fs::write(at, "x").is_ok(),
    }
}

#[test]
fn r125_whatever_lies_at_a_name_of_the_state_directory_nothing_is_followed_and_nothing_hangs() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("something");
    fork.reply(&fork.reference(), "an answer");
    follower.kill();
    desk.person_with_input(&["thread", "new"], "x".repeat(40_000).as_bytes()).ok();
    main.boundary().says();
    main.stop().silent_or_context();
    main.watch().parked(300);
    // The cache is worth its write only behind a journal of some length.
    for _ in 0..500 {
        if session_dir(&desk, &main).join("state.json").exists() {
            break;
        }
        main.prompt("on").silent_or_context();
    }
    Schedule::new(&main).reports("journal", "a report");
    Schedule::new(&main).run(&[Issue::of("journal")]);
    main.hook_raw(b"not json").silent();
    fs::create_dir(desk.project().join(".leaf")).expect("a directory");
    fs::write(desk.project().join(".leaf/config.toml"), "").expect("a file");
    desk.person(&["trust"]).ok();
    let state = desk.state_dir();
    let mut names: Vec<PathBuf> = Vec::new();
    walk(&state, &mut |path| {
        let name = path.strip_prefix(&state).expect("below it").to_owned();
        if fs::symlink_metadata(path).expect("metadata").is_file() && !name.ends_with("lock") {
            names.push(PathBuf::from(format!("{}.tmp", name.display())));
        }
        names.push(name);
    });
    let told: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    for name in [
        "page.json",
        "log.jsonl",
        "view.json",
        "deliveries/",
        "session.json",
        "journal.jsonl",
        "state.json",
        "lanes/follower",
        "lanes/watch",
        "lock",
        "reports/",
        "projects/",
        "errors.log",
    ] {
        assert!(told.iter().any(|told| told.contains(name)), "{name} is among {told:?}");
    }
    let payload = |name: &str| main.payload(name).to_string();
    let hooks = ["SessionStart.main.startup", "PreToolUse.fork.Bash", "Stop.main.tui"].map(payload);
    let whole = desk.path("whole");
    fs::rename(&state, &whole).expect("kept");
    let aside = desk.path("aside");
    for name in &names {
        for what in [Planted::Link, Planted::Fifo, Planted::Device, Planted::Directory, Planted::File] {
            let is_dir = whole.join(name).is_dir();
            // A file in a file's place is what other tests damage.
            if is_dir == (what == Planted::Directory) || !is_dir && what == Planted::File {
                continue;
            }
            // All go through one door: these need not stand at each.
            let few = ["log.jsonl", "session.json", "session.json.tmp", "lock", "errors.log"];
            if matches!(what, Planted::Device | Planted::Directory) && !few.iter().any(|few| name.ends_with(few)) {
                continue;
            }
            copy_tree(&whole, &state);
            if !plant(what, &state.join(name), &aside) {
                eprintln!("not checked: {what:?} can't be made on this machine");
                fs::remove_dir_all(&state).expect("the copy");
                continue;
            }
            let victim = if aside.is_dir() {
                contents(&aside)
            } else {
                BTreeMap::from([(aside.clone(), fs::read(&aside).expect("a victim"))])
            };
            let said = format!("{what:?} at {}", name.display());
            bounded(&desk, &["thread", "new", "x"], b"");
            bounded(&desk, &["status"], b"");
            bounded(&desk, &["trust"], b"");
            for hook in &hooks {
                let ran = bounded(&desk, &["hook"], hook.as_bytes());
                assert!(ran.code == 0 && ran.stderr.is_empty(), "{said}: {ran:?}");
            }
            bounded(&desk, &["hook"], b"not json");
            let now = if aside.is_dir() {
                contents(&aside)
            } else {
                BTreeMap::from([(aside.clone(), fs::read(&aside).expect("a victim"))])
            };
            assert_eq!(now, victim, "{said}: what it leads to is as it was");
            fs::remove_dir_all(&state).expect("the copy");
            if aside.is_dir() { fs::remove_dir_all(&aside) } else { fs::remove_file(&aside) }.expect("the victim");
        }
    }
    fs::rename(&whole, &state).expect("back");
}

#[test]
fn r125_a_temporary_name_is_never_written_through() {
    let desk = Desk::new();
    let main = desk.session("s").working();
    let thread = desk.thread("before");
    let victim = desk.path("victim");
    fs::write(&victim, "the victim's").expect("a victim");
    let record = desk.page().join("page.json.tmp");
    for plant in [|from: &Path, to: &Path| fs::hard_link(from, to), |from: &Path, to: &Path| symlink(from, to)] {
        plant(&victim, &record).expect("planted");
        let other = desk.session("t").working();
        other.run(&["page", "claim", &desk.page_slug()]).ok();
        assert_eq!(fs::read_to_string(&victim).expect("the victim"), "the victim's");
        assert!(!record.exists() && !record.is_symlink(), "what was planted is gone");
        main.run(&["page", "claim", &desk.page_slug()]).ok();
    }
    assert_eq!(desk.thread_state(&thread)["messages"][0]["text"], "before");
}

#[test]
fn r125_a_scratch_directory_of_anothers_making_is_not_used() {
    type Make = fn(&Path);
    let places: [(&str, Make); 4] = [
        ("a file", |path| fs::write(path, "x").expect("a file")),
        ("one that others may write to", |path| {
            fs::create_dir(path).expect("a directory");
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("a mode");
        }),
        ("one that others may look into", |path| {
            fs::create_dir(path).expect("a directory");
            fs::set_permissions(path, fs::Permissions::from_mode(0o750)).expect("a mode");
        }),
        ("another user's", |path| {
            fs::DirBuilder::new().mode(0o700).create(path).expect("a directory");
            if chown(path, Some(12_345), None).is_err() {
                fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("a mode");
                eprintln!("not checked with another user's: only root may give a directory away");
            }
        }),
    ];
    for (what, make) in places {
        let desk = Desk::new();
        let main = forking(&desk, "s");
        let follower = Follower::start(&main);
        let own = desk.path("tmp").join(format!("leaf-{}", own_uid(&desk)));
        make(&own);
        let (_, action) = follower.take("look it up");
        assert!(text(&action["prompt"]).contains("Scratch directory: none"), "{what}: {action}");
        main.stop().silent_or_context();
        let schedule = Schedule::new(&main);
        schedule.reports("journal", "it ran");
        let runs = schedule.run(&[Issue::of("journal")]);
        assert!(schedule.asked("journal").is_empty(), "{what}: nothing runs from there");
        assert_eq!(schedule.state_of(&runs[0])["state"], "failed", "{what}");
        assert_eq!(fs::read_dir(&own).map(Iterator::count).unwrap_or(0), 0, "{what}: nothing is written there");
    }
}

#[test]
fn r125_a_state_directory_that_others_may_write_to_is_not_used() {
    for mode in [0o777, 0o720, 0o702, 0o1777] {
        let desk = Desk::new();
        let base = desk.path("base");
        fs::create_dir_all(base.join("leaf")).expect("a directory");
        fs::set_permissions(base.join("leaf"), fs::Permissions::from_mode(mode)).expect("a mode");
        for (name, value) in [("LEAF_HOME", base.join("leaf")), ("XDG_STATE_HOME", base.clone())] {
            let with = |args: &[&str]| {
                let mut command = desk.command(args);
                command.env_remove("LEAF_HOME").env(name, &value);
                command
            };
            for args in [&["thread", "new", "x"][..], &["thread", "list"], &["status"]] {
                let why = Ran::from(with(args).output().expect("leaf runs")).refused();
                assert!(why.contains("others may write") && why.contains("chmod 700"), "{why}");
            }
            let ran = feed(with(&["hook"]), recorded("SessionStart.main.startup").to_string().as_bytes());
            assert!(ran.code == 0 && ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
        }
        assert_eq!(fs::read_dir(base.join("leaf")).expect("it").count(), 0, "nothing is written there: {mode:o}");
    }
}

#[test]
fn r125_another_user_gets_nothing_in_and_nothing_out() {
    let desk = Desk::new();
    // Nothing but leaf's own modes keeps the other user out.
    let open = tempfile::Builder::new().prefix("leaf-shared-").tempdir().expect("a directory");
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let leaf = open.path().join("leaf");
    fs::copy(LEAF, &leaf).expect("the binary");
    let home = open.path().join("state");
    let as_other = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&leaf).args(args);
        command.env_clear().envs(desk.env()).env("LEAF_HOME", &home).env("HOME", "/nonexistent").current_dir("/");
        command.stdin(Stdio::null());
        command
    };
    if own_uid(&desk) != 0 || !as_other(&["--version"]).output().is_ok_and(|ran| ran.status.success()) {
        eprintln!("not checked as another user: this takes root and setpriv");
        return;
    }
    let own = |args: &[&str]| Ran::from(desk.command(args).env("LEAF_HOME", &home).output().expect("leaf runs"));
    own(&["thread", "new", "private words"]).ok();
    let before = contents(&home);
    for args in [&["thread", "list"][..], &["thread", "new", "x"], &["status"], &["page", "list"], &["trust"]] {
        let ran = Ran::from(as_other(args).output().expect("leaf runs"));
        assert!(ran.code == 1 && !ran.out().contains("private"), "{args:?}: {ran:?}");
    }
    let ran = feed(as_other(&["hook"]), recorded("SessionStart.main.startup").to_string().as_bytes());
    assert!(ran.code == 0 && ran.stdout.is_empty(), "{ran:?}");
    assert_eq!(contents(&home), before);
    // And what another user owns is not this one's to use, though this one could.
    let theirs = open.path().join("theirs");
    fs::DirBuilder::new().mode(0o700).create(&theirs).expect("a directory");
    chown(&theirs, Some(65_534), Some(65_534)).expect("root gives it away");
    let ran = Ran::from(desk.command(&["thread", "new", "x"]).env("LEAF_HOME", &theirs).output().expect("leaf runs"));
    assert!(ran.refused().contains("another user"));
    assert_eq!(fs::read_dir(&theirs).expect("it").count(), 0);
}

/// What a project could bring that has no end, never comes, or is the whole disk.
fn without_end(at: &Path, kind: &str) -> bool {
    fs::create_dir_all(at.parent().expect("a directory")).expect("a directory");
    match kind {
        "a fifo" => made("mkfifo", &[], at),
        "a device" => symlink("/dev/zero", at).is_ok(),
        // A plain file by its kind, of no length, that gives hundreds of gigabytes.
        "procfs" => Path::new("/proc/self/pagemap").exists() && symlink("/proc/self/pagemap", at).is_ok(),
        "a hole" => File::create(at).and_then(|file| file.set_len(1 << 40)).is_ok(),
        "the root" => symlink("/", at).is_ok(),
        "itself" => symlink(".", at).is_ok(),
        _ => panic!("{kind}"),
    }
}

#[test]
fn r126_what_a_project_brings_neither_hangs_nor_fills_a_hook() {
    let files = [".leaf/config.toml", ".leaf/x", ".leaf/forks/x.md", ".leaf/hooks/x/HOOK.md"];
    for kind in ["a fifo", "a device", "procfs", "a hole", "the root", "itself"] {
        let is_dir = matches!(kind, "the root" | "itself");
        for name in if is_dir { &[".leaf"][..] } else { &files } {
            let desk = Desk::new();
            let at = desk.project().join(name);
            if !without_end(&at, kind) {
                eprintln!("not checked: {kind} can't be made on this machine");
                continue;
            }
            for event in ["SessionStart.main.startup", "Stop.main.tui"] {
                let mut payload = recorded(event);
                payload["cwd"] = json!(desk.project());
                let ran = bounded(&desk, &["hook"], payload.to_string().as_bytes());
                assert!(ran.code == 0 && ran.stderr.is_empty(), "{kind} at {name}: {ran:?}");
            }
            for args in [&["forks"][..], &["hooks"], &["doctor"]] {
                bounded(&desk, args, b"");
            }
            assert_eq!(bounded(&desk, &["status"], b"").code, 0, "{kind} at {name}: the rest is still seen");
            let trusted = bounded(&desk, &["trust"], b"");
            let endless = matches!(kind, "procfs" | "a hole") && name.ends_with(".toml");
            assert!(!endless || trusted.code == 1, "{kind} at {name} is not trusted: {trusted:?}");
        }
    }
}

#[test]
fn r126_a_file_that_is_exchanged_after_trust_counts_no_more() {
    let desk = Desk::new();
    let leaf = desk.project().join(".leaf");
    for dir in ["forks", "hooks"] {
        fs::create_dir_all(leaf.join(dir)).expect("a directory");
    }
    let proof = desk.path("proof");
    let elsewhere = desk.path("elsewhere");
    let config = "[forks]\nwork = true\n[schedule]\nflush_on_close = true\n";
    fs::write(leaf.join("config.toml"), config).expect("a configuration");
    fs::write(leaf.join("forks/review.md"), "---\nfork: true\n---\nLook.\n").expect("a fork");
    fs::write(leaf.join("hooks/start.md"), "---\nhook: true\non: session_start\ncommand: 'true'\n---\n")
        .expect("a hook");
    desk.person(&["trust"]).ok();
    let work = |name: &str| -> bool {
        let session = desk.session(name);
        session.start("startup").silent_or_context();
        let record: Value =
            serde_json::from_slice(&fs::read(session_dir(&desk, &session).join("session.json")).expect("a record"))
                .expect("JSON");
        record["switches"]["fork_work"].as_bool().expect("a switch")
    };
    assert!(work("trusted"), "as it was trusted it counts");
    let standing = |what: &str| text(&desk.ask(&[what])[what][0]["trust"]);
    assert_eq!((standing("forks"), standing("hooks")), ("trusted".to_owned(), "trusted".to_owned()));
    // Each is exchanged for a link to a file that lies outside of what was looked at.
    let exchange = |name: &str, text: String| {
        fs::create_dir_all(elsewhere.join(name).parent().expect("a directory")).expect("a directory");
        fs::write(elsewhere.join(name), text).expect("a file");
        fs::remove_file(leaf.join(name)).expect("the file");
        symlink(elsewhere.join(name), leaf.join(name)).expect("a link");
    };
    exchange("config.toml", format!("{config}max_parallel = 9\n"));
    exchange("forks/review.md", "---\nfork: true\n---\nObey.\n".to_owned());
    exchange(
        "hooks/start.md",
        format!("---\nhook: true\non: session_start\ncommand: touch '{}'\n---\n", proof.display()),
    );
    assert!(!work("exchanged"), "with other bytes it doesn't");
    assert_eq!((standing("forks"), standing("hooks")), ("changed".to_owned(), "changed".to_owned()));
    // The directory itself exchanged for one with the same names.
    fs::remove_dir_all(&leaf).expect("the directory");
    symlink(&elsewhere, &leaf).expect("a link");
    assert!(!work("a linked directory"));
    assert_eq!(standing("hooks"), "changed");
    let named = bounded(&desk, &["fork", "run", "review"], b"");
    assert_eq!(named.code, 1, "{named:?}");
    assert!(!proof.exists(), "nothing of it ran");
    // The bytes that were trusted are trusted wherever they lie.
    fs::write(elsewhere.join("config.toml"), config).expect("a file");
    fs::write(elsewhere.join("forks/review.md"), "---\nfork: true\n---\nLook.\n").expect("a fork");
    fs::write(elsewhere.join("hooks/start.md"), "---\nhook: true\non: session_start\ncommand: 'true'\n---\n")
        .expect("a hook");
    assert!(work("back"));
}

#[test]
fn r126_a_projects_own_programs_are_run_by_no_search() {
    let desk = Desk::new();
    let proof = desk.path("proof");
    for name in ["claude", "leaf", "sh", "git", "bin/claude"] {
        let file = desk.project().join(name);
        fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        fs::write(&file, format!("#!/bin/sh\ntouch '{}'\n", proof.display())).expect("a program");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    for path in [".", "", "bin:.:", "::", "./bin"] {
        for args in [&["doctor"][..], &["install", "--dry-run"], &["status"], &["eval"], &["fork", "run", "x"]] {
            let mut command = desk.command(args);
            let ran = Ran::from(
                command.env("PATH", path).env("CLAUDE_CODE_EXECPATH", "./claude").output().expect("leaf runs"),
            );
            assert!((0..=2).contains(&ran.code), "{path:?} {args:?}: {ran:?}");
        }
        let mut command = desk.command(&["hook"]);
        command.env("PATH", path);
        feed(command, recorded("SessionStart.main.startup").to_string().as_bytes());
    }
    assert!(!proof.exists());
}
