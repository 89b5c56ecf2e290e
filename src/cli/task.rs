//! `leaf task …`.

use std::fmt::Write;

use anyhow::Result;
use clap::{Subcommand, ValueEnum};

use super::output::{self, Style, styled};
use super::thread::{knows_thread, pick_thread};
use super::writer::{TextArgs, Verb};
use super::{Run, status};
use crate::desk::{Prefix, Speaker};
use crate::ids::{EventId, TodoId};
use crate::page::Page;
use crate::page::event::{Author, Body, TodoOutcome, draft};
use crate::page::state::OpenTodo;
use crate::page::view::View;
use crate::refused::Refused;
use crate::rules::todos::Urgency;
use crate::rules::writes;
use crate::session::journal::ClerkLine;
use crate::text;

/// A to-do's title is at most this long, characters; the sort's are shorter (R21).
const TITLE: usize = 200;

/// `leaf task …`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say that you are at work on a message or to-do (the agent's)
    Start {
        /// The message or to-do
        item: String,
        /// The text.
        #[command(flatten)]
        text: TextArgs,
    },
    /// Open a to-do in a thread. (A message that becomes one with its answer: leaf thread reply REF TEXT --todo TITLE)
    Open {
        /// The thread
        thread: String,
        /// What is to be done
        title: String,
    },
    /// End a to-do: done only once the message that it came from is answered; failed or dropped, a message that still waits for its
    /// answer is main's input again
    End {
        /// The to-do
        todo: String,
        /// How it ended
        outcome: Ended,
        /// What is to be said of it
        detail: Option<String>,
    },
    /// List the open to-dos of the page: those that the user waits for first, then the user's own, then the rest; the oldest first
    List,
}

/// How a to-do ended.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Ended {
    /// Done, and what it came from answered
    Done,
    /// Tried and failed
    Failed,
    /// Not wanted any more
    Dropped,
}

impl From<Ended> for TodoOutcome {
    fn from(ended: Ended) -> TodoOutcome {
        match ended {
            Ended::Done => TodoOutcome::Done,
            Ended::Failed => TodoOutcome::Failed,
            Ended::Dropped => TodoOutcome::Dropped,
        }
    }
}

/// Runs `leaf task …`.
///
/// # Errors
/// The refusal, or what failed.
pub fn run(run: &Run, command: Command) -> Result<()> {
    match command {
        Command::Start { item, text } => start(run, &item, text),
        Command::Open { thread, title } => open(run, &thread, &title),
        Command::End { todo, outcome, detail } => end(run, &todo, outcome.into(), detail),
        Command::List => list(run),
    }
}

fn todos(view: &View) -> impl Iterator<Item = EventId> + '_ {
    view.threads.values().flat_map(|thread| &thread.todos).map(|todo| todo.id.into())
}

fn messages(view: &View) -> impl Iterator<Item = EventId> + '_ {
    let all = view.threads.values().flat_map(|thread| &thread.messages);
    all.filter(|message| message.author == Author::User).map(|message| message.id.into())
}

fn page_of(run: &Run, speaker: &Speaker, prefix: &Prefix, ids: impl Fn(&View) -> Vec<EventId>) -> Result<Page> {
    run.page_of(speaker, &prefix.to_string(), prefix, true, |view| ids(view).into_iter().any(|id| prefix.begins(id)))
}

fn start(run: &Run, item: &str, text: TextArgs) -> Result<()> {
    let speaker = run.speaker(Verb::Agents)?;
    let prefix = Prefix::parse(item)?;
    let text = text.read()?;
    let items = |view: &View| messages(view).chain(todos(view)).collect::<Vec<_>>();
    let page = page_of(run, &speaker, &prefix, items)?;
    run.write(&speaker, page, Some(&prefix), |desk| {
        let item = prefix.pick("message or to-do", items(desk.view()).into_iter())?;
        let view = desk.view();
        if let Some((thread, todo)) = view.todo(TodoId(item.0)) {
            if !todo.is_open() {
                return Err(Refused::input(format!("to-do {item} is ended: `leaf task list` shows what is open"))
                    .of(thread.id)
                    .into());
            }
        } else if let Some((thread, message)) = view.message(item.into())
            && !message.waits()
        {
            let why = if message.withdrawn.is_some() { "withdrawn" } else { "answered or settled" };
            return Err(Refused::by("R8", format!("message {item} is {why}: there is nothing to start"))
                .of(thread.id)
                .into());
        }
        let mut notes = Vec::new();
        if let Some(thread) = desk.view().thread_of(item) {
            let reading = desk.tx.reading();
            match desk.fork()? {
                Some(fork) => writes::fork_may(&reading, thread, &fork)?,
                None => notes.extend(writes::over(&reading, thread, false)),
            }
        }
        let actor = desk.actor()?;
        let events = desk.append(vec![draft(Author::Agent, Body::Start { item, text, actor })])?;
        desk.report(&events[0], &format!("started on {item}"), notes)
    })
}

fn open(run: &Run, thread: &str, title: &str) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    let prefix = Prefix::parse(thread)?;
    let (title, cut) = title_of(title)?;
    let page = run.page_of(&speaker, &format!("thread {prefix}"), &prefix, true, knows_thread(&prefix))?;
    run.write(&speaker, page, Some(&prefix), |desk| {
        let id = pick_thread(desk.view(), &prefix)?.id;
        let actor = desk.agent()?;
        // Main is told first: what is told of a to-do that a kill kept from being opened is told nobody.
        let todo = desk.tx.page.id_ahead(0)?;
        let told = ClerkLine {
            quote: Some(title.clone()),
            wake: true,
            todo: Some((desk.page().id.clone(), todo.into())),
            ..ClerkLine::new(format!("{} opened to-do {todo} in thread {id}:", desk.who()?))
        };
        desk.tell(id, told);
        let body = Body::Todo { thread: id, title, source: None, actor };
        let events = desk.append(vec![draft(desk.author(), body)])?;
        desk.report(&events[0], &format!("to-do {todo} in thread {id}"), cut.into_iter().collect())
    })
}

/// Returns a to-do's title as one line, and a note where it was cut: the writer must not think that all of it stands.
///
/// # Errors
/// Where it is empty.
pub fn title_of(title: &str) -> Result<(String, Option<String>)> {
    let line = text::clip(title, TITLE);
    if line.is_empty() {
        return Err(Refused::input("the to-do's title is empty: say what is to be done").into());
    }
    let cut = text::clip(title, usize::MAX) != line;
    let note = || format!("the to-do's title was cut after {TITLE} characters: what is beyond belongs in the thread");
    Ok((line, cut.then(note)))
}

fn end(run: &Run, todo: &str, outcome: TodoOutcome, detail: Option<String>) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    let prefix = Prefix::parse(todo)?;
    let page = page_of(run, &speaker, &prefix, |view| todos(view).collect())?;
    run.write(&speaker, page, Some(&prefix), |desk| {
        let id = TodoId(prefix.pick("to-do", todos(desk.view()))?.0);
        let Some((thread, todo)) = desk.view().todo(id) else {
            return Err(Refused::input(format!("there is no to-do {id}")).into());
        };
        let thread_id = thread.id;
        if !todo.is_open() {
            return Err(Refused::by("R97", format!("to-do {id} is ended already")).of(thread_id).into());
        }
        if let Some(fork) = desk.fork()? {
            writes::fork_may_end(thread, todo, &fork)?;
        }
        let source = todo.source.and_then(|source| thread.message(source));
        if outcome == TodoOutcome::Done
            && let Some(source) = source
            && source.waits()
        {
            let sentence =
                format!("to-do {id} is not done before message {0} is answered: leaf thread reply {0} TEXT", source.id);
            return Err(Refused::by("R97", sentence).of(thread_id).into());
        }
        let again = source.filter(|source| source.waits() && outcome != TodoOutcome::Done).map(|source| source.id);
        let actor = desk.agent()?;
        let body = Body::TodoEnd { todo: id, outcome, detail: detail.clone(), actor };
        let events = desk.append(vec![draft(desk.author(), body)])?;
        let word = match outcome {
            TodoOutcome::Done => "done",
            TodoOutcome::Failed => "failed",
            TodoOutcome::Dropped => "dropped",
        };
        let colon = if detail.is_some() { ":" } else { "." };
        let told = format!("{} ended to-do {id} of thread {thread_id} as {word}{colon}", desk.who()?);
        desk.tell(thread_id, ClerkLine { quote: detail, ..ClerkLine::new(told) });
        // What failed or was dropped is input again (R97).
        let notes = again.map(|message| format!("message {message} waits for main again: it is delivered next"));
        desk.report(&events[0], &format!("to-do {id} is {word}"), notes.into_iter().collect())
    })
}

fn list(run: &Run) -> Result<()> {
    let page = run.page_to_read()?;
    let view = page.view()?;
    let state = status::page_state(run, &page, &view)?;
    if run.common.json {
        return output::print_json(&state.todos);
    }
    let mut out = String::new();
    for open in &state.todos {
        out.push_str(&todo_lines(open));
    }
    if out.is_empty() {
        out = format!("page {} has no open to-dos\n", page.id);
    }
    output::print(&out)
}

/// Returns an open to-do in two lines, for a person: what is to be done, and how it stands.
pub fn todo_lines(open: &OpenTodo) -> String {
    let title = styled(Style::Bold, &text::one_line(&open.todo.title));
    let mut stands = format!("since {}, {}", open.since.brief(), open.opened_by);
    match (&open.waits, open.urgency) {
        (Some(message), Urgency::Awaited) => {
            let _ = write!(stands, "; the user waits for the answer to message {message}");
        }
        (Some(message), _) => {
            let _ = write!(stands, "; message {message} is not answered");
        }
        (None, _) => {}
    }
    match &open.started {
        Some((who, said)) => {
            let _ = write!(stands, "; {who} is at it: {}", text::first_words(said, 80));
        }
        None => stands.push_str("; nobody is at it"),
    }
    format!("{}  thread {}  {title}\n          {stands}\n", open.todo.id, open.thread)
}
