//! Combines what several replicas of a host report about the same plugins.

use serde_json::Value;

use crate::cli::view::text;
use crate::cli::watching::pod_proxy::FoundPod;

/// The plugins of one host, as the host shows them.
#[derive(Debug, PartialEq)]
pub(crate) struct HostPlugins {
    pub(crate) plugins: Vec<Value>,
    /// True if the host has not looked at all its plugins yet.
    pub(crate) is_starting: bool,
}

impl HostPlugins {
    /// Reads the document of `/plugins`. `None` if it has no list of plugins.
    pub(crate) fn of(mut shown: Value) -> Option<Self> {
        let is_starting = shown["starting"] == true;
        match shown.get_mut("plugins").map(Value::take) {
            Some(Value::Array(plugins)) if plugins.iter().all(Value::is_object) => Some(Self { plugins, is_starting }),
            _ => None,
        }
    }
}

/// The plugins as one replica shows them. The error says why it shows none.
#[derive(Debug)]
pub(crate) struct ReplicaView {
    pub(crate) pod: FoundPod,
    pub(crate) plugins: Result<HostPlugins, String>,
}

impl ReplicaView {
    /// True if the replica answers, or need not answer because it is being deleted.
    pub(crate) fn is_as_expected(&self) -> bool {
        self.plugins.is_ok() || self.pod.is_ending
    }

    /// The reason why the replica shows nothing, in a sentence.
    pub(crate) fn silence(&self) -> Option<String> {
        let why = self.plugins.as_ref().err()?;
        let ends = if self.pod.is_ending { ", and is being deleted" } else { "" };
        Some(format!("the replica {} does not answer{ends}: {why}", self.pod.name))
    }

    /// True if the replica has not looked at all its plugins yet.
    pub(crate) fn is_starting(&self) -> bool {
        self.plugins.as_ref().is_ok_and(|shown| shown.is_starting)
    }

    fn plugins(&self) -> impl Iterator<Item = &Value> {
        self.plugins.iter().flat_map(|shown| &shown.plugins)
    }
}

/// Whether the replica that shows `plugin` like this runs it: it holds the lease, or the plugin has no lease.
fn runs_here(plugin: &Value) -> bool {
    plugin["lease"].is_null() || plugin["lease"]["heldHere"] == true
}

fn is_well(plugin: &Value) -> bool {
    plugin["health"]["well"] == true
}

/// Combines the plugins of all replicas, ordered by name, each with the field `replica`. For each plugin, this uses the
/// report of the replica that runs it, or else the report of a replica that sees a problem. A plugin has a second entry
/// if another replica reports a different problem.
pub(crate) fn together(views: Vec<ReplicaView>) -> Vec<Value> {
    let mut all = Vec::new();
    for ReplicaView { pod, plugins } in views {
        for mut plugin in plugins.into_iter().flat_map(|shown| shown.plugins) {
            plugin["replica"] = pod.name.clone().into();
            all.push(plugin);
        }
    }
    // Plugins that compare equal stay in the order of the replicas.
    all.sort_by(|one, other| {
        let order = |plugin: &Value| (text(&plugin["name"]).to_owned(), !runs_here(plugin), is_well(plugin));
        order(one).cmp(&order(other))
    });
    let mut shown: Vec<Value> = Vec::new();
    for plugin in all {
        // They are ordered by name.
        let mut before = shown.iter().rev().take_while(|it| it["name"] == plugin["name"]).peekable();
        let is_first = before.peek().is_none();
        let is_news = !is_well(&plugin) && before.all(|it| it["health"] != plugin["health"]);
        if is_first || runs_here(&plugin) || is_news {
            shown.push(plugin);
        }
    }
    shown
}

/// The replica that runs `plugin`, or else a replica that knows it.
pub(crate) fn runs_at<'a>(views: &'a [ReplicaView], plugin: &str) -> Option<&'a FoundPod> {
    let known = |view: &&ReplicaView| view.plugins().any(|it| it["name"] == plugin);
    let runs = |view: &&ReplicaView| view.plugins().any(|it| it["name"] == plugin && runs_here(it));
    views.iter().find(runs).or_else(|| views.iter().find(known)).map(|view| &view.pod)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A plugin as a replica shows it.
    fn plugin(name: &str, held: bool, state: &str, well: bool) -> Value {
        let lease = json!({"heldHere": held, "holder": "b-1"});
        json!({"name": name, "lease": lease, "health": {"state": state, "why": null, "well": well}})
    }

    fn view(pod: &str, plugins: Vec<Value>) -> ReplicaView {
        ReplicaView { pod: FoundPod::at(pod, 8080), plugins: Ok(HostPlugins { plugins, is_starting: false }) }
    }

    fn rows(views: Vec<ReplicaView>) -> Vec<[String; 3]> {
        let of = |it: &Value| [&it["name"], &it["replica"], &it["health"]["state"]].map(|it| text(it).to_owned());
        together(views).iter().map(of).collect()
    }

    #[test]
    fn a_plugin_is_shown_by_the_replica_that_has_its_lease() {
        let standby = |name| plugin(name, false, "standing-by", true);
        let views = vec![
            view("a", vec![standby("shop"), plugin("web", true, "running", true)]),
            view("b", vec![plugin("shop", true, "running", true), standby("web")]),
            ReplicaView { pod: FoundPod::at("c", 8080), plugins: Err("it is gone".to_owned()) },
        ];
        assert_eq!(runs_at(&views, "shop").map(|pod| &*pod.name), Some("b"));
        assert_eq!(runs_at(&views, "none"), None);
        assert_eq!(rows(views), [["shop", "b", "running"], ["web", "a", "running"]]);
    }

    #[test]
    fn a_problem_of_a_standby_is_shown_too_and_equal_ones_once() {
        let refused = || plugin("shop", false, "not-loaded", false);
        let views = vec![
            view("a", vec![refused()]),
            view("b", vec![plugin("shop", true, "running", true)]),
            view("c", vec![refused()]),
        ];
        assert_eq!(rows(views), [["shop", "b", "running"], ["shop", "a", "not-loaded"]]);
    }

    #[test]
    fn a_plugin_that_runs_nowhere_is_shown_by_the_replica_that_says_why() {
        let views = vec![
            view("a", vec![plugin("shop", false, "standing-by", true)]),
            view("b", vec![plugin("shop", false, "unserved", false)]),
        ];
        assert_eq!(runs_at(&views, "shop").map(|pod| &*pod.name), Some("a"));
        assert_eq!(rows(views), [["shop", "b", "unserved"]]);
    }

    #[test]
    fn a_replica_that_is_being_deleted_need_not_answer() {
        let mut pod = FoundPod::at("a", 8080);
        pod.is_ending = true;
        let ending = ReplicaView { pod, plugins: Err("connection refused".to_owned()) };
        assert!(ending.is_as_expected());
        let said = "the replica a does not answer, and is being deleted: connection refused";
        assert_eq!(ending.silence().as_deref(), Some(said));
        let silent = ReplicaView { pod: FoundPod::at("b", 8080), plugins: Err("connection refused".to_owned()) };
        assert!(!silent.is_as_expected() && view("c", vec![]).silence().is_none());
    }

    #[test]
    fn without_leases_each_replica_runs_all() {
        let mut alone = plugin("shop", false, "running", true);
        alone["lease"] = Value::Null;
        let views = vec![view("a", vec![alone.clone()]), view("b", vec![alone])];
        assert_eq!(rows(views), [["shop", "a", "running"], ["shop", "b", "running"]]);
    }
}
