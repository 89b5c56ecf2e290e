//! What scheduled forks cost: selection over 1,000 fork files, a session's end with 100 forks due at its close, and the prompt hook;
//! whole processes, interleaved, as medians and as multiples of `true` in the same run. Where the peer `autofork` is on PATH, it does
//! the same beside it.
//!
//! `cargo bench --bench schedule [RUNS]`. It judges nothing.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "timing.rs"]
mod timing;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

const LEAF: &str = env!("CARGO_BIN_EXE_leaf");

/// What is measured, and how it is done the n-th time.
type Row<'a> = (&'a str, Box<dyn FnMut(usize) -> Duration + 'a>);

fn main() {
    let runs = timing::runs(40);
    let peer = Command::new("autofork").arg("--version").stdout(Stdio::null()).status().is_ok();
    let few = Place::new(0);
    let many = Place::new(1000);
    let closing = Place::new(100);
    for (place, flush) in [(&few, false), (&many, false), (&closing, true)] {
        place.write("home/.config/leaf/config.toml", &format!("schedule.flush_on_close = {flush}\n"));
        place.begin("s");
    }
    let mut rows: Vec<Row<'_>> = vec![
        ("true", Box::new(|_| timed(few.command("true", &[]), ""))),
        ("leaf forks, 1,000 files", Box::new(|_| timed(many.leaf(&["forks", "--json"]), ""))),
        ("leaf schedule, 1,000 files", Box::new(|_| timed(many.leaf(&["schedule", "s", "--json"]), ""))),
        ("leaf schedule, no file", Box::new(|_| timed(few.leaf(&["schedule", "s", "--json"]), ""))),
        ("prompt hook, no file", Box::new(|_| few.hook("s", "UserPromptSubmit", json!({"prompt": "go on"})))),
        ("prompt hook, 1,000 files", Box::new(|_| many.hook("s", "UserPromptSubmit", json!({"prompt": "go on"})))),
        (
            "SessionEnd, nothing due",
            Box::new(|n| {
                few.begin(&format!("e{n}"));
                few.hook(&format!("e{n}"), "SessionEnd", json!({"reason": "other"}))
            }),
        ),
        (
            "SessionEnd, 100 due at close",
            Box::new(|n| {
                let session = format!("c{n}");
                closing.begin(&session);
                let took = closing.hook(&session, "SessionEnd", json!({"reason": "other"}));
                closing.stop_runs(&session);
                took
            }),
        ),
    ];
    if peer {
        rows.push(("autofork forks, 1,000 files", Box::new(|_| timed(many.command("autofork", &["forks"]), ""))));
        for (name, place, verb, event, more) in [
            (
                "autofork prompt hook, 1,000",
                &many,
                "user-prompt-submit",
                "UserPromptSubmit",
                json!({"prompt": "go on"}),
            ),
            ("autofork SessionEnd, 100 due", &closing, "session-end", "SessionEnd", json!({"reason": "other"})),
        ] {
            rows.push((
                name,
                Box::new(move |n| {
                    let payload = place.payload(&format!("p{n}"), event, more.clone());
                    timed(place.command("autofork", &["hook", verb]), &payload)
                }),
            ));
        }
    }
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); rows.len()];
    for n in 0..=runs {
        for (row, times) in rows.iter_mut().zip(&mut times) {
            let took = row.1(n);
            // The first warms the caches.
            if n > 0 {
                times.push(took);
            }
        }
    }
    println!("{runs} runs each, interleaved; ms, and multiples of `true`");
    println!("{:<32}{:>9}{:>9}{:>9}{:>9}", "", "p50", "p90", "most", "x true");
    let base = timing::at(&mut times[0], 50);
    for ((name, _), times) in rows.iter().zip(&mut times) {
        let [half, nine, most] = [50, 90, 100].map(|percent| timing::at(times, percent));
        println!("{name:<32}{half:>9.2}{nine:>9.2}{most:>9.2}{:>9.1}", half / base);
    }
    if !peer {
        println!("autofork is not on PATH (cargo install autofork autofork-daemon): it is left out");
    }
}

/// A home and a project of its own, with so many of the user's own idle forks.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new(forks: usize) -> Place {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.path("project")).unwrap();
        // Nothing of a run is timed: it ends at once.
        place.write("bin/claude", "#!/bin/sh\necho '{\"type\":\"result\",\"result\":\"done\"}'\n");
        Command::new("chmod").arg("+x").arg(place.path("bin/claude")).status().unwrap();
        for n in 0..forks {
            let file = format!("home/.autofork/forks/part{}/fork{n}.md", n % 10);
            place.write(
                &file,
                &format!("---\nfork: true\ndescription: number {n}\nrun_on:\n  - idle: 15m\nthrottle: 30m\ntags: [t{n}]\n---\nDo it.\n"),
            );
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn command(&self, program: impl AsRef<Path>, args: &[&str]) -> Command {
        let mut command = Command::new(program.as_ref());
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        command
            .args(args)
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path("home"))
            .current_dir(self.path("project"));
        command.env("CLAUDE_PID", std::process::id().to_string()).env("CLAUDE_CODE_SESSION_ATTENDED", "1");
        command
    }

    fn leaf(&self, args: &[&str]) -> Command {
        self.command(LEAF, args)
    }

    fn payload(&self, session: &str, event: &str, more: Value) -> String {
        let mut payload = json!({
            "session_id": session,
            "transcript_path": self.path("transcript.jsonl"),
            "cwd": self.path("project"),
            "hook_event_name": event,
        });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        payload.to_string()
    }

    fn hook(&self, session: &str, event: &str, more: Value) -> Duration {
        let payload = self.payload(session, event, more);
        timed(self.leaf(&["hook"]), &payload)
    }

    /// A session that the person used, and that is idle.
    fn begin(&self, session: &str) {
        self.hook(session, "SessionStart", json!({"source": "startup"}));
        self.hook(session, "UserPromptSubmit", json!({"prompt": "hello"}));
        self.hook(session, "Stop", json!({"stop_hook_active": false, "background_tasks": []}));
    }

    /// Ends what a close started: it would load the machine while others are timed.
    fn stop_runs(&self, session: &str) {
        let pattern = format!("runner --session={session} ");
        let _ = Command::new("pkill").args(["-TERM", "-f", &pattern]).status();
        while Command::new("pgrep")
            .args(["-f", &pattern])
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|found| found.success())
        {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs a process with this input: how long it took.
fn timed(command: Command, input: &str) -> Duration {
    timing::timed(command, input.as_bytes(), false).0
}
