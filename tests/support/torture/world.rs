//! A state directory, its clock, its sessions, and what was said of all that ran on it.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::client::{Client, Fate, Job, Ran, Running, run};

/// How many of the last words of an episode are told of a failure.
const TOLD: usize = 4_000;

/// What all that was done adds up to.
#[derive(Debug, Default)]
pub struct Counts {
    pub runs: AtomicU64,
    pub kills: AtomicU64,
    pub stops: AtomicU64,
    pub jumps: AtomicU64,
    pub injections: AtomicU64,
    pub cuts: AtomicU64,
    pub flips: AtomicU64,
    /// Caches deleted, or an older one put back.
    pub caches: AtomicU64,
    /// Times that a disk was full.
    pub full: AtomicU64,
    /// Runs that a full or failing disk was told by.
    pub refused: AtomicU64,
    pub acknowledged: AtomicU64,
}

impl Counts {
    pub fn all(&self) -> [&AtomicU64; 11] {
        let Counts { runs, kills, stops, jumps, injections, cuts, flips, caches, full, refused, acknowledged } = self;
        [runs, kills, stops, jumps, injections, cuts, flips, caches, full, refused, acknowledged]
    }
}

pub fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// A lock that outlives who panicked with it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct World {
    /// Everything of the episode lies in it.
    pub dir: PathBuf,
    pub leaf: PathBuf,
    pub counts: Arc<Counts>,
    clock: Mutex<i64>,
    told: Mutex<VecDeque<String>>,
    broken: Mutex<Vec<String>>,
    began: Instant,
    pub names: AtomicU64,
    /// Kills are spread over so many microseconds of a process.
    pub window: usize,
    /// Files may not grow beyond so many blocks of 512 bytes; 0: they may.
    pub blocks: AtomicU64,
}

impl World {
    /// A world of its own below a directory.
    pub fn new(dir: PathBuf, leaf: &Path, counts: &Arc<Counts>) -> World {
        for name in ["home", "project", "tmp", "out"] {
            fs::create_dir_all(dir.join(name)).expect("a directory of the world");
        }
        let _ = fs::DirBuilder::new().mode(0o700).create(dir.join("state"));
        let start = DateTime::parse_from_rfc3339("2027-03-01T10:00:00.000Z").expect("a time").timestamp_millis();
        let world = World {
            dir,
            leaf: leaf.to_owned(),
            counts: Arc::clone(counts),
            clock: Mutex::new(start),
            told: Mutex::default(),
            broken: Mutex::default(),
            began: Instant::now(),
            names: AtomicU64::new(0),
            window: 4_000,
            blocks: AtomicU64::new(0),
        };
        world.set_clock(|now| now);
        world
    }

    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    pub fn project(&self) -> PathBuf {
        self.dir.join("project")
    }

    /// A number that nobody had before in this world.
    pub fn fresh(&self) -> u64 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    pub fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(*lock(&self.clock)).expect("a time")
    }

    /// Moves the clock, milliseconds since 1970.
    pub fn set_clock(&self, to: impl FnOnce(i64) -> i64) {
        let mut clock = lock(&self.clock);
        *clock = to(*clock);
        let text =
            DateTime::from_timestamp_millis(*clock).expect("a time").to_rfc3339_opts(SecondsFormat::Millis, true);
        let next = self.dir.join("clock.next");
        fs::write(&next, text).and_then(|()| fs::rename(next, self.dir.join("clock"))).expect("the clock");
    }

    /// What every process has in its environment.
    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        vec![
            ("PATH".into(), std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into())),
            ("HOME".into(), text(self.dir.join("home"))),
            ("TMPDIR".into(), text(self.dir.join("tmp"))),
            ("LEAF_HOME".into(), text(self.state())),
            ("LEAF_NOW".into(), format!("@{}", text(self.dir.join("clock")))),
            // A panic would say where.
            ("RUST_BACKTRACE".into(), "1".into()),
        ]
    }

    pub fn job(&self, args: &[&str], fate: Fate) -> Job {
        let limit = match self.blocks.load(Ordering::Relaxed) {
            0 => Vec::new(),
            n => ["sh", "-c", &format!("trap '' XFSZ; ulimit -f {n}; exec \"$0\" \"$@\"")].map(str::to_owned).into(),
        };
        Job {
            program: self.leaf.clone(),
            prefix: limit,
            args: args.iter().map(|a| (*a).to_owned()).collect(),
            cwd: self.project(),
            fate,
            ..Job::default()
        }
    }

    /// A person's command: below no client.
    pub fn person(&self, args: &[&str], fate: Fate) -> Ran {
        self.person_job(&self.job(args, fate))
    }

    pub fn person_job(&self, job: &Job) -> Ran {
        self.count(job.fate);
        let mut command = job.command();
        command.env_clear().envs(self.env());
        let ran = run(job, &mut command, |_| {});
        self.heard("person", job, &ran);
        ran
    }

    /// Runs a person's job, or one below a client, and holds it to nothing.
    pub fn unheard(&self, session: Option<&Session>, job: &Job) -> Ran {
        self.count(job.fate);
        match session {
            None => run(job, job.command().env_clear().envs(self.env()), |_| {}),
            Some(session) => {
                let dead = || Ran { code: -1, out: String::new(), err: "its client is dead".into() };
                session.client.start_job(job).and_then(Running::wait).unwrap_or_else(dead)
            }
        }
    }

    /// A reading command that nothing meddles with: its JSON.
    pub fn ask(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let ran = self.person(&args, Fate::Lives);
        if ran.code != 0 {
            self.broken(format!("leaf {} succeeds: {ran:?}", args.join(" ")));
        }
        ran.json()
    }

    fn count(&self, fate: Fate) {
        add(&self.counts.runs);
        if let Fate::Stopped(..) = fate {
            add(&self.counts.stops);
        }
    }

    pub fn tell(&self, what: String) {
        let mut told = lock(&self.told);
        if told.len() == TOLD {
            told.pop_front();
        }
        told.push_back(format!("{:>8.3} {what}", self.began.elapsed().as_secs_f64()));
    }

    /// A promise was broken.
    pub fn broken(&self, what: String) {
        self.tell(format!("BROKEN: {what}"));
        lock(&self.broken).push(what);
    }

    pub fn is_broken(&self) -> bool {
        !lock(&self.broken).is_empty()
    }

    /// Whether so much is broken that the rest tells nothing new.
    pub fn is_hopeless(&self) -> bool {
        lock(&self.broken).len() >= 12
    }

    /// What was broken, and what came before it.
    pub fn account(&self) -> (Vec<String>, Vec<String>) {
        (lock(&self.broken).clone(), lock(&self.told).iter().cloned().collect())
    }

    /// Tells of a run and holds it to what every run promises (contract: Commands, Hooks).
    pub fn heard(&self, who: &str, job: &Job, ran: &Ran) {
        let line: String = job.args.join(" ").replace(['\n', '\r'], " ").chars().take(120).collect();
        let input: String = if job.args == ["hook"] {
            let payload: Value = serde_json::from_str(&job.input).unwrap_or_default();
            let agent = payload["agent_id"].as_str().unwrap_or("main");
            format!(" {} of {agent} {}", payload["hook_event_name"], payload["tool_input"]["command"])
        } else {
            job.input.replace(['\n', '\r'], " ").chars().take(60).collect()
        };
        let says: String = format!("{} {}", ran.out, ran.err).replace('\n', " ").chars().take(200).collect();
        self.tell(format!("{who}: leaf {line}{input} {:?}: {} {says}", job.fate, ran.code));
        if ran.killed() {
            add(&self.counts.kills);
        }
        if ran.err.contains("no space left") || ran.err.contains("file too large") {
            add(&self.counts.refused);
        }
        if let Some(why) = unpromised(job, ran) {
            self.broken(format!("{who}: leaf {line}{input}: {why}: {ran:?}"));
        }
    }

    /// A client below which nothing runs yet.
    pub fn session(self: &Arc<World>, id: &str) -> Session {
        let client = Arc::new(Client::start(&self.env(), &self.project()));
        self.session_of(client, id)
    }

    /// A session of a client that exists.
    pub fn session_of(self: &Arc<World>, client: Arc<Client>, id: &str) -> Session {
        Session { world: Arc::clone(self), client, id: id.to_owned(), prompt: Mutex::default() }
    }

    /// The pages' slugs.
    pub fn pages(&self) -> Vec<String> {
        let names = fs::read_dir(self.state().join("pages")).into_iter().flatten().flatten();
        let mut slugs: Vec<String> = names.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        slugs.retain(|slug| !slug.starts_with('.'));
        slugs.sort();
        slugs
    }
}

/// The name of a session's directory: the first 32 hex of its id's SHA-256.
pub fn session_key(id: &str) -> String {
    Sha256::digest(id.as_bytes()).iter().take(16).map(|b| format!("{b:02x}")).collect()
}

/// What a run did that the contract doesn't let it do.
pub fn unpromised(job: &Job, ran: &Ran) -> Option<String> {
    for word in ["panicked", "RUST_BACKTRACE", "stack backtrace", "internal error"] {
        if ran.err.contains(word) || ran.out.contains(word) {
            return Some(format!("it says {word}"));
        }
    }
    if ran.hung() {
        return Some("it hangs".into());
    }
    if ran.killed() {
        return (!matches!(job.fate, Fate::Killed(_))).then(|| "nobody killed it".into());
    }
    if job.out.is_some() {
        return None;
    }
    if job.args == ["hook"] {
        let object = || serde_json::from_str::<Value>(&ran.out).is_ok_and(|v| v.is_object());
        return match () {
            () if ran.code != 0 => Some("a hook exits 0".into()),
            () if !ran.out.is_empty() && !object() => Some("a hook prints one JSON object or nothing".into()),
            () if !ran.err.is_empty() => Some("a hook is silent".into()),
            () => None,
        };
    }
    match ran.code {
        0 if job.args.iter().any(|a| a == "--json") => {
            serde_json::from_str::<Value>(&ran.out).err().map(|e| format!("--json prints one JSON value ({e})"))
        }
        0 => None,
        1 if !ran.out.is_empty() && job.args[0] != "doctor" => Some("what is refused prints nothing".into()),
        1 if ran.err.lines().filter(|l| !l.trim().is_empty()).count() != 1 && job.args[0] != "doctor" => {
            Some("a refusal is one sentence".into())
        }
        1 => None,
        _ => Some("it exits 0 or 1".into()),
    }
}

/// A payload recorded from the real client: its file name without `.json`.
pub fn recorded(name: &str) -> Value {
    static READ: OnceLock<Mutex<BTreeMap<String, Value>>> = OnceLock::new();
    let mut read = lock(READ.get_or_init(Mutex::default));
    let known = read.entry(name.to_owned()).or_insert_with(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/support/payloads/{name}.json"));
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&text).expect("a recorded payload is JSON")
    });
    known.clone()
}

/// A session of a client.
pub struct Session {
    pub world: Arc<World>,
    pub client: Arc<Client>,
    pub id: String,
    prompt: Mutex<String>,
}

impl Session {
    /// Beside the client's own environment, what its hooks and commands have.
    pub fn env(&self, token: Option<&str>) -> Vec<(String, String)> {
        let mut env: Vec<(String, String)> = [
            ("CLAUDECODE", "1"),
            ("CLAUDE_CODE_CHILD_SESSION", "1"),
            ("CLAUDE_CODE_ENTRYPOINT", "cli"),
            ("CLAUDE_CODE_SESSION_ATTENDED", "1"),
            ("LEAF_FORK_WORK", "on"),
            ("CLAUDE_CODE_SESSION_ID", &self.id),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
        env.push(("CLAUDE_PID".into(), self.client.pid().to_string()));
        env.extend(token.map(|token| ("LEAF_TOKEN".to_owned(), token.to_owned())));
        env
    }

    /// A recorded payload made this session's own.
    pub fn payload(&self, name: &str) -> Value {
        let mut payload = recorded(name);
        let project = self.world.project().to_string_lossy().into_owned();
        payload["session_id"] = json!(self.id);
        payload["cwd"] = json!(project);
        payload["transcript_path"] = json!(self.transcript());
        if payload.get("prompt_id").is_some() {
            payload["prompt_id"] = json!(*lock(&self.prompt));
        }
        payload
    }

    pub fn transcript(&self) -> PathBuf {
        let folder = self.world.project().to_string_lossy().replace('/', "-");
        self.world.dir.join(format!("home/.claude/projects/{folder}/{}.jsonl", self.id))
    }

    /// A prompt of its own from now on.
    pub fn new_prompt(&self) {
        *lock(&self.prompt) = format!("c930326e-fe75-4057-a1fd-{:012}", self.world.fresh());
    }

    pub fn job(&self, args: &[&str], token: Option<&str>, fate: Fate) -> Job {
        Job { env: self.env(token), ..self.world.job(args, fate) }
    }

    /// Runs a job below the client. One whose client was killed first counts as killed.
    pub fn run_job(&self, job: &Job) -> Ran {
        self.world.count(job.fate);
        match self.client.start_job(job).and_then(Running::wait) {
            Some(ran) => {
                self.world.heard(&self.id, job, &ran);
                ran
            }
            None => {
                self.world.tell(format!("{}: leaf {}: its client is dead", self.id, job.args.join(" ")));
                Ran { code: super::client::KILLED, out: String::new(), err: String::new() }
            }
        }
    }

    pub fn run(&self, args: &[&str], fate: Fate) -> Ran {
        self.run_job(&self.job(args, None, fate))
    }

    pub fn hook(&self, payload: &Value, fate: Fate) -> Ran {
        let job = Job { input: payload.to_string(), ..self.job(&["hook"], None, fate) };
        self.run_job(&job)
    }
}

/// The context that a hook added, where its output was whole.
pub fn context(ran: &Ran) -> String {
    ran.json()["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}
