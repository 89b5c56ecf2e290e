//! A session: its record, its journal and the state folded from it, its lanes.

pub mod journal;
pub mod lane;
pub mod liveness;
pub mod record;
pub mod state;

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use crate::FORMAT;
use crate::ids::{SessionId, SessionKey};
use crate::lock::{self, Deadline};
use crate::place::{Dir, PlaceError, Stamp};
use journal::{Entry, Folded, Journal};
use record::SessionRecord;
use state::State;

/// A session of the state directory, not locked.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its directory.
    pub dir: Dir,
    /// Its record, as read when it was opened or locked.
    pub record: SessionRecord,
    /// The record's stamp then, where any change since has another.
    stamp: Option<Stamp>,
    /// The state as it was last folded, by whichever copy of this value.
    folded: Arc<Mutex<Option<Folded>>>,
}

const LOCK: &str = "lock";
/// The name of a session's record.
pub const RECORD: &str = "session.json";
/// The directory of a session's lanes.
pub const LANES: &str = "lanes";

impl Session {
    /// Opens a session by its id; `Ok(None)` where leaf never heard of it.
    ///
    /// # Errors
    /// Where its record can't be read.
    pub fn open(home: &Dir, id: &SessionId) -> Result<Option<Session>> {
        Session::open_key(home, &id.key())
    }

    /// Opens a session by its key.
    ///
    /// # Errors
    /// Where its record can't be read.
    pub fn open_key(home: &Dir, key: &SessionKey) -> Result<Option<Session>> {
        let Some(dir) = home.below(&["sessions", key.as_str()])? else { return Ok(None) };
        // It is never synced: an empty one is what a power loss may leave of a session that had just begun.
        let Some((bytes, stamp)) = dir.read_below(&[RECORD])?.filter(|(bytes, _)| !bytes.is_empty()) else {
            return Ok(None);
        };
        let record = serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is damaged: `leaf doctor` says more", dir.path().join(RECORD).display()))?;
        Ok(Some(Session { dir, record, stamp: Some(stamp).filter(Stamp::is_settled), folded: Arc::default() }))
    }

    /// Returns the keys of all sessions.
    ///
    /// # Errors
    /// Where the directory can't be read.
    pub fn keys(home: &Dir) -> Result<Vec<SessionKey>, PlaceError> {
        let Some(sessions) = home.sub("sessions")? else { return Ok(Vec::new()) };
        Ok(sessions.names()?.iter().filter_map(|name| SessionKey::from_name(name)).collect())
    }

    /// Returns all sessions whose record can be read.
    ///
    /// # Errors
    /// Where the directory can't be read.
    pub fn all(home: &Dir) -> Result<Vec<Session>, PlaceError> {
        Ok(Session::keys(home)?.iter().filter_map(|key| Session::open_key(home, key).ok().flatten()).collect())
    }

    /// Opens a session, making it from `record` where leaf never heard of it.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn make(home: &Dir, record: &SessionRecord, deadline: Deadline) -> Result<Session> {
        if let Some(session) = Session::open(home, &record.id)? {
            return Ok(session);
        }
        let dir = home.make("sessions")?.make(record.id.key().as_str())?;
        dir.make_only(LANES)?;
        let lock = dir.make_file(LOCK)?;
        lock::exclusive(&lock, deadline)?;
        if dir.stamp(&[RECORD])?.is_none_or(|stamp| stamp.length == 0) {
            Journal::create(&dir)?;
            dir.replace(RECORD, &serde_json::to_vec(record)?, false)?;
            return Ok(Session { dir, record: record.clone(), stamp: None, folded: Arc::default() });
        }
        drop(lock);
        Session::open(home, &record.id)?.context("the session is gone again")
    }

    /// Reads the session's state without its lock.
    ///
    /// # Errors
    /// Where the journal can't be read.
    pub fn state(&self) -> Result<State> {
        let mut folded = self.folded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = &*folded
            && let Some(stamp) = self.dir.stamp(&[journal::NAME])?
            && let Some(state) = before.state_at(&stamp)
        {
            let mut state = state.clone();
            state.look_at_runners();
            return Ok(state);
        }
        let (journal, mut state) = Journal::open(&self.dir, folded.take())?;
        *folded = journal.folded(&state, false);
        state.look_at_runners();
        Ok(state)
    }

    /// Locks the session and reads its record and state as they then are.
    ///
    /// # Errors
    /// At the deadline, where there are no locks, or where it can't be read.
    pub fn lock(self, deadline: Deadline) -> Result<LockedSession> {
        let lock = self.dir.lock_file(LOCK)?;
        lock::exclusive(&lock, deadline)?;
        let mut session = self;
        if session.stamp.is_none() || session.dir.stamp(&[RECORD])? != session.stamp {
            let bytes = session.dir.read(RECORD)?.context("the session is gone")?;
            session.record = serde_json::from_slice(&bytes).context("the session's record is damaged")?;
            session.stamp = None;
        }
        let before = session.folded.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (journal, mut state) = Journal::open_locked(&session.dir, before)?;
        state.look_at_runners();
        let locked = LockedSession { session, journal, state, _lock: lock };
        locked.keep_state();
        Ok(locked)
    }

    /// Whether the session's lock can be had by then.
    ///
    /// # Errors
    /// Where there are no locks.
    pub fn is_free(&self, deadline: Deadline) -> Result<bool> {
        match lock::exclusive(&self.dir.make_file(LOCK)?, deadline) {
            Ok(()) => Ok(true),
            Err(lock::LockError::Timeout) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the directory of the session's lanes.
    ///
    /// # Errors
    /// Where it can't be opened or made.
    pub fn lanes(&self) -> Result<Dir, PlaceError> {
        self.dir.make(LANES)
    }
}

/// A session under its lock, which is freed with this value.
#[derive(Debug)]
pub struct LockedSession {
    /// The session; its record is as it stands under the lock.
    pub session: Session,
    journal: Journal,
    /// The state as it stands under the lock; kept up by [`LockedSession::append`].
    pub state: State,
    _lock: File,
}

impl LockedSession {
    /// Appends entries as one transaction and folds them into the state.
    ///
    /// # Errors
    /// Where the session is of a newer format (R127), or the write fails; nothing was then appended.
    pub fn append(&mut self, entries: &[Entry]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.check_writable()?;
        self.journal.append(&self.session.dir, entries, &mut self.state)?;
        self.keep_state();
        Ok(())
    }

    /// Keeps the state for who reads or locks the session next.
    fn keep_state(&self) {
        let folded = self.journal.folded(&self.state, true);
        *self.session.folded.lock().unwrap_or_else(PoisonError::into_inner) = folded;
    }

    /// Replaces the session's record.
    ///
    /// # Errors
    /// As [`LockedSession::append`].
    pub fn replace_record(&mut self, record: SessionRecord) -> Result<()> {
        self.check_writable()?;
        if record != self.session.record {
            self.session.dir.replace(RECORD, &serde_json::to_vec(&record)?, false)?;
            self.session.record = record;
            self.session.stamp = None;
        }
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        if self.session.record.format > FORMAT {
            bail!(
                "the session's records were written by a newer leaf (format {}, this one knows {FORMAT}): update leaf",
                self.session.record.format
            );
        }
        Ok(())
    }
}

/// Locks two sessions in the order of their keys.
///
/// # Errors
/// At the deadline, or where they can't be read.
pub fn lock_both(one: Session, two: Session, deadline: Deadline) -> Result<(LockedSession, LockedSession)> {
    if one.record.id.key() <= two.record.id.key() {
        let one = one.lock(deadline)?;
        Ok((one, two.lock(deadline)?))
    } else {
        let two = two.lock(deadline)?;
        Ok((one.lock(deadline)?, two))
    }
}
