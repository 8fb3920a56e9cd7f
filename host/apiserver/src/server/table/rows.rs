//! The cells of each built-in kind, in the order of its columns.

use super::cells::Cell::{
    self, Age, At, By, Count, CountBy, Created, Each, Flag, Labels, Name, Number, Raw, Selector, Text,
};
use super::{nodes, pods, services, storage, texts, workloads};

/// The cells of a kind that has no special columns.
pub(super) const NAME_AND_AGE: &[Cell] = &[Name, Age];
const NAME_AND_CREATION: &[Cell] = &[Name, Created];
const BINDING: &[Cell] = &[Name, By(texts::role), Age, By(texts::users), By(texts::groups), By(texts::accounts)];
const EVENT: &[Cell] = &[
    At(pods::last_seen),
    Text("/type", ""),
    Text("/reason", ""),
    By(pods::event_target),
    By(pods::event_field),
    By(pods::event_source),
    By(pods::event_message),
    At(pods::first_seen),
    CountBy(pods::event_count),
    Name,
];
const CONTAINERS: Cell = Each("/spec/template/spec/containers", "/name", "");
const IMAGES: Cell = Each("/spec/template/spec/containers", "/image", "");

/// The cells of a resource, such as `deployments.apps`.
pub(super) fn of(resource: &str) -> Option<&'static [Cell]> {
    ROWS.iter().find(|(name, _)| *name == resource).map(|(_, cells)| *cells)
}

const ROWS: &[(&str, &[Cell])] = &[
    ("apiservices.apiregistration.k8s.io", &[Name, By(texts::api_server), By(texts::availability), Age]),
    (
        "certificatesigningrequests.certificates.k8s.io",
        &[
            Name,
            Age,
            Text("/spec/signerName", "<none>"),
            Text("/spec/username", ""),
            By(workloads::requested_duration),
            By(texts::request_state),
        ],
    ),
    ("clusterrolebindings.rbac.authorization.k8s.io", BINDING),
    ("clusterroles.rbac.authorization.k8s.io", NAME_AND_CREATION),
    (
        "componentstatuses",
        &[Name, By(texts::health), Text("/conditions/0/message", ""), Text("/conditions/0/error", "")],
    ),
    ("configmaps", &[Name, Count(&["/data", "/binaryData"]), Age]),
    ("controllerrevisions.apps", &[Name, By(workloads::controller), Number("/revision"), Age]),
    (
        "cronjobs.batch",
        &[
            Name,
            Text("/spec/schedule", ""),
            Text("/spec/timeZone", "<none>"),
            By(workloads::suspended),
            Count(&["/status/active"]),
            At(workloads::last_schedule),
            Age,
            Each("/spec/jobTemplate/spec/template/spec/containers", "/name", ""),
            Each("/spec/jobTemplate/spec/template/spec/containers", "/image", ""),
            Selector("/spec/jobTemplate/spec/selector"),
        ],
    ),
    (
        "csidrivers.storage.k8s.io",
        &[
            Name,
            Flag("/spec/attachRequired", true),
            Flag("/spec/podInfoOnMount", false),
            Flag("/spec/storageCapacity", false),
            Each("/spec/tokenRequests", "/audience", "<unset>"),
            Flag("/spec/requiresRepublish", false),
            Each("/spec/volumeLifecycleModes", "", "<none>"),
            Age,
        ],
    ),
    ("csinodes.storage.k8s.io", &[Name, Count(&["/spec/drivers"]), Age]),
    ("csistoragecapacities.storage.k8s.io", NAME_AND_CREATION),
    ("customresourcedefinitions.apiextensions.k8s.io", NAME_AND_CREATION),
    (
        "daemonsets.apps",
        &[
            Name,
            Number("/status/desiredNumberScheduled"),
            Number("/status/currentNumberScheduled"),
            Number("/status/numberReady"),
            Number("/status/updatedNumberScheduled"),
            Number("/status/numberAvailable"),
            Labels("/spec/template/spec/nodeSelector"),
            Age,
            CONTAINERS,
            IMAGES,
            Selector("/spec/selector"),
        ],
    ),
    (
        "deployments.apps",
        &[
            Name,
            By(workloads::ready),
            Number("/status/updatedReplicas"),
            Number("/status/availableReplicas"),
            Age,
            CONTAINERS,
            IMAGES,
            By(workloads::deployment_selector),
        ],
    ),
    ("deviceclasses.resource.k8s.io", NAME_AND_AGE),
    ("endpoints", &[Name, By(services::endpoints), Age]),
    (
        "endpointslices.discovery.k8s.io",
        &[Name, Text("/addressType", ""), By(services::slice_ports), By(services::slice_addresses), Age],
    ),
    ("events", EVENT),
    ("events.events.k8s.io", EVENT),
    (
        "flowschemas.flowcontrol.apiserver.k8s.io",
        &[
            Name,
            Text("/spec/priorityLevelConfiguration/name", ""),
            Number("/spec/matchingPrecedence"),
            Text("/spec/distinguisherMethod/type", "<none>"),
            Age,
            By(texts::missing_level),
        ],
    ),
    (
        "horizontalpodautoscalers.autoscaling",
        &[
            Name,
            By(workloads::scale_target),
            By(workloads::metrics),
            Text("/spec/minReplicas", "<unset>"),
            Number("/spec/maxReplicas"),
            Number("/status/currentReplicas"),
            Age,
        ],
    ),
    (
        "ingressclasses.networking.k8s.io",
        &[By(services::ingress_class_name), Text("/spec/controller", ""), By(services::parameters), Age],
    ),
    (
        "ingresses.networking.k8s.io",
        &[
            Name,
            Text("/spec/ingressClassName", "<none>"),
            By(services::hosts),
            By(services::load_balancer),
            By(services::ingress_ports),
            Age,
        ],
    ),
    // As in a real server, this kind has one cell more than columns.
    ("ipaddresses.networking.k8s.io", &[Name, By(services::parent), Age]),
    (
        "jobs.batch",
        &[
            Name,
            By(workloads::job_state),
            By(workloads::completions),
            At(workloads::job_duration),
            Age,
            CONTAINERS,
            IMAGES,
            Selector("/spec/selector"),
        ],
    ),
    ("leases.coordination.k8s.io", &[Name, Text("/spec/holderIdentity", ""), Age]),
    ("limitranges", NAME_AND_CREATION),
    (
        "mutatingadmissionpolicies.admissionregistration.k8s.io",
        &[Name, Count(&["/spec/mutations"]), By(texts::param_kind), Age],
    ),
    (
        "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        &[Name, Text("/spec/policyName", ""), By(texts::param_reference), Age],
    ),
    ("mutatingwebhookconfigurations.admissionregistration.k8s.io", &[Name, Count(&["/webhooks"]), Age]),
    ("namespaces", &[Name, Text("/status/phase", ""), Age]),
    ("networkpolicies.networking.k8s.io", &[Name, Selector("/spec/podSelector"), Age]),
    (
        "nodes",
        &[
            Name,
            By(nodes::state),
            By(nodes::roles),
            Age,
            Text("/status/nodeInfo/kubeletVersion", ""),
            By(nodes::internal_address),
            By(nodes::external_address),
            Text("/status/nodeInfo/osImage", "<unknown>"),
            By(nodes::kernel),
            Text("/status/nodeInfo/containerRuntimeVersion", "<unknown>"),
        ],
    ),
    (
        "persistentvolumeclaims",
        &[
            Name,
            By(storage::phase),
            Text("/spec/volumeName", ""),
            By(storage::claimed_capacity),
            By(storage::claimed_modes),
            By(storage::class),
            Text("/spec/volumeAttributesClassName", "<unset>"),
            Age,
            Text("/spec/volumeMode", "<unset>"),
        ],
    ),
    (
        "persistentvolumes",
        &[
            Name,
            Text("/spec/capacity/storage", "0"),
            By(storage::modes),
            Text("/spec/persistentVolumeReclaimPolicy", ""),
            By(storage::phase),
            By(storage::claim),
            By(storage::class),
            Text("/spec/volumeAttributesClassName", "<unset>"),
            Text("/status/reason", ""),
            Age,
            Text("/spec/volumeMode", "<unset>"),
        ],
    ),
    (
        "poddisruptionbudgets.policy",
        &[
            Name,
            Text("/spec/minAvailable", "N/A"),
            Text("/spec/maxUnavailable", "N/A"),
            Number("/status/disruptionsAllowed"),
            Age,
        ],
    ),
    (
        "pods",
        &[
            Name,
            By(pods::ready),
            By(pods::state),
            At(pods::restarts),
            Age,
            Text("/status/podIPs/0/ip", "<none>"),
            Text("/spec/nodeName", "<none>"),
            Text("/status/nominatedNodeName", "<none>"),
            By(pods::readiness_gates),
        ],
    ),
    (
        "podtemplates",
        &[
            Name,
            Each("/template/spec/containers", "/name", ""),
            Each("/template/spec/containers", "/image", ""),
            Labels("/template/metadata/labels"),
        ],
    ),
    (
        "priorityclasses.scheduling.k8s.io",
        &[Name, Number("/value"), Flag("/globalDefault", false), Age, Text("/preemptionPolicy", "")],
    ),
    (
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
        &[
            Name,
            Text("/spec/type", ""),
            Raw("/spec/limited/nominalConcurrencyShares", "<none>"),
            Raw("/spec/limited/limitResponse/queuing/queues", "<none>"),
            Raw("/spec/limited/limitResponse/queuing/handSize", "<none>"),
            Raw("/spec/limited/limitResponse/queuing/queueLengthLimit", "<none>"),
            Age,
        ],
    ),
    (
        "replicasets.apps",
        &[
            Name,
            Number("/spec/replicas"),
            Number("/status/replicas"),
            Number("/status/readyReplicas"),
            Age,
            CONTAINERS,
            IMAGES,
            Selector("/spec/selector"),
        ],
    ),
    (
        "replicationcontrollers",
        &[
            Name,
            Number("/spec/replicas"),
            Number("/status/replicas"),
            Number("/status/readyReplicas"),
            Age,
            CONTAINERS,
            IMAGES,
            Labels("/spec/selector"),
        ],
    ),
    ("resourceclaims.resource.k8s.io", &[Name, By(storage::device_claim_state), Age]),
    ("resourceclaimtemplates.resource.k8s.io", NAME_AND_AGE),
    ("resourcequotas", &[Name, By(storage::quota_requests), By(storage::quota_limits), Age]),
    (
        "resourceslices.resource.k8s.io",
        &[Name, Text("/spec/nodeName", ""), Text("/spec/driver", ""), Text("/spec/pool/name", ""), Age],
    ),
    ("rolebindings.rbac.authorization.k8s.io", BINDING),
    ("roles.rbac.authorization.k8s.io", NAME_AND_CREATION),
    ("runtimeclasses.node.k8s.io", &[Name, Text("/handler", ""), Age]),
    ("scale", &[Name, Number("/spec/replicas"), Number("/status/replicas"), Age]),
    ("secrets", &[Name, Text("/type", ""), Count(&["/data"]), Age]),
    ("serviceaccounts", NAME_AND_AGE),
    ("servicecidrs.networking.k8s.io", &[Name, Each("/spec/cidrs", "", ""), Age]),
    (
        "services",
        &[
            Name,
            Text("/spec/type", ""),
            Text("/spec/clusterIPs/0", "<none>"),
            By(services::external_address),
            By(services::ports),
            Age,
            Labels("/spec/selector"),
        ],
    ),
    ("statefulsets.apps", &[Name, By(workloads::ready), Age, CONTAINERS, IMAGES]),
    (
        "storageclasses.storage.k8s.io",
        &[
            By(storage::class_name),
            Text("/provisioner", ""),
            Text("/reclaimPolicy", "Delete"),
            Text("/volumeBindingMode", "Immediate"),
            Flag("/allowVolumeExpansion", false),
            Age,
        ],
    ),
    (
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        &[Name, Count(&["/spec/validations"]), By(texts::param_kind), Age],
    ),
    (
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        &[Name, Text("/spec/policyName", ""), By(texts::param_reference), Age],
    ),
    ("validatingwebhookconfigurations.admissionregistration.k8s.io", &[Name, Count(&["/webhooks"]), Age]),
    (
        "volumeattachments.storage.k8s.io",
        &[
            Name,
            Text("/spec/attacher", ""),
            Text("/spec/source/persistentVolumeName", ""),
            Text("/spec/nodeName", ""),
            Flag("/status/attached", false),
            Age,
        ],
    ),
    ("volumeattributesclasses.storage.k8s.io", &[Name, Text("/driverName", ""), Age]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::builtin;
    use crate::resources::column;

    #[test]
    fn each_column_of_a_listed_resource_has_a_cell() {
        for resource in builtin::resources() {
            let name = resource.id.to_string();
            let Some(columns) = column::built_in(&name) else { continue };
            let cells = of(&name).unwrap_or_else(|| panic!("{name} has no row"));
            let more = usize::from(name == "ipaddresses.networking.k8s.io");
            assert_eq!(cells.len(), columns.len() + more, "{name}");
        }
    }
}
