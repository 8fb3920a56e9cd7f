//! Makes variants of a plugin from its built component: with another manifest, or with calls that trap. Everything else
//! stays the same.

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::Value;
use wasm_encoder::{CodeSection, Component, Function, InstructionSink, MemArg, Module, RawSection, ValType};
use wasmparser::{BinaryReader, CodeSectionReader, ExportSectionReader, ExternalKind, ImportSectionReader, TypeRef};

/// The id of a component's section that holds a core module.
const CORE_MODULE: u8 = 1;
/// The ids of the sections of a core module that this module reads.
const IMPORT_SECTION: u8 = 2;
const EXPORT_SECTION: u8 = 7;
const CODE_SECTION: u8 = 10;

/// The length of the header of a module or component, which is the magic number and the version.
const BINARY_HEADER_BYTES: usize = 8;

/// Returns `component` with a `describe` that returns `manifest`.
pub fn with_manifest(component: &[u8], manifest: &Value) -> anyhow::Result<Vec<u8>> {
    let text = manifest.to_string();
    altered(component, "#describe", |module| returns(&text, module.function("cabi_realloc")?))
}

/// Returns `component` with a `reconcile` that always traps.
pub fn trapping(component: &[u8]) -> anyhow::Result<Vec<u8>> {
    altered(component, "#reconcile", |_| {
        let mut body = Function::new([]);
        body.instructions().unreachable().end();
        Ok(body)
    })
}

/// Returns `component` with another body for one function. The function is the one that the component exports from a
/// plugin interface under a name that ends with `end`.
fn altered(
    component: &[u8],
    end: &str,
    body: impl Fn(&CoreModule<'_>) -> anyhow::Result<Function>,
) -> anyhow::Result<Vec<u8>> {
    let mut made = Component::new();
    let mut is_altered = false;
    for (id, data) in sections(component)? {
        let module = if id == CORE_MODULE { Some(CoreModule::read(data)?) } else { None };
        let exported = module.and_then(|module| Some((module.exported_from_plugin(end)?, module)));
        if let Some((function, module)) = exported {
            let module = module.with_body(function, &body(&module)?)?;
            made.section(&RawSection { id, data: &module });
            is_altered = true;
        } else {
            made.section(&RawSection { id, data });
        }
    }
    anyhow::ensure!(is_altered, "the component exports no function {end} of a plugin");
    Ok(made.finish())
}

/// Splits a module or a component into its sections, each with its id and contents.
fn sections(binary: &[u8]) -> anyhow::Result<Vec<(u8, &[u8])>> {
    let mut reader = BinaryReader::new(
        binary.get(BINARY_HEADER_BYTES..).context("the file is too short for WebAssembly")?,
        BINARY_HEADER_BYTES,
    );
    let mut sections = Vec::new();
    while !reader.eof() {
        let (id, length) = (reader.read_u8()?, reader.read_var_u32()?);
        sections.push((id, reader.read_bytes(usize::try_from(length)?)?));
    }
    Ok(sections)
}

/// A core module within a component.
struct CoreModule<'a> {
    sections: Vec<(u8, &'a [u8])>,
    /// The number of functions that the module imports. Their indexes come before the indexes of its own functions.
    imported: u32,
    /// The index of each exported function, by name.
    exported: BTreeMap<&'a str, u32>,
}

impl<'a> CoreModule<'a> {
    fn read(binary: &'a [u8]) -> anyhow::Result<Self> {
        let mut module = Self { sections: sections(binary)?, imported: 0, exported: BTreeMap::new() };
        for (id, data) in &module.sections {
            let reader = BinaryReader::new(data, 0);
            match *id {
                IMPORT_SECTION => {
                    for import in ImportSectionReader::new(reader)?.into_imports() {
                        module.imported += u32::from(matches!(import?.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)));
                    }
                }
                EXPORT_SECTION => {
                    for export in ExportSectionReader::new(reader)? {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            module.exported.insert(export.name, export.index);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(module)
    }

    fn exported_from_plugin(&self, end: &str) -> Option<u32> {
        let mut names = self.exported.iter();
        names.find(|(name, _)| name.starts_with("windlass:plugin/") && name.ends_with(end)).map(|(_, index)| *index)
    }

    fn function(&self, name: &str) -> anyhow::Result<u32> {
        self.exported.get(name).copied().with_context(|| format!("the module exports no function {name}"))
    }

    /// Returns the bytes of the module, with another body for one of its functions.
    fn with_body(&self, function: u32, body: &Function) -> anyhow::Result<Vec<u8>> {
        let mut made = Module::new();
        for (id, data) in &self.sections {
            if *id == CODE_SECTION {
                let bodies = CodeSectionReader::new(BinaryReader::new(data, 0))?;
                let mut code = CodeSection::new();
                for (index, old) in (self.imported..).zip(bodies) {
                    if index == function {
                        code.function(body);
                    } else {
                        code.raw(old?.as_bytes());
                    }
                }
                made.section(&code);
            } else {
                made.section(&RawSection { id: *id, data });
            }
        }
        Ok(made.finish())
    }
}

/// Builds the body of a function that returns the JSON `text` as the canonical ABI requires, which is as an address and
/// a length. The body allocates the memory for the text, because the caller frees it.
fn returns(text: &str, realloc: u32) -> anyhow::Result<Function> {
    const TEXT: u32 = 0;
    const RESULT: u32 = 1;
    let mut text = text.as_bytes().to_vec();
    // The code stores eight bytes at a time, so pad the text with blanks, which JSON allows.
    text.resize(text.len().next_multiple_of(8), b' ');
    let length = i32::try_from(text.len())?;
    let at = |offset: u64| MemArg { offset, align: 0, memory_index: 0 };
    let mut body = Function::new([(2, ValType::I32)]);
    let mut code = body.instructions();
    allocate(&mut code, 1, length, realloc);
    code.local_set(TEXT);
    for (offset, bytes) in (0..).step_by(8).zip(text.chunks_exact(8)) {
        code.local_get(TEXT).i64_const(i64::from_le_bytes(bytes.try_into()?)).i64_store(at(offset));
    }
    allocate(&mut code, 4, 8, realloc);
    code.local_tee(RESULT).local_get(TEXT).i32_store(at(0));
    code.local_get(RESULT).i32_const(length).i32_store(at(4));
    code.local_get(RESULT).end();
    Ok(body)
}

fn allocate(code: &mut InstructionSink<'_>, align: i32, size: i32, realloc: u32) {
    code.i32_const(0).i32_const(0).i32_const(align).i32_const(size).call(realloc);
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wasmtime::{Engine, Instance, Store};

    use super::*;

    const PLUGIN: &str = r#"(component
        (core module
            (import "windlass" "now" (func))
            (memory (export "memory") 1)
            (global $next (mut i32) (i32.const 16))
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                (global.get $next)
                (global.set $next (i32.add (global.get $next) (i32.const 4096))))
            (func (export "windlass:plugin/reconciler@0.3.0#describe") (result i32) unreachable)
            (func (export "windlass:plugin/reconciler@0.3.0#reconcile") (result i32) (i32.const 7))
            (func (export "cabi_post_windlass:plugin/reconciler@0.3.0#describe") (param i32))))"#;

    /// Instantiates the first core module of a component.
    fn running(component: &[u8]) -> anyhow::Result<(Store<()>, Instance)> {
        let sections = sections(component)?;
        let module = sections.iter().find(|(id, _)| *id == CORE_MODULE).context("a module")?.1;
        let engine = Engine::default();
        let mut store = Store::new(&engine, ());
        let now = wasmtime::Func::wrap(&mut store, || {});
        let instance = Instance::new(&mut store, &wasmtime::Module::new(&engine, module)?, &[now.into()])?;
        Ok((store, instance))
    }

    fn call(component: &[u8], function: &str) -> anyhow::Result<(i32, Vec<u8>)> {
        let (mut store, instance) = running(component)?;
        let name = format!("windlass:plugin/reconciler@0.3.0#{function}");
        let result = instance.get_typed_func::<(), i32>(&mut store, &name)?.call(&mut store, ())?;
        let memory = instance.get_memory(&mut store, "memory").context("a memory")?;
        Ok((result, memory.data(&store).to_vec()))
    }

    fn number(memory: &[u8], at: i32) -> anyhow::Result<usize> {
        let at = usize::try_from(at)?;
        Ok(usize::try_from(u32::from_le_bytes(memory[at..at + 4].try_into()?))?)
    }

    #[test]
    fn an_altered_component_has_the_new_manifest_and_reconciles_as_before() -> anyhow::Result<()> {
        let manifest = json!({"name": "webapp", "description": "größer"});
        let altered = with_manifest(&wat::parse_str(PLUGIN)?, &manifest)?;
        let (result, memory) = call(&altered, "describe")?;
        let (text, length) = (number(&memory, result)?, number(&memory, result + 4)?);
        assert_eq!(serde_json::from_slice::<Value>(&memory[text..text + length])?, manifest);
        assert_eq!(call(&altered, "reconcile")?.0, 7);
        Ok(())
    }

    #[test]
    fn a_trapping_component_traps_in_reconcile() -> anyhow::Result<()> {
        let plugin = wat::parse_str(PLUGIN)?;
        assert_eq!(call(&plugin, "reconcile")?.0, 7);
        assert!(call(&trapping(&plugin)?, "reconcile").is_err());
        Ok(())
    }

    #[test]
    fn a_component_without_the_function_is_refused() -> anyhow::Result<()> {
        let error =
            trapping(&wat::parse_str("(component (core module))")?).expect_err("the component has no such function");
        assert!(error.to_string().contains("#reconcile"), "{error}");
        Ok(())
    }
}
