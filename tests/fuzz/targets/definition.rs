//! Definitions: any text is taken apart, read as YAML, and read as a fork's and a hook's file; no time is told otherwise than
//! it is read.
#![no_main]

use std::path::{Path, PathBuf};

use leaf_threads::schedule::definition::Source;
use leaf_threads::schedule::parse::{Context, fork, hook};
use leaf_threads::schedule::report::{parts, take_sentinel};
use leaf_threads::schedule::{duration, frontmatter};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Some(parts) = frontmatter::split(&text) {
        let _ = frontmatter::read(parts.yaml, parts.line);
    }
    let _ = frontmatter::read(&text, 1);
    let context = Context { name: "f", project: Path::new("/p"), home: Some(Path::new("/h")) };
    let source = || Source { path: PathBuf::from("/p/.leaf/forks/f.md"), own: false, sha256: String::new() };
    let mut warnings = Vec::new();
    let _ = fork(&text, source(), None, &context, &mut warnings);
    let _ = hook(&text, source(), &context, &mut warnings);
    for warning in &warnings {
        assert!(!warning.sentence().is_empty());
    }
    if let Ok(seconds) = duration::parse(&text) {
        assert_eq!(duration::parse(&duration::words(seconds)), Ok(seconds));
    }
    let _ = take_sentinel(&text);
    let pieces = parts(&text);
    assert_eq!(pieces.iter().map(|range| &text[range.clone()]).collect::<String>(), text);
});
