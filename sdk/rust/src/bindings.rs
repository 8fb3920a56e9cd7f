//! The code that wit-bindgen generates from `wit/`, for what the SDK does not wrap. Plugins rarely need it.

// Generated code is wit-bindgen's: its style is not ours, and it documents only what the WIT files document.
#![allow(missing_docs, clippy::all, clippy::pedantic)]

// One `generate!` a world; the composer's will share the types of this one.
wit_bindgen::generate!({
    world: "reconciler-plugin",
    path: "../../wit",
    pub_export_macro: true,
    runtime_path: "::windlass_sdk::bindings::wit_bindgen::rt",
    additional_derives: [PartialEq],
});

#[doc(hidden)]
pub use wit_bindgen;
