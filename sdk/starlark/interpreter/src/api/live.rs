//! `live`: reads from the API server itself. Each read sends a request.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::list::AllocList;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::live::{self, ListQuery, ListedKind, LogQuery, ServedKind, View};

use super::cache::{PAGE_OBJECTS, all_pages};
use super::{in_call, optional_object};
use crate::arguments::{Options, kind as kind_of, reference, wrong};
use crate::failures::throw;

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn get<'v>(
        #[starlark(require = pos)] target: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut options = Options::new("live.get", options);
        let (subresource, view) = (options.text("subresource")?, view(&mut options)?);
        options.end()?;
        in_call("live.get")?;
        let target = reference(target, "the target of live.get")?;
        optional_object(heap, live::get(&target, subresource.as_deref(), &view).map_err(throw)?)
    }

    fn list<'v>(
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut options = Options::new("live.list", options);
        let mut query = ListQuery {
            kind: kind_of(api_version, kind),
            namespace: options.text("namespace")?,
            label_selector: options.text("label_selector")?,
            field_selector: options.text("field_selector")?,
            view: view(&mut options)?,
            limit: options.number("limit")?.unwrap_or(PAGE_OBJECTS),
            page_token: options.text("page_token")?,
        };
        options.end()?;
        in_call("live.list")?;
        all_pages(heap, |token| {
            query.page_token = token.or(query.page_token.take());
            live::list(&query).map_err(throw)
        })
    }

    fn log<'v>(
        #[starlark(require = pos)] pod: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
    ) -> starlark::Result<String> {
        let mut options = Options::new("live.log", options);
        let target = reference(pod, "the Pod of live.log")?;
        let query = LogQuery {
            // The UID is left out, so the log is that of the Pod that has the name now.
            target: windlass_sdk::ObjectRef { uid: None, ..target },
            container: options.text("container")?,
            previous: options.flag("previous")?,
            tail_lines: options.number("tail_lines")?,
            since_ms: options.milliseconds("since_ms")?,
            limit_bytes: options.number("limit_bytes")?,
        };
        options.end()?;
        in_call("live.log")?;
        live::log(&query).map_err(throw)
    }

    fn served<'v>(
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("live.served")?;
        let Some(served) = live::served(&kind_of(api_version, kind)).map_err(throw)? else {
            return Ok(Value::new_none());
        };
        Ok(heap.alloc(AllocStruct(how_served(heap, served))))
    }

    fn kinds<'v>(heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        in_call("live.kinds")?;
        let listed = live::kinds().map_err(throw)?.into_iter().map(|ListedKind { kind, served }| {
            let mut fields = vec![("api_version", heap.alloc(kind.api_version)), ("kind", heap.alloc(kind.kind))];
            fields.extend(how_served(heap, served));
            heap.alloc(AllocStruct(fields))
        });
        Ok(heap.alloc(AllocList(listed)))
    }
}

fn how_served(heap: Heap<'_>, served: ServedKind) -> [(&'static str, Value<'_>); 4] {
    [
        ("resource", heap.alloc(served.resource)),
        ("namespaced", Value::new_bool(served.namespaced)),
        ("verbs", heap.alloc(AllocList(served.verbs))),
        ("subresources", heap.alloc(AllocList(served.subresources))),
    ]
}

fn view(options: &mut Options<'_>) -> starlark::Result<View> {
    match (options.texts("fields")?, options.flag("metadata_only")?) {
        (None, false) => Ok(View::Whole),
        (None, true) => Ok(View::Metadata),
        (Some(fields), false) => Ok(View::Fields(fields)),
        (Some(_), true) => Err(wrong("`fields` and `metadata_only` are two views of an object: give one of them")),
    }
}
