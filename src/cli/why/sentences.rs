//! What happened to a thread, as sentences for a person, each with the rule that it comes from.

use crate::ids::{ThreadId, TurnId};
use crate::page::event::{Actor, Author, Body, By, Event, TodoOutcome};
use crate::page::state::{HolderKind, PageState, Status};
use crate::page::view::{Message, Thread};
use crate::session::journal::{Entry, Evidence, Kind, Outcome, Sort};
use crate::session::state::TurnState;
use crate::text::{self, first_words, one_line};

use super::super::output::cost_words;

/// A sentence, with its rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// What happened.
    pub text: String,
    /// By which rule.
    pub rule: String,
}

fn say(rule: &str, text: String) -> Option<Sentence> {
    Some(Sentence { text, rule: rule.to_owned() })
}

fn actor(actor: Option<&Actor>) -> String {
    match actor {
        Some(Actor { by: By::Fork, name: Some(name), .. }) => format!("fork {}", one_line(name)),
        Some(Actor { by: By::Fork, name: None, .. }) => "a fork".to_owned(),
        Some(Actor { by: By::Main, .. }) | None => "main".to_owned(),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Returns what an event of the page's log tells of a thread; `None` for another thread's, and for what the journal tells better:
/// pickups, and the lines of line forks.
pub fn of_event(event: &Event, thread: &Thread) -> Option<Sentence> {
    let here = |id: &ThreadId| *id == thread.id;
    let id = event.id;
    let by = |of: &Option<Actor>| {
        if event.author == Author::User { "The user".to_owned() } else { capital(&actor(of.as_ref())) }
    };
    match &event.body {
        Body::Message { thread, text, owes, .. } if here(thread) => {
            let owes = if *owes { "" } else { ", which owes no answer" };
            say("R6", format!("The user wrote message {id}{owes}: {}", first_words(text, 80)))
        }
        Body::Withdraw { message } if thread.message(*message).is_some() => {
            let todo = thread.todos.iter().find(|todo| todo.ended == Some(event.seq));
            let todo = todo.map_or(String::new(), |todo| format!(" Its to-do {} is dropped (R97).", todo.id));
            say("R8", format!("The user took message {message} back.{todo}"))
        }
        Body::Resolve { thread } if here(thread) => {
            let who = if event.author == Author::User { "The user" } else { "The agent" };
            say("R9", format!("{who} resolved the thread: nothing of it is owed any more."))
        }
        Body::Reopen { thread } if here(thread) => say("R9", "The thread was opened again.".to_owned()),
        Body::Reply { thread: of, text, responds, actor: who } if here(of) => {
            let words = first_words(text, 80);
            // Main is one, whatever its turn; so is a fork.
            let same = |turn: TurnId| {
                let of = thread.takes.iter().find(|take| take.actor.turn == turn).map(|take| &take.actor);
                turn == who.turn || of.is_some_and(|of| of.by == who.by && of.name == who.name)
            };
            let over = thread
                .takes
                .iter()
                .any(|take| take.seq == event.seq && take.from.is_some_and(|(holder, _)| !same(holder)));
            match responds {
                Some(message) if over => say(
                    "R49",
                    format!(
                        "{} answered message {message} over its holder, and took the thread: {words}",
                        capital(&actor(Some(who)))
                    ),
                ),
                Some(message) => {
                    say("R50", format!("{} answered message {message}: {words}", capital(&actor(Some(who)))))
                }
                None => say("R12", format!("{} wrote, unasked: {words}", capital(&actor(Some(who))))),
            }
        }
        Body::Line { thread, text, actor: Some(who) } if here(thread) => {
            say("R11", format!("{} said what it does: {}", capital(&actor(Some(who))), first_words(text, 80)))
        }
        Body::Start { item, text, actor: who } => {
            let message = thread.messages.iter().any(|message| crate::ids::EventId::from(message.id) == *item);
            let todo = thread.todos.iter().any(|todo| crate::ids::EventId::from(todo.id) == *item);
            let what = match (message, todo) {
                (true, _) => "message",
                (_, true) => "to-do",
                _ => return None,
            };
            say("R11", format!("{} began on {what} {item}: {}", capital(&actor(Some(who))), first_words(text, 80)))
        }
        Body::Todo { thread, title, source, actor: who } if here(thread) => {
            let title = first_words(title, 80);
            let of = source.map_or(String::new(), |source| format!(" of message {source}"));
            match event.author {
                Author::Leaf => say("R95", format!("It became to-do {id}, which main takes in its own order: {title}")),
                _ => say("R94", format!("{} opened to-do {id}{of}: {title}", by(who))),
            }
        }
        Body::TodoEnd { todo, outcome, detail, actor: who } => {
            let of = thread.todos.iter().find(|other| other.id == *todo)?;
            let word = match outcome {
                TodoOutcome::Done => "done",
                TodoOutcome::Failed => "failed",
                TodoOutcome::Dropped => "dropped",
            };
            let detail = detail.as_ref().map_or(String::new(), |detail| format!(": {}", first_words(detail, 80)));
            let again =
                of.source.and_then(|source| thread.message(source)).filter(|message| message.again == event.seq);
            let answered = |message: &&Message| {
                message.answered.and_then(|id| thread.message(id)).is_some_and(|answer| answer.seq < event.seq)
            };
            let again = again.filter(|message| !answered(message));
            let again =
                again.map_or(String::new(), |message| format!(". Message {} is main's input again", message.id));
            say("R97", format!("{} ended to-do {todo} as {word}{detail}{again}.", by(who)))
        }
        _ => None,
    }
}

/// Returns what an entry of the journal tells; `None` for a kind that is no part of a thread's story.
pub fn of_entry(entry: &Entry) -> Option<Sentence> {
    let (rule, text) = entry_words(entry)?;
    let cost = cost_words(entry.cost());
    let cost = if cost.is_empty() { cost } else { format!(" It cost {cost}.") };
    let rule = match (entry.kind, &entry.rule) {
        // The entry names the rule of the form; the sort has one of its own.
        (Kind::Sort, _) | (_, None) => rule.to_owned(),
        (_, Some(rule)) => rule.clone(),
    };
    Some(Sentence { text: format!("{text}{cost}"), rule })
}

fn entry_words(entry: &Entry) -> Option<(&'static str, String)> {
    let who = match (entry.by, &entry.name) {
        (Some(By::Fork), Some(name)) => format!("Fork {}", one_line(name)),
        (Some(By::Fork), None) => "The fork".to_owned(),
        (Some(By::Main) | None, _) => "Main".to_owned(),
    };
    let message = entry.message.map_or_else(|| "the message".to_owned(), |message| format!("message {message}"));
    let why = |colon: &str| entry.why.as_ref().map_or(String::new(), |why| format!("{colon} {}", one_line(why)));
    Some(match entry.kind {
        Kind::Taken => {
            let delivery = entry.delivery.map_or(String::new(), |delivery| format!(" by delivery {delivery}"));
            let way = match (entry.way, &entry.why) {
                (Some(way), Some(why)) => format!(" It runs as {}: {}.", way.word(), one_line(why)),
                (Some(way), None) => format!(" It runs as {}.", way.word()),
                (None, _) => String::new(),
            };
            let rule = if entry.by == Some(By::Fork) { "R27" } else { "R100" };
            (rule, format!("{who} got {}{delivery}.{way}", text::count(entry.messages.len(), "message")))
        }
        Kind::KeptBack => ("R13", "The thread is kept back from main while a line fork is asked.".to_owned()),
        Kind::Line => match &entry.why {
            Some(why) => ("R26", format!("The line fork's line failed: {}.", one_line(why))),
            None => ("R25", format!("The line fork said: {}", one_line(entry.text.as_deref().unwrap_or_default()))),
        },
        Kind::Sort => match entry.sort {
            Some(Sort::Small) => ("R22", format!("It sorted {message} as small: a fork can do all of it beside main.")),
            Some(Sort::Significant) => {
                ("R23", format!("It sorted {message} as significant: it is work of main's, in main's own order."))
            }
            Some(Sort::Now) | None => ("R23", format!("It sorted {message} as now: main gets it at its next step.")),
        },
        Kind::Queued => ("R33", format!("The thread waits for a fork to be free{}.", why(":"))),
        Kind::Handed => ("R16", format!("The thread was handed to main{}.", why(":"))),
        Kind::Named => {
            let agent = entry.agent.as_ref().map_or(String::new(), |agent| format!(" It is agent {agent}."));
            ("R36", format!("{who} has its agent.{agent}"))
        }
        Kind::Renewed => ("R41", format!("{who} goes on.")),
        Kind::Lapsed => ("R43", format!("Nothing was heard of {} for 15 minutes.", lower(&who))),
        Kind::Resting => ("R80", format!("{who} rests while work of its own goes on.")),
        Kind::Ending => ("R78", format!("{who} seems to be over.")),
        Kind::Refused if matches!(entry.rule.as_deref(), Some("R114" | "R115")) => {
            ("R114", format!("{who} was kept from a change:{}.", why("")))
        }
        Kind::Refused if matches!(entry.rule.as_deref(), Some("R114" | "R115")) => {
            ("R114", format!("{who} was kept from a change:{}.", why("")))
        }
        Kind::Refused => ("R55", format!("A write was refused:{}.", why(""))),
        Kind::Ended => {
            let evidence = entry.evidence.map_or("it ended", evidence);
            let outcome = match entry.outcome {
                Some(Outcome::Answer) => " It answered.".to_owned(),
                Some(Outcome::Todo) => " It left a to-do.".to_owned(),
                Some(Outcome::HandBack) => format!(" The thread is main's again{}.", why(":")),
                Some(Outcome::TakenOver) => format!(" Another had the thread by then{}.", why(":")),
                Some(Outcome::Void) => " There was nothing to judge.".to_owned(),
                None => String::new(),
            };
            ("R81", format!("{who}'s turn ended: {evidence}.{outcome}"))
        }
        Kind::Generation
        | Kind::Begun
        | Kind::Agent
        | Kind::Background
        | Kind::Call
        | Kind::Stop
        | Kind::Shown
        | Kind::Told
        | Kind::Continued
        | Kind::Clerk
        | Kind::Printed
        | Kind::Cost
        | Kind::Schedule
        | Kind::Checkpoint
        | Kind::Unknown => return None,
    })
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// Returns how a thread stands now, and who is to act. `queued`: it waits for a fork to be free (R33).
pub fn now(state: &PageState, thread: ThreadId, queued: bool) -> Sentence {
    let status = state.threads.iter().find(|other| other.id == thread).map(|thread| thread.status);
    let owed = state.owed.iter().find(|owed| owed.thread == thread);
    let todos: Vec<String> =
        state.todos.iter().filter(|open| open.thread == thread).map(|open| open.todo.id.to_string()).collect();
    let (rule, text) = match (status, owed) {
        (Some(Status::Resolved), _) if !todos.is_empty() => {
            ("R98", format!("the thread is resolved, and owes nothing; open: to-do {}", todos.join(", ")))
        }
        (Some(Status::Resolved), _) => ("R9", "the thread is resolved, and owes nothing".to_owned()),
        (Some(Status::Todo), Some(owed)) => {
            ("R96", format!("main owes the answer to message {}, by to-do {}", owed.message, todos.join(", ")))
        }
        (Some(Status::Todo), None) => ("R98", format!("nothing is owed; open: to-do {}", todos.join(", "))),
        (_, None) => ("R6", "nothing is owed".to_owned()),
        (_, Some(owed)) => {
            let who = match (owed.owed_by.kind, owed.owed_by.name.as_deref()) {
                (HolderKind::LineFork, _) if queued => "a fork takes it once one is free".to_owned(),
                (HolderKind::LineFork, _) => "the line fork is asked about it".to_owned(),
                (HolderKind::Fork, name) => {
                    let rests = if owed.owed_by.state == Some(TurnState::Resting) { ", which rests," } else { "" };
                    format!("fork {}{rests} owes the answer", one_line(name.unwrap_or("without a name")))
                }
                (HolderKind::Main, _) if owed.reference.is_none() => {
                    "main owes the answer, and gets the message at its next tool boundary, prompt or Stop".to_owned()
                }
                (HolderKind::Main, _) => "main owes the answer".to_owned(),
            };
            ("R52", format!("message {} waits: {who}", owed.message))
        }
    };
    Sentence { text, rule: rule.to_owned() }
}

/// Returns what an end rests on, for a person.
pub fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Stop => "it stopped",
        Evidence::StopFailure => "the model's service failed",
        Evidence::Prompt => "the next prompt came",
        Evidence::Module => "the client said so",
        Evidence::Generation => "the session started anew",
        Evidence::SessionEnd => "the session ended",
        Evidence::Write => "it was opened for one write",
        Evidence::Claim => "the page was claimed",
        Evidence::Client => "its client is gone or doesn't wait for it",
        Evidence::TaskStop => "it was stopped",
        Evidence::Notification => "the client's notification came",
        Evidence::SubagentStop => "its agent stopped",
        Evidence::Missing => "the client no longer lists it",
        Evidence::Unstarted => "its run did not begin within a minute",
        Evidence::Superseded => "nothing was heard of it for 15 minutes, and its thread was taken anew",
        Evidence::Torn => "its pickup was never written",
        Evidence::Failed => "a step of starting it failed",
        Evidence::Process => "its process ended",
        Evidence::Limit => "it took longer than it may, and was stopped",
    }
}
