//! The endpoints `/` and `/metrics`, which are not part of the API.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::route::HEALTH_PATHS;
use crate::request_counts::RequestCount;
use crate::resources::registry::Registry;
use crate::resources::resource::group_version;
use crate::storage::Store;

/// The media type of metrics, as in `expfmt` of `prometheus/common`.
pub(super) const METRICS_MEDIA: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// Paths that belong to neither groups nor health checks.
const OTHER_PATHS: [&str; 8] =
    ["/api", "/api/v1", "/apis", "/apis/", "/metrics", "/openapi/v2", "/openapi/v3", "/version"];

/// All paths that the server serves, like `IndexLister` in `k8s.io/apiserver/pkg/server/routes/index.go`.
pub(super) fn paths(registry: &Registry) -> Value {
    let mut paths: Vec<String> = OTHER_PATHS.iter().chain(&HEALTH_PATHS).map(|path| (*path).to_owned()).collect();
    for group in registry.groups().into_iter().filter(|group| !group.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}", group_version(group.name, version))));
    }
    paths.sort_unstable();
    json!({ "paths": paths })
}

/// Counts of requests and objects, under a real server's metric names:
/// `k8s.io/apiserver/pkg/endpoints/metrics/metrics.go` and `pkg/storage/etcd3/metrics/metrics.go`.
pub(super) fn metrics(store: &Store, requests: &[RequestCount]) -> String {
    let mut text =
        "# HELP apiserver_request_total [STABLE] Counter of apiserver requests broken out for each verb, group, \
                    resource and subresource.\n# TYPE apiserver_request_total counter\n"
            .to_owned();
    let mut totals: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for request in requests {
        *totals.entry((&request.resource, &request.verb)).or_default() += request.count;
    }
    for ((resource, verb), total) in totals {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let labels = [("group", group), ("resource", resource), ("subresource", subresource), ("verb", method(verb))];
        sample(&mut text, "apiserver_request_total", &labels, total);
    }
    text.push_str(
        "# HELP apiserver_resource_objects [ALPHA] Number of stored objects split by kind.\n\
         # TYPE apiserver_resource_objects gauge\n",
    );
    let mut resources = store.resources();
    resources.sort_unstable();
    for resource in resources {
        let labels = [("group", resource.group.as_str()), ("resource", resource.plural.as_str())];
        sample(&mut text, "apiserver_resource_objects", &labels, store.list(&resource, None).count());
    }
    text
}

fn sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
    // Label values must be escaped, because clients choose the text of a path.
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
}

/// A verb as a real server's metrics name it.
fn method(verb: &str) -> &str {
    match verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::resource::GroupResource;
    use crate::storage::ObjectKey;

    #[test]
    fn requests_of_all_clients_are_added_and_labels_are_escaped() {
        let request = |user_agent: &str, verb: &str, resource: &str| RequestCount {
            user_agent: user_agent.to_owned(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            count: 2,
        };
        let counts = [
            request("a", "create", "deployments.apps/scale"),
            request("b", "create", "deployments.apps/scale"),
            request("a", "unknown", "a\"b"),
        ];
        let mut store = Store::new(10);
        let resource = GroupResource::new("apps", "deployments");
        let key = ObjectKey { resource, namespace: "d".to_owned(), name: "x".to_owned() };
        store.put(&key, json!({ "metadata": { "name": "x", "namespace": "d" } }));
        let text = metrics(&store, &counts);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"apiserver_request_total{group="",resource="a\"b",subresource="",verb="other"} 2"#,
                r#"apiserver_request_total{group="apps",resource="deployments",subresource="scale",verb="POST"} 4"#,
                r#"apiserver_resource_objects{group="apps",resource="deployments"} 1"#,
            ]
        );
    }

    #[test]
    fn the_paths_are_sorted_and_name_each_group_and_version() {
        let paths = paths(&Registry::new());
        let paths: Vec<&str> = paths["paths"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert!(paths.is_sorted());
        for path in ["/api/v1", "/apis/", "/apis/apps", "/apis/apps/v1", "/readyz/ping", "/metrics"] {
            assert!(paths.contains(&path), "{path}");
        }
    }
}
