//! Compares a plugin's requests with its grants. `windlass inspect` shows the result.

use windlass_core::rights::grants::{Allowance, HttpRule, Rule};
use windlass_manifest::Manifest;

use super::asks::Ask;
use super::draft::{push_http, push_rule};
use super::{http, lack, narrowed, sensitive};

/// All requests of a plugin and the missing part of each.
#[derive(Debug)]
pub struct PolicyReview {
    /// The requested rules, each with its missing part.
    pub rules: Vec<Reviewed<Ask, LackingRules>>,
    /// HTTP requests, each with its missing part.
    pub http: Vec<Reviewed<HttpRule, Option<HttpRule>>>,
    /// Names of CRDs, and whether each is missing.
    pub crds: Vec<Reviewed<String, bool>>,
    /// Names of finalizers, and whether each is missing.
    pub finalizers: Vec<Reviewed<String, bool>>,
}

/// One request.
#[derive(Debug)]
pub struct Reviewed<T, L> {
    pub asked: T,
    /// The part of the request that is not granted.
    pub lacks: L,
    /// The reasons why the request is sensitive.
    pub sensitive: Vec<&'static str>,
}

/// The part of a rule that is not granted.
#[derive(Debug)]
pub struct LackingRules {
    pub all: Vec<Rule>,
    /// The part that is missing even in the namespace with the most grants: a verb, a resource, or a namespace that the
    /// manifest names.
    pub missing: Vec<Rule>,
}

impl LackingRules {
    /// Whether the rule is granted for fewer namespaces or names than the plugin asks for, and nothing else is missing.
    #[must_use]
    pub fn is_narrowed(&self) -> bool {
        self.missing.is_empty() && !self.all.is_empty()
    }
}

/// Compares the manifest's requests with what all of the operator's `layers` allow. Without layers, nothing is granted.
#[must_use]
pub fn review(manifest: &Manifest, asks: Vec<Ask>, layers: &[&Allowance]) -> PolicyReview {
    let rest = manifest.asked(vec![]);
    let own = manifest.finalizer();
    let nothing = [&Allowance::default()];
    let layers = if layers.is_empty() { &nothing[..] } else { layers };
    let lacks_name = |name: &String, of: fn(&Allowance) -> &[String]| {
        layers.iter().any(|layer| !lack::of_names(std::slice::from_ref(name), of(layer)).is_empty())
    };
    let http_layers: Vec<_> = layers.iter().map(|layer| layer.http.as_slice()).collect();
    let others_finalizer = |name: &String| sensitive::of_finalizer(name, &own).into_iter().collect();
    PolicyReview {
        rules: each(asks, |ask| lacking_rules(&ask.rule, layers), |ask| sensitive::of_rule(&ask.rule)),
        http: each(http::asked(manifest), |asked| lack::of_http(asked, &http_layers), sensitive::of_http),
        crds: each(rest.crds, |name| lacks_name(name, |layer| &layer.crds), |_| vec![sensitive::CRDS]),
        finalizers: each(rest.finalizers, |name| lacks_name(name, |layer| &layer.finalizers), others_finalizer),
    }
}

fn each<T, L>(
    asked: Vec<T>,
    lacks: impl Fn(&T) -> L,
    sensitive: impl Fn(&T) -> Vec<&'static str>,
) -> Vec<Reviewed<T, L>> {
    asked.into_iter().map(|asked| Reviewed { lacks: lacks(&asked), sensitive: sensitive(&asked), asked }).collect()
}

fn lacking_rules(asked: &Rule, layers: &[&Allowance]) -> LackingRules {
    LackingRules { all: lack::of_layers(asked, layers), missing: narrowed::missing(asked, layers) }
}

impl PolicyReview {
    /// Whether everything is granted.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lacking().is_empty()
    }

    /// Whether some rights are narrowed, but none are missing.
    #[must_use]
    pub fn is_narrowed(&self) -> bool {
        self.missing().is_empty() && !self.is_complete()
    }

    /// Everything that is not granted, in the form of a policy. Empty if everything is granted.
    #[must_use]
    pub fn lacking(&self) -> String {
        self.listed(|rules| &rules.all)
    }

    /// Like [`Self::lacking`], but without rights that are only narrowed.
    #[must_use]
    pub fn missing(&self) -> String {
        self.listed(|rules| &rules.missing)
    }

    fn listed(&self, of: fn(&LackingRules) -> &[Rule]) -> String {
        let mut text = String::new();
        let mut section = |name: &str, items: String| {
            if !items.is_empty() {
                text.push_str(name);
                text.push_str(":\n");
                text.push_str(&items);
            }
        };
        let mut items = String::new();
        for rule in self.rules.iter().flat_map(|reviewed| of(&reviewed.lacks)) {
            push_rule(&mut items, rule);
        }
        section("rules", std::mem::take(&mut items));
        for rule in self.http.iter().filter_map(|reviewed| reviewed.lacks.as_ref()) {
            push_http(&mut items, rule);
        }
        section("http", items);
        for (name, list) in [("crds", &self.crds), ("finalizers", &self.finalizers)] {
            let lacking = list.iter().filter(|reviewed| reviewed.lacks);
            section(name, lacking.fold(String::new(), |items, reviewed| items + &format!("- {:?}\n", reviewed.asked)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::rights::grants::Scheme;

    use super::*;
    use crate::examples::list;

    fn manifest(http: &serde_json::Value) -> Manifest {
        let manifest = serde_json::json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{"name": "gadgets", "primary": {"apiVersion": "example.com/v1", "kind": "Gadget"}}],
            "http": http,
        });
        Manifest::from_json(&manifest.to_string()).expect("valid")
    }

    fn layer(host: &str, methods: &[&str], addresses: &[&str]) -> Allowance {
        let rule = HttpRule {
            scheme: Scheme::Https,
            host: host.to_owned(),
            port: None,
            methods: list(methods),
            addresses: list(addresses),
        };
        Allowance { http: vec![rule], ..Allowance::default() }
    }

    #[test]
    fn http_methods_that_any_layer_lacks_are_missing() {
        let asked = serde_json::json!([
            {"scheme": "https", "host": "api.example.com", "methods": ["GET", "POST", "PUT", "DELETE"]},
        ]);
        let policy = layer("api.example.com", &["GET", "POST", "DELETE"], &[]);
        let ceiling = layer("*.example.com", &["GET", "PUT", "DELETE"], &[]);
        let review = review(&manifest(&asked), vec![], &[&policy, &ceiling]);
        let lacks = review.http[0].lacks.as_ref().map(|rule| rule.methods.clone());
        assert_eq!(lacks, Some(list(&["POST", "PUT"])));
        assert!(review.lacking().contains("methods: [\"POST\", \"PUT\"]"), "{}", review.lacking());
    }

    #[test]
    fn a_star_in_a_policy_grants_no_address() {
        let of = |host: &str| {
            let asked = serde_json::json!([{"scheme": "https", "host": host, "methods": ["GET"]}]);
            manifest(&asked)
        };
        let everything = ["0.0.0.0/0", "::/0"];
        for (host, pattern) in [("8.8.8.8", "*.*.*.*"), ("10.0.0.1", "*.*.*.*"), ("[fd00::1]", "*")] {
            let is_complete =
                |pattern: &str| review(&of(host), vec![], &[&layer(pattern, &["GET"], &everything)]).is_complete();
            assert!(!is_complete(pattern) && is_complete(host), "{host}");
        }
    }

    #[test]
    fn an_address_has_to_be_named_in_each_layer() {
        let manifest = manifest(&serde_json::json!([{"scheme": "https", "host": "10.0.0.1", "methods": ["GET"]}]));
        let (named, bare) = (layer("10.0.0.1", &["*"], &["10.0.0.1/32"]), layer("10.0.0.1", &["*"], &[]));
        for (layers, is_complete) in
            [([&named, &named], true), ([&named, &bare], false), ([&bare, &named], false), ([&bare, &bare], false)]
        {
            assert_eq!(review(&manifest, vec![], &layers).is_complete(), is_complete);
        }
    }
}
