//! Reads: `cache` and `live`.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_sdk::{Error, ObjectRef, cache, live};

use crate::arguments::{Kind, Target, error, read, target};
use crate::common::{Answer, shown};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Query {
    kind: Kind,
    namespace: Option<String>,
    label_selector: Option<String>,
    field_selector: Option<String>,
    index: Option<Index>,
    #[serde(default)]
    owned: bool,
    fields: Option<Vec<String>>,
    view: Option<View>,
    limit: Option<u32>,
    max_bytes: Option<u32>,
    page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum View {
    Metadata,
    Fields(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogQuery {
    target: Target,
    container: Option<String>,
    #[serde(default)]
    previous: bool,
    tail_lines: Option<u32>,
    since_ms: Option<u32>,
    limit_bytes: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    index: String,
    value: String,
}

/// Carries out a step. `None` if this file does not know the call.
pub(crate) fn call(call: &str, step: &Value) -> Option<Answer> {
    Some(match call {
        "cache.get" => optional(match fields(step) {
            Some(fields) => cache::get_fields(&target(step), &texts(&fields)),
            None => cache::get(&target(step)),
        }),
        "cache.get-many" => {
            let targets: Vec<ObjectRef> =
                read::<Vec<Target>>(step, "targets").into_iter().map(ObjectRef::from).collect();
            let answers = match fields(step) {
                Some(fields) => cache::get_many_fields(&targets, &texts(&fields)),
                None => cache::get_many(&targets),
            };
            Ok(answers.into_iter().map(|answer| shown(optional(answer))).collect())
        }
        "cache.list" => all(cache_query(read(step, "query")).iter()),
        "live.get" => optional(live_get(step)),
        "live.list" => all(live_query(read(step, "query")).iter()),
        "live.log" => log(read(step, "query")).read().map(Value::from).map_err(|refused| error(&refused)),
        "live.served" => {
            let Kind { api_version, kind } = read(step, "kind");
            let served = live::served(&api_version, &kind).map_err(|refused| error(&refused));
            served.map(|kind| kind.map_or(Value::Null, |kind| served_kind(&kind)))
        }
        "live.kinds" => {
            let kinds = live::kinds().map_err(|refused| error(&refused));
            kinds.map(|kinds| kinds.iter().map(listed_kind).collect())
        }
        _ => return None,
    })
}

fn listed_kind(listed: &live::ListedKind) -> Value {
    let live::ListedKind { kind, served } = listed;
    json!({"kind": {"apiVersion": kind.api_version, "kind": kind.kind}, "served": served_kind(served)})
}

fn live_get(step: &Value) -> Result<Option<Value>, Error> {
    let target = target(step);
    if let Some(name) = step["subresource"].as_str() {
        return live::get_subresource(&target, name);
    }
    match read::<Option<View>>(step, "view") {
        Some(View::Metadata) => live::get_metadata(&target),
        Some(View::Fields(fields)) => live::get_fields(&target, &texts(&fields)),
        None => live::get(&target),
    }
}

fn log(query: LogQuery) -> live::Log {
    let mut log = live::log(query.target.into());
    if let Some(container) = query.container {
        log = log.container(container);
    }
    if query.previous {
        log = log.previous();
    }
    if let Some(lines) = query.tail_lines {
        log = log.tail_lines(lines);
    }
    if let Some(milliseconds) = query.since_ms {
        log = log.since_ms(milliseconds);
    }
    query.limit_bytes.into_iter().fold(log, live::Log::limit_bytes)
}

fn served_kind(kind: &live::ServedKind) -> Value {
    let live::ServedKind { resource, namespaced, verbs, subresources } = kind;
    json!({"resource": resource, "namespaced": namespaced, "verbs": verbs, "subresources": subresources})
}

fn fields(step: &Value) -> Option<Vec<String>> {
    read(step, "fields")
}

fn texts(fields: &[String]) -> Vec<&str> {
    fields.iter().map(String::as_str).collect()
}

fn optional(answer: Result<Option<Value>, Error>) -> Answer {
    answer.map(Option::unwrap_or_default).map_err(|refused| error(&refused))
}

fn all(objects: impl Iterator<Item = Result<Value, Error>>) -> Answer {
    objects.collect::<Result<Value, Error>>().map_err(|refused| error(&refused))
}

fn cache_query(asked: Query) -> cache::Query {
    let mut query = cache::list(&asked.kind.api_version, &asked.kind.kind);
    if let Some(namespace) = asked.namespace {
        query = query.in_namespace(namespace);
    }
    if let Some(selector) = asked.label_selector {
        query = query.labels(selector);
    }
    if let Some(Index { index, value }) = asked.index {
        query = query.index(index, value);
    }
    if asked.owned {
        query = query.owned();
    }
    if let Some(fields) = asked.fields {
        query = query.fields(&texts(&fields));
    }
    if let Some(limit) = asked.limit {
        query = query.page_size(limit);
    }
    if let Some(bytes) = asked.max_bytes {
        query = query.page_bytes(bytes);
    }
    asked.page_token.into_iter().fold(query, cache::Query::after)
}

fn live_query(asked: Query) -> live::Query {
    let mut query = live::list(&asked.kind.api_version, &asked.kind.kind);
    if let Some(namespace) = asked.namespace {
        query = query.in_namespace(namespace);
    }
    if let Some(selector) = asked.label_selector {
        query = query.labels(selector);
    }
    if let Some(selector) = asked.field_selector {
        query = query.fields(selector);
    }
    match asked.view {
        Some(View::Metadata) => query = query.metadata(),
        Some(View::Fields(fields)) => query = query.only(&texts(&fields)),
        None => {}
    }
    if let Some(limit) = asked.limit {
        query = query.page_size(limit);
    }
    asked.page_token.into_iter().fold(query, live::Query::after)
}
