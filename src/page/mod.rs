//! A page: its record, its log, and the view folded from it.

pub mod event;
pub mod hot;
pub mod index;
pub mod log;
pub mod snapshot;
pub mod state;
pub mod view;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::FORMAT;
use crate::clock::Ts;
use crate::ids::{EventId, IdKey, PageId, SessionId};
use crate::lock::{self, Deadline};
use crate::place::{Dir, PlaceError, Stamp};
use crate::session::liveness::{Life, Process};
use crate::session::record::SessionRecord;
use hot::Keep;
use log::Log;
use snapshot::{Files, Kept};
use view::View;

/// `page.json`: what a page is, and the authority on which session holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageRecord {
    /// The format of the page's directory.
    pub format: u32,
    /// The page's title.
    pub title: String,
    /// The project's directory.
    pub project: String,
    /// When the page was made.
    pub created: Ts,
    /// The key of its ids.
    pub key: IdKey,
    /// The session that holds the page.
    pub session: Option<SessionId>,
    /// When that session came to hold it.
    pub held_since: Option<Ts>,
    /// The page's `seq` at that time (R13(c)).
    #[serde(default)]
    pub held_from: u32,
}

/// A page of the state directory, not locked.
#[derive(Clone, Debug)]
pub struct Page {
    /// The page's slug.
    pub id: PageId,
    /// Its directory.
    pub dir: Dir,
    /// Its record, as read when the page was opened or locked.
    pub record: PageRecord,
    /// The record's stamp then, where any change since has another.
    stamp: Option<Stamp>,
}

/// The name of the page log.
pub const LOG: &str = "log.jsonl";
/// The name of the page's record.
pub const RECORD: &str = "page.json";
/// The directory of a page's pointers.
pub const DELIVERIES: &str = "deliveries";
/// How the directory of a page in the making is named, before its maker's pid.
const ASIDE: &str = ".new-";

impl Page {
    /// Opens a page; `Ok(None)` where there is none of that slug.
    ///
    /// # Errors
    /// Where its record can't be read.
    pub fn open(home: &Dir, id: &PageId) -> Result<Option<Page>> {
        let Some(dir) = home.below(&["pages", id.as_str()])? else { return Ok(None) };
        match read_record(&dir)? {
            Some((record, stamp)) => {
                let stamp = Some(stamp).filter(Stamp::is_settled);
                Ok(Some(Page { id: id.clone(), dir, record, stamp }))
            }
            None => Ok(None),
        }
    }

    /// Makes a page, whole or not at all: it is built aside and renamed into its place. `Ok(None)` where the slug is taken.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn create(home: &Dir, id: &PageId, record: PageRecord) -> Result<Option<Page>> {
        let pages = home.make("pages")?;
        if pages.sub(id.as_str())?.is_some() {
            return Ok(None);
        }
        sweep(&pages)?;
        let aside = format!("{ASIDE}{}-{:016x}", Process::own().pid, crate::ids::random_u64()?);
        let dir = pages.make(&aside)?;
        dir.make(DELIVERIES)?;
        dir.make_file(LOG)?;
        dir.replace(RECORD, &serde_json::to_vec(&record)?, true)?;
        dir.sync()?;
        // A directory takes the place of an empty one alone, so that of two makers of one slug only one comes through.
        if pages.rename(&aside, id.as_str()).is_err() {
            abandon(&dir);
            return Ok(None);
        }
        pages.sync()?;
        Page::open(home, id)
    }

    /// Returns the slugs of all pages.
    ///
    /// # Errors
    /// Where the directory can't be read.
    pub fn all(home: &Dir) -> Result<Vec<PageId>, PlaceError> {
        let Some(pages) = home.sub("pages")? else { return Ok(Vec::new()) };
        Ok(pages.names()?.iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Reads all of the page's view without its lock: whole lines of an append-only log are true whenever they are read.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn view(&self) -> Result<View> {
        let mut log = Log::open_to_read(&self.dir)?;
        let mut view = View::default();
        view.fold(self.record.key, &log.read_from(0)?);
        Ok(view)
    }

    /// Reads the hot part of the page's view without its lock: the threads that still matter to the session that holds it.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn hot_view(&self) -> Result<View> {
        Ok(self.hot()?.view)
    }

    /// As [`Page::hot_view`], for who may lock the page then ([`Page::lock_seen`]).
    ///
    /// # Errors
    /// As there.
    pub fn hot(&self) -> Result<Kept> {
        self.hot_with(std::iter::empty())
    }

    /// As [`Page::hot_view`], with the threads that these ids lead to.
    ///
    /// # Errors
    /// As there.
    pub fn hot_view_with(&self, ids: impl Iterator<Item = EventId>) -> Result<View> {
        Ok(self.hot_with(ids)?.view)
    }

    fn hot_with(&self, ids: impl Iterator<Item = EventId>) -> Result<Kept> {
        let mut log = Log::open_to_read(&self.dir)?;
        let mut files = Files { dir: &self.dir, key: self.record.key, log: &mut log };
        let mut kept = Kept::hot(&mut files)?;
        kept.load(&mut files, ids)?;
        if kept.is_long() {
            self.store_if_free();
        }
        Ok(kept)
    }

    /// Writes the snapshot, where nobody holds the page's lock just now: no reader is to fold a long log again. Failing is no matter.
    fn store_if_free(&self) {
        let Ok(mut log) = Log::open_to_write(&self.dir) else { return };
        let (Ok(true), Ok(_)) = (lock::try_exclusive(log.file()), log.size()) else { return };
        let mut files = Files { dir: &self.dir, key: self.record.key, log: &mut log };
        if self.record.format <= FORMAT
            && let Ok(mut kept) = Kept::hot(&mut files)
        {
            kept.store_if_worth(&files, None);
        }
    }

    /// Locks the page and reads its record and view as they then are.
    ///
    /// # Errors
    /// At the deadline, where there are no locks, or where the page can't be read.
    pub fn lock(self, deadline: Deadline) -> Result<LockedPage> {
        self.lock_seen(None, deadline)
    }

    /// As [`Page::lock`], going on from how the page was `seen` before, where that stands.
    ///
    /// # Errors
    /// As there.
    pub fn lock_seen(self, seen: Option<Kept>, deadline: Deadline) -> Result<LockedPage> {
        let mut log = Log::open_to_write(&self.dir)?;
        lock::exclusive(log.file(), deadline)?;
        // Others may have written while it waited.
        log.size()?;
        let mut page = self;
        if page.stamp.is_none() || page.dir.stamp(&[RECORD])? != page.stamp {
            (page.record, _) = read_record(&page.dir)?.with_context(|| format!("page {} is gone", page.id))?;
            page.stamp = None;
        }
        let mut files = Files { dir: &page.dir, key: page.record.key, log: &mut log };
        let kept = match seen.and_then(|seen| seen.go_on(&mut files)) {
            Some(kept) => kept,
            None => Kept::hot(&mut files)?,
        };
        Ok(LockedPage { page, log, kept, keep: None })
    }

    /// Returns the directory of the page's pointers.
    ///
    /// # Errors
    /// Where it can't be opened or made.
    pub fn deliveries(&self) -> Result<Dir, PlaceError> {
        self.dir.make(DELIVERIES)
    }
}

/// Removes what killed makers of pages left.
fn sweep(pages: &Dir) -> Result<(), PlaceError> {
    for name in pages.names()? {
        let maker = name.strip_prefix(ASIDE).and_then(|rest| rest.split('-').next()?.parse().ok());
        if maker.is_some_and(|pid| Process::of(pid).life() == Life::Dead)
            && let Ok(Some(dir)) = pages.sub(&name)
        {
            abandon(&dir);
        }
    }
    Ok(())
}

/// Removes a page in the making; what can't be removed is named by `leaf doctor`.
fn abandon(dir: &Dir) {
    for name in dir.names().unwrap_or_default() {
        if name != DELIVERIES {
            let _ = dir.remove(&name);
        }
    }
    let _ = std::fs::remove_dir(dir.path().join(DELIVERIES));
    let _ = std::fs::remove_dir(dir.path());
}

fn read_record(dir: &Dir) -> Result<Option<(PageRecord, Stamp)>> {
    let Some((bytes, stamp)) = dir.read_below(&[RECORD])? else { return Ok(None) };
    serde_json::from_slice(&bytes)
        .map(|record| Some((record, stamp)))
        .with_context(|| format!("{} is damaged: `leaf doctor` says more", dir.path().join(RECORD).display()))
}

/// A page under its lock, which is freed with this value.
#[derive(Debug)]
pub struct LockedPage {
    /// The page; its record is as it stands under the lock.
    pub page: Page,
    log: Log,
    kept: Kept,
    /// What the session that holds the page may ask of threads in which nothing waits; `None` where nobody told.
    pub keep: Option<Keep>,
}

impl LockedPage {
    /// Returns the view as it stands under the lock, its hot part; kept up by [`LockedPage::append`]. What is named by an id is
    /// loaded before ([`LockedPage::load`]).
    pub fn view(&self) -> &View {
        &self.kept.view
    }

    fn files(&mut self) -> (&mut Kept, Files<'_>) {
        (&mut self.kept, Files { dir: &self.page.dir, key: self.page.record.key, log: &mut self.log })
    }

    /// Loads the threads that these ids lead to.
    ///
    /// # Errors
    /// Where the log can't be read.
    pub fn load(&mut self, ids: impl Iterator<Item = EventId>) -> Result<()> {
        let (kept, mut files) = self.files();
        kept.load(&mut files, ids)
    }

    /// Loads the threads of the events behind `after`.
    ///
    /// # Errors
    /// As [`LockedPage::load`].
    pub fn load_since(&mut self, after: u32) -> Result<()> {
        let (kept, mut files) = self.files();
        kept.load_since(&mut files, after)
    }

    /// Loads all threads.
    ///
    /// # Errors
    /// As [`LockedPage::load`].
    pub fn load_all(&mut self) -> Result<()> {
        let (kept, mut files) = self.files();
        kept.make_whole(&mut files)
    }

    /// Appends events as one write and folds them into the view. With `sync` they are durable on return (a person or an
    /// agent is told that they stand); on any failure none of them stands.
    ///
    /// # Errors
    /// Where the page is of a newer format (R127), or the write fails.
    pub fn append(&mut self, now: Ts, drafts: Vec<event::Draft>, sync: bool) -> Result<Vec<event::Event>> {
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        self.check_writable()?;
        self.close_torn_line()?;
        let ts = now.max(self.kept.view.ts);
        let mut seq = self.kept.view.next_seq() - 1;
        let mut events: Vec<event::Event> = Vec::with_capacity(drafts.len());
        for draft in drafts {
            seq = seq.checked_add(1).context("the page has no ids left: make a new one with `leaf page new`")?;
            events.push(draft(self.page.record.key, seq, ts, &events));
        }
        let mut bytes = Vec::new();
        let mut starts = Vec::with_capacity(events.len());
        for event in &events {
            starts.push(bytes.len() as u64);
            serde_json::to_writer(&mut bytes, &event.to_line())?;
            bytes.push(b'\n');
        }
        let (kept, mut files) = self.files();
        kept.expect(&mut files, &events)?;
        self.log.append(&bytes, sync)?;
        let begins = self.log.end() - bytes.len() as u64;
        let written: Vec<(u64, &event::Event)> = starts.iter().map(|start| begins + start).zip(&events).collect();
        self.kept.written(&written, self.log.end());
        let keep = self.keep.take();
        let (kept, files) = self.files();
        kept.store_if_worth(&files, keep.as_ref());
        self.keep = keep;
        Ok(events)
    }

    /// Returns the id of an event that is to be written: the next one's, or `ahead` further on. A torn line is closed first.
    ///
    /// # Errors
    /// As [`LockedPage::append`].
    pub fn id_ahead(&mut self, ahead: u32) -> Result<EventId> {
        self.close_torn_line()?;
        let seq = self.kept.view.next_seq().checked_add(ahead).context("the page has no ids left: make a new one")?;
        Ok(self.page.record.key.id(seq))
    }

    /// Closes a line that a killed writer left torn, so that it is lost alone and no `seq` is given out twice (R127).
    /// [`LockedPage::append`] does it; who needs the next `seq` before that calls it first.
    ///
    /// # Errors
    /// As [`LockedPage::append`].
    pub fn close_torn_line(&mut self) -> Result<()> {
        self.check_writable()?;
        // Nobody else writes under its lock: it ends where it was read to.
        if self.log.end() > self.kept.view.offset {
            self.log.append(b"", false)?;
            let (kept, mut files) = self.files();
            kept.catch_up(&mut files)?;
        }
        Ok(())
    }

    /// Gives the page to a session.
    ///
    /// # Errors
    /// Where the page is of a newer format (R127), or a write fails.
    pub fn hand_to(&mut self, session: &SessionRecord, now: Ts) -> Result<()> {
        self.check_writable()?;
        // One that may have held it before can have had messages that the snapshot leaves out, of which it still hears (R8, R9).
        if self.page.record.held_since.is_some_and(|since| session.started < since) {
            let (kept, mut files) = self.files();
            kept.forget(&mut files)?;
        }
        let record = PageRecord {
            session: Some(session.id.clone()),
            held_since: Some(now),
            held_from: self.view().seq,
            ..self.page.record.clone()
        };
        self.page.dir.replace(RECORD, &serde_json::to_vec(&record)?, true)?;
        self.page.record = record;
        self.page.stamp = None;
        Ok(())
    }

    fn check_writable(&self) -> Result<()> {
        if self.page.record.format > FORMAT {
            bail!(
                "page {} was written by a newer leaf (format {}, this one knows {FORMAT}): it can be read, but to write update leaf",
                self.page.id,
                self.page.record.format
            );
        }
        Ok(())
    }
}
