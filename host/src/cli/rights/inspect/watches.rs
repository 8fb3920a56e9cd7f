//! Shows what a plugin's controllers watch: which objects, by which indexes, and which primaries a change runs.
//!
//! The author of the manifest is untrusted, so text from it is quoted.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::watch::{Index, IndexSource, SelectorForm, WatchSpec};
use windlass_core::object::reference::ReferencePath;
use windlass_manifest::{Controller, Manifest, Watch};

/// How many namespaces of a watch are shown as text.
const NAMESPACES_SHOWN_MAX: usize = 8;

/// The watches of all controllers, a line each.
pub(super) fn text(manifest: &Manifest) -> String {
    let mut text = "\nwatches:\n".to_owned();
    for controller in &manifest.controllers {
        for (role, watch) in roles(controller) {
            let _ = write!(text, "  {role:<8} {}{}", spec(watch), places(&watch.namespaces));
            if let Some(mapping) = &watch.mapping {
                let _ = write!(text, ", mapped by {}", of_mapping(mapping));
            }
            if manifest.controllers.len() > 1 {
                let _ = write!(text, ", for the controller {}", controller.name);
            }
            text.push('\n');
            for Index { name, source } in &watch.indexes {
                let _ = writeln!(text, "             index {name:?}: {}", of_source(source));
            }
        }
    }
    text
}

/// The same for programs.
pub(super) fn json(manifest: &Manifest) -> Value {
    let of_watch = |(role, watch): (&str, &Watch)| {
        let index = |index: &Index| json!({"name": &*index.name, "of": of_source(&index.source)});
        json!({
            "role": role, "name": watch.name,
            "apiVersion": watch.api_version, "kind": watch.kind, "namespaces": watch.namespaces,
            "selects": spec(watch).to_string(), "mapping": watch.mapping.as_ref().map(of_mapping),
            "indexes": watch.indexes.iter().map(index).collect::<Vec<_>>(),
        })
    };
    let of_controller = |controller: &Controller| {
        let watches: Vec<_> = roles(controller).map(of_watch).collect();
        json!({"name": controller.name, "writesStatus": controller.options.status, "watches": watches})
    };
    manifest.controllers.iter().map(of_controller).collect()
}

fn roles(controller: &Controller) -> impl Iterator<Item = (&'static str, &Watch)> {
    let primary = std::iter::once(("primary", &controller.primary));
    let owned = controller.owns.iter().map(|watch| ("owns", watch));
    primary.chain(owned).chain(controller.watches.iter().map(|watch| ("watches", watch)))
}

/// The objects that the watch keeps, and which parts of them, without its namespace.
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

fn of_source(source: &IndexSource) -> String {
    match source {
        IndexSource::Label(key) => format!("label {key:?}"),
        IndexSource::Field(pointer) => format!("field {pointer:?}"),
        IndexSource::Annotation { key, split: None } => format!("annotation {key:?}"),
        IndexSource::Annotation { key, split: Some(split) } => format!("annotation {key:?}, split at {split:?}"),
        IndexSource::Reference(path) => of_reference(path),
        IndexSource::Selector { pointer, form } => {
            let form = match form {
                SelectorForm::LabelSelector => "as a LabelSelector",
                SelectorForm::Labels => "as labels",
                SelectorForm::Text => "as a text",
            };
            format!("selector {pointer:?}, {form}")
        }
    }
}

fn of_mapping(mapping: &Mapping) -> String {
    match mapping {
        Mapping::Itself => "itself".to_owned(),
        Mapping::Owner => "owner".to_owned(),
        Mapping::AnyOwner => "anyOwner".to_owned(),
        Mapping::Label(key) => format!("label {key:?}"),
        Mapping::Annotation(key) => format!("annotation {key:?}"),
        Mapping::Field(pointer) => format!("field {pointer:?}"),
        Mapping::Reference(path) => of_reference(path),
        Mapping::SameName => "sameName".to_owned(),
        Mapping::ReferencedBy(index) => format!("referencedBy {index:?}"),
        Mapping::SelectedBy(index) => format!("selectedBy {index:?}"),
        Mapping::All => "all".to_owned(),
        Mapping::Mapper => "mapper".to_owned(),
        Mapping::Customize => "customize".to_owned(),
    }
}

fn of_reference(path: &ReferencePath) -> String {
    let ReferencePath { base, namespace, name } = path;
    let namespace = namespace.as_ref().map(|namespace| format!("{base}{namespace}, "));
    format!("reference {:?}", format!("{}{base}{name}", namespace.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let key = "configmap.reloader.stakater.com/reload";
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{
                "name": "reloader",
                "primary": {
                    "apiVersion": "apps/v1", "kind": "Deployment", "projection": {"type": "metadata"},
                    "indexes": [
                        {"name": "uses", "source": {"type": "annotation", "key": key, "split": ","}},
                        {"name": "selects", "source": {
                            "type": "selector", "pointer": "/metadata/annotations/sel", "form": "text",
                        }},
                    ],
                },
                "watches": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "mapping": {"type": "referencedBy", "index": "uses"}},
                    {"apiVersion": "v1", "kind": "Pod", "mapping": {"type": "anyOwner"}},
                ],
                "options": {"status": false},
            }],
        });
        Manifest::from_json(&manifest.to_string()).expect("valid")
    }

    #[test]
    fn each_watch_is_shown_with_its_indexes_and_its_mapping() {
        let expected = "\nwatches:\n  \
            primary  apps/v1 Deployment (metadata)\n             \
            index \"uses\": annotation \"configmap.reloader.stakater.com/reload\", split at ','\n             \
            index \"selects\": selector \"/metadata/annotations/sel\", as a text\n  \
            watches  v1 ConfigMap, mapped by referencedBy \"uses\"\n  \
            watches  v1 Pod, mapped by anyOwner\n";
        assert_eq!(text(&manifest()), expected);
    }

    #[test]
    fn programs_learn_whether_a_controller_writes_status() {
        let json = json(&manifest());
        assert_eq!(json[0]["writesStatus"], false);
        assert_eq!(
            json[0]["watches"][2],
            json!({
                "role": "watches", "name": null, "apiVersion": "v1", "kind": "Pod", "namespaces": [],
                "selects": "v1 Pod", "mapping": "anyOwner", "indexes": [],
            })
        );
    }

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
                        watches  v1 Secret (metadata), in n0, n1, n2, n3, n4, n5, n6, n7 and 2 more namespaces, \
                        mapped by all\n";
        assert_eq!(text(&manifest), expected);
        let shown = &json(&manifest)[0]["watches"];
        assert_eq!(shown[0]["selects"], r#"apps/v1 Deployment where annotation "auto" is "true""#);
        assert_eq!(shown[2]["namespaces"].as_array().map(Vec::len), Some(10));
    }
}
