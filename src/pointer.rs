//! A delivery by pointer (R76): too long for the conversation, it lies in a file until it is acknowledged.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::FORMAT;
use crate::ids::{DeliveryId, MessageId, ThreadId, TurnId};
use crate::page::view::View;
use crate::page::{LockedPage, Page};
use crate::rules::deliver::Bundle;

/// `deliveries/<id>.json`. The texts stay in the page log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pointer {
    /// The format of the page's directory.
    pub format: u32,
    /// The delivery.
    pub id: DeliveryId,
    /// The fork's turn that it was made for; `None` for main's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// What it carries.
    pub threads: Vec<Carried>,
}

impl Pointer {
    /// Whether it carries a message.
    pub fn carries(&self, message: MessageId) -> bool {
        self.threads.iter().any(|carried| carried.messages.contains(&message))
    }
}

/// The messages of one thread in a delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// The thread.
    pub thread: ThreadId,
    /// The messages, the oldest first.
    pub messages: Vec<MessageId>,
}

/// Returns the name of a pointer's file.
pub fn file_name(id: DeliveryId) -> String {
    format!("{id}.json")
}

/// A pointer's id is the image of this plus the page's `seq`.
const FIRST: u32 = 1 << 31;
/// How far back another delivery's pickup may lie whose id a pointer made now could get: as many pointers as may wait at once.
const RECENT: u32 = 256;

/// Loads what [`write`] looks at as it chooses an id.
///
/// # Errors
/// Where the log can't be read.
pub fn ready(page: &mut LockedPage) -> Result<()> {
    page.load_since(page.view().seq.saturating_sub(RECENT))
}

/// Loads what a delivery carries, or carried.
///
/// # Errors
/// Where the log or the pointer can't be read.
pub fn load(page: &mut LockedPage, id: DeliveryId) -> Result<()> {
    match page.page.record.key.seq(id.into()).checked_sub(FIRST) {
        Some(made) => page.load_since(made.saturating_sub(RECENT))?,
        None => page.load(std::iter::once(id.into()))?,
    }
    let carried = read(&page.page, id)?.map(|pointer| pointer.threads).unwrap_or_default();
    page.load(carried.into_iter().map(|carried| carried.thread.into()))
}

/// Writes a pointer under the page's lock; returns its id and its messages. Its id is the image of 2^31 + the page's `seq`, the
/// next free where a delivery has that.
///
/// # Errors
/// Where it can't be written.
pub fn write(page: &LockedPage, new: &[Bundle<'_>], turn: Option<TurnId>) -> Result<(DeliveryId, Vec<MessageId>)> {
    let dir = page.page.deliveries()?;
    let mut at = FIRST + page.view().seq;
    let id = loop {
        let id: DeliveryId = page.page.record.key.id(at).into();
        if dir.read(&file_name(id))?.is_none() && !delivered(page.view(), id) {
            break id;
        }
        at += 1;
    };
    let threads: Vec<Carried> = new
        .iter()
        .map(|bundle| Carried {
            thread: bundle.thread.id,
            messages: bundle.messages.iter().map(|message| message.id).collect(),
        })
        .collect();
    let messages = threads.iter().flat_map(|carried| carried.messages.clone()).collect();
    dir.replace(&file_name(id), &serde_json::to_vec(&Pointer { format: FORMAT, id, turn, threads })?, false)?;
    Ok((id, messages))
}

/// Returns the deliveries that wait in a file.
///
/// # Errors
/// Where they can't be read.
pub fn lying(page: &Page) -> Result<Vec<DeliveryId>> {
    let names = page.deliveries()?.names()?;
    Ok(names.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect())
}

/// Returns the page's deliveries, those that wait in a file and those that were picked up.
///
/// # Errors
/// Where they can't be read.
pub fn all(page: &Page) -> Result<Vec<DeliveryId>> {
    let mut ids = lying(page)?;
    let view = page.view()?;
    for message in view.threads.values().flat_map(|thread| &thread.messages) {
        ids.extend(message.pickups.iter().map(|pickup| pickup.delivery));
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// Whether some message was picked up by a delivery.
pub fn delivered(view: &View, id: DeliveryId) -> bool {
    view.threads
        .values()
        .any(|thread| thread.messages.iter().any(|message| message.carried_by(|delivery| delivery == id)))
}

/// Reads a pointer; `Ok(None)` where it was acknowledged or never was.
///
/// # Errors
/// Where it can't be read.
pub fn read(page: &Page, id: DeliveryId) -> Result<Option<Pointer>> {
    let Some(bytes) = page.deliveries()?.read(&file_name(id))? else { return Ok(None) };
    Ok(serde_json::from_slice(&bytes).ok())
}
