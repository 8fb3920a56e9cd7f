//! The floor: a bare program with kube's client that sends the requests of a controller for each `WebApp`, and watches
//! the same three kinds, without a queue or a cache. It is not a controller: it never repairs or retries.

mod objects;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use futures::{TryStreamExt, future};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event, watcher};

/// The number of objects that are processed at the same time.
const CONCURRENT_OBJECTS_MAX: usize = 8;
/// The number of watched kinds.
const KINDS: usize = 3;

/// The API of each kind, in all namespaces.
struct Kinds {
    client: Client,
    webapps: ApiResource,
    deployments: ApiResource,
    services: ApiResource,
    events: ApiResource,
}

impl Kinds {
    fn new(client: Client) -> Self {
        let of = |group: &str, version: &str, kind: &str, plural: &str| {
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
        };
        Self {
            client,
            webapps: of("apps.kubedojo.io", "v1beta1", "WebApp", "webapps"),
            deployments: of("apps", "v1", "Deployment", "deployments"),
            services: of("", "v1", "Service", "services"),
            events: of("events.k8s.io", "v1", "Event", "events"),
        }
    }

    fn all(&self, of: &ApiResource) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), of)
    }

    fn within(&self, namespace: &str, of: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, of)
    }
}

/// Reports that the program is ready when all kinds are listed.
#[derive(Default)]
struct Listed(AtomicUsize);

impl Listed {
    fn note(&self, event: &Event<DynamicObject>) {
        if matches!(event, Event::InitDone) && self.0.fetch_add(1, Ordering::Relaxed) + 1 == KINDS {
            println!("ready");
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let kinds = Arc::new(Kinds::new(Client::try_default().await?));
    let listed = Arc::new(Listed::default());
    for child in [&kinds.deployments, &kinds.services] {
        let (api, listed) = (kinds.all(child), listed.clone());
        tokio::spawn(async move {
            let events = watcher(api, watcher::Config::default());
            events.try_for_each(|event| future::ready(Ok(listed.note(&event)))).await
        });
    }
    let (generations, events) = (Mutex::new(HashMap::new()), AtomicUsize::new(0));
    let watched = watcher(kinds.all(&kinds.webapps), watcher::Config::default());
    let changed = watched.inspect_ok(|event| listed.note(event)).map_err(anyhow::Error::from).try_filter_map(|event| {
        future::ready(Ok(match event {
            Event::Apply(app) | Event::InitApply(app) => Some(app),
            Event::Delete(_) | Event::Init | Event::InitDone => None,
        }))
    });
    changed
        .try_for_each_concurrent(CONCURRENT_OBJECTS_MAX, async |app| {
            let (name, generation) = (app.metadata.name.clone(), app.metadata.generation);
            let known = generations.lock().unwrap_or_else(PoisonError::into_inner).insert(name, generation);
            if known == Some(generation) {
                return Ok(());
            }
            write(&kinds, &app, known.is_none(), events.fetch_add(1, Ordering::Relaxed)).await
        })
        .await
}

/// Sends all requests of a controller for a new `WebApp`, or for one whose Deployment has to change.
async fn write(kinds: &Kinds, app: &DynamicObject, is_new: bool, number: usize) -> anyhow::Result<()> {
    let name = app.metadata.name.as_deref().context("a WebApp has a name")?;
    let namespace = app.metadata.namespace.as_deref().context("a WebApp has a namespace")?;
    let apply = PatchParams::apply("floor").force();
    let deployments = kinds.within(namespace, &kinds.deployments);
    deployments.patch(name, &apply, &Patch::Apply(objects::deployment(app))).await?;
    if is_new {
        let services = kinds.within(namespace, &kinds.services);
        services.patch(name, &apply, &Patch::Apply(objects::service(app))).await?;
    }
    let webapps = kinds.within(namespace, &kinds.webapps);
    webapps.patch_status(name, &apply, &Patch::Apply(objects::status(app))).await?;
    let event = serde_json::from_value(objects::event(app, number))?;
    kinds.within(namespace, &kinds.events).create(&PostParams::default(), &event).await?;
    Ok(())
}
