//! `clock`, `random`, `config` and `triggers`.

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::list::AllocList;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::config as host_config;
use windlass_sdk::{clock as host_clock, random as host_random};

use super::in_call;
use crate::arguments::number as number_of;
use crate::values::from_json;

#[starlark_module]
pub(crate) fn clock(builder: &mut GlobalsBuilder) {
    fn now<'v>(heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        in_call("clock.now")?;
        let now = host_clock::now();
        let fields = [
            ("seconds", heap.alloc(now.seconds)),
            ("nanoseconds", heap.alloc(now.nanoseconds)),
            ("text", heap.alloc(now.to_string())),
        ];
        Ok(heap.alloc(AllocStruct(fields)))
    }
}

#[starlark_module]
pub(crate) fn random(builder: &mut GlobalsBuilder) {
    fn number() -> starlark::Result<u32> {
        in_call("random.number")?;
        Ok(host_random::number())
    }

    fn bytes<'v>(#[starlark(require = pos)] length: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        in_call("random.bytes")?;
        let bytes = host_random::bytes(number_of(length, "the length of random.bytes")?);
        Ok(heap.alloc(AllocList(bytes.into_iter().map(i32::from))))
    }
}

#[starlark_module]
pub(crate) fn config(builder: &mut GlobalsBuilder) {
    fn get<'v>(heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        in_call("config.get")?;
        Ok(from_json(heap, &host_config::get(), "the configuration")?)
    }
}

#[cfg(feature = "reconciler")]
#[starlark_module]
pub(crate) fn triggers(builder: &mut GlobalsBuilder) {
    fn list<'v>(heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        in_call("triggers.list")?;
        let triggers = windlass_sdk::bindings::windlass::plugin::triggers::list();
        let values = triggers.iter().map(|trigger| {
            let watch = trigger.watch.as_deref().map_or_else(Value::new_none, |watch| heap.alloc(watch));
            let object = trigger.object.as_ref();
            let object = object.map_or_else(Value::new_none, |object| crate::arguments::reference_value(heap, object));
            let fields = [("reason", heap.alloc(trigger.reason.as_str())), ("watch", watch), ("object", object)];
            heap.alloc(AllocStruct(fields))
        });
        Ok(heap.alloc(AllocList(values.collect::<Vec<_>>())))
    }
}
