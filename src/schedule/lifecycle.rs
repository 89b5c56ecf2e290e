//! Lifecycle hooks: commands that run at a session's moments, with no model.
//!
//! What happens is journalled as owed in the same append as the thing itself ([`entry`]), then a detached process is started
//! ([`start`]) that takes on all that is owed under the session's lock and runs the commands ([`serve`]). Whoever is killed
//! between, the next process of the session finds what is still owed; whoever comes second finds nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use super::changed::Eyes;
use super::definition::{Deliver, Hook, HookMoment, Source};
use super::record::{Change, Happening, Record};
use super::select::millis;
use super::settings::Settings;
use super::{discovery, feed, pause};
use crate::client::claude_code::print;
use crate::clock::Ts;
use crate::desk::Desk;
use crate::errors;
use crate::headless;
use crate::place::{Dir, Env};
use crate::session::Session;
use crate::session::journal::Entry;
use crate::session::record::SessionRecord;
use crate::text;
use crate::trust;

/// How much of what a command says is kept, bytes.
const WORDS: usize = 2_000;
/// How long an ended command's output is waited for: what it left in the background may hold it open.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// A session of this client's is what hooks see in `LEAF_CLIENT`.
const CLIENT: &str = "claude-code";
/// What a command of a session keeps of another session's environment.
const COMMON: [&str; 12] = [
    "HOME",
    "LANG",
    "LEAF_HOME",
    "LEAF_NOW",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_RUNTIME_DIR",
];

/// A hook that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due<'h> {
    /// The hook.
    pub hook: &'h Hook,
    /// Its moment's label.
    pub label: String,
    /// The idle deadline that has passed, seconds.
    pub idle: Option<u64>,
}

/// Returns the hooks that are due for what happened. Each is due once, whatever of its moments fit; of `idle` moments once for each
/// that has passed.
pub fn due<'h>(hooks: &'h [Hook], record: &Record, settings: &Settings, event: &Happening, now: Ts) -> Vec<Due<'h>> {
    let fits = |hook: &'h Hook| -> Vec<Due<'h>> {
        if hook.command.is_empty() || throttled_until(hook, record).is_some_and(|until| now < until) {
            return Vec::new();
        }
        let once = |wanted: HookMoment| {
            hook.on.contains(&wanted).then(|| Due { hook, label: wanted.label(), idle: None }).into_iter().collect()
        };
        match event {
            Happening::SessionStart { .. } if hook.on.contains(&HookMoment::SessionStart) => {
                once(HookMoment::SessionStart)
            }
            Happening::SessionStart { source } if source.as_deref() == Some("resume") => once(HookMoment::Resume),
            Happening::SessionStart { .. } => Vec::new(),
            Happening::Activity => once(HookMoment::Activity),
            Happening::SessionEnd { .. } => once(HookMoment::SessionEnd),
            Happening::Changed { pattern } => once(HookMoment::Changed(pattern.clone())),
            Happening::Event { name } => once(HookMoment::Event(name.clone())),
            Happening::Idle => {
                let passed = idle_moments(hook, record, settings).into_iter().filter(|(_, _, at)| *at <= now);
                let mut passed: Vec<Due<'h>> =
                    passed.map(|(label, seconds, _)| Due { hook, label, idle: Some(seconds) }).collect();
                // One that is throttled runs at one of them.
                passed.truncate(if hook.throttle.is_some() { 1 } else { passed.len() });
                passed
            }
        }
    };
    hooks.iter().flat_map(fits).collect()
}

/// Returns when the first idle hook is due, as things stand; a time that has passed: it is due now.
pub fn next_idle(hooks: &[Hook], record: &Record, settings: &Settings) -> Option<Ts> {
    let of = |hook: &Hook| {
        let at = idle_moments(hook, record, settings).into_iter().map(|(_, _, at)| at).min()?;
        Some(at.max(throttled_until(hook, record).unwrap_or(at)))
    };
    hooks.iter().filter(|hook| !hook.command.is_empty()).filter_map(of).min()
}

/// A hook's idle moments that it did not run at in this pause: label, seconds, and when each is due.
fn idle_moments(hook: &Hook, record: &Record, settings: &Settings) -> Vec<(String, u64, Ts)> {
    let pause = pause::pause(record, settings.background_hold, settings.background_hold_timeout);
    let Some(pause) = pause else { return Vec::new() };
    let ran = record.hooks.get(&hook.name).filter(|stamps| stamps.pause == record.epoch);
    let mut found: Vec<(String, u64, Ts)> = Vec::new();
    for moment in &hook.on {
        let HookMoment::Idle(seconds) = moment else { continue };
        let default = Some(settings.default_idle_deadline).filter(|default| *default > 0);
        let Some(seconds) = seconds.or(default) else { continue };
        let label = moment.label();
        let latched = ran.is_some_and(|stamps| stamps.idle.contains(&label));
        if !latched && found.iter().all(|(other, _, _)| *other != label) {
            found.push((label, seconds, pause.deadline(seconds)));
        }
    }
    found.sort_by_key(|(_, seconds, _)| *seconds);
    found
}

fn throttled_until(hook: &Hook, record: &Record) -> Option<Ts> {
    let ran = record.hooks.get(&hook.name)?.ran?;
    Some(ran.plus(millis(hook.throttle?)))
}

/// Whether a session in a directory may have lifecycle hooks: a few system calls. Below a hook's own command, and in a scheduled
/// fork, none runs: a hook that starts a client would start the next.
pub fn may_have_hooks(env: &Env, cwd: &Path) -> bool {
    env.var("LEAF_HOOK_NAME").is_none() && env.var("LEAF_FORK").is_none() && discovery::may_have_hooks(env, cwd)
}

/// Returns the entry that says what a session's hooks are owed, where it may have some: it belongs into the append that tells of
/// the thing itself.
pub fn entry(env: &Env, cwd: &str, event: Happening, now: Ts) -> Option<Entry> {
    may_have_hooks(env, Path::new(cwd)).then(|| Entry::schedule(now, Change::Happened { event }))
}

/// Returns the hooks of a session that may run: those of the user's own, and those that are trusted as they are (R126).
pub fn known(desk: &Desk, record: &SessionRecord) -> Vec<Hook> {
    let cwd = Path::new(&record.cwd);
    if !may_have_hooks(&desk.env, cwd) {
        return Vec::new();
    }
    let project = discovery::project_root(&desk.env, cwd);
    let found = discovery::hooks(&desk.env, cwd);
    if found.list.iter().all(|hook| hook.source.own) {
        return found.list;
    }
    let trusted = trust::of(desk, &project);
    let may_run =
        |source: &Source| source.own || trusted.as_ref().is_ok_and(|record| trust::trusts(record, &project, source));
    let mut hooks = found.settled(may_run).list;
    hooks.retain(|hook| may_run(&hook.source));
    hooks
}

/// In whose environment hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The session's own: a hook of its client's, its watch (W30).
    Own,
    /// Another's: hooks see no more of it than any session has.
    Foreign,
}

/// Starts a process that tells a session's hooks what they are owed, and doesn't wait for it. Where it can't be started, or is
/// killed, the hooks are still owed it.
pub fn start(record: &SessionRecord, place: Place) {
    let mut args = vec![OsString::from(format!("--session={}", record.id))];
    if place == Place::Foreign {
        args.push("--foreign".into());
    }
    launch(&args);
}

/// Starts a process that closes the sessions whose clients are dead.
pub fn start_sweep() {
    launch(&["--sweep".into()]);
}

fn launch(args: &[OsString]) {
    let started = headless::detached().and_then(|mut command| Ok(command.arg("lifecycle").args(args).spawn()?));
    match started {
        Ok(child) => headless::adopt(child),
        Err(error) => errors::note(&format!("lifecycle hooks: leaf can't be started: {error:#}")),
    }
}

/// A hook's command that is to run.
struct Job {
    hook: Hook,
    label: String,
    idle: Option<u64>,
    event: Happening,
}

/// Takes on all that a session's hooks are owed, and runs the commands of those that are due.
///
/// # Errors
/// Where the session can't be read or written; the hooks are then still owed it.
pub fn serve(desk: &Desk, session: Session, place: Place) -> Result<()> {
    let hooks = known(desk, &session.record);
    let (settings, _) = desk.schedule(Path::new(&session.record.cwd));
    let mut session = session.lock(desk.deadline())?;
    let now = desk.now();
    let Some(last) = session.state.schedule.happened.last().map(|happened| happened.number) else { return Ok(()) };
    let mut jobs = Vec::new();
    let mut entries = vec![Entry::schedule(now, Change::Told { to: last })];
    // What one of them stamps, the next sees.
    let mut seen = session.state.schedule.clone();
    for happened in &session.state.schedule.happened {
        for due in due(&hooks, &seen.clone(), &settings, &happened.what, now) {
            let change = Change::Hook { name: due.hook.name.clone(), label: due.label.clone() };
            seen.apply(now, &change);
            entries.push(Entry::schedule(now, change));
            let event = happened.what.clone();
            jobs.push(Job { hook: due.hook.clone(), label: due.label, idle: due.idle, event });
        }
    }
    session.append(&entries)?;
    let record = SessionRecord { owes: false, ..session.session.record.clone() };
    session.replace_record(record.clone())?;
    drop(session);
    std::thread::scope(|scope| {
        for job in &jobs {
            scope.spawn(|| {
                if let Err(error) = job.run(desk, &record, place) {
                    errors::note(&format!("hook {} ({}): {error:#}", job.hook.name, job.label));
                }
            });
        }
    });
    Ok(())
}

impl Job {
    fn run(&self, desk: &Desk, record: &SessionRecord, place: Place) -> Result<()> {
        let feeds = self.hook.deliver != Deliver::None;
        let mut child = self
            .command(desk, record, place)
            .stdout(if feeds { Stdio::piped() } else { Stdio::null() })
            .stderr(Stdio::piped())
            .spawn()
            .context("its command can't be started")?;
        let said = child.stderr.take().map(|pipe| tail(pipe, WORDS));
        let fed = child.stdout.take().map(|pipe| head(pipe, self.hook.max_bytes));
        let status = wait(&mut child, Duration::from_secs(self.hook.timeout))?;
        let words = said.map(|said| last(&said)).unwrap_or_default();
        let words = text::first_words(String::from_utf8_lossy(&words).trim(), 300);
        let says = if words.is_empty() { String::new() } else { format!(": {words}") };
        let name = format!("hook {} ({})", self.hook.name, self.label);
        match status {
            None => errors::note(&format!("{name}: stopped after {} s{says}", self.hook.timeout)),
            Some(status) if !status.success() => errors::note(&format!("{name}: {status}{says}")),
            Some(_) => {
                let output = fed.map(|fed| last(&fed)).unwrap_or_default();
                let output = String::from_utf8_lossy(&output).trim().to_owned();
                if !output.is_empty() {
                    feed::put(desk, record, &self.hook, &self.label, &output)?;
                }
            }
        }
        Ok(())
    }

    fn command(&self, desk: &Desk, record: &SessionRecord, place: Place) -> Command {
        let cwd = Path::new(&record.cwd);
        let project = discovery::project_root(&desk.env, cwd);
        let mut command = Command::new("/bin/sh");
        let own: [&Path; 3] = [cwd, &project, Path::new("/")];
        let at = own.into_iter().find(|dir| dir.is_dir()).unwrap_or(Path::new("/"));
        command.args(["-c", &self.hook.command]).current_dir(at).stdin(Stdio::null()).process_group(0);
        let mut path = desk.env.var("PATH");
        match place {
            Place::Own => {
                // A client that it starts is no part of the session; the project's directory means the same to both.
                for name in print::inherited().filter(|name| *name != "CLAUDE_PROJECT_DIR") {
                    command.env_remove(name);
                }
                for name in ["LEAF_TOKEN", "LEAF_TURN", "LEAF_SESSION"] {
                    command.env_remove(name);
                }
            }
            Place::Foreign => {
                command.env_clear();
                for name in COMMON {
                    if let Some(value) = desk.env.var(name) {
                        command.env(name, value);
                    }
                }
                path = record.path.as_ref().map(OsString::from).or(path);
            }
        }
        // Without the plugin around it `leaf` may be on no PATH but this one.
        let leaf = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
        let dirs: Vec<PathBuf> = path.iter().flat_map(std::env::split_paths).collect();
        if let Ok(path) = std::env::join_paths(dirs.iter().cloned().chain(leaf.filter(|leaf| !dirs.contains(leaf)))) {
            command.env("PATH", path);
        }
        for (name, value) in self.variables(record, &project) {
            for prefix in ["LEAF", "AUTOFORK"] {
                match &value {
                    Some(value) => command.env(format!("{prefix}_{name}"), value),
                    // One of a hook above this process.
                    None => command.env_remove(format!("{prefix}_{name}")),
                };
            }
        }
        command
    }

    /// What its command is told, each under two names.
    fn variables(&self, record: &SessionRecord, project: &Path) -> Vec<(&'static str, Option<OsString>)> {
        let word = |text: &str| Some(OsString::from(text));
        let (mut source, mut reason) = (None, None);
        match &self.event {
            Happening::SessionStart { source: how } => source.clone_from(how),
            Happening::SessionEnd { reason: why } => reason = Some(why.clone()),
            Happening::Activity | Happening::Idle | Happening::Changed { .. } | Happening::Event { .. } => {}
        }
        vec![
            ("HOOK_NAME", word(&self.hook.name)),
            ("EVENT", word(self.label.split(':').next().unwrap_or_default())),
            ("MOMENT", word(&self.label)),
            ("SESSION_ID", word(record.id.as_str())),
            ("PROJECT_ROOT", Some(project.as_os_str().to_owned())),
            ("CWD", word(&record.cwd)),
            ("CLIENT", word(CLIENT)),
            ("SOURCE", source.map(OsString::from)),
            ("IDLE_SECS", self.idle.map(|seconds| seconds.to_string().into())),
            ("END_REASON", reason.map(OsString::from)),
        ]
    }
}

/// Waits for a command; one that takes too long is killed with its group, and gives nothing.
fn wait(child: &mut Child, at_most: Duration) -> Result<Option<ExitStatus>> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let Some(left) = at_most.checked_sub(began.elapsed()) else { break };
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    child.wait()?;
    Ok(None)
}

/// What a thread keeps of a pipe that it reads to its end, however much comes; and whether the end has come.
type Kept = Arc<(Mutex<(Vec<u8>, bool)>, Condvar)>;

/// Reads a pipe to its end. `keep` adds a piece to what is kept.
fn read(pipe: impl Read + Send + 'static, keep: impl Fn(&mut Vec<u8>, &[u8]) + Send + 'static) -> Kept {
    let kept = Kept::default();
    let shared = Arc::clone(&kept);
    std::thread::spawn(move || {
        let (kept, ended) = &*shared;
        let mut pipe = BufReader::new(pipe);
        while let Ok(bytes) = pipe.fill_buf() {
            let length = bytes.len();
            if length == 0 {
                break;
            }
            keep(&mut kept.lock().unwrap_or_else(PoisonError::into_inner).0, bytes);
            pipe.consume(length);
        }
        kept.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        ended.notify_all();
    });
    kept
}

/// Keeps the last bytes of a pipe.
fn tail(pipe: impl Read + Send + 'static, most: usize) -> Kept {
    read(pipe, move |kept, bytes| {
        kept.extend_from_slice(bytes);
        kept.drain(..kept.len().saturating_sub(most));
    })
}

/// Keeps the first bytes of a pipe.
fn head(pipe: impl Read + Send + 'static, most: usize) -> Kept {
    read(pipe, move |kept, bytes| kept.extend_from_slice(&bytes[..bytes.len().min(most - kept.len())]))
}

/// Returns what a pipe gave; one that something holds open is left after a while.
fn last(kept: &Kept) -> Vec<u8> {
    let (kept, ended) = &**kept;
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = ended.wait_timeout_while(kept, LAST_WORDS, |(_, over)| !*over);
    waited.map_or_else(|poisoned| poisoned.into_inner().0.0.clone(), |(kept, _)| kept.0.clone())
}

/// What a waiting process of a session remembers of its hooks.
#[derive(Debug, Default)]
pub struct Attendant {
    /// Up to what number it started a process, and when.
    started: Option<(u64, Instant)>,
    /// The number of the last that it saw owed, and since when.
    seen: Option<(u64, Instant)>,
    eyes: Eyes,
}

/// How long what is owed is left to whoever journalled it.
const OWN: Duration = Duration::from_secs(1);
/// After this long without its being taken on, what is owed is tried again.
const RETRY: Duration = Duration::from_secs(10);

impl Attendant {
    /// Looks at what time and files bring for a session's hooks, and starts what they are owed. `patterns`: what `changed` moments of
    /// forks match. Returns when, and after how long at the latest, it is to look again.
    ///
    /// # Errors
    /// Where the session can't be read or written.
    pub fn look(
        &mut self,
        desk: &Desk,
        home: &Dir,
        session: &Session,
        patterns: impl IntoIterator<Item = String>,
    ) -> Result<(Option<Ts>, Option<Duration>)> {
        let record = session.state()?.schedule;
        if !record.is_open() {
            return Ok((None, None));
        }
        let hooks = known(desk, &session.record);
        let changed = hooks.iter().flat_map(|hook| &hook.on).filter_map(|moment| match moment {
            HookMoment::Changed(pattern) => Some(pattern.clone()),
            _ => None,
        });
        let patterns: BTreeSet<String> = changed.chain(patterns).collect();
        let eyes = self.eyes.look(desk, home, session, &patterns)?;
        let owed = self.owed(&record, &session.record);
        let within = eyes.into_iter().chain(owed).min();
        if hooks.is_empty() {
            return Ok((None, within));
        }
        let now = desk.now();
        let (settings, _) = desk.schedule(Path::new(&session.record.cwd));
        let next = next_idle(&hooks, &record, &settings);
        let is_owed = record.happened.iter().any(|happened| happened.what == Happening::Idle);
        if next.is_none_or(|next| next > now) || is_owed {
            return Ok((next.filter(|next| *next > now), within));
        }
        let Some(session) = Session::open(home, &session.record.id)? else { return Ok((None, None)) };
        let mut locked = session.lock(desk.deadline())?;
        // A prompt may have come before the lock was had.
        if !due(&hooks, &locked.state.schedule, &settings, &Happening::Idle, now).is_empty() {
            locked.append(&[Entry::schedule(now, Change::Happened { event: Happening::Idle })])?;
        }
        Ok((None, Some(Duration::ZERO)))
    }

    /// Starts what is owed, once whoever journalled it had its time to. Returns after how long to look again.
    fn owed(&mut self, record: &Record, session: &SessionRecord) -> Option<Duration> {
        let last = record.happened.last()?;
        let left = |at: Instant, wait: Duration| wait.checked_sub(at.elapsed()).filter(|left| !left.is_zero());
        match self.started {
            Some((number, at)) if number == last.number => {
                if let Some(left) = left(at, RETRY) {
                    return Some(left);
                }
            }
            _ => {
                let since = match self.seen {
                    Some((number, since)) if number == last.number => since,
                    _ => Instant::now(),
                };
                self.seen = Some((last.number, since));
                let is_hooks = match last.what {
                    Happening::SessionStart { .. } | Happening::Activity | Happening::SessionEnd { .. } => true,
                    Happening::Idle | Happening::Changed { .. } | Happening::Event { .. } => false,
                };
                if let Some(left) = left(since, OWN).filter(|_| is_hooks) {
                    return Some(left);
                }
            }
        }
        self.started = Some((last.number, Instant::now()));
        start(session, Place::Own);
        Some(RETRY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::definition::Source;

    #[test]
    fn a_pipe_without_end_is_kept_within_its_bound() {
        let read = |kept: Kept| {
            let (kept, ended) = &*kept;
            let over = ended.wait_while(kept.lock().unwrap(), |(_, over)| !*over).unwrap();
            over.0.clone()
        };
        // Many pieces, and nobody looks meanwhile.
        let many = || std::io::repeat(b'x').take(4 << 20).chain(&b"end"[..]);
        assert_eq!(read(tail(many(), 10)), b"xxxxxxxend");
        assert_eq!(read(head((&b"begin"[..]).chain(many()), 7)), b"beginxx");
        let (_held, open) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(last(&tail(open, 10)).is_empty(), "what stays open is left");
    }

    fn hook(name: &str, on: Vec<HookMoment>) -> Hook {
        Hook {
            name: name.to_owned(),
            source: Source { path: "/h".into(), own: true, sha256: String::new() },
            description: None,
            on,
            command: "true".to_owned(),
            timeout: 60,
            deliver: Deliver::None,
            max_bytes: 8_000,
            throttle: None,
        }
    }

    fn record(changes: &[(i64, Change)]) -> Record {
        let mut record = Record::default();
        let opened = Change::Opened { source: None, model: None, tags: Default::default() };
        record.apply(Ts(0), &opened);
        changes.iter().for_each(|(at, change)| record.apply(Ts(*at), change));
        record
    }

    fn stopped(tasks: &[&str]) -> Change {
        Change::Stopped { background: tasks.iter().map(ToString::to_string).collect() }
    }

    fn activity() -> Change {
        Change::Activity { idle: false, why: "prompt".to_owned() }
    }

    fn labels(hooks: &[Hook], record: &Record, event: &Happening, now: i64) -> Vec<String> {
        let due = due(hooks, record, &Settings::default(), event, Ts(now));
        due.iter().map(|due| format!("{} {}", due.hook.name, due.label)).collect()
    }

    #[test]
    fn a_start_is_told_once_and_a_resume_to_those_who_wait_for_it_alone() {
        let hooks = [
            hook("both", vec![HookMoment::Resume, HookMoment::SessionStart]),
            hook("resume", vec![HookMoment::Resume]),
            Hook { command: String::new(), ..hook("never", vec![HookMoment::SessionStart]) },
        ];
        let start = |source: Option<&str>| Happening::SessionStart { source: source.map(ToOwned::to_owned) };
        let record = record(&[]);
        assert_eq!(labels(&hooks, &record, &start(None), 1), ["both session_start"]);
        assert_eq!(labels(&hooks, &record, &start(Some("resume")), 1), ["both session_start", "resume resume"]);
    }

    #[test]
    fn idle_hooks_count_from_the_beginning_of_the_pause_and_run_once_in_it() {
        let hooks = [hook("h", vec![HookMoment::Idle(Some(10)), HookMoment::Idle(None), HookMoment::Idle(Some(10))])];
        let settings = Settings::default();
        let mut record = record(&[(1_000, activity())]);
        assert_eq!(next_idle(&hooks, &record, &settings), None, "main is at work");
        record.apply(Ts(2_000), &stopped(&[]));
        assert_eq!(next_idle(&hooks, &record, &settings), Some(Ts(12_000)));
        assert_eq!(labels(&hooks, &record, &Happening::Idle, 11_999), Vec::<String>::new());
        assert_eq!(labels(&hooks, &record, &Happening::Idle, 12_000), ["h idle:10"]);
        record.apply(Ts(12_000), &Change::Hook { name: "h".to_owned(), label: "idle:10".to_owned() });
        assert_eq!(next_idle(&hooks, &record, &settings), Some(Ts(602_000)));
        // A wake's own turn moves nothing.
        record.apply(Ts(20_000), &Change::Working);
        assert_eq!(next_idle(&hooks, &record, &settings), None);
        record.apply(Ts(30_000), &stopped(&[]));
        assert_eq!(next_idle(&hooks, &record, &settings), Some(Ts(602_000)));
        // W18: nor does a close; a new pause does.
        record.apply(Ts(40_000), &Change::Closed { reason: "other".to_owned() });
        assert_eq!(next_idle(&hooks, &record, &settings), None);
        record.apply(Ts(50_000), &Change::Opened { source: None, model: None, tags: Default::default() });
        record.apply(Ts(60_000), &stopped(&[]));
        assert_eq!(labels(&hooks, &record, &Happening::Idle, 61_000), Vec::<String>::new());
        record.apply(Ts(70_000), &activity());
        record.apply(Ts(80_000), &stopped(&[]));
        assert_eq!(labels(&hooks, &record, &Happening::Idle, 90_000), ["h idle:10"]);
        // 0 switches bare `idle` off.
        let never = Settings { default_idle_deadline: 0, ..Settings::default() };
        assert_eq!(next_idle(&hooks[..], &record, &never), Some(Ts(90_000)));
    }

    #[test]
    fn work_in_the_background_holds_them_as_long_as_the_settings_say() {
        let hooks = [hook("h", vec![HookMoment::Idle(Some(10))])];
        let record = record(&[(0, activity()), (1_000, stopped(&["b1"]))]);
        let next = |hold: bool, timeout: u64| {
            let settings = Settings { background_hold: hold, background_hold_timeout: timeout, ..Settings::default() };
            next_idle(&hooks, &record, &settings)
        };
        assert_eq!(next(true, 100), Some(Ts(111_000)));
        assert_eq!(next(true, 0), None);
        assert_eq!(next(false, 100), Some(Ts(11_000)));
    }

    #[test]
    fn a_throttle_holds_a_hook_and_lets_it_run_at_one_of_its_moments() {
        let hooks = [Hook {
            throttle: Some(60),
            ..hook("h", vec![HookMoment::Activity, HookMoment::Idle(Some(1)), HookMoment::Idle(Some(2))])
        }];
        let mut record = record(&[(0, activity()), (1_000, stopped(&[]))]);
        assert_eq!(labels(&hooks, &record, &Happening::Idle, 10_000), ["h idle:1"]);
        record.apply(Ts(10_000), &Change::Hook { name: "h".to_owned(), label: "idle:1".to_owned() });
        assert_eq!(labels(&hooks, &record, &Happening::Activity, 69_999), Vec::<String>::new());
        assert_eq!(labels(&hooks, &record, &Happening::Activity, 70_000), ["h activity"]);
        assert_eq!(next_idle(&hooks, &record, &Settings::default()), Some(Ts(70_000)));
    }

    #[test]
    fn what_is_owed_is_bounded_and_an_event_twice_is_one() {
        let event = |name: &str| Change::Happened { event: Happening::Event { name: name.to_owned() } };
        let mut record = record(&[(1, event("a")), (2, event("b")), (3, event("a"))]);
        assert_eq!(record.happened.iter().map(|owed| owed.number).collect::<Vec<_>>(), [2, 3]);
        (0..200).for_each(|at| record.apply(Ts(at), &Change::Happened { event: Happening::Activity }));
        assert_eq!(record.happened.len(), 64);
        record.apply(Ts(300), &Change::Told { to: record.happenings });
        assert!(record.happened.is_empty());
    }
}
