//! The policies in force: reads their files, follows them, and knows what each plugin may do now.
//!
//! A file that cannot be read changes nothing: the policy in force stays, or if there is none, the plugin waits.
//! Controllers ask this module for their rights. The answer starts and stops them, and binds running calls.

mod changes;
pub(crate) mod custom;
mod read;
mod report;
mod settings;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass_core::rights::grants::{Allowance, Denials, Forbidden, ForeignKind};
use windlass_wasm::Plugin;

pub(crate) use self::changes::{Changes, InstancesOf, Pause};
use self::custom::is_custom;
pub use self::read::{SUFFIX, read_ceiling, read_policy};
use self::read::{Taken, plugin_of, take_policy};
use self::report::{log_pauses, log_taken};
pub use self::settings::{GrantMode, PoliciesError, PolicySettings};
pub use self::standing::{Bounds, Standing, standings};
use crate::files::{Change, Content, Files};
use crate::object_names::ObjectNames;
use crate::observe::status::PluginStatus;
use windlass_policy::document::POLICY_BYTES_MAX;
use windlass_policy::{OpenHook, Policy, PromoteAfter, RolloutStrategy};

/// The policies in force.
#[derive(Clone, Debug, Default)]
struct PoliciesInForce {
    of_files: PolicySet,
    of_objects: PolicySet,
    names: ObjectNames,
    ceiling: Option<Arc<Allowance>>,
}

/// The policies of one directory.
#[derive(Clone, Debug, Default)]
struct PolicySet {
    policies: BTreeMap<String, Arc<Policy>>,
    /// Why the file of a policy cannot be used, for each plugin that has no policy in force.
    broken: BTreeMap<String, String>,
}

impl PoliciesInForce {
    /// The policies among which that of `plugin` is.
    fn set_of(&self, plugin: &str) -> &PolicySet {
        if self.names.belongs(plugin) { &self.of_objects } else { &self.of_files }
    }

    /// The policy of `plugin`.
    fn policy(&self, plugin: &str) -> Option<&Arc<Policy>> {
        self.set_of(plugin).policies.get(plugin)
    }

    /// All policies that count, by plugin.
    fn policies(&self) -> impl Iterator<Item = (&String, &Arc<Policy>)> {
        let of_files = self.of_files.policies.iter().filter(|(plugin, _)| !self.names.belongs(plugin));
        of_files.chain(self.of_objects.policies.iter().filter(|(plugin, _)| self.names.belongs(plugin)))
    }
}

/// The policies of all plugins of the host.
pub(crate) struct Policies {
    settings: PolicySettings,
    state: watch::Sender<PoliciesInForce>,
    pauses: watch::Sender<BTreeMap<String, bool>>,
    plugins: Mutex<BTreeMap<String, Brought>>,
    /// For each plugin whose file exists but is not loaded, the reason.
    refused: Mutex<BTreeMap<String, String>>,
    /// True once `plugins` has all plugins that existed when the host started.
    knows_all: AtomicBool,
}

/// Facts about a loaded plugin that the policies need.
#[derive(Clone, Debug, Default)]
struct Brought {
    definitions: Vec<String>,
    denials: Denials,
}

/// The files behind [`Policies`].
pub(crate) struct PolicyFiles {
    policies: Files,
    ceiling: Option<Files>,
}

impl Policies {
    /// Reads all files for the first time. There are no objects.
    pub(crate) async fn read(settings: PolicySettings) -> Result<(Self, PolicyFiles), PoliciesError> {
        Self::read_with(settings, ObjectNames::default()).await
    }

    /// Reads all files for the first time. `names` belong to objects.
    pub(crate) async fn read_with(
        settings: PolicySettings,
        names: ObjectNames,
    ) -> Result<(Self, PolicyFiles), PoliciesError> {
        let (directories, of) = (names.with(&settings.directory), names.clone());
        let counts = move |path: &Path| plugin_of(path).is_some_and(|plugin| of.admit(path, &plugin));
        let mut files = PolicyFiles {
            policies: Files::follow(directories, POLICY_BYTES_MAX, counts),
            ceiling: settings.ceiling.as_deref().map(|path| Files::follow_one(path, POLICY_BYTES_MAX)),
        };
        let policies = Self::without_files(settings);
        policies.state.send_modify(|state| state.names = names);
        let changes = files.policies.changes().await;
        if let Some(problem) = files.policies.problem() {
            let path = policies.settings.directory.clone();
            return Err(PoliciesError::Directory { path, problem: problem.to_owned() });
        }
        read_again(&mut files.policies, &policies.take(&changes));
        if let (Some(files), Some(path)) = (&mut files.ceiling, &policies.settings.ceiling) {
            // The files are read below, whatever this first look returns.
            let _ = files.changes().await;
            let ceiling = read_ceiling(path).map_err(PoliciesError::Ceiling)?;
            policies.state.send_modify(|state| state.ceiling = Some(ceiling));
        }
        Ok((policies, files))
    }

    /// The names that belong to objects.
    pub(crate) fn names(&self) -> ObjectNames {
        self.state.borrow().names.clone()
    }

    /// Makes `names` belong to objects.
    #[cfg(test)]
    pub(crate) fn set_names(&self, names: ObjectNames) {
        self.state.send_modify(|state| state.names = names);
    }

    /// Has read no file yet.
    pub(crate) fn without_files(settings: PolicySettings) -> Self {
        Self {
            settings,
            state: watch::Sender::default(),
            pauses: watch::Sender::default(),
            plugins: Mutex::default(),
            refused: Mutex::default(),
            knows_all: AtomicBool::new(false),
        }
    }

    /// Takes over changes in the files, for ever.
    pub(crate) async fn follow(&self, files: &mut PolicyFiles) {
        let PolicyFiles { policies, ceiling } = files;
        let of_ceiling = async |files: &mut Option<Files>| match files {
            Some(files) => files.changes().await,
            None => std::future::pending().await,
        };
        loop {
            tokio::select! {
                biased;
                changes = policies.changes() => {
                    let unread = self.take(&changes);
                    read_again(policies, &unread);
                }
                _ = of_ceiling(ceiling) => self.take_ceiling(),
            }
        }
    }

    /// Registers a loaded plugin before its first controller starts, or registers its newer generation. If the plugin
    /// must wait for a policy, logs the rights that it asks for. Counts the plugin's denials in `status`.
    pub(crate) fn register(&self, plugin: &Plugin, status: &PluginStatus) {
        let definitions: Vec<_> = plugin.manifest().crd_names().map(str::to_owned).collect();
        let brought = Brought { definitions: definitions.clone(), denials: status.denials.clone() };
        let former = self.plugins().insert(plugin.name().to_string(), brought);
        self.refusals().remove(&**plugin.name());
        self.claimed(former.map(|former| former.definitions).unwrap_or_default() != definitions);
        self.show_now(status);
        self.log_standing(plugin);
    }

    /// Unregisters a plugin that has gone. Its policy stays in force in case the plugin comes back.
    pub(crate) fn unregister(&self, plugin: &str) {
        let former = self.plugins().remove(plugin);
        self.refusals().remove(plugin);
        self.claimed(former.is_some_and(|former| !former.definitions.is_empty()));
    }

    /// Records that the plugin's file exists but is not loaded, so that its policy does not look misnamed.
    pub(crate) fn refused(&self, plugin: &str, why: String) {
        self.refusals().insert(plugin.to_owned(), why);
    }

    fn refusals(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies if the claimed kinds have `changed`, because a kind that one plugin brings is denied to all others.
    fn claimed(&self, changed: bool) {
        if changed {
            self.state.send_modify(|_| ());
        }
    }

    /// Records that all existing plugins were registered. From now on, policies without a plugin are logged.
    pub(crate) fn registered_all(&self) {
        if !self.knows_all.swap(true, Ordering::Relaxed) {
            let state = self.state.borrow().clone();
            let PolicySet { policies, broken } = state.of_files;
            self.log_orphans(policies.into_keys().chain(broken.into_keys()));
        }
    }

    /// The plugin's denials so far.
    pub(crate) fn denials(&self, plugin: &str) -> Denials {
        self.plugins().get(plugin).map(|brought| brought.denials.clone()).unwrap_or_default()
    }

    /// The plugin's current rights.
    pub(crate) fn standing(&self, plugin: &str) -> Standing {
        let state = self.state.borrow();
        let policy = state.policy(plugin);
        if self.settings.mode == GrantMode::Policy && policy.is_none() {
            return Standing::Waiting(state.set_of(plugin).broken.get(plugin).cloned());
        }
        Standing::Granted(Box::new(Bounds {
            impersonate: policy.and_then(|policy| policy.impersonate.clone()),
            policy: policy.map(|policy| policy.allowance.clone()),
            ceiling: state.ceiling.clone(),
            forbidden: Forbidden {
                host_namespace: self.settings.host_namespace.clone(),
                foreign: self.foreign(&state, plugin),
            },
        }))
    }

    /// Notifies of each later change of the policies in force.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }

    /// True if the policy in force pauses the plugin, so that no call begins.
    pub(crate) fn pauses(&self, plugin: &str) -> bool {
        self.state.borrow().policy(plugin).is_some_and(|policy| policy.paused)
    }

    /// Notifies when calls of the plugin are paused or resumed.
    pub(crate) fn pause(&self, plugin: &str) -> Pause {
        Pause { plugin: plugin.to_owned(), paused: self.pauses.subscribe() }
    }

    /// Whether calls of the plugin share instances.
    pub(crate) fn instances(&self, plugin: &str) -> InstancesOf {
        InstancesOf { plugin: plugin.to_owned(), state: self.state.subscribe() }
    }

    /// When the next version of the plugin takes over automatically. `None` if the operator promotes it.
    pub(crate) fn promote_after(&self, plugin: &str) -> Option<PromoteAfter> {
        self.state.borrow().policy(plugin).and_then(|policy| policy.promote_after)
    }

    /// How a new version of the plugin is rolled out. `None` if no policy in force says so.
    pub(crate) fn rollout(&self, plugin: &str) -> Option<RolloutStrategy> {
        self.state.borrow().policy(plugin).map(|policy| policy.rollout)
    }

    /// The hooks that each policy opens, by plugin.
    pub(crate) fn hooks(&self) -> BTreeMap<String, Vec<OpenHook>> {
        let state = self.state.borrow();
        state.policies().map(|(plugin, policy)| (plugin.clone(), policy.hooks.clone())).collect()
    }

    /// The kinds that other plugins bring, if the operator allows them to. A kind that `plugin` brings too is not
    /// foreign.
    fn foreign(&self, state: &PoliciesInForce, plugin: &str) -> Vec<ForeignKind> {
        let plugins = self.plugins();
        let own = plugins.get(plugin).map(|brought| granted(state, plugin, brought).collect::<Vec<_>>());
        let own = own.unwrap_or_default();
        let others = plugins.iter().filter(|(name, _)| *name != plugin);
        let names = others.flat_map(|(name, brought)| granted(state, name, brought).map(move |it| (name, it)));
        names
            .filter(|(_, definition)| !own.contains(definition))
            .filter_map(|(name, definition)| {
                let (resource, group) = definition.split_once('.')?;
                let kind = || ForeignKind { group: group.into(), resource: resource.into(), plugin: name.clone() };
                // A plugin cannot reserve Kubernetes' own kinds by claiming to bring them.
                is_custom(group).then(kind)
            })
            .collect()
    }

    /// Takes over `changes`. Returns the files that could not be read, each with the reason.
    pub(crate) fn take(&self, changes: &[Change]) -> Vec<(PathBuf, String)> {
        if self.settings.mode == GrantMode::Manifest {
            if !changes.is_empty() {
                let files: Vec<_> = changes.iter().map(|change| change.path.display().to_string()).collect();
                tracing::warn!(
                    files = files.join(", "),
                    "policies are ignored with --grants=manifest: remove them, or the flag"
                );
            }
            return Vec::new();
        }
        let (mut state, mut taken) = (self.state.borrow().clone(), Vec::new());
        for change in changes {
            let Some(plugin) = plugin_of(&change.path) else { continue };
            let is_of_object = state.names.has(&change.path);
            let set = if is_of_object { &mut state.of_objects } else { &mut state.of_files };
            taken.extend(take_policy(set, &plugin, change, is_of_object).map(|it| (plugin, &change.path, it)));
        }
        let pauses: BTreeMap<_, _> = state.policies().map(|(plugin, policy)| (plugin.clone(), policy.paused)).collect();
        let names = state.names.clone();
        // The order matters: first the state that binds calls, then the wake-ups, then the log. A caller that asks
        // after the line was logged gets the new state. A working controller takes it over when it wakes.
        self.state.send_replace(state);
        let before = self.pauses.send_replace(pauses.clone());
        for (plugin, file, taken) in &taken {
            log_taken(plugin, file, taken);
        }
        log_pauses(&before, &pauses);
        // The policy of an object is there before its plugin, and is named by the host.
        let there = changes.iter().filter(|change| change.content != Content::Gone && !names.has(&change.path));
        self.log_orphans(there.filter_map(|change| plugin_of(&change.path)));
        let unread = taken.into_iter().filter_map(|(_, file, taken)| match taken {
            Taken::Kept(it) | Taken::Broken(it) if it.is_unread => Some((file.clone(), it.error)),
            _ => None,
        });
        unread.collect()
    }

    fn take_ceiling(&self) {
        let Some(path) = &self.settings.ceiling else { return };
        match read_ceiling(path) {
            Ok(ceiling) => {
                self.state.send_modify(|state| state.ceiling = Some(ceiling));
                tracing::info!(file = %path.display(), "the ceiling has changed and is in force");
            }
            Err(error) => tracing::error!(error, "the ceiling cannot be used: the former one stays in force"),
        }
    }

    fn plugins(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Brought>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the next look at `files` return those that could not be read, each with the reason.
fn read_again(files: &mut Files, unread: &[(PathBuf, String)]) {
    for (path, problem) in unread {
        files.could_not_read(path, problem.clone());
    }
}

/// The definitions of a plugin that the operator allows it to install.
fn granted<'a>(
    state: &'a PoliciesInForce,
    plugin: &str,
    brought: &'a Brought,
) -> impl Iterator<Item = &'a String> + 'a {
    let policy = state.policy(plugin).map(|policy| policy.allowance.clone());
    let bounds: Vec<_> = policy.into_iter().chain(state.ceiling.clone()).collect();
    let holds = |bound: &Arc<Allowance>, name: &String| bound.crds.iter().any(|it| it == "*" || it == name);
    brought.definitions.iter().filter(move |name| bounds.iter().all(|bound| holds(bound, name)))
}
