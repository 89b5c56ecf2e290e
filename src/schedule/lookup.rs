//! A fork's definition as it is now, with the settings that go with it: the one place that looks for them.

use std::path::Path;

use anyhow::Result;

use super::definition::{Fork, Source};
use super::discovery;
use super::record::Run;
use super::settings::Settings;
use crate::desk::Desk;
use crate::refused::Refused;
use crate::session::record::SessionRecord;
use crate::{text, trust};

/// Returns the definition of a run's fork as its file is now.
///
/// # Errors
/// Where the file is no fork any more, or may not run.
pub fn definition_of(desk: &Desk, session: &SessionRecord, run: &Run) -> Result<Fork> {
    let found = discovery::forks(&desk.env, Path::new(&session.cwd));
    let fork = found.list.into_iter().chain(found.shadowed).find(|fork| fork.source.path == Path::new(&run.issue.path));
    let fork =
        fork.ok_or_else(|| Refused::input(format!("{} is no fork any more", text::first_words(&run.issue.path, 200))))?;
    check(desk, session, &fork)?;
    Ok(fork)
}

/// Refuses a fork that may not run: stopped by what its file says, or not trusted as it is (R126).
///
/// # Errors
/// The refusal.
pub fn check(desk: &Desk, session: &SessionRecord, fork: &Fork) -> Result<()> {
    let name = text::one_line(&fork.name);
    if let Some(why) = &fork.stopped {
        let why = text::first_words(why, 200);
        return Err(
            Refused::input(format!("fork {name} is stopped: {why}; `leaf forks` shows what its file says")).into()
        );
    }
    if !trusts(desk, Path::new(&session.cwd), &fork.source)? {
        return Err(Refused::by(
            "R126",
            format!(
                "fork {name} is not trusted as it is now: `leaf trust --list` shows its file, `leaf trust` trusts it"
            ),
        )
        .into());
    }
    Ok(())
}

fn trusts(desk: &Desk, cwd: &Path, source: &Source) -> Result<bool> {
    if source.own {
        return Ok(true);
    }
    let project = discovery::project_root(&desk.env, cwd);
    Ok(trust::trusts(&trust::of(desk, &project)?, &project, source))
}

/// Returns the settings of the schedule for a session's directory.
pub fn settings(desk: &Desk, session: &SessionRecord) -> Settings {
    // What of them could not be taken is told where they are listed.
    desk.schedule(Path::new(&session.cwd)).0
}
