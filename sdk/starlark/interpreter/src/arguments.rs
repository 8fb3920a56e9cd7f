//! Checks the arguments that a script passes to a host function: each message names the function, the argument and the
//! value found.

use starlark::collections::SmallMap;
use starlark::values::dict::{AllocDict, DictRef};
use starlark::values::list::ListRef;
use starlark::values::tuple::TupleRef;
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::types::{ObjectKind, ObjectRef};

use crate::options;
use crate::values::to_json;

/// The error for a mistake in the script. Its place is added later.
pub(crate) fn wrong(message: impl std::fmt::Display) -> starlark::Error {
    starlark::Error::new_value(anyhow::anyhow!("{message}"))
}

/// The error for a value of the wrong type.
pub(crate) fn misfit(what: &str, value: Value<'_>, wanted: &str) -> starlark::Error {
    wrong(format!("{what} is of type {}, and {wanted} is wanted", value.get_type()))
}

pub(crate) fn text(value: Value<'_>, what: &str) -> starlark::Result<String> {
    value.unpack_str().map(str::to_owned).ok_or_else(|| misfit(what, value, "a text"))
}

/// A whole number that is not negative.
pub(crate) fn number(value: Value<'_>, what: &str) -> starlark::Result<u32> {
    let number = if value.get_type() == "int" { value.to_str().parse().ok() } else { None };
    number.ok_or_else(|| {
        wrong(format!("{what} is {}, and a whole number from 0 to {} is wanted", value.to_repr(), u32::MAX))
    })
}

/// A duration in milliseconds.
pub(crate) fn milliseconds(value: Value<'_>, what: &str) -> starlark::Result<u32> {
    let longest = u32::MAX / 2;
    let number = number(value, what)?;
    if number > longest {
        return Err(wrong(format!("{what} is {number}, and at most {longest} milliseconds are 24 days")));
    }
    Ok(number)
}

/// The elements of a list or a tuple.
pub(crate) fn elements<'v>(value: Value<'v>, what: &str) -> starlark::Result<Vec<Value<'v>>> {
    let list = ListRef::from_value(value).map(|list| list.content().to_vec());
    let elements = list.or_else(|| TupleRef::from_value(value).map(|tuple| tuple.content().to_vec()));
    elements.ok_or_else(|| misfit(what, value, "a list"))
}

/// Names and values: a dict, or a list of pairs, in which a name may occur twice.
pub(crate) fn pairs(value: Value<'_>, what: &str) -> starlark::Result<Vec<(String, String)>> {
    if let Some(dict) = DictRef::from_value(value) {
        return dict.iter().map(|(name, value)| Ok((text(name, what)?, shown(value)))).collect();
    }
    let pair = |pair: Value<'_>| match *elements(pair, what)? {
        [name, value] => Ok((text(name, what)?, shown(value))),
        _ => Err(misfit(what, pair, "a pair of a name and a value")),
    };
    elements(value, what)?.into_iter().map(pair).collect()
}

/// Converts a value to a text for a log line.
pub(crate) fn shown(value: Value<'_>) -> String {
    match value.unpack_str() {
        Some(text) => text.to_owned(),
        None => to_json(value).unwrap_or_else(|_| value.to_repr()),
    }
}

pub(crate) fn json(value: Value<'_>, what: &str) -> starlark::Result<String> {
    to_json(value).map_err(|error| wrong(format!("{what}: {error}")))
}

/// A dict as JSON.
pub(crate) fn object(value: Value<'_>, what: &str) -> starlark::Result<String> {
    if DictRef::from_value(value).is_none() {
        return Err(misfit(what, value, "an object, which is a dict,"));
    }
    json(value, what)
}

pub(crate) fn kind(api_version: &str, kind: &str) -> ObjectKind {
    ObjectKind { api_version: api_version.to_owned(), kind: kind.to_owned() }
}

/// A reference, or the object itself.
pub(crate) fn reference(value: Value<'_>, what: &str) -> starlark::Result<ObjectRef> {
    let wanted = "a reference such as ref(\"v1\", \"Pod\", \"name\", \"namespace\"), or an object,";
    let outer = DictRef::from_value(value).ok_or_else(|| misfit(what, value, wanted))?;
    let inner = outer.get_str("metadata").and_then(DictRef::from_value);
    let names = inner.as_ref().unwrap_or(&outer);
    let optional = |dict: &DictRef<'_>, field: &str| {
        let value = dict.get_str(field).filter(|value| !value.is_none());
        value.map(|value| text(value, &format!("`{field}` of {what}"))).transpose()
    };
    let required = |dict: &DictRef<'_>, field: &str| {
        optional(dict, field)?.ok_or_else(|| wrong(format!("{what} has no `{field}`: {wanted} is wanted")))
    };
    Ok(ObjectRef {
        cluster: None,
        api_version: required(&outer, "apiVersion")?,
        kind: required(&outer, "kind")?,
        namespace: optional(names, "namespace")?,
        name: required(names, "name")?,
        uid: optional(names, "uid")?,
    })
}

/// A reference as a script represents it.
pub(crate) fn reference_value<'v>(heap: Heap<'v>, target: &ObjectRef) -> Value<'v> {
    let mut fields = vec![("apiVersion", &target.api_version), ("kind", &target.kind)];
    fields.extend(target.namespace.as_ref().map(|namespace| ("namespace", namespace)));
    fields.push(("name", &target.name));
    fields.extend(target.uid.as_ref().map(|uid| ("uid", uid)));
    heap.alloc(AllocDict(fields.into_iter().map(|(name, value)| (name, value.as_str()))))
}

/// The named arguments of a function. Each is read once; the remaining ones are mistakes.
pub(crate) struct Options<'v> {
    function: &'static str,
    given: Vec<(String, Value<'v>)>,
    known: Vec<&'static str>,
}

impl<'v> Options<'v> {
    pub(crate) fn new(function: &'static str, given: SmallMap<String, Value<'v>>) -> Self {
        Self { function, given: given.into_iter().collect(), known: Vec::new() }
    }

    /// The options in a dict that `writes.op_apply` or a similar function returned.
    pub(crate) fn of(function: &'static str, dict: &DictRef<'v>) -> starlark::Result<Self> {
        let given: starlark::Result<Vec<_>> =
            dict.iter().map(|(name, value)| Ok((text(name, function)?, value))).collect();
        Ok(Self { function, given: given?, known: Vec::new() })
    }

    /// Returns the argument. Starlark's None counts as not given.
    pub(crate) fn value(&mut self, name: &'static str) -> Option<Value<'v>> {
        self.known.push(name);
        let place = self.given.iter().position(|(given, _)| given == name)?;
        Some(self.given.swap_remove(place).1).filter(|value| !value.is_none())
    }

    fn what(&self, name: &str) -> String {
        format!("`{name}` of {}", self.function)
    }

    fn read<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Value<'v>, &str) -> starlark::Result<T>,
    ) -> starlark::Result<Option<T>> {
        let what = self.what(name);
        self.value(name).map(|value| read(value, &what)).transpose()
    }

    pub(crate) fn text(&mut self, name: &'static str) -> starlark::Result<Option<String>> {
        self.read(name, text)
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> starlark::Result<bool> {
        let read =
            |value: Value<'v>, what: &str| value.unpack_bool().ok_or_else(|| misfit(what, value, "True or False"));
        Ok(self.read(name, read)?.unwrap_or_default())
    }

    pub(crate) fn number(&mut self, name: &'static str) -> starlark::Result<Option<u32>> {
        self.read(name, number)
    }

    pub(crate) fn milliseconds(&mut self, name: &'static str) -> starlark::Result<Option<u32>> {
        self.read(name, milliseconds)
    }

    pub(crate) fn texts(&mut self, name: &'static str) -> starlark::Result<Option<Vec<String>>> {
        self.read(name, |value, what| elements(value, what)?.into_iter().map(|part| text(part, what)).collect())
    }

    pub(crate) fn reference(&mut self, name: &'static str) -> starlark::Result<Option<ObjectRef>> {
        self.read(name, reference)
    }

    pub(crate) fn pairs(&mut self, name: &'static str) -> starlark::Result<Vec<(String, String)>> {
        Ok(self.read(name, pairs)?.unwrap_or_default())
    }

    /// Returns the value for one of these words; the first value if the argument is not given.
    pub(crate) fn one_of<T: Copy>(&mut self, name: &'static str, words: &[(&str, T)]) -> starlark::Result<T> {
        let Some(given) = self.text(name)? else { return Ok(words[0].1) };
        let found = words.iter().find(|(word, _)| *word == given).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            wrong(format!("{} is {given:?}; there are: {}", self.what(name), words.join(", ")))
        })
    }

    /// Refuses arguments that were not read.
    pub(crate) fn end(self) -> starlark::Result<()> {
        // attributes.rs checks the arguments while the script is read, so it must know the same options.
        debug_assert!(options::of(self.function).is_none_or(|known| known == self.known), "{}", self.function);
        match self.given.first() {
            None => Ok(()),
            Some((name, _)) if self.known.is_empty() => {
                Err(wrong(format!("{} has no option `{name}`: it has none", self.function)))
            }
            Some((name, _)) => {
                Err(wrong(format!("{} has no option `{name}`; there are: {}", self.function, self.known.join(", "))))
            }
        }
    }
}
