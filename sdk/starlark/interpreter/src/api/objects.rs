//! Functions on objects in Kubernetes' form. Only `conditions.updated` calls the host, for the time.

use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::dict::{AllocDict, DictRef};
use starlark::values::structs::AllocStruct;
use starlark::values::tuple::UnpackTuple;
use starlark::values::{Heap, Value};
use windlass_sdk::conditions::{Condition, updated_conditions};
use windlass_sdk::{LabelSelector, Quantity, clock};

use super::in_call;
use crate::arguments::{elements, json, misfit, reference, reference_value, text, wrong};
use crate::values::from_json;

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn r#ref<'v>(
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
        #[starlark(require = pos)] name: &str,
        namespace: Option<Value<'v>>,
        uid: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let none = Value::new_none();
        let fields = [
            ("apiVersion", heap.alloc(api_version)),
            ("kind", heap.alloc(kind)),
            ("namespace", namespace.unwrap_or(none)),
            ("name", heap.alloc(name)),
            ("uid", uid.unwrap_or(none)),
        ];
        let target = reference(heap.alloc(AllocDict(fields)), "the argument of ref")?;
        Ok(reference_value(heap, &target))
    }

    fn ref_of<'v>(#[starlark(require = pos)] object: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(reference_value(heap, &reference(object, "the argument of ref_of")?))
    }

    fn sibling<'v>(
        #[starlark(require = pos)] object: Value<'v>,
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut target = reference(object, "the argument of sibling")?;
        (target.api_version, target.kind, target.uid) = (api_version.to_owned(), kind.to_owned(), None);
        Ok(reference_value(heap, &target))
    }

    fn owner_reference<'v>(#[starlark(require = pos)] owner: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let target = reference(owner, "the argument of owner_reference")?;
        let Some(uid) = target.uid else {
            return Err(wrong(
                "the argument of owner_reference has no `uid`: only an object that the server has stored can be an owner",
            ));
        };
        let texts = [("apiVersion", target.api_version), ("kind", target.kind), ("name", target.name), ("uid", uid)];
        let texts = texts.map(|(name, value)| (name, heap.alloc(value)));
        let flags = ["controller", "blockOwnerDeletion"].map(|name| (name, Value::new_bool(true)));
        Ok(heap.alloc(AllocDict(texts.into_iter().chain(flags))))
    }

    fn find<'v>(
        #[starlark(require = pos)] objects: Value<'v>,
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
        name: Option<Value<'v>>,
    ) -> starlark::Result<Value<'v>> {
        let name = name.filter(|name| !name.is_none()).map(|name| text(name, "`name` of find")).transpose()?;
        for object in elements(objects, "the objects of find")? {
            let fields = DictRef::from_value(object).ok_or_else(|| misfit("an object of find", object, "a dict"))?;
            let is = |value: Option<Value<'v>>, wanted: &str| value.and_then(Value::unpack_str) == Some(wanted);
            let metadata = fields.get_str("metadata").and_then(DictRef::from_value);
            let named = metadata.and_then(|metadata| metadata.get_str("name"));
            if is(fields.get_str("apiVersion"), api_version)
                && is(fields.get_str("kind"), kind)
                && name.as_deref().is_none_or(|name| is(named, name))
            {
                return Ok(object);
            }
        }
        Ok(Value::new_none())
    }

    // The amount is a text or a whole number. `binary` writes a number in powers of 1,024.
    fn quantity<'v>(
        #[starlark(require = pos)] amount: Value<'v>,
        #[starlark(require = named, default = false)] binary: bool,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let what = "the argument of quantity";
        let read: Quantity = if let Some(text) = amount.unpack_str() {
            text.parse().map_err(|error| wrong(format!("{what}: {error}")))?
        } else {
            let whole = amount.to_str().parse().ok().filter(|_| amount.get_type() == "int");
            let whole = whole.ok_or_else(|| misfit(what, amount, "a text such as \"1.5Gi\", or a whole number,"))?;
            if binary { Quantity::bytes(whole) } else { Quantity::new(whole) }
        };
        let fields = [
            ("value", heap.alloc(read.value())),
            ("milli_value", heap.alloc(read.milli_value())),
            ("text", heap.alloc(read.to_string())),
        ];
        Ok(heap.alloc(AllocStruct(fields)))
    }

    fn selector_text<'v>(#[starlark(require = pos)] selector: Value<'v>) -> starlark::Result<String> {
        let what = "the argument of selector_text";
        let wrong_with = |error| wrong(format!("{what}: {error}"));
        let mut given: serde_json::Value = serde_json::from_str(&json(selector, what)?).map_err(wrong_with)?;
        // The field is None if the object has no labels.
        if let serde_json::Value::Object(fields) = &mut given {
            fields.retain(|_, value| !value.is_null());
        }
        let read: LabelSelector = serde_json::from_value(given).map_err(wrong_with)?;
        Ok(read.to_string())
    }
}

#[starlark_module]
pub(crate) fn conditions(builder: &mut GlobalsBuilder) {
    fn condition<'v>(
        #[starlark(require = pos)] condition_type: &str,
        #[starlark(require = pos)] status: Value<'v>,
        #[starlark(require = pos)] reason: &str,
        #[starlark(require = pos)] message: Option<&str>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let status = match status.unpack_bool() {
            Some(true) => "True".to_owned(),
            Some(false) => "False".to_owned(),
            None if status.is_none() => "Unknown".to_owned(),
            None => text(status, "the status of a condition")?,
        };
        let message = message.unwrap_or_default();
        let fields = [("type", condition_type), ("status", &status), ("reason", reason), ("message", message)];
        Ok(heap.alloc(AllocDict(fields)))
    }

    fn updated<'v>(
        #[starlark(require = pos)] known: Value<'v>,
        #[starlark(args)] new: UnpackTuple<Value<'v>>,
        generation: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        in_call("conditions.updated")?;
        let known = if known.is_none() { vec![] } else { elements(known, "the list of conditions.updated")? };
        let known = read("a condition of the list", &known)?;
        let new = read("a new condition", &new.items)?;
        let generation = generation.filter(|generation| !generation.is_none());
        let generation = generation.map(|generation| {
            let number = generation.to_str().parse::<i64>().ok().filter(|_| generation.get_type() == "int");
            number.ok_or_else(|| misfit("`generation`", generation, "a whole number"))
        });
        let updated = updated_conditions(&known, new, generation.transpose()?, clock::now);
        let text = serde_json::to_string(&updated).map_err(wrong)?;
        Ok(from_json(heap, &text, "a list of conditions")?)
    }
}

fn read(what: &str, conditions: &[Value<'_>]) -> starlark::Result<Vec<Condition>> {
    let read = |condition: &Value<'_>| {
        serde_json::from_str(&json(*condition, what)?).map_err(|error| wrong(format!("{what} is none: {error}")))
    };
    conditions.iter().map(read).collect()
}
