//! The probe of the conformance suite in Rust. It carries out the steps in its primary, each through the SDK's public
//! functions.
//!
//! tests/conformance/README.md lists the steps. A step that cannot be read is a mistake in the suite, and panics.

mod arguments;
mod common;
mod ends;
mod manifest;
mod mapping;
mod outside;
mod reads;
mod writing;

use serde_json::{Value, json};
use windlass_sdk::manifest::Manifest;
use windlass_sdk::{Failures, Outcome, Reconciler, Request, writes};

use common::{Answer, steps};

struct Probe;

windlass_sdk::plugin!(Probe);
windlass_sdk::mapper!(Probe);

impl Reconciler for Probe {
    fn manifest() -> Manifest {
        manifest::manifest()
    }

    fn reconcile(request: Request) -> Result<Outcome, Failures> {
        let Some(primary) = request.object::<Value>()? else { return Ok(Outcome::Done) };
        let mut results = Vec::new();
        for step in steps(&primary) {
            if let Some(end) = ends::end(step) {
                return end;
            }
            results.push(common::shown(carry_out(&request, step)));
        }
        let report =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "report"}, "results": results});
        writes::create(&report).send()?;
        Ok(Outcome::Done)
    }
}

fn carry_out(request: &Request, step: &Value) -> Answer {
    let call = step["call"].as_str().unwrap_or_default();
    let answer = common::call(request, call, step)
        .or_else(|| reads::call(call, step))
        .or_else(|| writing::call(call, step))
        .or_else(|| outside::call(call, step));
    answer.unwrap_or_else(|| panic!("conformance: there is no call {call}"))
}
