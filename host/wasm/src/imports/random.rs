//! `random`: secure in `reconcile`, from a seed that follows from the request in `compose`, from a fixed one in
//! `describe`.

use rand::Rng;

use crate::abi::v0_1_0::bindings::windlass::plugin::random::Host;
use crate::limits::{Limit, Overrun};
use crate::state::{CallState, World};

impl Host for CallState {
    fn get_u32(&mut self) -> wasmtime::Result<u32> {
        Ok(match &mut self.world {
            World::Describe(world) => world.random.next_u32(),
            World::Reconcile(_) | World::Parked => rand::rng().next_u32(),
            World::Compose(world) => world.random.next_u32(),
        })
    }

    fn get_bytes(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
        let limit = self.meter.limits().random_bytes;
        if length > limit {
            return Err(Overrun::bytes(Limit::RandomBytes, limit as usize).into());
        }
        let mut bytes = vec![0; length as usize];
        match &mut self.world {
            World::Describe(world) => world.random.fill_bytes(&mut bytes),
            World::Reconcile(_) | World::Parked => rand::rng().fill_bytes(&mut bytes),
            World::Compose(world) => world.random.fill_bytes(&mut bytes),
        }
        Ok(bytes)
    }
}
