use super::*;

/// Of each stage one, and of those that are locked.
static GATES: [FeatureGate; 6] = [
    gate("Early", FeatureStage::Alpha, false, None),
    gate("Frozen", FeatureStage::Beta, false, Some("its server part is missing")),
    gate("Late", FeatureStage::Beta, true, None),
    gate("Old", FeatureStage::Deprecated, true, None),
    gate("Stable", FeatureStage::Ga, true, Some("everything relies on it")),
    gate("Done", FeatureStage::Ga, true, None),
];

const fn gate(name: &'static str, stage: FeatureStage, default: bool, locked: Option<&'static str>) -> FeatureGate {
    FeatureGate { name, stage, default, locked, since: "0.1", description: "For a test." }
}

fn enabled(text: &str) -> Vec<&'static str> {
    let features = decide(&read(text, &GATES).expect(text), &GATES);
    features.states().iter().filter(|state| state.enabled).map(|state| state.gate.name).collect()
}

#[test]
fn what_is_said_of_a_gate_by_name_counts_more_than_what_is_said_of_its_stage() {
    for (text, wanted) in [
        ("", &["Late", "Old", "Stable", "Done"][..]),
        (" , ", &["Late", "Old", "Stable", "Done"]),
        ("Early=true,Late=false", &["Early", "Old", "Stable", "Done"]),
        (" Early = T , Old=0", &["Early", "Late", "Stable", "Done"]),
        ("Early=true,Early=false", &["Late", "Old", "Stable", "Done"]),
        ("AllAlpha=true", &["Early", "Late", "Old", "Stable", "Done"]),
        ("AllAlpha=true,Early=false", &["Late", "Old", "Stable", "Done"]),
        ("Early=false,AllAlpha=true", &["Late", "Old", "Stable", "Done"]),
        // The locked one of the stage stays as it is.
        ("AllBeta=true", &["Late", "Old", "Stable", "Done"]),
        ("AllBeta=false", &["Old", "Stable", "Done"]),
        ("AllBeta=false,Late=true", &["Late", "Old", "Stable", "Done"]),
        // To what it is locked to, a gate may be set.
        ("Stable=true,Frozen=false,Done=false", &["Late", "Old", "Stable"]),
    ] {
        assert_eq!(enabled(text), wanted, "{text:?}");
    }
}

#[test]
fn what_cannot_be_set_says_what_is_wrong_and_what_there_is() {
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
fn who_sets_a_gate_that_will_go_is_warned() {
    for (text, warned) in [
        ("", &[][..]),
        ("Early=true,Late=false,AllAlpha=true,AllBeta=true", &[]),
        ("Old=false", &["Old=false was set, which is deprecated"]),
        ("Stable=true,Done=false", &["Stable=true was set, which is generally available", "Done=false"]),
    ] {
        let features = decide(&read(text, &GATES).expect(text), &GATES);
        let warnings: Vec<_> = features.states().iter().filter_map(FeatureState::warning).collect();
        assert_eq!(warnings.len(), warned.len(), "{text:?}: {warnings:?}");
        for (warning, begin) in warnings.iter().zip(warned) {
            assert!(warning.starts_with(begin), "{warning}");
        }
    }
}

#[test]
fn the_figures_are_of_all_gates_and_of_those_that_stand_for_many() {
    let features = decide(&read("AllAlpha=true", &GATES).expect("right"), &GATES);
    let figures: Vec<_> = features.figures().map(|(name, stage, enabled)| (name, stage.label(), enabled)).collect();
    assert_eq!(figures[..3], [("AllAlpha", "ALPHA", true), ("AllBeta", "BETA", false), ("Early", "ALPHA", true)]);
    assert!(figures.contains(&("Stable", "", true)) && figures.len() == GATES.len() + 2, "{figures:?}");
}

#[test]
fn each_feature_is_at_its_place_in_the_table() {
    use Feature::{AutomaticExpectations, ColdCompression, ComparableResourceVersions, FairDispatch, WatchList};
    let all = [AutomaticExpectations, ColdCompression, ComparableResourceVersions, FairDispatch, WatchList];
    assert_eq!(all.map(|feature| format!("{feature:?}")), TABLE.each_ref().map(|gate| gate.name.to_owned()));
    assert!(all.iter().all(|feature| Features::default().enabled(*feature) == feature.gate().default));
    assert!(TABLE.is_sorted_by_key(|gate| gate.name));
}

#[test]
fn every_flag_that_was_given_counts_and_the_last_one_wins() {
    let wishes = |text: &str| text.parse::<Wishes>().expect(text);
    let features = Features::new([wishes("WatchList=true,FairDispatch=false"), wishes("FairDispatch=true")]);
    assert!(features.enabled(Feature::WatchList) && features.enabled(Feature::FairDispatch));
    assert!("WatchLst=true".parse::<Wishes>().expect_err("a typo").to_string().contains("WatchList"));
}
