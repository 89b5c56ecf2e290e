//! Tortures the built `leaf` for minutes: `cargo build --release && cargo run --release --example torture -- --minutes 20`.

#[path = "../tests/support/dice.rs"]
#[allow(dead_code, reason = "the rules' tests use the rest of it")]
mod dice;
#[path = "../tests/support/fold.rs"]
#[allow(dead_code, reason = "the rules' tests use the rest of it")]
mod fold;
#[path = "../tests/support/leftovers.rs"]
mod leftovers;
#[path = "../tests/support/torture/mod.rs"]
mod torture;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use torture::{Options, Part};

const USAGE: &str = "\
torture [--minutes N] [--runs N]       for so long, or until so many processes were run (2 minutes)
        [--seed S] [--episodes N]      from this seed on (1), so many episodes
        [--part NAME WHICH]            one kind of story, refusals, damage or disk, and with --episodes the next ones
        [--every N] [--stride N]       of the refused calls and of the cut bytes only every so manieth (1)
        [--flips N] [--at-once N]      bits flipped in a file (40), episodes at the same time (2)
        [--leaf PATH] [--dir DIR]      the binary (the release one beside this program, else the debug one), the place
        [--keep] [--verbose]           keep every state directory, tell of each episode";

fn main() -> ExitCode {
    if torture::play_a_role() {
        return ExitCode::SUCCESS;
    }
    match options(&mut std::env::args().skip(1)) {
        Ok(options) => torture::torture(&options),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn options(words: &mut dyn Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::of(beside_own().unwrap_or_default());
    let mut part = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--minutes" => options.time = Duration::from_secs(60 * number(&value()?)?),
            "--runs" => options.runs = number(&value()?)?,
            "--seed" => options.seed = number(&value()?)?,
            "--episodes" => options.episodes = number(&value()?)?,
            "--part" => part = Some((named(&value()?)?, count(&value()?)?)),
            "--every" => options.every_call = count(&value()?)?.max(1),
            "--stride" => options.stride = count(&value()?)?.max(1),
            "--flips" => options.flips = count(&value()?)?,
            "--at-once" => options.at_once = count(&value()?)?.max(1),
            "--leaf" => options.leaf = value()?.into(),
            "--dir" => options.dir = value()?.into(),
            "--keep" => options.keep = true,
            "--verbose" => options.verbose = true,
            _ => return Err(format!("{word} is unknown\n{USAGE}")),
        }
    }
    if let Some((part, first)) = part {
        let episodes = if options.episodes == u64::MAX { 1 } else { usize::try_from(options.episodes).unwrap_or(1) };
        options.plan = (first..first + episodes).map(|which| (part, which)).collect();
    }
    match options.leaf.canonicalize() {
        Ok(leaf) => Ok(Options { leaf, ..options }),
        Err(_) => Err("there is no leaf to torture: run `cargo build --release` first, or give --leaf PATH".into()),
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn count(word: &str) -> Result<usize, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn named(name: &str) -> Result<Part, String> {
    match name {
        "story" => Ok(Part::Story),
        "refusals" => Ok(Part::Refusals),
        "damage" => Ok(Part::Damage),
        "disk" => Ok(Part::Disk),
        _ => Err(format!("{name} is none of story, refusals, damage, disk")),
    }
}

/// The release binary of the target directory that this program lies in, else the debug one.
fn beside_own() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let target = own.parent()?.parent()?.parent()?;
    ["release", "debug"].map(|profile| target.join(profile).join("leaf")).into_iter().find(|path| path.exists())
}
