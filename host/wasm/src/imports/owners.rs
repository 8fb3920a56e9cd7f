//! `owners`: claims, each handed to the port and carried out on the host's runtime. What a claim has sent is settled by
//! the port, also when this call is cancelled.

use windlass_core::object::ObjectRef;

use crate::abi::v0_2_0::bindings::windlass::plugin::owners::{Claimed, Host};
use crate::abi::v0_2_0::bindings::windlass::plugin::types::{ApiError, ObjectKind};
use crate::abi::v0_2_0::convert;
use crate::imports::{RAISE_RESPONSE, elsewhere, make_room, malformed, too_large};
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
        let claimed = claim.await?;
        make_room(self, 0).await;
        let size =
            claimed.as_ref().map_or(0, |claimed| claimed.adopted.iter().chain(&claimed.released).map(size).sum());
        if size > self.meter.limits().response_bytes {
            // Its effects are there, and a claim of fewer, or the next of the same, tells of them.
            let message = format!("it was carried out, but the answer has {size} bytes ({RAISE_RESPONSE})");
            return Ok(Err(vec![too_large("claim", message)]));
        }
        Ok(claimed
            .map(|claimed| Claimed { adopted: references(&claimed.adopted), released: references(&claimed.released) })
            .map_err(|errors| errors.into_iter().map(convert::api_error).collect()))
    }
}

/// The bytes that a reference takes, by and large.
fn size(object: &ObjectRef) -> usize {
    let uid = object.uid.as_deref().map_or(0, str::len);
    let namespace = object.key.namespace.as_deref().map_or(0, str::len);
    object.kind.api_version.len() + object.kind.kind.len() + namespace + object.key.name.len() + uid
}
