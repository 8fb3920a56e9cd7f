//! Validates certificate signing requests. The signature of a request and the validity of a certificate are not
//! checked, because that would need a parser for both.

use std::collections::HashSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::report::Report;
use crate::object::{items, names, text};

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Validates a certificate signing request. `subresource` determines which conditions may change.
pub(super) fn signing_request(subresource: &str, object: &Value, previous: Option<&Value>, report: &mut Report) {
    match previous {
        None => spec(object, report),
        Some(previous) => {
            conditions(object, previous, report);
            update(subresource, object, previous, report);
        }
    }
}

/// Validates the spec of a new request. It never changes later.
fn spec(object: &Value, report: &mut Report) {
    let spec = &object["spec"];
    let request = BASE64_STANDARD.decode(text(spec, "/request")).unwrap_or_default();
    if !String::from_utf8_lossy(&request).contains("-----BEGIN CERTIFICATE REQUEST-----") {
        report.invalid("spec.request", &spec["request"], "PEM block type must be CERTIFICATE REQUEST");
    }
    let usages = items(spec, "/usages");
    if usages.is_empty() {
        report.required("spec.usages");
    }
    for (index, usage) in usages.iter().enumerate() {
        report.one_of(&format!("spec.usages[{index}]"), usage, &USAGES);
    }
    let mut seen = HashSet::new();
    for (index, usage) in usages.iter().enumerate().filter(|(_, usage)| !seen.insert(*usage)) {
        report.duplicate(format!("spec.usages[{index}]"), usage);
    }
    signer_name(&spec["signerName"], report);
    let seconds = &spec["expirationSeconds"];
    if seconds.as_i64().is_some_and(|seconds| seconds < 600) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        report.invalid("spec.expirationSeconds", seconds, why);
    }
}

fn signer_name(value: &Value, report: &mut Report) {
    const FIELD: &str = "spec.signerName";
    let name = value.as_str().unwrap_or_default();
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [""] => report.required(FIELD),
        _ if name == "kubernetes.io/legacy-unknown" => {
            report.invalid(FIELD, value, "the legacy signerName is not allowed via this API version");
        }
        [domain, path] => {
            let mut label_of = |part: &str, rule: fn(&str) -> Result<(), String>| {
                let wrong = part.split('.').find_map(|label| rule(label).err().map(|why| (label, why)));
                if let Some((label, why)) = wrong {
                    report.invalid(FIELD, &json!(part), &format!("validating label {label:?}: {why}"));
                }
            };
            label_of(domain, names::check_dns_label);
            label_of(path, names::check_subdomain);
            if !domain.contains('.') {
                let why = "should be a domain with at least two segments separated by dots";
                report.invalid(FIELD, &json!(domain), why);
            }
        }
        _ => {
            let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            report.invalid(FIELD, value, why);
        }
    }
}

fn conditions(object: &Value, previous: &Value, report: &mut Report) {
    let field = "status.conditions";
    let has_both = |object| !of_type(object, APPROVED).is_empty() && !of_type(object, DENIED).is_empty();
    let list = items(object, "/status/conditions");
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, condition) in list.iter().enumerate() {
        let place = format!("{field}[{index}]");
        let (kind, state) = (text(condition, "/type"), text(condition, "/status"));
        let states: &[&str] =
            if [APPROVED, DENIED, FAILED].contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        if kind.is_empty() {
            report.required(format!("{place}.type"));
        }
        if state.is_empty() {
            report.required(format!("{place}.status"));
        } else if !states.contains(&state) {
            report.not_supported(format!("{place}.status"), &condition["status"], states);
        }
        let other = if kind == APPROVED { DENIED } else { APPROVED };
        if [APPROVED, DENIED].contains(&kind) && seen.contains(&other) && !has_both(previous) {
            let why = "Approved and Denied conditions are mutually exclusive";
            report.invalid(field, &condition["type"], why);
        }
        if seen.contains(&kind) {
            report.duplicate(format!("{place}.type"), &condition["type"]);
        }
        seen.insert(kind);
    }
}

/// Validates an update. Only the subresource `approval` may decide about a request, and a decision is final.
fn update(subresource: &str, object: &Value, previous: &Value, report: &mut Report) {
    let of = |kind| (of_type(previous, kind), of_type(object, kind));
    for kind in [APPROVED, DENIED, FAILED] {
        let (before, now) = of(kind);
        if now.len() < before.len() {
            let why = format!("updates may not remove a condition of type {kind:?}");
            report.forbidden("status.conditions", &why);
        }
    }
    for kind in [APPROVED, DENIED].into_iter().filter(|_| subresource != "approval") {
        let (before, now) = of(kind);
        if now.len() > before.len() {
            report.forbidden("status.conditions", &format!("updates may not add a condition of type {kind:?}"));
        }
    }
    let [before, now] = [previous, object].map(|object| text(object, "/status/certificate"));
    if before != now && !before.is_empty() {
        report.forbidden("status.certificate", "updates may not modify existing certificate content");
    }
}

fn of_type<'a>(object: &'a Value, kind: &str) -> Vec<&'a Value> {
    items(object, "/status/conditions").iter().filter(|condition| condition["type"] == kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(subresource: &str, conditions: &Value, before: &Value) -> Vec<String> {
        let of = |conditions: &Value| json!({ "status": { "conditions": conditions } });
        let mut report = Report::default();
        signing_request(subresource, &of(conditions), Some(&of(before)), &mut report);
        report.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_decision_about_a_certificate_request_is_final() {
        let condition = |kind: &str| json!({ "type": kind, "status": "True" });
        let (approved, denied) = (json!([condition("Approved")]), json!([condition("Approved"), condition("Denied")]));
        assert_eq!(found("approval", &approved, &json!([])), Vec::<String>::new());
        assert_eq!(found("status", &approved, &approved), Vec::<String>::new());
        let cases = [
            ("status", &approved, json!([]), "Forbidden: updates may not add a condition of type \"Approved\""),
            (
                "approval",
                &json!([]),
                approved.clone(),
                "Forbidden: updates may not remove a condition of type \"Approved\"",
            ),
            (
                "approval",
                &denied,
                json!([]),
                "Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
            ),
        ];
        for (subresource, now, before, expected) in cases {
            assert_eq!(found(subresource, now, &before), [format!("status.conditions: {expected}")]);
        }
        let odd = json!([{ "type": "Failed", "status": "False" }]);
        let expected = "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"";
        assert_eq!(found("status", &odd, &json!([])), [expected]);
    }

    #[test]
    fn a_signer_is_a_domain_and_a_path() {
        for (name, is_valid) in [
            ("example.com/a", true),
            ("example.com/a.b", true),
            ("example/a", false),
            ("example.com", false),
            ("example.com/a/b", false),
            ("Example.com/a", false),
            ("kubernetes.io/legacy-unknown", false),
            ("", false),
        ] {
            let mut report = Report::default();
            signer_name(&json!(name), &mut report);
            assert_eq!(report.0.is_empty(), is_valid, "{name}");
        }
    }
}
