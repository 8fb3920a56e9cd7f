//! Cross-crate tests, one file a topic, on the embedded API server and, where it says so, on a real kube-apiserver.

mod admin;
mod bad_input;
mod caches;
mod composite;
mod config;
mod connections;
mod definitions;
mod dev;
mod fairness;
mod finalizers;
mod freshness;
mod imports;
mod kinds;
mod kubectl;
mod leases;
mod outage;
mod policies;
mod proxy;
mod review;
mod storm;
mod webapp;
mod writes;
