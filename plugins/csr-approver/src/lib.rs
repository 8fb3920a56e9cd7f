//! The csr-approver plugin: approves the requests for the certificates with which kubelets serve, if they are right.
//!
//! This file reads, writes and reports. Pure functions in `decision` decide.

mod api;
mod certificate;
mod decision;
mod prefix;
mod settings;

use serde_json::{Value, json};
use windlass_sdk::manifest::{Controller, Manifest, Options, Permission, Watch, Where};
use windlass_sdk::metrics::Counter;
use windlass_sdk::{Failures, Outcome, Reconciler, Request, config, events, info, writes};

use api::{API_VERSION, APPROVED, DENIED, KIND, SIGNER, SigningRequest};
use decision::Decision;
use settings::{Document, Settings};

#[cfg(test)]
mod tests;

/// The number of decisions, by their kind.
const DECISIONS: Counter<1> = Counter::new("decisions_total", "Decisions about certificate requests.", ["decision"]);

/// The longest message of a condition, and of an Event, in bytes.
const CONDITION_MESSAGE_BYTES_MAX: usize = 1024;

struct Plugin;

impl Reconciler for Plugin {
    fn manifest() -> Manifest {
        // The server sends only requests to this signer, and the cache keeps only those that wait for a decision.
        let waiting = Watch::of(API_VERSION, KIND)
            .fields(format!("spec.signerName={SIGNER}"))
            .only(Where::field("/status/conditions/*/type").not_in([APPROVED, DENIED]));
        let options = Options { status: Some(false), ..Options::default() };
        Manifest::new("csr-approver", env!("CARGO_PKG_VERSION"))
            .description("Approves the requests for kubelets' serving certificates, if they are right.")
            .controller(Controller::new("csr-approver", waiting).options(options))
            .permission(Permission::new("certificates.k8s.io", "certificatesigningrequests/approval", &["update"]))
            .permission(Permission::new("certificates.k8s.io", "signers", &["approve"]).named(&[SIGNER]))
            .metric(DECISIONS)
            .config_schema(settings::schema())
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        let (Some(signing), Some(mut object)) = (request.object::<SigningRequest>()?, request.object::<Value>()?)
        else {
            return Ok(Outcome::Done); // It is decided, or gone.
        };
        if request.deleting {
            return Ok(Outcome::Done);
        }
        let settings = Settings::of(&config::get::<Document>()?)
            .map_err(|error| Failures::terminal(format!("the configuration cannot be used: {error}")))?;
        match decision::decide(&signing, &settings) {
            Decision::Ignore => {
                info!("left a certificate request alone", user = signing.spec.username);
                DECISIONS.add(1.0, ["ignored"]);
            }
            Decision::Approve => {
                let message = "The request comes from the node that it names, and meets the configured rules.";
                write(&mut object, APPROVED, "KubeletServingRequestIsRight", message)?;
                events::normal("Approved", "Approve", message);
                DECISIONS.add(1.0, ["approved"]);
            }
            Decision::Deny(reasons) => {
                let message = shortened(&reasons.join("; "));
                if settings.never_denies {
                    info!("left a certificate request pending", reasons = message);
                    events::warning("NotApproved", "Check", message);
                    DECISIONS.add(1.0, ["pending"]);
                } else {
                    write(&mut object, DENIED, "KubeletServingRequestIsWrong", &message)?;
                    events::warning("Denied", "Deny", message);
                    DECISIONS.add(1.0, ["denied"]);
                }
            }
        }
        Ok(Outcome::Done)
    }
}

windlass_sdk::plugin!(Plugin);

/// Adds the condition with the decision. The object's version is the lock, so a decision that another approver has made
/// in the meantime stays.
fn write(object: &mut Value, decision: &str, reason: &str, message: &str) -> Result<(), Failures> {
    let condition = json!({"type": decision, "status": "True", "reason": reason, "message": message});
    match object["status"]["conditions"].as_array_mut() {
        Some(conditions) => conditions.push(condition),
        None => object["status"]["conditions"] = json!([condition]),
    }
    writes::update(object).subresource("approval").fields(&[]).send()?;
    info!("decided about a certificate request", decision = decision);
    Ok(())
}

/// The beginning of a text that is too long.
fn shortened(text: &str) -> String {
    if text.len() <= CONDITION_MESSAGE_BYTES_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(CONDITION_MESSAGE_BYTES_MAX - "…".len());
    format!("{}…", &text[..end])
}
