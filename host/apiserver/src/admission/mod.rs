//! Admission: which webhooks a write goes through, what they are asked, and how their answers are interpreted.
//!
//! Pure functions over JSON: a question to a webhook that has not been answered yet is left in the request's
//! [`Consultation`](crate::consultation::Consultation). Called by `verbs/admit`, and by `storage`, which keeps the
//! plugins made from the stored configurations.
//!
//! Follows `k8s.io/apiserver/pkg/admission/plugin`.

mod conditions;
mod expressions;
mod matching;
mod mutating;
mod plugins;
mod policies;
mod request;
mod review;
#[cfg(test)]
mod tests;
mod validating;
mod webhook;

pub(crate) use expressions::check_condition;
pub(crate) use mutating::mutate;
pub(crate) use plugins::{AdmissionPlugins, is_configuration};
pub(crate) use policies::{ExpressionError, check as check_policy};
pub(crate) use request::{AdmissionRequest, StoredObjects, WriteOperation};
pub(crate) use validating::validate;
