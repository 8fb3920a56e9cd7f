//! Names of types, fields and values.

use std::collections::BTreeMap;

/// Names with a meaning in a generated file of some language. A type with such a name gets a number.
const TAKEN_TYPES: &[&str] = &[
    "Any",
    "BTreeMap",
    "Clone",
    "Debug",
    "Default",
    "Deserialize",
    "Err",
    "Final",
    "From",
    "IntOrString",
    "Iterator",
    "Literal",
    "NotRequired",
    "None",
    "Nullable",
    "Number",
    "Ok",
    "Option",
    "Partial",
    "PartialEq",
    "Quantity",
    "Record",
    "Required",
    "Result",
    "Self",
    "Serialize",
    "Some",
    "String",
    "Time",
    "True",
    "False",
    "TypeAlias",
    "TypedDict",
    "Vec",
    "Into",
    "Sized",
    "Send",
    "Sync",
    "Eq",
];

/// Names that are already used in one scope, each with the next number for a name that collides with it. Without these
/// numbers, the time for many equal names would grow with the square of their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(BTreeMap<String, usize>);

/// The number of the second of equal names.
const SECOND_NUMBER: usize = 2;

impl Names {
    /// A scope for types.
    pub(crate) fn of_types() -> Self {
        Self::with(TAKEN_TYPES.iter().copied())
    }

    /// A scope with these names.
    pub(crate) fn with<'a>(taken: impl IntoIterator<Item = &'a str>) -> Self {
        Self(taken.into_iter().map(|name| (name.to_owned(), SECOND_NUMBER)).collect())
    }

    /// The name `wanted`, with a number if it is already used. Marks the name as used.
    pub(crate) fn unique(&mut self, wanted: &str) -> String {
        let (mut name, mut number) = (wanted.to_owned(), self.0.get(wanted).copied().unwrap_or(SECOND_NUMBER));
        while self.0.contains_key(&name) {
            name = format!("{wanted}{number}");
            number += 1;
        }
        self.0.insert(name.clone(), SECOND_NUMBER);
        self.0.insert(wanted.to_owned(), number);
        name
    }
}

/// The name in upper camel case: `x-my_field` becomes `XMyField`. Drops characters outside ASCII. Empty if nothing is
/// left.
pub(crate) fn upper_camel(text: &str) -> String {
    parts(text).map(capitalized).collect()
}

/// The name in snake case: `podIPs` becomes `pod_ips`, and `HTTPRoute` becomes `http_route`. Empty if nothing is left.
pub(crate) fn snake(text: &str) -> String {
    let mut name = String::new();
    for part in parts(text) {
        if !name.is_empty() {
            name.push('_');
        }
        let letters: Vec<char> = part.chars().collect();
        for (at, letter) in letters.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| letters[before]);
            let after_lower = before.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
            // The last capital before a lower-case letter begins a word, unless a plural `s` ends the run: `podIPs`.
            let rest = &letters[at + 1..];
            let begins_word = rest.first().is_some_and(char::is_ascii_lowercase) && !is_plural_end(rest);
            let after_upper = before.is_some_and(|it| it.is_ascii_uppercase()) && begins_word;
            if letter.is_ascii_uppercase() && (after_lower || after_upper) {
                name.push('_');
            }
            name.push(letter.to_ascii_lowercase());
        }
    }
    name
}

/// Whether the letters are the `s` after an abbreviation, and then no other lower-case letter.
fn is_plural_end(rest: &[char]) -> bool {
    rest.first() == Some(&'s') && rest.get(1).is_none_or(|next| !next.is_ascii_lowercase())
}

/// The singular of a field's name, for the type of an item: `ports` becomes `port`. Names of types need no more than a
/// guess.
pub(crate) fn singular(text: &str) -> String {
    let strip = |end: &str| text.strip_suffix(end).filter(|rest| rest.len() > 1);
    if let Some(rest) = strip("ies") {
        return format!("{rest}y");
    }
    for end in ["sses", "shes", "tches", "xes"] {
        if strip(end).is_some() {
            return text[..text.len() - 2].to_owned();
        }
    }
    if ["ss", "us", "is"].into_iter().any(|end| text.ends_with(end)) {
        return text.to_owned();
    }
    strip("s").unwrap_or(text).to_owned()
}

/// The runs of ASCII letters and digits in a text.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty())
}

fn capitalized(part: &str) -> String {
    let mut letters = part.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_capitals_and_symbols() {
        let cases = [
            ("replicas", "Replicas", "replicas"),
            ("apiVersion", "ApiVersion", "api_version"),
            ("podIPs", "PodIPs", "pod_ips"),
            ("HTTPRoute", "HTTPRoute", "http_route"),
            ("clusterIP", "ClusterIP", "cluster_ip"),
            ("x-my_field", "XMyField", "x_my_field"),
            ("$ref", "Ref", "ref"),
            ("m3ter", "M3ter", "m3ter"),
            ("fieldsV1", "FieldsV1", "fields_v1"),
            ("größe", "GrE", "gr_e"),
            ("--", "", ""),
        ];
        for (text, camel, lower) in cases {
            assert_eq!((upper_camel(text).as_str(), snake(text).as_str()), (camel, lower), "{text}");
        }
    }

    #[test]
    fn an_item_is_named_by_the_singular() {
        let cases = [
            ("ports", "port"),
            ("policies", "policy"),
            ("addresses", "address"),
            ("databases", "database"),
            ("patches", "patch"),
            ("boxes", "box"),
            ("status", "status"),
            ("tls", "tl"),
            ("class", "class"),
            ("s", "s"),
        ];
        for (plural, expected) in cases {
            assert_eq!(singular(plural), expected);
        }
    }

    #[test]
    fn a_used_name_gets_a_number() {
        let mut names = Names::of_types();
        let found = ["Shop", "Shop", "Shop2", "Option"].map(|wanted| names.unique(wanted));
        assert_eq!(found, ["Shop", "Shop2", "Shop22", "Option2"]);
    }

    #[test]
    fn many_equal_names_take_little_time() {
        const COUNT: usize = 100_000;
        let mut names = Names::default();
        let last = (0..COUNT).map(|_| names.unique("Value")).last();
        assert_eq!(last, Some(format!("Value{COUNT}")));
    }
}
