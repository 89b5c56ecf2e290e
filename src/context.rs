//! What main reads: the text of deliveries, reminders and the clerk's lines. It states facts (R121's manner), repeats only what
//! the moment needs (R123), and fences what others wrote (R124).

use std::fmt::Write;

use crate::ids::{DeliveryId, PageId, Reference};
use crate::page::view::{Message, Todo};
use crate::rules::deliver::{Bundle, Debt, Gone};
use crate::session::journal::ClerkLine;
use crate::text::{Fence, TITLE, clip, count, first_words, utf16};

/// How many of a kind are listed before the rest is only counted.
const LISTED: usize = 12;

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

/// Returns the line about open to-dos that nobody started (R95).
pub fn todos(fence: &Fence, todos: &[&Todo]) -> String {
    let mut out = format!("leaf: {} that nobody started.\n", count(todos.len(), "open to-do"));
    let mut titles = String::new();
    for todo in todos.iter().take(LISTED) {
        let _ = writeln!(titles, "{}: {}", todo.id, first_words(&todo.title, 80));
    }
    if todos.len() > LISTED {
        let _ = writeln!(out, "The first {LISTED}; all: leaf task list");
    }
    out.push_str(&fence.fenced(
        "Take them in your own order: leaf task start ID TEXT, leaf task end ID done|failed|dropped.",
        titles.trim_end(),
    ));
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
pub fn clerk(fence: &Fence, lines: &[ClerkLine], room: usize) -> (String, Vec<u64>) {
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
