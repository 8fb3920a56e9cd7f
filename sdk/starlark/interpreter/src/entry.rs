//! The exports of the component: `describe`, and `reconcile` or `compose`.

use starlark::environment::FrozenModule;
use starlark::values::OwnedFrozenValue;
use windlass_sdk::bindings::windlass::plugin::log::{self, Level};
use windlass_sdk::bindings::windlass::plugin::types::Failure;

use crate::answers;
use crate::arguments::wrong;
use crate::failures::{problems, told};
use crate::kind::KINDS;
use crate::script::{self, FILE};

struct Component;

#[cfg(feature = "reconciler")]
mod reconciler {
    use windlass_sdk::bindings::exports::windlass::plugin::reconciler::{Guest, Outcome};
    use windlass_sdk::bindings::windlass::plugin::types::{Failure, Request};

    use super::{Component, answered, describe};
    use crate::answers;

    impl Guest for Component {
        fn describe() -> String {
            describe()
        }

        fn reconcile(request: Request) -> Result<Outcome, Vec<Failure>> {
            answered(|heap| answers::request(heap, &request), answers::outcome)
        }
    }

    windlass_sdk::export_guest!(Component);
}

#[cfg(feature = "composer")]
mod composer {
    use windlass_sdk::bindings::composer::exports::windlass::plugin::composer::{
        Composition, CompositionRequest, Guest,
    };
    use windlass_sdk::bindings::windlass::plugin::types::Failure;

    use super::{Component, answered, describe};
    use crate::answers;

    impl Guest for Component {
        fn describe() -> String {
            describe()
        }

        fn compose(request: CompositionRequest) -> Result<Composition, Vec<Failure>> {
            answered(|heap| answers::composition_request(heap, &request), answers::composition)
        }
    }

    windlass_sdk::export_composer_guest!(Component);
}

/// The manifest. A script that has none, or is none, ends the call with what is wrong in the log, which is where the host looks.
fn describe() -> String {
    match script::with(manifest) {
        Ok(manifest) => manifest,
        Err(error) => {
            let texts: Vec<_> = problems(&error).iter().map(|problem| problem.failure.message.clone()).collect();
            log::log(Level::Error, &texts.join("; "), &[]);
            trap()
        }
    }
}

#[cfg(target_arch = "wasm32")]
fn trap() -> ! {
    std::arch::wasm32::unreachable()
}

#[cfg(not(target_arch = "wasm32"))]
fn trap() -> ! {
    std::process::abort()
}

pub(crate) fn manifest(script: &FrozenModule) -> starlark::Result<String> {
    function(script)?;
    let Some(manifest) = script.get_option("manifest")? else {
        return Err(wrong(format!("{FILE} has no `manifest`: a dict with the plugin's name, version and controllers")));
    };
    if manifest.value().get_type() == "function" {
        return script::call(&manifest, |_| Ok(vec![]), answers::manifest);
    }
    answers::manifest(manifest.value())
}

/// The function of the script's that answers.
fn function(script: &FrozenModule) -> starlark::Result<OwnedFrozenValue> {
    let [(name, kind), _] = KINDS;
    let Some(found) = script.get_option(name)? else {
        return Err(wrong(format!("{FILE} defines no `{name}`: a {kind} has `def {name}(request):`")));
    };
    let found_type = found.value().get_type();
    if found_type == "function" {
        return Ok(found);
    }
    Err(wrong(format!("`{name}` of {FILE} is of type {found_type}: a {kind} has `def {name}(request):`")))
}

/// Calls the script's function.
fn answered<T>(
    request: impl for<'v> FnOnce(starlark::values::Heap<'v>) -> starlark::Result<starlark::values::Value<'v>>,
    answer: impl for<'v> FnOnce(starlark::values::Value<'v>) -> starlark::Result<T>,
) -> Result<T, Vec<Failure>> {
    let call = || {
        let function = script::with(function)?;
        script::in_call(|| script::call(&function, |heap| Ok(vec![request(heap)?]), answer))
    };
    call().map_err(|error| {
        told(&error, |message, stack| log::log(Level::Error, message, &[("stack".to_owned(), stack.to_owned())]))
    })
}
