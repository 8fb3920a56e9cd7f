//! Finds the kinds that the plugin reads and no controller watches. The host caches these for it.

use std::collections::BTreeSet;

use windlass_core::object::{ObjectKind, plural};
use windlass_core::rights::grants::Rule;

use super::controllers::ImportedController;
use super::kinds::GoKinds;
use super::scan::SourceFacts;

/// A Go type whose objects the plugin reads: the import path, and the name.
pub(super) type ReadType = (String, String);

/// The types of kinds that the code in `running` names, that no controller watches, and that a rule allows to watch.
pub(super) fn reads(
    facts: &SourceFacts,
    running: &BTreeSet<String>,
    controllers: &[ImportedController],
    rules: &[Rule],
    kinds: &GoKinds<'_>,
) -> Vec<ReadType> {
    let mut found = BTreeSet::new();
    for it in facts.type_uses.iter().filter(|it| running.contains(&it.folder)) {
        let name = it.name.strip_suffix("List").unwrap_or(&it.name);
        let Some(kind) = kinds.of(&it.import, name) else { continue };
        let is_watched =
            controllers.iter().any(|it| it.primary == kind || it.owns.contains(&kind) || it.watches.contains(&kind));
        if !is_watched && may_watch(rules, &kind) {
            found.insert((it.import.clone(), name.to_owned()));
        }
    }
    found.into_iter().collect()
}

/// Whether a rule names the kind and the verb `watch`. A rule about all resources does not tell kinds from other types.
fn may_watch(rules: &[Rule], kind: &ObjectKind) -> bool {
    let plural = plural(&kind.kind);
    rules.iter().any(|rule| {
        rule.groups.iter().any(|group| group == kind.group() || group == "*")
            && rule.resources.contains(&plural)
            && rule.verbs.iter().any(|verb| verb == "watch" || verb == "*")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::project_file::ProjectFile;
    use crate::import::scan::TypeUse;

    #[test]
    fn only_kinds_that_are_named_and_may_be_watched_are_cached() {
        let type_use = |folder: &str, name: &str| TypeUse {
            folder: folder.into(),
            import: "k8s.io/api/core/v1".into(),
            name: name.into(),
        };
        let type_uses = vec![
            type_use("ctl", "SecretList"),
            type_use("ctl", "Secret"),
            type_use("ctl", "Container"),
            type_use("ctl", "Service"),
            type_use("test", "Pod"),
        ];
        let facts = SourceFacts { type_uses, ..SourceFacts::default() };
        let rule = |resources: &[&str], verb: &str| Rule {
            groups: vec![String::new()],
            resources: resources.iter().map(|it| (*it).to_owned()).collect(),
            verbs: vec![verb.into()],
            ..Rule::default()
        };
        let rules = [rule(&["secrets", "pods"], "watch"), rule(&["services"], "get"), rule(&["*"], "watch")];
        let project = ProjectFile::default();
        let kinds = GoKinds { module: "example.com/shop", packages: &[], project: &project, definitions: &[] };
        let running = ["ctl".to_owned()].into();
        let found = reads(&facts, &running, &[], &rules, &kinds);
        assert_eq!(found, [("k8s.io/api/core/v1".to_owned(), "Secret".to_owned())]);
    }
}
