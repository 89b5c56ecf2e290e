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

/// Writes a pointer under the page's lock; returns its id and its messages. Its id is the image of 2^31 + the page's `seq`, the
/// next free where a delivery has that.
///
/// # Errors
/// Where it can't be written.
pub fn write(page: &LockedPage, new: &[Bundle<'_>], turn: Option<TurnId>) -> Result<(DeliveryId, Vec<MessageId>)> {
    let dir = page.page.deliveries()?;
    let mut at = (1 << 31) + page.view.seq;
    let id = loop {
        let id: DeliveryId = page.page.record.key.id(at).into();
        if dir.read(&file_name(id))?.is_none() && !delivered(&page.view, id) {
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

/// Returns the page's deliveries, those that wait in a file and those that were picked up.
///
/// # Errors
/// Where they can't be read.
pub fn all(page: &Page) -> Result<Vec<DeliveryId>> {
    let mut ids: Vec<DeliveryId> =
        page.deliveries()?.names()?.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
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
