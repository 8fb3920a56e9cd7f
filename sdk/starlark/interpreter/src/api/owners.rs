//! `owners`: claims existing objects.

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::list::AllocList;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::owners;
use windlass_sdk::bindings::windlass::plugin::types::ObjectRef;

use super::in_call;
use crate::arguments::{kind as kind_of, reference_value};
use crate::failures::Thrown;

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn claim<'v>(
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
        label_selector: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("owners.claim")?;
        let claimed = owners::claim(&kind_of(api_version, kind), label_selector)
            .map_err(|errors| Thrown(errors.into_iter().map(Into::into).collect()))?;
        let named =
            |targets: &[ObjectRef]| heap.alloc(AllocList(targets.iter().map(|target| reference_value(heap, target))));
        Ok(heap.alloc(AllocStruct([("adopted", named(&claimed.adopted)), ("released", named(&claimed.released))])))
    }
}
