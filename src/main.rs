//! The `leaf` binary: argv to command.
fn main() {}
