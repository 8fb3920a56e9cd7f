//! Custom resource definitions, and objects under their schemas and CEL rules, compared with a real server.
//!
//! `judged/cases.yaml` has the cases, `judged/answers.json` a real server's responses. To record them again, run a
//! proxy without TLS in front of a real server and pass its address:
//!
//! ```text
//! kubectl --kubeconfig REAL proxy --port 8901 &
//! WINDLASS_RECORD_FROM=127.0.0.1:8901 cargo test -p windlass-apiserver --test judged -- --ignored
//! ```

mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures::{StreamExt, stream};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use support::Cluster;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// One case: a definition, and the steps that follow its creation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The schema of `spec`. The default preserves unknown fields.
    #[serde(default)]
    spec: Option<Value>,
    /// The CEL rules of the whole object.
    #[serde(default)]
    rules: Option<Value>,
    /// A merge patch for the definition's `spec`.
    #[serde(default)]
    definition: Option<Value>,
    #[serde(default)]
    then: Vec<Step>,
    /// The reason why this server's responses differ.
    #[serde(default)]
    differs: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Step {
    /// Writes the `spec` of the object `it`: creates it, or replaces it if it exists.
    Write(Value),
    /// Applies a merge patch to the whole object.
    Patch(Value),
    /// Applies a merge patch to the object's status.
    Status(Value),
    /// Replaces the schema of `spec`.
    Schema(Value),
    /// Applies a merge patch to the definition's `spec`.
    Redefine(Value),
    /// Applies a merge patch to the definition's status.
    Restate(Value),
    /// Reads the object in this version.
    Read(String),
}

#[tokio::test]
async fn the_answers_are_those_of_a_real_server() {
    let answers: BTreeMap<String, Value> =
        serde_json::from_str(&std::fs::read_to_string(folder().join("answers.json")).expect("answers")).expect("JSON");
    let cluster = Cluster::quiet().await;
    let client = Client { address: cluster.server.address().to_string() };
    let mut wrong = Vec::new();
    for (index, case) in cases().iter().enumerate() {
        let found = run(&client, index, case, false).await;
        let wanted = answers.get(&case.name).unwrap_or(&Value::Null);
        if case.differs.is_some() {
            if found == *wanted {
                wrong.push(format!("{}: no difference any more: remove `differs`", case.name));
            }
        } else if found != *wanted {
            wrong.push(format!("{}\n  real {wanted}\n  ours {found}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases().len(), wrong.join("\n"));
    assert_eq!(answers.len(), cases().len(), "one recorded entry for each case");
}

#[tokio::test]
#[ignore = "records the answers of the server that WINDLASS_RECORD_FROM names"]
async fn record() {
    let client = Client { address: std::env::var("WINDLASS_RECORD_FROM").expect("the address of a proxy") };
    let cases = cases();
    let runs = cases.iter().enumerate().map(async |(index, case)| (&case.name, run(&client, index, case, true).await));
    let answers: BTreeMap<_, _> = stream::iter(runs).buffered(8).collect().await;
    let text = serde_json::to_string_pretty(&answers).expect("JSON");
    std::fs::write(folder().join("answers.json"), text + "\n").expect("a writable folder");
}

/// Applies a JSON merge patch.
fn merge(object: &mut Value, patch: &Value) {
    match patch.as_object() {
        None => *object = patch.clone(),
        Some(changes) => {
            if !object.is_object() {
                *object = json!({});
            }
            for (name, change) in changes {
                if change.is_null() {
                    object.as_object_mut().and_then(|fields| fields.remove(name));
                } else {
                    merge(&mut object[name], change);
                }
            }
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judged")
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("cases.yaml")).expect("cases");
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(&text, options).expect("well-formed cases")
}

/// Runs a case. Returns one response for the definition, and one for each step if it was accepted.
async fn run(client: &Client, index: usize, case: &Case, is_real: bool) -> Value {
    let run = Run { client, group: format!("c{index}p{}.example.com", std::process::id()), is_real };
    let mut answers = Vec::new();
    let mut definition = run.definition(case);
    let created = run.client.post(DEFINITIONS, &definition).await;
    let accepted = created.code == 201;
    answers.push(run.judged(&created, "definition"));
    if accepted {
        run.wait_for(&definition).await;
        for (number, step) in case.then.iter().enumerate() {
            answers.push(run.step(&mut definition, number, step).await);
        }
        run.client.send("DELETE", &run.place(), support::JSON, "").await;
    }
    Value::from(answers)
}

/// A client of either server.
struct Client {
    address: String,
}

struct Answer {
    code: StatusCode,
    warnings: Vec<String>,
    body: Value,
}

impl Client {
    async fn send(&self, method: &str, path: &str, media: &str, body: &str) -> Answer {
        let stream = tokio::net::TcpStream::connect(&self.address).await.expect("the server listens");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("it speaks HTTP");
        tokio::spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", &self.address);
        let request = request.header("content-type", media).body(Full::new(Bytes::copy_from_slice(body.as_bytes())));
        let response = sender.send_request(request.expect("a well-formed request")).await.expect("an answer");
        let code = response.status();
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings.map(|value| value.to_str().expect("text").to_owned()).collect();
        let bytes = response.into_body().collect().await.expect("a whole body").to_bytes();
        Answer { code, warnings, body: serde_json::from_slice(&bytes).unwrap_or_default() }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, support::JSON, "").await
    }

    async fn post(&self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, support::JSON, &object.to_string()).await
    }

    async fn put(&self, path: &str, object: &Value) -> Answer {
        self.send("PUT", path, support::JSON, &object.to_string()).await
    }

    async fn patch(&self, path: &str, change: &Value) -> Answer {
        self.send("PATCH", path, support::MERGE, &change.to_string()).await
    }
}

struct Run<'a> {
    client: &'a Client,
    group: String,
    is_real: bool,
}

impl Run<'_> {
    fn place(&self) -> String {
        format!("{DEFINITIONS}/things.{}", self.group)
    }

    fn definition(&self, case: &Case) -> Value {
        let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let mut schema = json!({
            "type": "object",
            "description": "at first",
            "properties": { "spec": case.spec.as_ref().unwrap_or(&free) },
        });
        if let Some(rules) = &case.rules {
            schema["x-kubernetes-validations"] = rules.clone();
        }
        let mut spec = json!({
            "group": self.group,
            "scope": "Namespaced",
            "names": { "plural": "things", "kind": "Thing" },
            "versions": [
                { "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } },
            ],
        });
        if let Some(change) = &case.definition {
            merge(&mut spec, change);
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("things.{}", self.group) },
            "spec": spec,
        })
    }

    /// Waits until a real server serves the definition. This server does so before it responds.
    async fn wait_for(&self, definition: &Value) {
        let served = definition["spec"]["versions"].as_array().into_iter().flatten();
        for version in served.filter(|version| self.is_real && version["served"] == true) {
            let name = version["name"].as_str().unwrap_or_default();
            let mark = version["schema"]["openAPIV3Schema"]["description"].as_str().unwrap_or_default();
            let path = format!("/openapi/v3/apis/{}/{name}", self.group);
            while !self.client.get(&path).await.body.to_string().contains(mark) {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn step(&self, definition: &mut Value, number: usize, step: &Step) -> Value {
        let place = format!("/apis/{}/v1/namespaces/default/things", self.group);
        let it = format!("{place}/it");
        match step {
            Step::Write(spec) => {
                let mut object = json!({
                    "apiVersion": format!("{}/v1", self.group),
                    "kind": "Thing",
                    "metadata": { "name": "it" },
                    "spec": spec,
                });
                let current = self.client.get(&it).await;
                if current.code == 404 {
                    return self.judged(&self.client.post(&place, &object).await, "spec");
                }
                object["metadata"]["resourceVersion"] = current.body["metadata"]["resourceVersion"].clone();
                self.judged(&self.client.put(&it, &object).await, "spec")
            }
            Step::Patch(change) => self.judged(&self.client.patch(&it, change).await, "spec"),
            Step::Status(change) => {
                let path = format!("{it}/status");
                self.judged(&self.client.patch(&path, &json!({ "status": change })).await, "status")
            }
            Step::Schema(schema) => {
                let mut versions = definition["spec"]["versions"].clone();
                for version in versions.as_array_mut().into_iter().flatten() {
                    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema.clone();
                }
                self.redefine(definition, number, &json!({ "versions": versions })).await
            }
            Step::Redefine(change) => self.redefine(definition, number, change).await,
            Step::Restate(change) => {
                let path = format!("{}/status", self.place());
                let change = json!({ "status": change });
                self.judged(&self.client.patch(&path, &change).await, "definition")
            }
            Step::Read(version) => {
                let path = format!("/apis/{}/{version}/namespaces/default/things/it", self.group);
                self.judged(&self.client.get(&path).await, "spec")
            }
        }
    }

    async fn redefine(&self, definition: &mut Value, number: usize, change: &Value) -> Value {
        merge(&mut definition["spec"], change);
        for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
            version["schema"]["openAPIV3Schema"]["description"] = json!(format!("after step {number}"));
        }
        let change = json!({ "spec": definition["spec"] });
        let answer = self.client.patch(&self.place(), &change).await;
        if answer.code == 200 {
            self.wait_for(definition).await;
        }
        self.judged(&answer, "definition")
    }

    /// The parts of a response that are compared. In the texts a fixed name replaces the case's group.
    fn judged(&self, answer: &Answer, part: &str) -> Value {
        let body = &answer.body;
        let mut judged = json!({ "code": answer.code.as_u16() });
        if answer.code.is_success() && part != "definition" {
            judged[part] = body[part].clone();
        }
        if !answer.code.is_success() {
            let mut causes = body["details"]["causes"].as_array().cloned().unwrap_or_default();
            // A real server iterates over Go maps, so the causes, and the message with them, have a random order.
            causes.sort_by_key(Value::to_string);
            if causes.len() < 2 {
                judged["message"] = body["message"].clone();
            }
            judged["causes"] = Value::from(causes);
        }
        if !answer.warnings.is_empty() {
            judged["warnings"] = json!(answer.warnings);
        }
        let text = judged.to_string().replace(&self.group, "example.com");
        // The names of types contain random numbers.
        let text = regex::Regex::new("selfType[0-9]+").expect("a pattern").replace_all(&text, "selfType");
        serde_json::from_str(&text).expect("still JSON")
    }
}
