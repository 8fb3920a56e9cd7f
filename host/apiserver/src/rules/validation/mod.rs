//! Validation of objects: the rules of `metadata` for every kind, and for built-ins those rules that users run
//! into most. It is not the whole of a real server's validation; README.md says so.

mod admission;
mod admission_policies;
mod autoscalers;
mod certificates;
mod definitions;
mod embedded;
mod events;
mod job_policies;
mod jobs;
mod limits;
mod metadata;
mod networks;
mod nodes;
mod pods;
mod policies;
mod report;
mod scale;
mod services;
mod storage;
mod stored;
mod table;
mod workloads;

pub(crate) use metadata::metadata;
use report::Report;
use serde_json::Value;

use crate::cause::Cause;
use crate::resources::resource::ResourceType;
use crate::schema::{Judgement, Schema};

/// Judges a custom resource, beside its metadata. Its rules count on the types that the schema asks for, so
/// they are left out if what is wrong may break that.
pub(crate) fn custom(
    resource: &ResourceType,
    schema: &Schema,
    subresource: &str,
    object: &Value,
    previous: Option<&Value>,
) -> Judgement {
    const BLOCKING: [&str; 5] = [
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    ];
    let mut causes = match subresource {
        "status" => schema.validate_status(object, previous),
        _ => schema.validate(object, previous),
    };
    if let Some(paths) = &resource.scale {
        scale::scale(paths, subresource, object, &mut causes);
    }
    if schema.embeds() {
        embedded::check(schema.root(), object, "", &mut causes);
    }
    if !schema.has_rules() {
        return Judgement { causes, warnings: Vec::new() };
    }
    if causes.iter().any(|cause| BLOCKING.contains(&cause.reason)) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors \
                   to complete validation";
        causes.push(Cause::invalid("<nil>", &Value::Null, why));
        return Judgement { causes, warnings: Vec::new() };
    }
    let found = schema.check_rules(object, previous);
    causes.extend(found.causes);
    Judgement { causes, warnings: found.warnings }
}

/// Errors of a built-in object beside its metadata, as it is after a write to a subresource (empty: the object itself).
pub(crate) fn builtin(
    resource: &ResourceType,
    subresource: &str,
    object: &Value,
    previous: Option<&Value>,
) -> Vec<Cause> {
    let mut report = Report::default();
    let found = &mut report;
    match (resource.id.group.as_str(), resource.kind.as_str()) {
        ("apps", kind @ ("Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")) => {
            workloads::workload(kind, object, previous, found);
        }
        ("apps", "ControllerRevision") => {
            found.not_negative("revision", &object["revision"]);
            found.immutable("data", object, previous);
        }
        ("batch", "Job") => jobs::job(object, previous, found),
        ("batch", "CronJob") => jobs::cron_job(object, previous, found),
        (group @ ("" | "events.k8s.io"), "Event") => events::event(group, object, previous, found),
        ("storage.k8s.io", "StorageClass") => storage::storage_class(object, previous, found),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class(object, previous, found),
        ("storage.k8s.io", "CSIDriver") => storage::driver(object, found),
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(object, found),
        ("node.k8s.io", "RuntimeClass") => nodes::runtime_class(object, previous, found),
        ("networking.k8s.io", "Ingress") => networks::ingress(object, found),
        ("networking.k8s.io", "IngressClass") => networks::ingress_class(object, previous, found),
        ("networking.k8s.io", "NetworkPolicy") => networks::network_policy(object, found),
        ("discovery.k8s.io", "EndpointSlice") => networks::endpoint_slice(object, previous, found),
        ("rbac.authorization.k8s.io", kind @ ("Role" | "ClusterRole")) => policies::role(kind, object, found),
        ("rbac.authorization.k8s.io", kind) => policies::binding(kind, object, previous, found),
        ("policy", "PodDisruptionBudget") => policies::budget(object, found),
        ("autoscaling", "HorizontalPodAutoscaler") if resource.version == "v2" => {
            autoscalers::autoscaler(object, found);
        }
        ("coordination.k8s.io", "Lease") => policies::lease(object, found),
        ("scheduling.k8s.io", "PriorityClass") => policies::priority_class(object, previous, found),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration") => {
            admission::webhooks(object, found);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => admission_policies::policy(object, found),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            admission_policies::binding(object, found);
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            certificates::signing_request(subresource, object, previous, found);
        }
        // Clients may write any status of a definition: the server mends it.
        ("apiextensions.k8s.io", _) if subresource == "status" => {}
        ("apiextensions.k8s.io", _) => return definitions::validate(object, previous),
        ("", kind) => core(kind, object, previous, found),
        _ => {}
    }
    report.0
}

/// Errors of the kinds of the core group.
fn core(kind: &str, object: &Value, previous: Option<&Value>, found: &mut Report) {
    match kind {
        "ReplicationController" => workloads::replication_controller(object, found),
        "Pod" => pods::pod(object, previous, found),
        "PodTemplate" => pods::template(&object["template"], "template", found),
        "Service" => services::service(object, previous, found),
        "ConfigMap" => stored::config_map(object, previous, found),
        "Secret" => stored::secret(object, previous, found),
        "PersistentVolumeClaim" => storage::claim(object, previous, found),
        "PersistentVolume" => storage::volume(object, previous, found),
        "ResourceQuota" => {
            policies::quota(object, found);
            limits::quota_scopes(object, previous, found);
        }
        "LimitRange" => limits::limit_range(object, found),
        "Node" => nodes::node(object, previous, found),
        "Endpoints" => networks::endpoints(object, found),
        _ => {}
    }
}
