//! Random days of sessions with scheduled forks, through the built binary: prompts, Stops, wakes, closes, a clock that is moved, and
//! `kill -9` of watches, runners and the forks' clients at any moment. Whatever happened: no fork runs twice for one pause, nothing is
//! issued while main works, every report reaches main once, no run is left open, and each session has one parked watch at the end.
//!
//! `LEAF_DAYS=200` plays more, `LEAF_SEED=17` that one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use serde_json::Value;

use super::model::Dice;
use super::s20_lifecycle::changes;
use super::schedule_watch::{on_path, settings, watches};
use crate::support::desk::{Desk, HookRan, Session, Watch, signal_pid};
use crate::support::schedule::{Schedule, until};

/// Days that the suite plays, and the steps of each.
const DAYS: u64 = 4;
const STEPS: usize = 40;

/// One session of a day.
struct Seat<'d> {
    session: Session<'d>,
    busy: bool,
    open: bool,
    /// Every watch that was parked. One that is dropped is killed.
    watches: Vec<Watch>,
    /// How many of them were looked at to their end.
    done: BTreeSet<usize>,
    /// How often main was told of a run.
    heard: BTreeMap<String, usize>,
}

#[test]
fn days_of_kills_lose_no_report_and_run_nothing_twice() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = number("LEAF_SEED").map_or(0..number("LEAF_DAYS").unwrap_or(DAYS), |seed| seed..seed + 1);
    for seed in seeds {
        if std::panic::catch_unwind(|| play(seed)).is_err() {
            panic!("LEAF_SEED={seed} is such a day");
        }
    }
}

fn play(seed: u64) {
    let mut dice = Dice::new(seed);
    let desk = Desk::new();
    let debounce = dice.pick(&[0, 5]).unwrap_or(0);
    settings(&desk, &format!("wake_debounce = {debounce}\nchain_limit = 3\n[schedule.tag_throttles]\nci = \"7m\""));
    let seats = 1 + dice.roll(2);
    let mut seats: Vec<Seat<'_>> = (0..seats)
        .map(|n| Seat {
            session: on_path(desk.session(&format!("s{n}"))).working(),
            busy: true,
            open: true,
            watches: Vec::new(),
            done: BTreeSet::new(),
            heard: BTreeMap::new(),
        })
        .collect();
    forks(&mut dice, &Schedule::new(&seats[0].session));
    for _ in 0..STEPS {
        let at = dice.roll(seats.len());
        step(&mut dice, &desk, &mut seats[at]);
        for seat in &mut seats {
            seat.hear_wakes();
        }
    }
    for seat in &mut seats {
        seat.end_of_day(&desk);
        seat.judge();
        seat.stop();
    }
    let pids: BTreeSet<u32> = seats.iter().map(|seat| seat.watches.last().expect("a watch").pid()).collect();
    until("each session has the one watch that was parked last", || {
        (watches(&desk).into_iter().collect::<BTreeSet<_>>() == pids).then_some(())
    });
    assert!(desk.errors().is_empty(), "{:?}", desk.errors());
}

/// Each fork's report names its run.
fn forks(dice: &mut Dice, schedule: &Schedule<'_, '_>) {
    let says = "result \"run:$LEAF_TURN:\"";
    schedule.fork("quick", "run_on: [idle: 1m]\ntags: ci");
    schedule.play("quick", says);
    schedule.fork("slow", "run_on: [idle: 1m, every: 15m]");
    schedule.play("slow", &format!("until_there go; {says}"));
    schedule.fork("after", "run_on: [idle: 1m]\nafter: [quick, slow]\ntags: ci");
    schedule.play("after", says);
    schedule.fork("often", "run_on: [every: 5m]\noverlap: true");
    schedule.play("often", &format!("sleep 0.0{}; {says}", dice.roll(9)));
    let gate = if dice.one_in(2) { "\ngate: true" } else { "" };
    schedule.fork("goal", &format!("run_on: [idle: 3m]\nchain: true{gate}"));
    schedule.play("goal", r#"result "run:$LEAF_TURN:\n<<leaf:continue>>""#);
}

fn step(dice: &mut Dice, desk: &Desk, seat: &mut Seat<'_>) {
    // The watch has time enough to act, or it hasn't.
    if dice.one_in(2) {
        std::thread::sleep(Duration::from_millis(dice.roll(60) as u64));
    }
    if !seat.open {
        seat.session.start("resume").silent_or_context();
        seat.open = true;
        seat.busy = true;
        return;
    }
    match dice.roll(20) {
        0..=5 if seat.busy => seat.stop(),
        0..=2 => seat.prompt(),
        3..=11 => desk.advance(i64::try_from(dice.roll(240)).expect("small") + 1),
        12 => {
            if let Some(watch) = seat.watches.last() {
                signal_pid(watch.pid(), "KILL");
            }
        }
        13 | 14 => {
            // Whoever runs something now: a runner, or a fork's client.
            let kind = if dice.one_in(2) { "begun" } else { "attempt" };
            let over: BTreeSet<String> = named(&seat.session, "over").into_iter().collect();
            let of = |change: &Value| change["change"] == kind && !over.contains(change["run"].as_str().unwrap_or(""));
            if let Some(pid) =
                changes(&seat.session).iter().rev().find(|change| of(change)).and_then(|c| c["process"]["pid"].as_u64())
            {
                signal_pid(u32::try_from(pid).expect("a pid"), "KILL");
            }
        }
        15 => fs::write(desk.home().join("go"), "").expect("a file"),
        16 => drop(fs::remove_file(desk.home().join("go"))),
        17 => {
            seat.session.end("other").silent_or_context();
            seat.open = false;
        }
        18 => {
            desk.advance(-30);
        }
        _ if seat.busy => seat.stop(),
        _ => seat.prompt(),
    }
}

/// The runs that changes of a kind name.
fn named(session: &Session<'_>, kind: &str) -> Vec<String> {
    let of = changes(session).into_iter().filter(|change| change["change"] == kind);
    of.filter_map(|change| Some(change["run"].as_str()?.to_owned())).collect()
}

impl Seat<'_> {
    fn hear(&mut self, hook: &HookRan) -> bool {
        let Some(text) = hook.context() else { return false };
        for part in text.split("run:").skip(1) {
            if let Some((run, _)) = part.split_once(':')
                && run.len() == 16
            {
                *self.heard.entry(run.to_owned()).or_default() += 1;
            }
        }
        true
    }

    fn prompt(&mut self) {
        let hook = self.session.prompt("go on");
        self.hear(&hook);
        self.busy = true;
    }

    fn stop(&mut self) {
        let hook = self.session.stop();
        self.hear(&hook);
        self.busy = false;
        self.watches.push(self.session.watch());
    }

    /// What the client does as a watch leaves to wake: a turn of main's.
    fn hear_wakes(&mut self) {
        for at in 0..self.watches.len() {
            if self.done.contains(&at) {
                continue;
            }
            let Some(ran) = self.watches[at].wait(Duration::ZERO) else { continue };
            self.done.insert(at);
            assert!([0, 2, 137].contains(&ran.code), "a watch leaves, wakes or is killed: {ran:?}");
            if ran.code == 2 && self.open {
                assert!(!ran.err().trim().is_empty(), "it wakes with words");
                let payload = self.session.payload("UserPromptSubmit.main.task-notification.rewake");
                let hook = self.session.hook(&payload);
                self.hear(&hook);
                self.busy = true;
            }
        }
    }

    /// Lets everything come to its end: main reads what there is, and is at work.
    fn end_of_day(&mut self, desk: &Desk) {
        if !self.open {
            self.session.start("resume").silent_or_context();
            self.open = true;
        }
        fs::write(desk.home().join("go"), "").expect("a file");
        self.stop();
        let settled = |seat: &Seat<'_>| {
            let runs = desk.ask(&["runs", "--session", seat.session.id()]);
            let open =
                |run: &Value| ["issued", "running", "waiting"].contains(&run["state"].as_str().unwrap_or_default());
            !runs.as_array().expect("runs").iter().any(open)
        };
        until("the chain and all else ends", || {
            self.hear_wakes();
            if self.busy {
                self.stop();
            }
            let schedule = desk.ask(&["schedule", self.session.id()]);
            let due = schedule["forks"].as_array().expect("forks").iter().any(|row| row.get("held").is_none());
            if due {
                // What is due waits for others.
                desk.advance(6);
            }
            (settled(self) && !due).then_some(())
        });
        // The person comes back and reads.
        for _ in 0..20 {
            let hook = self.session.prompt("and now?");
            if !self.hear(&hook) {
                break;
            }
        }
    }

    fn judge(&self) {
        let mut busy = true;
        let mut epoch = 0;
        let mut issued: BTreeMap<String, (String, usize)> = BTreeMap::new();
        let mut at_idle: BTreeMap<(String, usize), usize> = BTreeMap::new();
        let mut over = BTreeSet::new();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for change in changes(&self.session) {
            match change["change"].as_str().unwrap_or_default() {
                "activity" => {
                    epoch += 1;
                    busy = busy || change["idle"] == false;
                }
                "working" | "closed" | "opened" => busy = true,
                "stopped" => busy = false,
                "issued" => {
                    assert!(!busy, "nothing is issued while main works: {change}");
                    for run in change["runs"].as_array().expect("runs") {
                        let fork = text(&run["fork"]);
                        issued.insert(text(&run["run"]), (fork.clone(), epoch));
                        if text(&run["label"]).starts_with("idle") {
                            let times = at_idle.entry((fork.clone(), epoch)).or_insert(1);
                            assert!(*times > 0, "{fork} runs twice for one pause: {change}");
                            *times -= 1;
                        }
                    }
                }
                "over" => {
                    let run = text(&change["run"]);
                    assert!(over.insert(run.clone()), "a run is over once: {change}");
                    let (fork, of) = issued[&run].clone();
                    if change["again"] == true && of == epoch {
                        at_idle.insert((fork, of), 1);
                    }
                    let heard = self.heard.get(&run).copied().unwrap_or_default();
                    let completed = change["outcome"] == "completed";
                    assert!(
                        if completed { heard == 1 } else { heard <= 1 },
                        "main hears of a run once, not {heard} times: {change}"
                    );
                }
                _ => {}
            }
        }
        // What waited and was dropped is over without a word.
        let runs = self.session.desk().ask(&["runs", "--session", self.session.id()]);
        if std::env::var_os("LEAF_DAYS").is_some() {
            let mut ends: BTreeMap<String, usize> = BTreeMap::new();
            for run in runs.as_array().expect("runs") {
                *ends.entry(format!("{} {}", text(&run["state"]), text(&run["why"]))).or_default() += 1;
            }
            println!("{ends:?}");
        }
        for run in runs.as_array().expect("runs") {
            let state = text(&run["state"]);
            assert!(["completed", "failed", "dropped", "stopped"].contains(&state.as_str()), "it is over: {run}");
            assert_ne!(run["report"], "waits", "no report is left: {run}");
        }
    }
}
