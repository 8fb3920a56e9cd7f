//! As it should be: every primary has just the children that it asks for, once, and they are right; nobody else's are left.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_tests::children::uid;
use windlass_tests::objects::Objects;

/// Children by the UID of the owner that controls them.
type Children = BTreeMap<String, Vec<Value>>;

/// The first thing that is not as it should be, as an error.
pub(crate) async fn holds(objects: &Objects, webapps: usize, sets: usize) -> anyhow::Result<()> {
    let apps = objects.list("WebApp", "").await?;
    ensure!(apps.len() == webapps, "{} WebApps", apps.len());
    let (deployments, services) = (children(objects, "Deployment").await?, children(objects, "Service").await?);
    for app in &apps {
        is_told(app)?;
        is_deployed(app, only_child(app, &deployments)?)?;
        is_served(app, only_child(app, &services)?)?;
    }
    let pod_sets = objects.list("PodSet", "").await?;
    ensure!(pod_sets.len() == sets, "{} PodSets", pod_sets.len());
    let pods = children(objects, "Pod").await?;
    for set in &pod_sets {
        is_told(set)?;
        let live = pods.get(uid(set)?).map_or(0, Vec::len);
        ensure!(set["spec"]["replicas"] == live && set["status"]["replicas"] == live, "{live} Pods of {set}");
    }
    let of_apps = owners(&apps)?;
    for (owner, left) in deployments.iter().chain(&services) {
        ensure!(of_apps.contains(owner.as_str()), "children of nobody: {left:?}");
    }
    let replica_sets = objects.list("ReplicaSet", "").await?;
    let of_pods: BTreeSet<_> = owners(&pod_sets)?.into_iter().chain(owners(&replica_sets)?).collect();
    for (owner, left) in &pods {
        ensure!(of_pods.contains(owner.as_str()), "Pods of nobody: {left:?}");
    }
    Ok(())
}

/// The objects of a kind that somebody controls and that are not on their way out.
async fn children(objects: &Objects, kind: &str) -> anyhow::Result<Children> {
    let mut children = Children::new();
    for object in objects.list(kind, "").await? {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        if object["metadata"]["deletionTimestamp"].is_null() {
            let owner = controller.with_context(|| format!("nobody's: {object}"))?;
            children.entry(uid_of(owner)?.to_owned()).or_default().push(object);
        }
    }
    Ok(children)
}

fn uid_of(owner: &Value) -> anyhow::Result<&str> {
    owner["uid"].as_str().context("an owner has a UID")
}

fn owners(objects: &[Value]) -> anyhow::Result<BTreeSet<&str>> {
    objects.iter().map(uid).collect()
}

fn only_child<'a>(app: &Value, children: &'a Children) -> anyhow::Result<&'a Value> {
    let own = children.get(uid(app)?).map_or(&[][..], Vec::as_slice);
    let [child] = own else { anyhow::bail!("{} children of {app}: {own:?}", own.len()) };
    ensure!(child["metadata"]["name"] == app["metadata"]["name"], "a child of another name: {child}");
    Ok(child)
}

fn is_told(primary: &Value) -> anyhow::Result<()> {
    ensure!(primary["status"]["observedGeneration"] == primary["metadata"]["generation"], "not reconciled: {primary}");
    Ok(())
}

fn is_deployed(app: &Value, deployment: &Value) -> anyhow::Result<()> {
    let (wanted, spec) = (&app["spec"], &deployment["spec"]);
    let container = &spec["template"]["spec"]["containers"][0];
    let is_right = spec["replicas"] == wanted["replicas"]
        && spec["selector"]["matchLabels"] == selector(app)
        && container["image"] == wanted["image"]
        && container["ports"][0]["containerPort"] == wanted["port"];
    ensure!(is_right, "{deployment} is not what {app} asks for");
    Ok(())
}

fn is_served(app: &Value, service: &Value) -> anyhow::Result<()> {
    let port = &service["spec"]["ports"][0];
    let is_right = service["spec"]["selector"] == selector(app) && port["port"] == 80 && port["targetPort"] == "http";
    ensure!(is_right, "{service} is not what {app} asks for");
    Ok(())
}

fn selector(app: &Value) -> Value {
    json!({"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app["metadata"]["name"]})
}
