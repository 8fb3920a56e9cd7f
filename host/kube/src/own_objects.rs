//! The requests that the host itself sends for plugins that are objects: it reads files from `ConfigMaps` and
//! credentials for registries, and writes the status. All with the host's rights, and each object by its name.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Method;
use k8s_openapi::ByteString;
use kube::Client;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use windlass_core::rights::principal::Principal;
use windlass_core::secret::confidential::Confidential;

use crate::client::headers;
use crate::client::request::{
    self, MUTATION_LIFETIME_MAX, Mutation, Query, READ_TIMEOUT, RequestError, SERVER_TIMEOUT_QUERY,
};
use crate::discovery::Resource;

/// The type of Secrets with credentials for registries.
const DOCKER_CONFIG_TYPE: &str = "kubernetes.io/dockerconfigjson";
/// The key of the credentials in such a Secret.
const DOCKER_CONFIG_KEY: &str = ".dockerconfigjson";

/// Why an object that a plugin's object names cannot be used. No variant contains data of the object.
#[derive(Debug, thiserror::Error)]
pub enum OwnObjectError {
    /// The object does not exist.
    #[error("the {kind} {name} does not exist in the host's namespace {namespace}; create it, or name another one")]
    Missing { kind: &'static str, namespace: String, name: String },
    /// The host may not read the object.
    #[error(
        "the host may not read the {kind} {name} in its namespace {namespace}; grant it `get` on this name, as \
         `windlass rbac` prints it"
    )]
    Forbidden { kind: &'static str, namespace: String, name: String },
    /// The server did not answer as it should.
    #[error("the {kind} {name} cannot be read: {source}")]
    Request { kind: &'static str, name: String, source: RequestError },
    /// The object has another type or lacks a key.
    #[error("the {kind} {name} is not usable: {problem}")]
    Unusable { kind: &'static str, name: String, problem: String },
}

impl OwnObjectError {
    /// A word for conditions. It is one of a fixed list.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "ObjectMissing",
            Self::Forbidden { .. } => "ObjectForbidden",
            Self::Request { .. } => "ObjectUnreadable",
            Self::Unusable { .. } => "ObjectUnusable",
        }
    }
}

/// Reads and writes the objects. Clones share the connection.
#[derive(Clone)]
pub struct OwnObjects {
    client: Client,
}

impl OwnObjects {
    /// Sends nothing yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The bytes at `key` in the `binaryData` of a `ConfigMap`.
    pub async fn file(&self, namespace: &str, name: &str, key: &str) -> Result<Vec<u8>, OwnObjectError> {
        const KIND: &str = "ConfigMap";
        let text = self.get(KIND, "configmaps", namespace, name).await?;
        let unusable = |problem: String| OwnObjectError::Unusable { kind: KIND, name: name.to_owned(), problem };
        let file = file_in(&text, key).map_err(|_| unusable("the answer is not a ConfigMap".to_owned()))?;
        file.ok_or_else(|| unusable(format!("it has no key {key:?} in binaryData; name its key in the source")))
    }

    /// The credentials in a Secret.
    pub async fn docker_config(&self, namespace: &str, name: &str) -> Result<Confidential, OwnObjectError> {
        #[derive(Deserialize)]
        struct Secret {
            #[serde(default, rename = "type")]
            kind: String,
            #[serde(default)]
            data: BTreeMap<String, ByteString>,
        }
        const KIND: &str = "Secret";
        let text = self.get(KIND, "secrets", namespace, name).await?;
        let unusable = |problem: &str| {
            let problem = problem.to_owned();
            OwnObjectError::Unusable { kind: KIND, name: name.to_owned(), problem }
        };
        // The error of serde is dropped, because it may quote the value.
        let Ok(mut read) = serde_json::from_str::<Secret>(&text) else {
            return Err(unusable("the answer is not a Secret"));
        };
        // Otherwise the object's writer could have the host read any Secret of its namespace.
        if read.kind != DOCKER_CONFIG_TYPE {
            return Err(unusable("its type must be kubernetes.io/dockerconfigjson"));
        }
        let Some(ByteString(value)) = read.data.remove(DOCKER_CONFIG_KEY) else {
            return Err(unusable("it has no key .dockerconfigjson"));
        };
        String::from_utf8(value).map(Confidential::from).map_err(|_| unusable("its value is not text"))
    }

    async fn get(
        &self,
        kind: &'static str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Result<String, OwnObjectError> {
        let mut path = String::from("/api/v1/namespaces/");
        request::encode(&mut path, namespace);
        path.push('/');
        path.push_str(plural);
        path.push('/');
        request::encode(&mut path, name);
        let read = request::get(&self.client, &path, READ_TIMEOUT).await;
        read.map_err(|source| {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            match source.code() {
                Some(404) => OwnObjectError::Missing { kind, namespace, name },
                Some(403) => OwnObjectError::Forbidden { kind, namespace, name },
                _ => OwnObjectError::Request { kind, name, source },
            }
        })
    }

    /// Patches the status of the cluster-scoped object `name` of `resource`, if it still has this `uid`, in the name of
    /// `role`. `status` is a merge patch: absent fields stay, and null fields are removed.
    pub async fn write_status(
        &self,
        role: &Principal,
        resource: &Resource,
        (name, uid): (&str, &str),
        status: &Value,
    ) -> Result<(), StatusWriteError> {
        let headers = headers::of_principal(role).map_err(|error| StatusWriteError::Unnameable(error.to_string()))?;
        let limit = role.fence.may_start(MUTATION_LIFETIME_MAX).map_err(|_| StatusWriteError::LeaseLost)?;
        let mut path = format!("/apis/{}/{}/", resource.kind.api_version, resource.plural);
        request::encode(&mut path, name);
        path.push_str("/status");
        let mut query = Query::default();
        query.add("fieldManager", &role.field_manager());
        query.add("timeout", SERVER_TIMEOUT_QUERY);
        let body = json!({"metadata": {"uid": uid}, "status": status});
        let mut mutation = Mutation {
            method: Method::PATCH,
            uri: query.onto(&path),
            content_type: "application/merge-patch+json",
            body: Bytes::from(body.to_string()),
            headers: headers.into(),
        };
        mutation.end_within(limit);
        request::mutate(&self.client, mutation, limit).await.map_err(StatusWriteError::Request)?;
        Ok(())
    }
}

/// The bytes at `key` in the `binaryData` of a `ConfigMap`. Other keys are not decoded, because they may be large.
fn file_in(config_map: &str, key: &str) -> serde_json::Result<Option<Vec<u8>>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ConfigMap<'a> {
        #[serde(borrow, default)]
        binary_data: BTreeMap<String, &'a RawValue>,
    }
    let read: ConfigMap<'_> = serde_json::from_str(config_map)?;
    let file = read.binary_data.get(key).map(|value| serde_json::from_str::<ByteString>(value.get()));
    Ok(file.transpose()?.map(|ByteString(file)| file))
}

/// Why a status was not written.
#[derive(Debug, thiserror::Error)]
pub enum StatusWriteError {
    /// The replica's name is not valid in a request.
    #[error("the status cannot be written: {0}")]
    Unnameable(String),
    /// Another replica may report by now.
    #[error("the status is left to another replica: the plugin's lease may be lost")]
    LeaseLost,
    /// The request failed or was refused.
    #[error("the status cannot be written: {0}")]
    Request(RequestError),
}

impl StatusWriteError {
    /// Whether the object is gone, or replaced by another one of its name.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Request(error) if matches!(error.code(), Some(404 | 409)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_key_of_a_config_map_is_decoded() {
        let text =
            json!({"binaryData": {"a.wasm": "YQ==", "b.wasm": "no base64"}, "data": {"c.wasm": "c"}}).to_string();
        let file = |key| file_in(&text, key).ok().flatten();
        assert_eq!([file("a.wasm"), file("b.wasm"), file("c.wasm")], [Some(b"a".to_vec()), None, None]);
        assert!(file_in(&text, "b.wasm").is_err());
        assert!(file_in("{}", "a.wasm").expect("it is an object").is_none());
    }
}
