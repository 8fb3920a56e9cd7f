//! Cluster IPs and node ports of services, which a real server allocates when it stores one.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::object::{self, text};

/// 10.96.0.0/16, as kubeadm has it; .0.1 belongs to the `kubernetes` service.
const PREFIX: &str = "10.96";
const FIRST_ADDRESS: u16 = 2;
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// Where the next search begins; what is in use is read from the services themselves.
pub(crate) struct ServiceAddresses {
    next: u16,
}

impl Default for ServiceAddresses {
    fn default() -> ServiceAddresses {
        ServiceAddresses { next: FIRST_ADDRESS }
    }
}

impl ServiceAddresses {
    /// Gives the service what it lacks; `others` are the services that exist.
    pub(crate) fn allocate<'a>(&mut self, service: &mut Value, others: impl Iterator<Item = &'a Value>) {
        let kind = text(service, "/spec/type").to_owned();
        if kind == "ExternalName" {
            return;
        }
        let others: Vec<&Value> = others.collect();
        if text(service, "/spec/clusterIP").is_empty() {
            let used: HashSet<&str> = others.iter().map(|other| text(other, "/spec/clusterIP")).collect();
            let address = self.free_address(&used);
            object::map_mut(service, "spec").insert("clusterIP".to_owned(), json!(address));
        }
        let address = service["spec"]["clusterIP"].clone();
        let spec = object::map_mut(service, "spec");
        spec.entry("clusterIPs").or_insert_with(|| json!([address]));
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert_with(|| json!("SingleStack"));
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            allocate_node_ports(service, &others);
        }
    }

    fn free_address(&mut self, used: &HashSet<&str>) -> String {
        loop {
            let [high, low] = self.next.to_be_bytes();
            self.next = self.next.checked_add(1).unwrap_or(FIRST_ADDRESS);
            let address = format!("{PREFIX}.{high}.{low}");
            // With more than 65,000 services an address is shared rather than the search endless.
            if !used.contains(address.as_str()) || used.len() >= usize::from(u16::MAX - FIRST_ADDRESS) {
                return address;
            }
        }
    }
}

fn allocate_node_ports(service: &mut Value, others: &[&Value]) {
    let mut used: HashSet<u64> = others.iter().copied().chain([&*service]).flat_map(node_ports).collect();
    let ports = object::map_mut(service, "spec").get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        if port["nodePort"].as_u64().is_some_and(|port| port != 0) {
            continue;
        }
        let free = NODE_PORTS.map(u64::from).find(|candidate| !used.contains(candidate));
        if let Some(free) = free {
            port["nodePort"] = json!(free);
            used.insert(free);
        }
    }
}

fn node_ports(service: &Value) -> Vec<u64> {
    object::items(service, "/spec/ports").iter().filter_map(|port| port["nodePort"].as_u64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_use_are_not_given_twice() {
        let taken = json!({ "spec": { "clusterIP": "10.96.0.2" } });
        let mut service = json!({ "spec": { "type": "ClusterIP" } });
        ServiceAddresses::default().allocate(&mut service, [&taken].into_iter());
        assert_eq!(service["spec"]["clusterIPs"], json!(["10.96.0.3"]));
    }

    #[test]
    fn headless_services_stay_headless() {
        let mut service = json!({ "spec": { "type": "ClusterIP", "clusterIP": "None" } });
        ServiceAddresses::default().allocate(&mut service, std::iter::empty());
        assert_eq!(service["spec"]["clusterIPs"], json!(["None"]));
    }
}
