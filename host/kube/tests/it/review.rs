//! Tests which watches a service account may have, with both kinds of server. The embedded server has no RBAC, but
//! reads an annotation.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use windlass_core::object::ObjectKind;
use windlass_core::rights::principal::ServiceAccount;
use windlass_core::write::{Operation, PatchType, WriteOptions};
use windlass_kube::{Discovery, ReviewError, ReviewVerdict, may_watch};

use crate::cluster::{Cluster, cluster, config_maps, create};
use crate::definitions::role;
use crate::script::{Reply, Script};

impl Cluster {
    fn account(&self) -> ServiceAccount {
        ServiceAccount { namespace: self.namespace.clone(), name: "watcher".into() }
    }

    async fn may_watch(&self, kind: ObjectKind, namespace: Option<&str>) -> ReviewVerdict {
        let resource = self.discovery.resolve(&kind).await.expect("served");
        let asked = may_watch(&self.connection.client, &role(), Some(&self.account()), &resource, namespace).await;
        asked.expect("a verdict")
    }

    /// Lets the account watch config maps in the test's namespace, and nothing else.
    async fn grant(&self) {
        let deny = self.server.is_some().then_some("secrets,deployments.apps");
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "watcher", "annotations": {"windlass.dev/deny": deny}},
        });
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "watcher"}, "rules": rules,
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "watcher"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "watcher"},
            "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": &*self.namespace}],
        });
        for object in [account, role, binding] {
            self.write(create(&object)).await.expect("created");
        }
    }
}

fn is_denied(verdict: &ReviewVerdict) -> bool {
    matches!(verdict, ReviewVerdict::Denied { verb: "list", .. })
}

#[tokio::test]
async fn an_account_may_watch_exactly_the_granted_kinds() {
    let cluster = cluster().await;
    cluster.grant().await;
    let here = Some(&*cluster.namespace);
    assert_eq!(cluster.may_watch(config_maps(), here).await, ReviewVerdict::Allowed);
    assert!(is_denied(&cluster.may_watch(ObjectKind::new("v1", "Secret"), here).await));
    assert!(is_denied(&cluster.may_watch(ObjectKind::new("apps/v1", "Deployment"), here).await));
    if cluster.server.is_none() {
        // The Role is limited to its namespace, which the embedded server does not check.
        assert!(is_denied(&cluster.may_watch(config_maps(), None).await));
        assert!(is_denied(&cluster.may_watch(config_maps(), Some("default")).await));
    }
}

#[tokio::test]
async fn a_grant_that_is_taken_back_is_denied_at_the_next_review() {
    let cluster = cluster().await;
    cluster.grant().await;
    let here = Some(&*cluster.namespace);
    assert_eq!(cluster.may_watch(config_maps(), here).await, ReviewVerdict::Allowed);
    let target = |api_version, kind| windlass_core::object::ObjectRef {
        kind: ObjectKind::new(api_version, kind),
        ..cluster.target("watcher", None)
    };
    let merge = |target, patch: Value| Operation::Patch {
        target,
        patch_type: PatchType::Merge,
        patch: patch.to_string(),
        options: WriteOptions::default(),
    };
    let none = json!({"rules": []});
    cluster.write(merge(target("rbac.authorization.k8s.io/v1", "Role"), none)).await.expect("patched");
    let deny = json!({"metadata": {"annotations": {"windlass.dev/deny": "*"}}});
    cluster.write(merge(target("v1", "ServiceAccount"), deny)).await.expect("patched");
    // The real server's authorizer has its own cache.
    let denied = async {
        while !is_denied(&cluster.may_watch(config_maps(), here).await) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(30), denied).await.expect("denied, once its cache has seen the change");
}

#[tokio::test(start_paused = true)]
async fn the_host_asks_about_its_own_rights_without_naming_an_account() {
    let script = Script::default().mutations([Reply::Json(201, json!({"status": {"allowed": false}}))]);
    let client = script.client();
    let resource = Discovery::new(client.clone()).resolve(&config_maps()).await.expect("served");
    assert!(is_denied(&may_watch(&client, &role(), None, &resource, None).await.expect("answered")));
    let asked = script.mutations_asked();
    assert_eq!(asked[0].path, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
    let attributes = json!({"group": "", "version": "v1", "resource": "configmaps", "verb": "list", "namespace": ""});
    assert_eq!(asked[0].json()["spec"], json!({"resourceAttributes": attributes}));
}

#[tokio::test(start_paused = true)]
async fn an_undecided_review_is_an_error_and_not_a_denial() {
    let answers = [
        json!({"status": {"allowed": false, "evaluationError": "the webhook timed out"}}),
        json!({"status": {"allowed": false, "denied": true, "evaluationError": "the webhook timed out"}}),
        json!({"kind": "Status"}),
    ];
    let script = Script::default().mutations(answers.map(|answer| Reply::Json(201, answer)));
    let client = script.client();
    let resource = Discovery::new(client.clone()).resolve(&config_maps()).await.expect("served");
    let account = ServiceAccount { namespace: "prod".into(), name: "watcher".into() };
    let ask = async || may_watch(&client, &role(), Some(&account), &resource, Some("prod")).await;
    let error = ask().await.expect_err("undecided");
    assert!(matches!(&error, ReviewError::Undecided { .. }) && error.to_string().contains("webhook"), "{error}");
    assert!(is_denied(&ask().await.expect("one denies it")));
    assert!(matches!(ask().await, Err(ReviewError::Malformed { .. })));
    let asked = script.mutations_asked();
    assert_eq!(
        (&asked[0].method, &*asked[0].path),
        (&Method::POST, "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    );
    let spec = &asked[0].json()["spec"];
    assert_eq!(spec["user"], "system:serviceaccount:prod:watcher");
    assert_eq!(spec["groups"][1], "system:serviceaccounts:prod");
    let attributes =
        json!({"group": "", "version": "v1", "resource": "configmaps", "verb": "list", "namespace": "prod"});
    assert_eq!(spec["resourceAttributes"], attributes);
}
