//! A lane: a lock file that one waiting process of a session holds. The newer takes it and the older leaves (R106); the
//! kernel frees it on any death.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::time::Duration;

use anyhow::Result;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::Session;
use super::liveness::{Life, Process};
use crate::clock::Ts;
use crate::ids::PageId;
use crate::lock::{self, Deadline, LockError};
use crate::place::read_range;

/// A record is smaller, bytes.
const MOST: u64 = 64 << 10;

/// Which waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// `leaf watch`.
    Watch,
    /// `leaf follow`.
    Follower,
}

impl Lane {
    /// Returns the lane's file name.
    pub fn name(self) -> &'static str {
        match self {
            Lane::Watch => "watch",
            Lane::Follower => "follower",
        }
    }
}

/// Who holds a lane, or wants it: the newest record is the one that is to have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneRecord {
    /// When the holder came.
    pub since: Ts,
    /// The holder.
    pub process: Process,
    /// Tells two comers of one process start apart.
    pub nonce: u64,
    /// The follower's: the pages' `seq` as it came (R13(c), R19).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seqs: BTreeMap<PageId, u32>,
    /// The follower's: the SHA-256 of its token (R71).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The watch's: when it left to wake the session (R105).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woke: Option<Ts>,
}

/// A held lane.
#[derive(Debug)]
pub struct Held {
    file: File,
    record: LaneRecord,
}

impl Held {
    /// Takes a lane: says so in its record, at which the older holder leaves, and waits for that. `Ok(None)` where a still newer
    /// one came meanwhile, or the older one doesn't leave in time.
    ///
    /// # Errors
    /// Where the lane's file can't be used.
    pub fn take(session: &Session, lane: Lane, now: Ts) -> Result<Option<Held>> {
        let record = LaneRecord {
            since: now,
            process: Process::own(),
            nonce: crate::ids::random_u64()?,
            seqs: BTreeMap::new(),
            token: None,
            woke: None,
        };
        Held::say(session, lane, record)?.wait()
    }

    /// Says in a lane's record who is to have it. A follower does it under its session's lock (R19).
    ///
    /// # Errors
    /// Where the lane's file can't be used.
    pub fn say(session: &Session, lane: Lane, record: LaneRecord) -> Result<Held> {
        let file = session.lanes()?.make_file(lane.name())?;
        let mut held = Held { file, record };
        held.write()?;
        Ok(held)
    }

    /// Waits until the older holder has left. `Ok(None)` where a still newer one came, or the older one doesn't leave in time.
    ///
    /// # Errors
    /// Where there are no locks.
    pub fn wait(self) -> Result<Option<Held>> {
        let mut held = self;
        // The holder sees the new record within its stat poll; one that is stopped keeps the lane.
        for _ in 0..40 {
            match lock::exclusive(&held.file, Deadline::after(Duration::from_millis(250))) {
                Ok(()) => return Ok(if held.wanted() { Some(held) } else { None }),
                Err(LockError::Timeout) if held.wanted() => {}
                Err(LockError::Timeout) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Returns the pages' `seq` as it came.
    pub fn seqs(&self) -> BTreeMap<PageId, u32> {
        self.record.seqs.clone()
    }

    /// Whether no newer one wants the lane.
    pub fn wanted(&mut self) -> bool {
        match read(&self.file) {
            Some(record) => record == self.record,
            // Half written by a newer one.
            None => false,
        }
    }

    /// Says that its holder leaves to wake the session: what a follower sees until the wake's prompt parks the next watch.
    ///
    /// # Errors
    /// Where the lane's file can't be written.
    pub fn leave_to_wake(&mut self, now: Ts) -> Result<()> {
        if self.wanted() {
            self.record.woke = Some(now);
            self.write()?;
        }
        Ok(())
    }

    /// The record is one small write into the file that carries the lock: a rename would part the two.
    fn write(&mut self) -> Result<()> {
        let mut bytes = serde_json::to_vec(&self.record)?;
        bytes.push(b'\n');
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&bytes)?;
        self.file.set_len(bytes.len() as u64)?;
        Ok(())
    }
}

fn read(file: &File) -> Option<LaneRecord> {
    let bytes = read_range(file, 0, MOST).ok()?;
    serde_json::from_slice(bytes.split(|byte| *byte == b'\n').next()?).ok()
}

/// Returns who else is to have a lane: the newest record's process, where that lives and is not this one, whether it holds the lane
/// yet or not.
pub fn claimant(session: &Session, lane: Lane) -> Option<LaneRecord> {
    let (file, _) = session.dir.stamped(&[super::LANES, lane.name()], OFlags::RDONLY).ok()??;
    read(&file).filter(|record| record.process != Process::own() && record.process.life() != Life::Dead)
}

/// Returns when the last watch left to wake the session, where none was parked since.
pub fn woke(session: &Session) -> Option<Ts> {
    let (file, _) = session.dir.stamped(&[super::LANES, Lane::Watch.name()], OFlags::RDONLY).ok()??;
    read(&file)?.woke
}

/// Returns who holds a lane now; `None` where nobody does. It takes no lock but tries a shared one.
pub fn holder(session: &Session, lane: Lane) -> Option<LaneRecord> {
    let (file, _) = session.dir.stamped(&[super::LANES, lane.name()], OFlags::RDWR).ok()??;
    if lock::try_shared(&file).ok()? {
        return None;
    }
    read(&file)
}

/// Returns the follower's lane for a reading: the pages' `seq` as it began, where it is live.
pub fn follower(session: &Session) -> Option<BTreeMap<PageId, u32>> {
    holder(session, Lane::Follower).map(|record| record.seqs)
}
