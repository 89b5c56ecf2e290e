//! `leaf watch`: the parked background hook of an idle session. Exit 2 wakes it (R105); it leaves for a newer one, with its
//! client, and follows that across /clear (R106).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::client::claude_code;
use crate::client::claude_code::print::{self, Output};
use crate::client::{Agent, Event, What};
use crate::clock::Ts;
use crate::desk::{Desk, Prefix};
use crate::duty::{self, Ask, Key};
use crate::errors;
use crate::headless::{self, Gated};
use crate::ids::{self, MessageId, TurnId};
use crate::page::Page;
use crate::page::view::View;
use crate::place::Dir;
use crate::rules::deliver::{inbox, lines, wakes};
use crate::rules::holding::{Reading, Seat};
use crate::schedule::issue::{self, Known};
use crate::schedule::lifecycle::{Attendant, Place};
use crate::schedule::record::{Change, RunOutcome, Runner};
use crate::schedule::{close, in_session, run, select, wait};
use crate::session::journal::{Cost, Entry};
use crate::session::lane::{self, Held, Lane, LaneRecord};
use crate::session::liveness::{Life, Process};
use crate::session::record::SessionRecord;
use crate::session::state::LAPSE;
use crate::session::{LockedSession, Session};
use crate::sleeper::{Signature, Sleeper, Until};
use crate::text::count;
use crate::transaction::Transaction;

/// How long a lock may be waited for (R108).
const WAIT: Duration = Duration::from_secs(2);
/// How long a line fork may take without a module (R13(g) gives it 30 s).
const ANSWER: Duration = Duration::from_secs(25);
/// How long a look is left alone that failed, or that is to be made again.
const PAUSE: Duration = Duration::from_millis(250);
/// How many line forks are asked at once.
const MOST: usize = 3;
/// Main has been idle for this long before the follower's part is taken: the Stop that ended its turn parks a newer watch.
const REST: Duration = Duration::from_millis(300);
/// What is to wake must stand this long: the hook of the same event may be about to deliver it.
const SETTLE: Duration = Duration::from_millis(150);
/// A follower that was killed is back within this; one that starts with the session is there by then. Until then waking is its.
const BACK: Duration = Duration::from_secs(2);
/// How long the module has to wake, and where the client refuses it (R105), milliseconds.
const UNHEARD: i64 = 5_000;
const STOPPED: i64 = 1_000;
/// How often other sessions are looked at that may have died with their watch.
const SWEEP: Duration = Duration::from_secs(60);
/// A stamp that is this far ahead is of a clock that went back, milliseconds.
const AHEAD: i64 = 1_000;
/// Fork files may come and change without a word: an idle session's are looked at again after this.
const FILES: Duration = Duration::from_secs(30);
/// How long the hook of the same event may take to write what it has to.
const GRACE: Duration = Duration::from_secs(10);

/// Parks until there is something to wake for. Returns the exit code.
pub fn run() -> u8 {
    match park() {
        Ok(Some(text)) => {
            // Where nobody reads it any more, nobody is to be woken.
            match writeln!(std::io::stderr(), "{text}") {
                Ok(()) => 2,
                Err(_) => 0,
            }
        }
        Ok(None) => 0,
        Err(error) => {
            errors::note(&format!("watch: {error:#}"));
            0
        }
    }
}

fn park() -> Result<Option<String>> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(32 << 20).read_to_end(&mut bytes)?;
    let desk = Desk::new(WAIT)?;
    // In an unattended session the client waits for background hooks: this one would hang the run.
    if !desk.attended() || desk.env.var("LEAF_TURN").is_some() || desk.env.var("LEAF_FORK").is_some() {
        return Ok(None);
    }
    let event = match claude_code::read(&bytes) {
        Ok(event) => event,
        Err(error) => {
            errors::note(&format!("watch: {error}"));
            return Ok(None);
        }
    };
    if event.agent != Agent::Main || matches!(event.what, What::Other) {
        return Ok(None);
    }
    let client = desk.client();
    let Some((home, session)) = await_record(&desk, &event, client.as_ref())? else { return Ok(None) };
    if !session.record.attended {
        return Ok(None);
    }
    let Some(held) = Held::take(&session, Lane::Watch, desk.now())? else { return Ok(None) };
    let followed = matches!(event.what, What::SessionStart(_)).then(Instant::now);
    Watch {
        desk,
        home,
        client,
        session,
        held,
        part: None,
        idle: None,
        followed,
        unheard: None,
        scheduled: false,
        hooks: Attendant::default(),
        patterns: Vec::new(),
        swept: None,
    }
    .wait()
}

/// Waits until the hook of the same event has written what it has to: the session's record, and a prompt's turn, without
/// which input that the prompt delivers would look new.
fn await_record(desk: &Desk, event: &Event<'_>, client: Option<&Process>) -> Result<Option<(Dir, Session)>> {
    let until = Instant::now() + GRACE;
    loop {
        if let Some(home) = desk.home()?
            && let Some(session) = Session::open(&home, &event.session)?
        {
            let own = client.is_none() || session.record.process.is_none() || session.record.process.as_ref() == client;
            let told = match (&event.what, &event.prompt) {
                (What::Prompt(_), Some(prompt)) => {
                    let state = session.state()?;
                    state.main.is_some_and(|main| main.prompt.as_deref() == Some(prompt.as_ref()))
                }
                _ => true,
            };
            if own && told && session.record.generation.is_some() {
                return Ok(Some((home, session)));
            }
        }
        if Instant::now() > until || client.is_some_and(|client| client.life() == Life::Dead) {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Watch {
    desk: Desk,
    home: Dir,
    client: Option<Process>,
    session: Session,
    held: Held,
    /// The follower's part, while main is idle and nobody else has it.
    part: Option<Part>,
    /// Since when main is idle, as far as this process saw.
    idle: Option<Instant>,
    /// When a follower was last there, or may have been about to be.
    followed: Option<Instant>,
    /// Since when there is something that the module was to wake for.
    unheard: Option<Ts>,
    /// Whether the session could have scheduled forks: there are places for them.
    scheduled: bool,
    /// The session's lifecycle hooks.
    hooks: Attendant,
    /// What `changed` moments of its forks match.
    patterns: Vec<String>,
    /// When other sessions were last looked at.
    swept: Option<Instant>,
}

/// What is to be done after a look.
enum Look {
    /// Nothing has come; time alone next changes something then.
    Wait(Option<Ts>),
    /// Something was done: look again.
    Again,
    /// The lane is another's, or the client is gone.
    Leave,
    /// The session is to be woken, with this text.
    Wake(String),
    /// The session is to be woken for what scheduled forks reported, or ask of it.
    WakeForForks(String),
    /// The client goes on in another session (R109).
    Follow(Box<Session>),
}

impl Watch {
    fn wait(mut self) -> Result<Option<String>> {
        let mut sleeper = Sleeper::new(&self.desk.clock);
        loop {
            // Before anything is read: what changes from here on ends the sleep.
            sleeper.listen(&self.home, &self.session);
            let seen = Signature::of(&self.home, &self.session);
            let mut look = self.try_look();
            if matches!(look, Look::Wake(_) | Look::WakeForForks(_)) {
                std::thread::sleep(SETTLE);
                look = self.try_look();
            }
            let attended = if matches!(look, Look::Wait(_)) { self.attend() } else { (None, None) };
            let (instant, pause) = match look {
                Look::Wait(instant) => (instant, None),
                // Writing it ends the sleep.
                Look::Again => (None, Some(PAUSE)),
                Look::Leave => return Ok(None),
                Look::Wake(text) => {
                    self.held.leave_to_wake(self.desk.now())?;
                    return Ok(Some(text));
                }
                Look::WakeForForks(text) => {
                    self.append(Change::Woke)?;
                    self.held.leave_to_wake(self.desk.now())?;
                    return Ok(Some(text));
                }
                Look::Follow(session) => {
                    self.part = None;
                    let Some(held) = Held::take(&session, Lane::Watch, self.desk.now())? else { return Ok(None) };
                    self.session = *session;
                    self.held = held;
                    continue;
                }
            };
            let follower = lane::claimant(&self.session, Lane::Follower);
            let client = self.client.as_ref().or(self.session.record.process.as_ref()).cloned();
            let runners = self
                .session
                .state()
                .map(|state| [headless::runners(&state), wait::processes(&state.schedule)].concat())
                .unwrap_or_default();
            let asking: Vec<Process> = self.part.iter().flat_map(Part::processes).collect();
            let mut processes: Vec<&Process> = client.iter().chain(&runners).chain(&asking).collect();
            // Its death frees the lane without a word.
            processes.extend(follower.as_ref().map(|follower| &follower.process));
            let rest = self.idle.filter(|_| self.part.is_none()).and_then(|idle| REST.checked_sub(idle.elapsed()));
            let back = if follower.is_none() { self.back_in() } else { None };
            let files = self.idle.filter(|_| self.scheduled).map(|_| FILES);
            let part = self.part.as_ref().and_then(Part::within);
            let within = [pause, rest, back, part, files, attended.1].into_iter().flatten().min();
            let instant = instant.into_iter().chain(attended.0).min();
            sleeper.sleep(&self.home, &self.session, &seen, &Until { instant, within, processes, reader: false });
        }
    }

    /// A look that fails (a lock that isn't had in time) is made again: leaving would leave the session without a watch.
    fn try_look(&mut self) -> Look {
        match self.look() {
            Ok(look) => look,
            Err(error) => {
                errors::note(&format!("watch: {error:#}"));
                std::thread::sleep(PAUSE);
                if self.client_gone() { Look::Leave } else { Look::Again }
            }
        }
    }

    fn client_gone(&self) -> bool {
        let process = self.client.as_ref().or(self.session.record.process.as_ref());
        process.is_some_and(|process| process.life() == Life::Dead)
    }

    fn seat(&self) -> Result<Seat> {
        Ok(Seat {
            state: self.session.state()?,
            alive: true,
            lane: lane::follower(&self.session),
            replies: self.session.record.switches.fork_replies,
        })
    }

    fn look(&mut self) -> Result<Look> {
        if !self.held.wanted() {
            return Ok(Look::Leave);
        }
        if self.client_gone() {
            self.close()?;
            return Ok(Look::Leave);
        }
        let Some(session) = Session::open(&self.home, &self.session.record.id)? else { return Ok(Look::Leave) };
        self.session = session;
        let record = &self.session.record;
        if let (Some(client), Some(process)) = (&self.client, &record.process)
            && client != process
        {
            // Another client has the session now (R112).
            return Ok(Look::Leave);
        }
        if record.ended.is_some() {
            self.part = None;
            let next = record.moved_to.as_ref().and_then(|id| Session::open(&self.home, id).ok().flatten());
            return Ok(next.map_or(Look::Wait(None), |next| Look::Follow(Box::new(next))));
        }
        match self.news()? {
            Look::Wait(next) => self.schedule(next),
            other => Ok(other),
        }
    }

    /// Looks at the schedule of forks: what is due is issued and started. `next`: when to look again for other reasons.
    fn schedule(&mut self, next: Option<Ts>) -> Result<Look> {
        let now = self.desk.now();
        let state = self.session.state()?;
        let record = &state.schedule;
        if record.is_ahead_of(now.plus(AHEAD)) {
            self.append(Change::Clock { now })?;
            return Ok(Look::Again);
        }
        if wait::may_be_dead(record) && run::harvest(&mut self.lock()?, now)? {
            return Ok(Look::Again);
        }
        if let Some(late) = in_session::unstarted(record, now).next() {
            let why = "nobody started it in the session";
            in_session::end(
                &self.desk,
                &self.home,
                &self.session.record.id,
                late,
                RunOutcome::Failed,
                why,
                Cost::default(),
            )?;
            return Ok(Look::Again);
        }
        self.scheduled = false;
        // Nothing is issued in the middle of a turn (W1).
        if record.closed.is_some() || record.stopped.is_none() || state.open_turn(now).is_some() {
            return Ok(Look::Wait(next));
        }
        if let Some(text) = wait::wake(record).map(ToOwned::to_owned).or_else(|| in_session::request(record)) {
            return Ok(Look::WakeForForks(text));
        }
        let Some(mut known) = Known::read(&self.desk, &self.session.record, record)? else {
            return Ok(Look::Wait(next));
        };
        self.scheduled = true;
        self.patterns = known.patterns();
        let view = known.view(&state, false, now);
        let standings = select::select(&view);
        if select::due(&view, &standings).is_empty() {
            return Ok(Look::Wait(next.into_iter().chain(select::next(&view, &standings)).min()));
        }
        let issued = issue::in_pause(&self.desk, &self.home, &self.session, &mut known)?;
        let own: Vec<TurnId> =
            issued.iter().filter(|issue| issue.runner == Runner::Headless).map(|issue| issue.run).collect();
        if !own.is_empty()
            && let Err(error) = run::start(&self.session.record, &own)
        {
            errors::note(&format!("watch: {error:#}"));
            // This process lives on, so that nobody else would take them for dead.
            run::not_started(&mut self.lock()?, &own, &format!("{error:#}"), now)?;
        }
        Ok(Look::Again)
    }

    fn lock(&self) -> Result<LockedSession> {
        Session::open(&self.home, &self.session.record.id)?.context("the session is gone")?.lock(self.desk.deadline())
    }

    fn append(&self, change: Change) -> Result<()> {
        self.lock()?.append(&[Entry::schedule(self.desk.now(), change)])
    }

    /// Closes the session of a client that died without a word.
    fn close(&self) -> Result<()> {
        match Session::open(&self.home, &self.session.record.id)? {
            Some(session) => close::gone(&self.desk, &self.home, session, Place::Own).map(drop),
            None => Ok(()),
        }
    }

    /// Sees to the lifecycle hooks, and now and then to sessions that died with their watch. It must not keep the session from being
    /// woken.
    fn attend(&mut self) -> (Option<Ts>, Option<Duration>) {
        if self.swept.is_none_or(|swept| swept.elapsed() >= SWEEP) {
            self.swept = Some(Instant::now());
            if let Err(error) = close::sweep(&self.desk, &self.home, Some(&self.session.record.id)) {
                errors::note(&format!("watch: {error:#}"));
            }
        }
        match self.hooks.look(&self.desk, &self.home, &self.session, self.patterns.clone()) {
            Ok((instant, within)) => (instant, within.into_iter().chain([SWEEP]).min()),
            Err(error) => {
                errors::note(&format!("watch: {error:#}"));
                (None, Some(SWEEP))
            }
        }
    }

    fn news(&mut self) -> Result<Look> {
        let now = self.desk.now();
        let state = self.session.state()?;
        let idle = state.open_turn(now).is_none();
        let since = if idle { Some(self.idle.unwrap_or_else(Instant::now)) } else { None };
        self.idle = since;
        // Somebody newer wants it, or main is at work: then nothing is kept back for want of a module.
        if self.part.as_mut().is_some_and(|part| !idle || !part.held.wanted()) {
            self.part = None;
        }
        if self.part.is_none() && lane::holder(&self.session, Lane::Follower).is_some() {
            // Where there is a module, it does all this, and wakes (R105).
            self.followed = Some(Instant::now());
            if idle {
                return self.if_unheard(now, if state.stopped { STOPPED } else { UNHEARD });
            }
            self.unheard = None;
            let main = state.main.iter().filter(|main| main.ended.is_none()).map(|main| main.renewed.plus(LAPSE));
            return Ok(Look::Wait(main.filter(|lapse| *lapse > now).min()));
        }
        headless::sweep(&state, now);
        if self.part.is_none() && since.is_some_and(|since| since.elapsed() >= REST) && self.may_take_part() {
            self.part = Part::take(&self.desk, &self.home, &self.session)?;
        }
        let record = &self.session.record;
        let seat = self.seat()?;
        let views = duty::views(&self.desk, &self.home, record)?;
        if self.report_ends(&seat)? | duty::settle(&self.desk, &self.home, &views, &seat)? {
            return Ok(Look::Again);
        }
        headless::begin_waiting(&self.desk, &seat.state)?;
        let next = duty::next(&views, &seat, false, now);
        if !idle {
            return Ok(Look::Wait(next));
        }
        if let Some(part) = &mut self.part
            && part.act(&self.desk, &self.home, &self.session, &views, &seat)?
        {
            return Ok(Look::Again);
        }
        if self.back_in().is_some() {
            return Ok(Look::Wait(next));
        }
        Ok(self.wake(&views, &seat, now).map_or(Look::Wait(next), Look::Wake))
    }

    /// Returns how long a follower that is gone may still be on its way back.
    fn back_in(&self) -> Option<Duration> {
        self.followed.filter(|_| self.part.is_none()).and_then(|at| BACK.checked_sub(at.elapsed()))
    }

    /// Wakes for what the module had time enough to wake for: the client refuses its prompt after an interruption, until the
    /// person's next one.
    fn if_unheard(&mut self, now: Ts, time: i64) -> Result<Look> {
        let views = duty::views(&self.desk, &self.home, &self.session.record)?;
        let Some(text) = self.wake(&views, &self.seat()?, now) else {
            self.unheard = None;
            return Ok(Look::Wait(None));
        };
        let due = self.unheard.get_or_insert(now).plus(time);
        Ok(if now < due { Look::Wait(Some(due)) } else { Look::Wake(text) })
    }

    /// Returns what an idle session is woken with, where there is something (R105).
    fn wake(&self, views: &[(Page, View)], seat: &Seat, now: Ts) -> Option<String> {
        let id = &self.session.record.id;
        let inboxes: Vec<_> = views
            .iter()
            .map(|(page, view)| inbox(&Reading::new(&page.id, &page.record, view, seat, now), id))
            .collect();
        if !wakes(&inboxes, lines(&seat.state, duty::of(views))) {
            return None;
        }
        Some(match inboxes.iter().map(|inbox| inbox.new.len()).sum() {
            0 => "something happened on the page that this session is to know; it stands in this turn's context"
                .to_owned(),
            threads => format!(
                "the user wrote in {} beside this session; what they wrote stands in this turn's context",
                count(threads, "thread")
            ),
        })
    }

    /// Whether the configuration allows what the follower's part costs here.
    fn may_take_part(&self) -> bool {
        let record = &self.session.record;
        record.attended
            && record.switches.fork_replies
            && record.switches.pays()
            && headless::program(&self.desk.env).is_some()
    }

    /// Ends what only a module would report: this part has none (R78). Returns whether there was something.
    fn report_ends(&self, seat: &Seat) -> Result<bool> {
        if self.part.is_none() {
            return Ok(false);
        }
        let (now, state) = (self.desk.now(), &seat.state);
        let mut any = false;
        for turn in state.forks.iter().filter(|turn| turn.ending.is_some()) {
            let Some(evidence) = turn.due(state.generation, seat.alive, false, now) else { continue };
            let page = match &turn.thread {
                Some((page, _)) => Page::open(&self.home, page)?,
                None => self.desk.held(&self.home, &self.session.record)?.into_iter().next(),
            };
            if let Some(page) = page {
                Transaction::open(&self.desk, page, self.desk.deadline())?.end(turn.id, evidence, "", true)?;
                any = true;
            }
        }
        Ok(any)
    }
}

/// The follower's part without a module: the follower's lane, and the line forks that are asked (R13, R117). Dropped, it lets go of
/// the lane and stops them.
struct Part {
    held: Held,
    asked: BTreeMap<Key, (MessageId, Instant)>,
    asking: Vec<Asking>,
}

/// A line fork in a process of its own.
struct Asking {
    ask: Ask,
    child: Child,
    process: Process,
    said: Receiver<Vec<u8>>,
    began: Instant,
}

impl Part {
    /// Takes the follower's lane, where nobody has it. The record is written under the session's lock (R19).
    fn take(desk: &Desk, home: &Dir, session: &Session) -> Result<Option<Part>> {
        let Some(open) = Session::open(home, &session.record.id)? else { return Ok(None) };
        let locked = open.lock(desk.deadline())?;
        if lane::holder(session, Lane::Follower).is_some() || lane::claimant(session, Lane::Follower).is_some() {
            return Ok(None);
        }
        let mut seqs = BTreeMap::new();
        for page in desk.held(home, &locked.session.record)? {
            seqs.insert(page.id.clone(), page.hot_view()?.seq);
        }
        let record = LaneRecord {
            since: desk.now(),
            process: Process::own(),
            nonce: ids::random_u64()?,
            seqs,
            token: None,
            woke: None,
        };
        let held = Held::say(session, Lane::Follower, record)?;
        drop(locked);
        let held = held.wait()?;
        Ok(held.map(|held| Part { held, asked: BTreeMap::new(), asking: Vec::new() }))
    }

    fn processes(&self) -> impl Iterator<Item = Process> {
        self.asking.iter().map(|asking| asking.process.clone())
    }

    /// How long it is until a line fork has had its time.
    fn within(&self) -> Option<Duration> {
        self.asking.iter().map(|asking| ANSWER.saturating_sub(asking.began.elapsed())).min()
    }

    /// Takes what was said, asks what is to be asked, and takes for the head of the queue. Returns whether something changed.
    fn act(&mut self, desk: &Desk, home: &Dir, session: &Session, views: &[(Page, View)], seat: &Seat) -> Result<bool> {
        let mut changed = false;
        for asking in std::mem::take(&mut self.asking) {
            let mut asking = asking;
            match asking.answer() {
                Some(said) => {
                    changed = true;
                    self.route(desk, home, &asking.ask, &said)?;
                }
                None => self.asking.push(asking),
            }
        }
        if changed {
            return Ok(true);
        }
        let kept: Vec<_> = duty::asks(views, seat, desk.now(), |key| self.asked.get(key).map(|(message, _)| *message))?;
        for ask in kept {
            // One question a thread at a time: its answer says that there is a newer message.
            if self.asking.len() < MOST && !self.asking.iter().any(|asking| asking.ask.key == ask.key) {
                self.asked.insert(ask.key.clone(), (ask.message, Instant::now()));
                match Asking::start(desk, &session.record, ask.clone()) {
                    Ok(asking) => self.asking.push(asking),
                    Err(error) => {
                        changed = true;
                        let text = format!("the line fork can't be started: {error:#}");
                        self.route(desk, home, &ask, &Output { text, failed: true, ..Output::default() })?;
                    }
                }
            }
        }
        Ok(duty::take_head(desk, home, &session.record, seat, desk.now())?.is_some() || changed)
    }

    /// Does with an answer what `leaf fork line` does (R24 to R26). A run that failed gave none, whatever it wrote.
    fn route(&mut self, desk: &Desk, home: &Dir, ask: &Ask, said: &Output) -> Result<()> {
        let Some(page) = Page::open(home, &ask.key.0)? else { return Ok(()) };
        let text = if said.failed { format!("the line fork gave no answer: {}", said.text) } else { said.text.clone() };
        let through = Prefix::parse(&ask.message.to_string())?;
        let mut tx = Transaction::open(desk, page, desk.deadline())?;
        crate::line::answer(desk, &mut tx, ask.key.1, Some(&through), &text, said.cost)?;
        Ok(())
    }
}

impl Asking {
    fn start(desk: &Desk, record: &SessionRecord, ask: Ask) -> Result<Asking> {
        let program = headless::program(&desk.env).context("there is no `claude` on PATH")?;
        let mut command = headless::command(
            &desk.env,
            &program,
            record,
            Path::new("/dev/null"),
            &print::question(&record.id, &ask.question),
        )?;
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Gated::start(command)?.go();
        let process = Process::of(i32::try_from(child.id()).unwrap_or(0));
        let (sender, said) = channel();
        if let Some(mut out) = child.stdout.take() {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = out.by_ref().take(print::OUTPUT).read_to_end(&mut bytes);
                // One that goes on is not stopped by a full pipe.
                let _ = std::io::copy(&mut out, &mut std::io::sink());
                // Nobody waits for it any more where this fails.
                let _ = sender.send(bytes);
            });
        }
        Ok(Asking { ask, child, process, said, began: Instant::now() })
    }

    /// Returns what was said, once the process is done or its time is up.
    fn answer(&mut self) -> Option<Output> {
        let done = matches!(self.child.try_wait(), Ok(Some(_)));
        if !done && self.began.elapsed() < ANSWER {
            return None;
        }
        let said = if done { self.said.recv_timeout(SETTLE).ok() } else { None };
        let late = || Output { text: "it took too long".to_owned(), failed: true, ..Output::default() };
        Some(said.map_or_else(late, |bytes| print::output(&bytes)))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        headless::kill(&self.process);
        let _ = self.child.wait();
    }
}
