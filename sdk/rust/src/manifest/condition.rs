//! The conditions of a watch on annotations and fields.

use serde::Serialize;
use serde_json::Value;

/// A condition on an object that the host evaluates: [`Watch::only`](super::Watch::only).
///
/// ```
/// use windlass_sdk::manifest::{Watch, Where};
///
/// let services = Watch::of("v1", "Service")
///     .only(Where::annotation("dns.example.com/skip").not_in(["true"]))
///     .only(Where::field("/spec/type").is_in(["LoadBalancer", "NodePort"]));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Where {
    #[serde(skip_serializing_if = "Option::is_none")]
    annotation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    any: Option<Vec<Where>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#in: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_in: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exists: Option<bool>,
}

/// The annotation or field of a [`Where`]. A method states the condition's requirement.
#[derive(Debug, Clone)]
#[must_use]
pub struct WhereSubject(Where);

impl Where {
    /// A condition on the annotation with this key. Annotations are texts.
    pub fn annotation(key: impl Into<String>) -> WhereSubject {
        WhereSubject(Self { annotation: Some(key.into()), ..Self::default() })
    }

    /// A condition on the values at this JSON pointer, such as `/spec/type`. If it contains a `*`, which stands for
    /// each element of a list, one matching value is enough.
    pub fn field(pointer: impl Into<String>) -> WhereSubject {
        WhereSubject(Self { field: Some(pointer.into()), ..Self::default() })
    }

    /// At least one of these conditions holds. The conditions must not be created by `any` themselves.
    pub fn any(conditions: impl IntoIterator<Item = Self>) -> Self {
        Self { any: Some(conditions.into_iter().collect()), ..Self::default() }
    }
}

impl WhereSubject {
    /// The value is this text, number or boolean.
    pub fn is(self, value: impl Into<Value>) -> Where {
        Where { is: Some(value.into()), ..self.0 }
    }

    /// The value is one of these.
    pub fn is_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Where {
        Where { r#in: Some(values.into_iter().map(Into::into).collect()), ..self.0 }
    }

    /// There is no value, or it differs from each of these values.
    pub fn not_in<V: Into<Value>>(self, values: impl IntoIterator<Item = V>) -> Where {
        Where { not_in: Some(values.into_iter().map(Into::into).collect()), ..self.0 }
    }

    /// There is a value other than null.
    pub fn exists(self) -> Where {
        Where { exists: Some(true), ..self.0 }
    }

    /// There is no value, or it is null.
    pub fn is_absent(self) -> Where {
        Where { exists: Some(false), ..self.0 }
    }
}
