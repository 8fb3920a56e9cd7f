//! Removes secrets from a recording: values of Secrets, values of fields that the operator names, and HTTP credentials.
//!
//! There are two steps. The first goes by place, such as a Secret's `data` or an authorization header. The second goes
//! by value: it searches the rest of the call for the secrets that the first step found, and for secrets inside these,
//! because a plugin may have copied them, for example into a URL in a `ConfigMap`. Values that were derived from a
//! secret are only found as far as `windlass_core::secret::known_secrets` describes.

mod documents;
mod forms;
mod http;
mod marker;
mod opaque;
mod pointers;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::document::RecordedCall;
use documents::{Documents, NESTED_JSON_DEPTH_MAX, is_secret};
use marker::Markers;
pub use marker::is_redacted;
pub(crate) use marker::same;

/// The maximum work ([`SecretForms::work`]) for redacting one call. A call that needs more is not recorded. This much
/// work takes some seconds on the thread that writes recordings. It is enough for 400 MiB of text with one secret, or
/// for 400 KiB with the maximum number of secrets.
///
/// [`SecretForms::work`]: windlass_core::secret::known_secrets::SecretForms::work
const CALL_WORK_MAX: usize = 4 << 30;
/// Imports that are answered with objects.
const ANSWERED_WITH_OBJECTS: [&str; 5] = ["cache.get", "cache.list", "live.get", "live.list", "writes."];

#[derive(Clone)]
pub struct Redactor {
    markers: Markers,
    pointers: Vec<String>,
}

impl Redactor {
    /// A redactor for recording, with its own key. It also redacts the values at these JSON `pointers` of objects. `*`
    /// in a pointer matches each element of a list.
    #[must_use]
    pub fn new(pointers: Vec<String>) -> Self {
        Self { markers: Markers::with_new_key(), pointers }
    }

    /// A redactor for replaying a call that was recorded with these `pointers`. It keeps the markers of the recording.
    #[must_use]
    pub fn of_replay(pointers: Vec<String>) -> Self {
        Self { markers: Markers::of_replay(), pointers }
    }

    /// Redacts a [`RecordedCall`] in JSON. `secrets` are values that are known to be secret. Returns false if the call
    /// has too many secrets or is too long; it must then not be recorded.
    pub fn redact(&self, call: &mut Value, secrets: &[Arc<str>]) -> bool {
        let mut documents = Documents::new(&self.markers, &self.pointers);
        for secret in secrets {
            documents.learn(secret);
        }
        http::bodies(call, &mut |body| http::opened(body, &mut documents));
        // A reused instance draws random data from this seed in later calls too.
        let mut makes_secrets = call["request"]["reused"] == true;
        if let Some(request) = call.get_mut("request") {
            self.request(request, secrets, &mut documents);
        }
        for import in call.get_mut("imports").and_then(Value::as_array_mut).into_iter().flatten() {
            makes_secrets |= redact_import(import, &mut documents);
        }
        if let Some(result) = call.get_mut("result") {
            let before = documents.known.len();
            redact_result(result, &mut documents);
            makes_secrets |= documents.known.len() > before;
        }
        if let Some(surroundings) =
            call.get_mut("surroundings").and_then(Value::as_object_mut).filter(|_| makes_secrets)
        {
            // The random data can be computed from the seed and the plugin.
            surroundings.remove("seed");
        }
        let names = names_in(call);
        documents.known.retain(|value| !names.contains(value));
        if documents.known.is_overfull() {
            return false;
        }
        let found = documents.known.forms();
        if found.work(["request", "imports", "result"].iter().map(|part| forms::bytes(&call[part])).sum())
            > CALL_WORK_MAX
        {
            return false;
        }
        if !found.is_empty() {
            for part in ["request", "imports", "result"] {
                if let Some(part) = call.get_mut(part) {
                    forms::replace(part, &found, NESTED_JSON_DEPTH_MAX);
                }
            }
        }
        http::bodies(call, &mut http::closed);
        true
    }

    /// Redacts a call as this host would record it, in case the recording host redacted less. The answers stay as they
    /// were recorded. `None` if this host would not record the call ([`redact`](Self::redact)).
    #[must_use]
    pub fn redact_again(&self, call: &RecordedCall) -> Option<RecordedCall> {
        let mut document = serde_json::to_value(call).ok()?;
        if !self.redact(&mut document, &[]) {
            return None;
        }
        serde_json::from_value(document).ok()
    }

    /// Redacts a single import.
    pub(crate) fn redact_import(&self, import: &mut Value) {
        let mut documents = Documents::new(&self.markers, &self.pointers);
        http::body_of(import, &mut |body| http::opened(body, &mut documents));
        redact_import(import, &mut documents);
        http::body_of(import, &mut http::closed);
    }

    fn request(&self, request: &mut Value, secrets: &[Arc<str>], documents: &mut Documents<'_>) {
        let is_of_secret = is_secret(request);
        if let Some(config) = request.get_mut("config") {
            self.configured(config, secrets);
            documents.texts(config, NESTED_JSON_DEPTH_MAX);
        }
        for field in ["object", "children", "related"] {
            if let Some(value) = request.get_mut(field) {
                documents.objects(value, is_of_secret && field == "object");
            }
        }
    }

    /// Redacts the values of a configuration that come from Secrets, even short ones.
    fn configured(&self, config: &mut Value, secrets: &[Arc<str>]) {
        let Some(mut parsed) = config.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
            return;
        };
        self.equal_leaves(&mut parsed, secrets);
        *config = parsed.to_string().into();
    }

    fn equal_leaves(&self, value: &mut Value, secrets: &[Arc<str>]) {
        match value {
            Value::String(text) if secrets.iter().any(|secret| **secret == **text) => {
                *text = self.markers.of(text.as_bytes());
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.equal_leaves(item, secrets)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.equal_leaves(field, secrets)),
            _ => {}
        }
    }
}

/// Redacts an import. Returns whether it writes a secret that was not known before.
fn redact_import(import: &mut Value, documents: &mut Documents<'_>) -> bool {
    let before = documents.known.len();
    let name = import["import"].as_str().unwrap_or_default().to_owned();
    if name == "http.fetch" {
        http::redact(import, documents);
    }
    let args = &mut import["args"];
    let is_of_secret = is_secret(&args["target"]) || is_secret(&args["of"]);
    let mut of_secrets = Vec::new();
    for operation in args.get_mut("operations").and_then(Value::as_array_mut).into_iter().flatten() {
        of_secrets.push(is_secret(&operation["target"]));
        redact_args(operation, is_secret(&operation["target"]), documents);
    }
    redact_args(args, is_of_secret, documents);
    let tells = name.starts_with("writes.") || name == "http.fetch";
    let makes_secrets = tells && documents.known.len() > before;
    let Some(answer) = import.get_mut("answer") else { return makes_secrets };
    if !ANSWERED_WITH_OBJECTS.iter().any(|it| name.starts_with(it)) {
        documents.texts(answer, NESTED_JSON_DEPTH_MAX);
    } else if name == "writes.batch" {
        let answers = answer.get_mut("ok").and_then(Value::as_array_mut).into_iter().flatten();
        for (answer, is_of_secret) in answers.zip(of_secrets.into_iter().chain(std::iter::repeat(false))) {
            redact_answer(answer, is_of_secret, documents);
        }
    } else {
        redact_answer(answer, is_of_secret, documents);
    }
    makes_secrets
}

/// Redacts the arguments of an import, or an operation of a batch.
fn redact_args(args: &mut Value, is_of_secret: bool, documents: &mut Documents<'_>) {
    for (name, value) in args.as_object_mut().into_iter().flatten() {
        match &**name {
            "object" | "patch" => documents.objects(value, is_of_secret),
            "operations" => {}
            _ => documents.texts(value, NESTED_JSON_DEPTH_MAX),
        }
    }
}

/// Redacts `{"ok": OBJECT}`, `{"ok": {"items": [OBJECT]}}` or `{"error": …}`.
fn redact_answer(answer: &mut Value, is_of_secret: bool, documents: &mut Documents<'_>) {
    for (name, value) in answer.as_object_mut().into_iter().flatten() {
        match (&**name, value) {
            ("ok", object @ Value::String(_)) => documents.objects(object, is_of_secret),
            ("ok", page) if page.get("items").is_some() => documents.objects(&mut page["items"], is_of_secret),
            (_, value) => documents.texts(value, NESTED_JSON_DEPTH_MAX),
        }
    }
}

/// Redacts the result of a call: its failures, or the composed objects.
fn redact_result(result: &mut Value, documents: &mut Documents<'_>) {
    if let Some(composed) = result.get_mut("composed") {
        for field in ["children", "status"] {
            if let Some(value) = composed.get_mut(field) {
                documents.objects(value, false);
            }
        }
    }
    documents.texts(result, NESTED_JSON_DEPTH_MAX);
}

/// The names of the call's objects. They are not redacted, even if a Secret contains one of them, such as the name of
/// its namespace.
fn names_in(call: &Value) -> BTreeSet<String> {
    let named = |value: &Value| {
        ["namespace", "name", "kind", "apiVersion"].map(|field| value[field].as_str().map(str::to_owned))
    };
    let imports = call["imports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let args = imports.iter().map(|import| &import["args"]);
    let all = args.flat_map(|args| [&args["target"], &args["of"], args]).chain([&call["request"]]);
    all.flat_map(named).flatten().collect()
}

#[cfg(test)]
mod tests;
