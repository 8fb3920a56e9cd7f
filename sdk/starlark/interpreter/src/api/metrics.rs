//! `metrics`: values of the metrics that the manifest declares.

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::Value;
use starlark::values::float::UnpackFloat;
use starlark::values::none::NoneType;
use windlass_sdk::bindings::windlass::plugin::metrics;

use super::in_call;
use crate::arguments::pairs;

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn add<'v>(
        #[starlark(require = pos)] name: &str,
        #[starlark(require = pos)] value: UnpackFloat,
        labels: Option<Value<'v>>,
    ) -> starlark::Result<NoneType> {
        send("metrics.add", metrics::add, name, &value, labels)
    }

    fn set<'v>(
        #[starlark(require = pos)] name: &str,
        #[starlark(require = pos)] value: UnpackFloat,
        labels: Option<Value<'v>>,
    ) -> starlark::Result<NoneType> {
        send("metrics.set", metrics::set, name, &value, labels)
    }

    fn observe<'v>(
        #[starlark(require = pos)] name: &str,
        #[starlark(require = pos)] value: UnpackFloat,
        labels: Option<Value<'v>>,
    ) -> starlark::Result<NoneType> {
        send("metrics.observe", metrics::observe, name, &value, labels)
    }
}

fn send(
    function: &str,
    send: impl FnOnce(&str, f64, &[(String, String)]),
    name: &str,
    value: &UnpackFloat,
    labels: Option<Value<'_>>,
) -> starlark::Result<NoneType> {
    in_call(function)?;
    let labels = labels.filter(|labels| !labels.is_none());
    let labels = labels.map(|labels| pairs(labels, &format!("`labels` of {function}"))).transpose()?;
    send(name, value.0, &labels.unwrap_or_default());
    Ok(NoneType)
}
