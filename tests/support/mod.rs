//! What the tests share. Each test binary uses a part of it.
#![allow(dead_code, reason = "every test binary uses another part of the support code")]

pub mod desk;
pub mod dice;
pub mod fold;
pub mod forks;
pub mod leftovers;
pub mod prompts;
pub mod schedule;
