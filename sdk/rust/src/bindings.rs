//! The code that wit-bindgen generates from `wit/`, for what the SDK does not wrap. Plugins rarely need it.

// Generated code is wit-bindgen's: its style is not ours, and it documents only what the WIT files document.
#![allow(missing_docs, clippy::all, clippy::pedantic)]

wit_bindgen::generate!({
    world: "reconciler-plugin",
    path: "../../wit",
    pub_export_macro: true,
    runtime_path: "::windlass_sdk::bindings::wit_bindgen::rt",
    additional_derives: [PartialEq],
});

/// The composer's world. It has the other's types and imports, so that what the SDK wraps serves both.
///
/// Whichever world a plugin exports, the component imports only what the plugin calls.
pub mod composer {
    wit_bindgen::generate!({
        world: "composer-plugin",
        path: "../../wit",
        pub_export_macro: true,
        runtime_path: "::windlass_sdk::bindings::wit_bindgen::rt",
        additional_derives: [PartialEq],
        with: {
            "windlass:plugin/types@0.2.0": ::windlass_sdk::bindings::windlass::plugin::types,
            "windlass:plugin/log@0.2.0": ::windlass_sdk::bindings::windlass::plugin::log,
            "windlass:plugin/clock@0.2.0": ::windlass_sdk::bindings::windlass::plugin::clock,
            "windlass:plugin/random@0.2.0": ::windlass_sdk::bindings::windlass::plugin::random,
            "windlass:plugin/config@0.2.0": ::windlass_sdk::bindings::windlass::plugin::config,
        },
    });
}

#[doc(hidden)]
pub use wit_bindgen;
