//! Reads for a plugin from the API server itself. These are quorum reads; each is a request and is limited by a budget.
//!
//! The server's answers include the call's own writes, so no overlay is needed. `view` selects the returned parts of an
//! object, and `log` reads the logs of Pods.

mod log;
mod view;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use tokio::time::Instant;
use windlass_core::call::ports::{
    Answer, Ask, CallContext, KindsQuery, ListPage, ListedKind, LiveGet, LiveQuery, Port, ServedKind, View, Written,
};
use windlass_core::clock::Moment;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::selector::{FieldSelector, FieldSelectorError, Selector, SelectorError};
use windlass_core::object::{ObjectKey, ObjectKind};
use windlass_core::queue::TokenBucket;

use crate::client::api_error::RequestSubject;
use crate::client::headers;
use crate::client::request::{self, MUTATION_ANSWER_BYTES_MAX, Query, READ_TIMEOUT, RequestError};
use crate::discovery::{Discovery, DiscoveryError, Resource};
use crate::informer::listing;
use crate::informer::parse::{ObjectParser, ParseError};
use crate::offload::Offload;
use crate::reader::live::view::Cut;
use crate::target::{ResolvedTarget, Resolver, judged};

/// The maximum number of objects per page. The server is asked for at most as many, whatever the plugin requests.
const LIVE_PAGE_OBJECTS_MAX: u32 = 500;
/// The maximum size of a list's answer, including `managedFields`, which guests do not receive.
const LIVE_PAGE_BYTES_MAX: usize = 16 << 20;

/// The rate limit for live reads of one plugin, over all its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBudget {
    pub per_second: u32,
    pub burst: u32,
}

impl Default for LiveBudget {
    fn default() -> Self {
        Self { per_second: 20, burst: 100 }
    }
}

/// The live reads of one plugin. Clones share its budget.
#[derive(Clone)]
pub struct LiveReader(Arc<LiveReaderInner>);

struct LiveReaderInner {
    client: Client,
    discovery: Discovery,
    budget: LiveBudget,
    bucket: Mutex<TokenBucket>,
    /// The start of the clock for the bucket.
    origin: Instant,
    offload: Offload,
}

impl LiveReader {
    /// The live reads of a new plugin.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery, budget: LiveBudget) -> Self {
        Self::reading(client, discovery, budget, Offload::new())
    }

    /// The live reads of another plugin, with its own budget.
    #[must_use]
    pub fn for_another(&self) -> Self {
        Self::reading(self.0.client.clone(), self.0.discovery.clone(), self.0.budget, self.0.offload.of_another())
    }

    fn reading(client: Client, discovery: Discovery, budget: LiveBudget, offload: Offload) -> Self {
        let bucket = Mutex::new(TokenBucket::new(budget.per_second, budget.burst));
        Self(Arc::new(LiveReaderInner { client, discovery, budget, bucket, origin: Instant::now(), offload }))
    }
}

impl Port for LiveReader {
    fn ask(&self, call: Arc<CallContext>, ask: Ask) -> BoxFuture<'static, Answer> {
        let shared = Arc::clone(&self.0);
        async move {
            match ask {
                Ask::Get(asked) => Answer::Get(shared.get(&call, asked).await),
                Ask::List(query) => Answer::List(shared.list(&call, &query).await),
                Ask::Log(query) => Answer::Log(shared.log(&call, query).await),
                Ask::Served(query) => Answer::Served(shared.served(&query.kind).await),
                Ask::Kinds(KindsQuery) => Answer::Kinds(shared.kinds().await),
                other => other.refused(ApiReason::ServerError, "this port only reads from the API server"),
            }
        }
        .boxed()
    }
}

impl LiveReaderInner {
    async fn get(&self, call: &CallContext, asked: LiveGet) -> Written {
        let LiveGet { target, subresource, view } = asked;
        let mut subject = RequestSubject { verb: "get", resource: String::new(), object: Some(target.clone()) };
        let (cut, subresource) = (cut(&subject, &view)?, subresource.unwrap_or_default());
        view::check_subresource(&subject, &subresource)?;
        self.pay(&subject)?;
        let uid = target.uid.clone();
        let resolver = Resolver { discovery: &self.discovery, call, subject: &mut subject };
        let ResolvedTarget { resource, key } = resolver.object(target, &subresource).await?;
        let accept = if subresource.is_empty() { cut.form_of_object() } else { listing::JSON };
        let uri = resource.object(&key, &subresource);
        let text = match self.ask(call, &subject, &uri, accept, MUTATION_ANSWER_BYTES_MAX).await? {
            Ok(text) => text,
            Err(error) => {
                let error = self.failed(&subject, &resource, &subresource, &error).await;
                return if error.is_object_missing() { Ok(None) } else { Err(error) };
            }
        };
        let kind = resource.kind.clone();
        let read = move |text: &str| {
            let is_itself = subresource.is_empty();
            if is_itself { cut.object(text, &kind, uid.as_deref()) } else { cut.part(text, &kind, uid.as_deref()) }
        };
        self.offload.read(text, read).await.map_err(|error| malformed(&subject, &error))
    }

    async fn list(&self, call: &CallContext, query: &LiveQuery) -> Result<ListPage, ApiError> {
        let mut subject = RequestSubject { verb: "list", resource: String::new(), object: None };
        let (name, cut) = (check(&subject, query)?, cut(&subject, &query.view)?);
        self.pay(&subject)?;
        let resolver = Resolver { discovery: &self.discovery, call, subject: &mut subject };
        let resource = resolver.collection(&query.kind, query.namespace.as_ref(), name.as_deref()).await?;
        let mut parameters = Query::default();
        parameters.add_some("labelSelector", query.label_selector.as_deref());
        parameters.add_some("fieldSelector", query.field_selector.as_deref());
        parameters.add("limit", &query.limit.min(LIVE_PAGE_OBJECTS_MAX).to_string());
        parameters.add_some("continue", query.page_token.as_deref());
        // No version is requested, so the server answers with its newest state.
        let uri = parameters.onto(&resource.collection(query.namespace.as_deref()));
        match self.ask(call, &subject, &uri, cut.form_of_list(), LIVE_PAGE_BYTES_MAX).await? {
            Ok(text) => {
                let grants = call.principal.grants();
                let parser = cut.parser(&resource.kind).map_err(|error| malformed(&subject, &error))?;
                let read = move |text: &str| page(text, parser, &cut, |key| !grants.hides(key));
                self.offload.read(text, read).await.map_err(|error| malformed(&subject, &error))
            }
            Err(RequestError::TooLarge { most }) => {
                let message =
                    format!("a page of {} has more than {most} bytes: ask for fewer objects", resource.plural);
                Err(subject.refuse(ApiReason::TooLarge, message))
            }
            Err(error) => Err(self.failed(&subject, &resource, "", &error).await),
        }
    }

    /// Needs no grant, because every user of a cluster may ask which kinds it serves. A plugin that invents kinds uses
    /// up its budget.
    async fn served(&self, kind: &ObjectKind) -> Result<Option<ServedKind>, ApiError> {
        let subject = RequestSubject { verb: "served", resource: String::new(), object: None };
        self.pay(&subject)?;
        match self.discovery.resolve(kind).await {
            Ok(resource) => Ok(Some(served_kind(&resource))),
            Err(DiscoveryError::NotServed { .. }) => Ok(None),
            Err(error) => Err(subject.unavailable(error.to_string())),
        }
    }

    /// Needs no grant, because every user of a cluster may ask which kinds it serves. All plugins share the requests to
    /// the server.
    async fn kinds(&self) -> Result<Vec<ListedKind>, ApiError> {
        let subject = RequestSubject { verb: "kinds", resource: String::new(), object: None };
        self.pay(&subject)?;
        let kinds = self.discovery.kinds().await.map_err(|error| subject.unavailable(error.to_string()))?;
        let listed =
            |resource: &Arc<Resource>| ListedKind { kind: resource.kind.clone(), served: served_kind(resource) };
        Ok(kinds.iter().map(listed).collect())
    }

    /// Takes one request from the budget.
    fn pay(&self, subject: &RequestSubject) -> Result<(), ApiError> {
        let now = Moment(self.origin.elapsed());
        let taken = self.bucket.lock().unwrap_or_else(PoisonError::into_inner).try_take(now);
        taken.map_err(|wait| {
            let LiveBudget { per_second, burst } = self.budget;
            let message = format!(
                "the plugin reads live more often than it may ({per_second} times a second, {burst} times at once): read \
                 watched objects from the cache, or let the operator raise the limit"
            );
            ApiError { retry_after: Some(wait), ..subject.refuse(ApiReason::TooManyRequests, message) }
        })
    }

    /// Sends a request in the call's name. The outer error is about a request that cannot be built.
    async fn ask(
        &self,
        call: &CallContext,
        subject: &RequestSubject,
        uri: &str,
        accept: &'static str,
        most: usize,
    ) -> Result<Result<String, RequestError>, ApiError> {
        let headers = headers::of_call(call);
        let headers = headers.map_err(|error| subject.refuse(ApiReason::Invalid, error.to_string()))?;
        Ok(request::get_in_form(&self.client, uri, accept, headers, most, READ_TIMEOUT).await)
    }

    async fn failed(
        &self,
        subject: &RequestSubject,
        resource: &Resource,
        subresource: &str,
        error: &RequestError,
    ) -> ApiError {
        judged(subject.read_failed(error), &self.discovery, subject, resource, subresource).await
    }
}

fn served_kind(resource: &Resource) -> ServedKind {
    ServedKind {
        resource: resource.plural.clone(),
        namespaced: resource.namespaced,
        verbs: resource.verbs.clone(),
        subresources: resource.subresources.clone(),
    }
}

/// Checks everything about a query that can be checked without the server. Returns the name of the only object that it
/// can match, if there is one.
fn check(subject: &RequestSubject, query: &LiveQuery) -> Result<Option<String>, ApiError> {
    let invalid = |message: String| subject.refuse(ApiReason::Invalid, message);
    if query.limit == 0 {
        return Err(invalid("a page must hold at least one object: limit is 0".to_owned()));
    }
    let labels = query.label_selector.as_deref().unwrap_or_default().parse::<Selector>();
    labels.map_err(|error: SelectorError| invalid(error.to_string()))?;
    let fields = query.field_selector.as_deref().unwrap_or_default().parse::<FieldSelector>();
    let fields = fields.map_err(|error: FieldSelectorError| invalid(error.to_string()))?;
    Ok(fields.only_name().map(Cow::into_owned))
}

fn page(
    text: &str,
    mut parser: ObjectParser,
    cut: &Cut,
    may_see: impl Fn(&ObjectKey) -> bool,
) -> Result<ListPage, ParseError> {
    let page: listing::Page<'_> = serde_json::from_str(text)?;
    let mut items = Vec::new();
    for item in page.items.unwrap_or_default() {
        let object = parser.object(item.get())?;
        if may_see(&object.header.key) {
            items.push(cut.selected(object.text())?);
        }
    }
    Ok(ListPage { items, next_token: page.metadata.r#continue.filter(|token| !token.is_empty()) })
}

fn cut(subject: &RequestSubject, view: &View) -> Result<Cut, ApiError> {
    Cut::new(view).map_err(|error| subject.refuse(ApiReason::Invalid, error.to_string()))
}

fn malformed(subject: &RequestSubject, error: &ParseError) -> ApiError {
    subject.refuse(ApiReason::ServerError, format!("the answer of the API server is {error}"))
}

#[cfg(test)]
mod tests {
    use windlass_core::rights::grants::{Forbidden, Grants};

    use super::*;

    #[test]
    fn a_page_leaves_out_the_namespace_of_the_host() {
        let text = r#"{"metadata":{"resourceVersion":"1"},"items":[
            {"metadata":{"name":"a","namespace":"prod","uid":"1","resourceVersion":"1"}},
            {"metadata":{"name":"b","namespace":"windlass","uid":"2","resourceVersion":"1"}}]}"#;
        let items = |grants: &Grants| {
            let cut = Cut::new(&View::Whole).expect("no pointers");
            let parser = cut.parser(&ObjectKind::new("v1", "Secret")).expect("a parser");
            page(text, parser, &cut, |key| !grants.hides(key)).expect("a list").items
        };
        let forbidden = Forbidden { host_namespace: Some("windlass".into()), ..Forbidden::default() };
        assert_eq!(items(&Grants::default()).len(), 2);
        let left = items(&Grants::default().without(forbidden));
        assert!(left.len() == 1 && left[0].contains("prod"), "{left:?}");
    }
}
