//! Outages: all requests of one kind fail for hours, so that each affected key reaches its longest backoff.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_apiserver::{ErrorAnswer, Reaction, ReactorRule, RequestFilter};

use super::{HOST, RequestPlace, writes};
use crate::fault::Fault;

/// Enough for a key to reach its longest backoff, which takes 22 minutes, and to wait for it a few times.
const OUTAGE_DURATION: Duration = Duration::from_hours(2);

/// A missing right counts as a failure, so the host gives a key up after some retries and then tries it rarely. A
/// server error does not count.
const ERRORS: [(u16, &str); 2] = [(403, "is refused as forbidden"), (500, "fails in the server")];

/// One fault for each kind of write and each error.
pub(super) fn faults(places: &[RequestPlace]) -> Vec<Fault> {
    let kinds: BTreeSet<(&str, &str)> = writes(places).map(|place| (place.line.verb, &*place.line.resource)).collect();
    kinds.into_iter().flat_map(|kind| ERRORS.map(|error| fault(kind, error))).collect()
}

fn fault((verb, resource): (&str, &str), (code, happens): (u16, &str)) -> Fault {
    let when = RequestFilter {
        verbs: vec![verb.to_owned()],
        resources: vec![resource.to_owned()],
        user_agents: vec![HOST.to_owned()],
        ..RequestFilter::default()
    };
    let answer = Reaction::Error(ErrorAnswer { code, ..ErrorAnswer::default() });
    let hours = OUTAGE_DURATION.as_secs() / 3_600;
    Fault {
        name: format!("each {verb} {resource} {happens}, for {hours} h"),
        class: "outage".to_owned(),
        rules: vec![ReactorRule { name: "outage".to_owned(), when, then: vec![answer] }],
        lasts_seconds: Some(OUTAGE_DURATION.as_secs()),
        ..Fault::default()
    }
}
