//! Compiles Go's regular expressions with Rust's regex crate. Both come from RE2 and differ little: in Go, `\d`, `\w`,
//! `\s` and `\b` are ASCII-only, a brace that does not begin a repetition is a literal, and so are `[`, `&` and `~`
//! within brackets.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use regex::{Error, Regex, RegexBuilder};

/// A compiled `pattern` of a schema.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: String,
    regex: Regex,
}

/// Memory limits for a compiled pattern, tried in this order. Most patterns fit in the first, and a failed attempt
/// costs less than the next one. Go limits repetitions to 1000 instead. The last limit is large enough for that with
/// ASCII classes, and for a host name of letters of all scripts, with a class as large as `\p{L}` 200 times.
const STEPS: [usize; 6] = [16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

/// The compiled patterns of one definition. Each is compiled once, because a definition may repeat a pattern hundreds
/// of times, and a pattern takes about 10 KiB. Their total memory is limited, because the time of compiling is
/// proportional to it, and blocks other requests.
#[derive(Debug)]
pub(crate) struct PatternBudget {
    left: Cell<usize>,
    compiled: RefCell<HashMap<String, Arc<Pattern>>>,
}

impl PatternBudget {
    /// The total memory: enough for two thousand usual patterns, or for two of the largest.
    const COMPILED_PATTERN_BYTES_MAX: usize = 32 << 20;

    /// A new budget, of which nothing is used yet.
    pub(crate) fn full() -> Self {
        Self { left: Cell::new(Self::COMPILED_PATTERN_BYTES_MAX), compiled: RefCell::default() }
    }

    /// Compiles a pattern, or returns it if it was compiled before. The error is one line.
    pub(crate) fn pattern(&self, source: &str) -> Result<Arc<Pattern>, String> {
        if let Some(compiled) = self.compiled.borrow().get(source) {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(Pattern::parse(source, self)?);
        self.compiled.borrow_mut().insert(source.to_owned(), Arc::clone(&compiled));
        Ok(compiled)
    }
}

impl Pattern {
    fn parse(source: &str, budget: &PatternBudget) -> Result<Self, String> {
        let translated = from_go(source);
        for limit in STEPS {
            let Some(left) = budget.left.get().checked_sub(limit) else {
                // Uses up the budget. Otherwise the failed attempts with smaller limits would be free, again and again.
                budget.left.set(0);
                return Err("the patterns of this definition are too large in total".to_owned());
            };
            match RegexBuilder::new(&translated).size_limit(limit).build() {
                Ok(regex) => {
                    budget.left.set(left);
                    return Ok(Self { source: source.to_owned(), regex });
                }
                Err(Error::CompiledTooBig(_)) => {}
                Err(error) => return Err(error.to_string().lines().last().unwrap_or_default().to_owned()),
            }
        }
        // A pattern that fails to compile takes as long as one that fits the last limit.
        budget.left.update(|left| left.saturating_sub(STEPS[STEPS.len() - 1]));
        Err(format!("Compiled regex exceeds size limit of {} bytes.", STEPS[STEPS.len() - 1]))
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The pattern as its author wrote it.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }
}

/// Compiles a pattern that is used once, with the usual limit. The error is one line.
pub(crate) fn compile(source: &str) -> Result<Regex, String> {
    RegexBuilder::new(&from_go(source))
        .size_limit(STEPS[2])
        .build()
        .map_err(|error| error.to_string().lines().last().unwrap_or_default().to_owned())
}

fn from_go(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut in_brackets = false;
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '\\' => {
                let escape = escape(rest);
                out.push_str(ascii_class(escape, in_brackets).unwrap_or(escape));
                escape.len()
            }
            '[' if !in_brackets => {
                in_brackets = true;
                let opening = opening(rest);
                out.push_str(&opening.replace(']', "\\]"));
                opening.len()
            }
            // `[:alpha:]` has the same meaning in Go and Rust.
            '[' if rest.starts_with("[:") => match rest.find(":]") {
                Some(end) => {
                    let end = end + ":]".len();
                    out.push_str(rest.get(..end).unwrap_or_default());
                    end
                }
                None => escaped(next, &mut out),
            },
            '[' | '&' | '~' if in_brackets => escaped(next, &mut out),
            '{' if !in_brackets && !is_repetition(rest) => escaped(next, &mut out),
            other => {
                in_brackets &= other != ']';
                out.push(other);
                other.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}

/// The escape at the beginning of `rest`, such as `\d`, `\p{Greek}` or `\x{10FFFF}`.
fn escape(rest: &str) -> &str {
    let with_braces = ["\\p{", "\\P{", "\\x{"].into_iter().any(|start| rest.starts_with(start));
    let end = if with_braces { rest.find('}').map(|end| end + 1) } else { None };
    let end = end.or(rest.char_indices().nth(2).map(|(end, _)| end)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

fn escaped(character: char, out: &mut String) -> usize {
    out.push('\\');
    out.push(character);
    character.len_utf8()
}

/// The beginning of a bracket expression: an optional `^`, and an optional `]`, which is a literal there.
fn opening(rest: &str) -> &str {
    let openings = ["[^]", "[^", "[]", "["];
    openings.into_iter().find(|opening| rest.starts_with(opening)).unwrap_or_default()
}

fn ascii_class(escape: &str, in_brackets: bool) -> Option<&'static str> {
    match escape {
        "\\d" => Some("[0-9]"),
        "\\D" => Some("[^0-9]"),
        "\\w" => Some("[0-9A-Za-z_]"),
        "\\W" => Some("[^0-9A-Za-z_]"),
        "\\s" => Some("[\\t\\n\\f\\r ]"),
        "\\S" => Some("[^\\t\\n\\f\\r ]"),
        "\\b" if !in_brackets => Some("(?-u:\\b)"),
        _ => None,
    }
}

/// Whether a brace begins a repetition, such as `{2}`, `{2,}` or `{2,3}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inside, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_have_gos_meaning() {
        for (pattern, good, bad) in [
            (r"^\d+$", "12", "１２"),
            (r"^[\w.-]+$", "a_b.c-d", "é"),
            (r"^\s$", " ", "\u{a0}"),
            (r"^[^\d]$", "a", "1"),
            (r"^\${[a-z]+}$", "${a}", "$a"),
            (r"^a{2,3}$", "aa", "a"),
            (r"^{$", "{", "a"),
            (r"^[[]$", "[", "]"),
            (r"^[]a]$", "]", "["),
            (r"^[^]a]$", "[", "]"),
            (r"^[a&&b~]+$", "&~", "c"),
            (r"^[[:alpha:]_]+$", "a_", "1"),
            (r"^\/a\-b$", "/a-b", "ab"),
            (r"^\w+\b.*$", "a é", "é"),
            (r"^\p{Greek}\P{L}[\p{Lu}]{2}\x{41}$", "α1BCA", "a1BCA"),
        ] {
            let read = PatternBudget::full().pattern(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(read.matches(good), "{pattern} fits {good}");
            assert!(!read.matches(bad), "{pattern} does not fit {bad}");
            assert_eq!(read.source(), pattern);
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused_in_one_line() {
        for pattern in ["(", "[", "*a", r"\", "(?=a)", "((a{1000}){1000}){1000}"] {
            let error = PatternBudget::full().pattern(pattern).expect_err(pattern);
            assert!(!error.contains('\n') && !error.is_empty(), "{error}");
        }
    }

    /// An attacker sends 300 patterns that take nearly as much memory as a pattern may. Compiling all would take
    /// seconds.
    #[test]
    fn the_patterns_of_a_definition_are_bounded_together() {
        let budget = PatternBudget::full();
        let read = |source: &str| budget.pattern(source).is_ok();
        let usual = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$";
        let numbered = |number: usize| format!("{usual}{number}");
        assert!((0..128).all(|number| read(&numbered(number))), "a large definition, as they exist today");
        let large = |number: usize| format!(r"^[\pL]{{{}}}x$", 40 + number);
        let taken = (0..300).filter(|number| read(&large(*number))).count();
        assert!((2..=16).contains(&taken), "{taken}");
        assert!(read("^a$") || budget.left.get() < STEPS[0]);
        // Failed attempts use up the budget, too.
        let budget = PatternBudget::full();
        let vain = (0..300).map(|_| budget.pattern("((a{1000}){1000}){1000}").expect_err("too large"));
        assert_eq!(vain.filter(|error| error.contains("exceeds")).count(), 2);
    }

    /// Definitions of public projects have such patterns.
    #[test]
    fn host_names_in_all_scripts_fit_beside_other_patterns() {
        let budget = PatternBudget::full();
        let label = r"[0-9\p{L}\p{S}]([-0-9\p{L}\p{S}]{0,61}[0-9\p{L}\p{S}])?";
        let host = budget.pattern(&format!(r"^({label}\.)+{label}\.\p{{L}}{{2,63}}$")).expect("it fits");
        assert!(host.matches("läden.beispiel.straße") && !host.matches("läden..straße"));
        assert!(budget.pattern("^[a-z]{1,63}$").is_ok());
    }

    #[test]
    fn a_pattern_that_a_definition_repeats_is_compiled_once() {
        let budget = PatternBudget::full();
        let first = budget.pattern("^a$").expect("a pattern");
        let left = budget.left.get();
        let again = budget.pattern("^a$").expect("the same");
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(budget.left.get(), left);
    }

    proptest! {
        #[test]
        fn no_pattern_makes_it_panic(pattern in r"([\[\]^\\{}:&~,0-9dwé-]|.){0,12}") {
            let _read = PatternBudget::full().pattern(&pattern);
        }
    }
}
