//! Runs processes of ours, several at the same moment where asked, and kills the one that is marked: after so
//! many microseconds, or as it enters the nth use of a system call (where strace can run).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::model::Dice;
use crate::support::desk::{Desk, LEAF, Ran, Session, quoted};

/// What a kill leaves as the exit code.
pub const KILLED: i32 = 128 + 9;

/// The system calls at which a process may be killed, and about how often one of ours makes them.
const CALLS: [(&str, usize); 12] = [
    ("openat", 24),
    ("read", 24),
    ("write", 6),
    ("renameat", 3),
    ("renameat2", 3),
    ("rename", 3),
    ("fdatasync", 3),
    ("fsync", 3),
    ("flock", 6),
    ("unlinkat", 3),
    ("mkdirat", 3),
    ("close", 24),
];

/// How long a process of ours takes from its shell's start on, microseconds, generously.
const USUALLY: usize = 14_000;

/// When a process is killed.
#[derive(Clone, Debug)]
pub enum Death {
    /// So many microseconds after its shell began.
    After(u64),
    /// As it enters the nth use of a system call.
    At { call: &'static str, n: usize },
}

impl Death {
    pub fn random(dice: &mut Dice) -> Self {
        if can_trace() && dice.one_in(2) {
            let (call, most) = CALLS[dice.roll(CALLS.len())];
            return Death::At { call, n: dice.roll(most) + 1 };
        }
        Death::After(if dice.one_in(8) { 0 } else { u64::try_from(dice.roll(USUALLY)).unwrap_or(0) })
    }

    /// What stands before the binary.
    pub fn tracer(&self, trace: &Path) -> String {
        match self {
            Death::After(_) => String::new(),
            Death::At { call, n } => format!(
                "strace -f -qq -o {} -e trace={call} -e inject={call}:signal=KILL:when={n} ",
                quoted(&trace.to_string_lossy())
            ),
        }
    }
}

/// Whether strace works on this machine.
pub fn can_trace() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let tried = Command::new("strace").args(["-f", "-qq", "-o", "/dev/null", "true"]).output();
        tried.is_ok_and(|o| o.status.success())
    })
}

/// One process to be run: a shell line whose first word is `leaf`.
#[derive(Clone, Debug)]
pub struct Call {
    /// What it is, for the count of kills.
    pub kind: String,
    pub line: String,
    pub input: Vec<u8>,
    /// The follower's token, for what the module runs.
    pub token: Option<String>,
    /// A person's at a terminal rather than one below the client.
    pub person: bool,
}

impl Call {
    pub fn below(kind: &str, args: &[&str]) -> Self {
        let words: Vec<String> = args.iter().map(|a| quoted(a)).collect();
        Call {
            kind: kind.to_owned(),
            line: format!("leaf {}", words.join(" ")),
            input: Vec::new(),
            token: None,
            person: false,
        }
    }

    pub fn person(args: &[&str]) -> Self {
        Call { person: true, ..Call::below(&args[..2].join(" "), args) }
    }

    pub fn hook(payload: &serde_json::Value) -> Self {
        let event = payload["hook_event_name"].as_str().unwrap_or_default();
        let whose = if payload.get("agent_id").is_some() { "a fork's" } else { "main's" };
        Call { input: payload.to_string().into_bytes(), ..Call::below(&format!("hook: {whose} {event}"), &["hook"]) }
    }

    pub fn with_input(mut self, input: &str) -> Self {
        self.input = input.as_bytes().to_owned();
        self
    }

    fn script(&self, death: Option<&Death>, trace: &Path) -> String {
        let tracer = death.map(|d| d.tracer(trace)).unwrap_or_default();
        let token = self.token.as_ref().map(|t| format!("export LEAF_TOKEN={}\n", quoted(t))).unwrap_or_default();
        format!("{token}leaf() {{ exec {tracer}\"$LEAF\" \"$@\"; }}\n{}\n", self.line)
    }
}

/// Runs all of them at the same moment and waits for them; each may have its death.
pub fn at_once(session: &Session<'_>, dir: &Path, calls: &[(Call, Option<Death>)]) -> Vec<Ran> {
    fs::create_dir_all(dir).expect("a directory for a call");
    let mut persons = Vec::new();
    let mut script = String::new();
    let mut kills = String::new();
    let mut wait = String::new();
    for (n, (call, death)) in calls.iter().enumerate() {
        let file = |end: &str| dir.join(format!("{n}.{end}"));
        let at = |end: &str| quoted(&file(end).to_string_lossy());
        let body = call.script(death.as_ref(), &file("trace"));
        if call.person {
            persons.push((n, person(session.desk(), &body, death.clone())));
            continue;
        }
        fs::write(file("in"), &call.input).expect("a call's input");
        script.push_str(&format!("(\n{body}) <{} >{} 2>{} &\np{n}=$!\n", at("in"), at("out"), at("err")));
        if let Some(Death::After(micros)) = death {
            kills.push_str(&format!(
                "{}kill -9 $p{n} 2>/dev/null\n",
                if *micros == 0 { String::new() } else { format!("sleep {}; ", seconds(*micros)) }
            ));
        }
        wait.push_str(&format!("wait $p{n}; echo $? >{}\n", at("rc")));
    }
    if !script.is_empty() {
        session.shell(&format!("{script}{kills}{wait}"));
    }
    let mut ran: Vec<(usize, Ran)> =
        persons.into_iter().map(|(n, thread)| (n, thread.join().expect("a person's command ends"))).collect();
    for n in (0..calls.len()).filter(|n| !calls[*n].0.person) {
        let read = |end: &str| fs::read(dir.join(format!("{n}.{end}"))).unwrap_or_default();
        let code = String::from_utf8_lossy(&read("rc")).trim().parse().unwrap_or(-1);
        ran.push((n, Ran { code, stdout: read("out"), stderr: read("err") }));
    }
    let _ = fs::remove_dir_all(dir);
    ran.sort_by_key(|(n, _)| *n);
    ran.into_iter().map(|(_, ran)| ran).collect()
}

fn person(desk: &Desk, body: &str, death: Option<Death>) -> std::thread::JoinHandle<Ran> {
    let mut command = Command::new("sh");
    command.args(["-c", body]).env_clear().envs(desk.env()).env("LEAF", LEAF).current_dir(desk.project());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("sh runs");
    std::thread::spawn(move || {
        if let Some(Death::After(micros)) = death {
            std::thread::sleep(Duration::from_micros(micros));
            let _ = child.kill();
        }
        Ran::from(child.wait_with_output().expect("it ends"))
    })
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A `leaf follow` below the client, until it ends.
pub struct Follow {
    dir: PathBuf,
    seen: usize,
    /// Whether it runs below strace, whose pid it then has.
    traced: bool,
}

impl Follow {
    pub fn start(session: &Session<'_>, dir: PathBuf, death: Option<&Death>) -> Self {
        fs::create_dir_all(&dir).expect("a directory for a follower");
        let tracer = death.map(|d| d.tracer(&dir.join("trace"))).unwrap_or_default();
        let at = |end: &str| quoted(&dir.join(end).to_string_lossy());
        session.shell(&format!(
            "( {tracer}\"$LEAF\" follow >{} 2>{} </dev/null &\necho $! >{}\nwait $!\necho $? >{} ) >/dev/null 2>&1 &",
            at("out"),
            at("err"),
            at("pid"),
            at("rc"),
        ));
        Follow { dir, seen: 0, traced: !tracer.is_empty() }
    }

    /// The exit code, once it ended.
    pub fn ended(&self) -> Option<i32> {
        fs::read_to_string(self.dir.join("rc")).ok()?.trim().parse().ok()
    }

    /// `kill -9`; not where it runs below strace.
    pub fn kill(&self) -> bool {
        let pid = fs::read_to_string(self.dir.join("pid")).unwrap_or_default();
        let Some(pid) = pid.trim().parse::<u32>().ok().filter(|_| !self.traced && self.ended().is_none()) else {
            return false;
        };
        crate::support::desk::signal_pid(pid, "KILL");
        true
    }

    /// The whole lines that nobody read yet.
    pub fn lines(&mut self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.dir.join("out")).unwrap_or_default();
        let Some(end) = text.rfind('\n').filter(|end| *end >= self.seen) else { return Vec::new() };
        let fresh = &text[self.seen..=end];
        let lines = fresh.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("a JSON line ({e}): {l}")));
        let lines = lines.collect();
        self.seen = end + 1;
        lines
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(self.dir.join("err")).unwrap_or_default()
    }
}
