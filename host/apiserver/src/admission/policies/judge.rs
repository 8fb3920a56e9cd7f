//! Evaluates the stored policies for one write.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::Policies;
use super::binding::PolicyBinding;
use super::policy::{Policy, Validation};
use crate::admission::conditions::MatchCondition;
use crate::admission::request::AdmissionRequest;
use crate::admission::{expressions, review};
use crate::cel::{self, EvalError, Key, Program};
use crate::consultation::Consultation;
use crate::object;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;

/// A real server's limit on the cost of all expressions of one policy.
const POLICY_COST_MAX: u64 = 10_000_000;

/// The longest message that a `messageExpression` may return.
const POLICY_MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// A validation that failed.
struct Denial {
    message: String,
    /// Empty for `Invalid`.
    reason: String,
}

/// Evaluates the policies for a write. Returns the first denial.
pub(in super::super) fn judge(
    policies: &Policies,
    request: &AdmissionRequest<'_>,
    consultation: &Consultation,
    object: Option<&Value>,
) -> Result<(), ApiError> {
    let mut denied = None;
    for (policy, bindings) in policies.bound() {
        let Some(resource) = policy.matcher.matched(request, object)? else { continue };
        for binding in bindings {
            let is_meant = match &binding.matcher {
                None => true,
                Some(matcher) => matcher.matched(request, object)?.is_some(),
            };
            if !is_meant {
                continue;
            }
            let case = Case { policy, request, consultation, resource, object };
            let (bound, name) = (&binding.name, &policy.name);
            for denial in case.denials(binding) {
                let of = format!("ValidatingAdmissionPolicy '{name}' with binding '{bound}'");
                if binding.warns {
                    request.warnings.add([format!("Validation failed for {of}: {}", denial.message)]);
                }
                if binding.denies && denied.is_none() {
                    let message = format!("{of} denied request: {}", denial.message);
                    denied = Some(Denial { message, reason: denial.reason });
                }
            }
        }
    }
    match denied {
        None => Ok(()),
        Some(Denial { message, reason }) => {
            let name = if request.name.is_empty() { object.map_or("", object::name) } else { request.name };
            Err(ApiError::denied_by_policy(&request.resource.id, name, &reason, &message))
        }
    }
}

/// The evaluation of one policy for one write.
struct Case<'a> {
    policy: &'a Policy,
    request: &'a AdmissionRequest<'a>,
    consultation: &'a Consultation,
    /// The resource in whose version the policy sees the object.
    resource: &'a Arc<ResourceType>,
    object: Option<&'a Value>,
}

impl Case<'_> {
    /// All failed validations, evaluated once with each parameter.
    fn denials(&self, binding: &PolicyBinding) -> Vec<Denial> {
        let collected = match (&self.policy.params, &binding.params) {
            (Some(kind), Some(reference)) => reference.collect(kind, self.request),
            _ => return self.denials_with(None),
        };
        match collected {
            Ok(params) => params.iter().flat_map(|params| self.denials_with(Some(params))).collect(),
            Err(why) => self.failed(format!("failed to configure binding: {why}")),
        }
    }

    /// The denial if the evaluation itself fails. Empty if failures are ignored.
    fn failed(&self, message: String) -> Vec<Denial> {
        if self.policy.is_ignored { Vec::new() } else { vec![Denial { message, reason: String::new() }] }
    }

    fn denials_with(&self, params: Option<&Value>) -> Vec<Denial> {
        let seen = review::request(self.request, self.consultation, self.resource, self.object);
        let mut values = expressions::values(seen);
        values.push(("params".to_owned(), params.map_or(cel::Value::Null, cel::untyped)));
        match MatchCondition::all_hold(&self.policy.conditions, &values, self.policy.is_ignored) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return self.failed(why),
        }
        let namespace = self.request.namespace_object.as_deref().filter(|_| !self.request.is_of_namespaces());
        values.push(("namespaceObject".to_owned(), namespace.map_or(cel::Value::Null, cel::untyped)));
        let mut evaluation = Evaluation { values, broken: HashMap::new(), left: POLICY_COST_MAX };
        evaluation.set_variables(&self.policy.variables);
        let validations = self.policy.validations.iter();
        validations.flat_map(|validation| self.judged(validation, &mut evaluation)).collect()
    }

    fn judged(&self, validation: &Validation, evaluation: &mut Evaluation) -> Vec<Denial> {
        match evaluation.run(&validation.program) {
            Ok(cel::Value::Bool(true)) => Vec::new(),
            Ok(_) => {
                let message = evaluation.message(validation);
                vec![Denial { message, reason: validation.reason.clone() }]
            }
            Err(why) => self.failed(format!("expression '{}' resulted in error: {why}", validation.source)),
        }
    }
}

/// The evaluation of one policy's expressions on one write.
struct Evaluation {
    values: Vec<(String, cel::Value)>,
    /// The variables whose expression failed, each with its error.
    broken: HashMap<String, String>,
    left: u64,
}

impl Evaluation {
    fn run(&mut self, program: &Program) -> Result<cel::Value, String> {
        expressions::evaluate(program, &self.values, &mut self.left).map_err(|error| self.shown(&error))
    }

    /// The text of `error`. An expression that uses a failed variable shows that variable's error: a failed variable is
    /// an error only where it is used.
    fn shown(&self, error: &EvalError) -> String {
        let text = error.to_string();
        let used = text.strip_prefix("no such key: ").and_then(|name| self.broken.get_key_value(name));
        used.map_or(text.clone(), |(name, why)| format!("composited variable {name:?} fails to evaluate: {why}"))
    }

    fn set_variables(&mut self, variables: &[(String, Program)]) {
        let mut known = HashMap::new();
        self.values.push(("variables".to_owned(), map_of(&known)));
        for (name, program) in variables {
            match self.run(program) {
                Ok(value) => {
                    known.insert(Key::String(Arc::new(name.clone())), value);
                    self.values.pop();
                    self.values.push(("variables".to_owned(), map_of(&known)));
                }
                Err(why) => {
                    self.broken.insert(name.clone(), why);
                }
            }
        }
    }

    /// The message of a failed validation: from its `messageExpression`, or its `message` if that expression fails.
    fn message(&mut self, validation: &Validation) -> String {
        let made = validation.message_program.as_ref().and_then(|program| self.run(program).ok());
        if let Some(cel::Value::String(text)) = made {
            let text = text.trim();
            if !text.is_empty() && text.len() <= POLICY_MESSAGE_BYTES_MAX && !text.contains('\n') {
                return text.to_owned();
            }
        }
        if validation.message.is_empty() {
            return format!("failed expression: {}", validation.source);
        }
        validation.message.clone()
    }
}

fn map_of(fields: &HashMap<Key, cel::Value>) -> cel::Value {
    cel::Value::Map(cel::Map { map: Arc::new(fields.clone()) })
}
