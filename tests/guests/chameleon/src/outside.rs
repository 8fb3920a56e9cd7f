//! The mode that calls a server of the test, and sets metrics.

use serde_json::Value;
use windlass_sdk::manifest::{HttpAccess, HttpScheme, Manifest};
use windlass_sdk::metrics::{Counter, Gauge, Histogram};
use windlass_sdk::{Failures, Outcome, Request, http, info};

const VISITS: Counter<1> = Counter::new("visits_total", "Visits, by what came of them.\nOf all time.", ["result"]);
const SIZE: Histogram<0> = Histogram::new("answer_bytes", "Sizes of answers.", []).buckets(&[10.0, 100.0]);
/// A metric that is not in the manifest.
const SECRET: Gauge<0> = Gauge::new("secret", "Nobody is told.", []);

pub(crate) fn declare(manifest: Manifest, port: u16) -> Manifest {
    manifest.metric(VISITS).metric(SIZE).http(HttpAccess::new(HttpScheme::Http, "127.0.0.1", &["GET"]).port(port))
}

pub(crate) fn visit(request: &Request, port: u16) -> Result<Outcome, Failures> {
    let Some(object) = request.object::<Value>()? else { return Ok(Outcome::Done) };
    let path = object["data"]["path"].as_str().unwrap_or_default();
    SECRET.set(1.0, []);
    match http::get(format!("http://127.0.0.1:{port}{path}")).send() {
        Ok(response) => {
            VISITS.add(1.0, ["answered"]);
            let body = response.text().unwrap_or_default();
            SIZE.observe(u32::try_from(body.len()).map_or(f64::MAX, f64::from), []);
            let status = response.status();
            info!("chameleon got {status}: {body}");
        }
        Err(error) => {
            VISITS.add(1.0, ["failed"]);
            info!("chameleon got nothing: {error}");
        }
    }
    Ok(Outcome::Done)
}
