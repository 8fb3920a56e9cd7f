//! Validates volume claims, volumes, storage classes and drivers, like `ValidatePersistentVolumeSpec` and
//! `ValidatePersistentVolumeClaimSpec` in `pkg/apis/core/validation/validation.go`, and
//! `pkg/apis/storage/validation/validation.go`, of Kubernetes 1.36.3.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::pods::{scheduling, volumes};
use super::report::Report;
use super::table::{self, Check, FieldRule, is_empty};
use crate::object::{self, names, text};
use crate::schema::typed::quantity;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const CLASS_NAME: Check = Check::Name(names::check_subdomain);
const CLAIM: &[FieldRule] = &[
    ("selector", Check::Selector),
    ("storageClassName", CLASS_NAME),
    ("volumeMode", Check::OneOf(&["Block", "Filesystem"])),
    ("volumeAttributesClassName", CLASS_NAME),
    ("dataSource.name", Check::Required),
    ("dataSource.kind", Check::Required),
    ("dataSource.apiGroup", CLASS_NAME),
    ("dataSourceRef.name", Check::Required),
    ("dataSourceRef.kind", Check::Required),
    ("dataSourceRef.apiGroup", CLASS_NAME),
    ("dataSourceRef.namespace", Check::Name(names::check_dns_label)),
];
const VOLUME: &[FieldRule] = &[
    ("persistentVolumeReclaimPolicy", Check::OneOf(&["Delete", "Recycle", "Retain"])),
    ("storageClassName", CLASS_NAME),
    ("volumeMode", Check::OneOf(&["Block", "Filesystem"])),
    ("volumeAttributesClassName", CLASS_NAME),
];

pub(super) fn claim(object: &Value, previous: Option<&Value>, report: &mut Report) {
    claim_spec(&object["spec"], "spec", report);
    if let Some(previous) = previous {
        claim_update(object, previous, report);
    }
}

/// Validates the spec of a claim or of a claim template.
pub(super) fn claim_spec(spec: &Value, field: &str, report: &mut Report) {
    if object::items(spec, "/accessModes").is_empty() {
        report.required_because(format!("{field}.accessModes"), "at least 1 access mode is required");
    }
    access_modes(spec, field, report);
    let place = format!("{field}.resources[storage]");
    match spec.pointer("/resources/requests/storage") {
        None => report.required(place),
        Some(size) if !quantity::compare(size, &json!("0")).is_gt() => {
            report.invalid(place, size, "must be greater than zero");
        }
        Some(_) => {}
    }
    table::check(CLAIM, spec, field, report);
    for name in ["dataSource", "dataSourceRef"] {
        let source = &spec[name];
        if source.is_object() && is_empty(&source["apiGroup"]) && source["kind"] != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            report.invalid(format!("{field}.{name}"), &json!(text(source, "/kind")), why);
        }
    }
    let (source, reference) = (&spec["dataSource"], &spec["dataSourceRef"]);
    if source.is_object() && reference.is_object() {
        // A real server shows a path as the value by mistake, and prints it as an empty object.
        if !text(reference, "/namespace").is_empty() {
            report.invalid_shown(field, "{}", "may not be specified when dataSourceRef.namespace is specified");
        } else if ["apiGroup", "kind", "name"].iter().any(|key| source[*key] != reference[*key]) {
            report.invalid_shown(field, "{}", "must match dataSourceRef");
        }
    }
}

fn claim_update(object: &Value, before: &Value, report: &mut Report) {
    let (spec, previous) = (&object["spec"], &before["spec"]);
    let is_bound = object["status"]["phase"] == "Bound";
    let had_volume = !text(previous, "/volumeName").is_empty();
    let strip = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            if is_bound {
                fields.remove("volumeAttributesClassName");
                fields.remove("resources");
            }
            if !had_volume {
                fields.remove("volumeName");
            }
        }
        spec
    };
    if strip(spec) != strip(previous) {
        let why =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        report.forbidden("spec", why);
    }
    let size = |object: &Value, path: &str| object.pointer(path).cloned().unwrap_or_else(|| json!("0"));
    let (now, was) = (size(spec, "/resources/requests/storage"), size(previous, "/resources/requests/storage"));
    let reached = size(before, "/status/capacity/storage");
    if quantity::compare(&now, &was).is_lt() && !quantity::compare(&now, &reached).is_gt() {
        report.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    immutable_mode(spec, previous, report);
}

/// Refuses a change of `volumeMode`. As in a real server, the path in the error lacks its beginning.
fn immutable_mode(spec: &Value, previous: &Value, report: &mut Report) {
    if spec["volumeMode"] != previous["volumeMode"] {
        report.invalid("volumeMode", &spec["volumeMode"], "field is immutable");
    }
}

fn access_modes(spec: &Value, field: &str, report: &mut Report) {
    let modes = object::strings(spec, "/accessModes");
    for mode in object::items(spec, "/accessModes") {
        report.one_of(&format!("{field}.accessModes"), mode, &ACCESS_MODES);
    }
    let is_other = |mode: &&str| *mode != "ReadWriteOncePod" && ACCESS_MODES.contains(mode);
    if modes.contains(&"ReadWriteOncePod") && modes.iter().any(is_other) {
        let why = "may not use ReadWriteOncePod with other access modes";
        report.forbidden(format!("{field}.accessModes"), why);
    }
}

pub(super) fn volume(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    if object::items(spec, "/accessModes").is_empty() {
        report.required("spec.accessModes");
    }
    access_modes(spec, "spec", report);
    capacity(&spec["capacity"], report);
    table::check(VOLUME, spec, "spec", report);
    let affinity = &spec["nodeAffinity"];
    if affinity["required"].is_object() {
        scheduling::node_selector(&affinity["required"], "spec.nodeAffinity.required", report);
    } else if affinity.is_object() {
        report.required_because("spec.nodeAffinity.required", "must specify required node constraints");
    }
    match volumes::sources(volumes::PERSISTENT, spec, "spec", report) {
        None => report.required_because("spec", "must specify a volume type"),
        Some("local") if !affinity.is_object() => {
            report.required_because("spec.nodeAffinity", "Local volume requires node affinity");
        }
        Some(_) => {}
    }
    let class = &spec["volumeAttributesClassName"];
    if class.is_string() && is_empty(class) {
        report.required_because("spec.volumeAttributesClassName", "an empty string is disallowed");
    }
    if class.is_string() && !spec["csi"].is_object() {
        report.required_because("spec.csi", "has to be specified when using volumeAttributesClassName");
    }
    if let Some(previous) = previous {
        volume_update(spec, &previous["spec"], report);
    }
}

fn capacity(capacity: &Value, report: &mut Report) {
    if is_empty(capacity) {
        report.required("spec.capacity");
    }
    if capacity.get("storage").is_none() || capacity.as_object().is_some_and(|map| map.len() > 1) {
        let shown = if capacity.is_null() { "null".to_owned() } else { capacity.to_string() };
        report.not_supported_shown("spec.capacity", &shown, &["storage"]);
    }
    for (name, amount) in capacity.as_object().into_iter().flatten() {
        let field = format!("spec.capacity[{name}]");
        if quantity::compare(amount, &json!("0")).is_lt() {
            // The error shows the amount without quotes.
            let shown = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            report.invalid_shown(&field, &shown, "must be a valid resource quantity");
        }
        if !quantity::compare(amount, &json!("0")).is_gt() {
            report.invalid(&field, amount, "must be greater than zero");
        }
    }
}

fn volume_update(spec: &Value, previous: &Value, report: &mut Report) {
    let is_changed = volumes::PERSISTENT.iter().any(|source| {
        let name = source.name();
        let mut now = spec[name].clone();
        // The secret for expansion is an exception: it may be added later.
        if name == "csi" && previous[name]["controllerExpandSecretRef"].is_null() && now.is_object() {
            object::as_map_mut(&mut now).remove("controllerExpandSecretRef");
        }
        now != previous[name]
    });
    if is_changed {
        report.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation");
    }
    immutable_mode(spec, previous, report);
    if !previous["nodeAffinity"].is_null() && spec["nodeAffinity"] != previous["nodeAffinity"] {
        let why = "field is immutable, except for updating from beta label to GA";
        report.invalid("nodeAffinity", &spec["nodeAffinity"], why);
    }
    let class = "volumeAttributesClassName";
    if spec[class].is_null() && !previous[class].is_null() {
        report.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden");
    }
}

const CLASS_FIELDS: [&str; 4] = ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"];

pub(super) fn storage_class(object: &Value, previous: Option<&Value>, report: &mut Report) {
    if text(object, "/provisioner").is_empty() {
        report.required("provisioner");
    } else {
        for why in names::label_key_errors(&text(object, "/provisioner").to_lowercase()) {
            report.invalid("provisioner", &object["provisioner"], &why);
        }
    }
    report.one_of("reclaimPolicy", &object["reclaimPolicy"], &["Delete", "Retain"]);
    report.one_of("volumeBindingMode", &object["volumeBindingMode"], &["Immediate", "WaitForFirstConsumer"]);
    if object["parameters"].get("").is_some() {
        report.invalid("parameters", &json!(""), "field can not be empty.");
    }
    for (index, topology) in object::items(object, "/allowedTopologies").iter().enumerate() {
        for (position, expression) in object::items(topology, "/matchLabelExpressions").iter().enumerate() {
            let place = format!("allowedTopologies[{index}].matchLabelExpressions[{position}]");
            let values = object::items(expression, "/values");
            if values.is_empty() {
                report.required(format!("{place}.values"));
            }
            let mut seen = HashSet::new();
            for (at, value) in values.iter().enumerate().filter(|(_, value)| !seen.insert(*value)) {
                report.duplicate(format!("{place}.values[{at}]"), value);
            }
            report.qualified(&format!("{place}.key"), text(expression, "/key"));
        }
    }
    for field in CLASS_FIELDS {
        report.immutable(field, object, previous);
    }
}

pub(super) fn attributes_class(object: &Value, previous: Option<&Value>, report: &mut Report) {
    volumes::driver(&object["driverName"], "driverName", report);
    if is_empty(&object["parameters"]) {
        report.required_because("parameters", "must contain at least one key/value pair");
    }
    for field in ["driverName", "parameters"] {
        if previous.is_some_and(|previous| previous[field] != object[field]) {
            report.forbidden(field, &format!("updates to {field} are forbidden."));
        }
    }
}

/// Validates the properties of a CSI driver.
pub(super) fn driver(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    report.one_of("spec.fsGroupPolicy", &spec["fsGroupPolicy"], &["File", "None", "ReadWriteOnceWithFSType"]);
    for mode in object::items(spec, "/volumeLifecycleModes") {
        report.one_of("spec.volumeLifecycleModes", mode, &["Persistent", "Ephemeral"]);
    }
}

pub(super) fn attachment(object: &Value, report: &mut Report) {
    let (spec, source) = (&object["spec"], &object["spec"]["source"]);
    volumes::driver(&spec["attacher"], "spec.attacher", report);
    if let Err(why) = names::check_subdomain(text(spec, "/nodeName")) {
        report.invalid("spec.nodeName", &json!(text(spec, "/nodeName")), &why);
    }
    let name = &source["persistentVolumeName"];
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (source["inlineVolumeSpec"].is_object(), name.is_null()) {
        (false, true) => report.required_because("spec.source", why),
        (true, false) => report.forbidden("spec.source", why),
        (false, false) if is_empty(name) => {
            let why = "must specify non empty persistentVolumeName";
            report.required_because("spec.source.persistentVolumeName", why);
        }
        _ => {}
    }
    if let Some(Err(why)) = name.as_str().map(names::check_subdomain) {
        report.invalid("spec.source.persistentVolumeName", name, &why);
    }
}
