//! Files, sockets, HTTP, and what later versions of 0.2 add: whatever a component imports of them is there and refuses.
//!
//! A toolchain has its programs import these whether they use them or not. What to answer follows from the types that
//! the component brings along: an error that means "not permitted" where there is one, an empty list, no value. Only
//! where a type leaves no such answer is the guest stopped. So nothing here need be written for each of their functions.

use wasmtime::StoreContextMut;
use wasmtime::component::types::{ComponentFunc, ComponentItem, Type};
use wasmtime::component::{Component, Linker, LinkerInstance, Resource, ResourceType, Val};

use super::met::met_at;
use crate::state::CallState;
use crate::wasi_state::{Item, WasiError};

/// Interfaces of the packages below that do something (`wasi.wit`).
const GIVEN: [&str; 4] = ["wasi:cli/", "wasi:clocks/", "wasi:io/", "wasi:random/"];
/// … but for these, which are not a part of 0.2 for good.
const UNSTABLE: [&str; 1] = ["wasi:clocks/timezone@"];

/// The cases of WASI's error types that say so, the best first.
const REFUSALS: [&str; 5] = ["not-permitted", "access-denied", "HTTP-request-denied", "forbidden", "not-supported"];

/// An object of an interface that is only refused.
struct Nothing;

/// Defines in `linker` what `component` imports and is only refused.
pub(super) fn define(linker: &mut Linker<CallState>, component: &Component) -> wasmtime::Result<()> {
    let engine = linker.engine().clone();
    // Of all imports up to here: an interface names again what it takes from another, and that is defined there.
    let mut known = Vec::new();
    for (name, import) in component.component_type().imports(&engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        let is_refused = met_at(name).is_some() && !is_given(name);
        let mut defined = if is_refused { Some(linker.instance(name)?) } else { None };
        for (item, export) in instance.exports(&engine) {
            match (export.ty, &mut defined) {
                (ComponentItem::Resource(ty), defined) if !known.contains(&ty) => {
                    known.push(ty);
                    if let Some(defined) = defined {
                        define_resource(defined, item)?;
                    }
                }
                (ComponentItem::ComponentFunc(_), Some(defined)) => define_function(defined, name, item)?,
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_given(name: &str) -> bool {
    GIVEN.iter().any(|package| name.starts_with(package)) && !UNSTABLE.iter().any(|unstable| name.starts_with(unstable))
}

fn define_resource(linker: &mut LinkerInstance<'_, CallState>, name: &str) -> wasmtime::Result<()> {
    linker.resource(name, ResourceType::host::<Nothing>(), |mut store, handle| {
        Ok(store.data_mut().wasi().take_back(handle)?)
    })
}

fn define_function(linker: &mut LinkerInstance<'_, CallState>, interface: &str, name: &str) -> wasmtime::Result<()> {
    let called = format!("{interface}#{name}");
    linker.func_new(name, move |mut store, ty, _, results| {
        store.data_mut().meter.host_call()?;
        for (result, ty) in results.iter_mut().zip(answers(&ty)) {
            *result = refusal(&mut store, &ty)?.ok_or_else(|| WasiError::Refused(called.clone()))?;
        }
        Ok(())
    })
}

fn answers(ty: &ComponentFunc) -> Vec<Type> {
    ty.results().collect()
}

/// The value of type `ty` that says no. None: it has none.
fn refusal(store: &mut StoreContextMut<'_, CallState>, ty: &Type) -> wasmtime::Result<Option<Val>> {
    Ok(match ty {
        Type::Result(result) => match result.err() {
            None => Some(Val::Result(Err(None))),
            Some(error) => refusing_case(&error).map(|error| Val::Result(Err(Some(Box::new(error))))),
        },
        Type::List(_) => Some(Val::List(vec![])),
        Type::Option(_) => Some(Val::Option(None)),
        Type::Bool => Some(Val::Bool(false)),
        Type::Own(_) => {
            let handle = store.data_mut().wasi().give(Item::Nothing)?;
            Some(Val::Resource(Resource::<Nothing>::new_own(handle).try_into_resource_any(store)?))
        }
        _ => None,
    })
}

/// The case of an error type that says no. None: it has none.
fn refusing_case(error: &Type) -> Option<Val> {
    REFUSALS.into_iter().find_map(|refusal| match error {
        Type::Enum(ty) => ty.names().any(|name| name == refusal).then(|| Val::Enum(refusal.to_owned())),
        Type::Variant(ty) => {
            let has = ty.cases().any(|case| case.name == refusal && case.ty.is_none());
            has.then(|| Val::Variant(refusal.to_owned(), None))
        }
        _ => None,
    })
}
