//! Admission policies on a server. The meaning of their expressions is tested in `src/cel`.

mod support;

use hyper::StatusCode;
use serde_json::{Value, json};
use support::{CONFIG_MAPS, Cluster, MERGE, config_map};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn policy(validation: &Value) -> Value {
    let rule = json!({
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    });
    json!({
        "metadata": { "name": "short" },
        "spec": {
            "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
            "matchConstraints": { "resourceRules": [rule] },
            "validations": [validation],
        },
    })
}

fn binding() -> Value {
    json!({
        "metadata": { "name": "everywhere" },
        "spec": {
            "policyName": "short",
            "paramRef": { "name": "limits", "parameterNotFoundAction": "Deny" },
            // The policy does not apply to its own parameters.
            "matchResources": {
                "objectSelector": { "matchExpressions": [{ "key": "limits", "operator": "DoesNotExist" }] },
            },
            "validationActions": ["Deny"],
        },
    })
}

#[tokio::test]
async fn a_bound_policy_judges_writes_by_its_parameters() {
    let cluster = Cluster::quiet().await;
    let validation = json!({
        "expression": "request.operation == 'DELETE' || size(object.data.a) <= int(params.data.most)",
        "messageExpression": "'at most ' + params.data.most",
    });
    let made = cluster.post(POLICIES, &policy(&validation)).await.expect(StatusCode::CREATED);
    assert_eq!(made["spec"]["failurePolicy"], "Fail");
    assert_eq!(made["spec"]["matchConstraints"]["matchPolicy"], "Equivalent");
    cluster.post(CONFIG_MAPS, &config_map("free")).await.expect(StatusCode::CREATED);

    cluster.post(BINDINGS, &binding()).await.expect(StatusCode::CREATED);
    let denied = |rest: &str| {
        let by = "ValidatingAdmissionPolicy 'short' with binding 'everywhere' denied request";
        format!("configmaps \"it\" is forbidden: {by}: {rest}")
    };
    let message = cluster.post(CONFIG_MAPS, &config_map("it")).await.refused(422, "Invalid");
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert_eq!(message, denied(missing));

    let mut limits = config_map("limits");
    limits["data"] = json!({ "most": "3" });
    limits["metadata"]["labels"] = json!({ "limits": "true" });
    cluster.post(CONFIG_MAPS, &limits).await.expect(StatusCode::CREATED);
    cluster.post(CONFIG_MAPS, &config_map("it")).await.expect(StatusCode::CREATED);
    let path = format!("{CONFIG_MAPS}/it");
    let change = cluster.patch(&path, MERGE, &json!({ "data": { "a": "long" } })).await;
    assert_eq!(change.refused(422, "Invalid"), denied("at most 3"));
    cluster.delete(&path).await.expect(StatusCode::OK);

    cluster.delete(&format!("{BINDINGS}/everywhere")).await.expect(StatusCode::OK);
    let mut long = config_map("it");
    long["data"]["a"] = json!("long");
    cluster.post(CONFIG_MAPS, &long).await.expect(StatusCode::CREATED);
}

#[tokio::test]
async fn a_policy_whose_expressions_do_not_compile_is_refused() {
    let cluster = Cluster::quiet().await;
    let message = |expression: &str| policy(&json!({ "expression": expression }));
    let answer = cluster.post(POLICIES, &message("authorizer.path('/x').check('get').allowed()")).await;
    let why = answer.refused(422, "Invalid");
    assert!(why.contains("spec.validations[0].expression: Invalid value"), "{why}");
    assert!(why.contains("undeclared reference to 'authorizer'"), "{why}");
    let why = cluster.post(POLICIES, &message("1 + 1")).await.refused(422, "Invalid");
    assert!(why.contains("must evaluate to bool"), "{why}");

    let mut both = binding();
    both["spec"]["validationActions"] = json!(["Deny", "Warn"]);
    let why = cluster.post(BINDINGS, &both).await.refused(422, "Invalid");
    assert!(why.contains("must not contain both Deny and Warn"), "{why}");
}
