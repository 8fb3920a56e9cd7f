//! The meaning of a definition: the service accounts and the grants that it asks for. Pure.

use windlass_sdk::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};

use crate::api::{BindingSpec, Definition, Role, RoleBindingSpec, Subject, SubjectSpec};

/// The kind of subjects that the plugin creates.
const SERVICE_ACCOUNT: &str = "ServiceAccount";

/// The contents of a definition.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) accounts: Vec<AccountWish>,
    pub(crate) grants: Vec<Grant>,
}

/// A service account that must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccountWish {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) pull_secrets: Vec<String>,
    pub(crate) automount: Option<bool>,
}

/// A role of some subjects in one or many places.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// The name of the entry in the definition.
    pub(crate) entry: String,
    pub(crate) role: Role,
    pub(crate) scope: Scope,
    /// In a fixed order, without repetitions.
    pub(crate) subjects: Vec<Subject>,
}

/// Where a grant holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In the whole cluster.
    Cluster,
    /// In a namespace.
    Namespace(String),
    /// In each namespace that the selector matches.
    Selected(LabelSelector),
}

impl Wishes {
    /// Reads a definition. A definition with a mistake asks for nothing; the error has all its mistakes.
    pub(crate) fn of(definition: &Definition) -> Result<Self, Vec<String>> {
        let (mut wishes, mut mistakes) = (Self::default(), Vec::new());
        for (index, entry) in definition.rbac_bindings.iter().enumerate() {
            wishes.add(entry).unwrap_or_else(|mistake| mistakes.push(format!("rbacBindings[{index}]{mistake}")));
        }
        if mistakes.is_empty() { Ok(wishes) } else { Err(mistakes) }
    }

    /// Adds an entry. The error begins with the place in the entry.
    fn add(&mut self, entry: &BindingSpec) -> Result<(), String> {
        if entry.name.is_empty() || entry.name.contains(['/', '%']) {
            return Err(".name: it becomes a part of names of bindings, so it must not be empty nor have / or %".into());
        }
        let mut subjects = Vec::new();
        for (index, subject) in entry.subjects.iter().enumerate() {
            subjects.push(self.subject(subject).map_err(|mistake| format!(".subjects[{index}]: {mistake}"))?);
        }
        subjects.sort();
        subjects.dedup();
        let mut grants = Vec::new();
        for binding in &entry.cluster_role_bindings {
            grants.push((role("ClusterRole", &binding.cluster_role), Scope::Cluster));
        }
        for (index, binding) in entry.role_bindings.iter().enumerate() {
            grants.push(role_and_scope(binding).map_err(|mistake| format!(".roleBindings[{index}]: {mistake}"))?);
        }
        let grant = |(role, scope)| Grant { entry: entry.name.clone(), role, scope, subjects: subjects.clone() };
        // Without subjects, a binding would grant nothing.
        self.grants.extend(grants.into_iter().filter(|_| !subjects.is_empty()).map(grant));
        Ok(())
    }

    fn subject(&mut self, subject: &SubjectSpec) -> Result<Subject, String> {
        let SubjectSpec { kind, name, namespace, .. } = subject;
        let namespace = match (kind.as_str(), namespace) {
            (SERVICE_ACCOUNT, Some(namespace)) if !namespace.is_empty() => Some(namespace.clone()),
            (SERVICE_ACCOUNT, _) => return Err("a ServiceAccount needs a namespace".into()),
            ("User" | "Group", _) => None,
            _ => return Err(format!("{kind:?} is no kind of subjects: use User, Group or ServiceAccount")),
        };
        if let Some(namespace) = &namespace {
            self.add_account(namespace, subject);
        }
        Ok(Subject { kind: kind.clone(), name: name.clone(), namespace })
    }

    /// Adds a service account. If several entries name it, it has the pull secrets of all.
    fn add_account(&mut self, namespace: &str, subject: &SubjectSpec) {
        let is_same = |it: &&mut AccountWish| it.namespace == namespace && it.name == subject.name;
        let account = match self.accounts.iter_mut().find(is_same) {
            Some(account) => account,
            None => self.accounts.push_mut(AccountWish {
                namespace: namespace.to_owned(),
                name: subject.name.clone(),
                pull_secrets: Vec::new(),
                automount: None,
            }),
        };
        for secret in &subject.image_pull_secrets {
            if !account.pull_secrets.contains(secret) {
                account.pull_secrets.push(secret.clone());
            }
        }
        account.automount = account.automount.or(subject.automount_service_account_token);
    }
}

fn role(kind: &str, name: &str) -> Role {
    Role { kind: kind.to_owned(), name: name.to_owned() }
}

fn role_and_scope(binding: &RoleBindingSpec) -> Result<(Role, Scope), String> {
    // Templates render values that they do not have as empty texts.
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let role = match (given(&binding.cluster_role), given(&binding.role)) {
        (Some(name), None) => role("ClusterRole", &name),
        (None, Some(name)) => role("Role", &name),
        (Some(_), Some(_)) => {
            return Err("it has a clusterRole and a role: use one of them (the original takes clusterRole)".into());
        }
        (None, None) => return Err("it has no role: use clusterRole or role".into()),
    };
    let scope = match (given(&binding.namespace), &binding.namespace_selector) {
        (Some(namespace), None) => Scope::Namespace(namespace),
        (None, Some(selector)) => Scope::Selected(checked(selector)?),
        (Some(_), Some(_)) => {
            return Err(
                "it has a namespace and a namespaceSelector: use one of them (the original takes the selector)".into(),
            );
        }
        (None, None) => return Err("it has no place: use namespace or namespaceSelector".into()),
    };
    Ok((role, scope))
}

/// An empty selector would match every namespace, which is more likely a mistake than a wish.
fn checked(selector: &LabelSelector) -> Result<LabelSelector, String> {
    if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
        return Err("the namespaceSelector is empty: for all namespaces, as in the original, use matchExpressions: \
                    [{key: kubernetes.io/metadata.name, operator: Exists}]"
            .into());
    }
    let is_wrong = |it: &&LabelSelectorRequirement| {
        let needs_values = matches!(it.operator, LabelSelectorOperator::In | LabelSelectorOperator::NotIn);
        needs_values == it.values.is_empty()
    };
    match selector.match_expressions.iter().find(is_wrong) {
        Some(wrong) => Err(format!("the expression about {} is wrong: only In and NotIn have values", wrong.key)),
        None => Ok(selector.clone()),
    }
}
