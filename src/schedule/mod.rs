//! Scheduled forks: background copies of a session's conversation that run at a moment nobody has to think of.
//!
//! Definitions are files ([`definition`], [`discovery`]); the session's record of what ran is folded from its journal ([`record`]); what
//! is due now, and why not, is a pure function of both ([`select`], [`order`]). `leaf watch` is the only process that waits; a run is a
//! process of its own. Lifecycle hooks are told of what happened by a process of their own, too ([`lifecycle`]).

pub mod changed;
pub mod close;
pub mod definition;
pub mod discovery;
pub mod duration;
pub mod feed;
pub mod frontmatter;
pub mod in_session;
pub mod issue;
pub mod layers;
pub mod lifecycle;
pub mod lookup;
pub mod order;
pub mod parse;
pub mod pause;
pub mod prompt;
pub mod record;
pub mod report;
pub mod rights;
pub mod run;
pub mod select;
pub mod settings;
pub mod wait;

/// How long a lifecycle hook may take where its file doesn't say, seconds.
pub const TIMEOUT: u64 = 60;
/// How much of a lifecycle hook's output is delivered where its file doesn't say, bytes.
pub const MAX_BYTES: usize = 8_000;
