//! Impersonation: a request's headers `Impersonate-*` name another user, if its own may be that user. Two kinds of rights
//! allow it: constrained ones, which also name what the other user is wanted for (KEP-5284), and the older verb
//! `impersonate`. Each header's value is authorized by itself.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::authz::{Access, Attributes, ResourceAttributes, User};
use crate::status_error::ApiError;

const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The user that the headers name; none if they name nobody. `request` is what that user is wanted for.
pub(super) fn impersonate(
    access: Access<'_>,
    user: &User,
    headers: &HeaderMap,
    request: &Attributes,
) -> Result<Option<User>, ApiError> {
    let Some(wanted) = read(headers)? else { return Ok(None) };
    match refusal(access, user, &wanted, request) {
        Some(refused) => Err(refused),
        None => Ok(Some(completed(wanted))),
    }
}

/// Why the user may not be the wanted one, neither by the one kind of rights nor by the other.
fn refusal(access: Access<'_>, user: &User, wanted: &User, request: &Attributes) -> Option<ApiError> {
    let refused = |questions: Vec<Attributes>| {
        questions.into_iter().enumerate().find_map(|(index, attributes)| {
            let decision = access.decide(user, &attributes);
            (!decision.allowed).then(|| (index, attributes.refuse(user, &decision.reason)))
        })
    };
    let (first, older) = refused(questions(wanted))?;
    let Some(mode) = Mode::of(wanted) else { return Some(older) };
    let (_, constrained) = refused(mode.questions(wanted, request))?;
    // A user who has some of the older right hears of what lacks to that.
    Some(if first == 0 { constrained } else { older })
}

/// May the user be this name, in this group, with this mark?
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
}

impl Mode {
    fn of(wanted: &User) -> Option<Mode> {
        let name_alone = wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty();
        if let Some((namespace, name)) = User::service_account_of(&wanted.name) {
            let who = asked("impersonate:serviceaccount", AUTHENTICATION, "serviceaccounts", name);
            let who = ResourceAttributes { namespace: namespace.to_owned(), ..who };
            return name_alone.then_some(Mode { name: "serviceaccount", who });
        }
        if let Some(node) = wanted.name.strip_prefix("system:node:") {
            let who = asked("impersonate:arbitrary-node", AUTHENTICATION, "nodes", node);
            return name_alone.then_some(Mode { name: "arbitrary-node", who });
        }
        // What these stand for is never given away in part.
        let is_safe = !wanted.is_master() && wanted.extra.keys().all(|key| key.contains('/'));
        let who = asked("impersonate:user-info", AUTHENTICATION, "users", &wanted.name);
        is_safe.then_some(Mode { name: "user-info", who })
    }

    fn questions(self, wanted: &User, request: &Attributes) -> Vec<Attributes> {
        let verb = format!("impersonate:{}", self.name);
        let groups = wanted.groups.iter().map(|group| asked(&verb, AUTHENTICATION, "groups", group));
        let who = std::iter::once(self.who).chain(groups).chain(marks(&verb, wanted));
        let on = request.with_verb(format!("impersonate-on:{}:{}", self.name, request.verb()));
        std::iter::once(on).chain(who.map(Attributes::Resource)).collect()
    }
}

/// With the groups that belong to such a user.
fn completed(mut wanted: User) -> User {
    if wanted.groups.is_empty()
        && let Some((namespace, _)) = User::service_account_of(&wanted.name)
    {
        wanted.groups = User::service_account_groups(namespace);
    }
    let [known, unknown] = [User::AUTHENTICATED, User::UNAUTHENTICATED];
    let own = if wanted.name == User::ANONYMOUS { unknown } else { known };
    if !wanted.is_in(known) && !wanted.is_in(unknown) {
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
            let key = percent_decode_str(key).decode_utf8_lossy().to_lowercase();
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

/// The user as Go prints it: a real server's refusal shows it so.
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
