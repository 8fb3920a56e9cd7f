//! `live`: reads from the API server itself.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_sdk::bindings::windlass::plugin::live;

use crate::script::read;
use crate::wire::{self, Answer, ObjectKind, ObjectRef};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    target: ObjectRef,
    subresource: Option<String>,
    #[serde(default)]
    view: View,
}

/// Like `live.view`: a word, or the pointers.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
enum View {
    #[default]
    Whole,
    Metadata,
    Fields(Vec<String>),
}

impl From<View> for live::View {
    fn from(view: View) -> Self {
        match view {
            View::Whole => Self::Whole,
            View::Metadata => Self::Metadata,
            View::Fields(fields) => Self::Fields(fields),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    query: Query,
}

/// Like `live.list-query`. The default limit is 500.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    kind: ObjectKind,
    namespace: Option<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    #[serde(default)]
    view: View,
    limit: Option<u32>,
    page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Log {
    target: ObjectRef,
    container: Option<String>,
    #[serde(default)]
    previous: bool,
    tail_lines: Option<u32>,
    since_ms: Option<u32>,
    limit_bytes: Option<u32>,
}

impl From<Log> for live::LogQuery {
    fn from(log: Log) -> Self {
        let Log { target, container, previous, tail_lines, since_ms, limit_bytes } = log;
        Self { target: target.into(), container, previous, tail_lines, since_ms, limit_bytes }
    }
}

/// Which of all kinds are returned, because a long list would be shortened.
#[derive(Deserialize)]
struct Kinds {
    only: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Served {
    kind: ObjectKind,
}

impl From<Query> for live::ListQuery {
    fn from(query: Query) -> Self {
        Self {
            kind: query.kind.into(),
            namespace: query.namespace,
            label_selector: query.label_selector,
            field_selector: query.field_selector,
            view: query.view.into(),
            limit: query.limit.unwrap_or(500),
            page_token: query.page_token,
        }
    }
}

pub(crate) fn call(function: &str, arguments: Value) -> Option<Answer> {
    Some(match function {
        "get" => {
            let Get { target, subresource, view } = read("live.get", arguments);
            wire::optional(live::get(&target.into(), subresource.as_deref(), &view.into()))
        }
        "list" => wire::page(live::list(&read::<List>("live.list", arguments).query.into())),
        "log" => {
            let log = live::log(&read::<Log>("live.log", arguments).into());
            log.map(Value::from).map_err(|error| wire::api_error(&error))
        }
        "served" => {
            let served = live::served(&read::<Served>("live.served", arguments).kind.into());
            served.map(|kind| kind.map_or(Value::Null, shown)).map_err(|error| wire::api_error(&error))
        }
        "kinds" => {
            let only = read::<Kinds>("live.kinds", arguments).only;
            let kinds = live::kinds().map_err(|error| wire::api_error(&error));
            kinds.map(|kinds| kinds.into_iter().filter(|it| only.contains(&it.kind.kind)).map(listed).collect())
        }
        _ => return None,
    })
}

fn listed(listed: live::ListedKind) -> Value {
    let live::ListedKind { kind, served } = listed;
    json!({"apiVersion": kind.api_version, "kind": kind.kind, "served": shown(served)})
}

fn shown(kind: live::ServedKind) -> Value {
    let live::ServedKind { resource, namespaced, verbs, subresources } = kind;
    json!({"resource": resource, "namespaced": namespaced, "verbs": verbs, "subresources": subresources})
}
