//! The configuration, later wins: the person's file, the project's (what it could switch on counts only once it is trusted,
//! R126), the environment. An unknown key warns; a wrong type costs its key alone.

use std::path::{Path, PathBuf};

use toml::Table;

use crate::place::{Env, plain, read_plain};
use crate::rules::way::Way;
use crate::schedule::discovery::LONGEST;

/// How many working forks run in a session where nothing else is said (R33).
const MAX_RUNNING: usize = 3;
/// How long a headless run may take where nothing else is said, minutes (R119). A turn that nothing renews lapses after 15.
const HEADLESS_MINUTES: i64 = 10;
/// What `forks.way` may be.
const WAYS: &str = "module, subagent, headless or main";

/// The project's own file, in its directory.
pub const PROJECTS: &str = ".leaf/config.toml";

/// The keys of the table `forks`.
pub const FORKS_KEYS: [&str; 6] = ["work", "max_running", "headless", "headless_minutes", "way", "guard"];

/// What is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Working forks are on (R2).
    pub work: bool,
    /// How many working forks run in a session (R33).
    pub max_running: usize,
    /// Headless runs may be started, which cost a process and a cold cache each (R117).
    pub headless: bool,
    /// How long a headless run may take, minutes (R119).
    pub headless_minutes: i64,
    /// The one way that forks are to run in (R117).
    pub way: Option<Way>,
    /// Forks may not change the project (R114, R115).
    pub guard: bool,
    /// What could not be taken, a sentence each.
    pub warnings: Vec<String>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            work: false,
            max_running: MAX_RUNNING,
            headless: false,
            headless_minutes: HEADLESS_MINUTES,
            way: None,
            guard: true,
            warnings: Vec::new(),
        }
    }
}

/// Returns the person's configuration file: `$XDG_CONFIG_HOME/leaf/config.toml`, else `~/.config/leaf/config.toml`.
pub fn file(env: &Env) -> Option<PathBuf> {
    let absolute = |name: &str| env.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("leaf/config.toml"))
}

/// Reads one file's text over the built-in configuration, as the person's own: for checks.
///
/// # Errors
/// Where it is no TOML.
pub fn of_text(text: &str) -> Result<Config, toml::de::Error> {
    let mut config = Config::default();
    config.take(&text.parse::<Table>()?, "it", true);
    Ok(config)
}

/// Reads the configuration of a project. `trusted` tells whether its own file, of these bytes, may switch forks on.
pub fn load(env: &Env, project: &Path, trusted: impl Fn(&[u8]) -> bool) -> Config {
    let mut config = Config::default();
    if let Some(file) = file(env) {
        config.take_file(&file, |_| true);
    }
    config.take_file(&project.join(PROJECTS), trusted);
    match env.text("LEAF_FORK_WORK").as_deref() {
        Some("on") => config.work = true,
        Some("off") => config.work = false,
        _ => {}
    }
    if let Some(word) = env.text("LEAF_FORK_WAY") {
        match Way::parse(&word) {
            Some(way) => config.way = Some(way),
            None => config.warnings.push(format!("LEAF_FORK_WAY is {WAYS}, and is passed over")),
        }
    }
    config
}

impl Config {
    fn take_file(&mut self, file: &Path, trusted: impl Fn(&[u8]) -> bool) {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        let shown = file.display();
        let bytes = match read_plain(file, LONGEST) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return,
            Err(error) => return self.warnings.push(format!("{shown}: {}", plain(&error))),
        };
        let Ok(text) = str::from_utf8(&bytes) else {
            return self.warnings.push(format!("{shown}: it isn't UTF-8, and is passed over"));
        };
        match text.parse::<Table>() {
            Ok(table) => self.take(&table, &shown.to_string(), trusted(&bytes)),
            Err(error) => self.warnings.push(format!("{shown}: {}", error.message())),
        }
    }

    fn take(&mut self, table: &Table, file: &str, trusted: bool) {
        for (name, value) in table {
            let forks = match (name.as_str(), value.as_table()) {
                ("forks", Some(forks)) => forks,
                // The schedule's own reader takes it, where something is to be scheduled.
                ("schedule", _) => continue,
                ("forks", None) => {
                    self.warnings.push(format!("{file}: forks is no table, and is passed over"));
                    continue;
                }
                _ => {
                    self.warnings.push(format!("{file}: there is no key {name}, and it is passed over"));
                    continue;
                }
            };
            for (key, value) in forks {
                match (key.as_str(), value.as_bool(), value.as_integer()) {
                    ("headless", Some(true), _) if !trusted => {
                        self.warnings
                            .push(format!("{file}: forks.headless counts once the project is trusted: leaf trust"));
                    }
                    ("headless", Some(headless), _) => self.headless = headless,
                    ("headless", None, _) => {
                        self.warnings.push(format!("{file}: forks.headless is true or false, and is passed over"));
                    }
                    ("headless_minutes", _, Some(minutes)) if (1..=14).contains(&minutes) => {
                        self.headless_minutes = minutes;
                    }
                    ("headless_minutes", _, _) => {
                        self.warnings.push(format!(
                            "{file}: forks.headless_minutes is a number from 1 to 14, and is passed over"
                        ));
                    }
                    // A way that is asked for is paid for.
                    ("way", _, _) if !trusted => {
                        self.warnings.push(format!("{file}: forks.way counts once the project is trusted: leaf trust"));
                    }
                    ("way", _, _) => match value.as_str().and_then(Way::parse) {
                        Some(way) => self.way = Some(way),
                        None => self.warnings.push(format!("{file}: forks.way is {WAYS}, and is passed over")),
                    },
                    // What a fork may touch is the person's to say.
                    ("guard", _, _) => match value.as_str() {
                        Some("on") => self.guard = true,
                        Some("off") if trusted => self.guard = false,
                        Some("off") => {
                            self.warnings.push(format!(
                                "{file}: forks.guard = \"off\" counts once the project is trusted: leaf trust"
                            ));
                        }
                        _ => {
                            self.warnings.push(format!("{file}: forks.guard is \"on\" or \"off\", and is passed over"))
                        }
                    },
                    ("work", Some(true), _) if !trusted => {
                        self.warnings
                            .push(format!("{file}: forks.work counts once the project is trusted: leaf trust"));
                    }
                    ("work", Some(work), _) => self.work = work,
                    ("work", None, _) => {
                        self.warnings.push(format!("{file}: forks.work is true or false, and is passed over"))
                    }
                    ("max_running", _, Some(most)) if (1..=100).contains(&most) => {
                        self.max_running = usize::try_from(most).unwrap_or(MAX_RUNNING);
                    }
                    ("max_running", _, _) => {
                        self.warnings
                            .push(format!("{file}: forks.max_running is a number from 1 to 100, and is passed over"));
                    }
                    _ => self.warnings.push(format!("{file}: there is no key forks.{key}, and it is passed over")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str, trusted: bool) -> Config {
        let mut config = Config::default();
        config.take(&text.parse::<Table>().unwrap(), "f", trusted);
        config
    }

    #[test]
    fn r002_an_untrusted_project_switches_no_forks_on() {
        assert!(taken("forks.work = true", true).work);
        let config = taken("forks.work = true\nforks.max_running = 2", false);
        assert!(!config.work && config.max_running == 2);
        assert_eq!(config.warnings.len(), 1);
    }

    #[test]
    fn r126_what_counts_is_what_was_judged_whatever_lies_there_by_now() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(PROJECTS);
        std::fs::create_dir(dir.path().join(".leaf")).unwrap();
        for (first, then) in [("forks.max_running = 2", "forks.work = true"), ("forks.work = true", "forks.way = 1")] {
            std::fs::write(&file, first).unwrap();
            let config = load(&Env::default(), dir.path(), |judged| {
                std::fs::write(&file, then).unwrap();
                judged == first.as_bytes()
            });
            assert_eq!(config.work, first.contains("work"), "{first}");
        }
    }

    #[test]
    fn r117_a_way_that_costs_is_the_persons_to_ask_for() {
        let all = "forks.headless = true\nforks.headless_minutes = 5\nforks.way = \"headless\"";
        let config = taken(all, true);
        assert_eq!((config.headless, config.headless_minutes, config.way), (true, 5, Some(Way::Headless)));
        let config = taken(all, false);
        assert_eq!((config.headless, config.way, config.warnings.len()), (false, None, 2));
        assert_eq!(taken("forks.way = \"fast\"\nforks.headless_minutes = 15", true).warnings.len(), 2);
    }

    #[test]
    fn r114_the_guard_is_on_but_for_the_persons_word() {
        assert!(taken("", true).guard);
        assert!(!taken("forks.guard = \"off\"", true).guard);
        let config = taken("forks.guard = \"off\"", false);
        assert!(config.guard && config.warnings.len() == 1);
        for other in ["\"of\"", "false", "0"] {
            let config = taken(&format!("forks.guard = {other}\nforks.work = true"), true);
            assert!(config.guard && config.work && config.warnings.len() == 1, "{other}");
        }
    }

    #[test]
    fn a_wrong_type_costs_its_key_alone() {
        let config = taken("colour = 1\n[forks]\nwork = \"yes\"\nmax_running = 5\nother = 1", true);
        assert_eq!((config.work, config.max_running, config.warnings.len()), (false, 5, 3));
    }
}
