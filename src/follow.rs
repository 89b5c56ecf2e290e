//! `leaf follow`: the pages' follower, which the hooks module keeps running. It holds the follower's lane and prints what is to be
//! done as JSON lines; it decides nothing that the rules don't (R13, R19, R33).

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{Run, output};
use crate::client::claude_code;
use crate::clock::Ts;
use crate::desk::Speaker;
use crate::duty;
use crate::forks::go_on;
use crate::headless;
use crate::ids::{MessageId, PageId, ThreadId, TurnId, sha256_hex};
use crate::page::view::View;
use crate::page::{Page, state};
use crate::refused::Refused;
use crate::rules::deliver::{inbox, lines, wakes};
use crate::rules::holding::{Holder, Reading, Seat};
use crate::rules::way::Way;
use crate::schedule::in_session;
use crate::schedule::record::Runner;
use crate::session::Session;
use crate::session::journal::{Action, Entry, Evidence, Kind};
use crate::session::lane::{self, Held, Lane, LaneRecord};
use crate::session::liveness::{Life, Process};
use crate::session::state::{ForkTurn, TurnState};
use crate::sleeper::{Signature, Sleeper, Until};
use crate::transaction::Transaction;

/// A watch's wake is a prompt by then, milliseconds.
const WAKES: i64 = 5_000;
/// What went unanswered for this long is printed again.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a look that failed is left alone.
const PAUSE: Duration = Duration::from_millis(250);

/// Follows the session's pages until stdout closes, the client dies or a newer follower comes.
///
/// # Errors
/// Where there is no session to follow, or its records can't be read.
pub fn run(run: &Run, status: bool) -> Result<()> {
    if run.turn.is_some() {
        return nothing_to_follow();
    }
    let speaker = run.desk.speaker()?;
    let session = match (run.session(&speaker)?, &speaker) {
        (Some(session), _) => session,
        (None, Speaker::Agent(id)) => run.desk.make_session(id, &std::env::current_dir().unwrap_or_default())?,
        (None, Speaker::Person) => {
            return Err(Refused::input("there is no session to follow: name one with --session").into());
        }
    };
    let token = format!("{:016x}{:016x}", crate::ids::random_u64()?, crate::ids::random_u64()?);
    let Some(held) = take_lane(run, &session, &token)? else { return Ok(()) };
    let client = session.record.process.clone();
    let mut follower = Follower {
        run,
        session,
        held,
        client,
        token: token.clone(),
        asked: BTreeMap::new(),
        started: BTreeMap::new(),
        going_on: BTreeMap::new(),
        runners: Vec::new(),
        woken: None,
        status: status.then(String::new),
        out: true,
    };
    follower.say(&json!({ "token": token }));
    follower.follow()
}

/// In a headless run there is nothing to follow (R118): it stays, so that the module doesn't start it again and again.
fn nothing_to_follow() -> Result<()> {
    while output::is_read() {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// The lane's record, with each page's `seq`, is written under the session's lock before anyone may see it as live (R19).
fn take_lane(run: &Run, session: &Session, token: &str) -> Result<Option<Held>> {
    let home = run.desk.make_home()?;
    let locked = Session::open(&home, &session.record.id)?
        .ok_or_else(|| Refused::input("the session is gone"))?
        .lock(run.desk.deadline())?;
    let mut seqs = BTreeMap::new();
    for page in run.desk.held(&home, &locked.session.record)? {
        seqs.insert(page.id.clone(), page.hot_view()?.seq);
    }
    let record = LaneRecord {
        since: run.desk.now(),
        process: Process::own(),
        nonce: crate::ids::random_u64()?,
        seqs,
        token: Some(sha256_hex(token.as_bytes())),
        woke: None,
    };
    let held = Held::say(session, Lane::Follower, record)?;
    drop(locked);
    held.wait()
}

struct Follower<'a> {
    run: &'a Run,
    session: Session,
    held: Held,
    client: Option<Process>,
    token: String,
    /// Which question was printed when.
    asked: BTreeMap<(PageId, ThreadId), (MessageId, Instant)>,
    /// Which action was printed when.
    started: BTreeMap<TurnId, Instant>,
    /// What a resting run is to go on with, until it does.
    going_on: BTreeMap<TurnId, Action>,
    /// The processes of headless runs that go on.
    runners: Vec<Process>,
    /// How much news an idle session was woken for, and when.
    woken: Option<(u64, Instant)>,
    /// The session's threads as last printed, where that is wanted.
    status: Option<String>,
    /// Whether somebody reads what is printed.
    out: bool,
}

impl Follower<'_> {
    fn say(&mut self, line: &Value) {
        let mut out = std::io::stdout().lock();
        self.out &= writeln!(out, "{line}").and_then(|()| out.flush()).is_ok();
    }

    /// Whether the reader of stdout is gone.
    fn unread(&self) -> bool {
        !self.out || !output::is_read()
    }

    fn follow(&mut self) -> Result<()> {
        let mut sleeper = Sleeper::new(&self.run.desk.clock);
        loop {
            let gone = self.client.as_ref().is_some_and(|client| client.life() == Life::Dead);
            if !self.held.wanted() || gone || self.unread() {
                return Ok(());
            }
            let home = self.run.desk.make_home()?;
            let Some(session) = Session::open(&home, &self.session.record.id)? else { return Ok(()) };
            self.session = session;
            // Across /clear it goes on under its client's new session (R19, R106).
            if self.session.record.ended.is_some()
                && let Some(next) = self.session.record.moved_to.clone()
                && let Some(next) = Session::open(&home, &next)?
            {
                let Some(held) = take_lane(self.run, &next, &self.token)? else { return Ok(()) };
                self.held = held;
                self.session = next;
            }
            // Before anything is read: what changes from here on ends the sleep.
            sleeper.listen(&home, &self.session);
            let seen = Signature::of(&home, &self.session);
            let (instant, mut within) = match self.look() {
                Ok(next) => next,
                Err(error) => {
                    crate::errors::note(&format!("follow: {error:#}"));
                    std::thread::sleep(PAUSE);
                    (None, None)
                }
            };
            within = [within, self.again()].into_iter().flatten().min();
            let client = self.client.clone();
            let mut processes: Vec<&Process> = client.iter().collect();
            processes.extend(self.runners.iter());
            sleeper.sleep(&home, &self.session, &seen, &Until { instant, within, processes, reader: true });
        }
    }

    fn seat(&self) -> Result<Seat> {
        Ok(Seat {
            state: self.session.state()?,
            alive: self.session.record.client_lives(),
            lane: lane::follower(&self.session).or_else(|| Some(self.held.seqs())),
            replies: self.session.record.switches.fork_replies,
        })
    }

    /// Does what is to be done now. Returns when time alone next changes something, or how long until there is more to do.
    fn look(&mut self) -> Result<(Option<Ts>, Option<Duration>)> {
        let home = self.run.desk.make_home()?;
        let now = self.run.desk.now();
        let views = duty::views(&self.run.desk, &home, &self.session.record)?;
        let seat = self.seat()?;
        self.runners = headless::runners(&seat.state);
        headless::sweep(&seat.state, now);
        if duty::settle(&self.run.desk, &home, &views, &seat)? {
            // What changed is looked at anew: writing it ends the sleep.
            return Ok((None, Some(PAUSE)));
        }
        headless::begin_waiting(&self.run.desk, &seat.state)?;
        self.show(&views, &seat, now);
        self.stop_asked(&seat)?;
        self.repeat_actions(&seat);
        let mut further: Vec<(PageId, TurnId, ThreadId)> = Vec::new();
        for (page, view) in &views {
            let reading = Reading::new(&page.id, &page.record, view, &seat, now);
            for thread in view.in_order() {
                if let Some(Holder::Fork(actor, TurnState::Resting)) = reading.holder(thread)
                    && thread.shared().any(|message| !message.picked_up_by(actor.turn))
                {
                    further.push((page.id.clone(), actor.turn, thread.id));
                }
            }
        }
        self.asked.retain(|key, (_, at)| at.elapsed() < AGAIN || seat.state.queue.contains(key));
        let asks = duty::asks(&views, &seat, now, |key| self.asked.get(key).map(|(message, _)| *message))?;
        for ask in asks {
            self.say(&json!({"ask": {"thread": ask.key.1, "through": ask.message, "question": ask.question}}));
            self.asked.insert(ask.key, (ask.message, Instant::now()));
        }
        for (page, turn, thread) in further {
            if let Some(page) = Page::open(&home, &page)? {
                let mut tx = Transaction::open(&self.run.desk, page, self.run.desk.deadline())?;
                let action = go_on(&mut tx, turn, thread)?;
                drop(tx);
                if let Some(action) = action {
                    self.start(&action);
                    self.going_on.insert(turn, action);
                }
            }
        }
        if let Some(action) = duty::take_head(&self.run.desk, &home, &self.session.record, &seat, now)? {
            self.start(&action);
        }
        self.start_scheduled(&seat);
        self.wake(&views, &seat, now)?;
        Ok((duty::next(&views, &seat, true, now), None))
    }

    /// Returns how long it is until something that was printed is printed again.
    fn again(&self) -> Option<Duration> {
        let asked = self.asked.values().map(|(_, at)| at);
        let printed = asked.chain(self.started.values()).chain(self.woken.iter().map(|(_, at)| at));
        printed.filter_map(|at| AGAIN.checked_sub(at.elapsed())).min()
    }

    /// Prints the session's threads in one line, whenever it changes.
    fn show(&mut self, views: &[(Page, View)], seat: &Seat, now: Ts) {
        let Some(shown) = &self.status else { return };
        let open = seat.state.main.as_ref().filter(|main| main.ended.is_none()).map(|main| main.id);
        let mut statuses = Vec::new();
        for (page, view) in views {
            let reading = Reading::new(&page.id, &page.record, view, seat, now);
            statuses.extend(view.in_order().map(|thread| state::status(&reading, thread, open)));
        }
        let text = state::brief(&statuses);
        if *shown != text {
            self.say(&json!({ "status": { "text": text } }));
            self.status = Some(text);
        }
    }

    fn start(&mut self, action: &Action) {
        if let Action::Spawn { turn, .. } | Action::Resume { turn, .. } = action {
            self.started.insert(*turn, Instant::now());
            self.say(&json!({ "start": action }));
        }
    }

    /// Prints which scheduled forks are to be started in the session, and again what the module did not act on within 10 s.
    fn start_scheduled(&mut self, seat: &Seat) {
        let record = &seat.state.schedule;
        for scheduled in record.runs.iter().filter(|run| in_session::is_ready(record, run, Runner::Module)) {
            if self.started.get(&scheduled.issue.run).is_some_and(|at| at.elapsed() < AGAIN) {
                continue;
            }
            match in_session::action(&self.run.desk, &self.session, &seat.state, scheduled) {
                Ok(Some(action)) => self.start(&action),
                Ok(None) => {}
                // It is over once nobody started it for long enough.
                Err(error) => crate::errors::note(&format!("follow: scheduled fork: {error:#}")),
            }
        }
    }

    /// Prints again what the module did not act on within 10 s.
    fn repeat_actions(&mut self, seat: &Seat) {
        let state = &seat.state;
        self.going_on
            .retain(|turn, _| state.fork(*turn).is_some_and(|turn| turn.ended.is_none() && !turn.rests_on.is_empty()));
        // An action that `leaf fork line` printed and nobody heard is nobody's but the follower's (R29).
        let now = self.run.desk.now();
        let unheard = |turn: &&ForkTurn| {
            turn.ended.is_none()
                && turn.begun.is_none()
                && turn.action.is_some()
                && matches!(turn.way, None | Some(Way::Module))
        };
        for turn in state.forks.iter().filter(unheard) {
            let age = Duration::from_millis(u64::try_from(now.since(turn.opened)).unwrap_or(0));
            let opened = || Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
            self.started.entry(turn.id).or_insert_with(opened);
        }
        let waiting: Vec<Action> = state
            .forks
            .iter()
            .filter(|turn| turn.ended.is_none() && self.started.get(&turn.id).is_some_and(|at| at.elapsed() >= AGAIN))
            .filter_map(|turn| match turn.begun {
                None => turn.action.clone(),
                Some(_) => self.going_on.get(&turn.id).cloned(),
            })
            .collect();
        for action in waiting {
            self.start(&action);
        }
    }

    /// Tells the module which agents a person asked to stop.
    fn stop_asked(&mut self, seat: &Seat) -> Result<()> {
        for id in &seat.state.stops {
            let stopped = seat.state.fork(*id).filter(|turn| turn.way != Some(Way::Headless));
            if let Some(agent) = stopped.and_then(|turn| turn.agent.clone()) {
                self.say(&json!({"stop": {"agent_id": agent}}));
            }
            let told = Entry {
                turn: Some(*id),
                evidence: Some(Evidence::Module),
                ..Entry::new(self.run.desk.now(), Kind::Stop)
            };
            let home = self.run.desk.make_home()?;
            if let Some(session) = Session::open(&home, &self.session.record.id)? {
                session.lock(self.run.desk.deadline())?.append(&[told])?;
            }
        }
        Ok(())
    }

    /// Wakes an idle session for new input, once for each (R105).
    fn wake(&mut self, views: &[(Page, View)], seat: &Seat, now: Ts) -> Result<()> {
        let id = self.session.record.id.clone();
        // A run that nobody attends is over at its Stop: it is never idle.
        if seat.state.open_turn(now).is_some() || !self.session.record.attended {
            self.woken = None;
            return Ok(());
        }
        let inboxes: Vec<_> = views
            .iter()
            .map(|(page, view)| inbox(&Reading::new(&page.id, &page.record, view, seat, now), &id))
            .collect();
        if !wakes(&inboxes, lines(&seat.state, duty::of(views))) {
            return Ok(());
        }
        let newest =
            inboxes.iter().flat_map(|inbox| &inbox.new).flat_map(|bundle| &bundle.messages).map(|message| message.seq);
        let news = u64::from(newest.max().unwrap_or(0))
            .max(lines(&seat.state, duty::of(views)).map(|line| line.id << 32).max().unwrap_or(0));
        // A watch that left to wake the session did it for the same news: its prompt is on its way.
        if lane::woke(&self.session).is_some_and(|woke| now < woke.plus(WAKES)) {
            self.woken.get_or_insert((0, Instant::now()));
            return Ok(());
        }
        let heard = |(seen, at): &(u64, Instant)| news <= *seen && at.elapsed() < AGAIN;
        if !self.woken.as_ref().is_some_and(heard) {
            self.woken = Some((news, Instant::now()));
            self.say(&json!({"wake": {"text": claude_code::WAKE}}));
        }
        Ok(())
    }
}
