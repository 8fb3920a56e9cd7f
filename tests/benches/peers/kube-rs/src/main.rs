//! The `WebApp` controller as a team would write it with `kube::runtime::Controller`. It does the same as
//! plugins/webapp, with server-side apply. It keeps its children in stores, so that it does not apply correct children
//! again.

mod api;
mod children;
mod status;

use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::{StreamExt, future};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{PredicateConfig, WatchStreamExt, predicates, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use api::WebApp;

/// The number of objects that are reconciled at the same time.
const CONCURRENT_RECONCILES_MAX: u16 = 8;

struct Context {
    client: Client,
    deployments: Store<Deployment>,
    services: Store<Service>,
    events: Recorder,
}

type Changes<K> = mpsc::UnboundedReceiver<Result<K, watcher::Error>>;

/// A store with all objects of a kind, and the stream of their changes. A separate task fills the store, even before
/// the controller starts or while the controller has reached its limit of concurrent objects.
fn watch<K>(client: &Client) -> (Store<K>, Changes<K>)
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    let (store, writer) = reflector::store();
    // Managed fields are removed, because nothing reads them.
    let events = watcher(Api::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|object: &mut K| object.managed_fields_mut().clear());
    let (sender, changes) = mpsc::unbounded();
    let sending = events.reflect(writer).touched_objects().for_each(move |change| {
        // This fails only after the controller has ended.
        let _ = sender.unbounded_send(change);
        future::ready(())
    });
    tokio::spawn(sending);
    (store, changes)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let client = Client::try_default().await?;
    let (webapps, changed_webapps) = watch::<WebApp>(&client);
    let (deployments, changed_deployments) = watch::<Deployment>(&client);
    let (services, changed_services) = watch::<Service>(&client);
    // With --pods, all Pods are also cached.
    let pods = std::env::args().any(|it| it == "--pods").then(|| watch::<Pod>(&client));
    let _pods = pods.map(|(store, changed)| {
        tokio::spawn(changed.for_each(|_| future::ready(())));
        store
    });
    // Otherwise, children that are not listed yet would seem to be missing.
    future::try_join3(webapps.wait_until_ready(), deployments.wait_until_ready(), services.wait_until_ready()).await?;
    println!("ready");
    let events = Recorder::new(client.clone(), "webapp".to_owned().into());
    let context = Arc::new(Context { client, deployments, services, events });
    let changed = changed_webapps.predicate_filter(predicates::generation, PredicateConfig::default());
    Controller::for_stream(changed, webapps)
        .owns_stream(changed_deployments)
        .owns_stream(changed_services)
        .with_config(Config::default().concurrency(CONCURRENT_RECONCILES_MAX))
        .shutdown_on_signal()
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), context)
        .for_each(|result| {
            if let Err(error) = result {
                eprintln!("{error}");
            }
            future::ready(())
        })
        .await;
    Ok(())
}

async fn reconcile(app: Arc<WebApp>, context: Arc<Context>) -> Result<Action, kube::Error> {
    if app.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes the children, because they have an owner.
        return Ok(Action::await_change());
    }
    let deployment = ensure(&app, &context, &context.deployments, children::deployment(&app)).await?;
    ensure(&app, &context, &context.services, children::service(&app)).await?;
    let status = status::status(&app, &deployment);
    if app.status.as_ref() != Some(&status) {
        let api = Api::<WebApp>::namespaced(context.client.clone(), &app.namespace().unwrap_or_default());
        let wanted = serde_json::json!({"apiVersion": api::API_VERSION, "kind": "WebApp", "status": status});
        api.patch_status(&app.name_any(), &apply(), &Patch::Apply(wanted)).await?;
    }
    Ok(Action::await_change())
}

/// Applies a child that differs from the wanted one, reports that with an Event, and returns the child.
async fn ensure<K>(app: &WebApp, context: &Context, store: &Store<K>, wanted: K) -> Result<Arc<K>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug,
    K: Serialize + DeserializeOwned + children::Child,
{
    let cached = store.get(&ObjectRef::from_obj(&wanted));
    if let Some(cached) = cached.as_ref().filter(|cached| children::is_right(&***cached, &wanted)) {
        return Ok(cached.clone());
    }
    let api = Api::<K>::namespaced(context.client.clone(), &app.namespace().unwrap_or_default());
    let applied = api.patch(&app.name_any(), &apply(), &Patch::Apply(&wanted)).await?;
    let (reason, action, what) = match cached {
        None => ("Created", "Create", "created"),
        Some(_) => ("Updated", "Update", "updated to the new spec"),
    };
    println!("applied a child, kind={}, reason={reason}", K::kind(&()));
    let event = Event {
        type_: EventType::Normal,
        reason: reason.into(),
        note: Some(format!("{} {}: {what}", K::kind(&()), app.name_any())),
        action: action.into(),
        secondary: Some(applied.object_ref(&())),
    };
    context.events.publish(&event, &app.object_ref(&())).await?;
    Ok(Arc::new(applied))
}

fn apply() -> PatchParams {
    PatchParams::apply("webapp").force()
}
