//! Values of Secrets, for the host's own use: it reads them with its own rights, whatever plugins are granted.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use windlass_core::secret::confidential::Confidential;

use crate::client::request::{self, READ_TIMEOUT, RequestError};

/// Why a value of a Secret cannot be had. No case holds anything of the Secret's.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// It does not exist, or the host may not read it, or the server does not answer.
    #[error("the Secret {namespace}/{name} cannot be read: {source}")]
    Request {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        source: RequestError,
    },
    /// It has no such key.
    #[error("the Secret {namespace}/{name} has no key {key:?}")]
    NoKey {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key that was looked for.
        key: String,
    },
    /// The value is no text.
    #[error("the value of {key:?} in the Secret {namespace}/{name} is not UTF-8 text")]
    NotText {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Which.
        key: String,
    },
    /// The server's answer is no Secret.
    #[error("what the API server answers about the Secret {namespace}/{name} is no Secret")]
    Malformed {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Reads Secrets, each time from the API server. Nothing is cached.
#[derive(Clone)]
pub struct Secrets {
    client: Client,
}

impl Secrets {
    /// Reads through `client`.
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
        // What serde says of it may quote it.
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
