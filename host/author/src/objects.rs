//! Puts the objects of an author's files into the API server that `windlass dev` runs: the CRD, and samples.

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use windlass_core::object::ObjectKind;
use windlass_kube::Discovery;
use windlass_kube::client::Connection;

use super::documents::{self, DocumentsError};

/// Those files, in this order: a sample is of the kind that the CRD defines.
pub(crate) const FILES: [&str; 2] = [documents::CRD, "sample.yaml"];
/// The field manager that owns their fields.
const MANAGER: &str = "windlass-dev";
/// How long a kind may take to be served after its definition was created.
const SERVED: Duration = Duration::from_secs(10);
/// How often it is looked for.
const AGAIN: Duration = Duration::from_millis(100);

/// Why an object is not as its file says.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectsError {
    #[error(transparent)]
    Unread(#[from] DocumentsError),
    #[error("{}: {message}", path.display())]
    Wrong { path: PathBuf, message: String },
}

/// Applies all objects of `file`. What there is none of is not there, and nothing is done. Returns what was applied, for people.
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
    let resource = served(discovery, &object_kind).await?;
    let namespace = text(&object["metadata"]["namespace"]).unwrap_or_else(|| connection.default_namespace.clone());
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let within = if resource.namespaced { format!("namespaces/{namespace}/") } else { String::new() };
    let uri = format!(
        "/{root}/{api_version}/{within}{}/{name}?fieldManager={MANAGER}&force=true&fieldValidation=Strict",
        resource.plural
    );
    let request = Request::patch(uri)
        .header("Content-Type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes());
    let request = request.map_err(|error| format!("{kind} {name}: {error}"))?;
    let answer: Result<Value, _> = connection.client.request(request).await;
    answer.map_err(|error| format!("{kind} {name}: {}", told(&error)))?;
    Ok(format!("{kind} {name}"))
}

/// The server's own words, without the form that its answer has here.
fn told(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// The resource of a kind, which may have been defined just now.
async fn served(discovery: &Discovery, kind: &ObjectKind) -> Result<std::sync::Arc<windlass_kube::Resource>, String> {
    let end = Instant::now() + SERVED;
    loop {
        match discovery.resolve(kind).await {
            Ok(resource) => return Ok(resource),
            Err(error) if Instant::now() > end => return Err(error.to_string()),
            Err(_) => {
                discovery.invalidate(kind.group());
                sleep(AGAIN).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_servers_words_alone() {
        let status = kube::core::Status::failure("spec.message: Invalid value", "Invalid");
        assert_eq!(told(&kube::Error::Api(Box::new(status))), "spec.message: Invalid value");
    }
}
