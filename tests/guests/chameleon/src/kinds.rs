//! The mode whose kinds the configuration names.

use serde_json::{Value, json};
use windlass_sdk::manifest::{Controller, Manifest, Mapping, Watch, WriteVerb};
use windlass_sdk::{Failures, ObjectRef, Outcome, Request, info, writes};

pub(crate) fn controller() -> Controller {
    let primary = Watch::kinds_from("/kinds").verb(WriteVerb::Delete);
    Controller::new("chameleon", primary).watches(Watch::kinds_from("/related"), Mapping::All)
}

pub(crate) fn configured(manifest: Manifest) -> Manifest {
    let list = json!({"type": "array"});
    manifest.config_schema(json!({"type": "object", "properties": {"kinds": list, "related": list}}))
}

/// Deletes objects that have expired.
pub(crate) fn sweep(request: &Request) -> Result<Outcome, Failures> {
    let Some(object) = request.object::<Value>()? else { return Ok(Outcome::Done) };
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name, controller) = (text("/kind"), &request.name, &request.controller);
    info!("chameleon finds {kind} {name} as {controller}");
    if text("/metadata/annotations/chameleon.windlass.dev~1expired") == "true" {
        let target = ObjectRef::cluster_scoped(text("/apiVersion"), kind, name);
        let target = ObjectRef { namespace: request.namespace.clone(), ..target };
        writes::delete(target.with_uid(text("/metadata/uid"))).send()?;
    }
    Ok(Outcome::Done)
}
