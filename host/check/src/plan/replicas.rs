//! Faults of hosts that share a lease, and of generations that replace each other. One of each for each write of the
//! reference.

use windlass_apiserver::CommitSide;

use super::{RequestPlace, writes};
use crate::fault::{Failover, Fault};

/// The process that holds the lease becomes unreachable, and a standby takes over. There are four cases: the standby's
/// caches show the last write, they do not show it yet, the write was never committed, or the process was only
/// disconnected and returns.
pub(super) fn failovers(places: &[RequestPlace]) -> Vec<Fault> {
    let is_watched = |resource: &str| places.iter().any(|it| it.line.verb == "watch" && it.line.resource == resource);
    let at = |place: &RequestPlace, side, late: Option<&str>, happens: &str| {
        let failover = place.at(side).map(|at| Failover { at, late: late.map(str::to_owned), returns: false });
        Fault { failover, ..place.named("failover", happens) }
    };
    let of_place = |place: &RequestPlace| {
        let written = place.line.resource.split('/').next().filter(|resource| is_watched(resource));
        let late = written.map(|resource| {
            let happens = format!(
                "is the host's last write: a standby takes over, and its cache of {resource} does not show the write yet"
            );
            at(place, CommitSide::AfterCommit, Some(resource), &happens)
        });
        let known = "is the host's last write: a standby takes over, and its caches show the write";
        let never = "does not reach the server: the host becomes unreachable, and a standby takes over";
        let cut_off =
            "is delayed: the host is disconnected, a standby takes over, and 20 s later the host is connected again";
        let mut returns = at(place, CommitSide::BeforeCommit, None, cut_off);
        returns.failover.iter_mut().for_each(|failover| failover.returns = true);
        let others = [
            at(place, CommitSide::AfterCommit, None, known),
            at(place, CommitSide::BeforeCommit, None, never),
            returns,
        ];
        late.into_iter().chain(others)
    };
    writes(places).flat_map(of_place).collect()
}

/// The plugin is swapped for another generation of the same component during this write.
pub(super) fn swaps(places: &[RequestPlace]) -> Vec<Fault> {
    let sides = [
        (CommitSide::AfterCommit, "is carried out, and the plugin is swapped before the answer comes"),
        (CommitSide::BeforeCommit, "is about to be sent, and the plugin is swapped first"),
    ];
    let at = |place: &RequestPlace, side, happens: &str| Fault { swap: place.at(side), ..place.named("swap", happens) };
    writes(places).flat_map(|place| sides.map(|(side, happens)| at(place, side, happens))).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::singles;
    use super::*;
    use crate::request_line::RequestLine;
    use crate::trace::{Entry, Happening, RequestNote};

    fn request(verb: &'static str, resource: &str, name: &str) -> Entry {
        let line = RequestLine { verb, resource: resource.into(), namespace: "default".into(), name: name.into() };
        let happened = Happening::Request(RequestNote { line, code: Some(200), events: 0, created: None, key: None });
        Entry { at: Duration::ZERO, happened }
    }

    fn of_class(class: &str, reference: &[Entry]) -> Vec<Fault> {
        let mut faults = singles(reference, &[]);
        faults.retain(|fault| fault.class == class);
        faults
    }

    #[test]
    fn a_standby_is_late_only_for_watched_resources() {
        let reference = [
            request("watch", "shops.example.com", ""),
            request("create", "pods", ""),
            request("patch", "shops.example.com/status", "a"),
        ];
        let course = |fault: &Fault| fault.failover.clone().map(|it| (it.at.write, it.at.side, it.late, it.returns));
        let (before, after) = (CommitSide::BeforeCommit, CommitSide::AfterCommit);
        let expected = [
            (1, after, None, false),
            (1, before, None, false),
            (1, before, None, true),
            (2, after, Some("shops.example.com".to_owned()), false),
            (2, after, None, false),
            (2, before, None, false),
            (2, before, None, true),
        ];
        let found: Vec<_> = of_class("failover", &reference).iter().filter_map(course).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_write_is_a_place_for_a_swap_and_fits_into_a_file() {
        let reference = [request("get", "pods", "a"), request("patch", "pods", "a"), request("patch", "pods", "a")];
        let swaps = of_class("swap", &reference);
        let places: Vec<_> = swaps.iter().filter_map(|fault| fault.swap).map(|at| (at.write, at.side)).collect();
        let (before, after) = (CommitSide::BeforeCommit, CommitSide::AfterCommit);
        assert_eq!(places, [(1, after), (1, before), (2, after), (2, before)]);
        for fault in swaps.into_iter().chain(of_class("failover", &reference)) {
            let text = serde_json::to_string(&fault).expect("JSON");
            assert_eq!(serde_json::from_str::<Fault>(&text).expect(&text), fault);
        }
    }

    #[test]
    fn a_process_ends_only_once_and_is_swapped_only_once() {
        let reference = [request("patch", "pods", "a")];
        let one = |class: &str| of_class(class, &reference).remove(0);
        let [crash, failover, swap] = ["crash", "failover", "swap"].map(one);
        let other_swap = of_class("swap", &reference).remove(1);
        assert!(!crash.goes_with(&failover) && !failover.goes_with(&crash) && !swap.goes_with(&other_swap));
        assert!(swap.goes_with(&crash) && failover.goes_with(&swap));
    }
}
