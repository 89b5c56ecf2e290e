//! Takes in which one of our processes is killed at a random moment, played from the command line: a fake hooks
//! module around a real `leaf follow`, fake forks, a main and a user. Whatever is killed, the story goes on as the
//! real client would have it, and at the end every message is answered, with main, a to-do, settled or in the queue;
//! none is lost or answered twice, and no turn stays that can never end.
//!
//! More of them by hand: `LEAF_TAKES=200 LEAF_SEED=1 cargo test --test rules killed_takes -- --nocapture`.

pub mod killer;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::killer::{Call, Death, Follow, KILLED, at_once, left};
use super::model::Dice;
use crate::support::desk::{Desk, Ran, Session, id, quoted, references, walk};
use crate::support::forks::{Fork, forking, session_dir, shell_task, text};

/// Takes that the suite plays, as far as they fit in `BUDGET` on a busy machine, but `FEWEST` at any rate.
const TAKES: u64 = 40;
const FEWEST: u64 = 10;
const BUDGET: Duration = Duration::from_secs(36);

/// Longer than any deadline of `leaf`'s own.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longer than the follower's look at a clock that nothing tells it of, milliseconds.
const SLOW_POLL: u64 = 300;

/// What became of all the takes.
#[derive(Default)]
struct Tally {
    kills: BTreeMap<String, u32>,
    processes: u32,
    messages: BTreeMap<&'static str, u32>,
    turns: BTreeMap<String, u32>,
}

#[test]
fn killed_takes_lose_nothing_and_leave_nothing() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (takes, first) = (number("LEAF_TAKES", TAKES), number("LEAF_SEED", 1));
    let began = Instant::now();
    let by_hand = std::env::var_os("LEAF_TAKES").is_some();
    let (next, played) = (std::sync::atomic::AtomicU64::new(0), std::sync::atomic::AtomicU64::new(0));
    let (tally, failed) = (std::sync::Mutex::new(Tally::default()), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if n >= takes || !by_hand && n >= FEWEST && began.elapsed() > BUDGET {
                        break;
                    }
                    played.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let seed = first + n;
                    match std::panic::catch_unwind(|| play(seed)) {
                        Ok(take) => tally.lock().expect("the tally").add(take),
                        Err(_) => failed.lock().expect("the list").push(seed),
                    }
                }
            });
        }
    });
    let (tally, failed) = (tally.into_inner().expect("the tally"), failed.into_inner().expect("the list"));
    let played = played.into_inner();
    let kills: u32 = tally.kills.values().sum();
    println!(
        "{played} takes from seed {first} in {:?}: {} processes, {kills} killed: {:#?}\nmessages ended {:?}\nturns {:?}",
        began.elapsed(),
        tally.processes,
        tally.kills,
        tally.messages,
        tally.turns,
    );
    assert!(failed.is_empty(), "takes that broke a promise, each told above (LEAF_TAKES=1 LEAF_SEED=…): {failed:?}");
    if played >= FEWEST {
        assert!(u64::from(kills) * 2 >= played, "most takes have their kill: {kills}");
    }
    if played >= TAKES {
        assert!(tally.kills.len() >= 8, "many kinds are killed: {:?}", tally.kills);
        for outcome in ["answer", "hand_back"] {
            assert!(tally.turns.contains_key(outcome), "turns end so too: {outcome}");
        }
    }
}

/// The first message of all makes the page; killed anywhere in it, nothing of a page in the making stays once the
/// next one is made.
#[test]
fn a_first_message_killed_at_any_call_leaves_no_half_page() {
    if !killer::can_trace() {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let mut halves = 0;
    for call in ["mkdirat", "openat", "write", "fsync", "fdatasync", "renameat", "renameat2"] {
        for n in 1..30 {
            let desk = Desk::new();
            let session = desk.session("s");
            let said = Call::person(&["thread", "new", "[first]"]);
            let ran = at_once(&session, &desk.path("call"), &[(said, Some(Death::At { call, n }))]);
            halves += usize::from(desk.pages().iter().any(|p| hidden(p)));
            desk.thread("[second]");
            desk.ask(&["page", "new", "Another"]);
            let pages = desk.pages();
            assert!(!pages.iter().any(|p| hidden(p)), "{call} {n}: {pages:?}");
            assert_eq!(pages.len(), 2, "{call} {n}: {pages:?}");
            if ran[0].code != KILLED {
                break;
            }
        }
    }
    assert!(halves > 2, "some were killed with a page half made: {halves}");
}

/// Where the page came to the session, its main hears of its to-do; where it did not, it hears nothing of it.
#[test]
fn r098_a_claim_killed_at_any_call_keeps_no_todo_from_main() {
    if !killer::can_trace() {
        eprintln!("not checked: no strace on this machine");
        return;
    }
    let (mut came, mut stayed) = (0, 0);
    for call in ["openat", "write", "renameat", "renameat2"] {
        for n in 1..40 {
            let desk = Desk::new();
            let first = desk.session("s").working();
            let thread = desk.thread("please");
            first.reply(&first.boundary().reference(), "noted");
            desk.ask(&["task", "open", &thread, "tidy the fixtures"]);
            first.boundary().says();
            let second = desk.session("t").working();
            let claim = Call::below("main's claim", &["page", "claim", &desk.page_slug()]);
            let ran = at_once(&second, &desk.path("call"), &[(claim, Some(Death::At { call, n }))]);
            let heard = second.boundary().context().is_some_and(|told| told.contains("tidy the fixtures"));
            let is_its = desk.state()["session"] == second.id();
            assert_eq!(heard, is_its, "{call} {n}");
            *(if is_its { &mut came } else { &mut stayed }) += 1;
            if ran[0].code != KILLED {
                break;
            }
        }
    }
    assert!(came > 4 && stayed > 4, "killed before and after it came: {came}, {stayed}");
}

fn hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'))
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.processes += other.processes;
        let plus = |into: &mut BTreeMap<String, u32>, from: BTreeMap<String, u32>| {
            from.into_iter().for_each(|(k, n)| *into.entry(k).or_default() += n);
        };
        plus(&mut self.kills, other.kills);
        plus(&mut self.turns, other.turns);
        other.messages.into_iter().for_each(|(k, n)| *self.messages.entry(k).or_default() += n);
    }
}

/// What a fork is going to do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    Answers,
    OpensTodo,
    HandsBack,
    EndsSilent,
    Rests,
    ApiError,
    IsStopped,
    NeverReports,
}

const PLANS: [Plan; 11] = [
    Plan::Answers,
    Plan::Answers,
    Plan::Answers,
    Plan::OpensTodo,
    Plan::HandsBack,
    Plan::EndsSilent,
    Plan::Rests,
    Plan::Rests,
    Plan::ApiError,
    Plan::IsStopped,
    Plan::NeverReports,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Life {
    Works(u8),
    Rests,
    Over,
}

/// An agent of the client.
struct Agent<'s, 'd> {
    fork: Fork<'s, 'd>,
    plan: Plan,
    life: Life,
    /// References that it was handed and has not answered.
    owes: Vec<String>,
    calls: u32,
}

/// Whom the dice want dead.
#[derive(Clone, Debug)]
struct Plot {
    /// A part of the kind's name; empty fits all.
    kind: &'static str,
    /// How many of them are spared first.
    spare: u32,
}

const VICTIMS: [&str; 22] = [
    "follow",
    "follow",
    "follow",
    "fork line",
    "fork line",
    "fork line",
    "fork started",
    "fork started",
    "fork ended",
    "fork ended",
    "thread new",
    "thread say",
    "a fork's reply",
    "a fork's reply",
    "main's reply",
    "hook: a fork's PostToolBatch",
    "hook: a fork's SubagentSt",
    "hook: main's PostToolUse",
    "hook: main's PostToolBatch",
    "hook: main's UserPromptSubmit",
    "hook: main's Stop",
    "hook",
];

struct Take<'s, 'd> {
    desk: &'d Desk,
    main: &'s Session<'d>,
    dice: Dice,
    told: Vec<String>,
    dirs: u32,
    tally: Tally,

    plot: Option<Plot>,

    // The module.
    follow: Option<Follow>,
    token: Option<String>,
    asks: VecDeque<(String, String)>,
    asked: BTreeSet<String>,
    launched: BTreeMap<String, String>,
    agents: Vec<Agent<'s, 'd>>,

    // Main.
    main_open: bool,
    prompt_id: String,
    main_calls: u32,
    heard: String,

    // The user.
    threads: Vec<String>,
    said: u32,
    acknowledged: Vec<(String, String)>,
    /// Their ids: a killed `thread new` may have left the same text under another id.
    withdrawn: BTreeSet<String>,

    // Replies that were acknowledged, by their id.
    replies: Vec<String>,
    settling: bool,
    clock: i64,
}

fn play(seed: u64) -> Tally {
    let desk = Desk::new();
    let (tally, page) = {
        let main = forking(&desk, "s");
        let mut take = Take::new(&desk, &main, seed);
        take.story();
        take.settle();
        let page = take.page().file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        take.judge();
        (take.tally, page)
    };
    gone(&desk, seed, &page);
    tally
}

/// The session's client is dead: nothing of it is left.
fn gone(desk: &Desk, seed: u64, page: &str) {
    let start = Instant::now();
    loop {
        let found = left(&desk.state_dir());
        if found.is_empty() {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "seed {seed}: processes are left: {found:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    walk(&desk.state_dir(), &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && (name == "lock" || name == "log.jsonl" || parent == "lanes") {
            let file = fs::OpenOptions::new().read(true).write(true).open(path).expect("a lock file");
            fs2::FileExt::try_lock_exclusive(&file)
                .unwrap_or_else(|e| panic!("seed {seed}: {} is still locked: {e}", path.display()));
        }
    });
    let state = desk.ask(&["page", "state", "--page", page]);
    for turn in state["turns"].as_array().expect("turns") {
        assert_eq!(turn["state"], "ended", "seed {seed}: a dead client's turn: {turn}");
    }
    for owed in state["owed"].as_array().expect("owed") {
        assert_eq!(owed["owed_by"]["kind"], "main", "seed {seed}: with its client dead nobody else owes: {owed}");
    }
}

impl<'s, 'd> Take<'s, 'd> {
    fn new(desk: &'d Desk, main: &'s Session<'d>, seed: u64) -> Self {
        let mut dice = Dice::new(seed + 70_000);
        let plot = Plot { kind: VICTIMS[dice.roll(VICTIMS.len())], spare: u32::try_from(dice.roll(3)).unwrap_or(0) };
        Take {
            desk,
            main,
            dice,
            told: vec![format!("seed {seed}: {plot:?}")],
            dirs: 0,
            tally: Tally::default(),
            plot: Some(plot),
            follow: None,
            token: None,
            asks: VecDeque::new(),
            asked: BTreeSet::new(),
            launched: BTreeMap::new(),
            agents: Vec::new(),
            main_open: true,
            prompt_id: main.prompt_id(),
            main_calls: 0,
            heard: String::new(),
            threads: Vec::new(),
            said: 0,
            acknowledged: Vec::new(),
            withdrawn: BTreeSet::new(),
            replies: Vec::new(),
            settling: false,
            clock: 0,
        }
    }

    fn tell(&mut self, what: impl Into<String>) {
        let line = format!("{:>5} {}", self.clock, what.into());
        self.told.push(line);
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        let mut story = String::new();
        for thread in &self.threads {
            let why = self.desk.person(&["why", thread, "--json"]);
            let entries: Vec<Value> = serde_json::from_slice(&why.stdout).unwrap_or_default();
            story.push_str(&format!("why {thread}\n"));
            for entry in entries {
                story.push_str(&format!("  {entry}\n"));
            }
        }
        let log = fs::read_to_string(self.page().join("log.jsonl")).unwrap_or_default();
        let state = self.desk.person(&["page", "state", "--json"]).out();
        panic!(
            "{what}\n{}\n{log}\n{state}\n{story}errors: {:?}\nmain heard: {}",
            self.told.join("\n"),
            self.desk.errors(),
            self.heard
        );
    }

    fn dir(&mut self) -> std::path::PathBuf {
        self.dirs += 1;
        self.desk.path(&format!("call{}", self.dirs))
    }

    // --- processes ---

    /// The death of a process of this kind, if it is its turn.
    fn death(&mut self, kind: &str) -> Option<Death> {
        let plot = self.plot.as_mut().filter(|p| kind.contains(p.kind))?;
        if plot.spare > 0 {
            plot.spare -= 1;
            return None;
        }
        Some(Death::random(&mut self.dice))
    }

    fn killed(&mut self, kind: &str) {
        *self.tally.kills.entry(kind.to_owned()).or_default() += 1;
        // Now and then another one follows.
        self.plot = (!self.settling && self.dice.one_in(4))
            .then(|| Plot { kind: VICTIMS[self.dice.roll(VICTIMS.len())], spare: 0 });
    }

    /// Runs a process; now and then another one at the same moment.
    fn run(&mut self, call: Call) -> Ran {
        let beside = if self.settling || !self.dice.one_in(5) {
            None
        } else if self.main_open && !call.kind.contains("main") && self.dice.one_in(2) {
            Some(Call::hook(&self.payload("PostToolBatch.main")))
        } else if !call.person && !self.threads.is_empty() {
            let (thread, said) = (self.some_thread(), self.words());
            Some(Call::person(&["thread", "say", &thread, &said, "--json"]))
        } else {
            None
        };
        let calls: Vec<Call> = std::iter::once(call).chain(beside).collect();
        let mut ran = self.run_all(calls);
        ran.swap_remove(0)
    }

    /// Runs processes at the same moment, and hears what they say.
    fn run_all(&mut self, calls: Vec<Call>) -> Vec<Ran> {
        let calls: Vec<(Call, Option<Death>)> = calls
            .into_iter()
            .map(|c| {
                let death = self.death(&c.kind);
                (c, death)
            })
            .collect();
        let dir = self.dir();
        let ran = at_once(self.main, &dir, &calls);
        self.tally.processes += u32::try_from(calls.len()).unwrap_or(0);
        for ((call, death), ran) in calls.iter().zip(&ran) {
            let beside = if calls.len() > 1 { " (at once)" } else { "" };
            let short: String = call.line.chars().take(110).collect();
            let says: String = (ran.out() + &ran.err()).replace('\n', " ").chars().take(160).collect();
            self.tell(format!("{}{beside}: {short}: exit {} {death:?} {says}", call.kind, ran.code));
            if ran.err().contains("panicked") {
                self.fail("a panic");
            }
            match death {
                Some(_) if ran.code == KILLED => self.killed(&call.kind),
                _ if !matches!(ran.code, 0 | 1) => self.fail("exits 0 or 1"),
                _ => {}
            }
            if call.kind.starts_with("hook") && ran.code != KILLED && ran.code != 0 {
                self.fail("a hook exits 0 (R108)");
            }
            if call.kind.starts_with("hook: main's") {
                self.heard.push_str(&context(ran));
            }
            if call.person {
                self.acknowledge(call, ran);
            }
        }
        ran
    }

    fn acknowledge(&mut self, call: &Call, ran: &Ran) {
        if ran.code != 0 || !(call.kind == "thread new" || call.kind == "thread say") {
            return;
        }
        let event = ran.json();
        self.acknowledged.push((id(&event), text(&event["text"])));
        if call.kind == "thread new" {
            self.threads.push(id(&event));
        }
    }

    fn hook(&mut self, payload: &Value) -> Ran {
        self.run(Call::hook(payload))
    }

    fn module(&mut self, args: &[&str], input: &str) -> Ran {
        let kind = args[..2].join(" ");
        let call = Call { token: self.token.clone(), ..Call::below(&kind, args).with_input(input) };
        self.run(call)
    }

    /// A report of the module's, which it makes again where the command was killed or the follower just died.
    fn reported(&mut self, args: &[&str], input: &str) -> Ran {
        let mut ran = self.module(args, input);
        for _ in 0..2 {
            if ran.code == 0 || self.dice.one_in(6) {
                break;
            }
            self.pump_follower();
            ran = self.module(args, input);
        }
        ran
    }

    // --- the user ---

    fn words(&mut self) -> String {
        self.said += 1;
        format!("[message {}]", self.said)
    }

    fn some_thread(&mut self) -> String {
        self.threads[self.dice.roll(self.threads.len())].clone()
    }

    fn user_writes(&mut self) {
        let said = self.words();
        let fresh = self.threads.is_empty() || (self.threads.len() < 6 && self.dice.one_in(2));
        let quiet = self.dice.one_in(9);
        let thread = if fresh { String::new() } else { self.some_thread() };
        let mut args = if fresh { vec!["thread", "new", &said] } else { vec!["thread", "say", &thread, &said] };
        if quiet {
            args.push("--no-reply");
        }
        args.push("--json");
        // A person whose command was killed mostly types it again.
        for _ in 0..3 {
            if self.run(Call::person(&args)).code != KILLED || self.dice.one_in(4) {
                break;
            }
        }
        if !fresh || self.dice.one_in(4) {
            return;
        }
        let start = Instant::now();
        while self.asks.is_empty() && self.follow.is_some() && start.elapsed() < Duration::from_millis(300) {
            std::thread::sleep(Duration::from_millis(3));
            self.pump();
        }
        if !self.dice.one_in(3) {
            self.line_fork();
        }
    }

    fn user_withdraws(&mut self) {
        let Some((message, _)) = self.acknowledged.last().cloned() else { return };
        if self.run(Call::person(&["thread", "withdraw", &message, "--json"])).code == 0 {
            self.withdrawn.insert(message);
        }
    }

    fn user_resolves(&mut self) {
        let thread = self.some_thread();
        self.run(Call::person(&["thread", "resolve", &thread, "--json"]));
    }

    // --- the module ---

    /// Keeps the follower running, and does what it says.
    fn pump(&mut self) {
        self.pump_follower();
        self.read();
    }

    /// Keeps the follower running; its lines are done later, but for its token.
    fn pump_follower(&mut self) {
        if let Some(code) = self.follow.as_ref().and_then(Follow::ended) {
            let err = self.follow.as_ref().map(Follow::stderr).unwrap_or_default();
            self.tell(format!("the follower ended: {code} {err}"));
            if code == KILLED {
                self.killed("follow");
            } else {
                self.fail("a follower whose client lives, and that nobody replaced, stays");
            }
            self.follow = None;
            self.token = None;
        }
        if self.follow.is_none() && (self.settling || !self.dice.one_in(3)) {
            let death = self.death("follow at its start");
            let dir = self.dir();
            self.tell(format!("a follower starts {death:?}"));
            self.follow = Some(Follow::start(self.main, dir, death.as_ref()));
            self.tally.processes += 1;
            let start = Instant::now();
            while self.token.is_none() && self.follow.as_ref().is_some_and(|f| f.ended().is_none()) {
                self.read();
                if start.elapsed() > PATIENCE {
                    self.fail("leaf follow prints its token");
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }

    fn read(&mut self) {
        let lines = self.follow.as_mut().map(Follow::lines).unwrap_or_default();
        for line in lines {
            let short: String = line.to_string().chars().take(120).collect();
            self.tell(format!("follow: {short}"));
            if let Some(token) = line["token"].as_str() {
                self.token = Some(token.to_owned());
            }
            if line["ask"].is_object() {
                let (thread, through) = (text(&line["ask"]["thread"]), text(&line["ask"]["through"]));
                if self.asked.insert(through.clone()) {
                    self.asks.push_back((thread, through));
                }
            }
            if line["start"].is_object() {
                self.act(&line["start"]);
            }
            if let Some(agent) = line["stop"]["agent_id"].as_str() {
                self.stop_agent(agent);
            }
            if line["wake"].is_object() && !self.main_open {
                self.prompt("something waits");
            }
        }
    }

    /// The line fork says something to the oldest question, or nothing ever.
    fn line_fork(&mut self) {
        let Some((thread, through)) = self.asks.pop_front() else { return };
        let said = match self.dice.roll(if self.settling { 3 } else { 20 }) {
            0 => json!({"line": "Yes.", "sort": "now"}).to_string(),
            1 => "I would rather not.".to_owned(),
            2 => return,
            3 => json!({"line": "Later.", "sort": "significant", "title": format!("do {through}")}).to_string(),
            4 => json!({"line": "Yes.", "sort": "now"}).to_string(),
            _ => json!({"line": "On it.", "sort": "small"}).to_string(),
        };
        let ran = self.module(&["fork", "line", &thread, "--through", &through, "--json"], &said);
        self.asked.remove(&through);
        if ran.code == 0 {
            self.act(&ran.json());
        } else if self.dice.one_in(2) && self.asked.insert(through.clone()) {
            // What went unanswered for 10 s is printed again.
            self.asks.push_back((thread, through));
        }
    }

    fn act(&mut self, action: &Value) {
        let kind = text(&action["action"]);
        if kind != "spawn" && kind != "resume" {
            return;
        }
        let turn = text(&action["turn"]);
        let known = self.launched.get(&turn).cloned();
        let at = match known.and_then(|agent| self.agents.iter().position(|a| a.fork.agent == agent)) {
            Some(at) => {
                if kind == "resume" {
                    self.agents[at].owes.extend(references(&text(&action["prompt"])));
                    self.goes_on(at);
                }
                at
            }
            None => {
                if self.dice.one_in(8) {
                    self.reported(&["fork", "ended", "--turn", &turn, "--failed", "--json"], "the client refused");
                    return;
                }
                match self.launch(action) {
                    Some(at) => at,
                    None => return,
                }
            }
        };
        let agent = self.agents[at].fork.agent.clone();
        if self.dice.one_in(14) {
            self.tell("the module is gone before it reports the start");
            return;
        }
        let ran = self.reported(&["fork", "started", &turn, &agent, "--json"], "");
        if ran.code == 0 && ran.json()["action"] == "stop" {
            self.stop_agent(&agent);
        }
    }

    /// What the client does with a spawn or a resume: its hooks start at the same moment.
    fn launch(&mut self, action: &Value) -> Option<usize> {
        let spawn = action["action"] == "spawn";
        let fork = if spawn { Fork::spawned(self.main, action) } else { Fork::resumed(self.main, action) };
        let plan = if self.settling { Plan::Answers } else { PLANS[self.dice.roll(PLANS.len())] };
        self.tell(format!("{} of agent {}: {plan:?}", text(&action["action"]), fork.agent));
        self.launched.insert(fork.turn.clone(), fork.agent.clone());
        let mut calls = vec![Call::hook(&fork.payload("SubagentStart.fork"))];
        let owes = fork.references();
        if spawn {
            calls.push(Call::hook(&fork.launch_payload()));
            if self.dice.one_in(2) {
                calls.reverse();
            }
        }
        self.run_all(calls);
        if spawn {
            fork.meta();
        }
        for other in self.agents.iter_mut().filter(|a| a.fork.agent == fork.agent) {
            other.life = Life::Over;
        }
        self.agents.retain(|a| a.fork.agent != fork.agent);
        self.agents.push(Agent { fork, plan, life: Life::Works(0), owes, calls: 0 });
        Some(self.agents.len() - 1)
    }

    fn stop_agent(&mut self, agent: &str) {
        let Some(at) = self.agents.iter().position(|a| a.fork.agent == agent) else { return };
        if self.agents[at].life == Life::Over {
            return;
        }
        self.agents[at].life = Life::Over;
        let mut payload = self.payload("PostToolUse.main.TaskStop");
        payload["tool_input"]["task_id"] = json!(agent);
        payload["tool_response"]["task_id"] = json!(agent);
        self.hook(&payload);
        self.reports(agent, "", true);
    }

    /// The client's report of a run's end, which the module hands on.
    fn reports(&mut self, agent: &str, said: &str, failed: bool) {
        let mut args = vec!["fork", "ended", "--agent", agent, "--json"];
        if failed {
            args.push("--failed");
        }
        let ran = self.reported(&args, said);
        if ran.code == 0 && !self.settling && self.dice.one_in(5) {
            let again = self.reported(&args, said);
            if again.code == 0 && ran.json()["outcome"].is_string() && again.json()["outcome"] != ran.json()["outcome"]
            {
                self.fail("ended twice: the recorded outcome again (R78)");
            }
        }
    }

    // --- the forks ---

    /// One step of a fork.
    fn fork_step(&mut self, at: usize) {
        match self.agents[at].life {
            Life::Over => {}
            Life::Rests => self.goes_on(at),
            Life::Works(0) => {
                self.agents[at].life = Life::Works(1);
                if self.dice.one_in(3) {
                    let thread = self.some_thread();
                    self.fork_call(at, &format!("leaf thread line {thread} 'half way'"), "a fork's line");
                } else {
                    self.fork_boundary(at, None);
                }
            }
            Life::Works(1) => {
                self.agents[at].life = Life::Works(2);
                match self.agents[at].plan {
                    Plan::Answers | Plan::OpensTodo => self.fork_answers(at),
                    Plan::Rests => {
                        let agent = self.agents[at].fork.agent.clone();
                        self.fork_boundary(at, Some("bnma97emx"));
                        self.fork_stops(at, "waiting for it", &[shell_task("bnma97emx")]);
                        self.agents[at].life = Life::Rests;
                        self.reports(&agent, "waiting for it", false);
                    }
                    _ => {}
                }
            }
            Life::Works(_) => self.fork_ends(at),
        }
    }

    /// A fork that rested, or was sent to, runs on.
    fn goes_on(&mut self, at: usize) {
        let payload = self.agents[at].fork.payload("SubagentStart.fork");
        self.agents[at].life = Life::Works(1);
        if self.agents[at].plan == Plan::Rests {
            self.agents[at].plan = Plan::Answers;
        }
        self.hook(&payload);
        self.fork_boundary(at, None);
    }

    fn fork_boundary(&mut self, at: usize, background: Option<&str>) {
        let mut payload = self.agents[at].fork.payload("PostToolBatch.fork");
        if let Some(task) = background {
            payload["tool_calls"] = json!([{
                "tool_name": "Bash",
                "tool_input": {"command": "sleep 8; echo bgdone", "description": "x", "run_in_background": true},
                "tool_use_id": "toolu_62_0",
                "tool_response": format!(
                    "Command running in background with ID: {task}. Output is being written to: \
                     /tmp/claude-0/x/tasks/{task}.output. You will be notified when it completes."
                ),
            }]);
        }
        let ran = self.hook(&payload);
        let fresh = references(&context(&ran));
        self.agents[at].owes.extend(fresh);
    }

    /// One call of a fork: PreToolUse, the command as the hook left it, PostToolBatch.
    fn fork_call(&mut self, at: usize, command: &str, kind: &str) -> Option<Ran> {
        self.agents[at].calls += 1;
        let mut payload = self.agents[at].fork.payload("PreToolUse.fork.Bash");
        payload["tool_input"] = json!({"command": command, "description": "x"});
        payload["tool_use_id"] = json!(format!("toolu_{}_{}", self.agents[at].fork.agent, self.agents[at].calls));
        let pre = self.hook(&payload);
        let decided: Value = serde_json::from_slice(&pre.stdout).unwrap_or_default();
        let output = &decided["hookSpecificOutput"];
        let ran = if output["permissionDecision"] == "deny" {
            None
        } else {
            // A killed hook leaves the command as it is: out of reach (R74).
            let marked = output["updatedInput"]["command"].as_str().filter(|_| pre.code == 0);
            if pre.code == 0 && marked.is_none() {
                self.fail("a known agent's leaf call is marked or denied (R67, R68)");
            }
            let line = marked.unwrap_or(command).to_owned();
            Some(self.run(Call { line, ..Call::below(kind, &[]) }))
        };
        self.fork_boundary(at, None);
        ran
    }

    fn fork_answers(&mut self, at: usize) {
        while let Some(reference) = self.agents[at].owes.pop() {
            let todo = if self.agents[at].plan == Plan::OpensTodo {
                format!(" --todo 'more of {reference}'")
            } else {
                String::new()
            };
            let said = format!("[answer to {reference} by {}]", self.agents[at].fork.agent);
            let command = format!("leaf thread reply {reference} {}{todo} --json", quoted(&said));
            for _ in 0..3 {
                let ran = self.fork_call(at, &command, "a fork's reply");
                match ran {
                    // The model sees its command die, and mostly tries it again.
                    Some(ran) if ran.code == KILLED && !self.dice.one_in(4) => continue,
                    Some(ran) if ran.code == 0 => self.replies.push(id(&ran.json())),
                    _ => {}
                }
                break;
            }
        }
    }

    fn fork_stops(&mut self, at: usize, said: &str, tasks: &[Value]) {
        let mut payload = self.agents[at].fork.payload("SubagentStop.fork");
        payload["last_assistant_message"] = json!(said);
        let mut list = vec![self.agents[at].fork.task()];
        list.extend_from_slice(tasks);
        payload["background_tasks"] = json!(list);
        self.hook(&payload);
    }

    fn fork_ends(&mut self, at: usize) {
        let plan = self.agents[at].plan;
        let agent = self.agents[at].fork.agent.clone();
        match plan {
            Plan::ApiError => {
                self.agents[at].life = Life::Over;
                let payload = self.agents[at].fork.payload("StopFailure.fork.forkerr");
                self.hook(&payload);
                self.reports(&agent, "API error", true);
            }
            Plan::IsStopped => self.stop_agent(&agent),
            Plan::NeverReports => {
                self.tell(format!("agent {agent} is never heard of again"));
                self.agents[at].life = Life::Over;
            }
            _ => {
                self.agents[at].life = Life::Over;
                let said = if plan == Plan::HandsBack { "HAND BACK: only main can know" } else { "done" };
                self.fork_stops(at, said, &[]);
                self.reports(&agent, said, false);
            }
        }
    }

    // --- main ---

    /// A recorded payload of main's present turn.
    fn payload(&self, name: &str) -> Value {
        let mut payload = self.main.payload(name);
        if payload.get("prompt_id").is_some() {
            payload["prompt_id"] = json!(self.prompt_id);
        }
        payload
    }

    fn prompt(&mut self, said: &str) {
        self.dirs += 1;
        self.prompt_id = format!("c930326e-fe75-4057-a1fd-5a3e{:08}", self.dirs);
        let mut payload = self.payload("UserPromptSubmit.main");
        payload["prompt"] = json!(said);
        self.main_open = true;
        self.hook(&payload);
    }

    fn boundary(&mut self) {
        let payload = self.payload("PostToolBatch.main");
        self.hook(&payload);
    }

    /// A Stop, which the client takes as the turn's end unless a hook adds something.
    fn stop(&mut self) {
        let mut active = false;
        for _ in 0..6 {
            let payload = self.payload(if active { "Stop.main.active" } else { "Stop.main.tui" });
            let ran = self.hook(&payload);
            if context(&ran).is_empty() || ran.code != 0 {
                self.main_open = false;
                return;
            }
            active = true;
            if self.dice.one_in(2) {
                self.boundary();
            }
        }
        self.fail("a Stop lets the turn end at last");
    }

    /// Main answers something that it was told of, or over whoever has it.
    fn main_answers(&mut self) {
        let heard = references(self.heard.get(self.heard.len().saturating_sub(1_500)..).unwrap_or(&self.heard));
        let target = match self.dice.pick(&(0..heard.len()).collect::<Vec<_>>()) {
            Some(at) if !self.dice.one_in(3) => heard[at].clone(),
            _ => self.some_thread(),
        };
        self.main_calls += 1;
        let said = format!("[main's answer {}]", self.main_calls);
        let command = format!("leaf thread reply {target} {} --json", quoted(&said));
        for _ in 0..2 {
            let mut payload = self.payload("PreToolUse.main.Bash");
            payload["tool_input"] = json!({"command": command, "description": "x"});
            self.hook(&payload);
            let ran = self.run(Call { line: command.clone(), ..Call::below("main's reply", &[]) });
            self.boundary();
            if ran.code == 0 {
                self.replies.push(id(&ran.json()));
            }
            if ran.code != KILLED || self.dice.one_in(4) {
                break;
            }
        }
    }

    // --- the story ---

    fn story(&mut self) {
        self.pump();
        self.user_writes();
        let steps = 14 + self.dice.roll(8);
        for step in 0..steps {
            if step == 12
                && let Some(plot) = &mut self.plot
            {
                // It did not come up so far: whatever comes.
                *plot = Plot { kind: "", spare: 0 };
            }
            self.pump();
            self.step();
            // A kill in the middle of what the follower does with what it just saw.
            let aimed = self.plot.as_ref().is_some_and(|p| p.kind == "follow") || self.dice.one_in(15);
            if aimed && self.death("follow").is_some() {
                std::thread::sleep(Duration::from_micros(u64::try_from(self.dice.roll(9_000)).unwrap_or(0)));
                if self.follow.as_ref().is_some_and(Follow::kill) {
                    self.tell("the follower is killed");
                    let start = Instant::now();
                    while self.follow.as_ref().is_some_and(|f| f.ended().is_none()) && start.elapsed() < PATIENCE {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        }
    }

    fn step(&mut self) {
        let alive: Vec<usize> = (0..self.agents.len()).filter(|a| self.agents[*a].life != Life::Over).collect();
        match self.dice.roll(20) {
            0..=2 => self.user_writes(),
            3..=8 if !self.asks.is_empty() => self.line_fork(),
            3..=13 if !alive.is_empty() => {
                let at = alive[self.dice.roll(alive.len())];
                self.fork_step(at);
            }
            3..=9 if !self.asks.is_empty() => self.line_fork(),
            14 if !self.threads.is_empty() => {
                if self.dice.one_in(2) {
                    self.user_withdraws();
                } else {
                    self.user_resolves();
                }
            }
            15 => {
                let jumps = [1, 5, 5, 29, 30, 30, 60, 60, 90, 300, 900];
                let jump = jumps[self.dice.roll(jumps.len())];
                self.advance(jump);
            }
            16 if self.main_open && !self.threads.is_empty() => self.main_answers(),
            17 if self.main_open => {
                if self.dice.one_in(5) {
                    self.main_open = false;
                    self.reported(&["turn", "ended", "--interrupted"], "");
                } else {
                    self.stop();
                }
            }
            18 | 19 if self.main_open => {
                self.boundary();
                if self.heard.contains("Answer:") && self.dice.one_in(2) {
                    self.main_answers();
                }
            }
            18 | 19 => self.prompt("go on"),
            _ if alive.is_empty() => self.user_writes(),
            _ => {
                let at = alive[self.dice.roll(alive.len())];
                self.fork_step(at);
            }
        }
    }

    fn advance(&mut self, seconds: i64) {
        self.tell(format!("{seconds} s pass"));
        self.clock += seconds;
        self.desk.advance(seconds);
    }

    /// Reads what the follower prints until it has said nothing for so long; what it starts works at once.
    fn settled(&mut self, quiet_millis: u64) {
        let mut quiet = Instant::now();
        while quiet.elapsed() < Duration::from_millis(quiet_millis) {
            let before = self.told.len();
            self.pump();
            self.line_fork();
            self.forks_finish();
            if self.told.len() > before {
                quiet = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Forks at work come to their end; those at rest, and those never heard of again, stay.
    fn forks_finish(&mut self) {
        while let Some(at) = (0..self.agents.len()).find(|a| matches!(self.agents[*a].life, Life::Works(_))) {
            self.fork_step(at);
        }
    }

    /// Every deadline passes, the follower acts, main has a boundary, a Stop and a prompt.
    fn settle(&mut self) {
        self.settling = true;
        self.plot = None;
        self.tell("--- and now all deadlines pass");
        for at in 0..self.agents.len() {
            if self.agents[at].life == Life::Rests && self.dice.one_in(2) {
                self.goes_on(at);
            } else if self.dice.one_in(4) {
                let agent = self.agents[at].fork.agent.clone();
                self.tell(format!("agent {agent} is never heard of again"));
                self.agents[at].life = Life::Over;
            }
        }
        self.settled(20);
        for seconds in [31, 61] {
            self.advance(seconds);
            if self.main_open {
                self.boundary();
            }
        }
        self.settled(SLOW_POLL);
        self.advance(905);
        self.settled(SLOW_POLL);
        if self.main_open {
            self.boundary();
            self.stop();
        }
        self.prompt("and now?");
        self.boundary();
        self.stop();
    }

    // --- the judgment ---

    fn judge(&mut self) {
        let events = self.whole_events();
        self.acknowledged_is_there(&events);
        self.nothing_is_answered_twice(&events);
        self.no_turn_goes_on();
        self.every_message_has_its_end(&events);
        self.folds_agree();
        self.nothing_strays();
        if !self.desk.errors().is_empty() {
            self.fail("no hook had anything to keep silent about");
        }
    }

    /// Every line of the log is an event, but for what a killed writer left torn.
    fn whole_events(&self) -> Vec<Value> {
        let bytes = fs::read(self.page().join("log.jsonl")).unwrap_or_default();
        bytes.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice::<Value>(l).ok()).collect()
    }

    fn acknowledged_is_there(&self, events: &[Value]) {
        let ids: Vec<&str> = events.iter().filter_map(|e| e["id"].as_str()).collect();
        let distinct: BTreeSet<&str> = ids.iter().copied().collect();
        if distinct.len() != ids.len() {
            self.fail("an id is one event's");
        }
        for (id, said) in &self.acknowledged {
            if !events.iter().any(|e| e["id"] == json!(id) && e["text"] == json!(said)) {
                self.fail(&format!("{said}, acknowledged as {id}, is in the log"));
            }
        }
        for id in &self.replies {
            if !distinct.contains(id.as_str()) {
                self.fail(&format!("the acknowledged reply {id} is in the log"));
            }
        }
    }

    /// R57, R10: a message is answered by one reply; a fork never answers what another answered.
    fn nothing_is_answered_twice(&self, events: &[Value]) {
        let seq = |id: &Value| events.iter().find(|e| e["id"] == *id).and_then(|e| e["seq"].as_u64()).unwrap_or(0);
        let replies: Vec<&Value> =
            events.iter().filter(|e| e["kind"] == "reply" && e["responds"].is_string()).collect();
        for (n, reply) in replies.iter().enumerate() {
            for earlier in &replies[..n] {
                if earlier["thread"] != reply["thread"] || seq(&earlier["responds"]) < seq(&reply["responds"]) {
                    continue;
                }
                if earlier["responds"] == reply["responds"] {
                    self.fail(&format!("a message is answered twice: {earlier} {reply}"));
                }
                if reply["by"] == "fork" && earlier["turn"] != reply["turn"] {
                    self.fail(&format!("a fork answers what another answered: {earlier} {reply}"));
                }
            }
        }
    }

    fn no_turn_goes_on(&mut self) {
        let state = self.state();
        for turn in state["turns"].as_array().expect("turns") {
            let name = match turn["state"].as_str() {
                Some("ended") => text(&turn["outcome"]),
                Some("lapsed") => "lapsed".into(),
                _ => self.fail(&format!("a turn goes on after all deadlines: {turn}")),
            };
            *self.tally.turns.entry(name).or_default() += 1;
        }
    }

    /// The only page, beside what a killed maker of one left.
    #[track_caller]
    fn page(&self) -> PathBuf {
        let mut pages = self.desk.pages();
        pages.retain(|p| !hidden(p));
        assert_eq!(pages.len(), 1, "one page: {pages:?}");
        pages.swap_remove(0)
    }

    fn state(&self) -> Value {
        self.desk.state()
    }

    fn every_message_has_its_end(&mut self, events: &[Value]) {
        let state = self.state();
        let open: BTreeSet<String> = state["todos"]
            .as_array()
            .expect("todos")
            .iter()
            .filter_map(|t| t["source"].as_str().map(str::to_owned))
            .collect();
        for owed in state["owed"].as_array().expect("owed") {
            if owed["owed_by"]["kind"] != "main" {
                self.fail(&format!("after all deadlines main owes what is owed: {owed}"));
            }
            // R96: what has a to-do is not delivered.
            if !owed["ref"].is_string() && !open.contains(&text(&owed["message"])) {
                self.fail(&format!("what main owes has a reference: {owed}"));
            }
        }
        for message in events.iter().filter(|e| e["kind"] == "message") {
            let (id, said) = (text(&message["id"]), text(&message["text"]));
            let threads = state["threads"].as_array().expect("threads");
            let Some(thread) = threads.iter().find(|t| t["id"] == message["thread"]) else {
                self.fail(&format!("{said}'s thread is in the page state"))
            };
            let waits = thread["waiting"].as_array().expect("waiting").contains(&json!(id));
            let withdrawn = thread["messages"]
                .as_array()
                .expect("messages")
                .iter()
                .any(|m| m["id"] == json!(id) && m["withdrawn"] == true);
            if self.withdrawn.contains(&id) && !withdrawn {
                self.fail(&format!("{said} was withdrawn, acknowledged"));
            }
            let end = if withdrawn {
                "withdrawn"
            } else if !waits {
                "answered or settled"
            } else if open.contains(&id) {
                if !self.heard.contains(&format!("do {id}")) {
                    self.fail(&format!("main was told of the to-do for {said}"));
                }
                "to-do"
            } else if thread["resolved"] == true {
                "settled"
            } else if self.heard.contains(&said) {
                "with main"
            } else if message["owes"] == false
                && events
                    .iter()
                    .any(|e| e["kind"] == "pickup" && e["messages"].as_array().is_some_and(|m| m.contains(&json!(id))))
            {
                // Nothing is left to hand back where nothing is owed (R81).
                "read by a fork"
            } else {
                self.fail(&format!("{said} ({id}) is with nobody: main was never told of it"))
            };
            *self.tally.messages.entry(end).or_default() += 1;
        }
        for thread in self.threads.clone() {
            let ran = self.desk.person(&["why", &thread, "--json"]);
            let entries: Vec<Value> = match serde_json::from_slice(&ran.stdout) {
                Ok(entries) => entries,
                Err(e) => self.fail(&format!("why tells a story: {e}")),
            };
            for line in entries.iter().filter(|e| e["kind"] == "ended").filter_map(|e| e["line"]["text"].as_str()) {
                if !self.heard.contains(line) {
                    self.fail(&format!("main heard how a run ended (R82-R84): {line}"));
                }
            }
            let ended: Vec<&str> =
                entries.iter().filter(|e| e["kind"] == "ended").filter_map(|e| e["turn"].as_str()).collect();
            if ended.iter().collect::<BTreeSet<_>>().len() != ended.len() {
                self.fail(&format!("a turn ends once: {ended:?}"));
            }
        }
    }

    /// R5, and what the contract says of caches: they may be deleted at any time.
    fn folds_agree(&self) {
        let before = self.state();
        let dir = session_dir(self.desk, self.main);
        let removed = [dir.join("state.json"), self.page().join("view.json")];
        for file in &removed {
            let _ = fs::remove_file(file);
        }
        let after = self.state();
        if before != after {
            self.fail(&format!("the page state without its caches: {before:#}\nand: {after:#}"));
        }
    }

    /// What a killed maker of a page leaves goes as the next page is made.
    fn nothing_strays(&self) {
        self.desk.ask(&["page", "new", "Another"]);
        let root = self.desk.state_dir();
        let mut strays = Vec::new();
        walk(&root, &mut |path| {
            let Ok(below) = path.strip_prefix(&root) else { return };
            let words: Vec<&str> = below.iter().filter_map(|w| w.to_str()).collect();
            let known = match words.as_slice() {
                ["pages" | "sessions" | "projects"] | ["errors.log"] => true,
                ["pages" | "sessions", _] => true,
                ["pages", _, "page.json" | "log.jsonl" | "view.json" | "deliveries"] => true,
                ["pages", _, "deliveries", id] => id.ends_with(".json"),
                ["sessions", _, "session.json" | "journal.jsonl" | "state.json" | "gate" | "lanes" | "lock"] => true,
                ["sessions", _, "lanes", "follower" | "watch"] => true,
                // A project's lock stands in no list of the contract's, but in its order of locks.
                ["projects", key] => key.ends_with(".json") || key.ends_with(".lock"),
                _ => false,
            };
            if !known {
                strays.push(below.to_owned());
            }
        });
        if !strays.is_empty() {
            self.fail(&format!("files that the contract doesn't know: {strays:?}"));
        }
    }
}

/// The context that a hook added, where its output was whole.
fn context(ran: &Ran) -> String {
    let answer: Value = serde_json::from_slice(&ran.stdout).unwrap_or_default();
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}
