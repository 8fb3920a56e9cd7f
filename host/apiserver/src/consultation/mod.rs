//! The questions of one request to webhooks, and the answers so far.
//!
//! Requests are served under the server's lock, which must not be held while waiting. If a request needs an answer that
//! it does not have yet, it leaves the question in its [`Consultation`] and gives up without having changed anything.
//! `server/consulted` then asks without the lock, and serves the request again with the answer.

mod client;
pub(crate) mod reviews;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

pub(crate) use client::{Endpoint, WebhookClient};

/// Identifies a question. It has everything on which the answer may depend, so that a webhook is asked again if its
/// configuration or the object has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QuestionKey {
    /// Identifies the webhook, including the version of its configuration.
    pub(crate) webhook: String,
    /// 0 for the webhook's first call, 1 for its second.
    pub(crate) round: u8,
    /// Namespace and name.
    pub(crate) object: String,
    /// The version of the stored object.
    pub(crate) version: String,
}

/// A question to one webhook.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) key: QuestionKey,
    pub(crate) client: WebhookClient,
    pub(crate) timeout: Duration,
    /// The UID of the review, to which the answer must refer.
    pub(crate) uid: String,
    /// The review.
    pub(crate) body: String,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub(crate) struct WebhookReply {
    /// The UID of the review that was sent.
    pub(crate) uid: String,
    /// The body of the answer, or why there is none.
    pub(crate) body: Result<Bytes, String>,
}

pub(crate) type WebhookReplies = BTreeMap<QuestionKey, WebhookReply>;

/// The consultation of webhooks for one request. Requests of the server's own components have none. Cloning is cheap;
/// clones share the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consultation(Option<Arc<Hearing>>);

#[derive(Debug)]
struct Hearing {
    /// The `UserInfo` of the request's user.
    user: Value,
    replies: WebhookReplies,
    outstanding: OnceLock<Vec<Question>>,
}

impl Consultation {
    /// The consultation for a client's request, with the replies so far.
    pub(crate) fn of_client(user: Value, replies: WebhookReplies) -> Consultation {
        Consultation(Some(Arc::new(Hearing { user, replies, outstanding: OnceLock::new() })))
    }

    /// Whether webhooks are asked about this request.
    pub(crate) fn applies(&self) -> bool {
        self.0.is_some()
    }

    /// The questions for which the request was given up.
    pub(crate) fn outstanding(&self) -> Option<&[Question]> {
        self.0.as_ref()?.outstanding.get().map(Vec::as_slice)
    }

    pub(crate) fn user(&self) -> Value {
        self.0.as_ref().map_or(Value::Null, |hearing| hearing.user.clone())
    }

    pub(crate) fn reply(&self, key: &QuestionKey) -> Option<&WebhookReply> {
        self.0.as_ref()?.replies.get(key)
    }

    /// Leaves questions that must be answered before the request can be served. The caller must then give up.
    pub(crate) fn leave(&self, questions: Vec<Question>) {
        if let Some(hearing) = &self.0 {
            // This cannot fail, because the attempt ends with its first questions.
            let _ = hearing.outstanding.set(questions);
        }
    }
}
