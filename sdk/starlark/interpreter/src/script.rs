//! The script: read once an instance, and frozen then. So no call can leave anything behind in it, and an instance that serves many
//! calls answers each as a fresh one would.

use std::cell::{Cell, OnceCell};

use starlark::environment::{FrozenModule, Module};
use starlark::eval::Evaluator;
use starlark::syntax::{AstModule, Dialect, DialectTypes};
use starlark::values::{Heap, OwnedFrozenValue, Value};

use crate::arguments::wrong;
use crate::{api, kind, nesting, slot};

/// The name of the script, as its author has it.
pub(crate) const FILE: &str = "plugin.star";
/// How many functions may be within each other. A frame takes some 2 KiB of the half mebibyte of stack that a plugin has.
const DEEPEST_CALL: usize = 60;

/// Starlark with what its dialects have in common beyond the standard, and without `load`: a plugin is one file.
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

/// Whether the host answers: not while the script is read, nor while the manifest is asked for.
pub(crate) fn is_in_call() -> bool {
    IS_IN_CALL.get()
}

/// The names that the script defines, and what they stand for.
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
    let Some(text) = slot::script() else {
        return Err(wrong("this is the interpreter alone: `windlass build` joins it with a script"));
    };
    kind::check(text).map_err(wrong)?;
    parsed(text)
}

pub(crate) fn parsed(text: &str) -> starlark::Result<FrozenModule> {
    if let Err(nesting::TooDeep { line, column }) = nesting::check(text) {
        return Err(wrong(format!(
            "{FILE}:{line}:{column}: brackets or blocks are nested too deeply here: give a part a name of its own"
        )));
    }
    let parsed = AstModule::parse(FILE, text.to_owned(), &DIALECT)?;
    Module::with_temp_heap(|module| {
        {
            let mut evaluator = evaluator(&module)?;
            evaluator.eval_module(parsed, &api::globals())?;
        }
        Ok(module.freeze()?)
    })
}

/// Whether a text parses, whatever its names mean.
#[cfg(all(test, feature = "reconciler"))]
pub(crate) fn is_syntax(text: &str) -> bool {
    AstModule::parse(FILE, text.to_owned(), &DIALECT).is_ok()
}

fn evaluator<'v, 'a>(module: &'a Module<'v>) -> starlark::Result<Evaluator<'v, 'a, 'a>> {
    let mut evaluator = Evaluator::new(module);
    evaluator.set_max_callstack_size(DEEPEST_CALL)?;
    evaluator.set_print_handler(&api::Printed);
    Ok(evaluator)
}

/// Calls a function of the script's with what `argument` makes, and reads its answer.
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

/// Runs a call, in which the host answers.
pub(crate) fn in_call<T>(call: impl FnOnce() -> T) -> T {
    IS_IN_CALL.set(true);
    let ended = call();
    IS_IN_CALL.set(false);
    ended
}
