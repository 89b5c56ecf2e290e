//! Pages of several sizes. What `leaf` itself would have written in years is written line by line in its own format; one command
//! of `leaf` then reads it all and leaves its caches.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::rc::Rc;
use std::time::Duration;

use leaf_threads::clock::Ts;
use leaf_threads::ids::{DeliveryId, EventId, TurnId};
use leaf_threads::page::PageRecord;
use leaf_threads::page::event::{Actor, Author, Body, By, Event};
use leaf_threads::session::record::SessionRecord;
use serde_json::Value;

use crate::scene::Scene;
use crate::stories::{bash, hook, prompt};
use crate::support::desk::{Desk, LEAF, Session, read_log};
use crate::support::forks::{Follower, forking, session_dir};
use crate::{Row, Says};

/// The rows of each page, in their order.
pub const NAMES: [&str; 7] = [
    "PostToolBatch, nothing new",
    "PostToolBatch, delivers",
    "UserPromptSubmit, delivers",
    "PreToolUse Bash of a fork names leaf: marked",
    "leaf thread reply",
    "leaf page state THREAD",
    "leaf page state",
];
/// Threads that wait; the others are answered.
const HOT: usize = 20;
/// The events that a thread has where only the log's length is given.
const EACH: usize = 30;
/// How long the first reading of a log may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// The log's length where only the threads are given.
const LENGTH: usize = 100_000;

/// A page of so many events and threads.
pub struct Sized {
    pub events: usize,
    pub threads: usize,
    scene: Rc<Scene>,
    played: Played,
}

struct Played {
    prompt: Value,
    batch: Value,
    marked: Value,
    /// A thread that waits, and the reference by which main answers it.
    waiting: (String, String),
    /// A further message, as its line of the log.
    further: Vec<u8>,
}

/// Makes the pages that the environment asks for.
pub fn all() -> Vec<Sized> {
    let lengths =
        numbers("LEAF_BENCH_EVENTS", "1000,100000").into_iter().map(|events| (events, HOT.max(events / EACH)));
    let threads = numbers("LEAF_BENCH_THREADS", "10,10000").into_iter().map(|threads| (LENGTH, threads));
    lengths
        .chain(threads)
        .map(|(events, threads)| {
            let (scene, played) = Scene::play(|desk| play(desk, events, threads));
            Sized { events, threads, scene: Rc::new(scene), played }
        })
        .collect()
}

fn numbers(variable: &str, default: &str) -> Vec<usize> {
    let text = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    text.split(',').filter(|part| !part.is_empty()).map(|part| part.trim().parse().unwrap()).collect()
}

impl Sized {
    pub fn rows(&self) -> Vec<Row> {
        let Played { prompt, batch, marked, waiting: (thread, reference), further } = &self.played;
        let hook = |payload| hook(&self.scene, payload);
        let leaf = |args: &[&str]| self.scene.spec(LEAF, args, b"");
        let rows = [
            (hook(batch), false, Says::Nothing, false),
            (hook(batch), true, Says::Context, true),
            (hook(prompt), true, Says::Context, true),
            (hook(marked), false, Says::Rewrites, true),
            (leaf(&["thread", "reply", reference, "8080, set by the chart."]), false, Says::Words, true),
            (leaf(&["page", "state", thread, "--json"]), false, Says::Words, false),
            (leaf(&["page", "state", "--json"]), false, Says::Words, false),
        ];
        NAMES
            .iter()
            .zip(rows)
            .map(|(name, (spec, news, says, writes))| {
                let before = if news { further.clone() } else { Vec::new() };
                Row { before, ..Row::new(*name, &self.scene, spec, says, writes) }
            })
            .collect()
    }
}

/// A session with a fork at work, on a page of so many events: a message, its pickup and its answer by turns, and in the hot threads
/// last a message that main's turn has and that waits.
fn play(desk: &Desk, events: usize, threads: usize) -> (std::collections::BTreeMap<String, String>, Played) {
    let session = forking(desk, "sized");
    let follower = Follower::start(&session);
    let (_, fork) = follower.fork("Look up which port it is in production.");
    session.boundary().silent_or_context();
    follower.kill();

    let mut pen = Pen::new(desk, &session);
    // One thread is the fork's.
    let threads = threads - 1;
    let hot = HOT.min(threads);
    let mut ids: Vec<Option<EventId>> = vec![None; threads];
    let mut n = 0;
    while (pen.seq as usize) + 3 + 2 * hot < events {
        let (thread, message) = pen.message(ids[n % threads]);
        ids[n % threads] = Some(thread);
        pen.pickup(thread, message);
        pen.reply(thread, message);
        n += 1;
    }
    let mut waiting = None;
    for id in ids.iter().take(hot) {
        let (thread, message) = pen.message(*id);
        let delivery = pen.pickup(thread, message);
        waiting = Some((thread.to_string(), format!("{delivery}:{message}")));
    }
    drop(pen);
    let waiting = waiting.unwrap();
    // It reads the whole log, which no desk's patience is made for.
    let read = session.job(&["thread", "reply", &waiting.0, "It is being looked at.", "--unasked"]).start();
    read.wait(PATIENCE).unwrap_or_else(|| panic!("{events} events in {threads} threads are read")).ok();
    session.boundary().silent_or_context();
    session.boundary().silent();

    let mut pen = Pen::new(desk, &session);
    let further = pen.further(waiting.0.parse().unwrap());
    let played = Played {
        prompt: prompt(&session),
        batch: session.payload("PostToolBatch.main"),
        marked: bash(fork.payload("PreToolUse.fork.Bash"), "leaf thread list"),
        waiting,
        further,
    };
    (session.env(), played)
}

/// Writes a page log on.
struct Pen {
    page: PageRecord,
    log: BufWriter<File>,
    seq: u32,
    ts: Ts,
    actor: Actor,
}

impl Pen {
    fn new(desk: &Desk, session: &Session<'_>) -> Pen {
        let read = |path: std::path::PathBuf| std::fs::read(path).unwrap();
        let page = serde_json::from_slice(&read(desk.page().join("page.json"))).unwrap();
        let record: SessionRecord =
            serde_json::from_slice(&read(session_dir(desk, session).join("session.json"))).unwrap();
        let turns = read_log(&session_dir(desk, session).join("journal.jsonl"));
        let begun = turns.iter().rev().find(|entry| entry["kind"] == "begun" && entry["by"] != "fork").unwrap();
        let turn: TurnId = begun["turn"].as_str().unwrap().parse().unwrap();
        let last = last_line(desk);
        Pen {
            page,
            log: BufWriter::new(File::options().append(true).open(desk.log_path()).unwrap()),
            seq: u32::try_from(last["seq"].as_u64().unwrap()).unwrap(),
            ts: Ts::parse(last["ts"].as_str().unwrap()).unwrap(),
            actor: Actor {
                turn,
                session: Some(record.id),
                generation: record.generation,
                by: By::Main,
                name: None,
                agent: None,
            },
        }
    }

    fn next(&mut self) -> EventId {
        self.seq += 1;
        self.page.key.id(self.seq)
    }

    fn write(&mut self, author: Author, body: Body) -> EventId {
        let event = Event { seq: self.seq, id: self.page.key.id(self.seq), ts: self.ts, author, body };
        serde_json::to_writer(&mut self.log, &event.to_line()).unwrap();
        self.log.write_all(b"\n").unwrap();
        event.id
    }

    fn message(&mut self, thread: Option<EventId>) -> (EventId, EventId) {
        let id = self.next();
        let body = Body::Message {
            thread: thread.unwrap_or(id).into(),
            text: format!("Question {}: which port does the dev server use, and where is that set?", self.seq),
            owes: true,
            title: thread.is_none().then(|| format!("Question {}", self.seq)),
            main_owed: false,
        };
        self.write(Author::User, body);
        (thread.unwrap_or(id), id)
    }

    fn pickup(&mut self, thread: EventId, message: EventId) -> DeliveryId {
        let delivery: DeliveryId = self.next().into();
        let actor = self.actor.clone();
        let body = Body::Pickup { thread: thread.into(), messages: vec![message.into()], delivery, actor };
        self.write(Author::Leaf, body);
        delivery
    }

    fn reply(&mut self, thread: EventId, message: EventId) {
        self.next();
        let text =
            "5173; it is set in vite.config.ts, under server.port, and the proxy in front of it reads the same value.";
        let actor = self.actor.clone();
        let body = Body::Reply { thread: thread.into(), text: text.to_owned(), responds: Some(message.into()), actor };
        self.write(Author::Agent, body);
    }

    /// The line of one more message in a thread, which is not written.
    fn further(&mut self, thread: EventId) -> Vec<u8> {
        let id = self.next();
        let text = "And who sets it?".to_owned();
        let body = Body::Message { thread: thread.into(), text, owes: true, title: None, main_owed: true };
        let event = Event { seq: self.seq, id, ts: self.ts, author: Author::User, body };
        let mut line = serde_json::to_vec(&event.to_line()).unwrap();
        line.push(b'\n');
        line
    }
}

/// The page log's last line.
fn last_line(desk: &Desk) -> Value {
    use std::io::{Read, Seek, SeekFrom};
    let mut log = File::open(desk.log_path()).unwrap();
    let length = log.metadata().unwrap().len();
    log.seek(SeekFrom::Start(length.saturating_sub(64 * 1024))).unwrap();
    let mut tail = String::new();
    log.read_to_string(&mut tail).unwrap();
    serde_json::from_str(tail.lines().last().unwrap()).unwrap()
}
