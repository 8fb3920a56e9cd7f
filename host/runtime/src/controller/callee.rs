//! Builds what workers call.

use std::sync::Arc;

use windlass_kube::Readable;
use windlass_manifest::{Controller as Declared, EntryPoint};
use windlass_record::PluginRecorder;
use windlass_wasm::Plugin;

use crate::dispatch::composite::{Compose, Composite, ObservedState, OwnedWatch, RelatedWatch};
use crate::dispatch::reconcile::Reconcile;
use crate::dispatch::recorded::Recorded;
use crate::dispatch::redacted::Redacted;
use crate::dispatch::route::{Route, Stores};

/// The `plugin` itself, or the host's composite around it, which observes `watches`. With a `recorder`, some of the
/// plugin's calls are recorded.
pub(super) fn callee(
    plugin: &Arc<Plugin>,
    recorder: Option<PluginRecorder>,
    declared: &Declared,
    primaries: Stores,
    watches: Vec<(Route, Vec<Readable>)>,
) -> Box<dyn Reconcile> {
    let plugin = plugin.clone();
    if plugin.entry() == EntryPoint::Reconciler {
        return match recorder {
            Some(recorder) => Box::new(Redacted { plugin: Recorded { plugin, recorder } }),
            None => Box::new(Redacted { plugin }),
        };
    }
    let mut watches = watches.into_iter().skip(1); // The primary.
    let owned = declared.owns.iter().zip(watches.by_ref()).map(|(watch, (_, watches))| OwnedWatch {
        kind: watch.object_kind(),
        strategy: watch.strategy(),
        watches,
    });
    let owned = owned.collect();
    let related = watches.map(|(route, watches)| RelatedWatch { route, watches }).collect();
    let observed_state = ObservedState { primaries, owned, related };
    let finalizes = declared.options.finalizer;
    match recorder {
        Some(recorder) => composite(Recorded { plugin, recorder }, observed_state, finalizes),
        None => composite(plugin, observed_state, finalizes),
    }
}

/// Redacts the plugin's text, which the composite logs, and the API server's errors about its children.
fn composite(plugin: impl Compose + 'static, observed_state: ObservedState, finalizes: bool) -> Box<dyn Reconcile> {
    Box::new(Redacted { plugin: Composite { plugin: Redacted { plugin }, observed_state, finalizes } })
}
