//! The sandbox from outside, one file a topic. One program for all of them: each links wasmtime, and while the tests of
//! one topic wait those of another run. What measures its process, or tells it where to log, is beside this folder.

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
mod reuse;
mod scripts;
mod stock;
mod threads;
mod wasi;
mod wasi_http;
mod wit;
