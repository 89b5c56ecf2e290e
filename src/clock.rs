//! The clock, at the edge: rules get the time as an argument.

use std::fmt;
use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::place::Env;

/// A point of time: milliseconds since 1970, UTC. In JSON an RFC 3339 time with milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ts(pub i64);

impl Ts {
    /// Reads an RFC 3339 time.
    pub fn parse(text: &str) -> Option<Ts> {
        DateTime::parse_from_rfc3339(text.trim()).ok().map(|time| Ts(time.timestamp_millis()))
    }

    /// Returns the time `ms` milliseconds later.
    pub fn plus(self, ms: i64) -> Ts {
        Ts(self.0.saturating_add(ms))
    }

    /// Returns how long this is after another time, milliseconds; negative where it is before it.
    pub fn since(self, other: Ts) -> i64 {
        self.0.saturating_sub(other.0)
    }

    /// Returns the time for a person: `2026-11-30 20:10 UTC`.
    pub fn brief(self) -> String {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(time) => time.format("%Y-%m-%d %H:%M UTC").to_string(),
            None => self.0.to_string(),
        }
    }
}

impl fmt::Display for Ts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(time) => f.write_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true)),
            None => f.write_str("1970-01-01T00:00:00.000Z"),
        }
    }
}

impl Serialize for Ts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ts, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ts::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time"))
    }
}

/// Where the time comes from: the system, or `LEAF_NOW` in tests.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The system's clock.
    System,
    /// One time that never moves.
    Fixed(Ts),
    /// A file that holds the time and is read again at every look.
    File(PathBuf),
}

impl Clock {
    /// Returns the clock that the environment names: `LEAF_NOW` is an RFC 3339 time or `@FILE`.
    ///
    /// # Errors
    /// A sentence where `LEAF_NOW` is neither.
    pub fn from_env(env: &Env) -> anyhow::Result<Clock> {
        let Some(now) = env.text("LEAF_NOW") else { return Ok(Clock::System) };
        if let Some(file) = now.strip_prefix('@') {
            return Ok(Clock::File(PathBuf::from(file)));
        }
        match Ts::parse(&now) {
            Some(time) => Ok(Clock::Fixed(time)),
            None => anyhow::bail!("LEAF_NOW is neither an RFC 3339 time nor @FILE: unset it"),
        }
    }

    /// Returns the time now. A clock file that can't be read gives the system's time.
    pub fn now(&self) -> Ts {
        match self {
            Clock::Fixed(time) => *time,
            Clock::File(path) => {
                std::fs::read_to_string(path).ok().and_then(|text| Ts::parse(&text)).unwrap_or_else(system_now)
            }
            Clock::System => system_now(),
        }
    }
}

fn system_now() -> Ts {
    Ts(Utc::now().timestamp_millis())
}
