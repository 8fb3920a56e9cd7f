//! Redacts secrets by their place in documents: in Secrets, patches of Secrets, tokens, copies in annotations, and
//! fields that the operator names.
//!
//! If a text should be such a document but cannot be parsed, the whole text is hidden, because the places of its values
//! are unknown.

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use windlass_core::secret::known_secrets::KnownSecrets;

use super::marker::{self, Markers};
use super::opaque::may_contain_secrets;
use super::pointers;
use crate::json::{self, DOCUMENT_VALUES_MAX, values};

/// The maximum depth to which JSON inside JSON texts is parsed.
pub(super) const NESTED_JSON_DEPTH_MAX: usize = 4;
/// The maximum number of segments of a JSON patch's path. With a longer path, the whole value is redacted.
const PATCH_PATH_SEGMENTS_MAX: usize = 32;
/// The fields of a Secret that stay readable. All other fields are redacted, even misspelled ones.
const OPEN_FIELDS: [&str; 5] = ["apiVersion", "kind", "metadata", "type", "immutable"];
/// A JSON document without any of these words has nothing to redact.
const HINTS: [&str; 6] = ["ecret", "ECRET", "oken", "pplied", "riginal", "\\u"];

/// Redacts the documents of one call, and collects the secrets that it finds.
pub(super) struct Documents<'a> {
    markers: &'a Markers,
    pointers: &'a [String],
    pub(super) known: KnownSecrets,
}

impl<'a> Documents<'a> {
    pub(super) fn new(markers: &'a Markers, pointers: &'a [String]) -> Self {
        Self { markers, pointers, known: KnownSecrets::default() }
    }

    /// Remembers a secret, so that it is searched for elsewhere.
    pub(super) fn learn(&mut self, secret: &str) {
        let marker = |secret: &str| (!marker::is_whole(secret)).then(|| self.markers.of(secret.as_bytes()));
        self.known.add(secret, &marker);
    }

    /// Remembers a secret and returns its marker.
    pub(super) fn hidden(&mut self, secret: &str) -> String {
        self.learn(secret);
        self.markers.of(secret.as_bytes())
    }

    /// Replaces a whole text by a marker with its digest and length.
    pub(super) fn hide_whole(&mut self, text: &mut String) {
        if !marker::is_whole(text) {
            self.learn(text);
            *text = self.markers.of_whole(text.as_bytes());
        }
    }

    /// The marker of a binary body.
    pub(super) fn marker_of_bytes(&self, bytes: &[u8]) -> String {
        self.markers.of_whole(bytes)
    }

    /// Redacts a JSON text that should be an object or a patch, or a list of such texts.
    pub(super) fn objects(&mut self, value: &mut Value, is_of_secret: bool) {
        match value {
            Value::String(text) => self.object(text, is_of_secret),
            Value::Array(items) => items.iter_mut().for_each(|item| self.objects(item, is_of_secret)),
            _ => self.texts(value, NESTED_JSON_DEPTH_MAX),
        }
    }

    fn object(&mut self, text: &mut String, is_of_secret: bool) {
        if !text.trim_start().starts_with(['{', '[']) {
            return self.hide_whole(text);
        }
        if !is_of_secret && !self.may_hide(text) && serde_json::from_str::<IgnoredAny>(text).is_ok() {
            return;
        }
        match json::document(text) {
            Some(document) => self.rewrite(text, document, is_of_secret, NESTED_JSON_DEPTH_MAX),
            None => self.hide_whole(text),
        }
    }

    fn may_hide(&self, text: &str) -> bool {
        !self.pointers.is_empty() || HINTS.iter().any(|hint| text.contains(hint))
    }

    fn rewrite(&mut self, text: &mut String, mut document: Value, is_of_secret: bool, depth: usize) {
        let before = document.clone();
        let has_secret = self.document(&mut document, is_of_secret, depth);
        // A text with a Secret is always written anew: if it has two fields of one name, only the last one was parsed
        // and redacted.
        if has_secret || document != before {
            *text = document.to_string();
        }
    }

    /// Redacts the documents in all texts of `value`.
    pub(super) fn texts(&mut self, value: &mut Value, depth: usize) {
        match value {
            Value::String(text) => self.text(text, depth),
            Value::Array(items) => items.iter_mut().for_each(|item| self.texts(item, depth)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.texts(field, depth)),
            _ => {}
        }
    }

    /// Redacts a text of any kind: JSON, lines of JSON, a YAML manifest, prose.
    fn text(&mut self, text: &mut String, depth: usize) {
        let is_json = text.trim_start().starts_with(['{', '[']);
        if is_json && depth > 0 && self.may_hide(text) {
            if let Some(document) = json::document(text) {
                return self.rewrite(text, document, false, depth - 1);
            }
            if values(text.as_bytes()) <= DOCUMENT_VALUES_MAX
                && let Some(lines) = json_lines(text)
            {
                let each = lines.into_iter().map(|(line, document)| {
                    let mut line = line.to_owned();
                    self.rewrite(&mut line, document, false, depth - 1);
                    line
                });
                *text = each.collect::<Vec<_>>().join("\n");
                return;
            }
        }
        if may_contain_secrets(text) {
            self.hide_whole(text);
        }
    }

    /// Redacts an object, a patch, or a list of them. Returns whether it contains a Secret.
    fn document(&mut self, document: &mut Value, is_of_secret: bool, depth: usize) -> bool {
        for operation in document.as_array_mut().into_iter().flatten() {
            self.patch_operation(operation, is_of_secret, depth);
        }
        let is_secret = document.is_object() && (is_of_secret || is_secret(document));
        if is_secret {
            // This must run before `nested`, because only `secret` knows which values are Base64.
            self.secret(document);
        }
        let has_secret = self.nested(document, depth);
        for pointer in self.pointers {
            pointers::each(document, pointer, &mut |value| self.leaves(value));
        }
        is_of_secret || is_secret || has_secret
    }

    /// Redacts the Secrets, tokens and copies anywhere in `value`. Returns whether it contains a Secret.
    fn nested(&mut self, value: &mut Value, depth: usize) -> bool {
        let mut has_secret = is_secret(value) && !is_reference(value);
        if has_secret {
            self.secret(value);
        }
        match value.get("kind").and_then(Value::as_str) {
            Some("SecretList") => {
                has_secret = true;
                let items = value.get_mut("items").and_then(Value::as_array_mut);
                items.into_iter().flatten().for_each(|item| self.secret(item));
            }
            // These kinds contain bearer tokens, which are credentials.
            Some("TokenRequest" | "TokenReview") => {
                for place in ["/status/token", "/spec/token"] {
                    value.pointer_mut(place).into_iter().for_each(|token| self.leaves(token));
                }
            }
            _ => {}
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    if is_copy(name) {
                        self.hide_copy(field);
                    }
                    has_secret |= self.nested(field, depth);
                }
            }
            Value::Array(items) => {
                for item in items {
                    has_secret |= self.nested(item, depth);
                }
            }
            Value::String(text) => self.text(text, depth),
            _ => {}
        }
        has_secret
    }

    /// Redacts a Secret, or an object that should be one.
    fn secret(&mut self, secret: &mut Value) {
        let Value::Object(fields) = secret else { return self.leaves(secret) };
        for (name, field) in fields {
            match field {
                Value::Object(data) if name == "data" => data.values_mut().for_each(|value| self.base64(value)),
                Value::Object(_) if name == "metadata" => {}
                Value::String(_) | Value::Bool(_) if OPEN_FIELDS.contains(&&**name) && name != "metadata" => {}
                _ => self.leaves(field),
            }
        }
    }

    fn base64(&mut self, value: &mut Value) {
        if let Value::String(text) = value {
            if marker::is_whole(text) {
                return;
            }
            let (marker, plain) = self.markers.of_base64(text);
            self.learn(plain.as_deref().unwrap_or(text));
            *text = marker;
        } else {
            self.leaves(value);
        }
    }

    /// Redacts the value of a JSON patch's operation, according to the place where the operation puts it.
    fn patch_operation(&mut self, operation: &mut Value, is_of_secret: bool, depth: usize) {
        let path = operation.get("path").and_then(Value::as_str).map(str::to_owned);
        let Some(path) = path else {
            if is_of_secret {
                self.leaves(operation);
            }
            return;
        };
        let Some(value) = operation.get_mut("value") else { return };
        let segments = pointers::segments(&path);
        if segments.len() > PATCH_PATH_SEGMENTS_MAX {
            return self.leaves(value);
        }
        let mut whole = segments.iter().rev().fold(value.take(), |inner, name| json!({ name: inner }));
        if is_of_secret {
            self.secret(&mut whole);
        }
        self.nested(&mut whole, depth);
        *value = segments.iter().fold(whole, |mut whole, name| whole[name].take());
        for pointer in self.pointers {
            pointers::within(value, &path, pointer, &mut |value| self.leaves(value));
        }
    }

    /// Redacts all leaves of `value`: texts become markers, numbers become 0.
    fn leaves(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if marker::is_whole(text) => {}
            Value::String(text) => *text = self.hidden(text),
            Value::Number(_) => *value = 0.into(),
            Value::Array(items) => items.iter_mut().for_each(|item| self.leaves(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.leaves(field)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Redacts a copy of an object. Its values are not searched for elsewhere, because the object itself shows most of
    /// them openly.
    fn hide_copy(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if marker::is_whole(text) => {}
            Value::String(text) => *text = self.markers.of(text.as_bytes()),
            _ => self.leaves(value),
        }
    }
}

/// The lines of a text with a JSON document on each line, as in a watch or some logs; `null` for empty lines.
fn json_lines(text: &str) -> Option<Vec<(&str, Value)>> {
    let document = |line| if str::trim(line).is_empty() { Some(Value::Null) } else { serde_json::from_str(line).ok() };
    text.split('\n').map(|line| Some((line, document(line)?))).collect()
}

/// Whether an annotation contains a copy of the object, as written by `kubectl apply`, Rancher and kapp.
fn is_copy(name: &str) -> bool {
    name.contains("last-applied") || name.ends_with("/applied") || name.ends_with("/original")
}

/// Whether an object, or a reference, claims to be a Secret. An object without an API group, or with a wrong one,
/// counts as a Kubernetes Secret.
pub(super) fn is_secret(value: &Value) -> bool {
    let is_secret =
        value.get("kind").and_then(Value::as_str).is_some_and(|it| it.trim().eq_ignore_ascii_case("secret"));
    let group = value.get("apiVersion").and_then(Value::as_str).and_then(|it| it.split_once('/'));
    is_secret && group.is_none_or(|(group, _)| !group.contains('.'))
}

/// Whether an object is only a reference to another object.
fn is_reference(value: &Value) -> bool {
    let is_content = |name: &String| ["metadata", "data", "stringdata"].contains(&&*name.to_ascii_lowercase());
    value.as_object().is_some_and(|fields| !fields.keys().any(is_content))
}
