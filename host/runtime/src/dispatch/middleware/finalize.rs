//! Keeps a finalizer (ADR 8) around a plugin's calls: adds it before the first call, and removes it when the plugin is
//! done with an object that is being deleted.
//!
//! Both are the host's writes, under the finalizer role. If one fails, the call fails too: a plugin is not called about
//! an object that it could not clean up, and is asked again to clean up an object whose finalizer could not be removed.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_core::cache::overlay::WrittenState;
use windlass_core::cache::watch::WatchSpec;
use windlass_core::call::ports::{CallContext, Ports};
use windlass_core::defect::Defect;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::Object;
use windlass_core::object::finalizer::{self, FinalizerStep};
use windlass_core::queue::outcome::{CallResult, Failure};
use windlass_core::rights::grants::Grants;
use windlass_core::rights::principal::{Principal, Role};
use windlass_core::write::{Operation, PatchType, WriteOptions};
use windlass_wasm::{Called, Request};

use crate::dispatch::reconcile::{Call, Reconcile};
use crate::dispatch::route::Stores;

/// The finalizer that is kept on the primaries of one controller.
pub(crate) struct Finalized {
    inner: Box<dyn Reconcile>,
    name: String,
    /// The host, in the role that keeps finalizers.
    keeper: Arc<Principal>,
    /// The watch of the primaries. The result of a write is reduced to the fields that the plugin would have read.
    spec: WatchSpec,
}

impl Finalized {
    /// Keeps the finalizer of `plugin` on the primaries watched by `spec`, around the calls of `inner`.
    /// `finalizer_grants` are the host's rights for that.
    pub(crate) fn new(
        inner: Box<dyn Reconcile>,
        plugin: &Principal,
        finalizer_grants: Grants,
        spec: WatchSpec,
    ) -> Box<Self> {
        let keeper = Arc::new(plugin.in_role(Role::Finalizer, finalizer_grants));
        Box::new(Self { inner, name: finalizer::name(&plugin.plugin), keeper, spec })
    }

    async fn around(&self, call: Call<'_>) -> Called {
        let (ports, context) = (call.ports, call.context.clone());
        let Some(primary) = context.primary.clone() else {
            return self.inner.reconcile(call).await;
        };
        let finalizers = finalizer::of(&primary);
        match finalizer::step(primary.header.deleting, &finalizers, &self.name) {
            FinalizerStep::Call => self.inner.reconcile(call).await,
            FinalizerStep::Leave => Called::not_made(CallResult::Done),
            FinalizerStep::CleanUp => {
                let mut called = self.inner.reconcile(call).await;
                let is_done = called.result == CallResult::Done && !called.keeps_finalizer;
                if is_done || Defect::FinalizerGoesFirst.is_seeded() {
                    called.result = self.remove(ports, &context, primary).await;
                }
                called
            }
            FinalizerStep::AddFirst => match self.add(ports, &context, &primary, &finalizers).await {
                Ok(primary) => {
                    let request = Request { object: Some(primary.text()), ..call.request };
                    let context = Arc::new(CallContext { primary: Some(primary), ..(*context).clone() });
                    self.inner.reconcile(Call { request, context, ..call }).await
                }
                Err(failed) => Called::not_made(failed),
            },
        }
    }

    /// Adds the finalizer and returns the resulting object.
    async fn add(
        &self,
        ports: &Ports,
        call: &CallContext,
        primary: &Object,
        finalizers: &[String],
    ) -> Result<Object, CallResult> {
        // The host writes it in a role that no policy limits, but the operator's current policy decides whether it is
        // kept. Removal is not checked, because an object that no client may free would be worse.
        call.principal.grants.check_finalizer(&self.name).map_err(|denial| {
            let (kind, plugin) = (call.primary_kind.to_string(), &call.principal.plugin);
            let message = format!("the plugin {plugin} may not: {denial}");
            let error = ApiError::refused(ApiReason::NotGranted, "patch", kind, Some(call.primary_ref()), message);
            self.failed("added", error)
        })?;
        let patch = finalizer::addition(finalizers, &self.name);
        match self.patch(ports, call, primary, patch).await {
            Ok(Some(text)) => windlass_kube::object_of(&self.spec, &text).map_err(|error| {
                let message = format!("the API server's answer to adding the finalizer {} is {error}", self.name);
                CallResult::Failed(vec![Failure::Transient(message)])
            }),
            // A call that can write nothing leaves nothing to clean up. On a read-only host, the server usually tries
            // the write as a dry run and returns the resulting object. This error means that the write was not even
            // tried.
            Err(error) if error.reason == ApiReason::ReadOnly => Ok(primary.clone()),
            Ok(None) => Ok(primary.clone()),
            Err(error) => Err(self.failed("added", error)),
        }
    }

    /// Removes the finalizer from the primary in the state that the call has left it.
    async fn remove(&self, ports: &Ports, call: &CallContext, cached: Object) -> CallResult {
        let own = call.overlay.get(&call.primary_kind, &call.primary_key).and_then(|known| known.left);
        let primary = match own {
            Some(WrittenState::State(_, own)) => own,
            Some(WrittenState::Nothing(_)) => return CallResult::Done,
            // The cached state is the best known. If the object has changed since, the patch is a conflict.
            Some(WrittenState::Unkept(_)) | None => cached,
        };
        let Some(patch) = finalizer::removal(&finalizer::of(&primary), &self.name) else { return CallResult::Done };
        match self.patch(ports, call, &primary, patch).await {
            Ok(_) => {
                let known = call.overlay.get(&call.primary_kind, &call.primary_key);
                if known.is_some_and(|known| known.is_dry_run) {
                    return CallResult::Done;
                }
                tracing::info!(finalizer = self.name, "clean-up is done: the finalizer was removed");
                CallResult::Done
            }
            Err(_) if Defect::FinalizerIsLeftOn.is_seeded() => CallResult::Done,
            Err(error) => self.failed("removed", error),
        }
    }

    async fn patch(
        &self,
        ports: &Ports,
        call: &CallContext,
        primary: &Object,
        patch: String,
    ) -> Result<Option<Arc<str>>, ApiError> {
        let mut target = call.primary_ref();
        target.uid = Some(primary.header.uid.text());
        let options = WriteOptions {
            resource_version: Some(primary.header.version.to_string().into()),
            ..WriteOptions::default()
        };
        let call = CallContext { principal: self.keeper.clone(), ..call.clone() };
        let operation = Operation::Patch { target, patch_type: PatchType::Json, patch, options };
        let cpu_permit = call.cpu_permit.clone();
        cpu_permit.without(ports.ask(Arc::new(call), operation)).await
    }

    fn failed(&self, what: &str, mut error: ApiError) -> CallResult {
        if does_not_apply(&error) {
            error = ApiError { code: 409, reason: ApiReason::Conflict, status_reason: "Conflict".to_owned(), ..error };
        }
        error.message = format!("the finalizer {} could not be {what}: {}", self.name, error.message);
        CallResult::Failed(vec![Failure::Api(error)])
    }
}

impl Reconcile for Finalized {
    fn reconcile<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Called> {
        self.around(call).boxed()
    }
}

/// Whether a JSON patch did not apply. Then the object is no longer the one that the patch was made for, which is a
/// conflict. Servers report it as invalid, like an object that breaks its schema, but with this text.
fn does_not_apply(error: &ApiError) -> bool {
    error.reason == ApiReason::Invalid && error.message.contains("rejected our request due to an error in our request")
}

/// Logs if `primaries` carry the finalizer of `plugin`, which no longer keeps one: nothing would ever remove it.
pub(crate) fn warn_of_left_behind(primaries: &Stores, plugin: &str) {
    let finalizer = finalizer::name(plugin);
    let mut carrying = primaries.objects().filter(|object| finalizer::has(object, &finalizer));
    let Some(first) = carrying.next() else { return };
    tracing::warn!(
        plugin, finalizer, example = %first.header.key, objects = 1 + carrying.count(),
        "objects still carry the plugin's finalizer, which this version of it does not keep: once deleted, they would stay for \
         ever. Remove it with `windlass finalizers release {plugin}`"
    );
}

#[cfg(test)]
mod tests;
