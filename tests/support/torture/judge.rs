//! What was acknowledged, and what has to stand after an episode, read by a second hand from the contract's words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::{Fate, Ran, send};
use super::world::{World, add, lock};
use crate::fold::Fold;
use crate::leftovers::{left, still_locked, strays};

/// Longer than `leaf follow` needs to see that its client died.
const PATIENCE: Duration = Duration::from_secs(20);

/// How large errors.log may be: 64 KiB, and the line that was one too many.
const ERRORS: u64 = 64 * 1024 + 4096;

/// Who wrote something.
#[derive(Clone, Debug, PartialEq)]
pub enum Who {
    Person,
    /// Main, a worker, a script: they act as main.
    Main,
    /// A fork by its agent, or a helper by its fork's.
    Fork(String),
}

#[derive(Clone, Debug)]
struct Acknowledged {
    id: String,
    text: Option<String>,
    who: Who,
}

/// What commands said that they did.
#[derive(Default)]
pub struct Book(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    done: Vec<Acknowledged>,
    refused: Vec<String>,
    /// Whose agent a turn is.
    turns: BTreeMap<String, String>,
}

impl Book {
    /// Notes how a writer's command ended. `text` is one that nobody else writes, or none; `tried`: how it ended before.
    pub fn note(&self, world: &World, ran: &Ran, text: Option<&str>, who: &Who, tried: bool) {
        let mut book = lock(&self.0);
        match ran.code {
            0 => {
                let event = ran.json();
                let Some(id) = event["id"].as_str() else {
                    return world.broken(format!("a writer prints the event that it appended: {ran:?}"));
                };
                add(&world.counts.acknowledged);
                book.done.push(Acknowledged { id: id.into(), text: text.map(str::to_owned), who: who.clone() });
            }
            1 if !tried => book.refused.extend(text.map(str::to_owned)),
            _ => {}
        }
    }

    /// A turn is this agent's.
    pub fn owns(&self, world: &World, turn: &str, agent: &str) {
        let before = lock(&self.0).turns.insert(turn.to_owned(), agent.to_owned());
        if before.as_ref().is_some_and(|b| b != agent) {
            world.broken(format!("turn {turn} is one agent's: {before:?}, {agent}"));
        }
    }
}

/// The lines of a log that are events, and how many whole lines are none.
pub fn read_log(path: &Path) -> (Vec<Value>, usize) {
    let bytes = fs::read(path).unwrap_or_default();
    let mut lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
    let last = lines.pop().unwrap_or_default();
    let mut events = Vec::new();
    let mut damaged = usize::from(!last.is_empty());
    for line in lines {
        match serde_json::from_slice::<Value>(line) {
            Ok(event) if event["seq"].is_u64() && event["id"].is_string() => events.push(event),
            _ => damaged += 1,
        }
    }
    (events, damaged)
}

/// The events of all pages by their page.
pub fn logs(world: &World) -> BTreeMap<String, Vec<Value>> {
    let read = |slug: String| {
        let events = read_log(&world.state().join("pages").join(&slug).join("log.jsonl")).0;
        (slug, events)
    };
    world.pages().into_iter().map(read).collect()
}

/// What the contract's table says of an event's fields.
fn unlike_the_table(event: &Value) -> Option<String> {
    let kind = event["kind"].as_str().unwrap_or_default();
    let (authors, needs): (&[&str], &[&str]) = match kind {
        "message" => (&["user"], &["thread", "text", "owes"]),
        "withdraw" => (&["user"], &["message"]),
        "resolve" | "reopen" => (&["user", "agent"], &["thread"]),
        "reply" => (&["agent"], &["thread", "text", "turn", "responds"]),
        "line" => (&["agent", "leaf"], &["thread", "text"]),
        "pickup" => (&["leaf"], &["thread", "messages", "turn", "delivery"]),
        "start" => (&["agent"], &["item", "text", "turn"]),
        "todo" => (&["user", "agent", "leaf"], &["thread", "title"]),
        "todo_end" => (&["user", "agent"], &["todo", "outcome"]),
        _ => return Some("its kind is one of the table".into()),
    };
    if !authors.iter().any(|a| event["author"] == *a) {
        return Some("its author is one of the table".into());
    }
    if let Some(field) = needs.iter().find(|f| event.get(**f).is_none()) {
        return Some(format!("it has {field}"));
    }
    if event.get("turn").is_some() {
        if !matches!(event["by"].as_str(), Some("main" | "fork")) {
            return Some("with a turn it says by whom".into());
        }
        if event["by"] == "fork" && !event["name"].is_string() {
            return Some("a fork's has its name".into());
        }
        if event["by"] == "main" && event.get("agent").is_some() {
            return Some("main has no agent".into());
        }
    }
    None
}

/// The logs tell what was acknowledged, once, and credit it to who wrote it.
pub fn logs_tell(world: &World, book: &Book) {
    let logs = logs(world);
    let book = lock(&book.0);
    let mut by_id: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut by_text: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut actors: BTreeMap<String, (Value, Value, Value, Value)> = BTreeMap::new();
    for (page, events) in &logs {
        let mut last = (0, "");
        for event in events {
            if let Some(why) = unlike_the_table(event) {
                world.broken(format!("{page}: {why}: {event}"));
            }
            let (seq, ts) = (event["seq"].as_u64().unwrap_or(0), event["ts"].as_str().unwrap_or_default());
            // They are written alike, so that their order is that of their texts.
            if seq <= last.0 || ts < last.1 {
                world.broken(format!("{page}: seq and ts never go back: {event}"));
            }
            last = (seq, ts);
            by_id.entry(event["id"].as_str().unwrap_or_default()).or_default().push(event);
            if let Some(text) =
                event["text"].as_str().filter(|_| matches!(event["kind"].as_str(), Some("message" | "reply")))
            {
                by_text.entry(text).or_default().push(event);
            }
            if let Some(turn) = event["turn"].as_str() {
                let actor = |key: &str| event.get(key).cloned().unwrap_or_default();
                let says = (actor("by"), actor("session"), actor("generation"), actor("agent"));
                let known = actors.entry(turn.to_owned()).or_insert_with(|| says.clone());
                let agents_differ = !known.3.is_null() && !says.3.is_null() && known.3 != says.3;
                let generations_differ = known.2 != says.2;
                if (&known.0, &known.1) != (&says.0, &says.1) || generations_differ || agents_differ {
                    world.broken(format!("{page}: a turn is one actor's: {known:?}: {event}"));
                }
                if known.3.is_null() {
                    known.3 = says.3;
                }
                if let (Some(owner), Some(agent)) = (book.turns.get(turn), event["agent"].as_str())
                    && owner != agent
                {
                    world.broken(format!("{page}: turn {turn} is {owner}'s: {event}"));
                }
            }
        }
    }
    for (text, events) in &by_text {
        if text.starts_with('[') && events.len() > 1 {
            world.broken(format!("written once, there twice: {events:?}"));
        }
    }
    for done in &book.done {
        let found = by_id.get(done.id.as_str()).map(Vec::as_slice).unwrap_or_default();
        // Pages have keys of their own, so that an id may be that of an event in each.
        let fits = |event: &&&Value| match &done.text {
            Some(text) => event["text"].as_str().or(event["title"].as_str()) == Some(text),
            None => true,
        };
        let Some(event) = found.iter().find(fits) else {
            world.broken(format!("acknowledged and lost: {done:?}; under its id: {found:?}"));
            continue;
        };
        let credited = match &done.who {
            Who::Person => event["author"] == "user" || event.get("turn").is_none() || event["by"] == "main",
            Who::Main => event["by"] == "main" || event.get("turn").is_none(),
            Who::Fork(agent) => {
                let turn = event["turn"].as_str().unwrap_or_default();
                let owner = book.turns.get(turn).map(String::as_str).or(event["agent"].as_str());
                event.get("turn").is_none() || event["by"] == "fork" && owner == Some(agent)
            }
        };
        if !credited {
            world.broken(format!("credited to another: {done:?}: {event}"));
        }
    }
    for text in &book.refused {
        if let Some(events) = by_text.get(text.as_str()) {
            world.broken(format!("refused, but there: {events:?}"));
        }
    }
}

/// The caches of a state directory: all that is neither a record nor a log.
pub fn caches(state: &Path) -> Vec<PathBuf> {
    let files = |dir: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.filter(|e| e.file_type().is_ok_and(|t| t.is_file())).map(|e| e.path()).collect()
    };
    let dirs =
        |dir: &Path| -> Vec<PathBuf> { fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect() };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for page in dirs(&state.join("pages")).iter().filter(|page| !name(page).starts_with('.')) {
        found.extend(files(page).into_iter().filter(|f| !["page.json", "log.jsonl"].contains(&name(f).as_str())));
    }
    for session in dirs(&state.join("sessions")) {
        let record = |f: &PathBuf| {
            let name = name(f);
            name == "session.json" || name == "lock" || name.starts_with("journal.")
        };
        found.extend(files(&session).into_iter().filter(|f| !record(f)));
    }
    // What a writer has under its hands is no cache yet.
    found.retain(|f| !name(f).ends_with(".tmp"));
    found
}

/// What `leaf page state` says of each page, byte for byte.
fn readings(world: &World, pages: &[String]) -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    for page in pages.iter().cloned() {
        let ran = world.person(&["page", "state", "--page", &page, "--json"], Fate::Lives);
        said.insert(page, format!("{} {}", ran.code, ran.out));
    }
    said
}

/// With every cache and without any, the same is said of these pages. Gives what is said.
pub fn same_without_caches(world: &World, pages: &[String], label: &str) -> BTreeMap<String, String> {
    let before = readings(world, pages);
    for cache in caches(&world.state()) {
        let _ = fs::remove_file(cache);
    }
    let after = readings(world, pages);
    for (what, said) in &before {
        if after.get(what) != Some(said) {
            let differ = difference(said, &after[what]);
            world.broken(format!("{label}: without its caches the state of {what} is something else: {differ}"));
        }
    }
    after
}

/// The same is said of these pages with every cache and without any, and by another fold of their logs.
pub fn refold(world: &World, pages: &[String], label: &str) {
    let after = same_without_caches(world, pages, label);
    for (page, events) in logs(world) {
        if !after.contains_key(&page) {
            continue;
        }
        let fold = Fold::of(&events);
        for broken in &fold.broken {
            world.broken(format!("{label}: {page}: {broken}"));
        }
        let text = after.get(&page).cloned().unwrap_or_default();
        let state: Value = serde_json::from_str(text.trim_start_matches("0 ")).unwrap_or_default();
        for differ in fold.against(&state, world.now(), true) {
            world.broken(format!("{label}: {page}: {differ}"));
        }
        if world.ask(&["page", "log", "--page", &page]) != json!(events) {
            world.broken(format!("{label}: {page}: page log lists the log's events"));
        }
    }
}

/// Where two texts begin to differ.
pub fn difference(one: &str, other: &str) -> String {
    let at = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    let from = at.saturating_sub(160);
    let piece = |text: &str| {
        String::from_utf8_lossy(&text.as_bytes()[from.min(text.len())..(at + 160).min(text.len())]).into_owned()
    };
    format!("…{}… and …{}…", piece(one), piece(other))
}

/// A live session's main has what is owed on its pages: nothing that waits is with nobody.
pub fn nothing_forgotten(world: &World, sessions: &[String]) {
    for page in world.pages() {
        let record = fs::read(world.state().join("pages").join(&page).join("page.json")).unwrap_or_default();
        let record: Value = serde_json::from_slice(&record).unwrap_or_default();
        if !record["session"].as_str().is_some_and(|s| sessions.iter().any(|id| id == s)) {
            continue;
        }
        let state = world.ask(&["page", "state", "--page", &page]);
        let listed = |key: &str| state[key].as_array().cloned().unwrap_or_default();
        let with_todo: BTreeSet<String> =
            listed("todos").iter().filter_map(|t| t["source"].as_str().map(str::to_owned)).collect();
        for owed in listed("owed") {
            let message = owed["message"].as_str().unwrap_or_default();
            if owed["owed_by"]["kind"] != "main" {
                world.broken(format!("{page}: after all deadlines main owes what is owed: {owed}"));
            } else if !owed["ref"].is_string() && !with_todo.contains(message) {
                world.broken(format!("{page}: what waits was delivered: {owed}"));
            }
        }
    }
}

/// With every client dead and the next commands run: no process, no lock, no stray file, no endless record of errors.
pub fn nothing_left(world: &World) {
    let start = Instant::now();
    loop {
        let found = left(&world.state());
        if found.is_empty() {
            break;
        }
        if start.elapsed() > PATIENCE {
            world.broken(format!("processes are left: {found:?}"));
            break;
        }
        // One that was stopped when its client was killed has nobody to continue it.
        for pid in found.iter().filter_map(|f| f.strip_prefix("/proc/")?.split(' ').next()?.parse().ok()) {
            send(pid, Signal::CONT);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let locked = still_locked(&world.state());
    if !locked.is_empty() {
        world.broken(format!("still locked: {locked:?}"));
    }
    let errors = fs::metadata(world.state().join("errors.log")).map_or(0, |meta| meta.len());
    if errors > ERRORS {
        world.broken(format!("errors.log is bounded: {errors}"));
    }
}

/// No file that the contract doesn't know, no scratch directory of a turn that is over or never was.
pub fn nothing_strays(world: &World) {
    let strays = strays(&world.state());
    if !strays.is_empty() {
        world.broken(format!("stray files: {strays:?}"));
    }
    let orphans = orphaned_scratch(world);
    if !orphans.is_empty() {
        world.broken(format!("scratch directories of turns that nobody knows: {orphans:?}"));
    }
}

/// The scratch directories whose turns no journal's state knows.
fn orphaned_scratch(world: &World) -> Vec<String> {
    let mut known = String::new();
    for session in fs::read_dir(world.state().join("sessions")).into_iter().flatten().flatten() {
        for file in fs::read_dir(session.path()).into_iter().flatten().flatten() {
            known.push_str(&fs::read_to_string(file.path()).unwrap_or_default());
        }
    }
    let mut found = Vec::new();
    for user in fs::read_dir(world.dir.join("tmp")).into_iter().flatten().flatten() {
        for turn in fs::read_dir(user.path()).into_iter().flatten().flatten() {
            let turn = turn.file_name().to_string_lossy().into_owned();
            if !known.contains(&turn) {
                found.push(turn);
            }
        }
    }
    found
}
