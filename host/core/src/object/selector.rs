//! Label selectors in Kubernetes' syntax, evaluated in the host: `app=web,tier in (front,back),!canary,shard>3`.
//!
//! Implements the whole grammar of the API server's parser, its validity rules for keys and values, and its answers
//! for absent labels. `selector/label_selector.rs` reads selectors that are fields of objects,
//! `selector/field_selector.rs` reads field selectors, and `selector/parsed.rs` has the selectors of watches.

mod field_selector;
mod label_selector;
mod parsed;

use std::collections::BTreeSet;
use std::str::FromStr;

use crate::object::labels::Labels;

pub(crate) use self::field_selector::unescaped_field;
pub use self::field_selector::{FieldSelector, FieldSelectorError};
pub use self::label_selector::TEXT_REQUIREMENTS_MAX;
pub use self::parsed::ParsedSelector;

/// Why a text is not a label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text breaks the grammar at this place.
    #[error("in the label selector {selector:?}: expected {expected}, found {found}")]
    Syntax {
        selector: String,
        /// The text that would be valid there.
        expected: &'static str,
        /// The text found.
        found: String,
    },
    /// A key is not a qualified name.
    #[error(
        "in the label selector {selector:?}: {key:?} is not a label key (a name of at most 63 letters, digits, '-', '_' \
         and '.', after an optional DNS prefix and '/')"
    )]
    Key { selector: String, key: String },
    /// A value is not a label value, or not an integer where one is required.
    #[error("in the label selector {selector:?}: {value:?} is not {expected}")]
    Value {
        selector: String,
        value: String,
        /// The rule that it breaks.
        expected: &'static str,
    },
}

/// A parsed label selector. All requirements must hold. A selector without requirements matches
/// everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    /// Also holds if the label is absent.
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Whether `labels` meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels))
    }

    /// Whether the selector matches everything, because it requires nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The approximate memory that the selector occupies, in bytes.
    #[must_use]
    pub fn footprint(&self) -> usize {
        /// The memory that a text needs in addition to its bytes: its place in a set, and what the allocator needs.
        const TEXT_BYTES: usize = 2 * size_of::<String>() + 16;
        let texts = |values: &BTreeSet<String>| values.iter().map(|value| TEXT_BYTES + value.len()).sum::<usize>();
        let requirement = |Requirement { key, test }: &Requirement| {
            let values = match test {
                Test::In(values) | Test::NotIn(values) => texts(values),
                Test::Exists | Test::Absent | Test::Above(_) | Test::Below(_) => 0,
            };
            size_of::<Requirement>() + TEXT_BYTES + key.len() + values
        };
        size_of::<Self>() + self.requirements.iter().map(requirement).sum::<usize>()
    }

    /// A label that an object must have to match, and the values that it may have. If there are several such labels,
    /// this is the label with the fewest values. `None` if objects without any label may match.
    #[must_use]
    pub fn needed(&self) -> Option<(&str, impl Iterator<Item = &str>)> {
        let needed = self.requirements.iter().filter_map(|requirement| match &requirement.test {
            Test::In(values) => Some((&*requirement.key, values)),
            _ => None,
        });
        let (key, values) = needed.min_by_key(|(_, values)| values.len())?;
        Some((key, values.iter().map(String::as_str)))
    }
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.get(self.key.as_str()).map(|value| &**value);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Above(bound) => number().is_some_and(|number| number > *bound),
            Test::Below(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let mut parser = SelectorParser { text, tokens: tokens(text), next: 0 };
        let mut requirements = Vec::new();
        while parser.peek() != Token::End {
            requirements.push(parser.requirement()?);
            match parser.take() {
                Token::End => break,
                // A comma must be followed by another requirement.
                Token::Symbol(",") if parser.peek() != Token::End => {}
                Token::Symbol(",") => return Err(parser.unexpected("a label key after ','", Token::End)),
                other => return Err(parser.unexpected("',' or the end", other)),
            }
        }
        Ok(Self { requirements })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while !rest.is_empty() {
        let length = if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            symbol.len()
        } else {
            let ends = |c: char| c.is_whitespace() || "=!(),><".contains(c);
            let length = rest.find(ends).unwrap_or(rest.len());
            tokens.push(Token::Word(&rest[..length]));
            length
        };
        rest = rest[length..].trim_start();
    }
    tokens
}

struct SelectorParser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> SelectorParser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.peek() == Token::Symbol("!") {
            self.take();
            return Ok(Requirement { key: self.key()?, test: Test::Absent });
        }
        let key = self.key()?;
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let test = match self.take() {
            Token::Symbol("=" | "==") => Test::In(BTreeSet::from([self.value()?])),
            Token::Symbol("!=") => Test::NotIn(BTreeSet::from([self.value()?])),
            Token::Symbol(">") => Test::Above(self.bound()?),
            Token::Symbol("<") => Test::Below(self.bound()?),
            Token::Word("in") => Test::In(self.values()?),
            Token::Word("notin") => Test::NotIn(self.values()?),
            other => return Err(self.unexpected("an operator (=, ==, !=, in, notin, >, <)", other)),
        };
        Ok(Requirement { key, test })
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        match self.take() {
            Token::Word(key) if is_qualified_name(key) => Ok(key.to_owned()),
            Token::Word(key) => Err(SelectorError::Key { selector: self.text.to_owned(), key: key.to_owned() }),
            other => Err(self.unexpected("a label key", other)),
        }
    }

    /// Reads a value. An empty value consumes no token.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            Token::Word(value) => {
                self.take();
                self.checked(value)
            }
            Token::End | Token::Symbol("," | ")") => Ok(String::new()),
            other @ Token::Symbol(_) => Err(self.unexpected("a label value", other)),
        }
    }

    fn checked(&self, value: &str) -> Result<String, SelectorError> {
        if value.is_empty() || is_name(value) {
            return Ok(value.to_owned());
        }
        let expected = "a label value (at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends)";
        Err(SelectorError::Value { selector: self.text.to_owned(), value: value.to_owned(), expected })
    }

    fn bound(&mut self) -> Result<i64, SelectorError> {
        match self.take() {
            Token::Word(value) => value.parse().map_err(|_| SelectorError::Value {
                selector: self.text.to_owned(),
                value: value.to_owned(),
                expected: "an integer, which '>' and '<' need",
            }),
            other => Err(self.unexpected("an integer", other)),
        }
    }

    /// `(a,b,…)`; at least one value, each of which may be empty if there is a comma.
    fn values(&mut self) -> Result<BTreeSet<String>, SelectorError> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return Err(self.unexpected("'('", other)),
        }
        if self.peek() == Token::Symbol(")") {
            return Err(self.unexpected("a label value", Token::Symbol(")")));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            match self.take() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(self.unexpected("',' or ')'", other)),
            }
        }
    }

    fn unexpected(&self, expected: &'static str, found: Token<'_>) -> SelectorError {
        let found = match found {
            Token::Word(text) | Token::Symbol(text) => format!("{text:?}"),
            Token::End => "the end".to_owned(),
        };
        SelectorError::Syntax { selector: self.text.to_owned(), expected, found }
    }
}

/// At most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && alphanumeric(text.chars().next())
        && alphanumeric(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// A name after an optional DNS subdomain and a slash.
fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// At most 253 characters of lower-case DNS labels, joined by dots.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        selector.parse::<Selector>().expect("a selector").matches(&labels)
    }

    #[test]
    fn each_operator_matches_as_on_the_server() {
        let web = [("app", "web"), ("shard", "4"), ("empty", "")];
        let cases = [
            ("", true),
            ("  ", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("! other", true),
            ("app=web", true),
            ("app == web", true),
            ("app=api", false),
            ("app!=api", true),
            ("other!=x", true),
            ("app in (web, api)", true),
            ("app in(web)", true),
            ("app notin (web,api)", false),
            ("other notin (web)", true),
            ("other in (,x)", false),
            ("empty in (,x)", true),
            ("empty=", true),
            ("empty=,app=web", true),
            ("app=", false),
            ("shard>3", true),
            ("shard > 4", false),
            ("shard<5,shard>3", true),
            ("app>3", false),
            ("other<3", false),
            ("app=web,shard=4,!gone", true),
            ("app=web,shard=5", false),
        ];
        for (selector, expected) in cases {
            assert_eq!(matches(selector, &web), expected, "{selector}");
        }
    }

    #[test]
    fn keywords_can_be_keys_and_values() {
        assert!(matches("in in (in,notin)", &[("in", "notin")]));
        assert!(matches("notin", &[("notin", "")]));
        assert!(matches("example.com/app=in", &[("example.com/app", "in")]));
    }

    #[test]
    fn selectors_that_the_server_refuses_are_refused() {
        let wrong = [
            ",",
            "a,",
            "a,,b",
            "a b",
            "=a",
            "a in b",
            "a in ()",
            "a in (b",
            "a in",
            "a=b=c",
            "a===b",
            "a>x",
            "a>",
            "!",
            "!a=b",
            "a=b c",
            "-a",
            "a=-b",
            "Example.com/a",
            "a/b/c",
            "/a",
            "a/",
            "a=b/c",
            "a in (b c)",
            "(a)",
            "a!b",
        ];
        for selector in wrong {
            assert!(selector.parse::<Selector>().is_err(), "{selector}");
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let long = "a".repeat(64);
        assert!(long.parse::<Selector>().is_err());
        assert!(format!("a={long}").parse::<Selector>().is_err());
        assert!(format!("a={}", &long[1..]).parse::<Selector>().is_ok());
    }

    #[test]
    fn an_error_names_the_problem_and_its_place() {
        let error = "app in web".parse::<Selector>().expect_err("no parentheses");
        assert_eq!(error.to_string(), r#"in the label selector "app in web": expected '(', found "web""#);
    }
}
