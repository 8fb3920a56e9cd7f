//! Tests which webhooks are called, in which order, and the effect of their answers. The webhooks here are functions;
//! `tests/webhooks.rs` calls real webhooks.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::review::WebhookAnswer;
use super::*;
use crate::clock::Chance;
use crate::consultation::{Consultation, WebhookReplies, WebhookReply};
use crate::resources::registry::Registry;
use crate::resources::resource::GroupResource;
use crate::status_error::ApiError;
use crate::warnings::Warnings;

/// A request to the server, in the namespace `d`.
struct Write {
    operation: WriteOperation,
    resource: (&'static str, &'static str, &'static str),
    subresource: &'static str,
    old: Option<Value>,
    labels_of_namespace: Value,
    warnings: Warnings,
    /// The possible parameters of a policy.
    params: Vec<Arc<Value>>,
}

impl Write {
    fn create(resource: (&'static str, &'static str, &'static str)) -> Write {
        Write {
            operation: WriteOperation::Create,
            resource,
            subresource: "",
            old: None,
            labels_of_namespace: json!({}),
            warnings: Warnings::default(),
            params: Vec::new(),
        }
    }

    fn with<T>(&self, act: impl FnOnce(&AdmissionRequest<'_>) -> T) -> T {
        let registry = Registry::new();
        let (group, version, plural) = self.resource;
        let resource = registry.find(group, version, plural).expect("a built-in resource");
        act(&AdmissionRequest {
            operation: self.operation,
            resource,
            subresource: self.subresource,
            namespace: if resource.namespaced { "d" } else { "" },
            name: "x",
            old: self.old.as_ref(),
            options: json!({}),
            dry_run: false,
            warnings: &self.warnings,
            namespace_object: Some(Arc::new(
                json!({ "metadata": { "name": "d", "labels": self.labels_of_namespace } }),
            )),
            registry: &registry,
            list: &|_, _| self.params.clone(),
        })
    }
}

const CONFIG_MAPS: (&str, &str, &str) = ("", "v1", "configmaps");

fn plugins(kind: &str, webhooks: &Value) -> AdmissionPlugins {
    let mut plugins = AdmissionPlugins::default();
    let configuration = json!({ "metadata": { "name": "c", "resourceVersion": "1" }, "webhooks": webhooks });
    plugins.define(&GroupResource::new("admissionregistration.k8s.io", kind), &configuration);
    plugins
}

fn webhook(name: &str, rule: &Value, more: &Value) -> Value {
    let mut webhook =
        json!({ "name": name, "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"] });
    for (key, value) in more.as_object().expect("a map") {
        webhook[key] = value.clone();
    }
    webhook
}

fn everything() -> Value {
    json!({ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"] })
}

/// Runs mutating admission, with `respond` in place of all webhooks. Returns the result, and the webhooks that were
/// asked.
fn mutated(
    plugins: &AdmissionPlugins,
    write: &Write,
    object: &mut Value,
    respond: impl Fn(&Value) -> Value,
) -> (Result<Vec<String>, ApiError>, Vec<String>) {
    let (mut replies, mut asked) = (WebhookReplies::new(), Vec::new());
    loop {
        let consultation = Consultation::of_client(json!({ "username": "jane" }), replies.clone());
        write.warnings.clear();
        let mut tried = object.clone();
        let mut chance = Chance::new(Some(1));
        let outcome =
            write.with(|request| mutate(plugins, request, &consultation, &mut chance, Some(&mut tried), &|_| Ok(())));
        let Some(questions) = consultation.outstanding() else {
            *object = tried;
            return (outcome.map(|_| write.warnings.list()), asked);
        };
        for question in questions {
            let review: Value = serde_json::from_str(&question.body).expect("JSON");
            asked.push(question.key.webhook.clone());
            let mut response = respond(&review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            let answer =
                json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
            let reply = WebhookReply { uid: question.uid.clone(), body: Ok(answer.to_string().into()) };
            replies.insert(question.key.clone(), reply);
        }
    }
}

/// Whether a webhook with this rule is asked about the write.
fn is_asked(write: &Write, rule: &Value, more: &Value) -> bool {
    let plugins = plugins("mutatingwebhookconfigurations", &json!([webhook("w", rule, more)]));
    let mut object = json!({ "kind": "ConfigMap", "metadata": { "labels": { "a": "b" } }, "data": { "n": "1" } });
    let (outcome, asked) = mutated(&plugins, write, &mut object, |_| json!({ "allowed": true }));
    assert!(outcome.is_ok(), "{outcome:?}");
    !asked.is_empty()
}

fn patch(operations: &Value) -> Value {
    let patch = BASE64_STANDARD.encode(operations.to_string());
    json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch })
}

#[test]
fn a_patch_is_applied_like_a_clients_patch() {
    let usual =
        json!({ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] });
    let plugins = plugins("mutatingwebhookconfigurations", &json!([webhook("w", &usual, &json!({}))]));
    let outcome_of = |operations: Value| {
        let mut object = json!({ "kind": "ConfigMap", "metadata": {}, "data": { "n": "1" }, "list": [1, 2] });
        let (outcome, _) = mutated(&plugins, &Write::create(CONFIG_MAPS), &mut object, |_| patch(&operations));
        (outcome.is_ok(), object)
    };
    // RFC 6902 forbids these operations, but a real server accepts them.
    let (is_fine, object) = outcome_of(json!([
        { "op": "test", "path": "/data/none", "value": null },
        { "op": "replace", "path": "/data/new", "value": "2" },
        { "op": "replace", "path": "/list/-1", "value": 3 },
    ]));
    assert!(is_fine, "{object}");
    assert_eq!((&object["data"], &object["list"]), (&json!({ "n": "1", "new": "2" }), &json!([1, 3])));
    for odd in [json!([{ "op": "remove", "path": "/data/none" }]), json!({}), json!([1])] {
        assert!(!outcome_of(odd.clone()).0, "{odd}");
    }
}

#[test]
fn all_parts_of_a_rule_must_match() {
    let usual =
        json!({ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] });
    let write = Write::create(CONFIG_MAPS);
    assert!(is_asked(&write, &usual, &json!({})));
    for (key, value) in [
        ("operations", json!(["UPDATE", "DELETE"])),
        ("apiGroups", json!(["apps"])),
        ("apiVersions", json!(["v2"])),
        ("resources", json!(["secrets", "configmaps/status"])),
        ("scope", json!("Cluster")),
    ] {
        let mut rule = usual.clone();
        rule[key] = value;
        assert!(!is_asked(&write, &rule, &json!({})), "{rule}");
    }
    let mut rule = everything();
    rule["scope"] = json!("Namespaced");
    assert!(is_asked(&write, &rule, &json!({})));
}

#[test]
fn subresources_are_named() {
    let write = Write { subresource: "scale", ..Write::create(("apps", "v1", "deployments")) };
    for (resource, expected) in
        [("deployments", false), ("*", false), ("deployments/scale", true), ("*/scale", true), ("*/*", true)]
    {
        let mut rule = everything();
        rule["resources"] = json!([resource]);
        assert_eq!(is_asked(&write, &rule, &json!({})), expected, "{resource}");
    }
}

#[test]
fn a_rule_matches_other_versions_unless_the_match_is_exact() {
    let write = Write::create(("autoscaling", "v1", "horizontalpodautoscalers"));
    let mut rule = everything();
    rule["apiVersions"] = json!(["v2"]);
    assert!(is_asked(&write, &rule, &json!({})));
    assert!(!is_asked(&write, &rule, &json!({ "matchPolicy": "Exact" })));
}

#[test]
fn selectors_use_the_labels_of_object_and_namespace() {
    let write = Write { labels_of_namespace: json!({ "env": "prod" }), ..Write::create(CONFIG_MAPS) };
    let asked = |more: Value| is_asked(&write, &everything(), &more);
    assert!(asked(json!({ "objectSelector": { "matchLabels": { "a": "b" } } })));
    assert!(!asked(json!({ "objectSelector": { "matchLabels": { "a": "c" } } })));
    assert!(asked(json!({ "namespaceSelector": { "matchLabels": { "env": "prod" } } })));
    assert!(!asked(json!({ "namespaceSelector": { "matchLabels": { "env": "test" } } })));
    // The old object may match instead of the new one.
    let old = Some(json!({ "metadata": { "name": "x", "labels": { "a": "c" } } }));
    let update = Write { operation: WriteOperation::Update, old, ..write };
    assert!(is_asked(&update, &everything(), &json!({ "objectSelector": { "matchLabels": { "a": "c" } } })));
}

#[test]
fn namespace_selectors_match_a_new_namespace_itself_and_every_node() {
    let selector = json!({ "namespaceSelector": { "matchLabels": { "a": "b" } } });
    assert!(is_asked(&Write::create(("", "v1", "namespaces")), &everything(), &selector));
    assert!(is_asked(&Write::create(("", "v1", "nodes")), &everything(), &selector));
}

#[test]
fn match_conditions_see_object_and_request() {
    let asked = |expression: &str| {
        let conditions = json!({ "matchConditions": [{ "name": "c", "expression": expression }] });
        is_asked(&Write::create(CONFIG_MAPS), &everything(), &conditions)
    };
    assert!(asked("object.data.n == '1' && oldObject == null && request.operation == 'CREATE'"));
    assert!(asked("request.userInfo.username == 'jane' && request.resource.resource == 'configmaps'"));
    assert!(!asked("object.metadata.labels.a == 'c'"));
}

#[test]
fn the_failure_policy_decides_about_failed_conditions() {
    let more = |policy: &str| json!({ "matchConditions": [{ "name": "c", "expression": "object.x == 1" }], "failurePolicy": policy });
    assert!(!is_asked(&Write::create(CONFIG_MAPS), &everything(), &more("Ignore")));
    let plugins = plugins("mutatingwebhookconfigurations", &json!([webhook("w", &everything(), &more("Fail"))]));
    let (outcome, _) =
        mutated(&plugins, &Write::create(CONFIG_MAPS), &mut json!({ "kind": "ConfigMap" }), |_| json!({}));
    let why = outcome.expect_err("it fails").to_string();
    assert_eq!(why, "configmaps \"x\" is forbidden: expression 'object.x == 1' resulted in error: no such key: x");
}

#[test]
fn a_webhook_sees_the_changes_of_earlier_webhooks() {
    let both = json!([webhook("first", &everything(), &json!({})), webhook("second", &everything(), &json!({}))]);
    let plugins = plugins("mutatingwebhookconfigurations", &both);
    let mut object = json!({ "kind": "ConfigMap", "metadata": {}, "data": { "n": "" } });
    let (outcome, _) = mutated(&plugins, &Write::create(CONFIG_MAPS), &mut object, |request| {
        let seen = request["object"]["data"]["n"].as_str().expect("text");
        let mut response = patch(&json!([{ "op": "replace", "path": "/data/n", "value": format!("{seen}+") }]));
        response["warnings"] = json!([format!("saw {seen:?}")]);
        response
    });
    assert_eq!(object["data"]["n"], "++");
    assert_eq!(outcome.expect("it is admitted"), ["saw \"\"", "saw \"+\""]);
}

#[test]
fn a_webhook_is_asked_again_only_if_a_later_one_changed_the_object() {
    let again = json!({ "reinvocationPolicy": "IfNeeded" });
    let all = json!([
        webhook("never", &everything(), &json!({})),
        webhook("again", &everything(), &again),
        webhook("changes", &everything(), &again),
    ]);
    let plugins = plugins("mutatingwebhookconfigurations", &all);
    let mut object = json!({ "kind": "ConfigMap", "metadata": {} });
    let (outcome, asked) = mutated(&plugins, &Write::create(CONFIG_MAPS), &mut object, |request| {
        // The last webhook is not called again because of its own change.
        let is_first_sight = request["object"].get("data").is_none();
        if is_first_sight {
            patch(&json!([{ "op": "add", "path": "/data", "value": {} }]))
        } else {
            json!({ "allowed": true })
        }
    });
    assert!(outcome.is_ok(), "{outcome:?}");
    // The first webhook changes the object before the others are asked for the first time.
    assert_eq!(asked, ["mutating/c/0/1", "mutating/c/1/1", "mutating/c/2/1"]);

    let mut object = json!({ "kind": "ConfigMap", "metadata": {}, "data": { "n": "" } });
    let (_, asked) = mutated(&plugins, &Write::create(CONFIG_MAPS), &mut object, |request| {
        let seen = request["object"]["data"]["n"].as_str().expect("text");
        patch(&json!([{ "op": "replace", "path": "/data/n", "value": format!("{seen}+") }]))
    });
    assert_eq!(asked, ["mutating/c/0/1", "mutating/c/1/1", "mutating/c/2/1", "mutating/c/1/1", "mutating/c/2/1"]);
    assert_eq!(object["data"]["n"], "+++++");
}

#[test]
fn a_denial_carries_the_webhooks_message() {
    let plugins = plugins("mutatingwebhookconfigurations", &json!([webhook("w", &everything(), &json!({}))]));
    let denied = |status: Value| {
        let respond = |_: &Value| json!({ "allowed": false, "status": status, "warnings": ["mind this"] });
        let write = Write::create(CONFIG_MAPS);
        let outcome = mutated(&plugins, &write, &mut json!({ "kind": "ConfigMap" }), respond).0;
        let error = outcome.expect_err("it is denied");
        assert_eq!(write.warnings.list(), ["mind this"]);
        (error.code().as_u16(), error.to_string())
    };
    let text = |rest: &str| format!("admission webhook \"w\" denied the request{rest}");
    assert_eq!(denied(json!(null)), (400, text(" without explanation")));
    assert_eq!(denied(json!({ "code": 200, "reason": "Forbidden" })), (400, text(": Forbidden")));
    assert_eq!(denied(json!({ "code": 403, "reason": "Forbidden", "message": "no" })), (403, text(": no")));
}

#[test]
fn a_response_must_have_the_uid_and_type_of_the_question() {
    let why =
        |answer: Value| WebhookAnswer::read("v1", false, "u", answer.to_string().as_bytes()).expect_err("it is none");
    let review = |response: Value| json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response });
    let invalid = "received invalid webhook response: ";
    assert_eq!(why(review(json!(null))), format!("{invalid}webhook response was absent"));
    assert_eq!(why(review(json!({ "uid": "x" }))), format!("{invalid}expected response.uid=\"u\", got \"x\""));
    let with_patch = review(json!({ "uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch" }));
    assert_eq!(why(with_patch), format!("{invalid}validating webhook may not return response.patch"));
    let mut old = review(json!({ "uid": "u", "allowed": true }));
    old["apiVersion"] = json!("v1");
    let expected =
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=AdmissionReview";
    assert_eq!(why(old), format!("{invalid}{expected}"));
    assert_eq!(why(json!({})), "failed to call webhook: Object 'Kind' is missing in '{}'");
}

const POLICIES: &str = "validatingadmissionpolicies";

/// Evaluates a policy about config maps for `object`. The policy has one binding, with the spec `binding`.
fn judged(policy: &Value, binding: &Value, write: &Write, object: &Value) -> Result<Vec<String>, ApiError> {
    let group = "admissionregistration.k8s.io";
    let mut plugins = AdmissionPlugins::default();
    let mut policy = json!({ "metadata": { "name": "p" }, "spec": policy });
    policy["spec"]["matchConstraints"] = json!({ "resourceRules": [everything()] });
    plugins.define(&GroupResource::new(group, POLICIES), &policy);
    let mut binding = json!({ "metadata": { "name": "b" }, "spec": binding });
    binding["spec"]["policyName"] = json!("p");
    plugins.define(&GroupResource::new(group, "validatingadmissionpolicybindings"), &binding);
    let consultation = Consultation::of_client(json!({ "username": "jane" }), WebhookReplies::new());
    let mut chance = Chance::new(Some(1));
    write.warnings.clear();
    write
        .with(|request| validate(&plugins, request, &consultation, &mut chance, Some(object)))
        .map(|()| write.warnings.list())
}

fn denial(policy: &Value, binding: &Value, write: &Write, object: &Value) -> String {
    judged(policy, binding, write, object).expect_err("it is denied").to_string()
}

fn denying() -> Value {
    json!({ "validationActions": ["Deny"] })
}

fn data(n: i64) -> Value {
    json!({ "kind": "ConfigMap", "metadata": {}, "data": { "n": n.to_string() }, "n": n })
}

#[test]
fn a_policy_denies_with_its_message_and_reason() {
    let write = Write::create(CONFIG_MAPS);
    let validation = |more: Value| {
        let mut validation = json!({ "expression": "object.n < 5" });
        validation.as_object_mut().expect("a map").append(&mut more.as_object().expect("a map").clone());
        json!({ "validations": [validation] })
    };
    assert_eq!(judged(&validation(json!({})), &denying(), &write, &data(4)), Ok(Vec::new()));
    let denied = "configmaps \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";
    for (more, why) in [
        (json!({}), "failed expression: object.n < 5"),
        (json!({ "message": "too many" }), "too many"),
        (json!({ "message": "too many", "messageExpression": "'has ' + string(object.n)" }), "has 7"),
        (json!({ "message": "too many", "messageExpression": "string(object.absent)" }), "too many"),
    ] {
        assert_eq!(denial(&validation(more), &denying(), &write, &data(7)), format!("{denied}{why}"));
    }
    let code = |more: Value| {
        judged(&validation(more), &denying(), &write, &data(7)).expect_err("it is denied").code().as_u16()
    };
    assert_eq!((code(json!({})), code(json!({ "reason": "Forbidden" }))), (422, 403));
}

#[test]
fn a_binding_may_warn_and_choose() {
    let policy = || json!({ "validations": [{ "expression": "object.n < 5" }] });
    let write = Write::create(CONFIG_MAPS);
    let warning =
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: object.n < 5";
    let warned = judged(&policy(), &json!({ "validationActions": ["Warn"] }), &write, &data(7));
    assert_eq!(warned, Ok(vec![warning.to_owned()]));
    let mut elsewhere = denying();
    elsewhere["matchResources"] = json!({ "namespaceSelector": { "matchLabels": { "env": "prod" } } });
    assert_eq!(judged(&policy(), &elsewhere, &write, &data(7)), Ok(Vec::new()));
}

#[test]
fn expressions_see_variables_and_the_namespace() {
    let write = Write { labels_of_namespace: json!({ "env": "prod" }), ..Write::create(CONFIG_MAPS) };
    let policy = json!({
        "variables": [
            { "name": "twice", "expression": "object.n * 2" },
            { "name": "four", "expression": "variables.twice * 2" },
            { "name": "broken", "expression": "object.absent" },
        ],
        "validations": [
            { "expression": "variables.four == 28 && namespaceObject.metadata.labels.env == 'prod'" },
            { "expression": "variables.broken == 1" },
        ],
    });
    let why = denial(&policy, &denying(), &write, &data(7));
    let expected = "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" fails to evaluate: \
                    no such key: absent";
    assert!(why.ends_with(expected), "{why}");
}

#[test]
fn the_failure_policy_decides_about_failed_expressions() {
    let policy = |more: &str| json!({ "validations": [{ "expression": "object.absent == 1" }], "failurePolicy": more });
    let write = Write::create(CONFIG_MAPS);
    let why = denial(&policy("Fail"), &denying(), &write, &data(7));
    assert!(why.ends_with("expression 'object.absent == 1' resulted in error: no such key: absent"), "{why}");
    assert_eq!(judged(&policy("Ignore"), &denying(), &write, &data(7)), Ok(Vec::new()));
}

#[test]
fn a_policy_is_evaluated_with_each_of_its_parameters() {
    let policy = || {
        json!({
            "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
            "matchConditions": [{ "name": "c", "expression": "params == null || params.metadata.name != 'skipped'" }],
            "validations": [{ "expression": "object.n < params.most", "messageExpression": "'most is ' + string(params.most)" }],
        })
    };
    let params = [("a", 9), ("b", 6), ("skipped", 1)];
    let params = params.map(|(name, most)| Arc::new(json!({ "metadata": { "name": name }, "most": most }))).to_vec();
    let write = Write { params, ..Write::create(CONFIG_MAPS) };
    let bound = |reference: Value| json!({ "validationActions": ["Deny"], "paramRef": reference });
    let judge =
        |reference: Value| judged(&policy(), &bound(reference), &write, &data(7)).map_err(|error| error.to_string());
    assert_eq!(judge(json!({ "name": "a" })), Ok(Vec::new()));
    assert_eq!(judge(json!({ "name": "skipped" })), Ok(Vec::new()));
    assert!(judge(json!({ "selector": {} })).expect_err("one denies").ends_with("most is 6"));
    assert_eq!(judge(json!({ "name": "none", "parameterNotFoundAction": "Allow" })), Ok(Vec::new()));
    let why = judge(json!({ "name": "none", "parameterNotFoundAction": "Deny" })).expect_err("it needs one");
    assert!(
        why.ends_with(
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
        ),
        "{why}"
    );
}

#[test]
fn expressions_of_a_policy_are_checked_when_it_is_created() {
    let spec = json!({
        "variables": [{ "name": "n", "expression": "1" }],
        "validations": [
            { "expression": "variables.n == 1" },
            { "expression": "variables.m == 1" },
            { "expression": "variables.n" },
            { "expression": "params.x" },
        ],
    });
    let errors: Vec<(String, String)> = check_policy(&spec).into_iter().map(|error| (error.field, error.why)).collect();
    let field = |index: usize| format!("validations[{index}].expression");
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].0 == field(1) && errors[0].1.contains("undefined field 'm'"), "{errors:?}");
    assert_eq!(errors[1], (field(2), "must evaluate to bool".to_owned()));
    assert!(errors[2].0 == field(3) && errors[2].1.contains("undeclared reference to 'params'"), "{errors:?}");
}
