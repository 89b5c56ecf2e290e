//! Random mixes of all that can happen to a to-do, through the built binary: messages and flurries, the line fork's
//! sorts with working forks on and off, replies with and without `--todo`, the very same command again, starts and
//! ends by everyone, withdrawals, resolves and reopenings, a claim by a second session, a restart, compaction, jumps
//! of the clock, hooks in between; processes are killed at a random moment or system call, a line is left torn,
//! caches go. After every step what the log says, by a fold of this test's own, is what `leaf page state` says.
//!
//! More of them by hand: `LEAF_MIXES=1000 LEAF_SEED=1 cargo test --test rules todo_mixes -- --nocapture`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::killed_takes::killer::{Call, Death, Follow, KILLED, at_once};
use super::model::Dice;
use crate::support::desk::{Desk, Ran, Session, id, quoted, references};
use crate::support::fold::{self, Fold};
use crate::support::forks::{Fork, session_dir, text};

/// Mixes that the suite plays, as far as they fit in `BUDGET`, but `FEWEST` at any rate.
const MIXES: u64 = 240;
const FEWEST: u64 = 60;
const BUDGET: Duration = Duration::from_secs(40);

/// Longer than any deadline of `leaf`'s own.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than the follower's look at a clock that nothing tells it of, milliseconds.
const SLOW_POLL: u64 = 300;

/// How often each thing came up in all mixes.
type Tally = BTreeMap<String, u32>;

#[test]
fn todo_mixes_lose_no_todo_and_owe_nothing_to_nobody() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (mixes, first) = (number("LEAF_MIXES", MIXES), number("LEAF_SEED", 1));
    let by_hand = std::env::var_os("LEAF_MIXES").is_some();
    let began = Instant::now();
    let (next, played) = (AtomicU64::new(0), AtomicU64::new(0));
    let (tally, failed) = (Mutex::new(Tally::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= mixes || !by_hand && n >= FEWEST && began.elapsed() > BUDGET {
                        break;
                    }
                    played.fetch_add(1, Ordering::Relaxed);
                    let seed = first + n;
                    match std::panic::catch_unwind(|| play(seed)) {
                        Ok(mix) => {
                            let mut tally = tally.lock().expect("the tally");
                            mix.into_iter().for_each(|(k, n)| *tally.entry(k).or_default() += n);
                        }
                        Err(_) => failed.lock().expect("the list").push(seed),
                    }
                }
            });
        }
    });
    let (tally, failed) = (tally.into_inner().expect("the tally"), failed.into_inner().expect("the list"));
    let played = played.into_inner();
    println!("{played} mixes from seed {first} in {:?}: {tally:#?}", began.elapsed());
    assert!(failed.is_empty(), "mixes that broke a promise, each told above (LEAF_MIXES=1 LEAF_SEED=…): {failed:?}");
    let common = [
        "to-do by leaf",
        "to-do by agent",
        "to-do by user",
        "end done",
        "end failed",
        "end dropped",
        "resolved with a to-do",
        "input again",
        "claim",
        "restart",
        "torn",
        "killed",
    ];
    let rare = ["end by fork", "withdrawn with a to-do", "repeat"];
    let expected = common.iter().filter(|_| played >= FEWEST).chain(rare.iter().filter(|_| played >= MIXES));
    for kind in expected {
        assert!(tally.contains_key(*kind), "{kind} came up: {tally:?}");
    }
}

fn play(seed: u64) -> Tally {
    let desk = Desk::new();
    let mut mix = Mix::new(&desk, seed);
    mix.begin();
    let steps = 12 + mix.dice.roll(14);
    for _ in 0..steps {
        mix.step();
        mix.pump();
        mix.judge_step();
    }
    mix.settle();
    mix.judge_end();
    for side in &mut mix.sides {
        if let Some(follow) = &side.follow {
            follow.kill();
        }
    }
    mix.tally
}

/// A session with its module, its forks and what its main heard.
struct Side<'d> {
    session: Rc<Session<'d>>,
    alive: bool,
    forks_on: bool,
    /// Its first hook was not killed: leaf knows its client.
    begun: bool,
    open: bool,
    prompt_id: String,
    heard: String,
    follow: Option<Follow>,
    token: Option<String>,
    asks: VecDeque<(String, String)>,
    asked: Vec<(String, String)>,
    agents: Vec<Agent>,
}

/// An agent of a client.
struct Agent {
    agent: String,
    turn: String,
    name: String,
    description: String,
    prompt: String,
    works: bool,
    owes: Vec<String>,
    calls: u32,
}

/// A reply that was acknowledged, to be made again.
#[derive(Clone)]
struct Said {
    side: usize,
    agent: Option<String>,
    command: String,
    id: String,
}

struct Mix<'d> {
    desk: &'d Desk,
    dice: Dice,
    told: Vec<String>,
    tally: Tally,
    dirs: u32,
    names: u32,
    clock: i64,
    deaths: u32,
    /// Something was killed, or ran beside: a call of main's may then be refused (R72).
    disturbed: bool,
    settling: bool,
    queues: bool,
    page: String,
    sides: Vec<Side<'d>>,
    /// The side whose session the user means.
    cur: usize,
    threads: Vec<String>,
    words: Vec<String>,
    /// Events that were acknowledged, and what must be true of them in the log.
    acknowledged: Vec<(String, Value)>,
    /// To-dos that were acknowledged, by source.
    todo_for: Vec<String>,
    said: Vec<Said>,
}

impl<'d> Mix<'d> {
    fn new(desk: &'d Desk, seed: u64) -> Self {
        Mix {
            desk,
            dice: Dice::new(seed + 310_000),
            told: vec![format!("seed {seed}")],
            tally: Tally::new(),
            dirs: 0,
            names: 0,
            clock: 0,
            deaths: 0,
            disturbed: false,
            settling: false,
            queues: false,
            page: String::new(),
            sides: Vec::new(),
            cur: 0,
            threads: Vec::new(),
            words: Vec::new(),
            acknowledged: Vec::new(),
            todo_for: Vec::new(),
            said: Vec::new(),
        }
    }

    fn tell(&mut self, what: impl Into<String>) {
        let line = format!("{:>5} {}", self.clock, what.into());
        self.told.push(line);
    }

    fn count(&mut self, what: impl Into<String>) {
        *self.tally.entry(what.into()).or_default() += 1;
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        let log = fs::read_to_string(self.page_dir().join("log.jsonl")).unwrap_or_default();
        let state = self.desk.person(&["page", "state", "--page", &self.page, "--json"]).out();
        let mut story = String::new();
        for thread in &self.threads {
            story.push_str(&format!("why {thread}: {}\n", self.desk.person(&["why", thread, "--json"]).out()));
        }
        let heard: Vec<String> =
            self.sides.iter().map(|s| format!("main of {} heard: {}", s.session.id(), s.heard)).collect();
        panic!(
            "{what}\n{}\n{log}\n{state}\n{story}errors: {:?}\n{}",
            self.told.join("\n"),
            self.desk.errors(),
            heard.join("\n")
        );
    }

    fn page_dir(&self) -> PathBuf {
        self.desk.state_dir().join("pages").join(&self.page)
    }

    /// Every line of the log that is an event: what a killed writer left torn is none (R127).
    fn events(&self) -> Vec<Value> {
        let bytes = fs::read(self.page_dir().join("log.jsonl")).unwrap_or_default();
        bytes.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice::<Value>(l).ok()).collect()
    }

    fn fold(&self) -> Fold {
        Fold::of(&self.events())
    }

    fn state(&self) -> Value {
        let ran = self.desk.person(&["page", "state", "--page", &self.page, "--json"]);
        if ran.code != 0 {
            self.fail(&format!("page state: {ran:?}"));
        }
        ran.json()
    }

    fn dir(&mut self) -> PathBuf {
        self.dirs += 1;
        self.desk.path(&format!("call{}", self.dirs))
    }

    // --- processes ---

    fn death(&mut self) -> Option<Death> {
        if self.settling || self.deaths >= 3 || !self.dice.one_in(16) {
            return None;
        }
        Some(Death::random(&mut self.dice))
    }

    /// Runs a process below a side's client, or a person's; it may be killed, and now and then another one runs at
    /// the same moment.
    fn run(&mut self, side: usize, call: Call) -> Ran {
        let beside = if self.settling || self.threads.is_empty() || !self.dice.one_in(12) {
            None
        } else if self.sides[self.cur].open && self.cur == side && !call.kind.contains("main") {
            Some(Call::hook(&self.payload(side, "PostToolBatch.main")))
        } else if !call.person && self.dice.one_in(2) {
            let (thread, said) = (self.some_thread(), self.words());
            Some(Call::person(&["thread", "say", &thread, &said, "--json"]))
        } else {
            None
        };
        self.disturbed |= beside.is_some();
        self.run_all(side, std::iter::once(call).chain(beside).collect()).swap_remove(0)
    }

    fn run_all(&mut self, side: usize, calls: Vec<Call>) -> Vec<Ran> {
        let calls: Vec<(Call, Option<Death>)> = calls
            .into_iter()
            .map(|call| {
                let death = self.death();
                (call, death)
            })
            .collect();
        let (dir, session) = (self.dir(), Rc::clone(&self.sides[side].session));
        let ran = at_once(&session, &dir, &calls);
        for ((call, death), ran) in calls.iter().zip(&ran) {
            let short: String = call.line.chars().take(130).collect();
            let says: String = (ran.out() + &ran.err()).replace('\n', " ").chars().take(170).collect();
            self.tell(format!("[{side}] {}: {short}: exit {} {death:?} {says}", call.kind, ran.code));
            if ran.err().contains("panicked") {
                self.fail("a panic");
            }
            match death {
                Some(_) if ran.code == KILLED => {
                    self.deaths += 1;
                    self.disturbed = true;
                    self.count("killed");
                }
                _ if !matches!(ran.code, 0 | 1) => self.fail("exits 0 or 1"),
                _ if call.kind.starts_with("hook") && ran.code != 0 => self.fail("a hook exits 0 (R108)"),
                _ => {}
            }
            if call.kind.starts_with("hook: main's") {
                let context = context(ran);
                self.sides[side].heard.push_str(&context);
            }
        }
        ran
    }

    fn hook(&mut self, side: usize, payload: &Value) -> Ran {
        self.run(side, Call::hook(payload))
    }

    fn module(&mut self, side: usize, args: &[&str], input: &str) -> Ran {
        let kind = args[..2].join(" ");
        let call = Call { token: self.sides[side].token.clone(), ..Call::below(&kind, args).with_input(input) };
        self.run(side, call)
    }

    /// A command with an event to acknowledge; a person whose command was killed mostly types it again.
    fn person(&mut self, args: &[&str]) -> Option<Value> {
        for _ in 0..3 {
            let ran = self.run(self.cur, Call::person(args));
            if ran.code == 0 {
                let event = ran.json();
                self.acknowledge(&event);
                return Some(event);
            }
            if ran.code != KILLED || self.dice.one_in(4) {
                break;
            }
        }
        None
    }

    fn acknowledge(&mut self, event: &Value) {
        let mut plain = event.clone();
        if let Some(fields) = plain.as_object_mut() {
            fields.remove("notes");
        }
        self.acknowledged.push((id(event), plain));
    }

    // --- sessions ---

    fn begin(&mut self) {
        if self.dice.one_in(4) {
            let dir = self.desk.home().join(".config/leaf");
            fs::create_dir_all(&dir).expect("a directory");
            fs::write(dir.join("config.toml"), "[forks]\nmax_running = 1\n").expect("a configuration");
            self.tell("one standing fork");
        }
        let side = self.session();
        self.cur = side;
        self.starts(side, "startup");
        self.prompt(side, "go on");
        self.pump();
        while self.page.is_empty() {
            self.user_writes();
        }
        self.pump();
    }

    fn session(&mut self) -> usize {
        let session = self.desk.session(&format!("s{}", self.sides.len()));
        let forks_on = !self.dice.one_in(3);
        if forks_on {
            session.set_env("LEAF_FORK_WORK", "on");
        }
        self.tell(format!("session {} with working forks {forks_on}", self.sides.len()));
        self.sides.push(Side {
            session: Rc::new(session),
            alive: true,
            forks_on,
            begun: false,
            open: false,
            prompt_id: String::new(),
            heard: String::new(),
            follow: None,
            token: None,
            asks: VecDeque::new(),
            asked: Vec::new(),
            agents: Vec::new(),
        });
        self.sides.len() - 1
    }

    fn starts(&mut self, side: usize, source: &str) {
        let payload = self.payload(side, &format!("SessionStart.main.{source}"));
        self.sides[side].begun |= self.hook(side, &payload).code == 0;
        if source == "startup" || source == "resume" {
            // A run of an earlier generation is none any more.
            self.sides[side].agents.iter_mut().for_each(|a| a.works = false);
        }
    }

    /// The client is killed, or ends, and a new session of the project begins.
    fn restart(&mut self) {
        let old = self.cur;
        if self.dice.one_in(2) {
            let mut payload = self.payload(old, "SessionEnd.main.other");
            payload["reason"] = json!("other");
            self.hook(old, &payload);
        }
        self.sides[old].session.client.kill();
        self.sides[old].alive = false;
        self.sides[old].follow = None;
        self.tell(format!("the client of session {old} is gone"));
        self.count("restart");
        let next = match (0..self.sides.len()).find(|s| self.sides[*s].alive) {
            Some(other) if self.dice.one_in(3) => other,
            _ => {
                let next = self.session();
                self.starts(next, "startup");
                next
            }
        };
        self.prompt(next, "I am back");
        self.cur = next;
        self.holds(next);
    }

    /// The page is this side's, by a claim where nothing else made it so.
    fn holds(&mut self, side: usize) {
        let held = self.state()["session"] == json!(self.sides[side].session.id());
        if held {
            return;
        }
        self.count("claim after a restart");
        self.claims(side);
    }

    fn claims(&mut self, side: usize) -> bool {
        let page = self.page.clone();
        for _ in 0..3 {
            let ran = self.main_call(side, &format!("leaf page claim {page} --json"), "main's claim");
            if ran.code == 0 {
                self.cur = side;
                return true;
            }
            if ran.code != KILLED {
                self.fail(&format!("a claim is main's to make: {ran:?}"));
            }
        }
        false
    }

    fn claim(&mut self) {
        let other = (0..self.sides.len()).find(|s| *s != self.cur && self.sides[*s].alive);
        let side = match other {
            Some(side) => side,
            None => {
                let side = self.session();
                self.starts(side, "startup");
                side
            }
        };
        if self.claims(side) {
            self.count("claim");
        }
    }

    // --- the user ---

    fn words(&mut self) -> String {
        if !self.words.is_empty() && self.dice.one_in(6) {
            // R12: equal texts are two messages.
            return self.words[self.dice.roll(self.words.len())].clone();
        }
        self.names += 1;
        let said = format!("message {} end", self.names);
        self.words.push(said.clone());
        said
    }

    fn title(&mut self) -> String {
        self.names += 1;
        format!("chore {} end", self.names)
    }

    fn some_thread(&mut self) -> String {
        self.threads[self.dice.roll(self.threads.len())].clone()
    }

    fn user_writes(&mut self) {
        let fresh = self.threads.is_empty() || (self.threads.len() < 6 && self.dice.one_in(2));
        let thread = if fresh { String::new() } else { self.some_thread() };
        let said = self.words();
        let mut args = if fresh { vec!["thread", "new", &said] } else { vec!["thread", "say", &thread, &said] };
        if self.dice.one_in(8) {
            args.push("--no-reply");
        }
        let page = self.page.clone();
        if fresh && !page.is_empty() {
            args.extend(["--page", &page]);
        }
        args.push("--json");
        if !fresh && self.dice.one_in(4) {
            let second = self.words();
            let also = Call::person(&["thread", "say", &thread, &second, "--json"]);
            for ran in self.run_all(self.cur, vec![Call::person(&args), also]) {
                if ran.code == 0 {
                    self.acknowledge(&ran.json());
                }
            }
        } else if let Some(event) = self.person(&args)
            && fresh
        {
            self.threads.push(id(&event));
        }
        if self.page.is_empty() && !self.threads.is_empty() {
            let mut pages = self.desk.pages();
            pages.retain(|p| !p.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')));
            self.page = pages[0].file_name().expect("a name").to_string_lossy().into_owned();
        }
        self.is_asked();
        if self.dice.one_in(2) {
            self.line_fork(false);
        }
    }

    /// Waits for the question that a kept-back message brings, mostly.
    fn is_asked(&mut self) {
        let kept = |state: &Value| {
            let owed = state["owed"].as_array().into_iter().flatten();
            owed.filter(|o| o["owed_by"]["kind"] == "line_fork").count()
        };
        if self.page.is_empty()
            || self.sides[self.cur].follow.is_none()
            || self.dice.one_in(6)
            || kept(&self.state()) == 0
        {
            return;
        }
        let start = Instant::now();
        while self.sides[self.cur].asks.is_empty() && start.elapsed() < Duration::from_millis(150) {
            self.pump();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn user_withdraws(&mut self) {
        let fold = self.fold();
        let of: Vec<&str> = fold.messages.iter().filter(|m| m.waits()).map(|m| m.id.as_str()).collect();
        let with: Vec<&str> = of.iter().copied().filter(|m| fold.has_open_todo(m)).collect();
        let from = if with.is_empty() || self.dice.one_in(3) { of } else { with };
        let Some(message) = self.dice.pick(&from).map(str::to_owned) else { return };
        if self.person(&["thread", "withdraw", &message, "--json"]).is_some() && fold.has_open_todo(&message) {
            self.count("withdrawn with a to-do");
        }
    }

    fn user_resolves(&mut self) {
        let (thread, fold) = (self.some_thread(), self.fold());
        let verb = if fold.resolved.contains(&thread) { "reopen" } else { "resolve" };
        if self.person(&["thread", verb, &thread, "--json"]).is_some()
            && verb == "resolve"
            && fold.open().any(|t| t.thread == thread)
        {
            self.count("resolved with a to-do");
        }
    }

    // --- the module ---

    /// Keeps the followers running, and does what they say.
    fn pump(&mut self) {
        for side in 0..self.sides.len() {
            if !self.sides[side].alive {
                continue;
            }
            if self.sides[side].follow.as_ref().is_some_and(|f| f.ended().is_some()) {
                self.tell(format!("[{side}] the follower ended"));
                (self.sides[side].follow, self.sides[side].token) = (None, None);
            }
            if self.sides[side].follow.is_none() && !self.settling && self.dice.one_in(2) {
                self.follows(side);
            }
            self.read(side);
        }
    }

    fn follows(&mut self, side: usize) {
        let dir = self.dir();
        let session = Rc::clone(&self.sides[side].session);
        self.sides[side].follow = Some(Follow::start(&session, dir, None));
        self.tell(format!("[{side}] a follower starts"));
        let start = Instant::now();
        while self.sides[side].token.is_none() {
            self.read(side);
            if !self.sides[side].begun && self.sides[side].follow.as_ref().is_some_and(|f| f.ended().is_some()) {
                // There is no such session for it yet.
                self.sides[side].follow = None;
                return;
            }
            if start.elapsed() > PATIENCE {
                self.fail("leaf follow prints its token");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn read(&mut self, side: usize) {
        let lines = self.sides[side].follow.as_mut().map(Follow::lines).unwrap_or_default();
        for line in lines {
            let short: String = line.to_string().chars().take(110).collect();
            self.tell(format!("[{side}] follow: {short}"));
            if let Some(token) = line["token"].as_str() {
                self.sides[side].token = Some(token.to_owned());
            }
            if line["ask"].is_object() {
                let ask = (text(&line["ask"]["thread"]), text(&line["ask"]["through"]));
                if !self.dice.one_in(6) {
                    self.sides[side].asks.retain(|a| a.0 != ask.0);
                }
                if !self.sides[side].asks.contains(&ask) {
                    self.sides[side].asks.push_back(ask);
                }
            }
            if line["start"].is_object() {
                self.act(side, &line["start"]);
            }
            if line["wake"].is_object() && !self.sides[side].open {
                self.prompt(side, "something waits");
            }
        }
    }

    /// The line fork answers the oldest question, or one that it was asked long ago.
    fn line_fork(&mut self, again: bool) {
        let side = self.cur;
        let ask = if again {
            let at = self.dice.roll(self.sides[side].asked.len());
            self.sides[side].asked.get(at).cloned()
        } else {
            self.sides[side].asks.pop_front()
        };
        let Some((thread, through)) = ask else { return };
        if self.sides[side].token.is_none() {
            return;
        }
        let title = self.title();
        let (sort, said) = match self.dice.roll(if self.settling { 8 } else { 12 }) {
            0..=3 => ("significant", json!({"line": "Later.", "sort": "significant", "title": title})),
            4 => ("significant", json!({"line": "Later.", "sort": "significant"})),
            5 => ("significant", json!({"line": "Later.", "sort": "significant", "title": "t".repeat(81)})),
            6 => ("now", json!({"line": "Yes.", "sort": "now"})),
            7 => ("failed", json!("I would rather not.")),
            _ => ("small", json!({"line": "On it.", "sort": "small"})),
        };
        let before = self.fold();
        let ran = self.module(side, &["fork", "line", &thread, "--through", &through, "--json"], &said.to_string());
        self.sides[side].asked.push((thread, through.clone()));
        if ran.code != 0 {
            return;
        }
        let action = ran.json();
        let kind = text(&action["action"]);
        self.count(format!("{sort}: {kind}"));
        if kind == "todo" {
            let todo = text(&action["todo"]);
            let fold = self.fold();
            let Some(opened) = fold.todo(&todo) else { self.fail(&format!("the to-do {todo} is in the log")) };
            if opened.source.as_deref() != Some(&through) || opened.author != "leaf" {
                self.fail(&format!("R95: the to-do is of the message: {opened:?}"));
            }
            if sort != "significant" && before.todo(&todo).is_none() {
                self.fail(&format!("{sort} opens no to-do"));
            }
            if said["title"] == title && before.todo(&todo).is_none() && opened.title != title {
                self.fail(&format!("R21: the title: {opened:?}"));
            }
            self.todo_for.push(through);
        }
        if kind == "queued" {
            self.queues = true;
        }
        if !self.sides[side].forks_on && (kind == "spawn" || kind == "resume") {
            self.fail("R3: no fork works where working forks are off");
        }
        self.act(side, &action);
    }

    fn act(&mut self, side: usize, action: &Value) {
        let kind = text(&action["action"]);
        if kind != "spawn" && kind != "resume" {
            return;
        }
        let (turn, prompt) = (text(&action["turn"]), text(&action["prompt"]));
        let fold = self.fold();
        for reference in references(&prompt) {
            if fold.has_open_todo(&reference[9..]) {
                self.fail(&format!("R96: what has an open to-do is given to a fork: {reference}"));
            }
        }
        if let Some(agent) = self.sides[side].agents.iter_mut().find(|a| a.turn == turn && a.works) {
            agent.owes.extend(references(&prompt));
            return;
        }
        if self.dice.one_in(10) {
            self.module(side, &["fork", "ended", "--turn", &turn, "--failed", "--json"], "the client refused");
            return;
        }
        let session = Rc::clone(&self.sides[side].session);
        let fork = if kind == "spawn" { Fork::spawned(&session, action) } else { Fork::resumed(&session, action) };
        let mut calls = vec![Call::hook(&fork.payload("SubagentStart.fork"))];
        if kind == "spawn" {
            calls.push(Call::hook(&fork.launch_payload()));
            fork.meta();
        }
        let agent = Agent {
            agent: fork.agent.clone(),
            turn: turn.clone(),
            name: fork.name.clone(),
            description: fork.description.clone(),
            prompt,
            works: true,
            owes: fork.references(),
            calls: 0,
        };
        self.run_all(side, calls);
        let id = agent.agent.clone();
        self.sides[side].agents.retain(|a| a.agent != id);
        self.sides[side].agents.push(agent);
        let ran = self.module(side, &["fork", "started", &turn, &id, "--json"], "");
        if ran.code == 0 && ran.json()["action"] == "stop" {
            self.fork_over(side, &id);
        }
    }

    fn fork_over(&mut self, side: usize, agent: &str) {
        self.sides[side].agents.iter_mut().filter(|a| a.agent == agent).for_each(|a| a.works = false);
    }

    // --- the forks ---

    /// A recorded payload as an agent's own.
    fn fork_payload(&self, side: usize, at: usize, name: &str) -> Value {
        let session = &self.sides[side].session;
        let agent = &self.sides[side].agents[at];
        let mut fork = Fork::stranger(session);
        fork.agent.clone_from(&agent.agent);
        fork.turn.clone_from(&agent.turn);
        fork.name.clone_from(&agent.name);
        fork.description.clone_from(&agent.description);
        fork.prompt.clone_from(&agent.prompt);
        let mut payload = fork.payload(name);
        if name == "SubagentStop.fork" {
            payload["background_tasks"] = json!([fork.task()]);
        }
        payload
    }

    fn fork_boundary(&mut self, side: usize, at: usize) {
        let payload = self.fork_payload(side, at, "PostToolBatch.fork");
        let ran = self.hook(side, &payload);
        self.sides[side].agents[at].owes.extend(references(&context(&ran)));
    }

    /// One call of a fork: PreToolUse, the command as the hook left it, PostToolBatch.
    fn fork_call(&mut self, side: usize, at: usize, command: &str, kind: &str) -> Option<Ran> {
        self.sides[side].agents[at].calls += 1;
        let mut payload = self.fork_payload(side, at, "PreToolUse.fork.Bash");
        let agent = &self.sides[side].agents[at];
        payload["tool_input"] = json!({"command": command, "description": "x"});
        payload["tool_use_id"] = json!(format!("toolu_{}_{}", agent.agent, agent.calls));
        let pre = self.hook(side, &payload);
        let decided: Value = serde_json::from_slice(&pre.stdout).unwrap_or_default();
        let output = &decided["hookSpecificOutput"];
        // A killed hook leaves the command as it is, which then acts as main (R74): a fork of ours doesn't try it.
        let marked = output["updatedInput"]["command"].as_str().filter(|_| pre.code == 0).map(str::to_owned);
        let ran = marked.map(|line| self.run(side, Call { line, ..Call::below(kind, &[]) }));
        self.fork_boundary(side, at);
        ran
    }

    fn fork_step(&mut self, side: usize, at: usize) {
        match self.dice.roll(10) {
            0..=5 if !self.sides[side].agents[at].owes.is_empty() => {
                self.fork_answers(side, at);
                if self.dice.one_in(2) {
                    self.fork_does_a_todo(side, at);
                }
            }
            6 => self.fork_boundary(side, at),
            0..=7 => self.fork_does_a_todo(side, at),
            _ => self.fork_ends(side, at),
        }
    }

    fn fork_answers(&mut self, side: usize, at: usize) {
        let Some(reference) = self.sides[side].agents[at].owes.pop() else { return };
        let todo = if self.dice.one_in(2) { format!(" --todo '{}'", self.title()) } else { String::new() };
        self.names += 1;
        let command = format!("leaf thread reply {reference} 'a fork says {}'{todo} --json", self.names);
        for _ in 0..2 {
            match self.fork_call(side, at, &command, "a fork's reply") {
                Some(ran) if ran.code == KILLED && !self.dice.one_in(4) => continue,
                Some(ran) if ran.code == 0 => {
                    let agent = Some(self.sides[side].agents[at].agent.clone());
                    self.replied(side, agent, &command, &ran.json());
                }
                _ => {}
            }
            break;
        }
    }

    /// A reply was acknowledged: with its to-do, if it opened one.
    fn replied(&mut self, side: usize, agent: Option<String>, command: &str, event: &Value) {
        self.acknowledge(event);
        if command.contains("--todo") {
            self.todo_for.push(text(&event["responds"]));
        }
        if command.split(' ').nth(3).is_some_and(|r| r.contains(':')) {
            self.said.push(Said { side, agent, command: command.to_owned(), id: id(event) });
        }
    }

    fn fork_does_a_todo(&mut self, side: usize, at: usize) {
        let fold = self.fold();
        let agent = &self.sides[side].agents[at].agent;
        let (own, others): (Vec<&fold::Todo>, Vec<&fold::Todo>) = fold.open().partition(|t| t.agent == *agent);
        let from = if own.is_empty() || self.dice.one_in(4) { others } else { own };
        if from.is_empty() {
            return;
        }
        let todo = from[self.dice.roll(from.len())].id.clone();
        let command = if self.dice.one_in(3) {
            format!("leaf task start {todo} 'at it' --json")
        } else {
            let outcome = ["done", "failed", "dropped"][self.dice.roll(3)];
            format!("leaf task end {todo} {outcome} 'by a fork' --json")
        };
        if let Some(ran) = self.fork_call(side, at, &command, "a fork's task")
            && ran.code == 0
        {
            self.acknowledge(&ran.json());
            if command.contains("task end") {
                self.count("end by fork");
            }
        }
    }

    fn fork_ends(&mut self, side: usize, at: usize) {
        let agent = self.sides[side].agents[at].agent.clone();
        self.fork_over(side, &agent);
        match self.dice.roll(6) {
            0 => {
                let payload = self.fork_payload(side, at, "StopFailure.fork.forkerr");
                self.hook(side, &payload);
            }
            1 => self.tell(format!("agent {agent} is never heard of again")),
            n => {
                let said = if n == 2 { "HAND BACK: only main can know" } else { "done" };
                let mut payload = self.fork_payload(side, at, "SubagentStop.fork");
                payload["last_assistant_message"] = json!(said);
                self.hook(side, &payload);
                if self.sides[side].token.is_some() {
                    self.module(side, &["fork", "ended", "--agent", &agent, "--json"], said);
                }
            }
        }
    }

    // --- main ---

    fn payload(&self, side: usize, name: &str) -> Value {
        let side = &self.sides[side];
        let mut payload = side.session.payload(name);
        if payload.get("prompt_id").is_some() {
            payload["prompt_id"] = json!(side.prompt_id);
        }
        payload
    }

    fn prompt(&mut self, side: usize, said: &str) {
        self.dirs += 1;
        self.sides[side].prompt_id = format!("c930326e-fe75-4057-a1fd-7d0e{:08}", self.dirs);
        let mut payload = self.payload(side, "UserPromptSubmit.main");
        payload["prompt"] = json!(said);
        self.sides[side].open = true;
        self.sides[side].begun |= self.hook(side, &payload).code == 0;
    }

    /// Main's boundary: after it main was told of every to-do that a sort opened (R95), whoever was main then.
    fn boundary(&mut self, side: usize) {
        let payload = self.payload(side, "PostToolBatch.main");
        let sorted: Vec<String> = self.fold().open().filter(|t| t.author == "leaf").map(|t| t.title.clone()).collect();
        if self.hook(side, &payload).code == KILLED || !self.sides[side].begun {
            return;
        }
        let heard = &self.sides[side].heard;
        if let Some(title) = sorted.iter().find(|title| !heard.contains(*title))
            && self.state()["session"] == json!(self.sides[side].session.id())
        {
            self.fail(&format!("R95: main reads of it at its next boundary: {title}"));
        }
    }

    /// A Stop, which the client takes as the turn's end unless a hook adds something.
    fn stop(&mut self, side: usize) {
        for n in 0..7 {
            let payload = self.payload(side, if n == 0 { "Stop.main.tui" } else { "Stop.main.active" });
            let ran = self.hook(side, &payload);
            if context(&ran).is_empty() || ran.code != 0 {
                self.sides[side].open = false;
                return;
            }
            if self.dice.one_in(2) {
                self.boundary(side);
            }
        }
        self.fail("a Stop lets the turn end at last");
    }

    /// One call of main's Bash tool.
    fn main_call(&mut self, side: usize, command: &str, kind: &str) -> Ran {
        if !self.sides[side].open {
            self.prompt(side, "go on");
        }
        if self.sides[side].agents.iter().any(|a| a.works) {
            let mut payload = self.payload(side, "PreToolUse.main.Bash");
            payload["tool_input"] = json!({"command": command, "description": "x"});
            self.hook(side, &payload);
        }
        let ran = self.run(side, Call { line: command.to_owned(), ..Call::below(kind, &[]) });
        self.boundary(side);
        ran
    }

    fn main_answers(&mut self) {
        let side = self.cur;
        let fold = self.fold();
        let heard = references(&self.sides[side].heard);
        let heard: Vec<&String> = heard.iter().rev().take(4).collect();
        let with: Vec<&str> =
            fold.messages.iter().filter(|m| m.waits() && fold.has_open_todo(&m.id)).map(|m| m.id.as_str()).collect();
        let waiting: Vec<&str> = fold.messages.iter().filter(|m| m.waits()).map(|m| m.id.as_str()).collect();
        let target = match self.dice.roll(5) {
            0 | 1 if !heard.is_empty() => heard[self.dice.roll(heard.len())].clone(),
            2 | 3 if !with.is_empty() => with[self.dice.roll(with.len())].to_owned(),
            _ if !waiting.is_empty() => waiting[self.dice.roll(waiting.len())].to_owned(),
            _ => self.some_thread(),
        };
        self.names += 1;
        let (said, todo) = (self.names, self.dice.one_in(3));
        let todo = if todo { format!(" --todo '{}'", self.title()) } else { String::new() };
        let command = format!("leaf thread reply {target} 'main says {said}'{todo} --json");
        for _ in 0..3 {
            let ran = self.main_call(side, &command, "main's reply");
            if ran.code == 0 {
                self.replied(side, None, &command, &ran.json());
            }
            if ran.code != KILLED || self.dice.one_in(4) {
                break;
            }
        }
    }

    /// A to-do is started or ended by main, or ended by the user.
    fn a_todo_moves(&mut self) {
        let fold = self.fold();
        let open: Vec<String> = fold.open().map(|t| t.id.clone()).collect();
        let ended: Vec<String> = fold.todos.iter().filter(|t| t.state != "open").map(|t| t.id.clone()).collect();
        let from = if open.is_empty() || (!ended.is_empty() && self.dice.one_in(8)) { ended } else { open };
        if from.is_empty() {
            return self.a_todo_opens();
        }
        let waiting: Vec<String> =
            from.iter().filter(|t| fold.todo(t).is_some_and(|t| fold.source_waits(t))).cloned().collect();
        let from = if waiting.is_empty() || self.dice.one_in(3) { from } else { waiting };
        let todo = from[self.dice.roll(from.len())].clone();
        let side = self.cur;
        if self.dice.one_in(4) {
            let ran = self.main_call(side, &format!("leaf task start {todo} 'at it' --json"), "main's start");
            if ran.code == 0 {
                self.acknowledge(&ran.json());
            }
            return;
        }
        let outcome = ["done", "done", "failed", "dropped"][self.dice.roll(4)];
        let was = fold.todo(&todo).expect("the to-do");
        let source_waits = fold.source_waits(was);
        let may = was.state == "open" && (outcome != "done" || !source_waits);
        let again = was.state == "open" && source_waits && outcome != "done";
        let words = ["task", "end", todo.as_str(), outcome, "that is it", "--json"];
        let ran = if self.dice.one_in(3) {
            self.run(side, Call::person(&words))
        } else {
            let words: Vec<String> = words.iter().map(|w| quoted(w)).collect();
            self.main_call(side, &format!("leaf {}", words.join(" ")), "main's end")
        };
        match ran.code {
            0 if may => {
                self.acknowledge(&ran.json());
                self.count(format!("end {outcome}"));
                if again {
                    self.count("input again");
                }
            }
            // Ended as it was: the same again may be taken for said (the fold sees to it that it ends once).
            0 if was.state == outcome => {}
            0 => self.fail(&format!("R97: {outcome} is refused: {was:?}")),
            1 if may && !self.disturbed => self.fail(&format!("R97: {outcome} is accepted: {was:?}")),
            _ => {}
        }
    }

    fn a_todo_opens(&mut self) {
        let (thread, title) = (self.some_thread(), self.title());
        if self.dice.one_in(2) {
            self.person(&["task", "open", &thread, &title, "--json"]);
        } else {
            let command = format!("leaf task open {thread} '{title}' --json");
            let ran = self.main_call(self.cur, &command, "main's open");
            if ran.code == 0 {
                self.acknowledge(&ran.json());
            }
        }
    }

    /// R10: the very same command again is the earlier event, and changes nothing.
    fn says_it_again(&mut self) {
        let Some(said) = self.said.get(self.dice.roll(self.said.len().max(1))).cloned() else { return };
        if said.side != self.cur || !self.sides[said.side].alive {
            return;
        }
        let before = self.events();
        let ran = match &said.agent {
            None => Some(self.main_call(said.side, &said.command, "main's reply again")),
            Some(agent) => {
                let at = self.sides[said.side].agents.iter().position(|a| a.agent == *agent && a.works);
                at.and_then(|at| self.fork_call(said.side, at, &said.command, "a fork's reply again"))
            }
        };
        let Some(ran) = ran else { return };
        if ran.code == 0 {
            self.count("repeat");
            if id(&ran.json()) != said.id {
                self.fail(&format!("R10: the earlier event {}: {ran:?}", said.id));
            }
        } else if ran.code != KILLED && said.agent.is_none() && !self.disturbed {
            self.fail(&format!("R10: exit 0: {ran:?}"));
        }
        let written = |events: &[Value]| {
            events.iter().filter(|e| matches!(e["kind"].as_str(), Some("reply" | "todo" | "todo_end"))).count()
        };
        if written(&before) != written(&self.events()) {
            self.fail("R10: a repeat of what is all there writes nothing");
        }
    }

    // --- the mix ---

    fn step(&mut self) {
        let side = self.cur;
        let works: Vec<(usize, usize)> = (0..self.sides.len())
            .filter(|s| self.sides[*s].alive)
            .flat_map(|s| (0..self.sides[s].agents.len()).map(move |a| (s, a)))
            .filter(|(s, a)| self.sides[*s].agents[*a].works)
            .collect();
        if !works.is_empty() && self.dice.one_in(4) {
            let (side, at) = works[self.dice.roll(works.len())];
            return self.fork_step(side, at);
        }
        match self.dice.roll(44) {
            0..=6 => self.user_writes(),
            7..=11 if !self.sides[side].asks.is_empty() => self.line_fork(false),
            12 if !self.sides[side].asked.is_empty() => self.line_fork(true),
            7..=18 if !works.is_empty() => {
                let (side, at) = works[self.dice.roll(works.len())];
                self.fork_step(side, at);
            }
            7..=14 => self.user_writes(),
            15..=20 if self.sides[side].open => self.boundary(side),
            21..=23 if self.sides[side].open => self.stop(side),
            15..=23 => self.prompt(side, "go on"),
            24..=27 => self.main_answers(),
            28..=31 => self.a_todo_moves(),
            32 => self.a_todo_opens(),
            33 => self.user_withdraws(),
            34 | 35 => self.user_resolves(),
            36 | 37 => {
                let jumps = [1, 10, 29, 30, 30, 31, 60, 61, 90, 91, 900];
                let jump = jumps[self.dice.roll(jumps.len())];
                self.advance(jump);
            }
            38 => self.says_it_again(),
            39 => self.damage(),
            40 => self.claim(),
            41 if self.dice.one_in(2) => self.restart(),
            42 => {
                let source = ["compact", "resume"][self.dice.roll(2)];
                self.starts(side, source);
            }
            _ => {
                if self.sides[side].follow.as_ref().is_some_and(Follow::kill) {
                    self.tell("the follower is killed");
                    let start = Instant::now();
                    while self.sides[side].follow.as_ref().is_some_and(|f| f.ended().is_none())
                        && start.elapsed() < PATIENCE
                    {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        }
    }

    fn advance(&mut self, seconds: i64) {
        self.tell(format!("{seconds} s pass"));
        self.clock += seconds;
        self.desk.advance(seconds);
    }

    /// What a killed writer leaves torn at the log's end, and caches that are gone.
    fn damage(&mut self) {
        let path = self.page_dir().join("log.jsonl");
        let log = fs::read_to_string(&path).unwrap_or_default();
        if let Some(last) = log.lines().next_back().filter(|_| log.ends_with('\n'))
            && self.dice.one_in(2)
        {
            let torn = &last[..1 + self.dice.roll(last.len() - 1)];
            let mut file = fs::OpenOptions::new().append(true).open(&path).expect("the log");
            file.write_all(torn.as_bytes()).expect("a torn line");
            self.tell("a torn line");
            self.count("torn");
        } else {
            self.caches_go();
            self.tell("the caches are gone");
        }
    }

    fn caches_go(&self) {
        let sessions = self.sides.iter().map(|s| session_dir(self.desk, &s.session).join("state.json"));
        for file in sessions.chain([self.page_dir().join("view.json")]) {
            let _ = fs::remove_file(file);
        }
    }

    /// Every deadline passes, forks come to an end or are never heard of again, main has a prompt, a boundary and a
    /// Stop.
    fn settle(&mut self) {
        self.settling = true;
        self.tell("--- and now all deadlines pass");
        for side in (0..self.sides.len()).filter(|s| self.sides[*s].alive).collect::<Vec<_>>() {
            for at in 0..self.sides[side].agents.len() {
                if self.sides[side].agents[at].works {
                    self.fork_ends(side, at);
                }
            }
        }
        let waits = self.dice.one_in(2);
        if !waits {
            for side in &mut self.sides {
                if let Some(follow) = side.follow.take() {
                    follow.kill();
                }
                side.token = None;
            }
            self.tell("the followers are killed");
        }
        for seconds in [31, 61, 905] {
            self.advance(seconds);
            if self.dice.one_in(2) && self.sides[self.cur].open {
                self.boundary(self.cur);
            }
            if waits {
                let start = Instant::now();
                while start.elapsed() < Duration::from_millis(SLOW_POLL) {
                    self.pump();
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        // What a fork left that was spawned just now.
        self.advance(905);
        self.holds(self.cur);
        if self.sides[self.cur].open {
            self.boundary(self.cur);
            self.stop(self.cur);
        }
        self.prompt(self.cur, "and now?");
        self.boundary(self.cur);
        self.stop(self.cur);
    }

    // --- the judgment ---

    fn judge_step(&mut self) {
        let fold = self.fold();
        if let Some(broken) = fold.broken.first() {
            self.fail(&format!("the log itself: {broken}"));
        }
        let state = self.state();
        let against = fold.against(&state, self.desk.now(), self.queues);
        if !against.is_empty() {
            self.fail(&against.join("\n"));
        }
        if self.dice.one_in(6) {
            self.caches_go();
            let after = self.state();
            if after != state {
                self.fail(&format!("without caches: {after}\nwith: {state}"));
            }
        }
    }

    fn judge_end(&mut self) {
        self.judge_step();
        let (events, fold, state) = (self.events(), self.fold(), self.state());
        self.all_is_there(&events, &fold);
        self.lists_agree(&fold, &state);
        for owed in state["owed"].as_array().expect("owed") {
            if owed["owed_by"]["kind"] != "main" {
                self.fail(&format!("after all deadlines main owes what is owed: {owed}"));
            }
            if !owed["ref"].is_string() && !fold.has_open_todo(&text(&owed["message"])) {
                self.fail(&format!("what main owes has a reference: {owed}"));
            }
        }
        for turn in state["turns"].as_array().expect("turns") {
            if turn["state"] != "ended" && turn["state"] != "lapsed" {
                self.fail(&format!("a turn goes on after all deadlines: {turn}"));
            }
        }
        let heard = self.sides[self.cur].heard.clone();
        for todo in fold.open() {
            if !heard.contains(&todo.title) {
                self.fail(&format!("main was told of an open to-do: {todo:?}"));
            }
        }
        let given: BTreeSet<String> = references(&heard).iter().map(|r| r[9..].to_owned()).collect();
        for thread in self.threads.iter().filter(|t| !fold.resolved.contains(*t)) {
            for message in fold.input(thread).filter(|m| m.owes) {
                if !heard.contains(&message.text) && !given.iter().any(|g| fold.stands_for(g, message)) {
                    self.fail(&format!("main was given what it owes: {message:?}"));
                }
            }
        }
        for todo in fold.todos.iter().filter(|t| t.again) {
            let source = todo.source.as_ref().and_then(|s| fold.message(s)).expect("a source");
            if source.waits() && source.owes && !fold.has_open_todo(&source.id) {
                self.fail(&format!("R97: its message is main's input again: {todo:?}"));
            }
        }
        for todo in &fold.todos {
            self.count(format!("to-do by {}", todo.author));
        }
        if self.desk.errors().iter().any(|e| e.contains("panicked")) {
            self.fail("no hook panicked");
        }
    }

    /// What was acknowledged is in the log as it was said.
    fn all_is_there(&self, events: &[Value], fold: &Fold) {
        for (id, said) in &self.acknowledged {
            match events.iter().find(|e| e["id"] == json!(id)) {
                Some(event) if event == said => {}
                other => self.fail(&format!("acknowledged: {said}; the log has {other:?}")),
            }
            if said["kind"] == "todo_end" {
                let (todo, outcome) = (text(&said["todo"]), text(&said["outcome"]));
                if fold.todo(&todo).is_none_or(|t| t.state != outcome) {
                    self.fail(&format!("an ended to-do stays as it ended: {said}"));
                }
            }
            if said["kind"] == "withdraw" && fold.message(&text(&said["message"])).is_none_or(|m| !m.withdrawn) {
                self.fail(&format!("a withdrawal stays: {said}"));
            }
        }
        for source in &self.todo_for {
            if !fold.todos.iter().any(|t| t.source.as_ref() == Some(source)) {
                self.fail(&format!("a to-do was acknowledged for {source}"));
            }
        }
    }

    /// `leaf task list` and `leaf status` say what the log says.
    fn lists_agree(&self, fold: &Fold, state: &Value) {
        let listed = self.desk.person(&["task", "list", "--page", &self.page, "--json"]).json();
        let ids =
            |value: &Value| -> Vec<String> { value.as_array().into_iter().flatten().map(|t| text(&t["id"])).collect() };
        if ids(&listed) != ids(&state["todos"]) {
            self.fail(&format!("task list: {listed}, page state: {}", state["todos"]));
        }
        let status = self.desk.person(&["status", "--json"]).json();
        let open = fold.open().count();
        let page = status["sessions"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|s| s["pages"].as_array().into_iter().flatten())
            .find(|p| p["page"] == json!(self.page));
        match page {
            Some(page) if page["todos"] == json!(open) => {}
            other => self.fail(&format!("leaf status: {open} to-dos are open: {other:?} in {status}")),
        }
    }
}

/// The context that a hook added, where its output was whole.
fn context(ran: &Ran) -> String {
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}
