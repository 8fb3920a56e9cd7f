//! Tests that a key is not called again before the caches show what it has written, even though the plugin has no code
//! for this.

use std::time::Duration;

use serde_json::json;
use windlass_proxy::{Fault, Match};
use windlass_tests::probe::{Call, Lab, NAME};
use windlass_tests::server::{Kind, Server};

const CALLS_MADE: usize = 6;
/// The delay of the watch events of children. Without the gate, the next call would come within milliseconds.
const CHILD_EVENT_DELAY: std::ops::RangeInclusive<Duration> = Duration::from_millis(300)..=Duration::from_millis(700);

/// Makes calls that count the children in the cache, create one more child, and ask to run again at once. `fault`
/// delays the children's watch events. Returns the count of each call.
async fn counted(lab: &Lab, fault: Fault) -> anyhow::Result<Vec<usize>> {
    let _late = lab.proxy.add(fault.on(Match::watches("configmaps")));
    let query = json!({"kind": {"apiVersion": "v1", "kind": "ConfigMap"}, "owned": true, "fields": []});
    let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "child-"}});
    let run = lab
        .begin(
            NAME,
            true,
            [
                json!({"call": "cache.list", "query": query}),
                json!({"call": "writes.create", "object": child, "options": {"owned": true}}),
                json!({"call": "requeue-after", "ms": 1}),
            ],
        )
        .await?;
    let calls = lab.calls(&run, CALLS_MADE).await?;
    let count = |call: &Call| call.ok(1)["items"].as_array().map_or(0, Vec::len);
    Ok(calls.iter().filter(|call| call.ended).take(CALLS_MADE).map(count).collect())
}

async fn calls_see_the_children_of_earlier_calls(kind: Kind) -> anyhow::Result<()> {
    let lab = Lab::start(kind).await?;
    let counted = counted(&lab, Fault::DelayEvents(CHILD_EVENT_DELAY)).await?;
    println!("{kind:?}: children that each call has seen: {counted:?}");
    assert_eq!(counted, (0..CALLS_MADE).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_see_the_children_of_earlier_calls_on_the_embedded_server() -> anyhow::Result<()> {
    calls_see_the_children_of_earlier_calls(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_see_the_children_of_earlier_calls_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    calls_see_the_children_of_earlier_calls(Kind::Real).await
}

/// Proves that the gate causes the result of the other tests.
#[tokio::test(flavor = "multi_thread")]
async fn with_the_gate_switched_off_calls_miss_children() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let lab = Lab::on(server, &["--feature-gates=AutomaticExpectations=false"]).await?;
    // The watch events are held back, so they come later than any call.
    let counted = counted(&lab, Fault::Hold).await?;
    println!("switched off: children that each call has seen: {counted:?}");
    assert_eq!(counted, [0; CALLS_MADE]);
    Ok(())
}
