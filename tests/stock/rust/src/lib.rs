//! A plugin on the bindings that `wit-bindgen` generates from wit/.

mod requests;

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::time::{SystemTime, UNIX_EPOCH};

use exports::windlass::plugin::reconciler::{Guest, Outcome};
use serde_json::{Value, json};
use windlass::plugin::config;
use windlass::plugin::types::{Failure, Request};
use windlass::plugin::writes::{FieldValidation, WriteOptions, apply};

wit_bindgen::generate!({ path: "../../../host/wasm/wit/v0_2_0", world: "reconciler-plugin" });

const MANIFEST: &str = r#"{"apiVersion":"windlass.dev/v1alpha1","kind":"PluginManifest","name":"stock-rust","version":"0.1.0","controllers":[
{"name":"stock","primary":{"apiVersion":"apps.kubedojo.io/v1beta1","kind":"WebApp"},"owns":[{"apiVersion":"v1","kind":"ConfigMap"}]}],
"config":{"schema":{"type":"object","properties":{"url":{"type":"string"}}}},
"http":[{"scheme":"http","host":"127.0.0.1","port":28765,"methods":["GET","POST"]}]}"#;

const OWNED: WriteOptions = WriteOptions {
    subresource: None,
    resource_version: None,
    owned: true,
    force: false,
    dry_run: false,
    field_validation: FieldValidation::Strict,
    manager_suffix: None,
};

struct Plugin;

export!(Plugin);

impl Guest for Plugin {
    fn describe() -> String {
        MANIFEST.to_owned()
    }

    fn reconcile(request: Request) -> Result<Outcome, Vec<Failure>> {
        let name = request.name;
        let namespace = request.namespace.unwrap_or_default();
        let (file, said) = match File::open("/etc/hostname") {
            Ok(_) => ("opened", "opened".to_owned()),
            Err(error) => ("refused", error.to_string()),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs();
        let drawn = RandomState::new().hash_one(()) as u32;
        println!("for {name} at {now} drew {drawn:08x}, and /etc/hostname: {said}");
        let mut data = json!({"file": file});
        let config: Value = serde_json::from_str(&config::get()).expect("the host checks it");
        if let Some(url) = config["url"].as_str() {
            for (name, answer) in wstd::runtime::block_on(requests::requests(url.to_owned())) {
                data[name] = answer.into();
            }
        }
        let child = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("{name}-stock-rust"), "namespace": namespace}, "data": data,
        });
        let failed =
            |error| vec![Failure { message: String::new(), api: Some(error), terminal: false, retry_after_ms: None }];
        apply(&child.to_string(), &OWNED).map_err(failed)?;
        Ok(Outcome { requeue_after_ms: None })
    }
}
