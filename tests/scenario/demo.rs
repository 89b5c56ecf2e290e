//! `leaf demo` leaves nothing behind, however it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn a_killed_demo_leaves_nothing() {
    let place = tempfile::tempdir().expect("a directory");
    let mut demo = Command::new(env!("CARGO_BIN_EXE_leaf"))
        .arg("demo")
        .env("TMPDIR", place.path())
        .env("HOME", place.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("leaf runs");
    let entries = || fs::read_dir(place.path()).expect("the directory").count();
    let mut line = String::new();
    BufReader::new(demo.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    assert_eq!(entries(), 1, "it is in the middle of it: {line}");
    demo.kill().expect("it is killed");
    demo.wait().expect("it is gone");
    let began = Instant::now();
    while entries() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "it is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}
