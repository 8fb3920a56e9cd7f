//! Plugins of each version of the interface, as the host links and calls them. The guests lay out their answers as the
//! canonical ABI does for the types of their version.

use crate::support;

use std::sync::Arc;
use std::time::Duration;

use support::guests::{Core, MANIFEST};
use support::ports::{FakePorts, WriteMode, quiet};
use support::{call_of, load, load_error, reconcile, sandbox};
use windlass_core::cache::mapping::Target;
use windlass_core::call::compose::Composition;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::{CallResult, Requeue};
use windlass_wasm::{AbiVersion, CallLimits, ChangeBatch, CompositionRequest, Limits, ObjectChange, Plugin, Request};

const RECONCILER: &str = "reconciler-plugin";
const MAPPER: &str = "mapping-reconciler-plugin";
const COMPOSER: &str = "composer-plugin";

/// Instructions that store bytes and words, each at its address.
fn stored(bytes: &[(u32, u32)], words: &[(u32, u32)]) -> String {
    let bytes = bytes.iter().map(|(at, byte)| format!("(i32.store8 (i32.const {at}) (i32.const {byte}))"));
    let words = words.iter().map(|(at, word)| format!("(i32.store (i32.const {at}) (i32.const {word}))"));
    bytes.chain(words).collect()
}

async fn loaded(guest: &Core) -> Arc<Plugin> {
    load(&sandbox(Limits::default()), "guest", &guest.component()).await.expect("it loads")
}

async fn answered(guest: Core) -> CallResult {
    reconcile(&loaded(&guest).await, &quiet()).await
}

/// A guest whose `reconcile` or `compose` stores its answer, at 512.
fn answering(bytes: &[(u32, u32)], words: &[(u32, u32)]) -> Core {
    Core { reconcile: stored(bytes, words), ..Core::default() }
}

#[tokio::test]
async fn an_outcome_of_each_version_asks_to_run_again() {
    let old = answering(&[(516, 1)], &[(520, 1_234)]).of_0_2_0(RECONCILER);
    assert_eq!(loaded(&old).await.abi(), AbiVersion::V0_2_0);
    assert_eq!(answered(old).await, CallResult::RequeueAfter(Duration::from_millis(1_234)));
    let new = answering(&[(516, 1)], &[(524, 1_234)]);
    assert_eq!(loaded(&new).await.abi(), AbiVersion::V0_3_0);
    assert_eq!(answered(new).await, CallResult::RequeueAfter(Duration::from_millis(1_234)));
    assert_eq!(answered(answering(&[(516, 1), (520, 1)], &[])).await, CallResult::RequeueBackoff);
}

/// Creates the object `{"a":1}` with options that begin at 3208, and asks to run again after as many milliseconds as
/// the answer has bytes.
fn creating(options: &str, answer_at: u32) -> Core {
    Core {
        imports: r#"(import "windlass:plugin/writes@0.3.0" "create" (func $create (param i32 i32)))"#.to_owned(),
        items: r#"(data (i32.const 3072) "{\"a\":1}")"#.to_owned(),
        reconcile: format!(
            "{} {options} (call $create (i32.const 3200) (i32.const 1024))
            (if (i32.load8_u (i32.const 1024)) (then unreachable))
            (i32.store8 (i32.const 516) (i32.const 1))
            (i32.store (i32.const {answer_at}) (i32.load (i32.const 1032)))",
            stored(&[], &[(3200, 3072), (3204, 7)])
        ),
        ..Core::default()
    }
}

#[tokio::test]
async fn a_write_returns_the_fields_that_it_names_and_in_0_2_0_the_whole_object() {
    let bytes = async |guest: Core| {
        let ports = FakePorts::with_writes(WriteMode::Echo);
        let result = reconcile(&loaded(&guest).await, &ports.ports()).await;
        let written = ports.written.lock().expect("not poisoned").remove(0);
        (result, written.options().expect("a create").fields.clone())
    };
    let again = |bytes| CallResult::RequeueAfter(Duration::from_millis(bytes));
    assert_eq!(bytes(creating("", 520).of_0_2_0(RECONCILER)).await, (again(7), None));
    assert_eq!(bytes(creating("", 524)).await, (again(7), None));
    // An empty list of fields selects only the fields that identify the object, and this object has none of them.
    let identity = stored(&[(3312, 1)], &[]);
    assert_eq!(bytes(creating(&identity, 524)).await, (again(2), Some(vec![])));
}

fn parent(plugin: &Plugin) -> CompositionRequest {
    CompositionRequest {
        request: Request {
            controller: plugin.manifest().controllers[0].name.as_str().into(),
            key: ObjectKey::namespaced("prod", "shop"),
            uid: None,
            object: None,
            deleting: false,
            attempt: 0,
            trace_id: "0".into(),
        },
        parent: "{}".into(),
        children: vec![],
        related: vec![],
        config: "{}".into(),
    }
}

async fn composed(guest: Core) -> Composition {
    let plugin = loaded(&guest).await;
    let call = call_of(&plugin, &ObjectKey::namespaced("prod", "shop"));
    plugin.compose(parent(&plugin), call, CallLimits::default()).await.answer.expect("it composes")
}

#[tokio::test]
async fn a_composition_of_each_version_arrives_whole() {
    let old = composed(answering(&[(544, 1), (552, 1)], &[(548, 5)]).of_0_2_0(COMPOSER)).await;
    let after = Some(Requeue::After(Duration::from_millis(5)));
    assert_eq!((old.requeue, old.allow_empty, old.finalized), (after, true, false));
    let composer = |bytes: &[(u32, u32)], words: &[(u32, u32)]| Core { world: COMPOSER, ..answering(bytes, words) };
    let new = composed(composer(&[(544, 1), (557, 1)], &[(552, 5)])).await;
    assert_eq!((new.requeue, new.allow_empty, new.finalized), (after, false, true));
    assert_eq!(composed(composer(&[(544, 1), (548, 1)], &[])).await.requeue, Some(Requeue::Backoff));
}

/// A mapper that answers for one change: it concerns the cluster-scoped primary `ConfigMap`.
const MAP: &str = r#"
    (data (i32.const 768) "\00\00\00\00\20\03\00\00\01\00\00\00")
    (data (i32.const 800) "\30\03\00\00\01\00\00\00")
    (data (i32.const 816) "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\02\08\00\00\09\00\00\00")
    (func (export "windlass:plugin/mapper@0.3.0#map") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 768))"#;

/// The predicate of that mapper: the change does not pass.
const MATCHES: &str = r#"
    (data (i32.const 900) "\00\00\00\00\90\03\00\00\01\00\00\00")
    (func (export "windlass:plugin/mapper@0.3.0#matches") (param i32 i32 i32 i32 i32 i32) (result i32) (i32.const 900))"#;

fn mapping(items: &str) -> Core {
    Core { items: items.to_owned(), world: MAPPER, ..Core::default() }
}

async fn asked(plugin: &Arc<Plugin>) -> (Result<Vec<Vec<Target>>, CallResult>, Result<Vec<bool>, CallResult>) {
    let change = ObjectChange { old: None, new: Some("{}".into()) };
    let batch = ChangeBatch { controller: "guest".into(), watch: "pods".into(), changes: vec![change] };
    let call = || call_of(plugin, &ObjectKey::cluster(""));
    let reads = quiet().reads;
    let mapped = plugin.map(batch.clone(), reads.clone(), call(), CallLimits::default()).await;
    (mapped.answer, plugin.matches(batch, reads, call(), CallLimits::default()).await.answer)
}

#[tokio::test]
async fn a_mapper_of_each_version_maps_and_only_the_newer_has_a_predicate() {
    let target = vec![vec![Target::Primary(ObjectKey::cluster("ConfigMap"))]];
    let new = loaded(&mapping(&[MAP, MATCHES].concat())).await;
    assert_eq!(asked(&new).await, (Ok(target.clone()), Ok(vec![false])));
    let old = loaded(&mapping(MAP).of_0_2_0(MAPPER)).await;
    let (mapped, matched) = asked(&old).await;
    assert_eq!(mapped, Ok(target));
    assert!(matched.expect_err("it has none").failure().contains("`matches`"));
}

#[tokio::test]
async fn a_predicate_by_code_is_refused_of_a_mapper_without_one() {
    let manifest = MANIFEST.replace(
        r#""kind":"ConfigMap"}}"#,
        r#""kind":"ConfigMap"},"watches":[{"name":"pods","apiVersion":"v1","kind":"Pod","mapping":{"type":"mapper"},"codePredicate":true}]}"#,
    );
    let guest = |items: &str| Core { manifest: manifest.clone(), ..mapping(items) };
    loaded(&guest(&[MAP, MATCHES].concat())).await;
    let error = load_error("guest", &guest(MAP).of_0_2_0(MAPPER).component()).await;
    for part in ["controllers[0].watches[0].codePredicate", "0.2.0", "0.3.0"] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
}

#[tokio::test]
async fn the_versions_of_an_export_and_of_an_import_cannot_differ() {
    let component = |import: &str, export: &str| {
        let export = format!(r#"(instance $i) (export "windlass:plugin/reconciler@{export}" (instance $i))"#);
        let import = format!(r#"(import "windlass:plugin/log@{import}" (instance))"#);
        wat::parse_str(format!("(component {import} {export})")).expect("well-formed")
    };
    for (import, export) in [("0.2.0", "0.3.0"), ("0.3.0", "0.2.0")] {
        let error = load_error("guest", &component(import, export)).await;
        assert!(error.contains(&format!("exports a plugin of version {export}")), "{error}");
        assert!(error.contains(&format!("`windlass:plugin/log@{import}`")), "{error}");
    }
}
