//! The messages that can be read: the field numbers of `k8s.io/api`'s generated.proto, for the kinds and fields that
//! kubectl's creating commands use. Fields that are not listed are skipped.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    Bool,
    Int,
    Text,
    IntOrString,
    /// Strings by string.
    Map,
    /// Bytes by string.
    BytesMap,
    Message(&'static str),
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageField {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) kind: FieldType,
    pub(super) repeated: bool,
    /// Being there means something even if the value is empty.
    pub(super) pointer: bool,
}

/// `number name type`, with `[]` for lists and `?` for pointers.
const MESSAGES: &[(&str, &str)] = &[
    ("Unknown", "1 typeMeta TypeMeta"),
    ("TypeMeta", "1 apiVersion text, 2 kind text"),
    (
        "ObjectMeta",
        "1 name text, 2 generateName text, 3 namespace text, 5 uid text, 6 resourceVersion text, 11 labels map, \
         12 annotations map, 13 ownerReferences OwnerReference[], 14 finalizers text[]",
    ),
    (
        "OwnerReference",
        "1 kind text, 3 name text, 4 uid text, 5 apiVersion text, 6 controller bool?, 7 blockOwnerDeletion bool?",
    ),
    ("IntOrString", "1 type int, 2 number int, 3 text text"),
    ("LocalObjectReference", "1 name text"),
    (
        "DeleteOptions",
        "1 gracePeriodSeconds int?, 2 preconditions Preconditions, 3 orphanDependents bool?, 4 propagationPolicy text, \
         5 dryRun text[]",
    ),
    ("Preconditions", "1 uid text, 2 resourceVersion text"),
    ("Namespace", "1 metadata ObjectMeta"),
    ("ConfigMap", "1 metadata ObjectMeta, 2 data map, 3 binaryData bytesmap, 4 immutable bool?"),
    ("Secret", "1 metadata ObjectMeta, 2 data bytesmap, 3 type text, 4 stringData map, 5 immutable bool?"),
    (
        "ServiceAccount",
        "1 metadata ObjectMeta, 3 imagePullSecrets LocalObjectReference[], 4 automountServiceAccountToken bool?",
    ),
    ("SelfSubjectReview", "1 metadata ObjectMeta"),
    ("SelfSubjectAccessReview", "1 metadata ObjectMeta, 2 spec AccessReviewSpec"),
    ("AccessReviewSpec", "1 resourceAttributes ResourceAttributes, 2 nonResourceAttributes NonResourceAttributes"),
    (
        "ResourceAttributes",
        "1 namespace text, 2 verb text, 3 group text, 4 version text, 5 resource text, 6 subresource text, 7 name text",
    ),
    ("NonResourceAttributes", "1 path text, 2 verb text"),
    ("SelfSubjectRulesReview", "1 metadata ObjectMeta, 2 spec RulesReviewSpec"),
    ("RulesReviewSpec", "1 namespace text"),
    ("LabelSelector", "1 matchLabels map"),
    ("Deployment", "1 metadata ObjectMeta, 2 spec DeploymentSpec"),
    ("DeploymentSpec", "1 replicas int?, 2 selector LabelSelector, 3 template PodTemplateSpec"),
    ("PodTemplateSpec", "1 metadata ObjectMeta, 2 spec PodSpec"),
    ("PodSpec", "2 containers Container[], 3 restartPolicy text"),
    (
        "Container",
        "1 name text, 2 image text, 3 command text[], 4 args text[], 5 workingDir text, 6 ports ContainerPort[], \
         7 env EnvVar[], 14 imagePullPolicy text",
    ),
    ("ContainerPort", "1 name text, 2 hostPort int, 3 containerPort int, 4 protocol text"),
    ("EnvVar", "1 name text, 2 value text"),
    ("Job", "1 metadata ObjectMeta, 2 spec JobSpec"),
    ("JobSpec", "1 parallelism int?, 2 completions int?, 6 template PodTemplateSpec, 7 backoffLimit int?"),
    ("CronJob", "1 metadata ObjectMeta, 2 spec CronJobSpec"),
    ("CronJobSpec", "1 schedule text, 5 jobTemplate JobTemplateSpec"),
    ("JobTemplateSpec", "1 metadata ObjectMeta, 2 spec JobSpec"),
    ("Service", "1 metadata ObjectMeta, 2 spec ServiceSpec"),
    (
        "ServiceSpec",
        "1 ports ServicePort[], 2 selector map, 3 clusterIP text, 4 type text, 7 sessionAffinity text, 10 externalName text",
    ),
    ("ServicePort", "1 name text, 2 protocol text, 3 port int, 4 targetPort intorstring, 5 nodePort int"),
    ("Role", "1 metadata ObjectMeta, 2 rules PolicyRule[]"),
    ("ClusterRole", "1 metadata ObjectMeta, 2 rules PolicyRule[]"),
    (
        "PolicyRule",
        "1 verbs text[], 2 apiGroups text[], 3 resources text[], 4 resourceNames text[], 5 nonResourceURLs text[]",
    ),
    ("RoleBinding", "1 metadata ObjectMeta, 2 subjects Subject[], 3 roleRef RoleRef"),
    ("ClusterRoleBinding", "1 metadata ObjectMeta, 2 subjects Subject[], 3 roleRef RoleRef"),
    ("Subject", "1 kind text, 2 apiGroup text, 3 name text, 4 namespace text"),
    ("RoleRef", "1 apiGroup text, 2 kind text, 3 name text"),
];

static TABLE: LazyLock<HashMap<&str, Vec<MessageField>>> = LazyLock::new(|| {
    MESSAGES.iter().map(|(name, text)| (*name, text.split(", ").filter_map(field).collect())).collect()
});

/// The fields of a message, if it can be read.
pub(super) fn fields(message: &str) -> Option<&'static [MessageField]> {
    TABLE.get(message).map(Vec::as_slice)
}

fn field(text: &'static str) -> Option<MessageField> {
    let mut words = text.split_whitespace();
    let (number, name, kind) = (words.next()?, words.next()?, words.next()?);
    let (kind, pointer) = kind.strip_suffix('?').map_or((kind, false), |kind| (kind, true));
    let (kind, repeated) = kind.strip_suffix("[]").map_or((kind, false), |kind| (kind, true));
    let kind = match kind {
        "bool" => FieldType::Bool,
        "int" => FieldType::Int,
        "text" => FieldType::Text,
        "intorstring" => FieldType::IntOrString,
        "map" => FieldType::Map,
        "bytesmap" => FieldType::BytesMap,
        message => FieldType::Message(message),
    };
    Some(MessageField { number: number.parse().ok()?, name, kind, repeated, pointer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_of_the_table_is_whole() {
        for (name, text) in MESSAGES {
            let fields = fields(name).expect("it is in the table");
            assert_eq!(fields.len(), text.split(", ").count(), "{name}");
            for field in fields {
                if let FieldType::Message(inner) = field.kind {
                    assert!(super::fields(inner).is_some(), "{name}.{} is a {inner}", field.name);
                }
            }
        }
    }
}
