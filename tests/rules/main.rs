//! Every rule that the desk stands on, held to through the built binary alone: one file a section of
//! rules.md, tests named after the rules (`r042_…`), and what contract.md promises (`contract_…`).
//! Whoever writes here reads the rules and the contract, never `src/`.

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod many_writers;
mod s01_records;
mod s02_messages;
mod s07_turns;
mod s08_holding;
mod s08_model;
mod s11_identity;
mod s12_boundary;
mod s15_todos;
mod s16_deliveries;
mod s17_sessions;
mod s18_skill;
mod s19_trust;
mod words_corpus;
