//! Decides about a request. Pure: nothing here calls the host.

use std::net::IpAddr;

use crate::api::{SIGNER, SigningRequest};
use crate::certificate::{self, CertificateRequest};
use crate::settings::Settings;

/// The names of the users as which kubelets make requests begin with this.
const NODE_PREFIX: &str = "system:node:";
/// The only organization that the signer accepts.
const NODE_GROUP: &str = "system:nodes";
/// The usages that the signer requires.
const REQUIRED_USAGES: [&str; 2] = ["digital signature", "server auth"];
/// The usage that requests with an RSA key have, too.
const RSA_USAGE: &str = "key encipherment";

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The request is decided, or the configuration leaves it to others.
    Ignore,
    /// The request is right.
    Approve,
    /// The request may not be approved, for these reasons.
    Deny(Vec<String>),
}

/// Decides about a request.
pub(crate) fn decide(request: &SigningRequest, settings: &Settings) -> Decision {
    if request.spec.signer_name != SIGNER || request.is_decided() {
        return Decision::Ignore;
    }
    let user = &request.spec.username;
    let Some(node) = user.strip_prefix(NODE_PREFIX).filter(|node| !node.is_empty()) else {
        let reason = format!("the user {user:?} is not a node: its name does not begin with {NODE_PREFIX}");
        return if settings.ignores_others { Decision::Ignore } else { Decision::Deny(vec![reason]) };
    };
    let certificate = match certificate::read(&request.spec.request) {
        Ok(certificate) => certificate,
        Err(reason) => return Decision::Deny(vec![reason]),
    };
    let mut reasons = Vec::new();
    check_spec(request, settings, &mut reasons);
    check_subject(user, &certificate, &mut reasons);
    check_names(node, &certificate, settings, &mut reasons);
    check_addresses(node, &certificate, settings, &mut reasons);
    if reasons.is_empty() { Decision::Approve } else { Decision::Deny(reasons) }
}

fn check_spec(request: &SigningRequest, settings: &Settings, reasons: &mut Vec<String>) {
    let limit = settings.expiration_seconds_max;
    if let Some(seconds) = request.spec.expiration_seconds.filter(|seconds| *seconds > limit) {
        reasons.push(format!("expirationSeconds is {seconds}: at most {limit} is allowed"));
    }
    let usages = &request.spec.usages;
    let is_known = |usage: &String| REQUIRED_USAGES.contains(&usage.as_str()) || usage == RSA_USAGE;
    let has_all = REQUIRED_USAGES.iter().all(|required| usages.iter().any(|usage| usage == required));
    if !has_all || !usages.iter().all(is_known) {
        reasons.push(format!("the usages {usages:?} are not those of a server: the signer would refuse them"));
    }
}

fn check_subject(user: &str, certificate: &CertificateRequest, reasons: &mut Vec<String>) {
    let names = &certificate.common_names;
    if names.len() != 1 || names[0] != user {
        reasons.push(format!("the common name is {names:?}: it must be the user {user:?}"));
    }
    let organizations = &certificate.organizations;
    if organizations.len() != 1 || organizations[0] != NODE_GROUP {
        reasons.push(format!("the organization is {organizations:?}: it must be {NODE_GROUP:?}"));
    }
}

fn check_names(node: &str, certificate: &CertificateRequest, settings: &Settings, reasons: &mut Vec<String>) {
    let names = &certificate.dns_names;
    if certificate.has_other_names {
        reasons.push("there are alternative names other than DNS names and IP addresses".into());
    }
    if names.is_empty() && certificate.addresses.is_empty() {
        reasons.push("there is no DNS name and no IP address: a server needs one of them".into());
    }
    if names.len() > settings.dns_names_max {
        reasons.push(format!("there are {} DNS names: at most {} are allowed", names.len(), settings.dns_names_max));
    }
    for name in names {
        if !is_dns_name(name) {
            reasons.push(format!("{name:?} is not a DNS name"));
        } else if !settings.name_pattern.is_match(name) {
            reasons.push(format!("the DNS name {name} does not match providerRegex"));
        } else if !settings.trusts_names && !belongs_to(name, node) {
            reasons
                .push(format!("the DNS name {name} is not that of the node {node}: set bypassHostnameCheck if it is"));
        }
    }
}

fn check_addresses(node: &str, certificate: &CertificateRequest, settings: &Settings, reasons: &mut Vec<String>) {
    let is_allowed = |address: &IpAddr| {
        settings.prefixes.is_empty() || settings.prefixes.iter().any(|prefix| prefix.contains(*address))
    };
    for address in certificate.addresses.iter().filter(|address| !is_allowed(address)) {
        reasons.push(format!("the IP address {address} is not in providerIpPrefixes"));
    }
    if settings.trusts_addresses {
        return;
    }
    let names = &certificate.dns_names;
    let names: Vec<&str> = if names.is_empty() { vec![node] } else { names.iter().map(String::as_str).collect() };
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for name in names {
        match settings.host_addresses.get(name) {
            Some(addresses) => known.extend(addresses),
            None => unknown.push(name),
        }
    }
    if !unknown.is_empty() {
        let hosts = unknown.join(", ");
        reasons.push(format!(
            "the addresses of {hosts} are unknown, because a plugin cannot ask DNS: add them to hostAddresses, or set \
             bypassDnsResolution"
        ));
        return;
    }
    for address in known.iter().filter(|address| !is_allowed(address)) {
        reasons.push(format!("the IP address {address} in hostAddresses is not in providerIpPrefixes"));
    }
    for address in certificate.addresses.iter().filter(|address| !known.contains(address)) {
        reasons.push(format!("the IP address {address} is not that of the host in hostAddresses"));
    }
}

/// Whether a name consists of letters, digits, dashes and dots. A wildcard is no name of a node.
fn is_dns_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
}

/// Whether a DNS name is the node's name, or the node's name in a domain.
fn belongs_to(name: &str, node: &str) -> bool {
    name.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
