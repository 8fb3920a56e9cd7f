//! Shows what a plugin's controllers watch: which objects, by which indexes, and which primaries a change runs.
//!
//! The author of the manifest is untrusted, so text from it is quoted.

use std::fmt::Write as _;

use serde_json::{Value, json};
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::watch::{Index, IndexSource, SelectorForm, WatchSpec};
use windlass_core::object::ObjectKind;
use windlass_core::object::reference::ReferencePath;
use windlass_manifest::{ConfiguredKinds, Controller, Manifest, Watch};

/// How many namespaces of a watch are shown as text.
const NAMESPACES_SHOWN_MAX: usize = 8;

/// The watches of all controllers, a line each. `kinds` are the kinds that the configuration names, if they are known.
pub(super) fn text(manifest: &Manifest, kinds: Option<&ConfiguredKinds>) -> String {
    let mut text = "\nwatches:\n".to_owned();
    for controller in &manifest.controllers {
        for (role, watch) in roles(controller) {
            let _ = write!(text, "  {role:<8} {}{}", selected(watch), places(&watch.namespaces));
            if let Some(mapping) = &watch.mapping {
                let _ = write!(text, ", mapped by {}", of_mapping(mapping));
            }
            if watch.code_predicate {
                text.push_str(", if the plugin's code accepts it (codePredicate)");
            }
            if manifest.controllers.len() > 1 {
                let _ = write!(text, ", for the controller {}", controller.name);
            }
            if let Some(pointer) = &watch.kinds_from {
                let _ = write!(text, "\n             now {}", named(kinds, pointer));
            }
            text.push('\n');
            for Index { name, source } in &watch.indexes {
                let _ = writeln!(text, "             index {name:?}: {}", of_source(source));
            }
        }
        if !controller.options.saved_calls {
            let _ = writeln!(text, "  every call of the controller {} is made (savedCalls: false)", controller.name);
        }
    }
    text
}

/// The watches of all controllers as JSON, for programs.
pub(super) fn json(manifest: &Manifest, kinds: Option<&ConfiguredKinds>) -> Value {
    let of_watch = |(role, watch): (&str, &Watch)| {
        let index = |index: &Index| json!({"name": &*index.name, "of": of_source(&index.source)});
        let mut shown = json!({
            "role": role, "name": watch.name,
            "apiVersion": watch.api_version, "kind": watch.kind, "namespaces": watch.namespaces,
            "selects": selected(watch), "codePredicate": watch.code_predicate,
            "mapping": watch.mapping.as_ref().map(of_mapping),
            "indexes": watch.indexes.iter().map(index).collect::<Vec<_>>(),
        });
        if let Some(pointer) = &watch.kinds_from {
            let of_kind = |kind: &ObjectKind| json!({"apiVersion": &*kind.api_version, "kind": &*kind.kind});
            (shown["apiVersion"], shown["kind"]) = (Value::Null, Value::Null);
            shown["kindsFrom"] = json!(pointer);
            shown["kinds"] = kinds.map(|kinds| kinds.at(pointer).iter().map(of_kind).collect::<Vec<_>>()).into();
            shown["verbs"] = watch.verbs.iter().map(|verb| verb.as_str()).collect();
        }
        shown
    };
    let of_controller = |controller: &Controller| {
        let watches: Vec<_> = roles(controller).map(of_watch).collect();
        let options = &controller.options;
        json!({
            "name": controller.name, "writesStatus": options.status, "savedCalls": options.saved_calls,
            "watches": watches,
        })
    };
    manifest.controllers.iter().map(of_controller).collect()
}

fn roles(controller: &Controller) -> impl Iterator<Item = (&'static str, &Watch)> {
    let primary = std::iter::once(("primary", &controller.primary));
    let owned = controller.owns.iter().map(|watch| ("owns", watch));
    primary.chain(owned).chain(controller.watches.iter().map(|watch| ("watches", watch)))
}

/// The objects that the watch selects, as text.
fn selected(watch: &Watch) -> String {
    if let Some(timer) = &watch.timer {
        return format!("timer, {}", timer.in_words());
    }
    let spec = spec(watch).to_string();
    match watch.lacks_kind() {
        Some(pointer) => format!("kinds that the configuration names at {pointer:?} {}", spec.trim_start()),
        None => spec,
    }
}

/// The kinds at `pointer` of the configuration.
fn named(kinds: Option<&ConfiguredKinds>, pointer: &str) -> String {
    let Some(kinds) = kinds else { return "not known".to_owned() };
    let names: Vec<_> = kinds.at(pointer).iter().map(ToString::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
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

pub(super) fn of_mapping(mapping: &Mapping) -> String {
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
        Mapping::None => "none".to_owned(),
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
                "options": {"status": false, "savedCalls": false},
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
            watches  v1 Pod, mapped by anyOwner\n  \
            every call of the controller reloader is made (savedCalls: false)\n";
        assert_eq!(text(&manifest(), None), expected);
    }

    #[test]
    fn kinds_of_the_configuration_are_shown_with_their_place() {
        let manifest = json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "a", "version": "0.1.0",
            "controllers": [{
                "name": "a",
                "primary": {"kindsFrom": "/kinds", "labelSelector": "a=b", "projection": {"type": "metadata"}},
            }],
            "config": {"schema": {}},
        });
        let manifest = Manifest::from_json(&manifest.to_string()).expect("valid");
        let list = json!([{"apiVersion": "v1", "kind": "Pod"}, {"apiVersion": "apps/v1", "kind": "Deployment"}]);
        let kinds =
            |list: &Value| ConfiguredKinds::read(&manifest.controllers, &json!({"kinds": list})).expect("kinds");
        let line =
            "\nwatches:\n  primary  kinds that the configuration names at \"/kinds\" with labels a=b (metadata)\n";
        let shown = |kinds: Option<&ConfiguredKinds>| text(&manifest, kinds).replace(line, "");
        assert_eq!(shown(Some(&kinds(&list))), "             now v1 Pod, apps/v1 Deployment\n");
        assert_eq!(shown(Some(&kinds(&json!([])))), "             now none\n");
        assert_eq!(shown(None), "             now not known\n");
        let shown = &json(&manifest, Some(&kinds(&list)))[0]["watches"][0];
        assert_eq!((&shown["kindsFrom"], &shown["kinds"], &shown["kind"]), (&json!("/kinds"), &list, &Value::Null));
        assert_eq!(json(&manifest, None)[0]["watches"][0]["kinds"], Value::Null);
    }

    #[test]
    fn predicates_by_code_are_shown() {
        let mut manifest = manifest();
        manifest.controllers[0].primary.code_predicate = true;
        manifest.controllers[0].watches[1].code_predicate = true;
        let accepts = "if the plugin's code accepts it (codePredicate)";
        let text = text(&manifest, None);
        let lines: Vec<_> = text.lines().filter(|line| line.contains("codePredicate")).collect();
        assert_eq!(
            lines,
            [
                format!("  primary  apps/v1 Deployment (metadata), {accepts}"),
                format!("  watches  v1 Pod, mapped by anyOwner, {accepts}"),
            ]
        );
        let shown = &json(&manifest, None)[0]["watches"];
        let flags = [0, 1, 2].map(|watch| shown[watch]["codePredicate"].as_bool());
        assert_eq!(flags, [Some(true), Some(false), Some(true)]);
    }

    #[test]
    fn programs_learn_whether_a_controller_writes_status() {
        let json = json(&manifest(), None);
        assert_eq!([&json[0]["writesStatus"], &json[0]["savedCalls"]], [false, false]);
        assert_eq!(
            json[0]["watches"][2],
            json!({
                "role": "watches", "name": null, "apiVersion": "v1", "kind": "Pod", "namespaces": [],
                "selects": "v1 Pod", "codePredicate": false, "mapping": "anyOwner", "indexes": [],
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
        assert_eq!(text(&manifest, None), expected);
        let shown = &json(&manifest, None)[0]["watches"];
        assert_eq!(shown[0]["selects"], r#"apps/v1 Deployment where annotation "auto" is "true""#);
        assert_eq!(shown[2]["namespaces"].as_array().map(Vec::len), Some(10));
    }
}
