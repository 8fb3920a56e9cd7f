//! Runs a script once for each generation of its Probe, although the script's own writes call the plugin again.
//!
//! No state is kept between calls. So the status stores the generation whose script was started, and the write is
//! locked to the version that was read. A call that loses this race, or reads an old cache, does not run the script.

use serde_json::{Value, json};
use windlass_sdk::bindings::windlass::plugin::types::ApiReason;
use windlass_sdk::bindings::windlass::plugin::writes::{self, FieldValidation, PatchType, Subresource, WriteOptions};
use windlass_sdk::{ApiError, Failures, Request};

use crate::manifest;
use crate::wire::ObjectRef;

/// Whether this call may run the script.
pub(crate) fn claim(request: &Request, object: &Value) -> Result<bool, Failures> {
    let generation = &object["metadata"]["generation"];
    if object["status"]["ran"] == *generation {
        return Ok(false);
    }
    let target = ObjectRef {
        api_version: manifest::API_VERSION.to_owned(),
        kind: manifest::KIND.to_owned(),
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        uid: None,
    };
    let options = WriteOptions {
        subresource: Some(Subresource { name: "status".to_owned(), parent: None }),
        resource_version: object["metadata"]["resourceVersion"].as_str().map(str::to_owned),
        owned: false,
        force: false,
        dry_run: false,
        field_validation: FieldValidation::Strict,
        manager_suffix: None,
        fields: None,
    };
    let patch = json!({"status": {"ran": generation}}).to_string();
    match writes::patch(&target.into(), PatchType::Merge, &patch, &options) {
        Ok(_) => Ok(true),
        // The cache will show a newer state of the object soon, which causes another call.
        Err(error) if matches!(error.reason, ApiReason::Conflict | ApiReason::NotFound) => Ok(false),
        Err(error) => Err(ApiError::from(error).into()),
    }
}
