//! The wanted state: every primary has exactly the children that it asks for, with the right content, and every child
//! has an owner.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use windlass_tests::children::uid;
use windlass_tests::objects::Objects;

use super::users::Known;

/// Children by the UID of their controller.
type Children = BTreeMap<String, Vec<Value>>;

/// All objects of the namespace that are checked.
#[derive(Clone, Debug, Default)]
struct World {
    apps: Vec<Value>,
    sets: Vec<Value>,
    deployments: Vec<Value>,
    services: Vec<Value>,
    replica_sets: Vec<Value>,
    pods: Vec<Value>,
}

/// Checks that the objects are in the wanted state. The error describes the first deviation.
pub(crate) async fn holds(objects: &Objects, known: &Known) -> anyhow::Result<()> {
    let world = World {
        apps: objects.list("WebApp", "").await?,
        sets: objects.list("PodSet", "").await?,
        deployments: objects.list("Deployment", "").await?,
        services: objects.list("Service", "").await?,
        replica_sets: objects.list("ReplicaSet", "").await?,
        pods: objects.list("Pod", "").await?,
    };
    world.is_known(known)?;
    world.is_right()
}

impl World {
    /// Checks that the primaries are exactly the ones that users know.
    fn is_known(&self, known: &Known) -> anyhow::Result<()> {
        let mut there = BTreeSet::new();
        for (kind, objects) in [("WebApp", &self.apps), ("PodSet", &self.sets)] {
            for object in objects {
                there.insert((kind, object["metadata"]["name"].as_str().context("a name")?.to_owned()));
            }
        }
        let lost: Vec<_> = known.there.difference(&there).collect();
        ensure!(lost.is_empty(), "primaries that nobody deleted are gone: {lost:?}");
        let mut strange = there.difference(&known.there).filter(|primary| !known.doubtful.contains(primary));
        ensure!(strange.next().is_none(), "primaries that nobody made, of {there:?}");
        Ok(())
    }

    fn is_right(&self) -> anyhow::Result<()> {
        let (deployments, services) = (children(&self.deployments)?, children(&self.services)?);
        for app in &self.apps {
            is_told(app)?;
            is_deployed(app, only_child(app, &deployments)?)?;
            is_served(app, only_child(app, &services)?)?;
        }
        let pods = children(&self.pods)?;
        for set in &self.sets {
            is_told(set)?;
            let live = pods.get(uid(set)?).map_or(0, Vec::len);
            ensure!(set["spec"]["replicas"] == live && set["status"]["replicas"] == live, "{live} Pods of {set}");
        }
        let of_apps = owners(&self.apps)?;
        for (owner, left) in deployments.iter().chain(&services) {
            ensure!(of_apps.contains(owner.as_str()), "children of nobody: {left:?}");
        }
        let of_pods: BTreeSet<_> = owners(&self.sets)?.into_iter().chain(owners(&self.replica_sets)?).collect();
        for (owner, left) in &pods {
            ensure!(of_pods.contains(owner.as_str()), "Pods of nobody: {left:?}");
        }
        Ok(())
    }
}

/// The objects that have a controller and are not being deleted.
fn children(objects: &[Value]) -> anyhow::Result<Children> {
    let mut children = Children::new();
    for object in objects.iter().filter(|object| object["metadata"]["deletionTimestamp"].is_null()) {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        let owner = controller.with_context(|| format!("nobody's: {object}"))?;
        children.entry(uid_of(owner)?.to_owned()).or_default().push(object.clone());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, owner: Option<&str>, spec: &Value) -> Value {
        let owners: Vec<_> = owner.iter().map(|uid| json!({"uid": uid, "controller": true})).collect();
        json!({
            "metadata": {"name": name, "uid": name, "generation": 2, "ownerReferences": owners},
            "spec": spec, "status": {"observedGeneration": 2, "replicas": 1},
        })
    }

    /// A world in the wanted state: a `WebApp` and a `PodSet`, each with the children that it asks for.
    fn right() -> World {
        let selector = json!({"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": "app"});
        let container = json!({"image": "a", "ports": [{"containerPort": 8080}]});
        let template = json!({"spec": {"containers": [container]}});
        let deployment = json!({"replicas": 3, "selector": {"matchLabels": selector}, "template": template});
        let service = json!({"selector": selector, "ports": [{"port": 80, "targetPort": "http"}]});
        World {
            apps: vec![object("app", None, &json!({"image": "a", "replicas": 3, "port": 8080}))],
            sets: vec![object("set", None, &json!({"replicas": 1}))],
            deployments: vec![object("app", Some("app"), &deployment)],
            services: vec![object("app", Some("app"), &service)],
            replica_sets: vec![object("app-1", Some("app"), &json!({}))],
            pods: vec![object("of-set", Some("set"), &json!({})), object("of-app", Some("app-1"), &json!({}))],
        }
    }

    /// The error for a world with one deviation.
    fn deviation(spoil: impl FnOnce(&mut World)) -> String {
        let mut world = right();
        spoil(&mut world);
        world.is_right().expect_err("it is not right").to_string()
    }

    #[test]
    fn the_primaries_must_be_those_that_users_know() {
        let primary = |kind: &'static str, name: &str| (kind, name.to_owned());
        let known = |there: &[&str], doubtful: &[&str]| Known {
            there: there.iter().map(|name| primary("WebApp", name)).chain([primary("PodSet", "set")]).collect(),
            doubtful: doubtful.iter().map(|name| primary("WebApp", name)).collect(),
        };
        let deviation = |known: &Known| right().is_known(known).map_err(|error| error.to_string());
        assert_eq!(deviation(&known(&["app"], &[])), Ok(()));
        assert_eq!(deviation(&known(&[], &["app"])), Ok(()), "it may have been made");
        assert_eq!(deviation(&known(&["app"], &["other"])), Ok(()), "it may have been deleted");
        assert!(deviation(&known(&["app", "other"], &[])).is_err_and(|error| error.contains("gone")));
        assert!(deviation(&known(&[], &[])).is_err_and(|error| error.contains("nobody made")));
    }

    #[test]
    fn the_world_is_right_only_if_every_child_exists_once_and_as_wanted() {
        right().is_right().expect("as it should be");
        let doubled = |children: &mut Vec<Value>| children.push(children[0].clone());
        assert!(deviation(|it| doubled(&mut it.deployments)).starts_with("2 children"));
        assert!(deviation(|it| it.services.clear()).starts_with("0 children"));
        assert!(deviation(|it| doubled(&mut it.pods)).starts_with("2 Pods"));
        assert!(deviation(|it| it.pods[0]["metadata"]["deletionTimestamp"] = json!("now")).starts_with("0 Pods"));
        assert!(deviation(|it| it.deployments[0]["spec"]["replicas"] = json!(4)).contains("is not what"));
        assert!(deviation(|it| it.services[0]["spec"]["selector"] = json!({})).contains("is not what"));
    }

    #[test]
    fn the_world_is_wrong_while_unreconciled_or_with_orphaned_children() {
        assert!(deviation(|it| it.apps[0]["metadata"]["generation"] = json!(3)).starts_with("not reconciled"));
        assert!(deviation(|it| it.sets[0]["status"]["replicas"] = json!(2)).starts_with("1 Pods"));
        let gone = |it: &mut World| it.services.push(object("old", Some("old"), &json!({})));
        assert!(deviation(gone).starts_with("children of nobody"));
        assert!(deviation(|it| it.replica_sets.clear()).starts_with("Pods of nobody"));
        assert!(deviation(|it| it.pods.push(object("stray", None, &json!({})))).starts_with("nobody's"));
    }
}
