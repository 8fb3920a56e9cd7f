//! Impersonation: a request's `Impersonate-*` headers name another user, and the request is then served as that user.
//! The request's own user needs the right to impersonate. There are two kinds of this right: constrained rights, which
//! also limit what the user may do while impersonating (KEP-5284), and the older verb `impersonate`. Each header value
//! is authorized separately.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::authz::{Access, Attributes, ResourceAttributes, User};
use crate::object::names;
use crate::status_error::ApiError;

const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The user in the headers, or `None` without such headers. `request` is the request to be made as that user.
pub(super) fn impersonate(
    access: Access<'_>,
    user: &User,
    headers: &HeaderMap,
    request: &Attributes,
) -> Result<Option<User>, ApiError> {
    let Some(wanted) = read(headers)? else { return Ok(None) };
    let refused = |questions: Vec<Attributes>| {
        questions.into_iter().enumerate().find_map(|(index, attributes)| {
            let decision = access.decide(user, &attributes);
            (!decision.allowed).then(|| (index, attributes.refuse(user, &decision.reason)))
        })
    };
    let mut constrained = None;
    for mode in Mode::of(user, &wanted) {
        match refused(mode.questions(&wanted, request)) {
            None => return Ok(Some(completed(wanted, mode.groups))),
            Some((_, refusal)) => constrained = constrained.or(Some(refusal)),
        }
    }
    let Some((first, older)) = refused(questions(&wanted)) else { return Ok(Some(completed(wanted, &[]))) };
    // The error names a missing constrained right, unless the user has the older right for the name. Then it names the
    // older right that is missing.
    Err(constrained.filter(|_| first == 0).unwrap_or(older))
}

/// The questions to the authorizer: may the user impersonate this name, these groups and these extra values?
fn questions(wanted: &User) -> Vec<Attributes> {
    let who = match User::service_account_of(&wanted.name) {
        Some((namespace, name)) => {
            ResourceAttributes { namespace: namespace.to_owned(), ..asked("impersonate", "", "serviceaccounts", name) }
        }
        None => asked("impersonate", "", "users", &wanted.name),
    };
    let groups = wanted.groups.iter().map(|group| asked("impersonate", "", "groups", group));
    let questions = std::iter::once(who).chain(groups).chain(marks("impersonate", wanted));
    questions.map(Attributes::Resource).collect()
}

fn marks(verb: &str, wanted: &User) -> Vec<ResourceAttributes> {
    let extra = wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    let extra = extra.map(|(key, value)| {
        let mark = asked(verb, AUTHENTICATION, "userextras", value);
        ResourceAttributes { subresource: key.clone(), ..mark }
    });
    let uid = (!wanted.uid.is_empty()).then(|| asked(verb, AUTHENTICATION, "uids", &wanted.uid));
    extra.chain(uid).collect()
}

fn asked(verb: &str, group: &str, resource: &str, name: &str) -> ResourceAttributes {
    ResourceAttributes {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
        ..ResourceAttributes::default()
    }
}

/// A kind of constrained impersonation.
struct Mode {
    name: &'static str,
    who: ResourceAttributes,
    /// The groups that all users of this mode have.
    groups: &'static [&'static str],
}

impl Mode {
    /// The modes in which the user may impersonate the wanted user, in the order in which they are tried.
    fn of(user: &User, wanted: &User) -> Vec<Mode> {
        let name_alone = wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty();
        if let Some((namespace, name)) = User::service_account_of(&wanted.name) {
            let who = asked("impersonate:serviceaccount", AUTHENTICATION, "serviceaccounts", name);
            let who = ResourceAttributes { namespace: namespace.to_owned(), ..who };
            let mode = Mode { name: "serviceaccount", who, groups: &[] };
            return name_alone.then_some(mode).into_iter().collect();
        }
        if let Some(node) = node_of(&wanted.name) {
            let mode = |name, node| Mode {
                name,
                who: asked(&format!("impersonate:{name}"), AUTHENTICATION, "nodes", node),
                groups: &[User::NODES],
            };
            // The right to impersonate the node on which the user runs does not name the node.
            let own = runs_on(user, node).then(|| mode("associated-node", "*"));
            let modes = own.into_iter().chain([mode("arbitrary-node", node)]);
            return modes.filter(|_| name_alone).collect();
        }
        // This mode excludes administrators, and users with a malformed group or extra value.
        let is_safe = !wanted.is_master() && !wanted.is_in("") && wanted.extra.iter().all(is_plain_mark);
        let who = asked("impersonate:user-info", AUTHENTICATION, "users", &wanted.name);
        is_safe.then_some(Mode { name: "user-info", who, groups: &[] }).into_iter().collect()
    }

    fn questions(&self, wanted: &User, request: &Attributes) -> Vec<Attributes> {
        let verb = format!("impersonate:{}", self.name);
        let groups = wanted.groups.iter().map(|group| asked(&verb, AUTHENTICATION, "groups", group));
        let who = std::iter::once(self.who.clone()).chain(groups).chain(marks(&verb, wanted));
        let on = request.with_verb(format!("impersonate-on:{}:{}", self.name, request.verb()));
        std::iter::once(on).chain(who.map(Attributes::Resource)).collect()
    }
}

fn node_of(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|node| names::check_subdomain(node).is_ok())
}

/// Whether the user is a service account whose token is bound to the node, or to a pod on it.
fn runs_on(user: &User, node: &str) -> bool {
    let is_account = User::service_account_of(&user.name).is_some();
    is_account && user.extra.get(User::NODE_NAME).is_some_and(|nodes| nodes == &[node])
}

/// Whether an extra entry is well-formed: its key is a domain and a path in lower case, and all its values are
/// non-empty.
fn is_plain_mark((key, values): (&String, &Vec<String>)) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    let is_key = key.split_once('/').is_some_and(|(domain, path)| {
        names::check_subdomain(domain).is_ok() && !path.is_empty() && path.bytes().all(is_allowed)
    });
    is_key && *key == key.to_lowercase() && !values.is_empty() && !values.contains(&String::new())
}

/// Adds the groups that follow from the user's name and the mode: the mode's groups, a service account's groups if no
/// groups are named, and the group of authenticated users.
fn completed(mut wanted: User, groups: &[&str]) -> User {
    wanted.groups.extend(groups.iter().map(|&group| group.to_owned()));
    if wanted.groups.is_empty()
        && let Some((namespace, _)) = User::service_account_of(&wanted.name)
    {
        wanted.groups = User::service_account_groups(namespace);
    }
    let own = match wanted.name.as_str() {
        User::ANONYMOUS => User::UNAUTHENTICATED,
        _ if wanted.is_in(User::UNAUTHENTICATED) => return wanted,
        _ => User::AUTHENTICATED,
    };
    if !wanted.is_in(own) {
        wanted.groups.push(own.to_owned());
    }
    wanted
}

fn read(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let all = |name: &str| -> Vec<String> {
        headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let first = |name: &str| all(name).into_iter().next().unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            // The header name is in lower case, but percent-encoded characters in it may not be.
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().extend(all(name.as_str()));
        }
    }
    let (name, uid, groups) = (first("impersonate-user"), first("impersonate-uid"), all("impersonate-group"));
    let user = User { name, uid, groups, extra };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.groups.is_empty() && user.uid.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    Err(ApiError::bad_request(format!("requested {} without impersonating a user name", in_go(&user))))
}

/// The user as Go prints it, because a real server's error shows it like this.
fn in_go(user: &User) -> String {
    let list = |items: &[String]| match items {
        [] => "[]string(nil)".to_owned(),
        items => {
            let quoted: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
            format!("[]string{{{}}}", quoted.join(", "))
        }
    };
    let extra: Vec<String> = user.extra.iter().map(|(key, values)| format!("{key:?}:{}", list(values))).collect();
    let extra = if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", extra.join(", ")) };
    let (name, uid, groups) = (&user.name, &user.uid, list(&user.groups));
    format!("&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:{groups}, Extra:map[string][]string{extra}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_a_user_is_shown_as_a_real_server_shows_it() {
        let mut headers = HeaderMap::new();
        headers.insert("impersonate-group", "a".parse().expect("a header"));
        let expected = "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"a\"}, \
                        Extra:map[string][]string(nil)} without impersonating a user name";
        assert_eq!(read(&headers).expect_err("there is no user").to_string(), expected);
    }
}
