//! How objects end: finalizers, garbage collection, namespaces, definitions. Also how stand-ins start workloads.

mod support;

use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::{Value, json};
use support::{
    CONFIG_MAPS, Cluster, DEPLOYMENTS, MERGE, WEBAPPS, config_map, deployment, owned_config_map, version_of, webapp,
    webapp_definition,
};
use windlass_apiserver::{Config, StandIns};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/webapps.apps.kubedojo.io";

async fn owner_with_children(names: &[&str]) -> (Cluster, Value) {
    let cluster = Cluster::with_webapps().await;
    let owner = cluster.post(WEBAPPS, &webapp("owner")).await.expect(StatusCode::CREATED);
    for name in names {
        cluster.post(CONFIG_MAPS, &owned_config_map(name, &owner, true)).await.expect(StatusCode::CREATED);
    }
    (cluster, owner)
}

#[tokio::test]
async fn dependents_are_deleted_after_their_owner() {
    let (cluster, _) = owner_with_children(&["a", "b"]).await;
    let status = cluster.delete(&format!("{WEBAPPS}/owner")).await.expect(StatusCode::OK);
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    cluster.wait_gone(CONFIG_MAPS, "a").await;
    cluster.wait_gone(CONFIG_MAPS, "b").await;
}

/// A controller that watches owners and dependents sees the owner's deletion first, so it does not recreate the
/// dependent.
#[tokio::test]
async fn dependents_are_deleted_a_little_later_than_their_owner() {
    let (cluster, _) = owner_with_children(&["a"]).await;
    let began = Instant::now();
    cluster.delete(&format!("{WEBAPPS}/owner")).await.expect(StatusCode::OK);
    cluster.wait_gone(CONFIG_MAPS, "a").await;
    assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_owner_deleted_in_the_foreground_waits_for_its_dependents() {
    let (cluster, owner) = owner_with_children(&[]).await;
    let mut held = owned_config_map("held", &owner, true);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.post(CONFIG_MAPS, &held).await.expect(StatusCode::CREATED);
    let path = format!("{WEBAPPS}/owner?propagationPolicy=Foreground");
    let terminating = cluster.delete(&path).await.expect(StatusCode::OK);
    assert_eq!(terminating["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    cluster.get(&format!("{WEBAPPS}/owner")).await.expect(StatusCode::OK);
    let release = json!({ "metadata": { "finalizers": null } });
    cluster.patch(&format!("{CONFIG_MAPS}/held"), MERGE, &release).await.expect(StatusCode::OK);
    cluster.wait_gone(WEBAPPS, "owner").await;
    cluster.get(&format!("{CONFIG_MAPS}/held")).await.refused(404, "NotFound");
}

#[tokio::test]
async fn orphans_stay_without_their_reference() {
    let (cluster, _) = owner_with_children(&["a"]).await;
    cluster.delete(&format!("{WEBAPPS}/owner?propagationPolicy=Orphan")).await.expect(StatusCode::OK);
    cluster.wait_gone(WEBAPPS, "owner").await;
    let orphan = cluster.get(&format!("{CONFIG_MAPS}/a")).await.expect(StatusCode::OK);
    assert!(orphan["metadata"].get("ownerReferences").is_none(), "{orphan}");
}

#[tokio::test]
async fn an_object_created_with_a_deleted_owner_is_collected() {
    let (cluster, owner) = owner_with_children(&[]).await;
    cluster.delete(&format!("{WEBAPPS}/owner")).await.expect(StatusCode::OK);
    cluster.post(CONFIG_MAPS, &owned_config_map("late", &owner, true)).await.expect(StatusCode::CREATED);
    cluster.wait_gone(CONFIG_MAPS, "late").await;
}

/// An owner counts as absent only if its kind is served.
#[tokio::test]
async fn an_absent_owner_is_noticed_once_its_kind_is_defined() {
    let cluster = Cluster::quiet().await;
    let absent =
        json!({ "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": { "name": "o", "uid": "1" } });
    cluster.post(CONFIG_MAPS, &owned_config_map("early", &absent, false)).await.expect(StatusCode::CREATED);
    let served = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "o", "uid": "2" } });
    cluster.post(CONFIG_MAPS, &owned_config_map("gone", &served, false)).await.expect(StatusCode::CREATED);
    cluster.wait_gone(CONFIG_MAPS, "gone").await;
    cluster.get(&format!("{CONFIG_MAPS}/early")).await.expect(StatusCode::OK);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster.post(definitions, &webapp_definition()).await.expect(StatusCode::CREATED);
    cluster.wait_gone(CONFIG_MAPS, "early").await;
}

#[tokio::test]
async fn objects_that_own_each_other_do_not_block_their_deletion() {
    let cluster = Cluster::quiet().await;
    let first = cluster.post(CONFIG_MAPS, &config_map("first")).await.expect(StatusCode::CREATED);
    let second = cluster.post(CONFIG_MAPS, &owned_config_map("second", &first, true)).await.expect(StatusCode::CREATED);
    let owners = owned_config_map("first", &second, true)["metadata"]["ownerReferences"].clone();
    let patch = json!({ "metadata": { "ownerReferences": owners } });
    cluster.patch(&format!("{CONFIG_MAPS}/first"), MERGE, &patch).await.expect(StatusCode::OK);
    cluster.delete(&format!("{CONFIG_MAPS}/first?propagationPolicy=Foreground")).await.expect(StatusCode::OK);
    cluster.wait_gone(CONFIG_MAPS, "first").await;
    cluster.wait_gone(CONFIG_MAPS, "second").await;
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_removed() {
    let cluster = Cluster::quiet().await;
    let mut object = config_map("a");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.post(CONFIG_MAPS, &object).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}/a");
    let terminating = cluster.delete(&path).await.expect(StatusCode::OK);
    assert!(terminating["metadata"]["deletionTimestamp"].is_string());
    let again = cluster.delete(&path).await.expect(StatusCode::OK);
    assert_eq!(version_of(&again), version_of(&terminating));
    let more = json!({ "metadata": { "finalizers": ["example.com/hold", "example.com/more"] } });
    let message = cluster.patch(&path, MERGE, &more).await.refused(422, "Invalid");
    assert!(message.contains("no new finalizers can be added if the object is being deleted"), "{message}");
    let none = json!({ "metadata": { "finalizers": [] } });
    cluster.patch(&path, MERGE, &none).await.expect(StatusCode::OK);
    cluster.get(&path).await.refused(404, "NotFound");
}

#[tokio::test]
async fn deletion_preconditions_are_checked() {
    let cluster = Cluster::quiet().await;
    cluster.post(CONFIG_MAPS, &config_map("a")).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}/a");
    let json = [("content-type", "application/json")];
    for precondition in [json!({ "uid": "other" }), json!({ "resourceVersion": "1" })] {
        let options = json!({ "preconditions": precondition }).to_string();
        cluster.send("DELETE", &path, &json, options.as_bytes()).await.refused(409, "Conflict");
    }
}

#[tokio::test]
async fn a_terminating_namespace_refuses_content_and_ends_when_empty() {
    let cluster = Cluster::quiet().await;
    let namespaces = "/api/v1/namespaces";
    cluster.post(namespaces, &json!({ "metadata": { "name": "shop" } })).await.expect(StatusCode::CREATED);
    let inside = "/api/v1/namespaces/shop/configmaps";
    let mut held = config_map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.post(inside, &held).await.expect(StatusCode::CREATED);
    let terminating = cluster.delete(&format!("{namespaces}/shop")).await.expect(StatusCode::OK);
    assert_eq!(terminating["status"]["phase"], "Terminating");
    let answer = cluster.post(inside, &config_map("late")).await;
    assert_eq!(answer.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    answer.refused(403, "Forbidden");
    let message =
        cluster.post(inside, &json!({ "metadata": { "generateName": "x-" } })).await.refused(403, "Forbidden");
    assert!(message.starts_with("configmaps \"x-\" is forbidden"), "{message}");
    // Only the finalizer keeps the object, whether or not the collector has deleted it yet.
    let release = json!({ "metadata": { "finalizers": null } });
    cluster.patch(&format!("{inside}/held"), MERGE, &release).await.expect(StatusCode::OK);
    cluster.wait_gone(namespaces, "shop").await;
    assert_eq!(cluster.get(inside).await.expect(StatusCode::OK)["items"], json!([]));
}

#[tokio::test]
async fn a_pod_is_terminating_before_it_is_gone() {
    let cluster = Cluster::quiet().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({ "metadata": { "name": "it" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let made = cluster.post(pods, &pod).await.expect(StatusCode::CREATED);
    let mut watch = cluster.watch(&format!("{pods}?watch=true&resourceVersion={}", version_of(&made))).await;
    let gone = cluster.delete(&format!("{pods}/it?gracePeriodSeconds=0")).await.expect(StatusCode::OK);
    assert_eq!(
        (&gone["metadata"]["deletionGracePeriodSeconds"], &gone["metadata"]["generation"]),
        (&json!(0), &json!(2))
    );
    for kind in ["MODIFIED", "DELETED"] {
        let (found, object) = watch.next().await.expect("the watch goes on");
        assert_eq!(found, kind);
        assert_eq!(object["metadata"]["deletionTimestamp"], gone["metadata"]["deletionTimestamp"]);
    }
}

#[tokio::test]
async fn garbage_collection_and_namespace_deletion_run_independently() {
    for collects in [true, false] {
        let config = Config {
            stand_ins: StandIns::NONE,
            garbage_collection: collects,
            namespace_deletion: !collects,
            ..Config::default()
        };
        let cluster = Cluster::start(config).await;
        let namespaces = "/api/v1/namespaces";
        cluster.post(namespaces, &json!({ "metadata": { "name": "shop" } })).await.expect(StatusCode::CREATED);
        let owner = cluster.post(CONFIG_MAPS, &config_map("owner")).await.expect(StatusCode::CREATED);
        cluster.post(CONFIG_MAPS, &owned_config_map("child", &owner, true)).await.expect(StatusCode::CREATED);
        // The deletions are handled in order, so when the second one is done, the first one was ignored.
        let (delete_owner, delete_namespace) =
            (format!("{CONFIG_MAPS}/owner?propagationPolicy=Foreground"), format!("{namespaces}/shop"));
        if collects {
            cluster.delete(&delete_namespace).await.expect(StatusCode::OK);
            cluster.delete(&delete_owner).await.expect(StatusCode::OK);
            cluster.wait_gone(CONFIG_MAPS, "owner").await;
            let kept = cluster.get(&delete_namespace).await.expect(StatusCode::OK);
            assert_eq!(kept["status"]["phase"], "Terminating");
        } else {
            cluster.delete(&delete_owner).await.expect(StatusCode::OK);
            cluster.delete(&delete_namespace).await.expect(StatusCode::OK);
            cluster.wait_gone(namespaces, "shop").await;
            let kept = cluster.get(&format!("{CONFIG_MAPS}/owner")).await.expect(StatusCode::OK);
            assert_eq!(kept["metadata"]["finalizers"], json!(["foregroundDeletion"]));
        }
    }
}

#[tokio::test]
async fn a_deleted_definition_removes_its_objects_and_its_resource() {
    let cluster = Cluster::with_webapps().await;
    cluster.post(WEBAPPS, &webapp("a")).await.expect(StatusCode::CREATED);
    let mut watch = cluster.watch(&format!("{WEBAPPS}?watch=true")).await;
    assert_eq!(watch.next_name().await.0, "ADDED");
    cluster.delete(DEFINITION).await.expect(StatusCode::OK);
    assert_eq!(watch.next_name().await, ("DELETED".to_owned(), "a".to_owned()));
    assert!(watch.next().await.is_none());
    for path in [WEBAPPS, "/apis/apps.kubedojo.io"] {
        assert_eq!(cluster.get(path).await.expect(StatusCode::NOT_FOUND), "404 page not found\n");
    }
}

#[tokio::test]
async fn an_invalid_definition_is_refused() {
    let cluster = Cluster::quiet().await;
    let mut definition = support::webapp_definition();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["type"] = json!("nonsense");
    definition["metadata"]["name"] = json!("other.apps.kubedojo.io");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let message = cluster.post(path, &definition).await.refused(422, "Invalid");
    assert!(message.contains("must be spec.names.plural+\".\"+spec.group"), "{message}");
    assert!(message.contains("spec.validation.openAPIV3Schema.type: Unsupported value"), "{message}");
}

#[tokio::test]
async fn deployments_become_available() {
    let cluster = Cluster::start(Config::default()).await;
    let mut watch = cluster.watch(&format!("{DEPLOYMENTS}?watch=true")).await;
    cluster.post(DEPLOYMENTS, &deployment("a")).await.expect(StatusCode::CREATED);
    let ready = loop {
        let (_, object) = watch.next().await.expect("the watch goes on");
        if object["status"]["availableReplicas"] == 2 {
            break object;
        }
    };
    assert_eq!(ready["status"]["observedGeneration"], ready["metadata"]["generation"]);
    assert_eq!(ready["status"]["conditions"][0]["type"], "Available");
}

#[tokio::test]
async fn a_job_that_is_deleted_without_a_policy_keeps_its_dependents() {
    let cluster = Cluster::quiet().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str| {
        let spec = json!({ "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] });
        json!({ "metadata": { "name": name }, "spec": { "template": { "spec": spec } } })
    };
    let created = cluster.post(jobs, &job("a")).await.expect(StatusCode::CREATED);
    cluster.post(CONFIG_MAPS, &owned_config_map("child", &created, false)).await.expect(StatusCode::CREATED);
    let answer = cluster.delete(&format!("{jobs}/a?dryRun=All")).await;
    assert!(answer.warnings[0].contains("child pods are preserved by default when jobs are deleted"));
    assert_eq!(answer.expect(StatusCode::OK)["metadata"]["finalizers"], json!(["orphan"]));
    let answer = cluster.delete(jobs).await;
    assert_eq!(answer.warnings.len(), 1);
    cluster.wait_gone(jobs, "a").await;
    let child = cluster.get(&format!("{CONFIG_MAPS}/child")).await.expect(StatusCode::OK);
    assert!(child["metadata"].get("ownerReferences").is_none());

    cluster.post(jobs, &job("b")).await.expect(StatusCode::CREATED);
    let answer = cluster.delete(&format!("{jobs}/b?propagationPolicy=Background")).await;
    assert!(answer.warnings.is_empty());
    assert_eq!(answer.expect(StatusCode::OK)["status"], "Success");
}

#[tokio::test]
async fn the_deletion_of_a_collection_follows_the_options_of_lists() {
    let cluster = Cluster::quiet().await;
    for name in ["a", "b", "c"] {
        cluster.post(CONFIG_MAPS, &config_map(name)).await.expect(StatusCode::CREATED);
    }
    let listed = cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK);
    assert_eq!(cluster.delete(&format!("{CONFIG_MAPS}?dryRun=All")).await.expect(StatusCode::OK), listed);
    assert_eq!(cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK), listed);
    let page = cluster.delete(&format!("{CONFIG_MAPS}?limit=1")).await.expect(StatusCode::OK);
    assert_eq!((&page["items"][0], &page["metadata"]["remainingItemCount"]), (&listed["items"][0], &json!(2)));
    let token = page["metadata"]["continue"].as_str().expect("a token");
    let rest = cluster.delete(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(StatusCode::OK);
    assert_eq!(rest["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(cluster.get(CONFIG_MAPS).await.expect(StatusCode::OK)["items"], json!([]));
}
