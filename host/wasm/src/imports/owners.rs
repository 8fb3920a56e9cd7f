//! `owners`: claims, each handed to the port and carried out on the caller's runtime. What a claim has sent is settled by
//! the port, also when this call is cancelled.

use crate::abi::v0_1_0::bindings::windlass::plugin::owners::{Claimed, Host};
use crate::abi::v0_1_0::bindings::windlass::plugin::types::{ApiError, ObjectKind};
use crate::abi::v0_1_0::convert;
use crate::imports::{elsewhere, malformed};
use crate::state::CallState;

impl Host for CallState {
    async fn claim(
        &mut self,
        kind: ObjectKind,
        label_selector: String,
    ) -> wasmtime::Result<Result<Claimed, Vec<ApiError>>> {
        let world = self.enter("owners.claim")?;
        let (owners, call) = (world.ports.owners.clone(), world.call.clone());
        let asked = convert::object_kind(kind.api_version, kind.kind)
            .and_then(|kind| Ok((kind, convert::short("label selector", Some(label_selector))?.unwrap_or_default())));
        let (kind, selector) = match asked {
            Ok(asked) => asked,
            Err(reason) => return Ok(Err(vec![malformed("claim", reason)])),
        };
        let claim = elsewhere(self, "owners.claim", async move { owners.claim(call, kind, selector).await });
        let references = |objects: &[_]| objects.iter().map(convert::reference).collect();
        Ok(claim
            .await?
            .map(|claimed| Claimed { adopted: references(&claimed.adopted), released: references(&claimed.released) })
            .map_err(|errors| errors.into_iter().map(convert::api_error).collect()))
    }
}
