//! Tests caches that keep a digest of values instead of the values.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::cache::predicate::{Predicate, passes};
use windlass_core::cache::watch::{Projection, WatchEvent, WatchSpec};
use windlass_kube::{Discovery, Informers};

use crate::script::{Reply, Script, key, line, list, pod, pods};

fn secret(version: u32, data: &Value, label: &str) -> Value {
    let mut pod = pod("a", "u", version);
    pod["metadata"]["labels"] = json!({"tier": label});
    pod["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": data.to_string()});
    pod["data"] = data.clone();
    pod
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_digested_values_is_an_event_that_passes() {
    let data = |password: &str| json!({"user": "u", "password": password});
    let script = Script::default().lists([list(10, &[secret(5, &data("hunter1"), "a")])]).watches([Reply::Open(vec![
        line("MODIFIED", &secret(11, &data("hunter1"), "b")),
        line("MODIFIED", &secret(12, &data("hunter2"), "b")),
    ])]);
    let client = script.client();
    let informers = Informers::new(client.clone(), Discovery::new(client));
    let projection = Projection::Digest([Arc::from("/data")].into());
    let mut subscription = informers.subscribe(WatchSpec { projection, ..pods() });
    let predicates = [Predicate::Fields(vec!["/digest".into()])];
    let mut passed = Vec::new();
    for _ in 0..3 {
        let Some(WatchEvent::Applied { old, new, .. }) = subscription.next().await else { panic!("an applied object") };
        assert!(!new.text().contains("hunter") && new.text().contains(r#""digest":"sha256:"#), "{}", new.text());
        passed.push(old.is_none_or(|old| passes(&predicates, &old, &new)));
    }
    assert_eq!(passed, [true, false, true]);
    let kept: Value =
        serde_json::from_str(&subscription.store().get(&key("a")).expect("in the store").text()).expect("JSON");
    let fields: Vec<_> = kept.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(fields, ["apiVersion", "digest", "kind", "metadata"]);
    assert!(script.asked()[1].accept == "application/json", "the server does not digest");
}
