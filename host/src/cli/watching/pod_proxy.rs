//! Queries Pods by HTTP through the API server, as `kubectl get --raw …/pods/NAME:PORT/proxy/…` does, for operators who
//! look at the replicas of a host. Changes nothing.

use std::fmt;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use windlass_core::object::path_segment::encode;
use windlass_kube::{Connection, RequestError};

/// The most Pods that are queried. A host has a few replicas.
const PODS_MAX: usize = 100;
/// The most Pods that are queried at the same time.
const CONCURRENT_PODS_MAX: usize = 16;
/// The timeout for the list of Pods, and for the answer of each Pod.
const POD_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest list of Pods, or answer of a Pod, in bytes. A thousand plugins take a few MiB.
const POD_ANSWER_BYTES_MAX: usize = 16 << 20;
/// The header that shows that no web page has made the request.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// The value of that header if a user has typed the address. A web page cannot send this value. The host requires it
/// here, because the API server passes on the host name of the user's own request, and a host answers requests for such
/// names only if no web page can have made them.
const TYPED: HeaderValue = HeaderValue::from_static("none");

/// The reason why a Pod was not queried, or the error that was its answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PodProxyError {
    /// The user lacks a right.
    #[error(
        "your user may not {verb} {resource} in the namespace {namespace}: the API server says: {message}. A Role there needs \
         the verb list on pods, and get on pods/proxy"
    )]
    Forbidden {
        /// The verb that is missing.
        verb: &'static str,
        /// The resource.
        resource: &'static str,
        /// The namespace.
        namespace: String,
        /// The server's words.
        message: String,
    },
    /// The Pod cannot be queried, as its object shows.
    #[error("{0}")]
    NotAsked(String),
    /// The Pod itself answered with an error status.
    #[error("it answers {code}: {}", body.trim())]
    Answered {
        /// The HTTP status.
        code: u16,
        /// The text.
        body: String,
    },
    /// The API server did not return an answer of the Pod.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// The list of Pods is malformed.
    #[error("the API server's list of Pods cannot be read: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// Access to the Pods of one namespace.
#[derive(Clone)]
pub(crate) struct PodProxy {
    connection: Connection,
}

impl fmt::Debug for PodProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PodProxy").field("namespace", &self.namespace()).finish_non_exhaustive()
    }
}

/// A Pod that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundPod {
    /// Its name.
    pub(crate) name: String,
    /// True if the Pod is being deleted. It may still answer.
    pub(crate) is_ending: bool,
    /// `NAME:PORT` or `https:NAME:PORT`, as in a request's path. The error says why the Pod cannot be queried.
    target: Result<String, String>,
}

/// The found Pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundPods {
    /// The Pods that have not ended, ordered by name.
    pub(crate) pods: Vec<FoundPod>,
    /// True if there are more Pods than are queried.
    pub(crate) has_more: bool,
}

#[derive(Deserialize)]
struct PodList {
    metadata: ListMeta,
    items: Vec<PodObject>,
}

#[derive(Deserialize)]
struct ListMeta {
    #[serde(rename = "continue", default)]
    token: Option<String>,
}

#[derive(Deserialize)]
struct PodObject {
    metadata: PodMeta,
    spec: PodSpec,
    #[serde(default)]
    status: PodPhase,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMeta {
    name: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct PodSpec {
    containers: Vec<PodContainer>,
}

#[derive(Default, Deserialize)]
struct PodPhase {
    #[serde(default)]
    phase: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodContainer {
    #[serde(default)]
    ports: Vec<ContainerPort>,
    #[serde(default)]
    liveness_probe: Option<PodProbe>,
    #[serde(default)]
    readiness_probe: Option<PodProbe>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerPort {
    #[serde(default)]
    name: Option<String>,
    container_port: u16,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodProbe {
    #[serde(default)]
    http_get: Option<ProbeRequest>,
}

#[derive(Deserialize)]
struct ProbeRequest {
    #[serde(default)]
    port: serde_json::Value,
    #[serde(default)]
    scheme: Option<String>,
}

#[cfg(test)]
impl FoundPod {
    /// The Pod `name`, to be queried at `port` without TLS.
    #[must_use]
    pub(crate) fn at(name: &str, port: u16) -> Self {
        Self { name: name.to_owned(), is_ending: false, target: Ok(format!("{name}:{port}")) }
    }
}

impl PodObject {
    fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// The Pod, to be queried at its port named `port`.
    fn found(self, port: &str) -> FoundPod {
        let (name, is_ending) = (self.metadata.name, self.metadata.deletion_timestamp.is_some());
        let target = if self.status.phase == "Pending" {
            Err("its Pod is Pending: kubectl describe pod says why".to_owned())
        } else {
            let target = self.spec.containers.iter().find_map(|container| container.target(&name, port));
            target.ok_or_else(|| format!("its Pod has no container port named {port}"))
        };
        FoundPod { name, is_ending, target }
    }
}

impl PodContainer {
    /// The API server resolves names of ports for Services but not for Pods, so this uses the number.
    fn target(&self, pod: &str, port: &str) -> Option<String> {
        let number = self.ports.iter().find(|it| it.name.as_deref() == Some(port))?.container_port;
        let probes = [&self.readiness_probe, &self.liveness_probe].into_iter().flatten();
        let is_tls = probes
            .filter_map(|probe| probe.http_get.as_ref())
            .any(|probe| (probe.port == port || probe.port == number) && probe.scheme.as_deref() == Some("HTTPS"));
        Some(if is_tls { format!("https:{pod}:{number}") } else { format!("{pod}:{number}") })
    }
}

impl PodProxy {
    /// Access to the Pods of `connection`'s namespace. Sends nothing yet.
    #[must_use]
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// The namespace.
    #[must_use]
    pub(crate) fn namespace(&self) -> &str {
        &self.connection.default_namespace
    }

    /// The source of the connection's settings, for messages.
    #[must_use]
    pub(crate) fn source(&self) -> &str {
        &self.connection.source
    }

    /// Finds the Pods with labels that match `selector`, to be queried at their port named `port`.
    pub(crate) async fn find(&self, selector: &str, port: &str) -> Result<FoundPods, PodProxyError> {
        let query = [("labelSelector", selector), ("limit", &PODS_MAX.to_string())];
        let text = self.get(&self.path(), &query).await.map_err(|error| self.refused(error, "list", "pods"))?;
        let PodList { metadata, items } = serde_json::from_str(&text)?;
        let mut pods: Vec<_> = items.into_iter().filter(|pod| !pod.has_ended()).map(|pod| pod.found(port)).collect();
        pods.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(FoundPods { pods, has_more: metadata.token.is_some_and(|token| !token.is_empty()) })
    }

    /// Queries `pod` for `path`, which may have a query.
    pub(crate) async fn ask(&self, pod: &FoundPod, path: &str) -> Result<String, PodProxyError> {
        let target = pod.target.as_ref().map_err(|why| PodProxyError::NotAsked(why.clone()))?;
        let uri = format!("{}/{target}/proxy{path}", self.path());
        self.get(&uri, &[]).await.map_err(|error| self.refused(error, "get", "pods/proxy"))
    }

    /// Queries all `pods` for `path`, and returns their answers in the same order. A Pod that does not answer delays
    /// the others by at most ten seconds.
    pub(crate) async fn ask_all(&self, pods: &[FoundPod], path: &str) -> Vec<Result<String, PodProxyError>> {
        stream::iter(pods.iter().map(|pod| self.ask(pod, path))).buffered(CONCURRENT_PODS_MAX).collect().await
    }

    fn path(&self) -> String {
        let mut path = String::from("/api/v1/namespaces/");
        encode(&mut path, self.namespace());
        path.push_str("/pods");
        path
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<String, RequestError> {
        let headers = HeaderMap::from_iter([(SITE, TYPED)]);
        self.connection.get(path, query, headers, POD_ANSWER_BYTES_MAX, POD_ANSWER_TIMEOUT).await
    }

    /// Distinguishes refusals by the API server from refusals by the Pod: only the server's are objects of kind Status.
    fn refused(&self, error: RequestError, verb: &'static str, resource: &'static str) -> PodProxyError {
        let RequestError::Refused { status, .. } = &error else { return error.into() };
        let message = status.message.clone();
        match (status.code, status.status.is_some()) {
            (code, false) => PodProxyError::Answered { code, body: message },
            (403, true) => PodProxyError::Forbidden { verb, resource, namespace: self.namespace().to_owned(), message },
            _ => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use http_body_util::Full;
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::service_fn;

    use super::*;

    /// A Pod with one container that has these additional fields.
    fn pod(name: &str, phase: &str, container: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "sidecar"}, container]}, "status": {"phase": phase}})
    }

    fn admin(more: &Value) -> Value {
        let mut container = json!({"name": "windlass", "ports": [{"name": "admin", "containerPort": 8080}]});
        container.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        container
    }

    fn target(object: Value) -> Result<String, String> {
        serde_json::from_value::<PodObject>(object).expect("a Pod").found("admin").target
    }

    #[test]
    fn a_pod_is_asked_at_its_admin_port_with_the_scheme_of_its_probes() {
        let plain = json!({"readinessProbe": {"httpGet": {"path": "/readyz", "port": "admin"}}});
        assert_eq!(target(pod("a", "Running", &admin(&plain))), Ok("a:8080".to_owned()));
        let tls = json!({"livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTPS"}}});
        assert_eq!(target(pod("a", "Running", &admin(&tls))), Ok("https:a:8080".to_owned()));
        let other = json!({"livenessProbe": {"httpGet": {"path": "/", "port": 443, "scheme": "HTTPS"}}});
        assert_eq!(target(pod("a", "Running", &admin(&other))), Ok("a:8080".to_owned()));
        let none = target(pod("a", "Running", &json!({"name": "c"}))).expect_err("no such port");
        assert!(none.contains("no container port named admin"), "{none}");
        assert!(target(pod("a", "Pending", &admin(&json!({})))).is_err_and(|why| why.contains("Pending")));
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_known_as_such() {
        let mut object = pod("a", "Running", &admin(&json!({})));
        let found = |object: &Value| PodObject::deserialize(object).expect("a Pod").found("admin");
        assert!(!found(&object).is_ending);
        object["metadata"]["deletionTimestamp"] = "2026-11-26T18:00:00Z".into();
        assert!(found(&object).is_ending && found(&object).target.is_ok());
    }

    type AskedUris = Arc<Mutex<Vec<String>>>;

    /// A proxy to a server that answers like this, and the URIs that it was asked for.
    fn proxy(answer: impl Fn(&str) -> (u16, String) + Clone + Send + Sync + 'static) -> (PodProxy, AskedUris) {
        let asked = AskedUris::default();
        let noted = asked.clone();
        let service = service_fn(move |request: Request<Body>| {
            let uri = request.uri().to_string();
            assert_eq!(request.headers()[SITE], TYPED);
            let (code, body) = answer(&uri);
            noted.lock().expect("nobody panicked").push(uri);
            let response = Response::builder().status(code).body(Full::from(body)).expect("a response");
            async { Ok::<_, std::convert::Infallible>(response) }
        });
        let server = "http://server/".parse().expect("a URL");
        (PodProxy::new(Connection::in_process(service, &server)), asked)
    }

    fn found(name: &str) -> FoundPod {
        FoundPod::at(name, 8080)
    }

    #[tokio::test]
    async fn pods_are_found_by_their_labels_and_those_that_have_ended_are_left_out() {
        let items = [("b", "Running"), ("a", "Running"), ("c", "Failed"), ("d", "Succeeded")];
        let items = items.map(|(name, phase)| pod(name, phase, &admin(&json!({}))));
        let list = json!({"metadata": {"continue": "more"}, "items": items}).to_string();
        let (proxy, asked) = proxy(move |_| (200, list.clone()));
        let FoundPods { pods, has_more } = proxy.find("app=windlass", "admin").await.expect("a list");
        assert_eq!((pods, has_more), (vec![found("a"), found("b")], true));
        let expected = "/api/v1/namespaces/default/pods?labelSelector=app%3Dwindlass&limit=100";
        assert_eq!(*asked.lock().expect("nobody panicked"), [expected]);
    }

    #[tokio::test]
    async fn the_answers_of_pods_come_in_order_and_none_hides_another() {
        let (proxy, asked) =
            proxy(|uri| if uri.contains("/b:") { (503, "busy".to_owned()) } else { (200, uri.to_owned()) });
        let answers = proxy.ask_all(&["a", "b", "c"].map(found), "/plugins?x=y").await;
        let of = |name: &str| format!("/api/v1/namespaces/default/pods/{name}:8080/proxy/plugins?x=y");
        assert_eq!(answers[0].as_ref().expect("an answer"), &of("a"));
        assert!(
            matches!(&answers[1], Err(PodProxyError::Answered { code: 503, body }) if body == "busy"),
            "{answers:?}"
        );
        assert_eq!(answers[2].as_ref().expect("an answer"), &of("c"));
        assert_eq!(asked.lock().expect("nobody panicked").len(), 3);
    }

    #[tokio::test]
    async fn a_missing_right_is_named_and_distinguished_from_the_pods_refusal() {
        let status = json!({"kind": "Status", "status": "Failure", "code": 403, "message": "pods \"a\" is forbidden"});
        let (server_refuses, _) = proxy(move |_| (403, status.to_string()));
        let listed = server_refuses.find("app=windlass", "admin").await.expect_err("forbidden").to_string();
        assert!(listed.contains("may not list pods in the namespace default"), "{listed}");
        let asked = server_refuses.ask(&found("a"), "/plugins").await.expect_err("forbidden").to_string();
        assert!(asked.contains("may not get pods/proxy in the namespace default"), "{asked}");
        let (pod_refuses, _) = proxy(|_| (403, "ask by an IP address\n".to_owned()));
        let refused = pod_refuses.ask(&found("a"), "/plugins").await.expect_err("refused").to_string();
        assert_eq!(refused, "it answers 403: ask by an IP address");
    }
}
