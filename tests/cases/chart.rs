//! Tests deploy/chart: how Helm renders it, whether a real kube-apiserver accepts it, and whether it grants exactly the
//! rights that the host needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use kube::config::{AuthInfo, Kubeconfig};
use serde_json::Value;
use windlass_tests::cluster::{self, Cluster};
use windlass_tests::host::Host;
use windlass_tests::kubectl::Kubectl;
use windlass_tests::objects::documents;
use windlass_tests::server::Server;
use windlass_tests::story::Story;
use windlass_tests::{admin, paths, wait};

use crate::webapp::plugin_directory;

fn chart() -> PathBuf {
    paths::root().join("deploy/chart")
}

fn values(name: &str) -> PathBuf {
    chart().join("ci").join(format!("{name}-values.yaml"))
}

/// Runs `helm ARGUMENTS`, and returns whether it succeeded, and its output.
async fn helm(arguments: &[&str]) -> anyhow::Result<(bool, String)> {
    let mut command = tokio::process::Command::new(paths::helm()?);
    // Helm uses the test's folders, not the developer's.
    let home = tempfile::tempdir()?;
    command.args(arguments).env("HOME", home.path()).kill_on_drop(true);
    let output = command.output().await.context("start helm")?;
    let said = if output.status.success() { output.stdout } else { output.stderr };
    Ok((output.status.success(), String::from_utf8(said)?))
}

/// Renders the chart as the release `host` in `namespace`, into a file.
async fn render(namespace: &str, more: &[&str]) -> anyhow::Result<tempfile::NamedTempFile> {
    let chart = chart();
    let arguments = ["template", "host", path(&chart)?, "--namespace", namespace];
    let (rendered, said) = helm(&[&arguments, more].concat()).await?;
    ensure!(rendered, "{said}");
    let file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
    std::fs::write(file.path(), said)?;
    Ok(file)
}

fn path(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("a path in UTF-8")
}

/// The manifests that a cluster without the Prometheus operator accepts.
fn served(rendered: &Path) -> anyhow::Result<Vec<Value>> {
    let all = documents(rendered)?;
    let group = |it: &Value| it["apiVersion"].as_str().is_some_and(|version| version.starts_with("monitoring."));
    Ok(all.into_iter().filter(|it| it.is_object() && !group(it)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_kube_apiserver_accepts_the_manifests_of_every_set_of_values() -> anyhow::Result<()> {
    let server = Server::start(windlass_tests::server::Kind::Real).await?;
    let kubectl = Kubectl::of_all_namespaces(server.kubeconfig());
    // Create the objects to which the sets of values refer.
    for namespace in ["shops", "chart"] {
        server.objects().apply(&restricted(namespace)).await?;
    }
    let mut sets = 0;
    for entry in std::fs::read_dir(chart().join("ci"))? {
        let values = entry?.path();
        let values = path(&values)?;
        let (liked, said) = helm(&["lint", "--strict", path(&chart())?, "--values", values]).await?;
        ensure!(liked, "{values}: {said}");
        let rendered = render("chart", &["--values", values]).await?;
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": served(rendered.path())?});
        let file = rendered.path().with_extension("json");
        std::fs::write(&file, list.to_string())?;
        let mut apply = kubectl.command(&["apply", "--dry-run=server", "--validate=strict", "-f", path(&file)?]);
        let applied = apply.output().await?;
        std::fs::remove_file(&file)?;
        let said = [applied.stdout, applied.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        ensure!(applied.status.success() && said.contains("deployment.apps/"), "{values}: {said}");
        // The server warns about a Pod that the namespace's security standard would refuse.
        ensure!(!said.contains("Warning"), "{values}: {said}");
        parses(rendered.path()).with_context(|| values.to_owned())?;
        sets += 1;
    }
    ensure!(sets >= 8, "{sets} sets of values");
    Ok(())
}

/// Creates a namespace that enforces the restricted Pod security standard, and warns about it.
fn restricted(name: &str) -> Value {
    let labels = ["enforce", "warn"].map(|mode| (format!("pod-security.kubernetes.io/{mode}"), "restricted"));
    let labels: std::collections::BTreeMap<_, _> = labels.into();
    serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// Checks that the program accepts the flags of the Deployment. It parses them before it handles `--help`.
fn parses(rendered: &Path) -> anyhow::Result<()> {
    let flags = arguments(rendered)?;
    let read = std::process::Command::new(paths::windlass()?).args(&flags).arg("--help").output()?;
    ensure!(read.status.success(), "{flags:?}: {}", String::from_utf8_lossy(&read.stderr));
    Ok(())
}

#[tokio::test]
async fn nonsense_values_are_refused_by_name() -> anyhow::Result<()> {
    for (value, named) in [
        ("replicas=3", "replicas"),
        ("replicaCount=many", "replicaCount"),
        ("terminationGracePeriodSeconds=10", "terminationGracePeriodSeconds"),
        ("rbac.mode=all", "mode"),
        ("watchNamespaces={Shops}", "watchNamespaces"),
        ("plugins.persistentVolumeClaim=plugins", "exactly one of configMaps"),
        ("plugins.configMaps=null", "exactly one of configMaps"),
        ("image.repository=", "image.repository"),
        ("watchNamespaces={default}", "the host's own namespace"),
        ("leases.instance=A", "instance"),
        ("fullnameOverride=A_b", "fullnameOverride"),
        ("metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true", "scrape each Pod twice"),
        ("serviceAccount.create=false", "serviceAccount.name"),
        ("image.digest=latest", "digest"),
        ("admin.port=80", "port"),
        ("leases.duration=soon", "duration"),
        ("admin.auth=basic", "auth"),
        ("admin.tls.certificate=tls.crt", "certificate"),
        ("admin.viewers[0].name=operators", "kind"),
        ("admin.operators[0].name=operators", "kind"),
        ("metrics.podMonitor.enabled=true", "metrics.tokenSecret"),
        ("hooks.enabled=true", "hooks.tls.secretName"),
        ("hooks.port=443", "port"),
    ] {
        let set = ["--set", "image.repository=registry.example.com/windlass", "--set", value];
        let (liked, said) = helm(&[&["template", "host", path(&chart())?], &set[..]].concat()).await?;
        ensure!(!liked && said.contains(named), "{value}: {said}");
    }
    Ok(())
}

/// The values at `pointer` in the objects of this kind.
fn at(rendered: &Path, kind: &str, pointer: &str) -> anyhow::Result<Vec<Value>> {
    let objects = served(rendered)?;
    Ok(objects.iter().filter(|it| it["kind"] == kind).filter_map(|it| it.pointer(pointer)).cloned().collect())
}

#[tokio::test]
async fn the_chart_opens_the_address_of_hooks_only_if_asked() -> anyhow::Result<()> {
    let address = |rendered: &Path| -> anyhow::Result<Vec<String>> {
        Ok(arguments(rendered)?.into_iter().filter(|it| it.starts_with("--hooks-")).collect())
    };
    let closed = render("chart", &["--values", path(&values("default"))?]).await?;
    ensure!(address(closed.path())?.is_empty() && at(closed.path(), "Service", "/spec/ports/0/name")?.len() == 1);
    let open = render("chart", &["--values", path(&values("hooks"))?]).await?;
    let folder = "/etc/windlass/hooks-tls";
    let [certificate, key] = ["cert-file", "private-key-file"].map(|flag| format!("--hooks-tls-{flag}={folder}/tls."));
    let flags = ["--hooks-address=0.0.0.0:9443".to_owned(), certificate + "crt", key + "key"];
    ensure!(address(open.path())? == flags, "{:?}", address(open.path())?);
    let pod = at(open.path(), "Deployment", "/spec/template/spec")?.pop().context("a Pod")?;
    let mounts = pod["containers"][0]["volumeMounts"].as_array().context("mounts")?;
    let mount = mounts.iter().find(|it| it["mountPath"] == folder).context("the folder is mounted")?;
    let volumes = pod["volumes"].as_array().context("volumes")?;
    let volume = volumes.iter().find(|it| it["name"] == mount["name"]).context("the volume exists")?;
    ensure!(volume["secret"]["secretName"] == "windlass-hooks-tls", "{volume}");
    let ports = at(open.path(), "Service", "/spec/ports/0")?;
    let port = serde_json::json!({"name": "hooks", "port": 8443, "targetPort": "hooks", "protocol": "TCP"});
    ensure!(ports.contains(&port), "{ports:?}");
    let from = at(open.path(), "NetworkPolicy", "/spec/ingress/1/from/0/namespaceSelector/matchLabels")?;
    ensure!(from == [serde_json::json!({"kubernetes.io/metadata.name": "gateway"})], "{from:?}");
    let of_hooks = values("hooks");
    let all = ["--values", path(&of_hooks)?, "--set-json", "networkPolicy.hooksFrom=[]"];
    let everywhere = render("chart", &all).await?;
    let rules = at(everywhere.path(), "NetworkPolicy", "/spec/ingress/1")?;
    ensure!(rules == [serde_json::json!({"ports": [{"port": 9443, "protocol": "TCP"}]})], "{rules:?}");
    let proxied = render("chart", &["--values", path(&values("everything"))?]).await?;
    ensure!(address(proxied.path())? == ["--hooks-address=0.0.0.0:8443", "--hooks-plain-http"]);
    Ok(())
}

/// The arguments of the Deployment's container.
fn arguments(rendered: &Path) -> anyhow::Result<Vec<String>> {
    let objects = served(rendered)?;
    let deployment = objects.iter().find(|it| it["kind"] == "Deployment").context("a Deployment")?;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    Ok(serde_json::from_value(container["args"].clone())?)
}

/// The arguments, with the paths and the address of this test.
fn flags(rendered: &Path, plugins: &Path, kubeconfig: &Path) -> anyhow::Result<Vec<String>> {
    let mut flags = vec![];
    for flag in arguments(rendered)? {
        flags.push(match flag.split_once('=') {
            Some(("--plugins", _)) => format!("--plugins={}", path(plugins)?),
            Some(("--admin-address", _)) => "--admin-address=127.0.0.1:0".to_owned(),
            // The tests have their own cache.
            Some(("--cache-dir", _)) => continue,
            _ => flag,
        });
    }
    flags.push(format!("--kubeconfig={}", path(kubeconfig)?));
    Ok(flags)
}

/// A verb and its resource.
type Right = (String, String);

/// The rights that `user` has used according to the audit log, and the requests that were denied.
fn asked(audit: &Path, user: &str) -> anyhow::Result<(BTreeSet<Right>, Vec<Value>)> {
    let mut asked = BTreeSet::new();
    let mut refused = vec![];
    for line in std::fs::read_to_string(audit)?.lines() {
        let event: Value = serde_json::from_str(line)?;
        let object = &event["objectRef"];
        if event["user"]["username"] != user || !object.is_object() {
            continue;
        }
        if event["responseStatus"]["code"] == 403 {
            refused.push(event.clone());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let subresource = object["subresource"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
        let resource = format!("{}{subresource}.{}", text(&object["resource"]), text(&object["apiGroup"]));
        asked.insert((text(&event["verb"]), resource));
    }
    Ok((asked, refused))
}

/// Each verb and resource that the chart's roles grant.
fn granted(rendered: &Path) -> anyhow::Result<BTreeSet<Right>> {
    let mut granted = BTreeSet::new();
    let texts = |value: &Value| -> anyhow::Result<Vec<String>> { Ok(serde_json::from_value(value.clone())?) };
    for role in served(rendered)?.iter().filter(|it| it["kind"].as_str().is_some_and(|kind| kind.ends_with("Role"))) {
        // The paths of the admin address are for users, not for the host.
        let rules = role["rules"].as_array().context("rules")?;
        for rule in rules.iter().filter(|rule| rule["nonResourceURLs"].is_null()) {
            for group in texts(&rule["apiGroups"])? {
                for resource in texts(&rule["resources"])? {
                    let resource = format!("{resource}.{group}");
                    granted.extend(texts(&rule["verbs"])?.into_iter().map(|verb| (verb, resource.clone())));
                }
            }
        }
    }
    Ok(granted)
}

/// Checks that only the account that the chart allows to view the admin address may see it.
async fn answers_whom_the_roles_let(host: &Host, kubectl: &Kubectl<'_>, namespace: &str) -> anyhow::Result<()> {
    let address = format!("https://{}", admin::address(host).await?);
    let status = async |token: &str| -> anyhow::Result<String> {
        let mut status = tokio::process::Command::new(paths::windlass()?);
        status.args(["status", "--admin-address", &address, "--insecure-skip-tls-verify"]);
        let output = status.env("WINDLASS_TOKEN", token).output().await?;
        Ok(format!(
            "{:?}: {}",
            output.status.code(),
            String::from_utf8(output.stdout)? + &String::from_utf8(output.stderr)?
        ))
    };
    for account in ["viewer", "stranger"] {
        kubectl.run(&["create", "serviceaccount", account, "--namespace", namespace]).await?;
    }
    let token = async |account: &str| -> anyhow::Result<String> {
        kubectl.run(&["create", "token", account, "--namespace", namespace]).await
    };
    let viewer = token("viewer").await?;
    // The real server's authorizer needs a moment to see a new role.
    wait::until("the viewer sees the plugins", || async {
        let shown = status(&viewer).await?;
        ensure!(shown.starts_with("Some(0): NAME") && shown.contains("webapp "), "{shown}");
        Ok(())
    })
    .await?;
    let mut resume = tokio::process::Command::new(paths::windlass()?);
    resume.args(["resume", "webapp", "--admin-address", &address, "--insecure-skip-tls-verify"]);
    let refused = String::from_utf8(resume.env("WINDLASS_TOKEN", &viewer).output().await?.stderr)?;
    ensure!(refused.contains("viewer may not post /plugins/webapp/resume"), "{refused}");
    let stranger = status(&token("stranger").await?).await?;
    let user = format!("system:serviceaccount:{namespace}:stranger may not get /plugins");
    ensure!(stranger.starts_with("Some(2)") && stranger.contains("403") && stranger.contains(&user), "{stranger}");
    let unknown = status("no.such.token").await?;
    ensure!(unknown.contains("401") && unknown.contains("kubectl create token"), "{unknown}");
    Ok(())
}

/// A host with the chart's arguments and account runs the `WebApp` story without a denied request, and uses each right.
async fn a_pod_of_the_chart(cluster: &Cluster, audit: &Path, namespaced: bool) -> anyhow::Result<()> {
    let server = Server::join(cluster).await?;
    server.install_webapp().await?;
    let shops = server.objects().namespace();
    let release = format!("{shops}-host");
    server.objects().apply(&restricted(&release)).await?;
    let rights = values("webapp");
    let viewers =
        format!(r#"admin.viewers=[{{"kind": "ServiceAccount", "name": "viewer", "namespace": "{release}"}}]"#);
    let mut more = vec!["--values", path(&rights)?, "--set-json", &viewers];
    let watched = format!("watchNamespaces={{{shops}}}");
    if namespaced {
        more.extend(["--set", &watched]);
    }
    let rendered = render(&release, &more).await?;
    let kubectl = Kubectl::of_all_namespaces(server.kubeconfig());
    kubectl.run(&["apply", "-f", path(rendered.path())?]).await?;
    let token = kubectl.run(&["create", "token", "host-windlass", "--namespace", &release]).await?;

    let plugins = plugin_directory()?;
    let mut kubeconfig = Kubeconfig::read_from(server.kubeconfig())?;
    let account = AuthInfo { token: Some(token.trim().to_owned().into()), ..AuthInfo::default() };
    for user in &mut kubeconfig.auth_infos {
        user.auth_info = Some(account.clone());
    }
    let own = plugins.path().join("kubeconfig");
    std::fs::write(&own, serde_json::to_string(&kubeconfig)?)?;
    let policy = "apiVersion: windlass.dev/v1alpha1\nkind: PluginPolicy\nplugin: webapp\nrules:\n\
        - {apiGroups: [apps.kubedojo.io], resources: [webapps, webapps/status], verbs: [get, list, watch, patch]}\n\
        - {apiGroups: [apps], resources: [deployments], verbs: [get, list, watch, create, patch]}\n\
        - {apiGroups: [\"\"], resources: [services], verbs: [get, list, watch, create, patch]}\n";
    std::fs::write(plugins.path().join("webapp.policy.yaml"), policy)?;

    let flags = flags(rendered.path(), plugins.path(), &own)?;
    let host = Host::start_with(&flags, &[("POD_NAMESPACE", &*release), ("POD_NAME", "host-0")], None)?;
    host.says("controller started").await?;
    let story = Story::new(server.objects());
    story.whole().await?;
    answers_whom_the_roles_let(&host, &kubectl, &release).await?;
    ensure!(host.terminate().await?.success(), "it stops in order");

    let user = format!("system:serviceaccount:{release}:host-windlass");
    // An apply that creates an object needs `create`, but the audit log calls it a patch. The host takes its lease by
    // an update, and `delete`s the lease of a replica that is gone.
    let seen_otherwise = |(verb, resource): &Right| {
        verb == "create" && !resource.starts_with("leases.") && !resource.starts_with("events.")
            || resource.starts_with("leases.")
            || (verb == "patch" && resource.starts_with("events."))
    };
    wait::until("the audit log has each right, and no refusal", || async {
        let (asked, refused) = asked(audit, &user)?;
        let granted = granted(rendered.path())?;
        let unused: Vec<_> = granted.difference(&asked).filter(|it| !seen_otherwise(it)).collect();
        ensure!(unused.is_empty(), "granted, and not used: {unused:?}");
        ensure!(refused.is_empty(), "refused: {refused:#?}");
        Ok(())
    })
    .await?;
    let applied = documents(rendered.path())?;
    ensure!(applied.iter().any(|it| it["kind"] == "ClusterRole"), "the host lists definitions");
    // Only cluster-scoped objects must be deleted here. The others disappear with the cluster.
    kubectl.run(&["delete", "--ignore-not-found", "--wait=false", "-f", path(rendered.path())?]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_charts_rights_equal_those_that_a_host_with_the_webapp_uses() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let audit = folder.path().join("audit.log");
    let log = path(&audit)?.to_owned();
    let cluster = tokio::task::spawn_blocking(move || cluster::start(&["--audit-log", &log])).await??;
    for namespaced in [false, true] {
        a_pod_of_the_chart(&cluster, &audit, namespaced).await.with_context(|| format!("namespaced: {namespaced}"))?;
    }
    Ok(())
}
