//! The hooks that policies open, with the secrets that sign their deliveries. Secrets are read from the API server
//! again every few minutes, as those of configurations are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::time::Instant;
use windlass_core::secret::confidential::Confidential;
use windlass_kube::{RequestError, SecretError};
use windlass_policy::{OpenHook, SecretKeyRef};

use super::deliveries::DeliveryMemory;
use super::signature::{HookSecret, HookSecretError};
use super::{HookName, Hooks};
use crate::policies::Policies;
use crate::supervise::jittered;

/// The pause between two reads of a hook's Secrets, before jitter.
const HOOK_SECRET_READ_INTERVAL: Duration = Duration::from_mins(3);
/// The pause before a Secret that could not be read is tried again, before jitter.
const HOOK_SECRET_RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The most hooks whose Secrets are read at once, so that one slow read does not hold up all others.
const HOOKS_READ_AT_ONCE_MAX: usize = 16;

/// Reads a value of a Secret.
pub(crate) type ReadSecret<'a> =
    dyn Fn(SecretKeyRef) -> BoxFuture<'static, Result<Confidential, SecretError>> + Send + Sync + 'a;

/// Why a hook has no usable secret.
#[derive(Debug, thiserror::Error)]
enum HookSecretProblem {
    #[error(transparent)]
    Unread(#[from] SecretError),
    #[error("the key {key:?} of the Secret {namespace}/{name} is no secret of a hook: {source}")]
    Unusable { namespace: String, name: String, key: String, source: HookSecretError },
}

impl HookSecretProblem {
    /// Whether the API server may have the secret as it was.
    fn is_passing(&self) -> bool {
        let Self::Unread(SecretError::Request { source, .. }) = self else { return false };
        !matches!(source, RequestError::Refused { status, .. } if matches!(status.code, 403 | 404))
    }
}

/// A hook that a policy opens.
pub(super) struct KnownHook {
    keys: Vec<HookKey>,
    /// When the secrets are read next.
    due: Instant,
    pub(super) deliveries: DeliveryMemory,
    /// When the last acknowledged delivery came, as the time since the Unix epoch.
    pub(super) last_delivery: Option<Duration>,
}

/// A key of a Secret that signs deliveries.
struct HookKey {
    reference: SecretKeyRef,
    /// `None` until it is read, and if it cannot be used.
    secret: Option<HookSecret>,
    /// Why the secret is not known, or may be outdated.
    problem: Option<String>,
}

impl KnownHook {
    fn new() -> Self {
        Self { keys: Vec::new(), due: Instant::now(), deliveries: DeliveryMemory::default(), last_delivery: None }
    }

    /// The secrets that are known. `None` if there are none, so that the hook is closed.
    pub(super) fn secrets(&self) -> Option<Vec<HookSecret>> {
        Some(self.keys.iter().filter_map(|key| key.secret.clone()).collect()).filter(|all: &Vec<_>| !all.is_empty())
    }

    /// Why the hook may not work with some of its secrets. `None` if it works with all.
    pub(super) fn problem(&self) -> Option<String> {
        let unread = |key: &HookKey| key.secret.is_none().then(|| "its secret is being read".to_owned());
        let mut problems: Vec<_> =
            self.keys.iter().filter_map(|key| key.problem.clone().or_else(|| unread(key))).collect();
        problems.dedup();
        Some(problems.join("; ")).filter(|all| !all.is_empty())
    }

    /// Replaces the keys. Those that stay keep their secrets.
    fn set_keys(&mut self, references: Vec<SecretKeyRef>) {
        if self.keys.iter().map(|key| &key.reference).eq(&references) {
            return;
        }
        let mut before = std::mem::take(&mut self.keys);
        let key = |reference| match before.iter().position(|key| key.reference == reference) {
            Some(at) => before.swap_remove(at),
            None => HookKey { reference, secret: None, problem: None },
        };
        self.keys = references.into_iter().map(key).collect();
        self.due = Instant::now();
    }
}

impl Hooks {
    /// Follows the hooks that `policies` open, and their secrets, for ever.
    pub(crate) async fn follow(&self, policies: &Policies, read: &ReadSecret<'_>) {
        let mut changes = policies.changes();
        loop {
            self.keep(policies.hooks());
            // A change interrupts the reads, which may take long: a hook that is removed must be closed at once.
            tokio::select! {
                biased;
                () = changes.next() => {}
                () = self.read_next(read) => {}
            }
        }
    }

    /// Opens these `hooks` of each plugin, and closes all others. A hook that stays open remembers its deliveries.
    pub(super) fn keep(&self, hooks: BTreeMap<String, Vec<OpenHook>>) {
        let mut known = self.known();
        let mut before = std::mem::take(&mut *known);
        for (plugin, hooks) in hooks {
            let plugin: Arc<str> = plugin.into();
            for OpenHook { name, secrets: references } in hooks {
                let name = (plugin.clone(), name.into());
                let mut hook = before.remove(&name).unwrap_or_else(KnownHook::new);
                hook.set_keys(references);
                known.insert(name, hook);
            }
        }
    }

    /// Waits until secrets are due, and reads them. Cancel-safe: a hook is due until its secrets are read.
    pub(super) async fn read_next(&self, read: &ReadSecret<'_>) {
        let next = self.known().values().map(|hook| hook.due).min();
        match next {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
        self.read_due(read).await;
    }

    /// Reads the secrets that are due.
    pub(super) async fn read_due(&self, read: &ReadSecret<'_>) {
        let now = Instant::now();
        let due: Vec<(HookName, Vec<SecretKeyRef>)> = {
            let known = self.known();
            let due = known.iter().filter(|(_, hook)| hook.due <= now);
            let references = |hook: &KnownHook| hook.keys.iter().map(|key| key.reference.clone()).collect();
            due.map(|(name, hook)| (name.clone(), references(hook))).collect()
        };
        let reads =
            futures::stream::iter(due).for_each_concurrent(HOOKS_READ_AT_ONCE_MAX, |(name, references)| async move {
                let secrets = join_all(references.iter().map(|reference| secret(reference, read))).await;
                self.take_secrets(&name, references.iter().zip(secrets));
            });
        reads.await;
    }

    fn take_secrets<'a>(
        &self,
        name: &HookName,
        read: impl Iterator<Item = (&'a SecretKeyRef, Result<HookSecret, HookSecretProblem>)>,
    ) {
        let mut known = self.known();
        let Some(hook) = known.get_mut(name) else { return };
        let (was_closed, had_problem) = (hook.secrets().is_none(), hook.problem().is_some());
        for (reference, secret) in read {
            if let Some(key) = hook.keys.iter_mut().find(|key| key.reference == *reference) {
                key.take(name, secret);
            }
        }
        let (secrets, problem) = (hook.secrets(), hook.problem());
        let interval = if problem.is_some() { HOOK_SECRET_RETRY_INTERVAL } else { HOOK_SECRET_READ_INTERVAL };
        hook.due = Instant::now() + jittered(interval);
        if let Some(secrets) = secrets.filter(|_| was_closed || (had_problem && problem.is_none())) {
            tracing::info!(plugin = %name.0, hook = %name.1, secrets = secrets.len(), "the hook is open");
        }
    }
}

impl HookKey {
    /// Takes over what was `read`.
    fn take(&mut self, (plugin, hook): &HookName, read: Result<HookSecret, HookSecretProblem>) {
        match read {
            Ok(secret) => (self.secret, self.problem) = (Some(secret), None),
            Err(problem) => {
                let error = problem.to_string();
                if self.problem.as_ref() != Some(&error) {
                    tracing::warn!(%plugin, %hook, error, "a secret of the hook cannot be used: it is read again soon");
                }
                if !problem.is_passing() {
                    self.secret = None;
                }
                self.problem = Some(error);
            }
        }
    }
}

async fn secret(reference: &SecretKeyRef, read: &ReadSecret<'_>) -> Result<HookSecret, HookSecretProblem> {
    let value = read(reference.clone()).await?;
    let SecretKeyRef { namespace, name, key } = reference.clone();
    let unusable = |source| HookSecretProblem::Unusable { namespace, name, key, source };
    HookSecret::parse(&value).map_err(unusable)
}
