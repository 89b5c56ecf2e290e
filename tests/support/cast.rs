//! Who asks the scripted model, and what each says next.
//!
//! A [`Cast`] is the script of a [`crate::model::Model`]. Whoever was given no words acts as a good one of its kind: a line fork
//! finds everything small, a working fork answers what it was handed and ends, main answers what it is handed and stops.

use std::collections::VecDeque;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;

use crate::client::{Client, LIMIT, until};
use crate::model::{Reply, Request, references};

/// Who asks the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The session's own conversation.
    Main,
    /// One question about a message, in the session's conversation.
    LineFork,
    /// A working fork.
    Fork,
    /// An agent whose directive begins with `HELPER:`.
    Helper,
    /// A scheduled fork, however it runs.
    Scheduled,
}

/// How a scheduled fork's prompt begins. Main never reads it, but where it starts one itself.
const SCHEDULED: &str = "This is a background copy of the conversation above";

/// Who sent this request. The client's side questions have no tools and never get here.
pub fn who(request: &Request) -> Who {
    if is_question(request) {
        Who::LineFork
    } else if request.opening().contains("HELPER:") {
        Who::Helper
    } else if request.conversation().contains(SCHEDULED) {
        Who::Scheduled
    } else if request.conversation().contains("You are a worker fork") {
        Who::Fork
    } else {
        Who::Main
    }
}

fn is_question(request: &Request) -> bool {
    request.last().contains("The answer is one JSON object")
}

/// What a line fork says: the line and the sort.
pub fn words(line: &str, sort: &str) -> Reply {
    Reply::text(json!({"line": line, "sort": sort}).to_string())
}

/// What a line fork says of work for later: the line and the to-do's title.
pub fn for_later(line: &str, title: &str) -> Reply {
    Reply::text(json!({"line": line, "sort": "significant", "title": title}).to_string())
}

/// A Bash call of `leaf thread reply` to what the actor was handed last.
pub fn reply(text: &str) -> Reply {
    Reply::bash(format!("leaf thread reply REF '{text}'"))
}

/// A call that goes on until the test lets it end with [`let_go`].
pub fn busy(name: &str) -> Reply {
    Reply::bash(format!(
        "python3 -c 'import os,time;open(\"{name}.busy\",\"w\").close();[time.sleep(0.05) for _ in range(1200) if not \
         os.path.exists(\"{name}.go\")]'"
    ))
}

/// Waits until somebody is in the call of that name.
pub fn until_in(client: &Client, name: &str) {
    let sign = client.path(&format!("project/{name}.busy"));
    until(&format!("somebody is in the call {name}"), LIMIT, || sign.exists().then_some(()))
        .unwrap_or_else(|late| panic!("{late}"));
}

/// Lets the call of that name end.
pub fn let_go(client: &Client, name: &str) {
    fs::write(client.path(&format!("project/{name}.go")), "").expect("a file");
}

struct Part {
    who: Who,
    /// Only for requests whose conversation has this in it.
    about: String,
    replies: VecDeque<Reply>,
}

/// What each actor says next, first said first.
///
/// In a Bash call `REF` stands for the newest reference that the actor was handed, `THREAD` for the newest thread, `TODO` for the
/// newest to-do that it was told of, `SOURCE` for the message that is to be answered with it.
#[derive(Clone, Default)]
pub struct Cast(Arc<Mutex<Vec<Part>>>);

impl Cast {
    /// Gives any actor of this kind words for its next requests.
    pub fn says(&self, who: Who, replies: impl IntoIterator<Item = Reply>) {
        self.says_about(who, "", replies);
    }

    /// The same, only for one in whose conversation `about` stands: two forks at once are told apart by it. These words come before
    /// those that are for anyone.
    pub fn says_about(&self, who: Who, about: &str, replies: impl IntoIterator<Item = Reply>) {
        let part = Part { who, about: about.to_owned(), replies: replies.into_iter().collect() };
        let mut parts = self.parts();
        let at = if about.is_empty() { parts.len() } else { 0 };
        // What was given to the same earlier is said first.
        match parts.iter_mut().find(|other| other.who == who && other.about == about) {
            Some(other) => other.replies.extend(part.replies),
            None => parts.insert(at, part),
        }
    }

    /// The same, one reply that is said before those that were given to that actor.
    pub fn says_first(&self, who: Who, about: &str, reply: Reply) {
        self.parts().insert(0, Part { who, about: about.to_owned(), replies: VecDeque::from([reply]) });
    }

    /// The model's next words.
    pub fn next(&self, request: &Request) -> Reply {
        let who = who(request);
        // A line fork is asked about the message in its question, whatever else the session talked about.
        let said = if who == Who::LineFork { request.last() } else { own(who, request) };
        let given = self
            .parts()
            .iter_mut()
            .filter(|part| part.who == who && said.contains(&part.about))
            .find_map(|part| part.replies.pop_front());
        match given {
            Some(reply) => reply.filled(fill(&said)),
            None => of_itself(who, request, &said),
        }
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Part>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the actor itself was told and said: a fork's conversation begins with the session's.
fn own(who: Who, request: &Request) -> String {
    let all = request.conversation();
    let from = match who {
        Who::Fork => all.rfind("You are a worker fork"),
        Who::Scheduled => all.rfind(SCHEDULED),
        Who::Main | Who::LineFork | Who::Helper => None,
    };
    from.map_or(all.clone(), |at| all[at..].to_owned())
}

fn fill(said: &str) -> impl Fn(&str) -> String + '_ {
    move |command| {
        let reference = references(said).pop().unwrap_or_default();
        let thread = said.rsplit_once("Thread ").and_then(|(_, after)| after.get(..8)).unwrap_or_default();
        let filled = command.replace("REF", &reference).replace("THREAD", thread);
        filled.replace("TODO", id_behind(said, "to-do ")).replace("SOURCE", id_behind(said, "leaf thread reply "))
    }
}

/// The last id that stands behind this; a reference is none.
fn id_behind<'s>(said: &'s str, words: &str) -> &'s str {
    let ids = said.rmatch_indices(words).filter_map(|(at, _)| {
        let (id, rest) = said[at + words.len()..].split_at_checked(8)?;
        let whole = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (whole && !rest.starts_with([':', '-'])).then_some(id)
    });
    ids.into_iter().next().unwrap_or_default()
}

fn of_itself(who: Who, request: &Request, said: &str) -> Reply {
    match who {
        Who::LineFork => words("On it, one moment.", "small"),
        Who::Helper => Reply::text("that is all from Helper"),
        Who::Scheduled => Reply::text("that is all from Scheduled"),
        Who::Main => {
            let replies = request.references();
            let replies: Vec<_> =
                replies.iter().map(|reference| format!("leaf thread reply {reference} 'From main.'")).collect();
            if replies.is_empty() { Reply::text("that is all from Main") } else { Reply::bash(replies.join(" && ")) }
        }
        Who::Fork => {
            // One command a call (R69), so that further ones are answered after it.
            let open =
                references(said).into_iter().find(|reference| !said.contains(&format!("thread reply {reference} '")));
            match open {
                Some(reference) => Reply::bash(format!("leaf thread reply {reference} 'From the fork.'")),
                None => Reply::text("that is all from Fork"),
            }
        }
    }
}
