//! When time alone next changes something (R88): a sleeper need not look before that.

use super::holding::Reading;
use super::keep_back::{LINE, MOST};
use crate::clock::Ts;
use crate::session::state::{LAPSE, WAIT};

/// Returns the next instant at which the page's holding changes though nothing is written: a bound of keeping back (R13), a wait of a
/// fork's turn (R38, R78, R80), a lapse (R43), a headless run's limit (R119). `followed`: a module reports ends.
pub fn next(reading: &Reading<'_>, followed: bool) -> Option<Ts> {
    let mut instants: Vec<Ts> = Vec::new();
    for thread in reading.view.in_order().filter(|thread| reading.kept_back(thread)) {
        instants.extend(thread.input().next().map(|oldest| oldest.ts.plus(MOST)));
        let queued = reading.state.queue.iter().any(|(page, id)| page == reading.page && *id == thread.id);
        instants.extend(thread.input().next_back().filter(|_| !queued).map(|newest| newest.ts.plus(LINE)));
    }
    for turn in reading.state.forks.iter().filter(|turn| turn.ended.is_none()) {
        instants.push(turn.renewed.plus(LAPSE));
        if let Some(runner) = &turn.runner {
            instants.push(runner.until);
            continue;
        }
        if turn.agent.is_none() || turn.begun.is_none() {
            instants.push(turn.opened.plus(WAIT));
        }
        instants.extend(turn.rest_over.map(|since| since.plus(WAIT)));
        instants.extend(turn.ending.filter(|_| !followed).map(|(since, _)| since.plus(WAIT)));
    }
    instants.extend(reading.state.main.iter().filter(|main| main.ended.is_none()).map(|main| main.renewed.plus(LAPSE)));
    instants.into_iter().filter(|instant| *instant > reading.now).min()
}
