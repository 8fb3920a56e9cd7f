//! Notes that a guest gets something that another call would not get, so that the next call is made (ADR 46).

use windlass_core::call::read_tracker::Spoiler;
use windlass_core::defect::Defect;

use crate::state::World;

impl World {
    /// Notes that the guest gets the time, of day or since something happened.
    pub(crate) fn gets_time(&self) {
        if !Defect::ClockIsNotNoted.is_seeded() {
            self.spoils(Spoiler::Clock);
        }
    }

    /// Notes that the guest gets random data. Those of an export that only answers follow from its arguments.
    pub(crate) fn gets_chance(&self) {
        if !matches!(self, Self::Answer(_)) {
            self.spoils(Spoiler::Chance);
        }
    }

    /// Notes in the call's context that its guest gets something of the kind `why`.
    pub(crate) fn spoils(&self, why: Spoiler) {
        if let Some(call) = self.call() {
            call.reads.spoil(why);
        }
    }
}
