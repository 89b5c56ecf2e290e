//! The guard's edge (R114, R115): what the disk says of a path, what is guarded in a session, and the words of a denial.

use std::borrow::Cow;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::client::Event;
use crate::ids::TurnId;
use crate::place::{Env, open_plain};
use crate::rules::guard::{Change, Files, Ground, Guarded, Identity};
use crate::scratch;
use crate::session::record::SessionRecord;
use crate::text;

/// git's own small files are smaller, bytes.
const SMALL: u64 = 256 << 10;

/// A longer path is cut where it is shown, characters.
const MOST_SHOWN: usize = 400;

/// The disk. `/proc/self` is this process, and the agent's is another: where the agent works comes from its payload.
pub struct Disk {
    cwd: PathBuf,
}

impl Files for Disk {
    fn link(&self, path: &Path) -> Option<PathBuf> {
        let target = std::fs::read_link(path).ok()?;
        let own = path.starts_with("/proc/self") || path.starts_with(format!("/proc/{}", std::process::id()));
        if own && path.ends_with("cwd") {
            return Some(self.cwd.clone());
        }
        Some(target)
    }

    fn identity(&self, path: &Path) -> Option<Identity> {
        let found = std::fs::metadata(path).ok()?;
        // Some network file systems tell none.
        (found.ino() != 0).then(|| (found.dev(), found.ino()))
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn text(&self, path: &Path) -> Option<String> {
        let mut text = String::new();
        open_plain(path).ok()?.take(SMALL).read_to_string(&mut text).ok()?;
        Some(text)
    }
}

/// Returns what is guarded for a fork of this session, and the disk as its tools find it. The session's record is the authority on
/// its project; after `/clear` in a directory below, the client's own word for it is wider, and is guarded too.
pub fn ground(event: &Event<'_>, record: &SessionRecord, turn: Option<TurnId>) -> (Ground, Disk) {
    let env = Env::default();
    let path = |name: &str| env.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = Some(PathBuf::from(&record.cwd)).filter(|path| path.is_absolute());
    let cwd = if event.cwd.is_empty() { PathBuf::from(&record.cwd) } else { PathBuf::from(event.cwd.as_ref()) };
    let ground = Ground {
        projects: own.into_iter().chain(path("CLAUDE_PROJECT_DIR")).collect(),
        scratch: turn.map(scratch::path),
        cwd: cwd.clone(),
        home: path("HOME"),
    };
    (ground, Disk { cwd })
}

/// A path as a reader gets it: the project named what it leads to (R124).
fn shown(path: &str) -> String {
    text::for_delivery(&text::first_words(path, MOST_SHOWN))
}

/// Says what a denied edit would have changed, for the journal and the agent.
pub fn edits(tool: &str, path: &str, guarded: &Guarded) -> String {
    let (path, at) = (shown(path), shown(&guarded.path.to_string_lossy()));
    let leads = if path == at { Cow::Borrowed("") } else { Cow::Owned(format!("leads to {at}, which ")) };
    format!("{tool} of {path}, which {leads}lies under the project directory {}", project(guarded))
}

/// Says what a denied line would have changed, for the journal and the agent.
pub fn would_change(change: &Change) -> String {
    let (by, at) = (shown(&change.by), shown(&change.guarded.path.to_string_lossy()));
    if change.repository {
        return format!("{by} changes the project's repository {at}");
    }
    format!("{by} changes {at}, which lies under the project directory {}", project(&change.guarded))
}

fn project(guarded: &Guarded) -> String {
    shown(&guarded.project.to_string_lossy())
}

/// Returns the denial of a change, with the ways out. Without an open turn the agent can only speak.
pub fn denial(rule: &str, what: &str, open: Option<TurnId>) -> String {
    let ways = match open {
        Some(turn) => format!(
            "write in your scratch directory {} instead; or answer with what you found and leave the change to main as a to-do \
             (leaf thread reply REF TEXT --todo TITLE); or, where main must act now, end with HAND BACK: and the reason; or stop",
            scratch::path(turn).display()
        ),
        None => "your turn is over: say in your final text what is to be changed, and stop".to_owned(),
    };
    format!("leaf: beside the session a fork changes nothing in the project ({rule}): {what}. What you can do: {ways}")
}
