//! Validates volumes of pods, and the sources that persistent volumes have, too, like `validateVolumeSource` and the
//! functions that it calls in `pkg/apis/core/validation/validation.go` of Kubernetes 1.36.3.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::report::Report;
use super::super::storage;
use super::super::table::{self, Check, FieldRule, is_empty};
use super::fields;
use crate::object::{self, names, text};
use crate::schema::typed::quantity;
use Check::{Named, NoBacksteps, OneOf, PathBelow, Range, RangeOr, Required, RequiredBecause};

const MODE: Check = RangeOr(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive");
const PARTITION: Check = RangeOr(0, 255, "must be between 1 and 255, inclusive");
const HOST_PATH_TYPES: Check =
    OneOf(&["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"]);
const HOST_PORTS: &str = "must be a host:port pair or multiple pairs separated by commas";

/// A source of volumes.
pub(in super::super) struct Source {
    /// The field in the API.
    name: &'static str,
    /// The names of the source in errors: first in errors about its own fields, then in the error about a volume with a
    /// second source.
    shown: (&'static str, &'static str),
    rules: &'static [FieldRule],
}

impl Source {
    /// The field in the API.
    pub(in super::super) fn name(&self) -> &'static str {
        self.name
    }
}

const fn source(name: &'static str, rules: &'static [FieldRule]) -> Source {
    Source { name, shown: (name, name), rules }
}

/// The sources of pod volumes. They are in a real server's order, because the first source that is set counts.
const SOURCES: &[Source] = &[
    source("emptyDir", &[]),
    source("hostPath", &[("path", Required), ("path", NoBacksteps)]),
    source("gitRepo", &[("repository", Required)]),
    Source { shown: ("persistentDisk", "gcePersistentDisk"), ..source("gcePersistentDisk", GCE) },
    source("awsElasticBlockStore", AWS),
    source(
        "secret",
        &[
            ("secretName", Required),
            ("defaultMode", MODE),
            ("items[].key", Required),
            ("items[].path", Required),
            ("items[].path", PathBelow),
            ("items[].mode", MODE),
        ],
    ),
    source("nfs", NFS),
    source("iscsi", &[("targetPortal", Required), ("iqn", Required), ("lun", Range(0, 255))]),
    source("glusterfs", GLUSTERFS),
    source("flocker", &[]),
    source("persistentVolumeClaim", &[("claimName", Required)]),
    source("rbd", RBD),
    source("cinder", &[("volumeID", Required), ("secretRef.name", Required)]),
    Source { shown: ("cephfs", "cephFS"), ..source("cephfs", CEPHFS) },
    source("quobyte", QUOBYTE),
    Source { shown: ("downwardAPI", "downwarAPI"), ..source("downwardAPI", &[("defaultMode", MODE)]) },
    source("fc", &[]),
    source("flexVolume", &[("driver", Required)]),
    source(
        "configMap",
        &[
            ("name", Required),
            ("defaultMode", MODE),
            ("items[].key", Required),
            ("items[].path", Required),
            ("items[].path", PathBelow),
            ("items[].mode", MODE),
        ],
    ),
    source("azureFile", AZURE_FILE),
    source("vsphereVolume", VSPHERE),
    source("photonPersistentDisk", PHOTON),
    source("portworxVolume", PORTWORX),
    source("azureDisk", AZURE_DISK),
    source("storageos", &[("volumeName", Named(names::check_dns_label)), ("secretRef.name", Required)]),
    source("projected", &[("defaultMode", MODE)]),
    source("scaleIO", SCALE_IO),
    source("csi", &[("nodePublishSecretRef.name", Required)]),
    source("ephemeral", &[("volumeClaimTemplate", Check::Present(""))]),
    source("image", &[("pullPolicy", OneOf(&["Always", "IfNotPresent", "Never"]))]),
];

/// The sources of persistent volumes. Their references to secrets have namespaces.
pub(in super::super) const PERSISTENT: &[Source] = &[
    source("hostPath", &[("path", Required), ("path", NoBacksteps)]),
    Source { shown: ("persistentDisk", "gcePersistentDisk"), ..source("gcePersistentDisk", GCE) },
    source("awsElasticBlockStore", AWS),
    source("glusterfs", GLUSTERFS),
    source("flocker", &[]),
    source("nfs", NFS),
    source("rbd", RBD),
    source("quobyte", QUOBYTE),
    Source { shown: ("cephfs", "cephFS"), ..source("cephfs", CEPHFS) },
    source(
        "iscsi",
        &[("targetPortal", Required), ("iqn", Required), ("lun", Range(0, 255)), ("secretRef.name", Required)],
    ),
    source("cinder", &[("volumeID", Required), ("secretRef.name", Required), ("secretRef.namespace", Required)]),
    source("fc", &[]),
    source("flexVolume", &[("driver", Required)]),
    source("azureFile", AZURE_FILE),
    source("vsphereVolume", VSPHERE),
    source("photonPersistentDisk", PHOTON),
    source("portworxVolume", PORTWORX),
    source("azureDisk", AZURE_DISK),
    source("scaleIO", SCALE_IO),
    source("local", &[("path", Required), ("path", NoBacksteps)]),
    source(
        "storageos",
        &[
            ("volumeName", Named(names::check_dns_label)),
            ("secretRef.name", Required),
            ("secretRef.namespace", Required),
        ],
    ),
    source(
        "csi",
        &[
            ("volumeHandle", Required),
            ("controllerPublishSecretRef.name", Named(names::check_subdomain)),
            ("controllerPublishSecretRef.namespace", Named(names::check_dns_label)),
            ("controllerExpandSecretRef.name", Named(names::check_subdomain)),
            ("controllerExpandSecretRef.namespace", Named(names::check_dns_label)),
            ("nodePublishSecretRef.name", Named(names::check_subdomain)),
            ("nodePublishSecretRef.namespace", Named(names::check_dns_label)),
            ("nodeExpandSecretRef.name", Named(names::check_subdomain)),
            ("nodeExpandSecretRef.namespace", Named(names::check_dns_label)),
        ],
    ),
];

const GCE: &[FieldRule] = &[("pdName", Required), ("partition", PARTITION)];
const AWS: &[FieldRule] = &[("volumeID", Required), ("partition", PARTITION)];
const NFS: &[FieldRule] = &[("server", Required), ("path", Required)];
const GLUSTERFS: &[FieldRule] = &[("endpoints", Required), ("path", Required)];
const RBD: &[FieldRule] = &[("monitors", Required), ("image", Required)];
const CEPHFS: &[FieldRule] = &[("monitors", Required)];
const QUOBYTE: &[FieldRule] = &[("registry", RequiredBecause(HOST_PORTS)), ("volume", Required)];
const AZURE_FILE: &[FieldRule] = &[("secretName", Required), ("shareName", Required)];
const VSPHERE: &[FieldRule] = &[("volumePath", Required)];
const PHOTON: &[FieldRule] = &[("pdID", Required)];
const PORTWORX: &[FieldRule] = &[("volumeID", Required)];
const SCALE_IO: &[FieldRule] = &[("gateway", Required), ("system", Required), ("volumeName", Required)];
const AZURE_DISK: &[FieldRule] = &[
    ("diskName", Required),
    ("diskURI", Required),
    ("cachingMode", OneOf(&["None", "ReadOnly", "ReadWrite"])),
    ("kind", OneOf(&["Dedicated", "Managed", "Shared"])),
];

const CLAIM_METADATA: &[FieldRule] = &[("metadata.labels", Check::Labels)];
const TOKEN: &[FieldRule] = &[
    (
        "serviceAccountToken.expirationSeconds",
        RangeOr(600, i64::MAX, "may not specify a duration less than 10 minutes"),
    ),
    (
        "serviceAccountToken.expirationSeconds",
        RangeOr(i64::MIN, 1 << 32, "may not specify a duration larger than 2^32 seconds"),
    ),
];
const PROJECTED: &[FieldRule] = &[
    ("name", Required),
    ("items[].key", Required),
    ("items[].path", Required),
    ("items[].path", PathBelow),
    ("items[].mode", MODE),
];

/// Validates the volumes of a pod. Returns the valid volumes by name, because mounts may refer only to these.
pub(super) fn check<'a>(pod: &'a Value, field: &str, report: &mut Report) -> BTreeMap<&'a str, &'a Value> {
    let mut found = BTreeMap::new();
    for (index, volume) in object::items(pod, "/volumes").iter().enumerate() {
        let place = format!("{field}.volumes[{index}]");
        let before = report.0.len();
        match sources(SOURCES, volume, &place, report) {
            Some(first) => source_of_pod(first, volume, &place, report),
            None => report.required_because(&place, "must specify a volume type"),
        }
        let name = text(volume, "/name");
        report.name(&format!("{place}.name"), &volume["name"], names::check_dns_label);
        if found.contains_key(name) {
            report.duplicate(format!("{place}.name"), &volume["name"]);
        }
        if report.0.len() == before {
            found.insert(name, volume);
        }
    }
    found
}

/// Validates the first source that is set, and refuses further sources. Returns the first.
pub(in super::super) fn sources(
    sources: &'static [Source],
    volume: &Value,
    place: &str,
    report: &mut Report,
) -> Option<&'static str> {
    let given = sources.iter().filter(|source| volume[source.name].is_object());
    let mut first = None;
    for source in given {
        if first.is_some() {
            report.forbidden(format!("{place}.{}", source.shown.1), "may not specify more than 1 volume type");
            continue;
        }
        first = Some(source.name);
        let (spec, field) = (&volume[source.name], format!("{place}.{}", source.shown.0));
        table::check(source.rules, spec, &field, report);
        special(source.name, spec, &field, report);
    }
    first
}

/// Checks the rules that are about several fields of a source.
fn special(name: &str, spec: &Value, field: &str, report: &mut Report) {
    match name {
        // If the path is missing, nothing else is checked.
        "hostPath" if !is_empty(&spec["path"]) => table::check(&[("type", HOST_PATH_TYPES)], spec, field, report),
        "nfs" if !text(spec, "/path").starts_with('/') => {
            report.invalid(format!("{field}.path"), &json!(text(spec, "/path")), "must be an absolute path");
        }
        "fc" if is_empty(&spec["targetWWNs"]) && is_empty(&spec["wwids"]) => {
            let why = "must specify either targetWWNs or wwids, but not both";
            report.required_because(format!("{field}.targetWWNs"), why);
        }
        "fc" if !is_empty(&spec["targetWWNs"]) && spec["lun"].is_null() => {
            report.required_because(format!("{field}.lun"), "lun is required if targetWWNs is specified");
        }
        "flocker" if is_empty(&spec["datasetName"]) && is_empty(&spec["datasetUUID"]) => {
            report.required_because(field, "one of datasetName and datasetUUID is required");
        }
        "flocker" if text(spec, "/datasetName").contains('/') => {
            report.invalid(format!("{field}.datasetName"), &spec["datasetName"], "must not contain '/'");
        }
        "gitRepo" => report.descending_path(&format!("{field}.directory"), &spec["directory"]),
        "iscsi" => {
            for (name, shown) in [("iqn", "iqn"), ("initiatorName", "initiatorname")] {
                let value = &spec[name];
                let is_known = |text: &str| ["iqn", "eui", "naa"].iter().any(|form| text.starts_with(form));
                let is_given = value.as_str().is_some_and(|text| name != "iqn" || !text.is_empty());
                if is_given && !value.as_str().is_some_and(is_known) {
                    let is_persistent = !field.contains(".volumes[");
                    let why = if is_persistent {
                        "must be valid format"
                    } else {
                        "must be valid format starting with iqn, eui, or naa"
                    };
                    report.invalid(format!("{field}.{shown}"), value, why);
                }
            }
        }
        "azureDisk" => {
            let uri = text(spec, "/diskURI");
            let (prefix, form) = match text(spec, "/kind") {
                "Managed" => (
                    "/subscriptions/",
                    "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
                ),
                _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
            };
            // A persistent volume is validated before its defaults are set.
            if !uri.starts_with(prefix) {
                report.not_supported(format!("{field}.diskURI"), &json!(uri), &[form]);
            }
        }
        "quobyte"
            if !is_empty(&spec["registry"]) && text(spec, "/registry").split(',').any(|pair| !pair.contains(':')) =>
        {
            report.invalid(format!("{field}.registry"), &spec["registry"], HOST_PORTS);
        }
        "csi" => driver(&spec["driver"], &format!("{field}.driver"), report),
        _ => {}
    }
}

/// Checks the name of a driver, like `ValidateCSIDriverName`.
pub(in super::super) fn driver(name: &Value, field: &str, report: &mut Report) {
    let text = name.as_str().unwrap_or_default();
    if text.is_empty() {
        return report.required(field);
    }
    if text.len() > 63 {
        report.too_long(field, 63);
    }
    if let Err(why) = names::check_subdomain(&text.to_lowercase()) {
        report.invalid(field, name, &why);
    }
}

/// Checks the rules of sources that only pods can have.
fn source_of_pod(name: &str, volume: &Value, place: &str, report: &mut Report) {
    let (spec, field) = (&volume[name], format!("{place}.{name}"));
    match name {
        "emptyDir" if quantity::compare(&spec["sizeLimit"], &json!("0")).is_lt() && !spec["sizeLimit"].is_null() => {
            let why = "SizeLimit field must be a valid resource quantity";
            report.forbidden(format!("{field}.sizeLimit"), why);
        }
        "downwardAPI" => {
            for file in object::items(spec, "/items") {
                downward_file(file, &field, report);
            }
        }
        "ephemeral" if spec["volumeClaimTemplate"].is_object() => {
            let template = format!("{field}.volumeClaimTemplate");
            table::check(CLAIM_METADATA, &spec["volumeClaimTemplate"], &template, report);
            storage::claim_spec(&spec["volumeClaimTemplate"]["spec"], &format!("{template}.spec"), report);
        }
        "projected" => projected(spec, &field, report),
        _ => {}
    }
}

/// Validates a file, like `validateDownwardAPIVolumeFile`. Errors name the volume instead of the file.
fn downward_file(file: &Value, field: &str, report: &mut Report) {
    table::check(&[("path", Required), ("path", PathBelow), ("mode", MODE)], file, field, report);
    let (object, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    if object.is_object() {
        fields::object_field(object, &format!("{field}.fieldRef"), fields::OF_VOLUMES, report);
        if resource.is_object() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            report.invalid(field, &json!("resource"), why);
        }
    } else if resource.is_object() {
        fields::resource_field(resource, &format!("{field}.resourceFieldRef"), true, report);
    } else {
        report.required_because(field, "one of fieldRef and resourceFieldRef is required");
    }
}

/// Validates the sources of a projected volume, like `validateProjectionSources`.
fn projected(spec: &Value, field: &str, report: &mut Report) {
    let mut paths: BTreeSet<String> = BTreeSet::new();
    for (index, source) in object::items(spec, "/sources").iter().enumerate() {
        let place = format!("{field}.sources[{index}]");
        for kind in ["secret", "configMap"] {
            table::check(PROJECTED, &source[kind], &format!("{place}.{kind}"), report);
            for item in object::items(&source[kind], "/items") {
                if !text(item, "/path").is_empty() && !paths.insert(text(item, "/path").to_owned()) {
                    report.invalid(field, &json!(text(&source[kind], "/name")), "conflicting duplicate paths");
                }
            }
        }
        for file in object::items(&source["downwardAPI"], "/items") {
            downward_file(file, &format!("{place}.downwardAPI"), report);
            if !text(file, "/path").is_empty() && !paths.insert(text(file, "/path").to_owned()) {
                report.invalid(field, &file["path"], "conflicting duplicate paths");
            }
        }
        let token = &source["serviceAccountToken"];
        table::check(TOKEN, source, &place, report);
        if token.is_object() {
            // As in a real server, errors about the path name the volume.
            table::check(&[("path", Required), ("path", PathBelow)], token, field, report);
        }
        let kinds =
            ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
        if kinds.iter().filter(|kind| source[**kind].is_object()).count() > 1 {
            report.forbidden(&place, "may not specify more than 1 volume type per source");
        }
    }
}
