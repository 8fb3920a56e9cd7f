//! The questions of one request to webhooks, and the answers so far. Pure data.
//!
//! Requests are served under the server's lock, where nothing may wait. So when a request gets to a question without an
//! answer, it leaves the question in its [`Consultation`] and gives up, having changed nothing. `server/consulted` asks
//! without the lock, and has the request served again with the answer.

mod client;
pub(crate) mod reviews;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

pub(crate) use client::{Endpoint, WebhookClient};

/// Identifies a question. It contains everything that may change the answer, so that a webhook is asked again if its
/// configuration or the object has changed meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QuestionKey {
    /// Identifies the webhook, including the version of its configuration.
    pub(crate) webhook: String,
    /// 1 for the second call.
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

    /// Whether webhooks can be asked.
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

    /// Leaves questions to be asked before the request can be served. The caller must give up.
    pub(crate) fn leave(&self, questions: Vec<Question>) {
        if let Some(hearing) = &self.0 {
            // The first questions end the attempt, so there are no second ones.
            let _ = hearing.outstanding.set(questions);
        }
    }
}
