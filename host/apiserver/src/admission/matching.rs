//! Decides by rules and selectors which requests a webhook or policy applies to.

use std::sync::Arc;

use serde_json::Value;

use super::request::{AdmissionRequest, WriteOperation};
use crate::object::{self, label_selector, text};
use crate::resources::builtin;
use crate::resources::resource::ResourceType;
use crate::status_error::ApiError;

/// `RuleWithOperations`. In policies, it also has resource names.
#[derive(Debug)]
struct ResourceRule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Pairs of resource and subresource.
    resources: Vec<(String, String)>,
    scope: String,
    /// Empty for all.
    names: Vec<String>,
}

impl ResourceRule {
    fn read(rule: &Value) -> ResourceRule {
        let owned = |key: &str| object::strings(rule, key).into_iter().map(str::to_owned).collect();
        let resource = |text: &str| {
            let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
            (resource.to_owned(), subresource.to_owned())
        };
        ResourceRule {
            operations: owned("/operations"),
            groups: owned("/apiGroups"),
            versions: owned("/apiVersions"),
            resources: object::strings(rule, "/resources").into_iter().map(resource).collect(),
            scope: text(rule, "/scope").to_owned(),
            names: owned("/resourceNames"),
        }
    }

    /// Whether the request would match if it were for `resource`.
    fn matches(&self, request: &AdmissionRequest<'_>, resource: &ResourceType) -> bool {
        let has = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        let is_namespaced = !request.namespace.is_empty() && !request.is_of_namespaces();
        let in_scope = match self.scope.as_str() {
            "Namespaced" => is_namespaced,
            "Cluster" => !is_namespaced,
            _ => true,
        };
        let of_resource = self.resources.iter().any(|(plural, subresource)| {
            (plural == "*" || *plural == resource.id.plural)
                && (subresource == "*" || subresource == request.subresource)
        });
        in_scope
            && of_resource
            && has(&self.operations, request.operation.name())
            && has(&self.groups, &resource.id.group)
            && has(&self.versions, &resource.version)
            && (self.names.is_empty() || self.names.iter().any(|name| name == request.name))
    }
}

/// The part of a webhook or policy that selects requests.
#[derive(Debug)]
pub(super) struct ResourceMatcher {
    rules: Vec<ResourceRule>,
    excluded: Vec<ResourceRule>,
    /// Whether all requests match if there are no rules.
    has_default: bool,
    /// Whether a rule for another version of the resource matches, too.
    is_equivalent: bool,
    namespace_selector: Value,
    object_selector: Value,
}

impl ResourceMatcher {
    /// Reads a webhook with its `rules`, or `MatchResources` with its `resourceRules`.
    pub(super) fn read(from: &Value, rules: &str) -> ResourceMatcher {
        let read = |key: &str| object::items(from, &format!("/{key}")).iter().map(ResourceRule::read).collect();
        ResourceMatcher {
            rules: read(rules),
            has_default: false,
            excluded: read("excludeResourceRules"),
            is_equivalent: text(from, "/matchPolicy") != "Exact",
            namespace_selector: from["namespaceSelector"].clone(),
            object_selector: from["objectSelector"].clone(),
        }
    }

    /// Reads the `matchResources` of a binding. A binding without rules applies to everything that its policy matches.
    pub(super) fn read_of_binding(from: &Value) -> ResourceMatcher {
        ResourceMatcher { has_default: true, ..ResourceMatcher::read(from, "resourceRules") }
    }

    /// The resource by which the request matches; the object is then shown in this resource's version. `None` if the
    /// request does not match. `object` is the new state.
    pub(super) fn matched<'r>(
        &self,
        request: &'r AdmissionRequest<'_>,
        object: Option<&Value>,
    ) -> Result<Option<&'r Arc<ResourceType>>, ApiError> {
        let default = (self.has_default && self.rules.is_empty()).then_some(request.resource);
        let Some(resource) = default.or_else(|| self.resource(&self.rules, request)) else { return Ok(None) };
        if self.resource(&self.excluded, request).is_some() || !self.selects_object(request, object) {
            return Ok(None);
        }
        Ok(self.selects_namespace(request, object)?.then_some(resource))
    }

    /// The first resource that a rule matches: the request's own resource, or an equivalent one.
    fn resource<'r>(&self, rules: &[ResourceRule], request: &'r AdmissionRequest<'_>) -> Option<&'r Arc<ResourceType>> {
        if rules.iter().any(|rule| rule.matches(request, request.resource)) {
            return Some(request.resource);
        }
        let rules = if self.is_equivalent { rules } else { &[] };
        rules.iter().find_map(|rule| request.equivalents().find(|resource| rule.matches(request, resource)))
    }

    fn selects_object(&self, request: &AdmissionRequest<'_>, object: Option<&Value>) -> bool {
        let selects = |object: &Value| label_selector::selects(&self.object_selector, object);
        is_empty(&self.object_selector) || object.is_some_and(selects) || request.old.is_some_and(selects)
    }

    fn selects_namespace(&self, request: &AdmissionRequest<'_>, object: Option<&Value>) -> Result<bool, ApiError> {
        let is_namespace = request.is_of_namespaces();
        if is_empty(&self.namespace_selector) || (request.namespace.is_empty() && !is_namespace) {
            return Ok(true);
        }
        // A write to a namespace may change its labels, which the stored namespace does not have yet.
        let is_new = is_namespace && request.subresource.is_empty() && request.operation != WriteOperation::Delete;
        let namespace = if is_new { object } else { request.namespace_object.as_deref() };
        let namespace = namespace.ok_or_else(|| ApiError::not_found(&builtin::namespaces(), request.namespace))?;
        Ok(label_selector::selects(&self.namespace_selector, namespace))
    }
}

fn is_empty(selector: &Value) -> bool {
    let has = |key: &str| match &selector[key] {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    };
    !has("matchLabels") && !has("matchExpressions")
}
