//! One call of a plugin: what it asks the host for, by which port, and what is noted about it.

pub mod batch;
pub mod call_lines;
pub mod compose;
pub mod http;
pub mod intent;
pub mod ports;
pub mod trace;
