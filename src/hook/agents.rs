//! What hooks tell of agents: whose a call is (section 11), a fork's boundary (section 12), and the evidence of how runs begin and
//! end (sections 6 and 13).

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{WAIT, guard, say};
use crate::client::claude_code::{self, CONTEXT_LIMIT};
use crate::client::{Agent, Decision, Event, Prompted, Task, What};
use crate::context;
use crate::desk::Desk;
use crate::errors;
use crate::forks::name_turn;
use crate::ids::{AgentId, DeliveryId, MessageId, SessionId, ThreadId, TurnId};
use crate::page::Page;
use crate::page::event::{By, pickup};
use crate::page::view::{Thread, View};
use crate::place::{Dir, Env, read_plain};
use crate::pointer;
use crate::rules::deliver::{Bundle, Gone};
use crate::rules::holding::{Holder, Reading};
use crate::rules::way::Way;
use crate::rules::words::{self, Verdict};
use crate::rules::{self, holding, prompts, take};
use crate::schedule;
use crate::schedule::record::{Change, RunOutcome};
use crate::session::Session;
use crate::session::journal::{Action, Cost, Entry, Evidence, Kind, Naming};
use crate::session::lane::{self, Lane};
use crate::session::state::{ForkTurn, LAPSE, RENEWAL, State};
use crate::text::{Fence, utf16};
use crate::transaction::Transaction;

/// Decides a shell call (R65, R66): first what nobody may run (R70), then who an agent is, then what it may run (R67 to R69).
pub fn identity(event: &Event<'_>, shell: words::Shell, command: &str, input: &RawValue) -> Decision {
    let may = words::may_name_leaf(command, shell);
    if may && let Some(forbidden) = words::plumbing(command, shell) {
        return Decision::Deny(way_out(forbidden));
    }
    let env = Env::default();
    let decided = match &event.agent {
        Agent::Main | Agent::Other(_) if env.var("LEAF_TURN").is_some() => headless_call(&env, event, shell, command),
        Agent::Main if !may || !words::has_word(command) => return Decision::Silent,
        Agent::Main => mains_call(event).map(|()| Decision::Silent),
        Agent::Nameless => Err(anyhow::anyhow!("the client gave an agent_id that is none")),
        Agent::Other(agent) => agents_call(event, agent, shell, command, input),
    };
    decided.unwrap_or_else(|error| {
        errors::note(&format!("hook: identity: {error:#}"));
        if event.agent == Agent::Main || !words::has_word(command) {
            return Decision::Silent;
        }
        // Identity fails closed (R73).
        Decision::Deny(format!(
            "leaf can't tell whose call this is ({error:#}), and a fork's write must never be taken for main's: run it again, \
             or leave the thread to main"
        ))
    })
}

/// Says why a command is nobody's here (R70), and what to do instead.
fn way_out(forbidden: words::Forbidden) -> String {
    let verb = forbidden.verb();
    match forbidden {
        words::Forbidden::AgentId => {
            format!(
                "leaf: {verb} is written by leaf's hook alone: leave it out, and the command acts for whoever runs it"
            )
        }
        words::Forbidden::Plumbing(_) => format!(
            "leaf: `leaf {verb}` is for the client's hooks alone: `leaf page state` shows what stands, `leaf thread reply` answers"
        ),
        words::Forbidden::User("trust") => {
            format!("leaf: `leaf {verb}` is the user's decision, made in a terminal of their own: ask them for it")
        }
        words::Forbidden::User(_) => format!(
            "leaf: `leaf {verb}` speaks as the user, who writes from a terminal of their own: to say something in a thread, \
             leaf thread reply THREAD TEXT --unasked"
        ),
    }
}

/// A session as the hooks of its agents find it.
struct Known {
    desk: Desk,
    home: Dir,
    session: Session,
    state: State,
}

impl Known {
    fn open(event: &Event<'_>) -> Result<Option<Known>> {
        Known::of(&event.session)
    }

    fn of(session: &SessionId) -> Result<Option<Known>> {
        let desk = Desk::new(WAIT)?;
        let Some(home) = desk.home()? else { return Ok(None) };
        let Some(session) = Session::open(&home, session)? else { return Ok(None) };
        let state = session.state()?;
        Ok(Some(Known { desk, home, session, state }))
    }

    fn read_again(&mut self) -> Result<()> {
        self.state = self.session.state()?;
        Ok(())
    }

    /// Appends entries under the session's lock.
    fn journal(&mut self, entries: &[Entry]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut session = self.session.clone().lock(self.desk.deadline())?;
        session.append(entries)?;
        self.state = session.state.clone();
        Ok(())
    }

    /// Opens the transaction of a turn's page; of the page that came last for a run that leaf did not start.
    fn transaction(&self, turn: &ForkTurn) -> Result<Option<Transaction>> {
        let page = match &turn.thread {
            Some((page, _)) => Page::open(&self.home, page)?,
            None => self.desk.held(&self.home, &self.session.record)?.into_iter().next(),
        };
        let Some(page) = page else { return Ok(None) };
        let deadline = self.desk.deadline();
        Transaction::with(&self.desk, page.lock(deadline)?, &self.session, deadline).map(Some)
    }

    /// Returns the agent's own open turn of this generation.
    fn own_turn(&self, agent: &AgentId) -> Option<&ForkTurn> {
        self.state.forks.iter().rev().find(|turn| {
            turn.ended.is_none() && turn.agent.as_ref() == Some(agent) && turn.generation == self.state.generation
        })
    }

    /// Returns the open turn that an agent acts in (R67).
    fn acts_in(&self, agent: &AgentId) -> Option<&ForkTurn> {
        self.state.open_fork(agent).filter(|turn| turn.generation == self.state.generation)
    }

    /// Returns the last turn of an agent, open or not; of a helper the last of its fork's.
    fn last_turn(&self, agent: &AgentId) -> Option<&ForkTurn> {
        let mut agent = agent;
        // A helper may have been started by a helper.
        for _ in 0..16 {
            let of = |turn: &&ForkTurn| turn.agent.as_ref() == Some(agent);
            if let Some(turn) = self.state.forks.iter().rev().find(of) {
                return Some(turn);
            }
            agent = self.state.agents.get(agent)?.as_ref()?;
        }
        None
    }

    /// Denies a change that the guard forbids, in this turn, and journals it (R5): denied it is even where that fails.
    fn guarded(
        &mut self,
        rule: &'static str,
        what: &str,
        turn: Option<&ForkTurn>,
        agent: Option<&AgentId>,
    ) -> Decision {
        let open = turn.filter(|turn| turn.ended.is_none() && turn.generation == self.state.generation);
        let (page, thread) = turn.and_then(|turn| turn.thread.clone()).unzip();
        let entry = Entry {
            page,
            thread,
            turn: turn.map(|turn| turn.id),
            name: turn.map(|turn| turn.name.clone()),
            by: Some(By::Fork),
            agent: agent.cloned().or_else(|| turn?.agent.clone()),
            why: Some(what.to_owned()),
            rule: Some(rule.to_owned()),
            ..Entry::new(self.desk.now(), Kind::Refused)
        };
        if let Err(error) = self.journal(&[entry]) {
            errors::note(&format!("hook: guard: {error:#}"));
        }
        Decision::Deny(guard::denial(rule, what, open.map(|turn| turn.id)))
    }

    /// Returns the scheduled fork's run that an agent is at: it is marked, and takes no thread (Words: *scheduled*).
    fn scheduled(&self, agent: &AgentId) -> Option<&schedule::record::Run> {
        self.state.schedule.run_of(agent).filter(|run| run.over.is_none())
    }

    /// Returns the run of a scheduled fork that an Agent call's description names, where it is not over.
    fn scheduled_turn(&self, description: &str) -> Option<TurnId> {
        let run = self.state.schedule.run(take::turn_of(description)?)?;
        run.over.is_none().then_some(run.issue.run)
    }

    /// A scheduled fork's run began in the session: its agent is known.
    fn begin_scheduled(&mut self, run: TurnId, agent: &AgentId) -> Result<()> {
        let change = Change::Begun { run, process: None, agent: Some(agent.clone()) };
        let entry = Entry::schedule(self.desk.now(), change);
        self.journal(&[entry])
    }

    fn end_scheduled(&mut self, run: TurnId, outcome: RunOutcome, text: &str) -> Result<()> {
        schedule::in_session::end(
            &self.desk,
            &self.home,
            &self.session.record.id,
            run,
            outcome,
            text,
            Cost::default(),
        )?;
        self.read_again()
    }

    /// Whether the guard stands in this session (R114, R115).
    fn is_guarded(&self) -> bool {
        self.session.record.switches.guard
    }

    /// Whether a fork runs, or could begin to while a call is in flight (R72).
    fn forks_may_run(&self) -> bool {
        self.state.forks_may_run(lane::holder(&self.session, Lane::Follower).is_some())
    }

    fn end(&mut self, turn: TurnId, evidence: Evidence, text: &str, failed: bool) -> Result<()> {
        let Some(fork) = self.state.fork(turn) else { return Ok(()) };
        if let Some(mut tx) = self.transaction(fork)? {
            tx.end(turn, evidence, text, failed)?;
        }
        self.read_again()
    }
}

/// Decides a call of a tool that writes a file (R114). Main's and workers' pass, and so does any whose agent can't be told:
/// R73 asks for more only of a call that names `leaf`.
pub fn edit(event: &Event<'_>, tool: &str, input: &RawValue) -> Decision {
    let env = Env::default();
    let decided = match (&event.agent, env.var("LEAF_TURN").is_some()) {
        (_, true) => headless_edit(&env, event, tool, input),
        (Agent::Main | Agent::Nameless, false) => return Decision::Silent,
        (Agent::Other(agent), false) => agents_edit(event, agent, tool, input),
    };
    decided.unwrap_or_else(|error| {
        errors::note(&format!("hook: guard: {error:#}"));
        Decision::Silent
    })
}

/// Decides another agent's edit.
fn agents_edit(event: &Event<'_>, agent: &AgentId, tool: &str, input: &RawValue) -> Result<Decision> {
    let Some(mut known) = Known::open(event)? else { return Ok(Decision::Silent) };
    let record = known.session.record.clone();
    // Its first call may be this one (R36).
    let path = || claude_code::edited_path(tool, input);
    let forbidden = |turn: Option<TurnId>| {
        let path = path().filter(|_| record.switches.guard)?;
        let (ground, disk) = guard::ground(event, &record, turn);
        let guarded = ground.edit(&disk, &path)?;
        Some(guard::edits(tool, &path, &guarded))
    };
    if let Some(denied) = name(event, agent, &mut known, || forbidden(None).is_some())? {
        return Ok(denied);
    }
    if !known.state.agents.contains_key(agent) {
        return Ok(Decision::Silent);
    }
    if known.state.schedule.run_of(agent).is_some() {
        // What a scheduled fork may change, its mode says (R114).
        return Ok(Decision::Silent);
    }
    goes_on(&mut known, agent)?;
    let turn = known.last_turn(agent).cloned();
    Ok(match forbidden(turn.as_ref().map(|turn| turn.id)) {
        Some(what) => known.guarded("R114", &what, turn.as_ref(), Some(agent)),
        None => Decision::Silent,
    })
}

/// Decides an edit in a headless run of leaf's (R118): whatever agent it is, it acts in the run's turn.
fn headless_edit(env: &Env, event: &Event<'_>, tool: &str, input: &RawValue) -> Result<Decision> {
    let Some((mut known, turn)) = headless(env)? else { return Ok(Decision::Silent) };
    let Some(path) = claude_code::edited_path(tool, input).filter(|_| known.is_guarded()) else {
        return Ok(Decision::Silent);
    };
    let (ground, disk) = guard::ground(event, &known.session.record, Some(turn.id));
    Ok(match ground.edit(&disk, &path) {
        Some(guarded) => known.guarded("R114", &guard::edits(tool, &path, &guarded), Some(&turn), None),
        None => Decision::Silent,
    })
}

/// Returns the turn that a headless run of leaf's acts in, with its session (R118).
fn headless(env: &Env) -> Result<Option<(Known, ForkTurn)>> {
    let (Some(turn), Some(session)) = (env.text("LEAF_TURN"), env.text("LEAF_SESSION")) else { return Ok(None) };
    let (Ok(turn), Ok(session)) = (turn.parse::<TurnId>(), session.parse::<SessionId>()) else { return Ok(None) };
    let Some(known) = Known::of(&session)? else { return Ok(None) };
    let Some(turn) = known.state.fork(turn).cloned() else { return Ok(None) };
    Ok(Some((known, turn)))
}

/// Records main's `leaf` call where a fork's could be in flight beside it (R72).
fn mains_call(event: &Event<'_>) -> Result<()> {
    let Some(mut known) = Known::open(event)? else { return Ok(()) };
    if !known.forks_may_run() {
        return Ok(());
    }
    let call = call(&known, None, event, false);
    known.journal(&[call])
}

fn call(known: &Known, agent: Option<&AgentId>, event: &Event<'_>, marked: bool) -> Entry {
    Entry {
        agent: agent.cloned(),
        tool_use: Some(event.tool_use.as_deref().unwrap_or_default().to_owned()),
        marked,
        ..Entry::new(known.desk.now(), Kind::Call)
    }
}

/// A longer `meta.json` is none of the client's, bytes.
const META: u64 = 1 << 20;

/// What an agent's `meta.json` tells.
#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    description: String,
    #[serde(default, rename = "parentAgentId")]
    parent: Option<AgentId>,
    #[serde(default, rename = "toolUseId")]
    tool_use: Option<String>,
}

/// Reads an agent's `meta.json`, which the client writes before the agent's first call; `None` where it can't be read.
fn meta(event: &Event<'_>, agent: &AgentId) -> Option<Meta> {
    let transcript = event.transcript.as_deref()?;
    let directory = transcript.strip_suffix(".jsonl").unwrap_or(transcript);
    let path = format!("{directory}/subagents/agent-{agent}.meta.json");
    serde_json::from_slice(&read_plain(Path::new(&path), META).ok()?).ok()
}

/// Decides another agent's call (R66).
fn agents_call(
    event: &Event<'_>,
    agent: &AgentId,
    shell: words::Shell,
    command: &str,
    input: &RawValue,
) -> Result<Decision> {
    let Some(mut known) = Known::open(event)? else { return Ok(Decision::Silent) };
    let record = known.session.record.clone();
    let matters = || {
        let (ground, disk) = guard::ground(event, &record, None);
        words::judge(command, shell) != Verdict::Passes
            || record.switches.guard && rules::guard::changes(command, shell, &ground, &disk).is_some()
    };
    if let Some(denied) = name(event, agent, &mut known, matters)? {
        return Ok(denied);
    }
    if !known.state.agents.contains_key(agent) {
        // A worker: its calls pass as they are (R65), and count beside a fork's (R72).
        if words::has_word(command) && known.forks_may_run() {
            let call = call(&known, Some(agent), event, false);
            known.journal(&[call])?;
        }
        return Ok(Decision::Silent);
    }
    goes_on(&mut known, agent)?;
    let verdict = words::judge(command, shell);
    let ours = known.state.schedule.run_of(agent).is_some();
    if !ours && matches!(verdict, Verdict::Passes | Verdict::Mark { .. }) {
        let turn = known.last_turn(agent).cloned();
        if let Some(denied) = guarded_line(event, &mut known, turn.as_ref(), Some(agent), shell, command) {
            return Ok(denied);
        }
    }
    if verdict == Verdict::Passes {
        return Ok(Decision::Silent);
    }
    let turn = known.acts_in(agent);
    if turn.is_none() && known.scheduled(agent).is_none() {
        return Ok(Decision::Deny(
            "leaf: this agent has no open turn (R68), so that nothing it writes counts: leave the thread to main, which gets its \
             messages, and say in your final text what you found"
                .to_owned(),
        ));
    }
    match verdict {
        Verdict::Passes => Ok(Decision::Silent),
        Verdict::Denied(reason) => Ok(Decision::Deny(format!(
            "leaf: in a fork `leaf` runs as the one leading command of a line, so that it is known whose it is (R69; here {}): put it \
             first, long text in a quoted heredoc behind it (leaf thread reply REF <<'END'); or write a file in your scratch \
             directory and use --file; to search for the word, use the Grep tool",
            words_of(reason)
        ))),
        Verdict::Mark { insert_at } => {
            let now = known.desk.now();
            let mut entries = vec![call(&known, Some(agent), event, true)];
            if let Some(turn) = turn
                && (now.since(turn.renewed) >= RENEWAL || turn.ending.is_some() || !turn.rests_on.is_empty())
            {
                entries.extend(renewal(&known, turn)?);
            }
            // A call that can't be rewritten is denied (R73), and was none.
            let (before, after) = command.split_at(insert_at);
            let marked = rewritten(input, [("command", format!("{before} --agent-id {agent}{after}").into())])?;
            known.journal(&entries)?;
            Ok(marked)
        }
    }
}

/// Denies a line that certainly changes the project (R115).
fn guarded_line(
    event: &Event<'_>,
    known: &mut Known,
    turn: Option<&ForkTurn>,
    agent: Option<&AgentId>,
    shell: words::Shell,
    command: &str,
) -> Option<Decision> {
    if !known.is_guarded() {
        return None;
    }
    let (ground, disk) = guard::ground(event, &known.session.record, turn.map(|turn| turn.id));
    let change = rules::guard::changes(command, shell, &ground, &disk)?;
    Some(known.guarded("R115", &guard::would_change(&change), turn, agent))
}

/// Decides a shell call of a headless run of leaf's (R118): it is a fork's, and needs no mark.
fn headless_call(env: &Env, event: &Event<'_>, shell: words::Shell, command: &str) -> Result<Decision> {
    let Some((mut known, turn)) = headless(env)? else { return Ok(Decision::Silent) };
    Ok(guarded_line(event, &mut known, Some(&turn), None, shell, command).unwrap_or(Decision::Silent))
}

fn words_of(reason: words::Reason) -> &'static str {
    match reason {
        words::Reason::NotLeading => "it doesn't lead",
        words::Reason::Substituted => "it is in a substitution",
        words::Reason::ByPath => "it is named by a path",
        words::Reason::Spelled => "it is spelled with quotes or escapes",
        words::Reason::Wrapped => "another command runs it",
        words::Reason::Interpreted => "the word is in a text that something may run",
        words::Reason::Heredoc => "its heredoc is not quoted, or is not the only one",
        words::Reason::Uncertain => "a variable or pattern could spell it",
        words::Reason::PowerShell => "PowerShell",
    }
}

/// Any later hook of an agent takes the provisional end of its run away (R78).
fn goes_on(known: &mut Known, agent: &AgentId) -> Result<()> {
    match known.own_turn(agent).filter(|turn| turn.ending.is_some()).cloned() {
        Some(turn) => match renewal(known, &turn)? {
            Some(entry) => known.journal(&[entry]),
            None => Ok(()),
        },
        None => Ok(()),
    }
}

/// Returns the entry that renews a turn; only a lapsed one's needs a look at the page (R43).
fn renewal(known: &Known, turn: &ForkTurn) -> Result<Option<Entry>> {
    let now = known.desk.now();
    if now.since(turn.renewed) < LAPSE {
        return Ok(holding::renewal(&View::default(), turn, now));
    }
    let page = match &turn.thread {
        Some((page, _)) => Page::open(&known.home, page)?,
        None => known.desk.held(&known.home, &known.session.record)?.into_iter().next(),
    };
    let view = page.map(|page| page.hot_view()).transpose()?;
    Ok(view.and_then(|view| holding::renewal(&view, turn, now)))
}

/// Names an agent that is not known yet: by its `meta.json` a turn that awaits it (R36), or a helper by who started it. Returns the
/// denial of R39 where that can't be read and the call `matters`.
fn name(event: &Event<'_>, agent: &AgentId, known: &mut Known, matters: impl Fn() -> bool) -> Result<Option<Decision>> {
    if known.state.agents.contains_key(agent) {
        return Ok(None);
    }
    let awaits = known.state.forks.iter().any(|turn| turn.ended.is_none() && turn.agent.is_none())
        || known.state.schedule.runs.iter().any(|run| run.awaits_agent());
    let could_be_ours = awaits || known.state.unnamed_ended;
    if !could_be_ours && known.state.agents.is_empty() {
        return Ok(None);
    }
    let Some(meta) = meta(event, agent) else {
        if could_be_ours && event.forked && matters() {
            return Ok(Some(Decision::Deny(
                "leaf: it is not known yet whether this is one of leaf's forks (R39): run it again in a moment"
                    .to_owned(),
            )));
        }
        return Ok(None);
    };
    if let Some(turn) = take::turn_of(&meta.description)
        && let Some(fork) = known.state.fork(turn)
    {
        let prompt = event.prompt.as_deref().map(ToOwned::to_owned);
        match known.transaction(fork)? {
            Some(mut tx) => drop(name_turn(&mut tx, turn, agent, Naming::Meta, prompt, meta.tool_use)?),
            None => {
                known.journal(&[Entry { agent: Some(agent.clone()), ..Entry::new(known.desk.now(), Kind::Agent) }])?
            }
        }
        known.read_again()?;
    } else if let Some(run) = known.scheduled_turn(&meta.description) {
        known.begin_scheduled(run, agent)?;
    } else if could_be_ours && take::turn_of(&meta.description).is_some() {
        // A turn of this client's under another session: its agent is known, and has no open turn here.
        known.journal(&[Entry { agent: Some(agent.clone()), ..Entry::new(known.desk.now(), Kind::Agent) }])?;
    } else if let Some(parent) = meta.parent.filter(|parent| known.state.agents.contains_key(parent)) {
        known.journal(&[helper(known, agent, parent)])?;
    }
    Ok(None)
}

fn helper(known: &Known, agent: &AgentId, parent: AgentId) -> Entry {
    Entry { agent: Some(agent.clone()), parent: Some(parent), ..Entry::new(known.desk.now(), Kind::Agent) }
}

/// Decides the start of an agent: a known agent may not make forks (R116); a fork that main was asked to start gets its work
/// (R117).
pub fn launch(event: &Event<'_>, fork: bool, prompt: &str, input: &RawValue) -> Decision {
    let headless = Env::default().var("LEAF_TURN").is_some();
    let decide = || -> Result<Decision> {
        if headless {
            return Ok(if fork { no_forks() } else { Decision::Silent });
        }
        let agent = match &event.agent {
            Agent::Other(agent) => agent,
            Agent::Main => return work_for(event, prompt, input),
            Agent::Nameless => return Ok(Decision::Silent),
        };
        let Some(mut known) = Known::open(event)? else { return Ok(Decision::Silent) };
        // Its first call may be this one (R36).
        name(event, agent, &mut known, || false)?;
        if !known.state.agents.contains_key(agent) {
            return Ok(Decision::Silent);
        }
        goes_on(&mut known, agent)?;
        if !fork {
            return Ok(Decision::Silent);
        }
        Ok(no_forks())
    };
    match decide() {
        Ok(decision) => decision,
        Err(error) => {
            errors::note(&format!("hook: launch: {error:#}"));
            match prompts::turn_to_start(prompt) {
                // Without its work the fork would be started for nothing.
                Some(_) => Decision::Deny(format!("leaf can't read what this fork is to do ({error:#}): run it again")),
                None => Decision::Silent,
            }
        }
    }
}

fn no_forks() -> Decision {
    let reason = "leaf: a fork makes no forks (R116): do it yourself, or with an agent of another type";
    Decision::Deny(reason.to_owned())
}

/// Puts the work into the call by which main starts a fork that it was asked for; denies it where that fork's turn is over, or runs
/// already. Whatever main wrote else in the call becomes what names the turn (R29, R36).
fn work_for(event: &Event<'_>, prompt: &str, input: &RawValue) -> Result<Decision> {
    let Some(turn) = prompts::turn_to_start(prompt) else { return Ok(Decision::Silent) };
    let over = || {
        Decision::Deny(format!(
            "leaf: the turn of this fork ({turn}) is over, and its thread is yours again or answered: `leaf page state` shows which"
        ))
    };
    let Some(mut known) = Known::open(event)? else { return Ok(over()) };
    if let Some(run) = known.state.schedule.run(turn) {
        let Some((name, prompt)) = schedule::in_session::work(&known.desk, &known.session, &known.state, run)? else {
            return Ok(over());
        };
        let description = schedule::in_session::description(run);
        let given = Change::Begun { run: run.issue.run, process: None, agent: None };
        let entry = Entry::schedule(known.desk.now(), given);
        known.journal(&[entry])?;
        return call_for(input, &name, &description, &prompt);
    }
    let Some(fork) = known.state.fork(turn) else { return Ok(over()) };
    // It may be over by time alone (R38), which nobody wrote yet.
    let stands = fork.stands(known.state.generation, true, true, known.desk.now());
    Ok(match &fork.action {
        _ if !stands.runs() => over(),
        Some(Action::Spawn { name, description, prompt, .. }) if fork.way == Some(Way::Subagent) => {
            return call_for(input, name, description, prompt);
        }
        _ => Decision::Deny(format!("leaf: the fork of this turn ({turn}) runs already: go on with your own work")),
    })
}

/// Rewrites a call of the Agent tool so that it starts this fork.
fn call_for(input: &RawValue, name: &str, description: &str, prompt: &str) -> Result<Decision> {
    let fork = [
        ("subagent_type", "fork".into()),
        ("name", name.into()),
        ("description", description.into()),
        ("prompt", prompt.into()),
        ("run_in_background", true.into()),
    ];
    rewritten(input, fork)
}

/// Rewrites a tool's input, but for half a surrogate pair in it, which the client replaces too.
fn rewritten<const N: usize>(input: &RawValue, with: [(&str, serde_json::Value); N]) -> Result<Decision> {
    let mut input = claude_code::object(input).context("a tool's input is no object")?;
    input.extend(with.map(|(key, value)| (key.to_owned(), value)));
    Ok(Decision::Rewrite(input.into()))
}

/// Takes what the client tells of runs besides the agents' own hooks (R36, R78). Returns what it opened for that; `Ok(None)` where leaf
/// never heard of the session.
pub fn evidence(event: &Event<'_>) -> Result<Option<(Desk, Dir, Session)>> {
    let Some(mut known) = Known::open(event)? else { return Ok(None) };
    take_evidence(event, &mut known)?;
    Ok(Some((known.desk, known.home, known.session)))
}

fn take_evidence(event: &Event<'_>, known: &mut Known) -> Result<()> {
    match &event.what {
        What::Launched { description, agent } => {
            if let Some(fork) = take::turn_of(description).and_then(|turn| known.state.fork(turn)).cloned() {
                let prompt = event.prompt.as_deref().map(ToOwned::to_owned);
                let tool_use = event.tool_use.as_deref().map(ToOwned::to_owned);
                if let Some(mut tx) = known.transaction(&fork)? {
                    name_turn(&mut tx, fork.id, agent, Naming::AgentTool, prompt, tool_use)?;
                }
            } else if let Some(run) = known.scheduled_turn(description) {
                known.begin_scheduled(run, agent)?;
            } else if let Agent::Other(parent) = &event.agent
                && known.state.agents.contains_key(parent)
            {
                let entry = helper(known, agent, parent.clone());
                known.journal(&[entry])?;
            }
            Ok(())
        }
        What::NotLaunched { description } => {
            if let Some(run) = known.scheduled_turn(description) {
                return known.end_scheduled(run, RunOutcome::Failed, "the client refused to start it");
            }
            match take::turn_of(description).filter(|turn| known.state.fork(*turn).is_some()) {
                // A refused launch ends the turn (R31, R35).
                Some(turn) => known.end(turn, Evidence::Failed, "the client refused to start it", true),
                None => Ok(()),
            }
        }
        What::TaskStopped(task) if scheduled_of(known, task).is_some() => match scheduled_of(known, task) {
            Some(run) => known.end_scheduled(run, RunOutcome::Stopped, "it was stopped"),
            None => Ok(()),
        },
        What::TaskStopped(task) => match open_of(known, task) {
            Some(turn) => known.end(turn, Evidence::TaskStop, "", true),
            None => Ok(()),
        },
        What::Prompt(Prompted::Notification(told)) => {
            if let Some(run) = scheduled_of(known, &told.agent) {
                let outcome = if told.failed { RunOutcome::Failed } else { RunOutcome::Completed };
                return known.end_scheduled(run, outcome, &told.text);
            }
            let Some(turn) = open_of(known, &told.agent) else { return Ok(()) };
            let rests = known.state.fork(turn).is_some_and(|turn| !turn.rests_on.is_empty());
            // Only the run's own tool use ends it (R78, R79); a rest is ended by a failure alone (R80).
            let own =
                known.state.fork(turn).is_some_and(|turn| turn.tool_use.is_some() && turn.tool_use == told.tool_use);
            if !own || (rests && !told.failed) {
                return Ok(());
            }
            known.end(turn, Evidence::Notification, &told.text, told.failed)
        }
        What::Stop { background: Some(background), .. } => listed(known, background),
        _ => Ok(()),
    }
}

/// Returns the run of a scheduled fork that an agent is at.
fn scheduled_of(known: &Known, agent: &str) -> Option<TurnId> {
    Some(known.scheduled(&agent.parse().ok()?)?.issue.run)
}

fn open_of(known: &Known, agent: &str) -> Option<TurnId> {
    let open = |turn: &&ForkTurn| {
        turn.ended.is_none() && turn.begun.is_some() && turn.agent.as_ref().is_some_and(|own| own.as_str() == agent)
    };
    known.state.forks.iter().rev().find(open).map(|turn| turn.id)
}

/// Holds main's list of what goes on against the forks that run (R78, R80).
fn listed(known: &mut Known, background: &[Task]) -> Result<()> {
    let now = known.desk.now();
    let on = |id: &str| background.iter().any(|task| task.id == id);
    let mut entries = Vec::new();
    for turn in known.state.forks.iter().filter(|turn| turn.ended.is_none() && turn.begun.is_some()) {
        let Some(agent) = &turn.agent else { continue };
        let of = |kind| Entry { turn: Some(turn.id), by: Some(By::Fork), ..Entry::new(now, kind) };
        if !turn.rests_on.is_empty() {
            if !turn.rests_on.iter().any(|task| on(task)) && turn.rest_over.is_none() {
                entries.push(Entry { rule: Some("R80".to_owned()), ..of(Kind::Resting) });
            }
        } else if on(agent.as_str()) {
            if !turn.listed {
                entries.push(of(Kind::Background));
            }
        } else if turn.listed && turn.ending.is_none() {
            entries.push(Entry { evidence: Some(Evidence::Missing), rule: Some("R78".to_owned()), ..of(Kind::Ending) });
        }
    }
    known.journal(&entries)
}

/// Takes an event of an agent that is not main.
pub fn event(event: &Event<'_>) -> Result<()> {
    let Agent::Other(agent) = &event.agent else { return Ok(()) };
    let Some(mut known) = Known::open(event)? else { return Ok(()) };
    match &event.what {
        What::Boundary { tasks } => boundary(event, agent, &mut known, tasks),
        What::AgentStarted => began(agent, &mut known),
        What::AgentStopped { background, .. } => stopped(agent, &mut known, background),
        What::StopFailure(text) => {
            if let Some(run) = known.scheduled(agent).map(|run| run.issue.run) {
                return known.end_scheduled(run, RunOutcome::Failed, text);
            }
            match known.own_turn(agent).filter(|turn| turn.begun.is_some()).map(|turn| turn.id) {
                Some(turn) => known.end(turn, Evidence::StopFailure, text, true),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Marks that a run of a known agent began (R79); one that leaf did not start opens a turn, named (R45).
fn began(agent: &AgentId, known: &mut Known) -> Result<()> {
    if known.state.agents.get(agent).is_none_or(Option::is_some) || known.state.schedule.run_of(agent).is_some() {
        return Ok(());
    }
    let now = known.desk.now();
    let entry = match known.own_turn(agent) {
        Some(turn) if turn.begun.is_none() => Entry {
            turn: Some(turn.id),
            by: Some(By::Fork),
            agent: Some(agent.clone()),
            rule: Some("R79".to_owned()),
            ..Entry::new(now, Kind::Begun)
        },
        Some(turn) => match renewal(known, turn)? {
            Some(entry) => entry,
            // Another took what it held (R43).
            None => return Ok(()),
        },
        None => {
            let name = known.state.forks.iter().rev().find(|turn| turn.agent.as_ref() == Some(agent));
            Entry {
                turn: Some(TurnId::new()?),
                by: Some(By::Fork),
                agent: Some(agent.clone()),
                name: name.map(|turn| turn.name.clone()),
                rule: Some("R45".to_owned()),
                ..Entry::new(now, Kind::Begun)
            }
        }
    };
    known.journal(&[entry])
}

/// An agent stopped: provisional evidence of its run's end (R78), or a rest while work of its own goes on (R80).
fn stopped(agent: &AgentId, known: &mut Known, background: &[Task]) -> Result<()> {
    let now = known.desk.now();
    let mut entries = Vec::new();
    // Before a run has begun, a stop is an earlier run's (R79).
    if let Some(turn) = known.own_turn(agent).filter(|turn| turn.begun.is_some()) {
        let own = |task: &&Task| {
            turn.own_tasks.contains(&task.id)
                || (task.agent
                    && task.id != agent.as_str()
                    && known
                        .state
                        .agents
                        .iter()
                        .any(|(id, parent)| id.as_str() == task.id && parent.as_ref() == Some(agent)))
        };
        let tasks: Vec<String> = background.iter().filter(own).map(|task| task.id.clone()).collect();
        let of = |kind| Entry {
            turn: Some(turn.id),
            by: Some(By::Fork),
            agent: Some(agent.clone()),
            ..Entry::new(now, kind)
        };
        entries.push(if tasks.is_empty() {
            Entry { evidence: Some(Evidence::SubagentStop), rule: Some("R78".to_owned()), ..of(Kind::Ending) }
        } else {
            Entry { tasks, rule: Some("R80".to_owned()), ..of(Kind::Resting) }
        });
    }
    entries.extend(calls_over(known, agent));
    known.journal(&entries)
}

/// An actor's calls are over with its boundary or its stop (R72).
fn calls_over(known: &Known, agent: &AgentId) -> Option<Entry> {
    let any = known.state.calls.iter().any(|call| call.agent.as_ref() == Some(agent));
    any.then(|| Entry { agent: Some(agent.clone()), ..Entry::new(known.desk.now(), Kind::Call) })
}

/// A fork's boundary renews its turn and hands it the further messages of the threads that it holds (R75).
fn boundary(event: &Event<'_>, agent: &AgentId, known: &mut Known, tasks: &[String]) -> Result<()> {
    let now = known.desk.now();
    let mut entries: Vec<Entry> = calls_over(known, agent).into_iter().collect();
    let turn = known.own_turn(agent).cloned();
    if let Some(turn) = &turn {
        if !tasks.is_empty() {
            entries.push(Entry {
                agent: Some(agent.clone()),
                tasks: tasks.to_vec(),
                ..Entry::new(now, Kind::Background)
            });
        }
        if now.since(turn.renewed) >= RENEWAL || turn.ending.is_some() || !turn.rests_on.is_empty() {
            entries.extend(renewal(known, turn)?);
        }
    }
    known.journal(&entries)?;
    let Some(turn) = turn else { return Ok(()) };
    let Some(mut tx) = known.transaction(&turn)? else { return Ok(()) };
    let (text, after) = further(&mut tx, turn.id)?;
    drop(tx);
    if text.is_empty() {
        return Ok(());
    }
    say(&event.what, &Decision::Context(text))?;
    known.journal(&after)
}

/// Gathers what a fork gets at its boundary, with what is written once it was shown.
fn further(tx: &mut Transaction, turn: TurnId) -> Result<(String, Vec<Entry>)> {
    tx.page.close_torn_line()?;
    let reading = tx.reading();
    let Some(fork) = reading.state.fork(turn).cloned() else { return Ok(Default::default()) };
    let page = tx.page.page.id.clone();
    let (mut text, mut after) = (String::new(), Vec::new());
    let gone: Vec<Gone<'_>> = reading
        .view
        .in_order()
        .flat_map(|thread| {
            let picked: Vec<_> = holding::picked_up_by(thread, turn).collect();
            let mut gone: Vec<Gone<'_>> = picked
                .iter()
                .filter(|message| message.withdrawn.is_some_and(|seq| seq > fork.told))
                .map(|message| Gone::Withdrawn(thread, message))
                .collect();
            if thread
                .resolved
                .is_some_and(|(seq, _)| seq > fork.told && picked.iter().any(|message| message.settled == Some(seq)))
            {
                gone.push(Gone::Resolved(thread));
            }
            gone
        })
        .collect();
    if !gone.is_empty() {
        text.push_str(&context::gone(&gone));
        after.push(Entry {
            page: Some(page.clone()),
            turn: Some(turn),
            by: Some(By::Fork),
            seq: Some(reading.view.seq),
            ..Entry::new(tx.now, Kind::Told)
        });
    }
    let bundles = bundles_of(&reading, turn);
    if bundles.is_empty() {
        return Ok((text, after));
    }
    let delivery: DeliveryId = tx.page.page.record.key.id(tx.page.view().next_seq()).into();
    let fence = Fence::around(bundles.iter().flat_map(Bundle::texts))?;
    let told = context::delivery(&fence, &page, delivery, &bundles, false);
    if utf16(&text) + utf16(&told) + 200 > CONTEXT_LIMIT {
        // By pointer (R76), unless one made for this turn still lies there.
        let lies = pointer::lying(&tx.page.page)?.into_iter().find(|id| {
            pointer::read(&tx.page.page, *id).ok().flatten().is_some_and(|pointer| pointer.turn == Some(turn))
        });
        if lies.is_none() {
            pointer::ready(&mut tx.page)?;
            let bundles = bundles_of(&tx.reading(), turn);
            let (id, messages) = pointer::write(&tx.page, &bundles, Some(turn))?;
            text.push_str(&context::pointer(&page, id, messages.len()));
        }
        return Ok((text, after));
    }
    text.push_str(&told);
    let picked: Vec<(ThreadId, Vec<MessageId>)> =
        bundles.iter().map(|bundle| (bundle.thread.id, holding::ids(bundle.messages.iter().copied()))).collect();
    let actor = tx.fork_actor(&fork);
    let taken: Vec<Entry> = picked
        .iter()
        .map(|(thread, messages)| Entry {
            page: Some(page.clone()),
            thread: Some(*thread),
            turn: Some(turn),
            by: Some(By::Fork),
            messages: messages.clone(),
            message: messages.last().copied(),
            delivery: Some(delivery),
            rule: Some("R75".to_owned()),
            ..Entry::new(tx.now, Kind::Taken)
        })
        .collect();
    let drafts = picked.into_iter().map(|(thread, messages)| pickup(thread, messages, None, actor.clone())).collect();
    tx.journal(&taken)?;
    tx.page.append(tx.now, drafts, false)?;
    Ok((text, after))
}

/// Returns what is new in the threads that a turn holds (R75).
fn bundles_of<'a>(reading: &Reading<'a>, turn: TurnId) -> Vec<Bundle<'a>> {
    let holds = |thread: &&Thread| matches!(reading.holder(thread), Some(Holder::Fork(actor, state)) if actor.turn == turn && state.runs());
    let new = |thread: &'a Thread| thread.shared().filter(|message| !message.picked_up_by(turn)).collect();
    let bundles = reading.view.in_order().filter(holds).map(|thread| Bundle { thread, messages: new(thread) });
    bundles.filter(|bundle| !bundle.messages.is_empty()).collect()
}
