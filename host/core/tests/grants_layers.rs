//! Tests layers of grants with random rules and requests.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use windlass_core::object::ObjectKey;
use windlass_core::rights::grants::{Access, Allowance, Forbidden, Grants, Layer, Rule};

const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/exec", "deployments", "deployments/scale", "*/scale", "*"];
const VERBS: &[&str] = &["get", "list", "patch", "delete", "*"];
const NAMESPACES: &[&str] = &["prod", "test", "windlass"];
const NAMES: &[&str] = &["a", "b"];

fn some(of: &'static [&'static str], least: usize) -> impl Strategy<Value = Vec<String>> {
    subsequence(of, least..=of.len()).prop_map(|items| items.into_iter().map(str::to_owned).collect())
}

fn rule() -> impl Strategy<Value = Rule> {
    (some(GROUPS, 1), some(RESOURCES, 1), some(VERBS, 1), some(NAMESPACES, 0), some(NAMES, 0), any::<bool>()).prop_map(
        |(groups, resources, verbs, namespaces, names, cluster)| Rule {
            groups,
            resources,
            verbs,
            namespaces,
            names,
            cluster,
        },
    )
}

fn allowance() -> impl Strategy<Value = Arc<Allowance>> {
    vec(rule(), 0..4).prop_map(|rules| Arc::new(Allowance { rules, ..Allowance::default() }))
}

/// An owned request.
#[derive(Clone, Debug)]
struct Request {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    namespaced: bool,
    key: Option<ObjectKey>,
}

impl Request {
    fn access(&self) -> Access<'_> {
        Access {
            verb: self.verb,
            group: self.group,
            resource: self.resource,
            subresource: self.subresource,
            namespaced: self.namespaced,
            key: self.key.as_ref(),
        }
    }
}

prop_compose! {
    fn request()(
        verb in select(&["get", "list", "patch", "delete"][..]),
        group in select(&["", "apps"][..]),
        resource in select(&["pods", "deployments", "namespaces"][..]),
        subresource in select(&["", "exec", "scale"][..]),
        namespaced in any::<bool>(),
        namespace in select(NAMESPACES),
        name in proptest::option::of(select(&["a", "b", "", "windlass"][..])),
    ) -> Request {
        let key = name.map(|name| {
            if namespaced { ObjectKey::namespaced(namespace, name) } else { ObjectKey::cluster(name) }
        });
        Request { verb, group, resource, subresource, namespaced, key }
    }
}

fn forbidden() -> Forbidden {
    Forbidden { host_namespace: Some("windlass".to_owned()), ..Forbidden::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn another_layer_never_allows_more(asked in allowance(), bound in allowance(), request in request()) {
        let less = Grants::new(asked.rules.clone());
        let more = less.clone().bounded(Layer::Policy, bound);
        prop_assert!(less.allows(&request.access()) || !more.allows(&request.access()));
        for narrowed in [more.clone().within(Some("prod")), more.clone().without(forbidden())] {
            prop_assert!(more.allows(&request.access()) || !narrowed.allows(&request.access()));
        }
    }

    #[test]
    fn the_order_of_the_layers_does_not_matter(layers in vec(allowance(), 3), request in request()) {
        let [a, b, c] = &layers[..] else { unreachable!("three of them") };
        let stacked = |asked: &Arc<Allowance>, policy: &Arc<Allowance>, ceiling: &Arc<Allowance>| {
            let grants = Grants::new(asked.rules.clone());
            let grants = grants.bounded(Layer::Policy, policy.clone()).bounded(Layer::Ceiling, ceiling.clone());
            grants.allows(&request.access())
        };
        let expected = stacked(a, b, c);
        for other in [stacked(a, c, b), stacked(b, a, c), stacked(c, b, a)] {
            prop_assert_eq!(other, expected);
        }
    }

    #[test]
    fn an_allowed_request_is_allowed_by_each_layer_alone(
        asked in allowance(), bound in allowance(), request in request(),
    ) {
        let access = request.access();
        let both = Grants::new(asked.rules.clone()).bounded(Layer::Policy, bound.clone()).allows(&access);
        let each = [asked, bound].iter().all(|layer| Grants::new(layer.rules.clone()).allows(&access));
        prop_assert_eq!(both, each);
    }

    #[test]
    fn check_agrees_with_allows_and_names_a_cause(asked in allowance(), bound in allowance(), request in request()) {
        let grants = Grants::new(asked.rules.clone()).bounded(Layer::Policy, bound).without(forbidden());
        match grants.check(&request.access()) {
            Ok(()) => prop_assert!(grants.allows(&request.access())),
            Err(denial) => {
                prop_assert!(!grants.allows(&request.access()));
                prop_assert!(!denial.to_string().is_empty() && !denial.cause.as_str().is_empty());
            }
        }
    }

    #[test]
    fn the_hosts_namespace_is_never_allowed(asked in allowance(), request in request()) {
        let grants = Grants::new(asked.rules.clone()).without(forbidden());
        if request.key.as_ref().is_some_and(|key| key.namespace.as_deref() == Some("windlass")) {
            prop_assert!(!grants.allows(&request.access()));
        }
    }
}
