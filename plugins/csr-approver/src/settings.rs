//! The operator's configuration. Its keys are the names of the values of the original's chart.

use std::collections::BTreeMap;
use std::net::IpAddr;

use regex_lite::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::prefix::Prefix;

/// The longest lifetime that a request may ask for: 367 days.
const EXPIRATION_SECONDS_MAX: i64 = 367 * 24 * 60 * 60;

/// The configuration as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the operator, independent of the others")]
pub(crate) struct Document {
    provider_regex: String,
    provider_ip_prefixes: Vec<String>,
    max_expiration_seconds: i64,
    bypass_dns_resolution: bool,
    host_addresses: BTreeMap<String, Vec<String>>,
    bypass_hostname_check: bool,
    ignore_non_system_node: bool,
    skip_deny_step: bool,
    allowed_dns_names: usize,
}

impl Default for Document {
    fn default() -> Self {
        Self {
            provider_regex: String::new(),
            provider_ip_prefixes: Vec::new(),
            max_expiration_seconds: EXPIRATION_SECONDS_MAX,
            bypass_dns_resolution: false,
            host_addresses: BTreeMap::new(),
            bypass_hostname_check: false,
            ignore_non_system_node: false,
            skip_deny_step: false,
            allowed_dns_names: 1,
        }
    }
}

/// The configuration as it is used.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the operator, independent of the others")]
pub(crate) struct Settings {
    /// The pattern of each DNS name.
    pub(crate) name_pattern: Regex,
    /// The ranges of addresses. Empty allows all addresses.
    pub(crate) prefixes: Vec<Prefix>,
    /// The longest lifetime that a request may ask for.
    pub(crate) expiration_seconds_max: i64,
    /// Whether addresses need not belong to the host.
    pub(crate) trusts_addresses: bool,
    /// The addresses of hosts by their DNS names.
    pub(crate) host_addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Whether a DNS name need not belong to the node.
    pub(crate) trusts_names: bool,
    /// Whether requests of other users than nodes are left alone.
    pub(crate) ignores_others: bool,
    /// Whether nothing is ever denied.
    pub(crate) never_denies: bool,
    /// How many DNS names a request may have.
    pub(crate) dns_names_max: usize,
}

impl Settings {
    /// Checks the configuration. The error names the key, and says what to write.
    pub(crate) fn of(document: &Document) -> Result<Self, String> {
        if document.provider_regex.is_empty() {
            return Err("providerRegex is missing: set it, so that the plugin knows the names of the nodes".into());
        }
        let name_pattern = Regex::new(&document.provider_regex)
            .map_err(|error| format!("providerRegex is not a regular expression: {error}"))?;
        let prefixes = document.provider_ip_prefixes.iter().map(|text| Prefix::parse(text));
        let prefixes = prefixes.collect::<Result<_, _>>().map_err(|error| format!("providerIpPrefixes: {error}"))?;
        let host_addresses = document.host_addresses.iter().map(|(name, addresses)| {
            let addresses = addresses.iter().map(|text| {
                let address = text.parse::<IpAddr>().map(|address| address.to_canonical());
                address.map_err(|_| format!("hostAddresses: {text:?} of {name} is not an IP address"))
            });
            Ok((name.clone(), addresses.collect::<Result<_, String>>()?))
        });
        Ok(Self {
            name_pattern,
            prefixes,
            expiration_seconds_max: document.max_expiration_seconds.min(EXPIRATION_SECONDS_MAX),
            trusts_addresses: document.bypass_dns_resolution,
            host_addresses: host_addresses.collect::<Result<_, String>>()?,
            trusts_names: document.bypass_hostname_check,
            ignores_others: document.ignore_non_system_node,
            never_denies: document.skip_deny_step,
            dns_names_max: document.allowed_dns_names,
        })
    }
}

/// The JSON schema of the configuration.
pub(crate) fn schema() -> Value {
    let switch = |description: &str| json!({"type": "boolean", "default": false, "description": description});
    json!({
        "type": "object",
        "required": ["providerRegex"],
        "additionalProperties": false,
        "properties": {
            "providerRegex": {
                "type": "string", "minLength": 1,
                "description": "Each DNS name must match this regular expression. Anchor it with ^ and $.",
            },
            "providerIpPrefixes": {
                "type": "array", "items": {"type": "string"},
                "description": "Each IP address must be in one of these ranges. Without this list, all are allowed.",
            },
            "maxExpirationSeconds": {
                "type": "integer", "minimum": 600, "maximum": EXPIRATION_SECONDS_MAX,
                "default": EXPIRATION_SECONDS_MAX,
                "description": "The longest lifetime that a request may ask for.",
            },
            "hostAddresses": {
                "type": "object",
                "additionalProperties": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                "description": "The IP addresses of each host by its DNS name. They replace a DNS query.",
            },
            "bypassDnsResolution": switch("Addresses need not belong to the host: only providerIpPrefixes limits them."),
            "bypassHostnameCheck": switch("A DNS name need not belong to the node: only providerRegex limits it."),
            "ignoreNonSystemNode": switch("Requests of users other than nodes stay pending."),
            "skipDenyStep": switch("Requests that may not be approved stay pending."),
            "allowedDnsNames": {
                "type": "integer", "minimum": 0, "maximum": 64, "default": 1,
                "description": "How many DNS names a request may have.",
            },
        },
    })
}
