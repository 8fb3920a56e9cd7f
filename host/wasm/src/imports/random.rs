//! `random`: secure in `reconcile`, from a seed that follows from the request in `compose`, from a fixed one in
//! `describe`.

use rand::Rng;

use crate::abi::v0_1_0::bindings::windlass::plugin::random::Host;
use crate::limits::{Limit, Overrun};
use crate::state::{CallState, World};

impl Host for CallState {
    fn get_u32(&mut self) -> wasmtime::Result<u32> {
        let mut bytes = [0; 4];
        fill(&mut self.world, &mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn get_bytes(&mut self, length: u32) -> wasmtime::Result<Vec<u8>> {
        let limit = self.meter.limits().random_bytes;
        if length > limit {
            return Err(Overrun::bytes(Limit::RandomBytes, limit as usize).into());
        }
        let mut bytes = vec![0; length as usize];
        fill(&mut self.world, &mut bytes);
        Ok(bytes)
    }
}

fn fill(world: &mut World, bytes: &mut [u8]) {
    match world {
        World::Describe(world) => world.random.fill_bytes(bytes),
        World::Reconcile(world) => world.fill_random(bytes),
        World::Compose(world) => world.random.fill_bytes(bytes),
        World::Parked => rand::rng().fill_bytes(bytes),
    }
}
