//! Converts a failed request to the [`ApiError`] that plugins and the outcome table see. The class comes from the
//! server's reason if there is one, otherwise from the HTTP status.

use std::fmt;
use std::time::Duration;

use kube::core::Status;
use kube::core::response::StatusSummary;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::ObjectRef;
use windlass_core::rights::grants::{Access, Denial};
use windlass_core::rights::principal::Principal;
use windlass_core::write::settle::Ending;

use crate::client::request::RequestError;

/// The verb and the object of a request, for its errors.
#[derive(Clone, Debug)]
pub(crate) struct RequestSubject {
    pub(crate) verb: &'static str,
    /// The resource as `grants::resource_name` writes it, such as `deployments.apps`.
    pub(crate) resource: String,
    pub(crate) object: Option<ObjectRef>,
}

impl RequestSubject {
    /// An error for a request that the host refuses itself.
    pub(crate) fn refuse(&self, reason: ApiReason, message: impl Into<String>) -> ApiError {
        ApiError::refused(reason, self.verb, self.resource.clone(), self.object.clone(), message)
    }

    /// The error for a kind, a subresource or a namespace that does not exist. It names no object, as
    /// [`ApiError::is_object_missing`] requires; the message contains the object for people.
    pub(crate) fn not_served(&self, message: &str) -> ApiError {
        let named = self.object.as_ref().map(|object| format!("{}: ", object.key)).unwrap_or_default();
        ApiError { object: None, ..self.refuse(ApiReason::NotFound, format!("{named}{message}")) }
    }

    /// Whether `status` says that the object of this request does not exist. For an unknown path, a server names no
    /// object; for a missing namespace, it names the namespace.
    pub(crate) fn is_missing(&self, status: &Status) -> bool {
        let (Some(object), Some(details)) = (&self.object, &status.details) else { return false };
        let plural = self.resource.split(['.', '/']).next().unwrap_or_default();
        // kube-apiserver puts the resource here, with the subresource for a scale; other servers may put the kind.
        let named = details.kind.split('/').next().unwrap_or_default();
        let is_kind = ["", plural, &object.kind.kind].iter().any(|word| named.eq_ignore_ascii_case(word));
        status.code == 404 && is_kind && *details.name == *object.key.name
    }

    /// Refuses requests that the grants of `principal` do not cover. Every read and write of a plugin is checked here.
    pub(crate) fn check_grant(&self, principal: &Principal, access: &Access<'_>) -> Result<(), ApiError> {
        principal.check(access).map_err(|denial| self.not_granted(principal, &denial))
    }

    /// The error for a request that the grants do not cover.
    pub(crate) fn not_granted(&self, principal: &Principal, denial: &Denial) -> ApiError {
        self.refuse(ApiReason::NotGranted, format!("the plugin {} may not: {denial}", principal.plugin))
    }

    /// Refuses to make `owner` an owner of an existing object, unless `principal` has the right to delete that object
    /// (`deletion`).
    pub(crate) fn check_new_owner(
        &self,
        principal: &Principal,
        deletion: &Access<'_>,
        owner: &dyn fmt::Display,
    ) -> Result<(), ApiError> {
        principal.check(deletion).map_err(|denial| {
            let refused = self.not_granted(principal, &denial);
            let message = format!(
                "it would make {owner} an owner of an object that exists: the garbage collector deletes an object when \
                 its owners are gone, so this needs the right to delete it. {}",
                refused.message
            );
            ApiError { message, ..refused }
        })
    }

    /// The error of a failed mutation, and whether it may have been committed. A dry run never changes anything.
    pub(crate) fn mutation_failed(&self, error: &RequestError, dry_run: bool) -> (ApiError, Fate) {
        let fate = if dry_run { Fate::Refused } else { fate(error) };
        let failure = self.read_failed(error);
        match (fate, error) {
            (Fate::Refused, _) => (failure, fate),
            // The server answered with success; only the content of its answer is lost.
            (Fate::Unknown(_), RequestError::NotText(_) | RequestError::TooLarge { .. }) => {
                (self.refuse(ApiReason::UnknownOutcome, error.to_string()), fate)
            }
            (Fate::Unknown(_), RequestError::Refused { .. }) => (unknown(failure), fate),
            (Fate::Unknown(_), _) => (unknown(self.refuse(ApiReason::UnknownOutcome, failure.message)), fate),
        }
    }

    /// The error of a failed read.
    pub(crate) fn read_failed(&self, error: &RequestError) -> ApiError {
        match error {
            RequestError::Refused { status, retry_after } => self.answered(status, *retry_after),
            RequestError::NotSent { .. } | RequestError::Broken { .. } => self.unavailable(error.to_string()),
            RequestError::TimedOut { .. } => self.refuse(ApiReason::Timeout, error.to_string()),
            RequestError::TooLarge { .. } => self.refuse(ApiReason::TooLarge, error.to_string()),
            RequestError::NotText(_) => self.refuse(ApiReason::ServerError, error.to_string()),
        }
    }

    /// The error for the server's `status`.
    fn answered(&self, status: &Status, retry_after: Option<Duration>) -> ApiError {
        // A different UID under this name is a conflict, whatever reason the server gives.
        let reason = if concerns_uid(status) { ApiReason::Conflict } else { reason(status) };
        let error = if reason == ApiReason::NotFound && !self.is_missing(status) {
            self.not_served(&status.message)
        } else {
            self.refuse(reason, status.message.clone())
        };
        ApiError { code: status.code, status_reason: word(status), retry_after, ..error }
    }

    /// The server cannot be reached, and nothing was sent.
    pub(crate) fn unavailable(&self, message: String) -> ApiError {
        ApiError {
            code: 503,
            status_reason: "ServiceUnavailable".to_owned(),
            ..self.refuse(ApiReason::ServerError, message)
        }
    }
}

/// Whether a failed mutation may have been committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The mutation was not committed, and will not be.
    Refused,
    /// It is not known whether the mutation was committed.
    Unknown(Ending),
}

fn fate(error: &RequestError) -> Fate {
    match error {
        RequestError::NotSent { .. } => Fate::Refused,
        RequestError::Refused { status, .. } if status.code < 500 || ended_before_storage(status).is_some() => {
            Fate::Refused
        }
        RequestError::Refused { status, .. } if has_answered(status) => Fate::Unknown(Ending::Answered),
        // The server answered with success; only the content of its answer is lost.
        RequestError::TooLarge { .. } | RequestError::NotText(_) => Fate::Unknown(Ending::Answered),
        RequestError::Refused { .. } | RequestError::Broken { .. } | RequestError::TimedOut { .. } => {
            Fate::Unknown(Ending::Silent)
        }
    }
}

/// Whether a 5xx status comes from the server that processed the request, and not from a server in between. A 502 or
/// 503 may come from a proxy or the aggregation layer that lost the connection to a server which is still working on
/// the request. kube-apiserver answers with a `Status` (`apimachinery/pkg/api/errors`): an internal error (500) or a
/// timeout (504).
fn has_answered(status: &Status) -> bool {
    let is_status = status.status == Some(StatusSummary::Failure);
    is_status && matches!((status.code, &*status.reason), (500, _) | (504, "Timeout"))
}

/// The beginnings of messages of 500s which prove that nothing was stored, and the reason for each. Admission runs
/// before storage. It ends the request if a webhook cannot be called, unless the webhook's failures are ignored. A
/// patch that the kind's schema does not admit fails before storage too (`apiserver/pkg/endpoints/handlers/patch.go`).
/// Any other 500 may come after storage: a storage that timed out may still commit.
const BEFORE_STORAGE: [(&str, ApiReason); 3] = [
    ("Internal error occurred: failed calling webhook ", ApiReason::ServerError),
    ("failed to create typed patch object ", ApiReason::Invalid),
    ("unable to find api field in struct ", ApiReason::Invalid),
];

fn ended_before_storage(status: &Status) -> Option<ApiReason> {
    let known = BEFORE_STORAGE.iter().find(|(message, _)| status.message.starts_with(message));
    known.filter(|_| status.code == 500).map(|(_, reason)| *reason)
}

/// Keeps the server's message, and gives the error the class of unknown outcomes.
fn unknown(failure: ApiError) -> ApiError {
    let message = format!("{}; it is not known whether the request took effect", failure.message);
    ApiError { reason: ApiReason::UnknownOutcome, message, ..failure }
}

fn reason(status: &Status) -> ApiReason {
    if let Some(reason) = ended_before_storage(status) {
        return reason;
    }
    match status.reason.as_str() {
        "NotFound" => ApiReason::NotFound,
        "AlreadyExists" => ApiReason::AlreadyExists,
        "Conflict" => ApiReason::Conflict,
        "Forbidden" if has_cause(status, "NamespaceTerminating") => ApiReason::NamespaceTerminating,
        "Forbidden" => ApiReason::Forbidden,
        "Invalid" => ApiReason::Invalid,
        "Gone" | "Expired" => ApiReason::Expired,
        "TooManyRequests" => ApiReason::TooManyRequests,
        "Timeout" => ApiReason::Timeout,
        "RequestEntityTooLarge" => ApiReason::TooLarge,
        "InternalError" | "ServerTimeout" | "ServiceUnavailable" => ApiReason::ServerError,
        _ => by_code(status.code),
    }
}

fn by_code(code: u16) -> ApiReason {
    match code {
        403 => ApiReason::Forbidden,
        404 => ApiReason::NotFound,
        409 => ApiReason::Conflict,
        410 => ApiReason::Expired,
        413 => ApiReason::TooLarge,
        422 => ApiReason::Invalid,
        429 => ApiReason::TooManyRequests,
        504 => ApiReason::Timeout,
        500..=599 => ApiReason::ServerError,
        _ => ApiReason::Other,
    }
}

fn word(status: &Status) -> String {
    match (status.reason.as_str(), status.code) {
        ("", 401) => "Unauthorized".to_owned(),
        ("", 400) => "BadRequest".to_owned(),
        ("", code) => by_code(code).as_str().to_owned(),
        (word, _) => word.to_owned(),
    }
}

fn has_cause(status: &Status, reason: &str) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.reason == reason)
}

/// Whether the server refused the request because of a different `metadata.uid`. For patches, it reports an invalid
/// change of an immutable field.
fn concerns_uid(status: &Status) -> bool {
    status.details.iter().flat_map(|details| &details.causes).any(|cause| cause.field == "metadata.uid")
}

#[cfg(test)]
mod tests {
    use windlass_core::object::{ObjectKey, ObjectKind};

    use super::*;

    fn status(json: &str) -> Status {
        serde_json::from_str(json).expect("a status")
    }

    #[test]
    fn the_servers_word_decides_before_its_code() {
        let cases = [
            (r#"{"code":409,"reason":"AlreadyExists"}"#, ApiReason::AlreadyExists),
            (r#"{"code":409,"reason":"Conflict"}"#, ApiReason::Conflict),
            (r#"{"code":409}"#, ApiReason::Conflict),
            (r#"{"code":403,"reason":"Forbidden"}"#, ApiReason::Forbidden),
            (
                r#"{"code":403,"reason":"Forbidden","details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#,
                ApiReason::NamespaceTerminating,
            ),
            (r#"{"code":410,"reason":"Expired"}"#, ApiReason::Expired),
            (r#"{"code":500,"reason":"ServerTimeout"}"#, ApiReason::ServerError),
            (r#"{"code":504,"reason":"Timeout"}"#, ApiReason::Timeout),
            (r#"{"code":502}"#, ApiReason::ServerError),
            (r#"{"code":401,"reason":"Unauthorized"}"#, ApiReason::Other),
            (r#"{"code":413}"#, ApiReason::TooLarge),
        ];
        for (json, expected) in cases {
            assert_eq!(reason(&status(json)), expected, "{json}");
        }
    }

    #[test]
    fn a_server_error_leaves_the_outcome_unknown_unless_before_storage() {
        let answered = |json: &str| {
            let error = RequestError::Refused { status: Box::new(status(json)), retry_after: None };
            let subject = RequestSubject { verb: "create", resource: "pods".into(), object: None };
            let (dry, real) = (subject.mutation_failed(&error, true), subject.mutation_failed(&error, false));
            assert_eq!(dry.1, Fate::Refused, "{json}");
            assert_ne!(dry.0.reason, ApiReason::UnknownOutcome, "{json}");
            real
        };
        for (json, word, ending) in [
            (r#"{"status":"Failure","code":500,"message":"etcdserver: no leader"}"#, "ServerError", Ending::Answered),
            (r#"{"status":"Failure","code":500,"reason":"InternalError"}"#, "InternalError", Ending::Answered),
            (r#"{"status":"Failure","code":504,"reason":"Timeout"}"#, "Timeout", Ending::Answered),
            (r#"{"code":500}"#, "ServerError", Ending::Silent),
            (r#"{"code":502}"#, "ServerError", Ending::Silent),
            (r#"{"status":"Failure","code":503,"reason":"ServiceUnavailable"}"#, "ServiceUnavailable", Ending::Silent),
            (r#"{"code":504}"#, "Timeout", Ending::Silent),
        ] {
            let (error, fate) = answered(json);
            assert_eq!((error.reason, fate), (ApiReason::UnknownOutcome, Fate::Unknown(ending)), "{json}");
            assert_eq!(error.status_reason, word, "the server's word is kept");
        }
        for json in [r#"{"code":409,"reason":"Conflict"}"#, r#"{"code":429}"#, r#"{"code":404}"#, r#"{"code":301}"#] {
            assert_eq!(answered(json).1, Fate::Refused, "{json}");
        }
        let webhook = r#"{"code":500,"reason":"InternalError","message":"Internal error occurred: failed calling webhook \"a\": EOF"}"#;
        let (error, fate) = answered(webhook);
        assert_eq!((error.reason, fate), (ApiReason::ServerError, Fate::Refused));
        let typo = r#"{"status":"Failure","code":500,"message":"failed to create typed patch object (d/a; apps/v1, Kind=Deployment): .spec.replica: field not declared in schema"}"#;
        let (error, fate) = answered(typo);
        assert_eq!(
            (error.reason, fate),
            (ApiReason::Invalid, Fate::Refused),
            "a typo is the plugin's, and costs no wait"
        );
    }

    #[test]
    fn not_found_names_the_object_only_where_the_server_does() {
        let key = ObjectKey::namespaced("prod", "shop");
        let object = ObjectRef { kind: ObjectKind::new("apps.kubedojo.io/v1beta1", "WebApp"), key, uid: None };
        let subject =
            RequestSubject { verb: "patch", resource: "webapps.apps.kubedojo.io/status".into(), object: Some(object) };
        let answered = |json: &str| {
            let error = RequestError::Refused { status: Box::new(status(json)), retry_after: None };
            let error = subject.read_failed(&error);
            assert_eq!((error.reason, error.code), (ApiReason::NotFound, 404), "{json}");
            assert!(error.to_string().contains("prod/shop"), "people read which object was meant: {error}");
            error.is_object_missing()
        };
        for json in [
            r#"{"code":404,"reason":"NotFound","details":{"name":"shop","group":"apps.kubedojo.io","kind":"webapps"}}"#,
            r#"{"code":404,"reason":"NotFound","details":{"name":"shop","kind":"WebApp"}}"#,
            r#"{"code":404,"reason":"NotFound","details":{"name":"shop","kind":"webapps/scale"}}"#,
            r#"{"code":404,"details":{"name":"shop"}}"#,
        ] {
            assert!(answered(json), "{json}");
        }
        for json in [
            r#"{"code":404,"message":"404 page not found"}"#,
            r#"{"code":404,"reason":"NotFound","message":"the server could not find the requested resource","details":{}}"#,
            r#"{"code":404,"reason":"NotFound","details":{"name":"prod","kind":"namespaces"}}"#,
            r#"{"code":404,"reason":"NotFound","details":{"name":"shop","kind":"namespaces"}}"#,
            r#"{"code":404,"reason":"NotFound","details":{"name":"other","kind":"webapps"}}"#,
        ] {
            assert!(!answered(json), "{json}");
        }
    }

    #[test]
    fn the_status_reason_is_never_empty() {
        for code in [400, 401, 404, 418, 500] {
            assert!(!word(&status(&format!(r#"{{"code":{code}}}"#))).is_empty());
        }
    }
}
