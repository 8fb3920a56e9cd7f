//! A condition about one object, for those who use the server as a library.

use super::types::{BOOL, Type};
use super::{Program, Value, untyped};

/// The limit of cost of one evaluation, as that of a rule in a definition.
const EVALUATION_COST_MAX: u64 = 10_000_000;

/// An expression in CEL about an object, which it calls `self`, as a rule of a custom resource definition does. Nothing
/// is known of the object's type: what does not fit is an error when it is evaluated.
#[derive(Debug)]
pub struct Condition(Program);

impl Condition {
    /// Reads an expression.
    ///
    /// # Errors
    /// It is no expression, or its value can be no `bool`; the text shows the place, in several lines.
    pub fn compile(source: &str) -> Result<Condition, String> {
        let program = Program::compile(source, vec![("self".to_owned(), Type::Dyn)])?;
        match &program.answer {
            Type::Dyn => {}
            answer if *answer == BOOL => {}
            other => return Err(format!("its value is a {other}, and a condition has a bool")),
        }
        Ok(Condition(program))
    }

    /// Whether it is true of an object.
    ///
    /// # Errors
    /// It has no value, or another one than `true` and `false`, or costs too much.
    pub fn holds(&self, object: &serde_json::Value) -> Result<bool, String> {
        let variables = vec![("self".to_owned(), untyped(object))];
        match self.0.run(variables, EVALUATION_COST_MAX).value {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(format!("its value is a {}, and no bool", other.type_of())),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_true_or_false_of_an_object_or_says_why_not() {
        let holds = |source, object| Condition::compile(source).expect(source).holds(&object);
        let object = json!({"spec": {"replicas": 2}, "status": {"ready": 2, "conditions": [{"type": "Ready"}]}});
        assert_eq!(holds("self.status.ready == self.spec.replicas", object.clone()), Ok(true));
        assert_eq!(holds("self.status.conditions.exists(c, c.type == 'Bad')", object.clone()), Ok(false));
        assert_eq!(holds("self.status.other == 1", object.clone()), Err("no such key: other".to_owned()));
        assert_eq!(holds("self.spec.replicas", object), Err("its value is a int, and no bool".to_owned()));
    }

    #[test]
    fn an_invalid_match_condition_is_refused_at_creation() {
        let refused = |source| Condition::compile(source).expect_err(source);
        assert!(refused("self.a ==").contains("ERROR: <input>:1:10"), "{}", refused("self.a =="));
        assert!(refused("'text'").contains("its value is a string"), "{}", refused("'text'"));
        assert!(refused("other.a").contains("undeclared reference"), "{}", refused("other.a"));
    }
}
