//! Definitions: the names that they may use, and the approval that the Kubernetes project's groups require.

mod support;

use http::StatusCode;
use serde_json::{Value, json};

use support::{Cluster, MERGE};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(group: &str, names: &Value) -> Value {
    let plural = names["plural"].as_str().expect("a plural");
    json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    })
}

fn approved(group: &str, names: &Value, by: &str) -> Value {
    let mut definition = definition(group, names);
    definition["metadata"]["annotations"] = json!({ "api-approved.kubernetes.io": by });
    definition
}

/// The status, reason and message of a condition.
fn condition(definition: &Value, kind: &str) -> Value {
    let conditions = definition["status"]["conditions"].as_array().expect("conditions");
    let found = conditions.iter().find(|condition| condition["type"] == kind).expect("the condition");
    json!([found["status"], found["reason"], found["message"]])
}

#[tokio::test]
async fn a_definition_waits_for_a_name_that_another_one_uses() {
    let cluster = Cluster::quiet().await;
    let group = "example.com";
    let first = definition(group, &json!({ "plural": "apples", "kind": "Apple", "shortNames": ["a"] }));
    cluster.post(DEFINITIONS, &first).await.expect(StatusCode::CREATED);
    let second = definition(group, &json!({ "plural": "pears", "kind": "Apple", "listKind": "PearList" }));
    let waiting = cluster.post(DEFINITIONS, &second).await.expect(StatusCode::CREATED);
    let waiting =
        cluster.get(&format!("{DEFINITIONS}/{}", waiting["metadata"]["name"].as_str().expect("a name"))).await;
    let waiting = waiting.expect(StatusCode::OK);
    assert_eq!(condition(&waiting, "NamesAccepted"), json!(["False", "KindConflict", "\"Apple\" is already in use"]));
    assert_eq!(condition(&waiting, "Established"), json!(["False", "NotAccepted", "not all names are accepted"]));
    // The default singular is the kind in lower case, so it is in use too.
    let accepted = json!({ "plural": "pears", "kind": "", "listKind": "PearList" });
    assert_eq!(waiting["status"]["acceptedNames"], accepted);
    assert_eq!(cluster.get("/apis/example.com/v1/pears").await.code, StatusCode::NOT_FOUND);

    let version = support::version_of(&waiting).to_owned();
    cluster.delete(&format!("{DEFINITIONS}/apples.{group}")).await.expect(StatusCode::OK);
    let name = format!("pears.{group}");
    let path = format!("{DEFINITIONS}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
    let (_, established) = cluster.watch(&path).await.next().await.expect("the watch goes on");
    assert_eq!(condition(&established, "NamesAccepted"), json!(["True", "NoConflicts", "no conflicts found"]));
    assert_eq!(condition(&established, "Established")[0], "True");
    cluster.get("/apis/example.com/v1/pears").await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_served_definition_keeps_its_accepted_names() {
    let cluster = Cluster::quiet().await;
    let group = "example.com";
    for (plural, kind) in [("apples", "Apple"), ("pears", "Pear")] {
        let names = json!({ "plural": plural, "kind": kind, "shortNames": [kind.to_lowercase()[..2].to_owned()] });
        cluster.post(DEFINITIONS, &definition(group, &names)).await.expect(StatusCode::CREATED);
    }
    let change = json!({ "spec": { "names": { "shortNames": ["ap"] } } });
    let changed = cluster.patch(&format!("{DEFINITIONS}/pears.{group}"), MERGE, &change).await.expect(StatusCode::OK);
    assert_eq!(condition(&changed, "NamesAccepted")[1], "ShortNamesConflict");
    assert_eq!(condition(&changed, "Established")[0], "True");
    assert_eq!(changed["status"]["acceptedNames"]["shortNames"], json!(["pe"]));
    let resources = cluster.get("/apis/example.com/v1").await.expect(StatusCode::OK);
    let pears = resources["resources"].as_array().expect("resources").iter().find(|it| it["name"] == "pears");
    assert_eq!(pears.expect("pears")["shortNames"], json!(["pe"]));
}

#[tokio::test]
async fn a_definition_takes_nothing_from_a_built_in_kind() {
    let cluster = Cluster::quiet().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    cluster.post(roles, &json!({ "metadata": { "name": "r" } })).await.expect(StatusCode::CREATED);
    let names = json!({ "plural": "clusterroles", "kind": "Odd" });
    let group = "rbac.authorization.k8s.io";
    let odd = approved(group, &names, "unapproved, an attack");
    cluster.post(DEFINITIONS, &odd).await.expect(StatusCode::CREATED);
    let path = format!("{DEFINITIONS}/clusterroles.{group}");
    let stored = cluster.get(&path).await.expect(StatusCode::OK);
    assert_eq!(condition(&stored, "NamesAccepted")[1], "PluralConflict");
    let kept = cluster.get(&format!("{roles}/r")).await.expect(StatusCode::OK);
    assert_eq!(kept["kind"], "ClusterRole");
    // The deletion of the definition does not delete the roles either.
    cluster.delete(&path).await.expect(StatusCode::OK);
    cluster.wait_gone(DEFINITIONS, &format!("clusterroles.{group}")).await;
    cluster.get(&format!("{roles}/r")).await.expect(StatusCode::OK);
}

#[tokio::test]
async fn a_protected_group_requires_an_approval_annotation() {
    let cluster = Cluster::quiet().await;
    let names = json!({ "plural": "apples", "kind": "Apple" });
    let group = "fruit.k8s.io";
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    let refused = cluster.post(DEFINITIONS, &definition(group, &names)).await.refused(422, "Invalid");
    let expected = format!(
        "{field}: Required value: protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
         https://github.com/kubernetes/enhancements/pull/1111"
    );
    assert!(refused.ends_with(&expected), "{refused}");
    let refused = cluster.post(DEFINITIONS, &approved(group, &names, "yes")).await.refused(422, "Invalid");
    assert!(refused.contains(&format!("{field}: Invalid value: \"yes\": protected groups must have")), "{refused}");

    cluster.post(DEFINITIONS, &approved(group, &names, "https://example.com/1")).await.expect(StatusCode::CREATED);
    let path = format!("{DEFINITIONS}/apples.{group}");
    let kind = "KubernetesAPIApprovalPolicyConformant";
    let stored = cluster.get(&path).await.expect(StatusCode::OK);
    let expected = json!(["True", "ApprovedAnnotation", "approved in https://example.com/1"]);
    assert_eq!(condition(&stored, kind), expected);
    let change = json!({ "metadata": { "annotations": { "api-approved.kubernetes.io": "unapproved, a try" } } });
    let changed = cluster.patch(&path, MERGE, &change).await.expect(StatusCode::OK);
    let expected = json!(["False", "UnapprovedAnnotation", "not approved: \"unapproved, a try\""]);
    assert_eq!(condition(&changed, kind), expected);
}
