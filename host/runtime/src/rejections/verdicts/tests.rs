//! Tests of verdicts, and of replicas that publish and read them late.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::rejections::Rejections;

impl JudgedAt {
    pub(crate) fn from_millis(time: u64) -> Self {
        Self(time)
    }
}

fn rejection(digest: &str, time: u64) -> Rejection {
    Rejection { at: JudgedAt(time), ..Rejection::new(digest.into(), "it traps".into(), None) }
}

fn rejected(digest: &str, time: u64) -> RejectionVerdict {
    RejectionVerdict::Rejected(rejection(digest, time))
}

fn pardoned(digest: &str, time: u64) -> RejectionVerdict {
    RejectionVerdict::Pardoned { digest: digest.into(), at: JudgedAt(time) }
}

fn combined(verdicts: &[RejectionVerdict]) -> RejectionVerdicts {
    let mut combined = RejectionVerdicts::default();
    for verdict in verdicts {
        combined.add(verdict.clone());
    }
    combined
}

#[test]
fn a_pardon_is_of_one_digest_and_takes_nothing_else_away() {
    let (d1, d2) = (|| Some(rejection("d1", 1)), || Some(rejection("d2", 1)));
    let late = combined(&[pardoned("d1", 2)]);
    assert_eq!((late.over(d1()), late.over(d2()), late.over(None)), (None, d2(), None));
    let again = combined(&[pardoned("d1", 2), rejected("d1", 3)]);
    let new = Some(rejection("d1", 3));
    assert_eq!((again.over(d1()), again.over(d2())), (new.clone(), new));
    // All of these verdicts are published late.
    let both = combined(&[pardoned("d1", 2), rejected("d2", 3), pardoned("d2", 4)]);
    assert_eq!((both.over(d1()), both.over(d2()), both.over(None)), (None, None, None));
    assert_eq!(combined(&[rejected("d2", 2), pardoned("d1", 3)]).over(d1()), Some(rejection("d2", 2)));
}

#[test]
fn a_late_verdict_does_not_replace_a_later_judgement() {
    let newer = || Some(rejection("d2", 5));
    assert_eq!(combined(&[rejected("d1", 1)]).over(newer()), newer());
    assert_eq!(combined(&[pardoned("d2", 4)]).over(newer()), newer(), "it has failed again since");
    // An earlier version of the host wrote rejections without a time.
    assert_eq!(combined(&[rejected("d1", 1)]).over(Some(rejection("d2", 0))), Some(rejection("d1", 1)));
}

/// One step of a random history. The first number is the replica, the second the digest.
#[derive(Clone, Copy, Debug)]
enum Step {
    Reject(usize, usize),
    Pardon(usize, usize),
    /// Publishes its pending verdicts.
    Tell(usize),
    /// Reads the next state that the replicas share.
    Hear(usize),
}

const REPLICAS: usize = 3;
const DIGESTS: [&str; 3] = ["d1", "d2", "d3"];
const PLUGIN: &str = "webapp";

fn step() -> impl Strategy<Value = Step> {
    let (replica, digest) = (0..REPLICAS, 0..DIGESTS.len());
    prop_oneof![
        (replica.clone(), digest.clone()).prop_map(|(replica, digest)| Step::Reject(replica, digest)),
        (replica.clone(), digest).prop_map(|(replica, digest)| Step::Pardon(replica, digest)),
        replica.clone().prop_map(Step::Tell),
        replica.prop_map(Step::Hear),
    ]
}

#[derive(Default)]
struct Replica {
    rejections: Rejections,
    unpublished: RejectionVerdicts,
    /// The number of shared states that this replica has read.
    states_read: usize,
    /// How far this replica's clock is ahead.
    ahead: u64,
    /// The rejections that this replica knew when it pardoned their digests.
    over: BTreeSet<String>,
}

/// Replicas and their shared state. The reason of each rejection is its number.
struct Model {
    replicas: [Replica; REPLICAS],
    states: Vec<Option<Rejection>>,
    time: u64,
    /// True if all clocks are right.
    are_right: bool,
}

fn number(rejection: &Rejection) -> u64 {
    rejection.because.parse().expect("a number")
}

impl Model {
    fn new(ahead: [u64; REPLICAS]) -> Self {
        let replicas = ahead.map(|ahead| Replica { ahead, ..Replica::default() });
        Self { replicas, states: vec![None], time: 0, are_right: ahead == [0; REPLICAS] }
    }

    fn take(&mut self, step: Step) {
        let plugin = Arc::from(PLUGIN);
        self.time += 1;
        let (time, now) = (self.time, self.states.last().expect("the first").clone());
        match step {
            Step::Reject(replica, digest) => {
                let it = &mut self.replicas[replica];
                let rejection = Rejection::new(DIGESTS[digest].into(), time.to_string(), None);
                let judged = it.rejections.judged(&plugin, rejection, JudgedAt(time + it.ahead));
                it.unpublished.add(RejectionVerdict::Rejected(judged));
            }
            Step::Pardon(replica, digest) => {
                let (it, digest) = (&mut self.replicas[replica], Digest::from(DIGESTS[digest]));
                let known = it.rejections.known().into_iter().map(|(_, known)| known);
                it.over.extend(known.filter(|known| known.digest == digest).map(|known| known.because));
                let at = it.rejections.pardon(&plugin, &digest, JudgedAt(time + it.ahead));
                it.unpublished.add(RejectionVerdict::Pardoned { digest, at });
            }
            Step::Tell(replica) => {
                let combined = std::mem::take(&mut self.replicas[replica].unpublished);
                let after = combined.over(now.clone());
                if let (Some(before), Some(after), true) = (now, &after, self.are_right) {
                    let pardons = combined.pardoned.get(&before.digest).is_some_and(|at| *at > before.at);
                    assert!(pardons || number(after) >= number(&before), "it was judged before");
                }
                self.states.push(after);
            }
            Step::Hear(replica) => {
                let it = &mut self.replicas[replica];
                it.states_read = (it.states_read + 1).min(self.states.len() - 1);
                let state = self.states[it.states_read].clone();
                it.rejections.take_shared(state.into_iter().map(|state| (plugin.clone(), state)).collect());
            }
        }
        for it in &self.replicas {
            let back = it.rejections.known().into_iter().find(|(_, known)| it.over.contains(&known.because));
            assert_eq!(back, None, "the pardon is newer than the rejection");
        }
    }
}

proptest! {
    /// The claim holds for any clocks.
    #[test]
    fn a_replica_is_never_bound_again_by_a_rejection_that_it_pardoned(
        ahead in [0..50_u64, 0..50_u64, 0..50_u64], steps in proptest::collection::vec(step(), 1..100),
    ) {
        let mut model = Model::new(ahead);
        for step in steps {
            model.take(step);
        }
    }

    #[test]
    fn a_shared_verdict_is_replaced_only_by_a_later_one_or_a_pardon(
        steps in proptest::collection::vec(step(), 1..100),
    ) {
        let mut model = Model::new([0; REPLICAS]);
        for step in steps {
            model.take(step);
        }
    }
}
