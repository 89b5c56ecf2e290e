//! The end of a fork's run (section 13): its judgement, and what main hears of it.

use super::holding::{Reading, picked_up_by};
use crate::page::view::Thread;
use crate::session::journal::{ClerkLine, Outcome};
use crate::session::state::ForkTurn;
use crate::text;

/// Judges a run that ends, per thread by the messages that it itself picked up; withdrawn, settled and not owing ones are left out
/// (R81). A run that leaf did not start is judged by what it wrote (R45).
pub fn judge(reading: &Reading<'_>, turn: &ForkTurn) -> Outcome {
    let mut worst = None;
    let picked = reading.view.threads.values().any(|thread| picked_up_by(thread, turn.id).next().is_some());
    for thread in reading.view.in_order() {
        let judged = judge_thread(thread, turn, picked);
        worst = worst.max(judged);
    }
    match worst {
        Some(Weight::HandBack) => Outcome::HandBack,
        Some(Weight::TakenOver) => Outcome::TakenOver,
        Some(Weight::Todo) => Outcome::Todo,
        Some(Weight::Answer) => Outcome::Answer,
        None => Outcome::Void,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Answer,
    Todo,
    TakenOver,
    HandBack,
}

/// `picked`: the run picked up something, here or elsewhere; else it is judged by what it wrote.
fn judge_thread(thread: &Thread, turn: &ForkTurn, picked: bool) -> Option<Weight> {
    let mine = |actor: Option<&crate::page::event::Actor>| actor.is_some_and(|actor| actor.turn == turn.id);
    let opened = thread.todos.iter().any(|todo| todo.is_open() && todo.source.is_some() && mine(todo.actor.as_ref()));
    let replied = thread.messages.iter().any(|reply| reply.responds.is_some() && mine(reply.actor.as_ref()));
    let mut judged = picked_up_by(thread, turn.id)
        .filter(|message| message.withdrawn.is_none() && message.settled.is_none() && message.owes)
        .peekable();
    if judged.peek().is_none() {
        return match (opened, !picked && replied) {
            (true, _) => Some(Weight::Todo),
            (false, true) => Some(Weight::Answer),
            (false, false) => None,
        };
    }
    let holds = thread.holding_take().is_some_and(|take| take.actor.turn == turn.id);
    let (mut left, mut others) = (false, false);
    for message in judged {
        if message.waits() {
            // With an open to-do it stands outside (R96), after one it is main's (R97): nobody holds it, and main owes it.
            if thread.open_todo(message.id).is_none() && !message.is_returned() {
                if holds { left = true } else { others = true }
            }
            continue;
        }
        let answer = message.answered.and_then(|id| thread.message(id));
        others |= !answer.is_some_and(|answer| mine(answer.actor.as_ref()));
    }
    Some(if left {
        Weight::HandBack
    } else if others {
        Weight::TakenOver
    } else if opened {
        Weight::Todo
    } else {
        Weight::Answer
    })
}

/// What main hears of an end, and whether it is woken (R82 to R85).
pub fn line(reading: &Reading<'_>, turn: &ForkTurn, outcome: Outcome, reason: &str) -> Option<ClerkLine> {
    let name = text::one_line(&turn.name);
    let thread = turn.thread.as_ref().and_then(|(_, id)| reading.view.threads.get(id));
    let id = thread.map_or_else(|| "a thread".to_owned(), |thread| format!("thread {}", thread.id));
    match outcome {
        Outcome::Answer => {
            let owes = thread.is_some_and(|thread| thread.owing().is_some());
            let rest = if owes { "" } else { " It owes nothing." };
            let look = thread.map_or_else(String::new, |thread| {
                format!(" To correct it: leaf page state {0}, then leaf thread reply {0} TEXT --unasked.", thread.id)
            });
            Some(ClerkLine::new(format!("fork {name} answered {id}.{rest}{look}")))
        }
        Outcome::Todo => {
            let todo = thread.and_then(|thread| {
                thread
                    .todos
                    .iter()
                    .rev()
                    .find(|todo| todo.is_open() && todo.actor.as_ref().is_some_and(|actor| actor.turn == turn.id))
            })?;
            Some(ClerkLine {
                quote: Some(todo.title.clone()),
                wake: true,
                todo: Some((reading.page.clone(), todo.id)),
                ..ClerkLine::new(format!("fork {name} left to-do {} in {id}:", todo.id))
            })
        }
        Outcome::HandBack => {
            let quote = (!reason.is_empty()).then(|| reason.to_owned());
            let colon = if quote.is_some() { ":" } else { "." };
            Some(ClerkLine {
                quote,
                wake: true,
                ..ClerkLine::new(format!("fork {name} handed {id} back to you{colon}"))
            })
        }
        Outcome::TakenOver | Outcome::Void => None,
    }
}

/// Returns the reason of a hand back: what stands behind `HAND BACK:` where the run's final text begins so, else what failed,
/// else that it ended silent (R84).
pub fn reason(last_text: &str, failed: bool) -> String {
    let text = last_text.trim();
    match text.strip_prefix("HAND BACK:") {
        Some(reason) if !reason.trim().is_empty() => reason.trim().to_owned(),
        _ if failed && text.is_empty() => "its run failed".to_owned(),
        _ if failed => format!("its run failed: {text}"),
        _ if text.is_empty() => "it ended without a word".to_owned(),
        _ => format!("it ended without an answer; its last words: {text}"),
    }
}

/// Returns who took over what a turn had, for the journal (R85).
pub fn taken_by(reading: &Reading<'_>, turn: &ForkTurn) -> Option<String> {
    let (_, id) = turn.thread.as_ref()?;
    let take = reading.view.threads.get(id)?.takes.iter().rev().find(|take| take.actor.turn != turn.id)?;
    Some(match &take.actor.name {
        Some(name) => format!("taken over by fork {name}"),
        None => format!("taken over by main, turn {}", take.actor.turn),
    })
}
