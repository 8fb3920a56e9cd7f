//! `x-kubernetes-validations`: the CEL rules of a schema, compiled with the definition and evaluated at each write.
//!
//! Follows `apiextensions-apiserver/pkg/apiserver/schema/cel`; `pkg/apis/apiextensions/validation` says which rules are
//! refused.

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
    /// Errors that are tolerated because the old object had them too.
    pub(crate) warnings: Vec<String>,
}

/// One rule, ready to run.
#[derive(Debug)]
pub(super) struct Rule {
    /// The rule as written.
    source: String,
    program: Program,
    message: String,
    message_program: Option<Program>,
    reason: Reason,
    /// The path of the error, relative to the value that the rule is about: `.spec.name`.
    field_path: String,
    /// Whether the rule is evaluated without an old value too.
    optional_old_self: bool,
    uses_old_self: bool,
}

/// The `reason` that a rule's error has.
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
