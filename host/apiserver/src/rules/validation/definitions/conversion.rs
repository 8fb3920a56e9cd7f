//! How the versions of a definition are converted. Webhooks are judged, and then refused: this server calls none.

use http::Uri;
use serde_json::{Value, json};

use crate::cause::Cause;
use crate::object::{items, strings};

const CLIENT: &str = "spec.conversion.webhookClientConfig";
const VERSIONS: &str = "spec.conversion.conversionReviewVersions";

pub(super) fn validate(conversion: &Value, causes: &mut Vec<Cause>) {
    let webhook = &conversion["webhook"];
    let strategy = &conversion["strategy"];
    match strategy.as_str() {
        Some("Webhook") => {
            let before = causes.len();
            validate_client(&webhook["clientConfig"], causes);
            validate_versions(webhook, causes);
            if causes.len() == before {
                let why = "this server converts nothing: use None";
                causes.push(Cause::invalid("spec.conversion.strategy", strategy, why));
            }
            return;
        }
        Some("None") => {}
        _ => causes.push(Cause::not_supported("spec.conversion.strategy", strategy, &["None", "Webhook"])),
    }
    let why = "should not be set when strategy is not set to Webhook";
    if webhook["clientConfig"].is_object() {
        causes.push(Cause::forbidden(CLIENT, why));
    }
    if !items(webhook, "/conversionReviewVersions").is_empty() {
        causes.push(Cause::forbidden(VERSIONS, why));
    }
}

fn validate_client(client: &Value, causes: &mut Vec<Cause>) {
    if !client.is_object() {
        causes.push(Cause::required(CLIENT, "required when strategy is set to Webhook"));
        return;
    }
    let url = client["url"].as_str();
    if url.is_some() == client["service"].is_object() {
        causes.push(Cause::required(CLIENT, "exactly one of url or service is required"));
    }
    let Some(url) = url.filter(|_| !client["service"].is_object()) else { return };
    let url = url.parse::<Uri>().unwrap_or_default();
    let scheme = url.scheme_str().unwrap_or_default();
    if scheme != "https" {
        let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        causes.push(Cause::invalid(format!("{CLIENT}.url"), &json!(scheme), why));
    }
}

fn validate_versions(webhook: &Value, causes: &mut Vec<Cause>) {
    let versions = strings(webhook, "/conversionReviewVersions");
    if versions.is_empty() {
        causes.push(Cause::required(VERSIONS, ""));
    } else if !versions.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
        causes.push(Cause::invalid(VERSIONS, &json!(versions), "must include at least one of v1, v1beta1"));
    }
}
