//! Validation of admission policies and their bindings. Follows `pkg/apis/admissionregistration/validation`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::admission::{match_conditions, rule};
use super::report::Report;
use crate::admission::{self, ExpressionError};
use crate::object::{items, names, strings, text};

const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

pub(super) fn policy(policy: &Value, report: &mut Report) {
    let spec = &policy["spec"];
    report.one_of("spec.failurePolicy", &spec["failurePolicy"], &["Fail", "Ignore"]);
    let has_params = spec["paramKind"].is_object();
    if has_params {
        for key in ["apiVersion", "kind"] {
            if text(spec, &format!("/paramKind/{key}")).is_empty() {
                report.required(format!("spec.paramKind.{key}"));
            }
        }
    }
    if spec["matchConstraints"].is_object() {
        resources("spec.matchConstraints", &spec["matchConstraints"], report);
        if items(spec, "/matchConstraints/resourceRules").is_empty() {
            report.required("spec.matchConstraints.resourceRules");
        }
    } else {
        report.required("spec.matchConstraints");
    }
    match_conditions("spec.matchConditions", spec, has_params, report);
    variables(spec, report);
    let validations = items(spec, "/validations");
    if validations.is_empty() && items(spec, "/auditAnnotations").is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        report.required_because("spec.validations", why);
        report.required_because("spec.auditAnnotations", why);
    }
    for (index, validation) in validations.iter().enumerate() {
        validate(&format!("spec.validations[{index}]"), validation, report);
    }
    for ExpressionError { field, source, why } in admission::check_policy(spec) {
        report.invalid(format!("spec.{field}"), &json!(source), &why);
    }
}

fn variables(spec: &Value, report: &mut Report) {
    for (index, variable) in items(spec, "/variables").iter().enumerate() {
        let field = |name: &str| format!("spec.variables[{index}].{name}");
        let name = text(variable, "/name");
        let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if name.trim().is_empty() {
            report.required_because(field("name"), "name is not specified");
        } else if !starts || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
            report.invalid(field("name"), &variable["name"], "must be a valid CEL identifier");
        }
        if text(variable, "/expression").trim().is_empty() {
            report.required_because(field("expression"), "expression is not specified");
        }
    }
}

fn validate(place: &str, validation: &Value, report: &mut Report) {
    let field = |name: &str| format!("{place}.{name}");
    if text(validation, "/expression").trim().is_empty() {
        report.required_because(field("expression"), "expression is not specified");
    }
    for key in ["messageExpression", "message"] {
        let given = text(validation, &format!("/{key}"));
        if !given.is_empty() && given.trim().is_empty() {
            report.invalid(field(key), &validation[key], "must be non-empty if specified");
        } else if key == "message" && given.trim().contains(['\n', '\r']) {
            report.invalid(field(key), &validation[key], "must not contain line breaks");
        }
    }
    report.one_of(&field("reason"), &validation["reason"], &REASONS);
}

/// Validates `MatchResources`.
fn resources(place: &str, resources: &Value, report: &mut Report) {
    report.one_of(&format!("{place}.matchPolicy"), &resources["matchPolicy"], &["Equivalent", "Exact"]);
    for selector in ["namespaceSelector", "objectSelector"] {
        report.selector(&format!("{place}.{selector}"), &resources[selector]);
    }
    for rules in ["resourceRules", "excludeResourceRules"] {
        for (index, found) in items(resources, &format!("/{rules}")).iter().enumerate() {
            let place = format!("{place}.{rules}[{index}]");
            for (index, name) in strings(found, "/resourceNames").into_iter().enumerate() {
                if let Err(why) = names::check_path_segment(name) {
                    report.invalid(format!("{place}.resourceNames[{index}]"), &json!(name), &why);
                }
            }
            rule(&place, found, report);
        }
    }
}

pub(super) fn binding(binding: &Value, report: &mut Report) {
    let spec = &binding["spec"];
    if text(spec, "/policyName").is_empty() {
        report.required("spec.policyName");
    }
    let reference = &spec["paramRef"];
    if reference.is_object() {
        param_ref("spec.paramRef", reference, report);
    }
    if spec["matchResources"].is_object() {
        resources("spec.matchResources", &spec["matchResources"], report);
    }
    let actions = strings(spec, "/validationActions");
    let mut known = BTreeSet::new();
    for (index, action) in actions.iter().enumerate() {
        let place = format!("spec.validationActions[{index}]");
        if !ACTIONS.contains(action) {
            report.not_supported(&place, &json!(action), &ACTIONS);
        }
        if !known.insert(action) {
            report.duplicate(place, &json!(action));
        }
    }
    if known.contains(&"Deny") && known.contains(&"Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        report.invalid("spec.validationActions", &spec["validationActions"], why);
    }
    if actions.is_empty() {
        report.required_because("spec.validationActions", "at least one validation action is required");
    }
}

fn param_ref(place: &str, reference: &Value, report: &mut Report) {
    let has_selector = reference["selector"].is_object();
    match (text(reference, "/name").is_empty(), has_selector) {
        (true, false) => {
            report.required_because(place, "one of name or selector must be specified");
        }
        (false, true) => {
            for key in ["name", "selector"] {
                report.forbidden(format!("{place}.{key}"), "name and selector are mutually exclusive");
            }
        }
        _ => {}
    }
    if has_selector {
        report.selector(&format!("{place}.selector"), &reference["selector"]);
    }
    let action = format!("{place}.parameterNotFoundAction");
    if text(reference, "/parameterNotFoundAction").is_empty() {
        report.required(action);
    } else {
        report.one_of(&action, &reference["parameterNotFoundAction"], &["Allow", "Deny"]);
    }
}
