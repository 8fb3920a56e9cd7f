//! Removes values that are known to be secret from text, in the same way for recordings, logs and the status page.
//!
//! A value is found as it is and in Base64, whatever surrounds it. It is also found if a writer has escaped it for JSON
//! or a URL, or broken it into lines. Secrets inside a value are found as well, such as the password in a
//! `.dockerconfigjson`. A text that a plugin computes from a secret in another way, such as a hash, is not found.

mod derived;
mod forms;
mod view;

use std::collections::BTreeSet;

pub use forms::SecretForms;

/// The shortest value that is searched for, in bytes. Shorter values, such as `a` or `true`, appear in most texts by
/// chance.
pub const SECRET_BYTES_MIN: usize = 6;

/// The maximum number of values that are searched for. Each has about ten forms, which take memory and are searched for
/// one by one. A configuration and a call have some tens of secrets. With more than the maximum, every text is hidden
/// whole, because any part of it may be a secret that was not searched for.
pub const SECRETS_MAX: usize = 1_000;

/// The replacement of a secret that need not be distinguished from other secrets.
pub const REDACTED: &str = "<redacted>";

/// Known secret values, each with its replacement.
#[derive(Clone, Debug, Default)]
pub struct KnownSecrets {
    values: Vec<(String, String)>,
    seen: BTreeSet<String>,
    /// Whether there were more than [`SECRETS_MAX`].
    is_overfull: bool,
}

impl KnownSecrets {
    /// Adds `value` and the secrets inside it. `marker` returns the replacement of a secret, or `None` if the secret
    /// need not be searched for.
    pub fn add(&mut self, value: &str, marker: &dyn Fn(&str) -> Option<String>) {
        if self.is_overfull {
            return;
        }
        let found = derived::secrets_of(value);
        self.is_overfull = found.is_overfull;
        for secret in found.secrets {
            // A marker must stay whole, even if a secret is a part of it.
            if secret.len() < SECRET_BYTES_MIN || REDACTED.contains(&secret) || self.seen.contains(&secret) {
                continue;
            }
            if let Some(marker) = marker(&secret) {
                self.seen.insert(secret.clone());
                self.values.push((secret, marker));
            }
        }
        self.is_overfull |= self.values.len() > SECRETS_MAX;
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no value is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether there were more than [`SECRETS_MAX`], so that some are not known.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    /// Forgets the values for which `is_secret` is false.
    pub fn retain(&mut self, mut is_secret: impl FnMut(&str) -> bool) {
        self.values.retain(|(value, _)| is_secret(value));
    }

    /// The forms to search for. The replacement of a Base64 value is Base64 too, so that the text can still be decoded.
    #[must_use]
    pub fn forms(&self) -> SecretForms {
        SecretForms::of(self, true)
    }

    /// The forms to search for in text for people, who cannot read a marker in Base64.
    #[must_use]
    pub fn forms_for_people(&self) -> SecretForms {
        SecretForms::of(self, false)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    fn redacted(secret: &str, text: &str) -> String {
        let mut known = KnownSecrets::default();
        known.add(secret, &|_| Some(REDACTED.to_owned()));
        known.forms_for_people().replace(text).into_owned()
    }

    #[test]
    fn short_values_leave_text_as_it_is() {
        for short in ["", "a", "true", "false", "5432"] {
            let text = format!("a true story: {short}");
            assert_eq!(redacted(short, &text), text);
        }
    }

    #[test]
    fn a_secret_is_found_in_each_of_its_forms() {
        let secret = "p&ss w0rd\"<ö>";
        let json = serde_json::Value::from(secret).to_string();
        for text in [
            secret.to_owned(),
            format!("said {json}"),
            format!("said {}", serde_json::Value::from(&*json)),
            r#"{"a":"p\u0026ss w0rd\"\u003c\u00f6\u003e"}"#.to_owned(),
            "q=p%26ss%20w0rd%22%3C%C3%B6%3E".to_owned(),
            "q=p%26ss+w0rd%22%3c%c3%b6%3e".to_owned(),
            "q=p%2526ss%2520w0rd%2522%253C%25C3%25B6%253E".to_owned(),
            STANDARD.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
        ] {
            let shown = redacted(secret, &text);
            assert!(shown.contains(REDACTED) && !shown.contains("w0rd") && !shown.contains("w0Jk"), "{text}: {shown}");
        }
    }

    #[test]
    fn a_secret_is_found_in_base64_of_a_longer_text() {
        for before in ["", "u", "us", "use"] {
            let text = STANDARD.encode(format!("{before}:hunter22-and-more\n"));
            let shown = redacted("hunter22", &text);
            assert!(shown.contains(REDACTED), "{before}: {shown}");
            assert!(
                !shown.contains("dW50ZXIy") && !shown.contains("h1bnRlcj") && !shown.contains("odW50ZX"),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_long_secret_is_found_across_any_line_breaks() {
        let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n{}\n-----END PRIVATE KEY-----\n", &body[..34], &body[34..]);
        for text in [
            pem.replace('\n', "\r\n"),
            pem.replace('\n', "\\n"),
            pem.replace('\n', "\\\\n"),
            format!("key: |\n    {}\n    {}", &body[..20], &body[20..]),
            body.to_owned(),
            body[34..].to_owned(),
            STANDARD.encode(&pem).as_bytes().chunks(76).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\n"),
        ] {
            let shown = redacted(&pem, &text);
            assert!(shown.contains(REDACTED), "{text}: {shown}");
            for secret in [body, &STANDARD.encode(&pem)] {
                let parts: Vec<_> = secret.as_bytes().windows(12).map(String::from_utf8_lossy).collect();
                assert!(!parts.iter().any(|part| shown.contains(&**part)), "{text}: {shown}");
            }
        }
    }

    #[test]
    fn the_secrets_inside_a_secret_are_found_alone() {
        let docker = json!({"auths": {"r.example": {
            "username": "robot", "password": "pull-pass-1", "auth": STANDARD.encode("robot:pull-pass-2"),
            "identitytoken": "identity-1",
        }}});
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\nusers:\n- name: admin\n  user:\n    token: kube-token-1\n    client-key-data: {}\n",
            STANDARD.encode("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY\n-----END EC PRIVATE KEY-----\n"),
        );
        for (whole, secrets) in [
            (docker.to_string(), &["pull-pass-1", "pull-pass-2", "identity-1"][..]),
            (STANDARD.encode(docker.to_string()), &["pull-pass-1", "pull-pass-2"]),
            (kubeconfig, &["kube-token-1", "MHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY"]),
            (
                "postgres://shop:p%40ssword@db/shop?sslpassword=other-pass".to_owned(),
                &["p%40ssword", "p@ssword", "other-pass"],
            ),
            ("host=db user=shop password=dsn-pass-1".to_owned(), &["dsn-pass-1"]),
            ("Server=db;User Id=shop;Password=ado-pass-1;".to_owned(), &["ado-pass-1"]),
            ("export DB_PASSWORD=\"env-pass-1\"\n".to_owned(), &["env-pass-1"]),
            (STANDARD.encode("robot:basic-pass"), &["robot:basic-pass", "basic-pass"]),
        ] {
            for secret in secrets {
                let text = format!("login with {secret}");
                assert_eq!(redacted(&whole, &text), format!("login with {REDACTED}"), "{whole}");
            }
        }
        let text = "robot of r.example, apiVersion: v1, kind: Config";
        assert_eq!(redacted(&docker.to_string(), text), text);
    }

    #[test]
    fn too_many_secrets_hide_every_text() {
        let lines =
            |count: usize| (0..count).map(|index| format!("token=value-{index}")).collect::<Vec<_>>().join("\n");
        assert_eq!(redacted(&lines(100), "an ordinary text, with value-7"), "an ordinary text, with <redacted>");
        for count in [1_000 + 1, 50_000] {
            assert_eq!(redacted(&lines(count), "an ordinary text, with value-7"), REDACTED);
        }
        let mut known = KnownSecrets::default();
        known.add(&lines(50_000), &|_| Some(REDACTED.to_owned()));
        assert!(known.is_overfull() && known.len() <= 2 * 1_000, "{}", known.len());
        assert!(!known.forms_for_people().is_empty());
    }

    #[test]
    fn a_marker_is_never_redacted() {
        assert_eq!(redacted("redacted", "<redacted:1f2e3d4c5b6a>"), "<redacted:1f2e3d4c5b6a>");
    }
}
