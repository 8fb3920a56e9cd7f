//! Observes the surroundings of a parent: its children, its related objects, and objects that may become its children.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::related::RelatedRule;
use windlass_core::call::compose::{
    CompositeParent, Composition, Flaw, ObservedChildren, OwnedKind, UpdateStrategy, Wanted,
};
use windlass_core::call::ports::{CallContext, ListQuery, Ports};
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::pointer_tree::PointerTree;
use windlass_core::object::{Object, ObjectKey, ObjectKind, ObjectRef};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_kube::{Readable, Store};

use super::carry_out::ChildWriter;
use crate::dispatch::ports::LongWork;
use crate::dispatch::route::{Route, Stores};

/// The page size for reading children.
const CHILDREN_PAGE_OBJECTS: u32 = 500;

/// A watched kind of children.
pub(crate) struct OwnedWatch {
    pub(crate) kind: ObjectKind,
    /// The part of a child that the plugin receives. `None` for all of it.
    pub(crate) call_part: Option<PointerTree>,
    pub(crate) strategy: UpdateStrategy,
    pub(crate) watches: Vec<Readable>,
}

/// A watch of other objects that concern primaries.
pub(crate) struct RelatedWatch {
    pub(crate) route: Route,
    /// The part of an object that the plugin receives. `None` for all of it.
    pub(crate) call_part: Option<PointerTree>,
    pub(crate) watches: Vec<Readable>,
}

/// The caches of everything that a controller watches.
pub(crate) struct ObservedState {
    pub(crate) primaries: Stores,
    pub(crate) owned: Vec<OwnedWatch>,
    pub(crate) related: Vec<RelatedWatch>,
}

impl OwnedWatch {
    /// The kind, as the manifest and the server describe it. `None` if its first list has not come, or its cache was
    /// emptied.
    fn declared(&self) -> Option<OwnedKind> {
        let resource = self.watches.first()?.store.resource()?;
        Some(OwnedKind {
            kind: self.kind.clone(),
            namespaced: resource.namespaced,
            namespaces: self.watches.iter().map(|watch| watch.spec.namespace.clone()).collect(),
            strategy: self.strategy,
        })
    }

    /// Whether the cache shows all objects of the kind, so that an object that is not in it does not exist.
    fn shows_all(&self) -> bool {
        !self.watches.iter().any(|watch| watch.spec.is_filtered())
    }

    /// The label selector that an object with `labels` would not match, so that the host would never see the object.
    fn hides(&self, labels: &BTreeMap<String, String>) -> Option<&str> {
        let labels = labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        self.watches.iter().find_map(|watch| {
            let selector = watch.spec.label_selector.as_ref()?;
            (!selector.matches(&labels)).then(|| selector.text())
        })
    }
}

impl ObservedState {
    /// All children that the primary controls.
    pub(super) async fn children(&self, ports: &Ports, call: &CallContext) -> Result<Vec<ObservedChildren>, Failure> {
        let (mut children, mut work) = (Vec::new(), LongWork::of(&call.cpu_permit));
        for owned in &self.owned {
            let mut page_token = None;
            loop {
                let query = ListQuery {
                    kind: owned.kind.clone(),
                    namespace: None,
                    label_selector: None,
                    index: None,
                    owned: true,
                    fields: None,
                    limit: CHILDREN_PAGE_OBJECTS,
                    max_bytes: None,
                    page_token,
                };
                let page = ports.reads.list(call, &query).map_err(Failure::Api)?;
                for text in page.items {
                    work.pause().await;
                    children.push(read(&owned.kind, text)?);
                }
                page_token = page.next_token;
                if page_token.is_none() {
                    break;
                }
            }
        }
        Ok(children)
    }

    /// The parts of `children` that the plugin receives.
    pub(super) async fn parts(
        &self,
        children: &[ObservedChildren],
        call: &CallContext,
    ) -> Result<Vec<Arc<str>>, Failure> {
        let (mut texts, mut work) = (Vec::with_capacity(children.len()), LongWork::of(&call.cpu_permit));
        for child in children {
            work.pause().await;
            let part = self.owned_of(&child.kind).and_then(|owned| owned.call_part.as_ref());
            texts.push(cut(&child.kind, child.text.clone(), part)?);
        }
        Ok(texts)
    }

    /// The objects of the other watches that map to the primary, each with the part that the plugin receives.
    pub(super) async fn related(
        &self,
        ports: &Ports,
        call: &CallContext,
        primary: &Object,
    ) -> Result<Vec<Arc<str>>, Failure> {
        let (mut texts, mut work) = (Vec::new(), LongWork::of(&call.cpu_permit));
        for related in &self.related {
            let grants = call.principal.grants();
            let found = related.of(primary, &self.primaries, &mut work).await;
            // Objects that the policy hides are skipped, and do not stop the composition.
            for target in found.into_iter().filter(|target| !grants.hides(&target.key)) {
                // Read through the plugin's own port, so that its grants and its own writes apply.
                let text = ports.reads.get(call, &target, None).map_err(Failure::Api)?;
                let part = related.call_part.as_ref();
                texts.extend(text.map(|text| cut(&target.kind, text, part)).transpose()?);
            }
        }
        Ok(texts)
    }

    /// Whether the plugin itself determines the objects related to a parent.
    pub(super) fn customizes(&self) -> bool {
        self.related.iter().any(|related| related.customized().is_some())
    }

    /// Returns the rules if the manifest says, for every watch that they name, that `customize` maps it.
    pub(super) fn checked(&self, rules: Vec<RelatedRule>) -> Result<Vec<RelatedRule>, CallResult> {
        let is_customized = |rule: &RelatedRule| self.related.iter().any(|it| it.customized() == Some(&rule.watch));
        match rules.iter().position(|rule| !is_customized(rule)) {
            None => Ok(rules),
            Some(wrong) => {
                let problem = format!(
                    "the answer of `customize` is wrong: [{wrong}]: the manifest maps no watch `{}` by `customize`",
                    rules[wrong].watch
                );
                // The plugin sees only its request, so it would answer the same again.
                Err(CallResult::Failed(vec![Failure::Terminal(problem)]))
            }
        }
    }

    /// Checks an answer.
    pub(super) fn check(&self, answer: &Composition, parent: &CompositeParent) -> Result<Wanted, Vec<Flaw>> {
        let owns: Vec<OwnedKind> = self.owned.iter().filter_map(OwnedWatch::declared).collect();
        let wanted = Wanted::read(answer, parent, &owns)?;
        let hidden = wanted.children.iter().enumerate().filter_map(|(index, child)| {
            let selector = self.owned_of(&child.kind)?.hides(&child.labels)?;
            let problem = format!(
                "{} lacks the labels {selector:?}, by which the manifest watches {}: the host would never see it",
                child.reference(),
                child.kind
            );
            Some(Flaw { place: format!("children[{index}]"), problem })
        });
        let hidden: Vec<Flaw> = hidden.collect();
        if hidden.is_empty() { Ok(wanted) } else { Err(hidden) }
    }

    /// Whether the cache shows all objects of `kind`, so that a child that is not in it does not exist.
    pub(super) fn shows_all(&self, kind: &ObjectKind) -> bool {
        self.owned_of(kind).is_some_and(OwnedWatch::shows_all)
    }

    fn owned_of(&self, kind: &ObjectKind) -> Option<&OwnedWatch> {
        self.owned.iter().find(|owned| owned.kind == *kind)
    }
}

/// Objects that have the name of a wanted child but are not among the primary's `children`.
pub(super) fn others(
    wanted: &Wanted,
    children: &[ObservedChildren],
    hand: &ChildWriter<'_>,
) -> Result<Vec<ObservedChildren>, Failure> {
    let known: std::collections::HashSet<_> = children.iter().map(|child| (&child.kind, &child.key)).collect();
    let mut others = Vec::new();
    for child in wanted.children.iter().filter(|child| !known.contains(&(&child.kind, &child.key))) {
        if let Some(text) = hand.cached(&child.reference()).map_err(Failure::Api)? {
            others.push(read(&child.kind, text)?);
        }
    }
    Ok(others)
}

fn read(kind: &ObjectKind, text: Arc<str>) -> Result<ObservedChildren, Failure> {
    ObservedChildren::read(kind, text).map_err(|error| unreadable(kind, &error.to_string()))
}

/// The selected `part` of the text of an object.
fn cut(kind: &ObjectKind, text: Arc<str>, part: Option<&PointerTree>) -> Result<Arc<str>, Failure> {
    let Some(part) = part else { return Ok(text) };
    part.select(&text).map(Arc::from).map_err(|error| unreadable(kind, &error.to_string()))
}

fn unreadable(kind: &ObjectKind, error: &str) -> Failure {
    Failure::Api(ApiError::refused(ApiReason::ServerError, "list", kind.to_string(), None, error))
}

impl RelatedWatch {
    /// The objects that map to `primary`, each once.
    ///
    /// Objects that map by owner, by name or by an index of the primary's names are looked up. The primary's selectors
    /// are compared with the labels of every object. For a label, an annotation, a field, a reference, or all, this
    /// looks at every object of the watch, and parses it for annotations, fields and references.
    async fn of(&self, primary: &Object, primaries: &Stores, work: &mut LongWork) -> Vec<ObjectRef> {
        let key = &primary.header.key;
        let mapping = &self.route.mapping;
        // With these mappings, exactly the related objects were selected.
        let is_related = |object: &Object| {
            matches!(mapping, Mapping::All | Mapping::Customize)
                || mapping.keys(object, &self.route.primary, primaries).contains(key)
        };
        let mut found: BTreeMap<ObjectKey, ObjectKind> = BTreeMap::new();
        for Readable { spec, store, .. } in &self.watches {
            let candidates = self.candidates(primary, primaries, store).unwrap_or_else(|| store.all());
            for object in candidates {
                work.pause().await;
                if is_related(&object) {
                    found.insert(object.header.key.clone(), spec.kind.clone());
                }
            }
        }
        found.into_iter().map(|(key, kind)| ObjectRef { kind, key, uid: None }).collect()
    }

    /// The name of the watch, if the plugin itself determines which of its objects are related to a parent.
    fn customized(&self) -> Option<&Arc<str>> {
        self.route.watch.as_ref().filter(|_| self.route.mapping == Mapping::Customize)
    }

    /// Candidates in `store`: all objects that map to `primary`, and perhaps others. `None` if every object must be
    /// looked at.
    fn candidates(&self, primary: &Object, primaries: &Stores, store: &Store) -> Option<Vec<Object>> {
        let key = &primary.header.key;
        match &self.route.mapping {
            Mapping::Itself => Some(store.get(key).into_iter().collect()),
            Mapping::Owner => Some(store.owned_by(&primary.header.uid.text())),
            Mapping::AnyOwner => key.namespace.as_deref().map(|namespace| store.in_namespace(namespace)),
            Mapping::SameName => near(store, key, &key.name),
            Mapping::None => Some(vec![]),
            Mapping::ReferencedBy(index) => {
                let source = primaries.index(index)?;
                let mut found = Vec::new();
                let body = body(primary);
                for name in &source.values(primary, &body) {
                    match name.split_once('/') {
                        Some((namespace, name)) => found.extend(store.get(&ObjectKey::namespaced(namespace, name))),
                        None => found.extend(near(store, key, name)?),
                    }
                }
                Some(found)
            }
            Mapping::SelectedBy(index) => {
                let selectors = primaries.index(index)?.selectors(&body(primary));
                let is_selected = |object: &Object| selectors.iter().any(|it| it.matches(&object.header.labels));
                let mut found = match &key.namespace {
                    Some(namespace) => [store.in_namespace(namespace), store.in_namespace("")].concat(),
                    None => store.all(),
                };
                found.retain(is_selected);
                Some(found)
            }
            Mapping::Customize => {
                let watch = self.customized()?;
                let rules = primaries.related.of(key);
                let of_watch = rules.iter().filter(|rule| rule.watch == *watch);
                Some(of_watch.flat_map(|rule| by_rule(store, key, rule)).collect())
            }
            // A composer has no mapper.
            Mapping::Label(_)
            | Mapping::Annotation(_)
            | Mapping::Field(_)
            | Mapping::Reference(_)
            | Mapping::All
            | Mapping::Mapper => None,
        }
    }
}

/// The objects that a rule of the parent selects.
fn by_rule(store: &Store, parent: &ObjectKey, rule: &RelatedRule) -> Vec<Object> {
    let places: Vec<&str> = match (&rule.namespace, &parent.namespace) {
        (Some(namespace), _) => vec![namespace],
        (None, Some(namespace)) => vec![namespace, ""],
        (None, None) => vec![],
    };
    let mut found: Vec<Object> = if places.is_empty() {
        store.all()
    } else if rule.names.is_empty() {
        places.iter().flat_map(|namespace| store.in_namespace(namespace)).collect()
    } else {
        let key = |namespace: &str, name: &Arc<str>| match namespace {
            "" => ObjectKey::cluster(name.clone()),
            _ => ObjectKey::namespaced(namespace, name.clone()),
        };
        let keys = places.iter().flat_map(|namespace| rule.names.iter().map(|name| key(namespace, name)));
        keys.filter_map(|key| store.get(&key)).collect()
    };
    found.retain(|object| rule.matches(parent, object));
    found
}

/// The objects of this name in the namespace of `key` or in no namespace. `None` if `key` has no namespace, so that
/// they may be anywhere.
fn near(store: &Store, key: &ObjectKey, name: &str) -> Option<Vec<Object>> {
    let namespace = key.namespace.clone()?;
    let keys = [ObjectKey::namespaced(namespace, name), ObjectKey::cluster(name)];
    Some(keys.iter().filter_map(|key| store.get(key)).collect())
}

fn body(object: &Object) -> Value {
    serde_json::from_str(&object.text()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
