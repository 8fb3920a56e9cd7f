//! Follows the configuration of one plugin: its file, and the Secrets that it names.
//!
//! Secrets are read again every few minutes. Watching them would keep whole Secrets in a cache, and would need a right
//! that a host should not need. If a new configuration cannot be taken, the previous one stays in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::watch;
use windlass_core::secret::confidential::Confidential;
use windlass_kube::{SecretError, Secrets};

use super::{ConfigError, Schema, SecretKeyRef, put, read};
use crate::supervise::jittered;

/// The pause between two reads of the Secrets, before jitter.
const SECRET_READ_INTERVAL: Duration = Duration::from_mins(3);
/// The longest pause between two reads of the Secrets that a configuration names.
pub const SECRET_READ_INTERVAL_MAX: Duration = SECRET_READ_INTERVAL.saturating_mul(2);
/// The pause before a Secret that could not be read is tried again, before jitter.
const SECRET_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The source of values of Secrets: the API server, or a test double.
pub(crate) trait SecretSource: Send + Sync {
    /// The value that `reference` names.
    fn value<'a>(&'a self, reference: &'a SecretKeyRef) -> BoxFuture<'a, Result<Confidential, SecretError>>;
}

impl SecretSource for Secrets {
    fn value<'a>(&'a self, reference: &'a SecretKeyRef) -> BoxFuture<'a, Result<Confidential, SecretError>> {
        let SecretKeyRef { namespace, name, key } = reference;
        Secrets::value(self, namespace, name, key).boxed()
    }
}

/// The configuration of one plugin, kept up to date.
pub(crate) struct ConfigFollower {
    pub(crate) plugin: Arc<str>,
    pub(crate) path: PathBuf,
    /// Notified when the file may have changed.
    pub(crate) changes: watch::Receiver<()>,
    pub(crate) schema: Schema,
    pub(crate) source: Arc<dyn SecretSource>,
    pub(crate) configured: watch::Sender<Option<Confidential>>,
    /// Why the newest configuration is not in force, if so.
    pub(crate) refused: watch::Sender<Option<String>>,
}

impl ConfigFollower {
    /// Follows the configuration for ever.
    pub(crate) async fn run(&self) {
        let mut logged = String::new();
        let mut changes = self.changes.clone();
        loop {
            changes.mark_unchanged();
            let mut secrets = 0;
            let mut again = SECRET_READ_INTERVAL;
            match self.read(&mut secrets).await {
                Ok(document) => {
                    self.take(document, secrets, !logged.is_empty());
                    logged.clear();
                    self.refused.send_replace(None);
                }
                Err(error) => {
                    self.log_error(&error, &mut logged);
                    if matches!(error, ConfigError::Secret { .. }) {
                        again = SECRET_RETRY_INTERVAL;
                    }
                }
            }
            // A Secret may also be the reason why the document does not fit.
            match (secrets > 0).then(|| jittered(again)) {
                // In both cases, everything is read again.
                Some(wait) => drop(tokio::time::timeout(wait, changed(&mut changes)).await),
                None => changed(&mut changes).await,
            }
        }
    }

    /// Builds the document for the plugin. Sets `secrets` to the number of Secrets' values in the file as soon as that
    /// is known.
    async fn read(&self, secrets: &mut usize) -> Result<Confidential, ConfigError> {
        let path = self.path.clone();
        let Some(file) = read(&path, &self.plugin).await? else {
            let problems = self.schema.check(Value::Object(Map::new()), false).await;
            return if problems.is_empty() { Ok("{}".into()) } else { Err(ConfigError::Missing { path, problems }) };
        };
        *secrets = file.secrets.len();
        let (mut document, mut values) = (Value::Object(file.config), Vec::new());
        for secret in &file.secrets {
            if let Some(message) = self.schema.shown_at(&secret.path) {
                return Err(ConfigError::Wrong { path, message });
            }
            let value = self.source.value(&secret.secret_key_ref).await.map_err(|source| ConfigError::Secret {
                path: path.clone(),
                at: secret.path.clone(),
                source,
            })?;
            put(&mut document, &secret.path, &value)
                .map_err(|message| ConfigError::Wrong { path: path.clone(), message })?;
            values.push(value);
        }
        let text = Confidential::holding(document.to_string(), values);
        let problems = self.schema.check(document, !file.secrets.is_empty()).await;
        if !problems.is_empty() {
            return Err(ConfigError::Misfit { path, problems });
        }
        Ok(text)
    }

    /// Takes over `document`. `refused` is true if the previous document was not taken.
    fn take(&self, document: Confidential, secrets: usize, refused: bool) {
        let is_first = self.configured.borrow().is_none();
        let is_news = self.configured.send_if_modified(|configured| {
            let is_news = configured.as_ref() != Some(&document);
            *configured = Some(document);
            is_news
        });
        let (plugin, file) = (&self.plugin, self.path.display());
        match (is_news, is_first) {
            (true, true) => tracing::debug!(%plugin, %file, secrets, "configured"),
            (true, false) => {
                tracing::info!(%plugin, %file, secrets, "the configuration changed: every object runs again");
            }
            (false, _) if refused => {
                tracing::info!(%plugin, %file, secrets, "the configuration file is valid again, and equals the configuration in use");
            }
            (false, _) => {}
        }
    }

    /// Logs `error`, once for each reason.
    fn log_error(&self, error: &ConfigError, logged: &mut String) {
        let message = error.to_string();
        if *logged == message {
            return;
        }
        let plugin = &self.plugin;
        if self.configured.borrow().is_none() {
            tracing::warn!(%plugin, error = message, "waiting: the plugin starts when its configuration is valid");
        } else {
            tracing::warn!(%plugin, error = message, "the configuration cannot be used: the former one stays in force");
        }
        logged.clone_from(&message);
        self.refused.send_replace(Some(message));
    }
}

/// Waits until the file may have changed.
async fn changed(changes: &mut watch::Receiver<()>) {
    if changes.changed().await.is_err() {
        // The sender has gone, as when the host stops.
        std::future::pending::<()>().await;
    }
}
