//! Refuses requests from web pages. The server is for programs on this machine, not for pages in a browser on this
//! machine. A request of a page has the header `Origin` or `Sec-Fetch-Site`. A page whose own host name resolves to
//! loopback (DNS rebinding) sends that name as the host.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;

use crate::status_error::ApiError;

/// Refuses requests that may come from a web page.
pub(super) fn check(parts: &Parts) -> Result<(), ApiError> {
    let headers = &parts.headers;
    let mut sites = headers.get_all("sec-fetch-site").iter();
    if headers.contains_key(ORIGIN) || sites.any(|site| site != "none" && site != "same-origin") {
        return Err(ApiError::stranger("the embedded API server does not answer web pages"));
    }
    if !is_for_loopback(parts) {
        return Err(ApiError::stranger("the embedded API server answers to localhost and loopback addresses only"));
    }
    Ok(())
}

fn is_for_loopback(parts: &Parts) -> bool {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let named = match (parts.uri.authority(), hosts.next()) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some(host)) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
        // HTTP/1.0 allows a request without a host name. DNS rebinding is not possible without one.
        (None, None) => return true,
    };
    let is_loopback = |name: &str| {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    hosts.next().is_none() && named.is_some_and(|named| is_loopback(named.host()))
}
