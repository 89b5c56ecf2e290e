//! A session's state: plain values, folded from its journal one entry at a time.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::journal::{ClerkLine, Entry, Kind};
use crate::clock::Ts;
use crate::ids::{DeliveryId, Generation, MessageId, PageId, TurnId};

/// A turn that nothing renewed for this long is lapsed (Words: *turn*), milliseconds.
pub const LAPSE: i64 = 15 * 60 * 1000;
/// A renewal younger than this writes nothing (R41), milliseconds.
pub const RENEWAL: i64 = 60 * 1000;

/// A session as its journal tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The time of the last entry.
    pub active: Ts,
    /// Lines that could not be read (R127).
    pub damaged: u32,
    /// The present generation.
    pub generation: Option<Generation>,
    /// Main's newest turn, open or ended.
    pub main: Option<MainTurn>,
    /// Main's turn before that one.
    pub previous: Option<TurnId>,
    /// The deliveries of these two turns whose output was flushed (R101).
    pub shown: Vec<Shown>,
    /// A page's `seq` up to which main heard of withdrawals and resolves (R8, R9).
    pub told: BTreeMap<PageId, u32>,
    /// The old debts that were said, once each (R104).
    pub debts: BTreeSet<(PageId, MessageId)>,
    /// The pointers that main was told of and has not acknowledged.
    pub pointers: Vec<Pointer>,
    /// How often Stop continued main's turn since its last tool boundary (R104).
    pub continued: u32,
    /// The turn that was told of its open to-dos at a Stop (R95).
    pub todo_line: Option<TurnId>,
    /// The clerk's lines that are not printed yet.
    pub clerk: Vec<ClerkLine>,
    /// The number of the clerk's last line.
    pub next_line: u64,
}

/// A turn of main.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MainTurn {
    /// The turn.
    pub id: TurnId,
    /// Its generation.
    pub generation: Option<Generation>,
    /// The client's prompt id.
    pub prompt: Option<String>,
    /// When it opened.
    pub opened: Ts,
    /// When it was last renewed.
    pub renewed: Ts,
    /// When it ended.
    pub ended: Option<Ts>,
}

/// A delivery that was shown, with the turn that it was for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The page.
    pub page: PageId,
    /// The delivery.
    pub delivery: DeliveryId,
    /// Main's turn then.
    pub turn: Option<TurnId>,
}

/// A delivery by pointer that main was told of (R76).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pointer {
    /// The page.
    pub page: PageId,
    /// The delivery.
    pub delivery: DeliveryId,
    /// The messages that it carries.
    pub messages: Vec<MessageId>,
    /// The turn that was told of it last (R101: once a turn).
    pub turn: Option<TurnId>,
}

impl MainTurn {
    /// Whether the turn is open: not ended, and renewed within the last 15 minutes.
    pub fn open(&self, now: Ts) -> bool {
        self.ended.is_none() && now.0 - self.renewed.0 < LAPSE
    }
}

impl State {
    /// Returns main's open turn.
    pub fn open_turn(&self, now: Ts) -> Option<&MainTurn> {
        self.main.as_ref().filter(|turn| turn.open(now))
    }

    /// Whether a delivery to main needs no repetition: it was shown, or it is of a turn long gone (R101).
    pub fn was_shown(&self, page: &PageId, delivery: DeliveryId, turn: TurnId) -> bool {
        let recent = self.main.as_ref().is_some_and(|main| main.id == turn) || self.previous == Some(turn);
        !recent || self.shown.iter().any(|shown| shown.delivery == delivery && shown.page == *page)
    }

    /// Folds one entry.
    pub fn apply(&mut self, entry: &Entry) {
        if let Some(state) = &entry.state {
            *self = (**state).clone();
            return;
        }
        self.active = self.active.max(entry.ts);
        match entry.kind {
            Kind::Generation => {
                self.generation = entry.generation;
                self.continued = 0;
            }
            Kind::Begun => {
                let Some(turn) = entry.turn else { return };
                self.previous = self.main.as_ref().map(|main| main.id);
                let kept = self.previous;
                self.shown.retain(|shown| shown.turn == kept);
                self.main = Some(MainTurn {
                    id: turn,
                    generation: self.generation,
                    prompt: entry.prompt.clone(),
                    opened: entry.ts,
                    renewed: entry.ts,
                    ended: None,
                });
                self.continued = 0;
            }
            Kind::Renewed => {
                if let Some(main) = self.main.as_mut().filter(|main| Some(main.id) == entry.turn) {
                    main.renewed = main.renewed.max(entry.ts);
                }
                if entry.boundary {
                    self.continued = 0;
                }
            }
            Kind::Ended => {
                if let Some(main) = self.main.as_mut().filter(|main| Some(main.id) == entry.turn) {
                    main.ended = Some(entry.ts);
                }
            }
            Kind::Shown => {
                let (Some(page), Some(delivery)) = (entry.page.clone(), entry.delivery) else { return };
                self.pointers.retain(|pointer| pointer.delivery != delivery || pointer.page != page);
                self.shown.push(Shown { page, delivery, turn: self.main.as_ref().map(|main| main.id) });
            }
            Kind::Told => self.apply_told(entry),
            Kind::Continued => {
                self.continued += 1;
                if entry.rule.as_deref() == Some("R95") {
                    self.todo_line = entry.turn;
                }
            }
            Kind::Clerk => {
                let Some(line) = &entry.line else { return };
                self.next_line = self.next_line.max(line.id);
                self.clerk.push(line.clone());
            }
            Kind::Printed => self.clerk.retain(|line| !entry.lines.contains(&line.id)),
            Kind::Taken | Kind::Handed | Kind::Refused | Kind::Checkpoint | Kind::Unknown => {}
        }
    }

    fn apply_told(&mut self, entry: &Entry) {
        let Some(page) = entry.page.clone() else { return };
        if let Some(seq) = entry.seq {
            let told = self.told.entry(page.clone()).or_default();
            *told = (*told).max(seq);
        }
        match entry.delivery {
            Some(delivery) => {
                self.pointers.retain(|pointer| pointer.delivery != delivery || pointer.page != page);
                let messages = entry.messages.clone();
                self.pointers.push(Pointer { page, delivery, messages, turn: entry.turn });
            }
            None => {
                for message in &entry.messages {
                    self.debts.insert((page.clone(), *message));
                }
            }
        }
    }
}
