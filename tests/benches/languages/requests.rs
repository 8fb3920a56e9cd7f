//! The cost of an HTTP request of a guest: a call with requests, which the ports answer at once, compared with the same
//! call without requests.

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
use crate::calls::{CallInput, WEBAPP, each};
use crate::support::ports::quiet;

/// The number of requests that a plugin in `tests/stock` sends if its configuration has a URL.
const REQUESTS: u32 = 7;

/// The cost of a request with the HTTP client of a stock toolchain.
pub(crate) async fn of_stock(plugin: &Arc<Plugin>, size: Size) -> anyhow::Result<()> {
    let without = CallInput::about(WEBAPP);
    let with = without.clone().with_config(json!({"url": "http://127.0.0.1:28765"}).to_string());
    print(plugin, [&with, &without], size).await
}

/// The cost of a request with an SDK, by the probe of the conformance suite.
pub(crate) async fn of_sdk(probe: &Arc<Plugin>, size: Size) -> anyhow::Result<()> {
    let request = json!({"method": "GET", "url": "http://127.0.0.1:28765/get", "headers": [["x-toolchain", "sdk"]]});
    let input = |requests: u32| {
        let steps = (0..requests).map(|_| json!({"call": "http.fetch", "request": request})).collect::<Vec<_>>();
        let primary = json!({
            "apiVersion": "conformance.windlass.dev/v1", "kind": "Conformance",
            "metadata": {"name": "probe", "namespace": "prod", "uid": "u-1", "generation": 1, "resourceVersion": "5"},
            "spec": {"steps": steps},
        });
        CallInput::about(&primary.to_string())
    };
    print(probe, [&input(REQUESTS), &input(0)], size).await
}

/// Prints the cost of a request: the first call sends requests, and the second does not.
async fn print(plugin: &Arc<Plugin>, calls: [&CallInput; 2], size: Size) -> anyhow::Result<()> {
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
