//! What all writing commands share: who acts (R70, R71), in which turn, on which page, and what is said of it.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::{Run, output};
use crate::desk::{Found, Prefix, Speaker};
use crate::ids::TurnId;
use crate::page::Page;
use crate::page::event::{Actor, Author, By, Draft, Event, Line};
use crate::page::view::View;
use crate::refused::{Refused, Usage};
use crate::rules::writes;
use crate::schedule::record::Change;
use crate::session::Session;
use crate::session::journal::{ClerkLine, Entry, Evidence, Kind};
use crate::text;
use crate::transaction::Transaction;

/// A text is at most this long, bytes.
const TEXT_LIMIT: usize = 256 * 1024;

/// TEXT, as every writing command takes it.
#[derive(Clone, Debug, Args)]
pub struct TextArgs {
    /// The text; `-` or nothing reads standard input
    #[arg(value_name = "TEXT")]
    pub text: Option<std::ffi::OsString>,
    /// Read the text from a file
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub file: Option<PathBuf>,
}

impl TextArgs {
    /// Returns the text, without the white space at its end.
    ///
    /// # Errors
    /// Where it is empty, over 256 KiB, not UTF-8, or can't be read.
    pub fn read(self) -> Result<String> {
        let bytes = match (self.text, self.file) {
            (Some(text), _) if text != "-" => text.into_encoded_bytes(),
            (_, Some(file)) => {
                let open = std::fs::File::open(&file).map_err(|error| {
                    Refused::input(format!("can't read {}: {}", file.display(), crate::place::plain(&error)))
                })?;
                limited(open).with_context(|| format!("can't read {}", file.display()))?
            }
            (None, None) if std::io::stdin().is_terminal() => {
                return Err(
                    Usage("no text: give it as an argument, on standard input, or with --file".to_owned()).into()
                );
            }
            _ => limited(std::io::stdin().lock()).context("can't read standard input")?,
        };
        if bytes.len() > TEXT_LIMIT {
            return Err(Refused::input("the text is over 256 KiB: put it into a file and write where it lies").into());
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Refused::input("the text is not UTF-8: convert it, or write where it lies"))?;
        let text = text.trim_end();
        if text.trim_start().is_empty() {
            return Err(Refused::input("the text is empty: say something").into());
        }
        Ok(text.to_owned())
    }
}

fn limited(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(TEXT_LIMIT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn no_turn(who: &str) -> Refused {
    Refused::by(
        "R68",
        format!(
            "{who} has no open turn here: leave the thread to main, which gets its messages; say what you found in your final text"
        ),
    )
}

/// Who may run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The user's alone (R70, R71).
    Users,
    /// The agent's, and a person's acting as main.
    Agents,
    /// Everyone's.
    Everyones,
}

impl Run {
    /// Tells who speaks, and refuses what isn't theirs.
    ///
    /// # Errors
    /// The refusal.
    pub fn speaker(&self, verb: Verb) -> Result<Speaker> {
        let speaker = self.desk.speaker()?;
        if self.acts_as_fork() && verb == Verb::Users {
            return Err(
                Refused::by("R70", "this speaks as the user, and a fork never does: say it in your answer").into()
            );
        }
        if verb == Verb::Users && matches!(speaker, Speaker::Agent(_)) {
            return Err(Refused::by(
                "R71",
                "this speaks as the user, and the command runs inside an agent's session: the user writes from a terminal \
                 of their own, or by `/leaf TEXT` in the client's prompt (a `!` line there counts as the agent's)",
            )
            .into());
        }
        Ok(speaker)
    }

    /// Refuses a marked command whose turn ended meanwhile, a reading one too (R68).
    ///
    /// # Errors
    /// The refusal.
    pub fn check_mark(&self) -> Result<()> {
        let Some(agent) = &self.agent else { return Ok(()) };
        let speaker = self.desk.speaker()?;
        let open = match self.session(&speaker)? {
            Some(session) => {
                let state = session.state()?;
                state.open_fork(agent).is_some() || state.schedule.run_of(agent).is_some_and(|run| run.over.is_none())
            }
            None => false,
        };
        if open { Ok(()) } else { Err(no_turn(agent.as_str()).into()) }
    }

    /// Whether the command is a fork's: marked by the hook (R67), or in a headless run (R118).
    pub fn acts_as_fork(&self) -> bool {
        self.agent.is_some() || self.turn.is_some()
    }

    /// Returns the session of a command that reads or writes.
    ///
    /// # Errors
    /// As [`crate::desk::Desk::session`].
    pub fn session(&self, speaker: &Speaker) -> Result<Option<Session>> {
        self.desk.session(speaker, self.common.session.as_ref())
    }

    /// Returns the session of a command that needs one to write, making an agent's where no hook told of it yet.
    ///
    /// # Errors
    /// As above.
    pub fn needed_session(&self, speaker: &Speaker) -> Result<Option<Session>> {
        match (self.session(speaker)?, speaker) {
            (Some(session), _) => Ok(Some(session)),
            (None, Speaker::Agent(id)) => {
                Ok(Some(self.desk.make_session(id, &std::env::current_dir().unwrap_or_default())?))
            }
            (None, Speaker::Person) => Ok(None),
        }
    }

    /// Returns the page for something new: `--page`, else the session's, else as R110 says.
    ///
    /// # Errors
    /// Where there is none of that name, or it can't be made.
    pub fn page_for_new(&self, speaker: &Speaker) -> Result<Found> {
        if let Some(id) = &self.common.page {
            let home = self.desk.make_home()?;
            let page = self.desk.page(&home, id)?;
            return Ok(Found { page, notes: Vec::new() });
        }
        match self.needed_session(speaker)? {
            Some(session) => self.desk.needed_page(&session),
            None => self.desk.unread_page(),
        }
    }

    /// Returns the page that knows an id by its beginning. What an agent writes must be of its own session's page (R103).
    ///
    /// # Errors
    /// Where no page knows it, or another session holds it.
    pub fn page_of(
        &self,
        speaker: &Speaker,
        what: &str,
        id: &Prefix,
        writes: bool,
        matches: impl Fn(&View) -> bool,
    ) -> Result<Page> {
        let session = self.session(speaker)?;
        let page = self.desk.page_of(session.as_ref(), self.common.page.as_ref(), what, id, matches)?;
        if writes {
            self.own(speaker, &page)?;
        }
        Ok(page)
    }

    /// Refuses an agent's write on a page that its session doesn't hold (R103).
    ///
    /// # Errors
    /// The refusal.
    pub fn own(&self, speaker: &Speaker, page: &Page) -> Result<()> {
        match speaker {
            Speaker::Agent(own) if page.record.session.as_ref() != Some(own) => Err(Refused::by(
                "R103",
                format!(
                    "page {0} is not held by this session: `leaf page claim {0}` takes it, where its threads are to be answered here",
                    page.id
                ),
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// Returns the page that a reading command is about: `--page`, else the session's, else the project's.
    ///
    /// # Errors
    /// Where there is none yet.
    pub fn page_to_read(&self) -> Result<Page> {
        let none = || Refused::input("there is no page here yet: `leaf thread new TEXT` begins one");
        let Some(home) = self.desk.home()? else { return Err(none().into()) };
        if let Some(id) = &self.common.page {
            return self.desk.page(&home, id);
        }
        let speaker = self.desk.speaker()?;
        if let Some(session) = self.session(&speaker)?
            && let Some(page) = self.desk.held(&home, &session.record)?.into_iter().next()
        {
            return Ok(page);
        }
        // To read, any page of the project will do, whoever holds it.
        let here = self.desk.here()?;
        let serves = |page: &Page| here.starts_with(crate::place::canonical(Path::new(&page.record.project)));
        self.desk.newest_page(&home, serves)?.ok_or_else(|| none().into())
    }

    /// Runs a write under the page's lock and its holder's. What time alone changed is done first (R88), and what the ids that it is
    /// about lead to is loaded. A refusal by a rule is journalled (R5).
    ///
    /// # Errors
    /// The refusal, or where a lock or a write fails.
    pub fn write<T>(
        &self,
        speaker: &Speaker,
        page: Page,
        about: Option<&Prefix>,
        act: impl FnOnce(&mut Desktop<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut tx = Transaction::open(&self.desk, page, self.desk.deadline())?;
        if *speaker != Speaker::Person {
            self.own(speaker, &tx.page.page)?;
        }
        tx.settle()?;
        if let Some(about) = about {
            tx.page.load(about.ids())?;
        }
        let now = tx.now;
        let mut desktop = Desktop { run: self, speaker, tx };
        let result = desktop.not_lost().and_then(|()| act(&mut desktop));
        if result.is_ok() {
            // What the write itself began or ended to be kept back (R16). The write stands and was told, whatever becomes of
            // this: the next process does it again (R17).
            if let Err(error) = desktop.tx.keep_back().and_then(|()| desktop.tx.settle()) {
                crate::errors::note(&format!("after a write: {error:#}"));
            }
        }
        if let Err(error) = &result
            && let Some(Refused { rule: Some(rule), thread: Some(thread), sentence }) = error.downcast_ref()
        {
            let turn = desktop.fork().ok().flatten();
            desktop.journal(&[Entry {
                page: Some(desktop.tx.page.page.id.clone()),
                thread: Some(*thread),
                turn: turn.as_ref().map(|turn| turn.turn),
                agent: turn.as_ref().and_then(|turn| turn.agent.clone()),
                by: turn.as_ref().map(|turn| turn.by),
                why: Some(sentence.clone()),
                rule: Some((*rule).to_owned()),
                ..Entry::new(now, Kind::Refused)
            }]);
        }
        result
    }
}

/// A page and the session that holds it, locked for one write.
pub struct Desktop<'a> {
    run: &'a Run,
    speaker: &'a Speaker,
    /// The page and its session.
    pub tx: Transaction,
}

impl Desktop<'_> {
    /// Who an event of everyone's verbs is from.
    pub fn author(&self) -> Author {
        match self.speaker {
            Speaker::Person => Author::User,
            Speaker::Agent(_) => Author::Agent,
        }
    }

    /// The page's view.
    pub fn view(&self) -> &View {
        self.tx.page.view()
    }

    /// The page.
    pub fn page(&self) -> &Page {
        &self.tx.page.page
    }

    /// Refuses an unmarked write while only a fork's marked call is in flight: its mark was lost (R72).
    fn not_lost(&self) -> Result<()> {
        if *self.speaker == Speaker::Person || self.run.acts_as_fork() {
            return Ok(());
        }
        let calls = &self.tx.state().calls;
        if calls.iter().any(|call| call.marked) && !calls.iter().any(|call| !call.marked) {
            return Err(Refused::by(
                "R72",
                "a fork's call lost its mark (another hook, or an alias, rewrote it), so that nobody can tell whose write this is: \
                 run `leaf` as the one leading command",
            )
            .into());
        }
        Ok(())
    }

    /// Returns the fork that acts, `None` where main or a person does (R67, R118).
    ///
    /// # Errors
    /// Where the agent has no open turn (R68).
    pub fn fork(&self) -> Result<Option<Actor>> {
        let state = self.tx.state();
        // A scheduled fork has a turn too; it took no thread, so that it may write in none (R55).
        let scheduled = match (&self.run.agent, self.run.turn) {
            (Some(agent), _) => state.schedule.run_of(agent),
            (None, Some(turn)) => state.schedule.run(turn),
            (None, None) => None,
        };
        if let Some(run) = scheduled.filter(|run| run.over.is_none()) {
            return Ok(Some(Actor {
                turn: run.issue.run,
                session: self.tx.page.page.record.session.clone(),
                generation: state.generation,
                by: By::Fork,
                name: Some(run.name()),
                agent: run.agent.clone(),
            }));
        }
        let turn = match (&self.run.agent, self.run.turn) {
            (Some(agent), _) => state.open_fork(agent).ok_or_else(|| no_turn(agent.as_str()))?,
            (None, Some(turn)) => {
                if let Some(run) = state.schedule.run(turn).filter(|run| run.over.is_none()) {
                    return Ok(Some(self.tx.run_actor(run)));
                }
                let open = state.fork(turn).filter(|turn| turn.ended.is_none());
                open.ok_or_else(|| no_turn(&turn.to_string()))?
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(self.tx.fork_actor(turn)))
    }

    /// Returns who acts with an agent's verb: the fork, else main.
    ///
    /// # Errors
    /// As [`Desktop::fork`] and [`Desktop::main`].
    pub fn actor(&mut self) -> Result<Actor> {
        match self.fork()? {
            Some(fork) => Ok(fork),
            None => self.main(),
        }
    }

    /// Refuses what is never a fork's (R60).
    ///
    /// # Errors
    /// The refusal.
    pub fn not_a_forks(&self, what: &str) -> Result<()> {
        match self.fork()? {
            Some(_) => Err(writes::never_a_forks(what).into()),
            None => Ok(()),
        }
    }

    /// Returns main as an actor: its open turn, else its last, else a turn that closes with the write (Words: *main*).
    ///
    /// # Errors
    /// Where the journal can't be written.
    pub fn main(&mut self) -> Result<Actor> {
        let now = self.tx.now;
        let Some(session) = &mut self.tx.session else {
            return Ok(Actor {
                turn: TurnId::new()?,
                session: self.tx.page.page.record.session.clone(),
                generation: None,
                by: By::Main,
                name: None,
                agent: None,
            });
        };
        // A turn is of the generation in which it began, though another has begun since (R40).
        let (turn, generation) = match &session.state.main {
            Some(main) => (main.id, main.generation),
            None => {
                let turn = TurnId::new()?;
                session.append(&[Entry::begun(now, turn, None), Entry::ended(now, turn, Evidence::Write)])?;
                (turn, session.session.record.generation)
            }
        };
        Ok(Actor {
            turn,
            session: Some(session.session.record.id.clone()),
            generation,
            by: By::Main,
            name: None,
            agent: None,
        })
    }

    /// Returns the actor of an agent's event, `None` for a person's (everyone's verbs).
    ///
    /// # Errors
    /// As [`Desktop::actor`].
    pub fn agent(&mut self) -> Result<Option<Actor>> {
        match self.speaker {
            Speaker::Person => Ok(None),
            Speaker::Agent(_) => self.actor().map(Some),
        }
    }

    /// Appends events, durable on return (a command that exits 0 has its event on disk).
    ///
    /// # Errors
    /// Where the write fails; none of them then stands.
    pub fn append(&mut self, drafts: Vec<Draft>) -> Result<Vec<Event>> {
        self.tx.page.append(self.tx.now, drafts, true)
    }

    /// Appends what the person wrote, durable on return: with it the session's pause is over, and where main is idle the next begins.
    ///
    /// # Errors
    /// Where the write fails; it then doesn't stand.
    pub fn append_users(&mut self, draft: Draft) -> Result<Vec<Event>> {
        let events = self.append(vec![draft])?;
        let (now, state) = (self.tx.now, self.tx.state());
        let idle = state.open_turn(now).is_none() && state.schedule.stopped.is_some();
        self.journal(&[Entry::schedule(now, Change::Activity { idle, why: "message".to_owned() })]);
        Ok(events)
    }

    /// Writes journal entries. The page's log holds what was done; losing an entry loses a line of the story.
    pub fn journal(&mut self, entries: &[Entry]) {
        if let Err(error) = self.tx.journal(entries) {
            crate::errors::note(&format!("journal: {error:#}"));
        }
    }

    /// Returns who acts, for a line of the clerk.
    ///
    /// # Errors
    /// As [`Desktop::fork`].
    pub fn who(&self) -> Result<String> {
        Ok(match self.fork()? {
            Some(fork) => format!("fork {}", text::one_line(fork.name.as_deref().unwrap_or("without a name"))),
            None => "the user".to_owned(),
        })
    }

    /// Gives the session's clerk a line, where a person or a fork did what main is to know.
    pub fn tell(&mut self, thread: crate::ids::ThreadId, line: ClerkLine) {
        if *self.speaker == Speaker::Person || self.run.acts_as_fork() {
            self.journal(&[Entry::clerk(self.tx.now, Some(thread), line)]);
        }
    }

    /// Tells whether someone reads what is written here (R110).
    pub fn unread(&self) -> bool {
        match &self.page().record.session {
            None => true,
            Some(_) => self.tx.session.as_ref().is_none_or(|session| !session.session.record.lives()),
        }
    }

    /// Prints what was written: the event with its notes as JSON, or a line and the notes for a person.
    ///
    /// # Errors
    /// Where stdout can't be written.
    pub fn report(&self, event: &Event, line: &str, notes: Vec<String>) -> Result<()> {
        self.print(event, line, notes).context("what was written stands")
    }

    fn print(&self, event: &Event, line: &str, notes: Vec<String>) -> Result<()> {
        if self.run.common.json {
            #[derive(Serialize)]
            struct Written {
                #[serde(flatten)]
                event: Line,
                notes: Vec<String>,
            }
            return output::print_json(&Written { event: event.to_line(), notes });
        }
        let mut out = format!("{line}\n");
        for note in notes {
            out.push_str(&format!("note: {}\n", text::one_line(&note)));
        }
        output::print(&out)
    }
}
