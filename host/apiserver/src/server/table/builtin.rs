//! The columns of built-in kinds, named as a real server names them.

use serde_json::{Value, json};

use super::Printer;
use crate::clock::Moment;
use crate::object::{self, condition_holds, items, text};
use crate::resources::column::Column;
use crate::verbs::scale::selector_text;

/// From an object to the cells of its row.
type Cells = fn(&Value, Moment) -> Vec<Value>;

/// The printer of a kind; those without columns of their own show name and age.
pub(super) fn printer(group: &str, kind: &str) -> Printer<'static> {
    let (columns, cells): (&[&str], Cells) = match (group, kind) {
        ("apps", "Deployment") => (
            &["Ready", "Up-to-date:integer", "Available:integer", "Age", "+Containers", "+Images", "+Selector"],
            deployment,
        ),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => (
            &["Desired:integer", "Current:integer", "Ready:integer", "Age", "+Containers", "+Images", "+Selector"],
            replica_set,
        ),
        ("apps", "StatefulSet") => (&["Ready", "Age", "+Containers", "+Images"], stateful_set),
        ("apps", "DaemonSet") => (
            &[
                "Desired:integer",
                "Current:integer",
                "Ready:integer",
                "Up-to-date:integer",
                "Available:integer",
                "Node Selector",
                "Age",
                "+Containers",
                "+Images",
                "+Selector",
            ],
            daemon_set,
        ),
        ("batch", "Job") => (&["Status", "Completions", "Duration", "Age", "+Containers", "+Images", "+Selector"], job),
        ("batch", "CronJob") => {
            (&["Schedule", "Timezone", "Suspend:boolean", "Active:integer", "Last Schedule", "Age"], cron_job)
        }
        ("", "Pod") => (&["Ready", "Status", "Restarts", "Age", "+IP", "+Node"], pod),
        ("", "Service") => (&["Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"], service),
        ("", "Namespace") => (&["Status", "Age"], namespace),
        ("", "ConfigMap") => (&["Data", "Age"], config_map),
        ("", "Secret") => (&["Type", "Data", "Age"], secret),
        ("", "Endpoints") => (&["Endpoints", "Age"], endpoints),
        ("", "Node") => (&["Status", "Roles", "Age", "Version"], node),
        ("", "PersistentVolumeClaim") => {
            (&["Status", "Volume", "Capacity", "Access Modes", "StorageClass", "Age"], claim)
        }
        ("" | "events.k8s.io", "Event") => {
            return Printer::Builtin { columns: event_columns(), cells: event };
        }
        ("coordination.k8s.io", "Lease") => (&["Holder", "Age"], lease),
        ("networking.k8s.io", "Ingress") => (&["Class", "Hosts", "Address", "Ports", "Age"], ingress),
        ("networking.k8s.io", "NetworkPolicy") => (&["Pod-Selector", "Age"], network_policy),
        ("discovery.k8s.io", "EndpointSlice") => (&["AddressType", "Ports", "Endpoints", "Age"], endpoint_slice),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => (&["Role", "Age"], binding),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") | ("apiextensions.k8s.io", _) => {
            (&["Created At"], created_at)
        }
        _ => (&["Age"], plain),
    };
    let columns = std::iter::once(Column::name_column()).chain(columns.iter().map(|text| column(text))).collect();
    Printer::Builtin { columns, cells }
}

/// `Name`, `Name:type`, `+Name` (wide only).
fn column(text: &str) -> Column {
    let (wide, text) = text.strip_prefix('+').map_or((false, text), |text| (true, text));
    let (name, kind) = text.split_once(':').unwrap_or((text, "string"));
    let mut column = Column::new(name, kind);
    column.priority = i64::from(wide);
    column
}

fn name(object: &Value) -> Value {
    json!(object::name(object))
}

fn age(object: &Value, now: Moment) -> Value {
    json!(now.age(text(object, "/metadata/creationTimestamp")))
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn joined(parts: impl Iterator<Item = String>) -> Value {
    or_none(&parts.collect::<Vec<_>>().join(","))
}

/// Names, images and selector of a workload: the wide columns.
fn workload(object: &Value) -> [Value; 3] {
    let containers = items(object, "/spec/template/spec/containers");
    let field = |key: &'static str| json!(containers.iter().map(|one| text(one, key)).collect::<Vec<_>>().join(","));
    [field("/name"), field("/image"), json!(selector_text(&object["spec"]["selector"]))]
}

fn deployment(object: &Value, now: Moment) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let [names, images, selector] = workload(object);
    vec![
        name(object),
        json!(ready),
        json!(number(object, "/status/updatedReplicas")),
        json!(number(object, "/status/availableReplicas")),
        age(object, now),
        names,
        images,
        selector,
    ]
}

fn replica_set(object: &Value, now: Moment) -> Vec<Value> {
    let [names, images, selector] = workload(object);
    vec![
        name(object),
        json!(number(object, "/spec/replicas")),
        json!(number(object, "/status/replicas")),
        json!(number(object, "/status/readyReplicas")),
        age(object, now),
        names,
        images,
        selector,
    ]
}

fn stateful_set(object: &Value, now: Moment) -> Vec<Value> {
    let ready = format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"));
    let [names, images, _] = workload(object);
    vec![name(object), json!(ready), age(object, now), names, images]
}

fn daemon_set(object: &Value, now: Moment) -> Vec<Value> {
    let count = |key: &str| json!(number(object, &format!("/status/{key}")));
    let [names, images, selector] = workload(object);
    let nodes = object.pointer("/spec/template/spec/nodeSelector").and_then(Value::as_object);
    let nodes = nodes.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    vec![
        name(object),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        joined(nodes),
        age(object, now),
        names,
        images,
        selector,
    ]
}

fn job(object: &Value, now: Moment) -> Vec<Value> {
    let status = match () {
        () if condition_holds(object, "Complete") => "Complete",
        () if condition_holds(object, "Failed") => "Failed",
        () if condition_holds(object, "Suspended") => "Suspended",
        () => "Running",
    };
    let completions = format!("{}/{}", number(object, "/status/succeeded"), number(object, "/spec/completions"));
    let [names, images, selector] = workload(object);
    vec![name(object), json!(status), json!(completions), json!(""), age(object, now), names, images, selector]
}

fn cron_job(object: &Value, now: Moment) -> Vec<Value> {
    let last = match text(object, "/status/lastScheduleTime") {
        "" => "<none>".to_owned(),
        moment => now.age(moment),
    };
    vec![
        name(object),
        json!(text(object, "/spec/schedule")),
        or_none(text(object, "/spec/timeZone")),
        json!(object.pointer("/spec/suspend") == Some(&json!(true))),
        json!(items(object, "/status/active").len()),
        json!(last),
        age(object, now),
    ]
}

fn pod(object: &Value, now: Moment) -> Vec<Value> {
    let statuses = items(object, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| status["ready"] == json!(true)).count();
    let restarts: i64 = statuses.iter().map(|status| number(status, "/restartCount")).sum();
    let status = if object::is_terminating(object) { "Terminating" } else { text(object, "/status/phase") };
    vec![
        name(object),
        json!(format!("{ready}/{}", items(object, "/spec/containers").len())),
        json!(status),
        json!(restarts.to_string()),
        age(object, now),
        or_none(text(object, "/status/podIP")),
        or_none(text(object, "/spec/nodeName")),
    ]
}

fn service(object: &Value, now: Moment) -> Vec<Value> {
    let ports = items(object, "/spec/ports").iter().map(|port| {
        let (number, protocol) = (port["port"].as_i64().unwrap_or(0), text(port, "/protocol"));
        match port["nodePort"].as_i64() {
            Some(node_port) => format!("{number}:{node_port}/{protocol}"),
            None => format!("{number}/{protocol}"),
        }
    });
    let external = match text(object, "/spec/type") {
        "LoadBalancer" => "<pending>",
        "ExternalName" => text(object, "/spec/externalName"),
        _ => "<none>",
    };
    let selector = object.pointer("/spec/selector").and_then(Value::as_object);
    let selector =
        selector.into_iter().flatten().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    vec![
        name(object),
        json!(text(object, "/spec/type")),
        or_none(text(object, "/spec/clusterIP")),
        json!(external),
        joined(ports),
        age(object, now),
        joined(selector),
    ]
}

fn namespace(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object), json!(text(object, "/status/phase")), age(object, now)]
}

fn data_count(object: &Value) -> Value {
    let count = |key: &str| object.get(key).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    json!(count("data") + count("binaryData"))
}

fn config_map(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object), data_count(object), age(object, now)]
}

fn secret(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object), json!(text(object, "/type")), data_count(object), age(object, now)]
}

fn plain(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn endpoints(object: &Value, now: Moment) -> Vec<Value> {
    let addresses = items(object, "/subsets").iter().flat_map(|subset| {
        let ports = items(subset, "/ports");
        items(subset, "/addresses").iter().flat_map(move |address| {
            ports.iter().map(move |port| format!("{}:{}", text(address, "/ip"), port["port"].as_i64().unwrap_or(0)))
        })
    });
    vec![name(object), joined(addresses), age(object, now)]
}

fn node(object: &Value, now: Moment) -> Vec<Value> {
    let ready = condition_holds(object, "Ready");
    let version = text(object, "/status/nodeInfo/kubeletVersion");
    vec![
        name(object),
        json!(if ready { "Ready" } else { "NotReady" }),
        json!("<none>"),
        age(object, now),
        json!(version),
    ]
}

fn claim(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object),
        json!(text(object, "/status/phase")),
        json!(text(object, "/spec/volumeName")),
        json!(text(object, "/status/capacity/storage")),
        json!(object::strings(object, "/status/accessModes").join(",")),
        json!(text(object, "/spec/storageClassName")),
        age(object, now),
    ]
}

fn event_columns() -> Vec<Column> {
    let texts =
        ["Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message", "+First Seen", "+Count", "+Name"];
    texts.iter().map(|text| column(text)).collect()
}

/// Either form of an event: the fields that only the other has are looked up under both names.
fn event(object: &Value, now: Moment) -> Vec<Value> {
    let first_of = |pointers: &[&str]| {
        pointers.iter().map(|pointer| text(object, pointer)).find(|text| !text.is_empty()).unwrap_or_default()
    };
    let ago = |pointers: &[&str]| match first_of(pointers) {
        "" => "<unknown>".to_owned(),
        moment => now.age(moment),
    };
    let regarding = object.get("involvedObject").or_else(|| object.get("regarding")).unwrap_or(&Value::Null);
    let target = format!("{}/{}", text(regarding, "/kind").to_lowercase(), text(regarding, "/name"));
    let source =
        first_of(&["/source/component", "/deprecatedSource/component", "/reportingComponent", "/reportingController"]);
    let count = [number(object, "/series/count"), number(object, "/count"), number(object, "/deprecatedCount"), 1];
    let seen = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
        "/eventTime",
        "/metadata/creationTimestamp",
    ];
    let first = ["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    vec![
        json!(ago(&seen)),
        json!(text(object, "/type")),
        json!(text(object, "/reason")),
        json!(target),
        json!(text(regarding, "/fieldPath")),
        json!(source),
        json!(first_of(&["/message", "/note"]).trim()),
        json!(ago(&first)),
        json!(count.into_iter().find(|count| *count > 0).unwrap_or(1).to_string()),
        name(object),
    ]
}

fn lease(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object), json!(text(object, "/spec/holderIdentity")), age(object, now)]
}

fn ingress(object: &Value, now: Moment) -> Vec<Value> {
    let hosts =
        items(object, "/spec/rules").iter().map(|rule| text(rule, "/host").to_owned()).filter(|host| !host.is_empty());
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let ports = if items(object, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    let hosts = if hosts.is_empty() { "*".to_owned() } else { hosts };
    vec![
        name(object),
        or_none(text(object, "/spec/ingressClassName")),
        json!(hosts),
        json!(""),
        json!(ports),
        age(object, now),
    ]
}

fn network_policy(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object), or_none(&selector_text(&object["spec"]["podSelector"])), age(object, now)]
}

fn endpoint_slice(object: &Value, now: Moment) -> Vec<Value> {
    let ports = items(object, "/ports").iter().map(|port| port["port"].to_string());
    let addresses = items(object, "/endpoints").iter().flat_map(|endpoint| object::strings(endpoint, "/addresses"));
    vec![
        name(object),
        json!(text(object, "/addressType")),
        joined(ports),
        joined(addresses.map(str::to_owned)),
        age(object, now),
    ]
}

fn binding(object: &Value, now: Moment) -> Vec<Value> {
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    vec![name(object), json!(role), age(object, now)]
}

fn created_at(object: &Value, _: Moment) -> Vec<Value> {
    vec![name(object), json!(text(object, "/metadata/creationTimestamp"))]
}
