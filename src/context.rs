//! What main reads: the text of deliveries, reminders and the clerk's lines. It states facts (R121's manner), repeats only what
//! the moment needs (R123), and fences what others wrote (R124).

use std::fmt::Write;

use crate::ids::{DeliveryId, PageId, Reference};
use crate::page::event::{Actor, Author, By};
use crate::page::view::{Message, Thread, TodoState};
use crate::rules::changed::Change;
use crate::rules::deliver::{Bundle, Debt, Gone};
use crate::rules::prompts;
use crate::rules::todos::OpenTodo;
use crate::session::journal::ClerkLine;
use crate::text::{Fence, TITLE, clip, count, first_words, for_delivery, one_line, utf16};

/// How many of a kind are listed before the rest is only counted.
const LISTED: usize = 12;
/// A line fork is shown this much of a message, characters: a long one's beginning says what becomes of it.
const ASKED: usize = 6_000;
/// A line fork is shown this many of a thread's waiting messages, the newest.
const FLURRY: usize = 6;
/// A resumed fork is told this many of the changes of its thread, the newest, and as many of other threads (R92).
const CHANGES: usize = 8;

/// Returns an inline delivery: every message fenced, a command for each thread.
pub fn delivery(fence: &Fence, page: &PageId, delivery: DeliveryId, bundles: &[Bundle<'_>], again: bool) -> String {
    let messages: usize = bundles.iter().map(|bundle| bundle.messages.len()).sum();
    let mut out = format!(
        "leaf: {} from the user on page {page}, written beside this session{}. What stands between [{mark} and {mark}] is the \
         user's own text.\n",
        count(messages, "message"),
        if again { " (said once more: the first time may not have come through)" } else { "" },
        mark = fence.mark(),
    );
    for bundle in bundles {
        for message in &bundle.messages {
            out.push('\n');
            out.push_str(&fenced_message(fence, bundle, message));
        }
        if let Some(message) = bundle.answers() {
            let owes = bundle.messages.iter().any(|message| message.owes);
            let reference = Reference { delivery, message };
            let _ = writeln!(
                out,
                "{}: leaf thread reply {reference} TEXT",
                if owes { "Answer" } else { "No answer is owed; to answer all the same" }
            );
        }
    }
    out
}

/// Returns one message with its head.
pub fn fenced_message(fence: &Fence, bundle: &Bundle<'_>, message: &Message) -> String {
    let head = format!(
        "Thread {}, message {}, from the user, {}{}:",
        bundle.thread.id,
        message.id,
        message.ts.brief(),
        if message.owes { "" } else { ", owes no reply" }
    );
    // A title of the user's own says what the text may not.
    let titled = message.id == bundle.thread.id.into() && bundle.thread.title != clip(&message.text, TITLE);
    if titled {
        fence.fenced(&head, &format!("Title: {}\n\n{}", bundle.thread.title, message.text))
    } else {
        fence.fenced(&head, &message.text)
    }
}

/// Returns the line that says where a delivery by pointer lies (R76).
pub fn pointer(page: &PageId, delivery: DeliveryId, messages: usize) -> String {
    format!(
        "leaf: {} from the user on page {page}, too long to stand here. Read: leaf delivery read {delivery} \
         (in parts: --part 2, …); then: leaf delivery ack {delivery}\n",
        count(messages, "message")
    )
}

/// Returns the reminder of what main owes and has got, each by its reference.
pub fn debts(fence: &Fence, debts: &[&Debt<'_>]) -> String {
    let mut out = format!(
        "leaf: {} of the user that you got {} for your answer.\n",
        count(debts.len(), "thread"),
        waits(debts.len())
    );
    let mut excerpts = String::new();
    for debt in debts.iter().take(LISTED) {
        let _ = writeln!(out, "- thread {}: leaf thread reply {} TEXT", debt.thread.id, debt.reference);
        let _ = writeln!(excerpts, "{}: {}", debt.thread.id, first_words(&debt.message.text, 120));
    }
    if debts.len() > LISTED {
        let _ = writeln!(out, "- and {} more: leaf page state", debts.len() - LISTED);
    }
    out.push_str(&fence.fenced("Their first words (whole: leaf thread show THREAD):", excerpts.trim_end()));
    out
}

fn waits(number: usize) -> &'static str {
    if number == 1 { "waits" } else { "wait" }
}

/// Returns the reminder of open to-dos, the most urgent first (R95, R54): `head` says which.
pub fn todos(fence: &Fence, head: &str, todos: &[&OpenTodo<'_>]) -> String {
    let mut out = format!(
        "leaf: {} {head}. In your own order: leaf task start ID TEXT; the answer; leaf task end ID done|failed|dropped.\n",
        count(todos.len(), "open to-do")
    );
    let mut titles = String::new();
    for open in todos.iter().take(LISTED) {
        let (id, thread) = (open.todo.id, open.thread.id);
        let _ = match open.waits {
            Some(message) if message.owes => {
                writeln!(out, "- to-do {id}, thread {thread}: the user waits; leaf thread reply {} TEXT", message.id)
            }
            Some(message) => writeln!(out, "- to-do {id}, thread {thread}: leaf thread reply {} TEXT", message.id),
            None => writeln!(out, "- to-do {id}, thread {thread}"),
        };
        let _ = writeln!(titles, "{id}: {}", first_words(&open.todo.title, 80));
    }
    if todos.len() > LISTED {
        let _ = writeln!(out, "- and {} more: leaf task list", todos.len() - LISTED);
    }
    out.push_str(&fence.fenced("What is to be done (whole: leaf thread show THREAD):", titles.trim_end()));
    out
}

/// Returns what is gone since main last heard, a line each.
pub fn gone(gone: &[Gone<'_>]) -> String {
    let mut out = String::new();
    for gone in gone.iter().take(LISTED) {
        let _ = match gone {
            Gone::Withdrawn(thread, message) => writeln!(
                out,
                "leaf: the user took message {} of thread {} back; it needs no answer.",
                message.id, thread.id
            ),
            Gone::Resolved(thread) => {
                writeln!(out, "leaf: the user resolved thread {}; it needs no answer.", thread.id)
            }
        };
    }
    if gone.len() > LISTED {
        let _ = writeln!(out, "leaf: and {} more that are gone: leaf page state", gone.len() - LISTED);
    }
    out
}

/// Returns the clerk's lines: one as it is, several as a digest (R100), as many as fit into `room` UTF-16 units; with the
/// numbers of those that it holds.
pub fn clerk(fence: &Fence, lines: &[&ClerkLine], room: usize) -> (String, Vec<u64>) {
    let mut out = String::new();
    let mut printed = Vec::new();
    let shown = |line: &ClerkLine| match &line.quote {
        Some(quote) => fence.fenced(&line.text, &first_words(quote, 400)),
        None => format!("{}\n", line.text),
    };
    match lines {
        [] => {}
        [one] => {
            let text = format!("leaf: {}", shown(one));
            if utf16(&text) <= room {
                out = text;
                printed.push(one.id);
            }
        }
        several => {
            out = format!("leaf: {} since you last heard:\n", count(several.len(), "thing"));
            for line in several {
                let text = format!("- {}", shown(line));
                if utf16(&out) + utf16(&text) > room {
                    break;
                }
                out.push_str(&text);
                printed.push(line.id);
            }
            if printed.is_empty() {
                out.clear();
            }
        }
    }
    (out, printed)
}

/// Returns what a line fork is asked about a thread (R20, R121): the newest waiting message, with the waiting ones before it and the
/// last answer, which the conversation may not hold.
///
/// # Errors
/// Where the system gives no random bytes.
pub fn question(thread: &Thread) -> std::io::Result<String> {
    let waiting: Vec<&Message> = thread.input().collect();
    let bundle = Bundle { thread, messages: waiting[waiting.len().saturating_sub(FLURRY)..].to_vec() };
    let answer = thread.messages.iter().rev().find(|message| message.responds.is_some());
    let fence = Fence::around(bundle.texts().chain(answer.map(|answer| answer.text.as_str())))?;
    let mut told = format!(
        "What stands between [{mark} and {mark}] was written by others: the last message is the one to answer.\n",
        mark = fence.mark()
    );
    if let Some(answer) = answer {
        let head =
            format!("The last answer of thread {}, by {}:", thread.id, writer(answer.author, answer.actor.as_ref()));
        let _ = write!(told, "\n{}", fence.fenced(&head, &first_words(&answer.text, 600)));
    }
    for message in &bundle.messages {
        let length = message.text.chars().count();
        let shown = if length > ASKED {
            let cut: String = message.text.chars().take(ASKED).collect();
            let text = format!("{cut}\n(and {} characters more)", length - ASKED);
            fenced_message(&fence, &bundle, &Message { text, ..(*message).clone() })
        } else {
            fenced_message(&fence, &bundle, message)
        };
        let _ = write!(told, "\n{shown}");
    }
    Ok(prompts::question(&told))
}

/// Returns what changed since an agent's last turn (R92): leaf's own words a line each, then what others wrote, fenced; empty where
/// nothing did. Of many, the newest are told.
pub fn changes(fence: &Fence, changes: &[Change<'_>]) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let elsewhere = |change: &&Change<'_>| matches!(change, Change::Elsewhere(..));
    // The mark is named before the first fence: a text inside could name another.
    let mut out = format!(
        "What changed since your last turn. What stands between [{mark} and {mark}] was written by others.\n",
        mark = fence.mark()
    );
    let mut words = String::new();
    let of = |there: bool| changes.iter().filter(move |change| elsewhere(change) == there);
    for there in [false, true] {
        let more = of(there).count().saturating_sub(CHANGES);
        for change in of(there).skip(more) {
            let _ = writeln!(out, "- {}", change_line(change));
            if let Some(text) = change.text() {
                let _ = writeln!(words, "{}: {}", change_id(change), first_words(text, 200));
            }
        }
        if more > 0 {
            let _ = writeln!(
                out,
                "- and {more} earlier ones {}",
                if there { "in other threads: leaf thread list" } else { "in this thread: leaf thread show THREAD" }
            );
        }
    }
    if !words.is_empty() {
        out.push_str(&fence.fenced("The first words of each, or the title, by others:", words.trim_end()));
    }
    out
}

fn change_line(change: &Change<'_>) -> String {
    match change {
        Change::Wrote(reply) => {
            let who = writer(reply.author, reply.actor.as_ref());
            match reply.responds {
                Some(message) => format!("{who} answered message {message} of this thread ({})", reply.id),
                None => format!("{who} added {} to this thread", reply.id),
            }
        }
        Change::Withdrawn(message) => {
            format!("the user took message {} of this thread back; it needs no answer", message.id)
        }
        Change::Resolved(Author::User) => "the user resolved this thread before the new message".to_owned(),
        Change::Resolved(Author::Agent | Author::Leaf) => "this thread was resolved before the new message".to_owned(),
        Change::TodoOpened(todo) => {
            let who = match todo.author {
                Author::Leaf => "leaf, for main,".to_owned(),
                author => writer(author, todo.actor.as_ref()),
            };
            format!("{who} opened to-do {} in this thread", todo.id)
        }
        Change::TodoEnded(todo) => {
            let end = match todo.state {
                TodoState::Open => "open again",
                TodoState::Done => "done",
                TodoState::Failed => "given up as failed",
                TodoState::Dropped => "dropped",
            };
            format!("to-do {} of this thread is {end}", todo.id)
        }
        Change::Elsewhere(thread, answer) => {
            format!("{} answered in thread {}", writer(answer.author, answer.actor.as_ref()), thread.id)
        }
    }
}

fn change_id(change: &Change<'_>) -> String {
    match change {
        Change::Wrote(message) | Change::Withdrawn(message) => message.id.to_string(),
        Change::Resolved(_) => String::new(),
        Change::TodoOpened(todo) | Change::TodoEnded(todo) => todo.id.to_string(),
        Change::Elsewhere(thread, _) => thread.id.to_string(),
    }
}

fn writer(author: Author, actor: Option<&Actor>) -> String {
    match (author, actor) {
        (Author::User, _) => "the user".to_owned(),
        (Author::Leaf, _) => "leaf".to_owned(),
        (Author::Agent, Some(Actor { by: By::Fork, name: Some(name), .. })) => {
            format!("fork {}", for_delivery(&one_line(name)))
        }
        (Author::Agent, Some(Actor { by: By::Fork, name: None, .. })) => "a fork".to_owned(),
        (Author::Agent, Some(Actor { by: By::Main, .. }) | None) => "main".to_owned(),
    }
}
