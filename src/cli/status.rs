//! `leaf status`, and what page state takes from the session.

use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::output::{self, Style, cost_words, styled};
use super::task::todo_lines;
use super::thread::thread_line;
use super::{Run, trust};
use crate::clock::Ts;
use crate::ids::{AgentId, PageId, SessionId, ThreadId, TurnId};
use crate::page::Page;
use crate::page::state::{Follower, OpenTodo, PageState, Status, ThreadState};
use crate::page::view::View;
use crate::place::Dir;
use crate::refused::Refused;
use crate::rules::holding::{Reading, Seat};
use crate::rules::keep_back;
use crate::rules::way::Way;
use crate::schedule::{close, pause};
use crate::session::Session;
use crate::session::journal::Cost;
use crate::session::lane::{self, Lane};
use crate::session::record::SessionRecord;
use crate::session::state::{Spent, State, TurnState};
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
    /// Sessions that are open though nobody would come back to them.
    stale: Vec<Stale>,
    /// The sessions that closed last.
    closed: Vec<Closed>,
    damaged: Vec<String>,
    trust: Standing,
}

#[derive(Serialize)]
struct Stale {
    id: SessionId,
    cwd: String,
    active: Ts,
}

#[derive(Serialize)]
struct Closed {
    id: SessionId,
    cwd: String,
    at: Ts,
    reason: String,
}

/// A session's schedule.
#[derive(Serialize)]
struct Scheduled {
    open: bool,
    stale: bool,
    /// Since when it is idle, as its forks and hooks count it.
    idle_since: Option<Ts>,
    /// The runs that are not over.
    runs: Vec<ScheduledRun>,
    /// The reports that wait for its next prompt.
    reports: Vec<Waiting>,
    /// How much that happened its lifecycle hooks were not told of yet.
    hooks_owed: usize,
}

/// A scheduled fork's run that is not over.
#[derive(Serialize)]
struct ScheduledRun {
    run: TurnId,
    fork: String,
    moment: String,
    since: Ts,
    pid: Option<i32>,
    agent_id: Option<AgentId>,
    /// The forks whose runs it waits for.
    waits_for: Vec<String>,
}

/// A report that waits.
#[derive(Serialize)]
struct Waiting {
    run: TurnId,
    fork: String,
    since: Option<Ts>,
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
    watch_since: Option<Ts>,
    watch_pid: Option<i32>,
    follower: bool,
    follower_since: Option<Ts>,
    follower_pid: Option<i32>,
    lines: usize,
    kept_back: Vec<KeptBack>,
    forks: Vec<Running>,
    schedule: Scheduled,
    spent: Spent,
    pages: Vec<PageStatus>,
}

/// A thread that is kept back: a line fork is being asked about it, or it waits for a fork to be free (R13, R33).
#[derive(Serialize)]
struct KeptBack {
    page: PageId,
    thread: ThreadId,
    /// When its oldest waiting message came.
    since: Ts,
    /// When it is main's, unless something comes of it before.
    until: Ts,
    queued: bool,
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
    renewed: Ts,
    /// Since when there is a sign of its end that is not final yet (R78).
    ending: Option<Ts>,
    /// How it runs (R117).
    way: Option<Way>,
    /// A headless run's process, and when it is stopped at the latest (R118, R119).
    pid: Option<i32>,
    until: Option<Ts>,
    /// What it cost in runs of this turn that are over.
    #[serde(flatten)]
    cost: Cost,
}

/// Returns how a turn stands, for a person.
pub fn stands(state: TurnState) -> &'static str {
    match state {
        TurnState::Running => "running",
        TurnState::Resting => "resting",
        TurnState::Lapsed => "lapsed",
        TurnState::Ended => "ended",
    }
}

#[derive(Serialize)]
struct PageStatus {
    page: PageId,
    title: String,
    threads: Vec<ThreadState>,
    owed: usize,
    todos: usize,
    #[serde(skip)]
    open: Vec<OpenTodo>,
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
    let mut stale = Vec::new();
    let mut ended: Vec<Session> = Vec::new();
    if let Some(home) = run.desk.home()? {
        for session in Session::all(&home)? {
            let wanted = run.common.session.as_ref().map_or(session.record.lives(), |id| *id == session.record.id);
            if wanted {
                match session_status(run, &home, &session) {
                    Ok(status) => sessions.push(status),
                    Err(error) => damaged.push(format!("session {}: {error:#}", session.record.id)),
                }
            } else if session.record.ended.is_some() {
                ended.push(session);
            } else if let Ok(state) = session.state()
                && state.schedule.is_open()
            {
                // Its client is dead, and nobody saw it yet.
                let active = state.active.max(session.record.started);
                stale.push(Stale { id: session.record.id, cwd: session.record.cwd, active });
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
    if let Some(id) = run.common.session.as_ref().filter(|_| sessions.is_empty() && damaged.is_empty()) {
        let sentence =
            format!("leaf knows no session {}: `leaf status` lists those that it knows", text::one_line(id.as_str()));
        return Err(Refused::input(sentence).into());
    }
    sessions.sort_by_key(|session| session.active);
    sessions.reverse();
    let closed = if run.common.session.is_none() { closed(ended) } else { Vec::new() };
    // A project's files must not keep the rest from being seen.
    let trust = trust::standing(run).unwrap_or_else(|error| {
        damaged.push(format!("this project's files: {error:#}"));
        Standing::default()
    });
    if run.common.json {
        let format = crate::FORMAT;
        return output::print_json(&StatusJson { format, sessions, unread, stale, closed, damaged, trust });
    }
    let mut out = String::new();
    for session in &sessions {
        session_text(session, run.desk.now(), &mut out);
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
    for session in &stale {
        let _ = writeln!(
            out,
            "session {}  {}  stale: its client is dead since {} or later; leaf prune closes it",
            text::one_line(session.id.as_str()),
            text::one_line(&session.cwd),
            session.active.brief()
        );
    }
    for session in &closed {
        let id = text::one_line(session.id.as_str());
        let line = format!("closed {}  {id}  {}", session.at.brief(), text::one_line(&session.reason));
        let _ = writeln!(out, "{}", styled(Style::Dim, &line));
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
    let pages = run.desk.held(home, record)?;
    let watch = lane::holder(session, Lane::Watch);
    let follower = lane::holder(session, Lane::Follower);
    let seat = Seat {
        alive: record.client_lives(),
        lane: follower.as_ref().map(|holder| holder.seqs.clone()),
        replies: record.switches.fork_replies,
        state,
    };
    let state = &seat.state;
    let turn = state.main.as_ref().filter(|main| record.lives() && main.open(run.desk.now()));
    let mut kept_back = Vec::new();
    for page in &pages {
        let view = page.hot_view()?;
        kept_back.extend(kept(&Reading::new(&page.id, &page.record, &view, &seat, run.desk.now())));
    }
    Ok(SessionStatus {
        id: record.id.clone(),
        live: record.lives(),
        attended: record.attended,
        cwd: record.cwd.clone(),
        active: state.active.max(record.started),
        turn: turn.map(|turn| turn.id),
        turn_since: turn.map(|turn| turn.opened),
        watch: watch.is_some(),
        watch_since: watch.as_ref().map(|holder| holder.since),
        watch_pid: watch.as_ref().map(|holder| holder.process.pid),
        follower: follower.is_some(),
        follower_since: follower.as_ref().map(|holder| holder.since),
        follower_pid: follower.as_ref().map(|holder| holder.process.pid),
        schedule: scheduled(run, session, state)?,
        lines: state.clerk.len(),
        kept_back,
        spent: state.spent,
        forks: state
            .forks
            .iter()
            .map(|turn| (turn, turn.stands(state.generation, seat.alive, seat.lane.is_some(), run.desk.now())))
            .filter(|(_, stands)| *stands != TurnState::Ended)
            .map(|(turn, stands)| Running {
                name: turn.name.clone(),
                turn: turn.id,
                agent_id: turn.agent.clone(),
                thread: turn.thread.as_ref().map(|(_, thread)| *thread),
                state: stands,
                since: turn.opened,
                renewed: turn.renewed,
                ending: turn.ending.map(|(since, _)| since),
                way: turn.way,
                pid: turn.runner.as_ref().map(|runner| runner.process.pid),
                until: turn.runner.as_ref().map(|runner| runner.until),
                cost: turn.cost,
            })
            .collect(),
        pages: pages.iter().map(|page| page_status(run, page)).collect::<Result<_>>()?,
    })
}

/// Returns the sessions that closed last, the newest first.
fn closed(mut ended: Vec<Session>) -> Vec<Closed> {
    const MOST: usize = 8;
    ended.sort_by_key(|session| std::cmp::Reverse(session.record.ended));
    // Those of an older leaf tell nothing of a close.
    ended.truncate(4 * MOST);
    let of = |session: Session| {
        let closed = session.state().ok()?.schedule.closed?;
        Some(Closed { id: session.record.id, cwd: session.record.cwd, at: closed.at, reason: closed.reason })
    };
    ended.into_iter().filter_map(of).take(MOST).collect()
}

fn scheduled(run: &Run, session: &Session, state: &State) -> Result<Scheduled> {
    let record = &state.schedule;
    let forks = |runs: &[TurnId]| runs.iter().filter_map(|id| Some(record.run(*id)?.issue.fork.clone())).collect();
    let open = record.runs.iter().filter(|run| run.over.is_none());
    let waiting = record.runs.iter().filter(|run| run.report.is_some());
    let settings = run.desk.schedule(Path::new(&session.record.cwd)).0;
    let now = run.desk.now();
    let pause = pause::pause(record, settings.background_hold, settings.background_hold_timeout);
    let idle = pause.filter(|pause| pause.held.unwrap_or(pause.from) <= now).map(|pause| pause.from);
    Ok(Scheduled {
        open: record.is_open(),
        stale: record.is_open() && close::is_abandoned(&run.desk, session)?,
        idle_since: idle.filter(|_| state.open_turn(run.desk.now()).is_none()),
        runs: open
            .map(|run| ScheduledRun {
                run: run.issue.run,
                fork: run.issue.fork.clone(),
                moment: run.issue.label.clone(),
                since: run.begun.unwrap_or(run.issued),
                pid: run.process.as_ref().map(|process| process.pid),
                agent_id: run.agent.clone(),
                waits_for: if run.is_held() { forks(&run.issue.waits_for) } else { Vec::new() },
            })
            .collect(),
        reports: waiting
            .map(|run| Waiting { run: run.issue.run, fork: run.issue.fork.clone(), since: run.over })
            .collect(),
        hooks_owed: record.happened.len(),
    })
}

/// Returns the threads of a page that are kept back, the queue's in its order (R33), then the others.
fn kept(reading: &Reading<'_>) -> Vec<KeptBack> {
    let place = |thread: ThreadId| {
        reading.state.queue.iter().position(|(page, queued)| page == reading.page && *queued == thread)
    };
    let mut kept: Vec<(usize, KeptBack)> = reading
        .view
        .in_order()
        .filter(|thread| reading.kept_back(thread))
        .filter_map(|thread| {
            let (oldest, newest) = (thread.input().next()?.ts, thread.input().next_back()?.ts);
            let (at, most) = (place(thread.id), oldest.plus(keep_back::MOST));
            let until = if at.is_some() { most } else { most.min(newest.plus(keep_back::LINE)) };
            let kept =
                KeptBack { page: reading.page.clone(), thread: thread.id, since: oldest, until, queued: at.is_some() };
            Some((at.unwrap_or(usize::MAX), kept))
        })
        .collect();
    kept.sort_by_key(|(at, _)| *at);
    kept.into_iter().map(|(_, kept)| kept).collect()
}

fn page_status(run: &Run, page: &Page) -> Result<PageStatus> {
    let view = page.view()?;
    let state = page_state(run, page, &view)?;
    Ok(PageStatus {
        page: page.id.clone(),
        title: page.record.title.clone(),
        owed: state.owed.len(),
        todos: state.todos.len(),
        open: state.todos,
        threads: state
            .threads
            .into_iter()
            .filter(|thread| !matches!(thread.status, Status::Resolved | Status::Answered))
            .collect(),
    })
}

fn session_text(session: &SessionStatus, now: Ts, out: &mut String) {
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
    // Without a module the watch does the follower's part while main is idle.
    let both = session.watch_pid.is_some() && session.watch_pid == session.follower_pid;
    if !both {
        lane_text("follower", session.follower_since, session.follower_pid, out);
    }
    let watch = if both { "watch, which asks and starts forks too," } else { "watch" };
    lane_text(watch, session.watch_since, session.watch_pid, out);
    for kept in &session.kept_back {
        let left = text::count(usize::try_from((kept.until.since(now) + 999) / 1000).unwrap_or(0), "second");
        let what = if kept.queued { "waits for a fork to be free" } else { "is kept back for a line fork" };
        let _ = writeln!(out, "  thread {} {what} since {}; main's in {left}", kept.thread, kept.since.brief());
    }
    for fork in &session.forks {
        let shared = session.forks.iter().filter(|other| other.name == fork.name).count() > 1;
        fork_text(fork, shared, out);
    }
    schedule_text(&session.schedule, out);
    spent_text(session.spent, out);
    for page in &session.pages {
        page_text(page, out);
    }
    if session.pages.is_empty() {
        out.push_str("  no page yet: `leaf thread new TEXT` begins one\n");
    }
}

fn lane_text(what: &str, since: Option<Ts>, pid: Option<i32>, out: &mut String) {
    if let (Some(since), Some(pid)) = (since, pid) {
        let _ = writeln!(out, "  {what} since {}, pid {pid}; it leaves with the client", since.brief());
    }
}

fn fork_text(fork: &Running, shared: bool, out: &mut String) {
    let thread = fork.thread.map_or(String::new(), |thread| format!(" on thread {thread}"));
    let state = if fork.ending.is_some() { "ending" } else { stands(fork.state) };
    let name = text::one_line(&fork.name);
    let cost = cost_words(fork.cost);
    let cost = if cost.is_empty() { cost } else { format!(", {cost}") };
    let process = match (fork.pid, fork.until) {
        (Some(pid), Some(until)) => format!(", pid {pid} until {} at most", until.brief()),
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "  fork {name}{thread}: {state} since {}, last heard of {}{process}{cost}; stop: leaf fork stop {}",
        fork.since.brief(),
        fork.renewed.brief(),
        // A run that leaf did not start may have no name.
        if name.is_empty() || shared { fork.turn.to_string() } else { name.clone() }
    );
}

fn schedule_text(schedule: &Scheduled, out: &mut String) {
    if schedule.stale {
        out.push_str("  stale: nobody would come back to it; leaf prune closes it\n");
    }
    for run in &schedule.runs {
        let (fork, moment) = (text::one_line(&run.fork), text::one_line(&run.moment));
        if !run.waits_for.is_empty() {
            let names = run.waits_for.iter().map(|name| text::one_line(name)).collect::<Vec<_>>().join(", ");
            let _ = writeln!(out, "  scheduled fork {fork} ({moment}): waits for {names}");
            continue;
        }
        let process = run.pid.map_or(String::new(), |pid| format!(", pid {pid}"));
        let since = run.since.brief();
        let _ = writeln!(
            out,
            "  scheduled fork {fork} ({moment}): running since {since}{process}; stop: leaf fork stop scheduled-{fork}"
        );
    }
    if !schedule.reports.is_empty() {
        let names: Vec<String> = schedule.reports.iter().map(|report| text::one_line(&report.fork)).collect();
        let number = text::count(names.len(), "report");
        let _ = writeln!(out, "  {number} for the next prompt: {}; leaf runs tells more", names.join(", "));
    }
}

fn spent_text(spent: Spent, out: &mut String) {
    if spent == Spent::default() {
        return;
    }
    let cost = cost_words(spent.cost);
    let told = if cost.is_empty() { "the client told no cost".to_owned() } else { cost };
    let _ = writeln!(
        out,
        "  since it began: {}, {}; {told}",
        text::count(spent.forks as usize, "run") + " of forks",
        text::count(spent.lines as usize, "line fork") + " asked",
    );
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
    for open in &page.open {
        let _ = writeln!(out, "    to-do {}", todo_lines(open).trim_end().replace('\n', "\n    "));
    }
}
