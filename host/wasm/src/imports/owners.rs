//! `owners`: claims, which are sent to the port and awaited in the call's task. If the call is cancelled, the port
//! still settles the writes that a claim has sent.

use windlass_core::call::ports::OwnerClaim;

use crate::abi::v0_3_0::bindings::windlass::plugin::owners::{Claimed, Host};
use crate::abi::v0_3_0::bindings::windlass::plugin::types::{ApiError, ObjectKind};
use crate::abi::v0_3_0::convert;
use crate::imports::{RAISE_RESPONSE, ask, malformed, too_large};
use crate::state::CallState;

impl Host for CallState {
    async fn claim(
        &mut self,
        kind: ObjectKind,
        label_selector: String,
    ) -> wasmtime::Result<Result<Claimed, Vec<ApiError>>> {
        self.enter("owners.claim")?;
        let asked = convert::object_kind(kind.api_version, kind.kind).and_then(|kind| {
            let label_selector = convert::short("label selector", Some(label_selector))?.unwrap_or_default();
            Ok(OwnerClaim { kind, label_selector })
        });
        let claim = match asked {
            Ok(claim) => claim,
            Err(reason) => return Ok(Err(vec![malformed("claim", reason)])),
        };
        let (claimed, size) = ask(self, "owners.claim", claim).await?;
        if size > self.meter.limits().response_bytes {
            // The claim has taken effect, and only its answer is too large. A claim that matches fewer objects has a
            // smaller answer.
            let message = format!("the claim was carried out, but its answer has {size} bytes ({RAISE_RESPONSE})");
            return Ok(Err(vec![too_large("claim", message)]));
        }
        let references = |objects: &[_]| objects.iter().map(convert::reference).collect();
        Ok(claimed
            .map(|claimed| Claimed { adopted: references(&claimed.adopted), released: references(&claimed.released) })
            .map_err(|errors| errors.into_iter().map(convert::api_error).collect()))
    }
}
