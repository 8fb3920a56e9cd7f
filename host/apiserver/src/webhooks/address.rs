//! The place of a webhook on this machine.

use std::net::IpAddr;

use http::Uri;

use crate::consultation::Endpoint;
use crate::object::text;
use crate::resources::resource::GroupResource;
use crate::storage::ObjectKey;
use crate::storage::state::Shared;

/// The address of a webhook, as its configuration says it.
pub(super) struct WebhookAddress {
    /// Without the query.
    pub(super) url: String,
    pub(super) path: String,
    host: String,
    port: u16,
    /// Namespace and name, if the host is one.
    service: Option<(String, String)>,
}

/// Where to connect, and whose certificate is expected there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WebhookPlace {
    /// A loopback address, or `localhost`.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) server_name: String,
}

impl WebhookAddress {
    pub(super) fn of(endpoint: &Endpoint) -> WebhookAddress {
        match endpoint {
            Endpoint::Url(url) => {
                // The validation has refused what is no URL; an empty host is refused below.
                let uri: Uri = url.parse().unwrap_or_default();
                let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
                let port = uri.port_u16().unwrap_or(443);
                WebhookAddress { url: url.clone(), path: uri.path().to_owned(), host, port, service: None }
            }
            Endpoint::Service { namespace, name, path, port } => {
                let host = format!("{name}.{namespace}.svc");
                let path = if path.starts_with('/') { path.clone() } else { format!("/{path}") };
                let url = format!("https://{host}:{port}{path}");
                WebhookAddress { url, path, host, port: *port, service: Some((namespace.clone(), name.clone())) }
            }
        }
    }

    /// The place, if it is on this machine. A service is there if it is of type `ExternalName` with the name `localhost`.
    pub(super) fn resolve(&self, shared: &Shared) -> Result<WebhookPlace, String> {
        let host = match &self.service {
            None => self.host.clone(),
            Some((namespace, name)) => external_name(shared, namespace, name)?,
        };
        if !is_loopback(&host) {
            return Err(format!("the embedded API server calls loopback addresses only, and not {host:?}"));
        }
        Ok(WebhookPlace { host, port: self.port, server_name: self.host.clone() })
    }
}

fn external_name(shared: &Shared, namespace: &str, name: &str) -> Result<String, String> {
    let resource = GroupResource::new("", "services");
    let key = ObjectKey { resource, namespace: namespace.to_owned(), name: name.to_owned() };
    let state = shared.lock();
    let service = state.store.get(&key).ok_or_else(|| format!("service {name:?} not found"))?;
    if text(service, "/spec/type") != "ExternalName" {
        return Err(format!(
            "nothing runs behind service {name:?}: the embedded API server follows services of type ExternalName only"
        ));
    }
    Ok(text(service, "/spec/externalName").to_owned())
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    fn resolved(url: &str) -> Result<(String, u16), String> {
        let shared = Shared::new(10, Clock::Wall, None);
        let place = WebhookAddress::of(&Endpoint::Url(url.to_owned())).resolve(&shared)?;
        Ok((place.host, place.port))
    }

    #[test]
    fn only_this_machine_is_called() {
        assert_eq!(resolved("https://127.0.0.1:9443/x"), Ok(("127.0.0.1".to_owned(), 9443)));
        assert_eq!(resolved("https://[::1]/x"), Ok(("::1".to_owned(), 443)));
        assert_eq!(resolved("https://LOCALHOST:1"), Ok(("LOCALHOST".to_owned(), 1)));
        for elsewhere in ["https://example.com/x", "https://10.0.0.1", "https://localhost.example.com", "https://"] {
            let why = resolved(elsewhere).expect_err(elsewhere);
            assert!(why.contains("loopback addresses only"), "{why}");
        }
    }
}
