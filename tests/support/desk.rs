//! A desk in a box: a state directory, a project, a clock and clients of its own, driven through the
//! built binary alone.
//!
//! A client is a real process whose children the hooks and the agent's commands truly are (R71 decides
//! by ancestry). The person's commands are children of the test process, which is nobody's client.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary under test.
pub const LEAF: &str = env!("CARGO_BIN_EXE_leaf");

/// Longer than any deadline of `leaf`'s own (R108: 10 s), on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The jobs a client runs are shell files whose paths it reads from its standard input; each runs in
/// a child of the client.
const CLIENT: &str = r#"while IFS= read -r job; do ( . "$job" ) & done"#;

/// A payload recorded from the real client: its file name without `.json`.
pub fn recorded(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/support/payloads/{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("a recorded payload is JSON")
}

/// Temporary directories, a clock and the environment of one test.
pub struct Desk {
    dir: TempDir,
    now: Cell<DateTime<Utc>>,
    names: Cell<u32>,
}

impl Desk {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("leaf-desk-").tempdir().expect("a temporary directory");
        let start = DateTime::parse_from_rfc3339("2027-03-01T10:00:00.000Z").expect("a time").to_utc();
        let desk = Desk { dir, now: Cell::new(start), names: Cell::new(0) };
        for name in ["home", "project", "tmp", "jobs"] {
            fs::create_dir(desk.path(name)).expect("a directory of the desk");
        }
        fs::DirBuilder::new().mode(0o700).create(desk.state_dir()).expect("the state directory");
        desk.set_clock(start);
        desk
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// `$LEAF_HOME` of this desk.
    pub fn state_dir(&self) -> PathBuf {
        self.path("state")
    }

    pub fn now(&self) -> DateTime<Utc> {
        self.now.get()
    }

    pub fn set_clock(&self, now: DateTime<Utc>) {
        self.now.set(now);
        let next = self.path("clock.next");
        fs::write(&next, now.to_rfc3339_opts(SecondsFormat::Millis, true)).expect("the clock");
        fs::rename(next, self.path("clock")).expect("the clock");
    }

    pub fn advance(&self, seconds: i64) {
        self.set_clock(self.now.get() + TimeDelta::seconds(seconds));
    }

    /// What every process of the desk has in its environment, and nothing else but its own.
    pub fn env(&self) -> BTreeMap<String, String> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        BTreeMap::from([
            ("PATH".into(), std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into())),
            ("HOME".into(), text(self.home())),
            ("TMPDIR".into(), text(self.path("tmp"))),
            ("LEAF_HOME".into(), text(self.state_dir())),
            ("LEAF_NOW".into(), format!("@{}", text(self.path("clock")))),
        ])
    }

    /// A person's command, not below any client, not yet run.
    pub fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(LEAF);
        command.args(args).env_clear().envs(self.env()).current_dir(self.project()).stdin(Stdio::null());
        command
    }

    /// A person's command from a terminal in the project directory.
    #[track_caller]
    pub fn person<S: AsRef<OsStr>>(&self, args: &[S]) -> Ran {
        Ran::from(self.command(args).output().expect("leaf runs"))
    }

    /// A person's command with text on its standard input.
    #[track_caller]
    pub fn person_with_input<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Ran {
        feed(self.command(args), input)
    }

    /// A person's command with `--json`, that succeeds: what it printed.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.person(&args).ok().json()
    }

    /// A new thread of the user's; gives its id.
    #[track_caller]
    pub fn thread(&self, text: &str) -> String {
        id(&self.ask(&["thread", "new", text]))
    }

    /// A further message of the user's; gives its id.
    #[track_caller]
    pub fn say(&self, thread: &str, text: &str) -> String {
        id(&self.ask(&["thread", "say", thread, text]))
    }

    /// `leaf page state --json` as the person sees it.
    #[track_caller]
    pub fn state(&self) -> Value {
        self.ask(&["page", "state"])
    }

    /// `leaf page state --json`, or nothing where there is no page yet.
    pub fn state_or_none(&self) -> Option<Value> {
        if self.pages().is_empty() { None } else { Some(self.state()) }
    }

    /// A thread of the page state.
    #[track_caller]
    pub fn thread_state(&self, thread: &str) -> Value {
        let state = self.state();
        let threads = state["threads"].as_array().expect("threads is an array");
        match threads.iter().find(|t| t["id"] == thread) {
            Some(found) => found.clone(),
            None => panic!("no thread {thread} in {state:#}"),
        }
    }

    /// The page directories that exist, in the order of their names.
    pub fn pages(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.state_dir().join("pages")) else {
            return Vec::new();
        };
        let mut pages: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).filter(|p| p.is_dir()).collect();
        pages.sort();
        pages
    }

    /// The directory of the desk's only page.
    #[track_caller]
    pub fn page(&self) -> PathBuf {
        let pages = self.pages();
        assert_eq!(pages.len(), 1, "one page: {pages:?}");
        pages[0].clone()
    }

    #[track_caller]
    pub fn page_slug(&self) -> String {
        self.page().file_name().expect("a name").to_string_lossy().into_owned()
    }

    pub fn log_path(&self) -> PathBuf {
        self.page().join("log.jsonl")
    }

    /// The events of the desk's only page.
    #[track_caller]
    pub fn log(&self) -> Vec<Value> {
        read_log(&self.log_path())
    }

    /// The events of one kind.
    #[track_caller]
    pub fn events(&self, kind: &str) -> Vec<Value> {
        self.log().into_iter().filter(|e| e["kind"] == kind).collect()
    }

    /// Lines of errors.log.
    pub fn errors(&self) -> Vec<String> {
        fs::read_to_string(self.state_dir().join("errors.log")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Every file of the state directory with its bytes, but for what `skip` names (file names).
    pub fn files(&self, skip: &[&str]) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        walk(&self.state_dir(), &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_file() && !skip.contains(&name.as_str()) {
                found.insert(path.to_owned(), fs::read(path).expect("a state file"));
            }
        });
        found
    }

    /// A session with a client of its own, not yet started.
    pub fn session(&self, name: &str) -> Session<'_> {
        self.session_of(&self.client(), name)
    }

    /// A session of a client that exists: after /clear, or a second id in one process.
    pub fn session_of(&self, client: &Rc<Client>, name: &str) -> Session<'_> {
        Session {
            desk: self,
            client: Rc::clone(client),
            id: format!("{name}-6a0e8f1c-55d0-4c8a-9d0b-4b0f3c1d2e5f"),
            prompt_id: RefCell::new(String::new()),
            cwd: RefCell::new(self.project()),
            extra: RefCell::new(BTreeMap::from([("CLAUDE_CODE_SESSION_ATTENDED".into(), "1".into())])),
        }
    }

    /// A fresh client process.
    pub fn client(&self) -> Rc<Client> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", CLIENT])
            .env_clear()
            .envs(self.env())
            .current_dir(self.project())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a client");
        let input = child.stdin.take();
        Rc::new(Client { child: RefCell::new(child), input: RefCell::new(input) })
    }

    fn fresh(&self, stem: &str) -> PathBuf {
        self.names.set(self.names.get() + 1);
        self.path("jobs").join(format!("{stem}{}", self.names.get()))
    }
}

/// A stand-in for a coding agent's process.
pub struct Client {
    child: RefCell<Child>,
    input: RefCell<Option<ChildStdin>>,
}

impl Client {
    pub fn pid(&self) -> u32 {
        self.child.borrow().id()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&self) {
        self.input.replace(None);
        let mut child = self.child.borrow_mut();
        let _ = child.kill();
        let _ = child.wait();
    }

    fn start(&self, job: &Path) {
        let mut input = self.input.borrow_mut();
        let input = input.as_mut().expect("a living client");
        writeln!(input, "{}", job.display()).and_then(|()| input.flush()).expect("the client reads");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A session of a client, as the client's hooks and its Bash tool see it.
pub struct Session<'d> {
    desk: &'d Desk,
    pub client: Rc<Client>,
    id: String,
    prompt_id: RefCell<String>,
    cwd: RefCell<PathBuf>,
    extra: RefCell<BTreeMap<String, String>>,
}

impl<'d> Session<'d> {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn desk(&self) -> &'d Desk {
        self.desk
    }

    pub fn prompt_id(&self) -> String {
        self.prompt_id.borrow().clone()
    }

    /// One more variable for all that runs in this session.
    pub fn set_env(&self, name: &str, value: &str) {
        self.extra.borrow_mut().insert(name.into(), value.into());
    }

    pub fn set_cwd(&self, cwd: PathBuf) {
        self.cwd.replace(cwd);
    }

    /// `claude -p`, an SDK run.
    pub fn unattended(self) -> Self {
        self.set_env("CLAUDE_CODE_SESSION_ATTENDED", "0");
        self.set_env("CLAUDE_CODE_ENTRYPOINT", "sdk-cli");
        self
    }

    /// What its hooks and its Bash tool have in their environment.
    pub fn env(&self) -> BTreeMap<String, String> {
        let mut env = self.desk.env();
        env.extend([
            ("CLAUDECODE".into(), "1".into()),
            ("CLAUDE_CODE_CHILD_SESSION".into(), "1".into()),
            ("CLAUDE_CODE_ENTRYPOINT".into(), "cli".into()),
            ("CLAUDE_CODE_SESSION_ID".into(), self.id.clone()),
            ("CLAUDE_PID".into(), self.client.pid().to_string()),
        ]);
        env.extend(self.extra.borrow().clone());
        env
    }

    /// A recorded payload made this session's own.
    pub fn payload(&self, name: &str) -> Value {
        let mut payload = recorded(name);
        let project = self.cwd.borrow().to_string_lossy().into_owned();
        payload["session_id"] = json!(self.id);
        payload["cwd"] = json!(project);
        let folder = project.replace('/', "-");
        payload["transcript_path"] =
            json!(self.desk.home().join(format!(".claude/projects/{folder}/{}.jsonl", self.id)));
        if payload.get("prompt_id").is_some() {
            payload["prompt_id"] = json!(*self.prompt_id.borrow());
        }
        payload
    }

    #[track_caller]
    pub fn start(&self, source: &str) -> HookRan {
        let name = format!("SessionStart.main.{source}");
        self.hook(&self.payload(&name))
    }

    /// Starts, and submits a first prompt, as any session that works.
    #[track_caller]
    pub fn working(self) -> Self {
        self.start("startup").silent_or_context();
        self.prompt("go on").silent_or_context();
        self
    }

    /// UserPromptSubmit with a prompt id of its own.
    #[track_caller]
    pub fn prompt(&self, text: &str) -> HookRan {
        self.desk.names.set(self.desk.names.get() + 1);
        let fresh = format!("c930326e-fe75-4057-a1fd-{:012}", self.desk.names.get());
        self.prompt_id.replace(fresh);
        self.prompt_again(text)
    }

    /// UserPromptSubmit with the prompt id of the last.
    #[track_caller]
    pub fn prompt_again(&self, text: &str) -> HookRan {
        let mut payload = self.payload("UserPromptSubmit.main");
        payload["prompt"] = json!(text);
        self.hook(&payload)
    }

    /// Main's PostToolBatch.
    #[track_caller]
    pub fn boundary(&self) -> HookRan {
        self.hook(&self.payload("PostToolBatch.main"))
    }

    #[track_caller]
    pub fn stop(&self) -> HookRan {
        self.hook(&self.payload("Stop.main.tui"))
    }

    /// A Stop after one that a hook continued.
    #[track_caller]
    pub fn stop_active(&self) -> HookRan {
        self.hook(&self.payload("Stop.main.active"))
    }

    #[track_caller]
    pub fn stop_failure(&self) -> HookRan {
        self.hook(&self.payload("StopFailure.main.tui"))
    }

    #[track_caller]
    pub fn end(&self, reason: &str) -> HookRan {
        let mut payload = self.payload("SessionEnd.main.other");
        payload["reason"] = json!(reason);
        self.hook(&payload)
    }

    /// Main's PreToolUse.
    #[track_caller]
    pub fn pre_tool(&self, tool: &str, input: Value) -> HookRan {
        let mut payload = self.payload("PreToolUse.main.Bash");
        payload["tool_name"] = json!(tool);
        payload["tool_input"] = input;
        self.hook(&payload)
    }

    /// Main's PreToolUse of a Bash call.
    #[track_caller]
    pub fn pre_bash(&self, command: &str) -> HookRan {
        self.pre_tool("Bash", json!({"command": command, "description": "x"}))
    }

    /// PreToolUse of a worker's Bash call.
    #[track_caller]
    pub fn worker_bash(&self, command: &str) -> HookRan {
        let mut payload = self.payload("PreToolUse.general-purpose.Bash");
        payload["tool_input"]["command"] = json!(command);
        self.hook(&payload)
    }

    #[track_caller]
    pub fn hook(&self, payload: &Value) -> HookRan {
        self.hook_raw(payload.to_string().as_bytes())
    }

    #[track_caller]
    pub fn hook_raw(&self, input: &[u8]) -> HookRan {
        HookRan::from(self.job(&["hook"]).input(input).run())
    }

    /// A `leaf` command of the agent's Bash tool.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        self.job(args).run()
    }

    /// The agent's command with `--json`, that succeeds: what it printed.
    #[track_caller]
    pub fn ask(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        self.run(&args).ok().json()
    }

    /// Main's answer; gives the event with its notes.
    #[track_caller]
    pub fn reply(&self, reference: &str, text: &str) -> Value {
        self.ask(&["thread", "reply", reference, text])
    }

    /// Parks a watch with a Stop payload, as the client does.
    pub fn watch(&self) -> Watch {
        self.watch_with("Stop.main.tui")
    }

    /// Parks a watch with another event's payload.
    pub fn watch_with(&self, name: &str) -> Watch {
        let job = self.job(&["watch"]).input(self.payload(name).to_string().as_bytes());
        Watch { running: job.start() }
    }

    /// A process of the session, not yet started.
    pub fn job(&self, args: &[&str]) -> Job<'_, 'd> {
        Job { session: self, args: args.iter().map(|a| (*a).to_owned()).collect(), input: Vec::new(), shell: None }
    }

    /// A shell line of the session; `$LEAF` is the binary.
    pub fn shell(&self, line: &str) -> Ran {
        let mut job = self.job(&[]);
        job.shell = Some(line.to_owned());
        job.run()
    }

    /// A shell line that gets a payload on its standard input.
    pub fn shell_with_payload(&self, line: &str, payload: &Value) -> Ran {
        let mut job = self.job(&[]).input(payload.to_string().as_bytes());
        job.shell = Some(line.to_owned());
        job.run()
    }
}

/// One process below a client.
pub struct Job<'s, 'd> {
    session: &'s Session<'d>,
    args: Vec<String>,
    input: Vec<u8>,
    shell: Option<String>,
}

impl Job<'_, '_> {
    pub fn input(mut self, input: &[u8]) -> Self {
        self.input = input.to_owned();
        self
    }

    #[track_caller]
    pub fn run(self) -> Ran {
        self.start().wait(PATIENCE).expect("the command ends")
    }

    #[track_caller]
    pub fn start(self) -> Running {
        let session = self.session;
        let dir = session.desk.fresh("job");
        fs::create_dir(&dir).expect("a job's directory");
        fs::write(dir.join("in"), &self.input).expect("a job's input");
        let mut script = format!("cd {}\n", quoted(&session.cwd.borrow().to_string_lossy()));
        for (name, value) in session.env() {
            script.push_str(&format!("export {name}={}\n", quoted(&value)));
        }
        script.push_str(&format!("LEAF={}; export LEAF\nD={}\n", quoted(LEAF), quoted(&dir.to_string_lossy())));
        let line = match &self.shell {
            Some(line) => format!("( {line}\n)"),
            None => {
                let args: Vec<String> = self.args.iter().map(|a| quoted(a)).collect();
                format!("\"$LEAF\" {}", args.join(" "))
            }
        };
        // A background job of a script ignores SIGINT and reads /dev/null unless told otherwise.
        script.push_str(&format!(
            "{line} <\"$D/in\" >\"$D/out\" 2>\"$D/err\" &\necho $! >\"$D/pid\"\nwait $!\necho $? >\"$D/rc\"\n"
        ));
        let job = dir.join("job");
        fs::write(&job, script).expect("a job");
        session.client.start(&job);
        Running { dir, client: Rc::clone(&session.client) }
    }
}

/// A process below a client, until it ends.
pub struct Running {
    dir: PathBuf,
    // Keeps the client alive as long as what it runs is looked at.
    client: Rc<Client>,
}

impl Running {
    /// The process's result, or nothing where it still runs at the deadline.
    pub fn wait(&self, deadline: Duration) -> Option<Ran> {
        let start = Instant::now();
        loop {
            if let Some(code) = self.number("rc") {
                let read = |name| fs::read(self.dir.join(name)).unwrap_or_default();
                return Some(Ran { code, stdout: read("out"), stderr: read("err") });
            }
            if start.elapsed() > deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(if start.elapsed().as_millis() < 50 { 1 } else { 5 }));
        }
    }

    pub fn pid(&self) -> u32 {
        let start = Instant::now();
        loop {
            if let Some(pid) = self.number("pid") {
                return u32::try_from(pid).expect("a pid");
            }
            assert!(start.elapsed() < PATIENCE, "the job starts");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal (`KILL`, `STOP`, `TERM`, …) to this process alone.
    pub fn signal(&self, signal: &str) {
        signal_pid(self.pid(), signal);
    }

    fn number(&self, name: &str) -> Option<i32> {
        let text = fs::read_to_string(self.dir.join(name)).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    }
}

/// A parked `leaf watch`; killed when dropped.
pub struct Watch {
    running: Running,
}

impl Watch {
    /// Its result, or nothing where it is still parked at the deadline.
    pub fn wait(&self, deadline: Duration) -> Option<Ran> {
        self.running.wait(deadline)
    }

    /// It woke the session: exit code 2, and its words.
    #[track_caller]
    pub fn woke(&self) -> String {
        let ran = self.wait(Duration::from_secs(10)).expect("the watch wakes");
        assert_eq!(ran.code, 2, "a watch wakes with exit code 2: {ran:?}");
        let text = ran.err();
        assert!(!text.trim().is_empty(), "a wake says something on stderr");
        text
    }

    /// It is still parked after this long.
    #[track_caller]
    pub fn parked(&self, for_millis: u64) {
        let ran = self.wait(Duration::from_millis(for_millis));
        assert!(ran.is_none(), "the watch stays parked: {ran:?}");
    }

    /// It left without waking.
    #[track_caller]
    pub fn left(&self) {
        let ran = self.wait(Duration::from_secs(10)).expect("the watch leaves");
        assert_eq!(ran.code, 0, "a watch that leaves exits 0: {ran:?}");
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.running.wait(Duration::ZERO).is_none() {
            self.running.signal("KILL");
            // Its shell writes the exit code down, which must not race with the desk's removal.
            self.running.wait(Duration::from_secs(5));
        }
    }
}

/// A finished command.
#[derive(Clone)]
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {}\n--- stdout\n{}\n--- stderr\n{}", self.code, self.out(), self.err())
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = output.status.code().or_else(|| output.status.signal().map(|s| 128 + s)).unwrap_or(-1);
        Ran { code, stdout: output.stdout, stderr: output.stderr }
    }
}

impl Ran {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Exit 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "it succeeds: {self:?}");
        self
    }

    /// One JSON value on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.stdout) {
            Ok(value) => value,
            Err(e) => panic!("one JSON value on stdout ({e}): {self:?}"),
        }
    }

    /// Exit 1 with a sentence on stderr and nothing on stdout; gives the sentence.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!(self.code, 1, "it is refused: {self:?}");
        assert!(self.stdout.is_empty(), "a refusal prints nothing on stdout: {self:?}");
        self.sentence()
    }

    /// Exit 2 with words on stderr.
    #[track_caller]
    pub fn usage(self) -> String {
        assert_eq!(self.code, 2, "it is a usage error: {self:?}");
        let text = self.err();
        assert!(!text.trim().is_empty(), "a usage error says why: {self:?}");
        text
    }

    #[track_caller]
    fn sentence(&self) -> String {
        let text = self.err();
        let lines = text.lines().filter(|l| !l.trim().is_empty()).count();
        assert_eq!(lines, 1, "a refusal is one sentence on stderr: {self:?}");
        assert!(!text.contains("panicked"), "no panic: {self:?}");
        text
    }
}

/// A finished hook.
pub struct HookRan {
    pub ran: Ran,
    pub answer: Option<Value>,
}

impl From<Ran> for HookRan {
    #[track_caller]
    fn from(ran: Ran) -> Self {
        let text = ran.out();
        let answer = if ran.stdout.is_empty() {
            None
        } else {
            let value: Value = match serde_json::from_str(&text) {
                Ok(value) => value,
                Err(e) => panic!("a hook prints one JSON object or nothing ({e}): {ran:?}"),
            };
            assert!(value.is_object(), "a hook prints one JSON object or nothing: {ran:?}");
            Some(value)
        };
        assert_eq!(ran.code, 0, "a hook exits 0: {ran:?}");
        HookRan { ran, answer }
    }
}

impl HookRan {
    /// The context it adds, if any; under the contract's bound.
    #[track_caller]
    pub fn context(&self) -> Option<String> {
        let text = self.answer.as_ref()?["hookSpecificOutput"]["additionalContext"].as_str()?.to_owned();
        let units = text.encode_utf16().count();
        assert!(units < 9_500, "context stays under 9,500 UTF-16 units: {units}");
        assert!(units > 0, "an added context says something");
        Some(text)
    }

    /// It says something: the text.
    #[track_caller]
    pub fn says(&self) -> String {
        match self.context() {
            Some(text) => text,
            None => panic!("the hook adds context: {:?}", self.ran),
        }
    }

    /// It prints nothing at all.
    #[track_caller]
    pub fn silent(&self) {
        assert!(self.ran.stdout.is_empty() && self.ran.stderr.is_empty(), "the hook is silent: {:?}", self.ran);
    }

    /// It is well formed, whatever it says.
    #[track_caller]
    pub fn silent_or_context(&self) {
        self.context();
    }

    /// It denies the call: the reason.
    #[track_caller]
    pub fn denied(&self) -> String {
        let Some(answer) = &self.answer else { panic!("the hook denies: {:?}", self.ran) };
        let output = &answer["hookSpecificOutput"];
        assert_eq!(output["hookEventName"], "PreToolUse");
        assert_eq!(output["permissionDecision"], "deny", "the hook denies: {:?}", self.ran);
        output["permissionDecisionReason"].as_str().expect("a denial has a reason").to_owned()
    }

    /// The one reference in its context.
    #[track_caller]
    pub fn reference(&self) -> String {
        let found = references(&self.says());
        assert_eq!(found.len(), 1, "one reference: {}", self.says());
        found[0].clone()
    }
}

/// The `id` of an event that a command printed.
#[track_caller]
pub fn id(event: &Value) -> String {
    match event["id"].as_str() {
        Some(id) => id.to_owned(),
        None => panic!("an event has an id: {event}"),
    }
}

/// The notes beside a writer's result.
#[track_caller]
pub fn notes(event: &Value) -> Vec<String> {
    let Some(notes) = event["notes"].as_array() else { panic!("notes is an array: {event}") };
    let text = |note: &Value| note.as_str().expect("a note is a string").to_owned();
    notes.iter().map(text).collect()
}

/// The reply references in a text, each once, in their order.
pub fn references(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let hex = |range: &[u8]| range.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let word = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let mut found: Vec<String> = Vec::new();
    for at in 0..bytes.len().saturating_sub(16) {
        let piece = &bytes[at..at + 17];
        let bounded = !word(at.checked_sub(1).and_then(|i| bytes.get(i))) && !word(bytes.get(at + 17));
        if bounded && piece[8] == b':' && hex(&piece[..8]) && hex(&piece[9..]) {
            let text = String::from_utf8_lossy(piece).into_owned();
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    found
}

/// The events of a log, each line one JSON object.
pub fn read_log(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

/// 8 lowercase hex.
pub fn is_id(value: &Value) -> bool {
    is_hex(value, 8)
}

/// That many lowercase hex digits.
pub fn is_hex(value: &Value, digits: usize) -> bool {
    value.as_str().is_some_and(|s| s.len() == digits && s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// Permission bits of a path.
pub fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).mode() & 0o7777
}

/// Calls `see` for every path below a directory, depth first; symlinks are not followed.
pub fn walk(dir: &Path, see: &mut dyn FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("an entry").path();
        let real_dir = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
        see(&path);
        if real_dir {
            walk(&path, see);
        }
    }
}

/// Copies a tree.
pub fn copy_tree(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(status.success(), "cp -a {} {}", from.display(), to.display());
}

/// Sends a signal by name to one process.
pub fn signal_pid(pid: u32, signal: &str) {
    let _ = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).stderr(Stdio::null()).status();
}

/// Runs a command with bytes on its standard input; a command that doesn't read them all is fine.
pub fn feed(mut command: Command, input: &[u8]) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("leaf runs");
    let mut pipe = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || {
        let _ = pipe.write_all(&input);
    });
    let output = child.wait_with_output().expect("leaf ends");
    let _ = writer.join();
    Ran::from(output)
}

/// A word for a shell, single quoted.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
