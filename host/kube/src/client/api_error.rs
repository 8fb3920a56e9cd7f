//! From a failed request to the [`ApiError`] that plugins and the outcome table see. The class comes from the server's
//! own word where it gave one, else from the HTTP status.

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

/// The subject of a request, for the errors that it may end in.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) verb: &'static str,
    /// As `grants::resource_name` writes it.
    pub(crate) resource: String,
    pub(crate) object: Option<ObjectRef>,
}

impl Subject {
    /// A refusal by the host.
    pub(crate) fn refuse(&self, reason: ApiReason, message: impl Into<String>) -> ApiError {
        ApiError::refused(reason, self.verb, self.resource.clone(), self.object.clone(), message)
    }

    /// The error for a kind, a subresource or a namespace that does not exist. It names no object, as
    /// [`ApiError::is_object_missing`] asks for; people read the object in the message.
    pub(crate) fn not_served(&self, message: &str) -> ApiError {
        let named = self.object.as_ref().map(|object| format!("{}: ", object.key)).unwrap_or_default();
        ApiError { object: None, ..self.refuse(ApiReason::NotFound, format!("{named}{message}")) }
    }

    /// Whether the server says with `status` that the object of this request does not exist. Where it does not know the
    /// path, it names nothing; where a namespace is missing, it names that.
    pub(crate) fn is_missing(&self, status: &Status) -> bool {
        let (Some(object), Some(details)) = (&self.object, &status.details) else { return false };
        let plural = self.resource.split(['.', '/']).next().unwrap_or_default();
        // kube-apiserver calls the resource a kind here, with its subresource for a scale; others may mean what the
        // word says.
        let named = details.kind.split('/').next().unwrap_or_default();
        let is_kind = ["", plural, &object.kind.kind].iter().any(|word| named.eq_ignore_ascii_case(word));
        status.code == 404 && is_kind && *details.name == *object.key.name
    }

    /// Refuses what the grants of `principal` do not cover. Whatever a plugin reads or writes is asked about here.
    pub(crate) fn check_grant(&self, principal: &Principal, access: &Access<'_>) -> Result<(), ApiError> {
        principal.check(access).map_err(|denial| self.not_granted(principal, &denial))
    }

    /// The error for what the grants do not cover.
    pub(crate) fn not_granted(&self, principal: &Principal, denial: &Denial) -> ApiError {
        self.refuse(ApiReason::NotGranted, format!("the plugin {} may not: {denial}", principal.plugin))
    }

    /// Refuses to make `owner` an owner of the object, which exists, unless `principal` may delete that, as `deletion`
    /// says.
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
                 its owners are gone, so this takes the right to delete. {}",
                refused.message
            );
            ApiError { message, ..refused }
        })
    }

    /// The error of a mutation whose request failed, and whether it may have been carried out. A dry run changes
    /// nothing, whatever becomes of it.
    pub(crate) fn mutation_failed(&self, error: &RequestError, dry_run: bool) -> (ApiError, Fate) {
        let fate = if dry_run { Fate::Refused } else { fate(error) };
        let failure = self.read_failed(error);
        match (fate, error) {
            (Fate::Refused, _) => (failure, fate),
            // The server did answer with success; only its answer is lost.
            (Fate::Unknown(_), RequestError::NotText(_) | RequestError::TooLarge { .. }) => {
                (self.refuse(ApiReason::UnknownOutcome, error.to_string()), fate)
            }
            (Fate::Unknown(_), RequestError::Refused { .. }) => (unknown(failure), fate),
            (Fate::Unknown(_), _) => (unknown(self.refuse(ApiReason::UnknownOutcome, failure.message)), fate),
        }
    }

    /// The error of a request that changes nothing, whatever becomes of it.
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
        // That the name has another incarnation is a conflict, whatever the server calls it.
        let reason = if concerns_uid(status) { ApiReason::Conflict } else { reason(status) };
        let error = if reason == ApiReason::NotFound && !self.is_missing(status) {
            self.not_served(&status.message)
        } else {
            self.refuse(reason, status.message.clone())
        };
        ApiError { code: status.code, status_reason: word(status), retry_after, ..error }
    }

    /// The server cannot be reached; nothing was sent.
    pub(crate) fn unavailable(&self, message: String) -> ApiError {
        ApiError {
            code: 503,
            status_reason: "ServiceUnavailable".to_owned(),
            ..self.refuse(ApiReason::ServerError, message)
        }
    }
}

/// Whether a mutation that failed may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was not, and will not be.
    Refused,
    /// Nobody knows.
    Unknown(Ending),
}

fn fate(error: &RequestError) -> Fate {
    match error {
        RequestError::NotSent { .. } => Fate::Refused,
        RequestError::Refused { status, .. } if status.code < 500 || ended_before_storage(status).is_some() => {
            Fate::Refused
        }
        RequestError::Refused { status, .. } if has_answered(status) => Fate::Unknown(Ending::Answered),
        // The server has answered with success: only what it said is lost.
        RequestError::TooLarge { .. } | RequestError::NotText(_) => Fate::Unknown(Ending::Answered),
        RequestError::Refused { .. } | RequestError::Broken { .. } | RequestError::TimedOut { .. } => {
            Fate::Unknown(Ending::Silent)
        }
    }
}

/// Whether a failure (5xx) is the word of the server that had the request, and not of one on the way to it: a 502 or
/// 503 may be of a proxy, or of the aggregation layer, that lost a server behind it which still works on the request.
/// kube-apiserver answers with a `Status` (`apimachinery/pkg/api/errors`): what went wrong (500), or that its time was
/// over (504).
fn has_answered(status: &Status) -> bool {
    let is_status = status.status == Some(StatusSummary::Failure);
    is_status && matches!((status.code, &*status.reason), (500, _) | (504, "Timeout"))
}

/// The failures (500) of which it is certain that nothing was stored, by how their message begins, and what they are.
/// Admission comes before storage: a webhook that cannot be called, where failing is not ignored, ends the request
/// there. And so does the merge of a patch that the kind's schema does not admit
/// (`apiserver/pkg/endpoints/handlers/patch.go`). All others may come late: a storage that timed out may still commit.
const BEFORE_STORAGE: [(&str, ApiReason); 3] = [
    ("Internal error occurred: failed calling webhook ", ApiReason::ServerError),
    ("failed to create typed patch object ", ApiReason::Invalid),
    ("unable to find api field in struct ", ApiReason::Invalid),
];

fn ended_before_storage(status: &Status) -> Option<ApiReason> {
    let known = BEFORE_STORAGE.iter().find(|(message, _)| status.message.starts_with(message));
    known.filter(|_| status.code == 500).map(|(_, reason)| *reason)
}

/// The server's word stays; the class says what follows from it.
fn unknown(failure: ApiError) -> ApiError {
    let message = format!("{}; whether it was carried out is not known", failure.message);
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

/// Whether the server refused because `metadata.uid` is another's. For patches it calls that an invalid change of an
/// immutable field.
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
            let subject = Subject { verb: "create", resource: "pods".into(), object: None };
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
            Subject { verb: "patch", resource: "webapps.apps.kubedojo.io/status".into(), object: Some(object) };
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
