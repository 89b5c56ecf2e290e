//! `view.json`: the view and the offset it covers. A cache: it may be stale, damaged or gone at any time.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::log::Log;
use super::view::View;
use crate::FORMAT;
use crate::ids::IdKey;
use crate::place::Dir;

/// The snapshot's file name.
pub const NAME: &str = "view.json";
/// How far the log may run ahead of the snapshot, bytes: reading a tail of this size costs less than writing a snapshot.
const WORTH: u64 = 32 * 1024;

#[derive(Serialize)]
struct Out<'a> {
    format: u32,
    key: IdKey,
    view: &'a View,
}

#[derive(Deserialize)]
struct In {
    format: u32,
    key: IdKey,
    view: View,
}

/// Reads the view: the snapshot, where it fits the log, and the log's tail.
///
/// # Errors
/// Where the log can't be read; never for the snapshot's sake.
pub fn load(dir: &Dir, key: IdKey, log: &mut Log) -> Result<View> {
    let length = log.size()?;
    let mut view = if length > WORTH { stored(dir, key, length, log).unwrap_or_default() } else { View::default() };
    let tail = log.read_from(view.offset)?;
    view.fold(key, &tail);
    Ok(view)
}

/// Returns the snapshot if it is whole, of this format and page, and ends where a line of the log ends.
fn stored(dir: &Dir, key: IdKey, length: u64, log: &mut Log) -> Option<View> {
    let bytes = dir.read(NAME).ok()??;
    let read: In = serde_json::from_slice(&bytes).ok()?;
    let mut view = read.view;
    if read.format != FORMAT || read.key != key || view.offset == 0 || view.offset > length {
        return None;
    }
    let last = log.read_at(view.offset - 1).ok()?;
    view.stored = view.offset;
    (last == b'\n').then_some(view)
}

/// Writes the snapshot, under the page's lock, if the log ran far enough ahead of it. Failing is no matter.
pub fn store_if_worth(dir: &Dir, key: IdKey, view: &mut View) {
    // The snapshot grows with the page: write it again only after a part of its own size came in.
    if view.offset < view.stored + WORTH.max(view.stored / 8) {
        return;
    }
    if let Ok(bytes) = serde_json::to_vec(&Out { format: FORMAT, key, view })
        && dir.replace(NAME, &bytes, false).is_ok()
    {
        view.stored = view.offset;
    }
}
