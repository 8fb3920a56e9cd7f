//! The address of a webhook, from its configuration.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

/// The location of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Url(String),
    Service { namespace: String, name: String, path: String, port: u16 },
}

/// `WebhookClientConfig`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookClient {
    pub(crate) endpoint: Endpoint,
    /// The certificate authority in PEM.
    pub(crate) authority: Vec<u8>,
}

impl WebhookClient {
    /// Reads a valid configuration.
    pub(crate) fn read(config: &Value) -> WebhookClient {
        let text = |from: &Value, key: &str| from[key].as_str().unwrap_or_default().to_owned();
        let endpoint = match config.get("service").filter(|service| service.is_object()) {
            None => Endpoint::Url(text(config, "url")),
            Some(service) => Endpoint::Service {
                namespace: text(service, "namespace"),
                name: text(service, "name"),
                path: text(service, "path"),
                port: service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
            },
        };
        // With invalid base64 there is no authority, so the call will fail.
        WebhookClient { endpoint, authority: BASE64_STANDARD.decode(text(config, "caBundle")).unwrap_or_default() }
    }
}
