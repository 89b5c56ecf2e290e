//! The hot part of a page's view against all of it (src/page/snapshot.rs): whatever was written, in whatever portions, with whatever
//! happened to the caches, what it has is as in the whole view, and what it leaves out is nothing that a rule finds by looking
//! around, and is there once it is named.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use leaf_threads::clock::Ts;
use leaf_threads::ids::{EventId, IdKey, MessageId, PageId, SessionId, ThreadId, TurnId};
use leaf_threads::lock::Deadline;
use leaf_threads::page::event::{Actor, Author, Body, By, Draft, TodoOutcome, draft, first_message, pickup};
use leaf_threads::page::hot::Keep;
use leaf_threads::page::snapshot::Kept;
use leaf_threads::page::state::status;
use leaf_threads::page::view::{Message, Thread, View};
use leaf_threads::page::{Page, PageRecord};
use leaf_threads::place::Dir;
use leaf_threads::rules::deliver::{Bundle, Gone, Inbox, inbox};
use leaf_threads::rules::holding::Reading;
use leaf_threads::session::state::State;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// One event of so many begins a thread: a page of many short threads and many forks, and one of a few long ones and few forks.
const MANY: u32 = 7;
const FEW: u32 = 40;

/// One page in a directory of its own, with what is known of its turns.
struct Bench {
    home: Dir,
    page: PageId,
    session: SessionId,
    /// Forks' turns that are open; one that has ended never acts again.
    open: Vec<TurnId>,
    turns: u64,
    told: u32,
    now: i64,
    /// Of so many events one begins a thread.
    rarely: u32,
    /// How somebody read the page without its lock, and goes on under it.
    seen: Option<Kept>,
}

fn pick<T: Clone>(rng: &mut TestRng, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| from[rng.random_range(0..from.len())].clone())
}

impl Bench {
    fn new(dir: &Path, key: u64, rarely: u32) -> Bench {
        let home = Dir::create_home(&dir.join("home")).expect("a home");
        let page: PageId = "page".parse().expect("a slug");
        let session: SessionId = "session".parse().expect("an id");
        let record = PageRecord {
            format: leaf_threads::FORMAT,
            title: "page".to_owned(),
            project: "/".to_owned(),
            created: Ts(0),
            key: IdKey(key),
            session: Some(session.clone()),
            held_since: Some(Ts(0)),
            held_from: 0,
        };
        Page::create(&home, &page, record).expect("made").expect("free");
        Bench { home, page, session, open: Vec::new(), turns: 1, told: 0, now: 0, rarely, seen: None }
    }

    fn page(&self) -> Page {
        Page::open(&self.home, &self.page).expect("read").expect("there")
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.page().dir.path().join(name)
    }

    fn actor(&self, rng: &mut TestRng) -> Actor {
        let fork = pick(rng, &self.open).filter(|_| rng.random_bool(0.5));
        Actor {
            turn: fork.unwrap_or(TurnId(u64::MAX)),
            session: Some(if rng.random_bool(0.9) { self.session.clone() } else { "another".parse().expect("an id") }),
            generation: None,
            by: if fork.is_some() { By::Fork } else { By::Main },
            name: None,
            agent: None,
        }
    }

    /// Something that a command or hook may write, of any thread that ever was.
    fn event(&self, rng: &mut TestRng, view: &View, strange: bool) -> Draft {
        let text = "x".repeat(rng.random_range(1..600));
        let thread = match rng.random_range(0..20) {
            // Few threads are talked about, any may be.
            _ if rng.random_ratio(1, self.rarely) => None,
            0..=15 => view.in_order().rev().take(6).map(|thread| thread.id).collect::<Vec<_>>().first().copied(),
            _ => pick(rng, &view.order),
        };
        let thread = if strange && rng.random_bool(0.05) { Some(ThreadId(rng.random())) } else { thread };
        let Some(id) = thread else { return first_message(text, rng.random_bool(0.8), "title".to_owned()) };
        let found = view.threads.get(&id);
        let messages: Vec<MessageId> =
            found.iter().flat_map(|thread| &thread.messages).map(|message| message.id).collect();
        let message = pick(rng, &messages).unwrap_or(MessageId(1));
        let todos: Vec<_> = found.iter().flat_map(|thread| &thread.todos).map(|todo| todo.id).collect();
        let actor = self.actor(rng);
        let body = match rng.random_range(0..14) {
            0..=2 => Body::Message { thread: id, text, owes: rng.random_bool(0.7), title: None, main_owed: false },
            3 => Body::Withdraw { message },
            4 => Body::Resolve { thread: id },
            5 => Body::Reopen { thread: id },
            6..=8 => Body::Reply { thread: id, text, responds: rng.random_bool(0.9).then_some(message), actor },
            9 => Body::Line { thread: id, text, actor: rng.random_bool(0.5).then_some(actor) },
            10 => return pickup(id, messages, None, actor),
            11 => Body::Start { item: message.into(), text, actor },
            12 => Body::Todo { thread: id, title: text, source: rng.random_bool(0.5).then_some(message), actor: None },
            _ => match pick(rng, &todos) {
                Some(todo) => {
                    let outcomes = [TodoOutcome::Done, TodoOutcome::Failed, TodoOutcome::Dropped];
                    Body::TodoEnd { todo, outcome: outcomes[rng.random_range(0..3)], detail: None, actor: None }
                }
                None => Body::Reopen { thread: id },
            },
        };
        draft(if rng.random_bool(0.5) { Author::User } else { Author::Agent }, body)
    }

    fn keep(&self) -> Keep {
        Keep { session: self.session.clone(), open: self.open.iter().copied().collect(), told: self.told }
    }

    fn write(&mut self, rng: &mut TestRng, strange: bool) -> Result<(), TestCaseError> {
        let whole = self.page().view().expect("a view");
        let seen = self.seen.take();
        let mut page = self.page().lock_seen(seen, Deadline::after(Duration::from_secs(5))).expect("a lock");
        check_view(page.view(), &whole, &self.keep())?;
        page.keep = rng.random_bool(0.9).then(|| self.keep());
        for _ in 0..rng.random_range(1..12) {
            let event = self.event(rng, &whole, strange);
            self.now += rng.random_range(0..10_000);
            page.append(Ts(self.now), vec![event], false).expect("written");
            if rng.random_bool(0.1) {
                self.seen = Some(self.page().hot().expect("a view"));
            }
        }
        Ok(())
    }

    /// What the session that holds the page goes through.
    fn live(&mut self, rng: &mut TestRng) {
        // Nothing is past in a thread that an open fork's turn had a part in.
        if rng.random_bool(if self.rarely == FEW { 0.03 } else { 0.3 }) {
            self.turns += 1;
            self.open.push(TurnId(self.turns));
        }
        if self.open.len() > 3 || rng.random_bool(0.2) && !self.open.is_empty() {
            let at = rng.random_range(0..self.open.len());
            self.open.remove(at);
        }
        if rng.random_bool(0.1) {
            self.told = self.page().view().expect("a view").seq;
        }
    }

    /// What a disk, a person or a restored backup may do to a cache.
    fn harm(&self, rng: &mut TestRng, old: &mut HashMap<&'static str, Vec<u8>>) {
        for name in ["view.json", "view.index"] {
            let path = self.file(name);
            let Ok(mut bytes) = fs::read(&path) else { continue };
            match rng.random_range(0..12) {
                0 => drop(fs::remove_file(&path)),
                1 => {
                    let bit = rng.random_range(0..bytes.len() * 8);
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    fs::write(&path, &bytes).expect("written");
                }
                2 => {
                    bytes.truncate(rng.random_range(0..bytes.len()));
                    fs::write(&path, &bytes).expect("written");
                }
                3 => drop(old.insert(name, bytes)),
                4 => {
                    if let Some(old) = old.get(name) {
                        eprintln!("stale {name}");
                        fs::write(&path, old).expect("written");
                    }
                }
                _ => {}
            }
        }
    }

    fn check(&self, rng: &mut TestRng) -> Result<Left, TestCaseError> {
        let whole = self.page().view().expect("the whole view");
        let hot = self.page().hot_view().expect("the hot view");
        let left = check_view(&hot, &whole, &self.keep())?;
        self.check_rules(rng, &hot, &whole)?;
        let ids: Vec<EventId> = whole.home.keys().copied().collect();
        let named: Vec<EventId> = (0..3).filter_map(|_| pick(rng, &ids)).collect();
        let with = self.page().hot_view_with(named.iter().copied()).expect("a view");
        for id in named {
            prop_assert!(with.thread_of(id) == whole.thread_of(id), "{} leads elsewhere", id);
        }
        let mut locked = self.page().lock(Deadline::after(Duration::from_secs(5))).expect("a lock");
        let after = rng.random_range(0..=whole.seq);
        locked.load_since(after).expect("read");
        for thread in whole.threads.values().filter(|thread| thread.last > after) {
            prop_assert!(locked.view().threads.get(&thread.id) == Some(thread), "{} since {}", thread.id, after);
        }
        locked.load_all().expect("read");
        prop_assert!(locked.view().threads == whole.threads);
        prop_assert_eq!(&locked.view().order, &whole.order);
        Ok(left)
    }

    /// What rules read from all threads is the same.
    fn check_rules(&self, rng: &mut TestRng, hot: &View, whole: &View) -> Result<(), TestCaseError> {
        let state = State { told: [(self.page.clone(), self.told)].into(), ..State::default() };
        let lane = [(self.page.clone(), rng.random_range(0..=whole.seq))].into();
        let reading = |view| Reading {
            page: &self.page,
            view,
            held_from: 0,
            session: Some(&self.session),
            state: &state,
            alive: true,
            lane: Some(&lane),
            replies: true,
            now: Ts(self.now),
        };
        let (hot, whole) = (reading(hot), reading(whole));
        prop_assert_eq!(told(&inbox(&hot, &self.session)), told(&inbox(&whole, &self.session)));
        for thread in hot.view.in_order() {
            let other = &whole.view.threads[&thread.id];
            prop_assert_eq!(hot.holder(thread), whole.holder(other));
            prop_assert_eq!(hot.kept_back(thread), whole.kept_back(other));
            prop_assert_eq!(hot.owed_by(thread), whole.owed_by(other));
            prop_assert_eq!(hot.holding_take(thread), whole.holding_take(other));
            prop_assert_eq!(status(&hot, thread, None), status(&whole, other, None));
            let ids = |thread: &Thread| thread.input().map(|message| message.id).collect::<Vec<_>>();
            prop_assert_eq!(ids(thread), ids(other));
        }
        Ok(())
    }
}

/// Holds a hot view to the whole one.
fn check_view(hot: &View, whole: &View, keep: &Keep) -> Result<Left, TestCaseError> {
    let head = |view: &View| (view.seq, view.gap, view.ts, view.offset, view.damaged, view.loose);
    prop_assert_eq!(head(hot), head(whole));
    let order: Vec<ThreadId> = whole.order.iter().filter(|id| hot.threads.contains_key(id)).copied().collect();
    prop_assert_eq!(&hot.order, &order);
    let mut left = Left { threads: whole.threads.len() - hot.threads.len(), messages: 0 };
    for (id, thread) in &whole.threads {
        match hot.threads.get(id) {
            Some(found) if !found.cut => prop_assert!(found == thread, "{} is another", id),
            Some(found) => {
                check_cut(found, thread, keep)?;
                left.messages += thread.messages.len() - found.messages.len();
            }
            None => prop_assert!(!is_found_by_looking(thread, keep), "{} is left out", id),
        }
    }
    prop_assert!(hot.threads.keys().all(|id| whole.threads.contains_key(id)));
    Ok(left)
}

/// What the hot view left out.
#[derive(Default)]
struct Left {
    threads: usize,
    messages: usize,
}

/// What an inbox says, without the threads around it.
fn told(inbox: &Inbox<'_>) -> String {
    fn bundle<'a>(bundle: &Bundle<'a>) -> (ThreadId, Vec<&'a Message>) {
        (bundle.thread.id, bundle.messages.clone())
    }
    let new: Vec<_> = inbox.new.iter().map(bundle).collect();
    let unshown: Vec<_> = inbox.unshown.iter().map(|(delivery, of)| (*delivery, bundle(of))).collect();
    let debts: Vec<_> = inbox.debts.iter().map(|debt| (debt.thread.id, debt.message, debt.started)).collect();
    let gone: Vec<_> = inbox
        .gone
        .iter()
        .map(|gone| match gone {
            Gone::Withdrawn(thread, message) => (thread.id, Some(*message)),
            Gone::Resolved(thread) => (thread.id, None),
        })
        .collect();
    let todos: Vec<_> = inbox.todos.iter().map(|open| (open.todo, open.urgency, open.waits)).collect();
    format!("{new:?}\n{unshown:?}\n{debts:?}\n{gone:?}\n{todos:?}\n{}", inbox.wakes)
}

/// A thread without its past: what is there is as in the whole one, and what is not is nothing that a rule finds by looking around.
fn check_cut(found: &Thread, thread: &Thread, keep: &Keep) -> Result<(), TestCaseError> {
    let head = |thread: &Thread| {
        let Thread { id, title, resolved, last_resolve, line, last, .. } = thread.clone();
        (id, title, resolved, last_resolve, line, last)
    };
    prop_assert_eq!(head(found), head(thread));
    let past = |id: MessageId| found.messages.iter().all(|message| message.id != id);
    let messages: Vec<_> = thread.messages.iter().filter(|message| !past(message.id)).collect();
    prop_assert_eq!(found.messages.iter().collect::<Vec<_>>(), messages);
    let todos: Vec<_> = thread.todos.iter().filter(|todo| found.todos.contains(todo)).collect();
    prop_assert_eq!(found.todos.iter().collect::<Vec<_>>(), todos);
    let takes: Vec<_> = thread.takes.iter().filter(|take| found.takes.contains(take)).collect();
    prop_assert_eq!(found.takes.iter().collect::<Vec<_>>(), takes);
    let alone = Thread {
        messages: thread.messages.iter().filter(|message| past(message.id)).cloned().collect(),
        todos: thread.todos.iter().filter(|todo| !found.todos.contains(todo)).cloned().collect(),
        takes: thread.takes.iter().filter(|take| !found.takes.contains(take)).cloned().collect(),
        ..thread.clone()
    };
    prop_assert!(!is_found_by_looking(&alone, keep), "of {} more is left out than its past: {:#?}", thread.id, alone);
    Ok(())
}

/// What rules look for among all threads: what waits, what is to be done, what an open fork had a part in, what main had and is gone.
fn is_found_by_looking(thread: &Thread, keep: &Keep) -> bool {
    let acts = |actor: &Actor| keep.open.contains(&actor.turn);
    let of_message = |message: &Message| {
        let gone = message.withdrawn.or(message.settled).is_some_and(|seq| seq > keep.told);
        message.waits()
            || gone && message.was_mains(&keep.session)
            || message.actor.as_ref().is_some_and(acts)
            || message.pickups.iter().any(|pickup| acts(&pickup.actor))
            || message.starts.iter().any(|start| acts(&start.actor))
    };
    thread.messages.iter().any(of_message)
        || thread.takes.iter().any(|take| acts(&take.actor))
        || thread.todos.iter().any(|todo| todo.is_open() || todo.starts.iter().any(|start| acts(&start.actor)))
}

/// Plays one page; returns what was left out in all looks.
fn play(rng: &mut TestRng, rounds: usize, harmed: bool, rarely: u32) -> Result<Left, TestCaseError> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut bench = Bench::new(dir.path(), rng.random(), rarely);
    let mut old = HashMap::new();
    let mut left = Left::default();
    for _ in 0..rounds {
        bench.live(rng);
        bench.write(rng, harmed)?;
        if harmed {
            bench.harm(rng, &mut old);
            if rng.random_bool(0.05) {
                tear(&bench.file("log.jsonl"), rng);
            }
        }
        let more = bench.check(rng)?;
        left = Left { threads: left.threads + more.threads, messages: left.messages + more.messages };
    }
    Ok(left)
}

/// A writer that was killed, or a bad disk.
fn tear(log: &Path, rng: &mut TestRng) {
    let mut bytes = fs::read(log).expect("the log");
    let from = bytes.len().saturating_sub(2000);
    if rng.random_bool(0.5) {
        bytes.truncate(rng.random_range(from..bytes.len()));
    } else {
        bytes.extend_from_slice(b"{\"seq\": 1, damaged\n");
    }
    fs::write(log, bytes).expect("written");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn the_hot_view_is_the_whole_view_but_for_what_nothing_looks_for(rng in any::<u64>()) {
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed(rng));
        let left = play(&mut rng, 40, false, MANY)?;
        prop_assert!(left.threads > 0, "no thread was ever left out");
        let left = play(&mut rng, 60, false, FEW)?;
        prop_assert!(left.messages > 0, "no thread's past was ever left out");
    }

    #[test]
    fn r127_harmed_caches_and_logs_never_make_the_hot_view_another(rng in any::<u64>()) {
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed(rng));
        play(&mut rng, 40, true, MANY)?;
        play(&mut rng, 40, true, FEW)?;
    }
}

/// `LEAF_VIEWS`, or few.
fn cases() -> u32 {
    std::env::var("LEAF_VIEWS").ok().and_then(|cases| cases.parse().ok()).unwrap_or(5)
}

fn seed(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}
