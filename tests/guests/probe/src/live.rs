//! `live`: reads from the API server itself.

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::bindings::windlass::plugin::live;

use crate::script::read;
use crate::wire::{self, Answer, ObjectKind, ObjectRef};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    target: ObjectRef,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    query: Query,
}

/// As `live.list-query`; without a limit, 500.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    kind: ObjectKind,
    namespace: Option<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    limit: Option<u32>,
    page_token: Option<String>,
}

impl From<Query> for live::ListQuery {
    fn from(query: Query) -> Self {
        Self {
            kind: query.kind.into(),
            namespace: query.namespace,
            label_selector: query.label_selector,
            field_selector: query.field_selector,
            limit: query.limit.unwrap_or(500),
            page_token: query.page_token,
        }
    }
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    Some(match function {
        "get" => wire::optional(live::get(&read::<Get>("live.get", arguments).target.into())),
        "list" => wire::page(live::list(&read::<List>("live.list", arguments).query.into())),
        _ => return None,
    })
}
