//! Jumps of the host's clock, as when a person sets it or a node synchronises its time after a sleep.

use std::time::Duration;

use windlass_apiserver::ClockLeap;

use crate::fault::{Fault, SetClock};
use crate::trace::{Entry, Happening};

/// Longer than plugins usually wait. A plugin that computes the age of an object may get a negative one.
const CLOCK_LEAP: Duration = Duration::from_hours(6);

/// One fault for each step of the reference and each direction.
pub(super) fn faults(reference: &[Entry]) -> Vec<Fault> {
    let first = reference.iter().take_while(|entry| entry.happened != Happening::Restart);
    let steps = first.filter(|entry| matches!(entry.happened, Happening::Step(_))).count();
    let at =
        |after_step| [true, false].map(|back| fault(SetClock { after_step, by: ClockLeap { by: CLOCK_LEAP, back } }));
    (0..steps).flat_map(at).collect()
}

fn fault(clock: SetClock) -> Fault {
    let name = format!("{} when all is quiet after step {}", clock.description(), clock.after_step + 1);
    Fault { name, class: "clock".to_owned(), clock: Some(clock), ..Fault::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_set_back_and_forward_after_each_step() {
        let entry = |happened| Entry { at: Duration::ZERO, happened };
        let step = || entry(Happening::Step("apply".to_owned()));
        let names: Vec<_> =
            faults(&[step(), step(), entry(Happening::Restart), step()]).into_iter().map(|it| it.name).collect();
        let expected = [
            "the host's clock is set back by 6 h when all is quiet after step 1",
            "the host's clock is set forward by 6 h when all is quiet after step 1",
            "the host's clock is set back by 6 h when all is quiet after step 2",
            "the host's clock is set forward by 6 h when all is quiet after step 2",
        ];
        assert_eq!(names, expected);
    }
}
