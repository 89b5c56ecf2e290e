//! A session's journal: any lines fold, and a state that is stored after any of them is the same once it is read again.
#![no_main]

use leaf_threads::clock::Ts;
use leaf_threads::session::journal::Entry;
use leaf_threads::session::state::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut state = State::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(entry) = serde_json::from_slice::<Entry>(line) else { continue };
        let written = serde_json::to_vec(&entry).expect("an entry is written");
        assert_eq!(serde_json::from_slice::<Entry>(&written).expect("an entry is read again"), entry);
        state.apply(&entry);
    }
    let written = serde_json::to_vec(&state).expect("a state is written");
    assert_eq!(serde_json::from_slice::<State>(&written).expect("a state is read again"), state);
    for now in [Ts(i64::MIN), Ts(0), state.active, Ts(i64::MAX)] {
        let _ = (state.open_turn(now), state.forks_may_run(true), state.forks_may_run(false));
        for turn in &state.forks {
            let _ = turn.due(state.generation, true, true, now);
            let _ = turn.due(None, false, false, now);
            let _ = turn.stands(state.generation, false, true, now);
        }
    }
});
