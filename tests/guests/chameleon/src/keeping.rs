//! The modes about what the host keeps for a plugin: finalizers, definitions, configuration.

use serde_json::{Value, json};
use windlass_sdk::manifest::{Controller, Manifest, Options, Predicate, Watch, Where};
use windlass_sdk::{Failures, Outcome, Request, config, info};

use crate::kinds;
use crate::modes::Mode;
use crate::steady::Steady;

/// The group of `bringing`.
const BROUGHT: &str = "brought.windlass.dev";
/// A delay that is longer than a test.
const BEYOND_TEST_MILLIS: u32 = 3_600_000;

/// The kind of the primaries.
pub(crate) fn kind(mode: Mode) -> (&'static str, &'static str) {
    match mode {
        Mode::MissingCrd => ("missing.windlass.dev/v1", "Missing"),
        Mode::Bringing => ("brought.windlass.dev/v1", "Brought"),
        Mode::BringingOther => ("brought.windlass.dev/v2", "Brought"),
        Mode::Selecting | Mode::Mapping => ("v1", "Service"),
        _ => ("v1", "ConfigMap"),
    }
}

pub(crate) fn primary(mode: Mode, primary: Watch) -> Watch {
    match mode {
        // Changes by the host itself, and a pause, must run a key although this predicate rejects them.
        Mode::Finalizing => primary.predicate(Predicate::Fields { pointers: vec!["/data".into()] }),
        Mode::Choosy => primary.only(Where::annotation("chameleon.windlass.dev/auto").is("true")),
        _ => primary,
    }
}

pub(crate) fn controller(mode: Mode, controller: Controller) -> Controller {
    match mode {
        Mode::Finalizing | Mode::Choosy | Mode::Judging(_) => {
            controller.options(Options { finalizer: Some(true), ..Options::default() })
        }
        _ => controller,
    }
}

pub(crate) fn manifest(mode: Mode, manifest: Manifest) -> Manifest {
    match mode {
        Mode::Bringing => manifest.crd(definition("v1")),
        Mode::BringingOther => manifest.crd(definition("v2")),
        Mode::Steady(Steady { brings: true, number, .. }) => {
            let mut definition = definition("v1");
            definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] =
                format!("of generation {number}").into();
            manifest.crd(definition)
        }
        Mode::Kinds => kinds::configured(manifest),
        Mode::Configured => manifest.config_schema(json!({
            "type": "object",
            "required": ["greeting"],
            "additionalProperties": false,
            "properties": {"greeting": {"type": "string"}, "smtp": {"type": "object"}},
        })),
        _ => manifest,
    }
}

fn definition(version: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("broughts.{BROUGHT}")},
        "spec": {
            "group": BROUGHT, "scope": "Namespaced", "names": {"kind": "Brought", "plural": "broughts"},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            }],
        },
    })
}

/// Cleans up as long as `data.cleaned` is not set.
pub(crate) fn finalize(request: &Request) -> Result<Outcome, Failures> {
    let name = &request.name;
    let Some(object) = request.object::<Value>()? else {
        info!("chameleon misses {name}");
        return Ok(Outcome::Done);
    };
    if !request.deleting {
        let finalizers = object["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
        info!("chameleon sees {name} with {finalizers} finalizers");
        return Ok(Outcome::Done);
    }
    if object["data"]["cleaned"].is_string() {
        info!("chameleon has cleaned up {name}");
        return Ok(Outcome::Done);
    }
    info!("chameleon cleans up {name}");
    Ok(Outcome::RequeueAfter(BEYOND_TEST_MILLIS))
}

pub(crate) fn greet(request: &Request) -> Result<Outcome, Failures> {
    let settings: Value = config::get()?;
    let password = settings["smtp"]["password"].as_str().unwrap_or_default();
    let letters = password.len();
    let (name, greeting) = (&request.name, settings["greeting"].as_str().unwrap_or_default());
    info!("chameleon greets {name} with {greeting} and {letters} letters");
    if greeting == "indiscreet" {
        info!("chameleon logs in with {password}");
        return Err(Failures::transient(format!("{password} is refused")));
    }
    Ok(Outcome::Done)
}
