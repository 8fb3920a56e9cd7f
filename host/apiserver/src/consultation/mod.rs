//! The questions of one request to webhooks, and the answers so far. Pure data.
//!
//! A request is served under the server's lock, where nothing waits. So when it comes to a question without an answer,
//! it leaves the question in its [`Consultation`] and gives up, having changed nothing. `server/consulted` asks without
//! the lock and has the request served again, with the answer.

mod client;
pub(crate) mod reviews;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

pub(crate) use client::{Endpoint, WebhookClient};

/// Identifies a question: two with the same key are the same one. What changes an answer is in it, so that a webhook is
/// asked anew if its configuration or the object changed in the meantime.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QuestionKey {
    /// Names the webhook in the version of its configuration.
    pub(crate) webhook: String,
    /// 1 if it is asked for the second time.
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
    /// Of the review, to which the answer must refer.
    pub(crate) uid: String,
    /// The review.
    pub(crate) body: String,
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub(crate) struct WebhookReply {
    /// Of the review that was sent.
    pub(crate) uid: String,
    /// The body of the answer, or why there is none.
    pub(crate) body: Result<Bytes, String>,
}

pub(crate) type WebhookReplies = BTreeMap<QuestionKey, WebhookReply>;

/// The consultation of webhooks for one request. Requests of the server's own components have none. Cloning is cheap,
/// and all clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consultation(Option<Arc<Hearing>>);

#[derive(Debug)]
struct Hearing {
    /// The `UserInfo` of whose request it is.
    user: Value,
    replies: WebhookReplies,
    outstanding: OnceLock<Vec<Question>>,
}

impl Consultation {
    /// That of a client's request, as far as these replies lead.
    pub(crate) fn of_client(user: Value, replies: WebhookReplies) -> Consultation {
        Consultation(Some(Arc::new(Hearing { user, replies, outstanding: OnceLock::new() })))
    }

    /// Whether anybody can be asked.
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

    /// Leaves questions to be asked before the request can be served. The caller gives up.
    pub(crate) fn leave(&self, questions: Vec<Question>) {
        if let Some(hearing) = &self.0 {
            // The first that is left ends the attempt, so there is no second.
            let _ = hearing.outstanding.set(questions);
        }
    }
}
