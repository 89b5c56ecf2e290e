//! Hook payloads: any bytes are read or refused, as they come in, in pieces, they say the same, and every answer to what was read is
//! one JSON object.
#![no_main]

use leaf_threads::client::claude_code::{answer, edited_path, intake, object, read};
use leaf_threads::client::{Decision, What};
use libfuzzer_sys::fuzz_target;

/// What comes in, in pieces of this size.
fn taken_in(mut bytes: &[u8], size: usize) -> Vec<u8> {
    let more = |buffer: &mut Vec<u8>| {
        let count = size.min(bytes.len()).min(buffer.capacity() - buffer.len());
        buffer.extend_from_slice(&bytes[..count]);
        bytes = &bytes[count..];
        Ok(count)
    };
    intake::read(more, u64::MAX).unwrap().unwrap()
}

fuzz_target!(|bytes: &[u8]| {
    let size = 1 + bytes.len() % 97;
    let taken = taken_in(bytes, size);
    let as_said = |bytes: &[u8]| read(bytes).ok().map(|event| format!("{event:?}"));
    assert_eq!(as_said(&taken), as_said(bytes));
    let Ok(event) = read(bytes) else { return };
    let text = String::from_utf8_lossy(bytes).into_owned();
    if let What::Edit { tool, input } = &event.what {
        let _ = edited_path(tool, input);
    }
    let input = match &event.what {
        What::Shell { input, .. } | What::Edit { input, .. } | What::Launch { input, .. } => {
            object(input).map_or(serde_json::Value::Null, serde_json::Value::Object)
        }
        _ => serde_json::Value::Null,
    };
    for decision in
        [Decision::Silent, Decision::Context(text.clone()), Decision::Deny(text.clone()), Decision::Rewrite(input)]
    {
        let Some(answer) = answer(&event.what, &decision) else { continue };
        assert!(!answer.contains('\n'));
        assert!(serde_json::from_str::<serde_json::Value>(&answer).is_ok_and(|value| value.is_object()));
    }
});
