//! Errors as values, and how a script raises and catches them. Starlark has no exceptions.

use starlark::ErrorKind;
use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::eval::Evaluator;
use starlark::starlark_module;
use starlark::values::list::ListRef;
use starlark::values::none::NoneType;
use starlark::values::structs::{AllocStruct, StructRef};
use starlark::values::tuple::UnpackTuple;
use starlark::values::{Heap, Value};
use windlass_sdk::bindings::windlass::plugin::types::{ApiError, ApiReason};

use crate::arguments::{Options, milliseconds, shown, wrong};
use crate::failures::{self, Problem, Thrown, collected};

/// Whether a value is an error, or a list of errors.
fn is_errors(value: Value<'_>) -> bool {
    let is_error = |value: Value<'_>| {
        StructRef::from_value(value).is_some_and(|fields| fields.iter().any(|(name, _)| name.as_str() == "message"))
    };
    match ListRef::from_value(value) {
        Some(list) => list.iter().next().is_some_and(is_error),
        None => is_error(value),
    }
}

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    // Replaces Starlark's own function, which only takes texts.
    fn fail<'v>(#[starlark(args)] args: UnpackTuple<Value<'v>>) -> starlark::Result<NoneType> {
        let is_error = |value: &&Value<'v>| is_errors(**value);
        let texts: Vec<_> = args.items.iter().filter(|value| !is_error(value)).map(|value| shown(*value)).collect();
        let context = texts.join(" ");
        let errors = args.items.iter().filter(is_error).copied();
        let mut problems = collected(errors, "the argument of fail")?;
        if problems.is_empty() {
            let message = if context.is_empty() { "fail was called without a message" } else { &context };
            return Err(starlark::Error::new_kind(ErrorKind::Fail(anyhow::anyhow!("{message}"))));
        }
        surround(&mut problems, &context);
        Err(Thrown(problems).into())
    }

    fn fail_terminal<'v>(#[starlark(require = pos)] message: Value<'v>) -> starlark::Result<NoneType> {
        Err(Thrown(vec![Problem::own(shown(message), true, None)]).into())
    }

    fn fail_transient<'v>(
        #[starlark(require = pos)] message: Value<'v>,
        retry_after_ms: Option<Value<'v>>,
    ) -> starlark::Result<NoneType> {
        Err(Thrown(vec![transient_of(message, retry_after_ms)?]).into())
    }

    fn fail_all<'v>(
        #[starlark(require = pos)] errors: Value<'v>,
        context: Option<Value<'v>>,
    ) -> starlark::Result<NoneType> {
        let mut problems = collected([errors], "the argument of fail_all")?;
        surround(&mut problems, &context.filter(|context| !context.is_none()).map(shown).unwrap_or_default());
        failures::throw_all(problems)?;
        Ok(NoneType)
    }

    fn attempt<'v>(
        #[starlark(require = pos)] function: Value<'v>,
        #[starlark(args)] args: UnpackTuple<Value<'v>>,
        #[starlark(kwargs)] options: SmallMap<String, Value<'v>>,
        eval: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let named: Vec<(&str, Value<'v>)> = options.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let (value, problems) = match eval.eval_function(function, &args.items, &named) {
            Ok(value) => (value, vec![]),
            Err(error) => (Value::new_none(), failures::problems(&error)),
        };
        let heap = eval.heap();
        Ok(heap.alloc(AllocStruct([("value", value), ("errors", failures::values(heap, &problems))])))
    }
}

#[starlark_module]
pub(crate) fn values(builder: &mut GlobalsBuilder) {
    fn terminal<'v>(#[starlark(require = pos)] message: Value<'v>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        Ok(Problem::own(shown(message), true, None).value(heap))
    }

    fn transient<'v>(
        #[starlark(require = pos)] message: Value<'v>,
        retry_after_ms: Option<Value<'v>>,
        heap: Heap<'v>,
    ) -> starlark::Result<Value<'v>> {
        Ok(transient_of(message, retry_after_ms)?.value(heap))
    }

    fn api<'v>(#[starlark(kwargs)] fields: SmallMap<String, Value<'v>>, heap: Heap<'v>) -> starlark::Result<Value<'v>> {
        let mut options = Options::new("errors.api", fields);
        let error = ApiError {
            code: code(options.number("code")?)?,
            reason: options.one_of("reason", &reasons())?,
            status_reason: options.text("status_reason")?.unwrap_or_default(),
            message: options.text("message")?.unwrap_or_default(),
            retry_after_ms: options.milliseconds("retry_after_ms")?,
            verb: options.text("verb")?.unwrap_or_default(),
            resource: options.text("resource")?.unwrap_or_default(),
            object: options.reference("object")?,
        };
        options.end()?;
        Ok(Problem::from(error).value(heap))
    }
}

/// Checks an HTTP status.
fn code(given: Option<u32>) -> starlark::Result<u16> {
    let Some(given) = given else { return Err(wrong("errors.api needs `code`: the HTTP status, such as 409")) };
    u16::try_from(given).map_err(|_| wrong(format!("`code` of errors.api is {given}, which is not an HTTP status")))
}

/// All reasons by name. The first one stands for no reason.
fn reasons() -> Vec<(&'static str, ApiReason)> {
    let others = ApiReason::ALL.into_iter().filter(|reason| *reason != ApiReason::Other);
    std::iter::once(ApiReason::Other).chain(others).map(|reason| (reason.as_str(), reason)).collect()
}

fn transient_of<'v>(message: Value<'v>, retry_after_ms: Option<Value<'v>>) -> starlark::Result<Problem> {
    let after = retry_after_ms.filter(|after| !after.is_none());
    let after = after.map(|after| milliseconds(after, "`retry_after_ms`")).transpose()?;
    Ok(Problem::own(shown(message), false, after))
}

fn surround(problems: &mut [Problem], context: &str) {
    if !context.is_empty() {
        for problem in problems {
            problem.surround(context);
        }
    }
}
