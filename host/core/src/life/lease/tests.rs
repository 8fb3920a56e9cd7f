use super::*;

const TAKE: LeaseWish = LeaseWish::Hold { after: Duration::ZERO };

fn at(millis: u64) -> Moment {
    Moment(Duration::from_millis(millis))
}

fn timing() -> Timing {
    Timing::new(Duration::from_secs(15), Duration::from_secs(10), Duration::from_secs(2)).expect("client-go's own")
}

fn election() -> Election {
    Election::new("a".into(), timing())
}

fn record(holder: &str) -> LeaseRecord {
    LeaseRecord {
        holder: holder.into(),
        duration: Duration::from_secs(15),
        transitions: 3,
        acquired: Some("then".into()),
    }
}

#[allow(clippy::unnecessary_wraps, reason = "as it is handed over")]
fn found(version: &str, holder: &str) -> FoundLease {
    Some((version.into(), record(holder)))
}

fn written(version: &str) -> ElectionAnswer {
    ElectionAnswer::Written { version: version.into(), acquired: Some("then".into()) }
}

/// A candidate that has just acquired its lease, at 0.
fn holder() -> Election {
    let mut election = election();
    election.observe(None, at(0));
    assert!(matches!(election.next(at(0), TAKE), ElectionStep::Write { over: None, purpose: Purpose::Acquire, .. }));
    election.answered(written("1"), at(100), 0.0);
    election
}

#[test]
fn a_candidate_reads_before_it_writes_and_takes_a_free_lease() {
    let mut election = election();
    assert!(matches!(election.next(at(0), TAKE), ElectionStep::Look { .. }));
    election.answered(ElectionAnswer::Found(found("7", "")), at(50), 0.0);
    let ElectionStep::Write { over, record, purpose, limit } = election.next(at(50), TAKE) else {
        panic!("it is free")
    };
    assert_eq!((over.as_deref(), purpose, limit), (Some("7"), Purpose::Acquire, Duration::from_secs(5)));
    assert_eq!((&*record.holder, record.transitions, record.acquired), ("a", 4, None));
    assert_eq!(election.term(), None, "not before the server has said so");
}

#[test]
fn a_lease_is_taken_a_duration_after_its_last_seen_change() {
    let mut election = election();
    election.observe(found("1", "b"), at(1_000));
    assert_eq!(election.next(at(1_000), TAKE), ElectionStep::WaitUntil(at(16_000)));
    election.observe(found("2", "b"), at(9_000));
    election.observe(found("2", "b"), at(20_000));
    assert_eq!(election.next(at(20_000), TAKE), ElectionStep::WaitUntil(at(24_000)));
    let after = LeaseWish::Hold { after: Duration::from_secs(4) };
    assert_eq!(election.next(at(24_000), after), ElectionStep::WaitUntil(at(28_000)));
    assert!(matches!(election.next(at(24_000), TAKE), ElectionStep::Write { purpose: Purpose::Acquire, .. }));
}

#[test]
fn a_term_counts_from_before_the_renewal_was_sent() {
    let mut election = holder();
    assert_eq!(election.next(at(100), TAKE), ElectionStep::WaitUntil(at(2_000)));
    let ElectionStep::Write { purpose, record, .. } = election.next(at(2_000), TAKE) else { panic!("it is due") };
    assert_eq!((purpose, record.transitions), (Purpose::Renew, 0));
    election.answered(written("2"), at(6_900), 0.0);
    let term = election.term().expect("renewed");
    assert_eq!(term.until(), at(12_000));
    assert_eq!(term.may_start(at(11_999)), Some(Duration::from_millis(2_501)));
    assert_eq!(term.may_start(at(12_000)), None);
    assert_eq!(term.may_start(at(7_000)), Some(Duration::from_millis(7_500)), "it ends before the lease can");
}

/// As client-go's `tryAcquireOrRenew`, which copies both values from the record of the same holder.
#[test]
fn renewals_keep_the_acquire_time_and_the_transitions() {
    let mut election = holder();
    for round in 1..4 {
        let now = at(round * 2_000);
        let ElectionStep::Write { purpose, record, .. } = election.next(now, TAKE) else { panic!("it is due") };
        assert_eq!((purpose, record.transitions, record.acquired.as_deref()), (Purpose::Renew, 0, Some("then")));
        election.answered(written(&round.to_string()), now, 0.0);
    }
}

#[test]
fn a_holder_that_cannot_renew_stops_at_the_deadline() {
    let mut election = holder();
    let mut now = 2_000;
    while election.term().is_some() {
        match election.next(at(now), TAKE) {
            ElectionStep::WaitUntil(until) => now = u64::try_from(until.0.as_millis()).expect("soon"),
            ElectionStep::Look { limit } | ElectionStep::Write { limit, .. } => {
                now += u64::try_from(limit.as_millis()).expect("short");
                election.answered(ElectionAnswer::Failed, at(now), 0.5);
            }
        }
        assert!(now <= 10_000, "{now}");
    }
    assert_eq!((now, election.take_loss()), (10_000, Some(LeaseLoss::NotRenewed)));
}

#[test]
fn a_conflict_is_no_loss_until_another_holder_is_seen() {
    let mut election = holder();
    let ElectionStep::Write { .. } = election.next(at(2_000), TAKE) else { panic!("it is due") };
    election.answered(ElectionAnswer::Conflict, at(2_100), 0.0);
    assert!(matches!(election.next(at(2_100), TAKE), ElectionStep::Look { .. }));
    // A label was added to the Lease.
    election.answered(ElectionAnswer::Found(found("9", "a")), at(2_200), 0.0);
    let ElectionStep::Write { over, purpose, .. } = election.next(at(2_200), TAKE) else { panic!("at once") };
    assert_eq!((over.as_deref(), purpose), (Some("9"), Purpose::Renew));
    election.answered(ElectionAnswer::Conflict, at(2_300), 0.0);
    let _ = election.next(at(2_300), TAKE);
    election.answered(ElectionAnswer::Found(found("11", "b")), at(2_400), 0.0);
    assert_eq!((election.term(), election.take_loss()), (None, Some(LeaseLoss::Taken("b".into()))));
    assert_eq!(election.next(at(2_400), TAKE), ElectionStep::WaitUntil(at(17_400)));
}

#[test]
fn a_term_ends_before_the_release_is_sent_and_the_lease_is_free() {
    let mut election = holder();
    let ElectionStep::Write { record, purpose, over, .. } = election.next(at(2_000), LeaseWish::Yield) else {
        panic!("it lets go")
    };
    assert_eq!(election.term(), None);
    assert_eq!((purpose, over.as_deref(), &*record.holder), (Purpose::Release, Some("1"), ""));
    assert_eq!(record.duration, Duration::from_secs(1));
    // The answer is lost: the candidate reads the lease, and releases it again.
    election.answered(ElectionAnswer::Failed, at(7_000), 0.0);
    assert!(matches!(election.next(at(7_000), LeaseWish::Yield), ElectionStep::Look { .. }));
    election.answered(ElectionAnswer::Found(found("1", "a")), at(7_100), 0.0);
    assert!(matches!(
        election.next(at(7_100), LeaseWish::Yield),
        ElectionStep::Write { purpose: Purpose::Release, .. }
    ));
    election.answered(written("2"), at(7_200), 0.0);
    assert_eq!(election.next(at(60_000), LeaseWish::Yield), ElectionStep::WaitUntil(never()));

    let mut other = Election::new("b".into(), timing());
    other.observe(Some(("2".into(), record)), at(500));
    assert!(matches!(other.next(at(500), TAKE), ElectionStep::Write { purpose: Purpose::Acquire, .. }));
}

#[test]
fn an_acquisition_with_lost_answer_counts_from_the_next_write() {
    let mut election = election();
    election.observe(None, at(0));
    let _ = election.next(at(0), TAKE);
    election.answered(ElectionAnswer::Failed, at(5_000), 0.0);
    assert_eq!(election.term(), None);
    assert!(matches!(election.next(at(5_000), TAKE), ElectionStep::Look { .. }));
    election.answered(ElectionAnswer::Found(found("1", "a")), at(5_100), 0.0);
    assert_eq!(election.term(), None, "when it was written is not known");
    assert!(matches!(election.next(at(5_100), TAKE), ElectionStep::Write { .. }));
    election.answered(written("2"), at(5_300), 0.0);
    assert_eq!(election.term(), Some(LeaseTerm::new(at(5_100), timing())));
}

#[test]
fn a_deleted_lease_is_not_free_before_its_holder_can_know() {
    let mut election = election();
    election.observe(found("1", "b"), at(1_000));
    election.observe(None, at(2_000));
    assert_eq!(election.next(at(2_000), TAKE), ElectionStep::WaitUntil(at(16_000)));
    let ElectionStep::Write { over: None, .. } = election.next(at(16_000), TAKE) else { panic!("it makes a new one") };
}

/// A candidate that renewed at 0 and lost its lease at 10.
fn loser() -> Election {
    let mut election = holder();
    while election.term().is_some() {
        let ElectionStep::Write { .. } = election.next(at(9_900), TAKE) else { panic!("it is long due") };
        election.answered(ElectionAnswer::Failed, at(10_000), 0.0);
    }
    assert_eq!(election.take_loss(), Some(LeaseLoss::NotRenewed));
    assert!(matches!(election.next(at(12_000), LeaseWish::Yield), ElectionStep::Look { .. }));
    election
}

#[test]
fn a_lost_lease_is_not_released_before_its_requests_are_over() {
    let mut election = loser();
    election.answered(ElectionAnswer::Found(found("1", "a")), at(12_100), 0.0);
    assert_eq!(election.next(at(12_100), LeaseWish::Yield), ElectionStep::WaitUntil(at(15_000)));
    assert!(matches!(
        election.next(at(15_000), LeaseWish::Yield),
        ElectionStep::Write { purpose: Purpose::Release, .. }
    ));
}

#[test]
fn a_lease_won_back_is_kept_until_earlier_requests_are_over() {
    let mut election = loser();
    election.answered(ElectionAnswer::Found(found("1", "a")), at(12_100), 0.0);
    assert!(matches!(election.next(at(12_100), TAKE), ElectionStep::Write { purpose: Purpose::Acquire, .. }));
    election.answered(written("2"), at(12_200), 0.0);
    assert_eq!(election.next(at(12_300), LeaseWish::Yield), ElectionStep::WaitUntil(at(14_100)), "as a holder does");
    assert!(matches!(election.next(at(14_100), LeaseWish::Yield), ElectionStep::Write { purpose: Purpose::Renew, .. }));
    election.answered(written("3"), at(14_200), 0.0);
    assert_eq!(
        election.next(at(14_200), LeaseWish::Yield),
        ElectionStep::WaitUntil(at(15_000)),
        "its renewals stay in turn"
    );
    assert!(matches!(
        election.next(at(15_000), LeaseWish::Yield),
        ElectionStep::Write { purpose: Purpose::Release, .. }
    ));
    assert_eq!(election.take_loss(), Some(LeaseLoss::Released));
}

#[test]
fn a_lease_taken_by_another_and_free_again_can_be_acquired() {
    let mut election = holder();
    let ElectionStep::Write { .. } = election.next(at(2_000), TAKE) else { panic!("it is due") };
    election.answered(ElectionAnswer::Conflict, at(2_100), 0.0);
    let _ = election.next(at(2_100), TAKE);
    election.answered(ElectionAnswer::Found(found("2", "b")), at(2_200), 0.0);
    election.observe(found("3", ""), at(2_300));
    assert!(matches!(election.next(at(2_300), TAKE), ElectionStep::Write { purpose: Purpose::Acquire, .. }));
    election.answered(written("4"), at(2_400), 0.0);
    assert!(matches!(election.next(at(4_300), LeaseWish::Yield), ElectionStep::Write { purpose: Purpose::Renew, .. }));
}

#[test]
fn a_holder_releases_at_once_not_at_its_next_renewal() {
    let mut election = holder();
    let ElectionStep::Write { .. } = election.next(at(9_000), TAKE) else { panic!("it is due") };
    election.answered(written("2"), at(9_050), 1.0);
    assert_eq!(election.next(at(9_100), TAKE), ElectionStep::WaitUntil(at(11_400)));
    assert!(matches!(
        election.next(at(9_100), LeaseWish::Yield),
        ElectionStep::Write { purpose: Purpose::Release, .. }
    ));
    // A failure is not followed by another request at once.
    election.answered(ElectionAnswer::Failed, at(9_200), 0.0);
    assert_eq!(election.next(at(9_200), LeaseWish::Yield), ElectionStep::WaitUntil(at(11_100)));
}

#[test]
fn a_lease_that_is_given_up_runs_out() {
    let mut election = holder();
    let ElectionStep::Write { .. } = election.next(at(2_000), TAKE) else { panic!("it is due") };
    election.answered(written("2"), at(2_100), 0.0);
    election.give_up();
    assert_eq!((election.term(), election.take_loss()), (None, Some(LeaseLoss::GivenUp)));
    assert_eq!(election.next(at(2_500), LeaseWish::Yield), ElectionStep::WaitUntil(at(4_000)));
    assert_eq!(election.next(at(4_000), LeaseWish::Yield), ElectionStep::WaitUntil(at(17_000)));
    assert!(matches!(
        election.next(at(17_000), LeaseWish::Yield),
        ElectionStep::Write { purpose: Purpose::Release, .. }
    ));
    election.give_up();
    assert_eq!(election.take_loss(), None, "it is not held");
}

#[test]
fn a_restored_record_with_the_own_name_is_waited_for() {
    let mut election = loser();
    election.observe(found("2", "b"), at(30_000));
    // The server is restored to a state from before b's term, which b does not know yet.
    election.observe(found("1", "a"), at(40_000));
    assert_eq!(election.next(at(40_000), TAKE), ElectionStep::WaitUntil(at(55_000)));
    assert_eq!(
        election.next(at(40_000), LeaseWish::Yield),
        ElectionStep::WaitUntil(never()),
        "it is not its to release"
    );
    let ElectionStep::Write { purpose: Purpose::Acquire, .. } = election.next(at(55_000), TAKE) else {
        panic!("b knows by now")
    };
    election.answered(written("3"), at(55_100), 0.0);
    assert!(election.term().is_some());
}
