//! Validates admission configurations. Follows `pkg/apis/admissionregistration/validation`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::report::Report;
use crate::admission;
use crate::consultation::reviews;
use crate::object::{self, names, strings, text};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const URL_FORM: &str = "; desired format: https://host[/path]";
const MATCH_CONDITIONS_MAX: usize = 64;

/// Validates a `ValidatingWebhookConfiguration` or `MutatingWebhookConfiguration`.
pub(super) fn webhooks(configuration: &Value, report: &mut Report) {
    let mut known = BTreeSet::new();
    let missing = format!("must specify one of {}", reviews::VERSIONS.join(", "));
    for (index, webhook) in object::items(configuration, "/webhooks").iter().enumerate() {
        let place = format!("webhooks[{index}]");
        validate_webhook(&place, webhook, report);
        let versions = &webhook["admissionReviewVersions"];
        review_versions(&format!("{place}.admissionReviewVersions"), versions, &missing, report);
        let name = text(webhook, "/name");
        if !name.is_empty() && !known.insert(name) {
            report.duplicate(format!("{place}.name"), &webhook["name"]);
        }
    }
}

fn validate_webhook(place: &str, webhook: &Value, report: &mut Report) {
    let field = |name: &str| format!("{place}.{name}");
    qualified_name(&field("name"), &webhook["name"], report);
    for (index, found) in object::items(webhook, "/rules").iter().enumerate() {
        rule(&format!("{place}.rules[{index}]"), found, report);
    }
    report.one_of(&field("failurePolicy"), &webhook["failurePolicy"], &["Fail", "Ignore"]);
    report.one_of(&field("matchPolicy"), &webhook["matchPolicy"], &["Equivalent", "Exact"]);
    let effects = ["None", "NoneOnDryRun"];
    if text(webhook, "/sideEffects").is_empty() {
        report.required_because(field("sideEffects"), &format!("must specify one of {}", effects.join(", ")));
    } else {
        report.one_of(&field("sideEffects"), &webhook["sideEffects"], &effects);
    }
    let timeout = &webhook["timeoutSeconds"];
    if timeout.as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        report.invalid(field("timeoutSeconds"), timeout, "the timeout value must be between 1 and 30 seconds");
    }
    report.selector(&field("namespaceSelector"), &webhook["namespaceSelector"]);
    report.selector(&field("objectSelector"), &webhook["objectSelector"]);
    report.one_of(&field("reinvocationPolicy"), &webhook["reinvocationPolicy"], &["IfNeeded", "Never"]);
    client(&field("clientConfig"), &webhook["clientConfig"], report);
    match_conditions(&field("matchConditions"), webhook, false, report);
}

/// Checks a webhook's name: a domain name of at least three labels.
fn qualified_name(field: &str, name: &Value, report: &mut Report) {
    let shown = name.as_str().unwrap_or_default();
    match names::check_subdomain(shown) {
        _ if shown.is_empty() => report.required(field),
        Err(why) => report.invalid(field, name, &why),
        Ok(()) if shown.split('.').count() < 3 => {
            let why = "should be a domain with at least three segments separated by dots";
            report.invalid(field, name, why);
        }
        Ok(()) => {}
    }
}

pub(super) fn rule(place: &str, rule: &Value, report: &mut Report) {
    let others = [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")];
    for (key, shown) in others {
        let found = strings(rule, &format!("/{key}"));
        let field = format!("{place}.{key}");
        if found.is_empty() {
            report.required(&field);
        } else if found.len() > 1 && found.contains(&"*") {
            report.invalid(&field, &rule[key], &format!("if '*' is present, must not specify other {shown}"));
        }
        for (index, item) in found.into_iter().enumerate() {
            match key {
                "operations" if !OPERATIONS.contains(&item) => {
                    report.not_supported(format!("{field}[{index}]"), &json!(item), &OPERATIONS);
                }
                "apiVersions" if item.is_empty() => report.required(format!("{field}[{index}]")),
                _ => {}
            }
        }
    }
    resources(&format!("{place}.resources"), &rule["resources"], report);
    report.one_of(&format!("{place}.scope"), &rule["scope"], &["*", "Cluster", "Namespaced"]);
}

fn resources(field: &str, listed: &Value, report: &mut Report) {
    let found = strings(listed, "");
    if found.is_empty() {
        report.required(field);
    }
    let (mut with_all_parts, mut parts_of_all) = (BTreeSet::new(), BTreeSet::new());
    for (index, item) in found.iter().enumerate() {
        let place = format!("{field}[{index}]");
        if item.is_empty() {
            report.required(&place);
        }
        let Some((resource, part)) = item.split_once('/') else { continue };
        if with_all_parts.contains(resource) {
            let why = format!("if '{resource}/*' is present, must not specify {item}");
            report.invalid(&place, &json!(item), &why);
        }
        if parts_of_all.contains(part) {
            report.invalid(&place, &json!(item), &format!("if '*/{part}' is present, must not specify {item}"));
        }
        if part == "*" {
            with_all_parts.insert(resource);
        }
        if resource == "*" {
            parts_of_all.insert(part);
        }
    }
    if found.len() > 1 && found.contains(&"*/*") {
        report.invalid(field, listed, "if '*/*' is present, must not specify other resources");
    }
    // As in a real server, the last resource without a subresource counts.
    let last = found.iter().rfind(|item| !item.is_empty() && !item.contains('/'));
    if found.contains(&"*") && last.is_some_and(|last| *last != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        report.invalid(field, listed, why);
    }
}

/// Checks `admissionReviewVersions`. `missing` is the detail of the error if the list is empty.
pub(super) fn review_versions(field: &str, listed: &Value, missing: &str, report: &mut Report) {
    let found = strings(listed, "");
    if found.is_empty() {
        report.required_because(field, missing);
        return;
    }
    let mut known = BTreeSet::new();
    for (index, version) in found.iter().enumerate() {
        let place = format!("{field}[{index}]");
        if !known.insert(version) {
            report.invalid(place, &json!(version), "duplicate version");
        } else if let Err(why) = names::check_dns_1035_label(version) {
            report.invalid(place, &json!(version), &why);
        }
    }
    if !found.iter().any(|version| reviews::VERSIONS.contains(version)) {
        let why = format!("must include at least one of {}", reviews::VERSIONS.join(", "));
        report.invalid(field, listed, &why);
    }
}

/// Validates a `WebhookClientConfig`.
pub(super) fn client(field: &str, config: &Value, report: &mut Report) {
    let (url, service) = (config["url"].as_str(), config.get("service").filter(|service| service.is_object()));
    match (url, service) {
        (Some(url), None) => validate_url(&format!("{field}.url"), url, report),
        (None, Some(service)) => {
            // A real server confuses the two fields: the error about one names the other.
            for (key, blamed) in [("name", "namespace"), ("namespace", "name")] {
                if text(service, &format!("/{key}")).is_empty() {
                    report.required(format!("{field}.service.{blamed}"));
                }
            }
            let port = &service["port"];
            if port.as_i64().is_some_and(|port| !(1..=65_535).contains(&port)) {
                let why = "port is not valid: must be between 1 and 65535, inclusive";
                report.invalid(format!("{field}.service.port"), port, why);
            }
        }
        _ => report.required_because(field, "exactly one of url or service is required"),
    }
}

fn validate_url(field: &str, url: &str, report: &mut Report) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let mut refuse = |found: &str, why: &str| report.invalid(field, &json!(found), why);
    if scheme != "https" {
        refuse(scheme, &format!("'https' is the only allowed URL scheme{URL_FORM}"));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() || scheme.is_empty() {
        refuse("", &format!("host must be specified{URL_FORM}"));
    }
    if !user.is_empty() {
        refuse(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        refuse(query, "query parameters are not permitted in the URL");
    }
}

pub(super) fn match_conditions(field: &str, from: &Value, has_params: bool, report: &mut Report) {
    let conditions = object::items(from, "/matchConditions");
    if conditions.len() > MATCH_CONDITIONS_MAX {
        report.too_many(field, conditions.len(), MATCH_CONDITIONS_MAX);
    }
    let mut known = BTreeSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let place = format!("{field}[{index}]");
        let (source, name) = (text(condition, "/expression"), text(condition, "/name"));
        if source.trim().is_empty() {
            report.required(format!("{place}.expression"));
        } else if let Err(why) = admission::check_condition(source.trim(), has_params) {
            report.invalid(format!("{place}.expression"), &condition["expression"], &why);
        }
        match names::check_label_key(name) {
            _ if name.is_empty() => report.required(format!("{place}.name")),
            Err(why) => report.invalid(format!("{place}.name"), &condition["name"], &why),
            Ok(()) if !known.insert(name) => report.duplicate(format!("{place}.name"), &condition["name"]),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook() -> Value {
        json!({
            "name": "a.b.c",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "url": "https://localhost:1/x" },
            "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"] }],
        })
    }

    /// The errors of a valid webhook after one field was changed.
    fn with(pointer: &str, value: Value) -> Vec<String> {
        let mut webhook = webhook();
        match pointer.rsplit_once('/') {
            Some((parent, key)) => webhook.pointer_mut(parent).expect("a map")[key] = value,
            None => unreachable!("a pointer begins with a slash"),
        }
        let mut report = Report::default();
        webhooks(&json!({ "webhooks": [webhook] }), &mut report);
        report.0.iter().map(|cause| cause.to_string().replace("webhooks[0].", "")).collect()
    }

    #[test]
    fn an_invalid_webhook_is_refused_as_by_a_real_server() {
        assert_eq!(with("/sideEffects", json!("None")), [""; 0]);
        let cases = [
            (
                "/name",
                json!("a"),
                "name: Invalid value: \"a\": should be a domain with at least three segments separated by dots",
            ),
            ("/sideEffects", json!(null), "sideEffects: Required value: must specify one of None, NoneOnDryRun"),
            (
                "/timeoutSeconds",
                json!(31),
                "timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            ),
            (
                "/clientConfig/url",
                json!("http://x"),
                "clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
            ),
            (
                "/clientConfig/url",
                json!("https://x?a=b"),
                "clientConfig.url: Invalid value: \"a=b\": query parameters are not permitted in the URL",
            ),
            ("/clientConfig", json!({}), "clientConfig: Required value: exactly one of url or service is required"),
            (
                "/admissionReviewVersions",
                json!(["v2"]),
                "admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1",
            ),
            (
                "/rules/0/operations",
                json!(["GET"]),
                "rules[0].operations[0]: Unsupported value: \"GET\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
            ),
            (
                "/rules/0/resources",
                json!(["*", "pods"]),
                "rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
            ),
            (
                "/matchConditions",
                json!([{ "name": "n", "expression": "1" }]),
                "matchConditions[0].expression: Invalid value: \"1\": must evaluate to bool",
            ),
        ];
        for (pointer, value, expected) in cases {
            assert_eq!(with(pointer, value), [expected], "{pointer}");
        }
        let [why] =
            with("/matchConditions", json!([{ "name": "n", "expression": "authorizer.x" }])).try_into().expect("one");
        assert!(why.contains("undeclared reference to 'authorizer'"), "{why}");
    }
}
