//! The work of a cluster's controllers: garbage collection, and stand-ins for the workload controllers. They follow the
//! changes and write by the same verbs as clients. `bootstrap` creates what every cluster has from the start.

pub(crate) mod bootstrap;
mod cluster_roles;
pub(crate) mod collector;
pub(crate) mod stand_ins;
