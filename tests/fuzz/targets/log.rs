//! A page's log: any bytes fold, and whoever reads them in two pieces has the same view as who reads them at once.
//! The first two bytes say where the second piece begins.
#![no_main]

use leaf_threads::ids::IdKey;
use leaf_threads::page::log::parse;
use leaf_threads::page::view::View;
use libfuzzer_sys::fuzz_target;

/// The key of the page that `run` makes the seeds of; without it no event follows another.
const KEY: IdKey = IdKey(1);

fuzz_target!(|bytes: &[u8]| {
    let Some((cut, bytes)) = bytes.split_first_chunk::<2>() else { return };
    let cut = usize::from(u16::from_le_bytes(*cut)) % (bytes.len() + 1);
    let mut whole = View::default();
    whole.fold(KEY, bytes);
    // A line that is an event as far as it goes, and none as a whole, was written by nobody.
    let from = bytes[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let to = bytes[cut..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| cut + at);
    if parse(&bytes[from..cut]) == parse(&bytes[from..to]) || parse(&bytes[from..cut]).is_none() {
        let mut pieces = View::default();
        pieces.fold(KEY, &bytes[..cut]);
        let read = usize::try_from(pieces.offset).unwrap_or(usize::MAX);
        assert!(read <= cut);
        pieces.fold(KEY, &bytes[read..]);
        assert_eq!(pieces, whole);
    }
    for thread in whole.in_order() {
        let _ = (thread.holding_take(), thread.owing(), thread.returned().count(), thread.shared().count());
        for message in &thread.messages {
            assert!(whole.message(message.id).is_some());
        }
    }
});
