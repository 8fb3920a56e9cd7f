//! `ValidatingAdmissionPolicy`, read and compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::admission::conditions::MatchCondition;
use crate::admission::expressions;
use crate::admission::matching::ResourceMatcher;
use crate::cel::Program;
use crate::cel::types::{BOOL, ObjectType, STRING, Type};
use crate::object::{self, items, text};

/// A policy. Expressions that do not compile are left out; validation has refused them.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    pub(super) matcher: ResourceMatcher,
    pub(super) conditions: Vec<MatchCondition>,
    /// The variables with their names, in the declared order. A variable may use the variables before it.
    pub(super) variables: Vec<(String, Program)>,
    pub(super) validations: Vec<Validation>,
    pub(super) params: Option<ParamKind>,
    /// True if failing expressions are ignored instead of denying the request.
    pub(super) is_ignored: bool,
}

/// One entry of `validations`.
#[derive(Debug)]
pub(super) struct Validation {
    pub(super) source: String,
    pub(super) program: Program,
    pub(super) message: String,
    pub(super) message_program: Option<Program>,
    /// The reason in the `Status`; empty for `Invalid`.
    pub(super) reason: String,
}

/// `paramKind`.
#[derive(Debug)]
pub(super) struct ParamKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// The error of an expression that does not compile.
pub(crate) struct ExpressionError {
    /// The path of the expression below `spec`.
    pub(crate) field: String,
    pub(crate) source: String,
    pub(crate) why: String,
}

impl Policy {
    /// Reads a valid policy.
    pub(super) fn read(policy: &Value) -> Policy {
        let spec = &policy["spec"];
        let mut compiler = Compiler::new(spec);
        let variables = compiler.variables(spec);
        Policy {
            name: object::name(policy).to_owned(),
            matcher: ResourceMatcher::read(&spec["matchConstraints"], "resourceRules"),
            conditions: MatchCondition::read_all(spec, has_params(spec)),
            variables,
            validations: compiler.validations(spec),
            params: spec.get("paramKind").filter(|kind| kind.is_object()).map(ParamKind::read),
            is_ignored: text(spec, "/failurePolicy") == "Ignore",
        }
    }
}

impl ParamKind {
    fn read(kind: &Value) -> ParamKind {
        let (group, version) = text(kind, "/apiVersion").split_once('/').unwrap_or(("", text(kind, "/apiVersion")));
        ParamKind { group: group.to_owned(), version: version.to_owned(), kind: text(kind, "/kind").to_owned() }
    }
}

/// The errors of all variables and validations in a policy's `spec` that do not compile.
pub(crate) fn check(spec: &Value) -> Vec<ExpressionError> {
    let mut compiler = Compiler::new(spec);
    compiler.variables(spec);
    compiler.validations(spec);
    for (index, annotation) in items(spec, "/auditAnnotations").iter().enumerate() {
        let field = format!("auditAnnotations[{index}].valueExpression");
        compiler.compile(field, text(annotation, "/valueExpression"), &STRING);
    }
    compiler.errors
}

fn has_params(spec: &Value) -> bool {
    spec.get("paramKind").is_some_and(Value::is_object)
}

/// Compiles the expressions of one policy.
struct Compiler {
    has_params: bool,
    /// The variables that have been compiled so far.
    known: BTreeMap<String, Type>,
    errors: Vec<ExpressionError>,
}

impl Compiler {
    fn new(spec: &Value) -> Compiler {
        Compiler { has_params: has_params(spec), known: BTreeMap::new(), errors: Vec::new() }
    }

    fn compile(&mut self, field: String, source: &str, wanted: &Type) -> Option<Program> {
        if source.trim().is_empty() {
            return None;
        }
        let known = ObjectType { name: "kubernetes.variables".to_owned(), fields: self.known.clone() };
        let mut more =
            vec![("namespaceObject".to_owned(), Type::Dyn), ("variables".to_owned(), Type::Object(Arc::new(known)))];
        more.extend(self.has_params.then(|| ("params".to_owned(), Type::Dyn)));
        match expressions::compile(source, more, wanted) {
            Ok(program) => Some(program),
            Err(why) => {
                self.errors.push(ExpressionError { field, source: source.to_owned(), why });
                None
            }
        }
    }

    fn variables(&mut self, spec: &Value) -> Vec<(String, Program)> {
        let mut found = Vec::new();
        for (index, variable) in items(spec, "/variables").iter().enumerate() {
            let field = format!("variables[{index}].expression");
            let name = text(variable, "/name").to_owned();
            let Some(program) = self.compile(field, text(variable, "/expression"), &Type::Dyn) else { continue };
            self.known.insert(name.clone(), program.answer.clone());
            found.push((name, program));
        }
        found
    }

    fn validations(&mut self, spec: &Value) -> Vec<Validation> {
        let mut found = Vec::new();
        for (index, validation) in items(spec, "/validations").iter().enumerate() {
            let field = |name: &str| format!("validations[{index}].{name}");
            let source = text(validation, "/expression");
            let program = self.compile(field("expression"), source, &BOOL);
            let message_program =
                self.compile(field("messageExpression"), text(validation, "/messageExpression"), &STRING);
            let Some(program) = program else { continue };
            found.push(Validation {
                source: source.trim().to_owned(),
                program,
                message: text(validation, "/message").trim().to_owned(),
                message_program,
                reason: text(validation, "/reason").to_owned(),
            });
        }
        found
    }
}
