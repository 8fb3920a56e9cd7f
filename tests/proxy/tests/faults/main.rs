//! Each fault in front of the embedded API server: the client's view, and the effect on the server.

mod requests;
mod support;
mod watches;
mod weather;
mod whole;
