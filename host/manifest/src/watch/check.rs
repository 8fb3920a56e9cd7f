//! Checks that a watch makes sense. Malformed values with their own syntax, such as selectors, were already refused
//! during parsing.

use windlass_core::cache::mapping::Mapping;
use windlass_core::cache::predicate::Predicate;
use windlass_core::cache::watch::{DIGEST, Index, IndexSource, Projection};
use windlass_core::object::ObjectKind;
use windlass_core::object::pointer::{EACH, SEGMENTS_MAX, has_each, segment_count};
use windlass_core::object::reference::ReferencePath;

use super::Watch;
use crate::validate::{Problems, quoted};

/// How deep predicates may be nested, counting the outermost one.
const PREDICATE_DEPTH_MAX: usize = 8;

impl Watch {
    pub(crate) fn check(&self, path: &str, problems: &mut Problems) {
        match &self.kinds_from {
            Some(pointer) => self.check_kinds_from(pointer, path, problems),
            None if self.timer.is_some() => {}
            None => self.check_kind(path, problems),
        }
        problems.count(format_args!("{path}.namespaces"), self.namespaces.len());
        problems.unique(format_args!("{path}.namespaces"), self.namespaces.iter().map(|namespace| &**namespace));
        for (index, namespace) in self.namespaces.iter().enumerate() {
            problems.dns_label(format_args!("{path}.namespaces[{index}]"), namespace);
        }
        self.check_where(&format!("{path}.where"), problems);
        if let Projection::Fields(pointers) | Projection::Digest(pointers) = &self.projection {
            problems.pointers(format_args!("{path}.projection.pointers"), pointers);
        }
        problems.count(format_args!("{path}.indexes"), self.indexes.len());
        problems.unique(format_args!("{path}.indexes"), self.indexes.iter().map(|index| &*index.name));
        for (at, index) in self.indexes.iter().enumerate() {
            check_source(&index.source, &format!("{path}.indexes[{at}].source"), problems);
        }
        self.check_kept(&format!("{path}.projection"), problems);
        problems.count(format_args!("{path}.predicates"), self.predicates.len());
        for (index, predicate) in self.predicates.iter().enumerate() {
            check_predicate(predicate, &format!("{path}.predicates[{index}]"), 1, problems);
        }
        let call_fields = self.call_fields.as_deref().unwrap_or_default();
        problems.count(format_args!("{path}.callFields"), call_fields.len());
        for pointer in call_fields {
            problems.pointer(format_args!("{path}.callFields"), pointer);
        }
        let is_mapped_by_code = self.mapping.as_ref().is_some_and(Mapping::is_code);
        if self.name.is_none() && (self.code_predicate || is_mapped_by_code) {
            problems.add(
                format_args!("{path}.name"),
                "is missing: the plugin's code distinguishes the watches that it decides about by their names",
            );
        }
    }

    /// Checks a watch of primaries.
    pub(crate) fn check_primary(&self, path: &str, problems: &mut Problems) {
        self.check(path, problems);
        self.check_no_mapping(path, problems);
        self.check_no_strategy(path, problems);
        self.check_deletions_count(path, problems);
    }

    /// Checks a watch of a kind that the manifest names.
    fn check_kind(&self, path: &str, problems: &mut Problems) {
        let missing =
            [("apiVersion", &self.api_version), ("kind", &self.kind)].into_iter().find(|(_, it)| it.is_empty());
        if let Some((field, _)) = missing {
            problems.add(path, format!("missing field `{field}`"));
        } else if let Err(reason) = ObjectKind::checked(self.api_version.clone(), self.kind.clone()) {
            problems.add(path, reason);
        }
        if !self.verbs.is_empty() {
            let what = "only a watch with `kindsFrom` has verbs: ask for these rights in `permissions`";
            problems.add(format_args!("{path}.verbs"), what);
        }
    }

    /// Checks a watch of the kinds that the configuration names at `pointer`.
    fn check_kinds_from(&self, pointer: &str, path: &str, problems: &mut Problems) {
        let at = format!("{path}.kindsFrom");
        problems.pointer(&at, pointer);
        if has_each(pointer) {
            problems
                .add(&at, format!("{} must lead to one list of kinds, so it can have no `{EACH}`", quoted(pointer)));
        }
        if !self.api_version.is_empty() || !self.kind.is_empty() {
            problems.add(&at, "takes the place of `apiVersion` and `kind`: leave these out");
        }
        if self.projection != Projection::Metadata {
            let what = "`kindsFrom` needs the projection `metadata`: it is all that objects of every kind have, and a \
                        kind that an operator names must not fill the cache with whole objects, such as Secrets";
            problems.add(format_args!("{path}.projection"), what);
        }
    }

    /// Checks that the watch is no timer.
    pub(crate) fn check_no_timer(&self, path: &str, problems: &mut Problems) {
        if self.timer.is_some() {
            problems
                .add(format_args!("{path}.timer"), "only a primary may be a timer: give it a controller of its own");
        }
    }

    /// Checks that the manifest names the kind itself.
    pub(crate) fn check_names_kind(&self, path: &str, problems: &mut Problems) {
        if self.kinds_from.is_some() {
            let what = "only a primary and entries of `watches` may take their kinds from the configuration";
            problems.add(format_args!("{path}.kindsFrom"), what);
        }
    }

    /// Checks that the projection keeps what the host reads for this watch.
    fn check_kept(&self, path: &str, problems: &mut Problems) {
        let (name, digest, instead) = match self.projection {
            Projection::Full | Projection::Fields(_) => return,
            Projection::Metadata => ("metadata", None, "use `fields`"),
            Projection::Digest(_) => ("digest", Some(format!("/{DIGEST}")), "read `/digest`, or use `fields`"),
        };
        let is_kept = |pointer: &String| {
            pointer == "/metadata" || pointer.starts_with("/metadata/") || digest.as_ref() == Some(pointer)
        };
        for pointer in self.pointers().iter().filter(|pointer| !is_kept(pointer)) {
            problems.add(path, format!("`{name}` leaves out {}, which this watch reads: {instead}", quoted(pointer)));
        }
    }

    /// Checks that the watch of a primary does not ignore deletions.
    fn check_deletions_count(&self, path: &str, problems: &mut Problems) {
        if !self.deleted {
            let what = "a deleted primary is always reconciled, so that its clean-up ends: leave \
                        this field out, and return at once if the request has no object";
            problems.add(format_args!("{path}.deleted"), what);
        }
    }

    pub(crate) fn check_no_strategy(&self, path: &str, problems: &mut Problems) {
        if self.update_strategy.is_some() {
            problems.add(format_args!("{path}.updateStrategy"), "only entries of `owns` have an update strategy");
        }
    }

    /// Checks a watch that needs a mapping.
    pub(crate) fn check_mapping(&self, path: &str, primary_indexes: &[Index], problems: &mut Problems) {
        let Some(mapping) = &self.mapping else {
            problems.add(path, "needs a `mapping` that says which primaries a change concerns");
            return;
        };
        check_mapping(mapping, &format!("{path}.mapping"), primary_indexes, problems);
    }

    pub(crate) fn check_no_mapping(&self, path: &str, problems: &mut Problems) {
        if self.mapping.is_some() {
            problems.add(format_args!("{path}.mapping"), "only entries of `watches` have a mapping");
        }
    }
}

fn check_source(source: &IndexSource, path: &str, problems: &mut Problems) {
    match source {
        IndexSource::Field(pointer) | IndexSource::Selector { pointer, .. } => {
            problems.pointer(format_args!("{path}.pointer"), pointer);
        }
        IndexSource::Label(key) | IndexSource::Annotation { key, .. } => {
            problems.not_empty(format_args!("{path}.key"), key);
        }
        IndexSource::Reference(reference) => check_reference(reference, path, problems),
    }
}

pub(crate) fn check_mapping(mapping: &Mapping, path: &str, primary_indexes: &[Index], problems: &mut Problems) {
    match mapping {
        Mapping::Label(key) | Mapping::Annotation(key) => problems.not_empty(format_args!("{path}.key"), key),
        Mapping::Field(pointer) => problems.pointer(format_args!("{path}.pointer"), pointer),
        Mapping::Reference(reference) => check_reference(reference, path, problems),
        Mapping::ReferencedBy(index) | Mapping::SelectedBy(index) => {
            let wants_selectors = matches!(mapping, Mapping::SelectedBy(_));
            if let Some(what) = misfit(index, primary_indexes, wants_selectors) {
                problems.add(format_args!("{path}.index"), what);
            }
        }
        Mapping::Itself
        | Mapping::Owner
        | Mapping::AnyOwner
        | Mapping::SameName
        | Mapping::None
        | Mapping::All
        | Mapping::Mapper
        | Mapping::Customize => {}
    }
}

/// The reason why a mapping cannot use the primary's index of this name.
fn misfit(name: &str, primary_indexes: &[Index], wants_selectors: bool) -> Option<String> {
    let Some(source) = Index::source(primary_indexes, name) else {
        return Some(format!("the primary declares no index {}", quoted(name)));
    };
    match (wants_selectors, matches!(source, IndexSource::Selector { .. })) {
        (true, false) => Some(format!(
            "the primary's index {} has no selectors: give it a source of the type `selector`, or map by `referencedBy`",
            quoted(name)
        )),
        (false, true) => {
            Some(format!("the primary's index {} has selectors instead of names: map by `selectedBy`", quoted(name)))
        }
        _ => None,
    }
}

fn check_reference(reference: &ReferencePath, path: &str, problems: &mut Problems) {
    let ReferencePath { base, namespace, name } = reference;
    if !base.is_empty() {
        problems.pointer(format_args!("{path}.base"), base);
    }
    for (field, below) in [("namespace", namespace.as_ref()), ("name", Some(name))] {
        let Some(below) = below else { continue };
        problems.pointer(format_args!("{path}.{field}"), below);
        if has_each(below) {
            let what = "leads to more than one value: put the list of references into `base`, as in `/spec/refs";
            problems.add(format_args!("{path}.{field}"), format!("{} {what}/{EACH}`", quoted(below)));
        }
        let is_each_short = [base, below].into_iter().all(|pointer| segment_count(pointer) <= SEGMENTS_MAX);
        if is_each_short {
            problems.segments(format_args!("{path}.{field}"), &format!("{base}{below}"));
        }
    }
}

fn check_predicate(predicate: &Predicate, path: &str, depth: usize, problems: &mut Problems) {
    if depth > PREDICATE_DEPTH_MAX {
        let what = format!("predicates may be nested only {PREDICATE_DEPTH_MAX} levels deep: use fewer levels");
        problems.add(path, what);
        return;
    }
    match predicate {
        Predicate::Fields(pointers) => problems.pointers(format_args!("{path}.pointers"), pointers),
        Predicate::Not(inner) => check_predicate(inner, &format!("{path}.predicate"), depth + 1, problems),
        Predicate::And(all) => {
            if all.is_empty() {
                let what = "needs at least one predicate";
                problems.add(format_args!("{path}.predicates"), what);
            }
            problems.count(format_args!("{path}.predicates"), all.len());
            for (index, inner) in all.iter().enumerate() {
                check_predicate(inner, &format!("{path}.predicates[{index}]"), depth + 1, problems);
            }
        }
        Predicate::Generation | Predicate::Labels | Predicate::Annotations => {}
    }
}
