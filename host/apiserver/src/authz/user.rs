//! The user of a request, as found by authentication.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The name, groups and extra values of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The group whose members may do everything.
    pub(crate) const MASTERS: &str = "system:masters";
    /// The group of all authenticated users.
    pub(crate) const AUTHENTICATED: &str = "system:authenticated";
    pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
    pub(crate) const ANONYMOUS: &str = "system:anonymous";
    /// The group of all nodes.
    pub(crate) const NODES: &str = "system:nodes";
    /// The extra value in a service account's token that names the node.
    pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
    const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

    /// The user of the kubeconfig's token. On a server that allows everything, this is the only user.
    pub(crate) fn administrator() -> User {
        let groups = [User::MASTERS, User::AUTHENTICATED].map(str::to_owned).to_vec();
        User { name: "windlass".to_owned(), groups, ..User::default() }
    }

    /// The user of a request without credentials.
    pub(crate) fn anonymous() -> User {
        User { name: User::ANONYMOUS.to_owned(), groups: vec![User::UNAUTHENTICATED.to_owned()], ..User::default() }
    }

    /// A component of the server itself.
    pub(crate) fn component(name: &str) -> User {
        User { name: format!("system:{name}"), ..User::administrator() }
    }

    pub(crate) fn of_service_account(namespace: &str, name: &str) -> User {
        let mut groups = User::service_account_groups(namespace);
        groups.push(User::AUTHENTICATED.to_owned());
        User { name: format!("{}{namespace}:{name}", User::SERVICE_ACCOUNT), groups, ..User::default() }
    }

    pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
        vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
    }

    /// The namespace and name of the service account with this user name.
    pub(crate) fn service_account_of(name: &str) -> Option<(&str, &str)> {
        let (namespace, account) = name.strip_prefix(User::SERVICE_ACCOUNT)?.split_once(':')?;
        let valid = !namespace.is_empty() && !account.is_empty() && !account.contains(':');
        valid.then_some((namespace, account))
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    pub(crate) fn is_master(&self) -> bool {
        self.is_in(User::MASTERS)
    }

    /// The `UserInfo` of reviews.
    pub(crate) fn info(&self) -> Value {
        let mut info = json!({ "username": self.name });
        if !self.uid.is_empty() {
            info["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            info["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}
