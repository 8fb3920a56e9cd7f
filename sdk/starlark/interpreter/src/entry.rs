//! The exports of the component: `describe`; `reconcile`, `matches` and `map`, or `compose` and `customize`. The host
//! calls `matches`, `map` and `customize` only if the manifest has a watch that uses them.

use starlark::environment::FrozenModule;
use starlark::values::{Heap, OwnedFrozenValue, Value};
use windlass_sdk::bindings::windlass::plugin::log::{self, Level};
use windlass_sdk::bindings::windlass::plugin::types::Failure;

use crate::arguments::wrong;
use crate::failures::{problems, reported};
#[cfg(feature = "reconciler")]
use crate::kind::PREDICATE;
use crate::kind::{KINDS, RELATION};
use crate::script::{self, FILE};
use crate::{answers, relations};

struct Component;

#[cfg(feature = "reconciler")]
mod reconciler {
    use starlark::values::Value;
    use windlass_sdk::bindings::exports::windlass::plugin::reconciler::{Guest, Outcome};
    use windlass_sdk::bindings::windlass::plugin::types::{Failure, Request};

    use windlass_sdk::bindings::mapper::exports::windlass::plugin::mapper::{self, ChangeBatch, Target};

    use super::{Called, Component, answered, describe};
    use crate::{answers, relations};

    impl Guest for Component {
        fn describe() -> String {
            describe()
        }

        fn reconcile(request: Request) -> Result<Outcome, Vec<Failure>> {
            answered(Called::Entry, |heap| Ok(vec![answers::request(heap, &request)?]), answers::outcome)
        }
    }

    impl mapper::Guest for Component {
        fn matches(batch: ChangeBatch) -> Result<Vec<bool>, String> {
            of_each(Called::Predicate, &batch, relations::counts)
        }

        fn map(batch: ChangeBatch) -> Result<Vec<Vec<Target>>, String> {
            of_each(Called::Relation, &batch, relations::targets)
        }
    }

    windlass_sdk::export_guest!(Component);
    #[cfg(target_arch = "wasm32")]
    windlass_sdk::bindings::mapper::export!(Component with_types_in windlass_sdk::bindings::mapper);

    /// The answer of the script's function for each change. Calls it once per change.
    fn of_each<T>(
        called: Called,
        batch: &ChangeBatch,
        answer: fn(Value<'_>) -> starlark::Result<T>,
    ) -> Result<Vec<T>, String> {
        let of_change = |change| answered(called, |heap| relations::change(heap, &batch.watch, change), answer);
        let answers: Result<Vec<_>, Vec<Failure>> = batch.changes.iter().map(of_change).collect();
        answers.map_err(|failures| {
            let texts: Vec<_> = failures.into_iter().map(text).collect();
            texts.join("; ")
        })
    }

    /// Returns the text of a failure, because a mapper's error is only a text. For a host error it is the host's
    /// message.
    fn text(failure: Failure) -> String {
        failure.api.map_or(failure.message, |error| error.message)
    }
}

#[cfg(feature = "composer")]
mod composer {
    use windlass_sdk::bindings::composer::exports::windlass::plugin::composer::{
        Composition, CompositionRequest, Guest,
    };
    use windlass_sdk::bindings::windlass::plugin::types::Failure;

    use windlass_sdk::bindings::customize::exports::windlass::plugin::customize::{self, RelatedRule};
    use windlass_sdk::bindings::windlass::plugin::types::Request;

    use super::{Called, Component, answered, describe};
    use crate::{answers, relations};

    impl Guest for Component {
        fn describe() -> String {
            describe()
        }

        fn compose(request: CompositionRequest) -> Result<Composition, Vec<Failure>> {
            answered(
                Called::Entry,
                |heap| Ok(vec![answers::composition_request(heap, &request)?]),
                answers::composition,
            )
        }
    }

    impl customize::Guest for Component {
        fn customize(request: Request) -> Result<Vec<RelatedRule>, Vec<Failure>> {
            answered(Called::Relation, |heap| Ok(vec![answers::request(heap, &request)?]), relations::rules)
        }
    }

    windlass_sdk::export_composer_guest!(Component);
    #[cfg(target_arch = "wasm32")]
    windlass_sdk::bindings::customize::export!(Component with_types_in windlass_sdk::bindings::customize);
}

/// Returns the manifest. Without a valid manifest, the call ends, and the reason is in the log, where the host looks
/// for it.
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
    let manifest = if manifest.value().get_type() == "function" {
        script::call(&manifest, |_| Ok(vec![]), answers::manifest)?
    } else {
        answers::manifest(manifest.value())?
    };
    if relations::are_by_code(&manifest) {
        relation(script)?;
    }
    #[cfg(feature = "reconciler")]
    if relations::have_predicates(&manifest) {
        predicate(script)?;
    }
    Ok(manifest.to_string())
}

/// The script's function that handles the host's calls.
fn function(script: &FrozenModule) -> starlark::Result<OwnedFrozenValue> {
    let [(name, kind), _] = KINDS;
    defined(script, name, "request", &format!("a {kind} has"))
}

/// The script's function for relations that no mapping of the manifest can express.
fn relation(script: &FrozenModule) -> starlark::Result<OwnedFrozenValue> {
    let (name, arguments, mapping) = RELATION;
    defined(script, name, arguments, &format!("a manifest with a watch that is mapped by `{mapping}` wants"))
}

/// The script's function for watches with a predicate in code.
#[cfg(feature = "reconciler")]
fn predicate(script: &FrozenModule) -> starlark::Result<OwnedFrozenValue> {
    let (name, arguments, field) = PREDICATE;
    defined(script, name, arguments, &format!("a manifest with a watch that has `{field}` wants"))
}

fn defined(script: &FrozenModule, name: &str, arguments: &str, wants: &str) -> starlark::Result<OwnedFrozenValue> {
    let Some(found) = script.get_option(name)? else {
        return Err(wrong(format!("{FILE} defines no `{name}`: {wants} `def {name}({arguments}):`")));
    };
    let found_type = found.value().get_type();
    if found_type == "function" {
        return Ok(found);
    }
    Err(wrong(format!("`{name}` of {FILE} is of type {found_type}: {wants} `def {name}({arguments}):`")))
}

/// A function of the script that the host calls.
#[derive(Clone, Copy)]
enum Called {
    Entry,
    Relation,
    #[cfg(feature = "reconciler")]
    Predicate,
}

impl Called {
    fn find(self, script: &FrozenModule) -> starlark::Result<OwnedFrozenValue> {
        match self {
            Self::Entry => function(script),
            Self::Relation => relation(script),
            #[cfg(feature = "reconciler")]
            Self::Predicate => predicate(script),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Entry => KINDS[0].0,
            Self::Relation => RELATION.0,
            #[cfg(feature = "reconciler")]
            Self::Predicate => PREDICATE.0,
        }
    }
}

/// Calls a function of the script, and reads its response.
fn answered<T>(
    called: Called,
    arguments: impl for<'v> FnOnce(Heap<'v>) -> starlark::Result<Vec<Value<'v>>>,
    answer: impl for<'v> FnOnce(Value<'v>) -> starlark::Result<T>,
) -> Result<T, Vec<Failure>> {
    // The value of an invalid response has no place in the script, so the place of the function is reported.
    let answer = |value: Value<'_>| answer(value).map_err(|error| script::placed(called.name(), &error));
    let call = || {
        let function = script::with(|script| called.find(script))?;
        script::in_call(|| script::call(&function, arguments, answer))
    };
    call().map_err(|error| {
        reported(&error, |message, stack| log::log(Level::Error, message, &[("stack".to_owned(), stack.to_owned())]))
    })
}
