//! Whether a watch makes sense.

use windlass_core::object::ObjectKind;
use windlass_core::object::pointer::{EACH, has_each};

use super::{Index, IndexSource, Mapping, Predicate, Projection, Watch};
use crate::validate::{Problems, quoted};

/// How deep predicates may be nested, the outermost included.
const PREDICATE_DEPTH_MAX: usize = 8;

impl Watch {
    pub(crate) fn check(&self, path: &str, problems: &mut Problems) {
        if let Err(reason) = ObjectKind::checked(self.api_version.clone(), self.kind.clone()) {
            problems.add(path, reason);
        }
        problems.count(format_args!("{path}.namespaces"), self.namespaces.len());
        problems.unique(format_args!("{path}.namespaces"), self.namespaces.iter().map(|namespace| &**namespace));
        for (index, namespace) in self.namespaces.iter().enumerate() {
            problems.dns_label(format_args!("{path}.namespaces[{index}]"), namespace);
        }
        if let Projection::Fields { pointers } = &self.projection {
            problems.pointers(format_args!("{path}.projection.pointers"), pointers);
        }
        problems.count(format_args!("{path}.indexes"), self.indexes.len());
        problems.unique(format_args!("{path}.indexes"), self.indexes.iter().map(|index| &*index.name));
        for (at, index) in self.indexes.iter().enumerate() {
            index.source.check(&format!("{path}.indexes[{at}].source"), problems);
        }
        if self.projection == (Projection::Metadata {}) {
            for pointer in self.pointers().iter().filter(|pointer| !pointer.starts_with("/metadata/")) {
                let what = format!("`metadata` leaves out {}, which this watch needs: use `fields`", quoted(pointer));
                problems.add(format_args!("{path}.projection"), what);
            }
        }
        problems.count(format_args!("{path}.predicates"), self.predicates.len());
        for (index, predicate) in self.predicates.iter().enumerate() {
            predicate.check(&format!("{path}.predicates[{index}]"), 1, problems);
        }
    }

    /// For a primary.
    pub(crate) fn check_deletions_count(&self, path: &str, problems: &mut Problems) {
        if !self.deleted {
            let what = "a primary that goes always runs, since clean-up and what the host remembers of it end then: leave \
                        this out, and answer at once if the request has no object";
            problems.add(format_args!("{path}.deleted"), what);
        }
    }

    pub(crate) fn check_no_strategy(&self, path: &str, problems: &mut Problems) {
        if self.update_strategy.is_some() {
            problems.add(format_args!("{path}.updateStrategy"), "only entries of `owns` have an update strategy");
        }
    }

    /// For a watch that is mapped.
    pub(crate) fn check_mapping(&self, path: &str, primary_indexes: &[Index], problems: &mut Problems) {
        let Some(mapping) = &self.mapping else {
            problems.add(path, "needs a `mapping`, which says whom a change concerns");
            return;
        };
        mapping.check(&format!("{path}.mapping"), primary_indexes, problems);
        if mapping.is_code() && self.name.is_none() {
            problems.add(
                format_args!("{path}.name"),
                "is missing: code that maps several watches tells them by their names",
            );
        }
    }

    pub(crate) fn check_no_mapping(&self, path: &str, problems: &mut Problems) {
        if self.mapping.is_some() {
            problems.add(format_args!("{path}.mapping"), "only entries of `watches` have a mapping");
        }
    }
}

impl IndexSource {
    fn check(&self, path: &str, problems: &mut Problems) {
        match self {
            Self::Field { pointer } | Self::Selector { pointer, .. } => {
                problems.pointer(format_args!("{path}.pointer"), pointer);
            }
            Self::Label { key } => problems.not_empty(format_args!("{path}.key"), key),
            Self::Reference { base, namespace, name } => {
                check_reference(base, namespace.as_deref(), name, path, problems);
            }
        }
    }
}

impl Mapping {
    /// Whether the plugin's own code maps.
    pub(crate) fn is_code(&self) -> bool {
        matches!(self, Self::Mapper {} | Self::Customize {})
    }

    fn check(&self, path: &str, primary_indexes: &[Index], problems: &mut Problems) {
        match self {
            Self::Label { key } | Self::Annotation { key } => problems.not_empty(format_args!("{path}.key"), key),
            Self::Field { pointer } => problems.pointer(format_args!("{path}.pointer"), pointer),
            Self::Reference { base, namespace, name } => {
                check_reference(base, namespace.as_deref(), name, path, problems);
            }
            Self::ReferencedBy { index } | Self::SelectedBy { index } => {
                let wants_selectors = matches!(self, Self::SelectedBy { .. });
                if let Some(what) = misfit(index, primary_indexes, wants_selectors) {
                    problems.add(format_args!("{path}.index"), what);
                }
            }
            Self::Owner {} | Self::SameName {} | Self::All {} | Self::Mapper {} | Self::Customize {} => {}
        }
    }
}

/// The reason why a mapping cannot go by the primary's index of this name.
fn misfit(name: &str, primary_indexes: &[Index], wants_selectors: bool) -> Option<String> {
    let Some(index) = primary_indexes.iter().find(|declared| declared.name == *name) else {
        return Some(format!("the primary declares no index {}", quoted(name)));
    };
    match (wants_selectors, matches!(index.source, IndexSource::Selector { .. })) {
        (true, false) => Some(format!(
            "the primary's index {} is not of selectors: give it a source of the type `selector`, or map by `referencedBy`",
            quoted(name)
        )),
        (false, true) => {
            Some(format!("the primary's index {} is of selectors, and not of names: map by `selectedBy`", quoted(name)))
        }
        _ => None,
    }
}

fn check_reference(base: &str, namespace: Option<&str>, name: &str, path: &str, problems: &mut Problems) {
    if !base.is_empty() {
        problems.pointer(format_args!("{path}.base"), base);
    }
    for (field, below) in [("namespace", namespace), ("name", Some(name))] {
        let Some(below) = below else { continue };
        problems.pointer(format_args!("{path}.{field}"), below);
        if has_each(below) {
            let what = "leads to more than one value: a list of references belongs into `base`, as in `/spec/refs";
            problems.add(format_args!("{path}.{field}"), format!("{} {what}/{EACH}`", quoted(below)));
        }
    }
}

impl Predicate {
    fn check(&self, path: &str, depth: usize, problems: &mut Problems) {
        if depth > PREDICATE_DEPTH_MAX {
            let what = format!(
                "predicates may be nested {PREDICATE_DEPTH_MAX} deep, and this is deeper: say the same with fewer"
            );
            problems.add(path, what);
            return;
        }
        match self {
            Self::Fields { pointers } => problems.pointers(format_args!("{path}.pointers"), pointers),
            Self::Not { predicate } => predicate.check(&format!("{path}.predicate"), depth + 1, problems),
            Self::And { predicates } => {
                if predicates.is_empty() {
                    let what = "needs at least one predicate: without any it says nothing about a change";
                    problems.add(format_args!("{path}.predicates"), what);
                }
                problems.count(format_args!("{path}.predicates"), predicates.len());
                for (index, predicate) in predicates.iter().enumerate() {
                    predicate.check(&format!("{path}.predicates[{index}]"), depth + 1, problems);
                }
            }
            Self::Generation {} | Self::Labels {} | Self::Annotations {} => {}
        }
    }
}
