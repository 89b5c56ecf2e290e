//! The commands: argv to values, one file a noun. What a person reads goes to stdout, what went wrong to stderr.

pub mod delivery;
pub mod demo;
pub mod doctor;
pub mod emit;
pub mod eval;
pub mod fork;
pub mod forks;
pub mod hooks;
pub mod import;
pub mod install;
pub mod lifecycle;
pub mod output;
pub mod page;
pub mod prune;
pub mod runner;
pub mod runs;
pub mod schedule;
pub mod status;
pub mod task;
pub mod thread;
pub mod trust;
pub mod turn;
pub mod why;
pub mod writer;

use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::desk::Desk;
use crate::ids::{AgentId, PageId, SessionId, TurnId};
use crate::place::Env;
use crate::refused::{Refused, Usage};

/// A command waits this long for its locks (R108).
const WAIT: Duration = Duration::from_secs(10);

/// Write in threads beside a busy coding agent's session, and get an answer.
///
/// A person writes with `leaf thread new`; the session gets it at its next tool boundary, prompt or Stop and answers with
/// `leaf thread reply`; an idle session wakes for it. `leaf demo` plays a first session, with no account and no network.
#[derive(Debug, Parser)]
#[command(name = "leaf", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done; 1 refused, with the reason and the way out on stderr; 2 usage.\n\
State lies in $LEAF_HOME, else $XDG_STATE_HOME/leaf, else ~/.local/state/leaf.")]
struct Cli {
    /// The agent that runs the command; only leaf's own hook writes this.
    #[arg(long, hide = true, value_name = "ID")]
    agent_id: Option<AgentId>,
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command takes.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Print one JSON value
    #[arg(long, global = true)]
    pub json: bool,
    /// The page (default: that of the id given, else the one that came to the session last)
    #[arg(long, global = true, value_name = "SLUG")]
    pub page: Option<PageId>,
    /// The session, by the client's id (default: inside a client its own, else the one at work in this directory)
    #[arg(long, global = true, value_name = "ID")]
    pub session: Option<SessionId>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write in threads, answer, look
    #[command(subcommand)]
    Thread(thread::Command),
    /// Open, start and end to-dos
    #[command(subcommand)]
    Task(task::Command),
    /// Read a delivery that was too long to stand in the conversation
    #[command(subcommand)]
    Delivery(delivery::Command),
    /// Forks: list, stop, tree, run
    #[command(subcommand)]
    Fork(fork::Command),
    /// The client's word of main's turn (the hooks module's)
    #[command(subcommand, hide = true)]
    Turn(turn::Command),
    /// Follow the session's pages (the hooks module's)
    #[command(hide = true)]
    Follow {
        /// Print the session's threads in one line too, whenever it changes
        #[arg(long)]
        status: bool,
    },
    /// Pages: what stands on them, who holds them
    #[command(subcommand)]
    Page(page::Command),
    /// Tell a thread's story from the journal, each step with its rule
    Why(why::WhyArgs),
    /// Show the sessions that leaf knows, what waits, and what runs
    Status,
    /// The scheduled forks of this directory, with every warning
    Forks(forks::ForksArgs),
    /// The lifecycle hooks of this directory, with every warning
    Hooks(hooks::HooksArgs),
    /// What of the scheduled forks is due when, and what holds the others
    Schedule(schedule::ScheduleArgs),
    /// The runs of scheduled forks
    Runs(runs::RunsArgs),
    /// Close sessions that nobody ended, and clear away what is over
    Prune(prune::PruneArgs),
    /// Look at another tool's set-up: what leaf takes as it is, and what differs
    Import(import::ImportArgs),
    /// Tell the sessions of this project of an event that forks and hooks wait for
    Emit(emit::EmitArgs),
    /// Run a batch of scheduled forks (leaf's own)
    #[command(hide = true)]
    Runner(runner::RunnerArgs),
    /// Run a session's lifecycle hooks (leaf's own)
    #[command(hide = true)]
    Lifecycle(lifecycle::LifecycleArgs),
    /// Measure how good the sort is, and what became of forks' work
    Eval(eval::EvalArgs),
    /// Let this project's .leaf files, forks and hooks run: trust them as they are now
    Trust(trust::TrustArgs),
    /// Play a first session with recorded events, with no account and no network
    Demo(demo::DemoArgs),
    /// Put leaf into Claude Code
    Install(install::InstallArgs),
    /// Take leaf out of Claude Code
    Uninstall(install::UninstallArgs),
    /// One hook event of the client's, its payload on stdin (for hooks.json alone)
    #[command(hide = true)]
    Hook,
    /// Park until an idle session is to wake: exit 2 (for hooks.json alone)
    #[command(hide = true)]
    Watch,
    /// Check the installation, the state directory, the logs
    Doctor,
}

/// Runs a command line, the program's name first, and returns the exit code.
pub fn run(args: Vec<OsString>) -> u8 {
    let marked_first = marked_first(&args);
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            if !error.use_stderr() {
                let _ = error.print();
                return 0;
            }
            // It repeats the words that are off, whatever they hold (R124).
            let _ = write!(std::io::stderr(), "{}", crate::text::harmless(&error.render().to_string()));
            return 2;
        }
    };
    if cli.agent_id.is_some() && !marked_first {
        let said = "leaf: --agent-id stands directly after `leaf`, and only leaf's hook writes it: leave it out";
        let _ = writeln!(std::io::stderr(), "{said}");
        return 2;
    }
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) if output::is_closed(&error) => 0,
        Err(error) => {
            output::complain(&error);
            if error.is::<Usage>() { 2 } else { 1 }
        }
    }
}

/// Whether the mark stands where the hook writes it: a variable of the command line could bring one of its own.
fn marked_first(args: &[OsString]) -> bool {
    args.get(1).is_some_and(|word| word.to_string_lossy().starts_with("--agent-id"))
}

fn dispatch(cli: Cli) -> Result<u8> {
    let common = &cli.common;
    match cli.command {
        // A fork's, or a headless run's (R118).
        Command::Install(_) | Command::Uninstall(_)
            if cli.agent_id.is_some() || Env::default().var("LEAF_TURN").is_some() =>
        {
            return Err(Refused::by("R60", "installing is the person's: leave it to them").into());
        }
        Command::Install(args) => return done(install::install(args, common.json)),
        Command::Uninstall(args) => return done(install::uninstall(args, common.json)),
        Command::Demo(args) => return done(demo::run(&args, common.json)),
        Command::Doctor => return done(doctor::doctor(common.json)),
        Command::Hook => {
            crate::hook::run();
            return Ok(0);
        }
        Command::Watch => return Ok(crate::watch::run()),
        _ => {}
    }
    let desk = Desk::new(WAIT)?;
    let turn = desk.env.text("LEAF_TURN").map(|turn| turn.parse()).transpose();
    // A run whose turn is none is nobody's, never main's (R118).
    let turn = turn.map_err(|_| Refused::by("R118", "LEAF_TURN is set and names no turn: unset it"))?;
    let run = Run { desk, common: cli.common.clone(), agent: cli.agent_id, turn };
    run.check_mark()?;
    done(match cli.command {
        Command::Thread(command) => thread::run(&run, command),
        Command::Task(command) => task::run(&run, command),
        Command::Delivery(command) => delivery::run(&run, &command),
        Command::Page(command) => page::run(&run, command),
        Command::Fork(command) => fork::run(&run, command),
        Command::Turn(command) => turn::run(&run, &command),
        Command::Follow { status } => crate::follow::run(&run, status),
        Command::Why(args) => why::run(&run, &args),
        Command::Status => status::run(&run),
        Command::Forks(args) => forks::run(&run, &args),
        Command::Hooks(args) => hooks::run(&run, &args),
        Command::Schedule(args) => schedule::run(&run, &args),
        Command::Runs(args) => runs::run(&run, &args),
        Command::Prune(args) => prune::run(&run, &args),
        Command::Import(args) => import::run(&run, &args),
        Command::Emit(args) => emit::run(&run, &args),
        Command::Runner(args) => runner::run(&run, &args),
        Command::Lifecycle(args) => lifecycle::run(&run, &args),
        Command::Eval(args) => eval::run(&run, args),
        Command::Trust(args) => trust::run(&run, &args),
        Command::Install(_)
        | Command::Uninstall(_)
        | Command::Demo(_)
        | Command::Doctor
        | Command::Hook
        | Command::Watch => Ok(()),
    })
}

fn done(result: Result<()>) -> Result<u8> {
    result.map(|()| 0)
}

/// What a command runs with.
#[derive(Debug)]
pub struct Run {
    /// The desk.
    pub desk: Desk,
    /// The common options.
    pub common: Common,
    /// The agent that the hook marked the command with.
    pub agent: Option<AgentId>,
    /// The turn of a headless run of leaf's (R118).
    pub turn: Option<TurnId>,
}
