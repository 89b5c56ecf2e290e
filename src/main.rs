//! The `leaf` binary: argv to command. The hook path branches off before any argument parser is built.
#![cfg_attr(all(target_os = "linux", not(test)), no_main)]

use std::ffi::OsString;

#[cfg(all(target_os = "linux", not(test)))]
#[expect(unsafe_code, reason = "the C library's way into a program has no safe form")]
mod start;

#[cfg(not(all(target_os = "linux", not(test))))]
fn main() -> std::process::ExitCode {
    run(std::env::args_os().collect()).into()
}

/// Runs a command line, the program's name first, and returns the exit code.
fn run(args: Vec<OsString>) -> u8 {
    match args.as_slice() {
        [_, verb] if verb == "hook" => {
            leaf_threads::hook::run();
            0
        }
        [_, verb] if verb == "watch" => leaf_threads::watch::run(),
        _ => leaf_threads::cli::run(args),
    }
}
