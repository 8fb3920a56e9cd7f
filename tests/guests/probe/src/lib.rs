//! A guest that carries out the script in its primary: one step is one import call, one result is one line of the log.
//!
//! The README lists the steps. It calls the generated bindings, not the SDK, which would not let it make wrong calls. A
//! script that cannot be read is a mistake of the test's, and a panic.

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
