//! Whole stories through the built binary.

mod doctor;
mod eval;
mod install;
