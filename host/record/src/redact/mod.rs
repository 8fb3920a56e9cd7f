//! Takes out of a recording what nobody should read there: values of Secrets, of fields that the operator names, and of
//! HTTP's credentials.
//!
//! Two steps. The first goes by place: a Secret's `data`, a header that authorizes. The second goes by value: what the first
//! has found is looked for in the rest of the call, where a plugin may have put it, such as a URL in a `ConfigMap`. It does not
//! find what was computed from a secret.

mod http;
mod marker;
mod pointers;

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use marker::Markers;
pub use marker::is_redacted;
pub(crate) use marker::same;

/// The annotation in which `kubectl apply` repeats whole objects.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const LAST_APPLIED_ESCAPED: &str = "kubectl.kubernetes.io~1last-applied-configuration";
/// Shorter values are found everywhere, by chance.
const SHORTEST: usize = 6;
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

    /// Redacts a [`RecordedCall`](crate::RecordedCall), as JSON. `secrets` are values that are known to be secret.
    pub fn redact(&self, call: &mut Value, secrets: &[Arc<str>]) {
        let mut known = KnownSecrets::default();
        for secret in secrets {
            known.add(secret, &self.markers);
        }
        if let Some(request) = call.get_mut("request") {
            let is_secret = is_secret(request);
            for field in ["object", "config", "children", "related"] {
                if let Some(value) = request.get_mut(field) {
                    self.texts(value, is_secret && field == "object", &mut known, DEEPEST);
                }
            }
        }
        let mut makes_secrets = false;
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
        let found = known.in_all_forms();
        if !found.is_empty() {
            for part in ["request", "imports", "result"] {
                if let Some(part) = call.get_mut(part) {
                    replace(part, &found);
                }
            }
        }
    }

    /// Redacts one import by itself.
    pub(crate) fn redact_import(&self, import: &mut Value) {
        self.import(import, &mut KnownSecrets::default());
    }

    /// Whether it writes a secret that was not known before.
    fn import(&self, import: &mut Value, known: &mut KnownSecrets) -> bool {
        let before = known.values.len();
        let is_write = import["import"].as_str().is_some_and(|name| name.starts_with("writes."));
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
                    || text.contains("last-applied-configuration");
                let is_json = text.trim_start().starts_with(['{', '[']);
                let parsed = (may_have && is_json && depth > 0).then(|| serde_json::from_str::<Value>(text).ok());
                let Some(mut parsed) = parsed.flatten() else { return };
                let before = parsed.clone();
                self.document(&mut parsed, is_of_secret, known, depth - 1);
                if parsed != before {
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
        if is_of_secret && document.is_object() && document.get("kind").is_none() {
            self.secret(document, known);
        }
        for pointer in &self.pointers {
            pointers::each(document, pointer, &mut |value| self.leaves(value, known));
        }
        self.nested(document, known, depth);
    }

    /// Redacts the Secrets and annotations in `value`, wherever they are.
    fn nested(&self, value: &mut Value, known: &mut KnownSecrets, depth: usize) {
        if is_secret(value) {
            self.secret(value, known);
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
        self.values.retain(|(value, _)| !named_there.iter().any(|name| name.contains(value.as_str())));
    }

    /// The values as they may stand in a text, the longest first: as they are, in Base64, and as JSON writes them.
    fn in_all_forms(&self) -> Vec<(String, String)> {
        let escaped = |text: &str| {
            let json = Value::from(text).to_string();
            json[1..json.len() - 1].to_owned()
        };
        let mut forms: Vec<(String, String)> = Vec::new();
        for (value, marker) in &self.values {
            let once = escaped(value);
            let twice = escaped(&once);
            forms.extend([value.clone(), once, twice].map(|form| (form, marker.clone())));
            forms.push((STANDARD.encode(value), STANDARD.encode(marker)));
        }
        forms.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        forms.dedup_by(|a, b| a.0 == b.0);
        forms
    }
}

fn is_redacted_whole(text: &str) -> bool {
    is_redacted(text) && text.starts_with('<') && text.ends_with('>')
}

fn replace(value: &mut Value, found: &[(String, String)]) {
    match value {
        Value::String(text) => {
            for (secret, marker) in found {
                if text.contains(secret.as_str()) {
                    *text = text.replace(secret.as_str(), marker);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, found)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
