//! Small operators like those in common use: they change objects of others, or depend on time. The component's bytes
//! select the operator; the README says how.

mod cron;
mod downscaler;
mod janitor;
mod jobs;
mod mirror;
mod reloader;
mod replicator;
mod selective;
mod time;

use std::collections::BTreeMap;
use std::hint::black_box;

use serde::Deserialize;
use serde_json::Value;
use windlass_sdk::manifest::Manifest;
use windlass_sdk::{Change, Failures, Mapper, Outcome, Reconciler, Request, Target};

/// The marker that a test finds exactly once in the component's bytes, and in which it writes another name.
static MARKER: [u8; 24] = *b"OPERATOR=reloader.......";

struct Plugin;

/// A primary, of any kind.
#[derive(Deserialize)]
pub(crate) struct Object {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: Value,
    #[serde(default)]
    pub(crate) status: Value,
    #[serde(default)]
    pub(crate) data: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) creation_timestamp: String,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) annotations: BTreeMap<String, String>,
}

fn operator() -> &'static str {
    // Without the black box, the compiler would evaluate the marker at build time.
    let text = std::str::from_utf8(black_box(&MARKER)).expect("the marker is text");
    text["OPERATOR=".len()..].trim_end_matches('.')
}

impl Reconciler for Plugin {
    fn manifest() -> Manifest {
        let controller = match operator() {
            "cron" => cron::controller(),
            "downscaler" => downscaler::controller(),
            "janitor" => janitor::controller(),
            "jobs" => jobs::controller(),
            "mirror" => mirror::controller(),
            "replicator" => replicator::controller(),
            "selective" => selective::controller(),
            _ => reloader::controller(),
        };
        let manifest = Manifest::new(operator(), env!("CARGO_PKG_VERSION")).controller(controller);
        let permissions = match operator() {
            "cron" | "jobs" => vec![],
            "downscaler" => downscaler::permissions(),
            "janitor" => janitor::permissions(),
            "mirror" => mirror::permissions(),
            "replicator" => replicator::permissions(),
            "selective" => selective::permissions(),
            _ => reloader::permissions(),
        };
        permissions.into_iter().fold(manifest, Manifest::permission)
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        let Some(object) = request.object::<Object>()? else { return Ok(Outcome::Done) };
        match (operator(), request.deleting) {
            ("replicator", deleting) => replicator::reconcile(&object, deleting),
            (_, true) => Ok(Outcome::Done),
            ("cron", _) => cron::reconcile(&object),
            ("downscaler", _) => downscaler::reconcile(&object),
            ("janitor", _) => janitor::reconcile(&object),
            ("jobs", _) => jobs::reconcile(&object),
            ("mirror", _) => mirror::reconcile(&object),
            ("selective", _) => selective::reconcile(&object),
            _ => reloader::reconcile(&object),
        }
    }
}

/// Only `selective` has watches for which the host calls the mapper.
impl Mapper for Plugin {
    fn matches(watch: &str, change: &Change) -> Result<bool, Failures> {
        selective::matches(watch, change)
    }

    fn map(_: &str, _: &Change) -> Result<Vec<Target>, Failures> {
        Ok(vec![])
    }
}

windlass_sdk::plugin!(Plugin);
windlass_sdk::mapper!(Plugin);
