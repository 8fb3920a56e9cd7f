//! The memory and CPU that all plugins use together, read at each scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use windlass_wasm::{Sandbox, SandboxStats};

use super::gauges;

/// Reads the figures of this sandbox.
#[derive(Debug)]
pub(crate) struct Guests(pub(crate) Sandbox);

impl Collector for Guests {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let SandboxStats { reserved_memory, waiting_for_memory, parked_instances, warm_slots, warm_bytes } =
            self.0.stats();
        let all = [
            ("windlass_guest_memory_bytes", reserved_memory, "Memory that calls of plugins have, or have reserved"),
            ("windlass_calls_waiting_for_memory", waiting_for_memory, "Calls that wait for memory of other calls"),
            ("windlass_parked_instances", parked_instances, "Instances of plugins between two calls"),
            ("windlass_warm_slots", warm_slots, "Places of instances that are empty and kept ready"),
            ("windlass_warm_bytes", warm_bytes, "Memory of the machine that the empty places of instances hold"),
        ];
        for (name, value, help) in all {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            gauges(&mut encoder, name, help, [(vec![], value)])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use windlass_wasm::SandboxOptions;

    use super::*;

    #[test]
    fn resources_used_by_plugins_are_shown_as_metrics() {
        let sandbox = Sandbox::new(SandboxOptions { threads: 1, concurrent_calls: 1, ..SandboxOptions::default() });
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Guests(sandbox.expect("a sandbox"))));
        let mut text = String::new();
        encode(&mut text, &registry).expect("it is encoded");
        for name in ["guest_memory_bytes", "calls_waiting_for_memory", "parked_instances", "warm_slots", "warm_bytes"] {
            assert!(text.contains(&format!("\nwindlass_{name}{{}} 0\n")), "{name} is missing in {text}");
        }
    }
}
