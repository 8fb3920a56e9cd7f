//! Admission: decides which webhooks and policies a write goes through, asks them, and interprets the answers.
//!
//! These are pure functions over JSON, which never wait. If a webhook has not answered yet, they leave the question in
//! the request's [`Consultation`](crate::consultation::Consultation). `verbs/admit` calls them. `storage` keeps the
//! parsed configurations.
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
