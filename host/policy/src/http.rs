//! The HTTP requests that a manifest asks for, as a policy has to grant them.

use std::net::{IpAddr, SocketAddr};

use windlass_core::rights::egress::{AddressReach, NetworkFacts, check_address};
use windlass_core::rights::grants::HttpRule;
use windlass_manifest::Manifest;

/// The rules of `manifest`. Plugins may reach some addresses only if the policy names them. A manifest cannot name
/// them, so the rules for such hosts add the addresses, without which each request would be denied.
pub(crate) fn asked(manifest: &Manifest) -> Vec<HttpRule> {
    let with_addresses = |rule: HttpRule| HttpRule { addresses: needed_addresses(&rule), ..rule };
    manifest.asked(vec![]).http.into_iter().map(with_addresses).collect()
}

fn needed_addresses(rule: &HttpRule) -> Vec<String> {
    let bare = rule.host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&rule.host);
    let Ok(address) = bare.parse::<IpAddr>() else { return vec![] };
    let socket = SocketAddr::new(address, rule.port());
    let denied = check_address(socket, &AddressReach::default(), NetworkFacts::default()).err();
    let range = |address: IpAddr| format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 });
    denied.map(|denied| range(denied.address)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use windlass_core::rights::grants::Scheme;

    use super::*;

    #[test]
    fn only_an_address_that_is_not_public_has_to_be_named() {
        for (host, wanted) in [
            ("10.1.2.3", vec!["10.1.2.3/32"]),
            ("127.0.0.1", vec!["127.0.0.1/32"]),
            ("[fd00::1]", vec!["fd00::1/128"]),
            ("[::ffff:10.0.0.1]", vec!["10.0.0.1/32"]),
            ("8.8.8.8", vec![]),
            ("api.example.com", vec![]),
        ] {
            let methods = vec!["GET".to_owned()];
            let rule = HttpRule { scheme: Scheme::Http, host: host.to_owned(), port: None, methods, addresses: vec![] };
            assert_eq!(needed_addresses(&rule), wanted, "{host}");
        }
    }
}
