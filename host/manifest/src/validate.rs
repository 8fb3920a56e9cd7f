//! Checks that the values of a manifest make sense. Reports all problems at once, so that an author does not have to
//! rebuild the plugin after each of them.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

use serde_json::{Map, Value};
use windlass_core::deceptive::single_line;
use windlass_core::object::pointer::{SEGMENTS_MAX, segment_count};
use windlass_core::rights::egress;
use windlass_core::rights::verbs::{ConsequenceVerb, REQUEST_VERBS};

use super::{Controller, HttpHost, Manifest, Metric, MetricType, Permission, Watch};

/// The most entries that a list may have: more than any plugin needs, and few enough to do no harm.
const ENTRIES_MAX: usize = 256;
/// The length of the longest qualified name: a domain, a slash, and a name.
const FINALIZER_BYTES_MAX: usize = 253 + 1 + 63;
/// The most watches that the controllers of one plugin may have together. A watch of several namespaces counts once for
/// each of them. `kinds` counts what a configuration adds.
pub(super) const WATCHES_MAX: usize = 1000;
/// How many problems a message lists at most.
const PROBLEMS_MAX: usize = 20;

impl Manifest {
    /// All problems, each as `path: problem`. Empty if the manifest is valid.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Problems::default();
        self.check(&mut problems);
        problems.listed()
    }

    fn check(&self, problems: &mut Problems) {
        problems.dns_label("name", &self.name);
        if let Err(error) = semver::Version::parse(&self.version) {
            problems.add("version", format!("{} is not a semantic version: {error}", quoted(&self.version)));
        }
        if self.controllers.is_empty() {
            problems.add("controllers", "a plugin needs at least one controller");
        }
        problems.count("controllers", self.controllers.len());
        problems.unique("controllers", self.controllers.iter().map(|controller| &*controller.name));
        for (index, controller) in self.controllers.iter().enumerate() {
            controller.check(&format!("controllers[{index}]"), problems);
        }
        let watches = self.controllers.iter().flat_map(Controller::all_watches);
        let informers: usize = watches.map(|watch| watch.namespaces.len().max(1)).sum();
        if informers > WATCHES_MAX {
            let what = format!("{informers} watches, counted per namespace, exceed the limit of {WATCHES_MAX}");
            problems.add("controllers", what);
        }
        let hooks = self.controllers.iter().flat_map(|controller| &controller.hooks);
        problems.unique("controllers[].hooks", hooks.map(|hook| &*hook.name));
        if self.config.is_none() && !self.kind_pointers().is_empty() {
            let what = "is missing, but `kindsFrom` takes kinds from the configuration: describe it here";
            problems.add("config", what);
        }
        self.check_rest(problems);
    }

    fn check_rest(&self, problems: &mut Problems) {
        problems.count("crds", self.crds.len());
        for (index, crd) in self.crds.iter().enumerate() {
            check_crd(crd, &format!("crds[{index}]"), problems);
        }
        problems.unique("crds", self.crd_names());
        self.check_keepers(problems);
        self.check_finalizers(problems);
        problems.count("permissions", self.permissions.len());
        for (index, permission) in self.permissions.iter().enumerate() {
            permission.check(&format!("permissions[{index}]"), problems);
        }
        problems.count("metrics", self.metrics.len());
        problems.unique("metrics", self.metrics.iter().map(|metric| &*metric.name));
        for (index, metric) in self.metrics.iter().enumerate() {
            metric.check(&format!("metrics[{index}]"), problems);
        }
        problems.count("http", self.http.len());
        for (index, host) in self.http.iter().enumerate() {
            host.check(&format!("http[{index}]"), problems);
        }
    }
}

impl Manifest {
    /// Refuses two controllers that keep the finalizer on the same kind of objects. A plugin has only one finalizer, so
    /// one controller would remove it before the other has cleaned up.
    fn check_keepers(&self, problems: &mut Problems) {
        let mut keepers: Vec<(&Controller, (&str, &str))> = Vec::new();
        for (index, controller) in self.controllers.iter().enumerate().filter(|(_, it)| it.options.finalizer) {
            let group = controller.primary.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            let kind = (group, &*controller.primary.kind);
            match keepers.iter().find(|(_, other)| *other == kind) {
                Some((other, _)) => problems.add(
                    format_args!("controllers[{index}].options.finalizer"),
                    format!(
                        "the controller {} already keeps the plugin's finalizer on {}: let only one of them clean up",
                        quoted(&other.name),
                        quoted(kind.1)
                    ),
                ),
                None => keepers.push((controller, kind)),
            }
        }
    }

    fn check_finalizers(&self, problems: &mut Problems) {
        problems.count("finalizers", self.finalizers.len());
        problems.unique("finalizers", self.finalizers.iter().map(String::as_str));
        let own = self.finalizer();
        for (index, name) in self.finalizers.iter().enumerate() {
            if *name == own {
                let what =
                    "is kept by the host: set `finalizer` in the options of the controller that needs it instead";
                problems.add(format_args!("finalizers[{index}]"), format!("{} {what}", quoted(name)));
            } else if name.is_empty() || name.len() > FINALIZER_BYTES_MAX {
                let what = format!("the name of a finalizer must have 1 to {FINALIZER_BYTES_MAX} characters");
                problems.add(format_args!("finalizers[{index}]"), what);
            }
        }
    }
}

/// Reports mistakes that the API server would refuse, and groups that are reserved for Kubernetes. All other checks
/// happen when the host installs the definition.
fn check_crd(crd: &Map<String, Value>, path: &str, problems: &mut Problems) {
    let text = |pointer: &str| {
        let mut steps = pointer.split('/');
        let first = crd.get(steps.next().unwrap_or_default());
        steps.try_fold(first?, |value, step| value.get(step))?.as_str()
    };
    if text("kind") != Some("CustomResourceDefinition") {
        problems.add(path, "is not a CustomResourceDefinition");
        return;
    }
    let [name, plural, group] =
        ["metadata/name", "spec/names/plural", "spec/group"].map(|it| text(it).unwrap_or_default());
    if plural.is_empty() || name != format!("{plural}.{group}") {
        let wanted = format!(
            "{} must be {}, made from the plural and the group",
            quoted(name),
            quoted(&format!("{plural}.{group}"))
        );
        problems.add(format_args!("{path}.metadata.name"), wanted);
    }
    let is_protected = |suffix: &str| group == suffix || group.ends_with(&format!(".{suffix}"));
    let approved = crd.get("metadata").and_then(|it| it.get("annotations")?.get("api-approved.kubernetes.io"));
    if ["k8s.io", "kubernetes.io"].into_iter().any(is_protected) && approved.is_none() {
        let what = "belongs to Kubernetes: servers refuse it without the annotation api-approved.kubernetes.io";
        problems.add(format_args!("{path}.spec.group"), format!("{} {what}", quoted(group)));
    }
}

impl Controller {
    /// The primary, the owned kinds and the other watches, in this order. A timer is not watched.
    pub fn all_watches(&self) -> impl Iterator<Item = &Watch> {
        let primary = Some(&self.primary).filter(|primary| primary.timer.is_none());
        primary.into_iter().chain(&self.owns).chain(&self.watches)
    }

    fn check(&self, path: &str, problems: &mut Problems) {
        problems.dns_label(format_args!("{path}.name"), &self.name);
        match &self.primary.timer {
            Some(timer) => self.check_timer(timer, path, problems),
            None => self.primary.check_primary(&format!("{path}.primary"), problems),
        }
        problems.count(format_args!("{path}.owns"), self.owns.len());
        for (index, watch) in self.owns.iter().enumerate() {
            let path = format!("{path}.owns[{index}]");
            watch.check(&path, problems);
            watch.check_no_timer(&path, problems);
            watch.check_names_kind(&path, problems);
            watch.check_no_mapping(&path, problems);
        }
        problems.count(format_args!("{path}.watches"), self.watches.len());
        for (index, watch) in self.watches.iter().enumerate() {
            let path = format!("{path}.watches[{index}]");
            watch.check(&path, problems);
            watch.check_no_timer(&path, problems);
            watch.check_no_strategy(&path, problems);
            watch.check_mapping(&path, &self.primary.indexes, problems);
        }
        if self.options.finalizer && self.primary.kinds_from.is_some() {
            let what = "cannot be kept on kinds from the configuration: once a kind is no longer named there, nothing \
                        would remove it";
            problems.add(format_args!("{path}.options.finalizer"), what);
        }
        self.check_hooks(path, problems);
        self.check_names(path, problems);
        self.options.check(&format!("{path}.options"), problems);
    }

    fn check_names(&self, path: &str, problems: &mut Problems) {
        let primary = std::iter::once(("primary".to_owned(), &self.primary));
        let owns = self.owns.iter().enumerate().map(|(at, watch)| (format!("owns[{at}]"), watch));
        let watches = self.watches.iter().enumerate().map(|(at, watch)| (format!("watches[{at}]"), watch));
        let mut taken = HashSet::new();
        let watches = primary.chain(owns).chain(watches).filter_map(|(at, watch)| Some((at, watch.name.as_ref()?)));
        let hooks = self.hooks.iter().enumerate().map(|(at, hook)| (format!("hooks[{at}]"), &hook.name));
        for (place, name) in watches.chain(hooks) {
            let at = format!("{path}.{place}.name");
            problems.dns_label(&at, name);
            if !taken.insert(name) {
                problems.add(
                    at,
                    format!("{} is also the name of another watch or hook: choose a different name", quoted(name)),
                );
            }
        }
    }
}

impl Permission {
    fn check(&self, path: &str, problems: &mut Problems) {
        for (field, list) in [("apiGroups", &self.api_groups), ("resources", &self.resources), ("verbs", &self.verbs)] {
            if list.is_empty() {
                problems.add(format_args!("{path}.{field}"), "is empty, so the permission allows nothing");
            }
            problems.count(format_args!("{path}.{field}"), list.len());
        }
        for verb in self.verbs.iter().filter(|verb| *verb != "*" && !REQUEST_VERBS.contains(&&***verb)) {
            match ConsequenceVerb::named(verb) {
                None => {
                    let problem = format!("{} is not a verb of the Kubernetes API", quoted(verb));
                    problems.add(format_args!("{path}.verbs"), problem);
                }
                Some(known) if !known.fits(&self.api_groups, &self.resources) => {
                    problems
                        .add(format_args!("{path}.verbs"), format!("{known}: ask for it in a permission of its own"));
                }
                Some(_) => {}
            }
        }
        problems.count(format_args!("{path}.namespaces"), self.namespaces.len());
        problems.count(format_args!("{path}.names"), self.names.len());
    }
}

impl Metric {
    fn check(&self, path: &str, problems: &mut Problems) {
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        for name in std::iter::once(&self.name).chain(&self.labels).filter(|name| !is_name(name)) {
            problems.add(path, format!("{} is not a valid name: use letters, digits and `_`", quoted(name)));
        }
        problems.unique(format_args!("{path}.labels"), self.labels.iter().map(|label| &**label));
        // The host sets `plugin` itself. The other labels have a meaning in Prometheus.
        let is_reserved = |label: &str| matches!(label, "plugin" | "le" | "quantile") || label.starts_with("__");
        for label in self.labels.iter().filter(|label| is_reserved(label)) {
            problems.add(format_args!("{path}.labels"), format!("{} is reserved: choose another label", quoted(label)));
        }
        if self.metric_type != MetricType::Histogram && !self.buckets.is_empty() {
            problems.add(format_args!("{path}.buckets"), "only histograms have buckets");
        }
        if !self.buckets.is_sorted_by(|a, b| a < b) {
            problems.add(format_args!("{path}.buckets"), "are not in ascending order");
        }
        problems.count(format_args!("{path}.buckets"), self.buckets.len());
        problems.count(format_args!("{path}.labels"), self.labels.len());
    }
}

impl HttpHost {
    fn check(&self, path: &str, problems: &mut Problems) {
        if !egress::is_host_pattern(&self.host) {
            problems.add(format_args!("{path}.host"), format!("{} is not a valid host name", quoted(&self.host)));
        }
        if self.methods.is_empty() {
            problems.add(format_args!("{path}.methods"), "is empty, so the rule allows no request");
        }
        problems.count(format_args!("{path}.methods"), self.methods.len());
        let can_be = |method: &str| method == "*" || egress::is_method(method);
        for method in self.methods.iter().filter(|method| !can_be(method)) {
            let what = format!("{} is not an allowed HTTP method: use one like `GET`", quoted(method));
            problems.add(format_args!("{path}.methods"), what);
        }
    }
}

/// Whether `name` is a DNS label, as the names of namespaces and plugins are.
#[must_use]
pub fn is_dns_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", single_line(text, 80))
}

#[derive(Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    pub(super) fn add(&mut self, path: impl Display, problem: impl Display) {
        self.0.push(format!("{path}: {problem}"));
    }

    pub(super) fn dns_label(&mut self, path: impl Display, name: &str) {
        if !is_dns_label(name) {
            let rule = "up to 63 lower-case letters, digits and dashes, beginning and ending with a letter or digit";
            self.add(path, format!("{} is not a DNS label, which consists of {rule}", quoted(name)));
        }
    }

    pub(super) fn not_empty(&mut self, path: impl Display, text: &str) {
        if text.is_empty() {
            self.add(path, "is empty");
        }
    }

    pub(super) fn count(&mut self, path: impl Display, count: usize) {
        if count > ENTRIES_MAX {
            self.add(path, format!("has {count} entries, but at most {ENTRIES_MAX} are allowed"));
        }
    }

    pub(super) fn unique<'a>(&mut self, path: impl Display, names: impl Iterator<Item = &'a str>) {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                self.add(&path, format!("{} appears twice", quoted(name)));
            }
        }
    }

    pub(super) fn pointers(&mut self, path: impl Display, pointers: &[Arc<str>]) {
        if pointers.is_empty() {
            self.add(&path, "needs at least one JSON pointer");
        }
        self.count(&path, pointers.len());
        for pointer in pointers {
            self.pointer(&path, pointer);
        }
    }

    pub(super) fn pointer(&mut self, path: impl Display, pointer: &str) {
        let is_escaped = |rest: &str| rest.starts_with(['0', '1']);
        if !pointer.starts_with('/') || !pointer.split('~').skip(1).all(is_escaped) {
            self.add(&path, format!("{} is not a JSON pointer: use one like `/spec/image`", quoted(pointer)));
        }
        self.segments(path, pointer);
    }

    /// Checks that `pointer` is not too deep.
    pub(super) fn segments(&mut self, path: impl Display, pointer: &str) {
        let segments = segment_count(pointer);
        if segments > SEGMENTS_MAX {
            self.add(
                path,
                format!("{} has {segments} segments, but at most {SEGMENTS_MAX} are allowed", quoted(pointer)),
            );
        }
    }

    fn listed(mut self) -> Vec<String> {
        let more = self.0.len().saturating_sub(PROBLEMS_MAX);
        if more > 0 {
            self.0.truncate(PROBLEMS_MAX);
            self.0.push(format!("and {more} more problems"));
        }
        self.0
    }
}
