//! `random`: secure in `reconcile`, from a seed derived from the request in `compose`, and from a fixed seed in
//! `describe`.

use crate::abi::v0_3_0::bindings::windlass::plugin::random::Host;
use crate::state::CallState;

impl Host for CallState {
    fn get_u32(&mut self) -> wasmtime::Result<u32> {
        self.note_import("random.get-u32");
        let mut bytes = [0; 4];
        self.world.fill_random(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn get_bytes(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
        self.note_import("random.get-bytes");
        Ok(self.random_bytes(length.into())?)
    }
}
