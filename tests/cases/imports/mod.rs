//! Every import does what `wit/` says, on both servers: the plugin `probe` calls it, and the test looks at the result,
//! at the server, and at the requests that were sent.

mod audit;
mod batch;
mod cache;
mod live;
mod lost;
mod malformed;
mod outside;
mod overlay;
mod owners;
mod refusals;
mod small;
mod writes;

/// Generates a test on either server from each case, an async function that takes a `Kind`.
macro_rules! on_both_servers {
    ($($case:ident),* $(,)?) => {
        mod on_the_embedded_server {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() -> anyhow::Result<()> {
                    super::$case(windlass_tests::server::Kind::Embedded).await
                }
            )*
        }

        mod on_a_real_kube_apiserver {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() -> anyhow::Result<()> {
                    super::$case(windlass_tests::server::Kind::Real).await
                }
            )*
        }
    };
}
use on_both_servers;

use serde_json::{Value, json};

/// A `ConfigMap` of the test's namespace.
fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// The reference to one.
fn target(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name})
}

/// The texts at a JSON pointer of each item of a list.
fn all<'a>(items: &'a Value, pointer: &str) -> Vec<&'a str> {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item.pointer(pointer)?.as_str()).collect()
}
