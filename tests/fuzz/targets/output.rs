//! What a client's run prints, its transcript, and a model's answers: any bytes are read.
#![no_main]

use std::cell::OnceCell;
use std::fs;

use leaf_threads::client::claude_code::{print, transcript};
use leaf_threads::eval::coherence::judgment;
use leaf_threads::eval::decision::came;
use leaf_threads::eval::set::{Answers, Set};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static FILE: OnceCell<tempfile::NamedTempFile> = const { OnceCell::new() };
}

fuzz_target!(|bytes: &[u8]| {
    let _ = (print::output(bytes), print::last_result(bytes), print::model(bytes));
    FILE.with(|file| {
        let path = file.get_or_init(|| tempfile::NamedTempFile::new().expect("a file")).path();
        fs::write(path, bytes).expect("it is written");
        let _ = (transcript::said(path), transcript::context(path), print::mode(path));
    });
    let text = String::from_utf8_lossy(bytes);
    let _ = (came(&text), judgment(&text));
    let _ = Set::read(&text, [&text, &text]);
    let _ = Answers::read("answers", &text, |_| true);
});
