//! `leaf`: threads beside a coding agent's session.
