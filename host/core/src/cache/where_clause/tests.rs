use serde_json::json;

use super::*;

fn clause(conditions: &Value) -> WhereClause {
    let conditions: Vec<WhereCondition> = serde_json::from_value(conditions.clone()).expect("conditions");
    WhereClause::new(&conditions).expect("at least one")
}

fn error(condition: &Value) -> String {
    serde_json::from_value::<WhereCondition>(condition.clone()).expect_err("it must be refused").to_string()
}

#[test]
fn a_test_compares_values_of_the_same_type() {
    let body = json!({
        "metadata": {"annotations": {"a.dev/x~y": "true", "empty": ""}},
        "spec": {"type": "LoadBalancer", "replicas": 3, "ratio": 1.0, "paused": true, "none": null, "list": ["a", "b"],
            "ports": [{"name": "web"}, {"port": 80}], "big": 9_007_199_254_740_993_u64},
    });
    for (condition, expected) in [
        (json!({"annotation": "a.dev/x~y", "is": "true"}), true),
        (json!({"annotation": "a.dev/x~y", "is": "True"}), false),
        (json!({"annotation": "a.dev", "exists": true}), false),
        (json!({"annotation": "empty", "exists": true}), true),
        (json!({"annotation": "empty", "is": ""}), true),
        (json!({"annotation": "missing", "is": ""}), false),
        (json!({"annotation": "missing", "notIn": ["x"]}), true),
        (json!({"annotation": "empty", "notIn": ["", "x"]}), false),
        (json!({"field": "/metadata/annotations/a.dev~1x~0y", "in": ["no", "true"]}), true),
        (json!({"field": "/spec/type", "in": ["NodePort", "LoadBalancer"]}), true),
        (json!({"field": "/spec/type", "in": []}), false),
        (json!({"field": "/spec/type", "notIn": []}), true),
        (json!({"field": "/spec/replicas", "is": 3}), true),
        (json!({"field": "/spec/replicas", "is": 3.0}), true),
        (json!({"field": "/spec/replicas", "is": "3"}), false),
        (json!({"field": "/spec/ratio", "is": 1}), true),
        (json!({"field": "/spec/big", "is": 9_007_199_254_740_992_u64}), false),
        (json!({"field": "/spec/paused", "is": true}), true),
        (json!({"field": "/spec/paused", "is": "true"}), false),
        (json!({"field": "/spec/none", "exists": true}), false),
        (json!({"field": "/spec/none", "exists": false}), true),
        (json!({"field": "/spec/missing/deeper", "exists": false}), true),
        (json!({"field": "/spec/list", "is": "a"}), false),
        (json!({"field": "/spec/list/*", "is": "b"}), true),
        (json!({"field": "/spec/list/1", "is": "b"}), true),
        (json!({"field": "/spec/list/01", "exists": true}), false),
        (json!({"field": "/spec/ports/*/name", "is": "web"}), true),
        (json!({"field": "/spec/ports/*/name", "notIn": ["web"]}), false),
        (json!({"field": "/spec/ports/*/host", "exists": true}), false),
    ] {
        assert_eq!(clause(&json!([condition])).admits(&body), expected, "{condition}");
    }
}

#[test]
fn all_conditions_must_hold_and_one_alternative_is_enough() {
    let any = json!({"any": [{"annotation": "a", "exists": true}, {"annotation": "b", "is": "1"}]});
    let both = clause(&json!([any, {"field": "/type", "is": "Opaque"}]));
    let admits =
        |annotations: Value, kind: &str| both.admits(&json!({"metadata": {"annotations": annotations}, "type": kind}));
    assert!(admits(json!({"a": ""}), "Opaque") && admits(json!({"b": "1"}), "Opaque"));
    assert!(
        !admits(json!({"b": "2"}), "Opaque") && !admits(json!({"a": ""}), "other") && !admits(json!(null), "Opaque")
    );
    assert!(!clause(&json!([{"any": []}])).admits(&json!({})), "no alternative holds");
}

#[test]
fn an_object_that_is_deleted_with_the_kept_finalizer_stays() {
    let clause = clause(&json!([{"annotation": "a", "is": "1"}])).keeping("windlass.dev/x");
    let object = |finalizers: Value, deleted: Value| json!({"metadata": {"finalizers": finalizers, "deletionTimestamp": deleted}});
    assert!(clause.admits(&object(json!(["y", "windlass.dev/x"]), json!("2026-01-01T00:00:00Z"))));
    assert!(!clause.admits(&object(json!(["windlass.dev/x"]), json!(null))), "it is not being deleted");
    assert!(!clause.admits(&object(json!(["windlass.dev/xy"]), json!("2026-01-01T00:00:00Z"))));
    assert_ne!(clause, clause.without_finalizer());
}

#[test]
fn a_condition_with_too_much_or_too_little_is_refused() {
    let subject = "needs exactly one of `annotation`, `field` and `any`";
    let wanted = "needs exactly one of `is`, `in`, `notIn` and `exists`";
    for (condition, expected) in [
        (json!({"is": "1"}), subject),
        (json!({"annotation": "a", "field": "/b", "is": "1"}), subject),
        (json!({"annotation": "a", "any": []}), subject),
        (json!({"annotation": "a"}), wanted),
        (json!({"annotation": "a", "is": null}), wanted),
        (json!({"field": "/a", "is": "1", "exists": true}), wanted),
        (json!({"any": [{"annotation": "a", "is": "1"}], "exists": true}), "must be the only field"),
        (json!({"any": [{"any": []}]}), "put all conditions into one list"),
        (json!({"field": "/a", "in": [null]}), "null is the same as absent"),
        (json!({"field": "/a", "is": {"b": 1}}), "a text, a number or a boolean"),
        (json!({"label": "a", "is": "1"}), "unknown field `label`"),
    ] {
        let error = error(&condition);
        assert!(error.contains(expected), "{condition}: {error}");
    }
}

#[test]
fn a_clause_says_what_it_reads_and_whether_metadata_are_enough() {
    let clause = |field: &str| clause(&json!([{"annotation": "a/b", "is": "1"}, {"field": field, "exists": true}]));
    let reads = ["/metadata/annotations/a~1b", "/spec/type"];
    assert_eq!(clause("/spec/type").pointers(), reads);
    assert!(!clause("/spec/type").reads_metadata_only() && !clause("/metadataX").reads_metadata_only());
    assert!(clause("/metadata/name").keeping("f").reads_metadata_only());
}

#[test]
fn a_clause_is_printed_in_words() {
    let clause = clause(&json!([
        {"annotation": "a", "is": "x\u{202e}"},
        {"any": [{"field": "/b", "in": [1, true]}, {"field": "/c", "exists": false}]},
        {"annotation": "d", "notIn": ["e"]},
    ]));
    let expected =
        r#"annotation "a" is "x\u{202e}" and ("/b" in [1, true] or "/c" is absent) and annotation "d" not in ["e"]"#;
    assert_eq!(clause.to_string(), expected);
    assert_eq!(clause.keeping("f").to_string(), format!("{expected}, or deleted with the finalizer \"f\""));
}

#[test]
fn one_of_several_wanted_values_is_found_as_each_alone_is() {
    let numbers = [
        "0",
        "-0.0",
        "1",
        "1.0",
        "-1",
        "1e0",
        "1.5",
        "9007199254740992",
        "9007199254740993",
        "9007199254740992.0",
        "18446744073709551615",
        "-9223372036854775808",
        "1e300",
    ];
    let others = ["true", "false", "\"1\"", "\"\"", "\"true\"", "[]", "{}", "null"];
    let values: Vec<Value> =
        numbers.iter().chain(&others).map(|text| serde_json::from_str(text).expect("JSON")).collect();
    let admits =
        |wanted: &Value, found: &Value| clause(&json!([{"field": "/a", "in": wanted}])).admits(&json!({"a": found}));
    for wanted in values.iter().take(numbers.len() + 5) {
        for found in &values {
            let alone = admits(&json!([wanted]), found);
            assert_eq!(admits(&json!([wanted, "other"]), found), alone, "{wanted} {found}");
        }
    }
}

/// Comparing each value with each wanted value would take hours.
#[test]
fn many_values_are_compared_fast_with_many_wanted_values() {
    let items: Vec<_> = (0..200_000).map(|number| json!({"name": format!("n-{number}")})).collect();
    let wanted: Vec<_> = (0..100_000).map(|number| format!("w-{number}")).collect();
    let clause = |wanted: &[String]| clause(&json!([{"field": "/items/*/name", "in": wanted}]));
    let body = json!({"items": items});
    assert!(!clause(&wanted).admits(&body));
    assert!(clause(&[&wanted[..], &["n-199999".to_owned()]].concat()).admits(&body));
}
