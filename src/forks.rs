//! Forks at the edge: a thread is taken, a run is named, a resting one goes on; each in one transaction, in an order in which a kill
//! between two steps loses nothing.

use anyhow::Result;

use crate::context;
use crate::desk::Desk;
use crate::errors;
use crate::headless;
use crate::ids::{AgentId, DeliveryId, MessageId, ThreadId, TurnId};
use crate::page::event::{By, pickup};
use crate::rules::changed::{self, Change};
use crate::rules::deliver::Bundle;
use crate::rules::prompts::{self, Where};
use crate::rules::take::{self, Take};
use crate::rules::way::{self, Choice, Facts, Follows, Way};
use crate::scratch;
use crate::session::Session;
use crate::session::journal::{Action, ClerkLine, Entry, Evidence, Kind, Naming};
use crate::session::lane::{self, Lane};
use crate::session::state::State;
use crate::text::Fence;
use crate::transaction::Transaction;

/// Takes a thread for a fork (R27): the turn first, then the pickup of all that waits there.
///
/// # Errors
/// Where a write fails; the next who sees a turn without its pickup ends it.
pub fn take_thread(desk: &Desk, tx: &mut Transaction, thread: ThreadId) -> Result<Action> {
    // A lapsed turn is ended first, and then a new fork spawned (R30).
    let lapsed = take::lapsed(&tx.reading(), thread);
    for turn in &lapsed {
        tx.end(*turn, Evidence::Superseded, "", true)?;
    }
    let most = desk.config(&tx.page.page.record.project).max_running;
    let reading = tx.reading();
    let Some(found) = reading.view.threads.get(&thread) else { return Ok(Action::None) };
    let newest = found.input().next_back().map(|message| message.id);
    let Some(newest) = newest else { return Ok(Action::None) };
    let choice = match &tx.session {
        Some(session) => way(desk, &session.session, &session.state),
        None => return Ok(Action::None),
    };
    let how = match take::how(&reading, found, most) {
        // Only the module resumes an agent by itself.
        Take::Resume { .. } if !lapsed.is_empty() || choice.way != Way::Module => Take::Spawn,
        how => how,
    };
    if choice.way == Way::Main {
        let handed = Entry {
            messages: take::picks(found),
            why: Some(choice.why),
            way: Some(Way::Main),
            rule: Some("R117".to_owned()),
            ..entry_of(tx, Kind::Handed, thread, newest)
        };
        tx.journal(&[handed])?;
        return Ok(Action::Main);
    }
    if how == Take::Queue {
        let queued = Entry {
            why: Some(format!(
                "{} already",
                if most == 1 { "one fork runs".to_owned() } else { format!("{most} forks run") }
            )),
            rule: Some("R33".to_owned()),
            ..entry_of(tx, Kind::Queued, thread, newest)
        };
        tx.journal(&[queued])?;
        return Ok(Action::Queued);
    }
    if let Take::Resume { agent, .. } = &how {
        load_changes(tx, agent)?;
    }
    // The delivery's id is that of the pickup which the next write begins with.
    let delivery: DeliveryId = tx.page.id_ahead(0)?.into();
    let reading = tx.reading();
    let Some(found) = reading.view.threads.get(&thread) else { return Ok(Action::None) };
    let bundle = Bundle { thread: found, messages: found.input().collect() };
    let changes = match &how {
        Take::Resume { agent, .. } => changed::since(&reading, found, agent),
        Take::Spawn | Take::Queue => Vec::new(),
    };
    let (told, news) = told(tx, delivery, &bundle, &changes)?;
    let messages = take::picks(found);
    let (turn, name, agent) = match &how {
        Take::Resume { agent, into, name } => {
            let turn = match into {
                Some(turn) => *turn,
                None => TurnId::new()?,
            };
            (turn, name.clone(), Some(agent.clone()))
        }
        Take::Spawn | Take::Queue if choice.way == Way::Headless => {
            let turn = TurnId::new()?;
            let agent = headless::agent(turn)?;
            (turn, agent.to_string(), Some(agent))
        }
        // The one that takes every thread (R34).
        Take::Spawn | Take::Queue if most == 1 => (TurnId::new()?, take::STANDING.to_owned(), None),
        Take::Spawn | Take::Queue => (TurnId::new()?, prompts::name(thread), None),
    };
    let scratch = Scratch::of(turn);
    let action = match (&how, &agent) {
        (Take::Resume { .. }, Some(agent)) => {
            let prompt = prompts::resume_prompt(&scratch.named, &news, &told);
            Action::Resume { turn, agent_id: agent.clone(), prompt }
        }
        (Take::Resume { .. } | Take::Spawn | Take::Queue, _) => {
            let place = if choice.way == Way::Headless { Where::Process } else { Where::Session };
            Action::Spawn {
                turn,
                name: name.clone(),
                description: prompts::description(thread, turn),
                prompt: prompts::work_prompt(place, &scratch.named, &told),
            }
        }
    };
    let asked = choice.way == Way::Subagent;
    let words = if asked {
        prompts::start_request(turn, &name, thread)
    } else {
        format!("fork {name} took thread {thread}; it answers there.")
    };
    // Nobody but main can start it, where main is asked to.
    let heard = ClerkLine { turn: Some(turn), wake: asked, ..ClerkLine::new(words) };
    let taken = Entry {
        turn: Some(turn),
        messages: messages.clone(),
        delivery: Some(delivery),
        by: Some(By::Fork),
        name: Some(name),
        naming: agent.is_some().then_some(Naming::Resume),
        agent,
        does: Some(action.clone()),
        way: Some(choice.way),
        why: Some(choice.why),
        line: Some(heard),
        rule: Some("R27".to_owned()),
        ..entry_of(tx, Kind::Taken, thread, newest)
    };
    tx.journal(&[taken])?;
    scratch.make();
    let Some(opened) = tx.state().fork(turn).cloned() else { return Ok(Action::Main) };
    let actor = tx.fork_actor(&opened);
    tx.page.append(tx.now, vec![pickup(thread, messages, None, actor)], false)?;
    match choice.way {
        Way::Module => Ok(action),
        // The module has no part in it.
        Way::Subagent | Way::Main => Ok(Action::None),
        Way::Headless => {
            headless::begin(desk, tx, turn)?;
            Ok(Action::None)
        }
    }
}

/// Chooses how a fork of a session would run now (R117).
pub fn way(desk: &Desk, session: &Session, state: &State) -> Choice {
    let switches = session.record.switches;
    way::how(&Facts {
        follows: match lane::holder(session, Lane::Follower) {
            // A follower that the module started has a token for it.
            Some(record) if record.token.is_some() => Follows::Module,
            Some(_) => Follows::Watch,
            None => Follows::Nobody,
        },
        stopped: state.stopped,
        attended: session.record.attended,
        limits: switches.limits,
        module_misses: state.misses(Way::Module),
        subagent_misses: state.misses(Way::Subagent),
        headless: switches.pays(),
        program: headless::program(&desk.env).is_some(),
        asked: switches.way,
    })
}

/// Gives a resting run the further messages of its thread: it goes on in its turn (R80). `None` where there are none.
///
/// # Errors
/// Where a write fails.
pub fn go_on(tx: &mut Transaction, turn: TurnId, thread: ThreadId) -> Result<Option<Action>> {
    let agent = tx.state().fork(turn).and_then(|fork| fork.agent.clone());
    agent.map_or(Ok(()), |agent| load_changes(tx, &agent))?;
    let delivery: DeliveryId = tx.page.id_ahead(0)?.into();
    let reading = tx.reading();
    let (Some(fork), Some(found)) = (reading.state.fork(turn).cloned(), reading.view.threads.get(&thread)) else {
        return Ok(None);
    };
    let Some(agent) = fork.agent.clone() else { return Ok(None) };
    let new: Vec<_> = found.shared().filter(|message| !message.picked_up_by(turn)).collect();
    let Some(newest) = new.last().map(|message| message.id) else { return Ok(None) };
    let bundle = Bundle { thread: found, messages: new };
    let messages: Vec<MessageId> = bundle.messages.iter().map(|message| message.id).collect();
    let (told, news) = told(tx, delivery, &bundle, &changed::since(&reading, found, &agent))?;
    let scratch = Scratch::of(turn);
    let prompt = prompts::resume_prompt(&scratch.named, &news, &told);
    let action = Action::Resume { turn, agent_id: agent, prompt };
    let taken = Entry {
        turn: Some(turn),
        messages: messages.clone(),
        delivery: Some(delivery),
        by: Some(By::Fork),
        rule: Some("R80".to_owned()),
        ..entry_of(tx, Kind::Taken, thread, newest)
    };
    tx.journal(&[taken])?;
    scratch.make();
    let actor = tx.fork_actor(&fork);
    tx.page.append(tx.now, vec![pickup(thread, messages, None, actor)], false)?;
    Ok(Some(action))
}

/// Loads what [`changed::since`] looks at.
fn load_changes(tx: &mut Transaction, agent: &AgentId) -> Result<()> {
    let turns = tx.state().forks.iter().filter(|turn| turn.agent.as_ref() == Some(agent));
    let threads: Vec<_> = turns.map(|turn| turn.thread.clone()).collect();
    if threads.iter().any(Option::is_none) {
        // It came to its threads by itself (R45).
        return tx.page.load_all();
    }
    let here = threads.into_iter().flatten().filter(|(page, _)| *page == tx.page.page.id).map(|(_, id)| id.into());
    tx.page.load(here.collect::<Vec<_>>().into_iter())?;
    match changed::began(&tx.reading(), agent) {
        Some((began, _)) => tx.page.load_since(began),
        None => Ok(()),
    }
}

/// Returns a delivery into a prompt, and what changed since an agent's last turn (R92), behind one fence.
fn told(
    tx: &Transaction,
    delivery: DeliveryId,
    bundle: &Bundle<'_>,
    changes: &[Change<'_>],
) -> Result<(String, String)> {
    let fence = Fence::around(bundle.texts().chain(changes.iter().filter_map(Change::text)))?;
    let told = context::delivery(&fence, &tx.page.page.id, delivery, std::slice::from_ref(bundle), false);
    Ok((told, context::changes(&fence, changes)))
}

/// A turn's scratch directory as its prompt names it, and whether it is to be made.
struct Scratch {
    named: String,
    offered: Option<TurnId>,
}

impl Scratch {
    /// Offers none where none can be made.
    fn of(turn: TurnId) -> Scratch {
        match scratch::prepare() {
            Ok(()) => Scratch { named: scratch::path(turn).to_string_lossy().into_owned(), offered: Some(turn) },
            Err(error) => {
                errors::note(&format!("scratch directory {}: {error}", scratch::path(turn).display()));
                Scratch { named: "none (it could not be made): write no files".to_owned(), offered: None }
            }
        }
    }

    /// Makes it, once the turn is journalled: one of a turn that nobody knows would never go.
    fn make(&self) {
        let Some(turn) = self.offered else { return };
        if let Err(error) = scratch::make(turn) {
            errors::note(&format!("scratch directory {}: {error}", scratch::path(turn).display()));
        }
    }
}

/// Names a turn (R36). With another agent than it has, the one with tool-use evidence wins, and both are journalled (R37). Naming an
/// ended turn makes its agent known (R38). Returns whether the agent is to go on.
///
/// # Errors
/// Where the journal can't be written.
pub fn name_turn(
    tx: &mut Transaction,
    turn: TurnId,
    agent: &AgentId,
    naming: Naming,
    prompt: Option<String>,
    tool_use: Option<String>,
) -> Result<bool> {
    let Some(fork) = tx.state().fork(turn) else { return Ok(false) };
    let same = fork.agent.as_ref() == Some(agent);
    let (page, thread) = fork.thread.clone().map_or((None, None), |(page, thread)| (Some(page), Some(thread)));
    if fork.ended.is_some() {
        tx.journal(&[Entry { agent: Some(agent.clone()), ..Entry::new(tx.now, Kind::Agent) }])?;
        return Ok(false);
    }
    let wins = fork.agent.is_none() || naming > fork.naming.unwrap_or(Naming::Resume) && naming == Naming::AgentTool;
    if same && (fork.begun.is_some() && fork.naming >= Some(naming)) {
        return Ok(true);
    }
    let named = Entry {
        page,
        thread,
        turn: Some(turn),
        agent: Some(agent.clone()),
        naming: Some(naming),
        by: Some(By::Fork),
        prompt,
        tool_use,
        rule: Some("R36".to_owned()),
        ..Entry::new(tx.now, Kind::Named)
    };
    tx.journal(&[named])?;
    Ok(same || wins)
}

/// Returns an entry of a thread and its message.
pub fn entry_of(tx: &Transaction, kind: Kind, thread: ThreadId, message: MessageId) -> Entry {
    Entry {
        page: Some(tx.page.page.id.clone()),
        thread: Some(thread),
        message: Some(message),
        ..Entry::new(tx.now, kind)
    }
}
