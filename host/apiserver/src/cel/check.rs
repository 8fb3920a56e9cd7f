//! Checks the types of an expression when it is compiled, with the messages of cel-go.

use super::ast::{Bind, Element, Expr, ExprKind, Loop, Macro};
use super::types::{BOOL, BYTES, Bindings, DOUBLE, INT, NULL, STRING, Type, UINT};
use super::{SyntaxError, declarations};
use kube_cel::cel::Value;

/// Finds the type of an expression and its type errors.
pub(super) struct Checker {
    /// The variables in scope, innermost last.
    scope: Vec<(String, Type)>,
    pub(super) errors: Vec<SyntaxError>,
}

impl Checker {
    pub(super) fn new(variables: Vec<(String, Type)>) -> Checker {
        Checker { scope: variables, errors: Vec::new() }
    }

    fn refuse(&mut self, at: usize, message: String) -> Type {
        self.errors.push(SyntaxError { at, message });
        Type::Dyn
    }

    pub(super) fn check(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            ExprKind::Literal(value) => literal(value),
            ExprKind::Ident(name) => match self.variable(name) {
                Some(found) => found,
                None if declarations::is_type(name) => Type::Named("type"),
                None => self.refuse(expr.at, format!("undeclared reference to '{name}' (in container '')")),
            },
            ExprKind::Select { operand, field, optional } => {
                let operand = self.check(operand);
                let found = self.field(expr.at, &operand, field);
                if *optional && !matches!(found, Type::Optional(_)) { Type::optional(found) } else { found }
            }
            ExprKind::Has { operand, field } => {
                let operand = self.check(operand);
                self.field(expr.at, &operand, field);
                BOOL
            }
            ExprKind::Logic { terms, .. } => self.logic(terms),
            ExprKind::Call { target, function, args } => self.call(expr.at, target.as_deref(), function, args),
            ExprKind::List(entries) => {
                let items = entries.iter().map(|entry| (entry.value.at, self.entry(entry))).collect();
                Type::list(self.alike(items))
            }
            ExprKind::Map(entries) => {
                let keys = entries.iter().map(|(key, _)| (key.at, self.check(key))).collect();
                let values = entries.iter().map(|(_, entry)| (entry.value.at, self.entry(entry))).collect();
                Type::Map(Box::new(self.alike(keys)), Box::new(self.alike(values)))
            }
            ExprKind::Loop(found) => self.repeat(found),
            ExprKind::Bind { how, variable, value, body } => self.bind(*how, variable, value, body),
        }
    }

    fn variable(&self, name: &str) -> Option<Type> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, found)| found.clone())
    }

    fn field(&mut self, at: usize, operand: &Type, field: &str) -> Type {
        match operand {
            Type::Dyn | Type::Param(_) => Type::Dyn,
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(found) => found.clone(),
                None => self.refuse(at, format!("undefined field '{field}'")),
            },
            Type::Optional(inner) => Type::optional(self.field(at, inner, field)),
            other => self.refuse(at, format!("type '{other}' does not support field selection")),
        }
    }

    fn logic(&mut self, terms: &[Expr]) -> Type {
        for term in terms {
            self.must_be_bool(term);
        }
        BOOL
    }

    /// The common type of the items of a literal.
    fn alike(&mut self, items: Vec<(usize, Type)>) -> Type {
        let mut bindings = Bindings::default();
        // In a literal, null must not be mixed with other values, although it may be compared with them.
        let is_null = items.first().is_some_and(|(_, found)| *found == NULL);
        for (at, found) in items {
            let is_mixed = found != Type::Dyn && (found == NULL) != is_null;
            if is_mixed || !bindings.fits(&Type::Param('A'), &found) {
                let wanted = bindings.resolve(&Type::Param('A'));
                self.refuse(at, format!("expected type '{wanted}' but found '{found}'"));
            }
        }
        bindings.bound().unwrap_or(Type::Param('A'))
    }

    fn no_overload(&mut self, at: usize, function: &str, target: Option<&Type>, args: &[Type]) -> Type {
        let args: Vec<String> = args.iter().map(Type::to_string).collect();
        let target = target.map(|target| format!("{target}.")).unwrap_or_default();
        let applied = format!("{target}({})", args.join(", "));
        self.refuse(at, format!("found no matching overload for '{function}' applied to '{applied}'"))
    }

    fn call(&mut self, at: usize, target: Option<&Expr>, function: &str, args: &[Expr]) -> Type {
        let package = target.and_then(|target| declarations::package(target, function));
        let (name, target) = match &package {
            Some(name) => (name.as_str(), None),
            None => (function, target.map(|target| self.check(target))),
        };
        self.check_literals(name, args);
        let args: Vec<Type> = match (name, args) {
            // The arguments of `format` may have any types.
            ("format", [Expr { kind: ExprKind::List(items), .. }]) => {
                for item in items {
                    self.entry(item);
                }
                vec![Type::list(Type::Dyn)]
            }
            _ => args.iter().map(|arg| self.check(arg)).collect(),
        };
        let Some(overloads) = declarations::overloads(name) else {
            return self.refuse(at, format!("undeclared reference to '{name}' (in container '')"));
        };
        let mut answers: Vec<Type> = Vec::new();
        for overload in overloads {
            let mut bindings = Bindings::default();
            let receives = match (&overload.target, &target) {
                (None, None) => true,
                (Some(wanted), Some(given)) => bindings.fits(wanted, given),
                _ => false,
            };
            let fits = receives
                && overload.args.len() == args.len()
                && overload.args.iter().zip(&args).all(|(wanted, given)| bindings.fits(wanted, given));
            if fits {
                answers.push(bindings.resolve(&overload.answer));
            }
        }
        if answers.is_empty() {
            return self.no_overload(at, name, target.as_ref(), &args);
        }
        one_of(answers)
    }

    /// Checks literal arguments that would be an error whatever the object is.
    fn check_literals(&mut self, function: &str, args: &[Expr]) {
        for arg in args {
            let ExprKind::Literal(Value::String(text)) = &arg.kind else { continue };
            let is_wrong = match function {
                "duration" | "timestamp" => {
                    super::library::call(function, None, vec![Value::String(text.clone())]).is_err()
                }
                "matches" => crate::pattern::compile(text).is_err(),
                _ => false,
            };
            if is_wrong {
                self.refuse(arg.at, format!("invalid {function} argument"));
            }
        }
    }

    fn entry(&mut self, entry: &Element) -> Type {
        match self.check(&entry.value) {
            Type::Optional(inner) if entry.optional => *inner,
            found => found,
        }
    }

    fn repeat(&mut self, found: &Loop) -> Type {
        let range = self.check(&found.range);
        let (first, second) = match &range {
            Type::List(item) if found.second.is_some() => (INT, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Param(_) => (Type::Dyn, Type::Dyn),
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.refuse(found.range.at, message);
                (Type::Dyn, Type::Dyn)
            }
        };
        let depth = self.scope.len();
        self.scope.push((found.variable.clone(), first.clone()));
        self.scope.extend(found.second.clone().map(|name| (name, second)));
        if let Some(filter) = &found.filter {
            self.must_be_bool(filter);
        }
        let answer = match found.macro_name {
            Macro::All | Macro::Exists | Macro::ExistsOne => {
                self.must_be_bool(&found.body);
                BOOL
            }
            Macro::Filter => {
                self.must_be_bool(&found.body);
                Type::list(first)
            }
            Macro::Map | Macro::TransformList => Type::list(self.check(&found.body)),
            Macro::TransformMap => Type::Map(Box::new(first), Box::new(self.check(&found.body))),
            Macro::TransformMapEntry => self.check(&found.body),
            Macro::SortBy => {
                self.check(&found.body);
                range
            }
        };
        self.scope.truncate(depth);
        answer
    }

    fn must_be_bool(&mut self, expr: &Expr) {
        let found = self.check(expr);
        if !Bindings::default().fits(&BOOL, &found) {
            self.refuse(expr.at, format!("expected type 'bool' but found '{found}'"));
        }
    }

    fn bind(&mut self, how: Bind, variable: &str, value: &Expr, body: &Expr) -> Type {
        let value_type = self.check(value);
        let inner = match value_type {
            Type::Optional(inner) => *inner,
            Type::Dyn => Type::Dyn,
            other => {
                let name = if how == Bind::OptMap { "optMap" } else { "optFlatMap" };
                self.no_overload(value.at, name, Some(&other), &[]);
                Type::Dyn
            }
        };
        self.scope.push((variable.to_owned(), inner));
        let answer = self.check(body);
        self.scope.pop();
        if how == Bind::OptMap { Type::optional(answer) } else { answer }
    }
}

fn literal(value: &Value) -> Type {
    match value {
        Value::Int(_) => INT,
        Value::UInt(_) => UINT,
        Value::Float(_) => DOUBLE,
        Value::String(_) => STRING,
        Value::Bytes(_) => BYTES,
        Value::Bool(_) => BOOL,
        Value::Null => NULL,
        _ => Type::Dyn,
    }
}

/// The common type, or `dyn` if they differ.
fn one_of(types: Vec<Type>) -> Type {
    let mut types = types.into_iter();
    let first = types.next().unwrap_or(Type::Dyn);
    if types.all(|other| other == first) { first } else { Type::Dyn }
}
