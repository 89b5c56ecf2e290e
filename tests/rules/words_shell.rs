//! R67, R69: generated command lines, held against what shells really do. What the rule lets pass runs no `leaf`; what it marks
//! runs it once, with the mark. What it denies though no `leaf` would have run, or would have run once and plainly, is counted.
//!
//! The grammar of the lines, and what it leaves out, is told in `words_shell/lines.rs`. More of them by hand:
//! `LEAF_LINES=100000 LEAF_SEED=1 cargo test --test rules words_shell -- --nocapture`; `LEAF_LINES=1` tells the line.

mod lines;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leaf_threads::rules::words::{Reason, Shell, Verdict, judge, may_name_leaf};

use super::words_corpus::{Place, has};

/// Lines that the suite plays, as far as they fit in `BUDGET` on a busy machine, but `FEWEST` at any rate.
const LINES: u64 = 2_000;
const FEWEST: u64 = 200;
const BUDGET: Duration = Duration::from_secs(16);

/// Denied lines of each kind that are shown, the shortest.
const SHOWN: usize = 12;

#[derive(Default)]
struct Tally {
    passed: u32,
    marked: u32,
    /// Of those, how many a shell couldn't read, or began with something that failed.
    ran_none: u32,
    killed: u32,
    denied: BTreeMap<String, Denied>,
}

/// What lines denied for one reason would have done.
#[derive(Default)]
struct Denied {
    rightly: u32,
    once: Shortest,
    never: Shortest,
    /// Of those that never run it, how many bash can't read: a real parser would know it.
    unreadable: u32,
}

#[derive(Default)]
struct Shortest {
    count: u32,
    lines: Vec<String>,
}

impl Shortest {
    fn add(&mut self, line: &str) {
        self.count += 1;
        self.lines.push(line.to_owned());
        self.lines.sort_by_key(String::len);
        self.lines.truncate(SHOWN);
    }
}

#[test]
fn r069_no_generated_line_runs_leaf_unseen_and_each_mark_runs_it_once() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (count, first) = (number("LEAF_LINES", LINES), number("LEAF_SEED", 1));
    let by_hand = std::env::var_os("LEAF_LINES").is_some();
    assert!(has("bash"), "the lines are held against a real bash");
    let shells: Vec<&str> = ["bash", "dash"].into_iter().filter(|s| has(s)).collect();
    let began = Instant::now();
    let (next, played) = (AtomicU64::new(0), AtomicU64::new(0));
    let (tally, wrong) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let place = Place::harmless();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count || !by_hand && n >= FEWEST && began.elapsed() > BUDGET {
                        break;
                    }
                    if played.fetch_add(1, Ordering::Relaxed) % 10_000 == 9_999 {
                        println!("{} lines in {:?}", n + 1, began.elapsed());
                    }
                    let line = lines::line(first + n);
                    if count == 1 {
                        println!("{line}\n{:?}", judge(&line, Shell::Posix));
                    }
                    if let Err(what) = play(&place, &shells, &line, &tally) {
                        let what = format!("LEAF_SEED={}: {what}\n{line}\n", first + n);
                        // A long run is read while it goes on.
                        println!("{what}");
                        wrong.lock().expect("the list").push(what);
                    }
                }
            });
        }
    });
    let (tally, wrong) = (tally.into_inner().expect("the tally"), wrong.into_inner().expect("the list"));
    let played = played.into_inner();
    println!("{played} lines from seed {first} under {shells:?} in {:?}:\n{}", began.elapsed(), told(&tally));
    assert!(wrong.is_empty(), "{} lines are read wrongly, each told above", wrong.len());
    if played >= FEWEST {
        let denied: u32 = tally.denied.values().map(|d| d.rightly).sum();
        for (what, n) in [("passed", tally.passed), ("marked", tally.marked), ("denied rightly", denied)] {
            assert!(u64::from(n) * 20 > played, "{what}: {n}");
        }
    }
}

fn play(place: &Place, shells: &[&str], line: &str, tally: &Mutex<Tally>) -> Result<(), String> {
    let verdict = judge(line, Shell::Posix);
    let counted = |count: &dyn Fn(&mut Tally)| count(&mut tally.lock().expect("the tally"));
    match verdict {
        Verdict::Denied(reason) => {
            let Some(runs) = place.ran("bash", line) else {
                counted(&|t| t.killed += 1);
                return Ok(());
            };
            let read = Command::new("bash").args(["-n", "-c", line]).stderr(Stdio::null()).status();
            let unreadable = runs.is_empty() && !read.is_ok_and(|status| status.success());
            counted(&|t| {
                let denied = t.denied.entry(format!("{reason:?}")).or_default();
                denied.unreadable += u32::from(unreadable);
                match runs.len() {
                    0 => denied.never.add(line),
                    1 if reason == Reason::NotLeading => denied.once.add(line),
                    _ => denied.rightly += 1,
                }
            });
        }
        Verdict::Passes => {
            counted(&|t| t.passed += 1);
            for shell in shells {
                match place.ran(shell, line) {
                    None => counted(&|t| t.killed += 1),
                    Some(runs) if !runs.is_empty() => return Err(format!("passes, and {shell} runs leaf {runs:?}")),
                    Some(_) => {}
                }
            }
        }
        Verdict::Mark { insert_at } => {
            counted(&|t| t.marked += 1);
            let (before, after) = line.split_at(insert_at);
            for shell in shells {
                let Some(runs) = place.ran(shell, &format!("{before} --agent-id a1{after}")) else {
                    counted(&|t| t.killed += 1);
                    continue;
                };
                match runs.as_slice() {
                    // It may not run for what stands on the line, but not for its mark.
                    [] => match place.ran(shell, line) {
                        Some(plain) if !plain.is_empty() => {
                            return Err(format!("{shell} runs it unmarked only: {plain:?}"));
                        }
                        _ => counted(&|t| t.ran_none += 1),
                    },
                    [args] if args.starts_with(&["--agent-id".to_owned(), "a1".to_owned()]) => {}
                    _ => return Err(format!("marked, and {shell} runs leaf {runs:?}")),
                }
            }
        }
    }
    if verdict != Verdict::Passes && !may_name_leaf(line, Shell::Posix) {
        return Err(format!("the prefilter misses what is {verdict:?}"));
    }
    Ok(())
}

fn told(tally: &Tally) -> String {
    let mut text = format!(
        "{} passed, {} marked (and ran in no shell, or not in one: {}), {} didn't end; denied:\n",
        tally.passed, tally.marked, tally.ran_none, tally.killed
    );
    for (reason, denied) in &tally.denied {
        let Denied { rightly, once, never, unreadable } = denied;
        text += &format!(
            "  {reason}: {rightly} rightly, {} run it once and plainly, {} never ({unreadable} of them bash can't read)\n",
            once.count, never.count
        );
        for (what, lines) in [("once", &once.lines), ("never", &never.lines)] {
            for line in lines {
                text += &format!("    {what}: {}\n", line.replace('\n', "⏎"));
            }
        }
    }
    text
}
