//! A composer that a test controls through the parent's spec, and by patching the component's bytes. The README says
//! how.

use std::hint::black_box;

use serde_json::{Value, json};
use windlass_sdk::bindings::composer::exports::windlass::plugin::composer::{Composition, CompositionRequest, Guest};
use windlass_sdk::bindings::customize::exports::windlass::plugin::customize::{self, RelatedRule};
use windlass_sdk::bindings::windlass::plugin::types::{Event, EventType, Failure, Request, Requeue};
use windlass_sdk::manifest::{Controller, IndexSource, Manifest, Mapping, Options, UpdateStrategy, Watch};
use windlass_sdk::{clock, config, error, info, random};

const API_VERSION: &str = "tests.windlass.dev/v1";
/// The annotation that names the parent of a related `ConfigMap`.
const FOR: &str = "tests.windlass.dev/for";
/// A deadline that is long for the composer's work, but short for a test of endless work.
const COMPOSER_DEADLINE_MS: u32 = 2_000;

/// The marker that a test finds exactly once in the component's bytes. The test replaces it with the same prefix and
/// another version, padded with dots to the same length.
static MARKER: [u8; 30] = *b"COMPOSER-OWNS=all.............";
/// The version that owns only `ConfigMap`s.
const ONLY_MAPS: &[u8] = b"COMPOSER-OWNS=maps.";
/// The version with the option `finalizer`.
const FINALIZES: &[u8] = b"COMPOSER-OWNS=ends.";

/// The version with a customizer for Secrets.
const CUSTOMIZES: &[u8] = b"COMPOSER-OWNS=asks.";

/// The version whose parents are Namespaces, which have an annotation instead of a `spec`.
const DECORATES: &[u8] = b"COMPOSER-OWNS=deco.";
/// The annotation, and the label of the Namespaces that are parents.
const SPEC: &str = "tests.windlass.dev/spec";
const DECORATED: &str = "tests.windlass.dev/decorated";

struct Composer;

windlass_sdk::export_composer_guest!(Composer);
#[cfg(target_arch = "wasm32")]
windlass_sdk::bindings::customize::export!(Composer with_types_in windlass_sdk::bindings::customize);

impl customize::Guest for Composer {
    fn customize(request: Request) -> Result<Vec<RelatedRule>, Vec<Failure>> {
        let parent = request.object.expect("it is asked about a parent");
        let parent: Value = serde_json::from_str(&parent).expect("the parent is JSON");
        if parent["spec"]["misbehave"] == "rules" {
            return Err(vec![failure("composer: told to have no rules for now", false)]);
        }
        Ok(parent["spec"]["rules"].as_array().into_iter().flatten().map(rule).collect())
    }
}

fn rule(rule: &Value) -> RelatedRule {
    let text = |field: &str| rule[field].as_str().map(str::to_owned);
    RelatedRule {
        watch: text("watch").unwrap_or_else(|| "secrets".to_owned()),
        namespace: text("namespace"),
        names: rule["names"].as_array().into_iter().flatten().map(raw).collect(),
        label_selector: text("labelSelector"),
    }
}

impl Guest for Composer {
    fn describe() -> String {
        let secret = IndexSource::Field { pointer: "/spec/secret".into() };
        // Without the black box, the compiler would evaluate the marker at build time.
        let marker = black_box(&MARKER);
        if marker.starts_with(DECORATES) {
            let namespaces = Watch::of("v1", "Namespace").labels(DECORATED);
            let controller = Controller::new("composites", namespaces).owns(Watch::of("v1", "ConfigMap"));
            let manifest = Manifest::new("composer", "0.5.0").controller(controller);
            return serde_json::to_string(&manifest).expect("it serializes");
        }
        let customizes = marker.starts_with(CUSTOMIZES);
        let mapping = if customizes { Mapping::Customize } else { Mapping::ReferencedBy { index: "secret".into() } };
        let secrets = Watch::of("v1", "Secret").named("secrets");
        let secrets = if customizes { secrets.call_fields(["/data"]) } else { secrets };
        let controller = Controller::new("composites", Watch::of(API_VERSION, "Composite").index("secret", secret))
            .owns(Watch::of("v1", "ConfigMap"))
            .watches(Watch::of("v1", "ConfigMap").labels(FOR), Mapping::Label { key: FOR.into() })
            .watches(secrets, mapping)
            .options(Options { deadline_ms: Some(COMPOSER_DEADLINE_MS), ..Options::default() });
        let manifest = if customizes {
            Manifest::new("composer", "0.4.0").controller(controller)
        } else if marker.starts_with(FINALIZES) {
            Manifest::new("composer", "0.3.0").controller(controller.finalizer())
        } else if marker.starts_with(ONLY_MAPS) {
            Manifest::new("composer", "0.2.0").controller(controller)
        } else {
            let secrets = Watch::of("v1", "Secret").update_strategy(UpdateStrategy::Recreate);
            let services = Watch::of("v1", "Service").update_strategy(UpdateStrategy::OnDelete);
            Manifest::new("composer", "0.1.0").controller(controller.owns(secrets).owns(services))
        };
        serde_json::to_string(&manifest).expect("it serializes")
    }

    fn compose(request: CompositionRequest) -> Result<Composition, Vec<Failure>> {
        let mut parent: Value = serde_json::from_str(&request.parent).expect("the parent is JSON");
        if let Some(spec) = parent["metadata"]["annotations"][SPEC].as_str() {
            parent["spec"] = serde_json::from_str(spec).expect("the annotation is JSON");
        }
        let spec = &parent["spec"];
        info!("composing", generation = parent["metadata"]["generation"]);
        match spec["misbehave"].as_str() {
            Some("trap") => {
                error!("composer: told to trap");
                unreachable!("it traps");
            }
            Some("loop") => spin(),
            Some("devour") => devour(),
            Some("transient") => return Err(vec![failure("composer: told to fail for now", false)]),
            Some("terminal") => return Err(vec![failure("composer: told to fail for good", true)]),
            Some("silent") => return Err(vec![]),
            _ => {}
        }
        let asked = if request.request.deleting { "lastChildren" } else { "children" };
        let mut children: Vec<String> = spec[asked].as_array().into_iter().flatten().map(raw).collect();
        children.extend((0..spec["count"].as_u64().unwrap_or(0)).map(|at| map(&format!("many-{at}"), &json!({}))));
        if spec["draw"] == true {
            children.push(map("drawn", &drawn()));
        }
        if spec["copy"] == true {
            children.push(map("copied", &copied(&request)));
        }
        Ok(Composition {
            children,
            status: spec.get("status").map(raw),
            events: spec["events"].as_array().into_iter().flatten().map(event).collect(),
            requeue: requeue(spec),
            allow_empty: spec["allowEmpty"] == true,
            finalized: spec["finalized"] == true,
        })
    }
}

fn requeue(spec: &Value) -> Option<Requeue> {
    let after = spec["requeueAfterMs"].as_u64().map(|ms| Requeue::AfterMs(u32::try_from(ms).expect("it is small")));
    after.or((spec["requeueBackoff"] == true).then_some(Requeue::Backoff))
}

fn failure(message: &str, terminal: bool) -> Failure {
    Failure { message: message.into(), api: None, terminal, retry_after_ms: None }
}

/// A string is returned unchanged, so that a test can make the composer return something other than JSON.
fn raw(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn map(name: &str, data: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string()
}

fn drawn() -> Value {
    let standing = clock::now() == clock::now();
    json!({
        "random": format!("{} {:?}", random::number(), random::bytes(4)),
        "clock": if standing { "stands still" } else { "goes on" },
        "config": config::get::<Value>().expect("it is JSON").to_string(),
    })
}

/// The names of the children and of the related objects, the latter with their labels and data.
fn copied(request: &CompositionRequest) -> Value {
    let parse = |text: &String| serde_json::from_str::<Value>(text).expect("it is JSON");
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut children: Vec<String> = request.children.iter().map(|text| name(&parse(text))).collect();
    children.sort();
    let shown = |it: Value| {
        let labels = it.pointer("/metadata/labels").map(|labels| format!(" {labels}")).unwrap_or_default();
        format!("{} {}{labels} {}", it["kind"], name(&it), it["data"])
    };
    let mut related: Vec<String> = request.related.iter().map(parse).map(shown).collect();
    related.sort();
    json!({"children": children.join(","), "related": related.join("\n")})
}

fn event(event: &Value) -> Event {
    let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
    Event {
        regarding: None,
        related: None,
        event_type: if event["type"] == "Warning" { EventType::Warning } else { EventType::Normal },
        reason: text("reason"),
        action: "Compose".into(),
        note: text("note"),
    }
}

fn spin() -> ! {
    loop {
        black_box(());
    }
}

/// Allocates a mebibyte at a time until a limit is reached.
fn devour() -> ! {
    let mut eaten = Vec::new();
    loop {
        eaten.push(black_box(vec![1_u8; 1 << 20]));
    }
}
