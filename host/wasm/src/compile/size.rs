//! Counts the parts of a component before it is compiled. Some work grows faster than the number of bytes that cause
//! it, and a count explains the problem better than a timeout.

use serde::{Deserialize, Serialize};
use wasmparser::{MemoryType, Parser, Payload};

use super::Bytes;
use super::order::Order;
use crate::engine::TABLE_ELEMENTS_MAX;

/// A component with more parts than a plugin may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum TooMuch {
    #[error("it has more than {limit} functions (raise it with `--limit functions=N`)")]
    Functions {
        /// `Limits::functions`
        limit: u32,
    },
    /// The code of one function is too large.
    #[error(
        "one of its functions has {found} bytes of code, but only {} are allowed; such functions are usually generated, and \
         compiling them takes very long (raise it with `--limit function=SIZE`)", Bytes(u64::from(*.limit))
    )]
    FunctionBytes {
        /// `Limits::function_bytes`
        limit: u32,
        /// The size of the function's code in bytes.
        found: u64,
    },
    /// Too many types, imports, exports and the like.
    #[error(
        "it has more than {limit} types, imports, exports, instances and aliases together (raise it with \
         `--limit definitions=N`)"
    )]
    Definitions {
        /// `Limits::definitions`
        limit: u32,
    },
    /// Too many memories. Their initial contents become part of the code.
    #[error("its modules have more than {limit} memories (raise it with `--limit memories=N`)")]
    Memories {
        /// `Limits::memories`
        limit: u32,
    },
    /// The initial size of one memory is too large.
    #[error(
        "one of its memories begins with {} bytes, but only {} are allowed (raise it with `--limit memory=SIZE`)",
        .found, Bytes(*.limit)
    )]
    MemoryBytes {
        /// `Limits::memory_bytes`
        limit: u64,
        /// The memory's initial size in bytes.
        found: u64,
    },
    /// Too many tables. Their initial contents become part of the code too.
    #[error("its modules have more than {limit} tables (raise it with `--limit instances=N`)")]
    Tables {
        /// `Limits::instances`
        limit: u32,
    },
    /// Too many elements in one table.
    #[error("one of its tables begins with {found} elements, but only {limit} are allowed ({})", of_a_table(*.limit))]
    TableElements {
        /// The lower of `Limits::table_elements` and the number of elements that fit into a table.
        limit: u64,
        /// The table's initial number of elements.
        found: u64,
    },
}

fn of_a_table(limit: u64) -> &'static str {
    if limit < TABLE_ELEMENTS_MAX as u64 {
        "raise it with `--limit table=N`"
    } else {
        "the tables of this host have no room for more; call fewer functions by pointer"
    }
}

/// The size of a component, including all nested modules and components.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) functions: u64,
    /// The code size of the largest function.
    pub(crate) function_bytes: u64,
    /// Types, imports, exports and the like.
    pub(crate) definitions: u64,
    pub(crate) memories: u64,
    /// The initial size of the largest memory.
    pub(crate) memory_bytes: u64,
    /// The initial size of all memories.
    pub(crate) all_memory_bytes: u64,
    pub(crate) tables: u64,
    /// The initial number of elements of the largest table.
    pub(crate) table_elements: u64,
}

impl Size {
    pub(crate) fn add(&mut self, payload: &Payload<'_>) {
        match payload {
            Payload::CodeSectionStart { count, .. } => self.functions += u64::from(*count),
            Payload::CodeSectionEntry(body) => self.function_bytes = self.function_bytes.max(body.range().len() as u64),
            Payload::MemorySection(section) => {
                self.memories += u64::from(section.count());
                for memory in section.clone().into_iter().flatten() {
                    let bytes = first_bytes(&memory);
                    self.memory_bytes = self.memory_bytes.max(bytes);
                    self.all_memory_bytes = self.all_memory_bytes.saturating_add(bytes);
                }
            }
            Payload::TableSection(section) => {
                self.tables += u64::from(section.count());
                let largest = section.clone().into_iter().flatten().map(|table| table.ty.initial).max().unwrap_or(0);
                self.table_elements = self.table_elements.max(largest);
            }
            other => self.definitions += u64::from(defined(other)),
        }
    }

    fn check(&self, most: &Order) -> Result<(), TooMuch> {
        let is_more = |found: u64, limit: u32| found > u64::from(limit);
        if is_more(self.function_bytes, most.function_bytes) {
            return Err(TooMuch::FunctionBytes { limit: most.function_bytes, found: self.function_bytes });
        }
        if self.memory_bytes > most.memory_of_calls {
            return Err(TooMuch::MemoryBytes { limit: most.memory_of_calls, found: self.memory_bytes });
        }
        if self.table_elements > most.table_elements {
            return Err(TooMuch::TableElements { limit: most.table_elements, found: self.table_elements });
        }
        if is_more(self.memories, most.memories) {
            return Err(TooMuch::Memories { limit: most.memories });
        }
        if is_more(self.tables, most.tables) {
            return Err(TooMuch::Tables { limit: most.tables });
        }
        if is_more(self.functions, most.functions) {
            return Err(TooMuch::Functions { limit: most.functions });
        }
        if is_more(self.definitions, most.definitions) {
            return Err(TooMuch::Definitions { limit: most.definitions });
        }
        Ok(())
    }
}

/// Checks the parts of `bytes`, section by section. Unreadable parts are left to the compiler, which reports the
/// problem.
pub(super) fn check(bytes: &[u8], most: &Order) -> Result<(), TooMuch> {
    let mut size = Size::default();
    for payload in Parser::new(0).parse_all(bytes) {
        let Ok(payload) = payload else { return Ok(()) };
        size.add(&payload);
        size.check(most)?;
    }
    Ok(())
}

/// The initial size of a memory in bytes.
fn first_bytes(memory: &MemoryType) -> u64 {
    let page = 1_u64.checked_shl(memory.page_size_log2.unwrap_or(16)).unwrap_or(u64::MAX);
    memory.initial.saturating_mul(page)
}

fn defined(payload: &Payload<'_>) -> u32 {
    match payload {
        Payload::TypeSection(section) => section.count(),
        Payload::ImportSection(section) => section.count(),
        Payload::ExportSection(section) => section.count(),
        Payload::InstanceSection(section) => section.count(),
        Payload::CoreTypeSection(section) => section.count(),
        Payload::ComponentInstanceSection(section) => section.count(),
        Payload::ComponentAliasSection(section) => section.count(),
        Payload::ComponentTypeSection(section) => section.count(),
        Payload::ComponentCanonicalSection(section) => section.count(),
        Payload::ComponentImportSection(section) => section.count(),
        Payload::ComponentExportSection(section) => section.count(),
        // These sections are counted, although they are nearly empty, because there may be many.
        Payload::ModuleSection { .. } | Payload::ComponentSection { .. } | Payload::CustomSection(_) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::order::Haste;
    use crate::engine::CompileEffort;
    use crate::limits::{Limits, Setting};

    fn checked(text: &str, limits: &Limits) -> Result<(), TooMuch> {
        check(
            &wat::parse_str(text).expect("well-formed"),
            &Order::new(limits, (CompileEffort::Full, Haste::Awaited), 0),
        )
    }

    #[test]
    fn functions_count_over_all_modules() {
        let text = "(component (core module (func) (func)) (component (core module (func))))";
        assert_eq!(checked(text, &Limits { functions: 3, ..Limits::default() }), Ok(()));
        let most = Limits { functions: 2, ..Limits::default() };
        assert_eq!(checked(text, &most), Err(TooMuch::Functions { limit: 2 }));
    }

    #[test]
    fn one_huge_function_is_refused_by_its_size() {
        let text = format!("(component (core module (func {})))", "nop ".repeat(100));
        assert_eq!(checked(&text, &Limits { function_bytes: 102, ..Limits::default() }), Ok(()));
        let found = checked(&text, &Limits { function_bytes: 50, ..Limits::default() });
        assert_eq!(found, Err(TooMuch::FunctionBytes { limit: 50, found: 102 }));
    }

    #[test]
    fn types_imports_and_exports_count_together() {
        let text = r#"(component (type $a string) (type $b u32) (import "x" (func)) (export "y" (type $a)))"#;
        assert_eq!(checked(text, &Limits::default()), Ok(()));
        let most = Limits { definitions: 3, ..Limits::default() };
        assert_eq!(checked(text, &most), Err(TooMuch::Definitions { limit: 3 }));
    }

    #[test]
    fn memories_and_tables_count_over_all_modules() {
        let memories = |count: usize| format!("(component {})", "(core module (memory 1))".repeat(count));
        assert_eq!(checked(&memories(6), &Limits::default()), Ok(()));
        assert_eq!(checked(&memories(7), &Limits::default()), Err(TooMuch::Memories { limit: 6 }));
        let tables = |count: usize| format!("(component {})", "(core module (table 1 funcref))".repeat(count));
        assert_eq!(checked(&tables(40), &Limits::default()), Ok(()));
        assert_eq!(checked(&tables(41), &Limits::default()), Err(TooMuch::Tables { limit: 40 }));
        let large = "(component (core module (table 30000 funcref)))";
        let most = Limits { table_elements: 20_000, ..Limits::default() };
        assert_eq!(checked(large, &Limits::default()), Ok(()));
        assert_eq!(checked(large, &most), Err(TooMuch::TableElements { limit: 20_000, found: 30_000 }));
        let larger = "(component (core module (table 300000 funcref)))";
        let found = Err(TooMuch::TableElements { limit: 40_000, found: 300_000 });
        assert_eq!(checked(larger, &Limits::default()), found);
        let large = "(component (core module (memory 2049)))";
        let found = Err(TooMuch::MemoryBytes { limit: 128 << 20, found: 2049 << 16 });
        assert_eq!(checked(large, &Limits::default()), found);
    }

    #[test]
    fn every_message_names_the_limit_its_value_and_how_to_raise_it() {
        let (limit, found) = (1 << 10, 1 << 20);
        let problems = [
            (TooMuch::Functions { limit: 1 << 10 }, "1024", "functions"),
            (TooMuch::FunctionBytes { limit: 1 << 10, found }, "1 KiB", "function"),
            (TooMuch::Definitions { limit: 1 << 10 }, "1024", "definitions"),
            (TooMuch::Memories { limit: 1 << 10 }, "1024", "memories"),
            (TooMuch::MemoryBytes { limit, found }, "1 KiB", "memory"),
            (TooMuch::Tables { limit: 1 << 10 }, "1024", "instances"),
            (TooMuch::TableElements { limit, found }, "1024", "table"),
        ];
        for (problem, value, name) in problems {
            let message = problem.to_string();
            assert!(message.contains(value) && message.contains(&format!("`--limit {name}=")), "{message}");
            assert!(Setting::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_unreadable_component_is_left_to_the_compiler_to_refuse() {
        assert_eq!(
            check(
                b"\0asm\x0d\0\x01\0garbage",
                &Order::new(&Limits::default(), (CompileEffort::Full, Haste::Awaited), 0)
            ),
            Ok(())
        );
    }
}
