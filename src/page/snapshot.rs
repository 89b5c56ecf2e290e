//! `view.json`: the hot part of the view and the offset that it covers. A cache: it may be stale, damaged or gone at any time.
//!
//! Hot is what any rule can find by looking at all threads: one in which something waits or is to be done, that an open fork's turn
//! had a part in, or of which main is still to hear that something is gone. The others lie cold: the snapshot leaves them out, and who
//! names one reads it along its own events ([`super::index`]). So a page costs what is going on there, not what ever was said.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::event::{Actor, By, Event, Names};
use super::index::{self, Index, Left, Place, Unfit};
use super::log::Log;
use super::view::{Message, Thread, View};
use crate::clock::Ts;
use crate::ids::{EventId, IdKey, SessionId, ThreadId, TurnId};
use crate::place::Dir;
use crate::{FORMAT, cache};

/// The snapshot's file name.
pub const NAME: &str = "view.json";
/// How far the log may run ahead of the snapshot, bytes: reading a tail of this size costs less than writing a snapshot.
const WORTH: u64 = 8 * 1024;
/// A tail of this size, bytes, is worth a snapshot though nothing was written.
const LONG: u64 = 256 * 1024;
/// So many bytes of the log before the snapshot's end are compared.
const SEAL: u64 = 256;

#[derive(Serialize)]
struct Out<'a> {
    format: u32,
    key: IdKey,
    seal: u32,
    seq: u32,
    gap: u32,
    ts: Ts,
    offset: u64,
    damaged: u32,
    threads: Vec<&'a Thread>,
}

#[derive(Deserialize)]
struct In {
    format: u32,
    key: IdKey,
    seal: u32,
    seq: u32,
    gap: u32,
    ts: Ts,
    offset: u64,
    damaged: u32,
    threads: Vec<Thread>,
}

/// What the session that holds a page may still ask of threads in which nothing waits.
#[derive(Clone, Debug)]
pub struct Keep {
    /// The session.
    pub session: SessionId,
    /// Its forks' open turns.
    pub open: BTreeSet<TurnId>,
    /// The `seq` up to which its main heard of what is gone (R8, R9).
    pub told: u32,
}

/// A page's files, as a view is read from them.
#[derive(Debug)]
pub struct Files<'a> {
    /// The page's directory.
    pub dir: &'a Dir,
    /// The key of the page's ids.
    pub key: IdKey,
    /// The page's log.
    pub log: &'a mut Log,
}

/// A view as it is kept up: which of it the caches have.
#[derive(Debug)]
pub struct Kept {
    /// The view.
    pub view: View,
    /// The index, once a thread that is left out was asked for.
    index: Option<Index>,
    /// The events that the index doesn't have yet.
    places: Vec<Place>,
    /// The `seq` and offset that the snapshot ends with, 0 where there is none.
    stored: (u32, u64),
    /// The snapshot's size, bytes.
    size: u64,
}

impl Kept {
    /// Reads the hot part of a page's view: the snapshot, where it fits the log, and the log's tail.
    ///
    /// # Errors
    /// Where the log can't be read; never for a cache's sake.
    pub fn hot(files: &mut Files<'_>) -> Result<Kept> {
        match Kept::from_caches(files) {
            Some(kept) => Ok(kept),
            None => Kept::from_log(files),
        }
    }

    /// Reads all of a page's view.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn from_log(files: &mut Files<'_>) -> Result<Kept> {
        let mut kept = Kept { view: View::default(), index: None, places: Vec::new(), stored: (0, 0), size: 0 };
        let bytes = files.log.read_from(0)?;
        // No thread is left out: there is no index for it to be unfit.
        let _ = kept.fold(files, &bytes);
        Ok(kept)
    }

    fn from_caches(files: &mut Files<'_>) -> Option<Kept> {
        // So short a log has none yet.
        if files.log.length() < WORTH {
            return None;
        }
        let bytes = files.dir.read(NAME).ok()??;
        let size = bytes.len() as u64;
        let read: In = cache::from_slice(&bytes)?;
        if read.format != FORMAT || read.key != files.key || read.seq == 0 {
            return None;
        }
        let from = read.offset.saturating_sub(SEAL);
        let end = files.log.read_from(from).ok()?;
        let (before, tail) = end.split_at_checked((read.offset - from) as usize)?;
        if before.last() != Some(&b'\n') || crc32fast::hash(before) != read.seal {
            return None;
        }
        let mut view = View {
            seq: read.seq,
            gap: read.gap,
            ts: read.ts,
            offset: read.offset,
            damaged: read.damaged,
            cold_through: read.seq,
            ..View::default()
        };
        read.threads.into_iter().for_each(|thread| view.admit(thread));
        let stored = (read.seq, read.offset);
        let mut kept = Kept { view, index: None, places: Vec::new(), stored, size };
        kept.fold(files, tail).ok()?;
        Some(kept)
    }

    /// Whether the snapshot lacks so much of the log that it is to be written though nothing else is.
    pub fn is_long(&self) -> bool {
        self.lacks() > LONG
    }

    fn lacks(&self) -> u64 {
        self.view.offset - self.stored.1
    }

    /// Folds what follows in the log, with the threads that it names.
    fn fold(&mut self, files: &Files<'_>, bytes: &[u8]) -> Result<(), Unfit> {
        let Kept { view, index, places, .. } = self;
        view.fold_by(files.key, bytes, |view, event, at| {
            admit_named(view, event, index, files)?;
            let of = view.apply(event);
            places.push(Place { seq: event.seq, at, of });
            Ok(())
        })
    }

    /// Loads the threads of events that are about to be written.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn expect(&mut self, files: &mut Files<'_>, events: &[Event]) -> Result<()> {
        let Kept { view, index, .. } = self;
        let all = events.iter().try_for_each(|event| admit_named(view, event, index, files));
        all.or_else(|Unfit| self.anew(files))
    }

    /// Folds events that were expected and are written, each with the offset of its line.
    pub fn written(&mut self, events: &[(u64, &Event)], end: u64) {
        for (at, event) in events {
            let of = self.view.apply(event);
            self.places.push(Place { seq: event.seq, at: *at, of });
        }
        self.view.offset = end;
    }

    /// Folds the log's tail, which another left torn.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn catch_up(&mut self, files: &mut Files<'_>) -> Result<()> {
        let tail = files.log.read_from(self.view.offset)?;
        self.fold(files, &tail).or_else(|Unfit| self.anew(files))
    }

    /// Loads the threads that these ids lead to, where they are left out.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn load(&mut self, files: &mut Files<'_>, mut ids: impl Iterator<Item = EventId>) -> Result<()> {
        let Kept { view, index, .. } = self;
        let all = ids.try_for_each(|id| {
            let threads = threads_of(view, id, index, files)?;
            threads.into_iter().try_for_each(|thread| admit(view, thread, index, files))
        });
        all.or_else(|Unfit| self.anew(files))
    }

    /// Loads the threads of the events behind `after`, where they are left out.
    ///
    /// # Errors
    /// As above.
    pub fn load_since(&mut self, files: &mut Files<'_>, after: u32) -> Result<()> {
        let Kept { view, index, .. } = self;
        if after >= view.cold_through {
            return Ok(());
        }
        let threads = opened(view, index, files).and_then(|index| index.threads_since(after));
        let all = threads.and_then(|all| all.into_iter().try_for_each(|thread| admit(view, thread, index, files)));
        all.or_else(|Unfit| self.anew(files))
    }

    /// Makes the view whole.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn make_whole(&mut self, files: &mut Files<'_>) -> Result<()> {
        if self.view.cold_through > 0 {
            self.view = Kept::from_log(files)?.view;
        }
        Ok(())
    }

    /// Removes the snapshot, and goes on with the whole view: what it leaves out may matter to the session that now comes.
    ///
    /// # Errors
    /// Where it can't be removed, or the log not be read.
    pub fn forget(&mut self, files: &mut Files<'_>) -> Result<()> {
        files.dir.remove(NAME)?;
        self.anew(files)
    }

    /// Folds all of the log, where a cache proved unfit: it is written anew with the next snapshot.
    fn anew(&mut self, files: &mut Files<'_>) -> Result<()> {
        *self = Kept::from_log(files)?;
        Ok(())
    }

    /// Writes the snapshot, under the page's lock, if the log ran far enough ahead of it. Failing is no matter.
    pub fn store_if_worth(&mut self, files: &Files<'_>, keep: Option<&Keep>) {
        // It is written again only after a part of its own size came in.
        if self.lacks() >= WORTH.max(self.size / 8) {
            let _ = self.store(files, keep);
        }
    }

    /// Writes the snapshot, the index before it. The threads that it leaves out stay in the view at hand.
    fn store(&mut self, files: &Files<'_>, keep: Option<&Keep>) -> Result<()> {
        let Files { dir, key, log } = files;
        let view = &self.view;
        let (after, offset) = self.stored;
        let is_hot = |thread: &&Thread| {
            // What happened since the snapshot may be of a turn that has just opened.
            let new = after > 0 && thread.last > after;
            new || matters(thread, *key, view.seq) || keep.map_or_else(|| is_asked_of(thread), |keep| keep.asks(thread))
        };
        let (threads, cold): (Vec<&Thread>, Vec<&Thread>) = view.in_order().partition(is_hot);
        let left = |thread: &Thread| Left { thread: thread.id, last: thread.last };
        if offset == 0 {
            // An older snapshot that comes back may have left out what is hot now.
            let all: Vec<Left> = view.in_order().map(left).collect();
            index::replace(dir, *key, view.seq, &self.places, &all)?;
        } else {
            let cold: Vec<Left> = cold.into_iter().map(left).collect();
            index::extend(dir, *key, after, view.seq, &self.places, &cold)?;
        }
        let before = log.read_span(view.offset.saturating_sub(SEAL), view.offset)?;
        let out = Out {
            format: FORMAT,
            key: *key,
            seal: crc32fast::hash(&before),
            seq: view.seq,
            gap: view.gap,
            ts: view.ts,
            offset: view.offset,
            damaged: view.damaged,
            threads,
        };
        let bytes = cache::to_vec(&out)?;
        dir.replace(NAME, &bytes, false)?;
        self.stored = (view.seq, view.offset);
        self.size = bytes.len() as u64;
        self.places.clear();
        Ok(())
    }
}

/// Whether a thread is hot whoever holds the page: something waits in it or is to be done, or it can't be found by its ids.
fn matters(thread: &Thread, key: IdKey, through: u32) -> bool {
    let own = key.seq(thread.id.into());
    let found = (1..=through).contains(&own)
        && thread.messages.iter().all(|message| key.id(message.seq) == message.id.into())
        && thread.todos.iter().all(|todo| key.id(todo.seq) == todo.id.into());
    !found || thread.waiting().next().is_some() || thread.todos.iter().any(|todo| todo.is_open())
}

/// Whether a session that isn't known may ask of a thread in which nothing waits.
fn is_asked_of(thread: &Thread) -> bool {
    let gone = |message: &Message| message.withdrawn.or(message.settled).is_some() && message.was_picked_up();
    thread.messages.iter().any(gone) || actors(thread).any(|actor| actor.by == By::Fork)
}

impl Keep {
    fn asks(&self, thread: &Thread) -> bool {
        let is_new = |seq: Option<u32>| seq.is_some_and(|seq| seq > self.told);
        let gone = |message: &Message| {
            (is_new(message.withdrawn) || is_new(message.settled)) && message.was_mains(&self.session)
        };
        thread.messages.iter().any(gone) || actors(thread).any(|actor| self.open.contains(&actor.turn))
    }
}

/// Returns the turns that had a part in a thread.
fn actors(thread: &Thread) -> impl Iterator<Item = &Actor> {
    let messages = thread.messages.iter().flat_map(|message| {
        let picked = message.pickups.iter().map(|pickup| &pickup.actor);
        message.actor.iter().chain(picked).chain(message.starts.iter().map(|start| &start.actor))
    });
    let todos =
        thread.todos.iter().flat_map(|todo| todo.actor.iter().chain(todo.starts.iter().map(|start| &start.actor)));
    thread.takes.iter().map(|take| &take.actor).chain(messages).chain(todos)
}

/// Admits the thread that an event is of, where it is left out.
fn admit_named(view: &mut View, event: &Event, index: &mut Option<Index>, files: &Files<'_>) -> Result<(), Unfit> {
    match event.body.names() {
        Names::Thread(thread) => admit(view, thread, index, files),
        Names::Item(item) if view.home.contains_key(&item) => Ok(()),
        Names::Item(item) => {
            threads_of(view, item, index, files)?.into_iter().try_for_each(|thread| admit(view, thread, index, files))
        }
        Names::Nothing => Ok(()),
    }
}

/// Returns the index, which is opened once something is asked of it.
fn opened<'i>(view: &View, index: &'i mut Option<Index>, files: &Files<'_>) -> Result<&'i Index, Unfit> {
    match index {
        Some(index) => Ok(index),
        None => Ok(index.insert(Index::open(files.dir, files.key, view.cold_through)?)),
    }
}

/// Whether an id may lead to what is left out.
fn may_be_left(view: &View, id: EventId, files: &Files<'_>) -> bool {
    (1..=view.cold_through).contains(&files.key.seq(id))
}

fn threads_of(view: &View, id: EventId, index: &mut Option<Index>, files: &Files<'_>) -> Result<Vec<ThreadId>, Unfit> {
    if !may_be_left(view, id, files) {
        return Ok(Vec::new());
    }
    opened(view, index, files)?.threads_of(id)
}

fn admit(view: &mut View, id: ThreadId, index: &mut Option<Index>, files: &Files<'_>) -> Result<(), Unfit> {
    if !view.threads.contains_key(&id)
        && may_be_left(view, id.into(), files)
        && let Some(thread) = opened(view, index, files)?.thread(id, files.log)?
    {
        view.admit(thread);
    }
    Ok(())
}
