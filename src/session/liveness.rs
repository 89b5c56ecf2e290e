//! Who lives, and who runs below whom. Nobody trusts a pid without its start token.

#[cfg(target_os = "linux")]
use std::io::Read;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// A process: its pid, and a token of its start, so that a reused pid is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process id.
    pub pid: i32,
    /// What the system tells of its start; `None` where it tells nothing.
    pub start: Option<String>,
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Alive,
    /// It ended, or its pid belongs to another.
    Dead,
    /// The system doesn't tell.
    Unknown,
}

impl Process {
    /// Returns the process of a pid as it is now.
    pub fn of(pid: i32) -> Process {
        Process { pid, start: stat(pid).map(|stat| stat.start) }
    }

    /// Returns this process.
    pub fn own() -> Process {
        Process::of(rustix::process::getpid().as_raw_nonzero().get())
    }

    /// Tells whether the process lives.
    pub fn life(&self) -> Life {
        match (&self.start, stat(self.pid)) {
            (Some(start), Some(now)) if *start == now.start && !now.zombie => Life::Alive,
            (Some(_), Some(_)) => Life::Dead,
            (None, Some(now)) => {
                if now.zombie {
                    Life::Dead
                } else {
                    Life::Unknown
                }
            }
            (_, None) => match Pid::from_raw(self.pid).map(rustix::process::test_kill_process) {
                Some(Ok(()) | Err(rustix::io::Errno::PERM)) => Life::Unknown,
                _ => Life::Dead,
            },
        }
    }
}

struct Stat {
    parent: i32,
    start: String,
    zombie: bool,
}

/// Reads what Linux tells of a process: `/proc/PID/stat`, whose name field may hold blanks and parentheses.
#[cfg(target_os = "linux")]
fn stat(pid: i32) -> Option<Stat> {
    // One read gives it whole: about 50 numbers and a short name.
    let mut line = [0; 2048];
    let length = std::fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut line)).ok()?;
    let text = String::from_utf8_lossy(&line[..length]);
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    Some(Stat {
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        // Clock ticks since boot: two processes of one pid never share it.
        start: (*fields.get(19)?).to_owned(),
    })
}

/// Asks `ps`, the one portable way without unsafe code; by its place, so that no PATH names another.
#[cfg(not(target_os = "linux"))]
fn stat(pid: i32) -> Option<Stat> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "ppid=,state=,lstart=", "-p", &pid.to_string()])
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut fields = text.split_whitespace();
    let parent = fields.next()?.parse().ok()?;
    let zombie = fields.next()?.starts_with('Z');
    Some(Stat { parent, zombie, start: fields.collect::<Vec<_>>().join(" ") })
}

/// Returns the processes above this one, the nearest first; `None` where they can't be read (R71).
pub fn ancestors() -> Option<Vec<i32>> {
    let mut chain = Vec::new();
    let mut pid = stat(rustix::process::getpid().as_raw_nonzero().get())?.parent;
    while pid > 0 && chain.len() < 256 {
        chain.push(pid);
        match stat(pid) {
            Some(stat) => pid = stat.parent,
            None => break,
        }
    }
    Some(chain)
}
