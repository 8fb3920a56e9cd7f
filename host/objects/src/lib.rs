//! The kinds `ClusterPlugin` and `ClusterPluginPolicy` as values: their fields, which policy covers which plugin, what
//! the host should therefore run, and the status that it writes.
//!
//! Nothing here does I/O. In `windlass-runtime`, `objects` watches the objects, fetches, and carries out an
//! [`ObjectPlan`]. `docs/adr/0048-plugins-as-objects.md` has the reasons.

mod artefact;
mod condition;
pub mod definitions;
mod drafted;
mod facts;
mod grant;
mod plan;
mod plugin;
mod policy;
mod rendered;
mod status;

pub use artefact::{ArtefactOrigin, InstalledArtefact};
pub use condition::{ConditionReason, ConditionType, ObjectCondition};
pub use drafted::drafted_objects;
pub use facts::{ControllerFigures, EngineFacts, ObjectFacts, RefusedFile};
pub use grant::{GrantRefusal, PolicyJudgement, judge};
pub use plan::{FORMER_ARTEFACTS_MAX, FetchFailure, FetchState, ObjectPlan, PlanInputs, WantedFiles, plan};
pub use plugin::{ConfigMapSource, OciSource, PluginObject, PluginSource, RolloutSpec};
pub use policy::{PolicyObject, PolicySource};
pub use status::{ObjectStatus, StatusChange};

/// The API group of the objects.
pub const GROUP: &str = windlass_core::rights::grants::HOST_GROUP;
/// The group and version of the objects.
pub const OBJECTS_API_VERSION: &str = windlass_manifest::API_VERSION;
/// The kind of a plugin of the whole cluster.
pub const CLUSTER_PLUGIN: &str = "ClusterPlugin";
/// The kind of its policies.
pub const CLUSTER_PLUGIN_POLICY: &str = "ClusterPluginPolicy";
