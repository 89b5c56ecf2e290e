//! What a fork may change: R114–R116.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::desk::{Desk, HookRan, Session, mode, recorded};
use crate::support::forks::{Follower, Fork, Verdict, forking, text, verdict, why_of};
use serde_json::{Value, json};

/// The input of a call of an editing tool, as the client recorded one, for this path.
fn input(tool: &str, path: &str) -> Value {
    match tool {
        "Edit" => with(recorded("PreToolUse.main.Edit"), "file_path", path),
        "Write" => with(recorded("PreToolUse.main.Write"), "file_path", path),
        "MultiEdit" => {
            json!({"file_path": path, "edits": [{"old_string": "a", "new_string": "c", "replace_all": false}]})
        }
        "NotebookEdit" => json!({"notebook_path": path, "cell_id": "1", "new_source": "x", "edit_mode": "replace"}),
        other => panic!("no editing tool: {other}"),
    }
}

fn with(payload: Value, key: &str, path: &str) -> Value {
    let mut input = payload["tool_input"].clone();
    input[key] = json!(path);
    input
}

const TOOLS: [&str; 4] = ["Edit", "Write", "MultiEdit", "NotebookEdit"];

#[track_caller]
fn edits(fork: &Fork<'_, '_>, path: impl AsRef<Path>) -> HookRan {
    fork.pre("Write", input("Write", &path.as_ref().to_string_lossy()))
}

#[track_caller]
fn denied(fork: &Fork<'_, '_>, path: impl AsRef<Path>) -> String {
    let ran = edits(fork, &path);
    match verdict(&ran) {
        Verdict::Denied(reason) => reason,
        other => panic!("{} is denied: {other:?}", path.as_ref().display()),
    }
}

#[track_caller]
fn passes(fork: &Fork<'_, '_>, path: impl AsRef<Path>) {
    let ran = edits(fork, &path);
    assert!(matches!(verdict(&ran), Verdict::Passed), "{} passes: {:?}", path.as_ref().display(), ran.ran);
}

/// Where a turn's scratch directory lies, as its fork's prompt names it.
#[track_caller]
fn scratch(fork: &Fork<'_, '_>) -> PathBuf {
    let line = fork.prompt.lines().find_map(|line| line.strip_prefix("Scratch directory: "));
    let path = PathBuf::from(line.expect("the prompt names a scratch directory"));
    assert_eq!(mode(&path), 0o700);
    path
}

/// A session whose configuration is this.
fn configured<'d>(desk: &'d Desk, text: &str) -> Session<'d> {
    let file = desk.home().join(".config/leaf/config.toml");
    fs::create_dir_all(file.parent().expect("a directory")).expect("the configuration's directory");
    fs::write(file, text).expect("the configuration");
    forking(desk, "s")
}

#[test]
fn r114_a_fork_edits_nothing_in_the_project() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let file = desk.project().join("src/main.rs");
    for tool in TOOLS {
        let reason = fork.pre(tool, input(tool, &file.to_string_lossy())).denied();
        let file = file.to_string_lossy().into_owned();
        for said in ["R114", tool, &file, &scratch(&fork).to_string_lossy(), "--todo", "HAND BACK:"] {
            assert!(reason.contains(said), "{said}: {reason}");
        }
    }
    let (also, project) = (desk.path("tmp/elsewhere.txt"), desk.project());
    for tool in TOOLS {
        let ran = fork.pre(tool, input(tool, &also.to_string_lossy()));
        assert!(matches!(verdict(&ran), Verdict::Passed), "{tool} elsewhere");
    }
    denied(&fork, project);
    // Beside it, and not under it.
    passes(&fork, desk.path("project-two/x"));
    passes(&fork, desk.path("projec"));
    passes(&fork, "/dev/null");
    // What names no file is the client's to refuse.
    assert!(matches!(verdict(&fork.pre("Edit", json!({"old_string": "a"}))), Verdict::Passed));
}

#[test]
fn r114_main_and_workers_edit_as_they_like() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, _fork) = follower.fork("look it up");
    let file = desk.project().join("x").to_string_lossy().into_owned();
    for tool in TOOLS {
        main.pre_tool(tool, input(tool, &file)).silent();
        for agent in [Fork::worker(&main), Fork::stranger(&main)] {
            agent.meta();
            assert!(matches!(verdict(&agent.pre(tool, input(tool, &file))), Verdict::Passed), "{tool}");
        }
    }
    assert_eq!(desk.errors(), Vec::<String>::new());
}

#[test]
fn r114_mains_edit_opens_no_state() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    // Whoever opens the state directory takes away what others may see of it.
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(desk.state_dir(), open).expect("its mode");
    let file = desk.project().join("x").to_string_lossy().into_owned();
    for tool in TOOLS {
        main.pre_tool(tool, input(tool, &file)).silent();
    }
    assert_eq!(mode(&desk.state_dir()), 0o755, "main's calls don't");
    passes(&Fork::worker(&main), &file);
    assert_eq!(mode(&desk.state_dir()), 0o700, "an agent's does");
}

#[test]
fn r114_paths_are_resolved() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let (project, tmp) = (desk.project(), desk.path("tmp"));
    fs::create_dir_all(project.join("src/deep")).expect("a directory");
    fs::create_dir_all(tmp.join("out")).expect("a directory");
    let link = |to: &Path, at: &str| symlink(to, tmp.join(at)).expect("a link");
    link(&project, "whole");
    link(&project.join("src"), "src");
    link(&project.join("not-yet"), "dangling");
    link(&tmp.join("src"), "chain");
    link(Path::new("../project/src"), "relative");
    link(&project.join("src/deep"), "deep");
    link(&tmp.join("circle"), "circle");
    symlink(tmp.join("out"), project.join("out")).expect("a link");
    let shown = |path: PathBuf| path.to_string_lossy().into_owned();
    for path in [
        shown(tmp.join("whole/x")),
        shown(tmp.join("src/x")),
        shown(tmp.join("dangling")),
        shown(tmp.join("dangling/further/x")),
        shown(tmp.join("chain/x")),
        shown(tmp.join("relative/x")),
        shown(tmp.join("deep/../x")),
        shown(tmp.join("out/../src/x")),
        shown(tmp.join("out/../../project/x")),
        shown(tmp.join("no/such/dir/../../../whole/x")),
        format!("{}//./src/./x/", shown(project.clone())),
        format!("{}/../project/x", shown(project.clone())),
        format!("/{}", shown(project.join("x"))),
        format!("/proc/self/root{}", shown(project.join("x"))),
        // Both readings of `..` behind a link: this one is the client's.
        shown(project.join("out/../x")),
        shown(project.join("a/new/tree/x.txt")),
        shown(project.join("name with\nlines")),
        "src/x".into(),
        "./x".into(),
        "../project/x".into(),
        "/proc/self/cwd/x".into(),
        "~/../project/x".into(),
    ] {
        let reason = denied(&fork, &path);
        assert!(reason.contains("R114"), "{path}: {reason}");
    }
    for path in [
        // It resolves out of the project.
        shown(project.join("out/x")),
        shown(project.join("out/new/x")),
        shown(tmp.join("out/x")),
        shown(project.join("../tmp/x")),
        "../tmp/x".into(),
        "~/notes.md".into(),
        shown(tmp.join("circle/x")),
    ] {
        passes(&fork, &path);
    }
    // Said as it leads, where that differs.
    assert!(denied(&fork, tmp.join("chain/x")).contains(&*project.join("src/x").to_string_lossy()));
}

#[test]
fn r114_a_project_named_by_a_link_is_the_directory_behind_it() {
    let desk = Desk::new();
    symlink(desk.project(), desk.path("by-link")).expect("a link");
    let session = desk.session("s");
    session.set_env("LEAF_FORK_WORK", "on");
    session.set_cwd(desk.path("by-link"));
    let main = session.working();
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    for path in [desk.project().join("x"), desk.path("by-link/x"), PathBuf::from("x")] {
        denied(&fork, path);
    }
    passes(&fork, desk.path("tmp/x"));
}

#[test]
fn r114_the_project_is_where_the_session_began_wherever_it_works_now() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fs::create_dir_all(desk.path("tmp/clone")).expect("a directory");
    main.set_cwd(desk.path("tmp/clone"));
    passes(&fork, "x");
    denied(&fork, "../../project/x");
    denied(&fork, desk.project().join("x"));
    // A worktree below the project is under it.
    denied(&fork, desk.project().join(".claude/worktrees/a/x"));
    // Begun anew below the project the client still names the whole.
    main.set_env("CLAUDE_PROJECT_DIR", &desk.path("wider").to_string_lossy());
    denied(&fork, desk.path("wider/x"));
    denied(&fork, desk.project().join("x"));
}

#[test]
fn r114_the_turns_own_scratch_directory_passes_wherever_it_lies() {
    let desk = Desk::new();
    let session = desk.session("s");
    session.set_env("LEAF_FORK_WORK", "on");
    let inside = desk.project().join("tmp");
    fs::create_dir(&inside).expect("a directory");
    session.set_env("TMPDIR", &inside.to_string_lossy());
    let main = session.working();
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    let (_, other) = follower.fork("and this");
    let own = scratch(&fork);
    assert!(own.starts_with(&inside), "{own:?}");
    passes(&fork, own.join("a/b.txt"));
    denied(&fork, own.join("../x"));
    denied(&fork, scratch(&other).join("x"));
    // A helper has its fork's.
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    passes(&helper, own.join("x"));
    denied(&helper, scratch(&other).join("x"));
    // What a link in it leads to is not its own, nor what was put in its place.
    symlink(desk.project(), own.join("link")).expect("a link");
    denied(&fork, own.join("link/x"));
    fs::remove_dir_all(&own).expect("it goes");
    symlink(desk.project(), &own).expect("a link");
    denied(&fork, own.join("x"));
    denied(&fork, desk.project().join("x"));
}

#[test]
fn r114_a_fork_without_an_open_turn_is_guarded_too() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    fork.reply(&fork.reference(), "found");
    follower.ended(&fork.turn, "done");
    let reason = denied(&fork, desk.project().join("x"));
    assert!(reason.contains("turn is over") && !reason.contains("--todo"), "{reason}");
    passes(&fork, desk.path("tmp/x"));
}

#[test]
fn r114_an_edit_may_be_the_call_that_names_a_fork() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, action) = follower.take("look it up");
    let fork = Fork::spawned(&main, &action);
    // Not nameable yet (R39): outside the project it is nobody's matter, inside it may be asked again.
    passes(&fork, desk.path("tmp/x"));
    let reason = denied(&fork, desk.project().join("x"));
    assert!(reason.contains("R39") && reason.contains("again"), "{reason}");
    // A worker's is never asked.
    passes(&Fork::worker(&main), desk.project().join("x"));
    fork.meta();
    let reason = denied(&fork, desk.project().join("x"));
    assert!(reason.contains("R114"), "{reason}");
    assert_eq!(why_of(&desk, &thread, "named").len(), 1);
}

#[test]
fn r114_a_denial_is_an_entry_of_the_turns_thread() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let (other, _) = follower.fork("and this");
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    denied(&fork, desk.project().join("x"));
    denied(&helper, desk.project().join("y"));
    passes(&fork, desk.path("tmp/x"));
    let refused = why_of(&desk, &thread, "refused");
    assert_eq!(refused.len(), 2, "{refused:?}");
    for (entry, agent, file) in [(&refused[0], &fork.agent, "/x"), (&refused[1], &helper.agent, "/y")] {
        assert_eq!((&entry["rule"], &entry["turn"], &entry["by"]), (&json!("R114"), &json!(fork.turn), &json!("fork")));
        assert_eq!(entry["agent"], json!(agent));
        assert!(text(&entry["why"]).contains(file), "{entry}");
    }
    assert_eq!(why_of(&desk, &other, "refused"), Vec::<Value>::new());
    let story = desk.person(&["why", &thread]).ok().out();
    assert!(story.contains("R114"), "{story}");
}

#[test]
fn r114_the_persons_configuration_lifts_it() {
    let desk = Desk::new();
    let main = configured(&desk, "[forks]\nguard = \"off\"\n");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    passes(&fork, desk.project().join("x"));
    fork.passes("git commit -m x");
    // As the session began (R2), whatever the file says now.
    fs::write(desk.home().join(".config/leaf/config.toml"), "").expect("the configuration");
    passes(&fork, desk.project().join("x"));
    assert_eq!(desk.errors(), Vec::<String>::new());
}

#[test]
fn r114_another_word_costs_its_key_and_an_untrusted_project_lifts_nothing() {
    let desk = Desk::new();
    fs::create_dir(desk.project().join(".leaf")).expect("a directory");
    fs::write(desk.project().join(".leaf/config.toml"), "[forks]\nguard = \"off\"\n").expect("a configuration");
    let main = configured(&desk, "[forks]\nguard = false\n");
    let follower = Follower::start(&main);
    let (_, fork) = follower.fork("look it up");
    denied(&fork, desk.project().join("x"));
    let warned = desk.errors().join("\n");
    assert!(warned.contains("forks.guard is") && warned.contains("trusted"), "{warned}");
}

#[test]
fn r114_a_headless_run_is_a_fork_whatever_agent_of_it_acts() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let headless = desk.session("copy");
    headless.set_env("LEAF_TURN", &fork.turn);
    headless.set_env("LEAF_SESSION", main.id());
    let inside = input("Write", &desk.project().join("x").to_string_lossy());
    headless.pre_tool("Write", inside.clone()).denied();
    Fork::worker(&headless).pre("Write", inside).denied();
    headless.pre_tool("Write", input("Write", &scratch(&fork).join("x").to_string_lossy())).silent();
    assert_eq!(why_of(&desk, &thread, "refused").len(), 2);
}

#[test]
fn r114_a_state_that_cannot_be_read_breaks_nobodys_edit() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    fs::remove_dir_all(desk.state_dir()).expect("the state directory goes");
    fs::write(desk.state_dir(), "no directory").expect("a file in its place");
    passes(&Fork::worker(&main), desk.project().join("x"));
}

#[test]
fn r116_a_helper_of_a_fork_and_its_own_helper_are_guarded_as_the_fork_is() {
    let desk = Desk::new();
    let main = forking(&desk, "s");
    let follower = Follower::start(&main);
    let (thread, fork) = follower.fork("look it up");
    let helper = Fork::worker(&main);
    helper.meta_below(&fork);
    let reason = denied(&helper, desk.project().join("x"));
    assert!(reason.contains("R114"), "an edit is its first call: {reason}");
    let below = Fork::worker(&main);
    below.meta_below(&helper);
    denied(&below, desk.project().join("x"));
    below.pre("Agent", json!({"description": "x", "prompt": "x", "subagent_type": "fork"})).denied();
    // Each is marked with its own id, and acts in the fork's turn.
    for agent in [&helper, &below] {
        let marked = agent.marked(&format!("leaf thread line {thread} looking"));
        assert_eq!(marked, format!("leaf --agent-id {} thread line {thread} looking", agent.agent));
        agent.shell(&marked).ok();
    }
    let lines: Vec<Value> = desk.events("line").into_iter().filter(|line| line["author"] == "agent").collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["turn"] == json!(fork.turn)), "{lines:?}");
    // A helper of a worker is a worker.
    let worker = Fork::worker(&main);
    worker.meta();
    let its = Fork::worker(&main);
    its.meta_below(&worker);
    passes(&its, desk.project().join("x"));
}
