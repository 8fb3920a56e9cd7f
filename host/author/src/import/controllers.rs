//! Turns the builders' calls into controllers, as a manifest describes them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::object::ObjectKind;
use windlass_manifest::is_dns_label;

use super::kinds::GoKinds;
use super::scan::{GoController, SourcePlace};

/// The reason why the controllers cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum ControllersError {
    #[error(
        "found no controller: no Go file calls `ctrl.NewControllerManagedBy(mgr)`. Name the folder of a project that uses \
         controller-runtime's builder. A project of webhooks alone cannot be a plugin"
    )]
    None,
    #[error("two controllers have the name {name:?}: {first} and {second}. Give one of them another name with `Named`")]
    SameName { name: String, first: String, second: String },
    #[error("cannot find the kind of `{text}` in `For` at {place}. Name a type whose package has a `GroupVersion`")]
    NoPrimary { text: String, place: String },
}

/// A controller of the project.
#[derive(Clone, Debug)]
pub(super) struct ImportedController {
    /// The name in the manifest, a DNS label.
    pub name: String,
    /// The name in the sources, if it differs.
    pub other_name: Option<String>,
    pub place: SourcePlace,
    /// The folder of its package, and the type of which the function is a method.
    pub folder: String,
    pub receiver: String,
    pub function: String,
    pub primary: ObjectKind,
    pub owns: Vec<ObjectKind>,
    pub watches: Vec<ObjectKind>,
    /// Whether the sources compute the name, so that another one is used.
    pub is_name_guessed: bool,
    /// Watches whose kind could not be found: the place and the source text.
    pub unknown: Vec<(SourcePlace, String)>,
}

/// The controllers, in the order of the sources.
pub(super) fn imported(
    found: &[GoController],
    kinds: &GoKinds<'_>,
) -> Result<Vec<ImportedController>, ControllersError> {
    let controllers: Vec<_> = found.iter().map(|it| controller(it, kinds)).collect::<Result<_, _>>()?;
    let mut names: BTreeMap<&str, &ImportedController> = BTreeMap::new();
    for controller in &controllers {
        if let Some(first) = names.insert(&controller.name, controller) {
            let (name, first, second) =
                (controller.name.clone(), first.place.to_string(), controller.place.to_string());
            return Err(ControllersError::SameName { name, first, second });
        }
    }
    if controllers.is_empty() { Err(ControllersError::None) } else { Ok(controllers) }
}

fn controller(found: &GoController, kinds: &GoKinds<'_>) -> Result<ImportedController, ControllersError> {
    let primary = found.watches.iter().find(|watch| watch.role == "For");
    let no_primary = |text: &str, place: &SourcePlace| ControllersError::NoPrimary {
        text: text.chars().filter(|letter| !letter.is_control()).take(80).collect(),
        place: place.to_string(),
    };
    let primary = primary.ok_or_else(|| no_primary("nothing", &found.place))?;
    let kind =
        kinds.of(&primary.import, &primary.go_type).ok_or_else(|| no_primary(&primary.go_type, &primary.place))?;
    // The name that controller-runtime gives to a controller without one.
    let go_name = if found.name.is_empty() { kind.kind.to_lowercase() } else { found.name.clone() };
    let name = label(&go_name).unwrap_or_else(|| kind.kind.to_lowercase());
    let mut imported = ImportedController {
        other_name: (name != go_name).then_some(go_name),
        name,
        place: found.place.clone(),
        folder: found.folder.clone(),
        receiver: found.receiver.clone(),
        function: found.function.clone(),
        primary: kind,
        owns: vec![],
        watches: vec![],
        is_name_guessed: found.named && found.name.is_empty(),
        unknown: vec![],
    };
    for watch in found.watches.iter().filter(|watch| watch.role != "For") {
        let list = if watch.role == "Owns" { &mut imported.owns } else { &mut imported.watches };
        match kinds.of(&watch.import, &watch.go_type) {
            Some(kind) if list.contains(&kind) => {}
            Some(kind) => list.push(kind),
            None => imported.unknown.push((watch.place.clone(), format!("{}({})", watch.role, watch.go_type))),
        }
    }
    Ok(imported)
}

/// A text as a DNS label: lower-case, with dashes in place of other characters. `None` if nothing is left.
pub(super) fn label(text: &str) -> Option<String> {
    let dashed: String =
        text.to_lowercase().chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).take(63).collect();
    let label = dashed.trim_matches('-').to_owned();
    is_dns_label(&label).then_some(label)
}

impl ImportedController {
    /// The controller as a manifest has it.
    pub(super) fn document(&self) -> Value {
        let watch = |kind: &ObjectKind| json!({"apiVersion": &*kind.api_version, "kind": &*kind.kind});
        let mapped = |kind: &ObjectKind| {
            // The real mapping is a function, and rights do not depend on it.
            json!({"apiVersion": &*kind.api_version, "kind": &*kind.kind, "mapping": {"type": "all"}})
        };
        json!({
            "name": self.name,
            "primary": watch(&self.primary),
            "owns": self.owns.iter().map(watch).collect::<Vec<_>>(),
            "watches": self.watches.iter().map(mapped).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::project_file::ProjectFile;
    use crate::import::scan::GoWatch;

    fn found(name: &str, line: u32, watches: &[(&str, &str, &str)]) -> GoController {
        let place = SourcePlace { file: "a.go".into(), line };
        let watches = watches.iter().map(|(role, import, go_type)| GoWatch {
            place: place.clone(),
            role: (*role).into(),
            import: (*import).into(),
            go_type: (*go_type).into(),
        });
        GoController {
            place: place.clone(),
            folder: "internal/controller".into(),
            receiver: "R".into(),
            function: "SetupWithManager".into(),
            name: name.into(),
            named: !name.is_empty(),
            watches: watches.collect(),
        }
    }

    fn all(found: &[GoController]) -> Result<Vec<ImportedController>, String> {
        let project = ProjectFile::default();
        let kinds = GoKinds { module: "example.com/shop", packages: &[], project: &project, definitions: &[] };
        imported(found, &kinds).map_err(|error| error.to_string())
    }

    const DEPLOYMENT: (&str, &str) = ("k8s.io/api/apps/v1", "Deployment");

    #[test]
    fn a_builder_becomes_a_controller() {
        let watches = [
            ("For", DEPLOYMENT.0, DEPLOYMENT.1),
            ("Owns", "k8s.io/api/core/v1", "ConfigMap"),
            ("Owns", "k8s.io/api/core/v1", "ConfigMap"),
            ("Watches", "k8s.io/api/core/v1", "Secret"),
            ("Watches", "", "obj"),
        ];
        let controllers = all(&[found("Foo.Bar", 3, &watches), found("", 9, &watches[..1])]).expect("two");
        let one = &controllers[0];
        assert_eq!((&*one.name, one.other_name.as_deref()), ("foo-bar", Some("Foo.Bar")));
        assert_eq!((one.owns.len(), one.watches[0].to_string()), (1, "v1 Secret".into()));
        assert_eq!(one.unknown[0].1, "Watches(obj)");
        assert_eq!(one.document()["owns"], json!([{"apiVersion": "v1", "kind": "ConfigMap"}]));
        assert_eq!((&*controllers[1].name, controllers[1].other_name.as_deref()), ("deployment", None));
    }

    #[test]
    fn two_controllers_of_one_name_are_refused_with_both_places() {
        let primary = [("For", DEPLOYMENT.0, DEPLOYMENT.1)];
        let error = all(&[found("", 3, &primary), found("deployment", 9, &primary)]).expect_err("the same");
        assert!(error.contains("a.go:3 and a.go:9") && error.contains("`Named`"), "{error}");
    }

    #[test]
    fn a_project_without_a_usable_controller_is_refused() {
        assert!(all(&[]).expect_err("none").contains("NewControllerManagedBy"));
        for watches in [&[("For", "", "obj")][..], &[("For", "example.org/x", "Y")], &[]] {
            let error = all(&[found("a", 3, watches)]).expect_err("no kind");
            assert!(error.contains("a.go:3"), "{error}");
        }
    }
}
