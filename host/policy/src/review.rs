//! A plugin's requests beside its grants: the answer of `windlass inspect`, as a value.

use windlass_core::rights::grants::{Allowance, HttpRule, Rule};
use windlass_manifest::Manifest;

use super::asks::Ask;
use super::draft::{push_http, push_rule};
use super::{http, lack, narrowed, sensitive};

/// All that a plugin asks for, and what of it is lacking.
#[derive(Debug)]
pub struct PolicyReview {
    /// Rules, each with the rules that are lacking.
    pub rules: Vec<Reviewed<Ask, LackingRules>>,
    /// HTTP requests, each with what of it is lacking.
    pub http: Vec<Reviewed<HttpRule, Option<HttpRule>>>,
    /// Definitions by name, and whether each is lacking.
    pub crds: Vec<Reviewed<String, bool>>,
    /// Finalizers by name, and whether each is lacking.
    pub finalizers: Vec<Reviewed<String, bool>>,
}

/// One thing that is asked for.
#[derive(Debug)]
pub struct Reviewed<T, L> {
    /// The right that the plugin asks for.
    pub asked: T,
    /// The part of it that is not granted.
    pub lacks: L,
    /// Why it is sensitive.
    pub sensitive: Vec<&'static str>,
}

/// The part of a rule that is not granted.
#[derive(Debug)]
pub struct LackingRules {
    /// All of it.
    pub all: Vec<Rule>,
    /// The part that lacks also in the namespace where it has most: a verb, a resource, a namespace that its manifest names.
    pub missing: Vec<Rule>,
}

impl LackingRules {
    /// True if it is granted for fewer namespaces or names than the plugin asks for, and lacks nothing else.
    #[must_use]
    pub fn is_narrowed(&self) -> bool {
        self.missing.is_empty() && !self.all.is_empty()
    }
}

/// Compares what the plugin with this manifest asks for with what the layers of the operator all allow; none allow nothing.
#[must_use]
pub fn review(manifest: &Manifest, asks: Vec<Ask>, layers: &[&Allowance]) -> PolicyReview {
    let rest = manifest.asked(vec![]);
    let own = manifest.finalizer();
    let nothing = [&Allowance::default()];
    let layers = if layers.is_empty() { &nothing[..] } else { layers };
    let lacks_name = |name: &String, of: fn(&Allowance) -> &[String]| {
        layers.iter().any(|layer| !lack::of_names(std::slice::from_ref(name), of(layer)).is_empty())
    };
    let lacks_http = |asked: &HttpRule| layers.iter().find_map(|layer| lack::of_http(asked, &layer.http));
    let others_finalizer = |name: &String| sensitive::of_finalizer(name, &own).into_iter().collect();
    PolicyReview {
        rules: each(asks, |ask| lacking_rules(&ask.rule, layers), |ask| sensitive::of_rule(&ask.rule)),
        http: each(http::asked(manifest), lacks_http, sensitive::of_http),
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
    /// True if everything is granted.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lacking().is_empty()
    }

    /// True if nothing is missing, and what is not granted was narrowed.
    #[must_use]
    pub fn is_narrowed(&self) -> bool {
        self.missing().is_empty() && !self.is_complete()
    }

    /// All that is not granted, in a policy's own form; empty: nothing.
    #[must_use]
    pub fn lacking(&self) -> String {
        self.listed(|rules| &rules.all)
    }

    /// The same without what was narrowed.
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
