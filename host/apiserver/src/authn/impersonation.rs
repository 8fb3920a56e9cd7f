//! Impersonation: a request's headers `Impersonate-*` name another user, if its own may be that user. Each header's value is
//! authorized by itself.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use crate::authz::{Access, Attributes, ResourceAttributes, User};
use crate::status_error::ApiError;

const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The user that the headers name; none if they name nobody.
pub(super) fn impersonate(access: Access<'_>, user: &User, headers: &HeaderMap) -> Result<Option<User>, ApiError> {
    let Some(mut wanted) = read(headers)? else { return Ok(None) };
    let groups_given = !wanted.groups.is_empty();
    for asked in questions(&wanted) {
        let attributes = Attributes::Resource(asked);
        let decision = access.decide(user, &attributes);
        if !decision.allowed {
            return Err(attributes.refuse(user, &decision.reason));
        }
    }
    if !groups_given && let Some((namespace, _)) = User::service_account_of(&wanted.name) {
        wanted.groups = User::service_account_groups(namespace);
    }
    let [known, unknown] = [User::AUTHENTICATED, User::UNAUTHENTICATED];
    let own = if wanted.name == User::ANONYMOUS { unknown } else { known };
    if !wanted.is_in(known) && !wanted.is_in(unknown) {
        wanted.groups.push(own.to_owned());
    }
    Ok(Some(wanted))
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
    let user = User {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: all("impersonate-group"),
        extra,
    };
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.groups.is_empty() && user.uid.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    Err(ApiError::internal("requested impersonation without impersonating a user"))
}

/// May the user be this name, in this group, with this mark?
fn questions(wanted: &User) -> Vec<ResourceAttributes> {
    let asked = |group: &str, resource: &str, subresource: &str, name: &str| ResourceAttributes {
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        name: name.to_owned(),
        ..ResourceAttributes::default()
    };
    let mut questions = vec![match User::service_account_of(&wanted.name) {
        Some((namespace, name)) => {
            ResourceAttributes { namespace: namespace.to_owned(), ..asked("", "serviceaccounts", "", name) }
        }
        None => asked("", "users", "", &wanted.name),
    }];
    questions.extend(wanted.groups.iter().map(|group| asked("", "groups", "", group)));
    for (key, values) in &wanted.extra {
        questions.extend(values.iter().map(|value| asked(AUTHENTICATION, "userextras", key, value)));
    }
    if !wanted.uid.is_empty() {
        questions.push(asked(AUTHENTICATION, "uids", "", &wanted.uid));
    }
    questions
}
