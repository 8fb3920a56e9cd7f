//! Tests which schemas are refused, and how accepted schemas change and validate objects.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn schema(spec: &Value) -> Schema {
    Schema::parse(&json!({"type": "object", "properties": {"spec": spec}})).expect("a structural schema")
}

fn refusal(openapi: &Value) -> String {
    Schema::parse(openapi).expect_err("not structural").first().expect("an error").to_string()
}

/// The errors in `value`, the only field of a spec. The field has the schema `field`.
fn errors(field: &Value, value: &Value) -> Vec<String> {
    let schema = schema(&json!({"type": "object", "properties": {"x": field}}));
    schema.validate(&json!({"spec": {"x": value}}), None).iter().map(ToString::to_string).collect()
}

/// Asserts that each value has exactly one error, with this text.
fn assert_errors<const N: usize>(cases: [(Value, Value, &str); N]) {
    for (field, value, expected) in cases {
        assert_eq!(errors(&field, &value), [expected]);
    }
}

#[test]
fn errors_of_numbers_and_types_read_as_in_kubernetes() {
    assert_errors([
        (
            json!({"type": "integer", "maximum": 50}),
            json!(51),
            "spec.x: Invalid value: 51: spec.x in body should be less than or equal to 50",
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!(1),
            "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            json!({"type": "integer", "maximum": 1_000_000}),
            json!(1_000_001),
            "spec.x: Invalid value: 1000001: spec.x in body should be less than or equal to 1000000",
        ),
        (
            json!({"type": "number", "maximum": 1_000_000}),
            json!(1_000_000.5),
            "spec.x: Invalid value: 1.0000005e+06: spec.x in body should be less than or equal to 1e+06",
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(2),
            "spec.x: Invalid value: 0: factor MultipleOf declared for spec.x must be positive: 0",
        ),
        (
            json!({"type": "number", "format": "float"}),
            json!(3.5e38),
            "<nil>: Invalid value: \"\": Checked value must be of type number with format float in spec.x",
        ),
        (
            json!({"type": "integer"}),
            json!(1e18),
            "spec.x: Invalid value: \"number\": spec.x in body must be of type integer: \"number\"",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!(1),
            "spec.x: Invalid value: \"int64\": spec.x in body must be of type date-time: \"int64\"",
        ),
        (
            json!({"type": "string"}),
            json!(1),
            "spec.x: Invalid value: \"integer\": spec.x in body must be of type string: \"integer\"",
        ),
    ]);
}

#[test]
fn numbers_are_classified_as_in_go() {
    let big = json!(9_223_372_036_854_775_808_u64);
    assert_eq!(
        errors(&json!({"type": "integer"}), &big),
        [
            "spec.x: Invalid value: \"number\": spec.x in body must be of type integer: \"number\"",
            "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.x",
        ]
    );
    for (field, value) in [
        (json!({"type": "integer"}), json!(1.0)),
        (json!({"type": "integer", "multipleOf": 3}), json!(9.0)),
        (json!({"type": "number"}), big),
        (json!({"type": "number", "enum": [1]}), json!(1.5)),
        (json!({"type": "string", "format": "date"}), json!(["x"])),
    ] {
        assert_eq!(errors(&field, &value), Vec::<String>::new(), "{field}");
    }
}

#[test]
fn whole_floats_are_stored_as_integers() {
    let mut value = json!({"a": [1.0, 1e3, -0.0, 1.5], "b": u64::MAX, "c": 9_223_372_036_854_775_808_u64});
    numbers::settle(&mut value);
    assert_eq!(value.to_string(), r#"{"a":[1,1000,0,1.5],"b":1.8446744073709552e+19,"c":9223372036854776000}"#);
}

#[test]
fn the_alternative_that_passed_most_checks_explains_the_error() {
    let found = |operator: &str, alternatives: Value, value: Value| {
        let field = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, operator: alternatives});
        errors(&field, &value)
    };
    let near = json!({"properties": {"a": {"minimum": 5}, "b": {"maximum": 9}}, "required": ["c"]});
    let far = json!({"required": ["z"]});
    assert_eq!(
        found("anyOf", json!([far, near]), json!({"a": 6, "b": 7})),
        [
            "<nil>: Invalid value: \"\": \"spec.x\" must validate at least one schema (anyOf)",
            "spec.x.c: Required value",
        ]
    );
    assert_eq!(
        found("allOf", json!([far]), json!({})),
        [
            "spec.x.z: Required value",
            "<nil>: Invalid value: \"\": \"spec.x\" must validate all the schemas (allOf). None validated",
        ]
    );
}

#[test]
fn errors_in_a_status_name_paths_in_it() {
    let schema = Schema::parse(&json!({"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object"},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}, "not": {"required": ["odd"]}},
    }}))
    .expect("a structural schema");
    let found = |status: Value| -> Vec<String> {
        schema.validate_status(&json!({ "status": status }), None).iter().map(ToString::to_string).collect()
    };
    assert_eq!(found(json!({"n": 1})), Vec::<String>::new(), "only the status counts");
    assert_eq!(
        found(json!({"n": "x"})),
        ["status.n: Invalid value: \"string\": n in body must be of type integer: \"string\""]
    );
    assert_eq!(found(json!({"odd": 1})), ["status: Invalid value: \"\": \"\" must not validate the schema (not)"]);
}

#[test]
fn errors_of_texts_read_as_in_kubernetes() {
    assert_errors([
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            json!("x"),
            "spec.x: Unsupported value: \"x\": supported values: \"a\", \"b\"",
        ),
        (json!({"type": "string", "maxLength": 2}), json!("abc"), "spec.x: Too long: may not be more than 2 bytes"),
        (
            json!({"type": "string", "minLength": 2}),
            json!("é"),
            "spec.x: Invalid value: \"é\": spec.x in body should be at least 2 chars long",
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            "spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("soon"),
            "spec.x: Invalid value: \"soon\": spec.x in body must be of type date-time: \"soon\"",
        ),
    ]);
}

#[test]
fn errors_of_lists_objects_and_operators_read_as_in_kubernetes() {
    assert_errors([
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
            json!(["a", "b"]),
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
            json!(["a", "a"]),
            "spec.x[1]: Duplicate value: \"a\"",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                   "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "string"}}}}),
            json!([{"k": "a"}, {"k": "a", "v": "b"}]),
            "spec.x[1]: Duplicate value: {\"k\":\"a\"}",
        ),
        (
            json!({"type": "array", "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}),
            json!([{}]),
            "spec.x[0].k: Required value",
        ),
        (
            json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}}),
            json!({}),
            "spec.x: Invalid value: {}: spec.x in body should have at least 1 properties",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_u64),
            "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.x",
        ),
        (
            json!({"type": "string", "not": {"enum": ["x"]}}),
            json!("x"),
            "<nil>: Invalid value: \"\": \"spec.x\" must not validate the schema (not)",
        ),
        (
            json!({"type": "number", "multipleOf": 0.1}),
            json!(0.25),
            "spec.x: Invalid value: 0.25: spec.x in body should be a multiple of 0.1",
        ),
        (
            json!({"type": "string"}),
            json!(null),
            "spec.x: Invalid value: \"null\": spec.x in body must be of type string: \"null\"",
        ),
    ]);
}

#[test]
fn valid_values_are_accepted() {
    for (field, value) in [
        (json!({"type": "number"}), json!(1)),
        (json!({"type": "integer"}), json!(1.0)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
        (json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}), json!(3)),
        (json!({"type": "number", "multipleOf": 0.1}), json!(0.3)),
        (json!({"type": "integer", "maximum": 9_007_199_254_740_993_i64}), json!(9_007_199_254_740_992_i64)),
        (json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), json!({"any": [1]})),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!(null)),
    ] {
        assert_eq!(errors(&field, &value), [""; 0], "{field} {value}");
    }
}

#[test]
fn a_cause_has_field_reason_and_message() {
    let schema = schema(&json!({"type": "object", "required": ["image"]}));
    let errors = schema.validate(&json!({"spec": {}}), None);
    let [error] = errors.as_slice() else { panic!("{errors:?}") };
    assert_eq!((&*error.field, error.reason, &*error.message), ("spec.image", "FieldValueRequired", "Required value"));
}

#[test]
fn one_of_reports_the_closest_alternative() {
    let field = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    let none = "<nil>: Invalid value: \"\": \"spec.x\" must validate one and only one schema (oneOf). Found none valid";
    assert_eq!(errors(&field, &json!({})), [none, "spec.x.a: Required value"]);
    assert_eq!(errors(&field, &json!({"a": ""})), [""; 0]);
    assert_eq!(errors(&field, &json!({"a": "", "b": ""})).len(), 1);
}

#[test]
fn schemas_that_are_not_structural_are_refused_with_path_and_reason() {
    let of = |spec: Value| json!({"type": "object", "properties": {"spec": spec}});
    for (openapi, expected) in [
        (json!({}), "type: Required value: must not be empty at the root"),
        (json!({"type": "string"}), "type: Invalid value: \"string\": must be object at the root"),
        (of(json!({})), "properties[spec].type: Required value: must not be empty for specified object fields"),
        (
            of(json!({"type": "array", "items": {}})),
            "properties[spec].items.type: Required value: must not be empty for specified array items",
        ),
        (of(json!({"type": "array"})), "properties[spec].items: Required value: must be specified"),
        (of(json!({"$ref": "#/x"})), "properties[spec].$ref: Forbidden: $ref is not supported"),
        (
            of(
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            ),
            "properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            of(json!({"type": "object", "anyOf": [{"type": "object"}]})),
            "properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            of(json!({"type": "string", "default": 1})),
            "properties[spec].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"uid": {"type": "string"}}}}}),
            "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ),
    ] {
        assert_eq!(refusal(&openapi), expected);
    }
    for openapi in [
        of(json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true})),
        of(json!({"type": "string", "pattern": "("})),
        of(json!({"type": "string", "x-kubernetes-list-type": "atomic"})),
        of(json!({"type": "string", "x-kubernetes-map-type": "atomic"})),
        of(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": false})),
        of(json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "string"}, {"type": "integer"}]})),
        of(json!({"type": "object", "anyOf": [{"x-kubernetes-list-type": "set"}]})),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "default": {}}),
        json!({"type": "object", "properties": {"metadata": {"type": "object", "default": {}}}}),
        json!({"type": "object", "properties": {"metadata": {"type": "object", "nullable": true}}}),
        of(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"})),
        of(json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"})),
        of(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
        of(json!(7)),
    ] {
        refusal(&openapi);
    }
}

#[test]
fn unusual_schemas_are_accepted_as_in_a_real_server() {
    for spec in [
        json!({"type": "number", "multipleOf": 0}),
        json!({"type": "string", "minLength": -1}),
        json!({"type": "object", "definitions": {}}),
        json!({"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]}),
        json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}, "x-kubernetes-list-type": "set"}),
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true}),
    ] {
        schema(&spec);
    }
}

#[test]
fn unchecked_formats_are_reported() {
    let openapi = json!({"type": "object", "format": "a", "anyOf": [{"properties": {"x": {"format": "b"}}}], "properties": {
        "x": {"type": "string", "format": "date"}, "y": {"type": "integer", "format": "date"},
        "z": {"type": "array", "items": {"type": "string", "format": "c"}},
    }});
    assert_eq!(unrecognized_formats(&openapi), ["a", "b", "date", "c"]);
}

#[test]
fn defaults_are_applied_within_defaulted_objects() {
    let schema = schema(&json!({"type": "object", "default": {}, "properties": {
        "replicas": {"type": "integer", "default": 1},
        "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"type": "string", "default": "TCP"}}}},
    }}));
    let mut object = json!({});
    schema.default(&mut object);
    assert_eq!(object, json!({"spec": {"replicas": 1}}));
    let mut object = json!({"spec": {"replicas": null, "list": [{}, {"p": "UDP"}]}});
    schema.default(&mut object);
    assert_eq!(object, json!({"spec": {"replicas": 1, "list": [{"p": "TCP"}, {"p": "UDP"}]}}));
}

#[test]
fn a_null_is_kept_if_nullable_and_dropped_otherwise() {
    let schema = schema(&json!({"type": "object", "properties": {
        "kept": {"type": "string", "nullable": true, "default": "x"},
        "gone": {"type": "string"},
        "open": {"x-kubernetes-preserve-unknown-fields": true},
        "full": {"type": "string", "default": "x"},
    }}));
    let object = json!({"spec": {"kept": null, "gone": null, "open": null, "full": null, "unknown": null}});
    let mut decoded = object.clone();
    schema.default(&mut decoded);
    assert_eq!(decoded, json!({"spec": {"kept": null, "full": "x", "unknown": null}}));
    let mut applied = object;
    schema.fill_defaults(&mut applied);
    assert_eq!(applied, json!({"spec": {"kept": null, "gone": null, "open": null, "full": "x", "unknown": null}}));
}

#[test]
fn unknown_fields_are_removed_and_reported() {
    let schema = schema(&json!({"type": "object", "properties": {
        "known": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                 "properties": {"closed": {"type": "object"}}},
        "any": {"type": "object", "additionalProperties": true},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
    }}));
    let mut object = json!({
        "apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x", "labels": {"a": "b"}}, "stray": 1,
        "spec": {
            "known": "x", "other": 1, "list": [{"a": "b", "c": "d"}], "open": {"x": 1, "closed": {"y": 1}}, "any": {"z": 1},
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"q": 1}, "status": {}},
        },
    });
    let mut removed = schema.prune(&mut object);
    removed.sort();
    let expected =
        ["spec.list[0].c", "spec.open.closed.y", "spec.other", "spec.pod.spec.q", "spec.pod.status", "stray"];
    assert_eq!(removed, expected);
    assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(object["spec"]["open"], json!({"x": 1, "closed": {}}));
    assert_eq!(object["spec"]["pod"]["metadata"], json!({"name": "p"}));
    assert_eq!(object["spec"]["any"], json!({"z": 1}));
}

#[test]
fn rules_are_evaluated_on_values_and_on_changes() {
    let schema = schema(&json!({"type": "object", "properties": {
        "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}, {"rule": "self >= oldSelf"}]},
    }}));
    let object = |n: i64| json!({"spec": {"n": n}});
    let found = |old: Option<i64>, n: i64| -> Vec<String> {
        let found = schema.check_rules(&object(n), old.map(object).as_ref());
        found.causes.into_iter().map(|cause| cause.to_string()).collect()
    };
    assert_eq!(found(None, 1), Vec::<String>::new());
    assert_eq!(found(None, 0), ["spec.n: Invalid value: 0: failed rule: self > 0"]);
    assert_eq!(found(Some(2), 1), ["spec.n: Invalid value: 1: failed rule: self >= oldSelf"]);
    assert_eq!(found(Some(-1), -1), Vec::<String>::new(), "what did not change may stay");
}

/// Any JSON that is similar to schemas and to objects for them.
fn any_json() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "additionalProperties",
        "default",
        "required",
        "enum",
        "minimum",
        "maxLength",
        "pattern",
        "format",
        "multipleOf",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "nullable",
        "spec",
        "a",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-int-or-string",
        "x-kubernetes-embedded-resource",
        "metadata",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec!["object", "array", "string", "integer", "map", "set", "a", "date-time"])
            .prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 64, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_schema_and_no_object_make_it_panic(mut openapi in any_json(), mut object in any_json()) {
        if let Value::Object(root) = &mut openapi {
            root.insert("type".to_owned(), json!("object"));
        }
        if let Ok(schema) = Schema::parse(&openapi) {
            schema.default(&mut object);
            schema.prune(&mut object);
            schema.validate(&object, None);
        }
    }

    #[test]
    fn shaping_twice_is_shaping_once(object in any_json()) {
        let schema = schema(&json!({"type": "object", "default": {}, "properties": {
            "a": {"type": "string", "default": "x"}, "items": {"type": "array", "items": {"type": "object", "properties": {
                "a": {"type": "integer", "default": 1}}}},
        }}));
        let shape = |mut object: Value| {
            schema.prune(&mut object);
            schema.default(&mut object);
            object
        };
        let once = shape(object);
        prop_assert_eq!(shape(once.clone()), once);
    }
}

/// A large definition has ten thousand nodes, and most of them declare only a type.
#[test]
fn a_node_with_only_a_type_takes_little_memory() {
    assert!(size_of::<Node>() <= 200, "{} bytes", size_of::<Node>());
    let schema = schema(&json!({"type": "object", "properties": {
        "plain": {"type": "string", "description": "a text"}, "short": {"type": "string", "maxLength": 5},
    }}));
    let has_checks = |name: &str| {
        let spec = schema.root().properties.get("spec").expect("a property");
        spec.properties.get(name).expect("a property").checks.0.is_some()
    };
    assert!(!has_checks("plain"));
    assert!(has_checks("short"));
}
