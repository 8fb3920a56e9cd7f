//! Attacks through `wasi:http`: the same as through `http`, and attacks on its handles.

use super::{ENDLESS_CALL_DEADLINE, Ends, NEIGHBOUR_CALL_TIMEOUT, Scene};
use crate::support::guests::{Core, wasi_http};

fn component(reconcile: &str) -> Vec<u8> {
    Core::calling_http("(data (i32.const 8300) \"waits\")", reconcile).with_wasi(&wasi_http("0.2.12"))
}

fn without_end(body: &str) -> String {
    format!("(loop $more {body} (br $more))")
}

/// A request to a server that does not respond.
const WAITS: &str = "(local.set 0 (call $to (i32.const 0)))
    (drop (call $set-authority (local.get 0) (i32.const 1) (i32.const 8300) (i32.const 5)))
    (global.set $a (call $send (local.get 0)))";
/// A request that returns an error.
const FAILS: &str = "(global.set $a (call $send (call $to (i32.const 0))))";

async fn withstands(scene: &Scene, attacks: Vec<(&str, String, Ends)>) {
    let attacks = attacks.into_iter().map(|(case, reconcile, ends)| (case, component(&reconcile), ends));
    scene.withstands_components(attacks.collect()).await;
}

#[tokio::test]
async fn a_guest_that_waits_or_polls_without_end_is_stopped_alone() {
    let pollable = "(global.set $b (call $subscribe (global.get $a)))";
    let attacks = vec![
        ("a wait for ever", format!("{WAITS} (call $wait (global.get $a))"), Ends::Stopped("waited")),
        (
            "a wait for a handle that was given up",
            format!("{WAITS} {pollable} (call $drop-pollable (global.get $b)) (call $drop-future (global.get $a))"),
            Ends::ByItself,
        ),
        (
            "a future that is dropped before its pollable",
            format!("{WAITS} {pollable} (call $drop-future (global.get $a))"),
            Ends::Stopped("wasi"),
        ),
        (
            "looks without end",
            format!("{WAITS} {pollable} {}", without_end("(drop (call $ready (global.get $b)))")),
            Ends::Stopped("cpu"),
        ),
        (
            "polls of an answer without end",
            format!("{FAILS} {pollable} {}", without_end("(call $block (global.get $b))")),
            Ends::Stopped("cpu"),
        ),
        (
            "gets without end",
            format!("{WAITS} {}", without_end("(drop (call $seen (global.get $a)))")),
            Ends::Stopped("cpu"),
        ),
    ];
    withstands(&Scene::new(ENDLESS_CALL_DEADLINE).await, attacks).await;
}

#[tokio::test]
async fn floods_of_requests_run_dry() {
    let fails = "(call $wait (global.get $a)) (call $drop-future (global.get $a))";
    let attacks = vec![
        ("requests that fail", without_end(&format!("{FAILS} {fails}")), Ends::Stopped("host-calls")),
        (
            "requests that are given up",
            without_end("(drop (call $try-send (call $to (i32.const 0))))"),
            Ends::Stopped("host-calls"),
        ),
        (
            "naps between looks",
            format!(
                "{WAITS} {}",
                without_end(
                    "(drop (call $poll-two (call $subscribe (global.get $a)) (call $after (i64.const 1000000))))"
                )
            ),
            Ends::Stopped("host-calls"),
        ),
    ];
    withstands(&Scene::new(NEIGHBOUR_CALL_TIMEOUT).await, attacks).await;
}

#[tokio::test]
async fn bodies_and_headers_without_end_are_stopped_alone() {
    let write = "(call $write (global.get $b) (i32.const 65536) (i32.const 65536) (i32.const 1104))";
    let open = "(global.set $b (call $opened (call $to (i32.const 0))))";
    let mebibyte = format!(
        "{open} (local.set 0 (i32.const 16)) (loop $each {write}
           (br_if $each (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))"
    );
    let append = "(call $append (global.get $a) (i32.const 8193) (i32.const 3) (i32.const 131072) (i32.const 8192)
        (i32.const 1104)) (if (i32.load8_u (i32.const 1104)) (then unreachable))";
    let value = "(memory.fill (i32.const 131072) (i32.const 97) (i32.const 65536))";
    let attacks = vec![
        ("one body", format!("{open} {}", without_end(write)), Ends::Stopped("cpu")),
        ("many bodies", without_end(&mebibyte), Ends::Stopped("wasi")),
        (
            "more than a buffer",
            format!("{open} (call $write (global.get $b) (i32.const 65536) (i32.const 65537) (i32.const 1104))"),
            Ends::Stopped("wasi"),
        ),
        (
            "one list of headers",
            format!("{value} (global.set $a (call $fields)) {}", without_end(append)),
            Ends::Stopped("wasi"),
        ),
        (
            "many lists of headers",
            format!("{value} {}", without_end(&format!("(global.set $a (call $fields)) {}", append.repeat(7)))),
            Ends::Stopped("wasi"),
        ),
        (
            "copies of a list of headers",
            format!(
                "{value} (global.set $a (call $fields)) {} {}",
                append.repeat(7),
                without_end("(drop (call $clone (global.get $a)))")
            ),
            Ends::Stopped("wasi"),
        ),
        (
            "reads of headers",
            format!(
                "{value} (global.set $a (call $fields)) {} {}",
                append.repeat(7),
                without_end("(global.set $heap (i32.const 262144)) (call $entries (global.get $a) (i32.const 1104))")
            ),
            Ends::Stopped("cpu"),
        ),
        ("fields", without_end("(drop (call $fields))"), Ends::Stopped("wasi")),
        ("requests that are not sent", without_end("(drop (call $to (i32.const 0)))"), Ends::Stopped("wasi")),
        ("options", without_end("(drop (call $options))"), Ends::Stopped("wasi")),
        (
            "pollables of one answer",
            format!("{WAITS} {}", without_end("(drop (call $subscribe (global.get $a)))")),
            Ends::Stopped("wasi"),
        ),
    ];
    withstands(&Scene::new(NEIGHBOUR_CALL_TIMEOUT).await, attacks).await;
}

#[tokio::test]
async fn a_resource_with_one_owner_can_be_taken_once() {
    let refused = "(if (i32.ne (i32.load8_u (i32.const 1104)) (i32.const 1)) (then unreachable))";
    let attacks = vec![
        (
            "two bodies of one request",
            format!(
                "(global.set $a (call $to (i32.const 0))) (drop (call $opened (global.get $a)))
                 (call $body (global.get $a) (i32.const 1104)) {refused}
                 (call $body-stream (global.get $c) (i32.const 1104)) {refused}"
            ),
            Ends::ByItself,
        ),
        (
            "a body that is finished under its stream",
            "(global.set $b (call $opened (call $to (i32.const 0))))
             (call $finish (global.get $c) (i32.const 0) (i32.const 0) (i32.const 1104))"
                .to_owned(),
            Ends::Stopped("wasi"),
        ),
    ];
    withstands(&Scene::new(ENDLESS_CALL_DEADLINE).await, attacks).await;
}

#[tokio::test]
async fn a_describe_that_sends_a_request_is_not_loaded() {
    let describing = |describe: &str| {
        let core = Core { describe: describe.to_owned(), ..Core::calling_http("", "") };
        core.with_wasi(&wasi_http("0.2.12"))
    };
    let sends = "(drop (call $send (call $to (i32.const 0))))";
    let open = "(global.set $a (call $to (i32.const 0))) (global.set $b (call $opened (global.get $a)))";
    let words: &[&str] = &["(forbidden-import)", "wasi:http/outgoing-handler#handle"];
    let components = vec![
        ("sends", describing(sends), Ends::NotLoaded("describe", words)),
        (
            "sends a body",
            describing(&format!("{open} (drop (call $send (global.get $a)))")),
            Ends::NotLoaded("describe", words),
        ),
        ("keeps headers", describing(&without_end("(drop (call $fields))")), Ends::NotLoaded("describe", &["(wasi)"])),
    ];
    Scene::new(ENDLESS_CALL_DEADLINE).await.withstands_components(components).await;
}
