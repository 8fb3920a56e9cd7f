//! Validates containers of pods, like `validateContainerCommon` and related functions in
//! `pkg/apis/core/validation/validation.go` of Kubernetes 1.36.3.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::report::{Report, members};
use super::super::table::{self, Check, FieldRule, is_empty};
use super::{Pod, fields, resources, security};
use crate::object::{self, names, text};
use Check::{Named, OneOf, Required};

const RULES: &[FieldRule] = &[
    ("name", Named(names::check_dns_label)),
    ("image", Required),
    ("terminationMessagePolicy", OneOf(&["File", "FallbackToLogsOnError"])),
    ("imagePullPolicy", OneOf(&["Always", "IfNotPresent", "Never"])),
    ("ports[].protocol", OneOf(&["SCTP", "TCP", "UDP"])),
    ("ports[].hostPort", Check::RangeOr(0, 65_535, "must be between 1 and 65535, inclusive")),
    ("volumeMounts[].mountPath", Required),
];
const RESTART: &[FieldRule] = &[
    ("restartPolicy", OneOf(&["Always", "Never", "OnFailure"])),
    ("restartPolicyRules[].exitCodes.operator", Check::Either(&["In", "NotIn"])),
    ("restartPolicyRules[].exitCodes", Check::Present("must be specified")),
    ("restartPolicyRules[].action", Check::Either(&["Restart", "RestartAllContainers"])),
];
const MUST_BE_ONE: Check = Check::RangeOr(1, 1, "must be 1");
const PROBE: &[FieldRule] = &[
    ("initialDelaySeconds", Check::NotNegative),
    ("timeoutSeconds", Check::NotNegative),
    ("periodSeconds", Check::NotNegative),
    ("successThreshold", Check::NotNegative),
    ("failureThreshold", Check::NotNegative),
    ("terminationGracePeriodSeconds", Check::RangeOr(1, i64::MAX, "must be greater than 0")),
];
const HTTP: &[FieldRule] = &[("path", Required), ("scheme", OneOf(&["HTTP", "HTTPS"]))];
const NAMED: Check = Check::Always(names::check_subdomain);
const NOT_EPHEMERAL: [&str; 9] = [
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "startupProbe",
];
const ENVIRONMENT: &[FieldRule] = &[
    ("valueFrom.configMapKeyRef.name", NAMED),
    ("valueFrom.configMapKeyRef.key", Named(super::super::stored::check_key)),
    ("valueFrom.secretKeyRef.name", NAMED),
    ("valueFrom.secretKeyRef.key", Named(super::super::stored::check_key)),
    ("valueFrom.fileKeyRef.volumeName", Named(names::check_dns_label)),
    ("valueFrom.fileKeyRef.key", Named(check_variable)),
    ("valueFrom.fileKeyRef.path", Required),
    ("valueFrom.fileKeyRef.path", Check::NoBacksteps),
];
const ENVIRONMENT_FROM: &[FieldRule] = &[
    ("prefix", Check::Name(check_variable)),
    ("configMapRef.name", Named(names::check_subdomain)),
    ("secretRef.name", Named(names::check_subdomain)),
];

/// Checks the rules that apply to containers of all kinds.
pub(super) fn common(container: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    table::check(RULES, container, place, report);
    ports(container, place, report);
    environment(container, place, pod, report);
    environment_from(container, place, report);
    mounts(container, place, pod, report);
    devices(container, place, pod, report);
    resources::check(&container["resources"], &format!("{place}.resources"), pod, report);
    resize_policies(container, place, pod, report);
    security::container(&container["securityContext"], &format!("{place}.securityContext"), pod, report);
}

/// Refuses fields that ephemeral containers must not have, like `validateEphemeralContainers`.
pub(super) fn ephemeral(container: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    let why = "cannot be set for an Ephemeral Container";
    // `resources` is always present, so only a non-empty value means that the author has set it.
    let is_given = |name: &str| !container[name].is_null() && (name != "resources" || !is_empty(&container[name]));
    for name in NOT_EPHEMERAL.iter().filter(|name| is_given(name)) {
        report.forbidden(format!("{place}.{name}"), why);
    }
    for (index, mount) in object::items(container, "/volumeMounts").iter().enumerate() {
        for name in ["subPath", "subPathExpr"].into_iter().filter(|name| !is_empty(&mount[*name])) {
            report.forbidden(format!("{place}.volumeMounts[{index}].{name}"), why);
        }
    }
    let target = text(container, "/targetContainerName");
    if !target.is_empty() && !pod.containers.contains(target) {
        report.not_found(format!("{place}.targetContainerName"), &json!(target));
    }
}

/// Validates probes and hooks. An init container may have them only if it keeps running.
pub(super) fn lifecycle(container: &Value, place: &str, is_init: bool, pod: &Pod<'_>, report: &mut Report) {
    if is_init && text(container, "/restartPolicy") != "Always" {
        let why = "may not be set for init containers without restartPolicy=Always";
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container[name].is_object() {
                report.forbidden(format!("{place}.{name}"), why);
            }
        }
        return;
    }
    for hook in ["postStart", "preStop"] {
        let handler = &container["lifecycle"][hook];
        if handler.is_object() {
            handlers(handler, &format!("{place}.lifecycle.{hook}"), pod, report);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let (probe, place) = (&container[name], format!("{place}.{name}"));
        if !probe.is_object() {
            continue;
        }
        handlers(probe, &place, pod, report);
        table::check(PROBE, probe, &place, report);
        let grace = &probe["terminationGracePeriodSeconds"];
        if name != "readinessProbe" {
            table::check(&[("successThreshold", MUST_BE_ONE)], probe, &place, report);
        } else if !grace.is_null() {
            let why = "must not be set for readinessProbes";
            report.invalid(format!("{place}.terminationGracePeriodSeconds"), grace, why);
        }
    }
}

/// Checks that host ports are unique within a list of containers.
pub(super) fn host_ports<'a>(containers: impl Iterator<Item = (usize, &'a Value)>, field: &str, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (at, container) in containers {
        for (index, port) in object::items(container, "/ports").iter().enumerate() {
            let number = port["hostPort"].as_i64().unwrap_or(0);
            let shown = format!("{}/{}/{number}", text(port, "/protocol"), text(port, "/hostIP"));
            if number != 0 && !seen.insert(shown.clone()) {
                report.duplicate(format!("{field}[{at}].ports[{index}].hostPort"), &json!(shown));
            }
        }
    }
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
    }
}

/// Checks the name of a variable, like `IsRelaxedEnvVarName`.
fn check_variable(name: &str) -> Result<(), String> {
    let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
    let is_valid = name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    is_valid.then_some(()).ok_or_else(|| why.to_owned())
}

fn environment(container: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    for (index, variable) in object::items(container, "/env").iter().enumerate() {
        let place = format!("{place}.env[{index}]");
        report.name(&format!("{place}.name"), &variable["name"], check_variable);
        let from = &variable["valueFrom"];
        if !from.is_object() {
            continue;
        }
        table::check(ENVIRONMENT, variable, &place, report);
        let place = format!("{place}.valueFrom");
        if from["fieldRef"].is_object() {
            fields::object_field(&from["fieldRef"], &format!("{place}.fieldRef"), fields::OF_VARIABLES, report);
        }
        if from["resourceFieldRef"].is_object() {
            fields::resource_field(&from["resourceFieldRef"], &format!("{place}.resourceFieldRef"), false, report);
        }
        file_volume(&from["fileKeyRef"], &place, pod, report);
        let sources = members(from, &[]);
        if sources.is_empty() {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            report.invalid(&place, &json!(""), why);
        } else if !text(variable, "/value").is_empty() {
            report.invalid(&place, &json!(""), "may not be specified when `value` is not empty");
        } else if sources.len() > 1 {
            report.invalid(&place, &json!(""), "may not have more than one field specified at a time");
        }
    }
}

/// Checks the volume of a `fileKeyRef`, like `validateFileKeyRefVolumes`.
fn file_volume(reference: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    if !reference.is_object() {
        return;
    }
    let (name, field) = (text(reference, "/volumeName"), format!("{place}.fileKeyRef.volumeName"));
    match pod.named_volumes.get(name) {
        None => report.not_found(field, &json!(name)),
        Some(volume) if volume["emptyDir"].is_object() => {}
        Some(_) => report.invalid(field, &json!(name), "referenced volume must be of type emptyDir"),
    }
}

fn environment_from(container: &Value, place: &str, report: &mut Report) {
    let list = format!("{place}.envFrom");
    for (index, from) in object::items(container, "/envFrom").iter().enumerate() {
        table::check(ENVIRONMENT_FROM, from, &format!("{list}[{index}]"), report);
        match members(from, &[]).len() {
            0 => report.invalid(&list, &json!(""), "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => report.invalid(&list, &json!(""), "may not have more than one field specified at a time"),
        }
    }
}

/// The values of the text field `name` in all items of a list.
fn texts<'a>(container: &'a Value, list: &str, name: &str) -> BTreeSet<&'a str> {
    object::items(container, list).iter().map(|item| text(item, name)).collect()
}

fn mounts(container: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    let list = format!("{place}.volumeMounts");
    let devices = texts(container, "/volumeDevices", "/name");
    let device_paths = texts(container, "/volumeDevices", "/devicePath");
    let mut seen = BTreeSet::new();
    for (index, mount) in object::items(container, "/volumeMounts").iter().enumerate() {
        let place = format!("{list}[{index}]");
        let (name, path) = (text(mount, "/name"), text(mount, "/mountPath"));
        if name.is_empty() {
            report.required(format!("{place}.name"));
        }
        if !pod.volumes.contains_key(name) {
            report.not_found(format!("{place}.name"), &json!(name));
        }
        if !seen.insert(path) {
            report.invalid(format!("{place}.mountPath"), &json!(path), "must be unique");
        }
        if devices.contains(name) {
            report.invalid(format!("{place}.name"), &json!(name), "must not already exist in volumeDevices");
        }
        if device_paths.contains(path) {
            let why = "must not already exist as a path in volumeDevices";
            report.invalid(format!("{place}.mountPath"), &json!(path), why);
        }
        // As in a real server, some errors name the list instead of the mount.
        report.descending_path(&format!("{list}.subPath"), &mount["subPath"]);
        if !text(mount, "/subPathExpr").is_empty() && !text(mount, "/subPath").is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            report.invalid(format!("{place}.subPathExpr"), &mount["subPathExpr"], why);
        }
        report.descending_path(&format!("{list}.subPathExpr"), &mount["subPathExpr"]);
        propagation(mount, &list, container, report);
    }
}

fn propagation(mount: &Value, list: &str, container: &Value, report: &mut Report) {
    let (field, value) = (format!("{list}.mountPropagation"), &mount["mountPropagation"]);
    report.one_of(&field, value, &["Bidirectional", "HostToContainer", "None"]);
    if value == "Bidirectional" && container["securityContext"]["privileged"] != json!(true) {
        report.forbidden(&field, "Bidirectional mount propagation is available only to privileged containers");
    }
    let (field, recursive) = (format!("{list}.recursiveReadOnly"), &mount["recursiveReadOnly"]);
    report.one_of(&field, recursive, &["Disabled", "Enabled", "IfPossible"]);
    if ["Enabled", "IfPossible"].contains(&recursive.as_str().unwrap_or_default()) {
        if mount["readOnly"] != json!(true) {
            report.forbidden(&field, "may only be specified when readOnly is true");
        }
        if value.as_str().is_some_and(|value| value != "None") {
            report.forbidden(&field, "may only be specified when mountPropagation is None or not specified");
        }
    }
}

fn devices(container: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    let mounts = texts(container, "/volumeMounts", "/name");
    let mount_paths = texts(container, "/volumeMounts", "/mountPath");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in object::items(container, "/volumeDevices").iter().enumerate() {
        let place = format!("{place}.volumeDevices[{index}]");
        let (name, path) = (text(device, "/name"), text(device, "/devicePath"));
        let (at_name, at_path) = (format!("{place}.name"), format!("{place}.devicePath"));
        table::check(&[("name", Required), ("devicePath", Required)], device, &place, report);
        match pod.volumes.get(name) {
            None => report.not_found(&at_name, &json!(name)),
            Some(volume) if volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object() => {}
            Some(_) => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                report.invalid(&at_name, &json!(name), why);
            }
        }
        if !name.is_empty() && !names.insert(name) {
            report.invalid(&at_name, &json!(name), "must be unique");
        }
        if !paths.insert(path) {
            report.invalid(&at_path, &json!(path), "must be unique");
        }
        if path.split('/').any(|part| part == "..") {
            report.invalid(&at_path, &json!(path), "can not contain backsteps ('..')");
        }
        if mounts.contains(name) {
            report.invalid(&at_name, &json!(name), "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path) {
            report.invalid(&at_path, &json!(path), "must not already exist as a path in volumeMounts");
        }
    }
}

fn resize_policies(container: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
    let field = format!("{place}.resizePolicy");
    for policy in object::items(container, "/resizePolicy") {
        for (name, allowed) in
            [("resourceName", ["cpu", "memory"]), ("restartPolicy", ["NotRequired", "RestartContainer"])]
        {
            if is_empty(&policy[name]) {
                report.required(&field);
            } else {
                report.one_of(&field, &policy[name], &allowed);
            }
        }
        if pod.spec["restartPolicy"] == "Never" && policy["restartPolicy"] != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            report.invalid(&field, &policy["restartPolicy"], why);
        }
    }
}

/// Validates a restart policy, like `validateContainerRestartPolicy` and `validateInitContainerRestartPolicy`.
pub(super) fn restart_policy(container: &Value, place: &str, is_init: bool, report: &mut Report) {
    let is_given = !container["restartPolicy"].is_null();
    if !is_given && !is_empty(&container["restartPolicyRules"]) {
        let why = "must specify restartPolicy when restart rules are used";
        report.required_because(format!("{place}.restartPolicy"), why);
    }
    if is_given || !is_init {
        table::check(RESTART, container, place, report);
    }
}

/// Checks that a probe or hook has exactly one handler, and validates the handler.
fn handlers(parent: &Value, place: &str, pod: &Pod<'_>, report: &mut Report) {
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
        let (handler, field) = (&parent[*kind], format!("{place}.{kind}"));
        match *kind {
            "exec" => table::check(&[("command", Required)], handler, &field, report),
            "httpGet" => {
                table::check(HTTP, handler, &field, report);
                report.port_or_name(&format!("{field}.port"), &handler["port"]);
                http_headers(handler, &field, report);
            }
            "tcpSocket" => report.port_or_name(&format!("{field}.port"), &handler["port"]),
            "grpc" => report.port(&format!("{field}.port"), &handler["port"]),
            _ => {
                let (seconds, grace) = (handler["seconds"].as_i64().unwrap_or(0), pod.grace());
                if seconds < 0 || seconds > grace {
                    let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    report.invalid(field, &json!(seconds), &why);
                }
            }
        }
    }
}

fn http_headers(handler: &Value, field: &str, report: &mut Report) {
    let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for \
               validation is '[-A-Za-z0-9]+')";
    for header in object::items(handler, "/httpHeaders") {
        let name = text(header, "/name");
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            report.invalid(format!("{field}.httpHeaders"), &json!(name), why);
        }
    }
}
