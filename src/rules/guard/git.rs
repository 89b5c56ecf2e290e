//! Which git and gh commands change the project's repository (R115): its files, index, branches, refs or remote.

use std::path::{Path, PathBuf};

use super::args::{Arg, Options};
use super::programs::Effect;
use super::{Files, Ground, Guarded, resolve};

/// What a git command is about, once its own options are taken off.
#[derive(Debug)]
pub(super) struct Git<'a> {
    /// The subcommand.
    pub verb: &'a str,
    args: &'a [Arg],
    /// `-C`, one after the other.
    pub directories: Vec<&'a str>,
    /// `--git-dir` and `--work-tree`.
    pub git_dir: Option<Arg>,
    pub work_tree: Option<Arg>,
}

/// What a git command does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Does {
    /// Nothing that is certain.
    Nothing,
    /// It changes the repository that it runs in.
    Repository,
    /// It writes files wherever it runs, in a repository or not.
    Files(Vec<Effect>),
    /// It changes the repository that it runs in, and writes to this path, which may lie elsewhere.
    RepositoryAnd(Effect),
    /// It changes the repository at this path, or of this name, too.
    Pushes(Option<String>),
}

impl<'a> Git<'a> {
    /// Reads git's words; `None` where they are in doubt.
    pub fn read(args: &'a [Arg]) -> Option<Git<'a>> {
        let (mut directories, mut git_dir, mut work_tree) = (Vec::new(), None, None);
        let mut rest = args;
        loop {
            let (first, tail) = rest.split_first()?;
            let word = first.text()?;
            rest = tail;
            match word {
                "-C" => {
                    let (directory, tail) = rest.split_first()?;
                    directories.push(directory.text()?);
                    rest = tail;
                }
                "-c" | "--namespace" | "--config-env" | "--attr-source" => {
                    let (value, tail) = rest.split_first()?;
                    // An alias never stands for a command of git's own; these tell it of another repository.
                    let elsewhere = |text: &str| {
                        let name = text.split('=').next().unwrap_or(text).to_ascii_lowercase();
                        ["core.worktree", "core.bare"].contains(&name.as_str())
                    };
                    if value.text().is_none_or(elsewhere) {
                        return None;
                    }
                    rest = tail;
                }
                "--git-dir" | "--work-tree" => {
                    let (value, tail) = rest.split_first()?;
                    rest = tail;
                    *(if word == "--git-dir" { &mut git_dir } else { &mut work_tree }) = Some(value.clone());
                }
                "--help" | "-h" | "--version" | "-v" | "--exec-path" | "--html-path" | "--man-path" => return None,
                _ => match (word.strip_prefix("--git-dir="), word.strip_prefix("--work-tree=")) {
                    (Some(path), _) => git_dir = Some(Arg::Text(path.to_owned())),
                    (None, Some(path)) => work_tree = Some(Arg::Text(path.to_owned())),
                    (None, None) if word.starts_with('-') => {}
                    (None, None) => return Some(Git { verb: word, args: rest, directories, git_dir, work_tree }),
                },
            }
        }
    }

    /// Tells what the command certainly does.
    pub fn does(&self) -> Does {
        let args = self.args;
        let first = args.first().and_then(Arg::text);
        if first == Some("-h") || args.iter().any(|arg| arg.text() == Some("--help")) {
            return Does::Nothing;
        }
        let read = |letters: &str, names: &[&str]| Options::read(args, letters, names);
        let plain = read("", &[]);
        let dry = |short: bool| plain.has(&["dry-run"]) || short && plain.has(&["n"]);
        let when = |changes: bool| if changes { Does::Repository } else { Does::Nothing };
        match self.verb {
            "commit" => {
                let message = read("mFCct", &["message", "file", "author", "date", "template", "cleanup", "trailer"]);
                when(!message.has(&["dry-run"]))
            }
            "add" | "stage" | "rm" | "mv" => when(!args.is_empty() && !dry(true)),
            "clean" => when(!dry(true) && plain.has(&["f", "force", "i", "interactive"])),
            "push" => {
                let options = read("o", &["push-option", "repo", "receive-pack", "exec"]);
                match options.words.first() {
                    _ if dry(true) => Does::Nothing,
                    Some(Arg::Text(to)) => Does::Pushes(Some(to.clone())),
                    Some(_) | None => Does::Pushes(None),
                }
            }
            "pull" => when(!dry(false)),
            "fetch" => {
                // `from:to` writes a branch of one's own.
                let to = |arg: &Arg| {
                    let to = arg.text()?.split_once(':')?.1;
                    (!to.is_empty() && !to.starts_with("refs/remotes/") && !to.starts_with("refs/tags/")).then_some(())
                };
                let options = read("jo", &["depth", "deepen", "refmap", "upload-pack", "jobs", "server-option"]);
                when(!dry(false) && options.words.iter().skip(1).any(|arg| to(arg).is_some()))
            }
            "checkout" | "switch" | "restore" => when(!args.is_empty()),
            "apply" => {
                let only_looks = plain.has(&["check", "stat", "numstat", "summary"]) && !plain.has(&["apply"]);
                if only_looks || plain.has(&["h"]) { Does::Nothing } else { Does::Files(vec![Effect::WritesHere]) }
            }
            "rebase" | "am" => when(!plain.has(&["show-current-patch"])),
            "reset" | "merge" | "cherry-pick" | "revert" | "mergetool" | "update-ref" | "pack-refs" | "gc"
            | "repack" | "read-tree" | "fast-import" | "filter-branch" | "filter-repo" => Does::Repository,
            "checkout-index" => match plain.value(&["prefix"]) {
                Some(to) => Does::RepositoryAnd(Effect::Writes(to.clone())),
                None => Does::Repository,
            },
            "merge-file" => {
                let options = read("L", &["object-id"]);
                let to = options.words.first().filter(|_| !options.has(&["p", "stdout"]));
                Does::Files(to.cloned().map(Effect::Rewrites).into_iter().collect())
            }
            "prune" => when(!dry(true)),
            "update-index" => when(!plain.has(&["refresh", "really-refresh", "q"]) && !args.is_empty()),
            "symbolic-ref" => {
                let options = read("m", &["message"]);
                when(options.has(&["d", "delete"]) || options.words.len() > 1)
            }
            "stash" => match first {
                Some("list" | "show" | "create") => Does::Nothing,
                Some("push" | "save" | "pop" | "apply" | "drop" | "clear" | "store" | "branch") | None => {
                    when(args.is_empty() || first.is_some())
                }
                Some(option) => when(option.starts_with('-')),
            },
            "bisect" => when(matches!(
                first,
                Some("start" | "good" | "bad" | "new" | "old" | "skip" | "reset" | "run" | "replay")
            )),
            "branch" => {
                let options = read("u", &["set-upstream-to", "sort", "format", "points-at"]);
                let changes = options.has(&["d", "D", "delete", "m", "M", "move", "c", "C", "copy", "f", "force", "u"])
                    || options.has(&["set-upstream-to", "unset-upstream", "edit-description"]);
                let lists = options.has(&["l", "list", "a", "all", "r", "remotes", "v", "vv", "verbose", "sort"])
                    || options.has(&["contains", "no-contains", "merged", "no-merged", "points-at", "format"])
                    || options.has(&["show-current", "column"])
                    || options.doubt;
                when(changes || !lists && !options.words.is_empty())
            }
            "tag" => {
                let options = read("mFu", &["message", "file", "local-user", "sort", "format", "points-at"]);
                let changes = options.has(&["d", "delete", "a", "annotate", "s", "sign", "f", "force", "m", "F", "u"])
                    || options.has(&["message", "file", "local-user"]);
                let lists = options.has(&["l", "list", "n", "contains", "no-contains", "merged", "no-merged", "v"])
                    || options.has(&["points-at", "sort", "format", "verify", "column"])
                    || options.doubt;
                when(changes || !lists && !options.words.is_empty())
            }
            "remote" => when(matches!(
                first,
                Some("add" | "rename" | "remove" | "rm" | "set-head" | "set-branches" | "set-url")
            )),
            "config" => self.config(),
            "reflog" => when(matches!(first, Some("expire" | "delete" | "drop")) && !dry(true)),
            "notes" => when(matches!(first, Some("add" | "append" | "edit" | "copy" | "remove" | "merge" | "prune"))),
            "replace" => when(!plain.words.is_empty() && !plain.has(&["l", "list"])),
            "maintenance" => when(matches!(first, Some("run" | "start" | "register"))),
            "submodule" => when(matches!(
                first,
                Some("add" | "init" | "update" | "deinit" | "set-url" | "set-branch" | "sync" | "absorbgitdirs")
            )),
            "subtree" => when(matches!(first, Some("add" | "merge" | "pull" | "push"))),
            "sparse-checkout" => when(matches!(first, Some("init" | "set" | "add" | "reapply" | "disable"))),
            "worktree" => match first {
                // Without a branch it leaves all branches as they are.
                Some("add") => {
                    let to = read("bB", &["reason"]).words.get(1).cloned().map(Effect::Makes);
                    match to {
                        to if plain.has(&["d", "detach"]) => Does::Files(to.into_iter().collect()),
                        Some(to) => Does::RepositoryAnd(to),
                        None => Does::Repository,
                    }
                }
                Some("remove" | "move" | "prune" | "repair" | "lock" | "unlock") => when(!dry(true)),
                _ => Does::Nothing,
            },
            "init" => {
                match read("b", &["initial-branch", "template", "separate-git-dir", "object-format"]).words.first() {
                    Some(directory) => Does::Files(vec![Effect::Makes(directory.clone())]),
                    None => Does::Files(vec![Effect::Makes(Arg::Text(".git".to_owned()))]),
                }
            }
            "clone" => {
                let names = ["branch", "depth", "origin", "config", "reference", "filter", "jobs", "template"];
                let words = read("bocuj", &names).words;
                Does::Files(match (words.first(), words.get(1)) {
                    (Some(_), Some(to)) => vec![Effect::Writes(to.clone())],
                    (Some(_), None) => vec![Effect::WritesHere],
                    (None, _) => Vec::new(),
                })
            }
            "format-patch" => {
                let options = read("ov", &["output-directory"]);
                let to = options.value(&["o", "output-directory"]).cloned().map_or(Effect::WritesHere, Effect::Writes);
                if options.has(&["stdout"]) { Does::Nothing } else { Does::Files(vec![to]) }
            }
            "archive" | "diff" | "log" | "show" => {
                let to = read("o", &["output"]);
                let to = to.value(if self.verb == "archive" { &["o", "output"] } else { &["output"] }).cloned();
                Does::Files(to.map(Effect::Writes).into_iter().collect())
            }
            "bundle" if first == Some("create") => {
                Does::Files(plain.words.get(1).cloned().map(Effect::Writes).into_iter().collect())
            }
            _ => Does::Nothing,
        }
    }

    /// `git config`: a name alone is read, with a value written; another file than the repository's is another matter.
    fn config(&self) -> Does {
        let options = Options::read(self.args, "f", &["file", "blob", "type", "default", "url", "value", "comment"]);
        if let Some(file) = options.value(&["f", "file"]) {
            return match options.words.len() {
                2.. => Does::Files(vec![Effect::Writes(file.clone())]),
                _ => Does::Nothing,
            };
        }
        if options.has(&["global", "system", "get", "get-all", "get-regexp", "get-urlmatch", "list", "l", "blob"])
            || options.has(&["get-color", "get-colorbool"])
            || options.doubt
        {
            return Does::Nothing;
        }
        let changes = options.has(&["add", "unset", "unset-all", "replace-all", "rename-section", "remove-section"])
            || options.has(&["e", "edit"]);
        let writes = match options.words.first().and_then(Arg::text) {
            Some("list" | "get") => false,
            Some("set" | "unset" | "rename-section" | "remove-section" | "edit") => true,
            Some(_) | None => options.words.len() > 1,
        };
        if changes || writes { Does::Repository } else { Does::Nothing }
    }
}

/// Whether a gh command changes the project's pull requests, releases or branches. One that names a repository is not certain.
pub(super) fn gh_changes(args: &[Arg]) -> bool {
    let options = Options::read(args, "R", &["repo"]);
    let words: Vec<&str> = options.words.iter().map_while(Arg::text).take(2).collect();
    if options.has(&["R", "repo", "help", "dry-run"]) {
        return false;
    }
    match words.as_slice() {
        ["pr", verb] => [
            "create",
            "new",
            "merge",
            "close",
            "reopen",
            "edit",
            "ready",
            "checkout",
            "co",
            "update-branch",
            "lock",
            "unlock",
        ]
        .contains(verb),
        ["release", verb] => ["create", "new", "delete", "edit", "upload", "delete-asset"].contains(verb),
        ["repo", verb] => ["sync", "edit", "rename", "delete", "archive"].contains(verb) && options.words.len() == 2,
        _ => false,
    }
}

/// A git repository on the disk.
#[derive(Debug)]
pub(super) struct Repository {
    /// What its worktrees share: refs and objects.
    pub common: PathBuf,
    /// Its files, where it has some.
    pub top: Option<PathBuf>,
}

impl Repository {
    /// Finds the repository that a directory is in, as git does.
    pub fn around(files: &dyn Files, directory: &Path) -> Option<Repository> {
        let directory = resolve(files, directory)?;
        directory.ancestors().find_map(|above| {
            let dot = above.join(".git");
            let top = Some(above.to_path_buf());
            if files.is_directory(&dot) {
                return Some(Repository { common: common(files, &dot), top });
            }
            if let Some(text) = files.text(&dot) {
                let to = above.join(text.strip_prefix("gitdir:")?.trim());
                return Some(Repository { common: common(files, &to), top });
            }
            let bare = files.is_directory(&above.join("objects")) && files.text(&above.join("HEAD")).is_some();
            bare.then(|| Repository { common: common(files, above), top: None })
        })
    }

    /// Returns the repository whose `--git-dir` this is.
    pub fn at(files: &dyn Files, git_dir: &Path) -> Repository {
        Repository { common: common(files, git_dir), top: None }
    }

    /// Tells whether a change to it changes the project: it is the project's, or lies in it.
    pub fn of_project(&self, files: &dyn Files, ground: &Ground) -> Option<Guarded> {
        let lies_in = [Some(&self.common), self.top.as_ref()].into_iter().flatten();
        if let Some(guarded) = lies_in.filter_map(|path| ground.guarded(files, path)).next() {
            return Some(guarded);
        }
        let same = |other: &Repository| {
            other.common == self.common
                || files.identity(&self.common).is_some_and(|own| files.identity(&other.common) == Some(own))
        };
        let project =
            ground.projects.iter().find(|project| Repository::around(files, project).as_ref().is_some_and(same))?;
        Some(Guarded { path: self.common.clone(), project: project.clone() })
    }

    /// Returns the address of a remote, where the repository's own configuration plainly says it.
    pub fn remote(&self, files: &dyn Files, name: &str) -> Option<String> {
        let text = files.text(&self.common.join("config"))?;
        let section = format!("[remote \"{name}\"]");
        let lines = text.lines().map(str::trim).skip_while(|line| *line != section).skip(1);
        let mut own = lines.take_while(|line| !line.starts_with('['));
        own.find_map(|line| Some(line.strip_prefix("url")?.trim_start().strip_prefix('=')?.trim().to_owned()))
    }
}

/// A linked worktree's own directory names the one that all share.
fn common(files: &dyn Files, git_dir: &Path) -> PathBuf {
    let shared = files.text(&git_dir.join("commondir")).map(|text| git_dir.join(text.trim()));
    let path = shared.unwrap_or_else(|| git_dir.to_path_buf());
    resolve(files, &path).unwrap_or(path)
}
