//! The kinds of `kinds.yaml`, as an API server publishes them.

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

impl TestedKind {
    fn of(wanted: &Wanted, declared: &str) -> Self {
        let Wanted { group, version, kind, .. } = wanted;
        let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
        Self { type_name: declared.to_owned(), api_version, kind: kind.clone() }
    }
}

/// The types of the wanted kinds, and the kinds.
pub(crate) type Tested = (Model, Vec<TestedKind>);

fn tested(source: &str, schemas: &Schemas, wanted: &[Wanted]) -> Tested {
    let model = read(source, schemas, wanted).expect("all are served");
    let named = wanted.iter().map(|wanted| {
        // A name with another meaning in some language has a number.
        let name = wanted.name.replace("-v", "V");
        let is_declared = model.declaration(&name).is_some();
        TestedKind::of(wanted, &if is_declared { name } else { format!("{name}2") })
    });
    let kinds = named.collect();
    (model, kinds)
}

/// The types of all kinds in `kinds.yaml`.
pub(crate) fn own() -> Tested {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = ApiServer::in_process(&Config::default());
        let (mut schemas, mut wanted) = (Schemas::default(), Vec::new());
        let kinds: Vec<Kind> = serde_saphyr::from_multiple(KINDS).expect("it is YAML");
        assert_eq!(kinds.len(), 20);
        for kind in &kinds {
            request(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Some(definition(kind))).await;
            let stored = kind.versions.keys().next().expect("a version");
            for version in kind.versions.keys() {
                let name = if version == stored { kind.kind.clone() } else { format!("{}-{version}", kind.kind) };
                let (group, version) = ("example.com".to_owned(), version.clone());
                wanted.push(Wanted { group, version, kind: kind.kind.clone(), name });
            }
        }
        for version in ["v1", "v1alpha1", "v1beta1", "v1beta2", "v2"] {
            schemas.add(&request(&server, &format!("/openapi/v3/apis/example.com/{version}"), None).await);
        }
        tested("kinds.yaml", &schemas, &wanted)
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = ApiServer::in_process(&Config::default());
        let mut schemas = Schemas::default();
        let mut wanted = Vec::new();
        for (group, version, kind) in KINDS {
            let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            schemas.add(&request(&server, &format!("/openapi/v3/{path}"), None).await);
            let (group, version, kind) = (group.to_owned(), version.to_owned(), kind.to_owned());
            wanted.push(Wanted { group, version, name: kind.clone(), kind });
        }
        tested("Kubernetes", &schemas, &wanted)
    })
}

async fn request(server: &ApiServer, path: &str, body: Option<Value>) -> Value {
    let method = if body.is_some() { "POST" } else { "GET" };
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Full::from(body)).expect("a request");
    let response = server.service().oneshot(request).await.expect("a response");
    let is_success = response.status().is_success();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert!(is_success, "{path}: {}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).expect("JSON")
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
