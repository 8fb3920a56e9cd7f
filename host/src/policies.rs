//! The policies that are in force: reads their files, follows them, and says what each plugin may do now.
//!
//! A file that cannot be read changes nothing: what was in force stays so, and where nothing was, the plugin waits. Who asks
//! here are the controllers, which start and stop by the answer, and bind running calls to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use windlass_core::grants::{Allowance, Denials, Forbidden, ForeignKind, Grants, Layer};
use windlass_core::principal::ServiceAccount;
use windlass_wasm::Plugin;

use crate::files::{Change, Content, Files};
use crate::kinds::is_custom;
use crate::policy::asks::in_one_line;
use crate::policy::{Policy, document};
use crate::status::{PluginState, Status};

/// What a policy's file is called, after the plugin's name.
pub(crate) const SUFFIX: &str = ".policy.yaml";

/// Who says what plugins may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum GrantMode {
    /// The operator: what a plugin's manifest asks for and its policy allows.
    Policy,
    /// The plugin's author: whatever its manifest asks for.
    Manifest,
}

/// Where policies come from.
#[derive(Clone, Debug)]
pub(crate) struct PolicySettings {
    pub(crate) mode: GrantMode,
    /// The directory of `NAME.policy.yaml`.
    pub(crate) directory: PathBuf,
    pub(crate) ceiling: Option<PathBuf>,
    /// The namespace in which the host itself lives, which is nobody else's.
    pub(crate) host_namespace: Option<String>,
}

impl PolicySettings {
    /// Whether anything is left on a host that is confined to the namespace `only`.
    pub(crate) fn check(&self, only: Option<&str>) -> Result<(), PoliciesError> {
        match (only, self.host_namespace.as_deref()) {
            (Some(only), Some(host)) if only == host => Err(PoliciesError::OwnNamespace { namespace: only.to_owned() }),
            _ => Ok(()),
        }
    }
}

/// What is in force.
#[derive(Clone, Debug, Default)]
struct State {
    policies: BTreeMap<String, Arc<Policy>>,
    /// Why there is none, of files that could not be used and had no predecessor.
    broken: BTreeMap<String, String>,
    ceiling: Option<Arc<Allowance>>,
}

/// The policies of all plugins of the host.
pub(crate) struct Policies {
    settings: PolicySettings,
    state: watch::Sender<State>,
    pauses: watch::Sender<BTreeMap<String, bool>>,
    plugins: Mutex<BTreeMap<String, Brought>>,
}

/// What is to be known of a loaded plugin.
#[derive(Clone, Debug, Default)]
struct Brought {
    definitions: Vec<String>,
    denials: Denials,
}

/// What a plugin may do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing: no policy is in force. Why, where its file is there.
    Waiting(Option<String>),
    /// What its manifest asks for, within this.
    Granted(Box<Bounds>),
}

/// The operator's part of a plugin's grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) impersonate: Option<ServiceAccount>,
    policy: Option<Arc<Allowance>>,
    ceiling: Option<Arc<Allowance>>,
    forbidden: Forbidden,
}

impl Bounds {
    /// What the plugin may do that asks for `asked` on a host that is confined to the namespace `only`.
    pub(crate) fn grants(&self, asked: Allowance, only: Option<&str>) -> Grants {
        let mut grants = Grants::asked(asked).within(only).without(self.forbidden.clone());
        for (layer, bound) in [(Layer::Policy, &self.policy), (Layer::Ceiling, &self.ceiling)] {
            if let Some(bound) = bound {
                grants = grants.bounded(layer, bound.clone());
            }
        }
        grants
    }
}

/// What cannot be done without a policy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoliciesError {
    /// The ceiling bounds all plugins: without it, each would have more than the operator wants.
    #[error("the ceiling cannot be used, so no plugin is started: {0}")]
    Ceiling(String),
    /// The only namespace that the host may touch is the one that no plugin may.
    #[error(
        "the host lives in the namespace {namespace}, which is always denied to plugins, and --namespace {namespace} \
         leaves nothing else: run it in a namespace of its own"
    )]
    OwnNamespace {
        /// The namespace.
        namespace: String,
    },
    /// The directory of policies cannot be read.
    #[error("cannot read the directory of policies {}: {problem}; name one with --policy-dir", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
}

/// The files behind [`Policies`].
pub(crate) struct PolicyFiles {
    policies: Files,
    ceiling: Option<Files>,
}

impl Policies {
    /// Reads all files for the first time.
    pub(crate) async fn read(settings: PolicySettings) -> Result<(Self, PolicyFiles), PoliciesError> {
        let mut files = PolicyFiles {
            policies: Files::follow(&settings.directory, |path| plugin_of(path).is_some()),
            ceiling: settings.ceiling.as_deref().map(Files::follow_one),
        };
        let policies = Self {
            settings,
            state: watch::Sender::default(),
            pauses: watch::Sender::default(),
            plugins: Mutex::default(),
        };
        let changes = files.policies.changes().await;
        if let Some(problem) = files.policies.problem() {
            let path = policies.settings.directory.clone();
            return Err(PoliciesError::Directory { path, problem: problem.to_owned() });
        }
        policies.take(&changes);
        if let (Some(files), Some(path)) = (&mut files.ceiling, &policies.settings.ceiling) {
            // It is read here whatever the first look says.
            let _ = files.changes().await;
            let ceiling = read_ceiling(path).map_err(PoliciesError::Ceiling)?;
            policies.state.send_modify(|state| state.ceiling = Some(ceiling));
        }
        Ok((policies, files))
    }

    /// Takes over what changes in the files, for ever.
    pub(crate) async fn follow(&self, files: &mut PolicyFiles) {
        let PolicyFiles { policies, ceiling } = files;
        let of_ceiling = async |files: &mut Option<Files>| match files {
            Some(files) => files.changes().await,
            None => std::future::pending().await,
        };
        loop {
            tokio::select! {
                changes = policies.changes() => self.take(&changes),
                _ = of_ceiling(ceiling) => self.take_ceiling(),
            }
        }
    }

    /// Makes the loaded plugins known, before the first controller starts, and shows what those ask for that must wait.
    /// Their denials are counted in `status`.
    pub(crate) fn register(&self, plugins: &[Arc<Plugin>], status: &Status) {
        for plugin in plugins {
            let definitions = plugin.manifest().crd_names().map(str::to_owned).collect();
            let brought = Brought { definitions, denials: status.plugin(plugin.name()).denials.clone() };
            self.plugins().insert(plugin.name().to_string(), brought);
        }
        for plugin in plugins {
            self.tell_standing(plugin);
        }
        self.tell_orphans();
    }

    /// What the plugin was denied so far.
    pub(crate) fn denials(&self, plugin: &str) -> Denials {
        self.plugins().get(plugin).map(|brought| brought.denials.clone()).unwrap_or_default()
    }

    /// What the plugin may do now.
    pub(crate) fn standing(&self, plugin: &str) -> Standing {
        let state = self.state.borrow();
        let policy = state.policies.get(plugin);
        if self.settings.mode == GrantMode::Policy && policy.is_none() {
            return Standing::Waiting(state.broken.get(plugin).cloned());
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

    /// Shows in `status` which plugins wait for a policy or are paused, and each change of that, for ever.
    pub(crate) async fn show(&self, status: &Status) {
        let mut pauses = self.pauses.subscribe();
        loop {
            let now = pauses.borrow_and_update().clone();
            for plugin in status.plugins() {
                let held = [PluginState::NotLoaded, PluginState::Suspended].contains(&plugin.state());
                if held || !self.plugins().contains_key(&*plugin.name) {
                    continue;
                }
                match self.standing(&plugin.name) {
                    Standing::Waiting(why) => plugin.set(PluginState::WaitingForPolicy, why),
                    Standing::Granted(_) if now.get(&*plugin.name) == Some(&true) => {
                        plugin.set(PluginState::Paused, Some("by its policy".to_owned()));
                    }
                    Standing::Granted(_) => plugin.set(PluginState::Running, None),
                }
            }
            if pauses.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Tells of each change of what is in force. Changes that were there before are not told of.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }

    /// Whether calls of the plugin are paused.
    pub(crate) fn pause(&self, plugin: &str) -> Pause {
        Pause { plugin: plugin.to_owned(), paused: self.pauses.subscribe() }
    }

    /// The kinds that other plugins bring, as far as the operator lets them. What `plugin` brings too is also its own.
    fn foreign(&self, state: &State, plugin: &str) -> Vec<ForeignKind> {
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
                // Nobody takes a kind of Kubernetes' own from the others by claiming to bring it.
                is_custom(group).then(kind)
            })
            .collect()
    }

    fn take(&self, changes: &[Change]) {
        if self.settings.mode == GrantMode::Manifest {
            if !changes.is_empty() {
                let files: Vec<_> = changes.iter().map(|change| change.path.display().to_string()).collect();
                tracing::warn!(files = files.join(", "), "policies are not looked at under --grants=manifest");
            }
            return;
        }
        let mut state = self.state.borrow().clone();
        for change in changes {
            let Some(plugin) = plugin_of(&change.path) else { continue };
            take_policy(&mut state, &plugin, change);
        }
        let pauses = state.policies.iter().map(|(plugin, policy)| (plugin.clone(), policy.paused)).collect();
        self.tell_pauses(&pauses);
        // First what binds, then what wakes.
        self.state.send_replace(state);
        self.pauses.send_replace(pauses);
    }

    fn take_ceiling(&self) {
        let Some(path) = &self.settings.ceiling else { return };
        match read_ceiling(path) {
            Ok(ceiling) => {
                tracing::info!(file = %path.display(), "the ceiling has changed and is in force");
                self.state.send_modify(|state| state.ceiling = Some(ceiling));
            }
            Err(error) => tracing::error!(error, "the ceiling cannot be used: the former one stays in force"),
        }
    }

    fn tell_pauses(&self, pauses: &BTreeMap<String, bool>) {
        let before = self.pauses.borrow();
        let of = |pauses: &BTreeMap<String, bool>, plugin: &str| pauses.get(plugin).copied().unwrap_or_default();
        for plugin in before.keys().chain(pauses.keys().filter(|plugin| !before.contains_key(*plugin))) {
            match (of(&before, plugin), of(pauses, plugin)) {
                (false, true) => tracing::warn!(plugin, "paused by its policy: it is not called until that is lifted"),
                (true, false) => tracing::info!(plugin, "no longer paused: it goes on where it was"),
                _ => {}
            }
        }
    }

    /// One line that shows what a plugin asks for, and how the operator grants it.
    fn tell_standing(&self, plugin: &Plugin) {
        let Standing::Waiting(broken) = self.standing(plugin.name()) else { return };
        let file = self.settings.directory.join(format!("{}{SUFFIX}", plugin.name()));
        let (file, path) = (file.display(), plugin.path().display());
        let asks = in_one_line(plugin.manifest());
        match broken {
            None => tracing::warn!(
                plugin = %plugin.name(), asks,
                "the plugin waits: no policy grants it anything. To write one for review: windlass grant {path} \
                 --output {file}"
            ),
            Some(error) => tracing::error!(
                plugin = %plugin.name(), asks, error, "the plugin waits: its policy cannot be used"
            ),
        }
    }

    fn plugins(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Brought>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Policies whose plugin is not there: their files may be misnamed.
    fn tell_orphans(&self) {
        let (state, plugins) = (self.state.borrow(), self.plugins());
        let known = state.policies.keys().chain(state.broken.keys());
        for plugin in known.filter(|plugin| !plugins.contains_key(*plugin)) {
            tracing::warn!(
                file = format!("{plugin}{SUFFIX}"),
                "a policy for a plugin that is not there: {plugin}.wasm"
            );
        }
    }
}

/// The definitions of a plugin that the operator lets it install.
fn granted<'a>(state: &'a State, plugin: &str, brought: &'a Brought) -> impl Iterator<Item = &'a String> + 'a {
    let policy = state.policies.get(plugin).map(|policy| policy.allowance.clone());
    let bounds: Vec<_> = policy.into_iter().chain(state.ceiling.clone()).collect();
    let holds = |bound: &Arc<Allowance>, name: &String| bound.crds.iter().any(|it| it == "*" || it == name);
    brought.definitions.iter().filter(move |name| bounds.iter().all(|bound| holds(bound, name)))
}

fn take_policy(state: &mut State, plugin: &str, change: &Change) {
    let file = change.path.display();
    let read = match &change.content {
        Content::Gone => {
            state.broken.remove(plugin);
            if state.policies.remove(plugin).is_some() {
                tracing::warn!(plugin, %file, "the policy is gone, and with it all that it granted");
            }
            return;
        }
        Content::Unreadable(problem) => Err(format!("{file}: cannot read it: {problem}")),
        Content::Is(_) => read_policy(&change.path, plugin),
    };
    match read {
        Ok(policy) => {
            state.broken.remove(plugin);
            tracing::info!(plugin, %file, rules = policy.allowance.rules.len(), "policy in force");
            state.policies.insert(plugin.to_owned(), Arc::new(policy));
        }
        Err(error) if state.policies.contains_key(plugin) => {
            tracing::error!(plugin, error, "the policy cannot be used: the former one stays in force");
        }
        Err(error) => {
            tracing::error!(plugin, error, "the policy cannot be used: the plugin waits");
            state.broken.insert(plugin.to_owned(), error);
        }
    }
}

/// Reads the policy of `plugin`.
pub(crate) fn read_policy(path: &Path, plugin: &str) -> Result<Policy, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: cannot read it: {error}", path.display()))?;
    document::policy(path, &text, plugin).map_err(|error| error.to_string())
}

/// Reads a ceiling.
pub(crate) fn read_ceiling(path: &Path) -> Result<Arc<Allowance>, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: cannot read it: {error}", path.display()))?;
    document::ceiling(path, &text).map_err(|error| error.to_string())
}

/// Which plugin's policy a file is, by its name.
fn plugin_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Tells of changes of what is in force.
pub(crate) struct Changes(watch::Receiver<State>);

impl Changes {
    /// Completes when something has changed.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether one plugin's calls are paused.
#[derive(Clone, Debug)]
pub(crate) struct Pause {
    plugin: String,
    paused: watch::Receiver<BTreeMap<String, bool>>,
}

impl Pause {
    /// Whether they are now.
    pub(crate) fn is_on(&self) -> bool {
        self.paused.borrow().get(&self.plugin).copied().unwrap_or_default()
    }

    /// Completes when they are, or are not.
    pub(crate) async fn becomes(&self, on: bool) {
        let is = |pauses: &BTreeMap<String, bool>| pauses.get(&self.plugin).copied().unwrap_or_default() == on;
        if self.paused.clone().wait_for(is).await.is_err() && self.is_on() != on {
            std::future::pending::<()>().await;
        }
    }
}
