//! Whole stories through the built binary.

mod demo;
mod doctor;
mod eval;
mod install;
