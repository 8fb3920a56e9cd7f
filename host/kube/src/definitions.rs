//! Installs the CRDs that manifests contain. They are applied on the server, without force, and never in a way that
//! would lose stored objects. CRDs are never deleted.
//!
//! [`change`] decides what to do, and this module does it under a system role. The caller must have checked that the
//! operator allows it.

mod change;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use kube::Client;
use kube::core::Status;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use windlass_core::object::difference::{Difference, Disclosure};
use windlass_core::retry::RetryPolicy;
use windlass_core::rights::fence::LeaseLost;
use windlass_core::rights::principal::Principal;

use crate::client::headers;
use crate::client::request::{self, Mutation, MutationAnswer, Query, RequestError, SERVER_TIMEOUT_QUERY};
use crate::discovery::Discovery;
use change::{DefinitionState, DefinitionStep};

pub use change::{Definition, Refusal};

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/";
/// The time that the server may take to answer the write of a CRD, which can be as large as any object.
const DEFINITION_ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// The maximum number of decisions, in case the CRD changes between a decision and its write.
const DECISIONS_MAX: usize = 4;
/// The waits between checks whether a CRD is established.
const ESTABLISHED_BACKOFF: RetryPolicy = RetryPolicy::doubling(Duration::from_millis(50), Duration::from_secs(2));

/// The reason why a CRD is not installed.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The manifest's CRD is invalid, or asks for something that no manifest may.
    #[error("the definition {name:?} cannot be installed: {problem}")]
    Unsound {
        /// The CRD's name, as far as it has one.
        name: String,
        problem: String,
    },
    /// The cluster has a different CRD that must not be replaced.
    #[error("the definition {name} is not installed: {refusal}")]
    Refused { name: String, refusal: Refusal },
    /// Other managers have set fields to other values.
    #[error(
        "the definition {name} is not installed, because other managers own fields that the manifest would change: \
         {message}. Give these fields the same values in the manifest, or let the other managers give them up"
    )]
    OtherManagers {
        name: String,
        /// The server's message, which names the managers and fields.
        message: String,
    },
    /// Another CRD has the same kind or one of the names.
    #[error("the definition {name} is stored, but the server does not serve it: its names are not accepted: {message}")]
    NamesTaken { name: String, message: String },
    /// The server stored the CRD, but did not report within the limit that it is served.
    #[error("the definition {name} is stored, but was not established within {limit:?}: {message}")]
    NotEstablished {
        name: String,
        limit: Duration,
        /// The last known state.
        message: String,
    },
    /// The CRD changed each time before it could be replaced.
    #[error("the definition {name} is not installed: it keeps changing; another client seems to write it")]
    Contended { name: String },
    /// Another replica may be installing the CRD now.
    #[error("the definition {name} is left to another replica: {source}")]
    LeaseLost {
        name: String,
        /// The lease that may belong to another replica.
        source: LeaseLost,
    },
    /// The request failed or was refused.
    #[error("cannot {verb} the definition {name}: {source}")]
    Request {
        /// `get` or `patch`.
        verb: &'static str,
        name: String,
        source: RequestError,
    },
    /// The server's answer cannot be parsed.
    #[error("the API server's answer about the definition {name} cannot be read: {source}")]
    Malformed { name: String, source: serde_json::Error },
}

/// The result of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// It did not exist.
    Created,
    /// A different CRD of that name existed.
    Updated,
    Unchanged,
}

/// Installs CRDs. Clones share everything.
#[derive(Clone)]
pub struct Definitions {
    client: Client,
    discovery: Discovery,
}

impl Definitions {
    /// An installer; sends nothing yet. New kinds are reported to `discovery`.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery) -> Self {
        Self { client, discovery }
    }

    /// Installs `definition`, and waits at most `limit` until the server serves its kind. The CRD is written as
    /// `field_manager`, in the name of `role`. Several hosts may install the same CRD at the same time.
    pub async fn install(
        &self,
        role: &Principal,
        field_manager: &str,
        definition: &Definition,
        limit: Duration,
    ) -> Result<Installed, DefinitionError> {
        let deadline = Instant::now() + limit;
        let unsound = |problem| DefinitionError::Unsound { name: definition.name().to_owned(), problem };
        let headers = headers::of_principal(role).map_err(|error| unsound(error.to_string()))?;
        let work = Installation { client: &self.client, role, headers, field_manager, definition };
        let (installed, latest) = work.write().await?;
        work.established(latest, deadline, limit).await?;
        if installed != Installed::Unchanged {
            self.discovery.invalidate(definition.group());
            tracing::info!(plugin = %role.plugin, definition = definition.name(), ?installed, "definition installed");
        }
        Ok(installed)
    }
}

impl Definitions {
    /// Describes the change that [`Self::install`] would make to the cluster's CRD, without making it. `None` if
    /// nothing would change.
    pub async fn would_install(
        &self,
        role: &Principal,
        definition: &Definition,
    ) -> Result<Option<String>, DefinitionError> {
        let name = || definition.name().to_owned();
        let unsound = |problem| DefinitionError::Unsound { name: name(), problem };
        let headers = headers::of_principal(role).map_err(|error| unsound(error.to_string()))?;
        let work = Installation { client: &self.client, role, headers, field_manager: "", definition };
        let existing = work.get().await?;
        let step = definition.step(existing.as_ref());
        Ok(match (step.map_err(|refusal| DefinitionError::Refused { name: name(), refusal })?, existing) {
            (DefinitionStep::Keep, _) => None,
            (DefinitionStep::Apply { .. }, None) => Some("it would be created".to_owned()),
            (DefinitionStep::Apply { .. }, Some(existing)) => {
                let difference = Difference::of_body(&existing, &definition.document(None), Disclosure::Values);
                Some(format!("it would be changed: {difference}"))
            }
        })
    }
}

/// One installation of a CRD.
struct Installation<'a> {
    client: &'a Client,
    role: &'a Principal,
    headers: HeaderMap,
    field_manager: &'a str,
    definition: &'a Definition,
}

impl Installation<'_> {
    /// Decides and applies. The result contains the server's CRD afterwards.
    async fn write(&self) -> Result<(Installed, Value), DefinitionError> {
        for _ in 0..DECISIONS_MAX {
            let existing = self.get().await?;
            let step = self.definition.step(existing.as_ref());
            let step = step.map_err(|refusal| DefinitionError::Refused { name: self.name(), refusal })?;
            let over = match (step, existing) {
                (DefinitionStep::Keep, existing) => return Ok((Installed::Unchanged, existing.unwrap_or_default())),
                (DefinitionStep::Apply { over }, _) => over,
            };
            let limit = self.role.fence.may_start(DEFINITION_ANSWER_TIMEOUT);
            let limit = limit.map_err(|source| DefinitionError::LeaseLost { name: self.name(), source })?;
            match self.apply(&self.definition.document(over.as_deref()), limit).await {
                Ok(answer) => {
                    let installed = if over.is_none() { Installed::Created } else { Installed::Updated };
                    return Ok((installed, self.read(&answer.text)?));
                }
                Err(RequestError::Refused { status, .. }) if is_other_managers(&status) => {
                    return Err(DefinitionError::OtherManagers { name: self.name(), message: status.message });
                }
                // The CRD was changed or deleted after it was read.
                Err(RequestError::Refused { status, .. }) if status.code == 409 => {}
                Err(source) => return Err(self.failed("patch", source)),
            }
        }
        Err(DefinitionError::Contended { name: self.name() })
    }

    async fn apply(&self, body: &Value, limit: Duration) -> Result<MutationAnswer, RequestError> {
        let mut query = Query::default();
        query.add("fieldManager", self.field_manager);
        query.add("fieldValidation", "Strict");
        query.add("timeout", SERVER_TIMEOUT_QUERY);
        let mut mutation = Mutation {
            method: Method::PATCH,
            uri: query.onto(&self.path()),
            content_type: "application/apply-patch+yaml",
            body: Bytes::from(body.to_string()),
            headers: self.headers.clone().into(),
        };
        mutation.end_within(limit);
        let began = Instant::now();
        // A separate task holds the lease, because a request that was sent must be completed even if the caller stops
        // waiting.
        let (client, fence) = (self.client.clone(), self.role.fence.clone());
        let sent = tokio::spawn(async move {
            let result = request::mutate(&client, mutation, limit).await;
            drop(fence);
            result
        });
        let result = match sent.await {
            Ok(result) => result,
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        };
        tracing::info!(
            target: "windlass::audit",
            plugin = %self.role.plugin,
            replica = %self.role.replica,
            field_manager = self.field_manager,
            verb = "patch",
            resource = "customresourcedefinitions.apiextensions.k8s.io",
            object = self.definition.name(),
            code = result.as_ref().map_or_else(RequestError::code, |answer| Some(answer.code)),
            error = result.as_ref().err().map(tracing::field::display),
            took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            "mutation"
        );
        for warning in result.iter().flat_map(|answer| &answer.warnings) {
            tracing::warn!(definition = self.definition.name(), "the API server warns: {warning}");
        }
        result
    }

    /// Waits until the server serves the CRD, whose last known state is `latest`.
    async fn established(&self, mut latest: Value, deadline: Instant, limit: Duration) -> Result<(), DefinitionError> {
        let mut waits = ESTABLISHED_BACKOFF.begin();
        let late = |message| DefinitionError::NotEstablished { name: self.name(), limit, message };
        loop {
            let message = match change::state(&latest) {
                DefinitionState::Established => return Ok(()),
                DefinitionState::NamesTaken(message) => {
                    return Err(DefinitionError::NamesTaken { name: self.name(), message });
                }
                DefinitionState::Pending(message) => message,
            };
            let wait = waits.pause(1.0);
            if Instant::now() + wait > deadline {
                return Err(late(message));
            }
            sleep(wait).await;
            latest = self.get().await?.ok_or_else(|| late("it was deleted".to_owned()))?;
        }
    }

    /// The server's current CRD.
    async fn get(&self) -> Result<Option<Value>, DefinitionError> {
        let headers = self.headers.clone().into();
        match request::get_as(
            self.client,
            &self.path(),
            headers,
            request::MUTATION_ANSWER_BYTES_MAX,
            DEFINITION_ANSWER_TIMEOUT,
        )
        .await
        {
            Ok(text) => self.read(&text).map(Some),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(source) => Err(self.failed("get", source)),
        }
    }

    fn read(&self, text: &str) -> Result<Value, DefinitionError> {
        serde_json::from_str(text).map_err(|source| DefinitionError::Malformed { name: self.name(), source })
    }

    fn failed(&self, verb: &'static str, source: RequestError) -> DefinitionError {
        DefinitionError::Request { verb, name: self.name(), source }
    }

    fn path(&self) -> String {
        [PATH, self.definition.name()].concat()
    }

    fn name(&self) -> String {
        self.definition.name().to_owned()
    }
}

fn is_other_managers(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "FieldManagerConflict")
}
