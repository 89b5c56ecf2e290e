//! The settings of the schedule, read from their files: autofork's of the user's home, leaf's own, the project's of both. A later
//! one wins, key by key. What an untrusted project's file says counts as far as it costs less (R126).

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::definition::Client;
use super::discovery::{LONGEST, autofork_home};
use super::duration;
use super::record::Runner;
use super::settings::{Candidates, Settings};
use crate::place::{Env, plain, read_plain};
use crate::text::first_words;

/// Keys of autofork's that once meant something, or mean nothing without a daemon.
const OBSOLETE: [(&str, &str); 11] = [
    ("quiet_period", "there is no daemon that could go"),
    ("concurrency", "max_parallel in leaf's own file bounds a batch"),
    ("fork_timeout", "run_timeout in leaf's own file bounds a run"),
    ("run_timeout", "autofork passes it over; in leaf's own file it bounds a run"),
    ("claude_bin", "the session's own client runs the forks"),
    ("context_window", "the client tells it"),
    ("models", "fork_models says it"),
    ("report_ttl", "a report is kept until it is delivered"),
    ("poll_budget_chars", "a report is delivered whole, in parts where it is long"),
    ("permission_mode", "fork_modes says it"),
    ("isolation", "a fork's guard says it"),
];

/// Where a layer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The user's own file.
    User,
    /// The project's, trusted as it is.
    Trusted,
    /// The project's, not trusted: it may only make less happen.
    Untrusted,
}

/// Reads the settings for a project. `trusted` tells whether a file of the project's is trusted with these bytes.
pub fn load(env: &Env, project: &Path, trusted: impl Fn(&Path, &[u8]) -> bool) -> (Settings, Vec<String>) {
    let mut reader = Reader::default();
    let users = autofork_home(env).map(|home| home.join("config.toml"));
    if let Some(file) = &users {
        reader.file(file, |_| Layer::User, false);
    }
    let own = crate::config::file(env);
    if let Some(file) = &own {
        reader.file(file, |_| Layer::User, true);
    }
    for (name, ours) in [(".autofork/config.toml", false), (".leaf/config.toml", true)] {
        let file = project.join(name);
        if file.is_file() && Some(&file) != users.as_ref() && Some(&file) != own.as_ref() {
            let layer = |bytes: &[u8]| if trusted(&file, bytes) { Layer::Trusted } else { Layer::Untrusted };
            reader.file(&file, layer, ours);
        }
    }
    for name in ["LEAF_CLAUDE_FORK_TIMEOUT_SECS", "AUTOFORK_CLAUDE_FORK_TIMEOUT_SECS"] {
        if let Some(text) = env.text(name) {
            match duration::parse(&text) {
                Ok(seconds) if seconds > 0 => reader.settings.run_timeout = seconds,
                _ => reader.warnings.push(format!("{name} is a number of seconds, and is passed over")),
            }
            break;
        }
    }
    // A session's own filter stands for the files'; one that names no tag is none.
    for (name, place) in
        [("ENABLE_TAGS", &mut reader.settings.enable_tags), ("DISABLE_TAGS", &mut reader.settings.disable_tags)]
    {
        let text = env.text(&format!("LEAF_{name}")).or_else(|| env.text(&format!("AUTOFORK_{name}")));
        if let Some(tags) = text.map(|text| tags_of(std::iter::once(text.as_str()))).filter(|tags| !tags.is_empty()) {
            *place = Some(tags);
        }
    }
    (reader.settings, reader.warnings)
}

/// Returns the tags of texts that hold one or more each, between commas.
fn tags_of<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in texts.flat_map(|text| text.split(',')).map(str::trim).filter(|tag| !tag.is_empty()) {
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    tags
}

/// Reads one file's table over the built-in settings, as the user's own: for checks.
///
/// # Errors
/// Where it is no TOML.
pub fn of_text(text: &str, ours: bool) -> Result<(Settings, Vec<String>), toml::de::Error> {
    let mut reader = Reader::default();
    reader.text(text, "it", Layer::User, ours)?;
    Ok((reader.settings, reader.warnings))
}

/// The keys of autofork's that mean the same here.
pub const KEYS: [&str; 14] = [
    "default_idle_deadline",
    "session_timeout",
    "wake_debounce",
    "enable_tags",
    "disable_tags",
    "tag_throttles",
    "chain_limit",
    "runaway_limit",
    "fork_models",
    "fork_modes",
    "fork_runner",
    "flush_on_close",
    "background_hold",
    "background_hold_timeout",
];
/// The keys that leaf's own files have besides.
pub const OWN_KEYS: [&str; 2] = ["max_parallel", "run_timeout"];

/// Returns the keys of one of autofork's files that mean the same here; those of a table each.
pub fn known_keys(file: &Path) -> Vec<String> {
    let text = read_plain(file, LONGEST).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let table = text.and_then(|text| text.parse::<Table>().ok()).unwrap_or_default();
    let mut found = Vec::new();
    for (key, value) in table.iter().filter(|(key, _)| KEYS.contains(&key.as_str())) {
        match value.as_table() {
            Some(table) => found.extend(table.keys().map(|name| format!("{key}.{name}"))),
            None => found.push(key.clone()),
        }
    }
    found
}

#[derive(Default)]
struct Reader {
    settings: Settings,
    warnings: Vec<String>,
}

impl Reader {
    fn file(&mut self, file: &Path, layer: impl Fn(&[u8]) -> Layer, ours: bool) {
        let shown = file.display().to_string();
        let bytes = match read_plain(file, LONGEST) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            // leaf's own is read, and complained of, by the configuration's reader too.
            Err(error) => return self.warnings.push(format!("{shown}: {}, and is passed over", plain(&error))),
        };
        let Ok(text) = str::from_utf8(&bytes) else {
            return self.warnings.push(format!("{shown}: it isn't UTF-8, and is passed over"));
        };
        if let Err(error) = self.text(text, &shown, layer(&bytes), ours) {
            self.warnings.push(format!("{shown}: {}, and is passed over", error.message()));
        }
    }

    fn text(&mut self, text: &str, shown: &str, layer: Layer, ours: bool) -> Result<(), toml::de::Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // A file that has no such table is not worth a parse.
        if ours && !text.contains("schedule") {
            return Ok(());
        }
        let table: Table = text.parse()?;
        if !ours {
            self.table(&table, shown, layer, false);
            return Ok(());
        }
        match table.get("schedule") {
            None => {}
            Some(Value::Table(table)) => self.table(table, shown, layer, true),
            Some(_) => self.warnings.push(format!("{shown}: schedule is no table, and is passed over")),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, file: &str, layer: Layer, ours: bool) {
        for (key, value) in table {
            let mut put = Put {
                key: if ours { format!("schedule.{key}") } else { first_words(key, 60) },
                file,
                layer,
                warnings: &mut self.warnings,
            };
            put.key = first_words(&put.key, 80);
            let settings = &mut self.settings;
            match key.as_str() {
                _ if !ours && OBSOLETE.iter().any(|(name, _)| name == key) => put.obsolete(key),
                "default_idle_deadline" => {
                    // What is due sooner is due more often.
                    let sooner = |new: u64, old: u64| new != 0 && (old == 0 || new < old);
                    put.time(value, 0, &mut settings.default_idle_deadline, sooner);
                }
                "session_timeout" => put.time(value, 0, &mut settings.session_timeout, |_, _| false),
                "wake_debounce" => put.time(value, 0, &mut settings.wake_debounce, |_, _| false),
                "background_hold_timeout" => {
                    let less = |new: u64, old: u64| new != 0 && (old == 0 || new < old);
                    put.time(value, 0, &mut settings.background_hold_timeout, less);
                }
                "run_timeout" => put.time(value, 1, &mut settings.run_timeout, |new, old| new > old),
                "enable_tags" => put.tags(value, &mut settings.enable_tags),
                "disable_tags" => put.tags(value, &mut settings.disable_tags),
                "tag_throttles" => put.throttles(value, &mut settings.tag_throttles),
                "chain_limit" => put.number(value, 1, &mut settings.chain_limit, |new, old| new > old),
                "runaway_limit" => {
                    let more = |new: u32, old: u32| old != 0 && (new == 0 || new > old);
                    put.number(value, 0, &mut settings.runaway_limit, more);
                }
                "max_parallel" => {
                    let mut number = u32::try_from(settings.max_parallel).unwrap_or(u32::MAX);
                    put.number(value, 1, &mut number, |new, old| new > old);
                    settings.max_parallel = usize::try_from(number).unwrap_or(usize::MAX);
                }
                "fork_models" => put.candidates(value, &mut settings.fork_models),
                "fork_modes" => put.candidates(value, &mut settings.fork_modes),
                "fork_runner" => match value.as_str().and_then(Runner::parse) {
                    Some(runner) => put.set(&mut settings.fork_runner, runner, |new, old| new != old),
                    None => put.off("is headless, module or subagent"),
                },
                "flush_on_close" => put.flag(value, &mut settings.flush_on_close, true),
                "background_hold" => put.flag(value, &mut settings.background_hold, false),
                _ if OBSOLETE.iter().any(|(name, _)| name == key) => put.obsolete(key),
                _ => put.off_as("there is no such key"),
            }
        }
    }
}

/// One key of a file.
struct Put<'a> {
    key: String,
    file: &'a str,
    layer: Layer,
    warnings: &'a mut Vec<String>,
}

impl Put<'_> {
    fn say(&mut self, text: &str) {
        self.warnings.push(format!("{}: {} {text}", self.file, self.key));
    }

    /// Says what the key would have to be.
    fn off(&mut self, what: &str) {
        self.say(&format!("{what}, and is passed over"));
    }

    fn off_as(&mut self, why: &str) {
        self.say(&format!("is passed over: {why}"));
    }

    fn obsolete(&mut self, key: &str) {
        let why = OBSOLETE.iter().find(|(name, _)| *name == key).map_or("", |(_, why)| *why);
        self.off_as(&format!("it means nothing here ({why})"));
    }

    /// Whether a value that would make more happen may be set.
    fn may(&mut self, more: bool) -> bool {
        let may = self.layer != Layer::Untrusted || !more;
        if !may {
            self.say("counts once the project is trusted: leaf trust");
        }
        may
    }

    fn set<T: PartialEq>(&mut self, place: &mut T, value: T, more: impl Fn(&T, &T) -> bool) {
        if self.may(more(&value, place)) {
            *place = value;
        }
    }

    fn time(&mut self, value: &Value, least: u64, place: &mut u64, more: impl Fn(u64, u64) -> bool) {
        match time(value)
            .and_then(|time| if time < least { Err("is 0, and has to be more".to_owned()) } else { Ok(time) })
        {
            Ok(time) => self.set(place, time, |new, old| more(*new, *old)),
            Err(why) => self.off(&why),
        }
    }

    fn number(&mut self, value: &Value, least: u32, place: &mut u32, more: impl Fn(u32, u32) -> bool) {
        match value.as_integer().and_then(|number| u32::try_from(number).ok()).filter(|number| *number >= least) {
            Some(number) => self.set(place, number, |new, old| more(*new, *old)),
            None => self.off(&format!("is a whole number from {least} on")),
        }
    }

    fn flag(&mut self, value: &Value, place: &mut bool, costly: bool) {
        match value.as_bool() {
            Some(flag) => self.set(place, flag, |new, old| new != old && *new == costly),
            None => self.off("is true or false"),
        }
    }

    fn tags(&mut self, value: &Value, place: &mut Option<Vec<String>>) {
        let list = value.as_array().and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let Some(list) = list else { return self.off("is a list of texts") };
        let tags = tags_of(list.into_iter());
        // A filter where there is none makes less happen; in another's place it may make more.
        let loosens = place.as_ref().is_some_and(|old| *old != tags);
        if self.may(loosens) {
            *place = Some(tags);
        }
    }

    fn throttles(&mut self, value: &Value, place: &mut BTreeMap<String, u64>) {
        let Some(table) = value.as_table() else { return self.off("is a table of times by tag") };
        let key = self.key.clone();
        for (tag, value) in table {
            self.key = format!("{key}.{}", first_words(tag, 40));
            match time(value) {
                Ok(time) => {
                    if self.may(place.get(tag).is_some_and(|old| time < *old)) {
                        place.insert(tag.clone(), time);
                    }
                }
                Err(why) => self.off(&why),
            }
        }
        self.key = key;
    }

    fn candidates(&mut self, value: &Value, place: &mut BTreeMap<Client, Candidates>) {
        let Some(table) = value.as_table() else { return self.off("is a table by client") };
        if !table.is_empty() && !self.may(true) {
            return;
        }
        let key = self.key.clone();
        for (name, value) in table {
            self.key = format!("{key}.{}", first_words(name, 40));
            let Some(client) = Client::parse(name) else {
                self.off_as("there is no such client (claude-code, codex, opencode)");
                continue;
            };
            match value {
                Value::Table(models) if models.is_empty() => self.off_as("the table is empty"),
                Value::Table(models) => {
                    let mut by_model = BTreeMap::new();
                    let key = self.key.clone();
                    for (model, value) in models {
                        self.key = format!("{key}.{}", first_words(model, 60));
                        match list(value) {
                            Some(list) => drop(by_model.insert(model.clone(), list)),
                            None => self.off("is a text or a list of texts"),
                        }
                    }
                    if !by_model.is_empty() {
                        place.insert(client, Candidates::ByModel(by_model));
                    }
                }
                value => match list(value) {
                    Some(list) => drop(place.insert(client, Candidates::List(list))),
                    None => self.off("is a text, a list of texts, or a table by the session's model"),
                },
            }
        }
        self.key = key;
    }
}

fn list(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    match value {
        Value::Array(list) if !list.is_empty() => list.iter().map(text).collect(),
        other => text(other).map(|one| vec![one]),
    }
}

fn time(value: &Value) -> Result<u64, String> {
    match value {
        Value::Integer(number) => duration::of_number((*number).into()),
        Value::String(text) => duration::parse(text),
        _ => Err("is no time (a whole number with s, m, h or d, as in \"10m\")".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str, layer: Layer, ours: bool) -> (Settings, Vec<String>) {
        let mut reader = Reader::default();
        reader.text(text, "f", layer, ours).unwrap();
        (reader.settings, reader.warnings)
    }

    #[test]
    fn a_type_error_costs_its_key_alone() {
        let text = "enable_tags = \"ci\"\nchain_limit = 7\nrunaway_limit = -1\ndefault_idle_deadline = \"300000000000000d\"\n\
                    wake_debounce = 1.5\nfork_runner = \"fast\"\nflush_on_close = \"yes\"\ntag_throttles = { a = \"1h\", b = true }\n\
                    colour = 1\nconcurrency = 2\n[fork_models]\nclaude-code = {}\nother = \"x\"\ncodex = [\"a\", 1]\nopencode = \"m\"\n";
        let (settings, warnings) = taken(text, Layer::User, false);
        let expected = Settings {
            chain_limit: 7,
            tag_throttles: BTreeMap::from([("a".to_owned(), 3600)]),
            fork_models: BTreeMap::from([(Client::Opencode, Candidates::List(vec!["m".to_owned()]))]),
            ..Settings::default()
        };
        assert_eq!(settings, expected);
        assert_eq!(warnings.len(), 12, "{warnings:#?}");
    }

    /// The example with every key switched on: a `#` right before a key only keeps it from counting.
    fn with_all(text: &str) -> String {
        let on = |line: &str| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => format!("{key}\n"),
            _ => format!("{line}\n"),
        };
        text.lines().map(on).collect()
    }

    #[test]
    fn the_example_has_every_key_and_its_defaults_are_the_built_in_ones() {
        let example = include_str!("../../examples/config.toml");
        let (settings, warnings) = of_text(example, true).unwrap();
        assert_eq!((settings, warnings), (Settings::default(), Vec::new()));
        assert_eq!(crate::config::of_text(example).unwrap(), crate::config::Config::default());
        let all = with_all(example);
        let (settings, warnings) = of_text(&all, true).unwrap();
        assert_eq!(warnings, Vec::<String>::new());
        assert!(settings.fork_models.len() == 2 && settings.tag_throttles.len() == 1 && settings.enable_tags.is_some());
        assert_eq!(crate::config::of_text(&all).unwrap().warnings, Vec::<String>::new());
        let all: Table = all.parse().unwrap();
        let names = |table: &str| -> Vec<String> {
            let mut names: Vec<String> = all[table].as_table().unwrap().keys().cloned().collect();
            names.sort();
            names
        };
        let mut keys: Vec<&str> = KEYS.into_iter().chain(OWN_KEYS).collect();
        keys.sort_unstable();
        assert_eq!(names("schedule"), keys);
        let mut keys = crate::config::FORKS_KEYS.to_vec();
        keys.sort_unstable();
        assert_eq!(names("forks"), keys);
    }

    #[test]
    fn every_key_is_read() {
        let text = "[schedule]\ndefault_idle_deadline = 60\nsession_timeout = \"1d\"\nwake_debounce = 0\nenable_tags = [\"a\", \"b,a\"]\n\
                    disable_tags = []\nchain_limit = 3\nrunaway_limit = 0\nfork_runner = \"module\"\nflush_on_close = true\n\
                    background_hold = false\nbackground_hold_timeout = \"1h\"\nmax_parallel = 2\nrun_timeout = \"5m\"\n\
                    [schedule.tag_throttles]\nslow = \"2h\"\n[schedule.fork_models.claude-code]\nopus = \"haiku\"\ndefault = [\"a\", \"b\"]\n\
                    [schedule.fork_modes]\nclaude-code = \"plan\"\n";
        let (settings, warnings) = taken(text, Layer::User, true);
        assert_eq!(warnings, Vec::<String>::new());
        let models = &settings.fork_models[&Client::ClaudeCode];
        assert_eq!(models.of(Some("opus")), ["haiku"]);
        assert_eq!(models.of(None), ["a", "b"]);
        assert_eq!(settings.enable_tags, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!((settings.fork_runner, settings.run_timeout, settings.max_parallel), (Runner::Module, 300, 2));
        assert_eq!(taken(text, Layer::Trusted, true).0, settings);
    }

    #[test]
    fn r126_an_untrusted_projects_file_only_makes_less_happen() {
        let more = "default_idle_deadline = 5\nchain_limit = 100\nrunaway_limit = 0\nflush_on_close = true\nbackground_hold = false\n\
                    background_hold_timeout = 1\nfork_runner = \"subagent\"\nfork_models = { claude-code = \"x\" }\n\
                    fork_modes = { claude-code = \"bypassPermissions\" }\n";
        let (settings, warnings) = taken(more, Layer::Untrusted, false);
        assert_eq!(settings, Settings::default());
        assert_eq!(warnings.len(), 9, "{warnings:#?}");
        let less = "[schedule]\ndefault_idle_deadline = 0\nchain_limit = 1\nrunaway_limit = 2\nflush_on_close = false\nmax_parallel = 1\n\
                    enable_tags = [\"x\"]\nrun_timeout = 60\ntag_throttles = { t = 60 }\n";
        let (settings, warnings) = taken(less, Layer::Untrusted, true);
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!((settings.chain_limit, settings.runaway_limit, settings.default_idle_deadline), (1, 2, 0));
    }
}
