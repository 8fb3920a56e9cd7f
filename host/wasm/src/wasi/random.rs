//! `wasi:random`: the random data of the call. The insecure functions have the same source. `insecure-seed` is meant
//! for the keys of hash tables, but nothing keeps a plugin from deciding by them.

use crate::state::CallState;
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

impl CallState {
    fn random_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.world.fill_random(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

impl random::Host for CallState {
    fn get_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(self.random_bytes(length)?)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random_u64())
    }
}

impl insecure::Host for CallState {
    fn get_insecure_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(self.random_bytes(length)?)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random_u64())
    }
}

impl insecure_seed::Host for CallState {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.random_u64(), self.random_u64()))
    }
}
