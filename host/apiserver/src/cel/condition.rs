//! A condition about one object, for programs that use the server as a library.

use super::types::{BOOL, Type};
use super::{Program, Value, untyped};

/// The cost limit of one evaluation, the same as for a rule in a definition.
const EVALUATION_COST_MAX: u64 = 10_000_000;

/// A CEL expression about an object, named `self`, like a rule in a custom resource definition. The object's type is
/// unknown, so type errors show only when it is evaluated.
#[derive(Debug)]
pub struct Condition(Program);

impl Condition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// If the expression is invalid, or its value cannot be a `bool`. The error text has several lines and marks the
    /// place.
    pub fn compile(source: &str) -> Result<Condition, String> {
        let program = Program::compile(source, vec![("self".to_owned(), Type::Dyn)])?;
        match &program.answer {
            Type::Dyn => {}
            answer if *answer == BOOL => {}
            other => return Err(format!("its value is a {other}, but the value of a condition must be a bool")),
        }
        Ok(Condition(program))
    }

    /// Whether the condition is true for an object.
    ///
    /// # Errors
    /// If the evaluation fails or costs too much, or its value is not a `bool`.
    pub fn holds(&self, object: &serde_json::Value) -> Result<bool, String> {
        let variables = vec![("self".to_owned(), untyped(object))];
        match self.0.run(variables, EVALUATION_COST_MAX).value {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(format!("its value is a {}, not a bool", other.type_of())),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_true_or_false_or_an_error() {
        let holds = |source, object| Condition::compile(source).expect(source).holds(&object);
        let object = json!({"spec": {"replicas": 2}, "status": {"ready": 2, "conditions": [{"type": "Ready"}]}});
        assert_eq!(holds("self.status.ready == self.spec.replicas", object.clone()), Ok(true));
        assert_eq!(holds("self.status.conditions.exists(c, c.type == 'Bad')", object.clone()), Ok(false));
        assert_eq!(holds("self.status.other == 1", object.clone()), Err("no such key: other".to_owned()));
        assert_eq!(holds("self.spec.replicas", object), Err("its value is a int, not a bool".to_owned()));
    }

    #[test]
    fn an_invalid_match_condition_is_refused_at_creation() {
        let refused = |source| Condition::compile(source).expect_err(source);
        assert!(refused("self.a ==").contains("ERROR: <input>:1:10"), "{}", refused("self.a =="));
        assert!(refused("'text'").contains("its value is a string"), "{}", refused("'text'"));
        assert!(refused("other.a").contains("undeclared reference"), "{}", refused("other.a"));
    }
}
