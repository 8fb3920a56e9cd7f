//! Native tests: the decisions about requests that `rcgen` makes, and whole calls on the SDK's host in memory.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rcgen::string::Ia5String;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use serde_json::{Value, json};
use windlass_sdk::testing::Host;
use windlass_sdk::{ApiReason, Failures, Outcome, Reconciler};

use crate::api::{API_VERSION, KIND, SIGNER, SigningRequest};
use crate::certificate;
use crate::decision::{Decision, decide};
use crate::prefix::Prefix;
use crate::settings::{Document, Settings, schema};

const NODE: &str = "system:node:node-1";
const NAME: &str = "node-1.int.example.com";
const ADDRESS: &str = "192.168.8.11";

/// The contents of a request.
struct Asked {
    common_name: &'static str,
    organization: Option<&'static str>,
    dns_names: Vec<&'static str>,
    addresses: Vec<&'static str>,
    email: Option<&'static str>,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            common_name: NODE,
            organization: Some("system:nodes"),
            dns_names: vec![NAME],
            addresses: vec![ADDRESS],
            email: None,
        }
    }
}

impl Asked {
    fn der(&self) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(organization) = self.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.distinguished_name.push(DnType::CommonName, self.common_name);
        let text = |text: &&str| Ia5String::try_from(*text).unwrap();
        params.subject_alt_names.extend(self.dns_names.iter().map(|name| SanType::DnsName(text(name))));
        params.subject_alt_names.extend(self.addresses.iter().map(|it| SanType::IpAddress(it.parse().unwrap())));
        params.subject_alt_names.extend(self.email.iter().map(|name| SanType::Rfc822Name(text(name))));
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().der().to_vec()
    }

    fn object(&self) -> Value {
        object(&pem("CERTIFICATE REQUEST", &self.der()))
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
}

/// A pending request, as the API server stores it.
fn object(pem: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "csr-1"},
        "spec": {
            "request": BASE64_STANDARD.encode(pem), "signerName": SIGNER, "username": NODE,
            "usages": ["digital signature", "server auth"],
        },
    })
}

/// A configuration that approves the default request.
fn config() -> Value {
    json!({
        "providerRegex": r"^node-\w+\.int\.example\.com$",
        "providerIpPrefixes": ["192.168.8.0/22"],
        "hostAddresses": {NAME: [ADDRESS]},
    })
}

fn settings(change: &Value) -> Settings {
    let mut config = config();
    for (key, value) in change.as_object().unwrap() {
        config[key] = value.clone();
    }
    Settings::of(&serde_json::from_value::<Document>(config).unwrap()).unwrap()
}

fn decided(object: &Value, change: &Value) -> Decision {
    decide(&serde_json::from_value::<SigningRequest>(object.clone()).unwrap(), &settings(change))
}

/// Checks that the request is denied for one reason, which contains the text.
#[track_caller]
fn denied(object: &Value, change: &Value, expected: &str) {
    let Decision::Deny(reasons) = decided(object, change) else { panic!("{:?}", decided(object, change)) };
    assert!(reasons.len() == 1 && reasons[0].contains(expected), "{reasons:?}");
}

#[test]
fn a_request_of_a_known_node_is_approved() {
    assert_eq!(decided(&Asked::default().object(), &json!({})), Decision::Approve);
    let names_only = Asked { addresses: vec![], ..Asked::default() };
    assert_eq!(decided(&names_only.object(), &json!({})), Decision::Approve);
    let mut with_rsa = Asked::default().object();
    with_rsa["spec"]["usages"] = json!(["key encipherment", "digital signature", "server auth"]);
    assert_eq!(decided(&with_rsa, &json!({})), Decision::Approve);
}

#[test]
fn the_subject_must_be_the_user_who_asks() {
    let other = Asked { common_name: "system:node:node-2", ..Asked::default() };
    denied(&other.object(), &json!({}), "the common name");
    for organization in [None, Some("system:masters")] {
        denied(&Asked { organization, ..Asked::default() }.object(), &json!({}), "the organization");
    }
}

#[test]
fn a_user_that_is_no_node_is_denied_or_left_alone() {
    let mut object = Asked::default().object();
    for user in ["kubernetes-admin", "system:node:"] {
        object["spec"]["username"] = json!(user);
        denied(&object, &json!({}), "is not a node");
        assert_eq!(decided(&object, &json!({"ignoreNonSystemNode": true})), Decision::Ignore);
    }
}

#[test]
fn other_signers_and_decided_requests_are_left_alone() {
    let mut object = Asked::default().object();
    for condition in ["Approved", "Denied"] {
        object["status"] = json!({"conditions": [{"type": condition, "status": "True"}]});
        assert_eq!(decided(&object, &json!({})), Decision::Ignore);
    }
    object["status"] = json!({});
    object["spec"]["signerName"] = json!("kubernetes.io/kube-apiserver-client-kubelet");
    assert_eq!(decided(&object, &json!({})), Decision::Ignore);
}

#[test]
fn names_must_match_the_pattern_and_belong_to_the_node() {
    let bypass = json!({"bypassDnsResolution": true});
    let of = |name| Asked { dns_names: vec![name], ..Asked::default() }.object();
    denied(&of("node-1.evil.example.org"), &bypass, "does not match providerRegex");
    denied(&of("node-10.int.example.com"), &bypass, "is not that of the node");
    let trusting = json!({"bypassDnsResolution": true, "bypassHostnameCheck": true});
    assert_eq!(decided(&of("node-10.int.example.com"), &trusting), Decision::Approve);
    let any = json!({"bypassDnsResolution": true, "bypassHostnameCheck": true, "providerRegex": "."});
    denied(&of("*.int.example.com"), &any, "is not a DNS name");
}

#[test]
fn only_as_many_names_are_allowed_as_configured() {
    let two = Asked { dns_names: vec![NAME, "node-1"], ..Asked::default() }.object();
    let any = json!({"bypassDnsResolution": true, "providerRegex": "^node-1"});
    denied(&two, &any, "there are 2 DNS names");
    let allowed = json!({"bypassDnsResolution": true, "providerRegex": "^node-1", "allowedDnsNames": 2});
    assert_eq!(decided(&two, &allowed), Decision::Approve);
    let none = Asked { dns_names: vec![], addresses: vec![], ..Asked::default() };
    denied(&none.object(), &json!({"bypassDnsResolution": true}), "no DNS name and no IP address");
    let email = Asked { email: Some("root@example.com"), ..Asked::default() };
    denied(&email.object(), &json!({}), "alternative names other than");
}

#[test]
fn addresses_must_be_in_a_range_and_belong_to_the_host() {
    let of = |address| Asked { addresses: vec![address], ..Asked::default() }.object();
    denied(&of("192.168.9.1"), &json!({}), "is not that of the host");
    denied(&of("10.0.0.1"), &json!({"bypassDnsResolution": true}), "is not in providerIpPrefixes");
    assert_eq!(decided(&of("192.168.9.1"), &json!({"bypassDnsResolution": true})), Decision::Approve);
    let far = json!({"hostAddresses": {NAME: [ADDRESS, "10.0.0.1"]}});
    denied(&of(ADDRESS), &far, "10.0.0.1 in hostAddresses is not in providerIpPrefixes");
}

#[test]
fn a_host_with_unknown_addresses_is_denied() {
    let object = Asked::default().object();
    denied(&object, &json!({"hostAddresses": {}}), "the addresses of node-1.int.example.com are unknown");
    denied(&object, &json!({"hostAddresses": {NAME: []}}), "is not that of the host");
    // Without a DNS name, the node's name leads to its addresses.
    let addresses_only = Asked { dns_names: vec![], ..Asked::default() }.object();
    denied(&addresses_only, &json!({}), "the addresses of node-1 are unknown");
    assert_eq!(decided(&addresses_only, &json!({"hostAddresses": {"node-1": [ADDRESS]}})), Decision::Approve);
}

#[test]
fn lifetime_and_usages_are_limited() {
    let mut object = Asked::default().object();
    object["spec"]["expirationSeconds"] = json!(367 * 86_400);
    assert_eq!(decided(&object, &json!({})), Decision::Approve);
    denied(&object, &json!({"maxExpirationSeconds": 86_400}), "at most 86400");
    object["spec"]["expirationSeconds"] = json!(367 * 86_400 + 1);
    denied(&object, &json!({"maxExpirationSeconds": i64::MAX}), "at most 31708800");
    object["spec"]["expirationSeconds"] = json!(600);
    for usages in [json!(["server auth"]), json!(["digital signature", "server auth", "client auth"])] {
        object["spec"]["usages"] = usages;
        denied(&object, &json!({}), "the usages");
    }
}

#[test]
fn a_malformed_request_is_denied() {
    let der = Asked::default().der();
    let read = |pem: String| certificate::read(&BASE64_STANDARD.encode(pem)).unwrap_err();
    assert!(read(pem("CERTIFICATE", &der)).contains("not a single PEM block"));
    let twice = pem("CERTIFICATE REQUEST", &der).repeat(2);
    assert!(read(twice).contains("not a single PEM block"));
    assert!(read(pem("CERTIFICATE REQUEST", &[&der[..], &[0]].concat())).contains("bytes after its end"));
    assert!(certificate::read("%").unwrap_err().contains("not Base64"));
    assert!(certificate::read(&"A".repeat(65 * 1024)).unwrap_err().contains("longer than"));
    for end in 0..der.len() {
        assert!(read(pem("CERTIFICATE REQUEST", &der[..end])).contains("request"), "{end} bytes");
    }
}

#[test]
fn a_changed_byte_never_breaks_the_reader() {
    let der = Asked::default().der();
    for place in 0..der.len() {
        for byte in [0, 0x30, 0x7f, 0x80, 0xff] {
            let mut changed = der.clone();
            changed[place] = byte;
            // Whatever it answers, it answers.
            let _ = certificate::read(&BASE64_STANDARD.encode(pem("CERTIFICATE REQUEST", &changed)));
        }
    }
}

#[test]
fn a_range_contains_the_addresses_with_its_first_bits() {
    let contains = |prefix: &str, address: &str| Prefix::parse(prefix).unwrap().contains(address.parse().unwrap());
    assert!(contains("192.168.8.0/22", "192.168.11.255") && !contains("192.168.8.0/22", "192.168.12.0"));
    assert!(contains("10.0.0.1/32", "10.0.0.1") && !contains("10.0.0.1/32", "10.0.0.2"));
    assert!(contains("fc00::/7", "fdff::1") && !contains("fc00::/7", "fe00::1"));
    assert!(contains("0.0.0.0/0", "1.2.3.4") && !contains("0.0.0.0/0", "::1"));
    assert!(contains("::/0", "::1") && !contains("::/0", "1.2.3.4"));
    // An attacker may write an IPv4 address as an IPv6 address.
    assert!(contains("192.168.8.0/22", "::ffff:192.168.8.1") && !contains("::/0", "::ffff:192.168.8.1"));
    for text in ["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "a/8", ""] {
        assert!(Prefix::parse(text).unwrap_err().contains("is not an IP range"), "{text}");
    }
    assert_eq!(
        "1.2.3.4".parse::<IpAddr>().map(|it| it.to_canonical()),
        "::ffff:1.2.3.4".parse().map(|it: IpAddr| it.to_canonical())
    );
}

#[test]
fn a_wrong_configuration_is_an_error_that_names_the_key() {
    for (change, expected) in [
        (json!({"providerRegex": "("}), "providerRegex"),
        (json!({"providerRegex": ""}), "providerRegex is missing"),
        (json!({"providerIpPrefixes": ["10.0.0.0"]}), "providerIpPrefixes"),
        (json!({"hostAddresses": {"a": ["b"]}}), "hostAddresses"),
    ] {
        let mut config = config();
        config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let error = Settings::of(&serde_json::from_value(config).unwrap()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(schema()["required"], json!(["providerRegex"]));
    // A host without addresses would have its DNS name approved, without a proof.
    assert_eq!(schema()["properties"]["hostAddresses"]["additionalProperties"]["minItems"], 1);
}

fn call(host: &mut Host, object: &Value, change: &Value) -> Result<Outcome, Failures> {
    let mut config = config();
    config.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    host.set_config(&config);
    crate::Plugin::reconcile(host.request("csr-approver", object))
}

/// The condition that the only write has added.
fn condition(host: &Host) -> Value {
    let writes = host.writes();
    assert_eq!((writes.len(), writes[0].verb, writes[0].subresource.as_deref()), (1, "update", Some("approval")));
    writes[0].body["status"]["conditions"][0].clone()
}

#[test]
fn an_approval_is_one_write_of_the_subresource() {
    let mut host = Host::new();
    assert_eq!(call(&mut host, &Asked::default().object(), &json!({})).unwrap(), Outcome::Done);
    assert_eq!((&condition(&host)["type"], &condition(&host)["status"]), (&json!("Approved"), &json!("True")));
    assert_eq!(host.events()[0].reason, "Approved");
}

#[test]
fn a_denial_names_all_its_reasons() {
    let wrong = Asked { organization: None, addresses: vec!["10.0.0.1"], ..Asked::default() }.object();
    let mut host = Host::new();
    call(&mut host, &wrong, &json!({})).unwrap();
    let condition = condition(&host);
    let message = condition["message"].as_str().unwrap();
    assert_eq!(condition["type"], "Denied");
    assert!(message.contains("the organization") && message.contains("10.0.0.1"), "{message}");
    assert_eq!(host.events()[0].note, message);
}

#[test]
fn with_skip_deny_step_a_wrong_request_stays_pending() {
    let wrong = Asked { organization: None, ..Asked::default() }.object();
    let mut host = Host::new();
    call(&mut host, &wrong, &json!({"skipDenyStep": true})).unwrap();
    assert_eq!(host.writes(), []);
    assert_eq!(host.events()[0].reason, "NotApproved");
}

#[test]
fn an_unusable_configuration_decides_nothing() {
    let mut host = Host::new();
    let failures = call(&mut host, &Asked::default().object(), &json!({"providerRegex": "["})).unwrap_err();
    assert!(failures.to_string().contains("providerRegex"), "{failures}");
    assert_eq!(host.writes(), []);
}

#[test]
fn a_conflict_is_returned_and_not_reported() {
    let mut host = Host::new();
    host.fail("update", KIND, ApiReason::Conflict);
    let failures = call(&mut host, &Asked::default().object(), &json!({})).unwrap_err();
    assert!(failures.is(ApiReason::Conflict), "{failures}");
    assert_eq!(host.events(), []);
}

#[test]
fn a_long_message_is_cut_at_a_character() {
    let long = crate::shortened(&"ü".repeat(1_000));
    assert!(long.len() <= 1_024 && long.ends_with("ü…"), "{}", long.len());
    assert_eq!(crate::shortened("short"), "short");
}
