//! Custom resource definitions: finds the resources that they define, and writes their status. In a real server,
//! controllers write it a little later. Here a definition is established as soon as its creation is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::object::json_path::JsonPath;
use crate::object::{self, text};
use crate::pattern::PatternBudget;
use crate::resources::api_approval::ApiApproval;
use crate::resources::builtin;
use crate::resources::column::Column;
use crate::resources::converter::Converter;
use crate::resources::naming::{self, NameDecision, TakenNames};
use crate::resources::resource::{CustomVersion, GroupResource, ResourceType, ScalePaths, Subresource};
use crate::schema::{self, Schema};

/// The finalizer that keeps a deleted definition until its objects are gone.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The condition about protected groups of the Kubernetes project.
const APPROVED: &str = "KubernetesAPIApprovalPolicyConformant";

const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The resource that the definition defines.
pub(crate) fn defined_resource(definition: &Value) -> GroupResource {
    GroupResource::new(text(definition, "/spec/group"), text(definition, "/spec/names/plural"))
}

/// One type per version of a valid definition.
pub(crate) fn resource_types(definition: &Arc<Value>) -> Vec<ResourceType> {
    let patterns = PatternBudget::full();
    let schemas: BTreeMap<String, Schema> = versions(definition)
        .iter()
        .filter_map(|version| {
            let schema = Schema::parse_within(&patterns, version.pointer("/schema/openAPIV3Schema")?).ok()?;
            Some((text(version, "/name").to_owned(), schema))
        })
        .collect();
    let schemas = Arc::new(schemas);
    versions(definition).iter().filter_map(|version| resource_type(definition, version, &schemas)).collect()
}

/// The entries of `spec.versions`.
pub(crate) fn versions(definition: &Value) -> &[Value] {
    object::items(definition, "/spec/versions")
}

fn resource_type(
    definition: &Arc<Value>,
    version: &Value,
    schemas: &Arc<BTreeMap<String, Schema>>,
) -> Option<ResourceType> {
    let id = defined_resource(definition);
    // Only accepted names are used, not all that the spec asks for.
    let names = definition.pointer("/status/acceptedNames")?;
    let owned = |values: Vec<&str>| values.into_iter().map(str::to_owned).collect();
    let scale = version.pointer("/subresources/scale").map(|scale| ScalePaths {
        spec_replicas: text(scale, "/specReplicasPath").trim_start_matches('.').to_owned(),
        status_replicas: text(scale, "/statusReplicasPath").trim_start_matches('.').to_owned(),
        label_selector: scale["labelSelectorPath"].as_str().map(|path| path.trim_start_matches('.').to_owned()),
    });
    Some(ResourceType {
        storage: id.clone(),
        id,
        version: text(version, "/name").to_owned(),
        kind: text(names, "/kind").to_owned(),
        list_kind: text(names, "/listKind").to_owned(),
        singular: text(names, "/singular").to_owned(),
        short_names: owned(object::strings(names, "/shortNames")),
        categories: owned(object::strings(names, "/categories")),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        has_status: version.pointer("/subresources/status").is_some(),
        scale,
        storage_hash: storage_hash(definition, version),
        subresources: subresources(definition, version),
        has_generation: true,
        unconditional_update: false,
        create_on_update: false,
        verbs: VERBS.map(str::to_owned).to_vec(),
        returns_deleted: false,
        type_name: "",
        custom: Some(custom_version(definition, version, schemas)?),
    })
}

/// The storage hash of a version: a hash of group, version and kind, as in a real server.
fn storage_hash(definition: &Value, version: &Value) -> String {
    if version["storage"] != json!(true) {
        return String::new();
    }
    let (group, kind) = (text(definition, "/spec/group"), text(definition, "/status/acceptedNames/kind"));
    let hash = Sha256::digest(format!("{group}/{}/{kind}", text(version, "/name")));
    BASE64_STANDARD.encode(&hash[..8])
}

fn subresources(definition: &Value, version: &Value) -> Vec<Subresource> {
    let own = (text(definition, "/spec/group"), text(version, "/name"), text(definition, "/status/acceptedNames/kind"));
    let kinds = [("status", own), ("scale", ("autoscaling", "v1", "Scale"))];
    let declared = kinds.into_iter().filter(|(name, _)| version.pointer(&format!("/subresources/{name}")).is_some());
    declared
        .map(|(name, (group, version, kind))| Subresource {
            name: name.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            type_name: String::new(),
            verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
        })
        .collect()
}

fn custom_version(
    definition: &Arc<Value>,
    version: &Value,
    schemas: &Arc<BTreeMap<String, Schema>>,
) -> Option<CustomVersion> {
    let selectable_fields = object::items(version, "/selectableFields")
        .iter()
        .map(|field| text(field, "/jsonPath").trim_start_matches('.').to_owned())
        .collect();
    let deprecated = version["deprecated"] == json!(true);
    let api_version = format!("{}/{}", text(definition, "/spec/group"), text(version, "/name"));
    let usual = || format!("{api_version} {} is deprecated", text(definition, "/spec/names/kind"));
    Some(CustomVersion {
        served: version["served"] == json!(true),
        stored: version["storage"] == json!(true),
        schema: schemas.get(text(version, "/name"))?.clone(),
        schemas: Arc::clone(schemas),
        defined_at: object::resource_version(definition).parse().unwrap_or_default(),
        definition: Arc::clone(definition),
        columns: columns(version),
        selectable_fields,
        deprecation_warning: deprecated
            .then(|| version["deprecationWarning"].as_str().map_or_else(usual, str::to_owned)),
        terminating: object::is_terminating(definition),
        converter: Converter::read(definition),
    })
}

/// The columns that a version declares.
fn columns(version: &Value) -> Vec<(Column, JsonPath)> {
    object::items(version, "/additionalPrinterColumns")
        .iter()
        .filter_map(|column| {
            let path = JsonPath::parse(text(column, "/jsonPath")).ok()?;
            Some((Column::from_definition(column), path))
        })
        .collect()
}

/// Fills in optional fields of a definition.
pub(crate) fn default_definition(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    let names = object::map_mut(object::map_mut_value(definition, "spec"), "names");
    let is_absent = |names: &Map<String, Value>, field: &str| names.get(field).is_none_or(|name| *name == json!(""));
    if is_absent(names, "singular") {
        names.insert("singular".to_owned(), json!(kind.to_lowercase()));
    }
    if is_absent(names, "listKind") && !kind.is_empty() {
        names.insert("listKind".to_owned(), json!(format!("{kind}List")));
    }
    object::map_mut(definition, "spec").entry("conversion").or_insert_with(|| json!({ "strategy": "None" }));
    let service = definition.pointer_mut("/spec/conversion/webhook/clientConfig/service");
    if let Some(service) = service.and_then(Value::as_object_mut) {
        service.entry("port").or_insert(json!(443));
    }
}

/// Adds the current storage version to the stored versions, like `PrepareForCreate` in
/// `apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go`.
pub(crate) fn record_storage_version(definition: &mut Value) {
    let mut stored: Vec<String> =
        object::strings(definition, "/status/storedVersions").into_iter().map(str::to_owned).collect();
    let storage = versions(definition).iter().find(|version| version["storage"] == json!(true));
    let storage = storage.map(|version| text(version, "/name").to_owned());
    stored.extend(storage.filter(|name| !stored.contains(name)));
    if !stored.is_empty() {
        object::map_mut(definition, "status").insert("storedVersions".to_owned(), json!(stored));
    }
}

/// Warnings about unknown formats, except formats that the previous state has already, like `WarningsOnCreate` and
/// `WarningsOnUpdate` in `apiextensions-apiserver/pkg/registry/customresourcedefinition/strategy.go`.
pub(crate) fn format_warnings(definition: &Value, previous: Option<&Value>) -> Vec<String> {
    let known: BTreeSet<&str> = previous.map(unrecognized_formats).unwrap_or_default().into_iter().collect();
    let mut warnings: Vec<String> = Vec::new();
    for format in unrecognized_formats(definition).into_iter().filter(|format| !known.contains(format)) {
        let warning = format!("unrecognized format {format:?}");
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

fn unrecognized_formats(definition: &Value) -> Vec<&str> {
    let schemas = versions(definition).iter().filter_map(|version| version.pointer("/schema/openAPIV3Schema"));
    schemas.flat_map(schema::unrecognized_formats).collect()
}

/// Writes the status of a definition: that it is established, or which names prevent this.
pub(crate) fn establish(definition: &mut Value, taken: &TakenNames<'_>, now: &str) {
    record_storage_version(definition);
    let NameDecision { accepted, conflict } = naming::decide(definition, taken);
    if let Some(approval) = ApiApproval::of(definition) {
        let message = approval.message(definition);
        let is_approved = approval == ApiApproval::Approved;
        set_condition(definition, APPROVED, is_approved, (approval.reason(), &message), now);
    }
    match &conflict {
        None => set_condition(definition, "NamesAccepted", true, ("NoConflicts", "no conflicts found"), now),
        Some((reason, message)) => set_condition(definition, "NamesAccepted", false, (reason, message), now),
    }
    // A definition that is already established stays established, with its accepted names.
    if conflict.is_none() {
        let message = "the initial names have been accepted";
        set_condition(definition, "Established", true, ("InitialNamesAccepted", message), now);
    } else if !is_established(definition) {
        set_condition(definition, "Established", false, ("NotAccepted", "not all names are accepted"), now);
    }
    if object::is_terminating(definition) {
        let message = "CustomResource deletion is in progress";
        set_condition(definition, "Terminating", true, ("InstanceDeletionInProgress", message), now);
    }
    let status = object::map_mut(definition, "status");
    status.insert("acceptedNames".to_owned(), accepted);
}

/// Sets a condition. The transition time changes only if the status changes.
fn set_condition(definition: &mut Value, kind: &str, holds: bool, (reason, message): (&str, &str), now: &str) {
    let state = if holds { "True" } else { "False" };
    let status = object::map_mut(definition, "status");
    let conditions = status.entry("conditions").or_insert(Value::Null);
    if conditions.is_null() {
        *conditions = json!([]);
    }
    let Some(conditions) = conditions.as_array_mut() else { return };
    let known = conditions.iter_mut().find(|condition| condition["type"] == json!(kind));
    let since = known.as_ref().filter(|condition| condition["status"] == json!(state));
    let since = since.map_or_else(|| json!(now), |condition| condition["lastTransitionTime"].clone());
    let condition = json!({
        "type": kind, "status": state, "reason": reason, "message": message, "lastTransitionTime": since,
    });
    match known {
        Some(place) => *place = condition,
        None => conditions.push(condition),
    }
}

/// Whether `resource` is the resource of definitions themselves.
pub(crate) fn is_definition(resource: &GroupResource) -> bool {
    *resource == builtin::custom_resource_definitions()
}

/// Whether two states of a definition serve the same resources.
pub(crate) fn defines_the_same(one: &Value, other: &Value) -> bool {
    is_established(one)
        && one["spec"] == other["spec"]
        && one["status"]["acceptedNames"] == other["status"]["acceptedNames"]
}

/// Whether all names of the definition were accepted at some time. Since then the definition is served.
pub(crate) fn is_established(definition: &Value) -> bool {
    object::condition_holds(definition, "Established")
}
