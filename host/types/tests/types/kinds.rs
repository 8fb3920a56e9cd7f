//! The kinds of `kinds.yaml`, as an API server publishes them.

use std::collections::BTreeSet;

use http::Request;
use http_body_util::{BodyExt as _, Full};
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, Config};
use windlass_types::{Model, Schemas, Wanted, read};

const KINDS: &str = include_str!("kinds.yaml");

/// A document of `kinds.yaml`.
#[derive(Deserialize)]
struct Kind {
    kind: String,
    versions: serde_json::Map<String, Value>,
}

/// A kind whose types are tested.
#[derive(Clone)]
pub(crate) struct TestedKind {
    /// The name of its type.
    pub(crate) type_name: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// The types of some kinds, and the kinds.
pub(crate) type Tested = (Model, Vec<TestedKind>);

fn tested(source: &str, schemas: &Schemas, wanted: &[Wanted]) -> Tested {
    let model = read(source, schemas, wanted).expect("all are served");
    let kinds = wanted.iter().zip(&model.kinds).map(|(wanted, type_name)| TestedKind {
        type_name: type_name.clone(),
        api_version: group_version(wanted),
        kind: wanted.kind.clone(),
    });
    let kinds = kinds.collect();
    (model, kinds)
}

fn group_version(Wanted { group, version, .. }: &Wanted) -> String {
    if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work)
}

/// The types of all kinds in `kinds.yaml`.
pub(crate) fn own() -> Tested {
    let kinds: Vec<Kind> = serde_saphyr::from_multiple(KINDS).expect("it is YAML");
    assert_eq!(kinds.len(), 20);
    let definitions: Vec<Value> = kinds.iter().map(definition).collect();
    let (tested, refused) = of_definitions("kinds.yaml", &definitions);
    assert_eq!(refused, [""; 0]);
    tested
}

/// The types of all versions of definitions that are served, and the errors about definitions that a server refuses.
pub(crate) fn of_definitions(source: &str, definitions: &[Value]) -> (Tested, Vec<String>) {
    block_on(async {
        let server = ApiServer::in_process(&Config::default());
        let (mut wanted, mut refused) = (Vec::new(), Vec::new());
        for definition in definitions {
            match request(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Some(definition)).await {
                Ok(_) => wanted.extend(versions(definition)),
                Err(error) => refused.push(error),
            }
        }
        (tested(source, &schemas(&server, &wanted).await, &wanted), refused)
    })
}

fn versions(definition: &Value) -> impl Iterator<Item = Wanted> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let (group, kind) = (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["kind"]));
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    versions.filter(|version| version["served"] == true).map(move |version| {
        let (is_stored, version) = (version["storage"] == true, text(&version["name"]));
        let name = if is_stored { kind.clone() } else { format!("{kind}-{version}") };
        Wanted { group: group.clone(), version, kind: kind.clone(), name }
    })
}

/// The types of some built-in kinds.
pub(crate) fn built_in() -> Tested {
    const KINDS: [(&str, &str, &str); 9] = [
        ("", "v1", "Pod"),
        ("", "v1", "Event"),
        ("", "v1", "Secret"),
        ("apps", "v1", "Deployment"),
        ("batch", "v1", "CronJob"),
        ("networking.k8s.io", "v1", "NetworkPolicy"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
        ("autoscaling", "v2", "HorizontalPodAutoscaler"),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ];
    let wanted = KINDS.map(|(group, version, kind)| {
        let (group, version, kind) = (group.to_owned(), version.to_owned(), kind.to_owned());
        Wanted { group, version, name: kind.clone(), kind }
    });
    block_on(async {
        let server = ApiServer::in_process(&Config::default());
        tested("Kubernetes", &schemas(&server, &wanted).await, &wanted)
    })
}

async fn schemas(server: &ApiServer, wanted: &[Wanted]) -> Schemas {
    let mut schemas = Schemas::default();
    let versions: BTreeSet<String> = wanted.iter().map(group_version).collect();
    for version in versions {
        let root = if version.contains('/') { "apis" } else { "api" };
        let document = request(server, &format!("/openapi/v3/{root}/{version}"), None).await;
        schemas.add(&document.expect("it is served"));
    }
    schemas
}

async fn request(server: &ApiServer, path: &str, body: Option<&Value>) -> Result<Value, String> {
    let method = if body.is_some() { "POST" } else { "GET" };
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Full::from(body)).expect("a request");
    let response = server.service().oneshot(request).await.expect("a response");
    let is_success = response.status().is_success();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    if is_success { Ok(body) } else { Err(body["message"].to_string()) }
}

fn definition(kind: &Kind) -> Value {
    let plural = format!("{}s", kind.kind.to_lowercase());
    let stored = kind.versions.keys().next();
    let versions = kind.versions.iter().map(|(name, schema)| {
        json!({
            "name": name, "served": true, "storage": Some(name) == stored, "schema": {"openAPIV3Schema": schema},
        })
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind.kind},
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}
