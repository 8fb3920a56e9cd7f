//! The user, who carries out the steps of a scenario and checks the resulting objects.

use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use serde_json::Value;
use tower::ServiceExt as _;
use windlass_apiserver::{ApiService, Condition};
use windlass_core::object::path_segment;

use crate::outcome::remove_foreign_mark;
use crate::scenario::{Expectation, ObjectCondition, ObjectName, Scenario, Step};

/// The reason why a step could not be carried out, or why an expectation does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UserError(pub(crate) String);

/// A user of the API server. Faults affect only requests of the host.
#[derive(Clone)]
pub(super) struct User {
    service: ApiService,
    /// The user agent and the field manager.
    agent: &'static str,
    /// The user name that the requests impersonate. `None` for an administrator.
    impersonated: Option<String>,
}

impl User {
    /// An administrator.
    pub(super) fn administrator(service: ApiService, agent: &'static str) -> User {
        User { service, agent, impersonated: None }
    }

    /// The user who carries out the steps of this scenario.
    pub(super) fn of(scenario: &Scenario, service: ApiService, agent: &'static str) -> User {
        User { service, agent, impersonated: scenario.user.clone() }
    }

    /// Carries out a step that changes an object. The run itself lets time pass and waits.
    pub(super) async fn act(&self, step: &Step) -> Result<(), UserError> {
        match step {
            Step::Apply(object) => self.apply(object).await,
            Step::Patch(change) => {
                let subresource = change.subresource.as_ref().map(|it| format!("/{it}")).unwrap_or_default();
                let path = self.path(&change.object).await?;
                let path = format!("{path}{subresource}?fieldManager={}", self.agent);
                self.must("PATCH", &path, "application/merge-patch+json", &change.merge).await.map(|_| ())
            }
            Step::Delete(name) => {
                let path = self.path(name).await?;
                self.must("DELETE", &path, "application/json", &Value::Null).await.map(|_| ())
            }
            Step::Advance(_) | Step::Wait(_) => Ok(()),
        }
    }

    /// Applies an object, like kubectl with server-side apply.
    pub(super) async fn apply(&self, object: &Value) -> Result<(), UserError> {
        let path = self.path(&ObjectName::of(object)).await?;
        let path = format!("{path}?fieldManager={}&force=true&fieldValidation=Strict", self.agent);
        self.must("PATCH", &path, "application/apply-patch+yaml", object).await.map(|_| ())
    }

    /// Whether the expectation holds now.
    pub(super) async fn holds(&self, expectation: &Expectation) -> Result<(), UserError> {
        match expectation {
            Expectation::Has(it) => {
                let object = self.expected(&it.object).await?;
                for (pointer, wanted) in &it.values {
                    let found = object.pointer(pointer).unwrap_or(&Value::Null);
                    if found != wanted {
                        return Err(UserError(format!("{} has {found} at {pointer}, not {wanted}", it.object)));
                    }
                }
                Ok(())
            }
            Expectation::Holds(ObjectCondition { object: name, cel }) => {
                let object = self.expected(name).await?;
                match Condition::compile(cel).and_then(|condition| condition.holds(&object)) {
                    Ok(true) => Ok(()),
                    Ok(false) => Err(UserError(format!("{cel} is false"))),
                    Err(error) => Err(UserError(format!("{cel}: {error}"))),
                }
            }
            Expectation::Absent(name) => match self.get(name).await? {
                Some(_) => Err(UserError(format!("{name} exists"))),
                None => Ok(()),
            },
            Expectation::Count(count) => {
                let resource = self.resource(&count.api_version, &count.kind).await?;
                let path = resource.path(count.namespace.as_deref(), None);
                let list = self.must("GET", &path, "application/json", &Value::Null).await?;
                let found = list["items"].as_array().map_or(0, Vec::len);
                if found == count.is {
                    return Ok(());
                }
                Err(UserError(format!("there are {found} of {} {}, not {}", count.api_version, count.kind, count.is)))
            }
        }
    }

    /// The current object. `None` if it does not exist.
    pub(super) async fn get(&self, name: &ObjectName) -> Result<Option<Value>, UserError> {
        let path = self.path(name).await?;
        match self.send("GET", &path, "application/json", &Value::Null).await? {
            (404, _) => Ok(None),
            (code, object) if code < 300 => Ok(Some(object)),
            (_, answer) => Err(refused("GET", &path, &answer)),
        }
    }

    /// An object that must exist, without the annotation by which faults edit objects: the author of an expectation
    /// does not know that one.
    async fn expected(&self, name: &ObjectName) -> Result<Value, UserError> {
        let object = self.get(name).await?;
        let mut object = object.ok_or_else(|| UserError(format!("{name} does not exist")))?;
        remove_foreign_mark(&mut object);
        Ok(object)
    }

    async fn path(&self, name: &ObjectName) -> Result<String, UserError> {
        let resource = self.resource(&name.api_version, &name.kind).await?;
        Ok(resource.path(Some(&name.namespace), Some(&name.name)))
    }

    async fn resource(&self, api_version: &str, kind: &str) -> Result<Resource, UserError> {
        let root =
            if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") };
        let (_, list) = self.send("GET", &root, "application/json", &Value::Null).await?;
        let resources = list["resources"].as_array().into_iter().flatten();
        let mut whole = resources.filter(|it| it["name"].as_str().is_some_and(|name| !name.contains('/')));
        let Some(found) = whole.find(|it| it["kind"] == kind) else {
            let hint = "load its definition: see --load, or `load` in a scenario";
            return Err(UserError(format!("the API server serves no {kind} of {api_version}: {hint}")));
        };
        let plural = found["name"].as_str().unwrap_or_default().to_owned();
        Ok(Resource { root, plural, namespaced: found["namespaced"] == true })
    }

    async fn must(&self, method: &str, path: &str, kind: &str, body: &Value) -> Result<Value, UserError> {
        match self.send(method, path, kind, body).await? {
            (code, answer) if code < 300 => Ok(answer),
            (_, answer) => Err(refused(method, path, &answer)),
        }
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &Value) -> Result<(u16, Value), UserError> {
        let failed = |error: &dyn std::fmt::Display| UserError(format!("{method} {path}: {error}"));
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request =
            Request::builder().method(method).uri(path).header("user-agent", self.agent).header("content-type", kind);
        let request = match &self.impersonated {
            Some(name) => request.header("impersonate-user", name),
            None => request,
        };
        let request = request.body(Full::new(body)).map_err(|error| failed(&error))?;
        let answer = self.service.clone().oneshot(request).await.map_err(|error| failed(&error))?;
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
        let value = match serde_json::from_slice(&bytes) {
            Ok(value) => value,
            // The API server answers in plain text if a group is not served.
            Err(_) if code >= 400 => String::from_utf8_lossy(&bytes).trim().into(),
            Err(error) => return Err(failed(&error)),
        };
        Ok((code, value))
    }
}

/// The server's message.
fn refused(method: &str, path: &str, answer: &Value) -> UserError {
    let words = answer["message"].as_str().map_or_else(|| answer.to_string(), str::to_owned);
    UserError(format!("{method} {path}: {words}"))
}

struct Resource {
    root: String,
    plural: String,
    namespaced: bool,
}

impl Resource {
    fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let Resource { root, plural, namespaced } = self;
        let mut path = root.clone();
        if let Some(namespace) = namespace.filter(|_| *namespaced) {
            path.push_str("/namespaces/");
            path_segment::encode(&mut path, namespace);
        }
        path.extend(["/", plural]);
        if let Some(name) = name {
            path.push('/');
            path_segment::encode(&mut path, name);
        }
        path
    }
}
