//! Calls of webhooks: HTTPS to loopback addresses, and nowhere else, for this server is for tests. With the cargo feature
//! `tls`; without it a call fails and says so. Called by `server`, without the lock.

mod address;
#[cfg(feature = "tls")]
mod transport;

use std::time::Duration;

use axum::body::Bytes;

use crate::consultation::WebhookClient;
use crate::storage::state::Shared;
use address::{WebhookAddress, WebhookPlace};

/// Posts a review to a webhook; answers the body of its response. The error is in a real server's words.
pub(crate) async fn call(
    shared: &Shared,
    client: &WebhookClient,
    timeout: Duration,
    body: String,
) -> Result<Bytes, String> {
    let address = WebhookAddress::of(&client.endpoint);
    let query = format!("?timeout={}s", timeout.as_secs());
    let lost = |why: String| format!("Post {:?}: {why}", format!("{}{query}", address.url));
    let place = address.resolve(shared).map_err(lost)?;
    let path = format!("{}{query}", address.path);
    match tokio::time::timeout(timeout, post(&place, &path, &client.authority, body)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(PostError::Lost(why))) => Err(lost(why)),
        #[cfg(feature = "tls")]
        Ok(Err(PostError::Refused(why))) => Err(why),
        Err(_) => Err(lost("context deadline exceeded".to_owned())),
    }
}

#[cfg(feature = "tls")]
async fn post(place: &WebhookPlace, path: &str, authority: &[u8], body: String) -> Result<Bytes, PostError> {
    transport::post(place, path, authority, body).await
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unused_async, reason = "with the feature `tls` it waits")]
async fn post(_: &WebhookPlace, _: &str, _: &[u8], _: String) -> Result<Bytes, PostError> {
    Err(PostError::Lost("this server is built without the cargo feature `tls`, which webhooks need".to_owned()))
}

/// Why a request got no answer that can be read.
enum PostError {
    /// There is none.
    Lost(String),
    /// It is an error.
    #[cfg(feature = "tls")]
    Refused(String),
}
