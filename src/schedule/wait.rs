//! What a waiting process reads off the record of runs: whom it waits for, and what an idle session is to be woken for.

use super::record::{Record, Run};
use crate::session::liveness::{Life, Process};

/// Returns the processes of the runs that are not over.
pub fn processes(record: &Record) -> Vec<Process> {
    open(record).filter_map(|run| run.process.clone()).collect()
}

/// Whether a run that is not over may have lost its process: who looks closer does it under the lock.
pub fn may_be_dead(record: &Record) -> bool {
    open(record).any(|run| run.process.as_ref().unwrap_or(&run.owner).life() == Life::Dead)
}

fn open(record: &Record) -> impl Iterator<Item = &Run> {
    record.runs.iter().filter(|run| run.over.is_none())
}

/// Returns what an idle session is woken with for its scheduled forks, once each: a report that asked for another run is to be read
/// before that. The prompt that it causes delivers.
pub fn wake(record: &Record) -> Option<&'static str> {
    let asks =
        |run: &Run| record.is_unread(run) && run.over.is_some_and(|over| record.woke.is_none_or(|woke| woke < over));
    let run = record.runs.iter().find(|run| asks(run))?;
    Some(if run.feed {
        "a lifecycle hook has something for this session; it stands in this turn's context"
    } else {
        "a scheduled fork asks to run again once this session has read its report; the report stands in this turn's context"
    })
}
