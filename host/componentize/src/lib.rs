//! Turns the output of a language's own compiler into a plugin: a core module becomes a component that imports only
//! Windlass.
//!
//! `windlass build` calls it, so that an author needs no other tool. The language compiles, and `windlass-wasm` runs
//! the result; this crate only reads and writes bytes.

mod adapter;
mod imports;
mod python;
mod sections;
mod world;

use wasm_encoder::{ProducersField, ProducersSection, Section};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

use self::world::{Interface, known};

pub use self::imports::Foreign;
pub use self::world::InterfaceVersion;

/// The reason why a file cannot be turned into a plugin.
#[derive(Debug, thiserror::Error)]
pub enum ComponentizeError {
    /// It is not WebAssembly, or is damaged.
    #[error("it is not a WebAssembly module: {0}")]
    NotWasm(String),
    /// It exports no interface of Windlass.
    #[error(
        "it is no plugin: it exports none of {}. Is the plugin registered with the SDK, and built as a library?",
        known()
    )]
    NoPlugin,
    /// It exports a version of the interface that this Windlass does not know.
    #[error(
        "it exports `{found}`, and this windlass knows {}: build it with the SDK of this windlass, or get the windlass that its \
         SDK is for",
        known()
    )]
    OtherAbi {
        /// The interface that the module exports.
        found: String,
    },
    /// It exports the interfaces of both kinds of plugins.
    #[error("it is both a reconciler and a composer: a plugin is one of the two")]
    Both,
    /// It needs imports that neither Windlass nor the adapter provides.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// It does not fit the interface.
    #[error("it does not fit Windlass's interface: {0}")]
    Misfit(String),
}

/// Turns a core module into a component, without the names of its parts. If it contains a known runtime of Python, the
/// runtime is changed so that it frees its memory. A component as input gets the same changes.
///
/// A module without the section that describes its world, as `wit-bindgen go` produces, gets the world of the interface
/// that it exports.
///
/// # Errors
///
///
/// Mistakes that the plugin's author must fix.
pub fn componentize(module: &[u8]) -> Result<Vec<u8>, ComponentizeError> {
    let shape = Shape::of(module).map_err(|error| ComponentizeError::NotWasm(error.to_string()))?;
    if shape.is_component {
        return finished(module);
    }
    let interface = world::exported(&shape.exports)?;
    imports::check(&shape.imports)?;
    let component = encode(module, &shape, interface);
    finished(&component.map_err(|error| ComponentizeError::Misfit(format!("{error:#}")))?)
}

/// Adds the name of the author's language to the component. If an interpreter runs the code, the tools themselves do
/// not record the language.
#[must_use]
pub fn labelled(mut component: Vec<u8>, language: &str) -> Vec<u8> {
    let mut languages = ProducersField::new();
    languages.value(language, "");
    ProducersSection::new().field("language", &languages).append_to(&mut component);
    component
}

fn finished(component: &[u8]) -> Result<Vec<u8>, ComponentizeError> {
    sections::finished(component).map_err(|error| ComponentizeError::NotWasm(error.to_string()))
}

fn encode(module: &[u8], shape: &Shape, interface: Interface) -> anyhow::Result<Vec<u8>> {
    let mut module = module.to_vec();
    if !shape.has_world {
        let (resolve, world) = world::resolve(&interface.world(&shape.exports), interface.version)?;
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    }
    let adapter = adapter::module(&module, interface.version)?;
    let encoder = ComponentEncoder::default().validate(true).module(&module)?;
    encoder.adapter(imports::WASI, &adapter)?.encode()
}

/// The parts of a module that this crate needs to know.
#[derive(Default)]
struct Shape {
    is_component: bool,
    /// Whether it has a section that describes its world.
    has_world: bool,
    /// Module and name.
    imports: Vec<(String, String)>,
    exports: Vec<String>,
}

impl Shape {
    fn of(bytes: &[u8]) -> Result<Self, wasmparser::BinaryReaderError> {
        let mut shape = Self::default();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::Version { encoding: Encoding::Component, .. } => {
                    return Ok(Self { is_component: true, ..Self::default() });
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        let import = import?;
                        shape.imports.push((import.module.to_owned(), import.name.to_owned()));
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        shape.exports.push(export?.name.to_owned());
                    }
                }
                Payload::CustomSection(section) if section.name().starts_with("component-type") => {
                    shape.has_world = true;
                }
                _ => {}
            }
        }
        Ok(shape)
    }
}
