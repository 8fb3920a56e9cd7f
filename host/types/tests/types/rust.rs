//! The types in Rust. The compiler of this test checks that they are valid.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use windlass_types::{Language, generate};

use crate::dice::Dice;
use crate::generated::{self, IntOrString};
use crate::kinds::{self, Tested};

const GENERATED: &str = "tests/types/generated.rs";

#[test]
fn the_generated_types_are_up_to_date() {
    let (model, _) = kinds::own();
    let expected = generate(Language::Rust, &model, "");
    if std::env::var_os("WINDLASS_WRITE_GENERATED").is_some() {
        std::fs::write(GENERATED, &expected).expect("it can be written");
    }
    let found = std::fs::read_to_string(GENERATED).expect("it can be read");
    assert!(found == expected, "{GENERATED} is out of date: run this test with WINDLASS_WRITE_GENERATED=1");
}

fn through<T: Serialize + DeserializeOwned>(object: &Value) -> Value {
    let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object:#}"));
    serde_json::to_value(typed).expect("it is JSON")
}

fn by_kind(name: &str, object: &Value) -> Value {
    macro_rules! of_kinds {
        ($($kind:ident),* $(,)?) => {
            match name {
                $(stringify!($kind) => through::<generated::$kind>(object),)*
                _ => panic!("no type for {name}"),
            }
        };
    }
    of_kinds![
        Database,
        Certificate,
        Route,
        Workflow,
        ApiSchema,
        Release,
        Rule,
        Template,
        Scaler,
        Probe,
        Alert,
        AlertSpec2,
        AlertSpec,
        Topic,
        Option2,
        Bucket,
        SecretSync,
        Rollout,
        Tenant,
        Experiment,
        Widget,
        WidgetV1beta1,
    ]
}

proptest! {
    #[test]
    fn a_round_trip_through_rust_loses_nothing(seed: u64) {
        let (model, found) = cached();
        for kind in found {
            let object = Dice::new(model, seed).object(kind);
            let read = by_kind(&kind.type_name, &object);
            prop_assert!(object == read, "{:#}\nbecame {:#}", object, read);
        }
    }
}

fn cached() -> &'static Tested {
    static CACHED: LazyLock<Tested> = LazyLock::new(kinds::own);
    &CACHED
}

#[test]
fn a_missing_field_has_its_default() {
    let spec: generated::DatabaseSpec = serde_json::from_value(json!({"storage": {"size": "1Gi"}})).expect("valid");
    assert_eq!((spec.replicas(), spec.paused(), spec.image()), (3, false, "postgres:17"));
    let backup: generated::DatabaseSpecBackup = serde_json::from_value(json!({"schedule": "@daily"})).expect("valid");
    assert_eq!(backup.method(), generated::DatabaseSpecBackupMethod::Barman);
    let rollout = generated::RolloutSpec::default();
    assert_eq!(rollout.max_surge(), IntOrString::String("25%".to_owned()));
    assert_eq!(rollout.max_unavailable().to_string(), "0");
}

#[test]
fn an_unknown_value_of_an_enumeration_is_kept() {
    let status: generated::CertificateSpecPrivateKeyAlgorithm = serde_json::from_value(json!("ML-DSA")).expect("valid");
    assert_eq!(status, generated::CertificateSpecPrivateKeyAlgorithm::Other("ML-DSA".to_owned()));
}

#[test]
fn a_number_keeps_its_form_and_its_digits() {
    for text in ["0", "1", "-2", "1.0", "1.5", "9007199254740993", "-9223372036854775808", "1e300"] {
        let value: Value = serde_json::from_str(text).expect("JSON");
        let object = json!({"factor": value, "limits": [value], "threshold": value});
        assert_eq!(through::<generated::ScalerSpec>(&object), object);
    }
    assert_eq!(generated::Number::from(2.0), generated::Number::Int(2));
    assert_eq!(generated::ScalerSpec::default().factor().as_f64().to_string(), "1.5");
}
