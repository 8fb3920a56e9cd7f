//! Responses, and JSON as text.

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::{Heap, Value};

use crate::arguments::json as json_of;
use crate::values::from_json;

// These are ordinary comments, because documentation comments would become part of each component.
#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn has_fields<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(require = pos)] wanted: Value<'v>,
    ) -> starlark::Result<bool> {
        crate::values::has_fields(object, wanted)
    }

    // The value at a JSON pointer.
    fn at<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(require = pos)] pointer: &str,
        default: Option<Value<'v>>,
    ) -> starlark::Result<Value<'v>> {
        let found = crate::values::at(object, pointer)?.filter(|found| !found.is_none());
        Ok(found.or(default).unwrap_or_else(Value::new_none))
    }
}

#[starlark_module]
pub(crate) fn json(builder: &mut GlobalsBuilder) {
    fn encode<'v>(#[starlark(require = pos)] value: Value<'v>) -> starlark::Result<String> {
        json_of(value, "the argument of json.encode")
    }

    fn decode<'v>(#[starlark(require = pos)] text: &str, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(from_json(heap, text, "the argument of json.decode")?)
    }
}

#[cfg(feature = "reconciler")]
#[starlark_module]
pub(crate) fn outcomes(builder: &mut GlobalsBuilder) {
    fn requeue_after<'v>(
        #[starlark(require = pos)] milliseconds: Value<'v>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let after = crate::arguments::milliseconds(milliseconds, "the argument of requeue_after")?;
        Ok(heap.alloc(starlark::values::structs::AllocStruct([("requeue_after_ms", after)])))
    }

    fn requeue_with_backoff<'v>(heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(starlark::values::structs::AllocStruct([("requeue_backoff", Value::new_bool(true))])))
    }
}

#[cfg(feature = "composer")]
#[starlark_module]
pub(crate) fn compositions(builder: &mut GlobalsBuilder) {
    fn composition<'v>(
        #[starlark(kwargs)] fields: starlark::collections::SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(heap.alloc(starlark::values::structs::AllocStruct(fields)))
    }
}
