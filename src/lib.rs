//! `leaf`: threads beside a coding agent's session.
//!
//! Every run is the same short story: a client's event or a command line becomes a value, the page and the session are
//! read under their locks, a rule decides, and its effects are written in an order in which a kill between two of them does no
//! harm.

pub mod cache;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod context;
pub mod desk;
pub mod duty;
pub mod errors;
pub mod eval;
pub mod follow;
pub mod forks;
pub mod headless;
pub mod hook;
pub mod ids;
pub mod line;
pub mod lock;
pub mod page;
pub mod place;
pub mod pointer;
pub mod refused;
pub mod rules;
pub mod schedule;
pub mod scratch;
pub mod session;
pub mod sleeper;
pub mod text;
pub mod transaction;
pub mod trust;
pub mod watch;

/// The format of pages and sessions that this leaf writes (R127).
pub const FORMAT: u32 = 1;
