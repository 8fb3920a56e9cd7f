//! Values that are known to be secret, and how they are taken out of text: one way for recordings, logs and the status page.
//!
//! A value is looked for as it is and in Base64, whatever else surrounds it, and also where a writer has escaped it for JSON or
//! a URL or broken it into lines. With a value come the secrets inside it, such as the password in a `.dockerconfigjson`. What a
//! plugin computes from a secret in another way, such as a hash, is not found.

mod derived;
mod forms;
mod view;

use std::collections::BTreeSet;

pub use forms::SecretForms;

/// The shortest value that is looked for, in bytes. Shorter ones, such as `a` or `true`, stand in most texts by chance.
pub const SECRET_BYTES_MIN: usize = 6;

/// The most values that are looked for. Each has about ten forms, which take memory and are looked for one by one; the secrets
/// of a configuration, and of a call, are some tens. With more than that, every text is hidden whole: a part of a text that
/// was not looked for may be a secret.
pub const SECRETS_MAX: usize = 1_000;

/// The text in the place of a secret that need not be told from other secrets.
pub const REDACTED: &str = "<redacted>";

/// Known secret values, each with the text that takes its place.
#[derive(Clone, Debug, Default)]
pub struct KnownSecrets {
    values: Vec<(String, String)>,
    seen: BTreeSet<String>,
    /// There were more than [`SECRETS_MAX`].
    is_overfull: bool,
}

impl KnownSecrets {
    /// Adds `value` and the secrets inside it. `marker` returns what takes the place of one of them, or `None` if it need not be
    /// looked for.
    pub fn add(&mut self, value: &str, marker: &dyn Fn(&str) -> Option<String>) {
        if self.is_overfull {
            return;
        }
        let found = derived::secrets_of(value);
        self.is_overfull = found.is_overfull;
        for secret in found.secrets {
            // A marker must stay whole, even if a secret has its letters.
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

    /// Whether there were more than [`SECRETS_MAX`], and some are not known.
    #[must_use]
    pub fn is_overfull(&self) -> bool {
        self.is_overfull
    }

    /// Forgets the values that `is_secret` does not hold for.
    pub fn retain(&mut self, mut is_secret: impl FnMut(&str) -> bool) {
        self.values.retain(|(value, _)| is_secret(value));
    }

    /// The forms to look for. A value in Base64 is replaced by its marker in Base64, so that what decodes it still can.
    #[must_use]
    pub fn forms(&self) -> SecretForms {
        SecretForms::of(self, true)
    }

    /// The forms to look for in text for people, who cannot read a marker in Base64.
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
    fn a_secret_is_found_in_each_form_in_which_it_is_written() {
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
            let told = redacted(secret, &text);
            assert!(told.contains(REDACTED) && !told.contains("w0rd") && !told.contains("w0Jk"), "{text}: {told}");
        }
    }

    #[test]
    fn a_secret_is_found_in_base64_of_more_than_itself() {
        for before in ["", "u", "us", "use"] {
            let text = STANDARD.encode(format!("{before}:hunter22-and-more\n"));
            let told = redacted("hunter22", &text);
            assert!(told.contains(REDACTED), "{before}: {told}");
            assert!(!told.contains("dW50ZXIy") && !told.contains("h1bnRlcj") && !told.contains("odW50ZX"), "{told}");
        }
    }

    #[test]
    fn a_long_secret_is_found_whatever_its_line_breaks_are() {
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
            let told = redacted(&pem, &text);
            assert!(told.contains(REDACTED), "{text}: {told}");
            for secret in [body, &STANDARD.encode(&pem)] {
                let parts: Vec<_> = secret.as_bytes().windows(12).map(String::from_utf8_lossy).collect();
                assert!(!parts.iter().any(|part| told.contains(&**part)), "{text}: {told}");
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
    fn more_secrets_than_can_be_looked_for_hide_every_text() {
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
    fn a_marker_is_not_taken_for_a_secret() {
        assert_eq!(redacted("redacted", "<redacted:1f2e3d4c5b6a>"), "<redacted:1f2e3d4c5b6a>");
    }
}
