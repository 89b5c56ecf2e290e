//! The rules, as functions of values: no I/O, no environment, and the clock is an argument.

pub mod answer;
pub mod deliver;
pub mod holding;
pub mod words;
