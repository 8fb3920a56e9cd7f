//! The host's functions, as the SDK calls them, on this thread's test double.

use super::current;

/// Reports that a function was called without a host.
fn needed(function: &str) -> ! {
    panic!("{function} needs the Windlass host; in a test, make one with `windlass_sdk::testing::Host::new()`")
}

pub(crate) mod cache {
    use super::{current, needed};
    use crate::bindings::windlass::plugin::cache::ListQuery;
    use crate::bindings::windlass::plugin::types::{ApiError, ObjectRef, Page};

    type Answer = Result<Option<String>, ApiError>;

    pub(crate) fn get(target: &ObjectRef, fields: Option<&[String]>) -> Answer {
        current(|host| host.read("get", target, fields)).unwrap_or_else(|| needed("cache::get"))
    }

    pub(crate) fn get_many(targets: &[ObjectRef], fields: Option<&[String]>) -> Vec<Answer> {
        targets.iter().map(|target| get(target, fields)).collect()
    }

    pub(crate) fn list(query: &ListQuery) -> Result<Page, ApiError> {
        current(|host| host.list(query)).unwrap_or_else(|| needed("cache::list"))
    }
}

pub(crate) mod live {
    use super::{current, needed};
    use crate::bindings::windlass::plugin::live::{ListQuery, ListedKind, LogQuery, ServedKind, View};
    use crate::bindings::windlass::plugin::types::{ApiError, ObjectKind, ObjectRef, Page};

    pub(crate) fn get(target: &ObjectRef, subresource: Option<&str>, view: &View) -> Result<Option<String>, ApiError> {
        current(|host| host.live_get(target, subresource, view)).unwrap_or_else(|| needed("live::get"))
    }

    pub(crate) fn list(query: &ListQuery) -> Result<Page, ApiError> {
        current(|host| host.live_list(query)).unwrap_or_else(|| needed("live::list"))
    }

    pub(crate) fn log(query: &LogQuery) -> Result<String, ApiError> {
        current(|host| host.live_log(query)).unwrap_or_else(|| needed("live::log"))
    }

    pub(crate) fn served(kind: &ObjectKind) -> Result<Option<ServedKind>, ApiError> {
        current(|host| host.live_served(kind)).unwrap_or_else(|| needed("live::served"))
    }

    pub(crate) fn kinds() -> Result<Vec<ListedKind>, ApiError> {
        current(super::super::State::live_kinds).unwrap_or_else(|| needed("live::kinds"))
    }
}

pub(crate) mod writes {
    use super::{current, needed};
    use crate::bindings::windlass::plugin::types::{ApiError, ObjectRef};
    use crate::bindings::windlass::plugin::writes::{
        Collection, DeleteOptions, DeleteWrite, ObjectWrite, Operation, PatchType, PatchWrite, WriteOptions,
    };

    type Answer = Result<Option<String>, ApiError>;

    fn one(operation: &Operation) -> Answer {
        current(|host| host.write(operation)).unwrap_or_else(|| needed("writes::send"))
    }

    fn object(answer: Answer) -> Result<String, ApiError> {
        answer.map(Option::unwrap_or_default)
    }

    fn body(object: &str, options: &WriteOptions) -> ObjectWrite {
        ObjectWrite { object: object.to_owned(), options: options.clone() }
    }

    pub(crate) fn create(text: &str, options: &WriteOptions) -> Result<String, ApiError> {
        object(one(&Operation::Create(body(text, options))))
    }

    pub(crate) fn update(text: &str, options: &WriteOptions) -> Result<String, ApiError> {
        object(one(&Operation::Update(body(text, options))))
    }

    pub(crate) fn apply(text: &str, options: &WriteOptions) -> Result<String, ApiError> {
        object(one(&Operation::Apply(body(text, options))))
    }

    pub(crate) fn patch(
        target: &ObjectRef,
        patch_type: PatchType,
        patch: &str,
        options: &WriteOptions,
    ) -> Result<String, ApiError> {
        let (target, patch, options) = (target.clone(), patch.to_owned(), options.clone());
        object(one(&Operation::Patch(PatchWrite { target, patch_type, patch, options })))
    }

    pub(crate) fn delete(target: &ObjectRef, options: &DeleteOptions) -> Answer {
        one(&Operation::Delete(DeleteWrite { target: target.clone(), options: options.clone() }))
    }

    pub(crate) fn delete_collection(
        collection: &Collection,
        options: &DeleteOptions,
    ) -> Result<Option<Vec<ObjectRef>>, ApiError> {
        let deleted = current(|host| host.delete_collection(collection, options));
        deleted.unwrap_or_else(|| needed("writes::delete_collection"))
    }

    pub(crate) fn batch(operations: &[Operation]) -> Vec<Answer> {
        operations.iter().map(one).collect()
    }
}

pub(crate) mod owners {
    use super::{current, needed};
    use crate::bindings::windlass::plugin::owners::Claimed;
    use crate::bindings::windlass::plugin::types::{ApiError, ObjectKind};

    pub(crate) fn claim(kind: &ObjectKind, label_selector: &str) -> Result<Claimed, Vec<ApiError>> {
        current(|host| host.claim(kind, label_selector)).unwrap_or_else(|| needed("owners::claim"))
    }
}

pub(crate) mod events {
    use super::current;
    use crate::bindings::windlass::plugin::types::Event;

    pub(crate) fn emit(event: &Event) {
        let _ = current(|host| host.events.push(event.clone()));
    }
}

pub(crate) mod log {
    use super::current;
    use crate::bindings::windlass::plugin::log::Level;
    use crate::testing::Line;

    pub(crate) fn log(level: Level, message: &str, fields: &[(String, String)]) {
        eprintln!("{level:?} {message} {fields:?}");
        let line = Line { level, message: message.to_owned(), fields: fields.to_vec() };
        let _ = current(|host| host.lines.push(line));
    }
}

pub(crate) mod metrics {
    use super::current;
    use crate::testing::Value;

    fn record(name: &str, value: f64, labels: &[(String, String)]) {
        let value = Value { metric: name.to_owned(), value, labels: labels.to_vec() };
        let _ = current(|host| host.values.push(value));
    }

    pub(crate) fn add(name: &str, value: f64, labels: &[(String, String)]) {
        record(name, value, labels);
    }

    pub(crate) fn set(name: &str, value: f64, labels: &[(String, String)]) {
        record(name, value, labels);
    }

    pub(crate) fn observe(name: &str, value: f64, labels: &[(String, String)]) {
        record(name, value, labels);
    }
}

pub(crate) mod config {
    use super::{current, needed};

    pub(crate) fn get() -> String {
        current(|host| host.config.to_string()).unwrap_or_else(|| needed("config::get"))
    }
}

pub(crate) mod clock {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::current;
    use crate::bindings::windlass::plugin::clock::Instant;

    pub(crate) fn now() -> Instant {
        current(|host| Instant { seconds: host.now.seconds, nanoseconds: host.now.nanoseconds }).unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Instant { seconds: now.as_secs().try_into().unwrap_or(u32::MAX), nanoseconds: now.subsec_nanos() }
        })
    }
}

pub(crate) mod triggers {
    use super::{current, needed};
    use crate::triggers::Trigger;

    pub(crate) fn list() -> Vec<Trigger> {
        current(|host| host.triggers.clone()).unwrap_or_else(|| needed("triggers::list"))
    }
}

pub(crate) mod random {
    use super::{current, needed};

    pub(crate) fn get_u32() -> u32 {
        current(super::super::State::draw).unwrap_or_else(|| needed("random::number"))
    }

    pub(crate) fn get_bytes(length: u32) -> Vec<u8> {
        let bytes = current(|host| (0..length).map(|_| host.draw().to_le_bytes()[0]).collect());
        bytes.unwrap_or_else(|| needed("random::bytes"))
    }
}

pub(crate) mod http {
    use super::{current, needed};
    use crate::bindings::windlass::plugin::http::{HttpError, Request, Response};

    pub(crate) fn fetch(request: &Request) -> Result<Response, HttpError> {
        current(|host| host.fetch(request)).unwrap_or_else(|| needed("http::send"))
    }
}
