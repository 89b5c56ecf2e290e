//! The rules, as functions of values: no I/O, no environment, and the clock is an argument.

pub mod answer;
pub mod changed;
pub mod deliver;
pub mod ended;
pub mod guard;
pub mod holding;
pub mod instants;
pub mod keep_back;
pub mod prompts;
pub mod take;
pub mod todos;
pub mod way;
pub mod words;
pub mod writes;
