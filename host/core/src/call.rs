//! One call of a plugin: the ports through which it asks the host, and the records about it.

pub mod batch;
pub mod call_lines;
pub mod compose;
pub mod gauge;
pub mod http;
pub mod intent;
pub mod list_query;
pub mod ports;
pub mod read_set;
pub mod read_tracker;
pub mod shared_texts;
pub mod trace;
