//! The options of creates, updates and patches, from the query.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;

use crate::authz::User;
use crate::cause::Cause;
use crate::consultation::Consultation;
use crate::request::{Query, user_agent};
use crate::status_error::ApiError;
use crate::warnings::Warnings;

/// The longest name of a field manager.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// The verb to which the options belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Create,
    Update,
    Patch,
    Apply,
}

/// How the server treats unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) kind: WriteKind,
    pub(crate) dry_run: bool,
    pub(crate) force: bool,
    /// The field manager that the client has named. An apply requires it.
    pub(crate) explicit_manager: Option<String>,
    /// The field manager. By default, the beginning of the User-Agent.
    pub(crate) manager: String,
    pub(crate) field_validation: FieldValidation,
    /// The user. A role that is written must not have more rights than the user.
    pub(crate) user: Arc<User>,
    /// The body of the request, for checks that need its text.
    pub(crate) body: Bytes,
    /// Duplicate keys in a YAML body, in the words of strict decoding.
    pub(crate) duplicate_keys: Vec<String>,
    /// The webhooks to consult.
    pub(crate) consultation: Consultation,
    /// The warnings of the request.
    pub(crate) warnings: Warnings,
    /// True if webhooks have already admitted the write.
    pub(crate) is_admitted: bool,
}

impl WriteOptions {
    /// The options for a write by the server itself, in the name of the cluster's component `manager`.
    pub(crate) fn of_component(manager: &str) -> WriteOptions {
        WriteOptions {
            kind: WriteKind::Update,
            dry_run: false,
            force: false,
            explicit_manager: None,
            manager: manager.to_owned(),
            field_validation: FieldValidation::Ignore,
            user: Arc::new(User::component(manager)),
            body: Bytes::new(),
            duplicate_keys: Vec::new(),
            consultation: Consultation::default(),
            warnings: Warnings::default(),
            is_admitted: false,
        }
    }

    /// The options for an apply by the component `manager`. It takes over fields that other managers own.
    pub(crate) fn of_applying_component(manager: &str) -> WriteOptions {
        WriteOptions { force: true, explicit_manager: Some(manager.to_owned()), ..WriteOptions::of_component(manager) }
    }

    pub(crate) fn read(
        kind: WriteKind,
        query: &Query,
        headers: &HeaderMap,
        user: &Arc<User>,
    ) -> Result<WriteOptions, ApiError> {
        let causes = causes(kind, query);
        if !causes.is_empty() {
            let options = match kind {
                WriteKind::Create => "CreateOptions",
                WriteKind::Update => "UpdateOptions",
                WriteKind::Patch | WriteKind::Apply => "PatchOptions",
            };
            return Err(ApiError::invalid_option_list(options, &causes));
        }
        let explicit = query.get("fieldManager");
        let agent = user_agent(headers);
        let default_manager = agent.split('/').next().unwrap_or_default();
        let manager = if explicit.is_empty() { default_manager } else { explicit };
        Ok(WriteOptions {
            kind,
            dry_run: query.given("dryRun"),
            force: query.flag("force"),
            explicit_manager: (!explicit.is_empty()).then(|| explicit.to_owned()),
            manager: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
            field_validation: match query.get("fieldValidation") {
                "Ignore" => FieldValidation::Ignore,
                "Strict" => FieldValidation::Strict,
                _ => FieldValidation::Warn,
            },
            user: Arc::clone(user),
            body: Bytes::new(),
            duplicate_keys: Vec::new(),
            consultation: Consultation::default(),
            warnings: Warnings::default(),
            is_admitted: false,
        })
    }
}

/// The errors in the options, in a real server's order.
fn causes(kind: WriteKind, query: &Query) -> Vec<Cause> {
    let mut causes = Vec::new();
    let manager = query.get("fieldManager");
    match kind {
        WriteKind::Patch if query.given("force") => {
            causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
        }
        WriteKind::Apply if manager.is_empty() => {
            causes.push(Cause::required("fieldManager", "is required for apply patch"));
        }
        _ => {}
    }
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        causes.push(Cause::too_long("fieldManager", FIELD_MANAGER_BYTES_MAX));
    }
    if let Some((place, odd)) = manager.char_indices().find(|(_, character)| character.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {place})", u32::from(odd));
        causes.push(Cause::invalid("fieldManager", &json!(manager), &why));
    }
    causes.extend(dry_run_cause(&query.all("dryRun")));
    let validation = query.get("fieldValidation");
    if !["", "Ignore", "Warn", "Strict"].contains(&validation) {
        let known = ["", "Ignore", "Strict", "Warn"];
        causes.push(Cause::not_supported("fieldValidation", &json!(validation), &known));
    }
    causes
}

/// The error if the values of `dryRun` are invalid.
pub(super) fn dry_run_cause(values: &[String]) -> Option<Cause> {
    let all_known = values.iter().all(|value| value == "All");
    (!all_known).then(|| Cause::not_supported("dryRun", &json!(values), &["All"]))
}
