//! Derives the rights of a plugin from `+kubebuilder:rbac` markers and the role in `config/rbac/role.yaml`.

use serde_json::Value;
use windlass_core::rights::grants::Rule;
use windlass_core::rights::verbs::{ConsequenceVerb, REQUEST_VERBS};

use super::scan::{Marker, SourcePlace};

/// The beginning of a marker.
const MARKER: &str = "+kubebuilder:rbac:";

/// Where a rule or a problem is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleSource(pub String);

/// A rule of the project that the plugin does not need, or cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DroppedRule {
    pub source: RuleSource,
    /// The rule in short.
    pub rule: String,
    pub why: &'static str,
}

/// The rights of a plugin.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rights {
    pub rules: Vec<Rule>,
    pub dropped: Vec<DroppedRule>,
    /// The number of rules that only the role has.
    pub only_in_role: usize,
}

/// Resources for which a plugin needs no right, with the reason: groups, resource, reason.
const HOSTS_OWN: [(&[&str], &str, &str); 5] = [
    (&["", "events.k8s.io"], "events", "the host writes the Events of a plugin"),
    (&["coordination.k8s.io"], "leases", "the host elects leaders"),
    (&["", "coordination.k8s.io"], "configmaps/status", "leader election has no ConfigMaps any more"),
    (&["authentication.k8s.io"], "tokenreviews", "the host serves metrics"),
    (&["authorization.k8s.io"], "subjectaccessreviews", "the host serves metrics"),
];

impl Rights {
    /// Reads the markers, and adds what only the role has.
    pub(super) fn of(markers: &[Marker], role: &[Value]) -> Self {
        let mut rights = Self::default();
        for Marker { place: SourcePlace { file, line }, text } in markers {
            let Some(fields) = text.strip_prefix(MARKER) else { continue };
            rights.take(marked(fields), &RuleSource(format!("{file}:{line}")));
        }
        let of_markers = rights.rules.len();
        for document in role {
            for rule in document["rules"].as_array().into_iter().flatten() {
                rights.take(of_role(rule), &RuleSource("config/rbac/role.yaml".to_owned()));
            }
        }
        rights.only_in_role = rights.rules.len() - of_markers;
        rights
    }

    fn take(&mut self, rule: Result<Rule, (&'static str, String)>, source: &RuleSource) {
        let mut drop = |rule: String, why| {
            let dropped = DroppedRule { source: source.clone(), rule, why };
            // The role repeats what the markers say.
            if !self.dropped.iter().any(|it| it.rule == dropped.rule && it.why == why) {
                self.dropped.push(dropped);
            }
        };
        let mut rule = match rule {
            Ok(rule) => rule,
            Err((why, text)) => return drop(text, why),
        };
        rule.resources.retain(|resource| {
            let why = needless(&rule.groups, resource);
            if let Some(why) = why {
                drop(format!("{resource}: {}", rule.verbs.join(", ")), why);
            }
            why.is_none()
        });
        rule.verbs.retain(|verb| {
            let is_known = verb == "*" || REQUEST_VERBS.contains(&&**verb);
            let is_known =
                is_known || ConsequenceVerb::named(verb).is_some_and(|verb| verb.fits(&rule.groups, &rule.resources));
            if !is_known {
                drop(format!("{}: {verb}", rule.resources.join(", ")), "plugins cannot have this verb");
            }
            is_known
        });
        if rule.resources.is_empty() || rule.verbs.is_empty() {
            return;
        }
        if rule.groups.is_empty() {
            return drop(format!("{}: {}", rule.resources.join(", "), rule.verbs.join(", ")), "it names no API group");
        }
        if !covers(&self.rules, &rule) {
            self.rules.push(rule);
        }
    }
}

/// Why a plugin needs no right for a resource. `None` if it does.
fn needless(groups: &[String], resource: &str) -> Option<&'static str> {
    if resource.ends_with("/finalizers") {
        return Some("the host sets owners, and a plugin's finalizers have a list of their own");
    }
    let found = HOSTS_OWN.iter().find(|(of, name, _)| {
        *name == resource && !groups.is_empty() && groups.iter().all(|group| of.contains(&&**group))
    });
    found.map(|(_, _, why)| *why)
}

fn is_of_request(verb: &str) -> bool {
    ConsequenceVerb::named(verb).is_none()
}

/// Whether `rules` allow everything that `rule` does.
fn covers(rules: &[Rule], rule: &Rule) -> bool {
    let has = |list: &[String], item: &str| list.iter().any(|it| it == item || it == "*");
    // In a manifest, `*` stands for the verbs of requests only.
    let allows = |list: &[String], verb: &String| list.contains(verb) || (is_of_request(verb) && has(list, verb));
    let narrows =
        |list: &[String], by: &[String]| list.is_empty() || (!by.is_empty() && by.iter().all(|it| list.contains(it)));
    rule.groups.iter().all(|group| {
        rule.resources.iter().all(|resource| {
            rule.verbs.iter().all(|verb| {
                rules.iter().any(|it| {
                    has(&it.groups, group)
                        && has(&it.resources, resource)
                        && allows(&it.verbs, verb)
                        && narrows(&it.namespaces, &rule.namespaces)
                        && narrows(&it.names, &rule.names)
                })
            })
        })
    })
}

/// The rule of a marker. The error has the reason, and the marker.
fn marked(fields: &str) -> Result<Rule, (&'static str, String)> {
    let mut rule = Rule::default();
    for (name, value) in split_fields(fields).ok_or(("the marker cannot be read", fields.to_owned()))? {
        let values = values(&value);
        match &*name {
            "groups" => {
                rule.groups = values.into_iter().map(|it| if it == "core" { String::new() } else { it }).collect();
            }
            "resources" => rule.resources = values,
            "verbs" => rule.verbs = values.into_iter().map(|it| it.to_lowercase()).collect(),
            "resourceNames" => rule.names = values,
            "namespace" => rule.namespaces = values,
            "urls" => return Err(("a plugin reads API resources only", fields.to_owned())),
            // `roleName` and the like name the role.
            _ => {}
        }
    }
    if rule.groups.is_empty() && fields.contains("groups=") {
        rule.groups.push(String::new());
    }
    Ok(rule)
}

/// Splits `a=b,c={d,e},f="g,h"` at the commas outside quotes and braces. `None` if a part has no `=`.
fn split_fields(text: &str) -> Option<Vec<(String, String)>> {
    let (mut parts, mut part, mut depth, mut quote) = (Vec::new(), String::new(), 0_u32, None);
    for letter in text.chars() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('"' | '`' | '\'', None) => quote = Some(letter),
            ('{', None) => depth += 1,
            ('}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    let fields = parts.iter().filter(|part| !part.trim().is_empty());
    fields.map(|part| part.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.to_owned()))).collect()
}

/// The values of a field: `a;b`, `{a,b}`, or `"a"`.
fn values(text: &str) -> Vec<String> {
    let is_list = text.trim().starts_with('{');
    let bare = text.trim().trim_matches(['{', '}']);
    let parts = bare.split([';', if is_list { ',' } else { ';' }]);
    let parts: Vec<String> = parts.map(|part| part.trim().trim_matches(['"', '`', '\'']).to_owned()).collect();
    // `groups=""` is the core group, and an empty list nothing.
    if parts.iter().all(String::is_empty) && !bare.contains('"') { vec![] } else { parts }
}

fn of_role(rule: &Value) -> Result<Rule, (&'static str, String)> {
    let list = |name: &str| -> Vec<String> {
        rule[name].as_array().into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
    };
    if rule["nonResourceURLs"].is_array() {
        return Err(("a plugin reads API resources only", list("nonResourceURLs").join(", ")));
    }
    let (groups, resources, verbs, names) =
        (list("apiGroups"), list("resources"), list("verbs"), list("resourceNames"));
    Ok(Rule { groups, resources, verbs, names, ..Rule::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn marker(line: u32, text: &str) -> Marker {
        Marker { place: SourcePlace { file: "a.go".into(), line }, text: format!("{MARKER}{text}") }
    }

    fn in_short(rule: &Rule) -> String {
        let Rule { groups, resources, verbs, namespaces, names, .. } = rule;
        let lists = [groups, resources, verbs, namespaces, names].map(|list| list.join(";"));
        lists.join("|")
    }

    #[test]
    fn markers_become_rules_in_all_their_forms() {
        for (text, expected) in [
            ("groups=apps,resources=deployments,verbs=get;list;watch", "apps|deployments|get;list;watch||"),
            ("groups=core,resources=pods,verbs=get", "|pods|get||"),
            ("groups=\"\",resources=pods;secrets,verbs=*", "|pods;secrets|*||"),
            (
                "groups=\"apps;batch\",resources={jobs,deployments},verbs={get,list}",
                "apps;batch|jobs;deployments|get;list||",
            ),
            ("groups=a.b,namespace=prod,resources=shops,resourceNames=x;y,verbs=GET", "a.b|shops|get|prod|x;y"),
        ] {
            let rights = Rights::of(&[marker(1, text)], &[]);
            assert_eq!(rights.rules.iter().map(in_short).collect::<Vec<_>>(), [expected], "{text}");
        }
    }

    #[test]
    fn the_hosts_own_work_needs_no_right() {
        let markers = [
            marker(1, "groups=core,resources=events,verbs=create;patch"),
            marker(2, "groups=coordination.k8s.io,resources=leases,verbs=get;update"),
            marker(3, "groups=a.b,resources=shops;shops/finalizers,verbs=update"),
            marker(4, "urls=/metrics,verbs=get"),
            marker(5, "groups=rbac.authorization.k8s.io,resources=roles,verbs=get;escalate"),
            marker(6, "resources=shops,verbs=get"),
            marker(7, "nonsense"),
            marker(8, "groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=get;bind"),
            marker(9, "groups=rbac.authorization.k8s.io,resources=roles,verbs=use"),
        ];
        let rights = Rights::of(&markers, &[]);
        let rules: Vec<_> = rights.rules.iter().map(in_short).collect();
        let of_rbac =
            ["roles|get;escalate||", "rolebindings|get||"].map(|it| format!("rbac.authorization.k8s.io|{it}"));
        assert_eq!(rules, [&["a.b|shops|update||".to_owned()][..], &of_rbac].concat());
        let dropped: Vec<_> = rights.dropped.iter().map(|it| format!("{} {}", it.source.0, it.rule)).collect();
        let expected = [
            "a.go:1 events: create, patch",
            "a.go:2 leases: get, update",
            "a.go:3 shops/finalizers: update",
            "a.go:4 urls=/metrics,verbs=get",
            "a.go:6 shops: get",
            "a.go:7 nonsense",
            "a.go:8 rolebindings: bind",
            "a.go:9 roles: use",
        ];
        assert_eq!(dropped, expected);
    }

    #[test]
    fn only_what_the_markers_lack_is_taken_from_the_role() {
        let markers = [
            marker(1, "groups=apps,resources=deployments,verbs=get;list"),
            marker(2, "groups=\"\",resources=pods,verbs=*"),
        ];
        let role = json!({"kind": "ClusterRole", "rules": [
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]},
            {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": ["get"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]});
        let rights = Rights::of(&markers, &[role]);
        assert_eq!((rights.rules.len(), rights.only_in_role, rights.dropped.len()), (3, 1, 1));
        assert_eq!(in_short(&rights.rules[2]), "apps|deployments;statefulsets|get||");
    }
}
