//! Tests the reviews of a token and of its user's access to a path: the requests and their answers.

use serde_json::{Value, json};
use windlass_kube::{TokenUser, may_access, whose_token};

use crate::definitions::role;
use crate::script::{Reply, Script};

fn answering(code: u16, answer: Value) -> Script {
    Script::default().mutations([Reply::Json(code, answer)])
}

fn prometheus() -> Value {
    json!({
        "username": "system:serviceaccount:monitoring:prometheus", "uid": "1", "groups": ["system:authenticated"],
        "extra": {"authentication.kubernetes.io/pod-name": ["prometheus-0"]},
    })
}

#[tokio::test]
async fn a_token_is_reviewed_and_its_users_access_is_asked_with_all_details() {
    let script = answering(201, json!({"status": {"authenticated": true, "user": prometheus()}}));
    let user = whose_token(&script.client(), &role(), "a-token").await.expect("an answer").expect("it is known");
    assert_eq!(user.username, "system:serviceaccount:monitoring:prometheus");
    let [asked] = &script.asked()[..] else { panic!("one request") };
    assert_eq!(asked.path, "/apis/authentication.k8s.io/v1/tokenreviews");
    assert_eq!(asked.json()["spec"], json!({"token": "a-token"}));

    let script = answering(201, json!({"status": {"allowed": true}}));
    assert!(may_access(&script.client(), &role(), &user, "post", "/plugins/shop/resume").await.expect("an answer"));
    let [asked] = &script.asked()[..] else { panic!("one request") };
    assert_eq!(asked.path, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
    let user = prometheus();
    let expected = json!({
        "user": user["username"], "uid": "1", "groups": user["groups"], "extra": user["extra"],
        "nonResourceAttributes": {"path": "/plugins/shop/resume", "verb": "post"},
    });
    assert_eq!(asked.json()["spec"], expected);
}

#[tokio::test]
async fn only_a_clear_yes_is_one() {
    let unknown = json!({"status": {"user": {}, "error": "[invalid bearer token, unknown]"}});
    for answer in [unknown, json!({"status": {}}), json!({})] {
        let whose = whose_token(&answering(201, answer).client(), &role(), "a").await.expect("an answer");
        assert_eq!(whose, None);
    }
    let missing_role = json!({"status": {"allowed": false, "evaluationError": "clusterrole \"a\" not found"}});
    for answer in [missing_role, json!({"status": {"allowed": false, "denied": true}}), json!({})] {
        let may = may_access(&answering(201, answer).client(), &role(), &TokenUser::default(), "get", "/metrics").await;
        assert!(!may.expect("an answer"));
    }
}

#[tokio::test]
async fn a_host_that_may_not_review_tokens_names_the_missing_role() {
    let refusal = json!({"kind": "Status", "message": "tokenreviews is forbidden", "reason": "Forbidden", "code": 403});
    let error = whose_token(&answering(403, refusal).client(), &role(), "a-token").await.expect_err("refused");
    let message = error.to_string();
    assert!(message.contains("TokenReview") && message.contains("windlass rbac --admin-auth token"), "{message}");
    assert!(!message.contains("a-token"), "{message}");
}
