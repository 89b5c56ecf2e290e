//! A definition's file, read key by key. What is off costs its key alone and is told; only what limits a fork's rights stops it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::definition::{Client, Deliver, Fork, Guard, Hook, HookMoment, Moment, PerClient, Source, ToolKind, Warning};
use super::frontmatter::{self, Value, hidden_name, is_hidden};
use super::{MAX_BYTES, TIMEOUT, duration};

/// The keys of a fork's file.
const FORK: [&str; 16] = [
    "fork",
    "description",
    "run_on",
    "throttle",
    "after",
    "priority",
    "overlap",
    "tags",
    "chain",
    "chain_limit",
    "gate",
    "background_hold",
    "model",
    "mode",
    "guard",
    "name",
];
/// The keys of a hook's file.
const HOOK: [&str; 9] = ["hook", "description", "on", "command", "timeout", "deliver", "max_bytes", "throttle", "name"];
/// The keys that make a file without a marker look like a fork.
const LIKE_A_FORK: [&str; 18] = [
    "description",
    "run_on",
    "throttle",
    "after",
    "priority",
    "overlap",
    "tags",
    "chain",
    "chain_limit",
    "gate",
    "model",
    "mode",
    "guard",
    "background_hold",
    "delivery",
    "allowed_tools",
    "permission_mode",
    "triggers",
];
/// The keys that make a file without a marker look like a hook.
const LIKE_A_HOOK: [&str; 2] = ["on", "command"];
/// Keys that once meant something.
const OBSOLETE: [(&str, &str); 5] = [
    ("rag", "it means nothing any more"),
    ("triggers", "it means nothing any more: `run_on` says when a fork runs"),
    ("delivery", "it means nothing any more: a report is delivered at the next prompt"),
    ("allowed_tools", "it means nothing any more: `guard` says what a fork may touch"),
    ("permission_mode", "it means nothing any more: `mode` says it"),
];
/// Moments that are known and never come.
const NEVER: [&str; 6] = ["compact", "compaction", "session_start", "session_end", "manual_stop", "boot"];

/// What a file is read for.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The definition's name.
    pub name: &'a str,
    /// The project: what a guard's relative paths are below.
    pub project: &'a Path,
    /// The user's home: what `~` means.
    pub home: Option<&'a Path>,
}

struct Keys<'a> {
    file: &'a Path,
    entries: Vec<(String, Value)>,
    warnings: Vec<Warning>,
}

impl Keys<'_> {
    fn take(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(name, _)| name == key)?;
        Some(self.entries.remove(at).1)
    }

    /// Takes a key; one that is empty is as one that isn't there.
    fn some(&mut self, key: &str) -> Option<Value> {
        self.take(key).filter(|value| *value != Value::Null)
    }

    fn has(&self, keys: &[&str]) -> bool {
        self.entries.iter().any(|(name, _)| keys.contains(&name.as_str()))
    }

    fn warn(&mut self, key: &str, text: impl Into<String>) {
        self.warnings.push(Warning { file: self.file.to_owned(), key: Some(key.to_owned()), text: text.into() });
    }

    fn warn_file(&mut self, text: impl Into<String>) {
        self.warnings.push(Warning { file: self.file.to_owned(), key: None, text: text.into() });
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        match self.some(key)? {
            Value::Bool(value) => Some(value),
            other => {
                self.warn(key, format!("is {other}, not true or false, and is passed over"));
                None
            }
        }
    }

    fn text(&mut self, key: &str) -> Option<String> {
        let text = match self.some(key)? {
            Value::Text(text) => text,
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Float(value) => value.to_string(),
            other @ (Value::List(_) | Value::Map(_) | Value::Null) => {
                self.warn(key, format!("is {other}, not a text, and is passed over"));
                return None;
            }
        };
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Takes a time that must be more than nothing.
    fn time(&mut self, key: &str, instead: &str) -> Option<u64> {
        let value = self.some(key)?;
        match time(&value) {
            Ok(0) => self.warn(key, format!("is 0, and has to be more: {instead}")),
            Ok(seconds) => return Some(seconds),
            Err(why) => self.warn(key, format!("{why}: {instead}")),
        }
        None
    }

    /// Tells of what is left: nobody knows these keys. Returns whether one of them may be meant as `guard`.
    fn rest(&mut self, known: &[&str], what: &str) -> bool {
        let mut limits = false;
        for (key, _) in std::mem::take(&mut self.entries) {
            let visible: String = key.chars().filter(|c| !is_hidden(*c)).collect();
            let plain = visible.trim().to_lowercase().replace(['-', ' '], "_");
            let near = known.iter().find(|name| **name == plain).or_else(|| {
                let close = |name: &&&str| name.len() > 3 && strsim::osa_distance(name, &plain) <= 2;
                known.iter().filter(close).min_by_key(|name| strsim::osa_distance(name, &plain))
            });
            limits |= near.is_some_and(|name| *name == "guard") && known.contains(&"guard");
            let hidden = key.chars().find(|c| is_hidden(*c));
            let text = match (hidden, near) {
                (Some(c), Some(name)) => {
                    format!("has {} in it, and is passed over: type `{name}` again", hidden_name(c))
                }
                (Some(c), None) => format!("has {} in it, and is passed over: type it again", hidden_name(c)),
                (None, Some(name)) => format!("is no key of a {what}, and is passed over: is `{name}` meant?"),
                (None, None) => format!("is no key of a {what}, and is passed over"),
            };
            // A file's own text goes into a sentence as it may be shown.
            let key = if hidden.is_some() { visible } else { key };
            self.warn(&key, text);
        }
        limits
    }
}

/// Reads the seconds of a time.
fn time(value: &Value) -> Result<u64, String> {
    match value {
        Value::Int(number) => duration::of_number(*number),
        Value::Text(text) => duration::parse(text),
        other => Err(format!("is {other}, no time (a whole number with s, m, h or d, as in 10m)")),
    }
}

/// Reads a whole number, as such or as a text.
fn number(value: &Value) -> Option<i128> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Text(text) => {
            let text = text.trim();
            let digits = text.strip_prefix('-').unwrap_or(text);
            let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            text.parse().ok().filter(|_| plain)
        }
        _ => None,
    }
}

/// Reads a file's keys, with the marker that makes it a definition; `None` where it is none, and what is to be said is said.
fn open<'a, 't>(
    text: &'t str,
    file: &'a Path,
    marker: &str,
    like: &[&str],
    warnings: &mut Vec<Warning>,
) -> Option<(Keys<'a>, &'t str)> {
    let what = marker;
    let mut keys = Keys { file, entries: Vec::new(), warnings: Vec::new() };
    let parts = frontmatter::split(text)?;
    let looks = |yaml: &str| {
        yaml.lines().any(|line| {
            let key: String = line.split(':').next().unwrap_or_default().chars().filter(|c| !is_hidden(*c)).collect();
            line.contains(':') && (key.trim() == marker || like.contains(&key.trim()))
        })
    };
    if !parts.closed {
        if looks(parts.yaml) {
            keys.warn_file(format!("has a frontmatter that no `---` ends, and is no {what} until one does"));
            warnings.append(&mut keys.warnings);
        }
        return None;
    }
    keys.entries = match frontmatter::read(parts.yaml, parts.line) {
        Ok(entries) => entries,
        Err(why) => {
            keys.warn_file(format!("{why}: it is no {what} until that is put right"));
            warnings.append(&mut keys.warnings);
            return None;
        }
    };
    let is = match keys.take(marker) {
        Some(Value::Bool(true)) => true,
        Some(Value::Bool(false)) => return None,
        Some(other) => {
            keys.warn(marker, format!("is {other}, and only `{marker}: true` counts: it is no {what}"));
            false
        }
        None => {
            let hidden = |key: &str| key.chars().filter(|c| !is_hidden(*c)).collect::<String>().trim() == marker;
            let hidden = keys.entries.iter().map(|(key, _)| key.clone()).find(|key| hidden(key));
            if let Some(c) = hidden.as_deref().and_then(|key| key.chars().find(|c| is_hidden(*c))) {
                keys.warn(marker, format!("has {} in it: it is no {what} until it is typed again", hidden_name(c)));
            } else if keys.has(like) {
                keys.warn(marker, format!("isn't there: without `{marker}: true` it is no {what}"));
            }
            false
        }
    };
    if is {
        for odd in parts.odd {
            keys.warn_file(format!("{odd}; it was read all the same"));
        }
        return Some((keys, parts.body));
    }
    warnings.append(&mut keys.warnings);
    None
}

/// Reads a fork's file; `None` where it is no fork.
pub fn fork(
    text: &str,
    source: Source,
    skill: Option<PathBuf>,
    context: &Context<'_>,
    warnings: &mut Vec<Warning>,
) -> Option<Fork> {
    let path = source.path.clone();
    let (mut keys, body) = open(text, &path, "fork", &LIKE_A_FORK, warnings)?;
    own_name(&mut keys, context.name);
    for (key, why) in OBSOLETE {
        if keys.take(key).is_some() {
            keys.warn(key, why);
        }
    }
    let (run_on, never) = run_on(&mut keys);
    let mut stopped = never.then(|| "it has no moment that comes".to_owned());
    let throttle = keys.time("throttle", "there is none");
    let after = after(&mut keys, context.name);
    let priority = match keys.some("priority") {
        None => 0,
        Some(value) => match number(&value).and_then(|number| i64::try_from(number).ok()) {
            Some(priority) => priority,
            None => {
                keys.warn("priority", format!("is {value}, not a whole number, and is 0"));
                0
            }
        },
    };
    let overlap = keys.flag("overlap").unwrap_or_default();
    let tags = tags(&mut keys);
    let chain = keys.flag("chain").unwrap_or_default();
    let chain_limit = match keys.some("chain_limit") {
        None => None,
        Some(value) => match number(&value).and_then(|number| u32::try_from(number).ok()).filter(|limit| *limit > 0) {
            Some(_) if !chain => {
                keys.warn("chain_limit", "says nothing without `chain: true`, and is passed over");
                None
            }
            Some(limit) => Some(limit),
            None => {
                keys.warn(
                    "chain_limit",
                    format!("is {value}, not a whole number above 0: the configuration's chain_limit counts"),
                );
                None
            }
        },
    };
    let gate = keys.flag("gate").unwrap_or_default();
    let background_hold = keys.flag("background_hold");
    let models = per_client(&mut keys, "model");
    let modes = per_client(&mut keys, "mode");
    let guard = match keys.take("guard") {
        None => None,
        Some(value) => match guard(value, context) {
            Ok(guard) => Some(guard),
            Err(why) => {
                let why = format!("guard {why}");
                keys.warn("guard", format!("is not understood, and the fork doesn't run: {why}"));
                stopped = Some(why);
                Some(Guard::default())
            }
        },
    };
    let description = keys.text("description");
    if keys.rest(&FORK, "fork") {
        keys.warn(
            "guard",
            "may be what another key of the file means, and the fork doesn't run until that is put right",
        );
        stopped = Some("a key of it may mean `guard`, and isn't that".to_owned());
    }
    if body.trim().is_empty() && skill.is_none() {
        keys.warn_file("has no text below its frontmatter: its runs are told nothing to do");
    }
    warnings.append(&mut keys.warnings);
    Some(Fork {
        name: context.name.to_owned(),
        source,
        skill,
        description,
        run_on,
        throttle,
        after,
        priority,
        overlap,
        tags,
        chain,
        chain_limit,
        gate,
        background_hold,
        models,
        modes,
        guard,
        stopped,
        body: body.to_owned(),
    })
}

/// A definition is named by its file.
fn own_name(keys: &mut Keys<'_>, name: &str) {
    match keys.take("name") {
        Some(Value::Text(other)) if other != name => {
            keys.warn("name", format!("is passed over: its file's name counts, and that is {name}"));
        }
        _ => {}
    }
}

/// Reads `run_on`; with it whether all that it holds never comes.
fn run_on(keys: &mut Keys<'_>) -> (Vec<Moment>, bool) {
    const KEY: &str = "run_on";
    let idle = vec![Moment::Idle(None)];
    let list = match keys.some(KEY) {
        None => return (idle, false),
        Some(Value::List(list)) => list,
        Some(one @ (Value::Text(_) | Value::Map(_))) => {
            keys.warn(KEY, "is no list; it was read as a list of this one moment");
            vec![one]
        }
        Some(other) => {
            keys.warn(KEY, format!("is {other}, not a list of moments: it runs at `idle`"));
            return (idle, false);
        }
    };
    if list.is_empty() {
        keys.warn(KEY, "is an empty list: it runs at `idle`");
        return (idle, false);
    }
    let mut moments = Vec::new();
    let mut never = false;
    for entry in &list {
        match moment(entry) {
            Ok(Some(moment)) if moments.contains(&moment) => {
                keys.warn(KEY, format!("names {} twice, and the second is passed over", moment.label()));
            }
            Ok(Some(moment)) => moments.push(moment),
            Ok(None) => {
                never = true;
                keys.warn(KEY, format!("names a moment that never comes for a fork ({entry})"));
            }
            Err(why) => keys.warn(KEY, format!("{why}, and that moment is passed over")),
        }
    }
    if !moments.is_empty() {
        return (moments, false);
    }
    if never {
        keys.warn(KEY, "names no moment that comes: the fork never runs");
        return (moments, true);
    }
    keys.warn(KEY, "has no moment that was understood: it runs at `idle`");
    (idle, false)
}

/// A moment's word and what it is given.
fn entry(value: &Value) -> Result<(String, Option<Value>), String> {
    match value {
        Value::Text(text) => match text.split_once(':') {
            None => Ok((text.trim().to_owned(), None)),
            Some((word, given)) => Ok((word.trim().to_owned(), Some(Value::Text(given.trim().to_owned())))),
        },
        Value::Map(map) => match map.as_slice() {
            [(word, Value::Null)] => Ok((word.trim().to_owned(), None)),
            [(word, given)] => Ok((word.trim().to_owned(), Some(given.clone()))),
            [] => Err("has an empty entry".to_owned()),
            _ => Err("has a malformed entry (two keys in one; each wants a `- ` of its own)".to_owned()),
        },
        other => Err(format!("has {other} where a moment should stand")),
    }
}

/// Reads a moment of a fork; `None`: one that never comes.
fn moment(value: &Value) -> Result<Option<Moment>, String> {
    let (word, given) = entry(value)?;
    if NEVER.contains(&word.as_str()) {
        return Ok(None);
    }
    let wanted = |what: &str| format!("has `{word}` without {what}");
    Ok(Some(match (word.as_str(), given) {
        ("idle", None) => Moment::Idle(None),
        ("idle", Some(given)) => Moment::Idle(Some(time(&given).map_err(|why| format!("has `idle` that {why}"))?)),
        ("every", Some(given)) => match time(&given).map_err(|why| format!("has `every` that {why}"))? {
            0 => return Err("has `every` that is 0".to_owned()),
            seconds => Moment::Every(seconds),
        },
        ("every", None) => return Err(wanted("a time")),
        ("context_tokens" | "context_left", given) => {
            let number = given.as_ref().and_then(number).and_then(|number| u64::try_from(number).ok());
            let number = number.ok_or_else(|| wanted("a whole number of tokens"))?;
            if word == "context_left" { Moment::ContextLeft(number) } else { Moment::ContextTokens(number) }
        }
        ("context_used", given) => {
            let percent = match &given {
                Some(Value::Text(text)) => {
                    let text = text.trim();
                    number(&Value::Text(text.strip_suffix('%').unwrap_or(text).to_owned()))
                }
                other => other.as_ref().and_then(number),
            };
            let percent = percent.and_then(|percent| u8::try_from(percent).ok());
            let percent = percent.filter(|percent| (1..=100).contains(percent));
            Moment::ContextUsed(percent.ok_or_else(|| wanted("a number of per cent from 1 to 100"))?)
        }
        ("changed", given) => Moment::Changed(pattern(given).ok_or_else(|| wanted("a pattern"))?),
        ("event", given) => Moment::Event(words(given).ok_or_else(|| wanted("a name"))?),
        _ => return Err(format!("names no moment with {value}")),
    }))
}

/// Reads a pattern of files.
fn pattern(value: Option<Value>) -> Option<String> {
    words(value).filter(|text| glob::Pattern::new(text).is_ok())
}

/// Reads a text that isn't empty.
fn words(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::Text(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Some(Value::Int(number)) => Some(number.to_string()),
        _ => None,
    }
}

fn after(keys: &mut Keys<'_>, own: &str) -> Vec<String> {
    const KEY: &str = "after";
    let list = match keys.some(KEY) {
        None => return Vec::new(),
        Some(Value::List(list)) => list,
        Some(one) => vec![one],
    };
    let mut names: Vec<String> = Vec::new();
    for entry in list {
        let (name, context) = match &entry {
            Value::Text(name) => (Some(name.trim().to_owned()), false),
            Value::Map(map) => match map.as_slice() {
                [(kind, Value::Text(name))] if kind == "fork" || kind == "skill" => {
                    (Some(name.trim().to_owned()), false)
                }
                [(kind, Value::Text(name))] if kind == "context" => (Some(name.trim().to_owned()), true),
                _ => (None, false),
            },
            _ => (None, false),
        };
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            keys.warn(KEY, format!("has {entry} where a fork's name should stand, and that is passed over"));
            continue;
        };
        if context {
            keys.warn(KEY, "has `context`, which means nothing any more; its name counts as a fork's");
        }
        let shown = crate::text::first_words(&name, 60);
        if name == own {
            keys.warn(KEY, format!("names the fork itself ({shown}), and that is passed over"));
        } else if names.contains(&name) {
            keys.warn(KEY, format!("names {shown} twice, and the second is passed over"));
        } else {
            names.push(name);
        }
    }
    names
}

fn tags(keys: &mut Keys<'_>) -> Vec<String> {
    const KEY: &str = "tags";
    let list = match keys.some(KEY) {
        None => return Vec::new(),
        Some(Value::List(list)) => list,
        Some(one @ Value::Text(_)) => vec![one],
        Some(other) => {
            keys.warn(KEY, format!("is {other}, not a list of texts, and is passed over"));
            return Vec::new();
        }
    };
    let mut tags: Vec<String> = Vec::new();
    for entry in list {
        let Value::Text(text) = &entry else {
            keys.warn(KEY, format!("has {entry}, not a text, and that is passed over"));
            continue;
        };
        for tag in text.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
            if !tags.iter().any(|known| known == tag) {
                tags.push(tag.to_owned());
            }
        }
    }
    tags
}

/// Reads candidates: a text, or a list of texts of which none is empty.
fn candidates(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| match value {
        // What begins so would be a flag of the client's.
        Value::Text(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty() && !text.starts_with('-')),
        _ => None,
    };
    match value {
        Value::List(list) if !list.is_empty() => list.iter().map(text).collect(),
        other => text(other).map(|one| vec![one]),
    }
}

fn per_client(keys: &mut Keys<'_>, key: &str) -> PerClient {
    let mut found = BTreeMap::new();
    match keys.some(key) {
        None => {}
        Some(Value::Map(map)) => {
            for (name, value) in map {
                let shown = crate::text::first_words(&name, 40);
                match (Client::parse(&name), candidates(&value)) {
                    (Some(client), Some(list)) => drop(found.insert(client, list)),
                    (Some(_), None) => {
                        keys.warn(
                            key,
                            format!("has {value} for {shown}, no text and no list of texts, and that is passed over"),
                        );
                    }
                    (None, _) => {
                        keys.warn(
                            key,
                            format!("has {shown}, no client (claude-code, codex, opencode), and that is passed over"),
                        );
                    }
                }
            }
        }
        Some(value) => match candidates(&value) {
            Some(list) => found.extend(Client::ALL.map(|client| (client, list.clone()))),
            None => keys.warn(key, format!("is {value}, no text and no list of texts, and is passed over")),
        },
    }
    PerClient(found)
}

/// Reads a guard. It limits rights: what isn't understood is an error.
fn guard(value: Value, context: &Context<'_>) -> Result<Guard, String> {
    let Value::Map(map) = value else { return Err(format!("is {value}, not a map")) };
    let mut guard = Guard::default();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("write", Value::List(list)) => {
                guard.write = list.iter().map(|path| place(path, context)).collect::<Result<_, _>>()?;
            }
            ("tools", Value::List(list)) => {
                guard.tools = Some(list.iter().map(tool).collect::<Result<_, _>>()?);
            }
            ("network", Value::Bool(network)) => guard.network = network,
            ("deny", Value::List(list)) => {
                let pattern = |value: &Value| match value {
                    Value::Text(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
                    other => Err(format!("has {other} in `deny`, where a command should stand")),
                };
                guard.deny = list.iter().map(pattern).collect::<Result<_, _>>()?;
            }
            ("message", Value::Text(text)) => guard.message = Some(text.trim().to_owned()),
            ("write" | "tools" | "deny", other) => return Err(format!("has {other} as `{key}`, which is a list")),
            ("network", other) => return Err(format!("has {other} as `network`, which is true or false")),
            ("message", other) => return Err(format!("has {other} as `message`, which is a text")),
            _ => {
                let key: String = key.chars().filter(|c| !is_hidden(*c)).collect();
                return Err(format!("has `{}`, which it doesn't know", crate::text::first_words(&key, 40)));
            }
        }
    }
    Ok(guard)
}

fn tool(value: &Value) -> Result<ToolKind, String> {
    match value {
        Value::Text(word) => match word.trim() {
            "read" => Ok(ToolKind::Read),
            "shell" | "bash" => Ok(ToolKind::Shell),
            "edit" | "write" => Ok(ToolKind::Edit),
            "web" => Ok(ToolKind::Web),
            "task" | "agent" => Ok(ToolKind::Task),
            _ => Err(format!("has {value} in `tools`, which are read, shell, edit, web and task")),
        },
        other => Err(format!("has {other} in `tools`, which are read, shell, edit, web and task")),
    }
}

/// Reads a place that may be written to.
fn place(value: &Value, context: &Context<'_>) -> Result<PathBuf, String> {
    let text = match value {
        Value::Text(text) if !text.trim().is_empty() => text.trim(),
        other => return Err(format!("has {other} in `write`, where a path should stand")),
    };
    if text.contains(['*', '?']) {
        return Err(format!("has {value} in `write`, which are paths, not patterns"));
    }
    if text.chars().any(|c| c.is_control() || is_hidden(c)) {
        return Err("has a path with an invisible character in `write`".to_owned());
    }
    let path = match (text.strip_prefix('~'), context.home) {
        (None, _) => context.project.join(text),
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        (Some(_), _) => return Err(format!("has {value} in `write`, a home that isn't known")),
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    Ok(plain)
}

/// Reads a lifecycle hook's file; `None` where it is none.
pub fn hook(text: &str, source: Source, context: &Context<'_>, warnings: &mut Vec<Warning>) -> Option<Hook> {
    let path = source.path.clone();
    let (mut keys, _) = open(text, &path, "hook", &LIKE_A_HOOK, warnings)?;
    own_name(&mut keys, context.name);
    let on = on(&mut keys);
    let command = match keys.some("command") {
        Some(Value::Text(command)) if !command.trim().is_empty() => command.trim().to_owned(),
        other => {
            let is =
                other.map_or_else(|| "isn't there".to_owned(), |value| format!("is {value}, no text with a command"));
            keys.warn("command", format!("{is}: the hook never runs"));
            String::new()
        }
    };
    let timeout = keys.time("timeout", "it may take 60 s").unwrap_or(TIMEOUT);
    let throttle = keys.time("throttle", "there is none");
    let deliver = match keys.some("deliver") {
        None => Deliver::None,
        Some(value) => match &value {
            Value::Text(word) if word.trim() == "none" => Deliver::None,
            Value::Text(word) if word.trim() == "context" => Deliver::Context,
            Value::Text(word) if word.trim() == "wake" => Deliver::Wake,
            _ => {
                keys.warn("deliver", format!("is {value}, not none, context or wake: nothing is delivered"));
                Deliver::None
            }
        },
    };
    let max_bytes = match keys.some("max_bytes") {
        None => MAX_BYTES,
        Some(value) => match number(&value).and_then(|number| usize::try_from(number).ok()).filter(|max| *max > 0) {
            Some(max) => max,
            None => {
                keys.warn("max_bytes", format!("is {value}, not a whole number above 0, and is {MAX_BYTES}"));
                MAX_BYTES
            }
        },
    };
    let description = keys.text("description");
    keys.rest(&HOOK, "hook");
    warnings.append(&mut keys.warnings);
    Some(Hook {
        name: context.name.to_owned(),
        source,
        description,
        on,
        command,
        timeout,
        deliver,
        max_bytes,
        throttle,
    })
}

/// Reads `on`.
fn on(keys: &mut Keys<'_>) -> Vec<HookMoment> {
    const KEY: &str = "on";
    let list = match keys.some(KEY) {
        Some(Value::List(list)) => list,
        Some(one) => vec![one],
        None => Vec::new(),
    };
    let mut moments = Vec::new();
    for entry in &list {
        match hook_moment(entry) {
            Ok(moment) if moments.contains(&moment) => {
                keys.warn(KEY, format!("names {} twice, and the second is passed over", moment.label()));
            }
            Ok(moment) => moments.push(moment),
            Err(why) => keys.warn(KEY, format!("{why}, and that moment is passed over")),
        }
    }
    if moments.is_empty() {
        keys.warn(KEY, "names no moment: the hook never runs");
    }
    moments
}

fn hook_moment(value: &Value) -> Result<HookMoment, String> {
    let (word, given) = entry(value)?;
    Ok(match (word.as_str(), given) {
        ("session_start", None) => HookMoment::SessionStart,
        ("resume", None) => HookMoment::Resume,
        ("activity", None) => HookMoment::Activity,
        ("session_end", None) => HookMoment::SessionEnd,
        ("idle", None) => HookMoment::Idle(None),
        ("idle", Some(given)) => HookMoment::Idle(Some(time(&given).map_err(|why| format!("has `idle` that {why}"))?)),
        ("changed", given) => HookMoment::Changed(pattern(given).ok_or("has `changed` without a pattern")?),
        ("event", given) => HookMoment::Event(words(given).ok_or("has `event` without a name")?),
        _ => return Err(format!("names no moment with {value}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Fork>, Option<Hook>, Vec<Warning>) {
        let context = Context { name: "n", project: Path::new("/p"), home: Some(Path::new("/h")) };
        let source = Source { path: PathBuf::from("/p/n.md"), own: false, sha256: String::new() };
        let mut warnings = Vec::new();
        let fork = fork(text, source.clone(), None, &context, &mut warnings);
        let hook = hook(text, source, &context, &mut warnings);
        (fork, hook, warnings)
    }

    /// Values that some key may choke on.
    const VALUES: [&str; 30] = [
        "",
        "true",
        "false",
        "yes",
        "0",
        "-1",
        "1.5",
        "300000000000000d",
        "99999999999999999999",
        "1e400",
        ".nan",
        "\"\"",
        "idle",
        "idle: 5m",
        "[]",
        "{}",
        "[[]]",
        "[null]",
        "{a: b, c: d}",
        "[idle: 5m, {}]",
        "[idle, idle]",
        "{idle: [x]}",
        "~",
        "! x",
        "!!str 5",
        "'\u{200b}'",
        "*a",
        "&a [b]",
        "|\n  x",
        "a: b: c",
    ];

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

        /// A fork that is read has a moment or a reason, and a guard that was written is never lost.
        #[test]
        fn no_file_panics_and_none_is_widened(
            lines in proptest::collection::vec(
                (proptest::sample::select(FORK.iter().chain(&HOOK).chain(&LIKE_A_FORK).copied().collect::<Vec<_>>()),
                 proptest::sample::select(&VALUES[..])), 0..6),
            marker in proptest::sample::select(&["fork: true", "hook: true", "fork: true\nhook: true", ""][..]),
        ) {
            let lines: String = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
            let (fork, hook, _) = read(&format!("---\n{marker}\n{lines}---\nbody"));
            if let Some(fork) = fork {
                proptest::prop_assert!(fork.stopped.is_some() || !fork.run_on.is_empty());
                proptest::prop_assert!(!lines.contains("guard:") || fork.guard.is_some());
                proptest::prop_assert!(fork.throttle.is_none_or(|throttle| (1..=duration::MOST).contains(&throttle)));
            }
            if let Some(hook) = hook {
                proptest::prop_assert!(hook.timeout > 0 && hook.max_bytes > 0);
            }
        }
    }

    #[test]
    fn w31_no_number_wraps_into_a_moment() {
        for value in ["300000000000000d", "18446744073709551615", "-1", "99999999999999999999d"] {
            for key in ["idle", "every"] {
                let (fork, _, warnings) = read(&format!("---\nfork: true\nrun_on: [{key}: {value}]\n---\nDo it.\n"));
                assert_eq!(fork.unwrap().run_on, [Moment::Idle(None)], "{key}: {value}");
                assert_eq!(warnings.len(), 2, "{key}: {value}: {warnings:?}");
            }
        }
    }
}
