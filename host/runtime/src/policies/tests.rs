//! The policies in force as files appear, change, break and go.

use std::path::{Path, PathBuf};

use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tracing::subscriber::with_default;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use windlass_core::call::ports::Absent;
use windlass_core::life::instances::Instances;
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_core::rights::grants::{Access, Allowance, Rule};
use windlass_wasm::{CallLimits, Called};

use super::*;
use crate::dispatch::middleware::reuse::Reusable;
use crate::dispatch::reconcile::{Call, Reconcile};
use crate::observe::status::PluginPhase;
use crate::tests::played::call;
use crate::tests::stage::Stage;

const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: a\n";
const RULES: &str = "rules: [{apiGroups: [\"*\"], resources: [\"*\"], verbs: [\"*\"]}]\n";

struct Scene {
    directory: tempfile::TempDir,
    policies: Arc<Policies>,
    files: PolicyFiles,
}

impl Scene {
    /// A scene where `text` is the policy of `a`, under a ceiling that allows everything.
    async fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str| directory.path().join(name);
        std::fs::write(file("a.policy.yaml"), text).expect("written");
        let ceiling = HEAD.replace("PluginPolicy", "PluginCeiling").replace("plugin: a\n", RULES);
        std::fs::write(file("ceiling.yaml"), ceiling).expect("written");
        let settings = PolicySettings {
            mode: GrantMode::Policy,
            directory: directory.path().to_owned(),
            ceiling: Some(file("ceiling.yaml")),
            host_namespace: None,
        };
        let (policies, files) = Policies::read(settings).await.expect("both can be read");
        Self { directory, policies: Arc::new(policies), files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Follows the files until something has changed.
    async fn changed(&mut self) {
        let mut changes = self.policies.changes();
        tokio::select! {
            () = self.policies.follow(&mut self.files) => {}
            () = changes.next() => {}
        }
    }

    /// Whether a plugin that asks for everything may read `pods`. `None` if it waits.
    fn reads(&self) -> Option<bool> {
        reads(&self.policies)
    }
}

fn reads(policies: &Policies) -> Option<bool> {
    let Standing::Granted(bounds) = policies.standing("a") else { return None };
    let all = || vec!["*".to_owned()];
    let rule = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    let key = ObjectKey::namespaced("prod", "shop");
    let access =
        Access { verb: "get", group: "", resource: "pods", subresource: "", namespaced: true, key: Some(&key) };
    Some(bounds.grants(Allowance { rules: vec![rule], ..Allowance::default() }, None).allows(&access))
}

fn replace(path: &Path, text: &str) {
    let new = path.with_file_name(".new");
    std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path)).expect("written");
}

#[tokio::test]
async fn a_deleted_policy_takes_its_rules_and_returns_with_its_new_content() {
    let mut scene = Scene::new(&format!("{HEAD}{RULES}")).await;
    assert_eq!(scene.reads(), Some(true));
    std::fs::remove_file(scene.path("a.policy.yaml")).expect("removed");
    scene.changed().await;
    assert_eq!(scene.reads(), None);
    replace(&scene.path("a.policy.yaml"), HEAD);
    scene.changed().await;
    assert_eq!(scene.reads(), Some(false));
}

#[tokio::test]
async fn a_directory_in_the_place_of_a_policy_grants_nothing() {
    let mut scene = Scene::new(&format!("{HEAD}{RULES}")).await;
    std::fs::remove_file(scene.path("a.policy.yaml")).expect("removed");
    std::fs::create_dir(scene.path("a.policy.yaml")).expect("made");
    scene.changed().await;
    assert_eq!(scene.reads(), None);
}

#[tokio::test]
async fn a_link_that_leads_to_another_policy_is_followed() {
    let mut scene = Scene::new(&format!("{HEAD}{RULES}")).await;
    std::fs::write(scene.path("other"), HEAD).expect("written");
    std::os::unix::fs::symlink("other", scene.path(".link")).expect("linked");
    std::fs::rename(scene.path(".link"), scene.path("a.policy.yaml")).expect("renamed");
    scene.changed().await;
    assert_eq!(scene.reads(), Some(false));
}

#[tokio::test]
async fn an_empty_file_grants_nothing_and_takes_nothing() {
    let scene = Scene::new("").await;
    assert!(matches!(scene.policies.standing("a"), Standing::Waiting(Some(_))));
    let scene = Scene::new(&format!("{HEAD}{RULES}")).await;
    let path = scene.path("a.policy.yaml");
    replace(&path, "");
    scene.policies.take(&[Change { path, content: Content::Is([0; 32]) }]);
    assert_eq!(scene.reads(), Some(true), "the policy in force stays");
}

#[test]
fn a_changed_policy_of_an_object_that_cannot_be_read_grants_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.policy.yaml");
    for (of_object, stays) in [(false, true), (true, false)] {
        let mut set = PolicySet::default();
        std::fs::write(&path, HEAD).expect("written");
        let change = Change { path: path.clone(), content: Content::Is([0; 32]) };
        assert!(matches!(take_policy(&mut set, "a", &change, of_object), Some(Taken::InForce(0))));
        std::fs::remove_file(&path).expect("it is there");
        let taken = take_policy(&mut set, "a", &change, of_object);
        assert!(matches!(taken, Some(Taken::Kept(it) | Taken::Broken(it)) if it.is_unread), "it is tried again");
        assert_eq!(set.policies.contains_key("a"), stays);
    }
}

#[tokio::test]
async fn a_deleted_ceiling_stays_in_force_while_the_host_runs() {
    let scene = Scene::new(&format!("{HEAD}{RULES}")).await;
    std::fs::remove_file(scene.path("ceiling.yaml")).expect("removed");
    scene.policies.take_ceiling();
    let Standing::Granted(bounds) = scene.policies.standing("a") else { panic!("it has a policy") };
    assert!(bounds.ceiling.is_some());
}

#[tokio::test]
async fn a_policy_without_a_plugin_is_known_once_plugins_are_registered() {
    let scene = Scene::new(HEAD).await;
    let names = || ["a", "b"].map(str::to_owned);
    assert!(scene.policies.orphans(names()).is_empty(), "no plugin is known yet");
    scene.policies.plugins().insert("a".to_owned(), Brought::default());
    scene.policies.registered_all();
    assert_eq!(scene.policies.orphans(names()), ["b"]);
}

#[tokio::test]
async fn a_policy_for_a_refused_plugin_is_not_reported_as_misnamed() {
    let scene = Scene::new(HEAD).await;
    scene.policies.refused("a", "its digest is not allowed".to_owned());
    let why = "the policy's plugin is there, but its file is not loaded: its digest is not allowed";
    assert_eq!(scene.policies.why_orphaned("a"), why);
    scene.policies.unregister("a");
    assert_eq!(scene.policies.why_orphaned("a"), "a policy for a plugin that does not exist: a.wasm");
}

#[tokio::test]
async fn instances_are_used_again_as_long_as_the_policy_says_so() {
    let mut scene = Scene::new(&format!("{HEAD}instances: reuse\n")).await;
    let instances = scene.policies.instances("a");
    assert_eq!(instances.now(), Instances::Reuse);
    assert_eq!(scene.policies.instances("b").now(), Instances::Fresh, "it has no policy");
    replace(&scene.path("a.policy.yaml"), HEAD);
    scene.changed().await;
    assert_eq!(instances.now(), Instances::Fresh);
}

/// The instance mode of each call.
#[derive(Default)]
struct Seen(Arc<Mutex<Vec<Instances>>>);

impl Reconcile for Seen {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        let limits = call.limits;
        self.0.lock().expect("not poisoned").push(limits.instances);
        ready(Called::made(CallResult::Done, Duration::ZERO)).boxed()
    }
}

#[tokio::test]
async fn each_call_is_made_as_the_policy_says_then() {
    let mut scene = Scene::new(HEAD).await;
    let seen = Seen::default();
    let instances = seen.0.clone();
    let plugin = Reusable::new(Box::new(seen), scene.policies.instances("a"));
    for next in [Some(format!("{HEAD}instances: reuse\n")), None] {
        let (request, context) = call(None);
        let (ports, round) = (Absent::ports(), windlass_core::queue::breaker::BreakerRound::default());
        plugin
            .reconcile(Call {
                request,
                ports: &ports,
                context,
                limits: CallLimits::default(),
                round,
                must_be_made: true,
            })
            .await;
        if let Some(next) = next {
            replace(&scene.path("a.policy.yaml"), &next);
            scene.changed().await;
        }
    }
    assert_eq!(*instances.lock().expect("not poisoned"), [Instances::Fresh, Instances::Reuse]);
}

/// Records the state at each notification.
struct Onlooker<T, F> {
    look: F,
    seen: Arc<Mutex<Vec<T>>>,
}

impl<T: 'static, F: Fn() -> T + 'static, S: tracing::Subscriber> Layer<S> for Onlooker<T, F> {
    fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
        let seen = (self.look)();
        self.seen.lock().expect("not poisoned").push(seen);
    }
}

/// The states that `look` sees at each notification during `act`.
fn seen<T: Send + 'static>(look: impl Fn() -> T + Send + Sync + 'static, act: impl FnOnce()) -> Vec<T> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    with_default(tracing_subscriber::registry().with(Onlooker { look, seen: seen.clone() }), act);
    std::mem::take(&mut *seen.lock().expect("not poisoned"))
}

#[tokio::test]
async fn a_policy_change_is_in_force_before_it_is_logged() {
    let scene = Scene::new(HEAD).await;
    let (policy, ceiling) = (scene.path("a.policy.yaml"), scene.path("ceiling.yaml"));
    let states_during = |act: &dyn Fn()| {
        let policies = scene.policies.clone();
        seen(move || (reads(&policies), policies.pause("a").is_on()), act)
    };
    let states_after = |content: Content| {
        let change = Change { path: policy.clone(), content };
        states_during(&|| drop(scene.policies.take(std::slice::from_ref(&change))))
    };
    replace(&policy, &format!("{HEAD}{RULES}paused: true\n"));
    assert_eq!(
        states_after(Content::Is([1; 32])),
        [(Some(true), true); 2],
        "the policy is in force, and pauses the plugin"
    );
    replace(&ceiling, &HEAD.replace("PluginPolicy", "PluginCeiling").replace("plugin: a\n", ""));
    assert_eq!(states_during(&|| scene.policies.take_ceiling()), [(Some(false), true)]);
    replace(&policy, "");
    assert_eq!(states_after(Content::Is([2; 32])), [(Some(false), true)], "the previous policy stays");
    assert_eq!(states_after(Content::Gone), [(None, false); 2], "the policy is gone, and nothing is paused");
    assert_eq!(states_after(Content::Gone), [], "it was gone");
}

#[tokio::test]
async fn a_plugin_is_shown_waiting_before_the_log_says_so() {
    let (stage, scene) = (Stage::new().await, Scene::new(HEAD).await);
    let plugin = stage.load(1).await;
    let status = stage.host.status.plugin(plugin.name());
    status.is_now(plugin.clone());
    let shown = status.clone();
    let phases = seen(move || shown.phase(), || scene.policies.register(&plugin, &status));
    assert_eq!(phases, [PluginPhase::WaitingForPolicy]);
}
