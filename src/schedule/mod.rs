//! Scheduled forks: background copies of a session's conversation that run at a moment nobody has to think of.
//!
//! Definitions are files ([`definition`], [`discovery`]); the session's record of what ran is folded from its journal ([`record`]); what
//! is due now, and why not, is a pure function of both ([`select`], [`order`]). `leaf watch` is the only process that waits; a run is a
//! process of its own.

pub mod definition;
pub mod discovery;
pub mod duration;
pub mod frontmatter;
pub mod layers;
pub mod order;
pub mod parse;
pub mod pause;
pub mod record;
pub mod select;
pub mod settings;
