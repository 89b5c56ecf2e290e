//! What leaf's hooks cost, by the client's own transcripts of this project.
//!
//! The client writes a hook's time where it printed something, failed or timed out (rows `attachment`), and for every hook of a
//! Stop (`stop_hook_summary`). A hook that passed in silence elsewhere leaves no row.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Check, Patient};
use crate::cli::install::client::config_dir;

/// How many transcripts are read, the newest first.
const TRANSCRIPTS: usize = 5;
/// How much of each, bytes from its end.
const TAIL: u64 = 8 * 1024 * 1024;
/// The end of our hook's command as the client writes it down.
const OURS: &str = "/bin/leaf hook";
/// From here on a person feels it, ms.
const SLOW: u64 = 1000;

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    attachment: Option<Attachment>,
    #[serde(default, rename = "hookInfos")]
    infos: Vec<Info>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attachment {
    #[serde(default)]
    hook_event: String,
    #[serde(default)]
    command: String,
    duration_ms: Option<u64>,
    #[serde(default)]
    timed_out: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    #[serde(default)]
    command: String,
    duration_ms: Option<u64>,
}

/// The times of one event's hooks, ms.
#[derive(Debug, Default, PartialEq, Eq)]
struct Times {
    ms: Vec<u64>,
    timed_out: usize,
}

/// What leaf's hooks cost.
pub fn check(patient: &Patient) -> Check {
    const NAME: &str = "cost";
    let mut events = BTreeMap::new();
    let files = transcripts(patient);
    let read = files.len();
    for file in files {
        // A transcript that can't be read has nothing to tell; the client owns it.
        let _ = gather(&file, &mut events);
    }
    if events.is_empty() {
        return Check::ok(NAME, "the client's transcripts of this project have no row of a leaf hook");
    }
    let mut parts = Vec::new();
    let (mut slow, mut late) = (false, 0);
    for (event, times) in &mut events {
        times.ms.sort_unstable();
        if let (Some(most), Some(median)) = (times.ms.last(), times.ms.get(times.ms.len() / 2)) {
            slow |= *most >= SLOW;
            parts.push(format!("{event} {} x, median {median} ms, most {most} ms", times.ms.len()));
        }
        late += times.timed_out;
    }
    let mut detail =
        format!("by the client's own count in {}: {}", crate::text::count(read, "transcript"), parts.join("; "));
    if late > 0 {
        detail.push_str(&format!("; {late} ran into the time limit"));
    }
    detail.push_str(" (only hooks that printed something, and those of a Stop, leave a time)");
    if slow || late > 0 {
        Check::note(NAME, detail).way_out("see `locks` and `file system` above: a hook waits for nothing else")
    } else {
        Check::ok(NAME, detail)
    }
}

/// The newest transcripts of the sessions in this directory.
fn transcripts(patient: &Patient) -> Vec<PathBuf> {
    let Ok(config) = config_dir(patient.env) else { return Vec::new() };
    let name = project_name(&patient.cwd.to_string_lossy());
    let mut found = Vec::new();
    for dir in std::fs::read_dir(config.join("projects")).into_iter().flatten().flatten() {
        if !names(&dir.file_name().to_string_lossy(), &name) {
            continue;
        }
        for file in std::fs::read_dir(dir.path()).into_iter().flatten().flatten() {
            let path = file.path();
            if path.extension().is_some_and(|e| e == "jsonl")
                && let Ok(meta) = file.metadata()
                && let Ok(changed) = meta.modified()
            {
                found.push((changed, path));
            }
        }
    }
    found.sort();
    found.into_iter().rev().take(TRANSCRIPTS).map(|(_, path)| path).collect()
}

/// A directory's name among the client's projects: every UTF-16 unit but letters and digits of ASCII is a hyphen.
fn project_name(cwd: &str) -> String {
    cwd.encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect()
}

/// The client cuts a long name at 200 and adds a hash of its own.
fn names(dir: &str, project: &str) -> bool {
    match project.get(..200) {
        Some(start) if project.len() > 200 => dir.strip_prefix(start).is_some_and(|rest| rest.starts_with('-')),
        _ => dir == project,
    }
}

fn gather(file: &Path, events: &mut BTreeMap<String, Times>) -> std::io::Result<()> {
    let mut file = File::open(file)?;
    let start = file.metadata()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(start))?;
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    if start > 0 {
        lines.read_until(b'\n', &mut line)?;
    }
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if let Ok(text) = std::str::from_utf8(&line)
            && text.contains(OURS)
            && text.contains("durationMs")
            && let Ok(row) = serde_json::from_str::<Row>(text)
        {
            count(row, events);
        }
    }
}

fn count(row: Row, events: &mut BTreeMap<String, Times>) {
    for info in row.infos.iter().filter(|info| info.command.ends_with(OURS)) {
        if let Some(ms) = info.duration_ms {
            events.entry("Stop".to_owned()).or_default().ms.push(ms);
        }
    }
    if let Some(attachment) = row.attachment
        && attachment.command.ends_with(OURS)
        && let Some(ms) = attachment.duration_ms
    {
        let times = events.entry(attachment.hook_event.clone()).or_default();
        // A Stop's are in its summary already.
        if attachment.hook_event != "Stop" {
            times.ms.push(ms);
        }
        times.timed_out += usize::from(attachment.timed_out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_named_as_the_client_names_it() {
        assert_eq!(project_name("/tmp/proj/a.b_c d-é"), "-tmp-proj-a-b-c-d--");
        let long = format!("/tmp/{}", "x".repeat(300));
        let name = project_name(&long);
        assert!(names(&format!("{}-sm394d", &name[..200]), &name));
        assert!(!names(&name[..200], &name));
        assert!(names("-tmp-a", "-tmp-a"));
        assert!(!names("-tmp-a-b", "-tmp-a"));
    }

    #[test]
    fn only_leafs_own_rows_count_and_a_stop_once() {
        // Rows as the client wrote them, cut to the fields that are read.
        let rows = [
            r#"{"type":"attachment","attachment":{"type":"hook_success","hookName":"PreToolUse:Bash","hookEvent":"PreToolUse","exitCode":0,"command":"${CLAUDE_PLUGIN_ROOT}/bin/leaf hook","durationMs":19}}"#,
            r#"{"type":"attachment","attachment":{"type":"hook_cancelled","hookName":"UserPromptSubmit","hookEvent":"UserPromptSubmit","command":"${CLAUDE_PLUGIN_ROOT}/bin/leaf hook","durationMs":1042,"timedOut":true,"timeoutMs":1000}}"#,
            r#"{"type":"attachment","attachment":{"type":"hook_success","hookName":"Stop","hookEvent":"Stop","exitCode":0,"command":"${CLAUDE_PLUGIN_ROOT}/bin/leaf hook","durationMs":14}}"#,
            r#"{"type":"system","subtype":"stop_hook_summary","hookCount":2,"hookInfos":[{"command":"${CLAUDE_PLUGIN_ROOT}/bin/leaf hook","durationMs":14},{"command":"${CLAUDE_PLUGIN_ROOT}/bin/leaf watch","durationMs":11}]}"#,
            r#"{"type":"attachment","attachment":{"type":"hook_success","hookEvent":"PreToolUse","command":"other hook","durationMs":7}}"#,
        ];
        let mut events = BTreeMap::new();
        for row in rows {
            count(serde_json::from_str(row).expect("a row"), &mut events);
        }
        let expected = [
            ("PreToolUse".to_owned(), Times { ms: vec![19], timed_out: 0 }),
            ("Stop".to_owned(), Times { ms: vec![14], timed_out: 0 }),
            ("UserPromptSubmit".to_owned(), Times { ms: vec![1042], timed_out: 1 }),
        ];
        assert_eq!(events, BTreeMap::from(expected));
    }
}
