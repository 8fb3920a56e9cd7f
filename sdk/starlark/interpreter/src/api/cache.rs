//! `cache`: reads from the caches of the declared watches.

use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::list::AllocList;
use starlark::values::structs::AllocStruct;
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::cache::{self, IndexMatch, ListQuery};
use windlass_sdk::bindings::windlass::plugin::types::{ApiError, Page};

use super::{in_call, object, optional_object};
use crate::arguments::{Options, elements, kind as kind_of, misfit, reference, text};
use crate::failures::{self, throw};

/// The page size if the script does not set one.
pub(super) const PAGE_OBJECTS: u32 = 500;

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn get<'v>(
        #[starlark(require = pos)] target: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut options = Options::new("cache.get", options);
        let fields = options.texts("fields")?;
        options.end()?;
        in_call("cache.get")?;
        let target = reference(target, "the target of cache.get")?;
        optional_object(heap, cache::get(&target, fields.as_deref()).map_err(throw)?)
    }

    fn get_many<'v>(
        #[starlark(require = pos)] targets: Value<'v>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut options = Options::new("cache.get_many", options);
        let fields = options.texts("fields")?;
        options.end()?;
        in_call("cache.get_many")?;
        let targets = elements(targets, "the targets of cache.get_many")?;
        let targets: starlark::Result<Vec<_>> =
            targets.into_iter().map(|target| reference(target, "a target of cache.get_many")).collect();
        settled(heap, cache::get_many(&targets?, fields.as_deref()))
    }

    fn list<'v>(
        #[starlark(require = pos)] api_version: &str,
        #[starlark(require = pos)] kind: &str,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        let mut query = query(api_version, kind, Options::new("cache.list", options))?;
        in_call("cache.list")?;
        all_pages(heap, |token| {
            query.page_token = token.or(query.page_token.take());
            cache::list(&query).map_err(throw)
        })
    }
}

fn query(api_version: &str, kind: &str, mut options: Options<'_>) -> starlark::Result<ListQuery> {
    let index = options.value("index").map(index).transpose()?;
    let query = ListQuery {
        kind: kind_of(api_version, kind),
        namespace: options.text("namespace")?,
        label_selector: options.text("label_selector")?,
        index,
        owned: options.flag("owned")?,
        fields: options.texts("fields")?,
        limit: options.number("limit")?.unwrap_or(PAGE_OBJECTS),
        max_bytes: options.number("max_bytes")?,
        page_token: options.text("page_token")?,
    };
    options.end()?;
    Ok(query)
}

fn index(value: Value<'_>) -> starlark::Result<IndexMatch> {
    let what = "`index` of cache.list";
    match *elements(value, what)? {
        [name, value] => Ok(IndexMatch { index: text(name, what)?, value: text(value, what)? }),
        _ => Err(misfit(what, value, "a pair of an index's name and a value")),
    }
}

/// The objects of all pages. `page` gets the token of the next page.
pub(super) fn all_pages(
    heap: Heap<'_>,
    mut page: impl FnMut(Option<String>) -> starlark::Result<Page>,
) -> starlark::Result<Value<'_>> {
    let (mut objects, mut token) = (Vec::new(), None);
    loop {
        let Page { items, next_token } = page(token)?;
        for item in &items {
            objects.push(object(heap, item)?);
        }
        token = next_token;
        if token.is_none() {
            return Ok(heap.alloc(AllocList(objects)));
        }
    }
}

/// The results of several requests: for each a struct of its `value` and its `errors`.
pub(super) fn settled(heap: Heap<'_>, answers: Vec<Result<Option<String>, ApiError>>) -> starlark::Result<Value<'_>> {
    let mut settled = Vec::with_capacity(answers.len());
    for answer in answers {
        let (value, errors) = match answer {
            Ok(text) => (optional_object(heap, text)?, vec![]),
            Err(error) => (Value::new_none(), vec![error.into()]),
        };
        let fields = [("value", value), ("errors", failures::values(heap, &errors))];
        settled.push(heap.alloc(AllocStruct(fields)));
    }
    Ok(heap.alloc(AllocList(settled)))
}
