//! The slow, obvious reference of holding: rules.md sections 3, 8, 9, 10 and the judging of section 13,
//! for one page and one session, written from the rules alone.
//!
//! A history is a list of facts with their times ([`Entry`]). [`Reference`] plays them one by one and
//! answers at any instant who holds a thread, who owes it, whether it is kept back, what a fork may
//! write and how a run's end is judged. It keeps everything it ever saw and scans it again for every
//! answer; nothing is remembered that could be asked.
//!
//! Nothing here knows the library: whoever compares turns a history into the library's own events.

/// Seconds since any origin.
pub type Seconds = i64;
/// A thread, message, turn, agent or to-do by its number, counted from 0 each.
pub type Thread = usize;
pub type Message = usize;
pub type Turn = usize;
pub type Agent = usize;
pub type Todo = usize;

/// R13(g), R13(h), lapse, in seconds.
pub const KEEP: Seconds = 30;
pub const FLURRY: Seconds = 90;
pub const LAPSE: Seconds = 15 * 60;

/// Whose turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    Main,
    Fork(Agent),
}

/// One fact. What is on the page's log counts for its seq; the rest is the session's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// On the log: the user writes. Messages are numbered as they come.
    Message {
        thread: Thread,
        owes: bool,
    },
    /// On the log.
    Withdraw {
        message: Message,
    },
    /// On the log.
    Resolve {
        thread: Thread,
    },
    /// On the log.
    Reopen {
        thread: Thread,
    },
    /// On the log: messages of one thread.
    Pickup {
        turn: Turn,
        thread: Thread,
        messages: Vec<Message>,
    },
    /// On the log: an answer, or an unasked message where it responds to nothing; with the to-do that
    /// it opened, whose source is what it responds to.
    Reply {
        turn: Turn,
        thread: Thread,
        responds: Option<Message>,
        todo: bool,
    },
    /// On the log: a line stands until the thread's next answer.
    Line {
        thread: Thread,
    },
    /// On the log: a to-do by the sort, its source the message. To-dos are numbered as they come.
    Todo {
        thread: Thread,
        source: Message,
    },
    /// On the log.
    TodoEnd {
        todo: Todo,
    },

    /// A new generation with its client; the older one's turns are over.
    Generation,
    /// The client is gone.
    ClientDies,
    /// The follower's lane begins, or begins again.
    FollowerStarts,
    /// The follower is gone.
    FollowerDies,
    /// A turn opens. Turns are numbered as they come. `ours` is false for a fork's run that `leaf` did
    /// not start (R45).
    Open {
        by: By,
        ours: bool,
    },
    /// A fork's turn is renewed (R41; only where [`Reference::may_renew`] says so).
    Renew {
        turn: Turn,
    },
    /// Its own background work goes on (R80).
    Rest {
        turn: Turn,
    },
    /// It goes on after a rest.
    GoOn {
        turn: Turn,
    },
    /// A turn ends.
    End {
        turn: Turn,
    },
    /// A hand-over (R16).
    Handed {
        thread: Thread,
        messages: Vec<Message>,
    },
    /// The thread waits for a free fork (R33), and no longer does.
    Queued {
        thread: Thread,
    },
    Unqueued {
        thread: Thread,
    },
}

/// A fact at the clock's time when it was written. The clock may jump; the log's own times never go back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Seconds,
    pub fact: Fact,
}

/// Who has a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    Nobody,
    LineFork,
    Turn(Turn),
}

/// Who owes an answer (R52).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    LineFork,
    Fork(Turn),
    Main,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    Running,
    Resting,
    Lapsed,
    Ended,
}

/// What a fork would write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    Pickup(Message),
    /// An answer with a text that nobody gave before.
    Reply(Message),
    Start(Message),
    Unasked(Thread),
    Line(Thread),
}

/// R81.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    HandBack,
    TakenOver,
    Todo,
    Answer,
    Void,
}

/// Why a thread is not kept back: R13's letters, the first that fails; `Nothing` where nothing waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotKept {
    Nothing,
    A,
    B,
    C,
    D,
    E,
    F,
    G,
    H,
    I,
}

#[derive(Clone, Debug)]
struct AMessage {
    thread: Thread,
    owes: bool,
    seq: usize,
    ts: Seconds,
    withdrawn: bool,
    settled: bool,
    /// The turn that the first answer to cover it names.
    answered: Option<Turn>,
    handed: bool,
    main_owed: bool,
}

#[derive(Clone, Debug)]
struct ATurn {
    by: By,
    ours: bool,
    generation: usize,
    renewed: Seconds,
    resting: bool,
    ended: bool,
    /// Another took a message that it held (R43).
    robbed: bool,
}

#[derive(Clone, Debug)]
struct ATodo {
    thread: Thread,
    source: Option<Message>,
    by: Option<Turn>,
    /// The page's seq as it ended.
    ended: Option<usize>,
}

/// A turn took a thread: by picking up, or by an answer; and these messages with it.
#[derive(Clone, Debug)]
struct Take {
    turn: Turn,
    thread: Thread,
    messages: Vec<Message>,
    by_answer: bool,
    seq: usize,
    /// Nothing but messages that are main's alone (R97): it takes no thread.
    aside: bool,
}

/// All that was, and what follows from it.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    seq: usize,
    last_ts: Option<Seconds>,
    messages: Vec<AMessage>,
    turns: Vec<ATurn>,
    todos: Vec<ATodo>,
    takes: Vec<Take>,
    lines: Vec<Thread>,
    resolved: Vec<Thread>,
    queued: Vec<Thread>,
    generation: usize,
    client_lives: bool,
    /// The page's seq as the lane began.
    lane: Option<usize>,
}

impl Reference {
    /// A session that has just started, on an empty page, without a follower.
    pub fn new() -> Self {
        Reference { client_lives: true, ..Reference::default() }
    }

    /// All of a history.
    pub fn of(history: &[Entry]) -> Self {
        let mut reference = Reference::new();
        for entry in history {
            reference.apply(entry);
        }
        reference
    }

    pub fn apply(&mut self, entry: &Entry) {
        let now = entry.at;
        if entry.fact.on_the_log() {
            self.seq += 1;
            self.last_ts = Some(self.last_ts.map_or(now, |last| last.max(now)));
        }
        match &entry.fact {
            Fact::Message { thread, owes } => {
                // Judged as the writer sees it, before its own message.
                let main_owed = self.main_owes(*thread, now);
                let ts = self.last_ts.unwrap_or(now);
                self.messages.push(AMessage {
                    thread: *thread,
                    owes: *owes,
                    seq: self.seq,
                    ts,
                    withdrawn: false,
                    settled: false,
                    answered: None,
                    handed: false,
                    main_owed,
                });
                self.resolved.retain(|t| t != thread);
            }
            Fact::Withdraw { message } => {
                self.messages[*message].withdrawn = true;
                for todo in &mut self.todos {
                    if todo.source == Some(*message) {
                        todo.ended.get_or_insert(self.seq);
                    }
                }
            }
            Fact::Resolve { thread } => {
                for message in self.all_of(*thread) {
                    if self.waits(message) {
                        self.messages[message].settled = true;
                    }
                }
                self.resolved.push(*thread);
            }
            Fact::Reopen { thread } => self.resolved.retain(|t| t != thread),
            Fact::Pickup { turn, thread, messages } => {
                self.take(*turn, *thread, messages.clone(), false, now);
            }
            Fact::Reply { turn, thread, responds, todo } => {
                if let Some(responds) = responds {
                    self.answer(*turn, *thread, *responds, now);
                    self.lines.retain(|t| t != thread);
                }
                if *todo {
                    self.todos.push(ATodo { thread: *thread, source: *responds, by: Some(*turn), ended: None });
                }
            }
            Fact::Line { thread } => self.lines.push(*thread),
            Fact::Todo { thread, source } => {
                self.todos.push(ATodo { thread: *thread, source: Some(*source), by: None, ended: None });
            }
            Fact::TodoEnd { todo } => self.todos[*todo].ended = Some(self.seq),
            Fact::Generation => {
                for turn in &mut self.turns {
                    turn.ended = true;
                }
                self.generation += 1;
                self.client_lives = true;
            }
            Fact::ClientDies => {
                self.client_lives = false;
                self.lane = None;
            }
            Fact::FollowerStarts => self.lane = Some(self.seq),
            Fact::FollowerDies => self.lane = None,
            Fact::Open { by, ours } => self.turns.push(ATurn {
                by: *by,
                ours: *ours,
                generation: self.generation,
                renewed: now,
                resting: false,
                ended: false,
                robbed: false,
            }),
            Fact::Renew { turn } => self.turns[*turn].renewed = now,
            Fact::Rest { turn } => self.turns[*turn].resting = true,
            Fact::GoOn { turn } => self.turns[*turn].resting = false,
            Fact::End { turn } => self.turns[*turn].ended = true,
            Fact::Handed { messages, .. } => {
                for message in messages {
                    self.messages[*message].handed = true;
                }
            }
            Fact::Queued { thread } => self.queued.push(*thread),
            Fact::Unqueued { thread } => self.queued.retain(|t| t != thread),
        }
    }

    /// An answer covers every message up to the one that it names, but for those with an open to-do
    /// (R96) and, where it is a fork's, those that are main's alone (R97); by a turn that doesn't hold the
    /// thread it takes all that waits (R49). What a to-do has or had stands outside of that.
    fn answer(&mut self, turn: Turn, thread: Thread, responds: Message, now: Seconds) {
        let seq = self.messages[responds].seq;
        let aside = self.has_open_todo(responds) || self.is_mains_alone(responds);
        let shared = self.shared(thread);
        if !aside || shared.iter().any(|m| self.messages[*m].seq <= seq) {
            let holds = self.holder(thread, now) == Holder::Turn(turn);
            let taken = if holds { Vec::new() } else { shared };
            self.take(turn, thread, taken, true, now);
        }
        let fork = self.by(turn) != By::Main;
        let unseen: Vec<Message> =
            self.all_of(thread).into_iter().filter(|m| fork && *m != responds && self.is_mains_alone(*m)).collect();
        for message in self.all_of(thread) {
            let seq = self.messages[message].seq;
            let named = message == responds;
            let covered = seq <= self.messages[responds].seq
                && (named || !(self.has_open_todo(message) || unseen.contains(&message)));
            let open = !self.messages[message].withdrawn && self.messages[message].answered.is_none();
            if covered && open && (named || !self.messages[message].settled) {
                self.messages[message].answered = Some(turn);
            }
        }
    }

    fn take(&mut self, turn: Turn, thread: Thread, messages: Vec<Message>, by_answer: bool, now: Seconds) {
        let aside = !by_answer && messages.iter().all(|m| self.is_mains_alone(*m));
        if let Holder::Turn(before) = self.holder(thread, now)
            && !aside
            && before != turn
            && messages.iter().any(|m| self.waits(*m))
        {
            self.turns[before].robbed = true;
        }
        self.takes.push(Take { turn, thread, messages, by_answer, seq: self.seq, aside });
    }

    fn all_of(&self, thread: Thread) -> Vec<Message> {
        (0..self.messages.len()).filter(|m| self.messages[*m].thread == thread).collect()
    }

    /// Neither withdrawn, nor covered by an answer, nor settled by a resolve.
    pub fn waits(&self, message: Message) -> bool {
        let m = &self.messages[message];
        !m.withdrawn && m.answered.is_none() && !m.settled
    }

    pub fn has_open_todo(&self, message: Message) -> bool {
        self.todos.iter().any(|t| t.source == Some(message) && t.ended.is_none())
    }

    /// R97: a to-do of it failed or was dropped; since when.
    fn mains_alone_since(&self, message: Message) -> Option<usize> {
        let ended = self.todos.iter().filter(|t| t.source == Some(message)).filter_map(|t| t.ended).max();
        ended.filter(|_| self.waits(message) && !self.has_open_todo(message))
    }

    pub fn is_mains_alone(&self, message: Message) -> bool {
        self.mains_alone_since(message).is_some()
    }

    /// The waiting messages that who holds the thread has.
    pub fn shared(&self, thread: Thread) -> Vec<Message> {
        self.waiting(thread).into_iter().filter(|m| !self.is_mains_alone(*m)).collect()
    }

    /// Whether main owes an earlier message of the thread.
    pub fn main_owes(&self, thread: Thread, now: Seconds) -> bool {
        let own = |m: &Message| self.messages[*m].owes && self.is_mains_alone(*m);
        self.waiting(thread).iter().any(own) || self.owed_by(thread, now) == Some(Owner::Main)
    }

    /// The thread's waiting messages without an open to-do, oldest first: what all rules here speak of.
    pub fn waiting(&self, thread: Thread) -> Vec<Message> {
        self.all_of(thread).into_iter().filter(|m| self.waits(*m) && !self.has_open_todo(*m)).collect()
    }

    pub fn threads(&self) -> usize {
        self.messages.iter().map(|m| m.thread + 1).max().unwrap_or(0)
    }

    pub fn messages(&self) -> usize {
        self.messages.len()
    }

    pub fn thread_of(&self, message: Message) -> Thread {
        self.messages[message].thread
    }

    pub fn newest(&self, thread: Thread) -> Option<Message> {
        self.all_of(thread).pop()
    }

    pub fn owes(&self, message: Message) -> bool {
        self.messages[message].owes
    }

    pub fn turns(&self) -> usize {
        self.turns.len()
    }

    pub fn by(&self, turn: Turn) -> By {
        self.turns[turn].by
    }

    pub fn todos(&self) -> usize {
        self.todos.len()
    }

    pub fn todo_is_open(&self, todo: Todo) -> bool {
        self.todos[todo].ended.is_none()
    }

    pub fn is_resolved(&self, thread: Thread) -> bool {
        self.resolved.contains(&thread)
    }

    pub fn is_queued(&self, thread: Thread) -> bool {
        self.queued.contains(&thread)
    }

    pub fn line_stands(&self, thread: Thread) -> bool {
        self.lines.contains(&thread)
    }

    pub fn follower_lives(&self) -> bool {
        self.lane.is_some()
    }

    pub fn client_lives(&self) -> bool {
        self.client_lives
    }

    /// Open, resting, lapsed, ended.
    pub fn state(&self, turn: Turn, now: Seconds) -> State {
        let t = &self.turns[turn];
        if t.ended || t.generation != self.generation || !self.client_lives {
            return State::Ended;
        }
        match t.by {
            By::Fork(_) if now - t.renewed >= LAPSE => State::Lapsed,
            By::Fork(_) if t.resting => State::Resting,
            _ => State::Running,
        }
    }

    pub fn is_running_fork(&self, turn: Turn, now: Seconds) -> bool {
        matches!(self.by(turn), By::Fork(_)) && matches!(self.state(turn, now), State::Running | State::Resting)
    }

    /// It rested last, lapsed or not.
    pub fn rests(&self, turn: Turn) -> bool {
        self.turns[turn].resting && !self.turns[turn].ended
    }

    /// When it was last renewed; its opening counts as one (R41).
    pub fn renewed(&self, turn: Turn) -> Seconds {
        self.turns[turn].renewed
    }

    /// The turns that took a thread, in order.
    pub fn takers(&self, thread: Thread) -> Vec<Turn> {
        self.takes.iter().filter(|t| t.thread == thread && !t.aside).map(|t| t.turn).collect()
    }

    /// A turn of main picked it up. What an answer took is still main's new input (R49).
    pub fn main_has(&self, message: Message) -> bool {
        let since = self.mains_alone_since(message).unwrap_or(0);
        let mains = |t: &&Take| self.by(t.turn) == By::Main && !t.by_answer && t.messages.contains(&message);
        self.takes.iter().filter(mains).any(|t| t.seq > since)
    }

    pub fn picked_up_by(&self, message: Message, turn: Turn) -> bool {
        self.takes.iter().any(|t| t.turn == turn && !t.by_answer && t.messages.contains(&message))
    }

    /// R46, R47, R50 and keep-back: one holder for all that waits, or the answering turn where nothing does.
    pub fn holder(&self, thread: Thread, now: Seconds) -> Holder {
        let waiting = self.shared(thread);
        if waiting.is_empty() {
            // What is main's alone is its once main got it.
            if let Some(message) = self.waiting(thread).last() {
                let since = self.mains_alone_since(*message).unwrap_or(0);
                let got = |t: &&Take| !t.by_answer && t.seq > since && t.messages.contains(message);
                return self.takes.iter().rev().find(got).map_or(Holder::Nobody, |t| Holder::Turn(t.turn));
            }
            let mut answered: Option<(usize, Turn)> = None;
            for message in self.all_of(thread) {
                if let Some(turn) = self.messages[message].answered {
                    answered = Some((self.messages[message].seq, turn));
                }
            }
            return answered.map_or(Holder::Nobody, |(_, turn)| Holder::Turn(turn));
        }
        // R46: the latest to take any of them holds all of them.
        for take in self.takes.iter().rev().filter(|t| !t.aside) {
            if take.messages.iter().any(|m| waiting.contains(m)) {
                return Holder::Turn(take.turn);
            }
        }
        // R47: else the last taker, where that is a running fork.
        if let Some(last) = self.takers(thread).last()
            && self.is_running_fork(*last, now)
        {
            return Holder::Turn(*last);
        }
        if self.kept_back(thread, now).is_ok() { Holder::LineFork } else { Holder::Nobody }
    }

    /// R13, letter by letter.
    pub fn kept_back(&self, thread: Thread, now: Seconds) -> Result<(), NotKept> {
        let waiting = self.waiting(thread);
        let (Some(oldest), Some(newest)) = (waiting.first(), waiting.last()) else {
            return Err(NotKept::Nothing);
        };
        if self.takes.iter().any(|t| t.messages.iter().any(|m| waiting.contains(m))) {
            return Err(NotKept::A);
        }
        if waiting.iter().any(|m| self.messages[*m].main_owed) {
            return Err(NotKept::A);
        }
        if waiting.iter().any(|m| self.messages[*m].handed) {
            return Err(NotKept::B);
        }
        let Some(lane) = self.lane else {
            return Err(NotKept::F);
        };
        if waiting.iter().any(|m| self.messages[*m].seq <= lane) {
            return Err(NotKept::C);
        }
        if self.takers(thread).iter().any(|t| self.is_running_fork(*t, now)) {
            return Err(NotKept::D);
        }
        if !self.messages[*newest].owes {
            return Err(NotKept::E);
        }
        if now >= self.messages[*newest].ts + KEEP && !self.is_queued(thread) {
            return Err(NotKept::G);
        }
        if now >= self.messages[*oldest].ts + FLURRY {
            return Err(NotKept::H);
        }
        if waiting.iter().any(|m| self.todos.iter().any(|t| t.source == Some(*m))) {
            return Err(NotKept::I);
        }
        Ok(())
    }

    /// R52; nothing where no waiting message owes (R6).
    pub fn owed_by(&self, thread: Thread, now: Seconds) -> Option<Owner> {
        if !self.waiting(thread).iter().any(|m| self.messages[*m].owes) {
            return None;
        }
        Some(match self.holder(thread, now) {
            Holder::LineFork => Owner::LineFork,
            Holder::Turn(turn) if self.is_running_fork(turn, now) => Owner::Fork(turn),
            Holder::Turn(_) | Holder::Nobody => Owner::Main,
        })
    }

    /// What main's next delivery carries (R100): what waits, is main's, and main hasn't got.
    pub fn main_gets(&self, thread: Thread, now: Seconds) -> Vec<Message> {
        let mains = match self.holder(thread, now) {
            Holder::LineFork => false,
            Holder::Turn(turn) => !self.is_running_fork(turn, now),
            Holder::Nobody => true,
        };
        let input = if mains { self.waiting(thread) } else { Vec::new() };
        let alone = self.waiting(thread).into_iter().filter(|m| self.is_mains_alone(*m) && !input.contains(m));
        let mut all: Vec<Message> = input.iter().copied().chain(alone).filter(|m| !self.main_has(*m)).collect();
        all.sort_by_key(|m| self.messages[*m].seq);
        all
    }

    /// What a fork's boundary hands it (R75): what waits in a thread that its running turn holds, and it
    /// hasn't picked up.
    pub fn fork_gets(&self, turn: Turn, thread: Thread, now: Seconds) -> Vec<Message> {
        if !self.is_running_fork(turn, now) || self.holder(thread, now) != Holder::Turn(turn) {
            return Vec::new();
        }
        if !self.may_write_in(turn, thread) {
            return Vec::new();
        }
        self.shared(thread).into_iter().filter(|m| !self.picked_up_by(*m, turn)).collect()
    }

    /// R41, R43: an open turn renews; a lapsed one only while nobody else took what it held.
    pub fn may_renew(&self, turn: Turn, now: Seconds) -> bool {
        match self.state(turn, now) {
            State::Running => true,
            State::Lapsed => !self.turns[turn].robbed,
            State::Resting | State::Ended => false,
        }
    }

    /// The thread is this turn's: it took it, and nobody since (R58).
    fn may_write_in(&self, turn: Turn, thread: Thread) -> bool {
        self.takers(thread).last().is_some_and(|last| self.counts_as(*last, turn))
    }

    /// R45: for a run that `leaf` did not start, its agent's earlier turns count as its own.
    fn counts_as(&self, other: Turn, turn: Turn) -> bool {
        other == turn || (!self.turns[turn].ours && self.by(other) == self.by(turn))
    }

    /// R55–R58 for a fork's open turn.
    pub fn may(&self, turn: Turn, write: Write, now: Seconds) -> bool {
        if self.state(turn, now) == State::Ended {
            return false;
        }
        let (thread, message) = match write {
            Write::Pickup(m) | Write::Reply(m) | Write::Start(m) => (self.messages[m].thread, Some(m)),
            // R56: as if it answered the newest message.
            Write::Unasked(t) | Write::Line(t) => (t, self.newest(t)),
        };
        let Some(message) = message else {
            return false;
        };
        if !self.may_write_in(turn, thread) {
            return false;
        }
        // R50, R57: what was answered is its answerer's; an agent's earlier turns count as its own (R10).
        if let Some(answerer) = self.messages[message].answered {
            let own = self.by(answerer) == self.by(turn);
            return own && matches!(write, Write::Unasked(_) | Write::Line(_));
        }
        match self.holder(thread, now) {
            _ if !self.waits(message) => true,
            Holder::LineFork => false,
            Holder::Nobody => true,
            Holder::Turn(holder) => self.counts_as(holder, turn),
        }
    }

    /// Whether the rules leave open what becomes of such a write: comparisons pass it over.
    pub fn is_open_question(&self, write: Write) -> bool {
        let message = match write {
            Write::Pickup(m) => return !self.waits(m) || self.has_open_todo(m) || self.is_mains_alone(m),
            Write::Reply(m) | Write::Start(m) => Some(m),
            Write::Unasked(t) | Write::Line(t) => self.newest(t),
        };
        message.is_none_or(|m| {
            let m_ = &self.messages[m];
            let own_answer_again = m_.answered.is_some() && matches!(write, Write::Start(_) | Write::Reply(_));
            let mains = self.has_open_todo(m) || self.is_mains_alone(m);
            m_.withdrawn || m_.settled || mains || own_answer_again
        })
    }

    /// R81 for one thread, as if the turn ended now.
    pub fn judged(&self, turn: Turn, thread: Thread, now: Seconds) -> Outcome {
        let opened = self.todos.iter().any(|t| t.thread == thread && t.by == Some(turn) && t.ended.is_none());
        let left: Vec<Message> = self
            .all_of(thread)
            .into_iter()
            .filter(|m| self.picked_up_by(*m, turn))
            .filter(|m| {
                let message = &self.messages[*m];
                !message.withdrawn && !message.settled && message.owes
            })
            .filter(|m| !(self.waits(*m) && (self.has_open_todo(*m) || self.is_mains_alone(*m))))
            .collect();
        let held_by = |m: &Message| -> Holder {
            if self.waits(*m) {
                self.holder(thread, now)
            } else {
                self.messages[*m].answered.map_or(Holder::Nobody, Holder::Turn)
            }
        };
        if left.iter().any(|m| self.waits(*m) && held_by(m) == Holder::Turn(turn)) {
            return Outcome::HandBack;
        }
        if left.iter().any(|m| held_by(m) != Holder::Turn(turn)) {
            return Outcome::TakenOver;
        }
        if opened {
            return Outcome::Todo;
        }
        if !left.is_empty() {
            return Outcome::Answer;
        }
        // R45: a run that picked up nothing is judged by what it wrote.
        let picked_up_nothing = !self.takes.iter().any(|t| t.turn == turn && !t.by_answer);
        let answered = self.all_of(thread).into_iter().any(|m| self.messages[m].answered == Some(turn));
        if picked_up_nothing && answered { Outcome::Answer } else { Outcome::Void }
    }
}

impl Fact {
    /// It is an event of the page's log.
    pub fn on_the_log(&self) -> bool {
        matches!(
            self,
            Fact::Message { .. }
                | Fact::Withdraw { .. }
                | Fact::Resolve { .. }
                | Fact::Reopen { .. }
                | Fact::Pickup { .. }
                | Fact::Reply { .. }
                | Fact::Line { .. }
                | Fact::Todo { .. }
                | Fact::TodoEnd { .. }
        )
    }
}
