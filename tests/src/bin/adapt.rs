//! `adapt WIT MODULE COMPONENT` turns a module for wasip1 into a component with the standard adapter, as `wasm-tools
//! component embed` and `wasm-tools component new --adapt` do. `tools/build-stock` uses it.

use std::path::PathBuf;

use anyhow::{Context, bail};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const WORLD: &str = "reconciler-plugin";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [wit, module, component] = &arguments[..] else { bail!("usage: adapt WIT MODULE COMPONENT") };
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).with_context(|| format!("read {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    let mut module = std::fs::read(module).with_context(|| format!("read {}", module.display()))?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    let encoder = ComponentEncoder::default().validate(true).module(&module)?;
    let mut encoder = encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?;
    std::fs::write(component, encoder.encode()?).with_context(|| format!("write {}", component.display()))
}
