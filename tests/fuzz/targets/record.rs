//! `page.json`, `session.json` and the configuration: any bytes are read or refused, and what was read is written alike.
#![no_main]

use leaf_threads::config;
use leaf_threads::ids::{PageId, Reference, SessionId};
use leaf_threads::page::PageRecord;
use leaf_threads::pointer::Pointer;
use leaf_threads::session::record::SessionRecord;
use leaf_threads::trust::ProjectRecord;
use leaf_threads::{clock::Ts, text};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::{from_slice, from_value, to_value};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = from_slice::<PageRecord>(bytes) {
        let written = to_value(&record).expect("it is written");
        let again: PageRecord = from_value(written.clone()).expect("it is read again");
        assert_eq!(to_value(&again).expect("it is written again"), written);
    }
    if let Ok(record) = from_slice::<SessionRecord>(bytes) {
        let written = to_value(&record).expect("it is written");
        assert_eq!(from_value::<SessionRecord>(written).expect("it is read again"), record);
    }
    let _ = from_slice::<Pointer>(bytes).is_ok();
    let _ = from_slice::<ProjectRecord>(bytes).is_ok();
    let Ok(given) = std::str::from_utf8(bytes) else { return };
    let _ = config::of_text(given).is_ok();
    let _ = Ts::parse(given).map(|ts| to_value(ts).map(|v: Value| v.to_string()));
    if let Ok(reference) = given.parse::<Reference>() {
        assert_eq!(reference.to_string().parse::<Reference>().ok(), Some(reference));
    }
    let _ = given.parse::<PageId>().is_ok();
    let _ = given.parse::<SessionId>().map(|id| id.key());
    for limit in [0, 1, 7, 80] {
        assert!(text::clip(given, limit).chars().count() <= limit.max(1));
        let _ = (text::first_words(given, limit), text::utf16(given));
    }
    let plain = text::one_line(&text::harmless(given));
    assert!(!plain.contains('\n') && !plain.contains('\u{1b}'));
});
