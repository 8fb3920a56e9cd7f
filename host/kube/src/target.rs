//! Which resource a plugin's request is about, and whether the plugin may ask for it. Writes and live reads share it,
//! so that neither reaches what the other refuses.
//!
//! The order is what keeps a hostile plugin from asking the server on somebody else's rights: first the group, then
//! discovery, then the namespace and the path, then the grant.

use std::sync::Arc;

use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::path_segment;
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef, plural};
use windlass_core::rights::grants::{Access, resource_name};

use crate::client::api_error::Subject;
use crate::discovery::{Discovery, DiscoveryError, Resource};

/// An object to which a call may do what it asked for.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) resource: Arc<Resource>,
    pub(crate) key: ObjectKey,
}

/// Judges `failure`, the server's answer about `subresource` of `resource`: if it says that something does not exist,
/// what discovery knows of the kind is doubted. kube-apiserver answers for a subresource that a definition lacks as if
/// the object were missing (`apiextensions-apiserver/pkg/apiserver/customresource_handler.go`), so the object is
/// believed to be missing only if the subresource is still served.
pub(crate) async fn judged(
    failure: ApiError,
    discovery: &Discovery,
    subject: &Subject,
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
        // The key is tried again, and that counts against nobody.
        Err(error) => subject.unavailable(format!("{}; {error}", failure.message)),
    }
}

fn no_subresource(subresource: &str, kind: &ObjectKind) -> String {
    format!(
        "the API server serves no subresource {subresource} of {kind}; its CustomResourceDefinition has to declare it"
    )
}

/// Resolves a plugin's request: who asks for what, and what an error about it must say, which becomes more on the way.
pub(crate) struct Resolver<'a> {
    pub(crate) discovery: &'a Discovery,
    pub(crate) call: &'a CallContext,
    pub(crate) subject: &'a mut Subject,
}

impl Resolver<'_> {
    /// Finds the resource of `reference`, settles its namespace and asks the grants; an empty `subresource` is the
    /// object itself.
    pub(crate) async fn object(self, mut reference: ObjectRef, subresource: &str) -> Result<Target, ApiError> {
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
        Ok(Target { resource, key: reference.key })
    }

    /// Finds the resource of `kind` and asks the grants about its collection in `namespace`, or beside the primary.
    /// With a `name`, only the object of that name is meant; without, the key has none.
    pub(crate) async fn collection_beside(
        self,
        kind: &ObjectKind,
        namespace: Option<Arc<str>>,
        name: Option<&str>,
    ) -> Result<Target, ApiError> {
        let beside = namespace.as_ref().or(self.call.primary_key.namespace.as_ref());
        let resource = self.resource(kind, "", beside).await?;
        self.subject.resource = resource_name(resource.group(), &resource.plural, "");
        let key = ObjectKey { namespace, name: name.unwrap_or_default().into() };
        let mut reference = ObjectRef { kind: kind.clone(), key, uid: None };
        self.settle_namespace(&mut reference, &resource)?;
        let key = reference.key;
        key.namespace.as_ref().map_or(Ok(()), |namespace| self.check_segment("namespace", namespace))?;
        name.map_or(Ok(()), |name| self.check_segment("name", name))?;
        // No rule that lists names allows the empty one.
        let access = resource.access(self.subject.verb, "", (resource.namespaced || name.is_some()).then_some(&key));
        self.subject.check_grant(&self.call.principal, &access)?;
        Ok(Target { resource, key })
    }

    /// Finds the resource of `kind` and asks the grants about its collection in `namespace`, or about all of it. With a
    /// `name`, only the object of that name is meant.
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
        // No rule that lists names allows the empty one.
        let key = ObjectKey { namespace: namespace.cloned(), name: name.unwrap_or_default().into() };
        let is_everywhere = namespace.is_none() && (resource.namespaced || name.is_none());
        let access = resource.access(self.subject.verb, "", (!is_everywhere).then_some(&key));
        self.subject.check_grant(&self.call.principal, &access)?;
        Ok(resource)
    }

    /// The resource of `kind`; `subresource` and `namespace` are for what a denial says.
    async fn resource(
        &self,
        kind: &ObjectKind,
        subresource: &str,
        namespace: Option<&Arc<str>>,
    ) -> Result<Arc<Resource>, ApiError> {
        if !self.call.principal.grants().concern_group(kind.group()) {
            // Before the server is asked: a plugin may invent as many kinds as it likes.
            self.check_ungranted_group(kind, subresource, namespace)?;
        }
        self.discovery.resolve_with(kind, subresource).await.map_err(|error| self.undiscovered(&error))
    }

    /// Refuses a kind of a group that no rule is about. The server is not asked for its resource, so the rule that
    /// would be needed names a guess.
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
            let guessed = format!("no rule is about the group of {kind}, so {resource:?} is guessed from the kind");
            let message = format!("the plugin {} may not: {guessed}; {denial}", principal.plugin);
            self.subject.refuse(ApiReason::NotGranted, message)
        })
    }

    /// Names from a body end in the path as well. Grants are asked about the key, so the path must not lead elsewhere,
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

    /// A namespaced object without a namespace is meant beside the primary: where else could it be owned?
    fn settle_namespace(&self, reference: &mut ObjectRef, resource: &Resource) -> Result<(), ApiError> {
        match (resource.namespaced, &reference.key.namespace) {
            (true, None) => match &self.call.primary_key.namespace {
                Some(namespace) => reference.key.namespace = Some(Arc::clone(namespace)),
                None => {
                    return Err(self.invalid(format!(
                        "{} is namespaced and no namespace is named; the primary is cluster-scoped and has none to take",
                        resource.kind
                    )));
                }
            },
            (false, Some(namespace)) => return Err(self.not_namespaced(resource, namespace)),
            (true, Some(_)) | (false, None) => {}
        }
        Ok(())
    }

    fn not_namespaced(&self, resource: &Resource, namespace: &str) -> ApiError {
        self.invalid(format!("{} is cluster-scoped, but the namespace {namespace} is named", resource.kind))
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
