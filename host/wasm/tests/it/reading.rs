//! Live reads and claims: which of them reach the ports, and how much a call may read.

use crate::support;

use std::sync::Arc;

use support::guests::Core;
use support::ports::FakePorts;
use support::{load, reconcile, sandbox};
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::Limits;

/// Reads `v1 ConfigMap` with the name at an address; the answer is at 1024, and its first byte is 1 for an error.
const GET: &str = r#"(import "windlass:plugin/live@0.3.0" "get" (func $get (param i32 i32)))"#;
/// A name with the length of `v1`.
const NAME: (u32, u32) = (2048, 2);
/// `../../secrets/x`.
const PATH: (u32, u32) = (2059, 15);

/// Reads the object whose name is at an address. The arguments are at 3072. Arguments that are not stored are `none`,
/// and the view is `whole`; the three stored texts are the reference.
fn get((at, length): (u32, u32)) -> String {
    let texts = [(12, 2048, 2), (20, 2050, 9), (40, at, length)];
    let stores = texts.map(|(offset, at, length)| {
        let end = offset + 4;
        format!(
            "(i32.store offset={offset} (i32.const 3072) (i32.const {at}))
             (i32.store offset={end} (i32.const 3072) (i32.const {length}))"
        )
    });
    format!("{} (call $get (i32.const 3072) (i32.const 1024))", stores.concat())
}

fn fails() -> &'static str {
    "(if (i32.eqz (i32.load8_u (i32.const 1024))) (then unreachable))"
}

fn succeeds() -> &'static str {
    "(if (i32.load8_u (i32.const 1024)) (then unreachable))"
}

async fn run(limits: Limits, guest: Core, object: &str) -> (CallResult, Arc<FakePorts>) {
    let plugin = load(&sandbox(limits), "guest", &guest.component()).await.expect("it loads");
    let ports = Arc::new(FakePorts { object: Some(object.into()), ..FakePorts::default() });
    (reconcile(&plugin, &ports.ports()).await, ports)
}

#[tokio::test]
async fn a_call_makes_at_most_its_limit_of_live_reads() {
    let guest = Core {
        imports: GET.to_owned(),
        items: "(global $left (mut i32) (i32.const 3))".to_owned(),
        reconcile: format!(
            "(loop $again {} {} (global.set $left (i32.sub (global.get $left) (i32.const 1)))
               (br_if $again (global.get $left)))
             {} {}",
            get(NAME),
            succeeds(),
            get(NAME),
            fails()
        ),
        ..Core::default()
    };
    let (result, ports) = run(Limits { live_reads: 3, ..Limits::default() }, guest, "{}").await;
    assert_eq!(result, CallResult::Done, "the fourth read is refused, and the guest goes on");
    assert_eq!(ports.live_reads.lock().expect("not poisoned").len(), 3);
}

#[tokio::test]
async fn a_live_read_of_a_name_that_leads_elsewhere_reaches_no_port() {
    let guest = Core { imports: GET.to_owned(), reconcile: get(PATH) + fails(), ..Core::default() };
    let (result, ports) = run(Limits::default(), guest, "{}").await;
    assert_eq!(result, CallResult::Done);
    assert!(ports.live_reads.lock().expect("not poisoned").is_empty());
}

#[tokio::test]
async fn a_live_answer_that_does_not_fit_is_an_error() {
    let guest = Core { imports: GET.to_owned(), reconcile: get(NAME) + fails(), ..Core::default() };
    let (result, _) = run(Limits { response_bytes: 100, ..Limits::default() }, guest, &"x".repeat(101)).await;
    assert_eq!(result, CallResult::Done);
    let guest = Core { imports: GET.to_owned(), reconcile: get(NAME) + succeeds(), ..Core::default() };
    let (result, _) = run(Limits { response_bytes: 100, ..Limits::default() }, guest, &"x".repeat(100)).await;
    assert_eq!(result, CallResult::Done);
}

/// Deletes the `ConfigMap`s with the label `v1`, or all of them if `all`; the answer is at 1024.
fn delete_collection(all: u32) -> String {
    // The collection: api-version, kind, label selector, and `all`.
    let words = [(0, 2048), (4, 2), (8, 2050), (12, 9), (28, 1), (32, 2048), (36, 2), (52, all)];
    let stores = words.map(|(offset, word)| format!("(i32.store offset={offset} (i32.const 3072) (i32.const {word}))"));
    format!("{} (call $delete (i32.const 3072) (i32.const 1024))", stores.concat())
}

#[tokio::test]
async fn a_collection_delete_reaches_the_port_and_returns_names_to_the_guest() {
    let import = r#"(import "windlass:plugin/writes@0.3.0" "delete-collection" (func $delete (param i32 i32)))"#;
    // After the tag: whether the server reports the names, an address, and their number.
    let one = "(if (i32.ne (i32.load8_u offset=4 (i32.const 1024)) (i32.const 1)) (then unreachable))
        (if (i32.ne (i32.load offset=12 (i32.const 1024)) (i32.const 1)) (then unreachable))";
    let guest = Core {
        imports: import.to_owned(),
        reconcile: delete_collection(0) + succeeds() + one + &delete_collection(1) + succeeds(),
        ..Core::default()
    };
    let (result, ports) = run(Limits::default(), guest, "{}").await;
    assert_eq!(result, CallResult::Done);
    let asked = ports.collections.lock().expect("not poisoned");
    assert_eq!(asked.iter().map(|asked| asked.collection.all).collect::<Vec<_>>(), [false, true]);
    assert_eq!(asked[0].collection.label_selector.as_deref(), Some("v1"));
    assert_eq!(asked[0].collection.kind.to_string(), "v1 ConfigMap");
}

#[tokio::test]
async fn a_claim_reaches_the_port_and_its_result_the_guest() {
    let import = r#"(import "windlass:plugin/owners@0.3.0" "claim" (func $claim (param i32 i32 i32 i32 i32 i32 i32)))"#;
    let claim = |selector_length: u32| {
        format!(
            "(call $claim (i32.const 2048) (i32.const 2) (i32.const 2050) (i32.const 9) (i32.const 2048)
              (i32.const {selector_length}) (i32.const 1024))"
        )
    };
    // One adopted, none released: two lists after the tag, each an address and a length.
    let one = "(if (i32.ne (i32.load offset=8 (i32.const 1024)) (i32.const 1)) (then unreachable))
        (if (i32.load offset=16 (i32.const 1024)) (then unreachable))";
    let too_long = claim(5000) + fails();
    let guest =
        Core { imports: import.to_owned(), reconcile: claim(2) + succeeds() + one + &too_long, ..Core::default() };
    let (result, ports) = run(Limits::default(), guest, "{}").await;
    assert_eq!(result, CallResult::Done);
    let claims = ports.claims.lock().expect("not poisoned");
    assert_eq!(claims.len(), 1);
    assert_eq!((claims[0].kind.to_string(), &*claims[0].label_selector), ("v1 ConfigMap".to_owned(), "v1"));
}
