//! Selects the requests of a rule, a count or a cut.

use crate::request::{RequestInfo, Verb};

/// A condition on requests; all parts of it must hold. [`Match::any`] has no parts.
///
/// ```
/// use windlass_proxy::{Match, Verb};
///
/// let pods = Match::verb(Verb::Watch).resource("pods").agent("windlass/");
/// let writes = Match::writes().resource("deployments.apps/*").namespace("shop");
/// # let _ = (pods, writes);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Match {
    verbs: Vec<Verb>,
    resource: Option<Resource>,
    namespace: Option<String>,
    name: Option<String>,
    limit: Option<u64>,
    first_pages: bool,
    agent: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Resource {
    plural: String,
    /// `None` for any.
    group: Option<String>,
    /// `None` for the resource itself and all its subresources.
    subresource: Option<String>,
}

impl Match {
    /// Every request, discovery included.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests with this verb.
    #[must_use]
    pub fn verb(verb: Verb) -> Self {
        Self::verbs([verb])
    }

    /// Requests with one of these verbs.
    #[must_use]
    pub fn verbs(verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self { verbs: verbs.into_iter().collect(), ..Self::default() }
    }

    /// Requests that may change objects.
    #[must_use]
    pub fn writes() -> Self {
        Self::verbs([Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection])
    }

    /// Watches of a resource, as [`Match::resource`] names it.
    #[must_use]
    pub fn watches(resource: &str) -> Self {
        Self::verb(Verb::Watch).resource(resource)
    }

    /// Requests for a resource: `PLURAL[.GROUP][/SUBRESOURCE]`. Without a group, any group with such a resource
    /// (`pods.`, with an empty group, is the core group's); without a subresource, the resource itself; with `/*`, the
    /// resource and all its subresources. For a path that is not a resource's, use the path: `/version`.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        let is_path = resource.starts_with('/');
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) if !is_path => (resource, subresource),
            _ => (resource, ""),
        };
        let (plural, group) = match resource.split_once('.') {
            Some((plural, group)) if !is_path => (plural, Some(group.to_owned())),
            _ => (resource, None),
        };
        let subresource = (subresource != "*").then(|| subresource.to_owned());
        self.resource = Some(Resource { plural: plural.to_owned(), group, subresource });
        self
    }

    /// Requests in a namespace. A request across all namespaces is in none.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Requests for one object. The name is read from the request's path or its field selector, not from its body, so a
    /// create has none.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Lists with this `limit`; 0 for lists without a limit.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Excludes the further pages of a list.
    #[must_use]
    pub fn first_pages(mut self) -> Self {
        self.first_pages = true;
        self
    }

    /// Requests of clients whose User-Agent contains `part`.
    #[must_use]
    pub fn agent(mut self, part: &str) -> Self {
        self.agent = Some(part.to_owned());
        self
    }

    /// Whether `request` matches.
    #[must_use]
    pub fn matches(&self, request: &RequestInfo) -> bool {
        let same = |wanted: &Option<String>, is: &String| wanted.as_ref().is_none_or(|wanted| wanted == is);
        (self.verbs.is_empty() || self.verbs.contains(&request.verb))
            && self.resource.as_ref().is_none_or(|resource| {
                resource.plural == request.resource
                    && same(&resource.group, &request.group)
                    && same(&resource.subresource, &request.subresource)
            })
            && same(&self.namespace, &request.namespace)
            && same(&self.name, &request.name)
            && self.limit.is_none_or(|limit| limit == request.limit)
            && !(self.first_pages && request.continues)
            && self.agent.as_ref().is_none_or(|part| request.user_agent.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(verb: Verb, group: &str, resource: &str, subresource: &str) -> RequestInfo {
        RequestInfo {
            verb,
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            limit: 0,
            continues: false,
            user_agent: "windlass/1 (webapp)".to_owned(),
        }
    }

    #[test]
    fn a_resource_is_named_with_or_without_its_group() {
        let deployment = request(Verb::Get, "apps", "deployments", "");
        let event = request(Verb::Get, "", "events", "");
        for (text, is_meant) in
            [("deployments", true), ("deployments.apps", true), ("deployments.", false), ("pods", false)]
        {
            assert_eq!(Match::any().resource(text).matches(&deployment), is_meant, "{text}");
        }
        assert!(Match::any().resource("events.").matches(&event));
        assert!(!Match::any().resource("events.events.k8s.io").matches(&event));
    }

    #[test]
    fn subresources_are_meant_only_if_named() {
        let status = request(Verb::Patch, "apps", "deployments", "status");
        for (text, is_meant) in [("deployments", false), ("deployments/status", true), ("deployments.apps/*", true)] {
            assert_eq!(Match::writes().resource(text).matches(&status), is_meant, "{text}");
        }
        assert!(Match::any().resource("deployments/*").matches(&request(Verb::Patch, "apps", "deployments", "")));
    }

    #[test]
    fn a_path_is_not_taken_apart() {
        assert!(Match::any().resource("/apis/apps/v1").matches(&request(Verb::Get, "", "/apis/apps/v1", "")));
    }

    #[test]
    fn a_list_can_be_counted_once_whatever_its_pages() {
        let first = RequestInfo { limit: 500, ..request(Verb::List, "", "pods", "") };
        let next = RequestInfo { continues: true, ..first.clone() };
        let pages = Match::verb(Verb::List).limit(500);
        assert_eq!([&first, &next].map(|it| pages.matches(it)), [true, true]);
        assert_eq!([&first, &next].map(|it| pages.clone().first_pages().matches(it)), [true, false]);
        assert!(!Match::any().limit(1).matches(&first));
    }

    #[test]
    fn everything_said_must_be_true() {
        let create = request(Verb::Create, "", "pods", "");
        assert!(Match::any().matches(&create));
        assert!(Match::writes().namespace("shop").name("web").agent("webapp").matches(&create));
        assert!(!Match::watches("pods").matches(&create));
        assert!(!Match::any().namespace("other").matches(&create));
        assert!(!Match::any().name("other").matches(&create));
        assert!(!Match::any().agent("kubectl").matches(&create));
    }
}
