//! Refusals for the imports of WASI that `wasmtime-wasi` and `wasmtime-wasi-http` lack: unstable interfaces, and
//! functions that later versions of 0.2 add.
//!
//! Toolchains make programs import these functions, whether the programs use them or not. The types in the component
//! determine the refusal: an error that means "not permitted" if there is one, an empty list, or no value. The guest
//! is stopped only if a type has no such answer. So no function needs code of its own here.
//!
//! The component is not trusted: its declarations of imports are limited before they are used.

use std::sync::Arc;

use wasmtime::StoreContextMut;
use wasmtime::component::types::{ComponentItem, Type};
use wasmtime::component::{Component, Linker, LinkerInstance, Resource, ResourceAny, ResourceTable, ResourceType, Val};
use wasmtime_wasi::p2::bindings::io::poll::HostPollable;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, IoError, Network};

use wasmtime_wasi_http::p2::body::{HostFutureTrailers, HostIncomingBody};
use wasmtime_wasi_http::p2::types::{HostIncomingResponse, HostOutgoingRequest, HostOutgoingResponse};
use wasmtime_wasi_http::{FieldMap, RequestOptions};

use super::met::met_at;
use crate::state::CallState;
use crate::wasi_http_state::{FutureResponse, OutgoingBody};
use crate::wasi_state::WasiError;

/// The version of WASI that `wasmtime-wasi` and `wasmtime-wasi-http` define. For an import of another 0.2.x, the linker
/// uses the instance with this version, and no other.
pub(super) const GIVEN_VERSION: &str = "0.2.12";

/// The cases of WASI's error types that mean a refusal, the best first.
const REFUSALS: [&str; 5] = ["not-permitted", "access-denied", "HTTP-request-denied", "forbidden", "not-supported"];

/// The maximum number of functions and types in all imported interfaces together. WASI 0.2 has about 400, including
/// HTTP.
const IMPORTED_ITEMS_MAX: usize = 2_048;
/// The maximum length of a name.
const SHOWN_NAME_BYTES_MAX: usize = 120;
/// The maximum number of types nested in the types of parameters.
const PARAMETER_TYPES_MAX: usize = 100_000;

/// An object of an interface that is only refused.
struct Nothing;

/// The component declares something that WASI does not have.
#[derive(Debug, thiserror::Error)]
#[error("its WASI imports declare something that WASI does not have: {0}")]
struct NotWasi(&'static str);

/// Makes `linker` refuse everything of WASI that `component` imports. Supported parts are defined later and replace
/// these refusals.
pub(super) fn define(linker: &mut Linker<CallState>, component: &Component) -> wasmtime::Result<()> {
    let engine = linker.engine().clone();
    // The resource types of the imports so far. An interface repeats the types that it takes from another interface;
    // only the interface that comes first defines them.
    let mut known = Vec::new();
    let (mut items, mut types) = (0, 0);
    for (name, import) in component.component_type().imports(&engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        items += instance.exports(&engine).len();
        if items > IMPORTED_ITEMS_MAX {
            return Err(NotWasi("thousands of functions").into());
        }
        let is_wasi = met_at(name).is_some();
        let interface: Arc<str> = if is_wasi { name.into() } else { Arc::default() };
        let mut defined = if is_wasi { Some(linker.instance(&in_given_version(name))?) } else { None };
        for (item, export) in instance.exports(&engine) {
            if is_wasi && name.len().max(item.len()) > SHOWN_NAME_BYTES_MAX {
                return Err(NotWasi("longer names").into());
            }
            match (export.ty, &mut defined) {
                (ComponentItem::Resource(ty), defined) if !known.contains(&ty) => {
                    known.push(ty);
                    if let Some(defined) = defined {
                        define_resource(defined, item)?;
                    }
                }
                (ComponentItem::ComponentFunc(ty), Some(defined)) => {
                    for (_, parameter) in ty.params() {
                        check(&parameter, false, &mut types)?;
                    }
                    define_function(defined, &interface, item)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// The name of the linker's instance for the import `name`.
fn in_given_version(name: &str) -> String {
    let interface = name.split_once('@').map_or(name, |(interface, _)| interface);
    format!("{interface}@{GIVEN_VERSION}")
}

/// Refuses types whose values need far more memory in the host than wasmtime charges the guest for: lists of flags,
/// because each set of flags is a list of names. `types` counts the examined types.
fn check(ty: &Type, is_repeated: bool, types: &mut usize) -> Result<(), NotWasi> {
    *types += 1;
    if *types > PARAMETER_TYPES_MAX {
        return Err(NotWasi("types without end"));
    }
    match ty {
        Type::Flags(_) if is_repeated => Err(NotWasi("lists of flags")),
        Type::List(list) => check(&list.ty(), true, types),
        Type::Record(record) => record.fields().try_for_each(|field| check(&field.ty, is_repeated, types)),
        Type::Tuple(tuple) => tuple.types().try_for_each(|ty| check(&ty, is_repeated, types)),
        Type::Variant(variant) => {
            variant.cases().filter_map(|case| case.ty).try_for_each(|ty| check(&ty, is_repeated, types))
        }
        Type::Option(option) => check(&option.ty(), is_repeated, types),
        Type::Result(result) => {
            result.ok().into_iter().chain(result.err()).try_for_each(|ty| check(&ty, is_repeated, types))
        }
        Type::Map(_) | Type::FixedLengthList(_) | Type::Future(_) | Type::Stream(_) | Type::ErrorContext => {
            Err(NotWasi("types of later versions"))
        }
        _ => Ok(()),
    }
}

fn define_resource(linker: &mut LinkerInstance<'_, CallState>, name: &str) -> wasmtime::Result<()> {
    linker.resource(name, ResourceType::host::<Nothing>(), |mut store, handle| {
        store.data_mut().table().delete(Resource::<Nothing>::new_own(handle))?;
        Ok(())
    })
}

fn define_function(
    linker: &mut LinkerInstance<'_, CallState>,
    interface: &Arc<str>,
    name: &str,
) -> wasmtime::Result<()> {
    let (interface, function) = (interface.clone(), Box::<str>::from(name));
    linker.func_new(name, move |mut store, ty, parameters, results| {
        store.data_mut().called().meter.host_call()?;
        parameters.iter().try_for_each(|parameter| let_go(&mut store, parameter))?;
        for (result, ty) in results.iter_mut().zip(ty.results()) {
            let refused = || WasiError::Refused(format!("{interface}#{function}"));
            *result = refusal(&mut store, &ty)?.ok_or_else(refused)?;
        }
        Ok(())
    })
}

/// Drops the handles within a parameter: wasmtime counts the borrowed handles, and the host now owns all others.
fn let_go(store: &mut StoreContextMut<'_, CallState>, value: &Val) -> wasmtime::Result<()> {
    match value {
        Val::Resource(handle) => let_handle_go(store, *handle),
        Val::List(values) | Val::Tuple(values) => values.iter().try_for_each(|value| let_go(store, value)),
        Val::Record(fields) => fields.iter().try_for_each(|(_, value)| let_go(store, value)),
        Val::Option(Some(value)) | Val::Variant(_, Some(value)) | Val::Result(Ok(Some(value)) | Err(Some(value))) => {
            let_go(store, value)
        }
        _ => Ok(()),
    }
}

fn let_handle_go(store: &mut StoreContextMut<'_, CallState>, handle: ResourceAny) -> wasmtime::Result<()> {
    macro_rules! of_any {
        ($($resource:ty => $delete:expr),*) => {
            $(if handle.ty() == ResourceType::host::<$resource>() {
                let resource = handle.try_into_resource::<$resource>(&mut *store)?;
                if handle.owned() {
                    let delete: fn(&mut ResourceTable, Resource<$resource>) -> wasmtime::Result<()> = $delete;
                    delete(store.data_mut().table(), resource)?;
                }
                return Ok(());
            })*
        };
    }
    of_any!(
        Nothing => delete,
        DynPollable => HostPollable::drop,
        DynInputStream => delete,
        DynOutputStream => delete,
        IoError => delete,
        Network => delete,
        FieldMap => delete,
        RequestOptions => delete,
        HostOutgoingRequest => delete,
        OutgoingBody => |table, body| {
            table.delete(body)?.abort();
            Ok(())
        },
        FutureResponse => delete,
        HostIncomingResponse => delete,
        HostIncomingBody => delete,
        HostFutureTrailers => delete,
        HostOutgoingResponse => delete
    );
    // A guest cannot have any other object.
    Err(WasiError::NoHandle.into())
}

fn delete<T: 'static>(table: &mut ResourceTable, resource: Resource<T>) -> wasmtime::Result<()> {
    table.delete(resource)?;
    Ok(())
}

/// The value of type `ty` that means a refusal. `None` if there is none.
fn refusal(store: &mut StoreContextMut<'_, CallState>, ty: &Type) -> wasmtime::Result<Option<Val>> {
    Ok(match ty {
        Type::Result(result) => match result.err() {
            None => Some(Val::Result(Err(None))),
            Some(error) => refusing_case(&error).map(|error| Val::Result(Err(Some(Box::new(error))))),
        },
        Type::List(_) => Some(Val::List(vec![])),
        Type::Option(_) => Some(Val::Option(None)),
        Type::Bool => Some(Val::Bool(false)),
        Type::Own(ty) if *ty == ResourceType::host::<Nothing>() => {
            let nothing = store.data_mut().table().push(Nothing)?;
            Some(Val::Resource(nothing.try_into_resource_any(store)?))
        }
        // A pollable for an operation that is refused: it is ready at once, and the operation then fails.
        Type::Own(ty) if *ty == ResourceType::host::<DynPollable>() => {
            let ready = store.data_mut().pollable_from(0)?;
            Some(Val::Resource(ready.try_into_resource_any(store)?))
        }
        _ => None,
    })
}

/// The case of an error type that means a refusal. `None` if there is none.
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
