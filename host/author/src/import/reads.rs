//! Finds the kinds that the plugin reads and no controller watches. The host caches these for it.

use std::collections::BTreeSet;

use windlass_core::object::{ObjectKind, plural};
use windlass_core::rights::grants::Rule;

use super::controllers::ImportedController;
use super::kinds::GoKinds;
use super::scan::SourceFacts;

/// A Go type whose objects the plugin reads: the import path, and the name.
pub(super) type ReadType = (String, String);

/// The kinds that the code in `running` names, that no controller watches, and that a rule allows to watch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ReadKinds {
    /// The types of kinds that each cluster serves. The host caches these.
    pub cached: BTreeSet<ReadType>,
    /// The kinds that a cluster may lack, with their types. They are read live, because a controller waits until all
    /// kinds of its caches are served.
    pub live: BTreeSet<(ObjectKind, ReadType)>,
}

/// Finds the kinds.
pub(super) fn reads(
    facts: &SourceFacts,
    running: &BTreeSet<String>,
    controllers: &[ImportedController],
    rules: &[Rule],
    kinds: &GoKinds<'_>,
) -> ReadKinds {
    let mut found = ReadKinds::default();
    for it in facts.type_uses.iter().filter(|it| running.contains(&it.folder)) {
        let name = it.name.strip_suffix("List").unwrap_or(&it.name);
        let Some(kind) = kinds.of(&it.import, name) else { continue };
        let is_watched =
            controllers.iter().any(|it| it.primary == kind || it.owns.contains(&kind) || it.watches.contains(&kind));
        if is_watched || !may_watch(rules, &kind) {
            continue;
        }
        let read = (it.import.clone(), name.to_owned());
        if kinds.is_always_served(&it.import, &kind) {
            found.cached.insert(read);
        } else {
            found.live.insert((kind, read));
        }
    }
    found
}

/// Whether a rule names the kind and the verb `watch`. A rule about all resources does not count, because it does not
/// distinguish kinds from other types.
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
    use serde_json::json;

    use super::*;
    use crate::import::project_file::ProjectFile;
    use crate::import::scan::{SourcePackage, TypeUse};

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
        let cached = [("k8s.io/api/core/v1".to_owned(), "Secret".to_owned())].into();
        assert_eq!(found, ReadKinds { cached, live: [].into() });
    }

    #[test]
    fn kinds_that_a_cluster_may_lack_are_read_live() {
        let own = "example.com/shop/api/v1";
        let uses = [
            ("k8s.io/api/core/v1", "Secret"),
            ("k8s.io/api/storage/v1beta1", "CSINode"),
            ("example.org/monitoring/v1", "Probe"),
            (own, "Shop"),
            (own, "Till"),
        ];
        let type_use =
            |(import, name): (&str, &str)| TypeUse { folder: "ctl".into(), import: import.into(), name: name.into() };
        let facts = SourceFacts { type_uses: uses.into_iter().map(type_use).collect(), ..SourceFacts::default() };
        let rule = Rule {
            groups: vec!["*".into()],
            resources: ["secrets", "csinodes", "probes", "shops", "tills"].map(str::to_owned).into(),
            verbs: vec!["*".into()],
            ..Rule::default()
        };
        let project = json!({"resources": [{"group": "monitoring", "domain": "example.org", "external": true,
            "kind": "Probe", "version": "v1", "path": "example.org/monitoring/v1"}]});
        let project = ProjectFile::of(&project);
        let package = SourcePackage {
            folder: "api/v1".into(),
            name: "v1".into(),
            group: "example.com".into(),
            ..SourcePackage::default()
        };
        let definition = |kind: &str, version: &str| json!({"spec": {"group": "example.com", "names": {"kind": kind}, "versions": [{"name": version}]}});
        let definitions = [definition("Shop", "v1"), definition("Till", "v2")];
        let kinds =
            GoKinds { module: "example.com/shop", packages: &[package], project: &project, definitions: &definitions };
        let found = reads(&facts, &["ctl".to_owned()].into(), &[], &[rule], &kinds);
        let cached: Vec<_> = found.cached.iter().map(|(_, name)| &**name).collect();
        assert_eq!(cached, ["Shop", "Secret"]);
        let live: BTreeSet<_> = found.live.iter().map(|(kind, _)| kind.to_string()).collect();
        let expected = ["example.com/v1 Till", "monitoring.example.org/v1 Probe", "storage.k8s.io/v1beta1 CSINode"];
        assert_eq!(live.into_iter().collect::<Vec<_>>(), expected, "{found:?}");
    }
}
