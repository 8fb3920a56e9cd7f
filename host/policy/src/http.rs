//! The rules that a policy needs to grant the HTTP requests that a manifest asks for.

use std::net::SocketAddr;

use windlass_core::rights::egress::{AddressReach, NetworkFacts, check_address};
use windlass_core::rights::grants::HttpRule;
use windlass_manifest::Manifest;

/// The rules for the HTTP requests of `manifest`. Some addresses, such as private ones, may be reached only if the
/// policy lists them. A manifest cannot list addresses, so this function adds them to the rules.
pub(crate) fn asked(manifest: &Manifest) -> Vec<HttpRule> {
    let with_addresses = |rule: HttpRule| HttpRule { addresses: needed_addresses(&rule), ..rule };
    manifest.asked(vec![]).http.into_iter().map(with_addresses).collect()
}

/// The address ranges that a rule for this host must list; each range is a single address. If the host is an IPv6
/// address with an IPv4 address inside, both may be needed.
pub(crate) fn needed_addresses(rule: &HttpRule) -> Vec<String> {
    let Some(address) = rule.address() else { return vec![] };
    let socket = SocketAddr::new(address, rule.port());
    let mut named = HttpRule { addresses: vec![], ..rule.clone() };
    while let Err(denied) = check_address(socket, &AddressReach::of([&named]), NetworkFacts::default()) {
        let bits = if denied.address.is_ipv4() { 32 } else { 128 };
        named.addresses.push(format!("{}/{bits}", denied.address));
    }
    named.addresses
}

#[cfg(test)]
mod tests {
    use windlass_core::rights::grants::Scheme;

    use super::*;

    #[test]
    fn only_addresses_that_are_not_public_have_to_be_named() {
        for (host, wanted) in [
            ("10.1.2.3", vec!["10.1.2.3/32"]),
            ("127.0.0.1", vec!["127.0.0.1/32"]),
            ("[fd00::1]", vec!["fd00::1/128"]),
            ("[::ffff:10.0.0.1]", vec!["10.0.0.1/32"]),
            ("[64:ff9b::10.0.0.1]", vec!["10.0.0.1/32"]),
            ("[::10.0.0.1]", vec!["::a00:1/128", "10.0.0.1/32"]),
            ("8.8.8.8", vec![]),
            ("api.example.com", vec![]),
        ] {
            let methods = vec!["GET".to_owned()];
            let rule = HttpRule { scheme: Scheme::Http, host: host.to_owned(), port: None, methods, addresses: vec![] };
            assert_eq!(needed_addresses(&rule), wanted, "{host}");
        }
    }
}
