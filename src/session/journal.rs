//! The session's log (R5): its truth. One append is one transaction.
//!
//! `journal.jsonl` begins with a `checkpoint` of what came before, so that older pieces are needed by `leaf why` alone and
//! `state.json` may go at any time.

use std::collections::BTreeMap;

use anyhow::Result;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::liveness::Process;
use super::state::{ForkTurn, State};
use crate::clock::Ts;
use crate::ids::{AgentId, DeliveryId, Generation, MessageId, PageId, SessionId, ThreadId, TodoId, TurnId};
use crate::page::event::By;
use crate::page::log::{Log, Piece, pieces};
use crate::place::{Dir, PlaceError, Stamp};
use crate::rules::way::Way;
use crate::schedule::record::Change;
use crate::{FORMAT, cache};

/// The name of the journal's present piece.
pub const NAME: &str = "journal.jsonl";
/// The name of the state's cache.
pub const STATE: &str = "state.json";
/// A piece of this size, bytes, is closed and a new one begun.
const ROTATE: u64 = 512 * 1024;
/// How far the journal may run ahead of `state.json`, bytes.
const WORTH: u64 = 16 * 1024;
/// How many of the journal's bytes before its offset bind `state.json` to it.
const BOUND: u64 = 64;
/// How many older pieces stay for `leaf why`.
const KEEP: u32 = 3;

/// What an entry tells; the names are the contract's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A generation began.
    Generation,
    /// A run began: main's turn opened, or a fork's run.
    Begun,
    /// A turn was renewed; for main, with `boundary` where a tool boundary did it.
    Renewed,
    /// A turn ended.
    Ended,
    /// A turn took a thread.
    Taken,
    /// A thread is kept back for the line fork (R13).
    KeptBack,
    /// A line fork's line was posted, or failed (R25, R26).
    Line,
    /// How the line fork sorted a message (R21).
    Sort,
    /// A message became main's (R16).
    Handed,
    /// A thread waits for a fork to be free (R33).
    Queued,
    /// A fork's turn got its agent (R36).
    Named,
    /// Nothing renewed a turn for 15 minutes.
    Lapsed,
    /// Only a turn's own background work goes on (R80).
    Resting,
    /// There is provisional evidence of a run's end (R78).
    Ending,
    /// An agent is known: a fork's, or a helper with its parent.
    Agent,
    /// An agent named a task of its own in the background (R80).
    Background,
    /// A `leaf` call began, or, with no tool use, an actor's calls are over (R72).
    Call,
    /// A fork is to be stopped (`leaf fork stop`).
    Stop,
    /// A delivery's output was flushed, or is repeated now and never again (R101).
    Shown,
    /// A turn was told: withdrawals and resolves up to a `seq`, old debts, a pointer.
    Told,
    /// A Stop continued main's turn (R104).
    Continued,
    /// A line for the clerk to print.
    Clerk,
    /// Lines that the clerk printed (R107).
    Printed,
    /// A write was refused, and by which rule.
    Refused,
    /// What a run or a question cost, where no entry of its own could say so: a rest, a report after the end (R122).
    Cost,
    /// Something happened to the schedule of forks.
    Schedule,
    /// What came before this piece.
    Checkpoint,
    /// A kind of another version.
    #[serde(other)]
    Unknown,
}

/// What the end of a turn rests on (R42, R78).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// A Stop let main's turn end.
    Stop,
    /// StopFailure.
    StopFailure,
    /// A prompt with a new prompt id.
    Prompt,
    /// The module said so: main's turn, or a run's report.
    Module,
    /// A new generation.
    Generation,
    /// The client said that the session ended.
    SessionEnd,
    /// It was opened for one write and closed with it.
    Write,
    /// Its page was claimed by another session (R111).
    Claim,
    /// The client died.
    Client,
    /// The client's TaskStop names its agent.
    TaskStop,
    /// The client's notification of the run's end.
    Notification,
    /// SubagentStop.
    SubagentStop,
    /// A Stop of main's no longer lists it.
    Missing,
    /// It had no agent, or its run did not begin, for 60 s (R38).
    Unstarted,
    /// It was lapsed when its thread was taken again (R30).
    Superseded,
    /// Its pickup never came into the log (R27).
    Torn,
    /// A step of starting it failed (R31).
    Failed,
    /// The process of a headless run ended (R118).
    Process,
    /// A headless run took longer than it may (R119).
    Limit,
}

/// How a fork's run ended, judged by what it left (R81).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// What it picked up is answered by it.
    Answer,
    /// It answered and left a to-do.
    Todo,
    /// Something it holds still waits.
    HandBack,
    /// Another took or answered what it had.
    TakenOver,
    /// There is nothing to judge.
    Void,
}

/// How a line fork sorts a message (R21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// A fork can do it beside main (R22).
    Small,
    /// It becomes a to-do (R95).
    Significant,
    /// It is main's at once (R23).
    Now,
}

/// What named a fork's turn, the strongest last (R36, R37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Naming {
    /// A resume: the agent is known as the turn opens (R28).
    Resume,
    /// The agent's `meta.json`.
    Meta,
    /// The module's `leaf fork started`.
    Module,
    /// PostToolUse of the Agent tool: tool-use evidence.
    AgentTool,
}

/// What is to be done with a thread (the contract's ACTION).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Action {
    /// Start a fork.
    Spawn {
        /// Its turn.
        turn: TurnId,
        /// Its name (R29).
        name: String,
        /// The Agent call's description, which ends with the turn.
        description: String,
        /// What it is told.
        prompt: String,
    },
    /// Resume an ended fork (R89).
    Resume {
        /// Its new turn.
        turn: TurnId,
        /// The agent.
        agent_id: AgentId,
        /// What it is told.
        prompt: String,
    },
    /// Wait until a fork is free (R33).
    Queued,
    /// It is main's.
    Main,
    /// Ask about a newer message (R24).
    Ask,
    /// There is nothing to do (R24).
    None,
    /// It became a to-do (R95).
    Todo {
        /// The to-do.
        todo: TodoId,
    },
}

/// What a run cost, where the client tells it (R122).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Tokens: input, output and cache, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Time, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

impl Cost {
    /// Whether the client told anything.
    pub fn is_told(self) -> bool {
        self.tokens.is_some() || self.ms.is_some()
    }

    /// Returns the sum; what neither tells stays untold.
    #[must_use]
    pub fn plus(self, other: Cost) -> Cost {
        let sum = |one: Option<u64>, two: Option<u64>| match (one, two) {
            (Some(one), Some(two)) => Some(one.saturating_add(two)),
            (one, two) => one.or(two),
        };
        Cost { tokens: sum(self.tokens, other.tokens), ms: sum(self.ms, other.ms) }
    }
}

/// The process of a headless run (R118).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runner {
    /// The process, which leads its own process group.
    pub process: Process,
    /// The file that its standard output goes to.
    pub output: String,
    /// When it is stopped (R119).
    pub until: Ts,
}

/// One entry of the journal. Flat, as the contract lists the fields; which of them a kind has is said at its constructor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written.
    pub ts: Ts,
    /// What it tells.
    pub kind: Kind,
    /// The page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<PageId>,
    /// The thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// The turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// Several messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageId>,
    /// The delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryId>,
    /// Why, in plain words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Main or a fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// The client's id of the prompt that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What the end of a turn rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The rule, `R9`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// A page's `seq` up to which a turn was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u32>,
    /// Whether a tool boundary did it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub boundary: bool,
    /// The clerk's line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<ClerkLine>,
    /// The clerk's lines that were printed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<u64>,
    /// The generation that began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// How it began: the client's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The session that this one took over from (R109).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SessionId>,
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The agent that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// A fork's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How a message was sorted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Sort>,
    /// A line, or what failed to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The client's id of the tool use that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_use: Option<String>,
    /// What named a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming: Option<Naming>,
    /// How a fork's run was judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Tasks of an agent's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// What the module was told to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub does: Option<Action>,
    /// How a fork runs (R117); of a `handed` entry, that it doesn't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub way: Option<Way>,
    /// The process of a headless run that began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<Runner>,
    /// Whether a call is marked (R72).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub marked: bool,
    /// Whether the client itself began main's turn, not the person: an interruption stands on (R105).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clients: bool,
    /// Whether main's turn was interrupted, with the pages' `seq` then (R105).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<BTreeMap<PageId, u32>>,
    /// What it cost, tokens (R122).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What it cost, milliseconds (R122).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// What happened to the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Box<Change>>,
    /// A checkpoint's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Box<State>>,
    /// A checkpoint's number of its piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece: Option<u32>,
}

/// A line of the clerk: what main is to hear once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClerkLine {
    /// Its number in the session, 0 until it is appended.
    #[serde(default)]
    pub id: u64,
    /// The text: leaf's own words, one line.
    pub text: String,
    /// The fork's turn that it is about: the end's line takes the place of the take's (R86).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// What somebody else wrote, such as a to-do's title: data, fenced when it is printed (R124).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// Whether an idle session is woken for it (R105).
    #[serde(default)]
    pub wake: bool,
    /// The to-do that it tells of: one that ended before main heard of it is not told any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub todo: Option<(PageId, TodoId)>,
}

impl ClerkLine {
    /// A line of leaf's own words, that wakes nobody.
    pub fn new(text: String) -> ClerkLine {
        ClerkLine { id: 0, text, turn: None, quote: None, wake: false, todo: None }
    }
}

impl Entry {
    /// Returns an entry with nothing but its time and kind.
    pub fn new(ts: Ts, kind: Kind) -> Entry {
        Entry {
            ts,
            kind,
            page: None,
            thread: None,
            turn: None,
            message: None,
            messages: Vec::new(),
            delivery: None,
            why: None,
            by: None,
            prompt: None,
            evidence: None,
            rule: None,
            seq: None,
            boundary: false,
            line: None,
            lines: Vec::new(),
            generation: None,
            source: None,
            from: None,
            agent: None,
            parent: None,
            name: None,
            sort: None,
            text: None,
            tool_use: None,
            naming: None,
            outcome: None,
            tasks: Vec::new(),
            does: None,
            way: None,
            runner: None,
            marked: false,
            clients: false,
            interrupted: None,
            tokens: None,
            ms: None,
            schedule: None,
            state: None,
            piece: None,
        }
    }

    /// Main's turn opened.
    pub fn begun(ts: Ts, turn: TurnId, prompt: Option<String>) -> Entry {
        Entry { turn: Some(turn), by: Some(By::Main), prompt, ..Entry::new(ts, Kind::Begun) }
    }

    /// Main's turn ended.
    pub fn ended(ts: Ts, turn: TurnId, evidence: Evidence) -> Entry {
        Entry { turn: Some(turn), by: Some(By::Main), evidence: Some(evidence), ..Entry::new(ts, Kind::Ended) }
    }

    /// Main's turn was renewed.
    pub fn renewed(ts: Ts, turn: TurnId, boundary: bool) -> Entry {
        Entry { turn: Some(turn), by: Some(By::Main), boundary, ..Entry::new(ts, Kind::Renewed) }
    }

    /// Returns what it cost.
    pub fn cost(&self) -> Cost {
        Cost { tokens: self.tokens, ms: self.ms }
    }

    /// Returns the entry with what it cost.
    #[must_use]
    pub fn at(self, cost: Cost) -> Entry {
        Entry { tokens: cost.tokens, ms: cost.ms, ..self }
    }

    /// What a run cost, where its end can't say so (R122). `None` where nothing is told, or was told already.
    pub fn account(ts: Ts, turn: &ForkTurn, cost: Cost) -> Option<Entry> {
        let entry = Entry {
            page: turn.thread.as_ref().map(|(page, _)| page.clone()),
            thread: turn.thread.as_ref().map(|(_, thread)| *thread),
            turn: Some(turn.id),
            agent: turn.agent.clone(),
            by: Some(By::Fork),
            rule: Some("R122".to_owned()),
            ..Entry::new(ts, Kind::Cost)
        };
        (cost.is_told() && !turn.accounted).then(|| entry.at(cost))
    }

    /// Something happened to the schedule of forks.
    pub fn schedule(ts: Ts, change: Change) -> Entry {
        Entry { schedule: Some(Box::new(change)), ..Entry::new(ts, Kind::Schedule) }
    }

    /// A line for the clerk.
    pub fn clerk(ts: Ts, thread: Option<ThreadId>, line: ClerkLine) -> Entry {
        Entry { thread, line: Some(line), ..Entry::new(ts, Kind::Clerk) }
    }
}

#[derive(Serialize)]
struct Out<'a> {
    format: u32,
    piece: u32,
    offset: u64,
    bound: u32,
    state: &'a State,
}

#[derive(Deserialize)]
struct In {
    format: u32,
    piece: u32,
    offset: u64,
    /// The CRC-32 of the [`BOUND`] bytes of the journal before `offset`: a journal that was cut and has grown again is another.
    bound: u32,
    state: State,
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    log: Log,
    piece: u32,
    stored: u64,
}

/// A state with how far in which journal it was folded.
#[derive(Clone, Debug)]
pub struct Folded {
    state: State,
    piece: u32,
    stored: u64,
    inode: u64,
    end: u64,
    /// Whether that was under the session's lock: else a writer could have taken back what was read.
    locked: bool,
    /// The journal's stamp then, where any change since has another.
    seen: Option<Stamp>,
}

impl Folded {
    /// Returns the state, where the journal is no other and no longer by now.
    pub fn state_at(&self, now: &Stamp) -> Option<&State> {
        (self.inode == now.inode && self.end == now.length).then_some(&self.state)
    }

    /// Whether the journal that was opened goes on from it. `locked`: under the session's lock.
    fn goes_on(&self, opened: &Stamp, locked: bool) -> bool {
        let sure = self.locked || self.seen == Some(*opened);
        self.inode == opened.inode && self.end <= opened.length && (!locked || sure)
    }
}

impl Journal {
    /// Makes an empty journal.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn create(dir: &Dir) -> Result<(), PlaceError> {
        dir.make_file(NAME).map(drop)
    }

    /// Opens the journal to read it, and folds its state: from what was folded before or from `state.json`, where one fits, else from
    /// the piece's checkpoint.
    ///
    /// # Errors
    /// Where it can't be read.
    pub fn open(dir: &Dir, before: Option<Folded>) -> Result<(Journal, State)> {
        Journal::fold(dir, OFlags::RDONLY, before, false)
    }

    /// As [`Journal::open`], to write it, under the session's lock.
    ///
    /// # Errors
    /// As there.
    pub fn open_locked(dir: &Dir, before: Option<Folded>) -> Result<(Journal, State)> {
        Journal::fold(dir, OFlags::RDWR | OFlags::APPEND, before, true)
    }

    fn fold(dir: &Dir, flags: OFlags, before: Option<Folded>, locked: bool) -> Result<(Journal, State)> {
        let mut log = match Log::open(dir, NAME, flags) {
            // Somebody removed it: the session goes on, what it knew of turns is lost, and doctor says so.
            Err(PlaceError::Io(_, error)) if error.kind() == std::io::ErrorKind::NotFound => {
                Journal::create(dir)?;
                Log::open(dir, NAME, flags)?
            }
            opened => opened?,
        };
        if let Some(before) = before.filter(|before| before.goes_on(&log.stamp(), locked)) {
            return Journal::go_on(log, before);
        }
        let length = log.stamp().length;
        let cached = if length > WORTH { cached(dir, length) } else { None };
        let (mut piece, mut offset, mut state) = (0, 0, State::default());
        if let Some(cached) = cached {
            // The piece's number stands in its first line alone.
            piece = first_piece(&mut log)?;
            if piece == cached.piece && bound(&log, cached.offset)? == cached.bound {
                (offset, state) = (cached.offset, cached.state);
            }
        }
        let mut journal = Journal { log, piece, stored: offset };
        journal.read_on(offset, &mut state)?;
        Ok((journal, state))
    }

    fn go_on(log: Log, before: Folded) -> Result<(Journal, State)> {
        let mut state = before.state;
        let mut journal = Journal { log, piece: before.piece, stored: before.stored };
        if before.end < journal.log.stamp().length {
            journal.read_on(before.end, &mut state)?;
        } else {
            journal.log.skip_to(before.end);
        }
        Ok((journal, state))
    }

    fn read_on(&mut self, offset: u64, state: &mut State) -> Result<()> {
        let bytes = self.log.read_from(offset)?;
        for found in pieces(&bytes) {
            let Piece::Line(line) = found else { break };
            match serde_json::from_slice::<Entry>(line) {
                Ok(entry) => {
                    self.piece = entry.piece.unwrap_or(self.piece);
                    state.apply(&entry);
                }
                Err(_) => state.damaged = state.damaged.saturating_add(1),
            }
        }
        Ok(())
    }

    /// Returns the state as it was folded, for who opens the journal next; `None` where its last line is torn.
    pub fn folded(&self, state: &State, locked: bool) -> Option<Folded> {
        let (stamp, end) = (self.log.stamp(), self.log.end());
        self.log.is_whole().then(|| Folded {
            state: state.clone(),
            piece: self.piece,
            stored: self.stored,
            inode: stamp.inode,
            end,
            locked,
            seen: Some(stamp).filter(Stamp::is_settled),
        })
    }

    /// Appends entries as one write and folds them.
    ///
    /// # Errors
    /// Where the write fails; nothing was then appended.
    pub fn append(&mut self, dir: &Dir, entries: &[Entry], state: &mut State) -> Result<()> {
        let mut next_line = state.next_line;
        let mut bytes = Vec::new();
        let mut numbered = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut entry = entry.clone();
            // Time never goes back within a journal.
            entry.ts = entry.ts.max(state.active);
            if let Some(line) = &mut entry.line {
                next_line += 1;
                line.id = next_line;
            }
            serde_json::to_writer(&mut bytes, &entry)?;
            bytes.push(b'\n');
            numbered.push(entry);
        }
        self.log.append(&bytes, false)?;
        for entry in &numbered {
            state.apply(entry);
        }
        self.store_if_worth(dir, state);
        Ok(())
    }

    /// Writes `state.json`, and begins a new piece, where it is worth it. Failing is no matter.
    fn store_if_worth(&mut self, dir: &Dir, state: &State) {
        let end = self.log.end();
        if end > ROTATE {
            let _ = self.rotate(dir, state);
        } else if end > self.stored + WORTH {
            let _ = self.store(dir, state, end);
        }
    }

    fn store(&mut self, dir: &Dir, state: &State, end: u64) -> Result<()> {
        let out = Out { format: FORMAT, piece: self.piece, offset: end, bound: bound(&self.log, end)?, state };
        dir.replace(STATE, &cache::to_vec(&out)?, false)?;
        self.stored = end;
        Ok(())
    }

    /// Closes the piece under a name of its own and begins the next with a checkpoint. The new piece takes the place of the
    /// old one in one rename: there is no moment without a journal.
    fn rotate(&mut self, dir: &Dir, state: &State) -> Result<()> {
        let next = self.piece + 1;
        let head = Entry { piece: Some(next), ..Entry::new(state.active, Kind::Checkpoint) };
        let before = Entry { state: Some(Box::new(state.clone())), ..Entry::new(state.active, Kind::Checkpoint) };
        let mut bytes = Vec::new();
        for entry in [head, before] {
            serde_json::to_writer(&mut bytes, &entry)?;
            bytes.push(b'\n');
        }
        let old = piece_name(self.piece);
        dir.remove(&old)?;
        dir.link(NAME, &old)?;
        dir.replace(NAME, &bytes, false)?;
        if let Some(gone) = self.piece.checked_sub(KEEP) {
            dir.remove(&piece_name(gone))?;
        }
        Ok(())
    }
}

/// Returns what `state.json` holds, where it is whole and of this format and the journal is as long as it says.
fn cached(dir: &Dir, length: u64) -> Option<In> {
    let bytes = dir.read(STATE).ok()??;
    let read: In = cache::from_slice(&bytes)?;
    (read.format == FORMAT && read.offset <= length).then_some(read)
}

/// Returns the CRC-32 of the journal's bytes before an offset.
fn bound(log: &Log, offset: u64) -> Result<u32, PlaceError> {
    Ok(crc32fast::hash(&log.read_span(offset.saturating_sub(BOUND), offset)?))
}

/// Reads the number of the piece: it stands in a short first line of its own.
fn first_piece(log: &mut Log) -> Result<u32> {
    let head = log.read_head(256)?;
    let Some(Piece::Line(line)) = pieces(&head).next() else { return Ok(0) };
    Ok(serde_json::from_slice::<Entry>(line).ok().and_then(|entry| entry.piece).unwrap_or(0))
}

/// Returns the name of an older piece.
pub fn piece_name(piece: u32) -> String {
    format!("journal.{piece}.jsonl")
}

/// Returns all entries that are still there, the oldest first, and how many lines are damaged.
///
/// # Errors
/// Where a piece can't be read.
pub fn all(dir: &Dir) -> Result<(Vec<Entry>, u32), PlaceError> {
    let mut older: Vec<(u32, String)> = dir
        .names()?
        .into_iter()
        .filter_map(|name| {
            let piece = name.strip_prefix("journal.")?.strip_suffix(".jsonl")?.parse().ok()?;
            Some((piece, name))
        })
        .collect();
    older.sort();
    let mut entries = Vec::new();
    let mut damaged = 0;
    for name in older.into_iter().map(|(_, name)| name).chain([NAME.to_owned()]) {
        let Some(bytes) = dir.read(&name)? else { continue };
        for piece in pieces(&bytes) {
            let Piece::Line(line) = piece else { continue };
            match serde_json::from_slice(line) {
                Ok(entry) => entries.push(entry),
                Err(_) => damaged += 1,
            }
        }
    }
    Ok((entries, damaged))
}
