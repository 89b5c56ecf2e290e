//! Where definitions are found: the roots above a directory and the user's own, walked in one pass that reads each file once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::definition::{Fork, Found, Hook, SHADOWED, Source, Warning};
use super::parse::{self, Context};
use crate::ids::sha256_hex;
use crate::place::{Env, canonical, open_plain, plain};
use crate::text::first_words;

/// How deep below a root definitions may lie.
const DEPTH: usize = 8;
/// More entries than this are no definitions.
const ENTRIES: usize = 10_000;
/// A longer file is no definition, and no configuration, bytes.
pub const LONGEST: u64 = 1 << 20;
/// The directories that make a directory a project.
const MARKS: [&str; 2] = [".leaf", ".autofork"];

/// The user's own directories.
#[derive(Clone, Debug, Default)]
struct Own {
    home: Option<PathBuf>,
    /// Where leaf's configuration lies.
    config: Option<PathBuf>,
    autofork: Option<PathBuf>,
    claude: Option<PathBuf>,
    agents: Option<PathBuf>,
}

impl Own {
    fn new(env: &Env) -> Own {
        Own::at(env, canonical)
    }

    /// As [`Own::new`], with the home as it is made of the environment's.
    fn at(env: &Env, home: impl Fn(&Path) -> PathBuf) -> Own {
        let absolute = |name: &str| env.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME").map(|path| home(&path));
        let below = |name: &str| home.as_ref().map(|home| home.join(name));
        Own {
            config: crate::config::file(env).and_then(|file| Some(file.parent()?.to_owned())),
            autofork: autofork_home(env),
            claude: absolute("LEAF_CLAUDE_DIR")
                .or_else(|| absolute("AUTOFORK_CLAUDE_DIR"))
                .or_else(|| absolute("CLAUDE_CONFIG_DIR"))
                .or_else(|| below(".claude")),
            agents: absolute("LEAF_AGENTS_DIR")
                .or_else(|| absolute("AUTOFORK_AGENTS_DIR"))
                .or_else(|| below(".agents")),
            home,
        }
    }

    /// The roots that are the user's wherever the session's directory lies, in their order.
    fn roots(&self, kind: Kind) -> Vec<PathBuf> {
        let below = |base: Option<&PathBuf>, name: &str| base.map(|base| base.join(name));
        let leaf = self.home.as_ref().map(|home| home.join(".leaf"));
        let found = match kind {
            Kind::Forks => vec![
                below(self.config.as_ref(), "forks"),
                below(leaf.as_ref(), "forks"),
                below(self.autofork.as_ref(), "forks"),
                below(self.claude.as_ref(), "forks"),
            ],
            Kind::Skills => vec![below(self.claude.as_ref(), "skills"), below(self.agents.as_ref(), "skills")],
            Kind::Hooks => vec![
                below(self.config.as_ref(), "hooks"),
                below(leaf.as_ref(), "hooks"),
                below(self.autofork.as_ref(), "hooks"),
            ],
        };
        found.into_iter().flatten().collect()
    }
}

/// Returns autofork's own directory: `$AUTOFORK_HOME`, else `~/.autofork`.
pub fn autofork_home(env: &Env) -> Option<PathBuf> {
    let absolute = |name: &str| env.var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("AUTOFORK_HOME").or_else(|| Some(absolute("HOME")?.join(".autofork")))
}

/// What a root holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Forks alone.
    Forks,
    /// Skills, of which some have a fork.
    Skills,
    /// Lifecycle hooks.
    Hooks,
}

impl Kind {
    /// Where its roots lie in a directory of the project's, in their order.
    fn places(self) -> &'static [&'static str] {
        match self {
            Kind::Forks => &[".leaf/forks", ".autofork/forks", ".claude/forks"],
            Kind::Skills => &[".claude/skills", ".agents/skills"],
            Kind::Hooks => &[".leaf/hooks", ".autofork/hooks"],
        }
    }

    /// The file that makes a folder a definition.
    fn file(self) -> &'static str {
        match self {
            Kind::Forks | Kind::Skills => "FORK.md",
            Kind::Hooks => "HOOK.md",
        }
    }
}

/// A place where definitions may lie.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Root {
    path: PathBuf,
    /// Whether it is the user's own (R126).
    own: bool,
    kind: Kind,
    id: (u64, u64),
}

/// Returns the roots of a kind for a directory, nearest first, the user's own last: those that exist, each once.
fn roots(own: &Own, dir: &Path, kind: Kind) -> Vec<Root> {
    let users = own.roots(kind);
    // Most are looked for and missing, some under several names: each is asked for once.
    let mut known = BTreeMap::new();
    let mut identity = |path: PathBuf| {
        let look = |path: &PathBuf| fs::metadata(path).ok().filter(Metadata::is_dir);
        *known.entry(path).or_insert_with_key(|path| look(path).map(|meta| (meta.dev(), meta.ino())))
    };
    let homes = own.home.iter().flat_map(|home| kind.places().iter().map(|place| home.join(place)));
    let owned: BTreeSet<(u64, u64)> = users.iter().cloned().chain(homes).filter_map(&mut identity).collect();
    let above = dir.ancestors().flat_map(|dir| kind.places().iter().map(move |place| dir.join(place)));
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for path in above.chain(users.iter().cloned()) {
        if let Some(id) = identity(path.clone())
            && seen.insert(id)
        {
            found.push(Root { path, own: owned.contains(&id), kind, id });
        }
    }
    found
}

/// Returns the project that a directory is of: the nearest at or above it that has a `.leaf`, `.autofork` or `.git`, else itself.
/// What lies directly in the user's home makes the home no project: every directory below it would be of one project (W9).
pub fn project_root(env: &Env, dir: &Path) -> PathBuf {
    let dir = canonical(dir);
    let home = env.var("HOME").map(|home| canonical(Path::new(&home)));
    let marked = |above: &&Path| {
        above.join(".git").exists()
            || (home.as_deref() != Some(*above) && MARKS.iter().any(|mark| above.join(mark).is_dir()))
    };
    dir.ancestors().find(marked).unwrap_or(&dir).to_path_buf()
}

/// Whether there is a directory that may hold lifecycle hooks for a directory that is canonical. That nothing is there is told at the
/// price of a look at each place.
pub fn may_have_hooks(env: &Env, dir: &Path) -> bool {
    let users = Own::at(env, |home| home.to_owned()).roots(Kind::Hooks);
    let above = dir.ancestors().flat_map(|dir| Kind::Hooks.places().iter().map(move |place| dir.join(place)));
    let mut places: Vec<PathBuf> = users.into_iter().chain(above).collect();
    places.sort();
    places.dedup();
    places.iter().any(|place| is_dir(place))
}

fn is_dir(path: &Path) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Returns the directories that exist and may hold lifecycle hooks for a directory.
pub fn hook_roots(env: &Env, dir: &Path) -> Vec<PathBuf> {
    roots(&Own::new(env), &canonical(dir), Kind::Hooks).into_iter().map(|root| root.path).collect()
}

/// Returns the directories that exist and may hold forks for a directory, skills' too. None: there is no fork.
pub fn fork_roots(env: &Env, dir: &Path) -> Vec<PathBuf> {
    let (own, dir) = (Own::new(env), canonical(dir));
    let all = [Kind::Forks, Kind::Skills].into_iter().flat_map(|kind| roots(&own, &dir, kind));
    all.map(|root| root.path).collect()
}

/// Finds the forks for a session's directory.
pub fn forks(env: &Env, dir: &Path) -> Found<Fork> {
    let mut found = definitions(env, dir, &[Kind::Forks, Kind::Skills], |item, context, warnings| {
        let fork = parse::fork(item.text, item.source, item.skill, context, warnings)?;
        Some((fork.source.path.clone(), fork))
    });
    check_after(&found.list, &mut found.warnings);
    found
}

/// Finds the lifecycle hooks for a session's directory.
pub fn hooks(env: &Env, dir: &Path) -> Found<Hook> {
    definitions(env, dir, &[Kind::Hooks], |item, context, warnings| {
        let hook = parse::hook(item.text, item.source, context, warnings)?;
        Some((hook.source.path.clone(), hook))
    })
}

fn definitions<T>(
    env: &Env,
    dir: &Path,
    kinds: &[Kind],
    parse: impl Fn(Item<'_>, &Context<'_>, &mut Vec<Warning>) -> Option<(PathBuf, T)>,
) -> Found<T> {
    let (own, dir) = (Own::new(env), canonical(dir));
    let roots: Vec<Root> = kinds.iter().flat_map(|kind| roots(&own, &dir, *kind)).collect();
    let mut found = Found { list: Vec::new(), shadowed: Vec::new(), warnings: Vec::new() };
    if roots.is_empty() {
        return found;
    }
    let project = project_root(env, &dir);
    let mut walk = Walk { roots: roots.iter().map(|root| root.id).collect(), ..Walk::default() };
    let mut names = BTreeMap::new();
    for root in &roots {
        walk.dir(&root.path, root, 0, &mut |item, warnings| {
            let name = item.name.to_owned();
            let context = Context { name: &name, project: &project, home: own.home.as_deref() };
            if let Some((path, definition)) = parse(item, &context, warnings) {
                let first = is_first(&mut names, &name, &path, warnings);
                if first { &mut found.list } else { &mut found.shadowed }.push(definition);
            }
        });
    }
    found.warnings = walk.warnings;
    found
}

/// Whether a name is free; it is taken then.
fn is_first(names: &mut BTreeMap<String, PathBuf>, name: &str, path: &Path, warnings: &mut Vec<Warning>) -> bool {
    let Some(first) = names.get(name) else {
        names.insert(name.to_owned(), path.to_owned());
        return true;
    };
    // One file under two paths is no clash.
    if canonical(first) != canonical(path) {
        let text = format!("{SHADOWED}, and passed over: {} has the name {name} too, and is nearer", first.display());
        warnings.push(Warning { file: path.to_owned(), key: None, text });
    }
    false
}

/// Tells of names in `after` that no fork has, and of cycles: a batch cuts them.
fn check_after(forks: &[Fork], warnings: &mut Vec<Warning>) {
    const KEY: &str = "after";
    let index: BTreeMap<&str, usize> = forks.iter().enumerate().map(|(at, fork)| (fork.name.as_str(), at)).collect();
    let edges: Vec<Vec<usize>> = forks
        .iter()
        .map(|fork| fork.after.iter().filter_map(|name| index.get(name.as_str()).copied()).collect())
        .collect();
    for fork in forks {
        for name in fork.after.iter().filter(|name| !index.contains_key(name.as_str())) {
            let text = format!("names {}, and no fork has that name: it waits for none", first_words(name, 60));
            warnings.push(Warning { file: fork.source.path.clone(), key: Some(KEY.to_owned()), text });
        }
    }
    // A depth-first walk without recursion; an edge to what is being walked closes a cycle.
    let mut state = vec![0_u8; forks.len()];
    for start in 0..forks.len() {
        let mut path: Vec<(usize, usize)> = Vec::new();
        if state[start] == 0 {
            state[start] = 1;
            path.push((start, 0));
        }
        while let Some((at, next)) = path.last_mut() {
            let Some(&to) = edges[*at].get(*next) else {
                state[*at] = 2;
                path.pop();
                continue;
            };
            *next += 1;
            if state[to] == 0 {
                state[to] = 1;
                path.push((to, 0));
            } else if state[to] == 1 {
                let from = path.iter().position(|(at, _)| *at == to).unwrap_or_default();
                let mut ring: Vec<&str> =
                    path[from..].iter().take(20).map(|(at, _)| forks[*at].name.as_str()).collect();
                ring.push(&forks[to].name);
                let text =
                    format!("goes round in a circle ({}): one of them runs without waiting", ring.join(" after "));
                let file = forks[to].source.path.clone();
                warnings.push(Warning { file, key: Some(KEY.to_owned()), text: first_words(&text, 400) });
            }
        }
    }
}

/// A file as it is handed to its reader.
struct Item<'a> {
    /// The definition's name.
    name: &'a str,
    text: &'a str,
    source: Source,
    skill: Option<PathBuf>,
}

/// What is done with each file.
type Taker<'a> = &'a mut dyn FnMut(Item<'_>, &mut Vec<Warning>);

/// One walk over all roots.
#[derive(Default)]
struct Walk {
    warnings: Vec<Warning>,
    /// The roots: each is read in its turn alone, so that a project's link can't make the user's own files the project's.
    roots: BTreeSet<(u64, u64)>,
    /// The directories that were read, by device and inode.
    seen: BTreeSet<(u64, u64)>,
    /// Those above the present one.
    above: Vec<(u64, u64)>,
    entries: usize,
    full: bool,
    buffer: Vec<u8>,
}

impl Walk {
    fn warn(&mut self, file: &Path, text: impl Into<String>) {
        self.warnings.push(Warning { file: file.to_owned(), key: None, text: text.into() });
    }

    fn dir(&mut self, dir: &Path, root: &Root, depth: usize, take: Taker<'_>) {
        let id = match fs::metadata(dir) {
            Ok(meta) => (meta.dev(), meta.ino()),
            Err(error) => {
                return self.warn(dir, format!("can't be looked into ({}), and is passed over", plain(&error)));
            }
        };
        if (depth > 0 && self.roots.contains(&id)) || !self.seen.insert(id) {
            if self.above.contains(&id) {
                self.warn(dir, "leads back to a directory above it, and is passed over");
            }
            return;
        }
        let mut names = match fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => return self.warn(dir, format!("can't be read ({}), and is passed over", plain(&error))),
        };
        names.sort_by_key(fs::DirEntry::file_name);
        self.above.push(id);
        for entry in names {
            self.entries += 1;
            if self.entries > ENTRIES {
                if !std::mem::replace(&mut self.full, true) {
                    self.warn(
                        dir,
                        format!("has more than {ENTRIES} entries with those before it: no others are looked at"),
                    );
                }
                break;
            }
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            let Some(name) = name.to_str() else {
                self.warn(&path, "has a name that isn't UTF-8, and is passed over");
                continue;
            };
            // A link counts as what it leads to.
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_symlink() => fs::metadata(&path).map(|meta| meta.file_type()),
                other => other,
            };
            match kind {
                Ok(kind) if kind.is_dir() => self.folder(&path, root, depth + 1, take),
                Ok(_) if root.kind == Kind::Skills || !name.ends_with(".md") => {}
                Ok(kind) if kind.is_file() => self.file(&path, name.strip_suffix(".md").unwrap_or(name), root, take),
                Ok(_) => self.warn(&path, "is no plain file, and is passed over"),
                Err(error) if name.ends_with(".md") || error.kind() != io::ErrorKind::NotFound => {
                    self.warn(&path, format!("can't be looked at ({}), and is passed over", plain(&error)));
                }
                // A link that leads nowhere and names no definition.
                Err(_) => {}
            }
        }
        self.above.pop();
    }

    fn folder(&mut self, dir: &Path, root: &Root, depth: usize, take: Taker<'_>) {
        let file = dir.join(root.kind.file());
        let is_skill = root.kind == Kind::Skills && dir.join("SKILL.md").is_file();
        // Whatever is there under that name, a directory that can't be told from one that hasn't it is looked into.
        let is_definition = fs::symlink_metadata(&file).is_ok();
        match (root.kind, is_skill, is_definition) {
            (Kind::Skills, true, true) | (Kind::Forks | Kind::Hooks, _, true) => {
                let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                self.file(&file, &name, root, take);
            }
            (Kind::Skills, true, false) => {}
            _ if depth > DEPTH => {
                self.warn(
                    dir,
                    format!("lies more than {DEPTH} directories below {}, and is passed over", root.path.display()),
                );
            }
            _ => self.dir(dir, root, depth, take),
        }
    }

    fn file(&mut self, path: &Path, name: &str, root: &Root, take: Taker<'_>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        match read(path, &mut buffer) {
            Err(why) => self.warn(path, format!("{why}, and is passed over")),
            Ok(()) => match std::str::from_utf8(&buffer) {
                Err(_) => self.warn(path, "isn't UTF-8, and is passed over"),
                Ok(text) => {
                    let is_fork = root.kind != Kind::Hooks && path.ends_with("FORK.md");
                    let skill = is_fork.then(|| path.with_file_name("SKILL.md")).filter(|skill| skill.is_file());
                    let source = Source { path: path.to_owned(), own: root.own, sha256: sha256_hex(&buffer) };
                    take(Item { name, text, source, skill }, &mut self.warnings);
                }
            },
        }
        self.buffer = buffer;
    }
}

/// Reads a definition's file.
fn read(path: &Path, buffer: &mut Vec<u8>) -> Result<(), String> {
    let sentence = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidInput => "is no plain file".to_owned(),
        _ => format!("can't be read ({})", plain(&error)),
    };
    let file = open_plain(path).map_err(sentence)?;
    file.take(LONGEST + 1).read_to_end(buffer).map_err(sentence)?;
    if buffer.len() as u64 > LONGEST { Err("is longer than 1 MiB".to_owned()) } else { Ok(()) }
}
