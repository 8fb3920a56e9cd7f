//! One suite for plugins of every language: each SDK's probe gets the same input and must behave the same
//! (tests/conformance/README.md).
//!
//! The components are in `WINDLASS_CONFORMANCE_DIR`, by default target/conformance, where `make conformance` puts them.
//! `WINDLASS_CONFORMANCE=go,js` tests only these languages. The cases are data: tests/conformance/cases.

mod call;
mod case;
mod composing;
mod endings;
mod languages;
mod lasting;
mod lines;
mod ports;
mod relations;
mod spoiled;
mod values;
mod verdict;
mod webapps;
mod wire;

use case::{Case, cases};
use languages::{Language, Part, selected};
use verdict::Findings;

/// Runs `cases` with the probe of every selected language. Each call is made twice.
fn all(cases: &[Case]) {
    let mut findings = Findings::default();
    for language in selected(Part::Reconciler) {
        if let Err(found) = files(&language) {
            findings.add(&language, "every case", Err(found));
            continue;
        }
        for case in cases {
            findings.add(&language, &case.name, case.check(&language));
        }
    }
    findings.end();
}

fn files(language: &Language) -> Result<(), String> {
    language.plugin().map(drop)
}

#[test]
fn every_component_loads_and_describes_itself_alike() {
    let mut findings = Findings::default();
    for part in [Part::Reconciler, Part::Composer] {
        for language in selected(part) {
            findings.add(&language, "describe", files(&language).and_then(|()| language.check_manifest()));
        }
    }
    findings.end();
}

#[test]
fn reads() {
    all(&cases(include_str!("../../../../tests/conformance/cases/reads.json")));
}

#[test]
fn writes() {
    all(&cases(include_str!("../../../../tests/conformance/cases/writes.json")));
}

#[test]
fn the_remaining_imports_behave_alike_in_every_language() {
    all(&cases(include_str!("../../../../tests/conformance/cases/outside.json")));
}

#[test]
fn the_languages_own_facilities_work_within_a_call() {
    all(&cases(include_str!("../../../../tests/conformance/cases/language.json")));
}

#[test]
fn values_survive_a_round_trip() {
    all(&values::echoes());
    all(&values::texts());
}

#[test]
fn endings_of_calls() {
    all(&cases(include_str!("../../../../tests/conformance/cases/endings.json")));
}
