//! `leaf watch`: the parked background hook of an idle session. Exit 2 wakes it (R105); it leaves for a newer one, with its
//! client, and follows that across /clear (R106).

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;

use crate::client::claude_code;
use crate::client::{Agent, Event, What};
use crate::desk::Desk;
use crate::errors;
use crate::page::LOG;
use crate::place::Dir;
use crate::rules::deliver::{inbox, wakes};
use crate::rules::holding::{Reading, Seat};
use crate::session::lane::{self, Held, Lane};
use crate::session::liveness::{Life, Process};
use crate::session::record::SessionRecord;
use crate::session::state::LAPSE;
use crate::session::{LANES, Session};
use crate::text::count;
use crate::transaction::{self, Transaction};

/// How long a lock may be waited for (R108).
const WAIT: Duration = Duration::from_secs(2);
/// The stat poll beneath the file notifications.
const POLL: Duration = Duration::from_secs(1);
/// What is to wake must stand this long: the hook of the same event may be about to deliver it.
const SETTLE: Duration = Duration::from_millis(150);
/// How long the hook of the same event may take to write what it has to.
const GRACE: Duration = Duration::from_secs(10);

/// Parks until there is something to wake for.
pub fn run() -> ExitCode {
    match park() {
        Ok(Some(text)) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            errors::note(&format!("watch: {error:#}"));
            ExitCode::SUCCESS
        }
    }
}

fn park() -> Result<Option<String>> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(32 << 20).read_to_end(&mut bytes)?;
    let desk = Desk::new(WAIT)?;
    // In an unattended session the client waits for background hooks: this one would hang the run.
    if !desk.attended() || desk.env.var("LEAF_TURN").is_some() {
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
    Watch { desk, home, client, session, held, followed: false }.wait()
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
    /// Whether a follower was there at the last look.
    followed: bool,
}

/// What is to be done after a look.
enum Look {
    /// Nothing has come.
    Wait,
    /// The lane is another's, or the client is gone.
    Leave,
    /// The session is to be woken, with this text.
    Wake(String),
    /// The client goes on in another session (R109).
    Follow(Box<Session>),
}

impl Watch {
    fn wait(mut self) -> Result<Option<String>> {
        let mut sleeper = Sleeper::new(&self.paths());
        let mut seen = Vec::new();
        loop {
            let mut now = self.signature();
            if now != seen || self.due() {
                let mut look = self.look()?;
                if matches!(look, Look::Wake(_)) {
                    std::thread::sleep(SETTLE);
                    look = self.look()?;
                }
                match look {
                    Look::Wait => {}
                    Look::Leave => return Ok(None),
                    Look::Wake(text) => return Ok(Some(text)),
                    Look::Follow(session) => {
                        let Some(held) = Held::take(&session, Lane::Watch, self.desk.now())? else { return Ok(None) };
                        self.session = *session;
                        self.held = held;
                        now = Vec::new();
                    }
                }
                sleeper = Sleeper::new(&self.paths());
            }
            if !self.held.wanted() || self.client_gone() {
                return Ok(None);
            }
            seen = now;
            sleeper.sleep(POLL);
        }
    }

    fn client_gone(&self) -> bool {
        let process = self.client.as_ref().or(self.session.record.process.as_ref());
        process.is_some_and(|process| process.life() == Life::Dead)
    }

    /// Whether something changes that no file tells: an open turn lapses, a fork's is over by time, a follower that was there is
    /// gone.
    fn due(&mut self) -> bool {
        let followed = lane::holder(&self.session, Lane::Follower).is_some();
        if std::mem::replace(&mut self.followed, followed) != followed {
            return true;
        }
        let now = self.desk.now();
        let Ok(state) = self.session.state() else { return false };
        let forks = state.forks.iter().any(|turn| turn.due(state.generation, true, followed, now).is_some());
        forks || state.main.is_some_and(|main| main.ended.is_none() && now.0 - main.renewed.0 >= LAPSE)
    }

    /// Does what time alone changed on the session's pages (R88).
    fn settle(&self, record: &SessionRecord) -> Result<()> {
        let seat = self.seat(record)?;
        for page in self.desk.held(&self.home, record)? {
            let view = page.view()?;
            if transaction::is_due(&Reading::new(&page.id, &page.record, &view, &seat, self.desk.now())) {
                Transaction::open(&self.desk, page, self.desk.deadline())?.settle()?;
            }
        }
        Ok(())
    }

    fn seat(&self, record: &SessionRecord) -> Result<Seat> {
        Ok(Seat {
            state: self.session.state()?,
            alive: true,
            lane: lane::follower(&self.session),
            replies: record.switches.fork_replies,
        })
    }

    fn look(&mut self) -> Result<Look> {
        if !self.held.wanted() || self.client_gone() {
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
            let next = record.moved_to.as_ref().and_then(|id| Session::open(&self.home, id).ok().flatten());
            return Ok(next.map_or(Look::Wait, |next| Look::Follow(Box::new(next))));
        }
        self.news(record)
    }

    fn news(&self, record: &SessionRecord) -> Result<Look> {
        if lane::holder(&self.session, Lane::Follower).is_some() {
            // Where there is a module, it wakes (R105).
            return Ok(Look::Wait);
        }
        self.settle(record)?;
        let seat = self.seat(record)?;
        if seat.state.open_turn(self.desk.now()).is_some() {
            return Ok(Look::Wait);
        }
        let mut views = Vec::new();
        for page in self.desk.held(&self.home, record)? {
            views.push((page.view()?, page));
        }
        let now = self.desk.now();
        let inboxes: Vec<_> = views
            .iter()
            .map(|(view, page)| inbox(&Reading::new(&page.id, &page.record, view, &seat, now), &record.id))
            .collect();
        if !wakes(&inboxes, &seat.state) {
            return Ok(Look::Wait);
        }
        let threads: usize = inboxes.iter().map(|inbox| inbox.new.len()).sum();
        let text = match threads {
            0 => "something happened on the page that this session is to know; it stands in this turn's context"
                .to_owned(),
            threads => format!(
                "the user wrote in {} beside this session; what they wrote stands in this turn's context",
                count(threads, "thread")
            ),
        };
        Ok(Look::Wake(text))
    }

    /// What the watch depends on: where a change is waited for.
    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.session.dir.path().to_path_buf(), self.session.dir.path().join(LANES)];
        let pages = self.home.path().join("pages");
        paths.extend(self.session.record.pages.iter().map(|page| pages.join(page.as_str())));
        paths
    }

    /// The sizes and times of the files that the watch reads.
    fn signature(&self) -> Vec<Option<(u64, Option<SystemTime>)>> {
        let session = self.session.dir.path();
        let pages = self.home.path().join("pages");
        let mut files = vec![
            session.join(crate::session::journal::NAME),
            session.join(crate::session::RECORD),
            session.join(LANES).join(Lane::Watch.name()),
        ];
        for page in &self.session.record.pages {
            files.push(pages.join(page.as_str()).join(LOG));
            files.push(pages.join(page.as_str()).join(crate::page::RECORD));
        }
        files
            .iter()
            .map(|file| std::fs::symlink_metadata(file).ok().map(|meta| (meta.len(), meta.modified().ok())))
            .collect()
    }
}

/// Sleeps until a file changes, or a while.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Sleeper(Option<std::os::fd::OwnedFd>);

#[cfg(target_os = "linux")]
impl Sleeper {
    /// Returns a sleeper that wakes for changes in these directories.
    pub fn new(directories: &[PathBuf]) -> Sleeper {
        use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
        let Ok(fd) = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) else { return Sleeper(None) };
        for directory in directories {
            let _ = add_watch(&fd, directory, WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR);
        }
        Sleeper(Some(fd))
    }

    /// Sleeps until something changes, `at_most` this long.
    pub fn sleep(&mut self, at_most: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(fd) = &self.0 else { return std::thread::sleep(at_most) };
        let timeout =
            Timespec { tv_sec: at_most.as_secs().try_into().unwrap_or(1), tv_nsec: at_most.subsec_nanos().into() };
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        if poll(&mut fds, Some(&timeout)).is_ok_and(|ready| ready > 0) {
            let mut events = [std::mem::MaybeUninit::uninit(); 4096];
            let mut reader = rustix::fs::inotify::Reader::new(fd, &mut events);
            while reader.next().is_ok() {}
        }
    }
}

/// Sleeps a while.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Sleeper;

#[cfg(not(target_os = "linux"))]
impl Sleeper {
    /// Returns a sleeper.
    pub fn new(_: &[PathBuf]) -> Sleeper {
        Sleeper
    }

    /// Sleeps a little, `at_most` this long.
    pub fn sleep(&mut self, at_most: Duration) {
        std::thread::sleep(at_most.min(Duration::from_millis(200)));
    }
}
