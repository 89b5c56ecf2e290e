//! A story on a disk that is full again and again: a small tmpfs of its own, in a namespace of its own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::story::{self, Scarce, Size};
use super::world::{Counts, World};

/// The first argument of this program where it plays on the small disk.
pub const ROLE: &str = "play-on-a-small-disk";

/// How large the disk is: it has room for what a story leaves, so that what is full is its filling.
const DISK: &str = "size=3m,mode=0700";

/// What the story in the namespace has to tell.
#[derive(Default, Serialize, Deserialize)]
struct Report {
    counts: Vec<u64>,
    broken: Vec<String>,
    told: Vec<String>,
}

/// Whether a namespace with a mount of its own is to be had, and by which command.
fn namespace(dir: &Path) -> Option<&'static [&'static str]> {
    let ways: [&'static [&'static str]; 2] = [&["unshare", "-rm"], &["unshare", "-m"]];
    ways.into_iter().find(|way| {
        let mut tried = Command::new(way[0]);
        tried.args(&way[1..]).args(["mount", "-t", "tmpfs", "-o", DISK, "none"]).arg(dir);
        tried.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

/// Plays a story on a small disk; where no mount is to be had, says so and limits the size of files instead.
pub fn play(world: &Arc<World>, seed: u64, size: Size) -> String {
    let Some(way) = namespace(&world.state()) else {
        println!(
            "NOT CHECKED on a full disk: neither root nor a user namespace may mount here; files may not grow instead"
        );
        story::episode(world, seed, Size { scarce: Scarce::FileSize, ..size });
        return "a limit on the size of files".into();
    };
    let mut command = Command::new(way[0]);
    command.args(&way[1..]).arg(std::env::current_exe().expect("this program has a path")).arg(ROLE);
    command
        .arg(&world.dir)
        .arg(&world.leaf)
        .args([seed, world.window as u64, size.steps as u64].map(|n| n.to_string()));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().expect("unshare runs");
    let Ok(report) = serde_json::from_slice::<Report>(&output.stdout) else {
        world.broken(format!("the story on a small disk says nothing: {}", String::from_utf8_lossy(&output.stdout)));
        return String::new();
    };
    for (count, more) in world.counts.all().into_iter().zip(report.counts) {
        count.fetch_add(more, Ordering::Relaxed);
    }
    report.told.into_iter().for_each(|what| world.tell(what));
    report.broken.into_iter().for_each(|what| world.broken(what));
    "a tmpfs of 3 MiB".into()
}

/// The role in the namespace.
pub fn on_a_small_disk(words: &[String]) {
    let [dir, leaf, seed, window, steps] = words else { panic!("five words: {words:?}") };
    let number = |word: &String| word.parse::<u64>().expect("a number");
    let counts = Arc::new(Counts::default());
    let dir = Path::new(dir);
    let state = dir.join("state");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", DISK, "none"]).arg(&state).status();
    assert!(mounted.is_ok_and(|status| status.success()), "it could be mounted a moment ago");
    let mut world = World::new(dir.to_owned(), Path::new(leaf), &counts);
    world.window = usize::try_from(number(window)).expect("a number");
    let world = Arc::new(world);
    let steps = usize::try_from(number(steps)).expect("a number");
    story::episode(&world, number(seed), Size { sessions: 2, persons: 2, steps, scarce: Scarce::Disk });
    let (broken, told) = world.account();
    if !broken.is_empty() {
        // The mount is gone with this process.
        let _ = Command::new("cp").arg("-a").arg(&state).arg(dir.join("state-of-the-small-disk")).status();
    }
    let counts = counts.all().into_iter().map(|count| count.load(Ordering::Relaxed)).collect();
    println!("{}", serde_json::to_string(&Report { counts, broken, told }).expect("a report"));
}
