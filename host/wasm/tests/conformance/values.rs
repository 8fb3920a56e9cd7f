//! Values that languages tend to change: each passes through the language's own type for objects and must come back
//! equal.

use serde_json::{Value, json};

use crate::case::Case;

/// Names, and the values as JSON text.
fn written() -> Vec<(String, String)> {
    let literal = [
        ("nothing at all", "null"),
        ("an empty text", "\"\""),
        ("an empty list", "[]"),
        ("an empty object", "{}"),
        ("empty things in a list", "[[],{},\"\",null]"),
        ("truth", "[true,false]"),
        ("zero", "0"),
        ("2^53", "9007199254740992"),
        ("2^53 + 1", "9007199254740993"),
        ("-2^53 - 1", "-9007199254740993"),
        ("2^53 - 1", "9007199254740991"),
        ("2^63 - 1", "9223372036854775807"),
        ("-2^63", "-9223372036854775808"),
        ("2^64 - 1", "18446744073709551615"),
        ("large whole numbers in depth", "{\"a\":[{\"b\":9007199254740993}]}"),
        ("1e308", "1e308"),
        ("the smallest float", "5e-324"),
        ("minus zero", "-0.0"),
        ("0.1", "0.1"),
        ("a float with all its digits", "0.30000000000000004"),
        ("a float that is whole", "3.0"),
        ("\\u0000", "\"a\\u0000b\""),
        ("a key with \\u0000", "{\"\\u0000\":1}"),
        ("control characters", "\"\\u0001\\u0008\\t\\n\\r\\u001f\\u007f\""),
        ("quotes and backslashes", "\"\\\"\\\\/\""),
        (
            "keys that are no names",
            "{\"\":1,\" \":2,\"a/b\":3,\"a.b\":4,\"1\":5,\"__proto__\":6,\"constructor\":7,\"toString\":8}",
        ),
        ("keys out of order", "{\"b\":1,\"a\":2,\"10\":3,\"9\":4}"),
        ("line separators", "\"\\u2028\\u2029\""),
        ("escapes of two units", "\"\\ud834\\udd1e\""),
    ];
    let mut all: Vec<_> = literal.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    all.push(("a text of 1 MiB".to_owned(), format!("\"{}\"", "x".repeat(1 << 20))));
    all.push(("a list of 10,000 numbers".to_owned(), json!((0..10_000).collect::<Vec<_>>()).to_string()));
    all.push(("100 levels of lists".to_owned(), format!("{}1{}", "[".repeat(100), "]".repeat(100))));
    all.push(("100 levels of objects".to_owned(), format!("{}1{}", "{\"a\":".repeat(100), "}".repeat(100))));
    all.push(("all planes of Unicode".to_owned(), json!(planes()).to_string()));
    all
}

/// Characters of every plane, and those at the boundaries of encodings.
fn planes() -> String {
    let edges = [0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xfeff, 0xfffd, 0xffff];
    let of_planes = (0..=16_u32).flat_map(|plane| [plane << 16 | 0x41, plane << 16 | 0xfffd]);
    edges.into_iter().chain(of_planes).filter_map(char::from_u32).collect()
}

/// A case for each value.
pub(crate) fn echoes() -> Vec<Case> {
    let case = |(name, text): (String, String)| {
        let value: Value = serde_json::from_str(&text).expect("the value is JSON");
        let results = Some(json!([{"ok": value}]));
        let text = Some(format!(r#"[{{"call":"echo","value":{text}}}]"#));
        Case { name: format!("echo of {name}"), text, results, ..Case::default() }
    };
    written().into_iter().map(case).collect()
}

/// Values in texts that the probe does not parse as JSON, such as names and messages. They must not change.
pub(crate) fn texts() -> Vec<Case> {
    let target = json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod", "name": "a"});
    let read = |(name, text): (String, String)| {
        let answers = vec![json!({"ok": {"$json": text}})];
        let value: Value = serde_json::from_str(&text).expect("the value is JSON");
        Case {
            name: format!("an object that is read with {name}"),
            steps: json!([{"call": "cache.get", "target": target}]),
            answers,
            asked: vec![json!({"cache.get": target})],
            results: Some(json!([{"ok": value}])),
            ..Case::default()
        }
    };
    let wrapped = written().into_iter().map(|(name, text)| (name, format!("{{\"data\":{text}}}")));
    wrapped.map(read).collect()
}
