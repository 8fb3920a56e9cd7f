use super::*;

/// One gate of each stage, and locked ones.
static GATES: [FeatureGate; 6] = [
    gate("Early", ALPHA),
    gate("Frozen", FROZEN),
    gate("Late", BETA),
    gate("Old", DEPRECATED),
    gate("Stable", LOCKED),
    gate("Done", GA),
];

/// Each gate needs the one before.
static CHAIN: [FeatureGate; 3] = [
    gate("Base", BETA),
    FeatureGate { needs: &["Base"], ..gate("Middle", BETA) },
    FeatureGate { needs: &["Middle"], ..gate("Top", ALPHA) },
];

const fn gate(name: &'static str, history: &'static [FeatureSpec]) -> FeatureGate {
    FeatureGate { name, history, needs: &[], description: "For a test." }
}

const fn spec(minor: u16, stage: FeatureStage, default: bool, locked: Option<&'static str>) -> FeatureSpec {
    FeatureSpec { since: (0, minor), stage, default, locked }
}

const ALPHA: &[FeatureSpec] = &[spec(1, FeatureStage::Alpha, false, None)];
const FROZEN: &[FeatureSpec] = &[spec(1, FeatureStage::Beta, false, Some("its server part is missing"))];
const BETA: &[FeatureSpec] = &[ALPHA_SPEC, spec(2, FeatureStage::Beta, true, None)];
const ALPHA_SPEC: FeatureSpec = spec(1, FeatureStage::Alpha, false, None);
const DEPRECATED: &[FeatureSpec] = &[spec(1, FeatureStage::Deprecated, true, None)];
const GA: &[FeatureSpec] =
    &[ALPHA_SPEC, spec(2, FeatureStage::Beta, true, None), spec(3, FeatureStage::Ga, true, None)];
const LOCKED: &[FeatureSpec] = &[spec(1, FeatureStage::Ga, true, Some("everything relies on it"))];

fn enabled(text: &str) -> Vec<&'static str> {
    let features = decided(text);
    features.states().iter().filter(|state| state.enabled).map(|state| state.gate.name).collect()
}

fn decided(text: &str) -> Features {
    decide(&read(text, &GATES).expect(text), &GATES).expect(text)
}

#[test]
fn a_wish_for_a_gate_wins_over_one_for_its_stage() {
    for (text, wanted) in [
        ("", &["Late", "Old", "Stable", "Done"][..]),
        (" , ", &["Late", "Old", "Stable", "Done"]),
        ("Early=true,Late=false", &["Early", "Old", "Stable", "Done"]),
        (" Early = T , Old=0", &["Early", "Late", "Stable", "Done"]),
        ("Early=true,Early=false", &["Late", "Old", "Stable", "Done"]),
        ("AllAlpha=true", &["Early", "Late", "Old", "Stable", "Done"]),
        ("AllAlpha=true,Early=false", &["Late", "Old", "Stable", "Done"]),
        ("Early=false,AllAlpha=true", &["Late", "Old", "Stable", "Done"]),
        // The locked gate of the stage stays as it is.
        ("AllBeta=true", &["Late", "Old", "Stable", "Done"]),
        ("AllBeta=false", &["Old", "Stable", "Done"]),
        ("AllBeta=false,Late=true", &["Late", "Old", "Stable", "Done"]),
        // A locked gate may be set to its locked value.
        ("Stable=true,Frozen=false,Done=false", &["Late", "Old", "Stable"]),
    ] {
        assert_eq!(enabled(text), wanted, "{text:?}");
    }
}

#[test]
fn errors_explain_the_problem_and_list_the_gates() {
    for (text, words) in [
        ("Early", &["\"Early\" has no value", "Early=true"][..]),
        ("Late=false,Early", &["\"Early\" has no value"]),
        ("Early=yes", &["Early=yes", "neither true nor false"]),
        ("Early=", &["neither true nor false"]),
        ("early=true", &["no feature gate \"early\"", "AllAlpha, AllBeta, Early, Frozen, Late"]),
        ("=true", &["no feature gate \"\""]),
        ("Stable=false", &["Stable cannot be false", "locked to true", "everything relies on it"]),
        ("Frozen=true", &["Frozen cannot be true", "locked to false", "its server part is missing"]),
    ] {
        let error = read(text, &GATES).expect_err(text).to_string();
        for word in words {
            assert!(error.contains(word), "{word:?} is not in {error:?}, for {text:?}");
        }
    }
}

#[test]
fn setting_a_gate_that_will_be_removed_warns() {
    for (text, warned) in [
        ("", &[][..]),
        ("Early=true,Late=false,AllAlpha=true,AllBeta=true", &[]),
        ("Old=false", &["Old=false was set, which is deprecated"]),
        ("Stable=true,Done=false", &["Stable=true was set, which is generally available", "Done=false"]),
    ] {
        let features = decided(text);
        let warnings: Vec<_> = features.states().iter().filter_map(FeatureState::warning).collect();
        assert_eq!(warnings.len(), warned.len(), "{text:?}: {warnings:?}");
        for (warning, begin) in warnings.iter().zip(warned) {
            assert!(warning.starts_with(begin), "{warning}");
        }
    }
}

#[test]
fn the_figures_include_the_gates_for_whole_stages() {
    let features = decided("AllAlpha=true");
    let figures: Vec<_> = features.figures().map(|(name, stage, enabled)| (name, stage.label(), enabled)).collect();
    assert_eq!(figures[..3], [("AllAlpha", "ALPHA", true), ("AllBeta", "BETA", false), ("Early", "ALPHA", true)]);
    assert!(figures.contains(&("Stable", "", true)) && figures.len() == GATES.len() + 2, "{figures:?}");
}

#[test]
fn each_feature_is_at_its_place_in_the_table() {
    let all = [
        Feature::AutomaticExpectations,
        Feature::ColdCompression,
        Feature::ComparableResourceVersions,
        Feature::FairDispatch,
        Feature::FreshnessProof,
        Feature::SavedCalls,
        Feature::WatchList,
    ];
    assert_eq!(all.map(|feature| format!("{feature:?}")), TABLE.each_ref().map(|gate| gate.name.to_owned()));
    assert!(all.iter().all(|feature| Features::default().enabled(*feature) == feature.gate().spec().default));
    assert!(TABLE.is_sorted_by_key(|gate| gate.name));
}

#[test]
fn every_flag_that_was_given_counts_and_the_last_one_wins() {
    let wishes = |text: &str| text.parse::<Wishes>().expect(text);
    let features =
        Features::new([wishes("WatchList=true,FairDispatch=false"), wishes("FairDispatch=true")]).expect("they agree");
    assert!(features.enabled(Feature::WatchList) && features.enabled(Feature::FairDispatch));
    assert!("WatchLst=true".parse::<Wishes>().expect_err("a typo").to_string().contains("WatchList"));
}

#[test]
fn a_gate_is_off_without_what_it_needs_and_cannot_be_enabled() {
    let decided = |text: &str| decide(&read(text, &CHAIN).expect(text), &CHAIN);
    let enabled = |text: &str| decided(text).expect(text).states.iter().map(|state| state.enabled).collect::<Vec<_>>();
    assert_eq!(enabled(""), [true, true, false]);
    assert_eq!(enabled("Top=true"), [true, true, true]);
    assert_eq!(enabled("Base=false"), [false, false, false]);
    assert_eq!(enabled("Base=false,AllAlpha=true"), [false, false, false], "it is not named");
    for (text, words) in [
        ("Base=false,Middle=true", "Middle cannot be true without Base: set Base=true as well"),
        ("Middle=false,Top=true", "Top cannot be true without Middle"),
        ("Base=false,Top=true", "Top cannot be true without Middle"),
    ] {
        let error = decided(text).expect_err(text).to_string();
        assert!(error.contains(words), "{text:?}: {error}");
    }
}

#[test]
fn the_last_entry_of_a_history_counts_and_versions_ascend() {
    let stage = |name: &str| GATES.iter().find(|gate| gate.name == name).expect(name).spec().stage;
    assert_eq!([stage("Late"), stage("Done")], [FeatureStage::Beta, FeatureStage::Ga]);
    let own: Vec<u16> = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().expect("a number")).collect();
    for gate in &TABLE {
        assert!(gate.history.is_sorted_by(|earlier, later| earlier.since < later.since), "{}", gate.name);
        assert!(gate.spec().since <= (own[0], own[1]), "{} comes from the future", gate.name);
        let mut needed = gate.needs.iter().map(|name| TABLE.iter().find(|gate| gate.name == *name));
        assert!(
            needed.all(|needed| needed.is_some_and(|it| it.spec().default || !gate.spec().default)),
            "{}",
            gate.name
        );
    }
}
