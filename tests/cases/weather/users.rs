//! Users who create, change and delete primaries, and meddlers who edit children by hand, for as long as the weather
//! lasts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use windlass_tests::objects::Objects;

use super::watched::Watched;
use crate::replicas::pod_set;

pub(crate) const USED_REPLICAS_MAX: u64 = 3;

/// The kinds of primaries.
pub(crate) const KINDS: [&str; 2] = ["WebApp", "PodSet"];

/// A primary: its kind and its name.
pub(crate) type Primary = (&'static str, String);

/// The primaries that exist, as far as users know. A user locks this during each action.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) there: BTreeSet<Primary>,
    /// Primaries that may exist, because a user got an error when creating or deleting them.
    pub(crate) doubtful: BTreeSet<Primary>,
}

impl Known {
    /// Reads which primaries exist.
    pub(crate) async fn look(&mut self, objects: &Objects) -> anyhow::Result<()> {
        let mut there = BTreeSet::new();
        for kind in KINDS {
            for object in objects.list(kind, "").await? {
                there.insert((kind, object["metadata"]["name"].as_str().context("a name")?.to_owned()));
            }
        }
        *self = Self { there, doubtful: BTreeSet::new() };
        Ok(())
    }

    pub(crate) fn of_kind(&self, kind: &str) -> Vec<Primary> {
        self.there.iter().filter(|(of, _)| *of == kind).cloned().collect()
    }
}

/// The number of actions of each kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deeds {
    /// Primaries created and deleted.
    pub(crate) made: u64,
    pub(crate) deleted: u64,
    /// Changes of primaries.
    pub(crate) changes: u64,
    /// Edits and deletions of children.
    pub(crate) by_hand: u64,
    /// Failed actions, because the server was away or the child did not exist.
    pub(crate) refused: u64,
}

/// All users and meddlers.
pub(crate) struct Users {
    objects: Objects,
    watched: Arc<Watched>,
    known: Arc<Mutex<Known>>,
    random: SmallRng,
    /// The number of primaries at the beginning. It stays about the same.
    usual: usize,
    /// The number of primaries ever created. No name is used twice.
    ever_made: usize,
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
    /// Users of the `known` primaries.
    pub(crate) async fn new(objects: Objects, watched: Arc<Watched>, known: Arc<Mutex<Known>>, seed: u64) -> Self {
        let usual = known.lock().await.there.len();
        Self { objects, watched, known, random: SmallRng::seed_from_u64(seed), usual, ever_made: usual }
    }

    /// Performs one action after the other until `end`.
    pub(crate) async fn run(mut self, pace: Duration, end: Arc<AtomicBool>) -> Deeds {
        let mut pace = tokio::time::interval(pace);
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut deeds = Deeds::default();
        let known = Arc::clone(&self.known);
        while !end.load(Ordering::Relaxed) {
            pace.tick().await;
            let mut known = known.lock().await;
            let kind_of_deed = self.random.random_range(0..100);
            let (count, done) = match kind_of_deed {
                0..56 => (&mut deeds.changes, self.change(&known).await),
                56..64 if known.there.len() > self.usual => (&mut deeds.deleted, self.delete(&mut known).await),
                56..64 => (&mut deeds.made, self.make(&mut known).await),
                _ => (&mut deeds.by_hand, self.meddle(&known).await),
            };
            match done {
                Ok(()) => *count += 1,
                Err(_) => deeds.refused += 1,
            }
        }
        deeds
    }

    /// A random primary. Seven times in ten it is a `WebApp`.
    fn any(&mut self, known: &Known) -> anyhow::Result<Primary> {
        let kind = KINDS[usize::from(!self.random.random_bool(0.7))];
        self.any_of(kind, known)
    }

    fn any_of(&mut self, kind: &str, known: &Known) -> anyhow::Result<Primary> {
        let of_kind = known.of_kind(kind);
        ensure!(!of_kind.is_empty(), "there is no {kind}");
        Ok(of_kind[self.random.random_range(0..of_kind.len())].clone())
    }

    async fn change(&mut self, known: &Known) -> anyhow::Result<()> {
        let (kind, name) = self.any(known)?;
        let replicas = self.random.random_range(1..=USED_REPLICAS_MAX);
        scale(&self.objects, &self.watched, kind, &name, replicas).await.map(|_| ())
    }

    async fn make(&mut self, known: &mut Known) -> anyhow::Result<()> {
        let number = self.ever_made;
        self.ever_made += 1;
        let (primary, object) = if self.random.random_bool(0.7) {
            (("WebApp", webapp_name(number)), webapp(number, 1))
        } else {
            (("PodSet", set_name(number)), pod_set(&set_name(number), 1))
        };
        known.doubtful.insert(primary.clone());
        self.objects.apply(&object).await?;
        known.doubtful.remove(&primary);
        known.there.insert(primary);
        Ok(())
    }

    async fn delete(&mut self, known: &mut Known) -> anyhow::Result<()> {
        let primary = self.any(known)?;
        known.there.remove(&primary);
        known.doubtful.insert(primary.clone());
        let (kind, name) = &primary;
        self.watched.forget(kind, name);
        self.objects.delete(kind, name).await?;
        known.doubtful.remove(&primary);
        Ok(())
    }

    async fn meddle(&mut self, known: &Known) -> anyhow::Result<()> {
        let (_, name) = self.any_of("WebApp", known)?;
        match self.random.random_range(0..5) {
            0 => self.objects.delete("Deployment", &name).await,
            1 => self.objects.delete("Service", &name).await,
            2 => self.edit("Deployment", &name, &json!({"spec": {"replicas": USED_REPLICAS_MAX + 1}})).await,
            3 => {
                let broken = json!({"spec": {"selector": {"app.kubernetes.io/instance": "another"}}});
                self.edit("Service", &name, &broken).await
            }
            _ => self.delete_pod(known).await,
        }
    }

    async fn edit(&self, kind: &str, name: &str, patch: &Value) -> anyhow::Result<()> {
        self.objects.merge(kind, name, patch).await.map(|_| ())
    }

    async fn delete_pod(&mut self, known: &Known) -> anyhow::Result<()> {
        let (_, set) = self.any_of("PodSet", known)?;
        let pods = self.objects.list("Pod", &format!("set={set}")).await?;
        let pod = pods.first().context("it has none")?;
        self.objects.delete("Pod", pod["metadata"]["name"].as_str().context("a name")?).await
    }
}

/// Scales a primary, and makes `watched` wait for its reconcile. Returns the generation.
pub(crate) async fn scale(
    objects: &Objects,
    watched: &Watched,
    kind: &'static str,
    name: &str,
    replicas: u64,
) -> anyhow::Result<i64> {
    let at = Instant::now();
    let changed = objects.merge(kind, name, &json!({"spec": {"replicas": replicas}})).await?;
    let generation = changed["metadata"]["generation"].as_i64().context("a generation")?;
    watched.asked(kind, name, generation, at);
    Ok(generation)
}
