//! What a run asks of the system: its calls and bytes as `strace` saw them, its page faults and memory as GNU `time` did.

use std::fs;
use std::process::{Command, Stdio};

use crate::{Row, head, line, on_path};

/// What `strace` saw of a run, with all the processes that it started.
pub struct Calls {
    pub calls: usize,
    /// `fsync` and `fdatasync`.
    pub syncs: usize,
    /// Bytes.
    pub read: usize,
    /// Bytes.
    pub written: usize,
}

/// Prints a line a row.
pub fn table(base: &Row, rows: &[Row]) {
    println!(
        "\nWhat each run asks of the system: calls from execve to exit, bytes through read and write, the pipes' too"
    );
    let (strace, time) = (on_path("strace").is_some(), on_path("time").is_some());
    if !strace {
        println!("system calls and bytes: left out, strace is not on PATH");
    }
    if !time {
        println!("page faults and memory: left out, GNU time is not on PATH");
    }
    head("", &["calls", "syncs", "read B", "written B", "faults", "peak KiB"]);
    for row in std::iter::once(base).chain(rows) {
        let seen = of(row).map(|seen| [seen.calls, seen.syncs, seen.read, seen.written]);
        let mut cells: Vec<String> = seen.map_or(vec!["?".into(); 4], |seen| seen.map(|n| n.to_string()).into());
        cells.extend(memory(row).unwrap_or(["?".into(), "?".into()]));
        line(&row.name, &cells);
    }
}

/// Runs a row once under `strace`; `None` where there is none or it may not trace.
pub fn of(row: &Row) -> Option<Calls> {
    let traced = under(row, "strace", &["-f", "-qq", "-s", "0", "-o"])?;
    let mut seen = Calls { calls: 0, syncs: 0, read: 0, written: 0 };
    for call in traced.lines() {
        // "PID name(arguments) = result"; a call that another process interrupted is told in two lines.
        let Some((_, call)) = call.split_once(' ') else { continue };
        let call = call.trim_start();
        let resumed = call.strip_prefix("<... ");
        if call.starts_with(['+', '-']) {
            continue;
        }
        let name: String =
            resumed.unwrap_or(call).chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        if resumed.is_none() {
            seen.calls += 1;
            seen.syncs += usize::from(matches!(name.as_str(), "fsync" | "fdatasync"));
        }
        let result =
            call.rsplit_once(" = ").and_then(|(_, result)| result.split(' ').next()?.parse().ok()).unwrap_or(0);
        match name.as_str() {
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => seen.read += result,
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => seen.written += result,
            _ => {}
        }
    }
    (seen.calls > 0).then_some(seen)
}

/// The minor page faults of a run, and its peak resident memory in KiB.
fn memory(row: &Row) -> Option<[String; 2]> {
    let told = under(row, "time", &["-q", "-f", "%R %M", "-o"])?;
    let (faults, peak) = told.trim().split_once(' ')?;
    Some([faults.to_owned(), peak.to_owned()])
}

/// Runs a row once under a tool that writes what it saw to a file: what it wrote.
fn under(row: &Row, tool: &str, options: &[&str]) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("seen");
    row.warm();
    row.prepare();
    let mut command = Command::new(on_path(tool)?);
    command.args(options).arg(&file).arg(&row.spec.program).args(&row.spec.args).env_clear().envs(&row.spec.env);
    let (input, mut writer) = std::io::pipe().unwrap();
    // What a row of these tables gets fits into a pipe.
    std::io::Write::write_all(&mut writer, &row.spec.input).unwrap();
    drop(writer);
    let output = command.stdin(input).stderr(Stdio::null()).output();
    let changed = row.scene.restore();
    let output = output.ok().filter(|output| output.status.success())?;
    assert_eq!(row.wrong(&output.stdout, changed), None, "under {tool}");
    fs::read_to_string(file).ok()
}
