//! How `inspect` shows what a plugin watches.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_core::cache::watch::WatchSpec;
use windlass_manifest::{Manifest, Watch};

/// How many namespaces of a watch are shown as text.
const NAMESPACES_SHOWN_MAX: usize = 8;

/// The lines for all watches of all controllers.
pub(super) fn text(manifest: &Manifest) -> String {
    let mut text = "\nwatches:\n".to_owned();
    for (controller, role, watch) in all(manifest) {
        let role = if manifest.controllers.len() > 1 { format!("{controller} {role}") } else { role.to_owned() };
        let _ = writeln!(text, "  {role:<8} {}{}", spec(watch), places(&watch.namespaces));
    }
    text
}

pub(super) fn json(manifest: &Manifest) -> Value {
    let watches = all(manifest).map(|(controller, role, watch)| {
        json!({
            "controller": controller, "role": role, "name": watch.name,
            "apiVersion": watch.api_version, "kind": watch.kind, "namespaces": watch.namespaces,
            "selects": spec(watch).to_string(),
        })
    });
    watches.collect()
}

fn all(manifest: &Manifest) -> impl Iterator<Item = (&str, &'static str, &Watch)> {
    manifest.controllers.iter().flat_map(|controller| {
        let primary = std::iter::once(("primary", &controller.primary));
        let owns = controller.owns.iter().map(|watch| ("owns", watch));
        let watches = controller.watches.iter().map(|watch| ("watches", watch));
        primary.chain(owns).chain(watches).map(|(role, watch)| (&*controller.name, role, watch))
    })
}

/// The objects and the parts of them that the watch keeps, in whatever namespace.
fn spec(watch: &Watch) -> WatchSpec {
    let first = watch.specs().into_iter().next();
    WatchSpec { namespace: None, ..first.unwrap_or_else(|| WatchSpec::all(watch.object_kind())) }
}

fn places(namespaces: &[String]) -> String {
    let (shown, more) = namespaces.split_at(namespaces.len().min(NAMESPACES_SHOWN_MAX));
    match (shown, more.len()) {
        ([], _) => String::new(),
        (shown, 0) => format!(", in {}", shown.join(", ")),
        (shown, more) => format!(", in {} and {more} more namespaces", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watch_is_shown_with_its_conditions_and_namespaces() {
        let many: Vec<_> = (0..10).map(|at| format!("n{at}")).collect();
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{
                "name": "a",
                "primary": {"apiVersion": "apps/v1", "kind": "Deployment", "where": [{"annotation": "auto", "is": "true"}]},
                "owns": [{"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["b", "c"]}],
                "watches": [{
                    "apiVersion": "v1", "kind": "Secret", "namespaces": many, "projection": {"type": "metadata"},
                    "mapping": {"type": "all"},
                }],
            }],
        });
        let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
        let expected = "\nwatches:\n  primary  apps/v1 Deployment where annotation \"auto\" is \"true\"\n  \
                        owns     v1 ConfigMap, in b, c\n  \
                        watches  v1 Secret (metadata), in n0, n1, n2, n3, n4, n5, n6, n7 and 2 more namespaces\n";
        assert_eq!(text(&manifest), expected);
        assert_eq!(json(&manifest)[0]["selects"], r#"apps/v1 Deployment where annotation "auto" is "true""#);
    }
}
