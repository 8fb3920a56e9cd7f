//! The functions that a script may call: the host's interfaces by name, and some functions that belong to no interface.
//!
//! A composer has only the imports of its world, so the other functions are not compiled into it.

mod basics;
#[cfg(feature = "reconciler")]
mod cache;
mod errors;
pub(crate) mod events;
#[cfg(feature = "reconciler")]
mod http;
#[cfg(feature = "reconciler")]
mod live;
mod log;
#[cfg(feature = "reconciler")]
mod metrics;
mod objects;
#[cfg(feature = "reconciler")]
mod owners;
mod world;
#[cfg(feature = "reconciler")]
mod writes;

pub(crate) use self::log::Printed;

use starlark::environment::{Globals, GlobalsBuilder, LibraryExtension};
#[cfg(feature = "reconciler")]
use starlark::values::{Heap, Value};

use crate::arguments::wrong;
use crate::script;

/// All names that a script may use.
pub(crate) fn globals() -> Globals {
    let standard = [LibraryExtension::StructType, LibraryExtension::Filter, LibraryExtension::Print];
    let globals = GlobalsBuilder::extended_by(&standard)
        .with(basics::functions)
        .with(errors::functions)
        .with(objects::functions)
        .with(events::functions)
        .with_namespace("errors", errors::values)
        .with_namespace("conditions", objects::conditions)
        .with_namespace("json", basics::json)
        .with_namespace("log", log::functions)
        .with_namespace("clock", world::clock)
        .with_namespace("random", world::random)
        .with_namespace("config", world::config);
    of_the_world(globals).build()
}

#[cfg(feature = "reconciler")]
fn of_the_world(globals: GlobalsBuilder) -> GlobalsBuilder {
    globals
        .with(basics::outcomes)
        .with_namespace("cache", cache::functions)
        .with_namespace("live", live::functions)
        .with_namespace("writes", writes::functions)
        .with_namespace("owners", owners::functions)
        .with_namespace("events", events::emitting)
        .with_namespace("metrics", metrics::functions)
        .with_namespace("triggers", world::triggers)
        .with_namespace("http", http::functions)
}

#[cfg(feature = "composer")]
fn of_the_world(globals: GlobalsBuilder) -> GlobalsBuilder {
    globals.with(basics::compositions)
}

/// Refuses a host function while the script is read and while the host asks for the manifest.
fn in_call(function: &str) -> starlark::Result<()> {
    if script::is_in_call() {
        return Ok(());
    }
    let at = "it was called at the top level of the script or for the manifest, where there is no host";
    Err(wrong(format!("{function} works only within a call, and {at}: call it in a function that the call runs")))
}

/// An object that may be missing.
#[cfg(feature = "reconciler")]
fn optional_object(heap: Heap<'_>, text: Option<String>) -> starlark::Result<Value<'_>> {
    match text {
        Some(text) => object(heap, &text),
        None => Ok(Value::new_none()),
    }
}

/// An object from the host.
#[cfg(feature = "reconciler")]
fn object<'v>(heap: Heap<'v>, text: &str) -> starlark::Result<Value<'v>> {
    Ok(crate::values::from_json(heap, text, "the host's response")?)
}
