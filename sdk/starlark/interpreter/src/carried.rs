//! The script, which the component contains and the host passes to it (`wit/script.wit`).

// wit-bindgen's generated code.
#![allow(missing_docs, unsafe_code, unreachable_pub, clippy::all, clippy::pedantic)]

windlass_sdk::bindings::wit_bindgen::generate!({
    inline: "package windlass:interpreter; world interprets { import windlass:plugin/script@0.3.0; }",
    world: "windlass:interpreter/interprets",
    path: "../../../wit",
    generate_all,
    runtime_path: "::windlass_sdk::bindings::wit_bindgen::rt",
});

pub(crate) use windlass::plugin::script::text;
