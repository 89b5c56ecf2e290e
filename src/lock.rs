//! File locks: the only place that touches `fs2`. A lock is a flock, which the kernel frees on any death.

use std::fmt;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// Why a lock was not had.
#[derive(Debug)]
pub enum LockError {
    /// Somebody held it until the deadline (R108).
    Timeout,
    /// The file system knows no locks, or the system refused.
    Io(io::Error),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Timeout => f.write_str(
                "another leaf holds the lock and didn't let go in time: nothing was changed, run it again \
                 (`leaf doctor` names a holder that hangs)",
            ),
            LockError::Io(error) => write!(
                f,
                "the file system under the state directory gives no lock ({}): set LEAF_HOME to a directory on a local disk",
                crate::place::plain(error)
            ),
        }
    }
}

impl std::error::Error for LockError {}

/// Until when a process waits for all the locks of its one transaction (R108): 2 s for a hook, 10 s for a command.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `wait` from now.
    pub fn after(wait: Duration) -> Deadline {
        Deadline(Instant::now() + wait)
    }
}

/// The pauses between two tries for a lock: at first, while it may only be a crowd that each holds it for a moment, and then.
const FIRST_PAUSE: Duration = Duration::from_micros(300);
const SHORT_PAUSE: Duration = Duration::from_micros(900);
const LONG_PAUSE: Duration = Duration::from_millis(6);
/// How long a crowd takes.
const CROWD: Duration = Duration::from_millis(100);

/// Takes the exclusive lock of an open file. It is freed when the file closes.
///
/// # Errors
/// [`LockError::Timeout`] at the deadline; [`LockError::Io`] where there are no locks.
pub fn exclusive(file: &File, deadline: Deadline) -> Result<(), LockError> {
    let since = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        if attempt(|| fs2::FileExt::try_lock_exclusive(file))? {
            return Ok(());
        }
        let left = deadline.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(LockError::Timeout);
        }
        std::thread::sleep(pause.min(left));
        // A lock is held for less than a millisecond: who backs off further while many wait is passed by all of them.
        let most = if since.elapsed() < CROWD { SHORT_PAUSE } else { LONG_PAUSE };
        pause = (pause * 2).min(most);
    }
}

/// Tries for the exclusive lock of an open file, without waiting.
///
/// # Errors
/// Where there are no locks.
pub fn try_exclusive(file: &File) -> Result<bool, LockError> {
    attempt(|| fs2::FileExt::try_lock_exclusive(file))
}

/// Tries for a shared lock of an open file, without waiting: how a reader tests a lane.
///
/// # Errors
/// Where there are no locks.
pub fn try_shared(file: &File) -> Result<bool, LockError> {
    attempt(|| fs2::FileExt::try_lock_shared(file))
}

fn attempt(lock: impl Fn() -> io::Result<()>) -> Result<bool, LockError> {
    loop {
        match lock() {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => return Ok(false),
            Err(error) => return Err(LockError::Io(error)),
        }
    }
}
