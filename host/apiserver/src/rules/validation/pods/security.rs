//! Validates security contexts, like `validatePodSpecSecurityContext`, `ValidateSecurityContext`, `validateLinux` and
//! `validateWindows` in `pkg/apis/core/validation/validation.go` of Kubernetes 1.36.3.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::report::Report;
use super::super::table::{self, Check, FieldRule, is_empty};
use super::Pod;
use crate::object::{self, names, text};
use Check::{OneOf, Range};

const ID: Check = Range(0, i32::MAX as i64);
const OF_POD: &[FieldRule] = &[
    ("fsGroup", ID),
    ("runAsUser", ID),
    ("runAsGroup", ID),
    ("fsGroupChangePolicy", OneOf(&["Always", "OnRootMismatch"])),
    ("supplementalGroupsPolicy", OneOf(&["Merge", "Strict"])),
    ("seLinuxChangePolicy", OneOf(&["Recursive"])),
];
const OF_CONTAINER: &[FieldRule] =
    &[("runAsUser", ID), ("runAsGroup", ID), ("procMount", OneOf(&["Default", "Unmasked"]))];
const NOT_ON_WINDOWS: [&str; 9] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
];
const NOT_IN_WINDOWS_CONTAINERS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];
const WINDOWS: &str = "cannot be set for a windows pod";

/// Validates the security context of a pod.
pub(super) fn pod(context: &Value, field: &str, pod: &Pod<'_>, report: &mut Report) {
    if !context.is_object() {
        return;
    }
    table::check(OF_POD, context, field, report);
    for (index, group) in object::items(context, "/supplementalGroups").iter().enumerate() {
        let why = "must be between 0 and 2147483647, inclusive";
        report.range(&format!("{field}.supplementalGroups[{index}]"), group, 0, i64::from(i32::MAX), why);
    }
    if pod.spec["shareProcessNamespace"] == json!(true) && pod.spec["hostPID"] == json!(true) {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        report.invalid(format!("{field}.shareProcessNamespace"), &json!(true), why);
    }
    sysctls(context, field, report);
    profiles(context, field, report);
}

/// Validates the security context of a container.
pub(super) fn container(context: &Value, field: &str, pod: &Pod<'_>, report: &mut Report) {
    if !context.is_object() {
        return;
    }
    table::check(OF_CONTAINER, context, field, report);
    if context["procMount"] == "Unmasked" && pod.spec["hostUsers"] != json!(false) {
        let why = "`hostUsers` must be false to use `Unmasked`";
        report.invalid(format!("{field}.procMount"), &context["procMount"], why);
    }
    profiles(context, field, report);
}

/// Refuses fields that do not exist in the pod's operating system.
pub(super) fn of_system(pod: &Value, field: &str, report: &mut Report) {
    let system = &pod["os"]["name"];
    if pod["os"].is_null() {
        return;
    }
    if is_empty(system) {
        return report.required(format!("{field}.os.name"));
    }
    if system != "linux" && system != "windows" {
        return report.not_supported(format!("{field}.os"), system, &["linux", "windows"]);
    }
    let containers = ["containers", "initContainers", "ephemeralContainers"].into_iter().flat_map(|list| {
        let items = object::items(pod, &format!("/{list}")).iter().enumerate();
        items.map(move |(index, container)| (format!("{field}.{list}[{index}]"), container))
    });
    if system == "linux" {
        let all = containers.chain([(field.to_owned(), pod)]);
        for (place, _) in all.filter(|(_, owner)| owner["securityContext"]["windowsOptions"].is_object()) {
            let why = "windows options cannot be set for a linux pod";
            report.forbidden(format!("{place}.securityContext.windowsOptions"), why);
        }
        return;
    }
    let mut forbid = |owner: &Value, place: &str, names: &[&str]| {
        for name in names.iter().filter(|name| !owner[**name].is_null()) {
            report.forbidden(format!("{place}.{name}"), WINDOWS);
        }
    };
    let context = &pod["securityContext"];
    let place = format!("{field}.securityContext");
    forbid(context, &place, &NOT_ON_WINDOWS);
    forbid(context, &place, &["seLinuxChangePolicy"]);
    if !is_empty(&context["sysctls"]) {
        forbid(context, &place, &["sysctls"]);
    }
    forbid(pod, field, &["hostUsers", "shareProcessNamespace"]);
    for name in ["hostPID", "hostIPC"].into_iter().filter(|name| pod[*name] == json!(true)) {
        forbid(pod, field, &[name]);
    }
    for (place, container) in containers {
        forbid(&container["securityContext"], &format!("{place}.securityContext"), &NOT_IN_WINDOWS_CONTAINERS);
    }
}

fn sysctls(context: &Value, field: &str, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (index, sysctl) in object::items(context, "/sysctls").iter().enumerate() {
        let (name, place) = (text(sysctl, "/name"), format!("{field}.sysctls[{index}].name"));
        if name.is_empty() {
            report.required(&place);
        } else if !is_sysctl(name) {
            let why = "must have at most 253 characters and match regex \
                       ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            report.invalid(&place, &json!(name), why);
        } else if !seen.insert(name) {
            report.duplicate(&place, &json!(name));
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        is_end(bytes.first().copied())
            && is_end(bytes.last().copied())
            && bytes.iter().all(|byte| is_end(Some(*byte)) || b"-_".contains(byte))
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_part)
}

/// Validates the profiles of seccomp and `AppArmor`, and the options for Windows.
fn profiles(context: &Value, field: &str, report: &mut Report) {
    for (name, what) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let (profile, place) = (&context[name], format!("{field}.{name}"));
        if !profile.is_object() {
            continue;
        }
        let (kind, local) = (text(profile, "/type"), &profile["localhostProfile"]);
        let at_local = format!("{place}.localhostProfile");
        match kind {
            "" => report.required_because(format!("{place}.type"), &format!("type is required when {name} is set")),
            "Localhost" | "RuntimeDefault" | "Unconfined" => {}
            _ => report.one_of(
                &format!("{place}.type"),
                &profile["type"],
                &["Localhost", "RuntimeDefault", "Unconfined"],
            ),
        }
        let is_apparmor = name == "appArmorProfile";
        let is_known = ["RuntimeDefault", "Unconfined"].contains(&kind);
        if kind == "Localhost" && (local.is_null() || is_apparmor && is_empty(local)) {
            report.required_because(&at_local, &format!("must be set when {what} type is Localhost"));
        } else if kind == "Localhost" && is_apparmor {
            if local.as_str().is_some_and(|path| path.trim() != path) {
                report.invalid(&at_local, local, "must not be padded with whitespace");
            }
        } else if kind == "Localhost" {
            report.descending_path(&at_local, local);
        } else if !local.is_null() && is_apparmor && is_known {
            report.invalid(&at_local, local, "can only be set when AppArmor type is Localhost");
        } else if !local.is_null() && !is_apparmor {
            let shown = format!("{{\"Type\":{},\"LocalhostProfile\":{local}}}", json!(kind));
            report.invalid_shown(&at_local, &shown, "can only be set when seccomp type is Localhost");
        }
    }
    windows(&context["windowsOptions"], &format!("{field}.windowsOptions"), report);
}

/// Validates options for Windows, like `validateWindowsSecurityContextOptions`, but without the rules about domains.
fn windows(options: &Value, field: &str, report: &mut Report) {
    table::check(&[("gmsaCredentialSpecName", Check::Text(names::check_subdomain))], options, field, report);
    if options["gmsaCredentialSpec"] == "" {
        let why = "gmsaCredentialSpec cannot be an empty string";
        report.invalid(format!("{field}.gmsaCredentialSpec"), &json!(""), why);
    }
    let (name, place) = (&options["runAsUserName"], format!("{field}.runAsUserName"));
    let Some(given) = name.as_str() else { return };
    let user = given.rsplit('\\').next().unwrap_or_default();
    if given.is_empty() {
        return report.invalid(place, name, "runAsUserName cannot be an empty string");
    }
    if user.len() > 104 {
        report.invalid(&place, name, "runAsUserName's User length must not be longer than 104 characters");
    }
    if user.contains(['"', '/', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let why = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        report.invalid(&place, name, why);
    }
}
