//! Parses label selectors like `k8s.io/apimachinery/pkg/labels`, with the same errors.

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object::{self, go, names};

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabelRequirement {
    key: String,
    test: LabelTest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LabelTest {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// The error for an invalid selector, in a real server's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LabelError {
    /// The list of requirements is malformed.
    #[error("found '{found}', expected: {expected}")]
    List { found: String, expected: &'static str },
    /// A requirement is malformed.
    #[error("unable to parse requirement: {0}")]
    Requirement(String),
}

impl LabelRequirement {
    pub(super) fn matches(&self, object: &Value) -> bool {
        let value = object::label(object, &self.key);
        let number = || value.and_then(|value| go::parse_int(value).ok());
        match &self.test {
            LabelTest::Exists => value.is_some(),
            LabelTest::Absent => value.is_none(),
            LabelTest::In(values) => value.is_some_and(|value| values.iter().any(|allowed| allowed == value)),
            LabelTest::NotIn(values) => value.is_none_or(|value| values.iter().all(|refused| refused != value)),
            LabelTest::Greater(bound) => number().is_some_and(|number| number > *bound),
            LabelTest::Less(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, LabelError> {
    let mut parser = SelectorParser { tokens: tokens(text), at: 0 };
    let mut requirements = Vec::new();
    let refuse =
        |found: SelectorToken<'_>, expected| Err(LabelError::List { found: found.text().to_owned(), expected });
    loop {
        match parser.peek() {
            SelectorToken::End => return Ok(requirements),
            SelectorToken::Word(_) | SelectorToken::Symbol("!") => {}
            found @ SelectorToken::Symbol(_) => return refuse(found, "!, identifier, or 'end of string'"),
        }
        requirements.push(parser.requirement().map_err(LabelError::Requirement)?);
        match parser.next() {
            SelectorToken::End => return Ok(requirements),
            SelectorToken::Symbol(",") => match parser.peek() {
                SelectorToken::Word(_) | SelectorToken::Symbol("!") => {}
                found => return refuse(found, "identifier after ','"),
            },
            found => return refuse(found, "',' or 'end of string'"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectorToken<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

impl<'a> SelectorToken<'a> {
    fn text(self) -> &'a str {
        match self {
            SelectorToken::Word(text) | SelectorToken::Symbol(text) => text,
            SelectorToken::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<SelectorToken<'_>> {
    let is_symbol = |character: char| "=!(),<>".contains(character);
    let is_space = |character: char| [' ', '\t', '\r', '\n'].contains(&character);
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("==") || rest.starts_with("!=") => 2,
            first if is_symbol(first) => 1,
            _ => rest.find(|character| is_symbol(character) || is_space(character)).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        found.push(if is_symbol(first) { SelectorToken::Symbol(token) } else { SelectorToken::Word(token) });
        rest = after.trim_start_matches(is_space);
    }
    found
}

struct SelectorParser<'a> {
    tokens: Vec<SelectorToken<'a>>,
    at: usize,
}

impl<'a> SelectorParser<'a> {
    fn peek(&self) -> SelectorToken<'a> {
        self.tokens.get(self.at).copied().unwrap_or(SelectorToken::End)
    }

    fn next(&mut self) -> SelectorToken<'a> {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let is_negated = self.peek() == SelectorToken::Symbol("!");
        if is_negated {
            self.next();
        }
        let key = match self.next() {
            SelectorToken::Word(key) => key.to_owned(),
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        names::check_label_key(&key).map_err(|why| Cause::invalid("<nil>", &json!(key), &why).to_string())?;
        let test = match self.peek() {
            _ if is_negated => LabelTest::Absent,
            SelectorToken::End | SelectorToken::Symbol(",") => LabelTest::Exists,
            _ => self.comparison(&key)?,
        };
        Ok(LabelRequirement { key, test })
    }

    fn comparison(&mut self, key: &str) -> Result<LabelTest, String> {
        let operator = self.next().text();
        let values = match operator {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | ">" | "<" => vec![self.value()?],
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        };
        let is_order = matches!(operator, ">" | "<");
        let mut causes = Vec::new();
        let mut bound = 0;
        for (index, value) in values.iter().enumerate() {
            match go::parse_int(value) {
                Ok(number) => bound = number,
                Err(_) if is_order => {
                    let why = "for 'Gt', 'Lt' operators, the value must be an integer";
                    causes.push(Cause::invalid(format!("values[{index}]"), &json!(value), why));
                }
                Err(_) => {}
            }
            if let Err(why) = names::check_label_value(value) {
                causes.push(Cause::invalid(format!("values[{index}][{key}]"), &json!(value), &why));
            }
        }
        if !causes.is_empty() {
            return Err(object::aggregate(&causes.iter().map(Cause::to_string).collect::<Vec<_>>()));
        }
        Ok(match operator {
            "notin" | "!=" => LabelTest::NotIn(values),
            ">" => LabelTest::Greater(bound),
            "<" => LabelTest::Less(bound),
            _ => LabelTest::In(values),
        })
    }

    /// Parses the value after `=`, `==` or `!=`. It may be empty.
    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            SelectorToken::End | SelectorToken::Symbol(",") => Ok(String::new()),
            SelectorToken::Word(value) => {
                self.next();
                Ok(value.to_owned())
            }
            SelectorToken::Symbol(found) => Err(format!("found '{found}', expected: identifier")),
        }
    }

    /// Parses the values in parentheses. They are sorted, without duplicates.
    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            SelectorToken::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = match self.peek() {
            SelectorToken::Symbol(")") => vec![String::new()],
            SelectorToken::Word(_) | SelectorToken::Symbol(",") => self.value_list()?,
            other => return Err(format!("found '{}', expected: ',', ')' or identifier", other.text())),
        };
        // Skips the closing parenthesis.
        self.next();
        values.sort();
        values.dedup();
        Ok(values)
    }

    /// Parses values separated by commas. An empty text before, between or after commas is a value, too.
    fn value_list(&mut self) -> Result<Vec<String>, String> {
        let mut values = Vec::new();
        loop {
            match self.next() {
                SelectorToken::Word(value) => {
                    values.push(value.to_owned());
                    match self.peek() {
                        SelectorToken::Symbol(",") => {}
                        SelectorToken::Symbol(")") => return Ok(values),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                SelectorToken::Symbol(",") => {
                    let next = self.peek();
                    if values.is_empty() || matches!(next, SelectorToken::Symbol("," | ")")) {
                        values.push(String::new());
                    }
                    if next == SelectorToken::Symbol(")") {
                        return Ok(values);
                    }
                }
                other => return Err(format!("found '{}', expected: ',', or identifier", other.text())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &Value) -> bool {
        let object = json!({ "metadata": { "labels": labels } });
        parse(selector).expect("the selector is valid").iter().all(|requirement| requirement.matches(&object))
    }

    #[test]
    fn the_whole_label_grammar_is_understood() {
        let labels = json!({ "app": "web", "tier": "front", "n": "5", "in": "in" });
        for selector in [
            "app=web",
            "app==web",
            " app = web ",
            "app!=db",
            "app in (web, db)",
            "app in (web,,)",
            "app notin (x,y),tier",
            "in in (in)",
            "!absent",
            "n>4,n<6",
            "gone!=x",
            "gone notin (x)",
            "app notin ()",
            "",
        ] {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in ["app=db", "app!=web", "app in (db)", "app notin (web)", "!app", "n>5", "absent", "app="] {
            assert!(!matches(selector, &labels), "{selector}");
        }
    }

    #[test]
    fn invalid_selectors_are_refused_with_a_real_servers_messages() {
        let operators = "expected: in, notin, =, ==, !=, gt, lt";
        for (selector, why) in [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("=1", "found '=', expected: !, identifier, or 'end of string'"),
            ("x,", "found '', expected: identifier after ','"),
            ("a,,b", "found ',', expected: identifier after ','"),
            ("x=1=2", "found '=', expected: ',' or 'end of string'"),
            ("!x=1", "found '=', expected: ',' or 'end of string'"),
            ("x=a b", "found 'b', expected: ',' or 'end of string'"),
            ("!", "unable to parse requirement: found '', expected: identifier"),
            ("x>=1", "unable to parse requirement: found '=', expected: identifier"),
            ("x in", "unable to parse requirement: found '' expected: '('"),
            ("x in 1", "unable to parse requirement: found '1' expected: '('"),
            ("x in (1", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("x in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
            ("x y", format!("unable to parse requirement: found 'y', {operators}").as_str()),
            ("x!", format!("unable to parse requirement: found '!', {operators}").as_str()),
            (
                "x>a",
                "unable to parse requirement: values[0]: Invalid value: \"a\": for 'Gt', 'Lt' operators, the value must be \
                 an integer",
            ),
        ] {
            assert_eq!(parse(selector).map_err(|error| error.to_string()), Err(why.to_owned()), "{selector}");
        }
        let key = parse("-x=1").expect_err("no key").to_string();
        assert!(key.starts_with("unable to parse requirement: <nil>: Invalid value: \"-x\": "), "{key}");
        let value = parse("x=-1").expect_err("no value").to_string();
        assert!(value.starts_with("unable to parse requirement: values[0][x]: Invalid value: \"-1\": "), "{value}");
    }
}
