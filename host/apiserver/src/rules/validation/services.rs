//! Validates services, like `validateService` in `pkg/apis/core/validation/validation.go` of Kubernetes 1.36.3.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::networks::NOT_A_CIDR;
use super::report::Report;
use super::table::{self, Check, FieldRule, is_empty};
use crate::object::{self, names, text};
use crate::storage::service_addresses::is_open;

const SPEC: &[FieldRule] = &[
    ("sessionAffinity", Check::OneOf(&["ClientIP", "None"])),
    ("type", Check::OneOf(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"])),
    ("internalTrafficPolicy", Check::OneOf(&["Cluster", "Local"])),
    ("trafficDistribution", Check::OneOf(&["PreferClose", "PreferSameZone", "PreferSameNode"])),
];
const SESSION_AFFINITY_SECONDS_MAX: i64 = 86_400;
const BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) const NOT_AN_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

pub(super) fn service(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    let kind = text(spec, "/type");
    let is_headless = spec["clusterIP"] == "None";
    report.labels("spec.selector", &spec["selector"]);
    if object::items(spec, "/ports").is_empty() && !is_headless && kind != "ExternalName" {
        report.required("spec.ports");
    }
    match kind {
        "ExternalName" => external_name(spec, report),
        "LoadBalancer" if is_headless => {
            report.invalid("spec.clusterIPs[0]", &json!("None"), "may not be set to 'None' for LoadBalancer services");
        }
        "NodePort" if is_headless => {
            report.invalid("spec.clusterIPs[0]", &json!("None"), "may not be set to 'None' for NodePort services");
        }
        _ => {}
    }
    ports(spec, kind, report);
    table::check(SPEC, spec, "spec", report);
    families(object, kind, report);
    affinity(spec, report);
    addresses(spec, report);
    balancer(spec, kind, report);
    let is_external = matches!(kind, "NodePort" | "LoadBalancer") || !object::items(spec, "/externalIPs").is_empty();
    let policy = &spec["externalTrafficPolicy"];
    if !policy.is_null() && !is_external {
        report.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services");
    } else if is_external {
        report.one_of("spec.externalTrafficPolicy", policy, &["Cluster", "Local"]);
    }
    health_port(spec, kind, report);
    if let Some(previous) = previous {
        address_stays(spec, &previous["spec"], report);
        let (now, was) = (&spec["loadBalancerClass"], &previous["spec"]["loadBalancerClass"]);
        if kind == "LoadBalancer" && text(previous, "/spec/type") == kind && now != was {
            report.invalid("spec.loadBalancerClass", now, "may not change once set");
        }
    }
}

/// Validates a service of the type `ExternalName`, which must not have an address.
fn external_name(spec: &Value, report: &mut Report) {
    for name in ["clusterIPs", "ipFamilies"].into_iter().filter(|name| !is_empty(&spec[*name])) {
        report.forbidden(format!("spec.{name}"), "may not be set for ExternalName services");
    }
    if !spec["ipFamilyPolicy"].is_null() {
        report.forbidden("spec.ipFamilyPolicy", "may not be set for ExternalName services");
    }
    let name = text(spec, "/externalName");
    let name = json!(name.strip_suffix('.').unwrap_or(name));
    report.name("spec.externalName", &name, names::check_subdomain);
}

fn families(object: &Value, kind: &str, report: &mut Report) {
    if kind == "ExternalName" {
        return;
    }
    let spec = &object["spec"];
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    report.one_of("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], &policies);
    for (index, family) in object::items(spec, "/ipFamilies").iter().enumerate() {
        report.one_of(&format!("spec.ipFamilies[{index}]"), family, &["IPv4", "IPv6"]);
    }
    if !is_open(object) {
        configured_families(spec, report);
    }
}

/// Validates the affinity, like `validateClientIPAffinityConfig`.
fn affinity(spec: &Value, report: &mut Report) {
    let config = &spec["sessionAffinityConfig"];
    // Defaulting sets the configuration of an affinity, and drops a configuration without an affinity.
    if spec["sessionAffinity"] == "None" && config.is_object() {
        let why = "must not be set when session affinity is None";
        report.forbidden("spec.sessionAffinityConfig", why);
    }
    let seconds = &config["clientIP"]["timeoutSeconds"];
    if spec["sessionAffinity"] == "ClientIP" {
        let why = format!("must be greater than 0 and less than {SESSION_AFFINITY_SECONDS_MAX}");
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        report.range(field, seconds, 1, SESSION_AFFINITY_SECONDS_MAX, &why);
    }
}

/// Validates the fields that only load balancers may have.
fn balancer(spec: &Value, kind: &str, report: &mut Report) {
    let ranges = object::items(spec, "/loadBalancerSourceRanges");
    if kind != "LoadBalancer" {
        if !ranges.is_empty() {
            report.forbidden("spec.LoadBalancerSourceRanges", BALANCED);
        }
        for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if !spec[name].is_null() {
                report.forbidden(format!("spec.{name}"), BALANCED);
            }
        }
    } else if let Some(class) = spec["loadBalancerClass"].as_str() {
        report.qualified("spec.loadBalancerClass", class);
    }
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or_default().trim();
        if !super::networks::is_cidr(range) {
            report.invalid(format!("spec.LoadBalancerSourceRanges[{index}]"), &json!(range), NOT_A_CIDR);
        }
    }
}

fn health_port(spec: &Value, kind: &str, report: &mut Report) {
    let (port, field) = (&spec["healthCheckNodePort"], "spec.healthCheckNodePort");
    let is_checked = kind == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
    if port.as_i64().unwrap_or(0) == 0 {
        return;
    }
    if is_checked {
        report.port(field, port);
    } else {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        report.invalid(field, port, why);
    }
}

fn ports(spec: &Value, kind: &str, report: &mut Report) {
    let ports = object::items(spec, "/ports");
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let place = format!("spec.ports[{index}]");
        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            report.required(format!("{place}.name"));
        } else if !name.is_empty() {
            report.optional_name(&format!("{place}.name"), &port["name"], names::check_dns_label);
            if !names.insert(name) {
                report.duplicate(format!("{place}.name"), &port["name"]);
            }
        }
        report.port(&format!("{place}.port"), &port["port"]);
        report.one_of(&format!("{place}.protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
        report.port_or_name(&format!("{place}.targetPort"), &port["targetPort"]);
        if let Some(protocol) = port["appProtocol"].as_str() {
            report.qualified(&format!("{place}.appProtocol"), protocol);
        }
        if kind == "ClusterIP" && port["nodePort"].as_i64().is_some_and(|port| port != 0) {
            report.forbidden(format!("{place}.nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    for (index, port) in ports.iter().enumerate() {
        let protocol = text(port, "/protocol");
        if !numbers.insert((protocol, port["port"].as_i64())) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                json!(protocol),
                port["port"]
            );
            report.duplicate_shown(&format!("spec.ports[{index}]"), &shown);
        }
    }
}

/// Refuses IP families other than IPv4, because the cluster has only IPv4 addresses.
fn configured_families(spec: &Value, report: &mut Report) {
    let policy = &spec["ipFamilyPolicy"];
    if policy == "RequireDualStack" {
        report.invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services");
    }
    for (index, family) in object::items(spec, "/ipFamilies").iter().enumerate() {
        if family == "IPv6" {
            report.invalid(format!("spec.ipFamilies[{index}]"), family, "not configured on this cluster");
        }
    }
}

fn addresses(spec: &Value, report: &mut Report) {
    if text(spec, "/type") == "ExternalName" {
        return;
    }
    for (index, address) in object::items(spec, "/clusterIPs").iter().enumerate() {
        let is_one = address.as_str().is_some_and(|text| text == "None" || text.parse::<IpAddr>().is_ok());
        if !is_one {
            report.invalid(format!("spec.clusterIPs[{index}]"), address, NOT_AN_ADDRESS);
        }
    }
    for (index, address) in object::items(spec, "/externalIPs").iter().enumerate() {
        if address.as_str().is_none_or(|text| text.parse::<IpAddr>().is_err()) {
            report.invalid(format!("spec.externalIPs[{index}]"), address, NOT_AN_ADDRESS);
        }
    }
}

/// Refuses a change of a service's address.
fn address_stays(spec: &Value, previous: &Value, report: &mut Report) {
    let before = text(previous, "/clusterIP");
    let has_one = |spec: &Value| text(spec, "/type") != "ExternalName";
    if has_one(previous) && has_one(spec) && !before.is_empty() && before != text(spec, "/clusterIP") {
        report.invalid("spec.clusterIPs[0]", &spec["clusterIPs"], "may not change once set");
    }
}
