//! A server with authorization, and clients that have their own tokens.

use http::StatusCode;
use serde_json::{Value, json};
use windlass_apiserver::{Authorization, Config, StandIns, StaticToken};

use super::{Answer, Cluster, JSON};

pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
pub(crate) const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
pub(crate) const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
pub(crate) const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Sends requests with a bearer token and further headers.
pub(crate) struct Client<'a> {
    cluster: &'a Cluster,
    pub(crate) token: String,
    headers: Vec<(&'a str, &'a str)>,
}

impl<'a> Client<'a> {
    pub(crate) fn of(cluster: &'a Cluster, token: &str) -> Client<'a> {
        Client { cluster, token: format!("Bearer {token}"), headers: Vec::new() }
    }

    pub(crate) fn administrator(cluster: &'a Cluster) -> Client<'a> {
        Client::of(cluster, cluster.server.token().expect("there is authorization"))
    }

    pub(crate) fn with(mut self, headers: &[(&'a str, &'a str)]) -> Client<'a> {
        self.headers.extend_from_slice(headers);
        self
    }

    pub(crate) async fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> Answer {
        let mut headers = self.headers.clone();
        headers.extend([("authorization", self.token.as_str()), ("content-type", media)]);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.cluster.send(method, path, &headers, body.as_bytes()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, JSON, &Value::Null).await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, JSON, object).await
    }
}

/// A server with a user jane in the group `team`, who has no rights.
pub(crate) async fn cluster() -> Cluster {
    let jane = StaticToken { token: "jane's".to_owned(), user: "jane".to_owned(), groups: vec!["team".to_owned()] };
    let config = Config {
        stand_ins: StandIns::NONE,
        authorization: Authorization::Rbac,
        tokens: vec![jane],
        ..Config::default()
    };
    Cluster::start(config).await
}

pub(crate) fn role(name: &str, rules: &Value) -> Value {
    json!({ "metadata": { "name": name }, "rules": rules })
}

pub(crate) fn binding(name: &str, role: (&str, &str), subject: (&str, &str)) -> Value {
    json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1 },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": subject.0, "name": subject.1 }],
    })
}

pub(crate) fn may(verbs: &[&str], resource: &str) -> Value {
    json!([{ "apiGroups": [""], "resources": [resource], "verbs": verbs }])
}

/// Grants the group `team` the rules in the namespace `default`.
pub(crate) async fn grant(cluster: &Cluster, name: &str, rules: &Value) {
    let admin = Client::administrator(cluster);
    admin.post(ROLES, &role(name, rules)).await.expect(StatusCode::CREATED);
    admin.post(BINDINGS, &binding(name, ("Role", name), ("Group", "team"))).await.expect(StatusCode::CREATED);
}
