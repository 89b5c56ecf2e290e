//! A working fork in a process of its own (R118). Nothing of leaf stays with it: its pid and start token stand in the journal, and
//! whoever sees that the process is dead judges its end by the file that it wrote.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::cli::install::client::on_path;
use crate::client::claude_code::print::{self, Output};
use crate::desk::Desk;
use crate::ids::{AgentId, TurnId};
use crate::page::event::By;
use crate::place::{Env, open_plain};
use crate::rules::way::Way;
use crate::scratch;
use crate::session::journal::{Action, Entry, Evidence, Kind, Runner};
use crate::session::liveness::{Life, Process};
use crate::session::record::SessionRecord;
use crate::session::state::State;
use crate::transaction::Transaction;

/// The files of a run in its turn's scratch directory.
const OUTPUT: &str = "output.json";
const ERRORS: &str = "errors.txt";
const PROMPT: &str = "prompt.txt";
/// How much of what a run says on stderr is read, bytes.
const WORDS: u64 = 2_000;
/// How long a run that is stopped may take to leave by itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// After this long since its turn's end a run that goes on is killed, milliseconds.
const LEAVE: i64 = 5_000;
/// The run waits until its start is on record, and does nothing where its starter dies before that.
const GATE: &str = r#"read -r go && in=$1 && shift && exec "$0" "$@" <"$in""#;

/// A client that leaves ends its hooks with all their children, whatever groups and sessions those are in: what is to outlive it is
/// no child of theirs. And a descriptor of the client's that was left open could keep it waiting.
const DETACHED: &str = r#""$0" "$@" 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&- &"#;

/// The processes that this one started: whoever lives on must not leave them as zombies.
static STARTED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// Returns the agent id of a headless run, which is its fork's name too (R118).
///
/// # Errors
/// Never in fact: a turn's id has nothing that an agent's may not.
pub fn agent(turn: TurnId) -> Result<AgentId> {
    format!("headless-{turn}").parse().map_err(|_| anyhow::anyhow!("a turn's id is no part of an agent's"))
}

/// Returns the client's program, where it can be found.
pub fn program(env: &Env) -> Option<PathBuf> {
    print::program(on_path(env, "claude"), env.var("CLAUDE_CODE_EXECPATH").map(PathBuf::from))
}

/// A command of the client's own that copies a session: in its directory, with nothing of this process's session about it, and with
/// the file `input` as its standard input.
///
/// # Errors
/// Where the session's id would be taken for an option.
pub fn command(env: &Env, program: &Path, record: &SessionRecord, input: &Path, args: &[String]) -> Result<Command> {
    ensure!(
        !record.id.as_str().starts_with('-'),
        "its session's id begins with a dash: the client would take it for an option"
    );
    let mut command = Command::new("/bin/sh");
    command.args(["-c", GATE]).arg(program).arg(input).args(args).current_dir(&record.cwd).process_group(0);
    for name in print::inherited().chain(["LEAF_TOKEN", "LEAF_TURN", "LEAF_SESSION"]) {
        command.env_remove(name);
    }
    // Without the plugin around it `leaf` may be on no PATH but this one.
    let own = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_path_buf));
    // An unset one would become an empty entry, which means the project's directory.
    let path = env.var("PATH");
    if let Ok(path) = std::env::join_paths(path.iter().flat_map(std::env::split_paths).chain(own)) {
        command.env("PATH", path);
    }
    Ok(command)
}

/// Returns a command that starts leaf itself in the background, as nobody's child: it ends at once, and what it started goes on. That
/// keeps nothing of the caller's but what is set as its output.
///
/// # Errors
/// Where leaf's own program can't be found.
pub fn detached() -> Result<Command> {
    let own = std::env::current_exe().context("leaf's own program can't be found")?;
    // An update put another in its place while this one was parked.
    let place = own.to_str().and_then(|own| own.strip_suffix(" (deleted)")).map(PathBuf::from);
    let own = place.filter(|place| place.is_file()).unwrap_or(own);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", DETACHED]).arg(own).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// A process that waits to be let go.
#[derive(Debug)]
pub struct Gated {
    /// The process.
    pub child: Child,
    gate: Option<ChildStdin>,
}

impl Gated {
    /// Starts a process that waits.
    ///
    /// # Errors
    /// Where it can't be started.
    pub fn start(mut command: Command) -> std::io::Result<Gated> {
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        let gate = child.stdin.take();
        Ok(Gated { child, gate })
    }

    /// Lets it go.
    pub fn go(mut self) -> Child {
        if let Some(mut gate) = self.gate.take() {
            // One that is dead by now is found so.
            let _ = gate.write_all(b"go\n");
        }
        self.child
    }
}

/// Begins the run of a headless turn that was opened (R118): its process waits until the entry that names it is written, so that
/// a kill between the two leaves no run that nobody knows. Where it can't be started the turn ends (R31).
///
/// # Errors
/// Where the journal can't be written.
pub fn begin(desk: &Desk, tx: &mut Transaction, turn: TurnId) -> Result<()> {
    let waits = |tx: &Transaction| {
        let fork = tx.state().fork(turn)?;
        let waits = fork.ended.is_none() && fork.begun.is_none() && fork.way == Some(Way::Headless);
        match (waits, &fork.action) {
            (true, Some(Action::Spawn { prompt, .. })) => Some((prompt.clone(), fork.agent.clone())),
            _ => None,
        }
    };
    let Some((prompt, agent)) = waits(tx) else { return Ok(()) };
    let Some(record) = tx.session.as_ref().map(|session| session.session.record.clone()) else { return Ok(()) };
    let (gated, output) = match gated(desk, &record, turn, &prompt) {
        Ok(started) => started,
        Err(error) => {
            tx.end(turn, Evidence::Failed, &format!("its process can't be started: {error:#}"), true)?;
            return Ok(());
        }
    };
    let minutes = desk.config(&tx.page.page.record.project).headless_minutes;
    let process = Process::of(i32::try_from(gated.child.id()).unwrap_or(0));
    let runner =
        Runner { process, output: output.to_string_lossy().into_owned(), until: tx.now.plus(minutes * 60_000) };
    let begun = Entry {
        turn: Some(turn),
        by: Some(By::Fork),
        agent,
        runner: Some(runner),
        rule: Some("R118".to_owned()),
        ..Entry::new(tx.now, Kind::Begun)
    };
    tx.journal(&[begun])?;
    adopt(gated.go());
    Ok(())
}

/// Takes a process that this one started, so that it is no zombie once it ended.
pub fn adopt(child: Child) {
    if let Ok(mut started) = STARTED.lock() {
        started.push(child);
    }
}

fn gated(desk: &Desk, record: &SessionRecord, turn: TurnId, prompt: &str) -> Result<(Gated, PathBuf)> {
    let program = program(&desk.env).context("there is no `claude` on PATH")?;
    let directory = scratch::make(turn)?;
    let output = directory.join(OUTPUT);
    let mode = record.transcript.as_ref().and_then(|transcript| print::mode(Path::new(transcript)));
    let input = directory.join(PROMPT);
    std::fs::write(&input, prompt)?;
    let mut command = command(&desk.env, &program, record, &input, &print::work(&record.id, mode.as_deref()))?;
    command
        .env("LEAF_TURN", turn.to_string())
        .env("LEAF_SESSION", record.id.as_str())
        .stdout(File::create(&output)?)
        .stderr(File::create(directory.join(ERRORS))?);
    Ok((Gated::start(command)?, output))
}

/// Begins what was opened and not begun: whoever opened it was killed in between.
///
/// # Errors
/// Where a lock or a write fails.
pub fn begin_waiting(desk: &Desk, state: &State) -> Result<()> {
    let waiting = state.forks.iter().filter(|turn| {
        turn.way == Some(Way::Headless)
            && turn.ended.is_none()
            && turn.begun.is_none()
            && turn.generation == state.generation
    });
    for turn in waiting {
        let (Some((page, _)), Some(home)) = (&turn.thread, desk.home()?) else { continue };
        if let Some(page) = crate::page::Page::open(&home, page)? {
            begin(desk, &mut Transaction::open(desk, page, desk.deadline())?, turn.id)?;
        }
    }
    Ok(())
}

/// Returns what a run whose process is dead left. What it says on stderr stands in for a missing word.
pub fn left(runner: &Runner) -> Output {
    let file = Path::new(&runner.output);
    let read = print::read_output(file);
    if !read.text.is_empty() || !read.failed {
        return read;
    }
    let mut errors = Vec::new();
    let _ = open_plain(&file.with_file_name(ERRORS)).map(|file| file.take(WORDS).read_to_end(&mut errors));
    let text = String::from_utf8_lossy(&errors).trim().to_owned();
    Output { text, ..read }
}

/// Asks a run to leave.
pub fn ask_to_leave(process: &Process) {
    signal(process, Signal::TERM);
}

/// Stops a run: asks it to leave, and kills it where it doesn't in time. A process of its own group gets the signal too.
pub fn stop(process: &Process) {
    signal(process, Signal::TERM);
    let until = Instant::now() + PATIENCE;
    while process.life() != Life::Dead {
        if Instant::now() > until {
            signal(process, Signal::KILL);
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills a process and its group.
pub fn kill(process: &Process) {
    signal(process, Signal::KILL);
}

fn signal(process: &Process, signal: Signal) {
    // A pid alone could be another's by now.
    if process.life() != Life::Dead
        && let Some(leader) = Pid::from_raw(process.pid)
    {
        let _ = kill_process_group(leader, signal);
    }
}

/// Returns the processes of the runs that go on.
pub fn runners(state: &State) -> Vec<Process> {
    let open = state.forks.iter().filter(|turn| turn.ended.is_none());
    open.filter_map(|turn| turn.runner.as_ref()).map(|runner| runner.process.clone()).collect()
}

/// Takes the exit codes of processes that this one started, and stops those whose turns are over.
pub fn sweep(state: &State, now: crate::clock::Ts) {
    if let Ok(mut started) = STARTED.lock() {
        started.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
    for turn in &state.forks {
        let (Some(ended), Some(runner)) = (turn.ended, &turn.runner) else { continue };
        if now.since(ended) < 2 * 60_000 {
            signal(&runner.process, if now.since(ended) < LEAVE { Signal::TERM } else { Signal::KILL });
        }
    }
}
