//! What became of forks' work (R81, R82), of to-dos (section 15) and of lines (section 4): counted from the journals and the page
//! logs of a state directory.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::{Counts, Times, count, word};
use crate::clock::Ts;
use crate::ids::{IdKey, MessageId, PageId, SessionId, ThreadId, TurnId};
use crate::page::event::{Author, Body, By, Event};
use crate::page::log::{self, Piece};
use crate::page::view::{Message, Thread, Todo, TodoState, View};
use crate::session::journal::{Cost, Entry, Kind, Outcome, Sort};
use crate::text;

/// A user who writes again within this long of an answer asks again, milliseconds.
pub const AGAIN: i64 = 10 * 60 * 1000;

/// A session as its journal tells it.
#[derive(Clone, Debug)]
pub struct SessionStory {
    /// The session.
    pub id: SessionId,
    /// What is still there of its journal, the oldest first.
    pub entries: Vec<Entry>,
    /// How many lines could not be read (R127).
    pub damaged: u32,
    /// Whether the journal's first pieces are gone: it was rotated more often than pieces are kept.
    pub cut: bool,
}

/// A page as its log tells it.
#[derive(Clone, Debug)]
pub struct PageStory {
    /// The page.
    pub id: PageId,
    /// Its view.
    pub view: View,
    /// The events that the view was folded from.
    pub events: Vec<Event>,
}

impl PageStory {
    /// Reads a page's log.
    pub fn read(id: PageId, key: IdKey, bytes: &[u8]) -> PageStory {
        let mut view = View::default();
        view.fold(key, bytes);
        let lines = log::pieces(bytes).map(|piece| match piece {
            Piece::Line(line) | Piece::Torn(line) => line,
        });
        PageStory { id, view, events: lines.filter_map(log::parse).collect() }
    }

    fn at(&self, seq: u32) -> Option<Ts> {
        self.events.iter().find(|event| event.seq == seq).map(|event| event.ts)
    }
}

/// What is counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// These sessions and the threads that their journals name; all, where none is named.
    pub sessions: BTreeSet<SessionId>,
    threads: BTreeSet<(PageId, ThreadId)>,
}

impl Scope {
    /// Returns the scope of some sessions; of none it is everything.
    pub fn of(named: &[SessionId], sessions: &[SessionStory]) -> Scope {
        let of = sessions.iter().filter(|session| named.contains(&session.id));
        let threads = of.flat_map(|session| &session.entries).filter_map(|entry| entry.page.clone().zip(entry.thread));
        Scope { sessions: named.iter().cloned().collect(), threads: threads.collect() }
    }

    /// Whether a session is in it.
    pub fn has(&self, session: &SessionId) -> bool {
        self.sessions.is_empty() || self.sessions.contains(session)
    }

    fn has_thread(&self, page: &PageId, thread: ThreadId) -> bool {
        self.sessions.is_empty() || self.threads.contains(&(page.clone(), thread))
    }
}

/// What became of a fork's answer, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Nobody said more to it.
    Stood,
    /// It came with a to-do, and main wrote of that afterwards (R99).
    CarriedOn,
    /// The user wrote again within ten minutes, or took the thread up again after a resolve.
    AskedAgain,
    /// Main wrote beside it, unasked, before the user's next message (R82).
    Corrected,
}

impl Fate {
    /// Returns the fate as its JSON has it.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Stood => "stood",
            Fate::CarriedOn => "carried_on",
            Fate::AskedAgain => "asked_again",
            Fate::Corrected => "corrected",
        }
    }

    /// The fates in their order.
    pub const ALL: [Fate; 4] = [Fate::Stood, Fate::CarriedOn, Fate::AskedAgain, Fate::Corrected];
}

/// The whole report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// How many sessions were read.
    pub sessions: usize,
    /// How many journals lack their first pieces.
    pub cut: usize,
    /// Lines of journals and logs that could not be read (R127).
    pub damaged: u32,
    /// What could not be read at all, each with the reason.
    pub unread: Vec<String>,
    /// Working forks' turns.
    pub turns: Turns,
    /// Forks' answers.
    pub answers: Answers,
    /// To-dos.
    pub todos: Todos,
    /// Lines and sorts.
    pub lines: Lines,
    /// Why messages were handed to main, each with its rule, by how many hand-overs.
    pub handed: Counts,
    /// How long the user waited, by sort; `none` for messages that no line fork sorted.
    pub waits: BTreeMap<&'static str, Wait>,
}

/// Working forks' turns.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Turns {
    /// Turns that ended.
    pub ended: usize,
    /// Turns whose end the journal doesn't tell yet.
    pub open: usize,
    /// Those that ended, by outcome (R81).
    pub outcomes: Counts,
    /// Those that ended, by the way they ran (R117).
    pub ways: Counts,
    /// Of those taken over, how many main answered (R49, R62).
    pub over_by_main: usize,
    /// Each that was handed back, with the reason (R84).
    pub hand_backs: Vec<HandBack>,
    /// What they cost, where the client told.
    pub cost: Cost,
}

/// A turn that was handed back.
#[derive(Clone, Debug, Serialize)]
pub struct HandBack {
    /// The turn.
    pub turn: TurnId,
    /// The thread.
    pub thread: Option<ThreadId>,
    /// The reason.
    pub why: String,
}

/// Forks' answers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Answers {
    /// How many.
    pub count: usize,
    /// What became of them.
    pub fates: BTreeMap<&'static str, usize>,
    /// Those that did not just stand.
    pub cases: Vec<Case>,
}

/// A fork's answer and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// The page.
    pub page: PageId,
    /// The thread.
    pub thread: ThreadId,
    /// The answer.
    pub answer: MessageId,
    /// The fork's turn.
    pub turn: TurnId,
    /// What became of it.
    pub fate: Fate,
    /// The first words of what it answers.
    pub text: String,
}

/// To-dos.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Todos {
    /// How many, by who opened them: `sort`, `fork`, `main`, `user` (R94).
    pub opened: Counts,
    /// How they stand: `open`, `done`, `failed`, `dropped`.
    pub states: Counts,
    /// How many of those that the sort opened have their message answered.
    pub answered: usize,
    /// How long after their opening.
    pub answered_after: Times,
    /// How long those that ended were open.
    pub open_for: Times,
}

/// Lines and sorts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lines {
    /// Lines that were posted.
    pub posted: usize,
    /// Lines that failed (R26).
    pub failed: usize,
    /// How messages were sorted.
    pub sorts: Counts,
    /// What the questions cost, where the client told.
    pub cost: Cost,
}

/// How long the user waited for something.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Wait {
    /// How many messages, withdrawn ones left out.
    pub messages: usize,
    /// How many a fork answered.
    pub by_fork: usize,
    /// How many main answered.
    pub by_main: usize,
    /// From the message to its line.
    pub line: Times,
    /// From the message to its answer.
    pub answer: Times,
}

/// A fork's turn as the journal tells it.
#[derive(Clone, Debug, Default)]
struct ForkTurn {
    page: Option<PageId>,
    thread: Option<ThreadId>,
    way: Option<&'static str>,
    messages: Vec<MessageId>,
    outcome: Option<Outcome>,
    ended: bool,
    why: Option<String>,
    cost: Cost,
}

type Sorts = BTreeMap<(PageId, MessageId), Sort>;
type Posted = BTreeMap<(PageId, MessageId), Ts>;

/// Counts what became of everything in scope.
pub fn count_up(sessions: &[SessionStory], pages: &[PageStory], scope: &Scope) -> Report {
    let mut report = Report::default();
    let mut turns: BTreeMap<TurnId, ForkTurn> = BTreeMap::new();
    let mut sorts = Sorts::new();
    let mut lines = Posted::new();
    for session in sessions.iter().filter(|session| scope.has(&session.id)) {
        report.sessions += 1;
        report.cut += usize::from(session.cut);
        report.damaged += session.damaged;
        for entry in &session.entries {
            follow_turn(&mut turns, entry);
            report.follow_line(entry, &mut sorts, &mut lines);
        }
    }
    report.turns = count_turns(&turns, pages);
    let mut waits: BTreeMap<&'static str, (Wait, Vec<i64>, Vec<i64>)> = BTreeMap::new();
    let (mut open_for, mut answered_after) = (Vec::new(), Vec::new());
    for page in pages {
        report.damaged += page.view.damaged;
        for thread in page.view.in_order().filter(|thread| scope.has_thread(&page.id, thread.id)) {
            for answer in forks_answers(thread, scope) {
                report.answers.add(page, thread, answer);
            }
            for todo in &thread.todos {
                report.todos.add(page, thread, todo, &mut open_for, &mut answered_after);
            }
            for message in thread.messages.iter().filter(|message| message.author == Author::User) {
                if message.withdrawn.is_some() {
                    continue;
                }
                let key = (page.id.clone(), message.id);
                let sort = sorts.get(&key).map_or("none", |sort| word(*sort));
                let (wait, to_line, to_answer) = waits.entry(sort).or_default();
                wait.messages += 1;
                to_line.extend(lines.get(&key).map(|posted| posted.since(message.ts)));
                if let Some(answer) = message.answered.and_then(|id| thread.message(id)) {
                    to_answer.push(answer.ts.since(message.ts));
                    let by_fork = answer.actor.as_ref().is_some_and(|actor| actor.by == By::Fork);
                    *(if by_fork { &mut wait.by_fork } else { &mut wait.by_main }) += 1;
                }
            }
        }
    }
    (report.todos.open_for, report.todos.answered_after) = (Times::of(open_for), Times::of(answered_after));
    let timed = |(sort, (wait, line, answer)): (_, (Wait, _, _))| {
        (sort, Wait { line: Times::of(line), answer: Times::of(answer), ..wait })
    };
    report.waits = waits.into_iter().map(timed).collect();
    report
}

fn follow_turn(turns: &mut BTreeMap<TurnId, ForkTurn>, entry: &Entry) {
    let (Some(id), Some(By::Fork)) = (entry.turn, entry.by) else { return };
    // A write that was refused may name any turn.
    if entry.kind == Kind::Refused {
        return;
    }
    let turn = turns.entry(id).or_default();
    turn.cost = turn.cost.plus(entry.cost());
    turn.page = turn.page.take().or_else(|| entry.page.clone());
    turn.thread = turn.thread.or(entry.thread);
    if entry.kind == Kind::Taken {
        turn.messages.extend(&entry.messages);
        turn.way = turn.way.or(entry.way.map(crate::rules::way::Way::word));
    }
    if entry.kind == Kind::Ended {
        turn.ended = true;
        turn.outcome = entry.outcome;
        turn.why.clone_from(&entry.why);
    }
}

fn count_turns(turns: &BTreeMap<TurnId, ForkTurn>, pages: &[PageStory]) -> Turns {
    let mut counted = Turns::default();
    for (id, turn) in turns {
        counted.cost = counted.cost.plus(turn.cost);
        if !turn.ended {
            counted.open += 1;
            continue;
        }
        counted.ended += 1;
        count(&mut counted.outcomes, turn.outcome.map_or("none", outcome_word));
        count(&mut counted.ways, turn.way.unwrap_or("unknown"));
        match turn.outcome {
            Some(Outcome::HandBack) => counted.hand_backs.push(HandBack {
                turn: *id,
                thread: turn.thread,
                why: text::first_words(turn.why.as_deref().unwrap_or("no reason is told"), 200),
            }),
            Some(Outcome::TakenOver) => counted.over_by_main += usize::from(main_answered(turn, pages)),
            Some(Outcome::Answer | Outcome::Todo | Outcome::Void) | None => {}
        }
    }
    counted
}

/// Returns an outcome as its JSON has it.
pub fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answer => "answer",
        Outcome::Todo => "todo",
        Outcome::HandBack => "hand_back",
        Outcome::TakenOver => "taken_over",
        Outcome::Void => "void",
    }
}

/// Whether main answered something that a turn had picked up.
fn main_answered(turn: &ForkTurn, pages: &[PageStory]) -> bool {
    let page = pages.iter().find(|page| turn.page.as_ref() == Some(&page.id));
    let Some(thread) = page.zip(turn.thread).and_then(|(page, id)| page.view.threads.get(&id)) else { return false };
    let answered = turn.messages.iter().filter_map(|id| thread.message(*id)?.answered);
    answered.filter_map(|id| thread.message(id)).any(by_main)
}

fn by_main(message: &Message) -> bool {
    message.author == Author::Agent && message.actor.as_ref().is_none_or(|actor| actor.by == By::Main)
}

/// Returns the answers of forks in a thread, by sessions in scope.
pub fn forks_answers<'a>(thread: &'a Thread, scope: &'a Scope) -> impl Iterator<Item = &'a Message> {
    thread.messages.iter().filter(|message| {
        let fork = |actor: &crate::page::event::Actor| {
            actor.by == By::Fork && actor.session.as_ref().is_none_or(|session| scope.has(session))
        };
        message.responds.is_some() && message.actor.as_ref().is_some_and(fork)
    })
}

/// Tells what became of a fork's answer.
pub fn fate(page: &PageStory, thread: &Thread, answer: &Message) -> Fate {
    let next = thread
        .messages
        .iter()
        .find(|message| message.seq > answer.seq && message.author == Author::User && message.withdrawn.is_none());
    let until = next.map_or(u32::MAX, |next| next.seq);
    // A reply's to-do stands directly before it, in one write.
    let with_todo = thread.todos.iter().any(|todo| todo.source == answer.responds && todo.seq + 1 == answer.seq);
    // What a fork answered main can't answer again (R10): it writes beside it.
    let beside = |message: &&Message| message.seq > answer.seq && message.seq < until && message.responds.is_none();
    let mut fate = match thread.messages.iter().filter(beside).any(by_main) {
        true if with_todo => Fate::CarriedOn,
        true => Fate::Corrected,
        false => Fate::Stood,
    };
    let at_once = next.is_some_and(|next| next.ts.since(answer.ts) <= AGAIN);
    if at_once || taken_up_again(page, thread, answer, until) {
        fate = fate.max(Fate::AskedAgain);
    }
    fate
}

/// Whether the user took the thread up again after it had been resolved: by a word of their own, or by the next message (R9).
fn taken_up_again(page: &PageStory, thread: &Thread, answer: &Message, until: u32) -> bool {
    let mut resolved = false;
    for event in page.events.iter().filter(|event| event.seq > answer.seq && event.seq <= until) {
        match &event.body {
            Body::Resolve { thread: of } if *of == thread.id => resolved = true,
            Body::Reopen { thread: of } if *of == thread.id && event.author == Author::User => return true,
            Body::Message { thread: of, .. } if *of == thread.id && event.seq == until => return resolved,
            Body::Resolve { .. }
            | Body::Reopen { .. }
            | Body::Message { .. }
            | Body::Withdraw { .. }
            | Body::Reply { .. }
            | Body::Line { .. }
            | Body::Pickup { .. }
            | Body::Start { .. }
            | Body::Todo { .. }
            | Body::TodoEnd { .. }
            | Body::Unknown => {}
        }
    }
    false
}

impl Answers {
    fn add(&mut self, page: &PageStory, thread: &Thread, answer: &Message) {
        let fate = fate(page, thread, answer);
        self.count += 1;
        *self.fates.entry(fate.word()).or_default() += 1;
        let Some(actor) = answer.actor.as_ref().filter(|_| fate != Fate::Stood) else { return };
        let asked = answer.responds.and_then(|id| thread.message(id)).map_or("", |message| message.text.as_str());
        self.cases.push(Case {
            page: page.id.clone(),
            thread: thread.id,
            answer: answer.id,
            turn: actor.turn,
            fate,
            text: text::first_words(asked, 70),
        });
    }
}

impl Todos {
    fn add(
        &mut self,
        page: &PageStory,
        thread: &Thread,
        todo: &Todo,
        open_for: &mut Vec<i64>,
        answered_after: &mut Vec<i64>,
    ) {
        let by_fork = todo.actor.as_ref().is_some_and(|actor| actor.by == By::Fork);
        let opener = match todo.author {
            Author::Leaf => "sort",
            Author::User => "user",
            Author::Agent if by_fork => "fork",
            Author::Agent => "main",
        };
        count(&mut self.opened, opener);
        let state = match todo.state {
            TodoState::Open => "open",
            TodoState::Done => "done",
            TodoState::Failed => "failed",
            TodoState::Dropped => "dropped",
        };
        count(&mut self.states, state);
        open_for.extend(todo.ended.and_then(|seq| page.at(seq)).map(|ended| ended.since(todo.ts)));
        // A reply's to-do comes with its answer; the sort's waits for one.
        let answer = todo.source.and_then(|id| thread.message(id)?.answered).and_then(|id| thread.message(id));
        if let (Author::Leaf, Some(answer)) = (todo.author, answer) {
            self.answered += 1;
            answered_after.push(answer.ts.since(todo.ts));
        }
    }
}

impl Report {
    fn follow_line(&mut self, entry: &Entry, sorts: &mut Sorts, lines: &mut Posted) {
        let message = entry.page.clone().zip(entry.message);
        match entry.kind {
            Kind::Line => {
                self.lines.cost = self.lines.cost.plus(entry.cost());
                if entry.why.is_some() {
                    self.lines.failed += 1;
                } else {
                    self.lines.posted += 1;
                    lines.extend(message.map(|key| (key, entry.ts)));
                }
            }
            Kind::Sort => {
                if let Some(sort) = entry.sort {
                    count(&mut self.lines.sorts, word(sort));
                    sorts.extend(message.map(|key| (key, sort)));
                }
            }
            // A line that was not posted cost what it cost.
            Kind::Cost if entry.turn.is_none() => self.lines.cost = self.lines.cost.plus(entry.cost()),
            Kind::Handed => {
                // What differs from case to case stands behind a colon.
                let why = entry.why.as_deref().unwrap_or("no reason is told").split(':').next().unwrap_or_default();
                let rule = entry.rule.as_ref().map_or(String::new(), |rule| format!(" ({rule})"));
                count(&mut self.handed, format!("{}{rule}", text::one_line(why)));
            }
            _ => {}
        }
    }
}
