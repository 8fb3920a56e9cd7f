//! The names of bounds: constants and statics that contain a number, a time, a period, a backoff, or a list of times.
//!
//! A reader of `LIMIT` or `PATIENCE` must look up what it limits. So each name has only one value in all Rust code of
//! the checkout, including tests, and no name may describe only a size or a mood. The same bound may be defined in
//! several crates, with the same value.
//!
//! Constants of other types are exempt, and so are lists of numbers, which are tables. Texts such as `KIND` or
//! `API_VERSION` are read in the context of their module. `ALL` of an enum lists that enum's variants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::source::Source;

/// Names that do not say what they bound.
const VAGUE: [&str; 37] = [
    "AGAIN",
    "ATTEMPTS",
    "AT_ONCE",
    "BATCH",
    "BUDGET",
    "BURST",
    "CALLS",
    "DELAY",
    "ENOUGH",
    "FEW",
    "HEALTHY",
    "LARGE",
    "LARGEST",
    "LEAST",
    "LIMIT",
    "LONG",
    "LONGEST",
    "LOOK_AGAIN",
    "MANY",
    "MOST",
    "MOST_BYTES",
    "NEVER",
    "PATIENCE",
    "PAUSE",
    "PAUSES",
    "POLICY",
    "QUIET",
    "RATIO",
    "RECENT",
    "RETRIES",
    "SHORT",
    "SHORTEST",
    "SOON",
    "TIME",
    "TIMEOUT",
    "TOGETHER",
    "WINDOW",
];

/// First words of names that should end with `_MAX` or `_MIN` instead.
const DEGREES: [&str; 6] = ["LEAST", "LONG", "LONGEST", "MOST", "SHORT", "SHORTEST"];

/// A constant or static that contains a number, a time, a period, a backoff, or a list of times.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) name: String,
    /// The type and value, in a normal form.
    pub(crate) value: String,
    /// `path:line: text`.
    pub(crate) place: String,
}

/// The bounds that a source defines, including those in its tests, functions and types.
pub(crate) fn bounds(source: &Source) -> Vec<Bound> {
    static CONSTANT: LazyLock<Regex> = LazyLock::new(|| {
        let (kind, name) = (r"\b(?:const|static(?:\s+mut)?)", "([A-Z][A-Z0-9_]*)");
        let of_type = r"(\[[^\[\]]*\]|[^=;{}]+?)";
        Regex::new(&format!(r"{kind}\s+{name}\s*:\s*{of_type}\s*=\s*([^;]+);")).expect("it is one")
    });
    static SEPARATOR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"([0-9a-f])_([0-9a-f])").expect("it is one"));
    let code = source.code_with_tests();
    let constants =
        CONSTANT.captures_iter(&code).map(|found| (found.get(1).map_or(0, |it| it.start()), found.extract()));
    let bounds = constants.filter(|(_, (_, [_, of_type, _]))| is_of_a_bound(of_type));
    let named = bounds.map(|(at, (_, [name, of_type, value]))| {
        let value: String = value.split_whitespace().collect();
        let ungrouped = SEPARATOR.replace_all(&value, "$1$2");
        Bound {
            name: name.to_owned(),
            value: format!("{of_type} = {}", SEPARATOR.replace_all(&ungrouped, "$1$2")),
            place: source.place(at),
        }
    });
    named.collect()
}

/// Whether a type is a number, a time, a period or a backoff; a range, tuple or option of these; or an array of times.
fn is_of_a_bound(of_type: &str) -> bool {
    const TIME_TYPES: &str = "Duration|SignedDuration|Period|RetryPolicy";
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:\w+::)*(\w+)").expect("it is one"));
    static BOUND: LazyLock<Regex> = LazyLock::new(|| {
        let number = r"[iu](?:8|16|32|64|128|size)|f32|f64|NonZero\w*";
        Regex::new(&format!("^(?:{number}|{TIME_TYPES}|Option|Range|RangeInclusive|LazyLock)$")).expect("it is one")
    });
    static TIMES: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!(r"^\[(?:\w+::)*(?:{TIME_TYPES})\s*;")).expect("it is one"));
    let is_made_of_bounds =
        || !of_type.contains(['&', '[']) && NAME.captures_iter(of_type).all(|name| BOUND.is_match(&name[1]));
    TIMES.is_match(of_type) || is_made_of_bounds()
}

/// Names with more than one value.
pub(crate) fn with_two_values(bounds: &[Bound]) -> Vec<String> {
    let mut named: BTreeMap<&str, Vec<&Bound>> = BTreeMap::new();
    for bound in bounds {
        named.entry(&bound.name).or_default().push(bound);
    }
    let values = |bounds: &[&Bound]| bounds.iter().map(|it| it.value.as_str()).collect::<BTreeSet<_>>().len();
    let several = named.into_iter().filter(|(_, bounds)| values(bounds) > 1);
    let described = several.map(|(name, bounds)| {
        let places: Vec<_> = bounds.into_iter().map(|it| it.place.as_str()).collect();
        format!("`{name}` has several values:\n    {}", places.join("\n    "))
    });
    described.collect()
}

/// Bounds whose names do not say what they bound, or do not follow the pattern of the others, such as `MOST_KEYS`
/// instead of `KEYS_MAX`.
pub(crate) fn vague(bounds: &[Bound]) -> Vec<String> {
    let begins_with_degree = |name: &str| DEGREES.iter().any(|degree| name.split('_').next() == Some(degree));
    let is_vague = |name: &str| VAGUE.contains(&name) || begins_with_degree(name);
    bounds.iter().filter(|it| is_vague(&it.name)).map(|it| it.place.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String)> {
        bounds(&Source::new("a.rs", text)).into_iter().map(|it| (it.name, it.value)).collect()
    }

    fn two_values(files: &[(&str, &str)]) -> Vec<String> {
        let all: Vec<_> = files.iter().flat_map(|(path, text)| bounds(&Source::new(*path, *text))).collect();
        with_two_values(&all)
    }

    #[test]
    fn numbers_times_and_backoffs_are_bounds_at_any_place() {
        let text = "pub(crate) const A: usize = 1 << 20;\n/// const B: u8 = 1;\nimpl X { const C: std::time::Duration =\n    \
            Duration::from_secs(5); }\n#[cfg(test)] mod tests { fn f() { const D: (usize, Option<u32>) = (1, None); } }\n\
            const E: &str = \"const F: u8 = 2;\"; const G: [u8; 2] = [1, 2]; const H: Self = Self(1);\n\
            const fn i(j: u8) -> u8 { j }\nstruct K<const N: usize>; trait L { const M: u8; } const O: RetryPolicy = P;";
        let names = found(text).into_iter().map(|(name, _)| name).collect::<String>();
        assert_eq!(names, "ACDO");
        let wrapped = "std::time::Duration = Duration::from_secs(5)";
        assert_eq!(found(text)[1].1, wrapped);
    }

    #[test]
    fn statics_periods_and_lists_of_times_are_bounds() {
        let text = "static A: u32 = 1; static mut B: u8 = 1; static C: LazyLock<Duration> = LazyLock::new(f);\n\
            const D: Period = Period::sliding(T); const E: [std::time::Duration; 2] =\n    [T, T];\n\
            static F: AtomicU64 = AtomicU64::new(0); const G: [(Duration, u64); 1] = [(T, 1)]; const H: [f64; 1] = [1.0];";
        let names = found(text).into_iter().map(|(name, _)| name).collect::<String>();
        assert_eq!(names, "ABCDE");
    }

    #[test]
    fn a_name_with_two_values_is_reported_with_its_places() {
        let injected = [
            ("a.rs", "const PAGE_MAX: usize = 5;\nconst OTHER_MAX: u8 = 1;"),
            ("b.rs", "\n#[cfg(test)] mod t { const PAGE_MAX: usize = 6; }"),
        ];
        let expected = "`PAGE_MAX` has several values:\n    a.rs:1: const PAGE_MAX: usize = 5;\n    \
            b.rs:2: #[cfg(test)] mod t { const PAGE_MAX: usize = 6; }";
        assert_eq!(two_values(&injected), [expected]);
        assert_eq!(two_values(&[("a.rs", "const A: u8 = 1;"), ("b.rs", "const A: u16 = 1;")]).len(), 1, "another type");
    }

    #[test]
    fn one_value_may_be_written_in_two_ways() {
        let same = [("a.rs", "const A: usize = 1_048_576;"), ("b.rs", "const A: usize =\n    1048576;")];
        assert_eq!(two_values(&same), [""; 0]);
        assert_eq!(
            two_values(&[("a.rs", "const KIND: &str = \"A\";"), ("b.rs", "const KIND: &str = \"B\";")]),
            [""; 0]
        );
    }

    #[test]
    fn vague_names_of_bounds_are_reported() {
        let text = "const LIMIT: u8 = 1;\nconst RATE_LIMIT: u8 = 1;\nconst MOST: &str = \"a\";\nconst MOST_KEYS: u8 = 1;\n\
            const MOSTLY_MAX: u8 = 1;";
        let expected = ["a.rs:1: const LIMIT: u8 = 1;", "a.rs:4: const MOST_KEYS: u8 = 1;"];
        assert_eq!(vague(&bounds(&Source::new("a.rs", text))), expected);
    }
}
