//! Validation of ingresses, network policies and endpoints.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::report::Report;
use super::services::NOT_AN_ADDRESS;
use crate::object::{self, names, text};

pub(super) fn ingress(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let rules = object::items(spec, "/rules");
    if rules.is_empty() && !spec["defaultBackend"].is_object() {
        report.invalid("spec", &Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if spec["defaultBackend"].is_object() {
        backend(&spec["defaultBackend"], "spec.defaultBackend", report);
    }
    for (index, entry) in object::items(spec, "/tls").iter().enumerate() {
        for (position, host) in object::items(entry, "/hosts").iter().enumerate() {
            self::host(host, &format!("spec.tls[{index}].hosts[{position}]"), report);
        }
    }
    for (index, rule) in rules.iter().enumerate() {
        let place = format!("spec.rules[{index}]");
        host(&rule["host"], &format!("{place}.host"), report);
        if rule["http"].is_object() {
            paths(&rule["http"], &format!("{place}.http"), report);
        }
    }
}

fn host(host: &Value, field: &str, report: &mut Report) {
    let Some(name) = host.as_str().filter(|name| !name.is_empty()) else { return };
    if !name.contains('*') {
        report.optional_name(field, host, names::check_subdomain);
    } else if name.strip_prefix("*.").is_none_or(|rest| names::check_subdomain(rest).is_err()) {
        let why = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                   consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character \
                   (e.g. '*.example.com', regex used for validation is \
                   '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        report.invalid(field, host, why);
    }
}

fn paths(http: &Value, place: &str, report: &mut Report) {
    let paths = object::items(http, "/paths");
    if paths.is_empty() {
        report.required(format!("{place}.paths"));
    }
    for (index, path) in paths.iter().enumerate() {
        let place = format!("{place}.paths[{index}]");
        let kind = &path["pathType"];
        match kind.as_str() {
            None | Some("") => report.required_because(format!("{place}.pathType"), "pathType must be specified"),
            Some(name) => {
                let is_absolute = text(path, "/path").starts_with('/');
                if matches!(name, "Exact" | "Prefix") && !is_absolute {
                    let shown = path.get("path").cloned().unwrap_or_else(|| json!(""));
                    report.invalid(format!("{place}.path"), &shown, "must be an absolute path");
                }
                report.one_of(&format!("{place}.pathType"), kind, &["Exact", "ImplementationSpecific", "Prefix"]);
            }
        }
        backend(&path["backend"], &format!("{place}.backend"), report);
    }
}

fn backend(backend: &Value, place: &str, report: &mut Report) {
    let service = &backend["service"];
    match (service.is_object(), backend["resource"].is_object()) {
        (false, false) => report.invalid(place, &json!(""), "resource or service backend is required"),
        (true, true) => report.invalid(place, &json!(""), "cannot set both resource and service backends"),
        (false, true) => {}
        (true, false) => {
            report.name(&format!("{place}.service.name"), &service["name"], names::check_dns_1035_label);
            let (name, number) = (text(service, "/port/name"), service["port"]["number"].as_i64().unwrap_or(0));
            match (name.is_empty(), number == 0) {
                (true, true) => report.required_because(place, "port name or number is required"),
                (false, false) => report.invalid(place, &json!(""), "cannot set both port name & port number"),
                (false, true) => {
                    report.port_or_name(&format!("{place}.service.port.name"), &service["port"]["name"]);
                }
                (true, false) => report.port(&format!("{place}.service.port.number"), &service["port"]["number"]),
            }
        }
    }
}

pub(super) fn network_policy(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    report.selector("spec.podSelector", &spec["podSelector"]);
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in object::items(spec, &format!("/{list}")).iter().enumerate() {
            let place = format!("spec.{list}[{index}]");
            for (position, port) in object::items(rule, "/ports").iter().enumerate() {
                if !port["port"].is_null() {
                    report.port_or_name(&format!("{place}.ports[{position}].port"), &port["port"]);
                }
                let protocols = ["SCTP", "TCP", "UDP"];
                report.one_of(&format!("{place}.ports[{position}].protocol"), &port["protocol"], &protocols);
            }
            for (position, peer) in object::items(rule, &format!("/{peers}")).iter().enumerate() {
                self::peer(peer, &format!("{place}.{peers}[{position}]"), report);
            }
        }
    }
    for (index, kind) in object::items(spec, "/policyTypes").iter().enumerate() {
        report.one_of(&format!("spec.policyTypes[{index}]"), kind, &["Ingress", "Egress"]);
    }
}

fn peer(peer: &Value, place: &str, report: &mut Report) {
    let block = &peer["ipBlock"];
    if !block.is_object() && !peer["podSelector"].is_object() && !peer["namespaceSelector"].is_object() {
        report.required_because(place, "must specify a peer");
    }
    if block.is_object() && !is_cidr(text(block, "/cidr")) {
        let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        report.invalid(format!("{place}.ipBlock.cidr"), &block["cidr"], why);
    }
}

fn is_cidr(text: &str) -> bool {
    let parts = text.split_once('/').map(|(address, length)| (address.parse::<IpAddr>(), length.parse::<u8>()));
    match parts {
        Some((Ok(IpAddr::V4(_)), Ok(length))) => length <= 32,
        Some((Ok(IpAddr::V6(_)), Ok(length))) => length <= 128,
        _ => false,
    }
}

pub(super) fn endpoint_slice(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let kind = text(object, "/addressType");
    if kind.is_empty() {
        report.required("addressType");
    }
    report.one_of("addressType", &object["addressType"], &["FQDN", "IPv4", "IPv6"]);
    report.immutable("addressType", object, previous);
    for (index, endpoint) in object::items(object, "/endpoints").iter().enumerate() {
        let place = format!("endpoints[{index}].addresses");
        let addresses = object::items(endpoint, "/addresses");
        if addresses.is_empty() {
            report.required_because(&place, "must contain at least 1 address");
        }
        for (position, address) in addresses.iter().enumerate() {
            let is_one = address.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok());
            if matches!(kind, "IPv4" | "IPv6") && !is_one {
                report.invalid(format!("{place}[{position}]"), address, NOT_AN_ADDRESS);
            }
        }
    }
}

pub(super) fn endpoints(object: &Value, report: &mut Report) {
    for (index, subset) in object::items(object, "/subsets").iter().enumerate() {
        for list in ["addresses", "notReadyAddresses"] {
            for (position, address) in object::items(subset, &format!("/{list}")).iter().enumerate() {
                if text(address, "/ip").parse::<IpAddr>().is_err() {
                    let field = format!("subsets[{index}].{list}[{position}].ip");
                    report.invalid(&field, &address["ip"], NOT_AN_ADDRESS);
                    report.invalid(&field, &address["ip"], "must be a valid IP address");
                }
            }
        }
    }
}

pub(super) fn ingress_class(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let controller = &object["spec"]["controller"];
    if !controller.as_str().is_some_and(|name| name.contains('/')) {
        report.invalid("spec.controller", controller, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    report.immutable("spec.controller", object, previous);
}
