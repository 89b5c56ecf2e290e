//! Torture: processes of several agents at once on one state directory, killed, stopped, refused and lied to in every
//! way that a machine has, and what the contract promises checked after each episode.
//!
//! Every failure prints its seed and keeps its state directory.

pub mod client;
pub mod damage;
mod disk;
mod judge;
pub mod refusals;
mod set;
mod story;
mod world;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use self::client::Fate;
use self::story::{Scarce, Size};
use self::world::{Counts, World, lock};

/// What is to be done, and for how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// The binary under test.
    pub leaf: PathBuf,
    /// Where the worlds lie.
    pub dir: PathBuf,
    pub seed: u64,
    pub time: Duration,
    /// Started processes after which no episode begins.
    pub runs: u64,
    pub episodes: u64,
    /// Episodes that are played at the same time.
    pub at_once: usize,
    /// Steps of each person in a story.
    pub steps: usize,
    /// A log is cut at every byte, or at every so manieth.
    pub stride: usize,
    /// Bits flipped in one file, for each kind of damage.
    pub flips: usize,
    /// Of the refused calls only every so manieth.
    pub every_call: usize,
    /// The episodes to be played, each a part and which of its kinds; none: as their seeds say.
    pub plan: Vec<(Part, usize)>,
    /// Whether each episode is told.
    pub verbose: bool,
    /// Whether states are kept though nothing was broken.
    pub keep: bool,
}

impl Options {
    /// The usual ones for a binary.
    pub fn of(leaf: PathBuf) -> Options {
        Options {
            leaf,
            dir: std::env::temp_dir(),
            seed: 1,
            time: Duration::from_secs(120),
            runs: u64::MAX,
            episodes: u64::MAX,
            at_once: 2,
            steps: 60,
            stride: 1,
            flips: 40,
            every_call: 1,
            plan: Vec::new(),
            verbose: false,
            keep: false,
        }
    }
}

/// Plays another role than the torture's own, where this process was started for one; tells whether it was.
pub fn play_a_role() -> bool {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((role, _)) if role == client::ROLE => client::be_a_client(),
        Some((role, words)) if role == disk::ROLE => disk::on_a_small_disk(words),
        _ => return false,
    }
    true
}

/// How long a process of ours takes, in microseconds, generously: kills are spread over that.
fn window(leaf: &Path, dir: &Path, counts: &Arc<Counts>) -> usize {
    let world = World::new(dir.to_owned(), leaf, counts);
    let took = (0..5).map(|_| {
        let start = Instant::now();
        world.person(&["thread", "new", "how long does it take?"], Fate::Lives);
        start.elapsed()
    });
    let longest = took.max().unwrap_or_default();
    (usize::try_from(longest.as_micros()).unwrap_or(0) * 3 / 2).clamp(1_000, 30_000)
}

/// The parts of sixteen episodes that follow each other.
const PARTS: [Part; 16] = {
    use Part::{Damage, Disk, Refusals, Story};
    [
        Story, Refusals, Refusals, Story, Damage, Refusals, Refusals, Disk, Story, Refusals, Refusals, Story, Damage,
        Refusals, Refusals, Story,
    ]
};

/// What an episode is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// Many at once, killed and stopped.
    Story,
    /// Every call of a verb refused.
    Refusals,
    /// Damaged records.
    Damage,
    /// A story on a full disk.
    Disk,
}

impl Part {
    fn of(seed: u64) -> (Part, usize) {
        let at = usize::try_from(seed % 16).unwrap_or(0);
        let before = |upto: usize| PARTS[..upto].iter().filter(|part| **part == PARTS[at]).count();
        (PARTS[at], usize::try_from(seed / 16).unwrap_or(0) * before(16) + before(at))
    }
}

/// Plays an episode; tells what it was.
fn episode(world: &Arc<World>, seed: u64, (part, which): (Part, usize), options: &Options) -> String {
    let size = Size { sessions: 2, persons: 2, steps: options.steps, scarce: Scarce::Nothing };
    let did = match part {
        Part::Story => {
            story::episode(world, seed, size);
            None
        }
        Part::Refusals if !refusals::can_trace() => {
            println!("NOT CHECKED: strace can't run here, so that no system call is refused");
            None
        }
        Part::Refusals => refusals::at_every_call(world, which, options.every_call),
        Part::Damage => damage::play(world, which, seed, options.stride, options.flips),
        Part::Disk => Some(disk::play(world, seed, size)),
    };
    format!("{part:?} {}", did.unwrap_or_default())
}

/// Plays episodes until the time is up.
pub fn torture(options: &Options) -> ExitCode {
    let began = Instant::now();
    let counts = Arc::new(Counts::default());
    let root = options.dir.join(format!("leaf-torture-{}", std::process::id()));
    let window = window(&options.leaf, &root.join("window"), &counts);
    println!("{} from seed {}, in {}", options.leaf.display(), options.seed, root.display());
    let (next, failed) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..options.at_once {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let enough = counts.runs.load(Ordering::Relaxed) >= options.runs || lock(&failed).len() >= 5;
                    if number >= options.episodes || began.elapsed() >= options.time || enough {
                        break;
                    }
                    let seed = options.seed + number;
                    let planned = options.plan.get(usize::try_from(number).unwrap_or(usize::MAX));
                    if planned.is_none() && !options.plan.is_empty() {
                        break;
                    }
                    let part = planned.copied().unwrap_or_else(|| Part::of(seed));
                    let dir = root.join(format!("seed-{seed}"));
                    let mut world = World::new(dir.clone(), &options.leaf, &counts);
                    world.window = window;
                    let world = Arc::new(world);
                    let start = Instant::now();
                    let played = std::panic::catch_unwind(AssertUnwindSafe(|| episode(&world, seed, part, options)));
                    let what = played.unwrap_or_else(|_| {
                        world.broken("the torture itself failed: see above".into());
                        String::new()
                    });
                    if options.verbose {
                        println!("seed {seed}: {what} ({:.1} s)", start.elapsed().as_secs_f64());
                    }
                    if !ended_well(&world, seed, part, options) {
                        lock(&failed).push(seed);
                    }
                }
            });
        }
    });
    let failed = lock(&failed).clone();
    tell(&counts, began.elapsed());
    if failed.is_empty() {
        if !options.keep {
            let _ = std::fs::remove_dir_all(&root);
        }
        return ExitCode::SUCCESS;
    }
    println!("FAILED: seeds {failed:?}");
    ExitCode::FAILURE
}

/// Tells what an episode broke and keeps it, or clears it away.
fn ended_well(world: &World, seed: u64, (part, which): (Part, usize), options: &Options) -> bool {
    let (broken, told) = world.account();
    let story = world.dir.join("told");
    let _ = std::fs::write(&story, told.join("\n"));
    if broken.is_empty() {
        if !options.keep {
            let _ = std::fs::remove_dir_all(&world.dir);
        }
        return true;
    }
    println!("seed {seed} broke {} promises; what ran: {}; the state lies beside it", broken.len(), story.display());
    for what in broken.iter().take(6) {
        println!("  {}", what.chars().take(1_200).collect::<String>());
    }
    println!("  again: --seed {seed} --part {} {which}", format!("{part:?}").to_lowercase());
    false
}

fn tell(counts: &Counts, took: Duration) {
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!(
        "{} process runs in {:.0} s: {} killed, {} stopped, {} injections, {} truncations, {} flips, {} caches deleted or older, \
         {} jumps of the clock, {} times a full disk ({} runs refused by it); {} acknowledged writes, each checked",
        read(&counts.runs),
        took.as_secs_f64(),
        read(&counts.kills),
        read(&counts.stops),
        read(&counts.injections),
        read(&counts.cuts),
        read(&counts.flips),
        read(&counts.caches),
        read(&counts.jumps),
        read(&counts.full),
        read(&counts.refused),
        read(&counts.acknowledged),
    );
}
