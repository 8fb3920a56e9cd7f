//! Converts the types of `live` and of collections between WIT and `windlass-core`. Data from the guest is checked as
//! in `convert`.

use windlass_core::call::ports::{ListedKind, LiveGet, LiveQuery, LogQuery, ServedKind, View};
use windlass_core::object::ObjectKind;
use windlass_core::write::{Collection, DeleteOptions};

use super::bindings::windlass::plugin::{live, types, writes};
use super::convert::{self, Malformed, check_fields, check_limit, object_kind, object_ref, path_segment, short};

pub(crate) fn get(target: types::ObjectRef, subresource: Option<String>, of: live::View) -> Result<LiveGet, Malformed> {
    Ok(LiveGet {
        target: object_ref(target)?,
        subresource: subresource.map(convert::subresource_name).transpose()?,
        view: view(of)?,
    })
}

fn view(view: live::View) -> Result<View, Malformed> {
    Ok(match view {
        live::View::Whole => View::Whole,
        live::View::Metadata => View::Metadata,
        live::View::Fields(fields) => {
            check_fields(Some(&fields))?;
            View::Fields(fields)
        }
    })
}

pub(crate) fn query(query: live::ListQuery) -> Result<LiveQuery, Malformed> {
    check_limit(query.limit)?;
    Ok(LiveQuery {
        kind: object_kind(query.kind.api_version, query.kind.kind)?,
        namespace: query.namespace.map(|namespace| path_segment("namespace", namespace)).transpose()?,
        label_selector: short("label selector", query.label_selector)?,
        field_selector: short("field selector", query.field_selector)?,
        view: view(query.view)?,
        limit: query.limit,
        page_token: short("page token", query.page_token)?,
    })
}

/// `most` is the maximum number of bytes that a guest receives at once.
pub(crate) fn log_query(query: live::LogQuery, most: u32) -> Result<LogQuery, Malformed> {
    let limit_bytes = query.limit_bytes.unwrap_or(most).min(most);
    if limit_bytes == 0 {
        return Err("a read of a log needs a `limit-bytes` of at least 1".to_owned());
    }
    let container = query.container.map(|name| path_segment("container", name)).transpose()?;
    Ok(LogQuery {
        target: object_ref(query.target)?,
        container: container.map(|name| name.to_string()),
        previous: query.previous,
        tail_lines: query.tail_lines,
        // The server does not accept 0 seconds.
        since_seconds: query.since_ms.map(|ms| ms.div_ceil(1000).max(1)),
        limit_bytes,
    })
}

pub(crate) fn served(kind: ServedKind) -> live::ServedKind {
    let ServedKind { resource, namespaced, verbs, subresources } = kind;
    live::ServedKind { resource, namespaced, verbs, subresources }
}

pub(crate) fn listed(kind: ListedKind) -> live::ListedKind {
    let ListedKind { kind, served: how } = kind;
    let kind = types::ObjectKind { api_version: kind.api_version.to_string(), kind: kind.kind.to_string() };
    live::ListedKind { kind, served: served(how) }
}

pub(crate) fn kind(kind: types::ObjectKind) -> Result<ObjectKind, Malformed> {
    object_kind(kind.api_version, kind.kind)
}

pub(crate) fn collection(
    collection: writes::Collection,
    options: writes::DeleteOptions,
) -> Result<(Collection, DeleteOptions), Malformed> {
    let namespace = collection.namespace.map(|namespace| path_segment("namespace", namespace)).transpose()?;
    let collection = Collection {
        kind: kind(collection.kind)?,
        namespace,
        label_selector: short("label selector", collection.label_selector)?,
        field_selector: short("field selector", collection.field_selector)?,
        all: collection.all,
    };
    Ok((collection, convert::delete_options(options)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(since_ms: Option<u32>, limit_bytes: Option<u32>) -> Result<LogQuery, Malformed> {
        let target = convert::reference(&windlass_core::object::ObjectRef {
            kind: ObjectKind::new("v1", "Pod"),
            key: windlass_core::object::ObjectKey::namespaced("prod", "p"),
            uid: None,
        });
        let query =
            live::LogQuery { target, container: None, previous: false, tail_lines: None, since_ms, limit_bytes };
        log_query(query, 100)
    }

    #[test]
    fn a_log_is_cut_to_the_guests_limit_and_its_age_is_in_whole_seconds() {
        assert_eq!(log(None, None).map(|query| (query.limit_bytes, query.since_seconds)), Ok((100, None)));
        assert_eq!(
            log(Some(1001), Some(101)).map(|query| (query.limit_bytes, query.since_seconds)),
            Ok((100, Some(2)))
        );
        assert_eq!(log(Some(0), Some(7)).map(|query| (query.limit_bytes, query.since_seconds)), Ok((7, Some(1))));
        assert!(log(None, Some(0)).is_err());
    }
}
