//! What may be left of processes of ours once they are gone, however they went: nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// Processes that have this directory in their environment.
pub fn left(dir: &Path) -> Vec<String> {
    let needle = dir.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        let read =
            |name: &str| String::from_utf8_lossy(&fs::read(path.join(name)).unwrap_or_default()).replace('\0', " ");
        if read("environ").contains(&needle) {
            found.push(format!("{} {}", path.display(), read("cmdline")));
        }
    }
    found
}

/// Calls `see` for every path below a directory; symlinks are not followed.
fn walk(dir: &Path, see: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        see(&path);
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, see);
        }
    }
}

/// The lock files of a state directory that somebody holds.
pub fn still_locked(state: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(state, &mut |path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
        if path.is_file() && (name == "lock" || name.ends_with(".lock") || name == "log.jsonl" || parent == "lanes") {
            let file = fs::OpenOptions::new().read(true).write(true).open(path).expect("a lock file");
            if fs2::FileExt::try_lock_exclusive(&file).is_err() {
                found.push(path.to_owned());
            }
        }
    });
    found
}

/// The files of a state directory that the contract doesn't know, by their paths in it.
pub fn strays(state: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(state, &mut |path| {
        let Ok(below) = path.strip_prefix(state) else { return };
        let words: Vec<&str> = below.iter().filter_map(|w| w.to_str()).collect();
        let known = match words.as_slice() {
            ["pages" | "sessions" | "projects"] | ["errors.log"] => true,
            ["pages", page] => !page.starts_with('.'),
            ["sessions", _] => true,
            ["pages", _, "deliveries", id] => id.ends_with(".json"),
            // Beside the records and the logs stand caches, whatever they are called.
            ["pages" | "sessions", _, name] => !name.ends_with(".tmp") && !name.starts_with('.'),
            ["sessions", _, "lanes", "follower" | "watch"] => true,
            // A project's lock stands in no list of the contract's, but in its order of locks.
            ["projects", key] => key.ends_with(".json") || key.ends_with(".lock"),
            _ => false,
        };
        if !known {
            found.push(below.to_owned());
        }
    });
    found
}
