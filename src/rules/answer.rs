//! What an answer answers (section 2, R63).

use crate::ids::{MessageId, SessionId};
use crate::page::event::{Actor, Author, By};
use crate::page::view::{Message, Thread};
use crate::refused::Refused;

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The same answer stands already, as this reply (R10).
    Repeat(MessageId),
    /// It is new, and answers this message.
    New(MessageId),
}

/// Decides an answer to a message. `own` tells whether an actor is the one that answers, in this turn or an earlier (R10).
///
/// # Errors
/// Where the message is no user's, is withdrawn (R8), or is answered with other words (R10).
pub fn to_message(
    thread: &Thread,
    message: &Message,
    text: &str,
    own: impl Fn(&Actor) -> bool,
) -> Result<Answer, Refused> {
    let way_out = format!("leaf thread reply {} TEXT --unasked", thread.id);
    if message.author != Author::User {
        return Err(Refused::input(format!(
            "{} is an agent's message, and an answer names a user's: to add to it, {way_out}",
            message.id
        ))
        .of(thread.id));
    }
    if message.withdrawn.is_some() {
        return Err(Refused::by(
            "R8",
            format!(
                "the user took message {} back, so that it needs no answer: to say something all the same, {way_out}",
                message.id
            ),
        )
        .of(thread.id));
    }
    let earlier = thread.messages.iter().find(|reply| reply.responds == Some(message.id));
    if let Some(earlier) = earlier
        && earlier.actor.as_ref().is_some_and(&own)
        && earlier.text == text
    {
        return Ok(Answer::Repeat(earlier.id));
    }
    if let Some(by) = message.answered.or(earlier.map(|reply| reply.id)) {
        return Err(Refused::by(
            "R10",
            format!("message {} is answered already, by {by}: to add to that, {way_out}", message.id),
        )
        .of(thread.id));
    }
    Ok(Answer::New(message.id))
}

/// Returns the message for which a thread's id stands: its newest waiting one that main picked up, else its newest waiting
/// one (R63). Where nothing waits and main's newest answer has the same text, it is that answer once more (R10).
///
/// # Errors
/// Where nothing waits.
pub fn of_thread<'a>(thread: &'a Thread, session: Option<&SessionId>, text: &str) -> Result<&'a Message, Refused> {
    let got = |message: &&Message| session.is_some_and(|session| message.got_by_main(session).is_some());
    let newest = thread.waiting().rev().find(got).or_else(|| thread.waiting().next_back());
    let again = || {
        let answer = thread.messages.iter().rev().find(|reply| reply.responds.is_some())?;
        let mains = answer.actor.as_ref().is_some_and(|actor| actor.by == By::Main);
        answer.responds.filter(|_| mains && answer.text == text).and_then(|id| thread.message(id))
    };
    newest.or_else(again).ok_or_else(|| {
        Refused::by(
            "R63",
            format!(
                "nothing waits in thread {0}: to say something all the same, leaf thread reply {0} TEXT --unasked",
                thread.id
            ),
        )
        .of(thread.id)
    })
}

/// Returns what the writer of an answer is told: which messages came since and still wait (R7), and which the answer covers
/// that main never got (R63). `thread` is as it was before the answer.
pub fn notes(thread: &Thread, responds: MessageId, session: Option<&SessionId>, fork: Option<&Actor>) -> Vec<String> {
    let Some(until) = thread.message(responds).map(|message| message.seq) else { return Vec::new() };
    let listed =
        |messages: Vec<&Message>| messages.iter().map(|message| message.id.to_string()).collect::<Vec<_>>().join(", ");
    let mut notes = Vec::new();
    let later: Vec<&Message> = thread.waiting().filter(|message| message.seq > until).collect();
    if !later.is_empty() {
        notes.push(format!(
            "{} came since and still waits: {}",
            crate::text::count(later.len(), "message"),
            listed(later)
        ));
    }
    let unseen: Vec<&Message> = thread
        .input()
        .filter(|message| message.seq <= until)
        .filter(|message| fork.is_none() && session.is_none_or(|session| message.got_by_main(session).is_none()))
        .collect();
    if !unseen.is_empty() {
        notes.push(format!("this answer covers what main had not got yet: {}", listed(unseen)));
    }
    let owed: Vec<&Message> =
        thread.waiting().filter(|message| message.seq < until && thread.open_todo(message.id).is_some()).collect();
    if !owed.is_empty() {
        notes.push(format!("it doesn't cover what has an open to-do; answer these by their ids: {}", listed(owed)));
    }
    notes
}
