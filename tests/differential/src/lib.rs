//! Holds the embedded API server against a real kube-apiserver: both get the same requests, and must answer alike.
//!
//! A [`script`] is a file of requests. [`run`] sends each to both [`servers`] and [`compare`] holds the two answers
//! against each other, whole, up to what no two servers can have alike: times, UIDs, versions, addresses. Differences
//! that we live with stand in [`accepted`]. [`generate`] makes scripts by chance. README.md says how to add a script
//! and how to accept a difference.

pub mod accepted;
pub mod client;
pub mod compare;
pub mod generate;
pub mod hooks;
pub mod manifests;
pub mod mutations;
pub mod plain;
pub mod ranking;
pub mod run;
pub mod script;
pub mod servers;
pub mod suite;
