//! What a fork may write (section 9), and what main is told when it writes over one (section 10).

use super::holding::{Holder, Reading, took};
use crate::page::event::{Actor, Author, By};
use crate::page::view::{Message, Thread, Todo};
use crate::refused::Refused;

/// Checks a fork's pickup, reply, line or start in a thread: its turn holds it, or nobody does and its turn took it (R55). Kept back
/// counts as held. A run that leaf did not start may write where a turn of its agent is still the last taker (R45).
///
/// # Errors
/// The refusal: R58 where another took the thread since, else R55.
pub fn fork_may(reading: &Reading<'_>, thread: &Thread, fork: &Actor) -> Result<(), Refused> {
    let way_out = "leave the thread to who has it now; what you found out goes into your final text";
    // A pickup may have been written before its turn had an agent: the record knows it.
    let agent = |actor: &Actor| {
        reading.state.fork(actor.turn).and_then(|turn| turn.agent.clone()).or_else(|| actor.agent.clone())
    };
    let by_itself = reading.state.fork(fork.turn).is_some_and(|turn| turn.by_itself);
    let own = |actor: &Actor| {
        let same = actor.by == By::Fork && fork.agent.is_some() && agent(actor) == fork.agent;
        actor.turn == fork.turn || (by_itself && !took(thread, fork.turn) && same)
    };
    if !thread.takes.iter().any(|take| own(&take.actor)) {
        let sentence = format!("thread {} is none of those that your turn took: {way_out}", thread.id);
        return Err(Refused::by("R55", sentence).of(thread.id));
    }
    let by = match thread.last_take().filter(|take| !own(&take.actor)) {
        // Another picked the thread up, or answered over it.
        Some(take) => match (take.actor.by, &take.actor.name) {
            (By::Fork, Some(name)) => format!("fork {name}"),
            (By::Fork, None) => "another fork".to_owned(),
            (By::Main, _) => "main".to_owned(),
        },
        None if reading.kept_back(thread) => "the line fork".to_owned(),
        None => return Ok(()),
    };
    Err(Refused::by("R58", format!("{by} has thread {} now: {way_out}", thread.id)).of(thread.id))
}

/// Checks a fork's answer to a message (R55, R57). The repeat of its own answer was seen to before.
///
/// # Errors
/// The refusal.
pub fn fork_may_answer(reading: &Reading<'_>, thread: &Thread, message: &Message, fork: &Actor) -> Result<(), Refused> {
    let others = message
        .answered
        .and_then(|id| thread.message(id))
        .is_some_and(|answer| answer.actor.as_ref().is_some_and(|actor| actor.turn != fork.turn));
    if others {
        return Err(Refused::by(
            "R57",
            format!(
                "message {} was answered by another: leave it; what you found out goes into your final text",
                message.id
            ),
        )
        .of(thread.id));
    }
    fork_may(reading, thread, fork)
}

/// Checks that a fork ends only to-dos that its agent opened or started (R59).
///
/// # Errors
/// The refusal.
pub fn fork_may_end(thread: &Thread, todo: &Todo, actor: &Actor) -> Result<(), Refused> {
    let own = |other: &Actor| {
        other.by == By::Fork && (other.turn == actor.turn || (other.agent.is_some() && other.agent == actor.agent))
    };
    let opened = todo.author == Author::Agent && todo.actor.as_ref().is_some_and(own);
    if opened || todo.starts.iter().any(|start| own(&start.actor)) {
        return Ok(());
    }
    Err(Refused::by("R59", format!("to-do {} is not yours: leave it to main", todo.id)).of(thread.id))
}

/// Refuses a fork what is never a fork's (R60).
pub fn never_a_forks(what: &str) -> Refused {
    Refused::by("R60", format!("{what} is not a fork's: say in your final text what is to be done"))
}

/// Returns what is said beside a write of main's on a thread that a running fork holds or that is kept back (R63). `answers`:
/// the write is an answer, which takes the thread.
pub fn over(reading: &Reading<'_>, thread: &Thread, answers: bool) -> Option<String> {
    if thread.shared().next().is_none() {
        // A running fork that answered still has the thread (R48).
        let take = thread.last_take().filter(|take| take.actor.by == By::Fork)?;
        let name = take.actor.name.as_deref().unwrap_or("a fork");
        return reading.stands(take.actor.turn).runs().then(|| format!("fork {name} runs on this thread"));
    }
    match reading.holder(thread)? {
        Holder::LineFork if answers => Some("the thread was kept back for the line fork; it is yours now".to_owned()),
        Holder::LineFork => Some("the thread is kept back for the line fork".to_owned()),
        Holder::Fork(actor, state) if state.runs() => {
            let name = actor.name.as_deref().unwrap_or("a fork");
            let stop = format!("to stop it: SendMessage or TaskStop to {name}, a person `leaf fork stop {name}`");
            Some(if answers {
                format!("fork {name} held the thread, and this answer took it; {stop}")
            } else {
                format!("fork {name} holds the thread; {stop}")
            })
        }
        Holder::Fork(..) | Holder::Main(_) => None,
    }
}
