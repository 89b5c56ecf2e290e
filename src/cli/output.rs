//! What commands print: all of it goes through here.

use std::io::{ErrorKind, IsTerminal, Write};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::place::Env;
use crate::session::journal::Cost;
use crate::text;

/// Prints text for a person.
///
/// # Errors
/// Where stdout can't be written.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let newline = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(newline.as_bytes()));
    written.and_then(|()| out.flush()).context("the output could not be written")
}

/// Prints one JSON value. It drives a terminal no more than text does (R124).
///
/// # Errors
/// Where stdout can't be written.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&text::harmless_json(&serde_json::to_string(value)?))
}

/// Whether somebody still reads stdout: a closed pipe tells without a write.
pub fn is_read() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdout = std::io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    !poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0 && fds[0].revents().intersects(PollFlags::ERR))
}

/// Whether an error is only that nobody reads the output any more.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == ErrorKind::BrokenPipe))
}

/// Says on stderr why a command failed: one sentence.
pub fn complain(error: &anyhow::Error) {
    let _ = writeln!(std::io::stderr(), "leaf: {}", text::one_line(&format!("{error:#}")));
}

/// Returns what a run cost for a person; empty where the client told nothing.
pub fn cost_words(cost: Cost) -> String {
    let tokens = cost.tokens.map(|tokens| format!("{} tokens", grouped(tokens)));
    let time = cost.ms.map(|ms| match ms {
        0..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        10_000..180_000 => format!("{} s", ms / 1000),
        _ => format!("{} min", ms / 60_000),
    });
    [tokens, time].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A style of the terminal.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// What matters.
    Bold,
    /// What is only beside it.
    Dim,
}

/// Returns text in a style where stdout is a terminal and `NO_COLOR` is unset.
pub fn styled(style: Style, text: &str) -> String {
    if !std::io::stdout().is_terminal() || Env::default().var("NO_COLOR").is_some() {
        return text.to_owned();
    }
    let code = match style {
        Style::Bold => "1",
        Style::Dim => "2",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
