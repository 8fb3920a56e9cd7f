//! The options of a deletion, from the body or else from the query.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::consultation::Consultation;
use crate::object::{self, text};
use crate::request::Query;
use crate::status_error::ApiError;
use crate::warnings::Warnings;

/// The finalizer with which an object's dependents lose their references to it before it is removed.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer of an object whose dependents must be deleted before it is removed.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// How the dependents of a deleted object are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
    /// The webhooks to consult.
    pub(crate) consultation: Consultation,
    /// The warnings of the request.
    pub(crate) warnings: Warnings,
}

/// The options as the client gave them.
struct Given {
    policy: Option<String>,
    orphan: Option<bool>,
    dry_run: Vec<String>,
}

impl DeleteOptions {
    /// Reads the options from the body. Without a body, reads them from the query.
    pub(crate) fn read(body: Option<&Value>, query: &Query) -> Result<DeleteOptions, ApiError> {
        let given = match body {
            Some(body) => {
                check_types(body)?;
                Given {
                    policy: body["propagationPolicy"].as_str().map(str::to_owned),
                    orphan: body["orphanDependents"].as_bool(),
                    dry_run: crate::object::strings(body, "/dryRun").into_iter().map(str::to_owned).collect(),
                }
            }
            None => of_query(query)?,
        };
        let precondition = |key: &str| {
            let found = body.and_then(|body| body.pointer(&format!("/preconditions/{key}")));
            found.and_then(Value::as_str).map(str::to_owned)
        };
        Ok(DeleteOptions {
            propagation: propagation(&given)?,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run: !given.dry_run.is_empty(),
            consultation: Consultation::default(),
            warnings: Warnings::default(),
        })
    }
}

fn of_query(query: &Query) -> Result<Given, ApiError> {
    let grace = query.get("gracePeriodSeconds");
    if !grace.is_empty() && grace.parse::<i64>().is_err() {
        return Err(ApiError::bad_request(format!("strconv.ParseInt: parsing {grace:?}: invalid syntax")));
    }
    let policy = query.get("propagationPolicy");
    let orphan = query.get("orphanDependents");
    Ok(Given {
        policy: (!policy.is_empty()).then(|| policy.to_owned()),
        // Go's API machinery takes every value of a flag for true, except these.
        orphan: (!orphan.is_empty()).then(|| !matches!(orphan.to_lowercase().as_str(), "false" | "0")),
        dry_run: query.all("dryRun"),
    })
}

fn propagation(given: &Given) -> Result<Option<Propagation>, ApiError> {
    let refuse = |cause: Cause| Err(ApiError::invalid_options("DeleteOptions", &cause));
    let policies = ["Foreground", "Background", "Orphan", "nil"];
    let field = "propagationPolicy";
    let propagation = match (given.policy.as_deref(), given.orphan) {
        (Some(policy), Some(_)) => {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            return refuse(Cause::invalid(field, &json!(policy), why));
        }
        (Some("Background"), None) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), None) => Some(Propagation::Foreground),
        (Some("Orphan"), None) | (None, Some(true)) => Some(Propagation::Orphan),
        (None, None) => None,
        (Some(other), None) => return refuse(Cause::not_supported(field, &json!(other), &policies)),
    };
    match super::dry_run_cause(&given.dry_run) {
        Some(cause) => refuse(cause),
        None => Ok(propagation),
    }
}

/// Checks the types of the fields, and the kind if the body has one.
fn check_types(body: &Value) -> Result<(), ApiError> {
    let Some(fields) = body.as_object() else {
        return Err(ApiError::bad_request(super::decode::not_an_object(body)));
    };
    let (kind, version) = (text(body, "/kind"), text(body, "/apiVersion"));
    if !kind.is_empty() && kind != "DeleteOptions" {
        let why =
            format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"");
        return Err(ApiError::bad_request(why));
    }
    for (field, go_type) in [
        ("gracePeriodSeconds", "int64"),
        ("orphanDependents", "bool"),
        ("propagationPolicy", "v1.DeletionPropagation"),
        ("dryRun", "[]string"),
    ] {
        let fits = match (fields.get(field), go_type) {
            (None | Some(Value::Null), _) => true,
            (Some(value), "int64") => value.is_i64(),
            (Some(value), "bool") => value.is_boolean(),
            (Some(value), "[]string") => value.is_array(),
            (Some(value), _) => value.is_string(),
        };
        if !fits {
            let found = object::go_kind(&fields[field]);
            return Err(ApiError::bad_request(format!(
                "json: cannot unmarshal {found} into Go struct field DeleteOptions.{field} of type {go_type}"
            )));
        }
    }
    Ok(())
}
