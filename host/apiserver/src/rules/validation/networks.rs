//! Validates ingresses, network policies and endpoints, like `pkg/apis/networking/validation/validation.go`,
//! `pkg/apis/discovery/validation/validation.go`, and `validateEndpointSubsets` in
//! `pkg/apis/core/validation/validation.go` of Kubernetes 1.36.3.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::report::Report;
use super::services::NOT_AN_ADDRESS;
use super::table::{self, Check, FieldRule};
use crate::object::{self, names, text};

pub(super) const NOT_A_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
const INGRESS: &[FieldRule] = &[
    ("ingressClassName", Check::Text(names::check_subdomain)),
    ("tls[].secretName", Check::Name(names::check_subdomain)),
];
const RESOURCE: &[FieldRule] = &[
    ("resource.apiGroup", Check::Text(names::check_subdomain)),
    ("resource.kind", Check::Named(names::check_path_segment)),
    ("resource.name", Check::Named(names::check_path_segment)),
];
const PEER: &[FieldRule] =
    &[("podSelector", Check::Selector), ("namespaceSelector", Check::Selector), ("ipBlock.cidr", Check::Required)];
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const SLICE: &[FieldRule] = &[
    ("endpoints[].hostname", Check::Text(names::check_dns_label)),
    ("endpoints[].nodeName", Check::Text(names::check_subdomain)),
    ("endpoints[].hints.forZones[].name", Check::Text(names::check_label_value)),
    ("endpoints[].hints.forNodes[].name", Check::Text(names::check_subdomain)),
    ("ports[].protocol", Check::OneOf(PROTOCOLS)),
    ("ports[].name", Check::Name(names::check_dns_label)),
];
const SUBSET: &[FieldRule] = &[
    ("addresses[].hostname", Check::Name(names::check_dns_label)),
    ("addresses[].nodeName", Check::Text(names::check_subdomain)),
    ("notReadyAddresses[].hostname", Check::Name(names::check_dns_label)),
    ("notReadyAddresses[].nodeName", Check::Text(names::check_subdomain)),
    ("ports[].name", Check::Name(names::check_dns_label)),
    ("ports[].protocol", Check::OneOf(PROTOCOLS)),
];
const CLASS: &[FieldRule] = &[
    ("parameters.apiGroup", Check::Text(names::check_subdomain)),
    ("parameters.kind", Check::Named(names::check_path_segment)),
    ("parameters.name", Check::Named(names::check_path_segment)),
    ("parameters.scope", Check::OneOf(&["Cluster", "Namespace"])),
];

pub(super) fn ingress(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let rules = object::items(spec, "/rules");
    if rules.is_empty() && !spec["defaultBackend"].is_object() {
        report.invalid("spec", &Value::Null, "either `defaultBackend` or `rules` must be specified");
    }
    if spec["defaultBackend"].is_object() {
        backend(&spec["defaultBackend"], "spec.defaultBackend", report);
    }
    table::check(INGRESS, spec, "spec", report);
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
        (false, true) => table::check(RESOURCE, backend, place, report),
        (true, false) => {
            report.name(&format!("{place}.service.name"), &service["name"], names::check_dns_label);
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
                policy_port(port, &format!("{place}.ports[{position}]"), report);
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

/// Validates a port, like `ValidateNetworkPolicyPort`.
fn policy_port(port: &Value, place: &str, report: &mut Report) {
    report.one_of(&format!("{place}.protocol"), &port["protocol"], &["TCP", "UDP", "SCTP"]);
    let (number, end) = (&port["port"], &port["endPort"]);
    if !number.is_null() {
        report.port_or_name(&format!("{place}.port"), number);
    }
    let field = format!("{place}.endPort");
    match (number.as_i64(), end.as_i64()) {
        (_, None) => {}
        (Some(first), Some(last)) => {
            if last < first {
                report.invalid(&field, number, "must be greater than or equal to `port`");
            }
            report.port(&field, end);
        }
        (None, Some(_)) if number.is_null() => {
            report.invalid(field, end, "may not be specified when `port` is not specified");
        }
        (None, Some(_)) => report.invalid(field, end, "may not be specified when `port` is non-numeric"),
    }
}

fn peer(peer: &Value, place: &str, report: &mut Report) {
    let block = &peer["ipBlock"];
    if !block.is_object() && !peer["podSelector"].is_object() && !peer["namespaceSelector"].is_object() {
        report.required_because(place, "must specify a peer");
    }
    table::check(PEER, peer, place, report);
    if !block.is_object() {
        return;
    }
    if peer["podSelector"].is_object() || peer["namespaceSelector"].is_object() {
        report.forbidden(place, "may not specify both ipBlock and another peer");
    }
    let whole = text(block, "/cidr");
    if !whole.is_empty() && !is_cidr(whole) {
        return report.invalid(format!("{place}.ipBlock.cidr"), &block["cidr"], NOT_A_CIDR);
    }
    for (index, except) in object::items(block, "/except").iter().enumerate().filter(|_| !whole.is_empty()) {
        let field = format!("{place}.ipBlock.except[{index}]");
        let part = except.as_str().unwrap_or_default();
        if !is_cidr(part) {
            report.invalid(field, &json!(part), NOT_A_CIDR);
        } else if !is_strictly_within(part, whole) {
            report.invalid(field, except, "must be a strict subset of `cidr`");
        }
    }
}

/// Whether a network is a strict subset of another.
fn is_strictly_within(part: &str, whole: &str) -> bool {
    let bits = |text: &str| {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok()?;
        let (bits, width) = match address.parse().ok()? {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        Some((bits, length, width))
    };
    let (Some((part, inner, width)), Some((whole, outer, whole_width))) = (bits(part), bits(whole)) else {
        return false;
    };
    let host_bits = whole_width - outer.min(whole_width);
    let network = |bits: u128| bits.checked_shr(host_bits).unwrap_or(0);
    width == whole_width && outer < inner && network(part) == network(whole)
}

pub(super) fn is_cidr(text: &str) -> bool {
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
    if !kind.is_empty() {
        report.one_of("addressType", &object["addressType"], &["FQDN", "IPv4", "IPv6"]);
    }
    report.immutable("addressType", object, previous);
    table::check(SLICE, object, "", report);
    for (index, port) in object::items(object, "/ports").iter().enumerate() {
        if let Some(protocol) = port["appProtocol"].as_str() {
            report.qualified(&format!("ports[{index}].appProtocol"), protocol);
        }
    }
    for (index, endpoint) in object::items(object, "/endpoints").iter().enumerate() {
        let place = format!("endpoints[{index}].addresses");
        let addresses = object::items(endpoint, "/addresses");
        if addresses.is_empty() {
            report.required_because(&place, "must contain at least 1 address");
        }
        for (position, address) in addresses.iter().enumerate() {
            let is_one = address.as_str().is_some_and(|text| text.parse::<IpAddr>().is_ok());
            let field = format!("{place}[{position}]");
            if matches!(kind, "IPv4" | "IPv6") && !is_one {
                report.invalid(&field, address, NOT_AN_ADDRESS);
            }
            if kind == "FQDN"
                && let Err(why) = names::check_subdomain(address.as_str().unwrap_or_default())
            {
                report.invalid(&field, address, &why);
            }
        }
    }
}

pub(super) fn endpoints(object: &Value, report: &mut Report) {
    for (index, subset) in object::items(object, "/subsets").iter().enumerate() {
        let place = format!("subsets[{index}]");
        table::check(SUBSET, subset, &place, report);
        for (position, port) in object::items(subset, "/ports").iter().enumerate() {
            report.port(&format!("{place}.ports[{position}].port"), &port["port"]);
            if let Some(protocol) = port["appProtocol"].as_str() {
                report.qualified(&format!("{place}.ports[{position}].appProtocol"), protocol);
            }
        }
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
    if controller.as_str().unwrap_or_default().is_empty() {
        report.required("spec.controller");
    } else if !controller.as_str().is_some_and(|name| name.contains('/')) {
        report.invalid("spec.controller", controller, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    report.immutable("spec.controller", object, previous);
    let parameters = &object["spec"]["parameters"];
    table::check(CLASS, &object["spec"], "spec", report);
    let (scope, namespace) = (text(parameters, "/scope"), &parameters["namespace"]);
    let field = "spec.parameters.namespace";
    match scope {
        "Namespace" if namespace.is_null() => {
            report.required_because(field, "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => {
            if let Err(why) = names::check_dns_label(namespace.as_str().unwrap_or_default()) {
                report.invalid(field, namespace, &why);
            }
        }
        "Cluster" if !namespace.is_null() => report.forbidden(field, "`parameters.scope` is set to 'Cluster'"),
        _ => {}
    }
}
