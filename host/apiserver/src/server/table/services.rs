//! Cells of kinds that route traffic to pods.

use serde_json::Value;

use super::texts::{first_of, name_or_default, or_none};
use crate::object::{items, strings, text};

/// The external addresses of a service.
pub(super) fn external_address(service: &Value) -> String {
    let given = strings(service, "/spec/externalIPs").join(",");
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => or_none(given),
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => {
            let all: Vec<String> =
                [balancer_addresses(service).join(","), given].into_iter().filter(|part| !part.is_empty()).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ => "<unknown>".to_owned(),
    }
}

fn balancer_addresses(object: &Value) -> Vec<&str> {
    let address = |entry| match text(entry, "/ip") {
        "" => text(entry, "/hostname"),
        address => address,
    };
    let all = items(object, "/status/loadBalancer/ingress").iter().map(address);
    let mut all: Vec<&str> = all.filter(|address| !address.is_empty()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The addresses of an ingress.
pub(super) fn load_balancer(ingress: &Value) -> String {
    balancer_addresses(ingress).join(",")
}

pub(super) fn ports(service: &Value) -> String {
    let port = |port: &Value| {
        let (number, protocol) = (port["port"].as_i64().unwrap_or_default(), text(port, "/protocol"));
        match port["nodePort"].as_i64() {
            Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    or_none(items(service, "/spec/ports").iter().map(port).collect::<Vec<_>>().join(","))
}

/// The addresses in Endpoints.
pub(super) fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in items(object, "/subsets") {
        let addresses = || items(subset, "/addresses").iter().map(|address| text(address, "/ip"));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = port["port"].as_i64().unwrap_or_default();
            all.extend(addresses().map(|address| match address {
                address if address.contains(':') => format!("[{address}]:{port}"),
                address => format!("{address}:{port}"),
            }));
        }
    }
    first_of(&all, "<none>")
}

/// The ports of an endpoint slice. A port without a number means all ports.
pub(super) fn slice_ports(slice: &Value) -> String {
    let port = |port: &Value| match (port["port"].as_i64(), port["name"].as_str()) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    first_of(&items(slice, "/ports").iter().map(port).collect::<Vec<_>>(), "<unset>")
}

pub(super) fn slice_addresses(slice: &Value) -> String {
    let all = items(slice, "/endpoints").iter().flat_map(|endpoint| strings(endpoint, "/addresses"));
    first_of(&all.map(str::to_owned).collect::<Vec<_>>(), "<unset>")
}

/// The hosts of an ingress. `*` if it accepts any host.
pub(super) fn hosts(ingress: &Value) -> String {
    let rules = items(ingress, "/spec/rules");
    let hosts = rules.iter().map(|rule| text(rule, "/host").to_owned()).filter(|host| !host.is_empty());
    first_of(&hosts.collect::<Vec<_>>(), "*")
}

pub(super) fn ingress_ports(ingress: &Value) -> String {
    if items(ingress, "/spec/tls").is_empty() { "80" } else { "80, 443" }.to_owned()
}

pub(super) fn ingress_class_name(class: &Value) -> String {
    name_or_default(class, &["ingressclass.kubernetes.io/is-default-class"])
}

/// The object with the parameters of an ingress class.
pub(super) fn parameters(class: &Value) -> String {
    let Some(found) = class.pointer("/spec/parameters").filter(|found| found.is_object()) else {
        return "<none>".to_owned();
    };
    let group = found["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
    format!("{}{group}/{}", text(found, "/kind"), text(found, "/name"))
}

/// The object that owns an IP address.
pub(super) fn parent(address: &Value) -> String {
    let Some(found) = address.pointer("/spec/parentRef").filter(|found| found.is_object()) else {
        return "<none>".to_owned();
    };
    let resource = match (text(found, "/resource"), text(found, "/group")) {
        (resource, "") => resource.to_lowercase(),
        (resource, group) => format!("{resource}.{group}").to_lowercase(),
    };
    let path = [resource.as_str(), text(found, "/namespace"), text(found, "/name")];
    path.into_iter()
        .enumerate()
        .filter(|(index, part)| *index != 1 || !part.is_empty())
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join("/")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_external_address_depends_on_the_type() {
        let of = |kind: &str, ingress: Value, given: Value| {
            let spec = json!({ "type": kind, "externalIPs": given, "externalName": "a.b" });
            external_address(&json!({ "spec": spec, "status": { "loadBalancer": { "ingress": ingress } } }))
        };
        assert_eq!(of("ClusterIP", json!([]), json!([])), "<none>");
        assert_eq!(of("NodePort", json!([]), json!(["1.1.1.1", "1.1.1.2"])), "1.1.1.1,1.1.1.2");
        assert_eq!(of("ExternalName", json!([]), json!([])), "a.b");
        assert_eq!(of("LoadBalancer", json!([]), json!([])), "<pending>");
        let ingress = json!([{ "hostname": "h" }, { "ip": "2.2.2.2" }]);
        assert_eq!(of("LoadBalancer", ingress, json!(["1.1.1.1"])), "2.2.2.2,h,1.1.1.1");
    }

    #[test]
    fn endpoints_have_their_ports() {
        let subset = json!({ "addresses": [{ "ip": "1.1.1.1" }, { "ip": "::1" }], "ports": [{ "port": 80 }] });
        assert_eq!(endpoints(&json!({ "subsets": [subset] })), "1.1.1.1:80,[::1]:80");
        assert_eq!(endpoints(&json!({ "subsets": [{ "addresses": [{ "ip": "1.1.1.1" }] }] })), "1.1.1.1");
        assert_eq!(endpoints(&json!({})), "<none>");
        assert_eq!(slice_ports(&json!({ "ports": [{ "port": 80 }, { "name": "a" }, {}] })), "80,a,*");
    }

    #[test]
    fn an_address_says_its_owner() {
        let reference = json!({ "group": "", "resource": "services", "namespace": "default", "name": "s" });
        assert_eq!(parent(&json!({ "spec": { "parentRef": reference } })), "services/default/s");
    }
}
