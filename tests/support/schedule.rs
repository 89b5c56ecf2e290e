//! Scheduled forks of a desk: fork files, a client that plays them, and batches that are put into a session's journal by hand.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desk::{Desk, Ran, Session};
use super::forks::session_dir;

/// The client: it keeps what it was asked, and plays what its fork's file under `play` says.
const CLAUDE: &str = r#"#!/bin/sh
result() { printf '{"type":"result","is_error":false,"result":"%s"}\n' "$1"; }
until_there() { until [ -e "$HOME/$1" ]; do sleep 0.01; done; }
run=$(mktemp -d "$HOME/runs/XXXXXXXX")
printf '%s\n' "$@" > "$run/args"
env > "$run/env"
pwd > "$run/pwd"
cat > "$run/prompt"
echo "$LEAF_FORK_NAME" >> "$HOME/order"
echo "$$" > "$HOME/pid-$LEAF_FORK_NAME"
. "$HOME/play/$LEAF_FORK_NAME"
"#;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// A fork of a batch that is issued by hand.
#[derive(Clone, Default)]
pub struct Issue {
    pub fork: &'static str,
    pub label: &'static str,
    pub after: Vec<&'static str>,
    pub gate: bool,
    pub chain: bool,
}

impl Issue {
    pub fn of(fork: &'static str) -> Issue {
        Issue { fork, label: "idle:0", ..Issue::default() }
    }

    pub fn after(self, after: &[&'static str]) -> Issue {
        Issue { after: after.to_vec(), ..self }
    }

    pub fn chain(self) -> Issue {
        Issue { chain: true, ..self }
    }

    pub fn gate(self) -> Issue {
        Issue { gate: true, ..self }
    }
}

/// A run of the client.
pub struct Asked {
    pub args: Vec<String>,
    pub prompt: String,
    pub pwd: String,
    pub env: Vec<String>,
}

/// A session whose forks run.
pub struct Schedule<'s, 'd> {
    pub session: &'s Session<'d>,
    desk: &'d Desk,
}

impl<'s, 'd> Schedule<'s, 'd> {
    /// Puts the client onto the session's PATH.
    pub fn new(session: &'s Session<'d>) -> Self {
        let desk = session.desk();
        for name in ["bin", "runs", "play", ".leaf/forks"] {
            fs::create_dir_all(desk.home().join(name)).expect("a directory");
        }
        let program = desk.home().join("bin/claude");
        fs::write(&program, CLAUDE).expect("the client");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the client");
        Schedule { session, desk }
    }

    /// The user's own fork file; `keys` are lines of its frontmatter.
    pub fn fork(&self, name: &str, keys: &str) -> PathBuf {
        let file = self.desk.home().join(format!(".leaf/forks/{name}.md"));
        fs::write(&file, format!("---\nfork: true\n{keys}\n---\nThe body of {name}.\n")).expect("a fork");
        file
    }

    /// What the client does for a fork, as lines of a shell script.
    pub fn play(&self, name: &str, script: &str) {
        let next = self.desk.home().join("next");
        fs::write(&next, format!("{script}\n")).expect("a play");
        fs::rename(next, self.desk.home().join("play").join(name)).expect("a play");
    }

    /// A fork that reports a text at once.
    pub fn reports(&self, name: &str, text: &str) {
        self.fork(name, "");
        self.play(name, &format!("result '{text}'"));
    }

    pub fn touch(&self, name: &str) {
        fs::write(self.desk.home().join(name), "").expect("a file");
    }

    pub fn is_there(&self, name: &str) -> bool {
        self.desk.home().join(name).exists()
    }

    pub fn dir(&self) -> PathBuf {
        session_dir(self.desk, self.session)
    }

    /// Appends a change of the schedule to the session's journal.
    pub fn change(&self, change: Value) {
        let ts = self.desk.now().to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let line = json!({"ts": ts, "kind": "schedule", "schedule": change});
        let mut journal =
            OpenOptions::new().append(true).open(self.dir().join("journal.jsonl")).expect("the session's journal");
        writeln!(journal, "{line}").expect("the journal");
    }

    /// Issues a batch, as the watch of a living process does. Gives the runs' ids.
    pub fn issue(&self, batch: &[Issue]) -> Vec<String> {
        // No start token: the system's word alone is that the process lives.
        self.issue_by(batch, json!({"pid": std::process::id(), "start": null}), false)
    }

    pub fn issue_by(&self, batch: &[Issue], owner: Value, flush: bool) -> Vec<String> {
        use std::hash::{BuildHasher, Hasher, RandomState};
        let ids: Vec<String> =
            batch.iter().map(|_| format!("{:016x}", RandomState::new().build_hasher().finish())).collect();
        let id_of = |name: &str| {
            let at = batch.iter().position(|issue| issue.fork == name).expect("a fork of the batch");
            ids[at].clone()
        };
        let runs: Vec<Value> = batch
            .iter()
            .zip(&ids)
            .map(|(issue, id)| {
                let waits: Vec<String> = issue.after.iter().map(|name| id_of(name)).collect();
                json!({
                    "run": id, "fork": issue.fork, "label": issue.label, "waits_for": waits, "reports_of": waits,
                    "path": self.desk.home().join(format!(".leaf/forks/{}.md", issue.fork)),
                    "gate": issue.gate, "chain": issue.chain, "runner": "headless",
                })
            })
            .collect();
        self.change(json!({"change": "issued", "runs": runs, "owner": owner, "flush": flush}));
        ids
    }

    /// A command with the client on its PATH.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.desk.command(args);
        let path = self.desk.env()["PATH"].clone();
        command.env("PATH", format!("{}:{path}", self.desk.home().join("bin").display()));
        command
    }

    /// `leaf runner` for runs of a batch, not yet run.
    pub fn runner(&self, runs: &[String]) -> Command {
        let mut command = self.command(&["runner", "--session", self.session.id()]);
        command.args(runs).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    pub fn start(&self, runs: &[String]) -> Child {
        self.runner(runs).spawn().expect("a runner")
    }

    /// Carries out a batch to its end.
    #[track_caller]
    pub fn carry_out(&self, runs: &[String]) {
        finished(&mut self.start(runs));
    }

    /// Issues a batch and carries it out. Gives the runs' ids.
    #[track_caller]
    pub fn run(&self, batch: &[Issue]) -> Vec<String> {
        let ids = self.issue(batch);
        self.carry_out(&ids);
        ids
    }

    /// `leaf runs --json`.
    #[track_caller]
    pub fn runs(&self) -> Vec<Value> {
        let args = ["runs", "--json", "--session", self.session.id()];
        let runs = Ran::from(self.command(&args).output().expect("leaf runs")).ok().json();
        runs.as_array().expect("runs is an array").clone()
    }

    #[track_caller]
    pub fn state_of(&self, run: &str) -> Value {
        self.runs().into_iter().find(|state| state["run"] == run).unwrap_or_else(|| panic!("no run {run}"))
    }

    /// Waits until a run stands so.
    #[track_caller]
    pub fn until_state(&self, run: &str, state: &str) {
        until(&format!("run {run} is {state}"), || (self.state_of(run)["state"] == state).then_some(()));
    }

    /// The names of the forks whose clients began, in their order.
    pub fn order(&self) -> Vec<String> {
        let text = fs::read_to_string(self.desk.home().join("order")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What the client was asked for a fork, one entry a run of it, in no order.
    pub fn asked(&self, fork: &str) -> Vec<Asked> {
        let entries = fs::read_dir(self.desk.home().join("runs")).expect("the runs");
        entries
            .filter_map(|entry| {
                let dir = entry.expect("an entry").path();
                let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
                let lines = |name: &str| read(name).lines().map(str::to_owned).collect::<Vec<_>>();
                let asked = Asked { args: lines("args"), prompt: read("prompt"), pwd: read("pwd"), env: lines("env") };
                asked.env.contains(&format!("LEAF_FORK_NAME={fork}")).then_some(asked)
            })
            .collect()
    }

    /// The files of the session's reports.
    pub fn report_files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.dir().join("reports")) else { return Vec::new() };
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    /// The process of a fork's client.
    pub fn client_pid(&self, fork: &str) -> u32 {
        let file = self.desk.home().join(format!("pid-{fork}"));
        until("the client begins", || fs::read_to_string(&file).ok()?.trim().parse().ok())
    }
}

/// Waits for a process's end.
#[track_caller]
pub fn finished(child: &mut Child) {
    until("the process ends", || child.try_wait().expect("a process"));
}

/// Whether a process is gone, or a zombie.
pub fn is_gone(pid: u32) -> bool {
    let ps = Command::new("ps").args(["-o", "state=", "-p", &pid.to_string()]).output().expect("ps runs");
    let state = String::from_utf8_lossy(&ps.stdout).trim().to_owned();
    state.is_empty() || state.starts_with('Z')
}
