//! Shows a plugin's hooks, and which of them its policy opens.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_manifest::{Controller, Hook, Manifest};
use windlass_policy::{OpenHook, Policy};

use super::watches::of_mapping;

/// The hooks, a line each. Empty if there are none.
pub(super) fn text(manifest: &Manifest, policy: Option<&Policy>) -> String {
    let mut lines = String::new();
    for (_, hook) in declared(manifest) {
        let word = if is_open(policy, &hook.name) { "open" } else { "closed" };
        let (plugin, name, mapping) = (&manifest.name, &hook.name, of_mapping(&hook.mapping));
        let _ = writeln!(lines, "  {word:<8} POST /hooks/{plugin}/{name}, mapped by {mapping}");
    }
    for OpenHook { name, .. } in undeclared(manifest, policy) {
        let _ = writeln!(lines, "  UNKNOWN  {name}: the policy opens it, but the manifest has no such hook");
    }
    if lines.is_empty() { lines } else { format!("\nhooks:\n{lines}") }
}

/// The same for programs.
pub(super) fn json(manifest: &Manifest, policy: Option<&Policy>) -> Value {
    let shown = declared(manifest).map(|(controller, hook)| {
        json!({
            "name": hook.name, "controller": controller.name, "mapping": of_mapping(&hook.mapping),
            "open": is_open(policy, &hook.name),
        })
    });
    shown.collect()
}

fn declared(manifest: &Manifest) -> impl Iterator<Item = (&Controller, &Hook)> {
    manifest.controllers.iter().flat_map(|controller| controller.hooks.iter().map(move |hook| (controller, hook)))
}

fn is_open(policy: Option<&Policy>, name: &str) -> bool {
    policy.is_some_and(|policy| policy.hooks.iter().any(|hook| hook.name == name))
}

/// The hooks of the policy that the manifest does not have.
fn undeclared<'a>(manifest: &'a Manifest, policy: Option<&'a Policy>) -> impl Iterator<Item = &'a OpenHook> {
    let hooks = policy.into_iter().flat_map(|policy| &policy.hooks);
    hooks.filter(|open| !declared(manifest).any(|(_, hook)| hook.name == open.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(hooks: &Value) -> Manifest {
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "shop", "version": "0.1.0",
            "controllers": [{"name": "shops", "primary": {"apiVersion": "v1", "kind": "ConfigMap"}, "hooks": hooks}],
        });
        Manifest::from_json(&manifest.to_string()).expect("valid")
    }

    #[test]
    fn each_hook_is_shown_with_its_path_and_whether_it_is_open() {
        let manifest = manifest(&json!([
            {"name": "pushed", "mapping": {"type": "field", "pointer": "/payload/shop"}},
            {"name": "merged", "mapping": {"type": "all"}},
        ]));
        let open = ["pushed", "pulled"].map(|name| OpenHook { name: name.to_owned(), secrets: vec![] });
        let policy = Policy { hooks: open.into(), ..Policy::default() };
        let expected = "\nhooks:\n  \
            open     POST /hooks/shop/pushed, mapped by field \"/payload/shop\"\n  \
            closed   POST /hooks/shop/merged, mapped by all\n  \
            UNKNOWN  pulled: the policy opens it, but the manifest has no such hook\n";
        assert_eq!(text(&manifest, Some(&policy)), expected);
        assert_eq!(
            json(&manifest, Some(&policy))[1],
            json!({"name": "merged", "controller": "shops", "mapping": "all", "open": false})
        );
        assert_eq!(json(&manifest, None)[0]["open"], false);
    }

    #[test]
    fn a_plugin_without_hooks_has_no_section_about_them() {
        assert_eq!(text(&manifest(&json!([])), None), "");
    }
}
