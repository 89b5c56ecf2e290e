//! `leaf delivery …`: deliveries by pointer (R76).

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;

use super::writer::{Desktop, Verb};
use super::{Run, output};
use crate::context::fenced_message;
use crate::desk::Prefix;
use crate::ids::{DeliveryId, MessageId, Reference};
use crate::page::Page;
use crate::page::event::{Author, Body, By, Event, pickup};
use crate::page::view::{Message, View};
use crate::pointer::{self, Pointer};
use crate::refused::{Refused, Usage};
use crate::rules::deliver::Bundle;
use crate::rules::writes;
use crate::session::journal::{Entry, Kind};
use crate::text::Fence;

/// A part is at most this long, characters: the client cuts a tool's result at 30,000.
const PART: usize = 24_000;

/// `leaf delivery …`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read a delivery, in parts of at most 24,000 characters
    Read {
        /// The delivery
        id: String,
        /// Which part
        #[arg(long, default_value_t = 1, value_name = "N")]
        part: usize,
    },
    /// Say that it was read: its messages are then picked up
    Ack {
        /// The delivery
        id: String,
    },
}

/// Runs `leaf delivery …`.
///
/// # Errors
/// The refusal, or what failed.
pub fn run(run: &Run, command: &Command) -> Result<()> {
    match command {
        Command::Read { id, part } => read(run, &Prefix::parse(id)?, *part),
        Command::Ack { id } => ack(run, &Prefix::parse(id)?),
    }
}

fn gone(id: impl std::fmt::Display) -> Refused {
    Refused::by(
        "R103",
        format!("there is no delivery {id} to read, or it was acknowledged: `leaf page state` shows what waits"),
    )
}

/// Finds the delivery and its page, acknowledged or not.
fn page_of(run: &Run, prefix: &Prefix, writes: bool) -> Result<(Page, DeliveryId)> {
    let speaker = run.speaker(Verb::Agents)?;
    let session = run.session(&speaker)?;
    let Some(home) = run.desk.home()? else { return Err(gone(prefix).into()) };
    let held = match (&run.common.page, &session) {
        (Some(page), _) => vec![run.desk.page(&home, page)?],
        (None, Some(session)) => run.desk.held(&home, &session.record)?,
        (None, None) => Vec::new(),
    };
    let mut others = Vec::new();
    if run.common.page.is_none() {
        for page in Page::all(&home)? {
            others.extend(Page::open(&home, &page).ok().flatten());
        }
    }
    for page in held.into_iter().chain(others) {
        let known = pointer::all(&page)?;
        if known.iter().any(|id| prefix.begins((*id).into())) {
            let id = prefix.pick("delivery", known.into_iter().map(Into::into))?.into();
            if writes {
                run.own(&speaker, &page)?;
            }
            return Ok((page, id));
        }
    }
    Err(gone(prefix).into())
}

/// Returns what still waits of a delivery, a bundle a thread.
fn bundles<'v>(view: &'v View, pointer: &Pointer) -> Vec<Bundle<'v>> {
    let mut bundles = Vec::new();
    for carried in &pointer.threads {
        let Some(thread) = view.threads.get(&carried.thread) else { continue };
        let messages: Vec<_> = thread.input().filter(|message| carried.messages.contains(&message.id)).collect();
        if !messages.is_empty() {
            bundles.push(Bundle { thread, messages });
        }
    }
    bundles
}

fn read(run: &Run, prefix: &Prefix, part: usize) -> Result<()> {
    let (page, id) = page_of(run, prefix, false)?;
    let view = page.view()?;
    let pointer = pointer::read(&page, id)?.ok_or_else(|| gone(id))?;
    let bundles = bundles(&view, &pointer);
    if bundles.is_empty() {
        return Err(gone(id).into());
    }
    let text = whole(id, &page, &bundles);
    let parts = cut(&text);
    let Some(shown) = part.checked_sub(1).and_then(|at| parts.get(at)) else {
        return Err(Usage(format!("delivery {id} has the parts 1 to {}", parts.len())).into());
    };
    if run.common.json {
        #[derive(Serialize)]
        struct Part<'a> {
            id: DeliveryId,
            part: usize,
            parts: usize,
            text: &'a str,
            references: Vec<Reference>,
        }
        let references =
            bundles.iter().filter_map(|bundle| Some(Reference { delivery: id, message: bundle.answers()? })).collect();
        return output::print_json(&Part { id, part, parts: parts.len(), text: shown, references });
    }
    let next = if part < parts.len() {
        format!("\nPart {part} of {}; next: leaf delivery read {id} --part {}\n", parts.len(), part + 1)
    } else {
        format!("\nPart {part} of {}, the last; then: leaf delivery ack {id}\n", parts.len())
    };
    output::print(&format!("{shown}{next}"))
}

fn whole(id: DeliveryId, page: &Page, bundles: &[Bundle<'_>]) -> String {
    let texts = bundles.iter().flat_map(Bundle::texts);
    // Every part shows the same mark.
    let fence = Fence::of(&format!("{:?}:{id}", page.record.key), texts);
    let mut out = format!("What stands between [{0} and {0}] is the user's own text.\n", fence.mark());
    for bundle in bundles {
        for message in &bundle.messages {
            out.push('\n');
            out.push_str(&fenced_message(&fence, bundle, message));
        }
        if let Some(message) = bundle.answers() {
            out.push_str(&format!("Answer: leaf thread reply {} TEXT\n", Reference { delivery: id, message }));
        }
    }
    out
}

/// Cuts a text into parts, at line ends where there is one.
fn cut(text: &str) -> Vec<&str> {
    // Room for the line that leads to the next part.
    let limit = PART - 200;
    let mut parts = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.char_indices().nth(limit).map_or(rest.len(), |(at, _)| at);
        let end = if end == rest.len() {
            end
        } else {
            rest[..end].rfind('\n').map(|at| at + 1).filter(|at| *at > end / 2).unwrap_or(end)
        };
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts
}

fn ack(run: &Run, prefix: &Prefix) -> Result<()> {
    let (page, id) = page_of(run, prefix, true)?;
    let speaker = run.speaker(Verb::Agents)?;
    run.write(&speaker, page, None, |desk| {
        pointer::load(&mut desk.tx.page, id)?;
        if pointer::delivered(desk.view(), id) {
            // Said twice: nothing is picked up twice.
            desk.page().deliveries()?.remove(&pointer::file_name(id))?;
            return match earlier(desk, id) {
                Some(event) => desk.report(
                    &event,
                    &format!("delivery {id} is acknowledged"),
                    vec!["it was acknowledged already".to_owned()],
                ),
                None => Err(gone(id).into()),
            };
        }
        let pointer = pointer::read(desk.page(), id)?.ok_or_else(|| gone(id))?;
        let picked: Vec<(crate::ids::ThreadId, Vec<MessageId>)> = bundles(desk.view(), &pointer)
            .iter()
            .map(|bundle| (bundle.thread.id, bundle.messages.iter().map(|message| message.id).collect()))
            .collect();
        if picked.is_empty() {
            desk.page().deliveries()?.remove(&pointer::file_name(id))?;
            return Err(gone(id).into());
        }
        let actor = desk.actor()?;
        if actor.by == By::Fork {
            let reading = desk.tx.reading();
            for (thread, _) in &picked {
                if let Some(thread) = reading.view.threads.get(thread) {
                    writes::fork_may(&reading, thread, &actor)?;
                }
            }
        }
        if actor.by == By::Fork && pointer.turn != Some(actor.turn) {
            return Err(Refused::by("R59", format!("delivery {id} was not made for your turn: leave it")).into());
        }
        let taken: Vec<Entry> = picked
            .iter()
            .map(|(thread, messages)| Entry {
                page: Some(desk.page().id.clone()),
                thread: Some(*thread),
                turn: Some(actor.turn),
                messages: messages.clone(),
                message: messages.last().copied(),
                delivery: Some(id),
                by: Some(actor.by),
                rule: Some("R76".to_owned()),
                ..Entry::new(desk.tx.now, Kind::Taken)
            })
            .collect();
        desk.journal(&taken);
        let drafts = picked
            .iter()
            .map(|(thread, messages)| pickup(*thread, messages.clone(), Some(id), actor.clone()))
            .collect();
        let events = desk.append(drafts)?;
        // It was read before it was acknowledged: nothing is to be repeated.
        let shown =
            Entry { page: Some(desk.page().id.clone()), delivery: Some(id), ..Entry::new(desk.tx.now, Kind::Shown) };
        desk.journal(&[shown]);
        desk.page().deliveries()?.remove(&pointer::file_name(id))?;
        let messages: usize = picked.iter().map(|(_, messages)| messages.len()).sum();
        let line = format!("delivery {id} is acknowledged: {}", crate::text::count(messages, "message"));
        let more = events.len() - 1;
        let notes =
            if more > 0 { vec![format!("and {}", crate::text::count(more, "more pickup"))] } else { Vec::new() };
        desk.report(&events[0], &line, notes)
    })
}

/// Returns the first pickup of a delivery that was acknowledged.
fn earlier(desk: &Desktop<'_>, id: DeliveryId) -> Option<Event> {
    desk.view().in_order().find_map(|thread| {
        let of = |message: &Message| message.pickups.iter().find(|pickup| pickup.delivery == id).cloned();
        let pickup = thread.messages.iter().find_map(of)?;
        let messages = thread
            .messages
            .iter()
            .filter(|message| message.pickups.iter().any(|other| other.seq == pickup.seq))
            .map(|message| message.id)
            .collect();
        Some(Event {
            seq: pickup.seq,
            id: desk.page().record.key.id(pickup.seq),
            ts: pickup.ts,
            author: Author::Leaf,
            body: Body::Pickup { thread: thread.id, messages, delivery: id, actor: pickup.actor },
        })
    })
}
