//! One hook event: read, decide, write, answer. A hook never breaks the user's session: whatever fails here is one line in
//! errors.log, silent for the client, exit 0; but for identity, which fails closed (R73).

mod agents;
pub mod gate;
mod guard;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use gate::Found;
use rustix::buffer::spare_capacity;

use crate::client::claude_code::{self, CONTEXT_LIMIT, intake};
use crate::client::{Agent, Decision, Event, Prompted, Source, Task, What};
use crate::clock::Ts;
use crate::context;
use crate::desk::Desk;
use crate::duty;
use crate::errors;
use crate::ids::{DeliveryId, Generation, PageId, SessionId, TurnId};
use crate::lock::Deadline;
use crate::page::event::{Actor, By, pickup};
use crate::page::snapshot::Kept;
use crate::page::view::{Todo, View};
use crate::page::{LockedPage, Page};
use crate::place::{Dir, Env, canonical};
use crate::pointer;
use crate::rules::deliver::{self, Bundle, Continue, Inbox, Moment, inbox};
use crate::rules::holding::{Reading, Seat};
use crate::rules::todos::OpenTodo;
use crate::schedule::lifecycle::{self, Place};
use crate::schedule::record::{Change, Happening};
use crate::schedule::{close, pause, report, run};
use crate::session::journal::{ClerkLine, Entry, Evidence, Kind};
use crate::session::lane;
use crate::session::liveness::{Life, Process};
use crate::session::record::{SessionRecord, Switches};
use crate::session::state::{RENEWAL, State};
use crate::session::{LockedSession, Session, lock_both};
use crate::text::{Fence, utf16};
use crate::transaction::{self, Transaction};

/// A hook waits this long for its locks (R108).
const WAIT: Duration = Duration::from_secs(2);
/// A larger payload is passed by, bytes.
const PAYLOAD_LIMIT: u64 = 32 << 20;

/// Runs one hook event from stdin.
pub fn run() {
    let more = |buffer: &mut Vec<u8>| Ok(rustix::io::read(rustix::stdio::stdin(), spare_capacity(buffer))?);
    let bytes = match intake::read(more, PAYLOAD_LIMIT) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return errors::note("hook: the payload is larger than 32 MiB"),
        Err(error) => return errors::note(&format!("hook: the payload can't be read: {error}")),
    };
    let done = match claude_code::read(&bytes) {
        Ok(event) => handle(&event),
        Err(error) => return errors::note(&format!("hook: {error}")),
    };
    if let Err(error) = done {
        errors::note(&format!("hook: {error:#}"));
    }
}

fn handle(event: &Event<'_>) -> Result<()> {
    let env = Env::default();
    // A copy that runs on a schedule is no session (its calls are not marked either): one that it starts would be the next.
    if env.var("LEAF_FORK").is_some() {
        return Ok(());
    }
    // A headless run of leaf's opens no session of its own (R118).
    let before_a_tool = matches!(event.what, What::Shell { .. } | What::Edit { .. } | What::Launch { .. });
    if !before_a_tool && env.var("LEAF_TURN").is_some() {
        return Ok(());
    }
    match &event.what {
        What::Other => Ok(()),
        What::Shell { shell, command, input } => say(&event.what, &agents::identity(event, *shell, command, input)),
        What::Edit { tool, input } => say(&event.what, &agents::edit(event, tool, input)),
        What::Launch { fork, prompt, input } => say(&event.what, &agents::launch(event, *fork, prompt, input)),
        What::Launched { .. } | What::NotLaunched { .. } | What::TaskStopped(_) => agents::evidence(event).map(drop),
        _ if event.agent != Agent::Main => agents::event(event),
        What::AgentStarted | What::AgentStopped { .. } => Ok(()),
        What::SessionStart(source) => start(event, *source),
        What::Prompt(prompted) => {
            let told = matches!(prompted, Prompted::Notification(_));
            let hook = if told { Hook::after_evidence(event)? } else { Hook::open(event, true)? };
            hook.map_or(Ok(()), |hook| hook.prompt(prompted))
        }
        What::Boundary { .. } => boundary(event),
        What::Stop { again, background } => {
            let hook = if background.is_some() { Hook::after_evidence(event)? } else { Hook::open(event, true)? };
            hook.map_or(Ok(()), |hook| hook.stop(*again, background.as_deref().unwrap_or_default()))
        }
        What::StopFailure(_) => Hook::open(event, false)?.map_or(Ok(()), |hook| hook.end(Evidence::StopFailure)),
        What::SessionEnd(reason) => Hook::open(event, false)?.map_or(Ok(()), |hook| hook.session_end(reason)),
    }
}

/// Takes main's boundary: the short way, where an earlier one's silence stands.
fn boundary(event: &Event<'_>) -> Result<()> {
    let desk = Desk::new(WAIT)?;
    let Some(home) = desk.home()? else { return Ok(()) };
    let found = Found::look(&desk, &home, &event.session);
    if found.as_ref().is_some_and(|found| found.is_shut(&desk, &home, &event.session)) {
        return Ok(());
    }
    let session = Session::open(&home, &event.session)?;
    Hook::of(desk, home, event, session, false)?.map_or(Ok(()), |hook| hook.boundary(found))
}

/// Writes the client's answer: exactly one JSON object, or nothing.
fn say(what: &What<'_>, decision: &Decision) -> Result<()> {
    if let Some(answer) = claude_code::answer(what, decision) {
        let mut out = std::io::stdout().lock();
        out.write_all(answer.as_bytes()).and_then(|()| out.flush()).context("the answer could not be written")?;
    }
    Ok(())
}

/// Begins or goes on with a session (R2, R109, R112).
fn start(event: &Event<'_>, source: Source) -> Result<()> {
    let desk = Desk::new(WAIT)?;
    let home = desk.make_home()?;
    let known = Session::open(&home, &event.session)?;
    let goes_on = source == Source::Compact
        && known.as_ref().is_some_and(|session| standing(&desk, &session.record) == Standing::Own);
    let mut notes = Vec::new();
    let session = match known {
        Some(known) if goes_on => known,
        known => {
            let begun = begin(&desk, &home, event, known, source.word())?;
            end_older(&desk, &home, &begun)?;
            let took =
                matches!(source, Source::Clear | Source::Resume) && take_over_process(&desk, &home, event, |_| true)?;
            let begun = if took { open_again(&home, event)? } else { begun };
            notes = inherit(&desk, &home, &begun)?;
            if notes.is_empty() { begun } else { open_again(&home, event)? }
        }
    };
    let deadline = desk.deadline();
    let hook = Hook { desk, home, event, deadline, session };
    let mut output = Output { text: notes.iter().map(|note| format!("leaf: {note}\n")).collect(), ..Output::default() };
    hook.recover(matches!(source, Source::Compact | Source::Resume), &mut output)?;
    hook.finish(output)?;
    hook.serve(&hook.session.state()?);
    // Sessions that died with their watch: a process of its own closes them.
    if !close::candidates(&hook.desk, &hook.home, Some(hook.id()))?.is_empty() {
        lifecycle::start_sweep();
    }
    Ok(())
}

fn open_again(home: &Dir, event: &Event<'_>) -> Result<Session> {
    Session::open(home, &event.session)?.context("the session is gone")
}

/// Whose session a hook's process speaks for (R112).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The session's client.
    Own,
    /// Another client, while the session's own lives.
    Foreign,
    /// The session's client is gone, or was never recorded: this one begins a generation.
    New,
}

fn standing(desk: &Desk, record: &SessionRecord) -> Standing {
    if record.generation.is_none() {
        return Standing::New;
    }
    match (&record.process, desk.client_pid()) {
        (None, _) | (_, None) => Standing::Own,
        (Some(process), Some(pid)) if process.pid == pid => Standing::Own,
        (Some(process), Some(_)) if process.life() == Life::Dead => Standing::New,
        (Some(_), Some(_)) => Standing::Foreign,
    }
}

/// Begins a generation of a session that may be `known`: it ends the older one's open turns (Words: *generation*), and its client is
/// the session's (R112).
fn begin(desk: &Desk, home: &Dir, event: &Event<'_>, known: Option<Session>, source: &str) -> Result<Session> {
    let now = desk.now();
    let cwd = canonical(Path::new(event.cwd.as_ref())).to_string_lossy().into_owned();
    let known = match known {
        Some(known) => known,
        None => Session::make(home, &desk.fresh_record(home, &event.session, cwd.clone()), desk.deadline())?,
    };
    let mut session = known.lock(desk.deadline())?;
    let generation = Generation::new()?;
    let mut entries = Vec::new();
    if let Some(main) = session.state.main.as_ref().filter(|main| main.ended.is_none()) {
        entries.push(Entry::ended(now, main.id, Evidence::Generation));
    }
    entries.push(Entry {
        generation: Some(generation),
        source: Some(source.to_owned()),
        ..Entry::new(now, Kind::Generation)
    });
    let model = event.model.as_deref().map(ToOwned::to_owned);
    let source = matches!(event.what, What::SessionStart(_)).then(|| source.to_owned());
    let before = &session.session.record;
    let project = if event.cwd.is_empty() { before.cwd.clone() } else { cwd.clone() };
    let mut is_open = session.state.schedule.is_open();
    if is_open && before.process.as_ref().is_some_and(|process| process.life() == Life::Dead) {
        // Nobody saw the end of its last client.
        let reason = close::GONE.to_owned();
        entries.push(Entry::schedule(now, Change::Closed { reason: reason.clone() }));
        entries.extend(lifecycle::entry(&desk.env, &before.cwd, Happening::SessionEnd { reason }, now));
        is_open = false;
    }
    let opened = Change::Opened { source: source.clone(), model, tags: pause::filter(&desk.env) };
    entries.push(Entry::schedule(now, opened));
    if !is_open {
        entries.extend(lifecycle::entry(&desk.env, &project, Happening::SessionStart { source }, now));
    }
    session.append(&entries)?;
    let config = desk.config(&project);
    for warning in &config.warnings {
        errors::note(&format!("configuration: {warning}"));
    }
    let record = SessionRecord {
        generation: Some(generation),
        process: desk.client(),
        attended: desk.attended(),
        switches: Switches {
            fork_replies: desk.env.text("LEAF_FORK_REPLIES").as_deref() != Some("off"),
            fork_work: config.work,
            limits: desk.client_limits(),
            headless: config.headless,
            way: config.way,
            guard: config.guard,
        },
        cwd: if event.cwd.is_empty() { session.session.record.cwd.clone() } else { cwd },
        transcript: event.transcript.as_deref().map(ToOwned::to_owned),
        path: desk.env.text("PATH"),
        ended: None,
        owes: false,
        moved_to: None,
        ..session.session.record.clone()
    };
    session.replace_record(record)?;
    Ok(session.session.clone())
}

/// Ends the open turns of forks of an older generation (Words: *generation*).
fn end_older(desk: &Desk, home: &Dir, session: &Session) -> Result<()> {
    if session.state()?.forks.iter().any(|turn| turn.ended.is_none()) {
        for page in desk.held(home, &session.record)? {
            Transaction::open(desk, page, desk.deadline())?.settle()?;
        }
    }
    Ok(())
}

/// Takes over the pages, known agents and unread lines of the session that just ended in this process (R109). A client has one
/// session at a time: another of its process that went nowhere has ended, though the hook that was to say so was killed. Returns
/// whether there was one.
fn take_over_process(desk: &Desk, home: &Dir, event: &Event<'_>, wanted: impl Fn(&Session) -> bool) -> Result<bool> {
    let Some(process) = desk.client() else { return Ok(false) };
    let of_process = |record: &SessionRecord| {
        record.id != event.session && record.process.as_ref() == Some(&process) && record.moved_to.is_none()
    };
    let mut before: Vec<Session> = Session::keys(home)?
        .iter()
        .filter(|key| SessionRecord::read(home, key).is_some_and(|record| of_process(&record)))
        .filter_map(|key| Session::open_key(home, key).ok().flatten())
        .filter(|session| of_process(&session.record) && wanted(session))
        .collect();
    before.sort_by_key(|session| session.record.ended.unwrap_or(desk.now()));
    let any = !before.is_empty();
    for before in before {
        take_over(desk, home, event, before)?;
    }
    Ok(any)
}

fn take_over(desk: &Desk, home: &Dir, event: &Event<'_>, before: Session) -> Result<()> {
    let Some(own) = Session::open(home, &event.session)? else { return Ok(()) };
    let was = before.record.id.clone();
    // The oldest first, so that the one that came last stays last.
    for page in desk.held(home, &before.record)?.into_iter().rev() {
        let id = page.id.clone();
        {
            let mut tx = Transaction::open(desk, page, desk.deadline())?;
            let open: Vec<TurnId> =
                tx.state().forks.iter().filter(|turn| turn.ended.is_none()).map(|turn| turn.id).collect();
            for turn in open {
                tx.end(turn, Evidence::Generation, "", true)?;
            }
        }
        let Some(page) = Page::open(home, &id)? else { continue };
        desk.take_over(page, &own, |record| record.session.as_ref() == Some(&was))?;
    }
    let (mut before, mut own) = lock_both(before, own, desk.deadline())?;
    let now = desk.now();
    let mut taken: Vec<Entry> = before.state.clerk.iter().map(|line| Entry::clerk(now, None, line.clone())).collect();
    // Its forks live on in the client, and must never be taken for workers.
    taken.extend(before.state.agents.iter().map(|(agent, parent)| Entry {
        agent: Some(agent.clone()),
        parent: parent.clone(),
        ..Entry::new(now, Kind::Agent)
    }));
    // An agent that a turn of this client awaited may still show up (R39).
    if before.state.unnamed_ended {
        taken.push(Entry::new(now, Kind::Agent));
    }
    own.append(&taken)?;
    let mut left: Vec<Entry> = Vec::new();
    let printed: Vec<u64> = before.state.clerk.iter().map(|line| line.id).collect();
    if !printed.is_empty() {
        left.push(Entry { lines: printed, ..Entry::new(now, Kind::Printed) });
    }
    if let Some(main) = before.state.main.as_ref().filter(|main| main.ended.is_none()) {
        left.push(Entry::ended(now, main.id, Evidence::Generation));
    }
    if !left.is_empty() {
        before.append(&left)?;
    }
    let record = SessionRecord {
        ended: before.session.record.ended.or(Some(now)),
        moved_to: Some(own.session.record.id.clone()),
        ..before.session.record.clone()
    };
    before.replace_record(record)?;
    let open = before.state.schedule.is_open();
    drop((before, own));
    if open && let Some(before) = Session::open(home, &was)? {
        // The hook that was to say that it ended was killed.
        close::close(desk, home, before, close::GONE, Place::Own)?;
    }
    Ok(())
}

/// Gives a person's new session its project's page, where something waits on one that no live session holds (R110).
fn inherit(desk: &Desk, home: &Dir, session: &Session) -> Result<Vec<String>> {
    if !session.record.attended || !desk.held(home, &session.record)?.is_empty() {
        return Ok(Vec::new());
    }
    let project = canonical(Path::new(&session.record.cwd));
    let Some(page) = desk.free_page(home, |other| canonical(other) == project)? else { return Ok(Vec::new()) };
    let view = page.hot_view()?;
    let open = |thread: &crate::page::view::Thread| {
        thread.waiting().next().is_some() || thread.todos.iter().any(Todo::is_open)
    };
    let waiting = view.in_order().filter(|thread| open(thread)).count();
    if waiting == 0 {
        return Ok(Vec::new());
    }
    let found = desk.inherit_page(home, session)?;
    Ok(found
        .map(|found| {
            let threads = crate::text::count(waiting, "thread");
            found
                .notes
                .into_iter()
                .map(|note| format!("this session {note}: {threads} with open messages or to-dos"))
                .collect()
        })
        .unwrap_or_default())
}

/// What a hook is to print, and what is written once it was.
#[derive(Default)]
struct Output {
    text: String,
    after: Vec<Entry>,
    /// Whether reports of scheduled forks are among it: their files go once they were printed.
    reports: bool,
}

impl Output {
    fn room(&self) -> usize {
        CONTEXT_LIMIT.saturating_sub(utf16(&self.text) + 1)
    }

    /// Adds a part if it fits.
    fn add(&mut self, part: &str) -> bool {
        let fits = utf16(part) <= self.room();
        if fits {
            if !self.text.is_empty() && !part.is_empty() {
                self.text.push('\n');
            }
            self.text.push_str(part);
        }
        fits
    }
}

/// A hook of a session's own client, for main.
struct Hook<'a> {
    desk: Desk,
    home: Dir,
    event: &'a Event<'a>,
    deadline: Deadline,
    session: Session,
}

impl<'a> Hook<'a> {
    /// Opens the event's session. One that leaf never heard of (the plugin came in the middle of it) is begun where `begins`.
    /// `Ok(None)` where the event is none of this session's client (R112).
    fn open(event: &'a Event<'a>, begins: bool) -> Result<Option<Hook<'a>>> {
        let desk = Desk::new(WAIT)?;
        let home = if begins { Some(desk.make_home()?) } else { desk.home()? };
        let Some(home) = home else { return Ok(None) };
        let session = Session::open(&home, &event.session)?;
        Hook::of(desk, home, event, session, begins)
    }

    /// As [`Hook::open`] where it begins, after the event was taken as evidence of what runs besides.
    fn after_evidence(event: &'a Event<'a>) -> Result<Option<Hook<'a>>> {
        match agents::evidence(event)? {
            Some((desk, home, session)) => Hook::of(desk, home, event, Some(session), true),
            None => Hook::open(event, true),
        }
    }

    /// As [`Hook::open`], of what was opened already.
    fn of(
        desk: Desk,
        home: Dir,
        event: &'a Event<'a>,
        session: Option<Session>,
        begins: bool,
    ) -> Result<Option<Hook<'a>>> {
        let deadline = desk.deadline();
        let mut session = session;
        let stands = session.as_ref().map_or(Standing::New, |session| standing(&desk, &session.record));
        match stands {
            Standing::Own => {}
            Standing::Foreign => return Ok(None),
            Standing::New if begins => {
                let begun = begin(&desk, &home, event, session, "late")?;
                // Where its SessionStart was killed, it may go on from one that ended (R109).
                let took = take_over_process(&desk, &home, event, |before| before.record.ended.is_some())?;
                session = if took { Session::open(&home, &event.session)? } else { Some(begun) };
            }
            Standing::New => return Ok(None),
        }
        Ok(session.map(|session| Hook { desk, home, event, deadline, session }))
    }

    fn id(&self) -> &SessionId {
        &self.session.record.id
    }

    fn lock(&self) -> Result<LockedSession> {
        self.session.clone().lock(self.deadline)
    }

    fn transaction(&self, page: Page) -> Result<Transaction> {
        self.transaction_of(page.lock(self.deadline)?)
    }

    fn transaction_of(&self, page: LockedPage) -> Result<Transaction> {
        let transaction = Transaction::with(&self.desk, page, &self.session, self.deadline)?;
        // Where another session holds the page by now, its client is no more known to live than any.
        let own = transaction.page.page.record.session.as_ref() == Some(self.id());
        Ok(if own { transaction.of_living() } else { transaction })
    }

    fn actor(&self, turn: TurnId) -> Actor {
        Actor {
            turn,
            session: Some(self.id().clone()),
            generation: self.session.record.generation,
            by: By::Main,
            name: None,
            agent: None,
        }
    }

    /// A prompt opens main's turn, or renews it where it is of the same prompt id (R42), and delivers.
    fn prompt(&self, prompted: &Prompted) -> Result<()> {
        let person = *prompted == Prompted::Person;
        let mut session = self.lock()?;
        let now = self.desk.now();
        if session.state.schedule.runs.iter().any(|run| run.over.is_none())
            && let Err(error) = run::harvest(&mut session, now)
        {
            errors::note(&format!("hook: runs: {error:#}"));
        }
        let prompt = self.event.prompt.as_deref().map(ToOwned::to_owned);
        let begun = |entry| Entry { clients: !person, ..entry };
        let open = session.state.main.as_ref().filter(|main| main.ended.is_none());
        // Of two copies of the plugin both tell of it.
        let again = open.is_some_and(|main| prompt.is_some() && main.prompt == prompt);
        let mut entries = match open {
            Some(main) if again => vec![Entry::renewed(now, main.id, false)],
            Some(main) => {
                vec![Entry::ended(now, main.id, Evidence::Prompt), begun(Entry::begun(now, TurnId::new()?, prompt))]
            }
            None => vec![begun(Entry::begun(now, TurnId::new()?, prompt))],
        };
        let change = match pause::prompted(prompted, &session.state, now) {
            Some(why) => Change::Activity { idle: false, why: why.to_owned() },
            None => Change::Working,
        };
        let cwd = session.session.record.cwd.clone();
        let opens = session.state.schedule.closed.is_some();
        if opens {
            // Nothing was heard of it for too long, and here it is.
            let change = Change::Opened { source: None, model: None, tags: pause::filter(&self.desk.env) };
            entries.push(Entry::schedule(now, change));
            entries.extend(lifecycle::entry(&self.desk.env, &cwd, Happening::SessionStart { source: None }, now));
        }
        let active = matches!(change, Change::Activity { .. }) && !again;
        entries.push(Entry::schedule(now, change));
        if active {
            entries.extend(lifecycle::entry(&self.desk.env, &cwd, Happening::Activity, now));
        }
        session.append(&entries)?;
        if opens && session.session.record.moved_to.is_none() {
            let record = SessionRecord { ended: None, owes: false, ..session.session.record.clone() };
            session.replace_record(record)?;
        }
        let reports = session.state.schedule.runs.iter().any(|run| run.report.is_some());
        drop(session);
        let mut output = Output::default();
        let (mut seat, views) = (self.seat()?, self.views()?);
        // The wake for what the person wrote is theirs.
        if *prompted == Prompted::Woken && self.inboxes(&views, &seat).iter().any(|inbox| !inbox.new.is_empty()) {
            let change = Change::Activity { idle: false, why: "message".to_owned() };
            let mut entries = vec![Entry::schedule(now, change)];
            if !again {
                entries.extend(lifecycle::entry(&self.desk.env, &cwd, Happening::Activity, now));
            }
            self.lock()?.append(&entries)?;
            seat = self.seat()?;
        }
        let owed = !seat.state.schedule.happened.is_empty();
        let delivered = self.deliver(Moment::Prompt, None, &seat, views, &mut output).and_then(|()| {
            // What people wrote doesn't wait for what ran in the background.
            if reports && let Err(error) = self.say_reports(&mut output) {
                errors::note(&format!("hook: reports: {error:#}"));
            }
            self.finish(output)
        });
        if owed {
            lifecycle::start(&self.session.record, Place::Own);
        }
        delivered
    }

    /// Starts what the session's lifecycle hooks are owed.
    fn serve(&self, state: &State) {
        if !state.schedule.happened.is_empty() {
            lifecycle::start(&self.session.record, Place::Own);
        }
    }

    /// Adds the reports of scheduled forks for which there is room, the oldest first; others wait for the next prompt. Whose they
    /// are to print is written before, so that of two hooks of one prompt only one does.
    fn say_reports(&self, output: &mut Output) -> Result<()> {
        let mut session = self.lock()?;
        let now = self.desk.now();
        let by = Process::own();
        let waiting = report::waiting(&session.state.schedule.runs, |run| {
            run.printing.as_ref().is_none_or(|process| process.life() == Life::Dead)
        });
        let (mut printing, mut printed) = (Vec::new(), Vec::new());
        'runs: for run in waiting {
            let (id, mut at) = (run.issue.run, run.report.unwrap_or_default());
            let report = match report::read(&session.session.dir, id) {
                Ok(Some(report)) => report,
                Ok(None) => {
                    printed.push(Change::Printed { run: id, to: None });
                    continue;
                }
                Err(error) => {
                    errors::note(&format!("hook: {error:#}"));
                    printed.push(Change::Printed { run: id, to: None });
                    continue;
                }
            };
            loop {
                let piece = report::next(&report, at)?;
                if !output.add(&piece.text) {
                    break 'runs;
                }
                if printing.last() != Some(&id) {
                    printing.push(id);
                }
                printed.retain(|change| !matches!(change, Change::Printed { run, .. } if *run == id));
                printed.push(Change::Printed { run: id, to: piece.to });
                match piece.to {
                    Some(to) => at = to,
                    None => break,
                }
            }
        }
        if !printing.is_empty() {
            session.append(&[Entry::schedule(now, Change::Printing { runs: printing, by })])?;
        }
        output.after.extend(printed.into_iter().map(|change| Entry::schedule(now, change)));
        output.reports = true;
        Ok(())
    }

    /// A tool boundary renews main's turn, at most once a minute, and delivers. One that finds nothing to do leaves a gate, by what
    /// was `found` before.
    fn boundary(&self, mut found: Option<Found>) -> Result<()> {
        let now = self.desk.now();
        let seen = found.as_mut().is_some_and(|found| found.look_at_pages(&self.home, &self.session.record.pages));
        let mut seat = self.seat()?;
        let renewed = self.keep_turn(&seat.state)?;
        if renewed {
            seat = self.seat()?;
        }
        let views = self.views()?;
        if !renewed && seen && self.is_quiet(&seat, &views) {
            if let (Some(found), Some(main)) = (found, &seat.state.main) {
                found.shut(&self.session, now, main.renewed.plus(RENEWAL));
            }
            return Ok(());
        }
        let mut output = Output::default();
        self.deliver(Moment::Boundary, None, &seat, views, &mut output)?;
        self.finish(output)
    }

    /// Whether there is nothing to say at a boundary that renewed nothing, and only a write or the next renewal can change that.
    fn is_quiet(&self, seat: &Seat, views: &[(Page, Kept)]) -> bool {
        let state = &seat.state;
        let waits = |(page, Kept { view, .. }): &(Page, Kept)| {
            let reading = self.reading(page, view, seat);
            let inbox = inbox(&reading, self.id());
            let says = inbox.has_input() || !inbox.gone.is_empty() || !inbox.pointers_to_say(state).is_empty();
            says || transaction::is_due(&reading) || view.in_order().any(|thread| reading.kept_back(thread))
        };
        let passed = |id: &PageId| {
            // One that is another session's by now, or gone, is passed by; one that can't be read may be in a moment.
            views.iter().any(|(page, _)| page.id == *id)
                || Page::open(&self.home, id)
                    .is_ok_and(|page| page.is_none_or(|page| page.record.session.as_ref() != Some(self.id())))
        };
        state.clerk.is_empty()
            && state.forks.iter().all(|turn| turn.ended.is_some())
            && !views.iter().any(waits)
            && self.session.record.pages.iter().all(passed)
    }

    /// Renews main's turn at a boundary where that is worth a write: the first after a Stop that continued it (R104), or after
    /// a minute. A turn that is missing (its prompt's hook failed) is opened. Returns whether it wrote.
    fn keep_turn(&self, state: &State) -> Result<bool> {
        let now = self.desk.now();
        let due = match state.main.as_ref().filter(|main| main.ended.is_none()) {
            Some(main) => state.continued > 0 || now.since(main.renewed) >= RENEWAL,
            None => true,
        };
        let due = due || state.calls.iter().any(|call| call.agent.is_none());
        if !due {
            return Ok(false);
        }
        let mut session = self.lock()?;
        let entry = match session.state.main.as_ref().filter(|main| main.ended.is_none()) {
            Some(main) => Entry::renewed(now, main.id, true),
            None => Entry::begun(now, TurnId::new()?, self.event.prompt.as_deref().map(ToOwned::to_owned)),
        };
        // Main's calls are over (R72).
        let over = session.state.calls.iter().any(|call| call.agent.is_none()).then(|| Entry::new(now, Kind::Call));
        session.append(&[Some(entry), over].into_iter().flatten().collect::<Vec<_>>())?;
        Ok(true)
    }

    /// A Stop continues the turn for what main is to do before it, else ends it (R104).
    fn stop(&self, again: bool, background: &[Task]) -> Result<()> {
        let mut seat = self.seat()?;
        let views = self.views()?;
        if !self.session.record.attended {
            seat = self.unattended_stop(&views, seat)?;
        }
        let inboxes = self.inboxes(&views, &seat);
        let cap = self.desk.env.text("CLAUDE_CODE_STOP_HOOK_BLOCK_CAP");
        let Some(why) = deliver::stop(&inboxes, &seat.state, again, claude_code::stop_cap(cap.as_deref())) else {
            return self.end_at_stop(background);
        };
        let mut output = Output::default();
        self.deliver(Moment::Stop { again }, Some(why), &seat, views, &mut output)?;
        if output.text.is_empty() {
            // What was there is gone by now.
            return self.end_at_stop(background);
        }
        let mut session = self.lock()?;
        let now = self.desk.now();
        let (rule, words) = match why {
            Continue::Input => ("R104", "new input"),
            Continue::Debt => ("R104", "old debt"),
            Continue::Todo => ("R95", "open to-dos"),
        };
        let mut entries = Vec::new();
        if session.state.main.as_ref().is_none_or(|main| main.ended.is_some()) {
            entries.push(Entry::begun(now, TurnId::new()?, None));
        }
        entries.push(Entry {
            turn: session.state.main.as_ref().map(|main| main.id),
            rule: Some(rule.to_owned()),
            why: Some(words.to_owned()),
            ..Entry::new(now, Kind::Continued)
        });
        session.append(&entries)?;
        drop(session);
        self.finish(output)
    }

    /// Ends main's turn: the session is idle, but for what goes on in its background.
    fn end_at_stop(&self, background: &[Task]) -> Result<()> {
        self.end_with(Evidence::Stop, |state| Some(pause::stopped(background, state)))
    }

    /// Ends main's turn.
    fn end(&self, evidence: Evidence) -> Result<()> {
        self.end_with(evidence, |_| None)
    }

    fn end_with(&self, evidence: Evidence, change: impl Fn(&State) -> Option<Change>) -> Result<()> {
        let mut session = self.lock()?;
        let now = self.desk.now();
        let mut entries = ending(&session.state, evidence, now);
        entries.extend(change(&session.state).map(|change| Entry::schedule(now, change)));
        session.append(&entries)?;
        self.serve(&session.state);
        Ok(())
    }

    /// Records that the session ended (R109, R110), closes it, and waits for nothing that this starts: the client gives all such
    /// hooks 1.5 s.
    fn session_end(&self, reason: &str) -> Result<()> {
        let now = self.desk.now();
        let more = |state: &State| ending(state, Evidence::SessionEnd, now);
        close::close_where(&self.desk, &self.home, self.session.clone(), reason, Place::Own, |_| true, more)?;
        Ok(())
    }

    /// Tells a main that begins what is open on its pages: the to-dos (R98), and, where it `recovers` from a compaction or a resume,
    /// what it owes, once, by reference (R54).
    fn recover(&self, recovers: bool, output: &mut Output) -> Result<()> {
        let views = self.views()?;
        if views.is_empty() {
            return Ok(());
        }
        let seat = self.seat()?;
        for (page, Kept { view, .. }) in &views {
            let inbox = inbox(&self.reading(page, view, &seat), self.id());
            if recovers {
                self.say_debts(page, &inbox, Moment::Recovery, output)?;
            }
            // One whose line is unread comes with that (R95).
            let unread = |open: &&OpenTodo<'_>| {
                seat.state.clerk.iter().any(|line| line.todo.as_ref() == Some(&(page.id.clone(), open.todo.id)))
            };
            say_todos(inbox.todos.iter().filter(|open| !unread(open)), "on this session's page", output)?;
        }
        Ok(())
    }

    /// Reads the pages that the session holds. A session that holds none reads none (R107).
    fn views(&self) -> Result<Vec<(Page, Kept)>> {
        if self.session.record.pages.is_empty() {
            return Ok(Vec::new());
        }
        let mut views = Vec::new();
        for page in self.desk.held(&self.home, &self.session.record)?.into_iter().rev() {
            match page.hot() {
                Ok(kept) => views.push((page, kept)),
                // One page that can't be read must not keep the others from main.
                Err(error) => errors::note(&format!("hook: page {}: {error:#}", page.id)),
            }
        }
        Ok(views)
    }

    fn inboxes<'v>(&self, views: &'v [(Page, Kept)], seat: &'v Seat) -> Vec<Inbox<'v>> {
        views.iter().map(|(page, kept)| inbox(&self.reading(page, &kept.view, seat), self.id())).collect()
    }

    fn seat(&self) -> Result<Seat> {
        Ok(Seat {
            state: self.session.state()?,
            // Its own hook runs.
            alive: true,
            lane: if self.session.record.pages.is_empty() { None } else { lane::follower(&self.session) },
            replies: self.session.record.switches.fork_replies,
        })
    }

    fn reading<'v>(&self, page: &'v Page, view: &'v View, seat: &'v Seat) -> Reading<'v> {
        Reading::new(&page.id, &page.record, view, seat, self.desk.now())
    }

    /// Does what time alone changed on the pages (R88), and reads them again where that was something.
    fn settle(&self, seat: Seat, views: Vec<(Page, Kept)>) -> Result<(Seat, Vec<(Page, Kept)>)> {
        let due: Vec<&Page> = views
            .iter()
            .filter(|(page, kept)| transaction::is_due(&self.reading(page, &kept.view, &seat)))
            .map(|(page, _)| page)
            .collect();
        if due.is_empty() {
            return Ok((seat, views));
        }
        for page in due {
            self.transaction(page.clone())?.settle()?;
        }
        // A lane that doesn't count here goes on not to count.
        let now = self.seat()?;
        Ok((Seat { lane: now.lane.filter(|_| seat.lane.is_some()), ..now }, self.views()?))
    }

    /// Before an unattended main stops nothing is kept back, and its forks end (R106): the client was seen to wait for forks that
    /// its model starts, and not measured for those that a module starts.
    fn unattended_stop(&self, views: &[(Page, Kept)], seat: Seat) -> Result<Seat> {
        let open: Vec<TurnId> =
            seat.state.forks.iter().filter(|turn| turn.ended.is_none()).map(|turn| turn.id).collect();
        if open.is_empty() {
            return Ok(Seat { lane: None, ..seat });
        }
        for (page, _) in views {
            let mut transaction = self.transaction(page.clone())?;
            for turn in &open {
                let here = transaction
                    .state()
                    .fork(*turn)
                    .is_some_and(|turn| turn.thread.as_ref().is_none_or(|(id, _)| *id == transaction.page.page.id));
                if here {
                    transaction.end(*turn, Evidence::Client, "", true)?;
                }
            }
        }
        Ok(Seat { lane: None, ..self.seat()? })
    }

    /// Gathers what main gets now (R100). What it picks up is on disk before the output is (R101).
    fn deliver(
        &self,
        moment: Moment,
        why: Option<Continue>,
        seat: &Seat,
        views: Vec<(Page, Kept)>,
        output: &mut Output,
    ) -> Result<()> {
        let now = self.desk.now();
        let (seat, views) = self.settle(seat.clone(), views)?;
        let state = &seat.state;
        let kept = seat.lane.is_some();
        self.say_clerk(state, &views, now, output)?;
        for (page, seen) in views {
            let view = &seen.view;
            let reading = Reading::new(&page.id, &page.record, view, &seat, now);
            let inbox = inbox(&reading, self.id());
            if !inbox.gone.is_empty() && output.add(&context::gone(&inbox.gone)) {
                let told = Entry { page: Some(page.id.clone()), seq: Some(view.seq), ..Entry::new(now, Kind::Told) };
                output.after.push(Entry { turn: state.main.as_ref().map(|main| main.id), ..told });
            }
            if why == Some(Continue::Todo) {
                // One whose line was just said has been said (R95).
                let said = |open: &&OpenTodo<'_>| {
                    state.clerk.iter().any(|line| {
                        line.todo.as_ref() == Some(&(page.id.clone(), open.todo.id))
                            && output.after.iter().any(|entry| entry.lines.contains(&line.id))
                    })
                };
                let unsaid: Vec<_> = inbox.unstarted().filter(|open| !said(open)).collect();
                say_todos(unsaid.into_iter(), "that nobody started", output)?;
            }
            if matches!(moment, Moment::Prompt | Moment::Stop { again: false }) {
                self.say_debts(&page, &inbox, moment, output)?;
            }
            let again = why == Some(Continue::Debt);
            let pointers = if again { inbox.pointers.clone() } else { inbox.pointers_to_say(state) };
            let told: Vec<(DeliveryId, Vec<_>)> =
                pointers.iter().map(|pointer| (pointer.delivery, pointer.messages.clone())).collect();
            for (delivery, messages) in told {
                self.say_pointer(&page.id, delivery, messages, state, now, output)?;
            }
            if !inbox.unshown.is_empty() {
                self.repeat(&page, &inbox, output)?;
            }
            if !inbox.new.is_empty() {
                // A page whose lock isn't had in time changes nothing, and keeps nothing else from main (R102, R108).
                let id = page.id.clone();
                if let Err(error) = self.pick_up(page, seen, kept, output) {
                    errors::note(&format!("hook: page {id}: {error:#}"));
                }
            }
        }
        Ok(())
    }

    /// Picks up what is new on a page, under its lock and the session's: inline where it fits, else by pointer (R76).
    /// `seen`: how the page was read before; `kept`: the follower's lane counts.
    fn pick_up(&self, page: Page, seen: Kept, kept: bool, output: &mut Output) -> Result<()> {
        let mut transaction = self.transaction_of(page.lock_seen(Some(seen), self.deadline)?)?;
        if !kept {
            transaction.lane = None;
        }
        let now = transaction.now;
        transaction.page.close_torn_line()?;
        let Some(session) = &mut transaction.session else { return Ok(()) };
        if session.session.record.id != *self.id() {
            return Ok(());
        }
        let turn = match session.state.main.as_ref().filter(|main| main.ended.is_none()) {
            Some(main) => main.id,
            None => {
                let turn = TurnId::new()?;
                session.append(&[Entry::begun(now, turn, None)])?;
                turn
            }
        };
        let reading = transaction.reading();
        let inbox = inbox(&reading, self.id());
        let page = &transaction.page;
        if inbox.new.is_empty() {
            return Ok(());
        }
        let id = page.page.id.clone();
        // The delivery's id is that of the pickup which the next write begins with.
        let delivery: DeliveryId = page.page.record.key.id(page.view().next_seq()).into();
        let fence = Fence::around(texts(&inbox.new))?;
        let text = context::delivery(&fence, &id, delivery, &inbox.new, false);
        // A repetition says a little more, and must fit too.
        if utf16(&text) + 200 > output.room() {
            // Where not even a pointer fits beside the others, it waits for the next hook.
            if utf16(&context::pointer(&id, delivery, usize::MAX)) > output.room() {
                return Ok(());
            }
            // Its file is there before anyone is told of it (R101).
            pointer::ready(&mut transaction.page)?;
            let inbox = self::inbox(&transaction.reading(), self.id());
            let (delivery, messages) = pointer::write(&transaction.page, &inbox.new, None)?;
            let Some(session) = &mut transaction.session else { return Ok(()) };
            return self.say_pointer_locked(&id, delivery, messages, session, turn, now, output);
        }
        let taken: Vec<Entry> = inbox
            .new
            .iter()
            .map(|bundle| Entry {
                page: Some(id.clone()),
                thread: Some(bundle.thread.id),
                turn: Some(turn),
                message: bundle.answers(),
                messages: bundle.messages.iter().map(|message| message.id).collect(),
                delivery: Some(delivery),
                by: Some(By::Main),
                rule: Some("R100".to_owned()),
                ..Entry::new(now, Kind::Taken)
            })
            .collect();
        let drafts = inbox
            .new
            .iter()
            .map(|bundle| {
                let messages = bundle.messages.iter().map(|message| message.id).collect();
                pickup(bundle.thread.id, messages, None, self.actor(turn))
            })
            .collect();
        transaction.journal(&taken)?;
        transaction.page.append(now, drafts, false)?;
        output.add(&text);
        output.after.push(shown(&id, delivery, now));
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one journal entry and one line of output, of values at hand")]
    fn say_pointer_locked(
        &self,
        page: &PageId,
        delivery: DeliveryId,
        messages: Vec<crate::ids::MessageId>,
        session: &mut LockedSession,
        turn: TurnId,
        now: Ts,
        output: &mut Output,
    ) -> Result<()> {
        if !output.add(&context::pointer(page, delivery, messages.len())) {
            return Ok(());
        }
        session.append(&[Entry {
            page: Some(page.clone()),
            delivery: Some(delivery),
            messages,
            turn: Some(turn),
            ..Entry::new(now, Kind::Told)
        }])
    }

    /// Says a pointer again, once a turn (R101).
    fn say_pointer(
        &self,
        page: &PageId,
        delivery: DeliveryId,
        messages: Vec<crate::ids::MessageId>,
        state: &State,
        now: Ts,
        output: &mut Output,
    ) -> Result<()> {
        let Some(turn) = state.main.as_ref().map(|main| main.id) else { return Ok(()) };
        let mut session = self.lock()?;
        self.say_pointer_locked(page, delivery, messages, &mut session, turn, now, output)
    }

    /// Repeats deliveries that may never have reached main, by their references; after this never again (R101).
    fn repeat(&self, page: &Page, inbox: &Inbox<'_>, output: &mut Output) -> Result<()> {
        let now = self.desk.now();
        let mut by_delivery: Vec<(DeliveryId, Vec<Bundle<'_>>)> = Vec::new();
        for (delivery, bundle) in &inbox.unshown {
            match by_delivery.iter_mut().find(|(other, _)| other == delivery) {
                Some((_, bundles)) => bundles.push(bundle.clone()),
                None => by_delivery.push((*delivery, vec![bundle.clone()])),
            }
        }
        let mut entries = Vec::new();
        for (delivery, bundles) in &by_delivery {
            let fence = Fence::around(texts(bundles))?;
            let text = context::delivery(&fence, &page.id, *delivery, bundles, true);
            // Too long beside what came meanwhile: it waits for the next hook.
            if output.add(&text) {
                entries.push(shown(&page.id, *delivery, now));
            }
        }
        self.lock()?.append(&entries)
    }

    fn say_debts(&self, page: &Page, inbox: &Inbox<'_>, moment: Moment, output: &mut Output) -> Result<()> {
        let debts = inbox.debts_to_say(moment);
        if debts.is_empty() {
            return Ok(());
        }
        let fence = Fence::around(debts.iter().map(|debt| debt.message.text.as_str()))?;
        // A Stop's reminder is not the one that the next prompt gives (R104).
        let counts = matches!(moment, Moment::Prompt | Moment::Recovery);
        if output.add(&context::debts(&fence, &debts)) && counts {
            output.after.push(Entry {
                page: Some(page.id.clone()),
                messages: debts.iter().map(|debt| debt.message.id).collect(),
                ..Entry::new(self.desk.now(), Kind::Told)
            });
        }
        Ok(())
    }

    fn say_clerk(&self, state: &State, views: &[(Page, Kept)], now: Ts, output: &mut Output) -> Result<()> {
        let lines: Vec<&ClerkLine> = deliver::lines(state, duty::of(views)).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let fence = Fence::around(lines.iter().filter_map(|line| line.quote.as_deref()))?;
        // Half of the room: messages come first, lines can wait for the next boundary.
        let (text, mut printed) = context::clerk(&fence, &lines, output.room() / 2);
        if !printed.is_empty() {
            output.add(&text);
            // What is not true any more goes with them.
            let stale = state.clerk.iter().filter(|line| !lines.iter().any(|other| other.id == line.id));
            printed.extend(stale.map(|line| line.id));
            output.after.push(Entry { lines: printed, ..Entry::new(now, Kind::Printed) });
        }
        Ok(())
    }

    /// Prints, and only then writes what was shown (R101, R107).
    fn finish(&self, output: Output) -> Result<()> {
        if !output.text.is_empty() {
            say(&self.event.what, &Decision::Context(output.text))?;
        }
        if output.after.is_empty() {
            return Ok(());
        }
        let mut session = self.lock()?;
        session.append(&output.after)?;
        if output.reports {
            let runs = &session.state.schedule.runs;
            let needed =
                |id| runs.iter().any(|run| run.issue.run == id && (run.over.is_none() || run.report.is_some()));
            report::clear(&session.session.dir, needed);
        }
        Ok(())
    }
}

/// Main's turn is over, and its calls (R72).
fn ending(state: &State, evidence: Evidence, now: Ts) -> Vec<Entry> {
    let main = state.main.as_ref().filter(|main| main.ended.is_none());
    let calls = state.calls.iter().any(|call| call.agent.is_none());
    main.map(|main| Entry::ended(now, main.id, evidence))
        .into_iter()
        .chain(calls.then(|| Entry::new(now, Kind::Call)))
        .collect()
}

fn say_todos<'t>(todos: impl Iterator<Item = &'t OpenTodo<'t>> + Clone, head: &str, output: &mut Output) -> Result<()> {
    let todos: Vec<&OpenTodo<'_>> = todos.collect();
    if todos.is_empty() {
        return Ok(());
    }
    let fence = Fence::around(todos.iter().map(|open| open.todo.title.as_str()))?;
    output.add(&context::todos(&fence, head, &todos));
    Ok(())
}

fn shown(page: &PageId, delivery: DeliveryId, now: Ts) -> Entry {
    Entry { page: Some(page.clone()), delivery: Some(delivery), ..Entry::new(now, Kind::Shown) }
}

fn texts<'v>(bundles: &'v [Bundle<'v>]) -> impl Iterator<Item = &'v str> + Clone {
    bundles.iter().flat_map(Bundle::texts)
}
