//! Checks tokens of service accounts. The account must still exist, and so must the object to which the token is bound.

use crate::authz::User;
use crate::object;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::state::State;
use crate::tokens::{Claims, Reference, TokenError};

/// The account's user, and the audiences among `audiences` for which the token is valid.
pub(super) fn verify(state: &State, token: &str, audiences: &[String]) -> Result<(User, Vec<String>), TokenError> {
    let claims = state.token_key.verify(token, state.time.now().seconds(), audiences)?;
    let namespace = claims.account.namespace.as_str();
    let bound = [
        ("serviceaccounts", namespace, Some(&claims.account.account)),
        ("pods", namespace, claims.account.pod.as_ref()),
        ("secrets", namespace, claims.account.secret.as_ref()),
        // A token that is bound to a pod also names the pod's node, but is not bound to the node.
        ("nodes", "", claims.account.node.as_ref().filter(|_| claims.account.pod.is_none())),
    ];
    for (plural, namespace, reference) in bound {
        if reference.is_some_and(|reference| !lives(state, plural, namespace, reference)) {
            return Err(TokenError::Unknown);
        }
    }
    let audiences = audiences.iter().filter(|audience| claims.audiences.contains(audience)).cloned().collect();
    Ok((user(&claims), audiences))
}

/// Whether the object exists. An object that is being deleted counts as existing for a little longer, in case clocks
/// differ.
fn lives(state: &State, plural: &str, namespace: &str, reference: &Reference) -> bool {
    const LEEWAY: i64 = 60;
    let key = ObjectKey {
        resource: GroupResource::new("", plural),
        namespace: namespace.to_owned(),
        name: reference.name.clone(),
    };
    let Some(found) = state.store.get(&key).filter(|found| object::uid(found) == reference.uid) else { return false };
    let ended = object::text(found, "/metadata/deletionTimestamp");
    state.time.now().seconds_since(ended).is_none_or(|since| since <= LEEWAY)
}

fn user(claims: &Claims) -> User {
    let account = &claims.account;
    let mut user = User::of_service_account(&account.namespace, &account.account.name);
    user.uid.clone_from(&account.account.uid);
    let mut mark = |key: &str, value: &str| {
        user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
    };
    mark("credential-id", &format!("JTI={}", claims.id));
    for (kind, reference) in [("pod", &account.pod), ("node", &account.node)] {
        if let Some(reference) = reference {
            mark(&format!("{kind}-name"), &reference.name);
            // The token has no UID if the node did not exist when it was issued.
            if !reference.uid.is_empty() {
                mark(&format!("{kind}-uid"), &reference.uid);
            }
        }
    }
    user
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clock::Clock;
    use crate::tokens::{AccountClaims, ISSUER};

    fn stored(state: &mut State, plural: &str, name: &str, uid: &str) -> ObjectKey {
        let key =
            ObjectKey { resource: GroupResource::new("", plural), namespace: "a".to_owned(), name: name.to_owned() };
        state.commit(&key, json!({ "metadata": { "name": name, "namespace": "a", "uid": uid } }));
        key
    }

    fn token(state: &State, pod: Option<Reference>) -> String {
        let account = Reference { name: "robot".to_owned(), uid: "1".to_owned() };
        let now = state.time.now().seconds();
        state.token_key.issue(&Claims {
            audiences: vec![ISSUER.to_owned()],
            expires: now + 600,
            issued: now,
            issuer: ISSUER.to_owned(),
            id: "7".to_owned(),
            account: AccountClaims { namespace: "a".to_owned(), pod, account, ..AccountClaims::default() },
            not_before: now,
            subject: "system:serviceaccount:a:robot".to_owned(),
        })
    }

    #[test]
    fn a_token_ends_with_its_account_and_its_pod() {
        let mut state = State::new(10, Clock::Wall, Some(1));
        let here = [ISSUER.to_owned()];
        let account = stored(&mut state, "serviceaccounts", "robot", "1");
        let pod = stored(&mut state, "pods", "p", "2");
        let free = token(&state, None);
        let bound = token(&state, Some(Reference { name: "p".to_owned(), uid: "2".to_owned() }));

        let (user, audiences) = verify(&state, &bound, &here).expect("both are there");
        assert_eq!(audiences, here);
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("system:serviceaccount:a:robot", "1"));
        assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);

        state.erase(&pod);
        assert_eq!(verify(&state, &bound, &here), Err(TokenError::Unknown));
        verify(&state, &free, &here).expect("it needs no pod");
        state.erase(&account);
        assert_eq!(verify(&state, &free, &here), Err(TokenError::Unknown));
        // A new account with the same name is a different account.
        stored(&mut state, "serviceaccounts", "robot", "3");
        assert_eq!(verify(&state, &free, &here), Err(TokenError::Unknown));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_outlives_the_deletion_of_its_account_by_a_minute() {
        let mut state = State::new(10, Clock::Given(std::time::SystemTime::UNIX_EPOCH), Some(1));
        let here = [ISSUER.to_owned()];
        let account = stored(&mut state, "serviceaccounts", "robot", "1");
        let token = token(&state, None);
        let deleted = state.now();
        let metadata = json!({ "name": "robot", "namespace": "a", "uid": "1", "deletionTimestamp": deleted });
        state.commit(&account, json!({ "metadata": metadata }));
        tokio::time::advance(std::time::Duration::from_mins(1)).await;
        verify(&state, &token, &here).expect("clocks may differ by a minute");
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        assert_eq!(verify(&state, &token, &here), Err(TokenError::Unknown));
    }
}
