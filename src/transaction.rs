//! A page and the session that holds it under their locks: where effects are applied, in the order in which a kill between two of
//! them does no harm.

use std::cell::OnceCell;

use anyhow::Result;

use crate::clock::Ts;
use crate::desk::Desk;
use crate::headless;
use crate::ids::TurnId;
use crate::lock::Deadline;
use crate::page::event::{Actor, By};
use crate::page::hot::Keep;
use crate::page::{LockedPage, Page};
use crate::rules::ended;
use crate::rules::holding::{Lane, Reading};
use crate::schedule::record::Run;
use crate::session::journal::{Cost, Entry, Evidence, Kind, Outcome};
use crate::session::lane;
use crate::session::state::{ForkTurn, State};
use crate::session::{LockedSession, Session};

/// A page and its session, locked.
#[derive(Debug)]
pub struct Transaction {
    /// The page.
    pub page: LockedPage,
    /// The session that holds it, where there is one.
    pub session: Option<LockedSession>,
    /// The follower's lane of that session.
    pub lane: Lane,
    /// The time.
    pub now: Ts,
    nobody: State,
    /// Whether the session's client lives, once somebody asked.
    alive: OnceCell<bool>,
}

impl Transaction {
    /// Locks a page and the session that holds it.
    ///
    /// # Errors
    /// At the deadline, or where they can't be read.
    pub fn open(desk: &Desk, page: Page, deadline: Deadline) -> Result<Transaction> {
        let page = page.lock(deadline)?;
        let session = desk.lock_holder(&page.page.record, deadline)?;
        Ok(Transaction::of(page, session, desk.now()))
    }

    /// Locks the session that holds a page, for who has the one at hand that may.
    ///
    /// # Errors
    /// As [`Transaction::open`].
    pub fn with(desk: &Desk, page: LockedPage, session: &Session, deadline: Deadline) -> Result<Transaction> {
        let session = match &page.page.record.session {
            Some(id) if *id == session.record.id => Some(session.clone().lock(deadline)?),
            _ => desk.lock_holder(&page.page.record, deadline)?,
        };
        Ok(Transaction::of(page, session, desk.now()))
    }

    /// Returns it for a session whose own client runs this: that needs no look.
    #[must_use]
    pub fn of_living(self) -> Transaction {
        Transaction { alive: OnceCell::from(true), ..self }
    }

    /// Returns the transaction of a page and a session that are locked already.
    pub fn of(mut page: LockedPage, session: Option<LockedSession>, now: Ts) -> Transaction {
        page.keep = session.as_ref().map(|session| Keep {
            session: session.session.record.id.clone(),
            open: session.state.forks.iter().filter(|turn| turn.ended.is_none()).map(|turn| turn.id).collect(),
            told: session.state.told.get(&page.page.id).copied().unwrap_or(0),
        });
        let lane = session.as_ref().and_then(|session| lane::follower(&session.session));
        Transaction { page, session, lane, now, nobody: State::default(), alive: OnceCell::new() }
    }

    /// Returns the session's state; an empty one where no session holds the page.
    pub fn state(&self) -> &State {
        self.session.as_ref().map_or(&self.nobody, |session| &session.state)
    }

    /// Returns the reading of the page as it stands now (R53).
    pub fn reading(&self) -> Reading<'_> {
        let record = self.session.as_ref().map(|session| &session.session.record);
        Reading {
            page: &self.page.page.id,
            view: self.page.view(),
            held_from: self.page.page.record.held_from,
            session: self.page.page.record.session.as_ref(),
            state: self.state(),
            alive: *self.alive.get_or_init(|| record.is_some_and(|record| record.client_lives())),
            lane: self.lane.as_ref(),
            replies: record.is_some_and(|record| record.switches.fork_replies),
            now: self.now,
        }
    }

    /// Appends journal entries.
    ///
    /// # Errors
    /// Where they can't be written; none of them then stands.
    pub fn journal(&mut self, entries: &[Entry]) -> Result<()> {
        match &mut self.session {
            Some(session) => session.append(entries),
            None => Ok(()),
        }
    }

    /// Returns a fork's turn as an actor.
    pub fn fork_actor(&self, turn: &ForkTurn) -> Actor {
        Actor {
            turn: turn.id,
            session: self.page.page.record.session.clone(),
            generation: turn.generation,
            by: By::Fork,
            name: Some(turn.name.clone()),
            agent: turn.agent.clone(),
        }
    }

    /// Returns a scheduled run as an actor: no thread is its, so that it may open to-dos and hold nothing.
    pub fn run_actor(&self, run: &Run) -> Actor {
        Actor {
            turn: run.issue.run,
            session: self.page.page.record.session.clone(),
            generation: self.session.as_ref().and_then(|session| session.session.record.generation),
            by: By::Fork,
            name: Some(run.name()),
            agent: run.agent.clone(),
        }
    }

    /// Does what time alone, a new generation or a client's death changed (R88): ends turns, hands over what is no longer kept
    /// back (R16).
    ///
    /// # Errors
    /// Where the journal can't be written.
    pub fn settle(&mut self) -> Result<()> {
        for (turn, evidence) in due_ends(&self.reading()) {
            let runner = self.state().fork(turn).and_then(|fork| fork.runner.clone());
            match (evidence, runner) {
                // A headless run says its last words to a file (R118).
                (Evidence::Process, Some(runner)) => {
                    let left = headless::left(&runner);
                    self.end_at(turn, evidence, &left.text, left.failed, left.cost)?;
                }
                _ => drop(self.end(turn, evidence, "", true)?),
            }
        }
        let handed = due_handovers(&self.reading(), self.now);
        self.journal(&handed)
    }

    /// Writes which threads are kept back from now on (R5), so that it is seen when that ends (R16).
    ///
    /// # Errors
    /// Where the journal can't be written.
    pub fn keep_back(&mut self) -> Result<()> {
        let reading = self.reading();
        let kept: Vec<Entry> = reading
            .view
            .in_order()
            .filter(|thread| {
                let new = |message: &crate::page::view::Message| {
                    !reading.state.kept.contains(&(reading.page.clone(), message.id))
                };
                reading.kept_back(thread) && thread.input().any(new)
            })
            .map(|thread| Entry {
                page: Some(reading.page.clone()),
                thread: Some(thread.id),
                message: thread.input().next_back().map(|message| message.id),
                messages: thread.input().map(|message| message.id).collect(),
                rule: Some("R13".to_owned()),
                ..Entry::new(self.now, Kind::KeptBack)
            })
            .collect();
        self.journal(&kept)
    }

    /// Ends a fork's turn: judged, with what main hears of it, in one append (R86). Ended twice: the recorded outcome again
    /// (R78).
    ///
    /// # Errors
    /// Where the journal can't be written.
    pub fn end(&mut self, turn: TurnId, evidence: Evidence, last_text: &str, failed: bool) -> Result<Option<Outcome>> {
        self.end_at(turn, evidence, last_text, failed, Cost::default())
    }

    /// As [`Transaction::end`], with what the run cost (R122). Of a turn that has ended without one it is still written.
    ///
    /// # Errors
    /// As there.
    pub fn end_at(
        &mut self,
        turn: TurnId,
        evidence: Evidence,
        last_text: &str,
        failed: bool,
        cost: Cost,
    ) -> Result<Option<Outcome>> {
        let reading = self.reading();
        let Some(fork) = reading.state.fork(turn) else { return Ok(None) };
        if fork.ended.is_some() {
            let outcome = fork.outcome;
            self.account(turn, cost)?;
            return Ok(outcome);
        }
        let outcome = ended::judge(&reading, fork);
        let reason = match (outcome, evidence) {
            (Outcome::HandBack, Evidence::Client) => "its client is gone, or may not wait for it".to_owned(),
            (Outcome::HandBack, Evidence::Generation) => "the session began anew".to_owned(),
            (Outcome::HandBack, Evidence::Claim) => "its page was claimed by another session".to_owned(),
            (Outcome::HandBack, Evidence::Unstarted) => "its run did not begin within a minute".to_owned(),
            (Outcome::HandBack, Evidence::Superseded) => "nothing was heard of it for 15 minutes".to_owned(),
            (Outcome::HandBack, Evidence::Limit) => {
                "it took longer than a headless run may, and was stopped".to_owned()
            }
            (Outcome::HandBack, Evidence::TaskStop) if last_text.is_empty() => "it was stopped".to_owned(),
            (Outcome::HandBack, _) => ended::reason(last_text, failed),
            (Outcome::TakenOver, _) => ended::taken_by(&reading, fork).unwrap_or_default(),
            (Outcome::Answer | Outcome::Todo | Outcome::Void, _) => String::new(),
        };
        let line = ended::line(&reading, fork, outcome, &reason);
        let thread = fork.thread.clone();
        let entry = Entry {
            page: thread.as_ref().map(|(page, _)| page.clone()),
            thread: thread.map(|(_, thread)| thread),
            turn: Some(turn),
            agent: fork.agent.clone(),
            name: Some(fork.name.clone()),
            by: Some(By::Fork),
            outcome: Some(outcome),
            evidence: Some(evidence),
            rule: Some("R81".to_owned()),
            why: (!reason.is_empty()).then_some(reason),
            line,
            ..Entry::new(self.now, Kind::Ended)
        }
        .at(cost);
        let runner = fork.runner.clone();
        // What a turn wrote for itself goes with its record: before that, so that no kill leaves it behind.
        let mut after = self.state().clone();
        after.apply(&entry);
        for gone in self.state().forks.iter().filter(|turn| after.fork(turn.id).is_none()) {
            crate::scratch::remove(gone.id);
        }
        self.journal(&[entry])?;
        // Its turn is over: what it would still write is nobody's.
        if let Some(runner) = runner {
            headless::ask_to_leave(&runner.process);
        }
        Ok(Some(outcome))
    }

    /// Writes what a run cost where its end can't say so: it rests, or it has ended (R122). A repeated report of an end counts once.
    ///
    /// # Errors
    /// Where the journal can't be written.
    pub fn account(&mut self, turn: TurnId, cost: Cost) -> Result<()> {
        let entry = self.state().fork(turn).and_then(|fork| Entry::account(self.now, fork, cost));
        self.journal(entry.as_slice())
    }
}

/// Returns the turns of a page that are over by now, each with what that rests on.
pub fn due_ends(reading: &Reading<'_>) -> Vec<(TurnId, Evidence)> {
    let state = reading.state;
    let here =
        |turn: &&ForkTurn| turn.ended.is_none() && turn.thread.as_ref().is_none_or(|(page, _)| page == reading.page);
    state.forks.iter().filter(here).filter_map(|turn| Some((turn.id, due_end(reading, turn)?))).collect()
}

fn due_end(reading: &Reading<'_>, turn: &ForkTurn) -> Option<Evidence> {
    let due = turn.due(reading.state.generation, reading.alive, reading.lane.is_some(), reading.now);
    let torn = turn.thread.as_ref().is_some_and(|(page, id)| {
        page == reading.page
            && reading.view.threads.get(id).is_none_or(|thread| !crate::rules::holding::took(thread, turn.id))
    });
    due.or(torn.then_some(Evidence::Torn))
}

/// Returns the entries that make main's what was kept back and is no longer (R16). Losing one only makes the next hand it
/// over again (R17).
pub fn due_handovers(reading: &Reading<'_>, now: Ts) -> Vec<Entry> {
    let fresh = |message: &&crate::page::view::Message| {
        let key = (reading.page.clone(), message.id);
        reading.state.kept.contains(&key) && !message.was_picked_up() && !reading.state.handed.contains(&key)
    };
    let handed = reading.view.in_order().filter(|thread| reading.is_mains(thread)).filter_map(|thread| {
        let messages: Vec<_> = thread.input().filter(fresh).map(|message| message.id).collect();
        (!messages.is_empty()).then(|| Entry {
            page: Some(reading.page.clone()),
            thread: Some(thread.id),
            message: messages.last().copied(),
            messages,
            why: Some("it is no longer kept back".to_owned()),
            rule: Some("R16".to_owned()),
            ..Entry::new(now, Kind::Handed)
        })
    });
    // What waits in the queue and is no longer kept back leaves it: its place is others' (R33).
    let queued = reading
        .state
        .queue
        .iter()
        .filter(|(page, _)| page == reading.page)
        .filter(|(_, id)| reading.view.threads.get(id).is_none_or(|thread| !reading.kept_back(thread)))
        .map(|(page, id)| Entry {
            page: Some(page.clone()),
            thread: Some(*id),
            why: Some("it left the queue".to_owned()),
            rule: Some("R33".to_owned()),
            ..Entry::new(now, Kind::Handed)
        });
    handed.chain(queued).collect()
}

/// Whether [`Transaction::settle`] has something to do.
pub fn is_due(reading: &Reading<'_>) -> bool {
    !due_ends(reading).is_empty() || !due_handovers(reading, reading.now).is_empty()
}
