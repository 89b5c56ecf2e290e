//! Random histories for the reference of holding, and what they reach.
//!
//! [`history`] plays a desk by dice: the user, the line fork, working forks, main, lost processes and a
//! clock that jumps. It writes only facts that the rules let happen (it asks the reference before a fork
//! writes), so that a library's fold of the same facts must agree with the reference after each of them.
//! [`answers`] is all that is compared, as plain values; a comparison is one function from a history's
//! beginning and a time to [`Answers`].

use std::collections::{BTreeMap, BTreeSet};

pub use crate::support::dice::Dice;

use super::reference::{
    Agent, By, Entry, FLURRY, Fact, Holder, KEEP, LAPSE, Message, NotKept, Outcome, Owner, Reference, Seconds, State,
    Thread, Turn, Write,
};

/// Working forks that may run at once.
const MAX_RUNNING: usize = 3;

/// The desk as the dice play it.
struct Play {
    dice: Dice,
    now: Seconds,
    world: Reference,
    history: Vec<Entry>,
    main: Option<Turn>,
    agents: Agent,
    /// Threads that were kept back after the last fact.
    kept: BTreeSet<Thread>,
}

/// One random history of so many turns of the dice.
pub fn history(seed: u64, steps: usize) -> Vec<Entry> {
    let mut play = Play {
        dice: Dice::new(seed),
        now: 1_000,
        world: Reference::new(),
        history: Vec::new(),
        main: None,
        agents: 0,
        kept: BTreeSet::new(),
    };
    if !play.dice.one_in(6) {
        play.write(Fact::FollowerStarts);
    }
    play.open_main();
    for _ in 0..steps {
        play.pass_time();
        play.step();
    }
    play.history
}

impl Play {
    fn write(&mut self, fact: Fact) {
        let entry = Entry { at: self.now, fact };
        self.world.apply(&entry);
        self.history.push(entry);
        self.settle_queue();
    }

    /// A thread that isn't kept back any more waits for no fork.
    fn settle_queue(&mut self) {
        let gone: Vec<Thread> = (0..self.world.threads())
            .filter(|t| self.world.is_queued(*t) && self.world.kept_back(*t, self.now).is_err())
            .collect();
        for thread in gone {
            let entry = Entry { at: self.now, fact: Fact::Unqueued { thread } };
            self.world.apply(&entry);
            self.history.push(entry);
        }
    }

    /// R16: what stopped being kept back, but by a take, an answer or a to-do, is handed over by the
    /// next who sees it.
    fn hand_over(&mut self) {
        let stopped: Vec<Thread> =
            self.kept.iter().copied().filter(|t| self.world.kept_back(*t, self.now).is_err()).collect();
        for thread in stopped {
            let reason = self.world.kept_back(thread, self.now).err();
            let messages = self.world.waiting(thread);
            let free = matches!(self.world.holder(thread, self.now), Holder::Nobody);
            if free && !messages.is_empty() && reason != Some(NotKept::I) && reason != Some(NotKept::B) {
                self.write(Fact::Handed { thread, messages });
            }
        }
        self.kept = (0..self.world.threads()).filter(|t| self.world.kept_back(*t, self.now).is_ok()).collect();
    }

    fn pass_time(&mut self) {
        let jumps = [0, 0, 0, 1, 2, 5, KEEP - 1, KEEP, KEEP + 1, 61, FLURRY - 1, FLURRY, 300, LAPSE - 1, LAPSE, -20];
        let bound = if self.dice.one_in(4) { jumps.len() } else { 6 };
        self.now += jumps[self.dice.roll(bound)];
    }

    fn open_main(&mut self) {
        self.main = Some(self.world.turns());
        self.write(Fact::Open { by: By::Main, ours: true });
    }

    /// Main's open turn, else its last, else one of its own.
    fn mains_turn(&mut self) -> Turn {
        if self.main.is_none() {
            self.open_main();
        }
        self.main.unwrap_or_default()
    }

    fn forks(&self) -> Vec<Turn> {
        let open =
            |t: &Turn| matches!(self.world.by(*t), By::Fork(_)) && self.world.state(*t, self.now) != State::Ended;
        (0..self.world.turns()).filter(open).collect()
    }

    fn a_thread(&mut self) -> Option<Thread> {
        let threads = self.world.threads();
        if threads == 0 { None } else { Some(self.dice.roll(threads)) }
    }

    fn a_waiting_message(&mut self) -> Option<Message> {
        let waiting: Vec<Message> = (0..self.world.messages()).filter(|m| self.world.waits(*m)).collect();
        self.dice.pick(&waiting)
    }

    fn step(&mut self) {
        // Every reader sees; the writers among them hand over.
        if self.dice.one_in(3) {
            self.hand_over();
        }
        match self.dice.roll(40) {
            0..=7 => self.user_writes(),
            8 => self.user_withdraws(),
            9 => self.somebody_resolves(),
            10 => self.follower(),
            11..=17 => self.line_fork(),
            18..=21 => self.fork_boundary(),
            22..=26 => self.fork_writes(),
            27..=28 => self.fork_ends(),
            29 => self.fork_rests(),
            30..=32 => self.main_boundary(),
            33..=35 => self.main_answers(),
            36 => self.main_turns_over(),
            37 => self.a_known_agent_runs_on(),
            38 => self.a_todo_ends(),
            _ => self.client(),
        }
    }

    fn user_writes(&mut self) {
        let threads = self.world.threads();
        let fresh = threads == 0 || (threads < 3 && self.dice.one_in(3));
        let thread = if fresh { threads } else { self.dice.roll(threads) };
        let owes = !self.dice.one_in(6);
        self.hand_over();
        self.write(Fact::Message { thread, owes });
        self.kept = (0..self.world.threads()).filter(|t| self.world.kept_back(*t, self.now).is_ok()).collect();
    }

    fn user_withdraws(&mut self) {
        if let Some(message) = self.a_waiting_message() {
            self.write(Fact::Withdraw { message });
        }
    }

    fn somebody_resolves(&mut self) {
        let Some(thread) = self.a_thread() else { return };
        if self.world.is_resolved(thread) {
            self.write(Fact::Reopen { thread });
        } else {
            self.write(Fact::Resolve { thread });
        }
    }

    fn follower(&mut self) {
        if self.world.follower_lives() && self.dice.one_in(2) {
            self.write(Fact::FollowerDies);
        } else if self.world.client_lives() {
            self.write(Fact::FollowerStarts);
        }
    }

    fn line_fork(&mut self) {
        let kept: Vec<Thread> =
            (0..self.world.threads()).filter(|t| self.world.kept_back(*t, self.now).is_ok()).collect();
        let Some(thread) = self.dice.pick(&kept) else { return };
        let waiting = self.world.waiting(thread);
        match self.dice.roll(8) {
            0 => self.write(Fact::Handed { thread, messages: waiting }),
            1 => {
                self.write(Fact::Line { thread });
                self.write(Fact::Handed { thread, messages: waiting });
            }
            2 => {
                let Some(source) = waiting.last().copied() else { return };
                self.write(Fact::Line { thread });
                self.write(Fact::Todo { thread, source });
            }
            _ => {
                self.write(Fact::Line { thread });
                self.take(thread);
            }
        }
    }

    fn take(&mut self, thread: Thread) {
        let running = self.forks().into_iter().filter(|t| self.world.is_running_fork(*t, self.now)).count();
        if running >= MAX_RUNNING {
            if !self.world.is_queued(thread) {
                self.write(Fact::Queued { thread });
            }
            return;
        }
        // R30: a lapsed one of this thread is ended first.
        let mut superseded = false;
        for turn in self.forks() {
            if self.world.takers(thread).contains(&turn) {
                superseded = true;
                self.write(Fact::End { turn });
            }
        }
        let (turn, fact) = self.next_run(thread, superseded);
        if let Some(fact) = fact {
            self.write(fact);
        }
        let messages = self.world.waiting(thread);
        self.write(Fact::Pickup { turn, thread, messages });
        if self.dice.one_in(12) {
            self.write(Fact::End { turn });
        }
    }

    /// R89, R45: the agent that answered last, in the turn that it has open, or in a new one; else a new
    /// agent.
    fn next_run(&mut self, thread: Thread, superseded: bool) -> (Turn, Option<Fact>) {
        let next = self.world.turns();
        if !superseded
            && let Holder::Turn(_) | Holder::Nobody | Holder::LineFork = self.world.holder(thread, self.now)
            && let Some(last) = self.last_answer(thread)
            && let By::Fork(agent) = self.world.by(last)
        {
            if let Some(open) = self.forks().into_iter().find(|t| self.world.by(*t) == By::Fork(agent)) {
                return (open, None);
            }
            return (next, Some(Fact::Open { by: By::Fork(agent), ours: true }));
        }
        self.agents += 1;
        (next, Some(Fact::Open { by: By::Fork(self.agents - 1), ours: true }))
    }

    fn last_answer(&self, thread: Thread) -> Option<Turn> {
        self.history.iter().rev().find_map(|e| match e.fact {
            Fact::Reply { turn, thread: t, responds: Some(_), .. } if t == thread => Some(turn),
            _ => None,
        })
    }

    fn fork_boundary(&mut self) {
        let forks = self.forks();
        let Some(turn) = self.dice.pick(&forks) else { return };
        if self.world.state(turn, self.now) == State::Resting {
            self.write(Fact::GoOn { turn });
        }
        if self.world.may_renew(turn, self.now) {
            self.write(Fact::Renew { turn });
        }
        for thread in 0..self.world.threads() {
            let messages = self.world.fork_gets(turn, thread, self.now);
            if !messages.is_empty() {
                self.write(Fact::Pickup { turn, thread, messages });
            }
        }
    }

    fn fork_writes(&mut self) {
        let forks = self.forks();
        let (Some(turn), Some(thread)) = (self.dice.pick(&forks), self.a_thread()) else { return };
        if self.dice.one_in(5) {
            if self.world.may(turn, Write::Unasked(thread), self.now) {
                self.write(Fact::Reply { turn, thread, responds: None, todo: false });
            }
            return;
        }
        let waiting: Vec<Message> =
            (0..self.world.messages()).filter(|m| self.world.thread_of(*m) == thread && self.world.waits(*m)).collect();
        let Some(message) = self.dice.pick(&waiting) else { return };
        let write = Write::Reply(message);
        if !self.world.is_open_question(write) && self.world.may(turn, write, self.now) {
            let todo = self.dice.one_in(4);
            self.write(Fact::Reply { turn, thread, responds: Some(message), todo });
        }
    }

    fn fork_ends(&mut self) {
        let forks = self.forks();
        if let Some(turn) = self.dice.pick(&forks) {
            self.write(Fact::End { turn });
        }
    }

    fn fork_rests(&mut self) {
        let forks: Vec<Turn> =
            self.forks().into_iter().filter(|t| self.world.state(*t, self.now) == State::Running).collect();
        if let Some(turn) = self.dice.pick(&forks) {
            self.write(Fact::Rest { turn });
        }
    }

    fn main_boundary(&mut self) {
        if !self.world.client_lives() {
            return;
        }
        self.hand_over();
        let turn = self.mains_turn();
        for thread in 0..self.world.threads() {
            let messages = self.world.main_gets(thread, self.now);
            if !messages.is_empty() {
                self.write(Fact::Pickup { turn, thread, messages });
            }
        }
    }

    fn main_answers(&mut self) {
        let turn = self.mains_turn();
        let Some(message) = self.a_waiting_message() else { return };
        let thread = self.world.thread_of(message);
        let unasked = self.dice.one_in(6);
        let todo = !unasked && self.dice.one_in(6);
        self.write(Fact::Reply { turn, thread, responds: if unasked { None } else { Some(message) }, todo });
    }

    fn main_turns_over(&mut self) {
        if let Some(turn) = self.main.take() {
            self.write(Fact::End { turn });
        }
        if self.dice.one_in(2) {
            self.open_main();
        }
    }

    fn a_known_agent_runs_on(&mut self) {
        if self.agents == 0 || !self.world.client_lives() {
            return;
        }
        let agent = self.dice.roll(self.agents);
        if self.forks().iter().all(|t| self.world.by(*t) != By::Fork(agent)) {
            self.write(Fact::Open { by: By::Fork(agent), ours: false });
        }
    }

    fn a_todo_ends(&mut self) {
        let open: Vec<usize> = (0..self.world.todos()).filter(|t| self.world.todo_is_open(*t)).collect();
        if let Some(todo) = self.dice.pick(&open) {
            self.write(Fact::TodoEnd { todo });
        }
    }

    fn client(&mut self) {
        if self.dice.one_in(2) {
            return;
        }
        if self.world.client_lives() && self.dice.one_in(2) {
            self.write(Fact::ClientDies);
            self.main = None;
            return;
        }
        self.write(Fact::Generation);
        self.main = None;
        if !self.dice.one_in(4) {
            self.write(Fact::FollowerStarts);
        }
        self.open_main();
    }
}

/// All that the rules say after a history, as plain values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    pub threads: Vec<ThreadAnswer>,
    /// Each turn's state. For main's turns only whether it has ended is meant.
    pub turns: Vec<State>,
    /// What each fork's open turn may write.
    pub may: BTreeMap<(Turn, Key), bool>,
    /// How each fork's open turn would be judged, for each thread that it took or wrote in.
    pub judged: BTreeMap<(Turn, Thread), Outcome>,
    /// Which forks' turns a boundary renews.
    pub renews: BTreeMap<Turn, bool>,
}

/// A [`Write`] that sorts.
pub type Key = (u8, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadAnswer {
    pub waiting: Vec<Message>,
    pub holder: Holder,
    pub owed_by: Option<Owner>,
    pub kept_back: bool,
    pub main_gets: Vec<Message>,
}

pub fn key(write: Write) -> Key {
    match write {
        Write::Pickup(m) => (0, m),
        Write::Reply(m) => (1, m),
        Write::Start(m) => (2, m),
        Write::Unasked(t) => (3, t),
        Write::Line(t) => (4, t),
    }
}

/// Every write that can be asked about; those that the rules leave open are left out.
pub fn writes(world: &Reference) -> Vec<Write> {
    let messages = (0..world.messages()).flat_map(|m| [Write::Pickup(m), Write::Reply(m), Write::Start(m)]);
    let threads = (0..world.threads()).flat_map(|t| [Write::Unasked(t), Write::Line(t)]);
    messages.chain(threads).filter(|w| !world.is_open_question(*w)).collect()
}

/// The reference's answers.
pub fn answers(world: &Reference, now: Seconds) -> Answers {
    let thread = |t: Thread| ThreadAnswer {
        waiting: world.waiting(t),
        holder: world.holder(t, now),
        owed_by: world.owed_by(t, now),
        kept_back: world.kept_back(t, now).is_ok(),
        main_gets: world.main_gets(t, now),
    };
    let open: Vec<Turn> = (0..world.turns())
        .filter(|t| matches!(world.by(*t), By::Fork(_)) && world.state(*t, now) != State::Ended)
        .collect();
    let asked = writes(world);
    let mut may = BTreeMap::new();
    let mut judged = BTreeMap::new();
    for turn in &open {
        for write in &asked {
            may.insert((*turn, key(*write)), world.may(*turn, *write, now));
        }
        for thread in 0..world.threads() {
            let took = world.takers(thread).contains(turn);
            if took {
                judged.insert((*turn, thread), world.judged(*turn, thread, now));
            }
        }
    }
    Answers {
        threads: (0..world.threads()).map(thread).collect(),
        turns: (0..world.turns()).map(|t| world.state(t, now)).collect(),
        may,
        judged,
        renews: open.iter().map(|t| (*t, world.may_renew(*t, now))).collect(),
    }
}

/// Plays histories against another reading of the same facts, looking after each fact, at its time and
/// where time alone changes something; fails with the first history and instant at which they differ.
#[track_caller]
pub fn compare(seeds: std::ops::Range<u64>, steps: usize, other: impl Fn(&[Entry], Seconds) -> Answers) {
    for seed in seeds {
        let history = history(seed, steps);
        let mut world = Reference::new();
        for (n, entry) in history.iter().enumerate() {
            world.apply(entry);
            let beginning = &history[..=n];
            for later in [0, KEEP, LAPSE] {
                let now = entry.at + later;
                let (expected, found) = (answers(&world, now), other(beginning, now));
                assert!(
                    found == expected,
                    "seed {seed}, at {now}: {found:#?}\nbut {expected:#?}\nafter {beginning:#?}"
                );
            }
        }
    }
}

/// Who holds, told apart by what it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Held {
    Nobody,
    LineFork,
    Main,
    MainEnded,
    Fork(State),
}

/// The state of a thread: how many wait, whether the newest owes, what else there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    pub waiting: u8,
    pub newest_owes: bool,
    pub resolved: bool,
    pub todo: bool,
    pub line: bool,
    pub queued: bool,
}

/// Who writes there, by its past with the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Writer {
    Main,
    HoldingFork(State),
    LastTaker(State),
    EarlierTaker(State),
    AgentOfTheLastTaker(State),
    Stranger(State),
}

/// One situation: holder × thread state × who writes.
pub type Situation = (Held, Shape, Writer);

fn held(world: &Reference, thread: Thread, now: Seconds) -> Held {
    match world.holder(thread, now) {
        Holder::Nobody => Held::Nobody,
        Holder::LineFork => Held::LineFork,
        Holder::Turn(turn) => match (world.by(turn), world.state(turn, now)) {
            (By::Main, State::Ended) => Held::MainEnded,
            (By::Main, _) => Held::Main,
            (By::Fork(_), state) => Held::Fork(state),
        },
    }
}

fn shape(world: &Reference, thread: Thread) -> Shape {
    let waiting = world.waiting(thread);
    Shape {
        waiting: u8::try_from(waiting.len().min(2)).unwrap_or(2),
        newest_owes: waiting.last().is_some_and(|m| world.owes(*m)),
        resolved: world.is_resolved(thread),
        todo: (0..world.messages()).any(|m| world.thread_of(m) == thread && world.has_open_todo(m)),
        line: world.line_stands(thread),
        queued: world.is_queued(thread),
    }
}

/// The situations that a history's present offers: every thread with everyone who could write there.
pub fn situations(world: &Reference, now: Seconds) -> Vec<Situation> {
    let mut found = Vec::new();
    for thread in 0..world.threads() {
        let (held, shape) = (held(world, thread, now), shape(world, thread));
        found.push((held, shape, Writer::Main));
        let takers = world.takers(thread);
        for turn in 0..world.turns() {
            let state = world.state(turn, now);
            if world.by(turn) == By::Main || state == State::Ended {
                continue;
            }
            let last = takers.last();
            let writer = if world.holder(thread, now) == Holder::Turn(turn) {
                Writer::HoldingFork(state)
            } else if last == Some(&turn) {
                Writer::LastTaker(state)
            } else if takers.contains(&turn) {
                Writer::EarlierTaker(state)
            } else if last.is_some_and(|l| world.by(*l) == world.by(turn)) {
                Writer::AgentOfTheLastTaker(state)
            } else {
                Writer::Stranger(state)
            };
            found.push((held, shape, writer));
        }
    }
    found
}

/// What must hold after any history, said without the reference's own words for it.
fn sane(world: &Reference, now: Seconds, history: &[Entry]) {
    let say = || format!("at {now} after {history:#?}");
    for thread in 0..world.threads() {
        let holder = world.holder(thread, now);
        let waiting = world.waiting(thread);
        let running: Vec<Turn> =
            (0..world.turns()).filter(|t| world.is_running_fork(*t, now) && world.takers(thread).contains(t)).collect();
        if world.kept_back(thread, now).is_ok() {
            assert_eq!(holder, Holder::LineFork, "kept back is held by the line fork {}", say());
            assert!(running.is_empty(), "R13(d) {}", say());
            assert!(world.main_gets(thread, now).is_empty(), "R18 {}", say());
        }
        let owes = waiting.iter().any(|m| world.owes(*m));
        assert_eq!(world.owed_by(thread, now).is_some(), owes, "somebody always owes what waits {}", say());
        // R58: of two turns at most one may answer, and main's takes end it for all.
        let may: Vec<Turn> = (0..world.turns())
            .filter(|t| matches!(world.by(*t), By::Fork(_)) && world.state(*t, now) != State::Ended)
            .filter(|t| waiting.last().is_some_and(|m| world.may(*t, Write::Reply(*m), now)))
            .collect();
        let agents: BTreeSet<String> = may.iter().map(|t| format!("{:?}", world.by(*t))).collect();
        assert!(agents.len() <= 1, "two forks may answer {may:?} {}", say());
        if let Some(last) = world.takers(thread).last()
            && world.by(*last) == By::Main
        {
            assert!(may.is_empty(), "a fork may write where main took the thread {may:?} {}", say());
        }
        // What is a fork's isn't main's.
        if let Some(Owner::Fork(turn)) = world.owed_by(thread, now) {
            assert!(world.is_running_fork(turn, now));
            let mains = world.main_gets(thread, now);
            assert!(mains.iter().all(|m| world.is_mains_alone(*m)), "R61, R97 {}", say());
        }
        for turn in &running {
            for message in world.fork_gets(*turn, thread, now) {
                assert!(
                    world.may(*turn, Write::Pickup(message), now),
                    "a boundary hands what may be written {}",
                    say()
                );
            }
        }
    }
}

/// How many histories the suite plays, and how long each is.
pub const HISTORIES: u64 = 10_000;
pub const STEPS: usize = 70;

#[test]
fn histories_reach_the_situations_that_matter() {
    let mut seen: BTreeMap<Situation, u64> = BTreeMap::new();
    let mut letters: BTreeSet<NotKept> = BTreeSet::new();
    let mut outcomes: BTreeSet<Outcome> = BTreeSet::new();
    let mut verdicts: BTreeMap<(u8, bool), u64> = BTreeMap::new();
    let mut facts = 0;
    for seed in 0..HISTORIES {
        let history = history(seed, STEPS);
        let mut world = Reference::new();
        for (n, entry) in history.iter().enumerate() {
            if let Fact::End { turn } = entry.fact
                && matches!(world.by(turn), By::Fork(_))
            {
                for thread in 0..world.threads() {
                    if world.takers(thread).contains(&turn) {
                        outcomes.insert(world.judged(turn, thread, entry.at));
                    }
                }
            }
            world.apply(entry);
            // Every third instant is looked at: a fact is rarely alone.
            if n % 3 == 0 {
                for situation in situations(&world, entry.at) {
                    *seen.entry(situation).or_default() += 1;
                }
                for thread in 0..world.threads() {
                    letters.extend(world.kept_back(thread, entry.at).err());
                }
            }
        }
        facts += history.len();
        if let Some(last) = history.last() {
            sane(&world, last.at, &history);
            sane(&world, last.at + KEEP, &history);
            sane(&world, last.at + LAPSE, &history);
            let answered = answers(&world, last.at);
            for ((_, (kind, _)), may) in &answered.may {
                *verdicts.entry((*kind, *may)).or_default() += 1;
            }
        }
    }
    let held: BTreeSet<Held> = seen.keys().map(|s| s.0).collect();
    let writers: BTreeSet<Writer> = seen.keys().map(|s| s.2).collect();
    let often = seen.values().filter(|n| **n >= 10).count();
    println!(
        "{HISTORIES} histories, {facts} facts: {} situations ({often} of them at least ten times), {} kinds of holder, \
         {} of writer, {} reasons not to keep back, {} outcomes; verdicts by kind of write: {verdicts:?}",
        seen.len(),
        held.len(),
        writers.len(),
        letters.len(),
        outcomes.len()
    );
    assert_eq!(held.len(), 8, "every kind of holder: {held:?}");
    assert!(writers.len() >= 14, "who writes: {writers:?}");
    assert_eq!(letters.len(), 10, "every letter of R13: {letters:?}");
    assert_eq!(verdicts.len(), 10, "each kind of write was allowed and refused: {verdicts:?}");
    assert_eq!(outcomes.len(), 5, "every outcome of R81: {outcomes:?}");
    assert!(seen.len() >= 700, "a shallow run: {} situations", seen.len());
}

#[test]
fn a_reading_from_the_start_is_the_one_kept_up_to_date() {
    compare(0..100, STEPS, |history, now| answers(&Reference::of(history), now));
}

/// The reference against stories whose end the rules say outright.
mod stories {
    use super::*;

    struct Story(Vec<Entry>, Seconds);

    impl Story {
        fn new() -> Self {
            Story(Vec::new(), 0).then(Fact::FollowerStarts).then(Fact::Open { by: By::Main, ours: true })
        }

        fn then(mut self, fact: Fact) -> Self {
            self.0.push(Entry { at: self.1, fact });
            self
        }

        fn after(mut self, seconds: Seconds) -> Self {
            self.1 += seconds;
            self
        }

        fn says(self, owes: bool) -> Self {
            self.then(Fact::Message { thread: 0, owes })
        }

        /// Turn 1, a fork, takes thread 0 with these messages.
        fn taken(self, messages: &[Message]) -> Self {
            self.then(Fact::Open { by: By::Fork(0), ours: true }).picks(1, messages)
        }

        fn picks(self, turn: Turn, messages: &[Message]) -> Self {
            self.then(Fact::Pickup { turn, thread: 0, messages: messages.to_vec() })
        }

        fn answers(self, turn: Turn, responds: Message) -> Self {
            self.then(Fact::Reply { turn, thread: 0, responds: Some(responds), todo: false })
        }

        fn world(&self) -> Reference {
            Reference::of(&self.0)
        }

        #[track_caller]
        fn holder(self, expected: Holder) -> Self {
            assert_eq!(self.world().holder(0, self.1), expected);
            self
        }

        #[track_caller]
        fn owed(self, expected: Option<Owner>) -> Self {
            assert_eq!(self.world().owed_by(0, self.1), expected);
            self
        }

        #[track_caller]
        fn not_kept(self, why: NotKept) -> Self {
            assert_eq!(self.world().kept_back(0, self.1), Err(why));
            self
        }

        #[track_caller]
        fn may(self, turn: Turn, write: Write, expected: bool) -> Self {
            assert_eq!(self.world().may(turn, write, self.1), expected, "{write:?}");
            self
        }

        #[track_caller]
        fn judged(self, turn: Turn, expected: Outcome) -> Self {
            assert_eq!(self.world().judged(turn, 0, self.1), expected);
            self
        }
    }

    #[test]
    fn a_message_is_the_line_forks_for_thirty_seconds_and_ninety_in_all() {
        Story::new()
            .says(true)
            .holder(Holder::LineFork)
            .owed(Some(Owner::LineFork))
            .after(29)
            .holder(Holder::LineFork)
            .says(true)
            .after(29)
            .says(true)
            .after(29)
            .holder(Holder::LineFork)
            .says(true)
            .after(2)
            .holder(Holder::LineFork)
            .after(1)
            .not_kept(NotKept::H)
            .owed(Some(Owner::Main));
        Story::new().says(true).after(30).not_kept(NotKept::G).holder(Holder::Nobody);
        let queued = Fact::Queued { thread: 0 };
        Story::new().says(true).then(queued).after(89).holder(Holder::LineFork).after(1).not_kept(NotKept::H);
        Story::new().says(true).says(false).not_kept(NotKept::E).owed(Some(Owner::Main));
        Story::new().says(true).then(Fact::FollowerDies).not_kept(NotKept::F);
        Story::new().says(true).then(Fact::FollowerStarts).not_kept(NotKept::C);
        Story::new().says(true).after(-3_600).holder(Holder::LineFork);
    }

    #[test]
    fn what_came_while_main_owed_is_mains() {
        let handed = Fact::Handed { thread: 0, messages: vec![0] };
        Story::new()
            .says(true)
            .then(handed)
            .not_kept(NotKept::B)
            .says(true)
            .then(Fact::Withdraw { message: 0 })
            .not_kept(NotKept::A);
    }

    #[test]
    fn a_running_fork_keeps_its_thread_and_loses_it_to_an_answer_of_mains() {
        let story = || {
            Story::new().says(true).taken(&[0]).holder(Holder::Turn(1)).owed(Some(Owner::Fork(1))).says(true).may(
                1,
                Write::Pickup(1),
                true,
            )
        };
        story().answers(1, 0).holder(Holder::Turn(1)).judged(1, Outcome::Answer);
        story()
            .answers(0, 0)
            .holder(Holder::Turn(0))
            .owed(Some(Owner::Main))
            .not_kept(NotKept::A)
            .may(1, Write::Reply(1), false)
            .judged(1, Outcome::TakenOver)
            .says(true)
            .owed(Some(Owner::Main));
        story().after(LAPSE).owed(Some(Owner::Main)).may(1, Write::Reply(0), true);
        story().after(LAPSE).picks(0, &[0, 1]).may(1, Write::Reply(0), false).judged(1, Outcome::TakenOver);
        story().picks(1, &[1]).answers(1, 0).judged(1, Outcome::HandBack);
        story().then(Fact::End { turn: 1 }).holder(Holder::Turn(1)).owed(Some(Owner::Main));
    }

    #[test]
    fn after_its_answer_a_further_message_is_a_running_forks_and_else_the_line_forks() {
        let story = || Story::new().says(true).taken(&[0]).answers(1, 0).says(true);
        story().holder(Holder::Turn(1)).not_kept(NotKept::D).judged(1, Outcome::Answer);
        story().then(Fact::End { turn: 1 }).holder(Holder::LineFork);
        story().then(Fact::Rest { turn: 1 }).holder(Holder::Turn(1));
        story().after(LAPSE).holder(Holder::Nobody);
    }

    #[test]
    fn a_message_with_an_open_todo_stands_outside() {
        let story = || Story::new().says(true).then(Fact::Todo { thread: 0, source: 0 }).owed(None);
        story().says(true).holder(Holder::LineFork).answers(0, 1).then(Fact::TodoEnd { todo: 0 }).not_kept(NotKept::I);
        story().then(Fact::TodoEnd { todo: 0 }).owed(Some(Owner::Main)).not_kept(NotKept::I);
        story().answers(0, 0).then(Fact::TodoEnd { todo: 0 }).owed(None);
    }

    #[test]
    fn ends_are_judged_by_what_the_turn_picked_up_itself() {
        let taken = || Story::new().says(true).taken(&[0]);
        taken().judged(1, Outcome::HandBack);
        taken().then(Fact::Withdraw { message: 0 }).judged(1, Outcome::Void);
        taken().then(Fact::Resolve { thread: 0 }).judged(1, Outcome::Void);
        let todo = Fact::Reply { turn: 1, thread: 0, responds: Some(0), todo: true };
        taken().then(todo.clone()).judged(1, Outcome::Todo);
        taken().then(todo).then(Fact::TodoEnd { todo: 0 }).judged(1, Outcome::Answer);
        taken().then(Fact::Todo { thread: 0, source: 0 }).judged(1, Outcome::Void);
        let unasked = Fact::Reply { turn: 1, thread: 0, responds: None, todo: false };
        taken().then(unasked).judged(1, Outcome::HandBack);
    }

    #[test]
    fn a_run_that_leaf_did_not_start_writes_where_its_agent_took_last() {
        let story = || {
            Story::new()
                .says(true)
                .taken(&[0])
                .answers(1, 0)
                .then(Fact::End { turn: 1 })
                .then(Fact::Open { by: By::Fork(0), ours: false })
        };
        story().may(2, Write::Unasked(0), true).judged(2, Outcome::Void);
        story().says(true).may(2, Write::Reply(1), false).after(30).may(2, Write::Reply(1), true);
        story().says(true).picks(0, &[1]).may(2, Write::Unasked(0), false);
        let other = Fact::Open { by: By::Fork(1), ours: false };
        story().then(other).may(3, Write::Unasked(0), false);
    }

    #[test]
    fn a_new_generation_and_a_dead_client_end_every_turn() {
        let story = || Story::new().says(true).taken(&[0]);
        story().then(Fact::ClientDies).owed(Some(Owner::Main)).may(1, Write::Reply(0), false);
        story().then(Fact::Generation).owed(Some(Owner::Main)).may(1, Write::Reply(0), false).holder(Holder::Turn(1));
    }
}
