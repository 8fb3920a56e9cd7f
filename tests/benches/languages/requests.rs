//! The cost of an HTTP request to a guest: a call with some, which the ports answer at once, beside the same call
//! without.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::ready;
use serde_json::json;
use windlass_core::call::http::{HttpBody, HttpResponse};
use windlass_core::call::ports::{Answer, Ask, Ports, port_fn};
use windlass_core::life::instances::Instances;
use windlass_wasm::Plugin;

use crate::Size;
use crate::calls::{Asked, WEBAPP, each};
use crate::support::ports::quiet;

/// How many a plugin of `tests/stock` sends if its configuration has a URL.
const REQUESTS: u32 = 7;

/// A request by the HTTP client of a stock toolchain.
pub(crate) async fn of_stock(plugin: &Arc<Plugin>, size: Size) -> anyhow::Result<()> {
    let without = Asked::about(WEBAPP);
    let with = without.clone().with_config(json!({"url": "http://127.0.0.1:28765"}).to_string());
    print(plugin, [&with, &without], size).await
}

/// A request by the SDK of the conformance suite's probe.
pub(crate) async fn of_sdk(probe: &Arc<Plugin>, size: Size) -> anyhow::Result<()> {
    let request = json!({"method": "GET", "url": "http://127.0.0.1:28765/get", "headers": [["x-toolchain", "sdk"]]});
    let asked = |requests: u32| {
        let steps = (0..requests).map(|_| json!({"call": "http.fetch", "request": request})).collect::<Vec<_>>();
        let primary = json!({
            "apiVersion": "conformance.windlass.dev/v1", "kind": "Conformance",
            "metadata": {"name": "probe", "namespace": "prod", "uid": "u-1", "generation": 1, "resourceVersion": "5"},
            "spec": {"steps": steps},
        });
        Asked::about(&primary.to_string())
    };
    print(probe, [&asked(REQUESTS), &asked(0)], size).await
}

/// Says what one of the requests of the first call costs, which the second does not send.
async fn print(plugin: &Arc<Plugin>, calls: [&Asked; 2], size: Size) -> anyhow::Result<()> {
    let ports = answering();
    let mut best = [[Duration::MAX; 2]; 2];
    for _ in 0..size.rounds {
        for (best, instances) in best.iter_mut().zip([Instances::Fresh, Instances::Reuse]) {
            for (best, call) in best.iter_mut().zip(calls) {
                *best = each(plugin, call, &ports, instances, size.calls).await?.min(*best);
            }
        }
    }
    let [fresh, reused] =
        best.map(|[with, without]| with.saturating_sub(without).as_secs_f64() * 1e6 / f64::from(REQUESTS));
    println!("  µs an HTTP request, fresh / reused: {fresh:.0} / {reused:.0}");
    Ok(())
}

/// Ports that answer every request, and echo every write.
fn answering() -> Ports {
    let quiet = quiet();
    let others = quiet.outside.clone();
    let outside = port_fn(move |call, ask| match ask {
        Ask::Fetch(_) => {
            let headers = vec![("x-answer".to_owned(), "a-header".to_owned())];
            let response = HttpResponse { status: 201, headers, body: HttpBody::Text("a body".to_owned()) };
            ready(Answer::Fetch(Ok(response))).boxed()
        }
        other => others.ask(call, other),
    });
    Ports { outside, ..quiet }
}
