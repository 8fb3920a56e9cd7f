//! Joins a script with the interpreter that runs it: the interpreter's module gets the script's text as data, and nothing else of it
//! changes.
//!
//! The interpreter exports the address of a slot. The text goes into pages that are added to the memory, behind all that the linker
//! has placed, and the slot is filled in with its address and length. So the code is the same to the byte whatever the script says.

use wasm_encoder::{ConstExpr, DataCountSection, DataSection, MemorySection, MemoryType, Module, RawSection};
use wasmparser::{BinaryReaderError, DataSectionReader, ExternalKind, Operator, Parser, Payload};

/// The name under which an interpreter exports its slot: two numbers of 32 bits, address and length (sdk/starlark/interpreter).
const SLOT: &str = "windlass_script";
const PAGE: u64 = 64 << 10;

/// Why a script cannot be joined with an interpreter.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The interpreter is no module.
    #[error("the interpreter is no WebAssembly module: {0}")]
    NotWasm(#[from] BinaryReaderError),
    /// It has no place for a script.
    #[error("the interpreter has no slot for a script: it exports no global `{SLOT}` with the address of one")]
    NoSlot,
    /// The script is larger than a module's memory can be.
    #[error("the script has {0} bytes, which no memory has room for")]
    TooLarge(usize),
}

/// The interpreter's module with `script` in it.
///
/// # Errors
///
/// The interpreter is not one, or the script does not fit into a memory.
pub fn join(interpreter: &[u8], script: &str) -> Result<Vec<u8>, JoinError> {
    let places = Places::of(interpreter)?;
    let too_large = |_| JoinError::TooLarge(script.len());
    let address = u32::try_from(places.memory.initial * PAGE).map_err(too_large)?;
    let length = u32::try_from(script.len()).map_err(too_large)?;
    let pages = places.memory.initial + u64::from(length).div_ceil(PAGE);
    if pages > (1 << 32) / PAGE {
        return Err(JoinError::TooLarge(script.len()));
    }
    let memory = MemoryType {
        minimum: pages,
        maximum: places.memory.maximum.map(|maximum| maximum.max(pages)),
        memory64: false,
        shared: false,
        page_size_log2: None,
    };
    let slot = [address.to_le_bytes(), length.to_le_bytes()].concat();
    let mut joined = Module::new();
    for payload in Parser::new(0).parse_all(interpreter) {
        let payload = payload?;
        match &payload {
            Payload::MemorySection(_) => drop(joined.section(MemorySection::new().memory(memory))),
            Payload::DataCountSection { count, .. } => drop(joined.section(&DataCountSection { count: count + 2 })),
            Payload::DataSection(segments) => {
                let mut data = copied(segments, interpreter)?;
                // In this order: what a segment writes, a later one may write over.
                data.active(0, &at(places.slot), slot.iter().copied());
                data.active(0, &at(address), script.bytes());
                joined.section(&data);
            }
            _ => {
                if let Some((id, range)) = payload.as_section() {
                    joined.section(&RawSection { id, data: &interpreter[range] });
                }
            }
        }
    }
    Ok(joined.finish())
}

/// The segments as they are.
fn copied(segments: &DataSectionReader<'_>, interpreter: &[u8]) -> Result<DataSection, BinaryReaderError> {
    let mut data = DataSection::new();
    for segment in segments.clone() {
        data.raw(&interpreter[segment?.range]);
    }
    Ok(data)
}

/// An address as a segment has it.
fn at(address: u32) -> ConstExpr {
    ConstExpr::i32_const(address.cast_signed())
}

/// The parts of an interpreter that matter here.
struct Places {
    memory: wasmparser::MemoryType,
    slot: u32,
}

impl Places {
    fn of(interpreter: &[u8]) -> Result<Self, JoinError> {
        let (mut memory, mut globals, mut slot) = (None, Vec::new(), None);
        for payload in Parser::new(0).parse_all(interpreter) {
            match payload? {
                Payload::MemorySection(memories) => memory = memories.into_iter().next().transpose()?,
                Payload::GlobalSection(section) => {
                    for global in section {
                        let first = global?.init_expr.get_operators_reader().read()?;
                        globals.push(if let Operator::I32Const { value } = first { Some(value) } else { None });
                    }
                }
                Payload::ExportSection(exports) => {
                    for export in exports {
                        let export = export?;
                        if export.name == SLOT && export.kind == ExternalKind::Global {
                            slot = Some(export.index as usize);
                        }
                    }
                }
                _ => {}
            }
        }
        let slot = slot.and_then(|index| *globals.get(index)?).map(i32::cast_unsigned);
        match (memory, slot) {
            (Some(memory), Some(slot)) => Ok(Self { memory, slot }),
            _ => Err(JoinError::NoSlot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERPRETER: &str = r#"(module
        (memory (export "memory") 2 4)
        (global $stack (mut i32) (i32.const 7))
        (global (export "windlass_script") i32 (i32.const 1040))
        (func (export "first") (result i32) (i32.load8_u (i32.load (i32.const 1040))))
        (data (i32.const 1024) "what the linker placed"))"#;

    fn segments(module: &[u8]) -> Vec<(i32, Vec<u8>)> {
        let mut found = Vec::new();
        for payload in Parser::new(0).parse_all(module) {
            let Payload::DataSection(section) = payload.expect("a module") else { continue };
            for segment in section {
                let segment = segment.expect("a segment");
                let wasmparser::DataKind::Active { offset_expr, .. } = segment.kind else { panic!("it is active") };
                let Operator::I32Const { value } = offset_expr.get_operators_reader().read().expect("an address")
                else {
                    panic!("it is a constant")
                };
                found.push((value, segment.data.to_vec()));
            }
        }
        found
    }

    fn section(module: &[u8], id: u8) -> Vec<u8> {
        let mut sections =
            Parser::new(0).parse_all(module).filter_map(|payload| payload.expect("a module").as_section());
        let (_, range) = sections.find(|(found, _)| *found == id).expect("it has one");
        module[range].to_vec()
    }

    #[test]
    fn the_script_stands_behind_the_memory_and_the_slot_says_where() {
        let interpreter = wat::parse_str(INTERPRETER).expect("a module");
        let script = "x".repeat(70_000);
        let joined = join(&interpreter, &script).expect("it is joined");
        wasmparser::validate(&joined).expect("it is a module");
        let found = segments(&joined);
        assert_eq!(found[0], (1024, b"what the linker placed".to_vec()));
        assert_eq!(found[1], (1040, [131_072_u32.to_le_bytes(), 70_000_u32.to_le_bytes()].concat()));
        assert_eq!(found[2], (131_072, script.into_bytes()));
        let memory = Places::of(&joined).expect("it still has a slot").memory;
        assert_eq!((memory.initial, memory.maximum), (4, Some(4)));
    }

    #[test]
    fn whatever_the_script_says_the_code_is_the_same() {
        let interpreter = wat::parse_str(INTERPRETER).expect("a module");
        let code = |script: &str| section(&join(&interpreter, script).expect("it is joined"), 10);
        assert_eq!(code("a"), code(&"b".repeat(200_000)));
        assert_eq!(code("a"), section(&interpreter, 10));
    }

    #[test]
    fn what_has_no_slot_is_no_interpreter() {
        let module = wat::parse_str("(module (memory 1))").expect("a module");
        assert!(matches!(join(&module, ""), Err(JoinError::NoSlot)));
        assert!(matches!(join(b"text", ""), Err(JoinError::NotWasm(_))));
    }
}
