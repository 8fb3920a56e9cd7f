//! The entry points of a plugin, between the generated exports and the plugin's own code. `plugin!` and `composer!`
//! call them.

use std::panic;
use std::sync::Once;

use crate::bindings::composer::exports::windlass::plugin::composer;
use crate::bindings::customize::exports::windlass::plugin::customize;
use crate::bindings::exports::windlass::plugin::reconciler;
use crate::bindings::mapper::exports::windlass::plugin::mapper;
use crate::bindings::windlass::plugin::types;
use crate::log::{self, Level};
use crate::manifest::Manifest;
use crate::{Change, Composer, CompositionRequest, Customize, Failures, Mapper, Reconciler, Request, Target};

/// A reconciler's manifest as JSON.
#[must_use]
pub fn describe<P: Reconciler>() -> String {
    report_panics();
    to_json(&P::manifest())
}

/// Runs a reconciler for one object.
pub fn reconcile<P: Reconciler>(request: types::Request) -> Result<reconciler::Outcome, Vec<types::Failure>> {
    report_panics();
    P::reconcile(Request::from(request)).map(Into::into).map_err(Failures::into)
}

/// A composer's manifest as JSON.
#[must_use]
pub fn describe_composer<P: Composer>() -> String {
    report_panics();
    to_json(&P::manifest())
}

/// Asks a composer for the children of one object.
pub fn compose<P: Composer>(
    request: composer::CompositionRequest,
) -> Result<composer::Composition, Vec<types::Failure>> {
    report_panics();
    let composition = P::compose(CompositionRequest::from(request))?;
    Ok(composer::Composition::try_from(composition).map_err(Failures::from)?)
}

/// Asks a reconciler which primaries each change of a batch concerns.
pub fn map<P: Mapper>(batch: mapper::ChangeBatch) -> Result<Vec<Vec<mapper::Target>>, String> {
    report_panics();
    let mapper::ChangeBatch { watch, changes, .. } = batch;
    let targets = |change| {
        let targets: Vec<Target> = P::map(&watch, &Change::from(change)).map_err(|failures| failures.to_string())?;
        Ok(targets.into_iter().map(Into::into).collect())
    };
    changes.into_iter().map(targets).collect()
}

/// Asks a reconciler which changes of a batch count.
pub fn matches<P: Mapper>(batch: mapper::ChangeBatch) -> Result<Vec<bool>, String> {
    report_panics();
    let mapper::ChangeBatch { watch, changes, .. } = batch;
    let counts = |change| P::matches(&watch, &Change::from(change)).map_err(|failures| failures.to_string());
    changes.into_iter().map(counts).collect()
}

/// Asks a composer which objects are related to a parent.
pub fn customize<P: Customize>(request: types::Request) -> Result<Vec<customize::RelatedRule>, Vec<types::Failure>> {
    report_panics();
    let rules = P::customize(Request::from(request))?;
    Ok(rules.into_iter().map(Into::into).collect())
}

fn to_json(manifest: &Manifest) -> String {
    // This cannot fail: the manifest contains only texts, numbers and lists.
    serde_json::to_string(manifest).expect("a manifest serializes")
}

/// Sends panics to the log, because a trap shows the host neither the reason nor the place.
///
/// Each entry point calls this function first, because an instance may serve one call or several.
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
