//! Finds the requests of a plugin that a policy does not grant.

use std::collections::HashMap;
use std::net::SocketAddr;

use windlass_core::object::ObjectKey;
use windlass_core::rights::egress::{AddressReach, NetworkFacts, check_address};
use windlass_core::rights::grants::{Access, Allowance, HttpRule, Rule};

/// The maximum number of combinations that are compared for one rule. Only a policy that splits the rule into very many
/// parts needs more.
const COMPARED_COMBINATIONS_MAX: usize = 1 << 16;
/// The missing parts of a rule may be at most this many times as long as the rule. If they are longer, the whole rule
/// is reported as missing.
const LACK_GROWTH_MAX: usize = 64;

/// The part of `asked` that at least one of `layers` does not cover.
pub(crate) fn of_layers(asked: &Rule, layers: &[&Allowance]) -> Vec<Rule> {
    let mut lacking: Vec<Rule> = Vec::new();
    for rule in layers.iter().flat_map(|layer| of_rule(asked, layer)) {
        if !lacking.contains(&rule) {
            lacking.push(rule);
        }
    }
    lacking
}

/// The part of `asked` that `allowed` does not cover: for each set of resources, namespaces and names, the missing
/// verbs.
///
/// An untrusted rule may multiply out to billions of combinations. So values that exactly the same rules allow, for
/// example two resources, are grouped and compared as one. If there are still too many combinations, all of `asked` is
/// reported: possibly too much, but never too little.
pub(crate) fn of_rule(asked: &Rule, allowed: &Allowance) -> Vec<Rule> {
    let rules: Vec<&Rule> = allowed.rules.iter().filter(|rule| touches(rule, asked)).collect();
    let of = |dimension| classes(asked, &rules, dimension);
    let (groups, resources, namespaces) = (of(Dimension::Group), of(Dimension::Resource), of(Dimension::Namespace));
    let (names, verbs) = (of(Dimension::Name), of(Dimension::Verb));
    let sizes = [&groups, &resources, &namespaces, &names, &verbs].map(|classes| classes.len().max(1));
    if sizes.into_iter().fold(1, usize::saturating_mul) > COMPARED_COMBINATIONS_MAX {
        return vec![asked.clone()];
    }
    let mut lacking: Vec<Rule> = Vec::new();
    let mut length = 0;
    for (group, resource, namespace) in triples(&groups, &resources, &namespaces) {
        let here = and(&and(&group.allowed_by, &resource.allowed_by), &namespace.allowed_by);
        let lacks = |verb: &&Class<'_>| {
            let here = and(&here, &verb.allowed_by);
            names.iter().any(|name| !intersects(&here, &name.allowed_by))
        };
        let lacked: Vec<&str> = verbs.iter().filter(lacks).flat_map(|verb| verb.values.iter().copied()).collect();
        if lacked.is_empty() {
            continue;
        }
        let verbs = asked.verbs.iter().filter(|verb| lacked.contains(&verb.as_str())).cloned().collect();
        let part = Rule {
            groups: group.owned(),
            resources: resource.owned(),
            verbs,
            namespaces: if asked.namespaces.is_empty() { vec![] } else { namespace.owned() },
            names: asked.names.clone(),
            cluster: asked.cluster,
        };
        length += entries(&part);
        lacking.push(part);
        if length > LACK_GROWTH_MAX * entries(asked) {
            return vec![asked.clone()];
        }
    }
    lacking
}

#[derive(Clone, Copy)]
enum Dimension {
    Group,
    Resource,
    Namespace,
    Name,
    Verb,
}

impl Dimension {
    const ALL: [Self; 5] = [Self::Group, Self::Resource, Self::Namespace, Self::Name, Self::Verb];
}

/// Values of one dimension that the same rules allow.
struct Class<'a> {
    values: Vec<&'a str>,
    /// One bit per rule.
    allowed_by: Vec<u64>,
}

impl Class<'_> {
    fn owned(&self) -> Vec<String> {
        self.values.iter().map(|value| (*value).to_owned()).collect()
    }
}

/// The values of `rule` in `dimension`. If the rule allows all by listing none, the result is one empty text.
fn values(rule: &Rule, dimension: Dimension) -> Vec<&str> {
    let (list, empty_is_all) = match dimension {
        Dimension::Group => (&rule.groups, false),
        Dimension::Resource => (&rule.resources, false),
        Dimension::Namespace => (&rule.namespaces, true),
        Dimension::Name => (&rule.names, true),
        Dimension::Verb => (&rule.verbs, false),
    };
    if list.is_empty() && empty_is_all { vec![""] } else { list.iter().map(String::as_str).collect() }
}

fn classes<'a>(asked: &'a Rule, rules: &[&Rule], dimension: Dimension) -> Vec<Class<'a>> {
    let rules: Vec<_> = rules.iter().map(|rule| along(rule, dimension)).collect();
    let mut classes: Vec<Class<'a>> = Vec::new();
    let mut found: HashMap<Vec<u64>, usize> = HashMap::new();
    for value in values(asked, dimension) {
        let mut allowed_by = vec![0_u64; rules.len().div_ceil(64)];
        for (at, rule) in rules.iter().enumerate() {
            if allows(rule, asked, dimension, value) {
                allowed_by[at / 64] |= 1 << (at % 64);
            }
        }
        let at = *found.entry(allowed_by).or_insert_with_key(|allowed_by| {
            classes.push(Class { values: vec![], allowed_by: allowed_by.clone() });
            classes.len() - 1
        });
        classes[at].values.push(value);
    }
    classes
}

/// `rule`, changed to allow everything in all other dimensions.
fn along(rule: &Rule, dimension: Dimension) -> Rule {
    let star = || vec!["*".to_owned()];
    let everything = Rule { groups: star(), resources: star(), verbs: star(), ..Rule::default() };
    match dimension {
        Dimension::Group => Rule { groups: rule.groups.clone(), ..everything },
        Dimension::Resource => Rule { resources: rule.resources.clone(), ..everything },
        Dimension::Namespace => Rule { namespaces: rule.namespaces.clone(), cluster: rule.cluster, ..everything },
        Dimension::Name => Rule { names: rule.names.clone(), ..everything },
        Dimension::Verb => Rule { verbs: rule.verbs.clone(), ..everything },
    }
}

/// Whether a rule from [`along`] allows this value. `Rule::allows` decides, as it does for the host.
fn allows(rule: &Rule, asked: &Rule, dimension: Dimension, value: &str) -> bool {
    let of = |which: bool, otherwise| if which { value } else { otherwise };
    let path = of(matches!(dimension, Dimension::Resource), "*");
    let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
    let name = of(matches!(dimension, Dimension::Name), "");
    let key = if !asked.namespaces.is_empty() {
        Some(ObjectKey::namespaced(of(matches!(dimension, Dimension::Namespace), "*"), name))
    } else if name.is_empty() {
        None
    } else {
        Some(ObjectKey::cluster(name))
    };
    rule.allows(&Access {
        verb: of(matches!(dimension, Dimension::Verb), "*"),
        group: of(matches!(dimension, Dimension::Group), "*"),
        resource,
        subresource,
        namespaced: !asked.cluster,
        key: key.as_ref(),
    })
}

/// Whether `rule` and `asked` have something in common in each dimension. Otherwise `rule` is irrelevant.
pub(crate) fn touches(rule: &Rule, asked: &Rule) -> bool {
    Dimension::ALL.into_iter().all(|dimension| {
        let rule = along(rule, dimension);
        values(asked, dimension).into_iter().any(|value| allows(&rule, asked, dimension, value))
    })
}

fn triples<'a, T>(one: &'a [T], two: &'a [T], three: &'a [T]) -> impl Iterator<Item = (&'a T, &'a T, &'a T)> {
    one.iter().flat_map(move |a| two.iter().flat_map(move |b| three.iter().map(move |c| (a, b, c))))
}

fn and(one: &[u64], other: &[u64]) -> Vec<u64> {
    one.iter().zip(other).map(|(one, other)| one & other).collect()
}

fn intersects(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).any(|(one, other)| one & other != 0)
}

fn entries(rule: &Rule) -> usize {
    let Rule { groups, resources, verbs, namespaces, names, cluster: _ } = rule;
    [groups, resources, verbs, namespaces, names].map(Vec::len).into_iter().sum()
}

/// The names in `asked` that are not in `allowed`.
pub(crate) fn of_names<'a>(asked: &'a [String], allowed: &[String]) -> Vec<&'a String> {
    asked.iter().filter(|name| !allowed.iter().any(|it| it == "*" || it == *name)).collect()
}

/// The part of `asked` that some layer does not cover: the rule with the methods that are missing. If its host is an
/// address, the rules of each layer that cover a method must allow that address, too. The host decides about requests
/// in the same way.
pub(crate) fn of_http(asked: &HttpRule, layers: &[&[HttpRule]]) -> Option<HttpRule> {
    let lacks = |method: &&String| !layers.iter().all(|layer| allows_http(asked, method, layer));
    let methods: Vec<_> = asked.methods.iter().filter(lacks).cloned().collect();
    (!methods.is_empty()).then(|| HttpRule { methods, ..asked.clone() })
}

fn allows_http(asked: &HttpRule, method: &str, allowed: &[HttpRule]) -> bool {
    let covers = |rule: &&HttpRule| rule.covers(asked.scheme, &asked.host, asked.port(), method);
    let covering: Vec<_> = allowed.iter().filter(covers).collect();
    let Some(address) = asked.address() else { return !covering.is_empty() };
    let socket = SocketAddr::new(address, asked.port());
    !covering.is_empty() && check_address(socket, &AddressReach::of(covering), NetworkFacts::default()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::subsequence;
    use windlass_core::rights::egress::{self, HttpTarget, UrlHost};
    use windlass_core::rights::grants::{Grants, Layer, LiveGrants, Scheme};

    use super::*;
    use crate::examples::{list, rule};
    use crate::http::needed_addresses;

    fn lacking(asked: &Rule, allowed: Rule) -> Vec<Rule> {
        of_rule(asked, &Allowance { rules: vec![allowed], ..Allowance::default() })
    }

    #[test]
    fn only_uncovered_requests_are_missing() {
        assert!(lacking(&rule(&["get"], &[]), rule(&["*"], &[])).is_empty());
        assert_eq!(
            lacking(&rule(&["get", "patch"], &["a", "b"]), rule(&["get"], &["a"])),
            [rule(&["patch"], &["a"]), rule(&["get", "patch"], &["b"]),]
        );
        assert_eq!(lacking(&rule(&["get"], &[]), rule(&["get"], &["a"])), [rule(&["get"], &[])]);
        let everything = Rule { groups: list(&["*"]), resources: list(&["*"]), ..rule(&["*"], &[]) };
        assert!(lacking(&everything, everything.clone()).is_empty());
        assert_eq!(lacking(&everything, rule(&["*"], &[])).len(), 1);
        let cluster = Rule { cluster: true, ..rule(&["get"], &[]) };
        assert_eq!(lacking(&cluster, rule(&["get"], &[])), std::slice::from_ref(&cluster));
    }

    /// All combinations that are not allowed, found by comparing each one. The tests compare this with [`of_rule`].
    fn lacks(asked: &Rule, allowed: &[Rule]) -> BTreeSet<[String; 4]> {
        let none = vec![String::new()];
        let mut lacking = BTreeSet::new();
        let namespaces = if asked.namespaces.is_empty() { &none } else { &asked.namespaces };
        let names = if asked.names.is_empty() { &none } else { &asked.names };
        for (group, path, namespace) in triples(&asked.groups, &asked.resources, namespaces) {
            for (verb, name, _) in triples(&asked.verbs, names, &[String::new()]) {
                let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
                let key = match (asked.namespaces.is_empty(), name.as_str()) {
                    (false, name) => Some(ObjectKey::namespaced(namespace.as_str(), name)),
                    (true, "") => None,
                    (true, name) => Some(ObjectKey::cluster(name)),
                };
                let access =
                    Access { verb, group, resource, subresource, namespaced: !asked.cluster, key: key.as_ref() };
                if !allowed.iter().any(|rule| rule.allows(&access)) {
                    lacking.insert([group, path, namespace, verb].map(Clone::clone));
                }
            }
        }
        lacking
    }

    fn any_rule() -> impl Strategy<Value = Rule> {
        let some =
            |of: &'static [&'static str], least| subsequence(of, least..=of.len()).prop_map(|items| list(&items));
        let resources = some(&["pods", "pods/exec", "nodes", "*/exec", "*"], 1);
        let lists = (some(&["", "apps", "*"], 1), resources, some(&["get", "list", "*"], 1));
        (lists, some(&["a", "b", "*"], 0), some(&["x", "y", "*"], 0), any::<bool>()).prop_map(
            |((groups, resources, verbs), namespaces, names, cluster)| Rule {
                groups,
                resources,
                verbs,
                namespaces,
                names,
                cluster,
            },
        )
    }

    proptest! {
        #[test]
        fn the_missing_part_equals_that_of_the_full_product(asked in any_rule(), allowed in vec(any_rule(), 0..5)) {
            let allowance = Allowance { rules: allowed.clone(), ..Allowance::default() };
            let said = of_rule(&asked, &allowance);
            let said: BTreeSet<_> = said.iter().flat_map(|part| lacks(part, &[])).collect();
            prop_assert_eq!(said, lacks(&asked, &allowed));
        }
    }

    fn many(letter: char, count: usize) -> Vec<String> {
        (0..count).map(|at| format!("{letter}{at}")).collect()
    }

    fn multiplied(count: usize) -> Rule {
        Rule {
            groups: many('g', count),
            resources: many('r', count),
            namespaces: many('n', count),
            names: many('x', count),
            ..rule(&["get", "list"], &[])
        }
    }

    #[test]
    fn the_missing_part_of_a_huge_rule_is_at_most_the_rule() {
        let asked = multiplied(4_000);
        assert_eq!(of_rule(&asked, &Allowance::default()), std::slice::from_ref(&asked));
        assert!(lacking(&asked, asked.clone()).is_empty());
        let parts = lacking(&asked, Rule { groups: many('g', 10), ..asked.clone() });
        assert_eq!(parts.iter().map(|part| part.groups.len()).collect::<Vec<_>>(), [3_990]);
    }

    #[test]
    fn a_rule_with_too_many_combinations_is_missing_as_a_whole() {
        let asked = multiplied(40);
        let at = |at: usize| Rule {
            groups: vec![format!("g{at}")],
            resources: vec![format!("r{at}")],
            namespaces: vec![format!("n{at}")],
            ..asked.clone()
        };
        for count in [20, 40] {
            let allowed = Allowance { rules: (0..count).map(at).collect(), ..Allowance::default() };
            let lacking = of_rule(&asked, &allowed);
            assert!(lacking.iter().map(entries).sum::<usize>() <= LACK_GROWTH_MAX * entries(&asked));
            assert_eq!(lacking[0], asked);
        }
    }

    #[test]
    fn http_methods_are_checked_one_by_one() {
        let rule = |host: &str, methods: &[&str]| HttpRule {
            scheme: Scheme::Https,
            host: host.to_owned(),
            port: None,
            methods: list(methods),
            addresses: vec![],
        };
        let asked = rule("api.example.com", &["GET", "POST"]);
        assert_eq!(of_http(&asked, &[&[rule("*.example.com", &["*"])]]), None);
        assert_eq!(of_http(&asked, &[&[rule("api.example.com", &["GET"])]]), Some(rule("api.example.com", &["POST"])));
        assert_eq!(
            of_http(&rule("*.example.com", &["GET"]), &[&[asked]]).map(|lack| lack.methods),
            Some(list(&["GET"]))
        );
    }

    /// Whether the host would send a GET to `host` if `rule` was all that the operator granted.
    fn is_sent(host: &str, rule: &HttpRule) -> bool {
        let with = |addresses: &[String], host: &str| HttpRule {
            host: host.to_owned(),
            addresses: addresses.to_vec(),
            ..rule.clone()
        };
        let of = |rule| Allowance { http: vec![rule], ..Allowance::default() };
        let policy = Arc::new(of(rule.clone()));
        let grants = LiveGrants::new(Grants::asked(of(with(&[], host))).bounded(Layer::Policy, policy));
        let target = HttpTarget::parse(&format!("https://{host}/")).expect("a URL");
        let reach = egress::allow(&grants, "GET", &target);
        reach.is_ok_and(|reach| match target.host {
            UrlHost::Address(address) => {
                check_address(SocketAddr::new(address, target.port), &reach, NetworkFacts::default()).is_ok()
            }
            UrlHost::Name(_) => true,
        })
    }

    #[test]
    fn a_request_is_missing_exactly_if_the_host_would_deny_it() {
        let hosts = [
            "api.example.com",
            "a.b.example.com",
            "8.8.8.8",
            "10.0.0.1",
            "169.254.169.254",
            "[fd00::1]",
            "[2606:4700::1111]",
            "[::ffff:10.0.0.1]",
            "[64:ff9b::10.0.0.1]",
            "[::10.0.0.1]",
        ];
        let patterns =
            hosts.into_iter().chain(["*", "*.*", "*.*.*", "*.*.*.*", "10.*.*.*", "*.example.com", "fd00::1"]);
        let ranges: [&[&str]; 5] =
            [&[], &["0.0.0.0/0"], &["::/0"], &["0.0.0.0/0", "::/0"], &["169.254.169.254/32", "::a00:1/128"]];
        let mut sent = 0;
        for (pattern, addresses) in patterns.flat_map(|pattern| ranges.map(|addresses| (pattern, addresses))) {
            let rule = |host: &str, addresses: &[&str]| HttpRule {
                scheme: Scheme::Https,
                host: host.to_owned(),
                port: None,
                methods: list(&["GET"]),
                addresses: list(addresses),
            };
            for host in hosts {
                let granted = rule(pattern, addresses);
                let asked = HttpRule { addresses: needed_addresses(&rule(host, &[])), ..rule(host, &[]) };
                let is_granted = of_http(&asked, &[std::slice::from_ref(&granted)]).is_none();
                assert_eq!(is_granted, is_sent(host, &granted), "{host} by {pattern} at {addresses:?}");
                sent += usize::from(is_granted);
            }
        }
        assert!(sent > hosts.len(), "each host is granted by some rule");
    }

    #[test]
    fn a_policy_must_name_the_address_of_a_host() {
        let rule = |addresses: &[&str]| HttpRule {
            scheme: Scheme::Http,
            host: "10.0.0.1".to_owned(),
            port: None,
            methods: list(&["GET"]),
            addresses: list(addresses),
        };
        let asked = rule(&["10.0.0.1/32"]);
        assert_eq!(of_http(&asked, &[&[rule(&[])]]), Some(asked.clone()));
        assert_eq!(of_http(&asked, &[&[rule(&["10.0.0.0/8"])]]), None);
        let metadata = |addresses: &[&str]| HttpRule { host: "169.254.169.254".to_owned(), ..rule(addresses) };
        let asked = metadata(&["169.254.169.254/32"]);
        assert_eq!(
            of_http(&asked, &[&[metadata(&["169.254.0.0/16"])]]),
            Some(asked.clone()),
            "it must be named by itself"
        );
        assert_eq!(of_http(&asked, &[&[metadata(&["169.254.169.254"])]]), None);
    }

    #[test]
    fn a_grant_for_one_name_does_not_cover_all() {
        let named = Rule { names: list(&["a"]), ..rule(&["get"], &["prod"]) };
        assert!(lacking(&named, rule(&["get"], &[])).is_empty());
        assert_eq!(lacking(&rule(&["get"], &["prod"]), named).len(), 1);
    }
}
