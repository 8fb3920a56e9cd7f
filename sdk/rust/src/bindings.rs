//! The code that wit-bindgen generates from `wit/`, for functions that the SDK does not wrap. Plugins rarely need it.

// This code has wit-bindgen's style, and is documented only as far as the WIT files are.
#![allow(missing_docs, clippy::all, clippy::pedantic)]

wit_bindgen::generate!({
    world: "reconciler-plugin",
    path: "../../wit",
    pub_export_macro: true,
    runtime_path: "::windlass_sdk::bindings::wit_bindgen::rt",
    additional_derives: [PartialEq],
});

/// The composer's world. It shares the reconciler's types and imports, so the SDK's wrappers serve both.
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
            "windlass:plugin/types@0.3.0": ::windlass_sdk::bindings::windlass::plugin::types,
            "windlass:plugin/log@0.3.0": ::windlass_sdk::bindings::windlass::plugin::log,
            "windlass:plugin/clock@0.3.0": ::windlass_sdk::bindings::windlass::plugin::clock,
            "windlass:plugin/random@0.3.0": ::windlass_sdk::bindings::windlass::plugin::random,
            "windlass:plugin/config@0.3.0": ::windlass_sdk::bindings::windlass::plugin::config,
        },
    });
}

/// The optional export `mapper` of a reconciler.
pub mod mapper {
    wit_bindgen::generate!({
        inline: "package windlass:sdk-mapper; world maps { export windlass:plugin/mapper@0.3.0; }",
        world: "windlass:sdk-mapper/maps",
        path: "../../wit",
        pub_export_macro: true,
        runtime_path: "::windlass_sdk::bindings::wit_bindgen::rt",
        additional_derives: [PartialEq],
        with: { "windlass:plugin/types@0.3.0": ::windlass_sdk::bindings::windlass::plugin::types },
    });
}

/// The optional export `customize` of a composer.
pub mod customize {
    wit_bindgen::generate!({
        inline: "package windlass:sdk-customize; world customizes { export windlass:plugin/customize@0.3.0; }",
        world: "windlass:sdk-customize/customizes",
        path: "../../wit",
        pub_export_macro: true,
        runtime_path: "::windlass_sdk::bindings::wit_bindgen::rt",
        additional_derives: [PartialEq],
        with: { "windlass:plugin/types@0.3.0": ::windlass_sdk::bindings::windlass::plugin::types },
    });
}

#[doc(hidden)]
pub use wit_bindgen;
