//! `leaf thread …`.

use std::fmt::Write;

use anyhow::Result;
use clap::Subcommand;

use super::output::{self, Style, styled};
use super::writer::{Desktop, TextArgs, Verb};
use super::{Run, status};
use crate::desk::{Prefix, Speaker};
use crate::ids::{EventId, MessageId, ThreadId};
use crate::page::event::{Actor, Author, Body, By, draft, first_message};
use crate::page::state::Status;
use crate::page::view::{Message, Thread, TodoState, View};
use crate::page::{Page, state};
use crate::pointer;
use crate::refused::{Refused, Usage};
use crate::rules::answer::{self, Answer};
use crate::rules::writes;
use crate::session::journal::ClerkLine;
use crate::text;

/// `leaf thread …`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Begin a thread (the user's)
    New {
        /// The text.
        #[command(flatten)]
        text: TextArgs,
        /// The thread's title (default: the text's first words)
        #[arg(long)]
        title: Option<String>,
        /// It needs no reply
        #[arg(long)]
        no_reply: bool,
    },
    /// Write a further message in a thread (the user's)
    Say {
        /// The thread
        thread: String,
        /// The text.
        #[command(flatten)]
        text: TextArgs,
        /// It needs no reply
        #[arg(long)]
        no_reply: bool,
    },
    /// Take a message back (the user's)
    Withdraw {
        /// The message
        message: String,
    },
    /// Answer (the agent's): REF is a delivery's reference, or a message's or thread's id
    #[command(after_help = "Long text goes in by a quoted heredoc:\n  leaf thread reply REF <<'END'\n  …\n  END")]
    Reply {
        /// A reference <delivery>:<message>, a message's id, or a thread's; with --unasked a thread's
        #[arg(value_name = "REF")]
        reference: String,
        /// The text.
        #[command(flatten)]
        text: TextArgs,
        /// Open a to-do with the answer, for the work that is left
        #[arg(long, value_name = "TITLE")]
        todo: Option<String>,
        /// A message that answers nothing
        #[arg(long, conflicts_with = "todo")]
        unasked: bool,
    },
    /// Say what is being done, in one line that stands until the next answer (the agent's)
    Line {
        /// The thread
        thread: String,
        /// The text.
        #[command(flatten)]
        text: TextArgs,
    },
    /// List threads: those that are not resolved, or all
    List {
        /// The resolved ones too
        #[arg(long)]
        all: bool,
    },
    /// Show a thread
    Show {
        /// The thread
        thread: String,
        /// Go on with what comes
        #[arg(long)]
        follow: bool,
    },
    /// Settle a thread: what waits in it owes nothing any more
    Resolve {
        /// The thread
        thread: String,
    },
    /// Open a settled thread again
    Reopen {
        /// The thread
        thread: String,
    },
}

/// Runs `leaf thread …`.
///
/// # Errors
/// The refusal, or what failed.
pub fn run(run: &Run, command: Command) -> Result<()> {
    match command {
        Command::New { text, title, no_reply } => new(run, text, title, !no_reply),
        Command::Say { thread, text, no_reply } => say(run, &thread, text, !no_reply),
        Command::Withdraw { message } => withdraw(run, &message),
        Command::Reply { reference, text, todo, unasked: false } => reply(run, &reference, text, todo),
        Command::Reply { reference, text, unasked: true, .. } => unasked(run, &reference, text),
        Command::Line { thread, text } => line(run, &thread, text),
        Command::List { all } => list(run, all),
        Command::Show { thread, follow } => show(run, &thread, follow),
        Command::Resolve { thread } => settle(run, &thread, true),
        Command::Reopen { thread } => settle(run, &thread, false),
    }
}

/// Returns the thread that a prefix begins, of the threads' ids alone.
///
/// # Errors
/// Where there is none, or several.
pub fn pick_thread<'v>(view: &'v View, prefix: &Prefix) -> Result<&'v Thread> {
    let id = prefix.pick("thread", view.order.iter().map(|id| (*id).into()))?;
    view.threads.get(&ThreadId(id.0)).ok_or_else(|| Refused::input(format!("there is no thread {id}")).into())
}

/// Returns what tells whether a page knows a thread whose id begins so.
pub fn knows_thread(prefix: &Prefix) -> impl Fn(&View) -> bool + '_ {
    |view| view.order.iter().any(|id| prefix.begins((*id).into()))
}

/// Finds the page of a thread for a write.
fn page_of_thread(run: &Run, speaker: &Speaker, prefix: &Prefix) -> Result<Page> {
    run.page_of(speaker, &format!("thread {prefix}"), prefix, true, knows_thread(prefix))
}

fn title_of(text: &str, title: Option<String>) -> Result<String> {
    let title = match title {
        Some(title) => text::clip(&title, 200),
        None => text::clip(text, text::TITLE),
    };
    if title.is_empty() {
        return Err(Refused::input("the title is empty: leave it out, and the text's first words serve").into());
    }
    Ok(title)
}

fn new(run: &Run, text: TextArgs, title: Option<String>, owes: bool) -> Result<()> {
    let speaker = run.speaker(Verb::Users)?;
    let text = text.read()?;
    let title = title_of(&text, title)?;
    let mut found = run.page_for_new(&speaker)?;
    run.write(&speaker, found.page, None, |desk| {
        let events = desk.append_users(first_message(text, owes, title))?;
        let event = &events[0];
        if found.notes.is_empty() && desk.unread() {
            found.notes.push(format!("no live session holds page {}: nobody reads it yet", desk.page().id));
        }
        let line = format!("thread {} on page {}", event.id, desk.page().id);
        desk.report(event, &line, std::mem::take(&mut found.notes))
    })
}

fn say(run: &Run, thread: &str, text: TextArgs, owes: bool) -> Result<()> {
    let speaker = run.speaker(Verb::Users)?;
    let prefix = Prefix::parse(thread)?;
    let text = text.read()?;
    let page = page_of_thread(run, &speaker, &prefix)?;
    run.write(&speaker, page, Some(&prefix), |desk| {
        let thread = pick_thread(desk.view(), &prefix)?;
        let id = thread.id;
        let main_owed = desk.tx.reading().main_owes(thread);
        let reopens = thread.resolved.is_some();
        let body = Body::Message { thread: id, text, owes, title: None, main_owed };
        let events = desk.append_users(draft(Author::User, body))?;
        let mut notes = Vec::new();
        if reopens {
            notes.push(format!("thread {id} was resolved; this opens it again"));
        }
        if desk.unread() {
            notes.push(format!("no live session holds page {}: nobody reads it yet", desk.page().id));
        }
        desk.report(&events[0], &format!("message {} in thread {id}", events[0].id), notes)
    })
}

fn withdraw(run: &Run, message: &str) -> Result<()> {
    let speaker = run.speaker(Verb::Users)?;
    let prefix = Prefix::parse(message)?;
    let users = |view: &View| {
        let messages: Vec<EventId> = view
            .threads
            .values()
            .flat_map(|thread| &thread.messages)
            .filter(|message| message.author == Author::User)
            .map(|message| message.id.into())
            .collect();
        messages
    };
    let page = run.page_of(&speaker, &format!("message {prefix}"), &prefix, true, |view| {
        users(view).into_iter().any(|id| prefix.begins(id))
    })?;
    run.write(&speaker, page, Some(&prefix), |desk| {
        let id: MessageId = prefix.pick("message of yours", users(desk.view()).into_iter())?.into();
        let Some((thread, message)) = desk.view().message(id) else { unreachable_message(id)? };
        let todo = thread.open_todo(id).map(|todo| todo.id);
        let thread = thread.id;
        if message.withdrawn.is_some() {
            return Err(Refused::by("R8", format!("message {id} is withdrawn already")).of(thread).into());
        }
        if let Some(by) = message.answered {
            let drop = todo.map_or(String::new(), |todo| format!(", and drop its to-do with leaf task end {todo} dropped"));
            let sentence = format!(
                "message {id} is answered already, by {by}: say so in the thread with leaf thread say {thread} TEXT{drop}"
            );
            return Err(Refused::by("R8", sentence).of(thread).into());
        }
        let events = desk.append(vec![draft(Author::User, Body::Withdraw { message: id })])?;
        // A main that heard of its to-do hears that it is gone (R8, R97).
        if let Some(todo) = todo {
            let page = desk.page().id.clone();
            let unread = desk.tx.state().clerk.iter().any(|line| line.todo == Some((page.clone(), todo)));
            if !unread {
                desk.tell(
                    thread,
                    ClerkLine::new(format!(
                        "the user took message {id} of thread {thread} back; its to-do {todo} is dropped."
                    )),
                );
            }
        }
        let notes = todo.map(|todo| format!("its to-do {todo} is dropped"));
        desk.report(&events[0], &format!("message {id} is withdrawn"), notes.into_iter().collect())
    })
}

fn unreachable_message<T>(id: MessageId) -> Result<T> {
    Err(Refused::input(format!("there is no message {id}: `leaf page state` shows what there is")).into())
}

/// What REF names.
enum Named {
    /// A reference of a delivery: the beginnings of both ids.
    Reference(Prefix, Prefix),
    /// The beginning of a message's or thread's id.
    Id(Prefix),
}

fn named(reference: &str) -> Result<Named> {
    if let Some((delivery, message)) = reference.split_once(':') {
        return Ok(Named::Reference(Prefix::parse(delivery)?, Prefix::parse(message)?));
    }
    Ok(Named::Id(Prefix::parse(reference)?))
}

fn reply(run: &Run, reference: &str, text: TextArgs, todo: Option<String>) -> Result<()> {
    let speaker = run.speaker(Verb::Agents)?;
    let named = named(reference)?;
    let text = text.read()?;
    let todo = todo.map(|title| super::task::title_of(&title)).transpose()?;
    let what = match &named {
        Named::Reference(delivery, message) => format!("reference {delivery}:{message}"),
        Named::Id(prefix) => format!("message or thread {prefix}"),
    };
    let (Named::Reference(_, about) | Named::Id(about)) = &named;
    let page = run.page_of(&speaker, &what, about, true, |view| match &named {
        Named::Reference(_, message) => messages(view).any(|id| message.begins(id)),
        Named::Id(prefix) => view.home.iter().any(|(id, _)| prefix.begins(*id)),
    })?;
    run.write(&speaker, page, Some(about), |desk| {
        if desk.fork()?.is_some() && matches!(named, Named::Id(_)) {
            return Err(Refused::by(
                "R59",
                "a fork answers by the reference that its delivery gave: copy it from there",
            )
            .into());
        }
        let responds = asked(desk, &named, &text)?;
        answer_message(desk, responds, text, todo)
    })
}

fn messages(view: &View) -> impl Iterator<Item = EventId> + '_ {
    view.threads.values().flat_map(|thread| &thread.messages).map(|message| message.id.into())
}

/// Returns the message that REF names.
fn asked(desk: &Desktop<'_>, named: &Named, text: &str) -> Result<MessageId> {
    let view = desk.view();
    let holder = desk.page().record.session.as_ref();
    match named {
        Named::Reference(delivery, message) => {
            let id: MessageId = message.pick("message", messages(view))?.into();
            let Some((thread, message)) = view.message(id) else { return unreachable_message(id) };
            let picked = message.carried_by(|id| delivery.begins(id.into()));
            let pointed = || -> Result<bool> {
                let mut ids = pointer::lying(desk.page())?.into_iter();
                Ok(ids.any(|known| {
                    let pointer = || pointer::read(desk.page(), known).ok().flatten();
                    delivery.begins(known.into()) && pointer().is_some_and(|pointer| pointer.carries(id))
                }))
            };
            if !picked && !pointed()? {
                let sentence = format!(
                    "no delivery {delivery} carried message {id}: copy the reference from the delivery, or name the message alone"
                );
                return Err(Refused::by("R103", sentence).of(thread.id).into());
            }
            Ok(id)
        }
        Named::Id(prefix) => {
            let id = prefix.pick("message or thread", messages(view))?;
            // A thread has its first message's id: for main the thread's id stands for its newest waiting message.
            match view.threads.get(&ThreadId(id.0)) {
                Some(thread) => Ok(answer::of_thread(thread, holder, text)?.id),
                None => Ok(id.into()),
            }
        }
    }
}

fn answer_message(
    desk: &mut Desktop<'_>,
    responds: MessageId,
    text: String,
    todo: Option<(String, Option<String>)>,
) -> Result<()> {
    let Some((thread, message)) = desk.view().message(responds) else { return unreachable_message(responds) };
    let id = thread.id;
    let holder = desk.page().record.session.clone();
    let open = thread.open_todo(responds).map(|todo| (todo.id, todo.title.clone()));
    let fork = desk.fork()?;
    let own = |actor: &Actor| match &fork {
        // An answer by an earlier turn of the same agent counts as its own (R10).
        Some(fork) => actor.turn == fork.turn || (actor.agent.is_some() && actor.agent == fork.agent),
        None => actor.by == By::Main,
    };
    if let Some(fork) = &fork
        && !message
            .answered
            .and_then(|id| thread.message(id))
            .is_some_and(|reply| reply.actor.as_ref().is_some_and(own))
    {
        writes::fork_may_answer(&desk.tx.reading(), thread, message, fork)?;
    }
    match answer::to_message(thread, message, &text, own)? {
        Answer::Repeat(earlier) => {
            let mut notes = vec!["the same answer stood already".to_owned()];
            let has_todo = thread.todos.iter().any(|todo| todo.source == Some(responds));
            if let Some((title, cut)) = todo.filter(|_| !has_todo) {
                notes.extend(cut);
                // A repeat appends what is missing (R10).
                let actor = Some(desk.actor()?);
                let body = Body::Todo { thread: id, title, source: Some(responds), actor };
                let events = desk.append(vec![draft(Author::Agent, body)])?;
                notes.push(format!("opened to-do {}", events[0].id));
            }
            let event = earlier_reply(desk, earlier)?;
            desk.report(&event, &format!("answered already, by {earlier}"), notes)
        }
        Answer::New(responds) => {
            let mut notes = answer::notes(thread, responds, holder.as_ref().filter(|_| fork.is_none()), fork.as_ref());
            if fork.is_none() && thread.answer_takes(responds) {
                notes.extend(writes::over(&desk.tx.reading(), thread, true));
            }
            let mut drafts = Vec::new();
            let actor = desk.actor()?;
            match (todo, open) {
                // A repeat of a write of which only the to-do came through appends what is missing (R10).
                (Some((title, _)), Some((_, stands))) if title == stands => {}
                (Some(_), Some((stands, _))) => {
                    let sentence = format!(
                        "message {responds} has the open to-do {stands} already, and a message has one at most: leave out --todo, \
                         or end that one first"
                    );
                    return Err(Refused::by("R94", sentence).of(id).into());
                }
                (Some((title, cut)), None) => {
                    notes.extend(cut);
                    let source = Some(responds);
                    let body = Body::Todo { thread: id, title, source, actor: Some(actor.clone()) };
                    drafts.push(draft(Author::Agent, body));
                }
                (None, Some((stands, _))) => {
                    notes.push(format!("its to-do {stands} stays open: leaf task end {stands} done"));
                }
                (None, None) => {}
            }
            let body = Body::Reply { thread: id, text, responds: Some(responds), actor };
            drafts.push(draft(Author::Agent, body));
            let events = desk.append(drafts)?;
            let Some(reply) = events.last() else { return Ok(()) };
            if let [first, _] = events.as_slice() {
                notes.push(format!("opened to-do {}", first.id));
            }
            desk.report(reply, &format!("answered message {responds} in thread {id}, as {}", reply.id), notes)
        }
    }
}

/// Returns the event of a reply that stands.
fn earlier_reply(desk: &Desktop<'_>, id: MessageId) -> Result<crate::page::event::Event> {
    let Some((thread, message)) = desk.view().message(id) else { return unreachable_message(id) };
    let Some(actor) = message.actor.clone() else { return unreachable_message(id) };
    Ok(crate::page::event::Event {
        seq: message.seq,
        id: message.id.into(),
        ts: message.ts,
        author: message.author,
        body: Body::Reply { thread: thread.id, text: message.text.clone(), responds: message.responds, actor },
    })
}

fn unasked(run: &Run, thread: &str, text: TextArgs) -> Result<()> {
    let speaker = run.speaker(Verb::Agents)?;
    let prefix =
        Prefix::parse(thread).map_err(|_| Usage("with --unasked the first argument is a thread's id".to_owned()))?;
    let text = text.read()?;
    let page = page_of_thread(run, &speaker, &prefix)?;
    run.write(&speaker, page, Some(&prefix), |desk| {
        let (id, notes) = may_write(desk, &prefix)?;
        let actor = desk.actor()?;
        let body = Body::Reply { thread: id, text, responds: None, actor };
        let events = desk.append(vec![draft(Author::Agent, body)])?;
        desk.report(&events[0], &format!("said {} in thread {id}", events[0].id), notes)
    })
}

fn line(run: &Run, thread: &str, text: TextArgs) -> Result<()> {
    let speaker = run.speaker(Verb::Agents)?;
    let prefix = Prefix::parse(thread)?;
    let text = text::one_line(&text.read()?);
    let page = page_of_thread(run, &speaker, &prefix)?;
    run.write(&speaker, page, Some(&prefix), |desk| {
        let (id, notes) = may_write(desk, &prefix)?;
        let actor = Some(desk.actor()?);
        let events = desk.append(vec![draft(Author::Agent, Body::Line { thread: id, text, actor })])?;
        desk.report(&events[0], &format!("the line stands in thread {id}"), notes)
    })
}

/// Returns the thread that an agent writes in, with what main is told beside it (R63), or the refusal of a fork's write (R55,
/// R56).
fn may_write(desk: &Desktop<'_>, prefix: &Prefix) -> Result<(ThreadId, Vec<String>)> {
    let thread = pick_thread(desk.view(), prefix)?;
    let reading = desk.tx.reading();
    match desk.fork()? {
        Some(fork) => writes::fork_may(&reading, thread, &fork).map(|()| (thread.id, Vec::new())).map_err(Into::into),
        None => Ok((thread.id, writes::over(&reading, thread, false).into_iter().collect())),
    }
}

fn settle(run: &Run, thread: &str, resolve: bool) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    let prefix = Prefix::parse(thread)?;
    let page = page_of_thread(run, &speaker, &prefix)?;
    run.write(&speaker, page, Some(&prefix), |desk| {
        if resolve {
            desk.not_a_forks("resolving a thread")?;
        }
        let thread = pick_thread(desk.view(), &prefix)?;
        let id = thread.id;
        if thread.resolved.is_some() == resolve {
            let stands = if resolve { "resolved already" } else { "open already" };
            return Err(Refused::by("R9", format!("thread {id} is {stands}")).of(id).into());
        }
        let body = if resolve { Body::Resolve { thread: id } } else { Body::Reopen { thread: id } };
        let events = desk.append(vec![draft(desk.author(), body)])?;
        let done = if resolve { "resolved" } else { "open again" };
        // Work that is to be done outlives the thread's end (R98).
        let open =
            desk.view().threads.get(&id).map_or(0, |thread| thread.todos.iter().filter(|todo| todo.is_open()).count());
        let stays = (resolve && open > 0).then(|| {
            format!(
                "{} of it {} open: leaf task list, leaf task end TODO dropped",
                text::count(open, "to-do"),
                if open == 1 { "stays" } else { "stay" }
            )
        });
        desk.report(&events[0], &format!("thread {id} is {done}"), stays.into_iter().collect())
    })
}

fn list(run: &Run, all: bool) -> Result<()> {
    let page = run.page_to_read()?;
    let view = page.view()?;
    let state = status::page_state(run, &page, &view)?;
    let any = !state.threads.is_empty();
    let threads = state.threads.into_iter().filter(|thread| all || thread.status != Status::Resolved);
    if run.common.json {
        return output::print_json(&threads.collect::<Vec<_>>());
    }
    let mut out = String::new();
    for thread in threads {
        let _ = writeln!(out, "{}", thread_line(&thread));
    }
    if out.is_empty() {
        out = if any {
            format!("page {} has resolved threads alone: `leaf thread list --all` lists them\n", page.id)
        } else {
            format!("page {} has no threads: `leaf thread new TEXT` begins one\n", page.id)
        };
    }
    output::print(&out)
}

/// Returns a thread in one line.
pub fn thread_line(thread: &state::ThreadState) -> String {
    let waiting = match thread.waiting.len() {
        0 => String::new(),
        number => format!("  ({number} waiting)"),
    };
    let line = thread.line.as_ref().map_or(String::new(), |line| format!("  … {}", text::first_words(line, 80)));
    format!(
        "{}  {:<9} {}{waiting}{line}",
        thread.id,
        thread.status.words(),
        styled(Style::Bold, &text::first_words(&thread.title, 80))
    )
}

fn show(run: &Run, thread: &str, follow: bool) -> Result<()> {
    let prefix = Prefix::parse(thread)?;
    let speaker = run.desk.speaker()?;
    let page = run.page_of(&speaker, &format!("thread {prefix}"), &prefix, false, knows_thread(&prefix))?;
    let view = page.hot_view_with(prefix.ids())?;
    let id = pick_thread(&view, &prefix)?.id;
    if run.common.json {
        let state = status::page_state(run, &page, &view)?;
        let thread = state.threads.into_iter().find(|thread| thread.id == id);
        output::print_json(&thread)?;
    } else {
        output::print(&whole(&view, id))?;
    }
    if follow {
        super::page::follow_log(run, &page, view, Some(id))?;
    }
    Ok(())
}

fn whole(view: &View, id: ThreadId) -> String {
    let Some(thread) = view.threads.get(&id) else { return String::new() };
    let mut out = format!("{}  {}\n", thread.id, styled(Style::Bold, &text::one_line(&thread.title)));
    for message in &thread.messages {
        out.push('\n');
        out.push_str(&message_text(message));
    }
    if let Some(line) = &thread.line {
        let _ = writeln!(out, "\n… {}", text::one_line(line));
    }
    for todo in thread.todos.iter().filter(|todo| todo.state == TodoState::Open) {
        let _ = writeln!(out, "\nto do {}: {}", todo.id, text::one_line(&todo.title));
    }
    if thread.resolved.is_some() {
        out.push_str("\nresolved\n");
    }
    out
}

/// Returns a message for a person's terminal.
pub fn message_text(message: &Message) -> String {
    let who = match message.author {
        Author::User => "you",
        Author::Agent | Author::Leaf => "agent",
    };
    let beside = if message.withdrawn.is_some() {
        ", withdrawn"
    } else if message.waits() {
        ", waits"
    } else if message.author != Author::User && message.responds.is_none() {
        ", unasked"
    } else {
        ""
    };
    let head = format!("{who}, {}, {}{beside}", message.ts.brief(), message.id);
    let mut out = format!("{}\n", styled(Style::Dim, &head));
    for line in text::harmless(&message.text).lines() {
        let _ = writeln!(out, "  {line}");
    }
    out
}
