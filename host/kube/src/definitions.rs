//! Installs the definitions (CRDs) that manifests bring: by server-side apply, without force, and never so that
//! stored objects would be lost. None is ever deleted.
//!
//! What is to be done is decided in [`change`]; here it is carried out, under a system role. Whether the operator
//! allows it is asked before, by whoever calls.

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
/// How long the server may take to answer a write of a definition, which can be as large as an object gets.
const DEFINITION_ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// How often the decision is made anew because the definition changed meanwhile.
const DECISIONS_MAX: usize = 4;
/// The waits between two looks at a definition that is not established yet.
const ESTABLISHED_BACKOFF: RetryPolicy = RetryPolicy::doubling(Duration::from_millis(50), Duration::from_secs(2));

/// Why a definition is not installed.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// The manifest's definition is none, or asks for what no manifest may.
    #[error("the definition {name:?} cannot be installed: {problem}")]
    Unsound {
        /// Its name, as far as it has one.
        name: String,
        /// The problem.
        problem: String,
    },
    /// The cluster has another one, which must not be replaced.
    #[error("the definition {name} is not installed: {refusal}")]
    Refused {
        /// Its name.
        name: String,
        /// Why not.
        refusal: Refusal,
    },
    /// Others have set fields of it to other values.
    #[error(
        "the definition {name} is not installed, because others manage fields that the manifest would change: {message}. \
         Bring the manifest and their definition together, or have them give it up"
    )]
    OtherManagers {
        /// Its name.
        name: String,
        /// The server's message: who owns which fields.
        message: String,
    },
    /// Another definition has its kind or one of its names.
    #[error("the definition {name} is stored, but the server does not serve it: its names are not accepted: {message}")]
    NamesTaken {
        /// Its name.
        name: String,
        /// The server's message.
        message: String,
    },
    /// The server took it but did not say within the limit that it serves it.
    #[error("the definition {name} is stored, but was not established within {limit:?}: {message}")]
    NotEstablished {
        /// Its name.
        name: String,
        /// How long was waited.
        limit: Duration,
        /// The last thing that is known.
        message: String,
    },
    /// It changed whenever it was about to be replaced.
    #[error("the definition {name} is not installed: it changes all the time; who else writes it?")]
    Contended {
        /// Its name.
        name: String,
    },
    /// Another replica may be the one that installs it now.
    #[error("the definition {name} is left to another replica: {source}")]
    LeaseLost {
        /// Its name.
        name: String,
        /// Whose turn it may be.
        source: LeaseLost,
    },
    /// The server could not be asked, or refused.
    #[error("cannot {verb} the definition {name}: {source}")]
    Request {
        /// `get` or `patch`.
        verb: &'static str,
        /// Its name.
        name: String,
        /// The error.
        source: RequestError,
    },
    /// The server's answer makes no sense.
    #[error("the API server's answer about the definition {name} cannot be read: {source}")]
    Malformed {
        /// Its name.
        name: String,
        /// The error.
        source: serde_json::Error,
    },
}

/// The result of having a definition installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// There was none.
    Created,
    /// There was another one of the name.
    Updated,
    /// It was there.
    Unchanged,
}

/// Installs definitions. Clones share everything.
#[derive(Clone)]
pub struct Definitions {
    client: Client,
    discovery: Discovery,
}

impl Definitions {
    /// Nothing is asked yet. `discovery` hears of kinds that are new.
    #[must_use]
    pub fn new(client: Client, discovery: Discovery) -> Self {
        Self { client, discovery }
    }

    /// Has `definition` in the cluster, and waits for at most `limit` until the server serves its kind. It is written
    /// as `field_manager`, in the name of `role`. What one host installs, another may install at the same time.
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
        let work = Installer { client: &self.client, role, headers, field_manager, definition };
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
    /// The change that [`Self::install`] would make of the cluster's definition, for people; it makes none. None: it
    /// would make none.
    pub async fn would_install(
        &self,
        role: &Principal,
        definition: &Definition,
    ) -> Result<Option<String>, DefinitionError> {
        let name = || definition.name().to_owned();
        let unsound = |problem| DefinitionError::Unsound { name: name(), problem };
        let headers = headers::of_principal(role).map_err(|error| unsound(error.to_string()))?;
        let work = Installer { client: &self.client, role, headers, field_manager: "", definition };
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

/// One definition on its way into the cluster.
struct Installer<'a> {
    client: &'a Client,
    role: &'a Principal,
    headers: HeaderMap,
    field_manager: &'a str,
    definition: &'a Definition,
}

impl Installer<'_> {
    /// Decides and applies; the result has the definition as the server then has it.
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
                // Changed, or gone, since it was looked at.
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
        // On a task of its own, which holds the lease: a request that was sent must not be forgotten with whoever waits
        // for it.
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

    /// Waits until the server serves the definition, of which `latest` is known.
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
            latest = self.get().await?.ok_or_else(|| late("somebody has deleted it".to_owned()))?;
        }
    }

    /// The definition as the server has it now.
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
