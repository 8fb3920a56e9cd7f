//! The two entry points of a plugin, between the generated exports and the plugin's own code. Called by `plugin!`.

use std::panic;
use std::sync::Once;

use crate::bindings::windlass::plugin::types;
use crate::log::{self, Level};
use crate::{Failures, Outcome, Reconciler, Request};

/// The plugin's manifest as JSON.
///
/// # Panics
/// Never: a manifest is made of texts, numbers and lists.
#[must_use]
pub fn describe<P: Reconciler>() -> String {
    report_panics();
    serde_json::to_string(&P::manifest()).expect("a manifest serializes")
}

/// Runs the plugin for one object.
pub fn reconcile<P: Reconciler>(request: types::Request) -> Result<Outcome, Vec<types::Failure>> {
    report_panics();
    P::reconcile(Request::from(request)).map_err(Failures::into)
}

/// Sends panics to the log. A trap tells the host only that one happened, not why or where.
///
/// At the start of each call, since instances may or may not be reused.
fn report_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let message = info.payload_as_str().unwrap_or("a panic without a message");
            let location = info.location().map(ToString::to_string).unwrap_or_default();
            log::write(Level::Error, message, &[("panic", &"true"), ("location", &location)]);
        }));
    });
}
