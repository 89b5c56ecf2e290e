//! Takes in the real client, each with one of ours killed with -9 at a random moment: nothing is lost, answered twice, or held for good.
//!
//! More of them by hand: `LEAF_TAKES=100 LEAF_SEED=7 cargo test --test real takes_with_a_random_kill -- --ignored --nocapture`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cast::{Who, words};
use crate::client::{Killed, Step, until};
use crate::story::{Story, id};

/// How many takes the suite plays.
const TAKES: u64 = 20;

/// How long a take is watched before the next one begins; what is not settled by then is looked at in the end.
const ONE: Duration = Duration::from_secs(8);

/// Longer than R38's and R78's 60 s and R13's 90 s.
const PATIENCE: Duration = Duration::from_secs(110);

/// Where a kill can fall.
const STEPS: [Step<'static>; 14] = [
    Step::Command("fork line"),
    Step::Command("fork line"),
    Step::Command("fork started"),
    Step::Command("fork ended"),
    Step::Command("*thread reply"),
    Step::AgentsHook("SubagentStart"),
    Step::AgentsHook("PreToolUse"),
    Step::AgentsHook("PostToolBatch"),
    Step::AgentsHook("SubagentStop"),
    Step::MainsHook("PreToolUse"),
    Step::MainsHook("PostToolUse"),
    Step::MainsHook("UserPromptSubmit"),
    Step::MainsHook("PostToolBatch"),
    Step::MainsHook("Stop"),
];

/// Dice that fall the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).expect("small")]
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
    number("LEAF_SEED").unwrap_or(u64::from(now.subsec_nanos())).max(1)
}

/// Plays one take; tells what was killed, if anything was.
fn take(story: &Story, dice: &mut Dice, n: u64, all: &mut Vec<Value>) -> Option<String> {
    let text = format!("[{n}] Where is number {n}?");
    let killed = match dice.below(4) {
        0 => Killed::Before,
        1 => Killed::Unheard,
        2 => Killed::After(Duration::from_millis(dice.below(25))),
        _ => Killed::AtWrite(1 + u32::try_from(dice.below(4)).expect("small")),
    };
    let follower = dice.below(5) == 0;
    let step = dice.one_of(&STEPS);
    if let Step::MainsHook("UserPromptSubmit" | "PostToolBatch" | "Stop") = step {
        // Main's own hooks come where a message is main's.
        story.cast.says(Who::LineFork, [words("At once.", "now")]);
    }
    let sabotage = (!follower).then(|| story.client.sabotage(step, killed, 1));
    let earlier = (!all.is_empty() && dice.below(3) == 0).then(|| dice.below(all.len() as u64));
    let message = match earlier {
        Some(at) => story.say(&all[usize::try_from(at).expect("small")], &text),
        None => story.write(&text),
    };
    if follower {
        std::thread::sleep(Duration::from_millis(dice.below(600)));
        for pid in story.client.followers() {
            story.client.kill(pid);
        }
    }
    let settled = until("it is settled", ONE, || {
        let answered = !waits(story, &message) && story.open_turns(&message).is_empty();
        answered.then_some(())
    });
    let (was, died) = match &sabotage {
        None => ("Follower".to_owned(), true),
        Some(sabotage) => {
            sabotage.end();
            (format!("{step:?} {killed:?}"), sabotage.killed() > 0)
        }
    };
    let came = if died { "" } else { ", which never came" };
    let late = if settled.is_ok() { "" } else { "; not settled yet" };
    println!("take {n}: thread {}, message {}: {was}{came}{late}", id(&message, "thread"), id(&message, "id"));
    all.push(message);
    died.then_some(was)
}

fn waits(story: &Story, message: &Value) -> bool {
    let thread = story.thread(message);
    thread["waiting"].as_array().expect("ids").contains(&message["id"])
}

#[test]
#[ignore = "needs the real client: .ci/run"]
fn takes_with_a_random_kill_lose_nothing_and_leave_nothing() {
    let (takes, seed) = (number("LEAF_TAKES").unwrap_or(TAKES), seed());
    println!("LEAF_SEED={seed} LEAF_TAKES={takes}");
    let (mut dice, began) = (Dice(seed), Instant::now());
    let story = Story::new();
    let terminal = story.open_after_a_turn();
    let (mut all, mut tally) = (Vec::new(), BTreeMap::<String, u32>::new());
    for n in 1..=takes {
        if let Some(was) = take(&story, &mut dice, n, &mut all) {
            *tally.entry(was.split(')').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }

    // What main was handed in a hook whose output died is its old debt: said once more with a prompt.
    terminal.say("is anything left");
    let left = || all.iter().filter(|message| waits(&story, message)).collect::<Vec<_>>();
    let none = until("every message is answered", PATIENCE, || left().is_empty().then_some(()));
    none.unwrap_or_else(|late| {
        panic!("{late}; seed {seed}: {:#?}", left().iter().map(|message| story.why(message)).collect::<Vec<_>>())
    });
    let open = || story.open_turns(&all[0]);
    let closed = until("every turn has ended", PATIENCE, || open().is_empty().then_some(()));
    closed.unwrap_or_else(|late| {
        let of = |turn: &Value| all.iter().find(|message| id(turn, "name").ends_with(id(message, "thread"))).cloned();
        let stories = open().iter().filter_map(of).map(|message| story.why(&message)).collect::<Vec<_>>();
        panic!("{late}; seed {seed}: {:#?}: {stories:#?}", open())
    });

    let mut by = BTreeMap::<String, u32>::new();
    for message in &all {
        let thread = story.thread(message);
        let messages = thread["messages"].as_array().expect("messages");
        let seq = |message: &Value| message["seq"].as_u64().expect("a seq");
        let own = messages.iter().filter(|other| other["id"] == message["id"]).count();
        assert_eq!(own, 1, "seed {seed}: {thread:#}");
        // The first answer that covers it.
        let covers = |reply: &&Value| {
            let to = messages.iter().find(|other| other["id"] == reply["responds"]);
            to.is_some_and(|to| seq(to) >= seq(message))
        };
        let answer = messages.iter().find(covers).unwrap_or_else(|| panic!("seed {seed}: unanswered: {thread:#}"));
        *by.entry(answer["by"].as_str().unwrap_or("nobody").to_owned()).or_default() += 1;
    }
    let kills: u32 = tally.values().sum();
    assert!(u64::from(kills) * 2 >= takes, "seed {seed}: most takes have their kill: {tally:?}");
    println!("{takes} takes in {:?}: {tally:?}; answered by {by:?}", began.elapsed());
    terminal.exit();
    story.settle();
}
