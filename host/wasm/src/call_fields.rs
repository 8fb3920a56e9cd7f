//! Cuts primaries down to the part that calls receive, if the manifest has `callFields`.

use std::collections::HashMap;
use std::sync::Arc;

use windlass_core::object::pointer_tree::PointerTree;
use windlass_manifest::Manifest;

use crate::request::{CompositionRequest, Request};
use crate::trap::Stopped;

/// The parts by the controllers' names. A controller that is not in this map receives all that its cache keeps.
#[derive(Clone, Debug)]
pub(crate) struct CallFields(HashMap<String, PointerTree>);

impl CallFields {
    /// The parts that `manifest` asks for. The manifest has been validated.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let part = |controller: &windlass_manifest::Controller| {
            Some((controller.name.clone(), controller.primary.call_part()?))
        };
        Self(manifest.controllers.iter().filter_map(part).collect())
    }

    /// Cuts the request's object down to the part that the controller's calls receive.
    pub(crate) fn cut(&self, request: Request) -> Result<Request, Stopped> {
        let object = request.object.map(|object| self.part(&request.controller, object)).transpose()?;
        Ok(Request { object, ..request })
    }

    /// Cuts the request's parent down to the part that the controller's calls receive.
    pub(crate) fn cut_parent(&self, request: CompositionRequest) -> Result<CompositionRequest, Stopped> {
        let parent = self.part(&request.request.controller, request.parent)?;
        Ok(CompositionRequest { parent, ..request })
    }

    fn part(&self, controller: &str, object: Arc<str>) -> Result<Arc<str>, Stopped> {
        let Some(fields) = self.0.get(controller) else { return Ok(object) };
        let part = fields.select(&object).map_err(|error| Stopped {
            reason: "host",
            message: format!("the cached primary cannot be read: {error}"),
        })?;
        Ok(part.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::object::ObjectKey;

    use super::*;

    fn fields() -> CallFields {
        let primary = json!({"apiVersion": "v1", "kind": "Pod", "callFields": ["/spec/nodeName"]});
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [
                {"name": "some", "primary": primary},
                {"name": "all", "primary": {"apiVersion": "v1", "kind": "Pod"}},
            ],
        });
        CallFields::of(&Manifest::from_json(&manifest.to_string()).expect("valid"))
    }

    fn request(controller: &str, object: Option<&str>) -> Request {
        Request {
            controller: controller.into(),
            key: ObjectKey::namespaced("prod", "a"),
            uid: None,
            object: object.map(Into::into),
            deleting: false,
            attempt: 0,
            trace_id: "0".into(),
        }
    }

    #[test]
    fn a_controller_receives_the_fields_that_its_primary_declares() {
        let pod = r#"{"kind":"Pod","metadata":{"name":"a","labels":{}},"spec":{"nodeName":"n","x":1}}"#;
        let part = r#"{"kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"n"}}"#;
        let cut = |controller: &str, object| fields().cut(request(controller, object)).expect("JSON").object;
        assert_eq!(cut("some", Some(pod)).as_deref(), Some(part));
        assert_eq!(cut("all", Some(pod)).as_deref(), Some(pod));
        assert_eq!(cut("some", None), None, "the primary is gone");
        let composition = CompositionRequest {
            request: request("some", None),
            parent: pod.into(),
            children: vec![pod.into()],
            related: vec![],
            config: "{}".into(),
        };
        let composition = fields().cut_parent(composition).expect("JSON");
        assert_eq!((&*composition.parent, &*composition.children[0]), (part, pod));
    }
}
