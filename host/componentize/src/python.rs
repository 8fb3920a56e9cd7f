//! Makes Python's interpreter free the memory of values that cross the interface.
//!
//! The runtime of componentize-py never frees two things: the allocation for an empty text or list, and the copy of
//! bytes that a plugin returns. So an instance that serves many calls grows with each call. The canonical ABI allows
//! any aligned address for an empty allocation, and the interface between bindings and runtime (wit-dylib of
//! wasm-tools) has a function that registers memory to be freed after a call. So new functions wrap three functions
//! that the runtime exports.
//!
//! This changes only the exact code that is known to need it. A later runtime may free the memory itself, and would
//! then free it twice. Other runtimes stay unchanged, and the host discards instances that have grown.

use std::convert::Infallible;
use std::ops::Range;

use sha2::{Digest as _, Sha256};
use wasm_encoder::reencode::{self, Reencode, utils};
use wasm_encoder::{BlockType, CodeSection, ExportSection, Function, FunctionSection, MemArg, Module, ValType};
use wasmparser::{BinaryReaderError, ExternalKind, Parser, Payload, TypeRef};

/// The SHA-256 of the runtime's code in componentize-py 0.25.1.
#[rustfmt::skip]
const KNOWN: [u8; 32] = [
    0xfc, 0x66, 0x8f, 0xcf, 0x3e, 0xfc, 0x89, 0xda, 0xec, 0xda, 0x94, 0xea, 0x5c, 0x75, 0x36, 0xd9,
    0xe5, 0xfa, 0xe2, 0x76, 0x94, 0x31, 0xf3, 0x7b, 0x1c, 0x5c, 0xd9, 0xc2, 0x33, 0xc6, 0x4a, 0x99,
];

/// Arguments: an earlier address, its size, alignment, and the new size. Result: an address.
const REALLOC: &str = "cabi_realloc";
/// Arguments: the call, the type of a list that the plugin returns, and where to store its address, or 0. Result: its
/// length.
const POP_LIST: &str = "wit_dylib_pop_list";
/// Arguments: the call, the type of a list that the plugin receives, its address and its length. Result: whether the
/// runtime took the list.
const PUSH_LIST: &str = "wit_dylib_push_list";
/// Arguments: the call, an address, its size and alignment, and whether to free it only when the call has ended.
const DEALLOC: &str = "wit_dylib_dealloc_bytes";

/// The module with the wrappers. `None` unless the module is a runtime that is known to need them.
pub(crate) fn freeing(module: &[u8]) -> Result<Option<Vec<u8>>, reencode::Error> {
    freeing_if(module, is_known)
}

fn is_known(code: &[u8]) -> bool {
    Sha256::digest(code)[..] == KNOWN
}

fn freeing_if(module: &[u8], is_known: impl Fn(&[u8]) -> bool) -> Result<Option<Vec<u8>>, reencode::Error> {
    let runtime = Runtime::of(module)?;
    let Some(mut freeing) = runtime.freeing() else { return Ok(None) };
    if !is_known(&module[runtime.code]) {
        return Ok(None);
    }
    let mut encoded = Module::new();
    freeing.parse_core_module(&mut encoded, Parser::new(0), module)?;
    Ok(Some(encoded.finish()))
}

/// The facts that identify a module as the runtime.
#[derive(Default)]
struct Runtime {
    imported: u32,
    /// The types of the functions that it defines.
    types: Vec<u32>,
    /// The functions that it exports.
    exports: Vec<(String, u32)>,
    code: Range<usize>,
}

impl Runtime {
    fn of(module: &[u8]) -> Result<Self, BinaryReaderError> {
        let mut runtime = Self::default();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        runtime.imported += u32::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::FunctionSection(types) => runtime.types = types.into_iter().collect::<Result<_, _>>()?,
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        if export.kind == ExternalKind::Func {
                            runtime.exports.push((export.name.to_owned(), export.index));
                        }
                    }
                }
                Payload::CodeSectionStart { range, .. } => {
                    runtime.code = range;
                    break;
                }
                _ => {}
            }
        }
        Ok(runtime)
    }

    fn exported(&self, name: &str) -> Option<u32> {
        self.exports.iter().find(|(exported, _)| exported == name).map(|(_, index)| *index)
    }

    fn freeing(&self) -> Option<Freeing> {
        let [realloc, pop, push, dealloc] = [REALLOC, POP_LIST, PUSH_LIST, DEALLOC].map(|name| self.exported(name));
        let (realloc, dealloc) = (realloc?, dealloc?);
        let own = |function: u32| self.types.get(function.checked_sub(self.imported)? as usize).copied();
        let in_front = |name, of, body| Some(InFront { name, kind: own(of)?, body });
        Some(Freeing {
            functions: self.imported.checked_add(u32::try_from(self.types.len()).ok()?)?,
            in_front: [
                in_front(REALLOC, realloc, realloc_nothing(realloc))?,
                in_front(POP_LIST, pop?, pop_list(pop?, dealloc))?,
                in_front(PUSH_LIST, push?, push_list(push?, realloc, dealloc))?,
            ],
        })
    }
}

/// A function that is exported in place of the function that it wraps.
struct InFront {
    name: &'static str,
    kind: u32,
    body: Function,
}

/// Copies a module, and adds functions to it.
struct Freeing {
    /// The number of functions that the module had.
    functions: u32,
    in_front: [InFront; 3],
}

impl Reencode for Freeing {
    type Error = Infallible;

    fn parse_function_section(
        &mut self,
        functions: &mut FunctionSection,
        section: wasmparser::FunctionSectionReader<'_>,
    ) -> Result<(), reencode::Error> {
        utils::parse_function_section(self, functions, section)?;
        self.in_front.iter().for_each(|new| {
            functions.function(new.kind);
        });
        Ok(())
    }

    fn parse_export(
        &mut self,
        exports: &mut ExportSection,
        mut export: wasmparser::Export<'_>,
    ) -> Result<(), reencode::Error> {
        let new = (self.functions..).zip(&self.in_front).find(|(_, new)| new.name == export.name);
        export.index = new.map_or(export.index, |(index, _)| index);
        utils::parse_export(self, exports, export)
    }

    fn parse_code_section(
        &mut self,
        code: &mut CodeSection,
        section: wasmparser::CodeSectionReader<'_>,
    ) -> Result<(), reencode::Error> {
        utils::parse_code_section(self, code, section)?;
        self.in_front.iter().for_each(|new| {
            code.function(&new.body);
        });
        Ok(())
    }
}

/// Wraps `realloc`. An empty allocation may have any aligned address, so the result is the alignment itself, and
/// nothing needs to be freed.
fn realloc_nothing(realloc: u32) -> Function {
    let [before, before_bytes, align, bytes] = [0, 1, 2, 3];
    let mut body = Function::new([]);
    let mut code = body.instructions();
    code.local_get(before_bytes).local_get(bytes).i32_or().i32_eqz();
    code.if_(BlockType::Result(ValType::I32)).local_get(align).else_();
    code.local_get(before).local_get(before_bytes).local_get(align).local_get(bytes).call(realloc);
    code.end().end();
    body
}

/// Wraps `pop_list`. If a list has an address, it is a list of bytes, and the address is the address of a copy. The
/// copy is freed when the call has ended.
fn pop_list(pop_list: u32, dealloc: u32) -> Function {
    let [call, kind, address, length] = [0, 1, 2, 3];
    let [later, aligned] = [1, 1];
    let word = MemArg { offset: 0, align: 2, memory_index: 0 };
    let mut body = Function::new([(1, ValType::I32)]);
    let mut code = body.instructions();
    code.local_get(call).local_get(kind).local_get(address).call(pop_list).local_set(length);
    code.local_get(address).i32_load(word).if_(BlockType::Empty);
    code.local_get(call).local_get(address).i32_load(word).local_get(length).i32_const(aligned).i32_const(later);
    code.call(dealloc).end();
    code.local_get(length).end();
    body
}

/// Wraps `push_list`. The runtime frees the bytes that it takes even if there are none, so an empty list needs an
/// address that can be freed. If the runtime does not take a list, the code that pushed it frees it, unless it is
/// empty.
fn push_list(push_list: u32, realloc: u32, dealloc: u32) -> Function {
    let [call, kind, address, length, is_taken] = [0, 1, 2, 3, 4];
    let [one, at_once] = [1, 0];
    let mut body = Function::new([(1, ValType::I32)]);
    let mut code = body.instructions();
    code.local_get(length).if_(BlockType::Result(ValType::I32));
    code.local_get(call).local_get(kind).local_get(address).local_get(length).call(push_list);
    code.else_();
    code.i32_const(0).i32_const(0).i32_const(one).i32_const(one).call(realloc).local_set(address);
    code.local_get(call).local_get(kind).local_get(address).local_get(length).call(push_list).local_tee(is_taken);
    code.i32_eqz().if_(BlockType::Empty);
    code.local_get(call).local_get(address).i32_const(one).i32_const(one).i32_const(at_once).call(dealloc).end();
    code.local_get(is_taken).end().end();
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasmtime::{Engine, Instance, Store, WasmParams, WasmResults};

    /// A runtime that counts its allocations and frees. Lists of type 0 are bytes. It takes such a list and frees it,
    /// and it returns one without freeing it.
    const RUNTIME: &str = r#"(module
        (memory (export "memory") 1)
        (global $allocated (export "allocated") (mut i32) (i32.const 0))
        (global $freed (export "freed") (mut i32) (i32.const 0))
        (func $allocate (global.set $allocated (i32.add (global.get $allocated) (i32.const 1))))
        (func $free (global.set $freed (i32.add (global.get $freed) (i32.const 1))))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (call $allocate) (i32.const 1024))
        (func (export "wit_dylib_pop_list") (param $call i32) (param $type i32) (param $address i32) (result i32)
            (i32.store (local.get $address) (i32.const 0))
            (if (i32.eqz (local.get $type)) (then (call $allocate) (i32.store (local.get $address) (i32.const 2048))))
            (i32.const 5))
        (func (export "wit_dylib_push_list") (param $call i32) (param $type i32) (param $address i32) (param i32) (result i32)
            (if (i32.eqz (local.get $type)) (then (if (i32.ge_u (local.get $address) (i32.const 1024)) (then (call $free)))))
            (i32.eqz (local.get $type)))
        (func (export "wit_dylib_dealloc_bytes") (param i32 i32 i32 i32 i32) (call $free)))"#;

    fn runtime() -> Vec<u8> {
        wat::parse_str(RUNTIME).expect("it is a module")
    }

    /// Calls `function`. Returns its result, and the numbers of allocations and frees.
    fn call<P: WasmParams, R: WasmResults>(function: &str, params: P) -> (R, [i32; 2]) {
        let module = freeing_if(&runtime(), |_| true).expect("it is read").expect("it is a runtime");
        let engine = Engine::default();
        let module = wasmtime::Module::new(&engine, module).expect("it is valid");
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).expect("it imports nothing");
        let function = instance.get_typed_func::<P, R>(&mut store, function).expect("it has the type that it had");
        let returned = function.call(&mut store, params).expect("it does not trap");
        let counted = ["allocated", "freed"].map(|name| {
            let count = instance.get_global(&mut store, name).expect("it is exported");
            count.get(&mut store).unwrap_i32()
        });
        (returned, counted)
    }

    #[test]
    fn an_empty_allocation_allocates_nothing() {
        assert_eq!(call(REALLOC, (0, 0, 4, 0)), (4, [0, 0]));
        assert_eq!(call(REALLOC, (0, 0, 4, 8)), (1024, [1, 0]));
    }

    #[test]
    fn returned_bytes_are_freed_and_lists_are_left_to_their_allocator() {
        assert_eq!(call(POP_LIST, (0, 0, 16)), (5, [1, 1]));
        assert_eq!(call(POP_LIST, (0, 1, 16)), (5, [0, 0]));
    }

    #[test]
    fn incoming_bytes_are_freed_once_and_empty_ones_too() {
        assert_eq!(call(PUSH_LIST, (0, 0, 1024, 3)), (1, [0, 1]), "they were allocated before");
        assert_eq!(call(PUSH_LIST, (0, 0, 1, 0)), (1, [1, 1]), "nothing is nowhere");
    }

    #[test]
    fn a_list_that_comes_in_empty_leaves_nothing_behind() {
        assert_eq!(call(PUSH_LIST, (0, 1, 4, 0)), (0, [1, 1]));
        assert_eq!(call(PUSH_LIST, (0, 1, 1024, 3)), (0, [0, 0]), "the allocator frees it");
    }

    #[test]
    fn code_of_an_unknown_runtime_is_left_unchanged() {
        let stays =
            |module: &[u8], is_known: fn(&[u8]) -> bool| freeing_if(module, is_known).expect("it is read").is_none();
        assert!(stays(&runtime(), |_| false) && stays(&runtime(), is_known));
        let other = wat::parse_str(RUNTIME.replace("wit_dylib_pop_list", "wit_dylib_pop_lists"));
        assert!(stays(&other.expect("it is a module"), |_| true));
        let component = wat::parse_str(format!("(component (core {})", &RUNTIME[1..])).expect("it is one");
        assert_eq!(crate::sections::finished(&component).expect("it is read"), component);
    }
}
