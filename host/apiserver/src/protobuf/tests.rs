//! Tests every built-in kind in both directions: with all fields set, and with bytes that a real server wrote.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::messages::{Cardinality, FieldKind, FieldType, MessageType, Messages};
use super::shape::Shape;
use super::*;
use crate::resources::builtin;

/// The nesting depth of objects with all fields.
const FULL_OBJECT_DEPTH: usize = 7;

/// A value of the type with all fields set to non-empty values.
fn whole(messages: &Messages, of: &MessageType, depth: usize) -> Value {
    let mut object = Map::new();
    for field in &of.fields {
        if field.inline {
            let inner = messages.at(field.message().expect("an inlined field is a struct"));
            object.extend(whole(messages, inner, depth).as_object().cloned().unwrap_or_default());
        } else if let Some(value) = field_of(messages, field, depth) {
            object.insert(field.json.to_string(), value);
        }
    }
    Value::Object(object)
}

fn field_of(messages: &Messages, field: &FieldType, depth: usize) -> Option<Value> {
    let one = match field.kind {
        FieldKind::Message(inner) => message_of(messages, messages.at(inner), depth)?,
        FieldKind::Bool => json!(true),
        FieldKind::String => json!("text"),
        FieldKind::Bytes => json!("Ynl0ZXM="),
        FieldKind::Double => json!(1.5),
        FieldKind::Int32 => json!(-5),
        FieldKind::Int64 => json!(i64::MAX),
    };
    Some(match field.cardinality {
        Cardinality::One => one,
        Cardinality::List => json!([one]),
        Cardinality::Map => json!({ "key": one }),
    })
}

fn message_of(messages: &Messages, of: &MessageType, depth: usize) -> Option<Value> {
    Some(match of.shape {
        Shape::Struct if depth == 0 => return None,
        Shape::Struct => whole(messages, of, depth - 1),
        Shape::Items => field_of(messages, of.fields.first()?, depth)?,
        Shape::Time => json!("2026-11-25T13:00:00Z"),
        Shape::MicroTime => json!("2026-11-25T13:00:00.000123Z"),
        Shape::Quantity => json!("100m"),
        Shape::IntOrString => json!("50%"),
        Shape::Raw => json!({ "a": [1, "b"] }),
        Shape::SchemaOrList | Shape::SchemaOrBool => json!({ "type": "string" }),
        Shape::SchemaOrNames => json!(["a", "b"]),
    })
}

/// Checks that everything in `given` is in `found`. More may be found: at the depth limit, fields that are always
/// written come back empty.
fn assert_kept(given: &Value, found: &Value, path: &str) {
    match (given, found) {
        (Value::Object(given), Value::Object(found)) => {
            for (key, value) in given {
                assert_kept(value, found.get(key).unwrap_or(&Value::Null), &format!("{path}.{key}"));
            }
        }
        (Value::Array(given), Value::Array(found)) if given.len() == found.len() => {
            given.iter().zip(found).for_each(|(given, found)| assert_kept(given, found, path));
        }
        _ => assert_eq!(given, found, "{path}"),
    }
}

#[test]
fn every_field_of_every_built_in_kind_survives_a_round_trip() {
    let messages = Messages::get().expect("the embedded descriptions are whole");
    for resource in builtin::resources() {
        let api_version = resource.api_version();
        let message = messages.of_kind(&api_version, &resource.kind).expect("a built-in kind has a message");
        let mut object = whole(messages, message, FULL_OBJECT_DEPTH);
        object["apiVersion"] = json!(api_version);
        object["kind"] = json!(resource.kind);
        let bytes = encode(&object).expect("it can be written");
        let found = decode(&bytes).expect("it can be read");
        assert_kept(&object, &found, &resource.kind);
        assert!(bytes.len() > 200, "{} has fields", resource.kind);

        if !resource.is_review() {
            let metadata = json!({ "resourceVersion": "7" });
            object.as_object_mut().expect("an object").retain(|key, _| key != "kind" && key != "apiVersion");
            let list = json!({
                "apiVersion": api_version,
                "kind": resource.list_kind,
                "metadata": &metadata,
                "items": [&object],
            });
            let bytes = encode(&list).expect("a list can be written");
            let found = decode(&bytes).expect("it can be read");
            assert_kept(&list, &found, &resource.list_kind);
            let streamed = encode_list(&api_version, &resource.list_kind, &metadata, &[Arc::new(object)]);
            assert_eq!(streamed.expect("its items can be written").concat(), bytes, "{}", resource.list_kind);
        }
    }
}

/// `tools/record-protobuf` wrote the lines: each has the JSON and the protobuf of the same object.
#[test]
fn protobuf_of_a_real_server_decodes_to_its_json() {
    let recorded = include_str!("../../tests/data/protobuf.tsv");
    let mut kinds = std::collections::BTreeSet::new();
    for line in recorded.lines() {
        let (expected, bytes) = line.split_once('\t').expect("JSON and protobuf");
        let mut expected: Value = serde_json::from_str(expected).expect("JSON");
        // Protobuf does not store the type of an embedded object.
        for claim in
            expected.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten()
        {
            claim.as_object_mut().expect("an object").retain(|key, _| key != "kind" && key != "apiVersion");
        }
        let bytes = BASE64_STANDARD.decode(bytes).expect("base64");
        let found = decode(&bytes).expect("it can be read");
        assert_eq!(found, expected);
        let again = decode(&encode(&expected).expect("it can be written")).expect("it can be read");
        assert_eq!(again, expected);
        kinds.insert(format!("{} {}", expected["apiVersion"], expected["kind"]));
    }
    let missing: Vec<String> = builtin::resources()
        .iter()
        .filter(|resource| resource.serves(None, "update"))
        .map(|resource| format!("{} {}", json!(resource.api_version()), json!(resource.kind)))
        .filter(|kind| !kinds.contains(kind))
        .collect();
    assert!(missing.is_empty(), "not recorded: {missing:?}");
}

#[test]
fn zeros_are_kept_where_they_mean_something() {
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": { "name": "web" },
        "spec": { "replicas": 0, "minReadySeconds": 0, "template": { "spec": { "automountServiceAccountToken": false } } },
    });
    let found = decode(&encode(&deployment).expect("it can be written")).expect("it can be read");
    assert_eq!(found["spec"]["replicas"], json!(0), "a pointer");
    assert_eq!(found["spec"].get("minReadySeconds"), None, "no pointer");
    assert_eq!(found["spec"]["template"]["spec"]["automountServiceAccountToken"], json!(false));
    assert_eq!(found["status"], json!({}), "a struct is never empty");
    assert_eq!(found["metadata"].get("creationTimestamp"), None);
}

#[test]
fn a_body_that_is_cut_off_is_refused() {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    let bytes = encode(&namespace).expect("it can be written");
    for length in 0..bytes.len() {
        // A truncated message may still be valid, but decoding must never panic.
        let _ = decode(&bytes[..length]);
    }
    assert!(matches!(decode(&bytes[..9]), Err(ProtobufError::Wire(WireError::CutOff))));
    assert!(matches!(decode(b"{}"), Err(ProtobufError::Malformed(_))));
}

#[test]
fn a_custom_resource_has_no_message() {
    let custom = json!({ "apiVersion": "demo.windlass.dev/v1", "kind": "WebApp", "metadata": {} });
    assert!(matches!(encode(&custom), Err(ProtobufError::UnknownKind { .. })));
}

#[test]
fn a_value_of_the_wrong_type_is_named() {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [{ "name": 5 }] } });
    let error = encode(&pod).expect_err("a name is a text");
    assert_eq!(error.to_string(), "Pod.spec.containers[0].name cannot be written as protobuf: a text expected");
}

#[test]
fn an_object_is_always_encoded_to_the_same_bytes() {
    let entries: Map<String, Value> = (0..50).map(|number| (format!("key-{number:02}"), json!("a"))).collect();
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "labels": entries }, "data": entries });
    let bytes = encode(&object).expect("it can be written");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let places: Vec<usize> = (0..50).filter_map(|number| text.find(&format!("key-{number:02}"))).collect();
    assert_eq!(places.len(), 50);
    assert!(places.is_sorted(), "by their keys");
    assert_eq!(encode(&object).expect("it can be written"), bytes);
}

#[test]
fn a_small_body_cannot_expand_to_a_large_object() {
    let body_of = |containers: usize| {
        // `spec` is field 2 of a pod, and `containers` is field 2 of the spec. An empty container has no bytes.
        let spec = [18u8, 0].repeat(containers);
        let mut pod = vec![18];
        let mut length = spec.len();
        while length > 0x7f {
            pod.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
            length >>= 7;
        }
        pod.push(u8::try_from(length).expect("seven bits"));
        pod.extend(spec);
        let mut bytes = Vec::new();
        wrapped("v1", "Pod", &mut bytes, |bytes| {
            bytes.extend(pod);
            Ok(())
        })
        .expect("nothing fails");
        bytes
    };
    let read = decode(&body_of(1000)).expect("these are few");
    assert_eq!(read["spec"]["containers"].as_array().map(Vec::len), Some(1000));
    assert!(matches!(decode(&body_of(measure::PROTOBUF_VALUES_MAX)), Err(ProtobufError::TooMany)));
}

#[test]
fn bytes_are_read_as_go_reads_base64() {
    let secret = |text: &str| json!({ "apiVersion": "v1", "kind": "Secret", "data": { "a": text } });
    for (text, expected) in [("Ynl0\r\nZXM=\n", "Ynl0ZXM="), ("YR==", "YQ==")] {
        let bytes = encode(&secret(text)).expect("Go takes it");
        assert_eq!(decode(&bytes).expect("it can be read")["data"]["a"], expected);
    }
    assert!(encode(&secret("a_b=")).is_err());
}

#[test]
fn invalid_raw_json_is_refused_and_valid_raw_json_is_kept() {
    let revision = json!({ "apiVersion": "apps/v1", "kind": "ControllerRevision", "data": { "a\n\"\u{1}ä": ["<", 1] }, "revision": 1 });
    let bytes = encode(&revision).expect("it can be written");
    assert_eq!(decode(&bytes).expect("it can be read")["data"], revision["data"]);
    let place = bytes.windows(2).position(|pair| pair == b"[\"").expect("the list");
    let mut broken = bytes.clone();
    broken[place] = b'(';
    let error = decode(&broken).expect_err("invalid JSON").to_string();
    assert!(error.starts_with("ControllerRevision.data is not valid JSON: "), "{error}");
}

/// Uses the pod spec, because it has the most fields.
#[test]
fn an_objects_known_fields_are_found_among_unknown_keys() {
    let messages = Messages::get().expect("the embedded descriptions are whole");
    for name in ["k8s.io.api.core.v1.PodSpec", "k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta"] {
        let message = messages.named(name).expect("a message");
        proptest!(|(chosen in vec((any::<Index>(), "[a-z]{0,3}"), 0..20))| {
            let field = |(index, unknown): &(Index, String)| [index.get(&message.fields).json.to_string(), unknown.clone()];
            let object: Map<String, Value> = chosen.iter().flat_map(field).map(|key| (key, json!(1))).collect();
            let mut found = Vec::new();
            message.places(&object, |place, _| found.push(place));
            found.sort_unstable();
            let is_present = |place: &usize| object.contains_key(&*message.fields[*place].json);
            let expected: Vec<usize> = (0..message.fields.len()).filter(is_present).collect();
            prop_assert_eq!(found, expected);
        });
    }
}

/// The body comes from a client that knows more fields than this server, and encodes some fields in an unusual way.
#[test]
fn unknown_and_repeated_fields_follow_protobufs_rules() {
    let read = |object: &[u8]| {
        let mut bytes = Vec::new();
        wrapped("v1", "ConfigMap", &mut bytes, |bytes| {
            bytes.extend_from_slice(object);
            Ok(())
        })
        .expect("nothing fails");
        decode(&bytes)
    };
    // Field 1 is the metadata: its field 1 is the name, and its field 7 the generation. Field 4 is `immutable`.
    let in_parts = [10, 3, 10, 1, b'a', 10, 2, 56, 7, 10, 3, 10, 1, b'b', 32, 0, 32, 1];
    let object = read(&in_parts).expect("parts of a message are one");
    assert_eq!((&object["metadata"]["name"], &object["metadata"]["generation"]), (&json!("b"), &json!(7)));
    assert_eq!(object["immutable"], json!(true), "the last counts");
    // The unknown field 100 in each wire type: a number, eight bytes, a text, a group that contains a number and
    // another group, four bytes.
    let unknown = [
        &[160, 6, 150, 1][..],
        &[161, 6, 1, 2, 3, 4, 5, 6, 7, 8],
        &[162, 6, 2, b'h', b'i'],
        &[163, 6, 8, 1, 19, 20, 164, 6],
        &[165, 6, 1, 2, 3, 4],
        &[32, 1],
    ];
    assert_eq!(read(&unknown.concat()).expect("unknown fields are skipped")["immutable"], json!(true));
    for broken in [&[163, 6, 8, 1][..], &[166, 6], &[34, 1, 1], &[8, 1], &[0, 1], &[10, 3, 10, 1, 0xff], &[255; 11]] {
        assert!(matches!(read(broken), Err(ProtobufError::Wire(_))), "{broken:?}");
    }
    let deep = (0..200).fold(Vec::new(), |inner, _| not(&inner));
    let messages = Messages::get().expect("the embedded descriptions are whole");
    let schema = messages.named("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let read = to_json::object(messages, schema.expect("a message"), &deep, &MessagePlace::root("schema"));
    assert!(matches!(read, Err(ProtobufError::Wire(WireError::TooDeep))));
    assert!(!measure::is_bearable(messages, schema.expect("a message"), &(0..2).fold(deep, |inner, _| not(&inner))));
}

/// A schema that has `schema` as its `not`.
fn not(schema: &[u8]) -> Vec<u8> {
    let mut outer = Vec::new();
    // Field 28 is `JSONSchemaProps.not`.
    wire::bytes(28, schema, &mut outer);
    outer
}

#[test]
fn only_one_message_on_a_path_may_be_in_parts() {
    let messages = Messages::get().expect("the embedded descriptions are whole");
    let schema = messages.named("k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    let read = |bytes: &[u8]| {
        to_json::object(messages, schema.expect("a message"), bytes, &MessagePlace::root("schema")).map(Value::Object)
    };
    let mut described = Vec::new();
    wire::bytes(4, b"d", &mut described);
    let in_parts = [not(&described), not(&[])].concat();
    assert_eq!(read(&in_parts).expect("it is whole")["not"]["description"], "d");
    assert_eq!(read(&not(&in_parts)).expect("it is whole")["not"]["not"]["description"], "d");
    let twice = read(&[not(&in_parts), not(&[])].concat());
    assert!(matches!(twice, Err(ProtobufError::Wire(WireError::Split(28)))), "{twice:?}");
}
