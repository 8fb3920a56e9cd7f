//! Cross-crate tests, one file a topic, on the embedded API server and, where it says so, on a real kube-apiserver.

mod admin;
mod bad_input;
mod caches;
mod composite;
mod config;
mod connections;
mod crash;
mod definitions;
mod dev;
mod expectations;
mod fairness;
mod features;
mod finalizers;
mod imports;
mod kinds;
mod kubectl;
mod outage;
mod policies;
mod proxy;
mod replicas;
mod review;
mod storm;
mod webapp;
mod writes;
