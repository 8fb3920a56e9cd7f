//! HTTP requests with the crate `wstd`.

use wstd::future::FutureExt as _;
use wstd::http::{Body, Client, Method, Request};
use wstd::runtime::spawn;
use wstd::time::Duration;

pub(crate) async fn requests(url: String) -> [(&'static str, String); 6] {
    let both = spawn(fetched(Method::GET, format!("{url}/both"), ""));
    let both = [fetched(Method::GET, format!("{url}/both"), "").await, both.await];
    let never = fetched(Method::GET, format!("{url}/never"), "").timeout(Duration::from_millis(100));
    [
        ("get", fetched(Method::GET, format!("{url}/get"), "").await),
        ("post", fetched(Method::POST, format!("{url}/post"), "a body").await),
        ("both", both.join(", ")),
        ("moved", fetched(Method::GET, format!("{url}/moved"), "").await),
        ("late", never.await.unwrap_or_else(|error| error.to_string())),
        ("denied", fetched(Method::GET, "http://not-granted.test/".to_owned(), "").await),
    ]
}

/// The response of a server, or the error.
async fn fetched(method: Method, url: String, body: &'static str) -> String {
    fetch(method, url, body).await.unwrap_or_else(|error| format!("{error:?}"))
}

async fn fetch(method: Method, url: String, body: &'static str) -> wstd::http::Result<String> {
    let request = Request::builder().method(method).uri(url).header("x-toolchain", "rust").body(Body::from(body))?;
    let mut response = Client::new().send(request).await?;
    let (status, kind) = (response.status().as_u16(), response.headers()["x-answer"].to_str()?.to_owned());
    Ok(format!("{status} {kind} {}", response.body_mut().str_contents().await?))
}
