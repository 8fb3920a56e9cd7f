//! The story of a `WebApp`: the demo shows it, and it must pass on both API servers.
//!
//! Each step does one thing as a user would, waits for the consequences, and returns a line for people. The demo prints
//! the lines. The tests expect all steps to succeed.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use crate::objects::Objects;
use crate::wait::until;

/// The `WebApp` of the story.
pub const NAME: &str = "shop";

/// Runs the story of one `WebApp`, step by step.
pub struct Story<'a> {
    objects: &'a Objects,
}

/// The result of a step.
pub struct StepResult {
    /// One line for people.
    pub line: String,
    /// The time from the action until its last consequence was seen.
    pub took: Duration,
}

impl<'a> Story<'a> {
    /// The story in the namespace of `objects`.
    #[must_use]
    pub fn new(objects: &'a Objects) -> Self {
        Self { objects }
    }

    /// Runs the whole story, step by step.
    pub async fn whole(&self) -> anyhow::Result<Vec<StepResult>> {
        Ok(vec![
            self.create().await?,
            self.run().await?,
            self.scale().await?,
            self.delete_deployment().await?,
            self.edit_service().await?,
            self.delete().await?,
        ])
    }

    /// Creates the `WebApp` and waits for both children.
    pub async fn create(&self) -> anyhow::Result<StepResult> {
        let started = Instant::now();
        for document in crate::objects::documents(&crate::paths::example("webapp.yaml"))? {
            self.objects.apply(&document).await?;
        }
        let owner = self.uid("WebApp").await?;
        self.child("Deployment", &owner, |it| it["spec"]["replicas"] == 2).await?;
        self.child("Service", &owner, |it| it["spec"]["ports"][0]["port"].is_number()).await?;
        step_result(started, "created: a Deployment with 2 replicas and a Service, both owned by it")
    }

    /// Waits until the `WebApp` reports that it runs.
    pub async fn run(&self) -> anyhow::Result<StepResult> {
        let started = Instant::now();
        self.runs_with(2).await?;
        until("an Event reports the creation", || async {
            let events = self.events().await?;
            let created = |event: &&Value| event["reason"] == "Created" && event["type"] == "Normal";
            events.iter().find(created).map(|_| ()).with_context(|| format!("{events:?}"))
        })
        .await?;
        step_result(started, "running: phase Running, 2 of 2 replicas ready, and Events explain it")
    }

    /// Scales the `WebApp`.
    pub async fn scale(&self) -> anyhow::Result<StepResult> {
        let started = Instant::now();
        self.objects.merge("WebApp", NAME, &json!({"spec": {"replicas": 4}})).await?;
        self.runs_with(4).await?;
        step_result(started, "scaled: from 2 to 4 replicas, all ready")
    }

    /// Deletes the Deployment by hand.
    pub async fn delete_deployment(&self) -> anyhow::Result<StepResult> {
        let started = Instant::now();
        let before = self.uid("Deployment").await?;
        let owner = self.uid("WebApp").await?;
        self.objects.delete("Deployment", NAME).await?;
        self.child("Deployment", &owner, |it| it["metadata"]["uid"] != before.as_str()).await?;
        self.runs_with(4).await?;
        step_result(started, "healed: the Deployment was deleted by hand and came back")
    }

    /// Edits the Service by hand.
    pub async fn edit_service(&self) -> anyhow::Result<StepResult> {
        let started = Instant::now();
        let owner = self.uid("WebApp").await?;
        let before = self.objects.get("Service", NAME).await?.context("the Service exists")?;
        let broken = json!({"spec": {"selector": {"app.kubernetes.io/instance": "another"}}});
        self.objects.merge("Service", NAME, &broken).await?;
        self.child("Service", &owner, |it| it["spec"]["selector"] == before["spec"]["selector"]).await?;
        step_result(started, "mended: the Service's selector was edited by hand and is correct again")
    }

    /// Deletes the `WebApp` and waits until it and all its children are gone.
    pub async fn delete(&self) -> anyhow::Result<StepResult> {
        let started = Instant::now();
        self.objects.delete("WebApp", NAME).await?;
        for kind in ["WebApp", "Deployment", "Service"] {
            until(&format!("the {kind} is gone"), || async {
                self.objects.get(kind, NAME).await?.map_or(Ok(()), |it| Err(anyhow::anyhow!("{it}")))
            })
            .await?;
        }
        for kind in ["ReplicaSet", "Pod"] {
            until(&format!("every {kind} is gone"), || async {
                let left = self.objects.list(kind, "").await?;
                anyhow::ensure!(left.is_empty(), "{left:?}");
                Ok::<_, anyhow::Error>(())
            })
            .await?;
        }
        step_result(started, "deleted: the WebApp and all that it owned are gone")
    }

    async fn runs_with(&self, replicas: u64) -> anyhow::Result<()> {
        until(&format!("the WebApp runs with {replicas} replicas"), || async {
            let it = self.objects.get("WebApp", NAME).await?.context("the WebApp is gone")?;
            let status = &it["status"];
            let ready = status["readyReplicas"] == replicas && status["phase"] == "Running";
            let current = status["observedGeneration"] == it["metadata"]["generation"];
            anyhow::ensure!(ready && current, "{status}");
            Ok(())
        })
        .await
    }

    /// Waits for the child that has the `WebApp`'s name, is controlled by it, and satisfies `right`.
    async fn child(&self, kind: &str, owner: &str, right: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        until(&format!("the {kind} is correct"), || async {
            let it = self.objects.get(kind, NAME).await?.context("the child does not exist")?;
            let reference = &it["metadata"]["ownerReferences"][0];
            let is_ours = reference["uid"] == owner && reference["controller"] == true;
            anyhow::ensure!(is_ours && it["metadata"]["deletionTimestamp"].is_null() && right(&it), "{it}");
            Ok(())
        })
        .await
    }

    async fn events(&self) -> anyhow::Result<Vec<Value>> {
        let events = self.objects.list("Event", "").await?;
        Ok(events.into_iter().filter(|event| event["regarding"]["kind"] == "WebApp").collect())
    }

    async fn uid(&self, kind: &str) -> anyhow::Result<String> {
        let it = self.objects.get(kind, NAME).await?.with_context(|| format!("the {kind} exists"))?;
        Ok(it["metadata"]["uid"].as_str().context("the object has a UID")?.to_owned())
    }
}

#[allow(clippy::unnecessary_wraps, reason = "every step ends with it")]
fn step_result(started: Instant, line: &str) -> anyhow::Result<StepResult> {
    Ok(StepResult { line: line.to_owned(), took: started.elapsed() })
}
