//! The hooks that policies open, with the secrets that sign their deliveries. Secrets are read from the API server
//! again every few minutes, as those of configurations are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
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
    refs: Vec<SecretKeyRef>,
    /// Empty until they are read, and if they cannot be used.
    secrets: Arc<[HookSecret]>,
    /// Why the secrets are not known, or may be outdated.
    problem: Option<String>,
    /// When the secrets are read next.
    due: Instant,
    pub(super) deliveries: DeliveryMemory,
}

impl KnownHook {
    fn new(refs: Vec<SecretKeyRef>) -> Self {
        Self { refs, secrets: [].into(), problem: None, due: Instant::now(), deliveries: DeliveryMemory::default() }
    }

    /// The secrets. `None` if there are none, so that the hook is closed.
    pub(super) fn secrets(&self) -> Option<Arc<[HookSecret]>> {
        Some(self.secrets.clone()).filter(|secrets| !secrets.is_empty())
    }

    /// Why the hook may not work. `None` if it does.
    pub(super) fn problem(&self) -> Option<String> {
        let unread = || self.secrets.is_empty().then(|| "its secret is being read".to_owned());
        self.problem.clone().or_else(unread)
    }
}

impl Hooks {
    /// Follows the hooks that `policies` open, and their secrets, for ever.
    pub(crate) async fn follow(&self, policies: &Policies, read: &ReadSecret<'_>) {
        let mut changes = policies.changes();
        loop {
            self.keep(policies.hooks());
            self.read_due(read).await;
            let next = self.known().values().map(|hook| hook.due).min();
            let due = async {
                match next {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = changes.next() => {}
                () = due => {}
            }
        }
    }

    /// Opens these `hooks` of each plugin, and closes all others. A hook whose secrets are the same keeps them.
    pub(super) fn keep(&self, hooks: BTreeMap<String, Vec<OpenHook>>) {
        let mut known = self.known();
        let mut before = std::mem::take(&mut *known);
        for (plugin, hooks) in hooks {
            let plugin: Arc<str> = plugin.into();
            for OpenHook { name, secrets: refs } in hooks {
                let name = (plugin.clone(), name.into());
                let kept = before.remove(&name).filter(|hook| hook.refs == refs);
                known.insert(name, kept.unwrap_or_else(|| KnownHook::new(refs)));
            }
        }
    }

    /// Reads the secrets that are due.
    pub(super) async fn read_due(&self, read: &ReadSecret<'_>) {
        let now = Instant::now();
        let due: BTreeMap<_, _> = {
            let known = self.known();
            let due = known.iter().filter(|(_, hook)| hook.due <= now);
            due.map(|(name, hook)| (name.clone(), hook.refs.clone())).collect()
        };
        for (name, refs) in due {
            let secrets = secrets(&refs, read).await;
            self.take_secrets(&name, secrets);
        }
    }

    fn take_secrets(&self, name: &HookName, read: Result<Vec<HookSecret>, HookSecretProblem>) {
        let mut known = self.known();
        let Some(hook) = known.get_mut(name) else { return };
        let (plugin, name) = (&name.0, &name.1);
        match read {
            Ok(secrets) => {
                if hook.secrets.is_empty() || hook.problem.is_some() {
                    tracing::info!(%plugin, hook = %name, secrets = secrets.len(), "the hook is open");
                }
                hook.due = Instant::now() + jittered(HOOK_SECRET_READ_INTERVAL);
                (hook.secrets, hook.problem) = (secrets.into(), None);
            }
            Err(problem) => {
                let error = problem.to_string();
                if hook.problem.as_ref() != Some(&error) {
                    tracing::warn!(%plugin, hook = %name, error, "a secret of the hook cannot be used: it is read again soon");
                }
                if !problem.is_passing() {
                    hook.secrets = [].into();
                }
                hook.due = Instant::now() + jittered(HOOK_SECRET_RETRY_INTERVAL);
                hook.problem = Some(error);
            }
        }
    }
}

async fn secrets(refs: &[SecretKeyRef], read: &ReadSecret<'_>) -> Result<Vec<HookSecret>, HookSecretProblem> {
    let mut secrets = Vec::new();
    for reference in refs {
        let value = read(reference.clone()).await?;
        let SecretKeyRef { namespace, name, key } = reference.clone();
        let unusable = |source| HookSecretProblem::Unusable { namespace, name, key, source };
        secrets.push(HookSecret::parse(&value).map_err(unusable)?);
    }
    Ok(secrets)
}
