//! The addresses that a cluster gives to Pods and Services. They differ between runs, and plugins copy them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The known addresses of one run. All are IPv4 addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    /// Each address, with the place of the last object that had it.
    places: BTreeMap<String, String>,
    /// The addresses that objects have now.
    present: BTreeSet<String>,
}

/// The addresses that the cluster has given to an object. An address of a node is the same in each run.
pub(super) fn of<'a>(resource: &str, object: &'a Value) -> Vec<&'a str> {
    let (one, all) = match resource {
        "pods" if object["spec"]["hostNetwork"] != true => (&object["status"]["podIP"], &object["status"]["podIPs"]),
        "services" => (&object["spec"]["clusterIP"], &object["spec"]["clusterIPs"]),
        _ => return vec![],
    };
    let listed = all.as_array().into_iter().flatten().map(|it| it.get("ip").unwrap_or(it));
    let texts = std::iter::once(one).chain(listed).filter_map(Value::as_str);
    texts.filter(|address| !matches!(*address, "" | "None")).collect()
}

impl Addresses {
    /// Learns the addresses of all objects that exist now, each with the object's place. Former addresses stay known.
    pub(super) fn learn(&mut self, now: Vec<(String, String)>) {
        self.present = now.iter().map(|(address, _)| address.clone()).collect();
        self.places.extend(now);
    }

    /// The text with each address replaced by the object that it belongs to. `None` if it has no known address.
    pub(super) fn replaced(&self, text: &str) -> Option<String> {
        if self.places.is_empty() {
            return None;
        }
        // A Pod's DNS name has its address with dashes.
        let dotted = self.replaced_with('.', text);
        self.replaced_with('-', dotted.as_deref().unwrap_or(text)).or(dotted)
    }

    /// As [`Self::replaced`], for addresses whose numbers have this separator.
    fn replaced_with(&self, separator: char, text: &str) -> Option<String> {
        let is_part = |it: char| it.is_ascii_digit() || it == separator;
        let (mut replaced, mut rest, mut any) = (String::new(), text, false);
        while let Some(start) = rest.find(is_part) {
            let (before, from) = rest.split_at(start);
            let (run, after) = from.split_at(from.find(|it| !is_part(it)).unwrap_or(from.len()));
            replaced.push_str(before);
            let address = run.trim_matches(separator);
            match self.place(&address.replace(separator, ".")) {
                Some(place) => {
                    replaced.push_str(&run.replacen(address, &place, 1));
                    any = true;
                }
                None => replaced.push_str(run),
            }
            rest = after;
        }
        replaced.push_str(rest);
        any.then_some(replaced)
    }

    /// The words for an address.
    fn place(&self, address: &str) -> Option<String> {
        let place = self.places.get(address)?;
        // A plugin that keeps the address of an object that has gone ends in another state.
        let which = if self.present.contains(address) { "" } else { "a former " };
        Some(format!("(the address of {which}{place})"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_and_services_have_addresses_that_the_cluster_gave_them() {
        let pod =
            |spec: Value| json!({"spec": spec, "status": {"podIP": "198.18.0.7", "podIPs": [{"ip": "198.18.0.7"}]}});
        assert_eq!(of("pods", &pod(json!({}))), ["198.18.0.7", "198.18.0.7"]);
        assert!(of("pods", &pod(json!({"hostNetwork": true}))).is_empty(), "the node's address");
        let service = |address: &str| json!({"spec": {"clusterIP": address, "clusterIPs": [address]}});
        assert_eq!(of("services", &service("10.96.0.3")).len(), 2);
        assert!(of("services", &service("None")).is_empty());
    }

    #[test]
    fn only_whole_addresses_are_replaced() {
        let mut addresses = Addresses::default();
        addresses.learn(vec![("198.18.0.7".to_owned(), "pods a/b".to_owned())]);
        let replaced = |text| addresses.replaced(text);
        let of = "(the address of pods a/b)";
        assert_eq!(replaced("198.18.0.7"), Some(of.to_owned()));
        assert_eq!(replaced("at http://198.18.0.7:80/."), Some(format!("at http://{of}:80/.")));
        assert_eq!(replaced("198-18-0-7.a.pod.cluster.local"), Some(format!("{of}.a.pod.cluster.local")));
        assert_eq!(replaced("198.18.0.7, 198.18.0.77"), Some(format!("{of}, 198.18.0.77")));
        assert!(["198.18.0.77", "1198.18.0.7", "10.198.18.0.7", ""].into_iter().all(|it| replaced(it).is_none()));
        addresses.learn(vec![]);
        assert_eq!(addresses.replaced("198.18.0.7"), Some("(the address of a former pods a/b)".to_owned()));
    }
}
