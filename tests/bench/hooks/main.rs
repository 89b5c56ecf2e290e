//! What `leaf` costs: each hook of the contract with nothing to do and with work, `leaf thread reply` and `leaf page state`, as
//! multiples of an empty process that is built alike; the same on long logs and on pages of many threads, and many at once; beside
//! them what a user would have instead; a large tool response; and each one's system calls, bytes and memory. Whole processes,
//! interleaved in random order. It judges nothing, but that each run did what its row says.
//!
//! `cargo bench --bench hooks [ROUNDS] [TABLE …]`, where TABLE is hooks, sizes, crowd, response or calls. `LEAF_BENCH_EVENTS=1000,100000`
//! and `LEAF_BENCH_THREADS=10,10000` say how long the logs are and of how many threads.

#![allow(missing_docs, clippy::unwrap_used)]

mod calls;
mod instead;
mod pages;
mod scene;
mod stories;
#[path = "../../support/mod.rs"]
mod support;
#[path = "../timing.rs"]
mod timing;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use scene::{Scene, Spec};
use serde_json::Value;
use support::desk::LEAF;
use timing::at;

/// A row that took so long already gets no more runs than [`FEW`].
const LONG: Duration = Duration::from_secs(8);
const FEW: usize = 5;
/// A file that has not changed for so long has another stamp once it does.
const SETTLED: Duration = Duration::from_millis(25);
/// Processes at once.
const CROWD: usize = 16;
/// The bytes of a large tool response.
const RESPONSE: usize = 10 * 1000 * 1000;

/// What a run is seen to do.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Nothing,
    /// Context for the conversation.
    Context,
    Denies,
    Rewrites,
    /// A command's own words.
    Words,
    /// Whatever a program says that isn't ours.
    Anything,
}

/// One line of a table.
#[derive(Clone)]
struct Row {
    name: String,
    scene: Rc<Scene>,
    spec: Spec,
    /// Lines that are appended to the page log before each run.
    before: Vec<u8>,
    says: Says,
    writes: bool,
}

impl Row {
    fn new(name: impl Into<String>, scene: &Rc<Scene>, spec: Spec, says: Says, writes: bool) -> Row {
        Row { name: name.into(), scene: Rc::clone(scene), spec, before: Vec::new(), says, writes }
    }

    fn prepare(&self) {
        std::env::set_current_dir(&self.scene.cwd).unwrap();
        if !self.before.is_empty() {
            self.scene.append(&self.before);
        }
    }

    /// As in a session that goes on: a silent boundary leaves a gate for the next, once what was put back has lain a moment.
    fn warm(&self) {
        if self.says == Says::Nothing && !self.writes {
            thread::sleep(SETTLED);
            self.prepare();
            self.spec.timed();
            self.scene.restore();
        }
    }

    /// One run, and everything put back: how long it took, and what was wrong with it.
    fn run(&self) -> (Duration, Option<String>) {
        self.warm();
        self.prepare();
        let (took, printed) = self.spec.timed();
        (took, self.wrong(&printed, self.scene.restore()))
    }

    /// Holds a run to what its row says of it.
    fn wrong(&self, printed: &[u8], (changed, errors): (usize, String)) -> Option<String> {
        let said = match serde_json::from_slice::<Value>(printed) {
            _ if printed.is_empty() => Says::Nothing,
            Ok(answer) if answer["hookSpecificOutput"].is_object() => {
                let output = &answer["hookSpecificOutput"];
                if output["permissionDecision"] == "deny" {
                    Says::Denies
                } else if output["updatedInput"].is_object() {
                    Says::Rewrites
                } else {
                    Says::Context
                }
            }
            _ => Says::Words,
        };
        let said = if self.says == Says::Anything { Says::Anything } else { said };
        let wrote = changed > usize::from(!self.before.is_empty());
        (!errors.is_empty() || (said, wrote) != (self.says, self.writes)).then(|| {
            let printed = String::from_utf8_lossy(&printed[..printed.len().min(1000)]);
            format!("{}: it says {said:?}, and {changed} files changed: {printed}{errors}", self.name)
        })
    }
}

fn main() {
    let rounds = timing::runs(200);
    let tables: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-') && arg.parse::<usize>().is_err()).collect();
    let wanted = |table: &str| tables.is_empty() || tables.iter().any(|other| other == table);
    let empty = empty();
    let mut dice = Dice(u64::from(std::process::id()) ^ 0x5bd1_e995);
    machine(&empty, &dice);
    let bare = Rc::new(Scene::play(|desk| (desk.session("bare").env(), ())).0);
    let base = || Row::new("an empty process", &bare, bare.spec(&empty, &[], b"{}"), Says::Nothing, false);
    let rows = stories::rows(&bare);
    if wanted("hooks") {
        let mut all = vec![
            base(),
            Row::new("true", &bare, bare.spec(on_path("true").unwrap(), &[], b"{}"), Says::Nothing, false),
        ];
        let own = all.len();
        all.extend(rows.iter().cloned());
        let (instead, missing) = instead::rows();
        let beside = all.len();
        all.extend(instead);
        println!("\nEach hook, {rounds} runs: with nothing to do, and with work");
        let times = interleaved(&all, rounds, &mut dice);
        let syncs: Vec<usize> = all.iter().map(|row| calls::of(row).map_or(0, |calls| calls.syncs)).collect();
        head("", &["p50 ms", "p99 ms", "x empty", "sync ms", "x without"]);
        let mut unit = None;
        for (n, (row, mut times)) in all.iter().zip(times).enumerate() {
            if n == own || n == beside {
                println!();
            }
            let unit = *unit.get_or_insert_with(|| at(&mut times.clone(), 50));
            let (middle, most) = (at(&mut times, 50), at(&mut times, 99));
            let mut cells = vec![format!("{middle:.2}"), format!("{most:.2}"), format!("{:.2}", middle / unit)];
            if syncs[n] > 0 {
                let mut alone: Vec<Duration> =
                    (0..rounds.min(50)).map(|_| (0..syncs[n]).map(|_| row.scene.sync_time()).sum()).collect();
                let alone = at(&mut alone, 50);
                cells.extend([format!("{alone:.2}"), format!("{:.2}", (middle - alone).max(0.0) / unit)]);
            }
            line(&row.name, &cells);
        }
        missing.iter().for_each(|why| println!("{why}"));
    }
    if wanted("calls") {
        calls::table(&base(), &rows);
    }
    if wanted("response") {
        response(&bare, base(), rounds.min(40), &mut dice);
    }
    if wanted("sizes") || wanted("crowd") {
        let pages = pages::all();
        if wanted("sizes") {
            sizes(base(), &pages, rounds.min(60), &mut dice);
        }
        if wanted("crowd") {
            crowd(base(), &pages, rounds.min(40));
        }
    }
}

/// The main hooks and commands on pages of several sizes, interleaved.
fn sizes(base: Row, pages: &[pages::Sized], rounds: usize, dice: &mut Dice) {
    println!("\nLong logs and many threads, at most {rounds} runs each; 20 threads wait, the others are answered");
    let mut all = vec![base];
    let mut labels = vec![(String::new(), 0)];
    for (at, page) in pages.iter().enumerate() {
        for row in page.rows() {
            labels.push((row.name.clone(), at));
            all.push(row);
        }
    }
    let mut times = interleaved(&all, rounds, dice);
    let middles: Vec<f64> = times.iter_mut().map(|times| self::at(times, 50)).collect();
    head("", &["events", "threads", "runs", "p50 ms", "p99 ms", "x empty", "x first"]);
    for name in pages::NAMES {
        let of: Vec<usize> = (1..all.len()).filter(|n| labels[*n].0 == *name).collect();
        for n in &of {
            let page = &pages[labels[*n].1];
            let cells = [
                page.events.to_string(),
                page.threads.to_string(),
                times[*n].len().to_string(),
                format!("{:.2}", middles[*n]),
                format!("{:.2}", self::at(&mut times[*n], 99)),
                format!("{:.2}", middles[*n] / middles[0]),
                format!("{:.2}", middles[*n] / middles[of[0]]),
            ];
            line(name, &cells);
        }
    }
}

/// Many processes that start at once on one page, wave by wave.
fn crowd(base: Row, pages: &[pages::Sized], waves: usize) {
    println!(
        "\n{CROWD} at once on one page, {waves} waves: from a process's start to its end; a hook gives up after 2 s without a lock"
    );
    head("", &["events", "p50 ms", "p99 ms", "most ms", "a second", "gave up"]);
    let few = pages.iter().min_by_key(|page| page.events).unwrap();
    let mut rows = vec![(0, base)];
    rows.extend(few.rows().into_iter().map(|row| (few.events, row)));
    for (events, row) in rows {
        let (mut times, mut whole, mut gave_up) = (Vec::new(), Vec::new(), 0);
        for n in 0..=waves {
            row.prepare();
            let start = Barrier::new(CROWD + 1);
            let (of_wave, took) = thread::scope(|scope| {
                let runs: Vec<_> = (0..CROWD)
                    .map(|_| {
                        scope.spawn(|| {
                            start.wait();
                            row.spec.timed().0
                        })
                    })
                    .collect();
                start.wait();
                let since = Instant::now();
                let times: Vec<Duration> = runs.into_iter().map(|run| run.join().unwrap()).collect();
                (times, since.elapsed())
            });
            let (_, errors) = row.scene.restore();
            // The first warms the caches.
            if n > 0 {
                gave_up += errors.lines().count();
                times.extend(of_wave);
                whole.push(took);
            }
        }
        let second = CROWD as f64 * 1000.0 / at(&mut whole, 50);
        let events = if events == 0 { String::new() } else { events.to_string() };
        let figures = [50, 99, 100].map(|percent| format!("{:.2}", at(&mut times, percent)));
        line(&row.name, &[vec![events], figures.to_vec(), vec![format!("{second:.0}"), gave_up.to_string()]].concat());
    }
}

/// A boundary whose tool response is large, beside a process that only reads it.
fn response(bare: &Rc<Scene>, base: Row, rounds: usize, dice: &mut Dice) {
    println!("\nA tool response of {} MB in PostToolBatch, {rounds} runs", RESPONSE / 1_000_000);
    let mut rows = vec![base];
    let cat = on_path("cat").unwrap();
    for row in stories::responses(RESPONSE) {
        let reader = Spec { discards: true, ..bare.spec(&cat, &[], &row.spec.input) };
        rows.push(Row::new(format!("cat >/dev/null, {}", row.name), bare, reader, Says::Nothing, false));
        rows.push(row);
    }
    let times = interleaved(&rows, rounds, dice);
    head("", &["p50 ms", "p99 ms", "x cat"]);
    let mut cat = f64::NAN;
    for (n, (row, mut times)) in rows.iter().zip(times).enumerate() {
        let middle = at(&mut times, 50);
        let mut cells = vec![format!("{middle:.2}"), format!("{:.2}", at(&mut times, 99))];
        if n % 2 == 1 {
            cat = middle;
        } else if n > 0 {
            cells.push(format!("{:.2}", middle / cat));
        }
        line(&row.name, &cells);
    }
}

/// Runs each row so many times, each round in another order, so that noise meets all alike. The first round warms the caches and
/// is not counted.
fn interleaved(rows: &[Row], rounds: usize, dice: &mut Dice) -> Vec<Vec<Duration>> {
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); rows.len()];
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let mut wrong = Vec::new();
    for round in 0..=rounds {
        dice.shuffle(&mut order);
        for n in &order {
            let enough = times[*n].len() >= FEW && times[*n].iter().sum::<Duration>() > LONG;
            if enough {
                continue;
            }
            let (took, complaint) = rows[*n].run();
            wrong.extend(complaint);
            if round > 0 {
                times[*n].push(took);
            }
        }
        assert!(wrong.is_empty(), "what is measured is not what its row says:\n{}", wrong.join("\n"));
    }
    times
}

/// Builds the empty process as cargo builds `leaf`: by the same profile, target and flags.
fn empty() -> PathBuf {
    let directory = Path::new(LEAF).parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--example", "empty"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if directory.ends_with("release") {
        build.arg("--release");
    }
    assert!(build.status().unwrap().success(), "the empty process is built");
    directory.join("examples/empty")
}

/// Says what was measured on.
fn machine(empty: &Path, dice: &Dice) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output();
        output.map_or_else(|_| "unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let system = said("uname", &["-sr"]);
    let place = std::env::temp_dir();
    let disk = said("stat", &["-f", "-c", "%T", &place.to_string_lossy()]);
    println!(
        "{cores} cores, {system}, {}, state on {disk}, load {}",
        said("rustc", &["--version"]),
        read("/proc/loadavg")
    );
    let built = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        let how = if is_dynamic(&bytes) { "dynamic" } else { "static" };
        format!("{:.2} MB {how}", bytes.len() as f64 / 1e6)
    };
    let profile = Path::new(LEAF).parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    println!(
        "leaf: {}; the empty process: {}; profile {profile}; order by seed {}",
        built(Path::new(LEAF)),
        built(empty),
        dice.0
    );
    println!(
        "Each process gets a pipe for its input and one for its output, and a hook's environment; its state is put back before"
    );
    println!("each run and the clock (LEAF_NOW) stands, so that every run does the same. x: the ratio of the medians.");
}

/// Whether a 64-bit ELF file asks for an interpreter, the dynamic loader.
fn is_dynamic(elf: &[u8]) -> bool {
    const INTERPRETER: [u8; 4] = 3u32.to_le_bytes();
    let short = |at: usize| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]]));
    let table = u64::from_le_bytes(elf[32..40].try_into().unwrap()) as usize;
    (0..short(56)).any(|n| elf[table + n * short(54)..].starts_with(&INTERPRETER))
}

/// Finds a program on the bench's own PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(program)).find(|path| path.is_file())
}

fn head(name: &str, cells: &[&str]) {
    line(name, &cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>());
}

fn line(name: &str, cells: &[String]) {
    let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
    println!("{name:<50}{cells}");
    let _ = std::io::stdout().flush();
}

/// Chance: xorshift, for the order alone.
struct Dice(u64);

impl Dice {
    fn shuffle(&mut self, order: &mut [usize]) {
        for n in (1..order.len()).rev() {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            order.swap(n, (self.0 % (n as u64 + 1)) as usize);
        }
    }
}
