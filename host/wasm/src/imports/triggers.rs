//! `triggers`: the reasons for the call.

use windlass_core::call::read_tracker::Spoiler;
use windlass_core::queue::trigger::Trigger;

use crate::abi::v0_3_0::bindings::windlass::plugin::triggers::{self, Host};
use crate::abi::v0_3_0::convert;
use crate::state::CallState;

impl Host for CallState {
    fn list(&mut self) -> wasmtime::Result<Vec<triggers::Trigger>> {
        let world = self.enter("triggers.list")?;
        world.call.reads.spoil(Spoiler::Triggers);
        Ok(world.call.triggers.iter().map(trigger).collect())
    }
}

fn trigger(trigger: &Trigger) -> triggers::Trigger {
    triggers::Trigger {
        reason: trigger.reason.as_str().to_owned(),
        watch: trigger.watch.as_deref().map(str::to_owned),
        object: trigger.object.as_ref().map(convert::reference),
    }
}
