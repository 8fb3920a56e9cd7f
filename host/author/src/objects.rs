//! Applies the CRD and the samples in an author's folder to the API server that `windlass dev` runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use windlass_core::object::ObjectKind;
use windlass_core::object::path_segment;
use windlass_kube::Discovery;
use windlass_kube::client::Connection;

use super::documents::{self, DocumentsError};

/// The object files in the order in which they are applied: the CRD defines the kind of the sample.
pub(crate) const FILES: [&str; 2] = [documents::CRD, "sample.yaml"];
/// The field manager of the applied fields.
const MANAGER: &str = "windlass-dev";
/// The time that a kind may take to be served after its CRD was created.
const SERVED_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between checks whether the kind is served.
const SERVED_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The path of the CRDs.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The reason why an object was not applied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectsError {
    #[error(transparent)]
    Unread(#[from] DocumentsError),
    #[error("{}: {message}", path.display())]
    Wrong { path: PathBuf, message: String },
}

/// Applies all objects of `file`; does nothing if the file does not exist. Returns a description of each applied
/// object.
pub(crate) async fn apply(connection: &Connection, file: &Path) -> Result<Vec<String>, ObjectsError> {
    let documents = documents::read(file)?;
    let wrong = |message: String| ObjectsError::Wrong { path: file.to_owned(), message };
    let discovery = Discovery::new(connection.client.clone());
    let mut applied = Vec::new();
    for object in &documents {
        applied.push(one(connection, &discovery, object).await.map_err(wrong)?);
    }
    Ok(applied)
}

async fn one(connection: &Connection, discovery: &Discovery, object: &Value) -> Result<String, String> {
    let text = |field: &Value| field.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let field = |name: &str, value: &Value| text(value).ok_or_else(|| format!("an object has no {name}"));
    let (api_version, kind) = (field("apiVersion", &object["apiVersion"])?, field("kind", &object["kind"])?);
    let name = field("metadata.name", &object["metadata"]["name"])?;
    let object_kind = ObjectKind { api_version: api_version.as_str().into(), kind: kind.as_str().into() };
    let resource = served(connection, discovery, &object_kind).await?;
    let namespace = text(&object["metadata"]["namespace"]).unwrap_or_else(|| connection.default_namespace.clone());
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let mut uri = format!("/{root}/{api_version}/");
    if resource.namespaced {
        uri.push_str("namespaces/");
        path_segment::encode(&mut uri, &namespace);
        uri.push('/');
    }
    uri.extend([&resource.plural, "/"]);
    path_segment::encode(&mut uri, &name);
    uri.push_str("?fieldManager=");
    uri.push_str(MANAGER);
    uri.push_str("&force=true&fieldValidation=Strict");
    let request = Request::patch(uri)
        .header("Content-Type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes());
    let request = request.map_err(|error| format!("{kind} {name}: {error}"))?;
    let answer: Result<Value, _> = connection.client.request(request).await;
    answer.map_err(|error| format!("{kind} {name}: {}", message_of(&error)))?;
    Ok(format!("{kind} {name}"))
}

/// The server's message, without the text that the client puts before it.
pub(crate) fn message_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Finds the resource of a kind. If the server has a CRD of the kind, which may be new, waits until the kind is served.
async fn served(
    connection: &Connection,
    discovery: &Discovery,
    kind: &ObjectKind,
) -> Result<std::sync::Arc<windlass_kube::Resource>, String> {
    let end = Instant::now() + SERVED_TIMEOUT;
    loop {
        let error = match discovery.resolve(kind).await {
            Ok(resource) => return Ok(resource),
            Err(error) => error,
        };
        if Instant::now() > end || !is_defined(connection, kind).await {
            return Err(error.to_string());
        }
        discovery.invalidate(kind.group());
        sleep(SERVED_POLL_INTERVAL).await;
    }
}

/// Whether a CRD in the server defines this kind and version. True if that is unknown.
async fn is_defined(connection: &Connection, kind: &ObjectKind) -> bool {
    let Ok(request) = Request::get(DEFINITIONS).body(vec![]) else { return true };
    let definitions: Result<Value, _> = connection.client.request(request).await;
    definitions.map_or(true, |list| list["items"].as_array().is_none_or(|all| all.iter().any(|it| defines(it, kind))))
}

fn defines(definition: &Value, kind: &ObjectKind) -> bool {
    let spec = &definition["spec"];
    let api_version = |version: &Value| Some(format!("{}/{}", spec["group"].as_str()?, version["name"].as_str()?));
    let mut versions = spec["versions"].as_array().into_iter().flatten();
    spec["names"]["kind"] == *kind.kind && versions.any(|it| api_version(it).as_deref() == Some(&*kind.api_version))
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;
    use windlass_apiserver::{ApiServer, Config};
    use windlass_kube::client::{self, ConnectOptions};

    use super::*;

    #[test]
    fn a_refusal_consists_of_the_servers_message_alone() {
        let status = kube::core::Status::failure("spec.message: Invalid value", "Invalid");
        assert_eq!(message_of(&kube::Error::Api(Box::new(status))), "spec.message: Invalid value");
    }

    #[test]
    fn a_definition_defines_its_kind_in_its_versions() {
        let definition = serde_json::json!({
            "spec": {"group": "example.com", "names": {"kind": "Shop"}, "versions": [{"name": "v1"}, {"name": "v2"}]}
        });
        let is_of = |api_version, kind| defines(&definition, &ObjectKind::new(api_version, kind));
        assert!(is_of("example.com/v1", "Shop") && is_of("example.com/v2", "Shop"));
        assert!(!is_of("example.com/v3", "Shop") && !is_of("example.com/v1", "Stop") && !is_of("v1", "Shop"));
        assert!(!defines(&serde_json::json!({}), &ObjectKind::new("v1", "Shop")));
    }

    /// This test uses real time, because the server does.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_sample_waits_for_its_crd_only_if_there_is_one() {
        let at = tempfile::tempdir().expect("a directory");
        let put = |name: &str, text: &str| {
            let path = at.path().join(name);
            std::fs::write(&path, text).expect("it is written");
            path
        };
        let server = ApiServer::start(Config::default()).await.expect("a server");
        let kubeconfig = Some(put("kubeconfig", &server.kubeconfig()));
        let connection = client::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await;
        let connection = connection.expect("a connection");
        let sample = put("sample.yaml", "apiVersion: example.com/v1\nkind: Shop\nmetadata: {name: a}\n");
        let refused = timeout(SERVED_TIMEOUT / 2, apply(&connection, &sample)).await.expect("nothing is waited for");
        let refused = refused.expect_err("nothing defines it").to_string();
        assert!(refused.contains("sample.yaml") && refused.contains("does not serve"), "{refused}");
        let definition = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Shop, plural: shops}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";
        apply(&connection, &put("crd.yaml", definition)).await.expect("a definition");
        assert_eq!(apply(&connection, &sample).await.expect("it is served by now"), ["Shop a"]);
        server.shutdown().await;
    }
}
