//! Reads values of Secrets for the host's own use, with the host's rights, whatever plugins are granted.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use windlass_core::secret::confidential::Confidential;

use crate::client::request::{self, READ_TIMEOUT, RequestError};

/// The reason why a value of a Secret is not available. No variant contains data of the Secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The Secret does not exist, the host may not read it, or the server does not answer.
    #[error("the Secret {namespace}/{name} cannot be read: {source}")]
    Request { namespace: String, name: String, source: RequestError },
    /// The Secret has no such key.
    #[error("the Secret {namespace}/{name} has no key {key:?}")]
    NoKey { namespace: String, name: String, key: String },
    /// The value is not text.
    #[error("the value of {key:?} in the Secret {namespace}/{name} is not UTF-8 text")]
    NotText { namespace: String, name: String, key: String },
    /// The server's answer is not a Secret.
    #[error("the API server's answer about the Secret {namespace}/{name} is not a Secret")]
    Malformed { namespace: String, name: String },
}

/// Reads Secrets, each time from the API server. Nothing is cached.
#[derive(Clone)]
pub struct Secrets {
    client: Client,
}

impl Secrets {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The value of `key` in a Secret.
    pub async fn value(&self, namespace: &str, name: &str, key: &str) -> Result<Confidential, SecretError> {
        #[derive(Deserialize)]
        struct Data {
            #[serde(default)]
            data: BTreeMap<String, ByteString>,
        }
        let [namespace, name] = [namespace, name].map(str::to_owned);
        let mut path = String::from("/api/v1/namespaces/");
        request::encode(&mut path, &namespace);
        path.push_str("/secrets/");
        request::encode(&mut path, &name);
        let text = match request::get(&self.client, &path, READ_TIMEOUT).await {
            Ok(text) => text,
            Err(source) => return Err(SecretError::Request { namespace, name, source }),
        };
        // The error of serde is dropped, because it may quote the value.
        let Ok(Data { mut data }) = serde_json::from_str(&text) else {
            return Err(SecretError::Malformed { namespace, name });
        };
        let key = key.to_owned();
        let Some(ByteString(value)) = data.remove(&key) else {
            return Err(SecretError::NoKey { namespace, name, key });
        };
        match String::from_utf8(value) {
            Ok(value) => Ok(value.into()),
            Err(_) => Err(SecretError::NotText { namespace, name, key }),
        }
    }
}
