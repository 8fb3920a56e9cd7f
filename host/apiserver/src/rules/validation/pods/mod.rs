//! Validates pod specs in pods and in templates, like `ValidatePodSpec` in `pkg/apis/core/validation/validation.go` of
//! Kubernetes 1.36.3. Each file names the functions in Kubernetes whose rules it implements.

mod containers;
mod fields;
pub(super) mod resources;
pub(super) mod scheduling;
mod security;
mod update;
pub(super) mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

pub(super) use update::check as update;

use super::metadata::annotations;
use super::report::{Report, members};
use super::table::{self, Check, FieldRule, is_empty};
use crate::object::{self, names, text};
use Check::{Name, Named, OneOf, Text};

const NAMED: Check = Name(names::check_subdomain);
const RULES: &[FieldRule] = &[
    ("restartPolicy", OneOf(&["Always", "OnFailure", "Never"])),
    ("dnsPolicy", OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"])),
    ("nodeSelector", Check::Labels),
    ("activeDeadlineSeconds", Check::Range(1, i32::MAX as i64)),
    ("serviceAccountName", NAMED),
    ("nodeName", NAMED),
    ("priorityClassName", NAMED),
    ("runtimeClassName", Text(names::check_subdomain)),
    ("hostnameOverride", Text(names::check_subdomain)),
    ("hostname", Name(names::check_dns_label)),
    ("subdomain", Name(names::check_dns_label)),
    ("hostAliases[].hostnames[]", Text(names::check_subdomain)),
    ("dnsConfig.searches[]", Text(check_search)),
    ("resourceClaims[].name", Named(names::check_dns_label)),
    ("resourceClaims[].resourceClaimName", Text(names::check_subdomain)),
    ("resourceClaims[].resourceClaimTemplateName", Text(names::check_subdomain)),
];
const NAMESERVERS_MAX: usize = 3;
const HOSTNAME_BYTES_MAX: usize = 64;

/// A pod spec, with names that rules about its parts refer to.
struct Pod<'a> {
    spec: &'a Value,
    /// The valid volumes by their names.
    volumes: BTreeMap<&'a str, &'a Value>,
    /// All volumes by their names, even invalid ones. If a name is repeated, the first volume.
    named_volumes: BTreeMap<&'a str, &'a Value>,
    /// The names of containers that are not ephemeral.
    containers: BTreeSet<&'a str>,
    /// The names of the pod's resource claims.
    claims: BTreeSet<&'a str>,
}

impl Pod<'_> {
    /// The termination grace period in seconds.
    fn grace(&self) -> i64 {
        self.spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30)
    }
}

/// Validates a pod. Ephemeral containers can be added only through their subresource; later writes may contain them.
pub(super) fn pod(subresource: &str, object: &Value, previous: Option<&Value>, report: &mut Report) {
    let pod = &object["spec"];
    spec(pod, "spec", report);
    images(pod, report);
    tokens(pod, report);
    for list in ["containers", "initContainers"] {
        for (index, container) in object::items(pod, &format!("/{list}")).iter().enumerate() {
            let image = text(container, "/image");
            if image.trim() != image {
                let why = "must not have leading or trailing whitespace";
                report.invalid(format!("spec.{list}[{index}].image"), &container["image"], why);
            }
        }
    }
    host_network(pod, "spec", true, report);
    if let Some(previous) = previous {
        return update(subresource, object, previous, report);
    }
    if !is_empty(&pod["ephemeralContainers"]) {
        report.forbidden("spec.ephemeralContainers", "cannot be set on create");
    }
    if !text(pod, "/nodeName").is_empty() && !is_empty(&pod["schedulingGates"]) {
        report.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared");
    }
}

/// Checks that a pod with a projected token names its service account.
fn tokens(pod: &Value, report: &mut Report) {
    for (index, volume) in object::items(pod, "/volumes").iter().enumerate() {
        for (position, source) in object::items(volume, "/projected/sources").iter().enumerate() {
            if source["serviceAccountToken"].is_object() && text(pod, "/serviceAccountName").is_empty() {
                let place = format!("spec.volumes[{index}].projected.sources[{position}].serviceAccountToken");
                report.forbidden(place, "must not be specified when serviceAccountName is not set");
            }
        }
    }
}

/// Checks that image volumes have a reference, like `validateImageVolumeSource`. Only templates may omit it.
fn images(pod: &Value, report: &mut Report) {
    for (index, volume) in object::items(pod, "/volumes").iter().enumerate() {
        let is_source = members(volume, &[]) == ["image"];
        if is_source && text(volume, "/image/reference").is_empty() {
            report.required(format!("spec.volumes[{index}].image.reference"));
        }
    }
}

/// Validates a pod template, like `ValidatePodTemplateSpec`.
pub(super) fn template(template: &Value, field: &str, report: &mut Report) {
    report.labels(&format!("{field}.labels"), &template["metadata"]["labels"]);
    annotations(&template["metadata"]["annotations"], &format!("{field}.annotations"), &mut report.0);
    let place = format!("{field}.spec");
    spec(&template["spec"], &place, report);
    host_network(&template["spec"], &place, false, report);
    if !is_empty(&template["spec"]["ephemeralContainers"]) {
        report.forbidden(format!("{place}.ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
}

/// Validates the spec of a pod or template at `field`.
fn spec(spec: &Value, field: &str, report: &mut Report) {
    let volumes = volumes::check(spec, field, report);
    let claims = object::items(spec, "/resourceClaims").iter().map(|claim| text(claim, "/name"));
    let containers = ["/containers", "/initContainers"].into_iter().flat_map(|list| object::items(spec, list));
    let pod = Pod {
        spec,
        volumes,
        named_volumes: object::items(spec, "/volumes")
            .iter()
            .rev()
            .map(|volume| (text(volume, "/name"), volume))
            .collect(),
        containers: containers.map(|container| text(container, "/name")).collect(),
        claims: claims.filter(|name| !name.is_empty()).collect(),
    };
    all_containers(&pod, field, report);
    table::check(RULES, spec, field, report);
    resource_claims(spec, field, report);
    gates(spec, field, report);
    names_and_addresses(spec, field, report);
    if is_empty(&spec["preemptionPolicy"]) && spec["preemptionPolicy"].is_string() {
        report.required(format!("{field}.preemptionPolicy"));
    } else {
        let policies = ["PreemptLowerPriority", "Never"];
        report.one_of(&format!("{field}.preemptionPolicy"), &spec["preemptionPolicy"], &policies);
    }
    scheduling::check(spec, field, report);
    security::pod(&spec["securityContext"], &format!("{field}.securityContext"), &pod, report);
    security::of_system(spec, field, report);
    resources::overhead(&spec["overhead"], &format!("{field}.overhead"), report);
    if spec["resources"].is_object() {
        if spec["os"]["name"] == "windows" {
            report.forbidden(format!("{field}.resources"), "may not be set for a windows pod");
        } else {
            resources::of_pod(&spec["resources"], &format!("{field}.resources"), &pod, report);
        }
    }
}

fn all_containers(pod: &Pod<'_>, field: &str, report: &mut Report) {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let all = object::items(pod.spec, "/containers");
    if all.is_empty() {
        report.required(format!("{field}.containers"));
    }
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for (index, container) in object::items(pod.spec, &format!("/{list}")).iter().enumerate() {
            let place = format!("{field}.{list}[{index}]");
            containers::common(container, &place, pod, report);
            let name = text(container, "/name");
            if !seen.insert(name) && (!name.is_empty() || list == "containers") {
                report.duplicate(format!("{place}.name"), &json!(name));
            }
            if list == "ephemeralContainers" {
                containers::ephemeral(container, &place, pod, report);
            } else {
                let is_init = list == "initContainers";
                containers::restart_policy(container, &place, is_init, report);
                containers::lifecycle(container, &place, is_init, pod, report);
            }
        }
    }
    containers::host_ports(all.iter().enumerate(), &format!("{field}.containers"), report);
}

/// Checks the rules of `validatePodResourceClaim` that are about several fields.
fn resource_claims(spec: &Value, field: &str, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, claim) in object::items(spec, "/resourceClaims").iter().enumerate() {
        let place = format!("{field}.resourceClaims[{index}]");
        let (name, template) = (&claim["resourceClaimName"], &claim["resourceClaimTemplateName"]);
        let own = json!(text(claim, "/name"));
        let shown = format!("{{\"Name\":{own},\"ResourceClaimName\":{name},\"ResourceClaimTemplateName\":{template}}}");
        match (name.is_null(), template.is_null()) {
            (false, false) => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                report.invalid_shown(&place, &shown, why);
            }
            (true, true) => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                report.invalid_shown(&place, &shown, why);
            }
            _ => {}
        }
        if own != "" && !seen.insert(text(claim, "/name")) {
            report.duplicate(format!("{place}.name"), &own);
        }
    }
}

/// Validates readiness gates and scheduling gates.
fn gates(spec: &Value, field: &str, report: &mut Report) {
    for (index, gate) in object::items(spec, "/readinessGates").iter().enumerate() {
        report.qualified(&format!("{field}.readinessGates[{index}].conditionType"), text(gate, "/conditionType"));
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in object::items(spec, "/schedulingGates").iter().enumerate() {
        let place = format!("{field}.schedulingGates[{index}]");
        let name = text(gate, "/name");
        report.qualified(&place, name);
        if !seen.insert(name) {
            report.duplicate(&place, &json!(name));
        }
    }
}

/// Validates host names, host aliases and DNS settings.
fn names_and_addresses(spec: &Value, field: &str, report: &mut Report) {
    let (name, place) = (&spec["hostnameOverride"], format!("{field}.hostnameOverride"));
    if let Some(text) = name.as_str() {
        if spec["setHostnameAsFQDN"] == json!(true) {
            report.forbidden(&place, "may not be specified when setHostnameAsFQDN is true");
        }
        if spec["hostNetwork"] == json!(true) {
            report.forbidden(&place, "may not be specified when hostNetwork is true");
        }
        if text.len() > HOSTNAME_BYTES_MAX {
            report.too_long(&place, HOSTNAME_BYTES_MAX);
        }
    }
    for (index, alias) in object::items(spec, "/hostAliases").iter().enumerate() {
        report.ip(&format!("{field}.hostAliases[{index}].ip"), &alias["ip"]);
    }
    let (dns, place) = (&spec["dnsConfig"], format!("{field}.dnsConfig"));
    let servers = object::items(dns, "/nameservers");
    if spec["dnsPolicy"] == "None" && !dns.is_object() {
        return report.required_because(place, "must provide `dnsConfig` when `dnsPolicy` is None");
    }
    if spec["dnsPolicy"] == "None" && servers.is_empty() {
        let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
        return report.required_because(format!("{place}.nameservers"), why);
    }
    if servers.len() > NAMESERVERS_MAX {
        let why = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        report.invalid(format!("{place}.nameservers"), &dns["nameservers"], &why);
    }
    for (index, server) in servers.iter().enumerate() {
        report.ip(&format!("{place}.nameservers[{index}]"), server);
    }
    for (index, option) in object::items(dns, "/options").iter().enumerate() {
        if text(option, "/name").is_empty() {
            report.required_because(format!("{place}.options[{index}]"), "must not be empty");
        }
    }
}

/// Checks a DNS search path, like `ValidateDNS1123SubdomainWithUnderScore`.
fn check_search(path: &str) -> Result<(), String> {
    const WHY: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
                       and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                       validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
    if path == "." {
        return Ok(());
    }
    let path = path.strip_suffix('.').unwrap_or(path);
    // An underscore is allowed at the beginning of a label, and within a label like a hyphen.
    let label = |label: &str| label.strip_prefix('_').unwrap_or(label).replace('_', "-");
    let plain: Vec<String> = path.split('.').map(label).collect();
    names::check_subdomain(&plain.join(".")).map_err(|why| if path.len() > 253 { why } else { WHY.to_owned() })
}

/// Checks the ports of a pod in the host network, like `validatePodHostNetworkDeps`. A template may omit host ports.
fn host_network(spec: &Value, field: &str, is_pod: bool, report: &mut Report) {
    if spec["hostNetwork"] != json!(true) {
        return;
    }
    for (at, container) in object::items(spec, "/containers").iter().enumerate() {
        for (index, port) in object::items(container, "/ports").iter().enumerate() {
            let number = |name: &str| port[name].as_i64().unwrap_or(0);
            if (is_pod || number("hostPort") != 0) && number("hostPort") != number("containerPort") {
                let place = format!("{field}.containers[{at}].ports[{index}].hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                report.invalid(place, &json!(number("hostPort")), why);
            }
        }
    }
}
