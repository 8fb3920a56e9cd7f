//! Windlass's edge to the Kubernetes API: everything that sends a request or keeps what the server answered.
//!
//! - [`connect`](client::connect) finds the cluster as kubectl does; [`Discovery`] maps kinds to resources.
//! - [`Reachability`] tells whether the server answers, so that the host can pause while it does not.
//! - [`Informers`] keep one list+watch and one [`Store`] per watch specification and tell subscribers what changes.
//! - [`Reader`], [`Writer`] and [`Recorder`] are the ports of `windlass_core::ports`.
//!
//! No decision about reconciling is made here, and nothing here knows WebAssembly. Every mutation, events included,
//! leaves through one function (`request::mutate`), so that nothing else can change the cluster (invariant 6).

mod apart;
mod audit;
mod backoff;
mod budget;
mod claim;
pub mod client;
mod cold;
mod comparable;
mod definitions;
pub mod discovery;
mod event_series;
mod events;
mod expecting;
mod feed;
mod field_selector;
mod follow;
mod freshness;
mod headers;
mod index;
mod informer;
mod intern;
mod keeping;
mod lease;
mod listing;
mod live;
mod notice;
mod overlaid;
mod parse;
mod pointer;
mod reachability;
mod reader;
mod request;
mod review;
mod secret;
mod selector;
mod settling;
mod skip;
mod status;
mod store;
pub mod sweep;
mod target;
mod transport;
mod write_answer;
mod write_body;
mod write_budget;
mod write_plan;
mod writer;

pub use crate::audit::WriteOutcome;
pub use crate::budget::{Budget, Excess, Scope as BudgetScope};
pub use crate::claim::Claimer;
pub use crate::client::{ConnectError, ConnectOptions, Connection, ServerVersion};
pub use crate::definitions::{Definition, DefinitionError, Definitions, Installed, Refusal};
pub use crate::discovery::{Discovery, DiscoveryError, Resource};
pub use crate::events::Recorder;
pub use crate::expecting::Expecting;
pub use crate::feed::{OverBudget, SubscribeOptions, Subscription};
pub use crate::informer::{InformerError, InformerFigures, InformerOptions, InformerStatus, Informers};
pub use crate::lease::{LeaseError, LeaseKind, Leases, Notes};
pub use crate::live::{LiveBudget, LiveReader};
pub use crate::parse::{ParseError, object_of};
pub use crate::pointer::PointerError;
pub use crate::reachability::{Outage, Reachability};
pub use crate::reader::{Readable, Reader};
pub use crate::request::RequestError;
pub use crate::review::{ReviewError, Verdict, may_watch};
pub use crate::secret::{SecretError, Secrets};
pub use crate::selector::{Selector, SelectorError};
pub use crate::skip::{Followed, Runs};
pub use crate::store::Store;
pub use crate::write_budget::{WriteBudget, WriteRate};
pub use crate::writer::{Committed, Writer};
