//! Serves requests that may call webhooks, and never calls them under the lock.
//!
//! An attempt that needs a webhook's answer is abandoned and changes nothing. The webhook is called, and then the
//! request is served again from the start, with the answer and with the same UID and name. If the object or a
//! configuration has changed in the meantime, the webhook is called again, as a real server does after an update
//! conflict.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::Context;
use crate::authz::User;
use crate::clock::Chance;
use crate::consultation::{Consultation, Question, WebhookReplies, WebhookReply};
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;
use crate::storage::state::State;
use crate::webhooks;

/// The time limit for a request that must be served again and again because of other writes. The same as a real
/// server's `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Serves a client's request to `resource`. Repeats `attempt` until it needs no further answers of webhooks.
pub(super) async fn consulted<T>(
    context: &Context,
    resource: &ResourceType,
    user: &User,
    mut attempt: impl FnMut(&mut State, Consultation) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let mut replies = WebhookReplies::new();
    let mut chance: Option<Chance> = None;
    let begun = Instant::now();
    loop {
        let (consultation, outcome) = {
            let mut state = context.shared.lock();
            if state.plugins.is_empty() && resource.converter().is_none() {
                return attempt(&mut state, Consultation::default());
            }
            let chance = chance.get_or_insert_with(|| state.chance.fork());
            let consultation = Consultation::of_client(user.info(), replies.clone());
            let outcome = repeatable(&mut state, chance, &consultation, &mut attempt);
            (consultation, outcome)
        };
        let Some(questions) = consultation.outstanding() else { return outcome };
        let heard = join_all(questions.iter().map(|question| ask(context, question))).await;
        if begun.elapsed() >= REQUEST_TIMEOUT {
            return Err(ApiError::timeout(
                "request did not complete within requested timeout - context deadline exceeded",
            ));
        }
        replies.extend(questions.iter().map(|question| question.key.clone()).zip(heard));
    }
}

async fn ask(context: &Context, question: &Question) -> WebhookReply {
    let call = webhooks::call(&context.shared, &question.client, question.timeout, question.body.clone());
    WebhookReply { uid: question.uid.clone(), body: call.await }
}

/// Runs one attempt. It draws the same random values as the other attempts of the request. If it is abandoned, it
/// leaves no trace.
fn repeatable<T>(
    state: &mut State,
    chance: &Chance,
    consultation: &Consultation,
    attempt: &mut impl FnMut(&mut State, Consultation) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let common = std::mem::replace(&mut state.chance, chance.clone());
    let position = state.addresses.position();
    let outcome = attempt(state, consultation.clone());
    state.chance = common;
    if consultation.outstanding().is_some() {
        state.addresses.rewind(position);
    }
    outcome
}
