//! The questions that a call sends to the API server and to other servers, as values. Each [`Ask`] has an [`Answer`] of
//! the same name.
//!
//! The table below lists all asks. The layers between a call and the world (metrics, spans, recordings, shadows) handle
//! these values generically, so a new line in the table needs no new code in the layers.

use std::slice;

use crate::call::http::{HttpBody, HttpError, HttpReason, HttpRequest, HttpResponse};
use crate::call::ports::{
    Claimed, Deleted, ListPage, ListedKind, LiveGet, LiveQuery, LogQuery, ServedKind, View, Written,
};
use crate::error::{ApiError, ApiReason};
use crate::object::{ObjectKey, ObjectKind, ObjectRef};
use crate::write::{Collection, DeleteOptions, Operation, Propagation};

/// The question how the API server serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedQuery {
    pub kind: ObjectKind,
}

/// The question which kinds the API server serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindsQuery;

/// A deletion of many objects with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionDeletion {
    pub collection: Collection,
    pub options: DeleteOptions,
}

/// A claim of objects for the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerClaim {
    pub kind: ObjectKind,
    /// In Kubernetes' syntax. Matching objects in the primary's namespace belong to the primary.
    pub label_selector: String,
}

/// A question whose answer has a type of its own. [`ask`](super::ask()) sends it to a port.
pub trait TypedAsk: Into<Ask> {
    /// The type of its answer.
    type Answer;

    /// Unwraps the answer.
    ///
    /// # Panics
    ///
    /// If the port answered another question. Tests send [`Ask::one_of_each`] to every port to exclude that.
    fn answer(answer: Answer) -> Self::Answer;
}

/// Generates the enums and the [`TypedAsk`] of each line, `Name(question as stored) -> answer`. Large questions are
/// boxed, so that an `Ask` stays small while it moves through the layers.
macro_rules! asks {
    ($($(#[$doc:meta])+ $name:ident($question:ty as $held:ty) -> $answer:ty;)+) => {
        /// One question of a call to the API server or to another server.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Ask {
            $($(#[$doc])+ $name($held),)+
        }

        /// The answer to the [`Ask`] of the same name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Answer {
            $(#[doc = concat!("Answers [`Ask::", stringify!($name), "`].")] $name($answer),)+
        }

        impl Ask {
            /// The names of all asks, as [`Ask::name`] returns them.
            pub const NAMES: &[&str] = &[$(stringify!($name),)+];

            /// The name of the ask. Its answer has the same name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => stringify!($name),)+ }
            }
        }

        impl Answer {
            /// The name of the ask that this answer belongs to.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => stringify!($name),)+ }
            }
        }

        $(
            impl From<$question> for Ask {
                fn from(question: $question) -> Self {
                    Self::$name(<$held>::from(question))
                }
            }

            impl TypedAsk for $question {
                type Answer = $answer;

                fn answer(answer: Answer) -> $answer {
                    match answer {
                        Answer::$name(answer) => answer,
                        other => panic!("a port answered {} with {}", stringify!($name), other.name()),
                    }
                }
            }
        )+
    };
}

asks! {
    /// Reads one object or a subresource from the API server. `None` if it does not exist.
    Get(LiveGet as LiveGet) -> Written;
    /// Reads a page of a list from the API server.
    List(LiveQuery as Box<LiveQuery>) -> Result<ListPage, ApiError>;
    /// Reads the log of a Pod's container, up to the requested number of bytes.
    Log(LogQuery as LogQuery) -> Result<String, ApiError>;
    /// Asks how the API server serves a kind. `None` if the server does not serve the kind.
    Served(ServedQuery as ServedQuery) -> Result<Option<ServedKind>, ApiError>;
    /// Asks which kinds the API server serves. Each kind is listed once. The list is ordered by group and kind.
    Kinds(KindsQuery as KindsQuery) -> Result<Vec<ListedKind>, ApiError>;
    /// Sends a mutation (invariant 6) and returns the new object. `None` only if a delete left nothing.
    Write(Operation as Box<Operation>) -> Written;
    /// Sends mutations concurrently, few at first and more while they succeed. The answers are in the order of the
    /// operations.
    Batch(Vec<Operation> as Vec<Operation>) -> Vec<Written>;
    /// Deletes many objects with one request and returns them, or `None` if the server does not name them.
    DeleteCollection(CollectionDeletion as Box<CollectionDeletion>) -> Deleted;
    /// Makes the primary the controller of all orphans that a selector matches, and releases the primary's objects that
    /// no longer match. Attempts every change and returns every error.
    Claim(OwnerClaim as OwnerClaim) -> Result<Claimed, Vec<ApiError>>;
    /// Sends an HTTP request to a granted host and reads the whole response.
    Fetch(HttpRequest as Box<HttpRequest>) -> Result<HttpResponse, HttpError>;
}

impl Ask {
    /// The guest import that sends this ask. Used in span names and recordings.
    #[must_use]
    pub fn import(&self) -> &'static str {
        match self {
            Self::Get(_) => "live.get",
            Self::List(_) => "live.list",
            Self::Log(_) => "live.log",
            Self::Served(_) => "live.served",
            Self::Kinds(_) => "live.kinds",
            Self::Write(operation) => operation.import(),
            Self::Batch(_) => "writes.batch",
            Self::DeleteCollection(_) => "writes.delete-collection",
            Self::Claim(_) => "owners.claim",
            Self::Fetch(_) => "http.fetch",
        }
    }

    /// Whether the ask only reads from the API server.
    #[must_use]
    pub fn is_read(&self) -> bool {
        match self {
            Self::Get(_) | Self::List(_) | Self::Log(_) | Self::Served(_) | Self::Kinds(_) => true,
            Self::Write(_) | Self::Batch(_) | Self::DeleteCollection(_) | Self::Claim(_) | Self::Fetch(_) => false,
        }
    }

    /// The mutations in the ask: one for a write, all for a batch, none for anything else. [`Answer::written`] has
    /// their answers.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        match self {
            Self::Write(operation) => slice::from_ref(operation),
            Self::Batch(operations) => operations,
            _ => &[],
        }
    }

    /// The total size of the bodies in the ask, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Fetch(request) => request.body.as_ref().map_or(0, HttpBody::size),
            _ => self.operations().iter().map(Operation::body_bytes).sum(),
        }
    }

    /// The answer of a host that refuses the ask. Each part of a batch gets the same error.
    #[must_use]
    pub fn refused(&self, reason: ApiReason, message: &str) -> Answer {
        let error = |verb, object: Option<&ObjectRef>| ApiError::refused(reason, verb, "", object.cloned(), message);
        match self {
            Self::Get(asked) => Answer::Get(Err(error("get", Some(&asked.target)))),
            Self::List(_) => Answer::List(Err(error("list", None))),
            Self::Log(query) => Answer::Log(Err(error("get", Some(&query.target)))),
            Self::Served(_) => Answer::Served(Err(error("served", None))),
            Self::Kinds(_) => Answer::Kinds(Err(error("kinds", None))),
            Self::Write(operation) => Answer::Write(Err(error(operation.verb(), None))),
            Self::Batch(all) => Answer::Batch(all.iter().map(|operation| Err(error(operation.verb(), None))).collect()),
            Self::DeleteCollection(_) => Answer::DeleteCollection(Err(error("deletecollection", None))),
            Self::Claim(_) => Answer::Claim(Err(vec![error("claim", None)])),
            Self::Fetch(_) => Answer::Fetch(Err(HttpError { reason: HttpReason::Other, message: message.to_owned() })),
        }
    }

    /// An example of each ask, for tests that a port answers every ask with its own kind of answer.
    #[must_use]
    pub fn one_of_each() -> Vec<Self> {
        let kind = ObjectKind::new("v1", "ConfigMap");
        let target = ObjectRef { kind: kind.clone(), key: ObjectKey::namespaced("prod", "a"), uid: None };
        let options = DeleteOptions {
            resource_version: None,
            propagation: Propagation::Background,
            grace_period_seconds: None,
            dry_run: false,
        };
        let delete = Operation::Delete { target: target.clone(), options: options.clone() };
        let log = LogQuery {
            target: target.clone(),
            container: None,
            previous: false,
            tail_lines: None,
            since_seconds: None,
            limit_bytes: 1,
        };
        let list = LiveQuery {
            kind: kind.clone(),
            namespace: None,
            label_selector: None,
            field_selector: None,
            view: View::Whole,
            limit: 1,
            page_token: None,
        };
        let (namespace, label_selector) = (None, Some("app=a".to_owned()));
        let collection = Collection { kind: kind.clone(), namespace, label_selector, field_selector: None, all: false };
        let (method, url) = ("GET".to_owned(), "https://a.example".to_owned());
        vec![
            LiveGet::whole(target).into(),
            list.into(),
            log.into(),
            ServedQuery { kind: kind.clone() }.into(),
            KindsQuery.into(),
            delete.clone().into(),
            vec![delete].into(),
            CollectionDeletion { collection, options }.into(),
            OwnerClaim { kind, label_selector: "app=a".to_owned() }.into(),
            HttpRequest { method, url, headers: vec![], body: None, timeout: None }.into(),
        ]
    }
}

impl Answer {
    /// The result of each of [`Ask::operations`].
    pub fn written(&self) -> &[Written] {
        match self {
            Self::Write(written) => slice::from_ref(written),
            Self::Batch(written) => written,
            _ => &[],
        }
    }

    /// The first API error in the answer.
    #[must_use]
    pub fn error(&self) -> Option<&ApiError> {
        match self {
            Self::Get(found) => found.as_ref().err(),
            Self::List(page) => page.as_ref().err(),
            Self::Log(text) => text.as_ref().err(),
            Self::Served(kind) => kind.as_ref().err(),
            Self::Kinds(kinds) => kinds.as_ref().err(),
            Self::Write(_) | Self::Batch(_) => self.written().iter().find_map(|written| written.as_ref().err()),
            Self::DeleteCollection(deleted) => deleted.as_ref().err(),
            Self::Claim(claimed) => claimed.as_ref().err()?.first(),
            Self::Fetch(_) => None,
        }
    }

    /// Roughly how many bytes of text the guest receives. Errors count as zero.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let object = |object: &Written| object.as_ref().map_or(0, |text| text.as_ref().map_or(0, |text| text.len()));
        let names = |objects: &[ObjectRef]| objects.iter().map(ObjectRef::text_bytes).sum::<usize>();
        match self {
            Self::Get(found) => object(found),
            Self::List(page) => page.as_ref().map_or(0, |page| page.items.iter().map(|item| item.len()).sum()),
            Self::Log(text) => text.as_ref().map_or(0, String::len),
            Self::Served(_) => 0,
            Self::Kinds(kinds) => kinds.as_ref().map_or(0, |kinds| kinds.iter().map(ListedKind::text_bytes).sum()),
            Self::Write(_) | Self::Batch(_) => self.written().iter().map(object).sum(),
            Self::DeleteCollection(deleted) => {
                deleted.as_ref().map_or(0, |deleted| names(deleted.as_deref().unwrap_or_default()))
            }
            Self::Claim(claimed) => {
                claimed.as_ref().map_or(0, |claimed| names(&claimed.adopted) + names(&claimed.released))
            }
            Self::Fetch(response) => response.as_ref().map_or(0, HttpResponse::size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_cover_every_ask() {
        let names: Vec<_> = Ask::one_of_each().iter().map(Ask::name).collect();
        assert_eq!(names, Ask::NAMES);
    }

    #[test]
    fn a_refusal_is_an_answer_to_its_ask_and_has_the_error() {
        for ask in Ask::one_of_each() {
            let answer = ask.refused(ApiReason::ReadOnly, "no");
            assert_eq!((answer.name(), answer.bytes()), (ask.name(), 0));
            let is_fetch = matches!(ask, Ask::Fetch(_));
            assert_eq!(answer.error().map(|error| error.reason), (!is_fetch).then_some(ApiReason::ReadOnly));
            assert_eq!(answer.written().len(), ask.operations().len());
        }
    }

    #[test]
    fn each_part_of_a_batch_is_counted_separately() {
        let texts = [r#"{"a":1}"#, r#"{"a":22}"#];
        let batch = texts.map(|object| Operation::Create { object: object.to_owned(), options: <_>::default() });
        let batch = Ask::from(batch.to_vec());
        assert_eq!((batch.operations().len(), batch.bytes()), (2, texts.concat().len()));
        let failed = ApiError::refused(ApiReason::Conflict, "create", "", None, "no");
        let answer = Answer::Batch(vec![Ok(Some(texts[0].into())), Err(failed.clone())]);
        assert_eq!((answer.bytes(), answer.error()), (texts[0].len(), Some(&failed)));
    }

    #[test]
    fn asks_stay_small_however_large_a_question_is() {
        assert!(size_of::<Ask>() <= 168, "{}", size_of::<Ask>());
    }
}
