//! The edge that commands and hooks share: the state directory, the clock, who speaks (R71), which session (R110) and which
//! page a command is about.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;

use crate::clock::{Clock, Ts};
use crate::config::{self, Config};
use crate::errors;
use crate::ids::{EventId, IdKey, PageId, SessionId, sha256_hex};
use crate::lock::{self, Deadline};
use crate::page::view::View;
use crate::page::{Page, PageRecord};
use crate::place::{self, Dir, Env, canonical};
use crate::refused::Refused;
use crate::rules::way::Limits;
use crate::schedule::settings::Settings;
use crate::schedule::{discovery, layers};
use crate::session::lane::{self, Lane};
use crate::session::liveness::{self, Life, Process};
use crate::session::record::SessionRecord;
use crate::session::{LockedSession, Session};
use crate::{FORMAT, text};

/// What every run stands on.
#[derive(Clone, Debug)]
pub struct Desk {
    /// The environment.
    pub env: Env,
    /// The clock.
    pub clock: Clock,
    /// The state directory's path.
    pub path: PathBuf,
    wait: Duration,
}

/// Who speaks (R71).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// The person: nothing above this process is a live session's client.
    Person,
    /// An agent: this process is below the client of that session.
    Agent(SessionId),
}

/// A page that a command is about, and what is to be said of how it was found.
#[derive(Debug)]
pub struct Found {
    /// The page.
    pub page: Page,
    /// What the writer is told (R110).
    pub notes: Vec<String>,
}

impl Desk {
    /// Returns a desk whose transactions wait at most `wait` for their locks (R108).
    ///
    /// # Errors
    /// Where there is no place for state, or `LEAF_NOW` is no time.
    pub fn new(wait: Duration) -> Result<Desk> {
        let env = Env::default();
        let path = place::state_path(&env)?;
        Ok(Desk { clock: Clock::from_env(&env)?, env, path, wait })
    }

    /// Returns the deadline of a transaction that begins now.
    pub fn deadline(&self) -> Deadline {
        Deadline::after(self.wait)
    }

    /// Returns the time now.
    pub fn now(&self) -> Ts {
        self.clock.now()
    }

    /// Opens the state directory; `Ok(None)` where there is none yet.
    ///
    /// # Errors
    /// Where it can't be trusted (R125).
    pub fn home(&self) -> Result<Option<Dir>> {
        Ok(Dir::open_home(&self.path)?)
    }

    /// Opens the state directory, making it where it is missing.
    ///
    /// # Errors
    /// Where it can't be made or trusted.
    pub fn make_home(&self) -> Result<Dir> {
        Ok(Dir::create_home(&self.path)?)
    }

    /// Tells who speaks (R71). Ancestry decides; the environment only where ancestry can't be read, or for a client that
    /// leaf has not met.
    ///
    /// # Errors
    /// Where the sessions can't be read.
    pub fn speaker(&self) -> Result<Speaker> {
        if let (Some(_), Some(session)) = (self.env.var("LEAF_TURN"), self.env.text("LEAF_SESSION"))
            && let Ok(session) = session.parse()
        {
            // A headless run of leaf's own acts for the session that it was copied from (R118).
            return Ok(Speaker::Agent(session));
        }
        let speaker = self.by_ancestry()?;
        if let Speaker::Agent(id) = &speaker
            && self.has_token(id)?
        {
            // The module serves the user's own prompt: it alone reads the follower's token (R71).
            return Ok(Speaker::Person);
        }
        Ok(speaker)
    }

    /// Whether the environment carries the token of a session's follower.
    ///
    /// # Errors
    /// Where the session can't be read.
    pub fn has_token(&self, id: &SessionId) -> Result<bool> {
        let Some(token) = self.env.text("LEAF_TOKEN") else { return Ok(false) };
        let Some(home) = self.home()? else { return Ok(false) };
        let record = Session::open(&home, id)?.and_then(|session| lane::holder(&session, Lane::Follower));
        Ok(record.and_then(|record| record.token).is_some_and(|known| known == sha256_hex(token.as_bytes())))
    }

    /// Tells who speaks by ancestry alone, whatever token the environment carries.
    ///
    /// # Errors
    /// Where the sessions can't be read.
    pub fn by_ancestry(&self) -> Result<Speaker> {
        let named = self.env.text("CLAUDE_CODE_SESSION_ID").and_then(|id| id.parse::<SessionId>().ok());
        let Some(chain) = liveness::ancestors() else {
            return Ok(match named {
                Some(id) => Speaker::Agent(id),
                None => Speaker::Person,
            });
        };
        let home = self.home()?;
        let own = match (&home, &named) {
            (Some(home), Some(id)) => Session::open(home, id).ok().flatten(),
            _ => None,
        };
        let below = |record: &SessionRecord| {
            record.process.as_ref().is_some_and(|process| chain.contains(&process.pid) && process.life() != Life::Dead)
        };
        if let (Some(home), Some(own)) = (&home, &own)
            && (below(&own.record) || (own.record.process.is_none() && own.record.lives()))
        {
            return Ok(Speaker::Agent(follow(home, &own.record)));
        }
        let mut nearest: Option<(usize, SessionRecord)> = None;
        for session in home.iter().flat_map(|home| Session::all(home).unwrap_or_default()) {
            let record = session.record;
            if !below(&record) {
                continue;
            }
            let pid = record.process.as_ref().map(|process| process.pid);
            let depth = chain.iter().position(|above| Some(*above) == pid).unwrap_or(usize::MAX);
            let closer = nearest.as_ref().is_none_or(|(other, than)| {
                (depth, record.ended.is_some(), -record.started.0) < (*other, than.ended.is_some(), -than.started.0)
            });
            if closer {
                nearest = Some((depth, record));
            }
        }
        if let Some((_, record)) = nearest {
            return Ok(Speaker::Agent(record.id));
        }
        // A client that leaf has not met: its own word counts while it stands above this process.
        let client = self.client_pid();
        Ok(match named {
            Some(id) if own.is_none() && client.is_some_and(|pid| chain.contains(&pid)) => Speaker::Agent(id),
            _ => Speaker::Person,
        })
    }

    /// Returns the pid that the client gives for itself.
    pub fn client_pid(&self) -> Option<i32> {
        self.env.text("CLAUDE_PID")?.parse().ok().filter(|pid| *pid > 0)
    }

    /// Reads the configuration for a session's or a page's project.
    pub fn config(&self, project: &str) -> Config {
        let project = canonical(Path::new(project));
        config::load(&self.env, &project, |bytes| {
            crate::trust::standing(self, project.clone()).is_ok_and(|standing| standing.trusts(config::PROJECTS, bytes))
        })
    }

    /// Reads the settings of the schedule for a directory's project, with what could not be taken, a sentence each. A file of the
    /// project's counts in full where that file is trusted as it is (R126).
    pub fn schedule(&self, project: &Path) -> (Settings, Vec<String>) {
        let project = discovery::project_root(&self.env, project);
        layers::load(&self.env, &project, |file, bytes| {
            let record = crate::trust::of(self, &project);
            record.is_ok_and(|record| crate::trust::trusts_bytes(&record, &project, file, bytes))
        })
    }

    /// Returns the client's process as its hooks' environment names it.
    pub fn client(&self) -> Option<Process> {
        self.client_pid().map(Process::of)
    }

    /// Returns what the client's environment rules out for forks (R117).
    pub fn client_limits(&self) -> Limits {
        let word = |name: &str| self.env.text(name).map(|value| value.trim().to_ascii_lowercase());
        let off = |word: &String| matches!(word.as_str(), "0" | "false" | "no" | "off");
        Limits {
            coordinator: word("CLAUDE_CODE_COORDINATOR_MODE").is_some_and(|word| !off(&word)),
            no_forks: word("CLAUDE_CODE_FORK_SUBAGENT").is_some_and(|word| off(&word)),
            no_background: word("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS").is_some_and(|word| !off(&word)),
        }
    }

    /// Whether a person sits before the client that runs this hook: one that says nothing of it does, but for the client's
    /// own headless entry point.
    pub fn attended(&self) -> bool {
        match self.env.text("CLAUDE_CODE_SESSION_ATTENDED").as_deref() {
            Some(value) => value != "0",
            None => !self.env.text("CLAUDE_CODE_ENTRYPOINT").is_some_and(|entry| entry.starts_with("sdk")),
        }
    }

    /// Returns the session that a command is about: inside a client its own; else the one named; else for a person the
    /// attended session most recently active at or above the directory (R110). `Ok(None)` where there is none.
    ///
    /// # Errors
    /// Where the named session is unknown, or an agent names another's.
    pub fn session(&self, speaker: &Speaker, named: Option<&SessionId>) -> Result<Option<Session>> {
        let Some(home) = self.home()? else {
            return match named {
                Some(id) if *speaker == Speaker::Person => Err(unknown_session(id).into()),
                _ => Ok(None),
            };
        };
        match (speaker, named) {
            (Speaker::Agent(own), Some(id)) if own != id && Session::open(&home, id)?.is_some() => {
                Err(Refused::by("R71", "a command inside a session acts for that session: leave out --session").into())
            }
            (Speaker::Agent(own), _) => Session::open(&home, own),
            (Speaker::Person, Some(id)) => match Session::open(&home, id)? {
                Some(session) => Ok(Some(session)),
                None => Err(unknown_session(id).into()),
            },
            (Speaker::Person, None) => {
                // The module's `/leaf` serves the person in its own session (R71).
                if let Speaker::Agent(own) = self.by_ancestry()?
                    && self.has_token(&own)?
                {
                    return Session::open(&home, &own);
                }
                let here = self.here()?;
                let mut best: Option<((Ts, Option<SystemTime>), Session)> = None;
                for session in Session::all(&home)? {
                    let record = &session.record;
                    let above = here.starts_with(canonical(Path::new(&record.cwd)));
                    if !above || !record.attended || !record.lives() {
                        continue;
                    }
                    let active = session.state().map(|state| state.active).unwrap_or_default().max(record.started);
                    // Two of one millisecond: the system's own time of the journal decides.
                    let journal = session.dir.path().join(crate::session::journal::NAME);
                    let active = (active, std::fs::metadata(journal).and_then(|meta| meta.modified()).ok());
                    if best.as_ref().is_none_or(|(than, _)| active > *than) {
                        best = Some((active, session));
                    }
                }
                Ok(best.map(|(_, session)| session))
            }
        }
    }

    /// Returns the session of an agent's command, making a record where no hook told of it yet.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn make_session(&self, id: &SessionId, cwd: &Path) -> Result<Session> {
        let home = self.make_home()?;
        let record = SessionRecord {
            process: self.client(),
            attended: self.attended(),
            ..self.fresh_record(&home, id, canonical(cwd).to_string_lossy().into_owned())
        };
        Session::make(&home, &record, self.deadline())
    }

    /// Returns the pages that a session holds, the one that came last first.
    ///
    /// # Errors
    /// Where a page can't be read.
    pub fn held(&self, home: &Dir, record: &SessionRecord) -> Result<Vec<Page>> {
        let mut pages = Vec::new();
        for id in record.pages.iter().rev() {
            match Page::open(home, id) {
                Ok(Some(page)) if page.record.session.as_ref() == Some(&record.id) => pages.push(page),
                Ok(_) => {}
                // One page that can't be read must not keep the others from the session.
                Err(error) => errors::note(&format!("page {id}: {error:#}")),
            }
        }
        Ok(pages)
    }

    /// Returns the newest page of those that are wanted.
    ///
    /// # Errors
    /// Where the pages can't be read.
    pub fn newest_page(&self, home: &Dir, wanted: impl Fn(&Page) -> bool) -> Result<Option<Page>> {
        let mut newest: Option<Page> = None;
        for id in Page::all(home)? {
            // A page that can't be read is doctor's to tell of; it must not keep the others from being found.
            let Ok(Some(page)) = Page::open(home, &id) else { continue };
            let newer = newest.as_ref().is_none_or(|than| page.record.created > than.record.created);
            if newer && wanted(&page) {
                newest = Some(page);
            }
        }
        Ok(newest)
    }

    /// Returns the newest page of a project that no live session holds.
    ///
    /// # Errors
    /// Where the pages can't be read.
    pub fn free_page(&self, home: &Dir, serves: impl Fn(&Path) -> bool) -> Result<Option<Page>> {
        self.newest_page(home, |page| serves(Path::new(&page.record.project)) && !self.held_live(home, &page.record))
    }

    /// Whether a session that lives holds the page.
    pub fn held_live(&self, home: &Dir, record: &PageRecord) -> bool {
        let holder = record.session.as_ref().and_then(|id| Session::open(home, id).ok().flatten());
        holder.is_some_and(|session| session.record.lives())
    }

    /// Makes a page for a project, held by `session` where one is given.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn make_page(
        &self,
        title: &str,
        slug: Option<&PageId>,
        project: &Path,
        session: Option<&Session>,
    ) -> Result<Page> {
        let home = self.make_home()?;
        let now = self.now();
        let record = PageRecord {
            format: FORMAT,
            title: title.to_owned(),
            project: project.to_string_lossy().into_owned(),
            created: now,
            key: IdKey(crate::ids::random_u64()?),
            session: session.map(|session| session.record.id.clone()),
            held_since: session.map(|_| now),
            held_from: 0,
        };
        let base = match slug {
            Some(slug) => slug.as_str().to_owned(),
            None => slug_of(title),
        };
        for attempt in 1..1000 {
            let id: PageId = if attempt == 1 { base.clone() } else { format!("{base}-{attempt}") }.parse()?;
            // The session's own list is written first: page.json decides, so that a page that was never made is no matter.
            if let Some(session) = session {
                self.list_page(&home, &session.record.id, &id)?;
            }
            match Page::create(&home, &id, record.clone())? {
                Some(page) => return Ok(page),
                None if slug.is_some() => {
                    return Err(Refused::input(format!("there is a page {base} already: choose another --slug")).into());
                }
                None => {}
            }
        }
        anyhow::bail!("no free slug for {base}: give one with --slug")
    }

    fn list_page(&self, home: &Dir, session: &SessionId, page: &PageId) -> Result<()> {
        if let Some(session) = Session::open(home, session)? {
            let mut session = session.lock(self.deadline())?;
            let mut record = session.session.record.clone();
            record.add_page(page);
            session.replace_record(record)?;
        }
        Ok(())
    }

    /// Gives a page to a session, under the page's and the session's locks. The session's own list is written first.
    ///
    /// # Errors
    /// Where a lock or a write fails. `Ok(None)` where `still` says no by then.
    pub fn take_over(
        &self,
        page: Page,
        session: &Session,
        still: impl Fn(&PageRecord) -> bool,
    ) -> Result<Option<Page>> {
        let home = self.make_home()?;
        let mut locked = page.lock(self.deadline())?;
        if !still(&locked.page.record) {
            return Ok(None);
        }
        self.list_page(&home, &session.record.id, &locked.page.id)?;
        locked.hand_to(&session.record, self.now())?;
        Ok(Some(locked.page))
    }

    /// Returns the present directory, with symlinks resolved.
    ///
    /// # Errors
    /// Where it was removed, or has a name that isn't UTF-8: a page's project is written as text.
    pub fn here(&self) -> Result<PathBuf> {
        let here = std::env::current_dir().map_err(|error| {
            Refused::input(format!(
                "can't tell the current directory ({}): change to one that exists",
                place::plain(&error)
            ))
        })?;
        let here = canonical(&here);
        match here.to_str() {
            Some(_) => Ok(here),
            None => Err(Refused::input("the current directory's name is not UTF-8: run leaf in another one").into()),
        }
    }

    /// Returns the pages that say that a session holds them, the one that came last last: for a session whose record is lost.
    fn pages_of(&self, home: &Dir, id: &SessionId) -> Vec<PageId> {
        let all = Page::all(home).unwrap_or_default();
        let mut pages: Vec<Page> = all
            .iter()
            .filter_map(|page| Page::open(home, page).ok().flatten())
            .filter(|page| page.record.session.as_ref() == Some(id))
            .collect();
        pages.sort_by_key(|page| page.record.held_since);
        pages.into_iter().map(|page| page.id).collect()
    }

    /// Returns the record of a session that was just heard of.
    pub fn fresh_record(&self, home: &Dir, id: &SessionId, cwd: String) -> SessionRecord {
        SessionRecord { pages: self.pages_of(home, id), ..SessionRecord::new(id.clone(), cwd, self.now()) }
    }

    /// Returns the page that a session first needs (R110): one that it holds, else its project's newest page that no live
    /// session holds, else a new one.
    ///
    /// # Errors
    /// Where pages can't be read or written.
    pub fn needed_page(&self, session: &Session) -> Result<Found> {
        let home = self.make_home()?;
        if let Some(page) = self.held(&home, &session.record)?.into_iter().next() {
            return Ok(Found { page, notes: Vec::new() });
        }
        if let Some(found) = self.inherit_page(&home, session)? {
            return Ok(found);
        }
        // Two first needs at once make one page: who comes second finds it.
        let project = PathBuf::from(&session.record.cwd);
        let _lock = self.lock_project(&home, &project)?;
        let now = Session::open(&home, &session.record.id)?;
        if let Some(now) = now
            && let Some(page) = self.held(&home, &now.record)?.into_iter().next()
        {
            return Ok(Found { page, notes: Vec::new() });
        }
        let page = self.make_page(&project_title(&project), None, &project, Some(session))?;
        let notes = vec![format!("made page {} for this session", page.id)];
        Ok(Found { page, notes })
    }

    /// Takes a project's lock, which is held as long as the file is open.
    ///
    /// # Errors
    /// At the deadline, or where there are no locks.
    pub fn lock_project(&self, home: &Dir, project: &Path) -> Result<File> {
        let file = home.make("projects")?.make_file(&format!("{}.lock", project_key(project)))?;
        lock::exclusive(&file, self.deadline())?;
        Ok(file)
    }

    /// Gives the session its project's newest page that no live session holds, if there is one.
    ///
    /// # Errors
    /// Where pages can't be read or written.
    pub fn inherit_page(&self, home: &Dir, session: &Session) -> Result<Option<Found>> {
        let project = canonical(Path::new(&session.record.cwd));
        let Some(page) = self.free_page(home, |other| canonical(other) == project)? else { return Ok(None) };
        let taken = self.take_over(page, session, |record| !self.held_live(home, record))?;
        Ok(taken.map(|page| Found {
            notes: vec![format!("took the project's page {}, which no live session held", page.id)],
            page,
        }))
    }

    /// Returns the page that a person writes to where no session serves the directory (R110).
    ///
    /// # Errors
    /// Where pages can't be read or written.
    pub fn unread_page(&self) -> Result<Found> {
        let home = self.make_home()?;
        let here = self.here()?;
        let _lock = self.lock_project(&home, &here)?;
        let found = self.free_page(&home, |project| here.starts_with(canonical(project)))?;
        let page = match found {
            Some(page) => page,
            None => self.make_page(&project_title(&here), None, &here, None)?,
        };
        let notes = vec![format!("no session serves this directory: nobody reads page {} yet", page.id)];
        Ok(Found { page, notes })
    }

    /// Finds the page of an id by its beginning: `--page`, else the pages that the session holds, else all others. `matches` says
    /// whether a page's view, which has what the id leads to, knows it.
    ///
    /// # Errors
    /// Where no page knows it, or several do.
    pub fn page_of(
        &self,
        session: Option<&Session>,
        flag: Option<&PageId>,
        what: &str,
        id: &Prefix,
        matches: impl Fn(&View) -> bool,
    ) -> Result<Page> {
        let nowhere = || Refused::input(format!("no page knows {what}: `leaf thread list --all` shows what there is"));
        let Some(home) = self.home()? else { return Err(nowhere().into()) };
        if let Some(page) = flag {
            return self.page(&home, page);
        }
        let knows = |page: &Page| -> Result<bool> { Ok(matches(&page.hot_view_with(id.ids())?)) };
        let held = match session {
            Some(session) => self.held(&home, &session.record)?,
            None => Vec::new(),
        };
        let mut seen = Vec::new();
        for page in held {
            if knows(&page)? {
                return Ok(page);
            }
            seen.push(page.id);
        }
        let mut others = Vec::new();
        for id in Page::all(&home)?.into_iter().filter(|id| !seen.contains(id)) {
            if let Ok(Some(page)) = Page::open(&home, &id)
                && knows(&page).unwrap_or(false)
            {
                others.push(page);
            }
        }
        match others.len() {
            0 => Err(nowhere().into()),
            1 => Ok(others.remove(0)),
            _ => {
                let names: Vec<&str> = others.iter().map(|page| page.id.as_str()).collect();
                Err(Refused::input(format!("{what} could be of the pages {}: name one with --page", names.join(", ")))
                    .into())
            }
        }
    }

    /// Opens a page by its slug.
    ///
    /// # Errors
    /// Where there is none.
    pub fn page(&self, home: &Dir, id: &PageId) -> Result<Page> {
        match Page::open(home, id)? {
            Some(page) => Ok(page),
            None => Err(Refused::input(format!("there is no page {id}: `leaf page list` shows what there is")).into()),
        }
    }

    /// Locks the session that holds a page, if one does and its record is there.
    ///
    /// # Errors
    /// At the deadline.
    pub fn lock_holder(&self, record: &PageRecord, deadline: Deadline) -> Result<Option<LockedSession>> {
        let (Some(home), Some(id)) = (self.home()?, &record.session) else { return Ok(None) };
        match Session::open(&home, id)? {
            Some(session) => Ok(Some(session.lock(deadline)?)),
            None => Ok(None),
        }
    }
}

fn unknown_session(id: &SessionId) -> Refused {
    Refused::input(format!(
        "leaf knows no session {}: `leaf status` lists those that it knows",
        text::first_words(id.as_str(), 60)
    ))
}

/// Returns the session that lives on in a record's process: the record's own, or the one that took over (R109).
fn follow(home: &Dir, record: &SessionRecord) -> SessionId {
    let mut record = record.clone();
    for _ in 0..64 {
        let next = record.moved_to.as_ref().and_then(|id| Session::open(home, id).ok().flatten());
        match next {
            Some(next) if record.ended.is_some() => record = next.record,
            _ => break,
        }
    }
    record.id
}

/// Returns the name of a project's files: what its sessions share lies under it.
pub fn project_key(project: &Path) -> String {
    sha256_hex(project.as_os_str().as_encoded_bytes())[..32].to_owned()
}

/// Returns the title of a project's first page: its directory's name.
fn project_title(project: &Path) -> String {
    project.file_name().map_or_else(|| "page".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Returns a title's slug.
fn slug_of(title: &str) -> String {
    let mut slug = String::new();
    for c in title.chars().flat_map(char::to_lowercase) {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.ends_with('-') && !slug.is_empty() {
            slug.push('-');
        }
        // Room for a number behind it.
        if slug.len() >= 56 {
            break;
        }
    }
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "page".to_owned() } else { slug.to_owned() }
}

/// A prefix of an id, as a person types it: 4 to 8 hex digits.
#[derive(Clone, Debug)]
pub struct Prefix(String);

impl Prefix {
    /// Takes a text as the beginning of an id.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(text: &str) -> Result<Prefix> {
        let hex = text.bytes().all(|b| b.is_ascii_hexdigit());
        if (4..=8).contains(&text.len()) && hex {
            return Ok(Prefix(text.to_ascii_lowercase()));
        }
        let shown = text::first_words(text, 40);
        Err(Refused::input(format!(
            "\"{shown}\" is no id: an id is 8 hex digits, of which 4 or more are enough where they are unique"
        ))
        .into())
    }

    /// Returns all ids that begin so: one for a whole id, 65,536 for 4 digits.
    pub fn ids(&self) -> impl Iterator<Item = EventId> + use<> {
        let open = 4 * (8 - self.0.len() as u32);
        let first = u32::from_str_radix(&self.0, 16).unwrap_or_default() << open;
        (first..=(first | ((1u32 << open) - 1))).map(EventId)
    }

    /// Whether an id begins so.
    pub fn begins(&self, id: EventId) -> bool {
        id.to_string().starts_with(&self.0)
    }

    /// Returns the one of these ids that begins so.
    ///
    /// # Errors
    /// Where none does, or several do.
    pub fn pick(&self, kind: &str, ids: impl Iterator<Item = EventId>) -> Result<EventId> {
        let mut found: Vec<EventId> = ids.filter(|id| self.begins(*id)).collect();
        found.sort();
        found.dedup();
        match found.as_slice() {
            [one] => Ok(*one),
            [] => {
                Err(Refused::input(format!("there is no {kind} {}: `leaf page state` shows what there is", self.0))
                    .into())
            }
            several => {
                let all: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(Refused::input(format!("{} could be {}: give more digits", self.0, all.join(" or "))).into())
            }
        }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
