//! How a waiting process sleeps: until a file changes, a process ends, nobody reads its output any more, or an instant comes; a slow
//! stat poll lies beneath (R88).

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, Ts};
use crate::page::LOG;
use crate::place::Dir;
use crate::session::lane::Lane;
use crate::session::liveness::{Life, Process};
use crate::session::{LANES, Session};

/// The stat poll beneath the file notifications.
pub const POLL: Duration = Duration::from_secs(1);

/// The files that a waiting process of a session depends on, with their sizes and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(Vec<Option<(u64, Option<SystemTime>)>>);

impl Signature {
    /// Looks at the files.
    pub fn of(home: &Dir, session: &Session) -> Signature {
        let own = session.dir.path();
        let pages = home.path().join("pages");
        let lanes = own.join(LANES);
        let mut files = vec![
            own.join(crate::session::journal::NAME),
            own.join(crate::session::RECORD),
            lanes.join(Lane::Watch.name()),
            lanes.join(Lane::Follower.name()),
        ];
        for page in &session.record.pages {
            files.push(pages.join(page.as_str()).join(LOG));
            files.push(pages.join(page.as_str()).join(crate::page::RECORD));
        }
        Signature(
            files
                .iter()
                .map(|file| std::fs::symlink_metadata(file).ok().map(|meta| (meta.len(), meta.modified().ok())))
                .collect(),
        )
    }
}

/// The directories in which those files lie, and that of a clock that is a file.
fn directories(home: &Dir, session: &Session, clock: &Clock) -> Vec<PathBuf> {
    let pages = home.path().join("pages");
    let mut paths = vec![session.dir.path().to_path_buf(), session.dir.path().join(LANES)];
    paths.extend(session.record.pages.iter().map(|page| pages.join(page.as_str())));
    if let Clock::File(file) = clock {
        paths.extend(file.parent().map(ToOwned::to_owned));
    }
    paths
}

/// What a sleep ends for.
#[derive(Debug, Default)]
pub struct Until<'a> {
    /// The instant at which time alone changes something.
    pub instant: Option<Ts>,
    /// At most this long, where something of this process's own is due.
    pub within: Option<Duration>,
    /// The processes whose end is waited for.
    pub processes: Vec<&'a Process>,
    /// Whether the reader of standard output is waited for to leave.
    pub reader: bool,
}

/// Sleeps until something changes. What changes between two sleeps ends the next at once.
#[derive(Debug)]
pub struct Sleeper {
    ears: ears::Ears,
    clock: Clock,
}

impl Sleeper {
    /// Returns a sleeper that hears nothing yet.
    pub fn new(clock: &Clock) -> Sleeper {
        Sleeper { ears: ears::Ears::new(), clock: clock.clone() }
    }

    /// Listens where the session's files lie, from now on: call it before they are read.
    pub fn listen(&mut self, home: &Dir, session: &Session) {
        for directory in directories(home, session, &self.clock) {
            self.ears.listen(&directory);
        }
    }

    /// Sleeps until the session's files are no longer as `seen`, or for what `until` says.
    pub fn sleep(&mut self, home: &Dir, session: &Session, seen: &Signature, until: &Until<'_>) {
        let began = std::time::Instant::now();
        loop {
            let mut most = POLL;
            if let Some(within) = until.within {
                let Some(left) = within.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) else { return };
                most = most.min(left);
            }
            if let Some(instant) = until.instant {
                let left = instant.0 - self.clock.now().0;
                let Ok(left) = u64::try_from(left) else { return };
                if left == 0 {
                    return;
                }
                most = most.min(Duration::from_millis(left));
            }
            if self.ears.hear(most, until) || until.processes.iter().any(|process| process.life() == Life::Dead) {
                return;
            }
            // A file system may tell of no change, and a clock may have been moved.
            if Signature::of(home, session) != *seen || (until.reader && !crate::cli::output::is_read()) {
                return;
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod ears {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::Until;

    /// File notifications, and the ends of processes.
    #[derive(Debug)]
    pub struct Ears(Option<OwnedFd>);

    impl Ears {
        pub fn new() -> Ears {
            Ears(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok())
        }

        pub fn listen(&mut self, directory: &Path) {
            if let Some(fd) = &self.0 {
                let flags = WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
                let _ = inotify::add_watch(fd, directory, flags);
            }
        }

        /// Waits; tells whether something was heard.
        pub fn hear(&mut self, at_most: Duration, until: &Until<'_>) -> bool {
            let stdout = std::io::stdout();
            let open = |pid: i32| pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok();
            let processes: Vec<OwnedFd> = until.processes.iter().filter_map(|process| open(process.pid)).collect();
            let mut fds: Vec<PollFd<'_>> = processes.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
            fds.extend(self.0.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
            if until.reader {
                // An error of a pipe is told unasked: nobody reads it.
                fds.push(PollFd::new(&stdout, PollFlags::empty()));
            }
            let timeout =
                Timespec { tv_sec: at_most.as_secs().try_into().unwrap_or(1), tv_nsec: at_most.subsec_nanos().into() };
            let heard = poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0);
            if let Some(fd) = &self.0 {
                let mut events = [const { MaybeUninit::uninit() }; 4096];
                let mut reader = inotify::Reader::new(fd, &mut events);
                while reader.next().is_ok() {}
            }
            heard
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod ears {
    use std::path::Path;
    use std::time::Duration;

    use super::Until;

    /// How often the files are looked at where nothing tells of changes.
    const LOOK: Duration = Duration::from_millis(100);

    /// None: the stat poll does it all.
    #[derive(Debug)]
    pub struct Ears;

    impl Ears {
        pub fn new() -> Ears {
            Ears
        }

        pub fn listen(&mut self, _: &Path) {}

        pub fn hear(&mut self, at_most: Duration, _: &Until<'_>) -> bool {
            std::thread::sleep(at_most.min(LOOK));
            false
        }
    }
}
