//! The state directory: whose it is, what it lies on, whether locks hold there, and whether what lies in it is whole.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, OFlags};
use serde::Deserialize;

use super::Check;
use crate::hook::gate;
use crate::ids::{DeliveryId, PageId, SessionKey, TurnId};
use crate::lock::{self, Deadline};
use crate::page::log::{Piece, parse, pieces};
use crate::page::{self, PageRecord, index, snapshot};
use crate::place::{Dir, PlaceError, plain};
use crate::schedule::record::Run;
use crate::schedule::report;
use crate::session;
use crate::session::journal::{self, Entry};
use crate::session::lane::Lane;
use crate::session::liveness::{Life, Process};
use crate::session::record::SessionRecord;
use crate::text::{count, one_line};
use crate::{FORMAT, errors};

/// How long a lock may be held by a run that is well.
const PATIENCE: Duration = Duration::from_millis(500);
/// From this age on a temporary file has no living writer.
const ABANDONED: Duration = Duration::from_secs(60);
/// A session's lock file, by the contract.
const LOCK: &str = "lock";
/// How many places a check names before it only counts.
const NAMED: usize = 3;
/// Below this much room a page's next lines are in danger, bytes.
const ROOM: u64 = 16 * 1024 * 1024;

/// All checks of the state directory; those of its content only where it can be opened.
pub fn checks(path: &Result<PathBuf, PlaceError>) -> Vec<Check> {
    let path = match path {
        Ok(path) => path,
        Err(error) => return vec![Check::problem("state", error.to_string(), "set one of them")],
    };
    let mut checks = vec![directory(path), file_system(path)];
    // Opening it tells the same as `directory` where it fails.
    if let Ok(Some(home)) = Dir::open_home(path) {
        checks.extend([locks(&home), records(&home), logs(&home), stray(&home), kept_silent(&home)]);
        checks.extend(left(&home));
    }
    checks
}

/// Whether the directory is the user's, and only the user's.
fn directory(path: &Path) -> Check {
    const NAME: &str = "state";
    let meta = match path.metadata() {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let above = existing(path);
            return match rustix::fs::access(above, Access::WRITE_OK) {
                Ok(()) => Check::note(NAME, format!("{} is not there yet: it is made at first need", path.display())),
                Err(_) => Check::problem(
                    NAME,
                    format!("{} can't be made: {} is not writable", path.display(), above.display()),
                    "set LEAF_HOME to a directory of your own",
                ),
            };
        }
        Err(error) => {
            return Check::problem(
                NAME,
                format!("can't look at {} ({})", path.display(), plain(&error)),
                "see to its permissions",
            );
        }
    };
    let mode = meta.mode() & 0o7777;
    let shown = path.display();
    if !meta.is_dir() {
        Check::problem(NAME, format!("{shown} is no directory"), "move it away, or set LEAF_HOME")
    } else if meta.uid() != rustix::process::geteuid().as_raw() {
        Check::problem(
            NAME,
            format!("{shown} belongs to another user (uid {})", meta.uid()),
            "set LEAF_HOME to a directory of your own",
        )
    } else if mode & 0o022 != 0 {
        Check::problem(
            NAME,
            format!("others may write into {shown} (mode {mode:o})"),
            format!("look inside, then run `chmod 700 {shown}`"),
        )
    } else if rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        Check::problem(NAME, format!("{shown} is not writable (mode {mode:o})"), format!("run `chmod 700 {shown}`"))
    } else if mode & 0o077 != 0 {
        Check::note(NAME, format!("others could look into {shown} (mode {mode:o}); leaf sets 700 whenever it opens it"))
    } else {
        Check::ok(NAME, format!("{shown}, mode {mode:o}, owned by you"))
    }
}

/// The nearest directory above that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("/"))
}

/// What it lies on: locks of a network file system are not to be trusted blindly, and it needs room.
fn file_system(path: &Path) -> Check {
    const NAME: &str = "file system";
    let at = existing(path);
    let room = match rustix::fs::statvfs(at) {
        Ok(room) => room,
        Err(error) => return Check::note(NAME, format!("can't be told ({})", plain(&error.into()))),
    };
    let kind = kind_of(at);
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let shown = format!("{}, {} MiB free", kind.name(), free / 1024 / 1024);
    if room.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Check::problem(NAME, format!("{shown}, read-only"), "set LEAF_HOME to a directory that can be written");
    }
    if free < ROOM {
        return Check::problem(NAME, shown, "make room, or set LEAF_HOME to a directory on another disk");
    }
    match kind {
        Kind::Local(_) => Check::ok(NAME, shown),
        Kind::Memory(_) => Check::note(NAME, format!("{shown}: what is written there is gone at the next boot"))
            .way_out("set LEAF_HOME to a directory on a disk to keep threads"),
        Kind::Network(_) => Check::note(NAME, format!("{shown}: its locks may not hold between machines"))
            .way_out("set LEAF_HOME to a directory on a local disk"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Local(&'static str),
    Memory(&'static str),
    Network(&'static str),
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Local(name) | Kind::Memory(name) | Kind::Network(name) => name,
        }
    }
}

#[cfg(target_os = "linux")]
fn kind_of(path: &Path) -> Kind {
    match rustix::fs::statfs(path) {
        Ok(stat) => kind(stat.f_type as u64 & 0xffff_ffff),
        Err(_) => Kind::Local("unknown"),
    }
}

#[cfg(not(target_os = "linux"))]
fn kind_of(_: &Path) -> Kind {
    Kind::Local("a file system of unknown kind")
}

/// The kinds by the numbers of Linux's `statfs(2)`.
#[cfg(target_os = "linux")]
fn kind(magic: u64) -> Kind {
    match magic {
        0xef53 => Kind::Local("ext4"),
        0x9123_683e => Kind::Local("btrfs"),
        0x5846_5342 => Kind::Local("xfs"),
        0x2fc1_2fc1 => Kind::Local("zfs"),
        0x794c_7630 => Kind::Local("overlayfs"),
        0xf2f5_2010 => Kind::Local("f2fs"),
        0x0102_1994 => Kind::Memory("tmpfs"),
        0x8584_58f6 => Kind::Memory("ramfs"),
        0x6969 => Kind::Network("NFS"),
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => Kind::Network("SMB"),
        0x0102_1997 => Kind::Network("9p"),
        0x5346_414f | 0x6b41_4653 => Kind::Network("AFS"),
        0x00c3_6400 => Kind::Network("Ceph"),
        0x0bd0_0bd3 => Kind::Network("Lustre"),
        0x6573_5546 => Kind::Network("FUSE"),
        _ => Kind::Local("a file system of unknown kind"),
    }
}

/// Whether two handles really exclude each other here, and whether somebody sits on a lock.
fn locks(home: &Dir) -> Check {
    const NAME: &str = "locks";
    let local = "set LEAF_HOME to a directory on a local disk";
    sweep(home);
    let probe = format!("{PROBE}{}.tmp", std::process::id());
    let found = probe_lock(home, &probe);
    let _ = home.remove(&probe);
    match found {
        Err(why) => return Check::problem(NAME, why, local),
        Ok(false) => return Check::problem(NAME, "two handles had one exclusive lock at once", local),
        Ok(true) => {}
    }
    let held: Vec<String> = lock_files(home).iter().filter_map(|(name, file)| held(name, file)).collect();
    if held.is_empty() {
        return Check::ok(NAME, "two handles exclude each other, and nobody sits on a lock");
    }
    Check::problem(
        NAME,
        held.join("; "),
        "let the process go on (`kill -CONT PID`) or end it (`kill PID`): its lock is then free",
    )
}

/// How a file is named whose lock is tried, before its maker's pid.
const PROBE: &str = ".probe-";

/// Removes what a doctor left that was killed, or could not remove it.
fn sweep(home: &Dir) {
    for name in home.names().unwrap_or_default() {
        let maker = name.strip_prefix(PROBE).and_then(|rest| rest.strip_suffix(".tmp")?.parse().ok());
        if maker.is_some_and(|pid| Process::of(pid).life() == Life::Dead) {
            let _ = home.remove(&name);
        }
    }
}

fn probe_lock(home: &Dir, name: &str) -> Result<bool, String> {
    let open = || home.make_file(name).map_err(|error| error.to_string());
    let (one, other) = (open()?, open()?);
    lock::exclusive(&one, Deadline::after(PATIENCE)).map_err(|error| error.to_string())?;
    let excluded = !lock::try_exclusive(&other).map_err(|error| error.to_string())?;
    drop(one);
    let freed = lock::try_exclusive(&other).map_err(|error| error.to_string())?;
    Ok(excluded && freed)
}

/// The files whose locks nobody may hold for long: pages' logs and sessions' locks. Lanes are held for hours.
fn lock_files(home: &Dir) -> Vec<(String, File)> {
    let mut files = Vec::new();
    for (above, name) in [("pages", page::LOG), ("sessions", LOCK)] {
        for (id, dir) in subs(home, above) {
            if let Ok(Some(file)) = dir.file(name, OFlags::RDWR) {
                files.push((format!("{above}/{id}/{name}"), file));
            }
        }
    }
    files
}

/// Who holds a lock longer than a run that is well would.
fn held(name: &str, file: &File) -> Option<String> {
    if !matches!(lock::exclusive(file, Deadline::after(PATIENCE)), Err(lock::LockError::Timeout)) {
        return None;
    }
    let holder = file.metadata().ok().and_then(|meta| holder(meta.ino()));
    Some(match holder {
        Some((pid, what)) => format!("{name} is locked by process {pid} ({})", one_line(&what)),
        None => format!("{name} is locked by a process that can't be told"),
    })
}

/// The process that holds the flock of an inode, with its name and state, by Linux's own tables.
fn holder(inode: u64) -> Option<(i32, String)> {
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    table.lines().find_map(|line| {
        // 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF
        let mut fields = line.split_whitespace();
        let kind = fields.nth(1)?;
        let pid: i32 = fields.nth(2)?.parse().ok()?;
        let found = fields.next()?.rsplit(':').next()?.parse() == Ok(inode);
        (kind == "FLOCK" && found && pid > 0).then(|| (pid, process(pid)))
    })
}

fn process(pid: i32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
    match name {
        Some((name, rest)) if rest.trim_start().starts_with('T') => format!("{name}, stopped"),
        Some((name, _)) => name.to_owned(),
        None => "it ended, and one that it started holds on".to_owned(),
    }
}

/// The directories in one of the state's; symlinks and other kinds are `stray`'s to tell.
fn subs(home: &Dir, above: &str) -> Vec<(String, Dir)> {
    let Ok(Some(dir)) = home.sub(above) else { return Vec::new() };
    let names = dir.names().unwrap_or_default();
    names.into_iter().filter_map(|name| Some((name.clone(), dir.sub(&name).ok()??))).collect()
}

fn pages(home: &Dir) -> Vec<(String, Dir)> {
    subs(home, "pages").into_iter().filter(|(name, _)| name.parse::<PageId>().is_ok()).collect()
}

fn sessions(home: &Dir) -> Vec<(String, Dir)> {
    subs(home, "sessions").into_iter().filter(|(name, _)| SessionKey::from_name(name).is_some()).collect()
}

/// Whether every page and session has a record that this leaf can read and write (R127).
fn records(home: &Dir) -> Check {
    const NAME: &str = "records";
    let (mut damaged, mut newer) = (Vec::new(), Vec::new());
    let (pages, sessions) = (pages(home), sessions(home));
    for (id, dir) in &pages {
        judge::<PageRecord>(dir, page::RECORD, &format!("pages/{id}"), &mut damaged, &mut newer);
    }
    for (key, dir) in &sessions {
        judge::<SessionRecord>(dir, session::RECORD, &format!("sessions/{key}"), &mut damaged, &mut newer);
    }
    let (mut parts, mut ways_out) = (Vec::new(), Vec::new());
    if !damaged.is_empty() {
        parts.push(format!("missing or damaged: {}", named(&damaged)));
        ways_out.push("move the directory out of the state directory; a page's log.jsonl in it is still readable text");
    }
    if !newer.is_empty() {
        parts.push(format!("of a newer format, read and never written: {}", named(&newer)));
        ways_out.push("update leaf to the version that wrote them");
    }
    if !parts.is_empty() {
        return Check::problem(NAME, parts.join("; "), ways_out.join("; "));
    }
    Check::ok(NAME, format!("{} and {}, format {FORMAT}", count(pages.len(), "page"), count(sessions.len(), "session")))
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

fn judge<T: for<'de> Deserialize<'de>>(
    dir: &Dir,
    name: &str,
    at: &str,
    damaged: &mut Vec<String>,
    newer: &mut Vec<String>,
) {
    let bytes = match dir.read(name) {
        Ok(Some(bytes)) => bytes,
        Ok(None) | Err(_) => return damaged.push(format!("{at}/{name}")),
    };
    match serde_json::from_slice::<Format>(&bytes) {
        Ok(Format { format }) if format > FORMAT => newer.push(format!("{at}/{name} (format {format})")),
        Ok(_) if serde_json::from_slice::<T>(&bytes).is_ok() => {}
        Ok(_) | Err(_) => damaged.push(format!("{at}/{name}")),
    }
}

/// What a look through the logs found.
#[derive(Default)]
struct Found {
    lines: usize,
    damaged: Vec<String>,
    disorder: Vec<String>,
    torn: Vec<String>,
    caches: Vec<String>,
}

/// Whether logs are whole: damaged lines and torn tails are lost, caches are rebuilt (R127).
fn logs(home: &Dir) -> Check {
    const NAME: &str = "logs";
    let mut found = Found::default();
    for (id, dir) in pages(home) {
        page_log(&dir, &format!("pages/{id}"), &mut found);
        cache(&dir, snapshot::NAME, &format!("pages/{id}"), &mut found);
        if let Ok(Some(deliveries)) = dir.sub(page::DELIVERIES) {
            for name in deliveries.names().unwrap_or_default() {
                whole(&deliveries, &name, &format!("pages/{id}/{}/{name}", page::DELIVERIES), &mut found.damaged);
            }
        }
    }
    for (key, dir) in sessions(home) {
        if dir.read(journal::NAME).is_ok_and(|bytes| bytes.is_none()) {
            found.damaged.push(format!("sessions/{key}/{} is missing", journal::NAME));
        }
        for name in dir.names().unwrap_or_default().iter().filter(|name| is_journal(name)) {
            journal_piece(&dir, name, &format!("sessions/{key}/{name}"), &mut found);
        }
        cache(&dir, journal::STATE, &format!("sessions/{key}"), &mut found);
    }
    let mut parts = Vec::new();
    if !found.damaged.is_empty() {
        parts.push(format!("{} damaged ({})", count(found.damaged.len(), "place"), named(&found.damaged)));
    }
    if !found.disorder.is_empty() {
        parts.push(format!("out of order: {}", named(&found.disorder)));
    }
    let lost = !parts.is_empty();
    if !found.torn.is_empty() {
        parts.push(format!("a torn last line in {}, which the next write closes", named(&found.torn)));
    }
    if !found.caches.is_empty() {
        parts.push(format!("a damaged cache, which the next write replaces: {}", named(&found.caches)));
    }
    match (lost, parts.is_empty()) {
        (true, _) => Check::problem(
            NAME,
            parts.join("; "),
            "each costs that line alone and is passed over; see how the disk fares, and keep a copy before mending one by hand",
        ),
        (false, false) => Check::note(NAME, parts.join("; ")),
        (false, true) => Check::ok(NAME, format!("{} whole", count(found.lines, "line"))),
    }
}

fn page_log(dir: &Dir, at: &str, found: &mut Found) {
    let Ok(Some(bytes)) = dir.read(page::LOG) else {
        found.damaged.push(format!("{at}/{} is missing", page::LOG));
        return;
    };
    let mut last = 0;
    let mut damaged_since = false;
    for (n, piece) in pieces(&bytes).enumerate() {
        match piece {
            Piece::Torn(_) => found.torn.push(format!("{at}/{}", page::LOG)),
            Piece::Line(line) => match parse(line) {
                Some(event) => {
                    found.lines += 1;
                    // A gap is explained by a damaged line alone.
                    if event.seq <= last || (event.seq != last + 1 && !damaged_since) {
                        found.disorder.push(format!(
                            "{at}/{} line {}: seq {} after {last}",
                            page::LOG,
                            n + 1,
                            event.seq
                        ));
                    }
                    last = last.max(event.seq);
                    damaged_since = false;
                }
                None => {
                    damaged_since = true;
                    found.damaged.push(format!("{at}/{} line {}", page::LOG, n + 1));
                }
            },
        }
    }
}

fn journal_piece(dir: &Dir, name: &str, at: &str, found: &mut Found) {
    let Ok(Some(bytes)) = dir.read(name) else { return };
    for (n, piece) in pieces(&bytes).enumerate() {
        match piece {
            Piece::Torn(_) => found.torn.push(at.to_owned()),
            Piece::Line(line) if serde_json::from_slice::<Entry>(line).is_ok() => found.lines += 1,
            Piece::Line(_) => found.damaged.push(format!("{at} line {}", n + 1)),
        }
    }
}

fn cache(dir: &Dir, name: &str, at: &str, found: &mut Found) {
    if let Ok(Some(bytes)) = dir.read(name)
        && crate::cache::from_slice::<serde::de::IgnoredAny>(&bytes).is_none()
    {
        found.caches.push(format!("{at}/{name}"));
    }
}

/// Notes a JSON file that is there and isn't whole.
fn whole(dir: &Dir, name: &str, at: &str, damaged: &mut Vec<String>) {
    if let Ok(Some(bytes)) = dir.read(name)
        && name.ends_with(".json")
        && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_err()
    {
        damaged.push(at.to_owned());
    }
}

fn is_journal(name: &str) -> bool {
    let piece = name.strip_prefix("journal.").and_then(|rest| rest.strip_suffix(".jsonl"));
    name == journal::NAME || piece.is_some_and(|n| n.parse::<u32>().is_ok())
}

/// What may lie at a path of the state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    File,
    Directory,
    /// A writer's, for a moment.
    Temporary,
    No,
}

/// The contract's table of files: a path within the state directory, by its parts.
fn known(parts: &[&str]) -> Known {
    let json = |name: &str| name.strip_suffix(".json").is_some_and(|stem| stem.parse::<DeliveryId>().is_ok());
    let project = |name: &str| {
        name.rsplit_once('.')
            .is_some_and(|(stem, end)| SessionKey::from_name(stem).is_some() && matches!(end, "json" | "lock"))
    };
    match parts {
        [.., name] if name.ends_with(".tmp") => match known_without_tmp(parts) {
            Known::File => Known::Temporary,
            Known::Directory | Known::Temporary | Known::No => Known::No,
        },
        ["pages", name] | ["pages", name, ..] if name.starts_with(".new-") => Known::Temporary,
        ["pages" | "sessions" | "projects"] => Known::Directory,
        [errors::NAME] => Known::File,
        [name] if name.starts_with(PROBE) => Known::File,
        ["pages", page] if page.parse::<PageId>().is_ok() => Known::Directory,
        ["pages", _, page::RECORD | page::LOG | snapshot::NAME | index::NAME] => Known::File,
        ["pages", _, page::DELIVERIES] => Known::Directory,
        ["pages", _, page::DELIVERIES, name] if json(name) => Known::File,
        ["sessions", key] if SessionKey::from_name(key).is_some() => Known::Directory,
        ["sessions", name, ..] if name.starts_with(".gone-") => Known::Temporary,
        ["sessions", _, report::DIRECTORY] => Known::Directory,
        ["sessions", _, report::DIRECTORY, name] if is_report(name) => Known::File,
        ["sessions", _, session::RECORD | journal::STATE | gate::NAME | LOCK] => Known::File,
        ["sessions", _, name] if is_journal(name) => Known::File,
        ["sessions", _, session::LANES] => Known::Directory,
        ["sessions", _, session::LANES, name]
            if [Lane::Watch, Lane::Follower].iter().any(|lane| lane.name() == *name) =>
        {
            Known::File
        }
        ["projects", name] if project(name) => Known::File,
        _ => Known::No,
    }
}

fn is_report(name: &str) -> bool {
    name.strip_suffix(".json").is_some_and(|stem| stem.parse::<TurnId>().is_ok())
}

/// What `leaf prune` would see to: reports that nobody waits for, and sessions that nobody closed.
fn left(home: &Dir) -> Option<Check> {
    const NAME: &str = "schedule's rest";
    let (mut reports, mut stale) = (0, 0);
    for session in session::Session::all(home).unwrap_or_default() {
        let Ok(state) = session.state() else { continue };
        let runs = &state.schedule.runs;
        let needed = |name: &str| {
            let of = |run: &&Run| report::file(run.issue.run) == name;
            runs.iter().find(of).is_some_and(|run| run.over.is_none() || run.report.is_some())
        };
        let names = session.dir.sub(report::DIRECTORY).ok().flatten().and_then(|dir| dir.names().ok());
        reports += names.unwrap_or_default().iter().filter(|name| is_report(name) && !needed(name)).count();
        stale += usize::from(state.schedule.is_open() && !session.record.client_lives());
    }
    let mut parts = Vec::new();
    if reports > 0 {
        parts.push(format!("{} that nobody waits for", count(reports, "report")));
    }
    if stale > 0 {
        parts.push(format!("{} whose client died with nobody to see it", count(stale, "open session")));
    }
    (!parts.is_empty()).then(|| Check::note(NAME, parts.join("; ")).way_out("`leaf prune` sees to them"))
}

fn known_without_tmp(parts: &[&str]) -> Known {
    let Some((name, above)) = parts.split_last() else { return Known::No };
    let mut parts = above.to_vec();
    parts.push(name.strip_suffix(".tmp").unwrap_or(name));
    known(&parts)
}

/// What lies in the state directory and is none of its files: symlinks are refused (R125), the rest is only odd.
fn stray(home: &Dir) -> Check {
    const NAME: &str = "stray files";
    let (mut links, mut strange, mut abandoned) = (Vec::new(), Vec::new(), Vec::new());
    let mut open = vec![Vec::<String>::new()];
    while let Some(parts) = open.pop() {
        let at = parts.iter().fold(home.path().to_path_buf(), |path, part| path.join(part));
        for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let mut parts = parts.clone();
            parts.push(name);
            let shown = one_line(&parts.join("/"));
            let Ok(meta) = entry.path().symlink_metadata() else { continue };
            let kind = known(&parts.iter().map(String::as_str).collect::<Vec<_>>());
            match kind {
                _ if meta.is_symlink() => links.push(shown),
                Known::File if meta.is_file() => {}
                Known::Directory if meta.is_dir() => open.push(parts),
                Known::Temporary if old(&meta) => abandoned.push(shown),
                Known::Temporary => {}
                Known::File | Known::Directory | Known::No => strange.push(shown),
            }
        }
    }
    for found in [&mut links, &mut strange, &mut abandoned] {
        found.sort();
    }
    if !links.is_empty() {
        return Check::problem(
            NAME,
            format!("symlinks, which leaf refuses to follow: {}", named(&links)),
            "remove them",
        );
    }
    let mut parts = Vec::new();
    if !strange.is_empty() {
        parts.push(format!("not leaf's: {}", named(&strange)));
    }
    if !abandoned.is_empty() {
        parts.push(format!("left by a writer that was killed: {}", named(&abandoned)));
    }
    if parts.is_empty() {
        return Check::ok(NAME, "none");
    }
    Check::note(NAME, parts.join("; ")).way_out("they do no harm and may be removed")
}

fn old(meta: &std::fs::Metadata) -> bool {
    let changed = meta.modified().ok().and_then(|t| SystemTime::now().duration_since(t).ok());
    changed.is_some_and(|age| age >= ABANDONED)
}

/// What hooks kept silent about.
fn kept_silent(home: &Dir) -> Check {
    const NAME: &str = errors::NAME;
    let bytes = match home.read(errors::NAME) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Check::ok(NAME, "empty"),
        Err(error) => return Check::problem(NAME, error.to_string(), "remove it"),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return Check::ok(NAME, "empty");
    }
    let last: Vec<String> = lines.iter().rev().take(NAMED).rev().map(|line| cut(&one_line(line))).collect();
    Check::note(NAME, format!("{}, the last: {}", count(lines.len(), "line"), last.join(" | ")))
        .way_out(format!("remove {} once read", home.path().join(errors::NAME).display()))
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn named(places: &[String]) -> String {
    let shown = places[..places.len().min(NAMED)].join(", ");
    match places.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contracts_files_are_known_and_others_are_not() {
        let key = "0123456789abcdef0123456789abcdef";
        let at = |path: &str| known(&path.replace("KEY", key).split('/').collect::<Vec<_>>());
        for path in [
            "errors.log",
            "pages/my-page/page.json",
            "pages/my-page/log.jsonl",
            "pages/my-page/view.json",
            "pages/my-page/view.index",
            "pages/p/deliveries/01234567.json",
            "sessions/KEY/session.json",
            "sessions/KEY/journal.jsonl",
            "sessions/KEY/journal.12.jsonl",
            "sessions/KEY/state.json",
            "sessions/KEY/gate",
            "sessions/KEY/lanes/watch",
            "sessions/KEY/lanes/follower",
            "sessions/KEY/lock",
            "projects/KEY.json",
        ] {
            assert_eq!(at(path), Known::File, "{path}");
        }
        for path in
            ["pages", "pages/p", "pages/p/deliveries", "sessions", "sessions/KEY", "sessions/KEY/lanes", "projects"]
        {
            assert_eq!(at(path), Known::Directory, "{path}");
        }
        for path in ["pages/p/view.json.tmp", "sessions/KEY/session.json.tmp", "pages/.new-0123456789abcdef"] {
            assert_eq!(at(path), Known::Temporary, "{path}");
        }
        for path in [
            "x",
            "x.tmp",
            "pages/UPPER",
            "pages/p/deliveries/x.json",
            "sessions/../x",
            "sessions/KEY/journal.x.jsonl",
            "projects/x.json",
        ] {
            assert_eq!(at(path), Known::No, "{path}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_holder_is_found_by_the_locked_inode() {
        let file = tempfile::tempfile().expect("a file");
        lock::exclusive(&file, Deadline::after(PATIENCE)).expect("locked");
        let inode = file.metadata().expect("metadata").ino();
        let (pid, _) = holder(inode).expect("a holder");
        assert_eq!(u32::try_from(pid), Ok(std::process::id()));
    }
}
