//! A short torture of the built binary, the same in every run. For minutes of it: `cargo run --example torture`.

#[path = "support/dice.rs"]
#[allow(dead_code, reason = "the rules' tests use the rest of it")]
mod dice;
#[path = "support/fold.rs"]
#[allow(dead_code, reason = "the rules' tests use the rest of it")]
mod fold;
#[path = "support/leftovers.rs"]
mod leftovers;
#[path = "support/torture/mod.rs"]
mod torture;

use std::process::ExitCode;
use std::time::Duration;

use torture::Options;
use torture::Part::{Damage, Disk, Refusals, Story};
use torture::damage;
use torture::refusals::VERBS;

fn main() -> ExitCode {
    if torture::play_a_role() {
        return ExitCode::SUCCESS;
    }
    // This binary is its clients too, so that it has no harness; it knows as much of one's arguments as it needs.
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        println!("torture: test");
        return ExitCode::SUCCESS;
    }
    let others = |word: &&String| !word.starts_with('-') && !"torture".contains(word.as_str());
    if words.iter().any(|word| word == "--ignored") || words.iter().any(|word| others(&word)) {
        return ExitCode::SUCCESS;
    }
    // A few of everything; what stands first is played on a busy machine too.
    let verb = |meddling: usize, verb: usize| (Refusals, meddling * VERBS + verb);
    let plan = vec![
        (Damage, damage::ALL),
        (Story, 0),
        (Disk, 0),
        verb(0, 1),
        verb(2, 17),
        verb(0, 34),
        (Story, 1),
        verb(1, 23),
        verb(0, 38),
        verb(3, 25),
        verb(0, 27),
        (Story, 2),
        verb(6, 34),
        verb(5, 28),
        (Story, 3),
        (Disk, 1),
    ];
    torture::torture(&Options {
        time: Duration::from_secs(28),
        plan,
        steps: 15,
        stride: 251,
        flips: 2,
        every_call: 23,
        verbose: true,
        ..Options::of(env!("CARGO_BIN_EXE_leaf").into())
    })
}
