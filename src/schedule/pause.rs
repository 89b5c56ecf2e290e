//! Pauses: which prompts are the person's own doing and begin a new one, and what of a Stop's background holds it.

use super::record::{Change, Filter, Record};
use super::select::millis;
use crate::client::{Prompted, Task};
use crate::clock::Ts;
use crate::ids::AgentId;
use crate::place::Env;
use crate::session::state::State;

/// How long a notification that nobody knows may come of a wake of ours, milliseconds.
const WAKE_GRACE: i64 = 20_000;

/// Tells why a prompt begins a new pause; `None`: it goes on with the one there is. A wake of ours is decided by what it delivers.
pub fn prompted(prompted: &Prompted, state: &State, now: Ts) -> Option<&'static str> {
    let woken = state.schedule.woke.is_some_and(|woke| (0..WAKE_GRACE).contains(&(now.since(woke))));
    match prompted {
        Prompted::Person => Some("prompt"),
        Prompted::Woken => None,
        Prompted::Notification(of) if is_own(&of.agent, of.tool_use.as_deref(), state) => None,
        Prompted::Notification(_) | Prompted::Client => (!woken).then_some("notification"),
    }
}

/// What a Stop says to the schedule: forks of ours in the background don't count.
pub fn stopped(background: &[Task], state: &State) -> Change {
    let background = background.iter().filter(|task| !is_own(&task.id, None, state)).map(|task| task.id.clone());
    Change::Stopped { background: background.collect() }
}

/// A pause as somebody counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Since when its idle deadlines count.
    pub from: Ts,
    /// Until when work in the session's background holds it.
    pub held: Option<Ts>,
}

impl Pause {
    /// When an idle deadline of so many seconds passes.
    pub fn deadline(self, seconds: u64) -> Ts {
        let at = self.from.plus(millis(seconds));
        self.held.map_or(at, |held| at.max(held))
    }
}

/// Returns a session's pause; `None` where it is not idle, or its background holds it for as long as that lasts. `holds`: whether work
/// there holds it, for `timeout` seconds at most (0: as long as it lasts).
pub fn pause(record: &Record, holds: bool, timeout: u64) -> Option<Pause> {
    let stopped = record.stopped.filter(|_| record.is_open())?;
    let first = record.first_stop.unwrap_or(stopped);
    if !holds {
        return Some(Pause { from: first, held: None });
    }
    if record.background.is_empty() {
        return Some(Pause { from: record.since.unwrap_or(stopped), held: None });
    }
    if timeout == 0 {
        return None;
    }
    let newest = record.background.values().max().copied().unwrap_or(stopped);
    let held = newest.plus(millis(timeout));
    // A further Stop doesn't restart it.
    Some(Pause { from: record.since.unwrap_or(held.max(first)), held: Some(held) })
}

/// Reads which forks the client's environment lets run: `LEAF_ENABLE_TAGS`, `LEAF_DISABLE_TAGS`, or by the names that autofork's users
/// know. A list of nothing is none.
pub fn filter(env: &Env) -> Filter {
    let list = |name: &str| {
        let text = env.text(&format!("LEAF_{name}")).or_else(|| env.text(&format!("AUTOFORK_{name}")))?;
        let mut tags: Vec<String> = Vec::new();
        for tag in text.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
            if !tags.iter().any(|other| other == tag) {
                tags.push(tag.to_owned());
            }
        }
        (!tags.is_empty()).then_some(tags)
    };
    Filter { enable: list("ENABLE_TAGS"), disable: list("DISABLE_TAGS") }
}

/// Whether an agent, or the tool use that started it, is one of ours.
fn is_own(agent: &str, tool_use: Option<&str>, state: &State) -> bool {
    let tool = tool_use.is_some_and(|tool| state.forks.iter().any(|turn| turn.tool_use.as_deref() == Some(tool)));
    let Ok(agent) = agent.parse::<AgentId>() else { return tool };
    tool || state.agents.contains_key(&agent) || scheduled(&state.schedule, &agent)
}

fn scheduled(record: &Record, agent: &AgentId) -> bool {
    record.run_of(agent).is_some()
}
