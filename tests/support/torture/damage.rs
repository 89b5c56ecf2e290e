//! Records that were damaged: cut at every byte of their last three lines, with single bits flipped, caches older than
//! their logs, records of a newer format.
//!
//! What may differ then is said with each: a damaged line of a log is lost alone (R127), a damaged cache loses nothing, a
//! damaged record is refused as it is and costs nothing once it is whole again.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::client::Fate;
use super::judge::{self, caches, difference, read_log};
use super::set::Set;
use super::world::{World, add, session_key};
use crate::dice::Dice;

/// A kind of damage.
#[derive(Clone, Copy, Debug)]
enum Kind {
    CutLog,
    CutJournal,
    FlippedLog,
    FlippedJournal,
    FlippedCaches,
    FlippedRecords,
    NewerFormat,
}

const KINDS: [Kind; 7] = [
    Kind::FlippedLog,
    Kind::FlippedCaches,
    Kind::NewerFormat,
    Kind::FlippedJournal,
    Kind::FlippedRecords,
    Kind::CutLog,
    Kind::CutJournal,
];

/// Which of the kinds stands for all of them, one after the other.
pub const ALL: usize = KINDS.len();

/// Plays a kind of damage, or all. `stride`: every how many bytes a log is cut.
pub fn play(world: &Arc<World>, which: usize, seed: u64, stride: usize, flips: usize) -> Option<String> {
    let Some(set) = Set::make(world, true) else {
        world.broken("the set could not be made".into());
        return None;
    };
    let mut dice = Dice::new(seed);
    let page = world.state().join("pages").join(&set.page);
    let session = world.state().join("sessions").join(session_key(&set.session.id));
    let records = [page.join("page.json"), session.join("session.json")];
    let journal = session.join("journal.jsonl");
    let which = which % (ALL + 1);
    let kinds = if which == ALL { &KINDS[..] } else { &KINDS[which..=which] };
    let mut told = Vec::new();
    for kind in kinds {
        let did = match kind {
            Kind::CutLog => cut(&set, &page.join("log.jsonl"), stride),
            Kind::CutJournal => cut(&set, &journal, stride),
            Kind::FlippedLog => flip_log(&set, &mut dice, flips * 2),
            Kind::FlippedJournal => flip_journal(&set, &journal, &mut dice, flips),
            Kind::FlippedCaches => flip_caches(&set, &mut dice, flips),
            Kind::FlippedRecords => flip_records(&set, &records, &mut dice, flips),
            Kind::NewerFormat => newer(&set, &records),
        };
        told.push(format!("{kind:?}: {did}"));
    }
    set.session.client.kill();
    set.other.client.kill();
    Some(told.join("; "))
}

fn log_of(set: &Set) -> PathBuf {
    set.world.state().join("pages").join(&set.page).join("log.jsonl")
}

/// What hooks and commands do next, whatever is damaged: they keep the promises of every run, and what is acknowledged
/// stands. Gives the writes that were.
fn life_goes_on(set: &Set, here: &str) -> Vec<(String, String)> {
    let (world, session) = (&set.world, &set.session);
    let mut written = Vec::new();
    let mut note = |ran: super::client::Ran, text: &str| {
        if ran.code == 0 {
            written.push((ran.json()["id"].as_str().unwrap_or_default().to_owned(), text.to_owned()));
        }
    };
    let said = format!("[said after {here}]");
    note(world.person(&["thread", "say", &set.answered, &said, "--json"], Fate::Lives), &said);
    session.hook(&session.payload("PostToolBatch.main"), Fate::Lives);
    let mine = format!("[main's after {here}]");
    note(session.run(&["thread", "reply", &set.main_ref, &mine, "--json"], Fate::Lives), &mine);
    session.hook(&set.of_the_fork("PostToolBatch.fork"), Fate::Lives);
    let its = format!("[the fork's after {here}]");
    note(session.run(&["--agent-id", &set.agent, "thread", "reply", &set.fork_ref, &its, "--json"], Fate::Lives), &its);
    session.hook(&session.payload("Stop.main.tui"), Fate::Lives);
    let events = read_log(&log_of(set)).0;
    for (id, text) in &written {
        let found: Vec<&Value> = events.iter().filter(|e| e["text"] == *text).collect();
        match found.as_slice() {
            [event] if event["id"] == *id => {
                let fork = event["by"] == "fork";
                if *text == its && !(fork && event["turn"] == *set.turn && event["agent"] == *set.agent) {
                    world.broken(format!("{here}: a fork's answer is its turn's: {event}"));
                }
                if *text == mine && event["by"] != "main" {
                    world.broken(format!("{here}: main's answer is main's: {event}"));
                }
            }
            _ => world.broken(format!("{here}: acknowledged, and there once: {id} {text}: {found:?}")),
        }
    }
    written
}

/// Cuts a log at every byte of its last three lines.
fn cut(set: &Set, path: &PathBuf, stride: usize) -> String {
    let world = &set.world;
    drop(set.put_back());
    let whole = fs::read(path).expect("a log");
    let ends: Vec<usize> = whole.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
    let from = ends[ends.len().saturating_sub(4)];
    let mut cuts = 0;
    for at in (from..whole.len()).step_by(stride) {
        let here = format!("{} cut at {at} of {}", path.file_name().unwrap_or_default().display(), whole.len());
        let lane = set.put_back();
        let with_caches = at % 2 == 0;
        if !with_caches {
            caches(&world.state()).iter().for_each(|cache| drop(fs::remove_file(cache)));
        }
        let file = fs::OpenOptions::new().write(true).open(path).expect("a log");
        file.set_len(at as u64).expect("it is cut");
        add(&world.counts.cuts);
        cuts += 1;
        let kept = read_log(&log_of(set)).0;
        if cuts % 8 == 0 {
            life_goes_on(set, &here);
        } else {
            let ran = world.person(&["thread", "say", &set.answered, "[said after]", "--json"], Fate::Lives);
            if ran.code != 0 {
                world.broken(format!("{here}: the next message is written: {ran:?}"));
            }
            set.session.hook(&set.session.payload("PostToolBatch.main"), Fate::Lives);
        }
        drop(lane);
        let bytes = fs::read(path).unwrap_or_default();
        // The journal may have been rotated: its older piece is another file.
        if !bytes.starts_with(&whole[..at]) && path.ends_with("log.jsonl") {
            world.broken(format!("{here}: what stood before the cut stands"));
        }
        let events = read_log(&log_of(set)).0;
        if !events.starts_with(&kept) {
            world.broken(format!("{here}: every earlier line is read"));
        }
        judge::refold(world, std::slice::from_ref(&set.page), &here);
        if world.is_broken() {
            break;
        }
    }
    format!("{cuts} cuts, {} to {}", from, whole.len())
}

/// Flips one bit; gives the place.
fn flip(set: &Set, bytes: &mut [u8], dice: &mut Dice) -> usize {
    let at = dice.roll(bytes.len());
    bytes[at] ^= 1 << dice.roll(8);
    add(&set.world.counts.flips);
    at
}

/// The lines of a log, each with its newline.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

/// A flipped bit of the log: the lines in which it lies may be lost or say something else, no other.
fn flip_log(set: &Set, dice: &mut Dice, flips: usize) -> String {
    let world = &set.world;
    let path = log_of(set);
    for n in 0..flips {
        let lane = set.put_back();
        let whole = fs::read(&path).expect("a log");
        let mut bytes = whole.clone();
        let at = flip(set, &mut bytes, dice);
        fs::write(&path, &bytes).expect("a log");
        let with_caches = n % 2 == 0;
        if !with_caches {
            caches(&world.state()).iter().for_each(|cache| drop(fs::remove_file(cache)));
        }
        let here = format!("log.jsonl with bit flipped at {at} ({:#x} to {:#x})", whole[at], bytes[at]);
        let intact: BTreeSet<&[u8]> = lines(&bytes).into_iter().filter(|line| lines(&whole).contains(line)).collect();
        life_goes_on(set, &here);
        drop(lane);
        let after = fs::read(&path).unwrap_or_default();
        if !after.starts_with(&bytes) {
            world.broken(format!("{here}: nothing is written over"));
        }
        let state = world.ask(&["page", "state", "--page", &set.page]);
        let threads = state["threads"].as_array().cloned().unwrap_or_default();
        let intact: Vec<Value> = intact.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect();
        for event in &intact {
            let thread = threads.iter().find(|t| t["id"] == event["thread"]);
            let shown = thread.and_then(|t| t["messages"].as_array()).into_iter().flatten();
            let is_there = || shown.clone().any(|m| m["id"] == event["id"] && m["text"] == event["text"]);
            // A reply needs one message of its thread that can be read: the thread is what the user wrote.
            let has_message = intact.iter().any(|e| e["kind"] == "message" && e["thread"] == event["thread"]);
            let wanted = event["kind"] == "message" || event["kind"] == "reply" && has_message;
            if wanted && !is_there() {
                world.broken(format!("{here}: another line is lost with it: {event}"));
            }
        }
        if !with_caches {
            judge::same_without_caches(world, std::slice::from_ref(&set.page), &here);
        }
        if world.is_broken() {
            break;
        }
    }
    format!("{flips} flips")
}

/// A flipped bit of the journal: turns and hand-overs may be judged by less, no message is lost and no write is another's.
fn flip_journal(set: &Set, path: &PathBuf, dice: &mut Dice, flips: usize) -> String {
    let world = &set.world;
    for n in 0..flips {
        let lane = set.put_back();
        let mut bytes = fs::read(path).expect("a journal");
        let at = flip(set, &mut bytes, dice);
        fs::write(path, &bytes).expect("a journal");
        let with_caches = n % 2 == 0;
        if !with_caches {
            caches(&world.state()).iter().for_each(|cache| drop(fs::remove_file(cache)));
        }
        let here = format!("journal.jsonl with bit flipped at {at}");
        life_goes_on(set, &here);
        drop(lane);
        let events = read_log(&log_of(set)).0;
        if !events.starts_with(&set.events()) {
            world.broken(format!("{here}: what stood there stands"));
        }
        // A cache may have been made before the flip, and then knows better.
        if !with_caches {
            judge::refold(world, std::slice::from_ref(&set.page), &here);
        }
        if world.is_broken() {
            break;
        }
    }
    format!("{flips} flips")
}

/// A flipped bit of a cache, or a cache that is cut: it loses nothing and says nothing.
fn flip_caches(set: &Set, dice: &mut Dice, flips: usize) -> String {
    let world = &set.world;
    drop(set.put_back());
    let all = caches(&world.state());
    let mut names = Vec::new();
    for cache in &all {
        let name = cache.file_name().unwrap_or_default().to_string_lossy().into_owned();
        names.push(name.clone());
        for n in 0..flips {
            let lane = set.put_back();
            let mut bytes = fs::read(cache).expect("a cache");
            let here = if n % 8 == 7 {
                let at = dice.roll(bytes.len());
                bytes.truncate(at);
                add(&world.counts.cuts);
                format!("{name} cut at {at}")
            } else {
                let at = flip(set, &mut bytes, dice);
                format!("{name} with bit flipped at {at}")
            };
            fs::write(cache, &bytes).expect("a cache");
            judge::same_without_caches(world, std::slice::from_ref(&set.page), &here);
            fs::write(cache, &bytes).expect("a cache");
            life_goes_on(set, &here);
            judge::refold(world, std::slice::from_ref(&set.page), &here);
            drop(lane);
            if world.is_broken() {
                return format!("{name} after {n} flips");
            }
        }
    }
    format!("{flips} flips in each of {names:?}")
}

/// A flipped bit of a record: it may say something else, or can't be read and is refused. Whole again, nothing was lost.
fn flip_records(set: &Set, paths: &[PathBuf], dice: &mut Dice, flips: usize) -> String {
    let world = &set.world;
    for path in paths {
        for _ in 0..flips {
            let lane = set.put_back();
            let whole = fs::read(path).expect("a record");
            let mut bytes = whole.clone();
            let at = flip(set, &mut bytes, dice);
            fs::write(path, &bytes).expect("a record");
            let here = format!("{} with bit flipped at {at}", path.file_name().unwrap_or_default().display());
            let log = fs::read(log_of(set)).unwrap_or_default();
            life_goes_on(set, &here);
            world.person(&["status", "--json"], Fate::Lives);
            world.person(&["doctor", "--json"], Fate::Lives);
            if !fs::read(log_of(set)).unwrap_or_default().starts_with(&log) {
                world.broken(format!("{here}: the log is not written over"));
            }
            fs::write(path, &whole).expect("a record");
            drop(lane);
            let events = set.events();
            let state = world.ask(&["page", "state", "--page", &set.page]);
            for event in events.iter().filter(|e| e["kind"] == "message") {
                let threads = state["threads"].as_array().into_iter().flatten();
                let mut messages = threads.filter_map(|t| t["messages"].as_array()).flatten();
                if !messages.any(|m| m["id"] == event["id"] && m["text"] == event["text"]) {
                    world.broken(format!("{here}: whole again, it has lost: {event}"));
                }
            }
            judge::same_without_caches(world, std::slice::from_ref(&set.page), &here);
            if world.is_broken() {
                return here;
            }
        }
    }
    format!("{flips} flips in each record")
}

/// Records of a newer format: read, never written (R127).
fn newer(set: &Set, paths: &[PathBuf]) -> String {
    let world = &set.world;
    for path in paths {
        let lane = set.put_back();
        let mut record: Value = serde_json::from_slice(&fs::read(path).expect("a record")).expect("a record");
        record["format"] = json!(2);
        record["of a newer leaf"] = json!({"kept": true});
        fs::write(path, record.to_string()).expect("a record");
        let dir = path.parent().expect("a directory").to_owned();
        let files = || {
            let mut found: Vec<(PathBuf, Vec<u8>)> = Vec::new();
            let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
            for file in entries.filter(|e| e.file_type().is_ok_and(|t| t.is_file())) {
                found.push((file.path(), fs::read(file.path()).unwrap_or_default()));
            }
            found.sort();
            found
        };
        let before = files();
        let here = format!("{} of format 2", path.file_name().unwrap_or_default().display());
        let events = set.events();
        let mut tried = 0;
        for verb in super::refusals::verbs(set) {
            let ran = world.unheard((!verb.person).then_some(&set.session), &verb.job);
            tried += 1;
            if let Some(why) = super::world::unpromised(&verb.job, &ran) {
                world.broken(format!("{here}: {}: {why}: {ran:?}", verb.name));
            }
            if files() != before {
                let said = |files: &[(PathBuf, Vec<u8>)]| {
                    format!("{:?}", files.iter().map(|(p, b)| (p, b.len())).collect::<Vec<_>>())
                };
                world.broken(format!("{here}: {} writes: {}", verb.name, difference(&said(&before), &said(&files()))));
                return here;
            }
        }
        let state = world.ask(&["page", "state", "--page", &set.page]);
        let threads = state["threads"].as_array().cloned().unwrap_or_default();
        let shown = |event: &Value| {
            threads.iter().filter_map(|t| t["messages"].as_array()).flatten().any(|m| m["id"] == event["id"])
        };
        let written = |event: &&Value| event["kind"] == "message" || event["kind"] == "reply";
        for event in events.iter().filter(written).filter(|event| !shown(event)) {
            world.broken(format!("{here}: it is not read: {event}"));
        }
        drop(lane);
        world.tell(format!("{here}: {tried} verbs"));
    }
    "page.json and session.json".into()
}
