//! The plain form of values, without the parts that differ between any two servers, such as times, addresses and
//! generated names.

use regex::{Captures, Regex};
use serde_json::{Number, Value, json};

/// The server that answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The real server.
    Real,
    /// The embedded server.
    Ours,
}

/// Replaces values that differ between any two servers, such as UIDs and times. It learns the generated names from the
/// answers of one script.
pub struct PlainForm {
    /// The generated names: the real name, our name, and the replacement for both.
    names: Vec<(String, String, String)>,
    uid: Regex,
    time: Regex,
    micro_time: Regex,
    address: Regex,
    server: Regex,
    certificate: Regex,
    revision: Regex,
    version: Regex,
    took: Regex,
    generated: Regex,
    age: Regex,
    event: Regex,
}

impl Default for PlainForm {
    fn default() -> PlainForm {
        let made = |pattern: &str| Regex::new(pattern).unwrap_or_else(|error| unreachable!("{pattern}: {error}"));
        PlainForm {
            names: Vec::new(),
            uid: made(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: made(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"),
            micro_time: made(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"),
            address: made(r"\b10\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\b"),
            server: made(r"\b127\.0\.0\.1:[0-9]+\b"),
            certificate: made("X509SHA256=[0-9a-f]{64}"),
            // Versions of the whole server, which other scripts also change.
            revision: made(r"(?i)(current: |too old[a-z ]*: [0-9]+ \()[1-9][0-9]*"),
            // Versions of objects: in prose, and in an object that a text quotes.
            version: made(
                r#"(?i)(in (?:the precondition|record) \(|too (?:large|old)[a-z ]*: |resourceVersion\\*":\\*")([1-9][0-9]*)"#,
            ),
            took: made(r"\b[0-9.]+(µs|ms|s)\b"),
            generated: made("^[bcdfghjklmnpqrstvwxz2456789]{5}$"),
            age: made("^([0-9]+[dhms])+$"),
            // The names of Events end with a time in hexadecimal.
            event: made(r"\.[0-9a-f]{16}$"),
        }
    }
}

impl PlainForm {
    /// Learns the generated names in these answers, in order to replace them in this answer and in later ones.
    pub fn learn_names(&mut self, real: &Value, ours: &Value) {
        for place in ["/body/metadata/name", "/body/details/name"] {
            let text = |value: &Value| value.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (name, our_name) = (text(real), text(ours));
            let halves = (
                name.split_at_checked(name.len().saturating_sub(5)),
                our_name.split_at_checked(name.len().saturating_sub(5)),
            );
            let (Some((prefix, made)), Some((our_prefix, our_made))) = halves else { continue };
            let is_made = |suffix: &str| self.generated.is_match(suffix);
            if name != our_name && prefix == our_prefix && is_made(made) && is_made(our_made) {
                let shown = format!("{prefix}<generated {}>", self.names.len() + 1);
                self.names.push((name, our_name, shown));
            }
        }
    }

    /// The plain form of a text, and the object versions in it.
    #[must_use]
    pub fn text(&self, text: &str, path: &str, key: &str, origin: Origin) -> (String, Vec<String>) {
        let mut versions = Vec::new();
        if path.contains("/cells/") && self.age.is_match(text) {
            return ("<age>".to_owned(), versions);
        }
        let mut text = text.to_owned();
        for (real, ours, shown) in &self.names {
            text = text.replace(if origin == Origin::Ours { ours } else { real }, shown);
        }
        for (pattern, shown) in [
            (&self.micro_time, "<microtime>"),
            (&self.time, "<time>"),
            (&self.uid, "<uid>"),
            (&self.address, "<address>"),
            (&self.server, "<server>"),
            (&self.certificate, "<certificate>"),
        ] {
            text = pattern.replace_all(&text, shown).into_owned();
        }
        if key == "name" {
            text = self.event.replace(&text, ".<moment>").into_owned();
        }
        if key == "message" || key == "warning" || path == "/body" {
            text = self.revision.replace_all(&text, "$1<revision>").into_owned();
            text = self.took.replace_all(&text, "<duration>").into_owned();
            let without = |found: &Captures<'_>| {
                versions.push(found[2].to_owned());
                format!("{}<version>", &found[1])
            };
            text = self.version.replace_all(&text, without).into_owned();
        }
        (text, versions)
    }

    /// The plain form of a value, which is the same in each run.
    #[must_use]
    pub fn value(&self, value: &Value, path: &str, key: &str, origin: Origin) -> Value {
        match value {
            Value::Object(fields) => {
                let plain = fields
                    .iter()
                    .map(|(key, value)| (key.clone(), self.value(value, &format!("{path}/{key}"), key, origin)));
                Value::Object(plain.collect())
            }
            Value::Array(items) => items.iter().map(|item| self.value(item, path, key, origin)).collect(),
            Value::String(text) => match key {
                "resourceVersion" if is_version(text) => json!("<version>"),
                "continue" if !text.is_empty() => json!("<token>"),
                _ => Value::String(self.text(text, path, key, origin).0),
            },
            Value::Number(port) if is_allocated_port(key, port) => json!("<port>"),
            other => other.clone(),
        }
    }

    /// Hides UIDs in a key.
    #[must_use]
    pub fn key(&self, key: &str) -> String {
        self.uid.replace_all(key, "<uid>").into_owned()
    }

    /// Whether the text has the form of a UID.
    #[must_use]
    pub fn is_uid(&self, text: &str) -> bool {
        self.uid.is_match(text)
    }
}

/// Whether the text can be the resource version of an object.
#[must_use]
pub fn is_version(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the number is a port that the server chose.
#[must_use]
pub fn is_allocated_port(key: &str, port: &Number) -> bool {
    let is_in_range = port.as_u64().is_some_and(|port| (30_000..=32_767).contains(&port));
    matches!(key, "nodePort" | "healthCheckNodePort") && is_in_range
}
