//! Writes rights as roles and bindings, in JSON and YAML. The output is the same for the same rights, byte for byte.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_core::rights::principal::ServiceAccount;

use super::{HostRights, Rights, RightsScope, RoleRule};
use crate::document::VERBS;
use crate::draft::quoted;

const GROUP: &str = "rbac.authorization.k8s.io";
/// The label by which an operator finds all roles and bindings.
const LABEL: (&str, &str) = ("app.kubernetes.io/name", "windlass");

/// A role or a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleObject {
    /// If this is the cluster, the object is a `ClusterRole` or `ClusterRoleBinding`.
    pub scope: RightsScope,
    /// A binding has the same name as its role.
    pub name: String,
    pub content: RoleContent,
}

/// The content of a [`RoleObject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleContent {
    /// A role.
    Rules(Vec<RoleRule>),
    /// A binding of the role with the same name to the account.
    Binding(ServiceAccount),
}

/// The roles and bindings for the host, which runs as `account`, and for the accounts that its plugins impersonate. All
/// names begin with the name of the host's account.
#[must_use]
pub fn objects(rights: &HostRights, account: &ServiceAccount) -> Vec<RoleObject> {
    let mut objects = of_account(&rights.host, account, &account.name);
    for (other, rights) in &rights.accounts {
        let name = format!("{}:{}:{}", account.name, other.namespace, other.name);
        objects.extend(of_account(rights, other, &name));
    }
    objects
}

fn of_account(rights: &Rights, account: &ServiceAccount, name: &str) -> Vec<RoleObject> {
    let pair = |(scope, rules): (&RightsScope, &BTreeSet<RoleRule>)| {
        let rules = RoleContent::Rules(rules.iter().cloned().collect());
        [rules, RoleContent::Binding(account.clone())].map(|content| RoleObject {
            scope: scope.clone(),
            name: name.to_owned(),
            content,
        })
    };
    rights.scopes().flat_map(pair).collect()
}

impl RoleObject {
    /// Such as `ClusterRole`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match (&self.scope, &self.content) {
            (RightsScope::Cluster, RoleContent::Rules(_)) => "ClusterRole",
            (RightsScope::Cluster, RoleContent::Binding(_)) => "ClusterRoleBinding",
            (RightsScope::Namespace(_), RoleContent::Rules(_)) => "Role",
            (RightsScope::Namespace(_), RoleContent::Binding(_)) => "RoleBinding",
        }
    }

    fn kind_of_role(&self) -> &'static str {
        if self.scope == RightsScope::Cluster { "ClusterRole" } else { "Role" }
    }

    /// The object as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let (label, value) = LABEL;
        let mut object = json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": self.kind(),
            "metadata": {"name": self.name, "labels": {label: value}},
        });
        if let RightsScope::Namespace(namespace) = &self.scope {
            object["metadata"]["namespace"] = json!(namespace);
        }
        match &self.content {
            RoleContent::Rules(rules) => object["rules"] = rules.iter().map(rule_json).collect(),
            RoleContent::Binding(account) => {
                object["roleRef"] = json!({"apiGroup": GROUP, "kind": self.kind_of_role(), "name": self.name});
                let (namespace, name) = (&*account.namespace, &*account.name);
                object["subjects"] = json!([{"kind": "ServiceAccount", "namespace": namespace, "name": name}]);
            }
        }
        object
    }

    /// The object as a YAML document, for people and `kubectl apply -f -`.
    #[must_use]
    pub fn yaml(&self) -> String {
        let mut text =
            format!("---\napiVersion: {GROUP}/v1\nkind: {}\nmetadata:\n  name: {}\n", self.kind(), scalar(&self.name));
        // Writing to a `String` cannot fail.
        if let RightsScope::Namespace(namespace) = &self.scope {
            let _ = writeln!(text, "  namespace: {}", scalar(namespace));
        }
        let _ = writeln!(text, "  labels: {{{}: {}}}", LABEL.0, LABEL.1);
        match &self.content {
            RoleContent::Rules(rules) => {
                text.push_str("rules:\n");
                for rule in rules {
                    push_rule(&mut text, rule);
                }
            }
            RoleContent::Binding(account) => {
                let (role, name) = (self.kind_of_role(), scalar(&self.name));
                let _ = writeln!(text, "roleRef: {{apiGroup: {GROUP}, kind: {role}, name: {name}}}");
                let (namespace, name) = (scalar(&account.namespace), scalar(&account.name));
                let _ = writeln!(text, "subjects:\n- {{kind: ServiceAccount, namespace: {namespace}, name: {name}}}");
            }
        }
        text
    }
}

fn rule_json(rule: &RoleRule) -> Value {
    let mut json = json!({"apiGroups": rule.groups, "resources": rule.resources, "verbs": in_order(&rule.verbs)});
    if !rule.names.is_empty() {
        json["resourceNames"] = json!(rule.names);
    }
    json
}

fn push_rule(text: &mut String, rule: &RoleRule) {
    let verbs = flow(in_order(&rule.verbs));
    let _ = write!(text, "- apiGroups: {}\n  resources: {}\n", flow(&rule.groups), flow(&rule.resources));
    if !rule.names.is_empty() {
        let _ = writeln!(text, "  resourceNames: {}", flow(&rule.names));
    }
    let _ = writeln!(text, "  verbs: {verbs}");
}

/// Verbs in their customary order.
#[must_use]
pub fn in_order(verbs: &BTreeSet<String>) -> Vec<&String> {
    let place = |verb: &&String| VERBS.iter().position(|known| *known == verb.as_str()).unwrap_or(VERBS.len());
    let mut verbs: Vec<_> = verbs.iter().collect();
    verbs.sort_by_key(place);
    verbs
}

fn flow<'a>(list: impl IntoIterator<Item = &'a String>) -> String {
    format!("[{}]", list.into_iter().map(|item| scalar(item)).collect::<Vec<_>>().join(", "))
}

/// The text as a YAML scalar, in quotes if a parser could read it as a value of another type.
fn scalar(text: &str) -> String {
    const OTHER: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "nan"];
    let is_plain = text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.len() > 1
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"./-".contains(&byte))
        && !OTHER.contains(&text);
    if is_plain { text.to_owned() } else { quoted(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights() -> HostRights {
        let mut rights = HostRights::default();
        rights.host.add(RightsScope::Cluster, RoleRule::new("", "pods", &["watch", "list", "get"]));
        let secret = RoleRule::new("", "secrets", &["get"]).named(["a\"\n- b", "true"]);
        rights.host.add(RightsScope::Namespace("prod".to_owned()), secret);
        let account = ServiceAccount { namespace: "prod".into(), name: "deployer".into() };
        rights.accounts.entry(account).or_default().add(RightsScope::Cluster, RoleRule::new("apps", "*", &["get"]));
        rights
    }

    #[test]
    fn json_and_yaml_are_equivalent() {
        let account = ServiceAccount { namespace: "windlass-system".into(), name: "windlass".into() };
        let objects = objects(&rights(), &account);
        let kinds: Vec<_> = objects.iter().map(|object| (object.kind(), &*object.name)).collect();
        let expected = [
            ("ClusterRole", "windlass"),
            ("ClusterRoleBinding", "windlass"),
            ("Role", "windlass"),
            ("RoleBinding", "windlass"),
            ("ClusterRole", "windlass:prod:deployer"),
            ("ClusterRoleBinding", "windlass:prod:deployer"),
        ];
        assert_eq!(kinds, expected);
        let yaml: String = objects.iter().map(RoleObject::yaml).collect();
        let read: Vec<Value> = serde_saphyr::from_multiple(&yaml).expect("it is YAML");
        assert_eq!(read, objects.iter().map(RoleObject::json).collect::<Vec<_>>(), "{yaml}");
        assert!(yaml.contains("  verbs: [get, list, watch]\n") && yaml.contains("resourceNames: [\"a\\\""), "{yaml}");
    }
}
