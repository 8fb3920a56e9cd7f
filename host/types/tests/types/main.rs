//! Tests of the generated types of all kinds in `kinds.yaml`: they are valid in each language, and no field gets lost
//! in them. `public` tests the same with the definitions of public projects.

mod dice;
mod kinds;
mod languages;
mod public;
mod rust;

/// The generated types. `tests/types/rust.rs` checks that the file is up to date.
#[rustfmt::skip]
mod generated;
