//! Serves requests that may have to ask webhooks: never under the lock.
//!
//! A request that needs an answer gives up and changes nothing. The webhook is asked, and the request is served from
//! the start, with the answer and with the same UID and name as before. If the object or a configuration changed in the
//! meantime, the question is a new one and is asked anew, as a real server does when its update meets another.

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

/// How long a request may take that others overtake again and again: a real server's `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Serves a client's request to `resource`. `attempt` is tried until no webhook is to be asked any more; where there
/// are none, once.
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

/// One attempt, which draws the same as the others of its request, and leaves nothing if it is given up.
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
