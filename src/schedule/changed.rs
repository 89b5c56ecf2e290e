//! `changed` moments: whether the files that a pattern matches are as they were, by their names, sizes and times.
//!
//! What was seen last stands in the session's record, so that the next waiting process goes on from there, and of two at once one
//! tells of a change.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use glob::{MatchOptions, Pattern};

use super::definition::Moment;
use super::discovery;
use super::lifecycle;
use super::record::{Change, Happening};
use crate::desk::Desk;
use crate::ids::sha256_hex;
use crate::place::{Dir, Env};
use crate::session::Session;
use crate::session::journal::Entry;

/// At most so many entries are looked at for a pattern.
const MOST: usize = 10_000;
/// How often files are looked at; where looking takes long, less often.
const EVERY: Duration = Duration::from_secs(2);
/// Looking takes at most this part of the time.
const SHARE: u32 = 50;

/// A wildcard matches within a name, and no hidden one.
const MATCHING: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A pattern with the directory below which all that it matches lies.
#[derive(Debug)]
struct Below {
    root: PathBuf,
    pattern: Pattern,
}

/// Takes a pattern apart. One that is relative is the project's, `~/` is the user's home. `None` where it is no pattern, or would
/// match from the root of all files on.
fn below(project: &Path, home: Option<&Path>, text: &str) -> Option<Below> {
    // What it is below is no part of it, whatever characters that has.
    let (base, rest) = match (text.strip_prefix("~/"), text.strip_prefix('/')) {
        (Some(rest), _) => (home?, rest),
        (None, Some(rest)) => (Path::new("/"), rest),
        (None, None) => (project, text.strip_prefix("./").unwrap_or(text)),
    };
    let is_wild = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let parts: Vec<Component<'_>> = Path::new(rest).components().collect();
    let fixed = parts.iter().position(is_wild);
    // The last part of one without a wildcard is a file.
    let (above, below) = parts.split_at(fixed.unwrap_or(parts.len().saturating_sub(1)));
    let root = base.join(above.iter().collect::<PathBuf>());
    let rest = below.iter().collect::<PathBuf>().to_string_lossy().into_owned();
    let rest = if fixed.is_none() { Pattern::escape(&rest) } else { rest };
    let prefix = Pattern::escape(&root.to_string_lossy());
    let pattern = Pattern::new(&format!("{}/{rest}", prefix.trim_end_matches('/'))).ok()?;
    (root.parent().is_some() || fixed.is_none()).then_some(Below { root, pattern })
}

/// Returns a hash of what a pattern matches now. `None` where it can't match anything.
pub fn seen(env: &Env, project: &Path, pattern: &str) -> Option<String> {
    let home = env.var("HOME").map(PathBuf::from);
    let below = below(project, home.as_deref(), pattern)?;
    let mut lines: Vec<String> = Vec::new();
    let mut entries = 0;
    let mut todo = vec![below.root.clone()];
    // A pattern without `**` reaches no deeper than it has parts.
    let depth = below.pattern.as_str().matches('/').count();
    let deep = below.pattern.as_str().contains("**");
    while let Some(dir) = todo.pop() {
        let Ok(found) = fs::read_dir(&dir) else { continue };
        for entry in found.flatten() {
            entries += 1;
            if entries > MOST {
                todo.clear();
                break;
            }
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            let within = deep || path.components().count() <= depth;
            // A link is a file like any other: no directory is looked into twice.
            if kind.is_dir() && within && (!hidden || below.pattern.as_str().contains("/.")) {
                todo.push(path);
            } else if !kind.is_dir()
                && below.pattern.matches_path_with(&path, MATCHING)
                && let Ok(meta) = fs::metadata(&path)
            {
                let time = (meta.mtime(), meta.mtime_nsec());
                lines.push(format!("{} {} {}.{}", path.display(), meta.len(), time.0, time.1));
            }
        }
    }
    lines.sort();
    Some(sha256_hex(lines.join("\n").as_bytes())[..32].to_owned())
}

/// The looks of one waiting process.
#[derive(Debug, Default)]
pub struct Eyes {
    next: Option<Instant>,
}

impl Eyes {
    /// Looks at the files of these patterns, where it is time to, and tells the session of those that changed. Returns after how long
    /// to look again.
    ///
    /// # Errors
    /// Where the session can't be read or written.
    pub fn look(
        &mut self,
        desk: &Desk,
        home: &Dir,
        session: &Session,
        patterns: &BTreeSet<String>,
    ) -> Result<Option<Duration>> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let began = Instant::now();
        if let Some(next) = self.next
            && let Some(left) = next.checked_duration_since(began).filter(|left| !left.is_zero())
        {
            return Ok(Some(left));
        }
        let project = discovery::project_root(&desk.env, Path::new(&session.record.cwd));
        let now: Vec<(&String, String)> =
            patterns.iter().filter_map(|pattern| Some((pattern, seen(&desk.env, &project, pattern)?))).collect();
        let known = session.state()?.schedule.files;
        if now.iter().any(|(pattern, seen)| known.get(*pattern) != Some(seen))
            && let Some(session) = Session::open(home, &session.record.id)?
        {
            let cwd = session.record.cwd.clone();
            let mut session = session.lock(desk.deadline())?;
            let mut entries = Vec::new();
            for (pattern, seen) in now {
                let before = session.state.schedule.files.get(pattern);
                if before == Some(&seen) {
                    continue;
                }
                let ts = desk.now();
                entries.push(Entry::schedule(ts, Change::Looked { pattern: pattern.clone(), seen }));
                // The first look has nothing to compare with.
                if before.is_some() {
                    let label = Moment::Changed(pattern.clone()).label();
                    entries.push(Entry::schedule(ts, Change::Raised { label }));
                    let event = Happening::Changed { pattern: pattern.clone() };
                    entries.extend(lifecycle::entry(&desk.env, &cwd, event, ts));
                }
            }
            session.append(&entries)?;
        }
        let wait = EVERY.max(began.elapsed() * SHARE);
        self.next = Some(Instant::now() + wait);
        Ok(Some(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let below = below(Path::new("/p[1]"), Some(Path::new("/home/u")), pattern);
        below.is_some_and(|below| below.pattern.matches_path_with(Path::new(path), MATCHING))
    }

    #[test]
    fn a_pattern_is_the_projects_but_for_one_that_is_absolute() {
        assert!(matches("docs/*.md", "/p[1]/docs/a.md"));
        assert!(!matches("docs/*.md", "/p[1]/docs/b/a.md"));
        assert!(matches("docs/**/*.md", "/p[1]/docs/b/a.md"));
        assert!(matches("./TODO", "/p[1]/TODO"));
        assert!(!matches("*", "/p[1]/.git"));
        assert!(matches("~/notes/*", "/home/u/notes/x"));
        assert!(matches("/etc/*.conf", "/etc/x.conf"));
        assert!(!matches("/**", "/etc/x.conf"), "not all files of the machine");
        assert!(!matches("[", "/p[1]/["));
    }

    #[test]
    fn what_changed_is_seen_and_what_did_not_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("docs/deep")).unwrap();
        fs::write(root.join("docs/a.md"), "1").unwrap();
        let env = Env::default();
        let look = |pattern| seen(&env, root, pattern).unwrap();
        let (flat, deep, other) = (look("docs/*.md"), look("docs/**/*.md"), look("src/*"));
        assert_eq!(flat, look("docs/*.md"));
        fs::write(root.join("docs/deep/b.md"), "22").unwrap();
        assert_eq!(flat, look("docs/*.md"));
        assert_ne!(deep, look("docs/**/*.md"));
        fs::write(root.join("docs/a.md"), "333").unwrap();
        assert_ne!(flat, look("docs/*.md"));
        assert_eq!(other, look("src/*"));
    }
}
