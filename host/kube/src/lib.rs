//! Windlass's edge to the Kubernetes API: everything that sends a request or keeps the server's answers.
//!
//! - [`connect`](client::connect) finds the cluster as kubectl does; [`Discovery`] maps kinds to resources.
//! - [`Reachability`] tracks whether the server answers, so that the host can pause while it does not.
//! - [`Informers`] keep one list+watch and one [`Store`] per watch specification and send changes to subscribers.
//! - [`Reader`], [`ApiPort`] and [`Recorder`] implement ports of `windlass_core::call::ports`; [`Writer`] is behind
//!   `ApiPort`.
//!
//! No decision about reconciling is made here, and nothing here depends on WebAssembly. Every mutation, including
//! Events, is sent by one function (`request::mutate`), so that nothing else can change the cluster (invariant 6).

mod backoff;
pub mod client;
mod definitions;
pub mod discovery;
mod events;
mod informer;
mod lease;
mod offload;
mod own_objects;
mod port;
mod reader;
mod review;
mod scan;
mod secret;
pub mod sweep;
mod target;
mod token_review;
mod writer;

pub use crate::client::observer::{EndedRequest, RequestObserver};
pub use crate::client::reachability::{Outage, Reachability};
pub use crate::client::request::RequestError;
pub use crate::client::restores::{RestoreState, Restores};
pub use crate::client::review::ReviewError;
pub use crate::client::{ConnectError, ConnectOptions, Connection, ServerVersion};
pub use crate::definitions::{Definition, DefinitionError, Definitions, Installed, Refusal};
pub use crate::discovery::{Discovery, DiscoveryError, Resource};
pub use crate::events::Recorder;
pub use crate::informer::budget::{Budget, BudgetScope, Excess};
pub use crate::informer::conditions::ConditionCounts;
pub use crate::informer::feed::{SubscribeOptions, Subscription};
pub use crate::informer::parse::{ParseError, object_of};
pub use crate::informer::store::{NotSynced, Store};
pub use crate::informer::trust::CacheTrust;
pub use crate::informer::{
    CACHE_BYTES_DEFAULT, InformerError, InformerFigures, InformerOptions, InformerStatus, Informers, ListReason,
    OverBudget,
};
pub use crate::lease::{LeaseError, LeaseKind, Leases, Notes};
pub use crate::own_objects::{OwnObjectError, OwnObjects, StatusWriteError};
pub use crate::port::ApiPort;
pub use crate::reader::followed::{Followed, Runs};
pub use crate::reader::live::{LiveBudget, LiveReader};
pub use crate::reader::{Readable, Reader};
pub use crate::review::{ReviewVerdict, may_watch};
pub use crate::secret::{SecretError, Secrets};
pub use crate::token_review::{TokenUser, may_access, whose_token};
pub use crate::writer::audit::WriteOutcome;
pub use crate::writer::budget::{WriteBudget, WriteRate};
pub use crate::writer::expecting::Expecting;
pub use crate::writer::{Committed, OnWithheld, Writer};
