//! Relations by code: the primaries that a change concerns, and the objects that are related to a parent.

use serde_json::Value as Json;

#[cfg(feature = "composer")]
pub(crate) use self::of_composers::rules;
#[cfg(feature = "reconciler")]
pub(crate) use self::of_reconcilers::{change, counts, targets};
use crate::kind::RELATION;

/// Whether a manifest has a watch or a hook that uses the script's mapping function.
pub(crate) fn are_by_code(manifest: &Json) -> bool {
    let (_, _, mapping) = RELATION;
    let mut mapped = list(manifest, "controllers")
        .flat_map(|controller| list(controller, "watches").chain(list(controller, "hooks")));
    mapped.any(|watch| watch["mapping"]["type"] == mapping)
}

/// Whether a manifest has a watch that uses the script's predicate.
#[cfg(feature = "reconciler")]
pub(crate) fn have_predicates(manifest: &Json) -> bool {
    let (_, _, field) = crate::kind::PREDICATE;
    list(manifest, "controllers").any(|controller| {
        let others = list(controller, "owns").chain(list(controller, "watches"));
        std::iter::once(&controller["primary"]).chain(others).any(|watch| watch[field] == true)
    })
}

fn list<'a>(json: &'a Json, field: &str) -> impl Iterator<Item = &'a Json> + use<'a> {
    json[field].as_array().into_iter().flatten()
}

#[cfg(feature = "reconciler")]
mod of_reconcilers {
    use starlark::values::dict::DictRef;
    use starlark::values::structs::AllocStruct;
    use starlark::values::{Heap, Value};
    use windlass_sdk::bindings::mapper::exports::windlass::plugin::mapper::{Change, IndexValue, ObjectKey, Target};

    use crate::arguments::{Options, elements, misfit, wrong};
    use crate::values::from_json;

    /// The arguments of `map` and `matches`.
    pub(crate) fn change<'v>(heap: Heap<'v>, watch: &str, change: &Change) -> starlark::Result<Vec<Value<'v>>> {
        let state = |text: &Option<String>| {
            let read = text.as_deref().map(|text| from_json(heap, text, "a changed object")).transpose();
            read.map(|state| state.unwrap_or_else(Value::new_none))
        };
        let states = [("old", state(&change.old)?), ("new", state(&change.new)?)];
        Ok(vec![heap.alloc(watch), heap.alloc(AllocStruct(states))])
    }

    /// The response of `matches`.
    pub(crate) fn counts(value: Value<'_>) -> starlark::Result<bool> {
        value.unpack_bool().ok_or_else(|| misfit("the answer of matches", value, "True or False"))
    }

    /// The response of `map`.
    pub(crate) fn targets(value: Value<'_>) -> starlark::Result<Vec<Target>> {
        elements(value, "the answer of map")?.into_iter().map(target).collect()
    }

    fn target(value: Value<'_>) -> starlark::Result<Target> {
        let what = "a target of map";
        let wanted = "a dict of `name` and `namespace`, or of `index` and `value`,";
        let fields = DictRef::from_value(value).ok_or_else(|| misfit(what, value, wanted))?;
        let mut fields = Options::of(what, &fields)?;
        let (name, namespace) = (fields.text("name")?, fields.text("namespace")?);
        let (index, value) = (fields.text("index")?, fields.text("value")?);
        fields.end()?;
        match (name, index, value) {
            (Some(name), None, None) => Ok(Target::Primary(ObjectKey { namespace, name })),
            (None, Some(index), Some(value)) if namespace.is_none() => Ok(Target::Indexed(IndexValue { index, value })),
            _ => Err(wrong(format!("{what} has neither form: {wanted} is wanted"))),
        }
    }
}

#[cfg(feature = "composer")]
mod of_composers {
    use starlark::values::Value;
    use starlark::values::dict::DictRef;
    use windlass_sdk::bindings::customize::exports::windlass::plugin::customize::RelatedRule;

    use crate::arguments::{Options, elements, misfit, wrong};

    /// The response of `customize`.
    pub(crate) fn rules(value: Value<'_>) -> starlark::Result<Vec<RelatedRule>> {
        elements(value, "the answer of customize")?.into_iter().map(rule).collect()
    }

    fn rule(value: Value<'_>) -> starlark::Result<RelatedRule> {
        let what = "a rule of customize";
        let fields =
            DictRef::from_value(value).ok_or_else(|| misfit(what, value, "a dict with the name of a `watch`"))?;
        let mut fields = Options::of(what, &fields)?;
        let watch = fields.text("watch")?;
        let rule = RelatedRule {
            watch: watch.ok_or_else(|| wrong(format!("{what} has no `watch`: the name of one in the manifest")))?,
            namespace: fields.text("namespace")?,
            names: fields.texts("names")?.unwrap_or_default(),
            label_selector: fields.text("labelSelector")?,
        };
        fields.end()?;
        Ok(rule)
    }
}
