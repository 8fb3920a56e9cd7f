//! The grant that a list from a cache needs.

use std::sync::Arc;

use windlass_core::call::ports::{CallContext, ListQuery};
use windlass_core::error::ApiError;

use super::{Reader, whole_namespace};
use crate::client::api_error::RequestSubject;
use crate::discovery::Resource;

impl Reader {
    /// Refuses a list unless a rule allows the whole collection, or the whole namespace that is requested or watched.
    pub(super) fn check_list_grant(
        &self,
        call: &CallContext,
        subject: &RequestSubject,
        resource: &Resource,
        query: &ListQuery,
    ) -> Result<(), ApiError> {
        let Some(namespace) = &query.namespace else {
            let watched = self.watches.iter().filter(|watch| watch.spec.kind == query.kind);
            let namespaces: Vec<_> = watched.map(|watch| watch.spec.namespace.clone()).collect();
            return namespaces.into_iter().try_for_each(|namespace| {
                let collection = namespace.map(whole_namespace);
                subject.check_grant(&call.principal, &resource.access(subject.verb, "", collection.as_ref()))
            });
        };
        let collection = whole_namespace(Arc::clone(namespace));
        subject.check_grant(&call.principal, &resource.access(subject.verb, "", Some(&collection)))
    }
}
