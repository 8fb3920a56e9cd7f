//! The runtime of Windlass: it follows the files of plugins, runs their controllers, and shares them out among
//! replicas.
//!
//! Data flows one way. `plugins` decides what runs and starts it. A `controller` waits for `admission` and feeds
//! `dispatch`, which calls the plugin once for each key. `leadership`, `policies` and `egress` decide what may be done,
//! and `observe` shows what is done. [`run`] starts all of it and stops it again.

mod admission;
mod clock;
mod controller;
mod dispatch;
mod earlier_rounds;
mod egress;
pub mod files;
mod hooks;
mod host;
mod leadership;
mod listening;
mod manager;
mod object_names;
mod object_settings;
mod objects;
mod observe;
mod open_files;
mod phases;
mod plugins;
mod policies;
mod rejections;
mod settings;
mod supervise;
mod suspension;
#[cfg(test)]
mod tests;
mod traces;

pub use dispatch::guards::GuardSettings;
pub use dispatch::ports::call_slots;
pub use hooks::HookListenError;
pub use hooks::settings::HookSettings;
pub use leadership::{LeaseMode, LeaseSettings};
pub use listening::tls::{ServerTlsError, TlsFiles, TlsNames};
pub use manager::{HostError, run, run_loaded};
pub use object_settings::ObjectSettings;
pub use objects::ObjectsError;
pub use observe::admin::ListenError;
pub use observe::admin::settings::{AdminAuth, AdminSettings};
pub use plugins::config::{
    SECRET_READ_INTERVAL_MAX, SUFFIX as CONFIG_SUFFIX, configured_kinds, named_secrets, written_config,
};
pub use plugins::directory::is_plugin_file;
pub use plugins::directory::plugin_files::plugin_of;
pub use plugins::directory::{AllowedError, DirectoryError};
pub use plugins::leftovers::NamedKinds;
pub use plugins::prepare::problem as manifest_problem;
pub use plugins::rollout::{RolledOut, RolloutError, abort, promote};
pub use policies::{
    Bounds, GrantMode, PoliciesError, PolicySettings, SUFFIX as POLICY_SUFFIX, Standing, read_ceiling, read_policy,
    standings,
};
pub use settings::{QUICK_COMPILE_BYTES_MIN, Settings, processors};
pub use traces::{TraceFlags, TraceSettings, TraceSettingsError};
pub use windlass_egress::tls::TrustError;
