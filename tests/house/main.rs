//! Checks the house rules of CONTRIBUTING.md that a program can check. `make test` runs them, and so does `cargo test
//! --workspace --test house`.

mod bounds;
mod chance;
mod circles;
mod dependencies;
mod exceptions;
mod findings;
mod glossary;
mod lines;
mod modules;
mod names;
mod pages;
mod prose;
mod sizes;
mod source;
mod tree;
mod uses;
