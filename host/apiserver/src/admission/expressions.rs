//! CEL expressions of admission: compiles them, and provides the variables that they see.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::cel::types::{BOOL, ObjectType, STRING, Type};
use crate::cel::{self, EvalError, Program};

/// A real server's limit on the cost of one expression.
const EXPRESSION_COST_MAX: u64 = 1_000_000;

/// The variables that every expression of admission sees.
fn common() -> [(String, Type); 3] {
    [("object", Type::Dyn), ("oldObject", Type::Dyn), ("request", request_type())]
        .map(|(name, found)| (name.to_owned(), found))
}

/// Compiles an expression that also sees the variables in `more`, and whose value must be of type `wanted`. The error
/// is a message for people.
pub(super) fn compile(source: &str, more: Vec<(String, Type)>, wanted: &Type) -> Result<Program, String> {
    let variables = common().into_iter().chain(more).collect();
    let program = Program::compile(source, variables).map_err(|why| format!("compilation failed: {why}"))?;
    let fits = program.answer == *wanted || [&program.answer, wanted].contains(&&Type::Dyn);
    if fits { Ok(program) } else { Err(format!("must evaluate to {wanted}")) }
}

/// Compiles a match condition. `has_params` is true for policies with parameters.
pub(super) fn condition(source: &str, has_params: bool) -> Result<Program, String> {
    let params = has_params.then(|| ("params".to_owned(), Type::Dyn));
    compile(source, params.into_iter().collect(), &BOOL)
}

/// Why an expression cannot be a match condition.
pub(crate) fn check_condition(source: &str, has_params: bool) -> Result<(), String> {
    condition(source, has_params).map(|_| ())
}

/// The values of the variables, from the `request` of a review.
pub(super) fn values(mut request: Value) -> Vec<(String, cel::Value)> {
    let mut taken = |key: &str| request.as_object_mut().and_then(|fields| fields.remove(key)).unwrap_or_default();
    let (object, old) = (taken("object"), taken("oldObject"));
    [("object", object), ("oldObject", old), ("request", request)]
        .map(|(name, value)| (name.to_owned(), cel::untyped(&value)))
        .into()
}

/// Evaluates an expression within the remaining budget.
pub(super) fn evaluate(
    program: &Program,
    variables: &[(String, cel::Value)],
    left: &mut u64,
) -> Result<cel::Value, EvalError> {
    let answer = program.run(variables.to_vec(), EXPRESSION_COST_MAX.min(*left));
    *left = left.saturating_sub(answer.cost);
    answer.value
}

/// `AdmissionRequest`, without the objects.
fn request_type() -> Type {
    let object = |name: &str, fields: BTreeMap<String, Type>| {
        Type::Object(Arc::new(ObjectType { name: name.to_owned(), fields }))
    };
    let texts = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), STRING)).collect::<BTreeMap<_, _>>();
    let kind = object("kubernetes.GroupVersionKind", texts(&["group", "version", "kind"]));
    let resource = object("kubernetes.GroupVersionResource", texts(&["group", "version", "resource"]));
    let mut user = texts(&["username", "uid"]);
    user.insert("groups".to_owned(), Type::list(STRING));
    user.insert("extra".to_owned(), Type::map(Type::list(STRING)));
    let mut fields = texts(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    for (name, found) in [
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("userInfo", object("kubernetes.UserInfo", user)),
        ("dryRun", BOOL),
        ("options", Type::Dyn),
    ] {
        fields.insert(name.to_owned(), found);
    }
    object("kubernetes.AdmissionRequest", fields)
}
