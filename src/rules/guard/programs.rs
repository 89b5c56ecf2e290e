//! Which files a command certainly changes, by its name and words (R115). A command that isn't here changes none that is certain.

use super::args::{Arg, Options};

/// What a command does to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It writes to the file, or into the directory, that the path leads to.
    Writes(Arg),
    /// As [`Effect::Writes`], but only where the file is there.
    Rewrites(Arg),
    /// As [`Effect::Writes`], but only where nothing is there.
    Makes(Arg),
    /// It puts another in the place of what stands by that name, a link included; a directory gets it inside.
    Places(Arg),
    /// It takes away what stands by that name, a link included.
    Removes(Arg),
    /// It takes away, or changes, all that lies there.
    RemovesAll(Arg),
    /// It writes into the directory where it runs.
    WritesHere,
}

use Effect::{Makes, Places, Removes, RemovesAll, Rewrites, Writes, WritesHere};

/// Returns what the command does to files. `name` is without its directory.
pub(super) fn effects(name: &str, args: &[Arg]) -> Vec<Effect> {
    let read = |letters: &str, names: &[&str]| Options::read(args, letters, names);
    let all = |options: Options, effect: fn(Arg) -> Effect| options.words.into_iter().map(effect).collect::<Vec<_>>();
    if args.iter().any(|arg| matches!(arg.text(), Some("--help" | "--version"))) {
        return Vec::new();
    }
    match name {
        "rm" => {
            let options = read("", &[]);
            let deep = options.has(&["r", "R", "recursive"]);
            all(options, if deep { RemovesAll } else { Removes })
        }
        "rmdir" | "unlink" => all(read("", &[]), Removes),
        "shred" => all(read("ns", &["iterations", "size", "random-source"]), Writes),
        "mv" => {
            let options = read("tS", &["target-directory", "suffix"]);
            let into = options.value(&["t", "target-directory"]).cloned();
            let mut words = options.words;
            let into = into.or_else(|| if words.len() > 1 { words.pop() } else { None });
            let Some(into) = into else { return Vec::new() };
            words.into_iter().map(RemovesAll).chain([Places(into)]).collect()
        }
        "cp" => last(read("tS", &["target-directory", "suffix"])).map(Writes).into_iter().collect(),
        "ln" => {
            let options = read("tS", &["target-directory", "suffix"]);
            match options.words.as_slice() {
                // `-n` and `-T` take a link in its place for what it is.
                [_, to] if options.has(&["n", "no-dereference", "T", "no-target-directory"]) => {
                    vec![Removes(to.clone())]
                }
                // The link stands here by the target's name.
                [_] if !options.has(&["t", "target-directory"]) => vec![WritesHere],
                _ => last(options).map(Places).into_iter().collect(),
            }
        }
        "install" => {
            let options = read("tSmog", &["target-directory", "suffix", "mode", "owner", "group"]);
            if options.has(&["d", "directory"]) {
                return all(options, Makes);
            }
            last(options).map(Places).into_iter().collect()
        }
        "mkdir" => all(read("m", &["mode"]), Makes),
        "mkfifo" => all(read("m", &["mode"]), Makes),
        "mknod" => read("m", &["mode"]).words.into_iter().take(1).map(Makes).collect(),
        "mktemp" => {
            let options = read("p", &["suffix"]);
            let template = options.words.first().filter(|_| !options.has(&["t"])).cloned();
            match options.value(&["p", "tmpdir"]) {
                _ if options.has(&["u", "dry-run"]) => Vec::new(),
                Some(directory) => vec![Writes(directory.clone())],
                None if options.has(&["tmpdir"]) => Vec::new(),
                None => template.map(Writes).into_iter().collect(),
            }
        }
        "fallocate" => all(read("lo", &["length", "offset"]), Writes),
        "touch" => {
            let options = read("drt", &["date", "reference", "time"]);
            let only_there = options.has(&["c", "no-create"]);
            all(options, if only_there { Rewrites } else { Writes })
        }
        "truncate" => all(read("sr", &["size", "reference"]), Writes),
        "tee" | "sponge" => all(read("", &[]), Writes),
        "dd" => {
            let to = args.iter().filter_map(Arg::text).filter_map(|text| text.strip_prefix("of="));
            to.map(|path| Writes(Arg::Text(path.to_owned()))).collect()
        }
        "chmod" => {
            // `-x` and its like are modes.
            let is_mode = |arg: &Arg| {
                arg.text()
                    .is_some_and(|t| t.len() > 1 && t.starts_with('-') && t[1..].chars().all(|c| "rwxXst".contains(c)))
            };
            let dashed = args.iter().any(is_mode);
            let args: Vec<Arg> = args.iter().filter(|arg| !is_mode(arg)).cloned().collect();
            owned(Options::read(&args, "", &["reference"]), dashed)
        }
        "chown" | "chgrp" => owned(read("", &["reference", "from"]), false),
        "sed" | "gsed" => {
            let options = read("efl", &["expression", "file", "line-length"]);
            // GNU's takes any beginning of a long option's name.
            let in_place = ["i", "in-place", "in-plac", "in-pla", "in-pl", "in-p", "in-", "in"];
            if !options.has(&in_place) {
                return Vec::new();
            }
            let told = options.has(&["e", "f", "expression", "file"]);
            let mut words = options.words;
            // BSD's: `sed -i '' SCRIPT FILE`.
            if words.first().and_then(Arg::text) == Some("") {
                words.remove(0);
            }
            words.into_iter().skip(usize::from(!told)).map(Rewrites).collect()
        }
        "perl" | "ruby" => in_place(args),
        "patch" => {
            let valued = "FprYDVBgioxzd";
            let options = read(valued, &["directory", "input", "output", "strip", "fuzz", "prefix", "suffix"]);
            if options.has(&["dry-run", "C"]) {
                return Vec::new();
            }
            match (options.value(&["o", "output"]), options.words.first(), options.value(&["d", "directory"])) {
                (Some(to), _, None) => vec![Writes(to.clone())],
                (None, Some(file), None) => vec![Writes(file.clone())],
                (None, _, Some(directory)) => vec![Writes(directory.clone())],
                (None, None, None) => vec![WritesHere],
                (Some(_), _, Some(_)) => Vec::new(),
            }
        }
        "rsync" => {
            let options = read("efTBM", &["rsh", "filter", "exclude", "include", "exclude-from", "include-from"]);
            let dry = options.has(&["n", "dry-run", "list-only"]) || options.words.len() < 2;
            if dry { Vec::new() } else { local(last(options)) }
        }
        "scp" => local(last(read("cFiJlloPSX", &[]))),
        "tar" | "gtar" | "bsdtar" => tar(args),
        "unzip" => {
            let options = read("dxP", &[]);
            if options.has(&["l", "t", "p", "c", "v", "Z", "z"]) {
                return Vec::new();
            }
            options.value(&["d"]).cloned().map_or(vec![WritesHere], |to| vec![Writes(to)])
        }
        "zip" => read("xinbtPT", &[]).words.into_iter().take(1).map(Writes).collect(),
        "gzip" | "gunzip" | "bzip2" | "bunzip2" | "xz" | "unxz" | "zstd" | "unzstd" => {
            let options = read("STM", &[]);
            let keeps = options.has(&["c", "stdout", "to-stdout", "l", "list", "t", "test"]);
            if keeps { Vec::new() } else { all(options, Rewrites) }
        }
        "sort" => {
            let options = read("kotTS", &["output", "key", "field-separator", "temporary-directory"]);
            options.value(&["o", "output"]).cloned().map(Writes).into_iter().collect()
        }
        "shuf" => {
            let options = read("oin", &["output", "input-range", "head-count", "random-source"]);
            options.value(&["o", "output"]).cloned().map(Writes).into_iter().collect()
        }
        "iconv" => {
            let options = read("fto", &["output", "from-code", "to-code"]);
            options.value(&["o", "output"]).cloned().map(Writes).into_iter().collect()
        }
        "uniq" => {
            let options = read("fsw", &["skip-fields", "skip-chars", "check-chars"]);
            options.words.into_iter().skip(1).take(1).map(Writes).collect()
        }
        "split" | "csplit" => {
            let names = [
                "bytes",
                "lines",
                "line-bytes",
                "number",
                "suffix-length",
                "additional-suffix",
                "prefix",
                "suffix-format",
            ];
            let options = if name == "split" { read("abClnt", &names) } else { read("bfn", &names) };
            let prefix = match options.value(&["f", "prefix"]) {
                None if name == "split" => options.words.get(1),
                given => given,
            };
            // Its files' names go on behind the prefix.
            match prefix {
                Some(Arg::Text(prefix)) => vec![Writes(Arg::Text(format!("{prefix}aa")))],
                Some(_) => Vec::new(),
                None if options.has(&["filter"]) || options.words.is_empty() && name == "csplit" => Vec::new(),
                None => vec![WritesHere],
            }
        }
        "curl" => {
            let valued = "oHdXFubeAKTmxrECcwy";
            let options = read(valued, &["output", "output-dir", "header", "data", "request", "form", "user", "url"]);
            let to = options.value(&["o", "output"]).cloned().map(Writes);
            let here = options.has(&["O", "remote-name"]) && !options.has(&["output-dir"]);
            to.into_iter().chain(here.then_some(WritesHere)).collect()
        }
        "wget" => {
            let options = read("OPoaiUt", &["output-document", "directory-prefix", "output-file"]);
            match (options.value(&["O", "output-document"]), options.value(&["P", "directory-prefix"])) {
                _ if options.has(&["spider"]) || options.words.is_empty() => Vec::new(),
                (Some(Arg::Text(to)), _) if to == "-" => Vec::new(),
                (Some(to), _) | (None, Some(to)) => vec![Writes(to.clone())],
                (None, None) => vec![WritesHere],
            }
        }
        _ => Vec::new(),
    }
}

/// What is copied, moved or linked goes to the directory named for it, else to the last of two words or more.
fn last(options: Options) -> Option<Arg> {
    if let Some(into) = options.value(&["t", "target-directory"]) {
        return Some(into.clone());
    }
    let mut words = options.words;
    if words.len() > 1 { words.pop() } else { None }
}

/// `host:path` is another machine's.
fn local(to: Option<Arg>) -> Vec<Effect> {
    let remote = |arg: &Arg| {
        let text = match arg {
            Arg::Text(text) | Arg::Below(text) => text,
            Arg::Unknown { .. } => return true,
        };
        text.split('/').next().is_some_and(|host| host.contains(':'))
    };
    to.into_iter().filter(|to| !remote(to)).map(Writes).collect()
}

/// The first word is a mode or an owner, unless another file gives it or an option was one.
fn owned(options: Options, told: bool) -> Vec<Effect> {
    let told = told || options.has(&["reference"]);
    let deep = options.has(&["R", "recursive"]);
    let files = options.words.into_iter().skip(usize::from(!told));
    files.map(if deep { RemovesAll } else { Rewrites }).collect()
}

/// `perl -pi -e …`: the files that are rewritten where they stand.
fn in_place(args: &[Arg]) -> Vec<Effect> {
    let (mut rewrites, mut told) = (false, false);
    let mut rest = args.iter().peekable();
    while let Some(text) = rest.peek().and_then(|arg| arg.text()).filter(|t| t.len() > 1 && t.starts_with('-')) {
        rest.next();
        if text == "--" {
            break;
        }
        for (at, letter) in text.char_indices().skip(1) {
            match letter {
                // What follows is its suffix.
                'i' => {
                    rewrites = true;
                    break;
                }
                'e' | 'E' => {
                    told = true;
                    if at + 1 == text.len() {
                        rest.next();
                    }
                    break;
                }
                'M' | 'm' | 'I' | 'F' | 'C' | 'D' | 'x' | 'V' => break,
                _ => {}
            }
        }
    }
    if !rewrites {
        return Vec::new();
    }
    rest.skip(usize::from(!told)).cloned().map(Rewrites).collect()
}

/// `tar xf A -C DIR`, `tar cf A …`, with or without the dash.
fn tar(args: &[Arg]) -> Vec<Effect> {
    let mut args = args.to_vec();
    if let Some(Arg::Text(first)) = args.first_mut()
        && !first.starts_with('-')
    {
        // The old way's values stand behind its letters in their order: `-f` is last where there is one.
        let file = first.contains('f');
        first.retain(|c| c != 'f');
        *first = format!("-{first}{}", if file { "f" } else { "" });
    }
    let options = Options::read(&args, "fCbXTgHKNVIL", &["file", "directory", "exclude", "files-from", "transform"]);
    let to = |to: Option<&Arg>| to.cloned().map(Writes);
    if options.has(&["t", "list", "O", "to-stdout"]) {
        Vec::new()
    } else if options.has(&["x", "extract", "get"]) {
        vec![to(options.value(&["C", "directory"])).unwrap_or(WritesHere)]
    } else if options.has(&["c", "create", "r", "append", "u", "update"]) {
        let file = options.value(&["f", "file"]).filter(|file| file.text() != Some("-"));
        to(file).into_iter().collect()
    } else {
        Vec::new()
    }
}
