//! Validation of services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::report::Report;
use crate::object::{self, names, text};
use crate::storage::service_addresses::is_open;

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
        "ExternalName" => report.name("spec.externalName", &spec["externalName"], names::check_subdomain),
        "LoadBalancer" if is_headless => {
            report.invalid("spec.clusterIPs[0]", &json!("None"), "may not be set to 'None' for LoadBalancer services");
        }
        "NodePort" if is_headless => {
            report.invalid("spec.clusterIPs[0]", &json!("None"), "may not be set to 'None' for NodePort services");
        }
        _ => {}
    }
    ports(spec, kind, report);
    report.one_of("spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"]);
    let families = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    report.one_of("spec.ipFamilyPolicy", &spec["ipFamilyPolicy"], &families);
    report.one_of("spec.type", &spec["type"], &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    if !is_open(object) {
        configured_families(spec, report);
    }
    addresses(spec, report);
    let is_external = matches!(kind, "NodePort" | "LoadBalancer") || !object::items(spec, "/externalIPs").is_empty();
    let policy = &spec["externalTrafficPolicy"];
    if !policy.is_null() && !is_external {
        report.invalid("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services");
    }
    if let Some(previous) = previous {
        address_stays(spec, &previous["spec"], report);
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

/// The cluster has addresses of IPv4 only.
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

/// The address of a service is its own for as long as it has one.
fn address_stays(spec: &Value, previous: &Value, report: &mut Report) {
    let before = text(previous, "/clusterIP");
    let has_one = |spec: &Value| text(spec, "/type") != "ExternalName";
    if has_one(previous) && has_one(spec) && !before.is_empty() && before != text(spec, "/clusterIP") {
        report.invalid("spec.clusterIPs[0]", &spec["clusterIPs"], "may not change once set");
    }
}
