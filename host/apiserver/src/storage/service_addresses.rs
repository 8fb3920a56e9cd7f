//! Cluster IPs and node ports. A real server allocates them when it stores a service.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object::{self, text};

/// The network 10.96.0.0/16, which is kubeadm's default. 10.96.0.1 belongs to the `kubernetes` service.
const PREFIX: &str = "10.96";
const FIRST_ADDRESS: u16 = 2;
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

/// The position of the next search, and the addresses of the stored services. Several services may have the same
/// address, because a client gets the address that it asks for.
#[derive(Clone)]
pub(crate) struct ServiceAddresses {
    next: u16,
    addresses: HashMap<String, usize>,
    node_ports: HashMap<u64, usize>,
}

impl Default for ServiceAddresses {
    fn default() -> ServiceAddresses {
        ServiceAddresses { next: FIRST_ADDRESS, addresses: HashMap::new(), node_ports: HashMap::new() }
    }
}

impl ServiceAddresses {
    /// The position of the next search.
    pub(crate) fn position(&self) -> u16 {
        self.next
    }

    /// Continues the search at an earlier `position`, because the addresses allocated since then were not stored.
    pub(crate) fn rewind(&mut self, position: u16) {
        self.next = position;
    }

    /// Records that `service` replaces `before` in the store.
    pub(crate) fn replace(&mut self, before: Option<&Value>, service: Option<&Value>) {
        if let Some(service) = service {
            *self.addresses.entry(text(service, "/spec/clusterIP").to_owned()).or_default() += 1;
            node_ports(service).for_each(|port| *self.node_ports.entry(port).or_default() += 1);
        }
        if let Some(before) = before {
            give_back(&mut self.addresses, text(before, "/spec/clusterIP"));
            node_ports(before).for_each(|port| give_back(&mut self.node_ports, &port));
        }
    }

    /// Allocates the addresses and ports that the service lacks. An address in the request must be free, or belong to
    /// `current`.
    pub(crate) fn allocate(&mut self, service: &mut Value, current: Option<&Value>) -> Result<(), Cause> {
        let kind = text(service, "/spec/type").to_owned();
        if kind == "ExternalName" {
            return Ok(());
        }
        let given = &service["spec"]["clusterIPs"];
        if current.is_none()
            && text(service, "/spec/clusterIP").is_empty()
            && given.as_array().is_some_and(|all| !all.is_empty())
        {
            let why = "must be empty when `clusterIP` is not specified";
            return Err(Cause::invalid("spec.clusterIPs", given, why));
        }
        self.check_address(service, current)?;
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            self.check_node_ports(service, current)?;
        }
        if text(service, "/spec/clusterIP").is_empty() {
            let address = self.free_address();
            object::map_mut(service, "spec").insert("clusterIP".to_owned(), json!(address));
        }
        let address = service["spec"]["clusterIP"].clone();
        let spec = object::map_mut(service, "spec");
        spec.entry("clusterIPs").or_insert_with(|| json!([address]));
        if let Some(current) = current {
            release_families(service, current);
        }
        default_families(service);
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            self.allocate_node_ports(service);
        }
        Ok(())
    }

    fn check_address(&self, service: &Value, current: Option<&Value>) -> Result<(), Cause> {
        let asked = text(service, "/spec/clusterIP");
        let is_own = current.is_some_and(|current| text(current, "/spec/clusterIP") == asked);
        // Validation refuses texts that are not addresses.
        if is_own || asked.parse::<Ipv4Addr>().is_err() {
            return Ok(());
        }
        let why = if !asked.starts_with(&format!("{PREFIX}.")) {
            "the provided network does not match the current range"
        } else if self.addresses.contains_key(asked) {
            "provided IP is already allocated"
        } else {
            return Ok(());
        };
        let why = format!("failed to allocate IP {asked}: {why}");
        Err(Cause::invalid("spec.clusterIPs", &json!([asked]), &why))
    }

    fn check_node_ports(&self, service: &Value, current: Option<&Value>) -> Result<(), Cause> {
        for (index, port) in object::items(service, "/spec/ports").iter().enumerate() {
            let Some(number) = port["nodePort"].as_u64().filter(|number| *number != 0) else { continue };
            let is_own = current.is_some_and(|current| node_ports(current).any(|own| own == number));
            let why = if !NODE_PORTS.map(u64::from).any(|known| known == number) {
                format!(
                    "provided port is not in the valid range. The range of valid ports is {}-{}",
                    NODE_PORTS.start(),
                    NODE_PORTS.end()
                )
            } else if self.node_ports.contains_key(&number) && !is_own {
                "provided port is already allocated".to_owned()
            } else {
                continue;
            };
            return Err(Cause::invalid(format!("spec.ports[{index}].nodePort"), &json!(number), &why));
        }
        Ok(())
    }

    fn free_address(&mut self) -> String {
        loop {
            let [high, low] = self.next.to_be_bytes();
            self.next = self.next.checked_add(1).unwrap_or(FIRST_ADDRESS);
            let address = format!("{PREFIX}.{high}.{low}");
            // With more than 65,000 services, addresses are shared. Otherwise the search would never end.
            let is_full = self.addresses.len() >= usize::from(u16::MAX - FIRST_ADDRESS);
            if is_full || !self.addresses.contains_key(&address) {
                return address;
            }
        }
    }

    fn allocate_node_ports(&self, service: &mut Value) {
        let mut own: HashSet<u64> = node_ports(service).collect();
        let ports = object::map_mut(service, "spec").get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            if port["nodePort"].as_u64().is_some_and(|port| port != 0) {
                continue;
            }
            let is_free = |port: &u64| !self.node_ports.contains_key(port) && !own.contains(port);
            if let Some(free) = NODE_PORTS.map(u64::from).find(is_free) {
                port["nodePort"] = json!(free);
                own.insert(free);
            }
        }
    }
}

/// Records that one service less uses an address or a port.
fn give_back<K: Eq + Hash + Borrow<Q>, Q: Eq + Hash + ?Sized>(counts: &mut HashMap<K, usize>, what: &Q) {
    if let Some(count) = counts.get_mut(what) {
        *count -= 1;
        if *count == 0 {
            counts.remove(what);
        }
    }
}

/// Whether the service is headless and has no selector. Such a service may have any IP family, because other components
/// decide about its endpoints.
pub(crate) fn is_open(service: &Value) -> bool {
    let selector = service.pointer("/spec/selector").and_then(Value::as_object);
    text(service, "/spec/clusterIP") == "None" && selector.is_none_or(serde_json::Map::is_empty)
}

/// Removes the second IP family if the client asks for a single stack without naming families.
fn release_families(service: &mut Value, current: &Value) {
    let spec = object::map_mut(service, "spec");
    if spec.get("ipFamilyPolicy").is_some_and(|policy| policy == "SingleStack")
        && let Some(Value::Array(families)) = spec.get_mut("ipFamilies")
        && Some(&*families) == current["spec"]["ipFamilies"].as_array()
    {
        families.truncate(1);
    }
}

/// Sets the IP families, like `initIPFamilyFields` in `pkg/registry/core/service/storage/alloc.go`, for a cluster with
/// only IPv4.
fn default_families(service: &mut Value) {
    let is_open = is_open(service);
    let spec = object::map_mut(service, "spec");
    let policy = if is_open { "RequireDualStack" } else { "SingleStack" };
    let policy = spec.entry("ipFamilyPolicy").or_insert_with(|| json!(policy)).clone();
    let families = spec.entry("ipFamilies").or_insert_with(|| json!([]));
    let Some(families) = families.as_array_mut() else { return };
    if families.is_empty() {
        families.push(json!("IPv4"));
    }
    if is_open && families.len() == 1 && policy != "SingleStack" {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(json!(other));
    }
}

fn node_ports(service: &Value) -> impl Iterator<Item = u64> {
    object::items(service, "/spec/ports").iter().filter_map(|port| port["nodePort"].as_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_headless_service_without_a_selector_has_both_families() {
        let families = |spec: Value| {
            let mut service = json!({ "spec": spec });
            default_families(&mut service);
            let spec = &service["spec"];
            (spec["ipFamilyPolicy"].clone(), spec["ipFamilies"].clone())
        };
        let both = (json!("RequireDualStack"), json!(["IPv4", "IPv6"]));
        assert_eq!(families(json!({ "clusterIP": "None" })), both);
        assert_eq!(families(json!({ "clusterIP": "None", "selector": {} })), both);
        let turned = (json!("RequireDualStack"), json!(["IPv6", "IPv4"]));
        assert_eq!(families(json!({ "clusterIP": "None", "ipFamilies": ["IPv6"] })), turned);
        let one = (json!("SingleStack"), json!(["IPv4"]));
        assert_eq!(families(json!({ "clusterIP": "None", "selector": { "a": "b" } })), one);
        assert_eq!(families(json!({ "clusterIP": "None", "ipFamilyPolicy": "SingleStack" })), one);
        assert_eq!(families(json!({ "clusterIP": "10.96.0.9" })), one);
    }

    #[test]
    fn addresses_in_use_are_not_allocated_again() {
        let taken = json!({ "spec": { "clusterIP": "10.96.0.2" } });
        let mut addresses = ServiceAddresses::default();
        addresses.replace(None, Some(&taken));
        let mut service = json!({ "spec": { "type": "ClusterIP" } });
        addresses.allocate(&mut service, None).expect("free");
        assert_eq!(service["spec"]["clusterIPs"], json!(["10.96.0.3"]));
    }

    #[test]
    fn a_node_port_is_reused_once_it_is_free() {
        let new = || json!({ "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } });
        let mut addresses = ServiceAddresses::default();
        let (mut first, mut second, mut third) = (new(), new(), new());
        addresses.allocate(&mut first, None).expect("free");
        addresses.replace(None, Some(&first));
        // The service is stored again without a change.
        addresses.replace(Some(&first), Some(&first));
        addresses.allocate(&mut second, None).expect("free");
        addresses.replace(None, Some(&second));
        addresses.replace(Some(&first), None);
        addresses.allocate(&mut third, None).expect("free");
        let port = |service: &Value| service["spec"]["ports"][0]["nodePort"].clone();
        assert_eq!([port(&first), port(&second), port(&third)], [json!(30_000), json!(30_001), json!(30_000)]);
    }

    #[test]
    fn headless_services_stay_headless() {
        let mut service = json!({ "spec": { "type": "ClusterIP", "clusterIP": "None" } });
        ServiceAddresses::default().allocate(&mut service, None).expect("free");
        assert_eq!(service["spec"]["clusterIPs"], json!(["None"]));
    }
}
