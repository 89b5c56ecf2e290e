//! Processes of ours and what becomes of them, and the clients below which they run.
//!
//! Who speaks is decided by ancestry (R71), so that a client is a process of its own: this very program in another
//! role, which reads jobs from its standard input, a JSON line each, and writes how they ended.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// The first argument of this program where it is a client.
pub const ROLE: &str = "be-a-client";

/// What a kill leaves as the exit code.
pub const KILLED: i32 = 128 + 9;

/// Longer than any deadline of `leaf`'s own on a busy machine: what runs on hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a process that hung is killed with, so that it is told from one that was to be killed.
const HUNG: i32 = 128 + 6;

/// What is to become of a process.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub enum Fate {
    /// It ends by itself.
    #[default]
    Lives,
    /// `kill -9` after so many microseconds.
    Killed(u64),
    /// Stopped after so many microseconds, and continued so many milliseconds later.
    Stopped(u64, u64),
}

/// One process to be run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Job {
    pub program: PathBuf,
    /// What runs the program: `strace` with its options, or a shell that sets a limit.
    pub prefix: Vec<String>,
    pub args: Vec<String>,
    /// Beside the environment of who runs it.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    pub input: String,
    pub fate: Fate,
    /// Where its output goes, if it is to be read while it runs.
    pub out: Option<PathBuf>,
}

/// How a process ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    /// 128 + the signal, where one ended it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn killed(&self) -> bool {
        self.code == KILLED
    }

    pub fn hung(&self) -> bool {
        self.code == HUNG && self.err.is_empty()
    }

    /// What a writer's `--json` printed.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_default()
    }
}

pub fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

impl Job {
    /// The command, with nothing yet but its words.
    pub fn command(&self) -> Command {
        let Some((first, rest)) = self.prefix.split_first() else {
            let mut command = Command::new(&self.program);
            command.args(&self.args);
            return command;
        };
        let mut command = Command::new(first);
        command.args(rest).arg(&self.program).args(&self.args);
        command
    }
}

/// Runs a job's command to its end. `started` hears its pid.
pub fn run(job: &Job, command: &mut Command, started: impl FnOnce(u32)) -> Ran {
    command.envs(job.env.iter().map(|(k, v)| (k, v))).current_dir(&job.cwd);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    match &job.out {
        Some(path) => command.stdout(File::create(path).expect("a file for what it prints")),
        None => command.stdout(Stdio::piped()),
    };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Ran { code: -1, out: String::new(), err: format!("can't be run: {error}") },
    };
    let pid = child.id();
    started(pid);
    if let Some(mut pipe) = child.stdin.take() {
        let _ = pipe.write_all(job.input.as_bytes());
    }
    match job.fate {
        Fate::Lives => {}
        Fate::Killed(after) => {
            std::thread::sleep(Duration::from_micros(after));
            let _ = child.kill();
        }
        Fate::Stopped(after, length) => {
            std::thread::sleep(Duration::from_micros(after));
            send(pid, Signal::STOP);
            std::thread::sleep(Duration::from_millis(length));
            send(pid, Signal::CONT);
        }
    }
    finish(child, job.out.is_some())
}

fn finish(mut child: Child, for_long: bool) -> Ran {
    let pid = child.id();
    let stdout = child.stdout.take().map(read_all);
    let stderr = child.stderr.take().map(read_all);
    let text = |reader: Option<Receiver<Vec<u8>>>| {
        let bytes = match reader {
            Some(reader) if for_long => reader.recv().unwrap_or_default(),
            Some(reader) => match reader.recv_timeout(PATIENCE) {
                Ok(bytes) => bytes,
                Err(_) => {
                    send(pid, Signal::ABORT);
                    reader.recv().unwrap_or_default()
                }
            },
            None => Vec::new(),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (out, err) = (text(stdout), text(stderr));
    let status = child.wait().expect("it is ours to wait for");
    Ran { code: status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(-1), out, err }
}

fn read_all(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

#[derive(Serialize, Deserialize)]
enum Word {
    Pid(u64, u32),
    Ran(u64, Ran),
}

/// The role of a client: runs what it is told until its standard input closes.
pub fn be_a_client() {
    let out = Arc::new(Mutex::new(std::io::stdout()));
    let say = |word: &Word, out: &Mutex<std::io::Stdout>| {
        let mut line = serde_json::to_string(word).expect("a word");
        line.push('\n');
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    };
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let (number, job): (u64, Job) = serde_json::from_str(&line).expect("a job");
        let out = Arc::clone(&out);
        std::thread::spawn(move || {
            let ran = run(&job, &mut job.command(), |pid| say(&Word::Pid(number, pid), &out));
            say(&Word::Ran(number, ran), &out);
        });
    }
}

struct Waiting {
    pid: Sender<u32>,
    ran: Sender<Ran>,
}

/// A stand-in for a coding agent's process.
pub struct Client {
    child: Mutex<Child>,
    jobs: Mutex<(u64, Option<ChildStdin>)>,
    waiting: Arc<Mutex<HashMap<u64, Waiting>>>,
    pid: u32,
}

/// A job of a client until it ends.
pub struct Running {
    pid: Receiver<u32>,
    ran: Receiver<Ran>,
}

impl Running {
    /// Its pid, once it runs.
    pub fn pid(&self) -> Option<u32> {
        self.pid.recv_timeout(PATIENCE).ok()
    }

    /// How it ended; nothing where it runs on.
    pub fn ended(&self) -> Option<Ran> {
        self.ran.try_recv().ok()
    }

    /// How it ended; nothing where its client was killed first.
    pub fn wait(self) -> Option<Ran> {
        self.ran.recv().ok()
    }
}

impl Client {
    /// Starts a client with nothing but this environment.
    pub fn start(env: &[(String, String)], cwd: &Path) -> Client {
        let own = std::env::current_exe().expect("this program has a path");
        let mut command = Command::new(own);
        command.arg(ROLE).env_clear().envs(env.iter().map(|(k, v)| (k, v))).current_dir(cwd);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("a client");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("a client's words");
        let waiting: Arc<Mutex<HashMap<u64, Waiting>>> = Arc::default();
        let heard = Arc::clone(&waiting);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                let Ok(word) = serde_json::from_str::<Word>(&line) else { break };
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                match word {
                    Word::Pid(number, pid) => drop(heard.get(&number).map(|w| w.pid.send(pid))),
                    Word::Ran(number, ran) => drop(heard.remove(&number).map(|w| w.ran.send(ran))),
                }
            }
            heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
        });
        let pid = child.id();
        Client { child: Mutex::new(child), jobs: Mutex::new((0, input)), waiting, pid }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Starts a job below the client; nothing where the client is dead.
    pub fn start_job(&self, job: &Job) -> Option<Running> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.0 += 1;
        let number = jobs.0;
        let (pid_sender, pid) = channel();
        let (ran_sender, ran) = channel();
        let waiting = Waiting { pid: pid_sender, ran: ran_sender };
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(number, waiting);
        let mut line = serde_json::to_string(&(number, job)).expect("a job");
        line.push('\n');
        let input = jobs.1.as_mut()?;
        input.write_all(line.as_bytes()).ok()?;
        Some(Running { pid, ran })
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).1 = None;
        // What was started as it died is never heard of.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.kill();
    }
}
