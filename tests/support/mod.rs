//! What the tests share. Each test binary uses a part of it.
#![allow(dead_code, reason = "every test binary uses another part of the support code")]

pub mod desk;
pub mod forks;
pub mod prompts;
pub mod schedule;
