//! The `leaf` binary: argv to command. The hook path branches off before any argument parser is built.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if let (Some(verb), None) = (words.next(), words.next()) {
        if verb == "hook" {
            return leaf_threads::hook::run();
        }
        if verb == "watch" {
            return leaf_threads::watch::run();
        }
    }
    leaf_threads::cli::run()
}
