//! The verbs of rights: the verbs of requests, and verbs that the API server checks because of what a request would
//! cause.

use std::fmt;

/// The verbs of requests.
pub const REQUEST_VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// A verb that no request has. The API server checks it as well, for the account that sends the request. The host does
/// not check it at a call.
#[derive(Debug, PartialEq, Eq)]
pub struct ConsequenceVerb {
    pub verb: &'static str,
    /// The only API group in which it means something.
    pub group: &'static str,
    /// The only resources for which it means something.
    pub resources: &'static [&'static str],
}

/// The resource that stands for the signers of certificates. No object is of this resource. A signer's name is
/// `DOMAIN/NAME`.
pub const SIGNERS: &str = "signers";
const CERTIFICATES_GROUP: &str = "certificates.k8s.io";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const ROLE_RESOURCES: &[&str] = &["roles", "clusterroles"];

/// All such verbs that rules may have. `impersonate` is not one: a policy's `impersonate` names the account.
pub const CONSEQUENCE_VERBS: [ConsequenceVerb; 4] = [
    ConsequenceVerb { verb: "approve", group: CERTIFICATES_GROUP, resources: &[SIGNERS] },
    ConsequenceVerb { verb: "sign", group: CERTIFICATES_GROUP, resources: &[SIGNERS] },
    ConsequenceVerb { verb: "bind", group: RBAC_GROUP, resources: ROLE_RESOURCES },
    ConsequenceVerb { verb: "escalate", group: RBAC_GROUP, resources: ROLE_RESOURCES },
];

impl ConsequenceVerb {
    /// The verb of this name.
    #[must_use]
    pub fn named(verb: &str) -> Option<&'static Self> {
        CONSEQUENCE_VERBS.iter().find(|it| it.verb == verb)
    }

    /// Whether a rule about just these groups and resources may have the verb.
    #[must_use]
    pub fn fits(&self, groups: &[String], resources: &[String]) -> bool {
        groups.iter().all(|group| group == self.group)
            && resources.iter().all(|resource| self.resources.contains(&&**resource))
    }
}

/// Says what the verb is for.
impl fmt::Display for ConsequenceVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the verb `{}` is only for {} of {}", self.verb, self.resources.join(" and "), self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_fits_only_its_own_group_and_resources() {
        let list = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect::<Vec<_>>();
        let bind = ConsequenceVerb::named("bind").expect("it is known");
        assert!(bind.fits(&list(&[RBAC_GROUP]), &list(&["roles", "clusterroles"])));
        for (groups, resources) in [
            (list(&[""]), list(&["roles"])),
            (list(&["*"]), list(&["roles"])),
            (list(&[RBAC_GROUP, ""]), list(&["roles"])),
            (list(&[RBAC_GROUP]), list(&["roles", "rolebindings"])),
            (list(&[RBAC_GROUP]), list(&["*"])),
        ] {
            assert!(!bind.fits(&groups, &resources), "{groups:?} {resources:?}");
        }
        assert_eq!(bind.to_string(), "the verb `bind` is only for roles and clusterroles of rbac.authorization.k8s.io");
        assert!(REQUEST_VERBS.iter().all(|verb| ConsequenceVerb::named(verb).is_none()));
    }
}
