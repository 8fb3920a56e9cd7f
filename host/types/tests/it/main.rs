//! Tests of the generated types of all kinds in `kinds.yaml`: they are valid in each language, and no field gets lost
//! in them.

mod dice;
mod kinds;
mod languages;
mod rust;

/// The generated types. `tests/it/rust.rs` checks that the file is up to date.
#[rustfmt::skip]
mod generated;
