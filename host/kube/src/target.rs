//! Finds the resource of a plugin's request and checks the grants. Writes and live reads share this, so that neither
//! can access what the other refuses.
//!
//! The order keeps a hostile plugin from making the server answer for requests without rights: first the group, then
//! discovery, then the namespace and the path, then the grant.

use std::sync::Arc;

use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::path_segment;
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef, plural};
use windlass_core::rights::grants::{Access, resource_name};

use crate::client::api_error::RequestSubject;
use crate::discovery::{Discovery, DiscoveryError, Resource};

/// An object on which a call may do what it requested.
#[derive(Debug)]
pub(crate) struct ResolvedTarget {
    pub(crate) resource: Arc<Resource>,
    pub(crate) key: ObjectKey,
}

/// Interprets `failure`, the server's answer about `subresource` of `resource`. If it says that something does not
/// exist, discovery's knowledge of the kind is invalidated. If a CRD lacks the subresource, kube-apiserver answers as
/// if the object was missing (`apiextensions-apiserver/pkg/apiserver/customresource_handler.go`). So the object is only
/// believed to be missing if the subresource is still served.
pub(crate) async fn judged(
    failure: ApiError,
    discovery: &Discovery,
    subject: &RequestSubject,
    resource: &Resource,
    subresource: &str,
) -> ApiError {
    let is_certain = failure.is_object_missing() && subresource.is_empty();
    if failure.reason != ApiReason::NotFound || is_certain {
        return failure;
    }
    discovery.doubt(&resource.kind);
    if !failure.is_object_missing() {
        return failure;
    }
    match discovery.resolve(&resource.kind).await {
        Ok(now) if now.serves(subresource) => failure,
        Ok(_) => subject.not_served(&no_subresource(subresource, &resource.kind)),
        Err(error @ DiscoveryError::NotServed { .. }) => subject.not_served(&format!("{}; {error}", failure.message)),
        // The key is retried, and the retry is not counted.
        Err(error) => subject.unavailable(format!("{}; {error}", failure.message)),
    }
}

fn no_subresource(subresource: &str, kind: &ObjectKind) -> String {
    format!(
        "the API server serves no subresource {subresource} of {kind}; its CustomResourceDefinition has to declare it"
    )
}

/// The message about an object of a namespaced kind without a namespace, in a call whose primary has none either.
pub(crate) fn no_namespace(kind: &ObjectKind) -> String {
    format!("{kind} is namespaced, but no namespace is given, and no primary in a namespace gives a default")
}

/// Resolves a plugin's request. Contains the principal and the subject for errors, which becomes more precise on the
/// way.
pub(crate) struct Resolver<'a> {
    pub(crate) discovery: &'a Discovery,
    pub(crate) call: &'a CallContext,
    pub(crate) subject: &'a mut RequestSubject,
}

impl Resolver<'_> {
    /// Finds the resource of `reference`, determines its namespace and checks the grants. `subresource` is empty for
    /// the object itself.
    pub(crate) async fn object(self, mut reference: ObjectRef, subresource: &str) -> Result<ResolvedTarget, ApiError> {
        self.subject.object = Some(reference.clone());
        let namespace = reference.key.namespace.as_ref().or(self.call.primary_key.namespace.as_ref());
        let resource = self.resource(&reference.kind, subresource, namespace).await?;
        self.subject.resource = resource_name(resource.group(), &resource.plural, subresource);
        self.settle_namespace(&mut reference, &resource)?;
        self.subject.object = Some(reference.clone());
        self.check_path(&reference.key)?;
        let access = resource.access(self.subject.verb, subresource, Some(&reference.key));
        self.subject.check_grant(&self.call.principal, &access)?;
        if !resource.serves(subresource) {
            return Err(self.subject.not_served(&no_subresource(subresource, &resource.kind)));
        }
        Ok(ResolvedTarget { resource, key: reference.key })
    }

    /// Finds the resource of `kind`, and checks the grants for its collection in `namespace`, or else in the primary's
    /// namespace. With a `name`, only the object of that name is meant; without, the key has no name.
    pub(crate) async fn collection_beside(
        self,
        kind: &ObjectKind,
        namespace: Option<Arc<str>>,
        name: Option<&str>,
    ) -> Result<ResolvedTarget, ApiError> {
        let beside = namespace.as_ref().or(self.call.primary_key.namespace.as_ref());
        let resource = self.resource(kind, "", beside).await?;
        self.subject.resource = resource_name(resource.group(), &resource.plural, "");
        let key = ObjectKey { namespace, name: name.unwrap_or_default().into() };
        let mut reference = ObjectRef { kind: kind.clone(), key, uid: None };
        self.settle_namespace(&mut reference, &resource)?;
        let key = reference.key;
        key.namespace.as_ref().map_or(Ok(()), |namespace| self.check_segment("namespace", namespace))?;
        name.map_or(Ok(()), |name| self.check_segment("name", name))?;
        // A rule that lists names never allows an empty name.
        let access = resource.access(self.subject.verb, "", (resource.namespaced || name.is_some()).then_some(&key));
        self.subject.check_grant(&self.call.principal, &access)?;
        Ok(ResolvedTarget { resource, key })
    }

    /// Finds the resource of `kind`, and checks the grants for its collection in `namespace`, or in all namespaces.
    /// With a `name`, only the object of that name is meant.
    pub(crate) async fn collection(
        self,
        kind: &ObjectKind,
        namespace: Option<&Arc<str>>,
        name: Option<&str>,
    ) -> Result<Arc<Resource>, ApiError> {
        let resource = self.resource(kind, "", namespace).await?;
        self.subject.resource = resource_name(resource.group(), &resource.plural, "");
        if let (false, Some(namespace)) = (resource.namespaced, namespace) {
            return Err(self.not_namespaced(&resource, namespace));
        }
        namespace.map_or(Ok(()), |namespace| self.check_segment("namespace", namespace))?;
        name.map_or(Ok(()), |name| self.check_segment("name", name))?;
        // A rule that lists names never allows an empty name.
        let key = ObjectKey { namespace: namespace.cloned(), name: name.unwrap_or_default().into() };
        let is_everywhere = namespace.is_none() && (resource.namespaced || name.is_none());
        let access = resource.access(self.subject.verb, "", (!is_everywhere).then_some(&key));
        self.subject.check_grant(&self.call.principal, &access)?;
        Ok(resource)
    }

    /// The resource of `kind`. `subresource` and `namespace` are used in denials.
    async fn resource(
        &self,
        kind: &ObjectKind,
        subresource: &str,
        namespace: Option<&Arc<str>>,
    ) -> Result<Arc<Resource>, ApiError> {
        if !self.call.principal.grants().concern_group(kind.group()) {
            // Before the server is asked, because a plugin may invent any number of kinds.
            self.check_ungranted_group(kind, subresource, namespace)?;
        }
        self.discovery.resolve_with(kind, subresource).await.map_err(|error| self.undiscovered(&error))
    }

    /// Refuses a kind of a group that no rule names. The server is not asked for its resource, so the missing rule
    /// contains a guess.
    fn check_ungranted_group(
        &self,
        kind: &ObjectKind,
        subresource: &str,
        namespace: Option<&Arc<str>>,
    ) -> Result<(), ApiError> {
        let principal = &self.call.principal;
        if !kind.is_well_formed() {
            let message = format!("the plugin {} is granted nothing in the group of {kind}", principal.plugin);
            return Err(self.subject.refuse(ApiReason::NotGranted, message));
        }
        namespace.map_or(Ok(()), |namespace| self.check_segment("namespace", namespace))?;
        let (resource, key) = (plural(&kind.kind), namespace.map(|it| ObjectKey::namespaced(it.clone(), "")));
        let access = Access {
            verb: self.subject.verb,
            group: kind.group(),
            resource: &resource,
            subresource,
            namespaced: namespace.is_some() || self.call.primary_key.namespace.is_some(),
            key: key.as_ref(),
        };
        principal.check(&access).map_err(|denial| {
            let guessed = format!("no rule names the group of {kind}, so {resource:?} is guessed from the kind");
            let message = format!("the plugin {} may not: {guessed}; {denial}", principal.plugin);
            self.subject.refuse(ApiReason::NotGranted, message)
        })
    }

    /// Names from a body become part of the path. Grants are checked for the key, so the path must not lead elsewhere,
    /// not even at a proxy before the server (ADR 34).
    fn check_path(&self, key: &ObjectKey) -> Result<(), ApiError> {
        self.check_segment("name", &key.name)?;
        key.namespace.as_ref().map_or(Ok(()), |namespace| self.check_segment("namespace", namespace))
    }

    fn check_segment(&self, what: &str, part: &str) -> Result<(), ApiError> {
        match path_segment::flaw(part) {
            Some(flaw) => Err(self.invalid(format!("{part:?} cannot be a {what}: {flaw}"))),
            None => Ok(()),
        }
    }

    /// A namespaced object without a namespace gets the primary's namespace, the only one in which the primary could
    /// own it.
    fn settle_namespace(&self, reference: &mut ObjectRef, resource: &Resource) -> Result<(), ApiError> {
        match (resource.namespaced, &reference.key.namespace) {
            (true, None) => match &self.call.primary_key.namespace {
                Some(namespace) => reference.key.namespace = Some(Arc::clone(namespace)),
                None => {
                    return Err(self.invalid(no_namespace(&resource.kind)));
                }
            },
            (false, Some(namespace)) => return Err(self.not_namespaced(resource, namespace)),
            (true, Some(_)) | (false, None) => {}
        }
        Ok(())
    }

    fn not_namespaced(&self, resource: &Resource, namespace: &str) -> ApiError {
        self.invalid(format!("{} is cluster-scoped, but the namespace {namespace} is given", resource.kind))
    }

    fn undiscovered(&self, error: &DiscoveryError) -> ApiError {
        match error {
            DiscoveryError::NotServed { .. } => self.subject.not_served(&error.to_string()),
            DiscoveryError::Unreachable { .. } | DiscoveryError::Malformed { .. } => {
                self.subject.unavailable(error.to_string())
            }
        }
    }

    fn invalid(&self, message: String) -> ApiError {
        self.subject.refuse(ApiReason::Invalid, message)
    }
}
