//! The stand-ins on simulated time: the pods and workloads that clients see.

mod support;

use std::time::{Duration, SystemTime};

use axum::body::Body;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use support::{DEPLOYMENTS, JSON, MERGE, deployment};
use tower::ServiceExt as _;
use windlass_apiserver::{ApiServer, Clock, Config, StandIns};

const PODS: &str = "/api/v1/namespaces/default/pods";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// A server in this process, on simulated time.
struct Played(ApiServer);

impl Played {
    fn by(stand_ins: StandIns) -> Played {
        let clock = Clock::Given(SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 40));
        Played(ApiServer::in_process(&Config { stand_ins, clock, seed: Some(3), ..Config::default() }))
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>) -> (StatusCode, Value) {
        let media = if method == "PATCH" { MERGE } else { JSON };
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = request.body(body).expect("a request");
        let response = self.0.service().oneshot(request).await.expect("an answer");
        let code = response.status();
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        (code, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
    }

    async fn create(&self, path: &str, object: &Value) -> Value {
        let (code, created) = self.send("POST", path, Some(object)).await;
        assert_eq!(code, StatusCode::CREATED, "{created}");
        created
    }

    async fn change(&self, path: &str, change: &Value) {
        let (code, changed) = self.send("PATCH", path, Some(change)).await;
        assert_eq!(code, StatusCode::OK, "{changed}");
    }

    async fn get(&self, path: &str) -> Value {
        self.send("GET", path, None).await.1
    }

    async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().expect("a list").clone()
    }

    /// The names of the objects in the collection.
    async fn names(&self, path: &str) -> Vec<String> {
        let name = |object: &Value| object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.items(path).await.iter().map(name).collect()
    }
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits longer than any work takes that is due at once.
async fn settle() {
    pass(Duration::from_secs(3)).await;
}

fn pod(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": "nginx:1" }] },
    })
}

fn holds(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

#[tokio::test(start_paused = true)]
async fn the_default_stand_ins_create_no_pods() {
    let cluster = Played::by(StandIns::default());
    cluster.create(DEPLOYMENTS, &deployment("web")).await;
    cluster.create(PODS, &pod("bare")).await;
    settle().await;
    assert_eq!(cluster.get(&format!("{DEPLOYMENTS}/web")).await["status"]["readyReplicas"], 2);
    assert!(cluster.names(REPLICA_SETS).await.is_empty());
    assert_eq!(cluster.get(&format!("{PODS}/bare")).await["status"]["phase"], "Pending");
    assert!(cluster.names("/api/v1/nodes").await.is_empty());
    assert_eq!(cluster.names("/api/v1/namespaces/default/serviceaccounts").await, ["default"]);
}

#[tokio::test(start_paused = true)]
async fn a_bare_pod_runs_on_the_node() {
    let cluster = Played::by(StandIns::ALL);
    cluster.create(PODS, &pod("bare")).await;
    settle().await;
    let bare = cluster.get(&format!("{PODS}/bare")).await;
    assert_eq!((&bare["spec"]["nodeName"], &bare["status"]["phase"]), (&json!("windlass"), &json!("Running")));
    assert!(holds(&bare, "Ready") && holds(&bare, "PodScheduled"), "{bare}");
    let address = bare["status"]["podIP"].as_str().expect("an address");
    assert!(address.starts_with("198."), "{address}");
    assert_eq!(bare["status"]["hostIP"], "192.0.2.1");
    let log = cluster.get(&format!("{PODS}/bare/log")).await;
    assert!(log.as_str().expect("text").contains("no log"), "{log}");
    let node = cluster.get("/api/v1/nodes/windlass").await;
    assert!(holds(&node, "Ready"), "{node}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_a_node_that_accepts_it() {
    let cluster = Played::by(StandIns::ALL);
    cluster.change("/api/v1/nodes/windlass", &json!({ "spec": { "unschedulable": true } })).await;
    cluster.create(PODS, &pod("bare")).await;
    settle().await;
    let waiting = cluster.get(&format!("{PODS}/bare")).await;
    assert_eq!(waiting["status"]["phase"], "Pending");
    assert_eq!(waiting["status"]["conditions"][0]["reason"], "Unschedulable");
    cluster.change("/api/v1/nodes/windlass", &json!({ "spec": { "unschedulable": null } })).await;
    settle().await;
    assert_eq!(cluster.get(&format!("{PODS}/bare")).await["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_pods_annotation_decides_its_behaviour() {
    let cluster = Played::by(StandIns::ALL);
    for behaviour in ["failure", "unready"] {
        let mut sick = pod(behaviour);
        sick["metadata"]["annotations"] = json!({ "windlass.dev/pod-behaviour": behaviour });
        cluster.create(PODS, &sick).await;
    }
    pass(Duration::from_mins(1)).await;
    let failing = cluster.get(&format!("{PODS}/failure")).await;
    let container = &failing["status"]["containerStatuses"][0];
    assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert_eq!(container["restartCount"], 3, "after 0, 10 and 30 seconds");
    for behaviour in ["failure", "unready"] {
        let path = format!("{PODS}/{behaviour}");
        assert!(!holds(&cluster.get(&path).await, "Ready"), "{behaviour}");
        let healed = json!({ "metadata": { "annotations": { "windlass.dev/pod-behaviour": null } } });
        cluster.change(&path, &healed).await;
        settle().await;
        assert!(holds(&cluster.get(&path).await, "Ready"), "{behaviour}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_has_a_replica_set_and_pods_until_it_is_deleted() {
    let cluster = Played::by(StandIns::ALL);
    cluster.create(DEPLOYMENTS, &deployment("web")).await;
    settle().await;
    let sets = cluster.names(REPLICA_SETS).await;
    let pods = cluster.names(PODS).await;
    assert_eq!((sets.len(), pods.len()), (1, 2));
    assert!(sets[0].starts_with("web-"), "{sets:?}");
    assert!(pods.iter().all(|pod| pod.starts_with(&format!("{}-", sets[0]))), "{pods:?}");
    let web = cluster.get(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(web["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    let status = &web["status"];
    for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status[count], 2, "{count}");
    }
    assert_eq!((&status["terminatingReplicas"], &status["observedGeneration"]), (&json!(0), &json!(1)));
    assert!(holds(&web, "Available") && holds(&web, "Progressing"), "{web}");

    cluster.change(&format!("{DEPLOYMENTS}/web"), &json!({ "spec": { "replicas": 3 } })).await;
    settle().await;
    assert_eq!(cluster.names(PODS).await.len(), 3);
    cluster.send("DELETE", &format!("{PODS}/{}", pods[0]), None).await;
    settle().await;
    assert_eq!(cluster.names(PODS).await.len(), 3, "a pod that goes is replaced");

    cluster.send("DELETE", &format!("{DEPLOYMENTS}/web"), None).await;
    settle().await;
    assert!(cluster.names(REPLICA_SETS).await.is_empty());
    assert!(cluster.names(PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rollout_empties_the_old_set_and_can_be_undone_by_its_revision() {
    let cluster = Played::by(StandIns::ALL);
    let web = format!("{DEPLOYMENTS}/web");
    cluster.create(DEPLOYMENTS, &deployment("web")).await;
    settle().await;
    for (tag, revision) in [("nginx:2", "2"), ("nginx:1", "3")] {
        cluster.change(&web, &image(tag)).await;
        settle().await;
        let sets = cluster.items(REPLICA_SETS).await;
        assert_eq!(sets.len(), 2);
        let full: Vec<&Value> = sets.iter().filter(|set| set["spec"]["replicas"] == 2).collect();
        let [full] = full.as_slice() else { panic!("one set has the pods: {sets:?}") };
        assert_eq!(full["spec"]["template"]["spec"]["containers"][0]["image"], tag);
        assert_eq!(full["metadata"]["annotations"]["deployment.kubernetes.io/revision"], revision);
        let deployment = cluster.get(&web).await;
        assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], revision);
        let progressing = deployment["status"]["conditions"].as_array().expect("conditions").iter();
        let progressing = progressing.clone().find(|condition| condition["type"] == "Progressing").expect("one");
        let name = full["metadata"]["name"].as_str().expect("a name");
        assert_eq!(progressing["message"], format!("ReplicaSet \"{name}\" has successfully progressed."));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_of_pods_that_never_become_ready_fails_after_its_deadline() {
    let cluster = Played::by(StandIns::ALL);
    let mut sick = deployment("web");
    sick["spec"]["template"]["metadata"]["annotations"] = json!({ "windlass.dev/pod-behaviour": "unready" });
    cluster.create(DEPLOYMENTS, &sick).await;
    settle().await;
    let early = cluster.get(&format!("{DEPLOYMENTS}/web")).await;
    assert!(holds(&early, "Progressing") && !holds(&early, "Available"), "{early}");
    pass(Duration::from_mins(11)).await;
    let late = cluster.get(&format!("{DEPLOYMENTS}/web")).await;
    let conditions = late["status"]["conditions"].as_array().expect("conditions");
    assert!(conditions.iter().any(|condition| condition["reason"] == "ProgressDeadlineExceeded"), "{late}");
}

#[tokio::test(start_paused = true)]
async fn pods_are_available_after_min_ready_seconds() {
    let cluster = Played::by(StandIns::ALL);
    let mut slow = deployment("web");
    slow["spec"]["minReadySeconds"] = json!(30);
    cluster.create(DEPLOYMENTS, &slow).await;
    pass(Duration::from_secs(20)).await;
    let status = cluster.get(&format!("{DEPLOYMENTS}/web")).await["status"].clone();
    assert_eq!((&status["readyReplicas"], &status["availableReplicas"]), (&json!(2), &Value::Null));
    pass(Duration::from_secs(20)).await;
    assert_eq!(cluster.get(&format!("{DEPLOYMENTS}/web")).await["status"]["availableReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_deployment_adopts_the_orphans_of_the_last_one() {
    let cluster = Played::by(StandIns::ALL);
    cluster.create(DEPLOYMENTS, &deployment("web")).await;
    settle().await;
    let before = (cluster.names(REPLICA_SETS).await, cluster.names(PODS).await);
    cluster.send("DELETE", &format!("{DEPLOYMENTS}/web?propagationPolicy=Orphan"), None).await;
    settle().await;
    cluster.create(DEPLOYMENTS, &deployment("web")).await;
    settle().await;
    assert_eq!((cluster.names(REPLICA_SETS).await, cluster.names(PODS).await), before);
    assert_eq!(cluster.get(&format!("{DEPLOYMENTS}/web")).await["status"]["readyReplicas"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_no_longer_selected_is_released_and_replaced() {
    let cluster = Played::by(StandIns::ALL);
    cluster.create(DEPLOYMENTS, &deployment("web")).await;
    settle().await;
    let pods = cluster.names(PODS).await;
    cluster.change(&format!("{PODS}/{}", pods[0]), &json!({ "metadata": { "labels": { "app": "debug" } } })).await;
    settle().await;
    assert_eq!(cluster.names(PODS).await.len(), 3);
    let freed = cluster.get(&format!("{PODS}/{}", pods[0])).await;
    assert!(freed["metadata"]["ownerReferences"].is_null(), "{freed}");
}

#[tokio::test(start_paused = true)]
async fn stand_ins_work_without_each_other() {
    let without_pods = Played::by(StandIns::DEPLOYMENTS | StandIns::REPLICA_SETS);
    without_pods.create(DEPLOYMENTS, &deployment("web")).await;
    settle().await;
    let pods = without_pods.items(PODS).await;
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["status"]["phase"] == "Pending"), "{pods:?}");

    let by_statuses = Played::by(StandIns::DEPLOYMENTS | StandIns::STATUSES);
    by_statuses.create(DEPLOYMENTS, &deployment("web")).await;
    settle().await;
    assert!(by_statuses.names(PODS).await.is_empty());
    assert_eq!(by_statuses.get(&format!("{DEPLOYMENTS}/web")).await["status"]["readyReplicas"], 2);
}

const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// A workload of an `apps` kind with one container.
fn workload(kind: &str, name: &str, spec: &Value) -> Value {
    let mut object = deployment(name);
    object["kind"] = json!(kind);
    object["spec"].as_object_mut().expect("a spec").remove("replicas");
    for (key, value) in spec.as_object().expect("an object") {
        object["spec"][key] = value.clone();
    }
    object
}

fn image(image: &str) -> Value {
    json!({ "spec": { "template": { "spec": { "containers": [{ "name": "web", "image": image }] } } } })
}

fn images(pods: &[Value]) -> Vec<&str> {
    pods.iter().map(|pod| pod["spec"]["containers"][0]["image"].as_str().expect("an image")).collect()
}

#[tokio::test(start_paused = true)]
async fn the_pods_of_a_stateful_set_come_and_go_in_order() {
    let cluster = Played::by(StandIns::ALL);
    let path = format!("{STATEFUL_SETS}/db");
    let claims = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    let spec = json!({ "replicas": 3, "serviceName": "db", "volumeClaimTemplates": claims });
    cluster.create(STATEFUL_SETS, &workload("StatefulSet", "db", &spec)).await;
    pass(Duration::from_millis(200)).await;
    assert_eq!(cluster.names(PODS).await, ["db-0", "db-1"], "the second waits until the first is ready");
    settle().await;
    assert_eq!(cluster.names(PODS).await, ["db-0", "db-1", "db-2"]);
    let claims = cluster.names("/api/v1/namespaces/default/persistentvolumeclaims").await;
    assert_eq!(claims, ["data-db-0", "data-db-1", "data-db-2"]);
    let pod = cluster.get(&format!("{PODS}/db-1")).await;
    assert_eq!((&pod["spec"]["hostname"], &pod["spec"]["subdomain"]), (&json!("db-1"), &json!("db")));
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");

    cluster.change(&path, &image("nginx:2")).await;
    settle().await;
    assert_eq!(images(&cluster.items(PODS).await), ["nginx:2"; 3]);
    let revisions = cluster.items(REVISIONS).await;
    assert_eq!(revisions.len(), 2);
    let status = cluster.get(&path).await["status"].clone();
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    for count in ["replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"] {
        assert_eq!(status[count], 3, "{count}");
    }

    cluster.change(&path, &json!({ "spec": { "replicas": 1 } })).await;
    settle().await;
    assert_eq!(cluster.names(PODS).await, ["db-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_holds_back_the_pods_below_it() {
    let cluster = Played::by(StandIns::ALL);
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 1 } });
    let spec = json!({ "replicas": 2, "updateStrategy": strategy });
    cluster.create(STATEFUL_SETS, &workload("StatefulSet", "db", &spec)).await;
    settle().await;
    cluster.change(&format!("{STATEFUL_SETS}/db"), &image("nginx:2")).await;
    settle().await;
    assert_eq!(images(&cluster.items(PODS).await), ["nginx:1", "nginx:2"]);
    cluster.send("DELETE", &format!("{PODS}/db-0"), None).await;
    settle().await;
    assert_eq!(images(&cluster.items(PODS).await), ["nginx:1", "nginx:2"], "it comes back as it was");
    let status = cluster.get(&format!("{STATEFUL_SETS}/db")).await["status"].clone();
    assert_ne!(status["currentRevision"], status["updateRevision"]);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_has_a_pod_on_each_node_that_it_selects() {
    let cluster = Played::by(StandIns::ALL);
    cluster.create(DAEMON_SETS, &workload("DaemonSet", "agent", &json!({}))).await;
    let node = json!({ "metadata": { "name": "other" } });
    cluster.create("/api/v1/nodes", &node).await;
    settle().await;
    let pods = cluster.items(PODS).await;
    let mut nodes: Vec<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["other", "windlass"]);
    let path = format!("{DAEMON_SETS}/agent");
    let status = cluster.get(&path).await["status"].clone();
    for count in ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled"] {
        assert_eq!(status[count], 2, "{count}");
    }
    cluster.change(&path, &image("nginx:2")).await;
    settle().await;
    assert_eq!(images(&cluster.items(PODS).await), ["nginx:2"; 2]);
    assert_eq!(cluster.names(REVISIONS).await.len(), 2);
    cluster.send("DELETE", "/api/v1/nodes/other", None).await;
    settle().await;
    assert_eq!(cluster.names(PODS).await.len(), 1);
}

fn job(name: &str, spec: &Value, behaviour: Option<&str>) -> Value {
    let mut job = json!({
        "metadata": { "name": name },
        "spec": { "template": { "metadata": {}, "spec": {
            "restartPolicy": "Never",
            "containers": [{ "name": "main", "image": "nginx:1" }],
        } } },
    });
    if let Some(behaviour) = behaviour {
        job["spec"]["template"]["metadata"]["annotations"] = json!({ "windlass.dev/pod-behaviour": behaviour });
    }
    for (key, value) in spec.as_object().expect("an object") {
        job["spec"][key] = value.clone();
    }
    job
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_with_a_bounded_number_of_pods_at_a_time() {
    let cluster = Played::by(StandIns::ALL);
    let spec =
        json!({ "completions": 3, "parallelism": 2, "completionMode": "Indexed", "ttlSecondsAfterFinished": 60 });
    cluster.create(JOBS, &job("sum", &spec, None)).await;
    pass(Duration::from_millis(200)).await;
    let running = cluster.get(&format!("{JOBS}/sum")).await;
    assert_eq!((&running["status"]["active"], &running["status"]["ready"]), (&json!(2), &json!(2)));
    settle().await;
    let done = cluster.get(&format!("{JOBS}/sum")).await;
    assert!(holds(&done, "Complete") && holds(&done, "SuccessCriteriaMet"), "{done}");
    let status = &done["status"];
    assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(3), &json!("0-2")));
    assert!(status["completionTime"].is_string() && status["active"].is_null(), "{status}");
    let names = cluster.names(PODS).await;
    assert!(names[0].starts_with("sum-0-") && names[2].starts_with("sum-2-"), "{names:?}");
    pass(Duration::from_mins(2)).await;
    assert_eq!(cluster.get(&format!("{JOBS}/sum")).await["code"], 404, "it goes after its time");
    assert!(cluster.names(PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_when_its_backoff_limit_is_reached() {
    let cluster = Played::by(StandIns::ALL);
    cluster.create(JOBS, &job("sum", &json!({ "backoffLimit": 2 }), Some("failure"))).await;
    settle().await;
    let failed = cluster.get(&format!("{JOBS}/sum")).await;
    assert!(holds(&failed, "Failed"), "{failed}");
    assert_eq!(failed["status"]["failed"], 3);
    assert_eq!(cluster.names(PODS).await.len(), 3);

    let mut restarting = job("again", &json!({ "backoffLimit": 2 }), Some("failure"));
    restarting["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    cluster.create(JOBS, &restarting).await;
    pass(Duration::from_mins(1)).await;
    let failed = cluster.get(&format!("{JOBS}/again")).await;
    let reasons = failed["status"]["conditions"].as_array().expect("conditions").iter();
    assert!(reasons.clone().all(|condition| condition["reason"] == "BackoffLimitExceeded"), "{failed}");
    assert_eq!(cluster.names(PODS).await.len(), 3, "the pod that restarted is gone");
}

#[tokio::test(start_paused = true)]
async fn a_job_ends_at_its_deadline() {
    let cluster = Played::by(StandIns::ALL);
    cluster.create(JOBS, &job("long", &json!({ "activeDeadlineSeconds": 30 }), Some("unready"))).await;
    pass(Duration::from_secs(20)).await;
    assert_eq!(cluster.get(&format!("{JOBS}/long")).await["status"]["active"], 1);
    pass(Duration::from_secs(20)).await;
    let failed = cluster.get(&format!("{JOBS}/long")).await;
    assert_eq!(failed["status"]["conditions"][0]["reason"], "DeadlineExceeded");
    assert!(cluster.names(PODS).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let cluster = Played::by(StandIns::ALL);
    let path = format!("{JOBS}/sum");
    cluster.create(JOBS, &job("sum", &json!({ "suspend": true }), None)).await;
    settle().await;
    let suspended = cluster.get(&path).await;
    assert!(holds(&suspended, "Suspended") && suspended["status"]["startTime"].is_null(), "{suspended}");
    assert!(cluster.names(PODS).await.is_empty());
    cluster.change(&path, &json!({ "spec": { "suspend": false } })).await;
    settle().await;
    let done = cluster.get(&path).await;
    assert!(holds(&done, "Complete") && !holds(&done, "Suspended"), "{done}");
}

#[tokio::test(start_paused = true)]
async fn a_service_has_the_addresses_of_its_ready_pods() {
    let cluster = Played::by(StandIns::ALL);
    let services = "/api/v1/namespaces/default/services";
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let service = json!({
        "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] },
    });
    cluster.create(services, &service).await;
    cluster.create(DEPLOYMENTS, &deployment("web")).await;
    settle().await;
    let found = cluster.items(slices).await;
    let [slice] = found.as_slice() else { panic!("one slice: {found:?}") };
    assert!(slice["metadata"]["name"].as_str().expect("a name").starts_with("web-"), "{slice}");
    let addresses = slice["endpoints"].as_array().expect("endpoints");
    assert_eq!(addresses.len(), 2);
    assert!(addresses.iter().all(|endpoint| endpoint["conditions"]["ready"] == true), "{slice}");
    let endpoints = cluster.get("/api/v1/namespaces/default/endpoints/web").await;
    assert_eq!(endpoints["subsets"][0]["addresses"].as_array().map(Vec::len), Some(2));
    cluster.send("DELETE", &format!("{services}/web"), None).await;
    settle().await;
    assert!(cluster.names(slices).await.is_empty());
    assert_eq!(cluster.get("/api/v1/namespaces/default/endpoints/web").await["code"], 404);
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_is_valid_while_it_and_its_service_account_exist() {
    let cluster = Played::by(StandIns::ALL);
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = json!({
        "metadata": { "name": "robot", "annotations": { "kubernetes.io/service-account.name": "default" } },
        "type": "kubernetes.io/service-account-token",
    });
    settle().await;
    cluster.create(secrets, &secret).await;
    settle().await;
    let filled = cluster.get(&format!("{secrets}/robot")).await;
    let token = filled["data"]["token"].as_str().expect("a token");
    let token = BASE64_STANDARD.decode(token).expect("data is base64");
    let review = json!({ "spec": { "token": String::from_utf8(token).expect("text") } });
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = cluster.create(reviews, &review).await;
    assert_eq!(answer["status"]["user"]["username"], "system:serviceaccount:default:default");
    cluster.send("DELETE", "/api/v1/namespaces/default/serviceaccounts/default", None).await;
    settle().await;
    assert_eq!(cluster.get(&format!("{secrets}/robot")).await["code"], 404);
    assert_eq!(cluster.create(reviews, &review).await["status"]["user"]["username"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_allows_evictions_while_enough_pods_remain() {
    let cluster = Played::by(StandIns::ALL);
    cluster.create(DEPLOYMENTS, &deployment("web")).await;
    let selector = json!({ "matchLabels": { "app": "web" } });
    let budget = json!({ "metadata": { "name": "web" }, "spec": { "maxUnavailable": 1, "selector": selector } });
    cluster.create(BUDGETS, &budget).await;
    settle().await;
    let status = cluster.get(&format!("{BUDGETS}/web")).await["status"].clone();
    let counts = ["expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed"];
    assert_eq!(counts.map(|count| status[count].clone()), [2, 2, 1, 1].map(|count| json!(count)));

    let pods = cluster.names(PODS).await;
    let evict = async |name: &str| {
        let eviction = json!({ "metadata": { "name": name } });
        cluster.send("POST", &format!("{PODS}/{name}/eviction"), Some(&eviction)).await.0
    };
    assert_eq!(evict(&pods[0]).await, StatusCode::CREATED);
    assert_eq!(evict(&pods[1]).await, StatusCode::TOO_MANY_REQUESTS);
    settle().await;
    let status = cluster.get(&format!("{BUDGETS}/web")).await["status"].clone();
    assert_eq!(counts.map(|count| status[count].clone()), [2, 2, 1, 1].map(|count| json!(count)), "{status}");
}
