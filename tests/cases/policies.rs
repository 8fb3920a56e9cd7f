//! Tests policies from a user's perspective: what an operator does with them, and what plugins may do under them.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use windlass_tests::host::Host;
use windlass_tests::server::{Kind, Server};
use windlass_tests::story::{self, Story};
use windlass_tests::wait::until;
use windlass_tests::{admin, chameleon};

use crate::admin::{plugin, says};
use crate::webapp::plugin_directory;

const HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\n";
const CEILING_HEAD: &str = "apiVersion: windlass.dev/v1alpha1\nkind: PluginCeiling\n";
const WEBAPPS: &str = "\
- {apiGroups: [apps.kubedojo.io], resources: [webapps], verbs: [get, list, watch]}
- {apiGroups: [apps.kubedojo.io], resources: [webapps/status], verbs: [get, update, patch]}
";
const DEPLOYMENTS: &str =
    "- {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, update, patch, delete]}\n";
const READ_DEPLOYMENTS: &str = "- {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch]}\n";
const SERVICES: &str =
    "- {apiGroups: [\"\"], resources: [services], verbs: [get, list, watch, create, update, patch, delete]}\n";
const READ_SERVICES: &str = "- {apiGroups: [\"\"], resources: [services], verbs: [get, list, watch]}\n";

/// A server, and a directory with the plugin `webapp`. Its host requires policies.
struct Scene {
    server: Server,
    plugins: tempfile::TempDir,
}

impl Scene {
    async fn new(kind: Kind) -> anyhow::Result<Self> {
        let server = Server::start(kind).await?;
        server.install_webapp().await?;
        Ok(Self { server, plugins: plugin_directory()? })
    }

    fn run(&self, more: &[&str]) -> anyhow::Result<Host> {
        Host::run_with(self.server.kubeconfig(), self.server.objects().namespace(), self.plugins.path(), more)
    }

    /// Replaces the policy file, as editors do: with `fields` followed by these `rules`.
    fn grant(&self, fields: &str, rules: &[&str]) -> anyhow::Result<()> {
        write(&self.plugins.path().join("webapp.policy.yaml"), &format!("{HEAD}{fields}rules:\n{}", rules.concat()))
    }

    fn story(&self) -> Story<'_> {
        Story::new(self.server.objects())
    }

    async fn scale(&self, replicas: u32) -> anyhow::Result<()> {
        let scaled = json!({"spec": {"replicas": replicas}});
        self.server.objects().merge("WebApp", story::NAME, &scaled).await?;
        Ok(())
    }

    async fn replicas(&self) -> anyhow::Result<Value> {
        let deployment = self.server.objects().get("Deployment", story::NAME).await?;
        Ok(deployment.context("the Deployment exists")?["spec"]["replicas"].clone())
    }

    async fn becomes(&self, replicas: u32) -> anyhow::Result<()> {
        until(&format!("{replicas} replicas"), || async {
            let seen = self.replicas().await?;
            anyhow::ensure!(seen == replicas, "{seen}");
            Ok(())
        })
        .await
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    Ok(std::fs::rename(new, path)?)
}

async fn a_plugin_waits_for_its_policy(kind: Kind) -> anyhow::Result<()> {
    let scene = Scene::new(kind).await?;
    let host = scene.run(&[])?;
    let said = host.says("the plugin waits").await?;
    for words in ["windlass grant", "webapp.wasm", "webapp.policy.yaml", "WebApp (get, list, watch)", "Deployment"] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    scene.grant("", &[WEBAPPS, DEPLOYMENTS, SERVICES])?;
    host.says("controller started").await?;
    scene.story().create().await?;
    scene.story().run().await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_a_policy_waits_for_one_on_the_embedded_server() -> anyhow::Result<()> {
    a_plugin_waits_for_its_policy(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_a_policy_waits_for_one_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_plugin_waits_for_its_policy(Kind::Real).await
}

async fn a_denial_names_the_missing_rule(kind: Kind) -> anyhow::Result<()> {
    let scene = Scene::new(kind).await?;
    // An apply needs `create` and `patch`. A denial names the first one that is missing.
    let create_only = READ_DEPLOYMENTS.replace("watch]", "watch, create]");
    scene.grant("", &[WEBAPPS, &create_only, SERVICES])?;
    let host = scene.run(&["--admin-address", "127.0.0.1:0"])?;
    host.says("controller started").await?;
    for document in windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))? {
        scene.server.objects().apply(&document).await?;
    }
    let said = host.says("what is missing plugin=webapp").await?;
    // The log's text form escapes the quotes of a field.
    let said = said.replace('\\', "");
    let (_, missing) = said.split_once("missing: rules: ").context("what is missing is said")?;
    let rule = missing.split_once('}').context("it is a whole rule")?.0;
    assert!(said.contains("its policy") && rule.contains("deployments") && rule.contains("namespaces"), "{said}");
    until("the object tells it, too, in one Event", || async {
        let events = scene.server.objects().list("Event", "").await?;
        let told: Vec<_> = events.iter().filter(|event| event["reason"] == "NotGranted").collect();
        let notes = told.iter().all(|event| event["note"].as_str().is_some_and(|note| note.contains(rule)));
        ensure!(told.len() == 1 && notes && told[0]["regarding"]["kind"] == "WebApp", "{told:?}");
        Ok(())
    })
    .await?;
    let key = format!("{}/{}", scene.server.objects().namespace(), story::NAME);
    let shown = says(admin::address(&host).await?, &["keys", "webapp", &key], 0).await?;
    ensure!(shown.contains("state     denied") && shown.contains(rule), "{shown}");
    // Pasted as an operator would do it.
    scene.grant("", &[WEBAPPS, &create_only, SERVICES, &format!("{rule}}}\n")])?;
    scene.becomes(2).await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_names_the_missing_rule_on_the_embedded_server() -> anyhow::Result<()> {
    a_denial_names_the_missing_rule(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_names_the_missing_rule_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_denial_names_the_missing_rule(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_right_is_denied_to_the_next_call_and_ends_its_watch() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Embedded).await?;
    scene.grant("", &[WEBAPPS, DEPLOYMENTS, READ_SERVICES])?;
    let host = scene.run(&[])?;
    host.says("controller started").await?;
    for document in windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))? {
        scene.server.objects().apply(&document).await?;
    }
    scene.becomes(2).await?;

    scene.grant("", &[WEBAPPS, READ_DEPLOYMENTS, SERVICES])?;
    // When the plugin uses the newly granted right, the revocation is in force as well, because both are parts of one
    // policy.
    until("what is granted is done", || async {
        scene.server.objects().get("Service", story::NAME).await?.context("there is no Service yet")
    })
    .await?;
    scene.scale(5).await?;
    until("what it may no longer write is denied to the call that sees the new spec", || async {
        let webapp = scene.server.objects().get("WebApp", story::NAME).await?.context("it is gone")?;
        let is_seen = webapp["status"]["observedGeneration"] == webapp["metadata"]["generation"];
        let denied = |line: &str| line.contains("what is missing plugin=webapp") && line.contains("deployments");
        let log = host.log();
        anyhow::ensure!(is_seen && log.lines().any(denied), "{webapp} {log}");
        Ok(())
    })
    .await?;
    assert_eq!(scene.replicas().await?, 2);

    scene.grant("", &[WEBAPPS, SERVICES])?;
    let said = host.says("one of its watches was revoked").await?;
    assert!(said.contains("list, watch deployments.apps"), "{said}");
    host.says("waiting: the controller starts when it is granted").await?;
    std::fs::remove_file(scene.plugins.path().join("webapp.policy.yaml"))?;
    host.says("the policy is gone").await?;

    scene.grant("", &[WEBAPPS, DEPLOYMENTS, SERVICES])?;
    host.says_times("controller started", 2).await?;
    scene.becomes(5).await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_plugin_keeps_its_keys_and_continues_at_once() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Embedded).await?;
    chameleon::write("good", &scene.plugins.path().join("chameleon.wasm"))?;
    let beside = HEAD.replace("webapp", "chameleon");
    let all = "rules: [{apiGroups: [\"\"], resources: [\"*\"], verbs: [\"*\"]}]\n";
    write(&scene.plugins.path().join("chameleon.policy.yaml"), &format!("{beside}{all}"))?;
    let rules = [WEBAPPS, DEPLOYMENTS, SERVICES];
    scene.grant("", &rules)?;
    let host = scene.run(&["--admin-address", "127.0.0.1:0"])?;
    let address = admin::address(&host).await?;
    host.says_times("controller started", 2).await?;
    scene.story().create().await?;
    scene.grant("paused: true\n", &rules)?;
    host.says("paused by its policy").await?;
    // The host pauses the plugin when it reads the policy, and shows the pause a little later.
    until("it is paused", || async {
        let shown = plugin(address, "webapp").await?;
        anyhow::ensure!(shown["state"] == "paused", "{shown}");
        Ok(())
    })
    .await?;
    scene.scale(5).await?;
    // The other plugin runs for this event, which came later than the change of the paused plugin's object.
    let bait = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bait", "labels": {"chameleon": "true"}},
    });
    scene.server.objects().apply(&bait).await?;
    host.says("chameleon reconciled").await?;
    assert_eq!(scene.replicas().await?, 2);
    scene.grant("", &rules)?;
    host.says("no longer paused").await?;
    scene.becomes(5).await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_policy_says_where_and_changes_nothing() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Embedded).await?;
    let broken = format!("{HEAD}rules:\n- apiGroups: [apps]\n  resorces: [deployments]\n");
    let path = scene.plugins.path().join("webapp.policy.yaml");
    write(&path, &broken)?;
    let host = scene.run(&[])?;
    let said = host.says("the plugin waits: its policy cannot be used").await?;
    assert!(said.contains("webapp.policy.yaml:6") && said.contains("did you mean `resources`"), "{said}");
    scene.grant("", &[WEBAPPS, DEPLOYMENTS, SERVICES])?;
    host.says("controller started").await?;
    write(&path, &broken)?;
    host.says("the former one stays in force").await?;
    scene.story().create().await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_cannot_grant_more_than_the_ceiling() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Embedded).await?;
    let (policies, ceiling) = (tempfile::tempdir()?, scene.plugins.path().join("ceiling.yaml"));
    let rules = [WEBAPPS, DEPLOYMENTS, SERVICES].concat();
    write(&policies.path().join("webapp.policy.yaml"), &format!("{HEAD}rules:\n{rules}"))?;
    write(&ceiling, &format!("{CEILING_HEAD}rules:\n{WEBAPPS}{READ_DEPLOYMENTS}{SERVICES}"))?;
    let (directory, file) = (policies.path().to_string_lossy(), ceiling.to_string_lossy());
    let host = scene.run(&["--policy-dir", &directory, "--ceiling", &file])?;
    host.says("controller started").await?;
    for document in windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))? {
        scene.server.objects().apply(&document).await?;
    }
    let said = host.says("what is missing plugin=webapp").await?;
    assert!(said.contains("nothing in the host's ceiling"), "{said}");
    write(&ceiling, "no ceiling")?;
    host.says("the ceiling cannot be used: the former one stays in force").await?;
    write(&ceiling, &format!("{CEILING_HEAD}rules:\n{rules}"))?;
    scene.becomes(2).await?;
    assert!(host.terminate().await?.success());

    write(&ceiling, "no ceiling")?;
    let mut host = scene.run(&["--policy-dir", &directory, "--ceiling", &file])?;
    assert_eq!(host.ends().await?.code(), Some(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_own_namespace_is_denied() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Embedded).await?;
    let namespace = scene.server.objects().namespace().to_owned();
    let mut host = scene.run(&["--grants=manifest", "--host-namespace", &namespace])?;
    assert_eq!(host.ends().await?.code(), Some(1));
    assert!(host.log().contains("always denied"), "{}", host.log());

    // Without --namespace, the host watches all namespaces.
    let (kubeconfig, plugins) = (scene.server.kubeconfig().to_string_lossy(), scene.plugins.path().to_string_lossy());
    let run = ["run", "--kubeconfig", &kubeconfig, "--plugins", &plugins, "--grants=manifest"];
    let host = Host::start(&[&run[..], &["--host-namespace", &namespace]].concat(), None)?;
    host.says("controller started").await?;
    let elsewhere = windlass_tests::objects::Objects::new(scene.server.objects().client().clone(), "elsewhere");
    elsewhere.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})).await?;
    for document in windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))? {
        scene.server.objects().apply(&document).await?;
    }
    Story::new(&elsewhere).create().await?;
    assert_eq!(scene.server.objects().get("Deployment", story::NAME).await?, None);
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_watches_everything_sees_only_the_granted_namespaces() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Embedded).await?;
    let objects = scene.server.objects();
    let elsewhere = windlass_tests::objects::Objects::new(objects.client().clone(), "elsewhere");
    elsewhere.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})).await?;
    let rules = [WEBAPPS, DEPLOYMENTS, SERVICES];
    let within = |namespaces: &str| rules.map(|rules| rules.replace('}', &format!(", namespaces: [{namespaces}]}}")));
    let grant = |namespaces: &str| scene.grant("", &within(namespaces).each_ref().map(String::as_str));
    grant(objects.namespace())?;
    let (kubeconfig, plugins) = (scene.server.kubeconfig().to_string_lossy(), scene.plugins.path().to_string_lossy());
    let host = Host::start(&["run", "--kubeconfig", &kubeconfig, "--plugins", &plugins], None)?;
    host.says("narrowed to what is granted").await?;
    for document in windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))? {
        elsewhere.apply(&document).await?;
    }
    scene.story().create().await?;
    assert_eq!(elsewhere.get("Deployment", story::NAME).await?, None);
    grant(&format!("{}, elsewhere", objects.namespace()))?;
    host.says("the policies grant other watches now").await?;
    Story::new(&elsewhere).create().await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_outside_granted_namespaces_are_denied_once_and_fail_no_object() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Embedded).await?;
    let objects = scene.server.objects();
    let elsewhere = windlass_tests::objects::Objects::new(objects.client().clone(), "elsewhere");
    elsewhere.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})).await?;
    let within = |rules: &str| rules.replace('}', &format!(", namespaces: [{}]}}", objects.namespace()));
    scene.grant("", &[WEBAPPS, &within(DEPLOYMENTS), &within(SERVICES)])?;
    let (kubeconfig, plugins) = (scene.server.kubeconfig().to_string_lossy(), scene.plugins.path().to_string_lossy());
    let run = ["run", "--kubeconfig", &kubeconfig, "--plugins", &plugins, "--admin-address", "127.0.0.1:0"];
    let host = Host::start(&run, None)?;
    host.says("narrowed to what is granted").await?;
    let documents = windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))?;
    for name in ["one", "other"] {
        for mut document in documents.clone() {
            document["metadata"]["name"] = name.into();
            elsewhere.apply(&document).await?;
        }
    }
    let denied = host.says("what is missing plugin=webapp").await?;
    assert!(denied.contains("elsewhere") && denied.contains("missing: rules"), "{denied}");
    scene.story().create().await?;
    let address = admin::address(&host).await?;
    admin::at_rest(address).await?;
    let log = host.log();
    assert!(!log.contains("tried again") && !log.contains("gave up"), "{log}");
    assert_eq!(log.matches("what is missing plugin=webapp").count(), 2, "once for each kind: {log}");
    // The objects are not touched.
    scene.grant("", &[WEBAPPS, DEPLOYMENTS, SERVICES])?;
    for name in ["one", "other"] {
        until("what was denied is done", || async {
            elsewhere.get("Service", name).await?.context("the Service is there")
        })
        .await?;
    }
    assert!(host.terminate().await?.success());
    Ok(())
}

/// The withheld writes of the plugin's controller: the number of objects that it would create and change, and the last
/// of these writes.
async fn withheld(host: &Host) -> anyhow::Result<(u64, u64, Value)> {
    let plugins: Value = serde_json::from_str(&admin::get(admin::address(host).await?, "/plugins").await?.1)?;
    let withheld = &plugins["plugins"][0]["controllers"][0]["withheld"];
    let count = |effect: &str| withheld[effect].as_u64().unwrap_or_default();
    Ok((count("create"), count("change"), withheld["last"][0].clone()))
}

async fn a_dry_run_of_everything(kind: Kind) -> anyhow::Result<()> {
    let scene = Scene::new(kind).await?;
    let host = scene.run(&["--grants=manifest", "--read-only", "--admin-address", "127.0.0.1:0"])?;
    host.says("controller started").await?;
    for document in windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))? {
        scene.server.objects().apply(&document).await?;
    }
    // These are the writes of the Deployment, of the Service, and of the status, which the plugin writes after the
    // other two.
    until("all writes of the call are withheld", || async {
        let (create, change, last) = withheld(&host).await?;
        anyhow::ensure!((create, change) == (2, 1) && last["resource"] == "webapps.apps.kubedojo.io/status", "{last}");
        Ok(())
    })
    .await?;
    let objects = scene.server.objects();
    let before = objects.get("WebApp", story::NAME).await?.context("the WebApp is there")?;
    assert_eq!(before.get("status"), None);
    assert_eq!(objects.get("Deployment", story::NAME).await?, None);
    assert!(objects.list("Event", "").await?.iter().all(|event| event["reportingController"] != "windlass/webapp"));

    // A withheld write is reported if it differs from the last one. A repeated write is not reported.
    scene.scale(5).await?;
    let said = host.says("spec.replicas: 5").await?;
    assert!(said.contains("deployments.apps") && said.contains(story::NAME) && said.contains("create"), "{said}");
    admin::at_rest(admin::address(&host).await?).await?;
    let is_service = |line: &&str| line.contains("mutation withheld") && line.contains("services");
    assert_eq!(host.log().lines().filter(is_service).count(), 1, "{}", host.log());
    let (create, change, _) = withheld(&host).await?;
    assert_eq!((create, change), (2, 1));
    assert!(!host.log().contains("the call failed"), "{}", host.log());
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_host_reports_each_change_once_on_the_embedded_server() -> anyhow::Result<()> {
    a_dry_run_of_everything(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_host_reports_each_change_once_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    a_dry_run_of_everything(Kind::Real).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_may_write_makes_the_writes_that_read_only_withheld() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Embedded).await?;
    let host = scene.run(&["--grants=manifest", "--read-only"])?;
    host.says("controller started").await?;
    for document in windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))? {
        scene.server.objects().apply(&document).await?;
    }
    host.says("mutation withheld").await?;
    assert!(host.terminate().await?.success());
    let host = scene.run(&["--grants=manifest"])?;
    scene.becomes(2).await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

/// Allows `account` to watch everything that the plugin needs, or nothing. The embedded server has an annotation
/// instead of RBAC.
async fn admit(server: &Server, account: &str, admitted: bool) -> anyhow::Result<()> {
    admit_to(server, account, if admitted { &["*"] } else { &[] }).await
}

/// Allows `account` these verbs on all resources.
async fn admit_to(server: &Server, account: &str, verbs: &[&str]) -> anyhow::Result<()> {
    let objects = server.objects();
    let deny = if verbs.is_empty() { "*" } else { "" };
    let annotated = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": account, "annotations": {"windlass.dev/deny": deny}},
    });
    objects.apply(&annotated).await?;
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": account},
        "rules": if verbs.is_empty() { json!([]) } else { all },
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": objects.namespace()}],
    });
    objects.apply(&role).await?;
    objects.apply(&binding).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_cannot_be_tried_is_not_retried_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    let scene = Scene::new(Kind::Real).await?;
    let namespace = scene.server.objects().namespace();
    admit_to(&scene.server, "reader", &["get", "list", "watch"]).await?;
    scene.grant(&format!("impersonate: {namespace}/reader\n"), &[WEBAPPS, DEPLOYMENTS, SERVICES])?;
    let host = scene.run(&["--read-only", "--admin-address", "127.0.0.1:0"])?;
    host.says("controller started").await?;
    for document in windlass_tests::objects::documents(&windlass_tests::paths::example("webapp.yaml"))? {
        scene.server.objects().apply(&document).await?;
    }
    let said = host.says("mutation withheld").await?;
    for words in ["create", "deployments.apps", "spec.replicas: 2", "cannot patch resource"] {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    admin::at_rest(admin::address(&host).await?).await?;
    let metrics = admin::get(admin::address(&host).await?, "/metrics").await?.1;
    let retried = metrics.lines().find(|line| line.starts_with("workqueue_retries_total")).context("it is counted")?;
    assert!(retried.ends_with(" 0"), "{retried}\n{}", host.log());
    assert!(!host.log().contains("the call failed"), "{}", host.log());
    assert!(host.terminate().await?.success());
    Ok(())
}

async fn an_account_bounds_the_watches(kind: Kind) -> anyhow::Result<()> {
    let scene = Scene::new(kind).await?;
    let namespace = scene.server.objects().namespace();
    admit(&scene.server, "deployer", false).await?;
    scene.grant(&format!("impersonate: {namespace}/deployer\n"), &[WEBAPPS, DEPLOYMENTS, SERVICES])?;
    let host = scene.run(&[])?;
    let said = host.says("waiting: the controller starts when it is granted").await?;
    let account = format!("system:serviceaccount:{namespace}:deployer may not list webapps.apps.kubedojo.io");
    assert!(said.contains(&account), "{said}");
    admit(&scene.server, "deployer", true).await?;
    host.says("controller started").await?;
    scene.story().create().await?;
    // When the policy names another account, the write is tried again.
    scene.grant(&format!("impersonate: {namespace}/nobody\n"), &[WEBAPPS, DEPLOYMENTS, SERVICES])?;
    host.says("its policy names another service account").await?;
    assert!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_watches_only_what_its_account_may_on_the_embedded_server() -> anyhow::Result<()> {
    an_account_bounds_the_watches(Kind::Embedded).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_watches_only_what_its_account_may_on_a_real_kube_apiserver() -> anyhow::Result<()> {
    an_account_bounds_the_watches(Kind::Real).await
}
