//! Who holds a message, and who owes an answer now (section 8). The one reading that deliveries, hooks, Stop, watch, keeping
//! back, the end of a run, every refusal and page state share (R53).

use std::collections::BTreeMap;

use crate::clock::Ts;
use crate::ids::{MessageId, PageId, SessionId, TurnId};
use crate::page::PageRecord;
use crate::page::event::{Actor, By};
use crate::page::view::{Message, Take, Thread, View};
use crate::session::journal::{Entry, Kind};
use crate::session::state::{ForkTurn, LAPSE, State, TurnState};

/// Who holds a thread's waiting messages, or owes an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder<'a> {
    /// The session's own conversation, in a turn where one is known.
    Main(Option<&'a Actor>),
    /// A working fork.
    Fork(&'a Actor, TurnState),
    /// The line fork, while a thread is kept back for it.
    LineFork,
}

/// The follower's lane as a reader finds it: `None` where it is not live, else the pages' `seq` as it began (R13(c), R19).
pub type Lane = Option<BTreeMap<PageId, u32>>;

/// What a page's holding is read from: values alone (R53).
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The page.
    pub page: &'a PageId,
    /// Its view.
    pub view: &'a View,
    /// The page's `seq` as it came to its session (R13(c)).
    pub held_from: u32,
    /// The session that holds the page.
    pub session: Option<&'a SessionId>,
    /// That session's state.
    pub state: &'a State,
    /// Whether that session's client lives (R88).
    pub alive: bool,
    /// The follower's lane.
    pub lane: Option<&'a BTreeMap<PageId, u32>>,
    /// Whether line forks may answer (R1).
    pub replies: bool,
    /// The time.
    pub now: Ts,
}

impl<'a> Reading<'a> {
    /// Returns the reading of a page.
    pub fn new(page: &'a PageId, record: &'a PageRecord, view: &'a View, seat: &'a Seat, now: Ts) -> Reading<'a> {
        Reading {
            page,
            view,
            held_from: record.held_from,
            session: record.session.as_ref(),
            state: &seat.state,
            alive: seat.alive,
            lane: seat.lane.as_ref(),
            replies: seat.replies,
            now,
        }
    }

    /// Tells how a fork's turn stands. One that isn't in the session's record runs for nobody.
    pub fn stands(&self, turn: TurnId) -> TurnState {
        match self.state.fork(turn) {
            Some(fork) => fork.stands(self.state.generation, self.alive, self.lane.is_some(), self.now),
            None => TurnState::Ended,
        }
    }

    fn runs(&self, actor: &Actor) -> bool {
        actor.by == By::Fork && self.stands(actor.turn).runs()
    }

    fn as_holder(&self, actor: &'a Actor) -> Holder<'a> {
        match actor.by {
            By::Main => Holder::Main(Some(actor)),
            By::Fork => Holder::Fork(actor, self.stands(actor.turn)),
        }
    }

    /// Returns the take by which a turn holds what waits in the thread: of the turns that picked up any waiting message, or
    /// took it by an answer (R49), the latest holds all of them (R46). What no turn picked up is held by the turn that took the
    /// thread last, if that is a running fork's (R47).
    pub fn holding_take(&self, thread: &'a Thread) -> Option<&'a Take> {
        thread.holding_take().or_else(|| thread.last_take().filter(|take| self.runs(&take.actor)))
    }

    /// Returns who holds the thread's waiting messages, or, where nothing waits, the turn of the last answer (R50). A message
    /// with an open to-do stands outside (R96). `None` where messages wait that nobody has.
    pub fn holder(&self, thread: &'a Thread) -> Option<Holder<'a>> {
        if thread.shared().next().is_none() {
            if let Some(message) = thread.returned().next_back() {
                // It is main's alone (R97), once main got it.
                let pickup = message.pickups.iter().rev().find(|pickup| pickup.seq > message.again);
                return pickup.map(|pickup| self.as_holder(&pickup.actor));
            }
            let answer = thread.messages.iter().rev().find(|message| message.responds.is_some())?;
            return answer.actor.as_ref().map(|actor| self.as_holder(actor));
        }
        if self.kept_back(thread) {
            return Some(Holder::LineFork);
        }
        self.holding_take(thread).map(|take| self.as_holder(&take.actor))
    }

    /// Returns who owes the thread's answer now (R52): the line fork while it is kept back, the holder while it is a running
    /// fork, else main, to whom an ended turn's debt falls (R51).
    pub fn owed_by(&self, thread: &'a Thread) -> Holder<'a> {
        if thread.shared().next().is_none() {
            return Holder::Main(None);
        }
        match self.holder(thread) {
            Some(Holder::Fork(actor, state)) if state.runs() => Holder::Fork(actor, state),
            Some(Holder::Main(actor)) => Holder::Main(actor),
            Some(Holder::LineFork) => Holder::LineFork,
            Some(Holder::Fork(..)) | None => Holder::Main(None),
        }
    }

    /// Whether main owes an earlier message of the thread, one without an open to-do (R13(a), `main_owed`).
    pub fn main_owes(&self, thread: &'a Thread) -> bool {
        self.mains_input(thread).any(|message| message.owes)
    }

    /// Whether the thread's input is main's: it is neither kept back (R18) nor held by a running fork (R61).
    pub fn is_mains(&self, thread: &'a Thread) -> bool {
        matches!(self.owed_by(thread), Holder::Main(_))
    }

    /// Returns the thread's messages that are main's input.
    pub fn mains_input(&self, thread: &'a Thread) -> impl DoubleEndedIterator<Item = &'a Message> {
        let mains = self.is_mains(thread);
        thread.input().filter(move |message| mains || message.is_returned())
    }
}

/// What a session gives to a reading of its pages.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// The session's state.
    pub state: State,
    /// Whether its client lives.
    pub alive: bool,
    /// The follower's lane.
    pub lane: Lane,
    /// Whether line forks may answer (R1).
    pub replies: bool,
}

/// Whether main started on a message since it last picked it up (R11, R104).
pub fn started_by_main(message: &Message, session: &SessionId) -> bool {
    let Some(pickup) = message.got_by_main(session) else { return false };
    message.starts.iter().any(|start| start.seq > pickup.seq && start.actor.by == By::Main)
}

/// Returns the messages that a turn itself picked up in a thread.
pub fn picked_up_by(thread: &Thread, turn: TurnId) -> impl Iterator<Item = &Message> {
    thread.messages.iter().filter(move |message| message.picked_up_by(turn))
}

/// Returns the entry that renews a turn (R41), `None` for a lapsed one that another took something from (R43).
pub fn renewal(view: &View, turn: &ForkTurn, now: Ts) -> Option<Entry> {
    let lapsed = now.since(turn.renewed) >= LAPSE;
    if lapsed && view.threads.values().any(|thread| lost(thread, turn)) {
        return None;
    }
    Some(Entry {
        turn: Some(turn.id),
        agent: turn.agent.clone(),
        by: Some(By::Fork),
        rule: Some("R41".to_owned()),
        // A later lapse looks only at what came after this one.
        seq: lapsed.then_some(view.seq),
        ..Entry::new(now, Kind::Renewed)
    })
}

/// Whether another turn took what this one held: by a take of its own, or, where it held the thread as the running fork that took
/// it last (R47), before it lapsed.
fn lost(thread: &Thread, turn: &ForkTurn) -> bool {
    thread.takes.iter().any(|take| {
        let running = take.ts < turn.renewed.plus(LAPSE);
        take.actor.turn != turn.id
            && take.seq > turn.unrobbed
            && take.from.is_some_and(|(holder, by_take)| holder == turn.id && (by_take || running))
    })
}

/// Whether a turn ever took a thread (Words: *take a thread*).
pub fn took(thread: &Thread, turn: TurnId) -> bool {
    thread.takes.iter().any(|take| take.actor.turn == turn)
}

/// Returns the ids of messages.
pub fn ids<'m>(messages: impl Iterator<Item = &'m Message>) -> Vec<MessageId> {
    messages.map(|message| message.id).collect()
}
