//! A controller with configured kinds that are not served, not granted, or forbidden to the host, on the embedded API
//! server and in simulated time. Needs a guest that also watches the kinds at `/related` of its configuration.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use windlass_apiserver::{Authorization, Config, StaticToken};

use crate::admission::kinds;
use crate::files::{Change, Content};
use crate::observe::status::ControllerState;
use crate::phases::ControllerEnd;
use crate::policies::GrantMode;
use crate::tests::stage::{Stage, until};

const CONFIGURATION: &str = "{kinds: [{apiVersion: v1, kind: ConfigMap}], related: [{apiVersion: v1, kind: Service}, \
     {apiVersion: v1, kind: Secret}, {apiVersion: named.windlass.dev/v1, kind: Named}, \
     {apiVersion: authentication.k8s.io/v1, kind: SelfSubjectReview}]}";

fn definition() -> String {
    let schema = r#"{"openAPIV3Schema": {"type": "object"}}"#;
    let version = format!(r#"{{"name": "v1", "served": true, "storage": true, "schema": {schema}}}"#);
    let names = r#"{"plural": "nameds", "singular": "named", "kind": "Named", "listKind": "NamedList"}"#;
    let spec = format!(
        r#"{{"group": "named.windlass.dev", "scope": "Namespaced", "names": {names}, "versions": [{version}]}}"#
    );
    let head = r#""apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition""#;
    format!(r#"{{{head}, "metadata": {{"name": "nameds.named.windlass.dev"}}, "spec": {spec}}}"#)
}

/// Grants the plugin to watch `ConfigMap`s and `more`.
fn grant(stage: &Stage, more: &[&str]) {
    let path = stage.plugins.join("chameleon.policy.yaml");
    let head = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: chameleon\nrules:\n";
    let rule = |resources: &str| {
        format!("- {{apiGroups: [\"\", named.windlass.dev], resources: [{resources}], verbs: [get, list, watch]}}\n")
    };
    std::fs::write(&path, format!("{head}{}{}", rule("configmaps"), rule(&more.join(", ")))).expect("written");
    stage.host.policies.take(&[Change { path, content: Content::Is([0; 32]) }]);
}

/// Whether the plugin's only controller runs and says that it lacks just these kinds, and `SelfSubjectReview`, which
/// no client can watch.
fn runs_without(stage: &Stage, lacks: &[&str]) -> bool {
    let controllers = stage.host.status.plugin("chameleon").controllers();
    let [controller] = &controllers[..] else { return false };
    let (reached, reason) = controller.state();
    let reason = reason.unwrap_or_default();
    let says = ["services", "secrets", "Named"].into_iter().filter(|kind| reason.contains(kind));
    let lacks_reviews = reason.contains("selfsubjectreviews");
    reached == ControllerState::Running && lacks_reviews && says.eq(lacks.iter().copied())
}

/// Whether there are filled caches of these kinds.
fn watches(stage: &Stage, kinds: &[&str]) -> bool {
    let figures = stage.host.informers.figures();
    kinds.iter().all(|kind| figures.iter().any(|it| &*it.watch.kind.kind == *kind && it.status.synced))
}

/// The plugin while the host serves it.
struct Served {
    serving: Pin<Box<dyn Future<Output = ControllerEnd>>>,
    stop: CancellationToken,
    /// Follows the plugin's configuration and the definitions.
    _following: AbortOnDropHandle<()>,
}

impl Served {
    async fn start(stage: &Stage) -> Self {
        let plugin = stage.load_as(1, &[("CHAMELEON-MODE=good.", "CHAMELEON-MODE=kinds")]).await;
        stage.configure(CONFIGURATION);
        let (configs, host) = (stage.supplies.configs.clone(), stage.host.clone());
        let following = tokio::spawn(async move {
            let mut definitions = host.informers.subscribe(kinds::definitions());
            let kinds = host.kinds.follow(&mut definitions, |group| host.discovery.invalidate(group));
            tokio::join!(configs.follow(), kinds);
        });
        stage.host.policies.register(&plugin, &stage.host.status.plugin("chameleon"));
        let stop = stage.phases.stop.child_token();
        let (serving, newest) = stage.serving(&plugin, mpsc::unbounded_channel().0, stop.clone());
        let serving = Box::pin(async move {
            let _newest = newest;
            serving.run().await
        });
        Self { serving, stop, _following: AbortOnDropHandle::new(following) }
    }

    /// Returns once the condition is true.
    async fn reaches(&mut self, condition: impl Fn() -> bool) {
        tokio::select! {
            end = &mut self.serving => panic!("nothing stops it: {end:?}"),
            () = until(condition) => {}
        }
    }

    async fn stops_cleanly(self) {
        self.stop.cancel();
        assert_eq!(timeout(Duration::from_mins(1), self.serving).await, Ok(ControllerEnd::Clean));
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_runs_without_kinds_that_are_not_served_or_granted() {
    let stage = Stage::in_one_thread(&Config::default(), GrantMode::Policy).await;
    let mut served = Served::start(&stage).await;
    grant(&stage, &["services", "nameds"]);
    served.reaches(|| runs_without(&stage, &["secrets", "Named"]) && watches(&stage, &["ConfigMap", "Service"])).await;
    let (_, why) = stage.host.status.plugin("chameleon").controllers()[0].state();
    assert!(why.is_some_and(|why| why.starts_with("it does not watch all kinds yet: ")));

    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = stage.send("POST", path, definition()).await;
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    served.reaches(|| runs_without(&stage, &["secrets"]) && watches(&stage, &["Service", "Named"])).await;
    grant(&stage, &["services", "nameds", "secrets"]);
    served.reaches(|| runs_without(&stage, &[]) && watches(&stage, &["Service", "Named", "Secret"])).await;
    grant(&stage, &["nameds", "secrets"]);
    served.reaches(|| runs_without(&stage, &["services"])).await;
    let answer = stage.send("DELETE", &format!("{path}/nameds.named.windlass.dev"), "{}".to_owned()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    served.reaches(|| runs_without(&stage, &["services", "Named"])).await;
    served.stops_cleanly().await;
}

/// The cluster role `host`, which lets the host watch these resources, and what it needs besides.
fn role(resources: &str) -> String {
    let rule = |groups: &str, resources: &str, verbs: &str| {
        format!(r#"{{"apiGroups": [{groups}], "resources": [{resources}], "verbs": [{verbs}]}}"#)
    };
    let rules = [
        rule(r#""""#, resources, r#""list", "watch""#),
        rule(r#""apiextensions.k8s.io""#, r#""customresourcedefinitions""#, r#""list", "watch""#),
        rule(r#""authorization.k8s.io""#, r#""selfsubjectaccessreviews""#, r#""create""#),
    ];
    let head = r#""apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "host"}"#;
    format!(r#"{{{head}, "rules": [{}]}}"#, rules.join(", "))
}

#[tokio::test(start_paused = true)]
async fn a_controller_runs_without_kinds_that_the_host_may_not_watch() {
    let tokens = vec![StaticToken { token: "of-host".to_owned(), user: "host".to_owned(), groups: vec![] }];
    let config = Config { authorization: Authorization::Rbac, tokens, ..Config::default() };
    let stage = Stage::in_one_thread(&config, GrantMode::Manifest).await;
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let binding = r#"{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "host"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "host"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "host"}]}"#;
    for (path, body) in
        [("clusterroles", role(r#""configmaps", "services""#)), ("clusterrolebindings", binding.to_owned())]
    {
        let answer = stage.send("POST", &format!("{roles}/{path}"), body).await;
        assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    }
    let allow = async |resources: &str| {
        let answer = stage.send("PUT", &format!("{roles}/clusterroles/host"), role(resources)).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    };
    let mut served = Served::start(&stage).await;
    served.reaches(|| runs_without(&stage, &["secrets", "Named"]) && watches(&stage, &["ConfigMap", "Service"])).await;
    let (_, why) = stage.host.status.plugin("chameleon").controllers()[0].state();
    assert!(why.is_some_and(|why| why.contains("the host may not list secrets in all namespaces")));
    allow(r#""configmaps", "services", "secrets""#).await;
    served.reaches(|| runs_without(&stage, &["Named"]) && watches(&stage, &["Service", "Secret"])).await;
    // The host learns that it has lost a right when it lists again.
    allow(r#""configmaps", "secrets""#).await;
    stage.forget_history();
    served.reaches(|| runs_without(&stage, &["services", "Named"])).await;
    served.stops_cleanly().await;
}
