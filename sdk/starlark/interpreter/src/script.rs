//! The script. An instance reads it once, and then freezes it. So a call cannot leave state in it, and a reused
//! instance handles each call like a new one.

use std::cell::{Cell, OnceCell};

use starlark::environment::{FrozenModule, Module};
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect, DialectTypes};
use starlark::values::{Heap, OwnedFrozenValue, Value};

use crate::arguments::wrong;
use crate::{api, attributes, carried, kind, nesting};

/// The name of the script's file.
pub(crate) const FILE: &str = "plugin.star";
/// The maximum depth of function calls. A frame takes about 2 KiB of a plugin's stack of 512 KiB.
const CALL_DEPTH_MAX: usize = 60;

/// Standard Starlark with the common extensions of its dialects, and without `load`: a plugin is one file.
const DIALECT: Dialect = Dialect {
    enable_def: true,
    enable_lambda: true,
    enable_load: false,
    enable_keyword_only_arguments: true,
    enable_positional_only_arguments: false,
    enable_types: DialectTypes::Disable,
    enable_load_reexport: false,
    enable_top_level_stmt: true,
    enable_f_strings: true,
    _non_exhaustive: (),
};

thread_local! {
    static SCRIPT: OnceCell<FrozenModule> = const { OnceCell::new() };
    static IS_IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// Whether the host can be called: not while the script is read, nor while the host asks for the manifest.
pub(crate) fn is_in_call() -> bool {
    IS_IN_CALL.get()
}

/// Calls `then` with the names that the script defines, and their values.
pub(crate) fn with<T>(then: impl FnOnce(&FrozenModule) -> starlark::Result<T>) -> starlark::Result<T> {
    SCRIPT.with(|script| {
        if let Some(script) = script.get() {
            return then(script);
        }
        let read = read()?;
        then(script.get_or_init(|| read))
    })
}

fn read() -> starlark::Result<FrozenModule> {
    let text = carried::text();
    kind::check(&text).map_err(wrong)?;
    parsed(&text)
}

pub(crate) fn parsed(text: &str) -> starlark::Result<FrozenModule> {
    if let Err(nesting::TooDeep { line, column }) = nesting::check(text) {
        return Err(wrong(format!(
            "{FILE}:{line}:{column}: brackets or blocks are nested too deeply here: give a part its own name"
        )));
    }
    let parsed = AstModule::parse(FILE, text.to_owned(), &DIALECT)?;
    let globals = api::globals();
    Module::with_temp_heap(|module| {
        attributes::check(&parsed, &globals, module.heap())?;
        {
            let mut evaluator = evaluator(&module)?;
            evaluator.eval_module(parsed, &globals)?;
        }
        Ok(module.freeze()?)
    })
}

/// An error in the value that the script's function `name` returned, with the place of that function.
pub(crate) fn placed(name: &str, error: &starlark::Error) -> starlark::Error {
    let message = error.without_diagnostic().to_string();
    match line_of(&carried::text(), name) {
        Some(line) => wrong(format!("{FILE}:{line}:1 in {name}: {message}")),
        None => wrong(message),
    }
}

/// The line of a top-level function of a script.
fn line_of(text: &str, name: &str) -> Option<usize> {
    let is_it = |line: &str| {
        let rest = line.strip_prefix("def ").and_then(|rest| rest.trim_start().strip_prefix(name));
        rest.is_some_and(|rest| rest.trim_start().starts_with('('))
    };
    text.lines().position(is_it).map(|line| line + 1)
}

/// Whether a text parses, even if its names are unknown.
#[cfg(all(test, feature = "reconciler"))]
pub(crate) fn is_syntax(text: &str) -> bool {
    AstModule::parse(FILE, text.to_owned(), &DIALECT).is_ok()
}

fn evaluator<'v, 'a>(module: &'a Module<'v>) -> starlark::Result<Evaluator<'v, 'a, 'a>> {
    let mut evaluator = Evaluator::new(module);
    evaluator.set_max_callstack_size(CALL_DEPTH_MAX)?;
    evaluator.set_print_handler(&api::Printed);
    Ok(evaluator)
}

/// Calls a function of the script with the value of `argument`, and reads its response.
pub(crate) fn call<T>(
    function: &OwnedFrozenValue,
    arguments: impl for<'v> FnOnce(Heap<'v>) -> starlark::Result<Vec<Value<'v>>>,
    answer: impl for<'v> FnOnce(Value<'v>) -> starlark::Result<T>,
) -> starlark::Result<T> {
    Module::with_temp_heap(|module| {
        let heap = module.heap();
        let function = heap.access_owned_frozen_value(function);
        let arguments = arguments(heap)?;
        let mut evaluator = evaluator(&module)?;
        answer(evaluator.eval_function(function, &arguments, &[])?)
    })
}

/// Runs a call, in which the host can be called.
pub(crate) fn in_call<T>(call: impl FnOnce() -> T) -> T {
    IS_IN_CALL.set(true);
    let ended = call();
    IS_IN_CALL.set(false);
    ended
}

#[cfg(all(test, feature = "reconciler"))]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_full_name() {
        let text =
            "def reconciled(x):\n    return x\n\n# def reconcile(request):\ndef  reconcile (request):\n    pass\n";
        assert_eq!(line_of(text, "reconcile"), Some(5));
        assert_eq!(line_of(text, "map"), None);
    }
}
