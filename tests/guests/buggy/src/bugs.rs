//! The bugs, each as a function.

use std::hint::black_box;

use serde_json::{Value, json};
use windlass_sdk::{Error, Failures, ObjectRef, Outcome, cache, clock, info, live, random, writes};

use crate::Buggy;

/// The number of calls after which an error is called final.
const CALLS_UNTIL_FINAL: u32 = 5;

/// Carries out `spec.bug`. `attempt` is the number of calls since the last success.
pub(crate) fn reconcile(object: &Buggy, attempt: u32) -> Result<Outcome, Failures> {
    match object.spec.bug.as_str() {
        "" => object.apply()?,
        "notes-before-it-does" => notes_before(object)?,
        "notes-after-it-did" => notes_after(object)?,
        "creates-once" => creates_once(object)?,
        // The bug: the error is ignored.
        "swallows-errors" => drop(object.apply()),
        "gives-up" => object.apply().map_err(|error| Failures::terminal(error.to_string()))?,
        "loses-patience" => object.apply().map_err(|error| match attempt {
            0..CALLS_UNTIL_FINAL => Failures::from(error),
            _ => Failures::terminal(error.to_string()),
        })?,
        "never-shrinks" => never_shrinks(object)?,
        "writes-the-time" => writes_the_time(object)?,
        "counts-its-calls" => counts_calls(object)?,
        "draws-a-name" => draws(object)?,
        "wants-a-note" => wants_note(object)?,
        "runs-ahead" => runs_ahead(object)?,
        "disowns" => disowns(object)?,
        "never-lets-go" => never_lets_go(object)?,
        "does-not-look" => does_not_look(object)?,
        "makes-anew" => makes_anew(object)?,
        "keeps-its-first-wish" => keeps_first_wish(object)?,
        "trusts-the-clock" => trusts_clock(object)?,
        "never-ends" => never_ends(),
        other => return Err(Failures::terminal(format!("there is no bug {other:?}"))),
    }
    Ok(Outcome::Done)
}

/// The bug: a crash between the status and the child leaves an object without a child.
fn notes_before(object: &Buggy) -> Result<(), Error> {
    if object.status["made"] != true {
        object.report(&json!({"made": true}))?;
        writes::create(&object.wanted(object.name())).owned().send()?;
    }
    keep_up(object)
}

/// The bug: a crash between the child and the status leaves two children.
fn notes_after(object: &Buggy) -> Result<(), Error> {
    if let Some(name) = object.status["child"].as_str() {
        return writes::apply(&object.wanted(name)).owned().force().send().map(|_| ());
    }
    let mut wanted = object.wanted("");
    wanted["metadata"] = json!({"generateName": "buggy-", "namespace": object.metadata.namespace});
    let made: Value = writes::create(&wanted).owned().send()?.object()?;
    object.report(&json!({"child": made["metadata"]["name"]}))
}

/// The bug: after a crash, the existing child is an error for ever.
fn creates_once(object: &Buggy) -> Result<(), Error> {
    if object.status["made"] != true {
        writes::create(&object.wanted(object.name())).owned().send()?;
        object.report(&json!({"made": true}))?;
    }
    keep_up(object)
}

/// The bug: a missing child is never created; only an existing child gets the current size.
fn keep_up(object: &Buggy) -> Result<(), Error> {
    if object.cached(object.name())?.is_some() { object.apply() } else { Ok(()) }
}

/// The bug: children beyond the size are never deleted.
fn never_shrinks(object: &Buggy) -> Result<(), Error> {
    for index in 0..object.spec.size {
        let wanted = object.wanted(&format!("{}-{index}", object.name()));
        writes::apply(&wanted).owned().force().send()?;
    }
    Ok(())
}

/// The bug: each call writes another value, which causes another call.
fn writes_the_time(object: &Buggy) -> Result<(), Error> {
    let mut wanted = object.wanted(object.name());
    let now = clock::now();
    wanted["data"]["at"] = json!(format!("{}.{}", now.seconds, now.nanoseconds));
    writes::apply(&wanted).owned().force().send().map(|_| ())
}

/// The bug: each call changes the plugin's own annotation, which causes another call.
fn counts_calls(object: &Buggy) -> Result<(), Error> {
    object.apply()?;
    let calls = object.status["calls"].as_u64().unwrap_or_default() + 1;
    object.report(&json!({"calls": calls}))
}

/// The bug: the child's name is random.
fn draws(object: &Buggy) -> Result<(), Error> {
    let owned = cache::list("v1", "ConfigMap").owned();
    if owned.iter::<Value>().next().is_none() {
        let wanted = object.wanted(&format!("{}-{}", object.name(), random::number()));
        writes::apply(&wanted).owned().send()?;
    }
    Ok(())
}

/// The bug: an optional field is read as if it were required.
fn wants_note(object: &Buggy) -> Result<(), Error> {
    let mut wanted = object.wanted(object.name());
    wanted["data"]["note"] = json!(object.spec.note.as_ref().expect("a note"));
    writes::apply(&wanted).owned().force().send().map(|_| ())
}

/// The bug: the status claims a generation that the plugin has not seen.
fn runs_ahead(object: &Buggy) -> Result<(), Error> {
    object.apply()?;
    let generation = object.metadata.generation.unwrap_or_default();
    object.report(&json!({"observedGeneration": generation + 1}))
}

/// The bug: the child has no owner, so it is never deleted.
fn disowns(object: &Buggy) -> Result<(), Error> {
    writes::apply(&object.wanted(object.name())).force().send().map(|_| ())
}

/// The bug: the child has a finalizer that is never removed.
fn never_lets_go(object: &Buggy) -> Result<(), Error> {
    let mut wanted = object.wanted(object.name());
    wanted["metadata"]["finalizers"] = json!(["tests.windlass.dev/kept"]);
    writes::apply(&wanted).owned().force().send().map(|_| ())
}

/// The bug: the manifest does not watch the child's kind, so its deletion causes no call.
fn does_not_look(object: &Buggy) -> Result<(), Error> {
    let target = ObjectRef { kind: "Secret".to_owned(), ..object.child(object.name()) };
    let there: Option<Value> = live::get(&target)?;
    if there.is_none() {
        let mut wanted = object.wanted(object.name());
        wanted["kind"] = json!("Secret");
        wanted["stringData"] = wanted["data"].take();
        writes::create(&wanted).owned().send()?;
    }
    Ok(())
}

/// The bug: a child with any difference is deleted and created again.
fn makes_anew(object: &Buggy) -> Result<(), Error> {
    let size = json!(object.spec.size.to_string());
    match object.cached(object.name())? {
        Some(there) if there["data"]["size"] == size && there["metadata"]["annotations"].is_null() => Ok(()),
        Some(_) => writes::delete(object.child(object.name())).send().map(|_| ()),
        None => writes::create(&object.wanted(object.name())).owned().send().map(|_| ()),
    }
}

/// The bug: a later size is ignored.
fn keeps_first_wish(object: &Buggy) -> Result<(), Error> {
    if object.cached(object.name())?.is_none() {
        object.apply()?;
    }
    Ok(())
}

/// The bug: the plugin assumes that the clock never goes back.
fn trusts_clock(object: &Buggy) -> Result<(), Error> {
    object.apply()?;
    let now = clock::now().to_string();
    match object.status["since"].as_str() {
        Some(since) => assert!(*since <= *now, "{since} is over"),
        None => object.report(&json!({"since": now}))?,
    }
    Ok(())
}

/// The bug: the plugin computes for ever, and logs its progress.
fn never_ends() -> ! {
    let mut steps = 0_u64;
    loop {
        steps = black_box(steps + 1);
        if steps.is_multiple_of(1_000_000) {
            info!("{steps} steps");
        }
    }
}
