//! `leaf turn ended`: the module's word that main's turn is over (R42).

use anyhow::Result;
use clap::Subcommand;

use super::fork::modules;
use super::{Run, output};
use crate::ids::TurnId;
use crate::refused::Refused;
use crate::session::journal::{Entry, Evidence};

/// `leaf turn …`
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Main's turn ended
    Ended {
        /// The user interrupted it: what waits then waits for the next prompt
        #[arg(long)]
        interrupted: bool,
    },
}

/// Runs `leaf turn ended`.
///
/// # Errors
/// The refusal, or where the journal can't be written.
pub fn run(run: &Run, command: &Command) -> Result<()> {
    let Command::Ended { interrupted } = command;
    let speaker = modules(run)?;
    let Some(session) = run.session(&speaker)? else {
        return Err(Refused::input("there is no session whose turn could end: name one with --session").into());
    };
    let home = run.desk.make_home()?;
    let mut seqs = std::collections::BTreeMap::new();
    if *interrupted {
        for page in run.desk.held(&home, &session.record)? {
            seqs.insert(page.id.clone(), page.hot_view()?.seq);
        }
    }
    let mut session = session.lock(run.desk.deadline())?;
    let open = session.state.main.as_ref().filter(|main| main.ended.is_none()).map(|main| main.id);
    let now = run.desk.now();
    // A turn that no hook told of can be interrupted as well: a prompt that was typed while another ran.
    let untold = if open.is_none() && *interrupted { Some(TurnId::new()?) } else { None };
    if let Some(turn) = open.or(untold) {
        let ended = Entry { interrupted: interrupted.then_some(seqs), ..Entry::ended(now, turn, Evidence::Module) };
        let begun = untold.map(|turn| Entry::begun(now, turn, None));
        session.append(&begun.into_iter().chain([ended]).collect::<Vec<_>>())?;
    }
    output::print_json(&serde_json::json!({ "turn": open }))
}
