//! `cache`: reads of the declared watches, and `cache.walk`, which reads a whole list.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_sdk::bindings::windlass::plugin::cache;

use crate::script::read;
use crate::wire::{self, Answer, ObjectKind, ObjectRef};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    target: ObjectRef,
    fields: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetMany {
    targets: Vec<ObjectRef>,
    fields: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    query: Query,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Walk {
    query: Query,
    /// The parts of each object to read.
    pointers: Vec<String>,
}

/// Like `cache.list-query`. The default limit is 500.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    kind: ObjectKind,
    namespace: Option<String>,
    label_selector: Option<String>,
    index: Option<IndexMatch>,
    #[serde(default)]
    owned: bool,
    fields: Option<Vec<String>>,
    limit: Option<u32>,
    max_bytes: Option<u32>,
    page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IndexMatch {
    index: String,
    value: String,
}

impl From<Query> for cache::ListQuery {
    fn from(query: Query) -> Self {
        Self {
            kind: query.kind.into(),
            namespace: query.namespace,
            label_selector: query.label_selector,
            index: query.index.map(|index| cache::IndexMatch { index: index.index, value: index.value }),
            owned: query.owned,
            fields: query.fields,
            limit: query.limit.unwrap_or(500),
            max_bytes: query.max_bytes,
            page_token: query.page_token,
        }
    }
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    Some(match function {
        "get" => {
            let Get { target, fields } = read("cache.get", arguments);
            wire::optional(cache::get(&target.into(), fields.as_deref()))
        }
        "get-many" => {
            let GetMany { targets, fields } = read("cache.get-many", arguments);
            let targets: Vec<_> = targets.into_iter().map(Into::into).collect();
            let answers = cache::get_many(&targets, fields.as_deref());
            Ok(answers.into_iter().map(|answer| wire::nested(wire::optional(answer))).collect())
        }
        "list" => wire::page(cache::list(&read::<List>("cache.list", arguments).query.into())),
        "walk" => walk(read("cache.walk", arguments)),
        _ => return None,
    })
}

/// Reads all pages, parses each object as a plugin would, and reads some values of it. It keeps no object: a test only
/// needs the number of objects, and the cost.
fn walk(walk: Walk) -> Answer {
    let mut query = cache::ListQuery::from(walk.query);
    let (mut pages, mut objects, mut bytes, mut found) = (0_u32, 0_usize, 0_usize, 0_usize);
    loop {
        let page = cache::list(&query).map_err(|error| wire::api_error(&error))?;
        pages += 1;
        objects += page.items.len();
        for item in &page.items {
            bytes += item.len();
            let object = wire::document(item);
            found += walk.pointers.iter().filter(|pointer| object.pointer(pointer).is_some()).count();
        }
        query.page_token = page.next_token;
        if query.page_token.is_none() {
            return Ok(json!({"pages": pages, "objects": objects, "bytes": bytes, "found": found}));
        }
    }
}
