//! Which commands of a line certainly change the project (R115), on the reading of it that R69 has. Here doubt passes: what a
//! variable, a substitution or a program of its own makes is nobody's to tell.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::args::{Arg, Options};
use super::git::{Does, Git, Repository, gh_changes};
use super::programs::{Effect, effects};
use super::{Files, Ground, Guarded, LONGEST, resolve, without_dots};
use crate::rules::words::commands::{Program, Run, base, program, runs};
use crate::rules::words::lexer::{self, Command, Joined, Piece, Script, Word};
use crate::rules::words::{DEEPEST_TEXT, LONGEST_VALUE, Shell, Steps, power_shell_commands};

/// A line that names more paths than this is not read to its end: a hook must be done in time.
const MOST_LOOKS: usize = 2000;
/// More directories than this are no certainty.
const MOST_PLACES: usize = 8;

/// What a line would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The command, or the redirection, as it is named to a reader.
    pub by: String,
    /// What it changes.
    pub guarded: Guarded,
    /// Whether that is the project's repository or its remote, rather than a file.
    pub repository: bool,
}

/// R115: what the line certainly changes of the project, if anything.
#[must_use]
pub fn changes(command: &str, shell: Shell, ground: &Ground, files: &dyn Files) -> Option<Change> {
    let walk = Walk { ground, files, steps: Steps::of_a_line(), looks: Cell::new(0), untouched: Cell::new(true) };
    let here = Place::at(ground.cwd.clone());
    match shell {
        Shell::Posix => walk.text(command, &here, &Known::default(), 0),
        Shell::PowerShell => walk.power_shell(command, &here),
    }
}

/// Where a command may run: in one of these directories, as far as the line tells.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    directories: Vec<PathBuf>,
    /// Or anywhere else.
    lost: bool,
}

impl Place {
    fn at(directory: PathBuf) -> Place {
        Place { directories: vec![directory], lost: false }
    }

    fn or(&self, other: &Place) -> Place {
        let mut both = self.clone();
        both.lost |= other.lost;
        both.directories.extend(other.directories.iter().filter(|d| !self.directories.contains(d)).cloned());
        if both.directories.len() > MOST_PLACES { Place::lost() } else { both }
    }

    fn lost() -> Place {
        Place { directories: Vec::new(), lost: true }
    }

    /// Returns where a path may lead from here; nothing where it may lead anywhere.
    fn paths(&self, path: &str) -> Vec<PathBuf> {
        let path = Path::new(path);
        if path.is_absolute() {
            vec![path.to_path_buf()]
        } else if self.lost || self.directories.iter().any(|directory| directory.as_os_str().len() >= LONGEST) {
            Vec::new()
        } else {
            self.directories.iter().map(|directory| directory.join(path)).collect()
        }
    }
}

/// Where the commands of one list run: a chain of `&&` and `||` goes on where its last `cd` led.
#[derive(Clone, Debug)]
struct List {
    before: Place,
    now: Place,
    /// Every `cd` of the chain certainly ran, and succeeded.
    sure: bool,
    /// One certainly fails: whatever follows the chain runs where it began.
    fails: bool,
    /// Something else ran in the chain: what follows it may not.
    others: bool,
    /// What `cd -` leads back to, where that is certain.
    last: Option<Place>,
    /// What `popd` leads back to.
    pushed: Vec<Place>,
}

/// Where a `cd` leads.
struct Move {
    to: Place,
    /// It certainly succeeds.
    sure: bool,
    /// It certainly fails: the directory is not there, and nothing before it in the line could make it.
    fails: bool,
}

impl Move {
    fn lost() -> Move {
        Move { to: Place::lost(), sure: false, fails: false }
    }

    fn back(to: Option<&Place>) -> Move {
        to.map_or_else(Move::lost, |to| Move { to: to.clone(), sure: true, fails: false })
    }
}

impl List {
    fn from(place: Place) -> List {
        List {
            before: place.clone(),
            now: place,
            sure: true,
            fails: false,
            others: false,
            last: None,
            pushed: Vec::new(),
        }
    }

    /// Keeps what `cd -` and `popd` lead back to: nothing is known of it behind a move that may not have happened.
    fn went(&mut self, command: &Command, here: &Place, moved: &Move) {
        let sure = moved.sure && self.sure && !command.conditional && !(self.others && command.joined != Joined::Then);
        self.last = sure.then(|| here.clone());
        match command.words.first().and_then(Word::literal) {
            _ if !sure => self.pushed.clear(),
            Some("pushd") => self.pushed.push(here.clone()),
            Some("popd") => drop(self.pushed.pop()),
            _ => {}
        }
    }

    fn goes_on(&mut self, joined: Joined) {
        match joined {
            Joined::And | Joined::Pipe => {}
            Joined::Or if self.sure => {}
            Joined::Or if self.fails => self.now = self.before.clone(),
            Joined::Or => self.now = self.before.or(&self.now),
            Joined::Then => {
                if self.fails {
                    self.now = self.before.clone();
                } else if !self.sure {
                    self.now = self.before.or(&self.now);
                }
                let (last, pushed) = (self.last.take(), std::mem::take(&mut self.pushed));
                *self = List { last, pushed, ..List::from(self.now.clone()) };
            }
        }
    }
}

/// What the line itself makes of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// It is set once, to this.
    Is(Arg),
    /// One loop sets it, which was not read yet.
    Loop,
    /// It may be anything.
    Any,
}

/// The variables that the line itself sets.
type Known = BTreeMap<String, Value>;

struct Walk<'a> {
    ground: &'a Ground,
    files: &'a dyn Files,
    /// Where they are used up, nothing more is certain.
    steps: Steps,
    /// How many paths were looked at.
    looks: Cell<usize>,
    /// Nothing but `cd` ran yet.
    untouched: Cell<bool>,
}

impl Walk<'_> {
    fn text(&self, text: &str, place: &Place, known: &Known, depth: usize) -> Option<Change> {
        if depth > DEEPEST_TEXT || !self.steps.take(known.len()) {
            return None;
        }
        let script = lexer::read(text, &self.steps);
        // What follows an open quote was not understood.
        if script.broken {
            return None;
        }
        let mut known = known.clone();
        learn(&script, self.ground.home.as_deref(), &mut known);
        self.script(&script, place, &known, depth)
    }

    fn script(&self, script: &Script, place: &Place, known: &Known, depth: usize) -> Option<Change> {
        let mut lists: Vec<(usize, List)> = vec![(0, List::from(place.clone()))];
        let mut known = Cow::Borrowed(known);
        for (at, command) in script.commands.iter().enumerate() {
            if self.steps.gave_up() {
                return None;
            }
            let open = |lists: &[(usize, List)]| {
                lists[1..].iter().zip(&command.subshells).take_while(|((id, _), own)| id == *own).count()
            };
            lists.truncate(1 + open(&lists));
            if let Some((_, list)) = lists.last_mut() {
                list.goes_on(command.joined);
            }
            for id in &command.subshells[lists.len() - 1..] {
                let here = lists.last().map_or_else(Place::lost, |(_, list)| list.now.clone());
                lists.push((*id, List::from(here)));
            }
            let (_, list) = lists.last_mut()?;
            let here = list.now.clone();
            if let Some((name, list)) = loop_over(command)
                && known.get(name) == Some(&Value::Loop)
            {
                // What its first round does is certain.
                let first = Reads { walk: self, command, place: &here, known: &known, depth }.arg(list);
                if matches!(known, Cow::Borrowed(_)) && !self.steps.take(known.len()) {
                    return None;
                }
                known.to_mut().insert(name.to_owned(), Value::Is(first));
            }
            let reads = Reads { walk: self, command, place: &here, known: &known, depth };
            if let Some(change) = reads.changes(|| upstream(script, at)) {
                return Some(change);
            }
            // A command of a pipe runs in a shell of its own.
            let piped = command.joined == Joined::Pipe
                || script.commands.get(at + 1).is_some_and(|next| next.joined == Joined::Pipe);
            let back = match reads.command.words.first().and_then(Word::literal) {
                Some("popd") => list.pushed.last(),
                _ => list.last.as_ref(),
            };
            match reads.moves(back) {
                // A group whose output flows on is a shell of its own too; which commands are in it, the reading leaves open.
                Some(moved) if !piped && command.flows => {
                    list.last = None;
                    list.pushed.clear();
                    list.sure = false;
                    list.now = here.or(&moved.to);
                }
                Some(moved) if !piped => {
                    list.went(reads.command, &here, &moved);
                    // Behind a `cd` that certainly succeeds, `&&` certainly goes on.
                    let runs =
                        command.joined == Joined::Then || command.joined == Joined::And && list.sure && !list.others;
                    list.sure &= moved.sure && runs && !command.conditional;
                    list.fails |= moved.fails && !command.conditional;
                    list.now = moved.to;
                }
                Some(_) => {}
                None => {
                    list.others = true;
                    self.untouched.set(false);
                }
            }
        }
        None
    }

    /// Looks at what PowerShell's plain commands name; from a change of directory on only whole paths count.
    fn power_shell(&self, line: &str, here: &Place) -> Option<Change> {
        const MOVES: [&str; 7] = ["cd", "chdir", "sl", "set-location", "push-location", "pushd", "popd"];
        const WRITES: [&str; 15] = [
            "remove-item",
            "ri",
            "del",
            "erase",
            "rd",
            "set-content",
            "sc",
            "add-content",
            "ac",
            "clear-content",
            "clc",
            "out-file",
            "new-item",
            "ni",
            "rename-item",
        ];
        let mut place = here.clone();
        for words in power_shell_commands(line) {
            let Some((Some(name), args)) = words.split_first() else { continue };
            let lower = base(name).to_ascii_lowercase();
            let lower = lower.strip_suffix(".exe").unwrap_or(&lower);
            if MOVES.contains(&lower) {
                place = Place::lost();
                continue;
            }
            let arg = |word: &Option<String>| word.clone().map_or(Arg::Unknown { plain: false }, Arg::Text);
            let args: Vec<Arg> = args.iter().map(arg).collect();
            let git_or_gh = self.repository(lower, &args, &place, &BTreeMap::new());
            if git_or_gh.is_some() {
                return git_or_gh;
            }
            if WRITES.contains(&lower) {
                let option = |arg: &Arg| arg.text().is_some_and(|text| text.starts_with('-'));
                let named = ["-path", "-literalpath", "-filepath"];
                let path = args
                    .windows(2)
                    .find(|pair| pair[0].text().is_some_and(|t| named.contains(&t.to_ascii_lowercase().as_str())))
                    .map(|pair| &pair[1])
                    .or_else(|| args.first().filter(|arg| !option(arg)));
                let found = path.and_then(|path| self.effect(&Effect::Writes(path.clone()), &place));
                if let Some(guarded) = found {
                    return Some(Change { by: name.clone(), guarded, repository: false });
                }
            }
        }
        None
    }

    /// The place in the project that an effect certainly touches: wherever the command may run.
    fn effect(&self, effect: &Effect, place: &Place) -> Option<Guarded> {
        let arg = match effect {
            Effect::Writes(arg)
            | Effect::Rewrites(arg)
            | Effect::Makes(arg)
            | Effect::Places(arg)
            | Effect::Removes(arg)
            | Effect::RemovesAll(arg) => arg,
            Effect::WritesHere => return self.everywhere(place, ".", |path| self.follows(path)),
        };
        match (arg, effect) {
            (Arg::Unknown { .. }, _) => None,
            (Arg::Below(directory), _) => {
                let directory = if directory.is_empty() { "." } else { directory };
                self.everywhere(place, directory, |path| self.follows(path))
            }
            (Arg::Text(path), _) if path.is_empty() || is_open_file(path) => None,
            (Arg::Text(path), Effect::Writes(_) | Effect::WritesHere) => {
                self.everywhere(place, path, |path| self.follows(path))
            }
            (Arg::Text(path), Effect::Rewrites(_)) => self.everywhere(place, path, |path| {
                self.files.identity(path)?;
                self.follows(path)
            }),
            (Arg::Text(path), Effect::Makes(_)) => self.everywhere(place, path, |path| {
                if self.files.identity(path).is_some() { None } else { self.follows(path) }
            }),
            (Arg::Text(path), Effect::Places(_)) => self.everywhere(place, path, |path| {
                if self.files.is_directory(path) { self.follows(path) } else { self.stands(path) }
            }),
            (Arg::Text(path), Effect::Removes(_)) => self.everywhere(place, path, |path| self.stands(path)),
            (Arg::Text(path), Effect::RemovesAll(_)) => {
                self.everywhere(place, path, |path| self.stands(path).or_else(|| self.around(path)))
            }
        }
    }

    fn everywhere(&self, place: &Place, path: &str, find: impl Fn(&Path) -> Option<Guarded>) -> Option<Guarded> {
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() > MOST_LOOKS {
            return None;
        }
        let paths = place.paths(path);
        // A long path is looked at step by step.
        if !self.steps.take(paths.iter().map(|path| path.as_os_str().len()).sum()) {
            return None;
        }
        let mut found = paths.into_iter().map(|path| find(&path)).collect::<Option<Vec<_>>>()?;
        if found.is_empty() { None } else { Some(found.swap_remove(0)) }
    }

    fn follows(&self, path: &Path) -> Option<Guarded> {
        self.not_a_device(self.ground.guarded(self.files, path)?)
    }

    /// The place of a name itself, whatever a link there leads to.
    fn stands(&self, path: &Path) -> Option<Guarded> {
        let text = path.as_os_str().as_encoded_bytes();
        let whole = text.ends_with(b"/") || text.ends_with(b"/.");
        match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) if !whole => {
                let at = resolve(self.files, above)?.join(name);
                self.not_a_device(self.ground.under(self.files, &at)?)
            }
            _ => self.follows(path),
        }
    }

    /// The project, where the path is a directory above it.
    fn around(&self, path: &Path) -> Option<Guarded> {
        let path = resolve(self.files, path)?;
        let inside =
            |project: &&PathBuf| resolve(self.files, project).is_some_and(|project| project.starts_with(&path));
        let project = self.ground.projects.iter().find(inside)?;
        Some(Guarded { path, project: project.clone() })
    }

    /// Where the project is the whole disk, devices still are none of it.
    fn not_a_device(&self, guarded: Guarded) -> Option<Guarded> {
        let device = guarded.path.starts_with("/dev") || guarded.path.starts_with("/proc");
        let whole = guarded.project.parent().is_none();
        (!(device && whole)).then_some(guarded)
    }

    /// What git or gh certainly changes.
    fn repository(&self, name: &str, args: &[Arg], place: &Place, given: &BTreeMap<String, Arg>) -> Option<Change> {
        match name {
            "gh" if gh_changes(args) => {
                let guarded = self.everywhere(place, ".", |path| self.project_around(path))?;
                Some(Change { by: shown(name, args), guarded, repository: true })
            }
            "git" => {
                let git = Git::read(args)?;
                let change = |guarded, repository| Change { by: format!("git {}", git.verb), guarded, repository };
                let mut place = place.clone();
                for directory in &git.directories {
                    let to = place.paths(directory);
                    place = if to.is_empty() { Place::lost() } else { Place { directories: to, lost: false } };
                }
                match git.does() {
                    Does::Nothing => None,
                    Does::Files(effects) => {
                        let found = effects.iter().find_map(|effect| self.effect(effect, &place))?;
                        Some(change(found, false))
                    }
                    Does::Repository => self.changed(&git, &place, given).map(|guarded| change(guarded, true)),
                    Does::RepositoryAnd(effect) => {
                        let own = self.changed(&git, &place, given).map(|guarded| change(guarded, true));
                        own.or_else(|| Some(change(self.effect(&effect, &place)?, false)))
                    }
                    Does::Pushes(to) => self
                        .changed(&git, &place, given)
                        .or_else(|| self.everywhere(&place, ".", |path| self.pushed(path, to.as_deref())))
                        .map(|guarded| change(guarded, true)),
                }
            }
            _ => None,
        }
    }

    fn project_around(&self, directory: &Path) -> Option<Guarded> {
        Repository::around(self.files, directory)?.of_project(self.files, self.ground)
    }

    /// The repository of a changing git command, or the working tree that it was told to change.
    fn changed(&self, git: &Git<'_>, place: &Place, given: &BTreeMap<String, Arg>) -> Option<Guarded> {
        let tree = git.work_tree.as_ref().or_else(|| given.get("GIT_WORK_TREE"));
        if let Some(guarded) = tree.and_then(|tree| self.effect(&Effect::Writes(tree.clone()), place)) {
            return Some(guarded);
        }
        match git.git_dir.as_ref().or_else(|| given.get("GIT_DIR")) {
            Some(Arg::Text(path)) => self
                .everywhere(place, path, |path| Repository::at(self.files, path).of_project(self.files, self.ground)),
            Some(_) => None,
            None => self.everywhere(place, ".", |path| self.project_around(path)),
        }
    }

    /// The project's repository, where another pushes to it by its path.
    fn pushed(&self, directory: &Path, to: Option<&str>) -> Option<Guarded> {
        let own = Repository::around(self.files, directory)?;
        let to = to.unwrap_or("origin");
        let address = own.remote(self.files, to).unwrap_or_else(|| to.to_owned());
        let path = address.strip_prefix("file://").unwrap_or(&address);
        if !path.starts_with(['/', '.']) {
            return None;
        }
        let path = directory.join(path);
        let bare = Repository::at(self.files, &path);
        self.project_around(&path).or_else(|| bare.of_project(self.files, self.ground))
    }
}

/// A name of a file that is open already.
fn is_open_file(path: &str) -> bool {
    let below = ["/dev/fd/", "/proc/self/fd/"].iter().any(|open| path.starts_with(open));
    below && !path.split('/').any(|step| step == "..")
        || ["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/null", "/dev/tty"].contains(&path)
}

fn shown(name: &str, args: &[Arg]) -> String {
    let words = args.iter().map_while(Arg::text).take(2);
    std::iter::once(name).chain(words).collect::<Vec<_>>().join(" ")
}

/// The command whose output a command of a pipe reads, past those that only pick from it.
fn upstream(script: &Script, mut at: usize) -> Option<&Command> {
    const PICK: [&str; 9] = ["grep", "egrep", "rg", "sort", "uniq", "head", "tail", "tee", "cat"];
    loop {
        if script.commands.get(at)?.joined != Joined::Pipe {
            return None;
        }
        at = at.checked_sub(1)?;
        let command = script.commands.get(at)?;
        let name = command.words.first().and_then(Word::literal).map(base);
        if command.joined != Joined::Pipe || !name.is_some_and(|name| PICK.contains(&name)) {
            return Some(command);
        }
    }
}

/// The variable of a `for`, and the first word that it goes over.
fn loop_over(command: &Command) -> Option<(&str, &Word)> {
    match (command.assigns.as_slice(), command.words.as_slice()) {
        ([assign], [head, first, ..]) if assign.value.is_none() && head.literal() == Some(":") => {
            Some((&assign.name, first))
        }
        _ => None,
    }
}

/// Collects the variables of a script and of all in it.
fn learn(script: &Script, home: Option<&Path>, known: &mut Known) {
    // A shell puts the home directory in for an unquoted `~` as it sets a variable, too.
    let is = |text: &str, quotes: bool| match (text.strip_prefix('~'), home) {
        (None, _) => Value::Is(Arg::Text(text.to_owned())),
        (Some(rest), Some(home)) if !quotes && (rest.is_empty() || rest.starts_with('/')) => {
            Value::Is(Arg::Text(format!("{}{rest}", home.display())))
        }
        (Some(_), _) => Value::Any,
    };
    const PLAIN: [&str; 4] = ["export", "declare", "readonly", "typeset"];
    const SETS: [&str; 12] = [
        "export",
        "declare",
        "local",
        "readonly",
        "typeset",
        "read",
        "unset",
        "mapfile",
        "readarray",
        "printf",
        "getopts",
        "let",
    ];
    for command in &script.commands {
        for assign in &command.assigns {
            let set = assign.value.as_ref().filter(|_| command.words.is_empty());
            let text = set.and_then(|word| Some((word.literal()?, word.quotes)));
            let value = match text {
                // One that is set twice, or for one command alone, or perhaps, may be anything.
                _ if known.contains_key(&assign.name) => Value::Any,
                Some((text, quotes)) if !command.conditional => is(text, quotes),
                _ if loop_over(command).is_some() => Value::Loop,
                _ => Value::Any,
            };
            known.insert(assign.name.clone(), value);
        }
        let sets = command.words.first().and_then(Word::literal).is_some_and(|name| SETS.contains(&name));
        // No option makes it something else: `declare -i`, `-n`.
        let options = command.words.iter().any(|word| word.literal().is_some_and(|text| text.starts_with(['-', '+'])));
        let plainly = !command.conditional
            && !options
            && command.words.first().and_then(Word::literal).is_some_and(|name| PLAIN.contains(&name));
        for word in &command.words {
            for name in &word.sets {
                known.insert(name.clone(), Value::Any);
            }
            if sets && let Some(Piece::Text(text)) = word.pieces.first() {
                let (name, value) = text.split_once('=').unwrap_or((text, ""));
                let told = plainly && text.contains('=') && !known.contains_key(name) && word.literal().is_some();
                let value = if told { is(value, word.quotes) } else { Value::Any };
                known.insert(name.to_owned(), value);
            }
            word.scripts.iter().for_each(|inner| learn(inner, home, known));
        }
    }
}

/// One command of a list, with what is known as it runs.
struct Reads<'a> {
    walk: &'a Walk<'a>,
    command: &'a Command,
    place: &'a Place,
    known: &'a Known,
    depth: usize,
}

impl Reads<'_> {
    fn changes<'s>(&self, upstream: impl Fn() -> Option<&'s Command>) -> Option<Change> {
        let command = self.command;
        let inside =
            command.words.iter().chain(&command.targets).chain(command.assigns.iter().filter_map(|a| a.value.as_ref()));
        let bodies = command.inputs.iter().filter_map(|input| input.body.get());
        for script in inside.chain(bodies).flat_map(|word| &word.scripts) {
            if let Some(change) = self.walk.script(script, self.place, self.known, self.depth) {
                return Some(change);
            }
        }
        for target in command.writes.iter().filter_map(|at| command.targets.get(*at)) {
            if let Some(guarded) = self.walk.effect(&Effect::Writes(self.arg(target)), self.place) {
                return Some(Change { by: "a redirection".to_owned(), guarded, repository: false });
            }
        }
        // Each run after the first, of a `find`, looks at the command's words again.
        let pays = |n: usize| n == 0 || self.walk.steps.take(command.words.len());
        runs(command).iter().enumerate().take_while(|(n, _)| pays(*n)).find_map(|(_, run)| self.run(run, &upstream))
    }

    fn run<'s>(&self, run: &Run<'_>, upstream: &impl Fn() -> Option<&'s Command>) -> Option<Change> {
        if run.asks || run.guessed {
            return None;
        }
        let mut words = run.words;
        if words.first().and_then(Word::literal).map(base).is_some_and(|n| n == "busybox" || n == "toybox") {
            words = &words[1..];
        }
        let (first, rest) = words.split_first()?;
        let Arg::Text(name) = self.arg(first) else { return None };
        let name = base(&name);
        match program(&Run { words, ..*run }) {
            Some(Program::Text(words)) => {
                // The word's own text, or a variable's that the line sets; not what it merely would expand to.
                let texts = words.iter().map(|word| match word.literal() {
                    Some(text) => Some(text.to_owned()),
                    None => self.arg(word).text().map(str::to_owned),
                });
                let texts: Option<Vec<String>> = texts.collect();
                return self.walk.text(&texts?.join(" "), self.place, self.known, self.depth + 1);
            }
            Some(Program::Input) => {
                let body = self.command.inputs.last()?.body.get()?.literal()?;
                return self.walk.text(body, self.place, self.known, self.depth + 1);
            }
            Some(Program::File) => return None,
            None => {}
        }
        let wrappers = &self.command.words[..self.command.words.len() - run.words.len().min(self.command.words.len())];
        let place = if run.wrapped { &self.beside(wrappers) } else { self.place };
        let mut args: Vec<Arg> = rest.iter().map(|word| self.arg(word)).collect();
        if run.mark == Some("{}") && !run.fed {
            // What `find` finds.
            let below = find_roots(self.command.words.iter().map(|word| self.arg(word)));
            args = self.put(&args, "{}", &below)?;
        } else if run.fed {
            let found = upstream().map(|command| self.listed(command)).unwrap_or_default();
            match run.mark {
                Some(mark) => args = self.put(&args, mark, &found)?,
                None => args.extend(found),
            }
        }
        if let Some(change) = self.walk.repository(name, &args, place, &self.given(wrappers)) {
            return Some(change);
        }
        let effects = match name {
            "find" if args.iter().any(|arg| arg.text() == Some("-delete")) => {
                find_roots(words.iter().map(|word| self.arg(word))).into_iter().map(Effect::Writes).collect()
            }
            "find" => {
                let prints = |arg: &Arg| matches!(arg.text(), Some("-fprint" | "-fprint0" | "-fprintf" | "-fls"));
                args.windows(2).filter(|pair| prints(&pair[0])).map(|pair| Effect::Writes(pair[1].clone())).collect()
            }
            _ => effects(name, &args),
        };
        let guarded = effects.iter().find_map(|effect| self.walk.effect(effect, place))?;
        Some(Change { by: name.to_owned(), guarded, repository: false })
    }

    /// Puts what is found in the place of a mark; all of it where a word is the mark.
    fn put(&self, args: &[Arg], mark: &str, found: &[Arg]) -> Option<Vec<Arg>> {
        let marks = args.iter().filter(|arg| arg.text() == Some(mark)).count();
        self.walk.steps.take(marks.saturating_mul(found.len())).then(|| put(args, mark, found))
    }

    fn args_of(&self, words: &[Word]) -> Vec<Arg> {
        words.iter().map(|word| self.arg(word)).collect()
    }

    /// Git's variables, before the command or behind `env`.
    fn given(&self, wrappers: &[Word]) -> BTreeMap<String, Arg> {
        const GIT: [&str; 2] = ["GIT_DIR", "GIT_WORK_TREE"];
        let mut given = BTreeMap::new();
        for name in GIT {
            if let Some(value) = self.known.get(name) {
                let value = if let Value::Is(value) = value { value.clone() } else { Arg::Unknown { plain: false } };
                given.insert(name.to_owned(), value);
            }
        }
        for assign in self.command.assigns.iter().filter(|assign| GIT.contains(&assign.name.as_str())) {
            let value = assign.value.as_ref().map_or(Arg::Unknown { plain: false }, |word| self.arg(word));
            given.insert(assign.name.clone(), value);
        }
        for (name, value) in wrappers.iter().filter_map(Word::literal).filter_map(|text| text.split_once('=')) {
            if GIT.contains(&name) {
                given.insert(name.to_owned(), Arg::Text(value.to_owned()));
            }
        }
        given
    }

    /// Where a command behind these wrappers runs: `env -C`, `sudo -D`.
    fn beside(&self, wrappers: &[Word]) -> Place {
        let args = self.args_of(wrappers);
        let own = args.first().and_then(Arg::text).map(base) == Some("env");
        let mut place = self.place.clone();
        for (at, arg) in args.iter().enumerate() {
            let Some(text) = arg.text() else { continue };
            let to = match text.strip_prefix("--chdir=") {
                Some(to) if own => Some(to),
                _ if own && (text == "-C" || text == "--chdir") => args.get(at + 1).and_then(Arg::text),
                _ if ["-C", "--chdir", "-D"].iter().any(|option| text.starts_with(option)) => None,
                _ => continue,
            };
            let directories = to.map(|to| place.paths(to)).unwrap_or_default();
            place = if directories.is_empty() { Place::lost() } else { Place { directories, lost: false } };
        }
        place
    }

    /// Where the command's list goes on, if it is a `cd`; and whether that is sure to succeed.
    fn moves(&self, back: Option<&Place>) -> Option<Move> {
        let (first, rest) = self.command.words.split_first()?;
        let name = first.literal()?;
        let (name, rest) = match (name, rest.split_first()) {
            ("builtin" | "command", Some((first, rest))) => (first.literal()?, rest),
            _ => (name, rest),
        };
        match name {
            "cd" | "pushd" | "chdir" => {}
            "popd" if rest.is_empty() && !self.command.conditional => return Some(Move::back(back)),
            "popd" => return Some(Move::lost()),
            // Its text may move; what it sources hardly ever does.
            "eval" if rest.iter().any(|word| word.literal().is_none_or(|text| text.contains("cd"))) => {
                return Some(Move::lost());
            }
            _ => return None,
        }
        let options = Options::read(&self.args_of(rest), "", &[]);
        if name == "cd" && matches!(options.words.as_slice(), [Arg::Text(to)] if to == "-") && !self.command.conditional
        {
            return Some(Move::back(back));
        }
        let to = match options.words.as_slice() {
            [] if name == "cd" => self.walk.ground.home.clone().map(|home| home.to_string_lossy().into_owned()),
            [Arg::Text(to)] if !to.is_empty() && to != "-" && !to.starts_with('+') => Some(to.clone()),
            _ => None,
        };
        let Some(to) = to else { return Some(Move::lost()) };
        // In a loop it may move on from where it moved to before.
        if self.command.conditional && !to.starts_with('/') {
            return Some(Move::lost());
        }
        // `-P` takes `..` as the kernel does, and goes on from where links lead.
        let at = |path: &PathBuf| {
            let real = if options.has(&["P"]) { resolve(self.walk.files, path) } else { None };
            real.unwrap_or_else(|| without_dots(path))
        };
        let directories: Vec<PathBuf> = self.place.paths(&to).iter().map(at).collect();
        if directories.is_empty() {
            return Some(Move::lost());
        }
        let is_there = |directory: &PathBuf| self.walk.files.is_directory(directory);
        let (sure, fails) = (directories.iter().all(is_there), !directories.iter().any(is_there));
        let fails = fails && self.walk.untouched.get() && self.command.joined == Joined::Then;
        Some(Move { to: Place { directories, lost: false }, sure, fails })
    }

    /// The files that a command lists, as far as that is certain.
    fn listed(&self, command: &Command) -> Vec<Arg> {
        let args = self.args_of(&command.words);
        let Some((Arg::Text(name), rest)) = args.split_first() else { return Vec::new() };
        match base(name) {
            "find" => find_roots(args.iter().cloned()),
            "git" => match Git::read(rest) {
                Some(git) if git.verb == "ls-files" && git.directories.is_empty() => vec![Arg::Below(".".to_owned())],
                _ => Vec::new(),
            },
            "ls" if Options::read(rest, "", &[]).words.is_empty() => vec![Arg::Below(".".to_owned())],
            "grep" | "egrep" | "rg" | "fd" | "ag" => {
                let options = Options::read(rest, "efgtTmABCdE", &["regexp", "file", "glob", "include", "exclude"]);
                if base(name) != "fd" && !options.has(&["l", "files-with-matches", "files", "L"]) {
                    return Vec::new();
                }
                let told = options.has(&["e", "regexp", "files"]);
                let paths: Vec<Arg> = options.words.into_iter().skip(usize::from(!told)).collect();
                if paths.is_empty() { vec![Arg::Below(".".to_owned())] } else { below(paths) }
            }
            _ => Vec::new(),
        }
    }

    /// A word as far as the line tells it.
    fn arg(&self, word: &Word) -> Arg {
        let plain =
            matches!(word.pieces.first(), Some(Piece::Text(text)) if !text.is_empty() && !text.starts_with('-'));
        let unknown = Arg::Unknown { plain };
        let place = self.named_place(word);
        // A variable alone may stand for a pattern.
        if let [Piece::Var(name)] = word.pieces.as_slice()
            && let Some(Value::Is(arg @ Arg::Below(_))) = self.known.get(name)
        {
            return arg.clone();
        }
        if self.walk.steps.gave_up()
            || !word.aside.is_empty()
            || !word.scripts.is_empty() && place.is_none()
            || word.feeds
        {
            return unknown;
        }
        let (mut text, mut pattern) = (String::new(), None);
        let mut room = LONGEST_VALUE;
        for (at, piece) in word.pieces.iter().enumerate() {
            match piece {
                Piece::Text(more) if at == 0 && more.starts_with('~') => match (&self.walk.ground.home, word.quotes) {
                    (_, false) if more == "~+" || more.starts_with("~+/") => match self.variable("PWD") {
                        Some(here) => text.push_str(&format!("{here}{}", &more[2..])),
                        None => return unknown,
                    },
                    (Some(home), false) if more == "~" || more.starts_with("~/") => {
                        text.push_str(&home.to_string_lossy());
                        text.push_str(&more[1..]);
                    }
                    _ => return unknown,
                },
                Piece::Text(more) => text.push_str(more),
                Piece::Var(name) => match self.variable(name) {
                    Some(value) if word.quotes || !value.contains([' ', '\t', '\n', '*', '?', '[']) => {
                        let Some(left) = room.checked_sub(value.len()) else { return unknown };
                        if !self.walk.steps.take(value.len()) {
                            return unknown;
                        }
                        room = left;
                        text.push_str(&value);
                    }
                    _ => return unknown,
                },
                Piece::Hole if place.is_some() => text.push_str(place.as_deref().unwrap_or_default()),
                Piece::Hole => {
                    pattern.get_or_insert(text.len());
                    text.push('*');
                }
            }
        }
        match pattern {
            None => Arg::Text(text),
            // A pattern's own directory, where nothing but its last name is one.
            Some(at) => match text.rfind('/') {
                Some(slash) if slash < at => Arg::Below(text[..=slash].to_owned()),
                Some(_) => unknown,
                None => Arg::Below(".".to_owned()),
            },
        }
    }

    /// What `$(git rev-parse --show-toplevel)` prints, and `$(pwd)`, where it is all that the word doesn't say itself.
    fn named_place(&self, word: &Word) -> Option<String> {
        let [script] = word.scripts.as_slice() else { return None };
        if word.pieces.iter().filter(|piece| **piece == Piece::Hole).count() != 1 {
            return None;
        }
        let [command] = script.commands.as_slice() else { return None };
        let words: Option<Vec<&str>> = command.words.iter().map(Word::literal).collect();
        let [place] = self.place.directories.as_slice() else { return None };
        if self.place.lost {
            return None;
        }
        let path = match words?.as_slice() {
            ["git", "rev-parse", "--show-toplevel"] => Repository::around(self.walk.files, place)?.top?,
            ["pwd"] => place.clone(),
            _ => return None,
        };
        Some(path.to_string_lossy().into_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        match self.known.get(name) {
            Some(Value::Is(Arg::Text(text))) => Some(text.clone()),
            Some(Value::Is(Arg::Below(_) | Arg::Unknown { .. }) | Value::Loop | Value::Any) => None,
            None => match (name, self.place.directories.as_slice()) {
                ("HOME", _) => self.walk.ground.home.as_ref().map(|home| home.to_string_lossy().into_owned()),
                ("PWD", [place]) if !self.place.lost => Some(place.to_string_lossy().into_owned()),
                _ => None,
            },
        }
    }
}

fn put(args: &[Arg], mark: &str, found: &[Arg]) -> Vec<Arg> {
    let has_mark = |arg: &Arg| !mark.is_empty() && arg.text().is_some_and(|text| text.contains(mark));
    args.iter()
        .flat_map(|arg| match arg {
            _ if !has_mark(arg) => vec![arg.clone()],
            _ if arg.text() == Some(mark) => found.to_vec(),
            _ => vec![Arg::Unknown { plain: false }],
        })
        .collect()
}

/// Returns where a `find` looks.
fn find_roots(words: impl Iterator<Item = Arg>) -> Vec<Arg> {
    let mut words = words.skip_while(|arg| arg.text().map(base) != Some("find")).skip(1).peekable();
    while words.next_if(|arg| matches!(arg.text(), Some("-H" | "-L" | "-P"))).is_some() {}
    let expression = |arg: &Arg| arg.text().is_some_and(|text| text.starts_with(['-', '(', '!']));
    let roots: Vec<Arg> = words.take_while(|arg| !expression(arg)).collect();
    if roots.is_empty() { vec![Arg::Below(".".to_owned())] } else { below(roots) }
}

fn below(roots: Vec<Arg>) -> Vec<Arg> {
    let below = |root| if let Arg::Text(path) = root { Arg::Below(path) } else { root };
    roots.into_iter().map(below).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command as Process;

    use proptest::prelude::*;

    use super::*;
    use crate::rules::guard::tests::Real;

    fn ground(project: &Path, cwd: &Path) -> Ground {
        Ground { projects: vec![project.into()], cwd: cwd.into(), ..Ground::default() }
    }

    #[test]
    fn r115_a_long_line_is_read_in_bounds() {
        let directory = tempfile::tempdir().unwrap();
        let project = directory.path().join("p");
        fs::create_dir(&project).unwrap();
        let ground = ground(&project, &project);
        let long = [
            "true && cd a; ".repeat(5_000),
            "rm /x/y/z; ".repeat(20_000),
            format!("rm {}", "/x/y/z ".repeat(50_000)),
            format!("rm {}x", "a/../".repeat(50_000)),
            "x | cat ".repeat(20_000),
            "(".repeat(10_000),
            "$(".repeat(10_000),
            "bash -c 'bash -c ".repeat(1_000),
            "eval ".repeat(10_000),
            "a=1; ".repeat(10_000),
            "for i in a; do cd b; done; ".repeat(5_000),
        ];
        for line in long {
            assert_eq!(changes(&line, Shell::Posix, &ground, &Real), None, "{}", &line[..20]);
            let _ = changes(&line, Shell::PowerShell, &ground, &Real);
        }
        // As much as is looked at counts.
        assert!(changes(&format!("rm {}a", "/x/y/z ".repeat(1_000)), Shell::Posix, &ground, &Real).is_some());
    }

    /// Each took time or memory without end, or nearly. What is not read to its end is no certainty: R69 denies it.
    #[test]
    fn r115_a_short_line_that_means_endless_work_is_given_up() {
        let ground = ground(Path::new("/p"), Path::new("/p"));
        let nest = |open: &str, inside: &str, close: &str, n| format!("{}{inside}{}", open.repeat(n), close.repeat(n));
        let longer: String =
            ('b'..='j').map(|c| format!("{c}={}; ", format!("${}", (c as u8 - 1) as char).repeat(10))).collect();
        let evals = |last: &str| -> String {
            let one = |c: u8| format!("{}='{}'; ", c as char, format!("eval \"${}\";", (c + 1) as char).repeat(40));
            (b'a'..=b'd').map(one).collect::<String>() + &format!("e='{last}'; eval \"$a\"")
        };
        let ten = format!("x=/{}; ", "y/".repeat(2_000));
        for line in [
            nest("for x $(", ":", ")", 30),
            nest("echo ${ ", "echo ${ :; }", "; }", 35),
            nest("echo $(", ":", ")", 28) + " | cat",
            evals(":"),
            format!("a=0123456789; {longer}touch /tmp/$j; eval \"$j\""),
            nest("( ", "true", " )", 41) + "; rm a",
            "a=1; ".repeat(8_000) + &"$(:)".repeat(12_000),
            "(a)|".repeat(30_000),
            "(('((('));".repeat(12_000),
            format!("find {} {}", "-exec a ;".repeat(6_000), "-name b ".repeat(8_000)),
            format!("find {} -exec rm {} ;", "/a ".repeat(20_000), "{} ".repeat(20_000)),
            format!("{ten}rm {}", "$x ".repeat(40_000)),
        ] {
            assert_eq!(changes(&line, Shell::Posix, &ground, &Real), None, "{}", &line[..40]);
        }
        let denied = |line: &str| changes(line, Shell::Posix, &ground, &Real).is_some();
        // What comes before the end of the reading counts, and what lies less deep is read.
        assert!(denied(&format!("rm a; {}", evals(":"))));
        assert!(denied(&(nest("echo $(", "rm a", ")", 28) + " | cat")));
        assert!(denied("for x in $(for y in b; do rm a; done); do :; done"));
        assert!(denied("x=a; y='rm $x'; eval \"$y\""));
    }

    /// Directories `a` and `b` in each other.
    fn plant(at: &Path, depth: usize) {
        for name in ["a", "b"] {
            fs::create_dir_all(at.join(name)).unwrap();
            if depth > 0 {
                plant(&at.join(name), depth - 1);
            }
        }
    }

    fn line() -> impl Strategy<Value = String> {
        let place = || prop_oneof![Just("a"), Just("b"), Just(".."), Just("../b"), Just("./a/.."), Just("ROOT/b/b/b")];
        let file = || prop_oneof![Just("w"), Just("a/w"), Just("../w"), Just("../../b/w"), Just("ROOT/a/a/w")];
        let write = (file(), 0..4).prop_map(|(file, how)| match how {
            0 => format!("echo x > {file}"),
            1 => format!("touch {file}"),
            2 => format!("echo x | tee {file} >&2"),
            _ => format!("cp /dev/null {file}"),
        });
        let move_on = place().prop_map(|place| format!("cd {place}"));
        let simple = prop_oneof![write, move_on, Just("true".to_owned())];
        let list = simple.prop_recursive(3, 10, 3, |inner| {
            let several = prop::collection::vec(inner, 1..4);
            prop_oneof![
                several.clone().prop_map(|all| all.join("; ")),
                several.clone().prop_map(|all| all.join(" && ")),
                // With a blank: `((` is arithmetic in one shell and none in another.
                several.clone().prop_map(|all| format!("( {} )", all.join("; "))),
                several.clone().prop_map(|all| format!("{{ {}; }}", all.join(" && "))),
                several.clone().prop_map(|all| format!("x=$({})", all.join("; "))),
                several.clone().prop_map(|all| format!("sh -c '{}'", all.join("; ").replace('\'', ""))),
                several.prop_map(|all| format!("{} | cat", all.join("; "))),
            ]
        });
        prop::collection::vec(list, 1..4).prop_map(|all| all.join("\n"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        /// Where every `cd` succeeds, nothing is in doubt: what is denied is what the shell does, and nothing else.
        #[test]
        fn r115_a_line_is_denied_where_the_shell_writes_into_the_project(line in line()) {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            // Deep enough below it that no `..` leaves it.
            let start = root.join("a/a/a/a/a/a");
            fs::create_dir_all(&start).unwrap();
            plant(start.parent().unwrap(), 3);
            fs::create_dir_all(start.join("b/b/b")).unwrap();
            let line = line.replace("ROOT", &start.to_string_lossy());
            let project = start.join("a");
            let denied = changes(&line, Shell::Posix, &ground(&project, &start), &Real).is_some();
            let ran = Process::new("sh").arg("-c").arg(&line).current_dir(&start).output().unwrap();
            let mut found = Vec::new();
            written(&project, &mut found);
            // It says so where a directory was not there.
            let sure = ran.stderr.is_empty() && !in_doubt(&line);
            prop_assert!(denied || found.is_empty() || !sure, "{line}: {found:?}");
            prop_assert!(!denied || !found.is_empty() || !ran.stderr.is_empty(), "{line}: nothing was written");
        }

        #[test]
        fn r115_no_line_breaks_the_reading(line in "([a-z$(){}|&;<>'\"`~*?!\\\\ \n=/.-]|git |rm |cd |sed -i |for |do |done |bash -c |é){0,60}") {
            let ground = ground(Path::new("/p"), Path::new("/p"));
            let _ = changes(&line, Shell::Posix, &ground, &Real);
            let _ = changes(&line, Shell::PowerShell, &ground, &Real);
        }
    }

    #[test]
    fn r115_a_chain_of_moves_that_succeed_leads_on() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/a")).unwrap();
        let denied = |line: &str| changes(line, Shell::Posix, &ground(&root.join("a"), &root), &Real).is_some();
        assert!(denied("cd a && cd a\nsh -c 'echo x > w'"));
        assert!(denied("cd a && cd a; echo x > w"));
        // What is between may fail, and so may a move.
        assert!(!denied("make && cd a; echo x > w"));
        assert!(!denied("cd a && cd b; echo x > w"));
        assert!(!denied("{ cd a; } | cat; echo x > w"), "its shell is one of its own");
    }

    /// Whether a `cd` of the line stands behind anything but moves, which may fail: the guard doesn't know what `true` does.
    fn in_doubt(line: &str) -> bool {
        let doubtful = |line: &str, at: usize| {
            let next = line[at + 3..].trim_start_matches(['{', ' ']);
            let mut before = line[..at].split(['{', '}', ';', '&']).map(str::trim);
            next.starts_with("cd ") && before.any(|part| !part.is_empty() && !part.starts_with("cd "))
        };
        // Where a group flows on, every move before it may be one of its own shell.
        let flows = line.contains("cd ") && ["} | cat", ") | cat", "' | cat"].iter().any(|flow| line.contains(flow));
        flows || line.lines().any(|line| line.match_indices("&& ").any(|(at, _)| doubtful(line, at)))
    }

    fn written(at: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { written(&path, found) } else { found.push(path) }
        }
    }
}
