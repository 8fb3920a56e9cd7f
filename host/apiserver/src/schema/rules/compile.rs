//! Checks and compiles the rules of a schema.

use serde_json::{Value, json};

use super::super::parse::Path;
use super::super::{Additional, ListKind, Node, SchemaError};
use super::declared::type_of;
use super::{Reason, Rule, field_path};
use crate::cel::Program;
use crate::cel::types::{BOOL, STRING, Type};

/// Checks the rules of a node and of all nodes below it, except their expressions.
pub(in super::super) fn check(root: &Node) -> Vec<SchemaError> {
    let mut errors = Vec::new();
    walk(root, &Path::root(), &mut errors);
    errors
}

fn walk(node: &Node, at: &Path, errors: &mut Vec<SchemaError>) {
    for (index, rule) in node.written_rules.iter().enumerate() {
        errors.extend(plain_errors(node, rule, &at.child(&format!("x-kubernetes-validations[{index}]"))));
    }
    for (name, property) in node.properties.iter() {
        walk(property, &at.property(name), errors);
    }
    if let Additional::Like(additional) = &node.additional {
        walk(additional, &at.child("additionalProperties"), errors);
    }
    if let Some(items) = &node.items {
        walk(items, &at.child("items"), errors);
    }
}

/// Compiles the rules of a node and of all nodes below it. Returns the errors.
pub(in super::super) fn compile(root: &mut Node) -> Vec<SchemaError> {
    let mut errors = Vec::new();
    visit(root, &Path::root(), &Surroundings { is_resource: true, uncorrelatable: None }, &mut errors);
    errors
}

/// Properties of a node that follow from the nodes around it.
struct Surroundings {
    is_resource: bool,
    /// The path of the outermost list that contains the node and whose items have no identity.
    uncorrelatable: Option<String>,
}

fn visit(node: &mut Node, at: &Path, place: &Surroundings, errors: &mut Vec<SchemaError>) {
    let written = std::mem::take(&mut node.written_rules);
    if !written.is_empty() {
        let declared = type_of(node, place.is_resource, "selfType");
        if declared.is_none() {
            let why = "Internal error: internal error: failed to construct type information for \
                       x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            errors.push(at.child("x-kubernetes-validations").refuse(why));
        }
        for (index, rule) in written.iter().enumerate() {
            let at = at.child(&format!("x-kubernetes-validations[{index}]"));
            match compile_rule(node, declared.as_ref(), rule, &at, place) {
                Ok(rule) => node.rules.push(rule),
                Err(found) => errors.extend(found),
            }
        }
    }
    node.has_rules = !node.rules.is_empty();
    let below = |above: bool, at: &Path| Surroundings {
        is_resource: false,
        uncorrelatable: place.uncorrelatable.clone().or_else(|| above.then(|| at.to_string())),
    };
    for (name, property) in node.properties.iter_mut() {
        visit(property, &at.property(name), &below(false, at), errors);
        node.has_rules |= property.has_rules;
    }
    if let Additional::Like(additional) = &mut node.additional {
        visit(additional, &at.child("additionalProperties"), &below(false, at), errors);
        node.has_rules |= additional.has_rules;
    }
    if let Some(items) = &mut node.items {
        let has_no_identity = !matches!(node.list, ListKind::Map(_));
        visit(items, &at.child("items"), &below(has_no_identity, at), errors);
        node.has_rules |= items.has_rules;
    }
}

fn compile_rule(
    node: &Node,
    declared: Option<&Type>,
    written: &Value,
    at: &Path,
    place: &Surroundings,
) -> Result<Rule, Vec<SchemaError>> {
    let mut errors = Vec::new();
    let text = |key: &str| written[key].as_str().unwrap_or_default();
    let optional_old_self = written["optionalOldSelf"].as_bool();
    let refuse = |field: &str, value: &str, why: &str| {
        at.child(field).refuse(format!("Invalid value: {}: {why}", Value::from(value)))
    };
    let Some(declared) = declared else { return Err(errors) };
    let old = match optional_old_self {
        Some(true) => Type::optional(declared.clone()),
        _ => declared.clone(),
    };
    let variables = || vec![("self".to_owned(), declared.clone()), ("oldSelf".to_owned(), old.clone())];
    let compiled = |field: &str, wanted: &Type| -> Result<Program, SchemaError> {
        let refuse = |why: &str| at.child(field).refuse(format!("Invalid value: {}: {why}", as_struct(written)));
        let program =
            Program::compile(text(field), variables()).map_err(|why| refuse(&format!("compilation failed: {why}")))?;
        if program.answer != *wanted && program.answer != Type::Dyn {
            return Err(refuse(&format!("{} must evaluate to a {wanted}", expression(field))));
        }
        Ok(program)
    };
    if text("rule").trim().is_empty() {
        return Err(errors);
    }
    let message_program = if text("messageExpression").trim().is_empty() {
        None
    } else {
        compiled("messageExpression", &STRING).map_err(|error| errors.push(error)).ok()
    };
    let program = compiled("rule", &BOOL).map_err(|error| errors.push(error)).ok();
    let uses_old_self = program.as_ref().is_some_and(|program| program.mentions("oldSelf"));
    if let Some(above) = place.uncorrelatable.as_ref().filter(|_| uses_old_self) {
        let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
        errors.push(refuse("rule", text("rule"), &why));
    }
    if optional_old_self.is_some() && !uses_old_self {
        let why = "may not be set if oldSelf is not used in rule";
        let shown = written["optionalOldSelf"].to_string();
        errors.push(at.child("optionalOldSelf").refuse(format!("Invalid value: {shown}: {why}")));
    }
    let Some(program) = program.filter(|_| errors.is_empty()) else { return Err(errors) };
    let reason = Reason::NAMES.iter().find(|(name, _)| *name == text("reason"));
    Ok(Rule {
        source: text("rule").trim().to_owned(),
        program,
        message: text("message").trim().to_owned(),
        message_program,
        reason: reason.map(|(_, reason)| *reason).unwrap_or_default(),
        field_path: field_path::parse(text("fieldPath"), node).unwrap_or_default(),
        optional_old_self: optional_old_self == Some(true),
        uses_old_self,
    })
}

/// A rule as a real server's error shows it: the Go struct as HTML-safe JSON.
fn as_struct(written: &Value) -> String {
    let text = |key: &str| written[key].as_str().unwrap_or_default();
    let fields = [
        ("Rule", json!(text("rule"))),
        ("Message", json!(text("message"))),
        ("MessageExpression", json!(text("messageExpression"))),
        ("Reason", written["reason"].clone()),
        ("FieldPath", json!(text("fieldPath"))),
        ("OptionalOldSelf", written["optionalOldSelf"].clone()),
    ];
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
    let shown = format!("{{{}}}", fields.join(","));
    shown.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

fn expression(field: &str) -> &str {
    if field == "rule" { "cel expression" } else { field }
}

/// The errors in a rule that are found without compiling it.
fn plain_errors(node: &Node, written: &Value, at: &Path) -> Vec<SchemaError> {
    let mut errors = Vec::new();
    let text = |key: &str| written[key].as_str().unwrap_or_default();
    let given = |key: &str| written.get(key).is_some_and(|value| !value.is_null());
    let mut refuse = |field: &str, why: &str| errors.push(at.child(field).refuse(why));
    let invalid = |value: &str, why: &str| format!("Invalid value: {}: {why}", Value::from(value));

    let (rule, message) = (text("rule"), text("message"));
    if rule.trim().is_empty() {
        refuse("rule", "Required value: rule is not specified");
    }
    if !message.is_empty() && message.trim().is_empty() {
        refuse("message", &invalid(message, "must be non-empty if specified"));
    } else if message.trim().contains('\n') {
        refuse("message", &invalid(message, "must not contain line breaks"));
    } else if rule.trim().contains('\n') && message.is_empty() {
        refuse("message", "Required value: message must be specified if rule contains line breaks");
    }
    let expression = text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        refuse("messageExpression", "Required value: messageExpression must be non-empty if specified");
    }
    if given("reason") && !Reason::NAMES.iter().any(|(name, _)| *name == text("reason")) {
        let names: Vec<String> = Reason::NAMES.iter().map(|(name, _)| format!("{name:?}")).collect();
        let shown = Value::from(text("reason"));
        refuse("reason", &format!("Unsupported value: {shown}: supported values: {}", names.join(", ")));
    }
    let path = text("fieldPath");
    if !path.is_empty() && path.trim().is_empty() {
        refuse("fieldPath", &invalid(path, "must be non-empty if specified"));
    }
    if field_path::parse(path, node).is_none() {
        refuse("fieldPath", &invalid(path, "must be a valid path"));
    }
    errors
}
