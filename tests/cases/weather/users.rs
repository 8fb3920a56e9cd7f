//! Users who change primaries, and people who meddle with children by hand, for as long as the weather lasts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use windlass_tests::objects::Objects;

use super::watched::Watched;

pub(crate) const MOST_REPLICAS: u64 = 3;

/// How often what was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deeds {
    /// Changes of primaries.
    pub(crate) changes: u64,
    /// Edits and deletions of children.
    pub(crate) by_hand: u64,
    /// Refused, because the server was away or the child was not there.
    pub(crate) refused: u64,
}

/// All users and meddlers.
pub(crate) struct Users {
    objects: Objects,
    watched: Arc<Watched>,
    random: SmallRng,
    webapps: usize,
    sets: usize,
}

pub(crate) fn webapp(number: usize, replicas: u64) -> Value {
    json!({
        "apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp", "metadata": {"name": webapp_name(number)},
        "spec": {"image": "registry.example/shop:1", "replicas": replicas, "port": 8080},
    })
}

pub(crate) fn webapp_name(number: usize) -> String {
    format!("app-{number}")
}

pub(crate) fn set_name(number: usize) -> String {
    format!("set-{number}")
}

impl Users {
    pub(crate) fn new(objects: Objects, watched: Arc<Watched>, seed: u64, webapps: usize, sets: usize) -> Self {
        Self { objects, watched, random: SmallRng::seed_from_u64(seed), webapps, sets }
    }

    /// Does one thing after the other until `end`.
    pub(crate) async fn run(mut self, pace: Duration, end: Arc<AtomicBool>) -> Deeds {
        let mut pace = tokio::time::interval(pace);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut deeds = Deeds::default();
        while !end.load(Ordering::Relaxed) {
            pace.tick().await;
            let kind_of_deed = self.random.random_range(0..100);
            let (count, done) = match kind_of_deed {
                0..60 => (&mut deeds.changes, self.change().await),
                _ => (&mut deeds.by_hand, self.meddle().await),
            };
            match done {
                Ok(()) => *count += 1,
                Err(_) => deeds.refused += 1,
            }
        }
        deeds
    }

    async fn change(&mut self) -> anyhow::Result<()> {
        let (kind, name) = if self.random.random_bool(0.7) {
            ("WebApp", webapp_name(self.random.random_range(0..self.webapps)))
        } else {
            ("PodSet", set_name(self.random.random_range(0..self.sets)))
        };
        let replicas = self.random.random_range(1..=MOST_REPLICAS);
        scale(&self.objects, &self.watched, kind, &name, replicas).await
    }

    async fn meddle(&mut self) -> anyhow::Result<()> {
        let name = webapp_name(self.random.random_range(0..self.webapps));
        match self.random.random_range(0..5) {
            0 => self.objects.delete("Deployment", &name).await,
            1 => self.objects.delete("Service", &name).await,
            2 => self.edit("Deployment", &name, &json!({"spec": {"replicas": MOST_REPLICAS + 1}})).await,
            3 => {
                let broken = json!({"spec": {"selector": {"app.kubernetes.io/instance": "another"}}});
                self.edit("Service", &name, &broken).await
            }
            _ => self.delete_pod().await,
        }
    }

    async fn edit(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        self.objects.merge(kind, name, patch).await.map(|_| ())
    }

    async fn delete_pod(&mut self) -> anyhow::Result<()> {
        let set = set_name(self.random.random_range(0..self.sets));
        let pods = self.objects.list("Pod", &format!("set={set}")).await?;
        let pod = pods.first().context("it has none")?;
        self.objects.delete("Pod", pod["metadata"]["name"].as_str().context("a name")?).await
    }
}

/// Scales a primary, and awaits in `watched` that it is reconciled.
pub(crate) async fn scale(
    objects: &Objects,
    watched: &Watched,
    kind: &'static str,
    name: &str,
    replicas: u64,
) -> anyhow::Result<()> {
    let at = Instant::now();
    let changed = objects.merge(kind, name, &json!({"spec": {"replicas": replicas}})).await?;
    watched.asked(kind, name, changed["metadata"]["generation"].as_i64().context("a generation")?, at);
    Ok(())
}
