//! The words of a command as far as the line alone tells them, and its options.

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    /// This text, whatever runs.
    Text(String),
    /// Names of files in this directory: a pattern, or what a `find` finds below it.
    Below(String),
    /// What only running tells. `plain`: it is no option, for it begins with a text that begins none.
    Unknown { plain: bool },
}

impl Arg {
    pub fn text(&self) -> Option<&str> {
        match self {
            Arg::Text(text) => Some(text),
            Arg::Below(_) | Arg::Unknown { .. } => None,
        }
    }

    fn is_plain(&self) -> bool {
        match self {
            Arg::Text(text) => text.len() < 2 || !text.starts_with('-'),
            Arg::Below(_) => true,
            Arg::Unknown { plain } => *plain,
        }
    }
}

/// A command's options and the words that are none.
#[derive(Debug, Default)]
pub(super) struct Options {
    given: Vec<(String, Option<Arg>)>,
    /// The words that are no options.
    pub words: Vec<Arg>,
    /// A word may be an option, or a text of several.
    pub doubt: bool,
}

impl Options {
    /// Reads the words behind a command's name. `valued` lists the options that take the next word, or the rest of their own:
    /// letters for `-o`, names for `--output`.
    pub fn read(args: &[Arg], letters: &str, names: &[&str]) -> Options {
        let mut options = Options::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let option = arg.text().filter(|_| !arg.is_plain());
            match option {
                Some("--") => {
                    options.words.extend(rest.cloned());
                    break;
                }
                Some(long) if long.starts_with("--") => match long[2..].split_once('=') {
                    Some((name, value)) => options.given.push((name.to_owned(), Some(Arg::Text(value.to_owned())))),
                    None if names.contains(&&long[2..]) => {
                        options.given.push((long[2..].to_owned(), rest.next().cloned()));
                    }
                    None => options.given.push((long[2..].to_owned(), None)),
                },
                Some(short) => {
                    let mut cluster = short[1..].chars();
                    while let Some(letter) = cluster.next() {
                        if !letters.contains(letter) {
                            options.given.push((letter.to_string(), None));
                            continue;
                        }
                        let value = cluster.as_str();
                        let value =
                            if value.is_empty() { rest.next().cloned() } else { Some(Arg::Text(value.to_owned())) };
                        options.given.push((letter.to_string(), value));
                        break;
                    }
                }
                None => {
                    options.doubt |= !arg.is_plain();
                    options.words.push(arg.clone());
                }
            }
        }
        options
    }

    /// Whether one of these was given.
    pub fn has(&self, names: &[&str]) -> bool {
        self.given.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// Returns the value of the last of these that was given.
    pub fn value(&self, names: &[&str]) -> Option<&Arg> {
        self.given.iter().rev().find(|(name, _)| names.contains(&name.as_str()))?.1.as_ref()
    }
}
