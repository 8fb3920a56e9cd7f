//! Checks the conditions of a watch's `where`. Their syntax was already checked during parsing.

use windlass_core::cache::watch::Projection;
use windlass_core::cache::where_clause::{
    Scalar, WantedValue, WhereClause, WhereCondition, WhereSubject, WhereTest, is_of_metadata,
};

use super::Watch;
use crate::validate::{Problems, quoted};

/// How many tests one `where` may have, including those in an `any`. The host runs them for every object of the kind.
const TESTS_MAX: usize = 64;
/// The maximum length of all conditions together, written out as text. Logs, metrics and the status show this text.
const CLAUSE_BYTES_MAX: usize = 16 << 10;

/// Fields that a condition must not test, because the host may see another value than the server. Each has its reason.
const UNSEEN: [(&str, &str); 3] = [
    ("/apiVersion", "is the same for all objects of the watch"),
    ("/kind", "is the same for all objects of the watch"),
    ("/metadata/managedFields", "cannot be tested"),
];

impl Watch {
    pub(super) fn check_where(&self, path: &str, problems: &mut Problems) {
        let tests: usize = self.conditions.iter().map(|condition| condition.tests().len()).sum();
        if tests > TESTS_MAX {
            problems.add(path, format!("has {tests} tests, but at most {TESTS_MAX} are allowed"));
            return;
        }
        let length = WhereClause::new(&self.conditions).map_or(0, |clause| clause.to_string().len());
        if length > CLAUSE_BYTES_MAX {
            problems.add(path, format!("has {length} bytes of conditions, but at most {CLAUSE_BYTES_MAX} are allowed"));
            return;
        }
        for (index, condition) in self.conditions.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match condition {
                WhereCondition::Test(test) => self.check_test(test, &path, problems),
                WhereCondition::Any(tests) => {
                    if tests.is_empty() {
                        problems.add(format_args!("{path}.any"), "needs at least one condition");
                    }
                    for (index, test) in tests.iter().enumerate() {
                        self.check_test(test, &format!("{path}.any[{index}]"), problems);
                    }
                }
            }
        }
    }

    fn check_test(&self, WhereTest { subject, wanted }: &WhereTest, path: &str, problems: &mut Problems) {
        let values = match wanted {
            // `is`, or `in` with one value.
            WantedValue::In(values) if values.len() == 1 => Some(("", values)),
            WantedValue::In(values) => Some((".in", values)),
            WantedValue::NotIn(values) => Some((".notIn", values)),
            WantedValue::Exists | WantedValue::Absent => None,
        };
        if let Some((field, values)) = values {
            check_values(values, &format!("{path}{field}"), problems);
        }
        match subject {
            WhereSubject::Annotation(key) => {
                problems.not_empty(format_args!("{path}.annotation"), key);
                let mut values = values.into_iter().flat_map(|(_, values)| values.iter());
                if let Some(value) = values.find(|value| !matches!(value, Scalar::Text(_))) {
                    let what = format!("an annotation is always a string, never {value}: write \"{value}\"");
                    problems.add(path, what);
                }
            }
            WhereSubject::Field(pointer) => self.check_field(pointer, &format!("{path}.field"), problems),
        }
    }

    fn check_field(&self, pointer: &str, path: &str, problems: &mut Problems) {
        problems.pointer(path, pointer);
        let unseen = UNSEEN.iter().find(|(unseen, _)| {
            pointer.strip_prefix(unseen).is_some_and(|below| below.is_empty() || below.starts_with('/'))
        });
        if let Some((_, reason)) = unseen {
            problems.add(path, format!("{} {reason}", quoted(pointer)));
        }
        if self.projection == Projection::Metadata && !is_of_metadata(pointer) {
            let what = "the server does not send this field with the projection `metadata`: use `fields`";
            problems.add(path, format!("{}: {what}", quoted(pointer)));
        }
    }
}

fn check_values(values: &[Scalar], path: &str, problems: &mut Problems) {
    if values.is_empty() {
        problems.add(path, "needs at least one value");
    }
    problems.count(path, values.len());
}
