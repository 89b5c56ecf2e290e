//! `view.index`: where each event's line lies in the log, and which thread it is of. A cache beside `view.json`: with it a thread
//! that the snapshot leaves out is read along its own events alone, whatever the log's length.
//!
//! One row an event, by its `seq`, each with a check of its own. An event's row is written once; of the row that a thread's id leads
//! to, `last` moves on whenever a snapshot leaves the thread out. A reader of an older snapshot finds newer events along the way and
//! passes them by, so that rows may be written while others read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use super::log::{self, Log};
use super::view::{Thread, View};
use crate::ids::{EventId, IdKey, ThreadId};
use crate::place::Dir;

/// The index's file name.
pub const NAME: &str = "view.index";
/// A row's length: the offset, the thread, the event before, the last event, the check.
const ROW: usize = 24;

/// What the index is to be told of an event that was folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its `seq`.
    pub seq: u32,
    /// The offset of its line.
    pub at: u64,
    /// Its thread, with the `seq` of the thread's event before it, 0 where it is the first.
    pub of: Option<(ThreadId, u32)>,
}

/// A thread that a snapshot leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The thread.
    pub thread: ThreadId,
    /// The `seq` of its last event.
    pub last: u32,
}

/// The index does not fit the log, or can't be read: all is to be folded anew.
#[derive(Debug)]
pub struct Unfit;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Row {
    /// Whether there is an event of that `seq` which is of a thread.
    event: bool,
    /// The offset of its line.
    at: u64,
    /// The `seq` that its thread's id is the image of.
    thread: u32,
    /// The `seq` of the thread's event before it, 0 where it is the first.
    before: u32,
    /// Where the id of this `seq` is a thread's that some snapshot left out: the `seq` of its last event; else 0.
    last: u32,
}

impl Row {
    fn to_bytes(self, seq: u32) -> [u8; ROW] {
        let mut bytes = [0; ROW];
        // Offset 0 is the first line's; one is added so that nothing is told from it.
        let at = if self.event { self.at + 1 } else { 0 };
        bytes[..8].copy_from_slice(&at.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.thread.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.before.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.last.to_le_bytes());
        let check = check(seq, &bytes[..20]);
        bytes[20..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn from_bytes(seq: u32, bytes: &[u8; ROW]) -> Option<Row> {
        let word = |from: usize| u32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]]);
        if word(20) != check(seq, &bytes[..20]) {
            return None;
        }
        let at = u64::from(word(0)) | u64::from(word(4)) << 32;
        Some(Row { event: at > 0, at: at.saturating_sub(1), thread: word(8), before: word(12), last: word(16) })
    }
}

/// A row in another's place is as damaged as one of which a bit was flipped.
fn check(seq: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seq);
    hasher.update(bytes);
    hasher.finalize()
}

fn position(seq: u32) -> u64 {
    u64::from(seq - 1) * ROW as u64
}

/// An open index.
#[derive(Debug)]
pub struct Index {
    file: File,
    key: IdKey,
    /// The `seq` that the snapshot ends with.
    through: u32,
}

impl Index {
    /// Opens the index beside a snapshot that ends with the event `through`.
    ///
    /// # Errors
    /// Where there is none, or it is shorter.
    pub fn open(dir: &Dir, key: IdKey, through: u32) -> Result<Index, Unfit> {
        let file = dir.file(NAME, OFlags::RDONLY).ok().flatten().ok_or(Unfit)?;
        let length = file.metadata().map_err(|_| Unfit)?.len();
        // One that was put back from before the snapshot would lack what happened between them.
        if length < position(through) + ROW as u64 { Err(Unfit) } else { Ok(Index { file, key, through }) }
    }

    fn row(&self, seq: u32) -> Result<Row, Unfit> {
        if seq == 0 {
            return Err(Unfit);
        }
        let mut bytes = [0; ROW];
        self.file.read_exact_at(&mut bytes, position(seq)).map_err(|_| Unfit)?;
        Row::from_bytes(seq, &bytes).ok_or(Unfit)
    }

    /// Returns the threads that an id of an event up to `through` leads to: that of the event, and the one whose own id it is. They
    /// are one but where a line was damaged.
    ///
    /// # Errors
    /// Where the index is damaged.
    pub fn threads_of(&self, id: EventId) -> Result<Vec<ThreadId>, Unfit> {
        let row = self.row(self.key.seq(id))?;
        let of = row.event.then(|| ThreadId::from(self.key.id(row.thread)));
        let own = (row.last > 0).then_some(id.into());
        Ok(of.into_iter().chain(own).collect())
    }

    /// Returns the threads of the events behind `after`.
    ///
    /// # Errors
    /// As above.
    pub fn threads_since(&self, after: u32) -> Result<Vec<ThreadId>, Unfit> {
        let from = after.min(self.through) + 1;
        let mut bytes = vec![0; (self.through + 1 - from) as usize * ROW];
        self.file.read_exact_at(&mut bytes, position(from)).map_err(|_| Unfit)?;
        let mut threads = Vec::new();
        for (seq, bytes) in (from..).zip(bytes.as_chunks::<ROW>().0) {
            let row = Row::from_bytes(seq, bytes).ok_or(Unfit)?;
            threads.extend(row.event.then(|| ThreadId::from(self.key.id(row.thread))));
        }
        threads.sort();
        threads.dedup();
        Ok(threads)
    }

    /// Reads a thread that the snapshot leaves out, or its past; `Ok(None)` where there is none of that id, which is one up to
    /// `through`. `since` tells the events that were folded behind that.
    ///
    /// # Errors
    /// Where the index or a line of the thread's is damaged.
    pub fn thread(&self, id: ThreadId, log: &Log, since: &[Place]) -> Result<Option<Thread>, Unfit> {
        let own = self.key.seq(id.into());
        let mut places = Vec::new();
        let mut seq = self.row(own)?.last;
        while seq != 0 {
            let row = self.row(seq)?;
            if !row.event || row.thread != own || row.before >= seq {
                return Err(Unfit);
            }
            if seq <= self.through {
                places.push((seq, row.at));
            }
            seq = row.before;
        }
        let later = since.iter().filter(|place| place.of.is_some_and(|(thread, _)| thread == id));
        let later = later.map(|place| (place.seq, place.at));
        let mut view = View::default();
        for (seq, at) in places.into_iter().rev().chain(later) {
            let line = log.line_at(at).map_err(|_| Unfit)?;
            let event = log::parse(&line).filter(|event| event.seq == seq).ok_or(Unfit)?;
            view.apply(&event);
        }
        Ok(view.threads.remove(&id))
    }
}

/// Writes the index anew, for all events of a log.
///
/// # Errors
/// Where it can't be written.
pub fn replace(dir: &Dir, key: IdKey, through: u32, places: &[Place], left: &[Left]) -> io::Result<()> {
    let mut rows = vec![Row::default(); through as usize];
    fill(&mut rows, 1, key, places, left);
    dir.replace(NAME, &encode(1, &rows), false).map_err(io::Error::other)
}

/// Goes on with the index: for the events behind `after`, up to `through`.
///
/// # Errors
/// Where the index doesn't fit, or can't be written. The snapshot that stands goes on to fit.
pub fn extend(dir: &Dir, key: IdKey, after: u32, through: u32, places: &[Place], left: &[Left]) -> io::Result<()> {
    let file = dir.file(NAME, OFlags::RDWR).map_err(io::Error::other)?.ok_or(io::ErrorKind::NotFound)?;
    if file.metadata()?.len() < u64::from(after) * ROW as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut rows = vec![Row::default(); (through - after) as usize];
    fill(&mut rows, after + 1, key, places, left);
    // First the rows that others lead to.
    file.write_all_at(&encode(after + 1, &rows), u64::from(after) * ROW as u64)?;
    for left in left {
        let own = key.seq(left.thread.into());
        if own <= after {
            let mut bytes = [0; ROW];
            file.read_exact_at(&mut bytes, position(own))?;
            let row = Row::from_bytes(own, &bytes).ok_or(io::ErrorKind::InvalidData)?;
            if row.last != left.last {
                file.write_all_at(&Row { last: left.last, ..row }.to_bytes(own), position(own))?;
            }
        }
    }
    Ok(())
}

fn fill(rows: &mut [Row], from: u32, key: IdKey, places: &[Place], left: &[Left]) {
    let slot = |seq: u32| seq.checked_sub(from).map(|at| at as usize);
    for place in places {
        if let (Some((thread, before)), Some(row)) = (place.of, slot(place.seq).and_then(|at| rows.get_mut(at))) {
            *row = Row { event: true, at: place.at, thread: key.seq(thread.into()), before, last: 0 };
        }
    }
    for left in left {
        if let Some(row) = slot(key.seq(left.thread.into())).and_then(|at| rows.get_mut(at)) {
            row.last = left.last;
        }
    }
}

fn encode(from: u32, rows: &[Row]) -> Vec<u8> {
    (from..).zip(rows).flat_map(|(seq, row)| row.to_bytes(seq)).collect()
}
