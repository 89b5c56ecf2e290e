//! `leaf install` and `leaf uninstall` through the built binary, against a scripted `claude`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const LEAF: &str = env!("CARGO_BIN_EXE_leaf");
const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");
const RULE: &str = "Bash(leaf:*)";

/// A home of its own, with a scripted client on PATH.
pub struct Home(TempDir);

/// How a command came out.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Home {
    pub fn new() -> Home {
        let home = Home::without_client();
        fs::create_dir(home.path("tools")).expect("a directory");
        let client = home.path("tools/claude");
        fs::copy(Path::new(REPOSITORY).join("tests/scenario/claude.sh"), &client).expect("the scripted client");
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).expect("a mode");
        home
    }

    fn without_client() -> Home {
        let home = Home(tempfile::Builder::new().prefix("leaf-home-").tempdir().expect("a directory"));
        fs::create_dir(home.path("project")).expect("a directory");
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().expect("the home is there").join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(&path, text).expect("a file");
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path("project"))
            .env_clear()
            .env("HOME", self.path(""))
            .env("PATH", format!("{}:/usr/bin:/bin", self.path("tools").display()))
            .stdin(Stdio::null());
        command
    }

    pub fn leaf(&self, args: &[&str]) -> Said {
        self.command(LEAF).args(args).output().expect("leaf starts").into()
    }

    /// The same, held to succeed.
    pub fn done(&self, args: &[&str]) -> String {
        let said = self.leaf(args);
        assert_eq!(said.code, 0, "leaf {args:?}: {said:?}");
        said.stdout
    }

    /// What was asked of the client but for looks, since the last time.
    fn orders(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        fs::write(self.path("calls"), "").expect("a file");
        calls.lines().filter(|c| !c.ends_with("list --json") && *c != "--version").map(str::to_owned).collect()
    }

    fn folder(&self) -> PathBuf {
        self.path(".local/share/leaf/claude-code")
    }

    /// Every file below the home with its bytes, but for the client's own log.
    pub fn tree(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        let mut open = vec![self.path("")];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).expect("a directory").flatten() {
                let path = entry.path();
                let name = path.strip_prefix(self.path("")).expect("below").display().to_string();
                match entry.file_type().expect("a type") {
                    kind if kind.is_dir() => open.push(path),
                    _ if name == "calls" => {}
                    kind if kind.is_file() => found.push((name, fs::read(&path).expect("bytes"))),
                    _ => found.push((name, Vec::new())),
                }
            }
        }
        found.sort();
        found
    }
}

#[test]
fn a_dry_run_shows_the_steps_and_touches_nothing() {
    let home = Home::new();
    let before = home.tree();
    let shown = home.done(&["install", "--dry-run"]);
    assert!(shown.contains("claude plugin marketplace add"), "{shown}");
    assert!(shown.contains("claude plugin install leaf@leaf"), "{shown}");
    assert!(shown.contains("Nothing was done"), "{shown}");
    assert_eq!(home.orders(), [] as [String; 0]);
    assert_eq!(home.tree(), before);

    home.done(&["install", "--allow"]);
    home.orders();
    let before = home.tree();
    let shown = home.done(&["uninstall", "--dry-run"]);
    assert!(shown.contains("claude plugin uninstall leaf@leaf") && shown.contains(RULE), "{shown}");
    assert_eq!(home.orders(), [] as [String; 0]);
    assert_eq!(home.tree(), before);
}

#[test]
fn the_folder_holds_what_the_binary_embeds_and_the_binary_itself() {
    let home = Home::new();
    home.done(&["install"]);
    let folder = home.folder();
    assert_eq!(
        home.orders(),
        [format!("plugin marketplace add {}", folder.display()), "plugin install leaf@leaf".to_owned()]
    );
    for name in [
        ".claude-plugin/plugin.json",
        ".claude-plugin/marketplace.json",
        "hooks.json",
        "skills/threads/SKILL.md",
        "LICENSE",
    ] {
        let ours = fs::read(Path::new(REPOSITORY).join(name)).expect(name);
        assert_eq!(fs::read(folder.join(name)).expect(name), ours, "{name}");
    }
    let binary = folder.join("bin/leaf");
    assert!(fs::read(&binary).expect("the binary") == fs::read(LEAF).expect("the binary"));
    assert!(!binary.is_symlink());
    assert_eq!(binary.metadata().expect("metadata").mode() & 0o777, 0o755);
    let version: Said =
        home.command(binary.to_str().expect("UTF-8")).arg("--version").output().expect("it starts").into();
    let manifest: Value =
        serde_json::from_slice(&fs::read(folder.join(".claude-plugin/plugin.json")).expect("read")).expect("JSON");
    assert_eq!(version.stdout.trim(), format!("leaf {}", manifest["version"].as_str().expect("a version")));
}

#[test]
fn every_registered_hook_runs_the_plugins_own_binary_in_exec_form() {
    let hooks: Value =
        serde_json::from_slice(&fs::read(Path::new(REPOSITORY).join("hooks.json")).expect("read")).expect("JSON");
    for (event, groups) in hooks["hooks"].as_object().expect("events") {
        for hook in groups.as_array().expect("groups").iter().flat_map(|g| g["hooks"].as_array().expect("hooks")) {
            assert_eq!(hook["command"], "${CLAUDE_PLUGIN_ROOT}/bin/leaf", "{event}");
            let timeout = match hook["args"][0].as_str().expect("args") {
                "watch" => {
                    assert_eq!(hook["asyncRewake"], true, "{event}");
                    2_147_483
                }
                "hook" if event == "PreToolUse" => 5,
                "hook" if event == "SessionEnd" => 3,
                "hook" => 20,
                other => panic!("{event}: {other}"),
            };
            assert_eq!(hook["timeout"], timeout, "{event}");
            assert_eq!(hook.get("if"), None, "R65: {event} is read in full");
        }
    }
}

#[test]
fn a_second_install_has_nothing_to_do() {
    let home = Home::new();
    home.done(&["install", "--allow"]);
    home.orders();
    let inode = home.folder().join("bin/leaf").metadata().expect("metadata").ino();
    let before = home.tree();
    let shown = home.done(&["install", "--allow"]);
    assert!(shown.starts_with("Nothing to do"), "{shown}");
    assert_eq!(home.orders(), [] as [String; 0]);
    assert_eq!(home.tree(), before);
    assert_eq!(home.folder().join("bin/leaf").metadata().expect("metadata").ino(), inode);
}

#[test]
fn an_older_plugin_is_brought_up_to_date() {
    let home = Home::new();
    home.done(&["install"]);
    home.orders();
    let at = ".local/share/leaf/claude-code";
    let manifest = home.read(&format!("{at}/.claude-plugin/plugin.json"));
    let version: Value = serde_json::from_str(&manifest).expect("JSON");
    let version = version["version"].as_str().expect("a version");
    home.write(&format!("{at}/.claude-plugin/plugin.json"), &manifest.replace(version, "0.0.1"));
    home.write(".claude/plugins/version", "0.0.1");
    home.write(&format!("{at}/bin/leaf"), "an old one");
    home.write(&format!("{at}/skills/old/SKILL.md"), "of an earlier version");
    let record = home.read(".local/share/leaf/claude-code.json");
    home.write(
        ".local/share/leaf/claude-code.json",
        &record.replace("\"LICENSE\"", "\"LICENSE\", \"skills/old/SKILL.md\", \"../../../../kept\""),
    );
    home.write("kept", "not leaf's");

    let shown = home.done(&["install"]);
    assert!(shown.contains("skills/old/SKILL.md"), "{shown}");
    assert_eq!(home.orders(), ["plugin update leaf@leaf"]);
    assert_eq!(home.read(&format!("{at}/.claude-plugin/plugin.json")), manifest);
    assert!(fs::read(home.folder().join("bin/leaf")).expect("read") == fs::read(LEAF).expect("read"));
    assert!(!home.folder().join("skills/old/SKILL.md").exists());
    assert!(home.path("kept").exists(), "a record never leads out of the folder");
    assert!(home.done(&["install"]).starts_with("Nothing to do"));
}

#[test]
fn a_disabled_plugin_is_installed_again() {
    let home = Home::new();
    home.done(&["install"]);
    home.orders();
    home.write(".claude/plugins/enabled", "false");
    home.done(&["install"]);
    assert_eq!(home.orders(), ["plugin install leaf@leaf"]);
}

const SETTINGS: &str = "{\n\t\"zeta\": 1.50,\n\t\"permissions\": {\n\t\t\"deny\": [],\n\t\t\"allow\": [\n\t\t\t\"Bash(ls:*)\"\n\t\t]\n\t},\n\t\"unknown\": {\"b\": 1e3, \"a\": null}\n}";

#[test]
fn the_permission_rule_is_all_that_changes_and_uninstall_gives_the_same_bytes() {
    let home = Home::new();
    let file = home.write(".claude/settings.json", SETTINGS);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
    home.done(&["install", "--allow"]);
    let expected = SETTINGS.replace("\"Bash(ls:*)\"", "\"Bash(ls:*)\",\n\t\t\t\"Bash(leaf:*)\"");
    assert_eq!(home.read(".claude/settings.json"), expected);
    assert_eq!(file.metadata().expect("metadata").mode() & 0o777, 0o640);
    home.done(&["uninstall"]);
    assert_eq!(home.read(".claude/settings.json"), SETTINGS);
}

#[test]
fn a_rule_that_was_there_before_stays() {
    let home = Home::new();
    let settings = SETTINGS.replace("ls:*", "leaf:*");
    home.write(".claude/settings.json", &settings);
    home.done(&["install", "--allow"]);
    assert_eq!(home.read(".claude/settings.json"), settings);
    home.done(&["uninstall"]);
    assert_eq!(home.read(".claude/settings.json"), settings);
}

#[test]
fn without_a_terminal_nobody_is_asked_and_the_rule_is_left_out() {
    let home = Home::new();
    home.write(".claude/settings.json", SETTINGS);
    let answers = home.write("answers", "y\ny\n");
    for args in [&["install"][..], &["install", "--no-allow"], &["install", "--json"]] {
        let mut command = home.command(LEAF);
        let said: Said =
            command.args(args).stdin(fs::File::open(&answers).expect("a file")).output().expect("leaf starts").into();
        assert_eq!(said.code, 0, "{said:?}");
        assert!(!said.stdout.contains("[y/N]"), "{said:?}");
        assert!(said.stdout.contains("leaf install --allow"), "it says how: {said:?}");
        assert_eq!(home.read(".claude/settings.json"), SETTINGS);
    }
}

#[test]
fn at_a_terminal_the_rule_is_offered() {
    for (answer, allowed) in [("n", false), ("", false), ("y", true)] {
        let home = Home::new();
        home.write(".claude/settings.json", SETTINGS);
        let answers = home.write("answer", &format!("{answer}\n"));
        // `script` gives it a terminal.
        let mut command = home.command("script");
        let said: Said = command
            .args(["--quiet", "--return", "--command", &format!("'{LEAF}' install"), "/dev/null"])
            .stdin(fs::File::open(&answers).expect("a file"))
            .output()
            .expect("script starts")
            .into();
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.stdout.contains("[y/N]"), "{said:?}");
        assert_eq!(home.read(".claude/settings.json").contains(RULE), allowed, "{answer:?}: {said:?}");
    }
}

#[test]
fn a_symlinked_settings_file_stays_a_symlink() {
    let home = Home::new();
    home.write("dotfiles/settings.json", SETTINGS);
    fs::create_dir_all(home.path(".claude")).expect("a directory");
    symlink("../dotfiles/settings.json", home.path(".claude/settings.json")).expect("a link");
    home.done(&["install", "--allow"]);
    assert!(home.path(".claude/settings.json").is_symlink());
    assert!(home.read("dotfiles/settings.json").contains(RULE));
    home.done(&["uninstall"]);
    assert!(home.path(".claude/settings.json").is_symlink());
    assert_eq!(home.read("dotfiles/settings.json"), SETTINGS);
}

/// Exit 1, one sentence on stderr that has `words`, nothing on stdout and nothing touched.
fn refused(home: &Home, args: &[&str], words: &[&str]) {
    let before = home.tree();
    let said = home.leaf(args);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(said.stderr.lines().count(), 1, "{said:?}");
    for word in words {
        assert!(said.stderr.contains(word), "{word} in {said:?}");
    }
    assert_eq!(home.orders(), [] as [String; 0], "{said:?}");
    assert_eq!(home.tree(), before, "{said:?}");
}

#[test]
fn settings_that_cant_be_edited_are_refused_before_anything_is_done() {
    for (text, why) in [
        ("{\"permissions\": ", "not valid JSON"),
        ("{\"a\": 1, // no comments\n}", "not valid JSON"),
        ("[]", "JSON object"),
        ("{\"permissions\": {\"allow\": \"Bash\"}}", "permissions.allow"),
    ] {
        let home = Home::new();
        home.write(".claude/settings.json", text);
        refused(&home, &["install", "--allow"], &[why, "settings.json", "run this again"]);
        refused(&home, &["install", "--no-allow"], &[why]);
        assert_eq!(home.read(".claude/settings.json"), text);
    }
}

#[test]
fn another_marketplace_of_the_name_is_refused() {
    let home = Home::new();
    home.write(".claude/plugins/marketplace", "/somewhere/else");
    refused(&home, &["install"], &["/somewhere/else", "claude plugin marketplace remove leaf"]);
    let shown = home.done(&["uninstall"]);
    assert!(shown.contains("left alone"), "{shown}");
    assert_eq!(home.orders(), [] as [String; 0]);
}

#[test]
fn without_the_client_both_say_how_to_get_it() {
    let home = Home::without_client();
    for verb in ["install", "uninstall"] {
        refused(&home, &[verb], &["no `claude` on PATH", "npm install"]);
    }
}

#[test]
fn without_a_home_it_says_what_to_set() {
    let home = Home::new();
    for verb in ["install", "uninstall"] {
        let said: Said = home.command(LEAF).arg(verb).env_remove("HOME").output().expect("leaf starts").into();
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.stderr.contains("set HOME"), "{said:?}");
    }
}

#[test]
fn a_step_that_fails_says_what_the_client_said_and_the_next_run_goes_on() {
    let home = Home::new();
    home.write("refuse", "plugin install");
    let said = home.leaf(&["install", "--allow"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains("the disk is on fire") && said.stderr.contains("run this again"), "{said:?}");
    assert!(!home.path(".claude/settings.json").exists(), "no step after it was done");
    fs::remove_file(home.path("refuse")).expect("removed");
    home.orders();
    home.done(&["install", "--allow"]);
    assert_eq!(home.orders(), ["plugin install leaf@leaf"]);
    assert!(home.read(".claude/settings.json").contains(RULE));
}

#[test]
fn a_data_directory_that_cant_be_used_is_named() {
    let home = Home::new();
    home.write(".local/share/leaf", "a file where a directory should be");
    let said = home.leaf(&["install"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stderr.contains(".local/share/leaf"), "{said:?}");
    assert_eq!(home.orders(), [] as [String; 0]);
}

#[test]
fn uninstall_takes_out_what_install_put_in_and_leaves_the_state() {
    let home = Home::new();
    home.write(".claude/settings.json", SETTINGS);
    home.write(".local/state/leaf/errors.log", "");
    let before = home.tree();
    home.done(&["install", "--allow"]);
    home.orders();
    let shown = home.done(&["uninstall"]);
    assert!(shown.contains(".local/state/leaf"), "it says where the threads stay: {shown}");
    assert_eq!(home.orders(), ["plugin uninstall leaf@leaf", "plugin marketplace remove leaf"]);
    let left: Vec<_> = home.tree().into_iter().filter(|(name, _)| !name.starts_with(".claude/plugins/")).collect();
    assert_eq!(left, before);
    assert!(!home.path(".local/share/leaf").exists());
    assert!(home.done(&["uninstall"]).starts_with("Nothing to do"));
    assert_eq!(home.orders(), [] as [String; 0]);
}

#[test]
fn the_configured_directories_are_honoured() {
    let home = Home::new();
    let config = home.path("config");
    let mut command = home.command(LEAF);
    command.env("CLAUDE_CONFIG_DIR", &config).env("XDG_DATA_HOME", home.path("data"));
    let said: Said = command.args(["install", "--allow"]).output().expect("leaf starts").into();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(home.path("data/leaf/claude-code/bin/leaf").exists());
    assert!(home.read("config/settings.json").contains(RULE));
    // The base directory specification has relative values ignored.
    let mut command = home.command(LEAF);
    let said: Said = command.env("XDG_DATA_HOME", "data").arg("install").output().expect("leaf starts").into();
    assert!(!home.path("project/data").exists(), "{said:?}");
}

#[test]
fn json_is_one_value() {
    let home = Home::new();
    for args in [
        &["install", "--json", "--dry-run"][..],
        &["install", "--json", "--allow"],
        &["install", "--json"],
        &["uninstall", "--json"],
    ] {
        let value: Value = serde_json::from_str(&home.done(args)).expect("one JSON value");
        assert_eq!(value["folder"], home.folder().to_str().expect("UTF-8"));
        assert_eq!(value["dry_run"], args.contains(&"--dry-run"));
        assert_eq!(value["allowed"], args == ["install", "--json", "--allow"] || args == ["install", "--json"]);
        let steps = value["steps"].as_array().expect("steps").len();
        assert_eq!(steps == 0, args == ["install", "--json"], "{value}");
    }
}

#[test]
fn a_closed_stdout_leaves_nothing_half_done() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let said: Said =
        home.command(LEAF).args(["install", "--allow"]).stdout(writer).output().expect("leaf starts").into();
    assert_eq!(said.code, 0, "{said:?}");
    assert!(home.done(&["install", "--allow"]).starts_with("Nothing to do"));
}

#[test]
fn what_excludes_each_other_is_a_usage_error() {
    let said = Home::new().leaf(&["install", "--allow", "--no-allow"]);
    assert_eq!(said.code, 2, "{said:?}");
}
