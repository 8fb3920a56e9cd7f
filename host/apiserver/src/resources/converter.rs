//! Conversion of custom resources by a webhook: makes the review that is sent, and interprets the answer.
//!
//! Follows `k8s.io/apiextensions-apiserver/pkg/apiserver/conversion`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::consultation::{Consultation, Question, QuestionKey, WebhookClient, reviews};
use crate::object::{self, strings, text};

/// A real server's timeout.
pub(crate) const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The conversion webhook of a definition.
#[derive(Debug)]
pub(crate) struct Converter {
    pub(crate) client: WebhookClient,
    /// The first version of `ConversionReview` that both sides support.
    version: &'static str,
    /// The version of the definition.
    generation: String,
}

impl Converter {
    /// The converter of a valid definition. `None` if the definition has no conversion webhook.
    pub(crate) fn read(definition: &Value) -> Option<Arc<Converter>> {
        let conversion = &definition["spec"]["conversion"];
        if text(conversion, "/strategy") != "Webhook" {
            return None;
        }
        let versions = strings(conversion, "/webhook/conversionReviewVersions");
        Some(Arc::new(Converter {
            client: WebhookClient::read(&conversion["webhook"]["clientConfig"]),
            version: reviews::version(&versions),
            generation: object::resource_version(definition).to_owned(),
        }))
    }

    /// The review that asks for objects in another version.
    pub(crate) fn review(&self, objects: &[&Value], desired: &str, uid: &str) -> Value {
        json!({
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{}", self.version),
            "request": { "uid": uid, "desiredAPIVersion": desired, "objects": objects },
        })
    }

    /// The converted objects, from the body of the webhook's answer. The error has a real server's text.
    pub(crate) fn read_answer(
        &self,
        objects: &[&Value],
        desired: &str,
        uid: &str,
        answer: Result<&[u8], &str>,
    ) -> Result<Vec<Value>, String> {
        let Some(first) = objects.first() else { return Ok(Vec::new()) };
        let of = shown(first);
        let failed = |why: String| format!("{of} failed: {why}");
        let body = answer.map_err(|why| failed(why.to_owned()))?;
        let review: Value = serde_json::from_slice(body)
            .map_err(|error| failed(format!("couldn't get version/kind; json parse error: {error}")))?;
        let converted = self.objects_in(review, uid).map_err(failed)?;
        let (found, expected) = (converted.len(), objects.len());
        if found != expected {
            return Err(format!("{of} returned {found} objects, expected {expected}"));
        }
        let pairs = objects.iter().zip(converted);
        pairs
            .map(|(original, converted)| {
                restored(original, converted, desired).map_err(|why| format!("{of} returned {why}"))
            })
            .collect()
    }

    fn objects_in(&self, mut review: Value, uid: &str) -> Result<Vec<Value>, String> {
        let is_strict = self.version == "v1";
        if is_strict {
            reviews::check_type(&review, "apiextensions.k8s.io/v1", "ConversionReview")?;
        }
        if !review["response"].is_object() {
            return Err("no response provided".to_owned());
        }
        if is_strict {
            reviews::check_uid(&review, uid)?;
        }
        let (status, message) = (text(&review, "/response/result/status"), text(&review, "/response/result/message"));
        match (status, message) {
            ("Success", _) => {}
            (_, "") => return Err(format!("response.result.status was '{status}', not 'Success'")),
            (_, message) => return Err(message.to_owned()),
        }
        match review["response"]["convertedObjects"].take() {
            Value::Array(objects) => Ok(objects),
            _ => Ok(Vec::new()),
        }
    }

    /// The object in another version, if the webhook has already answered. `None` if the webhook must be asked first;
    /// the caller then gives up.
    pub(crate) fn convert(
        &self,
        consultation: &Consultation,
        object: &Value,
        desired: &str,
        uid: String,
    ) -> Result<Option<Value>, String> {
        let key = QuestionKey {
            webhook: format!("conversion/{desired}/{}", self.generation),
            round: 0,
            object: format!("{}/{}", object::namespace(object), object::name(object)),
            version: object::resource_version(object).to_owned(),
        };
        if !consultation.applies() {
            return Err(format!("{} failed: components of the server itself do not ask webhooks", shown(object)));
        }
        let objects = [object];
        let Some(reply) = consultation.reply(&key) else {
            let body = self.review(&objects, desired, &uid).to_string();
            consultation.leave(vec![Question {
                key,
                client: self.client.clone(),
                timeout: CONVERSION_TIMEOUT,
                uid,
                body,
            }]);
            return Ok(None);
        };
        let answer = reply.body.as_ref().map(|body| &**body).map_err(String::as_str);
        self.read_answer(&objects, desired, &reply.uid, answer).map(|mut converted| converted.pop())
    }
}

/// The webhook's address for errors.
fn shown(object: &Value) -> String {
    format!("conversion webhook for {}, Kind={}", text(object, "/apiVersion"), text(object, "/kind"))
}

/// The converted object with the metadata of the original. The webhook may change only labels and annotations.
fn restored(original: &Value, mut converted: Value, desired: &str) -> Result<Value, String> {
    let invalid = |what: &str, expected: &str, found: &str| {
        Err(format!("invalid object at index 0: invalid {what} (expected {expected}, received {found})"))
    };
    let (version, kind) = (text(&converted, "/apiVersion"), text(&converted, "/kind"));
    if version != desired {
        return invalid("groupVersion", desired, version);
    }
    if kind != text(original, "/kind") {
        return invalid("kind", text(original, "/kind"), kind);
    }
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let pointer = format!("/metadata/{field}");
        let (expected, found) = (text(original, &pointer), text(&converted, &pointer));
        if expected != found {
            return Err(format!("invalid object: must have the same {shown}: {expected} != {found}"));
        }
    }
    if !converted["metadata"].is_object() {
        return Err("invalid metadata: missing metadata in converted object".to_owned());
    }
    let mut metadata = original["metadata"].clone();
    for field in ["labels", "annotations"] {
        let made = converted["metadata"][field].take();
        match made.as_object() {
            None if made.is_null() => {
                object::as_map_mut(&mut metadata).remove(field);
            }
            Some(texts) if texts.values().all(Value::is_string) => metadata[field] = made,
            _ => return Err(format!("invalid metadata: invalid metadata.{field} in converted object")),
        }
    }
    converted["metadata"] = metadata;
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(version: &str) -> Value {
        json!({
            "apiVersion": version,
            "kind": "Thing",
            "metadata": { "name": "a", "uid": "u", "generation": 3, "labels": { "x": "y" } },
        })
    }

    fn converter() -> Converter {
        let client = json!({ "url": "https://localhost:1" });
        let conversion =
            json!({ "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": client } });
        let definition = json!({ "spec": { "conversion": conversion } });
        Arc::into_inner(Converter::read(&definition).expect("a webhook")).expect("nobody else has it")
    }

    fn read(response: &Value) -> Result<Vec<Value>, String> {
        let review =
            json!({ "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response });
        let original = object("x.io/v1");
        converter().read_answer(&[&original], "x.io/v2", "u", Ok(review.to_string().as_bytes()))
    }

    fn success(objects: &Value) -> Value {
        json!({ "uid": "u", "result": { "status": "Success" }, "convertedObjects": objects })
    }

    #[test]
    fn a_webhook_changes_labels_and_no_other_metadata() {
        let mut made = object("x.io/v2");
        made["metadata"]["generation"] = json!(9);
        made["metadata"]["labels"] = json!({ "x": "z" });
        made["spec"] = json!({ "n": 1 });
        let converted = read(&success(&json!([made]))).expect("it is valid");
        assert_eq!(converted[0]["metadata"]["generation"], 3);
        assert_eq!(converted[0]["metadata"]["labels"], json!({ "x": "z" }));
        assert_eq!(converted[0]["spec"], json!({ "n": 1 }));
    }

    #[test]
    fn invalid_responses_are_refused_with_a_real_servers_messages() {
        let of = "conversion webhook for x.io/v1, Kind=Thing";
        let mut renamed = object("x.io/v2");
        renamed["metadata"]["name"] = json!("b");
        for (response, why) in [
            (json!(null), "failed: no response provided"),
            (json!({ "uid": "v" }), "failed: expected response.uid=\"u\", got \"v\""),
            (json!({ "uid": "u", "result": { "status": "Failed", "message": "oh" } }), "failed: oh"),
            (json!({ "uid": "u" }), "failed: response.result.status was '', not 'Success'"),
            (success(&json!([])), "returned 0 objects, expected 1"),
            (
                success(&json!([object("x.io/v1")])),
                "returned invalid object at index 0: invalid groupVersion (expected x.io/v2, received x.io/v1)",
            ),
            (success(&json!([renamed])), "returned invalid object: must have the same name: a != b"),
        ] {
            assert_eq!(read(&response), Err(format!("{of} {why}")));
        }
    }
}
