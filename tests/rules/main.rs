//! Every rule that the desk stands on, held to through the built binary alone: one file a section of
//! rules.md, tests named after the rules (`r042_…`), and what contract.md promises (`contract_…`).
//! Whoever writes here reads the rules and the contract, never `src/`.

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod calls;
mod forks_model;
mod gate;
mod guard_attacks;
mod killed_takes;
mod many_writers;
mod model;
mod pure_model;
mod reference;
mod s01_eval;
mod s01_records;
mod s02_messages;
mod s03_keeping_back;
mod s04_line_fork;
mod s05_take;
mod s06_naming;
mod s07_forks;
mod s07_turns;
mod s08_forks;
mod s08_holding;
mod s08_model;
mod s09_fork_writes;
mod s10_main_over;
mod s11_forks;
mod s11_identity;
mod s12_boundary;
mod s12_forks;
mod s13_ends;
mod s14_follow_ups;
mod s15_coordinator;
mod s15_todos;
mod s16_deliveries;
mod s17_forks;
mod s17_sessions;
mod s18_guard;
mod s18_seen;
mod s18_skill;
mod s18_ways;
mod s19_trust;
mod s20_definitions;
mod s20_lifecycle;
mod s20_reports;
mod s20_runs;
mod schedule_days;
mod schedule_reference;
mod schedule_sweep;
mod schedule_watch;
mod todo_mixes;
mod words_corpus;
