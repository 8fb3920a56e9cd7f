//! The names of types. A name has one meaning, or two if they are the two sides of a crate's boundary.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::modules::Crate;
use crate::source::Source;

/// The most crates that may define the same name.
const NAMING_CRATES_MAX: usize = 2;

/// A type's definition.
pub(crate) struct Definition {
    pub(crate) name: String,
    /// `path:line: text`.
    pub(crate) place: String,
}

/// The types that a source defines: structs, enums, unions, traits and aliases, but not the associated types of a
/// trait.
pub(crate) fn definitions(source: &Source) -> Vec<Definition> {
    static TYPE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:^|\]|\n|\s)(?:struct|enum|union|trait|type)\s+([A-Z]\w*)").expect("it is one")
    });
    static OF_A_TRAIT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|\]|\s)(?:impl\b|trait\s)").expect("it is one"));
    let statements = source.statements();
    let free = statements.iter().filter(|it| !it.within.last().is_some_and(|around| OF_A_TRAIT.is_match(around)));
    let found = free.filter_map(|it| Some((it, TYPE.captures(it.head)?.get(1)?)));
    found
        .map(|(it, name)| Definition { name: name.as_str().to_owned(), place: source.place(it.at + name.start()) })
        .collect()
}

/// Names that a crate defines twice.
pub(crate) fn twice_in_a_crate(of: &Crate) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for definition in of.modules.values().flat_map(|module| definitions(&module.source)) {
        places.entry(definition.name).or_default().push(definition.place);
    }
    places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| description(&name, &places))
        .collect()
}

/// Names that more than two crates define, although a boundary has only two sides.
pub(crate) fn in_many_crates(crates: &[&Crate]) -> Vec<String> {
    let mut places: BTreeMap<String, BTreeMap<&str, String>> = BTreeMap::new();
    for of in crates {
        for definition in of.modules.values().flat_map(|module| definitions(&module.source)) {
            places.entry(definition.name).or_default().entry(&of.folder).or_insert(definition.place);
        }
    }
    let many = places.into_iter().filter(|(_, places)| places.len() > NAMING_CRATES_MAX);
    many.map(|(name, places)| description(&name, &places.into_values().collect::<Vec<_>>())).collect()
}

fn description(name: &str, places: &[String]) -> String {
    format!("`{name}` is defined {} times:\n    {}", places.len(), places.join("\n    "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        definitions(&Source::new("a.rs", text)).into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn types_are_found_after_any_modifiers() {
        let text = "pub(crate) struct A;\n#[derive(X)] enum B { C }\n/// d\nunsafe trait E { type F; const G: u8; }\n\
            type H<T> = Vec<T>;\nimpl I for J { type K = u8; fn f() { struct L(u8); } }\nfn g(structure: u8) {}\n\
            #[cfg(test)] struct M;";
        assert_eq!(names(text), ["A", "B", "E", "H", "L"]);
    }

    #[test]
    fn a_name_defined_twice_in_a_crate_is_reported_with_its_places() {
        let files =
            [("lib.rs", "mod a; mod b;\nstruct A;"), ("a.rs", "struct B;"), ("b.rs", "\nenum B {}\ntype C = u8;")];
        let expected = "`B` is defined 2 times:\n    src/a.rs:1: struct B;\n    src/b.rs:2: enum B {}";
        assert_eq!(twice_in_a_crate(&Crate::of(&files)), [expected]);
    }

    #[test]
    fn two_crates_may_share_a_name_and_three_may_not() {
        let [a, b, mut c] = ["a", "b", "c"].map(|folder| Crate {
            folder: folder.to_owned(),
            ..Crate::of(&[("lib.rs", "struct A; struct B; struct C;")])
        });
        assert_eq!(in_many_crates(&[&a, &b]), [""; 0]);
        c.modules = Crate::of(&[("lib.rs", "struct B;")]).modules;
        let found = in_many_crates(&[&a, &b, &c]);
        assert!(found.len() == 1 && found[0].starts_with("`B` is defined 3 times:"), "{found:?}");
    }
}
