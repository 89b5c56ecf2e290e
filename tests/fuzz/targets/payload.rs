//! Hook payloads: any bytes are read or refused, and every answer to what was read is one JSON object.
#![no_main]

use leaf_threads::client::claude_code::{answer, edited_path, read};
use leaf_threads::client::{Decision, What};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(event) = read(bytes) else { return };
    let text = String::from_utf8_lossy(bytes).into_owned();
    if let What::Edit { tool, input } = &event.what {
        let _ = edited_path(tool, input);
    }
    let input = match &event.what {
        What::Shell { input, .. } | What::Edit { input, .. } | What::Launch { input, .. } => {
            serde_json::from_str(input.get()).unwrap_or_default()
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
