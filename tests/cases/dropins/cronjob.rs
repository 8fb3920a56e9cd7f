//! `plugins/cronjob`: `CronJob`s of kubebuilder's book start Jobs.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use windlass_tests::kubectl::Kubectl;
use windlass_tests::server::{Kind, Server};
use windlass_tests::wait::until;

use super::{gives_no_finding, installed, running, sources};

const CRON_JOBS: &str = "cronjobs.batch.tutorial.kubebuilder.io";

/// Waits until a Job is active that is none of `earlier`, and returns its name.
async fn next_job(kubectl: &Kubectl<'_>, earlier: &[&str]) -> anyhow::Result<String> {
    until("a Job starts", || async {
        let found: Value = serde_json::from_str(&kubectl.run(&["get", CRON_JOBS, "tick", "-o", "json"]).await?)?;
        let active = found["status"]["active"].as_array().context("no Job is active")?;
        ensure!(active.len() == 1, "{active:?}");
        let name = active[0]["name"].as_str().context("a name")?;
        ensure!(!earlier.contains(&name), "{name} is active");
        Ok(name.to_owned())
    })
    .await
}

/// Lets a Job end, as the Job controller does.
async fn complete(kubectl: &Kubectl<'_>, job: &str) -> anyhow::Result<()> {
    let now = "2026-11-28T23:00:00Z";
    let conditions = ["SuccessCriteriaMet", "Complete"].map(|kind| json!({"type": kind, "status": "True"}));
    let status = json!({"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions});
    let patch = json!({"status": status}).to_string();
    kubectl.run(&["patch", "job", job, "--subresource=status", "--type=merge", "-p", &patch]).await?;
    Ok(())
}

/// Waits until an Event of a `CronJob` or a condition of `tick` has this text.
async fn says(kubectl: &Kubectl<'_>, text: &str) -> anyhow::Result<()> {
    until(&format!("{text} is reported"), || async {
        let events = kubectl.run(&["get", "events"]).await?;
        let status = kubectl.run(&["get", CRON_JOBS, "-o", "jsonpath={.items[*].status}"]).await?;
        ensure!(events.contains(text) || status.contains(text), "{events}{status}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn cron_jobs_start_jobs_one_after_the_other() -> anyhow::Result<()> {
    let server = Server::start(Kind::Embedded).await?;
    let kubectl = Kubectl::new(server.kubeconfig(), "default");
    let plugins = installed("cronjob")?;
    let definition = sources("cronjob").join("crd.yaml").display().to_string();
    kubectl.run(&["apply", "-f", &definition]).await?;
    let host = running(&server, &plugins).await?;

    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "main"}]}});
    let tick = json!({
        "apiVersion": "batch.tutorial.kubebuilder.io/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {
            "schedule": "@every 1s", "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {"template": template}},
        },
    });
    let file = plugins.path().join("tick.json");
    std::fs::write(&file, tick.to_string())?;
    let file = file.display().to_string();
    until("the definition is served", || async { kubectl.run(&["apply", "-f", &file]).await }).await?;
    let first = next_job(&kubectl, &[]).await?;
    complete(&kubectl, &first).await?;
    let second = next_job(&kubectl, &[&first]).await?;
    complete(&kubectl, &second).await?;
    let third = next_job(&kubectl, &[&first, &second]).await?;
    until("the first Job is deleted", || async {
        let names = kubectl.run(&["get", "jobs", "-o", "name"]).await?;
        ensure!(!names.contains(&first) && names.contains(&second) && names.contains(&third), "{names}");
        Ok(())
    })
    .await?;

    // A suspended CronJob starts nothing. When it goes on, the last run that it missed starts, also if no host ran.
    let suspend = async |yes: bool| {
        let patch = json!({"spec": {"suspend": yes}}).to_string();
        kubectl.run(&["patch", CRON_JOBS, "tick", "--type=merge", "-p", &patch]).await
    };
    suspend(true).await?;
    complete(&kubectl, &third).await?;
    says(&kubectl, "Suspended").await?;
    ensure!(host.terminate().await?.success());
    suspend(false).await?;
    let host = running(&server, &plugins).await?;
    next_job(&kubectl, &[&first, &second, &third]).await?;

    // A mistake is a condition and an Event.
    let mistake = json!({"spec": {"schedule": "CRON_TZ=UTC"}}).to_string();
    kubectl.run(&["patch", CRON_JOBS, "tick", "--type=merge", "-p", &mistake]).await?;
    says(&kubectl, "no times follow the time zone").await?;

    kubectl.run(&["delete", CRON_JOBS, "tick"]).await?;
    until("the Jobs are deleted", || async {
        let names = kubectl.run(&["get", "jobs", "-o", "name"]).await?;
        ensure!(names.trim().is_empty(), "{names}");
        Ok(())
    })
    .await?;
    ensure!(host.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cronjob_plugin_gives_no_finding() -> anyhow::Result<()> {
    gives_no_finding("cronjob").await
}
