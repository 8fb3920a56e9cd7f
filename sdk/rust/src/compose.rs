//! A composer's request and response. Pure values: nothing here calls the host.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bindings::composer::exports::windlass::plugin::composer;
use crate::bindings::windlass::plugin::types::Requeue;
use crate::error::JsonError;
use crate::events::Event;
use crate::json::read;
use crate::object::ObjectRef;
use crate::request::{Request, milliseconds};

/// A composer's request: an object, its children and its related objects.
#[derive(Debug, Clone, PartialEq)]
pub struct CompositionRequest {
    /// The object that the call is about. `object` of this request is always `None`: the primary is the
    /// [`parent`](Self::parent).
    pub request: Request,
    parent: String,
    children: Vec<String>,
    related: Vec<String>,
    config: String,
}

impl CompositionRequest {
    /// A request about a parent without children, for tests.
    pub fn new<T: Serialize + ?Sized>(request: Request, parent: &T) -> Result<Self, JsonError> {
        let parent = to_json("the parent", parent)?;
        Ok(Self { request, parent, children: Vec::new(), related: Vec::new(), config: "{}".into() })
    }

    /// Adds a child, for tests.
    pub fn with_child<T: Serialize + ?Sized>(mut self, child: &T) -> Result<Self, JsonError> {
        self.children.push(to_json("a child", child)?);
        Ok(self)
    }

    /// Adds a related object, for tests.
    pub fn with_related<T: Serialize + ?Sized>(mut self, related: &T) -> Result<Self, JsonError> {
        self.related.push(to_json("a related object", related)?);
        Ok(self)
    }

    /// Replaces the configuration, for tests.
    pub fn with_config<T: Serialize + ?Sized>(mut self, config: &T) -> Result<Self, JsonError> {
        self.config = to_json("the configuration", config)?;
        Ok(self)
    }

    /// The object whose children the composer computes.
    pub fn parent<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        read("the parent", &self.parent)
    }

    /// The children of a kind: objects of the owned kinds whose controller is the parent.
    pub fn children<T: DeserializeOwned>(&self, api_version: &str, kind: &str) -> Result<Vec<T>, JsonError> {
        of_kind("a child", &self.children, api_version, kind)
    }

    /// The child that a reference names. `None` if it does not exist, or the parent does not control it.
    pub fn child<T: DeserializeOwned>(&self, target: &ObjectRef) -> Result<Option<T>, JsonError> {
        named("a child", &self.children, target)
    }

    /// The related objects of a kind: objects of the other watches that map to the parent.
    pub fn related<T: DeserializeOwned>(&self, api_version: &str, kind: &str) -> Result<Vec<T>, JsonError> {
        of_kind("a related object", &self.related, api_version, kind)
    }

    /// The related object that a reference names. `None` if it does not exist, or does not map to the parent.
    pub fn related_object<T: DeserializeOwned>(&self, target: &ObjectRef) -> Result<Option<T>, JsonError> {
        named("a related object", &self.related, target)
    }

    /// The operator's configuration of the plugin. It is valid by the manifest's schema.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        read("the configuration", &self.config)
    }
}

impl From<composer::CompositionRequest> for CompositionRequest {
    fn from(request: composer::CompositionRequest) -> Self {
        let composer::CompositionRequest { request, parent, children, related, config } = request;
        Self { request: request.into(), parent, children, related, config }
    }
}

/// The part of an object that identifies it in a reference.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: String,
    kind: String,
    metadata: Identity,
}

#[derive(Deserialize)]
struct Identity {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
}

impl Head {
    fn is_of(&self, api_version: &str, kind: &str) -> bool {
        self.api_version == api_version && self.kind == kind
    }

    fn is(&self, target: &ObjectRef) -> bool {
        self.is_of(&target.api_version, &target.kind)
            && self.metadata.name == target.name
            && self.metadata.namespace == target.namespace
            && (target.uid.is_none() || self.metadata.uid == target.uid)
    }
}

fn of_kind<T: DeserializeOwned>(
    what: &'static str,
    objects: &[String],
    api_version: &str,
    kind: &str,
) -> Result<Vec<T>, JsonError> {
    let mut found = Vec::new();
    for text in objects {
        if read::<Head>(what, text)?.is_of(api_version, kind) {
            found.push(read(what, text)?);
        }
    }
    Ok(found)
}

fn named<T: DeserializeOwned>(
    what: &'static str,
    objects: &[String],
    target: &ObjectRef,
) -> Result<Option<T>, JsonError> {
    for text in objects {
        if read::<Head>(what, text)?.is(target) {
            return read(what, text).map(Some);
        }
    }
    Ok(None)
}

/// A composer's response: the children that should exist, and what to report about the parent.
///
/// ```
/// use serde_json::json;
/// use windlass_sdk::Composition;
///
/// let settings = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
/// let composition = Composition::new().child(&settings).status(&json!({"ready": true}));
/// assert_eq!(composition.children().unwrap(), [settings]);
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct Composition {
    children: Vec<String>,
    status: Option<String>,
    events: Vec<Event>,
    requeue: Option<Requeue>,
    allow_empty: bool,
    finalized: bool,
    /// The first object that failed to serialize. The error is returned at the end of the call, so that building needs
    /// no error handling.
    error: Option<JsonError>,
}

impl Composition {
    /// A response without children. The host takes that for a mistake and deletes no children, unless
    /// [`allow_empty`](Self::allow_empty) declares that it is intended.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a child that should exist, as the set of fields to apply. A child that is left out is pruned.
    pub fn child<T: Serialize + ?Sized>(mut self, child: &T) -> Self {
        match to_json("a child", child) {
            Ok(text) => self.children.push(text),
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self
    }

    /// Sets the parent's new status. Without it, the status stays as it is.
    pub fn status<T: Serialize + ?Sized>(mut self, status: &T) -> Self {
        match to_json("the status", status) {
            Ok(text) => self.status = Some(text),
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self
    }

    /// Adds an event, if there is one. It is sent each time the function returns it, so only return events about
    /// something new.
    pub fn event(mut self, event: impl Into<Option<Event>>) -> Self {
        self.events.extend(event.into());
        self
    }

    /// Calls the composer again after this time, even if nothing changes. The time is limited to 24 days.
    pub fn requeue_after(mut self, delay: Duration) -> Self {
        self.requeue = Some(Requeue::AfterMs(milliseconds(delay)));
        self
    }

    /// Calls the composer again after the parent's backoff, which grows with each such response in a row, even if
    /// nothing changes. This is not a failure.
    pub fn requeue_with_backoff(mut self) -> Self {
        self.requeue = Some(Requeue::Backoff);
        self
    }

    /// Declares that having no children is intended, so that existing children may be pruned.
    pub fn allow_empty(mut self) -> Self {
        self.allow_empty = true;
        self
    }

    /// Releases a parent that is being deleted: the host removes the finalizer once it has carried out the rest of the
    /// response. Only for controllers with [`finalizer`](crate::manifest::Controller::finalizer); without a finalizer,
    /// a parent that is being deleted is not composed.
    pub fn finalized(mut self) -> Self {
        self.finalized = true;
        self
    }

    /// The children, for a test to compare.
    pub fn children(&self) -> Result<Vec<serde_json::Value>, JsonError> {
        self.children.iter().map(|text| read("a child", text)).collect()
    }

    /// The new status, for a test to compare.
    pub fn new_status<T: DeserializeOwned>(&self) -> Result<Option<T>, JsonError> {
        self.status.as_deref().map(|text| read("the status", text)).transpose()
    }

    /// The events, for a test to compare.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

impl TryFrom<Composition> for composer::Composition {
    type Error = JsonError;

    fn try_from(composition: Composition) -> Result<Self, JsonError> {
        let Composition { children, status, events, requeue, allow_empty, finalized, error } = composition;
        error.map_or(Ok(Self { children, status, events, requeue, allow_empty, finalized }), Err)
    }
}

fn to_json<T: Serialize + ?Sized>(what: &'static str, value: &T) -> Result<String, JsonError> {
    serde_json::to_string(value).map_err(|error| JsonError::new(what, error))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use serde_json::{Value, json};

    fn object(kind: &str, name: &str) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "prod", "uid": name}})
    }

    fn request() -> CompositionRequest {
        CompositionRequest::new(Request::new("c", "prod", "shop"), &object("Shop", "shop"))
            .and_then(|request| request.with_child(&object("Secret", "shop")))
            .and_then(|request| request.with_child(&object("ConfigMap", "a")))
            .and_then(|request| request.with_child(&object("ConfigMap", "b")))
            .and_then(|request| request.with_related(&object("Secret", "password")))
            .unwrap()
    }

    #[test]
    fn children_and_related_objects_are_distinguished_by_kind() {
        let maps: Vec<Value> = request().children("v1", "ConfigMap").unwrap();
        assert_eq!(maps, [object("ConfigMap", "a"), object("ConfigMap", "b")]);
        assert_eq!(request().related::<Value>("v1", "Secret").unwrap(), [object("Secret", "password")]);
        assert!(request().related::<Value>("v1", "ConfigMap").unwrap().is_empty());
    }

    #[test]
    fn a_child_is_found_by_its_full_reference() {
        let secret = ObjectRef::namespaced("v1", "Secret", "prod", "shop");
        assert_eq!(request().child(&secret).unwrap(), Some(object("Secret", "shop")));
        assert_eq!(request().child::<Value>(&secret.clone().with_uid("another")).unwrap(), None);
        let elsewhere = ObjectRef::namespaced("v1", "Secret", "test", "shop");
        assert_eq!(request().child::<Value>(&elsewhere).unwrap(), None);
        assert_eq!(request().related_object::<Value>(&secret).unwrap(), None);
    }

    #[test]
    fn without_a_configuration_there_is_an_empty_one() {
        assert_eq!(request().config::<Value>().unwrap(), json!({}));
        let configured = request().with_config(&json!({"replicas": 2})).unwrap();
        assert_eq!(configured.config::<HashMap<String, u8>>().unwrap(), HashMap::from([("replicas".into(), 2)]));
    }

    #[test]
    fn a_composition_is_passed_completely() {
        let composition = Composition::new()
            .child(&object("Secret", "shop"))
            .status(&json!({"ready": true}))
            .event(Event::normal("Made", "Make", "a secret"))
            .requeue_after(Duration::from_secs(1))
            .allow_empty()
            .finalized();
        let expected = composer::Composition {
            children: vec![object("Secret", "shop").to_string()],
            status: Some(r#"{"ready":true}"#.into()),
            events: vec![Event::normal("Made", "Make", "a secret")],
            requeue: Some(Requeue::AfterMs(1_000)),
            allow_empty: true,
            finalized: true,
        };
        assert_eq!(composer::Composition::try_from(composition).unwrap(), expected);
    }

    #[test]
    fn an_invalid_child_fails_the_whole_composition() {
        // JSON keys must be strings.
        let composition = Composition::new().child(&HashMap::from([((1, 2), 3)])).child(&object("Secret", "shop"));
        let error = composer::Composition::try_from(composition).unwrap_err();
        assert!(error.to_string().starts_with("a child: "), "{error}");
    }
}
