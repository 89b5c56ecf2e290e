//! A process that does nothing, built as `leaf` is: what every time of `cargo bench --bench hooks` is a multiple of.

fn main() {}
