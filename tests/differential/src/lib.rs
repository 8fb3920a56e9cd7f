//! Compares the embedded API server with a real kube-apiserver: both get the same requests, and must give the same
//! answers.
//!
//! A [`script`] is a file of requests. [`run`] sends each request to both [`servers`], and [`compare`] compares the
//! whole answers, except for values that differ between any two servers: times, UIDs, versions, addresses. [`accepted`]
//! contains the accepted differences. [`generate`] makes random scripts. README.md explains how to add a script, and
//! how to accept a difference.

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
