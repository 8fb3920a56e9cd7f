//! Evaluates the rules of a schema on an object.

use serde_json::{Map, Value};

use super::super::correlate::OldItems;
use super::super::error::number_text;
use super::super::{Kind, Node};
use super::values::value_of;
use super::{Judgement, Reason, Rule};
use crate::cause::Cause;
use crate::cel::{self, EvalError};

/// The cost limits for all rules of a request together, and then for a single rule, as in a real server.
const RULES_COST_MAX: u64 = 10_000_000;
const EXPRESSION_COST_MAX: u64 = 1_000_000;

/// The longest message that an expression may return.
const RULE_MESSAGE_BYTES_MAX: usize = 5120;

/// Evaluates the rules on an object. With an old object, this includes transition rules, and errors in unchanged parts
/// are tolerated.
pub(in super::super) fn run(root: &Node, object: &Value, old: Option<&Value>) -> Judgement {
    let mut run = Run { left: RULES_COST_MAX, found: Judgement::default() };
    // If the budget is used up, `found` has an error about it.
    let _spent = run.visit(root, object, old, "", true);
    run.found
}

struct Run {
    left: u64,
    found: Judgement,
}

/// The budget is used up, so no further rule is evaluated.
struct Spent;

impl Run {
    fn visit(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        is_root: bool,
    ) -> Result<(), Spent> {
        if !node.has_rules || value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(node, value, old, path, is_root)?;
        match value {
            Value::Array(list) => self.items(node, list, old, path),
            Value::Object(fields) => self.fields(node, fields, old, path),
            _ => Ok(()),
        }
    }

    fn items(&mut self, node: &Node, list: &[Value], old: Option<&Value>, path: &str) -> Result<(), Spent> {
        let Some(items) = &node.items else { return Ok(()) };
        let old = OldItems::new(&node.list, old);
        for (index, item) in list.iter().enumerate() {
            self.visit(items, item, old.of(item), &format!("{path}[{index}]"), false)?;
        }
        Ok(())
    }

    fn fields(
        &mut self,
        node: &Node,
        fields: &Map<String, Value>,
        old: Option<&Value>,
        path: &str,
    ) -> Result<(), Spent> {
        for (name, field) in fields {
            let old = old.and_then(|old| old.get(name));
            match (node.properties.get(name), node.additional.node()) {
                (Some(property), _) => self.visit(property, field, old, &join(path, &format!(".{name}")), false)?,
                (None, Some(below)) => self.visit(below, field, old, &join(path, &format!("[{name}]")), false)?,
                (None, None) => {}
            }
        }
        Ok(())
    }

    fn rules(
        &mut self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        is_root: bool,
    ) -> Result<(), Spent> {
        if node.rules.is_empty() {
            return Ok(());
        }
        let Some(current) = value_of(node, value, is_root) else { return Ok(()) };
        let previous = old.and_then(|old| value_of(node, old, is_root));
        let stays = old.is_some_and(|old| old == value);
        for rule in &node.rules {
            if rule.uses_old_self && previous.is_none() && !rule.optional_old_self {
                continue;
            }
            let variables = variables(rule, &current, previous.as_ref());
            match self.rule(node, rule, value, variables, path)? {
                Ok(()) => {}
                Err(error) if stays && !rule.uses_old_self => self.found.warnings.push(error.to_string()),
                Err(error) => self.found.causes.push(error),
            }
        }
        Ok(())
    }

    /// Evaluates one rule. The inner error says how the value violates the rule.
    fn rule(
        &mut self,
        node: &Node,
        rule: &Rule,
        value: &Value,
        variables: Vec<(String, cel::Value)>,
        path: &str,
    ) -> Result<Result<(), Cause>, Spent> {
        let kind = format!("{:?}", node.kind.map_or("", Kind::name));
        let invalid = |detail: String| cause(Reason::Invalid, path, Some(&kind), &detail);
        let answer = rule.program.run(variables.clone(), EXPRESSION_COST_MAX);
        if answer.cost > self.left {
            self.found.causes.push(invalid(
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned(),
            ));
            return Err(Spent);
        }
        self.left -= answer.cost;
        match answer.value {
            Ok(cel::Value::Bool(true)) => Ok(Ok(())),
            Ok(_) => {
                let message = self.message(rule, variables);
                let place = format!("{path}{}", rule.field_path);
                let place = place.strip_prefix('.').unwrap_or(&place);
                Ok(Err(cause(rule.reason, place, shown(value).as_deref(), &message)))
            }
            Err(EvalError::TooCostly) => {
                let why = "call cost exceeds limit for rule";
                self.found.causes.push(invalid(format!(
                    "{}: no further validation rules will be run due to {why}: {}",
                    EvalError::TooCostly,
                    rule.shown()
                )));
                Err(Spent)
            }
            Err(EvalError::NoSuchOverload) => Ok(Err(invalid(format!(
                "'{}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                EvalError::NoSuchOverload,
                rule.shown()
            )))),
            Err(error) => Ok(Err(invalid(format!("{error} evaluating rule: {}", rule.shown())))),
        }
    }

    /// The message about a violated rule: from its `messageExpression`, or its `message` if the expression fails.
    fn message(&mut self, rule: &Rule, variables: Vec<(String, cel::Value)>) -> String {
        let usual = || {
            if rule.message.is_empty() { format!("failed rule: {}", rule.source) } else { rule.message.clone() }
        };
        let Some(program) = &rule.message_program else { return usual() };
        let answer = program.run(variables, EXPRESSION_COST_MAX.min(self.left));
        self.left = self.left.saturating_sub(answer.cost);
        match answer.value {
            Ok(cel::Value::String(text)) => {
                let text = text.trim();
                let fits = !text.is_empty() && text.len() <= RULE_MESSAGE_BYTES_MAX && !text.contains('\n');
                if fits { text.to_owned() } else { usual() }
            }
            _ => usual(),
        }
    }
}

impl Rule {
    /// The text for the rule in an evaluation error.
    fn shown(&self) -> &str {
        if self.message.is_empty() { &self.source } else { &self.message }
    }
}

fn variables(rule: &Rule, current: &cel::Value, previous: Option<&cel::Value>) -> Vec<(String, cel::Value)> {
    let old = if rule.optional_old_self { Some(cel::optional(previous.cloned())) } else { previous.cloned() };
    let mut found = vec![("self".to_owned(), current.clone())];
    found.extend(old.map(|old| ("oldSelf".to_owned(), old)));
    found
}

fn join(path: &str, segment: &str) -> String {
    if path.is_empty() { segment.strip_prefix('.').unwrap_or(segment).to_owned() } else { format!("{path}{segment}") }
}

/// A scalar as an error shows it. `None` for objects and lists.
fn shown(value: &Value) -> Option<String> {
    let text = |value: &Value| value.as_number().map_or_else(|| value.to_string(), number_text);
    (!value.is_object() && !value.is_array()).then(|| text(value))
}

fn cause(reason: Reason, path: &str, shown: Option<&str>, detail: &str) -> Cause {
    let (reason, words, shown, detail) = match reason {
        Reason::Invalid => ("FieldValueInvalid", "Invalid value", shown, Some(detail)),
        Reason::Duplicate => ("FieldValueDuplicate", "Duplicate value", shown, None),
        Reason::Forbidden => ("FieldValueForbidden", "Forbidden", None, Some(detail)),
        Reason::Required => ("FieldValueRequired", "Required value", None, Some(detail)),
    };
    let parts: Vec<&str> = [Some(words), shown, detail].into_iter().flatten().collect();
    let field = if path.is_empty() { "<nil>" } else { path };
    Cause { reason, message: parts.join(": "), field: field.to_owned() }
}
