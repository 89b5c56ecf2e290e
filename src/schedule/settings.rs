//! The `[schedule]` table of the configuration: what a fork's own file doesn't say.

use std::collections::BTreeMap;

use super::definition::Client;
use super::record::Runner;

/// The settings of the schedule. Times are seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When a bare `idle` is due; 0: never.
    pub default_idle_deadline: u64,
    /// After how long an open session whose client isn't known to live is closed; 0: never.
    pub session_timeout: u64,
    /// How long what is due waits for others that are about to be.
    pub wake_debounce: u64,
    /// Only forks with one of these tags run; `None` and empty: all.
    pub enable_tags: Option<Vec<String>>,
    /// Forks with one of these tags don't run.
    pub disable_tags: Option<Vec<String>>,
    /// Least time between two issues of any forks with this tag in a project.
    pub tag_throttles: BTreeMap<String, u64>,
    /// How many runs of a chain one pause may have.
    pub chain_limit: u32,
    /// How many issues of a fork an hour may have; 0: any number.
    pub runaway_limit: u32,
    /// The models of runs, by client.
    pub fork_models: BTreeMap<Client, Candidates>,
    /// The permission modes of runs, by client.
    pub fork_modes: BTreeMap<Client, Candidates>,
    /// How forks run.
    pub fork_runner: Runner,
    /// Whether what was not run in a pause runs as the session closes.
    pub flush_on_close: bool,
    /// Whether work in the session's background holds idle forks.
    pub background_hold: bool,
    /// For how long at most; 0: as long as it lasts.
    pub background_hold_timeout: u64,
    /// How many runs of one batch go on at once (W32).
    pub max_parallel: usize,
    /// How long a run may take.
    pub run_timeout: u64,
}

/// Candidates for a client's runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// To be tried in this order.
    List(Vec<String>),
    /// By the session's own model; `default` is for every other.
    ByModel(BTreeMap<String, Vec<String>>),
}

impl Candidates {
    /// Returns what is to be tried in a session of this model.
    pub fn of(&self, model: Option<&str>) -> &[String] {
        match self {
            Candidates::List(list) => list,
            Candidates::ByModel(table) => {
                model.and_then(|model| table.get(model)).or_else(|| table.get("default")).map_or(&[], Vec::as_slice)
            }
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            default_idle_deadline: 600,
            session_timeout: 12 * 3600,
            wake_debounce: 5,
            enable_tags: None,
            disable_tags: None,
            tag_throttles: BTreeMap::new(),
            chain_limit: 25,
            runaway_limit: 30,
            fork_models: BTreeMap::new(),
            fork_modes: BTreeMap::new(),
            fork_runner: Runner::default(),
            flush_on_close: false,
            background_hold: true,
            background_hold_timeout: 1800,
            max_parallel: 4,
            run_timeout: 1800,
        }
    }
}
