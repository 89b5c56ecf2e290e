//! A refusal: which rule refuses, why, and the way out, in one sentence (exit 1).

use std::fmt;

use crate::ids::ThreadId;

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The rule, `R9`; `None` where it is plain input that can't be right.
    pub rule: Option<&'static str>,
    /// The thread that it is about, for `leaf why`.
    pub thread: Option<ThreadId>,
    /// One sentence: the reason, and the way out behind a colon.
    pub sentence: String,
}

impl Refused {
    /// Returns a refusal by a rule.
    pub fn by(rule: &'static str, sentence: impl Into<String>) -> Refused {
        Refused { rule: Some(rule), thread: None, sentence: sentence.into() }
    }

    /// Returns a refusal of input that can't be right.
    pub fn input(sentence: impl Into<String>) -> Refused {
        Refused { rule: None, thread: None, sentence: sentence.into() }
    }

    /// Says which thread it is about.
    pub fn of(self, thread: ThreadId) -> Refused {
        Refused { thread: Some(thread), ..self }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Refused {}

/// The command's words are off (exit 2).
#[derive(Clone, Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
