//! Rules for names, labels and their keys, with the messages of a real server.

const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const NAME_PART: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Checks a DNS subdomain: labels separated by dots, at most 253 characters. Most object names must be one.
pub(crate) fn check_subdomain(name: &str) -> Result<(), String> {
    check_length(name, 253)?;
    let well_formed = !name.is_empty() && name.split('.').all(is_lower_label);
    well_formed.then_some(()).ok_or_else(|| DNS_SUBDOMAIN.to_owned())
}

/// Checks a DNS label, as the names of namespaces must be.
pub(crate) fn check_dns_label(name: &str) -> Result<(), String> {
    check_length(name, 63)?;
    if !is_lower_label(name) && check_subdomain(name).is_ok() {
        return Err("must not contain dots".to_owned());
    }
    is_lower_label(name).then_some(()).ok_or_else(|| DNS_LABEL.to_owned())
}

/// Checks the name of a service, which becomes a DNS name: it must not begin with a digit.
pub(crate) fn check_dns_1035_label(name: &str) -> Result<(), String> {
    check_length(name, 63)?;
    let well_formed = is_lower_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase());
    well_formed.then_some(()).ok_or_else(|| DNS_1035.to_owned())
}

/// The characters of generated names and hashes. Without vowels, they do not form words by accident.
pub(crate) const SAFE: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Maps each byte to one of the [`SAFE`] characters.
pub(crate) fn safe(bytes: impl IntoIterator<Item = u8>) -> String {
    bytes.into_iter().map(|byte| char::from(SAFE[usize::from(byte) % SAFE.len()])).collect()
}

/// Checks the name of an RBAC object, which may be anything that is valid in a path.
pub(crate) fn check_path_segment(name: &str) -> Result<(), String> {
    match name {
        "." | ".." => Err(format!("may not be '{name}'")),
        name if name.contains('/') => Err("may not contain '/'".to_owned()),
        name if name.contains('%') => Err("may not contain '%'".to_owned()),
        _ => Ok(()),
    }
}

/// Checks `[prefix/]name`, the form of label keys, annotation keys and finalizers.
pub(crate) fn check_label_key(key: &str) -> Result<(), String> {
    label_key_errors(key).into_iter().next().map_or(Ok(()), Err)
}

/// All errors in a label key, because a real server reports all of them.
pub(crate) fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => {
            let prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {NAME_PART} {prefix}")];
        }
        Some((prefix, name)) => {
            let why = if prefix.is_empty() { Err("must be non-empty".to_owned()) } else { check_subdomain(prefix) };
            errors.extend(why.err().map(|why| format!("prefix part {why}")));
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        errors.push(format!("name part {NAME_PART}"));
    }
    errors
}

pub(crate) fn check_label_value(value: &str) -> Result<(), String> {
    if value.len() > 63 {
        return Err("must be no more than 63 bytes".to_owned());
    }
    (value.is_empty() || is_qualified(value)).then_some(()).ok_or_else(|| LABEL_VALUE.to_owned())
}

/// All errors in the name of a port (IANA's rules for service names).
pub(crate) fn port_name_errors(name: &str) -> Vec<String> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let rules = [
        (name.len() > 15, "must be no more than 15 characters"),
        (
            name.is_empty() || !name.bytes().all(is_allowed),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!name.bytes().any(|byte| byte.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    rules.into_iter().filter(|(breaks, _)| *breaks).map(|(_, why)| why.to_owned()).collect()
}

fn check_length(text: &str, most: usize) -> Result<(), String> {
    (text.len() <= most).then_some(()).ok_or_else(|| format!("must be no more than {most} characters"))
}

fn is_lower_label(label: &str) -> bool {
    let alphanumeric = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    label.starts_with(alphanumeric)
        && label.ends_with(alphanumeric)
        && label.chars().all(|character| alphanumeric(character) || character == '-')
}

fn is_qualified(name: &str) -> bool {
    let alphanumeric = |character: char| character.is_ascii_alphanumeric();
    name.starts_with(alphanumeric)
        && name.ends_with(alphanumeric)
        && name.chars().all(|character| alphanumeric(character) || matches!(character, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated() {
        assert!(check_subdomain("a.b-c.d1").is_ok());
        for bad in ["", "A", "-a", "a-", "a..b", "a_b"] {
            assert!(check_subdomain(bad).is_err(), "{bad:?}");
        }
        assert!(check_dns_1035_label("1a").is_err());
        assert!(check_dns_label("1a").is_ok());
    }

    #[test]
    fn all_errors_in_a_label_key_are_reported() {
        let name = "name part must consist of alphanumeric characters";
        for (key, wanted) in [
            ("", vec!["name part must be non-empty", name]),
            ("/a", vec!["prefix part must be non-empty"]),
            ("a/", vec!["name part must be non-empty", name]),
            ("a/b/c", vec!["a valid label key must consist of"]),
            ("A/-", vec!["prefix part a lowercase RFC 1123 subdomain", name]),
        ] {
            let errors = label_key_errors(key);
            assert_eq!(errors.len(), wanted.len(), "{key:?}: {errors:?}");
            assert!(errors.iter().zip(wanted).all(|(error, wanted)| error.starts_with(wanted)), "{key:?}: {errors:?}");
        }
    }

    #[test]
    fn label_keys_may_have_a_prefix_and_values_may_be_empty() {
        assert!(check_label_key("app.kubernetes.io/name").is_ok());
        assert!(check_label_key("/name").is_err());
        assert!(check_label_key("a/b/c").is_err());
        assert!(check_label_value("").is_ok());
        assert!(check_label_value("a b").is_err());
    }
}
