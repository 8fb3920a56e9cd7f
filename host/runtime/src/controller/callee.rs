//! Builds what workers call.

use std::sync::Arc;

use windlass_kube::Readable;
use windlass_manifest::{Controller as Declared, EntryPoint, Watch};
use windlass_record::PluginRecorder;
use windlass_wasm::Plugin;

use crate::dispatch::composite::{Compose, Composite, CompositionSaver, ObservedState, OwnedWatch, RelatedWatch};
use crate::dispatch::reconcile::Reconcile;
use crate::dispatch::recorded::Recorded;
use crate::dispatch::redacted::Redacted;
use crate::dispatch::route::{Route, Stores};

/// The `plugin` itself, or the host's composite around it, which observes `watches`. With a `recorder`, some of the
/// plugin's calls are recorded. With a `saver`, only those calls of a composer are made whose answer may differ.
pub(super) fn callee(
    plugin: &Arc<Plugin>,
    recorder: Option<PluginRecorder>,
    declared: &Declared,
    primaries: Stores,
    watches: Vec<(Route, Vec<Readable>)>,
    saver: Option<CompositionSaver>,
) -> Box<dyn Reconcile> {
    let plugin = plugin.clone();
    if plugin.entry() == EntryPoint::Reconciler {
        return match recorder {
            Some(recorder) => Box::new(Redacted { plugin: Recorded { plugin, recorder } }),
            None => Box::new(Redacted { plugin }),
        };
    }
    let mut watches = watches.into_iter().skip(1); // The primary.
    // The next version of a plugin, which a shadow calls on the current one's caches, may receive other parts.
    let own = plugin.manifest().controllers.iter().find(|own| own.name == declared.name);
    let owned = declared.owns.iter().zip(watches.by_ref()).map(|(watch, (_, watches))| OwnedWatch {
        kind: watch.object_kind(),
        call_part: own.and_then(|own| same(&own.owns, watch)).and_then(Watch::call_part),
        strategy: watch.strategy(),
        watches,
    });
    let owned = owned.collect();
    let related = declared.watches.iter().zip(watches).map(|(watch, (route, watches))| {
        let call_part = own.and_then(|own| same(&own.watches, watch)).and_then(Watch::call_part);
        RelatedWatch { route, call_part, watches }
    });
    let related = related.collect();
    let observed_state = ObservedState { primaries, owned, related };
    let finalizes = declared.options.finalizer;
    match recorder {
        Some(recorder) => composite(Recorded { plugin, recorder }, observed_state, finalizes, saver),
        None => composite(plugin, observed_state, finalizes, saver),
    }
}

/// The watch of the same objects, for the same purpose.
fn same<'a>(own: &'a [Watch], declared: &Watch) -> Option<&'a Watch> {
    let is_same = |watch: &&Watch| {
        (&watch.api_version, &watch.kind, &watch.name, &watch.mapping)
            == (&declared.api_version, &declared.kind, &declared.name, &declared.mapping)
    };
    own.iter().find(is_same)
}

/// Redacts the plugin's text, which the composite logs, and the API server's errors about its children.
fn composite(
    plugin: impl Compose + 'static,
    observed_state: ObservedState,
    finalizes: bool,
    saver: Option<CompositionSaver>,
) -> Box<dyn Reconcile> {
    Box::new(Redacted { plugin: Composite { plugin: Redacted { plugin }, observed_state, finalizes, saver } })
}
