//! The request that the script is called with, and its response.

use starlark::values::dict::DictRef;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::types::Request;

use crate::arguments::{json, misfit};
use crate::script::FILE;
use crate::values::from_json;

#[cfg(feature = "composer")]
pub(crate) use self::of_composers::{composition, composition_request};
#[cfg(feature = "reconciler")]
pub(crate) use self::of_reconcilers::outcome;

const API_VERSION: &str = "windlass.dev/v1alpha1";
const KIND: &str = "PluginManifest";

/// The manifest in the form that the host reads. The script may leave out `apiVersion` and `kind`.
pub(crate) fn manifest(value: Value<'_>) -> starlark::Result<serde_json::Value> {
    let what = format!("the `manifest` of {FILE}");
    if DictRef::from_value(value).is_none() {
        return Err(misfit(&what, value, "a dict"));
    }
    let text = json(value, &what)?;
    let mut manifest: serde_json::Value = serde_json::from_str(&text).map_err(crate::arguments::wrong)?;
    for (name, value) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        if manifest.get(name).is_none() {
            manifest[name] = value.into();
        }
    }
    Ok(manifest)
}

#[cfg(feature = "reconciler")]
mod of_reconcilers {
    use starlark::values::Value;
    use starlark::values::structs::StructRef;
    use windlass_sdk::bindings::exports::windlass::plugin::reconciler::Outcome;
    use windlass_sdk::bindings::windlass::plugin::types::Requeue;

    use super::misfit;
    use crate::arguments::milliseconds;

    pub(crate) fn outcome(value: Value<'_>) -> starlark::Result<Outcome> {
        if value.is_none() {
            return Ok(Outcome { requeue: None });
        }
        let asked = StructRef::from_value(value).and_then(|fields| {
            let mut fields = fields.iter();
            let (name, value) = fields.next()?;
            fields.next().is_none().then(|| (name.as_str().to_owned(), value))
        });
        let requeue = match asked {
            Some((name, after)) if name == "requeue_after_ms" => Requeue::AfterMs(milliseconds(after, &name)?),
            Some((name, _)) if name == "requeue_backoff" => Requeue::Backoff,
            _ => {
                let wanted = "nothing, requeue_after(milliseconds) or requeue_with_backoff(),";
                return Err(misfit("what reconcile returned", value, wanted));
            }
        };
        Ok(Outcome { requeue: Some(requeue) })
    }
}

#[cfg(feature = "composer")]
mod of_composers {
    use starlark::collections::SmallMap;
    use starlark::values::list::AllocList;
    use starlark::values::structs::{AllocStruct, StructRef};
    use starlark::values::{Heap, Value};
    use windlass_sdk::bindings::composer::exports::windlass::plugin::composer::{Composition, CompositionRequest};
    use windlass_sdk::bindings::windlass::plugin::types::Requeue;

    use super::{fields_of, misfit};
    use crate::api::events::event_of;
    use crate::arguments::{Options, elements, object, wrong};
    use crate::values::from_json;

    pub(crate) fn composition_request<'v>(heap: Heap<'v>, request: &CompositionRequest) -> starlark::Result<Value<'v>> {
        let all = |texts: &[String], what: &str| {
            let objects: anyhow::Result<Vec<_>> = texts.iter().map(|text| from_json(heap, text, what)).collect();
            Ok::<_, starlark::Error>(heap.alloc(AllocList(objects?)))
        };
        let mut fields = fields_of(heap, &request.request);
        fields.extend([
            ("parent", from_json(heap, &request.parent, "the parent")?),
            ("children", all(&request.children, "a child")?),
            ("related", all(&request.related, "a related object")?),
            ("config", from_json(heap, &request.config, "the configuration")?),
        ]);
        Ok(heap.alloc(AllocStruct(fields)))
    }

    pub(crate) fn composition(value: Value<'_>) -> starlark::Result<Composition> {
        let wanted = "composition(children = [...])";
        let fields = StructRef::from_value(value).ok_or_else(|| misfit("the result of compose", value, wanted))?;
        let given: SmallMap<_, _> = fields.iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect();
        let mut options = Options::new("composition", given);
        let children = list_of(options.value("children"), "`children` of composition")?;
        let children =
            children.into_iter().enumerate().map(|(place, child)| object(child, &format!("children[{place}]")));
        let children: starlark::Result<Vec<_>> = children.collect();
        let status = options.value("status").map(|status| object(status, "`status` of composition")).transpose()?;
        let events =
            list_of(options.value("events"), "`events` of composition")?.into_iter().filter(|event| !event.is_none());
        let events: starlark::Result<Vec<_>> = events.map(|event| event_of(event, "an event of composition")).collect();
        let composition = Composition {
            children: children?,
            status,
            events: events?,
            requeue: requeue(&mut options)?,
            allow_empty: options.flag("allow_empty")?,
            finalized: options.flag("finalized")?,
        };
        options.end()?;
        Ok(composition)
    }

    fn requeue(options: &mut Options<'_>) -> starlark::Result<Option<Requeue>> {
        match (options.milliseconds("requeue_after_ms")?, options.flag("requeue_backoff")?) {
            (Some(_), true) => Err(wrong("`requeue_after_ms` and `requeue_backoff` are two times: give one of them")),
            (Some(after), false) => Ok(Some(Requeue::AfterMs(after))),
            (None, backs_off) => Ok(backs_off.then_some(Requeue::Backoff)),
        }
    }

    fn list_of<'v>(value: Option<Value<'v>>, what: &str) -> starlark::Result<Vec<Value<'v>>> {
        value.map_or(Ok(vec![]), |value| elements(value, what))
    }
}

/// The request of a reconciler, and of `customize`.
pub(crate) fn request<'v>(heap: Heap<'v>, request: &Request) -> starlark::Result<Value<'v>> {
    let object = request.object.as_deref().map(|object| from_json(heap, object, "the object")).transpose()?;
    let mut fields = fields_of(heap, request);
    fields.push(("object", object.unwrap_or_else(Value::new_none)));
    Ok(heap.alloc(AllocStruct(fields)))
}

type Field<'v> = (&'static str, Value<'v>);

/// The fields of each request.
fn fields_of<'v>(heap: Heap<'v>, request: &Request) -> Vec<Field<'v>> {
    let optional = |text: &Option<String>| text.as_deref().map_or_else(Value::new_none, |text| heap.alloc(text));
    vec![
        ("controller", heap.alloc(request.controller.as_str())),
        ("namespace", optional(&request.namespace)),
        ("name", heap.alloc(request.name.as_str())),
        ("uid", optional(&request.uid)),
        ("deleting", Value::new_bool(request.deleting)),
        ("attempt", heap.alloc(request.attempt)),
        ("trace_id", heap.alloc(request.trace_id.as_str())),
    ]
}
