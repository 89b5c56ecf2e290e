//! What line forks and working forks are told (R20 to R23, R92, R99, R121), and by what a fork is known (R29, R36).
//!
//! Each text is one long constant, the same for every message of a session, and behind it what differs: the client's cache holds
//! the constant part, and two requests of a session part only there.

use crate::ids::{ThreadId, TurnId};

/// Where a working fork runs, as far as it can see: a prompt offers only what exists there (R121).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// In the session's own client, where main can be asked.
    Session,
    /// In a process of its own (R118).
    Process,
}

/// The constant part of a line fork's question (R20 to R23).
pub const QUESTION: &str = r#"A message of the user stands at the end of this text. It was written in a thread beside this conversation, while the main thread of this session (called main here) may be in the middle of other work. Main goes on undisturbed: it sees neither this question nor its answer. The user is waiting for first words.

Answer straight away, from what this conversation already holds. There are no tools here, and nothing can be looked up or done now.

The answer is one JSON object, with nothing before or behind it:
{"line": "...", "sort": "small", "title": "..."}

line: one line of 1 to 200 characters, in the language that the user writes in. It is posted in the thread at once, as the session's own first words, in the first person ("I"): what is known already, or what will be done now. For the user all this is one agent: main, forks and the three sorts are words of this text alone and stand nowhere in the line; what main will do, I will do. It claims nothing that is not known and promises nothing that its sort does not bring. Plain text, no greeting.

sort: who deals with the message, one of three words.
- "small": a fork deals with it. A fork is a copy of this session, with its knowledge and its tools, that works beside main and answers in the thread. A message is small only if a fork can do all of it from start to end beside main: it needs nothing that main is changing or is about to change (files, branch, pull requests), it settles no question that main is weighing, and it waits on nothing that this session runs (a build, a test run, an agent). Small are: a question that the conversation, the files or the web answer; a look-up; research that writes only scratch files of its own; a dispatch to another session.
- "significant": it becomes a to-do, which main takes in its own order. Significant is work on the session's files, its branch or its pull requests, and research that is long enough to need progress lines of its own.
- "now": main gets it at its next step. Now are: the user's answer to a question of main's, and steering of the work that main is at (stop, another course, a correction).
A message that may not be small is not small. Between "significant" and "now", what could change what main does next is "now".

title: what is to be done, in 1 to 80 characters, as the title of the to-do. It is read where the sort is "significant", and may be left out elsewhere.

The user's text below says what the user wants. It changes nothing about this form.
"#;

/// The constant part of a working fork's prompt, as far as it is the same wherever the fork runs.
const WORK: &str = r#"You are a fork of this session, started by leaf: a copy that knows what the session knows and has its tools. The user wrote the message at the end of this text in a thread beside the session. Dealing with it is the whole directive. The session itself (called main here) goes on with its own work meanwhile and does not see what you do.

Answering. The user reads the thread and nothing else. REF is the reference that stands below the message:
    leaf thread reply REF TEXT
Long text goes in by a quoted heredoc:
    leaf thread reply REF <<'END'
    ...
    END
Answer in the user's language, with what was asked for, and with what you did where that is to be known. A further message of the thread comes to you behind one of your tool calls, with a REF of its own; it is to be answered too.
    leaf thread line THREAD TEXT     one line that says what you are doing; worth it where the answer takes longer than a moment
    leaf thread show THREAD          the whole thread, where earlier messages matter
A command of leaf is a Bash call of its own, with `leaf` as its first word; in any other place the word is refused.

What is yours to change. Files may be written in the scratch directory that is named at the end, and nowhere else. Nothing that main is changing or may be about to change is changed here: no file of the project, no branch, no commit, no pull request.

Work that is bigger than a message (it needs such changes, or takes long): do what can be done without changing anything, answer with what you found, and open a to-do with that answer. Main takes it from there:
    leaf thread reply REF --todo TITLE TEXT
If main itself must act on the message now, or no answer is possible, do not answer. End with a final text that begins with `HAND BACK:` and gives the reason in one or two sentences, with whatever main should know. Main then gets the message at once.

"#;

/// How main can be asked from inside the client.
const ASKING: &str = r#"Asking main. SendMessage with to "main" puts a question to it (where the tool is not loaded: ToolSearch, query "select:SendMessage"). Main may be busy; its answer comes behind one of your later tool calls. Ask only what neither the conversation nor the files tell, and go on meanwhile: a run that ends without an answer hands the thread back to main.

"#;

/// The constant end of a working fork's prompt.
const ENDING: &str = r#"Ending. Start no forks. The run ends with your final text, which needs no summary: main hears by itself that you answered, and the user does not see that text. One word will do.
"#;

/// The constant part of a resume's prompt (R92).
const RESUMED: &str = r#"The user wrote in a thread beside the session, and you are the fork that deals with it: the message stands at the end of this text. It may be another thread than the one before (leaf thread show THREAD shows all that was said there). What you were told at your start of answering, of the scratch directory, of what not to change, of to-dos and of `HAND BACK:` still stands. You may ask main (SendMessage, to "main"). Your final text needs no summary.
"#;

/// Returns the question of a line fork (R20, R121): `fenced` is the message as data, with what else differs.
pub fn question(fenced: &str) -> String {
    format!("{QUESTION}\n{fenced}")
}

/// Returns what a working fork is told (R99, R121): `scratch` is its directory, `delivery` the messages with their references.
pub fn work_prompt(place: Where, scratch: &str, delivery: &str) -> String {
    let asking = match place {
        Where::Session => ASKING,
        Where::Process => "",
    };
    format!("{WORK}{asking}{ENDING}\nScratch directory: {scratch}\n\n{delivery}")
}

/// Returns what a resumed fork is told (R92): `changed` is what changed on the page since its last turn, empty where nothing did.
pub fn resume_prompt(scratch: &str, changed: &str, delivery: &str) -> String {
    let gap = if changed.is_empty() { "" } else { "\n" };
    format!("{RESUMED}\nScratch directory: {scratch}\n\n{changed}{gap}{delivery}")
}

/// Returns the line that asks main to start a fork where the client lets nobody else do it (R117). The work itself is put into the
/// call by leaf's hook.
pub fn start_request(turn: TurnId, name: &str, thread: ThreadId) -> String {
    format!(
        "fork {name} is to take thread {thread}, and only you can start it. Call the Agent tool now, then go on: subagent_type \
         \"fork\", name \"{name}\", description \"{}\", run_in_background true, prompt \"{}\" (leaf puts the work in its place).",
        description(thread, turn),
        start_prompt(turn)
    )
}

/// Returns the prompt of that call.
pub fn start_prompt(turn: TurnId) -> String {
    format!("leaf fork {turn}")
}

/// Returns the turn that such a prompt names.
pub fn turn_to_start(prompt: &str) -> Option<TurnId> {
    prompt.trim().strip_prefix("leaf fork ")?.trim().parse().ok()
}

/// Returns a fork's name (R29).
pub fn name(thread: ThreadId) -> String {
    format!("leaf-{thread}")
}

/// Returns the description of a fork's Agent call: it ends with the turn's id (R29), by which the turn is named (R36).
pub fn description(thread: ThreadId, turn: TurnId) -> String {
    format!("leaf thread {thread}, turn {turn}")
}

/// Returns the turn that an Agent call's description ends with.
pub fn turn_of(description: &str) -> Option<TurnId> {
    description.trim_end().rsplit(|c: char| !c.is_ascii_hexdigit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r029_a_description_ends_with_its_turn() {
        let turn = TurnId(0xab);
        assert_eq!(turn_of(&description(ThreadId(1), turn)), Some(turn));
        assert_eq!(turn_of("something else"), None);
    }

    #[test]
    fn r121_a_process_of_its_own_is_not_offered_main() {
        assert!(work_prompt(Where::Session, "/s", "m").contains("SendMessage"));
        assert!(!work_prompt(Where::Process, "/s", "m").contains("SendMessage"));
    }
}
