//! `leaf status`, and what page state takes from the session.

use std::fmt::Write;

use anyhow::Result;
use serde::Serialize;

use super::output::{self, Style, styled};
use super::thread::thread_line;
use super::{Run, trust};
use crate::clock::Ts;
use crate::ids::{AgentId, PageId, SessionId, ThreadId, TurnId};
use crate::page::Page;
use crate::page::state::{Follower, PageState, Status, ThreadState};
use crate::page::view::View;
use crate::place::Dir;
use crate::rules::holding::{Reading, Seat};
use crate::session::Session;
use crate::session::lane::{self, Lane};
use crate::session::record::SessionRecord;
use crate::session::state::TurnState;
use crate::text;
use crate::trust::Standing;

/// Returns a page's state, with what its session tells of turns: one whose client died is over (R88).
///
/// # Errors
/// Where the session's records can't be read.
pub fn page_state(run: &Run, page: &Page, view: &View) -> Result<PageState> {
    let home = run.desk.home()?;
    let session = match (&home, &page.record.session) {
        (Some(home), Some(id)) => Session::open(home, id)?,
        _ => None,
    };
    let mut open: Option<TurnId> = None;
    let mut follower = Follower::default();
    let mut seat = Seat::default();
    if let Some(session) = &session {
        seat = Seat {
            state: session.state()?,
            alive: session.record.client_lives(),
            lane: lane::follower(session),
            replies: session.record.switches.fork_replies,
        };
        if session.record.lives() {
            open = seat.state.main.as_ref().filter(|main| main.ended.is_none()).map(|main| main.id);
        }
        if let Some(holder) = lane::holder(session, Lane::Follower) {
            follower = Follower { running: true, since: Some(holder.since) };
        }
    }
    let reading = Reading::new(&page.id, &page.record, view, &seat, run.desk.now());
    Ok(crate::page::state::state(&reading, &page.record, open, follower))
}

#[derive(Serialize)]
struct StatusJson {
    format: u32,
    sessions: Vec<SessionStatus>,
    unread: Vec<PageStatus>,
    damaged: Vec<String>,
    trust: Standing,
}

#[derive(Serialize)]
struct SessionStatus {
    id: SessionId,
    live: bool,
    attended: bool,
    cwd: String,
    active: Ts,
    turn: Option<TurnId>,
    turn_since: Option<Ts>,
    watch: bool,
    follower: bool,
    lines: usize,
    forks: Vec<Running>,
    pages: Vec<PageStatus>,
}

/// A fork that runs (R122).
#[derive(Serialize)]
struct Running {
    name: String,
    turn: TurnId,
    agent_id: Option<AgentId>,
    thread: Option<ThreadId>,
    state: TurnState,
    since: Ts,
}

#[derive(Serialize)]
struct PageStatus {
    page: PageId,
    title: String,
    threads: Vec<ThreadState>,
    owed: usize,
    todos: usize,
}

/// Runs `leaf status`: live sessions with their pages, and pages that no live session holds and where something waits.
///
/// # Errors
/// Where the records can't be read.
pub fn run(run: &Run) -> Result<()> {
    let mut sessions = Vec::new();
    let mut unread = Vec::new();
    // One record that can't be read must not hide the others.
    let mut damaged = Vec::new();
    if let Some(home) = run.desk.home()? {
        for session in Session::all(&home)? {
            let wanted = run.common.session.as_ref().map_or(session.record.lives(), |id| *id == session.record.id);
            if wanted {
                match session_status(run, &home, &session) {
                    Ok(status) => sessions.push(status),
                    Err(error) => damaged.push(format!("session {}: {error:#}", session.record.id)),
                }
            }
        }
        for id in Page::all(&home)? {
            let page = match Page::open(&home, &id) {
                Ok(Some(page)) => page,
                Ok(None) => continue,
                Err(error) => {
                    damaged.push(format!("page {id}: {error:#}"));
                    continue;
                }
            };
            if run.desk.held_live(&home, &page.record) {
                continue;
            }
            match page_status(run, &page) {
                Ok(status) if status.owed > 0 || status.todos > 0 => unread.push(status),
                Ok(_) => {}
                Err(error) => damaged.push(format!("page {id}: {error:#}")),
            }
        }
    }
    sessions.sort_by_key(|session| session.active);
    sessions.reverse();
    let trust = trust::standing(run)?;
    if run.common.json {
        return output::print_json(&StatusJson { format: crate::FORMAT, sessions, unread, damaged, trust });
    }
    let mut out = String::new();
    for session in &sessions {
        session_text(session, &mut out);
    }
    for page in &unread {
        let _ = writeln!(out, "page {} waits for a session:", page.page);
        page_text(page, &mut out);
    }
    if out.is_empty() {
        out.push_str(
            "no session runs, and nothing waits: `leaf install` puts leaf into Claude Code, `leaf demo` shows it\n",
        );
    }
    for line in &damaged {
        let _ = writeln!(out, "damaged: {} (`leaf doctor` says more)", text::one_line(line));
    }
    if let Some(line) = trust.sentence() {
        let _ = writeln!(out, "{line}");
    }
    output::print(&out)
}

fn session_status(run: &Run, home: &Dir, session: &Session) -> Result<SessionStatus> {
    let record: &SessionRecord = &session.record;
    let state = session.state()?;
    let turn = state.main.as_ref().filter(|main| record.lives() && main.open(run.desk.now()));
    let pages = run.desk.held(home, record)?;
    Ok(SessionStatus {
        id: record.id.clone(),
        live: record.lives(),
        attended: record.attended,
        cwd: record.cwd.clone(),
        active: state.active.max(record.started),
        turn: turn.map(|turn| turn.id),
        turn_since: turn.map(|turn| turn.opened),
        watch: lane::holder(session, Lane::Watch).is_some(),
        follower: lane::holder(session, Lane::Follower).is_some(),
        lines: state.clerk.len(),
        forks: state
            .forks
            .iter()
            .map(|turn| {
                let followed = lane::holder(session, Lane::Follower).is_some();
                (turn, turn.stands(state.generation, record.client_lives(), followed, run.desk.now()))
            })
            .filter(|(_, stands)| *stands != TurnState::Ended)
            .map(|(turn, stands)| Running {
                name: turn.name.clone(),
                turn: turn.id,
                agent_id: turn.agent.clone(),
                thread: turn.thread.as_ref().map(|(_, thread)| *thread),
                state: stands,
                since: turn.opened,
            })
            .collect(),
        pages: pages.iter().map(|page| page_status(run, page)).collect::<Result<_>>()?,
    })
}

fn page_status(run: &Run, page: &Page) -> Result<PageStatus> {
    let view = page.view()?;
    let state = page_state(run, page, &view)?;
    Ok(PageStatus {
        page: page.id.clone(),
        title: page.record.title.clone(),
        owed: state.owed.len(),
        todos: state.todos.len(),
        threads: state
            .threads
            .into_iter()
            .filter(|thread| !matches!(thread.status, Status::Resolved | Status::Answered))
            .collect(),
    })
}

fn session_text(session: &SessionStatus, out: &mut String) {
    let doing = match (session.live, session.turn_since) {
        (false, _) => "ended".to_owned(),
        (true, Some(since)) => format!("at work since {}", since.brief()),
        (true, None) if session.watch => "idle; wakes for a message".to_owned(),
        (true, None) => "idle; hears of a message at its next prompt".to_owned(),
    };
    let attended = if session.attended { "" } else { ", unattended" };
    let _ = writeln!(
        out,
        "session {}  {}  {doing}{attended}",
        styled(Style::Bold, &text::one_line(session.id.as_str())),
        text::one_line(&session.cwd)
    );
    for fork in &session.forks {
        let thread = fork.thread.map_or(String::new(), |thread| format!(" on thread {thread}"));
        let state = format!("{:?}", fork.state).to_lowercase();
        let name = text::one_line(&fork.name);
        let _ = writeln!(out, "  fork {name}{thread}: {state} since {}; leaf fork stop {name}", fork.since.brief());
    }
    for page in &session.pages {
        page_text(page, out);
    }
    if session.pages.is_empty() {
        out.push_str("  no page yet: `leaf thread new TEXT` begins one\n");
    }
}

fn page_text(page: &PageStatus, out: &mut String) {
    let _ = writeln!(
        out,
        "  page {}: {} open, {} owed, {}",
        page.page,
        text::count(page.threads.len(), "thread"),
        page.owed,
        text::count(page.todos, "to-do")
    );
    for thread in &page.threads {
        let _ = writeln!(out, "    {}", thread_line(thread));
    }
}
