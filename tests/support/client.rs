//! The real Claude Code in a home of its own, talking to the scripted model: print runs and terminals.
//!
//! `.ci/run client` installs it. Nothing of the caller's environment but `PATH` reaches it, and whatever
//! was started is gone when a [`Client`] is dropped: tests may run below an agent and must not meet it.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::model::{Model, Reply, Request};

/// The longest that anything in these tests may take; a healthy run needs a few seconds.
pub const LIMIT: Duration = Duration::from_secs(60);

const VERSION: &str = include_str!("../../.ci/claude-code-version");
/// The built binary.
pub const LEAF: &str = env!("CARGO_BIN_EXE_leaf");
const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// A home, a project, the plugin, and the model that the client talks to.
pub struct Client {
    dir: TempDir,
    /// The model behind it.
    pub model: Model,
    program: PathBuf,
    besides: Vec<(&'static str, String)>,
    settled: bool,
}

/// A run of the plugin's `leaf` that may be killed.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Its arguments begin so; a shell's pattern.
    Command(&'a str),
    /// The hook of this event, whoever caused it.
    Hook(&'a str),
    /// The hook of this event that main caused.
    MainsHook(&'a str),
    /// The hook of this event that an agent caused.
    AgentsHook(&'a str),
}

/// Where on its way a step is killed with -9.
#[derive(Clone, Copy, Debug)]
pub enum Killed {
    /// Before it did anything.
    Before,
    /// That long after its start; it may be through by then, and what it said is lost all the same.
    After(Duration),
    /// At its n-th write, the first being 1: what it wrote before stands, this doesn't. Counts what goes to stdout, too.
    AtWrite(u32),
    /// As soon as it was through: all that it did stands, and what it said is lost.
    Unheard,
}

/// What [`Client::sabotage`] set up.
pub struct Sabotage {
    dir: PathBuf,
}

impl Sabotage {
    /// How many steps were killed.
    pub fn killed(&self) -> usize {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("dead.")).count()
    }

    /// Waits until that many were. A twin that kills nothing shows nothing.
    pub fn wait(&self, steps: usize) {
        let dead = until(&format!("{steps} steps were killed"), LIMIT, || (self.killed() >= steps).then_some(()));
        dead.unwrap_or_else(|late| panic!("{late}: {}", self.killed()));
    }

    /// Kills no more.
    pub fn end(&self) {
        // It may have ended before.
        drop(fs::remove_file(self.dir.join("argv")));
    }
}

/// The plugin's `bin/leaf` of a sabotaged client. A rule is a directory: `argv` (a pattern), `payload` (each line a sign that has
/// to be in it, or with `!` may not), `times` (0: always), `how`.
const SABOTEUR: &str = r#"#!/bin/sh
leaf='@LEAF@' rules='@RULES@' input=
for rule in "$rules"/[0-9]*; do
  read -r argv 2>/dev/null <"$rule/argv" || continue
  case "$*" in $argv*) ;; *) continue ;; esac
  if [ -e "$rule/payload" ]; then
    if [ -z "$input" ]; then input=$(mktemp "$rules/input.XXXXXX"); cat >"$input"; exec <"$input"; fi
    while read -r sign; do
      case $sign in
        !*) ! grep -qF -e "${sign#!}" "$input" ;;
        *) grep -qF -e "$sign" "$input" ;;
      esac || continue 2
    done <"$rule/payload"
  fi
  read -r times <"$rule/times"; read -r how than <"$rule/how"
  n=1
  while ! mkdir "$rule/turn.$n" 2>/dev/null; do n=$((n + 1)); done
  [ "$times" = 0 ] || [ "$n" -le "$times" ] || continue
  exec 3<&0
  case $how in
    before) ;;
    unheard) "$leaf" "$@" <&3 >/dev/null 2>&1 ;;
    after) "$leaf" "$@" <&3 >/dev/null 2>&1 & sleep "$than"; kill -9 $! 2>/dev/null ;;
    at) strace -f -qq -o /dev/null -e trace=write,writev,pwrite64 -e inject=write,writev,pwrite64:signal=KILL:when="$than" "$leaf" "$@" <&3 >/dev/null 2>&1 ;;
  esac
  echo "$*" >"$rule/dead.$n"
  kill -9 $$
done
exec "$leaf" "$@"
"#;

/// How a command came out.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code; -1 for a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Client {
    /// A client past its onboarding, with a trusted project, whose model says what `script` says.
    ///
    /// Panics where the client is not installed: a story that could not be seen is not passed.
    pub fn new(script: impl FnMut(&Request) -> Reply + Send + 'static) -> Self {
        let program = program();
        assert!(program.exists(), "the real client is not at {}: run `bash .ci/run client` first", program.display());
        let dir = tempfile::Builder::new().prefix("leaf-real-").tempdir().expect("a directory");
        let client = Self { dir, model: Model::start(script), program, besides: Vec::new(), settled: false };
        for name in ["home", "project/sub", "plugin/bin", "tmp"] {
            fs::create_dir_all(client.path(name)).expect("a directory");
        }
        let home = json!({
            "hasCompletedOnboarding": true, "theme": "dark",
            "customApiKeyResponses": {"approved": ["scripted"], "rejected": []},
            "projects": {client.path("project").to_str().expect("UTF-8"):
                {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}},
        });
        fs::write(client.path("home/.claude.json"), home.to_string()).expect("a home");
        let plugin = client.path("plugin");
        for part in ["hooks.json", ".claude-plugin", "skills", "src/client/claude_code/module.ts"] {
            copy(&Path::new(REPOSITORY).join(part), &plugin.join(part));
        }
        symlink(LEAF, plugin.join("bin/leaf")).expect("a link to the binary");
        client
    }

    /// The same, with one more variable in the environment of whatever is started from now on.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.besides.push((name, value.into()));
        self
    }

    /// From now on kills this step of the plugin's `leaf`, and of what the agents run, the first `times` that it comes; 0: always.
    ///
    /// A person's commands ([`Self::person`], [`Self::json`]) are left alone.
    pub fn sabotage(&self, step: Step<'_>, killed: Killed, times: usize) -> Sabotage {
        let rules = self.path("sabotage");
        let number = fs::read_dir(&rules).into_iter().flatten().count();
        let dir = rules.join(format!("{number:03}"));
        fs::create_dir_all(&dir).expect("a directory");
        let put = |name: &str, text: String| fs::write(dir.join(name), text).expect("a file");
        let event = |name: &str| format!("\"hook_event_name\":\"{name}\"\n");
        let payload = match step {
            Step::Command(_) => None,
            Step::Hook(name) => Some(event(name)),
            Step::MainsHook(name) => Some(event(name) + "!\"agent_id\":\n"),
            Step::AgentsHook(name) => Some(event(name) + "\"agent_id\":\n"),
        };
        if let Some(payload) = payload {
            put("payload", payload);
        }
        put("times", format!("{times}\n"));
        put(
            "how",
            match killed {
                Killed::Before => "before\n".to_owned(),
                Killed::Unheard => "unheard\n".to_owned(),
                Killed::After(time) => format!("after {}\n", time.as_secs_f64()),
                Killed::AtWrite(n) => format!("at {n}\n"),
            },
        );
        let saboteur = SABOTEUR.replace("@LEAF@", LEAF).replace("@RULES@", rules.to_str().expect("UTF-8"));
        let (made, link) = (self.path("sabotage/saboteur"), self.path("plugin/bin/leaf"));
        if !made.exists() {
            fs::write(&made, saboteur).expect("a file");
            fs::set_permissions(&made, fs::Permissions::from_mode(0o755)).expect("a program");
            // In one move: the client may run it right now.
            symlink(&made, self.path("sabotage/link")).expect("a link");
            fs::rename(self.path("sabotage/link"), link).expect("a link");
        }
        // The pattern last: it is what makes a rule.
        put(
            "argv",
            match step {
                Step::Command(argv) => format!("{argv}\n"),
                Step::Hook(_) | Step::MainsHook(_) | Step::AgentsHook(_) => "hook\n".to_owned(),
            },
        );
        Sabotage { dir }
    }

    /// The same, as a client too old for hooks modules: nothing is kept back, and the watch wakes.
    pub fn without_module(self) -> Self {
        let file = self.path("plugin/hooks.json");
        let mut hooks: Value = serde_json::from_slice(&fs::read(&file).expect("hooks")).expect("JSON");
        assert!(hooks.as_object_mut().expect("an object").remove("modules").is_some(), "there is one");
        fs::write(&file, hooks.to_string()).expect("a file");
        self
    }

    /// A path in the client's own directory: `home`, `project`, `plugin` and what lies in them.
    pub fn path(&self, name: &str) -> PathBuf {
        // The client keeps trust by the resolved path.
        let root = self.dir.path().canonicalize();
        root.expect("the directory is there").join(name)
    }

    /// A run without a terminal, with the plugin loaded.
    pub fn print(&self, prompt: &str, args: &[&str]) -> Run<'_> {
        let plugin = self.path("plugin");
        let plugin = plugin.to_str().expect("UTF-8");
        self.print_plain(prompt, &[&["--plugin-dir", plugin], args].concat())
    }

    /// A run without a terminal, with those plugins that are installed.
    pub fn print_plain(&self, prompt: &str, args: &[&str]) -> Run<'_> {
        let mut command = self.command(&self.program, "project");
        command.arg("-p").arg(prompt).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Run { child: Some(command.spawn().expect("the client starts")), client: self }
    }

    /// `leaf` as a person runs it: in the project, outside of any client.
    pub fn person(&self, args: &[&str]) -> Outcome {
        self.person_in("project", args)
    }

    /// The same, in another directory of ours.
    pub fn person_in(&self, dir: &str, args: &[&str]) -> Outcome {
        let mut command = self.command(LEAF, dir);
        let output = command.args(args).stdin(Stdio::null()).output();
        output.expect("leaf starts").into()
    }

    /// The JSON of a person's command that reads `input`. Panics with what it said where it fails.
    pub fn json_of(&self, args: &[&str], input: &str) -> Value {
        let mut command = self.command(LEAF, "project");
        command.args(args).arg("--json").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("leaf starts");
        // It may refuse before it reads; how it ended says so.
        drop(child.stdin.take().expect("piped").write_all(input.as_bytes()));
        let outcome: Outcome = child.wait_with_output().expect("its output").into();
        assert_eq!(outcome.code, 0, "leaf {args:?}: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("leaf {args:?}: {error}: {outcome:?}"))
    }

    /// The JSON that a person's command prints. Panics with what it said where it fails.
    pub fn json(&self, args: &[&str]) -> Value {
        let outcome = self.person(&[args, &["--json"]].concat());
        assert_eq!(outcome.code, 0, "leaf {args:?}: {}", outcome.stderr);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("leaf {args:?}: {error}: {outcome:?}"))
    }

    /// A command in this client's environment: an empty one but for `PATH` and what keeps it offline.
    pub fn command(&self, program: impl AsRef<OsStr>, dir: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path(dir)).env_clear().envs(self.environment());
        command
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
        let beside = |program: &Path| text(program.parent().expect("a directory").to_owned());
        let path = std::env::var("PATH").expect("PATH is set");
        let mut environment = vec![
            // The plugin's own `leaf` first, so that an agent's command can be sabotaged as well.
            (
                "PATH",
                format!(
                    "{}:{}:{}:{path}",
                    text(self.path("plugin/bin")),
                    beside(Path::new(LEAF)),
                    beside(&self.program)
                ),
            ),
            ("HOME", text(self.path("home"))),
            ("TMPDIR", text(self.path("tmp"))),
            ("CLAUDE_CODE_TMPDIR", text(self.path("tmp"))),
            ("LANG", "C.UTF-8".to_owned()),
            ("TERM", "xterm-256color".to_owned()),
            ("ANTHROPIC_BASE_URL", self.model.url()),
            ("ANTHROPIC_API_KEY", "scripted".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("DISABLE_TELEMETRY", "1".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ];
        environment.extend(self.besides.iter().cloned());
        environment
    }

    /// A terminal session with the plugin loaded, ready for its first prompt.
    pub fn open(&self, args: &[&str]) -> Terminal<'_> {
        self.open_on("tmux", args)
    }

    /// The same in another terminal than [`Self::open`]'s, by its name: two clients at once.
    pub fn open_on(&self, name: &str, args: &[&str]) -> Terminal<'_> {
        let socket = self.path(name);
        let mut command = self.command("tmux", "project");
        command
            .arg("-S")
            .arg(&socket)
            // The caller's own configuration has no part in this.
            .args(["-f", "/dev/null", "new-session", "-d", "-x", "170", "-y", "55", "--"])
            .arg(&self.program)
            .args(["--permission-mode", "default", "--plugin-dir"])
            .arg(self.path("plugin"))
            .args(args);
        let outcome: Outcome = command.output().expect("tmux starts").into();
        assert_eq!(outcome.code, 0, "tmux: {outcome:?}");
        let terminal = Terminal { client: self, socket };
        terminal.wait("the prompt", |screen| screen.contains('❯') && screen.contains("manual mode"));
        terminal
    }

    /// The live processes that this client or its commands left, as (pid, command line).
    pub fn processes(&self) -> Vec<(i32, String)> {
        let mark = format!("HOME={}", self.path("home").display());
        let entries = fs::read_dir("/proc").expect("/proc").flatten();
        entries
            .filter_map(|entry| {
                let pid = entry.file_name().to_str()?.parse().ok()?;
                let environment = fs::read(entry.path().join("environ")).ok()?;
                let ours = environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes());
                let line = fs::read(entry.path().join("cmdline")).ok()?;
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                // A zombie has no command line any more.
                (ours && !line.is_empty()).then_some((pid, line))
            })
            .collect()
    }

    /// The parked `leaf watch` processes.
    pub fn watches(&self) -> Vec<i32> {
        let all = self.processes().into_iter();
        all.filter(|(_, line)| line.contains("leaf watch")).map(|(pid, _)| pid).collect()
    }

    /// The running `leaf follow` processes.
    pub fn followers(&self) -> Vec<i32> {
        let all = self.processes().into_iter();
        all.filter(|(_, line)| line.contains("leaf follow")).map(|(pid, _)| pid).collect()
    }

    /// Kills a process with -9. It may have left before.
    pub fn kill(&self, pid: i32) {
        if let Some(pid) = Pid::from_raw(pid) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// The client's own process.
    pub fn pid(&self) -> i32 {
        let all = self.processes().into_iter();
        let mut own = all.filter(|(_, line)| line.contains("--plugin-dir") && !line.starts_with("tmux"));
        own.next().expect("the client runs").0
    }

    /// The end of a story: nothing may run on by itself.
    pub fn settle(mut self) {
        until("every process has left", LIMIT, || self.processes().is_empty().then_some(()))
            .unwrap_or_else(|late| panic!("{late}; still there: {:?}", self.processes()));
        self.settled = true;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            self.kill(pid);
        }
        if self.settled {
            return;
        }
        // What a person would look at first after a failure.
        let mut out = std::io::stderr().lock();
        for request in self.model.requests() {
            let text = request.text();
            // The client's own preamble comes first and is long; what a hook added comes last.
            let cut = text.char_indices().rev().nth(1_500).map_or(0, |(at, _)| at);
            drop(writeln!(out, "request {}: …{}\nresults: {:?}", request.n, &text[cut..], request.results()));
        }
        let errors = fs::read_to_string(self.path("home/.local/state/leaf/errors.log"));
        drop(writeln!(out, "errors.log: {}", errors.unwrap_or_default()));
    }
}

/// A run without a terminal.
pub struct Run<'a> {
    child: Option<Child>,
    client: &'a Client,
}

impl Run<'_> {
    /// How it ended. Panics when it hangs.
    pub fn end(mut self) -> Outcome {
        let mut child = self.child.take().expect("a run ends once");
        let ended = until("the run has ended", LIMIT, || child.try_wait().expect("a child"));
        if let Err(late) = ended {
            let processes = self.client.processes();
            drop(child.kill());
            let outcome = child.wait_with_output().map(Outcome::from);
            panic!("{late}: {outcome:?}; ran: {processes:?}");
        }
        child.wait_with_output().expect("its output").into()
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// A terminal with the client in it.
pub struct Terminal<'a> {
    client: &'a Client,
    socket: PathBuf,
}

impl Terminal<'_> {
    /// Types a line as a person does, and sends it.
    pub fn say(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        // An Enter in the same breath would be taken for a pasted line break.
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        self.wait("what was typed", |screen| bare(screen).contains(&bare(line)));
        std::thread::sleep(Duration::from_millis(300));
        self.tmux(&["send-keys", "Enter"]);
    }

    /// Presses keys, by tmux's names.
    pub fn press(&self, keys: &[&str]) {
        for key in keys {
            self.tmux(&["send-keys", key]);
            // Two keys in one breath are read as one sequence.
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// What it shows.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen shows it. Panics with the screen after [`LIMIT`].
    pub fn wait(&self, what: &str, shown: impl Fn(&str) -> bool) {
        if let Err(late) = until(what, LIMIT, || shown(&self.screen()).then_some(())) {
            panic!("{late}; the screen:\n{}", self.screen());
        }
    }

    /// Leaves as a person does.
    pub fn exit(self) {
        self.say("/exit");
        let gone = || self.client.processes().iter().all(|(_, line)| !line.contains("--plugin-dir"));
        until("the client has left", LIMIT, || gone().then_some(())).unwrap_or_else(|late| panic!("{late}"));
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.client.command("tmux", "project");
        let output = command.arg("-S").arg(&self.socket).args(args).output();
        let outcome: Outcome = output.expect("tmux starts").into();
        outcome.stdout
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen:\n{}", self.screen());
        }
        self.tmux(&["kill-server"]);
    }
}

/// Looks again and again until there is something, at most for `limit`; else says what did not come.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> Result<T, String> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            return Err(format!("not within {} s: {what}", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The installed client's program, where `.ci/run` puts it.
fn program() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("LEAF_CI_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("leaf-ci")))
        .or_else(|| Some(set("HOME")?.join(".cache/leaf-ci")))
        .expect("LEAF_CI_CACHE, XDG_CACHE_HOME or HOME is set");
    let version = VERSION.trim();
    cache.join(format!("claude-code-{version}/node_modules/.bin/claude"))
}

fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().expect("a parent")).expect("a directory");
        fs::copy(from, to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        return;
    }
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").flatten() {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}
