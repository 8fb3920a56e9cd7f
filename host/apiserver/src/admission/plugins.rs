//! The parsed configurations of admission: webhooks and policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::policies::Policies;
use super::webhook::Webhook;
use crate::object;
use crate::resources::resource::GroupResource;

const GROUP: &str = "admissionregistration.k8s.io";

/// Whether a resource configures admission. Requests for these skip admission, so that a bad configuration can be
/// fixed.
pub(crate) fn is_configuration(resource: &GroupResource) -> bool {
    resource.group == GROUP
}

/// The webhooks of each configuration.
type Webhooks = Arc<BTreeMap<String, Arc<[Webhook]>>>;

/// All policies and webhooks. Webhooks are called in the order of their configurations' names. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionPlugins {
    mutating: Webhooks,
    validating: Webhooks,
    policies: Policies,
}

impl AdmissionPlugins {
    /// Adds the configuration of a stored object, if the object configures admission.
    pub(crate) fn define(&mut self, resource: &GroupResource, object: &Value) {
        if let Some(webhooks) = self.webhooks(resource) {
            let read = |(index, webhook)| Webhook::read(object, index, webhook);
            let read = object::items(object, "/webhooks").iter().enumerate().map(read).collect();
            Arc::make_mut(webhooks).insert(object::name(object).to_owned(), read);
        } else if is_configuration(resource) {
            self.policies.define(&resource.plural, object);
        }
    }

    /// Forgets a deleted object, if it configured admission.
    pub(crate) fn undefine(&mut self, resource: &GroupResource, name: &str) {
        if let Some(webhooks) = self.webhooks(resource) {
            Arc::make_mut(webhooks).remove(name);
        } else if is_configuration(resource) {
            self.policies.undefine(&resource.plural, name);
        }
    }

    /// Whether there are no webhooks and no policies.
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.policies.is_empty()
    }

    pub(super) fn mutating(&self) -> impl Iterator<Item = &Webhook> {
        self.mutating.values().flat_map(|webhooks| webhooks.iter())
    }

    pub(super) fn policies(&self) -> &Policies {
        &self.policies
    }

    pub(super) fn validating(&self) -> impl Iterator<Item = &Webhook> {
        self.validating.values().flat_map(|webhooks| webhooks.iter())
    }

    fn webhooks(&mut self, resource: &GroupResource) -> Option<&mut Webhooks> {
        match (resource.group.as_str(), resource.plural.as_str()) {
            (GROUP, "mutatingwebhookconfigurations") => Some(&mut self.mutating),
            (GROUP, "validatingwebhookconfigurations") => Some(&mut self.validating),
            _ => None,
        }
    }
}
