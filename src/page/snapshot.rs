//! `view.json`: the hot part of the view and the offset that it covers. A cache: it may be stale, damaged or gone at any time.
//!
//! What is hot, [`super::hot`] says. The snapshot leaves out the threads that lie cold and what is past in the others; who names
//! one of those threads reads it along its own events ([`super::index`]). So a page costs what is going on there, not what ever was
//! said.

use std::borrow::{Borrow, Cow};
use std::collections::BTreeSet;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::event::{Event, Names};
use super::hot::{self, Keep};
use super::index::{self, Index, Left, Place, Unfit};
use super::log::Log;
use super::view::{Thread, View};
use crate::clock::Ts;
use crate::ids::{EventId, IdKey, ThreadId};
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
    /// The hot threads. A leaf that knows no past in them reads none of it: it looked for `threads`.
    hot: Vec<Cow<'a, Thread>>,
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
    hot: Vec<Thread>,
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
    /// The events that were folded behind what the view was read from.
    places: Vec<Place>,
    /// How many of these the index has.
    indexed: usize,
    /// The threads whose past the snapshot leaves out.
    cut: BTreeSet<ThreadId>,
    /// The `seq` and offset that the snapshot ends with, 0 where there is none.
    stored: (u32, u64),
    /// The snapshot's size, bytes.
    size: u64,
    /// The seal of what was read without the lock and is gone on from under it: another may have written the snapshot since.
    seal: u32,
    went_on: bool,
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
        let mut kept = Kept {
            view: View::default(),
            index: None,
            places: Vec::new(),
            indexed: 0,
            cut: BTreeSet::new(),
            stored: (0, 0),
            size: 0,
            seal: 0,
            went_on: false,
        };
        let bytes = files.log.read_from(0)?;
        // No thread is left out: there is no index for it to be unfit.
        let _ = kept.fold(files, &bytes);
        kept.seal = seal(&bytes[..kept.view.offset as usize]);
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
        if before.last() != Some(&b'\n') || seal(before) != read.seal {
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
        let cut = read.hot.iter().filter(|thread| thread.cut).map(|thread| thread.id).collect();
        read.hot.into_iter().for_each(|thread| view.admit(thread));
        let stored = (read.seq, read.offset);
        let mut kept =
            Kept { view, index: None, places: Vec::new(), indexed: 0, cut, stored, size, seal: 0, went_on: false };
        kept.fold(files, tail).ok()?;
        kept.seal = seal(&end[..(kept.view.offset - from) as usize]);
        Some(kept)
    }

    /// Goes on, under the page's lock, from what was read without it; `None` where the log is another by now.
    pub fn go_on(mut self, files: &mut Files<'_>) -> Option<Kept> {
        let from = self.view.offset.saturating_sub(SEAL);
        let end = files.log.read_from(from).ok()?;
        let (before, tail) = end.split_at_checked((self.view.offset - from) as usize)?;
        if seal(before) != self.seal {
            return None;
        }
        self.fold(files, tail).ok()?;
        self.went_on = true;
        Some(self)
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
            Loading { view, index, files, places }.admit_named(event)?;
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
        let mut loading = self.loading(files);
        let all = events.iter().try_for_each(|event| loading.admit_named(event));
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

    /// Loads all of the threads that these ids lead to.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn load(&mut self, files: &mut Files<'_>, mut ids: impl Iterator<Item = EventId>) -> Result<()> {
        let mut loading = self.loading(files);
        let all = ids.try_for_each(|id| loading.admit_of(id));
        all.or_else(|Unfit| self.anew(files))
    }

    /// Loads all of the threads of the events behind `after`.
    ///
    /// # Errors
    /// As above.
    pub fn load_since(&mut self, files: &mut Files<'_>, after: u32) -> Result<()> {
        let mut loading = self.loading(files);
        let all = loading.admit_since(after);
        all.or_else(|Unfit| self.anew(files))
    }

    fn loading<'k>(&'k mut self, files: &'k Files<'_>) -> Loading<'k> {
        let Kept { view, index, places, .. } = self;
        Loading { view, index, files, places }
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
        if !self.went_on && self.lacks() >= WORTH.max(self.size / 8) {
            let _ = self.store(files, keep);
        }
    }

    /// Writes the snapshot, the index before it. What it leaves out stays in the view at hand.
    fn store(&mut self, files: &Files<'_>, keep: Option<&Keep>) -> Result<()> {
        let Files { dir, key, log } = files;
        let view = &self.view;
        let (after, offset) = self.stored;
        let hot: Vec<Cow<'_, Thread>> =
            view.in_order().filter_map(|thread| hot::part(thread, *key, view.seq, keep, after)).collect();
        let cut: BTreeSet<ThreadId> = hot.iter().filter(|thread| thread.cut).map(|thread| thread.id).collect();
        let whole: BTreeSet<ThreadId> = hot.iter().filter(|thread| !thread.cut).map(|thread| thread.id).collect();
        let left = |thread: &Thread| Left { thread: thread.id, last: thread.last };
        let new = &self.places[self.indexed..];
        if offset == 0 {
            // An older snapshot that comes back may have left out what is hot now.
            let all: Vec<Left> = view.in_order().map(left).collect();
            index::replace(dir, *key, view.seq, new, &all)?;
        } else {
            // Of one that was cut already and had no event since, the index tells the last.
            let known =
                |thread: &Thread| cut.contains(&thread.id) && self.cut.contains(&thread.id) && thread.last <= after;
            let parted = view.in_order().filter(|thread| !whole.contains(&thread.id) && !known(thread));
            let parted: Vec<Left> = parted.map(left).collect();
            index::extend(dir, *key, after, view.seq, new, &parted)?;
        }
        let before = log.read_span(view.offset.saturating_sub(SEAL), view.offset)?;
        let out = Out {
            format: FORMAT,
            key: *key,
            seal: seal(&before),
            seq: view.seq,
            gap: view.gap,
            ts: view.ts,
            offset: view.offset,
            damaged: view.damaged,
            hot,
        };
        let bytes = cache::to_vec(&out)?;
        dir.replace(NAME, &bytes, false)?;
        self.stored = (view.seq, view.offset);
        self.size = bytes.len() as u64;
        self.cut = cut;
        if view.cold_through == 0 {
            self.places.clear();
        }
        self.indexed = self.places.len();
        Ok(())
    }
}

impl Borrow<View> for Kept {
    fn borrow(&self) -> &View {
        &self.view
    }
}

/// Returns the seal of the log up to where these bytes of it end.
fn seal(bytes: &[u8]) -> u32 {
    crc32fast::hash(&bytes[bytes.len().saturating_sub(SEAL as usize)..])
}

/// A view that is completed along the index.
struct Loading<'k> {
    view: &'k mut View,
    /// Opened once something is asked of it.
    index: &'k mut Option<Index>,
    files: &'k Files<'k>,
    places: &'k [Place],
}

impl Loading<'_> {
    /// Admits the thread that an event is of, where it is left out, and its past, where the event speaks of it.
    fn admit_named(&mut self, event: &Event) -> Result<(), Unfit> {
        match event.body.names() {
            Names::Thread(thread) => {
                let home = &self.view.home;
                let is_past = self.view.threads.get(&thread).is_none_or(|found| {
                    found.cut && event.body.mentions_beyond(|message| home.get(&message.into()) == Some(&thread))
                });
                if is_past { self.admit(thread) } else { Ok(()) }
            }
            Names::Item(item) if self.view.home.contains_key(&item) => Ok(()),
            Names::Item(item) => self.admit_of(item),
            Names::Nothing => Ok(()),
        }
    }

    /// Admits all of the threads that an id leads to.
    fn admit_of(&mut self, id: EventId) -> Result<(), Unfit> {
        let mut threads = if self.may_be_left(id) { self.opened()?.threads_of(id)? } else { Vec::new() };
        threads.extend(self.view.home.get(&id));
        threads.into_iter().try_for_each(|thread| self.admit(thread))
    }

    /// Admits all of the threads of the events behind `after`.
    fn admit_since(&mut self, after: u32) -> Result<(), Unfit> {
        let is_cold = after < self.view.cold_through;
        let mut threads = if is_cold { self.opened()?.threads_since(after)? } else { Vec::new() };
        threads.extend(self.view.threads.values().filter(|thread| thread.last > after).map(|thread| thread.id));
        threads.into_iter().try_for_each(|thread| self.admit(thread))
    }

    /// Admits all of a thread.
    fn admit(&mut self, id: ThreadId) -> Result<(), Unfit> {
        let Loading { files, places, .. } = *self;
        let is_left = self.view.threads.get(&id).is_none_or(|thread| thread.cut) && self.may_be_left(id.into());
        if is_left && let Some(thread) = self.opened()?.thread(id, files.log, places)? {
            self.view.admit(thread);
        }
        Ok(())
    }

    fn opened(&mut self) -> Result<&Index, Unfit> {
        match self.index {
            Some(index) => Ok(index),
            None => Ok(self.index.insert(Index::open(self.files.dir, self.files.key, self.view.cold_through)?)),
        }
    }

    /// Whether an id may lead to what is left out.
    fn may_be_left(&self, id: EventId) -> bool {
        (1..=self.view.cold_through).contains(&self.files.key.seq(id))
    }
}
