use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::secret::known_secrets::SECRETS_MAX;

use super::*;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn secret(password: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "prod"},
        "data": {"password": STANDARD.encode(password)},
    })
}

fn reads(text: &str) -> Value {
    let target = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "prod", "name": "db"});
    json!({"import": "cache.get", "args": {"target": target}, "answer": {"ok": text}})
}

fn applies(object: &Value) -> Value {
    json!({"import": "writes.apply", "args": {"object": object.to_string(), "options": {}}, "answer": {"ok": object.to_string()}})
}

#[allow(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
fn call(imports: Vec<Value>) -> Value {
    json!({
        "request": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod", "name": "shop", "config": "{}"},
        "surroundings": {"seed": "00"}, "imports": imports, "result": {"done": true},
    })
}

fn redacted(mut call: Value) -> Value {
    Redactor::new(vec!["/spec/token".to_owned()]).redact(&mut call, &[]);
    call
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The password appears in two Secrets, where it is found by its place. It also appears in a URL, in JSON inside a
    /// text, and in an event's note.
    #[test]
    fn no_form_of_a_secret_is_left_anywhere(password in "[a-zA-Z0-9\"\\\\ /+&<>@ö\n-]{8,40}") {
        prop_assume!(password.trim().len() >= 8);
        let config_map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
            "data": {"url": format!("x://u:{password}@db"), "json": json!({"password": password}).to_string()},
        });
        let imports = vec![
            reads(&secret(&password).to_string()),
            applies(&config_map),
            applies(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": password}})),
            json!({"import": "events.emit", "args": {"note": format!("used {password}")}, "answer": {"ok": null}}),
        ];
        let recording = redacted(call(imports)).to_string();
        let mut escaped = password.trim().to_owned();
        for _ in 0..4 {
            prop_assert!(!recording.contains(&escaped), "{escaped:?} in {recording}");
            escaped = Value::from(escaped.as_str()).to_string().trim_matches('"').to_owned();
        }
        prop_assert!(!recording.contains(&STANDARD.encode(&password)), "{recording}");
    }
}

#[test]
fn equal_secrets_get_equal_markers_in_any_form() {
    let recording = redacted(call(vec![
        reads(&secret("hunter2").to_string()),
        applies(
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": "hunter2", "b": "hunter3"}}),
        ),
    ]));
    let object = |text: &Value| serde_json::from_str::<Value>(text.as_str().expect("a text")).expect("JSON");
    let read = object(&recording["imports"][0]["answer"]["ok"])["data"]["password"].clone();
    let read = STANDARD.decode(read.as_str().expect("a text")).expect("it is still Base64");
    let written = object(&recording["imports"][1]["args"]["object"])["stringData"].clone();
    assert_eq!(written["a"], String::from_utf8(read).expect("a marker"));
    assert_ne!(written["a"], written["b"]);
}

#[test]
fn patches_of_secrets_are_redacted_in_each_of_their_forms() {
    let target = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "prod", "name": "db"});
    let patch = |form: &str, patch: Value| {
        let args = json!({"target": target, "type": form, "patch": patch.to_string(), "options": {}});
        json!({"import": "writes.patch", "args": args})
    };
    let base64 = STANDARD.encode("hunter2");
    let recording = redacted(call(vec![
        patch("merge", json!({"data": {"a": base64}})),
        patch("strategic", json!({"stringData": {"a": "hunter2"}})),
        patch("json", json!([{"op": "replace", "path": "/data/a", "value": base64}])),
        patch("json", json!([{"op": "add", "path": "/data", "value": {"a": base64}}])),
        patch("json", json!([{"op": "add", "path": "/stringData", "value": {"a": "hunter2"}}])),
        json!({"import": "writes.batch", "args": {"operations": [patch("merge", json!({"data": {"a": base64}}))["args"]]}}),
    ]))
    .to_string();
    assert!(!recording.contains("hunter2") && !recording.contains(&base64), "{recording}");
}

#[test]
fn copies_by_kubectl_and_operator_fields_are_redacted_for_every_kind() {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Shop", "spec": {"token": {"value": "t-123456", "age": 7}, "size": 3},
        "metadata": {"name": "s", "annotations": {LAST_APPLIED: "{\"spec\":{\"token\":\"t-123456\"}}", "other": "kept"}},
    });
    let recording = redacted(call(vec![applies(&object)]));
    let text = recording["imports"][0]["args"]["object"].as_str().expect("a text");
    let object: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&object["spec"]["size"], &object["spec"]["token"]["age"]), (&json!(3), &json!(0)));
    assert_eq!(object["metadata"]["annotations"]["other"], "kept");
    assert!(!recording.to_string().contains("t-123456"), "{recording}");
}

#[test]
fn secrets_in_lists_and_texts_are_found_but_foreign_kinds_are_kept() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [secret("hunter2")]});
    let foreign = json!({"apiVersion": "example.com/v1", "kind": "Secret", "metadata": {"name": "f"}, "data": {"a": "plain-value"}});
    let recording = redacted(call(vec![
        json!({"import": "http.fetch", "args": {"url": "https://h"}, "answer": {"ok": {"status": 200, "headers": [], "body": {"text": list.to_string()}}}}),
        applies(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"m": secret("hunter4").to_string()}})),
        applies(&foreign),
    ]))
    .to_string();
    for password in ["hunter2", "hunter4"] {
        assert!(!recording.contains(&STANDARD.encode(password)), "{recording}");
    }
    assert!(recording.contains("plain-value"));
}

#[test]
fn secrets_of_the_configuration_are_redacted() {
    let mut recording = call(vec![]);
    recording["request"]["config"] =
        json!({"smtp": {"password": "a\"quoted\" one", "host": "mail"}}).to_string().into();
    Redactor::new(vec![]).redact(&mut recording, &[Arc::from("a\"quoted\" one")]);
    let config = recording["request"]["config"].as_str().expect("a text");
    assert!(!config.contains("quoted") && config.contains("mail"), "{config}");
    assert!(serde_json::from_str::<Value>(config).is_ok());
}

#[test]
fn the_seed_is_dropped_if_a_secret_may_be_derived_from_it() {
    let new = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": "made-up"}});
    assert_eq!(redacted(call(vec![applies(&new)]))["surroundings"], json!({}));
    let copied = vec![reads(&secret("hunter2").to_string()), applies(&secret("hunter2"))];
    assert_eq!(redacted(call(copied))["surroundings"]["seed"], "00");
}

#[test]
fn tokens_are_redacted_from_every_source() {
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "status": {"token": "eyJ-requested"}});
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "eyJ-reviewed"}});
    let recording = redacted(call(vec![applies(&request), applies(&review)])).to_string();
    assert!(!recording.contains("eyJ-"), "{recording}");
}

#[test]
fn a_pointer_for_config_maps_reveals_no_secret() {
    let mut recording = call(vec![
        reads(&secret("hunter22").to_string()),
        json!({"import": "events.emit", "args": {"note": "used hunter22"}, "answer": {"ok": null}}),
    ]);
    Redactor::new(vec!["/data/*".to_owned(), "/data/password".to_owned()]).redact(&mut recording, &[]);
    assert!(!recording.to_string().contains("hunter22"), "{recording}");
}

#[test]
fn an_unreadable_secret_is_hidden_whole() {
    let target = json!({"apiVersion": "v1", "kind": "Secret", "namespace": "prod", "name": "db"});
    for patch in [r#"{"stringData":{"a":"hunter22"},}"#, r#"{"stringData":{"a":"hunter22"},"stringData":{}}"#] {
        let args = json!({"target": target, "type": "merge", "patch": patch, "options": {}});
        let recording = redacted(call(vec![json!({"import": "writes.patch", "args": args})])).to_string();
        assert!(!recording.contains("hunter22") && recording.contains("merge"), "{recording}");
    }
    let args =
        json!({"target": target, "type": "merge", "patch": r#"{"kind":"Secret","stringData":{"a":"hunter22"}}"#});
    let recording = redacted(call(vec![json!({"import": "writes.patch", "args": args})])).to_string();
    assert!(!recording.contains("hunter22"), "{recording}");
}

#[test]
fn a_short_secret_of_the_configuration_is_redacted_in_place() {
    let mut recording = call(vec![]);
    recording["request"]["config"] = json!({"smtp": {"password": "abc", "host": "abc.example"}}).to_string().into();
    Redactor::new(vec![]).redact(&mut recording, &[Arc::from("abc")]);
    let config = recording["request"]["config"].as_str().expect("a text");
    assert!(!config.contains("\"abc\"") && config.contains("abc.example"), "{config}");
}

#[test]
fn bodies_are_decoded_before_they_are_redacted() {
    let body = |text: &str| json!({"base64": STANDARD.encode(text)});
    let fetch = json!({
        "import": "http.fetch", "args": {"method": "POST", "url": "https://h", "body": body("password=hunter22")},
        "answer": {"ok": {"status": 200, "headers": [["location", "https://t0ken@h"]], "body": body("fine")}},
    });
    let recording = redacted(call(vec![reads(&secret("hunter22").to_string()), fetch]));
    let sent = recording["imports"][1]["args"]["body"]["base64"].as_str().expect("still bytes");
    let sent = String::from_utf8(STANDARD.decode(sent).expect("Base64")).expect("text");
    assert!(sent.starts_with("password=<redacted:"), "{sent}");
    assert_eq!(recording["imports"][1]["answer"]["ok"]["body"], body("fine"));
    assert!(!recording.to_string().contains("t0ken"), "{recording}");
}

#[test]
fn a_call_with_too_many_secrets_is_not_recorded() {
    let data: serde_json::Map<_, _> =
        (0..=SECRETS_MAX).map(|it| (it.to_string(), STANDARD.encode(format!("value-{it}")).into())).collect();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": data});
    let mut call = call(vec![reads(&secret.to_string())]);
    assert!(!Redactor::new(vec![]).redact(&mut call, &[]));
}

#[test]
fn a_call_that_takes_too_long_to_redact_is_not_recorded() {
    let secrets: Vec<Arc<str>> = (0..SECRETS_MAX).map(|it| format!("value-{it:08}").into()).collect();
    let says = |length: usize| call(vec![json!({"import": "log", "args": {"message": "a".repeat(length)}})]);
    assert!(Redactor::new(vec![]).redact(&mut says(100), &secrets));
    assert!(!Redactor::new(vec![]).redact(&mut says(8 << 20), &secrets));
}

#[test]
fn redacting_again_refuses_the_same_calls() {
    let recorded = |secrets: usize| -> RecordedCall {
        let data: serde_json::Map<_, _> =
            (0..secrets).map(|it| (it.to_string(), STANDARD.encode(format!("value-{it}")).into())).collect();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": data});
        serde_json::from_value(json!({
            "component": {"plugin": "webapp", "digest": "605a", "interface": "0.2.0", "file": "webapp.wasm"},
            "export": "reconcile", "began": "2026-01-01T00:00:00Z",
            "request": {
                "controller": "web", "apiVersion": "v1", "kind": "ConfigMap", "name": "shop", "deleting": false, "attempt": 1,
                "traceId": "1", "triggers": [], "config": "{}",
            },
            "surroundings": {"now": [], "monotonic": [], "seed": "00"},
            "imports": [reads(&secret.to_string())], "result": {"done": true}, "used": {"cpuUs": 1, "wallUs": 1},
        }))
        .expect("a call")
    };
    let redactor = Redactor::of_replay(vec![]);
    assert!(redactor.redact_again(&recorded(1)).is_some());
    assert_eq!(redactor.redact_again(&recorded(SECRETS_MAX + 1)), None);
}

#[test]
fn names_are_kept_even_if_a_secret_contains_them() {
    let imports = vec![
        reads(&secret("prod-namespace").to_string()),
        json!({"import": "cache.get", "args": {"target": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "prod-namespace", "name": "a"}}}),
    ];
    assert_eq!(redacted(call(imports))["imports"][1]["args"]["target"]["namespace"], "prod-namespace");
}

fn patches(kind: &str, form: &str, patch: &str) -> Value {
    let target = json!({"apiVersion": "v1", "kind": kind, "namespace": "prod", "name": "db"});
    json!({"import": "writes.patch", "args": {"target": target, "type": form, "patch": patch, "options": {}}})
}

fn fetches(headers: &Value, body: &str) -> Value {
    let body = json!({"text": body});
    json!({
        "import": "http.fetch", "args": {"method": "POST", "url": "https://h", "headers": headers, "body": body},
        "answer": {"ok": {"status": 200, "headers": headers, "body": body}},
    })
}

/// The redacted recording of a call with this import.
fn recording_of(import: Value) -> String {
    redacted(call(vec![import])).to_string()
}

#[test]
fn copies_of_objects_are_redacted_anywhere_in_a_patch() {
    let copy = r#"{"data":{"password":"aHVudGVyMjI="},"plain":"hunter22"}"#;
    for (path, value) in [
        ("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration", json!(copy)),
        ("/metadata/annotations", json!({LAST_APPLIED: copy, "other": "kept"})),
        ("/metadata", json!({"annotations": {LAST_APPLIED: copy}})),
        ("", json!({"metadata": {"annotations": {LAST_APPLIED: copy}}})),
        ("/metadata/annotations/objectset.rio.cattle.io~1applied", json!(copy)),
        ("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration", json!({"data": "hunter22"})),
    ] {
        for kind in ["ConfigMap", "Secret"] {
            let patch = json!([{"op": "add", "path": path, "value": value}]).to_string();
            let recording = recording_of(patches(kind, "json", &patch.replace("last-", "l\\u0061st-")));
            assert!(!recording.contains("hunter22") && !recording.contains("aHVudGVyMjI"), "{path}: {recording}");
            assert!(path != "/metadata/annotations" || kind == "Secret" || recording.contains("kept"), "{recording}");
        }
    }
    let merge = json!({"metadata": {"annotations": {LAST_APPLIED: copy}}}).to_string();
    for form in ["merge", "strategic"] {
        assert!(!recording_of(patches("ConfigMap", form, &merge)).contains("hunter22"));
    }
}

#[test]
fn a_secret_that_is_not_json_becomes_a_digest_with_a_length() {
    let yaml = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData:\n  password: hunter22\n";
    for import in [
        json!({"import": "writes.apply", "args": {"object": yaml, "options": {}}}),
        json!({"import": "writes.create", "args": {"object": r#"{"kind":"Secret","stringData":{"a":"hunter22"},}"#}}),
        json!({"import": "writes.apply", "args": {"object": "password: hunter22"}}),
        patches("Secret", "merge", "stringData:\n  password: hunter22\n"),
        patches("Secret", "merge", "data: {password: aHVudGVyMjI=}"),
        json!({"import": "live.get", "args": {}, "answer": {"ok": yaml}}),
        json!({"import": "live.list", "args": {}, "answer": {"ok": {"items": [yaml]}}}),
        json!({"import": "live.log", "args": {}, "answer": {"ok": format!("config is\n{yaml}")}}),
        json!({"import": "writes.batch", "args": {"operations": [{"import": "writes.apply", "object": yaml}]}, "answer": {"ok": [{"ok": yaml}]}}),
        applies(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"secret.yaml": yaml}})),
        json!({"import": "events.emit", "args": {"note": format!("cannot apply {yaml:?}")}, "answer": {"ok": null}}),
        json!({"import": "writes.create", "args": {"object": "{}"}, "answer": {"error": {"message": format!("cannot decode {yaml:?}")}}}),
    ] {
        let recording = recording_of(import.clone());
        assert!(!recording.contains("hunter22") && !recording.contains("aHVudGVyMjI"), "{import}: {recording}");
        assert!(recording.contains(" bytes>"), "{recording}");
    }
    let mut failed = call(vec![]);
    failed["result"] = json!({"failed": [{"terminal": format!("refused: {yaml}")}]});
    assert!(!redacted(failed).to_string().contains("hunter22"));
    let mut composed = call(vec![]);
    composed["result"] = json!({"composed": {"children": [yaml], "status": "password: hunter22"}});
    assert!(!redacted(composed).to_string().contains("hunter22"));
}

#[test]
fn malformed_secrets_are_redacted() {
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "data": "hunter22"}),
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": ["hunter22"]}),
        json!({"apiVersion": "v1", "kind": "Secret", "Data": {"a": "hunter22"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": "hunter22"}),
        json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": {"b": "hunter22"}}}),
        json!({"kind": "Secret", "stringData": {"a": "hunter22"}}),
        json!({"apiVersion": "V1", "kind": "secret", "stringData": {"a": "hunter22"}}),
        json!({"apiVersion": "v1", "kind": "SecretList", "items": [{"metadata": {"name": "a"}, "data": {"a": "hunter22"}}]}),
        json!([{"apiVersion": "v1", "kind": "Secret", "data": {"a": "hunter22"}}]),
    ] {
        assert!(!recording_of(applies(&object)).contains("hunter22"), "{object}");
    }
    let twice = r#"{"apiVersion":"v1","kind":"Secret","data":{"a":"aHVudGVyMjI="},"data":{}}"#;
    assert!(!recording_of(json!({"import": "writes.create", "args": {"object": twice}})).contains("aHVudGVyMjI"));
    for patch in [
        json!([{"op": "add", "value": {"data": {"a": "hunter22"}}}]),
        json!(["hunter22"]),
        json!([{"op": "add", "path": "data/a", "value": "hunter22"}]),
        json!([{"op": "add", "path": "", "value": "hunter22"}]),
        json!([{"op": "add", "path": "/a".repeat(5_000), "value": "hunter22"}]),
        json!({"op": "add", "path": "/data/a", "value": "hunter22"}),
    ] {
        assert!(!recording_of(patches("Secret", "json", &patch.to_string())).contains("hunter22"), "{patch}");
    }
}

#[test]
fn references_to_secrets_are_kept() {
    let reference = json!({"kind": "Secret", "name": "db", "namespace": "prod", "fieldPath": "data.password"});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": reference});
    assert_eq!(redacted(call(vec![applies(&event)])), call(vec![applies(&event)]));
}

#[test]
fn secrets_in_http_bodies_are_redacted_in_each_encoding() {
    let secret = secret("hunter22").to_string();
    let watch = format!(
        "{}\n{}\n",
        json!({"type": "ADDED", "object": secret}),
        json!({"type": "BOOKMARK", "object": {"kept": 1}})
    );
    let redacted_watch = recording_of(fetches(&json!([]), &watch.replace("\\\"", "\\u0022")));
    assert!(!redacted_watch.contains("aHVudGVyMjI") && redacted_watch.contains("kept"), "{redacted_watch}");
    for body in [
        format!("{{\"type\":\"ADDED\",\"object\":{secret}}}\n{{\"type\":\"ADDED\",\"object\":{secret}}}\n"),
        format!("--x\r\nContent-Type: application/json\r\n\r\n{secret}\r\n--x--\r\n"),
        format!("{secret}{secret}"),
        format!("---\napiVersion: v1\nkind: Secret\ndata: {{password: {}}}\n", STANDARD.encode("hunter22")),
        format!("k8s\0\n\x0c\n\x02v1\x12\x06Secret {} hunter22", STANDARD.encode("hunter22")),
    ] {
        let recording = recording_of(fetches(&json!([]), &body));
        assert!(!recording.contains("hunter22") && !recording.contains("aHVudGVyMjI"), "{body}: {recording}");
    }
    let form = json!([["Content-Type", "application/x-www-form-urlencoded"]]);
    let redacted_form = recording_of(fetches(&form, "client_id=shop&client_secret=hunter22"));
    assert!(!redacted_form.contains("hunter22") && redacted_form.contains("client_id=shop"), "{redacted_form}");
    let parts = json!([["content-type", "multipart/form-data; boundary=x"]]);
    let body = "--x\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nhunter22\r\n--x--";
    assert!(!recording_of(fetches(&parts, body)).contains("hunter22"));
}

#[test]
fn binary_bodies_become_a_digest_and_a_length() {
    let bytes = [b"\x1f\x8b\xff".as_slice(), b"hunter22"].concat();
    let mut fetch = fetches(&json!([]), "");
    fetch["args"]["body"] = json!({"base64": STANDARD.encode(&bytes)});
    let recording = redacted(call(vec![fetch]));
    let sent = recording["imports"][0]["args"]["body"]["base64"].as_str().expect("still bytes");
    let sent = String::from_utf8(STANDARD.decode(sent).expect("Base64")).expect("a marker");
    assert!(sent.starts_with("<redacted:") && sent.ends_with(", 11 bytes>"), "{sent}");
}

#[test]
fn credentials_in_the_urls_of_headers_are_redacted() {
    let headers = json!([
        ["Location", "https://me:hunter22@h/p?page=2"],
        ["Referer", "https://h/p?X-Amz-Signature=hunter22&X-Amz-Date=kept"],
        ["Link", "<https://h/p?sig=hunter22>; rel=\"next\", </q?access_token=hunter22>; rel=\"kept\""],
        ["Refresh", "0; url=/p?token=hunter22"],
        ["X-Next", "https://h/?next=https%3A%2F%2Fme%3Ahunter22%40h"],
    ]);
    let recording = recording_of(fetches(&headers, "and so to hunter22"));
    assert!(
        !recording.contains("hunter22") && recording.contains("page=2") && recording.contains("kept"),
        "{recording}"
    );
}

#[test]
fn secrets_inside_a_secret_are_redacted_elsewhere_too() {
    let docker = json!({"auths": {"r.example": {
        "username": "robot", "password": "pull-pass", "auth": STANDARD.encode("robot:other-pass"), "identitytoken": "identity",
    }}});
    let kubeconfig = "kind: Config\nusers:\n- user: {token: \"kube-token\"}\n";
    let pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----\n";
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
        "data": {".dockerconfigjson": STANDARD.encode(docker.to_string()), "kubeconfig": STANDARD.encode(kubeconfig)},
        "stringData": {"tls.key": pem},
    });
    let basic = |password: &str| STANDARD.encode(format!("robot:{password}"));
    let recording = redacted(call(vec![
        reads(&secret.to_string()),
        fetches(
            &json!([["X-Registry-Config", basic("pull-pass")]]),
            "password is pull-pass, or other-pass, with identity",
        ),
        json!({"import": "events.emit", "args": {"note": "kube-token failed"}, "answer": {"ok": null}}),
        json!({"import": "metrics.record", "args": {"name": "a", "labels": [["password", "pull-pass"]]}}),
        applies(
            &json!({"kind": "ConfigMap", "data": {"key": pem.replace('\n', "\r\n  "), "key64": STANDARD.encode(pem)}}),
        ),
    ]))
    .to_string();
    for secret in ["pull-pass", "other-pass", "kube-token", "with identity", "MIIEvQIB", "BKcwggSj", "cHVsbC1wYXNz"] {
        assert!(!recording.contains(secret), "{secret}: {recording}");
    }
    assert!(!recording.contains(&STANDARD.encode(pem)[..60]), "{recording}");
}

#[test]
fn redacting_again_changes_nothing() {
    let recording = redacted(call(vec![
        reads(&secret("hunter22").to_string()),
        applies(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"url": "x://u:hunter22@h", "b": STANDARD.encode("hunter22")}}),
        ),
        fetches(
            &json!([["Location", "https://me:hunter22@h?sig=1"], ["Authorization", "Bearer hunter22"]]),
            "kind: Secret\ndata: {}",
        ),
        json!({"import": "writes.apply", "args": {"object": "kind: Secret"}}),
    ]));
    let mut again = recording.clone();
    Redactor::of_replay(vec!["/spec/token".to_owned()]).redact(&mut again, &[]);
    assert!(same(&recording, &again), "{recording}\n{again}");
}
