//! Validation of pod specs, wherever they stand.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::report::{Report, members};
use crate::object::{self, names, text};
use crate::schema::typed::quantity;

/// A pod's spec at `field`.
pub(super) fn spec(pod: &Value, field: &str, report: &mut Report) {
    let volumes = volumes(pod, field, report);
    let mut seen = BTreeSet::new();
    if object::items(pod, "/containers").is_empty() {
        report.required(format!("{field}.containers"));
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in object::items(pod, &format!("/{list}")).iter().enumerate() {
            let place = format!("{field}.{list}[{index}]");
            report.name(&format!("{place}.name"), &container["name"], names::check_dns_label);
            let name = text(container, "/name");
            if !name.is_empty() && !seen.insert(name) {
                report.duplicate(format!("{place}.name"), &container["name"]);
            }
            self::container(container, &place, &volumes, report);
        }
    }
    report.one_of(&format!("{field}.restartPolicy"), &pod["restartPolicy"], &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    report.one_of(&format!("{field}.dnsPolicy"), &pod["dnsPolicy"], &policies);
    let deadline = &pod["activeDeadlineSeconds"];
    if deadline.as_i64().is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds)) {
        report.invalid(
            format!("{field}.activeDeadlineSeconds"),
            deadline,
            "must be between 1 and 2147483647, inclusive",
        );
    }
    report.labels(&format!("{field}.nodeSelector"), &pod["nodeSelector"]);
    for name in ["serviceAccountName", "nodeName"] {
        report.optional_name(&format!("{field}.{name}"), &pod[name], names::check_subdomain);
    }
    for name in ["hostname", "subdomain"] {
        report.optional_name(&format!("{field}.{name}"), &pod[name], names::check_dns_label);
    }
    tolerations(pod, field, report);
    spread(pod, field, report);
}

/// The names of the volumes.
fn volumes<'a>(pod: &'a Value, field: &str, report: &mut Report) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (index, volume) in object::items(pod, "/volumes").iter().enumerate() {
        let place = format!("{field}.volumes[{index}]");
        report.name(&format!("{place}.name"), &volume["name"], names::check_dns_label);
        let name = text(volume, "/name");
        if !name.is_empty() && !found.insert(name) {
            report.duplicate(format!("{place}.name"), &volume["name"]);
        }
        // Go looks at the sources in the order of its type, in which these come first.
        let mut sources = members(volume, &[]);
        sources.sort_by_key(|source| ["emptyDir", "hostPath"].iter().position(|first| first == source).unwrap_or(9));
        for source in sources.iter().skip(1) {
            report.forbidden(format!("{place}.{source}"), "may not specify more than 1 volume type");
        }
        let keys = [
            ("configMap", "name"),
            ("secret", "secretName"),
            ("hostPath", "path"),
            ("persistentVolumeClaim", "claimName"),
        ];
        for (source, key) in keys {
            let is_first = sources.first() == Some(&source);
            if is_first && text(&volume[source], &format!("/{key}")).is_empty() {
                report.required(format!("{place}.{source}.{key}"));
            }
        }
    }
    found
}

fn container(container: &Value, place: &str, volumes: &BTreeSet<&str>, report: &mut Report) {
    let image = text(container, "/image");
    if image.is_empty() {
        report.required(format!("{place}.image"));
    } else if image.trim() != image {
        report.invalid(format!("{place}.image"), &container["image"], "must not have leading or trailing whitespace");
    }
    ports(container, place, report);
    environment(container, place, report);
    mounts(container, place, volumes, report);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        self::probe(&container[probe], &format!("{place}.{probe}"), report);
    }
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if handler.is_object() {
            handlers(handler, &format!("{place}.lifecycle.{hook}"), report);
        }
    }
    let policies = ["File", "FallbackToLogsOnError"];
    report.one_of(&format!("{place}.terminationMessagePolicy"), &container["terminationMessagePolicy"], &policies);
    let policies = ["Always", "IfNotPresent", "Never"];
    report.one_of(&format!("{place}.imagePullPolicy"), &container["imagePullPolicy"], &policies);
    resources(&container["resources"], &format!("{place}.resources"), report);
}

fn ports(container: &Value, place: &str, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, port) in object::items(container, "/ports").iter().enumerate() {
        let place = format!("{place}.ports[{index}]");
        let name = text(port, "/name");
        let errors = if name.is_empty() { Vec::new() } else { names::port_name_errors(name) };
        for why in &errors {
            report.invalid(format!("{place}.name"), &port["name"], why);
        }
        if errors.is_empty() && !name.is_empty() && !seen.insert(name) {
            report.duplicate(format!("{place}.name"), &port["name"]);
        }
        match port["containerPort"].as_i64() {
            None | Some(0) => report.required(format!("{place}.containerPort")),
            Some(_) => report.port(&format!("{place}.containerPort"), &port["containerPort"]),
        }
        if !port["hostPort"].is_null() {
            report.port(&format!("{place}.hostPort"), &port["hostPort"]);
        }
        report.one_of(&format!("{place}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    }
}

fn environment(container: &Value, place: &str, report: &mut Report) {
    for (index, variable) in object::items(container, "/env").iter().enumerate() {
        let place = format!("{place}.env[{index}]");
        let name = text(variable, "/name");
        if name.is_empty() {
            report.required(format!("{place}.name"));
        } else if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
            let why =
                "a valid environment variable name must consist only of printable ASCII characters other than '='";
            report.invalid(format!("{place}.name"), &variable["name"], why);
        }
        let from = &variable["valueFrom"];
        if !from.is_object() {
            continue;
        }
        let place = format!("{place}.valueFrom");
        let sources = members(from, &[]);
        if sources.is_empty() {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            report.invalid(&place, &json!(""), why);
        } else if !text(variable, "/value").is_empty() {
            report.invalid(&place, &json!(""), "may not be specified when `value` is not empty");
        } else if sources.len() > 1 {
            report.invalid(&place, &json!(""), "may not have more than one field specified at a time");
        }
        for source in ["configMapKeyRef", "secretKeyRef"] {
            if from[source].is_object() && text(&from[source], "/key").is_empty() {
                report.required(format!("{place}.{source}.key"));
            }
        }
    }
}

fn mounts(container: &Value, place: &str, volumes: &BTreeSet<&str>, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, mount) in object::items(container, "/volumeMounts").iter().enumerate() {
        let place = format!("{place}.volumeMounts[{index}]");
        let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            report.required(format!("{place}.name"));
        }
        if !volumes.contains(name) {
            report.not_found(format!("{place}.name"), &json!(name));
        }
        if path.is_empty() {
            report.required(format!("{place}.mountPath"));
        }
        if !seen.insert(path) {
            report.invalid(format!("{place}.mountPath"), &mount["mountPath"], "must be unique");
        }
    }
}

fn probe(probe: &Value, place: &str, report: &mut Report) {
    if !probe.is_object() {
        return;
    }
    handlers(probe, place, report);
    let seconds = ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    report.none_negative(place, probe, &seconds);
}

/// The handler of a probe or a hook: exactly one.
fn handlers(parent: &Value, place: &str, report: &mut Report) {
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| parent[*kind].is_object()).collect();
    if given.is_empty() {
        report.required_because(place, "must specify a handler type");
    }
    for (index, kind) in given.iter().enumerate() {
        if index > 0 {
            report.forbidden(format!("{place}.{kind}"), "may not specify more than 1 handler type");
            continue;
        }
        let handler = &parent[*kind];
        match *kind {
            "exec" if object::items(handler, "/command").is_empty() => report.required(format!("{place}.exec.command")),
            "httpGet" | "tcpSocket" => report.port_or_name(&format!("{place}.{kind}.port"), &handler["port"]),
            "grpc" => report.port(&format!("{place}.grpc.port"), &handler["port"]),
            _ => {}
        }
    }
}

fn resources(resources: &Value, place: &str, report: &mut Report) {
    const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
    for part in ["limits", "requests"] {
        for (name, amount) in resources[part].as_object().into_iter().flatten() {
            let field = format!("{place}.{part}[{name}]");
            if quantity::compare(amount, &json!("0")).is_lt() {
                report.invalid(&field, amount, "must be greater than or equal to 0");
            }
            if !name.contains('/') && !STANDARD.contains(&name.as_str()) && !name.starts_with("hugepages-") {
                report.invalid(&field, &json!(name), "must be a standard resource type or fully qualified");
                report.invalid(&field, &json!(name), "must be a standard resource for containers");
            }
        }
    }
    for (name, request) in resources["requests"].as_object().into_iter().flatten() {
        if let Some(limit) = resources["limits"].get(name).filter(|limit| quantity::compare(request, limit).is_gt()) {
            let why = format!("must be less than or equal to {name} limit of {}", limit.as_str().unwrap_or_default());
            report.invalid(format!("{place}.requests"), request, &why);
        }
    }
}

fn tolerations(pod: &Value, field: &str, report: &mut Report) {
    for (index, toleration) in object::items(pod, "/tolerations").iter().enumerate() {
        let place = format!("{field}.tolerations[{index}].operator");
        let operator = &toleration["operator"];
        if text(toleration, "/key").is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            report.invalid(&place, operator, why);
        }
        report.one_of(&place, operator, &["Equal", "Exists"]);
    }
}

fn spread(pod: &Value, field: &str, report: &mut Report) {
    for (index, constraint) in object::items(pod, "/topologySpreadConstraints").iter().enumerate() {
        let place = format!("{field}.topologySpreadConstraints[{index}]");
        if constraint["maxSkew"].as_i64().is_none_or(|skew| skew <= 0) {
            report.invalid(format!("{place}.maxSkew"), &constraint["maxSkew"], "must be greater than zero");
        }
        if text(constraint, "/topologyKey").is_empty() {
            report.required_because(format!("{place}.topologyKey"), "can not be empty");
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        report.one_of(&format!("{place}.whenUnsatisfiable"), &constraint["whenUnsatisfiable"], &actions);
    }
}

/// Of a pod that exists, only a few things may change.
pub(super) fn update(pod: &Value, previous: &Value, report: &mut Report) {
    let strip = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for list in ["containers", "initContainers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
                container.remove("image");
            }
        }
        if let Some(spec) = spec.as_object_mut() {
            for name in ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "ephemeralContainers"]
            {
                spec.remove(name);
            }
            // Binding sets the node once, and gates of scheduling only go.
            if text(previous, "/spec/nodeName").is_empty() {
                spec.remove("nodeName");
            }
            spec.remove("schedulingGates");
        }
        spec
    };
    let kept = object::items(previous, "/spec/tolerations");
    let now = object::items(pod, "/spec/tolerations");
    if strip(pod) != strip(previous) || !kept.iter().all(|toleration| now.contains(toleration)) {
        report.forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
             `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
             `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        );
    }
}
