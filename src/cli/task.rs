//! `leaf task …`.

use std::fmt::Write;

use anyhow::Result;
use clap::{Subcommand, ValueEnum};

use super::output::{self, Style, styled};
use super::thread::pick_thread;
use super::writer::{TextArgs, Verb};
use super::{Run, status};
use crate::desk::{Prefix, Speaker};
use crate::ids::{EventId, TodoId};
use crate::page::Page;
use crate::page::event::{Author, Body, TodoOutcome, draft};
use crate::page::view::{TodoState, View};
use crate::refused::Refused;
use crate::rules::writes;
use crate::text;

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
    /// Open a to-do in a thread
    Open {
        /// The thread
        thread: String,
        /// What is to be done
        title: String,
    },
    /// End a to-do
    End {
        /// The to-do
        todo: String,
        /// How it ended
        outcome: Ended,
        /// What is to be said of it
        detail: Option<String>,
    },
    /// List the open to-dos of the page
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
    run.page_of(speaker, &prefix.to_string(), true, |view, _| ids(view).into_iter().any(|id| prefix.begins(id)))
}

fn start(run: &Run, item: &str, text: TextArgs) -> Result<()> {
    let speaker = run.speaker(Verb::Agents)?;
    let prefix = Prefix::parse(item)?;
    let text = text.read()?;
    let items = |view: &View| messages(view).chain(todos(view)).collect::<Vec<_>>();
    let page = page_of(run, &speaker, &prefix, items)?;
    run.write(&speaker, page, |desk| {
        let item = prefix.pick("message or to-do", items(desk.view()).into_iter())?;
        let view = desk.view();
        if let Some((thread, todo)) = view.todo(TodoId(item.0)) {
            if todo.state != TodoState::Open {
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
    let title = text::clip(title, 200);
    if title.is_empty() {
        return Err(Refused::input("the to-do's title is empty: say what is to be done").into());
    }
    let page = run.page_of(&speaker, &format!("thread {prefix}"), true, |view, _| {
        view.order.iter().any(|id| prefix.begins((*id).into()))
    })?;
    run.write(&speaker, page, |desk| {
        let id = pick_thread(desk.view(), &prefix)?.id;
        let actor = desk.agent()?;
        let body = Body::Todo { thread: id, title: title.clone(), source: None, actor };
        let events = desk.append(vec![draft(desk.author(), body)])?;
        let todo = events[0].id;
        desk.tell(id, format!("the user opened to-do {todo} in thread {id}:"), Some(title), true);
        desk.report(&events[0], &format!("to-do {todo} in thread {id}"), Vec::new())
    })
}

fn end(run: &Run, todo: &str, outcome: TodoOutcome, detail: Option<String>) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    let prefix = Prefix::parse(todo)?;
    let page = page_of(run, &speaker, &prefix, |view| todos(view).collect())?;
    run.write(&speaker, page, |desk| {
        let id = TodoId(prefix.pick("to-do", todos(desk.view()))?.0);
        let Some((thread, todo)) = desk.view().todo(id) else {
            return Err(Refused::input(format!("there is no to-do {id}")).into());
        };
        let thread_id = thread.id;
        if todo.state != TodoState::Open {
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
        let actor = desk.agent()?;
        let body = Body::TodoEnd { todo: id, outcome, detail: detail.clone(), actor };
        let events = desk.append(vec![draft(desk.author(), body)])?;
        let word = match outcome {
            TodoOutcome::Done => "done",
            TodoOutcome::Failed => "failed",
            TodoOutcome::Dropped => "dropped",
        };
        desk.tell(thread_id, format!("the user ended to-do {id} of thread {thread_id} as {word}."), detail, false);
        desk.report(&events[0], &format!("to-do {id} is {word}"), Vec::new())
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
        let title = styled(Style::Bold, &text::one_line(&open.todo.title));
        let _ = writeln!(out, "{}  thread {}  {title}", open.todo.id, open.thread);
    }
    if out.is_empty() {
        out = format!("page {} has no open to-dos\n", page.id);
    }
    output::print(&out)
}
