//! `x-kubernetes-validations`: the CEL rules of a schema. They are compiled when the definition is stored, and
//! evaluated at each write.
//!
//! Follows `apiextensions-apiserver/pkg/apiserver/schema/cel`. Invalid rules are refused as in
//! `pkg/apis/apiextensions/validation`.

mod compile;
mod declared;
mod field_path;
mod run;
mod values;

pub(super) use compile::{check, compile};
pub(super) use run::run;

use crate::cause::Cause;
use crate::cel::Program;

/// The outcome of validation.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    /// The reasons to refuse the object.
    pub(crate) causes: Vec<Cause>,
    /// Errors that are tolerated, because the old object has them, too.
    pub(crate) warnings: Vec<String>,
}

/// A compiled rule.
#[derive(Debug)]
pub(super) struct Rule {
    /// The text of the rule.
    source: String,
    program: Program,
    message: String,
    message_program: Option<Program>,
    reason: Reason,
    /// The path in the error, relative to the value that the rule is about, such as `.spec.name`.
    field_path: String,
    /// Whether the rule is also evaluated if there is no old value.
    optional_old_self: bool,
    uses_old_self: bool,
}

/// The `reason` in the error of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reason {
    #[default]
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

impl Reason {
    const NAMES: [(&'static str, Reason); 4] = [
        ("FieldValueDuplicate", Reason::Duplicate),
        ("FieldValueForbidden", Reason::Forbidden),
        ("FieldValueInvalid", Reason::Invalid),
        ("FieldValueRequired", Reason::Required),
    ];
}
