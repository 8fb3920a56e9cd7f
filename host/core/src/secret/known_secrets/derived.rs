//! The secrets inside a secret: passwords in configuration files, tokens in JSON, keys in PEM, credentials in URLs.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;

use super::{SECRET_BYTES_MIN, SECRETS_MAX};
use crate::secret::credentials::{hide_in_urls, is_confidential};

/// The maximum nesting of secrets. A kubeconfig in Base64, for example, contains a key in Base64, which is PEM.
const SECRET_DEPTH_MAX: usize = 4;
/// The maximum size of all secrets inside one secret, in bytes. Each level may have a copy of the level above, and a
/// Kubernetes Secret has at most 1 MiB.
const DERIVED_SECRETS_BYTES_MAX: usize = 16 << 20;
/// The shortest line of a PEM key that is searched for by itself.
const PEM_LINE_BYTES_MIN: usize = 16;
/// The shortest text that is decoded as Base64. Many shorter words are valid Base64 by chance.
const DECODED_BASE64_BYTES_MIN: usize = 12;

/// `value` and all secrets inside it, up to a limit.
pub(super) fn secrets_of(value: &str) -> FoundSecrets {
    let mut found = FoundSecrets::default();
    whole(value, SECRET_DEPTH_MAX, &mut found);
    found
}

/// Secrets that were found, without duplicates.
#[derive(Default)]
pub(super) struct FoundSecrets {
    pub(super) secrets: BTreeSet<String>,
    /// Whether there are more than [`SECRETS_MAX`], or they are too long in total. Further secrets were dropped.
    pub(super) is_overfull: bool,
    bytes: usize,
}

impl FoundSecrets {
    fn push(&mut self, secret: &str) {
        if secret.len() < SECRET_BYTES_MIN || self.is_overfull || self.secrets.contains(secret) {
            return;
        }
        self.bytes += secret.len();
        self.is_overfull = self.secrets.len() >= SECRETS_MAX || self.bytes > DERIVED_SECRETS_BYTES_MAX;
        if !self.is_overfull {
            self.secrets.insert(secret.to_owned());
        }
    }
}

fn whole(value: &str, depth: usize, found: &mut FoundSecrets) {
    found.push(value);
    found.push(value.trim());
    if depth == 0 || found.is_overfull {
        return;
    }
    inside(value, depth, found);
    let Some(decoded) = decoded(value.trim()) else { return };
    whole(&decoded, depth - 1, found);
    // As in HTTP's basic authorization, and in `auth` in a `.dockerconfigjson`.
    if let Some((_, password)) = decoded.split_once(':').filter(|(user, _)| !user.contains(char::is_whitespace))
        && !password.starts_with("//")
    {
        whole(password, depth - 1, found);
    }
}

/// The secrets inside a `value`, which itself may not be secret.
fn inside(value: &str, depth: usize, found: &mut FoundSecrets) {
    let json = value.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str::<Value>(value).ok());
    if let Some(json) = json.flatten() {
        return of_json(&json, false, depth, found);
    }
    hide_in_urls(value, &mut |credential| {
        found.push(credential);
        String::new()
    });
    pem_keys(value, found);
    for line in value.lines() {
        assigned(line, depth, found);
        // Lines such as `Server=db;Password=p`, `user=u&password=p` and `{user: u, password: p}`, and lines with blanks
        // between the parts, such as `host=db password=p`.
        for separators in [&[';', '&', ',', '{', '}'][..], &[' ']] {
            let parts = line.split(separators).filter(|part| part.len() < line.len());
            parts.for_each(|part| assigned(part, depth, found));
        }
    }
}

fn of_json(value: &Value, is_secret: bool, depth: usize, found: &mut FoundSecrets) {
    match value {
        Value::String(text) if is_secret => whole(text, depth - 1, found),
        Value::String(text) if depth > 1 => inside(text, depth - 1, found),
        Value::Number(number) if is_secret => found.push(&number.to_string()),
        Value::Array(items) => items.iter().for_each(|item| of_json(item, is_secret, depth, found)),
        Value::Object(fields) => {
            for (name, field) in fields {
                // A field such as `auths` is not a secret: it maps names of registries to objects that hold the
                // secrets.
                let is_secret = is_confidential(name) && !(field.is_object() || field.is_array());
                of_json(field, is_secret, depth, found);
            }
        }
        _ => {}
    }
}

/// The value that a line such as `password: p`, `export TOKEN=t` or `"key" = "k"` assigns to a name that announces a
/// secret.
fn assigned(line: &str, depth: usize, found: &mut FoundSecrets) {
    let Some((name, value)) = line.split_once([':', '=']) else { return };
    let value = value.trim().trim_end_matches(',').trim_matches(['"', '\'']);
    if is_confidential(name) && value.len() >= SECRET_BYTES_MIN {
        whole(value, depth - 1, found);
    }
}

/// The bodies of PEM keys without line ends, and each single line, because some writers log line by line.
fn pem_keys(value: &str, found: &mut FoundSecrets) {
    let mut body: Option<String> = None;
    for line in value.lines().map(str::trim) {
        if let Some(label) = line.strip_prefix("-----BEGIN ") {
            body = label.contains("KEY").then(String::new);
        } else if line.starts_with("-----END ") {
            found.push(&body.take().unwrap_or_default());
        } else if let Some(body) = &mut body {
            body.push_str(line);
            if line.len() >= PEM_LINE_BYTES_MIN {
                found.push(line);
            }
        }
    }
    // The end marker may be missing.
    found.push(&body.unwrap_or_default());
}

/// `value`, decoded from Base64.
fn decoded(value: &str) -> Option<String> {
    if value.len() < DECODED_BASE64_BYTES_MIN {
        return None;
    }
    let folded: String = value.split_ascii_whitespace().collect();
    let alphabets: [&GeneralPurpose; 4] = [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE, &URL_SAFE_NO_PAD];
    let bytes = alphabets.into_iter().find_map(|alphabet| alphabet.decode(&folded).ok())?;
    let text = String::from_utf8(bytes).ok()?;
    let is_text = text.chars().all(|it| !it.is_control() || it.is_ascii_whitespace());
    is_text.then_some(text)
}
