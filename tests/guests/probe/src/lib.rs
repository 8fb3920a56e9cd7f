//! A guest that carries out the script in its primary. Each step is one call of an import, and each result is one log
//! line.
//!
//! The README lists the steps. The guest uses the generated bindings, because the SDK would prevent wrong calls. A
//! script that cannot be read is a mistake in the test, and panics.

mod cache;
mod clock;
mod config;
mod control;
mod events;
mod http;
mod live;
mod log;
mod manifest;
mod metrics;
mod once;
mod owners;
mod random;
mod report;
mod script;
mod substitute;
mod triggers;
mod wire;
mod writes;

use serde_json::Value;
use windlass_sdk::manifest::Manifest;
use windlass_sdk::{Failures, Outcome, Reconciler, Request};

use script::Script;

struct Probe;

windlass_sdk::plugin!(Probe);

impl Reconciler for Probe {
    fn manifest() -> Manifest {
        manifest::manifest()
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        let Some(object) = request.object::<Value>()? else {
            report::gone(&request);
            return Ok(Outcome::Done);
        };
        let Some(script) = Script::of(&object) else { return Ok(Outcome::Done) };
        if !script.always && !once::claim(&request, &object)? {
            return Ok(Outcome::Done);
        }
        script.run(&request, &object)
    }
}
