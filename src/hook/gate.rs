//! A short way for main's boundary, which comes with every tool call: where one found nothing to say, it leaves in
//! `sessions/<key>/gate` all that its silence rested on, and the next ones are silent as long as that stands. A cache: it may be
//! deleted at any time, and whoever doubts it reads everything.
//!
//! What [`super::Hook::boundary`] says and writes follows from, and is covered by:
//! - the state directory, `LEAF_FORK` and `LEAF_TURN`: looked at before, each time;
//! - the client's pid, with the session's record whose client is the session's (R112): `client`, `record`;
//! - the session's state, folded from its journal alone: `journal`. What it rests on besides is the life of headless runs'
//!   processes, and these are of open turns of forks: with one of those there is no gate. Runs of the schedule are no matter at a
//!   boundary;
//! - the pages that the record lists, whether it holds them, and their views, folded from their logs alone: `pages`;
//! - the follower's lane, which decides what is kept back (R13), as time does: with a thread kept back there is no gate. What was
//!   there before a follower came is not kept back for it, and without a fork's open turn nothing else asks for a lane;
//! - the time, for main's renewal (R41): `until`. What else time brings (R88) is of forks' open turns and of threads that are kept
//!   back; a clock that went back could make one of those again: `from`;
//! - this leaf: `leaf`.
//!
//! The marks of files are taken before they are read, so that one that changes meanwhile opens the gate.

use std::io::Write;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::clock::Ts;
use crate::desk::Desk;
use crate::ids::{PageId, SessionId, SessionKey};
use crate::page;
use crate::place::{Dir, Stamp};
use crate::session::journal;
use crate::session::{self, Session};
use crate::{FORMAT, cache};

/// The file's name.
pub const NAME: &str = "gate";

/// What a silent boundary rested on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Gate {
    leaf: String,
    client: Option<i32>,
    /// It stands from this time on.
    from: Ts,
    /// And before this one.
    until: Ts,
    record: Option<Stamp>,
    journal: Option<Stamp>,
    pages: Vec<Listed>,
}

/// A page that the session's record lists.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Listed {
    id: PageId,
    record: Option<Stamp>,
    log: Option<Stamp>,
}

impl Listed {
    fn find(home: &Dir, id: &PageId) -> Option<Listed> {
        let stamp = |name| home.stamp(&["pages", id.as_str(), name]).ok();
        Some(Listed { id: id.clone(), record: stamp(page::RECORD)?, log: stamp(page::LOG)? })
    }
}

/// A session's files as a boundary finds them, before it reads them.
#[derive(Debug)]
pub struct Found {
    client: Option<i32>,
    record: Option<Stamp>,
    journal: Option<Stamp>,
    pages: Vec<Listed>,
    /// Whether any change since has another stamp.
    settled: bool,
}

impl Found {
    /// Looks at the session's files. `None` where they can't be looked at: there is no gate then.
    pub fn look(desk: &Desk, home: &Dir, id: &SessionId) -> Option<Found> {
        let key = id.key();
        let stamp = |name| home.stamp(&["sessions", key.as_str(), name]).ok();
        let (record, journal) = (stamp(session::RECORD)?, stamp(journal::NAME)?);
        let settled = are_settled(&[record, journal]);
        Some(Found { client: desk.client_pid(), record, journal, pages: Vec::new(), settled })
    }

    /// Whether an earlier boundary's silence stands.
    pub fn is_shut(&self, desk: &Desk, home: &Dir, id: &SessionId) -> bool {
        read(home, &id.key()).is_some_and(|gate| {
            let now = desk.now();
            let same = gate.leaf == VERSION && gate.client == self.client;
            let stands =
                gate.record == self.record && gate.journal == self.journal && gate.from <= now && now < gate.until;
            same && stands && gate.pages.iter().all(|page| Listed::find(home, &page.id).as_ref() == Some(page))
        })
    }

    /// Looks at the files of the pages that the session's record lists. Returns whether they can be looked at.
    pub fn look_at_pages(&mut self, home: &Dir, ids: &[PageId]) -> bool {
        self.pages = ids.iter().filter_map(|id| Listed::find(home, id)).collect();
        self.settled &= self.pages.iter().all(|page| are_settled(&[page.record, page.log]));
        self.pages.len() == ids.len()
    }

    /// Shuts the gate, from a time to another, behind a boundary that rested on these files. Failing is no matter.
    pub fn shut(self, session: &Session, from: Ts, until: Ts) {
        // Where a newer leaf writes, this one doesn't (R127).
        if !self.settled || session.record.format > FORMAT {
            return;
        }
        let Found { client, record, journal, pages, .. } = self;
        let gate = Gate { leaf: VERSION.to_owned(), client, from, until, record, journal, pages };
        // Written where it stands, so that a kill leaves no other file: a part of it is no JSON. Of two at once each writes the
        // whole in one call, and stamps that differ are of a file that has moved on.
        if let Ok(bytes) = cache::to_vec(&gate)
            && let Ok(Some(mut file)) = session.dir.file(NAME, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
        {
            let _ = file.write_all(&bytes);
        }
    }
}

fn are_settled(stamps: &[Option<Stamp>]) -> bool {
    stamps.iter().flatten().all(Stamp::is_settled)
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn read(home: &Dir, key: &SessionKey) -> Option<Gate> {
    let (bytes, _) = home.read_below(&["sessions", key.as_str(), NAME]).ok()??;
    cache::from_slice(&bytes)
}
