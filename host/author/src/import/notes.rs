//! Notes for the author beside the limitations.

use serde_json::Value;

use super::controllers::ImportedController;
use super::environment::Environment;
use super::gomod::GoMod;
use super::samples::Objects;
use super::scan::SourceFacts;
use super::setups::MainCalls;

/// The lowest version of Kubernetes' Go modules that the library in place of controller-runtime can be built with.
const KUBERNETES_LEAST: &str = "v0.34.0";

pub(super) fn notes(
    facts: &SourceFacts,
    controllers: &[ImportedController],
    main: &MainCalls,
    go_mod: &GoMod,
    objects: &Objects,
    environment: &Environment,
) -> Vec<String> {
    let mut notes: Vec<String> = old_modules(go_mod).into_iter().collect();
    notes.extend(of_controllers(controllers));
    if !main.unused.is_empty() {
        notes.push(format!("left out, because the old main does not set them up: {}", main.unused.join(", ")));
    }
    for it in facts.finalizers.iter().filter(|it| it.name.is_empty()) {
        notes.push(format!(
            "the finalizer at {} is not a constant: the manifest asks for all. Name it in windlass_plugin.go",
            it.place
        ));
    }
    if !environment.from_elsewhere.is_empty() {
        let names = environment.from_elsewhere.join(", ");
        notes.push(format!(
            "config/manager takes these variables from other objects, and main.go does not set them: {names}"
        ));
    }
    let empty = objects.empty_samples();
    if !empty.is_empty() {
        notes.push(format!("samples with an empty spec, which the API server refuses: fill {}", empty.join(", ")));
    }
    let converts = |crd: &Value| crd["spec"]["conversion"]["strategy"] == "Webhook";
    if objects.crds().iter().any(converts) {
        notes.push("a definition converts versions by a webhook: only its storage version can be served".to_owned());
    }
    notes
}

fn old_modules(go_mod: &GoMod) -> Option<String> {
    let modules = ["k8s.io/api", "k8s.io/apimachinery"];
    let old: Vec<_> = modules.into_iter().filter(|module| go_mod.older(module, KUBERNETES_LEAST).is_some()).collect();
    let first = go_mod.older(old.first()?, KUBERNETES_LEAST)?;
    let newer: Vec<_> = old.iter().map(|module| format!("{module}@{KUBERNETES_LEAST}")).collect();
    let (old, newer) = (old.join(" and "), newer.join(" "));
    Some(format!(
        "go.mod requires {old} {first}, and the build needs {KUBERNETES_LEAST} or newer: run `go get {newer}`, and import \
         again with --force"
    ))
}

fn of_controllers(controllers: &[ImportedController]) -> Vec<String> {
    let renamed = controllers.iter().filter_map(|it| Some(format!("`{}` is {}", it.other_name.as_ref()?, it.name)));
    let renamed: Vec<_> = renamed.collect();
    let mut notes = Vec::new();
    if !renamed.is_empty() {
        notes.push(format!("names of controllers are DNS labels: {}", renamed.join(", ")));
    }
    for it in controllers {
        if it.is_name_guessed {
            notes.push(format!("the name of the controller at {} is no constant; here it is {}", it.place, it.name));
        }
        for (place, text) in &it.unknown {
            notes.push(format!("the kind of `{text}` at {place} is not in its Go type: the policy may lack it"));
        }
    }
    notes
}
