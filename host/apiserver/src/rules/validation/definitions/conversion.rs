//! Validates the conversion between versions of a definition. A conversion webhook is declared like an admission
//! webhook.

use serde_json::Value;

use super::super::admission::{client, review_versions};
use super::super::report::Report;
use crate::object::strings;

const CLIENT: &str = "spec.conversion.webhookClientConfig";
const VERSIONS: &str = "spec.conversion.conversionReviewVersions";

pub(super) fn validate(conversion: &Value, report: &mut Report) {
    let webhook = &conversion["webhook"];
    let (config, versions) = (&webhook["clientConfig"], &webhook["conversionReviewVersions"]);
    let strategy = &conversion["strategy"];
    match strategy.as_str() {
        Some("Webhook") => {
            if config.is_object() {
                client(CLIENT, config, report);
            } else {
                report.required_because(CLIENT, "required when strategy is set to Webhook");
            }
            // Here the error of a real server does not list the valid versions.
            review_versions(VERSIONS, versions, "", report);
            return;
        }
        Some("None") => {}
        _ => report.not_supported("spec.conversion.strategy", strategy, &["None", "Webhook"]),
    }
    let why = "should not be set when strategy is not set to Webhook";
    if config.is_object() {
        report.forbidden(CLIENT, why);
    }
    if !strings(versions, "").is_empty() {
        report.forbidden(VERSIONS, why);
    }
}
