//! Calls webhooks: HTTPS to loopback addresses only, as this server is for tests. Needs the cargo feature `tls`;
//! without it a call fails with an error that says so. `server` calls this without the lock.

mod address;
#[cfg(feature = "tls")]
mod transport;
#[cfg(feature = "tls")]
mod trust;

use std::time::Duration;

use axum::body::Bytes;
use http::{Method, StatusCode};

use crate::consultation::WebhookClient;
use crate::storage::state::Shared;
use address::{WebhookAddress, WebhookPlace};

/// `defaultCheckRedirect` in Go's `net/http/client.go`.
const REDIRECTS_MAX: usize = 10;

/// Posts a review to a webhook; returns the body of its response. Errors have a real server's text.
pub(crate) async fn call(
    shared: &Shared,
    client: &WebhookClient,
    timeout: Duration,
    body: String,
) -> Result<Bytes, String> {
    let mut address = WebhookAddress::of(&client.endpoint, format!("timeout={}s", timeout.as_secs()));
    let answered = tokio::time::timeout(timeout, follow(shared, &mut address, &client.authority, body)).await;
    match answered {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(PostError::Lost(why))) => Err(format!("Post {:?}: {why}", address.url())),
        Ok(Err(PostError::Redirected(location))) => {
            Err(format!("Post {location:?}: stopped after {REDIRECTS_MAX} redirects"))
        }
        #[cfg(feature = "tls")]
        Ok(Err(PostError::Refused(why))) => Err(why),
        Err(_) => Err(format!("Post {:?}: context deadline exceeded", address.url())),
    }
}

/// Posts, and follows redirects: `Client.do` and `redirectBehavior` in Go's `net/http/client.go`. `address` becomes the
/// last address tried.
async fn follow(
    shared: &Shared,
    address: &mut WebhookAddress,
    authority: &[u8],
    mut body: String,
) -> Result<Bytes, PostError> {
    let mut method = Method::POST;
    let mut redirects = 0;
    loop {
        let place = address.resolve(shared).map_err(PostError::Lost)?;
        let answer = send(&place, &method, &address.path_and_query(), authority, body.clone()).await?;
        let Some(location) = answer.location.clone() else { return answer.read() };
        match answer.code {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {}
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
                method = Method::GET;
                body.clear();
            }
            _ => return answer.read(),
        }
        redirects += 1;
        if redirects == REDIRECTS_MAX {
            return Err(PostError::Redirected(location));
        }
        *address = address.redirected(&location).ok_or_else(|| {
            PostError::Lost(format!("the embedded API server follows HTTPS only, and not {location:?}"))
        })?;
    }
}

#[cfg(feature = "tls")]
async fn send(
    place: &WebhookPlace,
    method: &Method,
    path: &str,
    authority: &[u8],
    body: String,
) -> Result<HttpAnswer, PostError> {
    transport::send(place, method, path, authority, body).await
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unused_async, reason = "with the feature `tls` it waits")]
async fn send(_: &WebhookPlace, _: &Method, _: &str, _: &[u8], _: String) -> Result<HttpAnswer, PostError> {
    Err(PostError::Lost("this server is built without the cargo feature `tls`, which webhooks need".to_owned()))
}

/// The response to one request.
struct HttpAnswer {
    code: StatusCode,
    /// The header `Location`.
    location: Option<String>,
    body: Bytes,
}

impl HttpAnswer {
    /// The body of a successful response; any other response is an error with client-go's text.
    #[cfg(feature = "tls")]
    fn read(self) -> Result<Bytes, PostError> {
        if self.code.is_success() { Ok(self.body) } else { Err(PostError::Refused(refusal(self.code, &self.body))) }
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unnecessary_wraps, reason = "with the feature `tls` it may fail")]
    fn read(self) -> Result<Bytes, PostError> {
        Ok(self.body)
    }
}

/// The reason why a request got no readable response.
enum PostError {
    /// No response arrived.
    Lost(String),
    /// Too many redirects, the last to this `Location`, which Go names as the URL.
    Redirected(String),
    /// The response is an error.
    #[cfg(feature = "tls")]
    Refused(String),
}

/// An error response, in client-go's words.
#[cfg(feature = "tls")]
fn refusal(code: StatusCode, body: &[u8]) -> String {
    let status: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    if let (Some("Status"), Some(message)) = (status["kind"].as_str(), status["message"].as_str()) {
        return message.to_owned();
    }
    match code.as_u16() {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        code if code >= 500 => {
            let shown = String::from_utf8_lossy(body);
            format!("an error on the server ({:?}) has prevented the request from succeeding", shown.trim())
        }
        code => format!("the server responded with the status code {code} but did not return more information"),
    }
}
