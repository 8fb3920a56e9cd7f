//! The `where` of a watch: conditions on annotations and fields, which the host evaluates on each object that the watch
//! delivers. The server cannot evaluate them, as it does selectors.
//!
//! The conditions read the object as the server sends it, before a projection. A missing value and null are the same,
//! as in Kubernetes' API.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use crate::object::Object;
use crate::object::pointer;
use crate::object::shallow;

const ANNOTATIONS: &str = "/metadata/annotations";
const FINALIZERS: &str = "/metadata/finalizers";
const DELETION: &str = "/metadata/deletionTimestamp";

/// The conditions of a watch. An object is in the watch if all of them hold. Two clauses are equal only if they are
/// written alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WhereClause {
    conditions: Arc<[WhereCondition]>,
    /// Objects that are being deleted and carry this finalizer are in the watch whatever the conditions say.
    kept_finalizer: Option<Arc<str>>,
}

/// A condition, as manifests write it: `{"annotation": "example.com/auto", "is": "true"}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WhereCondition {
    /// A test of one annotation or field.
    Test(WhereTest),
    /// At least one of the tests passes.
    Any(Arc<[WhereTest]>),
}

/// A test of one annotation or field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WhereTest {
    /// The annotation or field.
    pub subject: WhereSubject,
    /// The value that the annotation or field must have.
    pub wanted: WantedValue,
}

/// The subject of a [`WhereTest`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WhereSubject {
    /// The annotation with this key.
    Annotation(Arc<str>),
    /// The values at this JSON pointer (see [`mod@pointer`]).
    Field(Arc<str>),
}

/// The value that the subject of a [`WhereTest`] must have. If a pointer leads to several values, one value that fits
/// is enough.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WantedValue {
    /// One of these values.
    In(Arc<[Scalar]>),
    /// Not one of these values. An absent value passes, as in label selectors.
    NotIn(Arc<[Scalar]>),
    Exists,
    Absent,
}

/// A value that a field is compared with. Values of different types are never equal: the text `"3"` is not the number
/// 3.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    Text(Arc<str>),
    Bool(bool),
    Number(Number),
}

impl WhereClause {
    /// `None` if there are no conditions.
    #[must_use]
    pub fn new(conditions: &[WhereCondition]) -> Option<Self> {
        (!conditions.is_empty()).then(|| Self { conditions: conditions.into(), kept_finalizer: None })
    }

    /// The same conditions. Objects that are being deleted and carry `finalizer` stay in the watch until the finalizer
    /// is removed.
    #[must_use]
    pub fn keeping(self, finalizer: impl Into<Arc<str>>) -> Self {
        Self { kept_finalizer: Some(finalizer.into()), ..self }
    }

    /// The conditions, without the finalizer that is kept.
    #[must_use]
    pub fn without_finalizer(&self) -> Self {
        Self { conditions: Arc::clone(&self.conditions), kept_finalizer: None }
    }

    /// The JSON pointers that the clause reads.
    #[must_use]
    pub fn pointers(&self) -> Vec<String> {
        let kept = self.kept_finalizer.iter().flat_map(|_| [FINALIZERS.to_owned(), DELETION.to_owned()]);
        self.conditions.iter().flat_map(WhereCondition::tests).map(|test| test.subject.pointer()).chain(kept).collect()
    }

    /// Whether an object's metadata is enough to decide.
    #[must_use]
    pub fn reads_metadata_only(&self) -> bool {
        self.pointers().iter().all(|pointer| is_of_metadata(pointer))
    }

    /// Whether an object is in the watch. `body` is its JSON, or at least the parts at [`Self::pointers`].
    #[must_use]
    pub fn admits(&self, body: &Value) -> bool {
        self.conditions.iter().all(|condition| condition.holds(body)) || self.keeps(body)
    }

    /// As [`Self::admits`], for a complete object.
    #[must_use]
    pub fn admits_object(&self, object: &Object) -> bool {
        shallow::parse(&object.glance()).is_ok_and(|body| self.admits(&body))
    }

    fn keeps(&self, body: &Value) -> bool {
        let Some(finalizer) = &self.kept_finalizer else { return false };
        let carries = |list: &Value| list.as_array().is_some_and(|list| list.iter().any(|it| it == &**finalizer));
        present(body, DELETION).next().is_some() && present(body, FINALIZERS).any(carries)
    }
}

impl WhereCondition {
    /// The tests of the condition: a single test, or the alternatives.
    #[must_use]
    pub fn tests(&self) -> &[WhereTest] {
        match self {
            Self::Test(test) => std::slice::from_ref(test),
            Self::Any(tests) => tests,
        }
    }

    fn holds(&self, body: &Value) -> bool {
        self.tests().iter().any(|test| test.passes(body))
    }
}

impl WhereTest {
    fn passes(&self, body: &Value) -> bool {
        let pointer = self.subject.pointer();
        let mut found = present(body, &pointer);
        match &self.wanted {
            WantedValue::In(wanted) => is_any_wanted(found, wanted),
            WantedValue::NotIn(wanted) => !is_any_wanted(found, wanted),
            WantedValue::Exists => found.next().is_some(),
            WantedValue::Absent => found.next().is_none(),
        }
    }
}

impl WhereSubject {
    /// The JSON pointer to the subject in an object.
    #[must_use]
    pub fn pointer(&self) -> String {
        match self {
            Self::Annotation(key) => pointer::joined(ANNOTATIONS, key),
            Self::Field(pointer) => pointer.to_string(),
        }
    }
}

/// Whether `pointer` leads into the metadata.
#[must_use]
pub fn is_of_metadata(pointer: &str) -> bool {
    pointer == "/metadata" || pointer.starts_with("/metadata/")
}

/// Up to this number, wanted values are compared one by one, because a lookup would cost more.
const COMPARED_VALUES_MAX: usize = 16;

/// Whether one of `found` equals one of `wanted`. Both may be long, so each found value is looked up if many values are
/// wanted.
fn is_any_wanted<'v>(mut found: impl Iterator<Item = &'v Value>, wanted: &[Scalar]) -> bool {
    let is_wanted = |value: &Value| wanted.iter().any(|wanted| wanted.equals(value));
    if wanted.len() <= COMPARED_VALUES_MAX {
        return found.any(is_wanted);
    }
    let keys: BTreeSet<_> = wanted.iter().map(ScalarKey::of_wanted).collect();
    let mut candidates = found.filter(|value| ScalarKey::of_found(value).is_some_and(|key| keys.contains(&key)));
    candidates.any(is_wanted)
}

/// Equal scalars have equal keys. Different scalars nearly always have different keys.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ScalarKey<'a> {
    Text(&'a str),
    Bool(bool),
    /// The bits of the nearest `f64`.
    Number(Option<u64>),
}

impl<'a> ScalarKey<'a> {
    fn of_wanted(scalar: &'a Scalar) -> Self {
        match scalar {
            Scalar::Text(text) => Self::Text(text),
            Scalar::Bool(value) => Self::Bool(*value),
            Scalar::Number(number) => Self::of_number(number),
        }
    }

    /// `None` if the value is no scalar.
    fn of_found(value: &'a Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text)),
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Number(number) => Some(Self::of_number(number)),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Adding zero makes -0.0 the same as 0.0, as in comparisons.
    fn of_number(number: &Number) -> Self {
        Self::Number(number.as_f64().map(|value| (value + 0.0).to_bits()))
    }
}

fn present<'v>(body: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    pointer::values(body, pointer).into_iter().filter(|value| !value.is_null())
}

impl Scalar {
    fn equals(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text(wanted), Value::String(found)) => **wanted == **found,
            (Self::Bool(wanted), Value::Bool(found)) => wanted == found,
            (Self::Number(wanted), Value::Number(found)) => is_same_number(wanted, found),
            _ => false,
        }
    }
}

/// Whether two numbers are equal, however they are written: a server may write `1.0` as `1`.
fn is_same_number(one: &Number, other: &Number) -> bool {
    if one == other {
        return true;
    }
    let is_float = one.is_f64() || other.is_f64();
    is_float && one.as_f64() == other.as_f64()
}

/// A condition as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenCondition {
    annotation: Option<Arc<str>>,
    field: Option<Arc<str>>,
    any: Option<Vec<WhereCondition>>,
    is: Option<Scalar>,
    r#in: Option<Vec<Scalar>>,
    not_in: Option<Vec<Scalar>>,
    exists: Option<bool>,
}

impl<'de> Deserialize<'de> for WhereCondition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        WrittenCondition::deserialize(deserializer)?.read().map_err(D::Error::custom)
    }
}

impl WrittenCondition {
    fn read(self) -> Result<WhereCondition, &'static str> {
        let Self { annotation, field, any, is, r#in, not_in, exists } = self;
        let is = is.map(|value| WantedValue::In([value].into()));
        let exists = exists.map(|exists| if exists { WantedValue::Exists } else { WantedValue::Absent });
        let [r#in, not_in] = [r#in, not_in].map(|values| values.map(Arc::<[Scalar]>::from));
        let wanted = [is, r#in.map(WantedValue::In), not_in.map(WantedValue::NotIn), exists];
        let mut wanted = wanted.into_iter().flatten();
        let (first, second) = (wanted.next(), wanted.next());
        match (annotation, field, any, first, second) {
            (None, None, Some(any), None, None) => alternatives(any).map(WhereCondition::Any),
            (None, None, Some(_), ..) => Err("`any` contains whole conditions, so it must be the only field"),
            (Some(_), Some(_), ..) | (Some(_), _, Some(_), ..) | (_, Some(_), Some(_), ..) | (None, None, None, ..) => {
                Err("needs exactly one of `annotation`, `field` and `any`")
            }
            (Some(key), None, None, Some(wanted), None) => Ok(test(WhereSubject::Annotation(key), wanted)),
            (None, Some(pointer), None, Some(wanted), None) => Ok(test(WhereSubject::Field(pointer), wanted)),
            (_, _, None, ..) => Err("needs exactly one of `is`, `in`, `notIn` and `exists`"),
        }
    }
}

fn test(subject: WhereSubject, wanted: WantedValue) -> WhereCondition {
    WhereCondition::Test(WhereTest { subject, wanted })
}

fn alternatives(conditions: Vec<WhereCondition>) -> Result<Arc<[WhereTest]>, &'static str> {
    let tests = conditions.into_iter().map(|condition| match condition {
        WhereCondition::Test(test) => Ok(test),
        WhereCondition::Any(_) => Err("an `any` inside an `any` adds nothing: put all conditions into one list"),
    });
    tests.collect()
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Self::Text(text.into())),
            Value::Bool(value) => Ok(Self::Bool(value)),
            Value::Number(number) => Ok(Self::Number(number)),
            Value::Null => Err(D::Error::custom("null is the same as absent: write `\"exists\": false`")),
            Value::Array(_) | Value::Object(_) => {
                Err(D::Error::custom("a value is compared with a text, a number or a boolean"))
            }
        }
    }
}

impl fmt::Display for WhereClause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, condition) in self.conditions.iter().enumerate() {
            let and = if at == 0 { "" } else { " and " };
            write!(f, "{and}{condition}")?;
        }
        match &self.kept_finalizer {
            Some(finalizer) => write!(f, ", or deleted with the finalizer {finalizer:?}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WhereCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Any(tests) = self else { return self.tests().iter().try_for_each(|test| write!(f, "{test}")) };
        f.write_str("(")?;
        for (at, test) in tests.iter().enumerate() {
            let or = if at == 0 { "" } else { " or " };
            write!(f, "{or}{test}")?;
        }
        f.write_str(")")
    }
}

/// All texts are quoted, so that two different tests never print alike.
impl fmt::Display for WhereTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            WhereSubject::Annotation(key) => write!(f, "annotation {key:?} ")?,
            WhereSubject::Field(pointer) => write!(f, "{pointer:?} ")?,
        }
        let listed = |values: &[Scalar]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match &self.wanted {
            WantedValue::In(values) if values.len() == 1 => write!(f, "is {}", values[0]),
            WantedValue::In(values) => write!(f, "in [{}]", listed(values)),
            WantedValue::NotIn(values) => write!(f, "not in [{}]", listed(values)),
            WantedValue::Exists => f.write_str("exists"),
            WantedValue::Absent => f.write_str("is absent"),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bool(value) => value.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
