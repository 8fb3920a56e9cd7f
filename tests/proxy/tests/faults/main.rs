//! Each fault before the embedded API server: what the client saw of it, and what the server did.

mod requests;
mod support;
mod watches;
mod weather;
mod whole;
