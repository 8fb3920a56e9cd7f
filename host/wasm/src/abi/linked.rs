//! Links components of every version, and calls their exports with the types of the newest version.

use std::sync::Arc;

use wasmtime::component::{Component, InstancePre, Linker as ComponentLinker};
use wasmtime::{Engine, Store};
use windlass_core::cache::mapping::Target;
use windlass_core::cache::related::RelatedRule;
use windlass_core::call::compose::Composition;
use windlass_core::queue::outcome::CallResult;
use windlass_manifest::EntryPoint;

use super::imports::Imports;
use super::v0_3_0::optional::{customize_bindings, mapper_bindings};
use super::v0_3_0::{bindings, compose, composer_bindings, convert, optional};
use super::{AbiVersion, v0_2_0, v0_3_0};
use crate::entry::Export;
use crate::request::{ChangeBatch, CompositionRequest, Request};
use crate::state::CallState;
use crate::wasi;

/// Provides a component with the imports of its version that its entry point may use.
pub(crate) struct Linker {
    v0_2_0: Imports,
    v0_3_0: Imports,
}

/// A component whose imports and exports have been checked, ready to be instantiated.
pub(crate) struct LinkedPlugin {
    exports: LinkedExports,
    /// The component's script, if it has one.
    pub(crate) script: Option<Arc<str>>,
}

/// The exports of a component, by its version and its entry point.
enum LinkedExports {
    /// A reconciler, with its mapper if it exports one.
    Reconciler(bindings::ReconcilerPluginPre<CallState>, Option<mapper_bindings::MapsPre<CallState>>),
    /// A composer, with its `customize` if it exports one.
    Composer(composer_bindings::ComposerPluginPre<CallState>, Option<customize_bindings::CustomizesPre<CallState>>),
    ReconcilerV0_2_0(
        v0_2_0::reconciler_bindings::ReconcilesPre<CallState>,
        Option<v0_2_0::mapper_bindings::MapsPre<CallState>>,
    ),
    ComposerV0_2_0(
        v0_2_0::composer_bindings::ComposesPre<CallState>,
        Option<v0_2_0::customize_bindings::CustomizesPre<CallState>>,
    ),
}

/// A fresh instance, reduced to the export that is called.
pub(crate) enum Instance {
    Reconciler(bindings::ReconcilerPlugin),
    Composer(composer_bindings::ComposerPlugin),
    Mapper(mapper_bindings::Maps),
    Customize(customize_bindings::Customizes),
    ReconcilerV0_2_0(v0_2_0::reconciler_bindings::Reconciles),
    ComposerV0_2_0(v0_2_0::composer_bindings::Composes),
    MapperV0_2_0(v0_2_0::mapper_bindings::Maps),
    CustomizeV0_2_0(v0_2_0::customize_bindings::Customizes),
}

/// The host has called an export that the plugin does not have.
#[derive(Debug, thiserror::Error)]
#[error("the host called an export that the plugin does not have: `{wanted}`")]
pub(crate) struct WrongEntryPoint {
    pub(crate) wanted: &'static str,
}

impl Linker {
    /// Defines the imports of all versions.
    pub(crate) fn new(engine: &Engine) -> wasmtime::Result<Self> {
        Ok(Self { v0_2_0: v0_2_0::imports(engine)?, v0_3_0: v0_3_0::imports(engine)? })
    }

    /// Checks the types of `component`'s imports and exports. `script` is the component's script.
    pub(crate) fn link(
        &self,
        component: &Component,
        entry: EntryPoint,
        abi: AbiVersion,
        script: Option<Arc<str>>,
    ) -> wasmtime::Result<LinkedPlugin> {
        let imports = match abi {
            AbiVersion::V0_2_0 => &self.v0_2_0,
            AbiVersion::V0_3_0 => &self.v0_3_0,
        };
        let (linker, optional) = match entry {
            EntryPoint::Reconciler => (&imports.reconcilers, "mapper"),
            EntryPoint::Composer => (&imports.composers, "customize"),
        };
        let instance = link(linker, component)?;
        let has_optional = has_export(linker, component, &format!("windlass:plugin/{optional}@{abi}"));
        Ok(LinkedPlugin { exports: LinkedExports::of(instance, entry, abi, has_optional)?, script })
    }
}

impl LinkedExports {
    fn of(
        linked: InstancePre<CallState>,
        entry: EntryPoint,
        abi: AbiVersion,
        has_optional: bool,
    ) -> wasmtime::Result<Self> {
        let optional = has_optional.then(|| linked.clone());
        Ok(match (abi, entry) {
            (AbiVersion::V0_2_0, EntryPoint::Reconciler) => Self::ReconcilerV0_2_0(
                v0_2_0::reconciler_bindings::ReconcilesPre::new(linked)?,
                optional.map(v0_2_0::mapper_bindings::MapsPre::new).transpose()?,
            ),
            (AbiVersion::V0_2_0, EntryPoint::Composer) => Self::ComposerV0_2_0(
                v0_2_0::composer_bindings::ComposesPre::new(linked)?,
                optional.map(v0_2_0::customize_bindings::CustomizesPre::new).transpose()?,
            ),
            (AbiVersion::V0_3_0, EntryPoint::Reconciler) => Self::Reconciler(
                bindings::ReconcilerPluginPre::new(linked)?,
                optional.map(mapper_bindings::MapsPre::new).transpose()?,
            ),
            (AbiVersion::V0_3_0, EntryPoint::Composer) => Self::Composer(
                composer_bindings::ComposerPluginPre::new(linked)?,
                optional.map(customize_bindings::CustomizesPre::new).transpose()?,
            ),
        })
    }
}

fn has_export(linker: &ComponentLinker<CallState>, component: &Component, name: &str) -> bool {
    component.component_type().exports(linker.engine()).any(|(export, _)| export == name)
}

/// Links `component`. If it imports WASI, the linker is first extended for this component: its imports determine which
/// refusals are needed.
fn link(linker: &ComponentLinker<CallState>, component: &Component) -> wasmtime::Result<InstancePre<CallState>> {
    let ty = component.component_type();
    if !ty.imports(linker.engine()).any(|(name, _)| wasi::met_at(name).is_some()) {
        return linker.instantiate_pre(component);
    }
    let mut linker = linker.clone();
    wasi::define(&mut linker, component)?;
    linker.instantiate_pre(component)
}

impl LinkedPlugin {
    pub(crate) fn component(&self) -> &Component {
        match &self.exports {
            LinkedExports::Reconciler(linked, _) => linked.instance_pre().component(),
            LinkedExports::Composer(linked, _) => linked.instance_pre().component(),
            LinkedExports::ReconcilerV0_2_0(linked, _) => linked.instance_pre().component(),
            LinkedExports::ComposerV0_2_0(linked, _) => linked.instance_pre().component(),
        }
    }

    /// Whether the component exports `mapper` (a reconciler) or `customize` (a composer).
    pub(crate) fn has_optional(&self) -> bool {
        match &self.exports {
            LinkedExports::Reconciler(_, mapper) => mapper.is_some(),
            LinkedExports::Composer(_, customize) => customize.is_some(),
            LinkedExports::ReconcilerV0_2_0(_, mapper) => mapper.is_some(),
            LinkedExports::ComposerV0_2_0(_, customize) => customize.is_some(),
        }
    }

    /// Creates an instance to call `export`.
    pub(crate) async fn instantiate(&self, store: &mut Store<CallState>, export: Export) -> wasmtime::Result<Instance> {
        use LinkedExports::{Composer, ComposerV0_2_0, Reconciler, ReconcilerV0_2_0};
        match (&self.exports, export) {
            (Reconciler(linked, _), Export::Entry) => linked.instantiate_async(store).await.map(Instance::Reconciler),
            (Composer(linked, _), Export::Entry) => linked.instantiate_async(store).await.map(Instance::Composer),
            (Reconciler(_, Some(mapper)), Export::Mapper) => {
                mapper.instantiate_async(store).await.map(Instance::Mapper)
            }
            (Composer(_, Some(customize)), Export::Customize) => {
                customize.instantiate_async(store).await.map(Instance::Customize)
            }
            (ReconcilerV0_2_0(linked, _), Export::Entry) => {
                linked.instantiate_async(store).await.map(Instance::ReconcilerV0_2_0)
            }
            (ComposerV0_2_0(linked, _), Export::Entry) => {
                linked.instantiate_async(store).await.map(Instance::ComposerV0_2_0)
            }
            (ReconcilerV0_2_0(_, Some(mapper)), Export::Mapper) => {
                mapper.instantiate_async(store).await.map(Instance::MapperV0_2_0)
            }
            (ComposerV0_2_0(_, Some(customize)), Export::Customize) => {
                customize.instantiate_async(store).await.map(Instance::CustomizeV0_2_0)
            }
            (_, Export::Mapper) => Err(WrongEntryPoint { wanted: "mapper" }.into()),
            (_, Export::Customize) => Err(WrongEntryPoint { wanted: "customize" }.into()),
        }
    }
}

impl Instance {
    pub(crate) async fn describe(&self, store: &mut Store<CallState>) -> wasmtime::Result<String> {
        match self {
            Self::Reconciler(instance) => instance.windlass_plugin_reconciler().call_describe(store).await,
            Self::Composer(instance) => instance.windlass_plugin_composer().call_describe(store).await,
            Self::ReconcilerV0_2_0(instance) => instance.windlass_plugin_reconciler().call_describe(store).await,
            Self::ComposerV0_2_0(instance) => instance.windlass_plugin_composer().call_describe(store).await,
            _ => Err(WrongEntryPoint { wanted: "describe" }.into()),
        }
    }

    pub(crate) async fn reconcile(
        &self,
        store: &mut Store<CallState>,
        request: &Request,
    ) -> wasmtime::Result<CallResult> {
        let request = convert::request(request);
        let answer = match self {
            Self::Reconciler(instance) => instance.windlass_plugin_reconciler().call_reconcile(store, &request).await?,
            Self::ReconcilerV0_2_0(instance) => {
                let answer = instance.windlass_plugin_reconciler().call_reconcile(store, &request).await?;
                answer.map(v0_2_0::outcome)
            }
            _ => return Err(WrongEntryPoint { wanted: "reconcile" }.into()),
        };
        Ok(convert::call_result(answer))
    }

    /// Calls `compose`. The error is the plugin's own description of its failure.
    pub(crate) async fn compose(
        &self,
        store: &mut Store<CallState>,
        request: &CompositionRequest,
    ) -> wasmtime::Result<Result<Composition, CallResult>> {
        let request = compose::request(request);
        let answer = match self {
            Self::Composer(instance) => instance.windlass_plugin_composer().call_compose(store, &request).await?,
            Self::ComposerV0_2_0(instance) => {
                let request = v0_2_0::composition_request(request);
                let answer = instance.windlass_plugin_composer().call_compose(store, &request).await?;
                answer.map(v0_2_0::composition)
            }
            _ => return Err(WrongEntryPoint { wanted: "compose" }.into()),
        };
        Ok(compose::answer(answer))
    }

    /// Calls `matches`, and returns for each change whether it passes the plugin's predicate. The error is the plugin's
    /// own description of its failure, or says what is wrong with its answer.
    pub(crate) async fn matches(
        &self,
        store: &mut Store<CallState>,
        batch: &ChangeBatch,
    ) -> wasmtime::Result<Result<Vec<bool>, String>> {
        // A mapper of 0.2.0 has no predicate, so no manifest asks for it.
        let Self::Mapper(instance) = self else { return Err(WrongEntryPoint { wanted: "matches" }.into()) };
        let request = optional::batch(batch);
        let answer = instance.windlass_plugin_mapper().call_matches(store, &request).await?;
        Ok(optional::matched(answer, batch.changes.len()))
    }

    /// Calls `map`, and returns the targets of each change. The error is the plugin's own description of its failure,
    /// or says what is wrong with its answer.
    pub(crate) async fn map(
        &self,
        store: &mut Store<CallState>,
        batch: &ChangeBatch,
    ) -> wasmtime::Result<Result<Vec<Vec<Target>>, String>> {
        let request = optional::batch(batch);
        let answer = match self {
            Self::Mapper(instance) => instance.windlass_plugin_mapper().call_map(store, &request).await?,
            Self::MapperV0_2_0(instance) => {
                let request = v0_2_0::change_batch(request);
                instance.windlass_plugin_mapper().call_map(store, &request).await?.map(v0_2_0::targets)
            }
            _ => return Err(WrongEntryPoint { wanted: "map" }.into()),
        };
        Ok(optional::targets(answer, batch.changes.len()))
    }

    /// Calls `customize`. The error is the plugin's own description of its failure, or says what is wrong with its
    /// answer.
    pub(crate) async fn customize(
        &self,
        store: &mut Store<CallState>,
        request: &Request,
    ) -> wasmtime::Result<Result<Vec<RelatedRule>, CallResult>> {
        let request = convert::request(request);
        let answer = match self {
            Self::Customize(instance) => instance.windlass_plugin_customize().call_customize(store, &request).await?,
            Self::CustomizeV0_2_0(instance) => {
                let answer = instance.windlass_plugin_customize().call_customize(store, &request).await?;
                answer.map(v0_2_0::related_rules)
            }
            _ => return Err(WrongEntryPoint { wanted: "customize" }.into()),
        };
        Ok(optional::related_rules(answer))
    }
}
