//! The words rule and the guard: any line is read, in bounded time, and the rule's questions agree with each other.
#![no_main]

use std::path::{Path, PathBuf};

use leaf_threads::rules::guard::{Files, Ground, Identity, changes};
use leaf_threads::rules::words::{Forbidden, Shell, Verdict, has_word, judge, may_name_leaf, plumbing};
use libfuzzer_sys::fuzz_target;

/// A disk on which each name is what it sounds like.
struct Disk;

impl Files for Disk {
    fn link(&self, path: &Path) -> Option<PathBuf> {
        match path.file_name()?.to_str()? {
            "l" => Some(PathBuf::from("/p/src")),
            "m" => Some(PathBuf::from("l/../m")),
            _ => None,
        }
    }

    fn identity(&self, path: &Path) -> Option<Identity> {
        path.ends_with("src").then_some((1, 2))
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.extension().is_none()
    }

    fn text(&self, path: &Path) -> Option<String> {
        path.ends_with(".git").then(|| "gitdir: /p/.git/worktrees/w\n".to_owned())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(line) = std::str::from_utf8(bytes) else { return };
    let verdict = judge(line, Shell::Posix);
    let forbidden = plumbing(line, Shell::Posix);
    if !may_name_leaf(line, Shell::Posix) {
        // A known agent's line may be denied all the same: what a shell reads from elsewhere could name it.
        assert!(!matches!(verdict, Verdict::Mark { .. }) && forbidden.is_none() && !has_word(line));
    }
    if let Verdict::Mark { insert_at } = verdict {
        let (before, after) = line.split_at(insert_at);
        assert!(before.ends_with("leaf"));
        let marked = format!("{before} --agent-id a1{after}");
        assert_eq!(plumbing(&marked, Shell::Posix), Some(Forbidden::AgentId));
    }
    if forbidden.is_some() {
        assert!(verdict != Verdict::Passes && has_word(line));
    }
    let _ = judge(line, Shell::PowerShell);
    let _ = plumbing(line, Shell::PowerShell);
    let ground = Ground {
        projects: vec![PathBuf::from("/p")],
        scratch: Some(PathBuf::from("/s")),
        cwd: PathBuf::from("/p/src"),
        home: Some(PathBuf::from("/h")),
    };
    for shell in [Shell::Posix, Shell::PowerShell] {
        let _ = changes(line, shell, &ground, &Disk);
    }
});
