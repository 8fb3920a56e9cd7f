//! One of several clients that change `ConfigMap`s at random, without the proxy. Each has its own names, so it knows
//! the outcome of every write, even if the response was lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use http::{Method, Request};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Value, json};
use windlass_tests::objects::Objects;
use windlass_tests::wait::until;

use super::ledger::Ledger;

pub(crate) const TIERS: [&str; 3] = ["gold", "silver", "bronze"];
pub(crate) const COLORS: [&str; 4] = ["red", "green", "blue", "\"quoted\\ and ünicode\""];

/// Shared by the writers.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) ledger: Mutex<Ledger>,
    /// The number of writes in the storm so far.
    pub(crate) written: AtomicU64,
    /// The number of lost responses.
    pub(crate) unknown: AtomicU64,
}

pub(crate) struct Writer {
    objects: Objects,
    desk: Arc<Desk>,
    random: SmallRng,
    number: u64,
    /// The UIDs and names of `ConfigMap`s that own others.
    owners: Arc<[(String, String)]>,
    /// The object under each of its names, if it exists.
    slots: Vec<Option<Value>>,
    /// Whether the server may be killed. A missing response is then not a failure.
    may_lose: bool,
}

impl Writer {
    /// A writer of up to `count` objects.
    pub(crate) fn new(
        objects: Objects,
        desk: &Arc<Desk>,
        seed: u64,
        number: u64,
        owners: &Arc<[(String, String)]>,
        count: usize,
        may_lose: bool,
    ) -> Self {
        let random = SmallRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(number));
        let (desk, owners) = (Arc::clone(desk), Arc::clone(owners));
        Self { objects, desk, random, number, owners, slots: vec![None; count], may_lose }
    }

    /// Creates an object under each name.
    pub(crate) async fn fill(&mut self) -> anyhow::Result<()> {
        for slot in 0..self.slots.len() {
            self.create(slot).await?;
        }
        Ok(())
    }

    /// Changes objects until `is_enough` accepts the number of all writers' writes.
    pub(crate) async fn run(mut self, is_enough: impl Fn(u64) -> bool) -> anyhow::Result<()> {
        while !is_enough(self.desk.written.load(Ordering::Relaxed)) {
            let slot = self.random.random_range(0..self.slots.len());
            let choice = self.random.random_range(0..100);
            match (self.slots[slot].is_some(), choice) {
                (false, _) => self.create(slot).await?,
                (true, 0..40) => self.patch(slot).await?,
                (true, 40..75) => self.replace(slot).await?,
                (true, 75..90) => self.delete(slot).await?,
                (true, _) => {
                    self.delete(slot).await?;
                    self.create(slot).await?;
                    self.desk.written.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.desk.written.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn create(&mut self, slot: usize) -> anyhow::Result<()> {
        let object = self.object(slot);
        self.change(slot, Method::POST, Some(object)).await
    }

    async fn replace(&mut self, slot: usize) -> anyhow::Result<()> {
        let object = self.object(slot);
        self.change(slot, Method::PUT, Some(object)).await
    }

    async fn patch(&mut self, slot: usize) -> anyhow::Result<()> {
        let (tier, color) = (self.one_of(&TIERS), self.one_of(&COLORS));
        let patch = json!({
            "metadata": {"labels": {"tier": tier}, "annotations": {"color": color}},
            "data": {"color": color, "number": self.random.random::<u64>().to_string()},
        });
        self.change(slot, Method::PATCH, Some(patch)).await
    }

    async fn delete(&mut self, slot: usize) -> anyhow::Result<()> {
        self.change(slot, Method::DELETE, None).await
    }

    async fn change(&mut self, slot: usize, method: Method, body: Option<Value>) -> anyhow::Result<()> {
        let is_delete = method == Method::DELETE;
        let now = match self.send(method.clone(), slot, body).await {
            Ok(answer) => (!is_delete).then_some(answer),
            Err(error) if self.may_lose => {
                self.desk.unknown.fetch_add(1, Ordering::Relaxed);
                self.settled(slot).await.with_context(|| format!("after {error}"))?
            }
            Err(error) => return Err(error).with_context(|| format!("{method} {}", self.name(slot))),
        };
        self.note(slot, now)
    }

    /// Reads the object in a slot, and retries until the server answers. The server was killed, so a write that is not
    /// carried out by then will never be carried out.
    async fn settled(&self, slot: usize) -> anyhow::Result<Option<Value>> {
        until("the server tells what became of a write", || async {
            match self.send(Method::GET, slot, None).await {
                Ok(object) => Ok(Some(object)),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }

    fn note(&mut self, slot: usize, now: Option<Value>) -> anyhow::Result<()> {
        let mut ledger = self.desk.ledger.lock().expect("no panic");
        let uid = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
        let (before, after) = (self.slots[slot].as_ref().and_then(uid), now.as_ref().and_then(uid));
        if let Some(gone) = before.filter(|before| after.as_ref() != Some(before)) {
            ledger.deleted(&gone);
        }
        if let Some(now) = &now {
            ledger.wrote(now)?;
        }
        self.slots[slot] = now;
        Ok(())
    }

    async fn send(&self, method: Method, slot: usize, body: Option<Value>) -> Result<Value, kube::Error> {
        let collection = format!("/api/v1/namespaces/{}/configmaps", self.objects.namespace());
        let uri = match method {
            Method::POST => collection,
            Method::DELETE => format!("{collection}/{}?propagationPolicy=Background", self.name(slot)),
            _ => format!("{collection}/{}", self.name(slot)),
        };
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder().method(method).uri(uri).header("content-type", kind).body(body);
        self.objects.client().request(request.map_err(kube::Error::HttpError)?).await
    }

    fn name(&self, slot: usize) -> String {
        format!("w{}-{slot}", self.number)
    }

    fn object(&mut self, slot: usize) -> Value {
        let (tier, color) = (self.one_of(&TIERS), self.one_of(&COLORS));
        // A text of random length that is hard for parsers and encoders.
        let length = self.random.random_range(0..1_500);
        let noise: String = (0..length).map(|_| self.random.random_range('a'..='z')).collect();
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": self.name(slot),
                "labels": {"writer": self.number.to_string()},
                "annotations": {"note": "a \"line\"\nand \\ another", "managedFields": "[]"},
            },
            "data": {"noise": noise, "managedFields": "[{\"manager\":\"windlass/none\"}]"},
        });
        if let Some(tier) = tier {
            object["metadata"]["labels"]["tier"] = tier.into();
        }
        if let Some(color) = color {
            object["metadata"]["annotations"]["color"] = color.into();
            object["data"]["color"] = color.into();
        }
        if self.random.random_bool(0.6) {
            let (uid, name) = &self.owners[self.random.random_range(0..self.owners.len())];
            let controller = self.random.random_bool(0.8);
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": controller}]);
        }
        object
    }

    /// One of the choices, or sometimes none.
    fn one_of(&mut self, choices: &[&'static str]) -> Option<&'static str> {
        choices.get(self.random.random_range(0..=choices.len())).copied()
    }
}
