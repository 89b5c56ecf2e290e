//! The scheduled forks and lifecycle hooks of this directory: what is off with their files and settings, and what waits for trust.

use super::{Check, Patient};
use crate::desk::Desk;
use crate::schedule::discovery;
use crate::text::count;
use crate::trust;

const NAME: &str = "schedule";
const TRUST: &str = "trust";
/// How many warnings a check names before it only counts.
const NAMED: usize = 3;

/// Whether every definition is understood, and may run; nothing where there is none.
pub fn checks(patient: &Patient<'_>) -> Vec<Check> {
    let Ok(desk) = Desk::new(std::time::Duration::from_secs(2)) else { return Vec::new() };
    let forks = discovery::forks(patient.env, &patient.cwd);
    let hooks = discovery::hooks(patient.env, &patient.cwd);
    let (_, configuration) = desk.schedule(&patient.cwd);
    let definitions = forks.warnings.iter().chain(&hooks.warnings).map(|warning| warning.sentence());
    let warnings: Vec<String> = definitions.chain(configuration).collect();
    let found = format!("{}, {}", count(forks.list.len(), "fork"), count(hooks.list.len(), "lifecycle hook"));
    let mut checks = Vec::new();
    if !warnings.is_empty() {
        let mut told = warnings.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
        if warnings.len() > NAMED {
            told = format!("{told}; and {} more", warnings.len() - NAMED);
        }
        checks
            .push(Check::note(NAME, format!("{found}: {told}")).way_out("`leaf forks` and `leaf hooks` tell them all"));
    } else if !forks.list.is_empty() || !hooks.list.is_empty() {
        checks.push(Check::ok(NAME, found));
    }
    let project = discovery::project_root(patient.env, &patient.cwd);
    match trust::standing_at(&desk, project, &patient.cwd) {
        Ok(standing) => {
            if let Some(sentence) = standing.sentence() {
                checks.push(Check::note(TRUST, sentence).way_out("look at them, then `leaf trust`"));
            }
        }
        Err(error) => checks.push(Check::note(TRUST, format!("can't be told ({error:#})"))),
    }
    checks
}
