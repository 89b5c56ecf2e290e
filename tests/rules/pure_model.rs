//! Ten thousand random histories of the desk against the reference, in memory: the library's pure core (the page's view, the
//! session's state, the one reading and the rules) is fed what the commands and hooks append, in their order; after each
//! step it must say what the reference says of holders, debts, keeping back, deliveries, refusals and ends.
//!
//! Alone among these files it knows the library: [`Day`] plays what its commands do around the pure core, as values. What is
//! to be expected comes from the reference and rules.md. A killed process is a prefix of a step's appends: the journal's
//! are whole (R5), the log's end behind any event.
//!
//! `PURE_DAYS=100000` plays more days, `PURE_SEED=17` tells one.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use leaf_threads::clock::Ts;
use leaf_threads::ids::{
    AgentId, DeliveryId, EventId, Generation, IdKey, MessageId, PageId, SessionId, ThreadId, TodoId, TurnId,
};
use leaf_threads::page::event::{self, Actor, Author, Body, Draft, TodoOutcome, draft, first_message};
use leaf_threads::page::view::{self, View};
use leaf_threads::refused::Refused;
use leaf_threads::rules::answer::{self, Answer};
use leaf_threads::rules::deliver::{self, Continue, inbox};
use leaf_threads::rules::holding::{self, Reading};
use leaf_threads::rules::{ended, prompts, take, writes};
use leaf_threads::session::journal::{Action, Entry, Evidence, Kind, Naming, Outcome as Judged};
use leaf_threads::session::state::{RENEWAL as RENEWAL_MS, State, TurnState};
use leaf_threads::transaction;

use super::model::Dice;
use super::reference::{
    By, Entry as Noted, FLURRY, Fact, Holder, KEEP, LAPSE, Message, Outcome, Owner, Reference, Seconds,
    State as RunState, Thread, Turn, Write,
};

/// Days that the suite plays, and the steps of each.
const DAYS: u64 = 10_000;
const STEPS: u64 = 40;
/// Situations that they reach at least.
const FLOOR: usize = 3_300;
/// R38, R78, R80, R41, in seconds.
const MINUTE: Seconds = 60;

/// Who holds, told apart by what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Held {
    Nobody,
    LineFork,
    Main { open: bool },
    Fork(RunState),
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Shape {
    waiting: u8,
    newest_owes: bool,
    resolved: bool,
    todo: bool,
    line: bool,
    queued: bool,
}

/// Who acts, by its past with the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Who {
    User,
    Main,
    LineFork,
    HoldingFork(RunState),
    LastTaker(RunState),
    EarlierTaker(RunState),
    AgentOfTheLastTaker(RunState),
    Stranger(RunState),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Act {
    Message,
    Withdraw,
    Settle,
    Take,
    Pickup,
    Reply,
    Unasked,
    Line,
    Start,
    End,
}

/// Holder × thread × who × what × what became of it: a rule's number where it was refused, an end's outcome.
type Situation = (Held, Shape, Who, Act, &'static str);

#[derive(Default)]
struct Reached {
    situations: HashMap<Situation, u32>,
    steps: BTreeMap<&'static str, u32>,
    kills: u32,
    compared: u64,
}

impl Reached {
    fn add(&mut self, other: Reached) {
        for (situation, times) in other.situations {
            *self.situations.entry(situation).or_default() += times;
        }
        for (step, times) in other.steps {
            *self.steps.entry(step).or_default() += times;
        }
        self.kills += other.kills;
        self.compared += other.compared;
    }
}

/// The process of a step was killed before its next write.
struct Killed;
type Did = Result<(), Killed>;

/// What the rules know of a fork's run beyond the reference.
#[derive(Clone, Debug)]
struct Run {
    agent: usize,
    /// R36: before that nobody acts in it.
    named: bool,
    /// R79.
    begun: bool,
    opened: Seconds,
    /// R78: provisional evidence.
    ending: Option<Seconds>,
    /// R80: its payload no longer lists its work.
    rest_over: Option<Seconds>,
    /// R27: its pickup is missing.
    torn: bool,
    generation: u128,
    over: bool,
}

struct Day<'r> {
    dice: Dice,
    now: Seconds,
    reached: &'r mut Reached,
    told: Option<Vec<String>>,
    wrong: Option<String>,

    // The library's values.
    page: PageId,
    session: SessionId,
    key: IdKey,
    view: View,
    held_from: u32,
    state: State,
    alive: bool,
    lane: holding::Lane,
    /// Writes until the step's process is killed.
    left: Option<usize>,

    // The reference, and what names its numbers.
    world: Reference,
    threads: Vec<ThreadId>,
    messages: Vec<MessageId>,
    todos: Vec<TodoId>,
    turns: Vec<TurnId>,
    agents: Vec<AgentId>,
    runs: BTreeMap<Turn, Run>,
    generation: u128,
    main: Option<Turn>,
    main_open: bool,
    /// The turn of each thread's last answer, with the message that it names.
    last_answer: BTreeMap<Thread, (Turn, Message)>,
    /// What was seen kept back and is not yet anything else (R16).
    kept: BTreeSet<Message>,
    /// Calls in flight (R72): the agent, none for main, and whether it is marked.
    calls: Vec<(Option<usize>, bool)>,
    most: usize,
}

macro_rules! say {
    ($day:expr, $($format:tt)*) => {
        if let Some(told) = &mut $day.told {
            told.push(format!("{:>6} {}", $day.now, format!($($format)*)));
        }
    };
}

/// How one day went: what differed, at which step.
struct Failure {
    step: u64,
    what: String,
    told: Vec<String>,
}

fn play(seed: u64, skipped: &BTreeSet<u64>, steps: u64, telling: bool, reached: &mut Reached) -> Result<(), Failure> {
    let mut day = Day::new(seed, telling, reached);
    for step in 0..steps {
        if skipped.contains(&step) {
            continue;
        }
        // Each step has dice of its own, so that a history without one of its steps is still the same elsewhere.
        day.dice = Dice::new(seed.wrapping_mul(1_000_003).wrapping_add(step + 1));
        let name = day.step();
        *day.reached.steps.entry(name).or_default() += 1;
        if day.wrong.is_none() {
            day.compare();
        }
        if let Some(what) = day.wrong.take() {
            return Err(Failure { step, what, told: day.told.unwrap_or_default() });
        }
    }
    Ok(())
}

/// Leaves out every step that the difference doesn't need, and tells what is left.
fn shrunk(seed: u64, failed: &Failure) -> Failure {
    let mut skipped = BTreeSet::new();
    let mut scratch = Reached::default();
    for step in (0..failed.step).rev() {
        skipped.insert(step);
        let again = play(seed, &skipped, failed.step + 1, false, &mut scratch);
        if again.as_ref().err().is_none_or(|again| again.step != failed.step) {
            skipped.remove(&step);
        }
    }
    match play(seed, &skipped, failed.step + 1, true, &mut scratch) {
        Err(failure) => failure,
        Ok(()) => Failure { step: failed.step, what: "it differs no more when told".to_owned(), told: Vec::new() },
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn ten_thousand_days_of_the_core_and_the_reference_tell_one_story() {
    let began = std::time::Instant::now();
    let seeds = match number("PURE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PURE_DAYS").unwrap_or(DAYS),
    };
    let days = seeds.end - seeds.start;
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(days);
    let played: Vec<(Reached, Vec<(u64, Failure)>)> = std::thread::scope(|scope| {
        let played: Vec<_> = (0..workers)
            .map(|worker| {
                let seeds = seeds.clone();
                scope.spawn(move || {
                    let mut reached = Reached::default();
                    let failed = seeds
                        .filter(|seed| seed % workers == worker)
                        .filter_map(|seed| {
                            let failure = play(seed, &BTreeSet::new(), STEPS, false, &mut reached).err()?;
                            Some((seed, failure))
                        })
                        .collect();
                    (reached, failed)
                })
            })
            .collect();
        played.into_iter().map(|worker| worker.join().expect("a worker")).collect()
    });
    let mut reached = Reached::default();
    // Differences of one kind, by what they say but for the numbers: one of each is told, shrunk.
    let mut failed: BTreeMap<String, Vec<(u64, Failure)>> = BTreeMap::new();
    for (part, failures) in played {
        reached.add(part);
        for (seed, failure) in failures {
            let plain = |c: char| if c.is_ascii_digit() { '#' } else { c };
            failed.entry(failure.what.chars().map(plain).collect()).or_default().push((seed, failure));
        }
    }
    for failures in failed.values_mut() {
        failures.sort_by_key(|(seed, _)| *seed);
        let seeds: Vec<u64> = failures.iter().map(|(seed, _)| *seed).take(20).collect();
        let Some((seed, failure)) = failures.first() else { continue };
        let told = shrunk(*seed, failure);
        println!(
            "{} days differ so: {seeds:?}; seed {seed}, step {}: {}\n{}\n",
            failures.len(),
            told.step,
            told.what,
            told.told.join("\n")
        );
    }
    let bare: HashSet<_> = reached.situations.keys().map(|(held, shape, who, ..)| (held, shape, who)).collect();
    let held: BTreeSet<Held> = reached.situations.keys().map(|s| s.0).collect();
    let who: BTreeSet<Who> = reached.situations.keys().map(|s| s.2).collect();
    let became: BTreeSet<(Act, &str)> = reached.situations.keys().map(|s| (s.3, s.4)).collect();
    println!(
        "{days} days of {STEPS} steps, {} comparisons, {} kills, {:.1?}: {} situations (holder x thread x who x act x outcome, {} \
         of them ten times or more; {} of holder x thread x who); holders {held:?}; writers {}; outcomes {became:?}; steps {:?}",
        reached.compared,
        reached.kills,
        began.elapsed(),
        reached.situations.len(),
        reached.situations.values().filter(|times| **times >= 10).count(),
        bare.len(),
        who.len(),
        reached.steps,
    );
    let kinds: Vec<(&String, usize)> = failed.iter().map(|(kind, failures)| (kind, failures.len())).collect();
    assert!(failed.is_empty(), "days that differ, one of each kind told above: {kinds:#?}");
    if days >= DAYS {
        assert!(reached.situations.len() >= FLOOR, "a shallow run: {} situations", reached.situations.len());
        assert_eq!(held.len(), 8, "every kind of holder");
        for outcome in ["answer", "todo", "hand_back", "taken_over", "void"] {
            assert!(became.contains(&(Act::End, outcome)), "no end was judged {outcome}");
        }
        for rule in ["R55", "R57", "R58"] {
            assert!(became.contains(&(Act::Reply, rule)), "no reply was refused by {rule}");
        }
    }
}

impl<'r> Day<'r> {
    fn new(seed: u64, telling: bool, reached: &'r mut Reached) -> Self {
        let mut day = Day {
            dice: Dice::new(seed),
            now: 1_000_000,
            reached,
            told: telling.then(Vec::new),
            wrong: None,
            page: "page".parse().expect("a page"),
            session: "session".parse().expect("a session"),
            key: IdKey(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            view: View::default(),
            held_from: 0,
            state: State::default(),
            alive: true,
            lane: None,
            left: None,
            world: Reference::new(),
            threads: Vec::new(),
            messages: Vec::new(),
            todos: Vec::new(),
            turns: Vec::new(),
            agents: Vec::new(),
            runs: BTreeMap::new(),
            generation: 1,
            main: None,
            main_open: false,
            last_answer: BTreeMap::new(),
            kept: BTreeSet::new(),
            calls: Vec::new(),
            most: 3,
        };
        day.most = if day.dice.one_in(3) { 1 + day.dice.roll(2) } else { 3 };
        let begun = Entry { generation: Some(Generation(1)), ..Entry::new(day.ts(), Kind::Generation) };
        day.state.apply(&begun);
        if !day.dice.one_in(8) {
            day.follower_starts();
        }
        if !day.dice.one_in(8) {
            let _ = day.prompt();
        }
        day
    }

    fn ts(&self) -> Ts {
        Ts(self.now * 1000)
    }

    fn reading(&self) -> Reading<'_> {
        Reading {
            page: &self.page,
            view: &self.view,
            held_from: self.held_from,
            session: Some(&self.session),
            state: &self.state,
            alive: self.alive,
            lane: self.lane.as_ref(),
            replies: true,
            now: self.ts(),
        }
    }

    fn thread(&self, thread: Thread) -> &view::Thread {
        &self.view.threads[&self.threads[thread]]
    }

    fn message(&self, message: Message) -> &view::Message {
        self.thread(self.world.thread_of(message)).message(self.messages[message]).expect("the message")
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: impl FnOnce() -> String, found: &T, expected: &T) {
        self.reached.compared += 1;
        if found != expected && self.wrong.is_none() {
            self.wrong = Some(format!("{}: the library says {found:?}, the reference {expected:?}", what()));
        }
    }

    fn fact(&mut self, fact: Fact) {
        self.world.apply(&Noted { at: self.now, fact });
    }

    // Writing, and being killed.

    fn may_write(&mut self) -> Did {
        match &mut self.left {
            Some(0) => {
                self.reached.kills += 1;
                say!(self, "  killed");
                Err(Killed)
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// One append of the journal is one transaction (R5).
    fn journal(&mut self, entries: &[Entry]) -> Did {
        if entries.is_empty() {
            return Ok(());
        }
        self.may_write()?;
        for entry in entries {
            self.state.apply(entry);
        }
        Ok(())
    }

    fn append(&mut self, drafts: Vec<Draft>) -> Result<Vec<EventId>, Killed> {
        self.may_write()?;
        let ts = self.ts().max(self.view.ts);
        let mut events: Vec<event::Event> = Vec::new();
        for (seq, draft) in (self.view.next_seq()..).zip(drafts) {
            events.push(draft(self.key, seq, ts, &events));
        }
        for event in &events {
            self.view.apply(event);
        }
        Ok(events.iter().map(|event| event.id).collect())
    }

    fn append_one(&mut self, author: Author, body: Body) -> Result<EventId, Killed> {
        Ok(self.append(vec![draft(author, body)])?[0])
    }

    fn entry(&self, kind: Kind, thread: ThreadId) -> Entry {
        Entry { page: Some(self.page.clone()), thread: Some(thread), ..Entry::new(self.ts(), kind) }
    }

    // What every write does around itself.

    /// The turns that are over by the rules, each by R27, R38, R78, R80 or its generation.
    fn ends_due(&self) -> BTreeSet<Turn> {
        let torn = self.runs.iter().filter(|(_, run)| !run.over && run.torn).map(|(turn, _)| *turn);
        self.ends_shown().into_iter().chain(torn).collect()
    }

    /// Those that a reader, too, must show as over (R88).
    fn ends_shown(&self) -> BTreeSet<Turn> {
        let past = |since: Seconds| self.now - since >= MINUTE;
        self.runs
            .iter()
            .filter(|(_, run)| !run.over)
            .filter(|(_, run)| {
                run.generation != self.generation
                    || !self.world.client_lives()
                    || ((!run.named || !run.begun) && past(run.opened))
                    || run.rest_over.is_some_and(past)
                    || (run.ending.is_some_and(past) && !self.world.follower_lives())
            })
            .map(|(turn, _)| *turn)
            .collect()
    }

    /// What time alone, a death or a new generation changed (R88), as `Transaction::settle` does it.
    fn settle(&mut self) -> Did {
        let found = transaction::due_ends(&self.reading());
        let turns: BTreeSet<Turn> = found.iter().map(|(turn, _)| self.turn_of(*turn)).collect();
        let expected = self.ends_due();
        self.same(|| "the turns that are over".to_owned(), &turns, &expected);
        let is_due = transaction::is_due(&self.reading());
        for (turn, evidence) in &found {
            let turn = self.turn_of(*turn);
            self.end(turn, *evidence)?;
        }
        let handed = self.handovers();
        self.same(|| "whether something is due".to_owned(), &is_due, &(is_due || !found.is_empty()));
        self.journal(&handed)?;
        self.hands_over();
        Ok(())
    }

    /// The library's entries of R16.
    fn handovers(&self) -> Vec<Entry> {
        let reading = self.reading();
        leaf_threads::transaction::due_handovers(&reading, reading.now)
    }

    /// R16 by the reference: what was kept back, and is neither that any more nor taken, is main's from now on.
    fn hands_over(&mut self) {
        for thread in 0..self.world.threads() {
            if self.world.kept_back(thread, self.now).is_ok() {
                continue;
            }
            let mains = match self.world.holder(thread, self.now) {
                Holder::Turn(turn) => !self.world.is_running_fork(turn, self.now),
                Holder::Nobody => true,
                Holder::LineFork => false,
            };
            let waiting = self.world.waiting(thread);
            let messages: Vec<Message> = waiting.into_iter().filter(|m| self.kept.contains(m)).collect();
            if mains && !messages.is_empty() {
                say!(self, "  handed to main: {messages:?}");
                self.kept.retain(|m| !messages.contains(m));
                self.fact(Fact::Handed { thread, messages });
            }
        }
        self.leaves_queue();
    }

    /// The queue holds what is kept back and nothing else (R33).
    fn leaves_queue(&mut self) {
        for thread in 0..self.world.threads() {
            if self.world.is_queued(thread) && self.world.kept_back(thread, self.now).is_err() {
                self.fact(Fact::Unqueued { thread });
            }
        }
    }

    /// Writes down what is kept back from now on.
    fn keep_back(&mut self) -> Did {
        let reading = self.reading();
        let entries: Vec<Entry> = self
            .view
            .in_order()
            .filter(|thread| {
                let new = |m: &view::Message| !self.state.kept.contains(&(self.page.clone(), m.id));
                reading.kept_back(thread) && thread.input().any(new)
            })
            .map(|thread| Entry { messages: take::picks(thread), ..self.entry(Kind::KeptBack, thread.id) })
            .collect();
        self.journal(&entries)?;
        for thread in 0..self.world.threads() {
            if self.world.kept_back(thread, self.now).is_ok() {
                self.kept.extend(self.world.waiting(thread));
            }
        }
        Ok(())
    }

    /// `Run::write`.
    fn write(&mut self, act: impl FnOnce(&mut Self) -> Result<bool, Killed>) -> Did {
        self.settle()?;
        if act(self)? {
            self.leaves_queue();
            self.keep_back()?;
            self.settle()?;
        }
        Ok(())
    }

    // Turns.

    fn turn_of(&self, id: TurnId) -> Turn {
        self.turns.iter().position(|turn| *turn == id).unwrap_or(usize::MAX)
    }

    fn next_turn(&mut self) -> (Turn, TurnId) {
        let id = TurnId(self.turns.len() as u64 + 1);
        self.turns.push(id);
        (self.turns.len() - 1, id)
    }

    fn open_main(&mut self, prefix: Option<Entry>, suffix: bool) -> Result<Turn, Killed> {
        let id = TurnId(self.turns.len() as u64 + 1);
        let mut entries: Vec<Entry> = prefix.into_iter().collect();
        entries.push(Entry::begun(self.ts(), id, None));
        if suffix {
            entries.push(Entry::ended(self.ts(), id, Evidence::Write));
        }
        self.journal(&entries)?;
        if let (Some(main), true) = (self.main, self.main_open) {
            self.fact(Fact::End { turn: main });
        }
        let (turn, _) = self.next_turn();
        self.fact(Fact::Open { by: By::Main, ours: true });
        if suffix {
            self.fact(Fact::End { turn });
        }
        self.main = Some(turn);
        self.main_open = !suffix;
        Ok(turn)
    }

    /// Main's open turn, else its last, else one that closes with the write (Words: *main*).
    fn mains_turn(&mut self) -> Result<Turn, Killed> {
        let turn = match self.main {
            Some(turn) => turn,
            None => self.open_main(None, true)?,
        };
        let known = self.state.main.as_ref().map(|main| main.id);
        self.same(|| "main's turn".to_owned(), &known, &Some(self.turns[turn]));
        Ok(turn)
    }

    fn main_actor(&self, turn: Turn) -> Actor {
        Actor {
            turn: self.turns[turn],
            session: Some(self.session.clone()),
            generation: self.state.generation,
            by: event::By::Main,
            name: None,
            agent: None,
        }
    }

    fn fork_actor(&self, turn: Turn) -> Option<Actor> {
        let fork = self.state.fork(self.turns[turn])?;
        Some(Actor {
            turn: fork.id,
            session: Some(self.session.clone()),
            generation: fork.generation,
            by: event::By::Fork,
            name: Some(fork.name.clone()),
            agent: fork.agent.clone(),
        })
    }

    /// Forks' turns that are not over.
    fn forks(&self) -> Vec<Turn> {
        self.runs.iter().filter(|(_, run)| !run.over && run.generation == self.generation).map(|(t, _)| *t).collect()
    }

    /// Those in which an agent acts.
    fn acting(&self) -> Vec<Turn> {
        let acts = |t: &Turn| self.runs[t].named && self.runs[t].begun;
        if self.world.client_lives() { self.forks().into_iter().filter(acts).collect() } else { Vec::new() }
    }

    fn agent_runs(&self, agent: usize) -> Option<Turn> {
        self.forks().into_iter().rev().find(|turn| self.runs[turn].agent == agent)
    }

    /// R34: the agent of the generation's last ended run of ours, but one whose last run never began (R91).
    fn standing(&self) -> Option<usize> {
        let ended = |turn: &Turn| self.state.fork(self.turns[*turn]).and_then(|fork| fork.ended);
        let ours = |turn: &Turn| self.state.fork(self.turns[*turn]).is_some_and(|fork| fork.thread.is_some());
        let last = |agent: usize| self.runs.iter().filter(|(_, r)| r.agent == agent).max_by_key(|(turn, _)| **turn);
        let mut over: Vec<Turn> = self
            .runs
            .iter()
            .filter(|(turn, r)| r.over && r.named && r.generation == self.generation && ours(turn))
            .filter(|(_, r)| last(r.agent).is_some_and(|(_, r)| r.begun))
            .map(|(turn, _)| *turn)
            .collect();
        over.sort_by_key(|turn| (ended(turn), *turn));
        over.last().map(|turn| self.runs[turn].agent)
    }

    /// R81 over all threads: the gravest counts.
    fn judged(&self, turn: Turn) -> Outcome {
        let of = |thread| self.world.judged(turn, thread, self.now);
        (0..self.world.threads()).map(of).min().unwrap_or(Outcome::Void)
    }

    /// `Transaction::end`.
    fn end(&mut self, turn: Turn, evidence: Evidence) -> Did {
        let Some(fork) = self.state.fork(self.turns[turn]).cloned() else { return Ok(()) };
        if fork.ended.is_some() {
            return Ok(());
        }
        let outcome = ended::judge(&self.reading(), &fork);
        let expected = self.judged(turn);
        self.same(|| format!("how turn {turn} is judged"), &of_library(outcome), &expected);
        let entry = Entry {
            turn: Some(fork.id),
            agent: fork.agent.clone(),
            by: Some(event::By::Fork),
            outcome: Some(outcome),
            evidence: Some(evidence),
            ..Entry::new(self.ts(), Kind::Ended)
        };
        let threads: Vec<Thread> =
            (0..self.world.threads()).filter(|t| self.world.takers(*t).contains(&turn)).collect();
        for thread in threads {
            self.reach(thread, Some(turn), Act::End, outcome_name(expected));
        }
        self.journal(&[entry])?;
        say!(self, "  turn {turn} ends, {evidence:?}: {expected:?}");
        self.over(turn);
        Ok(())
    }

    fn over(&mut self, turn: Turn) {
        self.fact(Fact::End { turn });
        if let Some(run) = self.runs.get_mut(&turn) {
            run.over = true;
            let agent = run.agent;
            // With its run its calls are over (R72).
            self.calls.retain(|(of, _)| *of != Some(agent));
        }
    }

    // The user.

    fn user_writes(&mut self) -> Did {
        let known = self.threads.len();
        let fresh = known == 0 || (known < 3 && self.dice.one_in(3));
        let thread = if fresh { known } else { self.dice.roll(known) };
        let owes = !self.dice.one_in(6);
        say!(self, "the user writes message {} in thread {thread}, owes {owes}", self.messages.len());
        self.write(|day| {
            let id = if fresh {
                day.append(vec![first_message("m".to_owned(), owes, "t".to_owned())])?[0]
            } else {
                day.reach(thread, None, Act::Message, "ok");
                let main_owed = day.reading().main_owes(day.thread(thread));
                let expected = day.world.main_owes(thread, day.now);
                day.same(|| format!("whether main owes thread {thread}"), &main_owed, &expected);
                let body =
                    Body::Message { thread: day.threads[thread], text: "m".to_owned(), owes, title: None, main_owed };
                day.append_one(Author::User, body)?
            };
            if fresh {
                day.threads.push(id.into());
            }
            day.messages.push(id.into());
            day.fact(Fact::Message { thread, owes });
            Ok(true)
        })
    }

    fn pick_message(&mut self, which: impl Fn(&Self, Message) -> bool) -> Option<Message> {
        let found: Vec<Message> = (0..self.messages.len()).filter(|m| which(self, *m)).collect();
        self.dice.pick(&found)
    }

    fn user_withdraws(&mut self) -> Did {
        let Some(message) = self.pick_message(|day, m| day.world.waits(m)) else { return Ok(()) };
        say!(self, "the user withdraws message {message}");
        self.write(|day| {
            day.reach(day.world.thread_of(message), None, Act::Withdraw, "ok");
            day.append_one(Author::User, Body::Withdraw { message: day.messages[message] })?;
            day.fact(Fact::Withdraw { message });
            Ok(true)
        })
    }

    fn user_resolves(&mut self) -> Did {
        if self.threads.is_empty() {
            return Ok(());
        }
        let thread = self.dice.roll(self.threads.len());
        let resolved = self.world.is_resolved(thread);
        say!(self, "the user resolves or reopens thread {thread}");
        self.write(|day| {
            let id = day.threads[thread];
            day.reach(thread, None, Act::Settle, if resolved { "reopened" } else { "resolved" });
            let (body, fact) = if resolved {
                (Body::Reopen { thread: id }, Fact::Reopen { thread })
            } else {
                (Body::Resolve { thread: id }, Fact::Resolve { thread })
            };
            day.append_one(Author::User, body)?;
            day.fact(fact);
            Ok(true)
        })
    }

    fn todo_ends(&mut self) -> Did {
        let open: Vec<usize> = (0..self.todos.len()).filter(|t| self.world.todo_is_open(*t)).collect();
        let Some(todo) = self.dice.pick(&open) else { return Ok(()) };
        let outcome = if self.dice.one_in(2) { TodoOutcome::Failed } else { TodoOutcome::Dropped };
        say!(self, "to-do {todo} ends");
        self.write(|day| {
            let body = Body::TodoEnd { todo: day.todos[todo], outcome, detail: None, actor: None };
            day.append_one(Author::User, body)?;
            day.fact(Fact::TodoEnd { todo });
            Ok(true)
        })
    }

    // The follower and the line fork.

    fn follower_starts(&mut self) {
        say!(self, "a follower starts");
        self.lane = Some([(self.page.clone(), self.view.seq)].into());
        self.fact(Fact::FollowerStarts);
    }

    fn follower(&mut self) -> Did {
        if self.lane.is_some() && self.dice.one_in(2) {
            say!(self, "the follower is killed");
            self.lane = None;
            self.fact(Fact::FollowerDies);
        } else if self.alive {
            self.follower_starts();
        }
        Ok(())
    }

    /// `leaf fork line`.
    fn line_fork(&mut self) -> Did {
        if self.threads.is_empty() || self.lane.is_none() {
            return Ok(());
        }
        let kept: Vec<Thread> =
            (0..self.threads.len()).filter(|t| self.world.kept_back(*t, self.now).is_ok()).collect();
        let thread = match self.dice.pick(&kept) {
            Some(thread) if !self.dice.one_in(8) => thread,
            _ => self.dice.roll(self.threads.len()),
        };
        let id = self.threads[thread];
        // R29 before R24: a turn that nobody began yet answers for the thread.
        let standing = self.forks().into_iter().any(|turn| {
            let started = self.state.fork(self.turns[turn]).is_some_and(|fork| {
                fork.action.is_some() && fork.thread.as_ref().is_some_and(|(_, thread)| *thread == id)
            });
            started && self.reading().stands(self.turns[turn]).runs()
        });
        if standing {
            return Ok(());
        }
        self.settle()?;
        let acts = self.reading().kept_back(self.thread(thread));
        let expected = self.world.kept_back(thread, self.now).is_ok();
        self.same(|| format!("whether the line fork acts on thread {thread}"), &acts, &expected);
        let waiting = self.world.waiting(thread);
        let (true, Some(newest)) = (expected && self.wrong.is_none(), waiting.last().copied()) else { return Ok(()) };
        let line = |day: &Self| {
            let body = Body::Line { thread: day.threads[thread], text: "on it".to_owned(), actor: None };
            draft(Author::Leaf, body)
        };
        let sort = self.dice.roll(9);
        say!(self, "the line fork sorts thread {thread}: {sort}");
        let handed = Entry { messages: take::picks(self.thread(thread)), ..self.entry(Kind::Handed, id) };
        match sort {
            0 | 1 => {
                self.reach(thread, None, Act::Line, if sort == 0 { "failed" } else { "now" });
                if sort == 1 {
                    self.append(vec![line(self)])?;
                    self.fact(Fact::Line { thread });
                }
                self.journal(&[handed])?;
                self.kept.retain(|m| !waiting.contains(m));
                self.fact(Fact::Handed { thread, messages: waiting });
                self.leaves_queue();
            }
            2 => {
                self.reach(thread, None, Act::Line, "significant");
                let source = Some(self.messages[newest]);
                let todo = Body::Todo { thread: id, title: "to do".to_owned(), source, actor: None };
                let events = self.append(vec![line(self), draft(Author::Leaf, todo)])?;
                self.todos.push(events[1].into());
                self.fact(Fact::Line { thread });
                self.fact(Fact::Todo { thread, source: newest });
                self.leaves_queue();
            }
            _ => {
                self.append(vec![line(self)])?;
                self.fact(Fact::Line { thread });
                self.take(thread)?;
            }
        }
        Ok(())
    }

    /// A free fork goes to the head of the queue (R33).
    fn queue(&mut self) -> Did {
        if self.lane.is_none() {
            return Ok(());
        }
        self.settle()?;
        self.leaves_queue();
        let running = self.runs.keys().filter(|t| self.world.is_running_fork(**t, self.now)).count();
        let found = self.state.queue.first().map(|(_, thread)| *thread).filter(|_| running < self.most);
        let Some(found) = found else { return Ok(()) };
        let waits: Vec<Thread> = (0..self.threads.len()).filter(|t| self.world.is_queued(*t)).collect();
        let head = self.threads.iter().position(|thread| *thread == found).unwrap_or(usize::MAX);
        // By `Follower::take_head` a head that isn't kept back is passed by; whoever waits behind it must not starve.
        if self.reading().kept_back(self.thread(head)) {
            self.same(|| format!("whether thread {head} waits in the queue"), &self.world.is_queued(head), &true);
            self.take(head)?;
        } else {
            self.same(|| "the threads behind a head that waits no more".to_owned(), &waits, &Vec::new());
        }
        Ok(())
    }

    /// `take_thread`, by R27, R30, R33, R45 and R89.
    fn take(&mut self, thread: Thread) -> Did {
        let id = self.threads[thread];
        let lapsed: Vec<Turn> = take::lapsed(&self.reading(), id).into_iter().map(|turn| self.turn_of(turn)).collect();
        let superseded: Vec<Turn> =
            self.forks().into_iter().filter(|turn| self.world.takers(thread).contains(turn)).collect();
        self.same(|| format!("the turns that a take of thread {thread} ends (R30)"), &lapsed, &superseded);
        for turn in &lapsed {
            self.end(*turn, Evidence::Superseded)?;
        }
        let how = match take::how(&self.reading(), self.thread(thread), self.most) {
            take::Take::Resume { .. } if !lapsed.is_empty() => take::Take::Spawn,
            how => how,
        };
        let running = self.runs.keys().filter(|t| self.world.is_running_fork(**t, self.now)).count();
        let resumes = self.last_answer.get(&thread).map(|(turn, _)| *turn).filter(|turn| {
            superseded.is_empty() && self.runs.get(turn).is_some_and(|r| r.over && r.generation == self.generation)
        });
        let agent = match self.most {
            // R34: the last that ended, whatever its thread.
            1 => self.standing().filter(|_| superseded.is_empty()),
            _ => resumes.map(|turn| self.runs[&turn].agent),
        };
        let goes_on = agent.and_then(|agent| self.agent_runs(agent));
        let expected = match (agent, goes_on) {
            (Some(_), Some(open))
                if self.world.is_running_fork(open, self.now)
                    && self.state.fork(self.turns[open]).is_some_and(|fork| fork.thread.is_none()) =>
            {
                "into"
            }
            // It runs for another thread, or its own run lapsed: the rules don't say.
            (Some(_), Some(_)) => kind_of(&how),
            _ if running >= self.most => "queue",
            (Some(_), None) => "resume",
            (None, _) => "spawn",
        };
        self.same(|| format!("how thread {thread} is taken"), &kind_of(&how), &expected);
        if self.wrong.is_some() {
            return Ok(());
        }
        self.reach(thread, None, Act::Take, expected);
        say!(self, "  thread {thread} is taken: {expected}");
        let messages = take::picks(self.thread(thread));
        let picked = self.world.waiting(thread);
        let (into, agent, name) = match how {
            take::Take::Queue => {
                let queued = self.entry(Kind::Queued, id);
                self.journal(&[queued])?;
                if !self.world.is_queued(thread) {
                    self.fact(Fact::Queued { thread });
                }
                return Ok(());
            }
            take::Take::Resume { agent, into, name } => (into, Some(agent), name),
            take::Take::Spawn if self.most == 1 => (None, None, take::STANDING.to_owned()),
            take::Take::Spawn => (None, None, prompts::name(id)),
        };
        let turn = into.unwrap_or(TurnId(self.turns.len() as u64 + 1));
        let taken = Entry {
            turn: Some(turn),
            messages: messages.clone(),
            by: Some(event::By::Fork),
            name: Some(name),
            naming: agent.is_some().then_some(Naming::Resume),
            agent: agent.clone(),
            does: Some(Action::Main),
            ..self.entry(Kind::Taken, id)
        };
        self.journal(&[taken])?;
        // A take that fails from here on hands the thread back (R31): it waits for no other.
        if self.world.is_queued(thread) {
            self.fact(Fact::Unqueued { thread });
        }
        let number = match into {
            Some(_) => {
                let number = self.turn_of(turn);
                let took = self.world.takers(thread).contains(&number);
                if let Some(run) = self.runs.get_mut(&number) {
                    run.torn = !took;
                }
                number
            }
            None => {
                let (number, _) = self.next_turn();
                let named = agent.is_some();
                let agent = match &agent {
                    Some(agent) => self.agents.iter().position(|other| other == agent).unwrap_or(usize::MAX),
                    None => {
                        let next = self.agents.len();
                        self.agents.push(format!("agent{next}").parse().expect("an agent"));
                        next
                    }
                };
                self.fact(Fact::Open { by: By::Fork(agent), ours: true });
                self.runs.insert(number, self.run(agent, named, false));
                if let Some(run) = self.runs.get_mut(&number) {
                    run.torn = true;
                }
                number
            }
        };
        let Some(actor) = self.fork_actor(number) else { return Ok(()) };
        self.append(vec![event::pickup(id, messages, None, actor)])?;
        if let Some(run) = self.runs.get_mut(&number) {
            run.torn = false;
        }
        self.picks_up(number, thread, picked);
        Ok(())
    }

    fn run(&self, agent: usize, named: bool, begun: bool) -> Run {
        Run {
            agent,
            named,
            begun,
            opened: self.now,
            ending: None,
            rest_over: None,
            torn: false,
            generation: self.generation,
            over: false,
        }
    }

    fn picks_up(&mut self, turn: Turn, thread: Thread, messages: Vec<Message>) {
        self.kept.retain(|m| !messages.contains(m));
        self.fact(Fact::Pickup { turn, thread, messages });
        self.leaves_queue();
    }

    // A fork.

    /// Its run begins: the module names it, or SubagentStart tells of it.
    fn fork_begins(&mut self) -> Did {
        let waiting: Vec<Turn> = self
            .forks()
            .into_iter()
            .filter(|t| self.alive && (!self.runs[t].begun || self.world.state(*t, self.now) == RunState::Resting))
            .collect();
        let Some(turn) = self.dice.pick(&waiting) else { return Ok(()) };
        self.begins(turn)
    }

    fn begins(&mut self, turn: Turn) -> Did {
        let run = self.runs[&turn].clone();
        let fork = self.turns[turn];
        let agent = self.agents[run.agent].clone();
        say!(self, "turn {turn}'s run begins");
        let entry = if run.named && run.begun {
            return self.renews(turn, Vec::new(), true);
        } else if run.named {
            Entry { agent: Some(agent), by: Some(event::By::Fork), ..Entry::new(self.ts(), Kind::Begun) }
        } else {
            self.settle()?;
            if self.runs[&turn].over {
                // `started` for an ended turn: the agent is known, and told to stop (R38).
                return self.journal(&[Entry { agent: Some(agent), ..Entry::new(self.ts(), Kind::Agent) }]);
            }
            let naming = Some(Naming::Module);
            Entry { agent: Some(agent), naming, by: Some(event::By::Fork), ..Entry::new(self.ts(), Kind::Named) }
        };
        self.journal(&[Entry { turn: Some(fork), ..entry }])?;
        if let Some(run) = self.runs.get_mut(&turn) {
            (run.named, run.begun) = (true, true);
        }
        self.renewed(turn);
        Ok(())
    }

    fn renewed(&mut self, turn: Turn) {
        if self.now > self.world.renewed(turn) {
            self.fact(Fact::Renew { turn });
        }
        self.fact(Fact::GoOn { turn });
        if let Some(run) = self.runs.get_mut(&turn) {
            run.ending = None;
            run.rest_over = None;
        }
    }

    /// R41, R43: a boundary, or the PreToolUse of a `leaf` call, renews; `beside` is written with it.
    fn renews(&mut self, turn: Turn, beside: Vec<Entry>, anyway: bool) -> Did {
        let Some(fork) = self.state.fork(self.turns[turn]).cloned() else { return Ok(()) };
        let now = self.ts();
        let due = anyway || now.0 - fork.renewed.0 >= RENEWAL_MS || fork.ending.is_some() || !fork.rests_on.is_empty();
        let renewal = holding::renewal(&self.view, &fork, now);
        let may = renewal.is_some();
        // A resting turn goes on, and renews then.
        let expected = self.world.may_renew(turn, self.now) || self.world.state(turn, self.now) == RunState::Resting;
        self.same(|| format!("whether turn {turn} renews"), &may, &expected);
        let mut entries = beside;
        if due {
            entries.extend(renewal);
        }
        self.journal(&entries)?;
        if due && may {
            self.renewed(turn);
        }
        Ok(())
    }

    /// R75.
    fn fork_boundary(&mut self, turn: Turn) -> Did {
        say!(self, "boundary of turn {turn}");
        let agent = self.runs[&turn].agent;
        let over = self.state.calls.iter().any(|call| call.agent.as_ref() == Some(&self.agents[agent]));
        let over = over.then(|| Entry { agent: Some(self.agents[agent].clone()), ..Entry::new(self.ts(), Kind::Call) });
        self.renews(turn, over.into_iter().collect(), false)?;
        self.calls.retain(|(of, _)| *of != Some(agent));
        let bundles = self.fork_gets(turn);
        if bundles.is_empty() {
            return Ok(());
        }
        let taken: Vec<Entry> = bundles
            .iter()
            .map(|(thread, messages)| Entry {
                turn: Some(self.turns[turn]),
                by: Some(event::By::Fork),
                messages: messages.iter().map(|m| self.messages[*m]).collect(),
                ..self.entry(Kind::Taken, self.threads[*thread])
            })
            .collect();
        self.journal(&taken)?;
        let Some(actor) = self.fork_actor(turn) else { return Ok(()) };
        let delivery: DeliveryId = self.key.id(self.view.next_seq()).into();
        for (thread, messages) in bundles {
            self.reach(thread, Some(turn), Act::Pickup, "ok");
            let ids = messages.iter().map(|m| self.messages[*m]).collect();
            self.append(vec![event::pickup(self.threads[thread], ids, Some(delivery), actor.clone())])?;
            self.picks_up(turn, thread, messages);
        }
        Ok(())
    }

    /// What a boundary hands a fork, by the library; the reference must agree.
    fn fork_gets(&mut self, turn: Turn) -> Vec<(Thread, Vec<Message>)> {
        let id = self.turns[turn];
        let mut all = Vec::new();
        for thread in 0..self.threads.len() {
            let reading = self.reading();
            let holds = matches!(
                reading.holder(self.thread(thread)),
                Some(holding::Holder::Fork(actor, state)) if actor.turn == id && state.runs()
            );
            let new = |m: &&view::Message| holds && m.pickups.iter().all(|pickup| pickup.actor.turn != id);
            let found: Vec<MessageId> = self.thread(thread).shared().filter(new).map(|m| m.id).collect();
            let found = self.numbers(&found);
            let expected = self.world.fork_gets(turn, thread, self.now);
            self.same(|| format!("what turn {turn} gets of thread {thread}"), &found, &expected);
            if !found.is_empty() {
                all.push((thread, found));
            }
        }
        all
    }

    fn numbers(&self, ids: &[MessageId]) -> Vec<Message> {
        ids.iter().map(|id| self.messages.iter().position(|m| m == id).unwrap_or(usize::MAX)).collect()
    }

    /// What the library says of a fork's write.
    fn library_may(&self, fork: &Actor, write: Write) -> Result<(), Refused> {
        let reading = self.reading();
        match write {
            Write::Unasked(thread) | Write::Line(thread) => writes::fork_may(&reading, self.thread(thread), fork),
            Write::Pickup(m) => writes::fork_may(&reading, self.thread(self.world.thread_of(m)), fork),
            Write::Start(m) if !self.message(m).waits() => Err(Refused::by("R8", "it is no longer to be started")),
            Write::Start(m) => writes::fork_may(&reading, self.thread(self.world.thread_of(m)), fork),
            Write::Reply(m) => {
                let thread = self.thread(self.world.thread_of(m));
                self.library_answers(thread, self.message(m), "a new text", Some(fork)).map(drop)
            }
        }
    }

    fn library_answers(
        &self,
        thread: &view::Thread,
        message: &view::Message,
        text: &str,
        fork: Option<&Actor>,
    ) -> Result<Answer, Refused> {
        let own = |actor: &Actor| match fork {
            Some(fork) => actor.turn == fork.turn || (actor.agent.is_some() && actor.agent == fork.agent),
            None => actor.by == event::By::Main,
        };
        let by = message.answered.and_then(|id| thread.message(id)).and_then(|reply| reply.actor.as_ref());
        if let Some(fork) = fork
            && !by.is_some_and(own)
        {
            writes::fork_may_answer(&self.reading(), thread, message, fork)?;
        }
        answer::to_message(thread, message, text, own)
    }

    fn fork_writes(&mut self) -> Did {
        let acting = self.acting();
        let (Some(turn), false) = (self.dice.pick(&acting), self.threads.is_empty()) else { return Ok(()) };
        let agent = self.runs[&turn].agent;
        let takes: Vec<Thread> = (0..self.threads.len()).filter(|t| self.world.takers(*t).contains(&turn)).collect();
        let thread = match self.dice.pick(&takes) {
            Some(thread) if !self.dice.one_in(3) => thread,
            _ => self.dice.roll(self.threads.len()),
        };
        let Some(message) = self.pick_message(|day, m| {
            day.world.thread_of(m) == thread && (day.world.waits(m) || day.messages[m].0 % 4 == 0)
        }) else {
            return Ok(());
        };
        let call = Entry {
            agent: Some(self.agents[agent].clone()),
            tool_use: Some("t".to_owned()),
            marked: true,
            ..Entry::new(self.ts(), Kind::Call)
        };
        self.renews(turn, vec![call], false)?;
        self.calls.push((Some(agent), true));
        let write = match self.dice.roll(8) {
            0 => Write::Unasked(thread),
            1 => Write::Line(thread),
            2 => Write::Start(message),
            _ => Write::Reply(message),
        };
        let todo = matches!(write, Write::Reply(_)) && self.dice.one_in(4);
        say!(self, "turn {turn} writes {write:?} in thread {thread}, to-do {todo}");
        if !self.world.is_open_question(write) {
            self.write(|day| day.fork_write(turn, thread, write, todo))?;
        }
        // Without its boundary a call stays in flight.
        if self.runs[&turn].over || self.dice.one_in(5) {
            return Ok(());
        }
        self.fork_boundary(turn)
    }

    fn fork_write(&mut self, turn: Turn, thread: Thread, write: Write, todo: bool) -> Result<bool, Killed> {
        let agent = self.agents[self.runs[&turn].agent].clone();
        // The command finds its turn by its mark (R67); one that ended meanwhile is refused (R68).
        let found = self.state.open_fork(&agent).map(|fork| fork.id);
        let open = (!self.runs[&turn].over).then(|| self.turns[turn]);
        self.same(|| format!("the turn in which turn {turn}'s command acts"), &found, &open);
        let (Some(actor), Some(_)) = (self.fork_actor(turn), open) else { return Ok(false) };
        let verdict = self.library_may(&actor, write);
        let expected = self.world.may(turn, write, self.now);
        self.same(|| format!("whether turn {turn} may {write:?}"), &verdict.is_ok(), &expected);
        if verdict.is_err() {
            return Ok(false);
        }
        let id = self.threads[thread];
        let text = format!("by turn {turn}");
        match write {
            Write::Unasked(_) => {
                self.append_one(Author::Agent, Body::Reply { thread: id, text, responds: None, actor })?;
                self.fact(Fact::Reply { turn, thread, responds: None, todo: false });
            }
            Write::Line(_) => {
                self.append_one(Author::Agent, Body::Line { thread: id, text, actor: Some(actor) })?;
                self.fact(Fact::Line { thread });
            }
            Write::Start(message) => {
                let item = self.messages[message].into();
                self.append_one(Author::Agent, Body::Start { item, text, actor })?;
            }
            Write::Reply(message) | Write::Pickup(message) => self.answers(turn, thread, message, text, todo, actor)?,
        }
        Ok(true)
    }

    fn answers(&mut self, turn: Turn, thread: Thread, message: Message, text: String, todo: bool, actor: Actor) -> Did {
        let (id, responds) = (self.threads[thread], Some(self.messages[message]));
        let mut drafts = Vec::new();
        if todo {
            let body =
                Body::Todo { thread: id, title: "more".to_owned(), source: responds, actor: Some(actor.clone()) };
            drafts.push(draft(Author::Agent, body));
        }
        drafts.push(draft(Author::Agent, Body::Reply { thread: id, text, responds, actor }));
        let events = self.append(drafts)?;
        if todo {
            self.todos.push(events[0].into());
        }
        self.fact(Fact::Reply { turn, thread, responds: Some(message), todo });
        self.last_answer.insert(thread, (turn, message));
        Ok(())
    }

    /// The same answer once more (R10): its own stands, another's doesn't count, other words are refused.
    fn fork_repeats(&mut self) -> Did {
        let acting = self.acting();
        let Some(turn) = self.dice.pick(&acting) else { return Ok(()) };
        let Some(actor) = self.fork_actor(turn) else { return Ok(()) };
        let answers: Vec<(MessageId, MessageId, Actor, String)> = self
            .view
            .in_order()
            .flat_map(|thread| &thread.messages)
            .filter_map(|reply| Some((reply.responds?, reply.id, reply.actor.clone()?, reply.text.clone())))
            .collect();
        if answers.is_empty() {
            return Ok(());
        }
        let (responds, reply, by, text) = answers[self.dice.roll(answers.len())].clone();
        let text = if self.dice.one_in(3) { "other words".to_owned() } else { text };
        let Some((thread, message)) = self.view.message(responds) else { return Ok(()) };
        if message.withdrawn.is_some() {
            return Ok(());
        }
        let own = self.runs.get(&self.turn_of(by.turn)).is_some_and(|run| run.agent == self.runs[&turn].agent);
        let found = match self.library_answers(thread, message, &text, Some(&actor)) {
            Ok(Answer::Repeat(id)) if id == reply => "repeat",
            Ok(_) => "new",
            Err(refused) => refused.rule.unwrap_or("input"),
        };
        let rule = found;
        let found = if ["R55", "R57", "R58"].contains(&found) { "not its own" } else { found };
        let expected = match (own, text == "other words") {
            (true, false) => "repeat",
            (true, true) => "R10",
            (false, _) => "not its own",
        };
        let number = self.numbers(&[responds])[0];
        self.reach(self.world.thread_of(number), Some(turn), Act::Reply, rule);
        self.same(|| format!("turn {turn} gives the answer to message {number} again"), &found, &expected);
        Ok(())
    }

    /// A run that `leaf` did not start (R45).
    fn runs_on(&mut self) -> Did {
        if self.agents.is_empty() || !self.alive {
            return Ok(());
        }
        let agent = self.dice.roll(self.agents.len());
        // Who was named only after its turn had ended was told to stop (R38), and has no turn that counts as its own.
        let known = self.runs.values().any(|r| r.agent == agent && r.named);
        let own = self.runs.iter().any(|(_, r)| r.agent == agent && !r.over && r.generation == self.generation);
        if !known || own {
            return Ok(());
        }
        say!(self, "agent {agent} runs on by itself");
        let id = TurnId(self.turns.len() as u64 + 1);
        let entry = Entry {
            turn: Some(id),
            by: Some(event::By::Fork),
            agent: Some(self.agents[agent].clone()),
            name: Some("leaf-again".to_owned()),
            ..Entry::new(self.ts(), Kind::Begun)
        };
        self.journal(&[entry])?;
        let (turn, _) = self.next_turn();
        self.fact(Fact::Open { by: By::Fork(agent), ours: false });
        let run = self.run(agent, true, true);
        self.runs.insert(turn, run);
        Ok(())
    }

    fn fork_ends(&mut self) -> Did {
        let forks = self.forks();
        let Some(turn) = self.dice.pick(&forks) else { return Ok(()) };
        let run = self.runs[&turn].clone();
        let resting = self.world.state(turn, self.now) == RunState::Resting
            || self.state.fork(self.turns[turn]).is_some_and(|fork| !fork.rests_on.is_empty());
        say!(self, "an end of turn {turn}");
        match self.dice.roll(8) {
            // The module's report, or a notification: of a run that began and doesn't rest (R79, R80).
            0..=2 if run.begun && !resting => self.end(turn, Evidence::Module),
            // A failure, or a stop, ends what began; a failed step of starting what didn't (R31, R79).
            3 => self.end(turn, if run.begun { Evidence::StopFailure } else { Evidence::Failed }),
            4 if run.begun => self.end(turn, Evidence::TaskStop),
            // `leaf fork stop`.
            5 => {
                self.settle()?;
                self.end(turn, Evidence::TaskStop)
            }
            _ if run.begun && run.named => self.fork_stops(turn),
            _ => Ok(()),
        }
    }

    /// SubagentStop: provisional (R78), or a rest (R80); its calls are over.
    fn fork_stops(&mut self, turn: Turn) -> Did {
        let agent = self.runs[&turn].agent;
        let rests = self.dice.one_in(2);
        let of = |day: &Self, kind| Entry {
            turn: Some(day.turns[turn]),
            by: Some(event::By::Fork),
            agent: Some(day.agents[agent].clone()),
            ..Entry::new(day.ts(), kind)
        };
        let stopped = if rests {
            Entry { tasks: vec!["task".to_owned()], ..of(self, Kind::Resting) }
        } else {
            Entry { evidence: Some(Evidence::SubagentStop), ..of(self, Kind::Ending) }
        };
        let over = Entry { turn: None, by: None, ..of(self, Kind::Call) };
        self.journal(&[stopped, over])?;
        say!(self, "  it stops, rests {rests}");
        self.calls.retain(|(of, _)| *of != Some(agent));
        let now = self.now;
        if rests {
            self.fact(Fact::Rest { turn });
        }
        if let Some(run) = self.runs.get_mut(&turn) {
            if rests {
                (run.ending, run.rest_over) = (None, None);
            } else {
                run.ending.get_or_insert(now);
            }
        }
        Ok(())
    }

    /// A Stop of main's no longer lists a resting run's work (R80).
    fn rest_is_over(&mut self) -> Did {
        let resting: Vec<Turn> = self
            .acting()
            .into_iter()
            .filter(|t| self.state.fork(self.turns[*t]).is_some_and(|fork| !fork.rests_on.is_empty()))
            .collect();
        let Some(turn) = self.dice.pick(&resting) else { return Ok(()) };
        if self.runs[&turn].rest_over.is_some() {
            return Ok(());
        }
        say!(self, "turn {turn}'s work is no longer listed");
        let over =
            Entry { turn: Some(self.turns[turn]), by: Some(event::By::Fork), ..Entry::new(self.ts(), Kind::Resting) };
        self.journal(&[over])?;
        let now = self.now;
        if let Some(run) = self.runs.get_mut(&turn) {
            run.rest_over = Some(now);
        }
        Ok(())
    }

    /// The follower hands a resting run its further messages (R80).
    fn go_on(&mut self) -> Did {
        if self.lane.is_none() {
            return Ok(());
        }
        self.settle()?;
        let resting: Vec<Turn> =
            self.acting().into_iter().filter(|t| self.world.state(*t, self.now) == RunState::Resting).collect();
        for turn in resting {
            for (thread, messages) in self.fork_gets(turn) {
                say!(self, "the follower resumes turn {turn}");
                let ids: Vec<MessageId> = messages.iter().map(|m| self.messages[*m]).collect();
                let taken = Entry {
                    turn: Some(self.turns[turn]),
                    by: Some(event::By::Fork),
                    messages: ids.clone(),
                    ..self.entry(Kind::Taken, self.threads[thread])
                };
                self.journal(&[taken])?;
                let Some(actor) = self.fork_actor(turn) else { return Ok(()) };
                self.append(vec![event::pickup(self.threads[thread], ids, None, actor)])?;
                self.picks_up(turn, thread, messages);
            }
        }
        Ok(())
    }

    // Main.

    fn prompt(&mut self) -> Did {
        if !self.alive {
            return Ok(());
        }
        say!(self, "a prompt");
        let open = self.main.filter(|_| self.main_open);
        let ended = open.map(|main| Entry::ended(self.ts(), self.turns[main], Evidence::Prompt));
        self.open_main(ended, false)?;
        self.deliver()
    }

    fn main_boundary(&mut self) -> Did {
        if !self.alive {
            return Ok(());
        }
        say!(self, "main's boundary");
        let mains = self.state.calls.iter().any(|call| call.agent.is_none());
        match self.main.filter(|_| self.main_open) {
            Some(main) => {
                let renewed = Entry::renewed(self.ts(), self.turns[main], true);
                let over = mains.then(|| Entry::new(self.ts(), Kind::Call));
                self.journal(&[Some(renewed), over].into_iter().flatten().collect::<Vec<_>>())?;
                if mains {
                    self.calls.retain(|(of, _)| of.is_some());
                }
            }
            None => {
                self.open_main(None, false)?;
            }
        }
        self.deliver()
    }

    fn main_stops(&mut self) -> Did {
        if !self.alive {
            return Ok(());
        }
        say!(self, "main stops");
        let reading = self.reading();
        let boxes = [inbox(&reading, &self.session)];
        let unshown = !boxes[0].unshown.is_empty();
        let why = deliver::stop(&boxes, &self.state, false, None);
        let gets = (0..self.world.threads()).any(|t| !self.world.main_gets(t, self.now).is_empty());
        self.same(
            || "whether new input continues main".to_owned(),
            &(why == Some(Continue::Input)),
            &(gets || unshown),
        );
        if why.is_some() {
            return self.deliver();
        }
        let Some(main) = self.main.filter(|_| self.main_open) else { return Ok(()) };
        let ended = Entry::ended(self.ts(), self.turns[main], Evidence::Stop);
        self.journal(&[ended, Entry::new(self.ts(), Kind::Call)])?;
        self.calls.retain(|(of, _)| of.is_some());
        self.fact(Fact::End { turn: main });
        self.main_open = false;
        Ok(())
    }

    /// What `Hook::deliver` picks up (R100, R101).
    fn deliver(&mut self) -> Did {
        self.settle()?;
        let bundles = self.main_gets();
        if bundles.is_empty() || self.wrong.is_some() {
            return Ok(());
        }
        let turn = match self.main.filter(|_| self.main_open) {
            Some(turn) => turn,
            None => self.open_main(None, false)?,
        };
        let taken: Vec<Entry> = bundles
            .iter()
            .map(|(thread, messages)| Entry {
                turn: Some(self.turns[turn]),
                by: Some(event::By::Main),
                messages: messages.iter().map(|m| self.messages[*m]).collect(),
                ..self.entry(Kind::Taken, self.threads[*thread])
            })
            .collect();
        self.journal(&taken)?;
        let delivery: DeliveryId = self.key.id(self.view.next_seq()).into();
        let actor = self.main_actor(turn);
        for (thread, messages) in bundles {
            self.reach(thread, None, Act::Pickup, "ok");
            say!(self, "  main picks up {messages:?} of thread {thread}");
            let ids = messages.iter().map(|m| self.messages[*m]).collect();
            self.append(vec![event::pickup(self.threads[thread], ids, Some(delivery), actor.clone())])?;
            self.picks_up(turn, thread, messages);
        }
        let shown =
            Entry { page: Some(self.page.clone()), delivery: Some(delivery), ..Entry::new(self.ts(), Kind::Shown) };
        self.journal(&[shown])
    }

    /// What main's delivery carries, by the library; the reference must agree.
    fn main_gets(&mut self) -> Vec<(Thread, Vec<Message>)> {
        let reading = self.reading();
        let found = inbox(&reading, &self.session);
        let mut new: BTreeMap<Thread, Vec<Message>> = BTreeMap::new();
        for bundle in &found.new {
            let thread = self.threads.iter().position(|id| *id == bundle.thread.id).unwrap_or(usize::MAX);
            new.insert(thread, self.numbers(&bundle.messages.iter().map(|m| m.id).collect::<Vec<_>>()));
        }
        let (wakes, any) = (found.wakes, !new.is_empty());
        let expected: BTreeMap<Thread, Vec<Message>> = (0..self.world.threads())
            .map(|t| (t, self.world.main_gets(t, self.now)))
            .filter(|(_, messages)| !messages.is_empty())
            .collect();
        self.same(|| "what main's delivery carries".to_owned(), &new, &expected);
        self.same(|| "whether that wakes".to_owned(), &wakes, &any);
        new.into_iter().collect()
    }

    /// Main, a script below it whose PreToolUse nobody saw, or a person at a terminal.
    fn main_answers(&mut self) -> Did {
        let by_hook = self.alive && !self.dice.one_in(3);
        let terminal = !by_hook && (!self.alive || self.dice.one_in(2));
        if by_hook {
            // A call of main's counts beside a fork's where one runs or could begin to (R72).
            if self.state.forks_may_run(self.lane.is_some()) {
                let call = Entry { tool_use: Some("t".to_owned()), ..Entry::new(self.ts(), Kind::Call) };
                self.journal(&[call])?;
            }
            self.calls.push((None, false));
        }
        let again = self.dice.one_in(8);
        let Some(message) = self.pick_message(|day, m| day.world.waits(m) != again) else { return Ok(()) };
        let thread = self.world.thread_of(message);
        let by_thread = !again && self.dice.one_in(2);
        let kind = self.dice.roll(8);
        let todo = kind == 1;
        self.write(|day| {
            if !terminal {
                let marked = day.state.calls.iter().any(|call| call.marked);
                let found = marked && !day.state.calls.iter().any(|call| !call.marked);
                let expected = day.calls.iter().any(|c| c.1) && !day.calls.iter().any(|c| !c.1);
                day.same(|| "whether an unmarked write is refused (R72)".to_owned(), &found, &expected);
                if found {
                    say!(day, "an unmarked write is refused");
                    day.reach(thread, None, Act::Reply, "R72");
                    return Ok(false);
                }
            }
            day.main_writes(thread, message, by_thread, kind == 0, todo)
        })
    }

    fn main_writes(
        &mut self,
        thread: Thread,
        message: Message,
        by_thread: bool,
        unasked: bool,
        todo: bool,
    ) -> Result<bool, Killed> {
        let id = self.threads[thread];
        let text = format!("main's {}", self.view.seq);
        let waiting = self.world.shared(thread);
        // R63: what is said beside a write over a running fork or the line fork.
        let beside = writes::over(&self.reading(), self.thread(thread), !unasked).is_some();
        if !waiting.is_empty() {
            let expected = match self.world.holder(thread, self.now) {
                Holder::LineFork => true,
                Holder::Turn(turn) => self.world.is_running_fork(turn, self.now),
                Holder::Nobody => false,
            };
            self.same(|| format!("whether main writes over somebody in thread {thread}"), &beside, &expected);
        }
        if unasked {
            let turn = self.mains_turn()?;
            say!(self, "main says something in thread {thread}");
            self.reach(thread, None, Act::Unasked, "ok");
            let actor = self.main_actor(turn);
            self.append_one(Author::Agent, Body::Reply { thread: id, text, responds: None, actor })?;
            self.fact(Fact::Reply { turn, thread, responds: None, todo: false });
            return Ok(true);
        }
        let mut message = message;
        if by_thread {
            // The newest waiting message that main picked up, else the newest waiting one.
            let all: Vec<Message> = (0..self.messages.len())
                .filter(|m| self.world.thread_of(*m) == thread && self.world.waits(*m))
                .collect();
            let expected = all.iter().rev().find(|m| self.world.main_has(**m)).or(all.last()).copied();
            let found = answer::of_thread(self.thread(thread), Some(&self.session), &text).ok().map(|m| m.id);
            let found = found.map(|id| self.numbers(&[id])[0]);
            self.same(|| format!("for which message thread {thread} stands (R63)"), &found, &expected);
            match found {
                Some(found) => message = found,
                None => return Ok(false),
            }
        }
        let verdict = self.library_answers(self.thread(thread), self.message(message), &text, None);
        let has_todo = self.world.has_open_todo(message);
        if !self.world.waits(message) {
            // Settled ones may be answered (R9); withdrawn and answered ones not (R8, R10).
            self.reach(thread, None, Act::Reply, if verdict.is_ok() { "settled" } else { "R8, R10" });
            return Ok(false);
        }
        self.same(|| format!("main answers message {message}"), &verdict.is_ok(), &true);
        let turn = self.mains_turn()?;
        say!(self, "main, turn {turn}, answers message {message} of thread {thread}, to-do {}", todo && !has_todo);
        self.reach(thread, None, Act::Reply, if beside { "over" } else { "ok" });
        let actor = self.main_actor(turn);
        self.answers(turn, thread, message, text, todo && !has_todo, actor)?;
        Ok(true)
    }

    // Lost processes.

    fn client(&mut self) -> Did {
        if self.alive && self.dice.one_in(2) {
            say!(self, "the client dies");
            self.alive = false;
            self.lane = None;
            self.fact(Fact::ClientDies);
            // What it ran is gone with it.
            self.main_open = false;
            return Ok(());
        }
        // Its process is another, and so is its follower.
        if self.alive {
            self.alive = false;
            self.lane = None;
            self.fact(Fact::ClientDies);
        }
        say!(self, "a new generation");
        self.generation += 1;
        let mut entries = Vec::new();
        if let Some(main) = self.state.main.as_ref().filter(|main| main.ended.is_none()) {
            entries.push(Entry::ended(self.ts(), main.id, Evidence::Generation));
        }
        let generation = Some(Generation(self.generation));
        entries.push(Entry { generation, ..Entry::new(self.ts(), Kind::Generation) });
        self.left = None;
        self.journal(&entries)?;
        self.alive = true;
        self.main_open = false;
        self.fact(Fact::Generation);
        self.calls.clear();
        // Another client has no lane yet, and what was kept back for the old one is main's.
        self.kept.clear();
        for thread in 0..self.world.threads() {
            if self.world.is_queued(thread) {
                self.fact(Fact::Unqueued { thread });
            }
        }
        if self.state.forks.iter().any(|turn| turn.ended.is_none()) {
            self.settle()?;
        }
        if !self.dice.one_in(4) {
            self.follower_starts();
        }
        Ok(())
    }

    // A step.

    fn passes_time(&mut self) {
        let jumps =
            [0, 0, 0, 1, 2, 5, 20, KEEP - 1, KEEP, KEEP + 1, MINUTE, FLURRY - 1, FLURRY, 300, LAPSE - 1, LAPSE, -20];
        let bound = if self.dice.one_in(4) { jumps.len() } else { 7 };
        self.now += jumps[self.dice.roll(bound)];
    }

    fn step(&mut self) -> &'static str {
        self.passes_time();
        if !self.ends_due().is_empty() {
            self.compare();
            // Some writer or hook sees it first.
            let _ = self.settle();
        }
        self.left = self.dice.one_in(12).then(|| self.dice.roll(4));
        let kept = (0..self.threads.len()).any(|t| self.world.kept_back(t, self.now).is_ok());
        let unbegun = self.alive && self.forks().iter().any(|t| !self.runs[t].begun);
        // Where the line fork is asked it mostly answers, what starts mostly begins, and what runs mostly works.
        let (name, did) = if unbegun && self.dice.one_in(2) {
            ("fork begins", self.fork_begins())
        } else if kept && self.lane.is_some() && self.dice.one_in(2) {
            ("line", self.line_fork())
        } else if !self.acting().is_empty() && self.dice.one_in(3) {
            ("fork writes", self.fork_writes())
        } else {
            match self.dice.roll(48) {
                0..=10 => ("user writes", self.user_writes()),
                11 => ("user withdraws", self.user_withdraws()),
                12 => ("user resolves", self.user_resolves()),
                13 => ("to-do ends", self.todo_ends()),
                14..=15 => ("follower", self.follower()),
                16 => ("line", self.line_fork()),
                17..=19 => ("queue", self.queue()),
                20..=21 => ("fork begins", self.fork_begins()),
                22..=24 => {
                    let acting = self.acting();
                    let did = match self.dice.pick(&acting) {
                        Some(turn) => self.fork_boundary(turn),
                        None => Ok(()),
                    };
                    ("fork boundary", did)
                }
                25..=27 => ("fork ends", self.fork_ends()),
                28 => ("rest is over", self.rest_is_over()),
                29 => ("further for a rest", self.go_on()),
                30..=31 => ("runs on", self.runs_on()),
                32 => ("repeats", self.fork_repeats()),
                33..=36 => ("main boundary", self.main_boundary()),
                37..=41 => ("main answers", self.main_answers()),
                42..=43 => ("prompt", self.prompt()),
                44..=45 => ("main stops", self.main_stops()),
                46 => ("settle", self.settle()),
                _ => ("client", self.client()),
            }
        };
        let _: Did = did;
        self.left = None;
        self.leaves_queue();
        name
    }

    // Comparing.

    /// All readings, as somebody finds them who writes nothing: what is over by now is shown as over (R88).
    fn compare(&mut self) {
        let due = self.ends_shown();
        if due.is_empty() {
            return self.compare_readings();
        }
        let written = self.world.clone();
        for turn in due {
            self.fact(Fact::End { turn });
        }
        self.compare_readings();
        self.world = written;
    }

    fn compare_readings(&mut self) {
        for thread in 0..self.threads.len() {
            let reading = self.reading();
            let t = self.thread(thread);
            let holder = reading.holder(t);
            let found = match holder {
                None => Holder::Nobody,
                Some(holding::Holder::LineFork) => Holder::LineFork,
                Some(holding::Holder::Main(actor)) => {
                    Holder::Turn(actor.map_or(usize::MAX, |actor| self.turn_of(actor.turn)))
                }
                Some(holding::Holder::Fork(actor, _)) => Holder::Turn(self.turn_of(actor.turn)),
            };
            let owed = match reading.owed_by(t) {
                holding::Holder::LineFork => Owner::LineFork,
                holding::Holder::Main(_) => Owner::Main,
                holding::Holder::Fork(actor, _) => Owner::Fork(self.turn_of(actor.turn)),
            };
            let (kept, mains) = (reading.kept_back(t), reading.is_mains(t));
            let waiting = self.numbers(&t.input().map(|m| m.id).collect::<Vec<_>>());
            let expected = self.world.waiting(thread);
            self.same(|| format!("what waits in thread {thread}"), &waiting, &expected);
            let expected = self.world.holder(thread, self.now);
            // Where nothing waits the reference names the newest answered message's turn, the library the last answer's.
            if !waiting.is_empty() {
                self.same(|| format!("the holder of thread {thread}"), &found, &expected);
            } else if let Some((turn, _)) = self.last_answer.get(&thread) {
                let last = Holder::Turn(*turn);
                self.same(|| format!("who answered thread {thread} (R50)"), &found, &last);
            }
            let expected = self.world.kept_back(thread, self.now);
            self.same(|| format!("whether thread {thread} is kept back ({expected:?})"), &kept, &expected.is_ok());
            if let Some(expected) = self.world.owed_by(thread, self.now) {
                self.same(|| format!("who owes thread {thread}"), &owed, &expected);
                self.same(|| format!("whether thread {thread} is main's"), &mains, &(expected == Owner::Main));
            }
        }
        self.main_gets();
        let forks: Vec<Turn> = self.runs.keys().copied().collect();
        for turn in forks {
            let found = match self.reading().stands(self.turns[turn]) {
                TurnState::Running => RunState::Running,
                TurnState::Resting => RunState::Resting,
                TurnState::Lapsed => RunState::Lapsed,
                TurnState::Ended => RunState::Ended,
            };
            let expected = self.world.state(turn, self.now);
            self.same(|| format!("the state of turn {turn}"), &found, &expected);
            if expected == RunState::Ended {
                continue;
            }
            let Some(fork) = self.state.fork(self.turns[turn]) else { continue };
            let outcome = of_library(ended::judge(&self.reading(), fork));
            let judged = self.judged(turn);
            self.same(|| format!("how turn {turn} would be judged"), &outcome, &judged);
            if self.runs[&turn].named && self.runs[&turn].begun {
                self.compare_writes(turn);
            }
        }
    }

    /// What a fork may write in each thread: unasked, a line, and an answer, a start and a pickup of some message.
    fn compare_writes(&mut self, turn: Turn) {
        let Some(actor) = self.fork_actor(turn) else { return };
        for thread in 0..self.threads.len() {
            let Some(message) = self.pick_message(|day, m| day.world.thread_of(m) == thread) else { continue };
            let all = [
                (Write::Unasked(thread), Act::Unasked),
                (Write::Reply(message), Act::Reply),
                (Write::Start(message), Act::Start),
                (Write::Pickup(message), Act::Pickup),
            ];
            for (write, act) in all {
                if self.world.is_open_question(write) {
                    continue;
                }
                let verdict = self.library_may(&actor, write);
                let expected = self.world.may(turn, write, self.now);
                self.same(|| format!("whether turn {turn} may {write:?}: {verdict:?}"), &verdict.is_ok(), &expected);
                let outcome = verdict.err().map_or("ok", |refused| refused.rule.unwrap_or("input"));
                self.reach(thread, Some(turn), act, outcome);
            }
        }
    }

    /// Notes the situation in which something is done in a thread, by a fork's turn or by who does such acts.
    fn reach(&mut self, thread: Thread, turn: Option<Turn>, act: Act, outcome: &'static str) {
        let world = &self.world;
        if thread >= world.threads() {
            return;
        }
        let holder = world.holder(thread, self.now);
        let held = match holder {
            Holder::Nobody => Held::Nobody,
            Holder::LineFork => Held::LineFork,
            Holder::Turn(turn) => match world.by(turn) {
                By::Main => Held::Main { open: self.main_open && self.main == Some(turn) },
                By::Fork(_) => Held::Fork(world.state(turn, self.now)),
            },
        };
        let waiting = world.waiting(thread);
        let shape = Shape {
            waiting: waiting.len().min(2) as u8,
            newest_owes: waiting.last().is_some_and(|m| world.owes(*m)),
            resolved: world.is_resolved(thread),
            todo: (0..world.messages()).any(|m| world.thread_of(m) == thread && world.has_open_todo(m)),
            line: world.line_stands(thread),
            queued: world.is_queued(thread),
        };
        let who = match turn {
            Some(turn) => {
                let (state, takers) = (world.state(turn, self.now), world.takers(thread));
                let last = takers.last();
                if holder == Holder::Turn(turn) {
                    Who::HoldingFork(state)
                } else if last == Some(&turn) {
                    Who::LastTaker(state)
                } else if takers.contains(&turn) {
                    Who::EarlierTaker(state)
                } else if last.is_some_and(|last| world.by(*last) == world.by(turn)) {
                    Who::AgentOfTheLastTaker(state)
                } else {
                    Who::Stranger(state)
                }
            }
            None => match act {
                Act::Message | Act::Withdraw | Act::Settle => Who::User,
                Act::Take | Act::Line => Who::LineFork,
                _ => Who::Main,
            },
        };
        *self.reached.situations.entry((held, shape, who, act, outcome)).or_default() += 1;
    }
}

fn kind_of(how: &take::Take) -> &'static str {
    match how {
        take::Take::Queue => "queue",
        take::Take::Resume { into: Some(_), .. } => "into",
        take::Take::Resume { into: None, .. } => "resume",
        take::Take::Spawn => "spawn",
    }
}

fn of_library(outcome: Judged) -> Outcome {
    match outcome {
        Judged::HandBack => Outcome::HandBack,
        Judged::TakenOver => Outcome::TakenOver,
        Judged::Todo => Outcome::Todo,
        Judged::Answer => Outcome::Answer,
        Judged::Void => Outcome::Void,
    }
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::HandBack => "hand_back",
        Outcome::TakenOver => "taken_over",
        Outcome::Todo => "todo",
        Outcome::Answer => "answer",
        Outcome::Void => "void",
    }
}
