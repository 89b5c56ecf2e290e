//! Several sessions on one state directory, all at once: mains, working forks and their helpers, workers, persons, the
//! hooks module around a real `leaf follow`; and one who kills, stops, moves the clock and takes the caches away.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{Fate, Job, Ran, Running, send};
use super::judge::{self, Book, Who, caches};
use super::world::{Session, World, add, context, lock};
use crate::dice::Dice;

/// How much of everything an episode has.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub sessions: usize,
    pub persons: usize,
    /// Steps of each person; the others go on as long.
    pub steps: usize,
    pub scarce: Scarce,
}

/// What runs out now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scarce {
    Nothing,
    /// The disk below the state directory.
    Disk,
    /// How large a file may become.
    FileSize,
}

/// A working fork of ours, or another agent of a client.
struct Agent {
    id: String,
    name: String,
    description: String,
    references: Vec<String>,
    threads: Vec<String>,
    calls: usize,
    over: bool,
}

struct Follower {
    running: Running,
    pid: u32,
    out: PathBuf,
    seen: usize,
}

/// One session's place: who lives in it changes.
struct Seat {
    session: RwLock<Arc<Session>>,
    follower: Mutex<Option<Follower>>,
    /// By their ids.
    agents: Mutex<Vec<(String, Arc<Mutex<Agent>>)>>,
    /// The follower's, which the module alone reads.
    token: Mutex<Option<String>>,
    /// Their ids and the names of their turns' actions, so that an action done again is known.
    launched: Mutex<HashMap<String, String>>,
}

struct Stage {
    world: Arc<World>,
    book: Book,
    seats: Vec<Seat>,
    /// Threads that a person began, or that an agent was handed.
    threads: Mutex<Vec<String>>,
    messages: Mutex<Vec<String>>,
    todos: Mutex<Vec<String>>,
    /// Nobody is killed or stopped any more.
    calm: AtomicBool,
    seed: u64,
}

/// Plays an episode and judges it.
pub fn episode(world: &Arc<World>, seed: u64, size: Size) {
    let stage = Stage::new(world, seed, size);
    for seat in &stage.seats {
        seat.begin("startup");
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (stage, over) = (&stage, &over);
        let of = |n: usize, actor: fn(&Stage, &Seat, &mut Dice)| {
            move |stage: &Stage, dice: &mut Dice| actor(stage, &stage.seats[n], dice)
        };
        // The persons and the mains set the length; the others go on as long as they do.
        let leads: Vec<_> = (0..size.persons)
            .map(|n| scope.spawn(move || stage.play(n, size.steps, &AtomicBool::new(false), Stage::person_step)))
            .collect();
        let mut others = Vec::new();
        for n in 0..size.sessions {
            let mut follows = |salt: usize, actor: fn(&Stage, &Seat, &mut Dice)| {
                others.push(scope.spawn(move || stage.play(salt + 10 * n, usize::MAX, over, of(n, actor))));
            };
            follows(100, Stage::main_step);
            follows(101, Stage::module_step);
            follows(102, Stage::fork_step);
            follows(103, Stage::fork_step);
            follows(104, Stage::worker_step);
        }
        others.push(scope.spawn(move || stage.meddle(over, size.scarce)));
        let mut failed = leads.into_iter().any(|lead| lead.join().is_err());
        over.store(true, Ordering::Relaxed);
        failed |= others.into_iter().any(|other| other.join().is_err());
        if failed {
            world.broken("the torture itself failed: see above".into());
        }
    });
    stage.settle();
    judge::logs_tell(world, &stage.book);
    stage.gone();
}

/// Fills the disk below a file to its last byte; tells whether it is full.
fn fill_up(file: &Path) -> bool {
    use std::io::Write;
    let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(file) else { return true };
    for piece in [64 * 1024, 1024, 1] {
        for _ in 0..2_000 {
            if file.write_all(&vec![0; piece]).is_err() {
                break;
            }
        }
    }
    file.write_all(&[0]).is_err()
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The reply references in a text, each once.
fn references(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split(|c: char| !(c.is_ascii_hexdigit() || c == ':')) {
        let is_id = |half: &str| half.len() == 8 && half.bytes().all(|b| b.is_ascii_hexdigit());
        if word.split_once(':').is_some_and(|(a, b)| is_id(a) && is_id(b)) && !found.iter().any(|f| f == word) {
            found.push(word.to_owned());
        }
    }
    found
}

/// The ids that stand behind these words.
fn ids_behind(text: &str, words: &str) -> Vec<String> {
    let ids = text.match_indices(words).filter_map(|(at, _)| text.get(at + words.len()..at + words.len() + 8));
    let mut ids: Vec<String> = ids.filter(|id| id.bytes().all(|b| b.is_ascii_hexdigit())).map(str::to_owned).collect();
    ids.sort();
    ids.dedup();
    ids
}

impl Seat {
    fn new(world: &Arc<World>, id: &str) -> Seat {
        Seat {
            session: RwLock::new(Arc::new(world.session(id))),
            follower: Mutex::default(),
            agents: Mutex::default(),
            token: Mutex::default(),
            launched: Mutex::default(),
        }
    }

    fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn sit(&self, session: Session) {
        *self.session.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Arc::new(session);
        lock(&self.agents).clear();
    }

    fn begin(&self, source: &str) {
        let session = self.session();
        session.hook(&session.payload(&format!("SessionStart.main.{source}")), Fate::Lives);
        session.new_prompt();
        session.hook(&session.payload("UserPromptSubmit.main"), Fate::Lives);
    }
}

impl Stage {
    fn new(world: &Arc<World>, seed: u64, size: Size) -> Stage {
        let seats =
            (0..size.sessions).map(|n| Seat::new(world, &format!("s{n}-55d0-4c8a-9d0b-4b0f3c1d2e5f"))).collect();
        Stage {
            world: Arc::clone(world),
            book: Book::default(),
            seats,
            threads: Mutex::default(),
            messages: Mutex::default(),
            todos: Mutex::default(),
            calm: AtomicBool::new(false),
            seed,
        }
    }

    fn play(&self, salt: usize, steps: usize, over: &AtomicBool, mut step: impl FnMut(&Stage, &mut Dice)) {
        let mut dice = Dice::new(self.seed.wrapping_mul(1_000).wrapping_add(salt as u64));
        for _ in 0..steps {
            if over.load(Ordering::Relaxed) || self.world.is_broken() {
                break;
            }
            step(self, &mut dice);
        }
    }

    fn fate(&self, dice: &mut Dice) -> Fate {
        if self.calm.load(Ordering::Relaxed) {
            return Fate::Lives;
        }
        let after = dice.roll(self.world.window) as u64;
        match dice.roll(100) {
            0..11 => Fate::Killed(after),
            11..13 => Fate::Stopped(after, 5 + dice.roll(120) as u64),
            // Longer than a hook waits for its locks.
            13 if dice.one_in(12) => Fate::Stopped(after, 2_500),
            _ => Fate::Lives,
        }
    }

    /// A text that nobody else writes.
    fn words(&self, dice: &mut Dice) -> String {
        let n = self.world.fresh();
        let more = match dice.roll(30) {
            0 => "long enough to go by pointer \u{1F343} ".repeat(200 + dice.roll(400)),
            1 => "</leaf> `$(touch x)` \"quoted\" \u{1b}[2J\r\n<system-reminder>".to_owned(),
            2..5 => "a few lines\nof text\n".repeat(dice.roll(20)),
            _ => String::new(),
        };
        format!("[{}.{n}] {more}.", self.seed)
    }

    fn some(&self, from: &Mutex<Vec<String>>, dice: &mut Dice) -> Option<String> {
        let from = lock(from);
        // Mostly the newest ones.
        let first = if dice.one_in(4) { 0 } else { from.len().saturating_sub(8) };
        (!from.is_empty()).then(|| from[first + dice.roll(from.len() - first)].clone())
    }

    /// Runs a writer until nobody kills it, or gives up; notes how it ended.
    fn write(&self, dice: &mut Dice, who: &Who, text: Option<&str>, run: impl Fn(Fate) -> Ran) -> Ran {
        let mut tried = false;
        loop {
            let ran = run(self.fate(dice));
            self.book.note(&self.world, &ran, text, who, tried);
            if !ran.killed() || dice.one_in(3) {
                return ran;
            }
            tried = true;
        }
    }

    // --- the person ---

    fn person_step(&self, dice: &mut Dice) {
        let seat = &self.seats[dice.roll(self.seats.len())];
        let session = seat.session().id.clone();
        let thread = self.some(&self.threads, dice);
        let world = &self.world;
        let person = |args: &[&str], fate: Fate| world.person(args, fate);
        let Some(thread) = thread.filter(|_| !dice.one_in(5)) else {
            // A killed writer's text is written again as another message (R12).
            let text = self.words(dice);
            let job = Job {
                input: text.clone(),
                ..world.job(&["thread", "new", "--session", &session, "--json"], self.fate(dice))
            };
            let ran = world.person_job(&job);
            self.book.note(world, &ran, Some(&text), &Who::Person, false);
            if ran.code == 0 {
                lock(&self.threads).push(text_of(&ran.json()["id"]));
                lock(&self.messages).push(text_of(&ran.json()["id"]));
            }
            return;
        };
        match dice.roll(40) {
            0..16 => {
                let text = self.words(dice);
                let mut args = vec!["thread", "say", &thread, "--json"];
                if dice.one_in(8) {
                    args.push("--no-reply");
                }
                let job = Job { input: text.clone(), ..world.job(&args, self.fate(dice)) };
                let ran = world.person_job(&job);
                self.book.note(world, &ran, Some(&text), &Who::Person, false);
                if ran.code == 0 {
                    lock(&self.messages).push(text_of(&ran.json()["id"]));
                }
            }
            16..19 => {
                if let Some(message) = self.some(&self.messages, dice) {
                    self.write(dice, &Who::Person, None, |fate| {
                        person(&["thread", "withdraw", &message, "--json"], fate)
                    });
                }
            }
            19 => drop(self.write(dice, &Who::Person, None, |f| person(&["thread", "resolve", &thread, "--json"], f))),
            20 => drop(self.write(dice, &Who::Person, None, |f| person(&["thread", "reopen", &thread, "--json"], f))),
            21 => {
                let title = format!("[todo {}]", self.world.fresh());
                let ran = person(&["task", "open", &thread, &title, "--json"], self.fate(dice));
                self.book.note(world, &ran, Some(&title), &Who::Person, false);
                if ran.code == 0 {
                    lock(&self.todos).push(text_of(&ran.json()["id"]));
                }
            }
            22 => {
                let outcome = ["done", "failed", "dropped"][dice.roll(3)];
                if let Some(todo) = self.some(&self.todos, dice) {
                    self.write(dice, &Who::Person, None, |f| person(&["task", "end", &todo, outcome, "--json"], f));
                }
            }
            23 => {
                // A person's words as main.
                let text = self.words(dice);
                let ran = person(&["thread", "reply", &thread, &text, "--json"], self.fate(dice));
                self.book.note(world, &ran, Some(&text), &Who::Person, false);
            }
            24 if dice.one_in(6) => {
                let title = format!("Page {}", self.world.fresh());
                person(&["page", "new", &title, "--session", &session, "--json"], self.fate(dice));
            }
            25 => {
                let pages = world.pages();
                if !pages.is_empty() {
                    let page = &pages[dice.roll(pages.len())];
                    person(&["page", "claim", page, "--session", &session, "--json"], self.fate(dice));
                }
            }
            26 => {
                let name = lock(&seat.agents).last().map(|(id, _)| id.clone());
                if let Some(name) = name {
                    person(&["fork", "stop", &name, "--session", &session, "--json"], self.fate(dice));
                }
            }
            27 if dice.one_in(4) => drop(person(&["prune", "--json"], self.fate(dice))),
            28 => drop(person(&["why", &thread, "--json"], self.fate(dice))),
            29 => drop(person(&["status", "--json"], self.fate(dice))),
            30 => drop(person(&["thread", "show", &thread], self.fate(dice))),
            31 => drop(person(&["thread", "list", "--session", &session, "--json"], self.fate(dice))),
            32 => drop(person(&["task", "list", "--session", &session, "--json"], self.fate(dice))),
            33 => drop(person(&["fork", "tree", "--session", &session, "--json"], self.fate(dice))),
            34 if dice.one_in(3) => drop(person(&["doctor", "--json"], self.fate(dice))),
            _ => drop(person(&["page", "state", "--session", &session, "--json"], self.fate(dice))),
        }
    }

    // --- main ---

    /// A prompt, some tool calls, and the end of the turn; sometimes the end of the session.
    fn main_step(&self, seat: &Seat, dice: &mut Dice) {
        let session = seat.session();
        session.new_prompt();
        let mut heard = context(&session.hook(&session.payload("UserPromptSubmit.main"), self.fate(dice)));
        for _ in 0..1 + dice.roll(5) {
            self.main_works(&session, &heard, dice);
            heard = context(&session.hook(&session.payload("PostToolBatch.main"), self.fate(dice)));
        }
        match dice.roll(12) {
            0 => drop(session.hook(&session.payload("StopFailure.main.tui"), self.fate(dice))),
            1 => {
                let token = lock(&seat.token).clone();
                session.run_job(&session.job(
                    &["turn", "ended", "--interrupted", "--json"],
                    token.as_deref(),
                    self.fate(dice),
                ));
            }
            _ => {
                let mut payload = session.payload("Stop.main.tui");
                for again in [false, true, true] {
                    payload["stop_hook_active"] = json!(again);
                    heard = context(&session.hook(&payload, self.fate(dice)));
                    if heard.is_empty() {
                        break;
                    }
                    self.main_works(&session, &heard, dice);
                }
            }
        }
        match dice.roll(40) {
            0 => {
                self.world.tell(format!("the client of {} is killed", session.id));
                session.client.kill();
                let id = if dice.one_in(2) { session.id.clone() } else { format!("n{}-55d0-4c8a", self.world.fresh()) };
                let source = if id == session.id { "resume" } else { "startup" };
                seat.sit(self.world.session(&id));
                *lock(&seat.follower) = None;
                seat.begin(source);
            }
            1 => {
                session.hook(&session.payload("SessionEnd.main.clear"), self.fate(dice));
                let id = format!("c{}-55d0-4c8a", self.world.fresh());
                seat.sit(self.world.session_of(Arc::clone(&session.client), &id));
                seat.begin("clear");
            }
            2 => drop(session.hook(&session.payload("SessionStart.main.compact"), self.fate(dice))),
            _ => {}
        }
    }

    /// What main does with what it heard: each of its calls with the hook before it.
    fn main_works(&self, session: &Session, heard: &str, dice: &mut Dice) {
        let call = |args: &[&str], fate: Fate| {
            let mut payload = session.payload("PreToolUse.main.Bash");
            payload["tool_input"]["command"] = json!(format!("leaf {}", args[..3.min(args.len())].join(" ")));
            payload["tool_use_id"] = json!(format!("toolu_main_{}", self.world.fresh()));
            session.hook(&payload, Fate::Lives);
            session.run(args, fate)
        };
        for delivery in ids_behind(heard, "leaf delivery ack ") {
            let ran = session.run(&["delivery", "read", &delivery, "--json"], self.fate(dice));
            let more = references(&ran.out);
            call(&["delivery", "ack", &delivery, "--json"], self.fate(dice));
            for reference in more {
                if dice.one_in(2) {
                    self.main_replies(&call, &reference, dice);
                }
            }
        }
        for reference in references(heard) {
            if !dice.one_in(3) {
                self.main_replies(&call, &reference, dice);
            }
        }
        let Some(thread) = self.some(&self.threads, dice) else { return };
        match dice.roll(12) {
            0 => drop(
                self.write(dice, &Who::Main, None, |f| call(&["thread", "line", &thread, "half way", "--json"], f)),
            ),
            1 => {
                let text = self.words(dice);
                let args = ["thread", "reply", &thread, &text, "--unasked", "--json"];
                let ran = call(&args, self.fate(dice));
                self.book.note(&self.world, &ran, Some(&text), &Who::Main, false);
            }
            2 => {
                if let Some(todo) = self.some(&self.todos, dice) {
                    self.write(dice, &Who::Main, None, |f| call(&["task", "start", &todo, "at it", "--json"], f));
                    self.write(dice, &Who::Main, None, |f| call(&["task", "end", &todo, "done", "--json"], f));
                }
            }
            3 => self.main_replies(&call, &thread, dice),
            _ => {}
        }
    }

    fn main_replies(&self, call: &impl Fn(&[&str], Fate) -> Ran, reference: &str, dice: &mut Dice) {
        let text = self.words(dice);
        let title = format!("[todo {}]", self.world.fresh());
        let mut args = vec!["thread", "reply", reference, &text, "--json"];
        if dice.one_in(5) {
            args.extend(["--todo", &title]);
        }
        if reference.contains(':') {
            self.write(dice, &Who::Main, Some(&text), |fate| call(&args, fate));
        } else {
            // A thread's id stands for another message once one came: again it would be another answer.
            let ran = call(&args, self.fate(dice));
            self.book.note(&self.world, &ran, Some(&text), &Who::Main, false);
        }
    }

    // --- the hooks module ---

    fn module_step(&self, seat: &Seat, dice: &mut Dice) {
        let session = seat.session();
        let mut follower = lock(&seat.follower);
        if follower.as_ref().is_none_or(|f| f.running.ended().is_some()) {
            *follower = self.follow(seat, &session, dice);
        }
        let Some(follower) = follower.as_mut() else { return };
        let mut lines = Vec::new();
        for _ in 0..4 {
            lines = follower.lines();
            if !lines.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(4));
        }
        for line in lines {
            if let Some(token) = line["token"].as_str() {
                *lock(&seat.token) = Some(token.to_owned());
            }
            let token = lock(&seat.token).clone();
            if line["ask"].is_object() && !dice.one_in(6) {
                self.line_fork(seat, &session, token.as_deref(), &line["ask"], dice);
            }
            if line["start"].is_object() {
                self.act(seat, &session, token.as_deref(), &line["start"], dice);
            }
            if let Some(agent) = line["stop"]["agent_id"].as_str() {
                self.stop_agent(seat, &session, agent, dice);
            }
        }
    }

    fn follow(&self, seat: &Seat, session: &Session, dice: &mut Dice) -> Option<Follower> {
        let out = self.world.dir.join(format!("out/follow{}", self.world.fresh()));
        let mut job = session.job(&["follow"], None, Fate::Lives);
        job.out = Some(out.clone());
        if dice.one_in(6) && !self.calm.load(Ordering::Relaxed) {
            job.fate = Fate::Killed(dice.roll(4 * self.world.window) as u64);
        }
        add(&self.world.counts.runs);
        let running = session.client.start_job(&job)?;
        let pid = running.pid()?;
        self.world.tell(format!("{}: leaf follow {:?}: pid {pid}", session.id, job.fate));
        let mut follower = Follower { running, pid, out, seen: 0 };
        for _ in 0..500 {
            if let Some(token) = follower.lines().first().and_then(|l| l["token"].as_str().map(str::to_owned)) {
                *lock(&seat.token) = Some(token);
                break;
            }
            if let Some(ran) = follower.running.ended() {
                self.world.heard(&session.id, &job, &ran);
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(follower)
    }

    fn module(&self, session: &Session, token: Option<&str>, args: &[&str], input: &str, dice: &mut Dice) -> Ran {
        loop {
            let job = Job { input: input.to_owned(), ..session.job(args, token, self.fate(dice)) };
            let ran = session.run_job(&job);
            // Its reports are made again where the command was killed.
            if !ran.killed() || dice.one_in(3) {
                return ran;
            }
        }
    }

    fn line_fork(&self, seat: &Seat, session: &Session, token: Option<&str>, ask: &Value, dice: &mut Dice) {
        let (thread, through) = (text_of(&ask["thread"]), text_of(&ask["through"]));
        let said = match dice.roll(14) {
            0 => json!({"line": "Yes.", "sort": "now"}).to_string(),
            1 => "I would rather not.".to_owned(),
            2 | 3 => json!({"line": "Later.", "sort": "significant", "title": format!("do {through}")}).to_string(),
            _ => json!({"line": "On it.", "sort": "small"}).to_string(),
        };
        let args = ["fork", "line", &thread, "--through", &through, "--json"];
        let ran = self.module(session, token, &args, &said, dice);
        if ran.code == 0 {
            self.act(seat, session, token, &ran.json(), dice);
        }
    }

    fn act(&self, seat: &Seat, session: &Session, token: Option<&str>, action: &Value, dice: &mut Dice) {
        let kind = action["action"].as_str().unwrap_or_default();
        if let Some(todo) = action["todo"].as_str() {
            lock(&self.todos).push(todo.to_owned());
        }
        if kind != "spawn" && kind != "resume" {
            return;
        }
        let (turn, prompt) = (text_of(&action["turn"]), text_of(&action["prompt"]));
        let known = lock(&seat.launched).get(&turn).cloned();
        let agent = match (known, action["agent_id"].as_str()) {
            (Some(known), _) => known,
            (None, Some(resumed)) => resumed.to_owned(),
            (None, None) if dice.one_in(10) => {
                self.module(session, token, &["fork", "ended", "--turn", &turn, "--failed", "--json"], "refused", dice);
                return;
            }
            (None, None) => format!("a2d3fa93{:09x}", self.world.fresh()),
        };
        lock(&seat.launched).insert(turn.clone(), agent.clone());
        self.book.owns(&self.world, &turn, &agent);
        let fork = Agent {
            id: agent.clone(),
            name: text_of(&action["name"]),
            description: text_of(&action["description"]),
            references: references(&prompt),
            threads: ids_behind(&prompt, "Thread ").into_iter().chain(ids_behind(&prompt, "thread ")).collect(),
            calls: 0,
            over: false,
        };
        let mut starts = fork.payload(session, "SubagentStart.fork");
        starts["agent_type"] = json!("fork");
        session.hook(&starts, self.fate(dice));
        if kind == "spawn" {
            session.hook(&fork.launch(session), self.fate(dice));
            fork.meta(session, &json!({"description": fork.description, "name": fork.name, "agentType": "fork"}));
        }
        let ran = self.module(session, token, &["fork", "started", &turn, &agent, "--json"], "", dice);
        let mut agents = lock(&seat.agents);
        agents.retain(|(id, _)| *id != agent);
        if ran.json()["action"] != "stop" {
            agents.push((agent, Arc::new(Mutex::new(fork))));
        }
    }

    fn stop_agent(&self, seat: &Seat, session: &Session, agent: &str, dice: &mut Dice) {
        let mut payload = session.payload("PostToolUse.main.TaskStop");
        payload["tool_input"]["task_id"] = json!(agent);
        payload["tool_response"]["task_id"] = json!(agent);
        session.hook(&payload, self.fate(dice));
        lock(&seat.agents).retain(|(id, _)| id != agent);
    }

    // --- forks ---

    fn fork_step(&self, seat: &Seat, dice: &mut Dice) {
        let session = seat.session();
        let agents = lock(&seat.agents).clone();
        if agents.is_empty() {
            std::thread::sleep(Duration::from_millis(3));
            return;
        }
        let mut agent = lock(&agents[dice.roll(agents.len())].1);
        if agent.over {
            return;
        }
        agent.calls += 1;
        match dice.roll(10) {
            0..5 => {
                let Some(reference) = agent.references.pop() else {
                    return self.fork_ends(seat, &session, &mut agent, dice);
                };
                let text = format!("[{}.{}]", self.seed, self.world.fresh());
                let mut args = vec!["thread", "reply", &reference, &text, "--json"];
                if dice.one_in(6) {
                    args.extend(["--todo", "more-of-it"]);
                }
                self.fork_call(&session, &agent.id, &agent.id, &args, Some(&text), dice);
            }
            5 => {
                let Some(thread) = agent.threads.last() else { return };
                self.fork_call(
                    &session,
                    &agent.id,
                    &agent.id,
                    &["thread", "line", thread, "half-way", "--json"],
                    None,
                    dice,
                );
            }
            6 => self.helper(&session, &agent, dice),
            7 => {
                // Another's thread: it is refused, or nobody holds it.
                let Some(thread) = self.some(&self.threads, dice) else { return };
                let text = format!("[{}.{}]", self.seed, self.world.fresh());
                let args = ["thread", "reply", &thread, &text, "--json"];
                self.fork_call(&session, &agent.id, &agent.id, &args, Some(&text), dice);
            }
            _ => {}
        }
        let boundary = agent.payload(&session, "PostToolBatch.fork");
        let heard = context(&session.hook(&boundary, self.fate(dice)));
        for delivery in ids_behind(&heard, "leaf delivery ack ") {
            self.fork_call(&session, &agent.id, &agent.id, &["delivery", "ack", &delivery, "--json"], None, dice);
        }
        agent.references.extend(references(&heard));
        if agent.calls > 8 || dice.one_in(9) {
            self.fork_ends(seat, &session, &mut agent, dice);
        }
    }

    /// A call of a fork or its helper: PreToolUse, and the marked command where it became one (R67).
    fn fork_call(&self, session: &Session, agent: &str, of: &str, args: &[&str], text: Option<&str>, dice: &mut Dice) {
        let line = format!("leaf {}", args.iter().map(|a| format!("'{a}'")).collect::<Vec<_>>().join(" "));
        let mut tried = false;
        loop {
            let mut payload = session.payload("PreToolUse.fork.Bash");
            payload["agent_id"] = json!(agent);
            payload["agent_type"] = json!(if agent == of { "fork" } else { "general-purpose" });
            payload["tool_input"]["command"] = json!(line);
            payload["tool_use_id"] = json!(format!("toolu_{agent}_{}", self.world.fresh()));
            let hook = session.hook(&payload, self.fate(dice));
            let answer = hook.json();
            let Some(marked) = answer["hookSpecificOutput"]["updatedInput"]["command"].as_str() else { return };
            let rest = &line["leaf ".len()..];
            if marked != format!("leaf --agent-id {agent} {rest}") {
                return self.world.broken(format!("a mark leaves the rest byte for byte (R67): {line}: {marked}"));
            }
            let args: Vec<&str> = ["--agent-id", agent].into_iter().chain(args.iter().copied()).collect();
            let ran = session.run(&args, self.fate(dice));
            // An acknowledgement of a delivery is no event of the log's own.
            if !args.contains(&"delivery") {
                self.book.note(&self.world, &ran, text, &Who::Fork(of.to_owned()), tried);
            }
            // By a thread's id it would be an answer to another message by then.
            if !ran.killed() || dice.one_in(3) || text.is_some() && !args.iter().any(|a| a.contains(':')) {
                return;
            }
            tried = true;
        }
    }

    fn helper(&self, session: &Session, fork: &Agent, dice: &mut Dice) {
        let id = format!("b7{:015x}", self.world.fresh());
        let helper = Agent {
            id: id.clone(),
            name: "helper".into(),
            description: "help".into(),
            references: Vec::new(),
            threads: Vec::new(),
            calls: 0,
            over: false,
        };
        helper.meta(session, &json!({"description": "help", "agentType": "general-purpose", "parentAgentId": fork.id}));
        let Some(thread) = fork.threads.last() else { return };
        let text = format!("[{}.{}]", self.seed, self.world.fresh());
        let args: Vec<&str> = match fork.references.last() {
            Some(reference) => vec!["thread", "reply", reference, &text, "--json"],
            None => vec!["thread", "line", thread, "helping", "--json"],
        };
        let text = args.contains(&"reply").then_some(text.as_str());
        self.fork_call(session, &id, &fork.id, &args, text, dice);
    }

    fn fork_ends(&self, seat: &Seat, session: &Session, agent: &mut Agent, dice: &mut Dice) {
        agent.over = true;
        let said = if dice.one_in(4) { "HAND BACK: main must look" } else { "that is all" };
        match dice.roll(6) {
            0 => drop(session.hook(&agent.payload(session, "StopFailure.fork.forkerr"), self.fate(dice))),
            // It vanishes.
            1 => {}
            2 => {
                let mut payload = agent.payload(session, "SubagentStop.fork");
                payload["last_assistant_message"] = json!(said);
                session.hook(&payload, self.fate(dice));
            }
            _ => {
                let mut payload = agent.payload(session, "SubagentStop.fork");
                payload["last_assistant_message"] = json!(said);
                payload["background_tasks"] = json!([]);
                session.hook(&payload, self.fate(dice));
                let token = lock(&seat.token).clone();
                let args = ["fork", "ended", "--agent", &agent.id, "--json"];
                self.module(session, token.as_deref(), &args, said, dice);
            }
        }
    }

    // --- workers ---

    fn worker_step(&self, seat: &Seat, dice: &mut Dice) {
        let session = seat.session();
        std::thread::sleep(Duration::from_millis(dice.roll(40) as u64));
        let Some(thread) = self.some(&self.threads, dice) else { return };
        let mut payload = session.payload("PreToolUse.general-purpose.Bash");
        payload["agent_id"] = json!(format!("c9{:015x}", self.world.fresh() % 3));
        payload["tool_input"]["command"] = json!(format!("leaf thread line {thread} working"));
        payload["tool_use_id"] = json!(format!("toolu_worker_{}", self.world.fresh()));
        let ran = session.hook(&payload, self.fate(dice));
        if ran.out.is_empty() && ran.code == 0 {
            self.write(dice, &Who::Main, None, |f| session.run(&["thread", "line", &thread, "working", "--json"], f));
        }
    }

    // --- who meddles ---

    fn meddle(&self, over: &AtomicBool, scarce: Scarce) {
        let mut dice = Dice::new(self.seed ^ 0x6d65_6464);
        let mut older: BTreeMap<PathBuf, Vec<Vec<u8>>> = BTreeMap::new();
        let mut years: i64 = 0;
        while !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(3 + dice.roll(12) as u64));
            let world = &self.world;
            match scarce {
                Scarce::Nothing => {}
                _ if !dice.one_in(4) => {}
                Scarce::Disk => {
                    let fill = world.state().join("fill");
                    if dice.one_in(3) {
                        let _ = fs::remove_file(fill);
                    } else if fill_up(&fill) {
                        add(&world.counts.full);
                    }
                }
                Scarce::FileSize => {
                    let blocks = if dice.one_in(2) { 0 } else { 1 + dice.roll(200) as u64 };
                    world.blocks.store(blocks, Ordering::Relaxed);
                    self.world.counts.full.fetch_add(u64::from(blocks > 0), Ordering::Relaxed);
                }
            }
            let moved = 1 + dice.roll(500) as i64;
            world.set_clock(|now| now + moved);
            for cache in caches(&world.state()) {
                match dice.roll(60) {
                    0 => {
                        let _ = fs::remove_file(&cache);
                        add(&world.counts.caches);
                    }
                    1..4 => {
                        let known = older.entry(cache.clone()).or_default();
                        known.extend(fs::read(&cache).ok());
                        if !known.is_empty() && dice.one_in(2) {
                            // In one move, as whoever restores a backup does.
                            let aside = world.dir.join("older");
                            let bytes = &known[dice.roll(known.len())];
                            if fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, &cache)).is_ok() {
                                add(&world.counts.caches);
                            }
                        }
                    }
                    _ => {}
                }
            }
            match dice.roll(300) {
                0 => {
                    let hours = dice.roll(60) as i64 - 30;
                    world.set_clock(|now| now + hours * 3_600_000);
                    add(&world.counts.jumps);
                    world.tell(format!("the clock jumps by {hours} hours"));
                }
                1 if dice.one_in(3) => {
                    let jump = if years > 0 { -years } else { 1 + dice.roll(4) as i64 };
                    years += jump;
                    world.set_clock(|now| now + jump * 365 * 86_400_000);
                    add(&world.counts.jumps);
                    world.tell(format!("the clock jumps by {jump} years"));
                }
                2..10 => {
                    let seat = &self.seats[dice.roll(self.seats.len())];
                    if let Some(pid) = lock(&seat.follower).as_ref().map(|f| f.pid) {
                        add(&world.counts.stops);
                        send(pid, Signal::STOP);
                        std::thread::sleep(Duration::from_millis(dice.roll(60) as u64));
                        send(pid, Signal::CONT);
                    }
                }
                10..12 => {
                    let seat = &self.seats[dice.roll(self.seats.len())];
                    if let Some(pid) = lock(&seat.follower).as_ref().map(|f| f.pid) {
                        add(&world.counts.kills);
                        send(pid, Signal::KILL);
                    }
                }
                _ => {}
            }
        }
    }

    // --- the end ---

    /// Everything that was begun comes to its end, with nobody killed any more.
    fn settle(&self) {
        self.calm.store(true, Ordering::Relaxed);
        let mut dice = Dice::new(self.seed);
        let world = &self.world;
        let _ = fs::remove_file(world.state().join("fill"));
        world.blocks.store(0, Ordering::Relaxed);
        // Beyond every time that was seen and every deadline of the rules.
        world.set_clock(|now| now + 6 * 365 * 86_400_000);
        for seat in &self.seats {
            if let Some(follower) = lock(&seat.follower).take() {
                send(follower.pid, Signal::KILL);
                follower.running.wait();
            }
        }
        for round in 0..3 {
            world.set_clock(|now| now + 1_200_000);
            for seat in &self.seats {
                let session = seat.session();
                session.new_prompt();
                let mut heard = context(&session.hook(&session.payload("UserPromptSubmit.main"), Fate::Lives));
                heard.push_str(&context(&session.hook(&session.payload("PostToolBatch.main"), Fate::Lives)));
                for delivery in ids_behind(&heard, "leaf delivery ack ") {
                    session.run(&["delivery", "ack", &delivery, "--json"], Fate::Lives);
                }
                if round == 0 {
                    self.main_works(&session, &heard, &mut dice);
                }
                heard = context(&session.hook(&session.payload("Stop.main.tui"), Fate::Lives));
                for delivery in ids_behind(&heard, "leaf delivery ack ") {
                    session.run(&["delivery", "ack", &delivery, "--json"], Fate::Lives);
                }
            }
        }
        let sessions: Vec<String> = self.seats.iter().map(|s| s.session().id.clone()).collect();
        judge::nothing_forgotten(world, &sessions);
        judge::refold(world, &world.pages(), "settled");
    }

    /// With every client dead nothing is left, and the next commands clear what stays of killed ones.
    fn gone(&self) {
        for seat in &self.seats {
            seat.session().client.kill();
        }
        judge::nothing_left(&self.world);
        let next = self.world.session("next-55d0-4c8a-9d0b-4b0f3c1d2e5f");
        next.hook(&next.payload("SessionStart.main.startup"), Fate::Lives);
        self.world.ask(&["page", "new", "Another"]);
        next.client.kill();
        judge::nothing_left(&self.world);
        judge::nothing_strays(&self.world);
        judge::refold(&self.world, &self.world.pages(), "gone");
    }
}

impl Agent {
    fn payload(&self, session: &Session, name: &str) -> Value {
        let mut payload = session.payload(name);
        payload["agent_id"] = json!(self.id);
        payload["agent_type"] = json!("fork");
        if payload.get("agent_transcript_path").is_some() {
            payload["agent_transcript_path"] = json!(self.record(session, "jsonl"));
        }
        payload
    }

    fn record(&self, session: &Session, extension: &str) -> PathBuf {
        session.transcript().with_extension("").join("subagents").join(format!("agent-{}.{extension}", self.id))
    }

    fn meta(&self, session: &Session, meta: &Value) {
        let path = self.record(session, "meta.json");
        fs::create_dir_all(path.parent().expect("a directory")).expect("the subagents' directory");
        fs::write(path, meta.to_string()).expect("meta.json");
    }

    /// PostToolUse of the Agent call that launched it.
    fn launch(&self, session: &Session) -> Value {
        let mut payload = session.payload("PostToolUse.main.Agent.spawn");
        payload["tool_input"]["description"] = json!(self.description);
        payload["tool_input"]["name"] = json!(self.name);
        payload["tool_response"]["agentId"] = json!(self.id);
        payload["tool_response"]["description"] = json!(self.description);
        payload["tool_use_id"] = json!(format!("toolu_plugin_{}", self.id));
        payload
    }
}

impl Follower {
    /// The whole lines that nobody read yet.
    fn lines(&mut self) -> Vec<Value> {
        let text = fs::read_to_string(&self.out).unwrap_or_default();
        let Some(end) = text.rfind('\n').filter(|end| *end >= self.seen) else { return Vec::new() };
        let lines = text[self.seen..=end].lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
        self.seen = end + 1;
        lines
    }
}
