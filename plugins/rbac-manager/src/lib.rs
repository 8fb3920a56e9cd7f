//! The rbac-manager plugin: bindings and service accounts for each `RBACDefinition`.
//!
//! This file reads, writes and reports. Pure functions in `wishes`, `bindings` and `accounts` decide.

mod accounts;
mod api;
mod bindings;
mod plugin_manifest;
mod wishes;

use std::time::Duration;

use serde_json::Value;
use windlass_sdk::manifest::Manifest;
use windlass_sdk::{
    ApiReason, Error, Failures, ObjectRef, Outcome, Reconciler, Request, cache, events, info, live, writes,
};

use accounts::AccountChange;
use api::{Binding, Definition, LABEL, MetadataOnly, RBAC_VERSION, ServiceAccount};
use bindings::{BindingChanges, WantedBinding};
use plugin_manifest::OWNER_INDEX;
use wishes::{AccountWish, Scope, Wishes};

#[cfg(test)]
mod tests;

/// The number of bindings that a call changes. The next call continues.
const CHANGES_PER_CALL_MAX: usize = 300;
/// The pause between two calls that share the changes of one definition.
const CONTINUATION_DELAY: Duration = Duration::from_secs(1);
/// The interval for checking a taken name again. No watch shows when it becomes free.
const TAKEN_BINDING_RETRY: Duration = Duration::from_mins(5);

struct Plugin;

impl Reconciler for Plugin {
    fn manifest() -> Manifest {
        plugin_manifest::manifest()
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        match request.object::<Definition>()? {
            // The garbage collector deletes what the definition owned.
            None => Ok(Outcome::Done),
            Some(_) if request.deleting => Ok(Outcome::Done),
            Some(definition) => reconcile(&definition),
        }
    }
}

windlass_sdk::plugin!(Plugin);

/// The result of a call so far.
#[derive(Default)]
struct Progress {
    created: usize,
    changed: usize,
    deleted: usize,
    is_name_taken: bool,
    failures: Failures,
}

fn reconcile(definition: &Definition) -> Result<Outcome, Failures> {
    let wishes = Wishes::of(definition).map_err(|mistakes| Failures::terminal(mistakes.join("; ")))?;
    let mut progress = Progress::default();
    for wish in &wishes.accounts {
        if let Err(error) = ensure_account(definition, wish, &mut progress) {
            progress.failures.push(error);
        }
    }
    let wanted = wanted_bindings(definition, &wishes)?;
    let mut owned: Vec<Binding> = Vec::new();
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        let found = cache::list(RBAC_VERSION, kind).index(OWNER_INDEX, &definition.metadata.uid);
        owned.extend(found.iter().collect::<Result<Vec<Binding>, Error>>()?);
    }
    let mut changes = bindings::differences(&wanted, &owned);
    let spares = spare_unknown_namespaces(&mut changes)?;
    let is_unfinished = limit(&mut changes) || spares;
    carry_out(definition, &changes, &mut progress);
    if let Err(error) = prune_accounts(definition, &wishes, &mut progress) {
        progress.failures.push(error);
    }
    report(&progress);
    let outcome = match (is_unfinished, progress.is_name_taken) {
        (true, _) => Outcome::requeue_after(CONTINUATION_DELAY),
        (false, true) => Outcome::requeue_after(TAKEN_BINDING_RETRY),
        (false, false) => Outcome::Done,
    };
    progress.failures.or(outcome)
}

/// The bindings that the definition asks for in the namespaces that exist now.
fn wanted_bindings(definition: &Definition, wishes: &Wishes) -> Result<Vec<WantedBinding>, Error> {
    let mut wanted = Vec::new();
    for grant in &wishes.grants {
        let name = format!("{}-{}-{}", definition.metadata.name, grant.entry, grant.role.name);
        let mut want = |namespace: Option<String>| {
            let (name, role, subjects) = (name.clone(), grant.role.clone(), grant.subjects.clone());
            wanted.push(WantedBinding { namespace, name, role, subjects });
        };
        match &grant.scope {
            Scope::Cluster => want(None),
            Scope::Namespace(namespace) if is_usable(namespace)? => want(Some(namespace.clone())),
            // A watch runs the definition when the namespace appears.
            Scope::Namespace(namespace) => info!("a namespace does not exist yet", namespace = namespace),
            Scope::Selected(selector) => {
                for namespace in cache::list("v1", "Namespace").labels(selector.to_string()).iter::<MetadataOnly>() {
                    let metadata = namespace?.metadata;
                    if !metadata.is_terminating() {
                        want(Some(metadata.name));
                    }
                }
            }
        }
    }
    Ok(wanted)
}

/// Whether a namespace exists and takes new objects.
fn is_usable(namespace: &str) -> Result<bool, Error> {
    let found: Option<MetadataOnly> = cache::get(&ObjectRef::cluster_scoped("v1", "Namespace", namespace))?;
    Ok(found.is_some_and(|namespace| !namespace.metadata.is_terminating()))
}

/// Leaves out deletions in namespaces that the cache does not show, because it may lag behind, and the bindings there
/// may be wanted. If the namespaces are gone, their bindings soon go, too. Returns whether it has left some out.
fn spare_unknown_namespaces(changes: &mut BindingChanges) -> Result<bool, Error> {
    let mut known = Vec::new();
    let total = changes.delete.len();
    for target in std::mem::take(&mut changes.delete) {
        let namespace = target.namespace.as_deref();
        let namespace = namespace.map(|name| ObjectRef::cluster_scoped("v1", "Namespace", name));
        let is_known = match namespace {
            Some(namespace) => cache::get::<MetadataOnly>(&namespace)?.is_some(),
            None => true,
        };
        if is_known {
            known.push(target);
        }
    }
    changes.delete = known;
    Ok(changes.delete.len() < total)
}

/// Leaves out the changes that are too many for a call. Returns whether it has left some out.
fn limit(changes: &mut BindingChanges) -> bool {
    let BindingChanges { create, patch, delete } = changes;
    let total = create.len() + patch.len() + delete.len();
    create.truncate(CHANGES_PER_CALL_MAX);
    patch.truncate(CHANGES_PER_CALL_MAX - create.len());
    delete.truncate(CHANGES_PER_CALL_MAX - create.len() - patch.len());
    total > CHANGES_PER_CALL_MAX
}

/// Creates before it deletes, so that subjects of a changed entry keep their access in between. If a binding could not
/// be created, none is deleted: one of them may be the binding that the new one replaces.
fn carry_out(definition: &Definition, changes: &BindingChanges, progress: &mut Progress) {
    let creates = writes::batch(changes.create.iter().map(|object| writes::create(object).owned().fields(&[]).into()));
    let mut has_all = true;
    for (object, result) in changes.create.iter().zip(creates) {
        has_all &= result.is_ok();
        match result {
            Ok(_) => progress.created += 1,
            Err(error) if error.is(ApiReason::AlreadyExists) => {
                resolve_taken_name(definition, object, progress).unwrap_or_else(|error| progress.failures.push(error));
            }
            Err(error) => progress.failures.push(error),
        }
    }
    let patches = changes
        .patch
        .iter()
        .map(|(target, version, patch)| writes::merge(target.clone(), patch).if_version(version).fields(&[]).into());
    for result in writes::batch(patches) {
        match result {
            Ok(_) => progress.changed += 1,
            Err(error) => progress.failures.push(error),
        }
    }
    if !has_all {
        return;
    }
    for result in writes::batch(changes.delete.iter().map(|target| writes::delete(target.clone()).into())) {
        match result {
            Ok(_) => progress.deleted += 1,
            Err(error) if error.is(ApiReason::NotFound) => {}
            Err(error) => progress.failures.push(error),
        }
    }
}

/// Another binding has the name of a new one. If the definition owns it, it has lost its label, by which the watch
/// finds it, and gets it back. Otherwise it stays as it is.
fn resolve_taken_name(definition: &Definition, object: &Value, progress: &mut Progress) -> Result<(), Error> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let target = ObjectRef {
        namespace: text("/metadata/namespace"),
        ..ObjectRef::cluster_scoped(
            RBAC_VERSION,
            text("/kind").unwrap_or_default(),
            text("/metadata/name").unwrap_or_default(),
        )
    };
    let Some(found) = live::get_metadata::<MetadataOnly>(&target)? else { return Ok(()) };
    if found.metadata.is_owned_by(&definition.metadata.uid) {
        let patch = serde_json::json!({"metadata": {"labels": {LABEL.0: LABEL.1}}});
        writes::merge(target, &patch).fields(&[]).send()?;
        progress.changed += 1;
        return Ok(());
    }
    progress.is_name_taken = true;
    events::warning("NameTaken", "Create", format!("{target} exists and is not of this definition: rename the entry"));
    Ok(())
}

fn ensure_account(definition: &Definition, wish: &AccountWish, progress: &mut Progress) -> Result<(), Error> {
    let target = ObjectRef::namespaced("v1", "ServiceAccount", &wish.namespace, &wish.name);
    let found: Option<ServiceAccount> = cache::get(&target)?;
    match accounts::wanted(&definition.metadata, wish, found.as_ref()) {
        AccountChange::Create(account) if is_usable(&wish.namespace)? => {
            writes::create(&account).fields(&[]).send()?;
            progress.created += 1;
        }
        AccountChange::Patch(patch) => patch_account(target, found, &patch, progress)?,
        AccountChange::Foreign(Some(note)) => events::warning("ServiceAccountNotManaged", "Update", note),
        AccountChange::Create(_) | AccountChange::Foreign(None) | AccountChange::Leave | AccountChange::Delete => {}
    }
    Ok(())
}

fn patch_account(
    target: ObjectRef,
    found: Option<ServiceAccount>,
    patch: &Value,
    progress: &mut Progress,
) -> Result<(), Error> {
    let version = found.map(|found| found.metadata.resource_version).unwrap_or_default();
    writes::merge(target, patch).if_version(version).fields(&[]).send()?;
    progress.changed += 1;
    Ok(())
}

/// Deletes the service accounts that no definition wants any more, and leaves those that another one owns to it.
fn prune_accounts(definition: &Definition, wishes: &Wishes, progress: &mut Progress) -> Result<(), Error> {
    let owned = cache::list("v1", "ServiceAccount").index(OWNER_INDEX, &definition.metadata.uid);
    for account in owned.iter::<ServiceAccount>() {
        let account = account?;
        let metadata = &account.metadata;
        let namespace = metadata.namespace.clone().unwrap_or_default();
        if wishes.accounts.iter().any(|it| it.namespace == namespace && it.name == metadata.name) {
            continue;
        }
        let target = ObjectRef::namespaced("v1", "ServiceAccount", namespace, &metadata.name).with_uid(&metadata.uid);
        match accounts::unwanted(&definition.metadata, &account) {
            AccountChange::Delete => {
                writes::delete(target).send()?;
                progress.deleted += 1;
            }
            AccountChange::Patch(patch) => patch_account(target, Some(account), &patch, progress)?,
            AccountChange::Leave | AccountChange::Create(_) | AccountChange::Foreign(_) => {}
        }
    }
    Ok(())
}

fn report(progress: &Progress) {
    let Progress { created, changed, deleted, .. } = progress;
    if created + changed + deleted > 0 {
        info!("brought access up to date", created = created, changed = changed, deleted = deleted);
        let note = format!("created {created}, changed {changed} and deleted {deleted} bindings and service accounts");
        events::normal("Reconciled", "Reconcile", note);
    }
}
