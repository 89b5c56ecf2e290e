//! A labelled set: messages with the conversation that each came into, two independent labellings, and answers as a model gave
//! them. JSON lines, so that a diff shows the one message that changed.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Ts;
use crate::context;
use crate::ids::{IdKey, MessageId, ThreadId, TurnId, sha256_hex};
use crate::page::event::{Actor, Author, Body, By, Event};
use crate::page::view::{Thread, View};
use crate::refused::Refused;
use crate::session::journal::Sort;
use crate::text::{self, Fence};

/// The file of the messages.
pub const MESSAGES: &str = "messages.jsonl";
/// The files of the two labellings.
pub const LABELS: [&str; 2] = ["labels-a.jsonl", "labels-b.jsonl"];
/// The file of the recorded answers.
pub const ANSWERS: &str = "answers.jsonl";

/// A message of the set.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Message {
    /// Its id in the set.
    pub id: String,
    /// What kind of message it is.
    pub kind: String,
    /// Its language.
    pub language: String,
    /// What the session's conversation holds, and what main is doing now.
    pub context: String,
    /// What was said in the thread before.
    #[serde(default)]
    pub thread: Vec<Said>,
    /// What the user wrote.
    pub text: String,
}

/// What was said in a thread before.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Said {
    /// Who said it.
    pub by: Speaker,
    /// The text.
    pub text: String,
}

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speaker {
    /// The user.
    User,
    /// The session.
    Agent,
}

/// How somebody who knows the rules would sort a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The message's id.
    #[serde(skip_serializing)]
    pub id: String,
    /// The sort.
    pub sort: Sort,
    /// Why.
    #[serde(default)]
    pub why: String,
}

/// How answers came to be: the first line of their file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The client, with its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// How they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// Which wording of the question they answer ([`wording`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// Returns the name of a question's wording: it changes with every word of its constant part.
pub fn wording(question: &str) -> String {
    sha256_hex(question.as_bytes())[..12].to_owned()
}

/// A model's answer as it was given, or how asking for it failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// What was asked about: a message's id, or a pair's.
    pub id: String,
    /// The answer, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// What the call said instead of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What it cost, tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// How long it took, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

/// Recorded answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// How they came to be, where the file says so.
    pub header: Header,
    /// The answers, by what was asked about.
    pub by_id: BTreeMap<String, Answer>,
}

/// A labelling, by message.
pub type Labels = BTreeMap<String, Label>;

/// A labelled set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// The messages.
    pub messages: Vec<Message>,
    /// The two labellings.
    pub labels: [Labels; 2],
}

impl Set {
    /// Reads a set from its files' texts.
    ///
    /// # Errors
    /// A sentence with file and line where one can't be read, or where ids don't fit together.
    pub fn read(messages: &str, labels: [&str; 2]) -> Result<Set, Refused> {
        let messages: Vec<Message> = rows(MESSAGES, messages)?;
        let mut known = BTreeSet::new();
        if let Some(twice) = messages.iter().find(|message| !known.insert(message.id.as_str())) {
            return Err(twofold(MESSAGES, &twice.id));
        }
        let read = |number: usize| -> Result<Labels, Refused> {
            let mut found = Labels::new();
            for label in rows::<Label>(LABELS[number], labels[number])? {
                if !known.contains(label.id.as_str()) {
                    return Err(stray(LABELS[number], &label.id));
                }
                if let Some(twice) = found.insert(label.id.clone(), label) {
                    return Err(twofold(LABELS[number], &twice.id));
                }
            }
            Ok(found)
        };
        let labels = [read(0)?, read(1)?];
        Ok(Set { messages, labels })
    }
}

impl Answers {
    /// Reads recorded answers; `known` tells what was asked about.
    ///
    /// # Errors
    /// A sentence with file and line where one can't be read, answers twice, or answers what was never asked.
    pub fn read(name: &str, text: &str, known: impl Fn(&str) -> bool) -> Result<Answers, Refused> {
        #[derive(Deserialize)]
        struct Id {
            id: Option<serde_json::Value>,
        }
        let first = text.split('\n').next().unwrap_or_default();
        let headed = serde_json::from_str::<Id>(first).is_ok_and(|row| row.id.is_none());
        let header = if headed { serde_json::from_str(first).unwrap_or_default() } else { Header::default() };
        let mut by_id = BTreeMap::new();
        for answer in rows_from::<Answer>(name, text, usize::from(headed))? {
            if !known(&answer.id) {
                return Err(stray(name, &answer.id));
            }
            if answer.answer.is_none() && answer.failed.is_none() {
                let id = text::one_line(&answer.id);
                return Err(Refused::input(format!(
                    "{name}: {id} has neither `answer` nor `failed`: is it a file of answers?"
                )));
            }
            if let Some(twice) = by_id.insert(answer.id.clone(), answer) {
                return Err(twofold(name, &twice.id));
            }
        }
        Ok(Answers { header, by_id })
    }
}

fn rows<T: DeserializeOwned>(name: &str, text: &str) -> Result<Vec<T>, Refused> {
    rows_from(name, text, 0)
}

fn rows_from<T: DeserializeOwned>(name: &str, text: &str, skip: usize) -> Result<Vec<T>, Refused> {
    let lines = text.split('\n').enumerate().skip(skip).filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line)| {
        serde_json::from_str(line)
            .map_err(|error| Refused::input(format!("{name}, line {}: {error}: correct that line", at + 1)))
    };
    lines.map(read).collect()
}

fn stray(name: &str, id: &str) -> Refused {
    Refused::input(format!(
        "{name} names {}, which is not in what is evaluated: take that line out",
        text::one_line(id)
    ))
}

fn twofold(name: &str, id: &str) -> Refused {
    Refused::input(format!("{name} has {} twice: take one of the lines out", text::one_line(id)))
}

/// Returns what a model is asked about a message of the set. The session's conversation, which a line fork has before it (R20), is
/// told first, in short; the question behind it is the product's own, word for word.
///
/// # Errors
/// Where the system gives no random bytes.
pub fn question(message: &Message, now: Ts) -> std::io::Result<String> {
    let fence = Fence::around(std::iter::once(message.context.as_str()))?;
    let told = fence.fenced(
        "This is a session of a coding agent at work. Its conversation so far, told in short instead of in full:",
        &message.context,
    );
    let thread = thread(message, now).ok_or_else(|| std::io::Error::other("the message makes no thread"))?;
    Ok(format!("{told}\n{}", context::question(&thread)?))
}

/// Returns the thread as leaf would have it: folded from the events that it would consist of.
fn thread(message: &Message, now: Ts) -> Option<Thread> {
    // The same message has the same ids at every asking.
    let digest = sha256_hex(message.id.as_bytes());
    let key = IdKey(u64::from_str_radix(&digest[..16], 16).unwrap_or_default());
    let id = ThreadId::from(key.id(1));
    let own = Said { by: Speaker::User, text: message.text.clone() };
    let mut view = View::default();
    let mut waits: Option<MessageId> = None;
    // A thread begins with the user.
    let begun = message.thread.iter().skip_while(|said| said.by == Speaker::Agent);
    for (seq, said) in (1..).zip(begun.chain([&own])) {
        let event = key.id(seq);
        let (author, body) = match said.by {
            Speaker::User => {
                waits = Some(event.into());
                let title = (seq == 1).then(|| text::clip(&said.text, text::TITLE));
                let (text, owes, main_owed) = (said.text.clone(), true, false);
                (Author::User, Body::Message { thread: id, text, owes, title, main_owed })
            }
            Speaker::Agent => {
                let actor =
                    Actor { turn: TurnId(0), session: None, generation: None, by: By::Main, name: None, agent: None };
                // What an agent says where nothing waits answers nothing.
                let (text, responds) = (said.text.clone(), waits.take());
                (Author::Agent, Body::Reply { thread: id, text, responds, actor })
            }
        };
        view.apply(&Event { seq, id: event, ts: now, author, body });
    }
    view.threads.remove(&id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::prompts;

    fn message(thread: &[(Speaker, &str)]) -> Message {
        let said = |(by, text): &(Speaker, &str)| Said { by: *by, text: (*text).to_owned() };
        Message {
            id: "m001".to_owned(),
            kind: "question".to_owned(),
            language: "en".to_owned(),
            context: "Main runs the tests of the parser.".to_owned(),
            thread: thread.iter().map(said).collect(),
            text: "Which port is it?".to_owned(),
        }
    }

    #[test]
    fn the_question_is_the_products_own_behind_the_conversation() {
        let asked = question(&message(&[]), Ts(0)).unwrap();
        let constant = prompts::question("");
        let (before, behind) = asked.split_once(constant.trim_end()).expect("the product's question, word for word");
        assert!(before.contains("Main runs the tests of the parser."), "{before}");
        assert!(behind.contains("Which port is it?") && !behind.contains("tests of the parser"), "{behind}");
    }

    #[test]
    fn an_earlier_answer_covers_what_stood_before_it() {
        let asked = question(
            &message(&[(Speaker::User, "first"), (Speaker::Agent, "an answer"), (Speaker::User, "second")]),
            Ts(0),
        )
        .unwrap();
        assert!(asked.contains("an answer") && asked.contains("second") && asked.contains("Which port is it?"));
        assert!(asked.contains("The last answer of thread"), "{asked}");
        assert!(!asked.contains("\nfirst\n"), "an answered message does not wait: {asked}");
    }

    #[test]
    fn what_does_not_fit_together_is_told_by_file_and_line() {
        let row = r#"{"id":"m1","kind":"k","language":"en","context":"c","text":"t"}"#;
        let label = r#"{"id":"m1","sort":"now","why":"w"}"#;
        assert!(Set::read(row, [label, label]).is_ok());
        let refused = |messages: &str, label: &str| Set::read(messages, [label, label]).unwrap_err().sentence;
        assert!(refused(&format!("{row}\n{row}\n"), label).contains("m1 twice"));
        assert!(refused(row, r#"{"id":"m2","sort":"now"}"#).contains("names m2"));
        assert!(refused(&format!("{row}\n{{"), label).starts_with("messages.jsonl, line 2: "));
        assert!(refused(row, r#"{"id":"m1","sort":"later"}"#).starts_with("labels-a.jsonl, line 1: "));
    }

    #[test]
    fn answers_may_begin_with_how_they_came_to_be() {
        let rows = "{\"model\":\"m\",\"how\":\"by hand\"}\n{\"id\":\"m1\",\"answer\":\"x\"}\n{\"id\":\"m2\",\"failed\":\"late\"}\n";
        let answers = Answers::read("answers.jsonl", rows, |_| true).unwrap();
        assert_eq!(answers.header.model.as_deref(), Some("m"));
        assert_eq!(answers.by_id["m1"].answer.as_deref(), Some("x"));
        assert_eq!(answers.by_id["m2"].failed.as_deref(), Some("late"));
        assert!(Answers::read("answers.jsonl", rows, |id| id == "m1").is_err());
    }
}
