//! Decides whether a text that is not JSON, such as YAML or a form, may contain a Secret.

/// The maximum punctuation between a name and its value: `kind: "Secret"`, `\"kind\":\"Secret\"`.
const NAME_TO_VALUE_BYTES_MAX: usize = 16;

/// Whether `text` appears to contain a Secret, a token or a copy of an object, in any format.
pub(super) fn may_contain_secrets(text: &str) -> bool {
    // Most texts end here.
    if !["ecret", "ECRET", "oken", "tringData", "last-applied"].iter().any(|hint| text.contains(hint)) {
        return false;
    }
    let text = text.to_ascii_lowercase();
    let is_of = |kind: &str| behind(&text, "kind").any(|rest| rest.starts_with(kind));
    is_of("tokenrequest")
        || is_of("tokenreview")
        // A text without `data` only refers to a Secret, as a Gateway does.
        || (is_of("secret") && has_word(&text, "data"))
        || has_word(&text, "stringdata")
        || text.contains("last-applied-configuration")
}

/// The text after each `name`, without the punctuation in between.
fn behind<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(name).filter_map(move |(at, _)| {
        let rest = &text[at + name.len()..];
        let value = rest.find(|it: char| it.is_ascii_alphanumeric())?;
        (1..=NAME_TO_VALUE_BYTES_MAX).contains(&value).then(|| &rest[value..])
    })
}

fn has_word(text: &str, word: &str) -> bool {
    let is_letter = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric() || it == '_');
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        // `\ndata`, an escaped line break.
        let is_escaped = before.ends_with("\\n");
        (is_escaped || !is_letter(before.chars().next_back())) && !is_letter(after.chars().next())
    })
}

/// Whether a body has bytes that do not occur in text.
pub(super) fn is_binary(text: &str) -> bool {
    text.chars().any(|it| it.is_control() && !it.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_detected_in_any_format() {
        for text in [
            "apiVersion: v1\nkind: Secret\ndata: {}",
            "{kind: Secret, data: {}}",
            "kind: \"Secret\"\nData: {}",
            "kind:\n  Secret\ndata:",
            "--x\r\n\r\n{\"kind\":\"Secret\",\"data\":{}}\r\n--x--",
            "said \"{\\\"kind\\\":\\\"SecretList\\\",\\\"items\\\":[{\\\"data\\\":{}}]}\"",
            "said \"kind: Secret\\ndata: {}\"",
            "kind: TokenReview",
            "stringData:\n  a: b",
            "kubectl.kubernetes.io/last-applied-configuration: |",
        ] {
            assert!(may_contain_secrets(text), "{text}");
        }
        for text in [
            "fine",
            "the Secret prod/db has no key token",
            "kind: ConfigMap\ndata: {secret: name}",
            "refs: [{kind: Secret, name: tls}]\nmetadata: {}",
            "this kind of token",
        ] {
            assert!(!may_contain_secrets(text), "{text}");
        }
    }
}
