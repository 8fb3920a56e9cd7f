//! Follows the configuration of one plugin: its file, and the Secrets that it names.
//!
//! Secrets are read again every few minutes. To watch them would keep whole Secrets in a cache, and needs a right that
//! a host should not have to have. What cannot be taken leaves the former configuration in force.

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

/// How soon a change of a Secret is seen, at least.
const SECRET_READ_INTERVAL: Duration = Duration::from_mins(3);
/// How soon a Secret is tried again that could not be read, at least.
const SECRET_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Where values of Secrets come from: the API server, or a test.
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
    /// Is told when the file may have changed.
    pub(crate) changes: watch::Receiver<()>,
    pub(crate) schema: Schema,
    pub(crate) source: Arc<dyn SecretSource>,
    pub(crate) configured: watch::Sender<Option<Confidential>>,
}

impl ConfigFollower {
    /// Follows it for ever.
    pub(crate) async fn run(&self) {
        let mut told = String::new();
        let mut changes = self.changes.clone();
        loop {
            changes.mark_unchanged();
            let mut secrets = 0;
            let mut again = SECRET_READ_INTERVAL;
            match self.read(&mut secrets).await {
                Ok(document) => {
                    self.take(document, secrets, !told.is_empty());
                    told.clear();
                }
                Err(error) => {
                    self.tell(&error, &mut told);
                    if matches!(error, ConfigError::Secret { .. }) {
                        again = SECRET_RETRY_INTERVAL;
                    }
                }
            }
            // What does not fit may be the Secret's fault, too.
            match (secrets > 0).then(|| jittered(again)) {
                // Either way, all is read again.
                Some(wait) => drop(tokio::time::timeout(wait, changed(&mut changes)).await),
                None => changed(&mut changes).await,
            }
        }
    }

    /// The document that the plugin is to get. Says how many `secrets` the file names, as soon as that is known.
    async fn read(&self, secrets: &mut usize) -> Result<Confidential, ConfigError> {
        let path = self.path.clone();
        let Some(file) = read(&path, &self.plugin).await? else {
            let problems = self.schema.check(Value::Object(Map::new()), false).await;
            return if problems.is_empty() { Ok("{}".into()) } else { Err(ConfigError::Missing { path, problems }) };
        };
        *secrets = file.secrets.len();
        let (mut document, mut values) = (Value::Object(file.config), Vec::new());
        for secret in &file.secrets {
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

    /// It may have been `refused` before.
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
            (true, false) => tracing::info!(%plugin, %file, secrets, "configured anew: every object runs again"),
            (false, _) if refused => {
                tracing::info!(%plugin, %file, secrets, "the configuration is right again, and is what is in force");
            }
            (false, _) => {}
        }
    }

    /// Once for each reason.
    fn tell(&self, error: &ConfigError, told: &mut String) {
        let message = error.to_string();
        if *told == message {
            return;
        }
        let plugin = &self.plugin;
        if self.configured.borrow().is_none() {
            tracing::warn!(%plugin, error = message, "waiting: the plugin starts when its configuration is right");
        } else {
            tracing::warn!(%plugin, error = message, "the configuration was not taken: the former one stays in force");
        }
        *told = message;
    }
}

/// Waits until the file may have changed.
async fn changed(changes: &mut watch::Receiver<()>) {
    if changes.changed().await.is_err() {
        // Nobody will tell, as when the host stops.
        std::future::pending::<()>().await;
    }
}
