//! Evictions of Pods.

use serde::Serialize;

use super::{Name, Operation, Write, create};
use crate::error::{ApiReason, Error};
use crate::object::ObjectRef;

/// An eviction that is ready to be sent.
#[derive(Debug)]
#[must_use = "nothing happens before `send`"]
pub struct Eviction(Write);

impl Eviction {
    pub(super) fn of(pod: &ObjectRef) -> Self {
        let parent = ObjectRef { uid: None, ..pod.clone() };
        let preconditions = pod.uid.as_deref().map(|uid| DeleteOptions { preconditions: Preconditions { uid } });
        let eviction = EvictionBody {
            api_version: "policy/v1",
            kind: "Eviction",
            metadata: Name { name: &pod.name, namespace: pod.namespace.as_deref() },
            delete_options: preconditions,
        };
        Self(create(&eviction).subresource_of(parent, "eviction"))
    }

    /// Makes the server check the eviction and respond as if it had made it, without making it.
    pub fn dry_run(self) -> Self {
        Self(self.0.dry_run())
    }

    /// Sends the eviction. It also succeeds for a Pod that is already deleted.
    pub fn send(self) -> Result<(), Error> {
        match self.0.send() {
            // If the Pod is gone, the error names it. If the server does not serve evictions, the error names no
            // object.
            Err(Error::Api(error)) if error.reason == ApiReason::NotFound && error.object.is_some() => Ok(()),
            ended => ended.map(drop),
        }
    }
}

/// In a batch, a deleted Pod is an error with reason `NotFound`.
impl From<Eviction> for Operation {
    fn from(eviction: Eviction) -> Self {
        eviction.0.into()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EvictionBody<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: Name<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete_options: Option<DeleteOptions<'a>>,
}

#[derive(Serialize)]
struct DeleteOptions<'a> {
    preconditions: Preconditions<'a>,
}

#[derive(Serialize)]
struct Preconditions<'a> {
    uid: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::windlass::plugin::writes;
    use serde_json::{Value, json};

    fn pod() -> ObjectRef {
        ObjectRef::namespaced("v1", "Pod", "prod", "p")
    }

    fn body(eviction: &Eviction) -> Value {
        serde_json::from_str(eviction.0.body.as_ref().unwrap()).unwrap()
    }

    #[test]
    fn an_eviction_is_a_subresource_of_its_pod_with_its_uid_as_precondition() {
        let eviction = Eviction::of(&pod().with_uid("u-1"));
        let expected = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "prod"},
            "deleteOptions": {"preconditions": {"uid": "u-1"}},
        });
        assert_eq!(body(&eviction), expected);
        let subresource = writes::Subresource { name: "eviction".into(), parent: Some(pod()) };
        assert_eq!(eviction.0.options.subresource, Some(subresource));
        assert_eq!(body(&Eviction::of(&pod()))["deleteOptions"], Value::Null);
    }
}
