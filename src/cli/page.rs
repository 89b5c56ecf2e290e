//! `leaf page …`.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use clap::Subcommand;

use super::output::{self, Style, styled};
use super::thread::{message_text, thread_line};
use super::writer::Verb;
use super::{Run, status};
use crate::desk::{Prefix, Speaker};
use crate::ids::{PageId, ThreadId};
use crate::page::Page;
use crate::page::event::{Body, Event};
use crate::page::log::{Log, Piece, parse, pieces};
use crate::page::view::View;
use crate::refused::Refused;
use crate::rules::holding::{Reading, Seat};
use crate::rules::todos::{self, OpenTodo, Urgency};
use crate::session::journal::{ClerkLine, Entry, Evidence};
use crate::session::{Session, lock_both};
use crate::text;
use crate::transaction::Transaction;

/// Of a page that is claimed its main is told this many to-dos, the most urgent.
const TOLD: usize = 12;

/// `leaf page …`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a page, held by the session
    New {
        /// Its title
        title: String,
        /// Its slug, of a-z, 0-9 and - (default: from the title)
        #[arg(long)]
        slug: Option<PageId>,
    },
    /// List the pages
    List,
    /// Take a page over from the session that holds it, with all that is owed on it
    Claim {
        /// The page
        page: PageId,
    },
    /// Show what stands on a page: threads, who holds and owes what, to-dos
    State {
        /// One thread alone
        thread: Option<String>,
    },
    /// Show a page's events
    Log {
        /// Only those behind this one
        #[arg(long, value_name = "SEQ")]
        after: Option<u32>,
        /// Go on with what comes
        #[arg(long)]
        follow: bool,
    },
}

/// Runs `leaf page …`.
///
/// # Errors
/// The refusal, or what failed.
pub fn run(run: &Run, command: Command) -> Result<()> {
    match command {
        Command::New { title, slug } => new(run, &title, slug.as_ref()),
        Command::List => list(run),
        Command::Claim { page } => claim(run, &page),
        Command::State { thread } => state(run, thread.as_deref()),
        Command::Log { after, follow } => log(run, after.unwrap_or(0), follow),
    }
}

fn new(run: &Run, title: &str, slug: Option<&PageId>) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    let title = text::clip(title, 200);
    if title.is_empty() {
        return Err(Refused::input("the title is empty: name the page").into());
    }
    let session = run.needed_session(&speaker)?;
    let project = match &session {
        Some(session) => session.record.cwd.clone().into(),
        None => run.desk.here()?,
    };
    let page = run.desk.make_page(&title, slug, &project, session.as_ref())?;
    let notes = match &session {
        Some(_) => Vec::new(),
        None => vec!["no session serves this directory: nobody reads it yet".to_owned()],
    };
    report(run, &page, &format!("page {}", page.id), notes)
}

fn report(run: &Run, page: &Page, line: &str, notes: Vec<String>) -> Result<()> {
    if run.common.json {
        return output::print_json(&serde_json::json!({
            "page": page.id,
            "title": page.record.title,
            "project": page.record.project,
            "created": page.record.created,
            "session": page.record.session,
            "notes": notes,
        }));
    }
    let mut out = format!("{line}\n");
    for note in notes {
        let _ = writeln!(out, "note: {}", text::one_line(&note));
    }
    output::print(&out)
}

fn list(run: &Run) -> Result<()> {
    let mut pages = Vec::new();
    if let Some(home) = run.desk.home()? {
        for id in Page::all(&home)? {
            if let Ok(Some(page)) = Page::open(&home, &id) {
                let live = run.desk.held_live(&home, &page.record);
                pages.push((page, live));
            }
        }
    }
    pages.sort_by_key(|(page, _)| page.record.created);
    if run.common.json {
        let all: Vec<_> = pages
            .iter()
            .map(|(page, live)| {
                serde_json::json!({
                    "page": page.id,
                    "title": page.record.title,
                    "project": page.record.project,
                    "created": page.record.created,
                    "session": page.record.session,
                    "live": live,
                })
            })
            .collect();
        return output::print_json(&all);
    }
    let mut out = String::new();
    for (page, live) in &pages {
        let held = match (&page.record.session, live) {
            (Some(session), true) => format!("session {}", text::one_line(session.as_str())),
            (Some(_), false) => "its session ended".to_owned(),
            (None, _) => "nobody reads it yet".to_owned(),
        };
        let title = styled(Style::Bold, &text::one_line(&page.record.title));
        let _ = writeln!(out, "{}  {title}  {}  ({held})", page.id, text::one_line(&page.record.project));
    }
    if out.is_empty() {
        "there is no page yet: `leaf thread new TEXT` begins one\n".clone_into(&mut out);
    }
    output::print(&out)
}

/// Moves a page to the session (R111): what is owed moves with it, for the log says it.
fn claim(run: &Run, id: &PageId) -> Result<()> {
    let speaker = run.speaker(Verb::Everyones)?;
    if run.acts_as_fork() {
        return Err(crate::rules::writes::never_a_forks("claiming a page").into());
    }
    let home = run.desk.make_home()?;
    let page = run.desk.page(&home, id)?;
    let Some(session) = run.needed_session(&speaker)? else {
        return Err(Refused::by(
            "R111",
            "no session serves this directory, so that none can take the page: name one with --session",
        )
        .into());
    };
    let own = session.record.id.clone();
    if page.record.session.as_ref() == Some(&own) {
        return report(
            run,
            &page,
            &format!("page {id} is this session's already"),
            vec!["nothing was to be done".to_owned()],
        );
    }
    let mut page = page.lock(run.desk.deadline())?;
    let before = match page.page.record.session.clone().filter(|before| *before != own) {
        Some(before) => Session::open(&home, &before)?,
        None => None,
    };
    let now = run.desk.now();
    let (before, mut session) = match before {
        Some(before) => {
            let (before, session) = lock_both(before, session, run.desk.deadline())?;
            (Some(before), session)
        }
        None => (None, session.lock(run.desk.deadline())?),
    };
    // The old session's open turns on the page end (R111).
    let before = match before {
        Some(before) => {
            let mut tx = Transaction::of(page, Some(before), now);
            let open: Vec<_> = tx
                .state()
                .forks
                .iter()
                .filter(|turn| turn.ended.is_none() && turn.thread.as_ref().is_some_and(|(of, _)| of == id))
                .map(|turn| turn.id)
                .collect();
            for turn in open {
                tx.end(turn, Evidence::Claim, "", true)?;
            }
            page = tx.page;
            tx.session
        }
        None => None,
    };
    // The messages that are owed are new to its main, and delivered; of the to-dos it hears so (R98). It is told first: a line of a
    // page that a kill kept from coming is told nobody.
    let seat = Seat { state: session.state.clone(), alive: session.session.record.client_lives(), ..Seat::default() };
    let todos = todos::open(&Reading::new(id, &page.page.record, page.view(), &seat, now));
    let came = |open: &OpenTodo<'_>| {
        let thread = open.thread.id;
        let answer =
            open.waits.map_or(String::new(), |message| format!("; answer: leaf thread reply {} TEXT", message.id));
        let line = ClerkLine {
            quote: Some(open.todo.title.clone()),
            wake: open.urgency == Urgency::Awaited,
            todo: Some((id.clone(), open.todo.id)),
            ..ClerkLine::new(format!(
                "with page {id} came to-do {} of thread {thread} (leaf task list{answer}):",
                open.todo.id
            ))
        };
        Entry::clerk(now, Some(thread), line)
    };
    session.append(&todos.iter().take(TOLD).map(came).collect::<Vec<_>>())?;
    let open = text::count(todos.len(), "open to-do");
    let notes: Vec<String> =
        (!todos.is_empty()).then(|| format!("it has {open}: leaf task list")).into_iter().collect();
    // The lists first: page.json decides.
    let mut listed = session.session.record.clone();
    listed.add_page(id);
    session.replace_record(listed)?;
    page.hand_to(&session.session.record, now)?;
    if let Some(mut before) = before {
        let mut listed = before.session.record.clone();
        listed.pages.retain(|other| other != id);
        before.replace_record(listed)?;
        let text = format!("another session claimed page {id}; its threads are that session's now.");
        before.append(&[Entry::clerk(now, None, ClerkLine::new(text))])?;
    }
    drop(session);
    report(run, &page.page, &format!("page {id} is this session's now"), notes)
}

fn state(run: &Run, thread: Option<&str>) -> Result<()> {
    let (state, page) = match thread {
        None => {
            let page = run.page_to_read()?;
            let view = page.view()?;
            (status::page_state(run, &page, &view)?, page)
        }
        Some(thread) => {
            let prefix = Prefix::parse(thread)?;
            let speaker: Speaker = run.desk.speaker()?;
            let knows = super::thread::knows_thread(&prefix);
            let page = run.page_of(&speaker, &format!("thread {prefix}"), &prefix, false, knows)?;
            let view = page.hot_view_with(prefix.ids())?;
            let id = super::thread::pick_thread(&view, &prefix)?.id;
            let mut state = status::page_state(run, &page, &view)?;
            state.threads.retain(|thread| thread.id == id);
            state.owed.retain(|owed| owed.thread == id);
            state.todos.retain(|todo| todo.thread == id);
            (state, page)
        }
    };
    if run.common.json {
        return output::print_json(&state);
    }
    let mut out = format!("{}  {}\n", page.id, styled(Style::Bold, &text::one_line(&page.record.title)));
    for thread in &state.threads {
        let _ = writeln!(out, "{}", thread_line(thread));
    }
    for owed in &state.owed {
        let reference =
            owed.reference.map_or_else(|| "not delivered yet".to_owned(), |reference| reference.to_string());
        let _ = writeln!(out, "owed: thread {}, message {} ({reference})", owed.thread, owed.message);
    }
    for open in &state.todos {
        let _ = writeln!(out, "to do: {}  {}", open.todo.id, text::one_line(&open.todo.title));
    }
    if state.threads.is_empty() {
        out.push_str("no threads yet: `leaf thread new TEXT` begins one\n");
    }
    output::print(&out)
}

fn log(run: &Run, after: u32, follow: bool) -> Result<()> {
    let page = run.page_to_read()?;
    let bytes = Log::open_to_read(&page.dir)?.read_from(0)?;
    let events: Vec<Event> = pieces(&bytes)
        .filter_map(|piece| match piece {
            Piece::Line(line) => parse(line),
            Piece::Torn(_) => None,
        })
        .filter(|event| event.seq > after)
        .collect();
    if run.common.json && !follow {
        let lines: Vec<_> = events.iter().map(Event::to_line).collect();
        return output::print_json(&lines);
    }
    for event in &events {
        print_event(run, event)?;
    }
    if follow { follow_log(run, &page, page.view()?, None) } else { Ok(()) }
}

fn print_event(run: &Run, event: &Event) -> Result<()> {
    if run.common.json {
        return output::print_json(&event.to_line());
    }
    output::print(&format!("{:>5}  {}  {}\n", event.seq, event.ts.brief(), event_line(event)))
}

fn event_line(event: &Event) -> String {
    let short = |text: &str| text::first_words(text, 90);
    let id = event.id;
    match &event.body {
        Body::Message { thread, text, .. } => format!("{id}  user in {thread}: {}", short(text)),
        Body::Withdraw { message } => format!("{id}  user withdrew {message}"),
        Body::Resolve { thread } => format!("{id}  resolved {thread}"),
        Body::Reopen { thread } => format!("{id}  reopened {thread}"),
        Body::Reply { thread, text, responds: Some(message), .. } => {
            format!("{id}  answer to {message} in {thread}: {}", short(text))
        }
        Body::Reply { thread, text, responds: None, .. } => format!("{id}  unasked in {thread}: {}", short(text)),
        Body::Line { thread, text, .. } => format!("{id}  line in {thread}: {}", short(text)),
        Body::Pickup { thread, messages, delivery, .. } => {
            format!("{id}  picked up {} of {thread} by delivery {delivery}", text::count(messages.len(), "message"))
        }
        Body::Start { item, text, .. } => format!("{id}  started on {item}: {}", short(text)),
        Body::Todo { thread, title, .. } => format!("{id}  to-do in {thread}: {}", short(title)),
        Body::TodoEnd { todo, outcome, .. } => format!("{id}  to-do {todo} ended: {outcome:?}").to_lowercase(),
        Body::Unknown => format!("{id}  of a newer leaf"),
    }
}

/// Prints a page's further events as they come: all, or one thread's messages.
///
/// # Errors
/// Where the log can't be read or stdout not be written.
pub fn follow_log(run: &Run, page: &Page, mut view: View, thread: Option<ThreadId>) -> Result<()> {
    let mut log = Log::open_to_read(&page.dir)?;
    loop {
        std::thread::sleep(Duration::from_millis(200));
        if !output::is_read() {
            return Ok(());
        }
        if log.size()? <= view.offset {
            continue;
        }
        let bytes = log.read_from(view.offset)?;
        let before = view.seq;
        view.fold(page.record.key, &bytes);
        let new = pieces(&bytes)
            .filter_map(|piece| match piece {
                Piece::Line(line) => parse(line),
                Piece::Torn(_) => None,
            })
            .filter(|event| event.seq > before);
        for event in new {
            match thread {
                None => print_event(run, &event)?,
                Some(id) => print_of_thread(run, &view, id, &event)?,
            }
        }
    }
}

fn print_of_thread(run: &Run, view: &View, id: ThreadId, event: &Event) -> Result<()> {
    match &event.body {
        Body::Message { thread, .. } | Body::Reply { thread, .. } if *thread == id => {
            if run.common.json {
                return print_event(run, event);
            }
            match view.message(event.id.into()) {
                Some((_, message)) => output::print(&format!("\n{}", message_text(message))),
                None => Ok(()),
            }
        }
        Body::Line { thread, text, .. } if *thread == id => {
            if run.common.json {
                return print_event(run, event);
            }
            output::print(&format!("\n… {}\n", text::one_line(text)))
        }
        _ => Ok(()),
    }
}
