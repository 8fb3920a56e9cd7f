//! Validates kinds that run pods, like `pkg/apis/apps/validation/validation.go` of Kubernetes 1.36.3, and for
//! replication controllers `pkg/apis/core/validation/validation.go`.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::report::{Report, is_empty_selector, is_selector, selects, shown_selector};
use super::table::{self, Check, FieldRule};
use super::{pods, storage};
use crate::object::{self, names, text};

const TEMPLATE: &str = "spec.template";

/// Validates a deployment, replica set, stateful set or daemon set. `kind` is the name of the kind.
pub(super) fn workload(kind: &str, object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    report.none_negative("spec", spec, &["replicas"]);
    if let (Some(previous), "StatefulSet") = (previous, kind) {
        stateful_set_update(object, previous, report);
    }
    let what = match kind {
        "StatefulSet" => "statefulset",
        "DaemonSet" => "daemonset",
        _ => "deployment",
    };
    // The template of a `DaemonSet` is validated even if its selector is invalid.
    if selector(kind, spec, what, report) || kind == "DaemonSet" {
        match kind {
            "StatefulSet" => pods::template(&with_claims(spec), TEMPLATE, report),
            _ => pods::template(&spec["template"], TEMPLATE, report),
        }
        if kind != "StatefulSet" {
            runs_on(spec, if kind == "Deployment" { "ReplicaSet" } else { kind }, report);
        }
    }
    match kind {
        "Deployment" => strategy(spec, report),
        "StatefulSet" => {
            runs_on(spec, kind, report);
            stateful_set(spec, previous.is_none(), report);
        }
        "DaemonSet" => update_strategy(spec, report),
        _ => {}
    }
    report.none_negative("spec", spec, &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]);
    let (deadline, ready) = (&spec["progressDeadlineSeconds"], spec["minReadySeconds"].as_i64().unwrap_or(0));
    if deadline.as_i64().is_some_and(|deadline| deadline >= 0 && deadline <= ready) {
        report.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds");
    }
    let was = previous.map_or(&spec["selector"], |previous| &previous["spec"]["selector"]);
    if kind != "StatefulSet" && *was != spec["selector"] {
        report.invalid_shown("spec.selector", &shown_selector(&spec["selector"]), "field is immutable");
    }
}

/// Checks that the selector is present, is not empty, and matches the template's labels. False if the template should
/// not be validated, because the selector is invalid.
fn selector(kind: &str, spec: &Value, whose: &str, report: &mut Report) -> bool {
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    let mismatch = "`selector` does not match template `labels`";
    if selector.is_null() {
        if kind != "DaemonSet" {
            report.required("spec.selector");
        }
        // A missing selector matches nothing, so it also does not match the template.
        report.invalid("spec.template.metadata.labels", labels, mismatch);
        return true;
    }
    report.selector("spec.selector", selector);
    if is_empty_selector(selector) {
        report.invalid_shown(
            "spec.selector",
            &shown_selector(selector),
            &format!("empty selector is invalid for {whose}"),
        );
        return true;
    }
    if !is_selector(selector) {
        match kind {
            "DaemonSet" => {}
            "StatefulSet" => report.invalid_shown("spec.selector", &shown_selector(selector), ""),
            _ => report.invalid_shown("spec.selector", &shown_selector(selector), "invalid label selector"),
        }
        return false;
    }
    if !selects(selector, labels) {
        report.invalid("spec.template.metadata.labels", labels, mismatch);
    }
    true
}

/// Checks that the pods of a workload never end: they always restart, and have no deadline.
fn runs_on(spec: &Value, kind: &str, report: &mut Report) {
    let pod = &spec["template"]["spec"];
    if !["Always", ""].contains(&text(pod, "/restartPolicy")) {
        report.not_supported("spec.template.spec.restartPolicy", &pod["restartPolicy"], &["Always"]);
    }
    if !pod["activeDeadlineSeconds"].is_null() {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        report.forbidden("spec.template.spec.activeDeadlineSeconds", &why);
    }
}

/// The template with the volumes that the controller of a `StatefulSet` adds for claims, and without the host name and
/// subdomain, which the controller overwrites.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let claims = object::items(spec, "/volumeClaimTemplates");
    let name = |object: &Value| text(object, "/metadata/name").to_owned();
    let mut volumes: Vec<Value> = claims
        .iter()
        .map(|claim| json!({ "name": name(claim), "persistentVolumeClaim": { "claimName": name(claim) } }))
        .collect();
    let own = object::items(spec, "/template/spec/volumes").iter();
    let claimed: HashSet<&str> = claims.iter().map(|claim| text(claim, "/metadata/name")).collect();
    volumes.extend(own.filter(|volume| volume["name"].as_str().is_none_or(|name| !claimed.contains(name))).cloned());
    let pod = object::map_mut(&mut template, "spec");
    pod.remove("hostname");
    pod.remove("subdomain");
    if !volumes.is_empty() {
        pod.insert("volumes".to_owned(), json!(volumes));
    }
    template
}

fn strategy(spec: &Value, report: &mut Report) {
    let strategy = &spec["strategy"];
    let kind = text(strategy, "/type");
    let rolling = &strategy["rollingUpdate"];
    match kind {
        "RollingUpdate" => rolling_update(rolling, "spec.strategy.rollingUpdate", report),
        "Recreate" if rolling.is_object() => {
            let why = "may not be specified when strategy `type` is 'Recreate'";
            report.forbidden("spec.strategy.rollingUpdate", why);
        }
        "Recreate" => {}
        _ => report.not_supported_shown("spec.strategy", &internal(strategy, SURGE), &["Recreate", "RollingUpdate"]),
    }
}

/// The parameters of the strategies of Deployments and `DaemonSet`s: the field, its name in the internal type, and the
/// text for a missing value.
const SURGE: [(&str, &str, &str); 2] = [("maxUnavailable", "MaxUnavailable", "0"), ("maxSurge", "MaxSurge", "0")];
/// The parameters of a `StatefulSet`'s strategy.
const PARTITION: [(&str, &str, &str); 2] =
    [("partition", "Partition", "0"), ("maxUnavailable", "MaxUnavailable", "null")];

/// A strategy as JSON of Go's internal type.
fn internal(strategy: &Value, parameters: [(&str, &str, &str); 2]) -> String {
    let kind = json!(text(strategy, "/type"));
    let Some(rolling) = strategy["rollingUpdate"].as_object() else {
        return format!("{{\"Type\":{kind},\"RollingUpdate\":null}}");
    };
    let shown = parameters.map(|(field, name, nothing)| {
        let value = rolling.get(field).map_or_else(|| nothing.to_owned(), Value::to_string);
        format!("\"{name}\":{value}")
    });
    format!("{{\"Type\":{kind},\"RollingUpdate\":{{{}}}}}", shown.join(","))
}

/// Whether a number or percentage is zero. Any other value counts as zero.
fn is_zero(value: &Value) -> bool {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|text| text.parse::<i64>().ok());
    value.as_i64().or(percent).unwrap_or(0) == 0
}

fn rolling_update(rolling: &Value, place: &str, report: &mut Report) {
    for name in ["maxUnavailable", "maxSurge"] {
        report.int_or_percent(&format!("{place}.{name}"), &rolling[name]);
    }
    if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
        report.invalid(
            format!("{place}.maxUnavailable"),
            &rolling["maxUnavailable"],
            "may not be 0 when `maxSurge` is 0",
        );
    }
}

const RETENTION: Check = Check::Either(&["Retain", "Delete"]);
const STATEFUL_SET: &[FieldRule] = &[
    ("persistentVolumeClaimRetentionPolicy.whenDeleted", RETENTION),
    ("persistentVolumeClaimRetentionPolicy.whenScaled", RETENTION),
    ("ordinals.start", Check::NotNegative),
    ("updateStrategy.rollingUpdate.partition", Check::NotNegative),
];

fn stateful_set(spec: &Value, is_new: bool, report: &mut Report) {
    table::check(STATEFUL_SET, spec, "spec", report);
    if is_new {
        report.optional_name("spec.serviceName", &spec["serviceName"], names::check_dns_label);
        for (index, claim) in object::items(spec, "/volumeClaimTemplates").iter().enumerate() {
            storage::claim_spec(&claim["spec"], &format!("spec.volumeClaimTemplates[{index}].spec"), report);
        }
    }
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    if text(spec, "/updateStrategy/type") == "OnDelete" && rolling.is_object() {
        let shown = internal(&spec["updateStrategy"], PARTITION);
        let shown = shown.split_once("\"RollingUpdate\":").map_or("", |(_, shown)| shown);
        let shown = shown.strip_suffix('}').unwrap_or(shown);
        let why = "only allowed for updateStrategy 'RollingUpdate'";
        report.invalid_shown("spec.updateStrategy.rollingUpdate", shown, why);
    }
    let policy = &spec["podManagementPolicy"];
    if policy.as_str().unwrap_or_default().is_empty() {
        report.required("spec.podManagementPolicy");
    } else if !["OrderedReady", "Parallel"].contains(&policy.as_str().unwrap_or_default()) {
        report.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
    }
    let kind = text(spec, "/updateStrategy/type");
    if kind.is_empty() {
        report.required("spec.updateStrategy");
    } else if !["RollingUpdate", "OnDelete"].contains(&kind) {
        let shown = internal(&spec["updateStrategy"], PARTITION);
        report.invalid_shown("spec.updateStrategy", &shown, "must be 'RollingUpdate' or 'OnDelete'");
    }
}

fn update_strategy(spec: &Value, report: &mut Report) {
    let kind = text(spec, "/updateStrategy/type");
    match kind {
        "RollingUpdate" => {
            let place = "spec.updateStrategy.rollingUpdate";
            for name in ["maxUnavailable", "maxSurge"] {
                report.int_or_percent(&format!("{place}.{name}"), &spec["updateStrategy"]["rollingUpdate"][name]);
            }
            let rolling = &spec["updateStrategy"]["rollingUpdate"];
            match (is_zero(&rolling["maxUnavailable"]), is_zero(&rolling["maxSurge"])) {
                (false, false) => {
                    let why = "may not be set when maxUnavailable is non-zero";
                    report.invalid(format!("{place}.maxSurge"), &rolling["maxSurge"], why);
                }
                (true, true) => {
                    let why = "cannot be 0 when maxSurge is 0";
                    report.required_because(format!("{place}.maxUnavailable"), why);
                }
                _ => {}
            }
        }
        "OnDelete" => {}
        _ => {
            let shown = internal(&spec["updateStrategy"], SURGE);
            report.not_supported_shown("spec.updateStrategy", &shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

fn stateful_set_update(object: &Value, previous: &Value, report: &mut Report) {
    let strip = |object: &Value| {
        let mut spec = object["spec"].clone();
        let free = [
            "replicas",
            "ordinals",
            "template",
            "updateStrategy",
            "revisionHistoryLimit",
            "persistentVolumeClaimRetentionPolicy",
            "minReadySeconds",
        ];
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|name, _| !free.contains(&name.as_str()));
        }
        spec
    };
    if strip(object) != strip(previous) {
        report.forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        );
    }
}

/// Validates a replication controller. Its selector is a plain map.
pub(super) fn replication_controller(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    report.none_negative("spec", spec, &["replicas", "minReadySeconds"]);
    let selector = spec["selector"].as_object();
    if selector.is_none_or(serde_json::Map::is_empty) {
        report.required("spec.selector");
    }
    if !spec["template"].is_object() {
        report.required(TEMPLATE);
        return;
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !selector.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value)) {
        report.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`");
    }
    pods::template(&spec["template"], TEMPLATE, report);
    runs_on(spec, "ReplicationController", report);
}
