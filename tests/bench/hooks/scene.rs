//! A state directory that every run finds the same: a story is played once, through the built binary, and what it left is put back
//! before each run.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use chrono::SecondsFormat;
use leaf_threads::session::liveness::Process;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::desk::{Desk, copy_tree, walk};
use crate::timing::timed;

/// A process to run, which any thread can.
#[derive(Clone, Debug)]
pub struct Spec {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub input: Vec<u8>,
    /// What it prints goes to /dev/null, not into a pipe.
    pub discards: bool,
}

impl Spec {
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.env);
        command
    }

    /// Runs it: how long it took, and what it printed.
    pub fn timed(&self) -> (Duration, Vec<u8>) {
        timed(self.command(), &self.input, self.discards)
    }
}

/// A state directory, and how it was.
pub struct Scene {
    /// Where the processes run.
    pub cwd: PathBuf,
    /// What their environment is.
    pub env: BTreeMap<String, String>,
    state: PathBuf,
    copy: TempDir,
    files: RefCell<BTreeMap<PathBuf, Mark>>,
    directories: BTreeSet<PathBuf>,
    _keep: Box<dyn Any>,
}

/// What tells whether a file is as it was.
#[derive(Clone, Copy, PartialEq)]
struct Mark {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Mark {
    fn of(path: &Path) -> Option<Mark> {
        let meta = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Mark { inode: meta.ino(), size: meta.len(), changed: (meta.ctime(), meta.ctime_nsec()) })
    }
}

impl Scene {
    /// Plays a story at a desk. It returns a session's environment and whatever the runs need of it. When it is over the session's
    /// client is gone, and the bench takes its place.
    pub fn play<T>(story: impl FnOnce(&Desk) -> (BTreeMap<String, String>, T)) -> (Scene, T) {
        let desk = Desk::new();
        let (mut env, rest) = story(&desk);
        env.insert("CLAUDE_PID".into(), std::process::id().to_string());
        // Time stands still, so that every run does the same.
        env.insert("LEAF_NOW".into(), desk.now().to_rfc3339_opts(SecondsFormat::Millis, true));
        let own = json!(Process::own());
        walk(&desk.state_dir(), &mut |path| {
            if path.file_name().is_some_and(|name| name == "session.json") {
                let mut record: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
                record["process"] = own.clone();
                fs::write(path, record.to_string()).unwrap();
            }
        });
        assert!(!desk.state_dir().join("errors.log").exists(), "the story failed: {:?}", desk.errors());
        (Scene::of(desk.state_dir(), desk.project(), env, Box::new(desk)), rest)
    }

    /// A directory as it is now.
    pub fn of(state: PathBuf, cwd: PathBuf, env: BTreeMap<String, String>, keep: Box<dyn Any>) -> Scene {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(&state, &copy.path().join("state"));
        let (files, directories) = look(&state);
        Scene { cwd, env, state, copy, files: RefCell::new(files), directories, _keep: keep }
    }

    /// Puts everything back: how many files were not as they had been, and what hooks that failed said of it, line by line.
    pub fn restore(&self) -> (usize, String) {
        let mut files = self.files.borrow_mut();
        let (now, directories) = look(&self.state);
        let (mut changed, mut errors) = (0, String::new());
        for (name, _) in now.iter().filter(|(name, _)| !files.contains_key(*name)) {
            let path = self.state.join(name);
            if name.file_name().is_some_and(|name| name == "errors.log") {
                errors = fs::read_to_string(&path).unwrap();
            }
            fs::remove_file(path).unwrap();
            changed += 1;
        }
        // What lies in a directory comes after it.
        for name in directories.iter().rev().filter(|name| !self.directories.contains(*name)) {
            fs::remove_dir(self.state.join(name)).unwrap();
        }
        for (name, mark) in files.iter_mut() {
            let is = now.get(name);
            if is == Some(&*mark) {
                continue;
            }
            changed += 1;
            let path = self.state.join(name);
            // What is only ever appended to is cut: a long log is not copied.
            let cut = name.extension().is_some_and(|extension| extension == "jsonl")
                && is.is_some_and(|is| is.inode == mark.inode && is.size >= mark.size);
            if cut {
                fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(mark.size).unwrap();
            } else {
                let aside = path.with_extension("back");
                fs::copy(self.copy.path().join("state").join(name), &aside).unwrap();
                fs::rename(aside, &path).unwrap();
            }
            *mark = Mark::of(&path).unwrap();
        }
        (changed, errors)
    }

    /// Appends to the scene's only page log.
    pub fn append(&self, lines: &[u8]) {
        let mut log = fs::OpenOptions::new().append(true).open(self.log()).unwrap();
        log.write_all(lines).unwrap();
    }

    /// How long the system alone takes to make a line durable that was appended to the page log.
    pub fn sync_time(&self) -> Duration {
        let mut log = fs::OpenOptions::new().append(true).open(self.log()).unwrap();
        log.write_all(&[b'x'; 300]).unwrap();
        let since = Instant::now();
        log.sync_data().unwrap();
        let took = since.elapsed();
        self.restore();
        took
    }

    /// The scene's only page log.
    pub fn log(&self) -> PathBuf {
        let files = self.files.borrow();
        let mut logs = files.keys().filter(|name| name.ends_with("log.jsonl"));
        let log = logs.next().unwrap();
        assert!(logs.next().is_none(), "one page");
        self.state.join(log)
    }

    /// A process of the scene.
    pub fn spec(&self, program: impl Into<PathBuf>, args: &[&str], input: &[u8]) -> Spec {
        Spec {
            program: program.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: self.env.clone(),
            input: input.to_owned(),
            discards: false,
        }
    }
}

/// The files below a directory, and the directories.
/// Returns what lies in a state directory, but for gates: they make no difference but in time.
fn look(state: &Path) -> (BTreeMap<PathBuf, Mark>, BTreeSet<PathBuf>) {
    let (mut files, mut directories) = (BTreeMap::new(), BTreeSet::new());
    walk(state, &mut |path| {
        let name = path.strip_prefix(state).unwrap().to_owned();
        if name.ends_with(leaf_threads::hook::gate::NAME) {
            return;
        }
        match Mark::of(path) {
            Some(mark) => drop(files.insert(name, mark)),
            None => drop(directories.insert(name)),
        }
    });
    (files, directories)
}
