//! Tests of the sandbox from outside, one file per topic. All are one program: each program links wasmtime, and while
//! tests of one topic wait, tests of another run. Tests that measure their process, or install a log subscriber, are
//! beside this folder.

#[path = "../support/mod.rs"]
mod support;

mod calls;
mod compiling;
mod composing;
mod fuel;
mod hostile;
mod limits;
mod loading;
mod memory;
mod mutants;
mod outside;
mod reading;
mod repeatable;
mod reuse;
mod scripts;
mod stock;
mod threads;
mod versions;
mod wasi;
mod wasi_http;
mod wit;
