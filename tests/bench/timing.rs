//! What the benches share: how often, how a list of times is told, and one process from its start to its end.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What a pipe holds before anybody reads, bytes; a longer input is written while the process runs.
const PIPE: usize = 64 * 1024;

/// Returns the number among the command line's arguments, else `default`.
pub fn runs(default: usize) -> usize {
    std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(default)
}

/// Returns the time, in ms, that so many percent of the runs kept to. It sorts the times.
pub fn at(times: &mut [Duration], percent: usize) -> f64 {
    times.sort();
    times[((times.len() * percent).div_ceil(100)).max(1) - 1].as_secs_f64() * 1000.0
}

/// Runs a process with this input through a pipe, as a client runs a hook, and reads what it prints: how long that took to its end,
/// and what it printed, unless that `discards` it. All of the input lies in the pipe before the clock starts, where it fits.
pub fn timed(mut command: Command, input: &[u8], discards: bool) -> (Duration, Vec<u8>) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let (mut out, into) = std::io::pipe().unwrap();
    let stdout = if discards {
        drop(into);
        Stdio::null()
    } else {
        into.into()
    };
    command.stdin(reader).stdout(stdout).stderr(Stdio::null());
    let fits = input.len() < PIPE;
    if fits {
        writer.write_all(input).unwrap();
    }
    let mut printed = Vec::new();
    thread::scope(|scope| {
        let since = if fits {
            drop(writer);
            Instant::now()
        } else {
            let since = Instant::now();
            // One that doesn't read to the end is no failure of the bench's.
            scope.spawn(move || drop(writer.write_all(input)));
            since
        };
        let mut child = command.spawn().unwrap();
        // Its ends of the pipes.
        drop(command);
        out.read_to_end(&mut printed).unwrap();
        child.wait().unwrap();
        (since.elapsed(), printed)
    })
}
