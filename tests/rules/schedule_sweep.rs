//! Thousands of random schedules, in memory: random forks and settings, random histories of one or two sessions of a project, and a
//! waiter that looks at what `select` says at every event and at every instant that `next` names. Each look is held against
//! [`super::schedule_reference`], and what is issued against what the specification promises whatever happens.
//!
//! `LEAF_SCHEDULES=100000` plays more, `LEAF_SEED=17` plays that one alone and tells it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use leaf_threads::clock::Ts;
use leaf_threads::ids::TurnId;
use leaf_threads::schedule::definition::{Fork, Moment, PerClient, Source};
use leaf_threads::schedule::record::{Change, Filter, Issue, Limits, Record, RunOutcome, Runner};
use leaf_threads::schedule::select::{self, Gauge, Held, Standing, View};
use leaf_threads::schedule::settings::Settings;
use leaf_threads::schedule::{order, wait};
use leaf_threads::session::journal::Cost;
use leaf_threads::session::liveness::Process;

use super::model::Dice;
use super::schedule_reference::{Happened, Issued, Ms, Now, Past, Why, keeps, ms, waits};

/// Schedules that the suite plays, and the events of each; 10,000 take about a minute of one processor.
const SCHEDULES: u64 = 3_000;
const EVENTS: usize = 36;
const START: Ms = 1_800_000_000_000;
const HOUR: Ms = 3_600_000;
/// How far the clock may go back before anybody minds: `leaf` lets a second pass.
const SLACK: Ms = 0;

/// What the schedules reached: a sweep in which nothing happens shows nothing.
#[derive(Clone, Debug, Default)]
struct Reached {
    looks: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Reached {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn add(&mut self, other: &Reached) {
        self.looks += other.looks;
        for (what, times) in &other.counts {
            *self.counts.entry(what).or_default() += times;
        }
    }
}

/// A run that somebody has to end.
#[derive(Clone, Debug)]
struct Going {
    id: TurnId,
    run: u64,
    fork: String,
    epoch: usize,
    chain: bool,
    gate: bool,
    flush: bool,
    waits_for: Vec<TurnId>,
    /// When it ends; `None`: it waits.
    ends: Option<Ms>,
}

/// One issue, for the promises.
#[derive(Clone, Debug)]
struct Noted {
    at: Ms,
    epoch: usize,
    label: String,
    /// How often the clock had gone back.
    clock: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Main {
    Fresh,
    Works,
    Idle,
}

struct Session {
    record: Record,
    past: Past,
    main: Main,
    open: bool,
    gauge: Option<Gauge>,
    going: Vec<Going>,
    /// Reports that nobody has read.
    unread: BTreeSet<u64>,
    epoch: usize,
    /// Whether it issued anything.
    stamped: bool,
    /// When main stops after a wake.
    wakes: Option<Ms>,
    notes: BTreeMap<String, Vec<Noted>>,
    /// Runs that asked for another in a pause, by fork and pause.
    rearmed: BTreeMap<(String, usize), usize>,
    /// Issues at an `every` moment in this pause, by fork.
    everies: BTreeMap<String, usize>,
    /// When the waiter looks again.
    looks: Option<Ms>,
    /// Since when which fork is due and free.
    free: BTreeMap<String, Ms>,
    /// By when something has to be issued.
    must: Option<Ms>,
    /// Looks in a row that came to nothing, with no event between.
    idle_looks: usize,
}

struct Play<'r> {
    dice: Dice,
    now: Ms,
    jumps_back: u32,
    forks: Vec<Fork>,
    untrusted: Vec<String>,
    settings: Settings,
    tags: BTreeMap<String, Ms>,
    sessions: Vec<Session>,
    runs: u64,
    owner: Process,
    reached: &'r mut Reached,
    told: bool,
}

#[test]
fn w07_w21_w27_w31_random_schedules_are_what_the_specification_says() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("LEAF_SEED") {
        play(seed, true, &mut Reached::default());
        return;
    }
    let schedules = number("LEAF_SCHEDULES").unwrap_or(SCHEDULES);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(4);
    let played = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                scope.spawn(move || {
                    let mut reached = Reached::default();
                    let mut failed = Vec::new();
                    for seed in (worker..schedules).step_by(usize::try_from(threads).expect("few")) {
                        // The dice decide everything: a schedule that fails fails again alone.
                        if catch_unwind(AssertUnwindSafe(|| play(seed, false, &mut reached))).is_err() {
                            failed.push(seed);
                            if failed.len() == 3 {
                                break;
                            }
                        }
                    }
                    (reached, failed)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker")).collect::<Vec<_>>()
    });
    let mut reached = Reached::default();
    let mut failed = Vec::new();
    for (of, seeds) in played {
        reached.add(&of);
        failed.extend(seeds);
    }
    assert!(failed.is_empty(), "LEAF_SEED tells one of: {failed:?}");
    println!("{schedules} schedules, {} looks: {:#?}", reached.looks, reached.counts);
    if schedules >= SCHEDULES {
        for what in REACHED {
            let times = reached.counts.get(what).copied().unwrap_or_default();
            assert!(times >= 50, "the schedules hardly reach this: {what}, {times} times");
        }
    }
}

/// What the schedules have to reach.
const REACHED: [&str; 24] = [
    "issued",
    "idle",
    "context",
    "every",
    "event",
    "at close",
    "a batch of several",
    "waits",
    "a cycle",
    "again",
    "unread",
    "gate holds",
    "gate lifts",
    "throttle",
    "tag throttle",
    "tag throttle over sessions",
    "overlap",
    "runaway",
    "background holds",
    "the hold expires",
    "dropped",
    "resumed",
    "clock back",
    "clock forward",
];

fn play(seed: u64, told: bool, reached: &mut Reached) {
    let mut dice = Dice::new(seed);
    let settings = settings(&mut dice);
    let forks = forks(&mut dice);
    let untrusted: Vec<String> = forks.iter().filter(|_| dice.one_in(25)).map(|fork| fork.name.clone()).collect();
    if told {
        println!("{settings:#?}");
        for fork in &forks {
            println!(
                "{}: {:?} throttle {:?} after {:?} priority {} overlap {} tags {:?} chain {} gate {} hold {:?}",
                fork.name,
                fork.run_on,
                fork.throttle,
                fork.after,
                fork.priority,
                fork.overlap,
                fork.tags,
                fork.chain,
                fork.gate,
                fork.background_hold
            );
        }
    }
    let sessions = 1 + usize::from(dice.one_in(3));
    let mut play = Play {
        dice,
        now: START,
        jumps_back: 0,
        forks,
        untrusted,
        settings,
        tags: BTreeMap::new(),
        sessions: (0..sessions).map(|_| Session::new()).collect(),
        runs: 0,
        owner: Process::own(),
        reached,
        told,
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| play.all()));
    if let Err(panic) = outcome {
        eprintln!("schedule {seed}, {} forks, now {}", play.forks.len(), play.now - START);
        for (n, session) in play.sessions.iter().enumerate() {
            eprintln!("session {n}: {:?}\n{}", session.main, session.past.story(12));
        }
        std::panic::resume_unwind(panic);
    }
}

impl Session {
    fn new() -> Session {
        Session {
            record: Record::default(),
            past: Past::default(),
            main: Main::Fresh,
            open: false,
            gauge: None,
            going: Vec::new(),
            unread: BTreeSet::new(),
            epoch: 0,
            stamped: false,
            wakes: None,
            notes: BTreeMap::new(),
            rearmed: BTreeMap::new(),
            everies: BTreeMap::new(),
            looks: None,
            free: BTreeMap::new(),
            must: None,
            idle_looks: 0,
        }
    }
}

fn settings(dice: &mut Dice) -> Settings {
    let tags = [("a", 7), ("b", 300), ("c", 3_600)];
    let throttled = tags.iter().filter(|_| dice.one_in(2)).map(|(tag, window)| ((*tag).to_owned(), *window)).collect();
    let some = |dice: &mut Dice| match dice.roll(12) {
        0 => Some(vec!["a".to_owned()]),
        1 => Some(vec!["b".to_owned(), "c".to_owned()]),
        2 => Some(Vec::new()),
        _ => None,
    };
    Settings {
        default_idle_deadline: dice.pick(&[0, 1, 60, 600, 600]).unwrap_or(600),
        wake_debounce: dice.pick(&[0, 1, 5, 5, 30]).unwrap_or(5),
        enable_tags: some(dice),
        disable_tags: some(dice).map(|tags| tags.into_iter().take(1).collect()),
        tag_throttles: throttled,
        chain_limit: dice.pick(&[1, 2, 5, 25]).unwrap_or(25) as u32,
        runaway_limit: dice.pick(&[0, 1, 2, 3, 30]).unwrap_or(30) as u32,
        background_hold: !dice.one_in(4),
        background_hold_timeout: dice.pick(&[0, 90, 1_800, 1_800]).unwrap_or(1_800),
        ..Settings::default()
    }
}

const NAMES: [&str; 6] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"];

fn forks(dice: &mut Dice) -> Vec<Fork> {
    let most = if dice.one_in(10) { NAMES.len() } else { 4 };
    let count = 1 + dice.roll(most);
    NAMES[..count]
        .iter()
        .map(|name| {
            let mut run_on: Vec<Moment> = Vec::new();
            for _ in 0..1 + dice.roll(3) {
                let moment = moment(dice);
                if !run_on.contains(&moment) {
                    run_on.push(moment);
                }
            }
            let some = |dice: &mut Dice, from: &[&str], one_in: usize| -> Vec<String> {
                from.iter().filter(|_| dice.one_in(one_in)).map(|text| (*text).to_owned()).collect()
            };
            Fork {
                name: (*name).to_owned(),
                source: Source { path: PathBuf::from(format!("/forks/{name}.md")), own: true, sha256: String::new() },
                skill: None,
                description: None,
                run_on,
                throttle: dice.one_in(3).then(|| dice.pick(&[1, 60, 900, 7_200, u64::MAX]).unwrap_or(60)),
                after: some(dice, &NAMES, 5).into_iter().filter(|after| after != name).collect(),
                priority: dice.pick(&[0, 0, 0, 1, 2, -1, i64::MAX, i64::MIN]).unwrap_or(0),
                overlap: dice.one_in(3),
                tags: some(dice, &["a", "b", "c"], 3),
                chain: dice.one_in(3),
                chain_limit: None,
                gate: dice.one_in(5),
                background_hold: dice.pick(&[None, None, Some(true), Some(false)]).unwrap_or(None),
                models: PerClient::default(),
                modes: PerClient::default(),
                guard: None,
                stopped: dice.one_in(40).then(|| "its guard can't be read".to_owned()),
                body: String::new(),
            }
        })
        .collect()
}

fn moment(dice: &mut Dice) -> Moment {
    match dice.roll(14) {
        0 | 1 => Moment::Idle(None),
        2..=6 => Moment::Idle(Some(dice.pick(&[0, 3, 60, 300, 1_200, 3_155_760_000, u64::MAX]).unwrap_or(60))),
        7 => Moment::ContextTokens(dice.pick(&[1, 50_000, 120_000]).unwrap_or(1)),
        8 => Moment::ContextUsed(dice.pick(&[1, 25, 60, 100]).unwrap_or(25) as u8),
        9 => Moment::ContextLeft(dice.pick(&[10_000, 100_000, u64::MAX]).unwrap_or(10_000)),
        10..=12 => Moment::Every(dice.pick(&[120, 900, 3_600, u64::MAX]).unwrap_or(60)),
        _ => Moment::Event("ping".to_owned()),
    }
}

impl Play<'_> {
    fn all(&mut self) {
        for at in 0..self.sessions.len() {
            self.happen(at, Change::Opened { source: None, model: None, tags: Filter::default() }, Happened::Opened);
            self.sessions[at].open = true;
            self.look(at);
        }
        for _ in 0..EVENTS {
            let gap = match self.dice.roll(8) {
                0 => 0,
                1 | 2 => self.dice.roll(3_000),
                3 | 4 => self.dice.roll(90_000),
                5 | 6 => self.dice.roll(1_500_000),
                _ => self.dice.roll(3 * 3_600_000),
            };
            // The waiters' part of the time.
            self.pass(self.now + Ms::try_from(gap).expect("small"));
            let at = self.dice.roll(self.sessions.len());
            self.event(at);
        }
        self.pass(self.now + 2 * HOUR);
    }

    fn tell(&self, text: impl FnOnce() -> String) {
        if self.told {
            println!("{:>12} {}", self.now - START, text());
        }
    }

    fn happen(&mut self, at: usize, change: Change, what: Happened) {
        self.tell(|| format!("[{at}] {change:?}"));
        let session = &mut self.sessions[at];
        session.record.apply(Ts(self.now), &change);
        session.past.tell(self.now, what);
        session.idle_looks = 0;
    }

    /// Lets time go on to an event; the waiters and the runs act in between.
    fn pass(&mut self, to: Ms) {
        loop {
            let mut next = to;
            for session in &self.sessions {
                let ends = session.going.iter().filter_map(|run| run.ends);
                for at in ends.chain(session.wakes).chain(session.looks) {
                    next = next.min(at.max(self.now));
                }
            }
            for at in 0..self.sessions.len() {
                if let Some(must) = self.sessions[at].must {
                    assert!(
                        next <= must,
                        "[{at}] what is due at {} is missed: nobody looks before {}",
                        must - START,
                        next - START
                    );
                }
            }
            if next >= to {
                self.now = to;
                let due = |session: &Session| {
                    let ends = session.going.iter().filter_map(|run| run.ends);
                    ends.chain(session.wakes).chain(session.looks).any(|at| at <= to)
                };
                if !self.sessions.iter().any(due) {
                    return;
                }
            }
            self.now = next;
            for at in 0..self.sessions.len() {
                let now = self.now;
                if let Some(ended) = self.sessions[at].going.iter().find(|run| run.ends.is_some_and(|end| end <= now)) {
                    let ended = ended.clone();
                    self.end(at, &ended);
                    self.look(at);
                } else if self.sessions[at].wakes.is_some_and(|wakes| wakes <= now) {
                    self.sessions[at].wakes = None;
                    if self.sessions[at].main == Main::Works {
                        self.stop(at, false);
                        self.look(at);
                    }
                } else if self.sessions[at].looks.is_some_and(|looks| looks <= now) {
                    self.look(at);
                }
            }
        }
    }

    fn view<'v>(&'v self, at: usize, tags: &'v BTreeMap<String, Ts>, close: bool) -> View<'v> {
        let session = &self.sessions[at];
        View {
            record: &session.record,
            forks: &self.forks,
            untrusted: &self.untrusted,
            settings: &self.settings,
            tags,
            gauge: session.gauge,
            idle: session.main != Main::Works,
            close,
            now: Ts(self.now),
        }
    }

    fn reference<'v>(&'v self, at: usize, close: bool) -> Now<'v> {
        let session = &self.sessions[at];
        Now {
            forks: &self.forks,
            untrusted: &self.untrusted,
            settings: &self.settings,
            tags: &self.tags,
            gauge: session.gauge.map(|gauge| (gauge.tokens, gauge.window)),
            idle: session.main != Main::Works,
            close,
        }
    }

    /// A waiter looks, and issues what is due.
    fn look(&mut self, at: usize) {
        if self.jumps_back > 0 && self.sessions[at].record.is_ahead_of(Ts(self.now + SLACK)) {
            self.tell(|| format!("[{at}] the clock went back"));
            self.sessions[at].record.apply(Ts(self.now), &Change::Clock { now: Ts(self.now) });
            self.sessions[at].past.set_back(self.now);
        }
        while self.look_once(at, false) {}
        self.wake(at);
    }

    /// Whether something was issued.
    fn look_once(&mut self, at: usize, close: bool) -> bool {
        self.reached.looks += 1;
        let tags: BTreeMap<String, Ts> = self.tags.iter().map(|(tag, at)| (tag.clone(), Ts(*at))).collect();
        let view = self.view(at, &tags, close);
        let standings = select::select(&view);
        let due: Vec<Standing> = select::due(&view, &standings).into_iter().cloned().collect();
        let next = select::next(&view, &standings);
        let now = self.now;
        let reference = self.reference(at, close);
        let look = self.sessions[at].past.look();
        let verdicts = look.verdicts(&reference, now);
        let mut holds: Vec<Why> = Vec::new();
        assert_eq!(standings.len(), verdicts.len(), "each fork stands somehow");
        for (standing, verdict) in standings.iter().zip(&verdicts) {
            assert_eq!(standing.fork, verdict.fork, "in the order of the definitions");
            match &standing.held {
                None => {
                    assert!(verdict.held.is_empty(), "[{at}] {standing:?} is held: {verdict:?}");
                    let label =
                        standing.moment.as_deref().map(|label| label.strip_suffix(select::AT_CLOSE).unwrap_or(label));
                    assert_eq!(label, verdict.label.as_deref(), "[{at}] {standing:?} {verdict:?}");
                    assert!(standing.at.is_some_and(|at| at.0 <= now), "[{at}] due since then: {standing:?}");
                }
                Some(held) => {
                    assert!(!verdict.held.is_empty(), "[{at}] nothing holds it: {standing:?}");
                    let why = why(held);
                    assert!(verdict.held.contains(&why), "[{at}] that doesn't hold it: {standing:?} {verdict:?}");
                    holds.push(why);
                    if let Some(then) = standing.at {
                        assert!(then.0 > now || *held == Held::Busy, "[{at}] it changes in the past: {standing:?}");
                    }
                }
            }
        }
        let free: Vec<_> = verdicts.iter().filter(|verdict| verdict.held.is_empty()).collect();
        let debounce = if close { 0 } else { ms(self.settings.wake_debounce) };
        if !due.is_empty() {
            let names = |of: &mut dyn Iterator<Item = &String>| of.cloned().collect::<Vec<_>>();
            let issued = names(&mut due.iter().map(|standing| &standing.fork));
            assert_eq!(issued, names(&mut free.iter().map(|verdict| &verdict.fork)), "[{at}] all that is due and free");
            let ripe = free.iter().any(|verdict| verdict.since.saturating_add(debounce) <= now);
            assert!(ripe, "[{at}] before the debounce: {free:?} at {now}");
        }
        if self.told {
            println!("{:>12}     {standings:?} next {next:?}", self.now - START);
        }
        if let Some(next) = next {
            assert!(next.0 > now, "[{at}] next is {} at {now}", next.0);
        }
        // What comes due later than somebody looks is no miss.
        let before = next.map_or(now + 24 * HOUR, |next| next.0).saturating_sub(debounce);
        let parked = self.sessions[at].main == Main::Idle && self.sessions[at].open;
        let first = if free.is_empty() && parked && !close { look.first_free(&reference, now, before) } else { None };
        let is_free = !free.is_empty();
        let free: Vec<String> = free.iter().map(|verdict| verdict.fork.clone()).collect();
        let expired = verdicts
            .iter()
            .any(|verdict| verdict.held.is_empty() && !look.expired(&reference, &verdict.fork, now).is_empty());
        let batch = self.batch(&due);
        if expired {
            self.reached.count("the hold expires");
        }
        for hold in holds {
            match hold {
                Why::Throttle => self.reached.count("throttle"),
                Why::TagThrottle if !self.sessions[at].stamped => {
                    self.reached.count("tag throttle over sessions");
                }
                Why::TagThrottle => self.reached.count("tag throttle"),
                Why::Overlap => self.reached.count("overlap"),
                Why::Runaway => self.reached.count("runaway"),
                Why::Unread => self.reached.count("unread"),
                Why::Gate => self.reached.count("gate holds"),
                Why::Background => self.reached.count("background holds"),
                _ => {}
            }
        }
        if !batch.is_empty() {
            self.issue(at, batch, close);
            self.sessions[at].free.clear();
            self.sessions[at].must = None;
            return true;
        }
        if close {
            assert!(!is_free, "[{at}] what is due at a close is issued at once");
            return false;
        }
        let session = &mut self.sessions[at];
        session.looks = next.map(|next| next.0).filter(|_| parked);
        session.idle_looks += 1;
        let few = 12 + 10 * self.forks.len() + session.going.len();
        assert!(session.idle_looks < few, "[{at}] it looks and looks, and nothing changes: next is {next:?}");
        let before = std::mem::take(&mut session.free);
        session.free = free.into_iter().map(|fork| (fork.clone(), before.get(&fork).copied().unwrap_or(now))).collect();
        session.must = match session.free.values().min().copied().or(first) {
            Some(since) if parked => Some(since.saturating_add(debounce).max(now)),
            _ => None,
        };
        if is_free && session.must.is_some_and(|must| must <= now) {
            panic!("[{at}] it is due, and was not issued: {:?}", session.free);
        }
        false
    }

    /// Makes a batch in its order, and holds that against what the specification says of it.
    fn batch(&mut self, due: &[Standing]) -> Vec<Issue> {
        let forks: Vec<&Fork> = due.iter().map(|standing| self.fork(&standing.fork)).collect();
        let places = order::order(&forks);
        let name = |at: &usize| forks[*at].name.clone();
        let (mut seen, mut cycles) = (BTreeSet::new(), 0);
        for place in &places {
            assert!(place.waits_for.iter().all(|at| seen.contains(at)), "each behind what it waits for: {places:?}");
            assert!(
                place.reports_of.iter().all(|at| place.waits_for.contains(at)),
                "no report of what goes on: {places:?}"
            );
            assert!(seen.insert(place.index), "each once: {places:?}");
            let of = |places: &[usize]| places.iter().map(name).collect::<BTreeSet<_>>();
            match waits(&forks, forks[place.index]) {
                Some((waits, reports)) => {
                    assert_eq!(of(&place.waits_for), waits, "what {} waits for", forks[place.index].name);
                    assert_eq!(of(&place.reports_of), reports, "whose reports {} gets", forks[place.index].name);
                }
                None => cycles += 1,
            }
            // A cycle takes nothing from who only comes after it.
            if let Some(kept) = keeps(&forks, forks[place.index]) {
                assert_eq!(of(&place.reports_of), kept, "whose reports {} gets", forks[place.index].name);
            }
        }
        assert_eq!(seen.len(), forks.len(), "all of them: {places:?}");
        let of = |places: &[usize]| places.iter().map(|at| turn(self.runs + *at as u64)).collect();
        let issues = places.iter().map(|place| {
            let fork = forks[place.index];
            Issue {
                run: turn(self.runs + place.index as u64),
                fork: fork.name.clone(),
                path: fork.source.path.to_string_lossy().into_owned(),
                label: due[place.index].moment.clone().expect("what is due has a moment"),
                waits_for: of(&place.waits_for),
                reports_of: of(&place.reports_of),
                gate: fork.gate,
                chain: fork.chain,
                runner: Runner::Headless,
            }
        });
        let issues = issues.collect();
        self.runs += due.len() as u64;
        if cycles > 0 {
            self.reached.count("a cycle");
        }
        issues
    }

    fn issue(&mut self, at: usize, batch: Vec<Issue>, flush: bool) {
        let now = self.now;
        if batch.len() > 1 {
            self.reached.count("a batch of several");
        }
        assert!(
            flush || (self.sessions[at].main == Main::Idle && self.sessions[at].open),
            "[{at}] issued while main is busy"
        );
        let change = Change::Issued { runs: batch.clone(), owner: self.owner.clone(), flush };
        self.tell(|| format!("[{at}] {change:?}"));
        self.sessions[at].record.apply(Ts(now), &change);
        self.sessions[at].idle_looks = 0;
        self.sessions[at].stamped = true;
        for issue in &batch {
            self.reached.count("issued");
            self.promises(at, issue, flush);
            let run = number(issue.run);
            let fork = self.fork(&issue.fork);
            let issued = Issued {
                run,
                fork: issue.fork.clone(),
                label: issue.label.strip_suffix(select::AT_CLOSE).unwrap_or(&issue.label).to_owned(),
                flush,
                waits: !issue.waits_for.is_empty(),
                gate: issue.gate,
            };
            let chain = fork.chain;
            self.sessions[at].past.tell(now, Happened::Issued(issued));
            let epoch = self.sessions[at].epoch;
            self.sessions[at].going.push(Going {
                id: issue.run,
                run,
                fork: issue.fork.clone(),
                epoch,
                chain,
                gate: issue.gate,
                flush,
                waits_for: issue.waits_for.clone(),
                ends: None,
            });
            if !issue.waits_for.is_empty() {
                self.reached.count("waits");
            }
        }
        for issue in &batch {
            for tag in self.fork(&issue.fork).tags.clone() {
                if self.settings.tag_throttles.contains_key(&tag) {
                    self.tags.insert(tag, now);
                }
            }
        }
        self.release(at);
        // What another session's stamps hold is no longer due there.
        for other in 0..self.sessions.len() {
            if other != at && self.sessions[other].must.is_some() {
                self.sessions[other].idle_looks = 0;
                self.look(other);
            }
        }
    }

    /// What holds for every issue, whatever the reference says.
    fn promises(&mut self, at: usize, issue: &Issue, flush: bool) {
        let fork = self.fork(&issue.fork).clone();
        let (now, clock) = (self.now, self.jumps_back);
        let kind = issue.label.split([':', ' ']).next().unwrap_or_default();
        self.reached.count(match kind {
            "idle" => "idle",
            "every" => "every",
            "event" => "event",
            _ => "context",
        });
        if flush {
            self.reached.count("at close");
            assert!(issue.label.ends_with(select::AT_CLOSE), "the label says so: {}", issue.label);
        }
        // Tags, over all sessions.
        for tag in &fork.tags {
            if let (Some(last), Some(window)) = (self.tags.get(tag), self.settings.tag_throttles.get(tag)) {
                assert!(now - last >= ms(*window), "[{at}] {} within {tag}'s throttle", fork.name);
            }
        }
        let session = &mut self.sessions[at];
        let epoch = session.epoch;
        let notes = session.notes.entry(fork.name.clone()).or_default();
        if let (Some(last), Some(throttle)) = (notes.last(), fork.throttle)
            && last.clock == clock
        {
            assert!(now - last.at >= ms(throttle), "[{at}] {} within its throttle", fork.name);
        }
        let is = |note: &&Noted, kind: &str| note.label.starts_with(kind);
        if kind == "idle" {
            let times = notes.iter().filter(|note| is(note, "idle") && note.epoch == epoch).count();
            let most = session.rearmed.get(&(fork.name.clone(), epoch)).copied().unwrap_or_default();
            assert!(times <= most, "[{at}] {} runs {} times in one pause, asked {most} times", fork.name, times + 1);
        }
        if kind.starts_with("context") {
            let label = issue.label.strip_suffix(select::AT_CLOSE).unwrap_or(&issue.label);
            assert!(!notes.iter().any(|note| note.label == label), "[{at}] {} runs again at {label}", fork.name);
        }
        if kind == "every" && session.record.background.is_empty() {
            let times = session.everies.entry(fork.name.clone()).or_default();
            *times += 1;
            assert!(*times <= 1, "[{at}] {} runs every so often in a quiet session", fork.name);
        }
        let limit = self.settings.runaway_limit;
        if kind != "every" && limit > 0 && notes.iter().all(|note| note.clock == clock) {
            let hourly = notes.iter().filter(|note| now - note.at < HOUR).count();
            assert!(hourly < limit as usize, "[{at}] {} runs away: {hourly} issues in an hour", fork.name);
        }
        if !fork.overlap {
            assert!(!session.going.iter().any(|run| run.fork == fork.name), "[{at}] {} runs already", fork.name);
        }
        let label = issue.label.strip_suffix(select::AT_CLOSE).unwrap_or(&issue.label).to_owned();
        notes.push(Noted { at: now, epoch, label, clock });
    }

    /// Begins what waits for nobody any more.
    fn release(&mut self, at: usize) {
        let now = self.now;
        loop {
            let session = &self.sessions[at];
            let other_gate = |run: &Going| {
                let gate = session.going.iter().find(|other| other.gate && other.ends.is_some() && !other.flush);
                gate.is_some_and(|gate| gate.id != run.id) && !run.flush
            };
            let over = |run: &Going| !run.waits_for.iter().any(|id| session.going.iter().any(|other| other.id == *id));
            let Some(free) = session.going.iter().find(|run| run.ends.is_none() && over(run) && !other_gate(run))
            else {
                return;
            };
            let (id, run, waited) = (free.id, free.run, !free.waits_for.is_empty());
            let takes = match self.dice.roll(6) {
                0 => 0,
                1 | 2 => 4_000,
                3 | 4 => 120_000,
                _ => 2 * HOUR,
            };
            let ends = now + Ms::try_from(self.dice.roll(usize::try_from(takes + 1).expect("small"))).expect("small");
            let going = &mut self.sessions[at].going;
            going.iter_mut().find(|run| run.id == id).expect("it goes").ends = Some(ends);
            // One whose owner dies at once never begins.
            if waited || !self.dice.one_in(12) {
                let begun = Change::Begun { run: id, process: Some(self.owner.clone()), agent: None };
                self.happen(at, begun, Happened::Begun { run });
            }
        }
    }

    fn end(&mut self, at: usize, run: &Going) {
        let epoch = self.sessions[at].epoch;
        let completed = !self.dice.one_in(4);
        let again = completed && self.may_run_again(at, run) && !self.dice.one_in(3);
        let report = !self.dice.one_in(8);
        let outcome = if completed { RunOutcome::Completed } else { RunOutcome::Failed };
        self.sessions[at].going.retain(|other| other.id != run.id);
        if again && run.epoch == epoch {
            self.reached.count("again");
            *self.sessions[at].rearmed.entry((run.fork.clone(), epoch)).or_default() += 1;
        }
        if run.gate && self.sessions[at].record.gate.as_ref().is_some_and(|(_, of)| *of == run.id) && !again {
            self.reached.count("gate lifts");
            // What is idle counts from now.
            self.sessions[at].free.clear();
            self.sessions[at].must = None;
        }
        if report {
            self.sessions[at].unread.insert(run.run);
        }
        let over = Change::Over { run: run.id, outcome, again, report, why: None, model: None, cost: Cost::default() };
        self.happen(at, over, Happened::Over { run: run.run, again, report });
        self.release(at);
    }

    /// Whether a run that asks for another one may have it.
    fn may_run_again(&self, at: usize, run: &Going) -> bool {
        let (session, now) = (&self.sessions[at], self.now);
        let limits = Limits { hourly: self.settings.runaway_limit, chain: self.settings.chain_limit };
        let of = session.record.run(run.id).expect("it goes");
        let may = session.record.may_run_again(of, limits, Ts(now));
        let notes = session.notes.get(&run.fork).map(Vec::as_slice).unwrap_or_default();
        let in_pause = notes.iter().filter(|note| note.epoch == session.epoch).count();
        let hourly = notes.iter().filter(|note| now - note.at < HOUR).count();
        let free = limits.hourly == 0 || hourly < limits.hourly as usize;
        let expected = run.chain
            && !run.flush
            && run.epoch == session.epoch
            && in_pause < self.settings.chain_limit as usize
            && free;
        // How many count of an hour that the clock took back is left open.
        assert!(
            may == expected || self.jumps_back > 0,
            "[{at}] {} may run again: {may}, {in_pause} {hourly}",
            run.fork
        );
        may
    }

    /// The watch wakes an idle session for a report that asks for another run: main reads it and stops.
    fn wake(&mut self, at: usize) {
        if self.sessions[at].main != Main::Idle || !self.sessions[at].open {
            return;
        }
        if wait::wake(&self.sessions[at].record).is_none() {
            return;
        }
        self.tell(|| format!("[{at}] wakes"));
        self.sessions[at].record.apply(Ts(self.now), &Change::Woke);
        assert!(wait::wake(&self.sessions[at].record).is_none(), "[{at}] it wakes once");
        if self.dice.one_in(3) {
            self.happen(at, Change::Working, Happened::Working);
        } else {
            // Its prompt is nobody's activity, and says nothing to the schedule.
            self.sessions[at].past.tell(self.now, Happened::Working);
        }
        self.read(at);
        let session = &mut self.sessions[at];
        session.main = Main::Works;
        session.looks = None;
        session.must = None;
        session.wakes = Some(self.now + Ms::try_from(self.dice.roll(300_000)).expect("small"));
        self.look(at);
    }

    /// A prompt gives main the reports.
    fn read(&mut self, at: usize) {
        for run in std::mem::take(&mut self.sessions[at].unread) {
            let printed = Change::Printed { run: turn(run), to: None };
            self.happen(at, printed, Happened::Read { run });
        }
    }

    fn stop(&mut self, at: usize, background: bool) {
        let mut tasks: Vec<String> = Vec::new();
        if background {
            for task in ["build", "server", "tests"] {
                if self.dice.one_in(2) {
                    tasks.push(task.to_owned());
                }
            }
        }
        self.sessions[at].main = Main::Idle;
        self.happen(at, Change::Stopped { background: tasks.clone() }, Happened::Stopped { background: tasks });
    }

    fn activity(&mut self, at: usize, idle: bool, why: &str) {
        self.sessions[at].epoch += 1;
        let held = self.sessions[at].going.iter().filter(|run| run.ends.is_none() && !run.flush).count();
        self.happen(at, Change::Activity { idle, why: why.to_owned() }, Happened::Activity { idle });
        if held > 0 {
            self.reached.count("dropped");
            self.sessions[at].going.retain(|run| run.ends.is_some() || run.flush);
        }
        let waits = self.sessions[at].record.runs.iter().any(|run| run.is_held() && !run.flush);
        assert!(!waits, "[{at}] what waited is dropped");
        self.sessions[at].everies.clear();
        // A new pause waits anew.
        self.sessions[at].free.clear();
        self.sessions[at].must = None;
    }

    fn event(&mut self, at: usize) {
        let (main, open) = (self.sessions[at].main, self.sessions[at].open);
        if !open {
            if self.dice.one_in(2) {
                self.reached.count("resumed");
                let opened = Change::Opened { source: Some("resume".to_owned()), model: None, tags: Filter::default() };
                self.happen(at, opened, Happened::Opened);
                self.sessions[at].open = true;
                self.sessions[at].main = Main::Fresh;
            }
            self.look(at);
            return;
        }
        match self.dice.roll(20) {
            0..=2 => {
                self.activity(at, false, "prompt");
                self.read(at);
                self.sessions[at].main = Main::Works;
            }
            3..=10 if main != Main::Idle => {
                let background = self.dice.one_in(3);
                self.context(at);
                self.stop(at, background);
            }
            3..=5 => {
                self.activity(at, false, "prompt");
                self.read(at);
                self.sessions[at].main = Main::Works;
            }
            6 => {
                let idle = main == Main::Idle;
                self.activity(at, idle, "message");
            }
            7 | 8 => {
                // A turn of its own that is nobody's activity.
                self.happen(at, Change::Working, Happened::Working);
                self.sessions[at].main = Main::Works;
            }
            9 | 10 => {
                // Which of two things of one millisecond came first the record can't tell.
                self.now += 1;
                if !self.sessions[at].record.pending.contains_key("event:ping") {
                    // What another fork was started for already may wait once more.
                    self.sessions[at].free.clear();
                    self.sessions[at].must = None;
                }
                let happened = Happened::Raised { label: "event:ping".to_owned() };
                self.happen(at, Change::Raised { label: "event:ping".to_owned() }, happened);
            }
            11 | 12 => {
                self.reached.count("clock forward");
                let jump = self.dice.pick(&[3_000, 60_000, 900_000, 3 * HOUR, 40 * 24 * HOUR]).unwrap_or(3_000);
                // Nobody sees what lies between.
                self.now += jump;
                for session in &mut self.sessions {
                    session.must = None;
                }
            }
            // What is forgotten of an hour's issues is forgotten: how many count after that is left open.
            13 if ![1, 2, 3].contains(&self.settings.runaway_limit) => {
                self.reached.count("clock back");
                let jump = self.dice.pick(&[400, 5_000, 60_000, 900_000, 3 * HOUR]).unwrap_or(5_000);
                self.now -= jump;
                self.jumps_back += 1;
                for stamp in self.tags.values_mut() {
                    *stamp = (*stamp).min(self.now);
                }
                for session in &mut self.sessions {
                    session.must = None;
                    session.free.clear();
                    for run in &mut session.going {
                        run.ends = run.ends.map(|ends| ends.min(self.now + 60_000));
                    }
                    session.wakes = session.wakes.map(|wakes| wakes.min(self.now + 60_000));
                }
                for at in 0..self.sessions.len() {
                    self.look(at);
                }
            }
            14 => self.close(at),
            15 => {
                // A process is killed.
                let going: Vec<Going> =
                    self.sessions[at].going.iter().filter(|run| run.ends.is_some()).cloned().collect();
                if let Some(run) = going.first() {
                    self.end(at, run);
                }
            }
            _ => {
                if main == Main::Works {
                    self.context(at);
                    self.stop(at, false);
                }
            }
        }
        if self.sessions[at].main != Main::Idle {
            self.sessions[at].looks = None;
            self.sessions[at].must = None;
            self.sessions[at].free.clear();
        }
        self.look(at);
    }

    fn context(&mut self, at: usize) {
        let tokens = match self.sessions[at].gauge {
            Some(gauge) if !self.dice.one_in(6) => gauge.tokens + self.dice.roll(60_000) as u64,
            _ => self.dice.roll(40_000) as u64,
        };
        let window = if tokens > 200_000 { 1_000_000 } else { 200_000 };
        self.sessions[at].gauge = Some(Gauge { tokens, window });
    }

    fn close(&mut self, at: usize) {
        let flush = self.dice.one_in(2);
        let first = self.dice.one_in(2);
        if flush && first {
            while self.look_once(at, true) {}
        }
        self.sessions[at].going.retain(|run| run.ends.is_some() || run.flush);
        self.happen(at, Change::Closed { reason: "other".to_owned() }, Happened::Closed);
        self.sessions[at].open = false;
        if flush && !first {
            while self.look_once(at, true) {}
        }
        let session = &mut self.sessions[at];
        session.main = Main::Fresh;
        session.looks = None;
        session.must = None;
        session.free.clear();
        session.wakes = None;
    }

    fn fork(&self, name: &str) -> &Fork {
        self.forks.iter().find(|fork| fork.name == name).expect("a fork of the schedule")
    }
}

/// The turn of a run's number.
fn turn(run: u64) -> TurnId {
    format!("{run:016x}").parse().expect("a turn's id")
}

fn number(turn: TurnId) -> u64 {
    u64::from_str_radix(&turn.to_string(), 16).expect("hexadecimal")
}

fn why(held: &Held) -> Why {
    match held {
        Held::Stopped { .. } => Why::Stopped,
        Held::Trust => Why::Trust,
        Held::Disabled { .. } => Why::Disabled,
        Held::NotEnabled => Why::NotEnabled,
        Held::Moment => Why::Moment,
        Held::Busy => Why::Busy,
        Held::Background => Why::Background,
        Held::Latch { .. } => Why::Latch,
        Held::Throttle => Why::Throttle,
        Held::TagThrottle { .. } => Why::TagThrottle,
        Held::Overlap => Why::Overlap,
        Held::Unread => Why::Unread,
        Held::Runaway => Why::Runaway,
        Held::Gate { .. } => Why::Gate,
        Held::Close => Why::Close,
    }
}
