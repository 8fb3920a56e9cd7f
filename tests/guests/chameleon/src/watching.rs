//! The modes about watches, projections and indexes.

use serde_json::Value;
use windlass_sdk::manifest::{Controller, IndexSource, Mapping, Projection, SelectorForm, Timer, Watch};
use windlass_sdk::{Failures, ObjectRef, Outcome, Request, cache, info};

use crate::kinds;
use crate::modes::Mode;

/// The index of `referring`.
const BY_SECRET: &str = "by-secret";
/// The index of `selecting` and `mapping`.
pub(crate) const BY_SELECTOR: &str = "by-selector";

/// The interval of `timed`: longer than a test.
const TIMED_INTERVAL_MILLIS: u32 = 3_600_000;

pub(crate) fn controller(mode: Mode, primary: Watch) -> Controller {
    match mode {
        Mode::Referring => {
            let secret = IndexSource::Field { pointer: "/data/secret".into() };
            Controller::new("chameleon", primary.index(BY_SECRET, secret))
                .watches(Watch::of("v1", "Secret"), Mapping::ReferencedBy { index: BY_SECRET.into() })
        }
        Mode::Selecting => {
            let selected = Watch::of("v1", "ConfigMap").projection(Projection::Metadata).ignore_deletions();
            Controller::new("chameleon", by_selector(primary))
                .watches(selected, Mapping::SelectedBy { index: BY_SELECTOR.into() })
        }
        Mode::Mapping => Controller::new("chameleon", by_selector(primary))
            .watches(Watch::of("v1", "ConfigMap").named("maps"), Mapping::Mapper)
            .hook("named", Mapping::Field { pointer: "/payload/services/*".into() })
            .hook("mapped", Mapping::Mapper)
            .hook("everything", Mapping::All),
        Mode::Judging(_) => Controller::new("chameleon", primary.named("judged").code_predicate())
            .watches(Watch::of("v1", "Secret").named("secrets").code_predicate(), Mapping::SameName),
        Mode::Concerned => Controller::new("chameleon", primary).watches(Watch::of("v1", "Namespace"), Mapping::All),
        Mode::Slim => {
            let kept = Projection::Fields { pointers: vec!["/data/kept".into()] };
            let secrets = Watch::of("v1", "Secret").projection(Projection::Metadata);
            Controller::new("chameleon", primary.projection(kept)).watches(secrets, Mapping::SameName)
        }
        Mode::Kinds => kinds::controller(),
        Mode::Timed => Controller::new("chameleon", Timer::every_ms(TIMED_INTERVAL_MILLIS))
            .watches(Watch::of("v1", "ConfigMap").labels("chameleon=true"), Mapping::All)
            .watches(Watch::of("v1", "Secret").labels("chameleon=true").named("read"), Mapping::None),
        _ => Controller::new("chameleon", primary),
    }
}

fn by_selector(primary: Watch) -> Watch {
    let selector = IndexSource::Selector { pointer: "/spec/selector".into(), form: SelectorForm::Labels };
    primary.index(BY_SELECTOR, selector)
}

pub(crate) fn count_referrers(request: &Request) -> Result<Outcome, Failures> {
    let Some(object) = request.object::<Value>()? else { return Ok(Outcome::Done) };
    let secret = object["data"]["secret"].as_str().unwrap_or_default();
    let referrers = cache::list("v1", "ConfigMap").index(BY_SECRET, secret).iter::<Value>();
    let count = referrers.collect::<Result<Vec<_>, _>>()?.len();
    let name = &request.name;
    info!("chameleon {name} sees {count} of {secret}");
    Ok(Outcome::Done)
}

pub(crate) fn tell_time(request: &Request) -> Result<Outcome, Failures> {
    let Some(object) = request.object::<Value>()? else { return Ok(Outcome::Done) };
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("never").to_owned();
    let (kind, due, last) = (text("/kind"), text("/status/dueTime"), text("/status/lastDueTime"));
    let secrets = cache::list("v1", "Secret").iter::<Value>().collect::<Result<Vec<_>, _>>()?.len();
    let name = &request.name;
    info!("chameleon, as the {kind} {name}, is due at {due} after {last} and sees {secrets} secrets");
    Ok(Outcome::Done)
}

pub(crate) fn tell_fields(request: &Request) -> Result<Outcome, Failures> {
    let Some(object) = request.object::<Value>()? else { return Ok(Outcome::Done) };
    let namespace = request.namespace.clone().unwrap_or_default();
    let secret = cache::get::<Value>(&ObjectRef::namespaced("v1", "Secret", &namespace, &request.name))?;
    let fields = |value: &Value| value.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>().join(","));
    let (kept, secret) =
        (fields(&object["data"]).unwrap_or_default(), secret.as_ref().and_then(fields).unwrap_or_default());
    info!("chameleon has {kept} and of its Secret {secret}");
    Ok(Outcome::Done)
}
