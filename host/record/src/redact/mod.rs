//! Takes out of a recording what nobody should read there: values of Secrets, of fields that the operator names, and of
//! HTTP's credentials.
//!
//! Two steps. The first goes by place: a Secret's `data`, a header that authorizes. The second goes by value: what the first
//! has found is looked for in the rest of the call, where a plugin may have put it, such as a URL in a `ConfigMap`. It does not
//! find what was computed from a secret.

mod forms;
mod http;
mod marker;
mod pointers;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use marker::Markers;
pub use marker::is_redacted;
pub(crate) use marker::same;

/// The annotation in which `kubectl apply` repeats whole objects.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const LAST_APPLIED_ESCAPED: &str = "kubectl.kubernetes.io~1last-applied-configuration";
/// Shorter values are found everywhere, by chance.
const SHORTEST: usize = 6;
/// A call with more secret values than that is not told: to look for all of them takes too long.
const MOST_VALUES: usize = 1_000;
/// JSON in texts in JSON is followed so deep.
const DEEPEST: usize = 4;

/// Redacts calls.
#[derive(Clone)]
pub struct Redactor {
    markers: Markers,
    pointers: Vec<String>,
}

/// The secrets that were found in a call, by which they are looked for in the rest.
#[derive(Default)]
struct KnownSecrets {
    /// The value, and its marker.
    values: Vec<(String, String)>,
    seen: BTreeSet<String>,
}

impl Redactor {
    /// One for recording, with a key of its own. It redacts also what is at these JSON `pointers` of objects, in which `*` is
    /// each element of a list.
    #[must_use]
    pub fn new(pointers: Vec<String>) -> Self {
        Self { markers: Markers::with_new_key(), pointers }
    }

    /// One for a replay of what was recorded with these `pointers`. It keeps the markers of the recording.
    #[must_use]
    pub fn of_replay(pointers: Vec<String>) -> Self {
        Self { markers: Markers::of_replay(), pointers }
    }

    /// Redacts a [`RecordedCall`](crate::RecordedCall), as JSON. `secrets` are values that are known to be secret. Returns whether it
    /// could: a call with too many secret values is not to be told.
    pub fn redact(&self, call: &mut Value, secrets: &[Arc<str>]) -> bool {
        let mut known = KnownSecrets::default();
        for secret in secrets {
            known.add(secret, &self.markers);
        }
        http::bodies(call, http::opened);
        // The next calls of an instance draw on what this one has seeded.
        let mut makes_secrets = call["request"]["reused"] == true;
        if let Some(request) = call.get_mut("request") {
            let is_secret = is_secret(request);
            if let Some(config) = request.get_mut("config") {
                self.configured(config, secrets);
            }
            for field in ["object", "config", "children", "related"] {
                if let Some(value) = request.get_mut(field) {
                    self.texts(value, is_secret && field == "object", &mut known, DEEPEST);
                }
            }
        }
        for import in call.get_mut("imports").and_then(Value::as_array_mut).into_iter().flatten() {
            makes_secrets |= self.import(import, &mut known);
        }
        if let Some(result) = call.get_mut("result") {
            let before = known.values.len();
            self.texts(result, false, &mut known, DEEPEST);
            makes_secrets |= known.values.len() > before;
        }
        if let Some(surroundings) =
            call.get_mut("surroundings").and_then(Value::as_object_mut).filter(|_| makes_secrets)
        {
            // Whoever has the seed and the plugin has what it drew.
            surroundings.remove("seed");
        }
        known.forget_names(call);
        if known.values.len() > MOST_VALUES {
            return false;
        }
        let found = forms::all(&known.values);
        if !found.is_empty() {
            for part in ["request", "imports", "result"] {
                if let Some(part) = call.get_mut(part) {
                    forms::replace(part, &found, DEEPEST);
                }
            }
        }
        http::bodies(call, http::closed);
        true
    }

    /// Redacts one import by itself.
    pub(crate) fn redact_import(&self, import: &mut Value) {
        http::body_of(import, http::opened);
        self.import(import, &mut KnownSecrets::default());
        http::body_of(import, http::closed);
    }

    /// Redacts the values of a configuration that come from Secrets, however short they are.
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

    /// Whether it writes a secret that was not known before.
    fn import(&self, import: &mut Value, known: &mut KnownSecrets) -> bool {
        let before = known.values.len();
        let tells = |name: &str| name.starts_with("writes.") || name == "http.fetch";
        let is_write = import["import"].as_str().is_some_and(tells);
        if import["import"] == "http.fetch" {
            http::redact(import, |value| {
                known.add(value, &self.markers);
                self.markers.of(value.as_bytes())
            });
        }
        let args = &mut import["args"];
        let is_of_secret = is_secret(&args["target"]) || is_secret(&args["of"]);
        if let Some(operations) = args.get_mut("operations").and_then(Value::as_array_mut) {
            for operation in operations {
                let is_of_secret = is_secret(&operation["target"]);
                self.texts(operation, is_of_secret, known, DEEPEST);
            }
        } else {
            self.texts(args, is_of_secret, known, DEEPEST);
        }
        let makes_secrets = is_write && known.values.len() > before;
        if let Some(answer) = import.get_mut("answer") {
            self.texts(answer, is_of_secret, known, DEEPEST);
        }
        makes_secrets
    }

    /// Redacts the JSON texts in `value`; those that are the whole or a part of a Secret, if it `is_of_secret`.
    fn texts(&self, value: &mut Value, is_of_secret: bool, known: &mut KnownSecrets, depth: usize) {
        match value {
            Value::String(text) => {
                let may_have = is_of_secret
                    || !self.pointers.is_empty()
                    || text.contains("Secret")
                    || text.contains("Token")
                    || text.contains("last-applied-configuration");
                let is_json = text.trim_start().starts_with(['{', '[']);
                let parsed = (may_have && is_json && depth > 0).then(|| serde_json::from_str::<Value>(text).ok());
                let Some(mut parsed) = parsed.flatten() else {
                    if is_of_secret && is_json {
                        // Nobody knows where in it the values are.
                        *text = self.markers.of(text.as_bytes());
                    }
                    return;
                };
                let before = parsed.clone();
                self.document(&mut parsed, is_of_secret, known, depth - 1);
                // Of two fields of one name, only the last has been looked at.
                if is_of_secret || parsed != before {
                    *text = parsed.to_string();
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.texts(item, is_of_secret, known, depth);
                }
            }
            Value::Object(fields) => {
                fields.values_mut().for_each(|field| self.texts(field, is_of_secret, known, depth));
            }
            _ => {}
        }
    }

    /// Redacts an object, a patch of one, or a list of them.
    fn document(&self, document: &mut Value, is_of_secret: bool, known: &mut KnownSecrets, depth: usize) {
        if let Some(operations) = document.as_array_mut() {
            for operation in operations {
                self.patch_operation(operation, is_of_secret, known);
            }
        }
        if is_of_secret && document.is_object() && !is_secret(document) {
            self.secret(document, known);
        }
        // First, as it knows what is Base64.
        self.nested(document, known, depth);
        for pointer in &self.pointers {
            pointers::each(document, pointer, &mut |value| self.leaves(value, known));
        }
    }

    /// Redacts the Secrets and annotations in `value`, wherever they are.
    fn nested(&self, value: &mut Value, known: &mut KnownSecrets, depth: usize) {
        if is_secret(value) {
            self.secret(value, known);
        }
        match value.get("kind").and_then(Value::as_str) {
            Some("SecretList") => {
                let items = value.get_mut("items").and_then(Value::as_array_mut);
                items.into_iter().flatten().for_each(|item| self.secret(item, known));
            }
            // A token authorizes whoever has it.
            Some("TokenRequest" | "TokenReview") => {
                for place in ["/status/token", "/spec/token"] {
                    value.pointer_mut(place).into_iter().for_each(|token| self.leaves(token, known));
                }
            }
            _ => {}
        }
        match value {
            Value::Object(fields) => {
                if let Some(applied) = fields.get_mut("annotations").and_then(|it| it.get_mut(LAST_APPLIED)) {
                    self.hide(applied);
                }
                fields.values_mut().for_each(|field| self.nested(field, known, depth));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.nested(item, known, depth)),
            Value::String(_) => self.texts(value, false, known, depth),
            _ => {}
        }
    }

    fn secret(&self, secret: &mut Value, known: &mut KnownSecrets) {
        for value in secret.get_mut("data").and_then(Value::as_object_mut).into_iter().flat_map(|it| it.values_mut()) {
            self.base64(value, known);
        }
        for value in
            secret.get_mut("stringData").and_then(Value::as_object_mut).into_iter().flat_map(|it| it.values_mut())
        {
            self.leaves(value, known);
        }
    }

    fn base64(&self, value: &mut Value, known: &mut KnownSecrets) {
        if let Value::String(text) = value {
            let (marker, plain) = self.markers.of_base64(text);
            match plain {
                Some(plain) => known.add(&plain, &self.markers),
                None => known.add(text, &self.markers),
            }
            *text = marker;
        } else {
            self.leaves(value, known);
        }
    }

    /// Redacts an operation of a JSON patch.
    fn patch_operation(&self, operation: &mut Value, is_of_secret: bool, known: &mut KnownSecrets) {
        let Some(path) = operation["path"].as_str().map(str::to_owned) else { return };
        let Some(value) = operation.get_mut("value") else { return };
        if path.ends_with(LAST_APPLIED_ESCAPED) {
            self.hide(value);
        }
        let whole = |value: &mut Value, name: &str| {
            let taken = value.take();
            *value = serde_json::json!({ name: taken });
        };
        for name in ["data", "stringData"].into_iter().filter(|_| is_of_secret) {
            let place = path.strip_prefix('/').and_then(|path| path.strip_prefix(name));
            match place {
                Some("") => {
                    whole(value, name);
                    self.secret(value, known);
                    *value = value[name].take();
                }
                Some(rest) if rest.starts_with('/') && name == "data" => self.base64(value, known),
                Some(rest) if rest.starts_with('/') => self.leaves(value, known),
                _ => {}
            }
        }
        if is_of_secret && path.is_empty() {
            self.secret(value, known);
        }
        for pointer in &self.pointers {
            pointers::within(value, &path, pointer, &mut |value| self.leaves(value, known));
        }
    }

    /// Redacts all that is told in `value`: texts become markers, numbers 0.
    fn leaves(&self, value: &mut Value, known: &mut KnownSecrets) {
        match value {
            Value::String(text) if marker::is_whole(text) => {}
            Value::String(text) => {
                known.add(text, &self.markers);
                *text = self.markers.of(text.as_bytes());
            }
            Value::Number(_) => *value = 0.into(),
            Value::Array(items) => items.iter_mut().for_each(|item| self.leaves(item, known)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.leaves(field, known)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Redacts what is made of things that are told elsewhere.
    fn hide(&self, value: &mut Value) {
        if let Value::String(text) = value {
            *text = self.markers.of(text.as_bytes());
        }
    }
}

/// Whether an object, or a reference to one, says that it is a Secret.
fn is_secret(value: &Value) -> bool {
    value.get("kind").is_some_and(|kind| kind == "Secret") && value.get("apiVersion").is_some_and(|it| it == "v1")
}

impl KnownSecrets {
    fn add(&mut self, value: &str, markers: &Markers) {
        for form in [value, value.trim()] {
            let is_long = form.len() >= SHORTEST && !is_redacted_whole(form);
            if is_long && self.seen.insert(form.to_owned()) {
                self.values.push((form.to_owned(), markers.of(form.as_bytes())));
            }
        }
    }

    /// Forgets values that are also in the name of an object of the call: a Secret may say in which namespace it is.
    fn forget_names(&mut self, call: &Value) {
        let named = |value: &Value| {
            ["namespace", "name", "kind", "apiVersion"].map(|field| value[field].as_str().map(str::to_owned))
        };
        let imports = call["imports"].as_array().map(Vec::as_slice).unwrap_or_default();
        let args = imports.iter().map(|import| &import["args"]);
        let named_there: BTreeSet<String> = args
            .flat_map(|args| [&args["target"], &args["of"], args])
            .chain([&call["request"]])
            .flat_map(named)
            .flatten()
            .collect();
        self.values.retain(|(value, _)| !named_there.contains(value));
    }
}

fn is_redacted_whole(text: &str) -> bool {
    is_redacted(text) && text.starts_with('<') && text.ends_with('>')
}

#[cfg(test)]
mod tests;
