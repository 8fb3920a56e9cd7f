//! Checks the imports of a module. Imports that a plugin cannot have are reported in terms that its author knows.

use std::fmt;

use crate::adapter;

/// The module under which languages import the functions of an operating system.
pub(crate) const WASI: &str = "wasi_snapshot_preview1";

/// Imports that a module needs but a plugin cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The module and the name of each import.
    pub functions: Vec<(String, String)>,
}

impl std::error::Error for Foreign {}

impl fmt::Display for Foreign {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("it imports functions that a plugin cannot have:")?;
        for (module, name) in self.functions.iter().take(10) {
            write!(out, " {module}.{name}")?;
        }
        if self.functions.len() > 10 {
            write!(out, " and {} more", self.functions.len() - 10)?;
        }
        match self.functions.first().map(|(module, _)| module.as_str()) {
            Some("env" | "GOT.func" | "GOT.mem") => out.write_str(
                ". These are functions of native code that was not compiled to WebAssembly: link the library that has them, \
                 built for WebAssembly too, or do without the dependency that needs it",
            ),
            Some("gojs" | "go") => {
                out.write_str(". It was built for a browser: build with GOOS=wasip1 and -buildmode=c-shared")
            }
            _ => out.write_str(". Remove the dependency that needs them, or use what the SDK has in its place"),
        }
    }
}

/// Refuses a module that imports anything that the host does not provide.
pub(crate) fn check(imports: &[(String, String)]) -> Result<(), Foreign> {
    let is_given = |module: &str, name: &str| match module {
        WASI => adapter::has(name),
        // The encoder checks whether the interface has the function, and its type.
        _ => {
            module.starts_with("windlass:plugin/")
                || module.starts_with("[export]windlass:plugin/")
                || module == "$root"
        }
    };
    let functions: Vec<_> = imports.iter().filter(|(module, name)| !is_given(module, name)).cloned().collect();
    if functions.is_empty() { Ok(()) } else { Err(Foreign { functions }) }
}
