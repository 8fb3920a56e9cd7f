//! Validates nodes and runtime classes, like `ValidateNode` and `ValidateNodeUpdate` in
//! `pkg/apis/core/validation/validation.go`, and `pkg/apis/node/validation/validation.go`, of Kubernetes 1.36.3.

use serde_json::{Value, json};

use super::networks::{NOT_A_CIDR, is_cidr};
use super::pods::scheduling;
use super::report::Report;
use super::table::is_empty;
use crate::object::{self, names, text};

pub(super) fn node(object: &Value, previous: Option<&Value>, report: &mut Report) {
    let spec = &object["spec"];
    let taints = object::items(spec, "/taints");
    for (index, taint) in taints.iter().enumerate() {
        let field = format!("metadata.taints[{index}]");
        let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
        report.qualified(&format!("{field}.key"), key);
        if let Err(why) = names::check_label_value(value) {
            report.invalid(format!("{field}.value"), &json!(value), &why);
        }
        match effect {
            "" => report.required(format!("{field}.effect")),
            _ => report.one_of(&format!("{field}.effect"), &taint["effect"], &scheduling::EFFECTS),
        }
    }
    let ranges = object::items(spec, "/podCIDRs");
    for (index, range) in ranges.iter().enumerate().filter(|(_, range)| !range.as_str().is_some_and(is_cidr)) {
        report.invalid(format!("spec.podCIDRs[{index}]"), range, NOT_A_CIDR);
    }
    let Some(before) = previous.map(|previous| &previous["spec"]) else { return };
    if !is_empty(&before["podCIDRs"]) && before["podCIDRs"] != spec["podCIDRs"] {
        report.forbidden("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid");
    }
    if !is_empty(&before["providerID"]) && before["providerID"] != spec["providerID"] {
        report.forbidden("spec.providerID", "node updates may not change providerID except from \"\" to valid");
    }
    if text(before, "/externalID") != text(spec, "/externalID") {
        report.forbidden("spec.externalID", "may not be updated");
    }
}

pub(super) fn runtime_class(object: &Value, previous: Option<&Value>, report: &mut Report) {
    report.name("handler", &object["handler"], names::check_dns_label);
    report.immutable("handler", object, previous);
    let scheduling = &object["scheduling"];
    report.labels("scheduling.nodeSelector", &scheduling["nodeSelector"]);
    scheduling::tolerations(&scheduling["tolerations"], "scheduling.tolerations", report);
}
