//! `errors.log`: what a hook kept silent about. Bounded, and never a reason to fail.

use std::io::Write;

use rustix::fs::OFlags;

use crate::clock::Clock;
use crate::place::{Dir, Env, state_path};
use crate::text;

/// The file's name.
pub const NAME: &str = "errors.log";
/// Past this size, bytes, the older half goes.
const LIMIT: u64 = 64 * 1024;

/// Writes one line with the time. Where there is no place for it, nothing is said.
pub fn note(message: &str) {
    let env = Env::default();
    let Ok(path) = state_path(&env) else { return };
    let Ok(dir) = Dir::create_home(&path) else { return };
    let now = Clock::from_env(&env).unwrap_or(Clock::System).now();
    let line = format!("{now} {}\n", text::first_words(message, 500));
    let Ok(Some(mut file)) = dir.file(NAME, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE) else { return };
    if file.metadata().is_ok_and(|meta| meta.len() > LIMIT)
        && let Ok(Some(bytes)) = dir.read(NAME)
    {
        let half = &bytes[bytes.len() / 2..];
        let kept = half.iter().position(|byte| *byte == b'\n').map_or(&[][..], |at| &half[at + 1..]);
        let kept = [kept, line.as_bytes()].concat();
        let _ = dir.replace(NAME, &kept, false);
        return;
    }
    let _ = file.write_all(line.as_bytes());
}
